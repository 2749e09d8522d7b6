"""The order of the nightly job."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from refaug.service.jobs.orders.fields import Mode, Name, ResourceOptions, Seed, SetId, Share, Spec, StrictModel, Text
from refaug.service.jobs.orders.log_orders import Cleaning


class NightLimits(StrictModel):
    """What the new version must keep to; beyond one of them, it is built and not published."""

    recall: Share | None = Field(default=None, description="at least so much of what a search through everything finds")
    corpus_difference: Share | None = Field(
        default=None, description="at most so far may a corpus score on the set move, up or down"
    )
    mean_absolute: Share | None = Field(
        default=None, description="at most so far may the score of a reply move, on average"
    )
    references_changed: Share | None = Field(
        default=None, description="at most this share of the items may have other references than before"
    )
    spearman: float | None = Field(
        default=None, description="at least so alike must old and new scores rank the replies", ge=-1, le=1
    )

    @property
    def of_set(self) -> dict[str, float]:
        """The limits on the scores of a set, without those that were not set."""
        return {name: value for name, value in self.model_dump(exclude={"recall"}).items() if value is not None}


class NightlyJob(Cleaning, ResourceOptions):
    """A night: take what was posted, update the index, check it, score a set beside the old version, publish."""

    kind: Literal["nightly"] = Field(description="which job it is")
    log: Name = Field(description="log that the new dialogues are added to")
    index: Name = Field(description="index that is brought up to its logs")
    sources: list[Text] | None = Field(
        default=None,
        description="files and folders in inbox/ to add, besides what was posted to the log",
        min_length=1,
    )
    set: SetId | None = Field(
        default=None,
        description="frozen set on which the old and the new version are compared: references of its items are found "
        "and weighed anew with both, with the set's own settings, and the same replies are scored; without it, nothing "
        "is compared",
    )
    replies: Text | None = Field(
        default=None,
        description="file in inbox/ with replies to items of the set; without it, the gold of each item is the reply, "
        "scored against its references without golds",
    )
    rater: Spec | None = Field(default=None, description="rater that weighs; by default the one that weighed the set")
    metrics: list[Text] = Field(
        default_factory=lambda: ["upsilon-bleu"], description="what to compare with", min_length=1, max_length=100
    )
    limits: NightLimits = Field(default_factory=NightLimits, description="what the new version must keep to")
    mode: Mode = Field(default="embedding-utterance", description="the way of searching whose recall is checked")
    check_queries: int = Field(default=200, description="utterances on which recall is checked", ge=1, le=100_000)
    seed: Seed = Field(default=1, description="of the utterances that are drawn for it")
    keep: int = Field(default=2, description="versions of the index that stay", ge=1, le=10_000)
    workers: int | None = Field(
        default=None, description="processes beside this one for reading; default: one a thread, at most 8", ge=0, le=64
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.set is None and (
            idle_fields := [*self.limits.of_set, *(["replies"] if self.replies is not None else [])]
        ):
            raise ValueError(f"{idle_fields[0]} is about scores on a set: name one")
        return self
