"""Messages for readers on other machines: without the folders of this one, and without keys and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Self

HIDDEN: Final = "…"
_ABSOLUTE_PATH: Final = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\",;:]+/)*([^\s/'\",;:]+)")
_NO_FOLDERS: Final = frozenset({"", ".", "./", "/", "//"})  # spellings that say nothing about this machine
_SECRETS: Final = (
    # our keys, as `refaug admin keys create` makes them, in any place
    (re.compile(r"refaug_[A-Za-z0-9-]{2,}_[A-Za-z0-9_-]{4,}"), f"refaug_{HIDDEN}"),
    # headers with a key, also as a pair in a list of headers, up to the end of the quotes or of the line
    (
        re.compile(r"""(?i)\b(authorization|x-api-key|cookie)\b(['"]?\s*[:=,]\s*(?:b(?=['"]))?['"]?)[^'"\r\n]+"""),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}"), rf"\1 {HIDDEN}"),
    # the password in a URL
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s/@]+@"), rf"\1:{HIDDEN}@"),
)


@dataclass(frozen=True)
class HiddenFolders:
    """Folders that no message shows, each with the text that stands for it."""

    replacements: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, replacements: Mapping[str, str]) -> Self:
        """Order the folders: the longest is replaced first, since one may contain another."""
        named = {folder: text for folder, text in replacements.items() if folder not in _NO_FOLDERS}
        return cls(tuple(sorted(named.items(), key=lambda pair: -len(pair[0]))))

    @classmethod
    def named(cls, home: Path) -> Self:
        """Hide a home, which is shown as HOME, and the folder of the user, which is shown as ~."""
        spellings = {str(home.resolve()), str(home.absolute())}
        relative = {} if home.is_absolute() else {f"{home}/": "HOME/"}
        return cls.of(relative | {str(Path.home()): "~"} | dict.fromkeys(spellings, "HOME"))

    @classmethod
    def left_out(cls, *folders: Path) -> Self:
        """Leave out folders, so that paths in them become relative ones."""
        spellings = {f"{spelling}/" for folder in folders for spelling in (folder.resolve(), folder.absolute(), folder)}
        return cls.of(dict.fromkeys(spellings, ""))

    def hide(self, text: str) -> str:
        """Return the text without these folders."""
        for folder, replacement in self.replacements:
            text = text.replace(folder, replacement)
        return text


def shorten_paths(text: str) -> str:
    """Shorten every absolute path to its last part."""
    return _ABSOLUTE_PATH.sub(r"\1", text)


def escape_undecodable(text: str) -> str:
    """Escape the parts of file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def without_secrets(text: str) -> str:
    """Return the text without keys and passwords."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


# ── Suggestions for names that are probably typing errors ─────────────────────────────────────────────────────────────

_LONGEST: Final = 60  # characters of a name that are compared: the time grows with their square
MOST_SUGGESTIONS: Final = 20  # of one error: each takes up to a millisecond, and a body may have thousands of names


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that the first one is most like, or None where none is like it."""
    if len(name) > _LONGEST:
        return None
    return next(iter(get_close_matches(name.lower(), list(names), n=1)), None)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'references'?`, or nothing where no name is like this one."""
    nearest = nearest_name(name, names)
    return "" if nearest is None or nearest == name else f"; did you mean {nearest!r}?"
