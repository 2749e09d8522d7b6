"""The one interface for encoders that a user brings: texts to token vectors and sentence vectors, by ONNX Runtime.

An encoder is a folder as Hugging Face and Optimum export it: `model.onnx` (or `onnx/model.onnx`) with `tokenizer.json`,
and, where they are there, the small files that say how the model is meant to be used. Nothing is fetched from anywhere.
The libraries are imported when an encoder is opened.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from core.encoder_files import (
    EncoderFiles,
    Pooling,
    PoolingPlan,
    hash_of,
    longest_text,
    padding_id,
    stated_pooling,
    weights_sha256,
)
from core.encoder_model import LEAST, Floats, Model, Tokenizer, Tokens
from core.errors import BadInput, MissingPart, Usage

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


# Sentence vectors


@dataclass(frozen=True, eq=False)
class _SentenceVector:
    vector: Floats
    truncated: bool

    @property
    def nbytes(self) -> int:
        return self.vector.nbytes


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
        model: Model,
        tokenizer: Tokenizer,
        pooling: PoolingPlan,
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
        files = EncoderFiles.find(path)
        weights = weights_sha256(files.model)
        tokenizer = Tokenizer(files.tokenizer, libraries[1])
        model = Model(files.model, libraries[0], threads=config.threads)
        if model.token_output is None and model.sentence_output is None:
            raise BadInput(
                f"{files.model} gives vectors neither for tokens nor for sentences; its outputs are {model.outputs}",
                remedy="export the model for feature extraction, with the output last_hidden_state",
            )
        model.pad_id = padding_id(files, of_tokenizer=tokenizer.stated_pad_id, id_of=tokenizer.id_of)
        max_length = longest_text(
            files, config.max_length, of_model=model.fixed_length, of_tokenizer=tokenizer.stated_max_length
        )
        tokenizer.truncate_at(max_length)
        pooling = _plan_pooling(files, model, config.pooling)
        settings = f"pooling {pooling.way or 'none'}, at most {max_length} tokens"
        return cls(
            name=f"{files.stem}#{hash_of([weights, tokenizer.sha256, settings])[:12]}",
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
        self, texts: Sequence[str], kind: type[_Vectors], output: str, make: Callable[[Tokens, Floats], _Vectors]
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

    def _batches(self, tokens: Mapping[str, Tokens]) -> Iterator[list[str]]:
        """Put texts of similar length together, the longest first, as many as their padded size allows."""
        batch: list[str] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            if batch and (self.one_by_one or self._padded(tokens[batch[0]], len(batch) + 1) > self.config.batch_tokens):
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch

    def _padded(self, longest: Tokens, rows: int) -> int:
        return rows * (self._model.fixed_length or len(longest))

    def _rows(self, batch: Sequence[Tokens], output: str) -> Sequence[Floats]:
        """Run one batch; texts without any token, which sort last, have nothing to run."""
        running = [text for text in batch if len(text)]
        rows = list(self._model.run(running, output)) if running else []
        return rows + [np.empty((0, self._widths[output]), np.float32)] * (len(batch) - len(running))

    def _is_steady_in_batches(self) -> bool:
        """Run two texts of different length alone and together; this also tells the widths of the outputs."""
        probes = [text for text in map(self._tokenizer.tokens_of, _PROBES) if len(text)] or [LEAST]
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


def _imported(package: str) -> ModuleType:
    """Import a library that only encoders need, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPart(
            f"encoders need the package {package}, which cannot be imported: {error}", remedy=f"pip install {package}"
        ) from error


def _plan_pooling(files: EncoderFiles, model: Model, asked: PoolingChoice) -> PoolingPlan:
    """What is asked for if the model can give it; `auto` takes its own sentence vectors first."""
    if asked == "auto" and model.sentence_output is not None:
        return PoolingPlan("output")
    if model.token_output is None:
        return PoolingPlan(None, f"it gives no token vectors to pool; its outputs are {model.outputs}")
    return stated_pooling(files) if asked == "auto" else PoolingPlan(asked)


def _is_same(one: Floats, other: Floats, tokens: int) -> bool:
    """Whether a text's own vectors differ by less than a part of their length; padding does not count."""
    ours, theirs = (np.atleast_2d(vectors)[:tokens].astype(np.float64) for vectors in (one, other))
    allowed = _SAME * np.linalg.norm(ours, axis=1)
    return bool((np.linalg.norm(ours - theirs, axis=1) <= allowed).all())


def _token_vectors(text: Tokens, row: Floats) -> TokenVectors:
    vectors = row[: len(text)].copy()  # a view would keep the whole batch in memory
    for array in (vectors, text.ids, text.special):
        array.flags.writeable = False
    return TokenVectors(text.tokens, text.ids, text.special, vectors, text.truncated)


def _sentence_vector(text: Tokens, vector: NDArray[np.floating[Any]]) -> _SentenceVector:
    """A text of special tokens alone would have a vector too, one that says nothing about it."""
    return _SentenceVector(_unit(vector if text.has_content else np.zeros_like(vector)), text.truncated)


def _from_output(text: Tokens, row: Floats) -> _SentenceVector:
    return _sentence_vector(text, row if len(text) else np.zeros(row.shape[-1]))


def _from_mean(text: Tokens, row: Floats) -> _SentenceVector:
    """The mean over all tokens, special ones too, as sentence-transformers takes it."""
    return _sentence_vector(text, row[: len(text)].sum(axis=0, dtype=np.float64))


def _from_first(text: Tokens, row: Floats) -> _SentenceVector:
    return _sentence_vector(text, row[:1].sum(axis=0))


_POOLERS: Mapping[Pooling, Callable[[Tokens, Floats], _SentenceVector]] = {
    "output": _from_output,
    "mean": _from_mean,
    "cls": _from_first,
}
