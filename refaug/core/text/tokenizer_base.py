"""What tokenizers share: their interface, pickling, and libraries that are imported on demand."""

from __future__ import annotations

import functools
import importlib
import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

from refaug.core.errors import MissingPart
from refaug.core.text.normalisation import INVISIBLE, MARKS, PUNCTUATION, character_class


class Tokenizer(Protocol):
    """Text to tokens, under a name that stands for exactly these tokens."""

    @property
    def name(self) -> str:
        """The name in manifests and signatures; ASCII."""
        ...

    @property
    def version(self) -> str:
        """The rules, libraries and dictionaries that determine its tokens, with their versions."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of one text; none for a text without content."""
        ...

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts in order, the same as one by one, faster."""
        ...


class PickledByArguments:
    """A tokenizer that is pickled as its class and arguments, so that another process can make it again."""

    arguments: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tokenizer_of_class, (type(self), *self.arguments)


@functools.cache
def tokenizer_of_class(kind: Callable[..., Tokenizer], *arguments: str) -> Tokenizer:
    """Return the one tokenizer of a class with these arguments, in this process."""
    return kind(*arguments)


def import_library(module: str, *, package: str, wanted_by: str) -> ModuleType:
    """Import a library that only some tokenizers need; MissingPart says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPart(
            f"tokenizer {wanted_by} needs the package {package}, which cannot be imported: {error}",
            remedy=f"pip install {package}",
        ) from error


def package_version(package: str) -> str:
    """Return a package's name and version, for `Tokenizer.version`."""
    metadata = importlib.import_module("importlib.metadata")  # half of this module's import time if imported at the top
    try:
        return f"{package} {metadata.version(package)}"
    except ImportError:  # put on the path by hand, without metadata
        return f"{package} (version unknown)"


# ── The tokenizers `word` and `char`, which need no library ───────────────────────────────────────────────────────────


class WordTokenizer(PickledByArguments):
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
        """Return the words and punctuation marks of one text.

        No token spans white space, and most chunks between are plain words already: only the others are
        searched.
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
                tokens += [match[0] for match in _words_of_any_script().findall(chunk)]
        return tokens

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of many texts; one by one is the fastest way here."""
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
    marks = character_class(MARKS) + "\u200c\u200d"  # and the zero-width (non-)joiner
    punctuation = character_class(PUNCTUATION) + re.escape(string.punctuation)
    invisible = character_class(INVISIBLE)
    word = rf"[^\W_]+(?:[{marks}]+[^\W_]*)*"
    number_or_word = rf"{word}(?:(?:'|(?<=\d)[.,](?=\d))(?=[^\W_]){word})*"
    return re.compile(
        rf"({number_or_word}|{_BRACKETED}|([{punctuation}])\2*{_NOT_BEFORE_A_NAME}|[^\s\w{marks}{invisible}])"
    )


class CharTokenizer(PickledByArguments):
    """Every code point that is not white space, in mixed case.

    A letter and its combining mark, or the parts of a joined emoji, are separate tokens: which of them form one
    character depends on the version of Unicode, and a count of code points does not.
    """

    name = "char"
    version = f"unicode {unicodedata.unidata_version}"

    def tokenize(self, text: str) -> list[str]:
        """Return the characters of one text."""
        return list("".join(text.split()))

    def tokenize_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the characters of many texts."""
        return [list("".join(text.split())) for text in texts]
