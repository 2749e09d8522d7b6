"""Check names, sentences and sizes of the code: the rules of CONTRIBUTING.md that no linter knows.

`python checks/house.py FOLDER...` prints each finding as `file:line: message`, then each figure with its limit, and
exits 1 when a figure is above its limit. `--figures` leaves the findings out. Class names are compared over all folders
of one call.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

VAGUE_NAMES: Final = frozenset({
    "one", "found", "told", "asked", "said", "kept", "made", "known", "taken", "given", "there", "wanted", "others",
    "left", "item", "data", "value", "obj", "result", "res", "tmp",
})  # fmt: skip
RIDDLES: Final = re.compile(
    r"\b(?:whoever|whomever|nobody|somebody|anybody|everybody)\b|\b(?:is|was) told\b|\bof (?:its|their|our) own\b"
    r"|\b(?:what|who) is (?:told|asked|handed|kept|found|said|known)\b|\bone that (?:was|is|has)\b",
    re.IGNORECASE,
)
SHARED_CLASS_NAMES: Final = frozenset({
    "ScoreReplies",  # the client's callback has one name in every training library
    "Metric",  # users write refaug.Metric, as in other libraries of metrics
})  # fmt: skip
CLASS_LINES, FILE_LINES, FUNCTION_LINES, FOLDER_MODULES = 300, 620, 50, 12

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Rule(StrEnum):
    """What a finding is about."""

    NAME = "name"
    SENTENCE = "sentence"
    CLASS_NAME = "class name"
    PRIVATE_IMPORT = "private import"
    CLASS_SIZE = "class size"
    FILE_SIZE = "file size"
    FUNCTION_SIZE = "function size"
    FOLDER_SIZE = "folder size"


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    path: Path
    line: int
    rule: Rule
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Figure:
    """A count or a rate of findings, with its limit."""

    name: str
    number: float
    limit: float

    @property
    def is_too_high(self) -> bool:
        """Say whether the figure is above its limit."""
        return self.number > self.limit

    def __str__(self) -> str:
        return f"{self.number:8.2f}  (limit {self.limit:g})  {self.name}"


@dataclass
class Report:
    """The findings of all files, with the totals that rates are computed from."""

    findings: list[Finding] = field(default_factory=list)
    lines: int = 0
    docstring_words: int = 0
    functions: int = 0

    def count(self, rule: Rule) -> int:
        """Return the number of findings of one rule."""
        return sum(finding.rule is rule for finding in self.findings)

    def figures(self) -> list[Figure]:
        """Return every figure with its limit."""

        def rate(rule: Rule, per: int, total: int) -> float:
            return per * self.count(rule) / max(1, total)

        return [
            Figure("vague names a thousand lines", rate(Rule.NAME, 1_000, self.lines), 2.0),
            Figure("riddles a 10,000 docstring words", rate(Rule.SENTENCE, 10_000, self.docstring_words), 0.5),
            Figure("class names used twice", self.count(Rule.CLASS_NAME), 0),
            Figure("private imports across modules", self.count(Rule.PRIVATE_IMPORT), 0),
            Figure(f"classes over {CLASS_LINES} lines", self.count(Rule.CLASS_SIZE), 0),
            Figure(f"files over {FILE_LINES} lines", self.count(Rule.FILE_SIZE), 0),
            Figure(
                f"functions over {FUNCTION_LINES} lines, per cent", rate(Rule.FUNCTION_SIZE, 100, self.functions), 0.6
            ),
            Figure(f"folders with more than {FOLDER_MODULES} modules", self.count(Rule.FOLDER_SIZE), 0),
        ]


class BoundNames(ast.NodeVisitor):
    """Collect every variable and parameter that a module binds; comprehensions of one line and fields do not count."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []

    def visit_comprehension_owner(self, node: ast.expr) -> None:
        """Visit a comprehension or a lambda only where it spans several lines."""
        if node.end_lineno != node.lineno:
            self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = visit_comprehension_owner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit methods and skip fields, whose names are public."""
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign | ast.Assign):
                self.visit(statement)

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name that is assigned to."""
        if isinstance(node.ctx, ast.Store):
            self.names.append((node.id, node.lineno))

    def visit_arg(self, node: ast.arg) -> None:
        """Note a parameter."""
        self.names.append((node.arg, node.lineno))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Note the name of a caught error."""
        if node.name:
            self.names.append((node.name, node.lineno))
        self.generic_visit(node)


@dataclass(frozen=True)
class Module:
    """A parsed file."""

    path: Path
    source: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> Module:
        """Read and parse a file."""
        source = path.read_text(encoding="utf-8")
        return cls(path, source, ast.parse(source))

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.source.count("\n")

    def classes(self) -> Iterator[ast.ClassDef]:
        """Yield every class."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    def functions(self) -> Iterator[FunctionNode]:
        """Yield every function and method."""
        return (node for node in ast.walk(self.tree) if isinstance(node, FunctionNode))

    def docstrings(self) -> Iterator[tuple[str, int]]:
        """Yield each docstring with the line of what it describes, without those that users read as help or titles."""
        for node in (self.tree, *self.classes(), *self.functions()):
            if (text := ast.get_docstring(node)) and not is_public_text(node):
                yield text, getattr(node, "lineno", 1)

    def findings(self) -> Iterator[Finding]:
        """Yield what breaks a rule within this file."""
        yield from self._names()
        yield from self._sentences()
        yield from self._sizes()

    def _names(self) -> Iterator[Finding]:
        bound = BoundNames()
        bound.visit(self.tree)
        for name, line in bound.names:
            if name in VAGUE_NAMES:
                message = f"`{name}` does not say what it is: use the noun of the thing"
                yield Finding(self.path, line, Rule.NAME, message)
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if alias.name.startswith("_") and not alias.name.startswith("__"):
                    message = f"`{alias.name}` is private to its module"
                    yield Finding(self.path, node.lineno, Rule.PRIVATE_IMPORT, message)

    def _sentences(self) -> Iterator[Finding]:
        for docstring, line in self.docstrings():
            for riddle in RIDDLES.findall(docstring):
                message = f"{riddle!r} in a docstring: name the subject in plain English"
                yield Finding(self.path, line, Rule.SENTENCE, message)

    def _sizes(self) -> Iterator[Finding]:
        if self.lines > FILE_LINES:
            yield Finding(self.path, 1, Rule.FILE_SIZE, f"{self.lines} lines: divide it by job")
        for class_node in self.classes():
            if (length := lines_without_docstrings(class_node)) > CLASS_LINES:
                message = f"class `{class_node.name}` has {length} lines: divide it by job"
                yield Finding(self.path, class_node.lineno, Rule.CLASS_SIZE, message)
        for function in self.functions():
            if (length := lines_without_docstrings(function)) > FUNCTION_LINES:
                message = f"`{function.name}` has {length} lines"
                yield Finding(self.path, function.lineno, Rule.FUNCTION_SIZE, message)


def is_public_text(node: ast.AST) -> bool:
    """Say whether a docstring is part of a public text: the help of a command, a route's description, an error's title.

    These are compared with the generated reference pages and change only with the behaviour.
    """
    if isinstance(node, FunctionNode):
        is_route = any(ast.unparse(decorator).startswith("router.") for decorator in node.decorator_list)
        return is_route or node.name.endswith("_command")
    if isinstance(node, ast.ClassDef):
        targets = (target for line in node.body if isinstance(line, ast.Assign) for target in ast.walk(line.targets[0]))
        return any(isinstance(target, ast.Name) and target.id == "code" for target in targets)
    return False


def lines_without_docstrings(node: ast.ClassDef | FunctionNode) -> int:
    """Return the number of lines of a class or function, without the docstrings in it."""
    count = (node.end_lineno or node.lineno) - node.lineno + 1
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef | FunctionNode) and ast.get_docstring(inner):
            docstring = inner.body[0]
            count -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return count


def repeated_class_names(modules: Sequence[Module]) -> Iterator[Finding]:
    """Yield each class whose name another class has already."""
    places = defaultdict[str, list[tuple[Path, int]]](list)
    for module in modules:
        for node in module.classes():
            places[node.name].append((module.path, node.lineno))
    for name, ((first_path, first_line), *further_places) in sorted(places.items()):
        for path, line in further_places if name not in SHARED_CLASS_NAMES else ():
            message = f"class `{name}` stands also in {first_path}:{first_line}"
            yield Finding(path, line, Rule.CLASS_NAME, message)


def crowded_folders(modules: Sequence[Module]) -> Iterator[Finding]:
    """Yield each folder with too many modules side by side."""
    counts = Counter(module.path.parent for module in modules if module.path.name != "__init__.py")
    for folder, count in sorted(counts.items()):
        if count > FOLDER_MODULES:
            message = f"{count} modules side by side: group them by what they are for"
            yield Finding(folder, 0, Rule.FOLDER_SIZE, message)


def check(folders: Sequence[Path]) -> Report:
    """Return the report on every Python file below the folders."""
    modules = [Module.read(path) for path in sorted(path for folder in folders for path in folder.rglob("*.py"))]
    report = Report()
    for module in modules:
        report.lines += module.lines
        report.docstring_words += sum(len(docstring.split()) for docstring, _ in module.docstrings())
        report.functions += sum(1 for _ in module.functions())
        report.findings += module.findings()
    report.findings += repeated_class_names(modules)
    report.findings += crowded_folders(modules)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print findings and figures, and return 1 when a figure is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--figures", action="store_true", help="print only the figures")
    options = parser.parse_args(arguments)
    report = check(options.folders)
    for finding in report.findings if not options.figures else ():
        print(finding)
    figures = report.figures()
    for figure in figures:
        print(figure)
    return int(any(figure.is_too_high for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
