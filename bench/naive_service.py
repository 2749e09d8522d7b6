"""The service that one would write in an afternoon: what bench_service.py is held against.

One route does all the work of a request before the next one is looked at. `references` finds, rates and scores with the
functions of this project, one item at a time; `plain` has the network read every text of every triplet, as one would
ask it at first; `sacrebleu` scores replies against stored references, one after another.

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

from core.items import item_of
from metrics.specification import build
from rater.rate import Rater, ToRate
from service.augment import AugmentSettings, augment, provenance, provenance_details
from service.evaluate import evaluate
from service.rating import open_rater
from service.retrieval import open_index
from service.scores import ScoreSettings
from service.settings import Settings

app = FastAPI()


class PlainRater:
    """The network, asked triplet by triplet: nothing is remembered, and no text is read for two of them."""

    def __init__(self, rater: Rater) -> None:
        self.spec, self.coverage, self.unfamiliar = rater.spec, rater.coverage, rater.unfamiliar
        self._model, self._tokenizer = rater.model, rater.tokenizer

    def rate(self, asked: Sequence[ToRate], _settings: object) -> list[list[float]]:
        """The ratings of each test pair's candidates, against its first gold."""
        return [self._rated(one) for one in asked]

    def _rated(self, one: ToRate) -> list[float]:
        count = len(one.candidates)
        texts = [one.utterance] * count + [one.golds[0]] * count + [candidate.text for candidate in one.candidates]
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
            found: list[float] = (2 * torch.softmax(logits.double(), dim=1)[:, 1] - 1).tolist()
        return found


def serve_references(home: str, index: str, rater: str, port: int, *, plain: bool) -> None:
    """Items in, scores out, one request at a time."""
    settings = AugmentSettings()
    opened, weigher = open_index(Settings(home=Path(home)), index), open_rater(Settings(home=Path(home)), rater)
    weigher = PlainRater(weigher) if plain else weigher

    @app.post("/scores")
    async def scores(body: dict[str, Any] = Body()) -> dict[str, Any]:  # noqa: B008
        items = [item_of(one, fallback_id=str(place)) for place, one in enumerate(body["items"])]
        found = [one.item for one in augment(items, opened, weigher, settings)]
        said, more = provenance(opened, weigher, settings), provenance_details(opened, settings)
        return evaluate(found, [build("upsilon-bleu")], ScoreSettings(draws=0), provenance=said, details=more).as_json()

    uvicorn.run(app, port=port, log_level="warning")


def serve_sacrebleu(path: str, port: int) -> None:
    """Replies to items of a set in, a score for each out."""
    references: dict[str, list[str]] = orjson.loads(Path(path).read_bytes())
    bleu = BLEU(max_ngram_order=2, smooth_method="add-k", smooth_value=1, effective_order=True, lowercase=True)

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
