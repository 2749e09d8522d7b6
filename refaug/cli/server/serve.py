"""`refaug serve`: the service over HTTP. Every setting of a server is an option, generated from its field."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, Final

import typer

from refaug.cli.shared.output import JsonFlag, print_line
from refaug.service.server_settings import ServeSettings, setting_types, variable_of

CheckFlag = Annotated[
    bool,
    typer.Option("--check", help="Print the settings and their faults, and end; exit code 0 without faults."),
]
AnyPortFlag = Annotated[bool, typer.Option("--any-port", help="Where the port is in use, take any that is free.")]
_EXTRA_FLAGS: Final = {"check": CheckFlag, "any_port": AnyPortFlag, "as_json": JsonFlag}


def serve_command(context: typer.Context, **options: Any) -> None:
    """Answer over HTTP, run jobs and keep schedules, until Ctrl-C or SIGTERM; a second signal ends it at once.

    Every option may be a variable as well: --port is REFAUG_PORT (docs/reference/settings.md); options go first. What
    is listened on is printed when it can be connected to; GET /readyz says when everything is open. Logs are JSON
    lines on stderr. With --json, --check prints JSON.
    """
    check, any_port, as_json = (options.pop(name) for name in _EXTRA_FLAGS)
    settings = ServeSettings.from_env(**options)
    if check:
        from refaug.cli.server.serve_check import check_serve  # noqa: PLC0415

        named = frozenset(name for name, option in options.items() if option is not None)
        check_serve(context.obj, settings, by_option=named, any_port=any_port, as_json=as_json)
        return
    from refaug.service.process.server import serve  # noqa: PLC0415  the database's libraries

    level = logging.WARNING if context.obj.quiet else logging.INFO
    serve(
        context.obj,
        settings,
        any_port=any_port,
        tell=lambda address: print_line(f"listening on {address}"),
        level=level,
    )


def _parameters() -> Iterator[inspect.Parameter]:
    """Yield the parameters for typer; they have no defaults, so that variables apply where no option is given."""
    yield inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    kinds = setting_types()
    for field in fields(ServeSettings):
        yield _keyword(
            field.name, Annotated[kinds[field.name] | None, _option(field.name, kinds[field.name], field)], None
        )
    for name, annotation in _EXTRA_FLAGS.items():
        yield _keyword(name, annotation, default=False)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(name: str, kind: type, field: Any) -> Any:
    flag = name.replace("_", "-")
    says = field.metadata["says"]
    default = default_text(field.default)
    help_text = f"{says[0].upper()}{says[1:]}. [{variable_of(name)}{f'; {default}' if default else ''}]"
    panel: dict[str, Any] = {"rich_help_panel": _PANELS.get(name, "Limits"), "hidden": name not in _PANELS}
    if kind is bool:
        return typer.Option(f"--{flag}/--no-{flag}", help=help_text, show_default=False, **panel)
    # the settings check the ranges, and their errors name the variable too
    return typer.Option(f"--{flag}", help=help_text, show_default=False, metavar=_METAVARS[kind], **panel)


_EVERYDAY: Final = {
    "Listening": ("host", "port", "root_path", "proxies", "allowed_hosts", "workers", "job_worker"),
    "Access": ("keys", "open", "sources"),
    "Serving": ("default_index", "default_rater", "database"),
    "Limits": ("requests", "timeout_s"),
}
_PANELS: Final = {name: panel for panel, names in _EVERYDAY.items() for name in names}

_METAVARS: Final = {int: "N", float: "N", str: "TEXT"}


def default_text(default: object) -> str:
    """Return a default as a user would write it; nothing for an empty text."""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


_PARAMETERS: Final = tuple(_parameters())
serve_command.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
serve_command.__annotations__ = {parameter.name: parameter.annotation for parameter in _PARAMETERS}
