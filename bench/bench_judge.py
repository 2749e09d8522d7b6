"""The metric `judge` against an endpoint on loopback that answers after 200 ms.

    python bench/bench_judge.py             all parts, or some of:
    python bench/bench_judge.py speed       1,000 replies at concurrency 32, beside the time that the delay alone takes
    python bench/bench_judge.py resume      the command killed in the middle and run again: what is asked twice
    python bench/bench_judge.py faults      5 % of each kind of fault: the outcome of every reply

The endpoint runs in a process beside (`bench/judge_endpoint.py`). Results go to bench/results/judge.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from common import ROOT, write_result

REPLIES: Final = 1_000
CONCURRENCY: Final = 32
DELAY_S: Final = 0.2
FAULT_SHARE: Final = 0.05


@contextmanager
def endpoint(**options: float) -> Iterator[str]:
    """Run the endpoint; its address."""
    flags = [f"--{name.replace('_', '-')}={number}" for name, number in options.items()]
    command = [sys.executable, str(ROOT / "bench" / "judge_endpoint.py"), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def counts(url: str) -> dict[str, dict[str, int]]:
    """Return how often each id was asked and answered."""
    with urllib.request.urlopen(f"{url}/counts") as answer:
        return json.load(answer)


def prepare(folder: Path, url: str, **fields: Any) -> None:
    """Write a judge and a test file of 1,000 items with a reply each."""
    (folder / "home" / "judges").mkdir(parents=True)
    judge = {"url": f"{url}/v1", "model": "bench", "concurrency": CONCURRENCY, **fields}
    (folder / "home" / "judges" / "bench.json").write_text(json.dumps(judge))
    items = (
        {"id": f"d{n}", "utterance": f"Question number {n}?", "references": ["Yes."], "replies": {"a": f"Answer {n}."}}
        for n in range(REPLIES)
    )
    (folder / "items.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in items))


def score(folder: Path) -> list[str]:
    """Return the command that scores the items."""
    home, items = str(folder / "home"), str(folder / "items.jsonl")
    options = ["-m", "judge:model=bench", "--draws", "0", "--json"]
    return [sys.executable, "-m", "refaug", "--home", home, "-q", "score", items, *options]


def stored_ids(folder: Path) -> set[str]:
    """Return the ids of the stored answers."""
    with closing(sqlite3.connect(folder / "home" / "judgements" / "answers.db")) as connection:
        return {row[0] for row in connection.execute("select id from answers")}


def speed() -> dict[str, Any]:
    """Measure the questions alone, in process, and the whole command."""
    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.extras.judges.bindings import open_asking  # noqa: PLC0415
    from refaug.extras.judges.language_models.pointwise import PointwiseJudge, SampleSettings  # noqa: PLC0415
    from refaug.extras.judges.language_models.rubric import find_rubric  # noqa: PLC0415
    from refaug.extras.judges.metrics.judged_replies import JudgeQuestion  # noqa: PLC0415

    ideal_s = math.ceil(REPLIES / CONCURRENCY) * DELAY_S
    seconds, cpu = list[float](), list[float]()
    for _ in range(3):
        with endpoint(delay_s=DELAY_S) as url, tempfile.TemporaryDirectory() as scratch:
            prepare(Path(scratch), url)
            asking = open_asking(Settings(home=Path(scratch) / "home"), "bench")
            judge = PointwiseJudge(asking, find_rubric("overall"), SampleSettings())
            questions = [JudgeQuestion(turns=(f"Question {n}?",), reply=f"Answer {n}.") for n in range(REPLIES)]
            began, cpu_began = time.perf_counter(), time.process_time()
            judgements = judge.judge_replies(questions)
            seconds.append(time.perf_counter() - began)
            cpu.append(time.process_time() - cpu_began)
            assert all(judgement.score is not None for judgement in judgements)
    with endpoint(delay_s=DELAY_S) as url, tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), url)
        began = time.perf_counter()
        subprocess.run(score(Path(scratch)), check=True, capture_output=True)
        command_s = time.perf_counter() - began
        began = time.perf_counter()
        subprocess.run(score(Path(scratch)), check=True, capture_output=True)
        again_s = time.perf_counter() - began
    best = min(seconds)
    return {
        "replies": REPLIES,
        "concurrency": CONCURRENCY,
        "delay_s": DELAY_S,
        "ideal_s": ideal_s,
        "seconds": [round(number, 3) for number in seconds],
        "cpu_s": [round(number, 3) for number in cpu],
        "times_ideal": round(best / ideal_s, 3),
        "times_ideal_median": round(sorted(seconds)[1] / ideal_s, 3),
        "command_s": round(command_s, 3),
        "command_from_stored_answers_s": round(again_s, 3),
    }


def resume() -> dict[str, Any]:
    """Kill the command when a part is answered, run it again, and compare what the endpoint saw."""
    with endpoint(delay_s=DELAY_S) as url, tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), url)
        process = subprocess.Popen(score(Path(scratch)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while sum(counts(url)["answered"].values()) < REPLIES // 3:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before, stored = counts(url), stored_ids(Path(scratch))
        finished = subprocess.run(score(Path(scratch)), check=True, capture_output=True)
        after = counts(url)
    system = json.loads(finished.stdout)["scores"][0]["systems"]["a"]
    twice = [name for name, count in after["asked"].items() if count > 1]
    return {
        "stored_before_the_kill": len(stored),
        "under_way_at_the_kill": len(set(before["asked"]) - stored),
        "scored": system["scored"],
        "asked": len(after["asked"]),
        "asked_twice": len(twice),
        "asked_twice_though_stored": len(stored & set(twice)),
    }


def faults() -> dict[str, Any]:
    """Score with 5 % of each kind of fault, and count outcomes."""
    from judge_endpoint import ANSWERS, FAULTS  # noqa: PLC0415

    with endpoint(delay_s=0.02, fault_share=FAULT_SHARE) as url, tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch), url, timeout_s=1.0)
        began = time.perf_counter()
        finished = subprocess.run(score(Path(scratch)), check=True, capture_output=True)
        seconds = time.perf_counter() - began
        requests = counts(url)["asked"]
    replies = json.loads(finished.stdout)["scores"][0]["systems"]["a"]["replies"]
    outcomes = Counter("scored" if reply["score"] is not None else reply["problem"] for reply in replies)
    return {
        "share_of_each": FAULT_SHARE,
        "kinds_of_the_network": list(FAULTS),
        "kinds_of_the_model": list(ANSWERS),
        "replies": len(replies),
        "distinct_replies": len({reply["id"] for reply in replies}),
        "outcomes": dict(sorted(outcomes.items())),
        "with_exactly_one_outcome": sum((reply["score"] is None) == ("problem" in reply) for reply in replies),
        "requests": sum(requests.values()),
        "seconds": round(seconds, 2),
    }


PARTS: Final[dict[str, Callable[[], dict[str, Any]]]] = {"speed": speed, "resume": resume, "faults": faults}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[])
    chosen = parser.parse_args().parts or list(PARTS)
    figures = {name: PARTS[name]() for name in chosen}
    print(json.dumps(figures, indent=1))
    if list(figures) == list(PARTS):
        write_result("judge", figures, ("refaug", "httpx2", "httpcore2"))
