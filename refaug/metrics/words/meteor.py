"""METEOR as nltk computes it, over our tokens, with synonyms from the WordNet of the user's machine.

nltk matches words exactly, then as stems, then as synonyms; the last step gets stems, so that "buy" does not match
"purchase", which is "purchas" by then. It needs an object with `synsets(word)`. nltk's reader for WordNet is not used:
it opens nothing outside folders that were registered with nltk for the whole process, needs files that Debian's package
does not have (lexnames, index.sense) and cannot be shared by threads. METEOR needs only a few lines of such a reader,
and the tests compare them with nltk's reader.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from refaug.core.errors import Corrupt, NotFound
from refaug.metrics import single_reference
from refaug.metrics.base import Floats, Indexes
from refaug.metrics.metric_info import MetricInfo

# ── WordNet ───────────────────────────────────────────────────────────────────────────────────────────────────────

_PARTS_OF_SPEECH: Final = ("noun", "verb", "adj", "adv")
FILES: Final = tuple(name for part in _PARTS_OF_SPEECH for name in (f"index.{part}", f"data.{part}", f"{part}.exc"))
# The endings that Morphy removes (morphy(7WN)), each with its replacement.
_ENDINGS: Final = {
    "noun": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "verb": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
_MARKER: Final = re.compile(r"\([^()]*\)$")  # where an adjective may stand: galore(ip)


class Lemma(Protocol):
    """A word of a synset, as nltk uses it."""

    def name(self) -> str:
        """Return the word."""
        ...


class Synset(Protocol):
    """Words with one meaning, as nltk uses them."""

    def lemmas(self) -> Iterable[Lemma]:
        """Return the words."""
        ...


@dataclass(frozen=True, slots=True)
class _Word:
    word: str

    def name(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class _Meaning:
    words: tuple[_Word, ...]

    def lemmas(self) -> tuple[_Word, ...]:
        return self.words


class NoWordNet:
    """A WordNet without synonyms, for METEOR of exact words and stems."""

    name = "none"

    def synsets(self, word: str) -> tuple[Synset, ...]:
        """Return none."""
        del word
        return ()


@dataclass(frozen=True)
class _PartOfSpeech:
    """The nouns, verbs, adjectives or adverbs of WordNet (the format of the files: wndb(5WN))."""

    part: str
    index: Mapping[str, bytes]  # lemma → its line
    content: bytes
    exceptions: Mapping[str, tuple[str, ...]]

    def meanings(self, word: str) -> Iterator[_Meaning]:
        """Yield the synsets of a word and of its base forms."""
        for form in self._base_forms(word):
            for offset in self._offsets(form):
                yield self._meaning(offset)

    def _base_forms(self, word: str) -> list[str]:
        """Return the forms in WordNet of the word and its base forms by Morphy: its exceptions, or else its rules."""
        base_forms = self.exceptions.get(word) or tuple(
            word.removesuffix(ending) + instead for ending, instead in _ENDINGS[self.part] if word.endswith(ending)
        )
        return [form for form in dict.fromkeys((word, *base_forms)) if form in self.index]

    def _offsets(self, lemma: str) -> list[int]:
        """Return the offsets of a lemma's synsets: the last fields of `lemma pos synset_cnt p_cnt … offset offset`."""
        fields = self.index[lemma].split()
        try:
            return [int(offset) for offset in fields[len(fields) - int(fields[2]) :]]
        except (IndexError, ValueError) as error:
            raise self._damaged("index", f"the line of {lemma!r}") from error

    def _meaning(self, offset: int) -> _Meaning:
        """Return the words of `offset lex_filenum ss_type w_cnt word lex_id word lex_id …`, w_cnt in hexadecimal."""
        line = self.content[offset : self.content.find(b"\n", offset)]
        fields = line.split(b" ", 4)
        try:
            if int(fields[0]) != offset:
                raise self._damaged("data", f"offset {offset}")
            words = fields[4].split(b" ")[: 2 * int(fields[3], 16) : 2]
        except (IndexError, ValueError) as error:
            raise self._damaged("data", f"offset {offset}") from error
        return _Meaning(tuple(_Word(_MARKER.sub("", word.decode("utf-8", "replace"))) for word in words))

    def _damaged(self, kind: str, where: str) -> Corrupt:
        return Corrupt(
            f"{kind}.{self.part} of WordNet is not as it should be at {where}",
            remedy="its files must all be of one release: copy them again, or apt-get install --reinstall wordnet-base",
        )


class WordNet:
    """The synonyms of words from WordNet's files, named by a hash of their content."""

    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        digest = hashlib.sha256()
        for file in FILES:
            digest.update(hashlib.sha256(files[file]).digest())
        self.name = f"{re.sub(r'[^A-Za-z0-9._-]', '-', name) or 'wordnet'}#{digest.hexdigest()[:12]}"
        self._parts = [
            _PartOfSpeech(
                part, _index(files[f"index.{part}"]), files[f"data.{part}"], _exceptions(files[f"{part}.exc"])
            )
            for part in _PARTS_OF_SPEECH
        ]
        self.synsets = functools.lru_cache(maxsize=2**16)(self._synsets)

    @classmethod
    def open(cls, path: Path) -> WordNet:
        """Read WordNet from a folder, or return the one already read if its files are unchanged."""
        try:
            stamps = tuple((path / name).stat() for name in FILES)
            return _read(path, tuple((stamp.st_mtime_ns, stamp.st_size, stamp.st_ino) for stamp in stamps))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            missing = getattr(error, "filename", None) or path
            raise NotFound(
                f"no WordNet in {str(path)!r}: cannot read {str(missing)!r}",
                remedy="apt-get install wordnet-base, or wordnet=FOLDER, or wordnet=none",
            ) from error

    def _synsets(self, word: str) -> tuple[Synset, ...]:
        """Return the synsets of a word in all its parts of speech."""
        return tuple(meaning for part in self._parts for meaning in part.meanings(word.lower()))


@functools.lru_cache(maxsize=2)
def _read(path: Path, _stamps: tuple[tuple[int, int, int], ...]) -> WordNet:
    return WordNet(path.resolve().name, {name: (path / name).read_bytes() for name in FILES})


def _index(content: bytes) -> dict[str, bytes]:
    """Return the lines of an index by their first word; lines that begin with a space are the licence."""
    lines = (line for line in content.split(b"\n") if line and not line.startswith(b" "))
    return {line.split(b" ", 1)[0].decode("utf-8", "replace"): line for line in lines}


def _exceptions(content: bytes) -> dict[str, tuple[str, ...]]:
    """Return irregular forms with the base forms of each."""
    lines = (line.decode("utf-8", "replace").split() for line in content.split(b"\n"))
    return {form: tuple(bases) for form, *bases in filter(None, lines)}


# ── METEOR ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Stemmer:
    """A stemmer for nltk that caches stems."""

    def __init__(self) -> None:
        self.stem = single_reference.porter()


class Meteor(single_reference.SingleReferenceMetric):
    """Words in common, exactly, as stems and as synonyms, less a penalty for fragmentation."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        chosen = dict(settings)
        library = single_reference.import_library("nltk.translate.meteor_score", package="nltk", metric=info.name)
        self._wordnet = NoWordNet() if chosen["wordnet"] == "none" else WordNet.open(Path(chosen["wordnet"]))
        self._words = single_reference.MetricTokenizer(info.name, chosen)
        self._score = functools.partial(
            library.single_meteor_score,
            preprocess=str,  # the tokens already have their case
            stemmer=_Stemmer(),
            wordnet=self._wordnet,
            **{name: float(chosen[name]) for name in ("alpha", "beta", "gamma")},
        )
        self.info = info
        self.settings = {**chosen, "wordnet": self._wordnet.name, **self._words.settings}
        self.choose_references(chosen)

    def versions(self) -> Mapping[str, str]:
        """Return the package's and the tokenizer's."""
        return {**single_reference.package_version("nltk"), **self._words.versions()}

    def read(self, texts: list[str]) -> list[list[str]]:
        """Return the tokens of each text."""
        return self._words.of(texts)

    def pair_values(self, replies: Any, references: Any, reply_places: Indexes, reference_places: Indexes) -> Floats:
        """Return METEOR of every pair."""
        score = self._score
        pairs = zip(reply_places.tolist(), reference_places.tolist(), strict=True)
        return np.array([score(references[t], replies[h]) for h, t in pairs], dtype=np.float64)
