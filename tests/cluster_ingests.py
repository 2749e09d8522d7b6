"""Sources of many formats that tests ingest on a cluster, and what an ingest leaves behind."""

from __future__ import annotations

import csv
import gzip
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
from integration.conftest import timeless
from integration.reference import dialogue_log, message

from refaug.core.progress import Silent


@dataclass(frozen=True)
class Files:
    """Sources in the order of an ingest; those after the first are read without cuts where their names say so."""

    all: tuple[Path, ...]
    uncut: tuple[str, ...]  # how the names of their pieces begin

    @classmethod
    def write(cls, folder: Path) -> Files:
        """Write dialogues with a bad row and floods, pairs in other formats, and trees over two files."""
        rng = random.Random(7)
        dialogues, _ = dialogue_log(1, 250)
        flood = [
            orjson.dumps(
                {"id": f"f{n}", "turns": [f"who called at {n}?", f"call me at number {n} for a free prize now"]}
            )
            for n in range(40)
        ]
        lines = dialogues.splitlines()
        lines[10:10] = [b"{not json"]
        for place, line in enumerate(flood):
            lines.insert(4 * place, line)
        _write(folder / "a.jsonl", b"\xef\xbb\xbf" + b"\n".join(lines))
        _write(folder / "b.jsonl.gz", gzip.compress(dialogue_log(2, 150, prefix="e")[0], mtime=0))
        with (folder / "c.csv").open("w", newline="") as file:
            rows = [(f"first line {n}\nsecond line {n}", f"answer {rng.random()}") for n in range(200)]
            csv.writer(file).writerows([("utterance", "response"), *rows])
        pairs = "".join(f"question {n}\tanswer {n} of them\n" for n in range(200))
        _write(folder / "d.tsv", b"utterance\tresponse\n" + pairs.encode() + b"only one field\n")
        messages = [message(f"m{n}", f"m{rng.randrange(n)}" if n % 9 else None) for n in range(500)]
        messages += [message("m3", "m1"), message("loop", "pool"), message("pool", "loop"), message("lost", "nowhere")]
        rng.shuffle(messages)
        for name, some in (("e.jsonl", messages[:250]), ("f.jsonl", messages[250:])):
            _write(folder / name, b"\n".join(one.line for one in some))
        names = ("a.jsonl", "b.jsonl.gz", "c.csv", "d.tsv", "e.jsonl", "f.jsonl")
        return cls(tuple(folder / name for name in names), ("read-00001-", "read-00002-"))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


class Steps(Silent):
    """Notes which steps an ingest takes; calls a function when something of each is done for the first time."""

    def __init__(self, after_first=lambda stage: None):
        self.stages, self._after_first, self._is_begun = [], after_first, True

    def stage(self, name, total=None, unit=""):
        self.stages.append(name.partition(" on ")[0])
        self._is_begun = False

    def advance(self, amount):
        if amount and not self._is_begun:
            self._is_begun = True
            self._after_first(self.stages[-1])


@dataclass(frozen=True)
class Content:
    """Everything that an ingest leaves, without times."""

    report: dict
    files: dict
    rejects: bytes


def content_of(folder, report=None, log="chat"):
    home = folder / "logs" / log
    found = {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
    found["manifest.json"] = timeless(found["manifest.json"])
    rejects = folder / "rejects.jsonl"
    return Content(report or {}, found, rejects.read_bytes() if rejects.exists() else b"")


def command_of(home, *arguments):
    """Arguments of a process that ingests."""
    return {
        "args": [
            *(sys.executable, "-m", "refaug", "--home", str(home), "log", "ingest", *map(str, arguments)),
            *("--log", "chat", "--memory", "256MiB", "--json"),
        ],
        "env": dict(os.environ),
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def first_lines(output):
    """What a command printed as JSON."""
    return orjson.loads(output)
