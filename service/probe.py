"""Replies that nobody should be rewarded for, and what each metric gives them: how a metric can be gamed.

The replies of artificial systems are made from the items' own texts and scored like those of any other system. They
are the same for the same seed, and those to one item do not change with the order of the items (`random` apart).
docs/gaming.md says how to read what comes out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from core.errors import BadInput, Usage
from core.items import BadItem
from core.progress import Progress, Silent
from core.records import Item, Origin
from core.text import Tokenizer, default_tokenizer, get_tokenizer, normalise
from metrics.base import NO_GOLD, Floats, Level, Metric, Problem, References
from metrics.signature import Signature
from service.cases import (
    NO_REPLY,
    Case,
    Scored,
    bound_to,
    data_hash,
    references_for,
    require_references,
    score_cases,
    systems_of,
)

NO_UTTERANCE: Final = Problem("no_utterance", "it has no utterance to repeat")
NO_OTHER_GOLD: Final = Problem("no_other_gold", "no other item has another gold")
_MOST_PADDING: Final = 1_000
_GENERIC: Final = {"ja": "わかりません。"}  # for all other languages, English
_SHUFFLES: Final = 20  # tries to find another order; a text of one word has none


class Probe(StrEnum):
    """The artificial systems."""

    GOLD = "gold"
    PARROT = "parrot"
    GENERIC = "generic"
    SHUFFLED = "shuffled"
    PADDED = "padded"
    REPEATED = "repeated"
    SHORT = "short"
    EMPTY = "empty"
    RANDOM = "random"


PROBES: Final[Mapping[Probe, str]] = {
    Probe.GOLD: "the gold, copied",
    Probe.PARROT: "the utterance",
    Probe.GENERIC: "one and the same reply to everything",
    Probe.SHUFFLED: "the base reply with its words in another order",
    Probe.PADDED: "the base reply and, after it, words that are frequent in the references of other items",
    Probe.REPEATED: "the base reply twice",
    Probe.SHORT: "the first two words of the base reply",
    Probe.EMPTY: "nothing",
    Probe.RANDOM: "the gold of another item",
}


class RowKind(StrEnum):
    """Whose replies a row is about."""

    PROBE = "probe"
    SYSTEM = "system"  # of the file: what the probes compete with


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """How the artificial replies are made, and what they are scored against."""

    base: str | None = None  # the system whose replies are tampered with; None: the gold
    seed: int = 1
    generic: str | None = None  # None: "I don't know." or the same in the language
    padding: int = 5
    without_gold: bool = False  # take the gold out of the references before anything is scored
    language: str | None = None  # decides what a word is, and the generic reply

    def __post_init__(self) -> None:
        if not 1 <= self.padding <= _MOST_PADDING:
            raise Usage(f"{self.padding} words of padding", remedy=f"1 to {_MOST_PADDING:,}")

    @property
    def generic_reply(self) -> str:
        """The one that was given, or ours."""
        language = (self.language or "en").replace("_", "-").split("-")[0].lower()
        return self.generic if self.generic is not None else _GENERIC.get(language, "I don't know.")


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """What a metric gives to one row; differences to the base are over the items for which both have a score."""

    kind: RowKind
    name: str
    is_base: bool
    corpus: float | None
    mean: float | None
    corpus_difference: float | None
    mean_difference: float | None
    rank: int | None  # by the difference of corpus scores, 1 the best; equal ones share a rank
    scored: int
    unscored: Mapping[str, int]  # how many have no score, by problem
    in_references: int  # replies that are, normalised, one of the references they were scored against

    def as_json(self) -> dict[str, Any]:
        """One row."""
        return {
            "kind": self.kind.value,
            "name": self.name,
            "base": self.is_base,
            "corpus": self.corpus,
            "mean": self.mean,
            "corpus_difference": self.corpus_difference,
            "mean_difference": self.mean_difference,
            "rank": self.rank,
            "scored": self.scored,
            "unscored": sum(self.unscored.values()),
            "unscored_by_reason": dict(self.unscored),
            "in_references": self.in_references,
        }


@dataclass(frozen=True, kw_only=True)
class MetricProbes:
    """All rows under one metric."""

    metric: Metric
    signature: Signature
    rows: tuple[ProbeScore, ...]

    def as_json(self) -> dict[str, Any]:
        """With the signature that every score needs."""
        return {
            "metric": self.metric.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "higher_is_better": self.metric.info.higher_is_better,
            "rows": [row.as_json() for row in self.rows],
        }


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """What came of probing a test file."""

    settings: ProbeSettings
    metrics: tuple[MetricProbes, ...]
    data: str
    items: int
    bad_items: tuple[BadItem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """One document."""
        kind = RowKind.PROBE if self.settings.base is None else RowKind.SYSTEM
        return {
            "base": {"kind": kind.value, "name": self.settings.base or Probe.GOLD.value},
            "seed": self.settings.seed,
            "generic": self.settings.generic_reply,
            "padding": self.settings.padding,
            "without_gold": self.settings.without_gold,
            "scores": [one.as_json() for one in self.metrics],
            "data": self.data,
            "items": self.items,
            "problems": [
                {"file": bad.file, "line": bad.line, "id": bad.item, "field": bad.field, "message": bad.message}
                for bad in self.bad_items
            ],
        }


def probe(
    items: Sequence[Item],
    metrics: Sequence[Metric],
    settings: ProbeSettings | None = None,
    *,
    bad_items: Sequence[BadItem] = (),
    progress: Progress | None = None,
) -> ProbeReport:
    """Score the artificial systems, and those of the file beside them, under every metric."""
    settings, progress = settings or ProbeSettings(), progress or Silent()
    _require_base(items, settings.base)
    replies: dict[tuple[RowKind, str], list[str | Problem]] = {
        (RowKind.PROBE, kind.value): made for kind, made in make_probes(items, settings).items()
    }
    systems = systems_of(items) if any(item.replies for item in items) else []
    replies |= {(RowKind.SYSTEM, name): [item.replies.get(name, NO_REPLY) for item in items] for name in systems}
    against = _without_golds(items) if settings.without_gold else list(items)
    found = []
    for metric in metrics:
        require_references(against, metric)
        progress.stage(f"probe {metric.name}", len(replies) * len(items), "replies")
        found.append(_metric_probes(against, replies, metric, settings, progress))
    return ProbeReport(
        settings=settings,
        metrics=tuple(found),
        data=data_hash(items),
        items=len(items),
        bad_items=tuple(bad_items),
    )


def _require_base(items: Sequence[Item], base: str | None) -> None:
    """What is tampered with must be there; the other probes can do without some of the items."""
    if base is None and all(item.pair.gold is None for item in items):
        raise BadInput("no item has a gold to tamper with", remedy="name a system of the file: --system NAME")
    if base is not None and base not in (systems := systems_of(items)):
        raise Usage(f"no system is called {base!r}", remedy=f"one of: {', '.join(systems)}")


def _without_golds(items: Sequence[Item]) -> list[Item]:
    found = [_without_gold(item) for item in items]
    if not any(item.pair.references for item in found):
        raise BadInput(
            "without the gold no item has a reference left to score against",
            remedy="leave --without-gold out: it is for items with several references",
        )
    return found


def _without_gold(item: Item) -> Item:
    """The item as if its first gold had never been written, in whatever spelling it stands among the references."""
    gold = item.pair.gold
    if gold is None:
        return item
    same = normalise(gold.text)
    kept = tuple(one for one in item.pair.references if one is not gold and normalise(one.text) != same)
    return replace(item, pair=replace(item.pair, references=kept))


# ── the artificial replies ────────────────────────────────────────────────────────────────────────────────────────


def make_probes(items: Sequence[Item], settings: ProbeSettings) -> dict[Probe, list[str | Problem]]:
    """A reply of each artificial system to each item, or why it has none."""
    tokenizer = get_tokenizer(default_tokenizer(settings.language or ""))
    words = str.split if tokenizer.name == "word" else tokenizer.tokenize
    golds = [NO_GOLD if item.pair.gold is None else item.pair.gold.text for item in items]
    bases = golds if settings.base is None else [item.replies.get(settings.base, NO_REPLY) for item in items]
    padding = Padding.of(items, tokenizer)

    def changed(change: Callable[[int, str], str]) -> list[str | Problem]:
        return [one if isinstance(one, Problem) else change(place, one) for place, one in enumerate(bases)]

    def in_another_order(place: int, text: str) -> str:
        return shuffled(words(text), _chance(settings, Probe.SHUFFLED, items[place].id))

    return {
        Probe.GOLD: golds,
        Probe.PARROT: [NO_UTTERANCE if item.pair.utterance is None else item.pair.utterance for item in items],
        Probe.GENERIC: [settings.generic_reply] * len(items),
        Probe.SHUFFLED: changed(in_another_order),
        Probe.PADDED: changed(lambda place, text: " ".join([text, *padding.words(place, text, settings.padding)])),
        Probe.REPEATED: changed(lambda _, text: f"{text} {text}"),
        Probe.SHORT: changed(lambda _, text: " ".join(words(text)[:2])),
        Probe.EMPTY: [""] * len(items),
        Probe.RANDOM: of_another(golds, _chance(settings, Probe.RANDOM)),
    }


def _chance(settings: ProbeSettings, kind: Probe, item: str = "") -> random.Random:
    """One of its own for each reply: what is drawn for an item does not change with the others."""
    return random.Random(f"{settings.seed}/{kind.value}/{item}")  # noqa: S311  nothing is kept secret


def shuffled(words: Sequence[str], chance: random.Random) -> str:
    """The words in another order, where there is one."""
    order = list(words)
    for _ in range(_SHUFFLES):
        chance.shuffle(order)
        if order != list(words):
            break
    return " ".join(order)


def of_another(golds: Sequence[str | Problem], chance: random.Random) -> list[str | Problem]:
    """The gold of another item to each: the next one in a seeded order that says something else.

    So, but for golds that several items share, every gold is given once, and the random system has the words and
    lengths of the golds themselves.
    """
    order = [place for place, gold in enumerate(golds) if isinstance(gold, str)]
    chance.shuffle(order)
    same = {place: normalise(gold) for place, gold in enumerate(golds) if isinstance(gold, str)}
    ring = [same[place] for place in order]
    steps = _steps_to_another(ring)
    found: list[str | Problem] = [NO_OTHER_GOLD] * len(golds)
    for at, place in enumerate(order):
        if steps[at]:
            found[place] = golds[order[(at + steps[at]) % len(order)]]
    if order:  # an item without a gold can have anyone's
        for place, gold in enumerate(golds):
            if isinstance(gold, Problem):
                found[place] = golds[chance.choice(order)]
    return found


def _steps_to_another(ring: Sequence[str]) -> list[int]:
    """How far ahead the next different text is, from each place of a ring; 0 where all are the same."""
    if len(set(ring)) < 2:
        return [0] * len(ring)
    steps = [0] * len(ring)
    for at in reversed(range(2 * len(ring))):  # twice round, so that what the last ones need is known
        here, following = at % len(ring), (at + 1) % len(ring)
        steps[here] = 1 if ring[here] != ring[following] else steps[following] + 1
    return steps


@dataclass(frozen=True, kw_only=True)
class Padding:
    """The words of the references of all items, the most frequent first, and which of them each item has itself."""

    frequency: Mapping[str, int]  # in the references of how many items
    order: Sequence[str]
    own: Sequence[frozenset[str]]
    tokenizer: Tokenizer

    @classmethod
    def of(cls, items: Sequence[Item], tokenizer: Tokenizer) -> Padding:
        """Count the words of the references that came with the items; marks are no words."""
        texts = [[one.text for one in item.pair.references if one.source is not Origin.PARROT] for item in items]
        own = [
            frozenset(word for tokens in tokenizer.tokenize_batch(of_item) for word in tokens if _is_word(word))
            for of_item in texts
        ]
        frequency = Counter(word for words in own for word in words)
        order = sorted(frequency, key=lambda word: (-frequency[word], word))
        return cls(frequency=frequency, order=order, own=own, tokenizer=tokenizer)

    def words(self, place: int, text: str, number: int) -> list[str]:
        """The words frequent in the references of all items but this one, and not in the text, where they are credited.

        Counting an item out lowers its own words by one and moves no other: the best are among its own and the first
        few of the rest.
        """
        own, there = self.own[place], set(self.tokenizer.tokenize(text))
        elsewhere = {word: self.frequency[word] - 1 for word in own if self.frequency[word] > 1 and word not in there}
        others = (word for word in self.order if word not in own and word not in there)
        elsewhere |= {word: self.frequency[word] for word, _ in zip(others, range(number), strict=False)}
        return sorted(elsewhere, key=lambda word: (-elsewhere[word], word))[:number]


def _is_word(token: str) -> bool:
    return any(one.isalnum() for one in token)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _metric_probes(
    items: Sequence[Item],
    replies: Mapping[tuple[RowKind, str], Sequence[str | Problem]],
    metric: Metric,
    settings: ProbeSettings,
    progress: Progress,
) -> MetricProbes:
    chosen = [references_for(metric, item.pair.references, item.pair.turns) for item in items]
    cases = [
        _case(reply, references) for row in replies.values() for reply, references in zip(row, chosen, strict=True)
    ]
    metric = bound_to(metric, chosen, cases)
    scored = score_cases(metric, cases, progress)
    values, inside = scored.values(metric), list(_in_references(cases, metric))
    spans = {row: slice(n * len(items), (n + 1) * len(items)) for n, row in enumerate(replies)}
    base = (RowKind.SYSTEM, settings.base) if settings.base is not None else (RowKind.PROBE, Probe.GOLD.value)
    found = [
        _row(row, span, spans[base], scored, values, metric, is_base=row == base, in_references=sum(inside[span]))
        for row, span in spans.items()
    ]
    return MetricProbes(
        metric=metric,
        signature=Signature.of(metric, details={"left-out": "gold"} if settings.without_gold else None),
        rows=tuple(_ranked(found, higher_is_better=metric.info.higher_is_better)),
    )


def _case(reply: str | Problem, references: References | Problem) -> Case | Problem:
    if isinstance(reply, Problem):
        return reply
    return references if isinstance(references, Problem) else Case(reply, references)


def _in_references(cases: Sequence[Case | Problem], metric: Metric) -> Iterator[bool]:
    """Whether each reply is one of the references that count for it: then its score says nothing but that."""
    gold_only = metric.settings.get("refs") == "gold"
    texts = dict[int, frozenset[str]]()
    for case in cases:
        if isinstance(case, Problem):
            yield False
            continue
        if id(case.references) not in texts:
            texts[id(case.references)] = frozenset(
                normalise(text)
                for place, (text, weight) in enumerate(zip(case.references.texts, case.references.weights, strict=True))
                if weight > 0 and text.strip() and (not gold_only or place == case.references.gold)
            )
        yield normalise(case.reply) in texts[id(case.references)]


def _row(
    row: tuple[RowKind, str],
    span: slice,
    base: slice,
    scored: Scored,
    values: Floats,
    metric: Metric,
    *,
    is_base: bool,
    in_references: int,
) -> ProbeScore:
    own, other = scored.statistics[span], scored.statistics[base]
    has = ~np.isnan(own).any(axis=1)
    both = has & ~np.isnan(other).any(axis=1)
    problems = Counter(
        scored.problems[number].code for number in range(span.start, span.stop) if number in scored.problems
    )
    return ProbeScore(
        kind=row[0],
        name=row[1],
        is_base=is_base,
        corpus=_corpus(metric, own[has]),
        mean=_mean(values[span][has]),
        corpus_difference=_difference(_corpus(metric, own[both]), _corpus(metric, other[both])),
        mean_difference=_difference(_mean(values[span][both]), _mean(values[base][both])),
        rank=None,
        scored=int(has.sum()),
        unscored=dict(sorted(problems.items())),
        in_references=in_references,
    )


def _corpus(metric: Metric, statistics: Floats) -> float | None:
    return float(metric.values(statistics.sum(axis=0), Level.CORPUS)) if len(statistics) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _difference(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def _ranked(rows: Sequence[ProbeScore], *, higher_is_better: bool) -> Iterator[ProbeScore]:
    """Rank by the difference to the base, so that a row which lacks the hard items is not the better for it."""
    sign = 1 if higher_is_better else -1
    gains = [None if row.corpus_difference is None else sign * round(row.corpus_difference, 12) for row in rows]
    for row, gain in zip(rows, gains, strict=True):
        rank = None if gain is None else 1 + sum(1 for other in gains if other is not None and other > gain)
        yield replace(row, rank=rank)
