"""The commands of `refaug-client`: rows in, one call of the library, rows or a table out."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from refaug_client._api.models.jobs import Job
from refaug_client._api.models.scores import MetricScores, Scores
from refaug_client._core import errors
from refaug_client._threads import Client

from .baseline import BASELINE, NOW, Baseline, Verdict
from .ci_reports import annotation_lines, junit_text
from .printing import note, print_json, print_line, print_table
from .reading import REPLY, BadFile, SystemReplies, display_name, read_replies, read_row_replies, read_rows, reason_of

WORSE = 1  # the exit code of replies that score worse than the baseline's


# ── scores and references ─────────────────────────────────────────────────────────────────────────────────────────


def score(refaug: Client, options: argparse.Namespace) -> int:
    """Print scores of replies, of items or against a set."""
    common: dict[str, Any] = {
        "metrics": options.metric,
        "draws": options.draws,
        "confidence": options.confidence,
        "seed": options.seed,
        "baseline": options.baseline,
        "percent": options.percent,
        "language": options.language,
        "on_error": options.on_error,
        "progress": _shows_progress(options),
    }
    where = display_name(options.items)
    if options.set is not None:
        for name in ("references", "index", "rater", "k", "mode", "setting"):
            if getattr(options, name):
                option = f"{'-' if len(name) == 1 else '--'}{name}"
                raise errors.Usage(f"{option} with --set", remedy="a set has its references: leave it out")
        replies = read_replies(read_rows(options.items), where).only(options.system)
        scores = refaug.sets.score(options.set, replies.systems, items=replies.items, **common)
        ids = replies.items
    else:
        items = [_read_item(row, f"{where}: row {number}", options.system) for number, row in _numbered(options.items)]
        if not items:
            raise BadFile(f"{where}: no rows", remedy="a test file: docs/items.md")
        scores = refaug.score(
            items,
            references=options.references,
            index=options.index,
            rater=options.rater,
            settings=_read_settings(options),
            **common,
        )
        ids = []
    _print_warnings(scores)
    if options.json:
        print_json(scores.to_dict(), pretty=True)
    elif options.replies:
        for metric_scores in scores.scores:
            _print_replies(metric_scores, ids)
    else:
        for metric_scores in scores.scores:
            _print_scores(metric_scores)
    return 0


def _numbered(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(read_rows(path), 1)


def _read_item(row: dict[str, Any], place: str, systems: Sequence[str]) -> dict[str, Any]:
    """Return a row as an item of the API."""
    replies = {name: text for name, text in read_row_replies(row, place).items() if text is not None}
    if systems:
        replies = {name: text for name, text in replies.items() if name in systems}
    return {**{name: value for name, value in row.items() if name != REPLY}, "replies": replies}


def _print_scores(scores: MetricScores) -> None:
    print_line(scores.signature)
    intervals = any(system.interval for system in scores.systems.values())
    columns = ["system", "corpus", *(["interval"] if intervals else []), "mean", "scored", "unscored"]
    print_table(
        columns,
        [
            [
                name,
                system_scores.corpus,
                *([system_scores.interval] if intervals else []),
                system_scores.mean,
                system_scores.scored,
                system_scores.unscored,
            ]
            for name, system_scores in scores.systems.items()
        ],
    )
    if scores.comparisons:
        print_table(
            ["compared", "difference", "interval", "p bootstrap", "p randomisation", "replies"],
            [
                [
                    name,
                    comparison.difference,
                    comparison.interval,
                    comparison.p_bootstrap,
                    comparison.p_randomisation,
                    comparison.replies,
                ]
                for name, comparison in scores.comparisons.items()
            ],
        )


def _print_replies(scores: MetricScores, ids: Sequence[str]) -> None:
    for name, system in scores.systems.items():
        details = system.details
        for place, score in enumerate(system.replies):
            detail = details[place] if details else None
            row = {"metric": scores.metric, "system": name, "id": detail.id if detail else ids[place], "score": score}
            print_json({**row, **({"problem": detail.problem} if detail and detail.problem else {})})


def _print_warnings(answer: Any) -> None:
    """Print warnings and left-out items of an answer to stderr."""
    for warning in answer.warnings:
        note(f"warning: {warning}")
    for problem in answer.problems:
        fields = problem if isinstance(problem, dict) else problem.to_dict()
        note(f"left out: {fields.get('item') or fields.get('field')}: {fields.get('message')}")


def references(refaug: Client, options: argparse.Namespace) -> int:
    """Print items with their references, each as soon as it is there."""
    with refaug.references_iter(
        read_rows(options.items),
        index=options.index,
        rater=options.rater,
        settings=_read_settings(options),
        on_error=options.on_error,
        progress=_shows_progress(options),
    ) as stream:
        for referenced_item in stream:
            print_json(referenced_item.to_dict())
    _print_warnings(stream)
    return 0


def _read_settings(options: argparse.Namespace) -> Optional[dict[str, Any]]:
    settings = _parse_assignments(options.setting, "--setting")
    for name in ("k", "mode"):
        if (setting := getattr(options, name)) is not None:
            if name in settings:
                raise errors.Usage(f"{name} is given twice", remedy="once")
            settings[name] = setting
    return settings or None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _parse_assignments(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Return NAME=VALUE texts as a dict; a value that is JSON is read as such, any other one is text."""
    assigned: dict[str, Any] = {}
    for assignment in texts:
        name, equals, text = assignment.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise errors.Usage(f"{option} {assignment!r}", remedy="NAME=VALUE, such as k=5 or log=chat")
        if name in assigned:
            raise errors.Usage(f"{option}: {name} is given twice", remedy="once")
        try:
            assigned[name] = json.loads(text)
        except ValueError:
            assigned[name] = text
    return assigned


# ── in CI ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def ci(refaug: Client, options: argparse.Namespace) -> int:
    """Compare replies with those of a baseline: 0, or 1 where they score worse."""
    replies = read_replies(read_rows(options.replies), display_name(options.replies)).only(options.system)
    if len(replies.systems) != 1:
        raise errors.Usage(
            f"there are replies of {len(replies.systems)} systems: {', '.join(replies.systems)}",
            remedy="--system NAME: which one is to be looked at",
        )
    if options.max_p is not None and not options.draws:
        raise errors.Usage("--max-p without --draws", remedy="--draws 1000: p comes from them")
    if not options.max_drop >= 0:
        raise errors.Usage(f"--max-drop {options.max_drop}", remedy="0 or more")
    if options.write_baseline and (options.junit is not None or options.annotations):
        raise errors.Usage(
            "a report with --write-baseline", remedy="without one: it compares nothing, so there is nothing to report"
        )
    if options.write_baseline:
        return _write_baseline(refaug, options, replies)
    baseline = Baseline.read(options.baseline)
    specifications = options.metric or list(baseline.metrics)
    baseline.require_comparable(options.set, specifications, replies.items)
    now = next(iter(replies.systems.values()))
    both = {BASELINE: baseline.replies, NOW: now} if options.draws else {NOW: now}
    scores = _score_replies(
        refaug,
        options,
        SystemReplies(replies.items, both),
        specifications,
        baseline=BASELINE if options.draws else None,
    )
    verdicts = [
        Verdict.of(spec, baseline.metrics[spec], metric_scores, NOW, max_drop=options.max_drop, max_p=options.max_p)
        for spec, metric_scores in zip(specifications, scores.scores)
    ]
    passed = all(one.is_passed for one in verdicts)
    if options.json:
        print_json({"set": options.set, "passed": passed, "metrics": [one.as_dict() for one in verdicts]}, pretty=True)
    else:
        columns = ["metric", "baseline", "now", "drop", "interval of the drop", "p", "unscored"]
        print_table(
            columns,
            [
                [
                    verdict.metric,
                    verdict.before.corpus,
                    verdict.now.corpus,
                    verdict.drop,
                    verdict.interval,
                    verdict.p,
                    verdict.now.unscored,
                ]
                for verdict in verdicts
            ],
        )
    for verdict in verdicts:
        if not verdict.is_passed:
            note(f"failed: {verdict.sentence()}")
        elif not options.quiet:
            note(f"passed: {verdict.sentence()}")
    _report(verdicts, options)
    return 0 if passed else WORSE


def _report(verdicts: Sequence[Verdict], options: argparse.Namespace) -> None:
    """Write the JUnit file, and print annotations to stderr, where GitHub reads them too and JSON stays JSON."""
    if options.junit is not None:
        write_text(options.junit, junit_text(verdicts, options.set), option="--junit")
    if options.annotations or os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(verdicts, options.replies):
            note(line)


def _score_replies(
    refaug: Client,
    options: argparse.Namespace,
    replies: SystemReplies,
    specifications: Optional[Sequence[str]],
    *,
    baseline: Optional[str] = None,
) -> Scores:
    scores = refaug.sets.score(
        options.set,
        replies.systems,
        items=replies.items,
        metrics=specifications,
        language=options.language,
        draws=options.draws if baseline else 0,
        confidence=options.confidence if baseline else None,
        seed=options.seed if baseline else None,
        baseline=baseline,
        progress=_shows_progress(options),
    )
    _print_warnings(scores)
    return scores


def _write_baseline(refaug: Client, options: argparse.Namespace, replies: SystemReplies) -> int:
    scores = _score_replies(refaug, options, replies, options.metric)
    baseline = Baseline.of(options.set, options.metric or [one.metric for one in scores.scores], replies, scores)
    write_text(options.baseline, baseline.as_text())
    figures_text = ", ".join(f"{spec} {figures.corpus:.4f}" for spec, figures in baseline.metrics.items())
    print_line(f"baseline of {len(baseline.items):,} replies written: {figures_text}")
    return 0


def _shows_progress(options: argparse.Namespace) -> bool:
    """Whether to show the progress: on a terminal, and elsewhere where it is asked for."""
    return not options.quiet and (options.progress or (sys.stderr is not None and sys.stderr.isatty()))


def write_text(path: str, text: str, *, option: str = "--baseline") -> None:
    """Write a file that is there whole, or as it was before."""
    place = Path(path)
    temporary = place.with_name(f"{place.name}.{os.getpid()}.new")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(place)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadFile(f"{path}: {reason_of(error)}", remedy=f"{option} with a place that can be written to") from error


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def start_job(refaug: Client, options: argparse.Namespace) -> int:
    """Start a job and print its id; with --wait, its end."""
    job = refaug.jobs.start(options.kind, **_parse_assignments(options.order, "the order"))
    if not options.wait:
        print_line(job.id)
        return 0
    note(f"job {job.id}")
    return _wait_and_print(refaug, job.id, options)


def list_jobs(refaug: Client, options: argparse.Namespace) -> int:
    """Print jobs, newest first."""
    jobs = refaug.jobs.list(state=options.state, kind=options.kind, limit=options.limit)
    if options.json:
        for job in jobs:
            print_json(job.to_dict())
    else:
        print_table(
            ["id", "kind", "state", "created", "resources"],
            [[job.id, job.kind, job.state, job.created, ", ".join(job.resources)] for job in jobs],
        )
    return 0


def get_job(refaug: Client, options: argparse.Namespace) -> int:
    """Print a job as it is now."""
    print_json(refaug.jobs.get(options.id).to_dict(), pretty=True)
    return 0


def wait_for_job(refaug: Client, options: argparse.Namespace) -> int:
    """Wait for a job and print it; JobFailed where it ended in an error."""
    return _wait_and_print(refaug, options.id, options)


def _wait_and_print(refaug: Client, job_id: str, options: argparse.Namespace) -> int:
    try:
        finished_job = refaug.jobs.wait(job_id, progress=_shows_progress(options))
    except errors.JobFailed as error:
        if isinstance(error.job, Job):
            print_json(error.job.to_dict(), pretty=True)
        raise
    print_json(finished_job.to_dict(), pretty=True)
    return 0


def follow_job(refaug: Client, options: argparse.Namespace) -> int:
    """Print events as they happen."""
    for event in refaug.jobs.events(options.id):
        print_json(event.to_dict())
    return 0


def cancel_job(refaug: Client, options: argparse.Namespace) -> int:
    """Cancel a job and print it."""
    print_json(refaug.jobs.cancel(options.id).to_dict(), pretty=True)
    return 0
