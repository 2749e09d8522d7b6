"""Combine several batches into one evaluation: add up the sums that scores are computed from, as if scored at once.

A batch is what `statistics_of` returns, here and in `refaug.scoring.held_sets.set_scoring`:

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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import numpy as np

from refaug.core.errors import BadInput, NoGold, NotFound, Usage
from refaug.core.version import VERSION
from refaug.metrics.base import Floats, Indexes, Level, MeanMetric, Metric, Prepared, Problem, References
from refaug.metrics.catalogue import find_info
from refaug.metrics.embeddings.recommended import Recommended, name_with
from refaug.metrics.metric_info import CorpusScore, MetricInfo
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build
from refaug.scoring.cases import NO_REPLY, unsuitable_error
from refaug.scoring.copies import CopiedReplies, copies_json, copy_warning
from refaug.scoring.evaluate import metric_scores, require_baseline, unscored_error
from refaug.scoring.provenance import join_reply_provenance, reply_provenance_json
from refaug.scoring.scores import Evaluation, MetricScores, ReplyForm
from refaug.scoring.settings import Resampling

# ── One batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


FROM_STATS: Final = 'hand in answers to "return": "stats" as they came'
_LARGEST: Final = 1e15  # sums of n-grams and scores stay far below, and very many such sums can still be added
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, kw_only=True)
class SumsOfSystem:
    """The sums that a system's replies are scored from; a row of NaN has no score, and a problem tells why."""

    rows: Floats
    problems: Mapping[int, Problem]


@dataclass(frozen=True, kw_only=True)
class SumsOfMetric:
    """The sums of one metric in one batch."""

    where: str
    references: str
    columns: tuple[str, ...]
    systems: Mapping[str, SumsOfSystem]
    unsuitable: str | None  # the code of the error that the references of the batch do not suit the metric

    def require_columns(self, metric: Metric) -> None:
        """Raise BadInput where the columns are not those that the metric adds."""
        if self.columns != metric.columns:
            raise BadInput(
                f"{self.where}.columns: {', '.join(self.columns)}; {metric.name} has {', '.join(metric.columns)}",
                remedy=FROM_STATS,
            )


@dataclass(frozen=True, kw_only=True)
class SumsOfBatch:
    """A batch whose content is checked."""

    where: str
    data: str
    set: str | None
    places: Sequence[int | None] | None  # of the items in the set; a place is None where the set has no such item
    ids: Sequence[str]
    systems: Sequence[str]
    metrics: Mapping[str, SumsOfMetric]  # by full signature
    copies: Mapping[str, Sequence[int]]  # by system: the rows of replies that copy the utterance
    reply_provenance: Mapping[str, str]  # by system: which bot made its replies; empty where none did

    @classmethod
    def read(cls, batch: object, where: str) -> SumsOfBatch:
        """Check a batch and take it apart; BadInput says where it is not an answer of refaug."""
        document = _require_object(batch, where)
        sheets = _require_list(document.get("stats"), f"{where}.stats")
        if not sheets:
            raise BadInput(f"{where}.stats is empty", remedy=FROM_STATS)
        metrics, ids, systems = dict[str, SumsOfMetric](), None, None
        for number, node in enumerate(sheets):
            at = f"{where}.stats[{number}]"
            sheet = _require_object(node, at)
            signature = _require_text(sheet.get("signature_full"), f"{at}.signature_full")
            if signature in metrics:
                raise BadInput(f"{at}: {signature} comes twice", remedy=FROM_STATS)
            rows_by_system = _require_object(sheet.get("systems"), f"{at}.systems")
            for name, system in rows_by_system.items():
                rows = _require_object(system, f"{at}.systems.{name}")
                row_ids = _require_texts(rows.get("items"), f"{at}.systems.{name}.items")
                ids = row_ids if ids is None else ids
                if row_ids != ids:
                    raise BadInput(
                        f"{at}.systems.{name}.items are not those of the batch's first system",
                        remedy="a batch has the same items for all its systems and metrics; " + FROM_STATS,
                    )
            if not rows_by_system:
                raise BadInput(
                    f"{at}.systems is empty: no item of the batch has a reply", remedy="leave out such batches"
                )
            if list(rows_by_system) != (systems or list(rows_by_system)):
                raise BadInput(f"{at}.systems are not those of the batch's first metric", remedy=FROM_STATS)
            systems = list(rows_by_system)
            metrics[signature] = _sheet(sheet, at)
        assert ids is not None, "a sheet has systems, and they have items"
        assert systems is not None, "there is a sheet"
        set_id, places = _set_of(document, where, len(ids))
        data_name = _require_text(document.get("data"), f"{where}.data")
        return cls(
            where=where,
            data=data_name,
            set=set_id,
            places=places,
            ids=ids,
            systems=systems,
            metrics=metrics,
            copies=_copies(document.get("copies"), f"{where}.copies", systems, len(ids)),
            reply_provenance=_reply_provenance(document.get("reply_provenance"), f"{where}.reply_provenance", systems),
        )


def _copies(node: object, at: str, systems: Sequence[str], count: int) -> dict[str, Sequence[int]]:
    """Read the rows that copy the utterance, by system; an answer without copies has none."""
    if node is None:
        return {}
    copies = dict[str, Sequence[int]]()
    for system, listed in _require_object(node, at).items():
        rows = _require_list(_require_object(listed, f"{at}.{system}").get("rows"), f"{at}.{system}.rows")
        if system not in systems or not all(type(row) is int and 0 <= row < count for row in rows):
            raise BadInput(f"{at}.{system} names what is not a row of the batch", remedy=FROM_STATS)
        copies[system] = rows
    return copies


def _reply_provenance(node: object, at: str, systems: Sequence[str]) -> dict[str, str]:
    """Read which bots made replies, by system; the line of other systems is empty."""
    lines = {} if node is None else _require_object(node, at)
    if unknown := next((system for system in lines if system not in systems), None):
        raise BadInput(f"{at}.{unknown} names what is not a system of the batch", remedy=FROM_STATS)
    return {system: _require_text(lines.get(system, ""), f"{at}.{system}") for system in systems}


def _sheet(sheet: Mapping[str, Any], at: str) -> SumsOfMetric:
    columns = tuple(_require_texts(sheet.get("columns"), f"{at}.columns"))
    return SumsOfMetric(
        where=at,
        references=_require_text(sheet.get("references"), f"{at}.references"),
        columns=columns,
        systems={
            name: _sums(system, f"{at}.systems.{name}", len(columns)) for name, system in sheet["systems"].items()
        },
        unsuitable=_unsuitable(sheet.get("unsuitable"), f"{at}.unsuitable"),
    )


def _unsuitable(node: object, at: str) -> str | None:
    """Read the code of the error that a batch does not suit its metric; None where it does."""
    if node is None:
        return None
    code = _require_text(_require_object(node, at).get("code"), f"{at}.code")
    if code not in (BadInput.code, NoGold.code):
        raise BadInput(f"{at}.code: {shorten(code)} is neither {BadInput.code} nor {NoGold.code}", remedy=FROM_STATS)
    return code


def _sums(system: Mapping[str, Any], at: str, width: int) -> SumsOfSystem:
    """Read the rows of a system, which are numbers, or null and a problem."""
    listed = _require_list(system.get("rows"), f"{at}.rows")
    if len(listed) != len(system["items"]):
        raise BadInput(f"{at}.rows has {len(listed):,} rows for {len(system['items']):,} items", remedy=FROM_STATS)
    listed_problems = _require_list(system.get("problems"), at)
    problems = dict(_problem(node, f"{at}.problems[{number}]") for number, node in enumerate(listed_problems))
    rows = np.full((len(listed), width), np.nan)
    for number, row in enumerate(listed):
        if (row is None) != (number in problems):
            what = "has no sums and no problem" if row is None else "has sums and a problem"
            raise BadInput(f"{at}.rows[{number}] {what}", remedy=FROM_STATS)
        if row is not None:
            rows[number] = _numbers(row, width, f"{at}.rows[{number}]")
    if outside := [row for row in problems if not 0 <= row < len(listed)]:
        raise BadInput(f"{at}.problems names the row {outside[0]} of {len(listed):,}", remedy=FROM_STATS)
    return SumsOfSystem(rows=rows, problems=problems)


def _numbers(row: object, width: int, at: str) -> list[float]:
    values = _require_list(row, at)
    if len(values) != width:
        raise BadInput(f"{at} has {len(values)} sums, and there are {width} columns", remedy=FROM_STATS)
    for number in values:
        if type(number) not in (int, float) or not abs(number) <= _LARGEST:  # NaN is not either
            raise BadInput(f"{at}: {shorten(number)} is not a sum of a metric: a finite number", remedy=FROM_STATS)
    return list(values)


def _problem(node: object, at: str) -> tuple[int, Problem]:
    problem = _require_object(node, at)
    row, code = problem.get("row"), _require_text(problem.get("problem"), f"{at}.problem")
    if type(row) is not int:
        raise BadInput(f"{at}.row: {shorten(row)} is not the number of a row", remedy=FROM_STATS)
    if not _CODE.fullmatch(code):
        raise BadInput(f"{at}.problem: {shorten(code)} is not a code of a problem", remedy=FROM_STATS)
    return row, Problem(code, _require_text(problem.get("message"), f"{at}.message"))


def _set_of(document: Mapping[str, Any], where: str, count: int) -> tuple[str | None, Sequence[int | None] | None]:
    """Return the set that a batch belongs to, and where its items stand in it."""
    if document.get("set") is None:
        return None, None
    frozen = _require_object(document["set"], f"{where}.set")
    places = _require_list(frozen.get("places"), f"{where}.set.places")
    if len(places) != count:
        raise BadInput(f"{where}.set.places has {len(places):,} places for {count:,} items", remedy=FROM_STATS)
    for number, place in enumerate(places):
        if place is not None and (type(place) is not int or not 0 <= place < 2**53):
            raise BadInput(f"{where}.set.places[{number}]: {shorten(place)} is not a place", remedy=FROM_STATS)
    return _require_text(frozen.get("id"), f"{where}.set.id"), places


def _require_object(node: object, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise BadInput(f"{where} is not an object, but {shorten(node)}", remedy=FROM_STATS)
    return node


def _require_list(node: object, where: str) -> Sequence[Any]:
    if not isinstance(node, list | tuple):
        raise BadInput(f"{where} is not a list, but {shorten(node)}", remedy=FROM_STATS)
    return node


def _require_text(node: object, where: str) -> str:
    if not isinstance(node, str):
        raise BadInput(f"{where} is not a text, but {shorten(node)}", remedy=FROM_STATS)
    return node


def _require_texts(node: object, where: str) -> list[str]:
    return [_require_text(text, f"{where}[{number}]") for number, text in enumerate(_require_list(node, where))]


def shorten(node: object) -> str:
    """Show a value in a message, as much of it as is needed to find it."""
    text = "nothing" if node is None else repr(node)
    return text if len(text) <= 80 else f"{text[:80]}…"


# ── All batches ───────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── Metrics from signatures ───────────────────────────────────────────────────────────────────────────────────────


_KINDS_WITH_PARTS: Final[Mapping[str, type[MeanMetric]]] = {"ruber": Ruber, "refaug-1": Recommended}


class _MeanOfScores(MeanMetric):
    """A metric whose corpus score is the mean of its reply scores, with the settings of a signature.

    It only adds up sums, and scores no reply.
    """

    def __init__(self, info: MetricInfo, signature: Signature) -> None:
        self.info, self.settings = info, signature.settings
        self._kind = _KINDS_WITH_PARTS.get(info.name)
        if self._kind is not None:
            self.columns = self._kind.columns

    @property
    def name(self) -> str:
        """The name that results have."""
        return name_with(self.settings["encoder"]) if self.info.name == "refaug-1" else self.info.name

    def parts(self, sums: Floats, level: Level) -> dict[str, object]:
        """Return the parts as the metric itself has them."""
        return super().parts(sums, level) if self._kind is None else self._kind.parts(self, sums, level)

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
        raise BadInput(f"{shorten(text)} is not a signature: it has {len(text):,} characters", remedy=FROM_STATS)
    signature = Signature.parse(text)
    if signature.full != text:
        raise BadInput(f"{text!r} is not a full signature", remedy="take signature_full, not signature")
    if signature.refaug != VERSION:
        raise BadInput(
            f"{signature.metric} is of refaug {signature.refaug}, and this is {VERSION}: {text}",
            remedy="combine with the release that scored, or score again",
        )
    if (info := find_info(signature.metric)) is None:
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
    rebuilt = Signature(metric=metric.info.name, settings={**signature.settings, **settings}, details=details)
    if rebuilt.full != signature.full:
        raise BadInput(f"{signature.full} is not what we sign with, but {rebuilt.full}", remedy=FROM_STATS)
    return metric


# ── All batches ───────────────────────────────────────────────────────────────────────────────────────────────────


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
