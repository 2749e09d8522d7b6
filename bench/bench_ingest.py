"""How fast, how small and how exact `refaug log ingest` is.

    python bench/bench_ingest.py --data FOLDER           all three, on the logs of --data
    python bench/bench_ingest.py speed --demo --runs 5   pairs/s beside bench/plain_ingest.py, in turn, whole processes
    python bench/bench_ingest.py memory                  peak memory at 1 M and 10 M generated messages of trees
    python bench/bench_ingest.py counts --data FOLDER    pairs of real logs beside what their README says

Results go to bench/results/ingest_<part>.json. `--data` is a folder with `logs/*.jsonl.gz`
(docs/internals/benchmarks.md); the speed is measured on its medium_en, and with `--demo`, or without that log, on a
demo log, as the result says.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, Run, add_data_option, median, require_data, run_and_watch, write_result
from isal import igzip

from refaug.logs.reading.sources import LineReader, Source

PACKAGES = ("refaug", "duckdb", "pyarrow", "orjson", "isal", "pandas")
# From the README of the shared logs: pairs, distinct utterances.
EXPECTED = {
    "dailydialog_en": (80_740, 67_224),
    "small_en": (83_514, 37_145),
    "medium_en": (2_372_383, 1_996_383),
    "ja_million": (1_086_595, 988_051),
}


def refaug_command(home: Path, *arguments: str) -> list[str]:
    """Return the command as a user runs it."""
    return [str(Path(sys.executable).with_name("refaug")), "--home", str(home), *arguments]


# ── speed ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def speed(data_folder: Path, scratch: Path, runs: int) -> dict[str, Any]:
    """Measure ours and the plain loop in turn, so that changes of the machine's speed affect both."""
    source = data_folder / "logs" / "medium_en.jsonl.gz"
    source_name = "medium_en"
    if not source.exists():
        source, source_name = demo_source(scratch), "demo log of 200,000 dialogues"
    ours, plain = list[Run](), list[Run]()
    for number in range(runs):
        home = scratch / f"speed-{number}"
        ours.append(run_and_watch(refaug_command(home, "log", "ingest", str(source), "--log", "speed", "--json")))
        shutil.rmtree(home)
        plain.append(
            run_and_watch(
                [sys.executable, str(ROOT / "bench" / "plain_ingest.py"), str(source), str(scratch / "plain.parquet")]
            )
        )
        print(f"run {number + 1}: ours {ours[-1].seconds:.1f} s, plain loop {plain[-1].seconds:.1f} s", flush=True)
    size, unpack_s = unpack(source)
    pairs, plain_pairs = json.loads(ours[-1].output)["pairs_added"], json.loads(plain[-1].output)["pairs"]
    ours_s, plain_s = median([run.seconds for run in ours]), median([run.seconds for run in plain])
    return {
        "source": source_name,
        "pairs": pairs,
        "plain_pairs": plain_pairs,
        "ours_s": [round(run.seconds, 2) for run in ours],
        "plain_s": [round(run.seconds, 2) for run in plain],
        "ours_pairs_per_s": round(pairs / ours_s),
        "plain_pairs_per_s": round(plain_pairs / plain_s),
        "ratio_of_medians": round(pairs / ours_s / (plain_pairs / plain_s), 2),
        "ratios": [round(p.seconds / o.seconds, 2) for o, p in zip(ours, plain, strict=True)],
        "ours_mb_per_s_unpacked": round(size / 1e6 / ours_s, 1),
        "unpacking_alone_s": round(unpack_s, 2),
        "unpacking_share_of_ours": round(unpack_s / ours_s, 3),
        "ours_peak_mib": [run.peak_bytes >> 20 for run in ours],
        "plain_peak_mib": [run.peak_bytes >> 20 for run in plain],
    }


def demo_source(scratch: Path) -> Path:
    """Make a demo log to measure on."""
    path, packed = scratch / "demo.jsonl", scratch / "demo.jsonl.gz"
    run_and_watch(
        refaug_command(
            scratch, "log", "demo", "--dialogues", "200000", "--output", str(path), "--items-output", f"{path}.items"
        )
    )
    with path.open("rb") as file, igzip.open(packed, "wb") as out:
        shutil.copyfileobj(file, out)
    return packed


def unpack(source: Path) -> tuple[int, float]:
    """Return the bytes of a source without its compression, and how long our reader takes to decompress it."""
    began = time.perf_counter()
    size = sum(len(block.data) + 1 for block in LineReader(Source.of(source)))
    return size, time.perf_counter() - began


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory(scratch: Path, sizes: tuple[int, ...], limit: str) -> dict[str, Any]:
    """Ingest message trees of two sizes under one limit: the larger must not need more."""
    peaks, figures = [], []
    for size in sizes:
        source = scratch / f"messages-{size}.jsonl.gz"
        write_messages(source, size)
        home = scratch / f"memory-{size}"
        run = run_and_watch(
            refaug_command(home, "log", "ingest", str(source), "--log", "trees", "--memory", limit, "--json")
        )
        report = json.loads(run.output)
        peaks.append(run.peak_bytes)
        figures.append(
            {
                "messages": size,
                "pairs": report["pairs_added"],
                "trees": report["counts"]["trees:roots"],
                "orphans": report["counts"].get("trees:orphans", 0),
                "seconds": round(run.seconds, 1),
                "peak_mib": run.peak_bytes >> 20,
            }
        )
        print(figures[-1], flush=True)
        shutil.rmtree(home)
        source.unlink()
    return {"limit": limit, "runs": figures, "peak_ratio_largest_to_smallest": round(peaks[-1] / peaks[0], 3)}


def write_messages(path: Path, count: int) -> None:
    """Write trees like a forum's: a fifth begins one, most answer something recent, some come before their parent."""
    with igzip.open(path, "wb", compresslevel=1) as file:
        for line in messages(count):
            file.write(line)


def messages(count: int) -> Iterator[bytes]:
    """Yield messages of about 90 characters of text, in an order that a dump may have."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 8))) for _ in range(20_000)]
    phrases = [" ".join(rng.choices(words, k=rng.randint(4, 10))) for _ in range(50_000)]
    for number in range(count):
        dice = rng.random()
        if dice < 0.2:
            parent = "null"
        elif dice < 0.22:
            parent = f'"m{min(count - 1, number + rng.randrange(1, count // 4 + 2)):09}"'
        elif dice < 0.23:
            parent = f'"gone{number}"'
        else:
            parent = f'"m{max(0, number - int(rng.expovariate(1 / 2000)) - 1):09}"'
        text = f"{phrases[rng.randrange(50_000)]} {phrases[rng.randrange(50_000)]}"
        speaker = f"user{rng.randrange(100_000)}"
        yield (
            f'{{"id": "m{number:09}", "parent": {parent}, "text": "{text}", '
            f'"speaker": "{speaker}", "time": {1_600_000_000 + number}}}\n'
        ).encode()


# ── counts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def counts(data_folder: Path, scratch: Path) -> dict[str, Any]:
    """Count the pairs of every real log: ours, the README's, and the difference by reason; without any rule as well."""
    figures: dict[str, Any] = {}
    for name, (pairs, utterances) in EXPECTED.items():
        source = data_folder / "logs" / f"{name}.jsonl.gz"
        if not source.exists():
            print(f"{source} is not there: {name} skipped", flush=True)
            continue
        cleaned = json.loads(
            run_and_watch(refaug_command(scratch / name, "log", "ingest", str(source), "--log", "a", "--json")).output
        )
        bare = refaug_command(
            scratch / name, "log", "ingest", str(source), "--log", "b", "--only-rules", "none", "--json"
        )
        raw = json.loads(run_and_watch(bare).output)
        figures[name] = {
            "readme_pairs": pairs,
            "pairs_without_rules": raw["pairs_added"],
            "pairs": cleaned["pairs_added"],
            "messages_left_out": {k[8:]: n for k, n in cleaned["counts"].items() if k.startswith("dropped:")},
            "readme_distinct_utterances": utterances,
            "distinct_utterances_as_written": distinct_as_written(source),
            "distinct_utterances_normalised": raw["totals"]["distinct_utterances"],
        }
        print(name, figures[name], flush=True)
        shutil.rmtree(scratch / name)
    return figures


def distinct_as_written(source: Path) -> int:
    """Count utterances that differ in any character, by a plain set."""
    seen = set()
    with igzip.open(source, "rt", encoding="utf-8") as lines:
        for line in lines:
            seen.update(json.loads(line)["turns"][:-1])
    return len(seen)


def main() -> None:
    """Measure the parts that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["speed", "memory", "counts", []], default=[])
    add_data_option(parser)
    parser.add_argument("--demo", action="store_true", help="measure the speed on a demo log, without --data")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--scratch", type=Path, help="where generated logs and homes go; default: a temporary folder")
    options = parser.parse_args()
    parts = options.parts or ["speed", "memory", "counts"]
    data_folder = Path()
    if "counts" in parts or ("speed" in parts and not options.demo):
        data_folder = require_data(parser, options.data, "; or --demo, for the speed")
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        if "speed" in parts:
            print(write_result("ingest_speed", speed(data_folder, scratch, options.runs), PACKAGES))
        if "memory" in parts:
            print(write_result("ingest_memory", memory(scratch, tuple(options.sizes), options.memory), PACKAGES))
        if "counts" in parts:
            print(write_result("ingest_counts", counts(data_folder, scratch), PACKAGES))


if __name__ == "__main__":
    main()
