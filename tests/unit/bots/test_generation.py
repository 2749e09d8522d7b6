"""The bot that writes replies with a VHRED."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing
from vhreds import SENTENCES, tiny_vhred

from refaug.bots.generation import GeneratingBot
from refaug.bots.kinds import BotSources, open_bot, parse_bot
from refaug.bots.replier import ReplyRequest
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item


def requests(*dialogues: tuple[str, ...], seed: int = 1) -> list[ReplyRequest]:
    return [ReplyRequest(item=Item(id=str(number), turns=turns), seed=seed) for number, turns in enumerate(dialogues)]


def bot(folder: Path, text: str = "vhred:tiny", **sizes: object) -> GeneratingBot:
    vhred = tiny_vhred(folder, **sizes)
    vhred.spec = "tiny@1#abc"

    def no_index(_name: str) -> None:
        raise AssertionError("it needs no index")

    replier = open_bot(parse_bot(text), BotSources(open_index=no_index, open_vhred=lambda _name: vhred))  # type: ignore[arg-type]
    assert isinstance(replier, GeneratingBot)
    return replier


def test_replies_come_in_the_order_of_the_requests(tmp_path: Path) -> None:
    replier = bot(tmp_path)
    replies = replier.replies(requests((SENTENCES[0],), (SENTENCES[40], SENTENCES[3])))
    alone = [replier.replies(requests(turns))[0] for turns in ((SENTENCES[0],), (SENTENCES[40], SENTENCES[3]))]
    assert replies == alone
    assert all(reply.text for reply in replies)


def test_a_dialogue_without_an_utterance_has_no_reply(tmp_path: Path) -> None:
    replies = bot(tmp_path).replies(requests((), ("hello", " "), (SENTENCES[1],)))
    assert [reply.problem for reply in replies] == ["no_utterance", "no_utterance", ""]


def test_samples_depend_on_the_seed_and_the_turns_alone(tmp_path: Path) -> None:
    replier = bot(tmp_path, "vhred:tiny,method=sample,top-k=20,temperature=0.8,max-tokens=8,seed=4")
    first = replier.replies(requests((SENTENCES[0],), (SENTENCES[9],)))
    assert replier.replies(requests((SENTENCES[9],), (SENTENCES[0],))) == first[::-1]
    assert replier.replies(requests((SENTENCES[0],), (SENTENCES[9],), seed=2)) != first
    assert replier.is_random


def test_the_provenance_names_the_network_and_the_method(tmp_path: Path) -> None:
    assert bot(tmp_path, "vhred:tiny,method=beam,beams=3").provenance == {
        "kind": "vhred",
        "vhred": "tiny@1#abc",
        "method": "beam",
        "beams": "3",
        "max-tokens": "40",
    }
    assert not bot(tmp_path).is_random


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vhred:tiny,beams=3", "beams has no effect with method=greedy"),
        ("vhred:tiny,method=best", "method=best is not known"),
        ("vhred:tiny,method=sample,temperature=hot", "temperature=hot"),
        ("vhred:tiny,mode=bm25-utterance", "mode"),
        ("vhred:", "does not say from which vhred"),
    ],
)
def test_specifications_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with refusing(Usage, message):
        parse_bot(text)


def test_a_seed_without_sampling_is_refused(tmp_path: Path) -> None:
    with refusing(Usage):
        bot(tmp_path, "vhred:tiny,seed=3")


def test_a_network_that_was_never_trained_writes_nothing(tmp_path: Path) -> None:
    with refusing(BadInput):
        bot(tmp_path, cell="random")
