"""The cheapest replies that each metric pays for, on the demo items: `refaug agreement probe --search` for each.

    python bench/bench_gaming.py --home HOME

HOME gets the demo log, vectors, an index and a small rater, unless they are there. The shares say what a reply has of
what the human-like replies have, on the same items.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from common import write_result

BASE: Final = "human-like"
GREEDY: Final = "agg=best{0}weighting=sif{0}measure=f"
_RATER: Final = ("--preset", "small", "--epochs", "3", "--max-tokens", "64")
_PACKAGES: Final = ("numpy", "torch", "faiss-cpu", "numba")


def main() -> None:
    """Probe every metric, and write bench/results/gaming.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="where the demo's artefacts are kept")
    parser.add_argument("--steps", type=int, default=2_000)
    options = parser.parse_args()
    demo = Demo(options.home)
    demo.make()
    with_parrots = demo.weighted("rated")
    without = demo.weighted("off")
    vectors = f"vectors={demo.vectors()}"
    greedy = f"upsilon-greedy:{GREEDY.format(',')},{vectors}"
    b = demo.refaug("score", "metrics", "baseline", greedy, "--index", "demo", "--json")["b"]
    blend = f"ruber:referenced=upsilon-greedy;{GREEDY.format(';')};b={b},unreferenced=rater,{vectors},sample=demo"
    rows = {
        "BLEU, gold": demo.probe(without, "bleu", options.steps),
        "υBLEU": demo.probe(without, "upsilon-bleu", options.steps),
        "υBLEU, parrot rated, add-k": demo.probe(with_parrots, "upsilon-bleu:smooth=add-k", options.steps),
        "υ-greedy": demo.probe(without, f"{greedy},b={b}", options.steps),
        "rater": demo.probe(without, "rater", options.steps),
        "blend": demo.probe(without, blend, options.steps),
    }
    print(write_result("gaming", {"base": BASE, "steps": options.steps, "metrics": rows}, _PACKAGES))


class Demo:
    """The demo log and what is made of it, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.items = folder / "demo-items.jsonl"

    def refaug(self, *arguments: str) -> Any:
        """Run the command and return what it prints, as JSON where it is."""
        command = [sys.executable, "-m", "refaug", "--quiet", "--home", str(self.folder / "home"), *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            sys.exit(f"{' '.join(arguments)} ended with {finished.returncode}:\n{finished.stderr}")
        return json.loads(finished.stdout) if "--json" in arguments else finished.stdout

    def make(self) -> None:
        """Do the steps of `make demo` that are not done yet."""
        if self.items.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        log, items = self.folder / "demo-log.jsonl", self.folder / "new-items.jsonl"
        self.refaug("log", "demo", "--noise", "0.03", "--output", str(log), "--items-output", str(items))
        self.refaug("log", "ingest", str(log), "--log", "demo", "--language", "en")
        self.refaug("train", "vectors", "demo")
        self.refaug("index", "build", "demo")
        self.refaug("train", "rater", "demo", *_RATER)
        items.rename(self.items)

    def weighted(self, parrot: str) -> Path:
        """Return the demo items with their references, with or without the parrot."""
        path = self.folder / f"weighted-{parrot}.jsonl"
        found = self.refaug(
            "sets", "references", str(self.items), "--index", "demo", "--rater", "demo", "--parrot", parrot
        )
        path.write_text(found, "utf-8")
        return path

    def vectors(self) -> Path:
        """Return the folder of the demo's word vectors."""
        (folder,) = (path for path in (self.folder / "home" / "vectors" / "demo").iterdir() if path.is_dir())
        return folder

    def probe(self, items: Path, metric: str, steps: int) -> dict[str, Any]:
        """Return every row of a metric with its shares of the base, and the constant that was searched."""
        models: Sequence[str] = ("--rater", "demo") if "rater" in metric else ()
        search = ("--search", "--steps", str(steps), "--system", BASE, "--json")
        (found,) = self.refaug("agreement", "probe", str(items), "-m", metric, *models, *search)["scores"]
        return {
            "signature": found["signature"],
            "searched": found["searched"],
            "rows": {f"{row['kind']}: {row['name']}": _figures(row) for row in found["rows"] if row["scored"]},
        }


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {"corpus": row["corpus"], "mean": row["mean"]}
    for level in ("corpus", "mean"):
        base = row[level] - row[f"{level}_difference"]
        figures[f"{level}_share"] = row[level] / base if base > 0 else None
    return figures


if __name__ == "__main__":
    main()
