"""The common style and colours of all plots, and the conversion of figures into files.

Equal figures give equal bytes, whatever settings of matplotlib a user has.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

# Okabe & Ito (2008): eight colours that most colour-blind people tell apart
BLUE, SKY, ORANGE, GREEN, GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#7F7F7F"
FONT: Final = "DejaVu Sans"  # comes with matplotlib
_STYLE: Final[dict[Any, Any]] = {
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
DPI = 150  # of the files; on a screen a plot is shown at 96
_PALETTE_SIZE: Final = 64  # colours of a file: a third of the size that all of them would take


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A drawn plot: the file, its caption, and its size on a screen.

    `recipe` is what it was drawn from, for reports that are rendered again from their JSON; None for all others.
    """

    file: str
    png: bytes
    caption: str
    width: int
    height: int
    recipe: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def webp(self) -> bytes:
        """The same pixels in a smaller file, for pages that hold their plots."""
        target = io.BytesIO()
        Image.open(io.BytesIO(self.png)).convert("RGB").save(target, "webp", lossless=True, quality=50, method=2)
        return target.getvalue()


@contextmanager
def plot_style() -> Iterator[None]:
    """Use the style of this project while drawing, and restore matplotlib's global settings afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure (size in inches) that matplotlib's list of open figures does not keep."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def to_plot(file: str, caption: str, figure: Figure) -> Plot:
    """Return the figure as a file that contains neither a time nor the name of a program."""
    target = io.BytesIO()
    figure.set_dpi(DPI)
    figure.savefig(target, format="rgba", dpi=DPI)
    width, height = figure.canvas.get_width_height()
    pixels = np.frombuffer(target.getvalue(), np.uint8).reshape(height, width, 4)[..., :3]  # the paper is opaque
    width, height = (round(inches * 96) for inches in figure.get_size_inches())
    return Plot(file=file, png=with_palette(pixels), caption=caption, width=width, height=height)


def with_palette(pixels: np.ndarray) -> bytes:
    """Return the picture in its most frequent colours; any other pixel, at the edge of a line, gets the nearest one."""
    red, green, blue = np.moveaxis(pixels.astype(np.int32), 2, 0)  # each (height, width)
    packed = (red << 16) | (green << 8) | blue  # one number a colour: quick to sort
    numbers, places, counts = np.unique(packed.ravel(), return_inverse=True, return_counts=True)
    colours = np.stack([numbers >> 16, (numbers >> 8) & 255, numbers & 255], axis=1)
    palette = colours[np.argsort(-counts, kind="stable")[:_PALETTE_SIZE]]
    distances = ((colours[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)  # (colour, entry of the palette)
    indexed = distances.argmin(axis=1).astype(np.uint8)[places].reshape(packed.shape)
    drawn = Image.fromarray(indexed, mode="P")
    drawn.putpalette(palette.astype(np.uint8).tobytes())
    target = io.BytesIO()
    drawn.save(target, format="png", optimize=True)
    return target.getvalue()
