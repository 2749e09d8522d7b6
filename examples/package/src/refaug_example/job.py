"""A kind of job: it counts the words of a log's responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from refaug.core.options.declaring import Doc
from refaug.operations.operation import Name, Operation

if TYPE_CHECKING:
    from refaug.service.jobs.kinds.job_context import JobContext


@dataclass(frozen=True, kw_only=True)
class CountWords(Operation):
    """Count the words of the responses of a log."""

    operation: ClassVar[str] = "count-words"
    runs: ClassVar[str] = "refaug_example.job:count_words"

    log: Annotated[Name, Doc("Log whose words are counted.")]
    letters: Annotated[bool, Doc("Count letters, too.")] = False


def count_words(order: CountWords, context: JobContext) -> Mapping[str, object]:
    """Return the result of the job."""
    from refaug.logs.store import StoredLog  # noqa: PLC0415  for the job alone

    words = letters = 0
    for pair in StoredLog.open(context.home.logs, order.log).pairs():
        words += len(pair.response.split())
        letters += sum(map(len, pair.response.split()))
    return {"log": order.log, "words": words, **({"letters": letters} if order.letters else {})}
