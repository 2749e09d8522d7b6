"""How quickly the playground shows new scores while a reply is typed, and how soon and how small its first page is.

    python bench/bench_pages.py [--home HOME]

A home with an index and a rater; without one, the demo log, its index and a small rater are made first, which takes
minutes. Needs Chromium. A letter is typed at a time; what counts is the time from the letter to the new scores on the
page, the pause in which the page waits for a further letter included. Results go to bench/results/pages.json.
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
from servers import served

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
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
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
        rows.append({"bytes": sum(page.sizes.values()), "paint_ms": page.run(_PAINT), "blocked_ms": blocked})
    return rows


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
            item = server.client.get("/readyz").json()["versions"]
    typed = {
        name: round(float(np.percentile(took, share)), 1) for name, share in (("p50", 50), ("p95", 95), ("p99", 99))
    }
    result = {
        "letters": len(took),
        "score_ms": {**typed, "max": round(float(took.max()), 1)},
        "first_page": pages,
        "served": item,
        "load_1min": round(os.getloadavg()[0], 2),
    }
    write_result("pages", result, ("refaug", "numpy"))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
