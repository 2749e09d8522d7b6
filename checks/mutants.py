"""Count how many seeded mutants of the code the tests catch: `python checks/mutants.py --tree COPY --count 60`.

A mutant is one changed operator, constant or condition inside a function. COPY is a separate checkout; the
file that is mutated is restored after each run. The tests run in stages, and a mutant that one stage catches is not
shown to the next: the test file of the module, the tests of its room and those that import the module, and with
`--whole` all tests of `make test`. A run that takes longer than its limit counts as caught.

`--like FILE` takes the mutants of an earlier result instead, each in the function of the same name, wherever that
lies now; one whose function no longer has the place to change is listed as gone.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PACKAGES = (
    "refaug/core",
    "refaug/logs",
    "refaug/indexer",
    "refaug/rater",
    "refaug/metrics",
    "refaug/bots",
    "refaug/tables",
    "refaug/scoring",
    "refaug/agreement",
    "refaug/extras",
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
    function: str = ""  # with its class

    @property
    def change(self) -> tuple[str, str]:
        """The change, without layout."""
        return " ".join(self.before.split()), " ".join(self.after.split())


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

    def changes(function: ast.AST) -> Iterator[Mutant]:
        for node in (inner for statement in function.body for inner in ast.walk(statement)):  # type: ignore[attr-defined]
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

    for name, function in functions_of(tree):
        yield from (replace(mutant, function=name) for mutant in changes(function))


def functions_of(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions with their names, after those of the classes and functions that they lie in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{within}{node.name}", node
        is_named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from functions_of(node, f"{within}{node.name}." if is_named else within)  # type: ignore[attr-defined]


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
    packages = [package for package in PACKAGES if (tree / package).exists()]
    while len(drawn) < count:
        package = packages[len(drawn) % len(packages)]
        files = sorted((tree / package).rglob("*.py"))
        (path,) = rng.choices(files, [path.stat().st_size for path in files])
        content = path.read_bytes()
        candidates = list(mutants_of(str(path.relative_to(tree)), content))
        if candidates and is_valid(content, mutant := rng.choice(candidates)) and mutant not in drawn:
            drawn.append(mutant)
    return drawn


def match(tree: Path, earlier: Mutant) -> Mutant | None:
    """Return the same change of the function of the same name; one in a file of the same name before others."""
    *_, own_name = earlier.function.split(".")
    candidates = list[Mutant]()
    for path in sorted(path for package in PACKAGES for path in (tree / package).rglob("*.py")):
        content = path.read_bytes()
        if f"def {own_name}(".encode() in content:
            candidates += [
                mutant
                for mutant in mutants_of(str(path.relative_to(tree)), content)
                if mutant.function.split(".")[-1] == own_name and mutant.change == earlier.change
            ]
    stem = Path(earlier.file).stem
    ranked = sorted(candidates, key=lambda one: (one.function != earlier.function, Path(one.file).stem != stem))
    return ranked[0] if ranked else None


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
    parser.add_argument("--like", type=Path, help="a result whose mutants are looked for in this tree")
    parser.add_argument("--to", type=Path, help="a JSON file for the results")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    rows = list[dict[str, object]]()
    if arguments.like is None:
        mutants = draw(tree, arguments.count, arguments.seed)[arguments.first - 1 :]
    else:
        listed = json.loads(arguments.like.read_text(encoding="utf-8"))["mutants"]
        earlier = [Mutant(**{key: row[key] for key in row if key != "caught_in"}) for row in listed]
        matched = {mutant: match(tree, mutant) for mutant in earlier}
        mutants = [now for now in matched.values() if now is not None]
        for mutant in (before for before, now in matched.items() if now is None):
            print(f"GONE      {mutant.file}:{mutant.line}  {mutant.function}", flush=True)
    for mutant in mutants:
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
