"""A bot that retrieves: the reply that a search through everything and the written-out draw choose, in every mode."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest
from indexes import built, home_of, pairs_of
from plain_search import MODES, PlainSearch, RawPair
from safeguards import mostly_slow

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.bots.retrieval import RetrievalBot
from refaug.bots.specification import BotSpecification
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer

WORDS = ("tea", "coffee", "milk", "bread", "buy", "sell", "where", "market", "mill", "noon", "no", "yes", "the", "a")
START = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS = (1, 2, 77)


def text_of(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=random.choice((1, 2, 3, 5, 6, 8))))


def raw_pairs() -> list[RawPair]:
    """Few utterances with several responses each, in two logs, on forty days."""
    random = Random(3)
    utterances = [text_of(random) for _ in range(40)]
    return [
        RawPair(
            random.choice(("chat", "mail")),
            f"d{number % 25}",
            str(number),
            random.choice(utterances),
            text_of(random),
            START + timedelta(days=number % 40),
        )
        for number in range(300)
    ]


@pytest.fixture(scope="module")
def pairs():
    return raw_pairs()


@pytest.fixture(scope="module")
def vectors():
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    return dict(zip(WORDS, rows, strict=True))


@pytest.fixture(scope="module")
def index(tmp_path_factory, pairs, vectors):
    with built(home_of(tmp_path_factory.mktemp("home"), pairs, vectors)) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(pairs, vectors):
    return PlainSearch(pairs, vectors, get_tokenizer("word"))


def drawn_pairs(pairs: list[RawPair]) -> list[Item]:
    """Pairs of the log itself, whose golds are there to be found, and invented ones, some with supplied references."""
    random = Random(9)
    drawn = [
        Item(
            id=f"t{number}",
            turns=(pair.utterance,),
            references=(Reference(text=pair.response),),
            dialogue=random.choice((None, pair.dialogue)),
            exclude=tuple(random.sample(("d1", "d2", "d3"), random.choice((0, 0, 2)))),
        )
        for number, pair in enumerate(random.sample(pairs, 30))
    ]
    invented = [
        Item(
            id=f"i{number}",
            turns=("so", text_of(random)),
            references=(
                Reference(text=random.choice(pairs).response, source=Origin.SUPPLIED, weight=0.5),
                Reference(text=text_of(random)),
            ),
        )
        for number in range(20)
    ]
    return drawn + invented


def bot_of(index, **settings: str) -> RetrievalBot:
    written = tuple((key.replace("_", "-"), setting) for key, setting in settings.items())
    return RetrievalBot.of(BotSpecification(kind="retrieval", source="chat", settings=written), index)


def own_texts(pair: Item) -> list[str]:
    golds = [reference.text for reference in pair.references if reference.source is Origin.GOLD]
    return golds + [reference.text for reference in pair.references if reference.source is Origin.SUPPLIED]


def draw_of(pair: Item, seed: int, count: int) -> int:
    """The place that is drawn, as docs/bots.md writes it."""
    golds = [reference.text for reference in pair.references if reference.source is Origin.GOLD]
    text = json.dumps([seed, list(pair.turns), golds])
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) % count


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("k", mostly_slow([1, 4], quick=[1]))
def test_the_reply_is_drawn_among_the_best_of_all_pairs(index, plain, pairs, mode, k) -> None:
    bot, tests, replied = bot_of(index, mode=mode, k=str(k)), drawn_pairs(pairs), 0
    for seed in SEEDS:
        replies = bot.replies([ReplyRequest(item=pair, seed=seed) for pair in tests])
        searched = index.search([pair_with_golds(pair) for pair in tests], bot.search)
        for pair, reply, seen in zip(tests, replies, searched, strict=True):
            levels = {(one.utterance, one.text): round(one.similarity * 1_000_000) for one in seen.references}
            expected = plain.search(pair_with_golds(pair), bot.search, levels)
            assert len(expected.references) <= k
            if not expected.references:
                assert reply == BotReply(text=None, problem=expected.note or "nothing_retrieved")
                continue
            replied += 1
            place = draw_of(pair, seed, len(expected.references))
            assert reply == BotReply(text=expected.references[place].text)
    assert replied > 100


def pair_with_golds(pair: Item) -> Item:
    """What may not be replied: the golds, and the references that people supplied."""
    return replace(pair, references=tuple(Reference(text=text) for text in own_texts(pair)))


@pytest.mark.parametrize("mode", MODES)
def test_no_reply_is_a_reference_the_utterance_or_of_the_own_dialogue(index, pairs, mode) -> None:
    tests = drawn_pairs(pairs)
    dialogues = dict[str, set[str]]()
    for pair in pairs:
        dialogues.setdefault(normalise(pair.response), set()).add(pair.dialogue)
    for seed in SEEDS:
        for pair, reply in zip(
            tests,
            bot_of(index, mode=mode, k="15").replies([ReplyRequest(item=pair, seed=seed) for pair in tests]),
            strict=True,
        ):
            if reply.text is not None:
                assert normalise(reply.text) not in {normalise(text) for text in (*own_texts(pair), pair.utterance)}
                assert dialogues[normalise(reply.text)] - {pair.dialogue, *pair.exclude}


def test_replies_depend_neither_on_order_nor_on_the_batch_nor_on_ids(index, pairs) -> None:
    bot = bot_of(index, mode="bm25-utterance", k="10")
    requests = [ReplyRequest(item=pair, seed=5) for pair in drawn_pairs(pairs)]
    together = bot.replies(requests)
    assert [bot.replies([request])[0] for request in requests] == together
    assert bot.replies(requests[::-1]) == together[::-1]
    renamed = [replace(request, item=replace(request.item, id=f"x{place}")) for place, request in enumerate(requests)]
    assert bot.replies(renamed) == together
    others = bot.replies([replace(request, seed=6) for request in requests])
    assert sum(one != other for one, other in zip(together, others, strict=True)) > len(together) / 2


def test_every_candidate_is_drawn_about_as_often() -> None:
    """Over 4,000 seeds each of four candidates comes 1,000 times, give or take five standard deviations."""
    from refaug.bots.retrieval import choose_reply  # noqa: PLC0415

    candidates = [Reference(text=text) for text in "abcd"]
    pair = Item(id="t", turns=("hello",), references=(Reference(text="gold"),))
    counts = Counter(choose_reply(ReplyRequest(item=pair, seed=seed), candidates).text for seed in range(4_000))
    assert set(counts) == set("abcd")
    assert all(abs(count - 1_000) < 5 * (4_000 * 0.25 * 0.75) ** 0.5 for count in counts.values())


def test_logs_and_times_are_left_out_as_told(index, pairs) -> None:
    tests = drawn_pairs(pairs)
    bot = bot_of(index, k="15", exclude_log="chat", after="2026-01-11", before="2026-01-21T00:00:00+00:00")
    allowed = {
        normalise(pair.response)
        for pair in pairs
        if pair.log == "mail" and START + timedelta(days=10) <= pair.time < START + timedelta(days=20)
    }
    replies = bot.replies([ReplyRequest(item=pair, seed=1) for pair in tests])
    texts = {normalise(reply.text) for reply in replies if reply.text is not None}
    assert len(texts) > 5
    assert texts <= allowed
    assert bot.provenance == {
        "kind": "retrieval",
        "index": index.spec,
        "mode": "embedding-utterance",
        "k": "15",
        "exclude-logs": "chat",
        "after": "2026-01-11T00:00:00+00:00",
        "before": "2026-01-21T00:00:00+00:00",
    }


def test_what_cannot_be_replied_to_says_why(tmp_path) -> None:
    with built(home_of(tmp_path, pairs_of(("where is tea", "at the mill")), {"tea": (1.0, 0.0)})) as small:
        bot = bot_of(small, mode="bm25-dialog")
        requests = [
            ReplyRequest(item=pair, seed=1)
            for pair in (
                Item(id="a"),
                Item(id="b", turns=("where is tea",)),
                Item(id="c", turns=("zork",), references=(Reference(text="yes"),)),
                Item(id="d", turns=("tea",), references=(Reference(text="At the mill!"),)),
            )
        ]
        assert [reply.problem for reply in bot.replies(requests)] == [
            "no_utterance",
            "no_gold",
            "no_known_word",
            "nothing_retrieved",
        ]
        assert bot.warnings == ("bm25-dialog compares with the gold, which a system under test never sees",)
        assert bot_of(small).warnings == ()
