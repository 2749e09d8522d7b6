"""The nightly job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, Ge, Le, Length, Pattern
from refaug.core.options.decoding import Options, as_values
from refaug.indexer.search.search_settings import Mode
from refaug.operations.logs.cleaning_options import CleaningOptions
from refaug.operations.operation import MEMORY, Memory, Name, Operation, Seed, Share, Spec, Text, Threads


@dataclass(frozen=True, kw_only=True)
class NightLimits(Options):
    """What the new version must keep to; beyond one of them, it is built and not published."""

    recall: Annotated[Share | None, Doc("At least so much of what a search through everything finds.")] = None
    corpus_difference: Annotated[
        Share | None, Doc("At most so far may a corpus score on the set move, up or down.")
    ] = None
    mean_absolute: Annotated[Share | None, Doc("At most so far may the score of a reply move, on average.")] = None
    references_changed: Annotated[
        Share | None, Doc("At most this share of the items may have other references than before.")
    ] = None
    spearman: Annotated[
        float | None, Ge(-1), Le(1), Doc("At least so alike must old and new scores rank the replies.")
    ] = None

    @property
    def stated_limits(self) -> dict[str, float]:
        """The limits by name, without those that there are not."""
        return {name: limit for name, limit in as_values(self).items() if limit is not None}


@dataclass(frozen=True, kw_only=True)
class RunNight(CleaningOptions, Operation):
    """A night: take what was posted, update the index, check it, score a set beside the old version, publish."""

    operation: ClassVar[str] = "nightly"
    runs: ClassVar[str] = "refaug.service.jobs.kinds.nightly:nightly_job"

    log: Annotated[Name, Doc("Log that the new dialogues are added to.")]
    index: Annotated[Name, Doc("Index that is brought up to its logs.")]
    sources: Annotated[
        tuple[Text, ...], Doc("Files and folders in inbox/ to add, besides what was posted to the log.")
    ] = ()
    set: Annotated[
        Annotated[str, Pattern(re.compile("[0-9a-f]{6,16}"), "the id of a set, or its beginning")] | None,
        Doc(
            "Frozen set on which the old and the new version are compared: references of its items are found and "
            "weighed anew with both, with the set's own settings, and the same replies are scored; without it, nothing "
            "is compared."
        ),
    ] = None
    replies: Annotated[
        Text | None,
        Doc(
            "File in inbox/ with replies to items of the set; without it, the gold of each item is the reply, scored "
            "against its references without golds."
        ),
    ] = None
    rater: Annotated[Spec | None, Doc("Rater that weighs; by default the one that weighed the set.")] = None
    metrics: Annotated[tuple[Text, ...], Length(1, 100), Doc("What to compare with.")] = ("upsilon-bleu",)
    limits: Annotated[NightLimits, Doc("What the new version must keep to.")] = NightLimits()
    mode: Annotated[Mode, Doc("The way of searching whose recall is checked.")] = "embedding-utterance"
    check_queries: Annotated[int, Ge(1), Le(100_000), Doc("Utterances on which recall is checked.")] = 200
    seed: Annotated[Seed, Doc("Of the utterances that are drawn for it.")] = 1
    keep: Annotated[int, Ge(1), Le(10_000), Doc("Versions of the index that stay.")] = 2
    workers: Annotated[
        int | None,
        Ge(0),
        Le(64),
        Doc("Processes beside this one for reading; by default one a thread, at most 8."),
    ] = None
    threads: Threads = None
    memory: Memory = MEMORY

    def check(self) -> None:
        """Refuse limits on the scores of a set that is not named."""
        super().check()
        of_set = [name for name in self.limits.stated_limits if name != "recall"]
        if self.replies is not None:
            of_set.append("replies")
        if self.set is None and of_set:
            raise Usage(f"{of_set[0]} is about scores on a set: name one", field="set")

    def metrics_named(self) -> list[str]:
        """Return what versions are compared with."""
        return list(self.metrics)

    def sources_named(self) -> list[str]:
        """Return the files of dialogues and of replies."""
        return [*self.sources, *([self.replies] if self.replies is not None else [])]

    def resources(self) -> tuple[str, ...]:
        """Return the log and the index."""
        return (f"log/{self.log}", f"index/{self.index}")
