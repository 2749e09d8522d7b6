"""Fitting an ADEM to people's ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from refaug.core.options.declaring import Doc, Ge, Gt, Le, Metavar
from refaug.core.options.decoding import Options
from refaug.operations.operation import Name, Seed, Spec, Text, Threads

if TYPE_CHECKING:
    from refaug.rater.adem.scorer.settings import ScorerSettings


@dataclass(frozen=True, kw_only=True)
class TrainAdem(Options):
    """Fit a scorer to the ratings of test files, on the vectors of a frozen encoder."""

    encoder: Annotated[Spec, Doc("VHRED whose encoder gives the vectors: name or name@version.")]
    name: Annotated[Name | None, Doc("Name of the adem; by default that of the VHRED.")] = None
    form: Annotated[
        Literal["full", "context", "reference"], Doc("full: context and reference; context: C-ADEM; reference: R-ADEM.")
    ] = "full"
    state: Annotated[
        Literal["context", "utterance"], Doc("Of the encoder: context, or utterance, as the released code takes it.")
    ] = "context"
    protocol: Annotated[
        Literal["paper", "released"], Doc("paper, or released: exactly as the code that came with the paper.")
    ] = "paper"
    components: Annotated[int, Ge(1), Le(10_000), Doc("Principal components of the vectors.")] = 50
    l2: Annotated[float, Ge(0), Le(1_000), Doc("Weight of the norm of the parameters in the loss.")] = 0.075
    rate: Annotated[
        float | None, Gt(0), Le(1), Doc("Learning rate of Adam; by default 0.01, with protocol released 0.001.")
    ] = None
    balance: Annotated[
        Literal["length", "none"], Doc("length: rows are repeated until length says nothing of the rating; or none.")
    ] = "length"
    seed: Annotated[Seed, Doc("Of the validation contexts and the batches.")] = 1
    without_systems: Annotated[tuple[Text, ...], Metavar("SYSTEM"), Doc("Systems whose replies are left out.")] = ()
    fraction: Annotated[float, Gt(0), Le(1), Doc("Share of the contexts of each file that is used.")] = 1.0
    threads: Threads = None
    publish: Annotated[bool, Doc("Let it be what its name stands for from now on.")] = True

    def settings(self) -> ScorerSettings:
        """Return how the scorer is fitted."""
        from refaug.rater.adem.scorer.rated_triples import Form  # noqa: PLC0415  numpy
        from refaug.rater.adem.scorer.settings import ScorerSettings  # noqa: PLC0415

        return ScorerSettings(
            form=Form(self.form),
            state=self.state,
            protocol=self.protocol,
            components=self.components,
            penalty=self.l2,
            rate=self.rate,
            balanced=self.balance == "length",
            seed=self.seed,
        )
