"""A stored bot of kind neural with a real network: it replies, begins conversations, draws among beams, and plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from extras.judges.integration.test_adem_commands import TINY
from integration.conftest import Home
from vhreds import tiny_vhred

from refaug.bots.generation import GeneratingBot
from refaug.bots.replier import ReplyRequest
from refaug.core.records import Item
from refaug.rater.adem.vhred.artefact import Vhred, choose_reply
from refaug.rater.adem.vhred.sizes import GenerationSettings

ONE = ("--threads", "1")


@pytest.fixture(scope="module")
def vhred(tmp_path_factory: pytest.TempPathFactory) -> Vhred:
    return tiny_vhred(tmp_path_factory.mktemp("tiny"))


def requests(*seeds: int) -> list[ReplyRequest]:
    return [ReplyRequest(item=Item(id="x", turns=("",)), seed=seed) for seed in seeds]


def test_a_beam_is_drawn_by_rank_and_the_last_never() -> None:
    ranked = [[1], [1, 2], [1, 2, 3]]
    drawn = [choose_reply(ranked, "priority", place / 900) for place in range(900)]
    assert [drawn.count(reply) for reply in ranked] == [600, 300, 0]
    drawn = [choose_reply(ranked, "length", place / 900) for place in range(900)]
    assert [drawn.count(reply) for reply in ranked] == [150, 300, 450]
    assert choose_reply(ranked, "best", 0.9) == [1]
    assert choose_reply([[], [7], []], "priority", 0.99) == [7]
    assert {len(choose_reply([[], []], "priority", place / 10)) for place in range(10)} == {0}


def test_drawn_beams_are_those_of_the_seed_in_any_batch(vhred: Vhred) -> None:
    settings = GenerationSettings(method="beam", beams=5, choice="priority", max_tokens=8)
    contexts = [("i see the red boat", "you want the old map"), (), ("we buy green tea",)] * 4
    seeds = list(range(12))
    whole = vhred.generate(contexts, settings, seeds)
    single = [vhred.generate([context], settings, [seed])[0] for context, seed in zip(contexts, seeds, strict=True)]
    assert whole == single
    assert len(set(whole)) > 3
    best = GenerationSettings(method="beam", beams=5, max_tokens=8)
    assert vhred.generate(contexts[:3], best, [1, 2, 3]) == vhred.generate(contexts[:3], best, [4, 5, 6])


def test_a_network_begins_a_conversation_after_the_end_of_a_turn_alone(vhred: Vhred) -> None:
    bot = GeneratingBot(vhred=vhred, settings=GenerationSettings(method="sample", max_tokens=8))
    texts = [reply.text for reply in bot.openings(requests(*range(8)))]
    assert all(texts)
    assert len(set(texts)) > 1
    assert texts[3:5] == [reply.text for reply in bot.openings(requests(3, 4))]
    assert [reply.problem for reply in bot.replies(requests(1))] == ["no_utterance"]


@pytest.mark.slow
def test_a_trained_network_plays_and_replies_under_a_name(ready: Home, tmp_path: Path) -> None:
    pretrain = ready("train", "vhred", "chat", "--name", "small", *TINY, "--max-tokens", "12", "--turns", "1")
    assert pretrain.code == 0, pretrain.err
    file = tmp_path / "net.json"
    fields: dict[str, Any] = {"kind": "neural", "vhred": "small", "method": "beam", "beams": 5, "choice": "priority"}
    file.write_bytes(orjson.dumps({**fields, "max_tokens": 30}))
    assert ready("bots", "add", "net", file).code == 0
    play = (
        "bots",
        "play",
        "net",
        "--conversations",
        "6",
        "--turns",
        "4",
        "--rules",
        "published",
        "--name",
        "net",
        *ONE,
        "--json",
    )
    versions = [ready(*play, "--batch", batch).json["version"] for batch in ("2", "6")]
    folder = ready.path / "self-plays" / "net"
    contents = [(folder / version / "conversations.jsonl").read_bytes() for version in versions]
    assert contents[0] == contents[1]
    rows = list(map(orjson.loads, contents[0].splitlines()))
    assert [len(row["turns"]) for row in rows] == [4] * 6
    assert ready("bots", "try", "net", "Where is the tea?", "--json").json["reply"]
