"""Forest plots inside a page: a row of marks with intervals for each thing, on one axis; SVG without a script.

Places are shares of the width, in percent: a row is as wide as the page lets it, and its texts stay readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final, Self

_MARGIN: Final = 0.04  # of the axis on both sides, so that no mark is cut
_MOST_TICKS: Final = 7
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, kw_only=True)
class ForestFigure:
    """A figure of a row with its interval, where it has one, and as it is written."""

    value: float
    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, kw_only=True)
class ForestMark:
    """A figure as it is drawn: places in percent of the width, and the height of its line."""

    at: float
    low: float | None
    high: float | None
    height: float
    series: int


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """A label, its marks, and a text for each series."""

    label: str
    marks: Sequence[ForestMark]
    texts: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ForestPlot:
    """Rows on one axis under a caption; `zero` is where no difference lies, if the axis has that."""

    caption: str
    series: Sequence[str]  # what the marks of each kind are
    rows: Sequence[ForestRow]
    ticks: Sequence[tuple[float, str]]
    zero: float | None

    @classmethod
    def of(
        cls,
        caption: str,
        series: Sequence[str],
        rows: Sequence[tuple[str, Sequence[ForestFigure | None]]],
        *,
        ends: tuple[float, float] | None = None,
        has_zero: bool = False,
    ) -> Self:
        """Place figures on an axis between the ends, or as far as the figures reach."""
        low, high = ends or _ends([figure for _, figures in rows for figure in figures if figure], has_zero=has_zero)
        pad = (high - low) * _MARGIN
        low, high = low - pad, high + pad

        def place(number: float) -> float:
            return round(100 * min(1.0, max(0.0, (number - low) / (high - low))), 2)

        return cls(
            caption=caption,
            series=series,
            rows=[
                ForestRow(
                    label=label,
                    marks=[
                        ForestMark(
                            at=place(figure.value),
                            low=None if figure.low is None else place(figure.low),
                            high=None if figure.high is None else place(figure.high),
                            height=round(100 * (number + 1) / (len(series) + 1), 1),
                            series=number,
                        )
                        for number, figure in enumerate(figures)
                        if figure is not None
                    ],
                    texts=["–" if figure is None else figure.text for figure in figures],
                )
                for label, figures in rows
            ],
            ticks=[(place(tick), _tick_text(tick)) for tick in axis_ticks(low + pad, high - pad)],
            zero=place(0.0) if has_zero else None,
        )


def axis_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two ends, about five of them."""
    size = 10 ** floor(log10((high - low) / _MOST_TICKS))
    step = next(factor * size for factor in _STEPS if (high - low) / (factor * size) < _MOST_TICKS)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _ends(figures: Sequence[ForestFigure], *, has_zero: bool) -> tuple[float, float]:
    reach = [
        number for figure in figures for number in (figure.value, figure.low, figure.high) if number is not None
    ] + ([0.0] if has_zero else [])
    low, high = (min(reach), max(reach)) if reach else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _tick_text(tick: float) -> str:
    return f"{tick:g}".replace("-", "−")
