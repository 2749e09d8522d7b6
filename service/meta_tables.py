"""The tables of the report of `refaug meta`, as plain text: what is in them, not how they look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from metrics.correlation import Correlation
from metrics.resampling import Estimate
from service.meta_records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from service.meta_text import (
    GOLDS_IN_WORDS,
    INDEPENDENT,
    KINDS,
    TURNED,
    annotator,
    draws_in_words,
    fixed,
    minus,
    per_cent,
    reasons,
    row_label,
)
from service.pages import Table

_LISTED_ITEMS: Final = 100  # unreadable items that the page names one by one


def _r(value: float | None) -> str:
    """A correlation for people."""
    return "–" if value is None else minus(fixed(value))


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{_r(low)}, {_r(high)}]"


def _with_interval(one: Estimate) -> str:
    return _r(one.value) + _bounds(one.low, one.high)


def _with_p(one: Correlation | Estimate) -> str:
    return _r(one.value) + (f" (p {_p(one.p)})" if one.p is not None else "")


def _apart(rows: Sequence[AgreementRow | MeanRow]) -> frozenset[int]:
    return frozenset(place for place in range(1, len(rows)) if rows[place].kind is not rows[place - 1].kind)


def agreement_table(rows: Sequence[AgreementRow | MeanRow], result: MetaResult) -> Table:
    """The table that everything else explains."""
    span = f"[{per_cent(result.settings)}]"
    whys = [(f"{row.name}, {name}", one.why) for row in rows for name, one in _expected(row)]
    return Table(
        title="Agreement with the mean rating",
        columns=("metric", f"Spearman {span}", f"Pearson {span}", "Kendall τ-b", "partial Spearman", "rows"),
        rows=[
            (
                row_label(row),
                _with_interval(row.spearman),
                _with_interval(row.pearson),
                _with_p(row.kendall),
                _with_p(row.partial_spearman),
                f"{row.n:,}",
            )
            for row in rows
        ],
        notes=[
            f"intervals: bootstrap, {draws_in_words(result.settings)}",
            "partial Spearman: with reply length held fixed",
            *([TURNED] if any(row.turned for row in rows) else []),
            *reasons(whys),
        ],
        apart=_apart(rows),
    )


def _expected(row: AgreementRow | MeanRow) -> Iterator[tuple[str, Estimate | Correlation]]:
    """The figures of a row that one would look for: people have no Kendall, the length none with itself held fixed."""
    yield from (("Spearman", row.spearman), ("Pearson", row.pearson))
    if row.kind is not RowKind.HUMAN:
        yield "Kendall", row.kendall
    if row.kind is RowKind.METRIC:
        yield "partial Spearman", row.partial_spearman


def difference_tables(rows: Sequence[AgreementRow | MeanRow], result: MetaResult) -> Iterator[Table]:
    """Every metric less the baseline, for each kind of correlation that has an interval."""
    span = f"[{per_cent(result.settings)}]"
    for kind in KINDS:
        compared = [row for row in rows if kind in row.differences]
        if not compared:
            continue
        tests = {row.name: row.williams[kind] for row in compared if isinstance(row, AgreementRow)}
        whys = [(row.name, row.differences[kind].why) for row in compared]
        whys += [(f"{name}, Williams", test.why) for name, test in tests.items()]
        yield Table(
            title=f"{kind.capitalize()}, less that of {result.baseline}",
            columns=("metric", f"difference {span}", "p", "Holm p", *(("Williams t", "Williams p") if tests else ())),
            rows=[
                (
                    row_label(row),
                    _with_interval(row.differences[kind]),
                    _p(row.differences[kind].p),
                    _p(row.holm.get(kind)),
                    *((_r(tests[row.name].t), _p(tests[row.name].p)) if tests else ()),
                )
                for row in compared
            ],
            notes=[
                f"difference and p: paired bootstrap, {draws_in_words(result.settings)}; "
                "Holm p: adjusted for all compared metrics",
                *([INDEPENDENT] if tests else []),
                *reasons(whys),
            ],
            apart=_apart(compared),
        )


def rows_table(found: SetResult) -> Table:
    """What was used, what was left out, and why."""
    counts = found.counts
    rows = [
        ("items", f"{counts.items:,}", ""),
        ("items that could not be read", f"{counts.bad_items:,}", ""),
        ("replies", f"{counts.replies:,}", ""),
        *(("… without a rating", f"{missing:,}", f"of {system}") for system, missing in counts.unrated.items()),
        ("rated replies", f"{counts.rated:,}", ""),
        ("… that are one of their own golds", f"{counts.references_themselves:,}", "a fair comparison leaves them out"),
        ("… fair", f"{counts.fair:,}", ""),
        ("references removed", f"{counts.references_removed:,}", "identical to the reply they would have scored"),
        *(
            ("… without a score", f"{missing:,}", f"from {metric}: {code}; {_left_out(found, metric)}")
            for metric, by_code in counts.unscored.items()
            for code, missing in by_code.items()
        ),
        ("left out, as some metric has no score", f"{counts.left_out:,}", ""),
        ("rows used", f"{counts.used:,}", f"{counts.contexts:,} contexts, {counts.systems:,} systems"),
    ]
    return Table(title="Rows used and left out", columns=("what", "number", "why"), rows=rows, text=True)


def _left_out(found: SetResult, metric: str) -> str:
    return "left out for all metrics" if metric in found.points.values else "this metric is left out, not the replies"


def gold_tables(found: SetResult) -> Iterator[Table]:
    """What people and metrics give to the golds themselves, where they were rated."""
    golds = found.golds
    if golds is None:
        return
    yield Table(
        title="Rows that rate the gold itself",
        columns=("mean of", f"these {golds.rows:,}", f"the {golds.fair_rows:,} fair ones"),
        rows=[
            ("rating", number(golds.rating), number(golds.fair_rating)),
            *((name, number(one.golds), number(one.fair)) for name, one in golds.scores.items()),
        ],
        notes=[GOLDS_IN_WORDS],
        apart=frozenset([1]),
    )


def annotator_tables(found: SetResult, result: MetaResult) -> Iterator[Table]:
    """Who was left out, how well the others agree, and how well the metrics agree with each."""
    figures = found.annotators
    if figures.dropped:
        rows = [(annotator(one.annotator), one.why) for one in figures.dropped]
        yield Table(title="Annotators left out", columns=("annotator", "why"), rows=rows, text=True)
    yield _reliability_table(found, result)
    if len(figures.kept) > 1:
        yield _kappa_table(found)
        yield from _by_annotator_tables(found)


def _reliability_table(found: SetResult, result: MetaResult) -> Table:
    figures = found.annotators
    halves = figures.split_half
    rows = [("Cohen's κ, quadratic, mean of pairs", _r(figures.kappa.mean), "")]
    rows += [(f"Krippendorff's α, {level}", _r(one.value), f"{one.rows:,}") for level, one in figures.alpha.items()]
    rows += [
        (one.form, _r(one.value) + _bounds(one.low, one.high), f"{figures.icc.rows:,}") for one in figures.icc.forms
    ]
    whys = [("κ", figures.kappa.why), *((f"α, {level}", one.why) for level, one in figures.alpha.items())]
    whys += [(one.form, one.why) for one in figures.icc.forms]
    for kind in KINDS:
        half = getattr(halves, kind)
        name = f"split half, {kind.capitalize()}"
        rows.append((name, _r(half.half) + _bounds(half.low, half.high), f"{halves.rows:,}"))
        rows.append((f"{name}, stepped up", _r(half.stepped_up), f"{halves.rows:,}"))
        whys.append((name, half.why))
    return Table(
        title="Annotators with each other",
        columns=("figure", f"value [{per_cent(result.settings)}]", "rows"),
        rows=rows,
        notes=reasons(whys),
    )


def _kappa_table(found: SetResult) -> Table:
    figures = found.annotators
    values = {frozenset((pair.first, pair.second)): pair.value for pair in figures.kappa.pairs}
    places = range(len(figures.kept))
    mean = {one.annotator: one.value for one in figures.kappa_of_each}
    return Table(
        title="Cohen's κ of annotators, quadratic weights",
        columns=("", *(annotator(place) for place in figures.kept), "mean with the others"),
        rows=[
            (
                annotator(figures.kept[one]),
                *("" if one == other else _r(values.get(frozenset((one, other)))) for other in places),
                _r(mean.get(one)),
            )
            for one in places
        ],
        notes=reasons(
            (f"{annotator(figures.kept[pair.first])} and {figures.kept[pair.second] + 1}", pair.why)
            for pair in figures.kappa.pairs
        ),
    )


def _by_annotator_tables(found: SetResult) -> Iterator[Table]:
    spreads = {row_label(row): row.by_annotator for row in found.rows if row.by_annotator is not None}
    if not spreads:
        return
    places = list(dict.fromkeys(place for spread in spreads.values() for place in spread.each))
    yield Table(
        title="Spearman with each annotator",
        columns=("metric", "mean", "lowest", "highest", *map(annotator, places)),
        rows=[
            (
                name,
                *map(_r, (spread.mean, spread.lowest, spread.highest)),
                *(_r(spread.each[place].value) if place in spread.each else "–" for place in places),
            )
            for name, spread in spreads.items()
        ],
        notes=reasons(
            (f"{name}, {annotator(place)}", one.why)
            for name, spread in spreads.items()
            for place, one in spread.each.items()
        ),
    )


def system_tables(found: SetResult) -> Iterator[Table]:
    """Agreement over systems, and what each system does to the agreement over rows."""
    levels = {row_label(row): row.system_level for row in found.rows if row.system_level is not None}
    if levels:
        first = next(iter(levels.values()))
        kinds = (*KINDS, "kendall")
        yield Table(
            title=f"System level, {len(first.systems):,} systems",
            columns=("metric", *(kind.capitalize() for kind in kinds)),
            rows=[(name, *(_with_p(level.by_kind[kind]) for kind in kinds)) for name, level in levels.items()],
            notes=[
                f"over {first.rows:,} rows; scores and ratings are relative to the mean of their context, "
                f"{first.alone:,} rows alone in theirs are left out",
                *reasons((name, one.why) for name, level in levels.items() for one in level.by_kind.values()),
            ],
        )
        scores = {name: dict(zip(map(str, level.systems), level.scores, strict=True)) for name, level in levels.items()}
        ratings = found.system_ratings
        yield Table(
            title="Systems: mean rating and mean scores, relative to their contexts",
            columns=("system", "rating", *levels),
            rows=[
                (system, _r(ratings[system]), *(number(of.get(system)) for of in scores.values()))
                for system in sorted(ratings, key=lambda system: (-ratings[system], system))
            ],
        )
    yield from _without_system_tables(found)


def _without_system_tables(found: SetResult) -> Iterator[Table]:
    withouts = {row_label(row): row.without_system for row in found.rows if row.without_system is not None}
    if not withouts:
        return
    yield Table(
        title="Spearman over rows without one system",
        columns=("metric", "mean", "lowest", "highest", "changes most without", "by"),
        rows=[
            (
                name,
                *map(_r, (one.spread.mean, one.spread.lowest, one.spread.highest)),
                one.most or "–",
                _r(one.change),
            )
            for name, one in withouts.items()
        ],
        notes=reasons((name, one.spread.why) for name, one in withouts.items()),
    )
    systems = list(dict.fromkeys(system for one in withouts.values() for system in one.spread.each))
    yield Table(
        title="Spearman without each system",
        columns=("without", *withouts),
        rows=[
            (
                str(system),
                *(_r(each[system].value) if system in (each := one.spread.each) else "–" for one in withouts.values()),
            )
            for system in systems
        ],
        notes=reasons(
            (f"{name} without {system}", correlation.why)
            for name, one in withouts.items()
            for system, correlation in one.spread.each.items()
        ),
    )


def group_tables(found: SetResult, result: MetaResult) -> Iterator[Table]:
    """Means of several replies, for one who wants to know how large a test set has to be."""
    rows = [row for row in found.rows if row.groups]
    if not rows:
        return
    for kind in KINDS:
        yield Table(
            title=f"{kind.capitalize()} of the means of groups of replies",
            columns=("metric", *(f"{group.size} ({group.groups:,} groups)" for group in rows[0].groups)),
            rows=[(row_label(row), *(_with_interval(group.by_kind[kind]) for group in row.groups)) for row in rows],
            notes=[
                "rows are dealt into groups at random, many times; value: the mean of the deals, "
                f"in brackets: {per_cent(result.settings)} of them",
                *reasons((row.name, group.by_kind[kind].why) for row in rows for group in row.groups),
            ],
        )


def bad_item_tables(found: SetResult) -> Iterator[Table]:
    """The first items that could not be read, and what is wrong with each."""
    if not found.bad_items:
        return
    more = len(found.bad_items) - _LISTED_ITEMS
    yield Table(
        title="Items that could not be read",
        columns=("where", "what is wrong"),
        rows=[
            (f"{bad.file}, line {bad.line}", f"{bad.field}: {bad.message}" if bad.field else bad.message)
            for bad in found.bad_items[:_LISTED_ITEMS]
        ],
        notes=[f"and {more:,} more"] if more > 0 else [],
        text=True,
    )


def number(value: float | None) -> str:
    """A score of any size."""
    return "–" if value is None else minus(f"{value:.4g}")
