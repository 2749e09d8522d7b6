"""Updating an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc, Ge, Le
from refaug.indexer.search.search_settings import Mode
from refaug.operations.operation import MEMORY, Memory, Name, Operation, Seed, Share, Threads


@dataclass(frozen=True, kw_only=True)
class UpdateIndex(Operation):
    """Bring an index up to its logs as they are now."""

    operation: ClassVar[str] = "index-update"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:update_job"

    index: Annotated[Name, Argument("INDEX"), Doc("The index.")]
    publish: Annotated[bool, Doc("Let the new version serve.")] = True
    least_recall: Annotated[
        Share | None,
        Doc("Compare the new version with a search through all of it; with less recall it is not published."),
    ] = None
    mode: Annotated[Mode, Doc("For `least_recall`: the way of searching that is compared.")] = "embedding-utterance"
    check_queries: Annotated[int, Ge(1), Le(100_000), Doc("For `least_recall`: utterances that are searched for.")] = (
        200
    )
    seed: Annotated[Seed, Doc("Another seed, other utterances.")] = 1
    threads: Threads = None
    memory: Memory = MEMORY

    def resources(self) -> tuple[str, ...]:
        """Return the index."""
        return (f"index/{self.index}",)
