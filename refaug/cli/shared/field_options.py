"""Options that several commands share: the fields of a dataclass become options of a command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import typer


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which the fields of dataclass parameters stand in their place.

    A field without a default is a required option. The dataclass is built from the typed options before the command
    begins, so its checks come first.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

    @functools.wraps(command)
    def run_command(**typed: Any) -> None:
        for name, group in groups.items():
            typed[name] = group(**{field.name: typed.pop(field.name) for field in fields(group)})
        command(**typed)

    options = list[inspect.Parameter]()
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            assert parameter.default is inspect.Parameter.empty, "the fields have the defaults; this one would be lost"
            options += _options(groups[parameter.name])
        else:
            options.append(_option(parameter.name, hints[parameter.name], parameter.default))
    run_command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run_command.__annotations__ = {option.name: option.annotation for option in options}
    return run_command


def typed_names(context: typer.Context) -> frozenset[str]:
    """Return the names of the parameters that the command line has, as against those with their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def _options(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield _option(field.name, hints[field.name], field.default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a keyword parameter; so a parameter without a default may follow one with a default."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=annotation,
    )
