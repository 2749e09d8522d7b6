"""The encoder of refaug-1 from the packages that ship it: the one that the calibration was made with."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Home
from safeguards import require

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.logs.everyday import PACKAGE
from refaug.metrics.signature import Signature
from refaug.scoring.home.encoders import PACKAGED

LOCK = Path(__file__).parents[2] / "requirements-start.lock"
NAME = "all-minilm-l6-v2"
TALK = (
    ("Where can I buy a ticket for the bus?", "At the machine beside the stop.", "Does it take coins?"),
    ("Is there a bus to the museum?", "The next one leaves in ten minutes.", "Thank you, that is soon."),
    ("How is the soup today?", "It needs salt, I think.", "I like it as it is."),
)
ITEM = {
    "id": "one",
    "turns": ["Where do I get a bus ticket?"],
    "references": ["At the machine over there."],
    "replies": {
        "good": "From the machine by the stop.",
        "echo": "Where do I get a bus ticket?",
        "far": "It needs salt.",
    },
}


def test_the_lock_names_the_packages_of_conversations_and_encoder() -> None:
    lines = [line for line in LOCK.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == sorted(file.requirement for file in (PACKAGE, *PACKAGED[NAME].values()))


@pytest.mark.machine
def test_the_packaged_encoder_scores_without_a_word_of_the_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = all(importlib.util.find_spec(file.package) is not None for file in PACKAGED[NAME].values())
    require("encoder", found=there, why=f"the packages of {LOCK.name}")
    refaug = Home(tmp_path / "home", capsys)
    (tmp_path / "items.jsonl").write_text(json.dumps(ITEM))
    (tmp_path / "log.jsonl").write_text(
        "".join(json.dumps({"id": str(number), "turns": turns}) + "\n" for number, turns in enumerate(TALK))
    )
    for command in (
        ("index", "encoder", "add", NAME),
        ("index", "encoder", "add", NAME),  # which changes nothing
        ("log", "ingest", tmp_path / "log.jsonl", "--log", "talk"),
        ("index", "build", "talk", "--encoder", NAME, "--check-queries", "0"),
    ):
        assert refaug(*command).code == 0, command
    assert len(artefact_stores(Settings(home=refaug.path))["encoder"].versions(NAME)) == 1
    scored = refaug("score", tmp_path / "items.jsonl", "--index", "talk", "--draws", "0", "--json")
    assert scored.code == 0, scored.err
    scores: dict[str, Any] = scored.json["scores"][0]
    assert Signature.parse(scores["signature"]).settings["encoder"] == f"{NAME}#e7874b5aba28"
    corpus = {name: system["corpus"] for name, system in scores["systems"].items()}
    assert corpus == pytest.approx({"good": 0.8242, "echo": 0.0001, "far": 0.2519}, abs=2e-3)
