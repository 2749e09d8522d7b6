"""`reproduce adem`: what ADEM is worth on dialogues, systems and raters that it was not fitted to.

Protocol A leaves one group of sets out: everything is fitted to the other groups, settings are chosen by folds inside
them, and the group that is left out is scored once. Protocol B, the published one, folds the contexts of one set, so
that domain, raters and systems are known; protocol C fits to one forum and goes elsewhere. Each stands beside the
controls that could refute it: drawn encoders, shuffled labels, the score before training, ridge regressions, the length
of the reply alone, and people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput
from refaug.extras.reproduction.figures.annotators import human_rows, human_table
from refaug.extras.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.extras.reproduction.learned import learners
from refaug.extras.reproduction.learned.in_set import in_set_section
from refaug.extras.reproduction.learned.learners import RANDOM, encoders_of
from refaug.extras.reproduction.learned.lines import (
    LENGTH,
    RATER_HEAD,
    RIDGE,
    WORD_RIDGE,
    LineMaker,
    adem_name,
    shuffled_name,
    untrained_name,
)
from refaug.extras.reproduction.learned.protocols import ChosenSettings, LearnedLine, out_of_group, trained_on
from refaug.extras.reproduction.learned.rated_rows import LearnedSet, learned_sets
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet, SetGroup, groups_of, read_sets
from refaug.extras.reproduction.report.report import ExperimentReport, about_table, agreement_table, cell
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

WITHOUT_REFERENCES: Final = ("fed_turn", "conture")
WITHOUT_CONTEXT: Final = "dstc7_reddit"
WORD_VECTORS: Final = "vectors/glove.twitter.27B.25d.top12k"
_WORKS, _RECOMMENDED = 0.10, 0.29  # partial Spearman from which it works, and is worth recommending
_UNTAUGHT: Final = (
    WORD_RIDGE,
    RATER_HEAD,
    learners.RATER,
    learners.GREEDY,
    learners.RATER_ALONE,
    learners.UPSILON_ALONE,
    learners.LIKELIHOOD,
)
_PAIR: Final = ("dailydialog_gupta", "dailydialog_zhao")


def adem(chain: Chain, sets: Sequence[ProofSet]) -> ExperimentReport:
    """Return the report of all protocols and controls."""
    run = _Run.of(chain, sets)
    with_references, chosen = run.out_of_groups(run.sets, Form.FULL, (Form.FULL, Form.CONTEXT, Form.REFERENCE))
    without, chosen_without = run.out_of_groups([*run.sets, *run.without_references], Form.CONTEXT, (Form.CONTEXT,))
    pair = run.one_domain()
    forum = run.from_forum()
    in_set = in_set_section(run.maker, run.sets, chain)
    claims = _claims(with_references, run.maker, tuple(Form))
    claims_without = _claims(without, run.maker, (Form.CONTEXT,))
    people = human_rows([*run.sets, *run.without_references], draws=chain.settings.draws, seed=chain.settings.seed)
    return ExperimentReport(
        name="adem",
        title="ADEM on dialogues that it was not fitted to",
        summary=tuple(_summary(with_references, claims, run.maker)),
        sections=[
            Section(
                title="Protocol A, with references: one group left out",
                text=(
                    "Everything is fitted to the sets of the other groups, R-ADEM to the forum as well; fair rows, one "
                    "gold an item. Partial: with the length of the reply held fixed.",
                ),
                tables=[
                    *_agreement_tables(with_references, "With references"),
                    _claims_table(claims),
                    about_table(run.lines),
                ],
            ),
            Section(
                title="Protocol A, without references: one group left out",
                text=(
                    "The form that needs no reference, on live chats as well, beside judges that need none either: the "
                    "rater, soft matches with what people said in such places, and a likelihood.",
                ),
                tables=[*_agreement_tables(without, "Without references"), _claims_table(claims_without)],
            ),
            *([pair.section] if pair is not None else []),
            *([forum.section] if forum is not None else []),
            in_set.section,
            Section(title="People", tables=[human_table(people)]),
        ],
        data={
            "with_references": with_references.as_json(),
            "without_references": without.as_json(),
            "claims": claims,
            "claims_without_references": claims_without,
            "settings": {"with_references": chosen.as_json(), "without_references": chosen_without.as_json()},
            "one_domain": pair.data if pair is not None else None,
            "forum": forum.data if forum is not None else None,
            "in_set": in_set.data,
            "people": {row.name: row.as_json() for row in people},
        },
        notes=tuple(run.gaps),
    )


@dataclass(frozen=True, kw_only=True)
class _LearnedPart:
    """A section with its figures."""

    section: Section
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The sets and the makers of lines."""

    chain: Chain
    sets: list[ProofSet]  # with context and references
    without_references: list[ProofSet]
    forum: ProofSet | None
    maker: LineMaker
    lines: list[Line]  # all lines that were computed, for the table that says what each is
    gaps: list[str]

    @classmethod
    def of(cls, chain: Chain, sets: Sequence[ProofSet]) -> _Run:
        """Read the further sets, and open encoders and rater."""
        gaps, folder = list[str](), chain.settings.data
        own = [rated_set.with_first_gold() for rated_set in sets if _has_contexts(rated_set)]
        if len(groups_of(own)) < 2:
            raise BadInput(
                "the rated sets with contexts are one group, so that nothing is left to fit to",
                remedy="give sets of two sources at least, such as DailyDialog and EmpatheticDialogues",
            )
        further = dict[str, ProofSet]()
        for name in (*WITHOUT_REFERENCES, WITHOUT_CONTEXT):
            if (folder / "human" / f"{name}.jsonl.gz").is_file():
                [further[name]] = read_sets(folder, [name], needs_references=False)
            else:
                gaps.append(f"{name} is not there")
        words = next((path for path in _word_vector_paths(folder) if path.exists()), None)
        if words is None:
            gaps.append(f"no {WORD_VECTORS}: no ridge on word vectors")
        maker = LineMaker.of(encoders_of(chain), seeds=chain.settings.seeds, rater=chain.rater(), word_vectors=words)
        if maker.main.name == RANDOM:
            gaps.append("no pre-trained encoder is named (--vhred): the controls use the first drawn one")
        return cls(
            chain=chain,
            sets=own,
            without_references=[further[name] for name in WITHOUT_REFERENCES if name in further],
            forum=further.get(WITHOUT_CONTEXT),
            maker=maker,
            lines=[],
            gaps=gaps,
        )

    def out_of_groups(
        self, sets: Sequence[ProofSet], shared: Form, forms: Sequence[Form]
    ) -> tuple[Correlations, ChosenSettings]:
        """Return the correlations of all lines by protocol A, and the settings that folds chose."""
        chosen, groups, lines = ChosenSettings(), groups_of(sets), list[Line]()
        for form, learned_line in _lines_of(self.maker, shared, forms):
            self.chain.progress.stage(f"fitting {learned_line.name}", len(groups) * len(learned_line.learners))
            learned = learned_sets(sets, form)
            more = self._forum(form)
            scores = out_of_group(learned_line, learned, groups, more, chosen, self.chain.progress)
            lines.append(Line(name=learned_line.name, scores=scores, about=learned_line.about))
        lines.extend(self._untaught(sets, shared))
        self.lines.extend(lines)
        settings = self.chain.settings
        return correlate(sets, lines, draws=settings.draws, seed=settings.seed), chosen

    def _forum(self, form: Form) -> list[LearnedSet]:
        """Return the set of the forum for the form that needs no context."""
        return learned_sets([self.forum], form) if self.forum is not None and form is Form.REFERENCE else []

    def _untaught(self, sets: Sequence[ProofSet], shared: Form) -> Iterator[Line]:
        """Yield the judges that have seen no ratings: those that need what a form needs, and no more."""
        if shared.has_reference:
            if self.maker.rater is not None:
                yield learners.rater_line(self.maker.rater, sets)
            if self.maker.word_vectors is not None:
                yield learners.greedy_line(self.maker.word_vectors, sets)
        else:
            yield from learners.goldless_lines(self.chain, self.maker.rater, sets)
        if self.chain.settings.vhred is not None:
            yield learners.likelihood_line(self.chain, sets)

    def one_domain(self) -> _LearnedPart | None:
        """Fit to one of two sets of one domain and score the other; the two share no context."""
        pair = [rated_set for rated_set in self.sets if rated_set.name in _PAIR]
        if len(pair) < len(_PAIR):
            return None
        chosen, lines = ChosenSettings(), list[Line]()
        groups = [SetGroup(name=rated_set.name, sets=(rated_set.name,)) for rated_set in pair]
        for form, learned_line in _lines_of(self.maker, Form.FULL, tuple(Form)):
            self.chain.progress.stage(f"one domain, {learned_line.name}", 2 * len(learned_line.learners))
            learned = learned_sets(pair, form)
            scores = out_of_group(learned_line, learned, groups, (), chosen, self.chain.progress)
            lines.append(Line(name=learned_line.name, scores=scores))
        figures = correlate(pair, lines, draws=self.chain.settings.draws, seed=self.chain.settings.seed)
        section = Section(
            title="One domain: fitted to one set of DailyDialog, scored on the other",
            text=("Both are of one domain, with other systems and raters.",),
            tables=_agreement_tables(figures, "One domain"),
        )
        return _LearnedPart(section=section, data={**figures.as_json(), "settings": chosen.as_json()})

    def from_forum(self) -> _LearnedPart | None:
        """Fit R-ADEM to the forum alone and score the other sets with references."""
        if self.forum is None:
            return None
        chosen, lines, form = ChosenSettings(), list[Line](), Form.REFERENCE
        [train], learned = learned_sets([self.forum], form), learned_sets(self.sets, form)
        for _, learned_line in _lines_of(self.maker, form, (form,)):
            self.chain.progress.stage(f"from the forum, {learned_line.name}", len(learned_line.learners))
            lines.append(
                Line(
                    name=learned_line.name, scores=trained_on(learned_line, train, learned, chosen, self.chain.progress)
                )
            )
        figures = correlate(self.sets, lines, draws=self.chain.settings.draws, seed=self.chain.settings.seed)
        section = Section(
            title="Protocol C: fitted to a forum alone",
            text=("The raters of the forum like longer replies, those of the other sets shorter ones.",),
            tables=_agreement_tables(figures, "Fitted to the forum"),
        )
        return _LearnedPart(section=section, data={**figures.as_json(), "settings": chosen.as_json()})


def _lines_of(maker: LineMaker, shared: Form, forms: Sequence[Form]) -> Iterator[tuple[Form, LearnedLine]]:
    """Yield every line with what its rows need; the controls that are no ADEM compare as the form `shared` does."""
    for form in forms:
        for line in (*maker.adem_lines(form), *maker.controls(form)):
            yield form, line
    for line in maker.shared_controls(shared):
        yield shared, line


def _has_contexts(rated_set: ProofSet) -> bool:
    return any((test_item.utterance or "").strip() for test_item in rated_set.items)


def _word_vector_paths(folder: Path) -> list[Path]:
    return [folder / f"{WORD_VECTORS}{ending}" for ending in (".txt.gz", ".txt", ".gz", "")]


# ── Claims ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _claims(figures: Correlations, maker: LineMaker, forms: Sequence[Form]) -> dict[str, object]:
    """Return the differences that ADEM's claim stands on, and what they show."""
    scope, claims = figures.scopes[-1], dict[str, object]()
    for form in forms:
        own = adem_name(form, maker.main.name)
        controls = [shuffled_name(form), untrained_name(form), LENGTH, RIDGE]
        controls += [adem_name(form, RANDOM)] if maker.main.name != RANDOM else []
        controls += [name for name in _UNTAUGHT if name in figures.names]
        for control in controls:
            kind = "spearman" if control == LENGTH else PARTIAL  # the partial one of the length is not defined
            difference = figures.difference(own, control, kind, scope)
            claims[f"{own} above {control}"] = {**difference.as_json(), "verdict": _verdict(difference)}
    return claims


def _verdict(difference: IntervalEstimate) -> str:
    if not difference.is_sure:
        return "not shown"
    return "shown" if (difference.low or 0) > 0 else "refuted"


def _claims_table(claims: Mapping[str, Any]) -> Table:
    rows = [[claim, _numbers(figures), str(figures["verdict"])] for claim, figures in claims.items()]
    return Table(
        title="Differences of partial Spearman (over length alone: of Spearman), mean over groups",
        columns=("claim", "difference", "verdict"),
        rows=rows,
        notes=("paired on the same draws of contexts; not shown: the interval holds 0",),
    )


def _numbers(figures: Mapping[str, Any]) -> str:
    return cell(IntervalEstimate(**{key: figures.get(key) for key in ("value", "low", "high", "why")}))


def _summary(figures: Correlations, claims: Mapping[str, Any], maker: LineMaker) -> Iterator[str]:
    scope = figures.scopes[-1]
    for form in Form:
        own = adem_name(form, maker.main.name)
        estimate = figures.estimate(own, PARTIAL, scope)
        shuffled = claims[f"{own} above {shuffled_name(form)}"]["verdict"]
        random = claims.get(f"{own} above {adem_name(form, RANDOM)}", {}).get("verdict")
        beside = f"; over drawn encoders: {random}" if random is not None else ""
        yield (
            f"{own}: partial Spearman {cell(estimate)} over groups, {_level(estimate)}; over shuffled labels: "
            f"{shuffled}{beside}."
        )


def _level(estimate: IntervalEstimate) -> str:
    value = -1.0 if estimate.value is None else estimate.value
    if value >= _RECOMMENDED:
        return f"worth recommending (from {_RECOMMENDED:g})"
    return f"works (from {_WORKS:g})" if value >= _WORKS else f"does not work (from {_WORKS:g})"


def _agreement_tables(figures: Correlations, title: str) -> list[Table]:
    tables = [
        agreement_table(figures, title),
        agreement_table(figures, f"{title}, Pearson", kinds=("pearson",)),
    ]
    if len(figures.sets) > 1:
        tables.append(_sets_table(figures, f"{title}, set by set: partial Spearman"))
    return tables


def _sets_table(figures: Correlations, title: str) -> Table:
    rows = [[line, *(cell(figures.estimate(line, PARTIAL, name)) for name in figures.sets)] for line in figures.names]
    return Table(title=title, columns=("", *figures.sets), rows=rows)
