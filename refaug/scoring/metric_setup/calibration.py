"""Measure the calibration of refaug-1 for an encoder: what tells true replies of a log from others.

A pair is a dialogue of the log up to some turn, and the reply that stands there. Its own dialogue is no source of
references. Beside its true reply stand four others: the reply of a drawn pair, a frequent reply of the log, a constant
that a search has edited, and a copy of the last turn (whole, its first half, or most of it). Equal logs, indexes and
seeds give equal numbers.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, Pair, Reference
from refaug.core.text.normalisation import normalise, normalised_words
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.indexer.search.index import ReferenceIndex
from refaug.logs.store import StoredLog
from refaug.metrics.base import Floats, Prepared, References
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.recommended import PARTS, MetricCalibration, Recommended, own_calibration
from refaug.metrics.embeddings.reply_guards import WordOrder, excess
from refaug.metrics.models.model_kinds import ModelKind, OpenedEncoder
from refaug.scoring.augmentation import augment
from refaug.scoring.cases import references_for
from refaug.scoring.home.encoders import StoredEncoder, add_calibration
from refaug.scoring.metric_setup.constant_search import frequent_tokens, search_constant
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
_RARE: Final = 0.01  # the share of true replies beyond the limit of a guard
_STEEPEST: Final = 100.0  # of a guard: nothing but what is no true reply may be beyond its limit
_READ: Final = 200_000  # replies of the logs that words and frequent replies are counted in
_FREQUENT: Final = 40  # replies that the log has most often
_EDITED: Final = 8  # constants that are searched
_EDITS: Final = 400
_EDITED_ON: Final = 25  # pairs, others for each constant

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
    replies = (pair.response for log in logs for pair in log.pairs())
    numbers = measure(models, opened, searched, logged, replies, seed, {"logs": searched.logs}, progress)
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
    reply = Item(id=name, turns=tuple(turns), dialogue=pairs[0].dialogue), pairs[at].response
    return (draw if places else 1.0), name, reply


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(
    models: ModelRegistry,
    encoder: OpenedEncoder,
    index: ReferenceIndex,
    pairs: Sequence[LoggedReply],
    log: Iterable[str],
    seed: int,
    made_of: Mapping[str, Any],
    progress: Progress,
) -> bytes:
    """Return the calibration as its file has it; `log` has the replies of the log, of which the first are read."""
    said = list(islice(log, _READ))
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
        word_order=WordOrder.of([normalised_words(reply) for reply in said]),
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
    progress.stage("constants", _EDITED, "constants")
    edited = _edited_constants(metric, with_golds, seed, progress)
    kinds = [
        false,
        *(parts_of(metric, with_golds, _repeated(constants, len(replies))) for constants in (_frequent(said), edited)),
        parts_of(metric, with_golds, [_copy(item.turns[-1], number) for number, item in enumerate(found)]),
    ]
    fitted = _fit(metric, of_drawn["retrieved"], true, kinds)
    if not fitted["link"][1] > 0:
        raise BadInput(
            f"true replies of the log are no more like their turns and references than drawn ones, as {name} sees them",
            remedy="an encoder of the language of the log",
        )
    numbers: dict[str, Any] = {
        "encoder": calibration.encoder,
        "most_like": most_like,
        "drawn": of_drawn,
        **fitted,
        "word_order": calibration.word_order.stored(),
        "made_of": {
            **made_of,
            "index": index.spec,
            "pairs": len(pairs),
            "replies of the log": len(said),
            "edited constants": edited,
            "seed": seed,
            "auc": _auc(metric, true, false),
        },
    }
    return (json.dumps(numbers, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _fit(metric: Recommended, drawn: Sequence[float], true: Floats, others: Sequence[Floats]) -> dict[str, list[float]]:
    """Return the link and the guards that tell true replies from kinds of others, each as likely as the true ones.

    A guard never rewards. Its limit is what all but one true reply in a hundred keep to.
    """
    copied, order = PARTS.index("copied"), PARTS.index("order")
    most = _rounded(np.nanquantile(true[:, copied], 1 - _RARE))
    least = _rounded(np.nanquantile(true[:, order], _RARE))
    mean, deviation = drawn

    def inputs(parts: Floats) -> Floats:
        parts = parts[np.isfinite(parts[:, order])]
        beyond = (excess(parts[:, copied], most), excess(-parts[:, order], -least))
        z = (_goldless_sums(metric, parts) - mean) / deviation
        return np.stack([np.ones(len(parts)), z, *(-of_guard for of_guard in beyond)], axis=1)

    of_true, of_others = inputs(true), [inputs(parts) for parts in others]

    def loss(numbers: Floats) -> float:
        kinds = [np.logaddexp(0, of_kind @ numbers).mean() for of_kind in of_others]
        return float(np.logaddexp(0, -of_true @ numbers).mean() + sum(kinds))

    bounds = [(None, None), (None, None), (0, _STEEPEST), (0, _STEEPEST)]
    numbers = [_rounded(number) for number in minimize(loss, [0.0, 1.0, 1.0, 1.0], bounds=bounds).x]
    return {"link": numbers[:2], "copied": [most, numbers[2]], "order": [least, numbers[3]]}


def _auc(metric: Recommended, true: Floats, drawn: Floats) -> float:
    """Return how often a true reply is above a drawn one, without golds."""
    return _rounded((_goldless_sums(metric, true)[:, None] > _goldless_sums(metric, drawn)[None, :]).mean())


def _goldless_sums(metric: Recommended, parts: Floats) -> Floats:
    return metric.sums(parts, np.zeros(len(parts), np.bool_), np.ones(len(parts), np.bool_))


# ── Replies that say nothing ──────────────────────────────────────────────────────────────────────────────────────────


def _edited_constants(metric: Recommended, items: Sequence[Item], seed: int, progress: Progress) -> list[str]:
    """Search constants that the parts like, each on other items."""
    tokenizer, edited = get_tokenizer(default_tokenizer("")), list[str]()
    vocabulary = frequent_tokens(items, tokenizer)
    for number in range(_EDITED):
        some = items[number * _EDITED_ON : (number + 1) * _EDITED_ON] or items[:_EDITED_ON]
        chosen = [references_for(metric, item.references, item.turns) for item in some]
        mean_of = partial(_mean_sum, metric, metric.prepare([one for one in chosen if isinstance(one, References)]))
        edited.append(search_constant(mean_of, vocabulary, _EDITS, seed + number)[0])
        progress.advance(1)
    return edited


def _mean_sum(metric: Recommended, prepared: Prepared, reply: str) -> float:
    places = np.arange(prepared.items)
    parts = _parts_in(metric.statistics([reply], prepared, np.zeros(len(places), np.int64), places))
    there = np.ones(len(parts), np.bool_)
    return float(np.nan_to_num(metric.sums(parts, there, there)).mean())


def _frequent(said: Sequence[str]) -> list[str]:
    """Return the replies that a log has most often, in their first form."""
    forms, counts = dict[str, str](), Counter[str]()
    for reply in said:
        forms.setdefault(normalise(reply), reply)
        counts[normalise(reply)] += 1
    return [forms[reply] for reply in sorted(counts, key=lambda reply: (-counts[reply], reply))[:_FREQUENT]]


def _repeated(texts: Sequence[str], count: int) -> list[str]:
    """Return so many texts; they begin again when they end."""
    return [texts[number % len(texts)] for number in range(count)]


def _copy(turn: str, number: int) -> str:
    """Return a turn, its first half, or all but every fifth of its words."""
    words = turn.split()
    forms = (words, words[: (len(words) + 1) // 2], [word for at, word in enumerate(words) if at % 5 < 4])
    return " ".join(forms[number % len(forms)])


def parts_of(metric: Recommended, items: Sequence[Item], replies: Sequence[str]) -> Floats:
    """Return the parts (items, parts) of one reply to each item, NaN where there is none."""
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    usable = [place for place, one in enumerate(chosen) if isinstance(one, References)]
    prepared = metric.prepare([one for one in chosen if isinstance(one, References)])
    places = np.arange(len(usable))
    rows = metric.statistics([replies[place] for place in usable], prepared, places, places)
    parts = np.full((len(items), len(PARTS)), np.nan)
    parts[usable] = _parts_in(rows)
    return parts


def _parts_in(rows: Floats) -> Floats:
    """Return the parts of the statistics of rows, which stand behind the score and its count."""
    return rows[:, 2 : 2 + len(PARTS)]


def _case_of(*, gold: bool, retrieved: bool) -> str:
    return "+".join(name for name, there in (("gold", gold), ("retrieved", retrieved)) if there)


def _rounded(number: Any) -> float:
    return round(float(number), 4)
