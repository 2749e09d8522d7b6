"""A rater's network as two ONNX graphs, one that reads texts and one that judges triplets, and rating with them.

Nothing here imports torch, so that a process with only numpy, ONNX Runtime and SentencePiece can rate. The graphs are
built by hand, since exporting them would take packages that this project does without; a test compares them with the
network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

READER: Final = "reader.onnx"
JUDGE: Final = "judge.onnx"
READ_AT_ONCE: Final = 256  # texts of like length, as `refaug.rater.nn.checkpoint` has them
_OPSET: Final = 17
_IR: Final = 8
_TEXTS: Final = ("utterances", "known", "others")  # of triplets
_PAIRS: Final = ((0, 1), (0, 2), (1, 2))
_GATED: Final = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # torch's weights of three gates each
_WAYS: Final = ("", "_reverse")  # what their names end in for each direction

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


# ── graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_graphs(folder: Path, weights: Mapping[str, Floats]) -> None:
    """Write both graphs of a network, from its weights by the names that torch gives them."""
    import onnx  # noqa: PLC0415  needed for writing only

    for name, graph in ((READER, reader_graph(weights)), (JUDGE, judge_graph(weights))):
        onnx.checker.check_model(graph)
        onnx.save_model(graph, folder / name)


def reader_graph(weights: Mapping[str, Floats]) -> Any:
    """Return the graph from tokens (texts, time) and lengths (texts,) of int32 to vectors (texts, 2 * hidden)."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    ways = [{name: weights[f"reader.{name}_l0{way}"] for name in _GATED} for way in _WAYS]
    constants = {
        "embedding": weights["embedding.weight"],
        "of_inputs": np.stack([_in_order(way["weight_ih"]) for way in ways]),  # (2, 3 * hidden, embedding)
        "of_states": np.stack([_in_order(way["weight_hh"]) for way in ways]),
        "added": np.stack([np.concatenate([_in_order(way["bias_ih"]), _in_order(way["bias_hh"])]) for way in ways]),
        "both": np.array([0, -1], np.int64),
    }
    hidden = ways[0]["weight_hh"].shape[1]
    nodes = [
        helper.make_node("Transpose", ["tokens"], ["by_time"], perm=[1, 0]),
        helper.make_node("Gather", ["embedding", "by_time"], ["read"]),  # (time, texts, embedding)
        helper.make_node(
            "GRU",
            ["read", "of_inputs", "of_states", "added", "lengths"],
            ["", "last"],  # (2, texts, hidden): each way's state after the last piece that it reads
            direction="bidirectional",
            hidden_size=hidden,
            linear_before_reset=1,  # as torch multiplies by the reset gate: after the product with the state
        ),
        helper.make_node("Transpose", ["last"], ["by_text"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["by_text", "both"], ["vectors"]),
    ]
    return _model(
        nodes,
        "reader",
        [
            helper.make_tensor_value_info("tokens", TensorProto.INT64, ["texts", "time"]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["texts"]),
        ],
        helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 2 * hidden]),
        constants,
    )


def _in_order(gates: Floats) -> Floats:
    """Return the rows of the three gates in the order of ONNX, update, reset, new; torch has reset, update, new."""
    reset, update, new = np.split(gates, 3)
    return np.concatenate([update, reset, new])


def judge_graph(weights: Mapping[str, Floats]) -> Any:
    """Return the graph from three vectors of each triplet, each (triplets, 2 * hidden), to logits (triplets, 2)."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    vector = 2 * weights["reader.weight_hh_l0"].shape[1]
    with_products = weights["hidden.0.weight"].shape[1] == (len(_TEXTS) + len(_PAIRS)) * vector
    products = [(f"product_{one}{other}", _TEXTS[one], _TEXTS[other]) for one, other in _PAIRS if with_products]
    nodes = [helper.make_node("Mul", [one, other], [name]) for name, one, other in products]
    nodes.append(helper.make_node("Concat", [*_TEXTS, *(name for name, _, _ in products)], ["state_0"], axis=1))
    layers = [f"hidden.{at}" for at in range(sum(name.startswith("hidden.") for name in weights) // 2)]
    states = [f"state_{at}" for at in range(len(layers) + 1)]
    for layer, (before, after) in zip(layers, pairwise(states), strict=True):
        nodes.append(_linear(layer, before, f"{after}_signed"))
        nodes.append(helper.make_node("Relu", [f"{after}_signed"], [after]))
    nodes.append(_linear("last", states[-1], "logits"))
    constants = {f"{layer}.{of}": weights[f"{layer}.{of}"] for layer in [*layers, "last"] for of in ("weight", "bias")}
    return _model(
        nodes,
        "judge",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["triplets", vector]) for name in _TEXTS],
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["triplets", 2]),
        constants,
    )


def _linear(layer: str, before: str, after: str) -> Any:
    from onnx import helper  # noqa: PLC0415

    return helper.make_node("Gemm", [before, f"{layer}.weight", f"{layer}.bias"], [after], name=layer, transB=1)


def _model(nodes: Sequence[Any], name: str, inputs: Sequence[Any], output: Any, constants: Mapping[str, Any]) -> Any:
    from onnx import helper, numpy_helper  # noqa: PLC0415

    weights = [numpy_helper.from_array(np.ascontiguousarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


# ── rating ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sessions:
    """Both graphs, opened as `refaug.core.vectors.encoder_model` opens those of encoders."""

    reader: Any
    judge: Any

    @classmethod
    def open(cls, folder: Path, *, threads: int) -> Sessions:
        """Open the graphs in a folder."""
        import onnxruntime  # noqa: PLC0415

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.enable_mem_pattern = False  # made for batches of one shape
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        opened = [
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            for name in (READER, JUDGE)
        ]
        return cls(*opened)

    def read(self, tokens: Integers, lengths: Integers) -> Floats:
        """Return vectors (texts, 2 * hidden) of tokens (texts, time)."""
        (vectors,) = self.reader.run(None, {"tokens": tokens, "lengths": lengths.astype(np.int32)})
        return np.asarray(vectors, np.float32)

    def logits_of(self, *vectors: Floats) -> Floats:
        """Return logits (triplets, 2) of three vectors each."""
        (logits,) = self.judge.run(None, dict(zip(_TEXTS, vectors, strict=True)))
        return np.asarray(logits, np.float32)


@dataclass(frozen=True)
class OnnxRater:
    """Rates as `refaug.rater.nn.checkpoint` does with combine=first, every distinct text read once; without a cache."""

    sessions: Sessions
    ids_of: Callable[[list[str]], list[list[int]]]  # texts to piece ids
    unknown: int  # the id that stands for an empty text
    max_tokens: int

    def rate(self, triplets: Sequence[tuple[str, str, str]]) -> NDArray[np.float64]:
        """Return 2 · P(positive) − 1 of every (utterance, gold, candidate)."""
        places = dict[str, int]()
        rows = np.array([[places.setdefault(text, len(places)) for text in triplet] for triplet in triplets])
        vectors = self._vectors(list(places))
        logits = self.sessions.logits_of(*(vectors[rows[:, place]] for place in range(rows.shape[1]))).astype(
            np.float64
        )
        return np.asarray(2 / (1 + np.exp(logits[:, 0] - logits[:, 1])) - 1)  # the softmax of two

    def _vectors(self, texts: list[str]) -> Floats:
        """Return the vector of each text; texts of like length are read together."""
        coded = [ids[: self.max_tokens] or [self.unknown] for ids in self.ids_of(texts)]
        order = sorted(range(len(texts)), key=lambda at: -len(coded[at]))
        parts = [order[begin : begin + READ_AT_ONCE] for begin in range(0, len(order), READ_AT_ONCE)]
        read = [self.sessions.read(*padded([coded[at] for at in part])) for part in parts]
        vectors = np.concatenate(read)
        return np.asarray(vectors[np.argsort(order)])


def padded(coded: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Return piece ids (texts, time), filled up with zeros, and lengths."""
    lengths = np.array([len(ids) for ids in coded], np.int64)
    tokens = np.zeros((len(coded), int(lengths.max())), np.int64)
    for row, ids in enumerate(coded):
        tokens[row, : len(ids)] = ids
    return tokens, lengths
