"""Encoders that a user brings: real ONNX files held to the same arithmetic in numpy."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from encoders import LONGEST, WORDS, TinyEncoder, marked_words, write_encoder, write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from refusals import refusing

from refaug.core.errors import BadInput, MissingPart, Usage
from refaug.core.vectors.encoder_model import _first_line
from refaug.core.vectors.encoders import Encoder, EncoderConfig, OnnxEncoder, of_unit_length, open_encoder

TINY = TinyEncoder.seeded()
TEXTS = ["the cat", "i really like tea !", "the cat", "you", "a big dog . a big dog . a big dog .", "not the zebra ?"]
SENTENCES = st.lists(st.sampled_from([*WORDS, "zebra"]), max_size=20).map(" ".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> OnnxEncoder:
    return open_encoder(folder)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(value))


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def assert_token_vectors(encoder: Encoder, texts: list[str] = TEXTS, *, with_types: bool = False) -> None:
    for text, found in zip(texts, encoder.token_vectors(texts), strict=True):
        assert found.tokens == tuple(marked_words(text))
        np.testing.assert_allclose(found.vectors, TINY.vectors(text, with_types=with_types), atol=1e-6)


def assert_rounded(found: Any, exact: Any) -> None:
    """Compare vectors with unrounded ones, to the precision of a half."""
    np.testing.assert_allclose(found, exact, rtol=6e-4, atol=1e-6)


# Vectors


def test_token_vectors_are_those_of_the_model_in_the_order_given(encoder: OnnxEncoder) -> None:
    assert_token_vectors(encoder)
    found = encoder.token_vectors(["the zebra ."])[0]
    assert found.tokens == ("[CLS]", "the", "[UNK]", ".", "[SEP]")
    assert found.ids.tolist() == TINY.ids("the zebra .")
    assert found.special.tolist() == [True, False, False, False, True]
    assert (str(found.vectors.dtype), found.vectors.shape, found.truncated) == ("float32", (5, 12), False)
    assert encoder.dimensions == 12


def test_a_word_has_another_vector_in_another_context(encoder: OnnxEncoder) -> None:
    one, other = encoder.token_vectors(["the cat .", "the cat !"])
    assert one.tokens[2] == other.tokens[2] == "cat"
    assert np.abs(one.vectors[2] - other.vectors[2]).max() > 0.01


@pytest.mark.parametrize(
    "inputs",
    [
        ("input_ids",),
        ("attention_mask", "input_ids"),
        ("input_ids", "token_type_ids"),
        ("input_ids", "attention_mask", "token_type_ids"),
    ],
)
@pytest.mark.parametrize("integers", [TensorProto.INT64, TensorProto.INT32])
def test_a_model_gets_those_inputs_that_it_has(tmp_path: Path, inputs: tuple[str, ...], integers: int) -> None:
    encoder = open_encoder(write_encoder(tmp_path, inputs=inputs, integers=integers))
    assert_token_vectors(encoder, with_types="token_type_ids" in inputs)


@pytest.mark.parametrize(
    "outputs",
    [
        ("pooler_output", "last_hidden_state"),
        ("states", "last_hidden_state"),
        ("token_embeddings", "sentence_embedding"),
    ],
)
def test_the_hidden_states_are_found_among_other_outputs(tmp_path: Path, outputs: tuple[str, ...]) -> None:
    assert_token_vectors(open_encoder(write_encoder(tmp_path, outputs=outputs)))


@pytest.mark.parametrize("shape", [(1, "sequence"), ("batch", 24), (1, 24)])
def test_a_model_of_fixed_shape_gets_that_shape(tmp_path: Path, shape: tuple[int | str, int | str]) -> None:
    encoder = open_encoder(write_encoder(tmp_path, shape=shape))
    assert_token_vectors(encoder)
    assert encoder.one_by_one is (shape[0] == 1)
    long = encoder.token_vectors(["the dog " * 20])[0]
    assert len(long.tokens) == (42 if shape[1] == "sequence" else 24)


# The same text, the same vector


@settings(max_examples=40, deadline=None)
@given(st.lists(SENTENCES, min_size=1, max_size=12), st.integers(1, 80))
def test_a_text_has_the_same_vectors_in_any_company(folder: Path, texts: list[str], batch_tokens: int) -> None:
    encoder = open_encoder(folder, EncoderConfig(batch_tokens=batch_tokens, cache_bytes=0))
    assert not encoder.one_by_one
    alone = [encoder.token_vectors([text])[0] for text in texts]
    for one, other in zip(alone, encoder.token_vectors(texts), strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)
    expected = np.concatenate([encoder.sentence_vectors([text]) for text in texts])
    np.testing.assert_allclose(encoder.sentence_vectors(texts), expected, atol=1e-5)


@pytest.mark.parametrize("trouble", [{"scaled_by_batch": True}, {"inputs": ("input_ids",)}])
def test_a_model_that_mixes_the_texts_of_a_batch_gets_them_one_by_one(tmp_path: Path, trouble: dict[str, Any]) -> None:
    encoder = open_encoder(write_encoder(tmp_path, **trouble), EncoderConfig(cache_bytes=0))
    assert encoder.one_by_one
    alone = [encoder.token_vectors([text])[0].vectors for text in TEXTS]
    for one, other in zip(alone, encoder.token_vectors(TEXTS), strict=True):
        np.testing.assert_array_equal(one, other.vectors)


def test_threads_share_an_encoder(folder: Path) -> None:
    encoder = open_encoder(folder, EncoderConfig(threads=2, cache_bytes=20_000))
    with ThreadPoolExecutor(4) as pool:
        for texts, found in zip([TEXTS] * 20, pool.map(encoder.token_vectors, [TEXTS] * 20), strict=True):
            for text, one in zip(texts, found, strict=True):
                np.testing.assert_allclose(one.vectors, TINY.vectors(text), atol=1e-6)


# Sentences


def test_sentence_vector_is_the_unit_mean_over_tokens_without_padding(encoder: OnnxEncoder) -> None:
    vectors = encoder.sentence_vectors(TEXTS)
    assert vectors.dtype == np.float32
    assert_rounded(vectors, [unit(TINY.vectors(text).mean(axis=0)) for text in TEXTS])
    np.testing.assert_allclose(np.linalg.norm(of_unit_length(vectors), axis=1), 1, atol=1e-12)


def test_a_sentence_vector_has_the_same_bits_in_a_batch_of_any_size(folder: Path) -> None:
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, size)) for size in rng.integers(1, 20, 64)]
    batch = open_encoder(folder, EncoderConfig(cache_bytes=0)).sentence_vectors(texts)
    one_by_one = open_encoder(folder, EncoderConfig(cache_bytes=0, batch_tokens=1)).sentence_vectors(texts)
    assert batch.tobytes() == one_by_one.tobytes()
    assert batch.astype(np.float16).astype(np.float32).tobytes() == batch.tobytes()


def test_sentence_embedding_output_is_used_and_pooler_output_is_not(tmp_path: Path) -> None:
    own = open_encoder(write_encoder(tmp_path / "own", outputs=("last_hidden_state", "sentence_embedding")))
    # The tiny model's sentence is its first token's vector, doubled.
    assert_rounded(own.sentence_vectors(TEXTS), [unit(TINY.vectors(text)[0]) for text in TEXTS])
    pooler = open_encoder(write_encoder(tmp_path / "pooler", outputs=("last_hidden_state", "pooler_output")))
    mean = [unit(TINY.vectors(text).mean(axis=0)) for text in TEXTS]
    assert_rounded(pooler.sentence_vectors(TEXTS), mean)


def test_a_model_of_sentences_alone_gives_no_token_vectors(tmp_path: Path) -> None:
    encoder = open_encoder(write_encoder(tmp_path, outputs=("pooler_output", "sentence_embedding")))
    assert encoder.sentence_vectors(TEXTS).shape == (6, 12)
    assert encoder.dimensions == 12
    with refusing(BadInput, "pooler_output", "sentence_embedding"):
        encoder.token_vectors(TEXTS)
    with refusing(BadInput):
        open_encoder(tmp_path, EncoderConfig(pooling="mean")).sentence_vectors(TEXTS)


@pytest.mark.parametrize("outputs", [("last_hidden_state",), ("last_hidden_state", "sentence_embedding")])
def test_a_text_without_tokens_of_its_own_has_no_sentence_vector(tmp_path: Path, outputs: tuple[str, ...]) -> None:
    encoder = open_encoder(write_encoder(tmp_path, outputs=outputs))
    texts = ["", "the cat", " \n\t"]
    assert np.isnan(encoder.sentence_vectors(texts)).all(axis=1).tolist() == [True, False, True]
    assert [found.special.tolist() for found in encoder.token_vectors(["", " \n\t"])] == [[True, True]] * 2
    write_tokenizer(tmp_path / "tokenizer.json", special=False)
    bare = open_encoder(tmp_path)
    assert [found.vectors.shape for found in bare.token_vectors(texts)] == [(0, 12), (2, 12), (0, 12)]
    assert np.isnan(bare.sentence_vectors(texts)).all(axis=1).tolist() == [True, False, True]
    assert bare.sentence_vectors([""]).shape == (1, 12)


def test_no_texts_have_no_vectors(encoder: OnnxEncoder) -> None:
    assert encoder.token_vectors([]) == []
    assert encoder.sentence_vectors([]).shape == (0, 12)


def test_lone_surrogates_and_nul_are_unknown_words_and_no_trouble(encoder: OnnxEncoder) -> None:
    found = encoder.token_vectors(["the \ud800 cat", "\0", "the \ufffd cat"])
    assert found[0].tokens == ("[CLS]", "the", "[UNK]", "cat", "[SEP]")
    np.testing.assert_allclose(found[0].vectors, found[2].vectors, atol=1e-6)


# The longest text


def test_what_is_cut_keeps_its_special_tokens_and_is_counted_each_time(folder: Path) -> None:
    encoder = open_encoder(folder, EncoderConfig(max_length=6))
    texts = ["the cat", "the cat likes the dog", "the big cat likes tea", "i like big tea"]
    found = encoder.token_vectors(texts)
    assert [one.truncated for one in found] == [False, True, True, False]
    assert found[1].tokens == ("[CLS]", "the", "cat", "likes", "the", "[SEP]")
    np.testing.assert_allclose(found[1].vectors, TINY.vectors("the cat likes the"), atol=1e-6)
    assert encoder.truncated == 2
    encoder.token_vectors(texts[1:2] * 3)
    assert encoder.truncated == 5
    encoder.sentence_vectors(texts)
    assert encoder.truncated == 7


def test_reading_counts_pieces_and_those_in_no_vocabulary(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    write_tokenizer(folder / "tokenizer.json", truncate_at=6)
    texts = ["i like tea", "i like strange words", "you really like the big big cat", ""]
    reading = open_encoder(folder).reading_of(texts)
    assert reading.is_cut.tolist() == [False, False, True, False]
    assert reading.pieces.tolist() == [3, 4, 4, 0]
    assert reading.unknown.tolist() == [0, 2, 0, 0]


def test_a_length_that_the_model_cannot_take_is_refused(folder: Path, tmp_path: Path) -> None:
    with refusing(Usage) as refused:
        open_encoder(folder, EncoderConfig(max_length=2))
    assert refused.value.remedy == "give at least 3"
    write_json(write_encoder(tmp_path) / "config.json", {"max_position_embeddings": 40})
    with refusing(Usage, "max_length") as refused:
        open_encoder(tmp_path, EncoderConfig(max_length=41))
    assert refused.value.remedy == "give at most 40"


def test_a_text_longer_than_an_unstated_limit_of_the_model_is_explained(encoder: OnnxEncoder) -> None:
    with refusing(BadInput) as refused:
        encoder.token_vectors(["cat " * (LONGEST + 1)])
    assert "max_length" in refused.value.remedy


# Vectors that are asked for again


def test_a_text_asked_for_again_is_not_run_again(folder: Path) -> None:
    encoder = open_encoder(folder)
    first = encoder.token_vectors(["the cat", "you", "the cat"])
    assert first[0] is first[2]
    assert encoder.token_vectors(["you", "a dog"])[0] is first[1]
    assert not first[0].vectors.flags.writeable


def test_kept_vectors_stay_within_their_bytes_and_the_oldest_go_first(folder: Path) -> None:
    sizes = open_encoder(folder)
    sizes.token_vectors(["a cat"])
    room = sizes._cache.size
    encoder = open_encoder(folder, EncoderConfig(cache_bytes=2 * room))
    cat, dog = encoder.token_vectors(["a cat", "a dog"])
    assert encoder._cache.size == 2 * room
    assert encoder.token_vectors(["a cat"])[0] is cat
    encoder.token_vectors(["a tea"])
    assert encoder._cache.size == 2 * room
    assert encoder.token_vectors(["a cat"])[0] is cat
    again = encoder.token_vectors(["a dog"])[0]
    assert again is not dog
    np.testing.assert_array_equal(again.vectors, dog.vectors)
    encoder.token_vectors(["the dog " * 20])  # larger than all the room: nothing is thrown out for it
    assert encoder.token_vectors(["a dog"])[0] is again


def test_without_room_nothing_is_kept(folder: Path) -> None:
    encoder = open_encoder(folder, EncoderConfig(cache_bytes=0))
    assert encoder.token_vectors(["a cat"])[0] is not encoder.token_vectors(["a cat"])[0]
    assert encoder._cache.size == 0


def test_sentences_and_tokens_of_one_text_are_kept_apart(folder: Path) -> None:
    encoder = open_encoder(folder)
    for _ in range(2):
        assert_rounded(encoder.sentence_vectors(["a cat"])[0], unit(TINY.vectors("a cat").mean(axis=0)))
        assert encoder.token_vectors(["a cat"])[0].vectors.shape == (4, 12)


def test_the_version_names_files_settings_and_libraries(encoder: OnnxEncoder) -> None:
    assert re.fullmatch(
        r"model [0-9a-f]{12}, tokenizer [0-9a-f]{12}, pooling mean, at most 512 tokens, "
        r"onnxruntime [0-9.]+, tokenizers [0-9.]+",
        encoder.version,
    )


# What can be wrong


def test_inputs_that_cannot_be_fed_are_named(tmp_path: Path) -> None:
    write_encoder(tmp_path / "more", inputs=("input_ids", "attention_mask", "position_ids"))
    with refusing(BadInput, "position_ids"):
        open_encoder(tmp_path / "more")
    write_encoder(tmp_path / "wide", shape=(4, "sequence"))
    with refusing(BadInput, "input_ids"):
        open_encoder(tmp_path / "wide")


def test_outputs_without_vectors_are_named(tmp_path: Path) -> None:
    write_encoder(tmp_path, outputs=("logits", "pooler_output"))
    with refusing(BadInput, "pooler_output"):
        open_encoder(tmp_path)


def test_a_tokenizer_of_another_model_is_found_out(tmp_path: Path) -> None:
    small = TinyEncoder(TINY.words[:3], TINY.positions, TINY.types)
    with refusing(BadInput) as refused:
        open_encoder(write_encoder(tmp_path, weights=small))
    assert "tokenizer.json" in refused.value.remedy


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_library_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, folder: Path, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with refusing(MissingPart, package) as refused:
        open_encoder(folder)
    assert refused.value.remedy == f"pip install {package}"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_length", 0), ("threads", 0), ("batch_tokens", -1), ("cache_bytes", -1), ("pooling", "max")],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: str, value: Any) -> None:
    settings_given: dict[str, Any] = {setting: value}
    with pytest.raises(Usage) as refused:
        EncoderConfig(**settings_given)
    assert repr(value) in refused.value.message
    assert refused.value.remedy


def test_the_libraries_are_imported_only_on_opening() -> None:
    heavy = ("onnxruntime", "tokenizers")
    code = f"import sys, refaug.core.vectors.encoders; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_messages_of_the_library_are_cut_to_a_line_of_300_characters() -> None:
    assert _first_line(ValueError("a" * 400 + "\nmore")) == "a" * 300
    assert _first_line(ValueError("short\nmore")) == "short"
    assert _first_line(ValueError()) == "ValueError"
