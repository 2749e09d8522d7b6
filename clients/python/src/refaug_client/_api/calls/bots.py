"""The calls about stored bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from refaug_client._api import models
from refaug_client._api.items import OnError
from refaug_client._http.call import Answer, Call, path

from .bodies import PAGE, request_body
from .readers import read_model, read_page

Dialogue = Union[Sequence[str], Mapping[str, Any]]


def list_bots(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.StoredBot]]:
    """GET /v1/bots: one page."""
    return Call("GET", "/v1/bots", read_page(models.StoredBot, "bots"), query={"after": after, "limit": limit})


def get_bot(name: str) -> Call[models.StoredBot]:
    """GET /v1/bots/{name}."""
    return Call("GET", path("v1", "bots", name), read_model(models.StoredBot))


def put_bot(
    name: str, specification: Mapping[str, Any], *, expected_sha256: Optional[str] = None
) -> Call[models.PutBot]:
    """PUT /v1/bots/{name}."""
    document = request_body(specification=dict(specification), expected_sha256=expected_sha256)
    return Call("PUT", path("v1", "bots", name), read_model(models.PutBot), body=document)


def delete_bot(name: str) -> Call[None]:
    """DELETE /v1/bots/{name}."""
    return Call("DELETE", path("v1", "bots", name), _require_name)


def reply_to_dialogues(
    name: str, dialogues: Sequence[Dialogue], *, seed: Optional[int] = None, sha256: Optional[str] = None
) -> Call[models.DialogueReplies]:
    """POST /v1/bots/{name}/replies; a list of turns is a dialogue, and `seed` is of those that have none."""
    document = request_body(dialogues=[_dialogue(dialogue, seed) for dialogue in dialogues], sha256=sha256)
    route = path("v1", "bots", name, "replies")
    return Call("POST", route, read_model(models.DialogueReplies), body=document, timed=True)


def score_conversations(
    hybrid: str,
    conversations: Optional[Sequence[Mapping[str, Any]]] = None,
    *,
    self_play: Optional[str] = None,
    on_error: Optional[OnError] = None,
) -> Call[models.HybridScores]:
    """POST /v1/hybrids/{name}/scores; the server wants either conversations or a self-play."""
    document = request_body(
        conversations=None if conversations is None else list(map(dict, conversations)),
        self_play=self_play,
        on_error=on_error,
    )
    return Call("POST", path("v1", "hybrids", hybrid, "scores"), read_model(models.HybridScores), body=document)


def _dialogue(dialogue: Dialogue, seed: Optional[int]) -> dict[str, Any]:
    if isinstance(dialogue, str):
        raise TypeError("a dialogue is a list of turns, or a dict with `turns`; this is a text")
    fields = dict(dialogue) if isinstance(dialogue, Mapping) else {"turns": list(dialogue)}
    return fields if seed is None or "seed" in fields else {**fields, "seed": seed}


def _require_name(answer: Answer) -> None:
    answer.json()["name"]
