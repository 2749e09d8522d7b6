"""Encoding the texts of an index ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.options.declaring import Argument, Doc
from refaug.operations.operation import Operation, Spec, Threads


@dataclass(frozen=True, kw_only=True)
class EncodeIndex(Operation):
    """Encode all utterances and responses of an index, and keep their sentence vectors; kept ones stay."""

    operation: ClassVar[str] = "index-encode"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.indexing:encode_job"

    index: Annotated[Spec, Argument("INDEX"), Doc("The index: NAME or NAME@VERSION.")]
    encoder: Annotated[
        Spec | None, Doc("Encoder of the home: NAME or NAME@VERSION; by default the one that the index was built with.")
    ] = None
    threads: Threads = None
