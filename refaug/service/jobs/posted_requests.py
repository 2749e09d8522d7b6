"""The requests that wait for a log, listed in a file beside them, so that adding one costs the same however many wait.

    .requests      a name for this list, then the names of the waiting requests, a line each

A request's name is written before its file, and the end of the line after it: a list whose last line has no end is of a
process that was killed between the two. Such a list, a damaged one and a missing one are made anew from the folder.
Each process remembers how far it has read. All of it happens under the lock of those who post.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refaug.core.files import unique_suffix, write_aside
from refaug.core.full_disk import storage_errors

LIST_FILE: Final = ".requests"  # hidden and of no backup: it is made anew in a restored home
_REQUEST_NAME: Final = re.compile(r"\d{20}-([0-9a-f]{32})-(\d{1,12})-(\d{1,15})\.jsonl")


@dataclass(frozen=True, kw_only=True)
class PostedRequest:
    """The file of one request, described by its name."""

    name: str
    digest: str
    dialogues: int
    size: int

    @classmethod
    def of(cls, name: str) -> PostedRequest | None:
        """Return the request of a file's name; None for another file."""
        match = _REQUEST_NAME.fullmatch(name)
        return cls(name=name, digest=match[1], dialogues=int(match[2]), size=int(match[3])) if match else None


def total(requests: Iterable[PostedRequest]) -> dict[str, int]:
    """Return how much some requests are together, each name counted once."""
    unique = {request.name: request for request in requests}.values()
    return {
        "requests": len(unique),
        "dialogues": sum(request.dialogues for request in unique),
        "bytes": sum(request.size for request in unique),
    }


class PostedRequests:
    """What waits for one log, as this process has last read it."""

    def __init__(self, folder: Path, list_waiting: Callable[[], list[PostedRequest]]) -> None:
        self._path, self._list_waiting = folder / LIST_FILE, list_waiting
        self._head, self._end = b"", 0
        self._digests, self.waiting = set[str](), total(())

    def __contains__(self, digest: str) -> bool:
        return digest in self._digests

    def refresh(self) -> None:
        """Read what other processes have posted meanwhile."""
        head = lines = b""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            if (head := file.readline()) != self._head:
                self._forget(head)
            file.seek(self._end)
            lines = file.read()
        requests = [PostedRequest.of(line.decode("latin-1")) for line in lines.splitlines()]
        if None in requests or not (head + lines).endswith(b"\n"):
            self._make_anew()
        else:
            self._count([request for request in requests if request is not None], len(lines))

    @contextmanager
    def adding(self, request: PostedRequest) -> Iterator[None]:
        """Note a request whose file the block writes; after an error, the next process looks into the folder."""
        line = request.name.encode() + b"\n"
        with storage_errors(self._path), self._path.open("ab", buffering=0) as file:
            file.write(line[:-1])
            os.fsync(file.fileno())
            yield
            file.write(line[-1:])
        self._count([request], len(line))

    def _make_anew(self) -> None:
        requests, head = self._list_waiting(), f"{unique_suffix()}\n".encode()
        lines = b"".join(f"{request.name}\n".encode() for request in requests)
        with write_aside(self._path) as file:
            file.write(head + lines)
        self._forget(head)
        self._count(requests, len(lines))

    def _forget(self, head: bytes) -> None:
        self._head, self._end = head, len(head)
        self._digests, self.waiting = set(), total(())

    def _count(self, requests: list[PostedRequest], length: int) -> None:
        self._end += length
        self._digests.update(request.digest for request in requests)
        self.waiting = {name: self.waiting[name] + more for name, more in total(requests).items()}
