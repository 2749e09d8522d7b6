"""υ-anything: agreement with its definition in plain Python, its laws, and what has no score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.metrics.base import NO_GOLD, NO_POSITIVE_WEIGHT, NO_REFERENCE, Level, Problem, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.embeddings.word_vector_metrics import NO_KNOWN_REFERENCE, NO_KNOWN_WORD
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.upsilon import Upsilon, baseline

AGGREGATES = ["weighted-best", "best", "mean-best-3", "weighted-mean"]
TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=5).map(" ".join)
REPLY = st.one_of(TEXT, st.just(""))
WEIGHT = st.one_of(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), st.floats(-1, 1).map(lambda x: round(x, 3)))
RATED = st.lists(st.tuples(TEXT, WEIGHT), min_size=1, max_size=6)
BASES = ["rouge-1", "chrf", "ter"]
FRACTION = st.sampled_from([0.0, 0.1, 0.5, 1.0])


def score(specification: str, reply: str, rated: Sequence[tuple[str, float]], gold: int = 0) -> float:
    """The score of one reply against references with weights."""
    metric = build(specification)
    references = References(tuple(text for text, _ in rated), tuple(weight for _, weight in rated), gold)
    rows = metric.statistics([reply], metric.prepare([references]), np.array([0]), np.array([0]))
    return float(metric.values(rows, Level.REPLY)[0])


# The definition


def by_hand(
    base: str, aggregate: str, lam: float, b: float, *, keep_gold: bool, reply: str, rated: Sequence[tuple[str, float]]
) -> float:
    """As the documentation has it; the gold comes first."""
    metric = build(base)
    each = []
    for text, weight in rated:
        rows = metric.statistics([reply], metric.prepare([References.unweighted([text])]), np.array([0]), np.array([0]))
        m = float(metric.values(rows, Level.REPLY)[0])
        m = max(0, 1 - m) if base == "ter" else m
        each.append((weight, min(1, max(0, (m - b) / (1 - b)))))
    if not any(weight > 0 for weight, _ in each):
        return float("nan")
    if not reply:
        return 0
    if not keep_gold:
        return combined(aggregate, lam, each)
    if not any(weight > 0 for weight, _ in each[1:]):
        return each[0][1]
    return (each[0][1] + combined(aggregate, lam, each[1:])) / 2


def combined(aggregate: str, lam: float, each: Sequence[tuple[float, float]]) -> float:
    positive = [(weight, m) for weight, m in each if weight > 0]
    if aggregate == "weighted-best":
        worst = max((-weight * m for weight, m in each if weight < 0), default=0)
        return max(0, max(weight * m for weight, m in positive) - lam * worst) / max(weight for weight, _ in positive)
    if aggregate == "best":
        return max(m for _, m in positive)
    if aggregate == "mean-best-3":
        return float(np.mean(sorted(m for _, m in positive)[-3:]))
    return sum(weight * m for weight, m in positive) / sum(weight for weight, _ in positive)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(BASES),
    st.sampled_from(AGGREGATES),
    FRACTION,
    st.sampled_from([0, 0.2, -0.5]),
    st.booleans(),
    REPLY,
    RATED,
)
def test_it_is_what_the_definition_gives(
    base: str, aggregate: str, lam: float, b: float, keep_gold: bool, reply: str, rated: list[tuple[str, float]]
) -> None:
    lam = lam if aggregate == "weighted-best" else 0
    kept = "yes" if keep_gold else "no"
    found = score(f"upsilon-{base}:agg={aggregate},lambda={lam},b={b},keep-gold={kept}", reply, rated)
    expected = by_hand(base, aggregate, lam, b, keep_gold=keep_gold, reply=reply, rated=rated)
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert np.isnan(found) or 0 <= found <= 1


def test_an_example_worked_out_by_hand() -> None:
    # rouge-1 of "a b": 1 against "a b", 0.8 against "a b c", 2/3 against "a", 0 against "x".
    rated = [("a b c", 1.0), ("a b", 0.7), ("a", -0.6), ("x", 0.4)]
    assert score("upsilon-rouge-1", "a b", rated) == pytest.approx(0.8)
    assert score("upsilon-rouge-1:lambda=0.5", "a b", rated) == pytest.approx(0.8 - 0.5 * 0.6 * 2 / 3)
    assert score("upsilon-rouge-1:agg=best", "a b", rated) == 1
    assert score("upsilon-rouge-1:agg=mean-best-3", "a b", rated) == pytest.approx(1.8 / 3)
    assert score("upsilon-rouge-1:agg=weighted-mean", "a b", rated) == pytest.approx((0.8 + 0.7) / 2.1)
    assert score("upsilon-rouge-1:keep-gold=yes", "a b", rated) == pytest.approx((0.8 + 1) / 2)
    assert score("upsilon-rouge-1:b=0.5", "a b", rated) == pytest.approx(max(1.0 * 0.6, 0.7 * 1))
    assert score("upsilon-rouge-1:keep-gold=yes", "a b", rated[:1]) == pytest.approx(0.8)
    assert score("upsilon-rouge-1:keep-gold=yes", "a b", [rated[0], rated[2]]) == pytest.approx(0.8)


def test_ter_enters_as_one_minus_its_value_floored_at_0() -> None:
    assert score("upsilon-ter", "a b c x", [("a b c d", 1.0)]) == 0.75
    assert score("upsilon-ter", "a b c d e f", [("x", 1.0)]) == 0


# Laws


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(BASES),
    st.sampled_from(AGGREGATES),
    REPLY,
    st.lists(st.tuples(TEXT, WEIGHT), min_size=2, max_size=4),
)
def test_the_order_of_references_never_matters_to_the_last_bit(
    base: str, aggregate: str, reply: str, rated: list[tuple[str, float]]
) -> None:
    lam = 0.7 if aggregate == "weighted-best" else 0
    for kept in ("yes", "no"):
        specification = f"upsilon-{base}:agg={aggregate},keep-gold={kept},lambda={lam}"
        orders = list(permutations(range(len(rated))))
        metric = build(specification)
        items = [
            References(tuple(rated[j][0] for j in order), tuple(rated[j][1] for j in order), order.index(0))
            for order in orders
        ]
        rows = metric.statistics([reply], metric.prepare(items), np.zeros(len(items), int), np.arange(len(items)))
        values = metric.values(rows, Level.REPLY)
        np.testing.assert_array_equal(values, np.full(len(items), values[0]))


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_many_references_in_any_order_are_aggregated_as_defined(aggregate: str) -> None:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list("abcdefgh"), size=rng.integers(1, 7))) for _ in range(14)]
    rated = list(zip(texts, rng.uniform(-0.4, 1, size=14).tolist(), strict=True))
    reply, specification = "a b c d", f"upsilon-chrf:agg={aggregate},b=0.05"
    values = {score(specification, reply, [rated[j] for j in rng.permutation(14)]) for _ in range(30)}
    assert len(values) == 1
    expected = by_hand("chrf", aggregate, 0, 0.05, keep_gold=False, reply=reply, rated=rated)
    assert values.pop() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["rouge-1", "rouge-2", "rouge-l"]), TEXT, st.lists(TEXT, min_size=1, max_size=5))
def test_with_every_weight_1_it_is_the_best_of_the_base_metric(base: str, reply: str, references: list[str]) -> None:
    metric = build(f"{base}:multi=best")
    prepared = metric.prepare([References.unweighted(references)])
    best = metric.values(metric.statistics([reply], prepared, np.array([0]), np.array([0])), Level.REPLY)[0]
    rated = [(text, 1.0) for text in references]
    assert score(f"upsilon-{base}", reply, rated) == best
    assert score(f"upsilon-{base}:agg=best", reply, rated) == best


@settings(max_examples=40, deadline=None)
@given(TEXT, RATED, st.data())
def test_raising_a_smaller_positive_weight_never_lowers_weighted_best(
    reply: str, rated: list[tuple[str, float]], data: st.DataObject
) -> None:
    largest = max(weight for _, weight in rated)
    raisable = [j for j, (_, weight) in enumerate(rated) if 0 < weight < largest]
    assume(raisable)
    chosen = data.draw(st.sampled_from(raisable))
    higher = data.draw(st.floats(rated[chosen][1], largest))
    raised = [(text, higher if j == chosen else weight) for j, (text, weight) in enumerate(rated)]
    for lam in ("0", "0.5"):
        specification = f"upsilon-chrf:lambda={lam}"
        assert score(specification, reply, raised) >= score(specification, reply, rated)


@settings(max_examples=40, deadline=None)
@given(TEXT, RATED, TEXT, st.floats(0.01, 1))
def test_reference_of_no_larger_weight_never_lowers_the_best(
    reply: str, rated: list[tuple[str, float]], text: str, share: float
) -> None:
    largest = max(weight for _, weight in rated)
    assume(largest > 0)
    more = [*rated, (text, largest * share)]
    for specification in ("upsilon-chrf", "upsilon-chrf:lambda=1", "upsilon-rouge-1:agg=best"):
        assert score(specification, reply, more) >= score(specification, reply, rated)


# What has no score, and what scores 0


def test_what_is_wrong_with_an_item_is_named_and_its_rows_are_nan() -> None:
    items = [
        References(("a", "b"), (0.0, -1.0)),
        References(("", " ?"), (1.0, 1.0)),
        References((), (), -1),
        References(("", "a"), (1.0, -0.5)),
        References(("a", "b"), (1.0, 1.0), -1),
        References(("", "b"), (1.0, 1.0), 0),
        References(("a", "b"), (-1.0, 0.5), 0),
    ]
    plain = {0: NO_POSITIVE_WEIGHT, 1: NO_REFERENCE, 2: NO_REFERENCE, 3: NO_POSITIVE_WEIGHT}
    for specification, problems in (
        ("upsilon-rouge-1", plain),
        ("upsilon-rouge-1:keep-gold=yes", {**plain, 4: NO_GOLD, 5: NO_GOLD}),
    ):
        metric = build(specification)
        prepared = metric.prepare(items)
        assert prepared.problems == problems
        values = metric.values(metric.statistics(["a"], prepared, np.zeros(7, int), np.arange(7)), Level.REPLY)
        assert {item for item in range(7) if np.isnan(values[item])} == set(problems)


def test_an_empty_reply_scores_0_whatever_the_baseline(vectors: Path) -> None:
    rated = [("sun moon", 1.0), ("sun", 0.5)]
    for base in ("rouge-1", "chrf", "ter", "meteor:wordnet=none", f"greedy:vectors={vectors}"):
        name, _, rest = base.partition(":")
        for b in ("0", "0.3", "-0.5"):
            for reply in ("", " \n"):
                assert score(f"upsilon-{name}:b={b}" + (f",{rest}" if rest else ""), reply, rated) == 0


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors at right angles, but for "half", which is between the two."""
    path = tmp_path_factory.mktemp("vectors") / "tiny.txt"
    path.write_text("sun 1 0\nmoon 0 1\nhalf 1 1\nnight -1 0\n")
    return path


def test_references_without_a_known_word_are_left_out(vectors: Path) -> None:
    specification = f"upsilon-greedy:vectors={vectors}"
    known, unknown = ("half", 0.5), ("zzz", 1.0)
    assert score(specification, "sun", [unknown, known]) == score(specification, "sun", [known])
    assert score(specification, "sun", [known]) == pytest.approx(np.sqrt(0.5))
    assert score(specification, "sun", [("night", 1.0)]) == 0  # a cosine of -1
    assert np.isnan(score(specification, "zzz", [known]))
    metric = build(specification)
    assert metric.undefined() == NO_KNOWN_WORD
    items = [
        References(("zzz", ""), (1.0, 1.0)),
        References(("", ""), (1.0, 1.0)),
        References(("zzz", "sun"), (1.0, -1.0)),
    ]
    problems: dict[int, Problem] = {0: NO_KNOWN_REFERENCE, 1: NO_REFERENCE, 2: NO_POSITIVE_WEIGHT}
    assert metric.prepare(items).problems == problems


# Settings


@pytest.mark.parametrize("aggregate", AGGREGATES[1:])
def test_lambda_is_refused_where_it_would_change_nothing(aggregate: str) -> None:
    with pytest.raises(Usage) as refused:
        build(f"upsilon-chrf:agg={aggregate},lambda=0.5")
    assert refused.value.message == (f"upsilon-chrf: agg={aggregate} subtracts nothing, so lambda=0.5 has no meaning")


def test_the_signature_has_its_own_settings_and_then_those_of_the_base() -> None:
    metric = build("upsilon-rouge-l:keep-gold=yes,lambda=0.25,b=0.125,tok=13a")
    assert list(metric.settings.items()) == [
        ("agg", "weighted-best"), ("keep-gold", "yes"), ("lambda", "0.25"), ("b", "0.125"),
        ("measure", "f"), ("stem", "no"), ("tok", "13a"), ("case", "mixed"),
    ]  # fmt: skip
    assert metric.versions() == build("rouge-l:tok=13a").versions()
    signature = Signature.parse(Signature.of(metric).full)
    assert signature.metric == "upsilon-rouge-l"
    assert build(signature.specification()).settings == metric.settings


def test_every_single_reference_metric_without_files_has_a_weighted_form() -> None:
    for name, info in METRICS.items():
        if info.made_by == "refaug.metrics.upsilon:Upsilon" and not info.needs:
            metric = build(name)
            assert isinstance(metric, Upsilon)
            assert metric.base.name == name.removeprefix("upsilon-")


# The baseline


def test_the_baseline_is_the_mean_over_pairs() -> None:
    replies, references = ["a b", "a", "", "c d"], ["a b", "a b", "a", "c x"]
    assert baseline(build("upsilon-rouge-1"), replies, references) == pytest.approx((1 + 2 / 3 + 0 + 0.5) / 4)
    assert baseline(build("rouge-1"), replies, references) == pytest.approx((1 + 2 / 3 + 0 + 0.5) / 4)
    assert baseline(build("upsilon-rouge-1:b=0.4"), replies, references) == pytest.approx((1 + 2 / 3 + 0 + 0.5) / 4)
    assert baseline(build("upsilon-ter"), replies, references) == pytest.approx((1 + 0.5 + 0 + 0.5) / 4)


def test_pairs_without_a_score_do_not_count_in_the_baseline(vectors: Path) -> None:
    metric = build(f"upsilon-greedy:vectors={vectors}")
    assert baseline(metric, ["sun", "zzz", "sun", "sun"], ["half", "sun", "zzz", "night"]) == pytest.approx(
        (np.sqrt(0.5) - 1) / 2
    )
    with refusing(BadInput):
        baseline(metric, ["zzz"], ["sun"])
