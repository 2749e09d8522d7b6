"""The files of an encoder: what is found in a folder, what they say of its use, and all that can be wrong with them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import orjson
import pytest
from encoders import LONGEST, SPECIAL, TinyEncoder, marked_words, write_encoder, write_tokenizer
from refusals import refusing

from refaug.core.errors import BadInput, Corrupt, NotFound
from refaug.core.vectors.encoder_files import EncoderFiles, operations_of, stated_licence
from refaug.core.vectors.encoders import Encoder, EncoderConfig, open_encoder

TINY = TinyEncoder.seeded()
TEXTS = ["the cat", "i really like tea !", "a big dog . a big dog . a big dog ."]


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(value))


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def assert_token_vectors(encoder: Encoder) -> None:
    for text, found in zip(TEXTS, encoder.token_vectors(TEXTS), strict=True):
        assert found.tokens == tuple(marked_words(text))
        np.testing.assert_allclose(found.vectors, TINY.vectors(text), atol=1e-6)


# Files and names


def test_every_layout_of_an_export_is_opened_under_the_same_name(tmp_path: Path) -> None:
    flat = write_encoder(tmp_path / "flat" / "tiny")
    nested = write_encoder(tmp_path / "nested" / "tiny", model="onnx/model.onnx")
    both = write_encoder(tmp_path / "both" / "tiny", model="onnx/model.onnx")
    shutil.copy(both / "tokenizer.json", both / "onnx" / "tokenizer.json")
    paths = [flat, flat / "model.onnx", nested, nested / "onnx" / "model.onnx", both, both / "onnx"]
    assert len({open_encoder(path).name for path in paths}) == 1
    assert re.fullmatch(r"tiny#[0-9a-f]{12}", open_encoder(flat).name)


@pytest.mark.parametrize(
    ("folder", "model", "stem"),
    [
        ("tiny", "small.onnx", "small"),
        ("tiny", "model_quantized.onnx", "tiny"),
        ("tiny", "onnx/model_O3.onnx", "tiny"),
        ("Größe 小", "model.onnx", "Gr--e--"),
    ],
)
def test_an_encoder_is_named_after_its_file_or_folder_in_ascii(
    tmp_path: Path, folder: str, model: str, stem: str
) -> None:
    name = open_encoder(write_encoder(tmp_path / folder, model=model) / model).name
    assert re.fullmatch(re.escape(stem) + "#[0-9a-f]{12}", name)


def test_whatever_changes_the_vectors_changes_the_name(tmp_path: Path) -> None:
    def name_of(folder: str, config: EncoderConfig | None = None, **settings: Any) -> str:
        path = tmp_path / folder / "tiny"
        return open_encoder(path if path.exists() else write_encoder(path, **settings), config).name

    names = [
        name_of("plain"),
        name_of("plain", EncoderConfig(pooling="cls")),
        name_of("plain", EncoderConfig(max_length=20)),
        name_of("other", weights=TinyEncoder.seeded(8)),
        name_of("external", external="model.onnx_data"),
        name_of("external 8", external="model.onnx_data", weights=TinyEncoder.seeded(8)),
        name_of("renamed", external="weights of it.bin"),
    ]
    write_tokenizer(write_encoder(tmp_path / "bare" / "tiny") / "tokenizer.json", special=False)
    names.append(name_of("bare"))
    assert len(set(names)) == len(names)
    assert name_of("plain", EncoderConfig(threads=2, batch_tokens=9, cache_bytes=0, pooling="mean")) == names[0]


def test_weights_beside_the_model_are_part_of_it(tmp_path: Path) -> None:
    encoder = open_encoder(write_encoder(tmp_path / "tiny", external="model.onnx_data"))
    assert_token_vectors(encoder)
    data = tmp_path / "tiny" / "model.onnx_data"
    data.write_bytes(bytes(8) + data.read_bytes()[8:])
    assert open_encoder(tmp_path / "tiny").name != encoder.name
    data.unlink()
    with refusing(NotFound, "model.onnx_data"):
        open_encoder(tmp_path / "tiny")


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path, external="model.onnx_data")
    path = tmp_path / "model.onnx"
    path.write_bytes(path.read_bytes().replace(b"model.onnx_data", b"../l.onnx_data_"))
    with refusing(Corrupt):
        open_encoder(tmp_path)


# What is missing or damaged


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refusing(NotFound) as refused:
        open_encoder(tmp_path / "nowhere\0")
    assert all(fact in refused.value.remedy for fact in ("onnx/model.onnx", "tokenizer.json"))
    with refusing(NotFound, "onnx/model.onnx"):
        open_encoder(tmp_path)
    write_encoder(tmp_path, model="onnx/model_int8.onnx")
    with pytest.raises(NotFound) as refused:
        open_encoder(tmp_path)
    assert "onnx/model_int8.onnx" in refused.value.remedy
    (tmp_path / "tokenizer.json").unlink()
    with refusing(NotFound, "model_int8.onnx", "tokenizer.json"):
        open_encoder(tmp_path / "onnx" / "model_int8.onnx")


def test_other_models_are_searched_one_folder_deep_and_five_are_named(tmp_path: Path) -> None:
    for name in ("b.onnx", "a.onnx", "onnx/model_O1.onnx", "onnx/model_O2.onnx", "other/c.onnx", "other/d.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotFound) as refused:
        EncoderFiles.find(tmp_path)
    five = "a.onnx, b.onnx, onnx/model_O1.onnx, onnx/model_O2.onnx, other/c.onnx"
    assert refused.value.remedy == f"give the path of the file itself: {five} … (6 in all)"
    deep = tmp_path / "deep" / "er" / "est" / "e.onnx"
    deep.parent.mkdir(parents=True)
    deep.touch()
    with pytest.raises(NotFound) as refused:
        EncoderFiles.find(tmp_path / "deep")
    assert "optimum-cli export onnx --model FOLDER EXPORTED" in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.onnx", b"", "is empty"),
        ("model.onnx", b"not a model at all\n" * 30, "ONNX Runtime cannot open"),
        ("model.onnx", None, "ONNX Runtime cannot open"),
        ("model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "only a Git LFS pointer"),
        ("tokenizer.json", b"", "is not a tokenizer that can be used"),
        ("tokenizer.json", b"{}", "is not a tokenizer that can be used"),
        ("tokenizer.json", None, "is not a tokenizer that can be used"),
        ("tokenizer.json", b"\xff\xfe", "is not a tokenizer that can be used"),
        ("tokenizer.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "only a Git LFS pointer"),
        ("config.json", b"{", "config.json"),
        ("config.json", b"[]", "does not hold a JSON object"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str, content: bytes | None, message: str
) -> None:
    path = write_encoder(tmp_path) / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)
    with refusing(Corrupt, message) as refused:
        open_encoder(tmp_path)
    assert file in refused.value.message
    assert capfd.readouterr().err == ""


# What the small files say


@pytest.mark.parametrize(
    ("tokenizer_limit", "files", "expected"),
    [
        (None, {}, 512),
        (9, {}, 9),
        (None, {"tokenizer_config.json": {"model_max_length": 11}}, 11),
        (None, {"tokenizer_config.json": {"model_max_length": 10**30}}, 512),
        (None, {"config.json": {"max_position_embeddings": 40}}, 40),
        (None, {"config.json": {"max_position_embeddings": 42, "model_type": "roberta", "pad_token_id": 1}}, 40),
        (None, {"config.json": {"max_position_embeddings": 42, "model_type": "mpnet", "pad_token_id": None}}, 40),
        (9, {"config.json": {"max_position_embeddings": 40}, "tokenizer_config.json": {"model_max_length": 30}}, 9),
        (99, {"config.json": {"max_position_embeddings": 40}, "tokenizer_config.json": {"model_max_length": 30}}, 30),
    ],
)
def test_the_longest_text_is_the_smallest_limit_stated(
    tmp_path: Path, tokenizer_limit: int | None, files: dict[str, Any], expected: int
) -> None:
    write_encoder(tmp_path)
    write_tokenizer(tmp_path / "tokenizer.json", truncate_at=tokenizer_limit)
    for name, content in files.items():
        (tmp_path / name).write_text(str(content).replace("'", '"').replace("None", "null"))
    encoder = open_encoder(tmp_path)
    assert f"at most {expected} tokens" in encoder.version
    if expected <= LONGEST:
        assert len(encoder.token_vectors(["cat " * 99])[0].tokens) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, SPECIAL.index("[PAD]")),
        ({"tokenizer_config.json": {"pad_token": "[UNK]"}}, SPECIAL.index("[UNK]")),
        ({"tokenizer_config.json": {"pad_token": {"content": "[SEP]"}}}, SPECIAL.index("[SEP]")),
        ({"config.json": {"pad_token_id": 7}}, SPECIAL.index("[PAD]")),
        ({"tokenizer_config.json": {"pad_token": "[none]"}, "config.json": {"pad_token_id": 7}}, 0),
    ],
)
def test_short_texts_are_filled_up_with_the_padding_of_the_tokenizer(
    tmp_path: Path, files: dict[str, Any], expected: int
) -> None:
    write_encoder(tmp_path)
    for name, content in files.items():
        write_json(tmp_path / name, content)
    assert open_encoder(tmp_path)._model.pad_id == expected


def test_a_tokenizer_that_pads_says_with_what_and_is_kept_from_padding(tmp_path: Path) -> None:
    write_encoder(tmp_path)
    path = tmp_path / "tokenizer.json"
    stated = orjson.loads(path.read_bytes())
    stated["padding"] = {
        "strategy": {"Fixed": 30}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 2, "pad_type_id": 0, "pad_token": "[CLS]",
    }  # fmt: skip
    write_json(path, stated)
    encoder = open_encoder(tmp_path)
    assert encoder._model.pad_id == 2
    assert_token_vectors(encoder)


@pytest.mark.parametrize(
    ("settings_of_pooling", "first_token"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, True),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, False),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, False),
        ({"pooling_mode": "cls"}, True),
        ({"pooling_mode": ["mean"]}, False),
        ({"word_embedding_dimension": 12}, False),
    ],
)
def test_pooling_follows_the_folder_and_can_be_chosen(
    tmp_path: Path, settings_of_pooling: dict[str, Any], first_token: bool
) -> None:
    write_encoder(tmp_path)
    write_json(tmp_path / "1_Pooling/config.json", settings_of_pooling)
    write_json(
        tmp_path / "modules.json",
        [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")],
    )
    first = [unit(TINY.vectors(text)[0]) for text in TEXTS]
    mean = [unit(TINY.vectors(text).mean(axis=0)) for text in TEXTS]
    automatic = open_encoder(tmp_path).sentence_vectors(TEXTS)
    np.testing.assert_allclose(automatic, first if first_token else mean, rtol=6e-4, atol=1e-6)
    for config, expected in ((EncoderConfig(pooling="cls"), first), (EncoderConfig(pooling="mean"), mean)):
        chosen = open_encoder(tmp_path, config).sentence_vectors(TEXTS)
        np.testing.assert_allclose(chosen, expected, rtol=6e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max_tokens"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "mean_tokens"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense"),
    ],
)
def test_a_pooling_we_do_not_have_is_refused_to_who_asks_for_sentences(
    tmp_path: Path, file: str, content: Any, named: str
) -> None:
    write_json(write_encoder(tmp_path) / file, content)
    encoder = open_encoder(tmp_path)
    assert_token_vectors(encoder)
    with refusing(BadInput, named) as refused:
        encoder.sentence_vectors(["the cat"])
    assert "choose the pooling mean or cls" in refused.value.remedy
    assert open_encoder(tmp_path, EncoderConfig(pooling="mean")).sentence_vectors(["the cat"]).shape == (1, 12)


# Operations of the graph, licence, unknown words


def test_the_operations_of_a_graph_are_counted_as_onnx_counts_them(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path, external="model.onnx_data")
    graph = onnx.load(folder / "model.onnx").graph
    assert operations_of(folder / "model.onnx") == dict(sorted(Counter(node.op_type for node in graph.node).items()))
    (tmp_path / "text.onnx").write_bytes(b"\xff" * 40)
    with refusing(Corrupt):
        operations_of(tmp_path / "text.onnx")


@pytest.mark.parametrize(
    ("file", "content", "licence"),
    [
        ("README.md", "---\ntags:\n- x\nlicense: Apache-2.0\n---\n# A model\nlicense: mit\n", "apache-2.0"),
        ("README.md", "# A model\n", "unknown"),
        ("LICENSE", "MIT License\n\nCopyright", "mit"),
        ("LICENSE.txt", "All rights reserved", "unknown"),
        ("config.json", "{}", "unknown"),
    ],
)
def test_the_licence_is_what_the_folder_states(tmp_path: Path, file: str, content: str, licence: str) -> None:
    (tmp_path / file).write_text(content)
    assert stated_licence(tmp_path) == licence


def test_pooling_and_length_are_those_of_the_folder(tmp_path: Path) -> None:
    encoder = open_encoder(write_encoder(tmp_path))
    assert (encoder.pooling, encoder.max_length) == ("mean", 512)
