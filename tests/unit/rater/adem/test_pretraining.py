"""Pre-training a VHRED: windows, the bound against plain numpy, its gradients, and a training that resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refusing
from vhreds import SIZES, VOCABULARY, PlainVhred, plain_divergence, tiny_vhred_network

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.logs.pairs import text_key
from refaug.rater.adem.pretraining.build import (
    Noise,
    PretrainingTask,
    bound_terms,
    discrimination,
    draw_noise,
    kl_weight,
    report_of,
    unigram_nll,
)
from refaug.rater.adem.pretraining.dialogues import (
    CodedDialogues,
    DialogueWindows,
    ExcludedTexts,
    WindowBatch,
    WindowSettings,
    cut_windows,
    require_both_sides,
    require_dialogues,
)
from refaug.rater.adem.vhred.artefact import piece_log_likelihoods
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig
from refaug.rater.training.loop import TrainConfig, run

END = VOCABULARY - 1
TOPICS = 6


def coded(dialogues: list[list[list[int]]]) -> CodedDialogues:
    turns = [turn for dialogue in dialogues for turn in dialogue]
    return CodedDialogues(
        pieces=np.array([piece for turn in turns for piece in turn], np.uint16),
        start=np.cumsum([0, *map(len, turns)], dtype=np.int64),
        first=np.cumsum([0, *map(len, dialogues)], dtype=np.int64),
        keys=np.arange(len(dialogues), dtype=np.uint64),
    )


def chatter(count: int = 300, seed: int = 1) -> CodedDialogues:
    """Dialogues of two to four turns about one topic, whose pieces stand in every turn."""
    rng = np.random.default_rng(seed)
    dialogues = [
        [[2 + topic, *(8 + rng.integers(0, 20, rng.integers(1, 3))).tolist()] for _ in range(int(rng.integers(2, 5)))]
        for topic in rng.integers(0, TOPICS, count).tolist()
    ]
    return coded(dialogues)


def sides(corpus: CodedDialogues, **settings: Any) -> tuple[DialogueWindows, DialogueWindows]:
    defaults = {"batch": 20, "steps": 60, "round_steps": 10, "validation_share": 0.2, "turns": 2}
    chosen = WindowSettings(**{**defaults, **settings})
    train, validation = (DialogueWindows(corpus, chosen, is_validation=side, end=END) for side in (False, True))
    return train, validation


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_dialogue_is_cut_into_windows_that_share_a_turn() -> None:
    windows = cut_windows(np.array([0, 2, 10, 14]), 3, None)
    assert list(zip(windows.first.tolist(), windows.turns.tolist(), strict=True)) == [
        *[(0, 2)],
        *[(2, 4), (5, 4), (8, 2)],
        *[(10, 4)],
    ]


def test_every_turn_but_the_first_follows_a_context_in_every_pass() -> None:
    first = np.array([0, 9, 11, 40])
    for seed in range(20):
        windows = cut_windows(first, 3, np.random.default_rng(seed))
        assert windows.turns.max() <= 4
        assert windows.turns.min() >= 2
        answered = [
            turn
            for begin, turns in zip(windows.first.tolist(), windows.turns.tolist(), strict=True)
            for turn in range(begin + 1, begin + turns)
        ]
        assert sorted(answered) == [turn for turn in range(40) if turn not in first]


def test_batches_are_those_of_their_step_however_a_round_begins() -> None:
    train, _ = sides(chatter())
    whole = [batch.turns.targets.tolist() for number in (1, 2, 3) for batch in train.batches(number)]
    later = [batch.turns.targets.tolist() for batch in train.batches(3, skip=4)]
    assert whole[24:] == later
    assert len({str(batch) for batch in whole}) == 30


def test_held_out_dialogues_are_never_trained_on() -> None:
    corpus = chatter()
    train, validation = sides(corpus)
    held_out = corpus.held_out(0.2, 1)
    assert (train.dialogue_count, validation.dialogue_count) == ((~held_out).sum(), held_out.sum())
    firsts = set(corpus.first[:-1][held_out].tolist())
    sampled = validation.sample(10_000)
    of_dialogue = np.searchsorted(corpus.first, sampled.first, side="right") - 1
    assert {int(corpus.first[at]) for at in of_dialogue} == firsts


def test_words_are_dropped_from_inputs_only_and_by_the_share() -> None:
    train, _ = sides(chatter(), word_drop=0.5)
    batch = next(iter(train.batches(1)))
    inputs = np.concatenate([[0], batch.turns.pieces])[batch.turns.inputs]
    words = inputs[batch.turns.inputs > 0]
    assert 0.35 < (words == 1).mean() < 0.65
    assert 1 not in batch.turns.targets


# ── the bound ────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain_terms(network: VhredNetwork, batch: WindowBatch, dialogues: list[list[list[int]]], noise: Any) -> Any:
    """Losses by turn and divergences of every turn, from the equations, in the order of the dialogues."""
    plain, losses, divergences = PlainVhred(network), list[float](), list[float]()
    row_of = np.argsort(batch.turns.order)
    for dialogue in dialogues:
        states = plain.read(dialogue)
        for number, turn in enumerate(dialogue):
            parts = [states.contexts[number], states.utterances[number]]
            if noise.turns is None:
                divergences.append(0.0)
            else:
                before = plain.prior(parts[0])
                after = plain.posterior(parts[0], states.utterances[number + 1])
                divergences.append(plain_divergence(after, before))
                parts.append(after[0] + np.sqrt(after[1]) * noise.turns[row_of[len(divergences) - 1]].numpy())
            losses.append(-plain.log_likelihoods(turn, np.concatenate(parts)).sum())
    return np.array(losses), np.array(divergences)


@pytest.mark.parametrize("latent", [3, 0])
def test_the_bound_is_that_of_the_equations(latent: int) -> None:
    network = tiny_vhred_network(latent=latent)
    corpus = chatter(12)
    windows = DialogueWindows(corpus, WindowSettings(validation_share=0.5, turns=3), is_validation=True, end=END)
    (batch,) = windows.batches(0)
    noise = draw_noise(network, batch, 1, "cpu")
    with torch.inference_mode():
        terms = bound_terms(network, batch, noise, "cpu")
    chosen = windows.sample(100)
    lengths = corpus.start[chosen.first + chosen.turns] - corpus.start[chosen.first]
    chosen = chosen.take(np.argsort(lengths, kind="stable"))
    dialogues = [
        [turn.tolist() for turn in windows.turns_of(first, turns)]
        for first, turns in zip(chosen.first.tolist(), chosen.turns.tolist(), strict=True)
    ]
    losses, divergences = plain_terms(network, batch, dialogues, noise)
    by_turn = np.bincount(batch.turns.rows, weights=terms.losses.double().numpy())
    assert by_turn == pytest.approx(losses[batch.turns.order], abs=1e-4)
    assert terms.divergences.numpy() == pytest.approx(divergences[batch.turns.order], rel=1e-4, abs=1e-4)
    assert float(terms.cost(0.5, 4)) == pytest.approx((losses.sum() + 0.5 * divergences.sum()) / 4, rel=1e-5)


def test_the_cost_has_the_gradients_of_differences() -> None:
    network = tiny_vhred_network(vocabulary=VOCABULARY, embedding=2, utterance=2, context=2, latent=1, decoder=2)
    network = network.double()
    windows = DialogueWindows(
        coded([[[2, 9], [3]], [[4], [5, 10], [6]]]),
        WindowSettings(validation_share=0.99, turns=2),
        is_validation=True,
        end=END,
    )
    (batch,) = windows.batches(0)
    drawn = torch.randn(len(batch.before), 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    noise = Noise(drawn, None)
    terms = bound_terms(network, batch, noise, "cpu")
    terms.cost(0.7, 2).backward()
    generator, step = np.random.default_rng(1), 1e-5
    for parameter in network.parameters():
        assert parameter.grad is not None
        flat, gradients = parameter.data.view(-1), parameter.grad.view(-1)
        at = int(generator.integers(len(flat)))
        costs = []
        for change in (step, -2 * step):
            flat[at] += change
            with torch.no_grad():
                costs.append(float(bound_terms(network, batch, noise, "cpu").cost(0.7, 2)))
        flat[at] += step
        assert float(gradients[at]) == pytest.approx((costs[0] - costs[1]) / (2 * step), rel=1e-3, abs=1e-5)


def test_mixed_precision_keeps_cells_and_latent_variable_in_single_precision() -> None:
    network = tiny_vhred_network()
    assert network.latent is not None
    batch = next(iter(sides(chatter())[0].batches(1)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = network.read(batch.dialogues)
        contexts, utterances = states.contexts.flatten(0, 1)[batch.before], states.utterances.flatten(0, 1)
        prior = network.latent.prior(contexts)
        posterior = network.latent.posterior(contexts, utterances[batch.before + 1], prior)
        logits = network.decode(batch.turns, network.condition(contexts, utterances[batch.before], posterior.mean))
    assert states.contexts.dtype == posterior.mean.dtype == torch.float32
    assert logits.dtype == torch.bfloat16
    with torch.inference_mode():
        exact = network.read(batch.dialogues)
    assert torch.allclose(states.contexts, exact.contexts, atol=0.2)
    logits.float().sum().backward()


def test_the_divergence_counts_more_from_step_to_step() -> None:
    assert [kl_weight(step, 4) for step in (0, 1, 4, 9)] == [0.0, 0.25, 1.0, 1.0]
    assert kl_weight(0, 0) == 1.0


def test_a_new_network_has_no_divergence() -> None:
    network = new_vhred(VhredConfig(vocabulary=VOCABULARY, **SIZES), 1, None)
    batch = next(iter(sides(chatter())[0].batches(1)))
    with torch.inference_mode():
        terms = bound_terms(network, batch, draw_noise(network, batch, 1, "cpu"), "cpu")
    assert float(terms.divergences.abs().max()) < 1e-6


def test_likelihoods_of_replies_are_those_of_the_equations() -> None:
    network = tiny_vhred_network()
    contexts = [[np.array([5, 9]), np.array([3])], [], [np.array([7])]]
    replies = [np.array([4]), np.array([8, 8, 10]), np.array([2, 3])]
    plain = PlainVhred(network)
    for logs, context, reply in zip(piece_log_likelihoods(network, contexts, replies), contexts, replies, strict=True):
        states = plain.read([turn.tolist() for turn in context])
        last = states.contexts[-1]
        condition = np.concatenate([last, states.utterances[-1], plain.prior(last)[0]])
        assert logs == pytest.approx(plain.log_likelihoods(reply.tolist(), condition), abs=1e-5)


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def course(
    folder: Path, stop: int | None = None, latent: int = 3, **settings: Any
) -> tuple[VhredNetwork, DialogueWindows, DialogueWindows, Any]:
    """Train a tiny network, stopped after some batches."""
    train, validation = sides(chatter(), **settings)
    network = new_vhred(VhredConfig(vocabulary=VOCABULARY, **{**SIZES, "latent": latent}), 1, None)
    config = TrainConfig(epochs=train.settings.rounds, learning_rate=0.02, clip_norm=1.0, save_every=3, patience=9)
    seen = 0

    def on_now(_status: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            raise KeyboardInterrupt

    task = PretrainingTask(network, train, validation, 20, "cpu")
    return network, train, validation, run(task, config, folder, Silent(), on_now)


def test_a_resumed_training_ends_like_an_unbroken_one_to_the_last_bit(tmp_path: Path) -> None:
    whole, *_ = course(tmp_path / "whole", steps=30)
    with pytest.raises(KeyboardInterrupt):
        course(tmp_path / "stopped", stop=17, steps=30)
    resumed, *_ = course(tmp_path / "stopped", steps=30)
    expected, weights = whole.state_dict(), resumed.state_dict()
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


@pytest.mark.slow
@pytest.mark.parametrize("latent", [3, 0])
def test_a_training_learns_what_contexts_say_of_replies(tmp_path: Path, latent: int) -> None:
    network, train, validation, trained = course(tmp_path, steps=200, latent=latent)
    report = report_of(network, trained, train, validation)
    assert report["nll_with_context"] < report["nll_without_context"] - 0.3
    assert report["nll"] < report["unigram_nll"] - 0.3
    assert report["discrimination"] > 0.7
    assert report["latent"] == ("none" if latent == 0 else "collapsed" if report["kl"] < 0.1 else "used")
    assert report["kl"] == pytest.approx(0.0) if latent == 0 else report["kl"] >= 0
    assert report["validation_loss"] == pytest.approx(min(each["validation_loss"] for each in report["epochs"]))


def test_an_untrained_network_tells_no_contexts_apart() -> None:
    network = new_vhred(VhredConfig(vocabulary=VOCABULARY, **SIZES), 1, 0.01)
    _, validation = sides(chatter())
    assert 0.3 < discrimination(network, validation) < 0.7


def test_the_unigram_model_is_that_of_counted_pieces() -> None:
    corpus = chatter(40)
    train, validation = sides(corpus)
    held_out = corpus.held_out(0.2, 1)
    counts = np.ones(VOCABULARY)
    for dialogue in np.flatnonzero(~held_out):
        for turn in range(corpus.first[dialogue], corpus.first[dialogue + 1]):
            counts[[*corpus.turn(turn).tolist(), END]] += 0
            for piece in (*corpus.turn(turn).tolist(), END):
                counts[piece] += 1
    targets = np.concatenate([batch.turns.targets for batch in validation.batches(0)])
    assert unigram_nll(train, validation, VOCABULARY) == pytest.approx(
        -np.log(counts / counts.sum())[targets].mean(), abs=1e-9
    )


# ── what must not be seen ────────────────────────────────────────────────────────────────────────────────────────────


def keys(*texts: str) -> np.ndarray:
    return np.array([text_key(normalise(text)) for text in texts], np.uint64)


def test_excluded_are_evaluated_pairs_and_long_last_turns() -> None:
    replied = Item(
        id="1",
        turns=("hello", "why not?"),
        references=(Reference(text="because I said so."),),
        replies={"bot": "never mind"},
    )
    long = Item(id="2", turns=("where did you put the map?",))
    unspaced = Item(id="3", turns=("昨日の夜はどこにいましたか",))
    excluded = ExcludedTexts.of([replied, long, unspaced])
    before = keys("Why not", "why not", "why not", "hello")
    after = keys("because i said so", "never mind", "of course", "because i said so")
    assert excluded.holds_pairs(before, after).tolist() == [True, True, False, False]
    assert excluded.holds_turns(keys("why not", "Where did you put the map")).tolist() == [False, True]
    assert excluded.holds_turns(keys("昨日の夜はどこにいましたか。")).tolist() == [True]
    assert excluded.holds_pairs(keys("hi"), keys("where did you put the map")).tolist() == [True]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"dialogues": 150, "excluded": 70, "longest": 4}, "150"),
        ({"dialogues": 900, "excluded": 0, "longest": 2}, "no dialogue has more than two turns"),
    ],
)
def test_logs_from_which_nothing_can_be_learnt_are_refused(counts: dict[str, int], message: str) -> None:
    with refusing(BadInput, message):
        require_dialogues(counts, "chat", 3)
    if counts["longest"] == 2:
        require_dialogues(counts, "chat", 1)


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_dialogues_that_are_all_on_one_side_are_refused(share: float) -> None:
    corpus, windows = chatter(40), WindowSettings(validation_share=0.2)
    require_both_sides(corpus, windows)
    with refusing(BadInput, "of 40 dialogues of 2 turns", f"{share:g}"):
        require_both_sides(corpus, replace(windows, validation_share=share))
    held_out = corpus.held_out(0.2, windows.seed)
    short = coded([[[5], [6]] if is_held_out else [[5], [6], [7]] for is_held_out in held_out])
    with refusing(BadInput, "0 of", "of 3 turns"):
        require_both_sides(short, replace(windows, least_turns=3))


@pytest.mark.parametrize("settings", [{"word_drop": 1.0}, {"steps": 0}, {"validation_share": 0.0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        WindowSettings(**settings)


@pytest.mark.faults
def test_a_network_of_the_published_sizes_takes_a_step() -> None:
    paper = PRESETS["paper"]
    sizes = {name: getattr(paper, name) for name in ("embedding", "utterance", "context", "latent", "decoder")}
    network = new_vhred(VhredConfig(vocabulary=5_100, **sizes), 1, paper.weight_scale)
    encoder = sum(parameter.numel() for parameter in network.encoder.parameters())
    assert 20e6 < encoder < 28e6  # 24.5 million with the embedding, as published
    assert 60e6 < network.parameter_count < 75e6
    train, _ = sides(chatter(), batch=2)
    adam = torch.optim.Adam(network.parameters(), lr=paper.learning_rate)
    batch = next(iter(train.batches(1)))
    costs = []
    for _ in range(2):
        terms = bound_terms(network, batch, draw_noise(network, batch, 1, "cpu"), "cpu")
        cost = terms.cost(0.0, batch.window_count)
        adam.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), paper.clip_norm)
        adam.step()
        costs.append(float(cost.detach()))
    assert costs[1] < costs[0]
