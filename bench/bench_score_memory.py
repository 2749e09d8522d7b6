"""The memory and time of `refaug score` and `refaug agreement` as items grow in number, with references of an index.

    python bench/bench_score_memory.py --home FOLDER [--pairs 20000] [--items 10000 100000] [--on ADDRESS]
                                       [--before FOLDER] [--index NAME --commands score_refaug]

The index is of synthetic pairs (bench_cluster.py); each item has one gold, replies of two systems with ratings, and
gets five references of weight 1, by BM25; with `--index` it is one of the home, with references as by default. Each
command runs in a process that imports first what it needs; the figures are the highest memory of that process alone,
without mapped files and shared pages, less what it had after the imports, and the seconds and processor seconds of the
process. The growth an item is the difference between the largest and the smallest file over the number of items between
them. With `--before` the same is measured of another checkout, and the output must be the same, byte for byte. With
`--on`, tasks of a cluster find the references: `local` starts one on this machine.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from common import sizes_of, write_rated_items, write_result

READ_S = 0.02
PACKAGES = ("numpy", "numba", "orjson", "pyarrow", "torch")
REFERENCES = ("-k", "5", "--mode", "bm25-utterance", "--reference-weights", "one", "--parrot", "off")
SYNTHETIC = ("score", "score_bleu", "score_json", "agreement")
COMMANDS = {
    "score": ("-m", "upsilon-bleu", "--draws", "100"),
    "score_bleu": ("-m", "upsilon-bleu", "-m", "multi-bleu", "--draws", "100"),
    "score_json": ("-m", "upsilon-bleu", "--draws", "100", "--json"),
    "score_refaug": ("-m", "refaug-1", "--draws", "100"),
    "agreement": ("-m", "upsilon-bleu", "-m", "bleu", "--draws", "20"),
}
# The command in a process that has imported what it needs, and says so before it starts.
RUNNER = """
import sys
import refaug.cli.main, refaug.scoring.metric_setup.scoring_steps, refaug.agreement.meta
import refaug.scoring.augmentation, refaug.scoring.score_files.score_file, refaug.cli.scores.meta_tables
import refaug.scoring.home.indexes, refaug.metrics.upsilon, refaug.scoring.home.networks
print("imported", file=sys.stderr, flush=True)
sys.stdin.readline()
sys.exit(refaug.cli.main.main(sys.argv[1:]))
"""


def main() -> None:
    """Measure all commands at all sizes, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=SYNTHETIC)
    parser.add_argument("--index")
    parser.add_argument("--on")
    parser.add_argument("--before", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--name", default="score_memory")
    settings = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    texts = texts_of(settings.home, settings.index) if settings.index else prepare(settings.home, settings.pairs)
    trees = {"after": None} if settings.before is None else {"before": settings.before, "after": None}
    figures: dict[str, Any] = {"pairs": settings.pairs, "items": settings.items, "on": settings.on}
    for name in settings.commands:
        runs: dict[str, list[dict[str, Any]]] = {tree: [] for tree in trees}
        for count in settings.items:
            items = write_rated_items(settings.home / f"memory-items-{count}.jsonl", texts, count)
            for tree, root in trees.items():
                runs[tree].append(run(settings, name, items, root))
                print(name, count, tree, runs[tree][-1], flush=True)
            if len({of_tree[-1]["printed"] for of_tree in runs.values()}) > 1:
                sys.exit(f"{name} of {count} items prints something else than before")
        figures[name] = {tree: with_growth(of_tree, settings.items) for tree, of_tree in runs.items()}
    print(write_result(settings.name, figures, PACKAGES))


def with_growth(runs: Sequence[dict[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    """Return the runs, and how many bytes each further item took."""
    added = runs[-1]["peak_bytes"] - runs[0]["peak_bytes"]
    growth = round(added / (counts[-1] - counts[0])) if len(counts) > 1 else None
    return {"runs": list(runs), "bytes_an_item": growth}


def prepare(home: Path, pairs: int) -> list[str]:
    """Make the log and the index where they are missing; return texts of the log."""
    import bench_cluster  # noqa: PLC0415  of this folder, and slow to import

    from refaug.core.artefacts.kinds import artefact_stores  # noqa: PLC0415
    from refaug.core.home import Settings  # noqa: PLC0415

    bench_cluster.prepare(home, pairs)
    log = f"synthetic-{pairs}"
    if artefact_stores(Settings(home=home))["index"].current(log) is None:
        build = ["index", "build", log, "--name", log, "--vectors", "synthetic", "--tokenizer", "word"]
        subprocess.run([sys.executable, "-m", "refaug", "--home", str(home), *build], check=True)
    return texts_of(home, log)


def texts_of(home: Path, log: str) -> list[str]:
    """Return the texts of a log."""
    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.logs.store import StoredLog  # noqa: PLC0415

    stored = StoredLog.open(Settings(home=home).logs, log).pairs()
    return [text for pair in stored for text in (pair.utterance, pair.response)]


def run(settings: argparse.Namespace, name: str, items: Path, root: Path | None) -> dict[str, Any]:
    """Run a command; return its seconds, the highest memory that it added to its imports, a hash of what it printed."""
    chosen = [settings.index] if settings.index else [f"synthetic-{settings.pairs}", *REFERENCES]
    index = ["--index", *chosen, "--threads", "1"]
    where = [] if settings.on is None else ["--on", settings.on]
    verb = name.partition("_")[0]
    arguments = ["--home", str(settings.home), "--quiet", verb, str(items), *index, *COMMANDS[name], *where]
    environment = os.environ | ({} if root is None else {"PYTHONPATH": str(root)})
    digest, is_over, peak = sha256(), threading.Event(), 0
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=root,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        while b"imported" not in (line := process.stderr.readline()):
            if not line:
                sys.exit("the command cannot be imported")
        errors = bytearray()
        drain = threading.Thread(target=lambda: errors.extend(process.stderr.read()))
        drain.start()
        imported, began = sizes_of(process.pid)["Anonymous"], time.perf_counter()

        def sample() -> None:
            nonlocal peak
            while not is_over.wait(READ_S):
                peak = max(peak, sizes_of(process.pid).get("Anonymous", 0))

        sampler = threading.Thread(target=sample)
        sampler.start()
        process.stdin.write(b"\n")
        process.stdin.close()
        while piece := process.stdout.read(1 << 16):
            digest.update(piece)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        is_over.set()
        sampler.join()
        drain.join()
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} has ended with {process.returncode}:\n{errors.decode()}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "imported_bytes": imported,
        "peak_bytes": peak - imported,
        "printed": digest.hexdigest()[:16],
    }


if __name__ == "__main__":
    main()
