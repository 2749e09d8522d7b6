"""Fields of a small table, such as a TOML file or a JSON object, read one by one; an error names the field."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from refaug.core.errors import BadInput

KEY_REMEDY: Final = 'take it out, and name the environment variable that holds it: key_env = "JUDGE_KEY"'


class FieldReader:
    """Reads fields of a table one by one, and names those that are wrong."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._table, self._where = table, where

    def bad(self, name: str, message: str, remedy: str) -> BadInput:
        """Return the error of a field."""
        return BadInput(f"{self._where}, {name}: {message}", remedy=remedy)

    def require_only(self, names: tuple[str, ...]) -> None:
        """Refuse unknown fields; one that looks like a key gets its own remedy."""
        for name in self._table:
            if name in names:
                continue
            if any(word in str(name).lower() for word in ("key", "token", "secret", "password", "authorization")):
                raise self.bad(str(name), "keys do not belong into this file", KEY_REMEDY)
            raise self.bad(str(name), "there is no such field", f"one of: {', '.join(names)}")

    def text(self, name: str, *, required: bool = False) -> str | None:
        """Return a text, or None."""
        text = self._table.get(name)
        if text is None and not required:
            return None
        if not isinstance(text, str) or not text.strip() or len(text) > 2_000:
            raise self.bad(name, "a text was expected", f'{name} = "…"')
        return text.strip()

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices, by default the first."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise self.bad(name, f"{text!r} is none of them", f"one of: {', '.join(choices)}")
        return text

    def words(self, name: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """Return a list of choices."""
        listed = self._table.get(name, [])
        if not isinstance(listed, list) or not all(word in choices for word in listed):
            raise self.bad(name, "a list was expected", f"some of: {', '.join(choices)}")
        return tuple(dict.fromkeys(listed))

    def number(self, name: str, default: float, least: float, most: float, *, whole: bool = False) -> float:
        """Return a number between two bounds."""
        number = self._table.get(name, default)
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and isfinite(number)
        if not is_number or not least <= number <= most or (whole and number != int(number)):
            kind = "whole number" if whole else "number"
            raise self.bad(name, f"{number!r} is not possible", f"a {kind} from {least:g} to {most:g}")
        return float(number)

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table, empty where there is none."""
        table = self._table.get(name, {})
        if not isinstance(table, dict):
            raise self.bad(name, "a table was expected", f"[{name}] and its fields")
        return table
