"""The command `refaug`: its subcommands, each imported at its use, and the exit codes of errors."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, get_type_hints

import typer
from typer.exceptions import TyperException

from refaug.cli.command_tree import HELP_ALL, RefaugCommand, command_at
from refaug.cli.commands import ENTRIES, path_of
from refaug.cli.shared.output import ReaderGone, report_error
from refaug.core.errors import Interrupted, NoAccess, RefaugError, Usage
from refaug.core.home import Settings
from refaug.core.installation import extras_named
from refaug.core.version import VERSION

# Commands print their results; log lines are only for the log that a server sets up.
_NOWHERE: Final = logging.NullHandler()
_TYPER_INTERRUPTED: Final = 130
# commands that start again from the beginning after an interruption, with those below them but one
_BEGIN_ANEW: Final = re.compile(
    r"(score|compare|agreement|sets|bots reply|judge score|train report|studies report)( (?!reproduce).*)?"
)
_STORE_ANSWERS: Final = re.compile(r"--on(=.*)?|(--metric=)?judge:.*")  # these too go on: finished blocks, or answers
_REPORT: Final = "this is a fault of ours: please report it with the lines above"


_HELP: Final = ("-h", "--help")
_CONTEXT: Final = {"help_option_names": list(_HELP), "max_content_width": 110}
app = typer.Typer(
    name="refaug",
    cls=RefaugCommand,
    help="How good is a reply when many different replies would have been fine?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes around an option's text cost a third of the start
    context_settings=_CONTEXT,
)


def _show_version(is_asked_for: bool) -> None:
    if is_asked_for:
        print(f"refaug {VERSION}")
        raise typer.Exit


def options(
    context: typer.Context,
    home: Annotated[
        str | None, typer.Option(help="Where everything is kept; overrules REFAUG_HOME.", metavar="FOLDER")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress on stderr, only warnings and errors: for cron.")
    ] = False,
    version: Annotated[  # noqa: ARG001  the callback answers it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """How good is a reply when many different replies would have been fine?"""  # noqa: D400
    settings = Settings.from_env() if home is None else Settings(home=Path(home))
    context.obj = replace(settings, quiet=quiet)


options.__annotations__ = get_type_hints(options, include_extras=True)  # the command looks for texts among them
app.callback()(options)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code says how it went (docs/reference/exit-codes.md)."""
    words = sys.argv[1:] if arguments is None else arguments
    logging.getLogger("refaug").addHandler(_NOWHERE)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with extras_named():
            return _run(words)
    except (RefaugError, OSError) as error:
        own_error = error if isinstance(error, RefaugError) else _no_access(error)
        if isinstance(error, Usage) and error.field:
            from refaug.cli.shared.field_options import spelled_as_flags  # noqa: PLC0415  help needs none of it

            own_error = spelled_as_flags(error)
        report_error(own_error, as_json="--json" in words)
        return own_error.exit_code
    except ReaderGone:
        if sys.stdout is not None:  # Python flushes it once more at its end, and would complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  whatever it is, scripts must get a code and people a trace to report
        traceback.print_exc()
        report_error(RefaugError(f"{type(error).__name__}: {error}", remedy=_REPORT), as_json="--json" in words)
        return RefaugError.exit_code


def _no_access(error: OSError) -> RefaugError:
    """Return an error of the system as ours: a refused path is NoAccess, anything else a fault of this program."""
    if error.filename is None:
        return RefaugError(f"{type(error).__name__}: {error}", remedy=_REPORT)
    return NoAccess(
        f"{error.filename}: {(error.strerror or 'no access').lower()}",
        remedy="give this user the right to it, or choose another place: --home, REFAUG_HOME, --output",
    )


def _run(words: list[str]) -> int:
    """Run a command, and raise our errors in place of those of typer."""
    stores = any(_STORE_ANSWERS.fullmatch(word) for word in words)
    resumes = stores or not _BEGIN_ANEW.fullmatch(path_of(words))
    remedy = "the same command goes on where it stopped" if resumes else "nothing was kept: run it again"
    interrupted = Interrupted("interrupted", remedy=remedy)
    try:
        code = _begin(words)
    except TyperException as error:
        if error.format_message().startswith("Usage: "):  # a group of commands alone
            sys.stdout.write(f"{error.format_message()}\n")
            return Usage.exit_code
        raise Usage(error.format_message(), remedy=_usage_remedy(error.format_message(), words)) from error
    except KeyboardInterrupt as error:
        raise interrupted from error
    except typer.Abort as error:
        if isinstance(error.__context__, EOFError):  # no command asks for anything, so this is a file that ends early
            raise error.__context__ from None
        raise interrupted from error
    if code == _TYPER_INTERRUPTED:
        raise interrupted
    return code if isinstance(code, int) else 0


def _begin(words: list[str]) -> Any:
    if words and words[0] in ENTRIES and not {*_HELP, HELP_ALL}.isdisjoint(words):
        # without the options before a command
        name = f"{app.info.name} {words[0]}"
        return command_at(words[0]).main(words[1:], prog_name=name, standalone_mode=False, **_CONTEXT)
    return app(words, standalone_mode=False)


def _usage_remedy(message: str, words: Sequence[str]) -> str:
    if any(option in message for option in ("--home", "--quiet")):
        return "--home and --quiet stand before the command: refaug --home FOLDER log list"
    if "extra argument" in message and path_of(words) == "score":
        return "one file at a time; several as one: cat FILE FILE | refaug score -"
    return "refaug --help, or refaug COMMAND --help"


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
