"""`refaug-client ci`: replies in, one call of the library, a table and an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from refaug_client._api.models.scores import Scores
from refaug_client._core import errors
from refaug_client._threads import Client

from .baseline import BASELINE, NOW, Baseline, Verdict
from .ci_reports import annotation_lines, junit_text
from .printing import note, print_json, print_line, print_table
from .reading import BadFile, SystemReplies, display_name, read_replies, read_rows, reason_of

WORSE = 1  # the exit code of replies that score worse than the baseline's


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
        print_json({"set": options.set, "passed": passed, "metrics": [one.as_dict() for one in verdicts]})
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


def _print_warnings(answer: Any) -> None:
    """Print warnings and left-out items of an answer to stderr."""
    for warning in answer.warnings:
        note(f"warning: {warning}")
    for problem in answer.problems:
        fields = problem if isinstance(problem, dict) else problem.to_dict()
        note(f"left out: {fields.get('item') or fields.get('field')}: {fields.get('message')}")


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
