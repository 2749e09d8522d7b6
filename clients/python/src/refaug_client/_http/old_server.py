"""Tells a server that is too old from a request that is wrong.

A route, a field or a value that the server does not know looks like a mistake of the caller (404, 422), and an answer
without a field that this library reads looks like a fault. In these cases, and in no others, the client asks the server
for its version once: an older one becomes an OldServer error, and everything else stays the error that it was.
"""

from __future__ import annotations

import re
from typing import Any, Optional, Protocol, TypeVar

from refaug_client._core import errors
from refaug_client._version import VERSION

from .call import Answer, Call

T = TypeVar("T")


_ASK_S = 5.0
_UNKNOWN = re.compile(r"extra inputs are not permitted|input should be |input tag .* found using", re.IGNORECASE)


def _read_version(answer: Answer) -> str:
    version = answer.json().get("version")
    return version if isinstance(version, str) else ""


HEALTH: Call[str] = Call("GET", "/healthz", _read_version)


def may_be_old(error: errors.RefaugError) -> bool:
    """Whether this is an error that an older server gives to a request that a newer one answers."""
    if isinstance(error, errors.BadAnswer):  # refaug's own JSON, in which a field is missing
        return error.complete and error.status is not None and error.status < 300
    if not isinstance(error, (errors.NotFound, errors.BadInput)):
        return False
    if error.code in ("unknown_path", "method_not_allowed"):
        return True
    messages = [error.message, *(str(one.get("message")) for one in error.errors)]
    return error.status == 422 and any(_UNKNOWN.search(one) for one in messages)


def is_older(server: str, client: str) -> bool:
    """Whether the server is of an earlier minor version; only the first two numbers count, and both must be there."""
    theirs, ours = _parse_release(server), _parse_release(client)
    return theirs is not None and ours is not None and theirs < ours


def _parse_release(version: str) -> Optional[tuple[int, int]]:
    match = re.match(r"v?(\d{1,9})\.(\d{1,9})(?![0-9])", version, re.ASCII)
    return None if match is None else (int(match[1]), int(match[2]))


def _old_server_error(error: errors.RefaugError, server: str) -> errors.OldServer:
    """Return the error of a server that lacks something, from the error that it gave."""
    first, second = _parse_release(server) or (0, 0)
    return errors.OldServer(
        f"the server is refaug {server}, older than this library ({VERSION}), and may lack what was asked for: "
        f"{error.message}",
        remedy=f"a newer server, or pip install 'refaug-client=={first}.{second}.*'",
        server=server,
        client=VERSION,
        status=error.status,
        request_id=error.request_id,
        tries=error.tries,
    )


class Sender(Protocol):
    """A connection, as far as it is needed here."""

    def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers."""
        ...


class AsyncSender(Protocol):
    """The same for asyncio."""

    async def send(self, call: Call[T], *, timeout_s: Optional[float] = None, within_s: Optional[float] = None) -> T:
        """Return what the server answers."""
        ...


def require_current(error: errors.RefaugError, call: Call[Any], connection: Sender) -> None:
    """Raise OldServer where the error comes from a server that is older than this library."""
    if call is not HEALTH and may_be_old(error):
        try:
            server = connection.send(HEALTH, timeout_s=_ASK_S, within_s=_ASK_S)
        except errors.RefaugError:  # its version stays unknown, and the first error is raised
            return
        if is_older(server, VERSION):
            raise _old_server_error(error, server) from error


async def async_require_current(error: errors.RefaugError, call: Call[Any], connection: AsyncSender) -> None:
    """Raise OldServer as `require_current` does, in asyncio."""
    if call is not HEALTH and may_be_old(error):
        try:
            server = await connection.send(HEALTH, timeout_s=_ASK_S, within_s=_ASK_S)
        except errors.RefaugError:
            return
        if is_older(server, VERSION):
            raise _old_server_error(error, server) from error
