"""The socket that a server listens on: of an address and a port, or of a file."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from refaug.core.errors import Conflict, RefaugError, Usage
from refaug.service.server_settings import ServeSettings

BACKLOG: Final = 2_048  # connections that may wait to be accepted


@contextmanager
def bound_socket(settings: ServeSettings, *, any_port: bool = False) -> Iterator[socket.socket]:
    """Yield a listening socket; connections wait until a web process accepts them."""
    bound = _unix_socket(Path(settings.uds)) if settings.uds else _internet_socket(settings, any_port=any_port)
    try:
        bound.listen(BACKLOG)  # at once, or a second server could bind the same port
        yield bound
    finally:
        bound.close()
        if settings.uds:
            Path(settings.uds).unlink(missing_ok=True)


def _internet_socket(settings: ServeSettings, *, any_port: bool) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise Usage(
            f"{settings.host!r} is not an address to listen on: {(error.strerror or str(error)).lower()}",
            remedy="--host 127.0.0.1, or an address of this machine",
        ) from error
    family, _, _, _, place = min(addresses, key=lambda one: one[0] != socket.AF_INET)  # localhost is often both
    for port in (settings.port, 0) if any_port and settings.port else (settings.port,):
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((place[0], port, *place[2:]))
        except OSError as error:
            bound.close()
            if error.errno == errno.EADDRINUSE and any_port and port:
                continue
            raise _listen_error(settings, error) from error
        return bound
    raise AssertionError("port 0 is never in use")


def _listen_error(settings: ServeSettings, error: OSError) -> RefaugError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {settings.port} of {settings.host} is in use",
            remedy="stop whoever listens there, or --port with another one (0: any that is free), or --any-port",
        )
    reason = (error.strerror or str(error)).lower()
    remedy = "a port from 1024 on" if error.errno == errno.EACCES else "--host with an address of this machine"
    return Usage(f"cannot listen on port {settings.port} of {settings.host}: {reason}", remedy=remedy)


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket that only this user can reach; the socket file of a killed server is removed."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)  # restricts the file from its creation on, unlike a later chmod
    try:
        if path.exists():
            _require_stale_socket(path)
            path.unlink()
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise Usage(
            f"cannot listen on {path}: {(error.strerror or str(error)).lower()}",
            remedy="a path in a folder of this user, of at most about 100 characters",
        ) from error
    except RefaugError:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound


def _require_stale_socket(path: Path) -> None:
    """Raise Conflict if the file is not a socket, or if a server listens on it."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise Conflict(f"{path} is there and is not a socket", remedy="another path for --uds")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise Conflict(f"somebody listens on {path}", remedy="stop that server, or another path for --uds")


def address_of(listener: socket.socket) -> str:
    """Return the address of a socket as a URL."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
