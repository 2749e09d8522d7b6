"""A page of scores to share: its files, its figures, and texts of users that stay texts."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from set_items import item_of

from refaug.core.records import Item
from refaug.metrics.specification import build
from refaug.scoring.evaluate import evaluate
from refaug.scoring.score_files.score_document import details_of
from refaug.scoring.score_files.score_file import ScoreFile
from refaug.scoring.score_report.report import write_report
from refaug.scoring.scores import Evaluation
from refaug.scoring.settings import ScoreSettings
from refaug.tables.reports.html_page import BINS, ScoreHistogram, ends_of

HOSTILE = '</details><script>alert("x")</script>\u202e \x00 ='
SETTINGS = ScoreSettings(draws=50, baseline="<b>old")


@cache
def items() -> tuple[Item, ...]:
    made = [item_of(number) for number in range(1, 13)]
    return tuple(
        replace(each, replies={"<b>old": "we go home", "=new": f"{HOSTILE} {each.utterance}" * 60}) for each in made
    )


@cache
def scored() -> Evaluation:
    return evaluate(items(), [build("upsilon-bleu"), build("ter")], SETTINGS)


def document() -> dict[str, Any]:
    return {
        **scored().as_json(), "details": details_of(scored(), items()), "inputs": {"items": ["my items; rm.jsonl"]}
    }  # fmt: skip


def test_the_files_of_a_report_are_sealed_alike_and_without_scripts(tmp_path: Path) -> None:
    written = write_report(tmp_path / "new" / "report", document(), SETTINGS, with_details=False)
    page = written.page.read_text("utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert not re.search(r"https?:|src=|url\(", page)
    assert "refaug score verify scores.json &#39;my items; rm.jsonl&#39;" in page
    assert len(page) < 150_000
    file = ScoreFile.read(written.scores, "scores.json")
    assert (file.is_sealed, file.details) == (True, None)
    again = write_report(tmp_path / "again", document(), SETTINGS, with_details=True)
    assert again.page.read_bytes() == written.page.read_bytes()
    assert again.table.read_bytes() == written.table.read_bytes()
    details = ScoreFile.read(again.scores, "scores.json").details
    assert details is not None
    assert [each.id for each in details.items()] == [each.id for each in items()]


def test_the_differences_are_those_of_the_baseline(tmp_path: Path) -> None:
    page = write_report(tmp_path, document(), SETTINGS, with_details=False).page.read_text("utf-8")
    assert "Differences from &lt;b&gt;old" in page
    assert page.index("All metrics: corpus scores") < page.index("Differences from")
    for scores in scored().scores:
        comparison = scores.comparisons["=new"].as_json()
        assert f">{comparison['difference']:+.4f}</td>" in page
        assert f">{comparison['p_randomisation']:.4f}</td>" in page


def test_the_worst_and_best_replies_are_those_of_the_scores(tmp_path: Path) -> None:
    page = write_report(tmp_path, document(), SETTINGS, with_details=False).page.read_text("utf-8")
    for scores, higher_is_better in zip(scored().scores, (True, False), strict=True):
        replies = [reply for reply in scores.systems["=new"].each_reply() if reply["score"] is not None]
        replies.sort(key=lambda reply: reply["score"] if higher_is_better else -reply["score"])
        section = page.split(f"<h2>{scores.metric.name}</h2>")[1].split("<h2>")[0]
        worst = section.split("<h3>Worst replies of =new</h3>")[1].split("<h3>")[0]
        assert re.findall(r"<h4>(item-\d+)</h4>", worst)[0] == replies[0]["id"]


def test_the_table_has_each_system_and_reply_and_computes_nothing(tmp_path: Path) -> None:
    table = write_report(tmp_path, document(), SETTINGS, with_details=False).table
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["metric"], row["system"]) for row in rows if row["kind"] == "system"] == [
        ("upsilon-bleu", "<b>old"), ("upsilon-bleu", "'=new"), ("ter", "<b>old"), ("ter", "'=new"),
    ]  # fmt: skip
    assert sum(row["kind"] == "reply" for row in rows) == 2 * 2 * len(items())
    expected = scored().scores[0].systems["<b>old"]
    assert float(rows[0]["score"]) == expected.corpus
    assert json.loads(json.dumps(float(rows[0]["low"]))) == expected.interval.low


def test_histograms_count_every_score_once() -> None:
    scores = np.array([0.0, 0.04, 0.05, 0.5, 1.0, np.nan])
    chart = ScoreHistogram.of("scores", scores, ends_of([scores]))
    assert (chart.low, chart.high, len(chart.counts), sum(chart.counts)) == ("0", "1", BINS, 5)
    assert (chart.counts[0], chart.counts[1], chart.counts[10], chart.counts[-1]) == (2, 1, 1, 1)
    assert chart.bins == [("0", "0.05", 2), ("0.05", "0.1", 1), ("0.5", "0.55", 1), ("0.95", "1", 1)]
    assert max(bar.height for bar in chart.bars) == chart.bars[0].height
    assert ends_of([np.array([-2.0, 3.0])]) == (-2.0, 3.0)
    assert ends_of([np.array([5.0])]) == (4.5, 5.5)
    assert ends_of([np.array([np.nan])]) == (0.0, 1.0)
    assert ends_of([np.array([0.12, 0.3])]) == (0.1, 0.3)
    assert ends_of([np.array([1.0, np.nan])]) == (0.9, 1.0)
    assert ends_of([np.array([0.05]), np.array([0.0])]) == (0.0, 0.1)
