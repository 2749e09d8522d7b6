"""Networks over numpy's arrays rate as torch's do, whatever is rated together, and say so in signatures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoders import LONGEST, WORDS, TinyEncoder, write_encoder
from torch import nn

from refaug.core.errors import Corrupt
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.core.vectors.encoders import Encoder, EncoderConfig, open_encoder
from refaug.rater.cross.checkpoint import FILES as CROSS_FILES
from refaug.rater.cross.model import CrossNetwork
from refaug.rater.cross.sequences import CrossConfig
from refaug.rater.dual.checkpoint import FILES as DUAL_FILES
from refaug.rater.dual.checkpoint import DualConfig
from refaug.rater.dual.network import DualNetwork
from refaug.rater.frozen.array_network import LinearConfig, TowerConfig
from refaug.rater.frozen.artefact import LINEAR_FILES, TOWER_FILES
from refaug.rater.frozen.linear import LinearNetwork
from refaug.rater.frozen.towers import TowerNetwork
from refaug.rater.network_folder import WEIGHTS
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.rater.stored_raters import open_stored_rater

RNG = np.random.default_rng(5)
LENGTHS = (*range(1, 9), 16, 24, 31, 32, 33, 60)  # in words; networks here read at most 32 pieces of a text
SAID = [" ".join(RNG.choice(WORDS[:13], length)) for length in LENGTHS for _ in range(6)]
DIMENSIONS = 12
SETTINGS = (RatingSettings(combine="mean"), RatingSettings(combine="first", calibrated=True))


def requests(number: int) -> list[RatingRequest]:
    """Test pairs of texts of all lengths, some with turns, an empty text or several golds."""
    rng = np.random.default_rng(number)

    def texts(count: int) -> list[str]:
        return [SAID[place] for place in rng.integers(0, len(SAID), count)]

    return [
        RatingRequest(
            utterance="\n".join(texts(1 + row % 4)),
            golds=tuple(texts(1 + row % 2)),
            candidates=tuple(
                Reference(text=text, utterance=SAID[row]) for text in ["" if row % 5 else "tea", *texts(4)]
            ),
        )
        for row in range(30)
    ]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("pieces") / "pieces.model"
    train_sentencepiece(iter(SAID), path, TokenizerTraining(vocab_size=60, at_most=True))
    return open_sentencepiece(path)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("encoder")
    path = write_encoder(folder / "tiny", weights=TinyEncoder.seeded(dimensions=DIMENSIONS))
    return open_encoder(path, EncoderConfig(max_length=LONGEST))


def drawn(network: Any, spread: float = 2.5) -> Any:
    """Return the network with weights that rate texts differently, and weights of similarities that are fitted."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(spread)
        for name, tensor in network.named_buffers():
            weights = {"without_known": [6.0, -1.0], "with_known": [5.0, 3.0, -2.0]}.get(name)
            tensor.copy_(torch.randn(tensor.shape) if weights is None else torch.tensor(weights))
    return network


def saved(folder: Path, kind: str, tokenizer: SentencePieceTokenizer, encoder: Encoder) -> Path:
    """Save a network of this kind with drawn weights."""
    torch.manual_seed(3)
    facts: Any = {"temperature": 1.75, "languages": ["en"], "report": {}, "details": {"encoder": "tiny"}}
    vocabulary, path = tokenizer.vocab_size, folder / kind
    if kind in ("nn-texts", "nn-products"):
        features: Any = kind.removeprefix("nn-")
        nn_sizes = RaterConfig(
            vocabulary=vocabulary, embedding=24, hidden=20, width=32, layers=3, max_tokens=32, features=features
        )
        save_rater(path, drawn(BiGRURater(nn_sizes), 1.8), tokenizer, **facts)
    elif kind == "cross":
        sizes = CrossConfig(vocabulary=vocabulary, embedding=32, hidden=48, layers=3, heads=4, max_tokens=64)
        CROSS_FILES.save(path, drawn(CrossNetwork(sizes), 1.5), tokenizer, **facts)
    elif kind == "dual":
        network = DualNetwork(DualConfig(vocabulary=vocabulary, pairs=64, embedding=16, width=24, max_tokens=32))
        for tower in (network.turns, network.replies):
            nn.init.normal_(tower.embedding.weight[vocabulary:].detach(), std=0.1)
        DUAL_FILES.save(path, drawn(network), tokenizer, **facts)
    elif kind == "linear":
        linear = LinearNetwork(LinearConfig(encoder="of-tests", dimensions=DIMENSIONS))
        LINEAR_FILES.save(path, drawn(linear), None, **facts)
    else:
        towers = TowerNetwork(TowerConfig(encoder="of-tests", dimensions=DIMENSIONS, hidden=16, heads=3))
        for layer in (layer for head in towers.heads for layer in (head.turns.last, head.replies.last)):
            nn.init.normal_(layer.weight, std=0.2)
        TOWER_FILES.save(path, drawn(towers), None, **facts)
    return path


KINDS = ("nn-texts", "nn-products", "cross", "dual", "linear", "encoder")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_by(
    tmp_path: Path, kind: str, tokenizer: SentencePieceTokenizer, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Rater]:
    """Opens the saved rater by torch or by numpy."""
    folder = saved(tmp_path, kind, tokenizer, encoder)

    def opened(runtime: str) -> Rater:
        with monkeypatch.context() as patch:
            if runtime == "numpy":
                patch.setitem(sys.modules, "torch", None)
            return open_stored_rater(folder, lambda spec, *, keep=True: encoder, spec="drawn@1")

    return opened


def test_numpy_rates_as_torch_does_in_any_company(open_by: Callable[[str], Rater], kind: str) -> None:
    by_torch, by_numpy = open_by("torch"), open_by("numpy")
    assert (by_torch.runtime, by_numpy.runtime) == ("torch", "numpy")
    test_pairs = requests(1)
    for settings in SETTINGS:
        expected = by_torch.rate(test_pairs, settings)
        together = by_numpy.rate(test_pairs, settings)
        by_numpy.forget_texts()
        alone = [by_numpy.rate([test_pair], settings)[0] for test_pair in reversed(test_pairs)][::-1]
        assert np.std(expected) > 0.03, kind  # or equality would say little
        np.testing.assert_allclose(together, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-6)
        assert [np.argsort(np.round(ratings, 5), kind="stable").tolist() for ratings in together] == [
            np.argsort(np.round(ratings, 5), kind="stable").tolist() for ratings in expected
        ]


def test_altered_weights_are_refused_without_torch_too(open_by: Callable[[str], Rater], tmp_path: Path) -> None:
    (path,) = tmp_path.glob(f"*/{WEIGHTS}")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt):
        open_by("numpy")
