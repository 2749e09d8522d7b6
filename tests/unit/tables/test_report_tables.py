"""A table and a report in every form as text."""

from __future__ import annotations

import csv
import io

import orjson

from refaug.tables.reports.html_page import report_page
from refaug.tables.reports.report import Part, PartForm, Report, Section
from refaug.tables.reports.table import Table, csv_text

TABLE = Table(
    "Sums",
    ("what", "a|b"),
    [("first", "1"), ("=1+1", "2\t3"), ("last", "4")],
    notes=["of two"],
    apart=frozenset([2]),
)


def bars(text: str) -> str:
    return text.replace("|", "\\|")


def test_csv_reads_back_and_no_cell_computes() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.as_csv())))
    assert rows == [["what", "a|b"], ["first", "1"], ["'=1+1", "2\\t3"], ["last", "4"]]
    assert csv_text(None, [(None, 0.1, True)]) == ",0.1,True\n"


def test_tsv_has_full_precision_empty_cells_and_no_further_tab() -> None:
    table = Table("", ("x", "y"), [(0.1 + 0.2, None), ("a\tb", 3)])
    assert table.as_tsv() == "x\ty\n0.30000000000000004\t\na\\tb\t3\n"


def test_markdown_escapes_each_text_and_ends_with_the_notes() -> None:
    assert TABLE.as_markdown(bars) == [
        "| what | a\\|b |",
        "| --- | --- |",
        "| first | 1 |",
        "| =1+1 | 2\t3 |",
        "| last | 4 |",
        "",
        "- of two",
    ]


def test_latex_has_lines_where_rows_are_apart_and_a_caption_only_with_a_label() -> None:
    bare = TABLE.as_latex("lr").splitlines()
    assert bare == [
        r"\begin{tabular}{@{}lr@{}}",
        r"\toprule",
        r"what & a|b \tabularnewline",
        r"\midrule",
        r"first & 1 \tabularnewline",
        "=1+1 & 2\t3 " + r"\tabularnewline",
        r"\midrule",
        r"last & 4 \tabularnewline",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    whole = TABLE.as_latex("lr", "sums", is_tight=True).splitlines()
    assert whole[:4] == [
        r"\begin{table}",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        r"\caption{Sums}\medskip",
        r"\label{tab:sums}",
    ]
    assert whole[4:] == [*bare, r"\end{table}"]


def test_json_reads_back_as_the_same_table() -> None:
    stored = orjson.loads(orjson.dumps(TABLE.as_json()))
    assert Table.of_json(stored).as_json() == TABLE.as_json()
    assert Table.of_json(stored).apart == TABLE.apart


def test_a_report_has_its_sections_in_order_in_markdown_and_on_a_page() -> None:
    report = Report(
        title="Two <parts>",
        summary=["One sentence."],
        warnings=["bear in mind"],
        sections=[
            Section(title="First", anchor="one", text=["Some text."], tables=[TABLE]),
            Section(
                title="Second",
                anchor="two",
                link="the second",
                parts=[Part(PartForm.HEADING, "Below"), Part(PartForm.FOLDED, TABLE), Part(PartForm.COMMAND, "refaug")],
            ),
        ],
    )
    markdown = report.as_markdown(bars, ["    command", ""])
    assert markdown.split("\n")[:8] == [
        "# Two <parts>",
        "",
        "    command",
        "",
        "One sentence.",
        "",
        "- bear in mind",
        "",
    ]
    assert markdown.index("## First") < markdown.index("### Sums") < markdown.index("## Second")
    page = report_page(report)
    places = [
        page.index(text)
        for text in (
            "<h1>Two &lt;parts&gt;</h1>",
            "<p>One sentence.</p>",
            "<li>bear in mind</li>",
            '<li><a href="#one">First</a></li><li><a href="#two">the second</a></li>',
            '<section id="one">',
            "<h3>Sums</h3>",
            '<section id="two">',
            "<h3>Below</h3>",
            "<details><summary>Sums</summary>",
            "<pre>refaug</pre>",
        )
    ]
    assert places == sorted(places)
