"""docs/reference/cli.md, from the commands themselves."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from refaug.cli.main import app

_HEAD = """# The command `refaug`

Generated from the commands by `make docs`; `make check` and a test compare it with them.

Results go to stdout, progress and errors to stderr. `--json` prints the result for machines, and an error as
`{"error": {"code", "message", "remedy", "exit_code"}}` on stderr. The exit codes are in [exit-codes.md](exit-codes.md).
"""


def cli_reference() -> str:
    """Return the whole page."""
    return _HEAD + "".join(_section(command, path) for path, command in _commands(get_command(app), "refaug"))


def _commands(command: Any, path: str) -> list[tuple[str, Any]]:
    """Return a command and its subcommands, in the order of the help."""
    commands = [(path, command)]
    for name, inner in getattr(command, "commands", {}).items():
        commands += _commands(inner, f"{path} {name}")
    return commands


def _section(command: Any, path: str) -> str:
    shown = [
        parameter for parameter in command.params if parameter.name not in ("install_completion", "show_completion")
    ]
    options = "".join(_parameter(parameter) for parameter in shown)
    return f"\n## {path}\n\n{' '.join((command.help or '').split())}\n" + (f"\n{options}" if options else "")


def _parameter(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    default = parameter.default if not callable(parameter.default) else None
    if isinstance(shown := getattr(parameter, "show_default", None), str):  # the flag takes a text, or none
        default = shown
    default = f" Default: `{default}`." if default not in (None, False, "", ()) and not parameter.required else ""
    needed = " Required." if parameter.required else ""
    if "|" in (choices := getattr(parameter, "metavar", None) or ""):
        default = f" One of: {', '.join(f'`{choice}`' for choice in choices.split('|'))}.{default}"
    return f"- {names}: {' '.join((parameter.help or '').split())}{default}{needed}\n"
