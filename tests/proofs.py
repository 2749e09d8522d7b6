"""A proof in small: invented logs and rated replies, real indexes and pools, raters and vectors that nobody trained."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from indexes import add_vectors
from raters import tiny_rater

from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import LogSelection, ProofSettings
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.metrics.base import Metric
from refaug.metrics.models.ruber import Ranges, Ruber
from refaug.metrics.parameters import Range
from refaug.rater.rating import Rater
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import ReplyJudge
from refaug.scoring.items import item_of
from refaug.scoring.settings import AugmentSettings

WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
WORDS += ["they", "to", "trees", "we", "what", "why", "yes", "you", "rivers", "sing", "slowly", "over", "old", "stones"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=3 + number % 8)) for number in range(900)})
WIDTH = 8
_LOGS = {"dailydialog_en": (1, 90), "small_en": (2, 60)}  # seed, dialogues


class TinyChain(Chain):
    """A chain whose vectors and raters are drawn; all else is made as ever."""

    def __init__(self, home: Settings, settings: ProofSettings, progress: Progress) -> None:
        super().__init__(home, settings, progress)
        self._drawn_vectors = dict[str, str]()

    def vectors(self, selections: Sequence[LogSelection] = (), *, name: str = "proof") -> str:
        """Vectors of a small width, the same for the same name."""
        if name not in self._drawn_vectors:
            rows = np.random.default_rng(len(name)).standard_normal((len(WORDS), WIDTH)).astype(np.float32)
            vectors = {word: row.tolist() for word, row in zip(WORDS, rows, strict=True)}
            self._drawn_vectors[name] = f"{name}@{add_vectors(places_of(self.home), name, vectors)}"
        return self._drawn_vectors[name]

    def rater(self, selections: Sequence[LogSelection] = (), *, name: str = "proof", **_given: Any) -> Rater:
        """One that was taught nothing; of another name, one with another vocabulary."""
        if name not in self._raters:
            folder = self.home.home / "tiny" / name
            folder.mkdir(parents=True)
            rater = tiny_rater(TEXTS, folder, pieces=100 if name == "proof" else 30)
            rater.spec = f"{name}@1#0123456789ab"
            self._raters[name] = rater
        return self._raters[name]

    def bind_blend(self, metric: Metric, index: str, rater: Rater, augmenting: AugmentSettings | None = None) -> Metric:
        """Bound to a rater that no home holds, with the ranges of the parts themselves."""
        del index, augmenting
        assert isinstance(metric, Ruber)
        return metric.with_judge(ReplyJudge(rater)).with_ranges(
            Ranges(referenced=Range(low=0, high=1), unreferenced=Range(low=-1, high=1)), {}
        )


def tiny_chain(folder: Path, **settings: Any) -> TinyChain:
    """With two logs in `data`; few draws and seeds."""
    for name, (seed, dialogues) in _LOGS.items():
        write_log(folder / "data" / "logs" / f"{name}.jsonl.gz", name, seed, dialogues)
    given = {"draws": 40, "seeds": 2, "preset": "small", **settings}
    return TinyChain(Settings(home=folder / "home"), ProofSettings(data=folder / "data", **given), Silent())


def write_log(path: Path, name: str, seed: int, dialogues: int) -> None:
    """Write invented dialogues, whose ids begin with `name`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    with gzip.open(path, "wb") as file:
        for number in range(dialogues):
            file.write(orjson.dumps({"id": f"{name}-{number}", "turns": rng.sample(TEXTS, 6)}) + b"\n")


def tiny_set(name: str, seed: int, items: int = 14, *, utterances: bool = True) -> ProofSet:
    """Items with a gold, three replies each and a rating for each of these; one reply of a system is a gold."""
    rng = random.Random(seed)
    made = []
    for number in range(items):
        gold = rng.choice(TEXTS)
        replies = {"a": rng.choice(TEXTS), "b": rng.choice(TEXTS), "c": gold if number == 3 else rng.choice(TEXTS)}
        ratings = {system: [rng.choice([1, 2, 3, 4, 5])] for system in replies}
        values: dict[str, Any] = {"references": [gold, rng.choice(TEXTS)], "replies": replies, "ratings": ratings}
        if utterances:
            values["utterance"] = rng.choice(TEXTS)
        made.append(item_of({"id": f"{name}-{number}", **values}, fallback_id=str(number)))
    return ProofSet.of(name, made)
