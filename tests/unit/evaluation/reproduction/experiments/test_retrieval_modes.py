"""Ways to look for references: each figure out of plain parts, what is said of them, and what is never said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from proofs import TEXTS, TinyChain, scored_by_hand, tiny_chain, tiny_set
from scipy import stats

from refaug.core.errors import BadInput
from refaug.core.records import Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.experiments.conditions import (
    CLOSEST,
    GOLD_ALONE,
    KINDS,
    change_in_words,
    differences_between,
    differences_json,
    differences_table,
    is_sure,
    line_name,
    main_scope,
    main_scope_in_words,
    mean_over_items,
    shares_above_zero,
)
from refaug.evaluation.reproduction.experiments.retrieval_modes import (
    MODES,
    WAYS,
    RetrievalProfile,
    _best_in_words,
    best_mode,
    best_mode_overall,
    lacking_references,
    profiles_section,
    ratings_of_matched,
    retrieval_modes,
)
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, RATED
from refaug.evaluation.reproduction.report.report import Report
from refaug.metrics.base import Floats
from refaug.rater.rating import RatingRequest

pytestmark = pytest.mark.slow

K = 15


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    return tiny_chain(tmp_path_factory.mktemp("modes"))


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    return [tiny_set("first", 5), tiny_set("second", 6)]


@pytest.fixture(scope="module")
def report(chain: TinyChain, sets: list[ProofSet]) -> Report:
    return retrieval_modes(chain, sets)


# ── the whole part ────────────────────────────────────────────────────────────────────────────────────────────────


def value_in(report: Report, metric: str, line: str, kind: str, where: str) -> float:
    found = report.data["agreement"][metric]["figures"][line][kind][where]
    assert found["low"] <= found["value"] <= found["high"]
    return float(found["value"])


def scored_by_way(chain: TinyChain, rated: ProofSet, way_name: str, *, weights: str) -> Floats:
    """Scores of the replies by the references that a way finds."""
    way = next(way for way in WAYS if way.name == way_name)
    with open_index(chain.home, way.index(chain)) as index:
        return scored_by_hand(index, chain.rater(), rated, way.mode, weights=weights)


@pytest.mark.parametrize("way", ["embedding-utterance", "bm25-dialog", "embedding-utterance, plain mean"])
@pytest.mark.parametrize("weights", ["rated", "one"])
def test_a_figure_is_that_of_one_search_rating_and_score_at_a_time(
    chain: TinyChain, sets: list[ProofSet], report: Report, way: str, weights: str
) -> None:
    values = []
    for one in sets:
        scores = scored_by_way(chain, one, way, weights=weights)[one.fair]
        values.append(stats.spearmanr(scores, one.ratings[one.fair]).statistic)
        found = value_in(report, CLOSEST, f"{way}, {weights}", "spearman", one.name)
        assert found == pytest.approx(values[-1], abs=1e-3)
    found = value_in(report, CLOSEST, f"{way}, {weights}", "spearman", "mean")
    assert found == pytest.approx(np.mean(values), abs=1e-3)


def test_ways_that_differ_find_other_references(report: Report) -> None:
    shared = {way: one["shared"]["value"] for way, one in report.data["found"]["first"].items()}
    assert shared["embedding-utterance"] == 1
    assert {way for way, share in shared.items() if share < 1} == {way.name for way in WAYS[1:]}
    scored = report.data["agreement"][CLOSEST]["figures"]
    assert len({scored[line_name(way.name, RATED)]["spearman"]["first"]["value"] for way in WAYS}) > len(WAYS) / 2


def test_every_way_has_every_metric_weight_and_control_with_an_interval(report: Report) -> None:
    assert len(report.data["agreement"]) == 4
    for found in report.data["agreement"].values():
        assert set(found["figures"]) == {GOLD_ALONE} | {
            f"{way.name}, {kind}" for way in WAYS for kind in ("rated", "one", "shuffled", "matched")
        }
        for by_kind in found["figures"].values():
            assert list(by_kind) == list(KINDS)
            for by_set in by_kind.values():
                assert set(by_set) == {"first", "second", "mean"}
                assert all({"value", "low", "high"} <= set(one) for one in by_set.values())


def test_differences_are_those_of_the_figures(report: Report) -> None:
    for metric, by_way in report.data["differences"].items():
        figures = report.data["agreement"][metric]["figures"]
        for way, by_label in by_way.items():
            for label, others in {
                "rated less gold alone": (f"{way}, rated", GOLD_ALONE),
                "one less matched random": (f"{way}, one", f"{way}, matched"),
                "rated less shuffled": (f"{way}, rated", f"{way}, shuffled"),
                "rated less the default way": (f"{way}, rated", "embedding-utterance, rated"),
            }.items():
                left, right = (figures[line]["spearman"]["mean"]["value"] for line in others)
                assert by_label[label]["spearman"]["mean"]["value"] == pytest.approx(left - right, abs=2e-4)


def test_nothing_of_logs_and_sets_is_written(report: Report, sets: list[ProofSet]) -> None:
    written = orjson.dumps(report.data).decode() + repr(report.summary) + repr(report.sections) + repr(report.notes)
    long = [text for text in TEXTS if len(text.split()) > 3]
    assert not [text for text in long if text in written]
    assert sets[0].items[0].utterance not in written


def test_nobodys_folders_are_written(report: Report, chain: TinyChain) -> None:
    written = orjson.dumps(report.data).decode() + repr(report.summary) + repr(report.sections)
    assert str(chain.home.home) not in written


def test_the_same_proof_says_the_same_again(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    again = retrieval_modes(chain, sets)
    assert again.summary == report.summary
    assert again.data["agreement"] == report.data["agreement"]
    assert again.data["differences"] == report.data["differences"]
    assert [one.plots for one in again.sections] == [one.plots for one in report.sections]


def test_each_metric_has_tables_and_plots_and_each_mode_has_a_row(report: Report) -> None:
    *metrics, looks, scored = report.sections
    assert [len(one.tables) for one in metrics] == [2] * 4
    files = [plot.file for one in metrics for plot in one.plots]
    assert files == [f"modes-{number}-{kind}.png" for number in (1, 2, 3, 4) for kind in KINDS]
    assert [[row[0] for row in table.rows] for table in looks.tables] == [[way.name for way in WAYS]] * 2
    assert scored.tables[0].rows[0][0] == GOLD_ALONE


def test_a_set_for_which_nothing_is_found_is_a_gap(chain: TinyChain, sets: list[ProofSet]) -> None:
    silent = tiny_set("silent", 7, utterances=False)
    found = retrieval_modes(chain, [silent, sets[0]], ways=WAYS[:1])
    assert set(found.data["found"]) == {"first"}
    assert any(note.startswith("silent: ") for note in found.notes)
    with pytest.raises(BadInput, match="silent"):
        retrieval_modes(chain, [silent])


def test_with_one_set_its_figures_are_the_whole(chain: TinyChain, sets: list[ProofSet]) -> None:
    found = retrieval_modes(chain, sets[:1], ways=(WAYS[0], WAYS[4]))
    assert set(found.data["agreement"][CLOSEST]["figures"][GOLD_ALONE]["spearman"]) == {"first"}
    assert all("on first" in one.text[0] for one in found.sections[:4])


def test_claims_are_counted_over_ways_and_metrics(report: Report) -> None:
    figures = [
        own["rated less matched random"]["spearman"]["mean"]
        for by in report.data["differences"].values()
        for own in by.values()
    ]
    shown, refuted = sum(one["low"] > 0 for one in figures), sum(one["high"] < 0 for one in figures)
    assert (
        f"rated less matched random, Spearman, 8 ways with 4 metrics: shown in {shown} of 32, refuted in {refuted}."
        in report.summary
    )


# ── which is best ─────────────────────────────────────────────────────────────────────────────────────────────────


def measured_of(points: Mapping[str, float], drawn: Mapping[str, list[float]]) -> Correlations:
    """Lines with these correlations, the same for both kinds."""
    values, draws = np.array(list(points.values())), np.array(list(drawn.values()))
    return Correlations(
        names=tuple(points),
        sets=("x",),
        rows={"x": 9},
        contexts={"x": 3},
        left_out={"x": 0},
        points={(kind, where): values for kind in KINDS for where in ("x", "mean")},
        drawn={(kind, where): draws for kind in KINDS for where in ("x", "mean")},
    )


@pytest.fixture
def ranked() -> Correlations:
    names = [line_name(way.name, RATED) for way in MODES]
    drawn = {
        names[0]: [0.20, 0.10, 0.30, 0.25],
        names[1]: [0.10, 0.05, 0.10, 0.12],
        names[2]: [0.30, 0.20, 0.29, 0.35],
        names[3]: [0.00, 0.25, 0.10, np.nan],
    }
    return measured_of(dict(zip(names, (0.2, 0.1, 0.3, 0.05), strict=True)), drawn)


def test_the_best_mode_is_named_with_the_next_one_and_how_often_it_leads(ranked: Correlations) -> None:
    best = best_mode(ranked, "spearman")
    assert (best.mode, best.following) == ("bm25-utterance", "embedding-utterance")
    assert best.leads == {
        "embedding-utterance": 0.25,
        "embedding-dialog": 0.0,
        "bm25-utterance": 0.5,
        "bm25-dialog": 0.25,
    }
    assert best.ahead.value == pytest.approx(0.1)
    assert best.over_default == best.ahead
    assert (best.ahead.low, best.ahead.high) == tuple(
        pytest.approx(one) for one in np.quantile([0.1, 0.1, -0.01, 0.1], [0.025, 0.975])
    )
    assert not is_sure(best.ahead)
    [in_words, _] = _best_in_words("υBLEU", ranked)
    assert in_words == (
        "υBLEU, Spearman, on x: with rated references bm25-utterance has the most of the modes, .300 [.21, .35], not "
        "surely ahead of embedding-utterance (.100 [.00, .10]); it leads in 50 % of the draws. "
        "It is not shown to be better than the default, embedding-utterance (.100 [.00, .10])."
    )
    assert best.as_json()["leads_in_draws"]["bm25-dialog"] == 0.25


def test_over_all_metrics_the_mode_that_wins_most_often_is_named(ranked: Correlations) -> None:
    said = best_mode_overall({"one": ranked, "other": ranked})
    assert said.startswith(
        "Of the modes, references rated, bm25-utterance has the most in 4 of 4 comparisons (metrics and correlations), "
        "and is surely ahead of the next one in 0 of them, surely better than the default in 0. "
    )
    higher = np.array([[0.0], [0.0], [1.0], [0.0]])
    sure = replace(ranked, drawn={where: np.add(draws, higher) for where, draws in ranked.drawn.items()})
    assert "in 2 of them, surely better than the default in 2" in best_mode_overall({"one": sure})
    default = measured_of({line_name(MODES[0].name, RATED): 0.1}, {line_name(MODES[0].name, RATED): [0.1, 0.2]})
    assert "default" not in best_mode_overall({"one": default})
    [in_words, _] = _best_in_words("υBLEU", default)
    assert in_words.endswith("it leads in 100 % of the draws. It is the default.")


def test_a_figure_is_sure_where_its_interval_leaves_0_out() -> None:
    above, below, both = (
        IntervalEstimate(value=0.1, low=low, high=high) for low, high in ((0.01, 0.2), (-0.2, -0.01), (0, 0.2))
    )
    assert [is_sure(one) for one in (above, below, both, IntervalEstimate(value=0.5), IntervalEstimate())] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [change_in_words(one) for one in (above, below, both)] == ["a sure gain", "a sure loss", "no sure change"]


def test_differences_come_as_a_table_and_as_json(ranked: Correlations) -> None:
    first, third = line_name(MODES[0].name, RATED), line_name(MODES[2].name, RATED)
    by = {"way": {"over first": differences_between(ranked, third, first)}}
    table = differences_table("Title", ranked, by)
    assert (main_scope(ranked), main_scope_in_words(ranked)) == ("x", "on x")
    assert table.title == "Title, on x"
    assert table.rows[0][0] == "way"
    assert table.rows[0][1].startswith(".100 [")
    assert table.notes[0].startswith("2 differences")
    assert differences_json(by)["way"]["over first"]["spearman"]["x"]["value"] == pytest.approx(0.1)


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_shares_and_means_of_items_leave_out_those_without_anything() -> None:
    shares = shares_above_zero([[0.5, -0.5, 0.1], [], [0.0, -1.0]])
    assert shares.tolist()[::2] == [pytest.approx(2 / 3), 0.0]
    assert np.isnan(shares[1])
    found = mean_over_items(shares, 500, 3)
    assert found.value == pytest.approx(1 / 3)
    assert 0 <= (found.low or 0) < 1 / 3 < (found.high or 0) <= 2 / 3 + 1e-9


def test_the_interval_of_a_mean_is_that_of_draws_of_items() -> None:
    values = np.random.default_rng(1).uniform(size=80)
    found = mean_over_items(values, 4_000, 1)
    drawn = np.random.default_rng(2).choice(values, (4_000, 80)).mean(axis=1)
    assert (found.low, found.high) == tuple(pytest.approx(one, abs=0.01) for one in np.quantile(drawn, [0.025, 0.975]))


def test_without_items_there_is_a_reason_instead_of_a_number() -> None:
    assert mean_over_items(np.array([np.nan]), 10, 1).why == "no item has any"
    assert mean_over_items(np.array([0.5, np.nan]), 10, 1) == IntervalEstimate(value=0.5, why="one item")


def test_random_replies_are_rated_as_many_and_as_long_as_what_was_found(chain: TinyChain, sets: list[ProofSet]) -> None:
    one, rater = sets[0].with_first_gold(), chain.rater()
    pool = chain.pool(one, chain.main_index(), rater)
    found = ratings_of_matched(one, pool, rater)
    drawn = pool.extras(MATCHED, k=K, parrot=False)
    for item, ratings, some, lengths in zip(one.items, found, drawn, pool.lengths, strict=True):
        assert [len(reference.text.split()) for reference in some] == list(lengths[:K])
        for rating, reference in zip(ratings, some, strict=True):
            candidate = (Reference(text=reference.text),)
            golds = (item.references[0].text,)
            [[alone]] = rater.rate([RatingRequest(utterance=item.utterance or "", golds=golds, candidates=candidate)])
            assert rating == pytest.approx(alone, abs=1e-5)


def look_of(above: float, less_matched: tuple[float, float], **given: Any) -> RetrievalProfile:
    figure = IntervalEstimate(value=0.5, low=0.4, high=0.6)
    values: dict[str, Any] = {"items": 10, "lacking": 0, "thin": 1, "references": figure, "above_matched": figure}
    values |= {"rating": figure, "shared": figure, "seconds": IntervalEstimate(value=1.5, low=1, high=2)}
    values["above"] = IntervalEstimate(value=above, low=above - 0.1, high=above + 0.1)
    values["above_less_matched"] = IntervalEstimate(value=0.1, low=less_matched[0], high=less_matched[1])
    return RetrievalProfile(**{**values, **given})


def test_what_is_found_is_said_with_the_least_and_the_most() -> None:
    looks = {"set": {"one": look_of(0.25, (0.05, 0.2)), "two": look_of(0.75, (-0.1, 0.3), lacking=6)}}
    section = profiles_section(looks)
    assert section.text == [
        "set: the rater puts a share of .250 (one) to .750 (two) of what is found above 0; more than of random "
        "replies as long: shown for 1 of 2 ways."
    ]
    table: Table = section.tables[0]
    assert table.rows[1][:4] == ["two", ".500 [.40, .60]", "6 of 10", ".750 [.65, .85]"]
    assert list(lacking_references(looks)) == ["set, two: 6 of 10 items have fewer than 15 references"]
