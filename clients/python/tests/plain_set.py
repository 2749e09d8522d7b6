"""A stand-in for a server with one frozen set, whose scores follow a rule that a test knows: for faults in between.

Its answers have the shape of the real ones; test_faults.py compares them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Optional

from scripted import Asked, Said, ok, problem, scripted

SET = "5e7000000001"
ITEMS = [f"d{number}" for number in range(50)]
SIGNATURE = f"upsilon-bleu|set:{SET}|refaug:0.1.0"


def score_of(item: str, reply: str) -> float:
    """The rule: another number for every item and reply, with all the digits that a float has."""
    digest = hashlib.sha256(f"{item}\0{reply}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def scores_of(items: Sequence[str], replies: Sequence[Optional[str]]) -> list[Optional[float]]:
    """A score for every reply."""
    return [None if reply is None else score_of(item, reply) for item, reply in zip(items, replies)]


def answer(asked: Asked) -> Said:
    """What the server says."""
    if asked.path == "/healthz":
        return ok({"status": "ok", "version": "0.1.0"})
    if not asked.path.startswith("/v1/reference-sets/"):
        return problem(404)
    if asked.method == "GET":
        return ok({"id": SET, "purpose": "validation", "items": len(ITEMS), "request_id": "r"})
    body = asked.json
    values = {name: scores_of(body["items"], replies) for name, replies in body["replies"].items()}
    return ok(
        {
            "scores": [
                {
                    "metric": "upsilon-bleu",
                    "signature": SIGNATURE,
                    "signature_full": SIGNATURE,
                    "references": "0",
                    "corpus_from": "sums",
                    "higher_is_better": True,
                    "scale": 1.0,
                    "systems": {name: _system(found) for name, found in values.items()},
                }
            ],
            "data": "0",
            "items": len(set(body["items"])),
            "resampling": {"method": "percentile bootstrap over items", "draws": 0, "confidence": 0.95, "seed": 1},
            "problems": [],
            "warnings": [],
            "set": {"id": SET, "purpose": "validation", "items": len(ITEMS)},
            "request_id": "r",
        }
    )


def _system(values: list[Optional[float]]) -> dict[str, Any]:
    scored = [value for value in values if value is not None]
    mean = sum(scored) / len(scored) if scored else None
    return {
        "corpus": mean,
        "interval": None,
        "mean": mean,
        "mean_interval": None,
        "interval_note": "no interval was asked for",
        "scored": len(scored),
        "unscored": len(values) - len(scored),
        "unscored_by_reason": {},
        "parts": {},
        "values": values,
    }


# ── as a process that can be killed ───────────────────────────────────────────────────────────────────────────────


class Mortal:
    """The stand-in in a process of its own, on one port through all of its lives.

    With `lives=[20, 30]` it is killed in the middle of its 20th answer, begun again, killed in the middle of its 30th,
    and begun for the last time.
    """

    def __init__(self, lives: Sequence[int] = ()) -> None:
        self.deaths = 0
        self._lives, self._ended = list(lives), threading.Event()
        self._process = self._begun(0)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._live_on)
        self._thread.start()

    def _begun(self, port: int) -> subprocess.Popen[str]:
        life = str(self._lives.pop(0) if self._lives else 0)
        command = [sys.executable, __file__, str(port), life]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def _live_on(self) -> None:
        while not self._ended.is_set():
            self._process.communicate()
            if not self._ended.is_set():
                self.deaths += 1
                self._process = self._begun(self.port)

    def __enter__(self) -> Mortal:  # noqa: PYI034  Self is of 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._process.kill()
        self._thread.join()


class _Death(bytes):
    """A piece of an answer at which the server is killed."""

    def __len__(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 1


def _live(port: int, answers: int) -> None:
    count = itertools.count(1)

    def mortally(asked: Asked) -> Said:
        said = answer(asked)
        if asked.method == "POST" and next(count) == answers:
            return Said(200, headers=said.headers, pieces=[said.body[: len(said.body) // 2], _Death(b".")])
        return said

    with scripted(mortally, port=port) as server:
        sys.stdout.write(server.url.rpartition(":")[2] + "\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    _live(int(sys.argv[1]), int(sys.argv[2]))
