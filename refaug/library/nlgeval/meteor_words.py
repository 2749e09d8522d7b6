"""The words of a text as METEOR counts them, and which of them are function words."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Final

_SAME_MARKS: Final = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'", "–": "-"})
_LETTERS_WITH_STOPS: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}(?!\w)|\b(?:[^\W\d_]\.)+[^\W\d_]\b(?!\.?\w)")
_HYPHEN_IN_WORD: Final = re.compile(r"(?<=\w)-(?=\w)")
_TOKEN: Final = re.compile(
    r"\d+(?:[.,]\d+)*\.(?=[^\W\d_])[^\W\d_]*"  # 3.a
    r"|\d+(?:[.,]\d+)+"  # 1,000.5
    r"|(?<=\w)'[^\W\d_]+"  # 's
    r"|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # a character of Japanese or Chinese
    r"|(?:(?![\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff_])\w)+"
    r"|\.{2,}"
    r"|\S"
)


def normalize(text: str) -> list[str]:
    """Return the tokens of a text in lower case, as METEOR's -norm gives them."""
    marks = text.translate(_SAME_MARKS).replace("''", '"')
    joined = _LETTERS_WITH_STOPS.sub(lambda match: match.group().replace(".", ""), marks)
    words = _HYPHEN_IN_WORD.sub(" ", joined).split()
    tokens: list[str] = []
    for at, word in enumerate(words):
        tokens += _split(word, following=words[at + 1] if at + 1 < len(words) else "")
    return tokens


def _split(word: str, following: str) -> list[str]:
    """Split a word between white space; a full stop stays with its word where the sentence goes on."""
    tokens = _TOKEN.findall(word.lower())
    goes_on = following[:1].islower() or (following and tokens[-2:-1] and tokens[-2] in english_words("abbreviations"))
    if goes_on and len(tokens) > 1 and tokens[-1] == "." and tokens[-2].isalnum():
        return [*tokens[:-2], f"{tokens[-2]}."]
    return tokens


def is_function_word(token: str) -> bool:
    """Whether a token is so frequent that it says little."""
    return token in english_words("function_words")


@functools.cache
def english_words(kind: str) -> frozenset[str]:
    """Return `function_words`, those that are more than one word in a thousand, or `abbreviations`."""
    lists: dict[str, list[str]] = json.loads(Path(__file__).with_name("english_words.json").read_text("utf-8"))
    return frozenset(lists[kind])
