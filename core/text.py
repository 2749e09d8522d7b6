"""What a text is equal to, and the words it is made of: normalisation and the tokenizers.

A tokenizer's `name` goes into manifests and signatures, its `version` (the libraries and dictionaries that can change
its tokens) into manifests. Libraries that only some tokenizers need are imported when such a tokenizer is asked for.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import re
import string
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

from core.errors import Corrupt, MissingPart, NotFound, Usage

# Normalisation


def normalise(text: str) -> str:
    """Give the form in which texts are compared: for duplicates, exclusions and the rater's positives.

    The text is folded (NFKC and casefold, to a fixed point), and every run of white space (`str.isspace`), control and
    format characters (Cc, Cf), punctuation (P*) and modifier symbols (Sk, such as ^ and `) becomes one space, the ends
    stripped. Marks with nothing before them go as well: NFKC makes a space and a mark of ´ (it´s), ¨ or ‗. Other
    symbols stay, so `<url>`, `$` and emoji count. A text with nothing else in it than punctuation keeps it ("?" is not
    "..."); there, only white space, control and format characters become a space. Only a text of which nothing can be
    seen is normalised to "". Normalising twice changes nothing.
    """
    if text.isascii():
        return " ".join(text.translate(_ASCII_COMPARABLE).split()) or _visible(text.lower())
    return _normalise_any(text)


def _normalise_any(text: str) -> str:
    """Normalise text in any script; the ASCII path is the same function, quicker."""
    folded = stream_safe(_fold(stream_safe(text)))
    blanked = _marks_after_space().sub(" ", f" {folded.translate(_COMPARABLE)}")
    return " ".join(blanked.split()) or _visible(folded)


def _fold(text: str) -> str:
    """Apply NFKC and casefold until neither changes anything.

    No text is known that needs a second round (every code point and millions of sequences with marks were tried), but
    Unicode promises that only for its own casefolding, and making it certain costs little.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    while (again := unicodedata.normalize("NFKC", folded.casefold())) != folded:
        folded = again
    return folded


def stream_safe(text: str) -> str:
    """Cut runs of more than thirty combining marks in long texts: normalising one takes the square of its length.

    Thirty is what Unicode's stream-safe format allows (UAX #15); no language comes near it.
    """
    return text if len(text) <= _NEVER_SLOW or text.isascii() else _mark_run().sub(r"\1", text)


_NEVER_SLOW = 2_000
_FEW_TEXTS = 32  # fewer are cut one by one: many at once start a thread, which takes longer than a text


@functools.cache
def _mark_run() -> re.Pattern[str]:
    marks = _character_class(_MARKS)
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def _visible(folded: str) -> str:
    """Collapse what cannot be seen: all that is left to drop from a text of punctuation only."""
    return " ".join(folded.translate(_SEEN).split())


@functools.cache
def _marks_after_space() -> re.Pattern[str]:
    return re.compile(f" [{_character_class(_MARKS)}]+")


class _Blanking(dict[int, str]):
    """A table for `str.translate` that fills itself: characters of the given categories become a space."""

    def __init__(self, categories: frozenset[str]) -> None:
        super().__init__()
        self._categories = categories

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        blank = character.isspace() or unicodedata.category(character) in self._categories
        self[code_point] = " " if blank else character
        return self[code_point]


_INVISIBLE = frozenset({"Cc", "Cf"})
_PUNCTUATION = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"})
_MARKS = frozenset({"Mn", "Mc", "Me"})
_SEEN = _Blanking(_INVISIBLE)
_COMPARABLE = _Blanking(_INVISIBLE | _PUNCTUATION | {"Sk"})
# A string of the first 128 characters is what str.translate is quickest with.
_ASCII_COMPARABLE = "".join(_COMPARABLE[code_point] for code_point in range(128)).lower()


def _character_class(categories: frozenset[str]) -> str:
    """Write the characters of these categories as ranges for a regular expression's [...]."""
    ranges: list[list[int]] = []
    for code_point in (*range(0x20000), *range(0xE0000, 0xE1000)):  # the planes that have marks or punctuation
        if unicodedata.category(chr(code_point)) in categories:
            if ranges and ranges[-1][1] == code_point - 1:
                ranges[-1][1] = code_point
            else:
                ranges.append([code_point, code_point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def harmless(text: str) -> str:
    """Text of other people as one line without what a terminal would obey: escapes, bells, turned directions."""
    if text.isprintable():
        return text
    return "".join(one if _shows(one) else one.encode("unicode_escape").decode() for one in text)


def _shows(one: str) -> bool:
    """Printable; also the wide and fixed spaces, and the joiners that Persian and emoji are written with."""
    return one.isprintable() or one in "\u200c\u200d" or unicodedata.category(one) == "Zs"


# What a tokenizer is


class Tokenizer(Protocol):
    """Text to tokens, under a name that stands for exactly these tokens."""

    @property
    def name(self) -> str:
        """What manifests and signatures call it; ASCII."""
        ...

    @property
    def version(self) -> str:
        """The rules, libraries and dictionaries that decide its tokens, with their versions."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Give the tokens of one text; none for a text without content."""
        ...

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the tokens of many texts in order, the same as one by one, quicker."""
        ...


@dataclass(frozen=True)
class TokenizerKind:
    """One line of the list of tokenizers, for help and for `doctor`."""

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


def get_tokenizer(name: str) -> Tokenizer:
    """Give the tokenizer of that name; asking again gives the same one.

    A SentencePiece model is named by its path here, and by its content in the `name` of what is returned.
    """
    kind, _, argument = name.partition(":")
    if kind == "sentencepiece" and argument:
        return open_sentencepiece(Path(argument))
    return _tokenizer_of_kind("mecab" if name == "mecab:ipadic" else name)


def default_tokenizer(language: str) -> str:
    """Name the tokenizer for a language tag: `mecab` for Japanese (ja, ja-JP), `word` for all others."""
    return "mecab" if language.replace("_", "-").split("-")[0].lower() == "ja" else "word"


@functools.cache
def _tokenizer_of_kind(name: str) -> Tokenizer:
    makers: dict[str, Callable[[], Tokenizer]] = {
        "word": WordTokenizer,
        "char": CharTokenizer,
        "13a": Mteval13aTokenizer,
        "intl": InternationalTokenizer,
        "mecab": lambda: MecabTokenizer("mecab", package="ipadic", module="ipadic"),
        "mecab:unidic-lite": lambda: MecabTokenizer("mecab:unidic-lite", package="unidic-lite", module="unidic_lite"),
    }
    if name not in makers:
        names = ", ".join(kind.spelling for kind in TOKENIZERS)
        raise Usage(f"no tokenizer is called {name!r}", remedy=f"one of: {names}")
    return makers[name]()


class _MadeByName:
    """A tokenizer that another process makes again from its name, so that it can be sent there."""

    name: str

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return get_tokenizer, (self.name,)


def _imported(module: str, *, package: str, wanted_by: str) -> ModuleType:
    """Import a library that only some tokenizers need, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPart(
            f"tokenizer {wanted_by} needs the package {package}, which cannot be imported: {error}",
            remedy=f"pip install {package}",
        ) from error


def _with_version(package: str) -> str:
    """Name a package with its version, for `Tokenizer.version`."""
    metadata = importlib.import_module("importlib.metadata")  # half of this module's import time, were it at the top
    try:
        return f"{package} {metadata.version(package)}"
    except ImportError:  # put on the path by hand, without metadata
        return f"{package} (version unknown)"


# Words and characters


class WordTokenizer(_MadeByName):
    """Lower-case words and punctuation, for scripts that separate words by spaces.

    | text                      | tokens                                    | why                                    |
    |---------------------------|-------------------------------------------|----------------------------------------|
    | `Don’t! It's 5 o'clock`   | `don't` `!` `it's` `5` `o'clock`          | a word keeps its inner apostrophes; ’→ |
    | `'tis the dogs' bed`      | `'` `tis` `the` `dogs` `'` `bed`          | but not those at its ends              |
    | `a well-known snake_case` | `a` `well` `-` `known` `snake` `_` `case` | the parts are more often in vocabulary |
    | `$3.50, or 1,000.5!`      | `$` `3.50` `,` `or` `1,000.5` `!`         | . and , between digits are the number's|
    | `Wait... WHAT?!`          | `wait` `...` `what` `?` `!`               | a run of one mark is one token         |
    | `see <URL> <3 😂😂`       | `see` `<url>` `<` `3` `😂` `😂`           | <name> is one token; symbols are single|
    | `Ça va, naïve Größe`      | `ça` `va` `,` `naïve` `größe`             | letters, digits, marks of any script   |

    The case is `str.lower`, not casefold: these tokens are shown, and looked up in word vectors, where "größe" is
    spelled so. The tokens are in NFC, and ’ and ʼ become '. ASCII symbols (+ = ~ $ …) count as punctuation marks where
    runs are concerned. Control and format characters separate, except a zero-width (non-)joiner inside a word; a mark
    after no letter (the variation selector in ❤️) is dropped. Tokens joined by spaces give the same tokens again.
    """

    name = "word"
    version = f"unicode {unicodedata.unidata_version}"

    def tokenize(self, text: str) -> list[str]:
        """Give the words and punctuation marks of one text.

        No token spans white space, and most of what lies between is a plain word already: only the rest is searched.
        """
        lowered = text.lower()
        if not lowered.isascii():  # with the typographic apostrophe, and the letter that looks like it, as '
            lowered = unicodedata.normalize("NFC", lowered.replace("\u2019", "'").replace("\u02bc", "'"))
        tokens: list[str] = []
        for chunk in lowered.split():
            if chunk.isalnum():
                tokens.append(chunk)
            elif chunk.isascii():
                tokens += _ASCII_WORDS.findall(chunk)
            else:
                tokens += [found[0] for found in _words_of_any_script().findall(chunk)]
        return tokens

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the tokens of many texts; one by one is the quickest way here."""
        tokenize = self.tokenize
        return [tokenize(text) for text in texts]


_NAME_AND_BRACKET = "[a-z][a-z0-9_-]{0,31}>"
_BRACKETED = f"<{_NAME_AND_BRACKET}"
_NOT_BEFORE_A_NAME = f"(?!(?<=<){_NAME_AND_BRACKET})"  # a run of < leaves its last one to the name after it
_ASCII_WORDS = re.compile(
    "[a-z0-9]+(?:(?:'|(?<=[0-9])[.,](?=[0-9]))[a-z0-9]+)*"  # a word, or a number
    f"|{_BRACKETED}|(?:{'|'.join(re.escape(mark) + '+' for mark in string.punctuation)}){_NOT_BEFORE_A_NAME}"
)


@functools.cache
def _words_of_any_script() -> re.Pattern[str]:
    r"""Build the pattern of `word` for text beyond ASCII; its first group is the token.

    Python's \w has letters and digits of every script but not the marks that belong to them (Indic vowels, Arabic
    points), so their class is collected from the Unicode database, as is the class of punctuation marks.
    """
    marks = _character_class(_MARKS) + "\u200c\u200d"  # and the zero-width (non-)joiner
    punctuation = _character_class(_PUNCTUATION) + re.escape(string.punctuation)
    invisible = _character_class(_INVISIBLE)
    word = rf"[^\W_]+(?:[{marks}]+[^\W_]*)*"
    number_or_word = rf"{word}(?:(?:'|(?<=\d)[.,](?=\d))(?=[^\W_]){word})*"
    return re.compile(
        rf"({number_or_word}|{_BRACKETED}|([{punctuation}])\2*{_NOT_BEFORE_A_NAME}|[^\s\w{marks}{invisible}])"
    )


class CharTokenizer(_MadeByName):
    """Every code point that is not white space, in mixed case.

    A letter and its combining mark, or the parts of a joined emoji, are tokens of their own: which of them form one
    character depends on the version of Unicode, and a count of code points does not.
    """

    name = "char"
    version = f"unicode {unicodedata.unidata_version}"

    def tokenize(self, text: str) -> list[str]:
        """Give the characters of one text."""
        return list("".join(text.split()))

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the characters of many texts."""
        return [list("".join(text.split())) for text in texts]


# The tokenizers of mteval, as in sacrebleu


class _MtevalTokenizer(_MadeByName):
    """Tokens as sacrebleu's BLEU counts them: trailing white space cut, the rules applied, split at white space.

    The rules are written again here and held equal to sacrebleu by a property test, for two reasons. sacrebleu keeps
    the last 65,536 texts of every class in memory. And almost all text can be done many lines at a time with plain
    replacing: only where a number touches punctuation does the order of the rules decide.
    """

    def tokenize(self, text: str) -> list[str]:
        """Give the tokens of one text."""
        return self._tokenize_lines([self._one_line(text)])[0]

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the tokens of many texts, a few hundred at a time so that the joined text stays in the cache."""
        lines = [self._one_line(text) for text in texts]
        tokens: list[list[str]] = []
        for start in range(0, len(lines), _LINES_AT_ONCE):
            tokens += self._tokenize_lines(lines[start : start + _LINES_AT_ONCE])
        return tokens

    def _tokenize_lines(self, lines: Sequence[str]) -> list[list[str]]:
        """Space all lines as if no number touched punctuation, and again in earnest those where one does."""
        spaced = self._spaced_out("\n".join(lines)).split("\n")
        return [
            (self._spaced_by_rules(line) if self._needs_rules(line) else simple).split()
            for line, simple in zip(lines, spaced, strict=True)
        ]

    def _one_line(self, text: str) -> str:
        """Give the text without line feeds, and with the replacements that come before the rules."""
        raise NotImplementedError

    def _needs_rules(self, line: str) -> bool:
        """Tell whether a number touches punctuation in it."""
        raise NotImplementedError

    def _spaced_out(self, text: str) -> str:
        """Put spaces around all punctuation and symbols, line by line right where no rule is needed."""
        raise NotImplementedError

    def _spaced_by_rules(self, line: str) -> str:
        """Put spaces around punctuation and symbols as the rules say."""
        raise NotImplementedError


_LINES_AT_ONCE = 512


def _surround(text: str, marks: str) -> str:
    """Put spaces around each of the marks; a pass for each is quicker than one pass of a regular expression."""
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f" {mark} ")
    return text


class Mteval13aTokenizer(_MtevalTokenizer):
    """`13a`: ASCII punctuation is separated, except apostrophes, hyphens, and . , - where a digit touches them."""

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

    def _spaced_out(self, text: str) -> str:
        return _surround(text, self._ALWAYS_APART + ".,")

    def _spaced_by_rules(self, line: str) -> str:
        spaced = _surround(f" {line} ", self._ALWAYS_APART)
        spaced = self._AFTER_NON_DIGIT.sub(r"\1 \2 ", spaced)
        spaced = self._BEFORE_NON_DIGIT.sub(r" \1 \2", spaced)
        return self._DASH_AFTER_DIGIT.sub(r"\1 - ", spaced)


class InternationalTokenizer(_MtevalTokenizer):
    """`intl`: punctuation and symbols of every script are separated, except punctuation that a number touches.

    The classes are those of the `regex` package, whose Unicode is newer than Python's: hence its version in ours.
    """

    name = "intl"

    def __init__(self) -> None:
        regex = _imported("regex", package="regex", wanted_by="intl")
        self.version = f"mteval-v14 as in sacrebleu 2.6.0, {_with_version('regex')}"
        self._apart = _ApartBeyondAscii(regex.compile(r"[\p{P}\p{S}]"))
        self._number_touches: re.Pattern[str] = regex.compile(r"\p{N}\p{P}|\p{P}\p{N}")
        self._ascii_number_touches = re.compile(f"[0-9][{self._ASCII_P}]|[{self._ASCII_P}][0-9]")
        self._after_non_number: re.Pattern[str] = regex.compile(r"(\P{N})(\p{P})")
        self._before_non_number: re.Pattern[str] = regex.compile(r"(\p{P})(\P{N})")
        self._symbol: re.Pattern[str] = regex.compile(r"(\p{S})")

    _ASCII_P = re.escape("!\"#%&'()*,-./:;?@[\\]_{}")  # the rest of string.punctuation is symbols (S*)

    def _one_line(self, text: str) -> str:
        return text.rstrip().replace("\n", " ")

    def _needs_rules(self, line: str) -> bool:
        pattern = self._ascii_number_touches if line.isascii() else self._number_touches
        return pattern.search(line) is not None

    def _spaced_out(self, text: str) -> str:
        text = _surround(text, string.punctuation)
        return text if text.isascii() else _surround(text, self._apart.among(text))

    def _spaced_by_rules(self, line: str) -> str:
        line = self._after_non_number.sub(r"\1 \2 ", line)
        line = self._before_non_number.sub(r" \1 \2", line)
        return self._symbol.sub(r" \1 ", line)


class _ApartBeyondAscii(dict[str, str]):
    """Which characters beyond ASCII are punctuation or symbols; filled as they are met."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__()
        self._pattern = pattern

    def __missing__(self, character: str) -> str:
        apart = not character.isascii() and self._pattern.match(character)
        self[character] = character if apart else ""
        return self[character]

    def among(self, text: str) -> str:
        """Give the characters of the text that are separated, each once."""
        return "".join([self[character] for character in set(text)])


# Japanese


class _Tagger(Protocol):
    """The one method of fugashi's tagger that is used."""

    def parse(self, text: str) -> str: ...


class MecabTokenizer(_MadeByName):
    """Japanese words as MeCab finds them, with the dictionary of a PyPI package; mixed case.

    Equal to sacrebleu's `ja-mecab` for texts up to 4,096 characters. Longer ones are cut, at the end of a sentence or
    at white space where there is one: MeCab's time grows with the square of a run of the same kind of character, and
    beyond 65,535 bytes a run of spaces swallows text and a run of digits ends the process. A tagger keeps the sentence
    it is working on, so that every thread has its own.
    """

    _LONGEST = 4096
    _SENTENCE_END = re.compile(r"[。！？!?\s](?=[^。！？!?\s]*\Z)")

    def __init__(self, name: str, *, package: str, module: str) -> None:
        fugashi = _imported("fugashi", package="fugashi", wanted_by=name)
        dictionary = _imported(module, package=package, wanted_by=name)
        folder = Path(dictionary.DICDIR)
        self.name = name
        self.version = f"{_with_version('fugashi')}, {_with_version(package)}"
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
        """Give the words of one text."""
        text = _encodable(text)
        if len(text) <= self._LONGEST:
            return self._tagger().parse(text).split()
        return [word for part in self._parts(text) for word in self._tagger().parse(part).split()]

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the words of many texts; MeCab ends a sentence only with its text, so they cannot be joined."""
        tokenize = self.tokenize
        return [tokenize(text) for text in texts]

    def _tagger(self) -> _Tagger:
        tagger: _Tagger | None = getattr(self._of_thread, "tagger", None)
        if tagger is None:
            tagger = self._of_thread.tagger = self._make_tagger(self._arguments)
        return tagger

    def _parts(self, text: str) -> list[str]:
        """Cut a long text after the last end of a sentence within reach, or else where reach ends."""
        parts = []
        start = 0
        while start < len(text):
            reach = text[start : start + self._LONGEST]
            end = self._SENTENCE_END.search(reach) if start + self._LONGEST < len(text) else None
            parts.append(reach[: end.end()] if end else reach)
            start += len(parts[-1])
        return parts


_SURROGATES = re.compile("[\ud800-\udfff]")


def _encodable(text: str) -> str:
    """Give text that a C library takes: a lone surrogate becomes U+FFFD, as decoders do, and NUL a space."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
    return text


# SentencePiece


def _spaced(text: str) -> str:
    """Give text with single spaces for all white space, of which SentencePiece would leave some (U+0085) in pieces."""
    return " ".join(_encodable(text).split())


class _Pieces(Protocol):
    """The part of SentencePieceProcessor that is used, with the results as they come for these arguments."""

    def encode(self, text: str | list[str], *, out_type: type, num_threads: int) -> object: ...
    def get_piece_size(self) -> int: ...
    def id_to_piece(self, piece_id: int) -> str: ...
    def pad_id(self) -> int: ...
    def unk_id(self) -> int: ...
    def encode_as_pieces(self, text: str) -> list[str]: ...
    def encode_as_ids(self, text: str) -> list[int]: ...


class SentencePieceTokenizer:
    """The pieces of a SentencePiece model, as text (▁ marks a space) for metrics or as ids for a network.

    Its name has the hash of the model's content, so that the same name means the same tokens wherever the file lies.
    """

    def __init__(self, path: Path, model: bytes) -> None:
        library = _imported("sentencepiece", package="sentencepiece", wanted_by="sentencepiece")
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", path.name.removesuffix(".model"))
        self.path = Path(os.path.abspath(path))  # noqa: PTH100  a link's own name is kept
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.name = f"sentencepiece:{stem}#{self.sha256[:12]}"
        self.version = _with_version("sentencepiece")
        self._pieces = self._load(library, model)

    def _load(self, library: ModuleType, model: bytes) -> _Pieces:
        """Load the model; no bytes at all, or bytes with no pieces, would load and then fail at every call."""
        try:
            pieces: _Pieces | None = library.SentencePieceProcessor(model_proto=model) if model else None
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
        """How many ids there are: every piece, pad and unk among them."""
        return self._pieces.get_piece_size()

    @property
    def pieces(self) -> list[str]:
        """All pieces in the order of their ids."""
        return [self._pieces.id_to_piece(piece_id) for piece_id in range(self.vocab_size)]

    @property
    def pad_id(self) -> int | None:
        """The id to fill up short texts with; None for a model that was trained without one."""
        return self._pieces.pad_id() if self._pieces.pad_id() >= 0 else None

    @property
    def unk_id(self) -> int:
        """The id of everything that no piece covers."""
        return self._pieces.unk_id()

    def tokenize(self, text: str) -> list[str]:
        """Give the pieces of one text."""
        return self._pieces.encode_as_pieces(_spaced(text))

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Give the pieces of many texts, in this thread: how many threads there are is the caller's to say."""
        found = self._pieces.encode([_spaced(text) for text in texts], out_type=str, num_threads=1)
        assert isinstance(found, list)
        return found

    def encode_ids(self, text: str) -> list[int]:
        """Give the ids of one text's pieces; never pad."""
        return self._pieces.encode_as_ids(_spaced(text))

    def encode_ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Give the ids of many texts' pieces, unpadded."""
        if len(texts) <= _FEW_TEXTS:
            return [self._pieces.encode_as_ids(_spaced(text)) for text in texts]
        found = self._pieces.encode([_spaced(text) for text in texts], out_type=int, num_threads=1)
        assert isinstance(found, list)
        return found


def open_sentencepiece(path: Path) -> SentencePieceTokenizer:
    """Open a model file, or give the tokenizer already opened from it if the file is still the same."""
    try:
        status = path.stat()
        return _opened_sentencepiece(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise NotFound(
            f"cannot read a SentencePiece model at {str(path)!r}: {getattr(error, 'strerror', None) or error}",
            remedy="give the path of a .model file, as in sentencepiece:path/to/name.model",
        ) from error


@functools.lru_cache(maxsize=8)
def _opened_sentencepiece(path: Path, _mtime_ns: int, _size: int, _inode: int) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(path, path.read_bytes())


def _open_same_sentencepiece(path: str, sha256: str) -> SentencePieceTokenizer:
    """Open a model in another process, and refuse one that was replaced in the meantime."""
    tokenizer = open_sentencepiece(Path(path))
    if tokenizer.sha256 != sha256:
        raise Corrupt(
            f"{path} has changed: it was {sha256[:12]} and is {tokenizer.sha256[:12]}",
            remedy="publish another model under another name",
        )
    return tokenizer
