"""The claims and differences of `reproduce weights`, and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate
from refaug.evaluation.reproduction.material import judged_replies
from refaug.evaluation.reproduction.material.metric_lines import GREEDY
from refaug.evaluation.reproduction.material.reference_kinds import GOLD, ONE, RATED

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
