"""The tokenizer of an index or of word vectors: chosen, saved beside them if it is a file, and loaded again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refaug.core.errors import Corrupt
from refaug.core.files import make_folder, write_aside
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer

if TYPE_CHECKING:
    from refaug.logs.store import StoredLog

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
