"""Training a SentencePiece model on the texts of a log: the rater's vocabulary.

Input: any number of texts, as an iterator. Output: `<name>.model` and, written after it, its manifest
`<name>.model.json`. The same texts in the same order with the same settings give the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import os
import random
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as installed_version
from pathlib import Path
from types import ModuleType
from typing import Literal

from refaug.core.errors import BadInput, MissingPart, Usage
from refaug.core.files import write_aside, write_json

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
MAX_SENTENCE_BYTES = 16_384  # longer than any turn that a person types; pasted documents are left out, and counted

_PAD, _UNK = "<pad>", "<unk>"
_OUTSIDE_VOCABULARY = 2  # pad and unk come on top of the requested pieces
_LARGE_ALPHABETS = frozenset({"ja", "zh"})
# SentencePiece drops every sentence with U+2585, which it uses itself, and NUL ends a line in its trainer.
_NOT_FOR_TRAINING = str.maketrans({"\0": " ", "\u2585": " "})
_SURROGATES = re.compile("[\ud800-\udfff]")
_TOO_MANY_PIECES = re.compile(r"Vocabulary size too high .*<= (\d+)")
_TOO_FEW_PIECES = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining:
    """How a vocabulary is trained; stored in its manifest.

    `method` is that of SentencePiece: unigram, or bpe. `vocab_size` pieces are learned, including the `user_symbols`
    (never split, whatever surrounds them); pad and unk come on top; with `at_most`, texts that give fewer pieces are no
    error. `character_coverage` is the share of characters that get a piece; None leaves it to the `language`: 0.9995
    for Japanese and Chinese, which have many rare characters, and all characters elsewhere.
    """

    vocab_size: int = 16_000
    method: Literal["unigram", "bpe"] = "unigram"
    at_most: bool = False  # fewer pieces, if the texts give no more
    sample: int = 2_000_000
    seed: int = 1
    character_coverage: float | None = None
    language: str = "en"
    user_symbols: tuple[str, ...] = ("<url>", "<email>", "<user>")

    def __post_init__(self) -> None:
        if self.vocab_size < 1:
            raise Usage(f"vocab_size is {self.vocab_size}", remedy="at least 1 piece")
        if self.sample < 1:
            raise Usage(f"sample is {self.sample}", remedy="at least 1 sentence")
        if self.character_coverage is not None and not 0.98 <= self.character_coverage <= 1.0:
            raise Usage(f"character_coverage is {self.character_coverage}", remedy="from 0.98 to 1.0")
        if not self.language.strip():
            raise Usage("language is empty", remedy="a language tag such as en, ja or pt-BR")
        for symbol in self.user_symbols:
            if not symbol or symbol in {_PAD, _UNK} or any(character.isspace() for character in symbol):
                raise Usage(f"{symbol!r} cannot be a user symbol", remedy=f"text without spaces, not {_PAD} or {_UNK}")
        if len(set(self.user_symbols)) != len(self.user_symbols):
            raise Usage(f"user_symbols has one twice: {', '.join(self.user_symbols)}", remedy="name each once")

    @property
    def effective_coverage(self) -> float:
        """The character coverage in use."""
        if self.character_coverage is not None:
            return self.character_coverage
        primary = self.language.strip().replace("_", "-").split("-")[0].lower()
        return 0.9995 if primary in _LARGE_ALPHABETS else 1.0


@dataclass(frozen=True, kw_only=True)
class TrainedTokenizer:
    """The trained model and its training texts; `vocab_size` counts ids, so it is the settings' plus pad and unk.

    seen = used + empty + too_long + those that the sample left out.
    """

    path: Path
    sha256: str
    vocab_size: int
    sentences_seen: int
    sentences_used: int
    sentences_empty: int
    sentences_too_long: int
    settings: TokenizerTraining


def train_sentencepiece(texts: Iterable[str], destination: Path, settings: TokenizerTraining) -> TrainedTokenizer:
    """Train a SentencePiece model and write it to `destination` (`<name>.model`) with a manifest beside it.

    Ids: pad 0, unk 1, then the user symbols, then the rest; no begin and end of sentence. An existing model is
    replaced. Memory does not grow with `texts`, only with the sample: about 20 bytes for each of its characters
    (550 MiB for 200,000 turns of 134 characters), so 2.5 GB for two million turns of 60.
    """
    if destination.suffix != ".model":
        raise Usage(f"a model cannot be called {destination.name!r}", remedy="a name that ends in .model")
    library = _sentencepiece()
    started = time.monotonic()
    sample = _Sample(settings.sample, settings.seed)
    for text in texts:
        sample.offer(text)
    used = len(sample.sentences)
    if not used:
        raise BadInput(
            f"nothing to train a tokenizer on: {sample.seen} texts, {sample.empty} of them empty "
            f"and {sample.too_long} longer than {MAX_SENTENCE_BYTES} bytes",
            remedy="give texts with content",
        )
    model = _train(library, sample.drain(), settings)
    trained = TrainedTokenizer(
        path=destination,
        sha256=hashlib.sha256(model).hexdigest(),
        vocab_size=library.SentencePieceProcessor(model_proto=model).get_piece_size(),
        sentences_seen=sample.seen,
        sentences_used=used,
        sentences_empty=sample.empty,
        sentences_too_long=sample.too_long,
        settings=settings,
    )
    _publish(model, trained)
    logger.info(
        "tokenizer_trained",
        extra={"path": str(destination), "sentences": used, "seconds": round(time.monotonic() - started, 1)},
    )
    return trained


def _sentencepiece() -> ModuleType:
    try:
        return importlib.import_module("sentencepiece")
    except ImportError as error:
        raise MissingPart(
            f"training a tokenizer needs the package sentencepiece: {error}", remedy="pip install sentencepiece"
        ) from error


@dataclass
class _Sample:
    """A fair sample of a stream of any length (reservoir sampling: Vitter's algorithm R), with counts of the rest."""

    size: int
    seed: int
    sentences: list[str] = field(default_factory=list)
    seen: int = 0
    empty: int = 0
    too_long: int = 0

    def __post_init__(self) -> None:
        self._offered = 0
        # random() is the one method whose sequence Python promises not to change for a seed.
        self._random = random.Random(self.seed).random  # noqa: S311  a sample, not a secret

    def offer(self, text: str) -> None:
        """Count a text, and add it to the sample by chance."""
        self.seen += 1
        sentence = _SURROGATES.sub("\ufffd", " ".join(text.translate(_NOT_FOR_TRAINING).split()))
        if not sentence:
            self.empty += 1
        elif len(sentence) * 4 > MAX_SENTENCE_BYTES and len(sentence.encode()) > MAX_SENTENCE_BYTES:
            self.too_long += 1
        else:
            self._add_by_chance(sentence)

    def _add_by_chance(self, sentence: str) -> None:
        self._offered += 1
        if len(self.sentences) < self.size:
            self.sentences.append(sentence)
        elif (slot := int(self._random() * self._offered)) < self.size:
            self.sentences[slot] = sentence

    def drain(self) -> Iterator[str]:
        """Yield the sentences and forget them: SentencePiece makes its own copy."""
        while self.sentences:
            yield self.sentences.pop()


def _train(library: ModuleType, sentences: Iterator[str], settings: TokenizerTraining) -> bytes:
    """Run the trainer in memory and in one thread.

    A model written by the library itself would contain its path; and another number of threads gives another model,
    because the sums of the expectation step are added in another order.
    """
    model = io.BytesIO()
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            model_type=settings.method,
            vocab_size=settings.vocab_size + _OUTSIDE_VOCABULARY,
            hard_vocab_limit=not settings.at_most,
            character_coverage=settings.effective_coverage,
            user_defined_symbols=list(settings.user_symbols),
            pad_id=0,
            pad_piece=_PAD,
            unk_id=1,
            unk_piece=_UNK,
            bos_id=-1,
            eos_id=-1,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            max_sentence_length=MAX_SENTENCE_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _refusal(str(error), settings) from error
    return model.getvalue()


def _refusal(message: str, settings: TokenizerTraining) -> BadInput:
    """Return an error that says why SentencePiece could not train, and what would help."""
    if match := _TOO_MANY_PIECES.search(message):
        possible = int(match[1]) - _OUTSIDE_VOCABULARY
        return BadInput(
            f"the texts give at most {possible} pieces, not {settings.vocab_size}",
            remedy=f"give more texts, or ask for {possible} pieces or fewer (--size)",
        )
    if match := _TOO_FEW_PIECES.search(message):
        needed = int(match[1]) - _OUTSIDE_VOCABULARY
        return BadInput(
            f"the characters and user symbols alone need {needed} pieces, and vocab_size is {settings.vocab_size}",
            remedy=f"set vocab_size to more than {needed}, or lower character_coverage",
        )
    return BadInput(f"SentencePiece cannot learn from these texts: {message}", remedy="give texts with content")


def _publish(model: bytes, trained: TrainedTokenizer) -> None:
    """Write the model and then its manifest, so that a manifest always describes the model beside it.

    An old manifest is deleted before the model changes: after an interruption there is a model without a manifest,
    which is no artefact.
    """
    manifest = {
        "format_version": FORMAT_VERSION,
        "file": trained.path.name,
        "size": len(model),
        "sha256": trained.sha256,
        "vocab_size": trained.vocab_size,
        "seed": trained.settings.seed,
        "settings": asdict(trained.settings) | {"character_coverage": trained.settings.effective_coverage},
        "sentences_seen": trained.sentences_seen,
        "sentences_used": trained.sentences_used,
        "sentences_empty": trained.sentences_empty,
        "sentences_too_long": trained.sentences_too_long,
        "max_sentence_bytes": MAX_SENTENCE_BYTES,
        "sentencepiece": installed_version("sentencepiece"),
    }
    manifest_path = trained.path.with_name(f"{trained.path.name}.json")
    trained.path.parent.mkdir(parents=True, exist_ok=True)
    with write_aside(trained.path) as file:
        file.write(model)
        file.flush()
        os.fsync(file.fileno())  # the new model is safe before the old pair changes
        manifest_path.unlink(missing_ok=True)
    write_json(manifest_path, manifest)
