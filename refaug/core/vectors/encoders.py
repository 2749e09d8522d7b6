"""The interface for encoders that a user brings: texts to token vectors and sentence vectors, with ONNX Runtime.

An encoder is a folder as Hugging Face and Optimum export it: `model.onnx` (or `onnx/model.onnx`) with `tokenizer.json`,
and optionally the small files with settings. Nothing is downloaded. The libraries are imported when an encoder is
opened.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput, MissingPart, Usage
from refaug.core.memory import BoundedCache
from refaug.core.vectors import encoder_files
from refaug.core.vectors.encoder_model import LEAST, EncodedText, EncoderTokenizer, Floats, OnnxModel
from refaug.core.vectors.kept_vectors import Encodings, KeptVectors, SentenceVector
from refaug.core.vectors.static_model import StaticModel, is_model2vec, is_static

# The interface


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The tokens of one text, and the encoder's vector for each of them in its context.

    Special are the tokens that the tokenizer puts around every text ([CLS], [SEP], <s>, </s> …).
    """

    tokens: tuple[str, ...]
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    vectors: Floats  # (tokens, dimensions), as the model returns them: not of unit length
    truncated: bool = False

    @property
    def nbytes(self) -> int:
        """The approximate memory it takes."""
        strings = sum(_STRING_BYTES + len(token) for token in self.tokens)
        return self.vectors.nbytes + self.ids.nbytes + self.special.nbytes + strings


class Reading(NamedTuple):
    """How an encoder reads some texts, an entry a text."""

    is_cut: NDArray[np.bool_]  # longer than it reads
    pieces: NDArray[np.int64]  # tokens without the special ones
    unknown: NDArray[np.int64]  # pieces that are in no vocabulary


class Encoder(Protocol):
    """Texts to vectors, under a name that stands for exactly these vectors."""

    @property
    def name(self) -> str:
        """The name in manifests and signatures; ASCII."""
        ...

    @property
    def version(self) -> str:
        """The files, settings and libraries that determine its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a token's vector, or of a sentence's if the model has no token vectors."""
        ...

    @property
    def truncated(self) -> int:
        """How many of the texts so far were too long and lost their end; a repeated text counts again."""
        ...

    @property
    def max_length(self) -> int:
        """How many tokens of a text it reads, including special ones."""
        ...

    def reading_of(self, texts: Sequence[str]) -> Reading:
        """Return how much of each text is read, and known."""
        ...

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the tokens of each text with their vectors, in order."""
        ...

    def sentence_vectors(self, texts: Sequence[str]) -> Floats:
        """Return a vector of unit length for each text, (texts, dimensions), rounded to half precision.

        NaN for a text without tokens except special ones.
        """
        ...


PoolingChoice = Literal["auto", "mean", "cls"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How an encoder is used.

    `pooling` makes one vector of a sentence's token vectors: `mean` over all its tokens, `cls` takes the first;
    `auto` is the model's output `sentence_embedding` if it has one, then the pooling of `1_Pooling/config.json`,
    then `mean`. `max_length` counts tokens, including special ones; None is the smallest limit that the encoder's
    files state, or 512. A batch has at most `batch_tokens` tokens with its padding, and at least one text.
    `cache_bytes` bounds the cache of vectors; 0 switches it off. `encodings` keeps vectors on disk. `name`
    stands before the hash in the encoder's name; by default it is that of the folder or file.
    """

    pooling: PoolingChoice = "auto"
    max_length: int | None = None
    threads: int = 1
    batch_tokens: int = 1024
    cache_bytes: int = 256 * 2**20
    encodings: Encodings | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.pooling not in get_args(PoolingChoice):
            raise Usage(
                f"no pooling is called {self.pooling!r}", remedy=f"one of: {', '.join(get_args(PoolingChoice))}"
            )
        limits = {"max_length": 1, "threads": 1, "batch_tokens": 1, "cache_bytes": 0}
        for name, least in limits.items():
            setting = getattr(self, name)
            if setting is not None and setting < least:
                raise Usage(f"{name}={setting!r} makes no sense for an encoder", remedy=f"give at least {least}")


def open_encoder(path: Path, config: EncoderConfig | None = None) -> OnnxEncoder:
    """Open the encoder in a folder, or of a .onnx file with a tokenizer.json beside it."""
    return OnnxEncoder.open(path, config or EncoderConfig())


# Sentence vectors


def _rounded_unit(vector: NDArray[np.floating[Any]]) -> Floats:
    """Scale a vector to unit length and round it to half precision, in which it is kept."""
    exact = vector.astype(np.float64)
    length = np.sqrt(exact @ exact)
    return (exact / length if length > 0 else np.full_like(exact, np.nan)).astype(np.float16).astype(np.float32)


def of_unit_length(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Scale rows to unit length again, which rounding has changed a little; NaN where a row is."""
    exact = vectors.astype(np.float64)
    return np.asarray(exact / np.sqrt((exact * exact).sum(axis=1, keepdims=True)))


# The cache

_STRING_BYTES = 64
_ENTRY_BYTES = 512  # the objects around the arrays
_KEPT_AT_ONCE = 4_096  # texts whose vectors are written in one transaction: seconds of work
_Vectors = TypeVar("_Vectors", TokenVectors, SentenceVector)


_CacheKey = tuple[type, str]  # token vectors or a sentence vector, of a text


def _entry_bytes(key: _CacheKey, vectors: TokenVectors | SentenceVector) -> int:
    return vectors.nbytes + sys.getsizeof(key[1]) + _ENTRY_BYTES


# The encoder

_SAME = 1e-5  # the tolerance between batches, relative to a vector's length
_SHOWN = 80  # characters of a text in an error
_PROBES = ("yes", "Where did you go last summer, and what was it like there? We have not heard from you since.")


class OnnxEncoder:
    """A model in ONNX's format with its tokenizer, run on the CPU.

    A text has the same vectors, within 1e-5 of their length, whatever else is in its batch. Most models have this
    property; one that does not (quantised with scales taken from the batch, or without a mask for the padding) is
    detected by a trial on opening, and gets its texts one by one. The name contains the hash of the model, its
    weights, its tokenizer, the pooling and the longest text, so the same name means the same vectors.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        model: OnnxModel | StaticModel,
        tokenizer: EncoderTokenizer,
        pooling: encoder_files.PoolingPlan,
        config: EncoderConfig,
    ) -> None:
        self.name = name
        self.version = version
        self.config = config
        self.truncated = 0
        self.encoded = 0  # texts that the model was run on
        self.pooling = pooling.way
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._cache = BoundedCache[_CacheKey, TokenVectors | SentenceVector](config.cache_bytes, _entry_bytes)
        self._counting = threading.Lock()
        self._widths: dict[str, int] = {}  # of the outputs
        self.one_by_one = not self._is_steady_in_batches()
        self.kept, self.kept_tokens = self._open_kept(), self._open_kept_tokens()

    @classmethod
    def open(cls, path: Path, config: EncoderConfig) -> Self:
        """Open the files, resolve the settings they leave open, and try the model on two texts."""
        files = encoder_files.EncoderFiles.find(path)
        weights = encoder_files.weights_sha256(files.model)
        if files.model.suffix == ".safetensors":
            return cls._open_static(files, weights, config)
        libraries = _import_library("onnxruntime"), _import_library("tokenizers")
        tokenizer = EncoderTokenizer(files.tokenizer, libraries[1])
        model = OnnxModel(files.model, libraries[0], threads=config.threads)
        if model.token_output is None and model.sentence_output is None:
            raise BadInput(
                f"{files.model} gives vectors neither for tokens nor for sentences; its outputs are {model.outputs}",
                remedy="export the model for feature extraction, with the output last_hidden_state",
            )
        model.pad_id = encoder_files.padding_id(files, of_tokenizer=tokenizer.stated_pad_id, id_of=tokenizer.id_of)
        max_length = encoder_files.longest_text(
            files, config.max_length, of_model=model.fixed_length, of_tokenizer=tokenizer.stated_max_length
        )
        tokenizer.truncate_at(max_length)
        pooling = _plan_pooling(files, model, config.pooling)
        return cls._of(files, weights, tokenizer, model, pooling, config, libraries)

    @classmethod
    def _open_static(cls, files: encoder_files.EncoderFiles, weights: str, config: EncoderConfig) -> Self:
        """Open the vectors of tokens that a file of weights holds."""
        if not is_static(files.model):
            raise BadInput(
                f"{files.model} holds the weights of a network, not a vector for each token",
                remedy=encoder_files.EXPORT,
            )
        libraries = (_import_library("tokenizers"),)
        tokenizer = EncoderTokenizer(files.tokenizer, libraries[0], adds_special=False)
        model = StaticModel(files.model)
        if is_model2vec(files.model):
            model.leave_out(tokenizer.unknown_id)
        max_length = encoder_files.longest_text(
            files, config.max_length, of_model=None, of_tokenizer=tokenizer.stated_max_length
        )
        tokenizer.truncate_at(max_length)
        pooling = encoder_files.PoolingPlan("mean" if config.pooling == "auto" else config.pooling)
        return cls._of(files, weights, tokenizer, model, pooling, config, libraries)

    @classmethod
    def _of(
        cls,
        files: encoder_files.EncoderFiles,
        weights: str,
        tokenizer: EncoderTokenizer,
        model: OnnxModel | StaticModel,
        pooling: encoder_files.PoolingPlan,
        config: EncoderConfig,
        libraries: Sequence[ModuleType],
    ) -> Self:
        settings = f"pooling {pooling.way or 'none'}, at most {tokenizer.max_length} tokens"
        content = encoder_files.hash_strings([weights, tokenizer.sha256, settings])[:12]
        return cls(
            name=f"{config.name or files.stem}#{content}",
            version=f"model {weights[:12]}, tokenizer {tokenizer.sha256[:12]}, {settings}, "
            + ", ".join(f"{library.__name__} {library.__version__}" for library in libraries),
            model=model,
            tokenizer=tokenizer,
            pooling=pooling,
            config=config,
        )

    @property
    def dimensions(self) -> int:
        """The length of a token's vector, or of a sentence's if the model has no token vectors."""
        return next(iter(self._widths.values()))

    @property
    def max_length(self) -> int:
        """How many tokens of a text it reads, including special ones."""
        return self._tokenizer.max_length

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the tokens of each text with their vectors, in order; the arrays are read-only."""
        output = self._model.token_output
        if output is None:
            raise BadInput(
                f"encoder {self.name} gives no token vectors; its outputs are {self._model.outputs}",
                remedy="export the model with the output last_hidden_state",
            )
        vectors = self._cached(texts, TokenVectors)
        kept = self._kept_tokens(_missing(texts, vectors))
        self._remember(kept)
        vectors |= kept
        self._compute(_missing(texts, vectors), output, _token_vectors, vectors)
        self._count_truncated(texts, vectors)
        return [vectors[text] for text in texts]

    def _kept_tokens(self, texts: Sequence[str]) -> dict[str, TokenVectors]:
        """Return the kept vectors of texts, with their tokens, which are found again in no time."""
        kept = dict[str, TokenVectors]()
        for text, rows in (self.kept_tokens.get(texts) if self.kept_tokens is not None else {}).items():
            tokens = self._tokenizer.tokens_of(text)
            if len(rows) == len(tokens):
                kept[text] = _token_vectors(tokens, rows)
        return kept

    def sentence_vectors(self, texts: Sequence[str]) -> Floats:
        """Return a vector of unit length for each text, (texts, dimensions), rounded to half precision.

        NaN for a text without tokens except special ones.
        """
        way = self._pooling.way
        output = self._model.sentence_output if way == "output" else self._model.token_output
        if way is None or output is None:
            raise BadInput(
                f"encoder {self.name} gives no sentence vectors: {self._pooling.trouble}",
                remedy="export the model with the output sentence_embedding, or choose the pooling mean or cls",
            )
        sentences = self._cached(texts, SentenceVector)
        if self.kept is not None:
            kept = self.kept.get(_missing(texts, sentences))
            self._remember(kept)
            sentences |= kept
        self._compute(_missing(texts, sentences), output, _POOLERS[way], sentences)
        self._count_truncated(texts, sentences)
        vectors = np.empty((len(texts), self._widths[output]), np.float32)
        for row, text in enumerate(texts):
            vectors[row] = sentences[text].vector
        return vectors

    def reading_of(self, texts: Sequence[str]) -> Reading:
        """Return how much of each text is read, and known."""
        read = [self._tokenizer.tokens_of(text) for text in texts]
        return Reading(
            is_cut=np.array([text.truncated for text in read], np.bool_),
            pieces=np.array([int((~text.special).sum()) for text in read], np.int64),
            unknown=np.array([self._tokenizer.unknown_in(text) for text in read], np.int64),
        )

    def _compute(
        self,
        texts: Sequence[str],
        output: str,
        make: Callable[[EncodedText, Floats], _Vectors],
        vectors: dict[str, _Vectors],
    ) -> None:
        """Add the vectors of texts, and keep them, also those of a run that is interrupted."""
        new = dict[str, _Vectors]()
        try:
            for computed in self._computed(texts, output, make):
                new |= computed
                vectors |= computed
                if len(new) >= _KEPT_AT_ONCE:
                    self._keep(new)
                    new = {}
        finally:
            self._keep(new)

    def _keep(self, vectors: Mapping[str, TokenVectors | SentenceVector]) -> None:
        """Keep vectors on disk; texts without tokens have none."""
        of_sentences, of_tokens = dict[str, SentenceVector](), dict[str, Floats]()
        for text, one in vectors.items():
            if isinstance(one, TokenVectors):
                of_tokens[text] = one.vectors
            elif not np.isnan(one.vector[0]):
                of_sentences[text] = one
        if self.kept is not None:
            self.kept.put(of_sentences)
        if self.kept_tokens is not None:
            self.kept_tokens.put(of_tokens)

    def _open_kept(self) -> KeptVectors[SentenceVector] | None:
        output = self._model.sentence_output if self._pooling.way == "output" else self._model.token_output
        if self.config.encodings is None or output is None:
            return None
        return self.config.encodings.open(self.name.partition("#")[2], self._widths[output])

    def _open_kept_tokens(self) -> KeptVectors[Floats] | None:
        output = self._model.token_output
        if self.config.encodings is None or output is None:
            return None
        return self.config.encodings.open_tokens(self.name.partition("#")[2], self._widths[output])

    def _cached(self, texts: Sequence[str], kind: type[_Vectors]) -> dict[str, _Vectors]:
        return {
            text: cached
            for text in dict.fromkeys(texts)
            if isinstance(cached := self._cache.get((kind, text)), kind)  # or None
        }

    def _remember(self, vectors: Mapping[str, _Vectors]) -> None:
        for text, of_text in vectors.items():
            self._cache.put((type(of_text), text), of_text)

    def _computed(
        self, texts: Sequence[str], output: str, make: Callable[[EncodedText, Floats], _Vectors]
    ) -> Iterator[dict[str, _Vectors]]:
        """Run texts in batches, and yield the vectors of each batch."""
        tokens = {text: self._tokenizer.tokens_of(text) for text in texts}
        for batch in self._batches(tokens):
            rows = self._rows([tokens[text] for text in batch], output)
            for text, row in zip(batch, rows, strict=True):
                self._require_finite(text, tokens[text], row)
            vectors = {text: make(tokens[text], row) for text, row in zip(batch, rows, strict=True)}
            self._remember(vectors)
            with self._counting:
                self.encoded += len(batch)
            yield vectors

    def _require_finite(self, text: str, tokens: EncodedText, row: Floats) -> None:
        """Raise BadInput for a model that gives NaN or ∞ for a text; those of padding do not count."""
        own = row[: len(tokens)] if row.ndim > 1 else row
        if tokens.has_content and not np.isfinite(own).all():
            raise BadInput(
                f"encoder {self.name} gives numbers that are not finite for the text {text[:_SHOWN]!r}",
                remedy="export the model again in single precision, or leave out this text",
            )

    def _count_truncated(self, texts: Sequence[str], vectors: Mapping[str, TokenVectors | SentenceVector]) -> None:
        with self._counting:
            self.truncated += sum(vectors[text].truncated for text in texts)

    def _batches(self, tokens: Mapping[str, EncodedText]) -> Iterator[list[str]]:
        """Yield batches of texts of similar length, the longest first, as many as their padded size allows."""
        batch: list[str] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            if batch and (
                self.one_by_one or self._padded_size(tokens[batch[0]], len(batch) + 1) > self.config.batch_tokens
            ):
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch

    def _padded_size(self, longest: EncodedText, rows: int) -> int:
        return rows * (self._model.fixed_length or len(longest))

    def _rows(self, batch: Sequence[EncodedText], output: str) -> Sequence[Floats]:
        """Run one batch; texts without any token, which sort last, are not run."""
        running = [text for text in batch if len(text)]
        rows = list(self._model.run(running, output)) if running else []
        return rows + [np.empty((0, self._widths[output]), np.float32)] * (len(batch) - len(running))

    def _is_steady_in_batches(self) -> bool:
        """Run two texts of different length alone and together; this also sets the widths of the outputs."""
        probes = [text for text in map(self._tokenizer.tokens_of, _PROBES) if len(text)] or [LEAST]
        steady = not self._model.one_row_only
        for output in self._model.outputs_in_use:
            alone = [self._model.run([probe], output)[0] for probe in probes]
            self._widths[output] = alone[0].shape[-1]
            if steady:
                together = self._model.run(probes, output)
                steady = all(
                    _is_same(by_itself, in_batch, len(probe))
                    for by_itself, in_batch, probe in zip(alone, together, probes, strict=True)
                )
        return steady


def _missing(texts: Sequence[str], vectors: Mapping[str, object]) -> list[str]:
    """Return the texts without vectors, each once, however often it occurs."""
    return [text for text in dict.fromkeys(texts) if text not in vectors]


def _import_library(package: str) -> ModuleType:
    """Import a library that only encoders need; MissingPart says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPart(
            f"encoders need the package {package}, which cannot be imported: {error}", remedy=f"pip install {package}"
        ) from error


def _plan_pooling(
    files: encoder_files.EncoderFiles, model: OnnxModel, choice: PoolingChoice
) -> encoder_files.PoolingPlan:
    """Return the requested pooling if the model supports it; `auto` prefers the model's sentence vectors."""
    if choice == "auto" and model.sentence_output is not None:
        return encoder_files.PoolingPlan("output")
    if model.token_output is None:
        return encoder_files.PoolingPlan(None, f"it gives no token vectors to pool; its outputs are {model.outputs}")
    return encoder_files.stated_pooling(files) if choice == "auto" else encoder_files.PoolingPlan(choice)


def _is_same(alone: Floats, together: Floats, tokens: int) -> bool:
    """Return whether a text's vectors differ by less than the tolerance; padding does not count."""
    ours, theirs = (np.atleast_2d(vectors)[:tokens].astype(np.float64) for vectors in (alone, together))
    allowed = _SAME * np.linalg.norm(ours, axis=1)
    return bool((np.linalg.norm(ours - theirs, axis=1) <= allowed).all())


def _token_vectors(text: EncodedText, row: Floats) -> TokenVectors:
    vectors = row[: len(text)].copy()  # a view would keep the whole batch in memory
    for array in (vectors, text.ids, text.special):
        array.flags.writeable = False
    return TokenVectors(text.tokens, text.ids, text.special, vectors, text.truncated)


def _sentence_vector(text: EncodedText, vector: NDArray[np.floating[Any]]) -> SentenceVector:
    """Return a sentence's vector; NaN for special tokens alone, whose vector would say nothing about the text."""
    return SentenceVector(_rounded_unit(vector if text.has_content else np.zeros_like(vector)), text.truncated)


def _from_output(text: EncodedText, row: Floats) -> SentenceVector:
    return _sentence_vector(text, row if len(text) else np.zeros(row.shape[-1]))


def _from_mean(text: EncodedText, row: Floats) -> SentenceVector:
    """Average over all tokens, including special ones, as sentence-transformers does."""
    return _sentence_vector(text, row[: len(text)].sum(axis=0, dtype=np.float64))


def _from_first(text: EncodedText, row: Floats) -> SentenceVector:
    return _sentence_vector(text, row[:1].sum(axis=0))


_POOLERS: Mapping[encoder_files.Pooling, Callable[[EncodedText, Floats], SentenceVector]] = {
    "output": _from_output,
    "mean": _from_mean,
    "cls": _from_first,
}


# ── Encoders that stay open while their files stay the same ───────────────────────────────────────────────────────────


def shared_encoder(path: Path, config: EncoderConfig | None = None) -> OnnxEncoder:
    """Open the encoder at a path; while its files stay the same, all who use it in this way share it."""
    config = config or EncoderConfig()
    folder = path if path.is_dir() else path.parent
    try:
        files = [file for at in (folder, folder / "onnx", folder / "1_Pooling") if at.is_dir() for file in at.iterdir()]
        stamps = [(str(file), status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    except OSError:  # the error of opening tells more
        return open_encoder(path, config)
    return _open_once(path, tuple(sorted(stamps)), config)


@functools.lru_cache(maxsize=2)
def _open_once(path: Path, _stamps: tuple[tuple[str, int, int], ...], config: EncoderConfig) -> OnnxEncoder:
    return open_encoder(path, config)
