"""Rows drawn anew against plain Python and brute force; the rule of non-inferiority, and what survives it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refaug.cli.scores.reproduce import ReproduceOptions
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Origin, Reference
from refaug.evaluation.reproduction.experiments.stress import (
    CANDIDATES,
    _outcome_table,
    sections_of,
    summary_of,
    survives,
)
from refaug.evaluation.reproduction.figures.correlations import MEAN, IntervalEstimate, Line, correlate
from refaug.evaluation.reproduction.figures.length_stress import (
    Tilt,
    _line_on_rows,
    _row_sources,
    _RowSource,
    _weighted_spearman,
    draw_rows,
    mean_correlations,
    take_rows,
    tilt,
)
from refaug.evaluation.reproduction.figures.noninferiority import (
    LEAST_LOW,
    LEAST_POINT,
    CandidateList,
    Situation,
    Verdict,
    asks_rater,
    baseline_of,
    baselines_of,
    is_non_inferior,
    judge,
)
from refaug.evaluation.reproduction.material.metric_candidates import (
    CHRF_GOLD,
    EVEN_JUDGE,
    GREEDY_GOLD,
    REPLY,
    MetricCandidate,
)
from refaug.evaluation.reproduction.material.proof_logs import ProofSettings
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import (
    _too_few_rows,
    require_references,
    too_few_references,
)
from refaug.evaluation.reproduction.material.reference_kinds import Pool, ReplySample
from refaug.evaluation.reproduction.parts import PARTS, USUAL_SETS, parts_named
from refaug.evaluation.scoring.items import item_of
from refaug.metrics.statistics.correlation import PARTIAL, partial_spearman
from refaug.metrics.statistics.resampling import count_blocks

BLEU = MetricCandidate(name="b", why="", family="bleu", metric="upsilon-bleu:bp=none", kind="rated", parrot=True)
ONES = MetricCandidate(name="g", why="", family="greedy", metric="upsilon-greedy:agg=best", kind="one")
SUM = MetricCandidate(name="s", why="", family="sum", sum_of=("b", "g"))


def rows_of(seed: int, contexts: int = 40, systems: int = 6) -> tuple[Any, Any, Any]:
    """Lengths, ratings that go down with them, and contexts."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 15, contexts * systems).astype(float)
    ratings = np.clip(np.round(4.0 - 0.1 * lengths + random.normal(scale=1.2, size=len(lengths)), 1), 1, 5)
    return lengths, ratings, np.repeat(np.arange(contexts), systems)


def some_set(name: str, contexts: int = 20, seed: int = 0) -> ProofSet:
    lengths, ratings, owners = rows_of(seed, contexts, 4)
    items: list[Any] = []
    for context in range(contexts):
        mine = np.flatnonzero(owners == context)
        replies = {f"s{place}": " ".join(["w"] * int(lengths[row])) for place, row in enumerate(mine)}
        items.append(
            item_of(
                {
                    "id": f"{name}{context}",
                    "utterance": "u",
                    "references": [f"gold {context}"],
                    "replies": replies,
                    "ratings": {f"s{place}": [ratings[row]] for place, row in enumerate(mine)},
                },
                fallback_id="x",
            )
        )
    return ProofSet.of(name, items)


# ── rows drawn anew ───────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 5)), min_size=4, max_size=12))
def test_the_weighted_correlation_is_that_of_rows_really_repeated(rows: list[tuple[int, int, int]]) -> None:
    left, right, times = (np.array(column) for column in zip(*rows, strict=True))
    if len(set(left)) < 2 or len(set(right)) < 2:
        return
    expected = stats.spearmanr(np.repeat(left, times), np.repeat(right, times)).statistic
    found = _weighted_spearman(left.astype(float), right.astype(float), times.astype(float))
    assert found == pytest.approx(expected, abs=1e-9)


def test_shares_are_the_exponential_of_the_product_of_standard_ranks() -> None:
    lengths, ratings, contexts = rows_of(1, contexts=5, systems=3)
    found = tilt(lengths, ratings, contexts, 0.2)
    assert isinstance(found, Tilt)

    ranks = [stats.rankdata(values).tolist() for values in (lengths, ratings)]
    middle = (1 + len(lengths)) / 2
    spread = [math.sqrt(sum((one - middle) ** 2 for one in values) / len(values)) for values in ranks]
    raised = [
        math.exp(found.strength * (a - middle) / spread[0] * (b - middle) / spread[1])
        for a, b in zip(*ranks, strict=True)
    ]
    for context in range(5):
        here = [row for row in range(15) if contexts[row] == context]
        total = sum(raised[row] for row in here)
        assert found.shares[here].tolist() == pytest.approx([raised[row] / total for row in here])


@pytest.mark.parametrize("target", [-0.4, 0.0, 0.25])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_tilt_reaches_its_target_in_a_very_large_sample(seed: int, target: float) -> None:
    lengths, ratings, contexts = rows_of(seed)
    found = tilt(lengths, ratings, contexts, target)
    assert isinstance(found, Tilt)
    assert found.expected == pytest.approx(target, abs=1e-6)

    random, drawn = np.random.default_rng(0), []
    for context in range(40):
        here = np.flatnonzero(contexts == context)
        drawn.append(random.choice(here, size=3_000 * len(here), p=found.shares[here]))
    rows = np.concatenate(drawn)
    assert stats.spearmanr(lengths[rows], ratings[rows]).statistic == pytest.approx(target, abs=0.01)


def test_drawn_sets_are_about_the_target_on_average() -> None:
    lengths, ratings, contexts = rows_of(3)
    found = tilt(lengths, ratings, contexts, 0.25)
    assert isinstance(found, Tilt)
    drawn = [draw_rows(found.shares, contexts, np.random.default_rng(seed)) for seed in range(200)]
    reached = [stats.spearmanr(lengths[rows], ratings[rows]).statistic for rows in drawn]
    assert np.mean(reached) == pytest.approx(0.25, abs=0.02)


def test_what_is_there_already_needs_no_tilt() -> None:
    lengths, ratings, contexts = rows_of(4)
    found = tilt(lengths, ratings, contexts, float(stats.spearmanr(lengths, ratings).statistic))
    assert isinstance(found, Tilt)
    assert found.strength == pytest.approx(0, abs=1e-6)
    assert found.shares.tolist() == pytest.approx([1 / 6] * len(lengths))
    assert found.effective == pytest.approx(len(lengths))


def test_the_stronger_the_tilt_the_fewer_rows_the_drawn_ones_are_worth() -> None:
    lengths, ratings, contexts = rows_of(5)
    found = [tilt(lengths, ratings, contexts, target) for target in (-0.2, 0.0, 0.2, 0.4)]
    worth = [one.effective for one in found if isinstance(one, Tilt)]
    assert len(worth) == 4
    assert worth == sorted(worth, reverse=True)
    weights = found[-1].shares * 6  # type: ignore[union-attr]
    assert worth[-1] == pytest.approx(sum(weights) ** 2 / sum(weights**2))


def test_a_target_out_of_reach_is_said_and_not_approached() -> None:
    lengths, ratings = np.array([1.0, 2, 3, 4, 5, 6]), np.array([6.0, 5, 4, 3, 2, 1])
    alone = np.arange(6)  # one row a context: nothing to choose from
    assert tilt(lengths, ratings, alone, 0.25) == "rows of the same contexts reach from -1.00 to -1.00, and not 0.25"
    assert tilt(np.ones(6), ratings, alone, 0.0) == "all replies are as long, or rated alike"


def test_a_target_that_rests_on_a_handful_of_rows_is_not_reached() -> None:
    lengths, ratings, contexts = rows_of(6, contexts=3, systems=60)
    assert str(tilt(lengths, ratings, contexts, 0.8)).startswith("0.8 would rest on ")


def test_drawn_contexts_keep_their_row_counts_and_favour_likely_rows() -> None:
    shares, contexts = np.array([0.9, 0.1, 0.5, 0.25, 0.25]), np.array([7, 7, 3, 3, 3])
    counts = Counter[int]()
    for seed in range(2_000):
        rows = draw_rows(shares, contexts, np.random.default_rng(seed))
        assert Counter(contexts[rows].tolist()) == {7: 2, 3: 3}
        counts.update(rows.tolist())
    expected = {0: 1.8, 1: 0.2, 2: 1.5, 3: 0.75, 4: 0.75}
    assert {row: counts[row] / 2_000 for row in expected} == pytest.approx(expected, abs=0.06)


def test_a_set_of_drawn_rows_is_what_those_rows_are() -> None:
    one = some_set("a", contexts=3)
    rows = np.array([5, 5, 0, 11])
    drawn = take_rows(one, rows)
    for row, source in enumerate(rows.tolist()):
        assert (drawn.replies[row], drawn.systems[row]) == (one.replies[source], one.systems[source])
        assert (drawn.ratings[row], drawn.lengths[row]) == (one.ratings[source], one.lengths[source])
        assert (drawn.item[row], drawn.is_gold[row]) == (one.item[source], one.is_gold[source])
    assert drawn.by_annotator.tolist() == one.by_annotator[rows].tolist()


def test_rows_without_a_score_are_never_drawn_and_are_counted() -> None:
    one = some_set("a")
    scores = one.ratings[None].copy()
    scores[0, [3, 50]] = np.nan
    ground = _RowSource.of(one, [Line(name="x", scores={"a": scores})], 0.0)
    assert ground.left_out == 2
    assert not {3, 50} & {row for seed in range(50) for row in ground.draw([1, seed]).tolist()}


def test_a_set_in_which_the_target_is_out_of_reach_is_named() -> None:
    one = some_set("short", contexts=2)
    with pytest.raises(BadInput, match=r"short: .*") as refused:
        _RowSource.of(one, [], 0.999)
    assert "0.999" in refused.value.message


def test_drawn_sets_average_figures_over_drawings_on_equal_context_draws() -> None:
    one = some_set("a")
    random = np.random.default_rng(1)
    scores = one.ratings + random.normal(size=(1, len(one.replies)))
    lines = {"x": Line(name="x", scores={"a": scores})}
    known = {"x": MetricCandidate(name="x", why="", family="other", metric="bleu")}
    ground = _RowSource.of(one, list(lines.values()), 0.25)
    drawings = [ground.draw([1, seed]) for seed in range(3)]

    found = mean_correlations(
        [
            correlate(
                [take_rows(one, rows)], [_line_on_rows(known["x"], {"a": rows}, 0, lines, known)], draws=30, seed=9
            )
            for rows in drawings
        ]
    )

    points = [stats.spearmanr(scores[0][rows], one.ratings[rows]).statistic for rows in drawings]
    assert found.estimate("x", "spearman", "a").value == pytest.approx(np.mean(points))
    partial = [partial_spearman(scores[0][rows], one.ratings[rows], one.lengths[rows]).value for rows in drawings]
    assert found.estimate("x", PARTIAL, "a").value == pytest.approx(np.mean(partial))
    [counts] = count_blocks(20, 30, [9, 0])
    for draw in range(30):
        again = [np.repeat(rows, counts[draw][one.item[rows]].astype(int)) for rows in drawings]
        expected = np.mean([stats.spearmanr(scores[0][rows], one.ratings[rows]).statistic for rows in again])
        assert found.drawn["spearman", MEAN][0, draw] == pytest.approx(expected)


def test_ranks_in_a_sum_are_those_among_the_drawn_rows() -> None:
    known = {"b": BLEU, "g": ONES, "s": SUM}
    lines = {
        "b": Line(name="b", scores={"a": np.array([[0.1, 0.9, 0.5, 0.3]])}),
        "g": Line(name="g", scores={"a": np.array([[0.0, 0.2, 0.8, 0.4], [0.0, 0.0, 0.0, 1.0]])}),
    }
    rows = {"a": np.array([1, 3, 3])}
    assert _line_on_rows(SUM, rows, 0, lines, known).scores["a"].tolist() == [[1.0, 0.25 + 0.75, 0.25 + 0.75]]
    assert _line_on_rows(ONES, rows, 1, lines, known).scores["a"].tolist() == [[0.0, 1.0, 1.0]]  # the second seed's
    assert _line_on_rows(BLEU, rows, 1, lines, known).scores["a"].tolist() == [[0.9, 0.3, 0.3]]  # there is one alone


# ── the rule ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "low", "passes"),
    [
        (0.10, 0.05, True),
        (-0.02, -0.0599, True),
        (-0.0201, -0.03, False),  # too far down, however sure
        (0.05, -0.06, False),  # not sure enough, however good
        (0.05, None, None),
        (None, None, None),
    ],
)
def test_the_rule_looks_at_the_difference_and_at_its_lower_bound(
    value: float | None, low: float | None, passes: bool | None
) -> None:
    assert (LEAST_POINT, LEAST_LOW) == (-0.02, -0.06)
    assert is_non_inferior(IntervalEstimate(value=value, low=low, high=0.3)) is passes


GOOD, BAD, OPEN = (
    IntervalEstimate(value=0.1, low=0.01, high=0.2),
    IntervalEstimate(value=-0.1, low=-0.2, high=0.0),
    IntervalEstimate(why="none"),
)


@pytest.mark.parametrize(
    ("spearman", "partial", "passes"),
    [(GOOD, GOOD, True), (GOOD, BAD, False), (BAD, OPEN, False), (GOOD, OPEN, None)],
)
def test_both_correlations_are_asked(
    spearman: IntervalEstimate, partial: IntervalEstimate, passes: bool | None
) -> None:
    found = judge({"spearman": spearman, PARTIAL: partial})
    assert found.passes is passes
    assert found.is_better is (spearman is GOOD and partial is GOOD)


def test_each_candidate_is_held_to_its_own_metric_with_the_gold_alone() -> None:
    known = {one.name: one for one in (BLEU, ONES, SUM, REPLY, GREEDY_GOLD)}
    held = baseline_of(BLEU, known)
    assert (held.metric, held.kind, held.parrot, held.name) == ("upsilon-bleu:bp=none", "gold", False, "b: gold alone")
    assert baseline_of(ONES, known) == baseline_of(SUM, known) == baseline_of(REPLY, known) == GREEDY_GOLD
    matched_by_words = MetricCandidate(name="w", why="", family="sum", sum_of=(REPLY.name, "b"))
    assert baseline_of(matched_by_words, known) == held
    only_rater = MetricCandidate(name="r", why="", family="sum", sum_of=(REPLY.name,))
    assert baseline_of(only_rater, known) == GREEDY_GOLD


def test_a_judge_is_held_to_the_gold_alone_of_each_metric_in_it() -> None:
    tried = CandidateList.of((EVEN_JUDGE,))
    assert baselines_of(EVEN_JUDGE, tried.by_name) == (GREEDY_GOLD, CHRF_GOLD)
    assert baselines_of(REPLY, tried.by_name) == (GREEDY_GOLD,)
    assert asks_rater(EVEN_JUDGE, tried.by_name)
    assert [candidate.name for candidate in tried.with_controls(tried.candidates)] == [
        GREEDY_GOLD.name,
        CHRF_GOLD.name,
        EVEN_JUDGE.name,
    ]


@pytest.mark.parametrize(
    ("first", "second", "passes", "is_better"),
    [(GOOD, GOOD, True, True), (GOOD, BAD, False, False), (BAD, GOOD, False, False), (GOOD, OPEN, None, False)],
)
def test_a_judge_passes_where_it_is_behind_none_of_them(
    first: IntervalEstimate, second: IntervalEstimate, passes: bool | None, is_better: bool
) -> None:
    outcome = judge({"spearman": first, PARTIAL: first}, {"chrF, gold": {"spearman": GOOD, PARTIAL: second}})
    assert (outcome.passes, outcome.is_better) == (passes, is_better)
    [spearman_table] = [
        table
        for table in sections_of(
            CandidateList.of((EVEN_JUDGE,)),
            [Situation(name="dry", about="", verdicts={EVEN_JUDGE.name: outcome})],
        )[0].tables
        if table.title.startswith("Spearman less")
    ]
    assert [row[1] for row in spearman_table.rows] == [GREEDY_GOLD.name, "chrF, gold"]


def test_a_judge_scores_drawn_rows_as_it_scores_all() -> None:
    known = {candidate.name: candidate for candidate in (EVEN_JUDGE, REPLY, CHRF_GOLD)}
    lines = {EVEN_JUDGE.name: Line(name=EVEN_JUDGE.name, scores={"a": np.array([[0.1, 0.9, 0.5, 0.3]])})}
    drawn = _line_on_rows(EVEN_JUDGE, {"a": np.array([3, 0, 0])}, 1, lines, known)
    assert drawn.scores["a"].tolist() == [[0.3, 0.1, 0.1]]


def test_those_ask_a_rater_whose_references_are_rated_or_chosen_by_one() -> None:
    known = {one.name: one for one in (BLEU, ONES, SUM, REPLY, GREEDY_GOLD)}
    asking = {one.name: asks_rater(one, known) for one in known.values()}
    assert asking == {"b": True, "g": False, "s": True, REPLY.name: True, GREEDY_GOLD.name: False}


def test_every_candidate_comes_with_its_gold_alone_and_a_length_control() -> None:
    rated = MetricCandidate(name="g2", why="", family="greedy", metric=ONES.metric, kind="rated")
    tried = CandidateList.of((BLEU, ONES, rated, SUM, REPLY))
    wanted = tried.with_controls(tried.candidates)
    assert [(one.name, one.kind) for one in wanted] == [
        ("b: gold alone", "gold"),
        ("greedy, gold", "gold"),
        ("b", "rated"),
        ("g", "one"),
        ("g2", "rated"),
        ("s", "gold"),
        (REPLY.name, "gold"),
        ("… b: drawn replies as long", "matched"),
        ("… g: drawn replies as long", "matched"),  # and so for g2: weights and ratings do not matter to it
    ]
    assert wanted[-2].parrot


def test_a_sum_with_something_unknown_is_refused() -> None:
    with pytest.raises(Usage, match="s is a sum with 'b', and there is no such candidate"):
        CandidateList.of((SUM, ONES))


def situation(name: str, passes: Mapping[str, IntervalEstimate] | None, *, is_stress: bool = True) -> Situation:
    if passes is None:
        return Situation(name=name, about="", gap="nothing is found", is_stress=is_stress)
    verdicts = {who: judge({"spearman": one, PARTIAL: one}) for who, one in passes.items()}
    return Situation(name=name, about="", verdicts=verdicts, is_stress=is_stress)


def test_who_passes_wherever_it_is_tried_survives_and_a_gap_leaves_it_open() -> None:
    as_it_is = situation("as it is", {"b": BAD, "g": GOOD}, is_stress=False)
    one, other = situation("one", {"b": GOOD, "g": GOOD}), situation("other", {"b": GOOD})
    lost, gap = situation("lost", {"b": BAD, "g": GOOD}), situation("gap", None)
    assert survives(BLEU, [as_it_is, one, other]) is True  # what is no stress does not count
    assert survives(ONES, [as_it_is, one, other]) is True  # not tried in the other one
    assert survives(BLEU, [as_it_is, one, lost]) is False
    assert survives(BLEU, [one, gap]) is None
    assert survives(BLEU, [lost, gap]) is False


def test_summary_names_survivors_failures_and_what_was_not_tried() -> None:
    equal = IntervalEstimate(value=0.0, low=-0.01, high=0.01)
    found = [
        situation("dry", {"b": GOOD, "g": GOOD, "s": equal}),
        situation("cold", {"b": BAD, "g": equal, "s": equal}),
    ]
    said = summary_of(CandidateList.of((BLEU, ONES, SUM)), found)
    assert said[1:-1] == [
        "Of 3 candidates 2 survive all 2 stresses: g; s.",
        "b fails: cold.",
        "g: a gain over the gold alone, in both correlations, is shown in: dry; not shown elsewhere.",
        "s: a gain over the gold alone, in both correlations, is not shown anywhere.",
    ]
    assert "at least -.02 and a lower bound above -.06" in said[0]
    assert "chosen on these very sets" in said[-1]
    open_ = summary_of(CandidateList.of((BLEU,)), [*found[:1], situation("wet", None)])
    assert open_[1:-1] == [
        "Of 1 candidates 0 survive all 2 stresses.",
        "1 of the stresses could not be tried, and nobody survives those: wet.",
        "b is not judged under every stress: see the gaps.",
    ]


def test_a_stress_that_does_not_reach_a_candidate_says_nothing_of_it() -> None:
    found = [situation("as it is", {"b": GOOD, "g": GOOD}, is_stress=False), situation("dry", {"b": GOOD, "g": BAD})]
    tried = CandidateList.of((BLEU, ONES))
    assert "b looks at nothing that changes in: dry; nothing is tried." in summary_of(tried, found)
    cells = [row[1] for row in _outcome_table(tried, found).rows]
    assert cells == ["passes, untouched", "fails"]


def test_unavailable_candidate_is_not_judged() -> None:
    lost = Situation(name="dry", about="", verdicts=situation("dry", {"g": GOOD}).verdicts, missing={"b": "no range"})
    [first, *_] = _outcome_table(CandidateList.of((BLEU, ONES)), [lost]).rows
    assert first[1:] == ["not judged", "not judged"]


def test_what_is_tried_by_default_has_names_and_parts_that_exist() -> None:
    tried = CandidateList.of(CANDIDATES)
    assert len({one.name for one in CANDIDATES}) == len(CANDIDATES)
    assert {name for one in CANDIDATES for name in one.sum_of} <= set(tried.by_name)
    assert Verdict(passes=None, differences={}).in_words == "not judged"


# ── what there is to be said anything of ──────────────────────────────────────────────────────────────────────────


def test_a_set_for_which_most_items_have_few_references_is_a_gap() -> None:
    assert too_few_references("a", [3, 15, 0, 2]) is None
    assert too_few_references("a", [3, 2, 0, 2]) == "a: fewer than 3 references are found for 3 of 4 items"
    drawn = ReplySample.of(["w"])
    some = tuple(Reference(text=f"t{place}", source=Origin.RETRIEVED, weight=1.0) for place in range(3))
    pools = [
        Pool(parrots=(None,), retrieved=(found,), lengths=((1,) * len(found),), sample=drawn)
        for found in (some, some[:2])
    ]
    one = some_set("a", contexts=2)
    require_references(one, pools[0])
    with pytest.raises(BadInput, match="a: fewer than 3 references are found for 1 of 1 items"):
        require_references(one, pools[1])


def test_a_set_whose_replies_are_its_references_is_a_gap() -> None:
    ratings = {"s": [3], "t": [4]}
    items: list[Any] = [
        {
            "id": f"{place}",
            "utterance": "u",
            "references": ["Yes!"],
            "replies": {"s": "yes", "t": other},
            "ratings": ratings,
        }
        for place, other in enumerate(["YES", "yes"])
    ]
    same = ProofSet.of("same", [item_of(one, fallback_id="x") for one in items])
    assert _too_few_rows(same) == "same: every rated reply is one of its own references"
    items[0]["replies"]["t"] = "no"
    almost = ProofSet.of("almost", [item_of(one, fallback_id="x") for one in items])
    assert _too_few_rows(almost) == "almost: 1 rated replies in 1 contexts are not one of their own references"
    assert _too_few_rows(some_set("a")) is None


# ── parts and settings ────────────────────────────────────────────────────────────────────────────────────────────


def test_all_names_every_part_and_unknown_names_are_refused_with_a_list() -> None:
    assert parts_named("all") == tuple(PARTS)
    assert parts_named("stress") == ("stress",)
    with pytest.raises(Usage, match="there is no 'sorrow' to be reproduced") as refused:
        parts_named("sorrow")
    assert "stress" in refused.value.remedy


@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_a_function(name: str) -> None:
    assert callable(PARTS[name].load())


def test_a_set_whose_rows_cannot_be_drawn_is_left_out_with_its_reason() -> None:
    """One reply to each context: drawing rows within contexts changes nothing."""
    items = [
        {
            "id": str(number),
            "utterance": "u",
            "references": ["gold"],
            "replies": {"s": " ".join(["w"] * (1 + number % 4))},
            "ratings": {"s": [1 + number % 3]},
        }
        for number in range(12)
    ]
    rigid, free = ProofSet.of("rigid", [item_of(fields, fallback_id="x") for fields in items]), some_set("a")
    lines = [Line(name="x", scores={one.name: one.ratings[None] for one in (rigid, free)})]

    sources, reasons = _row_sources([rigid, free], lines, 0.25)

    assert [source.set.name for source in sources] == ["a"]
    assert len(reasons) == 1
    assert reasons[0].startswith("rigid: rows of the same contexts reach from ")


def test_settings_refuse_what_makes_no_sense(tmp_path: Any) -> None:
    with pytest.raises(Usage, match="there is no preset 'huge'"):
        ProofSettings(data=tmp_path, preset="huge")
    with pytest.raises(Usage, match="0 epochs"):
        ProofSettings(data=tmp_path, epochs=0)
    with pytest.raises(Usage, match="a is named twice"):
        ReproduceOptions(data=tmp_path, sets=["a", "b", "a"])
    with pytest.raises(Usage, match=r"'\.\./a' is no name of a set"):
        ReproduceOptions(data=tmp_path, sets=["../a"])
    assert ReproduceOptions(data=tmp_path).set_names == USUAL_SETS


def test_the_usual_sets_are_those_that_the_data_has(tmp_path: Path) -> None:
    (tmp_path / "human").mkdir()
    for name in ("grade_dailydialog", "dailydialog_zhao", "mine"):
        (tmp_path / "human" / f"{name}.jsonl.gz").touch()
    usual, named = ReproduceOptions(data=tmp_path), ReproduceOptions(data=tmp_path, sets=["mine"])
    assert usual.set_names == ("dailydialog_zhao", "grade_dailydialog")
    lacking = ("dailydialog_gupta", "grade_empatheticdialogues", "holistic_dailydialog", "predictive_engagement_dd")
    assert usual.gaps == [f"{name} is not there" for name in lacking]
    assert (named.set_names, named.gaps) == (("mine",), [])
