"""Words as numbers: rows of the word vectors' matrix first, then further words of the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refaug.core.errors import Corrupt
from refaug.core.files import make_folder, write_aside
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.indexer.tokens.tokens import Splitter, WordTable

if TYPE_CHECKING:
    from refaug.logs.store import StoredLog


class CodedTexts(NamedTuple):
    """Texts as codes, −1 for a word without one; text i is `codes[offsets[i]:offsets[i + 1]]`."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]  # of each token; distinguishes unknown words


class Vocabulary:
    """The words of an index, and the tokenizer that finds them in a text."""

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._splitter = Splitter(tokenizer)
        self._table = WordTable.of(words)
        self.with_vector = len(words)

    def __len__(self) -> int:
        return len(self._table)

    def extend(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Number further words, in the order in which a segment found them, and return their codes."""
        return self._table.codes(hashes, grow=True)

    def extra_words(self, since: int) -> NDArray[np.uint64]:
        """Return the hashes of the words numbered from `since` on."""
        return self._table.hashes_in_order()[since:]

    def code(self, texts: pa.StringArray | Sequence[str], *, grow: bool = False) -> CodedTexts:
        """Return texts as codes; with `grow`, words without a code get the next ones."""
        tokens = self._splitter.split(texts)
        return CodedTexts(self._table.codes(tokens.hashes, grow=grow), tokens.offsets, tokens.hashes)


# ── The tokenizer of an index or of word vectors: chosen, saved beside them if it is a file, and loaded again ─────────

FOLDER: Final = "tokenizer"
_FILE_KIND: Final = "sentencepiece:"


def default_tokenizer_for(logs: Sequence[StoredLog]) -> str:
    """Return the tokenizer for the language of the logs; words separated by spaces if their languages differ."""
    languages = {ingest.language for log in logs for ingest in log.manifest.ingests}
    names = {default_tokenizer(language) for language in languages}
    return names.pop() if len(names) == 1 else "word"


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> list[str]:
    """Copy a model file into an artefact's folder; return the names of the files written."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return []
    make_folder(folder / FOLDER)
    name = f"{FOLDER}/{tokenizer.name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    if not (folder / name).exists():
        with write_aside(folder / name) as file:
            file.write(tokenizer.path.read_bytes())
    return [name]


def load_tokenizer(name: str, folder: Path) -> Tokenizer:
    """Return the tokenizer of that name; a model is read from the artefact's folder and must match the name."""
    if not name.startswith(_FILE_KIND):
        return get_tokenizer(name)
    path = folder / FOLDER / f"{name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    tokenizer = get_tokenizer(f"{_FILE_KIND}{path}")
    if tokenizer.name != name:
        raise Corrupt(f"{path} is {tokenizer.name}, the manifest says {name}", remedy="restore it from a backup")
    return tokenizer
