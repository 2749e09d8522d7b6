"""A small WordNet in the format of the real one (wndb(5WN)), and nltk's reader for such folders to compare with."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.data import PathPointer

DEBIAN_WORDNET = Path("/usr/share/wordnet")  # of the package wordnet-base

_LICENCE = "  1 This is no release of WordNet: a few words, written down for tests.  \n"
_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


@dataclass(frozen=True)
class Meaning:
    """A synset; a satellite adjective belongs to the one before it."""

    part: str
    words: tuple[str, ...]
    satellite: bool = False


MEANINGS = (
    Meaning("noun", ("dog", "domestic_dog", "Canis_familiaris")),
    Meaning("noun", ("child", "kid", "youngster")),
    Meaning("noun", ("kid",)),
    Meaning("noun", ("mouse",)),
    Meaning("noun", ("car", "auto", "automobile")),
    Meaning("noun", ("start", "beginning")),
    Meaning("noun", ("Paris", "City_of_Light")),
    Meaning("verb", ("buy", "purchase")),
    Meaning("verb", ("begin", "start", "commence")),
    Meaning("verb", ("kid", "tease")),
    Meaning("adj", ("large", "big")),
    Meaning("adj", ("happy",)),
    Meaning("adj", ("glad", "felicitous(p)"), satellite=True),
    Meaning("adv", ("quickly", "rapidly", "speedily")),
)
EXCEPTIONS = {
    "noun": {"mice": ("mouse",), "children": ("child",)},
    "verb": {"bought": ("buy",), "began": ("begin",)},
    "adj": {"bigger": ("big",)},
    "adv": {"best": ("well",)},
}


def write_wordnet(
    folder: Path,
    meanings: Sequence[Meaning] = MEANINGS,
    exceptions: Mapping[str, Mapping[str, tuple[str, ...]]] = EXCEPTIONS,
) -> Path:
    """Write the twelve files."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, letter in _LETTERS.items():
        senses: dict[str, list[int]] = {}
        data, head = _LICENCE, 0
        for meaning in [one for one in meanings if one.part == part]:
            offset = len(data.encode())
            for word in meaning.words:
                senses.setdefault(word.partition("(")[0].lower(), []).append(offset)
            data += _data_line(meaning, letter, offset, head) + "\n"
            head = head if meaning.satellite else offset
        lines = [
            f"{lemma} {letter} {len(offsets)} 0 {len(offsets)} 0 {' '.join(f'{offset:08d}' for offset in offsets)}  \n"
            for lemma, offsets in sorted(senses.items())
        ]
        irregular = [f"{form} {' '.join(bases)}\n" for form, bases in sorted(exceptions[part].items())]
        (folder / f"data.{part}").write_text(data, encoding="utf-8")
        (folder / f"index.{part}").write_text(_LICENCE + "".join(lines), encoding="utf-8")
        (folder / f"{part}.exc").write_text("".join(irregular), encoding="utf-8")
    return folder


def _data_line(meaning: Meaning, letter: str, offset: int, head: int) -> str:
    words = " ".join(f"{word} 0" for word in meaning.words)
    pointers = f"001 & {head:08d} a 0000" if meaning.satellite else "000"
    frames = " 00" if meaning.part == "verb" else ""
    kind = "s" if meaning.satellite else letter
    return f"{offset:08d} 00 {kind} {len(meaning.words):02x} {words} {pointers}{frames} | what it means  "


class NltkReader(WordNetCorpusReader):  # type: ignore[misc]
    """nltk's reader, given what it asks for beside WordNet's main files, and nothing outside the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__(_Nowhere(), omw_reader=object())

    def open(self, file: str) -> Any:
        """A file of the folder; the names of lexicographer files decide nothing here."""
        if file == "lexnames":
            return io.StringIO("".join(f"{number:02d}\tname.{number}\t1\n" for number in range(45)))
        return (self._folder / file).open(encoding="utf-8")

    def map_wn(self, version: str = "wordnet") -> None:
        """No mapping to other releases."""

    def close(self) -> None:
        """Close the files that it keeps open."""
        for file in self._data_file_map.values():
            file.close()

    def synonyms_of(self, word: str) -> set[str]:
        """All words of all synsets of a word."""
        return {lemma.name() for synset in self.synsets(word) for lemma in synset.lemmas()}


class _Nowhere(PathPointer):  # type: ignore[misc]
    """The root that nltk's reader never uses."""

    def open(self, encoding: str | None = None) -> Any:
        raise NotImplementedError

    def file_size(self) -> int:
        raise NotImplementedError

    def join(self, fileid: str) -> Any:
        raise NotImplementedError
