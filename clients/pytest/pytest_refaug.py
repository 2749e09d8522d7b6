"""A plug-in of pytest: `assert_better` compares two systems by a paired test, and the run ends with a table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
import refaug

_OLD, _NEW = "old", "new"
_PREFIX: Final = "refaug."
_FIELDS: Final = ("old", "new", "difference", "low", "high", "confidence", "p", "replies", "signature")


@dataclass(frozen=True, kw_only=True)
class SystemsCompared:
    """The new system beside the old one under one metric, on the replies of both."""

    metric: str
    old: float
    new: float
    difference: float  # new minus old
    interval: tuple[float, float]
    confidence: float
    p: float
    replies: int
    signature: str

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.metric}: {self.old:.4f} old, {self.new:.4f} new, difference {self.difference:+.4f} "
            f"[{low:.4f}, {high:.4f}], p {self.p:.3f}, {self.replies:,} replies; {self.signature}"
        )

    def properties(self) -> Iterator[tuple[str, object]]:
        """Yield the figures as properties of a test, always all of them in one order."""
        figures = {**vars(self), "low": self.interval[0], "high": self.interval[1]}
        for field in _FIELDS:
            yield f"{_PREFIX}{self.metric}.{field}", figures[field]


AssertBetter = Callable[..., SystemsCompared]


@pytest.fixture
def assert_better(record_property: Callable[[str, object], None]) -> AssertBetter:
    """Return a function that fails unless new replies are better than old ones, beyond chance."""

    def assert_better(
        new: Sequence[str],
        old: Sequence[str],
        *,
        metric: str | None = None,
        draws: int = 1_000,
        confidence: float = 0.95,
        **options: Any,
    ) -> SystemsCompared:
        __tracebackhide__ = True
        scores = refaug.score(
            predictions={_OLD: list(old), _NEW: list(new)},
            metric=metric,
            draws=draws,
            confidence=confidence,
            baseline=_OLD,
            **options,
        )
        compared = _compared(scores.metric, confidence)
        for name, figure in compared.properties():
            record_property(name, figure)
        is_better = compared.difference > 0 if scores.metric.higher_is_better else compared.difference < 0
        if not is_better or compared.p >= 1 - confidence:
            what = "no difference is shown" if compared.p >= 1 - confidence else "the new replies are worse"
            raise AssertionError(f"{what}: {compared}")
        return compared

    return assert_better


def _compared(scored: Any, confidence: float) -> SystemsCompared:
    """Return the comparison of the only metric; AssertionError where some replies cannot be compared."""
    __tracebackhide__ = True
    found, new, old = scored.comparisons[_NEW], scored[_NEW], scored[_OLD]
    if found.left_out:
        lacking = [f"{name} {reply.id}: {reply.message}" for name in (_OLD, _NEW) for reply in scored[name].details
                   if reply.score is None]  # fmt: skip
        raise AssertionError(f"{scored.metric}: {found.left_out:,} replies have no score ({'; '.join(lacking[:3])})")
    if found.difference is None or found.interval is None or found.p_randomisation is None:
        raise AssertionError(f"{scored.metric}: the systems cannot be compared: {found.note}")
    return SystemsCompared(
        metric=scored.metric,
        old=old.corpus,
        new=new.corpus,
        difference=found.difference,
        interval=found.interval,
        confidence=confidence,
        p=found.p_randomisation,
        replies=found.replies,
        signature=scored.signature,
    )


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a row for each comparison, read from the properties of tests, which also come from other processes."""
    rows = [
        (report.nodeid, *row)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for row in _rows_of(report.user_properties)
    ]
    if not rows:
        return
    terminalreporter.section("refaug: replies of new models beside old ones")
    for line in _table(rows):
        terminalreporter.write_line(line)


def _rows_of(properties: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metric and the figures of each comparison of a test."""
    named = [(name.removeprefix(_PREFIX), figure) for name, figure in properties if name.startswith(_PREFIX)]
    for start in range(0, len(named), len(_FIELDS)):
        part = named[start : start + len(_FIELDS)]
        yield part[0][0].rpartition(".")[0], {name.rpartition(".")[2]: figure for name, figure in part}


def _table(rows: Sequence[tuple[str, str, dict[str, Any]]]) -> Iterator[str]:
    from refaug.metrics.statistics.resampling import holm  # noqa: PLC0415

    cells = [("test", "metric", "old", "new", "difference", "interval", "p", "Holm")]
    adjusted = holm([figures["p"] for *_, figures in rows])
    for (test, metric, figures), holm_p in zip(rows, adjusted, strict=True):
        interval = f"{figures['confidence']:.0%} [{figures['low']:.4f}, {figures['high']:.4f}]"
        numbers = (f"{figures['old']:.4f}", f"{figures['new']:.4f}", f"{figures['difference']:+.4f}", interval)
        cells.append((test, metric, *numbers, f"{figures['p']:.3f}", f"{holm_p:.3f}"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
