"""Building an index anew with its own settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc
from refaug.operations.operation import MEMORY, Memory, Name, Operation, Threads


@dataclass(frozen=True, kw_only=True)
class CompactIndex(Operation):
    """Build an index again with its own settings, without what was deleted; of shards, only those that have changed."""

    operation: ClassVar[str] = "index-compact"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:compact_job"

    index: Annotated[Name, Argument("INDEX"), Doc("The index.")]
    whole: Annotated[bool, Doc("Build and train every shard again.")] = False
    publish: Annotated[bool, Doc("Let the new version serve.")] = True
    threads: Threads = None
    memory: Memory = MEMORY

    def resources(self) -> tuple[str, ...]:
        """Return the index."""
        return (f"index/{self.index}",)
