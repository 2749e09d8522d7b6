"""What the commands of `refaug-client` do: rows in, one call of the library, rows or a table out."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from . import _errors as errors
from ._ci import BASELINE, NOW, Baseline, Verdict
from ._client import Client
from ._models import Job, MetricScores, Scores
from ._rows import (
    REPLY,
    BadFile,
    Replied,
    called,
    note,
    read_rows,
    replies_in,
    said_in,
    say_json,
    say_line,
    say_table,
    why,
)

WORSE = 1  # the exit code of replies that score worse than the baseline's


# ── scores and references ─────────────────────────────────────────────────────────────────────────────────────────


def score(refaug: Client, given: argparse.Namespace) -> int:
    """Scores of replies, of items or against a set."""
    common: dict[str, Any] = {
        "metrics": given.metric,
        "draws": given.draws,
        "confidence": given.confidence,
        "seed": given.seed,
        "baseline": given.baseline,
        "percent": given.percent,
        "language": given.language,
        "on_error": given.on_error,
        "progress": _progress(given),
    }
    where = called(given.items)
    if given.set is not None:
        for name in ("references", "index", "rater", "k", "mode", "setting"):
            if getattr(given, name):
                option = f"{'-' if len(name) == 1 else '--'}{name}"
                raise errors.Usage(f"{option} with --set", remedy="a set has its references: leave it out")
        replied = replies_in(read_rows(given.items), where).only(given.system)
        scores = refaug.sets.score(given.set, replied.systems, items=replied.items, **common)
        ids = replied.items
    else:
        items = [_item(row, f"{where}: row {number}", given.system) for number, row in _numbered(given.items)]
        if not items:
            raise BadFile(f"{where}: no rows", remedy="a test file: docs/items.md")
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


def references(refaug: Client, given: argparse.Namespace) -> int:
    """Items with their references, each as soon as it is there."""
    with refaug.references_iter(
        read_rows(given.items),
        index=given.index,
        rater=given.rater,
        settings=_settings(given),
        on_error=given.on_error,
        progress=_progress(given),
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


def ci(refaug: Client, given: argparse.Namespace) -> int:
    """Replies beside those of a baseline: 0, or 1 where they score worse."""
    replied = replies_in(read_rows(given.replies), called(given.replies)).only(given.system)
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
    return 0 if passed else WORSE


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
        progress=_progress(given),
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


def _progress(given: argparse.Namespace) -> bool:
    """Whether to show how far it is: on a terminal, and elsewhere where it is asked for."""
    return not given.quiet and (given.progress or (sys.stderr is not None and sys.stderr.isatty()))


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


def start_job(refaug: Client, given: argparse.Namespace) -> int:
    """The id of a new job; with --wait, what became of it."""
    job = refaug.jobs.start(given.kind, **_assignments(given.order, "the order"))
    if not given.wait:
        say_line(job.id)
        return 0
    note(f"job {job.id}")
    return _waited(refaug, job.id, given)


def list_jobs(refaug: Client, given: argparse.Namespace) -> int:
    """Jobs, newest first."""
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


def get_job(refaug: Client, given: argparse.Namespace) -> int:
    """A job as it is now."""
    say_json(refaug.jobs.get(given.id).to_dict(), pretty=True)
    return 0


def wait_for_job(refaug: Client, given: argparse.Namespace) -> int:
    """A job when it has ended; JobFailed where that was in an error."""
    return _waited(refaug, given.id, given)


def _waited(refaug: Client, job: str, given: argparse.Namespace) -> int:
    try:
        found = refaug.jobs.wait(job, progress=_progress(given))
    except errors.JobFailed as error:
        if isinstance(error.job, Job):
            say_json(error.job.to_dict(), pretty=True)
        raise
    say_json(found.to_dict(), pretty=True)
    return 0


def follow_job(refaug: Client, given: argparse.Namespace) -> int:
    """Events as they happen."""
    for event in refaug.jobs.events(given.id):
        say_json(event.to_dict())
    return 0


def cancel_job(refaug: Client, given: argparse.Namespace) -> int:
    """A job that was told to stop."""
    say_json(refaug.jobs.cancel(given.id).to_dict(), pretty=True)
    return 0
