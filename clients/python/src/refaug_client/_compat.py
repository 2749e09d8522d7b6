"""Telling a server that is too old from a request that is wrong: asked only after an error that may be either.

A route, a field or a value that the server has never heard of looks like a mistake of the caller (404, 422), and an
answer without a field that this library reads looks like a fault. In these cases, and in no others, the server is asked
for its version once: an older one is named, and everything else stays the error that it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Optional

from . import _errors as errors
from ._call import Answer, Call
from ._version import VERSION

if TYPE_CHECKING:
    from ._connection import AsyncConnection, Connection

_ASK_S = 5.0
_UNKNOWN = re.compile(r"extra inputs are not permitted|input should be |input tag .* found using", re.IGNORECASE)


def _version(answer: Answer) -> str:
    found = answer.json().get("version")
    return found if isinstance(found, str) else ""


HEALTH: Call[str] = Call("GET", "/healthz", _version)


def may_be_old(error: errors.RefaugError) -> bool:
    """Whether this is an error that an older server gives to a request that a newer one answers."""
    if isinstance(error, errors.BadAnswer):  # refaug's own JSON, in which something is not there
        return error.complete and error.status is not None and error.status < 300
    if not isinstance(error, (errors.NotFound, errors.BadInput)):
        return False
    if error.code in ("unknown_path", "method_not_allowed"):
        return True
    said = [error.message, *(str(one.get("message")) for one in error.errors)]
    return error.status == 422 and any(_UNKNOWN.search(one) for one in said)


def is_older(server: str, client: str) -> bool:
    """Whether the server is of an earlier minor version; only the first two numbers count, and both must be there."""
    theirs, ours = _release(server), _release(client)
    return theirs is not None and ours is not None and theirs < ours


def _release(version: str) -> Optional[tuple[int, int]]:
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})(?![0-9])", version, re.ASCII)
    return None if found is None else (int(found[1]), int(found[2]))


def _old(error: errors.RefaugError, server: str) -> errors.OldServer:
    """The error of a server that lacks something, out of the one that it gave."""
    first, second = _release(server) or (0, 0)
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


def require_current(error: errors.RefaugError, call: Call[Any], connection: Connection) -> None:
    """OldServer where the error comes from a server that says that it is older than this library."""
    if call is not HEALTH and may_be_old(error):
        try:
            server = connection.send(HEALTH, timeout_s=_ASK_S, within_s=_ASK_S)
        except errors.RefaugError:  # then nothing is known of it, and the first error is the one to tell
            return
        if is_older(server, VERSION):
            raise _old(error, server) from error


async def async_require_current(error: errors.RefaugError, call: Call[Any], connection: AsyncConnection) -> None:
    """The same from an asyncio loop."""
    if call is not HEALTH and may_be_old(error):
        try:
            server = await connection.send(HEALTH, timeout_s=_ASK_S, within_s=_ASK_S)
        except errors.RefaugError:
            return
        if is_older(server, VERSION):
            raise _old(error, server) from error
