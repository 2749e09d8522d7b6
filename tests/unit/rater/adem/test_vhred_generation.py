"""Replies that a VHRED writes, against plain numpy: greedy, by beam search, and sampled."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from vhreds import PlainVhred, tiny_vhred_network

from refaug.core.errors import Usage
from refaug.rater.adem.vhred.artefact import generate_replies
from refaug.rater.adem.vhred.network import VhredNetwork
from refaug.rater.adem.vhred.sizes import GenerationSettings

VOCABULARY = 9
END = VOCABULARY - 1
PIECES = range(2, END)
CONTEXTS = [[np.array([5, 7]), np.array([3])], [np.array([4])], [np.array([2, 2, 6])]]


def network(latent: int = 3) -> VhredNetwork:
    return tiny_vhred_network(vocabulary=VOCABULARY, latent=latent)


def condition(plain: PlainVhred, context: list[np.ndarray]) -> np.ndarray:
    states = plain.read([turn.tolist() for turn in context])
    parts = [states.contexts[-1], states.utterances[-1]]
    if plain.config.latent:
        parts.append(plain.prior(parts[0])[0])
    return np.concatenate(parts)


def next_logs(plain: PlainVhred, reply: list[int], of: np.ndarray) -> np.ndarray:
    """log p of every next piece, where padding and unknown are never written and an end never comes first."""
    logs = np.array([plain.log_likelihoods([*reply, piece], of)[len(reply)] for piece in range(VOCABULARY - 1)])
    logs = np.append(logs, plain.log_likelihoods(reply, of)[-1])
    logs[[0, 1] if reply else [0, 1, END]] = -np.inf
    return logs - np.log(np.exp(logs).sum())


@pytest.mark.parametrize("latent", [3, 0])
def test_greedy_replies_take_the_likeliest_piece_at_every_step(latent: int) -> None:
    model = network(latent)
    plain = PlainVhred(model)
    replies = generate_replies(model, CONTEXTS, GenerationSettings(max_tokens=4), [1, 2, 3])
    for reply, context in zip(replies, CONTEXTS, strict=True):
        expected, of = list[int](), condition(plain, context)
        while len(expected) < 4:
            piece = int(next_logs(plain, expected, of).argmax())
            if piece == END:
                break
            expected.append(piece)
        assert reply == expected


def test_a_wide_beam_finds_the_best_of_all_short_replies() -> None:
    model = network()
    plain = PlainVhred(model)
    settings = GenerationSettings(method="beam", beams=50, max_tokens=3)
    replies = generate_replies(model, CONTEXTS, settings, [1, 1, 1])
    for reply, context in zip(replies, CONTEXTS, strict=True):
        of = condition(plain, context)
        means = dict[tuple[int, ...], float]()
        for length in (1, 2):
            for pieces in product(PIECES, repeat=length):
                logs = [next_logs(plain, list(pieces[:at]), of)[piece] for at, piece in enumerate((*pieces, END))]
                means[pieces] = float(np.mean(logs))
        assert tuple(reply) == max(means, key=lambda pieces: means[pieces])


def test_a_beam_of_width_one_of_one_piece_is_the_likeliest_piece() -> None:
    model = network()
    beam = generate_replies(model, CONTEXTS, GenerationSettings(method="beam", beams=1, max_tokens=1), [1] * 3)
    greedy = generate_replies(model, CONTEXTS, GenerationSettings(max_tokens=1), [1] * 3)
    assert beam == greedy


def test_samples_follow_the_probabilities() -> None:
    model = network(latent=0)
    plain = PlainVhred(model)
    count = 3_000
    settings = GenerationSettings(method="sample", max_tokens=1)
    replies = generate_replies(model, [CONTEXTS[0]] * count, settings, list(range(count)))
    counts = np.bincount([reply[0] for reply in replies], minlength=VOCABULARY)
    expected = count * np.exp(next_logs(plain, [], condition(plain, CONTEXTS[0])))
    assert counts[[0, 1, END]].tolist() == [0, 0, 0]
    drawn = expected > 0
    chi_square = float(((counts[drawn] - expected[drawn]) ** 2 / expected[drawn]).sum())
    assert chi_square < 18.5  # the .995 quantile with 6 degrees of freedom


def test_samples_depend_on_their_seed_and_not_on_their_batch() -> None:
    model = network()
    settings = GenerationSettings(method="sample", max_tokens=6)
    together = generate_replies(model, CONTEXTS, settings, [11, 12, 13])
    alone = [
        generate_replies(model, [context], settings, [seed])[0]
        for context, seed in zip(CONTEXTS, (11, 12, 13), strict=True)
    ]
    assert together == alone
    again = [generate_replies(model, CONTEXTS, settings, [seed] * 3) for seed in range(20)]
    assert len({str(replies) for replies in again}) > 10


def test_sampling_from_the_likeliest_piece_is_greedy_without_a_latent_variable() -> None:
    model = network(latent=0)
    sampled = generate_replies(model, CONTEXTS, GenerationSettings(method="sample", top_k=1, max_tokens=5), [1, 2, 3])
    assert sampled == generate_replies(model, CONTEXTS, GenerationSettings(max_tokens=5), [1, 2, 3])


@pytest.mark.parametrize(
    "settings", [{"method": "best"}, {"beams": 0}, {"temperature": 0.0}, {"top_k": -1}, {"max_tokens": 1_000}]
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(Usage):
        GenerationSettings(**settings)  # type: ignore[arg-type]
