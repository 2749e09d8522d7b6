"""What a client makes beside requests: scorers, rewards, local servers; each is imported when it is first used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union
from weakref import WeakSet

from ._api.items import Purpose
from ._core import errors
from ._http.async_connection import AsyncConnection
from ._http.connection import Connection
from ._http.retry import Retry

if TYPE_CHECKING:
    from ._local import AsyncLocal, Local
    from ._scorer.rewards import Reward
    from ._scorer.scorer import Scorer
    from ._scorer.settings import OnFull, OnUnavailable

C = TypeVar("C", bound="Extras")
A = TypeVar("A", bound="AsyncExtras")


class Extras:
    """The methods of a client for threads that are no routes of the API."""

    _connection: Connection
    _scorers: Optional[WeakSet[Scorer]] = None

    @classmethod
    def local(  # noqa: PYI019  Self is of 3.11
        cls: type[C],
        home: Union[str, os.PathLike[str], None] = None,
        *,
        server: Union[str, Sequence[str], None] = None,
        options: Sequence[str] = (),
        ready_s: float = 300.0,
        key: Optional[str] = None,
        timeout_s: float = 60.0,
        retry: Union[Retry, int, None] = None,
        connections: int = 8,
    ) -> Local[C]:
        """Start a server over a home for as long as a block lasts, and yield a client of it.

            with Client.local(home="refaug-data") as refaug:
                scores = refaug.score(items, metric="upsilon-bleu")

        The server is the `refaug serve` of this Python's environment (or `server`, a command), on a Unix socket that
        only this user can reach. The block begins when it is ready, and the server stops at its end, or when this
        process ends, however that happens. Without `home` it is REFAUG_HOME; a folder that does not exist becomes an
        empty home. `options` are those of `refaug serve`, such as ["--workers", "2"]. NotStarted says why there is no
        server.
        """
        from ._local import URL, Local, ServerStart  # noqa: PLC0415  imports subprocess

        make: Any = cls
        starting = ServerStart.of(home, server=server, options=options, ready_s=ready_s)
        return Local(
            starting,
            lambda uds: make(URL, uds=uds, key=key, timeout_s=timeout_s, retry=retry, connections=connections),
        )

    def scorer(
        self,
        *,
        reference_set: str,
        metric: Optional[str] = "upsilon-bleu",
        cache: Union[str, os.PathLike[str], None] = "memory",
        on_unavailable: OnUnavailable = "raise",
        max_wait_s: Optional[float] = None,
        batch: int = 512,
        queue: int = 10_000,
        on_full: OnFull = "block",
        at_once: int = 2,
        purpose: Optional[Purpose] = None,
        language: Optional[str] = None,
        percent: bool = False,
        cache_entries: int = 100_000,
        cache_mib: float = 256,
        exit_wait_s: float = 5.0,
    ) -> Scorer:
        """Return a scorer for a training loop against one frozen set: called at once, or submitted and collected later.

            scorer = client.scorer(reference_set="e7043c04b0875353", cache="scores.sqlite")
            scores = scorer(replies, items=ids)
            scorer.submit(replies, items=ids, tag=step)     # returns at once
            for pending in scorer.collect():                # what is finished, in order
                log(pending.tag, pending.result())

        `cache`: "memory", a path (a file that outlives the process), or None. `max_wait_s`: every reply has its outcome
        after so many seconds; for a reply without a score by then, the error is raised, it is skipped (None), or, for
        curves that are only looked at, it gets the `last` value of its item, as `on_unavailable` says; `scorer.counts`
        counts all of it. `queue`: how many replies may wait; `on_full` is what submit does with more. `batch`: how many
        go in one request at most, and `at_once` how many requests. `purpose`: the purpose that the set must have.
        `close()` waits `exit_wait_s` for the rest.
        """
        from ._scorer.scorer import Scorer  # noqa: PLC0415  imports threads and caches

        scorer = Scorer(
            self._connection.settings,
            reference_set=reference_set,
            metric=metric,
            cache=cache,
            on_unavailable=on_unavailable,
            max_wait_s=max_wait_s,
            batch=batch,
            queue=queue,
            on_full=on_full,
            at_once=at_once,
            purpose=purpose,
            language=language,
            percent=percent,
            cache_entries=cache_entries,
            cache_mib=cache_mib,
            exit_wait_s=exit_wait_s,
            http=self._connection.external_http,
        )
        self._scorers = self._scorers or WeakSet()
        self._scorers.add(scorer)
        return scorer

    def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        for scorer in list(self._scorers or ()):
            scorer.close(wait_s)

    def reward(
        self,
        *,
        reference_set: str,
        metric: str = "upsilon-bleu",
        on_unavailable: Literal["raise", "mask"] = "raise",
        override_purpose: bool = False,
        **scorer: Any,
    ) -> Reward:
        """Return a reward against a set frozen for training: `reward(replies, items=ids)` gives a float for each.

        `on_unavailable`: `raise`, or `mask` for NaN, counted in `reward.counts`. A set for testing is refused;
        `override_purpose=True` goes ahead and is written into the signature. Everything else is as for `scorer`.
        """
        from ._scorer.rewards import Reward  # noqa: PLC0415  imports the scorer

        client: Any = self  # a Client
        return Reward(
            client,
            reference_set=reference_set,
            metric=metric,
            on_unavailable=on_unavailable,
            override_purpose=override_purpose,
            **scorer,
        )


class AsyncExtras:
    """The methods of an asyncio client that are no routes of the API."""

    _connection: AsyncConnection
    _scorers: Optional[WeakSet[Scorer]] = None

    @classmethod
    def local(  # noqa: PYI019
        cls: type[A],
        home: Union[str, os.PathLike[str], None] = None,
        *,
        server: Union[str, Sequence[str], None] = None,
        options: Sequence[str] = (),
        ready_s: float = 300.0,
        key: Optional[str] = None,
        timeout_s: float = 60.0,
        retry: Union[Retry, int, None] = None,
        connections: int = 8,
    ) -> AsyncLocal[A]:
        """Start a server over a home for as long as a block lasts, and yield a client of it.

            async with AsyncClient.local(home="refaug-data") as refaug:
                scores = await refaug.score(items, metric="upsilon-bleu")

        The server is the `refaug serve` of this Python's environment (or `server`, a command), on a Unix socket that
        only this user can reach. The block begins when it is ready, and the server stops at its end, or when this
        process ends, however that happens. Without `home` it is REFAUG_HOME; a folder that does not exist becomes an
        empty home. `options` are those of `refaug serve`, such as ["--workers", "2"]. NotStarted says why there is no
        server.
        """
        from ._local import URL, AsyncLocal, ServerStart  # noqa: PLC0415  imports subprocess

        make: Any = cls
        starting = ServerStart.of(home, server=server, options=options, ready_s=ready_s)
        return AsyncLocal(
            starting,
            lambda uds: make(URL, uds=uds, key=key, timeout_s=timeout_s, retry=retry, connections=connections),
        )

    def scorer(
        self,
        *,
        reference_set: str,
        metric: Optional[str] = "upsilon-bleu",
        cache: Union[str, os.PathLike[str], None] = "memory",
        on_unavailable: OnUnavailable = "raise",
        max_wait_s: Optional[float] = None,
        batch: int = 512,
        queue: int = 10_000,
        on_full: OnFull = "block",
        at_once: int = 2,
        purpose: Optional[Purpose] = None,
        language: Optional[str] = None,
        percent: bool = False,
        cache_entries: int = 100_000,
        cache_mib: float = 256,
        exit_wait_s: float = 5.0,
    ) -> Scorer:
        """Return a scorer for a training loop against one frozen set: replies are submitted and collected later.

            scorer = client.scorer(reference_set="e7043c04b0875353", cache="scores.sqlite")
            scores = await scorer.submit(replies, items=ids)
            scorer.submit(replies, items=ids, tag=step)     # returns at once
            …
            for pending in scorer.collect():                # what is finished, in order
                log(pending.tag, pending.result())

        `cache`: "memory", a path (a file that outlives the process), or None. `max_wait_s`: every reply has its outcome
        after so many seconds; for a reply without a score by then, the error is raised, it is skipped (None), or, for
        curves that are only looked at, it gets the `last` value of its item, as `on_unavailable` says; `scorer.counts`
        counts all of it. `queue`: how many replies may wait; `on_full` is what submit does with more. `batch`: how many
        go in one request at most, and `at_once` how many requests. `purpose`: the purpose that the set must have.
        `close()` waits `exit_wait_s` for the rest.
        """
        if self._connection.external_http is not None:
            raise errors.Usage(
                "a scorer has threads of its own, which cannot use an httpx client of asyncio that was handed in",
                remedy="a client that makes its own connections, or Client(http=httpx.Client(…)).scorer(…)",
            )
        from ._scorer.scorer import Scorer  # noqa: PLC0415  imports threads and caches

        scorer = Scorer(
            self._connection.settings,
            reference_set=reference_set,
            metric=metric,
            cache=cache,
            on_unavailable=on_unavailable,
            max_wait_s=max_wait_s,
            batch=batch,
            queue=queue,
            on_full=on_full,
            at_once=at_once,
            purpose=purpose,
            language=language,
            percent=percent,
            cache_entries=cache_entries,
            cache_mib=cache_mib,
            exit_wait_s=exit_wait_s,
        )
        self._scorers = self._scorers or WeakSet()
        self._scorers.add(scorer)
        return scorer

    async def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        import asyncio  # noqa: PLC0415  imported already where a loop runs

        for scorer in list(self._scorers or ()):
            await asyncio.get_running_loop().run_in_executor(None, scorer.close, wait_s)
