"""Orders of jobs about logs: ingesting and erasing dialogues."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from refaug.logs import ingest_options as options
from refaug.logs.ingest_options import IngestOption
from refaug.service.jobs.orders.fields import Name, ResourceOptions, Share, StrictModel, Text, require_exactly_one


def _field_of(option: IngestOption[Any]) -> Any:
    """Return the field of an option of the command that has the same description here."""
    return Field(default=option.default, description=option.description, ge=option.least, le=option.most)


class Cleaning(StrictModel):
    """How the texts of a log are cleaned."""

    language: str | None = Field(
        default=options.LANGUAGE.default, description=options.LANGUAGE.description, max_length=35
    )
    no_rules: list[Text] = Field(default_factory=list, description="cleaning rules that are switched off")
    only_rules: list[Text] | None = Field(default=None, description="run these cleaning rules only; []: none")
    min_chars: int = _field_of(options.MIN_CHARS)
    max_chars: int = _field_of(options.MAX_CHARS)
    flood_cap: int = _field_of(options.FLOOD_CAP)
    block_speakers: list[Text] = Field(default_factory=list, description="drop what these speakers said")

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.no_rules and self.only_rules is not None:
            raise ValueError("no_rules and only_rules contradict each other")
        return self


class ReadingOptions(StrictModel):
    """How the files of a log are read."""

    format: str = Field(
        default=options.FORMAT.default, description="auto, or a format by name: jsonl, csv, reddit, …", max_length=40
    )
    map: dict[str, str] = Field(
        default_factory=dict, description='where a field is in the source, e.g. {"text": "body"}', max_length=20
    )
    ids: bool = _field_of(options.USE_IDS)
    context: list[Text] = Field(
        default_factory=list, description="message files in inbox/ read only for what others reply to"
    )
    encoding: str = Field(
        default=options.ENCODING.default, description="text encoding; auto: UTF-8 or what a mark says", max_length=40
    )
    markup: str = Field(
        default=options.MARKUP.default, description="mark-up to take off: auto, none, reddit, slack, …", max_length=40
    )
    on_error: Literal["report", "stop"] = _field_of(options.ON_ERROR)
    max_bad_share: Share = _field_of(options.MAX_BAD_SHARE)


class IngestJob(ReadingOptions, Cleaning):
    """Add dialogues to a log: files in inbox/, or what was posted."""

    kind: Literal["ingest"] = Field(description="which job it is")
    log: Name = Field(description="log to add to; made when it is not there")
    sources: list[Text] | None = Field(
        default=None, description="files and folders in inbox/, or under configured folders", min_length=1
    )
    posted: bool = Field(default=False, description="take the dialogues that were posted to the log")
    memory_mib: int = Field(
        default=options.MEMORY_MIB.default,
        description="memory to work in, in MiB",
        ge=options.MEMORY_MIB.least,
        le=options.MEMORY_MIB.most,
    )
    workers: int | None = _field_of(options.WORKERS)
    on: Text | None = Field(
        default=None,
        description="read and clean the files on a cluster of Ray: HOST:PORT, auto or local, as the server's settings "
        "name it",
    )

    @model_validator(mode="after")
    def _from_somewhere(self) -> Self:
        require_exactly_one(self.sources, self.posted or None, 'either sources, or "posted": true')
        idle_fields = [
            name for name, field in ReadingOptions.model_fields.items() if getattr(self, name) != _default(field)
        ]
        if self.posted and idle_fields:
            raise ValueError(f"{idle_fields[0]} is for files; what was posted has one form")
        if self.on is not None and (self.posted or self.workers is not None):
            raise ValueError("a cluster reads files, and no workers of this machine do: on goes with sources alone")
        return self


def _default(field: Any) -> Any:
    return field.get_default(call_default_factory=True)


class EraseJob(ResourceOptions):
    """Take dialogues or speakers out of a log for good, and out of all that was made of it."""

    kind: Literal["erase"] = Field(description="which job it is")
    log: Name = Field(description="the log")
    dialogues: list[Text] = Field(default_factory=list, description="ids of dialogues", max_length=100_000)
    speakers: list[Text] = Field(
        default_factory=list, description="names of speakers: every pair with one of them goes", max_length=100_000
    )
    compact: bool = Field(
        default=False,
        description="build the indexes anew, so that their files hold nothing of it; else it is masked in them, and "
        "cannot be found",
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.dialogues and not self.speakers:
            raise ValueError("nothing is named that should go: dialogues or speakers")
        return self
