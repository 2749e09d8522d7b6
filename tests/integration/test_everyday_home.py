"""The home of `refaug start`: made at once, made after kills at random moments, and scored with."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from encoders import write_encoder
from integration.conftest import Home
from safeguards import require

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.files import sha256_of
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.library.everyday import make_everyday_home
from refaug.logs.everyday import PACKAGE
from refaug.scoring.home.encoders import PACKAGED, import_encoder

WORDS = ["i", "you", "the", "a", "cat", "dog", "tea", "like", "likes", "drink", "big", "not", "really"]
MAKE = (
    "import sys; from pathlib import Path;"
    "from refaug.core.home import Settings; from refaug.core.progress import Silent;"
    "from refaug.library.everyday import make_everyday_home;"
    "list(make_everyday_home(Settings(home=Path(sys.argv[1])), Silent(), source=Path(sys.argv[2]), encoder='tiny'))"
)


def write_talks(path: Path, conversations: int = 60) -> Path:
    rng = random.Random(7)
    content = {
        f"talk-{number}": {
            "messages": [
                [{"text": " ".join(rng.choices(WORDS, k=rng.randint(3, 8))), "sender": "ab"[turn % 2], "timestamp": ""}]
                for turn in range(rng.randint(2, 12))
            ]
        }
        for number in range(conversations)
    }
    path.write_text(json.dumps(content))
    return path


def new_home(folder: Path) -> Settings:
    home = Settings(home=folder)
    import_encoder(artefact_stores(home)["encoder"], home.cache, "tiny", write_encoder(folder / "tiny"))
    return home


def published_files(home: Path) -> dict[str, str]:
    """Return the SHA-256 of every file that the home serves, but for manifests, which say when something was made."""
    folders = {"logs": home / "logs/everyday-en"}
    for kind, store in artefact_stores(Settings(home=home)).items():
        folders |= {f"{kind}/{name}": store.folder(*store.resolve(name)) for name in store.names()}
    files = {f"{part}/{path.relative_to(at)}": path for part, at in folders.items() for path in at.rglob("[!.]*")}
    items = {"items": home / "everyday-en-items.jsonl"}
    return {name: sha256_of(path) for name, path in (files | items).items() if path.is_file() and path.name != MANIFEST}


def require_same_bytes_after_kills(
    folder: Path, begun: Path, command: Callable[[Path], Sequence[str]], kills: int
) -> None:
    """Run a command in copies of a home: to its end at once, and killed so often; a home that is done begins again."""
    at_once, killed, rng = folder / "at-once", folder / "killed", random.Random(11)
    shutil.copytree(begun, at_once)
    started = time.perf_counter()
    subprocess.run(command(at_once), check=True)
    needed_s = time.perf_counter() - started
    assert {name.partition("/")[0] for name in published_files(at_once)} == {
        *("encoder", "index", "items", "logs", "vectors")
    }
    shutil.copytree(begun, killed)
    while kills:
        process = subprocess.Popen(command(killed))
        try:
            process.wait(rng.uniform(0.1, 1) * needed_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills -= 1
        if process.wait() == 0:
            assert published_files(killed) == published_files(at_once)
            shutil.rmtree(killed)
            shutil.copytree(begun, killed)
    subprocess.run(command(killed), check=True)
    assert published_files(killed) == published_files(at_once)


@pytest.mark.slow
def test_a_home_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source = write_talks(tmp_path / "dataset.json")
    begun = new_home(tmp_path / "begun")
    program = [sys.executable, "-c", MAKE]
    require_same_bytes_after_kills(tmp_path, begun.home, lambda home: [*program, str(home), str(source)], kills=2)
    again = list(make_everyday_home(Settings(home=tmp_path / "killed"), Silent(), source=source, encoder="tiny"))
    assert [(part.kind, part.is_new) for part in again] == [
        (kind, False) for kind in ("log", "encoder", "vectors", "index")
    ]


@pytest.mark.machine
@pytest.mark.faults
def test_the_command_killed_at_ten_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    require_encoder()
    source, begun = write_talks(tmp_path / "dataset.json"), tmp_path / "begun"
    begun.mkdir()
    refaug = [sys.executable, "-m", "refaug", "--quiet", "--home"]
    require_same_bytes_after_kills(
        tmp_path, begun, lambda home: [*refaug, str(home), "start", "--from", str(source)], kills=10
    )


def require_encoder() -> None:
    packages = [file.package for file in PACKAGED["all-minilm-l6-v2"].values()]
    require("encoder", found=all(map(importlib.util.find_spec, packages)), why="the packages of the encoder")


@pytest.mark.machine
def test_the_command_ends_with_a_score_and_says_what_comes_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_encoder()
    refaug = Home(tmp_path / "home", capsys)
    source = write_talks(tmp_path / "dataset.json", conversations=20)
    started = refaug("start", "--from", source, "--json").json
    scores = started["example"]["scores"]
    assert 0 <= scores["far"] < scores["close"] <= 1
    assert started["example"]["signature"].startswith("refaug-1|")
    assert [part["is_new"] for part in refaug("start", "--from", source, "--json").json["parts"]] == [False] * 4


def test_without_the_packages_nothing_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec(PACKAGE.package) is not None:
        pytest.skip("the packages are installed")
    refused = Home(tmp_path / "home", capsys)("start", "--json")
    assert (refused.code, refused.error["code"]) == (1, "missing_part")
    assert not (tmp_path / "home" / "logs").exists()
