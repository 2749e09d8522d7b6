"""The NN-rater's network over numpy's arrays: the equations of `refaug.rater.nn.model` for inference."""

from __future__ import annotations

import numpy as np

from refaug.rater.array_layers import Arrays, Floats, linear, sigmoid
from refaug.rater.nn.sizes import JUDGED_AT_ONCE, NEGATIVE, PAIRS, POSITIVE, TEXTS, RaterConfig
from refaug.rater.rating import Probabilities
from refaug.rater.text_encoding import Ids


class ArrayBiGRU:
    """Turns texts into vectors, and triplets of vectors into probabilities."""

    runtime = "numpy"

    def __init__(self, config: RaterConfig, arrays: Arrays) -> None:
        self.config, self._arrays = config, arrays
        self._recall = {  # (hidden, 3 * hidden), in the order in which a product reads it
            direction: np.ascontiguousarray(arrays[f"reader.weight_hh_l0{direction}"].T)
            for direction in ("", "_reverse")
        }

    def text_vectors(self, tokens: Ids, lengths: Ids, threads: int) -> Floats:  # noqa: ARG002  numpy has its own
        """Return vectors (texts, 2 * hidden) of tokens (texts, time), the longest text first.

        What a piece adds to the gates is computed once, however often it occurs.
        """
        pieces, places = np.unique(tokens, return_inverse=True)
        places, steps = places.reshape(tokens.shape), np.arange(tokens.shape[1])
        embedded = self._arrays["embedding.weight"][pieces]
        from_end = np.take_along_axis(places, np.maximum(lengths[:, None] - 1 - steps, 0), axis=1)
        active = (lengths > steps[:, None]).sum(axis=1)  # texts with a piece at a step
        return np.concatenate(
            [
                self._last_states(direction, embedded, ordered, active.tolist())
                for direction, ordered in (("", places), ("_reverse", from_end))
            ],
            axis=1,
        )

    def _last_states(self, direction: str, embedded: Floats, places: Ids, active: list[int]) -> Floats:
        """Return the last state of one direction, (texts, hidden), of places (texts, time) among embedded pieces."""
        size, recall = self.config.hidden, self._recall[direction]
        added = embedded @ self._arrays[f"reader.weight_ih_l0{direction}"].T  # (pieces, 3 * hidden)
        added += self._arrays[f"reader.bias_ih_l0{direction}"]
        state_bias = self._arrays[f"reader.bias_hh_l0{direction}"]
        state = np.zeros((len(places), size), np.float32)
        for step, count in enumerate(active):
            gates, own = added[places[:count, step]], state[:count]  # reset, update, new
            recalled = own @ recall
            recalled += state_bias
            gates[:, : 2 * size] += recalled[:, : 2 * size]
            both = sigmoid(gates[:, : 2 * size])
            recalled[:, 2 * size :] *= both[:, :size]
            gates[:, 2 * size :] += recalled[:, 2 * size :]
            new = np.tanh(gates[:, 2 * size :])
            own -= new
            own *= both[:, size:]
            own += new
        return state

    def probabilities(self, vectors: Floats, rows: Ids, temperature: float, threads: int) -> Probabilities:  # noqa: ARG002
        """Return P(positive) of triplets given as rows of `vectors`."""
        logits = np.concatenate(
            [self._logits(vectors, rows[at : at + JUDGED_AT_ONCE]) for at in range(0, len(rows), JUDGED_AT_ONCE)]
        ).astype(np.float64)
        return np.asarray(1 / (1 + np.exp((logits[:, NEGATIVE] - logits[:, POSITIVE]) / temperature)))

    def _logits(self, vectors: Floats, rows: Ids) -> Floats:
        texts = [vectors[rows[:, place]] for place in range(TEXTS)]
        products = [texts[left] * texts[right] for left, right in PAIRS] if self.config.features == "products" else []
        state: Floats = np.concatenate([*texts, *products], axis=1)  # (triplets, judged size)
        for layer in range(self.config.layers):
            state = np.maximum(linear(state, self._arrays, f"hidden.{layer}"), 0)
        return linear(state, self._arrays, "last")
