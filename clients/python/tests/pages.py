"""The blocks of a page, run in order and in one folder, and held to what the page says comes of them.

    ```python                 is run; all such blocks of a page share their names
    ```python in=integrations is for another environment: it has to compile, and what it imports of ours to be there
    ```jsonl file=NAME        is written into a file
    ```console                lines `$ command`, each with what it prints below; `$ command` with `exits=CODE` may fail
    ```yaml workflow=NAME     is a workflow of GitHub: its steps are run as printed, in a copy of the folder
    ```sh, ```yaml, ```text   are not run

What stands behind `print(…)  # ` is what it prints each time, where `…` is any text. The address of the pages is that
of a server for the test, and where a page writes ID, the name of the last set that it has frozen is put.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import types
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from refaug_client import Client
from refaug_client._scorer.rewards import Reward

ROOT = Path(__file__).resolve().parents[3]
PAGES_URL = "http://127.0.0.1:8000"
LANGUAGES = {"python", "jsonl", "console", "sh", "yaml", "text"}
_FENCE = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAYS = re.compile(r"^\s*print\(.*\)  # (.*)$")
# The shell finds the python of the tests, whatever is installed on the machine beside it.
_FUNCTIONS = 'python() { "$PYTHON" "$@"; }; '


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what its info string says, its text, and where in the page it begins."""

    language: str
    role: str
    name: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text("utf-8")
    return [Block(*match.groups(""), text.count("\n", 0, match.start()) + 1) for match in _FENCE.finditer(text)]


class Page:
    """Does what a page shows."""

    def __init__(self, page: Path, folder: Path, url: str) -> None:
        self.page, self.folder, self.url = page, folder, url
        self.names: dict[str, Any] = {"__name__": "page", "__builtins__": __builtins__}
        self.held = 0

    def run(self) -> Page:
        """Everything in order; how often something was held to the page is in `held`."""
        try:
            for block in blocks(self.page):
                self.do(block)
        finally:
            for value in self.names.values():  # programs end, and with them what a page leaves open
                if isinstance(value, (Client, Reward)):
                    value.close()
        return self

    def do(self, block: Block) -> None:
        """One block."""
        assert block.language in LANGUAGES, f"{self.page.name}, line {block.line}: a block of {block.language!r}"
        if block.role == "workflow":
            self._workflow(block)
        elif block.role == "file":
            (self.folder / block.name).write_text(block.text, "utf-8")
        elif block.language == "python" and block.role == "in":
            require_names(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "console":
            self._console(block)

    def _python(self, block: Block) -> None:
        said: dict[int, list[str]] = defaultdict(list)

        def noted(*values: object, **_: Any) -> None:
            said[sys._getframe(1).f_lineno].append(" ".join(map(str, values)))

        code = compile("\n" * block.line + self._here(block.text), str(self.page), "exec")
        self.names["print"] = noted
        exec(code, self.names)
        for place, line in enumerate(block.text.splitlines(), block.line + 1):
            if match := _SAYS.match(line):
                assert said[place], f"{self.page.name}, line {place}: it was never printed"
                for printed in said[place]:
                    assert matches(printed, match[1]), f"{self.page.name}, line {place}: {printed}"
                self.held += 1

    def _console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            done = subprocess.run(
                ["bash", "-c", _FUNCTIONS + self._here(command)],
                check=False,
                capture_output=True,
                text=True,
                timeout=300,
                cwd=self.folder,
                env={**os.environ, "PYTHON": sys.executable, "REFAUG_URL": self.url, "COLUMNS": "200"},
            )
            where = f"{self.page.name}, line {block.line}: $ {command}"
            assert done.returncode == int(block.name or 0), f"{where}\n{done.stdout}{done.stderr}"
            printed = done.stdout + (done.stderr if done.returncode else "")
            assert matches(printed.rstrip("\n"), self._here(shown).rstrip("\n")), f"{where}\n{printed}"
            self.held += 1

    def _workflow(self, block: Block) -> None:
        variables = {"vars.REFAUG_URL": self.url, "secrets.REFAUG_KEY": "", "vars.REFAUG_REPOSITORY": "us/refaug"}
        job = yaml.safe_load(self._here(block.text))["jobs"]["replies"]
        Workflow(variables, self.folder, self.folder.with_name(f"{self.folder.name}-workspace")).run(job["steps"])
        self.held += 1

    def _here(self, text: str) -> str:
        """The text with the test's own server, and the set that the page has made."""
        text = text.replace(PAGES_URL, self.url)
        frozen = self.names.get("frozen")
        return re.sub(r"\bID\b", frozen.id, text) if frozen is not None else text


class Workflow:
    """Runs the steps of a job in an empty workspace, with a checkout of a folder, and without any network."""

    def __init__(self, variables: dict[str, str], repository: Path, workspace: Path) -> None:
        self.variables, self.repository, self.workspace = variables, repository, workspace
        installed = workspace.with_name(f"{workspace.name}-installed")
        self.environment = {
            **os.environ,
            "PIP_TARGET": str(installed),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PYTHONPATH": str(installed),
            "PATH": os.pathsep.join([str(installed / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def run(self, steps: list[dict[str, Any]]) -> None:
        """Every step in order; each has to end with 0."""
        for step in steps:
            if "run" in step:
                self._run(step["run"], step.get("env", {}))
            elif step["uses"].startswith("actions/checkout@"):
                self._check_out(**step.get("with", {}))
            else:
                assert step["uses"].startswith("actions/setup-python@"), step

    def _check_out(self, repository: str = "", path: str = "") -> None:
        if not repository:
            shutil.copytree(self.repository, self.workspace, ignore=shutil.ignore_patterns("refaug-data", "ci-home"))
            (self.workspace / "replies.jsonl").unlink()  # what the workflow makes itself
            return
        assert self._filled(repository) == "us/refaug"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*_cache", "tests")
        shutil.copytree(ROOT / "clients" / "python", self.workspace / path / "clients" / "python", ignore=ignored)

    def _run(self, command: str, variables: dict[str, str]) -> None:
        done = subprocess.run(
            ["bash", "-e", "-c", self._filled(command)],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=self.workspace,
            env={**self.environment, **{name: self._filled(text) for name, text in variables.items()}},
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ *(\S+) *\}\}", lambda match: self.variables[match[1]], text)


def matches(printed: str, shown: str) -> bool:
    """Whether something is what a page shows; `…` is any text, and alone on a line any lines."""
    lines = shown.split("\n")
    patterns = [r"(?:.*\n)*?" if line.strip() == "…" else _pattern(line) + r"\n" for line in lines]
    return re.fullmatch("".join(patterns), printed + "\n") is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*"


def require_names(block: Block) -> None:
    """That a block compiles, and that every name which it imports from us is there, without importing it."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("refaug_client"):
            defined = names_of(node.module or "")
            missing = [one.name for one in node.names if one.name not in defined]
            assert missing == [], f"{node.module} has no {', '.join(missing)}"


def names_of(module: str) -> set[str]:
    """What a module of ours defines, by its source."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"there is no module {module}"
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))} | {
        one.asname or one.name for node in body if isinstance(node, ast.ImportFrom) for one in node.names
    }


def module_of(path: Path) -> types.ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
