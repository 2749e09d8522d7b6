"""What all plots have in common: how they look, in what colours, and how one becomes a file.

Equal drawings give equal bytes, whatever a user's own settings of matplotlib say.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe & Ito (2008): eight colours that most colour-blind people tell apart
BLUE, SKY, ORANGE, GREEN, GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#7F7F7F"
FONT: Final = "DejaVu Sans"  # comes with matplotlib
_LOOK: Final[dict[Any, Any]] = {
    "font.family": [FONT],
    "font.size": 9.0,
    "figure.titlesize": 9.5,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "text.parse_math": False,  # a dollar in a name is a dollar
}
_DPI: Final = 150


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A drawn plot: the file, what it shows in words, and its size on a screen."""

    file: str
    png: bytes
    caption: str
    width: int
    height: int


@contextmanager
def our_look() -> Iterator[None]:
    """Draw in here: matplotlib's settings are global, so they are ours for a while, and then what they were."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        yield


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of its own (inches): nothing is kept in lists of open figures."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def as_plot(file: str, caption: str, figure: Figure) -> Plot:
    """The figure as a file, without a time or the name of a program in it."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DPI, metadata={"Software": None})
    width, height = (round(inches * 96) for inches in figure.get_size_inches())
    return Plot(file=file, png=target.getvalue(), caption=caption, width=width, height=height)
