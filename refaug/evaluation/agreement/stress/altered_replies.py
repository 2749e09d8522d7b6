"""Altered replies that a judge has to notice, or has to see through: word order, function words, negation, synonyms."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from refaug.core.errors import NotFound
from refaug.core.text.words import WordTokenizer
from refaug.metrics.words.meteor import WordNet

WORDNET: Final = Path("/usr/share/wordnet")
FALLS, HOLDS = "falls", "holds"  # what the score of an altered reply should do
STRESSES: Final[Mapping[str, tuple[str, str]]] = {  # name → what is done, and what the score should do
    "reversed": ("its words in the reversed order", FALLS),
    "no-stopwords": ("without its function words", FALLS),
    "content-only": ("its content words alone, in lower case, without marks", FALLS),
    "no-punctuation": ("without its punctuation", HOLDS),
    "negated": ("with its first verb of a closed list negated, or the negation taken out", FALLS),
    "synonyms": ("words replaced by a synonym of WordNet", HOLDS),
    "unknown": ("every content word replaced by letters that are no word", FALLS),
    "last-speaker": ("the last turn that the same speaker said before", FALLS),
}
_FUNCTION_WORD_LIST: Final = (
    "a about after all also an and any are as at be been before but by can could did do does for from had has have he "
    "her here him his how i if in into is it its just like me more my no not now of on one only or our out over she so "
    "some than that the their them then there these they this those to too up us was we were what when where which "
    "who will with would you your"
)
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
_VERB_LIST: Final = "is are was were am do does did can could will would should have has had must may"
_VERBS: Final = frozenset(_VERB_LIST.split())
_NEGATION: Final = re.compile(r"\s*\b(?:not|never)\b|n't\b|n’t\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def altered(seed: int, wordnet: WordNet | None) -> dict[str, Callable[[str, str], str]]:
    """Return the change of each stress but the last speaker's, of an item's id and a text; no synonyms without WordNet.

    A text that a stress does not change is returned as it is.
    """
    changes: dict[str, Callable[[str, str], str]] = {
        "reversed": lambda _item, text: " ".join(text.split()[::-1]),
        "no-stopwords": lambda _item, text: _without_function_words(text),
        "content-only": lambda _item, text: " ".join(_content_words(text)) or text,
        "no-punctuation": lambda _item, text: " ".join(_WORD.findall(text)) or text,
        "negated": lambda _item, text: negate(text),
        "unknown": lambda item, text: _unknown_words(text, random.Random(f"{seed}/unknown/{item}")),  # noqa: S311
    }
    if wordnet is not None:
        changes["synonyms"] = lambda _item, text: _WORD.sub(lambda match: synonym(match.group(), wordnet), text)
    return changes


def open_wordnet(folder: Path) -> WordNet | None:
    """Return WordNet, or None where it is not installed."""
    try:
        return WordNet.open(folder)
    except NotFound:
        return None


def negate(text: str) -> str:
    """Return the text with its first negation taken out, else with the first verb of a closed list negated."""
    if _NEGATION.search(text):
        return _NEGATION.sub("", text, count=1).strip()
    words = text.split()
    for place, word in enumerate(words):
        if word.lower().strip(".,!?") in _VERBS:
            return " ".join([*words[: place + 1], "not", *words[place + 1 :]])
    return f"not {text}" if text else text


def synonym(word: str, wordnet: WordNet) -> str:
    """Return the first synonym of a content word in its first synset that has one; the word itself without any."""
    lowered = word.lower()
    if lowered in _FUNCTION_WORDS:
        return word
    for synset in wordnet.synsets(lowered):
        for lemma in synset.lemmas():
            name = lemma.name()
            if name.lower() != lowered and name.isalpha():
                return name
    return word


def last_of_speaker(turns: Sequence[str]) -> str | None:
    """Return the last turn of the speaker who replies: the last but one; None in a shorter dialogue."""
    return turns[-2] if len(turns) > 1 else None


def _without_function_words(text: str) -> str:
    kept_words = [word for word in text.split() if word.lower().strip(".,!?'\"") not in _FUNCTION_WORDS]
    return " ".join(kept_words) or text


def _content_words(text: str) -> list[str]:
    tokens = WordTokenizer().tokenize(text)
    return [token for token in tokens if token[:1].isalnum() and token not in _FUNCTION_WORDS]


def _unknown_words(text: str, generator: random.Random) -> str:
    def replaced(match: re.Match[str]) -> str:
        word = match.group()
        if word.lower() in _FUNCTION_WORDS:
            return word
        return "".join(generator.choice(_LETTERS) for _ in word)

    return _WORD.sub(replaced, text)
