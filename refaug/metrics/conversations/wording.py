"""What is counted in the words of a conversation: laughter, questions, length.

The paper and its released code differ; each form has a name, and the first is the default.
"""

from __future__ import annotations

import re
from typing import Final

from refaug.metrics.conversations.variants import Laughter, Questions

MOST_LAUGHS: Final = 4
MOST_WORDS: Final = 30
QUESTION_WORDS: Final = ("who", "what", "why", "where", "how", "when")

_WORD: Final = re.compile(r"[^\W_]+")
_LAUGH: Final = re.compile(r"(a?h+a+)+h*")


def count_laughs(text: str, form: Laughter = "token") -> int:
    """Count laughter, four times at most.

    `token` counts the words that are laughter as a whole ("ha", "haha", "ahahah"). `substring` is the released code's:
    every "ha" counts, those of "that" and "what" too.
    """
    lowered = text.lower()
    if form == "substring":
        return min(lowered.count("ha"), MOST_LAUGHS)
    return min(sum(1 for word in _WORD.findall(lowered) if _LAUGH.fullmatch(word)), MOST_LAUGHS)


def question_score(text: str, form: Questions = "half") -> float:
    """Return how far a reply asks something, in [0, 1].

    `half` gives half for a question mark and half for a question word. `both` is the later released code's: 1 for a
    question mark in a text that has a question word, be it inside of another word, and otherwise 0.
    """
    lowered = text.lower()
    has_mark = "?" in lowered
    if form == "both":
        return float(has_mark and any(word in lowered for word in QUESTION_WORDS))
    has_word = not _QUESTION_SET.isdisjoint(_WORD.findall(lowered))
    return 0.5 * has_mark + 0.5 * has_word


def count_words(text: str | None) -> int:
    """Count the words between spaces, thirty at most; 0 for an answer that did not come."""
    return 0 if text is None else min(len(text.split()), MOST_WORDS)


_QUESTION_SET: Final = frozenset(QUESTION_WORDS)
