"""Several batches as one evaluation: the sums that scores are made of, added up as if all had been scored at once.

A batch is what `statistics_of` gives, here and in `service.set_scoring`:

    {"stats": [{"signature_full": …, "references": …, "columns": […],
                "systems": {"model": {"items": ["d1", "d7"], "rows": [[…], null], "scores": [0.4, null],
                                      "problems": [{"row": 1, "problem": "no_reply", "message": …}]}}}],
     "data": …, "set": {"id": …, "places": [0, 6]}}

The set is there where replies are to items of a frozen one: then an item may come any number of times, and intervals
draw items, not replies. Without it every item comes once, in one of the batches.

What is handed in comes from elsewhere, so all of it is checked. No text is scored again, and no file is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from core.errors import BadInput, NotFound, Usage
from core.version import VERSION
from metrics.base import Floats, Indexes, MeanMetric, Metric, Prepared, Problem, References
from metrics.catalogue import METRICS, Corpus, MetricInfo
from metrics.ruber import Ruber
from metrics.signature import Signature
from metrics.specification import Specification, build
from service.cases import NO_REPLY, Scored
from service.evaluate import ScoredTable, require_baseline
from service.scores import Evaluation, ReplyForm, ScoreSettings

_LARGEST: Final = 1e15  # sums of n-grams and scores stay far below, and very many of these can still be added
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FROM_STATS: Final = 'hand in answers to "return": "stats" as they came'
_LONGEST: Final = 20_000  # characters of a signature: ours have a tenth of that, with every log that was left out
_OF_A_FILE: Final = "sentencepiece:"  # tokenizers of a file, which its name in a signature does not find
_TEXT_PARAMETERS: Final = ("tok", "case")  # how texts become tokens: what sums are worth does not depend on it


def statistics_of(found: Evaluation) -> dict[str, Any]:
    """An evaluation as a batch."""
    return found.as_statistics()


def combine(batches: Sequence[Mapping[str, Any]], settings: ScoreSettings | None = None) -> dict[str, Any]:
    """Corpus scores, means, intervals and comparisons over all batches, in the shape of an evaluation.

    They are, bit for bit, those of everything scored at once. Signatures must agree, to the last sign; the names of
    data and references may differ, and are listed batch by batch.
    """
    settings = settings or ScoreSettings()
    if settings.explain:
        raise Usage("sums do not say what made them", remedy="leave explain out")
    if not batches:
        raise BadInput("there are no batches to combine", remedy=_FROM_STATS)
    read = [_Batch.read(batch, f"batches[{number}]") for number, batch in enumerate(batches)]
    _require_same_metrics(read)
    rows = _Rows.of(read)
    require_baseline(settings.baseline, rows.systems)
    tables = [_Combined.of(read, rows, signature) for signature in read[0].metrics]
    nothing = [why for one in tables if (why := one.table.why_nothing())]
    if len(nothing) == len(tables):
        raise BadInput(nothing[0])
    return {
        "scores": [one.as_json(settings) for one in tables],
        "data": [batch.data for batch in read],
        **({"set": {"id": rows.set}} if rows.set is not None else {}),
        "items": rows.items,
        "batches": len(read),
        "resampling": settings.resampling(),
        "problems": [],
        "warnings": nothing,
    }


@dataclass(frozen=True, kw_only=True)
class _Combined:
    """One metric over all batches."""

    signature: Signature
    references: Sequence[str]
    table: ScoredTable

    @classmethod
    def of(cls, batches: Sequence[_Batch], rows: _Rows, signature: str) -> _Combined:
        """Put the rows of all batches one after the other; a system that is not in a batch has no replies there."""
        metric, read = metric_of(signature)
        each = [batch.metrics[signature] for batch in batches]
        statistics = np.full((len(rows.systems), len(rows.ids), len(metric.columns)), np.nan)
        problems, first = dict[int, Problem](), 0
        for one, batch in zip(each, batches, strict=True):
            one.require_columns(metric)
            for number, system in enumerate(rows.systems):
                sums = one.systems.get(system)
                at = number * len(rows.ids) + first
                if sums is None:
                    problems |= {at + row: NO_REPLY for row in range(len(batch.ids))}
                else:
                    statistics[number, first : first + len(batch.ids)] = sums.rows
                    problems |= {at + row: why for row, why in sums.problems.items()}
            first += len(batch.ids)
        scored = Scored(statistics.reshape(-1, len(metric.columns)), dict(sorted(problems.items())))
        table = ScoredTable.of(metric, rows.systems, rows.ids, scored, rows.places)
        return cls(signature=read, references=[one.references for one in each], table=table)

    def as_json(self, settings: ScoreSettings) -> dict[str, Any]:
        """As evaluations have it, without single replies."""
        found = self.table.scores(settings, self.signature, "")
        return {**found.as_json(ReplyForm.NONE), "references": list(self.references)}


# ── the metric that a signature names ─────────────────────────────────────────────────────────────────────────────


class _Stated(MeanMetric):
    """A metric whose corpus score is the mean of its reply scores, as its signature has it: it can only add up."""

    def __init__(self, info: MetricInfo, signature: Signature) -> None:
        self.info, self.settings = info, signature.settings
        if info.name == "ruber":
            self.columns = Ruber.columns

    def prepare(self, references: Sequence[References]) -> Prepared:
        """Not to be asked for."""
        raise NotImplementedError

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """Not to be asked for."""
        raise NotImplementedError


def metric_of(text: str) -> tuple[Metric, Signature]:
    """The metric that a full signature names, and the signature; BadInput unless it is one that we would give.

    A mean of reply scores is the same whatever the settings were, so such a metric is taken as it is stated: what its
    texts, models and vectors are is not needed again. Any other one is made again, and must call itself the same.
    """
    if len(text) > _LONGEST:
        raise BadInput(f"{_shown(text)} is no signature: it has {len(text):,} characters", remedy=_FROM_STATS)
    signature = Signature.parse(text)
    if signature.full != text:
        raise BadInput(f"{text!r} is no full signature", remedy="take signature_full, not signature")
    if signature.refaug != VERSION:
        raise BadInput(
            f"{signature.metric} is of refaug {signature.refaug}, and this is {VERSION}: {text}",
            remedy="combine with the release that scored, or score again",
        )
    if (info := METRICS.get(signature.metric)) is None:
        raise BadInput(f"no metric is called {signature.metric!r}", remedy=_FROM_STATS)
    if signature.settings.get("norm") == "test":
        raise BadInput(
            f"{info.name} with norm=test is only defined for all replies at once: its batches cannot be added",
            remedy="norm=log or norm=none, or all replies in one request",
        )
    if info.corpus is Corpus.MEAN:
        return _Stated(info, signature), signature
    return _made_again(signature), signature


def _made_again(signature: Signature) -> Metric:
    """A metric from its signature; how texts become tokens is left out where a file would say so."""
    of_a_file = signature.settings.get("tok", "").startswith(_OF_A_FILE)
    left_out = _TEXT_PARAMETERS if of_a_file else ()
    given = tuple(one for one in signature.specification().given if one[0] not in left_out)
    try:
        metric = build(Specification(signature.metric, given))
    except (Usage, BadInput, NotFound) as error:
        raise BadInput(f"no metric has the signature {signature.full}: {error.message}", remedy=_FROM_STATS) from error
    its_own = {key: value for key, value in metric.settings.items() if key not in left_out}
    details = {**signature.details, **({} if of_a_file else metric.versions())}
    again = Signature(metric=metric.name, settings={**signature.settings, **its_own}, details=details)
    if again.full != signature.full:
        raise BadInput(f"{signature.full} is not what we sign with, but {again.full}", remedy=_FROM_STATS)
    return metric


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """What a system's replies were scored from; a row of NaN has no score, for a reason."""

    rows: Floats
    problems: Mapping[int, Problem]


@dataclass(frozen=True, kw_only=True)
class _Sheet:
    """One metric in one batch."""

    where: str
    references: str
    columns: tuple[str, ...]
    systems: Mapping[str, _Sums]

    def require_columns(self, metric: Metric) -> None:
        """BadInput where sums are not those that the metric adds."""
        if self.columns != metric.columns:
            raise BadInput(
                f"{self.where}.columns: {', '.join(self.columns)}; {metric.name} has {', '.join(metric.columns)}",
                remedy=_FROM_STATS,
            )


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """What was handed in, checked."""

    where: str
    data: str
    set: str | None
    places: Sequence[int | None] | None  # of the items in the set; None: it has no such item
    ids: Sequence[str]
    systems: Sequence[str]
    metrics: Mapping[str, _Sheet]  # by full signature

    @classmethod
    def read(cls, given: object, where: str) -> _Batch:
        """Take a document apart; BadInput says where it is not what we give."""
        document = _object(given, where)
        sheets = _listed(document.get("stats"), f"{where}.stats")
        if not sheets:
            raise BadInput(f"{where}.stats is empty", remedy=_FROM_STATS)
        metrics, ids, systems = dict[str, _Sheet](), None, None
        for number, one in enumerate(sheets):
            at = f"{where}.stats[{number}]"
            sheet = _object(one, at)
            signature = _text(sheet.get("signature_full"), f"{at}.signature_full")
            if signature in metrics:
                raise BadInput(f"{at}: {signature} comes twice", remedy=_FROM_STATS)
            its_systems = _object(sheet.get("systems"), f"{at}.systems")
            for name, system in its_systems.items():
                its_ids = _texts(_object(system, f"{at}.systems.{name}").get("items"), f"{at}.systems.{name}.items")
                ids = its_ids if ids is None else ids
                if its_ids != ids:
                    raise BadInput(
                        f"{at}.systems.{name}.items are not those of the batch's first system",
                        remedy="a batch has the same items for all its systems and metrics; " + _FROM_STATS,
                    )
            if not its_systems or list(its_systems) != (systems or list(its_systems)):
                raise BadInput(f"{at}.systems are not those of the batch's first metric", remedy=_FROM_STATS)
            systems = list(its_systems)
            metrics[signature] = _sheet(sheet, at)
        assert ids is not None, "a sheet has systems, and they have items"
        assert systems is not None, "there is a sheet"
        of, places = _set_of(document, where, len(ids))
        data = _text(document.get("data"), f"{where}.data")
        return cls(where=where, data=data, set=of, places=places, ids=ids, systems=systems, metrics=metrics)


def _sheet(sheet: Mapping[str, Any], at: str) -> _Sheet:
    columns = tuple(_texts(sheet.get("columns"), f"{at}.columns"))
    return _Sheet(
        where=at,
        references=_text(sheet.get("references"), f"{at}.references"),
        columns=columns,
        systems={
            name: _sums(system, f"{at}.systems.{name}", len(columns)) for name, system in sheet["systems"].items()
        },
    )


def _sums(system: Mapping[str, Any], at: str, width: int) -> _Sums:
    """The rows of a system: numbers, or null and a problem."""
    given = _listed(system.get("rows"), f"{at}.rows")
    if len(given) != len(system["items"]):
        raise BadInput(f"{at}.rows has {len(given):,} rows for {len(system['items']):,} items", remedy=_FROM_STATS)
    problems = dict(_problem(one, f"{at}.problems[{n}]") for n, one in enumerate(_listed(system.get("problems"), at)))
    rows = np.full((len(given), width), np.nan)
    for number, row in enumerate(given):
        if (row is None) != (number in problems):
            what = "has no sums and no problem" if row is None else "has sums and a problem"
            raise BadInput(f"{at}.rows[{number}] {what}", remedy=_FROM_STATS)
        if row is not None:
            rows[number] = _numbers(row, width, f"{at}.rows[{number}]")
    if outside := [row for row in problems if not 0 <= row < len(given)]:
        raise BadInput(f"{at}.problems names the row {outside[0]} of {len(given):,}", remedy=_FROM_STATS)
    return _Sums(rows=rows, problems=problems)


def _numbers(row: object, width: int, at: str) -> list[float]:
    values = _listed(row, at)
    if len(values) != width:
        raise BadInput(f"{at} has {len(values)} sums, and there are {width} columns", remedy=_FROM_STATS)
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= _LARGEST:  # NaN is not either
            raise BadInput(f"{at}: {_shown(value)} is no sum of a metric: a finite number", remedy=_FROM_STATS)
    return list(values)


def _problem(given: object, at: str) -> tuple[int, Problem]:
    values = _object(given, at)
    row, code = values.get("row"), _text(values.get("problem"), f"{at}.problem")
    if type(row) is not int:
        raise BadInput(f"{at}.row: {_shown(row)} is no number of a row", remedy=_FROM_STATS)
    if not _CODE.fullmatch(code):
        raise BadInput(f"{at}.problem: {_shown(code)} is no code of a problem", remedy=_FROM_STATS)
    return row, Problem(code, _text(values.get("message"), f"{at}.message"))


def _set_of(document: Mapping[str, Any], where: str, count: int) -> tuple[str | None, Sequence[int | None] | None]:
    """The set that a batch is of, and where its items stand in it."""
    if document.get("set") is None:
        return None, None
    values = _object(document["set"], f"{where}.set")
    places = _listed(values.get("places"), f"{where}.set.places")
    if len(places) != count:
        raise BadInput(f"{where}.set.places has {len(places):,} places for {count:,} items", remedy=_FROM_STATS)
    for number, place in enumerate(places):
        if place is not None and (type(place) is not int or not 0 <= place < 2**53):
            raise BadInput(f"{where}.set.places[{number}]: {_shown(place)} is no place", remedy=_FROM_STATS)
    return _text(values.get("id"), f"{where}.set.id"), places


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{where} is not an object, but {_shown(value)}", remedy=_FROM_STATS)
    return value


def _listed(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise BadInput(f"{where} is not a list, but {_shown(value)}", remedy=_FROM_STATS)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{where} is not a text, but {_shown(value)}", remedy=_FROM_STATS)
    return value


def _texts(value: object, where: str) -> list[str]:
    return [_text(one, f"{where}[{number}]") for number, one in enumerate(_listed(value, where))]


def _shown(value: object) -> str:
    """A value in a message: as much of it as one needs to find it."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


# ── all of them ───────────────────────────────────────────────────────────────────────────────────────────────────


def _require_same_metrics(batches: Sequence[_Batch]) -> None:
    """BadInput where sums are of different things."""
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
    """Which replies there are, over all batches."""

    set: str | None
    systems: Sequence[str]
    ids: Sequence[str]
    places: Indexes | None  # of the items in the set; −1: it has no such item
    items: int  # different ones

    @classmethod
    def of(cls, batches: Sequence[_Batch]) -> _Rows:
        """One batch after the other; BadInput where one item would count twice, or is two."""
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


def _require_once(batches: Sequence[_Batch]) -> None:
    """Without a set nobody knows whether two rows of one id are two replies, or the same one sent twice."""
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
                f"the item {name!r} is given two places in the set, or its place to two items", remedy=_FROM_STATS
            )
