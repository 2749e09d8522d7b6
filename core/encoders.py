"""The one interface for encoders that a user brings: texts to token vectors and sentence vectors, by ONNX Runtime.

An encoder is a folder as Hugging Face and Optimum export it: `model.onnx` (or `onnx/model.onnx`) with `tokenizer.json`,
and, where they are there, the small files that say how the model is meant to be used. Nothing is fetched from anywhere.
The libraries are imported when an encoder is opened.
"""

from __future__ import annotations

import hashlib
import importlib
import mmap
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

import numpy as np
import orjson
from numpy.typing import NDArray

from core.errors import BadInput, Corrupt, MissingPart, NotFound, Usage
from core.files import sha256_of

Floats = NDArray[np.float32]

# What an encoder is


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The tokens of one text, and what the encoder makes of each of them in its context.

    Special are the tokens that the tokenizer puts around every text ([CLS], [SEP], <s>, </s> …).
    """

    tokens: tuple[str, ...]
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    vectors: Floats  # (tokens, dimensions), as the model gives them: not of unit length
    truncated: bool = False

    @property
    def nbytes(self) -> int:
        """The memory it takes, about."""
        strings = sum(_STRING_BYTES + len(token) for token in self.tokens)
        return self.vectors.nbytes + self.ids.nbytes + self.special.nbytes + strings


class Encoder(Protocol):
    """Texts to vectors, under a name that stands for exactly these vectors."""

    @property
    def name(self) -> str:
        """What manifests and signatures call it; ASCII."""
        ...

    @property
    def version(self) -> str:
        """The files, settings and libraries that decide its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a token's vector; of a sentence's, where the model gives nothing for tokens."""
        ...

    @property
    def truncated(self) -> int:
        """How many of the texts handed in so far were too long and lost their end; one handed in twice counts twice."""
        ...

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Give the tokens of each text with their vectors, in order."""
        ...

    def sentence_vectors(self, texts: Sequence[str]) -> Floats:
        """Give a unit vector for each text, (texts, dimensions); NaN for a text that has no tokens of its own."""
        ...


PoolingChoice = Literal["auto", "mean", "cls"]
_Pooling = Literal["output", "mean", "cls"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How an encoder is used.

    `pooling` makes one vector of a sentence's token vectors: `mean` over all its tokens, `cls` takes the first; `auto`
    is the model's output `sentence_embedding` where it has one, then what `1_Pooling/config.json` says, then `mean`.
    `max_length` counts tokens, special ones too; None is the smallest limit that the encoder's files state, or 512.
    A batch is at most `batch_tokens` large with its padding, and never less than one text. `cache_bytes` bounds the
    vectors that are kept for texts that come again; 0 keeps none.
    """

    pooling: PoolingChoice = "auto"
    max_length: int | None = None
    threads: int = 1
    batch_tokens: int = 1024
    cache_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        if self.pooling not in get_args(PoolingChoice):
            raise Usage(
                f"no pooling is called {self.pooling!r}", remedy=f"one of: {', '.join(get_args(PoolingChoice))}"
            )
        limits = {"max_length": 1, "threads": 1, "batch_tokens": 1, "cache_bytes": 0}
        for name, least in limits.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise Usage(f"{name}={value!r} makes no sense for an encoder", remedy=f"give at least {least}")


def open_encoder(path: Path, config: EncoderConfig | None = None) -> OnnxEncoder:
    """Open the encoder in a folder, or of a .onnx file that has its tokenizer.json beside it."""
    return OnnxEncoder.open(path, config or EncoderConfig())


# The files


@dataclass(frozen=True)
class _Files:
    """Where an encoder's files lie; `root` is the folder above `onnx/`, where Hugging Face keeps the settings."""

    model: Path
    tokenizer: Path
    root: Path

    @classmethod
    def find(cls, path: Path) -> Self:
        given = Path(os.path.abspath(path))  # noqa: PTH100  a link's own name is kept
        model = _model_file(given)
        root = model.parent.parent if model.parent.name == "onnx" else model.parent
        for folder in (model.parent, root):
            if (folder / "tokenizer.json").is_file():
                return cls(model, folder / "tokenizer.json", root)
        raise NotFound(
            f"the encoder {model} has no tokenizer.json beside it",
            remedy="save the tokenizer as tokenizer.json (the format of the tokenizers library) in the model's folder",
        )

    @property
    def stem(self) -> str:
        """The name in front of the hash: the folder's for a model that is called just `model`, else the file's."""
        stem = self.root.name if self.model.stem.startswith("model") else self.model.stem
        return re.sub(r"[^A-Za-z0-9._-]", "-", stem) or "encoder"

    def settings(self, name: str) -> Any:
        """Read one of the small JSON files; None where it is missing."""
        for path in (self.tokenizer.parent / name, self.root / name):
            if path.is_file():
                try:
                    return orjson.loads(_read(path))
                except orjson.JSONDecodeError as error:
                    raise Corrupt(f"{path} is not JSON: {error}", remedy="copy the encoder's files again") from error
        return None

    def settings_object(self, name: str) -> Mapping[str, Any]:
        """Read one of the small JSON files that hold an object; empty where it is missing."""
        found = self.settings(name)
        if found is not None and not isinstance(found, dict):
            raise Corrupt(f"{name} of {self.root} holds no JSON object", remedy="copy the encoder's files again")
        return found or {}


def _model_file(given: Path) -> Path:
    if given.is_file():
        return given
    for candidate in (given / "model.onnx", given / "onnx" / "model.onnx"):
        if candidate.is_file():
            return candidate
    if not given.is_dir():
        raise NotFound(
            f"there is no encoder at {str(given)!r}",
            remedy="give a folder with model.onnx (or onnx/model.onnx) and tokenizer.json, or the .onnx file itself",
        )
    others = sorted(str(found.relative_to(given)) for found in given.glob("**/*.onnx"))
    raise NotFound(
        f"{given} has neither model.onnx nor onnx/model.onnx",
        remedy=f"give the path of the file itself: {', '.join(others)}" if others else "export the model to ONNX",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _file_hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> NotFound:
    return NotFound(f"cannot read {path}: {error.strerror or error}", remedy="an encoder needs all of its files")


# How a weight names the file that holds it (onnx.proto: StringStringEntryProto in TensorProto.external_data), as it is
# stored: field 1 "location", field 2 with its length as a varint.
_LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]{0,4}[\x00-\x7f])")
_GIT_LFS_POINTER = b"version https://git-lfs"


def _external_data(model: Path) -> list[Path]:
    """Find the files that hold weights of the model (model.onnx_data …): they are as much the model as it is."""
    try:
        with model.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise Corrupt(f"{model} is empty", remedy="export the model again, or copy it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _refuse_pointer(model, content[: len(_GIT_LFS_POINTER)])
                locations = {_location(content, found) for found in _LOCATION.finditer(content)}
    except OSError as error:
        raise _unreadable(model, error) from error
    return [_beside(model, location) for location in sorted(locations)]


def _refuse_pointer(path: Path, start: bytes) -> None:
    if start.startswith(_GIT_LFS_POINTER):
        raise Corrupt(f"{path} is only a Git LFS pointer to the file", remedy="run `git lfs pull` in its folder")


def _location(content: mmap.mmap, found: re.Match[bytes]) -> str:
    length = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(found[1]))
    return content[found.end() : found.end() + length].decode("utf-8", "replace")


def _beside(model: Path, location: str) -> Path:
    """Give the path of a file with weights; ONNX wants it in the model's folder or below."""
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise Corrupt(f"{model} keeps weights outside its folder, in {location!r}", remedy="export the model again")
    path = model.parent / location
    if not path.is_file():
        raise NotFound(f"{model} keeps weights in {location!r}, which is not there", remedy="copy that file as well")
    return path


def _imported(package: str) -> ModuleType:
    """Import a library that only encoders need, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPart(
            f"encoders need the package {package}, which cannot be imported: {error}", remedy=f"pip install {package}"
        ) from error


# Texts to ids


@dataclass(frozen=True, eq=False)
class _Tokens:
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
        """Whether it has tokens of its own, which the tokenizer does not put around every text."""
        return not self.special.all()


# What a model is tried on when its tokenizer finds no token in ordinary English.
_LEAST = _Tokens(("",), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.bool_), truncated=False)

_SURROGATES = re.compile("[\ud800-\udfff]")


class _Tokenizer:
    """A tokenizer.json: the text is cut to the longest that the model takes, and padding is left to the batches.

    Texts go in one by one: in a batch the library would start threads of its own, as many as there are cores.
    """

    def __init__(self, path: Path, library: ModuleType) -> None:
        content = _read(path)
        _refuse_pointer(path, content)
        self._path = path
        self.sha256 = hashlib.sha256(content).hexdigest()
        with self._trouble_is_corrupt():
            self._tokenizer = library.Tokenizer.from_buffer(content)
        truncation, padding = self._tokenizer.truncation, self._tokenizer.padding
        self.stated_max_length: int | None = truncation["max_length"] if truncation else None
        self._direction: str = truncation["direction"] if truncation else "right"
        self.stated_pad_id: int | None = padding["pad_id"] if padding else None
        self._tokenizer.no_padding()

    def truncate_at(self, max_length: int) -> None:
        """Cut what is longer, on the side that tokenizer.json names; special tokens stay."""
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_length <= special:
            raise Usage(
                f"max_length={max_length} leaves no room for text beside {special} special tokens",
                remedy=f"give at least {special + 1}",
            )
        self._tokenizer.enable_truncation(max_length, direction=self._direction)

    def id_of(self, token: str) -> int | None:
        """Give the id of a token, None for one that is not in the vocabulary."""
        found: int | None = self._tokenizer.token_to_id(token)
        return found

    def tokens_of(self, text: str) -> _Tokens:
        """Give one text's tokens; a lone surrogate, which the library refuses, becomes U+FFFD, as decoders do."""
        with self._trouble_is_corrupt():
            encoding = self._tokenizer.encode(text if text.isascii() else _SURROGATES.sub("\ufffd", text))
        return _Tokens(
            tokens=tuple(encoding.tokens),
            ids=np.array(encoding.ids, np.int64),
            type_ids=np.array(encoding.type_ids, np.int64),
            special=np.array(encoding.special_tokens_mask, np.bool_),
            truncated=bool(encoding.overflowing),
        )

    @contextmanager
    def _trouble_is_corrupt(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if type(error) not in {Exception, ValueError}:  # what the library raises, the first for want of its own
                raise
            raise Corrupt(
                f"{self._path} is no tokenizer that can be used: {error}", remedy="save the tokenizer again"
            ) from error


# Position ids of these start behind the id of padding, so that their table is longer than any text may be.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta"}
    | {"xlm-roberta-xl", "xmod"}
)
_DEFAULT_MAX_LENGTH = 512
_NOT_A_LIMIT = 10**6  # tokenizer_config.json has 10^30 where nothing was decided


def _stated_positions(settings: Mapping[str, Any]) -> int | None:
    """How many tokens the model of this config.json has positions for."""
    positions = settings.get("max_position_embeddings")
    if not isinstance(positions, int) or positions <= 0:
        return None
    pad_id = settings.get("pad_token_id")
    offset = (pad_id if isinstance(pad_id, int) else 1) + 1
    return positions - offset if settings.get("model_type") in _OFFSET_POSITIONS else positions


def _max_length(files: _Files, tokenizer: _Tokenizer, model: _Model, asked: int | None) -> int:
    """The longest text in tokens: what was asked for if the model can take it, else the smallest limit stated."""
    positions = _stated_positions(files.settings_object("config.json"))
    hard = [limit for limit in (positions, model.fixed_length) if limit is not None]
    if asked is not None:
        if hard and asked > min(hard):
            raise Usage(f"max_length={asked} is more than {files.model} takes", remedy=f"give at most {min(hard)}")
        return asked
    soft = [tokenizer.stated_max_length, files.settings_object("tokenizer_config.json").get("model_max_length")]
    stated = [int(limit) for limit in soft if isinstance(limit, int | float) and 0 < limit < _NOT_A_LIMIT]
    return min([*hard, *stated], default=_DEFAULT_MAX_LENGTH)


def _pad_id(files: _Files, tokenizer: _Tokenizer) -> int:
    """The id to fill up short texts with; the attention mask hides it, but some models count positions by it."""
    if tokenizer.stated_pad_id is not None:
        return tokenizer.stated_pad_id
    token = files.settings_object("tokenizer_config.json").get("pad_token")
    token = token.get("content") if isinstance(token, dict) else token
    known = [tokenizer.id_of(name) for name in (token, "[PAD]", "<pad>") if isinstance(name, str)]
    known.append(files.settings_object("config.json").get("pad_token_id"))
    return next((pad_id for pad_id in known if isinstance(pad_id, int)), 0)


# Ids to vectors

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS: Mapping[str, type[np.signedinteger[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")


class _Model:
    """An ONNX graph: which of its inputs and outputs are ours, and running it on a padded batch."""

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
        """Token vectors first."""
        return [output for output in (self.token_output, self.sentence_output) if output is not None]

    def _open(self, library: ModuleType, threads: int) -> Any:
        library.disable_telemetry_events()
        options = library.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = library.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.enable_mem_pattern = False  # made for batches of one shape
        options.log_severity_level = 4  # what goes wrong is raised as well
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
        """The hidden states: by their name, or else the first output of three axes; scores of words are none."""
        named = self._find_output("last_hidden_state", axes=3)
        others = [node for node in self._session.get_outputs() if len(node.shape) == 3 and node.type in _FLOATS]
        return named or next((node.name for node in others if node.name != "logits"), None)

    def _find_output(self, name: str, *, axes: int) -> str | None:
        """The output of that name, if it has that many axes or does not say (an empty shape)."""
        fitting = (
            node for node in self._session.get_outputs() if len(node.shape) in {0, axes} and node.type in _FLOATS
        )
        return next((node.name for node in fitting if node.name == name), None)

    def run(self, texts: Sequence[_Tokens], output: str) -> Floats:
        """Run one batch: (texts, padded length, dimensions) for token vectors, (texts, dimensions) for sentences."""
        width = self.fixed_length or max(map(len, texts))
        fed = {"input_ids": np.full((len(texts), width), self.pad_id, np.int64)}
        fed["attention_mask"], fed["token_type_ids"] = np.zeros((2, len(texts), width), np.int64)
        for row, text in enumerate(texts):
            fed["input_ids"][row, : len(text)] = text.ids
            fed["attention_mask"][row, : len(text)] = 1
            fed["token_type_ids"][row, : len(text)] = text.type_ids
        try:
            (found,) = self._session.run([output], {name: fed[name].astype(to) for name, to in self._dtypes.items()})
        except self._errors as error:
            raise BadInput(
                f"{self._path} fails on the ids of its tokenizer: {_first_line(error)}",
                remedy="check that tokenizer.json belongs to the model, and that max_length is not more than it takes",
            ) from error
        expected = (len(texts), width) if output == self.token_output else (len(texts),)
        if found.shape[:-1] != expected:
            raise BadInput(
                f"output {output} of {self._path} has the shape {found.shape} for {len(texts)} texts of {width} tokens",
                remedy="export the model with last_hidden_state as (batch, sequence, dimensions)",
            )
        return np.asarray(found, np.float32)


def _can_be_fed(node: Any) -> bool:
    """Whether an input is one of ours, of integers, for any number of texts or for one at a time."""
    if node.name not in _INPUTS or node.type not in _INTEGERS or len(node.shape) != 2:
        return False
    rows = node.shape[0]  # a number, or the name or None of an axis that is open
    return rows == 1 or not isinstance(rows, int)


def _errors_of(library: ModuleType) -> tuple[type[Exception], ...]:
    """Every error that ONNX Runtime raises: they have no class in common but Exception."""
    state = importlib.import_module(f"{library.__name__}.capi.onnxruntime_pybind11_state")
    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


# Sentence vectors


@dataclass(frozen=True, eq=False)
class _SentenceVector:
    vector: Floats
    truncated: bool

    @property
    def nbytes(self) -> int:
        return self.vector.nbytes


# How sentence-transformers names what we can do; scaled to unit length, its mean over √length is the mean.
_POOLING_NAMES: Mapping[str, _Pooling] = {
    "mean": "mean",
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "cls": "cls",
    "cls_token": "cls",
}
_MODULES = frozenset({"Transformer", "Pooling", "Normalize", "Dropout"})


@dataclass(frozen=True)
class _PoolingPlan:
    """How sentence vectors are made, or why they cannot be: only who asks for one is told so."""

    way: _Pooling | None
    trouble: str = ""


def _plan_pooling(files: _Files, model: _Model, asked: PoolingChoice) -> _PoolingPlan:
    if asked == "auto" and model.sentence_output is not None:
        return _PoolingPlan("output")
    if model.token_output is None:
        return _PoolingPlan(None, f"it gives no token vectors to pool; its outputs are {model.outputs}")
    if asked != "auto":
        return _PoolingPlan(asked)
    modules = files.settings("modules.json")
    kinds = [str(module.get("type")).rsplit(".", 1)[-1] for module in modules or [] if isinstance(module, dict)]
    further = [kind for kind in kinds if kind not in _MODULES]
    if further:
        return _PoolingPlan(None, f"modules.json puts {', '.join(further)} behind the model, not in its ONNX file")
    names = _pooling_names(files.settings_object("1_Pooling/config.json"))
    if len(names) == 1 and names[0] in _POOLING_NAMES:
        return _PoolingPlan(_POOLING_NAMES[names[0]])
    return _PoolingPlan(None, f"1_Pooling/config.json asks for {', '.join(names)}") if names else _PoolingPlan("mean")


def _pooling_names(settings: Mapping[str, Any]) -> list[str]:
    """What a pooling's configuration switches on: one key a way, or, in newer ones, one key for all."""
    chosen = settings.get("pooling_mode", [])
    prefix = "pooling_mode_"
    switched = [key.removeprefix(prefix) for key, value in settings.items() if key.startswith(prefix) and value is True]
    return [*switched, *(chosen if isinstance(chosen, list) else [str(chosen)])]


def _unit(vector: NDArray[np.floating[Any]]) -> Floats:
    exact = vector.astype(np.float64)
    length = np.sqrt(exact @ exact)
    return (exact / length if length > 0 else np.full_like(exact, np.nan)).astype(np.float32)


# Vectors that are asked for again

_STRING_BYTES = 64
_ENTRY_BYTES = 512  # the objects around the arrays
_Vectors = TypeVar("_Vectors", TokenVectors, _SentenceVector)


class _Cache:
    """The vectors used last, of as many texts as fit into so many bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[tuple[type, str], TokenVectors | _SentenceVector] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0

    def get(self, kind: type[_Vectors], text: str) -> _Vectors | None:
        with self._lock:
            found = self._entries.get((kind, text))
            if not isinstance(found, kind):
                return None
            self._entries.move_to_end((kind, text))
            return found

    def put(self, text: str, vectors: TokenVectors | _SentenceVector) -> None:
        """Keep the vectors of a text, and forget those unused for longest; what is too large alone is not kept."""
        key = (type(vectors), text)
        with self._lock:
            if key in self._entries or _entry_bytes(text, vectors) > self._capacity:
                return
            self._entries[key] = vectors
            self.nbytes += _entry_bytes(text, vectors)
            while self.nbytes > self._capacity:
                (_, oldest_text), oldest = self._entries.popitem(last=False)
                self.nbytes -= _entry_bytes(oldest_text, oldest)


def _entry_bytes(text: str, vectors: TokenVectors | _SentenceVector) -> int:
    return vectors.nbytes + sys.getsizeof(text) + _ENTRY_BYTES


# The encoder

_SAME = 1e-5  # how far a vector may be from itself in another batch, relative to its length
_PROBES = ("yes", "Where did you go last summer, and what was it like there? We have not heard from you since.")


class OnnxEncoder:
    """A model in ONNX's format with its tokenizer, run on the CPU.

    A text has the same vectors, within 1e-5 of their length, whatever else is in its batch. Most models keep to that
    by themselves; one that does not (quantised with scales taken from the batch, or without a mask for the padding) is
    found by a trial on opening, and gets its texts one by one. The name has the hash of the model, its weights and its
    tokenizer, and of the pooling and the longest text, so that the same name means the same vectors.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        model: _Model,
        tokenizer: _Tokenizer,
        pooling: _PoolingPlan,
        config: EncoderConfig,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self.truncated = 0
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._cache = _Cache(config.cache_bytes)
        self._counting = threading.Lock()
        self._widths: dict[str, int] = {}  # of the outputs
        self.one_by_one = not self._is_steady_in_batches()

    @classmethod
    def open(cls, path: Path, config: EncoderConfig) -> Self:
        """Open the files, settle what they leave open, and try the model on two texts."""
        libraries = _imported("onnxruntime"), _imported("tokenizers")
        files = _Files.find(path)
        external = _external_data(files.model)
        tokenizer = _Tokenizer(files.tokenizer, libraries[1])
        model = _Model(files.model, libraries[0], threads=config.threads)
        if model.token_output is None and model.sentence_output is None:
            raise BadInput(
                f"{files.model} gives vectors neither for tokens nor for sentences; its outputs are {model.outputs}",
                remedy="export the model for feature extraction, with the output last_hidden_state",
            )
        model.pad_id = _pad_id(files, tokenizer)
        max_length = _max_length(files, tokenizer, model, config.max_length)
        tokenizer.truncate_at(max_length)
        pooling = _plan_pooling(files, model, config.pooling)
        settings = f"pooling {pooling.way or 'none'}, at most {max_length} tokens"
        weights = _hash_of(_file_hash(file) for file in (files.model, *external))
        return cls(
            name=f"{files.stem}#{_hash_of([weights, tokenizer.sha256, settings])[:12]}",
            version=f"model {weights[:12]}, tokenizer {tokenizer.sha256[:12]}, {settings}, "
            + ", ".join(f"{library.__name__} {library.__version__}" for library in libraries),
            model=model,
            tokenizer=tokenizer,
            pooling=pooling,
            config=config,
        )

    @property
    def dimensions(self) -> int:
        """The length of a token's vector; of a sentence's, where the model gives nothing for tokens."""
        return next(iter(self._widths.values()))

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Give the tokens of each text with their vectors, in order; the arrays are read-only."""
        output = self._model.token_output
        if output is None:
            raise BadInput(
                f"encoder {self.name} gives no token vectors; its outputs are {self._model.outputs}",
                remedy="export the model with the output last_hidden_state",
            )
        return self._encoded(texts, TokenVectors, output, _token_vectors)

    def sentence_vectors(self, texts: Sequence[str]) -> Floats:
        """Give a unit vector for each text, (texts, dimensions); NaN for a text that has no tokens of its own."""
        way = self._pooling.way
        output = self._model.sentence_output if way == "output" else self._model.token_output
        if way is None or output is None:
            raise BadInput(
                f"encoder {self.name} gives no sentence vectors: {self._pooling.trouble}",
                remedy="export the model with the output sentence_embedding, or choose the pooling mean or cls",
            )
        made = self._encoded(texts, _SentenceVector, output, _POOLERS[way])
        vectors = np.empty((len(texts), self._widths[output]), np.float32)
        for row, one in enumerate(made):
            vectors[row] = one.vector
        return vectors

    def _encoded(
        self, texts: Sequence[str], kind: type[_Vectors], output: str, make: Callable[[_Tokens, Floats], _Vectors]
    ) -> list[_Vectors]:
        """Take from the cache what is there, and run each of the other texts once, however often it is asked for."""
        found = {text: kept for text in dict.fromkeys(texts) if (kept := self._cache.get(kind, text)) is not None}
        tokens = {text: self._tokenizer.tokens_of(text) for text in dict.fromkeys(texts) if text not in found}
        for batch in self._batches(tokens):
            rows = self._rows([tokens[text] for text in batch], output)
            for text, row in zip(batch, rows, strict=True):
                found[text] = make(tokens[text], row)
                self._cache.put(text, found[text])
        with self._counting:
            self.truncated += sum(found[text].truncated for text in texts)
        return [found[text] for text in texts]

    def _batches(self, tokens: Mapping[str, _Tokens]) -> Iterator[list[str]]:
        """Put texts of similar length together, the longest first, as many as their padded size allows."""
        batch: list[str] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            if batch and (self.one_by_one or self._padded(tokens[batch[0]], len(batch) + 1) > self.config.batch_tokens):
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch

    def _padded(self, longest: _Tokens, rows: int) -> int:
        return rows * (self._model.fixed_length or len(longest))

    def _rows(self, batch: Sequence[_Tokens], output: str) -> Sequence[Floats]:
        """Run one batch; texts without any token, which sort last, have nothing to run."""
        running = [text for text in batch if len(text)]
        rows = list(self._model.run(running, output)) if running else []
        return rows + [np.empty((0, self._widths[output]), np.float32)] * (len(batch) - len(running))

    def _is_steady_in_batches(self) -> bool:
        """Run two texts of different length alone and together; this also tells the widths of the outputs."""
        probes = [text for text in map(self._tokenizer.tokens_of, _PROBES) if len(text)] or [_LEAST]
        steady = not self._model.one_row_only
        for output in self._model.outputs_in_use:
            alone = [self._model.run([probe], output)[0] for probe in probes]
            self._widths[output] = alone[0].shape[-1]
            if steady:
                together = self._model.run(probes, output)
                steady = all(
                    _is_same(one, other, len(probe)) for one, other, probe in zip(alone, together, probes, strict=True)
                )
        return steady


def _is_same(one: Floats, other: Floats, tokens: int) -> bool:
    """Whether a text's own vectors differ by less than a part of their length; padding does not count."""
    ours, theirs = (np.atleast_2d(vectors)[:tokens].astype(np.float64) for vectors in (one, other))
    allowed = _SAME * np.linalg.norm(ours, axis=1)
    return bool((np.linalg.norm(ours - theirs, axis=1) <= allowed).all())


def _token_vectors(text: _Tokens, row: Floats) -> TokenVectors:
    vectors = row[: len(text)].copy()  # a view would keep the whole batch in memory
    for array in (vectors, text.ids, text.special):
        array.flags.writeable = False
    return TokenVectors(text.tokens, text.ids, text.special, vectors, text.truncated)


def _sentence_vector(text: _Tokens, vector: NDArray[np.floating[Any]]) -> _SentenceVector:
    """A text of special tokens alone would have a vector too, one that says nothing about it."""
    return _SentenceVector(_unit(vector if text.has_content else np.zeros_like(vector)), text.truncated)


def _from_output(text: _Tokens, row: Floats) -> _SentenceVector:
    return _sentence_vector(text, row if len(text) else np.zeros(row.shape[-1]))


def _from_mean(text: _Tokens, row: Floats) -> _SentenceVector:
    """The mean over all tokens, special ones too, as sentence-transformers takes it."""
    return _sentence_vector(text, row[: len(text)].sum(axis=0, dtype=np.float64))


def _from_first(text: _Tokens, row: Floats) -> _SentenceVector:
    return _sentence_vector(text, row[:1].sum(axis=0))


_POOLERS: Mapping[_Pooling, Callable[[_Tokens, Floats], _SentenceVector]] = {
    "output": _from_output,
    "mean": _from_mean,
    "cls": _from_first,
}


def _hash_of(parts: Iterable[str]) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()
