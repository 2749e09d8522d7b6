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
from typing import Any, Final, Literal, Self, get_args

from refaug.core.errors import Usage
from refaug.rater.adem.scorer.balance import Balance
from refaug.rater.adem.scorer.bilinear import Norm
from refaug.rater.adem.scorer.rated_triples import Form

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
