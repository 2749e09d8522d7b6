"""`refaug`: the whole tool as one command. Errors of ours become exit codes here, and nowhere else."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

from core.errors import Interrupted, NoAccess, RefaugError, Usage
from core.version import VERSION
from service.cli import (
    demo_log,
    diagnose,
    doctor,
    index,
    index_search,
    index_versions,
    ingest,
    jobs,
    keys,
    log,
    meta,
    metrics,
    probe,
    rater,
    refs,
    reproduce,
    ruber,
    schedules,
    score,
    serve,
    sets,
    tokenizer,
    transfer,
    vectors,
)
from service.cli.common import ReaderGone, report_error
from service.settings import Settings

# What a command has to say it prints; what parts of the service log as well is for the log that a server sets up.
_NOWHERE: Final = logging.NullHandler()
_TYPER_INTERRUPTED: Final = 130
# they keep nothing of what they have done
_BEGIN_ANEW: Final = frozenset({"score", "meta", "diagnose", "refs", "sets", "report", "evaluate"})
_REPORT: Final = "this is a fault of ours: please report it with the lines above"

app = typer.Typer(
    name="refaug",
    help="How good is a reply when many different replies would have been fine?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command("ingest")(ingest.ingest_command)
app.add_typer(log.app, name="log")
app.command("demo-log")(demo_log.demo_log_command)
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(vectors.app, name="vectors")
app.add_typer(index.app, name="index")
index.app.command("search")(index_search.search_command)
index.app.command("update")(index_versions.update_command)
index.app.command("delete")(index_versions.delete_command)
index.app.command("compact")(index_versions.compact_command)
index.app.command("publish")(index_versions.publish_command)
index.app.command("rollback")(index_versions.rollback_command)
index.app.command("gc")(index_versions.gc_command)
index.app.command("remove")(index_versions.remove_command)
app.add_typer(rater.app, name="rater")
app.add_typer(ruber.app, name="ruber")
app.add_typer(sets.app, name="sets")
app.command("refs")(refs.refs_command)
app.command("score")(score.score_command)
app.add_typer(meta.app, name="meta")
meta.app.command("probe")(probe.probe_command)
app.command("diagnose")(diagnose.diagnose_command)
app.command("reproduce")(reproduce.reproduce_command)
app.add_typer(metrics.app, name="metrics")
app.command("serve")(serve.serve_command)
app.add_typer(jobs.app, name="jobs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(keys.app, name="keys")
app.command("export")(transfer.export_command)
app.command("import")(transfer.import_command)
app.command("doctor")(doctor.doctor_command)


def _show_version(wanted: bool) -> None:
    if wanted:
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
    context.obj = replace(settings, quiet=quiet)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code says how it went (docs/reference/exit-codes.md)."""
    given = sys.argv[1:] if arguments is None else arguments
    logging.getLogger("service").addHandler(_NOWHERE)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return _run(given)
    except (RefaugError, OSError) as error:
        ours = error if isinstance(error, RefaugError) else _no_access(error)
        report_error(ours, as_json="--json" in given)
        return ours.exit_code
    except ReaderGone:
        if sys.stdout is not None:  # Python flushes it once more at its end, and would complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  whatever it is, scripts must get a code and people a trace to report
        traceback.print_exc()
        report_error(RefaugError(f"{type(error).__name__}: {error}", remedy=_REPORT), as_json="--json" in given)
        return RefaugError.exit_code


def _no_access(error: OSError) -> RefaugError:
    """What the system refused, by path; where there is no path it is no matter of access, and ours."""
    if error.filename is None:
        return RefaugError(f"{type(error).__name__}: {error}", remedy=_REPORT)
    return NoAccess(
        f"{error.filename}: {(error.strerror or 'no access').lower()}",
        remedy="give this user the right to it, or choose another place: --home, REFAUG_HOME, --output",
    )


def _run(given: list[str]) -> int:
    """The command itself, with the library's own ways of ending turned into ours."""
    resumes = not _BEGIN_ANEW.intersection(given)
    remedy = "the same command goes on where it stopped" if resumes else "nothing was kept: run it again"
    interrupted = Interrupted("interrupted", remedy=remedy)
    try:
        code = app(given, standalone_mode=False)
    except TyperException as error:
        if not error.format_message():  # a command group alone has shown its help
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


def _usage_remedy(message: str) -> str:
    if any(option in message for option in ("--home", "--quiet")):
        return "--home and --quiet stand before the command: refaug --home FOLDER log list"
    return "refaug --help, or refaug COMMAND --help"


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
