"""The tokenizer `mecab`: Japanese words."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from refaug.core.errors import MissingPart
from refaug.core.text.characters import make_encodable
from refaug.core.text.tokenizer_base import PickledByArguments, import_library, package_version


class _Tagger(Protocol):
    """The one method of fugashi's tagger that is used."""

    def parse(self, text: str) -> str: ...


class MecabTokenizer(PickledByArguments):
    """Japanese words from MeCab, with the dictionary of a PyPI package; mixed case.

    Equal to sacrebleu's `ja-mecab` for texts up to 4,096 characters. Longer ones are cut, at the end of a sentence
    or at white space if there is one: MeCab's time grows with the square of a run of the same kind of character,
    and beyond 65,535 bytes a run of spaces swallows text and a run of digits ends the process. A tagger stores the
    sentence it is working on, so every thread has a separate one.
    """

    _LONGEST = 4096
    _SENTENCE_END = re.compile(r"[。！？!?\s](?=[^。！？!?\s]*\Z)")

    def __init__(self, name: str, package: str, module: str) -> None:
        self.arguments = (name, package, module)
        fugashi = import_library("fugashi", package="fugashi", wanted_by=name)
        dictionary = import_library(module, package=package, wanted_by=name)
        folder = Path(dictionary.DICDIR)
        self.name = name
        self.version = f"{package_version('fugashi')}, {package_version(package)}"
        self._arguments = f'-r "{folder / "mecabrc"}" -d "{folder}" -Owakati'
        self._make_tagger: Callable[[str], _Tagger] = fugashi.GenericTagger
        self._of_thread = threading.local()
        try:
            self._tagger()
        except RuntimeError as error:
            raise MissingPart(
                f"MeCab cannot open the dictionary of {package} in {folder}",
                remedy=f"pip install --force-reinstall {package}",
            ) from error

    def tokenize(self, text: str) -> list[str]:
        """Return the words of one text."""
        text = make_encodable(text)
        if len(text) <= self._LONGEST:
            return self._tagger().parse(text).split()
        return [word for part in self._parts(text) for word in self._tagger().parse(part).split()]

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of many texts; MeCab ends a sentence only with its text, so they cannot be joined."""
        tokenize = self.tokenize
        return [tokenize(text) for text in texts]

    def _tagger(self) -> _Tagger:
        tagger: _Tagger | None = getattr(self._of_thread, "tagger", None)
        if tagger is None:
            tagger = self._of_thread.tagger = self._make_tagger(self._arguments)
        return tagger

    def _parts(self, text: str) -> list[str]:
        """Cut a long text after the last end of a sentence within the limit, or else at the limit."""
        parts = []
        start = 0
        while start < len(text):
            reach = text[start : start + self._LONGEST]
            end = self._SENTENCE_END.search(reach) if start + self._LONGEST < len(text) else None
            parts.append(reach[: end.end()] if end else reach)
            start += len(parts[-1])
        return parts
