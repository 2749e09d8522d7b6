"""What holds of each metric of words: rows by themselves, the gold alone if asked for, nothing of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.metrics.base import Level, References
from refaug.metrics.specification import build

# Dense in what the definitions are about: stems, case, punctuation at the ends of words, odd spaces, several scripts.
WORDS = st.sampled_from(
    ["the", "The", "cat", "cats", "running", "ran", "it's", "x.", "...", "5.5", "é", "今日は犬。", "ß"]
)
TEXT = st.lists(st.tuples(WORDS, st.sampled_from([" ", " ", "  ", "\t"])), max_size=8).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
RATED = st.tuples(TEXT, st.sampled_from([1.0, 0.5, -0.5, 0.0]))
PLAIN = ["rouge-l:multi=mean,tok=word", "cider", "meteor:wordnet=none", "chrf++", "ter", "bleu"]
WEIGHTED = [
    f"upsilon-rouge-1:agg={aggregate}" for aggregate in ("weighted-best", "best", "mean-best-3", "weighted-mean")
]


@pytest.mark.parametrize("specification", [*PLAIN, *WEIGHTED])
@settings(max_examples=20, deadline=None)
@given(
    replies=st.lists(TEXT, min_size=1, max_size=4),
    items=st.lists(st.lists(RATED, max_size=3), min_size=1, max_size=3),
    data=st.data(),
)
def test_a_row_is_the_same_in_any_batch_to_the_last_bit(
    specification: str, replies: list[str], items: list[list[tuple[str, float]]], data: st.DataObject
) -> None:
    metric = build(specification)
    if specification in PLAIN:
        references = [References.unweighted([text for text, _ in one]) for one in items]
    else:
        references = [References(tuple(text for text, _ in one), tuple(weight for _, weight in one)) for one in items]
    prepared = metric.prepare(references)
    pair = st.tuples(st.integers(0, len(replies) - 1), st.integers(0, len(items) - 1))
    pairs = np.array(data.draw(st.lists(pair, min_size=1, max_size=8)))
    together = metric.statistics(replies, prepared, pairs[:, 0], pairs[:, 1])
    for row, (reply, item) in enumerate(pairs):
        alone = metric.statistics([replies[reply]], prepared, np.array([0]), np.array([item]))
        np.testing.assert_array_equal(alone[0], together[row])
        if specification != "cider":  # a score of which depends on the other items
            only = metric.prepare([references[item]])
            by_itself = metric.statistics([replies[reply]], only, np.array([0]), np.array([0]))
            np.testing.assert_array_equal(by_itself[0], together[row])


@pytest.mark.parametrize("name", ["rouge-1", "chrf++", "ter", "meteor"])
def test_only_the_gold_counts_where_only_the_gold_is_asked_for(name: str) -> None:
    more = "wordnet=none," if name == "meteor" else ""
    both, gold = References(("a b", "c d"), (1.0, 1.0), gold=1), References(("c d",), (1.0,), gold=0)

    def score(of: str, reply: str, references: References) -> float:
        metric = build(f"{name}:{more}refs={of}")
        rows = metric.statistics([reply], metric.prepare([references]), np.array([0]), np.array([0]))
        return float(metric.values(rows, Level.REPLY)[0])

    for reply in ("a b", "c d"):
        assert score("gold", reply, both) == score("own", reply, gold)
    assert score("own", "a b", both) == score("own", "c d", both) != score("gold", "a b", both)


@pytest.mark.parametrize("name", ["rouge-1", "chrf", "ter", "bleu", "meteor:wordnet=none"])
def test_nothing_to_score_gives_no_rows(name: str) -> None:
    metric = build(name)
    none = np.zeros(0, np.int64)
    rows = metric.statistics([], metric.prepare([]), none, none)
    assert rows.shape == (0, len(metric.columns))
    assert metric.values(rows, Level.REPLY).shape == (0,)


@pytest.mark.parametrize("name", ["rouge-1", "cider", "meteor:wordnet=none"])
def test_the_corpus_score_is_the_mean_of_the_reply_scores(name: str) -> None:
    metric = build(name)
    prepared = metric.prepare([References.unweighted(["a b"]), References.unweighted(["c d e f"])])
    rows = metric.statistics(["a b", "c"], prepared, np.arange(2), np.arange(2))
    each = metric.values(rows, Level.REPLY)
    assert each[0] != each[1]
    assert float(metric.values(rows.sum(axis=0), Level.CORPUS)) == pytest.approx(each.mean())
