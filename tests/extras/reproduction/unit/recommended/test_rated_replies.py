"""Rows of `reproduce recommended`: none rates a gold, and no gold is a copy of the reply."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from scipy import stats

from refaug.core.records import Item, Origin, Reference
from refaug.extras.reproduction.command import RECOMMENDED_SETS
from refaug.extras.reproduction.recommended import (
    SETS,
    FairRows,
    GroupedSets,
    attacks_on,
    drawn_references,
    other_contexts,
    partial_spearman,
    read_set,
    spearman,
)


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / "human" / f"{name}.jsonl.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))
    return folder


def row(reply: str, references: list[str], score: float | None = 3, equal: list[int] | None = None) -> dict[str, Any]:
    return {
        "context_id": 7,
        "context": ["how are you ?"],
        "references": references,
        "system": "s",
        "response": reply,
        "score": score,
        "response_in_references": equal or [],
    }


def test_the_parts_sets_are_those_that_are_read() -> None:
    assert sorted(RECOMMENDED_SETS) == list(SETS)


def test_a_row_that_rates_a_gold_or_has_none_left_is_no_row(tmp_path: Path) -> None:
    rows = [
        row("fine", ["fine", "well"], equal=[0]),
        row("well", ["fine", "well"], equal=[1]),
        row("Well !", ["fine", "well"]),
        row("so so", ["fine", "well"]),
        row("bad", ["bad"]),
        row("bad", ["fine"], score=None),
    ]
    found = read_set(written(tmp_path, "some", rows), "some")
    assert found.replies == ("well", "Well !", "so so")
    golds = [[gold.text for gold in found.items[number].references] for number in found.item.tolist()]
    assert golds == [["fine"], ["fine"], ["fine", "well"]]
    assert found.item.tolist() == [0, 0, 1]
    assert found.contexts == ("7", "7", "7")


def test_sets_that_never_had_golds_keep_their_rows(tmp_path: Path) -> None:
    found = read_set(written(tmp_path, "fed_turn", [row("fine", []), row("well", [])]), "fed_turn")
    assert found.replies == ("fine", "well")
    assert [item.references for item in found.items] == [()]


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────


def item(number: int, *retrieved: str) -> Item:
    found = tuple(Reference(text=text, source=Origin.RETRIEVED) for text in retrieved)
    return Item(id=str(number), turns=(f"turn {number}",), references=(Reference(text=f"gold {number}"), *found))


ITEMS = (item(0, "a", "b c"), item(1, "d e f", "g"), item(2, "h", "i"))


def texts_of(some: Item) -> list[str]:
    return [reference.text for reference in some.references]


def test_every_item_has_what_was_retrieved_for_another_one() -> None:
    changed = other_contexts(ITEMS, np.random.default_rng(1))
    assert [texts_of(one)[0] for one in changed] == ["gold 0", "gold 1", "gold 2"]
    own = [texts_of(one)[1:] for one in ITEMS]
    others = [texts_of(one)[1:] for one in changed]
    assert sorted(others) == sorted(own)
    assert all(mine != theirs for mine, theirs in zip(own, others, strict=True))


def test_drawn_references_have_as_many_words() -> None:
    texts = {1: ["x"], 2: ["x y"], 4: ["w x y z"]}
    changed = drawn_references(ITEMS, texts, np.random.default_rng(1))
    assert [texts_of(one)[1:] for one in changed] == [["x", "x y"], ["x", "x"], ["x", "x"]]  # of three words: shortest


# ── agreement ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def rated(name: str, parts: np.ndarray, people: np.ndarray) -> FairRows:
    rows = len(people)
    return FairRows(
        name=name,
        data="0",
        items=ITEMS,
        item=np.zeros(rows, dtype=np.int64),
        contexts=tuple(str(number // 3) for number in range(rows)),
        systems=("s", "t", "u") * (rows // 3),
        replies=tuple("w " * (1 + number % 4) for number in range(rows)),
        people=people,
        parts={"retrieved": parts[None]},
    )


def drawn_agreement() -> GroupedSets:
    """Two sets: the first part is what people say in one, the second part in the other."""
    random = np.random.default_rng(3)
    parts = [random.standard_normal((30, 2)) for _ in range(2)]
    sets = {name: rated(name, parts[number], parts[number][:, number]) for number, name in enumerate(("one", "two"))}
    return GroupedSets(sets=sets, groups={"One": ("one",), "Two": ("two",)}, draws=50, seed=1)


def test_correlations_are_those_of_scipy() -> None:
    first, second, lengths = np.random.default_rng(1).integers(0, 5, (3, 40)).astype(np.float64)
    r12, r13, r23 = (
        stats.spearmanr(*pair).statistic for pair in ((first, second), (first, lengths), (second, lengths))
    )
    assert np.isclose(spearman(first[None], second), r12)
    assert np.isclose(spearman(np.stack([first, lengths]), second), (r12 + r23) / 2)  # two seeds
    expected = (r12 - r13 * r23) / np.sqrt((1 - r13**2) * (1 - r23**2))
    assert np.isclose(partial_spearman(first[None], second, lengths), expected)
    assert np.isnan(partial_spearman(lengths[None], second, lengths))


def test_shares_are_chosen_by_the_other_groups_alone() -> None:
    agreement = drawn_agreement()
    scorer, chosen = agreement.best_out_of_fold(
        lambda own, shares: own.parts["retrieved"] @ np.array(shares), [(1, 0), (0, 1)]
    )
    assert chosen == {"One": (0, 1), "Two": (1, 0)}
    found = agreement.of(scorer)
    assert found.mean == np.mean([found.groups["One"], found.groups["Two"]])
    assert max(found.groups.values()) < 0.6


def test_a_lead_is_the_difference_of_means_within_its_interval() -> None:
    agreement = drawn_agreement()
    people, first = (lambda own: own.people[None]), (lambda own: own.parts["retrieved"][:, :, 0])
    lead = agreement.lead(people, first)
    assert lead.value is not None
    assert lead.value == pytest.approx(1 - agreement.of(first).mean)
    assert lead.low is not None
    assert lead.high is not None
    assert 0 < lead.low < lead.value < lead.high
    none = agreement.lead(first, first)
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_rows_of_a_system_are_left_out_with_their_parts() -> None:
    one = drawn_agreement().sets["one"]
    kept = one.without_system("t")
    assert set(kept.systems) == {"s", "u"}
    np.testing.assert_array_equal(kept.parts["retrieved"], one.parts["retrieved"][:, np.arange(30) % 3 != 1])


def test_attacks_say_nothing_of_their_own() -> None:
    some = [Item(id="1", turns=("before it", "one two three four five six"), references=ITEMS[0].references)]
    attacks = {name: replies[0] for name, replies in attacks_on(some, np.random.default_rng(1)).items()}
    assert attacks["echo without every fifth word"] == "one two three four six"
    assert attacks["echo of the turn before"] == "before it"
    assert attacks["long words of the last turn"] == "five four three"
    assert attacks["first retrieved"] == "gold 0" or attacks["first retrieved"] == "a"
    assert len(attacks) == 12
