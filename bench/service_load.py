"""What bench_service.py measures with: test pairs, a home, servers, loads, and the same work without a server."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the service sets it, for the work in this process as well

import gzip
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from common import ROOT, free_port, pss_of, tree_of

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.files import write_aside
from refaug.core.home import Settings
from refaug.metrics.specification import build
from refaug.scoring.augmentation import augment
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.indexes import open_index
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import item_of
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings, ScoreSettings

NAME = "bench"
START_S = 300.0
Running = tuple[subprocess.Popen[bytes], int]  # a server and its port


@dataclass(frozen=True, kw_only=True)
class ServiceWorkload:
    """The settings of the command line."""

    home: Path
    scratch: Path
    data: Path
    index: str
    rater: str
    other_index: str
    other_rater: str
    seconds: float
    before: Path | None = None  # a checkout of an earlier commit whose naive service is measured too


def items_of(data_folder: Path, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return different test pairs with one reply each, which is a turn of another dialogue."""
    source = data_folder / "logs" / "dailydialog_en.jsonl.gz"
    if not source.exists():
        sys.exit(f"{source} is not there: nothing is measured")
    pairs = list[tuple[str, str]]()
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for line in lines:
            turns = json.loads(line)["turns"]
            pairs += pairwise(turns)
            if len(pairs) > 2 * (first + count) + 1_000:
                break
    chosen = pairs[first : first + count]
    other_pairs = pairs[first + count : first + 2 * count]
    return [
        {"id": f"d{first + n}", "utterance": pair[0], "references": [pair[1]], "replies": {"model": other[1]}}
        for n, (pair, other) in enumerate(zip(chosen, other_pairs, strict=True))
    ]


def scores_body(items: Sequence[dict[str, Any]]) -> bytes:
    """Return a request for υBLEU."""
    return orjson.dumps({"items": items, "metrics": ["upsilon-bleu"]})


def link_home(settings: ServiceWorkload, folder: Path, *, both: bool) -> Path:
    """Make a home with the index and the rater under one name, each a version, and what they need; files are linked."""
    theirs, ours = artefact_stores(Settings(home=settings.home)), folder
    for kind, place, specs in (
        ("index", "indexes", [settings.index, settings.other_index]),
        ("rater", "raters", [settings.rater, settings.other_rater]),
    ):
        target = ours / place / NAME
        target.mkdir(parents=True)
        for number, spec in enumerate(specs[: 2 if both else 1], start=1):
            name, version = theirs[kind].resolve(spec)
            source = theirs[kind].folder(name, version)
            shutil.copytree(source, target / f"2026-01-01.{number}", copy_function=os.link)
        with write_aside(target / "CURRENT") as file:
            file.write(b"2026-01-01.1\n")
    shutil.copytree(settings.home / "vectors", ours / "vectors", copy_function=os.link, symlinks=True)
    return ours


def get(port: int, path: str, *, timeout: float = 30.0) -> tuple[int, Any]:
    """Return a page as JSON, or its text."""
    return ask("GET", port, path, None, timeout=timeout)


def ask(method: str, port: int, path: str, body: bytes | None, *, timeout: float = 120.0) -> tuple[int, Any]:
    """Send one request, and return status and answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            raw, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        raw, status = error.read(), error.code
    try:
        return status, orjson.loads(raw)
    except orjson.JSONDecodeError:
        return status, raw.decode("utf-8", "replace")


@contextmanager
def server(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the service, wait until it is ready, and stop it at the end."""
    port = free_port()
    start = "import sys; from refaug.cli import start; sys.exit(start())"
    command = [sys.executable, "-c", start, "--home", str(home), "serve", "--port", str(port), *options]
    with (home / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            wait_until_ready(process, port, home)
            yield process, port
        finally:
            stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], port: int, home: Path) -> None:
    """Wait until /readyz answers 200."""
    until = time.time() + START_S
    while time.time() < until:
        if process.poll() is not None:
            sys.exit(f"the server has ended:\n{(home / 'serve.log').read_text()[-3000:]}")
        try:
            if get(port, "/readyz", timeout=5)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    stop(process)
    sys.exit(f"the server was not ready after {START_S:g} s:\n{(home / 'serve.log').read_text()[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process as Ctrl-C does, and by force where that is not enough."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def naive_service(*arguments: str, tree: Path = ROOT) -> Iterator[Running]:
    """Start the naive service of a tree, and wait until it answers."""
    port = free_port()
    python = sys.executable if tree == ROOT else str(tree / ".venv/bin/python")
    environment = {name: text for name, text in os.environ.items() if tree == ROOT or name != "PYTHONPATH"}
    command = [python, str(tree / "bench" / "naive_service.py"), *arguments, str(port)]
    process = subprocess.Popen(command, cwd=tree, env=environment)
    try:
        until = time.time() + START_S
        while time.time() < until:
            try:
                get(port, "/openapi.json", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield process, port
    finally:
        stop(process)


@dataclass(frozen=True, kw_only=True)
class Load:
    """The measurements of the generator."""

    sent: list[dict[str, Any]]
    broken: int
    seconds: float
    processor_s: float = 0.0  # of the server, where it was measured

    @property
    def per_second(self) -> float:
        """Requests a second that were answered with 200."""
        return sum(1 for one in self.sent if one["status"] == 200) / self.seconds

    @property
    def processor_ms(self) -> float:
        """Milliseconds of the server's processor time for each request."""
        return 1_000 * self.processor_s / len(self.sent)

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the answers took at most."""
        return quantile([one["seconds"] for one in self.sent], share)

    def statuses(self) -> dict[str, int]:
        """Return the number of answers by status."""
        return dict(sorted(Counter(str(one["status"]) for one in self.sent).items()))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def begin_load(port: int, path: str, bodies: Sequence[bytes], **plan: Any) -> subprocess.Popen[bytes]:
    """Start a generator."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "load.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(orjson.dumps({"port": port, "path": path, "bodies": [b.decode() for b in bodies], **plan}))
    process.stdin.close()
    process.stdin = None
    return process


def end_load(process: subprocess.Popen[bytes]) -> Load:
    """Wait for a generator, and return its measurements."""
    tally = orjson.loads(process.communicate()[0])
    sent = tally["sent"]
    ends = [one["began"] + one["seconds"] for one in sent] or [1.0]
    return Load(sent=sent, broken=tally["broken"], seconds=max(ends) - min([one["began"] for one in sent] or [0.0]))


def load(port: int, path: str, bodies: Sequence[bytes], **plan: Any) -> Load:
    """Run a load from begin to end."""
    return end_load(begin_load(port, path, bodies, **plan))


def load_server(running: Running, path: str, bodies: Sequence[bytes], **plan: Any) -> Load:
    """Run a load from begin to end, and measure the processor time that the server takes for it."""
    process, port = running
    used = processor_s(process.pid)
    answered = load(port, path, bodies, **plan)
    return replace(answered, processor_s=processor_s(process.pid) - used)


class Direct:
    """The same work without a server, by an open index and an open rater."""

    def __init__(self, home: Path, index: str, rater: str) -> None:
        self.index = open_index(Settings(home=home), index)
        self.rater = open_rater(Settings(home=home), rater)

    def answer(self, items: Sequence[dict[str, Any]]) -> Any:
        """Return the scores of items, encoded as JSON and decoded again."""
        settings = AugmentSettings()
        test_items = [item_of(one, fallback_id="") for one in items]
        augmented = list(augment(test_items, self.index, self.rater, settings))
        made_by = references_provenance(self.index, self.rater, settings)
        scored = evaluate(augmented, [build("upsilon-bleu")], ScoreSettings(draws=0), provenance=made_by)
        return orjson.loads(orjson.dumps(scored.as_json()))

    def close(self) -> None:
        """Close the index."""
        self.index.close()


def values_of(answer: Any) -> list[float | None]:
    """Return the scores of the replies by the first metric, of the first system."""
    return [one["score"] for one in next(iter(answer["scores"][0]["systems"].values()))["replies"]]


def processor_s(server: int) -> float:
    """Return the processor time that the processes of a server have used, to the nanosecond."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) / 1e9
        for pid in tree_of(server)
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def sample_memory(pid: int, memory: list[tuple[float, float]], done: threading.Event) -> None:
    """Append the time and the memory of a process tree every second, until `done`."""
    while not done.wait(1.0):
        memory.append((time.time(), sum(pss_of(one) for one in tree_of(pid))))
