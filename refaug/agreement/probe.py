"""Measure how a metric can be gamed: score artificial replies that deserve no reward.

The artificial replies are made from the items' texts and scored like those of any system. They are the same for the
same seed, and those to one item do not depend on the order of the items (except `random`). docs/gaming.md tells how to
read the results.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final

import numpy as np

from refaug.agreement.exploits import FoundConstant, exploits_of, make_exploits
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.metrics.base import NO_GOLD, Floats, Level, Metric, Problem, References
from refaug.metrics.signature import Signature
from refaug.scoring.cases import (
    NO_REPLY,
    Reply,
    bind_metric,
    references_for,
    require_references,
    score_replies,
    systems_of,
)
from refaug.scoring.evaluate import signature_of
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import Provenance
from refaug.scoring.scores import problems_json
from refaug.scoring.spooled_items.item_collection import data_hash

NO_UTTERANCE: Final = Problem("no_utterance", "it has no utterance to repeat")
NO_OTHER_GOLD: Final = Problem("no_other_gold", "no other item has another gold")
_MOST_PADDING: Final = 1_000
_MOST_STEPS: Final = 1_000_000
_GENERIC: Final = {"ja": "わかりません。"}  # English for all other languages
_SHUFFLES: Final = 20  # attempts to find another order; a text of one word has none


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


class ReplySource(StrEnum):
    """The origin of the replies of a row."""

    PROBE = "probe"
    EXPLOIT = "exploit"  # looked for by machine
    SYSTEM = "system"  # a system of the file, which the probes compete with


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """How the artificial replies are made, and what they are scored against."""

    base: str | None = None  # the system whose replies are altered; None: the gold
    seed: int = 1
    generic: str | None = None  # None: "I don't know." or the same in the language
    padding: int = 5
    without_gold: bool = False  # remove the gold from the references before scoring
    language: str | None = None  # determines the words and the generic reply
    search_steps: int = 0  # of the search for a constant that pays; 0: no exploits are looked for

    def __post_init__(self) -> None:
        if not 0 <= self.search_steps <= _MOST_STEPS:
            raise Usage(f"{self.search_steps} steps", remedy=f"0 for no search, else up to {_MOST_STEPS:,}")
        if not 1 <= self.padding <= _MOST_PADDING:
            raise Usage(f"{self.padding} words of padding", remedy=f"1 to {_MOST_PADDING:,}")

    @property
    def generic_reply(self) -> str:
        """The configured generic reply, or the default of the language."""
        language = (self.language or "en").replace("_", "-").split("-")[0].lower()
        return self.generic if self.generic is not None else _GENERIC.get(language, "I don't know.")


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """The scores of one row; differences to the base are over the items for which both have a score."""

    kind: ReplySource
    name: str
    is_base: bool
    corpus: float | None
    mean: float | None
    corpus_difference: float | None
    mean_difference: float | None
    mean_share: float | None  # of the base's mean; None where that is not above 0
    beats: float | None  # the share of items on which it is better than the base; equal scores count half
    rank: int | None  # by the difference of corpus scores, 1 the best; equal differences share a rank
    scored: int
    unscored: Mapping[str, int]  # the number of replies without a score, by problem
    in_references: int  # replies that equal, normalised, one of the references that they are scored against

    def as_json(self) -> dict[str, object]:
        """Return the row as JSON."""
        return {
            "kind": self.kind.value,
            "name": self.name,
            "base": self.is_base,
            "corpus": self.corpus,
            "mean": self.mean,
            "corpus_difference": self.corpus_difference,
            "mean_difference": self.mean_difference,
            "mean_share": self.mean_share,
            "beats": self.beats,
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
    searched: FoundConstant | None = None

    def as_json(self) -> dict[str, object]:
        """Return the rows with the signature of the metric."""
        searched = {} if self.searched is None else {"searched": asdict(self.searched)}
        return {
            "metric": self.metric.name,
            "signature": self.signature.short,
            "signature_full": self.signature.full,
            "higher_is_better": self.metric.info.higher_is_better,
            **searched,
            "rows": [row.as_json() for row in self.rows],
        }


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """The result of probing a test file."""

    settings: ProbeSettings
    metrics: tuple[MetricProbes, ...]
    data: str
    items: int
    bad_items: tuple[BadItem, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the report as one document."""
        kind = ReplySource.PROBE if self.settings.base is None else ReplySource.SYSTEM
        return {
            "base": {"kind": kind.value, "name": self.settings.base or Probe.GOLD.value},
            "seed": self.settings.seed,
            "generic": self.settings.generic_reply,
            "padding": self.settings.padding,
            "without_gold": self.settings.without_gold,
            "scores": [metric.as_json() for metric in self.metrics],
            "data": self.data,
            "items": self.items,
            "problems": problems_json(self.bad_items),
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
    replies: dict[tuple[ReplySource, str], list[str | Problem]] = {
        (ReplySource.PROBE, kind.value): probe_replies for kind, probe_replies in make_probes(items, settings).items()
    }
    tokenizer = _tokenizer(settings)
    if settings.search_steps:
        exploits = make_exploits(items, tokenizer)
        replies |= {(ReplySource.EXPLOIT, name): exploit_replies for name, exploit_replies in exploits.items()}
    systems = systems_of(items) if any(item.replies for item in items) else []
    replies |= {(ReplySource.SYSTEM, name): [item.replies.get(name, NO_REPLY) for item in items] for name in systems}
    scored_items = _without_golds(items) if settings.without_gold else list(items)
    reports = []
    for metric in metrics:
        require_references(scored_items, metric)
        progress.stage(f"probe {metric.name}", len(replies) * len(items), "replies")
        reports.append(_metric_probes(scored_items, replies, metric, settings, progress))
    return ProbeReport(
        settings=settings,
        metrics=tuple(reports),
        data=data_hash(items),
        items=len(items),
        bad_items=tuple(bad_items),
    )


def _require_base(items: Sequence[Item], base: str | None) -> None:
    """Refuse a missing base, whose replies are altered; the other probes need not have a reply to every item."""
    if base is None and all(item.gold is None for item in items):
        raise BadInput("no item has a gold to tamper with", remedy="name a system of the file: --system NAME")
    if base is not None and base not in (systems := systems_of(items)):
        raise Usage(f"no system is called {base!r}", remedy=f"one of: {', '.join(systems)}")


def _without_golds(items: Sequence[Item]) -> list[Item]:
    remaining = [_without_gold(item) for item in items]
    if not any(item.references for item in remaining):
        raise BadInput(
            "without the gold no item has a reference left to score against",
            remedy="leave --without-gold out: it is for items with several references",
        )
    return remaining


def _without_gold(test_item: Item) -> Item:
    """Return the item without its first gold and without references that equal it, normalised."""
    gold = test_item.gold
    if gold is None:
        return test_item
    same = normalise(gold.text)
    different = tuple(
        reference for reference in test_item.references if reference is not gold and normalise(reference.text) != same
    )
    return replace(test_item, references=different)


# ── The artificial replies ────────────────────────────────────────────────────────────────────────────────────────


def make_probes(items: Sequence[Item], settings: ProbeSettings) -> dict[Probe, list[str | Problem]]:
    """Return a reply of each artificial system to each item, or the reason why it has none."""
    tokenizer = _tokenizer(settings)
    words = str.split if tokenizer.name == "word" else tokenizer.tokenize
    golds = [NO_GOLD if item.gold is None else item.gold.text for item in items]
    bases = golds if settings.base is None else [item.replies.get(settings.base, NO_REPLY) for item in items]
    padding = Padding.of(items, tokenizer)

    def alter(change: Callable[[int, str], str]) -> list[str | Problem]:
        return [base if isinstance(base, Problem) else change(place, base) for place, base in enumerate(bases)]

    def reorder(place: int, text: str) -> str:
        return shuffle_words(words(text), _random(settings, Probe.SHUFFLED, items[place].id))

    return {
        Probe.GOLD: golds,
        Probe.PARROT: [NO_UTTERANCE if item.utterance is None else item.utterance for item in items],
        Probe.GENERIC: [settings.generic_reply] * len(items),
        Probe.SHUFFLED: alter(reorder),
        Probe.PADDED: alter(lambda place, text: " ".join([text, *padding.words(place, text, settings.padding)])),
        Probe.REPEATED: alter(lambda _, text: f"{text} {text}"),
        Probe.SHORT: alter(lambda _, text: " ".join(words(text)[:2])),
        Probe.EMPTY: [""] * len(items),
        Probe.RANDOM: other_golds(golds, _random(settings, Probe.RANDOM)),
    }


def _tokenizer(settings: ProbeSettings) -> Tokenizer:
    return get_tokenizer(default_tokenizer(settings.language or ""))


def _random(settings: ProbeSettings, kind: Probe, item_id: str = "") -> random.Random:
    """Return a separate generator for each reply, so that what is drawn for an item does not depend on others."""
    return random.Random(f"{settings.seed}/{kind.value}/{item_id}")  # noqa: S311  nothing is secret


def shuffle_words(words: Sequence[str], generator: random.Random) -> str:
    """Return the words in another order, where there is one."""
    order = list(words)
    for _ in range(_SHUFFLES):
        generator.shuffle(order)
        if order != list(words):
            break
    return " ".join(order)


def other_golds(golds: Sequence[str | Problem], generator: random.Random) -> list[str | Problem]:
    """Return for each item the gold of another item: the next different one in a seeded order.

    So every gold occurs once, except golds that several items share, and the random system has the words and lengths
    of the golds.
    """
    order = [place for place, gold in enumerate(golds) if isinstance(gold, str)]
    generator.shuffle(order)
    same = {place: normalise(gold) for place, gold in enumerate(golds) if isinstance(gold, str)}
    ring = [same[place] for place in order]
    steps = _steps_to_another(ring)
    replies: list[str | Problem] = [NO_OTHER_GOLD] * len(golds)
    for at, place in enumerate(order):
        if steps[at]:
            replies[place] = golds[order[(at + steps[at]) % len(order)]]
    if order:  # an item without a gold can have the gold of any other
        for place, gold in enumerate(golds):
            if isinstance(gold, Problem):
                replies[place] = golds[generator.choice(order)]
    return replies


def _steps_to_another(ring: Sequence[str]) -> list[int]:
    """Return from each place of a ring how far ahead the next different text is; 0 where all texts are the same."""
    if len(set(ring)) < 2:
        return [0] * len(ring)
    steps = [0] * len(ring)
    for at in reversed(range(2 * len(ring))):  # twice round, since the last places look beyond the end
        here, following = at % len(ring), (at + 1) % len(ring)
        steps[here] = 1 if ring[here] != ring[following] else steps[following] + 1
    return steps


@dataclass(frozen=True, kw_only=True)
class Padding:
    """The words of the references of all items, the most frequent first, and the words of each item."""

    frequency: Mapping[str, int]  # the number of items with the word in their references
    order: Sequence[str]
    own: Sequence[frozenset[str]]
    tokenizer: Tokenizer

    @classmethod
    def of(cls, items: Sequence[Item], tokenizer: Tokenizer) -> Padding:
        """Count the words of the references that came with the items; punctuation marks are no words."""
        texts = [
            [reference.text for reference in test_item.references if reference.source is not Origin.PARROT]
            for test_item in items
        ]
        own = [
            frozenset(word for tokens in tokenizer.tokenize_batch(of_item) for word in tokens if _is_word(word))
            for of_item in texts
        ]
        frequency = Counter(word for words in own for word in words)
        order = sorted(frequency, key=lambda word: (-frequency[word], word))
        return cls(frequency=frequency, order=order, own=own, tokenizer=tokenizer)

    def words(self, place: int, text: str, number: int) -> list[str]:
        """Return the most frequent words of the references of other items that the text does not contain.

        Without this item the counts of its words drop by one and no other count changes: so the best words are among
        its words and the first few of the rest.
        """
        own, text_words = self.own[place], set(self.tokenizer.tokenize(text))
        shared = (word for word in own if self.frequency[word] > 1 and word not in text_words)
        elsewhere = {word: self.frequency[word] - 1 for word in shared}
        remaining = (word for word in self.order if word not in own and word not in text_words)
        elsewhere |= {word: self.frequency[word] for word, _ in zip(remaining, range(number), strict=False)}
        return sorted(elsewhere, key=lambda word: (-elsewhere[word], word))[:number]


def _is_word(token: str) -> bool:
    return any(character.isalnum() for character in token)


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _metric_probes(
    items: Sequence[Item],
    replies: Mapping[tuple[ReplySource, str], Sequence[str | Problem]],
    metric: Metric,
    settings: ProbeSettings,
    progress: Progress,
) -> MetricProbes:
    searched: FoundConstant | None = None
    if settings.search_steps:
        exploits, searched = exploits_of(
            metric, items, _tokenizer(settings), steps=settings.search_steps, seed=settings.seed
        )
        replies = {**replies, **{(ReplySource.EXPLOIT, name): listed for name, listed in exploits.items()}}
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    every, references = list(chain.from_iterable(replies.values())), chosen * len(replies)
    metric = bind_metric(metric, chosen, every, references)
    statistics, problems = score_replies(metric, every, references, progress)
    inside = list(_is_in_references(every, references, metric))
    spans = {row: slice(n * len(items), (n + 1) * len(items)) for n, row in enumerate(replies)}
    base = (ReplySource.SYSTEM, settings.base) if settings.base is not None else (ReplySource.PROBE, Probe.GOLD.value)
    rows = [
        _row(row, span, spans[base], statistics, problems, metric, is_base=row == base, in_references=sum(inside[span]))
        for row, span in spans.items()
    ]
    signature = signature_of(metric, Provenance.of_items(items))
    left_out = {"left-out": "gold"} if settings.without_gold else {}
    return MetricProbes(
        metric=metric,
        signature=replace(signature, details={**signature.details, **left_out}),
        rows=tuple(_rank(rows, higher_is_better=metric.info.higher_is_better)),
        searched=searched,
    )


def _is_in_references(
    replies: Sequence[Reply], references: Sequence[References | Problem], metric: Metric
) -> Iterator[bool]:
    """Tell of each reply whether it equals a reference that counts for it; then its score tells only that."""
    gold_only = metric.settings.get("refs") == "gold"
    texts = dict[int, frozenset[str]]()
    for reply, chosen in zip(replies, references, strict=True):
        if not isinstance(reply, str) or isinstance(chosen, Problem):
            yield False
            continue
        if id(chosen) not in texts:
            texts[id(chosen)] = frozenset(
                normalise(text)
                for place, (text, weight) in enumerate(zip(chosen.texts, chosen.weights, strict=True))
                if weight > 0 and text.strip() and (not gold_only or place == chosen.gold)
            )
        yield normalise(reply) in texts[id(chosen)]


def _row(
    row: tuple[ReplySource, str],
    span: slice,
    base: slice,
    statistics: Floats,
    problems: Mapping[int, Problem],
    metric: Metric,
    *,
    is_base: bool,
    in_references: int,
) -> ProbeScore:
    own, other = statistics[span], statistics[base]
    values = metric.values(own, Level.REPLY)
    has_score = ~np.isnan(own).any(axis=1)
    both = has_score & ~np.isnan(other).any(axis=1)
    theirs = metric.values(other, Level.REPLY)
    codes = Counter(problems[number].code for number in range(span.start, span.stop) if number in problems)
    return ProbeScore(
        kind=row[0],
        name=row[1],
        is_base=is_base,
        corpus=_corpus(metric, own[has_score]),
        mean=_mean(values[has_score]),
        corpus_difference=_difference(_corpus(metric, own[both]), _corpus(metric, other[both])),
        mean_difference=_difference(_mean(values[both]), _mean(theirs[both])),
        mean_share=_share(_mean(values[both]), _mean(theirs[both])),
        beats=_beats(values[both], theirs[both], higher_is_better=metric.info.higher_is_better),
        rank=None,
        scored=int(has_score.sum()),
        unscored=dict(sorted(codes.items())),
        in_references=in_references,
    )


def _corpus(metric: Metric, statistics: Floats) -> float | None:
    return float(metric.values(statistics.sum(axis=0), Level.CORPUS)) if len(statistics) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _difference(score: float | None, base_score: float | None) -> float | None:
    return None if score is None or base_score is None else score - base_score


def _share(score: float | None, base_score: float | None) -> float | None:
    return None if score is None or base_score is None or base_score <= 0 else score / base_score


def _beats(values: Floats, others: Floats, *, higher_is_better: bool) -> float | None:
    """Return how often a value is better than the other beside it; a tie, up to rounding, counts half."""
    gains = np.round(values - others, 12) * (1 if higher_is_better else -1)
    return float(((np.sign(gains) + 1) / 2).mean()) if len(gains) else None


def _rank(rows: Sequence[ProbeScore], *, higher_is_better: bool) -> Iterator[ProbeScore]:
    """Rank rows by the difference to the base, so that a row without scores for the hard items gains nothing."""
    sign = 1 if higher_is_better else -1
    gains = [None if row.corpus_difference is None else sign * round(row.corpus_difference, 12) for row in rows]
    for row, gain in zip(rows, gains, strict=True):
        rank = None if gain is None else 1 + sum(1 for other in gains if other is not None and other > gain)
        yield replace(row, rank=rank)
