"""The settings of a search for references and their limits: the defaults of commands, jobs and routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

from refaug.core.errors import Usage

Mode = Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
Partial = Literal["refuse", "allow"]
MAX_REFERENCES: Final = 1_000  # a test pair; for more, use the neighbours
MAX_DEPTH: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Settings of a search; all of them can change the references, so all go into signatures.

    Of `partial`, the shards that were missing go into them.

    `depth` is how many candidate utterances are compared exactly at first: it grows until the k-th reference is
    certain. In the `dialog` modes it is how many utterances have all their responses compared, and does not grow.
    """

    k: int = 15
    mode: Mode = "embedding-utterance"
    alpha: float = 0.5  # of the responses' similarity in the dialog modes
    epsilon: float = 0.1  # replaces it for the rest
    depth: int | None = None
    after: datetime | None = None  # a pair at this time is in
    before: datetime | None = None  # and one at this is not
    exclude_logs: tuple[str, ...] = field(default=())
    near: float = 0.9
    near_tokens: int = 5
    partial: Partial = "refuse"  # of an index on a cluster: whether shards may be missing, which the answer then names

    def __post_init__(self) -> None:
        """Refuse settings without meaning."""
        if self.mode not in MODES:
            raise Usage(f"no mode is called {self.mode!r}", remedy=f"one of: {', '.join(MODES)}")
        if self.partial not in get_args(Partial):
            raise Usage(f"partial={self.partial!r} is not known", remedy="one of: refuse, allow")
        if not 1 <= self.k <= MAX_REFERENCES:
            raise Usage(f"k={self.k} references cannot be given", remedy=f"1 to {MAX_REFERENCES}")
        if self.depth is not None and not self.k <= self.depth <= MAX_DEPTH:
            raise Usage(f"a depth of {self.depth} does not go with k={self.k}", remedy="from k to 1,000,000")
        for name in ("alpha", "epsilon", "near"):
            if not 0 <= getattr(self, name) <= 1:
                raise Usage(f"{name}={getattr(self, name)} is not between 0 and 1")
        for name in ("after", "before"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise Usage(
                    f"{name}={moment.isoformat()} has no time zone", remedy=f"for example {moment.isoformat()}Z"
                )

    @property
    def is_dialog(self) -> bool:
        """Whether the test pair's own response is compared as well."""
        return self.mode.endswith("dialog")

    @property
    def is_bm25(self) -> bool:
        """Whether words are compared, not vectors."""
        return self.mode.startswith("bm25")
