"""Methods of both clients, written once: they block in a `Client`, and are awaited in an `AsyncClient`.

A method is a function that returns a call, or a coroutine or generator of asyncio that sends several. What it becomes
lies with the client's wire: in threads every await is answered at once, so that a coroutine ends without a loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator
from functools import partial, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Callable, Generic, Protocol, TypeVar, Union, overload

from refaug_client._http.call import Call

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    from refaug_client._asyncio import AsyncStream
    from refaug_client._http.async_connection import AsyncConnection
    from refaug_client._http.call import Wire
    from refaug_client._http.connection import Connection
    from refaug_client._large.sending import Streaming
    from refaug_client._threads import Stream

    P = ParamSpec("P")
else:
    P = TypeVar("P")

A = TypeVar("A")  # what the method returns in an `AsyncClient`
K = TypeVar("K", bound="Union[Connection, AsyncConnection]")  # by which type checkers tell the clients apart
R = TypeVar("R")  # what the method returns in a `Client`
T = TypeVar("T")


class Resource(Generic[K]):
    """A part of the API, such as the reference sets."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire.settings.url!r})"


class MethodFunction(Protocol[P, R]):
    """A method as its class has it; `call` is the call of a route, which is not sent."""

    call: Callable[P, Call[R]]

    def __call__(self, part: Any, *arguments: P.args, **options: P.kwargs) -> Any:
        """Do what the method does for a part of the API."""


class Method(Generic[P, R, A]):
    """A method of both clients: `function` for a `Client`, and as the class has it; `awaited` for an `AsyncClient`."""

    def __init__(self, function: Any, awaited: Any) -> None:
        self.function: Any = function
        self.awaited: Any = awaited

    @overload
    def __get__(self, part: None, kind: object = None) -> MethodFunction[P, R]: ...

    @overload
    def __get__(self, part: Resource[Connection], kind: object = None) -> Callable[P, R]: ...

    @overload
    def __get__(self, part: Resource[AsyncConnection], kind: object = None) -> Callable[P, A]: ...

    def __get__(self, part: Any, kind: object = None) -> Any:
        if part is None:
            return self.function
        return MethodType(self.function if part._wire.blocks else self.awaited, part)  # noqa: SLF001


def flow(coroutine_of: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Make a method of a coroutine, which sends several requests."""
    return Method(_function(coroutine_of, "finish"), coroutine_of)


def route(call_of: Callable[Concatenate[Any, P], Call[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Make a method of a function whose call is sent."""
    hints = call_of.__annotations__
    hints["return"] = hints["return"][len("Call[") : -1]  # users get what is read of the answer

    @wraps(call_of)
    async def coroutine_of(part: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        return await call_of(part, *arguments, **options).through(part._wire)  # noqa: SLF001

    method = flow(coroutine_of)
    method.function.call = partial(call_of, None)
    return method


def iteration(
    rows_of: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Method[P, Generator[T, None, None], AsyncGenerator[T, None]]:
    """Make a method of a generator."""
    function = _function(rows_of, "iterate")
    return Method(function, function)


def streamed(order_of: Callable[Concatenate[Any, P], Streaming[T]]) -> Method[P, Stream[T], AsyncStream[T]]:
    """Make a method of a function whose input is sent while its results are used."""
    function = _function(order_of, "stream_of")
    return Method(function, function)


def _function(outcome_of: Callable[..., Any], converter: str) -> Any:
    """Return a function whose outcome the client's wire converts; what users see of it is what a `Client` returns."""
    hints = outcome_of.__annotations__
    hints["return"] = hints["return"].replace("Streaming[", "Stream[").replace("AsyncGenerator[", "Generator[")

    @wraps(outcome_of)
    def function(part: Any, /, *arguments: Any, **options: Any) -> Any:
        return getattr(part._wire, converter)(outcome_of(part, *arguments, **options))  # noqa: SLF001

    return function
