"""An endpoint of a language model for `bench_judge.py`: it answers after a delay, and some requests with a fault.

    python bench/judge_endpoint.py --delay-s 0.2 --fault-share 0.05

It prints its port. `GET /counts` tells how often each id was asked, and how often it was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from collections import Counter
from typing import ClassVar, Final

# Kinds of faults, each as the bytes that are sent; None: no answer for longer than the client waits.
_BAD_JSON: Final = b'{"choices": [{"message": {"content"'
FAULTS: Final[dict[str, bytes | None]] = {
    "server": b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n",
    "rate_limited": b"HTTP/1.1 429 X\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
    "html": b"HTTP/1.1 200 X\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "cut_off": b'HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n{"choices"',
    "bad_json": b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n%s" % (len(_BAD_JSON), _BAD_JSON),
    "timeout": None,
}
ANSWERS: Final = {  # faults of the model, with status 200
    "refusal": "I'm sorry, but I can't judge that.",
    "nonsense": "It deserves 4 of 5, for 2 reasons.",
    "off_scale": '{"overall": 9}',
    "empty": "",
}


class Endpoint(asyncio.Protocol):
    """One connection."""

    asked: ClassVar[Counter[str]] = Counter()
    answered: ClassVar[Counter[str]] = Counter()
    delay_s = 0.0
    fault_share = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing read."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer a request when it is complete."""
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers.get(b"content-length", b"0"))
        if len(body) < length:
            return
        self.buffer = body[length:]
        if head.startswith(b"GET"):
            self.send(json.dumps({"asked": self.asked, "answered": self.answered}).encode())
            return
        name = headers[b"idempotency-key"].decode()
        self.asked[name] += 1
        kind = self.fault_of(name)
        if kind == "timeout":
            return
        if kind in FAULTS:
            self.transport.write(FAULTS[kind] or b"")
            if kind == "cut_off":
                self.transport.close()
            return
        text = ANSWERS.get(kind, json.dumps({"overall": 1 + int(name[:6], 16) % 5}))
        asyncio.get_running_loop().call_later(self.delay_s, self.answer, name, text)

    def fault_of(self, name: str) -> str:
        """Return the fault of this try: those of the network hit tries, those of the model requests."""
        kinds = [*FAULTS, *ANSWERS]
        by_try = hashlib.sha256(f"{name} {self.asked[name]}".encode()).digest()
        by_name = hashlib.sha256(name.encode()).digest()
        for place, kind in enumerate(kinds):
            digest = by_try if kind in FAULTS else by_name
            share = int.from_bytes(digest[:4], "big") / 2**32
            if place * self.fault_share <= share < (place + 1) * self.fault_share:
                return kind
        return ""

    def answer(self, name: str, text: str) -> None:
        """Send an answer, if the connection is still there."""
        if self.transport.is_closing():
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 300, "completion_tokens": 6}
        body = {"model": "bench", "system_fingerprint": "fp_bench", "choices": [choice], "usage": usage}
        self.send(json.dumps(body).encode())
        self.answered[name] += 1

    def send(self, content: bytes) -> None:
        """Send a body with status 200."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
        self.transport.write(head + content)


async def serve() -> None:
    """Serve until the process ends."""
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-s", type=float, default=0.2)
    parser.add_argument("--fault-share", type=float, default=0.0)
    options = parser.parse_args()
    Endpoint.delay_s, Endpoint.fault_share = options.delay_s, options.fault_share
    asyncio.run(serve())
