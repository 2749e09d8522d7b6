"""The part `loop` of bench_client.py: a training loop whose steps submit replies to a distant service."""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from common import ROOT
from refaug_client import Client, Scorer
from service_load import items_of, server, stop

BATCH = 64
REFERENCES = 16  # of each item, as many as a default search gives
STEP_S = 0.05
LATENCY_S = 0.2
BEFORE = 10  # steps before those of a stretch that are measured, so that requests are on their way already
METRIC = "upsilon-bleu"


@dataclass(frozen=True, kw_only=True)
class ClientWorkload:
    """The settings of the command line, and how much is measured."""

    scratch: Path
    data: Path
    runs: int
    requests: int  # of a run
    stretches: int  # of the loop, of each kind
    steps: int  # of a stretch
    starts: int


class Texts:
    """Items of a set, and replies to them that never come twice, so that no cache has them."""

    def __init__(self, data_folder: Path) -> None:
        test_items = items_of(data_folder, 2_000)
        replies = [one["replies"]["model"] for one in test_items]
        self.items = [
            {
                "id": test_item["id"],
                "utterance": test_item["utterance"],
                "references": [
                    {"text": replies[(place + n) % len(replies)], "weight": round(1 - n / REFERENCES, 3)}
                    for n in range(REFERENCES)
                ],
            }
            for place, test_item in enumerate(test_items[:500])
        ]
        self._ids, self._replies, self._number = [one["id"] for one in self.items], replies, count()

    def batch(self) -> tuple[list[str], list[str]]:
        """Return ids and a reply to each."""
        numbers = [next(self._number) for _ in range(BATCH)]
        ids = [self._ids[number % len(self._ids)] for number in numbers]
        return ids, [f"{self._replies[number % len(self._replies)]} {number}" for number in numbers]


@contextmanager
def serve_set(settings: ClientWorkload, texts: Texts) -> Iterator[tuple[str, str]]:
    """Start the service, and yield its address and the id of its one set."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-client-", dir=settings.scratch) as folder,
        server(Path(folder)) as (
            _,
            port,
        ),
    ):
        url = f"http://127.0.0.1:{port}"
        with Client(url) as client:
            frozen = client.sets.freeze(texts.items, purpose="validation", references="given")
        yield url, frozen.id


def loop(settings: ClientWorkload) -> dict[str, Any]:
    """Measure short stretches of steps, plain, with scoring, and plain again, in turn, by three kinds of step.

    `waiting` steps sleep, as for an accelerator; `native` ones compute on a core of this process outside of Python, as
    tensors do; `python` ones hold Python all the time, so that the client's threads slow them down. The scores are
    compared with those of the set without any delay. `cost` is in clock time, and includes what the service takes of
    the same two cores; `nothing` is the same comparison of plain steps with plain ones, which shows its noise;
    `own_cpu_share` is the additional CPU time of this process.
    """
    texts = Texts(settings.data)
    kinds: dict[str, Callable[[], object]] = {
        "waiting": lambda: time.sleep(STEP_S),
        "native": calibrate(work_in_tensors()),
        "python": calibrate(work_in_python),
    }
    with serve_set(settings, texts) as (url, name), delayed_service(url) as far_url:
        figures = {kind: measure_loop(kind, step, far_url, url, name, texts, settings) for kind, step in kinds.items()}
    return {
        "step_s": STEP_S,
        "latency_s": LATENCY_S,
        "replies_a_step": BATCH,
        "steps_a_stretch": settings.steps,
        "steps_before_each": BEFORE,
        "stretches": settings.stretches,
        **figures,
    }


def measure_loop(
    kind: str, step: Callable[[], object], far_url: str, url: str, name: str, texts: Texts, settings: ClientWorkload
) -> dict[str, Any]:
    """Measure one kind of step."""
    with (
        Client(far_url) as client,
        client.scorer(reference_set=name, metric=METRIC, cache=None) as scorer,
        Client(url) as near,
    ):
        scorer(*reversed(texts.batch()))
        costs, nothing, shares = [], [], []
        submits, lag = list[float](), 0
        ways = ("plain", "scoring", "again")
        for run in range(settings.stretches + 1):
            stretches: dict[str, Stretch] = {}
            for way in ways[run % 3 :] + ways[: run % 3]:
                stretches[way] = stretch(step, scorer if way == "scoring" else None, texts, near, name, settings.steps)
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
        "cost": median_with_interval(costs),
        "nothing": median_with_interval(nothing),
        "own_cpu_share": median_with_interval(shares),
        "submit_and_collect_us": round(statistics.median(submits) * 1e6, 1),
        "slowest_submit_ms": round(max(submits) * 1e3, 2),
        "requests": counts.requests,
        "replies": counts.submitted,
        "steps_behind_at_most": lag,
    }


@dataclass(frozen=True)
class Stretch:
    """What some steps took in clock and CPU time, and how long submitting held them up."""

    took: float
    worked: float
    submits: list[float]
    lag: int


def stretch(
    step: Callable[[], object], scorer: Scorer | None, texts: Texts, near: Client, name: str, steps: int
) -> Stretch:
    """Run so many steps, after some that are not measured, so that requests are on their way by then."""
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


def median_with_interval(values: Sequence[float]) -> dict[str, Any]:
    """Return the median, and the interval of 95 of 100 medians of so many runs, drawn from these with replacement."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2_000))
    return {
        "median": round(statistics.median(values), 4),
        "interval": [round(medians[50], 4), round(medians[-51], 4)],
        "values": [round(one, 4) for one in values],
    }


def require_right(
    near: Client,
    name: str,
    last_batch: tuple[list[str], list[str]],
    collected: list[tuple[int, list[float | None]]],
    steps: int,
) -> None:
    """Check that all scores are there, in order, and that the last ones are those of the set."""
    assert [tag for tag, _ in collected] == list(range(steps)), "something is lost, doubled or out of order"
    ids, replies = last_batch
    assert collected[-1][1] == near.sets.score(name, replies, items=ids, metric=METRIC).replies, "another score"


def calibrate(work: Callable[[int], object]) -> Callable[[], object]:
    """Return a step that does so much of some work that it takes a step's time on this machine."""

    def run_seconds(amount: int) -> float:
        began = time.perf_counter()
        work(amount)
        return time.perf_counter() - began

    amount = 100
    for _ in range(8):
        amount = max(1, int(amount * STEP_S / statistics.median(run_seconds(amount) for _ in range(5))))
    return lambda: work(amount)


def work_in_python(amount: int) -> float:
    """Do work that holds Python all the time."""
    total = 0.0
    for number in range(amount):
        total += number * 0.5
    return total


def work_in_tensors() -> Callable[[int], object]:
    """Return work outside of Python: layers of a small network, on one core."""
    torch.set_num_threads(1)
    drawn = torch.Generator().manual_seed(1)
    layer, values = torch.randn(512, 512, generator=drawn) / 23, torch.randn(64, 512, generator=drawn)

    def work(amount: int) -> torch.Tensor:
        state = values
        for _ in range(amount):
            state = torch.tanh(state @ layer)
        return state

    return work


@contextmanager
def delayed_service(url: str) -> Iterator[str]:
    """Yield the address of a process that passes the service's answers on 200 ms later."""
    port = url.rpartition(":")[2]
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("bench_client.py")), "far", port],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        stop(process)  # type: ignore[arg-type]
        if process.stdout is not None:
            process.stdout.close()


async def delay_answers(port: int) -> None:
    """Pass bytes on, and those of answers later."""

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
