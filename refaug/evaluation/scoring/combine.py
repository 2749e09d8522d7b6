"""Combine several batches into one evaluation: add up the sums that scores are computed from, as if scored at once.

A batch is what `statistics_of` returns, here and in `refaug.service.serving.sets.set_scoring`:

    {"stats": [{"signature_full": …, "references": …, "columns": […],
                "systems": {"model": {"items": ["d1", "d7"], "rows": [[…], null], "scores": [0.4, null],
                                      "problems": [{"row": 1, "problem": "no_reply", "message": …}]}},
                "unsuitable": {"code": "bad_input", "message": …}}],
     "data": …, "set": {"id": …, "places": [0, 6]}}

A metric is `unsuitable` where the references of the batch do not suit it, such as delta-bleu without weights of people.
It is scored if they do in any batch, as it is where all items are scored at once.

The set is there where replies are to items of a frozen set: then an item may occur any number of times, and intervals
draw items, not replies. Without a set every item occurs once, in one of the batches.

Batches come from clients, so everything in them is checked. No text is scored again, and no file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import numpy as np

from refaug.core.errors import BadInput, NotFound, Usage
from refaug.core.version import VERSION
from refaug.evaluation.scoring.cases import NO_REPLY, unsuitable_error
from refaug.evaluation.scoring.copies import CopiedReplies, copies_json, copy_warning
from refaug.evaluation.scoring.evaluate import metric_scores, require_baseline, unscored_error
from refaug.evaluation.scoring.provenance import join_reply_provenance, reply_provenance_json
from refaug.evaluation.scoring.score_settings import Resampling
from refaug.evaluation.scoring.scores import Evaluation, MetricScores, ReplyForm
from refaug.evaluation.scoring.sums.batch import FROM_STATS, SumsOfBatch, SumsOfMetric, shorten
from refaug.metrics.base import Floats, Indexes, MeanMetric, Metric, Prepared, Problem, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.metric_info import CorpusScore, MetricInfo
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build

_LONGEST: Final = 20_000  # characters of a signature; even with many excluded logs, ours have a tenth of that
_MODEL_TOKENIZER: Final = "sentencepiece:"  # tokenizers of a model file, which a signature does not locate
_TEXT_PARAMETERS: Final = ("tok", "case")  # how texts become tokens; adding sums does not depend on it


def statistics_of(evaluation: Evaluation) -> dict[str, object]:
    """Return an evaluation as a batch."""
    return evaluation.as_statistics()


def combine(
    batches: Sequence[Mapping[str, Any]],
    settings: Resampling | None = None,
    on_error: Literal["fail", "report"] = "fail",
) -> dict[str, object]:
    """Compute corpus scores, means, intervals and comparisons over all batches, in the shape of an evaluation.

    They equal, bit for bit, those of all replies scored at once. Signatures must agree exactly; the hashes of data and
    references may differ, and are listed batch by batch. A metric that the references of no batch suit is an error;
    with `on_error="report"` it is left out and reported, unless there is no other.
    """
    settings = settings or Resampling()
    if not batches:
        raise BadInput("there are no batches to combine", remedy=FROM_STATS)
    checked = [SumsOfBatch.read(batch, f"batches[{number}]") for number, batch in enumerate(batches)]
    _require_same_metrics(checked)
    rows = _Rows.of(checked)
    require_baseline(settings.baseline, rows.systems)
    combined_metrics = [_CombinedMetric.of(checked, rows, signature, settings) for signature in checked[0].metrics]
    scored = [combined for combined in combined_metrics if combined.error is None]
    errors = [combined.error for combined in combined_metrics if combined.error is not None]
    if errors and (on_error == "fail" or not scored):
        raise errors[0]
    unscored = [error for combined in scored if (error := unscored_error(combined.scores))]
    if len(unscored) == len(scored) and (on_error == "fail" or rows.set is None):
        raise unscored[0]
    copies = _join_copies(checked)
    return {
        "scores": [combined.as_json() for combined in scored],
        "data": [batch.data for batch in checked],
        **({"set": {"id": rows.set}} if rows.set is not None else {}),
        "items": rows.items,
        "batches": len(checked),
        "resampling": settings.resampling(),
        **copies_json(copies),
        **reply_provenance_json(join_reply_provenance(batch.reply_provenance for batch in checked)),
        "problems": [
            combined.problem(place) for place, combined in enumerate(combined_metrics) if combined.error is not None
        ],
        "warnings": [*(error.message for error in unscored), *copy_warning(copies)],
    }


def _join_copies(batches: Sequence[SumsOfBatch]) -> dict[str, CopiedReplies]:
    """Return the copies of all batches, whose rows are counted on from batch to batch."""
    rows, items, first = dict[str, list[int]](), dict[str, list[str]](), 0
    for batch in batches:
        for system, batch_rows in batch.copies.items():
            rows.setdefault(system, []).extend(first + row for row in batch_rows)
            items.setdefault(system, []).extend(batch.ids[row] for row in batch_rows)
        first += len(batch.ids)
    return {system: CopiedReplies(rows=tuple(rows[system]), items=tuple(items[system])) for system in rows}


@dataclass(frozen=True, kw_only=True)
class _CombinedMetric:
    """The scores of one metric over all batches; an error where the references of none of them suit it."""

    error: BadInput | None
    references: Sequence[str]
    scores: MetricScores

    @classmethod
    def of(cls, batches: Sequence[SumsOfBatch], rows: _Rows, signature: str, settings: Resampling) -> _CombinedMetric:
        """Concatenate the rows of all batches; a system that is missing in a batch has no replies there."""
        metric, parsed = metric_of(signature)
        sheets = [batch.metrics[signature] for batch in batches]
        statistics = np.full((len(rows.systems), len(rows.ids), len(metric.columns)), np.nan)
        problems, first = dict[int, Problem](), 0
        for sheet, batch in zip(sheets, batches, strict=True):
            sheet.require_columns(metric)
            for number, system in enumerate(rows.systems):
                sums = sheet.systems.get(system)
                at = number * len(rows.ids) + first
                if sums is None:
                    problems |= {at + row: NO_REPLY for row in range(len(batch.ids))}
                else:
                    statistics[number, first : first + len(batch.ids)] = sums.rows
                    problems |= {at + row: problem for row, problem in sums.problems.items()}
            first += len(batch.ids)
        return cls(
            error=_unsuitable_error(metric, sheets, rows.ids),
            references=[sheet.references for sheet in sheets],
            scores=metric_scores(
                metric, parsed, rows.systems, rows.ids, statistics, problems, settings, places=rows.places
            ),
        )

    def problem(self, place: int) -> dict[str, object]:
        """Return the metric that no references suit as answers list it; `place` is that among the metrics."""
        assert self.error is not None, "asked only of such a metric"
        field, message = f"metrics[{place}]", self.error.message
        metric = self.scores.metric.name
        return {
            "item": None,
            "place": None,
            "field": field,
            "message": message,
            "metric": metric,
            "code": self.error.code,
        }

    def as_json(self) -> dict[str, object]:
        """Return the scores in the shape of an evaluation's, without single replies."""
        return {**self.scores.as_json(ReplyForm.NONE), "references": list(self.references)}


def _unsuitable_error(metric: Metric, sheets: Sequence[SumsOfMetric], ids: Sequence[str]) -> BadInput | None:
    """Return the error of a metric that the references of no batch suit, else None; BadInput where none can be."""
    codes = {sheet.unsuitable: sheet.where for sheet in sheets if sheet.unsuitable is not None}
    error = unsuitable_error(metric, codes, list(dict.fromkeys(ids))) if codes else None
    if codes and error is None:
        raise BadInput(f"{next(iter(codes.values()))}: {metric.name} suits any references", remedy=FROM_STATS)
    return error if all(sheet.unsuitable is not None for sheet in sheets) else None


# ── metrics from signatures ───────────────────────────────────────────────────────────────────────────────────────


class _MeanOfScores(MeanMetric):
    """A metric whose corpus score is the mean of its reply scores, with the settings of a signature.

    It only adds up sums, and scores no reply.
    """

    def __init__(self, info: MetricInfo, signature: Signature) -> None:
        self.info, self.settings = info, signature.settings
        if info.name == "ruber":
            self.columns = Ruber.columns

    def prepare(self, references: Sequence[References]) -> Prepared:
        """Raise: no reference is looked at."""
        raise NotImplementedError

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Raise: no reply is scored."""
        raise NotImplementedError


def metric_of(text: str) -> tuple[Metric, Signature]:
    """Return the metric that a full signature names, and the parsed signature.

    BadInput unless refaug would write the same signature. A mean of reply scores does not depend on the settings, so
    such a metric is taken as its signature states it, without the texts, models and vectors behind it. Any other metric
    is built again, and must have the same signature.
    """
    if len(text) > _LONGEST:
        raise BadInput(f"{shorten(text)} is no signature: it has {len(text):,} characters", remedy=FROM_STATS)
    signature = Signature.parse(text)
    if signature.full != text:
        raise BadInput(f"{text!r} is no full signature", remedy="take signature_full, not signature")
    if signature.refaug != VERSION:
        raise BadInput(
            f"{signature.metric} is of refaug {signature.refaug}, and this is {VERSION}: {text}",
            remedy="combine with the release that scored, or score again",
        )
    if (info := METRICS.get(signature.metric)) is None:
        raise BadInput(f"no metric is called {signature.metric!r}", remedy=FROM_STATS)
    if signature.settings.get("norm") == "test":
        raise BadInput(
            f"{info.name} with norm=test is only defined for all replies at once: its batches cannot be added",
            remedy="norm=log or norm=none, or all replies in one request",
        )
    if info.corpus is CorpusScore.MEAN:
        return _MeanOfScores(info, signature), signature
    return _rebuild(signature), signature


def _rebuild(signature: Signature) -> Metric:
    """Build a metric from its signature, without the parameters of a model file's tokenizer, which is not at hand."""
    has_model = signature.settings.get("tok", "").startswith(_MODEL_TOKENIZER)
    left_out = _TEXT_PARAMETERS if has_model else ()
    parameters = tuple((key, text) for key, text in signature.specification().parameters if key not in left_out)
    try:
        metric = build(Specification(signature.metric, parameters))
    except (Usage, BadInput, NotFound) as error:
        raise BadInput(f"no metric has the signature {signature.full}: {error.message}", remedy=FROM_STATS) from error
    settings = {key: value for key, value in metric.settings.items() if key not in left_out}
    details = {**signature.details, **({} if has_model else metric.versions())}
    rebuilt = Signature(metric=metric.name, settings={**signature.settings, **settings}, details=details)
    if rebuilt.full != signature.full:
        raise BadInput(f"{signature.full} is not what we sign with, but {rebuilt.full}", remedy=FROM_STATS)
    return metric


# ── all batches ───────────────────────────────────────────────────────────────────────────────────────────────────


def _require_same_metrics(batches: Sequence[SumsOfBatch]) -> None:
    """Raise BadInput where batches have other metrics or another set than the first."""
    first = batches[0]
    for other in batches[1:]:
        if (other.set is None) != (first.set is None) or other.set != first.set:
            what = [f"set {batch.set}" if batch.set is not None else "no set" for batch in (first, other)]
            raise BadInput(
                f"{first.where} is of {what[0]}, {other.where} of {what[1]}",
                remedy="combine batches of one set, or none",
            )
        for signature in chain(other.metrics, first.metrics):
            if signature not in first.metrics or signature not in other.metrics:
                has, lacks = (other, first) if signature in other.metrics else (first, other)
                raise BadInput(
                    f"{has.where} has {signature}, which {lacks.where} has not",
                    remedy="combine batches of the same metrics with the same settings: scores of others mean "
                    "something else",
                )


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The replies of all batches."""

    set: str | None
    systems: Sequence[str]
    ids: Sequence[str]
    places: Indexes | None  # of the items in the set; −1 where the set has no such item
    items: int  # how many different ones

    @classmethod
    def of(cls, batches: Sequence[SumsOfBatch]) -> _Rows:
        """List the rows batch by batch; BadInput where one item would count twice, or one id names two items."""
        ids = [name for batch in batches for name in batch.ids]
        systems = list(dict.fromkeys(system for batch in batches for system in batch.systems))
        if batches[0].set is None:
            _require_once(batches)
            return cls(set=None, systems=systems, ids=ids, places=None, items=len(ids))
        listed = [place for batch in batches for place in batch.places or ()]
        _require_one_place(ids, listed)
        places = np.array([-1 if place is None else place for place in listed], dtype=np.int64)
        items = len({place for place in listed if place is not None})
        return cls(set=batches[0].set, systems=systems, ids=ids, places=places, items=items)


def _require_once(batches: Sequence[SumsOfBatch]) -> None:
    """Refuse a repeated id: without a set, two rows of one id may be two replies, or the same reply sent twice."""
    batch_of = dict[str, str]()
    for batch in batches:
        for name in batch.ids:
            if name in batch_of:
                raise BadInput(
                    f"the item {name!r} of {batch.where} is in {batch_of[name]} already",
                    remedy="combine batches of different items; several replies an item need a frozen set",
                )
            batch_of[name] = batch.where


def _require_one_place(ids: Sequence[str], places: Sequence[int | None]) -> None:
    place_of, id_of = dict[str, int | None](), dict[int, str]()
    for name, place in zip(ids, places, strict=True):
        if place_of.setdefault(name, place) != place or (place is not None and id_of.setdefault(place, name) != name):
            raise BadInput(
                f"the item {name!r} is given two places in the set, or its place to two items", remedy=FROM_STATS
            )
