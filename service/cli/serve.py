"""`refaug serve`: the service over HTTP. Every setting of a server is an option here, made of its field."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Final

import typer

from service.cli.common import JsonFlag, print_line
from service.serve_settings import ServeSettings, hints, variable_of

CheckFlag = Annotated[
    bool,
    typer.Option("--check", help="Print what would be used, and what is wrong with it, and end; 0 if nothing is."),
]
AnyPortFlag = Annotated[bool, typer.Option("--any-port", help="Where the port is in use, take any that is free.")]
_OURS: Final = {"check": CheckFlag, "any_port": AnyPortFlag, "as_json": JsonFlag}


def serve_command(context: typer.Context, **given: Any) -> None:
    """Answer over HTTP, run jobs and keep schedules, until Ctrl-C or SIGTERM; a second one ends at once.

    Every option may be a variable as well: --port is REFAUG_PORT (docs/reference/settings.md); options go first. What
    is listened on is printed when it can be connected to; GET /readyz says when everything is open. Logs are JSON
    lines on stderr. With --json, --check prints JSON.
    """
    check, any_port, as_json = (given.pop(name) for name in _OURS)
    settings = ServeSettings.from_env(**given)
    if check:
        from service.cli.serve_check import check_serve  # noqa: PLC0415

        named = frozenset(name for name, value in given.items() if value is not None)
        check_serve(context.obj, settings, by_option=named, any_port=any_port, as_json=as_json)
        return
    from service.supervisor import serve  # noqa: PLC0415  the database's libraries

    level = logging.WARNING if context.obj.quiet else logging.INFO
    serve(
        context.obj,
        settings,
        any_port=any_port,
        tell=lambda address: print_line(f"listening on {address}"),
        level=level,
    )


def _parameters() -> Iterator[inspect.Parameter]:
    """The parameters as typer reads them; without defaults, so that variables count where nothing is given."""
    yield inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    kinds = hints()
    for one in fields(ServeSettings):
        yield _keyword(one.name, Annotated[kinds[one.name] | None, _option(one.name, kinds[one.name], one)], None)
    for name, annotation in _OURS.items():
        yield _keyword(name, annotation, default=False)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(name: str, kind: type, one: Any) -> Any:
    flag = name.replace("_", "-")
    says = one.metadata["says"]
    default = shown_default(one.default)
    help_text = f"{says[0].upper()}{says[1:]}. [{variable_of(name)}{f'; {default}' if default else ''}]"
    if kind is bool:
        return typer.Option(f"--{flag}/--no-{flag}", help=help_text, show_default=False)
    # the ranges are those of the settings, which name the variable too
    return typer.Option(f"--{flag}", help=help_text, show_default=False, metavar=_METAVARS[kind])


_METAVARS: Final = {int: "N", float: "N", str: "TEXT"}


def shown_default(value: object) -> str:
    """A default as one would write it; nothing for an empty text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


_PARAMETERS: Final = tuple(_parameters())
serve_command.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
serve_command.__annotations__ = {one.name: one.annotation for one in _PARAMETERS}
