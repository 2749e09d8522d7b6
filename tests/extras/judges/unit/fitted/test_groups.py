"""Which rated sets are one group, and which rows are of one context; how the length of a reply is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.row_scores import values_of_rows
from refaug.agreement.rows import RatedRows
from refaug.core.progress import Silent
from refaug.extras.judges.combined import FitSettings, StoredJudge
from refaug.extras.judges.fitted.scoring import score_rows, unrated_rows
from refaug.extras.judges.fitted.training import RatedTable, fit_judge, table_of_sets
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build
from refaug.rater.adem.scorer.seen_texts import SeenTexts
from refaug.scoring.items import item_of
from refaug.scoring.settings import MetaSettings

CHRF = ComparedMetric(name="chrf", metric=build(Specification.parse("chrf")))


def rated_set(name: str, items: Sequence[dict[str, Any]]) -> RatedRows:
    read = [
        item_of({"replies": {"a": "yes", "b": "no"}, "ratings": {"a": [4], "b": [2]}, **fields}, fallback_id="")
        for fields in items
    ]
    return RatedRows.of(RatedItems(name=name, items=read), MetaSettings())


def groups_of(*sets: list[dict[str, Any]]) -> tuple[list[int], RatedTable]:
    """The group of each set, numbered in their order."""
    table = table_of_sets([rated_set(str(number), items) for number, items in enumerate(sets)], [CHRF], Silent())
    groups = [int(table.groups[table.sets == number][0]) for number in range(len(sets))]
    return [list(dict.fromkeys(groups)).index(group) for group in groups], table


TURNS = {"turns": ["Good morning.", "Coffee?"]}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({**TURNS, "references": ["Yes, please."]}, {**TURNS, "references": ["yes please"]}, [0, 0]),
        ({**TURNS, "references": ["Yes, please."]}, {**TURNS, "references": ["No."]}, [0, 0]),
        (
            {**TURNS, "references": ["Yes, please."]},
            {"turns": ["Good evening.", "Coffee?"], "references": ["No."]},
            [0, 1],
        ),
        ({"references": ["Yes, please."]}, {"references": ["yes please"]}, [0, 0]),
        (TURNS, {"turns": ["good morning", "coffee"]}, [0, 0]),
        (TURNS, {"turns": ["Good evening.", "Coffee?"]}, [0, 1]),
        ({}, {}, [0, 1]),
    ],
    ids=[
        "turn and gold",
        "another gold",
        "other turns and gold",
        "gold alone",
        "turns alone",
        "other turns",
        "neither",
    ],
)
def test_sets_are_one_group_where_they_share_a_context(
    first: dict[str, Any], second: dict[str, Any], expected: list[int]
) -> None:
    assert groups_of([{"id": "1", **first}], [{"id": "1", **second}])[0] == expected
    assert groups_of([{"id": "1", **first}], [{"id": "2", **second}])[0] == expected


def test_rows_of_one_context_are_one_however_their_items_are_named() -> None:
    _, table = groups_of([{"id": "1", **TURNS}, {"id": "2", **TURNS}, {"id": "3", "turns": ["Something else."]}])
    assert table.contexts.tolist() == [0, 0, 0, 0, 1, 1]


def test_contexts_are_one_through_a_third() -> None:
    evening = {"turns": ["Good evening.", "Coffee?"]}
    both = [{"id": "1", **TURNS}, {"id": "2", **evening}]
    groups, table = groups_of([{"id": "1", **TURNS}], [{"id": "1", **evening}], both)
    assert (groups, table.contexts.tolist()) == ([0, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1])
    gold = {"references": ["Yes, please."]}
    _, table = groups_of(
        [{"id": "1", **TURNS}, {"id": "2", **evening}, {"id": "3", **TURNS, **gold}], [{"id": "1", **evening, **gold}]
    )
    assert table.contexts.tolist() == [0] * 8


def test_lengths_are_counted_as_when_the_judge_was_fitted() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 30, 60).astype(np.float64)
    table = RatedTable(
        features=("chrf",),
        values=lengths[:, None] + rng.standard_normal((60, 1)),
        ratings=rng.standard_normal(60),
        lengths=lengths,
        sets=np.zeros(60, np.int64),
        groups=np.zeros(60, np.int64),
        contexts=np.arange(60),
    )
    judge = replace(fit_judge(table, FitSettings(method="equal", length="held")), length_tokenizer="char")
    stored = StoredJudge(
        spec="j@1#0",
        judge=judge,
        metrics=("chrf",),
        seen=SeenTexts(hashes=frozenset()),
        report={},
        signatures=(Signature.of(CHRF.metric).full,),
    )
    item = item_of({"id": "1", "references": ["of course"], "replies": {"a": "of course not"}}, fallback_id="")
    rows = unrated_rows("new", [item])
    [score] = score_rows(stored, rows, [CHRF], Silent()).scores
    value = values_of_rows(rows, CHRF, Silent())
    assert score == pytest.approx(judge.score(value[:, None], np.array([11.0]))[0])  # characters, and no words
    assert score != pytest.approx(judge.score(value[:, None], np.array([3.0]))[0])
