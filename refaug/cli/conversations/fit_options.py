"""How the hybrid metric is fitted and tested: options that `refaug hybrid evaluate` and `fit` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import typed_names
from refaug.core.errors import Usage

if TYPE_CHECKING:
    from refaug.evaluation.conversations.table import HybridSettings
    from refaug.metrics.conversations.components import Variants


@dataclass(frozen=True, kw_only=True)
class FormOptions:
    """The forms of components where the paper and its released code differ; a group of options."""

    laughter: Annotated[str, typer.Option(help="token: words that are laughter; substring: every ha.")] = "token"
    questions: Annotated[str, typer.Option(help="half: half for ?, half for a question word; both: 1 for both.")] = (
        "half"
    )
    greedy: Annotated[str, typer.Option(help="both directions, or user: the best word for each of the user's.")] = (
        "both"
    )
    slope: Annotated[str, typer.Option(help="turns, or masked: with a final 0 for the answer not given.")] = "turns"

    def variants(self) -> Variants:
        """Return the checked forms."""
        from refaug.metrics.conversations.components import Variants  # noqa: PLC0415  numpy

        allowed = {
            "laughter": ("token", "substring"),
            "questions": ("half", "both"),
            "greedy": ("both", "user"),
            "slope": ("turns", "masked"),
        }
        for option, forms_of_option in allowed.items():
            if (form := getattr(self, option)) not in forms_of_option:
                raise Usage(f"--{option} {form} is no form of it", remedy=" or ".join(forms_of_option))
        return Variants(**{option: getattr(self, option) for option in allowed})


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What is predicted, by which form of the fit; a group of options."""

    target: Annotated[
        str | None, typer.Option(help="The question to predict; without it the mean over all.", metavar="QUESTION")
    ] = None
    person_z: Annotated[
        int | None,
        typer.Option(
            help="Ratings in standard deviations from their person's mean, of people with so many.", min=2, metavar="N"
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="ghandeharioun19: forms and label of the paper, refused without its encoders.", metavar="NAME"
        ),
    ] = None
    intercept: Annotated[str, typer.Option(help="common: no rating of the other bots enters; fold: as published.")] = (
        "common"
    )
    ridge: Annotated[float, typer.Option(help="The penalty of a ridge; 0 is least squares.", min=0)] = 0.0
    draws: Annotated[int, typer.Option(help="Draws of intervals and controls.", min=100, max=100_000)] = 1000
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0, max=2**32 - 1)] = 1

    def settings(self, context: typer.Context, forms: FormOptions) -> HybridSettings:
        """Return the checked settings; Usage where an option that was typed contradicts the label of the paper."""
        from refaug.evaluation.conversations.hybrid_report import PAPER, PAPER_VARIANTS  # noqa: PLC0415  scipy
        from refaug.evaluation.conversations.table import HybridSettings  # noqa: PLC0415  numpy

        if self.intercept not in ("common", "fold"):
            raise Usage(f"--intercept {self.intercept} is not known", remedy="common, or fold as published")
        if self.preset not in (None, PAPER):
            raise Usage(f"--preset {self.preset} is not known", remedy=PAPER)
        needs = {"laughter": PAPER_VARIANTS.laughter, "greedy": PAPER_VARIANTS.greedy, "intercept": "fold"}
        options = {"laughter": forms.laughter, "greedy": forms.greedy, "intercept": self.intercept}
        if self.preset is not None:
            typed = typed_names(context)
            if wrong := next((name for name, need in needs.items() if name in typed and options[name] != need), None):
                raise Usage(f"--{wrong} {options[wrong]} with --preset {PAPER}", remedy=f"--{wrong} {needs[wrong]}")
            options = needs
        return HybridSettings(
            variants=replace(forms, laughter=options["laughter"], greedy=options["greedy"]).variants(),
            target=self.target,
            person_z=self.person_z,
            intercept=options["intercept"],  # type: ignore[arg-type]
            penalty=self.ridge,
            draws=self.draws,
            seed=self.seed,
            is_paper=self.preset is not None,
        )
