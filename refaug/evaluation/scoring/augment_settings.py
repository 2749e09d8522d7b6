"""The settings of finding and weighting references: the defaults of commands, jobs and routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from refaug.core.errors import Usage
from refaug.evaluation.scoring.presets import PresetName, find_preset
from refaug.indexer.search.search_settings import SearchSettings
from refaug.rater.rating_settings import Combine, RatingSettings

WeightSource = Literal["one", "rated"]
GoldUse = Literal["one", "rated", "none"]  # none: neither references, nor what others are rated or found by


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """How references are retrieved, rated and weighted; all that can change them goes into signatures."""

    search: SearchSettings = field(default_factory=SearchSettings)
    rating: RatingSettings = field(default_factory=RatingSettings)
    gold: GoldUse = "one"  # weight 1, the rater's rating, or none: golds play no part
    parrot: float | Literal["rated", "off"] = "off"  # the utterance itself as a reference (docs/gaming.md)
    weights: WeightSource = "rated"  # of retrieved references; "one" needs no rater
    shown_excluded: int = 0  # how many of the excluded pairs come along with an item; changes no reference
    preset: PresetName | None = None  # refuses other settings than its own, and an index built with others

    def __post_init__(self) -> None:
        if self.gold not in ("one", "rated", "none"):
            raise Usage(f"gold={self.gold!r} is not known", remedy="one, rated or none")
        if self.gold == "none" and self.search.is_dialog:
            raise Usage(
                f"gold=none with mode={self.search.mode}, which compares responses with the gold",
                remedy=f"mode={self.search.mode.removesuffix('dialog')}utterance, or another gold",
            )
        if self.weights not in ("one", "rated"):
            raise Usage(f"weights={self.weights!r} is not known", remedy="one or rated")
        if isinstance(self.parrot, str) and self.parrot not in ("rated", "off"):
            raise Usage(f"parrot={self.parrot!r} is not known", remedy="rated, off, or a number from -1 to 1")
        if not isinstance(self.parrot, str) and not -1 <= self.parrot <= 1:
            raise Usage(f"a parrot of weight {self.parrot} is out of range", remedy="from -1 to 1")
        if (preset := find_preset(self.preset)) is not None:
            preset.complete(preset.references, self._options())

    def _options(self) -> dict[str, Any]:
        """Return the settings that presets have, as options."""
        return {
            "k": self.search.k,
            "mode": self.search.mode,
            "gold": self.gold,
            "parrot": self.parrot,
            "weights": self.weights,
            "combine": self.rating.combine,
            "calibrated": self.rating.calibration == "cal",
        }

    @classmethod
    def from_options(
        cls,
        *,
        gold: GoldUse = "one",
        parrot: float | Literal["rated", "off"] = "off",
        weights: WeightSource = "rated",
        combine: Combine = "first",
        calibrated: bool = False,
        exclude_logs: Sequence[str] = (),
        preset: PresetName | None = None,
        shown_excluded: int = 0,
        **search: Any,
    ) -> Self:
        """Return the settings for options of commands, jobs and requests; `search` has the other fields of a search."""
        return cls(
            search=SearchSettings(exclude_logs=tuple(exclude_logs), **search),
            rating=RatingSettings(combine=combine, calibration="cal" if calibrated else "raw"),
            gold=gold,
            parrot=parrot,
            weights=weights,
            preset=preset,
            shown_excluded=shown_excluded,
        )

    @property
    def needs_rater(self) -> bool:
        """Whether any reference is rated."""
        return "rated" in (self.gold, self.parrot, self.weights)
