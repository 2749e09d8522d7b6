"""The cross rater's network over numpy's arrays: the equations of `refaug.rater.cross.model` for inference."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from refaug.rater.array_layers import Arrays, Floats, gelu, linear
from refaug.rater.cross.sequences import BASE, SEGMENTS, CrossConfig, SequenceBatch

_EPSILON = np.finfo(np.float32).eps  # of the norms, as torch has it by default


class ArrayCross:
    """Turns sequences into logits of the reply's place in the dialogue."""

    runtime = "numpy"

    def __init__(self, config: CrossConfig, arrays: Arrays) -> None:
        self.config, self._arrays = config, arrays
        self._table = np.concatenate([arrays["embedding.weight"], arrays["marks.weight"]])

    def logits(self, batch: SequenceBatch, threads: int) -> NDArray[np.float64]:  # noqa: ARG002  numpy has its own
        """Return a logit for each sequence of a batch."""
        states: Floats = self._table[batch.tokens] + self._arrays["segments.weight"][batch.segments]
        is_read = np.arange(batch.tokens.shape[1]) < batch.lengths[:, None]  # (sequences, time)
        hidden = np.where(is_read, np.float32(0), np.float32(-np.inf))[:, None, None]
        turn = self._turn(batch.tokens.shape[1])
        for number in range(self.config.layers):
            self._add_block(states, f"blocks.{number}.", hidden, turn)
        return self._judge(self._norm(states, "norm"), batch.segments, is_read)

    def _turn(self, time: int) -> tuple[Floats, Floats]:
        """Return cosines and sines (time, half of a head) of the angles by which a head's pairs are turned."""
        size = self.config.embedding // self.config.heads
        speeds = np.float32(BASE) ** -(np.arange(0, size, 2, dtype=np.float32) / np.float32(size))
        angles = np.arange(time, dtype=np.float32)[:, None] * speeds
        return np.cos(angles), np.sin(angles)

    def _norm(self, states: Floats, name: str) -> Floats:
        """Return states divided by the root of their mean square, and scaled."""
        size = np.sqrt(np.square(states).mean(axis=-1, keepdims=True) + _EPSILON)
        return np.asarray(states / size * self._arrays[f"{name}.weight"])

    def _add_block(self, states: Floats, name: str, hidden: Floats, turn: tuple[Floats, Floats]) -> None:
        """Add attention, then a feed-forward layer, to states (sequences, time, embedding)."""
        rows, time, size = states.shape
        parts = self._norm(states, f"{name}attention_norm") @ self._arrays[f"{name}together.weight"].T
        parts = parts.reshape(rows, time, 3, self.config.heads, size // self.config.heads)
        queries, keys, values = parts.transpose(2, 0, 3, 1, 4)  # each (sequences, heads, time, size of a head)
        likeness = _turned(queries, turn) @ _turned(keys, turn).swapaxes(2, 3)
        likeness *= np.float32(1 / math.sqrt(size // self.config.heads))
        likeness += hidden
        likeness -= likeness.max(axis=-1, keepdims=True)
        np.exp(likeness, out=likeness)
        likeness /= likeness.sum(axis=-1, keepdims=True)
        read = (likeness @ np.ascontiguousarray(values)).transpose(0, 2, 1, 3).reshape(rows, time, size)
        states += read @ self._arrays[f"{name}joined.weight"].T
        fed = gelu(linear(self._norm(states, f"{name}feed_norm"), self._arrays, f"{name}widen"))
        states += linear(fed, self._arrays, f"{name}narrow")

    def _judge(self, states: Floats, segments: NDArray[np.int64], is_read: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return logits of the first state and the segments' means, each scaled to one length."""
        means = list[Floats]()
        for segment in range(SEGMENTS):
            shares = ((segments == segment) & is_read).astype(np.float32)
            total = np.matmul(shares[:, None], states)[:, 0]
            means.append(self._norm(total / np.maximum(shares.sum(axis=1, keepdims=True), 1), "mean_norm"))
        turns, known, reply = means
        judged: Floats = np.concatenate([states[:, 0], turns, reply, turns * reply, known * reply], axis=1)
        return linear(gelu(linear(judged, self._arrays, "widen")), self._arrays, "last")[:, 0].astype(np.float64)


def _turned(states: Floats, turn: tuple[Floats, Floats]) -> Floats:
    """Turn the pairs of numbers (…, time, size), so that products know the distance."""
    first, second = np.split(states, 2, axis=-1)
    cosine, sine = turn
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
