"""The files of cases: what is sent, and what is answered.

A part of what is sent is a text, or a text and how many times it comes. Texts are bytes as Latin-1 reads them.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "integration" / "attacks"
REQUESTS: Final[dict[str, Any]] = json.loads((FOLDER / "requests.json").read_text("utf-8"))
BODIES: Final[dict[str, Any]] = json.loads((FOLDER / "bodies.json").read_text("utf-8"))
UPLOADS: Final[dict[str, Any]] = json.loads((FOLDER / "uploads.json").read_text("utf-8"))
UPLOAD_MIB: Final = 16  # the size of one upload at the servers that get these


def joined(parts: Sequence[str | Sequence[Any]]) -> bytes:
    """Return the bytes of these parts."""
    texts = (part if isinstance(part, str) else part[0] * part[1] for part in parts)
    return "".join(texts).encode("latin-1")


def request_of(case: dict[str, Any], *lines: str) -> bytes:
    """Return the request of a hostile body."""
    body = joined(case["body"])
    if case.get("gzip"):
        body, lines = gzip.compress(body), (*lines, "Content-Encoding: gzip")
    head = (f"POST {case['path']} HTTP/1.1", "Host: x", "Content-Type: application/json", *lines)
    return "\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body


def upload_request_of(case: dict[str, Any], *lines: str) -> bytes:
    """Return the request of a hostile upload."""
    body = joined(case["body"])
    if case.get("gzip"):
        body = gzip.compress(body)
        body = body[: len(body) - case.get("cut", 0)]
    head = [f"POST /v1/uploads?{case['query']} HTTP/1.1", "Host: x", *lines, *case.get("headers", ())]
    if kind := case.get("type", "application/octet-stream"):
        head.append(f"Content-Type: {kind}")
    if case.get("chunked") or case.get("raw_chunks"):
        head.append("Transfer-Encoding: chunked")
    if "length" in case or not (case.get("chunked") or case.get("raw_chunks")):
        head.append(f"Content-Length: {case.get('length', len(body))}")
    if case.get("chunked"):
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return "\r\n".join((*head, "", "")).encode() + body


def answers_to(port: int, content: bytes, *, pieces: int = 1) -> list[tuple[int, bytes]]:
    """Send these bytes, end sending, and return the statuses and bodies of all answers."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        try:
            size = max(1, -(-len(content) // pieces))
            for start in range(0, len(content), size):
                connection.sendall(content[start : start + size])
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before it was all sent: the answer can be read
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
    return _parsed(received)


def _parsed(received: bytes) -> list[tuple[int, bytes]]:
    answers = list[tuple[int, bytes]]()
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status == 100:
            continue
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        answers.append((status, received[:length]))
        received = received[length:]
    return answers
