"""The metric `rater` on every path that scores take, and a real rater as its judge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn_rows import resample_counts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raters import tiny_model
from refusals import refusing
from scipy import stats

from refaug.agreement.meta import agreement
from refaug.agreement.records import ComparedMetric, MetaResult, RatedItems
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Metric, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.model_scores import RatedReplies, ReplyToRate
from refaug.metrics.specification import build
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import COMBINES, RatingSettings
from refaug.scoring.cases import references_for, references_of
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.networks import ReplyJudge, with_rater
from refaug.scoring.items import item_of
from refaug.scoring.reference_sets import set_scores
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.settings import MetaSettings, ScoreSettings

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "i", "like", "no", "red", "the", "they", "we", "yes"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 7)) for number in range(300)})
SPEC = "tiny@1#0123456789ab"
QUICK = ScoreSettings(draws=0)
CLOSE = 1e-5


class Lengths:
    """Rates a reply by its length beside those of the utterance and of the golds: worked out by eye."""

    spec = "lengths@1#abcdefabcdef"
    turn_separator = " "
    runtime = "torch"

    def judge(self, asked: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        del combine, cal
        return np.array([by_length(one.utterance, one.golds, one.reply) for one in asked])

    def remarks(self) -> tuple[str, ...]:
        return ()


def by_length(utterance: str, golds: Sequence[str], reply: str) -> float:
    wanted = len(utterance) + sum(map(len, golds)) / len(golds)
    return max(-1.0, 1 - abs(wanted - len(reply)) / 20)


def judged(specification: str = "rater") -> Metric:
    metric = build(specification)
    assert isinstance(metric, RatedReplies)
    return metric.with_judge(Lengths())


def item(number: int, **more: Any) -> Item:
    drawn = random.Random(number)
    golds: list[Any] = drawn.sample(TEXTS, 1 + number % 2)
    values = {
        "id": f"i{number}",
        "utterance": drawn.choice(TEXTS),
        "references": [*golds, {"text": "a bad one", "weight": -1}],
        "replies": {"a": drawn.choice(TEXTS), "b": drawn.choice(TEXTS) + " indeed"},
        **more,
    }
    return item_of({name: value for name, value in values.items() if value is not None}, fallback_id="x")


def golds_of(one: Item) -> list[str]:
    return [each.text for each in one.references if each.source is Origin.GOLD]


def expected(one: Item, system: str, *, first_alone: bool = False) -> float:
    golds = golds_of(one)[:1] if first_alone else golds_of(one)
    return by_length(one.utterance or "", golds, one.replies[system])


ITEMS = [item(number) for number in range(8)]


# ── which references ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("turns", "said"), [(1, "c"), (2, "b c"), (3, "a b c"), (9, "a b c")])
def test_it_is_judged_by_as_many_of_the_last_turns_as_it_asks_for(turns: int, said: str) -> None:
    golds = (Reference(text="gold"),)
    rater, blend = (
        build(f"rater:turns={turns}"),
        build(f"ruber:norm=none,unreferenced=rater;turns={turns},referenced=chrf"),
    )

    found = references_for(rater, golds, ["a", "b", "c"])

    assert found == References(("gold",), (1.0,), 0, said)
    beside = references_for(blend, golds, ["a", "b", "c"])
    assert isinstance(beside, References)
    assert beside.beside == found
    assert references_for(rater, golds) == NO_UTTERANCE
    assert references_for(build("chrf"), golds, ["a", "b"]) == References(("gold",), (1.0,))


def test_rater_gets_the_golds_and_the_utterance_only() -> None:
    mixed = (
        Reference(text="parrot", source=Origin.PARROT, weight=-0.5),
        Reference(text="gold", weight=0.3),
        Reference(text=" "),
        Reference(text="rated", source=Origin.SUPPLIED, weight=0.25),
        Reference(text="second gold"),
        Reference(text="found", source=Origin.RETRIEVED, weight=0.75),
    )
    assert references_of(mixed, Uses.GOLDS, "hello") == References(("gold", "second gold"), (1.0, 1.0), 0, "hello")
    assert references_of(mixed, Uses.GOLDS) == references_of(mixed, Uses.GOLDS, " ") == NO_UTTERANCE
    assert references_of(mixed[3:4], Uses.GOLDS, "hello") == NO_GOLD
    assert references_of(mixed, Uses.UTTERANCE, "hello") == references_of((), Uses.UTTERANCE, "hello")
    assert references_of((), Uses.UTTERANCE, "hello") == References((), (), -1, "hello")
    assert references_of(mixed, Uses.UTTERANCE) == references_of(mixed, Uses.UTTERANCE, " ") == NO_UTTERANCE
    for uses in set(Uses) - {Uses.GOLDS, Uses.UTTERANCE, Uses.DIALOGUE, Uses.CONTEXT}:
        assert references_of(mixed, uses, "hello") == references_of(mixed, uses)


# ── refaug score ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first_alone", [False, True])
def test_scores_are_the_judges_and_intervals_those_of_their_means(first_alone: bool) -> None:
    metric = judged("rater:refs=gold" if first_alone else "rater:target=reply")
    found = evaluate(ITEMS, [metric], ScoreSettings(draws=200, seed=3, baseline="a")).scores[0]
    values = {name: np.array([expected(one, name, first_alone=first_alone) for one in ITEMS]) for name in ("a", "b")}
    counts = resample_counts(len(ITEMS), 200, 3)
    for name, system in found.systems.items():
        assert list(system.each_score()) == values[name].tolist()
        assert (system.corpus, system.mean) == (pytest.approx(values[name].mean()),) * 2
        low, high = np.quantile(counts @ values[name] / len(ITEMS), [0.025, 0.975])
        assert (system.interval.low, system.interval.high) == (pytest.approx(low), pytest.approx(high))
    difference = values["b"].mean() - values["a"].mean()
    assert found.comparisons["b"].bootstrap.difference.value == pytest.approx(difference)
    assert "model:lengths@1#abcdefabcdef" in found.signature.short
    assert dict(found.signature.specification().parameters)["refs"] == ("gold" if first_alone else "golds")


def test_what_cannot_be_rated_is_counted_and_the_rest_is_scored() -> None:
    items = [
        item(0),
        item(1, utterance=None),
        item(2, references=[{"text": "only rated", "weight": 1}]),
        item(3, replies={"a": "", "b": "yes"}),
        item(4, replies={"b": "no"}),
    ]
    found = evaluate(items, [judged()], QUICK)
    a = found.scores[0].systems["a"]
    assert a.unscored == {"no_utterance": 1, "no_gold": 1, "no_reply": 1}
    assert list(a.each_score()) == [expected(items[0], "a"), None, None, -1.0, None]
    assert "empty replies, which score 0, by a rater -1, or nothing at all: a (1)" in found.warnings
    with refusing(BadInput):
        evaluate([items[1]], [judged()], QUICK)


def test_utterance_is_in_the_references_name_of_metrics_that_use_it_only() -> None:
    others = [replace(one, turns=("another one",)) for one in ITEMS]
    metrics = [judged(), build("bleu"), build("multi-bleu"), build("delta-bleu"), build("upsilon-chrf")]
    names, other_names = (
        [one.references for one in evaluate(items, metrics, QUICK).scores] for items in (ITEMS, others)
    )
    assert names[0] != other_names[0]
    assert names[1:] == other_names[1:]


def test_an_explanation_tells_what_each_gold_is_worth() -> None:
    one = item(1)
    golds = golds_of(one)
    assert len(golds) == 2
    found = evaluate([one], [judged()], replace(QUICK, explain=True)).scores[0].systems["a"].explanations[0]
    told = found["without_reference"]
    assert [each["text"] for each in told] == golds
    utterance, reply = one.utterance or "", one.replies["a"]
    assert [each["score"] for each in told] == [by_length(utterance, [gold], reply) for gold in reversed(golds)]
    alone = evaluate([item(0)], [judged()], replace(QUICK, explain=True)).scores[0].systems["a"].explanations[0]
    assert [each["score"] for each in alone["without_reference"]] == [None]


def test_a_frozen_set_is_scored_by_the_rater_that_a_metric_is_bound_to(tmp_path: Path) -> None:
    stored = ReferenceSets(tmp_path).freeze(ITEMS, SetDescription(purpose=Purpose.TEST)).set
    joined = set_scores.join(stored, ITEMS)
    of_set = set_scores.score(stored, joined, [judged()], QUICK).scores[0].systems["a"]
    of_items = evaluate(ITEMS, [judged()], QUICK).scores[0].systems["a"]
    assert list(of_set.each_score()) == list(of_items.each_score())
    with refusing(Usage, "rater"):
        set_scores.score(stored, joined, [build("rater")], QUICK)


# ── refaug agreement ──────────────────────────────────────────────────────────────────────────────────────────────────


def rated(items: Sequence[Item]) -> list[Item]:
    drawn = np.random.default_rng(1)
    return [
        replace(one, ratings={name: tuple(drawn.integers(1, 6, 2).astype(float)) for name in one.replies})
        for one in items
    ]


def meta(items: Sequence[Item], *metrics: Metric) -> MetaResult:
    compared = [ComparedMetric(name=metric.name, metric=metric) for metric in metrics]
    return agreement([RatedItems(name="set", items=items)], compared, MetaSettings(draws=50))


def test_agreement_uses_the_ratings_and_the_signature_names_the_rater() -> None:
    items = rated([item(number) for number in range(30)])
    (found,) = meta(items, judged(), build("bleu")).sets
    values = [expected(one, name) for one in items for name in one.replies]
    ratings = [
        np.mean([each for each in given_ if each is not None]) for one in items for given_ in one.ratings.values()
    ]
    assert found.points.values["rater"].tolist() == values
    assert found.rows[0].spearman.value == pytest.approx(stats.spearmanr(values, ratings).statistic)
    assert found.signatures["rater"].settings["model"] == Lengths.spec
    assert "rater" not in found.signatures["bleu"].settings


def test_rows_are_named_by_their_utterances_where_a_metric_looks_at_them() -> None:
    items = rated(ITEMS)
    others = [replace(one, turns=("another one",)) for one in items]
    plain = [meta(some, build("bleu")).sets[0].data for some in (items, others)]
    looked = [meta(some, build("bleu"), judged()).sets[0].data for some in (items, others)]
    assert plain[0] == plain[1]
    assert len({*plain, *looked}) == 3


def test_items_that_share_their_references_keep_their_own_utterances() -> None:
    shared = (Reference(text="a gold"),)
    items = [replace(one, references=shared) for one in rated(ITEMS)]
    (found,) = meta(items, judged()).sets
    assert found.points.values["rater"].tolist() == [expected(one, name) for one in items for name in one.replies]


# ── a rater as the judge ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.model"
    train_sentencepiece(TEXTS, path, TokenizerTraining(vocab_size=100, at_most=True))
    return open_sentencepiece(path)


@pytest.fixture(scope="module")
def rater(tokenizer: SentencePieceTokenizer) -> Rater:
    model = tiny_model(tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)  # until it has opinions
    return NNRater(model, tokenizer, temperature=2.5, spec=SPEC)


class Trembling(NNRater):
    """Says a trifle more every time it is asked, as other batches make other last digits."""

    times = 0

    def rate(
        self, asked: Sequence[RatingRequest], settings: RatingSettings | None = None, *, check: Any = None
    ) -> list[list[float]]:
        self.times += 1
        return [[rating + 1e-7 * self.times for rating in one] for one in super().rate(asked, settings, check=check)]


def alone(rater: Rater, one: ReplyToRate, combine: str, cal: str) -> float:
    """One question at a time, one gold at a time."""
    wanted = RatingSettings(combine=combine, calibrated=cal == "cal")  # type: ignore[arg-type]
    candidates = (Reference(text=one.reply),)
    ratings = [
        rater.rate([RatingRequest(utterance=one.utterance, golds=(gold,), candidates=candidates)], wanted)[0][0]
        for gold in one.golds
    ]
    return sum(ratings) / len(ratings)


ASKED = st.builds(
    ReplyToRate,
    utterance=st.sampled_from(TEXTS[:3]),
    golds=st.lists(st.sampled_from(TEXTS[3:6]), min_size=1, max_size=2).map(tuple),
    reply=st.sampled_from(TEXTS[6:14]),
)


@given(st.lists(ASKED, min_size=1, max_size=12), st.sampled_from(COMBINES), st.sampled_from(["raw", "cal"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_judge_says_of_each_what_its_rater_says_of_it_alone(
    rater: Rater, asked: list[ReplyToRate], combine: str, cal: str
) -> None:
    judge = ReplyJudge(rater)
    found = judge.judge(asked, combine=combine, cal=cal)
    assert found == pytest.approx([alone(rater, one, combine, cal) for one in asked], abs=CLOSE)
    again = judge.judge(list(reversed(asked)), combine=combine, cal=cal)
    assert again.tolist() == found.tolist()[::-1]


def test_equal_replies_to_an_item_tie_to_the_last_bit_in_any_batch(rater: Rater) -> None:
    # More than a batch of replies, so that those of the copy are asked about in another one.
    texts = [TEXTS[number % len(TEXTS)] for number in range(1_100)]
    items = [item(number, replies={"a": text, "copy": text}) for number, text in enumerate(texts)]
    trembling = Trembling(rater.model, rater.tokenizer, spec=SPEC)
    (metric,) = with_rater([build("rater")], trembling)
    found = evaluate(items, [metric], ScoreSettings(draws=50, baseline="a")).scores[0]
    a, copy = (list(found.systems[name].each_score()) for name in ("a", "copy"))
    assert trembling.times == 2
    assert a == copy
    assert found.comparisons["copy"].bootstrap.difference.p == 1.0
    first = ReplyToRate(utterance=items[0].utterance or "", golds=tuple(golds_of(items[0])), reply=TEXTS[0])
    assert a[0] == pytest.approx(alone(rater, first, "first", "raw"), abs=CLOSE)


def test_only_what_needs_a_rater_is_bound_to_it(rater: Rater) -> None:
    bleu, plain = build("bleu"), build("rater:combine=max")
    kept, bound = with_rater([bleu, plain], rater)
    assert kept is bleu
    assert bound.settings == {**plain.settings, "model": SPEC}


def test_replies_in_unknown_language_warn_in_scores_and_agreement(rater: Rater) -> None:
    strange = [item(number, utterance="切符はどこで買えますか。", ratings={"a": [1], "b": [2]}) for number in range(6)]
    [metric] = with_rater([build("rater")], rater)
    assert metric.remarks() == ()
    [told] = [one for one in evaluate(strange, [metric], QUICK).warnings if "does not know" in one]
    assert metric.remarks() == (told,)
    [metric] = with_rater([build("rater")], rater)
    found = agreement(
        [RatedItems(name="some", items=strange)], [ComparedMetric(name="rater", metric=metric)], MetaSettings(draws=5)
    )
    assert [one for one in found.warnings if "does not know" in one] == [told]
    [metric] = with_rater([build("rater")], rater)
    assert not [one for one in evaluate(ITEMS, [metric], QUICK).warnings if "does not know" in one]
