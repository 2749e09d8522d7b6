"""How far participants agree: over things that several of them judged, or else over bots.

A chat is judged by the participant who had it. Then a row is a bot, and a participant's number for it is the mean of
their ratings; agreement says how far participants see the same differences between bots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from refaug.evaluation.studies.questions import ChoiceRow, RatingRow
from refaug.metrics.statistics.alpha import Alpha, krippendorff_alpha
from refaug.metrics.statistics.kappa import Kappa, kappa
from refaug.metrics.statistics.pairwise import ambiguous_share, nominal_kappa
from refaug.metrics.statistics.resampling import Floats

_MOST_PAIRS = 200  # of participants; κ of all pairs of many participants takes long and says no more


@dataclass(frozen=True, kw_only=True)
class AgreementFigure:
    """Agreement on one question; `kappa` has quadratic weights for numbers, and none for choices."""

    question: str
    rows_are: str  # items or bots
    rows: int
    participants: int
    alpha_interval: Alpha | None
    alpha_ordinal: Alpha | None
    kappa_mean: float | None
    kappa_median: float | None
    kappa_pairs: int
    ambiguous: float | None = None  # of items with choices


def rating_agreement(question: str, rows: Sequence[RatingRow]) -> AgreementFigure:
    """Return how far the numbers of participants agree."""
    by_item = _grouped({(row.task.task, row.side): (_item_of(row), row.participant, row.number) for row in rows})
    several = sum(len(own) > 1 for own in by_item.values())
    rows_are = "items" if several > 1 else "bots"
    if rows_are == "bots":
        by_item = _grouped({(row.task.task, row.side): (row.bot, row.participant, row.number) for row in rows})
    matrix = _matrix(by_item)
    kappas = _kappas(kappa(matrix)) if matrix.shape[1] <= _MOST_PAIRS else []
    return AgreementFigure(
        question=question,
        rows_are=rows_are,
        rows=int(((~np.isnan(matrix)).sum(axis=1) > 1).sum()),
        participants=matrix.shape[1],
        alpha_interval=krippendorff_alpha(matrix, "interval"),
        alpha_ordinal=krippendorff_alpha(matrix, "ordinal"),
        kappa_mean=fmean(kappas) if kappas else None,
        kappa_median=float(np.median(kappas)) if kappas else None,
        kappa_pairs=len(kappas),
    )


def choice_agreement(question: str, rows: Sequence[ChoiceRow]) -> AgreementFigure:
    """Return how far choices agree, by item where items are chosen from several times, otherwise by pair of bots."""
    entries = {row.task.task: (_choice_item(row), row.participant, float(_turned(row))) for row in rows}
    by_item = _grouped(entries)
    rows_are = "items" if sum(len(own) > 1 for own in by_item.values()) > 1 else "bots"
    if rows_are == "bots":
        by_item = _grouped({
            row.task.task: (" and ".join(sorted((row.left, row.right))), row.participant, float(_turned(row)))
            for row in rows
        })  # fmt: skip
    matrix = np.sign(_matrix(by_item))  # a participant's several choices of one pair count as their majority
    columns = min(matrix.shape[1], _MOST_PAIRS)
    kappas = [
        agreement
        for first in range(columns)
        for second in range(first + 1, columns)
        if (agreement := nominal_kappa(matrix[:, first], matrix[:, second])) is not None
    ]
    chosen = defaultdict[str, list[int]](list)
    for item, _, outcome in entries.values():
        chosen[item].append(int(outcome))
    return AgreementFigure(
        question=question,
        rows_are=rows_are,
        rows=int(((~np.isnan(matrix)).sum(axis=1) > 1).sum()),
        participants=matrix.shape[1],
        alpha_interval=None,
        alpha_ordinal=krippendorff_alpha(matrix, "ordinal"),
        kappa_mean=fmean(kappas) if kappas else None,
        kappa_median=float(np.median(kappas)) if kappas else None,
        kappa_pairs=len(kappas),
        ambiguous=ambiguous_share(list(chosen.values())) if rows_are == "items" else None,
    )


def _turned(row: ChoiceRow) -> int:
    """Return the outcome for the bot whose name sorts first, whichever side it stood on."""
    return row.outcome if row.left < row.right else -row.outcome


def _item_of(row: RatingRow) -> str:
    shown = row.task.item or {}
    name = shown.get("unit", shown.get("id"))
    return row.task.task + row.side if name is None else f"{name}\x1f{row.bot}"


def _choice_item(row: ChoiceRow) -> str:
    shown = row.task.item or {}
    name = shown.get("unit", shown.get("id"))
    return row.task.task if name is None else str(name)


def _grouped(entries: Mapping[Any, tuple[str, str, float]]) -> dict[str, dict[str, float]]:
    """Return item → participant → the mean of that participant's numbers."""
    listed: dict[str, dict[str, list[float]]] = {}
    for item, participant, number in entries.values():
        listed.setdefault(item, {}).setdefault(participant, []).append(number)
    return {item: {person: fmean(numbers) for person, numbers in own.items()} for item, own in listed.items()}


def _matrix(by_item: Mapping[str, Mapping[str, float]]) -> Floats:
    people = sorted({person for own in by_item.values() for person in own})
    column = {person: place for place, person in enumerate(people)}
    matrix = np.full((len(by_item), len(people)), np.nan)
    for place, item in enumerate(sorted(by_item)):
        for person, number in by_item[item].items():
            matrix[place, column[person]] = number
    return matrix


def _kappas(kappas: Kappa) -> list[float]:
    return [pair.value for pair in kappas.pairs if pair.value is not None]
