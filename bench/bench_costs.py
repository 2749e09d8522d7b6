"""What bodies of long texts do to others: another client's small request for `bleu`, as a ratio to an idle server.

For each metric, bodies of 64 KiB and 1 MiB in several shapes are posted to a server on loopback, each for so many
seconds at most; then its client leaves. The worst shape of each metric and size is kept.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from common import ROOT, free_port, median, write_result
from service_load import stop, wait_until_ready

KIB: Final = 1024
SIZES: Final = (64 * KIB, 1024 * KIB)
METRICS: Final = ("bleu", "multi-bleu", "rouge-1", "rouge-2", "rouge-l", "chrf", "chrf++", "ter", "cider")
IDLE_REQUESTS: Final = 50
SMALL: Final = json.dumps(
    {"items": [{"id": "1", "references": ["we open at nine"], "replies": {"a": "at nine"}}], "metrics": ["bleu"]}
)


def _words(characters: int, draw: random.Random) -> str:
    return " ".join(f"w{draw.randrange(50)}" for _ in range(characters // 4))


# The texts of a pair, of so many characters each; 20,000 are the most that a text may have.
SHAPES: Final[dict[str, tuple[int, Callable[[int, random.Random], str]]]] = {
    "one word repeated": (20_000, lambda characters, _: "aa " * (characters // 3)),
    "one long word": (20_000, lambda characters, _: "a" * characters),
    "words in any order": (10_000, _words),
    "500 words in any order": (1_900, _words),
    "20 words in any order": (75, _words),
    "combining characters": (20_000, lambda characters, _: "e\u0301" * (characters // 2)),
    "punctuation": (20_000, lambda characters, _: ".,!?" * (characters // 4)),
}


def body_of(metric: str, size: int, shape: str) -> bytes:
    """Return a request of about so many bytes."""
    characters, text = SHAPES[shape]
    draw, items, length = random.Random(size), list[dict[str, Any]](), 0
    while length < size:
        part = min(characters, size // 4)
        item = {"id": str(len(items)), "references": [text(part, draw)], "replies": {"a": text(part, draw)}}
        length += len(json.dumps(item, ensure_ascii=False).encode())
        items.append(item)
    return json.dumps({"items": items[:1_000], "metrics": [metric]}, ensure_ascii=False).encode()


def post(port: int, body: bytes, timeout_s: float) -> tuple[int, float]:
    """Return status (0: the client left before the answer) and seconds of one request."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/scores", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except TimeoutError:
        status = 0
    finally:
        connection.close()
    return status, time.perf_counter() - begun


@contextmanager
def running_server() -> Iterator[int]:
    """Start a server on an empty home, and yield its port."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        command = [sys.executable, "-m", "refaug", "--home", folder, "serve", "--port", str(port), "--no-job-worker"]
        with (home / "serve.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            try:
                wait_until_ready(process, port, home)
                yield port
            finally:
                stop(process)


def measure(port: int, body: bytes, seconds: float) -> dict[str, Any]:
    """Post a body, and ask for the small scores until it is answered or its client has left."""
    answers = list[tuple[int, float]]()
    thread = threading.Thread(target=lambda: answers.append(post(port, body, seconds)))
    thread.start()
    small = list[tuple[int, float]]()
    while thread.is_alive() or not small:
        small.append(post(port, SMALL.encode(), 60.0))
    after = [post(port, SMALL.encode(), 60.0) for _ in range(3)]
    return {
        "status": answers[0][0],
        "seconds": round(answers[0][1], 3),
        "small_failed": sum(status != 200 for status, _ in (*small, *after)),
        "small_median_s": median([took for _, took in small]),
        "small_most_s": max(took for _, took in (*small, *after)),
    }


def main() -> int:
    """Measure all metrics, sizes and shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="that the client of a long body waits")
    parser.add_argument("--metrics", nargs="*", default=METRICS)
    settings = parser.parse_args()
    worst = dict[str, Any]()
    with running_server() as port:
        post(port, SMALL.encode(), 120.0)
        idle = median([post(port, SMALL.encode(), 60.0)[1] for _ in range(IDLE_REQUESTS)])
        for metric in settings.metrics:
            post(port, body_of(metric, 1_000, "20 words in any order"), 120.0)  # compiled loops are loaded
            for size in SIZES:
                rows = [
                    {"shape": shape, **measure(port, body_of(metric, size, shape), settings.seconds)}
                    for shape in SHAPES
                ]
                row = max(rows, key=lambda figures: figures["small_most_s"])
                ratios = {name: round(row[f"small_{name}_s"] / idle, 1) for name in ("median", "most")}
                worst[f"{metric}, {size // KIB} KiB"] = {**row, "ratios_to_idle": ratios}
                print(metric, size // KIB, "KiB:", row["shape"], row["status"], ratios, flush=True)
    print(write_result("costs", {"idle_s": idle, "client_waits_s": settings.seconds, "worst": worst}, ["refaug"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
