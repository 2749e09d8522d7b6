"""A batch of sums that a client sends back, taken apart and checked: one answer to `"return": "stats"`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from refaug.core.errors import BadInput, NoGold
from refaug.metrics.base import Floats, Metric, Problem

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
            if not rows_by_system or list(rows_by_system) != (systems or list(rows_by_system)):
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
            raise BadInput(f"{at}.{system} names what is no row of the batch", remedy=FROM_STATS)
        copies[system] = rows
    return copies


def _reply_provenance(node: object, at: str, systems: Sequence[str]) -> dict[str, str]:
    """Read which bots made replies, by system; the line of other systems is empty."""
    lines = {} if node is None else _require_object(node, at)
    if unknown := next((system for system in lines if system not in systems), None):
        raise BadInput(f"{at}.{unknown} names what is no system of the batch", remedy=FROM_STATS)
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
            raise BadInput(f"{at}: {shorten(number)} is no sum of a metric: a finite number", remedy=FROM_STATS)
    return list(values)


def _problem(node: object, at: str) -> tuple[int, Problem]:
    problem = _require_object(node, at)
    row, code = problem.get("row"), _require_text(problem.get("problem"), f"{at}.problem")
    if type(row) is not int:
        raise BadInput(f"{at}.row: {shorten(row)} is no number of a row", remedy=FROM_STATS)
    if not _CODE.fullmatch(code):
        raise BadInput(f"{at}.problem: {shorten(code)} is no code of a problem", remedy=FROM_STATS)
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
            raise BadInput(f"{where}.set.places[{number}]: {shorten(place)} is no place", remedy=FROM_STATS)
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
