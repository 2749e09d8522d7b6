"""What references are found and weighed with, for the tests of the service: an index and a rater that are tiny."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from indexes import built, home_of, pairs_of

from refaug.indexer.search.index import ReferenceIndex

if TYPE_CHECKING:
    from refaug.rater.rating import Rater

WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
WORDS += ["they", "to", "trees", "we", "what", "why", "yes", "you"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 8)) for number in range(400)})
HOSTILE = "<script>alert('x')</script> & \"quoted\" \u202e \x07 שלום 日本"


def texts_of_pairs() -> list[tuple[str, str]]:
    """What the index has: utterances and responses that were drawn, and last a pair that no page may take for HTML."""
    rng = random.Random(1)
    drawn = [(rng.choice(TEXTS), rng.choice(TEXTS)) for _ in range(250)]
    return [*drawn, (f"the red boats {HOSTILE}", f"no {HOSTILE}")]


@dataclass(frozen=True)
class Tools:
    """An index and a rater."""

    index: ReferenceIndex
    rater: Rater


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    from raters import tiny_rater  # noqa: PLC0415  torch

    folder = tmp_path_factory.mktemp("tools")
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    vectors = {word: row.tolist() for word, row in zip(WORDS, rows, strict=True)}
    with built(home_of(folder / "home", pairs_of(*texts_of_pairs()), vectors)) as index:
        yield Tools(index, tiny_rater(TEXTS, folder, temperature=2.5))
