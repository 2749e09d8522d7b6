"""The command in this process, and the driver that kills it in another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from raters import tiny_rater

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.logs.manifest import MANIFEST
from refaug.logs.store import StoredLog
from refaug.rater.nn.checkpoint import save_rater

ROOT = Path(__file__).parents[2]


def in_group(kind: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command on a kind of artefact by its verb; one about versions names its kind itself."""
    verb, *rest = command
    if verb == "artefacts":
        return command
    words = {
        "train": ("train", kind),
        "resume": ("train", "resume", kind),
        "report": ("train", "report", kind),
        "negatives": ("train", "negatives"),
        "rate": ("judge", "score", kind),
        "score": ("judge", "score", kind),
        "evaluate": ("agreement", kind),
    }
    return (*words.get(verb, ("index", verb) if kind == "index" else ("index", kind, verb)), *rest)


@dataclass
class Result:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return orjson.loads(self.out)

    @property
    def error(self):
        return orjson.loads(self.err[self.err.index('{"error"') :])["error"]


class Home:
    """A home folder with logs in it, and the command that works on it."""

    def __init__(self, path: Path, capsys) -> None:
        self.path, self._capsys = path, capsys

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def __call__(self, *arguments) -> Result:
        self._capsys.readouterr()
        code = main(["--home", str(self.path), *map(str, arguments)])
        found = self._capsys.readouterr()
        return Result(code, found.out, found.err)

    def ingest(self, *arguments, log="chat") -> Result:
        return self("log", "ingest", *arguments, "--log", log, "--json")

    def open(self, log="chat") -> StoredLog:
        return StoredLog.open(self.logs, log)

    def files(self, log="chat") -> dict[str, bytes]:
        """Everything in a log's folder but the lock."""
        return {
            str(path.relative_to(self.logs / log)): path.read_bytes()
            for path in sorted((self.logs / log).rglob("*"))
            if path.is_file() and path.name != ".lock"
        }


def timeless(manifest: bytes) -> dict[str, object]:
    """A manifest without the times at which things happened, and so without its checksum."""
    value = orjson.loads(manifest)
    del value["created"], value["updated"], value["checksum"]
    for ingest in value["ingests"]:
        del ingest["at"]
    return value


def content(home: Home, log="chat"):
    """All that a log is: its parts, byte for byte, and its manifest without times."""
    files = home.files(log)
    return {name: timeless(data) if name == MANIFEST else data for name, data in files.items()}


@pytest.fixture
def home(tmp_path, capsys):
    return Home(tmp_path / "home", capsys)


@pytest.fixture
def home_at(capsys):
    return lambda path: Home(path, capsys)


@pytest.fixture(scope="session")
def with_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log, an index and a rater, all called chat; and a rater called tiny.

    The log's answers were drawn, so nothing can be learnt from it, and the rater chat rates all texts alike; tiny has
    opinions.
    """
    from integration.test_rater_command import SMALL  # noqa: PLC0415  it imports this file
    from trainings import talk  # noqa: PLC0415  this too

    folder, one = tmp_path_factory.mktemp("with-all"), ("--threads", "1")
    for command in (
        ("log", "ingest", talk(folder / "chat.jsonl", 240), "--log", "chat"),
        ("train", "vectors", "chat", "--dimensions", "8", "--epochs", "2", "--min-count", "1", *one),
        ("index", "build", "chat", "--check-queries", "0", *one),
        ("train", "rater", "chat", *SMALL, "--epochs", "1", "--validation-share", "0.3"),
    ):
        assert main(["--home", str(folder / "home"), "--quiet", *map(str, command)]) == 0
    home = Settings(home=folder / "home")
    texts = sorted(
        {text for pair in StoredLog.open(home.logs, "chat").pairs() for text in (pair.utterance, pair.response)}
    )
    rater = tiny_rater(texts, folder)
    save_rater(folder / "tiny", rater.model, rater.tokenizer, temperature=2.5, languages=["en"], report={}, details={})
    artefact_stores(home)["rater"].publish("tiny", artefact_stores(home)["rater"].add("tiny", folder / "tiny"))
    return home.home


@pytest.fixture
def ready(home: Home, with_all: Path) -> Home:
    """The test's own copy of it."""
    shutil.copytree(with_all, home.path)
    return home


class Driver:
    """tests/faults.py as a process; see there."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REFAUG_")}
        environment["PYTHONPATH"] = str(ROOT)
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "faults.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def __call__(self, *arguments, kind="", number=0):
        return self.answer(*arguments, kind=kind, number=number)[:2]

    def answer(self, *arguments, kind="", number=0):
        order = {"arguments": list(map(str, arguments)), "kind": kind, "number": number}
        self._process.stdin.write(orjson.dumps(order) + b"\n")
        self._process.stdin.flush()
        answer = orjson.loads(self._process.stdout.readline())
        return answer["code"], answer["seen"], answer["out"]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def driver():
    running = Driver()
    yield running
    running.close()
