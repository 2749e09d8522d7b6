"""How the hybrid metric is fitted and tested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Metavar, Pattern
from refaug.core.options.decoding import Options
from refaug.core.options.describing import options_of
from refaug.extras.conversations.metrics.sentiment import Variants

PAPER: Final = "ghandeharioun19"
Target = Annotated[str | None, Length(1, 200), Metavar("QUESTION")]
_FORMS_OF_PAPER: Final = {"intercept": "fold", "laughter": "substring", "greedy": "both"}


@dataclass(frozen=True, kw_only=True)
class HybridSettings(Variants):
    """What is predicted, by which form of the fit."""

    target: Annotated[Target, Doc("The question to predict; without it the mean over all.")] = None
    person_z: Annotated[
        int | None,
        Ge(2),
        Le(1_000_000),
        Doc("Ratings in standard deviations from their person's mean, of people with so many."),
    ] = None
    preset: Annotated[
        Literal["ghandeharioun19"] | None,
        Metavar("NAME"),
        Doc("ghandeharioun19: forms and label of the paper, refused without its encoders."),
    ] = None
    intercept: Annotated[
        Literal["common", "fold"], Doc("common: no rating of the other bots enters; fold: as published.")
    ] = "common"
    ridge: Annotated[float, Ge(0), Doc("The penalty of a ridge; 0 is least squares.")] = 0.0
    draws: Annotated[int, Ge(100), Le(100_000), Doc("Draws of intervals and controls.")] = 1_000
    seed: Annotated[int, Ge(0), Le(2**32 - 1), Doc("Of the draws.")] = 1

    def check(self) -> None:
        """Take over the forms of the paper with its label, and refuse what contradicts it."""
        super().check()
        if self.preset is None:
            return
        for name, form in _FORMS_OF_PAPER.items():
            if name in self.stated and getattr(self, name) != form:
                message = f"{getattr(self, name)} with preset {self.preset}, which has {form}"
                raise Usage(message, remedy="leave one of the two out", field=name)
            object.__setattr__(self, name, form)
        if changed := next((name for name in ("ridge", "person_z") if getattr(self, name)), None):
            message = f"preset {self.preset} has least squares on ratings as they are"
            raise Usage(message, remedy="leave it out", field=changed)

    @property
    def is_paper(self) -> bool:
        """Whether the figures have the label of the paper, for which `require_paper` has to be satisfied."""
        return self.preset == PAPER

    def as_manifest(self) -> dict[str, Any]:
        """Return the settings as the manifest of a hybrid has them."""
        return {
            "variants": {option.name: getattr(self, option.name) for option in options_of(Variants)},
            "target": self.target,
            "person_z": self.person_z,
            "intercept": self.intercept,
            "penalty": self.ridge,
            "draws": self.draws,
            "seed": self.seed,
            "is_paper": self.is_paper,
        }

    @classmethod
    def of_manifest(cls, fit: Mapping[str, Any]) -> Self:
        """Return the settings that a manifest has."""
        rest = {name: setting for name, setting in fit.items() if name not in ("variants", "penalty", "is_paper")}
        return cls(**fit["variants"], **rest, ridge=fit["penalty"], preset=PAPER if fit["is_paper"] else None)


# ── The encoders of the hybrid metric, not yet opened ─────────────────────────────────────────────────────────────────

_SENTIMENT = Pattern(
    re.compile(r"vader|none|(lexicon|deepmoji):.{1,1000}"), "vader, none, lexicon:FILE or deepmoji:FOLDER"
)
_MEANING = Pattern(
    re.compile(r"mean|(onnx|infersent1|use3):.{1,1000}"), "mean, onnx:FOLDER, infersent1:FOLDER or use3:FOLDER"
)


@dataclass(frozen=True, kw_only=True)
class EncoderRequest(Options):
    """The encoders: vectors of the home or a file; sentiment and meaning by kind, with a path where they need one."""

    vectors: Annotated[
        str, Length(1, 1_000), Metavar("VECTORS"), Doc("Word vectors: NAME, NAME@VERSION, or a file, with a / in it.")
    ]
    sentiment: Annotated[
        str,
        _SENTIMENT,
        Metavar("KIND:PATH"),
        Doc("vader (English), none, lexicon:FILE, or deepmoji:FOLDER with a model in ONNX; of a job, in inbox/."),
    ] = "vader"
    meaning: Annotated[
        str,
        _MEANING,
        Metavar("KIND:PATH"),
        Doc("mean of the word vectors, or a model in ONNX: onnx:FOLDER, infersent1:FOLDER, use3:FOLDER."),
    ] = "mean"

    @property
    def encoder_files(self) -> list[str]:
        """The files and folders that encoders lie in."""
        models = [path for text in (self.sentiment, self.meaning) if (path := text.partition(":")[2])]
        return [*([self.vectors] if "/" in self.vectors else []), *models]
