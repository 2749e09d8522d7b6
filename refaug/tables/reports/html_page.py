"""Pages of reports: templates in one style, and how tables and plots appear in them.

A page needs no other file and no script. Names and texts in it come from users: all of them are escaped, and invisible
characters (line ends, control characters, changes of direction) are written out.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import NDArray

from refaug.core.files import write_aside
from refaug.core.text.normalisation import make_printable
from refaug.tables.reports.report import Report
from refaug.tables.reports.table import Table

_TEMPLATES: Final = Path(__file__).parents[2]  # a template lies beside the module that fills it


def render_page(template: str, *, folders: tuple[Path, ...] = (_TEMPLATES,), **content: Any) -> str:
    """Fill a template of one of the folders; without them, its path counts from the folder of the package."""
    return _environment(folders).get_template(template).render(content)


def report_page(report: Report) -> str:
    """Return a report as a page; it needs no other file and no script."""
    return render_page("tables/reports/report.html.j2", title=report.title, report=report)


def write_file(path: Path, content: bytes) -> Path:
    """Write a file of a report, whole or not at all."""
    with write_aside(path) as file:
        file.write(content)
    return path


@cache
def _environment(folders: tuple[Path, ...]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.filters |= {"breakable": _breakable, "base64": _base64}
    return environment


def _printable(content: object) -> object:
    """Write out invisible characters of texts; markup is ours already."""
    return make_printable(content) if isinstance(content, str) and not isinstance(content, Markup) else content


def _breakable(text: str) -> Markup:
    """Escape text and let lines end inside long names, but not inside numbers."""
    escaped = str(escape(make_printable(text)))
    return Markup(re.sub(r"[:/|](?=\S)|,(?=[^\s\d])", r"\g<0><wbr>", escaped))  # noqa: S704  escaped above


def _base64(image: bytes) -> Markup:
    return Markup(base64.b64encode(image).decode("ascii"))  # noqa: S704  letters and digits


# ── Replies on pages: the utterance, each reply with its score, and the references behind it ──────────────────────────

_LONGEST: Final = 1_000  # characters of a text; a page is to be mailed


@dataclass(frozen=True, kw_only=True)
class CardRow:
    """A reply on a card: the system, its score, and what the score rests on."""

    system: str
    score: str
    text: str
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplyCard:
    """The replies to one item."""

    heading: str
    utterance: str | None
    rows: Sequence[CardRow]
    references: Table | None


@dataclass(frozen=True, kw_only=True)
class CardList:
    """Cards under a title."""

    title: str
    cards: Sequence[ReplyCard]


def cut_text(text: str) -> str:
    """Return the beginning of a long text, and its length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"


def references_title(count: int) -> str:
    """Return the title of a table of references."""
    return f"{count:,} references, those credited most first" if count > 1 else "the only reference"


# ── Histograms as SVG inside a page: no library, no script, and colours of the page's style ───────────────────────────

BINS: Final = 20
_WIDTH, _HEIGHT, _BASE = 320.0, 120.0, 104.0  # in units of the drawing; below the base are the ends of the axis
_GAP: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class HistogramBar:
    """One bar, in units of the drawing."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class ScoreHistogram:
    """How often scores fall into each of equal bins between two ends."""

    caption: str
    low: str
    high: str
    counts: Sequence[int]
    bars: Sequence[HistogramBar]
    bins: Sequence[tuple[str, str, int]]  # the ends of each bin that holds a score, and how many it holds
    width: float = _WIDTH
    height: float = _HEIGHT
    base: float = _BASE

    @classmethod
    def of(cls, caption: str, scores: NDArray[np.float64], ends: tuple[float, float]) -> Self:
        """Count scores between the ends; NaN is left out."""
        counts, edges = np.histogram(scores[~np.isnan(scores)], bins=BINS, range=ends)
        step, most = _WIDTH / BINS, max(1, int(counts.max()))
        heights = [round(float(count) / most * (_BASE - 4), 1) for count in counts]
        bars = [
            HistogramBar(x=round(place * step, 1), y=round(_BASE - height, 1), width=step - _GAP, height=height)
            for place, height in enumerate(heights)
        ]
        low, high = (f"{end:.4g}" for end in ends)
        bins = [
            (f"{start:.4g}", f"{end:.4g}", int(count))
            for start, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
            if count
        ]
        return cls(caption=caption, low=low, high=high, counts=counts.tolist(), bars=bars, bins=bins)


def ends_of(scores: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return ends that all scores lie between; shares, which are from 0 to 1, lie between tenths."""
    defined = np.concatenate([each[~np.isnan(each)] for each in scores]) if scores else np.empty(0)
    if not len(defined):
        return 0.0, 1.0
    low, high = float(defined.min()), float(defined.max())
    if low < 0 or high > 1:
        return (low, high) if high > low else (low - 0.5, high + 0.5)
    first = min(math.floor(10 * low), 9)
    last = max(math.ceil(10 * high), first + 1)
    return min(first / 10, low), max(last / 10, high)
