"""Write the result of `refaug agreement` as one HTML page that contains the tables, the plots and the settings."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Final

from refaug.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.agreement.report import wording
from refaug.agreement.report.plots import SectionPlots
from refaug.agreement.report.wording import ROWS_IN_WORDS, all_signatures, draws_in_words, per_cent
from refaug.core.version import VERSION
from refaug.metrics.statistics.correlation import Correlation
from refaug.metrics.statistics.resampling import Estimate
from refaug.tables.reports.html_page import report_page
from refaug.tables.reports.report import Part, PartForm, Report, Section
from refaug.tables.reports.table import Table

# ── The tables of the report of `refaug agreement` as plain text, without their appearance ────────────────────────────

_LISTED_ITEMS: Final = 100  # unreadable items that the page lists


def _r(correlation: float | None) -> str:
    """Format a correlation for people."""
    return "–" if correlation is None else wording.minus(wording.fixed(correlation))


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{_r(low)}, {_r(high)}]"


def _with_interval(estimate: Estimate) -> str:
    return _r(estimate.value) + _bounds(estimate.low, estimate.high)


def _with_p(figure: Correlation | Estimate) -> str:
    return _r(figure.value) + (f" (p {_p(figure.p)})" if figure.p is not None else "")


def _p_beside(row: AgreementRow | MeanRow, kind: str) -> str:
    p = row.p_values.get(kind) if isinstance(row, AgreementRow) else None
    return "" if p is None else f" (p {_p(p)})"


def agreement_table(rows: Sequence[AgreementRow | MeanRow], meta_result: MetaResult) -> Table:
    """Return the main table, which all others explain."""
    span = f"[{wording.per_cent(meta_result.settings)}]"
    whys = [(f"{row.name}, {name}", figure.why) for row in rows for name, figure in _expected_figures(row)]
    return Table(
        title="Agreement with the mean rating",
        columns=("metric", f"Spearman {span}", f"Pearson {span}", "Kendall τ-b", "partial Spearman", "rows"),
        rows=[
            (
                wording.row_label(row),
                _with_interval(row.spearman) + _p_beside(row, "spearman"),
                _with_interval(row.pearson) + _p_beside(row, "pearson"),
                _with_p(row.kendall),
                _with_p(row.partial_spearman),
                f"{row.n:,}",
            )
            for row in rows
        ],
        notes=[
            f"intervals: bootstrap, {wording.draws_in_words(meta_result.settings)}",
            "partial Spearman: with reply length held fixed",
            *([wording.P_IN_WORDS] if any(isinstance(row, AgreementRow) for row in rows) else []),
            *([wording.TURNED] if any(row.turned for row in rows) else []),
            *wording.reasons(whys),
        ],
        apart=wording.group_starts(rows),
    )


def _expected_figures(row: AgreementRow | MeanRow) -> Iterator[tuple[str, Estimate | Correlation]]:
    """Yield the figures that a row can have: people have no Kendall, and the length no correlation beside itself."""
    yield from (("Spearman", row.spearman), ("Pearson", row.pearson))
    if row.kind is not RowKind.HUMAN:
        yield "Kendall", row.kendall
    if row.kind is RowKind.METRIC:
        yield "partial Spearman", row.partial_spearman


def difference_tables(rows: Sequence[AgreementRow | MeanRow], meta_result: MetaResult) -> Iterator[Table]:
    """Yield every metric minus the baseline, for each kind of correlation that has an interval."""
    span = f"[{wording.per_cent(meta_result.settings)}]"
    for kind in wording.KINDS:
        compared = [row for row in rows if kind in row.differences]
        if not compared:
            continue
        tests = {row.name: row.williams[kind] for row in compared if isinstance(row, AgreementRow)}
        whys = [(row.name, row.differences[kind].why) for row in compared]
        whys += [(f"{name}, Williams", test.why) for name, test in tests.items()]
        yield Table(
            title=f"{kind.capitalize()}, less that of {meta_result.baseline}",
            columns=("metric", f"difference {span}", "p", "Holm p", *(("Williams t", "Williams p") if tests else ())),
            rows=[
                (
                    wording.row_label(row),
                    _with_interval(row.differences[kind]),
                    _p(row.differences[kind].p),
                    _p(row.holm.get(kind)),
                    *((_r(tests[row.name].t), _p(tests[row.name].p)) if tests else ()),
                )
                for row in compared
            ],
            notes=[
                f"difference and p: paired bootstrap, {wording.draws_in_words(meta_result.settings)}; "
                "Holm p: adjusted for all compared metrics",
                *([wording.INDEPENDENT] if tests else []),
                *wording.reasons(whys),
            ],
            apart=wording.group_starts(compared),
        )


def rows_table(set_result: SetResult) -> Table:
    """Return the numbers of rows that were used and left out, and why."""
    counts = set_result.counts
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
            ("… without a score", f"{missing:,}", f"from {metric}: {code}; {_left_out(set_result, metric)}")
            for metric, by_code in counts.unscored.items()
            for code, missing in by_code.items()
        ),
        ("left out, as some metric has no score", f"{counts.left_out:,}", ""),
        ("rows used", f"{counts.used:,}", f"{counts.contexts:,} contexts, {counts.systems:,} systems"),
    ]
    return Table(title="Rows used and left out", columns=("what", "number", "why"), rows=rows, text=True)


def _left_out(set_result: SetResult, metric: str) -> str:
    is_compared = metric in set_result.points.values
    return "left out for all metrics" if is_compared else "this metric is left out, not the replies"


def gold_tables(set_result: SetResult) -> Iterator[Table]:
    """Yield the mean ratings and scores of the golds themselves, where they were rated."""
    golds = set_result.golds
    if golds is None:
        return
    yield Table(
        title="Rows that rate the gold itself",
        columns=("mean of", f"these {golds.rows:,}", f"the {golds.fair_rows:,} fair ones"),
        rows=[
            ("rating", number(golds.rating), number(golds.fair_rating)),
            *((name, number(score.golds), number(score.fair)) for name, score in golds.scores.items()),
        ],
        notes=[wording.GOLDS_IN_WORDS],
        apart=frozenset([1]),
    )


def annotator_tables(set_result: SetResult, meta_result: MetaResult) -> Iterator[Table]:
    """Yield the annotators left out, the agreement of the others, and the agreement of the metrics with each."""
    figures = set_result.annotators
    if figures.dropped:
        rows = [(wording.annotator(dropped.annotator), dropped.why) for dropped in figures.dropped]
        yield Table(title="Annotators left out", columns=("annotator", "why"), rows=rows, text=True)
    yield _reliability_table(set_result, meta_result)
    if len(figures.kept) > 1:
        yield _kappa_table(set_result)
        yield from _by_annotator_tables(set_result)
        yield from kappa_share_tables(set_result)


def _reliability_table(set_result: SetResult, meta_result: MetaResult) -> Table:
    figures = set_result.annotators
    halves = figures.split_half
    rows = [("Cohen's κ, quadratic, mean of pairs", _r(figures.kappa.mean), "")]
    rows += [
        (f"Krippendorff's α, {level}", _r(alpha.value), f"{alpha.rows:,}") for level, alpha in figures.alpha.items()
    ]
    rows += [
        (icc.form, _r(icc.value) + _bounds(icc.low, icc.high), f"{figures.icc.rows:,}") for icc in figures.icc.forms
    ]
    whys = [("κ", figures.kappa.why), *((f"α, {level}", alpha.why) for level, alpha in figures.alpha.items())]
    whys += [(icc.form, icc.why) for icc in figures.icc.forms]
    for kind in wording.KINDS:
        half = getattr(halves, kind)
        name = f"split half, {kind.capitalize()}"
        rows.append((name, _r(half.half) + _bounds(half.low, half.high), f"{halves.rows:,}"))
        rows.append((f"{name}, stepped up", _r(half.stepped_up), f"{halves.rows:,}"))
        whys.append((name, half.why))
    return Table(
        title="Annotators with each other",
        columns=("figure", f"value [{wording.per_cent(meta_result.settings)}]", "rows"),
        rows=rows,
        notes=wording.reasons(whys),
    )


def _kappa_table(set_result: SetResult) -> Table:
    figures = set_result.annotators
    values = {frozenset((pair.first, pair.second)): pair.value for pair in figures.kappa.pairs}
    places = range(len(figures.kept))
    mean = {kappa.annotator: kappa.value for kappa in figures.kappa_of_each}
    return Table(
        title="Cohen's κ of annotators, quadratic weights",
        columns=("", *(wording.annotator(place) for place in figures.kept), "mean with the others"),
        rows=[
            (
                wording.annotator(figures.kept[place]),
                *("" if place == other else _r(values.get(frozenset((place, other)))) for other in places),
                _r(mean.get(place)),
            )
            for place in places
        ],
        notes=wording.reasons(
            (wording.pair_label(figures.kept, (pair.first, pair.second)), pair.why) for pair in figures.kappa.pairs
        ),
    )


def _by_annotator_tables(set_result: SetResult) -> Iterator[Table]:
    for kind in wording.KINDS:
        by_row = {
            wording.row_label(row): row.by_annotator if kind == "spearman" else row.by_annotator_pearson
            for row in set_result.rows
        }
        spreads = {name: spread for name, spread in by_row.items() if spread is not None}
        if not spreads:
            continue
        places = list(dict.fromkeys(place for spread in spreads.values() for place in spread.each))
        pairs = set_result.annotators.pairs[kind]
        yield Table(
            title=f"{kind.capitalize()} with each annotator",
            columns=("metric", "mean", "lowest", "highest", *map(wording.annotator, places)),
            rows=[
                *(
                    (
                        name,
                        *map(_r, (spread.mean, spread.lowest, spread.highest)),
                        *(_with_p(spread.each[place]) if place in spread.each else "–" for place in places),
                    )
                    for name, spread in spreads.items()
                ),
                (wording.PAIRS, *map(_r, (pairs.mean, pairs.lowest, pairs.highest)), *("" for _ in places)),
            ],
            notes=[
                wording.PAIRS_IN_WORDS,
                wording.P_IN_WORDS,
                *wording.reasons(
                    (f"{name}, {wording.annotator(place)}", correlation.why)
                    for name, spread in spreads.items()
                    for place, correlation in spread.each.items()
                ),
            ],
            apart=frozenset([len(spreads)]),
        )
        yield _pairs_table(set_result, kind)


def _pairs_table(set_result: SetResult, kind: str) -> Table:
    """Return the correlation of every two annotators."""
    kept, each = set_result.annotators.kept, set_result.annotators.pairs[kind].each
    places = range(len(kept))
    return Table(
        title=f"{kind.capitalize()} of annotators with each other",
        columns=("", *map(wording.annotator, kept)),
        rows=[
            (
                wording.annotator(kept[place]),
                *("" if place == other else _with_p(each[min(place, other), max(place, other)]) for other in places),
            )
            for place in places
        ],
        notes=[
            wording.P_IN_WORDS,
            *wording.reasons((wording.pair_label(kept, pair), correlation.why) for pair, correlation in each.items()),
        ],
    )


def kappa_share_tables(set_result: SetResult) -> Iterator[Table]:
    """Yield the pairs of annotators above each threshold of κ, and the agreement of metrics with those who remain."""
    levels = set_result.annotators.kappa_shares
    if not levels:
        return
    labels = {row.name: wording.row_label(row) for row in set_result.rows}
    yield Table(
        title="Annotators by κ",
        columns=("κ above", *map(wording.kappa_title, levels)),
        rows=[
            ("pairs", *(f"{level.share.above:,} of {level.share.pairs:,}" for level in levels)),
            ("share of pairs", *(_share(level.share.share) for level in levels)),
            ("annotators", *(f"{len(level.share.annotators):,}" for level in levels)),
            ("rows", *(f"{level.n:,}" for level in levels)),
            *(
                (
                    f"{kind.capitalize()}, {labels[name]}",
                    *(_r(level.correlations[name][kind].value) for level in levels),
                )
                for kind in wording.KINDS
                for name in levels[0].correlations
            ),
        ],
        notes=[
            wording.KAPPA_IN_WORDS,
            *wording.reasons(
                (f"{labels[name]} at {wording.kappa_title(level)}", by_kind[wording.KINDS[0]].why)
                for level in levels
                for name, by_kind in level.correlations.items()
            ),
        ],
        apart=frozenset([4]),
    )


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def system_tables(set_result: SetResult) -> Iterator[Table]:
    """Yield the agreement over systems, and the effect of each system on the agreement over rows."""
    levels = {wording.row_label(row): row.system_level for row in set_result.rows if row.system_level is not None}
    if levels:
        first = next(iter(levels.values()))
        kinds = (*wording.KINDS, "kendall")
        yield Table(
            title=f"System level, {len(first.systems):,} systems",
            columns=("metric", *(kind.capitalize() for kind in kinds)),
            rows=[(name, *(_with_p(level.by_kind[kind]) for kind in kinds)) for name, level in levels.items()],
            notes=[
                f"over {first.rows:,} rows; scores and ratings are relative to the mean of their context, "
                f"{first.alone:,} rows alone in theirs are left out",
                *wording.reasons(
                    (name, correlation.why) for name, level in levels.items() for correlation in level.by_kind.values()
                ),
            ],
        )
        scores = {name: dict(zip(map(str, level.systems), level.scores, strict=True)) for name, level in levels.items()}
        ratings = set_result.system_ratings
        yield Table(
            title="Systems: mean rating and mean scores, relative to their contexts",
            columns=("system", "rating", *levels),
            rows=[
                (system, _r(ratings[system]), *(number(of_metric.get(system)) for of_metric in scores.values()))
                for system in sorted(ratings, key=lambda system: (-ratings[system], system))
            ],
        )
    yield from _without_system_tables(set_result)


def _without_system_tables(set_result: SetResult) -> Iterator[Table]:
    withouts = {wording.row_label(row): row.without_system for row in set_result.rows if row.without_system is not None}
    if not withouts:
        return
    yield Table(
        title="Spearman over rows without one system",
        columns=("metric", "mean", "lowest", "highest", "changes most without", "by"),
        rows=[
            (
                name,
                *map(_r, (without.spread.mean, without.spread.lowest, without.spread.highest)),
                without.most or "–",
                _r(without.change),
            )
            for name, without in withouts.items()
        ],
        notes=wording.reasons((name, without.spread.why) for name, without in withouts.items()),
    )
    spreads = {name: without.spread.each for name, without in withouts.items()}
    systems = list(dict.fromkeys(system for each in spreads.values() for system in each))
    yield Table(
        title="Spearman without each system",
        columns=("without", *withouts),
        rows=[
            (
                str(system),
                *(_r(each[system].value) if system in each else "–" for each in spreads.values()),
            )
            for system in systems
        ],
        notes=wording.reasons(
            (f"{name} without {system}", correlation.why)
            for name, each in spreads.items()
            for system, correlation in each.items()
        ),
    )


def group_tables(set_result: SetResult, meta_result: MetaResult) -> Iterator[Table]:
    """Yield the agreement of means of several replies, which tells how large a test set has to be."""
    rows = [row for row in set_result.rows if row.groups]
    if not rows:
        return
    for kind in wording.KINDS:
        yield Table(
            title=f"{kind.capitalize()} of the means of groups of replies",
            columns=("metric", *(f"{group.size} ({group.groups:,} groups)" for group in rows[0].groups)),
            rows=[
                (wording.row_label(row), *(_with_interval(group.by_kind[kind]) for group in row.groups)) for row in rows
            ],
            notes=[
                "rows are dealt into groups at random, many times; value: the mean of the deals, "
                f"in brackets: {wording.per_cent(meta_result.settings)} of them",
                *wording.reasons((row.name, group.by_kind[kind].why) for row in rows for group in row.groups),
            ],
        )


def bad_item_tables(set_result: SetResult) -> Iterator[Table]:
    """Yield the first items that could not be read, and what is wrong with each."""
    if not set_result.bad_items:
        return
    more = len(set_result.bad_items) - _LISTED_ITEMS
    yield Table(
        title="Items that could not be read",
        columns=("where", "what is wrong"),
        rows=[
            (f"{bad.file}, line {bad.line}", f"{bad.field}: {bad.message}" if bad.field else bad.message)
            for bad in set_result.bad_items[:_LISTED_ITEMS]
        ],
        notes=[f"and {more:,} more"] if more > 0 else [],
        text=True,
    )


def number(score: float | None) -> str:
    """Format a score of any size."""
    return "–" if score is None else wording.minus(f"{score:.4g}")


def page(meta_result: MetaResult, plots: Sequence[SectionPlots]) -> str:
    """Return the page; the plots are those of each set, and after them those of the mean."""
    sections = [
        _set_section(number, set_result, meta_result, plots[number])
        for number, set_result in enumerate(meta_result.sets)
    ]
    if meta_result.mean is not None:
        sections.insert(0, _mean_section(meta_result, plots[-1]))
    return report_page(
        Report(
            title="Agreement of metrics with people",
            summary=[_summary(meta_result)],
            warnings=meta_result.warnings,
            sections=[
                *sections,
                Section(
                    title="How it was made", anchor="how", link="how it was made", tables=_settings_tables(meta_result)
                ),
            ],
        )
    )


def _summary(meta_result: MetaResult) -> str:
    settings = meta_result.settings
    rows = sum(set_result.counts.used for set_result in meta_result.sets)
    metrics, sets = len(meta_result.metrics), len(meta_result.sets)
    return (
        f"{metrics} metric{'s' * (metrics != 1)} on {rows:,} rated replies of {sets} test set{'s' * (sets != 1)}; "
        f"{ROWS_IN_WORDS[settings.rows]}. Correlations are with the mean rating of a reply, intervals of "
        f"{per_cent(settings)} from {draws_in_words(settings)}. "
        f"The baseline is {meta_result.baseline}."
    )


def _mean_section(meta_result: MetaResult, plots: SectionPlots) -> Section:
    mean = meta_result.mean
    assert mean is not None
    intro = f"Of {', '.join(mean.sets)}; each set counts the same. Kendall and partial Spearman have no interval here."
    tables = [agreement_table(mean.rows, meta_result), *difference_tables(mean.rows, meta_result)]
    return Section(
        anchor="mean",
        title="Mean over sets",
        link="mean over sets",
        text=[intro],
        parts=[Part(PartForm.FIGURE, plots.bars), *(Part(PartForm.TABLE, table) for table in tables)],
    )


def _set_section(number: int, set_result: SetResult, meta_result: MetaResult, plots: SectionPlots) -> Section:
    tables = [agreement_table(set_result.rows, meta_result), *difference_tables(set_result.rows, meta_result)]
    tables += [rows_table(set_result), *gold_tables(set_result)]
    further = [*annotator_tables(set_result, meta_result), *system_tables(set_result)]
    further += [*group_tables(set_result, meta_result), *bad_item_tables(set_result)]
    return Section(
        anchor=f"set-{number}",
        title=set_result.name,
        parts=[
            Part(PartForm.FIGURE, plots.bars),
            *(Part(PartForm.TABLE, table) for table in tables),
            *_plots_of_replies(plots),
            *(Part(PartForm.TABLE, table) for table in further),
        ],
    )


def _plots_of_replies(plots: SectionPlots) -> Iterator[Part]:
    """Yield the plots of scores and ratings; plots of the same kind fill a page better."""
    if not plots.scatter and not plots.boxes:
        return
    titled = {"Scores and ratings": plots.scatter, "Scores by system": plots.boxes}
    if plots.system_level:
        titled["Mean scores and mean ratings of systems"] = plots.system_level
    for title, drawn in titled.items():
        yield Part(PartForm.HEADING, title)
        yield Part(PartForm.GRID, drawn)


def _settings_tables(meta_result: MetaResult) -> list[Table]:
    """List everything that is needed to reproduce the figures."""
    settings = meta_result.settings
    least = (
        "none left out" if settings.min_kappa is None else f"those below a mean κ of {settings.min_kappa:g} left out"
    )
    facts = [
        ("rows", f"{settings.rows.value}: {ROWS_IN_WORDS[settings.rows]}"),
        ("baseline", meta_result.baseline),
        ("draws", f"{settings.draws:,}"),
        ("seed", str(settings.seed)),
        ("confidence", f"{settings.confidence:g}"),
        ("annotators", least),
        *((f"data of {set_result.name}", set_result.data) for set_result in meta_result.sets),
        ("refaug", VERSION),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in ("numpy", "scipy", "matplotlib")),
    ]
    signatures = [(name, signature.short, signature.full) for name, signature in all_signatures(meta_result)]
    return [
        Table(title="Settings and versions", columns=("what", "value"), rows=facts, text=True),
        Table(title="Signatures", columns=("metric", "short", "full"), rows=signatures, text=True),
    ]
