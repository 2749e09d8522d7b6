"""What a client makes beside requests: scorers, rewards, a server of its own. Each imports what it needs when asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from ._connection import AsyncConnection, Connection
from ._retry import Retry

if TYPE_CHECKING:
    from ._local import AsyncLocal, Local
    from ._rewards import Reward

C = TypeVar("C", bound="Extras")
A = TypeVar("A", bound="AsyncExtras")


class Extras:
    """What a client of threads has beside the API's routes."""

    _connection: Connection

    @classmethod
    def local(
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

    def reward(
        self,
        *,
        reference_set: str,
        metric: str = "upsilon-bleu",
        on_unavailable: str = "raise",
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

    @classmethod
    def local(
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
