"""What `reproduce recommended` is made of: rated replies with the parts of refaug-1, their agreement, and attacks.

A row that rates the first gold is left out, and so is, for one row, a gold that equals its reply. So one context may
be several items, with different golds. The contexts of each set are
drawn by themselves, also where sets of a group share some.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from scipy.stats import rankdata

from refaug.agreement.exploits import SEARCH_ITEMS
from refaug.core.files import sha256_of
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import Floats, Indexes, References
from refaug.metrics.embeddings.recommended import PARTS, PreparedItems, Recommended
from refaug.metrics.statistics.resampling import percentile_interval
from refaug.scoring.cases import references_for
from refaug.scoring.metric_setup.constant_search import frequent_tokens, search_constant

GROUPS: Final[Mapping[str, Sequence[str]]] = {  # the corpus of the contexts → sets by their names in human/
    "DailyDialog": (
        "dailydialog_gupta",
        "dailydialog_zhao",
        "grade_dailydialog",
        "holistic_dailydialog",
        "predictive_engagement_dd",
    ),
    "EmpatheticDialogues": ("grade_empatheticdialogues",),
    "PersonaChat": ("personachat_zhao",),
    "Topical-Chat": ("usr_topicalchat",),
}
GOLDLESS: Final = {"FED": ("fed_turn",), "ConTurE": ("conture",)}  # sets that never had golds
GROUPS_WITHOUT_GOLD: Final[Mapping[str, Sequence[str]]] = {
    "DailyDialog": GROUPS["DailyDialog"],
    "EmpatheticDialogues": GROUPS["EmpatheticDialogues"],
    **GOLDLESS,
}
SETS: Final = tuple(
    sorted({name for groups in (GROUPS, GROUPS_WITHOUT_GOLD) for names in groups.values() for name in names})
)
DRAWN_SYSTEM: Final = "negative-sample"  # of PersonaChat: replies that were drawn
_GOLDLESS_SETS: Final = frozenset(name for names in GOLDLESS.values() for name in names)
_DIGITS: Final = 12  # of hashes


@dataclass(frozen=True, kw_only=True, eq=False)
class FairRows:
    """The rows of a set, and the parts of refaug-1 of each: form of references → (seeds, rows, parts)."""

    name: str
    data: str  # the beginning of the file's hash
    items: tuple[Item, ...]
    item: Indexes  # (rows,)
    contexts: tuple[str, ...]
    systems: tuple[str, ...]
    replies: tuple[str, ...]
    people: Floats  # the mean rating of each reply
    parts: Mapping[str, Floats]
    notes: tuple[str, ...] = ()

    @property
    def lengths(self) -> Floats:
        """Return the words of each reply."""
        return np.array([float(len(reply.split())) for reply in self.replies])

    def without_system(self, system: str) -> FairRows:
        """Return the set without the rows of one system."""
        places = np.flatnonzero(np.array(self.systems) != system)
        rows = places.tolist()
        return replace(
            self,
            item=self.item[places],
            contexts=tuple(self.contexts[row] for row in rows),
            systems=tuple(self.systems[row] for row in rows),
            replies=tuple(self.replies[row] for row in rows),
            people=self.people[places],
            parts={form: parts[:, places] for form, parts in self.parts.items()},
        )


def read_set(folder: Path, name: str) -> FairRows:
    """Read the rows of a set from `human/` in a data folder."""
    path = folder / "human" / f"{name}.jsonl.gz"
    number_of, items, rows, numbers = dict[tuple[str, ...], int](), list[Item](), list[Mapping[str, Any]](), list[int]()
    with gzip.open(path, "rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            golds = _other_golds(row)
            if row.get("score") is None or _rates_first_gold(row) or not (golds or name in _GOLDLESS_SETS):
                continue
            key = (str(row["context_id"]), *row["context"], "", *golds)
            if key not in number_of:
                number_of[key] = len(items)
                references = tuple(Reference(text=gold, source=Origin.GOLD) for gold in golds)
                items.append(Item(id=f"i{len(items)}", turns=tuple(row["context"]), references=references))
            rows.append(row)
            numbers.append(number_of[key])
    return FairRows(
        name=name,
        data=sha256_of(path)[:_DIGITS],
        items=tuple(items),
        item=np.array(numbers, dtype=np.int64),
        contexts=tuple(str(row["context_id"]) for row in rows),
        systems=tuple(str(row.get("system")) for row in rows),
        replies=tuple(row["response"] for row in rows),
        people=np.array([float(row["score"]) for row in rows]),
        parts={},
    )


def _rates_first_gold(row: Mapping[str, Any]) -> bool:
    return 0 in (row.get("response_in_references") or [])


def _other_golds(row: Mapping[str, Any]) -> list[str]:
    """Return the golds of a row that are no copy of its reply."""
    copies, reply = row.get("response_in_references") or [], normalise(row["response"])
    return [
        gold
        for place, gold in enumerate(row.get("references") or [])
        if place not in copies and gold.strip() and normalise(gold) != reply
    ]


RETRIEVED, OF_ANOTHER_CONTEXT, DRAWN = "retrieved", "retrieved of another context", "drawn with as many words"
_DRAWN: Final = 20_000  # texts of the log that controls are drawn from
_FIRST_PART: Final = 2  # of a metric's statistics: its total and the number of replies stand before the parts


def with_parts(
    rated: FairRows, metric: Recommended, texts_of_length: Mapping[int, Sequence[str]], seeds: Sequence[Sequence[int]]
) -> FairRows:
    """Return a set whose items have their references, with the parts of every row under each form of references.

    Controls are drawn once for each seed: a single draw may be a lucky one.
    """
    forms: dict[str, list[Sequence[Item]]] = {RETRIEVED: [rated.items], OF_ANOTHER_CONTEXT: [], DRAWN: []}
    for seed in seeds:
        random = np.random.default_rng(seed)
        forms[OF_ANOTHER_CONTEXT].append(other_contexts(rated.items, random))
        forms[DRAWN].append(drawn_references(rated.items, texts_of_length, random))
    numbers = rated.item.tolist()
    parts = {
        form: np.stack([parts_of(metric, items, rated.replies, numbers) for items in by_seed])
        for form, by_seed in forms.items()
    }
    return replace(rated, parts=parts)


def parts_of(metric: Recommended, items: Sequence[Item], replies: Sequence[str], numbers: Sequence[int]) -> Floats:
    """Return the parts (replies, parts) of each reply to the item of its number; 0 where there is none."""
    return parts_in(metric, prepared_items(metric, items), replies, numbers)


def prepared_items(metric: Recommended, items: Sequence[Item]) -> PreparedItems:
    """Prepare the references of items once for many replies."""
    chosen = [references_for(metric, test_item.references, test_item.turns) for test_item in items]
    return metric.prepare([one if isinstance(one, References) else References((), ()) for one in chosen])


def parts_in(metric: Recommended, prepared: PreparedItems, replies: Sequence[str], numbers: Sequence[int]) -> Floats:
    """Return the parts (replies, parts) of each reply to the prepared item of its number."""
    rows = metric.statistics(
        replies, prepared, np.arange(len(replies), dtype=np.int64), np.array(numbers, dtype=np.int64)
    )
    return np.asarray(np.nan_to_num(rows[:, _FIRST_PART : _FIRST_PART + len(PARTS)]))


def retrieved_of(test_item: Item) -> tuple[Reference, ...]:
    """Return the references of an item that were retrieved."""
    return tuple(reference for reference in test_item.references if reference.source is Origin.RETRIEVED)


def other_contexts(items: Sequence[Item], random: np.random.Generator) -> list[Item]:
    """Give each item the retrieved references of the next one in a drawn circle."""
    circle = random.permutation(len(items))
    following = dict(zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True))
    return [_with_further(test_item, retrieved_of(items[following[number]])) for number, test_item in enumerate(items)]


def drawn_references(
    items: Sequence[Item], texts_of_length: Mapping[int, Sequence[str]], random: np.random.Generator
) -> list[Item]:
    """Replace each retrieved reference by a text of the log with as many words."""
    shortest = texts_of_length[min(texts_of_length)]
    changed = list[Item]()
    for test_item in items:
        further = list[Reference]()
        for reference in retrieved_of(test_item):
            texts = texts_of_length.get(len(reference.text.split())) or shortest
            further.append(replace(reference, text=texts[int(random.integers(len(texts)))]))
        changed.append(_with_further(test_item, further))
    return changed


def texts_by_length(index: ReferenceIndex) -> Mapping[int, Sequence[str]]:
    """Return texts that are drawn from the log of an index, by their number of words."""
    by_length = defaultdict[int, list[str]](list)
    for number in range(_DRAWN):
        text = index.draw_utterance(number)
        by_length[len(text.split())].append(text)
    return by_length


def _with_further(test_item: Item, further: Sequence[Reference]) -> Item:
    golds = tuple(reference for reference in test_item.references if reference.source is Origin.GOLD)
    return replace(test_item, references=(*golds, *further))


Groups = Mapping[str, Sequence[str]]  # group → names of its sets
Scorer = Callable[[FairRows], Floats]  # → a score for each row, by seed: (seeds, rows)
Shares = tuple[float, ...]  # of the parts of a metric
_LEVEL: Final = 0.95
_NOTHING_LEFT: Final = 1e-9  # of the largest rank: a residual below it is rounding


def spearman(scores: Floats, people: Floats) -> float:
    """Return the correlation of ranks; the mean over the seeds of the scores (seeds, rows)."""
    return _mean_correlation(rankdata(scores, axis=1), rankdata(people))


def partial_spearman(scores: Floats, people: Floats, lengths: Floats) -> float:
    """Return the same with a line in the rank of the length taken off all ranks; NaN where nothing is left."""
    line = np.stack([np.ones(len(lengths)), rankdata(lengths)], axis=1)
    ranks = np.concatenate([rankdata(scores, axis=1), rankdata(people)[None]])
    residuals = ranks - (line @ np.linalg.lstsq(line, ranks.T, rcond=None)[0]).T
    if np.abs(residuals).max(axis=1).min() < _NOTHING_LEFT * len(people):
        return float("nan")
    return _mean_correlation(residuals[:-1], residuals[-1])


def _mean_correlation(by_seed: Floats, people: Floats) -> float:
    """Return the correlation of each row with people, the mean over rows."""
    ours, theirs = by_seed - by_seed.mean(axis=1, keepdims=True), people - people.mean()
    return float(np.mean(ours @ theirs / np.sqrt((ours**2).sum(axis=1) * (theirs**2).sum())))


@dataclass(frozen=True, kw_only=True)
class GroupedAgreement:
    """The correlations of one way to score: by group, their mean, and the mean with the length held fixed."""

    mean: float
    partial: float  # NaN for the length itself
    groups: Mapping[str, float]

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded; further digits are noise."""
        groups = {group: round(value, 4) for group, value in self.groups.items()}
        partial = None if np.isnan(self.partial) else round(self.partial, 4)
        return {"mean": round(self.mean, 4), "partial": partial, "groups": groups}


@dataclass(frozen=True, kw_only=True)
class GroupedSets:
    """Sets by name, in groups that count the same, and how leads are drawn."""

    sets: Mapping[str, FairRows]
    groups: Groups
    draws: int
    seed: int

    def of(self, scorer: Scorer) -> GroupedAgreement:
        """Return the agreement of one way to score."""
        scored = {name: scorer(self.sets[name]) for names in self.groups.values() for name in names}
        plain = self._over_groups(lambda name: spearman(scored[name], self.sets[name].people))
        held = self._over_groups(
            lambda name: partial_spearman(scored[name], self.sets[name].people, self.sets[name].lengths)
        )
        return GroupedAgreement(
            mean=float(np.mean(list(plain.values()))), partial=float(np.mean(list(held.values()))), groups=plain
        )

    def lead(self, scorer: Scorer, other: Scorer) -> IntervalEstimate:
        """Return by how much one agrees better than another, with the interval of a paired bootstrap over contexts."""
        random = np.random.default_rng(self.seed)
        names = [name for names in self.groups.values() for name in names]
        ours = {name: scorer(self.sets[name]) for name in names}
        theirs = {name: other(self.sets[name]) for name in names}
        rows_of = {name: _rows_of_contexts(self.sets[name]) for name in names}

        def difference(name: str, rows: Indexes) -> float:
            people = self.sets[name].people[rows]
            return spearman(ours[name][:, rows], people) - spearman(theirs[name][:, rows], people)

        def drawn_difference(name: str) -> float:
            contexts = rows_of[name]
            drawn = random.integers(len(contexts), size=len(contexts))
            return difference(name, np.concatenate([contexts[context] for context in drawn]))

        drawn_leads = np.array([np.mean(list(self._over_groups(drawn_difference).values())) for _ in range(self.draws)])
        whole = self._over_groups(lambda name: difference(name, np.arange(len(self.sets[name].people))))
        low, high = percentile_interval(drawn_leads, _LEVEL)
        return IntervalEstimate(value=float(np.mean(list(whole.values()))), low=low, high=high)

    def best_out_of_fold(
        self, scores: Callable[[FairRows, Shares], Floats], grid: Sequence[Shares]
    ) -> tuple[Scorer, Mapping[str, Shares]]:
        """Return the scorer whose shares are, for each group, those that agree best on the others; and the shares."""
        by_shares = {
            shares: self._over_groups(
                lambda name, shares=shares: spearman(scores(self.sets[name], shares), self.sets[name].people)  # type: ignore[misc]
            )
            for shares in grid
        }
        chosen = {
            group: max(
                grid, key=lambda shares: np.mean([by_shares[shares][other] for other in self.groups if other != group])
            )
            for group in self.groups
        }
        group_of = {name: group for group, names in self.groups.items() for name in names}
        return lambda rated: scores(rated, chosen[group_of[rated.name]]), chosen

    def _over_groups(self, value_of: Callable[[str], float]) -> dict[str, float]:
        return {group: float(np.mean([value_of(name) for name in names])) for group, names in self.groups.items()}


def _rows_of_contexts(rated: FairRows) -> list[Indexes]:
    rows = defaultdict[str, list[int]](list)
    for row, context in enumerate(rated.contexts):
        rows[context].append(row)
    return [np.array(own) for own in rows.values()]


CONSTANTS: Final = (
    "I don't know what you mean.",
    "Yes , I do .",
    "Really! What makes you say so?",
    "That sounds great!",
)
_SALAD: Final = "i . you . the ."
_NOTHING: Final = "yes"  # in the place of an attack that has nothing to say
_STOCK: Final = 200
_STOCK_ITEMS: Final = 3  # stock replies are scored on one item out of so many
_LONG: Final = 3  # letters that a long word has more of


@dataclass(frozen=True, kw_only=True)
class AttackFigures:
    """The mean scores of attacks under one way to score, beside that of the system that people rate in the middle."""

    middle: float
    attacks: Mapping[str, float]
    stock: int  # of the most frequent responses, how many reach the middle

    @property
    def above(self) -> tuple[str, ...]:
        """Return the attacks that reach the middle."""
        return tuple(attack for attack, mean in self.attacks.items() if round(mean, 4) >= self.middle)

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded."""
        return {
            "median-rated system": round(self.middle, 4),
            "attacks": {attack: round(mean, 4) for attack, mean in self.attacks.items()},
            "above it": list(self.above),
            f"of {_STOCK} stock replies above it": self.stock,
        }


def attack_figures(
    rated: FairRows,
    metric: Recommended,
    stock: Sequence[str],
    scorers: Mapping[str, Callable[[Floats], Floats]],
) -> dict[str, AttackFigures]:
    """Return the figures of each way to score rows of parts."""
    middle_rows = _middle_rows(rated)
    numbers = range(len(rated.items))
    parts = {
        name: parts_of(metric, rated.items, replies, numbers)
        for name, replies in attacks_on(rated.items, np.random.default_rng(1)).items()
    }
    some_items = rated.items[::_STOCK_ITEMS]
    stock_parts = [parts_of(metric, some_items, [reply] * len(some_items), range(len(some_items))) for reply in stock]
    figures = dict[str, AttackFigures]()
    for name, scores_of in scorers.items():
        middle = float(scores_of(rated.parts[RETRIEVED][0, middle_rows]).mean())
        figures[name] = AttackFigures(
            middle=middle,
            attacks={attack: float(scores_of(attacked).mean()) for attack, attacked in parts.items()},
            stock=sum(float(scores_of(stock_part).mean()) >= middle for stock_part in stock_parts),
        )
    return figures


def _middle_rows(rated: FairRows) -> list[int]:
    """Return the rows of the system that people rate in the middle."""
    rows_of = defaultdict[str, list[int]](list)
    for row, system in enumerate(rated.systems):
        rows_of[system].append(row)
    liked = sorted(rows_of, key=lambda system: float(rated.people[rows_of[system]].mean()))
    return rows_of[liked[len(liked) // 2]]


# ── Searched ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class SearchedConstant:
    """The constant that so many edits have found on half of the items, and what it is worth on the others."""

    reply: str
    mean: float
    middle: float  # the mean of the system that people rate in the middle, on the same items
    first_retrieved: float  # of the reply that was copied out of the index

    @property
    def is_above(self) -> bool:
        """Whether the constant reaches the middle."""
        return round(self.mean, 4) >= round(self.middle, 4)

    def as_json(self) -> dict[str, object]:
        """Return the figures, rounded."""
        return {
            "reply": self.reply,
            "mean": round(self.mean, 4),
            "median-rated system": round(self.middle, 4),
            "first retrieved": round(self.first_retrieved, 4),
            "above it": self.is_above,
        }


def searched_constants(
    rated: FairRows, metric: Recommended, scorers: Mapping[str, Callable[[Floats], Floats]], steps: int, seed: int
) -> dict[str, SearchedConstant]:
    """Search a constant for each way to score rows of parts, on every second item, and score it on the others.

    What is first retrieved is scored beside its own copy among the references, as a thief of the index would be.
    """
    items, tokenizer = rated.items, get_tokenizer(default_tokenizer("en"))
    prepared = prepared_items(metric, items)
    seen = np.arange(0, len(items), 2)[:SEARCH_ITEMS]
    unseen = np.setdiff1d(np.arange(len(items)), seen)
    middle = np.array(_middle_rows(rated))
    middle = middle[np.isin(rated.item[middle], unseen)]
    copied = parts_in(
        metric, prepared, attacks_on(items, np.random.default_rng(1))["first retrieved"], range(len(items))
    )
    vocabulary, found = frequent_tokens(items, tokenizer), dict[str, SearchedConstant]()
    for name, scores_of in scorers.items():

        def mean_on(numbers: NDArray[np.int64], reply: str, scores_of: Callable[[Floats], Floats] = scores_of) -> float:
            return float(scores_of(parts_in(metric, prepared, [reply] * len(numbers), numbers.tolist())).mean())

        reply, _ = search_constant(partial(mean_on, seen), vocabulary, steps, seed)
        found[name] = SearchedConstant(
            reply=reply,
            mean=mean_on(unseen, reply),
            middle=float(scores_of(rated.parts[RETRIEVED][0, middle]).mean()),
            first_retrieved=float(scores_of(copied[unseen]).mean()),
        )
    return found


def attacks_on(items: Sequence[Item], random: np.random.Generator) -> dict[str, list[str]]:
    """Return replies that say nothing, one to each item."""
    turns = [item.turns[-1] for item in items]
    golds = [item.references[0].text for item in items]
    return {
        "echo": turns,
        "echo and more": [f"{turn} I think so too." for turn in turns],
        "echo without every fifth word": [
            " ".join(word for place, word in enumerate(turn.split()) if place % 5 != 4) or turn for turn in turns
        ],
        "echo of the turn before": [item.turns[-2] if len(item.turns) > 1 else item.turns[-1] for item in items],
        "long words of the last turn": [
            " ".join(sorted({word for word in normalise(turn).split() if len(word) > _LONG})) or _NOTHING
            for turn in turns
        ],
        "first retrieved": [retrieved_of(item)[0].text if retrieved_of(item) else _NOTHING for item in items],
        "gold of another item": [golds[number] for number in random.permutation(len(golds)).tolist()],
        "salad": [_SALAD] * len(items),
        **{f"constant: {constant}": [constant] * len(items) for constant in CONSTANTS},
    }


def stock_replies(index: ReferenceIndex) -> list[str]:
    """Return the responses that occur most often in the log of an index."""
    counts, texts = defaultdict[int, int](int), dict[int, str]()
    for segment in index.segments:
        keys, first, number = np.unique(segment.tables.response_key, return_index=True, return_inverse=True)
        occurrences = np.bincount(number, np.diff(segment.tables.occurrence_start)).astype(np.int64)
        often = np.argsort(-occurrences, kind="stable")[: 2 * _STOCK]
        for place, text in zip(often.tolist(), segment.responses.take(first[often]), strict=True):
            counts[int(keys[place])] += int(occurrences[place])
            texts[int(keys[place])] = text or ""
    return [texts[key] for key in sorted(counts, key=lambda key: -counts[key])[:_STOCK]]
