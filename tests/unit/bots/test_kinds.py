"""Specifications of bots: what is read, and what is refused with the kinds and keys that there are."""

from __future__ import annotations

import pytest
from indexes import built, home_of, pairs_of
from refusals import refusing

from refaug.bots.kinds import KINDS, BotSources, open_bot, parse_bot
from refaug.bots.specification import DEFAULT_SEED, SEED, BotSpecification
from refaug.core.errors import Usage
from refaug.indexer.search.search_settings import MODES


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with built(home_of(tmp_path_factory.mktemp("home"), pairs_of(("tea", "yes")), {"tea": (1.0, 0.0)})) as opened:
        yield opened


def test_a_specification_reads_back_as_it_was_written() -> None:
    text = "retrieval:chat@2026-11-23.1,mode=bm25-utterance,k=10,exclude-log=a,exclude-log=b,seed=7"
    specification = parse_bot(f" {text} ")
    assert str(specification) == text
    assert (specification.kind, specification.source, specification.seed) == ("retrieval", "chat@2026-11-23.1", 7)
    assert specification.texts("exclude-log") == ("a", "b")
    assert parse_bot("retrieval:chat").seed == DEFAULT_SEED


def test_times_may_have_colons_and_spaces_are_dropped() -> None:
    specification = parse_bot("retrieval:chat, after=2026-01-01T08:30:00+00:00 , k = 2")
    assert specification.text("after") == "2026-01-01T08:30:00+00:00"
    assert specification.text("k") == "2"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "does not say from which", "bot:"),
        (":", "there is no kind of bot ''", "retrieval:INDEX,key=value,… with the keys mode, k, "),
        ("retrievel:chat", "retrievel", "exclude-log, after, before, seed"),
        ("retrieval:,k=2", "does not say from which index", "retrieval:INDEX"),
        ("retrieval:mode=bm25-utterance", "does not say from which index", "retrieval:INDEX"),
        ("retrieval:chat,mode", "retrieval:chat,mode", "mode=bm25-utterance"),
        ("retrieval:chat,", "retrieval:chat", "mode=bm25-utterance"),
        ("retrieval:chat,k=", "retrieval:chat,k=", "mode=bm25-utterance"),
        ("retrieval:chat,K=2", "retrieval has no key 'K'", "mode, k, exclude-log, after, before, seed"),
        ("retrieval:chat,k=2,k=3", "k comes twice", "once"),
        ("retrieval:chat,mode=bm25", "bm25", ", ".join(MODES)),
        ("retrieval:chat,k=0", "k=0", "1,000"),
        ("retrieval:chat,k=1001", "k=1001", "1,000"),
        ("retrieval:chat,k=2.0", "k=2.0", "a whole number"),
        ("retrieval:chat,k=²", "k=²", "a whole number"),
        ("retrieval:chat,k=2,seed=-1", "seed=-1", "4,294,967,295"),
        (f"retrieval:chat,k=2,seed={'9' * 5_000}", "seed=9", "4,294,967,295"),
        ("retrieval:chat,after=noon", "after=noon is not a time", "2026-11-20"),
    ],
)
def test_a_wrong_specification_is_refused_with_what_would_be_right(text, message, remedy) -> None:
    with pytest.raises(Usage) as refusal:
        parse_bot(text)
    assert message in refusal.value.message
    assert remedy in refusal.value.remedy


def test_a_bot_opens_its_source_and_refuses_what_it_lacks(index) -> None:
    opened = list[str]()

    def open_index(spec: str):
        opened.append(spec)
        return index

    sources = BotSources(open_index=open_index, open_vhred=lambda _: pytest.fail("no network"))
    bot = open_bot(parse_bot("retrieval:chat@1,k=3,seed=4"), sources)
    assert opened == ["chat@1"]
    assert (bot.is_random, bot.provenance["k"]) == (True, "3")
    assert not open_bot(parse_bot("retrieval:chat"), sources).is_random
    with refusing(Usage):
        open_bot(parse_bot("retrieval:chat,seed=4"), sources)
    with refusing(Usage, "mail"):
        open_bot(parse_bot("retrieval:chat,exclude-log=mail"), sources)


def test_every_kind_checks_its_keys() -> None:
    for name, kind in KINDS.items():
        assert SEED not in kind.keys
        assert set(kind.repeated_keys) <= set(kind.keys)
        kind.check(BotSpecification(kind=name, source="chat"))
