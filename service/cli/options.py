"""Options that several commands share, said once: the fields of a dataclass become options of a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer can read it: where a parameter is a dataclass, its fields stand in its place.

    A field without a default is a required option. The dataclass is made of what was typed before the command begins,
    so what it refuses when it is made is refused first.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

    @functools.wraps(command)
    def taken_apart(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options = list[inspect.Parameter]()
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            assert parameter.default is inspect.Parameter.empty, "the fields have the defaults; this one would be lost"
            options += _options(groups[parameter.name])
        else:
            options.append(_option(parameter.name, hints[parameter.name], parameter.default))
    taken_apart.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    taken_apart.__annotations__ = {option.name: option.annotation for option in options}
    return taken_apart


def _options(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield _option(field.name, hints[field.name], field.default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """By keyword, as typer gives everything; so that one without a default may follow one that has one."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=annotation,
    )
