"""The asyncio client's calls of bots; `_sync/bots.py` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from refaug_client._api import calls, models
from refaug_client._api.items import Items, OnError, WithoutReply
from refaug_client._core.progress import Progress
from refaug_client._http.async_connection import AsyncConnection
from refaug_client._large.batches import AT_ONCE, BATCH
from refaug_client._large.documents import LargeReplies

from .large import async_send_whole


class AsyncBotCalls:
    """The calls of a client that let bots reply, and score whole conversations with them."""

    _connection: AsyncConnection

    async def replies(
        self,
        items: Items,
        bots: Mapping[str, str],
        *,
        replace: bool = False,
        without_reply: Optional[WithoutReply] = None,
        on_error: Optional[OnError] = None,
        batch: int = BATCH,
        at_once: int = AT_ONCE,
        progress: Progress = None,
        timeout_s: Optional[float] = None,
    ) -> models.BotReplies:
        """Return items with the replies of bots, each bot as a further system, such as C-BM25 from an index.

            items = await client.replies(items, {"c-bm25": "retrieval:chat,mode=bm25-utterance"})
            scores = await client.score(items)

        An item without a reply comes back without it (`without_reply="report"`), refuses the request (`"refuse"`), or
        is left out (`"skip"`). More than `batch` items go in several requests, as those of `references` do.
        """
        call = calls.replies(items, bots, replace=replace, without_reply=without_reply, on_error=on_error)
        return await async_send_whole(
            self._connection,
            call,
            LargeReplies,
            (call.body or {})["items"],
            batch=batch,
            at_once=at_once,
            progress=progress,
            timeout_s=timeout_s,
        )

    async def score_conversations(
        self,
        hybrid: str,
        conversations: Optional[Sequence[Mapping[str, Any]]] = None,
        *,
        self_play: Optional[str] = None,
        on_error: Optional[OnError] = None,
        timeout_s: Optional[float] = None,
    ) -> models.HybridScores:
        """Return scores of whole conversations, or of a self-play of the server, by a hybrid.

            talk = {"bot": "mine", "turns": [{"role": "user", "text": "Hi!"}, {"role": "bot", "text": "Hello."}]}
            scores = await client.score_conversations("chat", [talk])
            scores[0].score, scores.bots

        A job of kind `hybrid-fit` makes the hybrid. Conversations that it was fitted to are in `trained_on`.
        """
        call = calls.score_conversations(hybrid, conversations, self_play=self_play, on_error=on_error)
        return await self._connection.send(call, timeout_s=timeout_s)
