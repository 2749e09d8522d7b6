"""Stored bots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from refaug_client._api.bodies import Body
from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.base import Rows
from refaug_client._api.models.replies import BotUses, DialogueReplies, PutBot, StoredBot

Dialogue = Union[Sequence[str], Mapping[str, Any]]


def _with_seed(body: Body) -> Body:
    """Return the body with the seed in each dialogue that has none."""
    seed = body.pop("seed", None)
    return {**body, "dialogues": [_dialogue(one, seed) for one in body["dialogues"]]}


def _dialogue(dialogue: Dialogue, seed: Optional[int]) -> Body:
    if isinstance(dialogue, str):
        raise TypeError("a dialogue is a list of turns, or a dict with `turns`; this is a text")
    fields = dict(dialogue) if isinstance(dialogue, Mapping) else {"turns": list(dialogue)}
    return fields if seed is None or "seed" in fields else {**fields, "seed": seed}


class Bots(Resource[K]):
    """Bots by name: retrieval, a model behind an endpoint, a server of your own, fixed replies, a network."""

    @route("GET", "/v1/bots", key="bots")
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[StoredBot]:
        """Return bots by name, with their specifications; keys are never in these."""

    @route("GET", "/v1/bot-use")
    def use(self) -> BotUses:
        """Return what each bot was asked and what it cost, and when it replied and failed last; without commands."""

    @route("GET", "/v1/bots/{name}")
    def get(self, name: str) -> StoredBot:
        """Return a bot with the hash by which a change is noticed."""

    @route("PUT", "/v1/bots/{name}")
    def put(self, name: str, specification: Mapping[str, Any], *, expected_sha256: Optional[str] = None) -> PutBot:
        """Store a bot, or change one; `expected_sha256` refuses the change of a bot that has another hash.

        client.bots.put("echo", {"kind": "replay", "replies": ["Tell me more."], "cycle": True})
        """

    @route("DELETE", "/v1/bots/{name}", key="name")
    def delete(self, name: str) -> None:
        """Take a bot away; what it has replied stays, with its hash."""

    @route("POST", "/v1/bots/{name}/replies", prepare=_with_seed, timed=True)
    def reply(
        self,
        name: str,
        dialogues: Sequence[Dialogue],
        *,
        seed: Optional[int] = None,
        sha256: Optional[str] = None,
        retrieved: Optional[bool] = None,
    ) -> DialogueReplies:
        """Return a bot's reply to each dialogue, a list of turns or a dict with `turns`, `seed` and `id`.

            answer = client.bots.reply("mine", [["Hi!"], ["Hi!", "Hello.", "Rain?"]], seed=7)
            answer[0].reply

        `sha256` refuses a bot that has another hash, such as a bot that was changed meanwhile. With `retrieved` replies
        of kind `retrieval` come with the best candidates.
        """
