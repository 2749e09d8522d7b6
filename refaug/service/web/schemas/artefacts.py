"""Models of indexes and raters: versions, the published one, and the processes that serve it."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from refaug.service.web.schemas.common import STRICT, Page, ResponseModel


class PublishIn(BaseModel):
    """Which version a name is to stand for."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"version": "2026-11-20.1"}]})

    version: str | None = Field(
        default=None, description="the version to publish, such as `2026-11-20.1`", min_length=1, max_length=100
    )
    rollback: bool = Field(default=False, description="publish the version that was published before again")
    even_refused: bool = Field(default=False, description="publish `version` although a check refused it")

    @model_validator(mode="after")
    def require_one(self) -> Self:
        """One of the two says which version is meant."""
        if (self.version is None) == (not self.rollback):
            raise ValueError('give either "version", or "rollback": true')
        if self.even_refused and self.version is None:
            raise ValueError('"even_refused" is about a version: name it in "version"')
        return self


class _VersionOut(BaseModel):
    """What every kind of version says of itself."""

    version: str = Field(description="the version's name: the day it was made, and its number of that day")
    published: bool = Field(description="whether the name stands for it now")
    was_published: bool | None = Field(
        description="whether the name has ever stood for it: rolling back returns to the newest such version that is "
        "older; null where the record of this is damaged"
    )
    refused: str | None = Field(description="why a check refused it; null where none did, or it was published since")
    problem: str | None = Field(description="what is wrong with its files; then all else about its content is null")
    id: str | None = Field(description="what signatures call its content: the first 12 digits of a SHA-256")
    logs: list[str] | None = Field(description="the logs that it was made of")
    bytes: int | None = Field(description="the size of its files")


class IndexVersionOut(_VersionOut):
    """One version of an index."""

    created: str | None = Field(description="when it was made")
    vectors: str | None = Field(description="the word vectors, or the encoder, by which utterances are compared")
    tokenizer: str | None = Field(description="what splits texts into words")
    kind: str | None = Field(description="the kind of its main part, by FAISS's name")
    utterances: int | None = Field(description="distinct utterances that can be found")
    pairs: int | None = Field(description="distinct pairs that can be found")
    segments: int | None = Field(description="its main part and what updates have added")
    superseded: int | None = Field(description="utterances that a later part, or a deletion, has replaced")
    recall_at_15: float | None = Field(
        description="the share of exact search's 15 best that it finds; null where it was not measured"
    )
    recall_interval: list[float] | None = Field(description="the 95 % interval of that share")
    recall_target: float | None = Field(description="the share that was asked for")


class RaterVersionOut(_VersionOut):
    """One version of a rater."""

    created: str | None = Field(description="when it was made")
    tokenizer: str | None = Field(description="SHA-256 of what splits texts into pieces")
    languages: list[str] | None = Field(description="languages of the texts that it was trained on")
    network: str | None = Field(description="nn: the Bi-GRU of the method; cross: a Transformer")
    temperature: float | None = Field(description="of its calibrated ratings")
    embedding: int | None = Field(description="numbers of a piece's vector")
    hidden: int | None = Field(description="numbers of a text's state, for each direction")


class IndexOut(BaseModel):
    """An index and the version that its name stands for."""

    name: str = Field(description="name of the index")
    current: str | None = Field(description="the published version")
    published_at: str | None = Field(description="when the name began to stand for it")
    versions: list[str] = Field(description="all complete versions, oldest first")
    published: IndexVersionOut | None = Field(description="the published version's facts")


class RaterOut(BaseModel):
    """A rater and the version that its name stands for."""

    name: str = Field(description="name of the rater")
    current: str | None = Field(description="the published version")
    published_at: str | None = Field(description="when the name began to stand for it")
    versions: list[str] = Field(description="all complete versions, oldest first")
    published: RaterVersionOut | None = Field(description="the published version's facts")


class IndexesOut(Page, ResponseModel):
    """A page of indexes."""

    indexes: list[IndexOut] = Field(description="by name")


class RatersOut(Page, ResponseModel):
    """A page of raters."""

    raters: list[RaterOut] = Field(description="by name")


class OneIndexOut(IndexOut, ResponseModel):
    """An index."""


class OneRaterOut(RaterOut, ResponseModel):
    """A rater."""


class IndexVersionsOut(Page, ResponseModel):
    """A page of the versions of an index."""

    name: str = Field(description="name of the index")
    current: str | None = Field(description="the published version")
    versions: list[IndexVersionOut] = Field(description="oldest first")


class RaterVersionsOut(Page, ResponseModel):
    """A page of the versions of a rater."""

    name: str = Field(description="name of the rater")
    current: str | None = Field(description="the published version")
    versions: list[RaterVersionOut] = Field(description="oldest first")


class PublishedOut(ResponseModel):
    """What came of publishing: the name stands for the version, on the disk, in either case."""

    kind: str = Field(description="index or rater")
    name: str = Field(description="its name")
    version: str = Field(description="the version that is published now")
    serving: list[int] = Field(description="processes that answer with it, by their ids")
    lacking: list[int] = Field(description="processes that still answer with another one; none in an answer with 200")
    problems: dict[str, str] = Field(description="what could not be opened by the process that answers")
