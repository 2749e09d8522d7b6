"""The tokenizer `sentencepiece:<model>`: pieces, as text for metrics or as ids for networks."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from refaug.core.errors import Corrupt, NotFound
from refaug.core.text.normalisation import make_encodable
from refaug.core.text.tokenizer_base import import_library, package_version

_FEW_TEXTS = 32  # fewer are split one by one: a batch starts a thread, which takes longer than a text


def _collapse_spaces(text: str) -> str:
    """Return text with single spaces for all white space, some of which (U+0085) SentencePiece would leave."""
    return " ".join(make_encodable(text).split())


class _PieceProcessor(Protocol):
    """The used part of SentencePieceProcessor, with the results for these arguments."""

    def encode(self, text: str | list[str], *, out_type: type, num_threads: int) -> object: ...
    def get_piece_size(self) -> int: ...
    def id_to_piece(self, piece_id: int) -> str: ...
    def pad_id(self) -> int: ...
    def unk_id(self) -> int: ...
    def encode_as_pieces(self, text: str) -> list[str]: ...
    def encode_as_ids(self, text: str) -> list[int]: ...
    def decode_ids(self, ids: list[int]) -> str: ...


class SentencePieceTokenizer:
    """The pieces of a SentencePiece model, as text (▁ marks a space) for metrics or as ids for a network.

    Its name contains the hash of the model's content, so the same name means the same tokens wherever the file
    lies.
    """

    def __init__(self, path: Path, model: bytes) -> None:
        library = import_library("sentencepiece", package="sentencepiece", wanted_by="sentencepiece")
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", path.name.removesuffix(".model"))
        self.path = Path(os.path.abspath(path))  # noqa: PTH100  a link's own name is kept
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.name = f"sentencepiece:{stem}#{self.sha256[:12]}"
        self.version = package_version("sentencepiece")
        self._pieces = self._load(library, model)

    def _load(self, library: ModuleType, model: bytes) -> _PieceProcessor:
        """Load the model; an empty file, or one without pieces, would load and then fail at every call."""
        try:
            pieces: _PieceProcessor | None = library.SentencePieceProcessor(model_proto=model) if model else None
        except RuntimeError as error:
            raise self._not_a_model() from error
        if pieces is None or pieces.get_piece_size() == 0:
            raise self._not_a_model()
        return pieces

    def _not_a_model(self) -> Corrupt:
        return Corrupt(f"{self.path} is not a SentencePiece model", remedy="train it again, or copy it again")

    def __reduce__(self) -> tuple[Callable[[str, str], SentencePieceTokenizer], tuple[str, str]]:
        return _open_same_sentencepiece, (str(self.path), self.sha256)

    @property
    def vocab_size(self) -> int:
        """The number of ids: every piece, including pad and unk."""
        return self._pieces.get_piece_size()

    @property
    def pieces(self) -> list[str]:
        """All pieces in the order of their ids."""
        return [self._pieces.id_to_piece(piece_id) for piece_id in range(self.vocab_size)]

    @property
    def pad_id(self) -> int | None:
        """The id that fills up short texts; None for a model that was trained without one."""
        return self._pieces.pad_id() if self._pieces.pad_id() >= 0 else None

    @property
    def unk_id(self) -> int:
        """The id of everything that no piece covers."""
        return self._pieces.unk_id()

    def tokenize(self, text: str) -> list[str]:
        """Return the pieces of one text."""
        return self._pieces.encode_as_pieces(_collapse_spaces(text))

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the pieces of many texts, in this thread: the caller decides how many threads there are."""
        pieces = self._pieces.encode([_collapse_spaces(text) for text in texts], out_type=str, num_threads=1)
        assert isinstance(pieces, list)
        return pieces

    def encode_ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts' pieces, without padding."""
        if len(texts) <= _FEW_TEXTS:
            return [self._pieces.encode_as_ids(_collapse_spaces(text)) for text in texts]
        ids = self._pieces.encode([_collapse_spaces(text) for text in texts], out_type=int, num_threads=1)
        assert isinstance(ids, list)
        return ids

    def decode_ids(self, ids: Sequence[int]) -> str:
        """Return the text of pieces; every id is below `vocab_size`."""
        return self._pieces.decode_ids(list(ids))


def open_sentencepiece(path: Path) -> SentencePieceTokenizer:
    """Open a model file, or return the tokenizer opened before if the file has not changed."""
    try:
        status = path.stat()
        return _load_sentencepiece(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise NotFound(
            f"cannot read a SentencePiece model at {str(path)!r}: {getattr(error, 'strerror', None) or error}",
            remedy="give the path of a .model file, as in sentencepiece:path/to/name.model",
        ) from error


@functools.lru_cache(maxsize=8)
def _load_sentencepiece(path: Path, _mtime_ns: int, _size: int, _inode: int) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(path, path.read_bytes())


def _open_same_sentencepiece(path: str, sha256: str) -> SentencePieceTokenizer:
    """Open a model in another process; refuse it if the file was replaced meanwhile."""
    tokenizer = open_sentencepiece(Path(path))
    if tokenizer.sha256 != sha256:
        raise Corrupt(
            f"{path} has changed: it was {sha256[:12]} and is {tokenizer.sha256[:12]}",
            remedy="publish another model under another name",
        )
    return tokenizer
