"""`refaug-client`: a gate for the replies of a model. Results on stdout, everything else on stderr.

Exit codes: 0 passed; 1 the replies became worse; 2 the command makes no sense; 3 what was
handed in cannot be used (a file, an id, a key); 4 it could not be done now (no answer, too busy, a fault); 5 stopped
with Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Optional

from refaug_client._core import errors
from refaug_client._http.settings import KEY_VARIABLE, URL_VARIABLE, Retry
from refaug_client._threads import Client
from refaug_client._version import VERSION

from . import commands
from .printing import OutputClosed, escape_controls, note
from .reading import BadFile, display_name, reason_of

MEANINGLESS, UNUSABLE, LATER, STOPPED = 2, 3, 4, 5  # 1 is commands.WORSE


# ── The parser ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong without repeating values: one of them may be a key."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        note(f"error: {escape_controls(message)}\n  {self.prog} --help")
        sys.exit(MEANINGLESS)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; of unknown ones the names only are reported."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            option_names = [one.partition("=")[0] for one in unknown if one.startswith("-")]
            self.error(f"unknown: {', '.join(option_names)}" if option_names else f"{len(unknown)} arguments too many")
        return arguments


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    server = _Parser(add_help=False)
    group = server.add_argument_group("the server")
    group.add_argument("--url", help=f"where it is; else {URL_VARIABLE}, else http://127.0.0.1:8000")
    group.add_argument("--uds", metavar="PATH", help="Unix socket that it listens on")
    group.add_argument("--key", help=f"key to show; others on this machine can see it: better {KEY_VARIABLE}")
    group.add_argument("--key-file", metavar="FILE", help="file with the key; -: stdin")
    group.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each try; 60")
    group.add_argument("--tries", type=int, default=Retry().tries, metavar="N", help="how often each request is sent")
    group = server.add_argument_group("what is told on stderr")
    group.add_argument("--quiet", "-q", action="store_true", help="errors and warnings alone")
    group.add_argument("--progress", action="store_true", help="how far it is, where stderr is no terminal, too")
    top = _Parser(prog="refaug-client", description=(__doc__ or "").partition("\n")[0], epilog=_EPILOG)
    top.add_argument("--version", action="version", version=f"refaug-client {VERSION}")
    subcommands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    description = "Fail with 1 where replies score worse than those of a baseline."
    _add_ci(
        subcommands.add_parser("ci", help=description, description=description, parents=[server], epilog=_ROWS_HELP)
    )
    return top


_EPILOG = (
    "Exit codes: 0 passed; 1 became worse; 2 the command makes no sense; 3 what was handed in cannot be "
    "used; 4 could not be done now; 5 stopped."
)


_ROWS_HELP = (
    'Rows are lines of JSON: {"id": "d1", "reply": "…"}, or "replies": {"NAME": "…"} for several systems; a single '
    "reply is the system `model`'s."
)


def _add_ci(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("replies", metavar="REPLIES", help="file of JSON lines; -: stdin")
    subparser.add_argument("--set", metavar="ID", required=True, help="the frozen set to score against")
    subparser.add_argument("--baseline", metavar="FILE", required=True, help="what to compare with")
    subparser.add_argument(
        "--write-baseline", action="store_true", help="make these replies the baseline, and compare nothing"
    )
    subparser.add_argument(
        "--max-drop", type=float, default=0.0, metavar="D", help="how much worse a corpus score may be; 0: not at all"
    )
    subparser.add_argument(
        "--max-p",
        type=float,
        metavar="P",
        help="let a drop pass that chance explains: fail where p (paired randomisation) is below P; needs --draws",
    )
    subparser.add_argument(
        "--metric", "-m", action="append", metavar="NAME", help="NAME or NAME:key=value,…; several times"
    )
    subparser.add_argument(
        "--system", action="append", default=[], metavar="NAME", help="this system alone; several times"
    )
    subparser.add_argument("--language", help="of the texts (en, ja, …)")
    subparser.add_argument(
        "--draws", type=int, default=0, metavar="N", help="of the bootstrap; 0: no intervals, no tests"
    )
    subparser.add_argument("--confidence", type=float, help="of the intervals; 0.95")
    subparser.add_argument("--seed", type=int, help="of the draws; 1")
    subparser.add_argument("--json", action="store_true", help="what was found as one JSON document")
    subparser.add_argument("--junit", metavar="FILE", help="write the verdicts as a JUnit file, too")
    subparser.add_argument(
        "--annotations",
        action="store_true",
        help="print failures to stderr as annotations of a GitHub workflow; always where GITHUB_ACTIONS is true",
    )
    subparser.set_defaults(run=commands.ci)


# ── Running ───────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command, and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        with _client(options) as refaug:
            return int(options.run(refaug, options))
    except errors.RefaugError as error:
        code = f" [{error.code}]" if isinstance(error, errors.Problem) else ""
        note(f"error{code}: {error}")
        return exit_code(error)
    except OutputClosed:
        if sys.stdout is not None:  # Python flushes it once more at its end, and would report an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        note("stopped")
        return STOPPED
    except Exception:  # noqa: BLE001  not 1, which says that replies became worse
        note(f"{traceback.format_exc()}error: this is a fault of ours: please report it with the lines above")
        return LATER


def exit_code(error: errors.RefaugError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, errors.Usage):
        return MEANINGLESS
    later = (errors.NoAnswer, errors.BadAnswer, errors.Later, errors.ServerFault)
    return LATER if isinstance(error, later) else UNUSABLE


def _client(options: argparse.Namespace) -> Client:
    return Client(
        options.url,
        uds=options.uds,
        key=_key(options),
        timeout_s=options.timeout,
        retry=Retry(tries=options.tries),
    )


def _key(options: argparse.Namespace) -> Optional[str]:
    if options.key is not None and options.key_file is not None:
        raise errors.Usage("--key and --key-file at once", remedy="one of the two")
    if options.key_file is None:
        key: Optional[str] = options.key
        return key
    try:
        text = sys.stdin.read() if options.key_file == "-" else Path(options.key_file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadFile(
            f"{display_name(options.key_file)}: {reason_of(error)}", remedy="a file with a key and nothing else"
        ) from error
    if not text.strip():
        raise BadFile(f"{display_name(options.key_file)}: no key in it", remedy="a file with a key and nothing else")
    return text.strip()


if __name__ == "__main__":
    sys.exit(main())
