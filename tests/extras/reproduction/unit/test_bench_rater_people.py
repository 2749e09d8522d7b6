"""How the rater's benchmark compares ratings with people's: shared words, rows, golds, systems that are left out."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from refaug.agreement.meta import agreement
from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.row_scores import score_set
from refaug.agreement.rows import RatedRows
from refaug.core.progress import Silent
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build
from refaug.scoring.cases import score_replies
from refaug.scoring.items import item_of
from refaug.scoring.settings import MetaSettings

BENCH = Path(__file__).resolve().parents[4] / "bench"
WORDS = ("the", "bus", "stops", "here", "at", "noon", "by", "kiosk", "sells", "tickets", "a", "driver")


@pytest.fixture(scope="module")
def people() -> Iterator[ModuleType]:
    """The module of the benchmark, which is in no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield import_module("rater_people")


def test_words_in_common_count_by_their_rarity_in_the_texts_given(people: ModuleType) -> None:
    texts = [["the bus", "the kiosk"], ["The driver, the driver", "a bus"]]
    metric = people.IdfOverlap(people.Idf.of("texts", texts))
    idf = {"the": math.log(5 / 4), "bus": math.log(5 / 3), "driver": math.log(5 / 2), "tea": math.log(5 / 1)}
    references = References.unweighted(["the driver", "bus"])
    replies = ["the bus", "bus bus", "tea", "", "the driver the"]
    found = metric.values(score_replies(metric, replies, [references] * len(replies))[0], Level.REPLY)
    with_first = idf["the"] / (idf["the"] + idf["bus"] + idf["driver"])
    with_second = idf["bus"] / (idf["the"] + idf["bus"])
    assert found.tolist() == pytest.approx([max(with_first, with_second), 1, 0, 0, 1])


ROWS = [
    {"context_id": "one", "context": ["Hi.", "Is it far?"], "references": ["Two stops.", "No."], "system": "a",
     "response": "Two stops, I think.", "scores": [5, 4], "score": 4.5},
    {"context_id": "two", "context": ["Where?"], "references": ["Here."], "system": "a", "response": "There.",
     "score": 3.5},
    {"context_id": "one", "context": ["Hi.", "Is it far?"], "references": ["Two stops.", "No."], "system": "b",
     "response": "No.", "scores": [1, 2], "score": 1.5},
]  # fmt: skip


def test_rated_sets_become_items_by_context_and_may_keep_one_gold(people: ModuleType, tmp_path: Path) -> None:
    for name in people.SETS:
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    sets = people.read_sets(tmp_path)
    assert list(sets) == ["dailydialog_gupta", "dailydialog_zhao"]
    one, two = sets["dailydialog_zhao"]
    assert (one.id, two.id) == ("one", "two")
    assert one.turns == ("Hi.", "Is it far?")
    assert [reference.text for reference in one.references] == ["Two stops.", "No."]
    assert one.replies == {"a": "Two stops, I think.", "b": "No."}
    assert one.ratings == {"a": (5, 4), "b": (1, 2)}
    assert two.ratings == {"a": (3.5,)}
    first = people.with_first_gold(one)
    assert [reference.text for reference in first.references] == ["Two stops."]
    assert first.replies == one.replies


def items() -> list[Any]:
    """Twenty contexts with replies of three systems, rated at random."""
    rng = np.random.default_rng(7)

    def text() -> str:
        return " ".join(rng.choice(WORDS, rng.integers(2, 8)))

    return [
        item_of(
            {
                "turns": [text()],
                "references": [text(), text()],
                "replies": {system: text() for system in "abc"},
                "ratings": {system: [int(rng.integers(1, 6))] for system in "abc"},
            },
            fallback_id=f"{number}",
        )
        for number in range(20)
    ]


def test_figures_are_those_of_agreement_and_differences_compare_ratings(people: ModuleType) -> None:
    rated_items = items()
    idf = people.Idf.of("golds", [[one.text for item in rated_items for one in item.references]])
    stand_ins = {"rating": build("chrf"), "rating_mean": build("rouge-l"), "rating_max": build("bleu")}
    metrics = [ComparedMetric(name=name, metric=metric) for name, metric in stand_ins.items()]
    metrics.append(ComparedMetric(name="idf_overlap", metric=people.IdfOverlap(idf)))
    names = [*(one.name for one in metrics), "length"]
    scored = score_set(RatedRows.of(RatedItems(name="set", items=rated_items), MetaSettings()), metrics, Silent())
    rated = people.rows_without(scored, range(len(names)), None)
    found = people.agreement_of([rated], names, draws=200)
    expected = agreement(
        [RatedItems(name="set", items=rated_items)], metrics, MetaSettings(draws=200), baseline="idf_overlap"
    ).sets[0]
    for row in expected.rows:
        shown = found["spearman"][row.name]
        assert [shown[key] for key in ("value", "low", "high")] == [
            round(one, 4) for one in (row.spearman.value, row.spearman.low, row.spearman.high) if one is not None
        ]
        if row.name in stand_ins:
            difference = row.differences["spearman"]
            assert difference.value is not None
            assert found["differences"][row.name]["idf_overlap"]["value"] == round(difference.value, 4)
            assert found["differences"][row.name]["idf_overlap"]["p"] == round(difference.p or 0, 4)
            assert list(found["differences"][row.name]) == ["length", "idf_overlap"]


def test_rows_of_a_left_out_system_are_not_compared_and_others_stay(people: ModuleType) -> None:
    metrics = [ComparedMetric(name="chrf", metric=build("chrf"))]
    scored = score_set(RatedRows.of(RatedItems(name="set", items=items()), MetaSettings()), metrics, Silent())
    every, fewer = (people.rows_without(scored, [0], system) for system in (None, "b"))
    kept = [place for place, system in enumerate(scored.points.systems) if system != "b"]
    assert (len(every.ratings), len(fewer.ratings)) == (60, 40)
    np.testing.assert_array_equal(fewer.scores, every.scores[:, kept])
    np.testing.assert_array_equal(fewer.ratings, every.ratings[kept])
    np.testing.assert_array_equal(fewer.clusters, every.clusters[kept])
