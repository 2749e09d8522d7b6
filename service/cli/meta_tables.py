"""The tables that `refaug meta` prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from metrics.correlation import Correlation
from metrics.resampling import Estimate
from service.cli.common import counted, print_facts, print_line, print_table
from service.cli.scoring import number
from service.meta_records import AgreementRow, MeanRow, MetaResult, MetaSettings, RowKind, SetResult
from service.meta_text import GOLDS_IN_WORDS, TURNED, all_signatures, draws_in_words, per_cent


def print_tables(found: MetaResult) -> None:
    """All tables of every set, those of the mean, and the signatures of the metrics."""
    for one in found.sets:
        _print_set(one, found)
    if found.mean is not None:
        _print_agreement(f"mean over {', '.join(found.mean.sets)}", found.mean.rows, found)
    for name, signature in all_signatures(found):
        print_line(f"{name}: {signature.short}")


def _print_set(one: SetResult, found: MetaResult) -> None:
    counts = one.counts
    print_facts(
        one.name,
        {
            "rows used": f"{counts.used:,} ({found.settings.rows.value}), {counted(counts.contexts, 'context')}, "
            f"{counted(counts.systems, 'system')}",
            "rated replies": counts.rated,
            "… fair ones": f"{counts.fair:,} ({counts.references_themselves:,} others are one of their own golds)",
            "references identical to the reply, removed": counts.references_removed,
            "replies without a rating": sum(counts.unrated.values()),
            "replies without a score": counts.left_out,
            "data": one.data,
        },
    )
    print_line()
    _print_agreement(f"{one.name}: agreement with the mean rating", one.rows, found)
    _print_golds(one)
    _print_annotators(one, found.settings)
    _print_systems(one)
    _print_groups(one)


def _print_agreement(title: str, rows: Sequence[AgreementRow | MeanRow], found: MetaResult) -> None:
    """The table that everything else explains."""
    interval = per_cent(found.settings)
    with_williams = any(getattr(row, "williams", {}) for row in rows)
    williams = ("Williams p",) if with_williams else ()
    columns = ("metric", "Spearman", interval, f"less {found.baseline}", interval, "Holm p", *williams)
    print_table(
        title,
        (*columns, "Pearson", "Kendall", "partial Spearman", "n"),
        [
            (
                _label(row),
                _r(row.spearman.value),
                _span(row.spearman),
                *_difference(row),
                *((_williams(row),) if with_williams else ()),
                _r(row.pearson.value),
                _r(row.kendall.value),
                _r(row.partial_spearman.value),
                row.n,
            )
            for row in rows
        ],
    )
    for reason in _reasons(rows):
        print_line(f"  {reason}")
    print_line(f"  intervals: bootstrap, {draws_in_words(found.settings)}")
    print_line("  difference and Holm p: of Spearman, paired on the same draws")
    if with_williams:
        print_line("  Williams p: of the same difference; assumes independent rows")
    print_line("  partial Spearman: with reply length held fixed")
    if any(row.turned for row in rows):
        print_line(f"  {TURNED}")
    print_line()


def _label(row: AgreementRow | MeanRow) -> str:
    return f"{row.name} (turned)" if row.turned else row.name


def _difference(row: AgreementRow | MeanRow) -> tuple[str, str, str]:
    found = row.differences.get("spearman")
    return ("-", "-", "-") if found is None else (_r(found.value), _span(found), _p(row.holm.get("spearman")))


def _williams(row: AgreementRow | MeanRow) -> str:
    tests = getattr(row, "williams", {})
    return _p(tests["spearman"].p) if "spearman" in tests else "-"


def _reasons(rows: Iterable[AgreementRow | MeanRow]) -> Iterator[str]:
    """Why there is a dash, where that is not what the row is about."""
    for row in rows:
        figures: dict[str, Estimate | Correlation] = {"Spearman": row.spearman, "Pearson": row.pearson}
        if row.kind is RowKind.METRIC:
            figures |= {"Kendall": row.kendall, "partial Spearman": row.partial_spearman}
        whys = [(name, one.why) for name, one in figures.items() if one.why is not None]
        for why in dict.fromkeys(why for _, why in whys):
            yield f"{row.name}, {', '.join(name for name, one in whys if one == why)}: {why}"
        difference = row.differences.get("spearman")
        if difference is not None and difference.why is not None and difference.why != row.spearman.why:
            yield f"{row.name}, difference: {difference.why}"


def _print_golds(one: SetResult) -> None:
    """The rows that are kept apart, and what they would have added."""
    if one.golds is None:
        return
    golds = one.golds
    print_table(
        f"{one.name}: rows that rate the gold itself",
        ("mean of", f"these {golds.rows:,}", f"the {golds.fair_rows:,} fair ones"),
        [
            ("rating", number(golds.rating), number(golds.fair_rating)),
            *((name, number(score.golds), number(score.fair)) for name, score in golds.scores.items()),
        ],
    )
    print_line(f"  {GOLDS_IN_WORDS}")
    print_line()


def _print_annotators(one: SetResult, settings: MetaSettings) -> None:
    figures = one.annotators
    if len(figures.kept) + len(figures.dropped) == 1:
        print_line("annotators: one number only for each reply, so there is nothing to compare")
        print_line()
        return
    halves = figures.split_half.spearman
    table: list[Sequence[object]] = [("Cohen's κ, quadratic, mean of pairs", _r(figures.kappa.mean), "-")]
    table += [
        (f"… annotator {figures.kept[each.annotator] + 1}", _r(each.value), "-") for each in figures.kappa_of_each
    ]
    table += [(f"Krippendorff's α, {level}", _r(alpha.value), "-") for level, alpha in figures.alpha.items()]
    table += [(form.form, _r(form.value), _bounds(form.low, form.high)) for form in figures.icc.forms]
    table += [
        ("split half, Spearman", _r(halves.half), _bounds(halves.low, halves.high)),
        ("… Spearman–Brown", _r(halves.stepped_up), "-"),
    ]
    print_table(f"{one.name}: annotators with each other", ("figure", "value", per_cent(settings)), table)
    reasons = [figures.kappa.why, *(alpha.why for alpha in figures.alpha.values())]
    reasons += [*(form.why for form in figures.icc.forms), halves.why]
    for why in dict.fromkeys(reason for reason in reasons if reason is not None):
        print_line(f"  {why}")
    print_line()
    print_table(
        f"{one.name}: Spearman with each annotator",
        ("metric", "mean", "minimum", "maximum"),
        [
            (_label(row), _r(spread.mean), _r(spread.lowest), _r(spread.highest))
            for row in one.rows
            if (spread := row.by_annotator) is not None
        ],
    )
    print_line()


def _print_systems(one: SetResult) -> None:
    rows: list[Sequence[object]] = []
    whys = dict[str, None]()
    for row in one.rows:
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
                *(_r(level.by_kind[kind].value) for kind in ("spearman", "pearson", "kendall")),
                _p(spearman.p),
                _r(without.spread.lowest),
                _r(without.spread.highest),
                without.most,
                _r(without.change),
            )
        )
    columns = ("metric", "Spearman", "Pearson", "Kendall", "p", "without one: lowest", "highest", "most", "change")
    title = f"{one.name}: system level, {counted(one.counts.systems, 'system')}, contexts centred"
    print_table(title, columns, rows)
    for why in whys:
        print_line(f"  {why}")
    print_line("  without one: Spearman over replies without each system in turn; most: whose absence changes it most")
    print_line()


def _print_groups(one: SetResult) -> None:
    rows = [row for row in one.rows if row.groups]
    sizes = [group.size for group in rows[0].groups]
    print_table(
        f"{one.name}: Spearman of the means of groups of replies",
        ("metric", *(str(size) for size in sizes)),
        [(_label(row), *(_r(group.by_kind["spearman"].value) for group in row.groups)) for row in rows],
    )
    whys = (group.by_kind["spearman"].why for row in rows for group in row.groups)
    for why in dict.fromkeys(why for why in whys if why is not None):
        print_line(f"  {why}")
    print_line()


def _r(value: float | None) -> str:
    """A correlation for people."""
    return "-" if value is None else f"{value:.3f}"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.0e}" if value < 0.0001 else f"{value:.4f}"


def _span(one: Estimate) -> str:
    return _bounds(one.low, one.high)


def _bounds(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
