"""Fields of a protocol or a form, read one by one; an error names the field, what it is, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from refaug.bots.endpoint.field_reader import FieldReader
from refaug.core.text.name_suggestions import suggestion

ID: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}")


class StudyFields(FieldReader):
    """Reads the fields of a JSON object of a study."""

    def require_known(self, names: Sequence[str]) -> None:
        """Refuse unknown fields, with the field that was probably meant."""
        for name in self._table:
            if name not in names:
                message = f"there is no such field{suggestion(str(name)[:80], names)}"
                raise self.bad(str(name)[:80], message, f"one of: {', '.join(names)}")

    def at(self, name: str) -> str:
        """Return the place of a field, as errors name it."""
        return f"{self._where}, {name}"

    def long_text(self, name: str, most: int, *, required: bool = False) -> str:
        """Return a text of at most so many characters, empty where there is none."""
        text = self._table.get(name, "")
        if not isinstance(text, str) or len(text) > most or (required and not text.strip()):
            found_input = f"{len(text):,} characters" if isinstance(text, str) else type(text).__name__
            raise self.bad(
                name, f"a text was expected, not {found_input}", f"{1 if required else 0} to {most:,} characters"
            )
        return text.strip()

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        flag = self._table.get(name, default)
        if not isinstance(flag, bool):
            raise self.bad(name, f"{flag!r} is neither true nor false", "true or false, without quotation marks")
        return flag

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number between two bounds."""
        return int(self.number(name, default, least, most, whole=True))

    def table(self, name: str) -> Mapping[str, Any]:
        """Return an object, empty where there is none or null."""
        content = self._table.get(name)
        if content is not None and not isinstance(content, dict):
            raise self.bad(name, f"an object was expected, not {type(content).__name__}", "{…}")
        return content or {}

    def objects(self, name: str, most: int, *, least: int = 0) -> list[Mapping[str, Any]]:
        """Return a list of JSON objects."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or not least <= len(listed) <= most:
            size = f"{len(listed):,} entries" if isinstance(listed, list) else type(listed).__name__
            raise self.bad(name, f"a list was expected, not {size}", f"{least} to {most:,} objects")
        for place, entry in enumerate(listed):
            if not isinstance(entry, dict):
                raise self.bad(f"{name}[{place}]", "an object was expected", "{…}")
        return listed

    def texts(self, name: str, most: int, *, longest: int = 200) -> tuple[str, ...]:
        """Return a list of texts."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or len(listed) > most:
            raise self.bad(name, "a list of texts was expected", f"at most {most:,}")
        for place, text in enumerate(listed):
            if not isinstance(text, str) or not text.strip() or len(text) > longest:
                raise self.bad(f"{name}[{place}]", f"{str(text)[:60]!r} is no text", f"1 to {longest:,} characters")
        return tuple(listed)

    def id(self, name: str) -> str:
        """Return an id."""
        text = self._table.get(name)
        if not isinstance(text, str) or ID.fullmatch(text) is None:
            raise self.bad(name, f"{str(text)[:60]!r} is no id", "lower-case letters, digits, _ . -, at most 64")
        return text

    def language(self, name: str, default: str) -> str:
        """Return a language tag."""
        text = self._table.get(name, default)
        if not is_language(text):
            raise self.bad(name, f"{str(text)[:60]!r} is no language", "a tag such as en, de or pt-BR")
        return str(text)


def is_language(text: object) -> bool:
    """Return whether a text looks like a language tag."""
    return isinstance(text, str) and _LANGUAGE.fullmatch(text) is not None
