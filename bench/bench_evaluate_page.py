"""What the page Evaluate costs: scrolling over 10,000 replies, a thousand events of a job, a whole evaluation.

    python bench/bench_evaluate_page.py [--home HOME] [scrolling] [events] [cost]

A home with an index and a rater; without one, the demo log, its index and a small rater are made first. Needs Chromium.
All figures are processor time, which other work on the machine lengthens less than the clock: of the tasks of the
page's main thread from one drawn frame to the next, as Chromium's tracing has them, and of the processes of the
service, the browser and the Python client. Results go to bench/results/evaluate_page_<part>.json, with the load beside.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, tree_of, write_result

sys.path.insert(0, str(ROOT / "tests"))

from browser import Page, opened
from page_tests import choose_files
from refaug_client import Client
from screenshots import make_home
from servers import Served, served

from refaug.core.home import Settings
from refaug.service.database.database import Database

ITEMS, SYSTEMS = 2_500, ("new", "old", "short", "long")  # 10,000 replies
_EVENTS = 1_000
_ROWS = "document.querySelectorAll('.grid-space > .grid-row').length"
# Scrolls by so many pixels in each frame, and resolves after so many frames with the largest number of rows.
_SCROLL = """new Promise((done) => {
  const grid = document.querySelector('.grid');
  let frames = %d, most = 0;
  const step = () => {
    most = Math.max(most, document.querySelectorAll('.grid-space > .grid-row').length);
    if (!frames--) return done(most);
    grid.scrollTop += %d;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
# A screen in every frame is faster than any hand; 50 pixels a frame are 3,000 a second, a quick wheel.
_SPEEDS = {"wheel": 50, "screen_a_frame": 480}
_COLLECTIONS = ("MajorGC", "MinorGC", "V8.GC_MC_INCREMENTAL")  # of V8, in its main thread; none is inside another
# Work for the processor that is the same each time: how much slower it is than at its best says what else runs.
_KNOWN_WORK = "(() => { let sum = 0; for (let at = 0; at < 3e7; at += 1) sum = (sum * 31 + at) | 0; return sum; })()"


def make_items(home: Path, folder: Path, seed: int = 1) -> Path:
    """Write 10,000 replies to utterances of the demo log, words drawn from other replies."""
    drawn = random.Random(seed)
    dialogues = [json.loads(line) for line in (home / "demo.jsonl").read_text("utf-8").splitlines()]
    turns = [[turn["text"] if isinstance(turn, dict) else turn for turn in dialogue["turns"]] for dialogue in dialogues]
    pairs = [pair for texts in turns for pair in itertools.pairwise(texts)]
    words = " ".join(text for pair in pairs[:2_000] for text in pair).split()
    path = folder / f"ten-thousand-{seed}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, (utterance, gold) in enumerate(drawn.sample(pairs, ITEMS)):
            replies = {system: " ".join(drawn.choices(words, k=5 + 3 * at)) for at, system in enumerate(SYSTEMS)}
            row = {"id": f"i{number}", "utterance": utterance, "references": [gold], "replies": replies}
            file.write(json.dumps(row) + "\n")
    return path


def processor_s(root: int) -> float:
    """Return the processor time of a process and of all below it, those that have ended included."""
    ticks = 0
    for pid in tree_of(root):
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


# ── scrolling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def frame_times(events: Sequence[dict[str, Any]], *, collecting: bool = True) -> list[float]:
    """Return the milliseconds of processor time of the main thread from each drawn frame to the next.

    Without `collecting`, less the collections of garbage of the browser, which end frames of their own choice.
    """
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    ours = [
        event
        for event in events
        if event.get("ph") == "X" and threads.get((event["pid"], event["tid"])) == "CrRendererMain"
    ]
    drawn = sorted(event["ts"] for event in ours if event["name"] == "Commit")
    frames = np.zeros(len(drawn) + 1)
    for event in ours:
        if event["name"] == "RunTask":
            frames[np.searchsorted(drawn, event["ts"] + event["dur"], side="right")] += event.get("tdur", 0) / 1_000
        elif event["name"] in _COLLECTIONS and not collecting:
            frames[np.searchsorted(drawn, event["ts"] + event["dur"], side="right")] -= event.get("tdur", 0) / 1_000
    return [float(took) for took in frames[1:-1]]  # what came before the first frame and after the last is no frame


def scrolling(page: Page, address: str, evaluation: str, runs: int) -> dict[str, Any]:
    """Scroll over the replies of an evaluation, and return the work of the main thread for each frame."""
    page.go(f"{address}/healthz")
    page.go(f"{address}/evaluate#e={evaluation}")
    page.until(f"{_ROWS} > 20")
    rows = int(page.run("document.querySelector('.grid').getAttribute('aria-rowcount')")) - 1
    page.run("document.querySelector('.grid').scrollIntoView(); 1")
    speeds = dict[str, Any]()
    most = 0
    for name, pixels in _SPEEDS.items():
        of_runs = list[dict[str, float]]()
        for _ in range(runs):
            page.run("document.querySelector('.grid').scrollTop = 0; 1")
            with page.recording("devtools.timeline", "disabled-by-default-devtools.timeline") as events:
                most = max(most, int(page.run(_SCROLL % (300, pixels))))
            frames = frame_times(events)
            shares = {f"p{share}": round(float(np.percentile(frames, share)), 2) for share in (50, 95, 99)}
            over = sum(took > 8 for took in frames)
            least = round(max(frame_times(events, collecting=False)), 2)
            most_ms = {"max": round(max(frames), 2), "max_less_collections": least}
            of_runs.append({"frames": len(frames), **shares, **most_ms, "over_8_ms": over})
        medians = {key: statistics.median(row[key] for row in of_runs) for key in of_runs[0]}
        speeds[name] = {"pixels_a_frame": pixels, "main_thread_ms": medians, "runs": of_runs}
    return {"rows": rows, "rows_in_document": most, **speeds, "known_work_ms": known_work(page)}


def known_work(page: Page) -> dict[str, float]:
    """Return how much processor time the same work takes the page, again and again."""
    page.tell("Performance.disable")
    page.tell("Performance.enable", timeDomain="threadTicks")
    took = list[float]()
    for _ in range(15):
        before = busy_s(page)
        page.run(_KNOWN_WORK)
        took.append(1_000 * (busy_s(page) - before))
    return {"least": round(min(took), 2), "median": round(statistics.median(took), 2)}


def busy_s(page: Page) -> float:
    """Return the seconds that the tasks of the page's main thread have taken."""
    metrics = page.tell("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


# ── a thousand events ─────────────────────────────────────────────────────────────────────────────────────────────────


def job_events(page: Page, address: str, server: Served, path: Path, runs: int) -> dict[str, Any]:
    """Open evaluations that wait with few events and with a thousand, and return what each costs the main thread."""
    source = upload(server, path)
    figures = dict[str, Any](events=_EVENTS)
    for name, count in (("few", 2), ("many", _EVENTS)):
        took = list[float]()
        lines = 0
        for _ in range(runs):
            # The first keeps the worker busy, so that the second waits while the page shows it.
            first, second = (order_score(server, source, seed=seed)["id"] for seed in (1, 2))
            add_events(server.home, second, count)
            page.go(f"{address}/healthz")
            page.go(f"{address}/evaluate")
            page.until("!document.querySelector('[aria-busy]')")
            page.tell("Performance.disable")
            page.tell("Performance.enable", timeDomain="threadTicks")
            before = busy_s(page)
            page.run(f"location.hash = 'e={second}'")
            page.until(f"document.querySelector('.log')?.textContent.includes('line {count - 1}.')")
            took.append(round(1_000 * (busy_s(page) - before), 1))
            lines = int(page.run("document.querySelectorAll('.log li').length"))
            for job in (second, first):
                server.ask("DELETE", f"/v1/evaluations/{job}")
                server.ended(job)
        figures[name] = {"main_thread_ms": statistics.median(took), "runs": took, "lines_in_the_page": lines}
    return figures


def add_events(home: Path, job: str, count: int) -> None:
    """Add notes to the log of a job, as its process does."""
    database = Database.open(Settings(home=home))
    with database.writing() as connection:
        last = connection.exec_driver_sql("SELECT max(number) FROM job_events WHERE job = ?", (job,)).scalar_one() or 0
        rows = [
            (job, last + 1 + number, "2026-11-20T07:00:00+00:00", "note", json.dumps({"message": f"line {number}."}))
            for number in range(count)
        ]
        connection.exec_driver_sql("INSERT INTO job_events (job, number, at, type, data) VALUES (?, ?, ?, ?, ?)", rows)
        connection.exec_driver_sql("UPDATE jobs SET events = ? WHERE id = ?", (last + count, job))
    database.close()


# ── the cost of an evaluation ─────────────────────────────────────────────────────────────────────────────────────────


def cost(page: Page, address: str, server: Served, path: Path, runs: int) -> dict[str, Any]:
    """Evaluate the same file through the page and through the Python client, in turn."""
    items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = list[dict[str, float]]()
    with Client(address, timeout_s=600) as client:
        through_client(client, items[:200])  # both sides have loaded what they load once in their lives
        few = path.with_name("few.jsonl")
        few.write_text("".join(f"{json.dumps(row)}\n" for row in items[:200]), "utf-8")
        through_page(page, address, few)
        for seed in range(2, runs + 2):  # other items each time: caches of the first run do not help the second
            path = make_items(server.home, path.parent, seed)
            items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            used, own, began = processor_s(server.process.pid), time.process_time(), time.perf_counter()
            through_client(client, items)
            client_s = processor_s(server.process.pid) - used
            row = {
                "client_service_s": round(client_s, 2),
                "client_own_s": round(time.process_time() - own, 2),
                "client_clock_s": round(time.perf_counter() - began, 1),
            }
            used, began = processor_s(server.process.pid), time.perf_counter()
            through_page(page, address, path)
            page_s = processor_s(server.process.pid) - used
            rows.append(
                {
                    **row,
                    "page_service_s": round(page_s, 2),
                    "page_clock_s": round(time.perf_counter() - began, 1),
                    "ratio": round(page_s / (client_s + row["client_own_s"]), 3),
                    "ratio_of_the_service": round(page_s / client_s, 3),
                }
            )
    return {
        "replies": ITEMS * len(SYSTEMS),
        **{key: statistics.median(row[key] for row in rows) for key in rows[0]},
        "runs": rows,
    }


def through_client(client: Client, items: list[dict[str, Any]]) -> None:
    """Score items as the page orders it: its metrics, its intervals, its baseline."""
    scores = client.score(
        items,
        metrics=["multi-bleu", "upsilon-bleu", "rater"],
        index="demo",
        rater="demo",
        draws=1_000,
        baseline=SYSTEMS[0],
    )
    assert [metric.metric for metric in scores.scores] == ["multi-bleu", "upsilon-bleu", "rater"]


def through_page(page: Page, address: str, path: Path) -> None:
    """Choose the file, start what the page proposes, and wait for the tables and the replies."""
    page.go(f"{address}/healthz")
    page.go(f"{address}/evaluate")
    page.until("!document.querySelector('[aria-busy]')")
    choose_files(page, path)
    page.until("document.querySelector('#start-button') && !document.querySelector('#score-form').hidden")
    page.run("document.querySelector('#start-button').click()")
    page.until("location.hash.startsWith('#e=')")
    _patient(lambda: page.run(f"Boolean(document.querySelector('#systems-table')) && {_ROWS} > 20"), 900)


def _patient(is_there: Callable[[], Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not is_there():
        assert time.monotonic() < until, "the evaluation did not end"
        time.sleep(0.25)


def upload(server: Served, path: Path) -> str:
    """Send a file to the service, and return its name there."""
    sent: dict[str, Any] = {"content": path.read_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
    return f"upload:{server.ask('POST', '/v1/uploads', params={'name': path.name}, **sent).json()['id']}"


def order_score(server: Served, source: str, **more: Any) -> dict[str, Any]:
    """Queue an evaluation of a file."""
    order = {"kind": "score", "items": source, "metrics": ["multi-bleu", "chrf"], **more}
    queued: dict[str, Any] = server.ask("POST", "/v1/evaluations", json=order).json()
    assert "id" in queued, queued
    return queued


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="scrolling, events, cost; all without any")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--runs", type=int, default=5, help="the medians of so many runs are written")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = chosen.home or folder / "home"
        if chosen.home is None:
            make_home(home)
        path = make_items(home, folder)
        with served(home) as server, opened("about:blank", folder) as page:
            page.look(1_280)
            address = str(server.client.base_url).rstrip("/")
            for part in chosen.parts or ("scrolling", "events", "cost"):
                before = os.getloadavg()[0]
                if part == "scrolling":
                    evaluation = order_score(server, upload(server, path))["id"]
                    assert server.ended(evaluation)["state"] == "done"
                    result = scrolling(page, address, evaluation, chosen.runs)
                elif part == "events":
                    result = job_events(page, address, server, path, chosen.runs)
                elif part == "cost":
                    result = cost(page, address, server, path, min(3, chosen.runs))
                else:
                    parser.error(f"{part} is no part: scrolling, events, cost")
                result["load_1min"] = [round(before, 2), round(os.getloadavg()[0], 2)]
                write_result(f"evaluate_page_{part}", result, ("refaug", "numpy"))
                print(part, json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
