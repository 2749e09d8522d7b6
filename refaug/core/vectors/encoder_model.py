"""An opened encoder: its tokenizer, which turns a text into token ids, and its model, which turns ids into outputs.

The libraries are passed in as modules, since they are imported only when an encoder is opened.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.vectors.encoder_files import read_whole, refuse_pointer

Floats = NDArray[np.float32]

# Texts to ids


@dataclass(frozen=True, eq=False)
class EncodedText:
    """One text as the model takes it, unpadded."""

    tokens: tuple[str, ...]
    ids: NDArray[np.int64]
    type_ids: NDArray[np.int64]
    special: NDArray[np.bool_]
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def has_content(self) -> bool:
        """Whether it has other tokens than those that the tokenizer puts around every text."""
        return not self.special.all()


# The input for trying a model whose tokenizer finds no token in ordinary English.
LEAST = EncodedText(("",), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.bool_), truncated=False)

_SURROGATES = re.compile("[\ud800-\udfff]")


class EncoderTokenizer:
    """A tokenizer.json: texts are truncated to the model's limit, and padding is left to the batches.

    Texts are tokenized one by one: for a batch the library would start as many threads as there are cores.
    """

    def __init__(self, path: Path, library: ModuleType, *, adds_special: bool = True) -> None:
        content = read_whole(path)
        refuse_pointer(path, content)
        self._path, self._adds_special = path, adds_special
        self.sha256 = hashlib.sha256(content).hexdigest()
        with self._errors_as_corrupt():
            self._tokenizer = library.Tokenizer.from_buffer(content)
        truncation, padding = self._tokenizer.truncation, self._tokenizer.padding
        self.stated_max_length: int | None = truncation["max_length"] if truncation else None
        self._direction: str = truncation["direction"] if truncation else "right"
        self.stated_pad_id: int | None = padding["pad_id"] if padding else None
        self._tokenizer.no_padding()
        self.unknown_id = _unknown_id(content, self.id_of)
        self.max_length = 0  # set by truncate_at

    def truncate_at(self, max_length: int) -> None:
        """Truncate longer texts on the side that tokenizer.json names; special tokens stay."""
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_length <= special:
            raise Usage(
                f"max_length={max_length} leaves no room for text beside {special} special tokens",
                remedy=f"give at least {special + 1}",
            )
        self._tokenizer.enable_truncation(max_length, direction=self._direction)
        self.max_length = max_length

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, None if it is not in the vocabulary."""
        token_id: int | None = self._tokenizer.token_to_id(token)
        return token_id

    def tokens_of(self, text: str) -> EncodedText:
        """Return one text's tokens; a lone surrogate, which the library refuses, becomes U+FFFD, as decoders do."""
        with self._errors_as_corrupt():
            plain = text if text.isascii() else _SURROGATES.sub("\ufffd", text)
            encoding = self._tokenizer.encode(plain, add_special_tokens=self._adds_special)
        return EncodedText(
            tokens=tuple(encoding.tokens),
            ids=np.array(encoding.ids, np.int64),
            type_ids=np.array(encoding.type_ids, np.int64),
            special=np.array(encoding.special_tokens_mask, np.bool_),
            truncated=bool(encoding.overflowing),
        )

    def unknown_in(self, text: EncodedText) -> int:
        """Return how many of a text's tokens are the one that stands for whatever is in no vocabulary."""
        return 0 if self.unknown_id is None else int((text.ids == self.unknown_id).sum())

    @contextmanager
    def _errors_as_corrupt(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if type(error) not in {Exception, ValueError}:  # the library has no classes of its own
                raise
            raise Corrupt(
                f"{self._path} is not a tokenizer that can be used: {error}", remedy="save the tokenizer again"
            ) from error


def _unknown_id(tokenizer: bytes, id_of: Callable[[str], int | None]) -> int | None:
    """Return the id that tokenizer.json gives to the unknown, by its place or by its name; None where all is known."""
    model = orjson.loads(tokenizer).get("model", {})
    token = model.get("unk_token")
    return model["unk_id"] if isinstance(model.get("unk_id"), int) else id_of(token) if token is not None else None


# Ids to vectors

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS: Mapping[str, type[np.signedinteger[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")


class OnnxModel:
    """An ONNX graph: its inputs and outputs, and running it on a padded batch."""

    def __init__(self, path: Path, library: ModuleType, *, threads: int) -> None:
        self._path = path
        self._errors = _errors_of(library)
        self._session = self._open(library, threads)
        inputs = self._session.get_inputs()
        self._refuse_other_inputs(inputs)
        self._dtypes = {node.name: _INTEGERS[node.type] for node in inputs}
        rows, length = next(node.shape for node in inputs if node.name == "input_ids")
        self.one_row_only = rows == 1
        self.fixed_length: int | None = length if isinstance(length, int) else None
        self.outputs = ", ".join(f"{node.name} {node.shape}" for node in self._session.get_outputs())
        self.token_output = self._find_token_output()
        self.sentence_output = self._find_output("sentence_embedding", axes=2)
        self.pad_id = 0

    @property
    def outputs_in_use(self) -> list[str]:
        """The names of the outputs, token vectors first."""
        return [output for output in (self.token_output, self.sentence_output) if output is not None]

    def _open(self, library: ModuleType, threads: int) -> Any:
        library.disable_telemetry_events()
        options = library.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = library.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.enable_mem_pattern = False  # meant for batches of one shape
        options.log_severity_level = 4  # errors are raised as well
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            return library.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            raise Corrupt(
                f"ONNX Runtime cannot open {self._path}: {_first_line(error)}",
                remedy="export the model again, or copy it again with all its files",
            ) from error

    def _refuse_other_inputs(self, inputs: Sequence[Any]) -> None:
        strange = [f"{node.name} {node.type}" for node in inputs if not _can_be_fed(node)]
        if strange or "input_ids" not in [node.name for node in inputs]:
            listed = ", ".join(strange or [node.name for node in inputs])
            raise BadInput(
                f"{self._path} has inputs that cannot be fed: {listed}",
                remedy=f"export it with input_ids and any of {', '.join(_INPUTS[1:])}, as (batch, sequence) of int64",
            )

    def _find_token_output(self) -> str | None:
        """Return the output with hidden states: by its name, or else the first of three axes, but no word scores."""
        named = self._find_output("last_hidden_state", axes=3)
        candidates = [node for node in self._session.get_outputs() if len(node.shape) == 3 and node.type in _FLOATS]
        return named or next((node.name for node in candidates if node.name != "logits"), None)

    def _find_output(self, name: str, *, axes: int) -> str | None:
        """Return the output of that name, if it has that many axes or states none (an empty shape)."""
        fitting = (
            node for node in self._session.get_outputs() if len(node.shape) in {0, axes} and node.type in _FLOATS
        )
        return next((node.name for node in fitting if node.name == name), None)

    def run(self, texts: Sequence[EncodedText], output: str) -> Floats:
        """Run one batch: (texts, padded length, dimensions) for token vectors, (texts, dimensions) for sentences."""
        width = self.fixed_length or max(map(len, texts))
        fed = {"input_ids": np.full((len(texts), width), self.pad_id, np.int64)}
        fed["attention_mask"], fed["token_type_ids"] = np.zeros((2, len(texts), width), np.int64)
        for row, text in enumerate(texts):
            fed["input_ids"][row, : len(text)] = text.ids
            fed["attention_mask"][row, : len(text)] = 1
            fed["token_type_ids"][row, : len(text)] = text.type_ids
        try:
            inputs = {name: fed[name].astype(dtype) for name, dtype in self._dtypes.items()}
            (vectors,) = self._session.run([output], inputs)
        except self._errors as error:
            raise BadInput(
                f"{self._path} fails on the ids of its tokenizer: {_first_line(error)}",
                remedy="check that tokenizer.json belongs to the model, and that max_length is not more than it takes",
            ) from error
        expected = (len(texts), width) if output == self.token_output else (len(texts),)
        if vectors.shape[:-1] != expected:
            raise BadInput(
                f"output {output} of {self._path} has the shape {vectors.shape} for {len(texts)} texts of {width} "
                "tokens",
                remedy="export the model with last_hidden_state as (batch, sequence, dimensions)",
            )
        return np.asarray(vectors, np.float32)


def _can_be_fed(node: Any) -> bool:
    """Return whether an input is a known one, of integers, for any number of texts or for one at a time."""
    if node.name not in _INPUTS or node.type not in _INTEGERS or len(node.shape) != 2:
        return False
    rows = node.shape[0]  # a number, or the name or None of an open axis
    return rows == 1 or not isinstance(rows, int)


def _errors_of(library: ModuleType) -> tuple[type[Exception], ...]:
    """Return every error class of ONNX Runtime; they have no class in common but Exception."""
    state = importlib.import_module(f"{library.__name__}.capi.onnxruntime_pybind11_state")
    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
