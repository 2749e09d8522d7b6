"""Replies as references of each other: whose weights they get, what they are scored to, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_bleu import PlainBleu, PlainReference
from raters import tiny_rater
from refusals import refusing
from sacrebleu.metrics import BLEU
from scipy import stats

from refaug.core.errors import BadInput
from refaug.core.progress import Silent
from refaug.core.records import Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import WordVectors
from refaug.extras.reproduction.experiments.weights import sets_with_rated_replies, weights_report
from refaug.extras.reproduction.figures.correlations import MEAN, IntervalEstimate, correlate
from refaug.extras.reproduction.figures.main_lines import CLAIMS, METRICS, OTHER_DIFFERENCES, SHARES, alike
from refaug.extras.reproduction.material.judged_replies import (
    CONDITIONS,
    PEOPLE,
    SHUFFLED_PEOPLE,
    SHUFFLED_RATED,
    WeightedSet,
    lines_by_condition,
    weight_agreement,
    weighted_scores,
)
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import GOLD, ONE, RATED, systems_of_the_log
from refaug.metrics.specification import build
from refaug.rater.rating import Rater, RatingRequest
from refaug.scoring.items import item_of

WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
WORDS += ["they", "to", "trees", "we", "what", "why", "yes", "you"]
SYSTEMS = ("a", "b", "c", "d", "e")


def texts_of(random: np.random.Generator, count: int) -> list[str]:
    """So many different texts."""
    found = dict[str, None]()
    while len(found) < count:
        found.setdefault(" ".join(random.choice(WORDS, random.integers(2, 7))))
    return list(found)


def invented(name: str = "set", contexts: int = 12, seed: int = 1, annotators: int = 3) -> ProofSet:
    """A set of five systems; one reply of the first item is its gold, two of the second are one text."""
    random = np.random.default_rng(seed)
    items = []
    for number in range(contexts):
        utterance, gold, second, *replies = texts_of(random, 3 + len(SYSTEMS))
        if number == 0:
            replies[4] = f"{gold.upper()}!"
        if number == 1:
            replies[3] = f"{replies[2]} ."
        items.append(
            item_of(
                {
                    "id": f"{name}-{number}",
                    "utterance": utterance,
                    "references": [gold, second],
                    "replies": dict(zip(SYSTEMS, replies, strict=True)),
                    "ratings": {system: random.integers(1, 6, annotators).tolist() for system in SYSTEMS},
                },
                fallback_id="",
            )
        )
    return ProofSet.of(name, items)


@pytest.fixture(scope="module")
def rater(tmp_path_factory: pytest.TempPathFactory) -> Rater:
    return tiny_rater(texts_of(np.random.default_rng(7), 300), tmp_path_factory.mktemp("rater"))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "glove"
    matrix = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    WordVectors(words=list(WORDS), matrix=matrix, stem="glove").save(folder, {"counts": [1] * len(WORDS)})
    return folder


@pytest.fixture(scope="module")
def judged(rater: Rater) -> WeightedSet:
    return WeightedSet.of(invented().with_first_gold(), rater)


# ── who is whose reference ────────────────────────────────────────────────────────────────────────────────────────


def test_reply_is_scored_against_other_texts_of_its_item_except_the_gold(
    judged: WeightedSet,
) -> None:
    one = judged.rated_set
    for row, reply in enumerate(one.replies):
        item = int(one.item[row])
        gold = normalise(one.items[item].references[0].text)
        mine = [normalise(text) for text in one.items[item].replies.values()]
        expected = {text for text in mine if text not in (normalise(reply), gold)}
        others = [normalise(judged.texts[item][place]) for place in judged.reference_places(row)]
        assert sorted(others) == sorted(expected)
    assert judged.place[4] == -1  # the gold itself, in capitals
    assert len(judged.reference_places(4)) == 4
    assert len(judged.reference_places(7)) == 3  # its twin is not its reference


def test_people_give_equal_texts_their_mean_rating_from_minus_one_to_one(judged: WeightedSet) -> None:
    one = judged.rated_set
    twins = [row for row in np.flatnonzero(one.item == 1) if one.systems[row] in ("c", "d")]
    assert judged.place[twins[0]] == judged.place[twins[1]]
    expected = (np.mean([one.by_annotator[row].mean() for row in twins]) - 3) / 2
    assert judged.people[1][judged.place[twins[0]]] == pytest.approx(expected)

    alone = int(np.flatnonzero(one.item == 2)[0])
    assert judged.people[2][judged.place[alone]] == pytest.approx((one.ratings[alone] - 3) / 2)


def test_the_rater_weighs_every_text_against_the_gold(judged: WeightedSet, rater: Rater) -> None:
    one = judged.rated_set
    for number, item in enumerate(one.items):
        asked = RatingRequest(
            utterance=str(item.utterance),
            golds=(item.references[0].text,),
            candidates=tuple(Reference(text=text) for text in judged.texts[number]),
        )
        assert judged.rated[number] == pytest.approx(rater.rate([asked])[0], abs=1e-5)


def test_weights_are_dealt_out_anew_among_the_references_of_each_row(judged: WeightedSet) -> None:
    differs = 0
    for row in range(len(judged.rated_set.replies)):
        for shuffled, own in ((SHUFFLED_PEOPLE, PEOPLE), (SHUFFLED_RATED, RATED)):
            dealt, given = judged.weights(shuffled, row, seed=3), judged.weights(own, row)
            assert sorted(dealt) == pytest.approx(sorted(given))
            assert np.array_equal(dealt, judged.weights(shuffled, row, seed=3))
            differs += not np.allclose(dealt, given)
    assert differs > len(judged.rated_set.replies)
    assert judged.weights(ONE, 0).tolist() == [1.0] * len(judged.reference_places(0))


def test_an_item_without_an_utterance_has_no_rated_weights_and_no_score(rater: Rater) -> None:
    one = invented().with_first_gold()
    silent = replace(one.items[3], turns=())
    judged = WeightedSet.of(replace(one, items=(*one.items[:3], silent, *one.items[4:])), rater)
    assert np.isnan(judged.rated[3]).all()
    scores = weighted_scores(judged, build("delta-bleu"), RATED)
    assert np.isnan(scores[one.item == 3]).all()
    assert np.isfinite(scores[one.item != 3]).all()
    assert np.isfinite(weighted_scores(judged, build("delta-bleu"), PEOPLE)).all()


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("smooth", "penalty"), [("add-k", "closest"), ("none", "none")])
def test_scores_are_those_of_delta_bleu_written_down_once_more(
    judged: WeightedSet, condition: str, smooth: str, penalty: str
) -> None:
    plain = PlainBleu(smooth=smooth, penalty=penalty)
    one, tokenizer = judged.rated_set, get_tokenizer("word")
    found = weighted_scores(judged, build(f"delta-bleu:smooth={smooth},bp={penalty}"), condition, seed=2)
    for row, reply in enumerate(one.replies):
        item = int(one.item[row])
        texts = [(one.items[item].references[0].text, 1.0)]
        if condition != GOLD:
            weights = judged.weights(condition, row, seed=2)
            texts += [
                (judged.texts[item][place], weight)
                for place, weight in zip(judged.reference_places(row), weights, strict=True)
            ]
        references = [
            PlainReference(tokens=tokenizer.tokenize(text), weight=weight, is_gold=place == 0)
            for place, (text, weight) in enumerate(texts)
        ]
        expected = plain.score(plain.sums(tokenizer.tokenize(reply), references), "reply")
        assert found[row] == pytest.approx(expected)


def test_with_every_weight_one_the_score_is_that_of_sacrebleu(judged: WeightedSet) -> None:
    one, tokenizer = judged.rated_set, get_tokenizer("word")
    bleu = BLEU(tokenize="none", smooth_method="exp", max_ngram_order=2, effective_order=True)
    found = weighted_scores(judged, build("delta-bleu"), ONE)
    for row, reply in enumerate(one.replies):
        item = int(one.item[row])
        texts = [
            one.items[item].references[0].text,
            *(judged.texts[item][at] for at in judged.reference_places(row)),
        ]
        tokens = [" ".join(tokenizer.tokenize(text)) for text in (reply, *texts)]
        assert found[row] == pytest.approx(bleu.sentence_score(tokens[0], tokens[1:]).score / 100)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_delta_bleu_and_upsilon_bleu_are_one_formula(judged: WeightedSet, condition: str) -> None:
    delta, upsilon = (weighted_scores(judged, build(name), condition) for name in ("delta-bleu", "upsilon-bleu"))
    assert np.array_equal(delta, upsilon)


def test_lines_have_a_row_for_every_seed_where_there_is_chance(judged: WeightedSet) -> None:
    lines = {line.name: line.scores["set"].shape for line in lines_by_condition([judged], build("delta-bleu"), seeds=3)}
    assert lines == {name: (3 if "shuffled" in name else 1, 60) for name in CONDITIONS}


# ── a rater that is as good as people ─────────────────────────────────────────────────────────────────────────────


def test_a_rater_who_gives_the_weights_of_people_reaches_all_of_their_gain(judged: WeightedSet) -> None:
    perfect = replace(judged, rated=judged.people)
    lines = lines_by_condition([perfect], build("delta-bleu:smooth=none,bp=none"), seeds=2)
    found = correlate([perfect.rated_set], lines, draws=50)
    assert found.difference(RATED, PEOPLE, "spearman").value == pytest.approx(0)
    assert alike([found.difference(RATED, PEOPLE, "spearman")]) == "alike"
    gain = {PEOPLE: 1.0, ONE: -1.0}
    if found.weighted_sum(gain, "spearman").value <= 0:  # type: ignore[operator]
        gain = {ONE: 1.0, PEOPLE: -1.0}
    share = found.ratio({RATED if name == PEOPLE else name: sign for name, sign in gain.items()}, gain, "spearman")
    assert share.value == pytest.approx(1)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(-0.05, 0.05, "alike"), (-0.07, 0.05, "not shown to be alike"), (None, None, "not shown to be alike")],
)
def test_two_lines_are_alike_only_where_the_whole_interval_is_near_nothing(
    low: float | None, high: float | None, said: str
) -> None:
    near = IntervalEstimate(value=0.0, low=-0.01, high=0.01)
    assert alike([near, IntervalEstimate(value=0.0, low=low, high=high)]) == said


# ── rated weights beside those by people ──────────────────────────────────────────────────────────────────────────


def settings_of(folder: Path, **given: Any) -> ProofSettings:
    return ProofSettings(data=folder, **{"draws": 40, "seeds": 2, **given})


def test_within_contexts_is_the_mean_of_their_correlations(judged: WeightedSet, tmp_path: Path) -> None:
    found = weight_agreement([judged], settings_of(tmp_path))
    by_hand = [
        stats.spearmanr(people, rated).statistic for people, rated in zip(judged.people, judged.rated, strict=True)
    ]
    figure = found.within(RATED, "set")
    assert figure.value == pytest.approx(np.mean(by_hand))
    assert figure.low < figure.value < figure.high  # type: ignore[operator]
    assert found.contexts == {"set": 12}


def test_over_all_replies_every_text_counts_once(judged: WeightedSet, tmp_path: Path) -> None:
    found = weight_agreement([judged], settings_of(tmp_path))
    # 12 items of 5 replies, of which one is the gold and two are twins
    assert found.whole.rows == {"set": 58}
    people, rated = np.concatenate(judged.people), np.concatenate(judged.rated)
    assert found.whole.estimate(RATED, "spearman", "set").value == pytest.approx(
        stats.spearmanr(people, rated).statistic
    )


def test_perfect_weights_correlate_at_one_and_shuffled_ones_less(judged: WeightedSet, tmp_path: Path) -> None:
    found = weight_agreement([replace(judged, rated=judged.people)], settings_of(tmp_path, seeds=5))
    assert found.within(RATED, MEAN).value == pytest.approx(1)
    less = found.within_less(RATED, SHUFFLED_RATED, "set")
    assert less.low is not None
    assert less.low > 0.3
    assert found.as_json()["within"][RATED]["set"]["value"] == 1


def test_two_sets_count_the_same_in_the_mean(rater: Rater, tmp_path: Path) -> None:
    both = [
        WeightedSet.of(invented(name, contexts, seed).with_first_gold(), rater)
        for name, contexts, seed in (("one", 6, 3), ("two", 15, 4))
    ]
    found = weight_agreement(both, settings_of(tmp_path))
    parts = [found.within(RATED, name).value for name in ("one", "two")]
    assert found.within(RATED, MEAN).value == pytest.approx(np.mean(parts))  # type: ignore[arg-type]


# ── which sets, which systems ─────────────────────────────────────────────────────────────────────────────────────


def rated_otherwise(ratings: Sequence[float]) -> ProofSet:
    one = invented("other")
    return replace(one, name="other", ratings=np.resize(np.array(ratings, dtype=np.float64), len(one.replies)))


def test_sets_that_cannot_be_used_are_named_with_the_reason() -> None:
    good = invented()
    silent = replace(good, name="silent", items=tuple(replace(item, turns=()) for item in good.items))
    alone = replace(good, name="alone").restricted_to(good.rows_where(lambda row: good.systems[row] == "a"))
    usable, gaps = sets_with_rated_replies([good, rated_otherwise([0, 7]), silent, alone])
    assert [one.name for one in usable] == ["set"]
    assert all(len(item.references) == 1 for item in usable[0].items)
    assert gaps == [
        "other is left out: its ratings are from 0 to 7, weights are made of ratings from 1 to 5",
        "silent is left out: no item has an utterance, so the rater cannot be asked",
        "alone is left out: no item has two rated replies beside the gold, so there is nothing to be a reference",
    ]


def test_without_any_set_that_can_be_used_there_is_an_error() -> None:
    with refusing(BadInput) as raised:
        sets_with_rated_replies([rated_otherwise([0, 7])])
    assert "from 1 to 5" in raised.value.remedy


def test_systems_of_the_log_have_two_in_three_replies_in_it() -> None:
    one = invented()
    numbers = dict.fromkeys(SYSTEMS, 0)
    standing = np.zeros(len(one.replies), dtype=np.bool_)
    for row, system in enumerate(one.systems):
        standing[row] = (system == "b" and numbers[system] < 8) or (system == "c" and numbers[system] < 7)
        numbers[system] += 1
    assert systems_of_the_log(one, standing) == ("b",)  # 8 of 12, and 7 of 12


# ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_report_has_every_metric_with_each_difference_share_and_control(
    rater: Rater, vectors: Path, tmp_path: Path
) -> None:
    sets = [invented("one", 12, 1).with_first_gold(), invented("two", 9, 2).with_first_gold()]
    standing = {one.name: one.rows_where(lambda row, one=one: one.systems[row] == "e") for one in sets}
    report = weights_report(sets, ["a gap"], rater, vectors, standing, settings_of(tmp_path), Silent())

    assert set(report.data["metrics"]) == set(METRICS)
    for name in METRICS:
        assert set(report.data["metrics"][name]["figures"]) == set(CONDITIONS)
        assert set(report.data["differences"][name]) == {*CLAIMS, *OTHER_DIFFERENCES}
        assert set(report.data["shares"][name]) == set(SHARES)
        for share in report.data["shares"][name].values():
            for figure in share["spearman"].values():
                assert "value" in figure or figure["why"] in (
                    "there is no gain that this could be a share of",
                    "not defined on these rows",  # a metric without smoothing may be 0 everywhere
                )
    assert report.data["systems_of_the_log"] == {"one": ["e"], "two": ["e"]}
    without = report.data["without_systems_of_the_log"]["ΔBLEU"]["figures"]
    assert without["rows"] == {"one": 48, "two": 36}
    assert report.data["references"]["one"] == {
        "rows": 59,
        "contexts": 12,
        "others": {"fewest": 3, "mean": round((4 * 3 + 5 * 3 + 10 * 5 * 4) / 59, 2), "most": 4},
    }
    assert "a gap" in report.notes
    said = " ".join(report.summary)
    assert (
        "Share of the gain of people's weights over weights of one that rated ones reach (Spearman, mean): ΔBLEU"
        in said
    )
    assert len([section for section in report.sections if section.plots]) == 1


def test_the_figures_of_the_report_are_those_of_the_lines(rater: Rater, vectors: Path, tmp_path: Path) -> None:
    one = invented().with_first_gold()
    standing = {"set": np.zeros(len(one.replies), dtype=np.bool_)}
    report = weights_report([one], [], rater, vectors, standing, settings_of(tmp_path), Silent())
    judged = WeightedSet.of(one, rater)
    scores = weighted_scores(judged, build("delta-bleu:bp=none"), PEOPLE)
    scores = scores.round(12)  # rounding must not break ties
    expected = stats.spearmanr(scores[one.fair], one.ratings[one.fair]).statistic
    figures = report.data["metrics"]["ΔBLEU without penalty"]["figures"]
    assert figures[PEOPLE]["spearman"]["set"]["value"] == pytest.approx(expected, abs=1e-4)
    assert report.data["without_systems_of_the_log"] == {}
    last = report.sections[-1]
    assert list(last.text) == ["Not measured: no system has 67% of its replies in the log."]


def test_equal_runs_give_equal_reports(rater: Rater, vectors: Path, tmp_path: Path) -> None:
    one = invented(contexts=5).with_first_gold()
    standing = {"set": np.zeros(len(one.replies), dtype=np.bool_)}
    first, second = (
        weights_report([one], [], rater, vectors, standing, settings_of(tmp_path), Silent()) for _ in range(2)
    )
    assert first.data == second.data
    assert list(first.summary) == list(second.summary)
