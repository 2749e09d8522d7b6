"""How refaug-1 agrees with people, beside what one would use without it, and how it meets attacks.

python bench/bench_recommended.py --data ../shared/data/human --home HOME --index NAME

The index is one of dialogue logs, built for refaug-1 (--encoder all-minilm-l6-v2). Rows are
fair: none rates a gold, and golds that equal the reply are left out. Figures are Spearman correlations, means over four
groups of sets by corpus; intervals are of paired bootstraps over contexts. What is chosen, is chosen out of fold: for
each group by the three others. With --out the figures go to a file in bench/results.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from common import write_result
from numpy.typing import NDArray
from scipy.stats import rankdata

from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import augment
from refaug.evaluation.scoring.cases import references_for
from refaug.indexer.search.index import ReferenceIndex
from refaug.metrics.base import References
from refaug.metrics.embeddings.recommended import PARTS, Recommended
from refaug.metrics.specification import build

Floats = NDArray[np.float64]
_GROUPS: Final[Mapping[str, Sequence[str]]] = {
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
_WITHOUT_GOLD: Final[Mapping[str, Sequence[str]]] = {
    "DailyDialog": _GROUPS["DailyDialog"],
    "EmpatheticDialogues": _GROUPS["EmpatheticDialogues"],
    "FED": ("fed_turn",),
    "ConTurE": ("conture",),
}
_GOLD, _WORDS, _TURN, _TURNS, _RETRIEVED = range(len(PARTS))
_DRAWN_SYSTEM: Final = "negative-sample"
_ATTACKED: Final = ("personachat_zhao", "usr_topicalchat")
_CONSTANTS: Final = (
    "I don't know what you mean.",
    "Yes , I do .",
    "Really! What makes you say so?",
    "That sounds great!",
)
_STOCK: Final = 200
_SALAD: Final = "i . you . the ."


@dataclass(frozen=True, kw_only=True)
class Row:
    """A rated reply."""

    item: int
    context: str
    reply: str
    score: float
    system: str


@dataclass(eq=False, kw_only=True)
class RatedSet:
    """A set's items with what was found for each, its rows, and their parts under several references."""

    name: str
    items: list[Item]
    rows: list[Row]
    parts: dict[str, Floats]

    @property
    def people(self) -> Floats:
        """What people said of each reply."""
        return np.array([row.score for row in self.rows])

    @property
    def lengths(self) -> Floats:
        """The words of each reply."""
        return np.array([float(len(row.reply.split())) for row in self.rows])


def read_set(path: Path) -> RatedSet:
    """Read the fair rows of a set; items are contexts with their golds."""
    numbers, items, rows = dict[tuple[str, ...], int](), list[Item](), list[Row]()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            references, equal = row.get("references") or [], row.get("response_in_references") or []
            own = normalise(row["response"])
            golds = [
                text
                for at, text in enumerate(references)
                if at not in equal and text.strip() and normalise(text) != own
            ]
            if row.get("score") is None or 0 in equal or (not golds and row["dataset"] not in ("fed_turn", "conture")):
                continue
            key = (str(row["context_id"]), *row["context"], "", *golds)
            if key not in numbers:
                numbers[key] = len(items)
                listed = tuple(Reference(text=text, source=Origin.GOLD) for text in golds)
                items.append(Item(id=f"i{len(items)}", turns=tuple(row["context"]), references=listed))
            rows.append(
                Row(
                    item=numbers[key],
                    context=str(row["context_id"]),
                    reply=row["response"],
                    score=float(row["score"]),
                    system=str(row.get("system")),
                )
            )
    return RatedSet(name=path.name.partition(".")[0], items=items, rows=rows, parts={})


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parts_of(metric: Recommended, items: Sequence[Item], replies: Sequence[str], places: Sequence[int]) -> Floats:
    """Return the parts (replies, parts) of each reply to the item in its place; 0 where there is none."""
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    prepared = metric.prepare([one if isinstance(one, References) else References((), ()) for one in chosen])
    numbers = np.arange(len(replies), dtype=np.int64)
    rows = metric.statistics(replies, prepared, numbers, np.array(places, np.int64))
    return np.asarray(np.nan_to_num(rows[:, 2 : 2 + len(PARTS)]))


def retrieved_of(item: Item) -> tuple[Reference, ...]:
    return tuple(reference for reference in item.references if reference.source is Origin.RETRIEVED)


def with_retrieved(item: Item, found: Sequence[Reference]) -> Item:
    own = tuple(reference for reference in item.references if reference.source is Origin.GOLD)
    return replace(item, references=(*own, *found))


def other_contexts(items: Sequence[Item], generator: np.random.Generator) -> list[Item]:
    """Give each item the retrieved references of the next one in a drawn circle."""
    circle = generator.permutation(len(items))
    following = dict(zip(circle.tolist(), np.roll(circle, 1).tolist(), strict=True))
    return [with_retrieved(item, retrieved_of(items[following[place]])) for place, item in enumerate(items)]


def matched_draws(
    items: Sequence[Item], pool: Mapping[int, Sequence[str]], generator: np.random.Generator
) -> list[Item]:
    """Replace each retrieved reference by a response of the log with as many words."""
    drawn = list[Item]()
    for item in items:
        further = list[Reference]()
        for reference in retrieved_of(item):
            texts = pool.get(len(reference.text.split())) or pool[min(pool)]
            further.append(replace(reference, text=texts[int(generator.integers(len(texts)))]))
        drawn.append(with_retrieved(item, further))
    return drawn


def stock_replies(index: ReferenceIndex) -> list[str]:
    """Return the responses that occur most often in the log."""
    counts, texts = defaultdict[int, int](int), dict[int, str]()
    for segment in index.segments:
        keys, first, number = np.unique(segment.tables.response_key, return_index=True, return_inverse=True)
        occurrences = np.bincount(number, np.diff(segment.tables.occurrence_start)).astype(np.int64)
        often = np.argsort(-occurrences, kind="stable")[: 2 * _STOCK]
        for at, text in zip(often.tolist(), segment.responses.take(first[often]), strict=True):
            counts[int(keys[at])] += int(occurrences[at])
            texts[int(keys[at])] = text or ""
    return [texts[key] for key in sorted(counts, key=lambda key: -counts[key])[:_STOCK]]


# ── agreement ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def spearman(ours: Floats, people: Floats) -> float:
    return float(np.corrcoef(rankdata(ours), rankdata(people))[0, 1])


def partial(ours: Floats, people: Floats, lengths: Floats) -> float:
    """Return the correlation of the ranks with the length of replies held fixed."""
    first, second, held = (rankdata(values) for values in (ours, people, lengths))
    rest = [values - np.polyval(np.polyfit(held, values, 1), held) for values in (first, second)]
    return float(np.corrcoef(*rest)[0, 1])


Scorer = Callable[[RatedSet], Floats]


def over_groups(groups: Mapping[str, Sequence[str]], value: Callable[[str], float]) -> dict[str, float]:
    return {group: float(np.mean([value(name) for name in names])) for group, names in groups.items()}


def row_of(sets: Mapping[str, RatedSet], groups: Mapping[str, Sequence[str]], scorer: Scorer) -> dict[str, Any]:
    """Return the figures of one way to score."""
    scored = {name: scorer(sets[name]) for names in groups.values() for name in names}
    plain = over_groups(groups, lambda name: spearman(scored[name], sets[name].people))
    held = over_groups(groups, lambda name: partial(scored[name], sets[name].people, sets[name].lengths))
    return {
        "mean": round(float(np.mean(list(plain.values()))), 4),
        "partial": round(float(np.mean(list(held.values()))), 4),
        "groups": {group: round(value, 4) for group, value in plain.items()},
    }


def lead(
    sets: Mapping[str, RatedSet],
    groups: Mapping[str, Sequence[str]],
    one: Scorer,
    other: Scorer,
    draws: int,
    seed: int,
) -> list[float]:
    """Return by how much one agrees better than the other, with the 95 % interval of a paired bootstrap."""
    generator, prepared = np.random.default_rng(seed), dict[str, Any]()
    for name in (name for names in groups.values() for name in names):
        places = defaultdict[str, list[int]](list)
        for place, row in enumerate(sets[name].rows):
            places[row.context].append(place)
        contexts = [np.array(of_context) for of_context in places.values()]
        prepared[name] = (one(sets[name]), other(sets[name]), sets[name].people, contexts)

    def difference(name: str, rows: NDArray[np.int64]) -> float:
        first, second, people, _ = prepared[name]
        return spearman(first[rows], people[rows]) - spearman(second[rows], people[rows])

    def drawn(name: str) -> float:
        contexts = prepared[name][3]
        return difference(
            name, np.concatenate([contexts[at] for at in generator.integers(len(contexts), size=len(contexts))])
        )

    found = [float(np.mean(list(over_groups(groups, drawn).values()))) for _ in range(draws)]
    whole = over_groups(groups, lambda name: difference(name, np.arange(len(sets[name].rows))))
    return [round(float(value), 4) for value in (np.mean(list(whole.values())), *np.quantile(found, [0.025, 0.975]))]


def best_out_of_fold(
    sets: Mapping[str, RatedSet],
    sums: Callable[[RatedSet, tuple[float, ...]], Floats],
    grid: Sequence[tuple[float, ...]],
) -> tuple[Scorer, dict[str, tuple[float, ...]]]:
    """Return, for each group, the shares that agree best on the other three groups."""
    by_group = {
        shares: over_groups(_GROUPS, lambda name, shares=shares: spearman(sums(sets[name], shares), sets[name].people))  # type: ignore[misc]
        for shares in grid
    }
    chosen = {
        group: max(grid, key=lambda shares: np.mean([by_group[shares][other] for other in _GROUPS if other != group]))
        for group in _GROUPS
    }
    group_of = {name: group for group, names in _GROUPS.items() for name in names}
    return lambda rated: sums(rated, chosen[group_of[rated.name]]), chosen


# ── attacks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def attacks_on(items: Sequence[Item], generator: np.random.Generator) -> dict[str, list[str]]:
    """Return replies that say nothing, one to each item."""
    last = [item.turns[-1] for item in items]
    golds = [item.references[0].text for item in items]
    return {
        "echo": last,
        "echo and more": [f"{turn} I think so too." for turn in last],
        "echo without every fifth word": [
            " ".join(word for at, word in enumerate(turn.split()) if at % 5 != 4) or turn for turn in last
        ],
        "echo of the turn before": [item.turns[-2] if len(item.turns) > 1 else item.turns[-1] for item in items],
        "long words of the last turn": [
            " ".join(sorted({word for word in normalise(turn).split() if len(word) > 3})) or "yes" for turn in last
        ],
        "first retrieved": [retrieved_of(item)[0].text if retrieved_of(item) else "yes" for item in items],
        "gold of another item": [golds[at] for at in generator.permutation(len(golds)).tolist()],
        "salad": [_SALAD] * len(items),
        **{f"constant: {constant}": [constant] * len(items) for constant in _CONSTANTS},
    }


def gaming(
    rated: RatedSet, metric: Recommended, stock: Sequence[str], scorers: Mapping[str, Callable[[Floats], Floats]]
) -> dict[str, Any]:
    """Compare attacks with the system that people rate in the middle, by their mean scores."""
    by_system = defaultdict[str, list[int]](list)
    for place, row in enumerate(rated.rows):
        by_system[row.system].append(place)
    liked = sorted(by_system, key=lambda system: float(rated.people[by_system[system]].mean()))
    replies = attacks_on(rated.items, np.random.default_rng(1))
    places = list(range(len(rated.items)))
    parts = {name: parts_of(metric, rated.items, texts, places) for name, texts in replies.items()}
    some = places[::3]
    of_stock = [
        parts_of(metric, [rated.items[at] for at in some], [text] * len(some), range(len(some))) for text in stock
    ]
    figures = dict[str, Any]()
    for name, score in scorers.items():
        systems = {system: float(score(rated.parts["found"][rows]).mean()) for system, rows in by_system.items()}
        middle = systems[liked[len(liked) // 2]]
        attacked = {attack: round(float(score(of).mean()), 4) for attack, of in parts.items()}
        figures[name] = {
            "median-rated system": round(middle, 4),
            "attacks": attacked,
            "above it": [attack for attack, mean in attacked.items() if mean >= middle],
            f"of {len(stock)} stock replies above it": sum(float(score(of).mean()) >= middle for of in of_stock),
        }
    return figures


# ── main ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Measure, print and perhaps store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--name", default=None, help="store the figures in bench/results/NAME.json")
    options = parser.parse_args()
    names = sorted({name for groups in (_GROUPS, _WITHOUT_GOLD) for names in groups.values() for name in names})
    if missing := [name for name in names if not (options.data / f"{name}.jsonl.gz").exists()]:
        parser.error(f"{options.data} has no {missing[0]}.jsonl.gz")
    models = ModelRegistry(Settings(home=options.home))
    index, settings = models.index(options.index), AugmentSettings(preset="refaug-1")
    metric = build("refaug-1", source=models)
    assert isinstance(metric, Recommended), metric
    sets, generator = (
        {name: read_set(options.data / f"{name}.jsonl.gz") for name in names},
        np.random.default_rng(options.seed),
    )
    for rated in sets.values():
        rated.items = [one for one in augment(rated.items, index, None, settings) if isinstance(one, Item)]
    pool = defaultdict[int, list[str]](list)
    for response in [index.draw_utterance(number) for number in range(20_000)]:
        pool[len(response.split())].append(response)
    for rated in sets.values():
        replies, places = [row.reply for row in rated.rows], [row.item for row in rated.rows]
        forms = {
            "found": rated.items,
            "of another context": other_contexts(rated.items, generator),
            "matched": matched_draws(rated.items, pool, generator),
        }
        rated.parts = {form: parts_of(metric, items, replies, places) for form, items in forms.items()}
        print(rated.name, len(rated.items), len(rated.rows), file=sys.stderr)
    figures = measure(sets, metric, options.draws, options.seed)
    stock = stock_replies(index)
    scorers = {
        "refaug-1": lambda parts: scored(metric, parts),
        "encoder and gold": lambda parts: parts[:, _GOLD],
    }
    figures["attacks"] = {name: gaming(sets[name], metric, stock, scorers) for name in _ATTACKED}
    print(json.dumps(figures, indent=2))
    if options.name is not None:
        write_result(
            options.name, {"index": index.spec, "metric": dict(metric.settings), **figures}, ["numpy", "onnxruntime"]
        )


def scored(metric: Recommended, parts: Floats, *, gold: bool = True, retrieved: bool = True) -> Floats:
    """Return refaug-1 of rows of parts."""
    return metric.sums(parts, np.full(len(parts), gold), np.full(len(parts), retrieved))


def measure(sets: Mapping[str, RatedSet], metric: Recommended, draws: int, seed: int) -> dict[str, Any]:
    """Return agreement: each row by groups, and what leads by how much."""

    def own(form: str = "found", **there: bool) -> Scorer:
        return lambda rated: scored(metric, rated.parts[form], **there)

    def sums(rated: RatedSet, shares: tuple[float, ...]) -> Floats:
        parts = rated.parts["found"].copy()
        parts[:, (_TURN, _TURNS)] = metric.folded(parts)[:, (_TURN, _TURNS)]
        return np.asarray(parts[:, : len(shares)] @ np.array(shares))

    shares = [
        (gold, words, turn, turn)
        for gold, words, turn in product((0.5, 1, 1.5, 2, 3), (0, 0.3, 0.6, 1), (0, 0.3, 0.5, 0.75))
    ]
    best, chosen = best_out_of_fold(sets, sums, shares)
    with_retrieved = [(*some, retrieved) for some in shares for retrieved in (0, 0.5, 1, 1.5, 2)]
    best_of_all, _ = best_out_of_fold(sets, sums, with_retrieved)
    rows: dict[str, Scorer] = {
        "chrF with the gold": lambda rated: rated.parts["found"][:, _WORDS],
        "encoder and gold": lambda rated: rated.parts["found"][:, _GOLD],
        "refaug-1 without an index": own(retrieved=False),
        "best without retrieval, chosen out of fold": best,
        "best with retrieval, chosen out of fold": best_of_all,
        "refaug-1": own(),
        "refaug-1, retrieved of another context": own("of another context"),
        "refaug-1, drawn with as many words": own("matched"),
        "length of the reply": lambda rated: rated.lengths,
    }
    without: dict[str, Scorer] = {
        "turns alone": lambda rated: scored(metric, rated.parts["found"] * [0, 0, 1, 1, 0], gold=False),
        "refaug-1": own(gold=False),
        "refaug-1, retrieved of another context": own("of another context", gold=False),
        "refaug-1, drawn with as many words": own("matched", gold=False),
    }
    undrawn = {**sets, "personachat_zhao": without_drawn(sets["personachat_zhao"])}
    persona = {"PersonaChat": ("personachat_zhao",)}
    chrf = rows["chrF with the gold"]
    return {
        "agreement": {name: row_of(sets, _GROUPS, scorer) for name, scorer in rows.items()},
        "without gold": {name: row_of(sets, _WITHOUT_GOLD, scorer) for name, scorer in without.items()},
        "PersonaChat without drawn replies": {
            name: row_of(undrawn, persona, rows[name])["mean"]
            for name in ("encoder and gold", "best without retrieval, chosen out of fold", "refaug-1")
        },
        "shares out of fold": chosen,
        "lead of refaug-1": {
            name: lead(sets, _GROUPS, rows["refaug-1"], rows[name], draws, seed)
            for name in (
                "encoder and gold",
                "best without retrieval, chosen out of fold",
                "refaug-1, retrieved of another context",
                "refaug-1, drawn with as many words",
            )
        },
        "lead of retrieval, out of fold": {
            "best without retrieval, chosen out of fold": lead(sets, _GROUPS, best_of_all, best, draws, seed)
        },
        "lead without gold": {
            name: lead(sets, _WITHOUT_GOLD, without["refaug-1"], without[name], draws, seed)
            for name in ("turns alone", "refaug-1, retrieved of another context", "refaug-1, drawn with as many words")
        },
        "lead over chrF with the gold": {
            group: lead(sets, {group: names}, rows["refaug-1"], chrf, draws, seed) for group, names in _GROUPS.items()
        },
        "cost of the guard": lead(sets, _GROUPS, lambda rated: unguarded(metric, rated), rows["refaug-1"], draws, seed),
    }


def unguarded(metric: Recommended, rated: RatedSet) -> Floats:
    """Return refaug-1 with likeness to the turns as it is."""
    open_metric = copy(metric)
    open_metric.calibration = replace(metric.calibration, most_like={"turn": 2.0, "turns": 2.0})
    return scored(open_metric, rated.parts["found"])


def without_drawn(rated: RatedSet) -> RatedSet:
    """Return the set without the replies that were drawn."""
    kept = [place for place, row in enumerate(rated.rows) if row.system != _DRAWN_SYSTEM]
    return RatedSet(
        name=rated.name,
        items=rated.items,
        rows=[rated.rows[place] for place in kept],
        parts={form: parts[kept] for form, parts in rated.parts.items()},
    )


if __name__ == "__main__":
    main()
