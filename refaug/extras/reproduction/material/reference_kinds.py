r"""Kinds of further references that metrics are tried on: the retrieved ones, and controls that these have to beat.

Every kind gives each item equally many references, so that a difference between two kinds is not one of number:

    gold       none: the references of the item itself
    parrot     the utterance itself
    random     k replies drawn from the log
    matched    k drawn replies of the same lengths in tokens as the retrieved ones
    shuffled   the retrieved ones, their weights shuffled within the item
    one        the retrieved ones, each of weight 1
    rated      the retrieved ones, each weighted by the rater

Kinds with chance in them are drawn for several seeds. With many references of many lengths a brevity penalty never
strikes, so "random" alone lifts some correlations: a claim for retrieval is tested against "matched", a claim for the
rater against "shuffled".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.agreement.row_scores import length_tokenizer
from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.figures.correlations import Line
from refaug.extras.reproduction.material.rated_sets import TOKENIZER, Mask, ProofSet
from refaug.metrics.base import Floats, Level, Metric, Problem, References
from refaug.scoring.cases import bind_metric, references_for, score_replies
from refaug.scoring.items import BadItem

GOLD, PARROT, RANDOM, MATCHED = "gold", "parrot", "random", "matched"
SHUFFLED, ONE, RATED = "shuffled", "one", "rated"
KINDS: Final = (GOLD, PARROT, RANDOM, MATCHED, SHUFFLED, ONE, RATED)
BY_CHANCE: Final = frozenset((RANDOM, MATCHED, SHUFFLED))

Extras = tuple[tuple[Reference, ...], ...]  # for each item of a set, beside the references of the item


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplySample:
    """Replies drawn from the logs, with their lengths: controls are drawn from them."""

    texts: tuple[str, ...]
    by_length: Mapping[int, NDArray[np.int64]]  # tokens → places in texts
    tokenizer: str = TOKENIZER  # counts these tokens

    @classmethod
    def of(cls, texts: Sequence[str]) -> ReplySample:
        """Count the tokens of the texts."""
        tokenizer = length_tokenizer(texts)
        lengths = np.array(
            [len(tokens) for tokens in get_tokenizer(tokenizer).tokenize_batch(list(texts))], dtype=np.int64
        )
        occurring_lengths = np.unique(lengths[lengths > 0])
        if not len(occurring_lengths):
            raise BadInput("the log has no reply with a word in it, so there is nothing to draw controls from")
        by_length = {int(length): np.flatnonzero(lengths == length) for length in occurring_lengths}
        return cls(texts=tuple(texts), by_length=by_length, tokenizer=tokenizer)

    def draw(self, count: int, random: np.random.Generator) -> list[str]:
        """Draw that many replies of any length."""
        return [self.texts[place] for place in random.integers(0, len(self.texts), count)]

    def draw_as_long_as(self, lengths: Sequence[int], random: np.random.Generator) -> list[str]:
        """Draw a reply for each length: of that very length, or of the nearest length in the sample."""
        return [self.texts[random.choice(self.by_length[self._nearest(length)])] for length in lengths]

    def _nearest(self, length: int) -> int:
        if length in self.by_length:
            return length
        return min(self.by_length, key=lambda other: (abs(other - length), other))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    """What an index and a rater have for the items of a set: the parrots, and the retrieved references in order."""

    parrots: tuple[Reference | None, ...]
    retrieved: tuple[tuple[Reference, ...], ...]
    lengths: tuple[tuple[int, ...], ...]  # in tokens, of the retrieved ones
    sample: ReplySample

    @classmethod
    def of(cls, items: Sequence[Item | BadItem], sample: ReplySample) -> Pool:
        """Sort the references of augmented items."""
        test_items = [test_item for test_item in items if isinstance(test_item, Item)]
        retrieved = tuple(
            tuple(reference for reference in test_item.references if reference.source is Origin.RETRIEVED)
            for test_item in test_items
        )
        tokenizer = get_tokenizer(
            sample.tokenizer
        )  # one tokenizer for both, so that lengths of drawn and retrieved replies compare
        return cls(
            parrots=tuple(
                next((reference for reference in test_item.references if reference.source is Origin.PARROT), None)
                for test_item in test_items
            ),
            retrieved=retrieved,
            lengths=tuple(
                tuple(len(words) for words in tokenizer.tokenize_batch([reference.text for reference in references]))
                for references in retrieved
            ),
            sample=sample,
        )

    def extras(self, kind: str, *, k: int = 15, parrot: bool = True, seed: int = 0) -> Extras:
        """Return the references of a kind, item by item; equally many of each item for all kinds but the first two."""
        return tuple(
            self._of_item(item_number, kind, k, parrot, np.random.default_rng([seed, item_number]))
            for item_number in range(len(self.retrieved))
        )

    def _of_item(
        self, item_number: int, kind: str, k: int, parrot: bool, random: np.random.Generator
    ) -> tuple[Reference, ...]:
        retrieved = self.retrieved[item_number][:k]
        parrot_reference = self.parrots[item_number] if parrot or kind == PARROT else None
        if parrot_reference is not None and kind in (PARROT, RANDOM, MATCHED, ONE):
            parrot_reference = replace(parrot_reference, weight=1.0)
        first = () if parrot_reference is None or kind == GOLD else (parrot_reference,)
        if kind in (GOLD, PARROT):
            return first
        if kind == RANDOM:
            return (*first, *map(_with_weight_one, self.sample.draw(len(retrieved), random)))
        if kind == MATCHED:
            return (*first, *map(_with_weight_one, self.sample.draw_as_long_as(self.lengths[item_number][:k], random)))
        if kind == ONE:
            return (*first, *(replace(reference, weight=1.0) for reference in retrieved))
        if kind == SHUFFLED:
            dealt = random.permutation(len(retrieved))
            return (
                *first,
                *(
                    replace(reference, weight=retrieved[at].weight)
                    for reference, at in zip(retrieved, dealt, strict=True)
                ),
            )
        return (*first, *retrieved)


def _with_weight_one(text: str) -> Reference:
    return Reference(text=text, source=Origin.RETRIEVED, weight=1.0)


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def scores_of(rated_set: ProofSet, metric: Metric, extras: Extras | None = None) -> Floats:
    """Return the score of every row of a set, with its sign turned so that more is better; NaN where there is none."""
    chosen = list[References | Problem]()
    reference_cache = dict[tuple[int, frozenset[int]], References | Problem]()
    for row, item_number in enumerate(rated_set.item.tolist()):
        dropped = _places_of_reply(rated_set.replies[row], () if extras is None else extras[item_number])
        if (item_number, dropped) not in reference_cache:
            reference_cache[item_number, dropped] = _references(rated_set, item_number, metric, extras, dropped)
        chosen.append(reference_cache[item_number, dropped])
    all_references = [
        _references(rated_set, item_number, metric, extras, frozenset()) for item_number in range(len(rated_set.items))
    ]
    bound = bind_metric(metric, all_references, rated_set.replies, chosen)
    values = bound.values(score_replies(bound, rated_set.replies, chosen)[0], Level.REPLY)
    return values if metric.info.higher_is_better else -values


def _references(
    rated_set: ProofSet, item_number: int, metric: Metric, extras: Extras | None, dropped: frozenset[int]
) -> References | Problem:
    test_item = rated_set.items[item_number]
    further = () if extras is None else extras[item_number]
    counted = tuple(reference for at, reference in enumerate(further) if at not in dropped)
    return references_for(metric, (*test_item.references, *counted), test_item.turns)


def _places_of_reply(reply: str, further: Sequence[Reference]) -> frozenset[int]:
    """Return the places of the further references that are the reply itself, normalised."""
    text = normalise(reply)
    return frozenset(at for at, reference in enumerate(further) if normalise(reference.text) == text)


def line_of(
    name: str,
    sets: Sequence[ProofSet],
    metric: Metric,
    extras: Callable[[ProofSet, int], Extras | None] = lambda _rated_set, _seed: None,
    *,
    seeds: int = 1,
    about: str = "",
    progress: Progress | None = None,
) -> Line:
    """Score all sets for that many seeds; `extras` gives the further references of a set and a seed."""
    scores = dict[str, Floats]()
    for rated_set in sets:
        scores_by_seed = list[Floats]()
        for seed in range(seeds):
            scores_by_seed.append(scores_of(rated_set, metric, extras(rated_set, seed)))
            if progress is not None:
                progress.advance(1)
        scores[rated_set.name] = np.stack(scores_by_seed)
    return Line(name=name, scores=scores, about=about)


# ── The systems of a rated set that answer with turns of the log ──────────────────────────────────────────────────────

FROM_THE_LOG: Final = 2 / 3  # of a system's replies: from this share on it counts as answering with turns of the log


def systems_of_the_log(rated_set: ProofSet, in_logs: Mask) -> tuple[str, ...]:
    """Return the systems whose replies are mostly turns of the log word for word."""
    systems = np.array(rated_set.systems)
    return tuple(
        system
        for system in dict.fromkeys(np.array(rated_set.systems)[rated_set.fair].tolist())
        if in_logs[(systems == system) & rated_set.fair].mean() >= FROM_THE_LOG
    )


def without_systems(rated_set: ProofSet, systems: Sequence[str]) -> ProofSet:
    """Return the set without these systems, neither as replies nor as references."""
    return rated_set.restricted_to(rated_set.rows_where(lambda row: rated_set.systems[row] not in systems))


def share_in_the_log(rated_set: ProofSet, system: str, in_logs: Mapping[str, Mask]) -> float:
    """Return the share of a system's replies that are turns of the log."""
    of_system = rated_set.rows_where(lambda row: rated_set.systems[row] == system) & rated_set.fair
    return float(in_logs[rated_set.name][of_system].mean())
