"""A server that does what a test says, byte by byte if need be: for answers that a real one never gives.

    with scripted(answers=[problem(429, retry_after=0), ok({"status": "ok"}), DROP]) as server:
        Client(server.url)…
        server.requests[0].path

`answers` are given in turn, the last one for ever; or one function of the request. An answer is bytes (sent as they
are, and the connection closed), a `Said`, or DROP.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Optional, Union

DROP = object()  # the connection ends without a byte


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in small letters
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Said:
    """An answer with everything that HTTP wants."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    first: Optional[threading.Event] = None  # is waited for before the first byte
    cut: Optional[int] = None  # so many bytes of the body, then the connection ends
    pieces: Sequence[bytes] = ()  # instead of a body, one chunk each; an Event among them is waited for


Answer = Union[bytes, Said, object]


def ok(value: Any, status: int = 200, **headers: str) -> Said:
    """A JSON answer."""
    return Said(status, json.dumps(value).encode(), {"content-type": "application/json", **_named(headers)})


def problem(status: int, code: str = "", detail: str = "not today", **more: Any) -> Said:
    """A problem document; `retry_after` becomes the header."""
    headers = {"content-type": "application/problem+json"}
    if (after := more.pop("retry_after", None)) is not None:
        headers["retry-after"] = str(after)
    code = code or {429: "too_many_requests", 503: "overloaded", 404: "not_found", 401: "no_key"}.get(status, "usage")
    value = {"type": f"/problems/{code}", "title": code, "status": status, "code": code, "detail": detail, **more}
    return Said(status, json.dumps({"request_id": "theirs", **value}).encode(), headers)


def page(status: int = 504, text: str = "<html><h1>Gateway Time-out</h1></html>") -> Said:
    """What a proxy shows."""
    return Said(status, text.encode(), {"content-type": "text/html"})


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass
class Scripted:
    """The running server, and what it was asked."""

    url: str
    requests: list[Asked] = field(default_factory=list)
    connections: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def until(self, count: int, method: str = "", timeout_s: float = 30.0) -> None:
        """Wait until so many requests have come, of one method or of all."""

        def come() -> int:
            return sum(method in ("", asked.method) for asked in self.requests)

        with self.changed:
            assert self.changed.wait_for(lambda: come() >= count, timeout_s), come()


@contextmanager
def scripted(answers: Union[Sequence[Answer], Callable[[Asked], Answer]], port: int = 0) -> Iterator[Scripted]:
    """The server, on a free port of 127.0.0.1, until the end of the block."""
    turn = iter(answers) if not callable(answers) else None
    last: list[Answer] = [b""]
    ending = threading.Event()

    def next_answer(asked: Asked) -> Answer:
        with found.changed:
            found.requests.append(asked)
            found.changed.notify_all()
            if turn is not None:
                last[0] = next(turn, last[0])
                return last[0]
        return answers(asked)  # type: ignore[operator]

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True  # an answer goes in two writes, and the second would wait for an ACK

        def handle(self) -> None:
            with found.changed:
                found.connections += 1
            with suppress(OSError):
                while (asked := _read(self.rfile)) is not None:
                    answer = next_answer(asked)
                    if not self._sent(answer):
                        return

        def _sent(self, answer: Answer) -> bool:
            if answer is DROP:
                return False
            if isinstance(answer, bytes):
                self.wfile.write(answer)
                return False
            assert isinstance(answer, Said)
            _wait(answer.first, ending)
            lines = [f"HTTP/1.1 {answer.status} Said"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            size = "transfer-encoding: chunked" if answer.pieces else f"content-length: {len(answer.body)}"
            self.wfile.write("\r\n".join([*lines, size, "", ""]).encode("latin-1"))
            if answer.pieces:
                for piece in answer.pieces:
                    if isinstance(piece, threading.Event):
                        _wait(piece, ending)
                    else:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        self.wfile.flush()
                if answer.cut is not None:
                    return False
                self.wfile.write(b"0\r\n\r\n")
                return True
            self.wfile.write(answer.body[: answer.cut])
            return answer.cut is None

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 256

    with Server(("127.0.0.1", port), Handler) as server:
        found = Scripted(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            ending.set()
            server.shutdown()
            thread.join()


def _wait(event: Optional[threading.Event], ending: threading.Event) -> None:
    while event is not None and not event.wait(0.02) and not ending.is_set():
        pass


def _read(file: Any) -> Optional[Asked]:
    """The next request; None where the connection ends before the request does, which nobody has asked then."""
    line = file.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers = {}
    while (header := file.readline()) != b"\r\n":
        if not header.endswith(b"\n"):
            return None
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    size = int(headers.get("content-length", 0))
    body = file.read(size)
    return Asked(line[0], line[1], headers, body) if len(body) == size else None
