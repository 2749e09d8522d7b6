"""The list of tokenizers, which split texts into words.

A tokenizer's `name` goes into manifests and signatures, its `version` (the libraries and dictionaries that can change
its tokens) into manifests. Libraries that only some tokenizers need are imported on demand.
"""

from __future__ import annotations

import re
import string
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from refaug.core.errors import MissingPart, Usage
from refaug.core.text.normalisation import make_encodable
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_base import (
    CharTokenizer,
    PickledByArguments,
    Tokenizer,
    WordTokenizer,
    import_library,
    package_version,
    tokenizer_of_class,
)

# ── The tokenizer `mecab`: Japanese words ─────────────────────────────────────────────────────────────────────────────


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


# ── The tokenizers `13a` and `intl` of mteval, as in sacrebleu ────────────────────────────────────────────────────────


class _MtevalTokenizer(PickledByArguments):
    """Tokens as in sacrebleu's BLEU: trailing white space removed, the rules applied, split at white space.

    The rules are implemented again here, and a property test holds them equal to sacrebleu, for two reasons.
    sacrebleu keeps the last 65,536 texts of every class in memory. And almost all text can be processed many lines
    at a time with plain replacing: the order of the rules matters only where a number touches punctuation.
    """

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one text."""
        return self._tokenize_lines([self._one_line(text)])[0]

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts, a few hundred at a time so that the joined text stays in the cache."""
        lines = [self._one_line(text) for text in texts]
        tokens: list[list[str]] = []
        for start in range(0, len(lines), _LINES_AT_ONCE):
            tokens += self._tokenize_lines(lines[start : start + _LINES_AT_ONCE])
        return tokens

    def _tokenize_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """Space all lines without the rules, and apply the rules to lines where a number touches punctuation."""
        spaced = self._space_out("\n".join(lines)).split("\n")
        return [
            (self._space_by_rules(line) if self._needs_rules(line) else simple).split()
            for line, simple in zip(lines, spaced, strict=True)
        ]

    def _one_line(self, text: str) -> str:
        """Return the text without line feeds, and with the replacements that precede the rules."""
        raise NotImplementedError

    def _needs_rules(self, line: str) -> bool:
        """Return whether a number touches punctuation in the line."""
        raise NotImplementedError

    def _space_out(self, text: str) -> str:
        """Put spaces around all punctuation and symbols, which is right for lines that need no rule."""
        raise NotImplementedError

    def _space_by_rules(self, line: str) -> str:
        """Put spaces around punctuation and symbols according to the rules."""
        raise NotImplementedError


_LINES_AT_ONCE = 512


def _surround(text: str, marks: str) -> str:
    """Put spaces around each of the marks; a pass for each is faster than one pass of a regular expression."""
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f" {mark} ")
    return text


class Mteval13aTokenizer(_MtevalTokenizer):
    """`13a`: ASCII punctuation is separated, except apostrophes, hyphens, and . , - next to a digit."""

    name = "13a"
    version = "mteval-v13a as in sacrebleu 2.6.0"

    _ALWAYS_APART = '{|}~[\\]^_`!"#$%&()*+:;<=>?@/'
    _DIGIT_TOUCHES = re.compile(r"[0-9][.,-]|[.,][0-9]")
    _AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
    _BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
    _DASH_AFTER_DIGIT = re.compile(r"([0-9])-")

    def _one_line(self, text: str) -> str:
        if "\n" in text or "<skipped>" in text:
            text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
        if "&" in text:
            text = text.replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
        return text

    def _needs_rules(self, line: str) -> bool:
        return self._DIGIT_TOUCHES.search(line) is not None

    def _space_out(self, text: str) -> str:
        return _surround(text, self._ALWAYS_APART + ".,")

    def _space_by_rules(self, line: str) -> str:
        spaced = _surround(f" {line} ", self._ALWAYS_APART)
        spaced = self._AFTER_NON_DIGIT.sub(r"\1 \2 ", spaced)
        spaced = self._BEFORE_NON_DIGIT.sub(r" \1 \2", spaced)
        return self._DASH_AFTER_DIGIT.sub(r"\1 - ", spaced)


class InternationalTokenizer(_MtevalTokenizer):
    """`intl`: punctuation and symbols of every script are separated, except punctuation next to a number.

    The classes are those of the `regex` package, whose Unicode is newer than Python's, so its version is part of
    ours.
    """

    name = "intl"

    def __init__(self) -> None:
        regex = import_library("regex", package="regex", wanted_by="intl")
        self.version = f"mteval-v14 as in sacrebleu 2.6.0, {package_version('regex')}"
        self._apart = _SeparatedCharacters(regex.compile(r"[\p{P}\p{S}]"))
        self._number_touches: re.Pattern[str] = regex.compile(r"\p{N}\p{P}|\p{P}\p{N}")
        self._ascii_number_touches = re.compile(f"[0-9][{self._ASCII_P}]|[{self._ASCII_P}][0-9]")
        self._after_non_number: re.Pattern[str] = regex.compile(r"(\P{N})(\p{P})")
        self._before_non_number: re.Pattern[str] = regex.compile(r"(\p{P})(\P{N})")
        self._symbol: re.Pattern[str] = regex.compile(r"(\p{S})")

    _ASCII_P = re.escape("!\"#%&'()*,-./:;?@[\\]_{}")  # the other characters of string.punctuation are symbols (S*)

    def _one_line(self, text: str) -> str:
        return text.rstrip().replace("\n", " ")

    def _needs_rules(self, line: str) -> bool:
        pattern = self._ascii_number_touches if line.isascii() else self._number_touches
        return pattern.search(line) is not None

    def _space_out(self, text: str) -> str:
        text = _surround(text, string.punctuation)
        return text if text.isascii() else _surround(text, self._apart.in_text(text))

    def _space_by_rules(self, line: str) -> str:
        line = self._after_non_number.sub(r"\1 \2 ", line)
        line = self._before_non_number.sub(r" \1 \2", line)
        return self._symbol.sub(r" \1 ", line)


class _SeparatedCharacters(dict[str, str]):
    """Which characters beyond ASCII are punctuation or symbols; filled on demand."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__()
        self._pattern = pattern

    def __missing__(self, character: str) -> str:
        apart = not character.isascii() and self._pattern.match(character)
        self[character] = character if apart else ""
        return self[character]

    def in_text(self, text: str) -> str:
        """Return the characters of the text that are separated, each once."""
        return "".join([self[character] for character in set(text)])


# ── The list of tokenizers, which split texts into words ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TokenizerKind:
    """One entry of the list of tokenizers, for help and for `doctor`."""

    spelling: str
    summary: str
    packages: tuple[str, ...] = ()


TOKENIZERS: tuple[TokenizerKind, ...] = (
    TokenizerKind("word", "lower-case words and punctuation; the default where words are separated by spaces"),
    TokenizerKind("char", "every character that is not white space; mixed case"),
    TokenizerKind("13a", "mteval-v13a, the default of sacrebleu's BLEU; mixed case"),
    TokenizerKind("intl", "mteval-v14 international, as in sacrebleu; mixed case", ("regex",)),
    TokenizerKind("mecab", "Japanese words, MeCab with the IPA dictionary", ("fugashi", "ipadic")),
    TokenizerKind("mecab:unidic-lite", "Japanese words, MeCab with UniDic (lite)", ("fugashi", "unidic-lite")),
    TokenizerKind("sentencepiece:<model>", "pieces of a SentencePiece model, a path to a file", ("sentencepiece",)),
)


# the class and the arguments of each tokenizer that a name alone determines
_MAKERS: Final[Mapping[str, tuple[Callable[..., Tokenizer], *tuple[str, ...]]]] = {
    "word": (WordTokenizer,),
    "char": (CharTokenizer,),
    "13a": (Mteval13aTokenizer,),
    "intl": (InternationalTokenizer,),
    "mecab": (MecabTokenizer, "mecab", "ipadic", "ipadic"),
    "mecab:unidic-lite": (MecabTokenizer, "mecab:unidic-lite", "unidic-lite", "unidic_lite"),
}


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of that name; the same name gives the same object.

    A SentencePiece model is named by its path here, and by its content in the `name` of the returned tokenizer.
    """
    kind, _, argument = name.partition(":")
    if kind == "sentencepiece" and argument:
        return open_sentencepiece(Path(argument))
    maker = _MAKERS.get("mecab" if name == "mecab:ipadic" else name)
    if maker is None:
        names = ", ".join(kind.spelling for kind in TOKENIZERS)
        raise Usage(f"no tokenizer is called {name!r}", remedy=f"one of: {names}")
    return tokenizer_of_class(*maker)


def default_tokenizer(language: str) -> str:
    """Return the tokenizer's name for a language tag (ja, ja-JP); `word` where spaces separate the words."""
    return _WITHOUT_SPACES.get(language.replace("_", "-").split("-")[0].lower(), "word")


_WITHOUT_SPACES: Final[Mapping[str, str]] = {"ja": "mecab", "th": "char", "zh": "char"}
