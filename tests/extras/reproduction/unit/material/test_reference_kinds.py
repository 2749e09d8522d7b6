"""Kinds of further references: how many, which, with what weights; and the scores against them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.records import Item, Reference
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import (
    Pool,
    ReplySample,
    line_of,
    scores_of,
)
from refaug.metrics.base import References
from refaug.metrics.specification import build
from refaug.scoring.items import item_of

LOG = ("a", "b", "c d", "e f", "g h i", "j k l m n")


def augmented(name: str, retrieved: list[tuple[str, float]]) -> Item:
    references: list[Any] = ["the gold"]
    references.append({"text": "what now", "source": "parrot", "weight": 0.9})
    references += [
        {"text": text, "source": "retrieved", "similarity": 0.5, "rating": weight, "weight": weight}
        for text, weight in retrieved
    ]
    return item_of({"id": name, "utterance": "what now", "references": references}, fallback_id=name)


@pytest.fixture
def pool() -> Pool:
    first = [("r one", 0.5), ("r", -0.2), ("r t u v", 0.9), ("w", 0.1)]
    return Pool.of([augmented("x", first), augmented("y", [("s t", 0.3)])], ReplySample.of(LOG))


def texts(some: tuple[Reference, ...]) -> list[str]:
    return [one.text for one in some]


def weights(some: tuple[Reference, ...]) -> list[float | None]:
    return [one.weight for one in some]


def test_every_kind_has_as_many_references_of_each_item(pool: Pool) -> None:
    for kind in ("random", "matched", "shuffled", "one", "rated"):
        assert [len(one) for one in pool.extras(kind, k=3)] == [4, 2]
        assert [len(one) for one in pool.extras(kind, k=3, parrot=False)] == [3, 1]
    assert pool.extras("gold") == ((), ())
    assert [texts(one) for one in pool.extras("parrot", parrot=False)] == [["what now"], ["what now"]]


def test_retrieved_ones_come_in_order_rated_or_worth_one(pool: Pool) -> None:
    rated, one = pool.extras("rated", k=3)[0], pool.extras("one", k=3)[0]

    assert texts(rated) == texts(one) == ["what now", "r one", "r", "r t u v"]
    assert weights(rated) == [0.9, 0.5, -0.2, 0.9]
    assert weights(one) == [1, 1, 1, 1]


def test_shuffled_weights_are_the_same_ones_dealt_out_anew(pool: Pool) -> None:
    orders = set()
    for seed in range(20):
        [parrot, *dealt] = pool.extras("shuffled", k=4, seed=seed)[0]
        assert parrot.weight == 0.9
        assert [one.text for one in dealt] == ["r one", "r", "r t u v", "w"]
        assert Counter(one.weight for one in dealt) == Counter([0.5, -0.2, 0.9, 0.1])
        orders.add(tuple(one.weight for one in dealt))
    assert len(orders) > 5


def test_matched_replies_are_as_long_and_random_ones_are_not(pool: Pool) -> None:
    lengths = {text: len(text.split()) for text in LOG}
    drawn = Counter[str]()
    for seed in range(40):
        [_, *matched] = texts(pool.extras("matched", k=4, seed=seed)[0])
        assert [lengths[text] for text in matched] in ([2, 1, 3, 1], [2, 1, 5, 1])  # of four words there is none
        assert lengths[matched[2]] == 3  # three and five are as near; the shorter is taken
        drawn.update(texts(pool.extras("random", k=4, seed=seed)[0])[1:])
    assert set(drawn) == set(LOG)


def test_equal_seeds_draw_equally(pool: Pool) -> None:
    assert pool.extras("random", seed=3) == pool.extras("random", seed=3)
    assert pool.extras("random", seed=3) != pool.extras("random", seed=4)


def test_nothing_to_draw_from_is_an_error() -> None:
    with refusing(BadInput):
        ReplySample.of(["", "  "])


def rated_set() -> ProofSet:
    item = item_of(
        {
            "id": "x",
            "utterance": "what now",
            "references": ["the gold"],
            "replies": {"s": "r t u w", "t": "r one", "u": "the gold"},
            "ratings": {"s": [1], "t": [2], "u": [5]},
        },
        fallback_id="x",
    )
    return ProofSet.of("some", [item])


def test_scores_are_the_metrics_and_a_reply_is_never_its_own_reference(pool: Pool) -> None:
    one, metric = rated_set(), build("upsilon-bleu:bp=none")
    extras = (pool.extras("one", k=3, parrot=False)[0],)

    found = scores_of(one, metric, extras)

    def score(reply: str, *references: str) -> float:
        prepared = metric.prepare([References.unweighted(["the gold", *references])])
        rows = metric.statistics([reply], prepared, np.array([0]), np.array([0]))
        return float(metric.values(rows, "reply")[0])  # type: ignore[arg-type]

    assert found.tolist() == [
        score("r t u w", "r one", "r", "r t u v"),
        score("r one", "r", "r t u v"),
        score("the gold", "r one", "r", "r t u v"),
    ]


def test_a_metric_of_the_gold_does_not_see_further_references(pool: Pool) -> None:
    one = rated_set()

    assert scores_of(one, build("bleu"), (pool.retrieved[0],)).tolist() == scores_of(one, build("bleu")).tolist()
    turned = scores_of(one, build("ter"))
    assert turned[2] == 0  # the gold itself: no edit
    assert turned[0] < 0


def test_a_line_has_a_row_of_scores_for_each_seed(pool: Pool) -> None:
    one = rated_set()
    line = line_of(
        "x", [one], build("upsilon-bleu"), lambda _one, seed: (pool.extras("random", k=3, seed=seed)[0],), seeds=4
    )

    assert line.scores["some"].shape == (4, 3)
    expected = scores_of(one, build("upsilon-bleu"), (pool.extras("random", k=3, seed=2)[0],))
    assert line.scores["some"][2].tolist() == expected.tolist()


# ── Japanese ──────────────────────────────────────────────────────────────────────────────────────────────────────

TALK = (
    "はい。",
    "駅前の市場で買えますよ！",
    "ﾃﾞﾊﾟｰﾄの近くだと思います。",
    "ありませんでした（笑）",
    "おばが港の古い店で買っています😊",
)


def test_japanese_controls_are_as_long_in_mecab_words_as_what_was_found() -> None:
    mecab = get_tokenizer("mecab")
    retrieved = ["いいえ。", "図書館の隣で買えますよ！", "港の近くだと思います。"]
    drawn = ReplySample.of(TALK)
    pool = Pool.of([augmented("x", [(text, 0.5) for text in retrieved])], drawn)

    lengths = {text: len(mecab.tokenize(text)) for text in TALK}
    assert drawn.tokenizer == "mecab"
    assert {one: [TALK[at] for at in places] for one, places in drawn.by_length.items()} == {
        length: [text for text in TALK if lengths[text] == length] for length in set(lengths.values())
    }
    assert len(set(lengths.values())) > 2
    assert pool.lengths == (tuple(len(mecab.tokenize(text)) for text in retrieved),)
    for found, text in zip(texts(pool.extras("matched", k=3, parrot=False)[0]), retrieved, strict=True):
        wanted = len(mecab.tokenize(text))
        assert abs(lengths[found] - wanted) == min(abs(length - wanted) for length in lengths.values())


def test_found_references_are_measured_with_the_tokenizer_of_drawn_ones() -> None:
    pool = Pool.of([augmented("x", [("one two", 0.5)])], ReplySample.of(TALK))

    assert pool.lengths == ((2,),)
    assert Pool.of([augmented("x", [("はい、そうです。", 0.5)])], ReplySample.of(LOG)).lengths == (
        (len(get_tokenizer("word").tokenize("はい、そうです。")),),
    )
