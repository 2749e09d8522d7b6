"""Sets that share a source or contexts are one group; their contexts have the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from refaug.extras.reproduction.figures.correlations import MEAN, Line, correlate
from refaug.extras.reproduction.material.rated_sets import (
    ProofSet,
    SetGroup,
    context_keys,
    context_numbers,
    groups_of,
)
from refaug.metrics.statistics.resampling import count_blocks
from refaug.scoring.items import item_of


def some_set(name: str, contexts: list[tuple[str, str]], seed: int = 0) -> ProofSet:
    """Two systems reply to each utterance; its gold may be missing."""
    random = np.random.default_rng(seed)
    items: list[Any] = []
    for number, (utterance, gold) in enumerate(contexts):
        fields = {
            "id": f"{name}{number}",
            "utterance": utterance,
            "references": [gold] if gold else [],
            "replies": {"a": f"first {number}", "b": f"second {number}"},
            "ratings": {"a": [float(random.normal())], "b": [float(random.normal())]},
        }
        items.append(item_of(fields, fallback_id="x"))
    return ProofSet.of(name, items)


def pairs(name: str, count: int) -> list[tuple[str, str]]:
    return [(f"{name} asks {number}", f"{name} answers {number}") for number in range(count)]


def test_sets_of_one_corpus_are_one_group_and_others_stand_alone() -> None:
    names = ("dailydialog_gupta", "grade_empatheticdialogues", "holistic_dailydialog", "mine")
    sets = [some_set(name, pairs(name, 2)) for name in names]

    assert groups_of(sets) == (
        SetGroup(name="DailyDialog", sets=("dailydialog_gupta", "holistic_dailydialog")),
        SetGroup(name="grade_empatheticdialogues", sets=("grade_empatheticdialogues",)),
        SetGroup(name="mine", sets=("mine",)),
    )


def test_a_shared_context_links_sets_and_a_third_set_links_two() -> None:
    first, second, third = pairs("x", 3), pairs("y", 3), pairs("z", 3)
    sets = [some_set("a", first), some_set("b", second), some_set("c", third), some_set("d", pairs("w", 3))]
    bridge = some_set("e", [("X asks 1!", "x answers 1"), ("z asks 2", "z answers 2")])

    assert [group.sets for group in groups_of(sets)] == [("a",), ("b",), ("c",), ("d",)]
    linked = groups_of([*sets, bridge])
    assert [group.sets for group in linked] == [("a", "c", "e"), ("b",), ("d",)]
    assert linked[0].name == "a + c + e"


def test_an_utterance_with_another_gold_is_another_context() -> None:
    sets = [some_set("a", [("hi", "hello")]), some_set("b", [("hi", "good morning")])]
    sets.append(some_set("c", [("hi", ""), ("who", "me")]))
    numbers = context_numbers(sets)

    assert [own.tolist() for own in numbers.values()] == [[0], [1], [2, 3]]
    assert len(groups_of(sets)) == 3


def test_alike_items_of_one_set_stay_apart() -> None:
    once, twice = some_set("a", [("u", "g")]), some_set("b", [("u", "g"), ("u", "g")])

    assert context_keys(twice) == [("u", "g", "1"), ("u", "g", "2")]
    assert [own.tolist() for own in context_numbers([once, twice]).values()] == [[0], [0, 1]]


def test_contexts_of_a_group_are_drawn_together_and_groups_count_the_same() -> None:
    shared = pairs("s", 6)
    sets = [
        some_set("a", [*shared, *pairs("x", 4)], seed=1),
        some_set("b", [*shared, *pairs("y", 5)], seed=2),
        some_set("c", pairs("z", 8), seed=3),
    ]
    random = np.random.default_rng(4)
    scores = {one.name: np.round(one.ratings + random.normal(size=len(one.replies)), 1)[None] for one in sets}

    found = correlate(sets, [Line(name="x", scores=scores)], draws=30, seed=7, kinds=("spearman",))

    assert found.scopes == ("a", "b", "c", "a + b", MEAN)
    contexts = {"a": [*range(6), 6, 7, 8, 9], "b": [*range(6), 10, 11, 12, 13, 14]}
    [together] = count_blocks(15, 30, [7, 0])
    [alone] = count_blocks(8, 30, [7, 1])
    counts = {"a": together[:, contexts["a"]], "b": together[:, contexts["b"]], "c": alone}
    drawn = {}
    for one in sets:
        rows = [np.repeat(np.arange(len(one.replies)), draw[one.item].astype(int)) for draw in counts[one.name]]
        drawn[one.name] = [
            stats.spearmanr(scores[one.name][0][places], one.ratings[places]).statistic for places in rows
        ]
        np.testing.assert_allclose(found.drawn["spearman", one.name][0], drawn[one.name], atol=1e-9)
    group = (np.array(drawn["a"]) + drawn["b"]) / 2
    np.testing.assert_allclose(found.drawn["spearman", "a + b"][0], group, atol=1e-9)
    np.testing.assert_allclose(found.drawn["spearman", MEAN][0], (group + drawn["c"]) / 2, atol=1e-9)
    assert found.as_json(("spearman",))["groups"] == {"a + b": ["a", "b"], "c": ["c"]}


def test_tables_have_groups_instead_of_many_sets() -> None:
    names = ("dailydialog_gupta", "dailydialog_zhao", "grade_dailydialog", "grade_empatheticdialogues")
    sets = [some_set(name, pairs(name, 4), seed) for seed, name in enumerate(names)]
    line = Line(name="x", scores={one.name: one.ratings[None] for one in sets})

    def scopes(count: int) -> tuple[str, ...]:
        return correlate(sets[-count:], [line], draws=2, kinds=("spearman",)).table_scopes

    assert scopes(1) == ("grade_empatheticdialogues",)
    assert scopes(2) == ("grade_dailydialog", "grade_empatheticdialogues", MEAN)
    assert scopes(3) == (*names[1:], "DailyDialog", MEAN)
    assert scopes(4) == ("DailyDialog", "grade_empatheticdialogues", MEAN)
