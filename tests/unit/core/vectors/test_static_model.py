"""Encoders of vectors of tokens: what numpy makes of the same rows, in the layouts of wordllama and model2vec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoders import SPECIAL, WORDS, write_tokenizer
from numpy.typing import NDArray
from refusals import refusing
from safetensors.numpy import save_file

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Corrupt
from refaug.core.home import Settings
from refaug.core.vectors.encoders import open_encoder
from refaug.metrics.specification import build
from refaug.scoring.home.encoders import import_encoder
from refaug.scoring.metric_setup.model_registry import ModelRegistry

IDS = {word: place for place, word in enumerate((*SPECIAL, *WORDS))}
MATRIX = np.random.default_rng(5).normal(size=(len(IDS), 8)).astype(np.float32)
TEXTS = ["i like tea", "the big dog likes you !", "i like strange words", "tea"]


def written(folder: Path, **tensors: NDArray[np.generic]) -> Path:
    folder.mkdir()
    write_tokenizer(folder / "tokenizer.json")
    save_file({name.replace("__", "."): tensor for name, tensor in tensors.items()}, folder / "model.safetensors")
    return folder


def means(matrix: NDArray[np.float32], *, with_unknown: bool = True) -> NDArray[np.float64]:
    """The unit means of the texts, rounded to halves."""
    rows = []
    for text in TEXTS:
        ids = [IDS.get(word, IDS["[UNK]"]) for word in text.split()]
        mean = matrix[[one for one in ids if with_unknown or one != IDS["[UNK]"]]].astype(np.float64).mean(axis=0)
        rows.append((mean / np.linalg.norm(mean)).astype(np.float16))
    return np.array(rows, np.float64)


def test_a_sentence_is_the_mean_of_its_tokens_without_special_ones(tmp_path: Path) -> None:
    encoder = open_encoder(written(tmp_path / "words", embedding__weight=MATRIX.astype(np.float16)))
    expected = means(MATRIX.astype(np.float16).astype(np.float32))
    assert encoder.sentence_vectors(TEXTS) == pytest.approx(expected, abs=1e-3)
    (tokens,) = encoder.token_vectors(TEXTS[:1])
    assert tokens.tokens == ("i", "like", "tea")
    assert not tokens.special.any()
    assert np.isnan(encoder.sentence_vectors([""])).all()
    assert not encoder.one_by_one


def test_tokens_may_have_weights_and_share_rows_and_the_unknown_has_no_part(tmp_path: Path) -> None:
    weights = np.linspace(0.5, 2, len(IDS)).astype(np.float32)
    mapping = np.arange(len(IDS), dtype=np.int64)
    mapping[IDS["dog"]] = IDS["cat"]
    encoder = open_encoder(written(tmp_path / "shared", embeddings=MATRIX, weights=weights, mapping=mapping))
    assert encoder.sentence_vectors(TEXTS) == pytest.approx(
        means(MATRIX[mapping] * weights[:, None], with_unknown=False), abs=1e-3
    )
    assert np.isnan(encoder.sentence_vectors(["strange"])).all()


def test_the_weights_of_a_network_are_refused_with_what_to_do(tmp_path: Path) -> None:
    layers = {f"encoder__layer{place}": MATRIX for place in range(4)}
    folder = written(tmp_path / "bert", embeddings__word=MATRIX, **layers)
    with refusing(BadInput) as error:
        open_encoder(folder)
    assert "optimum-cli export onnx --model FOLDER EXPORTED" in str(error.value.remedy)


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, b"\x02\x00\x00\x00\x00\x00\x00\x00[]", b"version https://git-lfs"]
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = written(tmp_path / "damaged", embeddings=MATRIX)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(Corrupt):
        open_encoder(folder)


def test_a_tokenizer_of_more_tokens_is_found_out(tmp_path: Path) -> None:
    with refusing(BadInput):
        open_encoder(written(tmp_path / "few", embeddings=MATRIX[:5])).sentence_vectors(TEXTS)


def test_metrics_find_it_in_a_home_by_its_name(tmp_path: Path) -> None:
    home = Settings(home=tmp_path / "home")
    folder = written(tmp_path / "static", embedding__weight=MATRIX)
    stored = import_encoder(artefact_stores(home)["encoder"], home.cache, "static", folder)
    assert stored.dimensions == 8
    for metric in ("sentence-cosine", "bertscore"):
        built = build(f"{metric}:vectors=static", source=ModelRegistry(home))
        assert built.settings["vectors"] == stored.spec
    kept = ModelRegistry(home).encoder("static").encoder.sentence_vectors(TEXTS)
    assert kept.tobytes() == open_encoder(folder).sentence_vectors(TEXTS).tobytes()
