"""Count how many seeded mutants of the code the tests catch: `python checks/mutants.py --tree COPY --count 60`.

A mutant is one changed operator, constant or condition inside a function. COPY is a separate checkout; the
file that is mutated is restored after each run. The tests run in stages, and a mutant that one stage catches is not
shown to the next: the test file of the module, the tests of its room and those that import the module, and with
`--whole` all tests of `make test`. A run that takes longer than its limit counts as caught.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGES = (
    "refaug/core",
    "refaug/logs",
    "refaug/indexer",
    "refaug/rater",
    "refaug/metrics",
    "refaug/bots",
    "refaug/evaluation",
    "refaug/operations",
    "refaug/service",
    "refaug/library",
    "refaug/cli",
    "clients/python/src",
)
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*",
    ast.FloorDiv: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
STAGE_LIMIT_S = {"module": 300, "room": 900, "whole": 3000}


@dataclass(frozen=True)
class Mutant:
    """One change of the code: these bytes of the file become that text."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str


def mutants_of(file: str, content: bytes) -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of its lines."""
    tree = ast.parse(content)
    offsets = [0]
    for line in content.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))

    def place(node: ast.expr | ast.operator, *, end: bool = False) -> int:
        line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)  # type: ignore[union-attr]
        return offsets[line - 1] + column  # type: ignore[operator]

    def change(line: int, start: int, end: int, after: str) -> Mutant:
        return Mutant(file, line, start, end, content[start:end].decode(), after)

    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield change(
                    node.lineno, place(node.left, end=True), place(node.comparators[0]), f" {SWAPS[type(node.ops[0])]} "
                )
            elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not isinstance(node.left, ast.Constant):
                yield change(node.lineno, place(node.left, end=True), place(node.right), f" {SWAPS[type(node.op)]} ")
            elif isinstance(node, ast.BoolOp):
                yield change(
                    node.lineno, place(node.values[0], end=True), place(node.values[1]), f" {SWAPS[type(node.op)]} "
                )
            elif isinstance(node, ast.Constant) and type(node.value) is int:
                yield change(node.lineno, place(node), place(node, end=True), str(node.value + 1))
            elif isinstance(node, ast.If | ast.IfExp):
                yield change(
                    node.lineno, place(node.test), place(node.test, end=True), f"not ({ast.unparse(node.test)})"
                )


def is_valid(content: bytes, mutant: Mutant) -> bool:
    """Return whether the mutant is Python, and other Python than before (brackets can make it neither)."""
    try:
        mutated = ast.parse(apply(content, mutant))
    except (SyntaxError, ValueError):
        return False
    return ast.dump(mutated) != ast.dump(ast.parse(content))


def apply(content: bytes, mutant: Mutant) -> bytes:
    """Return the content with the mutant in it."""
    return content[: mutant.start] + mutant.after.encode() + content[mutant.end :]


def draw(tree: Path, count: int, seed: int) -> list[Mutant]:
    """Draw mutants from all packages in turn, from files by their length."""
    rng = random.Random(seed)
    drawn = list[Mutant]()
    while len(drawn) < count:
        package = PACKAGES[len(drawn) % len(PACKAGES)]
        files = sorted(path for path in (tree / package).rglob("*.py") if "reference" not in path.parts)
        (path,) = rng.choices(files, [path.stat().st_size for path in files])
        content = path.read_bytes()
        candidates = list(mutants_of(str(path.relative_to(tree)), content))
        if candidates and is_valid(content, mutant := rng.choice(candidates)) and mutant not in drawn:
            drawn.append(mutant)
    return drawn


def tests_by_stage(tree: Path, mutant: Mutant, *, whole: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the stages with the test files of each."""
    path = Path(mutant.file)
    if mutant.file.startswith("clients/"):
        own = [tree / "clients/python/tests" / f"test_{path.stem.lstrip('_')}.py"]
        rooms = [tree / "clients/python/tests"]
    else:
        room = path.relative_to("refaug")
        own = [tree / "tests/unit" / room.with_name(f"test_{path.name}")]
        rooms = [tree / "tests/unit" / room.parent]
    module = ".".join(path.with_suffix("").parts)
    importing = subprocess.run(
        ["git", "grep", "-lwF", module, "--", "tests", "clients/python/tests"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if own[0].exists():
        yield "module", [str(own[0])]
    files = {str(room) for room in rooms if room.exists()} | {
        str(tree / name) for name in importing if "/test_" in name
    }
    if files:
        yield "room", sorted(files)
    if whole:
        yield "whole", []


def caught_in(tree: Path, mutant: Mutant, *, whole: bool, processes: int) -> str | None:
    """Return the stage that catches the mutant, or None."""
    path = tree / mutant.file
    content = path.read_bytes()
    try:
        path.write_bytes(apply(content, mutant))
        for stage, files in tests_by_stage(tree, mutant, whole=whole):
            command = [
                str(tree / ".venv/bin/python"),
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:schemathesis",
                "-p",
                "no:cacheprovider",
                *files,
            ]
            command += ["-n", str(processes)] if stage != "module" and processes > 1 else []
            try:
                done = subprocess.run(command, cwd=tree, capture_output=True, timeout=STAGE_LIMIT_S[stage], check=False)
            except subprocess.TimeoutExpired:
                return stage
            if done.returncode not in (0, 5):
                return stage
    finally:
        path.write_bytes(content)
    return None


def main() -> int:
    """Run the mutants, print each with the stage that catches it, and write all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tree", type=Path, required=True, help="a separate checkout with its .venv, which is mutated and restored"
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="go on with this one of them")
    parser.add_argument("--processes", type=int, default=2, help="that run the tests of a room")
    parser.add_argument("--whole", action="store_true", help="show survivors to all tests of make test")
    parser.add_argument("--to", type=Path, help="a JSON file for the results")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    rows = list[dict[str, object]]()
    for mutant in draw(tree, arguments.count, arguments.seed)[arguments.first - 1 :]:
        stage = caught_in(tree, mutant, whole=arguments.whole, processes=arguments.processes)
        rows.append({**asdict(mutant), "caught_in": stage})
        change = f"{mutant.before.strip()[:50]!r} -> {mutant.after.strip()[:50]!r}"
        print(f"{stage or 'SURVIVES':8}  {mutant.file}:{mutant.line}  {change}", flush=True)
        if arguments.to:
            caught = sum(row["caught_in"] is not None for row in rows)
            arguments.to.write_text(
                json.dumps({"seed": arguments.seed, "caught": caught, "of": len(rows), "mutants": rows}, indent=1)
            )
    print(f"{sum(row['caught_in'] is not None for row in rows)} of {len(rows)} caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
