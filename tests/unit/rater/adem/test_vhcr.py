"""The variable of a conversation and the heads on the context against plain numpy, and a training that resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refusing
from vhcrs import HEADS, PlainVhcr, tiny_vhcr_network
from vhreds import SIZES, VOCABULARY, PlainVhred, plain_divergence, softmax, tiny_vhred_network

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Silent
from refaug.rater.adem.pretraining.build import (
    Noise,
    PretrainingTask,
    bound_terms,
    draw_noise,
    held_out_figures,
    report_of,
)
from refaug.rater.adem.pretraining.dialogues import CodedDialogues, DialogueWindows, WindowBatch, WindowSettings
from refaug.rater.adem.pretraining.latent_report import LatentGaussians, UnitSpread, state_of
from refaug.rater.adem.pretraining.targets import TurnTargets, heads_loss, require_sizes
from refaug.rater.adem.vhred.artefact import generate_replies, piece_log_likelihoods
from refaug.rater.adem.vhred.conversation import draw_dropped
from refaug.rater.adem.vhred.conversation_sizes import stored_config
from refaug.rater.adem.vhred.encoder import batch_dialogues
from refaug.rater.adem.vhred.gaussians import Gaussian
from refaug.rater.adem.vhred.heads import HeadTargets
from refaug.rater.adem.vhred.held_conversations import HeldConversation, conversation_draw
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import GenerationSettings, VhredConfig
from refaug.rater.training.loop import TrainConfig, run

END = VOCABULARY - 1
DIALOGUES = [
    [[5, 9, 4], [3, 3, 7], [6, 21, 8], [2]],
    [[2]],
    [],
    [[12, 13], [2, 14], [25, 3, 8, 8, 11]],
    [[4], [5]],
]


def as_turns(dialogue: list[list[int]]) -> list[np.ndarray]:
    return [np.array(turn, np.int64) for turn in dialogue]


def coded(dialogues: list[list[list[int]]]) -> CodedDialogues:
    turns = [turn for dialogue in dialogues for turn in dialogue]
    return CodedDialogues(
        pieces=np.array([piece for turn in turns for piece in turn], np.uint16),
        start=np.cumsum([0, *map(len, turns)], dtype=np.int64),
        first=np.cumsum([0, *map(len, dialogues)], dtype=np.int64),
        keys=np.arange(len(dialogues), dtype=np.uint64),
    )


def chatter(count: int = 200) -> CodedDialogues:
    """Dialogues of two to five turns about one topic, whose piece stands in every turn."""
    rng = np.random.default_rng(1)
    return coded(
        [
            [[2 + topic, *(8 + rng.integers(0, 20, rng.integers(1, 3))).tolist()] for _ in range(rng.integers(2, 6))]
            for topic in rng.integers(0, 3, count).tolist()
        ]
    )


def topic_targets(corpus: CodedDialogues, *, shuffled: bool = False) -> TurnTargets:
    """Of each turn its topic as a class, and its topic and length as a meaning."""
    topics = np.array([int(corpus.turn(turn)[0]) - 2 for turn in range(len(corpus.start) - 1)])
    lengths = np.diff(corpus.start)
    rows = np.arange(len(topics))
    return TurnTargets(
        rows=np.random.default_rng(1).permutation(rows) if shuffled else rows,
        emotion=np.eye(3, dtype=np.float32)[topics],
        meaning=np.stack([topics, lengths], axis=1).astype(np.float32),
        weights=(60.0, 60.0),
    )


def sides(corpus: CodedDialogues, **settings: Any) -> tuple[DialogueWindows, DialogueWindows]:
    defaults = {"batch": 20, "steps": 12, "round_steps": 4, "validation_share": 0.2, "turns": 4, "least_turns": 3}
    chosen = WindowSettings(**{**defaults, **settings})
    train, validation = (DialogueWindows(corpus, chosen, is_validation=side, end=END) for side in (False, True))
    return train, validation


# ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_input", [False, True])
@pytest.mark.parametrize("cell", ["ln-gru", "gru"])
def test_states_and_the_gaussian_of_a_conversation_are_those_of_the_equations(cell: str, is_input: bool) -> None:
    network = tiny_vhcr_network(cell=cell, are_heads_input=is_input)
    batch = batch_dialogues([as_turns(dialogue) for dialogue in DIALOGUES], END)
    with torch.inference_mode():
        states = network.read(batch)
    plain = PlainVhcr(network)
    assert states.conversations is not None
    for row, dialogue in enumerate(DIALOGUES):
        mean, variance = plain.conversation(plain.utterances(dialogue))
        assert states.conversations.mean[row].numpy() == pytest.approx(mean, abs=1e-5)
        assert states.conversations.variance[row].numpy() == pytest.approx(variance, abs=1e-5)
        expected = plain.read(dialogue)
        for end in range(len(dialogue) + 1):
            assert states.utterances[row, end].numpy() == pytest.approx(expected.utterances[end], abs=1e-5)
            assert states.contexts[row, end].numpy() == pytest.approx(expected.contexts[end], abs=1e-5)


@pytest.mark.parametrize("is_input", [False, True])
def test_a_dropped_turn_is_not_heard_by_the_contexts_but_by_the_conversation(is_input: bool) -> None:
    network = tiny_vhcr_network(are_heads_input=is_input)
    batch = batch_dialogues([as_turns(DIALOGUES[0])], END)
    dropped = np.array([[False, False, True, False, True]])
    with torch.inference_mode():
        states, whole = network.read(batch, dropped=dropped), network.read(batch)
    expected = PlainVhcr(network).read_with(DIALOGUES[0], dropped={2, 4})
    assert states.contexts[0].numpy() == pytest.approx(np.stack(expected.contexts), abs=1e-5)
    assert states.heard[0].numpy() == pytest.approx(np.stack(expected.utterances), abs=1e-5)
    assert torch.equal(states.utterances, whole.utterances)
    assert states.conversations is not None
    assert whole.conversations is not None
    assert torch.equal(states.conversations.mean, whole.conversations.mean)


def test_turns_are_dropped_by_the_share_one_by_one_or_at_places_of_all() -> None:
    ends = np.full(400, 6, np.int64)
    each = draw_dropped(ends, WindowSettings(sentence_drop=0.25), 3)
    place = draw_dropped(ends, WindowSettings(sentence_drop=0.25, drop_by="place"), 3)
    assert each is not None
    assert place is not None
    assert each[:, 1:].mean() == pytest.approx(0.25, abs=0.03)
    assert not each[:, 0].any()
    assert (place == place[0]).all()
    assert draw_dropped(ends, WindowSettings(), 3) is None
    train, validation = sides(chatter(), sentence_drop=0.5)
    assert next(iter(train.batches(1))).dropped is not None
    assert all(batch.dropped is None for batch in validation.batches(0))


# ── the bound ────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_batch(dialogues: list[list[list[int]]]) -> WindowBatch:
    settings = WindowSettings(validation_share=0.999, turns=4, least_turns=2)
    (batch,) = DialogueWindows(coded(dialogues), settings, is_validation=True, end=END).batches(0)
    return batch


LONG = [DIALOGUES[0], DIALOGUES[3], [[4], [5, 10], [6, 6]]]


def plain_bound(network: VhredNetwork, batch: WindowBatch, noise: Noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses and divergences of every turn, and divergences of every conversation, from the equations."""
    plain, losses, divergences, conversations = PlainVhcr(network), list[float](), list[float](), list[float]()
    assert noise.turns is not None
    assert noise.conversations is not None
    row_of, windows = np.argsort(batch.turns.order), windows_of(batch)
    for row, dialogue in enumerate(windows):
        utterances = plain.utterances(dialogue)
        after = plain.conversation(utterances)
        drawn = after[0] + np.sqrt(after[1]) * noise.conversations[row].numpy()
        conversations.append(plain_divergence(after, (np.zeros(len(drawn)), np.ones(len(drawn)))))
        dropped = {} if batch.dropped is None else set(np.flatnonzero(batch.dropped[row]).tolist())
        states = plain.read_with(dialogue, drawn, dropped)
        for number, turn in enumerate(dialogue):
            context = states.contexts[number]
            posterior = plain.posterior(context, utterances[number + 1])
            divergences.append(plain_divergence(posterior, plain.prior(context)))
            latent = posterior[0] + np.sqrt(posterior[1]) * noise.turns[row_of[len(losses)]].numpy()
            condition = np.concatenate([context, states.utterances[number], latent])
            losses.append(-plain.log_likelihoods(turn, condition).sum())
    order = batch.turns.order
    return np.array(losses)[order], np.array(divergences)[order], np.array(conversations)


def windows_of(batch: WindowBatch) -> list[list[list[int]]]:
    """The turns of the windows in the order of a batch, read back from the decoder's targets."""
    by_row = [batch.turns.targets[batch.turns.rows == row].tolist()[:-1] for row in range(len(batch.turns.order))]
    in_order = [by_row[row] for row in np.argsort(batch.turns.order)]
    counts = (batch.dialogues.end_counts - 1).tolist()
    return [in_order[sum(counts[:at]) : sum(counts[: at + 1])] for at in range(len(counts))]


@pytest.mark.parametrize("is_dropping", [False, True])
def test_the_bound_is_that_of_the_equations(is_dropping: bool) -> None:
    network, batch = tiny_vhcr_network().double(), one_batch(LONG)
    if is_dropping:
        batch = WindowBatch(
            **{
                **vars(batch),
                "dropped": draw_dropped(batch.dialogues.end_counts, WindowSettings(sentence_drop=0.5), 1),
            }
        )
    noise = Noise(*(each.double() for each in draw_noise(network, batch, 1, "cpu") if each is not None))
    with torch.inference_mode():
        terms = bound_terms(network, batch, noise, "cpu")
    losses, divergences, conversations = plain_bound(network, batch, noise)
    assert np.bincount(batch.turns.rows, weights=terms.losses.numpy()) == pytest.approx(losses, abs=1e-5)
    assert terms.divergences.numpy() == pytest.approx(divergences, abs=1e-5)
    assert terms.conversations.numpy() == pytest.approx(conversations, abs=1e-5)
    expected = (losses.sum() + 0.5 * (divergences.sum() + conversations.sum())) / 3
    assert float(terms.cost(0.5, 3)) == pytest.approx(expected, abs=1e-5)


def small_targets(batch: WindowBatch) -> TurnTargets:
    rng = np.random.default_rng(3)
    count = int(batch.inputs.max()) + 2
    return TurnTargets(
        rows=np.arange(count),
        emotion=rng.dirichlet(np.ones(3), count).astype(np.float32),
        meaning=rng.normal(size=(count, 2)).astype(np.float32),
        weights=(2.0, 5.0),
    )


@pytest.mark.parametrize(("is_positive", "is_input"), [(True, False), (False, False), (True, True)])
def test_the_losses_of_heads_are_those_of_the_equations_on_the_turn_before(is_positive: bool, is_input: bool) -> None:
    network = tiny_vhcr_network(is_emotion_positive=is_positive, are_heads_input=is_input).double()
    batch = one_batch(LONG)
    noise = Noise(*(each.double() for each in draw_noise(network, batch, 1, "cpu") if each is not None))
    targets, plain = small_targets(batch), PlainVhcr(network)
    with torch.inference_mode():
        terms = bound_terms(network, batch, noise, "cpu")
        loss = heads_loss(network.heads, terms.contexts, batch, targets)
    assert noise.conversations is not None
    assert targets.emotion is not None
    assert targets.meaning is not None
    emotions, errors, ordered = list[float](), list[float](), coded(LONG)
    for row, dialogue in enumerate(windows_of(batch)):
        after = plain.conversation(plain.utterances(dialogue))
        states = plain.read_with(dialogue, after[0] + np.sqrt(after[1]) * noise.conversations[row].numpy())
        begin = ordered.first[LONG.index(dialogue)]
        for turn in range(len(dialogue) - 1):
            of_network = states.contexts[turn + 1][: network.config.context]
            context = states.utterances[turn + 1] if is_input else of_network
            emotions.append(float(-targets.emotion[begin + turn] @ np.log(softmax(plain.head("emotion", context)))))
            errors += np.square(plain.head("meaning", context) - targets.meaning[begin + turn]).tolist()
    assert float(loss) == pytest.approx(2 * np.mean(emotions) + 5 * np.mean(errors), abs=1e-5)


def test_the_cost_has_the_gradients_of_differences() -> None:
    sizes = {"embedding": 2, "utterance": 2, "context": 2, "latent": 1, "decoder": 2, "conversation": 2}
    network = tiny_vhcr_network(**sizes).double()
    batch = one_batch(LONG)
    dropped = np.zeros((3, int(batch.dialogues.end_counts.max())), np.bool_)
    dropped[:, 2] = True
    batch, targets = WindowBatch(**{**vars(batch), "dropped": dropped}), small_targets(batch)
    generator = torch.Generator().manual_seed(1)
    noise = Noise(
        torch.randn(len(batch.before), 1, dtype=torch.float64, generator=generator),
        torch.randn(3, 2, dtype=torch.float64, generator=generator),
    )

    def cost() -> torch.Tensor:
        terms = bound_terms(network, batch, noise, "cpu")
        return terms.cost(0.7, 3, heads_loss(network.heads, terms.contexts, batch, targets))

    cost().backward()  # type: ignore[no-untyped-call]
    rng, step = np.random.default_rng(1), 1e-6
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        flat, gradients = parameter.data.view(-1), parameter.grad.view(-1)
        at, costs = int(rng.integers(len(flat))), list[float]()
        for change in (step, -2 * step):
            flat[at] += change
            with torch.no_grad():
                costs.append(float(cost()))
        flat[at] += step
        assert float(gradients[at]) == pytest.approx((costs[0] - costs[1]) / (2 * step), rel=1e-3, abs=1e-6), name


@pytest.mark.parametrize("sizes", [{"conversation": 2}, {"conversation": 0}, {"conversation": 0, "latent": 0}])
def test_heads_that_are_an_input_shape_nothing_and_nothing_but_their_losses_shapes_them(
    sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = tiny_vhcr_network(
        **{"embedding": 2, "utterance": 2, "context": 2, **sizes}, are_heads_input=True
    ).double()
    heads, batch = network.heads, one_batch(LONG)
    assert heads is not None
    noise = Noise(*(None if each is None else each.double() for each in draw_noise(network, batch, 1, "cpu")))
    terms = bound_terms(network, batch, noise, "cpu")
    of_heads = {f"heads.{name}" for name, _ in heads.named_parameters()}

    def shaped(cost: torch.Tensor) -> set[str]:
        network.zero_grad(set_to_none=True)
        cost.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        return {name for name, parameter in network.named_parameters() if parameter.grad is not None}

    loss = heads_loss(heads, terms.contexts, batch, small_targets(batch))
    assert isinstance(loss, torch.Tensor)
    assert shaped(loss) == of_heads
    assert not shaped(terms.cost(0.7, 3)) & of_heads
    predictions = heads.inputs_with(network.read(batch.dialogues, noise.draw_conversations).heard)[..., 4:]
    monkeypatch.setattr(heads, "inputs_with", lambda heard: torch.cat([heard, predictions], dim=-1))
    rng, step = np.random.default_rng(1), 1e-6
    for name, parameter in network.named_parameters():
        if parameter.grad is None:
            continue
        flat, costs = parameter.data.view(-1), list[float]()
        at = int(rng.integers(len(flat)))
        for change in (step, -2 * step):
            flat[at] += change
            with torch.no_grad():
                costs.append(float(bound_terms(network, batch, noise, "cpu").cost(0.7, 3)))
        flat[at] += step
        gradient = float(parameter.grad.view(-1)[at])
        assert gradient == pytest.approx((costs[0] - costs[1]) / (2 * step), rel=1e-3, abs=1e-6), name


def test_the_gaussian_of_a_conversation_has_the_gradients_of_differences() -> None:
    network = tiny_vhcr_network(utterance=1, context=2, conversation=2).double()
    assert network.conversation is not None
    vectors = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    reader, counts = network.conversation, np.array([4, 2, 1])
    assert torch.autograd.gradcheck(lambda seen: tuple(reader.posterior(seen, counts)), (vectors,), atol=1e-6)


def test_heads_have_the_gradients_of_differences() -> None:
    network = tiny_vhcr_network().double()
    assert network.heads is not None
    rng, heads = np.random.default_rng(2), network.heads
    targets = HeadTargets(rng.dirichlet(np.ones(3), 4).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32))
    contexts = torch.from_numpy(rng.normal(size=(4, 6))).requires_grad_()
    assert torch.autograd.gradcheck(lambda seen: heads.losses(seen, targets), (contexts,), atol=1e-6)


def test_a_conversation_of_one_turn_teaches_no_head_and_its_variable_is_that_of_the_turn() -> None:
    network = tiny_vhcr_network()
    assert network.heads is not None
    none = network.heads.losses(torch.empty(0, 6), HeadTargets(np.empty((0, 3), np.float32), None))
    assert [float(loss) for loss in none] == [0.0, 0.0]
    plain, (alone, nothing) = (
        PlainVhcr(network),
        piece_log_likelihoods(network, [[np.array([5, 9])], []], [np.array([4]), np.array([4])]),
    )
    for logs, context in ((alone, [[5, 9]]), (nothing, [])):
        states = plain.read(context)
        condition = np.concatenate([states.contexts[-1], states.utterances[-1], plain.prior(states.contexts[-1])[0]])
        assert logs == pytest.approx(plain.log_likelihoods([4], condition), abs=1e-5)


@pytest.mark.parametrize("sizes", [{}, {"are_heads_input": True}, {"are_heads_input": True, "conversation": 0}])
def test_likelihoods_of_replies_are_those_of_the_equations_whatever_is_read_with_them(sizes: dict[str, Any]) -> None:
    network = tiny_vhcr_network(**sizes).double()
    contexts = [as_turns(DIALOGUES[at]) for at in (3, 0, 2, 4)]
    replies = [np.array([4]), np.array([8, 8, 10]), np.array([2, 3]), np.array([7])]
    plain = PlainVhcr(network) if network.config.conversation else PlainVhred(network)
    for logs, context, reply in zip(piece_log_likelihoods(network, contexts, replies), contexts, replies, strict=True):
        states = plain.read([turn.tolist() for turn in context])
        condition = np.concatenate([states.contexts[-1], states.utterances[-1], plain.prior(states.contexts[-1])[0]])
        assert logs == pytest.approx(plain.log_likelihoods(reply.tolist(), condition), abs=1e-10)
        (alone,) = piece_log_likelihoods(network, [context], [reply])
        assert logs == pytest.approx(alone, abs=1e-10)


# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def chosen(
    network: VhredNetwork,
    contexts: list[list[list[int]]],
    conversations: list[HeldConversation] | None,
    seeds: list[int],
) -> np.ndarray:
    generators = [np.random.default_rng(seed) for seed in seeds] if seeds else None
    draw = conversation_draw(network, conversations, generators)
    with torch.inference_mode():
        states = network.read(batch_dialogues([as_turns(context) for context in contexts], END), draw)
    return states.contexts[:, 0, network.config.context :].numpy()


def test_the_variable_is_held_while_a_conversation_goes_on_and_else_inferred_for_each_reply() -> None:
    network = tiny_vhcr_network()
    plain, growing = PlainVhcr(network), [DIALOGUES[0][:count] for count in (1, 3, 4)]
    opening = HeldConversation(as_turns(DIALOGUES[0][:1]), 7)
    held = chosen(network, growing, [opening] * 3, [])
    assert np.abs(held - plain.conversation(plain.utterances(DIALOGUES[0][:1]))[0]).max() < 1e-5
    for row, inferred in enumerate(chosen(network, growing, None, [])):
        assert inferred == pytest.approx(plain.conversation(plain.utterances(growing[row]))[0], abs=1e-5)
    drawn = chosen(network, growing, [opening] * 3, [1, 2, 3])
    assert np.abs(drawn - drawn[0]).max() < 1e-5
    assert np.abs(drawn - held).max() > 0.1
    anew = chosen(network, growing[:1] * 3, None, [1, 2, 3])
    assert len({row.tobytes() for row in anew}) == 3
    begun = chosen(network, [[]] * 2, [HeldConversation([], 7), HeldConversation([], 8)], [1, 1])
    assert len({row.tobytes() for row in begun}) == 2


def test_replies_with_a_held_variable_do_not_depend_on_their_batch() -> None:
    network, contexts = tiny_vhcr_network(), [as_turns(DIALOGUES[at]) for at in (0, 3, 4)]
    settings, seeds = GenerationSettings(method="sample", max_tokens=5), [11, 12, 13]
    conversations = [HeldConversation(context[:1], seed) for context, seed in zip(contexts, seeds, strict=True)]
    together = generate_replies(network, contexts, settings, seeds, conversations)
    alone = [
        generate_replies(network, [context], settings, [seed], [conversation])[0]
        for context, seed, conversation in zip(contexts, seeds, conversations, strict=True)
    ]
    assert together == alone
    with pytest.raises(Usage):
        GenerationSettings(conversation="new")  # type: ignore[arg-type]


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def course(
    folder: Path, stop: int | None = None, *, shuffled: bool = False, is_input: bool = False, **settings: Any
) -> tuple[VhredNetwork, DialogueWindows, DialogueWindows, TurnTargets, Any]:
    """Train a tiny VHCR with heads, stopped after some batches."""
    corpus = chatter()
    train, validation = sides(corpus, **{"sentence_drop": 0.25, **settings})
    sizes = {**SIZES, **HEADS, "conversation": 4, "are_heads_input": is_input}
    network = new_vhred(VhredConfig(vocabulary=VOCABULARY, **sizes), 1, None)
    config = TrainConfig(epochs=train.settings.rounds, learning_rate=0.02, clip_norm=1.0, save_every=3, patience=9)
    seen = 0

    def on_now(_status: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            raise KeyboardInterrupt

    targets = topic_targets(corpus, shuffled=shuffled)
    task = PretrainingTask(network, train, validation, 20, "cpu", targets)
    return network, train, validation, targets, run(task, config, folder, Silent(), on_now)


@pytest.mark.parametrize("is_input", [False, True])
def test_a_resumed_training_ends_like_an_unbroken_one_to_the_last_bit(tmp_path: Path, is_input: bool) -> None:
    whole, train, validation, targets, trained = course(tmp_path / "whole", is_input=is_input)
    with pytest.raises(KeyboardInterrupt):
        course(tmp_path / "stopped", stop=7, is_input=is_input)
    resumed, *_ = course(tmp_path / "stopped", is_input=is_input)
    expected, weights = whole.state_dict(), resumed.state_dict()
    assert all(torch.equal(expected[name], weights[name]) for name in expected)
    report = report_of(whole, trained, train, validation, targets)
    figures = held_out_figures(whole, validation, targets=targets)
    assert report["latent"] == state_of(3, figures.divergence)
    assert report["latent_conversation"] == state_of(4, report["kl_conversation"])  # type: ignore[arg-type]
    total = report["kl_conversation"] * validation.window_count + figures.divergence * turns_of(validation)  # type: ignore[operator]
    assert figures.loss == pytest.approx(figures.nll + total / figures.pieces, rel=1e-5)


def turns_of(windows: DialogueWindows) -> int:
    return sum(len(batch.before) for batch in windows.batches(0))


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_heads_learn_what_a_turn_is_about_unless_its_targets_are_of_others(tmp_path: Path, shuffled: bool) -> None:
    network, train, validation, targets, trained = course(tmp_path, steps=120, round_steps=20, shuffled=shuffled)
    heads: Any = report_of(network, trained, train, validation, targets)["heads"]
    for head in ("emotion", "meaning"):
        has_learned = heads[head]["loss"] < 0.85 * heads[head]["constant_loss"]  # .69 and less; of others .99 and more
        assert has_learned is not shuffled


def test_dialogues_of_one_exchange_are_left_out_and_counted() -> None:
    corpus = chatter()
    train, validation = sides(corpus)
    short = np.diff(corpus.first) < 3
    held_out = corpus.held_out(0.2, 1)
    assert (train.skipped_count, validation.skipped_count) == ((short & ~held_out).sum(), (short & held_out).sum())
    assert train.dialogue_count == (~short & ~held_out).sum()
    assert all((batch.dialogues.end_counts >= 3).all() for batch in train.batches(1))


# ── what is told, and what is refused ────────────────────────────────────────────────────────────────────────────────


def test_active_units_are_those_whose_means_move() -> None:
    rng, spread = np.random.default_rng(1), UnitSpread()
    for _ in range(5):
        before = Gaussian(torch.from_numpy(rng.normal(size=(40, 3))), torch.full((40, 3), 0.25, dtype=torch.float64))
        moves = rng.normal(size=(40, 3)) * [1.0, 0.01, 0.0] + [0.0, 0.0, 3.0]
        spread.add(LatentGaussians(before, before._replace(mean=before.mean + torch.from_numpy(moves))))
    assert spread.active_units == 1
    assert UnitSpread().active_units == 0
    assert [state_of(0, 0.0), state_of(4, 0.05), state_of(4, 0.5)] == ["none", "collapsed", "used"]


def test_manifests_name_only_the_parts_that_a_network_has() -> None:
    plain = {"vocabulary", "embedding", "utterance", "context", "latent", "decoder", "max_tokens", "turns", "cell"}
    assert set(stored_config(VhredConfig())) == plain
    with_parts = VhredConfig(conversation=4, emotion=3, emotion_hidden=5)
    assert set(stored_config(with_parts)) == {*plain, "conversation", "emotion", "emotion_hidden"}
    written: dict[str, Any] = stored_config(with_parts)
    assert VhredConfig(**written) == with_parts


@pytest.mark.parametrize(
    "sizes",
    [
        {"conversation": -1},
        {"emotion": 3},
        {"meaning_hidden": 4},
        {"conversation": 1 << 20},
        {"are_heads_input": "x"},
        {"are_heads_input": 1},
        {"is_emotion_positive": None},
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        VhredConfig(**sizes)


def test_a_teacher_of_other_classes_than_the_networks_is_refused() -> None:
    config = tiny_vhcr_network().config
    good = TurnTargets(rows=np.arange(1), emotion=np.ones((1, 3), np.float32), meaning=np.ones((1, 2), np.float32))
    require_sizes(config, good)
    with refusing(BadInput, "4"):
        require_sizes(config, TurnTargets(rows=good.rows, emotion=np.ones((1, 4), np.float32), meaning=good.meaning))
    with refusing(BadInput, "meaning"):
        require_sizes(tiny_vhred_network().config, TurnTargets(rows=good.rows, meaning=good.meaning))
