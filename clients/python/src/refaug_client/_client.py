"""What both clients are: the parts of the API, and what a client makes beside requests.

Scorers, rewards and local servers are imported when the first is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Generic, Optional, TypeVar, Union, overload
from weakref import WeakSet

from ._api.items import Purpose
from ._api.methods import K, Resource
from ._api.resources.access import Audit, Keys
from ._api.resources.artefacts import Artefacts, Logs
from ._api.resources.bots import Bots
from ._api.resources.evaluations import Evaluations, Uploads
from ._api.resources.jobs import Jobs, Schedules
from ._api.resources.scoring import ScoringCalls
from ._api.resources.sets import Sets
from ._api.resources.studies import Studies
from ._core import errors
from ._http.settings import ConnectionSettings, Retry
from ._large.batches import Document
from ._large.documents import LargeRequest
from ._large.sending import Streaming

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    from refaug_client._http.call import Wire

    from ._http.async_connection import AsyncConnection
    from ._http.connection import Connection
    from ._local import AsyncLocal, Local
    from ._scorer.scorer import Scorer
    from ._scorer.settings import OnFull, OnUnavailable

    P = ParamSpec("P")
    Blocking = TypeVar("Blocking", bound=Resource[Connection])
    Awaited = TypeVar("Awaited", bound=Resource[AsyncConnection])

    class local_method(Generic[P]):  # noqa: N801  a decorator
        """A class method that starts a server, for a block of the client's kind."""

        def __init__(self, local_of: Callable[Concatenate[Any, P], Any]) -> None: ...

        @overload
        def __get__(self, client: object, kind: type[Blocking]) -> Callable[P, Local[Blocking]]: ...

        @overload
        def __get__(self, client: object, kind: type[Awaited]) -> Callable[P, AsyncLocal[Awaited]]: ...

        def __get__(self, client: object, kind: type[Any]) -> Any: ...

else:
    local_method = classmethod

C = TypeVar("C", bound="AnyClient[Any]")


class AnyClient(ScoringCalls[K]):
    """A client of either kind."""

    _connection: K

    _wire: Wire
    _wire_kind: ClassVar[Any]
    _scorers: WeakSet[Scorer]

    def _attach(self, connection: K, timeout_s: Optional[float] = None) -> None:
        """Send by a connection, with another time limit than its settings have if one is given."""
        settings: ConnectionSettings = connection.settings
        self._connection = connection
        self._wire = wire = self._wire_kind(
            connection, settings if timeout_s is None else replace(settings, timeout_s=timeout_s)
        )
        self.__dict__.setdefault("_scorers", WeakSet())
        self.sets: Sets[K] = Sets(wire)
        self.logs: Logs[K] = Logs(wire)
        self.artefacts: Artefacts[K] = Artefacts(wire)
        self.jobs: Jobs[K] = Jobs(wire)
        self.schedules: Schedules[K] = Schedules(wire)
        self.bots: Bots[K] = Bots(wire)
        self.studies: Studies[K] = Studies(wire)
        self.uploads: Uploads[K] = Uploads(wire)
        self.evaluations: Evaluations[K] = Evaluations(wire)
        self.keys: Keys[K] = Keys(wire)
        self.audit: Audit[K] = Audit(wire)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._wire.settings.url

    def with_options(self: C, *, timeout_s: float) -> C:  # noqa: PYI019  Self is of 3.11
        """Return a client of the same connections with another time limit for one try of a request.

            scores = client.with_options(timeout_s=600).score(items, metric="upsilon-bleu")

        Closing either of the two closes both.
        """
        client = type(self).__new__(type(self))
        client.__dict__.update(vars(self))
        client._attach(self._connection, timeout_s)  # noqa: SLF001
        return client

    @local_method
    def local(
        cls: type[C],  # noqa: N805  a class method
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
        from ._local import URL, AsyncLocal, Local, ServerStart  # noqa: PLC0415  imports subprocess

        client: Any = cls
        kind: Any = Local if cls._wire_kind.blocks else AsyncLocal
        local: Local[C] = kind(
            ServerStart.of(home, server=server, options=options, ready_s=ready_s),
            lambda uds: client(URL, uds=uds, key=key, timeout_s=timeout_s, retry=retry, connections=connections),
        )
        return local

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
            scores = scorer(replies, items=ids)             # in asyncio: await scorer.submit(replies, items=ids)
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
        http: Any = self._connection.external_http
        if http is not None and not self._wire.blocks:
            raise errors.Usage(
                "a scorer has threads of its own, which cannot use an httpx client of asyncio that was handed in",
                remedy="a client that makes its own connections, or Client(http=httpx.Client(…)).scorer(…)",
            )
        from ._scorer.scorer import Scorer  # noqa: PLC0415  imports threads and caches
        from ._scorer.settings import ScorerSettings  # noqa: PLC0415

        settings = ScorerSettings(
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
        scorer = Scorer(self._wire.settings, settings, http)
        self._scorers.add(scorer)
        return scorer

    def __reduce__(self) -> Any:  # another process makes new connections
        return _rebuild, (type(self), self._connection, self._wire.settings.timeout_s)

    def __repr__(self) -> str:
        to = self._wire.settings
        return f"{type(self).__name__}({to.url!r}{f', uds={to.uds!r}' if to.uds else ''})"


def _rebuild(kind: type[C], connection: Any, timeout_s: float) -> C:
    client = kind.__new__(kind)
    client._attach(connection, timeout_s)  # noqa: SLF001
    return client


class StreamFacts:
    """What the answers so far say beside the results that a stream hands out."""

    def __init__(self, order: Streaming[Any]) -> None:
        self._order: LargeRequest = order.order

    @property
    def problems(self) -> list[Document]:
        """What could not be used, so far; places are those in the whole input."""
        return self._order.problems

    @property
    def warnings(self) -> list[str]:
        """The warnings so far."""
        return self._order.warnings

    @property
    def versions(self) -> Document:
        """The versions of the artefacts that made the results: the same for all of them."""
        return self._order.versions
