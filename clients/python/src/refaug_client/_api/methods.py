"""Methods of both clients, written once: they block in a `Client`, and are awaited in an `AsyncClient`.

Most methods are a route with a signature and a docstring: what is named in the path goes there, everything else into
the body, or into the query where the route has none; what stays at its default is not sent, so that the server's own
default holds; the answer is read as what the method returns. Other methods are functions that return a call, or
coroutines or generators of asyncio that send several. What a method becomes lies with the client's wire: in threads
every await is answered at once, so that a coroutine ends without a loop.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable, Mapping
from functools import cached_property, partial, wraps
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Optional,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from refaug_client._api.bodies import Body, to_dict, to_list, to_moment
from refaug_client._api.models.base import Rows
from refaug_client._api.models.scores import Scores
from refaug_client._api.readers import ListingCall, read_bytes, read_model, read_nothing, read_page, read_scores
from refaug_client._http.call import Answer, Call, path, read_json
from refaug_client._large.sending import Streaming, WholeCall

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    from refaug_client._asyncio import AsyncStream
    from refaug_client._http.async_connection import AsyncConnection
    from refaug_client._http.call import Wire
    from refaug_client._http.connection import Connection
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


def request(call_of: Callable[Concatenate[Any, P], Call[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    """Make a method of a function whose call is sent."""
    hints = call_of.__annotations__
    hints["return"] = hints["return"][len("Call[") : -1]  # users get what is read of the answer
    return _sent(call_of, partial(call_of, None))


def route(
    verb: str, place: str, **how: Any
) -> Callable[[Callable[Concatenate[Any, P], T]], Method[P, T, Coroutine[Any, Any, T]]]:
    """Make a method of a signature: of the route, with `how` as `Route` and `Call` have it."""

    def method_of(function: Callable[Concatenate[Any, P], T]) -> Method[P, T, Coroutine[Any, Any, T]]:
        return _sent(function, Route(function, verb, place, **how).call)

    return method_of


def _sent(function: Callable[..., Any], call_of: Callable[P, Call[T]]) -> Method[P, T, Coroutine[Any, Any, T]]:
    @wraps(function)
    async def coroutine_of(part: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        return await call_of(*arguments, **options).through(part._wire)  # noqa: SLF001

    method: Method[P, T, Coroutine[Any, Any, T]] = flow(coroutine_of)
    method.function.call = call_of
    return method


def iteration(
    rows_of: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Method[P, Generator[T, None, None], AsyncGenerator[T, None]]:
    """Make a method of a generator."""
    function = _function(rows_of, "iterate")
    return Method(function, function)


def streamed(
    place: str, large: Callable[[Call[Any]], Any], **how: Any
) -> Callable[[Callable[Concatenate[Any, P], Streaming[T]]], Method[P, Stream[T], AsyncStream[T]]]:
    """Make a method of a signature whose first argument is sent, batch by batch, while the results are used."""

    def method_of(function: Callable[Concatenate[Any, P], Streaming[T]]) -> Method[P, Stream[T], AsyncStream[T]]:
        declared = Route(function, "POST", place, large=large, **how)

        @wraps(function)
        def order_of(_part: Any, /, *arguments: P.args, **options: P.kwargs) -> Streaming[T]:
            return declared.streaming(*arguments, **options)

        method = _function(order_of, "stream_of")
        return Method(method, method)

    return method_of


def _function(outcome_of: Callable[..., Any], converter: str) -> Any:
    """Return a function whose outcome the client's wire converts; what users see of it is what a `Client` returns."""
    hints = outcome_of.__annotations__
    hints["return"] = hints["return"].replace("Streaming[", "Stream[").replace("AsyncGenerator[", "Generator[")

    @wraps(outcome_of)
    def function(part: Any, /, *arguments: Any, **options: Any) -> Any:
        return getattr(part._wire, converter)(outcome_of(part, *arguments, **options))  # noqa: SLF001

    return function


class Route:
    """The request of a method: what of its arguments is sent where, and how the answer is read.

    `key` names the rows of a listing, or a field by which an answer that says nothing new is known to be refaug's;
    `prepare` changes the body; with `large` many items go in several requests. The rest is as a `Call` has it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        verb: str,
        place: str,
        *,
        key: str = "",
        prepare: Optional[Callable[[Body], Body]] = None,
        large: Optional[Callable[[Call[Any]], Any]] = None,
        read: Optional[Callable[[Answer], Any]] = None,
        **flags: Any,
    ) -> None:
        self._function, self._verb, self._place = function, verb, place
        self._key, self._prepare, self._large, self._read, self._flags = key, prepare, large, read, flags

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, localns={"Stream": Streaming})  # as users see it

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def call(self, *arguments: Any, **options: Any) -> Call[Any]:
        """Return what is sent for some arguments."""
        given = self._given(arguments, options)
        parts = self._place.strip("/").split("/")
        place = path(*[self._name(part[1:-1], given) if part.startswith("{") else part for part in parts])
        has_body = self._verb in ("POST", "PUT") and bool(given or self._prepare)
        sent = {} if self._large is None else {name: given.pop(name) for name in _SENDING}
        body = self._body(given) if has_body else None
        query = {} if has_body else {name.rstrip("_"): value for name, value in given.items()}
        kind = self._hints["return"]
        facts: dict[str, Any] = {"query": query, "body": body, **self._flags}
        if get_origin(kind) is Rows and "after" in query:
            paging = {name: given[name] for name in ("after", "limit")}
            return ListingCall(self._verb, place, self._reader(body), **paging, **facts)
        if kind is bytes:
            facts["headers"] = {"Accept": "*/*"}
        if self._large is None:
            return Call(self._verb, place, self._reader(body), **facts)
        return WholeCall(self._verb, place, self._reader(body), large=self._large, **sent, **facts)

    def streaming(self, *arguments: Any, **options: Any) -> Streaming[Any]:
        """Return how the first argument is sent while the results are used."""
        given = self._given(arguments, options)
        items = given.pop(next(iter(given)))
        sent = {name: given.pop(name) for name in _SENDING}
        call: Call[Any] = Call(self._verb, self._place, read_json, body=self._body(given), **self._flags)
        assert self._large is not None, "declared with it"
        (row,) = get_args(self._hints["return"])
        return Streaming(self._large(call), items, getattr(row, "of", list), **sent)

    def _name(self, part: str, given: dict[str, Any]) -> Any:
        """Take the argument for a part of the path."""
        return str(given.pop(part)) if self._hints[part] is int else given.pop(part)

    def _given(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, with defaults."""
        bound = self._signature.bind(None, *arguments, **options)
        bound.apply_defaults()
        _, *named = bound.arguments.items()
        return {name: to_moment(value) for name, value in named}

    def _body(self, given: dict[str, Any]) -> Body:
        """Return what is sent of these arguments; `return_` stands for a name that Python reserves."""
        body: Body = {}
        for name, value in given.items():
            parameter = self._signature.parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                body.update(to_dict(value, name))
            elif value is not parameter.default and (value is not None or parameter.default is parameter.empty):
                body[name.rstrip("_")] = _plain(value, self._hints[name], name)
        return body if self._prepare is None else self._prepare(body)

    def _reader(self, body: Optional[Body]) -> Callable[[Answer], Any]:
        kind = self._hints["return"]
        if self._read is not None:
            return self._read
        if get_origin(kind) is Rows:
            return read_page(get_args(kind)[0], self._key)
        if kind is Scores:
            return read_scores((body or {}).get("metrics"))
        return read_bytes if kind is bytes else read_nothing(self._key) if kind is type(None) else read_model(kind)


_SENDING = ("batch", "at_once", "progress")  # how many items are sent, which no server is told


def _plain(value: Any, hint: Any, name: str) -> Any:
    """Return an argument as JSON has it; Usage where a list or a dict is due, and it is none."""
    if get_origin(hint) is Union:
        alternatives = [one for one in get_args(hint) if one is not type(None)]
        if value is None or len(alternatives) > 1:
            return value
        (hint,) = alternatives
    kind = get_origin(hint)
    if not isinstance(kind, type):
        return value
    if issubclass(kind, Mapping):
        return to_dict(value, name)
    return to_list(value, name) if issubclass(kind, Iterable) else value
