"""Scores inside other harnesses: what the plug-ins of `clients/` call for single replies, and for logs of runs."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refaug.core.errors import BadInput, NoSource, RefaugError, Usage
from refaug.core.installation import extras_named
from refaug.library.engine import engine_of
from refaug.library.retrieval import augment_settings
from refaug.library.scoring import evaluate_items
from refaug.operations.scoring_options import ScoreOptions
from refaug.scoring.items import BadItem, parse_item

if TYPE_CHECKING:
    from refaug.scoring.comparison.harness_comparison import RunDifferenceByMetric
    from refaug.scoring.score_files.harness_logs import HarnessLog


class SampleScorer:
    """A metric that scores one reply at a time, and returns records for a log.

    scorer = SampleScorer("upsilon-bleu", index="demo", rater="demo")
    record = scorer.record({"utterance": "Where do you buy tea?", "references": ["At the market."]}, "In a shop.")
    """

    def __init__(
        self,
        metric: str,
        *,
        index: str | None = None,
        rater: str | None = None,
        settings: Mapping[str, Any] | None = None,
        language: str | None = None,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        options = ScoreOptions(
            metrics=(metric,),
            index=index,
            rater=rater,
            settings=augment_settings(settings),
            draws=0,
            language=language,
        )
        self._options = replace(options, metrics=options.metrics_or_default(options.metrics))
        self._home = None if home is None else os.fspath(home)
        self.metric = metric

    @extras_named()
    def record(self, item: Mapping[str, Any], reply: str, *, golds: str | None = None) -> dict[str, Any]:
        """Return the sealed record of a reply to an item; BadInput where the item cannot be used.

        `golds` says where the log has the golds, where that can be several places.
        """
        from refaug.scoring.augmentation import found_json  # noqa: PLC0415  torch
        from refaug.scoring.items import item_json  # noqa: PLC0415
        from refaug.scoring.score_files.sample_records import SYSTEM, record_of  # noqa: PLC0415  compiles

        if not isinstance(reply, str):
            raise Usage(f"a reply that is a {type(reply).__name__}", remedy="a text")
        parsed = parse_item({**item, "replies": {SYSTEM: reply}}, where="the sample", line=0, fallback_id="1")
        if isinstance(parsed, BadItem):
            raise BadInput(f"the sample: {parsed.field}: {parsed.message}", remedy="fields as those of items")
        scored = evaluate_items(self._options, engine_of(self._home), [parsed], is_part=True)
        own = scored.items[0]
        assert not isinstance(own, BadItem), "a parsed item stays one"
        row = item_json(own) if scored.provenance is None else found_json(own, scored.provenance.line)
        return record_of(scored.evaluation, row, golds)


def corpus_score(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the corpus score of records of one metric; NaN where no reply has a score."""
    from refaug.scoring.score_files.sample_records import corpus_of  # noqa: PLC0415  compiles

    corpus = corpus_of(records)
    return float("nan") if corpus is None else corpus


def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    metrics: Sequence[str] = (),
    cluster: str | None = None,
    confidence: float = 0.95,
) -> ComparedRuns:
    """Compare the logs of two runs under every metric that both have, those of the harness too.

        compare("old.eval", "new.eval", cluster="dialogue")

    `cluster` is a field of documents or metadata whose samples are not independent.
    """
    from refaug.scoring.comparison.harness_comparison import compare_logs  # noqa: PLC0415  compiles

    logs = [_log(path) for path in (first, second)]
    return ComparedRuns(compare_logs(*logs, metrics=metrics, cluster=cluster, confidence=confidence))


class ComparedRuns(tuple["RunDifferenceByMetric", ...]):
    """The differences of two runs, a metric each; printed, a table."""

    __slots__ = ()

    def __str__(self) -> str:
        from refaug.scoring.comparison.harness_comparison import table_of  # noqa: PLC0415  compiles

        cells = list(table_of(self))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        )


def compare_command(arguments: Sequence[str] | None = None) -> int:
    """Compare two logs that are named on the command line; the exit code is 3 where that is not possible."""
    parser = ArgumentParser(description="Compare the logs of two runs, sample by sample.")
    parser.add_argument("first", help="log of the first run")
    parser.add_argument("second", help="log of the second run")
    parser.add_argument("--cluster", help="field of samples that are not independent", metavar="FIELD")
    parser.add_argument("--metric", help="compare this metric; repeatable", action="append", default=[])
    chosen = parser.parse_args(arguments)
    try:
        print(compare(chosen.first, chosen.second, metrics=chosen.metric, cluster=chosen.cluster))  # noqa: T201
    except RefaugError as error:
        print(f"{error.message} ({error.remedy})", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


def _log(path: str | os.PathLike[str]) -> HarnessLog:
    from refaug.scoring.score_files.harness_logs import read_log  # noqa: PLC0415  compiles

    if not Path(path).is_file():
        raise NoSource(f"{os.fspath(path)}: no such file", remedy="a log of lm-eval or inspect")
    log = read_log(Path(path), os.fspath(path))
    if log is None:
        raise BadInput(
            f"{os.fspath(path)}: this is not a log of lm-eval or inspect",
            remedy="samples_*.jsonl of lm_eval --log_samples, or a log of inspect (.eval, .json)",
        )
    return log
