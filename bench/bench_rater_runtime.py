"""How fast each kind of rater rates by numpy beside torch, and how far their ratings lie apart.

    python bench/bench_rater_runtime.py

Networks of the sizes that `refaug train rater` makes by default, with drawn weights, rate test pairs of ten candidates
each, in turn by either, on one thread; times are of the processor.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from common import median, write_result

from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.cross.checkpoint import FILES as CROSS_FILES
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.sequences import CrossConfig
from refaug.rater.dual.checkpoint import FILES as DUAL_FILES
from refaug.rater.dual.checkpoint import DualConfig
from refaug.rater.dual.network import DualNetwork
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.stored_raters import open_stored_rater

REPEATS = 5
CANDIDATES = 10
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
PAIRS = {"nn": 60, "dual": 200, "cross": 12}


def test_pairs(count: int) -> list[RatingRequest]:
    """Return pairs of about ten drawn words a text, each with a gold and candidates."""
    rng = np.random.default_rng(count)

    def text() -> str:
        return " ".join("".join(rng.choice(SYLLABLES, 1 + rng.geometric(0.5))) for _ in range(rng.geometric(0.1)))

    return [
        RatingRequest(
            utterance=text(), golds=(text(),), candidates=tuple(Reference(text=text()) for _ in range(CANDIDATES))
        )
        for _ in range(count)
    ]


def save_networks(folder: Path) -> None:
    """Save a network of each kind, of the sizes of the preset base, with drawn weights."""
    texts = [text for pair in test_pairs(2_000) for text in (pair.utterance, *pair.golds)]
    train_sentencepiece(iter(texts), folder / "pieces.model", TokenizerTraining(vocab_size=4_000, at_most=True))
    tokenizer = open_sentencepiece(folder / "pieces.model")
    size, facts = tokenizer.vocab_size, {"temperature": 1.0, "languages": ["en"], "report": {}, "details": {}}
    torch.manual_seed(1)
    bi_gru = RaterConfig(vocabulary=size, embedding=128, hidden=128, width=256, features="products")
    save_rater(folder / "nn", BiGRURater(bi_gru), tokenizer, **facts)
    cross = CrossConfig(vocabulary=size)
    CROSS_FILES.save(folder / "cross", CrossNetwork(cross), tokenizer, **facts)
    dual = DualConfig(vocabulary=size)
    DUAL_FILES.save(folder / "dual", DualNetwork(dual), tokenizer, **facts)


def opened(folder: Path, runtime: str) -> Rater:
    """Open a rater by torch, or as where torch is not installed."""
    absent: dict[str, Any] = {} if runtime == "torch" else {"torch": None}
    with patch.dict(sys.modules, absent):
        rater = open_stored_rater(folder, None)
    assert rater.runtime == runtime
    return rater


def seconds(rater: Rater, pairs: Sequence[RatingRequest]) -> float:
    """Return the processor time of rating texts that were not read before."""
    rater.forget_texts()
    began = process_time()
    rater.rate(pairs)
    return process_time() - began


def bench(folder: Path, kind: str) -> dict[str, float]:
    """Return candidates a second of processor time by either, their ratio, and how far the ratings lie apart."""
    pairs = test_pairs(PAIRS[kind])
    raters = {runtime: opened(folder / kind, runtime) for runtime in ("torch", "numpy")}
    torch_ratings, numpy_ratings = (np.array(rater.rate(pairs)) for rater in raters.values())  # compiles
    rounds = [{runtime: seconds(rater, pairs) for runtime, rater in raters.items()} for _ in range(REPEATS)]
    rates = {runtime: CANDIDATES * len(pairs) / median([each[runtime] for each in rounds]) for runtime in raters}
    return {
        "candidates": CANDIDATES * len(pairs),
        "torch_per_s": round(rates["torch"], 1),
        "numpy_per_s": round(rates["numpy"], 1),
        "ratio": round(median([each["torch"] / each["numpy"] for each in rounds]), 2),
        "furthest": float(f"{abs(torch_ratings - numpy_ratings).max():.1e}"),
    }


def main() -> None:
    """Run it, print the figures and write them."""
    with tempfile.TemporaryDirectory() as name:
        save_networks(Path(name))
        figures = {kind: bench(Path(name), kind) for kind in PAIRS}
    for kind, of_kind in figures.items():
        print(kind, of_kind)
    write_result("rater_runtime", figures, ("numpy", "torch"))


if __name__ == "__main__":
    main()
