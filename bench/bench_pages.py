"""How quickly the pages answer: scores while typing, the first page, a job of a thousand events.

    python bench/bench_pages.py [--home HOME]

A home with an index and a rater; without one, the demo log, its index and a small rater are made first, which takes
minutes. Needs Chromium. A letter is typed at a time; what counts is the time from the letter to the new scores on the
page, the pause in which the page waits for a further letter included. Results go to bench/results/pages.json; the
page Evaluate has bench_evaluate_page.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, write_result

sys.path.insert(0, str(ROOT / "tests"))

from browser import Page, opened
from screenshots import make_home
from servers import Served, served

from refaug.core.home import Settings
from refaug.service.database.database import Database

REPLIES = (
    "You can get one at the machine beside the stop.",
    "The driver sells tickets, but only for coins.",
    "I do not know, I always walk to the office.",
)
# Resolves with the milliseconds from an input event to the scores that belong to it.
_TYPE = """(text) => new Promise((done) => {
  const field = document.querySelector('#reply-0');
  new PerformanceObserver((list, observer) => {
    if (list.getEntriesByName('scores-shown').length) { observer.disconnect(); done(performance.now() - begun); }
  }).observe({type: 'mark'});
  field.value = text;
  const begun = performance.now();
  field.dispatchEvent(new Event('input', {bubbles: true}));
})"""
_EVENTS = 1_000
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_LARGEST = """new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))
  .observe({type: 'largest-contentful-paint', buffered: true}))"""
# From here on: every stretch of more than 50 ms in which the page could not answer a key.
_WATCH = """(() => { window.stretches = [];
  new PerformanceObserver((list) => window.stretches.push(...list.getEntries().map((task) => task.duration)))
    .observe({type: 'longtask'}); })()"""
_BLOCKED = """new Promise((done) => {
  const observer = new PerformanceObserver(() => undefined);
  observer.observe({type: 'longtask', buffered: true});
  setTimeout(() => done(observer.takeRecords().reduce((sum, task) => sum + Math.max(0, task.duration - 50), 0)), 500);
})"""


def typing(page: Page) -> list[float]:
    """Type some replies letter by letter, and return the milliseconds of each letter."""
    page.until("document.querySelectorAll('#scores-A .score').length >= 3")
    took = list[float]()
    for reply in REPLIES:
        for end in range(1, len(reply) + 1):
            took.append(float(page.run(f"({_TYPE})({json.dumps(reply[:end])})")))
    return took


def first_pages(page: Page, address: str, runs: int = 5) -> list[dict[str, Any]]:
    """Load the first page anew, and return bytes, paint and blocking time of each run."""
    rows = list[dict[str, Any]]()
    for _ in range(runs):
        page.go(f"{address}/healthz")
        page.run("sessionStorage.clear()")
        page.tell("Network.clearBrowserCache")
        page.sizes.clear()
        page.go(f"{address}/")
        page.until(
            "document.querySelector('#setting-mode') && document.querySelector('#references').textContent !== ''"
        )
        blocked = page.run(_BLOCKED)
        rows.append(
            {
                "bytes": sum(page.sizes.values()),
                "paint_ms": page.run(_PAINT),
                "largest_paint_ms": page.run(_LARGEST),
                "blocked_ms": blocked,
            }
        )
    return rows


def job_events(page: Page, address: str, home: Path, server: Served) -> dict[str, Any]:
    """Open a job with few events and one with a thousand, and return what the page was busy with."""
    index = next(iter(server.ask("GET", "/readyz").json()["versions"]["index"]))
    job = server.ask("POST", "/v1/jobs", json={"kind": "index-update", "index": index}).json()["id"]
    server.ended(job)
    figures = {"few": _opened(page, address, job, "document.querySelectorAll('#job .log li').length >= 2")}
    database = Database.open(Settings(home=home))
    with database.writing() as connection:
        last = connection.exec_driver_sql("SELECT max(number) FROM job_events WHERE job = ?", (job,)).scalar_one()
        rows = [
            (job, last + 1 + number, "2026-11-20T07:00:00+00:00", "note", json.dumps({"message": f"line {number}"}))
            for number in range(_EVENTS)
        ]
        connection.exec_driver_sql("INSERT INTO job_events (job, number, at, type, data) VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    end = f"document.querySelector('#job .log')?.innerText.includes('line {_EVENTS - 1}')"
    return {"events": _EVENTS, **figures, "many": _opened(page, address, job, end)}


def _opened(page: Page, address: str, job: str, end: str) -> dict[str, Any]:
    page.go(f"{address}/service")
    page.until("!document.querySelector('[aria-busy]')")
    page.run(_WATCH)
    page.tell("Performance.enable")
    before = _busy(page)
    page.run(f"location.hash = 'job={job}'")
    page.until(end)
    stretches = page.run("new Promise((done) => setTimeout(() => done(window.stretches), 500))")
    return {
        "main_thread_ms": round(1_000 * (_busy(page) - before), 1),
        "longest_stretch_ms": max(stretches, default=0),
        "lines_in_the_page": page.run("document.querySelectorAll('#job .log li').length"),
    }


def _busy(page: Page) -> float:
    metrics = page.tell("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = chosen.home or Path(folder) / "home"
        if chosen.home is None:
            make_home(home)
        with served(home) as server, opened("about:blank", Path(folder)) as page:
            page.look(1_280)
            address = str(server.client.base_url).rstrip("/")
            pages = first_pages(page, address)
            select = "document.querySelector('#example-select')"
            page.until(f"{select}.options.length > 2")
            page.run(f"{select}.value = '0'; {select}.dispatchEvent(new Event('change'))")
            page.until("document.querySelectorAll('.reference').length > 5")
            typing(page)  # the caches of both sides are filled, as after a minute of use
            took = np.array(typing(page))
            metrics = page.run("[...document.querySelectorAll('#scores-A .score')].map((one) => one.dataset.metric)")
            item = server.client.get("/readyz").json()["versions"]
            events = job_events(page, address, home, server)
    typed = {
        name: round(float(np.percentile(took, share)), 1) for name, share in (("p50", 50), ("p95", 95), ("p99", 99))
    }
    result = {
        "letters": len(took),
        "metrics": metrics,
        "score_ms": {**typed, "max": round(float(took.max()), 1)},
        "first_page": pages,
        "job": events,
        "served": item,
        "load_1min": round(os.getloadavg()[0], 2),
    }
    write_result("pages", result, ("refaug", "numpy"))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
