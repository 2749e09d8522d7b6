"""The settings of finding and weighing references, with their limits: every face has these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, Self

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Metavar, Panel, Signed
from refaug.core.options.decoding import as_values, decode
from refaug.core.options.describing import options_of
from refaug.indexer.search.search_settings import SearchSettings
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.presets import PresetName, find_preset

_IN_DIALOG_MODES: Final = ("alpha", "epsilon")
OF_RATINGS: Final = ("combine", "calibrated")
_UTTERANCE: Final = "utterance"  # what a mode without responses ends in


@dataclass(frozen=True, kw_only=True)
class AugmentSettings(SearchSettings, RatingSettings):
    """How references are found, rated and weighed; what can change them goes into signatures.

    Modes and exclusions: docs/indexes.md; ratings and weights: docs/raters.md.
    """

    panel: ClassVar[Panel] = Panel("Retrieval", rare=("preset", "gold", "parrot", "weights", "show_excluded"))

    preset: Annotated[
        PresetName | None,
        Metavar("NAME"),
        Doc(
            "tsuta20: every setting, and weighted BLEU, as in the code of Tsuta et al. (2020); refaug-1: what the "
            "recommended metric is scored against, which that metric has by itself."
        ),
    ] = None
    gold: Annotated[
        Literal["one", "rated", "none"],
        Doc("What a gold weighs: 1, or what the rater says; none: golds play no part."),
        Signed(is_short=True),
    ] = "one"
    parrot: Annotated[
        Literal["rated", "off"] | Annotated[float, Ge(-1), Le(1)],
        Doc("The utterance itself as a reference: rated, off, or its weight from -1 to 1 (docs/gaming.md)."),
        Signed(is_short=True),
    ] = "off"
    weights: Annotated[
        Literal["rated", "one"],
        Doc("What references that are found weigh; one needs no rater for them."),
        Signed(is_short=True),
    ] = "rated"

    show_excluded: Annotated[
        int, Ge(0), Le(200), Doc("So many of the pairs that were left out come along, each with the reason.")
    ] = 0

    def check(self) -> None:
        """Take over the settings of the preset, and refuse settings that contradict it or each other."""
        if (preset := find_preset(self.preset)) is not None:
            stated = {name: getattr(self, name) for name in self.stated}
            for name, setting in preset.complete(preset.references, stated).items():
                object.__setattr__(self, name, setting)
        super().check()
        if self.gold == "none" and self.is_dialog:
            raise Usage(
                f"none with mode={self.mode}, which compares responses with the gold",
                remedy=f"mode={self.mode.removesuffix('dialog')}{_UTTERANCE}, or another gold",
                field="gold",
            )

    def with_preset(self, preset: PresetName) -> Self:
        """Return the settings that were stated with those of a preset; Usage where they contradict it."""
        if self.preset not in (None, preset):
            raise Usage(f"preset {self.preset}, and the metric {preset}", remedy="leave one of the two out")
        values, options = as_values(self), options_of(type(self))
        stated = {option.spelling: values[option.spelling] for option in options if option.name in self.stated}
        return decode(type(self), {**stated, "preset": preset})

    def require_effect(self, *, rates: bool = False, shows_references: bool = False) -> None:
        """Raise Usage where a setting changes nothing with the others.

        `rates`: the rater is asked about something else, so its settings have an effect in any case.
        """
        if not shows_references:
            self._require_defaults("show_excluded", remedy="leave it out: it is for references, which are shown")
        if not self.is_dialog:
            self._require_defaults(*_IN_DIALOG_MODES, remedy="leave it out, or use a dialog mode")
        if not (self.needs_rater or rates):
            self._require_defaults(*OF_RATINGS, remedy="leave it out, or use rated weights")

    def require_no_effect(self, why: str, *, remedy: str, rates: bool = False, scores: bool = False) -> None:
        """Raise Usage for a setting that was stated where no references are found, which is `why`.

        With `rates` the rater rates replies in any case, with `scores` a preset is for the metric in any case.
        """
        allowed = {*(OF_RATINGS if rates else ()), *(("preset",) if scores else ())}
        idle = [option.name for option in options_of(type(self)) if option.name in self.stated - allowed]
        if idle:
            raise Usage(f"it has no effect {why}", remedy=remedy, field=idle[0])

    @property
    def idle(self) -> frozenset[str]:
        """The settings that change nothing with the others."""
        return frozenset((() if self.is_dialog else _IN_DIALOG_MODES) + (() if self.needs_rater else OF_RATINGS))

    def _require_defaults(self, *names: str, remedy: str) -> None:
        if changed := [name for name in names if getattr(self, name) != getattr(type(self), name)]:
            raise Usage("it has no effect with these settings", remedy=remedy, field=changed[0])

    @property
    def needs_rater(self) -> bool:
        """Whether any reference is rated."""
        return "rated" in (self.gold, self.parrot, self.weights)
