"""What grows: each step out of plain parts, steps that cannot be had, and what is said of them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from proofs import TEXTS, TinyChain, tiny_chain, tiny_set
from scipy import stats

from refaug.core.errors import BadInput
from refaug.core.records import Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reproduction.experiments.conditions import CLOSEST, GOLD_ALONE, KINDS
from refaug.evaluation.reproduction.experiments.growth import GrowthPlan, growth
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.report.report import Report
from refaug.indexer.search.search_settings import SearchSettings
from refaug.logs.store import StoredLog
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.specification import build
from refaug.rater.rating import Rater, RatingRequest

pytestmark = pytest.mark.slow

PLAN = GrowthPlan(shares=(0.0001, 0.5, 1.0), ks=(1, 4, 30), widths=(4, 8), presets=("small", "base"))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    return tiny_chain(tmp_path_factory.mktemp("growth"))


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    return [tiny_set("first", 15), tiny_set("second", 16)]


@pytest.fixture(scope="module")
def report(chain: TinyChain, sets: list[ProofSet]) -> Report:
    return growth(chain, sets, PLAN)


def scored_by_hand(
    chain: TinyChain, one: ProofSet, index: str, rater: Rater, *, k: int, rated: bool, **given: Any
) -> Floats:
    """One search, one rating and one score at a time."""
    metric, scores = build("upsilon-bleu"), list[float]()
    with open_index(chain.home, index) as opened:
        for row, reply in enumerate(one.replies):
            item = one.items[one.item[row]]
            item = replace(item, references=item.references[:1])
            gold, utterance = item.references[0].text, item.utterance or ""
            found = opened.search([item], SearchSettings(k=k, **given))[0].references
            further = [each.text for each in found]  # the utterance is no reference by default
            asked = [
                RatingRequest(utterance=utterance, golds=(gold,), candidates=(Reference(text=text),))
                for text in further
            ]
            weights = [rater.rate([each])[0][0] if rated else 1.0 for each in asked]
            kept = [(text, weight) for text, weight in zip(further, weights, strict=True) if text != reply]
            references = References((gold, *(text for text, _ in kept)), (1.0, *(weight for _, weight in kept)))
            at = np.zeros(1, np.int64)
            rows = metric.statistics([reply], metric.prepare([references]), at, at)
            scores.append(float(metric.values(rows, Level.REPLY)[0]))
    return np.array(scores).round(12)  # scores that differ by rounding are ties


def require(report: Report, axis: str, line: str, one: ProofSet, scores: Floats) -> None:
    """The figure of a line is the correlation of these scores."""
    figures = report.data["axes"][axis]["agreement"][CLOSEST]["figures"]
    expected = stats.spearmanr(scores[one.fair], one.ratings[one.fair]).statistic
    assert figures[line]["spearman"][one.name]["value"] == pytest.approx(expected, abs=1e-3)


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("k", PLAN.ks)
def test_k_references_are_the_first_k_of_a_search_for_k(
    chain: TinyChain, sets: list[ProofSet], report: Report, k: int
) -> None:
    for one in sets:
        scores = scored_by_hand(chain, one, chain.main_index(), chain.rater(), k=k, rated=True)
        require(report, "k", f"k = {k}, rated", one, scores)


def test_a_part_of_the_log_is_searched_alone(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    scores = scored_by_hand(chain, sets[0], "proof-share-0_5", chain.rater(), k=15, rated=False)
    require(report, "log", "50 % of the everyday logs, one", sets[0], scores)
    scores = scored_by_hand(chain, sets[1], "proof-large", chain.rater(), k=15, rated=True)
    require(report, "log", "the everyday logs and the large one, rated", sets[1], scores)


def test_the_size_of_a_log_is_its_pairs(chain: TinyChain, report: Report) -> None:
    steps = {one["name"]: one["x"] for one in report.data["axes"]["log"]["steps"]}
    pairs = {
        log: StoredLog.open(chain.home.logs, log).manifest.totals["pairs"]
        for log in ("proof-daily", "proof-small", "proof-medium", "proof-daily-0.5", "proof-small-0.5")
    }
    assert list(steps.values()) == [
        pairs["proof-daily-0.5"] + pairs["proof-small-0.5"],
        pairs["proof-daily"] + pairs["proof-small"],
        pairs["proof-daily"] + pairs["proof-small"] + pairs["proof-medium"],
    ]
    assert list(steps.values()) == sorted(steps.values())


def test_a_part_of_the_log_too_small_to_find_anything_in_is_a_gap(report: Report, chain: TinyChain) -> None:
    [gap] = [note for note in report.notes if note.startswith("0.01 % of the everyday logs is missing: ")]
    assert str(chain.home.home) not in gap
    assert len(report.data["axes"]["log"]["steps"]) == 3


def test_vectors_of_another_width_find_other_references(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    scores = scored_by_hand(chain, sets[0], "proof-4", chain.rater(), k=15, rated=False)
    require(report, "width", "4 dimensions, one", sets[0], scores)
    scores = scored_by_hand(chain, sets[0], chain.main_index(), chain.rater(), k=15, rated=False)
    require(report, "width", "8 dimensions, one", sets[0], scores)


def test_a_rater_of_another_size_rates_the_same_references(
    chain: TinyChain, sets: list[ProofSet], report: Report
) -> None:
    main = chain.main_index()
    for name, rater in (("small", chain.rater()), ("base", chain.rater(name="proof-base"))):
        scores = scored_by_hand(chain, sets[0], main, rater, k=15, rated=True)
        require(report, "rater", f"rater {name}, rated", sets[0], scores)
    figures = report.data["axes"]["rater"]["agreement"][CLOSEST]["figures"]
    assert figures["rater small, one"] == figures["rater base, one"]
    assert figures["rater small, matched"] == figures["rater base, matched"]


def test_the_last_step_of_one_axis_is_the_same_as_that_of_another(report: Report) -> None:
    axes = {name: axis["agreement"][CLOSEST]["figures"] for name, axis in report.data["axes"].items()}
    same = [
        axes["log"]["100 % of the everyday logs, rated"],
        axes["width"]["8 dimensions, rated"],
        axes["rater"]["rater small, rated"],
    ]
    assert same == [same[0]] * 3
    assert axes["log"]["gold alone"] == axes["k"]["gold alone"]
    combine = report.data["ablations"]["combine"]["agreement"]
    assert combine["left_out"] == {"first": 0, "second": 0}
    assert combine["figures"]["default"] == same[0]


# ── controls and words ────────────────────────────────────────────────────────────────────────────────────────────


def test_every_step_has_its_controls_with_intervals(report: Report) -> None:
    for name, axis in report.data["axes"].items():
        kinds = ("rated", "one", "matched", *(("shuffled",) if name == "rater" else ()))
        for found in axis["agreement"].values():
            steps = {f"{step['name']}, {kind}" for step in axis["steps"] for kind in kinds}
            assert set(found["figures"]) == {GOLD_ALONE} | steps
            for by_kind in found["figures"].values():
                assert list(by_kind) == list(KINDS)
                assert all({"low", "high"} <= set(one) for by_set in by_kind.values() for one in by_set.values())


def test_what_a_step_has_is_counted(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    held = report.data["axes"]["k"]["held"]["first"]
    assert [one["items"] for one in held] == [14] * 3
    assert [one["lacking"] for one in held] == [0, 0, 0]
    pool = chain.pool(sets[0].with_first_gold(), chain.main_index(), chain.rater())
    shares = [np.mean([one.rating is not None and one.rating > 0 for one in some[:4]]) for some in pool.retrieved]
    assert held[1]["above"]["value"] == pytest.approx(np.mean(shares), abs=1e-4)


def test_growth_is_said_by_the_difference_of_the_last_step_and_the_first(report: Report) -> None:
    differences = report.data["axes"]["k"]["differences"][CLOSEST]
    one = differences["k = 30"]["rated less the first step"]["partial-spearman"]["mean"]
    word = "a sure gain" if one["low"] > 0 else "a sure loss" if one["high"] < 0 else "no sure change"
    said = report.sections[1].text[1]
    assert said.startswith(f"Number of references, {CLOSEST}")
    assert "from k = 1 to k = 30" in said
    assert f"{word}, and there rated less gold alone" in said
    logs = [text for text in report.sections[0].text if text.startswith(f"Size of the log, {CLOSEST}")]
    assert "from 50 % of the everyday logs to 100 % of the everyday logs: " in logs[0]
    assert "from 100 % of the everyday logs to the everyday logs and the large one: " in logs[1]
    assert len(logs) == 2
    assert differences["k = 1"]["rated less the first step"]["spearman"]["mean"]["value"] == 0


def test_gains_are_counted_over_metrics(report: Report) -> None:
    by_metric = [one["k = 30"] for one in report.data["axes"]["k"]["differences"].values()]
    grown = [one["rated less the first step"][kind]["mean"] for one in by_metric for kind in KINDS]
    stands = [one["rated less gold alone"][kind]["mean"] for one in by_metric for kind in KINDS]
    gains, losses = sum(one["low"] > 0 for one in grown), sum(one["high"] < 0 for one in grown)
    [said] = [text for text in report.summary if text.startswith("Number of references")]
    assert said.startswith(
        "Number of references, rated references, 8 comparisons (metrics and correlations): from k = 1 to k = 30 "
        f"{gains} sure gains and {losses} sure losses; there rated less gold alone shown in "
        f"{sum(one['low'] > 0 for one in stands)}, "
    )


def test_each_axis_has_its_tables_and_plots(report: Report) -> None:
    axes = report.sections[:4]
    assert [one.title for one in axes] == [
        "Size of the log",
        "Number of references",
        "Dimensions of the word vectors",
        "Size of the rater",
    ]
    for name, section in zip(("log", "k", "width", "rater"), axes, strict=True):
        assert [plot.file for plot in section.plots] == [
            f"growth-{name}-{number}-{kind}.png" for number in (1, 2, 3, 4) for kind in KINDS
        ]
        assert len(section.tables) == 1 + 2 * 4


def test_the_rater_that_nobody_trained_is_named(report: Report) -> None:
    assert [note for note in report.notes if note.startswith("rater paper is missing")]


def test_nothing_of_logs_sets_and_folders_is_written(report: Report, chain: TinyChain) -> None:
    written = orjson.dumps(report.data).decode() + repr(report.summary) + repr(report.sections) + repr(report.notes)
    assert not [text for text in TEXTS if len(text.split()) > 3 and text in written]
    assert str(chain.home.home) not in written


def test_a_log_that_cannot_be_read_stops_everything(tmp_path: Path, sets: list[ProofSet]) -> None:
    broken = tiny_chain(tmp_path)
    path = tmp_path / "data" / "logs" / "dailydialog_en.jsonl.gz"
    path.write_bytes(gzip.compress(b"not json\n" * 50))
    with pytest.raises(BadInput, match="dailydialog_en"):
        growth(broken, sets, PLAN)
