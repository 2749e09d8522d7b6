"""The defaults of weighted BLEU: smoothing and the parrot, by agreement with people on groups of rated sets.

    python bench/bench_bleu_defaults.py --data DATA --home HOME

Two questions, each on the same draws of contexts, so that differences have intervals:

- Smoothing where other systems' replies are the references, each worth 1, weighted by people, or by the rater.
- Smoothing and the parrot where references are retrieved from everyday logs and rated. The parrot (the utterance
  itself as a reference) is rated, left out, has a fixed weight, or is guarded: it counts for a reply only while at most
  a share of the reply's words stands in the utterance and in no other reference of positive weight.

Sets that share contexts or golds are one group; a group counts as the mean of its sets, and groups count equally.
Fair rows, the first gold alone; references equal to the reply are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from common import write_result

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.experiments.weights import sets_with_rated_replies
from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.judged_replies import WeightedSet, weighted_scores
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import ProofSet, read_sets
from refaug.extras.reproduction.material.reference_kinds import Pool
from refaug.metrics.base import Floats, Level, Metric, Problem, References
from refaug.metrics.specification import build
from refaug.scoring.cases import bind_metric, references_for, score_replies

GROUPS: Final = {
    "DailyDialog": (
        "dailydialog_gupta",
        "dailydialog_zhao",
        "grade_dailydialog",
        "holistic_dailydialog",
        "predictive_engagement_dd",
    ),
    "EmpatheticDialogues": ("grade_empatheticdialogues",),
}
WEIGHED: Final = ("dailydialog_gupta", "dailydialog_zhao")  # several rated replies to a context
SMOOTHINGS: Final = ("add-k", "none", "floor", "floor[0.3]", "epsilon", "exp")
CONDITIONS: Final = ("gold", "one", "people", "rated")
PARROTS: Final = ("rated", "off", "0.3", "guarded 0.5", "guarded 0.34", "guarded 0.25")
BEFORE: Final = ("add-k", "rated")  # the defaults that the others are compared with
K: Final = 15
KIND: Final = "spearman"
_PACKAGES: Final = ("numpy", "scipy", "torch", "faiss-cpu", "numba")


def main() -> None:
    """Measure both, and write bench/results/bleu_defaults.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with logs/ and human/")
    parser.add_argument("--home", type=Path, required=True, help="where logs, index and rater are kept")
    parser.add_argument("--draws", type=int, default=2_000)
    options = parser.parse_args()
    chain = Chain(Settings(home=options.home), ProofSettings(data=options.data, draws=options.draws), Silent())
    figures = {"smoothing": smoothing_figures(chain), "parrot": parrot_figures(chain)}
    made_of = {"index": chain.main_index(), "rater": chain.rater().spec}
    print(write_result("bleu_defaults", {"made_of": made_of, "draws": options.draws, **figures}, _PACKAGES))


# ── other systems' replies as references ──────────────────────────────────────────────────────────────────────────────


def smoothing_figures(chain: Chain) -> dict[str, Any]:
    """Correlate every smoothing under every kind of weights, and its difference to add-k."""
    sets, _ = sets_with_rated_replies(read_sets(chain.settings.data, WEIGHED))
    weighted_sets = [WeightedSet.of(rated_set, chain.rater()) for rated_set in sets]
    figures = dict[str, Any]()
    for penalty in ("closest", "none"):
        lines = [
            Line(
                name=f"{condition}, {smoothing}",
                scores={
                    weighted_set.rated_set.name: weighted_scores(weighted_set, metric, condition)[None]
                    for weighted_set in weighted_sets
                },
            )
            for smoothing in SMOOTHINGS
            for metric in (build(f"delta-bleu:smooth={smoothing},bp={penalty}"),)
            for condition in CONDITIONS
        ]
        correlations = correlate(sets, lines, kinds=(KIND,), draws=chain.settings.draws, seed=chain.settings.seed)
        figures[f"bp={penalty}"] = {
            condition: {
                smoothing: _with_difference(correlations, f"{condition}, {smoothing}", f"{condition}, add-k")
                for smoothing in SMOOTHINGS
            }
            for condition in CONDITIONS
        }
    return figures


def _with_difference(correlations: Correlations, line: str, other: str) -> dict[str, Any]:
    return {
        scope: {
            "spearman": correlations.estimate(line, KIND, scope).as_json(),
            "less_add_k": correlations.difference(line, other, KIND, scope).as_json(),
        }
        for scope in correlations.scopes
    }


# ── retrieved references, and the parrot ──────────────────────────────────────────────────────────────────────────────


def parrot_figures(chain: Chain) -> dict[str, Any]:
    """Correlate υBLEU under every smoothing and parrot, and compare each with the defaults before."""
    names = [name for group in GROUPS.values() for name in group]
    sets = [rated_set.with_first_gold() for rated_set in read_sets(chain.settings.data, names)]
    index, rater = chain.main_index(), chain.rater()
    pools = {rated_set.name: chain.pool(rated_set, index, rater, deep=K) for rated_set in sets}
    settings = [(smoothing, parrot) for smoothing in SMOOTHINGS for parrot in PARROTS]
    lines = [
        Line(
            name=", ".join(setting),
            scores={
                rated_set.name: scores_of(
                    rated_set, pools[rated_set.name], build(f"upsilon-bleu:smooth={setting[0]}"), setting[1]
                )[None]
                for rated_set in sets
            },
        )
        for setting in settings
    ]
    correlations = correlate(sets, lines, kinds=(KIND,), draws=chain.settings.draws, seed=chain.settings.seed)
    before = _by_groups(correlations, ", ".join(BEFORE))
    return {
        line.name: {
            "sets": {name: correlations.estimate(line.name, KIND, name).as_json() for name in names},
            **_compared(_by_groups(correlations, line.name), before),
        }
        for line in lines
    }


def scores_of(rated_set: ProofSet, pool: Pool, metric: Metric, parrot: str) -> Floats:
    """Return the score of every row; whether the parrot counts may depend on the row."""
    chosen, by_row = dict[tuple[int, bool, frozenset[str]], References | Problem](), list[References | Problem]()
    for reply, number in zip(rated_set.replies, rated_set.item.tolist(), strict=True):
        test_item, further = rated_set.items[number], pool.retrieved[number][:K]
        own = pool.parrots[number]
        if own is not None and normalise(own.text) == normalise(reply):
            own = None
        if own is not None and not _counts(parrot, reply, test_item.utterance or "", (*test_item.references, *further)):
            own = None
        if own is not None and parrot.replace(".", "").isdigit():
            own = replace(own, weight=float(parrot))
        same = frozenset(one.text for one in further if normalise(one.text) == normalise(reply))
        key = (number, own is not None, same)
        if key not in chosen:
            listed = (
                *test_item.references,
                *(() if own is None else (own,)),
                *(r for r in further if r.text not in same),
            )
            chosen[key] = references_for(metric, listed, test_item.turns)
        by_row.append(chosen[key])
    bound = bind_metric(metric, by_row, rated_set.replies, by_row)
    return bound.values(score_replies(bound, rated_set.replies, by_row)[0], Level.REPLY)


def _counts(parrot: str, reply: str, utterance: str, references: Sequence[Reference]) -> bool:
    """Say whether the parrot is a reference for this reply."""
    if parrot == "off":
        return False
    if not parrot.startswith("guarded"):
        return True
    usable = [one.text for one in references if one.source is Origin.GOLD or (one.weight or 0) > 0]
    words, of_utterance, *of_references = get_tokenizer("word").tokenize_batch([reply, utterance, *usable])
    elsewhere = {word for tokens in of_references for word in tokens}
    copied = sum(word in of_utterance and word not in elsewhere for word in words)
    return copied <= float(parrot.split()[1]) * max(1, len(words))


class GroupFigures(dict[str, tuple[float, Floats]]):
    """By group, and `mean` of the groups: the correlation, and that of every draw."""


def _by_groups(correlations: Correlations, line: str) -> GroupFigures:
    place = correlations.names.index(line)
    figures = GroupFigures()
    for group, names in GROUPS.items():
        figures[group] = (
            float(np.mean([correlations.points[KIND, name][place] for name in names])),
            np.mean([correlations.drawn[KIND, name][place] for name in names], axis=0),
        )
    points, drawn = zip(*figures.values(), strict=True)
    figures["mean"] = (float(np.mean(points)), np.mean(drawn, axis=0))
    return figures


def _compared(figures: GroupFigures, before: GroupFigures) -> Mapping[str, Any]:
    return {
        "groups": {name: IntervalEstimate.of(*figure).as_json() for name, figure in figures.items()},
        "less_before": {
            name: IntervalEstimate.of(point - before[name][0], drawn - before[name][1]).as_json()
            for name, (point, drawn) in figures.items()
        },
    }


if __name__ == "__main__":
    main()
