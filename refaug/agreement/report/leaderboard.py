"""The board of metrics over rated sets: ranks by the mean correlation, in which every corpus counts the same.

Sets of one corpus are no independent evidence, so a corpus counts as the mean of its sets. What a rank is worth is said
by its interval, by the correlation with the length held, and by the ranks without each corpus in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

from refaug.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.agreement.report import wording
from refaug.core.records import json_form
from refaug.metrics.catalogue import find_info
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, model_kind_of
from refaug.tables.reports.report import Report, Section
from refaug.tables.reports.table import Table

_NONE: Final = "–"


def corpus_weights(corpora: Mapping[str, str]) -> list[float]:
    """Return the weight of each set (set → corpus): every corpus weighs the same."""
    members = list(corpora.values())
    return [1 / members.count(corpus) for corpus in members]


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """A metric, or the length, with its mean over corpora and without each of them."""

    row: MeanRow | AgreementRow
    rank: int | None  # None for the length
    without: Mapping[str, float | None]  # corpus → the mean over the others
    ranks: tuple[int, int] | None  # best and worst, with all corpora and without each


@dataclass(frozen=True, kw_only=True)
class MetricBoard:
    """The rows of a board, the best first, and what they were measured on."""

    rows: tuple[BoardRow, ...]
    corpora: Mapping[str, str]  # set → corpus
    agreement: MetaResult
    beside: tuple[BoardRow, ...] = ()  # metrics after others' papers with models of ours, which have no rank

    @classmethod
    def of(cls, agreement: MetaResult, corpora: Mapping[str, str]) -> MetricBoard:
        """Rank the metrics; one without a correlation on some set stands last, without a rank."""
        rows = agreement.sets[0].rows if agreement.mean is None else agreement.mean.rows
        in_order = sorted(
            (row for row in rows if row.kind is RowKind.METRIC),
            key=lambda row: (row.spearman.value is None, -(row.spearman.value or 0.0)),
        )
        ranked = [row for row in in_order if not _is_beside(row.name)]
        length = [row for row in rows if row.kind is RowKind.LENGTH]
        names = list(dict.fromkeys(corpora.values()))
        without = {
            row.name: {name: _mean_without(row.name, name, agreement, corpora) for name in names if len(names) > 1}
            for row in [*in_order, *length]
        }
        orders = [_ranks({row.name: row.spearman.value for row in ranked})]
        orders += [_ranks({row.name: without[row.name][name] for row in ranked}) for name in names if len(names) > 1]
        made = [
            BoardRow(
                row=row,
                rank=orders[0].get(row.name),
                without=without[row.name],
                ranks=_extremes([order.get(row.name) for order in orders]),
            )
            for row in [*in_order, *length]
        ]
        return cls(
            rows=tuple(each for each in made if not _is_beside(each.row.name)),
            corpora=corpora,
            agreement=agreement,
            beside=tuple(each for each in made if _is_beside(each.row.name)),
        )

    def as_json(self) -> dict[str, object]:
        """Return the board, the figures of each set and the signatures; no text of a set."""
        return {
            "settings": json_form(self.agreement.settings),
            "baseline": self.agreement.baseline,
            "corpora": dict(self.corpora),
            "rows": [self._row_json(each) for each in self.rows],
            "rows_beside": [{"label": self._label(each.row.name), **self._row_json(each)} for each in self.beside],
            "sets": {each.name: {"data": each.data, "counts": json_form(each.counts)} for each in self.agreement.sets},
            "signatures": {name: signature.full for name, signature in wording.all_signatures(self.agreement)},
            "warnings": list(self.agreement.warnings),
        }

    def _label(self, name: str) -> str:
        return label_of(name, dict(wording.all_signatures(self.agreement)).get(name))

    def _row_json(self, each: BoardRow) -> dict[str, object]:
        by_set = {one.name: _row_of(one, each.row.name) for one in self.agreement.sets}
        return {
            "rank": each.rank,
            "ranks": each.ranks and list(each.ranks),
            "without": dict(each.without),
            **json_form(each.row),
            "sets": {
                name: {"spearman": json_form(row.spearman), "partial_spearman": json_form(row.partial_spearman)}
                for name, row in by_set.items()
            },
        }

    def tables(self) -> list[Table]:
        """Return the board; rows beside it; figures on each set; means without each corpus; sets; signatures."""
        names = list(dict.fromkeys(self.corpora.values()))
        return [
            self._board(),
            *([self._beside()] if self.beside else []),
            *(self._by_set(kind, title) for kind, title in _BY_SET.items() if len(self.corpora) > 1),
            *([self._without(names)] if len(names) > 1 else []),
            self._sets(),
            Table(
                "signatures",
                ("metric", "signature"),
                [(name, signature.short) for name, signature in wording.all_signatures(self.agreement)],
                text=True,
            ),
        ]

    def report(self) -> Report:
        """Return the board as a page to publish."""
        sets, corpora = len(self.corpora), len(set(self.corpora.values()))
        tables, boards = self.tables(), 1 + bool(self.beside)
        settings = self.agreement.settings
        return Report(
            title="Leaderboard of metrics",
            summary=[
                f"How far metrics agree with people: {sets} rated {'set' if sets == 1 else 'sets'} on {corpora} "
                f"{'corpus' if corpora == 1 else 'corpora'}.",
                f"Rows: {wording.ROWS_IN_WORDS[settings.rows]}. Intervals: {wording.draws_in_words(settings)}.",
            ],
            sections=[
                Section(title="Board", anchor="board", tables=tables[:boards]),
                Section(title="What it is made from", anchor="basis", tables=tables[boards:]),
            ],
            warnings=self.agreement.warnings,
        )

    def _board(self) -> Table:
        settings = self.agreement.settings
        rows = []
        for each in self.rows:
            difference = each.row.differences.get("spearman")
            holm = each.row.holm.get("spearman")
            rows.append(
                (
                    _NONE if each.rank is None else str(each.rank),
                    each.row.name + (" (turned)" if each.row.turned else ""),
                    _figure(each.row.spearman.value),
                    _span(each.row.spearman.low, each.row.spearman.high),
                    _figure(each.row.partial_spearman.value),
                    _NONE if difference is None else _figure(difference.value),
                    _NONE if difference is None else _span(difference.low, difference.high),
                    _NONE if holm is None else f"{holm:.4f}",
                    _NONE if each.ranks is None else "–".join(dict.fromkeys(map(str, each.ranks))),
                )
            )
        interval = wording.per_cent(settings)
        columns = ("rank", "metric", "Spearman", interval, "partial", f"less {self.agreement.baseline}", interval)
        return Table(
            "leaderboard",
            (*columns, "Holm p", "ranks without a corpus"),
            rows,
            notes=[
                "Spearman: the mean over corpora, each the mean of its sets; "
                f"intervals: {wording.draws_in_words(settings)}",
                "partial: Spearman with reply length held fixed; length: what the number of words alone reaches",
                *wording.reasons((each.row.name, each.row.spearman.why) for each in self.rows),
                *([wording.TURNED] if any(each.row.turned for each in self.rows) else []),
            ],
            apart=frozenset(place for place, each in enumerate(self.rows) if each.row.kind is RowKind.LENGTH),
        )

    def _beside(self) -> Table:
        """Return metrics after others' papers, by what ran; they are in no rank and no comparison."""
        interval = wording.per_cent(self.agreement.settings)
        return Table(
            "rows beside ours",
            ("what ran", "Spearman", interval, "partial"),
            [
                (
                    self._label(each.row.name),
                    _figure(each.row.spearman.value),
                    _span(each.row.spearman.low, each.row.spearman.high),
                    _figure(each.row.partial_spearman.value),
                )
                for each in self.beside
            ],
            notes=[
                "written from papers of others, with models of ours: not the published metrics, of which these rows "
                "support no claim",
                *wording.reasons((self._label(each.row.name), each.row.spearman.why) for each in self.beside),
            ],
        )

    def _by_set(self, kind: str, title: str) -> Table:
        return Table(
            title,
            ("metric", *self.corpora),
            [
                (
                    each.row.name,
                    *(_figure(getattr(_row_of(one, each.row.name), kind).value) for one in self.agreement.sets),
                )
                for each in (*self.rows, *self.beside)
            ],
        )

    def _without(self, names: Sequence[str]) -> Table:
        return Table(
            "Spearman without a corpus",
            ("metric", *(f"without {name}" for name in names)),
            [(each.row.name, *(_figure(each.without[name]) for name in names)) for each in (*self.rows, *self.beside)],
        )

    def _sets(self) -> Table:
        rows = []
        for each in self.agreement.sets:
            people = next((row.spearman.value for row in each.rows if row.kind is RowKind.HUMAN), None)
            counts = each.counts
            rows.append(
                (
                    each.name,
                    self.corpora[each.name],
                    *(f"{count:,}" for count in (counts.rated, counts.fair, counts.used, counts.contexts)),
                    _figure(people),
                    each.data,
                )
            )
        columns = ("set", "corpus", "rated", "fair", "used", "contexts", "people", "data")
        note = "people: split half, stepped up; data: a hash of the used rows"
        return Table("sets", columns, rows, notes=[note])


_BY_SET: Final = {"spearman": "Spearman by set", "partial_spearman": "partial Spearman by set"}


def _is_beside(name: str) -> bool:
    info = find_info(name.partition(":")[0].strip())
    return info is not None and info.is_beside


def label_of(name: str, signature: Signature | None = None) -> str:
    """Return what ran, of a specification: `followup[lm=NAME]`; a model without another word is named by its kind.

    Of a model that the specification leaves to the options the signature knows the name.
    """
    specification = Specification.parse(name)
    ran = {key: signature.settings[key] for key in ("model", "lm") if signature and key in signature.settings}
    settings = list[str]()
    for key, text in {**ran, **dict(specification.parameters)}.items():
        kind = model_kind_of(specification.name, key) if key == "model" else None
        settings.append(f"{key if kind is None else kind.value}={text}")
    return f"{specification.name}[{','.join(settings)}]"


def _row_of(set_result: SetResult, name: str) -> AgreementRow:
    return next(row for row in set_result.rows if row.name == name)


def _mean_without(name: str, corpus: str, agreement: MetaResult, corpora: Mapping[str, str]) -> float | None:
    """Return the mean over the other corpora; None where one of their sets has no correlation."""
    values, weights = list[float](), list[float]()
    for set_result, weight in zip(agreement.sets, corpus_weights(corpora), strict=True):
        if corpora[set_result.name] != corpus:
            value = _row_of(set_result, name).spearman.value
            if value is None:
                return None
            values.append(value * weight)
            weights.append(weight)
    return fsum(values) / fsum(weights)


def _ranks(values: Mapping[str, float | None]) -> dict[str, int]:
    """Return the rank of each name that has a value; equal values have one rank."""
    held = {name: value for name, value in values.items() if value is not None}
    return {name: 1 + sum(other > value for other in held.values()) for name, value in held.items()}


def _extremes(ranks: Sequence[int | None]) -> tuple[int, int] | None:
    held = [rank for rank in ranks if rank is not None]
    return (min(held), max(held)) if held else None


def _figure(value: float | None) -> str:
    return _NONE if value is None else wording.fixed(value)


def _span(low: float | None, high: float | None) -> str:
    return _NONE if low is None or high is None else f"[{wording.fixed(low)}, {wording.fixed(high)}]"
