"""The network: held to a GRU and a feed-forward network in plain numpy, and the same whoever else is in a batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raters import tiny_corpus, tiny_model
from refusals import refusing

from refaug.core.errors import Usage
from refaug.rater.nn.build import PRESETS
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.text_encoding import PAD
from refaug.rater.training.examples import Examples, ExampleSettings

VOCABULARY = 20
EMBEDDING, HIDDEN, WIDTH, LAYERS = 5, 7, 6, 3  # all different, so that none can stand for another
TEXTS = st.lists(st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=12), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def network(layers=LAYERS, seed=4, features="texts"):
    """A tiny network of large weights: gates open and shut, and what goes in still tells in what comes out."""
    model = tiny_model(VOCABULARY, embedding=EMBEDDING, hidden=HIDDEN, width=WIDTH, layers=layers, seed=seed)
    if features != model.config.features:
        torch.manual_seed(seed)
        model = BiGRURater(replace(model.config, features=features))
    with torch.no_grad():
        for parameter in (*model.reader.parameters(), *model.hidden.parameters()):
            parameter.mul_(3)
    return model.eval()


MODEL = network()
PRODUCTS = network(features="products")


# ── by definition, in double precision ───────────────────────────────────────────────────────────────────────────


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def weights_of(model):
    return {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}


def plain_gru(inputs, weights, suffix):
    """The last state of h' = (1 - z) n + z h, with n = tanh(W x + b + r (U h + c)): reset after the product."""
    into, over = weights[f"reader.weight_ih_l0{suffix}"], weights[f"reader.weight_hh_l0{suffix}"]
    into_bias, over_bias = weights[f"reader.bias_ih_l0{suffix}"], weights[f"reader.bias_hh_l0{suffix}"]
    state = np.zeros(over.shape[1])
    for one in inputs:
        reset_x, update_x, new_x = np.split(into @ one + into_bias, 3)
        reset_h, update_h, new_h = np.split(over @ state + over_bias, 3)
        reset, update = sigmoid(reset_x + reset_h), sigmoid(update_x + update_h)
        state = (1 - update) * np.tanh(new_x + reset * new_h) + update * state
    return state


def plain_vector(text, weights):
    inputs = weights["embedding.weight"][text]
    return np.concatenate([plain_gru(inputs, weights, ""), plain_gru(inputs[::-1], weights, "_reverse")])


def plain_logits(utterance, known, other, weights, features="texts"):
    state = np.concatenate([utterance, known, other])
    if features == "products":
        state = np.concatenate([state, utterance * known, utterance * other, known * other])
    layers = sum(name.startswith("hidden.") for name in weights) // 2
    for layer in range(layers):
        state = np.maximum(0, weights[f"hidden.{layer}.weight"] @ state + weights[f"hidden.{layer}.bias"])
    return weights["last.weight"] @ state + weights["last.bias"]


# ── texts as a network takes them ────────────────────────────────────────────────────────────────────────────────


def tensors_of(texts, *, extra=0, beyond=PAD):
    """Tokens and lengths of texts, the longest first, with so many columns too many and so filled."""
    lengths = [len(text) for text in texts]
    tokens = torch.full((len(texts), max(lengths) + extra), beyond)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.tensor(text)
    return tokens, torch.tensor(lengths)


def longest_first(texts):
    return sorted(texts, key=len, reverse=True)


def read(model, texts, **how):
    with torch.inference_mode():
        return model.read(*tensors_of(texts, **how)).numpy()


# ── the formulas ─────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=25)
@given(TEXTS)
def test_text_vector_is_the_last_forward_and_backward_state_of_a_gru(texts):
    texts, weights = longest_first(texts), weights_of(MODEL)
    expected = np.stack([plain_vector(text, weights) for text in texts])
    np.testing.assert_allclose(read(MODEL, texts), expected, rtol=0, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(TEXTS)
def test_quick_reading_gives_the_same_vectors_for_any_padding(texts):
    texts, weights = longest_first(texts), weights_of(MODEL)
    expected = np.stack([plain_vector(text, weights) for text in texts])
    for how in ({}, {"extra": 2}, {"extra": 1, "beyond": 5}):
        with torch.inference_mode():
            found = MODEL.read_quickly(*tensors_of(texts, **how)).numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("features", ["texts", "products"])
@pytest.mark.parametrize("layers", [1, 5])
def test_three_vectors_are_judged_by_layers_with_relu_and_one_without(layers, features):
    model = network(layers, features=features)
    vectors = np.random.default_rng(2).standard_normal((3, 9, 2 * HIDDEN)).astype(np.float32)
    with torch.inference_mode():
        found = model.judge(*map(torch.from_numpy, vectors)).numpy()
    expected = [plain_logits(*vectors[:, row].astype(np.float64), weights_of(model), features) for row in range(9)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
    assert np.std(expected, axis=0).min() > 0.01


@pytest.mark.parametrize("model", [MODEL, PRODUCTS], ids=["texts", "products"])
def test_triplets_of_texts_by_their_rows_are_read_and_judged(model):
    weights = weights_of(model)
    texts = [[3, 9, 4, 4, 17], [5, 6, 7], [7, 6, 5], [1], [19]]
    triplets = [[0, 1, 2], [0, 2, 1], [4, 4, 4], [3, 0, 4], [1, 1, 0]]
    with torch.inference_mode():
        found = model(*tensors_of(texts), torch.tensor(triplets)).numpy()
    vectors, features = [plain_vector(text, weights) for text in texts], model.config.features
    expected = [plain_logits(*(vectors[row] for row in triplet), weights, features) for triplet in triplets]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# ── company ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=25)
@given(TEXTS, st.integers(0, 5), st.integers(0, VOCABULARY - 1))
def test_text_vector_is_the_same_alone_and_in_a_batch_with_any_padding(texts, extra, beyond):
    texts = longest_first(texts)
    alone = np.concatenate([read(MODEL, [text]) for text in texts])
    np.testing.assert_allclose(read(MODEL, texts, extra=extra, beyond=beyond), alone, rtol=0, atol=1e-6)


def test_a_triplet_gets_the_same_logits_in_a_batch_of_much_longer_texts():
    triplet = [[4, 5, 6], [7, 8], [9]]
    longer = [[2 + (row + place) % 17 for place in range(60 - row)] for row in range(30)]
    with torch.inference_mode():
        alone = MODEL(*tensors_of(triplet), torch.tensor([[0, 1, 2]])).numpy()
        others = [[row, 30 + row % 3, 29 - row] for row in range(30)]
        together = MODEL(*tensors_of([*longer, *triplet]), torch.tensor([*others, [30, 31, 32]])).numpy()
    np.testing.assert_allclose(together[-1:], alone, rtol=0, atol=1e-6)


def test_batch_gets_the_logits_of_each_triplet_alone():
    examples = Examples(tiny_corpus(utterances=20), "train", ExampleSettings(batch=16), 16)
    model = tiny_model().eval()
    batch = next(examples.batches(1))
    texts = [row[:length].tolist() for row, length in zip(batch.tokens, batch.lengths.tolist(), strict=True)]
    with torch.inference_mode():
        together = model(*map(torch.from_numpy, batch[:3])).numpy()
        for logits, rows in zip(together, batch.triplets.tolist(), strict=True):
            own = [texts[row] for row in rows]
            ordered = longest_first(own)
            places = torch.tensor([[ordered.index(text) for text in own]])
            np.testing.assert_allclose(logits, model(*tensors_of(ordered), places)[0].numpy(), rtol=0, atol=1e-6)


def test_padding_learns_nothing():
    model = network()
    texts = [[3, 4, 5, 6], [7]]
    model(*tensors_of(texts), torch.tensor([[0, 1, 1]])).sum().backward()
    learnt = model.embedding.weight.grad.abs().sum(dim=1).numpy()
    assert np.flatnonzero(learnt).tolist() == [3, 4, 5, 6, 7]


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_order_of_pieces_matters():
    orders = [list(order) for order in permutations([3, 8, 11, 15])]
    vectors = read(MODEL, orders)
    distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=2) + 9 * np.eye(24)
    assert distances.min() > 1e-3


@pytest.mark.parametrize("model", [MODEL, PRODUCTS], ids=["texts", "products"])
def test_the_place_of_a_text_in_a_triplet_matters(model):
    texts = tensors_of([[3, 4, 5], [6, 7, 8], [9, 10, 11]])
    with torch.inference_mode():
        logits = model(*texts, torch.tensor(list(permutations(range(3))))).numpy()
    distances = np.abs(logits[:, None] - logits[None]).max(axis=2) + 9 * np.eye(6)
    assert distances.min() > 1e-5


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_papers_network_has_as_many_parameters_as_its_layers_add_up_to():
    embedding = 16_002 * 512
    one_way = 3 * (512 * 512 + 512 * 512 + 512 + 512)
    layers = (3_072 * 1_024 + 1_024) + 4 * (1_024 * 1_024 + 1_024) + (1_024 * 2 + 2)
    with torch.device("meta"):  # sizes alone
        model = BiGRURater(RaterConfig())
    assert model.parameter_count == embedding + 2 * one_way + layers == 18_692_098


def test_a_tiny_network_has_as_many_parameters_as_its_layers_add_up_to():
    one_way = 3 * HIDDEN * (EMBEDDING + HIDDEN + 2)
    layers = (6 * HIDDEN + 1) * WIDTH + (LAYERS - 1) * (WIDTH + 1) * WIDTH + (WIDTH + 1) * 2
    assert MODEL.parameter_count == VOCABULARY * EMBEDDING + 2 * one_way + layers


def test_products_add_a_weight_row_for_each_number_of_each_text_pair():
    assert (MODEL.config.judged_size, PRODUCTS.config.judged_size) == (3 * 2 * HIDDEN, 6 * 2 * HIDDEN)
    assert PRODUCTS.parameter_count - MODEL.parameter_count == 3 * 2 * HIDDEN * WIDTH
    same, more = ({name: tuple(one.shape) for name, one in model.state_dict().items()} for model in (MODEL, PRODUCTS))
    assert {name for name in more if same[name] != more[name]} == {"hidden.0.weight"}


def test_the_papers_preset_is_the_published_network_and_the_others_are_not():
    paper = PRESETS["paper"]
    sizes = {name: getattr(paper, name) for name in ("embedding", "hidden", "width", "features")}
    assert RaterConfig(vocabulary=paper.pieces + 2, **sizes) == RaterConfig()
    assert (paper.batch, paper.start) == (1_000, "random")
    others = {(one.start, one.features) for name, one in PRESETS.items() if name != "paper"}
    assert others == {("vectors", "products")}


@pytest.mark.parametrize("features", ["product", "Texts", "", "texts,products", None, 2, ["texts"]])
def test_features_that_there_are_none_of_are_refused_with_those_there_are(features):
    with pytest.raises(Usage) as caught:
        RaterConfig(features=features)
    assert caught.value.message == f"a rater's features are {features!r}"
    assert caught.value.remedy == "one of: texts, products"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary", 2),
        ("vocabulary", -16_000),
        ("embedding", 0),
        ("hidden", 0),
        ("hidden", -1),
        ("width", 0),
        ("layers", 0),
        ("max_tokens", 0),
    ],
)
def test_impossible_network_sizes_are_refused_by_name_and_value(name, value):
    with refusing(Usage, name, value):
        RaterConfig(**{name: value})


def test_the_least_sizes_there_are_make_a_network_that_answers():
    least = RaterConfig(vocabulary=3, embedding=1, hidden=1, width=1, layers=1, max_tokens=1)
    with torch.inference_mode():
        assert BiGRURater(least)(*tensors_of([[2], [1]]), torch.tensor([[0, 1, 0]])).shape == (1, 2)
