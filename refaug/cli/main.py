"""The command `refaug`: its subcommands, each imported at its use, and the exit codes of errors."""

from __future__ import annotations

import inspect
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from refaug.cli.shared.command_place import CommandPlace
from refaug.cli.shared.output import ReaderGone, report_error
from refaug.core.errors import Interrupted, NoAccess, RefaugError, Usage
from refaug.core.home import Settings
from refaug.core.installation import registrations
from refaug.core.installation.extras import extras_named
from refaug.core.installation.registrations import find
from refaug.core.version import VERSION

# Commands print their results; log lines are only for the log that a server sets up.
_NOWHERE: Final = logging.NullHandler()
_TYPER_INTERRUPTED: Final = 130
# commands that start again from the beginning after an interruption
_BEGIN_ANEW: Final = frozenset(
    {"score", "compare", "verify", "meta", "diagnose", "refs", "replies", "sets", "report", "render", "evaluate"}
)
_STORE_ANSWERS: Final = re.compile(r"--on(=.*)?|(--metric=)?judge:.*")  # these too go on: finished blocks, or answers
_ANY_HOME: Final = frozenset({"restore", "doctor"})  # commands for a home that is not whole
_REPORT: Final = "this is a fault of ours: please report it with the lines above"


# Single commands first, then groups. With the lines here, the help imports no command, and a command only its own
# module; a test compares the lines with the commands.
COMMANDS: Final[Mapping[str, CommandPlace]] = {
    "ingest": CommandPlace(
        at="logs.ingest:ingest_command",
        help="Read dialogue logs in any common format, clean them, and add their pairs to a log.",
    ),
    "demo-log": CommandPlace(
        at="logs.demo_log:demo_log_command",
        help="Write a demo log and a matching test file; everything in them is invented here.",
    ),
    "refs": CommandPlace(
        at="scores.refs:refs_command",
        help="Weighted references for every item of a test file, as a test file again, with where each comes from.",
    ),
    "replies": CommandPlace(
        at="scores.replies:replies_command",
        help="Let bots reply to the items of a test file, each as a further system, such as C-BM25 from an index.",
    ),
    "score": CommandPlace(
        at="scores.score:score_command",
        help="Score the replies of one or several systems against their references.",
    ),
    "compare": CommandPlace(
        at="score_files.compare:compare_command",
        help="Compare two score files, or two systems of one: paired tests, and the replies that changed.",
    ),
    "verify": CommandPlace(
        at="score_files.verify:verify_command",
        help="Reproduce the scores of a file from their signatures, and say for each part whether it holds.",
    ),
    "render": CommandPlace(
        at="score_files.render:render_command",
        help="Write the pages of reports again from their JSON: in the style of this version, without the data.",
    ),
    "diagnose": CommandPlace(
        at="scores.diagnose:diagnose_command",
        help="Say how varied, long, generic, repetitive and copied the replies of each system are.",
    ),
    "serve": CommandPlace(
        at="server.serve:serve_command",
        help="Answer over HTTP, run jobs and keep schedules, until Ctrl-C or SIGTERM; a second one ends at once.",
    ),
    "backup": CommandPlace(
        at="server.backup:backup_command",
        help="Write a backup of the home and its database into a folder, also while a server runs.",
    ),
    "restore": CommandPlace(
        at="server.backup:restore_command",
        help="Make an empty home from a backup; every hash is checked before anything is in place.",
    ),
    "audit": CommandPlace(
        at="server.audit:audit_command",
        help="Say who published, removed, erased, withdrew, queued, and made or revoked keys.",
    ),
    "doctor": CommandPlace(
        at="server.doctor:doctor_command",
        help="Check versions, threads, memory, disk, optional parts and stored artefacts; "
        "each trouble with its remedy.",
    ),
    "items": CommandPlace(
        at="items.items:app",
        help="Write tables of any kind as items.",
    ),
    "log": CommandPlace(
        at="logs.log:app",
        help="Look into logs, check them, take dialogues or speakers out of them.",
    ),
    "tokenizer": CommandPlace(
        at="logs.tokenizer:app",
        help="Try tokenizers, and train a SentencePiece vocabulary on logs.",
    ),
    "encoder": CommandPlace(
        at="indexes.encoders:app",
        help="Take over encoders of texts, for refaug-1, bertscore and sentence-cosine.",
    ),
    "vectors": CommandPlace(
        at="indexes.vectors:app",
        help="Train word vectors on logs, or take over published ones.",
    ),
    "index": CommandPlace(
        at="indexes.index:app",
        help="Plan, build, search and update indexes of logs.",
        inner={
            "search": "indexes.index_search:search_command",
            "update": "indexes.index_versions:update_command",
            "delete": "indexes.index_versions:delete_command",
            "compact": "indexes.index_versions:compact_command",
            "copies": "indexes.index_copies:copies_command",
        },
    ),
    "artefacts": CommandPlace(
        at="artefacts.artefacts:app",
        help="Versions of every kind: list, show, publish, roll back, remove, verify, take to other machines.",
        inner={
            "export": "artefacts.transfer:export_command",
            "import": "artefacts.transfer:import_command",
            "push": "artefacts.stores:push_command",
            "fetch": "artefacts.stores:fetch_command",
        },
    ),
    "rater": CommandPlace(
        at="raters.rater:app",
        help="Train raters on logs, measure them, rate replies.",
    ),
    "ruber": CommandPlace(
        at="raters.ruber:app",
        help="Train networks that tell how related a reply is to its utterance: RUBER's unreferenced part.",
    ),
    "sets": CommandPlace(
        at="scores.sets:app",
        help="Freeze weighted references, and score against them.",
        inner={
            "history": "score_files.set_history:history_command",
            "leaderboard": "score_files.set_history:leaderboard_command",
        },
    ),
    "cite": CommandPlace(
        at="score_files.signature:cite_command",
        help="Print what to write beside scores: a sentence, the signature, and BibTeX of the papers to cite.",
    ),
    "signature": CommandPlace(
        at="score_files.signature:app",
        help="Compare the signatures of scores.",
    ),
    "meta": CommandPlace(
        at="scores.meta:app",
        help="Say how far metrics agree with people's ratings, and whether one agrees better than another.",
        inner={
            "probe": "scores.probe:probe_command",
        },
    ),
    "bots": CommandPlace(
        at="bots.bots:app",
        help="Bots by name: retrieval, a model behind an endpoint, a server of your own, fixed replies, a network.",
    ),
    "metrics": CommandPlace(
        at="scores.metrics:app",
        help="The metrics by name: what each needs, its range, its parameters.",
    ),
    "jobs": CommandPlace(
        at="server.jobs:app",
        help="Queue work, follow it, and do it.",
    ),
    "schedules": CommandPlace(
        at="server.schedules:app",
        help="Let jobs begin by the clock.",
    ),
    "keys": CommandPlace(
        at="server.keys:app",
        help="Make and revoke the keys of the service.",
    ),
}


def find_place(name: str) -> CommandPlace | None:
    """Return the place of a command, of ours or of an extra; None where no package has it."""
    place: CommandPlace | None = COMMANDS.get(name) or find(registrations.COMMANDS, name)
    return place


@cache
def command_names() -> tuple[str, ...]:
    """Return the names in the order of the help: those of extras stand last."""
    return (*COMMANDS, *registrations.registered(registrations.COMMANDS))


def _import_place(target: str, command: str) -> Any:
    """Return what a command is made of; those of `COMMANDS` count from this package."""
    module, _, name = target.partition(":")
    return getattr(import_module(f"{__package__}.{module}" if command in COMMANDS else module), name)


@cache
def _command(name: str) -> Any:
    """Return the command that typer makes of a function or of a group."""
    place = find_place(name)
    if place is None:
        raise KeyError(name)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.callback()(lambda: None)  # otherwise typer drops the name of an only command
    made_of = _import_place(place.at, name)
    if isinstance(made_of, typer.Typer):
        for inner, target in place.inner.items():
            made_of.command(inner)(_import_place(target, name))
        cls = made_of.info.cls if isinstance(made_of.info.cls, type) else _CommandGroup
        alone.add_typer(made_of, name=name, cls=cls)
    else:
        alone.command(name)(made_of)
    return typer.main.get_command(alone).commands[name]  # type: ignore[attr-defined]


class _LazyCommands(Mapping[str, Any]):
    """All commands by name, each imported at its first use."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(command_names())

    def __len__(self) -> int:
        return len(command_names())


class _LazyCommand(TyperCommand):
    """A command that is known by its line in the help, and imported when it is called."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the imported command."""
        return _command(self.name or "").make_context(*arguments, **options)


class _CommandGroup(TyperGroup):
    """A group whose help shows the whole sentence of each command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in their order, each with the first paragraph of its help."""
        names = self.list_commands(ctx)
        texts = (inspect.cleandoc(getattr(self.get_command(ctx, name), "help", None) or "") for name in names)
        rows = [(name, text.partition("\n\n")[0]) for name, text in zip(names, texts, strict=True)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _LazyGroup(_CommandGroup):
    """The group of all commands, none of which is imported for the help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # nothing is added to it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(command_names())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return the command of this name, or None."""
        place = find_place(cmd_name)
        return None if place is None else _LazyCommand(cmd_name, callback=None, help=place.help)


_HELP: Final = ("-h", "--help")
_CONTEXT: Final = {"help_option_names": list(_HELP), "max_content_width": 110}
app = typer.Typer(
    name="refaug",
    cls=_LazyGroup,
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


@app.callback()
def options(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Where everything is kept; overrules REFAUG_HOME.", metavar="FOLDER")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress on stderr, only warnings and errors: for cron.")
    ] = False,
    version: Annotated[  # noqa: ARG001  the callback answers it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """How good is a reply when many different replies would have been fine?"""  # noqa: D400
    settings = Settings.from_env() if home is None else Settings(home=home)
    if context.invoked_subcommand not in _ANY_HOME:
        settings.require_whole()
    context.obj = replace(settings, quiet=quiet)


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
    resumes = stores or not _BEGIN_ANEW.intersection(words)
    remedy = "the same command goes on where it stopped" if resumes else "nothing was kept: run it again"
    interrupted = Interrupted("interrupted", remedy=remedy)
    try:
        code = _begin(words)
    except TyperException as error:
        if error.format_message().startswith("Usage: "):  # a group of commands alone
            sys.stdout.write(f"{error.format_message()}\n")
            return Usage.exit_code
        raise Usage(error.format_message(), remedy=_usage_remedy(error.format_message())) from error
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
    if words and not set(_HELP).isdisjoint(words) and not words[0].startswith("-") and find_place(words[0]) is not None:
        # without the options before a command, whose types are pydantic's: a quarter of the time that a help takes
        name = f"{app.info.name} {words[0]}"
        return _command(words[0]).main(words[1:], prog_name=name, standalone_mode=False, **_CONTEXT)
    return app(words, standalone_mode=False)


def _usage_remedy(message: str) -> str:
    if any(option in message for option in ("--home", "--quiet")):
        return "--home and --quiet stand before the command: refaug --home FOLDER log list"
    return "refaug --help, or refaug COMMAND --help"


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
