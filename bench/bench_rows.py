"""Metrics after papers of others, with models of ours, on open rated sets; and which items need more references.

    python bench/bench_rows.py --data FOLDER --home HOME

FOLDER is that of benchmarks (docs/internals/benchmarks.md). HOME keeps what is made once, from logs/dailydialog_en and,
for the first, logs/small_en: a VHRED, two cross raters, one of them with noise, and a dual rater. The result is a board
with rows beside it, and for each set what a prediction of its items' reliability is worth. The figures are of these
models: they are no figures of the published metrics.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench_real_judge import refaug
from common import write_result

LOGS: Final = {"daily": "dailydialog_en", "small": "small_en"}
SETS: Final = ("dailydialog_gupta", "dailydialog_zhao", "usr_topicalchat")
METRICS: Final = (
    "chrf",
    "likelihood:model=everyday",
    "rater:model=cross,refs=none,turns=3",
    "followup:lm=everyday",
    "masked:model=cross,turns=3",
    "retrieval:model=dual,turns=3",
    "next-utterance:model=noise,turns=3",
)
RELIABILITY: Final = ("chrf", "multi-bleu")
_FEW_FIRST: Final = 10  # items with the lowest prediction, whose references are counted


def make_models(home: Path, data: Path, steps: int, positives: int, epochs: int) -> list[str]:
    """Ingest the logs and train what is not there; return the commands."""
    for log, file in LOGS.items():
        if not (home / "logs" / log).exists():
            refaug(home, "log", "ingest", data / "logs" / f"{file}.jsonl.gz", "--log", log, "--language", "en")
    cross = (
        "--network", "cross", "--preset", "small", "--embeddings", "vectors", "--max-tokens", 32, "--positives",
        positives, "--epochs", epochs, "--threads", 1,
    )  # fmt: skip
    commands: list[tuple[object, ...]] = [
        ("train", "vhred", *LOGS, "--name", "everyday", "--preset", "small", "--steps", steps, "--threads", 1),
        ("train", "rater", "daily", "--name", "cross", *cross, "--negatives", "random"),
        ("train", "rater", "daily", "--name", "noise", *cross, "--negatives", "noise"),
        ("train", "rater", "daily", "--name", "dual", "--network", "dual", "--threads", 1),
    ]
    for command in commands:
        refaug(home, "--quiet", *command)  # what was trained on the same is there already
    return ["refaug " + " ".join(map(str, command)) for command in commands]


def learned(home: Path) -> dict[str, Any]:
    """Return what the models can tell on held-out dialogues: a row of one that learned nothing says nothing."""
    reports = {
        (kind, name): refaug(home, "artefacts", "show", kind, name, "--json")["report"]
        for kind, name in (("vhred", "everyday"), ("rater", "cross"), ("rater", "noise"), ("rater", "dual"))
    }
    kept = ("auc_good_vs_wrong", "auc_by_kind", "nll", "unigram_nll", "discrimination")
    return {name: {key: report[key] for key in kept if key in report} for (_, name), report in reports.items()}


def write_items(path: Path, source: Path) -> None:
    """Write a rated set as items."""
    items = dict[str, dict[str, Any]]()
    with gzip.open(source, "rt") as lines:
        for row in map(json.loads, lines):
            if not (row["context"] and row["response"].strip()):
                continue
            item = items.setdefault(
                row["context_id"],
                {
                    "id": row["context_id"],
                    "turns": row["context"],
                    "references": row["references"],
                    "scale": row["scale"],
                }
                | {"replies": {}, "ratings": {}},
            )
            item["replies"][row["system"]] = row["response"]
            item["ratings"][row["system"]] = row.get("scores") or [row["score"]]
    path.write_text("".join(json.dumps(item) + "\n" for item in items.values()))


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result has of a row of the board: no text, and no figure that its set does not have."""
    return {
        "spearman": row["spearman"]["value"],
        "interval": row["spearman"]["interval"],
        "partial_spearman": row["partial_spearman"]["value"],
        "sets": {
            name: {kind: figure["value"] for kind, figure in figures.items()} for name, figures in row["sets"].items()
        },
    }


def reliability_of(home: Path, items: Path, metric: str) -> dict[str, Any]:
    """Return what a prediction is worth, and how many references the items have that need them most."""
    report = refaug(home, "agreement", "references", items, "-m", metric, "--json")
    first = report["items"][:_FEW_FIRST]
    return {
        **{key: report[key] for key in ("measured", "validity", "shuffled")},
        "items": len(report["items"]),
        "references_of_all": sum(each["references"] for each in report["items"]) / len(report["items"]),
        "references_of_first": sum(each["references"] for each in first) / len(first),
    }


def _stated(options: argparse.Namespace) -> list[str]:
    numbers = [f"--{name} {getattr(options, name)}" for name in ("steps", "positives", "epochs", "draws")]
    return [*numbers, *(f"--sets {name}" for name in options.sets or ())]


def main() -> None:
    """Measure the rows, and write bench/results/rows.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--sets", action="append", choices=SETS, help="some of the sets; repeat it")
    parser.add_argument("--steps", type=int, default=2_500, help="of the VHRED")
    parser.add_argument("--positives", type=int, default=40_000, help="of an epoch of the raters")
    parser.add_argument("--epochs", type=int, default=3, help="of the raters")
    parser.add_argument("--draws", type=int, default=1_000)
    options = parser.parse_args()
    options.home.mkdir(parents=True, exist_ok=True)
    commands = make_models(options.home, options.data, options.steps, options.positives, options.epochs)
    files = list[Path]()
    for name in options.sets or SETS:
        files.append(options.home / f"{name}.jsonl")
        write_items(files[-1], options.data / "human" / f"{name}.jsonl.gz")
    board = refaug(
        options.home, "agreement", "leaderboard", *files, *(part for text in METRICS for part in ("-m", text)),
        "--draws", options.draws, "--threads", 1, "--json",
    )  # fmt: skip
    figures = {
        "command": " ".join(["python bench/bench_rows.py --data FOLDER --home HOME", *_stated(options)]),
        "models": commands,
        "learned": learned(options.home),
        "corpora": board["corpora"],
        "board": {row["name"]: shown(row) for row in board["rows"]},
        "rows_beside": {row["label"]: shown(row) for row in board["rows_beside"]},
        "signatures": board["signatures"],
        "data": {name: of_set["data"] for name, of_set in board["sets"].items()},
        "reliability": {
            items.stem: {metric: reliability_of(options.home, items, metric) for metric in RELIABILITY}
            for items in files
        },
    }
    print(write_result("rows", figures, ["numpy", "scipy", "torch"]))


if __name__ == "__main__":
    main()
