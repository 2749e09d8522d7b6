"""The asyncio client's calls about scores that exist already; `_sync/score_documents.py` is generated from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from refaug_client._api import calls, models
from refaug_client._api.calls.bodies import SYSTEM
from refaug_client._api.items import Items, OnError, Replies
from refaug_client._http.async_connection import AsyncConnection


class AsyncScoreDocumentCalls:
    """The calls of a client that verify scores and combine those of batches."""

    _connection: AsyncConnection

    async def verify(
        self,
        scores: Union[models.Scores, Mapping[str, Any]],
        items: Items,
        *,
        replies: Optional[Replies] = None,
        system: str = SYSTEM,
        timeout_s: Optional[float] = None,
    ) -> models.Verification:
        """Make scores again from their signatures, and return for each part whether it holds, differs or is missing.

            verification = await client.verify(scores, items)
            verification.holds, verification.in_state("differs")

        `scores` is a result of `score` of one request, or its JSON: of `scores.to_dict()`, or of `refaug score --json`.
        """
        call = calls.verify(scores, items, replies=replies, system=system)
        return await self._connection.send(call, timeout_s=timeout_s)

    async def combine(
        self,
        batches: Iterable[Any],
        *,
        draws: int = 0,
        confidence: Optional[float] = None,
        seed: Optional[int] = None,
        baseline: Optional[str] = None,
        on_error: Optional[OnError] = None,
        timeout_s: Optional[float] = None,
    ) -> models.Scores:
        """Return corpus scores of several batches, as if all had been scored at once.

        Batches are the results of `score` and `sets.score` with `return_="stats"`, all by the same metrics. With
        `on_error="report"` a metric that suits no batch is a problem beside the scores of the others.
        """
        call = calls.combine(
            batches, draws=draws, confidence=confidence, seed=seed, baseline=baseline, on_error=on_error
        )
        return await self._connection.send(call, timeout_s=timeout_s)
