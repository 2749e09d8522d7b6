"""The home of `refaug start`: made at once, made after kills at random moments, and scored with."""

from __future__ import annotations

import importlib.util
import json
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from encoders import write_encoder
from integration.conftest import Home
from safeguards import require

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.library.everyday import make_everyday_home
from refaug.logs.everyday import PACKAGE
from refaug.scoring.home.encoders import PACKAGED, import_encoder

WORDS = ["i", "you", "the", "a", "cat", "dog", "tea", "like", "likes", "drink", "big", "not", "really"]
KILLS = 10
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


def contents(home: Settings, source: Path) -> Sequence[tuple[str, str]]:
    parts = make_everyday_home(home, Silent(), source=source, encoder="tiny")
    return [(part.kind, part.content) for part in parts]


@pytest.mark.slow
def test_a_home_killed_at_random_moments_ends_with_the_same_content(tmp_path: Path) -> None:
    source = write_talks(tmp_path / "dataset.json")
    at_once = contents(new_home(tmp_path / "at-once"), source)
    assert [kind for kind, _ in at_once] == ["log", "encoder", "vectors", "index"]
    killed, rng, kills = new_home(tmp_path / "killed"), random.Random(11), 0
    for number in range(KILLS):
        command = [sys.executable, "-c", MAKE, str(killed.home), str(source)]
        process = subprocess.Popen(command)
        try:
            process.wait(0.3 * (number + 1) + rng.uniform(0, 0.3))  # the first ones before anything is there
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills
    assert contents(killed, source) == at_once
    again = list(make_everyday_home(killed, Silent(), source=source, encoder="tiny"))
    assert [part.is_new for part in again] == [False] * 4


@pytest.mark.machine
def test_the_command_ends_with_a_score_and_says_what_comes_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = [file.package for file in PACKAGED["all-minilm-l6-v2"].values()]
    require("encoder", found=all(map(importlib.util.find_spec, packages)), why="the packages of the encoder")
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
