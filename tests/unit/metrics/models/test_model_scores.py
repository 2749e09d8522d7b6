"""The ratings of replies as scores: what a judge is asked, in which order, and who never gets to be judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import Usage
from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Level, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.metric_info import CorpusScore, Uses
from refaug.metrics.models.model_scores import LEAST, RatedReplies, ReplyToRate
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build

TEXT = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4).map(" ".join)
REPLY = st.one_of(TEXT, st.sampled_from(["", "  ", "\n"]))
PAIR = st.tuples(
    st.one_of(TEXT, st.sampled_from(["", " "]), st.none()), st.lists(st.one_of(TEXT, st.just(" ")), max_size=3)
)


class Words:
    """Rates a reply by the share of its words that are in the utterance or in a gold, the mean over golds."""

    spec = "words@1#0123456789ab"
    turn_separator = " "
    runtime = "torch"

    def __init__(self) -> None:
        self.asked = list[tuple[ReplyToRate, str, str]]()

    def judge(self, asked: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        self.asked += [(one, combine, cal) for one in asked]
        return np.array([by_words(one.utterance, one.golds, one.reply) for one in asked])


def by_words(utterance: str, golds: Sequence[str], reply: str) -> float:
    words = reply.split()
    shares = [sum(word in (utterance + " " + gold).split() for word in words) / len(words) for gold in golds]
    return 2 * sum(shares) / len(shares) - 1


def metric_by(judge: Words, specification: str = "rater") -> RatedReplies:
    metric = build(specification)
    assert isinstance(metric, RatedReplies)
    return metric.with_judge(judge)


def golds(utterance: str | None, *texts: str) -> References:
    return References(texts, (1.0,) * len(texts), utterance=utterance)


def scores(metric: RatedReplies, references: Sequence[References], rows: Sequence[tuple[str, int]]) -> Floats:
    prepared = metric.prepare(references)
    at = np.arange(len(rows))
    found = metric.statistics(
        [reply for reply, _ in rows], prepared, at, np.array([item for _, item in rows], np.int64)
    )
    return metric.values(found, Level.REPLY)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(PAIR, min_size=1, max_size=4), st.lists(st.tuples(REPLY, st.integers(0, 3)), max_size=8), st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_row_is_what_the_judge_says_of_its_own_reply_and_item(
    pairs: list[tuple[str | None, list[str]]], rows: list[tuple[str, int]], first_alone: bool
) -> None:
    rows = [(reply, item % len(pairs)) for reply, item in rows]
    judge = Words()
    metric = metric_by(judge, "rater:refs=gold" if first_alone else "rater")
    found = scores(metric, [golds(utterance, *texts) for utterance, texts in pairs], rows)
    expected = []
    for reply, item in rows:
        utterance, texts = pairs[item]
        kept = [text for text in (texts[:1] if first_alone else texts) if text.strip()]
        if not kept or not (utterance or "").strip():
            expected.append(np.nan)
        else:
            expected.append(by_words(utterance or "", kept, reply) if reply.strip() else -1.0)
    np.testing.assert_array_equal(found, expected)
    assert all(one.reply.strip() and one.utterance.strip() and one.golds for one, _, _ in judge.asked)


def test_an_empty_reply_gets_the_least_rating_and_nobody_is_asked() -> None:
    judge = Words()
    found = scores(metric_by(judge), [golds("a b", "c")], [("", 0), (" \t", 0), ("c d", 0)])
    assert found.tolist() == [LEAST, LEAST, 0.0]
    assert [one.reply for one, _, _ in judge.asked] == ["c d"]
    assert METRICS["rater"].low == LEAST


def test_a_judge_is_asked_as_the_specification_says() -> None:
    judge = Words()
    scores(metric_by(judge, "rater:combine=max,cal=cal"), [golds("a", "b", "c")], [("d", 0)])
    assert judge.asked == [(ReplyToRate(utterance="a", golds=("b", "c"), reply="d"), "max", "cal")]


def test_an_item_that_cannot_be_judged_says_why() -> None:
    items = [golds("a", "b"), golds(None, "b"), golds("  ", "b"), golds("a"), golds("a", " "), golds(None)]
    assert metric_by(Words()).prepare(items).problems == {
        1: NO_UTTERANCE,
        2: NO_UTTERANCE,
        3: NO_GOLD,
        4: NO_GOLD,
        5: NO_GOLD,
    }
    without_first = golds("a", "b", "c").select([1])
    assert metric_by(Words(), "rater:refs=gold").prepare([without_first]).problems == {0: NO_GOLD}
    assert metric_by(Words()).prepare([without_first]).parts == [("a", ("c",))]


def test_the_corpus_score_is_the_mean_of_the_replies() -> None:
    metric = metric_by(Words())
    rows = metric.statistics(["a", "d", ""], metric.prepare([golds("a", "b")]), np.arange(3), np.zeros(3, np.int64))
    assert rows.tolist() == [[1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]]
    assert float(metric.value_of_sums(rows.sum(axis=0))) == pytest.approx(-1 / 3)
    assert METRICS["rater"].corpus is CorpusScore.MEAN
    assert METRICS["rater"].uses is Uses.GOLDS


def test_references_left_out_leave_the_utterance() -> None:
    three = golds("a", "b", "c", "d")
    assert three.select([2, 0]) == References(("d", "b"), (1.0, 1.0), 1, "a")
    assert three.without(["b"]) == References(("c", "d"), (1.0, 1.0), -1, "a")


# ── without a judge, and in signatures ────────────────────────────────────────────────────────────────────────────


def test_without_a_rater_nothing_is_scored_and_the_remedy_is_named() -> None:
    metric = build("rater:target=reply")
    with refusing(Usage, "rater") as raised:
        metric.prepare([])
    assert raised.value.remedy == "refaug artefacts list rater"


def test_bound_metric_names_its_rater_first_and_the_unbound_one_stays() -> None:
    plain = build("rater:combine=mean")
    assert isinstance(plain, RatedReplies)
    bound = plain.with_judge(Words())
    short = Signature.of(bound).short
    said = "model:words@1#0123456789ab|target:reply|combine:mean|cal:raw|turns:1|refs:golds"
    assert short.startswith(f"rater|{said}|full:")
    assert list(plain.settings) == ["model", "target", "combine", "cal", "turns", "refs"]
    with pytest.raises(Usage):
        plain.prepare([])


@pytest.mark.parametrize("given_", ["rater", "rater:target=reply,combine=first-literal,cal=cal,refs=gold"])
def test_signature_parses_back_as_the_metric_to_bind_a_rater_to(given_: str) -> None:
    made = Signature.of(metric_by(Words(), given_))
    for text in (made.full, made.short):
        read = Signature.parse(text)
        again = build(read.specification())
        assert isinstance(again, RatedReplies)
        assert read.settings["model"] == Words.spec
        assert Signature.of(again.with_judge(Words())) == made


@pytest.mark.parametrize("wrong", ["target=reference", "combine=median", "cal=yes", "refs=own", "rater=base"])
def test_what_there_is_not_is_refused(wrong: str) -> None:
    with refusing(Usage, wrong.partition("=")[0]):
        build(f"rater:{wrong}")
