"""A call with all its tries: their requests and time limits, the errors of failures, and how both connections send."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Optional, TypeVar, Union

import httpx

from refaug_client._core import errors
from refaug_client._core.errors import NoAnswer
from refaug_client._version import VERSION

from .call import Answer, Call, read_answer
from .settings import ConnectionSettings, require_seconds

if TYPE_CHECKING:
    from refaug_client._http.call import Wire

T = TypeVar("T")
AnyLink = TypeVar("AnyLink", bound="AnyConnection")
_CONNECT_S = 10.0
_AGENT = f"refaug-client/{VERSION} python/{platform.python_version()} httpx/{httpx.__version__}"
_TIMEOUT_FIELD = "header.x-timeout-s"  # the field of a problem when the time limit is too long for the server
_STAGES = ("connect", "read", "write", "pool")
_CUT_SHORT = ("server disconnected", "peer closed connection")  # how httpcore and h11 say that nothing more came


class _StageTimeouts(Mapping[str, float]):
    """The time limits of the stages of one try, computed when httpx reads them, so that all have one end."""

    def __init__(self, ends: float, gap_s: Optional[float]) -> None:
        self._ends, self._gap_s = ends, gap_s

    def __getitem__(self, stage: str) -> float:
        if stage == "read" and self._gap_s is not None:
            return self._gap_s
        remaining_s = max(self._ends - time.monotonic(), 0.001)
        return min(remaining_s, _CONNECT_S) if stage == "connect" else remaining_s

    def __iter__(self) -> Iterator[str]:
        return iter(_STAGES)

    def __len__(self) -> int:
        return len(_STAGES)


class ServerLimits:
    """Limits of the server that a connection has learnt from its errors."""

    def __init__(self) -> None:
        self.longest_s = math.inf  # the longest time limit that the server accepts

    def learn_from(self, error: errors.RefaugError) -> bool:
        """Whether the error says that the requested time was too long; the limit it names is remembered."""
        if not isinstance(error, errors.BadInput):
            return False
        problems = error.problem.get("errors")
        for problem in problems if isinstance(problems, list) else []:
            if isinstance(problem, dict) and problem.get("field") == _TIMEOUT_FIELD:
                match = re.search(r"at most ([0-9.]+)", str(problem.get("message")))
                before, self.longest_s = self.longest_s, float(match[1].rstrip(".") or 0) if match else 0.0
                self.longest_s = self.longest_s if self.longest_s < before else 0.0  # the server refused its own limit
                return True
        return False


class Exchange(Generic[T]):
    """One call on its way: what every try sends, how long it may take, what follows when it fails."""

    def __init__(
        self,
        to: ConnectionSettings,
        limits: ServerLimits,
        call: Call[T],
        timeout_s: Optional[float] = None,
        within_s: Optional[float] = None,
        *,
        whole: bool = True,
    ) -> None:
        self.settings, self.limits, self.call, self.is_whole = to, limits, call, whole
        self.started = time.monotonic()
        self.deadline = None if within_s is None else self.started + finite_seconds(within_s)
        self.timeout_s = to.timeout_s if timeout_s is None else require_seconds("timeout_s", timeout_s)
        self.try_count = 0
        self.name = os.urandom(8).hex()
        self.body = None if call.body is None else call.encode_body()
        self.key = os.urandom(16).hex() if call.keyed else None
        self.last_error: Optional[errors.RefaugError] = None
        self.is_corrected = False

    def request(self, http: Any, trace: Any = None) -> httpx.Request:
        """Return the request of the next try; TimedOut where no time is left for it."""
        self.try_count += 1
        now = time.monotonic()
        self.try_s = self.timeout_s if self.deadline is None else min(self.timeout_s, self.deadline - now)
        if self.try_s <= 0:
            raise errors.TimedOut(
                "the time for it was over before it was sent", request_id=self.id
            ) from self.last_error
        self.try_deadline = now + self.try_s
        extensions: dict[str, Any] = {
            "timeout": _StageTimeouts(self.try_deadline, None if self.is_whole else self.timeout_s)
        }
        if trace is not None:
            extensions["trace"] = trace
        query = {key: value for key, value in self.call.query.items() if value is not None}
        try:
            request: httpx.Request = http.build_request(
                self.call.method,
                self.settings.url + self.call.path,
                params=query or None,
                content=self.body,
                headers=self._headers(),
                extensions=extensions,
            )
        except UnicodeError as error:
            raise errors.Usage(
                f"{self.call.method} {self.call.path}: {error}", remedy="text without surrogates"
            ) from error
        except httpx.InvalidURL as error:
            raise errors.Usage(
                f"{self.call.method} {self.call.path[:100]}: {error}", remedy="a shorter name or id"
            ) from error
        return request

    def _headers(self) -> dict[str, str]:
        headers = {"user-agent": _AGENT, "accept": "application/json", **self.settings.headers}
        headers.update({name.lower(): value for name, value in self.call.headers.items()})
        headers["x-request-id"] = self.id
        if self.settings.key is not None:
            headers["authorization"] = f"Bearer {self.settings.key}"
        if self.body is not None:
            headers.setdefault("content-type", "application/json")
        if self.call.timed and self.try_s <= self.limits.longest_s:  # without it, the server's own limit holds
            headers["x-timeout-s"] = f"{max(self.try_s, 0.001):.3f}"
        if self.key is not None:
            headers["idempotency-key"] = self.key
        return headers

    @property
    def id(self) -> str:
        """The name of this try in the server's log."""
        return self.name if self.try_count <= 1 else f"{self.name}.{self.try_count}"

    def require_time(self, request: httpx.Request) -> None:
        """Raise ReadTimeout where an answer still comes in after its time, drop by drop."""
        if time.monotonic() > self.try_deadline:
            raise httpx.ReadTimeout("the answer came too slowly", request=request)

    def answer(self, response: httpx.Response, content: bytes) -> Answer:
        """Return the whole answer."""
        return Answer(response.status_code, response.headers, content, response.headers.get("x-request-id") or self.id)

    def error(self, error: Exception, *, closed: bool = False) -> errors.RefaugError:
        """Return the error that a failure on the way means."""
        where = self.settings.uds or self.settings.url
        reason = str(error) or type(error).__name__
        if closed:
            return errors.ConnectionLost("the client was closed before the answer came", request_id=self.id)
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            return errors.CannotConnect(
                f"nobody answers at {where}: {reason}", remedy="is refaug serve running there?", request_id=self.id
            )
        if isinstance(error, httpx.PoolTimeout):
            return errors.CannotConnect(
                f"all {self.settings.connections} connections were busy",
                remedy="connections=… for more",
                request_id=self.id,
            )
        if isinstance(error, httpx.TimeoutException):
            return errors.TimedOut(
                f"no answer from {where} to {self.call.method} {self.call.path} within {self.try_s:.3g} s",
                remedy="timeout_s=… for more" if self.try_s == self.timeout_s else "",
                request_id=self.id,
            )
        if isinstance(error, httpx.DecodingError):
            return errors.BadAnswer(f"an answer that cannot be unpacked: {reason}", request_id=self.id)
        if isinstance(error, httpx.RemoteProtocolError) and not reason.lower().startswith(_CUT_SHORT):
            return errors.BadAnswer(
                f"an answer from {where} that is not HTTP: {reason}",
                remedy="is it refaug's port, and http or https as it should be?",
                request_id=self.id,
            )
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
            return errors.Usage(f"{where}: {reason}", request_id=self.id)
        return errors.ConnectionLost(f"the connection to {where} ended before the answer: {reason}", request_id=self.id)

    def pause(self, error: errors.RefaugError) -> float:
        """Return the seconds until the next try; raise the error where there is none."""
        retry, now = self.settings.retry, time.monotonic()
        error.tries, self.last_error = self.try_count, error
        if self.call.timed and not self.is_corrected and self.limits.learn_from(error):
            self.is_corrected = True
            return 0.0
        if self.deadline is not None:
            retry = replace(retry, total_s=max(0.0, min(retry.total_s, self.deadline - self.started)))
        wait = retry.pause(
            error, tried=self.try_count, spent_s=now - self.started, repeatable=self.call.may_be_repeated
        )
        if wait is None:
            raise error
        return wait


# ── What both kinds of connections do: a call is tried until it is answered ───────────────────────────────────────────


class AnyConnection(ABC):
    """Sends calls and retries them; in a connection for threads every await is answered at once."""

    def __init__(self, to: ConnectionSettings) -> None:
        self.settings: ConnectionSettings = to
        self._limits = ServerLimits()

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether it was closed."""

    @abstractmethod
    def _request(self, sending: Exchange[Any]) -> tuple[Any, httpx.Request]:
        """Return an httpx client, and the request of the next try."""

    @abstractmethod
    async def _begin(self, http: Any, request: httpx.Request) -> Any:
        """Send a request; return the answer as far as its headers."""

    @abstractmethod
    async def _is_closed_after(self, seconds: float) -> bool:
        """Wait so long, or until the connection is closed; whether it is."""

    async def answer(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `timeout_s` limits each try, `within_s` all of them with the pauses."""
        sending = Exchange(self.settings, self._limits, call, timeout_s, within_s)
        while True:
            try:
                return await self._try_once(sending)
            except errors.RefaugError as error:
                if await self._is_closed_after(sending.pause(error)):
                    raise

    async def _try_once(self, sending: Exchange[T]) -> T:
        request, response = await self._send_request(sending)
        try:
            chunks = []
            async for chunk in response.aiter_bytes():
                chunks.append(chunk)
                sending.require_time(request)
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.is_closed) from error
        finally:
            await response.aclose()
        return read_answer(sending.call, sending.answer(response, b"".join(chunks)))

    async def _send_request(self, sending: Exchange[Any]) -> tuple[httpx.Request, Any]:
        """Send the next try, and return its request and the answer as far as its headers."""
        http, request = self._request(sending)
        try:
            return request, await self._begin(http, request)
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.is_closed) from error
        except RuntimeError as error:  # httpx raises this for a closed client
            if self.is_closed or http.is_closed:
                raise closed_error() from error
            raise

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> AsyncIterator[Any]:
        """Yield an answer as it comes, since it may be too long for memory; retried only until it begins.

        `timeout_s` limits its beginning, and then every pause in it; `within_s` all tries of its beginning.
        """
        sending = Exchange(self.settings, self._limits, call, timeout_s, within_s, whole=False)
        while True:
            try:
                response = await self._open_stream(sending)
                break
            except errors.RefaugError as error:
                if await self._is_closed_after(sending.pause(error)):
                    raise
        try:
            yield response
        except HTTP_ERRORS as error:
            raise sending.error(error, closed=self.is_closed) from error
        finally:
            await response.aclose()

    async def _open_stream(self, sending: Exchange[Any]) -> Any:
        _, response = await self._send_request(sending)
        if response.status_code >= 300 and response.status_code not in sending.call.expected:
            try:
                content = await response.aread()
            except HTTP_ERRORS as error:
                raise sending.error(error, closed=self.is_closed) from error
            finally:
                await response.aclose()
            read_answer(sending.call, sending.answer(response, content))
        return response


class AnyWire(Generic[AnyLink]):
    """The connection of a client, as its methods see it: with the time limit of the client's options."""

    def __init__(self, connection: AnyLink, settings: ConnectionSettings) -> None:
        self.connection: AnyLink = connection
        self.settings: ConnectionSettings = settings

    async def send(self, call: Call[T], *, within_s: Optional[float] = None) -> T:
        """Return what the server answers; `within_s` limits all tries with the pauses between them."""
        return await self.connection.answer(call, timeout_s=self.settings.timeout_s, within_s=within_s)

    def stream(
        self, call: Call[Any], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open an answer that comes in pieces."""
        timeout_s = self.settings.timeout_s if timeout_s is None else timeout_s
        return self.connection.stream(call, timeout_s=timeout_s, within_s=within_s)


def finite_seconds(within_s: float) -> float:
    """Return the seconds that are left, perhaps none."""
    if isinstance(within_s, (bool, str)) or not hasattr(within_s, "__float__") or math.isnan(within_s):
        raise errors.Usage(f"within_s={within_s!r} is not a number of seconds", remedy="seconds, or None")
    return min(float(within_s), 1e8)


def closed_error() -> errors.Usage:
    """Return the error of a client that was closed."""
    return errors.Usage("this client is closed", remedy="a new one")


HTTP_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)


def require_picklable(to: ConnectionSettings, http: object) -> ConnectionSettings:
    """Return the settings for another process; Usage where an httpx client was handed in."""
    if http is not None:
        raise errors.Usage(
            "a client with an httpx client that was handed in cannot be pickled",
            remedy="make the client in the worker, or let it make its own connections",
        )
    return to


# ── Downloads: files that are there whole or not at all ───────────────────────────────────────────────────────────────

_NAME = re.compile(r'filename="([0-9A-Za-z][0-9A-Za-z._-]{0,200})"')


async def download(wire: Wire, call: Call[Any], to: Union[str, os.PathLike[str]], otherwise: str) -> Path:
    """Write an answer to a file, which is there whole or not at all, or into a folder; begin anew after a break."""
    began, tried = time.monotonic(), 0
    while True:
        tried, is_begun = tried + 1, False
        try:
            async with wire.stream(call) as response:
                is_begun = True
                target = download_path(to, response.headers, otherwise)
                with write_atomically(target) as file:
                    async for piece in response.aiter_bytes():
                        file.write(piece)
        except NoAnswer as error:
            spent_s, retry = time.monotonic() - began, wire.settings.retry
            wait = retry.pause(error, tried=tried, spent_s=spent_s, repeatable=True) if is_begun else None
            if wait is None:
                raise
            await wire.pause(wait)
        else:
            return target


@contextmanager
def write_atomically(to: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that gets its name when the block ends well, and is removed otherwise."""
    aside = to.with_name(f"{to.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(to)
    except BaseException:
        with suppress(FileNotFoundError):
            aside.unlink()
        raise


def download_path(to: Union[str, os.PathLike[str]], headers: Mapping[str, str], otherwise: str) -> Path:
    """Return where a download goes: to this file, or into this folder by the name that the server gives."""
    path = Path(to)
    if not path.is_dir():
        return path
    named = _NAME.search(headers.get("content-disposition", ""))
    return path / (named[1] if named else otherwise)
