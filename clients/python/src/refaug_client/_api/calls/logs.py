"""The calls about logs."""

from __future__ import annotations

from typing import Any, Optional

from refaug_client._api import models
from refaug_client._api.items import Dialogues, OnError
from refaug_client._http.call import Call, path

from .bodies import PAGE, request_body, to_list
from .readers import read_model, read_page


def list_logs(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Log]]:
    """GET /v1/logs: one page."""
    return Call("GET", "/v1/logs", read_page(models.Log, "logs"), query={"after": after, "limit": limit})


def get_log(name: str) -> Call[models.Log]:
    """GET /v1/logs/{name}."""
    return Call("GET", path("v1", "logs", name), read_model(models.Log))


def list_ingests(name: str, *, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Ingest]]:
    """GET /v1/logs/{name}/ingests: one page."""
    read = read_page(models.Ingest, "ingests")
    return Call("GET", path("v1", "logs", name, "ingests"), read, query={"after": after, "limit": limit})


def post_dialogues(name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None) -> Call[models.Posted]:
    """POST /v1/logs/{name}/dialogues: dialogues that are sent twice are stored once."""
    dialogue_list = [_with_turns(dialogue) for dialogue in to_list(dialogues, "dialogues")]
    document = request_body(dialogues=dialogue_list, on_error=on_error)
    return Call("POST", path("v1", "logs", name, "dialogues"), read_model(models.Posted), body=document)


def _with_turns(dialogue: Any) -> Any:
    return {"turns": list(dialogue)} if isinstance(dialogue, (list, tuple)) else dialogue


def erase_dialogue(name: str, dialogue: str) -> Call[models.Job]:
    """DELETE /v1/logs/{name}/dialogues/{dialogue}."""
    return Call("DELETE", path("v1", "logs", name, "dialogues", dialogue), read_model(models.Job), keyed=True)
