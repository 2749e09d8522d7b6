"""The lines of the main table of `reproduce metrics`: baselines, the published method, RUBER, and refaug-1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.core.errors import RefaugError
from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, Line
from refaug.extras.reproduction.material import judged_replies, reference_kinds
from refaug.extras.reproduction.material.metric_lines import (
    GREEDY,
    VECTORS,
    WORDS,
    MetricLines,
    MetricOnReferences,
    further_references,
    published_line,
    published_name,
)
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import GOLD, ONE, RATED
from refaug.metrics.base import Floats
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL, partial_spearman
from refaug.metrics.statistics.correlation import spearman as spearman_of
from refaug.scoring.settings import AugmentSettings

BLEU, BLEU_AT_BEST = "BLEU-2, gold", "BLEU-2, gold, best setting"
BLEU_AT_BEST_GIVEN_LENGTH: Final = "BLEU-2, gold, best setting given length"
BASELINES: Final = {"spearman": BLEU_AT_BEST, PARTIAL: BLEU_AT_BEST_GIVEN_LENGTH}  # the best baseline by each kind
PENALTIES: Final = ("closest", "none")
SMOOTHINGS: Final = ("none", "floor", "add-k", "exp", "epsilon")
_BLENDS: Final = ("min", "max", "arithmetic", "geometric")
DEFAULT: Final = MetricOnReferences(name="υBLEU, default", metric="upsilon-bleu", kind=reference_kinds.RATED)
_FIXED: Final = (
    MetricOnReferences(name="greedy, gold", metric=f"upsilon-greedy:{GREEDY}"),
    MetricOnReferences(name="rater on the reply", metric="rater:target=reply"),
    MetricOnReferences(name="rater on the reply, three turns", metric="rater:target=reply,turns=3"),
)
_UNREFERENCED: Final = "RUBER, unreferenced"
_FURTHER: Final = {  # other υ-metrics, with their specifications
    "υ-chrF": "upsilon-chrf",
    "υ-ROUGE-L": "upsilon-rouge-l",
    "υ-average": f"upsilon-embedding-average:weighting=sif,vectors={VECTORS}",
    "υ-METEOR": "upsilon-meteor",
}


@dataclass(frozen=True, kw_only=True)
class MainLines:
    """The lines of the main table."""

    lines: tuple[Line, ...]
    published: str  # the line of the published method
    gaps: tuple[str, ...]


def main_lines_of(metric_lines: MetricLines, sets: Sequence[ProofSet]) -> MainLines:
    """Compute the lines; `sets` have all of their references, those of `made` the first one alone.

    What this home or run has not got becomes a gap.
    """
    gaps = list[str]()
    baselines = [
        plain_line(metric_lines.sets, BLEU, "bleu"),
        line_at_best(metric_lines.sets, BLEU_AT_BEST, "bleu", PENALTIES),
        line_at_best(metric_lines.sets, BLEU_AT_BEST_GIVEN_LENGTH, "bleu", PENALTIES, PARTIAL),
        line_at_best(metric_lines.sets, "BLEU-4, gold, best setting", "bleu:n=4", PENALTIES),
        plain_line(metric_lines.sets, "chrF, gold", "chrf"),
    ]
    several = [rated_set for rated_set in sets if any(len(test_item.references) > 1 for test_item in rated_set.items)]
    if several:
        penalties = (*PENALTIES, "average", "gold")
        baselines.append(line_at_best(sets, "BLEU-2, all human references, best setting", "multi-bleu", penalties))
    length = Line(
        name="length",
        scores={rated_set.name: rated_set.lengths[None] for rated_set in metric_lines.sets},
        about="tokens of the reply",
    )

    def lines_or_gap(name: str, lines: Iterable[Line]) -> Iterator[Line]:
        try:
            yield from lines
        except RefaugError as error:
            gaps.append(f"{name} is missing: {metric_lines.chain.public_message(error)}")

    lines = (
        length,
        *baselines,
        metric_lines.line(DEFAULT),
        published_line(metric_lines.chain, metric_lines.sets),
        *(line for further in _further() for line in lines_or_gap(further.name, map(metric_lines.line, [further]))),
        *map(metric_lines.line, _FIXED),
        *lines_or_gap("RUBER", _ruber_lines(metric_lines)),
        *lines_or_gap("refaug-1", _recommended_lines(metric_lines)),
    )
    return MainLines(lines=lines, published=published_name(metric_lines.chain), gaps=tuple(gaps))


def plain_line(sets: Sequence[ProofSet], name: str, specification: str) -> Line:
    """Return the line of one metric on the references that the sets come with."""
    return reference_kinds.line_of(name, sets, build(specification), about=specification)


def line_at_best(
    sets: Sequence[ProofSet], name: str, specification: str, penalties: Sequence[str], kind: str = "spearman"
) -> Line:
    """Return a baseline at its best setting on each set: an advantage that our metrics do not get.

    The setting that is best by Spearman switches the penalty off, and is far from the best once length is held fixed.
    So each kind of correlation needs its own baseline.
    """
    mark = "," if ":" in specification else ":"
    grid = [
        plain_line(
            sets, f"{specification}{mark}smooth={smooth},bp={bp}", f"{specification}{mark}smooth={smooth},bp={bp}"
        )
        for smooth in SMOOTHINGS
        for bp in penalties
    ]
    scores, settings = dict[str, Floats](), list[str]()
    for rated_set in sets:
        best = max(grid, key=lambda line: _correlation(line.scores[rated_set.name][0], rated_set, kind))
        scores[rated_set.name] = best.scores[rated_set.name]
        settings.append(f"{rated_set.name}: {best.name}")
    return Line(name=name, scores=scores, about="; ".join(settings))


def _correlation(scores: Floats, rated_set: ProofSet, kind: str) -> float:
    rows = rated_set.fair & np.isfinite(scores)
    values, ratings = scores[rows], rated_set.ratings[rows]
    correlation = (
        partial_spearman(values, ratings, rated_set.lengths[rows]) if kind == PARTIAL else spearman_of(values, ratings)
    )
    return -1.0 if correlation.value is None else correlation.value


def _further() -> Iterator[MetricOnReferences]:
    """Yield other υ-metrics on the same references."""
    for name, specification in _FURTHER.items():
        yield MetricOnReferences(name=name, metric=specification, kind=reference_kinds.RATED, mode=WORDS)


def _ruber_lines(metric_lines: MetricLines) -> Iterator[Line]:
    """Yield RUBER, its parts and blends."""
    sets, relevance = metric_lines.sets, metric_lines.chain.relevance()
    yield reference_kinds.line_of(_UNREFERENCED, sets, relevance, about="how well it goes with the utterance")
    yield from map(metric_lines.line, ruber_metrics())


def ruber_metrics() -> list[MetricOnReferences]:
    """Return the referenced part and all four blends, also with υBLEU: the paper does not say which blend it used."""
    pooled = f"vectors={VECTORS}"
    specifications = {"RUBER, referenced": (f"pooled:{pooled}", reference_kinds.GOLD)}
    for blend in _BLENDS:
        specifications[f"RUBER, {blend}"] = (f"ruber:blend={blend},{pooled}", reference_kinds.GOLD)
    specifications["RUBER, arithmetic, scaled by the test set"] = (f"ruber:norm=test,{pooled}", reference_kinds.GOLD)
    for blend in _BLENDS:
        specifications[f"RUBER + υBLEU, {blend}"] = (
            f"ruber:blend={blend},referenced=upsilon-bleu;bp=none",
            reference_kinds.RATED,
        )
    return [
        MetricOnReferences(name=name, metric=specification, kind=kind, mode=WORDS)
        for name, (specification, kind) in specifications.items()
    ]


def _recommended_lines(metric_lines: MetricLines) -> Iterator[Line]:
    """Yield what one would use without an index, the encoder and the gold, and refaug-1."""
    chain, sets = metric_lines.chain, metric_lines.sets
    metric, settings = chain.recommended_metric(), AugmentSettings(preset="refaug-1")
    index = chain.encoder_index()
    items = {each.name: chain.augmented_items(each, index, None, settings) for each in sets}
    cosine = build(f"sentence-cosine:vectors={chain.settings.encoder}", source=chain.models)
    yield reference_kinds.line_of("encoder and gold", sets, cosine, about="sentence-cosine")
    yield reference_kinds.line_of(
        "refaug-1", sets, metric, lambda each, _seed: further_references(items[each.name]), about="refaug-1"
    )


# ── The claims and differences of `reproduce weights`, and their figures ──────────────────────────────────────────────

METRICS: Final = {
    "ΔBLEU": "delta-bleu",
    "ΔBLEU without penalty": "delta-bleu:bp=none",
    "ΔBLEU without smoothing": "delta-bleu:smooth=none",
    "ΔBLEU with neither": "delta-bleu:smooth=none,bp=none",
    "υ-greedy": f"upsilon-greedy:{GREEDY}",
}
CLAIMS: Final = {  # claim → the line that has to be above, and the line that it has to beat
    "other replies as references, each worth 1, beat the gold alone": (ONE, GOLD),
    "weights by people beat weights of one": (judged_replies.PEOPLE, ONE),
    "weights by people beat the same ones dealt out anew": (judged_replies.PEOPLE, judged_replies.SHUFFLED_PEOPLE),
    "rated weights beat weights of one": (RATED, ONE),
    "rated weights beat the same ones dealt out anew": (RATED, judged_replies.SHUFFLED_RATED),
}
OTHER_DIFFERENCES: Final = {  # differences about which there is no claim
    "rated less people": {RATED: 1.0, judged_replies.PEOPLE: -1.0},
    "rated less people, each over its own weights dealt out anew": {
        RATED: 1.0,
        judged_replies.SHUFFLED_RATED: -1.0,
        judged_replies.PEOPLE: -1.0,
        judged_replies.SHUFFLED_PEOPLE: 1.0,
    },
    "people's weights dealt out anew less weights of one": {judged_replies.SHUFFLED_PEOPLE: 1.0, ONE: -1.0},
    "rated weights dealt out anew less weights of one": {judged_replies.SHUFFLED_RATED: 1.0, ONE: -1.0},
}
NEAR: Final = tuple(OTHER_DIFFERENCES)[:2]  # the differences that test whether rated weights are as good as people's
SHARES: Final = {  # subtrahend of the gain → the rated gain, and the gain of people's weights
    "weights of one": ((RATED, ONE), (judged_replies.PEOPLE, ONE)),
    "the same weights dealt out anew": (
        (RATED, judged_replies.SHUFFLED_RATED),
        (judged_replies.PEOPLE, judged_replies.SHUFFLED_PEOPLE),
    ),
}
EQUIVALENCE_MARGIN: Final = (
    0.06  # two lines nearer than this count as equally good: sets of a hundred contexts tell no more
)


def comparisons() -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the comparisons: claims, and other differences."""
    yield from ((claim, {above: 1.0, below: -1.0}) for claim, (above, below) in CLAIMS.items())
    yield from OTHER_DIFFERENCES.items()


def scopes_of(by_metric: Mapping[str, Correlations]) -> tuple[str, ...]:
    """Return the sets and the mean, as every metric has them."""
    return next(iter(by_metric.values())).table_scopes


def alike(differences: Sequence[IntervalEstimate]) -> str:
    """Say whether two lines agree equally well with people; that no difference is sure is not enough for that."""
    if all(
        difference.low is not None
        and difference.high is not None
        and -EQUIVALENCE_MARGIN < difference.low <= difference.high < EQUIVALENCE_MARGIN
        for difference in differences
    ):
        return "alike"
    return "not shown to be alike"


def share_of_gain(correlations: Correlations, over: str, kind: str, scope: str) -> IntervalEstimate:
    """Return the ratio of the rated gain to the gain of people's weights."""
    (rated, subtrahend), (people, below) = SHARES[over]
    return correlations.ratio({rated: 1.0, subtrahend: -1.0}, {people: 1.0, below: -1.0}, kind, scope)


def differences_json(correlations: Correlations) -> dict[str, object]:
    """Return the figures of every comparison, for programs."""
    return {
        label: {
            kind: {scope: correlations.weighted_sum(shares, kind, scope).as_json() for scope in correlations.scopes}
            for kind in judged_replies.KINDS
        }
        for label, shares in comparisons()
    }


def shares_json(correlations: Correlations) -> dict[str, object]:
    """Return the figures of every share, for programs."""
    return {
        over: {
            kind: {scope: share_of_gain(correlations, over, kind, scope).as_json() for scope in correlations.scopes}
            for kind in judged_replies.KINDS
        }
        for over in SHARES
    }


def counts_json(weighted_set: judged_replies.WeightedSet) -> dict[str, object]:
    """Return how many references the rows of a set have, for programs."""
    counts = weighted_set.counts
    return {
        "rows": len(counts),
        "contexts": weighted_set.contexts,
        "others": {"fewest": int(counts.min()), "mean": round(float(counts.mean()), 2), "most": int(counts.max())},
    }
