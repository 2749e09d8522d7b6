"""`reproduce raters`: raters that carry over, as raters of replies and as weights of retrieved references.

All of them learn from the everyday logs alone. A Bi-GRU of the same logs stands beside them where the home has it,
which other parts of the proof make. Weighted references are scored by the mean of the three largest weighted cosines
with the reply, so that weights alone differ between lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.records import Reference
from refaug.core.vectors.encoders import Encoder, of_unit_length
from refaug.extras.reproduction.experiments.recommended import lead_cell
from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.recommended import (
    GROUPS,
    GROUPS_WITHOUT_GOLD,
    SETS,
    FairRows,
    GroupedAgreement,
    GroupedSets,
    Scorer,
    read_set,
    retrieved_of,
)
from refaug.extras.reproduction.report.report import ExperimentReport, short
from refaug.metrics.base import Floats
from refaug.rater.frozen.artefact import FrozenRater
from refaug.rater.rating import WITHOUT_GOLD, Rater, RatingRequest
from refaug.scoring.home.networks import encoder_opener
from refaug.scoring.settings import AugmentSettings
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

ENCODER_AND_GOLD: Final = "encoder and gold"
LINEAR, TOWERS, DUAL, BI_GRU = "linear rater", "encoder rater", "dual rater", "Bi-GRU"
ONE, SIMILARITY, SHUFFLED = "weights of one", "similarity", "weights, shuffled"
_WEIGHING: Final = (LINEAR, TOWERS)
_DUAL_SEEDS: Final = 3
_TURNS: Final = 3
_BEST: Final = 3  # weighted cosines that count

SetScores = Mapping[str, Floats]  # set → (seeds, rows)


def raters(chain: Chain, _sets: Sequence[ProofSet]) -> ExperimentReport:
    """Report on raters, on all sets that the data must have for it."""
    index = chain.encoder_index()
    encoder = encoder_opener(chain.home, threads=chain.settings.threads)(chain.settings.encoder)
    opened = _open_raters(chain)
    settings = AugmentSettings(preset="refaug-1")
    sets = dict[str, FairRows]()
    for name in SETS:
        rated = read_set(chain.settings.data, name)
        sets[name] = replace(rated, items=tuple(chain.augmented_items(rated, index, None, settings)))
    chain.progress.stage("rating", len(sets), "sets")
    scores = dict[str, dict[str, Floats]]()
    for rated in sets.values():
        for line, of_set in _scores_of(rated, opened, encoder, chain.settings.seeds):
            scores.setdefault(line, {})[rated.name] = of_set
        chain.progress.advance(1)
    return _report(sets, scores, chain)


def _open_raters(chain: Chain) -> dict[str, list[Rater]]:
    """Return the raters of each line, one for each seed; the networks of the encoder rater are another line."""
    seed = chain.settings.seed
    towers = chain.carried_rater("encoder", seed)
    assert isinstance(towers, FrozenRater)
    opened: dict[str, list[Rater]] = {
        LINEAR: [chain.carried_rater("linear", seed)],
        TOWERS: [towers],
        f"{TOWERS}, a network alone": list(towers.of_heads()),
        DUAL: [chain.carried_rater("dual", seed + number) for number in range(_DUAL_SEEDS)],
    }
    has_bi_gru = artefact_stores(chain.home)["rater"].current(chain.artefact_name("proof")) is not None
    return {**opened, BI_GRU: [chain.rater()]} if has_bi_gru else opened


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _scores_of(
    rated: FairRows, opened: Mapping[str, Sequence[Rater]], encoder: Encoder, seeds: int
) -> Iterator[tuple[str, Floats]]:
    golds = [tuple(gold.text for gold in item.references if gold.source.value == "gold") for item in rated.items]
    for line, of_line in opened.items():
        yield line, np.concatenate([_ratings(rater, rated, [()] * len(golds)) for rater in of_line])
        if all(golds):
            yield f"{line} with golds", np.concatenate([_ratings(rater, rated, golds) for rater in of_line])
    cosines = _Cosines(encoder, rated)
    if all(golds):
        yield ENCODER_AND_GOLD, np.array([[cosines.of(row, golds[item]).max() for row, item in enumerate(rated.item)]])
    yield from _weighted(rated, {line: opened[line][0] for line in _WEIGHING}, cosines, seeds)


def _ratings(rater: Rater, rated: FairRows, golds: Sequence[tuple[str, ...]]) -> Floats:
    """Return the rating of each reply by the last turns, with golds or without."""
    requests = [
        RatingRequest(
            utterance=_utterance(rater, rated, item),
            golds=golds[item] or WITHOUT_GOLD,
            candidates=(Reference(text=reply),),
        )
        for item, reply in zip(rated.item.tolist(), rated.replies, strict=True)
    ]
    return np.array([[rating for (rating,) in rater.rate(requests)]])


def _utterance(rater: Rater, rated: FairRows, item: int) -> str:
    return rater.turn_separator.join(rated.items[item].turns[-_TURNS:])


class _Cosines:
    """Cosines of replies and other texts of a set."""

    def __init__(self, encoder: Encoder, rated: FairRows) -> None:
        texts = [reference.text for item in rated.items for reference in item.references]
        self._row = {text: row for row, text in enumerate(dict.fromkeys([*rated.replies, *texts]))}
        self._vectors = np.nan_to_num(of_unit_length(encoder.sentence_vectors(list(self._row))))
        self._replies = rated.replies

    def of(self, row: int, texts: Sequence[str]) -> Floats:
        """Return those of the reply of a row with some texts."""
        own = self._vectors[self._row[self._replies[row]]]
        return np.asarray(self._vectors[[self._row[text] for text in texts]] @ own)


def _weighted(
    rated: FairRows, raters_of: Mapping[str, Rater], cosines: _Cosines, seeds: int
) -> Iterator[tuple[str, Floats]]:
    """Yield the scores by retrieved references under each kind of weights; items without any have 0."""
    references = [retrieved_of(item) for item in rated.items]
    likeness = [np.clip([reference.similarity or 0.0 for reference in found], 0, 1) for found in references]
    like = [cosines.of(row, [one.text for one in references[item]]) for row, item in enumerate(rated.item.tolist())]

    def scores(weights: Sequence[Floats]) -> Floats:
        return np.array(
            [_mean_of_best(like[row] * weights[item]) for row, item in enumerate(rated.item.tolist())], np.float64
        )

    yield ONE, scores([np.ones(len(found)) for found in references])[None]
    yield SIMILARITY, scores(likeness)[None]
    for line, rater in raters_of.items():
        requests = [
            RatingRequest(utterance=_utterance(rater, rated, item), golds=WITHOUT_GOLD, candidates=found)
            for item, found in enumerate(references)
        ]
        weights = [(np.array(ratings) + 1) / 2 for ratings in rater.rate(requests)]
        yield f"{line}'s weights", scores(weights)[None]
        shuffled = [
            scores([np.random.default_rng([seed, item]).permutation(own) for item, own in enumerate(weights)])
            for seed in range(seeds)
        ]
        yield f"{line}'s {SHUFFLED}", np.stack(shuffled)


def _mean_of_best(weighted: Floats) -> float:
    return float(np.sort(weighted)[::-1][:_BEST].mean()) if len(weighted) else 0.0


# ── Figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(sets: Mapping[str, FairRows], scores: Mapping[str, SetScores], chain: Chain) -> ExperimentReport:
    settings = chain.settings
    grouped = GroupedSets(sets=sets, groups=GROUPS, draws=settings.draws, seed=settings.seed)
    goldless = replace(grouped, groups=GROUPS_WITHOUT_GOLD)
    with_golds = {line: grouped.of(_scorer(of_sets)) for line, of_sets in scores.items()}
    complete = {line: of_sets for line, of_sets in scores.items() if len(of_sets) == len(sets)}
    without = {line: goldless.of(_scorer(of_sets)) for line, of_sets in complete.items()}
    chain.progress.stage("leads")
    leads = {
        f"{line} over {other}": grouped.lead(_scorer(scores[line]), _scorer(scores[other]))
        for line, other in _compared(scores)
    }
    seeds = {line: _over_seeds(grouped, of_sets) for line, of_sets in scores.items() if _has_seeds(of_sets)}
    return ExperimentReport(
        name="raters",
        title="Raters that carry over, on replies and as weights",
        summary=tuple(f"{name}: {lead_cell(lead)}{_verdict(lead)}." for name, lead in leads.items()),
        sections=[
            Section(
                title="Raters of replies, and weights of retrieved references",
                text=(
                    "Spearman on rows that rate no gold, means of groups of sets by corpus; partial: a line in the "
                    "rank of the reply's length is taken off. Intervals are of paired bootstraps over contexts. Where "
                    "a line has several seeds, its figures are the means over them; the shuffled weights are "
                    f"those over {settings.seeds} draws.",
                ),
                tables=[
                    _table("Agreement", with_golds),
                    _table("Agreement without golds", without),
                    Table(
                        title="Leads",
                        columns=("", "Spearman"),
                        rows=[[name, f"{lead_cell(lead)}{_verdict(lead)}"] for name, lead in leads.items()],
                    ),
                    _table_of_seeds(seeds),
                ],
            )
        ],
        notes=() if BI_GRU in scores else ("The home has no Bi-GRU of these logs: other parts train it.",),
        data={
            "agreement": {line: figures.as_json() for line, figures in with_golds.items()},
            "without gold": {line: figures.as_json() for line, figures in without.items()},
            "leads": {name: [lead.value, lead.low, lead.high] for name, lead in leads.items()},
            "means by seed": {line: [round(mean, 4) for mean in means] for line, means in seeds.items()},
        },
        sets=tuple(sets.values()),
    )


def _has_seeds(of_sets: SetScores) -> bool:
    return len(next(iter(of_sets.values()))) > 1


def _over_seeds(grouped: GroupedSets, of_sets: SetScores) -> list[float]:
    """Return the mean of the groups for each seed of a line."""
    count = len(next(iter(of_sets.values())))
    by_seed = [{name: scores[seed : seed + 1] for name, scores in of_sets.items()} for seed in range(count)]
    return [grouped.of(_scorer(of_seed)).mean for of_seed in by_seed]


def _table_of_seeds(seeds: Mapping[str, Sequence[float]]) -> Table:
    rows = [
        [
            line,
            str(len(means)),
            *(short(figure) for figure in (float(np.mean(means)), min(means), max(means))),
            f"{np.std(means, ddof=1):.3f}",
        ]
        for line, means in seeds.items()
    ]
    columns = ("", "seeds", "mean", "lowest", "highest", "standard deviation")
    return Table(title="Spread over seeds, of the means of all groups", columns=columns, rows=rows)


def _scorer(of_sets: SetScores) -> Scorer:
    return lambda rated: of_sets[rated.name]


def _compared(scores: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield which lines are compared."""
    yield TOWERS, LINEAR
    yield f"{TOWERS} with golds", f"{LINEAR} with golds"
    for line in (TOWERS, LINEAR, DUAL):
        yield f"{line} with golds", ENCODER_AND_GOLD
        if BI_GRU in scores:
            yield line, BI_GRU
    for line in _WEIGHING:
        for other in (ONE, f"{line}'s {SHUFFLED}", SIMILARITY):
            yield f"{line}'s weights", other


def _verdict(lead: IntervalEstimate) -> str:
    assert lead.low is not None
    assert lead.high is not None
    return " (not shown)" if lead.low <= 0 <= lead.high else ""


def _table(title: str, agreement: Mapping[str, GroupedAgreement]) -> Table:
    groups = list(next(iter(agreement.values())).groups)
    rows = [
        [line, short(figures.mean), short(figures.partial), *(short(figures.groups[group]) for group in groups)]
        for line, figures in agreement.items()
    ]
    return Table(title=title, columns=("", "mean", "partial", *groups), rows=rows)
