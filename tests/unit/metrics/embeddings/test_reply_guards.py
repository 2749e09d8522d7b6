"""The guards of refaug-1: copied runs of words, and the order of words."""

from __future__ import annotations

import numpy as np
import pytest

from refaug.metrics.embeddings.reply_guards import ANY_ORDER, WordOrder, copied_share, excess


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        ("my bank card has expired", 1.0),
        ("my bank card", 1.0),
        ("oh my bank card too", 3 / 5),
        ("bank card", 0.0),
        ("my card has bank expired", 0.0),
        ("my bank card has expired so i said", 5 / 8),
        ("my bank card and card has expired", 6 / 7),
        ("i said so", 1.0),
        ("so i said my bank", 0.0),
        ("", 0.0),
    ],
)
def test_copied_words_stand_in_runs_of_three_of_one_turn(reply: str, share: float) -> None:
    turns = [["my", "bank", "card", "has", "expired"], ["i", "said", "so"]]
    assert copied_share(reply.split(), turns) == pytest.approx(share)
    assert copied_share(reply.split(), []) == 0


def test_word_order_tells_how_often_words_follow_each_other_beside_chance() -> None:
    replies = [text.split() for text in ("i like tea", "i like you", "you like tea", "tea")]
    order = WordOrder.of(replies)
    assert order.words == ("like", "tea", "i", "you")
    pairs = {("i", "like"): 2, ("like", "tea"): 2, ("like", "you"): 1, ("you", "like"): 1}
    before = {"i": 2, "like": 3, "you": 1}
    after = {"like": 3, "tea": 2, "you": 1}
    for first, word in enumerate(order.words, start=1):
        for second, following in enumerate(order.words, start=1):
            by_chance = before.get(word, 0) * after.get(following, 0) / 6
            known = np.log((pairs.get((word, following), 0) + 1) / (by_chance + 1))
            assert abs(order.logs[first, second] - known) <= 1 / 8
    known = order.logs[3, 1] + order.logs[1, 0]
    assert order.likelihood(["i", "like", "cats"]) == pytest.approx(known / 18)
    assert order.likelihood(["i"]) == order.likelihood([]) == 0
    assert ANY_ORDER.likelihood(["i", "like", "cats"]) == 0


def test_word_order_is_read_as_it_was_stored() -> None:
    order = WordOrder.of([f"w{number % 7} w{number % 3} x".split() for number in range(400)])
    stored = order.stored()
    again = WordOrder.read(stored["words"], stored["logs"])
    assert again.words == order.words
    assert again.logs.tolist() == order.logs.tolist()
    with pytest.raises(ValueError, match="reshape"):
        WordOrder.read("one two", stored["logs"])
    with pytest.raises(ValueError, match="base64"):  # of what is another alphabet
        WordOrder.read(stored["words"], "?AAA")


def test_excess_is_what_is_above_a_limit() -> None:
    assert excess(np.array([0.1, 0.5, 0.7]), 0.5).tolist() == pytest.approx([0, 0, 0.2])
