"""The straightforward scoring service that bench_service.py compares with.

One route does all the work of a request before the next one begins. `references` finds, rates and scores with the
functions of this project, one item at a time; `plain` has the network read every text of every triplet; `sacrebleu`
scores replies against stored references, one after another.

    python bench/naive_service.py references HOME INDEX RATER PORT
    python bench/naive_service.py plain HOME INDEX RATER PORT
    python bench/naive_service.py sacrebleu REFERENCES.json PORT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
import uvicorn
from fastapi import Body, FastAPI
from sacrebleu.metrics.bleu import BLEU

from refaug.core.home import Settings
from refaug.metrics.specification import build
from refaug.rater.rating import Rater, RatingRequest
from refaug.scoring.augmentation import augment
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.indexes import open_index
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import item_of
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings, ScoreSettings

app = FastAPI()


class PlainRater:
    """The network, run triplet by triplet: no text is read once for several of them, and nothing is cached."""

    def __init__(self, rater: Rater) -> None:
        self.spec, self.coverage, self.unfamiliar = rater.spec, rater.coverage, rater.unfamiliar
        self.runtime = rater.runtime
        self._model, self._tokenizer = rater.model, rater.tokenizer

    def rate(self, test_pairs: Sequence[RatingRequest], _settings: object) -> list[list[float]]:
        """Return the ratings of each test pair's candidates, against its first gold."""
        return [self._rate(one) for one in test_pairs]

    def forget_texts(self) -> None:
        """Nothing is remembered."""

    def _rate(self, test_pair: RatingRequest) -> list[float]:
        count = len(test_pair.candidates)
        texts = (
            [test_pair.utterance] * count
            + [test_pair.golds[0]] * count
            + [candidate.text for candidate in test_pair.candidates]
        )
        coded = [ids[: self._model.config.max_tokens] or [1] for ids in self._tokenizer.encode_ids_batch(texts)]
        order = sorted(range(len(coded)), key=lambda at: -len(coded[at]))
        tokens = torch.zeros(len(coded), len(coded[order[0]]), dtype=torch.int64)
        for row, at in enumerate(order):
            tokens[row, : len(coded[at])] = torch.tensor(coded[at])
        with torch.inference_mode():
            read = self._model.read(tokens, torch.tensor([len(coded[at]) for at in order]))
            vectors = torch.empty_like(read)
            vectors[torch.tensor(order)] = read
            logits = self._model.judge(vectors[:count], vectors[count : 2 * count], vectors[2 * count :])
            ratings: list[float] = (2 * torch.softmax(logits.double(), dim=1)[:, 1] - 1).tolist()
        return ratings


def serve_references(home: str, index: str, rater: str, port: int, *, plain: bool) -> None:
    """Serve scores of items, one request at a time."""
    settings = AugmentSettings()
    opened, weigher = open_index(Settings(home=Path(home)), index), open_rater(Settings(home=Path(home)), rater)
    weigher = PlainRater(weigher) if plain else weigher

    @app.post("/scores")
    async def scores(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        items = [item_of(one, fallback_id=str(place)) for place, one in enumerate(body["items"])]
        augmented = list(augment(items, opened, weigher, settings))
        made_by = references_provenance(opened, weigher, settings)
        return evaluate(augmented, [build("upsilon-bleu")], ScoreSettings(draws=0), provenance=made_by).as_json()

    uvicorn.run(app, port=port, log_level="warning")


def serve_sacrebleu(path: str, port: int) -> None:
    """Serve a score for each reply to an item of a set."""
    references: dict[str, list[str]] = orjson.loads(Path(path).read_bytes())
    bleu = BLEU(max_ngram_order=2, smooth_method="exp", effective_order=True, lowercase=True)

    @app.post("/scores")
    async def scores(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        pairs = zip(body["items"], body["replies"]["model"], strict=True)
        return {"scores": [bleu.sentence_score(reply, references[item]).score for item, reply in pairs]}

    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] in ("references", "plain"):
        serve_references(*sys.argv[2:5], int(sys.argv[5]), plain=sys.argv[1] == "plain")
    else:
        serve_sacrebleu(sys.argv[2], int(sys.argv[3]))
