"""`reproduce stress`: what remains of a gain with a log of another domain, a small one, or raters who like length.

Both rated sets were collected alike: their raters prefer short replies, and everyday dialogues are at hand to retrieve
from. A metric that was chosen on them may owe its gain to that. Here that is taken away, and a metric counts as a
remedy only where it is not inferior to the same metric with the gold alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from core.errors import BadInput
from indexer.queries import Mode
from service.proof.candidates import (
    EMBEDDING,
    GREEDY,
    GREEDY_BY_WORDS,
    GREEDY_GOLD,
    RECOMMENDED,
    REPLY,
    REPLY_TO_THREE,
    Candidate,
    Trial,
)
from service.proof.chain import ELSEWHERE, EVERYDAY, Chain, IndexOf
from service.proof.figures import Line, measured
from service.proof.found import require_found
from service.proof.noninferiority import KINDS, LEAST_LOW, LEAST_POINT, Situation, Tried, asks_rater, gold_alone
from service.proof.references import RATED, Drawn, Pool
from service.proof.report import Report
from service.proof.resampled import resampled
from service.proof.sets import ProofSet
from service.proof.stress_text import sections_of, summary_of, survives

TARGETS: Final = (0.0, 0.25)  # Spearman of length and rating; in the fair rows of both sets it is −.22
SMALL_SHARE: Final = 0.01  # of the everyday logs
_POSITIVES: Final = 20_000  # an epoch, drawn anew for each, of the rater of other domains: it is made in minutes

TRIED: Final = (
    Candidate(
        name="υBLEU, closest",
        why="the default",
        family="bleu",
        metric="upsilon-bleu:bp=closest",
        kind=RATED,
        parrot=True,
    ),
    Candidate(
        name="υBLEU, no penalty",
        why="many lengths switch a penalty off anyway",
        family="bleu",
        metric="upsilon-bleu:bp=none",
        kind=RATED,
        parrot=True,
    ),
    Candidate(
        name="υ-greedy, best",
        why="soft matches, rare words weighted up",
        family="greedy",
        metric=f"upsilon-greedy:agg=best,{GREEDY}",
        kind=RATED,
    ),
    Candidate(
        name="υ-greedy, best three and gold",
        why="the gold stays in the sum",
        family="greedy",
        metric=f"upsilon-greedy:agg=mean-best-3,keep-gold=yes,{GREEDY}",
        kind=RATED,
    ),
    REPLY,
    Candidate(
        name="ranks: rater + greedy, gold + υ-greedy, best",
        why="the gold counts as much as everything retrieved",
        family="sum",
        sum_of=(REPLY.name, GREEDY_GOLD.name, "υ-greedy, best"),
    ),
    REPLY_TO_THREE,
    GREEDY_BY_WORDS,
    Candidate(
        name="ranks: rater, three turns + υ-greedy, words",
        why="the best of the sums on the sets at hand",
        family="sum",
        sum_of=(REPLY_TO_THREE.name, GREEDY_BY_WORDS.name),
    ),
    RECOMMENDED,
)


class _OwnReplies(Trial):
    """A trial whose controls are drawn from its own log."""

    def __init__(self, chain: Chain, sets: Sequence[ProofSet], *, drawn: Drawn, **of: Any) -> None:
        super().__init__(chain, sets, **of)
        self._drawn, self._own = drawn, dict[tuple[str, Mode], Pool]()

    def pool(self, one: ProofSet, mode: Mode = EMBEDDING) -> Pool:
        """With replies of that log to draw from."""
        if (one.name, mode) not in self._own:
            self._own[one.name, mode] = replace(super().pool(one, mode), drawn=self._drawn)
        return self._own[one.name, mode]


def stress(chain: Chain, sets: Sequence[ProofSet], candidates: Sequence[Candidate] = TRIED) -> Report:
    """Try the candidates in every situation, and say which of them survive."""
    single, tried = [one.with_first_gold() for one in sets], Tried.of(candidates)
    found = list(_situations(chain, single, tried))
    return Report(
        name="stress",
        title="What remains of the gain where logs and raters are other than here",
        summary=summary_of(tried, found),
        sections=sections_of(tried, found),
        notes=(
            *(f"{one.name}: {one.gap}" for one in found if one.gap),
            *(f"{one.name}, {name}: {why}" for one in found for name, why in one.missing.items()),
            *(f"{one.name}: {note}" for one in sets for note in one.notes),
        ),
        data={
            "rule": {"least_difference": LEAST_POINT, "lower_bound_above": LEAST_LOW, "kinds": list(KINDS)},
            "candidates": [one.as_json() for one in tried.candidates],
            "gold_alone": {one.name: gold_alone(one, tried.known).name for one in tried.candidates},
            "situations": {one.name: one.as_json() for one in found},
            "survives": {one.name: survives(one, found) for one in tried.candidates},
        },
    )


def _situations(chain: Chain, sets: Sequence[ProofSet], tried: Tried) -> Iterator[Situation]:
    main = Trial(chain, sets)
    yield _plain(
        tried,
        tried.candidates,
        "as it is",
        "References from everyday logs, for the sets as they are.",
        lambda: main,
        chain,
        is_stress=False,
    )
    yield from _elsewhere(chain, sets, tried)
    for target in TARGETS:
        yield resampled(chain, tried, main, target)
    small = tuple(chain.part(log, SMALL_SHARE) for log in EVERYDAY)
    yield _plain(
        tried,
        tried.candidates,
        f"{SMALL_SHARE:.0%} of the log".replace("%", " %"),
        "References from so few of the dialogues; word vectors, rater, and what counts as 0 and 1 of the parts of a "
        "blend are those of the whole logs.",
        lambda: Trial(
            chain, sets, index=chain.index(IndexOf(name="proof-small-log", parts=small)), sample=chain.main_index()
        ),
        chain,
    )


def _elsewhere(chain: Chain, sets: Sequence[ProofSet], tried: Tried) -> Iterator[Situation]:
    """References of other domains, weighed by the everyday rater, and by one that knows those domains alone."""
    part = chain.part("medium", sources=ELSEWHERE)
    sources = "technical chat, table-top play and task dialogues"

    def trial(*, own_rater: bool) -> Trial:
        index = chain.index(IndexOf(name="proof-elsewhere", parts=(part,)))
        rater = (
            chain.rater((part,), name="proof-elsewhere", preset="small", more_texts=(), positives=_POSITIVES)
            if own_rater
            else None
        )
        return _OwnReplies(chain, sets, drawn=chain.drawn(part), index=index, rater=rater)

    yield _plain(
        tried,
        tried.candidates,
        "log of other domains",
        f"References from {sources}; word vectors and rater are the everyday ones.",
        lambda: trial(own_rater=False),
        chain,
    )
    asking = [one for one in tried.candidates if asks_rater(one, tried.known)]
    if not asking:
        return
    yield _plain(
        tried,
        asking,
        "log and rater of other domains",
        f"References from {sources}, and a rater of preset small that was trained on nothing else: only for "
        "candidates that ask a rater.",
        lambda: trial(own_rater=True),
        chain,
    )


def _plain(
    tried: Tried,
    candidates: Sequence[Candidate],
    name: str,
    about: str,
    trial_of: Callable[[], Trial],
    chain: Chain,
    *,
    is_stress: bool = True,
) -> Situation:
    """All rows of the sets, references of another index."""
    try:
        trial = trial_of()
        for one in trial.sets:
            require_found(one, trial.pool(one))
    except BadInput as error:
        return Situation(name=name, about=about, gap=chain.said_of(error), is_stress=is_stress)
    chain.progress.stage(f"scoring: {name}")
    lines, missing = list[Line](), dict[str, str]()
    for candidate in tried.wanted(candidates):
        try:
            lines.append(trial.line(candidate, tried.known))
        except BadInput as error:
            missing[candidate.name] = chain.said_of(error)
    found = measured(trial.sets, lines, kinds=KINDS, draws=chain.settings.draws, seed=chain.settings.seed)
    return Situation(
        name=name,
        about=about,
        found=found,
        lines=lines,
        verdicts=tried.verdicts(found, [one for one in candidates if one.name not in missing]),
        missing=missing,
        is_stress=is_stress,
    )
