"""Finding further references for items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc, Panel
from refaug.operations.item_sources import TableOptions
from refaug.operations.operation import Operation, Spec, Text
from refaug.operations.scoring_options import ClusterOptions, ReferenceOptions


@dataclass(frozen=True, kw_only=True)
class RetrievalOptions(ReferenceOptions):
    """Where references are found, which are shown."""

    index: Annotated[
        Spec | None, Doc("Index that references are found in: NAME or NAME@VERSION; of requests, else the server's.")
    ] = None
    rater: Annotated[
        Spec | None, Doc("Rater that weighs them: NAME or NAME@VERSION; of requests, else the server's.")
    ] = None

    def check(self) -> None:
        """Refuse what has no effect."""
        super().check()
        self.require_effect(shows_references=True)


@dataclass(frozen=True, kw_only=True)
class FindReferences(RetrievalOptions, TableOptions, ClusterOptions, Operation):
    """Find further references for every item of a test file, and weigh them."""

    panel: ClassVar[Panel] = Panel("Input")

    operation: ClassVar[str] = "references"

    items: Annotated[
        Text,
        Argument("ITEMS"),
        Doc("JSONL with one item a line, or a table of any kind, compressed or not; - for stdin."),
    ]

    def check(self) -> None:
        """Refuse references without an index or a rater, which no server has chosen here."""
        self.require_named_index()
        super().check()
        self.require_rater()
