"""The tables that `refaug agreement` prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from refaug.agreement.records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from refaug.agreement.report import wording
from refaug.cli.shared.output import count_of, print_facts, print_line, print_table
from refaug.cli.shared.score_options import number
from refaug.metrics.statistics.correlation import Correlation, Spread
from refaug.metrics.statistics.resampling import Estimate
from refaug.scoring.settings import MetaSettings


def print_tables(agreement: MetaResult) -> None:
    """Print all tables of every set, those of the mean, and the signatures of the metrics."""
    for set_result in agreement.sets:
        _print_set(set_result, agreement)
    if agreement.mean is not None:
        _print_agreement(f"mean over {', '.join(agreement.mean.sets)}", agreement.mean.rows, agreement)
    for name, signature in wording.all_signatures(agreement):
        print_line(f"{name}: {signature.short}")


def _print_set(set_result: SetResult, agreement: MetaResult) -> None:
    counts = set_result.counts
    print_facts(
        set_result.name,
        {
            "rows used": f"{counts.used:,} ({agreement.settings.rows.value}), {count_of(counts.contexts, 'context')}, "
            f"{count_of(counts.systems, 'system')}",
            "rated replies": counts.rated,
            "… fair ones": f"{counts.fair:,} ({counts.references_themselves:,} others are one of their own golds)",
            "references identical to the reply, removed": counts.references_removed,
            "replies without a rating": sum(counts.unrated.values()),
            "replies without a score": counts.left_out,
            "data": set_result.data,
        },
    )
    print_line()
    _print_agreement(f"{set_result.name}: agreement with the mean rating", set_result.rows, agreement)
    _print_p_values(set_result)
    _print_golds(set_result)
    _print_annotators(set_result, agreement.settings)
    _print_systems(set_result)
    _print_groups(set_result)


def _print_agreement(title: str, rows: Sequence[AgreementRow | MeanRow], agreement: MetaResult) -> None:
    """Print the main table, which the other tables explain."""
    interval = wording.per_cent(agreement.settings)
    with_williams = any(getattr(row, "williams", {}) for row in rows)
    williams = ("Williams p",) if with_williams else ()
    columns = ("metric", "Spearman", interval, f"less {agreement.baseline}", interval, "Holm p", *williams)
    print_table(
        title,
        (*columns, "Pearson", "Kendall", "partial Spearman", "n"),
        [
            (
                _label(row),
                _correlation(row.spearman.value),
                _span(row.spearman),
                *_difference(row),
                *((_williams(row),) if with_williams else ()),
                _correlation(row.pearson.value),
                _correlation(row.kendall.value),
                _correlation(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    for reason in _reasons(rows):
        print_line(f"  {reason}")
    print_line(f"  intervals: bootstrap, {wording.draws_in_words(agreement.settings)}")
    print_line("  difference and Holm p: of Spearman, paired on the same draws")
    if with_williams:
        print_line("  Williams p: of the same difference; assumes independent rows")
    print_line("  partial Spearman: with reply length held fixed")
    if any(row.turned for row in rows):
        print_line(f"  {wording.TURNED}")
    print_line()


def _print_p_values(set_result: SetResult) -> None:
    """Print the p of each correlation of the main table, in a table apart: the main one is wide enough."""
    rows = [row for row in set_result.rows if row.p_values]
    kinds = {"spearman": "Spearman", "pearson": "Pearson", "kendall": "Kendall", "partial_spearman": "partial Spearman"}
    if not rows:
        return
    print_table(
        f"{set_result.name}: p of each correlation",
        ("metric", *kinds.values()),
        [(_label(row), *(_p_value(row.p_values[kind]) for kind in kinds)) for row in rows],
    )
    print_line(f"  {wording.P_IN_WORDS}")
    print_line()


def _label(row: AgreementRow | MeanRow) -> str:
    return f"{row.name} (turned)" if row.turned else row.name


def _difference(row: AgreementRow | MeanRow) -> tuple[str, str, str]:
    difference = row.differences.get("spearman")
    return (
        ("-", "-", "-")
        if difference is None
        else (_correlation(difference.value), _span(difference), _p_value(row.holm.get("spearman")))
    )


def _williams(row: AgreementRow | MeanRow) -> str:
    tests = getattr(row, "williams", {})
    return _p_value(tests["spearman"].p) if "spearman" in tests else "-"


def _reasons(rows: Iterable[AgreementRow | MeanRow]) -> Iterator[str]:
    """Yield the reason for each dash; figures that the kind of row never has need none."""
    for row in rows:
        figures: dict[str, Estimate | Correlation] = {"Spearman": row.spearman, "Pearson": row.pearson}
        if row.kind is RowKind.METRIC:
            figures |= {"Kendall": row.kendall, "partial Spearman": row.partial_spearman}
        whys = [(name, figure.why) for name, figure in figures.items() if figure.why is not None]
        for why in dict.fromkeys(why for _, why in whys):
            yield f"{row.name}, {', '.join(name for name, figure in whys if figure == why)}: {why}"
        difference = row.differences.get("spearman")
        if difference is not None and difference.why is not None and difference.why != row.spearman.why:
            yield f"{row.name}, difference: {difference.why}"


def _print_golds(set_result: SetResult) -> None:
    """Print the means of the rows that rate a gold beside those of the fair rows."""
    if set_result.golds is None:
        return
    golds = set_result.golds
    print_table(
        f"{set_result.name}: rows that rate the gold itself",
        ("mean of", f"these {golds.rows:,}", f"the {golds.fair_rows:,} fair ones"),
        [
            ("rating", number(golds.rating), number(golds.fair_rating)),
            *((name, number(score.golds), number(score.fair)) for name, score in golds.scores.items()),
        ],
    )
    print_line(f"  {wording.GOLDS_IN_WORDS}")
    print_line()


def _print_annotators(set_result: SetResult, settings: MetaSettings) -> None:
    figures = set_result.annotators
    if len(figures.kept) + len(figures.dropped) == 1:
        print_line("annotators: one number only for each reply, so there is nothing to compare")
        print_line()
        return
    halves = figures.split_half.spearman
    table: list[Sequence[object]] = [("Cohen's κ, quadratic, mean of pairs", _correlation(figures.kappa.mean), "-")]
    table += [
        (f"… annotator {figures.kept[each.annotator] + 1}", _correlation(each.value), "-")
        for each in figures.kappa_of_each
    ]
    table += [(f"Krippendorff's α, {level}", _correlation(alpha.value), "-") for level, alpha in figures.alpha.items()]
    table += [(form.form, _correlation(form.value), _bounds(form.low, form.high)) for form in figures.icc.forms]
    table += [
        ("split half, Spearman", _correlation(halves.half), _bounds(halves.low, halves.high)),
        ("… Spearman–Brown", _correlation(halves.stepped_up), "-"),
    ]
    print_table(
        f"{set_result.name}: annotators with each other", ("figure", "value", wording.per_cent(settings)), table
    )
    reasons = [figures.kappa.why, *(alpha.why for alpha in figures.alpha.values())]
    reasons += [*(form.why for form in figures.icc.forms), halves.why]
    for why in dict.fromkeys(reason for reason in reasons if reason is not None):
        print_line(f"  {why}")
    print_line()
    _print_each_annotator(set_result)
    _print_kappa_shares(set_result)


def _print_each_annotator(set_result: SetResult) -> None:
    pairs = set_result.annotators.pairs
    print_table(
        f"{set_result.name}: correlation with each annotator",
        ("metric", "Spearman: mean", "minimum", "maximum", "Pearson: mean", "minimum", "maximum"),
        [
            *(
                (_label(row), *_extremes(row.by_annotator), *_extremes(row.by_annotator_pearson))
                for row in set_result.rows
                if row.by_annotator is not None
            ),
            (wording.PAIRS, *_extremes(pairs["spearman"]), *_extremes(pairs["pearson"])),
        ],
    )
    print_line(f"  {wording.PAIRS_IN_WORDS}")
    print_line()


def _extremes(spread: Spread | None) -> tuple[str, str, str]:
    if spread is None:
        return ("-", "-", "-")
    return (_correlation(spread.mean), _correlation(spread.lowest), _correlation(spread.highest))


def _print_kappa_shares(set_result: SetResult) -> None:
    """Print the pairs of annotators above each threshold of κ, and the agreement with those whom it would keep."""
    levels = set_result.annotators.kappa_shares
    if not levels:
        return
    labels = {row.name: _label(row) for row in set_result.rows}
    print_table(
        f"{set_result.name}: annotators by κ",
        ("κ above", *map(wording.kappa_title, levels)),
        [
            (f"pairs, of {levels[0].share.pairs:,}", *(level.share.above for level in levels)),
            ("share of pairs", *(f"{level.share.share or 0:.2f}" for level in levels)),
            ("annotators", *(len(level.share.annotators) for level in levels)),
            *(
                (
                    f"Spearman, {labels[name]}",
                    *(_correlation(level.correlations[name]["spearman"].value) for level in levels),
                )
                for name in levels[0].correlations
            ),
        ],
    )
    print_line(f"  {wording.KAPPA_IN_WORDS}")
    print_line()


def _print_systems(set_result: SetResult) -> None:
    rows: list[Sequence[object]] = []
    whys = dict[str, None]()
    for row in set_result.rows:
        level, without = row.system_level, row.without_system
        if level is None or without is None:
            continue
        spearman = level.by_kind["spearman"]
        missing = "p" if spearman.value is not None else "value"
        whys |= dict.fromkeys([f"no {missing}: {spearman.why}"] if spearman.why is not None else [])
        whys |= dict.fromkeys([f"without one: {without.spread.why}"] if without.spread.why is not None else [])
        rows.append(
            (
                _label(row),
                *(
                    text
                    for kind in ("spearman", "pearson", "kendall")
                    for text in (_correlation(level.by_kind[kind].value), _p_value(level.by_kind[kind].p))
                ),
                _correlation(without.spread.lowest),
                _correlation(without.spread.highest),
                without.most,
                _correlation(without.change),
            )
        )
    correlations = ("metric", "Spearman", "p", "Pearson", "p", "Kendall", "p")
    columns = (*correlations, "without one: lowest", "highest", "most", "change")
    title = f"{set_result.name}: system level, {count_of(set_result.counts.systems, 'system')}, contexts centred"
    print_table(title, columns, rows)
    for why in whys:
        print_line(f"  {why}")
    print_line("  without one: Spearman over replies without each system in turn; most: whose absence changes it most")
    print_line()


def _print_groups(set_result: SetResult) -> None:
    rows = [row for row in set_result.rows if row.groups]
    sizes = [group.size for group in rows[0].groups]
    print_table(
        f"{set_result.name}: Spearman of the means of groups of replies",
        ("metric", *(str(size) for size in sizes)),
        [(_label(row), *(_correlation(group.by_kind["spearman"].value) for group in row.groups)) for row in rows],
    )
    whys = (group.by_kind["spearman"].why for row in rows for group in row.groups)
    for why in dict.fromkeys(why for why in whys if why is not None):
        print_line(f"  {why}")
    print_line()


def _correlation(coefficient: float | None) -> str:
    """Format a correlation for people."""
    return "-" if coefficient is None else f"{coefficient:.3f}"


def _p_value(p: float | None) -> str:
    return "-" if p is None else f"{p:.0e}" if p < 0.0001 else f"{p:.4f}"


def _span(estimate: Estimate) -> str:
    return _bounds(estimate.low, estimate.high)


def _bounds(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
