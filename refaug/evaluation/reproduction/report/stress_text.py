"""The text, tables and plots of the stress report: which candidates survive, where others fail, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.figures import noninferiority
from refaug.evaluation.reproduction.figures.correlations import MEAN
from refaug.evaluation.reproduction.material.metric_candidates import MetricCandidate
from refaug.evaluation.reproduction.report.plots import bars
from refaug.evaluation.reproduction.report.report import IN_WORDS, Section, about_table, agreement_table, cell, short


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
