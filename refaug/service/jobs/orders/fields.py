"""Fields and options that several orders of jobs have."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Spec = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?$")]
SetId = Annotated[str, Field(pattern=r"^[0-9a-f]{6,16}$")]
Stored = Annotated[str, Field(pattern=r"^items-[0-9a-f]{32}$")]
Text = Annotated[str, Field(min_length=1, max_length=1_000)]
Logs = Annotated[list[Name], Field(min_length=1, max_length=100)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
THREADS: Final = (
    "threads; by default those of the setting `job_threads`, else one for each core that is free at the start"
)
ON: Final = (
    "find and rate references on a cluster of Ray: HOST:PORT, auto or local, as the server's settings name it; a task "
    "has `threads`, by default one"
)
Mode = Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]


class StrictModel(BaseModel):
    """A model without unknown fields and without conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def as_order(self) -> dict[str, Any]:
        """Return it in JSON types."""
        return self.model_dump(mode="json")


class ResourceOptions(StrictModel):
    """The options of most jobs."""

    threads: int | None = Field(default=None, description=THREADS, ge=1, le=1_024)
    memory_mib: int = Field(default=2_048, description="memory to work in, in MiB", ge=256, le=16_777_216)

    @property
    def memory(self) -> int:
        """The memory in bytes."""
        return self.memory_mib << 20


def require_searched(on: str | None, index: str | None) -> None:
    """Raise ValueError for a cluster without an index, which is what its machines would search."""
    if on is not None and index is None:
        raise ValueError("on is for references that a cluster finds: name an index")


def require_exactly_one(first: object, second: object, message: str) -> None:
    """Raise ValueError unless exactly one of the two is given."""
    if (first is None) == (second is None):
        raise ValueError(message)


FILE_OF_JOB: Final = "`upload:ID`, or a file in inbox/ or in a configured folder"
