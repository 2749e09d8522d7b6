"""What `retrieval-modes` and `growth` have in common: metrics, kinds of references, and differences between lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from indexer.queries import Mode
from metrics.base import Floats, Metric
from metrics.correlation import PARTIAL
from metrics.resampling import count_blocks
from metrics.specification import Specification, build
from rater.rate import Rater
from service.pages import Table
from service.proof.chain import Chain
from service.proof.figures import MEAN, Figure, Line, Measured
from service.proof.references import BY_CHANCE, MATCHED, ONE, RATED, SHUFFLED, Pool, line_of
from service.proof.report import IN_WORDS, cell
from service.proof.sets import ProofSet

Figures = Mapping[str, Mapping[str, Figure]]  # kind of correlation → set, or their mean → figure
Differences = Mapping[str, Mapping[str, Figures]]  # row of a table → what was taken away → figures

K: Final = 15
GOLD_ALONE: Final = "gold alone"
CLOSEST, NO_PENALTY = "υBLEU, closest", "υBLEU, no penalty"
GREEDY, GREEDY_BEST = "υ-greedy, weighted", "υ-greedy, best"
NUMBERS: Final = {CLOSEST: 1, NO_PENALTY: 2, GREEDY: 3, GREEDY_BEST: 4}  # in names of files
KINDS: Final = ("spearman", PARTIAL)
ALL: Final = (RATED, ONE, SHUFFLED, MATCHED)
IN_PLOTS: Final = {RATED: "rated", ONE: "weights one", SHUFFLED: "ratings shuffled", MATCHED: "random, as long"}


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def tried_metrics(chain: Chain) -> dict[str, Metric]:
    """The published method with and without its length penalty, and soft matches; by name.

    The best soft match of all whose weight is above 0 asks a rater for no more than that.
    """
    return {
        CLOSEST: build("upsilon-bleu"),
        NO_PENALTY: build("upsilon-bleu:bp=none"),
        GREEDY: soft_match(chain),
        GREEDY_BEST: soft_match(chain, agg="best"),
    }


def soft_match(chain: Chain, **given: str) -> Metric:
    """υ-greedy with the word vectors of the proof, common words counting less."""
    folder = str(chain.vectors_folder(chain.vectors()))
    given = {"measure": "f", "weighting": "sif", "vectors": folder, **given}
    return build(Specification("upsilon-greedy", tuple(given.items())))


def pools_of(
    chain: Chain,
    sets: Sequence[ProofSet],
    index: str,
    rater: Rater,
    mode: Mode = "embedding-utterance",
    combine: str = "first",
) -> dict[str, Pool]:
    """What an index has for every set, rated against the first gold; by set."""
    return {one.name: chain.pool(one.with_first_gold(), index, rater, mode=mode, combine=combine) for one in sets}


def named(name: str, kind: str) -> str:
    """What the line of a kind of references is called."""
    return f"{name}, {kind}"


def lines_on(
    chain: Chain,
    name: str,
    sets: Sequence[ProofSet],
    pools: Mapping[str, Pool],
    metric: Metric,
    kinds: Sequence[str] = ALL,
    *,
    k: int = K,
    parrot: bool = True,
    about: str = "",
) -> Iterator[Line]:
    """The metric on kinds of references out of these pools, a line each."""
    for kind in kinds:
        yield line_of(
            named(name, kind),
            sets,
            metric,
            lambda one, seed, kind=kind: pools[one.name].extras(  # type: ignore[misc]
                kind, k=k, parrot=parrot, seed=seed
            ),
            seeds=chain.settings.seeds if kind in BY_CHANCE else 1,
            about=f"{about}: {IN_PLOTS[kind]}" if about else "",
            progress=chain.progress,
        )


# ── differences ───────────────────────────────────────────────────────────────────────────────────────────────────


def whole(found: Measured) -> str:
    """Where a claim is looked at: the mean over sets, or the only one."""
    return MEAN if len(found.sets) > 1 else found.sets[0]


def on_whole(found: Measured) -> str:
    """The same in words."""
    return f"on the mean of {len(found.sets)} sets" if len(found.sets) > 1 else f"on {found.sets[0]}"


def less(found: Measured, line: str, other: str) -> Figures:
    """What a line has over another one on the same draws."""
    return {kind: {where: found.difference(line, other, kind, where) for where in found.wheres} for kind in KINDS}


def is_sure(one: Figure) -> bool:
    """Whether the interval leaves 0 out."""
    return one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)


def change(one: Figure) -> str:
    """What a difference is that nothing was claimed of."""
    if not is_sure(one):
        return "no sure change"
    return "a sure gain" if (one.low or 0) > 0 else "a sure loss"


def differences_table(title: str, found: Measured, by: Differences) -> Table:
    """A row each, with what it has over others where claims are looked at."""
    labels, where = list(next(iter(by.values()))), whole(found)
    counted = len(by) * len(labels) * len(KINDS)
    return Table(
        title=f"{title}, {on_whole(found)}",
        columns=["", *(f"{IN_WORDS[kind]}, {label}" for kind in KINDS for label in labels)],
        rows=[
            [name, *(cell(own[label][kind][where]) for kind in KINDS for label in labels)] for name, own in by.items()
        ],
        notes=(
            f"{counted:,} differences on the same draws: of those that are nothing, about one in twenty has an "
            "interval without 0",
        ),
    )


def differences_json(by: Differences) -> dict[str, Any]:
    """All of them, on every set, for programs."""
    return {
        name: {
            label: {kind: {where: one.as_json() for where, one in wheres.items()} for kind, wheres in kinds.items()}
            for label, kinds in own.items()
        }
        for name, own in by.items()
    }


# ── numbers of items ──────────────────────────────────────────────────────────────────────────────────────────────


def shares_above(ratings: Sequence[Sequence[float]]) -> Floats:
    """Item by item the share of ratings above 0; NaN where there are none."""
    return means([[float(rating > 0) for rating in own] for own in ratings])


def means(values: Sequence[Sequence[float]]) -> Floats:
    """Item by item; NaN where there is nothing."""
    return np.array([sum(own) / len(own) if own else np.nan for own in values], dtype=np.float64)


def mean_over_items(values: Floats, draws: int, seed: int) -> Figure:
    """The mean of one number an item with its interval over draws of items; those without a number do not count."""
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return Figure(value=float(known[0]), why="one item") if len(known) else Figure(why="no item has any")
    drawn = [counts @ known / len(known) for counts in count_blocks(len(known), draws, seed)]
    return Figure.of(float(known.mean()), np.concatenate(drawn))
