"""Sequences: what stands where, and what is left out of texts that are too long."""

from __future__ import annotations

from refaug.rater.cross.sequences import KNOWN, REPLY, START, TURN, Pieces, SequenceShape

V = 100
SHAPE = SequenceShape(vocabulary=V, max_tokens=16)


def test_turns_known_response_and_reply_stand_in_order() -> None:
    tokens, segments = SHAPE.sequence(Pieces(turns=[[2], [3, 4]], known=[5], reply=[6, 7]))
    assert tokens == [V + START, 2, V + TURN, 3, 4, V + KNOWN, 5, V + REPLY, 6, 7]
    assert segments == [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]


def test_without_a_known_response_its_mark_is_left_out() -> None:
    tokens, segments = SHAPE.sequence(Pieces(turns=[[2]], known=None, reply=[6]))
    assert tokens == [V + START, 2, V + REPLY, 6]
    assert segments == [0, 0, 2, 2]


def test_texts_lose_their_ends_and_dialogues_their_beginnings() -> None:
    long = list(range(10, 20))
    tokens, _ = SHAPE.sequence(Pieces(turns=[[2, 3, 4], long, long], known=None, reply=long))
    assert tokens == [V + START, *long[:4], V + TURN, *long[:4], V + REPLY, *long[:4]]


def test_only_the_last_three_turns_are_read() -> None:
    tokens, _ = SHAPE.sequence(Pieces(turns=[[2], [3], [4], [5]], known=None, reply=[6]))
    assert tokens == [V + START, 3, V + TURN, 4, V + TURN, 5, V + REPLY, 6]


def test_an_empty_text_is_one_unknown_piece() -> None:
    tokens, _ = SHAPE.sequence(Pieces(turns=[[2]], known=[], reply=[]))
    assert tokens == [V + START, 2, V + KNOWN, 1, V + REPLY, 1]


def test_a_batch_is_padded_behind_the_ends() -> None:
    batch = SHAPE.batch([Pieces([[2]], None, [3]), Pieces([[2, 3]], [4], [5])])
    assert batch.lengths.tolist() == [4, 7]
    assert batch.tokens[0].tolist() == [V + START, 2, V + REPLY, 3, 0, 0, 0]
    assert batch.segments[0].tolist() == [0, 0, 2, 2, 0, 0, 0]
