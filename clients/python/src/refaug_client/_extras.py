"""What a client makes beside requests: scorers, rewards, a server of its own. Each imports what it needs when asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union
from weakref import WeakSet

from . import _errors as errors
from ._connection import AsyncConnection, Connection
from ._items import Purpose
from ._retry import Retry

if TYPE_CHECKING:
    from ._local import AsyncLocal, Local
    from ._rewards import Reward
    from ._scorer import OnFull, OnUnavailable, Scorer

C = TypeVar("C", bound="Extras")
A = TypeVar("A", bound="AsyncExtras")


class Extras:
    """What a client of threads has beside the API's routes."""

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
        """A server of one's own over a home, for as long as a block lasts, and a client of it.

            with Client.local(home="refaug-data") as refaug:
                scores = refaug.score(items, metric="upsilon-bleu")

        It is the `refaug serve` of this Python's environment (or `server`, a command), on a Unix socket that only this
        user reaches. The block begins when it is ready, and the server stops at its end, or when this process ends,
        however that does. Without `home` it is REFAUG_HOME; a folder that is not there becomes an empty home. `options`
        are those of `refaug serve`, such as ["--workers", "2"]. NotStarted says why there is no server.
        """
        from ._local import URL, Local, Starting  # noqa: PLC0415  subprocesses are for those who start some

        make: Any = cls
        starting = Starting.of(home, server=server, options=options, ready_s=ready_s)
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
        """Scores for a training loop against one frozen set: asked for at once, or handed in and collected later.

            scorer = client.scorer(reference_set="e7043c04b0875353", cache="scores.sqlite")
            scores = scorer(replies, items=ids)
            scorer.submit(replies, items=ids, tag=step)     # returns at once
            for pending in scorer.collect():                # what is finished, in order
                log(pending.tag, pending.result())

        `cache`: "memory", a path (a file that outlives the process), or None. `max_wait_s`: every reply has its outcome
        after so many seconds; one that nobody scored is raised, skipped (None), or for curves that are only looked at,
        the `last` value of its item, as `on_unavailable` says; all of it is in `scorer.counts`. `queue`: how many
        replies may wait; `on_full` is what submit does with more. `batch`: how many go in one request at most, and
        `at_once` how many requests. `purpose`: what the set has to be for. `close()` waits `exit_wait_s` for the rest.
        """
        from ._scorer import Scorer  # noqa: PLC0415  with it come threads and caches

        made = Scorer(
            self._connection.to,
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
            http=self._connection.given,
        )
        self._scorers = self._scorers or WeakSet()
        self._scorers.add(made)
        return made

    def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        for one in list(self._scorers or ()):
            one.close(wait_s)

    def reward(
        self,
        *,
        reference_set: str,
        metric: str = "upsilon-bleu",
        on_unavailable: Literal["raise", "mask"] = "raise",
        override_purpose: bool = False,
        **scorer: Any,
    ) -> Reward:
        """Scores as rewards, against a set frozen for training: `reward(replies, items=ids)` gives a float for each.

        `on_unavailable`: `raise`, or `mask` for NaN, counted in `reward.counts`. A set for testing is refused;
        `override_purpose=True` goes ahead and is written into the signature. Everything else is as for `scorer`.
        """
        from ._rewards import Reward  # noqa: PLC0415  with it comes a scorer's thread

        made: Any = self  # a Client
        return Reward(
            made,
            reference_set=reference_set,
            metric=metric,
            on_unavailable=on_unavailable,
            override_purpose=override_purpose,
            **scorer,
        )


class AsyncExtras:
    """What a client of asyncio has beside the API's routes."""

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
        """A server of one's own over a home, for as long as a block lasts, and a client of it.

            async with AsyncClient.local(home="refaug-data") as refaug:
                scores = await refaug.score(items, metric="upsilon-bleu")

        It is the `refaug serve` of this Python's environment (or `server`, a command), on a Unix socket that only this
        user reaches. The block begins when it is ready, and the server stops at its end, or when this process ends,
        however that does. Without `home` it is REFAUG_HOME; a folder that is not there becomes an empty home. `options`
        are those of `refaug serve`, such as ["--workers", "2"]. NotStarted says why there is no server.
        """
        from ._local import URL, AsyncLocal, Starting  # noqa: PLC0415  subprocesses are for those who start some

        make: Any = cls
        starting = Starting.of(home, server=server, options=options, ready_s=ready_s)
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
        """Scores for a training loop, against one frozen set by one metric: handed in and collected later.

            scorer = client.scorer(reference_set="e7043c04b0875353", cache="scores.sqlite")
            scores = await scorer.submit(replies, items=ids)
            scorer.submit(replies, items=ids, tag=step)     # returns at once
            …
            for pending in scorer.collect():                # what is finished, in order
                log(pending.tag, pending.result())

        `cache`: "memory", a path (a file that outlives the process), or None. `max_wait_s`: every reply has its outcome
        after so many seconds; one that nobody scored is raised, skipped (None), or for curves that are only looked at,
        the `last` value of its item, as `on_unavailable` says; all of it is in `scorer.counts`. `queue`: how many
        replies may wait; `on_full` is what submit does with more. `batch`: how many go in one request at most, and
        `at_once` how many requests. `purpose`: what the set has to be for. `close()` waits `exit_wait_s` for the rest.
        """
        if self._connection.given is not None:
            raise errors.Usage(
                "a scorer has threads of its own, which cannot use an httpx client of asyncio that was handed in",
                remedy="a client that makes its own connections, or Client(http=httpx.Client(…)).scorer(…)",
            )
        from ._scorer import Scorer  # noqa: PLC0415  with it come threads and caches

        made = Scorer(
            self._connection.to,
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
        self._scorers.add(made)
        return made

    async def _close_scorers(self, wait_s: Optional[float] = None) -> None:
        import asyncio  # noqa: PLC0415  whoever has a loop has it already

        for one in list(self._scorers or ()):
            await asyncio.get_running_loop().run_in_executor(None, one.close, wait_s)
