"""The settings of a search for references, with their limits: every face has these."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Final, Literal, get_args

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Metavar, Panel, Signed
from refaug.core.options.decoding import Options

Mode = Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog", "encoder-utterance", "fused"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
MAX_REFERENCES: Final = 1_000  # a test pair; for more, use the neighbours
MAX_DEPTH: Final = 1_000_000
OF_UTTERANCE: Final = 5  # responses of one utterance, in the mode encoder-utterance
FUSED: Final = 200  # references of each of two modes whose ranks are fused
_LogName = Annotated[str, Length(1, 200), Metavar("LOG")]


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Options):
    """How references are found. What can change them goes into signatures; of `partial`, the shards that were missing.

    The mode `encoder-utterance` takes at most five responses of one utterance, those that occur most often.
    `depth` grows until the k-th reference is certain; in the
    `dialog` modes it is how many utterances have all their responses compared, and does not grow.
    """

    panel: ClassVar[Panel] = Panel(
        "Retrieval",
        rare=("mode", "depth", "near", "near_tokens", "after", "before", "exclude_logs", "alpha", "epsilon", "partial"),
    )

    k: Annotated[int, Ge(1), Le(MAX_REFERENCES), Doc("References to find for each item."), Signed(is_short=True)] = 15
    mode: Annotated[Mode, Doc("What is compared, and by what: docs/indexes.md."), Signed(is_short=True)] = (
        "embedding-utterance"
    )
    depth: Annotated[
        int | None,
        Ge(1),
        Le(MAX_DEPTH),
        Doc("Candidates that are ranked again; without it, as many as are needed."),
        Signed(unset="auto"),
    ] = None
    near: Annotated[
        float, Ge(0), Le(1), Doc("Leave out a response as like the gold as this (Jaccard of its words)."), Signed()
    ] = 0.9
    near_tokens: Annotated[
        int, Ge(0), Le(1_000_000), Doc("For `near`: both have at least this many words."), Signed()
    ] = 5
    after: Annotated[datetime | None, Doc("Only pairs at or after this time."), Signed()] = None
    before: Annotated[datetime | None, Doc("Only pairs before this time."), Signed()] = None
    exclude_logs: Annotated[tuple[_LogName, ...], Length(most=1_000), Doc("Logs to take nothing from."), Signed()] = ()
    alpha: Annotated[float, Ge(0), Le(1), Doc("The responses' share in the dialog modes."), Signed()] = 0.5
    epsilon: Annotated[
        float, Ge(0), Le(1), Doc("What stands in for the responses' similarity otherwise."), Signed()
    ] = 0.1
    partial: Annotated[
        Literal["refuse", "allow"],
        Doc(
            "Of an index on a cluster: `allow` takes the references of the shards that answer, and names the others; "
            "`refuse` is an error then."
        ),
    ] = "refuse"

    def check(self) -> None:
        """Refuse a depth that cannot hold the references."""
        if self.depth is not None and self.depth < self.k:
            raise Usage(f"a depth of {self.depth} for k={self.k} references", remedy="a depth from k", field="depth")
        if self.k > self.most_references:
            raise Usage(f"the mode {self.mode} finds no {self.k} references", remedy=f"at most {FUSED}", field="k")

    @property
    def is_dialog(self) -> bool:
        """Whether the test pair's own response is compared as well."""
        return self.mode.endswith("dialog")

    @property
    def is_encoder(self) -> bool:
        """Whether an encoder has to compare the utterances."""
        return self.mode.startswith("encoder")

    @property
    def is_fused(self) -> bool:
        """Whether the ranks of two modes are added up."""
        return self.mode == "fused"

    @property
    def most_of_utterance(self) -> int:
        """How many responses of one utterance count; 0 is no limit."""
        return OF_UTTERANCE if self.is_encoder else 0

    @property
    def most_references(self) -> int:
        """How many references the mode can find."""
        return FUSED if self.is_fused else MAX_REFERENCES

    @property
    def is_bm25(self) -> bool:
        """Whether words are compared, not vectors."""
        return self.mode.startswith("bm25")
