"""Compare every error of the program, as it is raised, with the table of messages: `python checks/messages.py --check`.

A line of the table is a class, what it says with `{}` for values, and in brackets the remedy. Tests assert classes,
codes and values; wording is asserted here. After a message changed on purpose, `python checks/messages.py` writes the
table, and the commit shows what users read now.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("refaug", "clients/python/src")
TABLE: Final = Path(__file__).with_name("messages.txt")


def messages() -> list[str]:
    """Return the lines of the table, from the code."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.Call)]
    classes = _error_classes([node for node in nodes if isinstance(node, ast.ClassDef)])
    return sorted({line for node in nodes if isinstance(node, ast.Call) for line in _message(node, classes)})


def _error_classes(definitions: list[ast.ClassDef]) -> set[str]:
    """Return the names of RefaugError and of all classes below it."""
    bases = {one.name: {ast.unparse(base).rpartition(".")[2] for base in one.bases} for one in definitions}
    found = {"RefaugError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def _message(call: ast.Call, classes: set[str]) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in classes:
        return
    said = _text(call.args[0]) if call.args else ""
    remedy = next((_text(one.value) for one in call.keywords if one.arg == "remedy"), "")
    if said.replace("{}", "").strip(" :"):
        yield f"{name}: {said}{f' ({remedy})' if remedy else ''}"


def _text(node: ast.expr) -> str:
    """Return the words of an expression, with {} for what is computed."""
    match node:
        case ast.Constant(value=str(text)):
            return text.replace("\n", "\\n")
        case ast.JoinedStr(values=parts):
            return "".join(map(_text, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case _:
            return "{}"


def main() -> int:
    """Write the table, or with --check print what differs."""
    found = messages()
    if "--check" not in sys.argv:
        TABLE.write_text("".join(f"{line}\n" for line in found), "utf-8")
        return 0
    differing = list(difflib.unified_diff(TABLE.read_text("utf-8").splitlines(), found, "the table", "the code", n=0))
    print(*differing, sep="\n", end="" if not differing else "\npython checks/messages.py writes the table\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
