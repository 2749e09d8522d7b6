"""Specifications of stored bots: hashes, what is refused with its field, and what is pinned."""

from __future__ import annotations

import hashlib
import json

import pytest
from refusals import refusing

from refaug.bots.stored.specification import StoredBot, pinned
from refaug.core.errors import BadInput

CHAT = {"kind": "openai", "url": "http://127.0.0.1:1/v1", "model": "small"}
REPLAY = {"kind": "replay", "replies": ["a"]}


def test_the_hash_is_of_the_sorted_json_and_not_of_the_name() -> None:
    bot = StoredBot.of("mine", {"replies": ["ä"], "kind": "replay"})
    expected = hashlib.sha256('{"kind":"replay","replies":["ä"]}'.encode()).hexdigest()
    assert bot.sha256 == expected
    assert bot.spec == f"mine#{expected[:12]}"
    assert StoredBot.of("other", json.loads(bot.content)).sha256 == expected
    assert StoredBot.of("mine", {**REPLAY, "cycle": True}).sha256 != StoredBot.of("mine", REPLAY).sha256


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "bot mine, kind: None is not a kind of bot"),
        ({"kind": "chatbot"}, "chatbot"),
        ({"kind": ["replay"]}, "is not a kind of bot"),
        ({"kind": "replay"}, "replies: a list of texts was expected"),
        ({"kind": "replay", "replies": ["a", " "]}, "replies[1]"),
        ({**REPLAY, "reply": "a"}, "reply: there is no such field"),
        ({**REPLAY, "pick": "best"}, "best"),
        ({**REPLAY, "pick": "sample", "cycle": True}, "cycle: it has no effect"),
        ({"kind": "retrieval"}, "index: a text was expected"),
        ({"kind": "retrieval", "index": "../x"}, "../x"),
        ({"kind": "retrieval", "index": "chat", "pick": "sample(0,5)"}, "neither top nor sample"),
        ({"kind": "retrieval", "index": "chat", "pick": "sample(1)"}, "neither top nor sample"),
        ({"kind": "retrieval", "index": "chat", "mode": "bm25-dialog"}, "compares with a gold"),
        ({"kind": "retrieval", "index": "chat", "mode": "bm25"}, "bm25"),
        ({**CHAT, "api_key": "sk-abc"}, "api_key"),
        ({**CHAT, "url": "http://user:pw@host/v1"}, "url: there is a key in it"),
        ({**CHAT, "url": "ftp://host/v1"}, "url: it is not an address"),
        ({**CHAT, "temperature": -1}, "temperature: -1 is not possible"),
        ({**CHAT, "max_tokens": 1.5}, "max_tokens"),
        ({**CHAT, "parameters": {"stream": True}}, "parameters.stream"),
        ({**CHAT, "max_answer_bytes": 10**9}, "max_answer_bytes"),
        ({"kind": "http", "url": "http://127.0.0.1:1/", "model": "x"}, "model: there is no such field"),
        ({"kind": "degraded", "bot": "c-bm25"}, "bot: a bot of another kind was expected"),
        ({"kind": "degraded", "bot": {"kind": "degraded"}}, "bot: a bot of another kind was expected"),
        ({"kind": "degraded", "bot": REPLAY}, "pool: there are no texts"),
        ({"kind": "degraded", "bot": {**REPLAY, "replies": []}, "pool": ["a", "b"]}, "bot mine, bot, replies"),
        ({"kind": "degraded", "bot": REPLAY, "pool": ["a", "b"], "share": 0}, "share: nothing would be replaced"),
        ({"kind": "neural", "vhred": "net", "beams": 3}, "beams has no effect with method=greedy"),
    ],
)
def test_a_wrong_specification_names_its_field(fields, message) -> None:
    with refusing(BadInput, message):
        StoredBot.of("mine", fields)


def test_artefacts_get_their_version_and_wrapped_bots_are_written_out() -> None:
    wrapped = StoredBot.of("c-bm25", {"kind": "retrieval", "index": "chat@2026-11-20.1"})
    fields = pinned(
        {"kind": "degraded", "bot": "c-bm25", "pool": ["a", "b"]},
        lambda _kind, spec: f"{spec}@2026-11-20.2",
        {"c-bm25": wrapped}.__getitem__,
    )
    assert fields["bot"] == {"kind": "retrieval", "index": "chat@2026-11-20.1", "name": "c-bm25"}
    bot = StoredBot.of("worse", fields)
    assert bot.wrapped is not None
    assert (bot.wrapped.name, bot.sources) == ("c-bm25", (("index", "chat@2026-11-20.1"),))
    inline = pinned({"kind": "retrieval", "index": "chat"}, lambda kind, spec: f"{kind}-{spec}", {}.__getitem__)
    assert inline == {"kind": "retrieval", "index": "index-chat"}
