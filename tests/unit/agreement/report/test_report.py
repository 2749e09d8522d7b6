"""The report of `refaug agreement`: every figure is there, names are text, and equal results give equal bytes."""

from __future__ import annotations

import base64
import csv
import functools
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from PIL import Image
from refusals import refusing

from refaug.agreement.meta import agreement
from refaug.agreement.records import (
    AgreementRow,
    AnnotatorFigures,
    ComparedMetric,
    MetaResult,
    Points,
    RatedItems,
    RowCounts,
    RowKind,
    SetResult,
    WithoutSystem,
)
from refaug.agreement.report import plots
from refaug.agreement.report.page import page as page_of
from refaug.agreement.report.plots import Plot
from refaug.agreement.report.report import as_csv, as_latex, write_report
from refaug.core.errors import Usage
from refaug.core.files import require_folder
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import make_printable
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.statistics.agreement import SystemLevel
from refaug.metrics.statistics.correlation import Correlation, Spread, WilliamsTest
from refaug.metrics.statistics.resampling import Estimate
from refaug.scoring.items import BadItem, item_of
from refaug.scoring.settings import MetaSettings, RowsChoice
from refaug.tables.reports.plotting import with_palette

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "home", "fast", "today", "never", "maybe", "we"]
SYSTEMS = ["good", "fair & square", "<script>alert('x')</script>", "東京モデル"]
SPECIFICATIONS = ["bleu", "ter", "multi-bleu:n=3,smooth=exp,bp=none,eff=yes"]
ODD = r'50% of $x_1^2$ & {#1} ~ "<b>" \end|`,' + "'é 東--"


def rated_items(contexts: int, systems: list[str], annotators: int, seed: int) -> list[Item]:
    """Replies that share the more words with their gold the earlier their system is in the list."""
    random = np.random.default_rng(seed)
    items = []
    for number in range(contexts):
        gold = [str(word) for word in random.choice(WORDS, size=6)]
        replies, ratings = {}, {}
        for place, system in enumerate(systems):
            kept = [word for word in gold if random.random() > 0.2 + 0.5 * place / len(systems)]
            added = [str(word) for word in random.choice(WORDS, size=random.integers(1, 4))]
            replies[system] = " ".join([*kept, *added, "oh"])
            wanted = len(kept) * 0.7 + random.normal(scale=0.8, size=annotators)
            ratings[system] = [int(one) for one in np.clip(np.round(wanted + 1), 1, 5)]
        values = {"id": f"c{number}", "references": [" ".join(gold)], "replies": replies, "ratings": ratings}
        items.append(item_of(values, fallback_id=f"c{number}"))
    return items


def metrics(*names: str) -> list[ComparedMetric]:
    return [ComparedMetric(name=name, metric=build(name)) for name in names]


@pytest.fixture(scope="module")
def result() -> MetaResult:
    bad = [BadItem(file="odd<name>.jsonl", line=7, item=None, field="ratings", message="'five' is not a number")]
    sets = [
        RatedItems(name="first_set", items=[*rated_items(24, SYSTEMS, 3, seed=1), *bad]),
        RatedItems(name="second\nset, quoted", items=rated_items(18, ["a", "b", "c"], 1, seed=2)),
    ]
    return agreement(sets, metrics(*SPECIFICATIONS), MetaSettings(draws=60, seed=5))


@pytest.fixture(scope="module")
def report(result: MetaResult, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_report(result, tmp_path_factory.mktemp("reports") / "new" / "report")


# ── CSV ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Figures:
    """The CSV read back with the standard library."""

    def __init__(self, text: str) -> None:
        self.lines = list(csv.DictReader(io.StringIO(text, newline="")))

    def of(self, statistic: str, **where: str) -> dict[str, str]:
        found = [one for one in self.lines if one["statistic"] == statistic and where.items() <= one.items()]
        assert len(found) == 1, (statistic, where, found)
        return found[0]


def same(text: str, value: float | None) -> bool:
    return text == "" if value is None else float(text) == value


def holds_estimate(line: dict[str, str], one: Estimate) -> bool:
    return all(same(line[name], getattr(one, name)) for name in ("value", "low", "high", "p"))


def holds_correlation(line: dict[str, str], one: Correlation) -> bool:
    return same(line["value"], one.value) and same(line["p"], one.p) and line["n"] == str(one.n)


def test_every_figure_of_a_row_reads_back_from_csv_as_the_same_number(result: MetaResult) -> None:
    figures = Figures(as_csv(result))
    found, signatures = result.sets[0], {name: one.short for name, one in result.sets[0].signatures.items()}
    for row in found.rows:
        where = {"scope": "set", "set": "first_set", "kind": row.kind.value}
        if row.kind is RowKind.METRIC:
            where |= {"metric": row.name, "signature": signatures[row.name], "turned": str(row.turned)}
        for kind in ("spearman", "pearson"):
            assert holds_estimate(figures.of(kind, **where), replace(getattr(row, kind), p=row.p_values.get(kind)))
            if kind in row.differences:
                line = figures.of(f"{kind}_difference", baseline="bleu", **where)
                assert holds_estimate(line, row.differences[kind])
                assert same(line["holm_p"], row.holm.get(kind))
            if kind in row.williams:
                test, line = row.williams[kind], figures.of(f"{kind}_williams", **where)
                assert same(line["value"], test.t)
                assert same(line["p"], test.p)
                assert "assumes independent rows" in line["note"]
        if row.kind is RowKind.HUMAN:
            continue
        assert holds_correlation(figures.of("kendall", **where), row.kendall)
        assert holds_correlation(figures.of("partial_spearman", **where), row.partial_spearman)
        assert row.by_annotator is not None
        for place, one in row.by_annotator.each.items():
            assert holds_correlation(figures.of("annotator_spearman", of=f"annotator {place + 1}", **where), one)
        assert same(figures.of("annotator_spearman_mean", **where)["value"], row.by_annotator.mean)
        assert row.by_annotator_pearson is not None
        for place, one in row.by_annotator_pearson.each.items():
            assert holds_correlation(figures.of("annotator_pearson", of=f"annotator {place + 1}", **where), one)
        assert same(figures.of("annotator_pearson_highest", **where)["value"], row.by_annotator_pearson.highest)
        assert row.without_system is not None
        for system, one in row.without_system.spread.each.items():
            assert holds_correlation(figures.of("without_system_spearman", of=system, **where), one)
        change = figures.of("without_system_change", **where)
        assert change["of"] == row.without_system.most
        assert same(change["value"], row.without_system.change)
        assert row.system_level is not None
        for system, score, rating in zip(
            row.system_level.systems, row.system_level.scores, row.system_level.ratings, strict=True
        ):
            assert same(figures.of("system_score", of=system, **where)["value"], score)
            line = figures.of("system_rating", of=system, set="first_set", kind="ratings")
            assert float(line["value"]) == pytest.approx(rating, abs=1e-12)
        for kind, one in row.system_level.by_kind.items():
            assert holds_correlation(figures.of(f"system_{kind}", **where), one)
        for group in row.groups:
            for kind, estimate in group.by_kind.items():
                line = figures.of(f"group_{kind}", of=str(group.size), **where)
                assert holds_estimate(line, estimate)
                assert line["n"] == str(group.groups)


def test_annotators_counts_means_and_settings_are_in_the_csv(result: MetaResult) -> None:
    figures, found = Figures(as_csv(result)), result.sets[0]
    where = {"set": "first_set", "kind": "annotators"}
    people = found.annotators
    assert same(figures.of("kappa_mean", **where)["value"], people.kappa.mean)
    pair = people.kappa.pairs[-1]
    assert same(
        figures.of("kappa", of=f"annotator {pair.first + 1} and {pair.second + 1}", **where)["value"], pair.value
    )
    for form in people.icc.forms:
        line = figures.of("icc", of=form.form, **where)
        assert [same(line[name], getattr(form, name)) for name in ("value", "low", "high")] == [True] * 3
    for level, alpha in people.alpha.items():
        assert same(figures.of("alpha", of=level, **where)["value"], alpha.value)
    assert same(figures.of("split_half_spearman", **where)["high"], people.split_half.spearman.high)
    stepped = figures.of("split_half_pearson_stepped_up", **where)
    assert (stepped["low"], same(stepped["value"], people.split_half.pearson.stepped_up)) == ("", True)
    counts = {"set": "first_set", "kind": "count"}
    assert figures.of("used", **counts)["value"] == str(24 * 4)
    assert figures.of("bad_items", **counts)["value"] == "1"
    assert figures.of("data", **counts)["note"] == found.data
    assert result.mean is not None
    for row in result.mean.rows:
        where = {"scope": "mean", "set": "", "kind": row.kind.value}
        where |= {"metric": row.name} if row.kind is RowKind.METRIC else {}
        assert holds_estimate(figures.of("spearman", **where), row.spearman)
    assert figures.of("seed", scope="run", kind="setting")["value"] == "5"
    assert figures.of("baseline", kind="setting")["metric"] == "bleu"


def test_csv_has_one_line_for_each_figure_and_no_figure_twice(result: MetaResult) -> None:
    text = as_csv(result)
    lines = Figures(text).lines
    keys = [(one["scope"], one["set"], one["kind"], one["metric"], one["statistic"], one["of"]) for one in lines]
    assert len(set(keys)) == len(keys)
    assert text.count("\n") == len(lines) + 1
    assert r"second\nset, quoted" in {one["set"] for one in lines}


def test_what_is_not_defined_is_empty_in_csv_and_the_note_says_why(result: MetaResult) -> None:
    line = Figures(as_csv(result)).of("kappa_mean", set=r"second\nset, quoted")
    assert line["value"] == ""
    assert line["note"] == result.sets[1].annotators.kappa.why
    length = Figures(as_csv(result)).of("partial_spearman", set="first_set", kind="length")
    assert (length["value"], length["note"]) == ("", "it is the length itself")


def test_pandas_reads_the_csv_with_numbers_as_numbers(result: MetaResult) -> None:
    frame = pd.read_csv(io.StringIO(as_csv(result)))
    wanted = frame.query("scope == 'set' and set == 'first_set' and kind == 'metric' and statistic == 'spearman'")
    assert dict(zip(wanted["metric"], wanted["value"], strict=True)) == {
        row.name: row.spearman.value for row in result.sets[0].rows if row.kind is RowKind.METRIC
    }
    assert [frame[name].dtype.kind for name in ("value", "low", "high", "p", "holm_p", "n")] == ["f"] * 6


def test_pairs_of_annotators_and_thresholds_of_kappa_read_back_from_csv(result: MetaResult) -> None:
    figures, found = Figures(as_csv(result)), result.sets[0]
    where = {"scope": "set", "set": "first_set", "kind": "annotators"}
    for kind, spread in found.annotators.pairs.items():
        for (first, second), one in spread.each.items():
            of = f"annotator {first + 1} and {second + 1}"
            assert holds_correlation(figures.of(f"pair_{kind}", of=of, **where), one)
        for which in ("mean", "lowest", "highest"):
            assert same(figures.of(f"pair_{kind}_{which}", **where)["value"], getattr(spread, which))
    for level in found.annotators.kappa_shares:
        of = f"{level.share.threshold:g}"
        shares, remaining = (figures.of(name, of=of, **where) for name in ("kappa_share", "kappa_annotators"))
        assert (float(shares["value"]), shares["n"]) == (level.share.share, "3")
        assert (float(remaining["value"]), remaining["n"]) == (len(level.share.annotators), str(level.n))
        for name, by_kind in level.correlations.items():
            for kind, one in by_kind.items():
                assert holds_correlation(figures.of(f"kappa_{kind}", of=of, metric=name, **where), one)
    assert len(found.annotators.kappa_shares) == 9


@settings(max_examples=25, deadline=None)
@given(name=st.text(min_size=1, max_size=12))
def test_any_name_goes_through_csv_latex_and_page(name: str) -> None:
    """Handmade records: names that the readers of items would refuse come through here as well."""
    made = handmade(name=name)
    systems = {one["of"] for one in Figures(as_csv(made)).lines if one["statistic"] == "system_score"}
    shown = make_printable(name)
    assert systems == {shown, "other"}
    assert "\n" not in shown
    assert balanced(as_latex(made))
    page = parsed(page_of(made, [plots.SectionPlots(bars=blank_plot())]))
    assert shown in {row[0] for table in page.tables for row in table.rows}


def handmade(*, name: str, rows: int = 0) -> MetaResult:
    """A result of one metric and no rows, or of figures that nobody computed."""
    none = Correlation("spearman", None, None, rows, "fewer than 3 rows")
    nothing = Estimate(why="fewer than 3 rows")
    row = AgreementRow(
        name="bleu",
        kind=RowKind.METRIC,
        is_baseline=True,
        n=rows,
        spearman=nothing,
        pearson=nothing,
        kendall=none,
        partial_spearman=none,
        without_system=WithoutSystem(spread=Spread.of("spearman", {name: none}), most=None, change=None),
        system_level=SystemLevel(
            systems=(name, "other"),
            scores=(0.5, -0.5),
            ratings=(0.25, -0.25),
            by_kind={kind: replace(none, kind=kind) for kind in ("spearman", "pearson", "kendall")},
            rows=rows,
            left_out=0,
            alone=0,
        ),
    )
    counts = RowCounts(
        items=1,
        bad_items=0,
        replies=2,
        unrated={name: 1},
        rated=1,
        references_themselves=0,
        fair=1,
        references_removed=0,
        unscored={"bleu": {"no_reference": 1}},
        left_out=1,
        used=0,
        contexts=0,
        systems=0,
    )
    empty = np.empty(0)
    points = Points(
        items=(), systems=(), ratings=empty, by_annotator=np.empty((0, 1)), lengths=empty, values={"bleu": empty}
    )
    found = SetResult(
        name=name,
        counts=counts,
        rows=(row,),
        annotators=one_annotator(),
        golds=None,
        points=points,
        signatures={"bleu": Signature.of(build("bleu"))},
        data="0123456789ab",
        bad_items=(),
    )
    return MetaResult(
        metrics=tuple(metrics("bleu")),
        baseline="bleu",
        sets=(found,),
        mean=None,
        settings=MetaSettings(rows=RowsChoice.ALL),
        warnings=(f"{name}: look out",),
    )


@functools.cache
def one_annotator() -> AnnotatorFigures:
    """The figures of somebody who has nobody to agree with."""
    items = rated_items(4, ["a", "b"], 1, seed=0)
    return agreement([RatedItems(name="x", items=items)], metrics("bleu"), MetaSettings(draws=2)).sets[0].annotators


def blank_plot() -> Plot:
    return Plot(file="x.png", png=with_palette(np.zeros((1, 1, 3), np.uint8)), caption="a plot", width=1, height=1)


# ── LaTeX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def balanced(text: str) -> bool:
    """Whether braces that LaTeX reads as such open and close in order."""
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\[{}]", "", text)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def table_rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table of agreement."""
    for line in text.splitlines():
        if line.endswith(r"\tabularnewline"):
            yield [one.strip() for one in re.split(r"(?<!\\)&", line.removesuffix(r"\tabularnewline"))]


def plain(latex: str) -> str:
    return latex.replace(r"\allowbreak{}", "").replace("{-}", "-").replace(r"\raggedright ", "")


def test_latex_has_a_table_for_each_set_the_mean_and_the_signatures(result: MetaResult) -> None:
    text = as_latex(result)
    assert balanced(text)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 6
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 6
    assert len(set(re.findall(r"\\label\{(.*?)\}", text))) == 6
    names = [plain(row[0]) for row in table_rows(text)]
    for specification in SPECIFICATIONS:
        shown = f"{specification} (turned)" if specification == "ter" else specification
        # two sets, the mean, each annotator of the first set; and without "turned" κ and signature
        assert names.count(shown) == (4 if shown != specification else 6)
    for one in result.sets[0].signatures.values():
        assert one.short.replace("|", r"\textbar{}") in plain(text)


def test_latex_rows_have_the_numbers_of_the_record(result: MetaResult) -> None:
    first = as_latex(result).split(r"\end{table}")[0]
    rows = {plain(cells[0]): cells for cells in table_rows(first)}
    assert {len(cells) for cells in rows.values()} == {8}
    row = result.sets[0].rows[2]
    assert row.spearman.value is not None
    assert row.spearman.low is not None
    cells = rows[row.name]
    assert cells[1].startswith(f"${row.spearman.value:.3f}$")
    assert f"[{row.spearman.low:.2f}, {row.spearman.high:.2f}]" in cells[1]
    difference = row.differences["spearman"].value
    assert cells[2].startswith(f"${difference:.3f}$")
    assert cells[3] == f"${row.holm['spearman']:.3f}$"
    assert cells[5:] == [f"${one.value:.3f}$" for one in (row.pearson, row.kendall, row.partial_spearman)]
    assert rows["human"][6:] == ["--", "--"]
    lines = first.splitlines()
    for name in ("length", "human"):
        place = next(number for number, line in enumerate(lines) if plain(line).startswith(f"{name} &"))
        assert lines[place - 1] == r"\midrule"


def test_latex_has_the_extremes_over_annotators_and_their_kappa(result: MetaResult) -> None:
    found, (_, each, kappa, *_) = result.sets[0], as_latex(result).split(r"\end{table}")
    rows = {plain(cells[0]): cells[1:] for cells in table_rows(each)}
    row = found.rows[0]
    for name, spreads in (
        ("bleu", (row.by_annotator, row.by_annotator_pearson)),
        ("Annotators", (found.annotators.pairs["spearman"], found.annotators.pairs["pearson"])),
    ):
        extremes = [(one.highest, one.lowest, one.mean) for one in spreads if one is not None]
        assert rows[name] == [f"${value:.3f}$" for one in extremes for value in one]
    rows = {plain(cells[0]): cells[1:] for cells in table_rows(kappa)}
    levels = found.annotators.kappa_shares
    assert rows["Pairs, of 3"] == [str(level.share.above) for level in levels]
    values = [level.correlations["bleu"]["spearman"].value for level in levels]
    assert rows["bleu"] == ["--" if value is None else f"${value:.3f}$" for value in values]
    assert len(set(rows["Pairs, of 3"])) > 1


def test_latex_captions_name_rows_draws_and_assumptions_of_the_test(result: MetaResult) -> None:
    captions = [line for line in as_latex(result).splitlines() if line.startswith(r"\caption")]
    assert r"first\_set" in captions[0]
    assert "96 rows of 24 contexts and 4 systems" in captions[0]
    assert "Williams: assumes independent rows" in captions[0]
    for caption in (captions[0], captions[3], captions[4]):
        assert all(part in caption for part in ("fair rows", "60 draws", "seed 5", "less bleu"))
    everything = replace(result, settings=replace(result.settings, rows=RowsChoice.ALL))
    assert "all rated replies" in as_latex(everything)


def test_latex_escapes_special_characters() -> None:
    strange = [ComparedMetric(name=ODD, metric=build("bleu")), *metrics("rouge-l")]
    found = agreement(
        [RatedItems(name=ODD, items=rated_items(8, ["a", "b"], 2, seed=3))], strange, MetaSettings(draws=5)
    )
    text = as_latex(found)
    wanted = (
        r"50\% of \$x\_1\textasciicircum{}2\$ \& \{\#1\} \textasciitilde{} {''}\textless{}b\textgreater{}{''} "
        r"\textbackslash{}end\textbar{}{`},{'}é [U+6771]{-}{-}"
    )
    assert f"on {wanted}: " in text
    assert f"less {wanted}, the baseline" in text
    assert plain(wanted) in plain(text).split(r"\midrule")[1]
    assert balanced(text)


def with_first_row(result: MetaResult, place: int, *, value: float, p: float) -> MetaResult:
    """The result, as if a metric had this Spearman and Holm p."""
    found = result.sets[0]
    row = found.rows[place]
    base = found.rows[0].spearman.value or 0.0
    changed = replace(
        row,
        spearman=replace(row.spearman, value=value),
        differences={**row.differences, "spearman": replace(row.differences["spearman"], value=value - base)},
        holm={**row.holm, "spearman": p},
    )
    rows = tuple(changed if number == place else one for number, one in enumerate(found.rows))
    return replace(result, sets=(replace(found, rows=rows),), mean=None)


def test_best_metric_is_bold_only_if_it_beats_the_baseline_after_holm(result: MetaResult) -> None:
    assert r"$\mathbf{0.990}$" in as_latex(with_first_row(result, 2, value=0.99, p=0.049))
    assert r"\mathbf" not in as_latex(with_first_row(result, 2, value=0.99, p=0.05))
    assert r"\mathbf" not in as_latex(with_first_row(result, 2, value=-0.99, p=0.001))


def test_a_figure_that_rounds_to_nothing_has_no_minus(result: MetaResult) -> None:
    assert "$0.000$" in as_latex(with_first_row(result, 2, value=-0.0001, p=1.0))
    assert "-0.000" not in as_latex(with_first_row(result, 2, value=-0.0001, p=1.0))


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class PageTable:
    title: str
    rows: list[list[str]] = field(default_factory=list)

    def cell(self, name: str, column: int) -> str:
        return next(row[column] for row in self.rows if row[0] == name)


class Page(HTMLParser):
    """Headings, tables and pictures of a page; every tag is counted."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.tables: list[PageTable] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in {"meta", "img", "wbr"}:
            self._open.append(tag)
        if tag in {"h3", "td", "th"}:
            self.text = ""
        if tag == "tr" and self.tables:
            self.tables[-1].rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "h3":
            self.tables.append(PageTable(self.text))
        if tag in {"td", "th"}:
            self.tables[-1].rows[-1].append(self.text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, title: str, place: int = 0) -> PageTable:
        return [one for one in self.tables if one.title == title][place]


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page._open == []
    return page


@pytest.fixture(scope="module")
def page(report: list[Path]) -> Page:
    return parsed(report[0].read_text(encoding="utf-8"))


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def interval(one: Estimate) -> str:
    return shown(one.value) + ("" if one.low is None else f" [{shown(one.low)}, {shown(one.high)}]")


def p_shown(p: float | None) -> str:
    assert p is not None
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def with_p(one: Correlation) -> str:
    return f"{shown(one.value)} (p {p_shown(one.p)})"


def test_the_page_has_every_table_of_every_set(page: Page, result: MetaResult) -> None:
    of_sets = [
        "Agreement with the mean rating",
        "Spearman, less that of bleu",
        "Pearson, less that of bleu",
        "Rows used and left out",
        "Scores and ratings",
        "Scores by system",
        "Mean scores and mean ratings of systems",
        "Annotators with each other",
        "Cohen's κ of annotators, quadratic weights",
        "Spearman with each annotator",
        "Spearman of annotators with each other",
        "Pearson with each annotator",
        "Pearson of annotators with each other",
        "Annotators by κ",
        "System level, 4 systems",
        "Systems: mean rating and mean scores, relative to their contexts",
        "Spearman over rows without one system",
        "Spearman without each system",
        "Spearman of the means of groups of replies",
        "Pearson of the means of groups of replies",
        "Items that could not be read",
    ]
    only_several = of_sets[8:14] + of_sets[-1:]  # the second set has one annotator, and no unreadable item
    second = [title.replace("4 systems", "3 systems") for title in of_sets if title not in only_several]
    titles = [table.title for table in page.tables]
    assert titles == [*of_sets[:3], *of_sets, *second, "Settings and versions", "Signatures"]
    ids = [value for name, value in page.attributes if name == "id"]
    assert ids == ["mean", "set-0", "set-1", "how"]
    links = [value for name, value in page.attributes if name == "href"]
    assert sorted(links) == sorted(f"#{one}" for one in ids)


def test_the_page_shows_the_figures_of_the_record(page: Page, result: MetaResult) -> None:
    found, mean = result.sets[0], result.mean
    assert mean is not None
    assert page.of("Agreement with the mean rating").cell("ter (turned)", 1) == interval(mean.rows[1].spearman)
    for row, cells in zip(found.rows, page.of("Agreement with the mean rating", 1).rows[1:], strict=True):
        assert cells[0].startswith(row.name)
        beside = [f" (p {p_shown(row.p_values[kind])})" if row.p_values else "" for kind in ("spearman", "pearson")]
        assert cells[1:3] == [interval(row.spearman) + beside[0], interval(row.pearson) + beside[1]]
        assert cells[3].startswith(shown(row.kendall.value))
        assert cells[4].startswith(shown(row.partial_spearman.value))
        assert cells[5] == str(row.n)
    row = found.rows[2]
    test = row.williams["pearson"]
    difference = page.of("Pearson, less that of bleu", 1).rows[2]
    assert difference[:2] == [row.name, interval(row.differences["pearson"])]
    assert float(difference[3]) == pytest.approx(row.holm["pearson"], abs=1e-4)
    assert difference[4] == shown(test.t)
    assert row.by_annotator is not None
    annotators = page.of("Spearman with each annotator")
    assert annotators.rows[0][4:] == ["annotator 1", "annotator 2", "annotator 3"]
    assert annotators.rows[3][4:] == [with_p(one) for one in row.by_annotator.each.values()]
    pairs = found.annotators.pairs["pearson"]
    assert row.by_annotator_pearson is not None
    spreads = (row.by_annotator_pearson, pairs)
    last = page.of("Pearson with each annotator").rows
    assert [last[3][1:4], last[-1][1:4]] == [
        [shown(one.mean), shown(one.lowest), shown(one.highest)] for one in spreads
    ]
    assert page.of("Pearson of annotators with each other").cell("annotator 3", 1) == with_p(pairs.each[0, 2])
    levels = found.annotators.kappa_shares
    by_kappa = page.of("Annotators by κ")
    assert by_kappa.rows[0][1:] == ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8"]
    assert by_kappa.rows[1][1:] == [f"{level.share.above} of 3" for level in levels]
    assert by_kappa.cell(f"Spearman, {row.name}", 4) == shown(levels[3].correlations[row.name]["spearman"].value)
    assert row.system_level is not None
    assert page.of("System level, 4 systems").cell(row.name, 1) == shown(row.system_level.by_kind["spearman"].value)
    assert row.without_system is not None
    without = page.of("Spearman over rows without one system").rows[3]
    assert without[4:] == [row.without_system.most, shown(row.without_system.change)]
    each = row.without_system.spread.each["東京モデル"]
    assert page.of("Spearman without each system").cell("東京モデル", 3) == shown(each.value)
    groups = page.of("Spearman of the means of groups of replies")
    assert groups.rows[0][1:] == ["1 (96 groups)", "5 (19 groups)", "20 (4 groups)", "100 (0 groups)"]
    assert groups.rows[3][1:] == [interval(group.by_kind["spearman"]) for group in row.groups]
    kappa = page.of("Cohen's κ of annotators, quadratic weights")
    assert kappa.cell("annotator 3", 1) == shown(found.annotators.kappa.pairs[1].value)
    icc = found.annotators.icc.of("ICC(2,k)")
    reliability = page.of("Annotators with each other")
    assert reliability.cell("ICC(2,k)", 1) == f"{shown(icc.value)} [{shown(icc.low)}, {shown(icc.high)}]"
    assert page.of("Rows used and left out").cell("rows used", 1) == "96"
    assert page.of("Items that could not be read").rows[1] == [
        "odd<name>.jsonl, line 7",
        "ratings: 'five' is not a number",
    ]


def test_the_page_says_how_it_was_made(page: Page, result: MetaResult) -> None:
    made = page.of("Settings and versions")
    assert (made.cell("seed", 1), made.cell("draws", 1), made.cell("baseline", 1)) == ("5", "60", "bleu")
    assert made.cell("data of first_set", 1) == result.sets[0].data
    assert made.cell("numpy", 1) == np.__version__
    assert page.of("Signatures").rows[1:] == [
        [name, one.short, one.full] for name, one in result.sets[0].signatures.items()
    ]


def test_names_are_text_on_the_page_and_nothing_is_loaded_from_elsewhere(page: Page, report: list[Path]) -> None:
    assert SYSTEMS[2] in [row[0] for row in page.of("Spearman without each system").rows]
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert "<script>" not in report[0].read_text(encoding="utf-8")
    sources = [value for name, value in page.attributes if name == "src"]
    assert all(one.startswith("data:image/webp;base64,") for one in sources)
    assert re.findall(r"https?:|url\(|@import", report[0].read_text(encoding="utf-8")) == []
    assert ("name", "viewport") in page.attributes
    assert "prefers-color-scheme: dark" in report[0].read_text(encoding="utf-8")


def test_the_plots_on_the_page_are_the_files_beside_it(page: Page, report: list[Path]) -> None:
    sources = [value for name, value in page.attributes if name == "src"]
    embedded = [base64.b64decode(one.removeprefix("data:image/webp;base64,")) for one in sources]
    pixels = [np.asarray(Image.open(io.BytesIO(one)).convert("RGB")).tobytes() for one in embedded]
    assert sorted(pixels) == sorted(np.asarray(Image.open(path).convert("RGB")).tobytes() for path in report[1:])
    assert sum(map(len, embedded)) < 0.85 * sum(path.stat().st_size for path in report[1:])
    assert len(report) == 1 + 1 + 2 * (1 + 3 * (len(SPECIFICATIONS) + 1))  # the mean; for each set bars and three a row
    captions = [value for name, value in page.attributes if name == "alt"]
    assert all(captions)
    assert any("system 4 from the top: 東京モデル" in one for one in captions), "the font lacks its signs"


def of_one_set(name: str, items: list[Item], *specifications: str) -> MetaResult:
    return agreement([RatedItems(name=name, items=items)], metrics(*specifications), MetaSettings(draws=5))


def rated_golds() -> list[Item]:
    """Items in which one more system says what the gold says."""
    return [
        replace(
            one,
            replies={**one.replies, "gold": one.references[0].text},
            ratings={**one.ratings, "gold": (5, 4)},
        )
        for one in rated_items(6, ["a", "b", "c"], 2, seed=7)
    ]


def test_rows_that_rate_the_gold_have_a_separate_table_and_lines(tmp_path: Path) -> None:
    found = of_one_set("golds", rated_golds(), "rouge-l", "ter")
    golds, figures = found.sets[0].golds, Figures(as_csv(found))
    assert golds is not None
    table = parsed(write_report(found, tmp_path)[0].read_text("utf-8")).of("Rows that rate the gold itself")
    assert table.rows[0] == ["mean of", "these 6", "the 18 fair ones"]
    assert table.rows[1][:2] == ["rating", "4.5"]
    assert table.cell("rouge-l", 1) == "1"
    assert table.cell("ter", 1) == "0"
    for name, score in golds.scores.items():
        assert float(table.cell(name, 2)) == pytest.approx(score.fair, rel=1e-3)
        lines = [figures.of("mean_score", kind="golds", metric=name, of=of) for of in ("golds", "fair")]
        assert [same(line["value"], value) for line, value in zip(lines, (score.golds, score.fair), strict=True)] == [
            True,
            True,
        ]
        assert [line["n"] for line in lines] == ["6", "18"]
    assert same(figures.of("mean_rating", kind="golds", of="fair")["value"], golds.fair_rating)


@pytest.mark.slow
def test_signatures_that_differ_by_set_stand_with_the_name_of_the_set(tmp_path: Path) -> None:
    sets = [RatedItems(name=name, items=rated_items(5, ["a", "b"], 1, seed=n)) for n, name in enumerate("xy")]
    found = agreement(sets, metrics("cider", "bleu"), MetaSettings(draws=5))
    shared = found.sets[0].signatures["bleu"]
    own = [one.signatures["cider"] for one in found.sets]
    table = parsed(write_report(found, tmp_path)[0].read_text("utf-8")).of("Signatures")
    assert table.rows[1:] == [
        ["cider, x", own[0].short, own[0].full],
        ["cider, y", own[1].short, own[1].full],
        ["bleu", shared.short, shared.full],
    ]
    figures = Figures(as_csv(found))
    assert [figures.of("spearman", metric="cider", set=name)["signature"] for name in "xy"] == [
        one.short for one in own
    ]
    assert [figures.of("spearman", metric=name, scope="mean")["signature"] for name in ("cider", "bleu")] == [
        "",
        shared.short,
    ]
    names = [plain(row[0]) for row in table_rows(as_latex(found))]
    assert names[-3:] == ["cider, x", "cider, y", "bleu"]


def test_metric_without_a_score_has_a_row_with_its_reason_and_no_plots(tmp_path: Path) -> None:
    items = [
        replace(
            one,
            references=(replace(one.references[0], weight=1.0, source=Origin.SUPPLIED),),
        )
        for one in rated_items(8, ["a", "b", "c"], 2, seed=8)
    ]
    found = of_one_set("supplied", items, "bleu", "rouge-l")
    written = write_report(found, tmp_path)
    assert [path.name for path in written[1:]] == [
        "01-supplied-correlation.png",
        *(
            f"01-supplied-{kind}-{row}.png"
            for kind in ("scatter", "systems", "system-level")
            for row in ("02-rouge-l", "03-length")
        ),
    ]
    text = written[0].read_text("utf-8")
    why = "no reply has a score: it has no gold reference, which this metric needs"
    assert f"bleu, Spearman, bleu, Pearson, bleu, Kendall, bleu, partial Spearman: {why}" in text
    assert parsed(text).of("Rows used and left out").cell("… without a score", 2) == (
        "from bleu: no_gold; this metric is left out, not the replies"
    )
    assert Figures(as_csv(found)).of("spearman", metric="bleu")["note"] == why
    assert balanced(as_latex(found))


@pytest.mark.slow
def test_the_scatter_of_systems_shows_the_systems_of_the_json(result: MetaResult) -> None:
    drawn = plots.plots(result)[0].system_level
    document = result.sets[0].as_json()
    for plot, row in zip(drawn, document["rows"], strict=False):
        level = row["system_level"]
        assert [one["system"] for one in level["systems"]] == sorted(SYSTEMS)
        spearman, pearson = (f"{level[kind]['value']:.2f}".replace("-", "−") for kind in ("spearman", "pearson"))
        assert f"4 systems, Spearman {spearman}, Pearson {pearson}" in plot.caption
    assert ["ter (sign turned)" in plot.caption for plot in drawn] == [False, True, False, False]
    assert len(drawn) == len(SPECIFICATIONS) + 1


# ── the plots ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_plots_are_png_files_of_sensible_size_with_something_on_them(report: list[Path]) -> None:
    for path in report[1:]:
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        pixels = imread(path)
        height, width = pixels.shape[:2]
        assert 200 < height < 2000
        assert 500 < width < 1200
        colours = (np.round(pixels[:, :, :3] * 255).astype(np.int64) * (65536, 256, 1)).sum(axis=2)
        assert len(np.unique(colours)) > 20
        assert (pixels[:, :, :3] == 1).all(axis=2).mean() > 0.3, "mostly paper"
        borders = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
        assert [bool((one[:, :3] == 1).all()) for one in borders] == [True] * 4, f"{path.name} is cut off"


@pytest.mark.slow
def test_equal_results_give_equal_files_despite_matplotlib_settings(
    result: MetaResult, report: list[Path], tmp_path: Path
) -> None:
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "savefig.dpi": 20}):
        again = write_report(result, tmp_path)
        assert mpl.rcParams["font.size"] == 20
    assert [path.name for path in again] == [path.name for path in report]
    assert [
        path.name for path, first in zip(again, report, strict=True) if path.read_bytes() != first.read_bytes()
    ] == []


def test_names_in_any_script_and_of_any_length_are_drawn_without_warning(tmp_path: Path) -> None:
    systems = [
        "日本語",
        "한국어",
        "हिन्दी",
        "نموذج",
        "עברית",
        "ไทย",
        "👩 emoji",
        "$x^2$ \\alpha",
        "W" * 200,
        "a, b " * 30,
        "﷽",
    ]
    items = rated_items(4, systems, 2, seed=4)
    written = write_report(
        agreement([RatedItems(name="名前\u202e\n", items=items)], metrics("bleu"), MetaSettings(draws=5)), tmp_path
    )
    boxes = imread(next(path for path in written if "-systems-01" in path.name))
    assert (boxes[:, 0, :3] == 1).all()
    captions = [value for name, value in parsed(written[0].read_text("utf-8")).attributes if name == "alt"]
    assert all(name in captions[3] for name in ("日本語", "हिन्दी", "👩 emoji", r"名前\u202e\n"))


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=80))
def test_labels_hold_only_what_the_font_has_and_fit_their_width(text: str) -> None:
    wrapped, short = plots._wrap(text), plots._shorten(text)
    lines = wrapped.split("\n")
    assert len(lines) <= 3
    assert all(ord(one) in plots._widths() for one in wrapped.replace("\n", "") + short)
    assert all(plots._width(line) <= plots._LABEL_WIDTH + 2 for line in lines)  # an ellipsis may come to it
    assert plots._width(short) <= 32


def test_jitter_keeps_ratings_apart_and_can_be_seen() -> None:
    assert plots._jitter(np.array([1.0, 2.0, 3.0])) == pytest.approx(0.16)
    thirds = np.array([1, 4 / 3, 5 / 3, 5])
    assert 0.05 < plots._jitter(thirds) < 1 / 6
    assert plots._jitter(np.array([2.0, 2.0])) > 0
    assert plots._jitter(np.array([0.0, 1e-9, 1.0])) == pytest.approx(0.005)


def test_systems_beyond_what_an_axis_holds_are_counted_in_the_caption() -> None:
    items = rated_items(3, [f"system {number:02}" for number in range(70)], 1, seed=6)
    found = agreement([RatedItems(name="many", items=items)], metrics("bleu"), MetaSettings(draws=5)).sets[0]
    plot = plots._distributions("x.png", found.rows[0], found.points.values["bleu"], found)
    assert "10 systems between the 30 best and the others are not drawn" in plot.caption
    assert plot.height < 2500


def test_a_result_without_a_single_row_is_still_a_report_that_says_why(tmp_path: Path) -> None:
    written = write_report(handmade(name="empty"), tmp_path)
    assert [path.name for path in written] == ["report.html", "01-empty-correlation.png"]
    text = written[0].read_text(encoding="utf-8")
    assert "bleu, Spearman, bleu, Pearson, bleu, Kendall, bleu, partial Spearman: fewer than 3 rows" in text
    assert "empty: look out" in text
    assert parsed(text).of("Rows used and left out").cell("… without a score", 2) == (
        "from bleu: no_reference; left out for all metrics"
    )


def test_undefined_tests_and_draws_are_told(result: MetaResult) -> None:
    found = result.sets[0]
    row = replace(
        found.rows[1],
        spearman=replace(found.rows[1].spearman, undefined=3),
        williams={"spearman": WilliamsTest(t=None, p=None, n=96, why="the metrics are the same")},
    )
    changed = replace(result, sets=(replace(found, rows=(found.rows[0], row, *found.rows[2:])),), mean=None)
    figures = Figures(as_csv(changed))
    assert figures.of("spearman", metric="ter")["note"] == "undefined in 3 draws"
    note = figures.of("spearman_williams", metric="ter")["note"]
    assert note == "the metrics are the same; assumes independent rows"


def test_only_a_report_needs_matplotlib() -> None:
    code = "import refaug.agreement.report.report, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ── the folder ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_files_in_the_folder_stay_and_the_page_comes_first(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.html").write_text("an older one")
    written = write_report(handmade(name="set"), tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert written[0] == tmp_path / "report.html"
    assert written[0].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert {path.name for path in tmp_path.iterdir()} == {"mine.txt", *(path.name for path in written)}


def test_report_path_that_is_no_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    place, broken = tmp_path / "report", tmp_path / "link"
    place.write_text("")
    broken.symlink_to(tmp_path / "gone")
    for folder, named in ((place, place), (place / "below" / "it", place), (broken, broken)):
        with refusing(Usage, named):
            write_report(handmade(name="set"), folder)
    require_folder(tmp_path / "new" / "below")
    assert {path.name for path in tmp_path.iterdir()} == {"report", "link"}
