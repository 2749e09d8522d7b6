"""Replies of bots: what the server gives, in however many requests, and items that can be scored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kinds import KINDS, Opened
from refusals import refusing
from scripted import Asked, Said, ok, scripted
from serving import small_items

from refaug_client import BadInput, BotReplies, Client

BOTS = {"c-bm25": "retrieval:chat,mode=bm25-utterance", "drawn": "retrieval:chat,k=5,seed=2"}
ITEMS: list[dict[str, Any]] = [
    {key: item[key] for key in ("utterance", "references")} for item in small_items(23, seed=8)
]


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, url: str) -> Iterator[Any]:
    made = Opened(request.param)
    yield made(url)
    made.close()


def test_many_requests_give_what_one_gives(client: Any) -> None:
    whole = client.replies(ITEMS, BOTS, batch=100)
    parts = client.replies(ITEMS, BOTS, batch=4, at_once=3)
    assert isinstance(whole, BotReplies)
    assert parts == whole
    assert [item.id for item in whole] == [f"item-{number}" for number in range(23)]
    assert all(sorted(item.replies) == ["c-bm25", "drawn"] for item in whole)
    assert whole.reply_provenance == whole[0].reply_provenance
    assert {system: bot.partition("@")[0] for system, bot in whole.bots.items()} == dict.fromkeys(
        BOTS, "retrieval:chat"
    )


def test_items_come_back_as_they_were_and_can_be_scored(client: Any) -> None:
    replied = client.replies(ITEMS, BOTS)
    sent = [item.to_dict() for item in replied]
    assert [[one["text"] for one in item["references"]] for item in sent] == [item["references"] for item in ITEMS]
    scores = client.score(replied, metric="bleu", references="given")
    assert list(scores.to_dict()["scores"][0]["systems"]) == ["c-bm25", "drawn"]
    assert scores.reply_provenance == replied.reply_provenance
    assert client.score(replied, metric="bleu", references="given", batch=5).reply_provenance == scores.reply_provenance


def test_missing_replies_are_rows_of_the_frame_without_a_text(url: str) -> None:
    with Client(url) as client:
        replied = client.replies([*ITEMS[:1], {"id": "mute"}], {"x": BOTS["c-bm25"]})
        rows = replied.to_frame("polars").to_dicts()
        assert rows == [
            {"item": "item-0", "system": "x", "reply": replied[0].replies["x"], "no_reply": None},
            {"item": "mute", "system": "x", "reply": None, "no_reply": "no_utterance"},
        ]
        assert len(client.replies([*ITEMS[:1], {"id": "mute"}], {"x": BOTS["c-bm25"]}, without_reply="skip")) == 1
        with refusing(BadInput, "no_utterance"):
            client.replies([{"id": "mute"}], {"x": BOTS["c-bm25"]}, without_reply="refuse")
        for batch in (1, 100):
            with refusing(BadInput, "no_utterance"):
                client.replies(
                    [*ITEMS[:1], {"id": "mute"}],
                    {"x": BOTS["c-bm25"]},
                    on_error="report",
                    without_reply="refuse",
                    batch=batch,
                )
        with refusing(BadInput, "oracle"):
            client.replies(ITEMS[:1], {"x": "oracle:chat"})
        clash = [{"id": "a", "utterance": "i like boats", "replies": {"x": "old"}}]
        with refusing(BadInput):
            client.replies(clash, {"x": BOTS["c-bm25"]})
        assert client.replies(clash, {"x": BOTS["c-bm25"]}, replace=True)["a"].replies["x"] != "old"


def test_later_requests_name_the_version_that_answered_the_first() -> None:
    def answer(asked: Asked) -> Said:
        items = [{"id": item["id"], "replies": {"x": "yes"}} for item in asked.json["items"]]
        pinned = {"x": "retrieval:chat@7,k=2"}
        return ok(
            {
                "items": items,
                "bots": pinned,
                "reply_provenance": {"x": "kind:retrieval"},
                "problems": [],
                "warnings": [],
            }
        )

    with scripted(answer) as server, Client(server.url) as client:
        assert len(client.replies(ITEMS[:6], {"x": "retrieval:chat,k=2"}, batch=2)) == 6
        bots = [asked.json["bots"]["x"] for asked in server.requests]
    assert bots == ["retrieval:chat,k=2", "retrieval:chat@7,k=2", "retrieval:chat@7,k=2"]
