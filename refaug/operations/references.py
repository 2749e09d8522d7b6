"""Operations on references: finding them for items, freezing them with the items, rating texts as replies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Argument, Doc, Panel
from refaug.operations.item_sources import OF_JOB, TableOptions
from refaug.operations.operation import Operation, Spec, Text
from refaug.operations.scoring_options import ClusterOptions, ReferenceOptions
from refaug.rater.rating_settings import RatingSettings


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
        self.settings.require_rater(self.rater)


_POSTED: Final = re.compile(r"items-[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True)
class FrozenReferences(ReferenceOptions):
    """What a set is for, and where its references are found."""

    purpose: Annotated[
        Literal["train", "validation", "test"],
        Doc("What the set is for; scores on sets of other purposes mean something else."),
    ]

    def require_frozen(self) -> None:
        """Raise Usage for settings that have no effect on references that are found, or leave some of them out."""
        self.require_effect()
        if self.settings.partial == "allow":
            raise Usage("a set is frozen with all shards", remedy="leave it out", field="settings.partial")


@dataclass(frozen=True, kw_only=True)
class FreezeSet(FrozenReferences, TableOptions, ClusterOptions, Operation):
    """Freeze items with their weighted references; replies and their ratings are left out."""

    panel: ClassVar[Panel] = Panel("Input", rare=())

    operation: ClassVar[str] = "freeze"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.freezing:freeze_job"

    items: Annotated[
        Text,
        Argument("ITEMS"),
        Doc(
            "JSONL with one item a line, or a table of any kind, compressed or not; - for stdin.",
            of_job=f"{OF_JOB}, or the stored name of items that were posted",
        ),
    ]
    strict: Annotated[bool, Doc("Freeze nothing where any item cannot be used.")] = False

    def check(self) -> None:
        """Refuse what has no effect with an index or without one, and a rater that is missing."""
        super().check()
        if self.index is None:
            self.require_nothing_found()
            return
        self.require_frozen()
        self.settings.require_rater(self.rater)

    @property
    def are_posted(self) -> bool:
        """Whether the items were posted, and wait under a stored name."""
        return _POSTED.fullmatch(self.items) is not None

    def sources_named(self) -> list[str]:
        """Return the file of items."""
        return [] if self.are_posted else [self.items]

    def resources(self) -> tuple[str, ...]:
        """Return the items."""
        return (f"items/{self.items}",)


@dataclass(frozen=True, kw_only=True)
class RateCandidates(RatingSettings, Operation):
    """Rate texts that could be replies, against the golds of their test pair."""

    operation: ClassVar[str] = "rate"

    rater: Annotated[Spec | None, Doc("Rater: NAME or NAME@VERSION; of requests, else the server's.")] = None

    @property
    def rating(self) -> RatingSettings:
        """How they are rated: requests with the same settings share a batch."""
        return RatingSettings(combine=self.combine, calibrated=self.calibrated)
