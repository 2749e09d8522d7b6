"""The tokenizer of an index or of word vectors: chosen, kept beside them where it is a file, and opened again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.errors import Corrupt
from core.files import make_folder, write_aside
from core.log_store import StoredLog
from core.text import SentencePieceTokenizer, Tokenizer, default_tokenizer, get_tokenizer

FOLDER: Final = "tokenizer"
_FILE_KIND: Final = "sentencepiece:"


def suiting(logs: Sequence[StoredLog]) -> str:
    """The tokenizer for the language that the logs were ingested in; words separated by spaces where they differ."""
    languages = {ingest.language for log in logs for ingest in log.manifest.ingests}
    names = {default_tokenizer(language) for language in languages}
    return names.pop() if len(names) == 1 else "word"


def keep_tokenizer(tokenizer: Tokenizer, folder: Path) -> list[str]:
    """Copy a model file into an artefact's folder; the names of what was written there."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return []
    make_folder(folder / FOLDER)
    name = f"{FOLDER}/{tokenizer.name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    if not (folder / name).exists():
        with write_aside(folder / name) as file:
            file.write(tokenizer.path.read_bytes())
    return [name]


def kept_tokenizer(name: str, folder: Path) -> Tokenizer:
    """The tokenizer of that name; a model comes from the artefact's folder, and must be the one named."""
    if not name.startswith(_FILE_KIND):
        return get_tokenizer(name)
    path = folder / FOLDER / f"{name.removeprefix(_FILE_KIND).split('#')[0]}.model"
    tokenizer = get_tokenizer(f"{_FILE_KIND}{path}")
    if tokenizer.name != name:
        raise Corrupt(f"{path} is {tokenizer.name}, the manifest says {name}", remedy="restore it from a backup")
    return tokenizer
