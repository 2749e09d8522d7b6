"""Orders of jobs about indexes, and of the removal of old versions."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from refaug.evaluation.scoring.presets import PresetName, find_preset, with_preset_defaults
from refaug.service.jobs.orders.fields import (
    Logs,
    Mode,
    Name,
    Positive,
    ResourceOptions,
    Seed,
    Share,
    Spec,
    StrictModel,
    Text,
)


class IndexBuildJob(ResourceOptions):
    """Build an index of some logs, measure its recall, and publish it."""

    kind: Literal["index-build"] = Field(description="which job it is")
    logs: Logs = Field(description="logs whose pairs are indexed")
    index: Name | None = Field(default=None, description="name of the index; by default that of the first log")
    vectors: Spec | None = Field(
        default=None, description="word vectors; by default those named as the first log, unless there is an encoder"
    )
    encoder: Text | None = Field(
        default=None, description="folder with a sentence encoder in inbox/ or a configured folder"
    )
    fit_mib: int | None = Field(
        default=None, description="memory that serving the index may take, in MiB", ge=1, le=16_777_216
    )
    recall: float = Field(
        default=0.95, description="the share of exact search's 15 best that must be found", gt=0, le=1
    )
    latency_ms: Positive | None = Field(default=None, description="milliseconds that a single search may take")
    factory: str | None = Field(
        default=None, description="a kind of index by FAISS's name, e.g. IVF4096,SQ8", max_length=200
    )
    tokenizer: str | None = Field(
        default=None, description="tokenizer; by default the one that the vectors were trained with", max_length=200
    )
    preset: PresetName | None = Field(
        default=None, description="`tsuta20`: sentences as in the code of Tsuta et al. (2020)"
    )
    weighting: Literal["mean", "sif"] = Field(default="mean", description="how words weigh in a sentence")
    norm_words: bool = Field(default=True, description="scale each word's vector to unit length first")
    oov: Literal["skip", "unk"] = Field(default="skip", description="what words without a vector count as")
    bm25: bool = Field(default=True, description="make the modes of BM25 possible as well")
    check_queries: int = Field(
        default=1_000, description="utterances on which recall is measured; 0 measures nothing", ge=0, le=100_000
    )
    least_coverage: Share = Field(default=0.3, description="the share of the log's words that the vectors must know")
    shards: int = Field(
        default=1,
        description="build it in so many parts, one after the other: less memory, the same answers",
        ge=1,
        le=1_024,
    )
    on: Text | None = Field(
        default=None,
        description="build the shards side by side on a cluster of Ray: HOST:PORT, auto or local, as the server's "
        "settings name it",
    )
    seed: Seed = Field(default=1, description="of the sampling for training and for the check")
    publish: bool = Field(default=True, description="let the new version serve")

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, fields: Any) -> Any:
        return with_preset_defaults(fields, "sentence")

    @model_validator(mode="after")
    def _one_source_of_vectors(self) -> Self:
        if self.vectors is not None and self.encoder is not None:
            raise ValueError("vectors from word vectors or from an encoder, not from both")
        if self.on is not None and self.shards < 2:
            raise ValueError("a build on a cluster needs shards, which its machines build side by side")
        if (preset := find_preset(self.preset)) is not None:
            preset.require_agreement(preset.sentence, self.model_dump())
            if self.encoder is not None:
                raise ValueError(f"an encoder contradicts preset {preset.name}, which has means of word vectors")
        return self


class IndexUpdateJob(ResourceOptions):
    """Bring an index up to its logs as they are now."""

    kind: Literal["index-update"] = Field(description="which job it is")
    index: Name = Field(description="the index")
    publish: bool = Field(default=True, description="let the new version serve")
    least_recall: Share | None = Field(
        default=None,
        description="compare the new version with a search through all of it first; with less recall than this it is "
        "not published, and the job fails",
    )
    mode: Mode = Field(default="embedding-utterance", description="the way of searching that is compared")
    check_queries: int = Field(default=200, description="utterances that are asked for it", ge=1, le=100_000)
    seed: Seed = Field(default=1, description="another seed, other utterances")


class IndexCompactJob(ResourceOptions):
    """Build an index anew with its own settings, without what was deleted; of shards, only those that have changed."""

    kind: Literal["index-compact"] = Field(description="which job it is")
    index: Name = Field(description="the index")
    whole: bool = Field(default=False, description="build every shard anew, and train anew")
    publish: bool = Field(default=True, description="let the new version serve")


class GcJob(StrictModel):
    """Remove old versions; those stay that are published, in use, or needed by an index or a frozen set."""

    kind: Literal["gc"] = Field(description="which job it is")
    artefact: Literal["index", "rater", "ruber", "vectors", "vhred", "adem", "self-play", "hybrid", "judge-fit"] = (
        Field(description="what kind of artefact")
    )
    name: Name = Field(description="which one")
    keep: int = Field(default=3, description="so many of the newest versions stay", ge=0, le=100_000)
    even_pinned: bool = Field(default=False, description="also remove versions that frozen sets name")
