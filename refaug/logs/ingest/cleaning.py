"""Cleaning as a list of named rules: each can be switched off, and each counts its hits.

Repairs change a text (in the order of `REPAIRS`); filters drop it and give the reason. Most messages need no rule at
all, and a check of their characters alone recognises them, so that a log is cleaned at the speed of that check; a test
keeps the two ways equal.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import regex

from refaug.core.errors import Usage
from refaug.core.text.normalisation import normalise, stream_safe

URL, EMAIL, USER = "<url>", "<email>", "<user>"

# ── Repairs: text → text ──────────────────────────────────────────────────────────────────────────────────────────

# Zero-width joiner and non-joiner stay: Persian spelling and composed emoji need them.
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_URL = re.compile(
    r"(?:(?i:https?://|ftp://)|(?<![A-Za-z0-9])(?:www|Www|WWW)\.)"
    r"[^\s<>\"'）」』】、。]+[^\s<>\"'.,;:!?)\]}）」』】、。]"
)
# Letters that can precede or follow a name; not \w, since scripts without spaces write `連絡はa@b.exampleまで`.
_NAME = r"A-Za-z0-9_\u00c0-\u052f"
_EMAIL = re.compile(
    rf"(?<![{_NAME}.+-])[{_NAME}.+-]{{1,64}}@(?:[{_NAME}-]{{1,63}}\.){{1,8}}[a-zA-Z]{{2,24}}(?![{_NAME}-])"
)
_USER = re.compile(rf"(?<![{_NAME}@/])@[A-Za-z0-9_](?:[A-Za-z0-9_.-]{{0,38}}[A-Za-z0-9_])?")


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", stream_safe(text))


def _entities(text: str) -> str:
    """Unescape twice, since logs that went through two web forms hold `&amp;#39;`."""
    if "&" not in text:
        return text
    try:
        return html.unescape(html.unescape(text))
    except ValueError:  # `&#` with more digits than Python converts to a number
        return text


def _control(text: str) -> str:
    return _CONTROL.sub("", text)


def _urls(text: str) -> str:
    return _URL.sub(URL, text) if "://" in text or "ww." in text or "WW." in text else text


def _emails(text: str) -> str:
    return _EMAIL.sub(EMAIL, text) if "@" in text else text


def _users(text: str) -> str:
    return _USER.sub(USER, text) if "@" in text else text


def _spaces(text: str) -> str:
    return " ".join(text.split())


# ── Mark-up: one function a preset ────────────────────────────────────────────────────────────────────────────────

# None of these may take longer than linear time: a mark's content cannot hold the mark's beginning, so that marks
# without an end are not searched for over and over.

_REDDIT_QUOTE = re.compile(r"^[ \t]*(?:>|&gt;)(?!!).*$", re.MULTILINE)
_REDDIT_SPOILER = re.compile(r">!([^\n<>]*)!<")
_REDDIT_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]++(?:\([^()\s]*+\)[^()\s]*+)?\)")
_REDDIT_USER = re.compile(r"(?<![\w/])/?u/[A-Za-z0-9_-]{3,20}")
_REDDIT_BLOCK = re.compile(r"^[ \t]*(?:#{1,6} +|[-*+] +|\d{1,3}\. +(?=\S))", re.MULTILINE)
_REDDIT_STARS = re.compile(r"(?<!\w)(\*{1,3}|~~|`{1,3})(?=\S)([^\n*~`]++)(?<=\S)\1(?!\w)")
_REDDIT_UNDERSCORES = re.compile(
    r"(?<!\w)(__?)(?=[^\s_])((?:[^\n_]|(?<=[^\W_])_++(?=[^\W_]))++)(?<=\S)\1(?!\w)"  # not those of snake_case
)
_SLACK_USER = re.compile(r"<@[UW][A-Z0-9]+(?:\|[^<>]*)?>|<![a-z]+(?:\^[A-Z0-9]+)?(?:\|[^<>]*)?>")
_SLACK_CHANNEL = re.compile(r"<#[CG][A-Z0-9]+(?:\|([^<>]*))?>")
_SLACK_LINK = re.compile(r"<(?:https?|ftp)://[^<>]*>")
_SLACK_MAIL = re.compile(r"<mailto:[^<>]*>")
_TAG = re.compile(r"</?(?!(?:url|email|user)>)[A-Za-z][A-Za-z0-9]*(?:\s[^<>]{0,500})?/?>")
_SUBTITLE = re.compile(r"\{\\[^{}]{0,100}\}|\{[yY]:[a-z]\}|^[ \t]*-[ \t]*", re.MULTILINE)
_RETWEET = re.compile(r"^RT @\w{1,20}: ?")


def _reddit(text: str) -> str:
    """Remove quoted lines (they are another message), keep the words of links and the content of emphasis."""
    text = _REDDIT_QUOTE.sub("", text)
    text = _REDDIT_LINK.sub(r"\1", text)
    text = _REDDIT_USER.sub(USER, text)
    text = _REDDIT_BLOCK.sub("", text)
    text = _REDDIT_SPOILER.sub(r"\1", text)
    return _REDDIT_UNDERSCORES.sub(r"\2", _REDDIT_STARS.sub(r"\2", text))


def _slack(text: str) -> str:
    text = _SLACK_CHANNEL.sub(r"\1", _SLACK_USER.sub(USER, text))
    return _SLACK_MAIL.sub(EMAIL, _SLACK_LINK.sub(URL, text))


def _html(text: str) -> str:
    return _TAG.sub(" ", text)


def _subtitles(text: str) -> str:
    return _TAG.sub("", _SUBTITLE.sub("", text))


def _twitter(text: str) -> str:
    return _RETWEET.sub("", text)


MARKUPS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"reddit": _reddit, "slack": _slack, "html": _html, "subtitles": _subtitles, "twitter": _twitter}
)

REPAIRS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "entities": _entities,
        "control": _control,
        "nfc": _nfc,  # after these two, which can bring a letter and its mark together
        "markup": _html,  # marks the position; the chosen preset's function replaces it
        "urls": _urls,
        "emails": _emails,
        "users": _users,
        "spaces": _spaces,
    }
)

# ── Filters: text → reason to drop it ─────────────────────────────────────────────────────────────────────────────

SCRIPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ar": r"\p{Arabic}",
        "bg": r"\p{Cyrillic}",
        "el": r"\p{Greek}",
        "fa": r"\p{Arabic}",
        "he": r"\p{Hebrew}",
        "hi": r"\p{Devanagari}",
        "ja": r"\p{Hiragana}\p{Katakana}\p{Han}ー",
        "ko": r"\p{Hangul}\p{Han}",
        "ru": r"\p{Cyrillic}",
        "th": r"\p{Thai}",
        "uk": r"\p{Cyrillic}",
        "zh": r"\p{Han}",
        "latin": r"\p{Latin}",
    }
)
_LATIN_LANGUAGES = frozenset(
    [
        "cs",
        "da",
        "de",
        "en",
        "es",
        "et",
        "fi",
        "fr",
        "hr",
        "hu",
        "id",
        "it",
        "lt",
        "lv",
        "ms",
        "nl",
        "no",
        "pl",
        "pt",
        "ro",
        "sk",
        "sl",
        "sv",
        "sw",
        "tl",
        "tr",
        "vi",
    ]
)
_LETTER = regex.compile(r"\p{L}")
_PLACEHOLDER = re.compile(f"{URL}|{EMAIL}|{USER}")
_DELETED = re.compile(
    r"\[?\(?\s*(?:deleted|removed|deleted by user|message deleted|unavailable)\s*\)?\]?", re.IGNORECASE
)
_BRACKETED = ("[", "(")
_BOT_TEXT = re.compile(r"\bI(?:['’]m| am) a (?:ro)?bot\b|\bbeep boop\b|performed automatically", re.IGNORECASE)
_BOT_SPEAKERS = frozenset({"AutoModerator", "automoderator", "slackbot", "Slackbot", "USLACKBOT"})
_LONGEST_RUN: Final = 100
_LONG_RUN = re.compile(r"[!-~]{101}")

FILTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "deleted": "the platform's word for a message that is gone: [deleted], [removed]",
        "bots": "messages that say a bot wrote them, and the platforms' own bots",
        "too-long": "more characters than --max-chars",
        "too-short": "fewer characters than --min-chars",
        "not-text": "more than half punctuation and symbols, a run of over 100 ASCII characters, or damaged letters",
        "script": "fewer than half of its letters in the script of --language",
        "flood": "the --flood-cap first messages with the same words are kept, further ones are not",
    }
)
# Rules that cannot be switched off: texts excluded by the caller, and empty texts.
ALWAYS: Final = ("empty", "blocked-speaker", "erased")

MOST_FLOOD_CAP: Final = 60_000  # limit of the counter's 16-bit cells


@dataclass(frozen=True, kw_only=True)
class CleaningSettings:
    """Which rules run, and their bounds; part of every log's manifest."""

    rules: tuple[str, ...] = (*REPAIRS, *FILTERS)
    markup: str = "none"
    language: str | None = None
    min_chars: int = 1
    max_chars: int = 2_000
    flood_cap: int = 1_000

    def __post_init__(self) -> None:
        """Refuse mark-ups and languages that do not exist."""
        if self.markup != "none" and self.markup not in MARKUPS:
            raise Usage(f"no mark-up {self.markup!r}", remedy=f"there are: none, {', '.join(MARKUPS)}")
        if self.language is not None and script_of(self.language) is None:
            languages = ", ".join(sorted({*SCRIPTS, *_LATIN_LANGUAGES} - {"latin"}))
            raise Usage(f"the script of language {self.language!r} is not known", remedy=f"known are: {languages}")


def script_of(language: str) -> str | None:
    """Return the regular-expression set of a language's letters; None for an unknown language."""
    return SCRIPTS["latin"] if language in _LATIN_LANGUAGES else SCRIPTS.get(language)


@dataclass(slots=True)
class CleanTexts:
    """A block of messages after cleaning; `texts[i]` is None if message i was dropped, for `reasons[i]`."""

    texts: list[str | None]
    normalised: list[bytes]  # UTF-8, b"" where dropped
    reasons: dict[int, str] = field(default_factory=dict)
    changed: Counter[str] = field(default_factory=Counter)

    def drop(self, index: int, reason: str) -> None:
        """Drop a message."""
        self.texts[index], self.normalised[index], self.reasons[index] = None, b"", reason


class Cleaner:
    """The rules of one `CleaningSettings`, ready to run over blocks of messages."""

    def __init__(self, settings: CleaningSettings) -> None:
        self.settings = settings
        self._repairs = tuple(
            (name, MARKUPS[settings.markup] if name == "markup" else repair)
            for name, repair in REPAIRS.items()
            if name in settings.rules and not (name == "markup" and settings.markup == "none")
        )
        self._filters = frozenset(settings.rules) & frozenset(FILTERS)
        script = script_of(settings.language) if settings.language is not None and "script" in settings.rules else None
        self._script = None if script is None else regex.compile(rf"(?V1)[\p{{L}}&&[{script}]]")
        self._is_plain = _PLAIN_PROSE if settings.markup in ("reddit", "subtitles") else _PLAIN
        self._shortest = max(settings.min_chars, 1)
        self._any_plain = script is None or script == SCRIPTS["latin"]

    def clean(self, texts: Sequence[str]) -> CleanTexts:
        """Run every rule over every text; plain texts pass unchanged and are normalised all at once."""
        cleaned = CleanTexts(texts=[None] * len(texts), normalised=[b""] * len(texts))
        plain = self._plain(texts) if self._any_plain else []
        folded = _fold([texts[index] for index in plain])
        kept_texts, normalised = cleaned.texts, cleaned.normalised
        passed = bytearray(len(texts))
        for index, text in zip(plain, folded, strict=True):
            # Enough letters, and no word that a filter looks for; otherwise the rules themselves decide.
            letters = len(text) - text.count(b" ")
            if (
                2 * letters >= len(texts[index])
                and b"bot" not in text
                and b"automatically" not in text
                and b"beep boop" not in text
            ):
                kept_texts[index], normalised[index], passed[index] = texts[index], text, 1
        index = passed.find(0)
        while index >= 0:
            self._clean_one(index, texts[index], cleaned)
            index = passed.find(0, index + 1)
        return cleaned

    def _plain(self, texts: Sequence[str]) -> list[int]:
        """Return the places of texts that no repair and no length filter can change."""
        is_plain, shortest, longest = self._is_plain, self._shortest, self.settings.max_chars
        return [
            index
            for index, text in enumerate(texts)
            if is_plain(text)
            and "  " not in text
            and "://" not in text
            and "ww." not in text
            and "WW." not in text
            and text[-1] != " "
            and shortest <= len(text) <= longest
            and (len(text) <= _LONGEST_RUN or not has_long_run(text))
        ]

    def _clean_one(self, index: int, text: str, results: CleanTexts) -> None:
        """Run every rule, one after the other; this defines cleaning, and the quick way above must agree with it."""
        cleaned = self.repair(text, results.changed)
        normalised = normalise(cleaned)
        reason = self.reason_to_drop(cleaned, normalised)
        if reason is None:
            results.texts[index], results.normalised[index] = cleaned, normalised.encode()
        else:
            results.drop(index, reason)

    def repair(self, text: str, changed: Counter[str]) -> str:
        """Return the text after every repair, counting the repairs that changed it."""
        for name, repair in self._repairs:
            repaired = repair(text)
            if repaired != text:
                changed[name] += 1
                text = repaired
        return text

    def reason_to_drop(self, text: str, normalised: str) -> str | None:
        """Return the first filter that drops this (repaired) text."""
        if not normalised:
            return "empty"
        filters = self._filters
        if "deleted" in filters and text[0] in _BRACKETED and len(text) < 24 and _DELETED.fullmatch(text):
            return "deleted"
        if "bots" in filters and _says_bot(text, normalised):
            return "bots"
        if "too-long" in filters and len(text) > self.settings.max_chars:
            return "too-long"
        if "too-short" in filters and len(text) < self.settings.min_chars:
            return "too-short"
        if "not-text" in filters and not is_text(text):
            return "not-text"
        if self._script is not None and not self._in_script(text):
            return "script"
        return None

    def _in_script(self, text: str) -> bool:
        """Return whether a text is in the script.

        Texts with fewer than six letters pass, since `OK` and `LOL` are universal.
        """
        assert self._script is not None
        words = _PLACEHOLDER.sub("", text)
        letters = len(_LETTER.findall(words))
        return letters < 6 or 2 * len(self._script.findall(words)) >= letters


def _says_bot(text: str, normalised: str) -> bool:
    mentions_bot = "bot" in normalised or "automatically" in normalised or "beep" in normalised
    return mentions_bot and _BOT_TEXT.search(text) is not None


def is_text(text: str) -> bool:
    """Return whether a person may have written this: not a drawing, a key, a dump, or wrongly decoded letters."""
    if len(text) > _LONGEST_RUN and has_long_run(text):
        return False
    if text.count("\ufffd") * 20 > len(text):
        return False
    visible = len(text) - text.count(" ")
    if len(text) <= 16 or 2 * sum(map(str.isalnum, text)) >= visible:  # ":-)" and "?!?!" are answers
        return True
    return 2 * sum(_is_letter(character) for character in text) >= visible


def _is_letter(character: str) -> bool:
    """Return whether a character is a letter, mark or digit, or an emoji (So), but no drawing character."""
    category = unicodedata.category(character)
    return category[0] in "LMN" or (category == "So" and _DRAWN.match(character) is None)


_DRAWN = re.compile("[\u2500-\u25ff\u2800-\u28ff]")  # lines, blocks, shapes, Braille


def has_long_run(text: str) -> bool:
    """Return whether over a hundred ASCII characters follow each other without a space: keys, dumps, encoded files."""
    start = 0
    while len(text) - start > _LONGEST_RUN:
        space = text.rfind(" ", start, start + _LONGEST_RUN + 1)
        if space < 0:
            return _LONG_RUN.search(text) is not None
        start = space + 1
    return False


def is_bot(speaker: str | None) -> bool:
    """Return whether this name is one of the platforms' own bots."""
    return speaker in _BOT_SPEAKERS


# Texts that no repair can change: ASCII without the characters that begin entities, addresses, names and tags, and
# without the symbols that normalisation keeps. Reddit's and subtitles' mark-up uses many other characters.
_PLAIN = re.compile(r"[A-Za-z0-9!\"#%'*,\-./:;?\\^_`{}][A-Za-z0-9 !\"#%'()*,\-./:;?\[\\\]^_`{}]*").fullmatch
_PLAIN_PROSE = re.compile(r"[A-Za-z][A-Za-z0-9 !\"%',.:;?-]*").fullmatch
_FOLD = bytes.maketrans(bytes(range(65, 91)) + b"!\"#%'()*,-./:;?[\\]^_`{}", bytes(range(97, 123)) + b" " * 23)
_BLANK: Final = ord(" ")


def _fold(texts: Sequence[str]) -> list[bytes]:
    """Normalise plain texts, all at once; a newline, which none of them holds, separates them."""
    if not texts:
        return []
    block = np.frombuffer(b"\n" + "\n".join(texts).encode().translate(_FOLD) + b"\n", dtype=np.uint8)
    blank = block <= _BLANK  # a space, or the newline
    repeated = np.zeros(len(block), dtype=bool)
    repeated[1:] = (block[1:] == _BLANK) & blank[:-1]
    return block[~repeated].tobytes().replace(b" \n", b"\n")[1:-1].split(b"\n")


def skeleton(normalised: bytes) -> bytes:
    """Return what near-identical messages share: the last sixty bytes, without digits and symbols such as <url>.

    Bots and templates vary the name, the number and the link; their closing words stay.
    """
    if b"<" in normalised:
        normalised = _SYMBOL.sub(b"", normalised)
    return normalised.translate(None, b"0123456789")[-60:]


_SYMBOL = re.compile(rb"<(?:url|user|email)>")
