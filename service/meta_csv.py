"""What `refaug meta` found as one long table, for pandas and R: a figure a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from core.text import harmless
from core.version import VERSION
from metrics.correlation import Correlation, Spread
from metrics.resampling import Estimate
from metrics.signature import Signature
from service.meta_records import AgreementRow, MeanRow, MetaResult, RowKind, SetResult
from service.meta_text import KINDS, annotator


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """One line of the CSV; the fields are its columns, in order."""

    scope: str
    set: str | None = None
    kind: str
    metric: str | None = None
    signature: str | None = None
    baseline: str | None = None
    turned: bool | None = None
    statistic: str = ""
    of: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    holm_p: float | None = None
    n: int | None = None
    note: str | None = None


def as_csv(result: MetaResult) -> str:
    r"""Every figure of the result, one a line, as pandas and R read it: a header, commas, quotes where needed, `\n`.

    | column | holds |
    |---|---|
    | scope | `set`; `mean` (over all sets); `run` (settings) |
    | set | name of the set; empty in other scopes |
    | kind | `metric`, `length` or `human` (figures of a row); `golds`, `annotators`, `ratings`, `count`; `setting` |
    | metric, signature | the metric as it was asked for, and its short signature; for `mean`, if all sets share it |
    | baseline | in lines of differences, the metric that this one is compared with |
    | turned | whether the sign was turned, for lower scores are better |
    | statistic | see below |
    | of | which annotator, system, size of groups or code of a problem, where the statistic has several |
    | value, low, high | the figure and its interval; empty where there is none |
    | p, holm_p | p, and p adjusted over all metrics compared with the baseline |
    | n | rows, systems or groups that the figure is about |
    | note | why something is empty, or what to bear in mind |

    Statistics of rows: `spearman`, `pearson`, `kendall`, `partial_spearman` (length held fixed);
    `spearman_difference`, `spearman_williams` (value: t); `annotator_spearman`, `without_system_spearman` and these
    with `_mean`, `_lowest`, `_highest`; `without_system_change` (of: whose absence changes most); `system_spearman`
    and `system_score` (relative to the context's mean); `group_spearman`. Where it says spearman there are also
    pearson and kendall, as far as they were computed. `mean_rating` and `mean_score` of golds are those of the rows
    that rate the gold itself, beside the fair rows. Numbers are written so that they read back as the same number.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in fields(_Figure)])
    writer.writerows([_field(value) for value in astuple(one)] for one in _figures(result))
    return text.getvalue()


def _field(value: object) -> object:
    if isinstance(value, str):
        return harmless(value)
    return float(value) if isinstance(value, float) else value  # numpy's own write themselves otherwise


def _figures(result: MetaResult) -> Iterator[_Figure]:
    for found in result.sets:
        for row in found.rows:
            like = _like(row, found.signatures.get(row.name), scope="set", name=found.name)
            yield from _agreement_figures(row, like, result.baseline)
            yield from _further_figures(row, like)
        yield from _gold_figures(found)
        yield from _annotator_figures(found)
        yield from _rating_figures(found)
        yield from _count_figures(found)
    if result.mean is not None:
        for mean in result.mean.rows:
            signature = result.signature(mean.name) if mean.kind is RowKind.METRIC else None
            yield from _agreement_figures(mean, _like(mean, signature, scope="mean", name=None), result.baseline)
    yield from _setting_figures(result)


def _like(row: AgreementRow | MeanRow, signature: Signature | None, *, scope: str, name: str | None) -> _Figure:
    """A line with what all figures of a row share."""
    is_metric = row.kind is RowKind.METRIC
    return _Figure(
        scope=scope,
        set=name,
        kind=row.kind.value,
        metric=row.name if is_metric else None,
        signature=signature.short if signature is not None else None,
        turned=row.turned if is_metric else None,
    )


def _agreement_figures(row: AgreementRow | MeanRow, like: _Figure, baseline: str) -> Iterator[_Figure]:
    """What rows of sets and of the mean have in common."""
    for kind in KINDS:
        yield _of_estimate(like, kind, getattr(row, kind), row.n)
        difference = row.differences.get(kind)
        if difference is not None:
            line = _of_estimate(like, f"{kind}_difference", difference, row.n)
            yield replace(line, baseline=baseline, holm_p=row.holm.get(kind))
    if row.kind is RowKind.HUMAN:
        return
    for statistic, one in (("kendall", row.kendall), ("partial_spearman", row.partial_spearman)):
        if isinstance(one, Correlation):
            yield _of_correlation(like, statistic, one)
        else:
            yield _of_estimate(like, statistic, one, row.n)
    tests = row.williams if isinstance(row, AgreementRow) else {}
    for kind, test in tests.items():
        note = test.note if test.why is None else f"{test.why}; {test.note}"
        statistic = f"{kind}_williams"
        yield replace(like, statistic=statistic, baseline=baseline, value=test.t, p=test.p, n=test.n, note=note)


def _further_figures(row: AgreementRow, like: _Figure) -> Iterator[_Figure]:
    """What only rows of sets have."""
    if row.by_annotator is not None:
        yield from _spread_figures(like, "annotator_spearman", row.by_annotator, annotator)
    if row.without_system is not None:
        without = row.without_system
        yield from _spread_figures(like, "without_system_spearman", without.spread, str)
        if without.most is not None:
            yield replace(like, statistic="without_system_change", of=without.most, value=without.change)
    if row.system_level is not None:
        level = row.system_level
        for kind in (*KINDS, "kendall"):
            yield _of_correlation(like, f"system_{kind}", level.by_kind[kind])
        for system, score in zip(level.systems, level.scores, strict=True):
            yield replace(like, statistic="system_score", of=str(system), value=score)
    for group in row.groups:
        for kind in KINDS:
            line = _of_estimate(like, f"group_{kind}", group.by_kind[kind], group.groups)
            yield replace(line, of=str(group.size))


def _spread_figures(like: _Figure, statistic: str, spread: Spread, name: Callable[[Any], str]) -> Iterator[_Figure]:
    for which, value in (("mean", spread.mean), ("lowest", spread.lowest), ("highest", spread.highest)):
        yield replace(like, statistic=f"{statistic}_{which}", value=value, n=len(spread.each), note=spread.why)
    for key, one in spread.each.items():
        yield replace(_of_correlation(like, statistic, one), of=name(key))


def _gold_figures(found: SetResult) -> Iterator[_Figure]:
    if found.golds is None:
        return
    like, golds = _Figure(scope="set", set=found.name, kind="golds"), found.golds
    for of, rating, rows in (("golds", golds.rating, golds.rows), ("fair", golds.fair_rating, golds.fair_rows)):
        yield replace(like, statistic="mean_rating", of=of, value=rating, n=rows)
    for name, score in golds.scores.items():
        line = replace(like, metric=name, signature=found.signatures[name].short, statistic="mean_score")
        yield replace(line, of="golds", value=score.golds, n=score.scored)
        yield replace(line, of="fair", value=score.fair, n=golds.fair_rows if score.fair is not None else 0)


def _annotator_figures(found: SetResult) -> Iterator[_Figure]:
    figures, like = found.annotators, _Figure(scope="set", set=found.name, kind="annotators")
    yield replace(like, statistic="kappa_mean", value=figures.kappa.mean, note=figures.kappa.why)
    for pair in figures.kappa.pairs:
        both = f"{annotator(figures.kept[pair.first])} and {figures.kept[pair.second] + 1}"
        yield replace(like, statistic="kappa", of=both, value=pair.value, n=pair.n, note=pair.why)
    for each in figures.kappa_of_each:
        name = annotator(figures.kept[each.annotator])
        yield replace(like, statistic="kappa_with_others", of=name, value=each.value, n=each.pairs, note=each.why)
    for level, alpha in figures.alpha.items():
        yield replace(like, statistic="alpha", of=level, value=alpha.value, n=alpha.rows, note=alpha.why)
    for form in figures.icc.forms:
        line = replace(like, statistic="icc", of=form.form, value=form.value, n=figures.icc.rows, note=form.why)
        yield replace(line, low=form.low, high=form.high)
    for kind in KINDS:
        halves, rows = getattr(figures.split_half, kind), figures.split_half.rows
        line = replace(like, statistic=f"split_half_{kind}", value=halves.half, n=rows, note=halves.why)
        yield replace(line, low=halves.low, high=halves.high)
        yield replace(line, statistic=f"split_half_{kind}_stepped_up", value=halves.stepped_up)
    for dropped in figures.dropped:
        yield replace(like, statistic="left_out", of=annotator(dropped.annotator), note=dropped.why)


def _rating_figures(found: SetResult) -> Iterator[_Figure]:
    like = _Figure(scope="set", set=found.name, kind="ratings", statistic="system_rating")
    for system, rating in found.system_ratings.items():
        yield replace(like, of=system, value=rating)


def _count_figures(found: SetResult) -> Iterator[_Figure]:
    counts, like = found.counts, _Figure(scope="set", set=found.name, kind="count")
    for name, value in counts.as_json().items():
        if isinstance(value, int):
            yield replace(like, statistic=name, value=value)
    for system, missing in counts.unrated.items():
        yield replace(like, statistic="unrated", of=system, value=missing)
    for metric, by_code in counts.unscored.items():
        for code, rows in by_code.items():
            yield replace(like, metric=metric, statistic="unscored", of=code, value=rows)
    yield replace(like, statistic="data", note=found.data)


def _setting_figures(result: MetaResult) -> Iterator[_Figure]:
    like, settings = _Figure(scope="run", kind="setting"), result.settings
    yield replace(like, statistic="rows", note=settings.rows.value)
    yield replace(like, statistic="baseline", metric=result.baseline)
    for name in ("draws", "seed", "confidence", "min_kappa"):
        yield replace(like, statistic=name, value=getattr(settings, name))
    yield replace(like, statistic="refaug", note=VERSION)


def _of_estimate(like: _Figure, statistic: str, one: Estimate, n: int) -> _Figure:
    missing = f"undefined in {one.undefined} draws" if one.undefined else None
    note = "; ".join(part for part in (one.why, missing) if part is not None) or None
    return replace(like, statistic=statistic, value=one.value, low=one.low, high=one.high, p=one.p, n=n, note=note)


def _of_correlation(like: _Figure, statistic: str, one: Correlation) -> _Figure:
    return replace(like, statistic=statistic, value=one.value, p=one.p, n=one.n, note=one.why)
