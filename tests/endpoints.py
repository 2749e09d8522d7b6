"""Endpoints of language models on loopback, for tests: what they answer is a function of the request."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    number: int  # 0 for the first one
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The last message."""
        return self.body["messages"][-1]["content"]

    def part(self, title: str) -> Any:
        """The JSON after a line of the prompt that ends in a colon."""
        lines = self.prompt.split("\n")
        return json.loads(lines[lines.index(f"{title}:") + 1])

    @property
    def reply(self) -> str:
        """The reply to judge."""
        return self.part("Reply to judge")


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What is answered, perhaps a while later; `cut`: only so many bytes of it, then the connection ends."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    hangs: bool = False  # no answer at all, until the server ends
    after_s: float = 0.0

    @property
    def content(self) -> bytes:
        """The bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def openai(text: str | None, **more: Any) -> dict[str, Any]:
    """A chat completion as OpenAI answers it."""
    message = {"role": "assistant", "content": text, "refusal": more.pop("refusal", None), "annotations": []}
    if calls := more.pop("tool_calls", None):
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "large-1",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": more.pop("logprobs", None),
                "finish_reason": more.pop("finish", "stop"),
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
        "service_tier": "default",
        "system_fingerprint": more.pop("fingerprint", "fp_1"),
        **more,
    }


def vllm(text: str) -> dict[str, Any]:
    """As vLLM answers it: thinking beside the content, no fingerprint."""
    return {
        "id": "chatcmpl-2",
        "object": "chat.completion",
        "model": "org/small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "reasoning_content": "It fits.", "content": text, "tool_calls": []},
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": None,
            }
        ],
        "usage": {"prompt_tokens": 90, "total_tokens": 97, "completion_tokens": 7, "prompt_tokens_details": None},
        "prompt_logprobs": None,
    }


def ollama(text: str) -> dict[str, Any]:
    """As Ollama answers it: always the same fingerprint."""
    answer = openai(text, fingerprint="fp_ollama")
    del answer["choices"][0]["logprobs"], answer["service_tier"]
    return answer


def llama_cpp(text: str) -> dict[str, Any]:
    """As the server of llama.cpp answers it: timings, and the build as fingerprint."""
    return {
        "choices": [{"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": text}}],
        "created": 1_700_000_000,
        "model": "small.gguf",
        "system_fingerprint": "b4321-1a2b3c4",
        "object": "chat.completion",
        "usage": {"completion_tokens": 7, "prompt_tokens": 80, "total_tokens": 87},
        "id": "chatcmpl-3",
        "timings": {"prompt_n": 80, "prompt_ms": 12.5, "predicted_n": 7},
    }


def number_logprobs(text: str, number: str, probabilities: dict[str, float]) -> dict[str, Any]:
    """Log-probabilities of an answer in which one token is the number."""
    from math import log  # noqa: PLC0415

    before, _, after = text.partition(number)
    top = [{"token": token, "logprob": log(p), "bytes": None} for token, p in probabilities.items()]
    plain = [{"token": part, "logprob": 0.0, "bytes": None, "top_logprobs": []} for part in (before, after)]
    there = {"token": number, "logprob": log(probabilities[number]), "bytes": None, "top_logprobs": top}
    return {"content": [plain[0], there, plain[1]], "refusal": None}


Respond = Callable[[Received], Sent | dict[str, Any]]


class FakeEndpoint:
    """A running endpoint; `received` are the requests in the order in which they came."""

    def __init__(self, respond: Respond) -> None:
        self.respond, self.received = respond, list[Received]()
        self.most_at_once = 0
        self._at_once = 0
        self._never = list[asyncio.Event]()
        self._loop = asyncio.new_event_loop()
        self._ready, self.port = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._end_connections())
        self._loop.close()

    async def _end_connections(self) -> None:
        """Cancel what still waits, connections that were just accepted too, and let their transports close."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def close(self) -> None:
        """End the server with all its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                await asyncio.sleep(0)
                is_open = await self._answer(first.split()[1], headers, content, writer)
                self._at_once -= 1
                if not is_open:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _answer(self, path: str, headers: dict[str, str], content: bytes, writer: asyncio.StreamWriter) -> bool:
        received = Received(len(self.received), path, headers, json.loads(content))
        self.received.append(received)
        answer = self.respond(received)
        sent = answer if isinstance(answer, Sent) else Sent(body=answer)
        if sent.hangs:
            self._never.append(asyncio.Event())  # a wait that nothing refers to would be collected as garbage
            await self._never[-1].wait()
        await asyncio.sleep(sent.after_s)
        lines = {"Content-Type": "application/json", "Content-Length": str(len(sent.content)), **sent.headers}
        head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
        writer.write(f"HTTP/1.1 {sent.status} X\r\n{head}\r\n".encode())
        writer.write(sent.content if sent.cut is None else sent.content[: sent.cut])
        await writer.drain()
        return sent.cut is None


@contextmanager
def endpoint(respond: Respond) -> Iterator[FakeEndpoint]:
    """An endpoint that answers until the block ends."""
    fake = FakeEndpoint(respond)
    try:
        yield fake
    finally:
        fake.close()


def write_judge(home: Path, url: str, name: str = "local", **fields: Any) -> Path:
    """Write the file of a judge into a home."""
    path = home / "judges" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"url": url, "model": "small", **fields}))
    return path
