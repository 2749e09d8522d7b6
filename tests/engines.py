"""Homes for tests of what serves: an index `chat` and a rater `base` of several versions each, all tiny."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from indexes import add_to_log, build, home_of
from plain_search import RawPair
from raters import tiny_rater

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Versions
from refaug.core.home import Settings
from refaug.rater.nn.checkpoint import save_rater

WORDS = ["apples", "are", "blue", "boats", "do", "fly", "green", "how", "i", "like", "no", "red", "the", "we", "yes"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 6)) for number in range(200)})


def pairs_said(seed: int, count: int = 80) -> list[RawPair]:
    """Pairs of drawn texts, each in a dialogue of its own."""
    rng = random.Random(seed)
    return [RawPair("chat", f"d{seed}-{number}", "1", rng.choice(TEXTS), rng.choice(TEXTS)) for number in range(count)]


def home_with_versions(folder: Path, *, indexes: int = 2, raters: int = 2) -> Settings:
    """A home with so many versions of each, of which the first is published; all differ in what they answer."""
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 6)).astype(np.float32)
    vectors = {word: row.tolist() for word, row in zip(WORDS, rows, strict=True)}
    home = Settings(home=folder / "home")
    places = home_of(home.home, pairs_said(0), vectors)
    for number in range(indexes):
        if number:
            add_to_log(places, "chat", pairs_said(number))
        build(places)
    publish_first(artefact_stores(home)["index"], "chat")
    for number in range(raters):
        add_rater(home, folder / f"tools-{number}", temperature=1.0 + number)
    if raters:
        publish_first(artefact_stores(home)["rater"], "base")
    return home


def add_rater(home: Settings, folder: Path, name: str = "base", *, temperature: float) -> str:
    """A further version of a rater, which is not published."""
    folder.mkdir()
    rater = tiny_rater(TEXTS, folder)
    kinds: dict[str, Any] = {"languages": ["en"], "report": {}, "details": {"logs": {}}}
    save_rater(folder / "rater", rater.model, rater.tokenizer, temperature=temperature, **kinds)
    return artefact_stores(home)["rater"].add(name, folder / "rater")


def publish_first(artefacts: Versions, name: str) -> None:
    artefacts.publish(name, artefacts.versions(name)[0])
