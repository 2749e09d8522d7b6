"""Homes for tests of the metric `ruber`: a log of few utterances, its index, a rater and a ruber, all tiny."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from indexes import build, home_of
from plain_search import RawPair
from raters import tiny_rater
from rubers import tiny_network

from refaug.core.home import Settings
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.ruber.network import save_ruber
from refaug.scoring.home.networks import rater_places
from refaug.scoring.home.torch_networks import ruber_places

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "i", "like", "no", "red", "the", "they", "we", "yes"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 6)) for number in range(200)})
ROWS = np.random.default_rng(1).standard_normal((len(WORDS), 6)).astype(np.float32)
VECTORS = {word: row.tolist() for word, row in zip(WORDS, ROWS, strict=True)}
FILE = "words.txt"  # the same vectors, as a metric takes them


def a_log(seed: int = 1, pairs: int = 700, utterances: int = 60) -> list[RawPair]:
    """Two pairs a dialogue; every utterance comes up several times."""
    rng = random.Random(seed)
    asked = TEXTS[:utterances]
    return [RawPair("chat", f"d{n // 2}", str(n % 2), rng.choice(asked), rng.choice(TEXTS)) for n in range(pairs)]


def home_with_models(folder: Path) -> Path:
    """A home with the index `chat` and a rater and a ruber, both `some`: untaught, with opinions."""
    home = folder / "home"
    build(home_of(home, a_log(), VECTORS))
    (folder / "tools").mkdir()
    rater = tiny_rater(TEXTS, folder / "tools", temperature=2.5)
    network = tiny_network(rater.tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.5)  # as torch draws them, all pairs are alike
    kinds: dict[str, Any] = {"languages": ["en"], "report": {}, "details": {"logs": {}}}
    save_rater(folder / "rater", rater.model, rater.tokenizer, temperature=2.5, **kinds)
    save_ruber(folder / "ruber", network, rater.tokenizer, **kinds)
    raters, rubers = rater_places(Settings(home=home)).versions, ruber_places(Settings(home=home)).versions
    raters.publish("some", raters.add("some", folder / "rater"))
    rubers.publish("some", rubers.add("some", folder / "ruber"))
    lines = [f"{word} {' '.join(map(repr, numbers))}\n" for word, numbers in VECTORS.items()]
    (home / FILE).write_text("".join(lines))
    return home
