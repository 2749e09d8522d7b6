"""What the page of the stress tests says: which candidates survive, where others fail, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from service.pages import Table
from service.plotting import Plot
from service.proof.candidates import Candidate
from service.proof.figures import MEAN
from service.proof.noninferiority import KINDS, LEAST_LOW, LEAST_POINT, Situation, Tried, Verdict, gold_alone
from service.proof.plots import bars
from service.proof.report import IN_WORDS, Section, about_table, agreement_table, cell, short


def survives(candidate: Candidate, found: Sequence[Situation]) -> bool | None:
    """Whether it passes under every stress that it can be tried under; None where one of them is a gap."""
    verdicts = [_verdict(one, candidate) for one in found if one.is_stress and _is_tried(one, candidate)]
    if any(one is not None and one.passes is False for one in verdicts):
        return False
    return None if any(one is None or one.passes is None for one in verdicts) else True


def _is_tried(situation: Situation, candidate: Candidate) -> bool:
    return situation.verdicts is None or candidate.name in {*situation.verdicts, *situation.missing}


def _is_untouched(situation: Situation, candidate: Candidate, found: Sequence[Situation]) -> bool:
    """Whether every figure is that of the sets as they are: a stress that does not reach a candidate tells nothing."""
    verdict = _verdict(situation, candidate)
    return verdict is not None and any(_verdict(one, candidate) == verdict for one in found if not one.is_stress)


def _verdict(situation: Situation, candidate: Candidate) -> Verdict | None:
    return (situation.verdicts or {}).get(candidate.name)


def summary_of(tried: Tried, found: Sequence[Situation]) -> list[str]:
    """What survives, what does not and where, and where a gain is shown."""
    outcome = {one.name: survives(one, found) for one in tried.candidates}
    stresses = [one for one in found if one.is_stress]
    good = [name for name, passes in outcome.items() if passes]
    said = [
        f"Not inferior means: against the same metric with the gold alone, on the mean of the sets, a difference of at "
        f"least {short(LEAST_POINT, 2)} and a lower bound above {short(LEAST_LOW, 2)}, in Spearman and in partial "
        f"Spearman given length.",
        f"Of {len(outcome):,} candidates {len(good):,} {'survives' if len(good) == 1 else 'survive'} "
        f"all {len(stresses)} stresses" + (f": {'; '.join(good)}." if good else "."),
    ]
    if gaps := [one.name for one in stresses if one.verdicts is None]:
        said.append(f"{len(gaps)} of the stresses could not be tried, and nobody survives those: {'; '.join(gaps)}.")
    for candidate in tried.candidates:
        failed = [one.name for one in stresses if (verdict := _verdict(one, candidate)) and verdict.passes is False]
        if failed:
            said.append(f"{candidate.name} fails: {'; '.join(failed)}.")
        elif outcome[candidate.name] is None:
            said.append(f"{candidate.name} is not judged under every stress: see the gaps.")
    for name in good:
        better = [one.name for one in found if (verdict := (one.verdicts or {}).get(name)) and verdict.is_better]
        where = f"shown in: {'; '.join(better)}; not shown elsewhere" if better else "not shown anywhere"
        said.append(f"{name}: a gain over the gold alone, in both correlations, is {where}.")
    said += [
        f"{candidate.name} looks at nothing that changes in: {'; '.join(untouched)}; nothing is tried."
        for candidate in tried.candidates
        if (untouched := [one.name for one in stresses if _is_untouched(one, candidate, found)])
    ]
    said.append(
        "Some of the candidates were chosen on these very sets, so that their gains there look better than they are: "
        "the figure to quote is the one out of fold, of the part metrics."
    )
    return said


def sections_of(tried: Tried, found: Sequence[Situation]) -> list[Section]:
    """The outcome first, then situation by situation."""
    shown = [one for one in found if one.found is not None]
    stresses = [one for one in shown if one.is_stress]
    overview = Section(
        title="What survives",
        text=(
            "Each candidate is held to the same metric with the gold alone; the rater on the reply, which has no such "
            "form, to soft matches with the gold; a sum of ranks to the last metric in it that matches words.",
        ),
        tables=[
            _outcome_table(tried, found),
            *(_difference_table(tried, found, kind) for kind in KINDS),
            *(about_table(one.lines) for one in shown[:1]),
        ],
        plots=[_plot(tried, stresses, kind) for kind in KINDS] if stresses else [],
    )
    return [overview, *(_section(one) for one in shown)]


def _section(one: Situation) -> Section:
    assert one.found is not None
    return Section(
        title=one.name[0].upper() + one.name[1:],
        text=(one.about,),
        tables=[agreement_table(one.found, one.name), *one.tables],
    )


def _outcome_table(tried: Tried, found: Sequence[Situation]) -> Table:
    stresses = [one for one in found if one.is_stress]
    rows = []
    for candidate in tried.candidates:
        outcome = survives(candidate, found)
        cells = [
            _in_words(one, candidate) + (", untouched" if _is_untouched(one, candidate, found) else "")
            for one in stresses
        ]
        rows.append([candidate.name, *cells, {True: "yes", False: "no", None: "not judged"}[outcome]])
    return Table(
        title="Not inferior to the gold alone",
        columns=("", *(one.name for one in stresses), "survives"),
        rows=rows,
        notes=("untouched: the stress changes nothing that the candidate looks at, so passing it says nothing",),
    )


def _in_words(situation: Situation, candidate: Candidate) -> str:
    verdict = _verdict(situation, candidate)
    if verdict is not None:
        return verdict.in_words
    if situation.verdicts is None or candidate.name in situation.missing:
        return "not judged"
    return "asks no rater"


def _difference_table(tried: Tried, found: Sequence[Situation], kind: str) -> Table:
    rows = []
    for candidate in tried.candidates:
        verdicts = [_verdict(one, candidate) for one in found]
        cells = ["–" if one is None else cell(one.differences[kind]) for one in verdicts]
        rows.append([candidate.name, gold_alone(candidate, tried.known).name, *cells])
    return Table(
        title=f"{IN_WORDS[kind]} less that of the gold alone, {MEAN} of the sets",
        columns=("", "held to", *(one.name for one in found)),
        rows=rows,
    )


def _plot(tried: Tried, shown: Sequence[Situation], kind: str) -> Plot:
    known = [
        (candidate.name, one.name, verdict.differences[kind])
        for candidate in tried.candidates
        for one in shown
        if (verdict := _verdict(one, candidate)) is not None
    ]
    return bars(
        f"stress-{kind}.png",
        f"{IN_WORDS[kind]} of each candidate less that of the same metric with the gold alone, by situation",
        [name for name, _, _ in known],
        [figure for _, _, figure in known],
        groups=[situation for _, situation, _ in known],
        x_label=f"{IN_WORDS[kind]} less the gold alone",
    )
