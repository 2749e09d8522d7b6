"""A server in this process whose limits of time are short, for attacks that wait for them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest
import uvicorn
from attack_cases import UPLOAD_MIB
from serving import listening, small_home, wait_until

from refaug.service.process.guarded_config import GuardedConfig
from refaug.service.process.server import config_of
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

LIMITS = {
    "idle_s": 1.0,
    "head_s": 1.0,
    "body_s": 1.0,
    "trailers_s": 0.5,
    "drain_s": 0.5,
    "linger_s": 0.5,
    "fetch_s": 1.0,
    "probe_s": 0.1,
}


class Client:
    """A plain socket to the server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, content: bytes) -> Self:
        self.socket.sendall(content)
        return self

    def end_sending(self) -> Self:
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def rest(self) -> bytes:
        """Everything that comes until the server closes the connection."""
        try:
            while piece := self.socket.recv(1 << 16):
                self.buffer += piece
        except ConnectionResetError:
            pass
        return self.buffer

    def status(self) -> int:
        """The status of the next answer, whose body is read."""
        while b"\r\n\r\n" not in self.buffer:
            self._receive()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        while len(self.buffer) < length:
            self._receive()
        self.buffer = self.buffer[length:]
        return int(head.split()[1])

    def _receive(self) -> None:
        piece = self.socket.recv(1 << 16)
        assert piece, "the server has closed the connection"
        self.buffer += piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()


@dataclass
class Attacked:
    """The server."""

    port: int
    server: uvicorn.Server
    config: GuardedConfig
    state: Any

    def connect(self) -> Client:
        return Client(self.port)

    @contextmanager
    def limited(self, **limits: float) -> Iterator[None]:
        """Other limits for the connections that are made meanwhile."""
        before = self.config.limits
        self.wait_until_alone()
        self.config.limits = replace(before, **limits)
        try:
            yield
        finally:
            self.config.limits = before

    def wait_until_alone(self) -> None:
        wait_until(lambda: not self.server.server_state.connections)


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    home = small_home(tmp_path_factory.mktemp("attacked"))
    serve = ServeSettings(
        port=0, allowed_hosts="*", body_mib=8, upload_mib=UPLOAD_MIB, body_timeout_s=0.5, shutdown_s=2
    )
    app, config = create_app(home, serve), config_of(serve)
    config.app, config.port = (lambda: app), 0
    config.limits = replace(config.limits, **LIMITS)
    server = uvicorn.Server(config)
    with listening(server) as port:
        running = Attacked(port, server, config, app.state.refaug)
        wait_until(lambda: _status(running, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n") == 200)
        yield running


def _status(running: Attacked, content: bytes) -> int:
    with running.connect() as client:
        return client.send(content).status()


@pytest.fixture
def status_of(attacked: Attacked) -> Callable[[bytes], int]:
    """Send a request over a connection of its own, and return the status of the answer."""
    return lambda content: _status(attacked, content)
