"""`reproduce stress`: which gains remain with a log of another domain, a small log, or raters who like length.

Both rated sets were collected alike: their raters prefer short replies, and everyday dialogues are at hand to retrieve
from. A metric that was chosen on them may owe its gain to that. The stresses take these advantages away, and a metric
counts as a remedy only where it is not inferior to the same metric with the gold alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.evaluation.reproduction.figures import noninferiority
from refaug.evaluation.reproduction.figures.correlations import Line, correlate
from refaug.evaluation.reproduction.figures.length_stress import resampled_situation
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.chain import Chain, IndexRecipe
from refaug.evaluation.reproduction.material.proof_logs import ELSEWHERE, EVERYDAY
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import require_references
from refaug.evaluation.reproduction.material.reference_kinds import RATED, Pool, ReplySample
from refaug.evaluation.reproduction.report.report import Report
from refaug.evaluation.reproduction.report.stress_text import sections_of, summary_of, survives
from refaug.indexer.search.search_settings import Mode

TARGETS: Final = (0.0, 0.25)  # Spearman of length and rating; in the fair rows of both sets it is −.22
SMALL_SHARE: Final = 0.01  # of the everyday logs
_POSITIVES: Final = 20_000  # an epoch, drawn anew for each, of the rater of other domains: it is made in minutes

CANDIDATES: Final = (
    metric_candidates.MetricCandidate(
        name="υBLEU, closest",
        why="the default",
        family="bleu",
        metric="upsilon-bleu:bp=closest",
        kind=RATED,
    ),
    metric_candidates.MetricCandidate(
        name="υBLEU, no penalty",
        why="many lengths switch a penalty off anyway",
        family="bleu",
        metric="upsilon-bleu:bp=none",
        kind=RATED,
    ),
    metric_candidates.MetricCandidate(
        name="υ-greedy, best",
        why="soft matches, rare words weighted up",
        family="greedy",
        metric=f"upsilon-greedy:agg=best,{metric_candidates.GREEDY}",
        kind=RATED,
    ),
    metric_candidates.MetricCandidate(
        name="υ-greedy, best three and gold",
        why="the gold stays in the sum",
        family="greedy",
        metric=f"upsilon-greedy:agg=mean-best-3,keep-gold=yes,{metric_candidates.GREEDY}",
        kind=RATED,
    ),
    metric_candidates.REPLY,
    metric_candidates.MetricCandidate(
        name="ranks: rater + greedy, gold + υ-greedy, best",
        why="the gold counts as much as everything retrieved",
        family="sum",
        sum_of=(metric_candidates.REPLY.name, metric_candidates.GREEDY_GOLD.name, "υ-greedy, best"),
    ),
    metric_candidates.REPLY_TO_THREE,
    metric_candidates.GREEDY_BY_WORDS,
    metric_candidates.MetricCandidate(
        name="ranks: rater, three turns + υ-greedy, words",
        why="the best of the sums on the sets at hand",
        family="sum",
        sum_of=(metric_candidates.REPLY_TO_THREE.name, metric_candidates.GREEDY_BY_WORDS.name),
    ),
    metric_candidates.RECOMMENDED,
    metric_candidates.EVEN_JUDGE,
)


class _TrialWithOwnReplies(metric_candidates.Trial):
    """A trial whose controls are drawn from the log of its index."""

    def __init__(self, chain: Chain, sets: Sequence[ProofSet], *, sample: ReplySample, **options: Any) -> None:
        super().__init__(chain, sets, **options)
        self._sample, self._own = sample, dict[tuple[str, Mode], Pool]()

    def pool(self, rated_set: ProofSet, mode: Mode = metric_candidates.EMBEDDING) -> Pool:
        """Return the references for a set, with replies of that log to draw from."""
        if (rated_set.name, mode) not in self._own:
            self._own[rated_set.name, mode] = replace(super().pool(rated_set, mode), sample=self._sample)
        return self._own[rated_set.name, mode]


def stress(
    chain: Chain, sets: Sequence[ProofSet], candidates: Sequence[metric_candidates.MetricCandidate] = CANDIDATES
) -> Report:
    """Try the candidates in every situation, and report which of them survive."""
    single, candidate_list = (
        [rated_set.with_first_gold() for rated_set in sets],
        noninferiority.CandidateList.of(candidates),
    )
    situations = list(_situations(chain, single, candidate_list))
    return Report(
        name="stress",
        title="What remains of the gain where logs and raters are other than here",
        summary=summary_of(candidate_list, situations),
        sections=sections_of(candidate_list, situations),
        notes=(
            *(f"{situation.name}: {situation.gap}" for situation in situations if situation.gap),
            *(
                f"{situation.name}, {name}: {why}"
                for situation in situations
                for name, why in situation.missing.items()
            ),
            *(f"{situation.name}: {reason}" for situation in situations for reason in situation.sets_left_out),
            *(f"{rated_set.name}: {note}" for rated_set in sets for note in rated_set.notes),
        ),
        data={
            "rule": {
                "least_difference": noninferiority.LEAST_POINT,
                "lower_bound_above": noninferiority.LEAST_LOW,
                "kinds": list(noninferiority.KINDS),
            },
            "candidates": [candidate.as_json() for candidate in candidate_list.candidates],
            "gold_alone": {
                candidate.name: "; ".join(
                    held.name for held in noninferiority.baselines_of(candidate, candidate_list.by_name)
                )
                for candidate in candidate_list.candidates
            },
            "situations": {situation.name: situation.as_json() for situation in situations},
            "survives": {candidate.name: survives(candidate, situations) for candidate in candidate_list.candidates},
        },
    )


def _situations(
    chain: Chain, sets: Sequence[ProofSet], candidate_list: noninferiority.CandidateList
) -> Iterator[noninferiority.Situation]:
    main = metric_candidates.Trial(chain, sets)
    yield _try_candidates(
        candidate_list,
        candidate_list.candidates,
        "as it is",
        "References from everyday logs, for the sets as they are.",
        lambda: main,
        chain,
        is_stress=False,
    )
    yield from _elsewhere(chain, sets, candidate_list)
    for target in TARGETS:
        yield resampled_situation(chain, candidate_list, main, target)
    small = tuple(chain.select(log, SMALL_SHARE) for log in EVERYDAY)
    yield _try_candidates(
        candidate_list,
        candidate_list.candidates,
        f"{SMALL_SHARE:.0%} of the log".replace("%", " %"),
        "References from so few of the dialogues; word vectors, rater, and what counts as 0 and 1 of the parts of a "
        "blend are those of the whole logs.",
        lambda: metric_candidates.Trial(
            chain,
            sets,
            index=chain.index(IndexRecipe(name="proof-small-log", selections=small)),
            scale_index=chain.main_index(),
        ),
        chain,
    )


def _elsewhere(
    chain: Chain, sets: Sequence[ProofSet], candidate_list: noninferiority.CandidateList
) -> Iterator[noninferiority.Situation]:
    """Try references of other domains, weighted by the everyday rater, and by a rater of those domains alone."""
    selection = chain.select("medium", sources=ELSEWHERE)
    sources = "technical chat, table-top play and task dialogues"

    def trial(*, own_rater: bool) -> metric_candidates.Trial:
        index = chain.index(IndexRecipe(name="proof-elsewhere", selections=(selection,)))
        rater = (
            chain.rater((selection,), name="proof-elsewhere", preset="small", positives=_POSITIVES)
            if own_rater
            else None
        )
        return _TrialWithOwnReplies(chain, sets, sample=chain.reply_sample(selection), index=index, rater=rater)

    yield _try_candidates(
        candidate_list,
        candidate_list.candidates,
        "log of other domains",
        f"References from {sources}; word vectors and rater are the everyday ones.",
        lambda: trial(own_rater=False),
        chain,
    )
    asking = [
        candidate
        for candidate in candidate_list.candidates
        if noninferiority.asks_rater(candidate, candidate_list.by_name)
    ]
    if not asking:
        return
    yield _try_candidates(
        candidate_list,
        asking,
        "log and rater of other domains",
        f"References from {sources}, and a rater of preset small that was trained on nothing else: only for "
        "candidates that ask a rater.",
        lambda: trial(own_rater=True),
        chain,
    )


def _try_candidates(
    candidate_list: noninferiority.CandidateList,
    candidates: Sequence[metric_candidates.MetricCandidate],
    name: str,
    about: str,
    trial_of: Callable[[], metric_candidates.Trial],
    chain: Chain,
    *,
    is_stress: bool = True,
) -> noninferiority.Situation:
    """Try candidates on all rows of the sets, with the references of another index."""
    try:
        trial = trial_of()
        for rated_set in trial.sets:
            require_references(rated_set, trial.pool(rated_set))
    except BadInput as error:
        return noninferiority.Situation(name=name, about=about, gap=chain.public_message(error), is_stress=is_stress)
    chain.progress.stage(f"scoring: {name}")
    lines, missing = list[Line](), dict[str, str]()
    for candidate in candidate_list.with_controls(candidates):
        try:
            lines.append(trial.line(candidate, candidate_list.by_name))
        except BadInput as error:
            missing[candidate.name] = chain.public_message(error)
    correlations = correlate(
        trial.sets, lines, kinds=noninferiority.KINDS, draws=chain.settings.draws, seed=chain.settings.seed
    )
    return noninferiority.Situation(
        name=name,
        about=about,
        correlations=correlations,
        lines=lines,
        verdicts=candidate_list.verdicts(
            correlations, [candidate for candidate in candidates if candidate.name not in missing]
        ),
        missing=missing,
        is_stress=is_stress,
    )
