"""Hidden pieces of replies: log p against the equations one place after another, and what a rater cannot do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from crosses import SHAPE, Array, read_plainly, tiny_cross
from refusals import refusing
from vhreds import tiny_vhred

from refaug.core.errors import BadInput
from refaug.rater.cross.checkpoint import CrossRater
from refaug.rater.cross.hidden_pieces import HiddenPieces
from refaug.rater.cross.masked import hidden_log_likelihoods
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.sequences import MASK, REPLY_SEGMENT, Pieces, SequenceBatch
from refaug.rater.rating import Rater

ROWS = [
    Pieces(turns=[[5, 6, 7]], known=None, reply=[9, 4, 8]),
    Pieces(turns=[[3], [11, 12, 5, 6]], known=None, reply=[7]),
    Pieces(turns=[[2, 2, 4]], known=None, reply=[1, 6, 1, 10, 12]),
]


def plainly(model: CrossNetwork, batch: SequenceBatch, row: int) -> Array:
    """log p of each known piece of a reply, by softmax over all pieces, each hidden in a copy of the sequence."""
    logs = []
    table = model.embedding.weight.detach().double().numpy()
    for place in range(int(batch.lengths[row])):
        piece = int(batch.tokens[row, place])
        if batch.segments[row, place] != REPLY_SEGMENT or not 2 <= piece < SHAPE.vocabulary:
            continue
        tokens = batch.tokens.copy()
        tokens[row, place] = SHAPE.vocabulary + MASK
        logits = read_plainly(model, batch._replace(tokens=tokens), row)[place] @ table.T / np.sqrt(table.shape[1])
        logs.append(logits[piece] - np.log(np.exp(logits).sum()))
    return np.array(logs)


def test_a_piece_has_its_probability_where_it_alone_is_hidden() -> None:
    model, batch = tiny_cross(), SHAPE.batch(ROWS)
    before = batch.tokens.copy()
    ours = hidden_log_likelihoods(model, batch, 1)
    assert [len(logs) for logs in ours] == [3, 1, 3]  # unknown pieces are not predicted
    for row, logs in enumerate(ours):
        assert logs == pytest.approx(plainly(model, batch, row), abs=1e-5)
    assert (batch.tokens == before).all()


def test_batches_change_nothing() -> None:
    model = tiny_cross()
    together = hidden_log_likelihoods(model, SHAPE.batch(ROWS * 60), 1)  # several batches
    for row, alone in enumerate(ROWS):
        assert together[row + 3 * 59] == pytest.approx(
            hidden_log_likelihoods(model, SHAPE.batch([alone]), 1)[0], abs=1e-5
        )


def test_a_reply_of_unknown_pieces_has_no_probability() -> None:
    unknown = Pieces(turns=[[5]], known=None, reply=[1, 1])
    assert hidden_log_likelihoods(tiny_cross(), SHAPE.batch([unknown]), 1)[0].tolist() == [-np.inf]


def test_equal_replies_after_equal_turns_tie_and_the_order_of_turns_counts(tmp_path: Path) -> None:
    tokenizer = tiny_vhred(tmp_path).tokenizer
    rater = CrossRater(tiny_cross(vocabulary=tokenizer.vocab_size), tokenizer, spec="tiny@1#abc")
    pieces = HiddenPieces(rater, least=-20.0)
    turns = "we see the old map\nyou buy warm bread"
    first, again = pieces.mean_log_likelihoods([(turns, "i want green tea")] * 2)
    assert first == again
    [other] = pieces.mean_log_likelihoods([("you buy warm bread\nwe see the old map", "i want green tea")])
    assert other != first
    [logs] = rater.hidden_log_likelihoods([(turns, "i want green tea")])
    assert first == pytest.approx(logs.mean(), abs=1e-6)
    middle = float(np.sort(logs)[1])
    [counted] = HiddenPieces(rater, least=middle).mean_log_likelihoods([(turns, "i want green tea")])
    assert counted == pytest.approx(np.maximum(logs, middle).mean(), abs=1e-6) != pytest.approx(first, abs=1e-6)
    assert (pieces.spec, pieces.turn_separator) == ("tiny@1#abc", "\n")


def test_a_rater_of_another_network_predicts_no_pieces() -> None:
    class Other(Rater):
        def _batch_probabilities(self, triplets, temperature):
            return np.full(len(triplets), 0.5)

    with refusing(BadInput, "other@1#abc"):
        HiddenPieces(Other(spec="other@1#abc"), least=-20.0)
