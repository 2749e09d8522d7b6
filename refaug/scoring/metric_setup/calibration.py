"""Measure the calibration of refaug-1 for an encoder: what it gives to true replies of a log, and to drawn ones.

A pair is a dialogue of the log up to some turn, and the reply that stands there. Its own dialogue is no source of
references. Equal logs, indexes and seeds give equal numbers.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, Pair, Reference
from refaug.indexer.search.index import ReferenceIndex
from refaug.logs.store import StoredLog
from refaug.metrics.base import Floats, References
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.recommended import PARTS, MetricCalibration, Recommended, own_calibration
from refaug.metrics.models.model_kinds import ModelKind, OpenedEncoder
from refaug.scoring.augmentation import augment
from refaug.scoring.cases import references_for
from refaug.scoring.home.encoders import StoredEncoder, add_calibration
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import AugmentSettings

PAIRS: Final = 3_000
LEAST_PAIRS: Final = 200  # with fewer, a mean is no longer known to a tenth of a deviation
SEED: Final = 35
_LEAST_WORDS: Final = 2  # of a reply
_LIKE: Final = 0.9  # the share of true replies that are less like their turns
_TURNS: Final = 3  # that the metric reads
_CASES: Final = ((True, True), (True, False), (False, True))  # with golds, with retrieved references
_NEVER: Final = 2.0  # no cosine is above it

LoggedReply = tuple[Item, str]


def calibrate_encoder(
    models: ModelRegistry, encoder: str, index: str, *, pairs: int, seed: int, publish: bool, progress: Progress
) -> StoredEncoder:
    """Measure an encoder on the logs of an index, and add a version of the encoder that has the numbers."""
    version, opened = models.resolve(ModelKind.ENCODER, encoder), models.encoder(encoder)
    content, own = opened.spec.partition("#")[2], own_calibration()
    if content == own.encoder.partition("#")[2]:
        raise Usage(
            f"{opened.spec} is the encoder of refaug-1, whose numbers are part of its version and never change",
            remedy="nothing is to be done: -m refaug-1",
        )
    searched = models.index(index)
    vectors = searched.manifest.vectors
    if vectors.kind != "encoder" or not vectors.sha256.startswith(content):
        raise Usage(
            f"the index {index} has vectors of {vectors.name}, not of {opened.spec}",
            remedy=f"refaug index build {' '.join(searched.logs)} --name NAME --encoder {version.partition('@')[0]}",
        )
    logs = [StoredLog.open(models.home.logs, name) for name in searched.logs]
    logged = logged_replies(logs, pairs, seed)
    if len(logged) < LEAST_PAIRS:
        raise BadInput(
            f"the logs {', '.join(searched.logs)} have {len(logged):,} dialogues with a reply of {_LEAST_WORDS} words "
            f"or more, and a calibration needs {LEAST_PAIRS:,}",
            remedy="an index of more dialogues",
        )
    numbers = measure(models, opened, searched, logged, seed, {"logs": searched.logs}, progress)
    return add_calibration(
        artefact_stores(models.home)[ModelKind.ENCODER], models.home.cache, version, numbers, publish=publish
    )


# ── Pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def logged_replies(logs: Sequence[StoredLog], count: int, seed: int) -> list[LoggedReply]:
    """Return a reply of each of so many dialogues, with the turns before it; which ones depends on seed and names."""
    drawn = heapq.nsmallest(count, (_drawn_reply(pairs, seed) for log in logs for pairs in _dialogues(log)))
    return [reply for draw, _, reply in drawn if draw < 1]


def _dialogues(log: StoredLog) -> Iterator[list[Pair]]:
    """Yield the pairs of each dialogue that stand together."""
    pairs = list[Pair]()
    for pair in log.pairs():
        if pairs and pair.dialogue != pairs[0].dialogue:
            yield pairs
            pairs = []
        pairs.append(pair)
    if pairs:
        yield pairs


def _drawn_reply(pairs: Sequence[Pair], seed: int) -> tuple[float, str, LoggedReply]:
    """Return the number by which a dialogue is drawn (1: it has no reply), its name, and one of its replies."""
    name = f"{pairs[0].log}/{pairs[0].dialogue}"
    digest = blake2b(f"{seed}/{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    draw, choice = (int.from_bytes(half, "big") / 2**64 for half in (digest[:8], digest[8:]))
    places = [at for at, pair in enumerate(pairs) if len(pair.response.split()) >= _LEAST_WORDS]
    at = places[int(choice * len(places))] if places else 0
    turns = [pairs[at].utterance]
    for before in reversed(pairs[max(0, at - _TURNS + 1) : at]):
        if before.response != turns[0]:
            break
        turns.insert(0, before.utterance)
    reply = Item(id=name, turns=tuple(turns), dialogue=name), pairs[at].response
    return (draw if places else 1.0), name, reply


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(
    models: ModelRegistry,
    encoder: OpenedEncoder,
    index: ReferenceIndex,
    pairs: Sequence[LoggedReply],
    seed: int,
    made_of: Mapping[str, Any],
    progress: Progress,
) -> bytes:
    """Return the calibration as its file has it."""
    replies = [reply for _, reply in pairs]
    drawn = [replies[place] for place in np.random.default_rng(seed).permutation(len(replies))]
    augmented = augment([item for item, _ in pairs], index, None, AugmentSettings(preset="refaug-1"), progress)
    found = [one for one in augmented if isinstance(one, Item)]
    with_golds = [
        replace(item, references=(Reference(text=reply, source=Origin.GOLD), *item.references))
        for item, reply in zip(found, replies, strict=True)
    ]
    name, _, content = encoder.spec.partition("#")
    calibration = MetricCalibration(
        encoder=f"{name.partition('@')[0]}#{content}",
        most_like={"turn": _NEVER, "turns": _NEVER},
        drawn={_case_of(gold=gold, retrieved=retrieved): (0.0, 1.0) for gold, retrieved in _CASES},
        link=(0.0, 1.0),
        sha256="",
    )
    metric = Recommended(find("refaug-1"), {"encoder": encoder.spec}, models, calibration)
    progress.stage("scoring", 2 * len(replies), "replies")
    true, false = parts_of(metric, found, replies), parts_of(metric, with_golds, drawn)
    most_like = {part: _rounded(np.nanquantile(true[:, PARTS.index(part)], _LIKE)) for part in ("turn", "turns")}
    metric = Recommended(find("refaug-1"), {"encoder": encoder.spec}, models, replace(calibration, most_like=most_like))
    of_drawn = dict[str, list[float]]()
    for gold, retrieved in _CASES:
        sums = metric.sums(false, np.full(len(false), gold), np.full(len(false), retrieved))
        of_drawn[_case_of(gold=gold, retrieved=retrieved)] = [_rounded(f(sums)) for f in (np.nanmean, np.nanstd)]
    without, there = np.zeros(len(true), np.bool_), np.ones(len(true), np.bool_)
    mean, deviation = of_drawn["retrieved"]
    z_true, z_drawn = (
        z[np.isfinite(z)] for z in ((metric.sums(parts, without, there) - mean) / deviation for parts in (true, false))
    )
    link = _link(z_true, z_drawn)
    if not link[1] > 0:
        raise BadInput(
            f"true replies of the log are no more like their turns and references than drawn ones, as {name} sees them",
            remedy="an encoder of the language of the log",
        )
    numbers = {
        "encoder": calibration.encoder,
        "most_like": most_like,
        "drawn": of_drawn,
        "link": link,
        "made_of": {
            **made_of,
            "index": index.spec,
            "pairs": len(pairs),
            "seed": seed,
            "auc": _rounded((z_true[:, None] > z_drawn[None, :]).mean()),
        },
    }
    return (json.dumps(numbers, indent=2) + "\n").encode()


def parts_of(metric: Recommended, items: Sequence[Item], replies: Sequence[str]) -> Floats:
    """Return the parts (items, parts) of one reply to each item, NaN where there is none."""
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    usable = [place for place, one in enumerate(chosen) if isinstance(one, References)]
    prepared = metric.prepare([one for one in chosen if isinstance(one, References)])
    places = np.arange(len(usable))
    rows = metric.statistics([replies[place] for place in usable], prepared, places, places)
    parts = np.full((len(items), len(PARTS)), np.nan)
    parts[usable] = rows[:, 2 : 2 + len(PARTS)]
    return parts


def _link(z_true: Floats, z_drawn: Floats) -> list[float]:
    """Return a and b of the logistic regression that tells true replies from drawn ones."""
    values, is_true = np.concatenate([z_true, z_drawn]), np.repeat([1.0, 0.0], [len(z_true), len(z_drawn)])
    fitted = minimize(lambda ab: np.logaddexp(0, -(2 * is_true - 1) * (ab[0] + ab[1] * values)).mean(), [0.0, 1.0])
    return [_rounded(number) for number in fitted.x]


def _case_of(*, gold: bool, retrieved: bool) -> str:
    return "+".join(name for name, there in (("gold", gold), ("retrieved", retrieved)) if there)


def _rounded(number: Any) -> float:
    return round(float(number), 4)
