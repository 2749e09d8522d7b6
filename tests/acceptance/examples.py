"""The examples of a documentation page: the files it shows, the commands it runs, and what it says they print.

    ```jsonl file=NAME        the block is written into a file
    ```python make=NAME       the block is run and makes the file
    ```jsonl shows=NAME       the file holds exactly the block
    ```console                lines `$ command`, each with its output below; refaug itself runs in this process
    ```console exits=CODE     the same with what stands on stderr in front of it, and this exit code at the end

In an output `…` stands for any text of a line, and alone on a line for any number of lines. Spaces at the ends of lines
mean nothing.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from refaug.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OF_THE_SHELL = re.compile(r"[|<>;&]")
TIMEOUT_S = 60.0
# The shell finds refaug and python3 here, whatever is installed on the machine beside them.
SHELL_FUNCTIONS = 'refaug() { "$PYTHON" -m refaug "$@"; }; python3() { "$PYTHON" "$@"; }; '


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, what its info string says (file, make, shows, exits), and its text."""

    language: str
    role: str
    name: str
    text: str


@dataclass(frozen=True)
class Example:
    """A section of a page, or a whole one, with its fences in order."""

    title: str
    fences: tuple[Fence, ...]


def fences(text: str) -> tuple[Fence, ...]:
    """All fenced blocks of a text that have a language."""
    return tuple(Fence(*match.groups("")) for match in FENCE.finditer(text))


def examples(page: Path) -> list[Example]:
    """The sections of a page that have something to run, each of which is complete in itself."""
    sections = re.split(r"^## +", page.read_text("utf-8"), flags=re.MULTILINE)[1:]
    found = [Example(section.split("\n", 1)[0], fences(section)) for section in sections]
    return [example for example in found if any(fence.role for fence in example.fences)]


def whole(page: Path) -> Example:
    """A page as one example, whose later sections use the files of the earlier ones."""
    return Example(page.stem, fences(page.read_text("utf-8")))


def commands(fence: Fence) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it; one may have several lines in quotes."""
    parts = re.split(r"^\$ ", fence.text, flags=re.MULTILINE)[1:]
    return [_command_and_output(part) for part in parts]


def _command_and_output(part: str) -> tuple[str, str]:
    lines = part.splitlines(keepends=True)
    ends = next(end for end in range(1, len(lines) + 1) if _is_whole("".join(lines[:end])))
    return "".join(lines[:ends]).rstrip("\n"), "".join(lines[ends:])


def _is_whole(command: str) -> bool:
    """Whether every quote is closed."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def matches(printed: str, shown: str) -> bool:
    """Whether an output is the one that the page shows."""
    lines = [line.rstrip() for line in shown.splitlines()]
    patterns = [r"(?:.*\n)*?" if line.strip() == "…" else _pattern(line) + r"\n" for line in lines]
    return re.fullmatch("".join(patterns), "".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))


class Runner:
    """Does what a page shows, in a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capture = capture

    def run(self, example: Example) -> None:
        """Run everything in order, and hold what comes of it to the page."""
        for fence in example.fences:
            if fence.role == "file":
                (self._folder / fence.name).write_text(fence.text, "utf-8")
            elif fence.role == "make":
                subprocess.run([sys.executable, "-c", fence.text], check=True, cwd=self._folder, timeout=TIMEOUT_S)
                assert (self._folder / fence.name).exists()
            elif fence.role == "shows":
                assert (self._folder / fence.name).read_text("utf-8") == fence.text
            elif fence.language == "console":
                for command, shown in commands(fence):
                    self._hold(command, shown, fence)

    def _hold(self, command: str, shown: str, fence: Fence) -> None:
        code, out, err = self.answer(command, quiet=fence.role == "exits")
        assert code == int(fence.name or 0), f"{command}: exit code {code}\n{err}"
        printed = err + out if fence.role == "exits" else out
        if not shown and re.match(r"refaug log ingest\b", command):  # its counts are on the page about cleaning
            return
        assert matches(printed, shown), f"$ {command}\n--- the page\n{shown}--- the command\n{printed}"

    def answer(self, command: str, *, quiet: bool = False) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one line; `quiet` keeps progress out of the latter.

        A line is a pipeline; what is refaug in it runs in this process, which has loaded everything.
        """
        code, data, said = 0, b"", ""
        for part in pipeline(command):
            source = (self._folder / part.source).read_bytes() if part.source else data
            if part.is_ours:
                code, data, err = self._ours(part.words, source, quiet=quiet)
            else:
                code, data, err = self._shell(part.text, source)
            said += err
            if part.target:
                with (self._folder / part.target).open("ab" if part.appends else "wb") as file:
                    file.write(data)
                data = b""
        return code, data.decode(), said

    def _ours(self, words: list[str], source: bytes, *, quiet: bool) -> tuple[int, bytes, str]:
        self._capture.readouterr()
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(source), "utf-8")
        try:
            code = cli.main(["--home", str(self._folder / "home"), *(["--quiet"] if quiet else []), *words])
        finally:
            sys.stdin = before
        printed = self._capture.readouterr()
        if code == 0 and words[0] in ("score", "sets") and {"score", "--json"} <= set(words) and "-" not in words:
            self._verify(printed.out)
        return code, printed.out.encode(), printed.err

    def _verify(self, scores: str) -> None:
        """Hold scores of a page to what `refaug score verify` makes of them: everything holds."""
        (self._folder / ".scores.json").write_text(scores, "utf-8")
        code = cli.main(
            ["--quiet", "--home", str(self._folder / "home"), "score", "verify", str(self._folder / ".scores.json")]
        )
        printed = self._capture.readouterr()
        assert (code, " unchecked " in printed.out) == (0, False), printed.out + printed.err

    def _shell(self, text: str, source: bytes) -> tuple[int, bytes, str]:
        home = str(self._folder / "home")
        environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "REFAUG_HOME": home}
        done = subprocess.run(
            ["bash", "-c", SHELL_FUNCTIONS + text],
            check=False,
            capture_output=True,
            input=source,
            cwd=self._folder,
            env=environment,
            timeout=TIMEOUT_S,
        )
        return done.returncode, done.stdout, done.stderr.decode()


@dataclass(frozen=True)
class Part:
    """A command of a pipeline, and the files that its input comes from and its output goes to."""

    text: str
    source: str = ""
    target: str = ""
    appends: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is one call of refaug and nothing else of the shell's."""
        return self.text.startswith("refaug ") and not _OF_THE_SHELL.search(unquoted(self.text))

    @property
    def words(self) -> list[str]:
        """Its arguments."""
        return shlex.split(self.text)[1:]


def unquoted(command: str) -> str:
    """The command with a placeholder of the same length for all that stands in quotes."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", lambda quoted: "q" * len(quoted[0]), command)


def pipeline(command: str) -> list[Part]:
    """The commands of a line; one that asks for more of the shell than pipes and files is left whole."""
    plain = unquoted(command)
    if re.search(r"[;&]|\bfor\b|<<", plain):
        return [Part(command)]
    ends = [match.start() for match in re.finditer(r"\|", plain)] + [len(command)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [_part(command[start:end], plain[start:end]) for start, end in zip(starts, ends, strict=True)]


def _part(text: str, plain: str) -> Part:
    files = {}
    for match in reversed(list(re.finditer(r"(>>|>|<)\s*(\S+)\s*", plain))):
        files[match[1]] = shlex.split(text[match.start(2) : match.end(2)])[0]
        text = text[: match.start()] + text[match.end() :]
    target = files.get(">>") or files.get(">", "")
    return Part(text.strip(), files.get("<", ""), target, ">>" in files)


def run(example: Example, folder: Path, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Runner:
    """Run an example in an empty folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    runner = Runner(folder, capture)
    runner.run(example)
    return runner
