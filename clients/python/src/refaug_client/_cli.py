"""`refaug-client`: scores, references and jobs from a shell. Results on stdout, everything else on stderr.

Exit codes: 0 done; 1 the answer is no (replies became worse, a job failed); 2 the command makes no sense; 3 what was
handed in cannot be used (a file, an id, a key); 4 it could not be done now (nobody answered, too busy, a fault);
5 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Optional

from . import _errors as errors
from ._ci import BASELINE, NOW, Baseline, Verdict
from ._client import Client
from ._models import Job, MetricScores, Scores
from ._retry import Retry
from ._rows import (
    REPLY,
    BadFile,
    ReaderGone,
    Replied,
    harmless,
    note,
    read_rows,
    replies_in,
    said_in,
    say_json,
    say_line,
    say_table,
    why,
)
from ._settings import KEY_VARIABLE, URL_VARIABLE
from ._version import VERSION

NO, MEANINGLESS, UNUSABLE, LATER, STOPPED = 1, 2, 3, 4, 5
_MODES = ("embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog")


# ── the parser ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Parser(argparse.ArgumentParser):
    """Says what is wrong without repeating values: one of them may be a key."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **more})

    def error(self, message: str) -> NoReturn:
        note(f"error: {harmless(message)}\n  {self.prog} --help")
        sys.exit(MEANINGLESS)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; of those that are unknown the names alone are told."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            named = [one.partition("=")[0] for one in unknown if one.startswith("-")]
            self.error(f"unknown: {', '.join(named)}" if named else f"{len(unknown)} arguments too many")
        return found


def parser() -> argparse.ArgumentParser:
    """All that can be asked for."""
    server = _Parser(add_help=False)
    group = server.add_argument_group("the server")
    group.add_argument("--url", help=f"where it is; else {URL_VARIABLE}, else http://127.0.0.1:8000")
    group.add_argument("--uds", metavar="PATH", help="Unix socket that it listens on")
    group.add_argument("--key", help=f"key to show; others on this machine can see it: better {KEY_VARIABLE}")
    group.add_argument("--key-file", metavar="FILE", help="file with the key; -: stdin")
    group.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for each try; 60")
    group.add_argument("--tries", type=int, default=Retry().tries, metavar="N", help="how often each request is sent")
    group.add_argument("--quiet", "-q", action="store_true", help="no progress on stderr, errors and warnings alone")
    top = _Parser(prog="refaug-client", description=(__doc__ or "").partition("\n")[0], epilog=_EPILOG)
    top.add_argument("--version", action="version", version=f"refaug-client {VERSION}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)

    def command(name: str, says: str, to: Any = commands, **more: Any) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = to.add_parser(name, help=says, description=says, parents=[server], **more)
        return made

    _add_score(command("score", "Score replies, of items or against a frozen set.", epilog=_REPLIES))
    _add_references(command("references", "Find and weigh references for items; a line of JSON each."))
    _add_ci(command("ci", "Fail with 1 where replies score worse than those of a baseline.", epilog=_REPLIES))
    jobs = commands.add_parser("jobs", help="Start, follow and stop jobs.", description="Start, follow and stop jobs.")
    _add_jobs(jobs.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser), command)
    return top


_EPILOG = (
    "Exit codes: 0 done; 1 became worse, or a job failed; 2 the command makes no sense; 3 what was handed in cannot be "
    "used; 4 could not be done now; 5 stopped."
)
_REPLIES = (
    'Rows are lines of JSON. Against a set: {"id": "d1", "reply": "…"}, or "replies": {"NAME": "…"} for several '
    "systems; a single reply is the system `model`'s. Without a set they are whole items (docs/items.md)."
)


def _add_finding(to: argparse.ArgumentParser) -> None:
    to.add_argument("--index", help="name or name@version; else the server's default")
    to.add_argument("--rater", help="name or name@version; else the server's default")
    to.add_argument("-k", type=int, metavar="N", help="references to find for each item")
    to.add_argument("--mode", choices=_MODES, help="what is compared, and by what")
    to.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="any other of the API's `settings`"
    )
    to.add_argument("--on-error", choices=("fail", "report"), help="what a bad item does; report: is left out and told")


def _add_metrics(to: argparse.ArgumentParser) -> None:
    to.add_argument("--metric", "-m", action="append", metavar="NAME", help="NAME or NAME:key=value,…; several times")
    to.add_argument("--system", action="append", default=[], metavar="NAME", help="this system alone; several times")
    to.add_argument("--language", help="of the texts (en, ja, …)")
    to.add_argument("--draws", type=int, default=0, metavar="N", help="of the bootstrap; 0: no intervals, no tests")
    to.add_argument("--confidence", type=float, help="of the intervals; 0.95")
    to.add_argument("--seed", type=int, help="of the draws; 1")


def _add_score(to: argparse.ArgumentParser) -> None:
    to.add_argument("items", metavar="ITEMS", help="file of JSON lines; -: stdin")
    to.add_argument("--set", metavar="ID", help="score against this frozen set")
    _add_metrics(to)
    to.add_argument("--references", choices=("find", "given"), help="find further ones, or take the items as they are")
    _add_finding(to)
    to.add_argument("--baseline", metavar="SYSTEM", help="the system to compare every other one with; needs --draws")
    to.add_argument("--percent", action="store_true", help="times 100")
    form = to.add_mutually_exclusive_group()
    form.add_argument("--replies", action="store_true", help="a line of JSON for every reply, instead of a table")
    form.add_argument("--json", action="store_true", help="the whole answer as one JSON document")
    to.set_defaults(run=_score)


def _add_references(to: argparse.ArgumentParser) -> None:
    to.add_argument("items", metavar="ITEMS", help="file of JSON lines; -: stdin")
    _add_finding(to)
    to.set_defaults(run=_references)


def _add_ci(to: argparse.ArgumentParser) -> None:
    to.add_argument("replies", metavar="REPLIES", help="file of JSON lines; -: stdin")
    to.add_argument("--set", metavar="ID", required=True, help="the frozen set to score against")
    to.add_argument("--baseline", metavar="FILE", required=True, help="what to compare with")
    to.add_argument(
        "--write-baseline", action="store_true", help="make these replies the baseline, and compare nothing"
    )
    to.add_argument(
        "--max-drop", type=float, default=0.0, metavar="D", help="how much worse a corpus score may be; 0: not at all"
    )
    to.add_argument(
        "--max-p",
        type=float,
        metavar="P",
        help="let a drop pass that chance explains: fail where p (paired randomisation) is below P; needs --draws",
    )
    _add_metrics(to)
    to.add_argument("--json", action="store_true", help="what was found as one JSON document")
    to.set_defaults(run=_ci)


def _add_jobs(to: Any, command: Any) -> None:
    start = command("start", "Queue a job, and print its id.", to)
    start.add_argument("kind", metavar="KIND", help="what is to be done, such as index-update or ingest")
    start.add_argument(
        "order", nargs="*", metavar="NAME=VALUE", help="fields of the order; a value is JSON where it can be, else text"
    )
    start.add_argument("--wait", action="store_true", help="wait until it has ended")
    start.set_defaults(run=_start_job)
    listed = command("list", "Jobs, newest first.", to)
    listed.add_argument("--state", choices=("queued", "running", "done", "failed", "cancelled"))
    listed.add_argument("--kind")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many; 50")
    listed.add_argument("--json", action="store_true", help="a line of JSON for each")
    listed.set_defaults(run=_list_jobs)
    for name, says, run in (
        ("get", "A job as JSON.", _get_job),
        ("wait", "Wait until a job has ended, and print it; 1 where it failed.", _wait_for_job),
        ("events", "What happens to a job, a line of JSON each, until it has ended.", _follow_job),
        ("cancel", "Stop a job, and print it.", _cancel_job),
    ):
        one = command(name, says, to)
        one.add_argument("id", metavar="ID")
        one.set_defaults(run=run)


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _score(refaug: Client, given: argparse.Namespace) -> int:
    common: dict[str, Any] = {
        "metrics": given.metric,
        "draws": given.draws,
        "confidence": given.confidence,
        "seed": given.seed,
        "baseline": given.baseline,
        "percent": given.percent,
        "language": given.language,
        "on_error": given.on_error,
        "progress": not given.quiet,
    }
    called = _called(given.items)
    if given.set is not None:
        for name in ("references", "index", "rater", "k", "mode", "setting"):
            if getattr(given, name):
                option = f"{'-' if len(name) == 1 else '--'}{name}"
                raise errors.Usage(f"{option} with --set", remedy="a set has its references: leave it out")
        replied = replies_in(read_rows(given.items), called).only(given.system)
        scores = refaug.sets.score(given.set, replied.systems, items=replied.items, **common)
        ids = replied.items
    else:
        items = [_item(row, f"{called}: row {number}", given.system) for number, row in _numbered(given.items)]
        if not items:
            raise BadFile(f"{called}: no rows", remedy="a test file: docs/items.md")
        scores = refaug.score(
            items,
            references=given.references,
            index=given.index,
            rater=given.rater,
            settings=_settings(given),
            **common,
        )
        ids = []
    _tell(scores)
    if given.json:
        say_json(scores.to_dict(), pretty=True)
    elif given.replies:
        for one in scores.scores:
            _say_replies(one, ids)
    else:
        for one in scores.scores:
            _say_scores(one)
    return 0


def _numbered(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(read_rows(path), 1)


def _item(row: dict[str, Any], at: str, systems: Sequence[str]) -> dict[str, Any]:
    """A row as an item of the API."""
    said = {name: text for name, text in said_in(row, at).items() if text is not None}
    if systems:
        said = {name: text for name, text in said.items() if name in systems}
    return {**{name: value for name, value in row.items() if name != REPLY}, "replies": said}


def _say_scores(scores: MetricScores) -> None:
    say_line(scores.signature)
    intervals = any(system.interval for system in scores.systems.values())
    columns = ["system", "corpus", *(["interval"] if intervals else []), "mean", "scored", "unscored"]
    say_table(
        columns,
        [
            [name, one.corpus, *([one.interval] if intervals else []), one.mean, one.scored, one.unscored]
            for name, one in scores.systems.items()
        ],
    )
    if scores.comparisons:
        say_table(
            ["compared", "difference", "interval", "p bootstrap", "p randomisation", "replies"],
            [
                [name, one.difference, one.interval, one.p_bootstrap, one.p_randomisation, one.replies]
                for name, one in scores.comparisons.items()
            ],
        )


def _say_replies(scores: MetricScores, ids: Sequence[str]) -> None:
    for name, system in scores.systems.items():
        details = system.details
        for place, score in enumerate(system.replies):
            detail = details[place] if details else None
            row = {"metric": scores.metric, "system": name, "id": detail.id if detail else ids[place], "score": score}
            say_json({**row, **({"problem": detail.problem} if detail and detail.problem else {})})


def _tell(found: Any) -> None:
    """Warnings and left-out items of an answer, on stderr."""
    for warning in found.warnings:
        note(f"warning: {warning}")
    for one in found.problems:
        said = one if isinstance(one, dict) else one.to_dict()
        note(f"left out: {said.get('item') or said.get('field')}: {said.get('message')}")


def _references(refaug: Client, given: argparse.Namespace) -> int:
    with refaug.references_iter(
        read_rows(given.items),
        index=given.index,
        rater=given.rater,
        settings=_settings(given),
        on_error=given.on_error,
        progress=not given.quiet,
    ) as found:
        for item in found:
            say_json(item.to_dict())
    _tell(found)
    return 0


def _settings(given: argparse.Namespace) -> Optional[dict[str, Any]]:
    found = _assignments(given.setting, "--setting")
    for name in ("k", "mode"):
        if (value := getattr(given, name)) is not None:
            if name in found:
                raise errors.Usage(f"{name} is given twice", remedy="once")
            found[name] = value
    return found or None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _assignments(given: Sequence[str], what: str) -> dict[str, Any]:
    """NAME=VALUE as a dict; a value that is JSON is what it says, any other one is text."""
    found: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise errors.Usage(f"{what} {one!r}", remedy="NAME=VALUE, such as k=5 or log=chat")
        if name in found:
            raise errors.Usage(f"{what}: {name} is given twice", remedy="once")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


# ── in CI ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ci(refaug: Client, given: argparse.Namespace) -> int:
    replied = replies_in(read_rows(given.replies), _called(given.replies)).only(given.system)
    if len(replied.systems) != 1:
        raise errors.Usage(
            f"there are replies of {len(replied.systems)} systems: {', '.join(replied.systems)}",
            remedy="--system NAME: which one is to be looked at",
        )
    if given.max_p is not None and not given.draws:
        raise errors.Usage("--max-p without --draws", remedy="--draws 1000: p comes from them")
    if not given.max_drop >= 0:
        raise errors.Usage(f"--max-drop {given.max_drop}", remedy="0 or more")
    if given.write_baseline:
        return _write_baseline(refaug, given, replied)
    baseline = Baseline.read(given.baseline)
    asked = given.metric or list(baseline.metrics)
    baseline.require_same(given.set, asked, replied.items)
    now = next(iter(replied.systems.values()))
    both = {BASELINE: baseline.replies, NOW: now} if given.draws else {NOW: now}
    scores = _scores_of(refaug, given, Replied(replied.items, both), asked, baseline=BASELINE if given.draws else None)
    verdicts = [
        Verdict.of(spec, baseline.metrics[spec], found, NOW, max_drop=given.max_drop, max_p=given.max_p)
        for spec, found in zip(asked, scores.scores)
    ]
    passed = all(one.is_passed for one in verdicts)
    if given.json:
        say_json({"set": given.set, "passed": passed, "metrics": [one.as_dict() for one in verdicts]}, pretty=True)
    else:
        columns = ["metric", "baseline", "now", "drop", "interval of the difference", "p", "unscored"]
        say_table(
            columns,
            [
                [one.metric, one.before.corpus, one.now.corpus, one.drop, one.interval, one.p, one.now.unscored]
                for one in verdicts
            ],
        )
    for one in verdicts:
        if not one.is_passed:
            note(f"failed: {one.sentence()}")
        elif not given.quiet:
            note(f"passed: {one.sentence()}")
    return 0 if passed else NO


def _scores_of(
    refaug: Client,
    given: argparse.Namespace,
    replied: Replied,
    asked: Optional[Sequence[str]],
    *,
    baseline: Optional[str] = None,
) -> Scores:
    scores = refaug.sets.score(
        given.set,
        replied.systems,
        items=replied.items,
        metrics=asked,
        language=given.language,
        draws=given.draws if baseline else 0,
        confidence=given.confidence if baseline else None,
        seed=given.seed if baseline else None,
        baseline=baseline,
        progress=not given.quiet,
    )
    _tell(scores)
    return scores


def _write_baseline(refaug: Client, given: argparse.Namespace, replied: Replied) -> int:
    scores = _scores_of(refaug, given, replied, given.metric)
    made = Baseline.of(given.set, given.metric or [one.metric for one in scores.scores], replied, scores)
    write_text(given.baseline, made.as_text())
    said = ", ".join(f"{spec} {figures.corpus:.4f}" for spec, figures in made.metrics.items())
    say_line(f"baseline of {len(made.items):,} replies written: {said}")
    return 0


def write_text(path: str, text: str) -> None:
    """A file that is there whole, or as it was before."""
    place = Path(path)
    aside = place.with_name(f"{place.name}.{os.getpid()}.new")
    try:
        aside.write_text(text, "utf-8")
        aside.replace(place)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BadFile(f"{path}: {why(error)}", remedy="--baseline with a place that can be written to") from error


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _start_job(refaug: Client, given: argparse.Namespace) -> int:
    job = refaug.jobs.start(given.kind, **_assignments(given.order, "the order"))
    if not given.wait:
        say_line(job.id)
        return 0
    note(f"job {job.id}")
    return _waited(refaug, job.id, given)


def _list_jobs(refaug: Client, given: argparse.Namespace) -> int:
    jobs = refaug.jobs.list(state=given.state, kind=given.kind, limit=given.limit)
    if given.json:
        for job in jobs:
            say_json(job.to_dict())
    else:
        say_table(
            ["id", "kind", "state", "created", "resources"],
            [[job.id, job.kind, job.state, job.created, ", ".join(job.resources)] for job in jobs],
        )
    return 0


def _get_job(refaug: Client, given: argparse.Namespace) -> int:
    say_json(refaug.jobs.get(given.id).to_dict(), pretty=True)
    return 0


def _wait_for_job(refaug: Client, given: argparse.Namespace) -> int:
    return _waited(refaug, given.id, given)


def _waited(refaug: Client, job: str, given: argparse.Namespace) -> int:
    try:
        found = refaug.jobs.wait(job, progress=not given.quiet)
    except errors.JobFailed as error:
        if isinstance(error.job, Job):
            say_json(error.job.to_dict(), pretty=True)
        raise
    say_json(found.to_dict(), pretty=True)
    return 0


def _follow_job(refaug: Client, given: argparse.Namespace) -> int:
    for event in refaug.jobs.events(given.id):
        say_json({"id": event.id, "kind": event.kind, **event.data})
    return 0


def _cancel_job(refaug: Client, given: argparse.Namespace) -> int:
    say_json(refaug.jobs.cancel(given.id).to_dict(), pretty=True)
    return 0


# ── the door ──────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; the exit code says how it went."""
    given = parser().parse_args(arguments)
    try:
        with _client(given) as refaug:
            return int(given.run(refaug, given))
    except errors.RefaugError as error:
        code = f" [{error.code}]" if isinstance(error, errors.Problem) else ""
        note(f"error{code}: {error}")
        return exit_code(error)
    except ReaderGone:
        if sys.stdout is not None:  # Python flushes it once more at its end, and would complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        note("stopped")
        return STOPPED
    except Exception:  # noqa: BLE001  not 1, which says that replies became worse
        note(f"{traceback.format_exc()}error: this is a fault of ours: please report it with the lines above")
        return LATER


def exit_code(error: errors.RefaugError) -> int:
    """What an error says to a script."""
    if isinstance(error, errors.JobFailed):
        return NO
    if isinstance(error, errors.Usage):
        return MEANINGLESS
    later = (errors.NoAnswer, errors.BadAnswer, errors.Later, errors.ServerFault)
    return LATER if isinstance(error, later) else UNUSABLE


def _client(given: argparse.Namespace) -> Client:
    return Client(
        given.url,
        uds=given.uds,
        key=_key(given),
        timeout_s=given.timeout,
        retry=Retry(tries=given.tries),
    )


def _key(given: argparse.Namespace) -> Optional[str]:
    if given.key is not None and given.key_file is not None:
        raise errors.Usage("--key and --key-file at once", remedy="one of the two")
    if given.key_file is None:
        key: Optional[str] = given.key
        return key
    try:
        text = sys.stdin.read() if given.key_file == "-" else Path(given.key_file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadFile(
            f"{_called(given.key_file)}: {why(error)}", remedy="a file with a key and nothing else"
        ) from error
    if not text.strip():
        raise BadFile(f"{_called(given.key_file)}: no key in it", remedy="a file with a key and nothing else")
    return text.strip()


def _called(path: str) -> str:
    return "stdin" if path == "-" else path


if __name__ == "__main__":
    sys.exit(main())
