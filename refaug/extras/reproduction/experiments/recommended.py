"""`reproduce recommended`: what refaug-1 adds to an encoder and a gold, with golds and without, and under attack.

Every way to score has the same rows. Beside refaug-1 stand what one would use without it, the best shares without and
with retrieval, each chosen for a group of sets by the other groups, and refaug-1 with references that were retrieved
for another context, or drawn with as many words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.recommended import (
    DRAWN,
    DRAWN_SYSTEM,
    GROUPS,
    GROUPS_WITHOUT_GOLD,
    OF_ANOTHER_CONTEXT,
    RETRIEVED,
    SETS,
    AttackFigures,
    FairRows,
    GroupedAgreement,
    GroupedSets,
    Scorer,
    SearchedConstant,
    Shares,
    attack_figures,
    read_set,
    searched_constants,
    stock_replies,
    texts_by_length,
    with_parts,
)
from refaug.extras.reproduction.report.report import ExperimentReport, short
from refaug.metrics.base import Floats
from refaug.metrics.embeddings.recommended import PARTS, SIMILARITIES, Recommended
from refaug.metrics.embeddings.reply_guards import NO_GUARD
from refaug.scoring.home.indexes import open_index
from refaug.scoring.settings import AugmentSettings
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

REFAUG: Final = "refaug-1"
ENCODER_AND_GOLD, CHRF, TURNS = "encoder and gold", "chrF with the gold", "turns alone"
BEST_WITHOUT: Final = "best without retrieval, chosen out of fold"
BEST_WITH: Final = "best with retrieval, chosen out of fold"
CONTROLS: Final = {f"{REFAUG}, {form}": form for form in (OF_ANOTHER_CONTEXT, DRAWN)}
_GOLD, _WORDS, _TURN, _TURNS, _RETRIEVED = range(len(SIMILARITIES))
_SHARES: Final[Sequence[Shares]] = [  # of gold, words, and each of the turns
    (gold, words, turn, turn)
    for gold, words, turn in product((0.5, 1, 1.5, 2, 3), (0, 0.3, 0.6, 1), (0, 0.3, 0.5, 0.75))
]
_RETRIEVED_SHARES: Final = (0, 0.5, 1, 1.5, 2)
_ATTACKED: Final = ("personachat_zhao", "usr_topicalchat")
_PERSONA: Final = "PersonaChat"
_NEVER: Final = 2.0  # no cosine is above it

Leads = Mapping[str, IntervalEstimate]


def recommended(chain: Chain, _sets: Sequence[ProofSet]) -> ExperimentReport:
    """Report on refaug-1, on all sets that the data must have for it."""
    metric = chain.recommended_metric()  # first, for without the encoder there is nothing to make
    index = chain.encoder_index()
    sets, seeds = dict[str, FairRows](), [(chain.settings.seed, seed) for seed in range(chain.settings.seeds)]
    augmented_sets = [_with_references(chain, read_set(chain.settings.data, name), index) for name in SETS]
    with open_index(chain.home, index, threads=chain.settings.threads) as opened:
        texts, stock = texts_by_length(opened), stock_replies(opened)
    chain.progress.stage("scoring", len(augmented_sets), "sets")
    for rated in augmented_sets:
        sets[rated.name] = with_parts(rated, metric, texts, seeds)
        chain.progress.advance(1)
    measured = Measured.of(sets, metric, chain)
    edits = chain.settings.edits
    chain.progress.stage("attacks", len(_ATTACKED), "sets")
    attacks, searched = dict[str, dict[str, AttackFigures]](), dict[str, dict[str, SearchedConstant]]()
    for name in _ATTACKED:
        attacks[name] = attack_figures(sets[name], metric, stock, _scorers_of_parts(metric))
        searched[name] = {
            **searched_constants(sets[name], metric, _scorers_of_parts(metric), edits, chain.settings.seed),
            **searched_constants(sets[name], metric, _single_parts(metric), edits // 10, chain.settings.seed),
        }
        chain.progress.advance(1)
    return ExperimentReport(
        name="recommended",
        title="What refaug-1 adds to an encoder and a gold",
        summary=tuple(_summary(measured, attacks)),
        sections=[*_sections(measured), _attack_section(attacks, searched, edits)],
        data={
            "metric": dict(metric.settings),
            **measured.as_json(),
            "attacks": {
                name: {scorer: of_scorer.as_json() for scorer, of_scorer in of_set.items()}
                for name, of_set in attacks.items()
            },
            "searched constants": {
                name: {scorer: constant.as_json() for scorer, constant in of_set.items()}
                for name, of_set in searched.items()
            },
        },
        sets=tuple(sets.values()),
    )


def _with_references(chain: Chain, rated: FairRows, index: str) -> FairRows:
    items = chain.augmented_items(rated, index, None, AugmentSettings(preset=REFAUG))
    return replace(rated, items=tuple(items))


# ── Ways to score ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _log_odds(metric: Recommended, parts: Floats, *, gold: bool = True, retrieved: bool = True) -> Floats:
    """Return the logarithm of the odds of refaug-1, which ranks replies as the score does."""
    return metric.log_odds(parts, np.full(len(parts), gold), np.full(len(parts), retrieved))


def _scorer(metric: Recommended, form: str = RETRIEVED, *, gold: bool = True, retrieved: bool = True) -> Scorer:
    return lambda rated: np.stack(
        [_log_odds(metric, parts, gold=gold, retrieved=retrieved) for parts in rated.parts[form]]
    )


def _part(part: int) -> Scorer:
    return lambda rated: rated.parts[RETRIEVED][:, :, part]


def _turns_alone(metric: Recommended) -> Scorer:
    is_turn = np.isin(np.arange(len(PARTS)), (_TURN, _TURNS)).astype(np.float64)
    return lambda rated: _log_odds(metric, rated.parts[RETRIEVED][0] * is_turn, gold=False)[None]


def _unguarded(metric: Recommended) -> Scorer:
    """Score without fold and guards: an echo pays, and so does a salad of words."""
    changed = copy(metric)
    most_like = {"turn": _NEVER, "turns": _NEVER}
    changed.calibration = replace(metric.calibration, most_like=most_like, copied=NO_GUARD, order=NO_GUARD)
    return _scorer(changed)


def _scorers_of_parts(metric: Recommended) -> dict[str, Callable[[Floats], Floats]]:
    def scores(parts: Floats) -> Floats:
        there = np.ones(len(parts), np.bool_)
        return metric.scores(parts, there, there)

    return {REFAUG: scores, ENCODER_AND_GOLD: lambda parts: parts[:, _GOLD]}


def _single_parts(metric: Recommended) -> dict[str, Callable[[Floats], Floats]]:
    """Return each part alone, folded where the metric folds it; the gold is `ENCODER_AND_GOLD`."""

    def scorer(part: int) -> Callable[[Floats], Floats]:
        return lambda parts: metric.folded(parts)[:, part]

    return {f"part {PARTS[part]}": scorer(part) for part in range(len(SIMILARITIES)) if part != _GOLD}


# ── Figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All figures of agreement."""

    with_golds: Mapping[str, GroupedAgreement]
    without_golds: Mapping[str, GroupedAgreement]
    without_drawn: Mapping[str, float]  # on PersonaChat
    shares: Mapping[str, Shares]  # of the best without retrieval, by the group that did not choose
    leads: Leads  # of refaug-1
    lead_of_retrieval: Leads
    leads_without_gold: Leads
    leads_over_chrf: Leads  # by group
    cost_of_guards: IntervalEstimate

    @classmethod
    def of(cls, sets: Mapping[str, FairRows], metric: Recommended, chain: Chain) -> Measured:
        """Measure every way to score."""
        settings = chain.settings
        agreement = GroupedSets(sets=sets, groups=GROUPS, draws=settings.draws, seed=settings.seed)
        goldless = replace(agreement, groups=GROUPS_WITHOUT_GOLD)
        chain.progress.stage("agreement and leads")
        best_without, shares = agreement.best_out_of_fold(_shared_log_odds(metric), _SHARES)
        with_retrieved = [(*own, retrieved) for own in _SHARES for retrieved in _RETRIEVED_SHARES]
        best_with, _ = agreement.best_out_of_fold(_shared_log_odds(metric), with_retrieved)
        scorers = _scorers(metric, best_without, best_with)
        without = {
            TURNS: _turns_alone(metric),
            REFAUG: _scorer(metric, gold=False),
            **{name: _scorer(metric, form, gold=False) for name, form in CONTROLS.items()},
        }
        return cls(
            with_golds={name: agreement.of(scorer) for name, scorer in scorers.items()},
            without_golds={name: goldless.of(scorer) for name, scorer in without.items()},
            without_drawn={
                name: _without_drawn(agreement).of(scorers[name]).mean
                for name in (ENCODER_AND_GOLD, BEST_WITHOUT, REFAUG)
            },
            shares=shares,
            leads={
                name: agreement.lead(scorers[REFAUG], scorers[name])
                for name in (ENCODER_AND_GOLD, BEST_WITHOUT, *CONTROLS)
            },
            lead_of_retrieval={BEST_WITHOUT: agreement.lead(best_with, best_without)},
            leads_without_gold={name: goldless.lead(without[REFAUG], without[name]) for name in (TURNS, *CONTROLS)},
            leads_over_chrf={
                group: replace(agreement, groups={group: names}).lead(scorers[REFAUG], scorers[CHRF])
                for group, names in agreement.groups.items()
            },
            cost_of_guards=agreement.lead(_unguarded(metric), scorers[REFAUG]),
        )

    def as_json(self) -> dict[str, object]:
        """Return every figure; a lead is its value, and the ends of its interval."""
        return {
            "agreement": {name: figures.as_json() for name, figures in self.with_golds.items()},
            "without gold": {name: figures.as_json() for name, figures in self.without_golds.items()},
            "PersonaChat without drawn replies": {name: round(mean, 4) for name, mean in self.without_drawn.items()},
            "shares out of fold": {group: list(shares) for group, shares in self.shares.items()},
            "lead of refaug-1": _leads_json(self.leads),
            "lead of retrieval, out of fold": _leads_json(self.lead_of_retrieval),
            "lead without gold": _leads_json(self.leads_without_gold),
            "lead over chrF with the gold": _leads_json(self.leads_over_chrf),
            "cost of the guard": _ends(self.cost_of_guards),
        }


def _scorers(metric: Recommended, best_without: Scorer, best_with: Scorer) -> dict[str, Scorer]:
    return {
        ENCODER_AND_GOLD: _part(_GOLD),
        CHRF: _part(_WORDS),
        f"{REFAUG} without an index": _scorer(metric, retrieved=False),
        BEST_WITHOUT: best_without,
        BEST_WITH: best_with,
        REFAUG: _scorer(metric),
        **{name: _scorer(metric, form) for name, form in CONTROLS.items()},
        "length of the reply": lambda rated: rated.lengths[None],
    }


def _shared_log_odds(metric: Recommended) -> Callable[[FairRows, Shares], Floats]:
    """Return what scores by shares of the first parts, folded."""

    def sums(rated: FairRows, shares: Shares) -> Floats:
        folded = metric.folded(rated.parts[RETRIEVED][0])
        return np.asarray(folded[:, : len(shares)] @ np.array(shares))[None]

    return sums


def _without_drawn(agreement: GroupedSets) -> GroupedSets:
    """Return PersonaChat alone, without the replies that were drawn."""
    names = agreement.groups[_PERSONA]
    sets = {name: agreement.sets[name].without_system(DRAWN_SYSTEM) for name in names}
    return replace(agreement, sets=sets, groups={_PERSONA: names})


def _leads_json(leads: Leads) -> dict[str, list[float]]:
    return {name: _ends(lead) for name, lead in leads.items()}


def _ends(lead: IntervalEstimate) -> list[float]:
    return [round(number, 4) for number in (lead.value, lead.low, lead.high) if number is not None]


# ── In words and tables ───────────────────────────────────────────────────────────────────────────────────────────────


def lead_cell(lead: IntervalEstimate) -> str:
    """Return a lead with its sign and its interval: +.100 [.068, .132]."""
    point, low, high = _ends(lead)
    return f"{'+' if point >= 0 else ''}{short(point)} [{short(low)}, {short(high)}]"


def _summary(measured: Measured, attacks: Mapping[str, Mapping[str, AttackFigures]]) -> Iterator[str]:
    means = {name: short(figures.mean) for name, figures in measured.with_golds.items()}
    yield (
        f"Mean Spearman over groups: {REFAUG} {means[REFAUG]}, {ENCODER_AND_GOLD} {means[ENCODER_AND_GOLD]}; lead "
        f"{lead_cell(measured.leads[ENCODER_AND_GOLD])}."
    )
    for name in (BEST_WITHOUT, *CONTROLS):
        yield f"{REFAUG} over {name}: {lead_cell(measured.leads[name])}."
    yield f"{BEST_WITH}, over {BEST_WITHOUT}: {lead_cell(measured.lead_of_retrieval[BEST_WITHOUT])}."
    yield f"Without a gold, over {TURNS}: {lead_cell(measured.leads_without_gold[TURNS])}."
    for name, by_scorer in attacks.items():
        counts = "; ".join(f"{scorer}: {len(figures.above)}" for scorer, figures in by_scorer.items())
        yield f"Attacks that reach the system which people rate in the middle, {name}: {counts}."


def _sections(measured: Measured) -> Iterator[Section]:
    yield Section(
        title="With golds",
        text=(
            "Rows that rate no gold; golds that equal the reply are left out. Spearman, means of groups of sets by "
            "corpus; partial: a line in the rank of the reply's length is taken off.",
            "Intervals are of paired bootstraps over contexts, which are drawn for each set by itself. What is chosen "
            "out of fold is chosen for each group by the three others. Controls are the mean over several draws.",
        ),
        tables=[
            _agreement_table("Agreement", measured.with_golds),
            _lead_table(f"Lead of {REFAUG}", measured.leads),
            _lead_table(f"Lead of the {BEST_WITH}", measured.lead_of_retrieval),
            _lead_table(f"Lead of {REFAUG} over {CHRF}", measured.leads_over_chrf),
            _lead_table("Lead without fold and guards", {REFAUG: measured.cost_of_guards}),
            Table(
                title=f"{_PERSONA} without drawn replies",
                columns=("", "Spearman"),
                rows=[[name, short(mean)] for name, mean in measured.without_drawn.items()],
            ),
            Table(
                title=f"Shares of the {BEST_WITHOUT}",
                columns=("group that did not choose", *PARTS[:_RETRIEVED]),
                rows=[[group, *map(str, shares)] for group, shares in measured.shares.items()],
            ),
        ],
    )
    yield Section(
        title="Without golds",
        text=("The golds of the first two groups are left out; the others never had any.",),
        tables=[
            _agreement_table("Agreement without golds", measured.without_golds),
            _lead_table(f"Lead of {REFAUG} without golds", measured.leads_without_gold),
        ],
    )


def _agreement_table(title: str, agreement: Mapping[str, GroupedAgreement]) -> Table:
    groups = list(next(iter(agreement.values())).groups)
    rows = [
        [name, short(figures.mean), _partial_cell(figures), *(short(figures.groups[group]) for group in groups)]
        for name, figures in agreement.items()
    ]
    return Table(title=title, columns=("", "mean", "partial", *groups), rows=rows)


def _partial_cell(figures: GroupedAgreement) -> str:
    return "–" if np.isnan(figures.partial) else short(figures.partial)


def _lead_table(title: str, leads: Leads) -> Table:
    return Table(
        title=title, columns=("over", "Spearman"), rows=[[name, lead_cell(lead)] for name, lead in leads.items()]
    )


def _attack_section(
    attacks: Mapping[str, Mapping[str, AttackFigures]],
    searched: Mapping[str, Mapping[str, SearchedConstant]],
    edits: int,
) -> Section:
    """Return the mean scores of attacks; their scales differ between ways to score."""
    tables = list[Table]()
    for name, by_scorer in attacks.items():
        first = next(iter(by_scorer.values()))
        rows = [["the system that people rate in the middle", *(short(own.middle) for own in by_scorer.values())]]
        rows += [[attack, *(short(own.attacks[attack]) for own in by_scorer.values())] for attack in first.attacks]
        rows.append(["stock replies that reach it", *(str(own.stock) for own in by_scorer.values())])
        tables.append(Table(title=f"Mean scores, {name}", columns=("", *by_scorer), rows=rows))
    for name, of_set in searched.items():
        rows = [
            [
                scorer,
                constant.reply,
                short(constant.mean),
                short(constant.middle),
                "yes" if constant.is_above else "no",
                short(constant.first_retrieved),
            ]
            for scorer, constant in of_set.items()
        ]
        columns = ("searched by", "constant", "its mean", "the middle", "reaches it", "first retrieved")
        tables.append(Table(title=f"Searched constants, {name}", columns=columns, rows=rows))
    return Section(
        title="Replies that say nothing",
        text=(
            "Mean scores, on the scale of each way to score.",
            f"A searched constant is what {edits:,} edits of one reply, a tenth of them for a single part, have found "
            "on every second item; it is scored on the others, beside the response that is retrieved first, whose own "
            "copies are no references.",
        ),
        tables=tables,
    )
