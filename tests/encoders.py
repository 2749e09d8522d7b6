"""Tiny encoders for tests: real ONNX files with real tokenizers, and what they must answer, computed without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from refaug.core.artefacts.kinds import encodings_in
from refaug.core.vectors.kept_vectors import SentenceVector

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("i", "you", "the", "a", "cat", "dog", "tea", "like", "likes", "drink", "big", "not", "really", ".", "!", "?")
LONGEST = 64  # positions there are


@dataclass(frozen=True)
class TinyEncoder:
    """The weights of a tiny encoder: a token's vector is tanh(word + position + the mean of the text's words)."""

    words: NDArray[np.float32]  # (vocabulary, dimensions)
    positions: NDArray[np.float32]  # (LONGEST, dimensions)
    types: NDArray[np.float32]  # (2, dimensions)

    @classmethod
    def seeded(cls, seed: int = 7, dimensions: int = 12) -> TinyEncoder:
        """Draw the weights."""
        rng = np.random.default_rng(seed)
        sizes = (len(SPECIAL) + len(WORDS), LONGEST, 2)
        return cls(*(rng.normal(size=(size, dimensions)).astype(np.float32) for size in sizes))

    @staticmethod
    def ids(text: str) -> list[int]:
        """The ids of a text whose words and marks are separated by spaces, with [CLS] and [SEP]."""
        vocabulary = {word: place for place, word in enumerate((*SPECIAL, *WORDS))}
        return [vocabulary[token] for token in marked_words(text)]

    def vectors(self, text: str, *, with_types: bool = False) -> NDArray[np.float64]:
        """The vectors of all its tokens, (tokens, dimensions), in float64."""
        words = self.words[self.ids(text)].astype(np.float64)
        hidden = words + self.positions[: len(words)] + words.mean(axis=0)
        vectors: NDArray[np.float64] = np.tanh(hidden + self.types[0] if with_types else hidden)
        return vectors


def marked_words(text: str) -> list[str]:
    """The tokens of a text whose words and marks are separated by spaces."""
    return ["[CLS]", *(word if word in WORDS else "[UNK]" for word in text.lower().split()), "[SEP]"]


def write_tokenizer(path: Path, *, special: bool = True, truncate_at: int | None = None) -> None:
    """Write a tokenizer.json: lower-case words, and [CLS] and [SEP] around every text."""
    tokenizer: Any = Tokenizer(
        WordLevel({word: place for place, word in enumerate((*SPECIAL, *WORDS))}, unk_token="[UNK]")
    )
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    if special:
        marks = [(mark, SPECIAL.index(mark)) for mark in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    if truncate_at is not None:
        tokenizer.enable_truncation(truncate_at)
    tokenizer.save(str(path))


def write_encoder(
    folder: Path,
    *,
    weights: TinyEncoder | None = None,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    outputs: tuple[str, ...] = ("last_hidden_state",),
    integers: int = TensorProto.INT64,
    shape: tuple[int | str, int | str] = ("batch", "sequence"),
    scaled_by_batch: bool = False,
    model: str = "model.onnx",
    external: str | None = None,
) -> Path:
    """Write model and tokenizer.json into a folder.

    Outputs: any name with `pool` or `sentence` in it is (batch, dimensions), the first token's vector doubled; all
    others are the hidden states. `scaled_by_batch` divides by the largest number in the batch, as a model does that is
    quantised on the fly. Without attention_mask among the inputs, padding counts as words.
    """
    weights = weights or TinyEncoder.seeded()
    path = folder / model
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json")
    nodes, constants = _graph(weights, inputs, outputs, scaled_by_batch=scaled_by_batch)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, integers, shape) for name in inputs],
        [_output_info(name, weights.words.shape[1]) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    onnx.save_model(proto, path, save_as_external_data=external is not None, location=external, size_threshold=64)
    return folder


def _output_info(name: str, dimensions: int) -> Any:
    shape: list[str | int | None] = ["batch", dimensions] if _is_sentence(name) else ["batch", "sequence", dimensions]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _is_sentence(output: str) -> bool:
    return "pool" in output or "sentence" in output


def _graph(
    weights: TinyEncoder, inputs: tuple[str, ...], outputs: tuple[str, ...], *, scaled_by_batch: bool
) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """The nodes and the constants they use."""
    constants: dict[str, NDArray[Any]] = {
        "words": weights.words, "positions": weights.positions, "types": weights.types,
        "axis_1": np.array([1]), "axis_2": np.array([2]),
        "first": np.array(0), "one": np.array(1), "two": np.array(2, np.float32),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Gather", ["words", "input_ids"], ["word"]),
        # Ones in the shape of the ids stand in for a mask that is not among the inputs.
        node("Cast", ["input_ids"], ["ids"], to=TensorProto.INT64),
        node("Sub", ["ids", "ids"], ["zeros"]),
        node("Add", ["zeros", "one"], ["ones"]),
        node("Cast", ["attention_mask" if "attention_mask" in inputs else "ones"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "axis_2"], ["mask_3"]),
        node("Mul", ["word", "mask_3"], ["masked"]),
        node("ReduceSum", ["masked", "axis_1"], ["total"], keepdims=1),
        node("ReduceSum", ["mask_3", "axis_1"], ["count"], keepdims=1),
        node("Div", ["total", "count"], ["mean"]),
        node("CumSum", ["ones", "one"], ["places"], exclusive=1),
        node("Gather", ["positions", "places"], ["position"]),
        node("Add", ["word", "position"], ["placed"]),
        node("Add", ["placed", "mean"], ["mixed"]),
    ]
    last = "mixed"
    if "token_type_ids" in inputs:
        nodes += [node("Gather", ["types", "token_type_ids"], ["type"]), node("Add", [last, "type"], ["typed"])]
        last = "typed"
    if scaled_by_batch:
        nodes += [node("ReduceMax", [last], ["largest"], keepdims=0), node("Div", [last, "largest"], ["scaled"])]
        last = "scaled"
    nodes.append(node("Tanh", [last], ["hidden"]))
    nodes += [node("Gather", ["hidden", "first"], ["head"], axis=1), node("Mul", ["head", "two"], ["doubled"])]
    nodes += [node("Identity", ["doubled" if _is_sentence(output) else "hidden"], [output]) for output in outputs]
    return nodes, constants


def keep_texts(cache: Path, texts: Iterable[str]) -> None:
    """Keep a vector for each text in the stores of two encoders of a home."""
    vectors = {text: SentenceVector(np.ones(4, np.float32), False) for text in texts}
    for name in ("one", "other"):
        encodings_in(cache).open(name, 4).put(vectors)


def kept_texts(cache: Path, texts: Iterable[str]) -> set[str]:
    """The texts that any store of a home has a vector for."""
    return {text for name in ("one", "other") for text in encodings_in(cache).open(name, 4).get(list(texts))}


def write_bag_of_words(folder: Path, width: int, *, softmax: bool) -> NDArray[np.float32]:
    """Write a model whose sentence is the mean of its words' rows, with or without a softmax; return the rows."""
    folder.mkdir()
    write_tokenizer(folder / "tokenizer.json")
    rows = np.random.default_rng(3).normal(size=(len(SPECIAL) + len(WORDS), width)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["rows", "input_ids"], ["words"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["weights"]),
        helper.make_node("Mul", ["words", "weights"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "tokens"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["weights", "tokens"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Softmax" if softmax else "Identity", ["mean"], ["sentence_embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bag",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", width])],
        [
            numpy_helper.from_array(rows, "rows"),
            numpy_helper.from_array(np.array([2], np.int64), "last"),
            numpy_helper.from_array(np.array([1], np.int64), "tokens"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    onnx.save_model(proto, folder / "model.onnx")
    return rows
