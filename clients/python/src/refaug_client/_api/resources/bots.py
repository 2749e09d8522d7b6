"""Stored bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from refaug_client._api.bodies import request_body
from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.replies import DialogueReplies, PutBot, StoredBot
from refaug_client._api.readers import listing, read_model, read_nothing
from refaug_client._http.call import Call, path

Dialogue = Union[Sequence[str], Mapping[str, Any]]


class Bots(Resource[K]):
    """Bots by name: retrieval, a model behind an endpoint, a server of your own, fixed replies, a network."""

    @route
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[StoredBot]]:
        """Return bots by name, with their specifications; keys are never in these."""
        return listing("/v1/bots", StoredBot, "bots", after=after, limit=limit)

    @route
    def get(self, name: str) -> Call[StoredBot]:
        """Return a bot with the hash by which a change is noticed."""
        return Call("GET", path("v1", "bots", name), read_model(StoredBot))

    @route
    def put(
        self, name: str, specification: Mapping[str, Any], *, expected_sha256: Optional[str] = None
    ) -> Call[PutBot]:
        """Store a bot, or change one; `expected_sha256` refuses the change of a bot that has another hash.

        client.bots.put("echo", {"kind": "replay", "replies": ["Tell me more."], "cycle": True})
        """
        document = request_body(specification=dict(specification), expected_sha256=expected_sha256)
        return Call("PUT", path("v1", "bots", name), read_model(PutBot), body=document)

    @route
    def delete(self, name: str) -> Call[None]:
        """Take a bot away; what it has replied stays, with its hash."""
        return Call("DELETE", path("v1", "bots", name), read_nothing("name"))

    @route
    def reply(
        self, name: str, dialogues: Sequence[Dialogue], *, seed: Optional[int] = None, sha256: Optional[str] = None
    ) -> Call[DialogueReplies]:
        """Return a bot's reply to each dialogue, a list of turns or a dict with `turns`, `seed` and `id`.

            answer = client.bots.reply("mine", [["Hi!"], ["Hi!", "Hello.", "Rain?"]], seed=7)
            answer[0].reply

        `sha256` refuses a bot that has another hash, such as a bot that was changed meanwhile.
        """
        document = request_body(dialogues=[_dialogue(dialogue, seed) for dialogue in dialogues], sha256=sha256)
        route = path("v1", "bots", name, "replies")
        return Call("POST", route, read_model(DialogueReplies), body=document, timed=True)


def _dialogue(dialogue: Dialogue, seed: Optional[int]) -> dict[str, Any]:
    if isinstance(dialogue, str):
        raise TypeError("a dialogue is a list of turns, or a dict with `turns`; this is a text")
    fields = dict(dialogue) if isinstance(dialogue, Mapping) else {"turns": list(dialogue)}
    return fields if seed is None or "seed" in fields else {**fields, "seed": seed}
