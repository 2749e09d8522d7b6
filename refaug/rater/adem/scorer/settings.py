"""How a scorer is fitted, and the two protocols: that of the paper, and that of the code that came with it.

| | `paper` | `released` |
|---|---|---|
| rows of a batch | drawn anew for each epoch | fixed slices of the rows sorted by length and rating, in a new order |
| last rows that fill no batch | used | never seen |
| learning rate of Adam | 0.01 | 0.001 |
| epochs | until 20 pass without a lower error on validation, at most 200 | 200 |
| norm in the loss | of all parameters | the sum of the norms of both matrices |
| balancing | words, bins between quantiles, what is missing is left out | characters, bins of 20 from 21 to 140 |
| validation contexts | drawn | the last ones of the file |

Both take the parameters of the epoch with the least error on validation, batches of 32, γ = 0.075 and 50 components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, Self, get_args

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.rater.adem.scorer.bilinear import Norm
from refaug.rater.adem.scorer.rated_triples import LEVELS, Floats, Form, Indexes, rating_levels

# ── Balancing: rows are repeated until the length of a reply says nothing about its rating ────────────────────────────
#
# Raters often favour short replies, and a scorer would learn that instead of quality. Replies are put into bins of
# their length, and in each bin the rows of every rating level are repeated cyclically until all levels of the bin are
# as frequent as its most frequent one.
#
# `released` follows the released code of the paper: lengths in characters, bins of 20 from 21 to 140, replies of
# other lengths dropped, and a bin without a rating is an error. `paper` takes words, as the paper says, and bins
# between quantiles of the lengths; a missing rating is left out, no reply is dropped, and no row stands more than ten
# times.

RELEASED_EDGES: Final = (20, 40, 60, 80, 100, 120, 140)  # characters: (20, 40], … (120, 140]
_QUANTILE_BINS: Final = 6  # as many as the released code has
_MOST_REPEATS: Final = 10
_DROPPED: Final = -1


class Balance(StrEnum):
    """How rows are repeated."""

    RELEASED = "released"
    PAPER = "paper"
    NONE = "none"


@dataclass(frozen=True, kw_only=True, eq=False)
class BalancedRows:
    """The rows as training sees them, some several times, sorted by bin, rating and repetition."""

    rows: Indexes  # (repeated rows,)
    bins: Indexes  # (original rows,): the bin of each; -1 for a dropped one
    lengths: Floats  # (original rows,)
    levels: Indexes  # (original rows,)
    short_cells: int  # cells that the limit of repetitions left smaller than their bin's largest
    empty_cells: int

    @property
    def counts(self) -> Floats:
        """How often each original row stands in `rows`."""
        return np.bincount(self.rows, minlength=len(self.bins)).astype(np.float64)

    def report(self) -> dict[str, object]:
        """Return counts and correlations before and after, for the report of a scorer."""
        used = np.flatnonzero(self.bins != _DROPPED)
        return {
            "rows": len(self.bins),
            "dropped": len(self.bins) - len(used),
            "balanced_rows": len(self.rows),
            "most_repeats": int(self.counts.max(initial=0)),
            "bins": len(np.unique(self.bins[used])),
            "empty_cells": self.empty_cells,
            "short_cells": self.short_cells,
            "length_rating_before": _pearson(self.lengths, self.levels),
            "length_rating_after": _pearson(self.lengths[self.rows], self.levels[self.rows]),
            "bin_rating_after": _pearson(self.bins[self.rows], self.levels[self.rows]),
        }


def balance_rows(replies: tuple[str, ...], ratings: Floats, balance: Balance) -> BalancedRows:
    """Return the rows of training for replies with these ratings."""
    levels = rating_levels(ratings)
    if balance is Balance.RELEASED:
        lengths = np.array([len(reply) for reply in replies], dtype=np.float64)
        bins = _released_bins(lengths)
    else:
        lengths = np.array([len(words) for words in WordTokenizer().tokenize_batch(replies)], dtype=np.float64)
        bins = _quantile_bins(lengths)
    if balance is Balance.NONE:
        order = np.arange(len(replies), dtype=np.int64)
        return BalancedRows(rows=order, bins=bins, lengths=lengths, levels=levels, short_cells=0, empty_cells=0)
    return _repeated(bins, lengths, levels, balance)


def _repeated(bins: Indexes, lengths: Floats, levels: Indexes, balance: Balance) -> BalancedRows:
    rows, short_cells, empty_cells = list[Indexes](), 0, 0
    for number in np.unique(bins[bins != _DROPPED]).tolist():
        cells = [np.flatnonzero((bins == number) & (levels == level)) for level in LEVELS]
        target = max(map(len, cells))
        for level, cell in zip(LEVELS, cells, strict=True):
            if not len(cell):
                empty_cells += 1
                if balance is Balance.RELEASED:
                    raise _empty_cell_error(number, level)
                continue
            size = target if balance is Balance.RELEASED else min(target, _MOST_REPEATS * len(cell))
            short_cells += size < target
            rows.append(np.resize(cell, size))
    if not rows:
        raise BadInput(
            f"none of {len(bins):,} replies has 21 to 140 characters, and the released protocol drops all others",
            remedy="--protocol paper, or --balance none",
        )
    return BalancedRows(
        rows=np.concatenate(rows),
        bins=bins,
        lengths=lengths,
        levels=levels,
        short_cells=short_cells,
        empty_cells=empty_cells,
    )


def _empty_cell_error(number: int, level: int) -> BadInput:
    low, high = RELEASED_EDGES[number], RELEASED_EDGES[number + 1]
    return BadInput(
        f"no reply of {low + 1} to {high} characters is rated {level}, and the released protocol needs every rating in "
        "every bin of lengths",
        remedy="--protocol paper, which leaves out what is missing, or --balance none",
    )


def _released_bins(lengths: Floats) -> Indexes:
    bins = np.searchsorted(RELEASED_EDGES, lengths, side="left") - 1  # an edge belongs to the bin below it
    return np.where((bins >= 0) & (bins < len(RELEASED_EDGES) - 1), bins, _DROPPED).astype(np.int64)


def _quantile_bins(lengths: Floats) -> Indexes:
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, _QUANTILE_BINS + 1)[1:-1], method="inverted_cdf"))
    return np.searchsorted(edges, lengths, side="left").astype(np.int64)


def _pearson(lengths: Floats | Indexes, levels: Indexes) -> float | None:
    """Return Pearson's r; None where one side does not vary."""
    if not len(lengths) or np.ptp(lengths) == 0 or np.ptp(levels) == 0:
        return None
    return float(np.corrcoef(lengths, levels)[0, 1])


# ── How a scorer is fitted, and the two protocols: that of the paper, and that of the code that came with it ──────────

State = Literal["context", "utterance"]
Protocol = Literal["paper", "released"]
STATES: Final[tuple[State, ...]] = get_args(State)
PROTOCOLS: Final[tuple[Protocol, ...]] = get_args(Protocol)
PATIENCE: Final = 20
FEWEST_ROWS: Final = 50
_RATES: Final = {"paper": 0.01, "released": 0.001}


@dataclass(frozen=True, kw_only=True)
class ScorerSettings:
    """Everything that determines a scorer beside the encoder and the rated rows."""

    form: Form = Form.FULL
    state: State = "context"
    protocol: Protocol = "paper"
    components: int = 50
    penalty: float = 0.075  # γ
    rate: float | None = None  # None: that of the protocol
    balanced: bool = True
    batch: int = 32
    epochs: int = 200
    validation_share: float = 0.15
    seed: int = 1

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise Usage(f"there is no state {self.state!r}", remedy=f"one of: {', '.join(STATES)}")
        if self.protocol not in PROTOCOLS:
            raise Usage(f"there is no protocol {self.protocol!r}", remedy=f"one of: {', '.join(PROTOCOLS)}")
        if self.components < 1:
            raise Usage(f"{self.components} components", remedy="1 or more, as published 50")
        if not 0 <= self.penalty <= 1_000:
            raise Usage(f"a penalty of {self.penalty:g}", remedy="0 or more, as published 0.075")
        if self.rate is not None and not 0 < self.rate <= 1:
            raise Usage(f"a learning rate of {self.rate:g}", remedy="above 0, at most 1")
        if self.batch < 1 or self.epochs < 1:
            raise Usage(f"batches of {self.batch} and {self.epochs} epochs", remedy="1 or more of either")
        if not 0 < self.validation_share < 1:
            raise Usage(f"a validation share of {self.validation_share:g}", remedy="between 0 and 1, such as 0.15")

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Return the settings that `as_json` wrote."""
        derived = {"form", "balance", "norm"}
        plain = {name: setting for name, setting in written.items() if name not in derived}
        return cls(form=Form(written["form"]), balanced=written["balance"] != Balance.NONE.value, **plain)

    @property
    def learning_rate(self) -> float:
        """The learning rate that was set, or that of the protocol."""
        return _RATES[self.protocol] if self.rate is None else self.rate

    @property
    def is_released(self) -> bool:
        """Whether training follows the released code."""
        return self.protocol == "released"

    @property
    def norm(self) -> Norm:
        """The norm in the loss."""
        return Norm.SEPARATE if self.is_released else Norm.JOINT

    @property
    def balance(self) -> Balance:
        """How rows are repeated."""
        if not self.balanced:
            return Balance.NONE
        return Balance.RELEASED if self.is_released else Balance.PAPER

    @property
    def patience(self) -> int | None:
        """Epochs without a lower error on validation that end the training; None: it goes to its end."""
        return None if self.is_released else PATIENCE

    def as_json(self) -> dict[str, object]:
        """Return all settings, with what the protocol makes of them."""
        return {
            "form": self.form.value,
            "state": self.state,
            "protocol": self.protocol,
            "components": self.components,
            "penalty": self.penalty,
            "rate": self.learning_rate,
            "balance": self.balance.value,
            "norm": self.norm.value,
            "batch": self.batch,
            "epochs": self.epochs,
            "validation_share": self.validation_share,
            "seed": self.seed,
        }
