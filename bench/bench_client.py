"""What the client costs beside the bare HTTP library, and a training loop that scores as it goes.

    python bench/bench_client.py                 all parts, or some of:
    python bench/bench_client.py overhead        100 requests of 64 replies to a frozen set, beside httpx alone
    python bench/bench_client.py loop            50 ms steps that submit 64 replies each, beside the same steps without
    python bench/bench_client.py start           importing it, beside importing httpx
    python bench/bench_client.py size            what it takes on the disk with all that it needs

The service runs in processes of its own over an empty home under `--scratch`, with one frozen set whose references are
given; texts come from `--data` (logs/dailydialog_en.jsonl.gz). For `loop`, its answers pass through a process that
holds every one back for 200 ms. Results go to bench/results/client_<part>.json; with `--quick` little is measured, and
nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import marshal
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import torch
from bench_service import items_of, server, stop
from common import ROOT, median, write_result
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from refaug_client import AsyncClient, Client, Scorer

PACKAGES = ("refaug", "refaug-client", "httpx", "httpcore", "h11", "torch")
BATCH = 64
REFERENCES = 16  # of each item, as many as a default search gives
STEP_S = 0.05
LATENCY_S = 0.2
BEFORE = 10  # steps before those of a stretch that are measured, so that requests are on their way already
METRIC = "upsilon-bleu"


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the command line says, and how much is measured."""

    scratch: Path
    data: Path
    runs: int
    requests: int  # of a run
    stretches: int  # of the loop, of each kind
    steps: int  # of a stretch
    starts: int


# ── a set, and replies that nobody has sent before ────────────────────────────────────────────────────────────────


class Texts:
    """Items of a set, and replies to them, of which none comes twice: nothing may be remembered of them."""

    def __init__(self, data: Path) -> None:
        said = items_of(data, 2_000)
        replies = [one["replies"]["model"] for one in said]
        self.items = [
            {
                "id": one["id"],
                "utterance": one["utterance"],
                "references": [
                    {"text": replies[(place + n) % len(replies)], "weight": round(1 - n / REFERENCES, 3)}
                    for n in range(REFERENCES)
                ],
            }
            for place, one in enumerate(said[:500])
        ]
        self._ids, self._replies, self._number = [one["id"] for one in self.items], replies, count()

    def batch(self) -> tuple[list[str], list[str]]:
        """Ids and replies, one of each for each."""
        numbers = [next(self._number) for _ in range(BATCH)]
        ids = [self._ids[number % len(self._ids)] for number in numbers]
        return ids, [f"{self._replies[number % len(self._replies)]} {number}" for number in numbers]


@contextmanager
def serving(given: Given, texts: Texts) -> Iterator[tuple[str, str]]:
    """Where the service listens, and its one set."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-client-", dir=given.scratch) as folder,
        server(Path(folder)) as (
            _,
            port,
        ),
    ):
        url = f"http://127.0.0.1:{port}"
        with Client(url) as client:
            frozen = client.sets.freeze(texts.items, purpose="validation", references="given")
        yield url, frozen.id


# ── beside the bare library ───────────────────────────────────────────────────────────────────────────────────────

Way = Callable[[list[str], list[str]], list[float | None]]


def body_of(ids: list[str], replies: list[str], **more: Any) -> dict[str, Any]:
    """The request as one would write it by hand."""
    return {"items": ids, "replies": {"model": replies}, "metrics": [METRIC], **more}


def overhead(given: Given) -> dict[str, Any]:
    """Every way in turn, request by request, over one connection each; other replies in every request."""
    texts = Texts(given.data)
    with (
        serving(given, texts) as (url, name),
        httpx.Client() as http,
        Client(url) as client,
        client.scorer(reference_set=name, metric=METRIC, cache=None) as scorer,
    ):
        path = f"{url}/v1/reference-sets/{name}/scores"

        def bare(ids: list[str], replies: list[str]) -> list[float | None]:
            answer = http.post(path, json=body_of(ids, replies))
            answer.raise_for_status()
            return [one["score"] for one in answer.json()["scores"][0]["systems"]["model"]["replies"]]

        def bare_values(ids: list[str], replies: list[str]) -> list[float | None]:
            answer = http.post(path, json=body_of(ids, replies, **{"return": "values"}))
            answer.raise_for_status()
            values: list[float | None] = answer.json()["scores"][0]["systems"]["model"]["values"]
            return values

        def sets_score(ids: list[str], replies: list[str]) -> list[float | None]:
            return client.sets.score(name, replies, items=ids, metric=METRIC).replies

        def scored(ids: list[str], replies: list[str]) -> list[float | None]:
            return scorer(replies, items=ids)

        ways: dict[str, Way] = {"bare": bare, "client": sets_score, "bare_values": bare_values, "scorer": scored}
        same = [way(*texts_of) for texts_of in [texts.batch()] for way in ways.values()]
        assert all(values == same[0] for values in same), "the ways disagree"
        runs = [in_turn(ways, texts, given.requests) for _ in range(given.runs + 1)][1:]  # the first warms
        asynchronous = asyncio.run(overhead_of_asyncio(url, name, texts, given))
    ours = beside(runs, "client", "bare")
    return {
        "requests": given.requests,
        "replies_a_request": BATCH,
        "runs": given.runs,
        "client_over_httpx": ours,
        "scorer_over_httpx": beside(runs, "scorer", "bare_values"),
        "async_client_over_httpx": beside(asynchronous, "client", "bare"),
        "overhead": round(ours["ratio"] - 1, 3),
    }


def in_turn(ways: dict[str, Way], texts: Texts, requests: int) -> dict[str, float]:
    """Seconds that so many requests take each way; whose turn is first changes."""
    taken = dict.fromkeys(ways, 0.0)
    names = list(ways)
    for number in range(requests):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            ids, replies = texts.batch()
            began = time.perf_counter()
            values = ways[name](ids, replies)
            taken[name] += time.perf_counter() - began
            assert len(values) == BATCH
    return taken


async def overhead_of_asyncio(url: str, name: str, texts: Texts, given: Given) -> list[dict[str, float]]:
    """The same from a loop of asyncio."""
    path, runs = f"{url}/v1/reference-sets/{name}/scores", []
    async with httpx.AsyncClient() as http, AsyncClient(url) as client:
        for _ in range(given.runs + 1):
            taken = {"bare": 0.0, "client": 0.0}
            for number in range(given.requests):
                for way in ("bare", "client") if number % 2 else ("client", "bare"):
                    ids, replies = texts.batch()
                    began = time.perf_counter()
                    if way == "bare":
                        answer = await http.post(path, json=body_of(ids, replies))
                        answer.raise_for_status()
                        values = [one["score"] for one in answer.json()["scores"][0]["systems"]["model"]["replies"]]
                    else:
                        values = (await client.sets.score(name, replies, items=ids, metric=METRIC)).replies
                    taken[way] += time.perf_counter() - began
                    assert len(values) == BATCH
            runs.append(taken)
    return runs[1:]


def beside(runs: Sequence[dict[str, float]], ours: str, theirs: str) -> dict[str, Any]:
    """Our time over theirs: the median of the runs, and what single ones gave."""
    ratios = [run[ours] / run[theirs] for run in runs]
    return {
        "ours_s": median([run[ours] for run in runs]),
        "theirs_s": median([run[theirs] for run in runs]),
        "ratio": median(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


# ── a training loop ───────────────────────────────────────────────────────────────────────────────────────────────


def loop(given: Given) -> dict[str, Any]:
    """Short stretches of steps, plain, with scoring, and plain again, in turn, by three kinds of step.

    `waiting` steps sleep, as for an accelerator; `native` ones compute on a core of this process outside of Python, as
    tensors do; `python` ones never leave it, so that whatever the client's threads do is taken from them. What comes
    back is held to what the set says without any delay. `cost` is of the clock, and holds what the service takes of
    the same two cores; `nothing` is what the same comparison says of plain steps beside plain ones, which is how far
    it can be believed; `own_cpu_share` is what this process worked more.
    """
    texts = Texts(given.data)
    kinds: dict[str, Callable[[], object]] = {
        "waiting": lambda: time.sleep(STEP_S),
        "native": calibrated(in_tensors()),
        "python": calibrated(in_python),
    }
    with serving(given, texts) as (url, name), delayed(url) as far:
        found = {kind: loop_of(kind, step, far, url, name, texts, given) for kind, step in kinds.items()}
    return {
        "step_s": STEP_S,
        "latency_s": LATENCY_S,
        "replies_a_step": BATCH,
        "steps_a_stretch": given.steps,
        "steps_before_each": BEFORE,
        "stretches": given.stretches,
        **found,
    }


def loop_of(
    kind: str, step: Callable[[], object], far: str, url: str, name: str, texts: Texts, given: Given
) -> dict[str, Any]:
    """One kind of step."""
    with (
        Client(far) as client,
        client.scorer(reference_set=name, metric=METRIC, cache=None) as scorer,
        Client(url) as near,
    ):
        scorer(*reversed(texts.batch()))
        costs, nothing, shares = [], [], []
        submits, lag = list[float](), 0
        ways = ("plain", "scoring", "again")
        for run in range(given.stretches + 1):
            stretches: dict[str, Stretch] = {}
            for way in ways[run % 3 :] + ways[: run % 3]:
                stretches[way] = stretch(step, scorer if way == "scoring" else None, texts, near, name, given.steps)
            plain, scoring, again = (stretches[way] for way in ways)
            if run:
                costs.append(scoring.took / ((plain.took + again.took) / 2) - 1)
                nothing.append(again.took / plain.took - 1)
                shares.append((scoring.worked - (plain.worked + again.worked) / 2) / plain.took)
                submits += scoring.submits
                lag = max(lag, scoring.lag)
        counts = scorer.counts
    assert counts.scored == counts.submitted, counts
    print(f"loop, {kind}: {scorer.report}", file=sys.stderr)
    return {
        "cost": of_runs(costs),
        "nothing": of_runs(nothing),
        "own_cpu_share": of_runs(shares),
        "submit_and_collect_us": round(statistics.median(submits) * 1e6, 1),
        "slowest_submit_ms": round(max(submits) * 1e3, 2),
        "requests": counts.requests,
        "replies": counts.submitted,
        "steps_behind_at_most": lag,
    }


@dataclass(frozen=True)
class Stretch:
    """What some steps took of the clock and of this process's work, and how long handing in held them up."""

    took: float
    worked: float
    submits: list[float]
    lag: int


def stretch(
    step: Callable[[], object], scorer: Scorer | None, texts: Texts, near: Client, name: str, steps: int
) -> Stretch:
    """So many steps, after some that are not measured: requests are on their way when the first one begins."""
    batches = [texts.batch() for _ in range(BEFORE + steps)]
    collected: list[tuple[int, list[float | None]]] = []
    submits = []
    began = began_work = 0.0
    for number, (ids, replies) in enumerate(batches):
        if number == BEFORE:
            began, began_work = time.perf_counter(), time.process_time()
        step()
        if scorer is not None:
            submitted = time.perf_counter()
            scorer.submit(replies, items=ids, tag=number)
            collected += [(pending.tag, pending.result()) for pending in scorer.collect()]
            submits.append(time.perf_counter() - submitted)
    took, worked = time.perf_counter() - began, time.process_time() - began_work
    lag = len(batches) - len(collected)
    if scorer is not None:
        collected += [(pending.tag, pending.result()) for pending in scorer.drain(60.0)]
        require_right(near, name, batches[-1], collected, len(batches))
    return Stretch(took, worked, submits[BEFORE:], lag)


def of_runs(values: Sequence[float]) -> dict[str, Any]:
    """The median, and the interval in which 95 of 100 medians of so many runs would lie, drawn again from these."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2_000))
    return {
        "median": round(statistics.median(values), 4),
        "interval": [round(medians[50], 4), round(medians[-51], 4)],
        "values": [round(one, 4) for one in values],
    }


def require_right(
    near: Client, name: str, last: tuple[list[str], list[str]], found: list[tuple[int, list[float | None]]], steps: int
) -> None:
    """Everything is there, in order, and the last of it is what the set says."""
    assert [tag for tag, _ in found] == list(range(steps)), "something is lost, doubled or out of order"
    ids, replies = last
    assert found[-1][1] == near.sets.score(name, replies, items=ids, metric=METRIC).replies, "another score"


def calibrated(work: Callable[[int], object]) -> Callable[[], object]:
    """So much of some work that it takes a step's time on this machine, the same amount every time."""

    def took(amount: int) -> float:
        began = time.perf_counter()
        work(amount)
        return time.perf_counter() - began

    amount = 100
    for _ in range(8):
        amount = max(1, int(amount * STEP_S / statistics.median(took(amount) for _ in range(5))))
    return lambda: work(amount)


def in_python(amount: int) -> float:
    """Work that holds Python all the time."""
    total = 0.0
    for number in range(amount):
        total += number * 0.5
    return total


def in_tensors() -> Callable[[int], object]:
    """Work of which Python only says what is to be done: layers of a small network, on one core."""
    torch.set_num_threads(1)
    drawn = torch.Generator().manual_seed(1)
    layer, values = torch.randn(512, 512, generator=drawn) / 23, torch.randn(64, 512, generator=drawn)

    def work(amount: int) -> torch.Tensor:
        found = values
        for _ in range(amount):
            found = torch.tanh(found @ layer)
        return found

    return work


# ── a long way ────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def delayed(url: str) -> Iterator[str]:
    """The same service from far away: another process, from which answers come 200 ms later."""
    port = url.rpartition(":")[2]
    process = subprocess.Popen([sys.executable, __file__, "far", port], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        stop(process)  # type: ignore[arg-type]
        if process.stdout is not None:
            process.stdout.close()


async def far_away(port: int) -> None:
    """Hand bytes on, and those of answers later."""

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, later_s: float) -> None:
        loop_ = asyncio.get_running_loop()
        while piece := await reader.read(1 << 16):
            loop_.call_later(later_s, writer.write, piece)
        loop_.call_later(later_s, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(hand_on(reader, their_writer, 0.0), hand_on(their_reader, writer, LATENCY_S))

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    async with listening:
        await listening.serve_forever()


# ── starting, and the disk ────────────────────────────────────────────────────────────────────────────────────────

# without click: httpx brings in a command line of its own where it is there, which would be kind to us
_IMPORT = (
    "import sys, time; sys.modules['click'] = None; began = time.perf_counter(); import {}; "
    "print(time.perf_counter() - began)"
)


def start(given: Given) -> dict[str, Any]:
    """Imports in fresh processes, in turn; and what of the heavy libraries the client's import brought in."""
    taken: dict[str, list[float]] = {"httpx": [], "refaug_client": []}
    with tempfile.TemporaryDirectory(prefix="bench-client-", dir=given.scratch) as compiled:
        for number in range(given.starts + 1):
            for name in sorted(taken, reverse=bool(number % 2)):
                seconds = float(python(_IMPORT.format(name), compiled))
                if number:  # the first compiles
                    taken[name].append(seconds)
        heavy = ("numpy", "torch", "faiss", "pandas", "polars", "asyncio", "sqlite3", "multiprocessing")
        loaded = python(
            f"import json, refaug_client, sys; print(json.dumps([*{{*{heavy}}} & {{*sys.modules}}]))", compiled
        )
    ours, theirs = (statistics.median(taken[name]) for name in ("refaug_client", "httpx"))
    return {
        "starts": given.starts,
        "refaug_client_s": round(ours, 4),
        "httpx_s": round(theirs, 4),
        "ratio": round(ours / theirs, 3),
        "heavy_libraries": json.loads(loaded),
    }


def python(source: str, compiled: str) -> str:
    """What a fresh Python says that finds code compiled, as it is after an installation, whatever the shell has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**kept, "PYTHONPYCACHEPREFIX": compiled}
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, env=environment
    ).stdout


def size(given: Given) -> dict[str, Any]:
    """Bytes of every file of the client and of what it requires, as they are installed here; code compiled, too."""
    del given
    found: dict[str, Distribution] = {}
    waiting = ["refaug-client"]
    while waiting:
        one = distribution(waiting.pop())
        found[canonicalize_name(one.metadata["Name"])] = one
        for line in one.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting += [needed.name] if canonicalize_name(needed.name) not in found else []
    sizes = {name: size_of(one) for name, one in found.items()}
    return {
        "bytes": dict(sorted(sizes.items())),
        "total_mb": round(sum(sizes.values()) / 1e6, 2),
        "client_mb": round(sizes["refaug-client"] / 1e6, 3),
    }


def size_of(one: Distribution) -> int:
    """All of a distribution's files; of one that is installed in place, those of its package."""
    if one.metadata["Name"] == "refaug-client":
        package = ROOT / "clients" / "python" / "src" / "refaug_client"
        ours = [path for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file()]
        return sum(path.stat().st_size + compiled_size(path) for path in ours)
    paths = [Path(str(file.locate())) for file in one.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def compiled_size(path: Path) -> int:
    """What this Python's compiled form of a file takes."""
    if path.suffix != ".py":
        return 0
    return len(marshal.dumps(compile(path.read_bytes(), str(path), "exec")))


PARTS: dict[str, Callable[[Given], dict[str, Any]]] = {
    "overhead": overhead,
    "loop": loop,
    "start": start,
    "size": size,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="folder for the home")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--quick", action="store_true", help="little of each, and nothing is written")
    chosen = parser.parse_args()
    if unknown := [part for part in chosen.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    small = {"runs": 2, "requests": 10, "stretches": 3, "steps": 10, "starts": 3}
    given = Given(
        scratch=chosen.scratch,
        data=chosen.data,
        **small if chosen.quick else {"runs": 7, "requests": 100, "stretches": 25, "steps": 30, "starts": 21},
    )
    for part in chosen.parts or PARTS:
        figures = PARTS[part](given)
        print(part, json.dumps(figures, indent=2))
        if not chosen.quick:
            write_result(f"client_{part}", figures, PACKAGES)


if __name__ == "__main__":
    if sys.argv[1:2] == ["far"]:
        asyncio.run(far_away(int(sys.argv[2])))
    else:
        main()
