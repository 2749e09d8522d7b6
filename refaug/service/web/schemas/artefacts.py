"""Models of artefacts: their versions, the published one, and the processes that serve it; one set for all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from refaug.core.artefacts.kinds import ArtefactKind
from refaug.evaluation.home.stored_artefacts import VersionFacts
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


class _PublishedName(BaseModel):
    """A name and the version that it stands for."""

    name: str = Field(description="its name")
    current: str | None = Field(description="the published version")


class _ArtefactOut(_PublishedName):
    """What every kind of artefact says of itself."""

    published_at: str | None = Field(description="when the name began to stand for it")
    versions: list[str] = Field(description="all complete versions, oldest first")


@dataclass(frozen=True, kw_only=True)
class ArtefactModels:
    """The models of one kind of artefact."""

    page: type[BaseModel]  # of artefacts
    one: type[BaseModel]
    versions: type[BaseModel]  # a page of them


def models_of(kind: ArtefactKind, fact_type: type[VersionFacts]) -> ArtefactModels:
    """Return the models of a kind, whose versions have these facts."""
    noun, hints = kind.value.title().replace("-", ""), get_type_hints(fact_type, include_extras=True)
    facts = {fact.name: _documented(hints[fact.name]) for fact in fields(fact_type)}
    version: Any = _model(f"{noun}VersionOut", f"One version of {kind.noun}.", (_VersionOut,), facts)
    published = {"published": (version | None, Field(description="the published version's facts"))}
    artefact: Any = _model(
        f"{noun}Out", f"{_begun(kind.noun)} and the version that its name stands for.", (_ArtefactOut,), published
    )
    pages = {kind.folder: (list[artefact], Field(description="by name"))}
    versions = {"versions": (list[version], Field(description="oldest first"))}
    return ArtefactModels(
        page=_model(f"{kind.folder.title()}Out", f"A page of {kind.folder}.", (Page, ResponseModel), pages),
        one=_model(f"One{noun}Out", f"{_begun(kind.noun)}.", (artefact, ResponseModel), {}),
        versions=_model(
            f"{noun}VersionsOut",
            f"A page of the versions of {kind.noun}.",
            (Page, _PublishedName, ResponseModel),
            versions,
        ),
    )


def _model(name: str, text: str, bases: tuple[type[BaseModel], ...], content: Mapping[str, Any]) -> type[BaseModel]:
    return create_model(name, __base__=bases, __doc__=text, **content)


def _documented(hint: Any) -> tuple[Any, Any]:
    """Return an annotated type as pydantic takes it; the text is for all faces."""
    kind, doc = get_args(hint)
    return kind, Field(description=doc.text)


def _begun(noun: str) -> str:
    return noun[0].upper() + noun[1:]


class PublishedOut(ResponseModel):
    """What came of publishing: the name stands for the version, on the disk, in either case."""

    kind: str = Field(description="index or rater")
    name: str = Field(description="its name")
    version: str = Field(description="the version that is published now")
    serving: list[int] = Field(description="processes that answer with it, by their ids")
    lacking: list[int] = Field(description="processes that still answer with another one; none in an answer with 200")
    problems: dict[str, str] = Field(description="what could not be opened by the process that answers")
