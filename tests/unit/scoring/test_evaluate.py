"""What a test file's scores are: references chosen by metric, levels, intervals, problems, evidence."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_rows import resample_counts
from refusals import refusing
from sacrebleu.metrics.bleu import BLEU

from refaug.core.errors import BadInput, Interrupted, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import NO_GOLD, Floats, Level, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.specification import build
from refaug.scoring.cases import (
    NO_REPLY,
    NO_WEIGHT,
    Reply,
    leave_one_out,
    references_of,
    score_replies,
    score_together,
)
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem, item_of
from refaug.scoring.provenance import Provenance
from refaug.scoring.scores import percent
from refaug.scoring.settings import ScoreSettings
from refaug.scoring.spooled_items.item_collection import data_hash

QUICK = ScoreSettings(draws=0)


def item(name: str, references: list, replies: dict, **more) -> Item:
    return item_of({"id": name, "references": references, "replies": replies, **more}, fallback_id="1")


def weighted(text: str, weight: float, source: str = "retrieved") -> dict:
    return {"text": text, "weight": weight, "source": source, "similarity": 0.5}


ITEMS = [
    item("d1", ["we open at nine", "at nine o'clock"], {"a": "we open at nine", "b": "no idea at all"}),
    item("d2", ["the blue one please"], {"a": "the red one please", "b": "the blue one"}),
    item("d3", ["yes of course"], {"a": "of course not", "b": ""}),
]


# ── which references ──────────────────────────────────────────────────────────────────────────────────────────────


MIXED = (
    Reference(text="parrot", source=Origin.PARROT, weight=-0.5),
    Reference(text="gold"),
    Reference(text="second gold"),
    Reference(text="rated", source=Origin.SUPPLIED, weight=0.25),
    Reference(text="found", source=Origin.RETRIEVED, weight=0.75),
)


@pytest.mark.parametrize(
    ("uses", "texts", "weights", "gold"),
    [
        (Uses.GOLD, ("gold",), (1.0,), 0),
        (Uses.OWN, ("gold", "second gold", "rated"), (1.0, 1.0, 1.0), 0),
        (Uses.RATED, ("gold", "second gold", "rated"), (1.0, 1.0, 0.25), 0),
        (Uses.WEIGHTED, ("parrot", "gold", "second gold", "rated", "found"), (-0.5, 1.0, 1.0, 0.25, 0.75), 1),
    ],
)
def test_a_metric_gets_the_references_it_is_about(
    uses: Uses, texts: tuple[str, ...], weights: tuple[float, ...], gold: int
) -> None:
    assert references_of(MIXED, uses) == References(texts, weights, gold)


def test_a_gold_that_a_rater_has_rated_keeps_its_weight_for_upsilon_only() -> None:
    rated = (Reference(text="gold", weight=0.4), Reference(text="found", source=Origin.RETRIEVED, weight=0.1))
    assert references_of(rated, Uses.WEIGHTED) == References(("gold", "found"), (0.4, 0.1), 0)
    assert references_of(rated, Uses.RATED) == References(("gold",), (1.0,), 0)


def test_what_is_missing_is_a_problem_of_the_item() -> None:
    assert references_of(MIXED[3:], Uses.GOLD) == NO_GOLD
    assert references_of((*MIXED, Reference(text="x", source=Origin.RETRIEVED)), Uses.WEIGHTED) == NO_WEIGHT


@pytest.mark.parametrize("spec", ["delta-bleu", "upsilon-bleu", "upsilon-chrf"])
def test_a_weighted_metric_refuses_a_file_in_which_nothing_is_weighted(spec: str) -> None:
    with refusing(BadInput, spec):
        evaluate(ITEMS, [build(spec)], QUICK)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_levels_agree_with_sacrebleu() -> None:
    found = evaluate(ITEMS, [build("multi-bleu:tok=13a,case=lc")], QUICK).scores[0].systems
    by_reply = BLEU(max_ngram_order=2, effective_order=True, smooth_method="exp", lowercase=True)
    by_corpus = BLEU(max_ngram_order=2, smooth_method="exp", lowercase=True)
    for system in ("a", "b"):
        replies = [one.replies[system] for one in ITEMS]
        references = [[ref.text for ref in one.references] for one in ITEMS]
        expected = [by_reply.sentence_score(*pair).score / 100 for pair in zip(replies, references, strict=True)]
        assert list(found[system].each_score()) == pytest.approx(expected, abs=1e-12)
        assert found[system].mean == pytest.approx(np.mean(expected), abs=1e-12)
        columns = [[listed[0] for listed in references], [listed[1] if listed[1:] else None for listed in references]]
        assert found[system].corpus == pytest.approx(by_corpus.corpus_score(replies, columns).score / 100, abs=1e-12)


def test_a_system_is_scored_over_the_replies_it_has_and_says_so() -> None:
    items = [*ITEMS[:2], item("d3", ["yes of course"], {"a": "of course not"})]
    evaluation = evaluate(items, [build("bleu")], QUICK)
    found = evaluation.scores[0].systems["b"]
    assert dict(found.unscored) == {"no_reply": 1}
    assert found.problems == {2: NO_REPLY}
    alone = evaluate(items[:2], [build("bleu")], QUICK).scores[0].systems["b"]
    assert (found.corpus, found.mean) == (alone.corpus, alone.mean)
    assert evaluation.warnings == ("replies are missing (of 3): b (1); the scores are over those there are",)


@pytest.mark.parametrize(
    ("reply", "tok", "is_warned"),
    [
        ("我今天非常高兴见到你", "word", True),
        ("พรุ่งนี้ฝนจะตก", "word", True),
        ("我今天非常高兴见到你", "char", False),
        ("so nice to meet you, 你", "word", False),
    ],
)
def test_whole_clauses_as_words_are_warned_of(reply: str, tok: str, is_warned: bool) -> None:
    found = evaluate([item("d1", ["我今天很高兴见到你"], {"a": reply})], [build(f"bleu:tok={tok}")], QUICK)
    assert any("whole clauses" in warning for warning in found.warnings) is is_warned


def test_item_without_usable_references_is_counted_and_others_are_scored() -> None:
    items = [*ITEMS, item("d4", ["", "  "], {"a": "hello", "b": "hi"})]
    found = evaluate(items, [build("multi-bleu")], QUICK)
    for system in ("a", "b"):
        scores = found.scores[0].systems[system]
        assert dict(scores.unscored) == {"no_gold": 1}
        assert scores.corpus == evaluate(ITEMS, [build("multi-bleu")], QUICK).scores[0].systems[system].corpus
    assert "empty references, which are left out: 2" in found.warnings


def test_a_weighted_metric_has_no_score_where_nothing_could_be_found_by_an_utterance() -> None:
    """The gold alone would give the score of multi-BLEU under another name."""
    searched = Provenance(settings={"mode": "embedding-utterance"})
    said, mute = item("d1", ["a b"], {"s": "a b"}, utterance="hello"), item("d2", ["a b"], {"s": "a b"})
    found = evaluate([said, mute], [build("upsilon-bleu"), build("upsilon-chrf")], QUICK, provenance=searched)
    assert [dict(scores.systems["s"].unscored) for scores in found.scores] == [{"no_utterance": 1}] * 2
    with refusing(BadInput) as error:
        evaluate([mute], [build("upsilon-bleu")], QUICK, provenance=searched)
    assert "utterance" in error.value.remedy


def test_items_without_positive_weight_are_unscored_by_name() -> None:
    items = [
        item("d1", ["gold here", weighted("found", -1)], {"a": "gold here"}),
        item("d2", [weighted("found", -0.5), weighted("other", 0)], {"a": "found"}),
    ]
    found = evaluate(items, [build("upsilon-bleu")], QUICK).scores[0].systems["a"]
    assert [reply.get("problem") for reply in found.each_reply()] == [None, "no_positive_weight"]


def test_an_empty_reply_scores_nothing_and_is_mentioned() -> None:
    found = evaluate(ITEMS, [build("bleu")], QUICK)
    assert list(found.scores[0].systems["b"].each_score())[2] == 0.0
    assert "empty replies, which score 0 or nothing at all: b (1)" in found.warnings


def test_bad_items_are_listed_and_the_rest_is_scored() -> None:
    bad = BadItem(file="f", line=4, item="x", field="references", message="no")
    found = evaluate([ITEMS[0], bad, *ITEMS[1:]], [build("bleu")], QUICK)
    assert found.bad_items == (bad,)
    assert found.as_json()["problems"] == [{"file": "f", "line": 4, "id": "x", "field": "references", "message": "no"}]
    assert found.scores[0].systems["a"].corpus == evaluate(ITEMS, [build("bleu")], QUICK).scores[0].systems["a"].corpus


def test_nothing_to_score_is_an_error_with_the_first_reason() -> None:
    bad = BadItem(file="f", line=4, item="x", field="references", message="no")
    with refusing(BadInput):
        evaluate([bad], [build("bleu")], QUICK)
    with refusing(BadInput):
        evaluate([], [build("bleu")], QUICK)
    with refusing(BadInput):
        evaluate([item("d", ["x"], {})], [build("bleu")], QUICK)


def test_empty_references_are_no_references() -> None:
    padded = [item("d1", ["", "we open at nine", " "], {"a": "we"})]
    plain = [item("d1", ["we open at nine"], {"a": "we"})]
    for spec in ("bleu", "multi-bleu"):
        found = [evaluate(items, [build(spec)], QUICK).scores[0].systems["a"] for items in (padded, plain)]
        assert found[0].corpus == found[1].corpus
        assert found[0].parts == found[1].parts


def test_replies_may_share_references_or_not_and_be_in_any_order() -> None:
    metric = build("delta-bleu")
    shared = References(("we open at nine", "closed"), (1.0, -0.5))
    replies = ["we open", None, "closed at nine", "nine"]
    references = [shared, shared, shared, References(("nine",), (1,))]
    found, problems = score_replies(metric, replies, references)
    apart = [score_replies(metric, [one], [of]) for one, of in zip(replies, references, strict=True)]
    assert np.array_equal(found, np.array([statistics[0] for statistics, _ in apart]), equal_nan=True)
    assert problems == {1: NO_REPLY}
    backwards, _ = score_replies(metric, replies[::-1], references[::-1])
    assert np.array_equal(backwards[::-1], found, equal_nan=True)


@pytest.mark.parametrize("spec", ["delta-bleu", "upsilon-chrf", "multi-bleu:n=4"])
def test_parts_scored_together_have_the_bits_and_problems_of_each_alone(spec: str) -> None:
    metric, shared = build(spec), References(("we open at nine", "closed"), (1.0, -0.5))
    parts = [
        (metric, replies, references)
        for replies, references in (
            (["we open", None], [shared, shared]),
            ([], []),
            (["closed at nine"], [shared]),
            (["nine", "it is nine", "closed"], [NO_WEIGHT, References(("nine",), (1,)), shared]),
        )
    ]
    together = score_together(parts)
    for part, (statistics, problems) in zip(parts, together, strict=True):
        alone, problems_alone = score_replies(*part)
        assert np.array_equal(statistics, alone, equal_nan=True)
        assert problems == problems_alone
    assert [problems for _, problems in together] == [{1: NO_REPLY}, {}, {}, {0: NO_WEIGHT}]


# ── intervals, comparisons, per cent ──────────────────────────────────────────────────────────────────────────────


def many(count: int = 60) -> list[Item]:
    rng = np.random.default_rng(3)
    words = ["red", "blue", "green", "we", "open", "at", "nine", "please", "no", "yes"]

    def text(size: int) -> str:
        return " ".join(rng.choice(words, size))

    return [item(str(n), [text(6)], {"a": text(6), "b": text(5), "c": text(6)}) for n in range(count)]


def test_intervals_hold_the_score_and_are_the_same_for_the_same_seed() -> None:
    items = many()
    first, again = (evaluate(items, [build("bleu")], ScoreSettings(draws=200, seed=5)).as_json() for _ in range(2))
    other = evaluate(items, [build("bleu")], ScoreSettings(draws=200, seed=6)).as_json()
    assert first == again
    for system, found in first["scores"][0]["systems"].items():
        low, high = found["interval"]
        assert low < found["corpus"] < high
        assert found["mean_interval"][0] < found["mean"] < found["mean_interval"][1]
        assert found["interval"] != other["scores"][0]["systems"][system]["interval"]


def test_the_interval_is_that_of_replies_drawn_again_and_scored_anew() -> None:
    items = many(25)
    metric = build("bleu")
    found = evaluate(items, [metric], ScoreSettings(draws=300, seed=2)).scores[0].systems["a"]
    scores = []
    for counts in resample_counts(25, 300, 2):
        drawn = [one for one, times in zip(items, counts.astype(int), strict=True) for _ in range(times)]
        references = [References.unweighted([one.references[0].text]) for one in drawn]
        statistics, _ = score_replies(metric, [one.replies["a"] for one in drawn], references)
        scores.append(float(metric.values(statistics.sum(axis=0), Level.CORPUS)))
    assert [found.interval.low, found.interval.high] == pytest.approx(np.percentile(scores, [2.5, 97.5]), abs=1e-12)


def test_systems_are_compared_with_the_baseline_on_common_items() -> None:
    items = [*many(40), item("extra", ["red"], {"a": "red", "b": "red"})]
    found = evaluate(items, [build("bleu")], ScoreSettings(draws=200, baseline="c")).scores[0]
    assert list(found.comparisons) == ["a", "b"]
    shown = found.comparisons["a"].as_json()
    assert (shown["replies"], shown["left_out"]) == (40, 1)
    common = evaluate(items[:40], [build("bleu")], QUICK).scores[0].systems
    assert shown["difference"] == pytest.approx(common["a"].corpus - common["c"].corpus, abs=1e-12)
    assert 0 < shown["p_bootstrap"] <= 1
    assert 0 < shown["p_randomisation"] <= 1


@pytest.mark.parametrize(("baseline", "items"), [("z", ITEMS), ("a", [item("1", ["x"], {"a": "x"})])])
def test_a_baseline_must_be_one_of_several_systems(baseline: str, items: list[Item]) -> None:
    with pytest.raises(Usage):
        evaluate(items, [build("bleu")], ScoreSettings(draws=10, baseline=baseline))


def test_per_cent_multiplies_every_score_and_interval() -> None:
    items = many(20)
    plain = evaluate(items, [build("bleu")], ScoreSettings(draws=50, baseline="a", explain=True))
    hundred = percent(plain).as_json()["scores"][0]
    plain_json = plain.as_json()["scores"][0]
    assert (plain_json["scale"], hundred["scale"]) == (1.0, 100.0)
    before, after = plain_json["systems"]["b"], hundred["systems"]["b"]
    for name in ("corpus", "mean"):
        assert after[name] == pytest.approx(100 * before[name])
    assert after["interval"] == pytest.approx([100 * one for one in before["interval"]])
    assert after["replies"][3]["score"] == pytest.approx(100 * before["replies"][3]["score"])
    left = after["replies"][3]["without_reference"][0]
    assert left["change"] is None
    assert hundred["comparisons"]["b"]["p_bootstrap"] == plain_json["comparisons"]["b"]["p_bootstrap"]
    assert hundred["comparisons"]["b"]["difference"] == pytest.approx(
        100 * plain_json["comparisons"]["b"]["difference"]
    )


def test_per_cent_scales_shares_and_is_refused_where_no_metric_is_one() -> None:
    with refusing(Usage, "ter"):
        percent(evaluate(ITEMS, [build("ter")], QUICK))
    plain = evaluate(ITEMS, [build("ter"), build("bleu")], QUICK)
    ter, bleu = percent(plain).scores
    assert (ter, bleu.scale) == (plain.scores[0], 100)
    assert bleu.systems["a"].corpus == pytest.approx(100 * (plain.scores[1].systems["a"].corpus or 0))
    assert percent(plain).warnings[-1] == "ter is from 0 to ∞, which cannot be given in per cent"


# ── why ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_leaving_out_a_reference_is_scoring_without_it() -> None:
    metric = build("upsilon-bleu:bp=gold")
    references = References(("closed today", "we open at nine", "at ten"), (0.5, 1.0, -0.5), 1)
    found = leave_one_out(metric, [None, "we open at ten"], [references, references])
    fewer = [references.select([at for at in range(3) if at != left]) for left in range(3)]
    statistics, _ = score_replies(metric, ["we open at ten"] * 3, fewer)
    expected = metric.values(statistics, Level.REPLY)
    assert list(found) == [1]
    assert found[1][0] == expected[0]
    assert found[1][1] is None  # without its gold, there is no length to be held to
    assert found[1][2] == expected[2]
    assert references.select([1, 2]) == References(("we open at nine", "at ten"), (1.0, -0.5), 0)
    assert references.select([0, 2]).gold == -1
    assert references.select([0, 1]).gold == 1


def test_an_explanation_adds_up_to_the_credits() -> None:
    items = [item("d1", ["we open at nine", weighted("at nine sharp", 0.5)], {"a": "open at nine sharp"})]
    found = evaluate(items, [build("upsilon-bleu")], ScoreSettings(draws=0, explain=True))
    reply = found.as_json()["scores"][0]["systems"]["a"]["replies"][0]
    for order in (1, 2):
        credit = sum(one["credit"] for one in reply["credited"] if one["order"] == order)
        assert credit == pytest.approx(reply["parts"]["credit"][order - 1])
    assert {one["ngram"]: one["reference"] for one in reply["credited"]} == {
        "open": 0, "at": 0, "nine": 0, "sharp": 1, "open at": 0, "at nine": 0, "nine sharp": 1,
    }  # fmt: skip
    assert [one["reference"] for one in reply["without_reference"]] == [0, 1]


def test_evidence_is_given_for_weighted_scores_only() -> None:
    items = [item("d1", ["gold", weighted("x", 0.5), weighted("y", -0.5)], {"a": "gold"})]
    found = evaluate(items, [build("upsilon-bleu")], QUICK).as_json()["evidence"]
    assert found["d1"] == {
        "references": 3,
        "sources": {"gold": 1, "retrieved": 2},
        "similarities": [0.5, 0.5],
        "weights": [0.5, -0.5],
        "above_zero": 1,
        "thin": True,
    }
    assert "evidence" not in evaluate(items, [build("bleu")], QUICK).as_json()


def test_the_data_hash_names_the_golds_and_not_the_replies() -> None:
    first = data_hash(ITEMS)
    others = [item(one.id, [ref.text for ref in one.references], {"z": "other"}) for one in ITEMS]
    assert data_hash(others) == first
    assert data_hash(ITEMS[::-1]) != first
    assert data_hash([item("d1", ["another"], {}), *ITEMS[1:]]) != first


def test_what_retrieval_says_is_in_the_signatures_of_what_looks_at_it() -> None:
    items = [item("d1", ["we open at nine", {"text": "at ten", "weight": 0.5}], {"a": "open at nine"})]
    metrics = [build("upsilon-bleu"), build("bleu"), build("multi-bleu")]
    found, *others = evaluate(
        items, metrics, QUICK, provenance=Provenance(settings={"k": "15"}, details={"depth": "1000"})
    ).scores
    for other in others:
        assert "k:15" not in other.signature.short
        assert "depth" not in other.signature.full
    assert "|tok:word|k:15|full:" in found.signature.short
    assert "|depth.:1000|" in found.signature.full
    assert "depth" not in found.signature.short


# ── what a score may not depend on ────────────────────────────────────────────────────────────────────────────────


def test_a_system_that_lacks_a_reply_changes_no_other_system_under_cider() -> None:
    """The idf is that of all items, whichever of them have replies."""
    full = [
        item(str(n), [f"the {word} dog", "a cat"], {"a": f"the {word} cat", "b": "a dog"})
        for n, word in enumerate("xyz")
    ]
    less = [*full[:2], item("2", ["the z dog", "a cat"], {"a": "the z cat"})]
    found = [evaluate(items, [build("cider")], QUICK).scores[0] for items in (full, less)]
    scores = [list(one.systems["a"].each_score()) for one in found]
    assert scores[0] == scores[1]
    assert found[0].signature == found[1].signature
    assert "idf" in found[0].signature.details
    other = [*full, item("9", ["another reference"], {"a": "x", "b": "y"})]
    assert evaluate(other, [build("cider")], QUICK).scores[0].signature.full != found[0].signature.full


def test_the_references_that_were_looked_at_have_a_name_beside_the_data() -> None:
    def found(weight: float, text: str = "at nine sharp") -> dict:
        items = [item("d1", ["we open at nine", {"text": text, "weight": weight}], {"a": "open at nine"})]
        return evaluate(items, [build("delta-bleu"), build("bleu")], QUICK).as_json()

    first, heavier, other = found(0.5), found(0.9), found(0.5, "at ten")
    assert first["data"] == heavier["data"] == other["data"]
    names = [[score["references"] for score in one["scores"]] for one in (first, heavier, other)]
    assert len({name[0] for name in names}) == 3
    assert len({name[1] for name in names}) == 1


def test_a_metric_that_can_score_nothing_leaves_the_others_their_scores() -> None:
    one = [item("d1", ["we open at nine"], {"a": "we open"})]
    found = evaluate(one, [build("bleu"), build("cider")], QUICK)
    assert found.scores[0].systems["a"].corpus is not None
    assert found.scores[1].systems["a"].corpus is None
    assert found.warnings[0].startswith("no reply has a score by cider: 1 times")
    with refusing(BadInput):
        evaluate(one, [build("cider")], QUICK)


def test_an_interval_is_not_widened_by_draws_without_a_reply() -> None:
    items = [item(str(n), ["we open at nine"], {"all": "we open"}) for n in range(60)]
    items += [item(f"x{n}", ["we open at nine"], {"all": "we", "few": "we open at nine"}) for n in range(2)]
    found = evaluate(items, [build("bleu")], ScoreSettings(draws=300)).scores[0].systems["few"]
    assert (found.interval.low, found.interval.high) == (1.0, 1.0)
    assert found.interval.undefined > 0


def test_thousands_of_systems_are_scored_in_one_go() -> None:
    replies = {f"system-{n}": "we open" for n in range(3_000)}
    found = evaluate([item("d1", ["we open at nine"], replies)], [build("bleu")], QUICK).scores[0].systems
    assert len(found) == 3_000
    assert len({one.corpus for one in found.values()}) == 1


def test_delta_bleu_says_that_a_gold_counts_as_one() -> None:
    references = [{"text": "we open", "source": "gold", "weight": 0.2}, {"text": "we", "weight": 0.5}]
    found = evaluate([item("d1", references, {"a": "we open"})], [build("delta-bleu")], QUICK)
    assert "delta-bleu takes every gold at weight 1; 1 have another weight, which upsilon- uses" in found.warnings


def test_a_reference_of_which_nothing_can_be_seen_is_none() -> None:
    seen = [item("d1", ["we open at nine"], {"a": "we"})]
    unseen = [item("d1", ["we open at nine", "\u200b"], {"a": "we"})]
    assert [evaluate(items, [build("multi-bleu")], QUICK).scores[0].systems["a"].mean for items in (seen, unseen)] == [
        pytest.approx(evaluate(seen, [build("bleu")], QUICK).scores[0].systems["a"].mean)
    ] * 2


# ── pieces of limited cost ────────────────────────────────────────────────────────────────────────────────────────


class PieceCounter(Silent):
    """Counts replies piece by piece, and ends the work after so many of them."""

    def __init__(self, most: int) -> None:
        self.pieces = list[int]()
        self._most = most

    def advance(self, amount: int) -> None:
        self.pieces.append(amount)
        if len(self.pieces) == self._most:
            raise Interrupted("the client disconnected")


def long_texts() -> tuple[list[Reply], list[References | Problem]]:
    """Replies of three systems to four items, each item with a reference of 20,000 characters."""
    references = [References.unweighted([f"{word} go " * 2_500, "we open at ten"]) for word in ("a b", "c d")]
    texts = ["we go " * 3_000, "a b", "we open"]
    return [None, *(text for text in texts for _ in references)], [references[0], *references * len(texts)]


@pytest.mark.parametrize("name", ["multi-bleu", "rouge-l", "chrf", "ter", "upsilon-rouge-l", "upsilon-chrf"])
def test_long_texts_are_scored_in_pieces_with_the_same_values(name: str) -> None:
    metric, (replies, references), counter = build(name), long_texts(), PieceCounter(most=100)
    found, problems = score_replies(metric, replies, references, counter)
    apart = [score_replies(metric, [one], [of])[0][0] for one, of in zip(replies, references, strict=True)]
    assert np.array_equal(found, np.array(apart), equal_nan=True)
    assert list(problems) == [row for row, statistics in enumerate(apart) if np.isnan(statistics).any()]
    assert sum(counter.pieces) == 6
    assert 2 <= len(counter.pieces) <= 6


def test_the_work_ends_after_the_piece_in_which_the_client_left() -> None:
    counter = PieceCounter(most=1)
    with pytest.raises(Interrupted):
        score_replies(build("chrf"), *long_texts(), counter)
    assert counter.pieces == [1]  # the reply of 18,000 characters to the first item


def test_explanations_can_be_ended_and_count_no_replies() -> None:
    counter = PieceCounter(most=2)
    with pytest.raises(Interrupted):
        leave_one_out(build("chrf"), *long_texts(), counter)
    assert counter.pieces == [0, 0]


def test_short_texts_are_one_piece_up_to_2000_replies() -> None:
    references, counter = References.unweighted(["a"]), PieceCounter(most=100)
    score_replies(build("multi-bleu"), ["b"] * 600, [references] * 600, counter)
    assert counter.pieces == [600]
    encoded = build("cider").for_set([references, references])
    score_replies(encoded, ["b"] * 4_100, [references] * 4_100, counter)
    assert counter.pieces[1:] == [782, 781, 437, 344, 781, 782, 93, 100]  # 64 units each


def test_replies_to_one_item_are_one_piece_without_a_look_at_their_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    metric, references = build("bleu"), References.unweighted(["it is warm today"])
    counts = list[int]()

    def reading_cost(_metric: Metric, lengths: Floats) -> Floats:
        counts.append(1)
        return lengths[1]

    monkeypatch.setattr(type(metric), "reading_cost", reading_cost)
    several, _ = score_replies(metric, ["it is", "it was cold"], [references, References.unweighted(["cold"])])
    assert counts == [1]
    alone, _ = score_replies(metric, ["it is", "it was warm"], [references] * 2)
    assert (counts, alone[0].tolist()) == ([1], several[0].tolist())
