"""Fitting the hybrid metric to rated conversations, and testing it on bots that its fit has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc
from refaug.extras.conversations.operations.turn_metrics import TurnMetrics
from refaug.extras.conversations.options.conversation_source import ConversationSource
from refaug.extras.conversations.options.hybrid_settings import EncoderRequest, HybridSettings
from refaug.operations.operation import Name, Operation, Threads


@dataclass(frozen=True, kw_only=True)
class HybridOptions(ConversationSource, EncoderRequest, HybridSettings, TurnMetrics):
    """Which conversations count, as which numbers, and how the hybrid metric is fitted to them."""

    threads: Threads = None


@dataclass(frozen=True, kw_only=True)
class FitHybrid(HybridOptions, Operation):
    """Fit the hybrid metric to rated conversations, and keep it with its figures on bots that were left out."""

    operation: ClassVar[str] = "hybrid-fit"
    runs: ClassVar[str] = "refaug.extras.conversations.jobs.hybrid_fitting:hybrid_fit_job"

    name: Annotated[Name, Doc("Name of the hybrid.")]
    columns: Annotated[
        Literal["hybrid", "wide"], Doc("hybrid: the eleven components; wide: with plain counts and metrics of turns.")
    ] = "hybrid"

    def check(self) -> None:
        """Refuse metrics of turns that no column comes of, and columns that the paper does not have."""
        super().check()
        if self.metrics and self.columns != "wide":
            message = "the eleven components have no metrics of turns"
            raise Usage(message, remedy="wide columns, or no metrics", field="metrics")
        if self.preset is not None and self.columns != "hybrid":
            message = f"{self.columns} with preset {self.preset}, which has the eleven components"
            raise Usage(message, remedy="leave one of the two out", field="columns")

    def sources_named(self) -> list[str]:
        """Return the file of the conversations, and those of encoders."""
        return [*self.conversation_files, *self.encoder_files]

    def resources(self) -> tuple[str, ...]:
        """Return the hybrid."""
        return (f"hybrid/{self.name}",)
