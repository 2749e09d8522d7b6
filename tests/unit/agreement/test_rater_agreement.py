"""A rater beside people: figures against scipy on ratings asked for one by one, counts, and what is left out."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from raters import tiny_model
from refusals import refusing
from scipy import stats

from refaug.agreement.rater_agreement import RaterEvaluation, RaterEvaluationSettings, evaluate_rater
from refaug.agreement.records import RatedItems
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, Reference
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.agreement import RatedSet, mean_over_sets
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import COMBINES, RatingSettings
from refaug.scoring.items import BadItem, item_of

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "i", "like", "no", "red", "the", "they", "we", "yes"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 7)) for number in range(300)})
SPEC = "tiny@1#0123456789ab"
FEW = 60
CLOSE = 1e-5


@pytest.fixture(scope="module")
def rater(tmp_path_factory: pytest.TempPathFactory) -> Rater:
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.model"
    train_sentencepiece(TEXTS, path, TokenizerTraining(vocab_size=100, at_most=True))
    tokenizer = open_sentencepiece(path)
    model = tiny_model(tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)  # until it has opinions
    return NNRater(model, tokenizer, temperature=2.5, spec=SPEC)


def item(number: int, *, with_replies: bool = True, with_references: bool = True, **more: Any) -> Item:
    """One or two golds, and rated replies, rated references, or both; some references answered another utterance."""
    drawn = random.Random(number)
    first, second, *golds = drawn.sample(TEXTS, 3 + number % 2)  # no reference is a gold
    said = [
        {"text": first, "ratings": [drawn.randint(1, 5), drawn.randint(1, 5)]},
        {"text": second, "weight": round(drawn.uniform(-1, 1), 2), "utterance": drawn.choice(TEXTS)},
    ]
    values: dict[str, Any] = {"id": f"i{number}", "utterance": drawn.choice(TEXTS)}
    values["references"] = [*golds, *(said if with_references else [])]
    if with_replies:
        values["replies"] = {"a": drawn.choice(TEXTS) + " indeed", "b": drawn.choice(TEXTS) + " well"}
        values["ratings"] = {name: [drawn.randint(1, 5), drawn.randint(1, 5)] for name in ("a", "b")}
    values |= more
    return item_of({name: value for name, value in values.items() if value is not None}, fallback_id="x")


ITEMS = [item(number) for number in range(25)]


def found(
    rater: Rater, *sets: Sequence[Item | BadItem], combines: tuple[str, ...] = COMBINES, **more: Any
) -> RaterEvaluation:
    named = [RatedItems(name=f"set{number}", items=items) for number, items in enumerate(sets, start=1)]
    return evaluate_rater(rater, named, RaterEvaluationSettings(combines=combines, draws=FEW, **more))


def rating(rater: Rater, one: Item, text: str, answered: str | None, combine: str, cal: str = "raw") -> float:
    """One gold at a time."""
    wanted = RatingSettings(combine=combine, calibrated=cal == "cal")  # type: ignore[arg-type]
    ratings = [
        rater.rate(
            [
                RatingRequest(
                    utterance=one.utterance or "",
                    golds=(gold.text,),
                    candidates=(Reference(text=text, utterance=answered),),
                )
            ],
            wanted,
        )[0][0]
        for gold in one.references
        if gold.source == "gold"
    ]
    return sum(ratings) / len(ratings)


def rated_references(items: Sequence[Item]) -> list[tuple[Item, str, str | None, float]]:
    return [
        (one, each.text, each.utterance, each.weight)
        for one in items
        for each in one.references
        if each.weight is not None
    ]


def of_references(rater: Rater, items: Sequence[Item], combine: str, cal: str = "raw") -> list[float]:
    return [rating(rater, one, text, answered, combine, cal) for one, text, answered, _ in rated_references(items)]


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("calibration", ["raw", "cal"])
def test_of_replies_the_figures_are_those_of_ratings_asked_for_one_by_one(rater: Rater, calibration: Any) -> None:
    result = found(rater, ITEMS, calibration=calibration)
    assert result.replies is not None
    (one,) = result.replies.sets
    people = [np.mean([each for each in given if each is not None]) for of in ITEMS for given in of.ratings.values()]
    for row, combine in zip(one.rows, COMBINES, strict=False):
        values = [rating(rater, of, reply, None, combine, calibration) for of in ITEMS for reply in of.replies.values()]
        assert one.points.values[row.name] == pytest.approx(values, abs=CLOSE)
        assert row.spearman.value == pytest.approx(stats.spearmanr(values, people).statistic, abs=0.01)
        assert row.pearson.value == pytest.approx(stats.pearsonr(values, people).statistic, abs=1e-4)
    assert [row.name for row in one.rows[len(COMBINES) :]] == ["length", "human"]
    assert [row.is_baseline for row in one.rows[:3]] == [True, False, False]
    signed = one.signatures[one.rows[1].name]
    assert signed.settings == {
        "target": "reply",
        "combine": COMBINES[1],
        "cal": calibration,
        "turns": "1",
        "refs": "golds",
        "model": SPEC,
    }
    assert Signature.parse(signed.full) == signed


def test_reference_figures_equal_those_of_ratings_made_one_by_one(rater: Rater) -> None:
    result = found(rater, ITEMS, confidence=0.9)
    (one,) = result.references
    rows = rated_references(ITEMS)
    people = np.array([weight for *_, weight in rows])
    tokens = get_tokenizer("word").tokenize_batch([text for _, text, _, _ in rows])
    scores = np.array([*(of_references(rater, ITEMS, combine) for combine in COMBINES), [len(each) for each in tokens]])
    contexts = np.repeat(np.arange(len(ITEMS)), 2)
    drawn = mean_over_sets([RatedSet(scores, people, contexts)], draws=FEW, seed=1, baseline=0, level=0.9)
    assert [row.name for row in one.rows] == [*COMBINES, "length"]
    for place, row in enumerate(one.rows):
        assert row.spearman.value == pytest.approx(stats.spearmanr(scores[place], people).statistic, abs=0.01)
        assert row.pearson.value == pytest.approx(stats.pearsonr(scores[place], people).statistic, abs=1e-4)
        expected = drawn.by_kind["pearson"][place]
        assert row.pearson.low == pytest.approx(expected.correlation.low, abs=1e-4)
        assert row.pearson.high == pytest.approx(expected.correlation.high, abs=1e-4)
        assert set(row.differences) == (set() if place == 0 else {"spearman", "pearson"})
        if expected.difference is not None:
            assert row.differences["pearson"].value == pytest.approx(expected.difference.value, abs=1e-4)
    assert (one.used, one.items, one.rated) == (50, 25, 50)


def test_over_several_sets_every_set_counts_the_same(rater: Rater) -> None:
    first, second = ITEMS[:18], ITEMS[18:]
    result = found(rater, first, second, combines=("mean", "first"))
    assert result.replies is not None
    assert result.replies.mean is not None
    assert [one.name for one in result.references] == ["set1", "set2"]
    for place, row in enumerate(result.mean):
        values = [one.rows[place].spearman.value for one in result.references]
        assert row.spearman.value == pytest.approx(np.mean([value for value in values if value is not None]))
    assert [row.name for row in result.mean] == ["mean", "first", "length"]
    assert found(rater, first).mean == ()


# ── what is compared ──────────────────────────────────────────────────────────────────────────────────────────────


def test_each_question_is_asked_where_a_set_has_what_it_needs(rater: Rater) -> None:
    replies = [item(number, with_references=False) for number in range(6)]
    references = [item(number, with_replies=False) for number in range(6)]
    neither = [item(number, with_replies=False, with_references=False) for number in range(6)]
    one = found(rater, replies)
    assert one.replies is not None
    assert (one.references, one.warnings) == ((), ())
    other = found(rater, references)
    assert other.replies is None
    assert len(other.references) == 1
    both = found(rater, replies, references, neither)
    assert both.replies is not None
    assert [each.name for each in both.replies.sets] == ["set1"]
    assert [each.name for each in both.references] == ["set2"]
    assert both.warnings == ("set3: nothing in it was rated by people, or can be rated by a rater",)


@pytest.mark.parametrize(
    "items",
    [
        [item(0, with_replies=False, with_references=False)],
        [item(0, utterance=None)],
        [item(0, utterance=" ")],
        [item(0, references=[{"text": "only rated", "weight": 1}])],
        [item(0, replies={"a": "yes"}, references=["gold"], ratings={"a": [None]})],
    ],
    ids=["nothing rated", "no utterance", "a blank utterance", "no gold", "no number"],
)
def test_nothing_to_compare_with_is_an_error_with_a_remedy(rater: Rater, items: list[Item]) -> None:
    with refusing(BadInput, SPEC) as raised:
        found(rater, items)
    assert '"ratings"' in raised.value.remedy


def test_references_that_cannot_be_compared_are_counted(rater: Rater) -> None:
    rated = [{"text": "Yes !", "weight": 0.9}, {"text": " ", "weight": 1}, {"text": "we fly", "weight": -0.1}]
    items = [
        item(1, with_replies=False, references=["yes", *rated]),
        item(2, with_replies=False, utterance=None),
        item(3, with_replies=False, references=[{"text": "found", "source": "retrieved", "weight": 1}, "a gold"]),
        item(4, with_replies=False, references=rated),
    ]
    result = found(rater, items)
    (one,) = result.references
    assert (one.rated, one.unusable, one.golds_themselves, one.used, one.items) == (6, 4, 1, 1, 1)
    assert "set1: 4 rated references are of items without an utterance or a gold: left out" in result.warnings
    assert one.rows[0].spearman.value is None
    assert one.rows[0].spearman.why == "fewer than 3 rows"


def test_replies_without_a_rating_are_warned_of_once_for_all_combinations(rater: Rater) -> None:
    items = [
        *(item(number, with_references=False) for number in range(5)),
        item(9, with_references=False, utterance=None),
    ]
    result = found(rater, items)
    assert result.warnings == ("set1: the rater has no rating for 2 replies (no_utterance)",)


def test_bad_items_are_handed_on_once_whatever_is_asked(rater: Rater) -> None:
    bad = BadItem(file="f", line=3, item=None, field="", message="it is not JSON")
    assert found(rater, [*ITEMS[:5], bad]).bad_items == (bad,)


def test_data_name_changes_with_everything_rated_and_nothing_else(rater: Rater) -> None:
    def data(**more: Any) -> str:
        values = {"references": ["a gold", {"text": "we fly", "weight": 0.5}], "utterance": "how", **more}
        (one,) = found(rater, [item(1, with_replies=False, **values)], combines=("first",)).references
        return one.data

    other = {"text": "we fly", "weight": 0.5, "utterance": "then"}
    names = [
        data(),
        data(utterance="why"),
        data(id="other"),
        data(references=["gold", {"text": "we fly", "weight": 0.5}]),
        data(references=["a gold", {"text": "we fly", "weight": 0.4}]),
        data(references=["a gold", {"text": "they fly", "weight": 0.5}]),
        data(references=["a gold", other]),
    ]
    assert len(set(names)) == len(names)
    assert data(turns=["before", "how"]) == names[0]


def test_the_document_has_everything_and_is_json(rater: Rater) -> None:
    result = found(rater, ITEMS[:6], ITEMS[6:12], combines=("max",))
    document = json.loads(orjson.dumps(result.as_json()))
    assert document["rater"] == SPEC
    assert document["settings"] == {
        "combines": ["max"],
        "calibration": "raw",
        "draws": FEW,
        "seed": 1,
        "confidence": 0.95,
    }
    assert document["replies"]["metrics"][0]["name"] == "rater:combine=max"
    assert document["references"]["sets"][0]["counts"] == {
        "rated": 12,
        "unusable": 0,
        "golds_themselves": 0,
        "used": 12,
        "items": 6,
    }
    assert [row["name"] for row in document["references"]["mean"]] == ["max", "length"]
    assert result.references[0].data == document["references"]["sets"][0]["data"]
    without = replace(result, replies=None, references=(), mean=()).as_json()
    assert (without["replies"], without["references"]) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"combines": ()}, "no way to combine"),
        ({"combines": ("first", "first")}, "named twice"),
        ({"combines": ("median",)}, "median"),
        ({"calibration": "yes"}, "yes"),
        ({"draws": 0}, "draws: 0 is out of range"),
        ({"confidence": 1.0}, "confidence: 1 is out of range"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any], told: str) -> None:
    with refusing(Usage, told):
        RaterEvaluationSettings(**wrong)
