"""The wheel holds the package, works without extras, and is not taken for modules of the user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from safeguards import mostly_slow

from refaug.core.errors import MissingPart
from refaug.core.installation import MODULES_OF_EXTRAS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_alone_scores_and_names_the_extra_of_what_it_lacks(tmp_path: Path) -> None:
    """The modules of all extras are hidden from the interpreter, as if they were not installed."""
    hidden = sorted(module for modules in MODULES_OF_EXTRAS.values() for module in modules)
    program = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {hidden!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from refaug.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    items = tmp_path / "items.jsonl"
    items.write_text(
        '{"id": "a", "references": ["On the table.", "There."], "replies": {"m": "On a table."}}\n', "utf-8"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", program, "--quiet", "--home", str(tmp_path / "home"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    scored = run("score", str(items), "--metric", "bleu", "--metric", "chrf", "--json", "--draws", "0")
    assert (scored.returncode, scored.stderr) == (0, "")
    scores = tmp_path / "scores.json"
    scores.write_text(scored.stdout, "utf-8")
    assert run("score", "verify", str(scores), str(items)).returncode == 0
    assert run("sets", "freeze", str(items), "--purpose", "test").returncode == 0
    wanted = {
        ("log", "ingest", str(items), "--log", "x"): "index",
        ("sets", "references", str(items), "--index", "x", "--reference-weights", "one", "--parrot", "off"): "index",
        ("agreement", str(items)): "meta",
        ("serve",): "serve",
    }
    in_python = program.replace("from refaug.cli.main import main\nsys.exit(main(sys.argv[1:]))\n", (
        "import refaug\n"
        "scores = refaug.score(predictions=['On a table.'], references=[['On the table.']], metric='bleu')\n"
        "assert 0 < scores.corpus < 1\n"
        "try:\n"
        "    refaug.score(predictions=['a'], references=[['b']], metric='rater', rater='x')\n"
        "except refaug.RefaugError as error:\n"
        "    assert error.code == 'missing_part', error\n"
    ))  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-P", "-c", in_python], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words, extra in wanted.items():
        refused = run(*words)
        assert refused.returncode == MissingPart.exit_code, (words, refused.stderr)
        assert str(extra) in refused.stderr, words


def test_a_wheel_holds_the_files_of_the_package(tmp_path: Path) -> None:
    """The source is copied without the links at its top first, as an image and a build from an archive see it."""
    source = tmp_path / "source"
    source.mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {"refaug", "pyproject.toml", "README.md", "LICENSE"}
    for name in filter(None, tracked.split("\0")):
        if name.split("/")[0] in wanted:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("refaug-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert not any(stat.S_ISLNK(info.external_attr >> 16) for info in archive.infolist())
    assert set(names) == {path for path in filter(None, tracked.split("\0")) if path.startswith("refaug/")}


HOSTILE = (
    "metrics.py",
    "core.py",
    "service.py",
    "cli.py",
    "logs/__init__.py",
    "indexer/__init__.py",
    "rater/empty.txt",
    "torch.py",
    "numpy.py",
    "typer.py",
)


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A training repository with modules and folders that are called as our rooms are."""
    for name in HOSTILE:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('raise SystemExit("the module of the working directory was imported")\n', "utf-8")
    return tmp_path


COMMAND = (sys.executable, "-c", "import sys; from refaug.cli import start; sys.exit(start())")


@pytest.mark.parametrize("is_on_path", mostly_slow([False, True], quick=[0]), ids=["working directory", "PYTHONPATH"])
def test_modules_of_the_user_are_not_taken_for_ours(hostile_folder: Path, is_on_path: bool) -> None:
    """`-c` puts the working directory first on the path, for the workers of an ingest too; PYTHONPATH comes next."""
    run = [*COMMAND, "--home", str(hostile_folder / "home")]
    environment = {**os.environ, **({"PYTHONPATH": str(hostile_folder)} if is_on_path else {})}
    for arguments in (
        ["log", "demo", "--dialogues", "40", "--output", "log.jsonl"],
        ["log", "ingest", "log.jsonl", "--log", "demo", "--workers", "2"],
        ["score", "metrics", "list"],
    ):
        done = subprocess.run(
            [*run, *arguments], cwd=hostile_folder, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr if done.returncode else "") == (0, "")
