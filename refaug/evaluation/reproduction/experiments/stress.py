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
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.figures import noninferiority
from refaug.evaluation.reproduction.figures.correlations import MEAN, Line, correlate
from refaug.evaluation.reproduction.figures.length_stress import resampled_situation
from refaug.evaluation.reproduction.material import metric_candidates
from refaug.evaluation.reproduction.material.chain import Chain, IndexRecipe
from refaug.evaluation.reproduction.material.metric_candidates import MetricCandidate
from refaug.evaluation.reproduction.material.proof_logs import ELSEWHERE, EVERYDAY
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import require_references
from refaug.evaluation.reproduction.material.reference_kinds import RATED, Pool, ReplySample
from refaug.evaluation.reproduction.report.plots import bars
from refaug.evaluation.reproduction.report.report import (
    IN_WORDS,
    Report,
    Section,
    about_table,
    agreement_table,
    cell,
    short,
)
from refaug.indexer.search.search_settings import Mode


def survives(candidate: MetricCandidate, situations: Sequence[noninferiority.Situation]) -> bool | None:
    """Say whether a candidate passes under every stress that it can be tried under; None where a stress is a gap."""
    verdicts = [
        _verdict(situation, candidate)
        for situation in situations
        if situation.is_stress and _is_tried(situation, candidate)
    ]
    if any(verdict is not None and verdict.passes is False for verdict in verdicts):
        return False
    return None if any(verdict is None or verdict.passes is None for verdict in verdicts) else True


def _is_tried(situation: noninferiority.Situation, candidate: MetricCandidate) -> bool:
    return situation.verdicts is None or candidate.name in {*situation.verdicts, *situation.missing}


def _is_untouched(
    situation: noninferiority.Situation, candidate: MetricCandidate, situations: Sequence[noninferiority.Situation]
) -> bool:
    """Say whether all figures equal those without a stress: then the stress tells nothing about the candidate."""
    verdict = _verdict(situation, candidate)
    return verdict is not None and any(
        _verdict(other, candidate) == verdict for other in situations if not other.is_stress
    )


def _verdict(situation: noninferiority.Situation, candidate: MetricCandidate) -> noninferiority.Verdict | None:
    return (situation.verdicts or {}).get(candidate.name)


def summary_of(
    candidate_list: noninferiority.CandidateList, situations: Sequence[noninferiority.Situation]
) -> list[str]:
    """Say which candidates survive, where the others fail, and where a gain is shown."""
    outcome = {candidate.name: survives(candidate, situations) for candidate in candidate_list.candidates}
    stresses = [situation for situation in situations if situation.is_stress]
    good = [name for name, passes in outcome.items() if passes]
    sentences = [
        f"Not inferior means: against the same metric with the gold alone, on the mean of the groups of sets, a "
        f"difference of at least {short(noninferiority.LEAST_POINT, 2)} and a lower bound above "
        f"{short(noninferiority.LEAST_LOW, 2)}, in Spearman "
        f"and in partial Spearman given length.",
        f"Of {len(outcome):,} candidates {len(good):,} {'survives' if len(good) == 1 else 'survive'} "
        f"all {len(stresses)} stresses" + (f": {'; '.join(good)}." if good else "."),
    ]
    if gaps := [situation.name for situation in stresses if situation.verdicts is None]:
        sentences.append(
            f"{len(gaps)} of the stresses could not be tried, and nobody survives those: {'; '.join(gaps)}."
        )
    for candidate in candidate_list.candidates:
        failed = [
            situation.name
            for situation in stresses
            if (verdict := _verdict(situation, candidate)) and verdict.passes is False
        ]
        if failed:
            sentences.append(f"{candidate.name} fails: {'; '.join(failed)}.")
        elif outcome[candidate.name] is None:
            sentences.append(f"{candidate.name} is not judged under every stress: see the gaps.")
    for name in good:
        better = [
            situation.name
            for situation in situations
            if (verdict := (situation.verdicts or {}).get(name)) and verdict.is_better
        ]
        where = f"shown in: {'; '.join(better)}; not shown elsewhere" if better else "not shown anywhere"
        sentences.append(f"{name}: a gain over the gold alone, in both correlations, is {where}.")
    sentences += [
        f"{candidate.name} looks at nothing that changes in: {'; '.join(untouched)}; nothing is tried."
        for candidate in candidate_list.candidates
        if (untouched := [situation.name for situation in stresses if _is_untouched(situation, candidate, situations)])
    ]
    sentences.append(
        "Some of the candidates were chosen on these very sets, so that their gains there look better than they are: "
        "the figure to quote is the one out of fold, of the part metrics."
    )
    return sentences


def sections_of(
    candidate_list: noninferiority.CandidateList, situations: Sequence[noninferiority.Situation]
) -> list[Section]:
    """Return the sections: the outcome first, then situation by situation."""
    shown = [situation for situation in situations if situation.correlations is not None]
    stresses = [situation for situation in shown if situation.is_stress]
    overview = Section(
        title="What survives",
        text=(
            "Each candidate is held to the same metric with the gold alone; the rater on the reply, which has no such "
            "form, to soft matches with the gold; a sum of ranks to the last metric in it that matches words; a judge "
            "of several metrics to the gold alone of each that matches words.",
        ),
        tables=[
            _outcome_table(candidate_list, situations),
            *(_difference_table(candidate_list, situations, kind) for kind in noninferiority.KINDS),
            *(about_table(situation.lines) for situation in shown[:1]),
        ],
        plots=[_plot(candidate_list, stresses, kind) for kind in noninferiority.KINDS] if stresses else [],
    )
    return [overview, *(_section(situation) for situation in shown)]


def _section(situation: noninferiority.Situation) -> Section:
    assert situation.correlations is not None
    return Section(
        title=situation.name[0].upper() + situation.name[1:],
        text=(situation.about,),
        tables=[agreement_table(situation.correlations, situation.name), *situation.tables],
    )


def _outcome_table(
    candidate_list: noninferiority.CandidateList, situations: Sequence[noninferiority.Situation]
) -> Table:
    stresses = [situation for situation in situations if situation.is_stress]
    rows = []
    for candidate in candidate_list.candidates:
        outcome = survives(candidate, situations)
        cells = [
            _in_words(situation, candidate) + (", untouched" if _is_untouched(situation, candidate, situations) else "")
            for situation in stresses
        ]
        rows.append([candidate.name, *cells, {True: "yes", False: "no", None: "not judged"}[outcome]])
    return Table(
        title="Not inferior to the gold alone",
        columns=("", *(situation.name for situation in stresses), "survives"),
        rows=rows,
        notes=("untouched: the stress changes nothing that the candidate looks at, so passing it says nothing",),
    )


def _in_words(situation: noninferiority.Situation, candidate: MetricCandidate) -> str:
    verdict = _verdict(situation, candidate)
    if verdict is not None:
        return verdict.in_words
    if situation.verdicts is None or candidate.name in situation.missing:
        return "not judged"
    return "asks no rater"


def _difference_table(
    candidate_list: noninferiority.CandidateList, situations: Sequence[noninferiority.Situation], kind: str
) -> Table:
    rows = []
    for candidate in candidate_list.candidates:
        verdicts = [_verdict(situation, candidate) for situation in situations]
        first, *further = noninferiority.baselines_of(candidate, candidate_list.by_name)
        cells = ["–" if verdict is None else cell(verdict.differences[kind]) for verdict in verdicts]
        rows.append([candidate.name, first.name, *cells])
        for baseline in further:
            cells = ["–" if verdict is None else cell(verdict.further[baseline.name][kind]) for verdict in verdicts]
            rows.append([candidate.name, baseline.name, *cells])
    return Table(
        title=f"{IN_WORDS[kind]} less that of the gold alone, {MEAN}",
        columns=("", "held to", *(situation.name for situation in situations)),
        rows=rows,
    )


def _plot(
    candidate_list: noninferiority.CandidateList, situations: Sequence[noninferiority.Situation], kind: str
) -> Plot:
    shown_bars = [
        (candidate.name, situation.name, verdict.differences[kind])
        for candidate in candidate_list.candidates
        for situation in situations
        if (verdict := _verdict(situation, candidate)) is not None
    ]
    return bars(
        f"stress-{kind}.png",
        f"{IN_WORDS[kind]} of each candidate less that of the same metric with the gold alone, by situation",
        [name for name, _, _ in shown_bars],
        [estimate for _, _, estimate in shown_bars],
        groups=[situation for _, situation, _ in shown_bars],
        x_label=f"{IN_WORDS[kind]} less the gold alone",
    )


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
