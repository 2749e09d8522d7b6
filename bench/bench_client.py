"""What the client costs beside the bare HTTP library, and a training loop that scores as it goes.

    python bench/bench_client.py --data FOLDER           all parts, or some of:
    python bench/bench_client.py overhead --data FOLDER  100 requests of 64 replies to a frozen set, beside httpx alone
    python bench/bench_client.py loop --data FOLDER      50 ms steps that submit 64 replies each, beside plain steps
    python bench/bench_client.py start                   importing it, beside importing httpx
    python bench/bench_client.py size                    its size on the disk with all that it needs

The service runs in separate processes over an empty home under `--scratch`, with one frozen set whose references are
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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import httpx
from client_loop import BATCH, METRIC, ClientWorkload, Texts, delay_answers, loop, serve_set
from common import ROOT, add_data_option, median, require_data, write_result
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from refaug_client import AsyncClient, Client

PACKAGES = ("refaug", "refaug-client", "httpx", "httpcore", "h11", "torch")


# ── beside the bare library ───────────────────────────────────────────────────────────────────────────────────────

Scoring = Callable[[list[str], list[str]], list[float | None]]


def body_of(ids: list[str], replies: list[str], **more: Any) -> dict[str, Any]:
    """Return the request as written by hand."""
    return {"items": ids, "replies": {"model": replies}, "metrics": [METRIC], **more}


def overhead(settings: ClientWorkload) -> dict[str, Any]:
    """Measure every way in turn, request by request, over one connection each; replies differ in every request."""
    texts = Texts(settings.data)
    with (
        serve_set(settings, texts) as (url, name),
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

        ways: dict[str, Scoring] = {"bare": bare, "client": sets_score, "bare_values": bare_values, "scorer": scored}
        same = [way(*texts_of) for texts_of in [texts.batch()] for way in ways.values()]
        assert all(values == same[0] for values in same), "the ways disagree"
        runs = [time_in_turn(ways, texts, settings.requests) for _ in range(settings.runs + 1)][1:]  # the first warms
        asynchronous = asyncio.run(overhead_of_asyncio(url, name, texts, settings))
    ours = compare(runs, "client", "bare")
    return {
        "requests": settings.requests,
        "replies_a_request": BATCH,
        "runs": settings.runs,
        "client_over_httpx": ours,
        "scorer_over_httpx": compare(runs, "scorer", "bare_values"),
        "async_client_over_httpx": compare(asynchronous, "client", "bare"),
        "overhead": round(ours["ratio"] - 1, 3),
    }


def time_in_turn(ways: dict[str, Scoring], texts: Texts, requests: int) -> dict[str, float]:
    """Return the seconds that so many requests take each way; the order changes from request to request."""
    seconds = dict.fromkeys(ways, 0.0)
    names = list(ways)
    for number in range(requests):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            ids, replies = texts.batch()
            began = time.perf_counter()
            values = ways[name](ids, replies)
            seconds[name] += time.perf_counter() - began
            assert len(values) == BATCH
    return seconds


async def overhead_of_asyncio(url: str, name: str, texts: Texts, settings: ClientWorkload) -> list[dict[str, float]]:
    """Measure the same from an asyncio loop."""
    path, runs = f"{url}/v1/reference-sets/{name}/scores", []
    async with httpx.AsyncClient() as http, AsyncClient(url) as client:
        for _ in range(settings.runs + 1):
            seconds = {"bare": 0.0, "client": 0.0}
            for number in range(settings.requests):
                for way in ("bare", "client") if number % 2 else ("client", "bare"):
                    ids, replies = texts.batch()
                    began = time.perf_counter()
                    if way == "bare":
                        answer = await http.post(path, json=body_of(ids, replies))
                        answer.raise_for_status()
                        values = [one["score"] for one in answer.json()["scores"][0]["systems"]["model"]["replies"]]
                    else:
                        values = (await client.sets.score(name, replies, items=ids, metric=METRIC)).replies
                    seconds[way] += time.perf_counter() - began
                    assert len(values) == BATCH
            runs.append(seconds)
    return runs[1:]


def compare(runs: Sequence[dict[str, float]], ours: str, theirs: str) -> dict[str, Any]:
    """Return our time over theirs: the median of the runs, and those of single runs."""
    ratios = [run[ours] / run[theirs] for run in runs]
    return {
        "ours_s": median([run[ours] for run in runs]),
        "theirs_s": median([run[theirs] for run in runs]),
        "ratio": median(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


# ── starting, and the disk ────────────────────────────────────────────────────────────────────────────────────────

# without click: httpx would import its command line where click is installed, and look slower
_IMPORT = (
    "import sys, time; sys.modules['click'] = None; began = time.perf_counter(); import {}; "
    "print(time.perf_counter() - began)"
)


def start(settings: ClientWorkload) -> dict[str, Any]:
    """Measure imports in fresh processes, in turn; and which heavy libraries the client imports."""
    seconds_by_name: dict[str, list[float]] = {"httpx": [], "refaug_client": []}
    with tempfile.TemporaryDirectory(prefix="bench-client-", dir=settings.scratch) as compiled:
        for number in range(settings.starts + 1):
            for name in sorted(seconds_by_name, reverse=bool(number % 2)):
                seconds = float(run_python(_IMPORT.format(name), compiled))
                if number:  # the first compiles
                    seconds_by_name[name].append(seconds)
        heavy = ("numpy", "torch", "faiss", "pandas", "polars", "asyncio", "sqlite3", "multiprocessing")
        loaded = run_python(
            f"import json, refaug_client, sys; print(json.dumps([*{{*{heavy}}} & {{*sys.modules}}]))", compiled
        )
    ours, theirs = (statistics.median(seconds_by_name[name]) for name in ("refaug_client", "httpx"))
    return {
        "starts": settings.starts,
        "refaug_client_s": round(ours, 4),
        "httpx_s": round(theirs, 4),
        "ratio": round(ours / theirs, 3),
        "heavy_libraries": json.loads(loaded),
    }


def run_python(source: str, compiled: str) -> str:
    """Return the output of a fresh Python that finds code compiled, whatever the shell has set."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**inherited, "PYTHONPYCACHEPREFIX": compiled}
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, env=environment
    ).stdout


def size(settings: ClientWorkload) -> dict[str, Any]:
    """Measure the bytes of every file of the client and of its requirements, as installed here, with compiled code."""
    del settings
    distributions: dict[str, Distribution] = {}
    names = ["refaug-client"]
    while names:
        package = distribution(names.pop())
        distributions[canonicalize_name(package.metadata["Name"])] = package
        for line in package.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                names += [requirement.name] if canonicalize_name(requirement.name) not in distributions else []
    sizes = {name: size_of(one) for name, one in distributions.items()}
    return {
        "bytes": dict(sorted(sizes.items())),
        "total_mb": round(sum(sizes.values()) / 1e6, 2),
        "client_mb": round(sizes["refaug-client"] / 1e6, 3),
    }


def size_of(installed: Distribution) -> int:
    """Return the size of a distribution's files; of an editable install, that of its package."""
    if installed.metadata["Name"] == "refaug-client":
        package = ROOT / "clients" / "python" / "src" / "refaug_client"
        ours = [path for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file()]
        return sum(path.stat().st_size + compiled_size(path) for path in ours)
    paths = [Path(str(file.locate())) for file in installed.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def compiled_size(path: Path) -> int:
    """Return the size of a file's compiled form."""
    if path.suffix != ".py":
        return 0
    return len(marshal.dumps(compile(path.read_bytes(), str(path), "exec")))


PARTS: dict[str, Callable[[ClientWorkload], dict[str, Any]]] = {
    "overhead": overhead,
    "loop": loop,
    "start": start,
    "size": size,
}


def main() -> None:
    """Run the parts that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="folder for the home")
    add_data_option(parser)
    parser.add_argument("--quick", action="store_true", help="little of each, and nothing is written")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]}: {', '.join(PARTS)}")
    needs_data = any(part in ("overhead", "loop") for part in arguments.parts or PARTS)
    data_folder = require_data(parser, arguments.data) if needs_data else Path()
    small = {"runs": 2, "requests": 10, "stretches": 3, "steps": 10, "starts": 3}
    settings = ClientWorkload(
        scratch=arguments.scratch,
        data=data_folder,
        **small if arguments.quick else {"runs": 7, "requests": 100, "stretches": 25, "steps": 30, "starts": 21},
    )
    for part in arguments.parts or PARTS:
        figures = PARTS[part](settings)
        print(part, json.dumps(figures, indent=2))
        if not arguments.quick:
            write_result(f"client_{part}", figures, PACKAGES)


if __name__ == "__main__":
    if sys.argv[1:2] == ["far"]:
        asyncio.run(delay_answers(int(sys.argv[2])))
    else:
        main()
