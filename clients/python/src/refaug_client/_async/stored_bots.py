"""Stored bots; `_sync/stored_bots.py` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from refaug_client._api import calls, models

from .resource import AsyncResource


class AsyncBots(AsyncResource):
    """Bots by name: retrieval, a model behind an endpoint, a server of your own, fixed replies, a network."""

    async def list(
        self, *, after: Optional[str] = None, limit: Optional[int] = None, timeout_s: Optional[float] = None
    ) -> models.Rows[models.StoredBot]:
        """Return bots by name, with their specifications; keys are never in these."""
        return await self._list_all(
            lambda after, size: calls.list_bots(after=after, limit=size), after, limit, timeout_s
        )

    async def get(self, name: str, *, timeout_s: Optional[float] = None) -> models.StoredBot:
        """Return a bot with the hash by which a change is noticed."""
        return await self._send(calls.get_bot(name), timeout_s)

    async def put(
        self,
        name: str,
        specification: Mapping[str, Any],
        *,
        expected_sha256: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.PutBot:
        """Store a bot, or change one; `expected_sha256` refuses the change of a bot that has another hash.

        await client.bots.put("echo", {"kind": "replay", "replies": ["Tell me more."], "cycle": True})
        """
        return await self._send(calls.put_bot(name, specification, expected_sha256=expected_sha256), timeout_s)

    async def delete(self, name: str, *, timeout_s: Optional[float] = None) -> None:
        """Take a bot away; what it has replied stays, with its hash."""
        await self._send(calls.delete_bot(name), timeout_s)

    async def reply(
        self,
        name: str,
        dialogues: Sequence[calls.Dialogue],
        *,
        seed: Optional[int] = None,
        sha256: Optional[str] = None,
        timeout_s: Optional[float] = None,
    ) -> models.DialogueReplies:
        """Return a bot's reply to each dialogue, a list of turns or a dict with `turns`, `seed` and `id`.

            answer = await client.bots.reply("mine", [["Hi!"], ["Hi!", "Hello.", "Rain?"]], seed=7)
            answer[0].reply

        `sha256` refuses a bot that has another hash, such as a bot that was changed meanwhile.
        """
        return await self._send(calls.reply_to_dialogues(name, dialogues, seed=seed, sha256=sha256), timeout_s)
