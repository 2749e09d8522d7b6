"""Models of logs and of dialogues to post."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from refaug.service.web.schemas.common import STRICT, OnError, ResponseModel

_EXAMPLE: Final[Any] = {
    "id": "d-2041",
    "turns": [
        {"text": "Where do you buy tea?", "speaker": "ann", "time": "2026-11-20T08:30:00Z"},
        {"text": "At the market.", "speaker": "ben"},
    ],
    "tags": ["chat"],
}

# Dialogues go through the reader of log files, and fields that it would ignore are refused by place and name; so the
# model accepts anything, and the document describes the expected shape.
_TURN_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "title": "Turn",
    "description": "What one speaker said.",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "description": "what was said"},
        "speaker": {"type": ["string", "integer", "null"], "description": "who said it; null where nobody knows"},
        "time": {
            "type": ["string", "number", "null"],
            "description": "when: ISO 8601, in UTC where no zone is said, or seconds since 1970",
        },
    },
}
_DIALOGUE_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "title": "Dialogue",
    "description": "A dialogue, its turns in order.",
    "required": ["turns"],
    "properties": {
        "id": {
            "type": ["string", "integer", "null"],
            "minLength": 1,
            "maxLength": 200,
            "description": "names the dialogue within its log; without it, it gets one that follows from the content",
        },
        "turns": {
            "type": "array",
            "minItems": 1,
            "description": "what was said, in order: texts, or objects with a text",
            "items": {"anyOf": [{"type": "string"}, _TURN_SCHEMA]},
        },
        "tags": {
            "type": ["array", "string", "null"],
            "items": {"type": "string"},
            "description": "texts that are kept with every pair of it: a list, or a single one",
        },
    },
    "examples": [_EXAMPLE],
}


class DialoguesIn(BaseModel):
    """Dialogues for a log."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"dialogues": [_EXAMPLE]}]})

    dialogues: list[Annotated[Any, WithJsonSchema(_DIALOGUE_SCHEMA)]] = Field(
        description="whole dialogues: one that goes on later is posted when it has ended",
        min_length=1,
        max_length=1_000_000,
    )
    on_error: OnError = Field(
        default="fail", description="fail: one bad dialogue, and none is taken; report: the others are taken"
    )


class WaitingOut(BaseModel):
    """What was posted and is not in the log yet."""

    requests: int = Field(description="in how many requests it came")
    dialogues: int = Field(description="how many dialogues there are")
    bytes: int = Field(description="how much room they take")


class LogOut(BaseModel):
    """What a log holds."""

    name: str = Field(description="name of the log")
    problem: str | None = Field(description="what is wrong with its files; then the counts are null")
    pairs: int | None = Field(description="pairs of an utterance and its response")
    dialogues: int | None = Field(description="dialogues that have a pair")
    distinct_utterances: int | None = Field(description="different utterances, however they are written")
    bytes: int | None = Field(description="size of its files")
    updated: str | None = Field(description="when something was added or deleted; null before the first ingest")


class LogsOut(ResponseModel):
    """A page of logs."""

    logs: list[LogOut] = Field(description="by name")
    next: str | None = Field(description="the `after` of the next page; null on the last one")


class OneLogOut(LogOut, ResponseModel):
    """A log."""

    created: str | None = Field(description="when it was begun; null before the first ingest")
    ingests: int = Field(description="how many runs have added to it")
    erased: dict[str, int] = Field(description="dialogues and speakers that were deleted, and stay out")
    waiting: WaitingOut = Field(description="what was posted and is not in it yet")


class IngestOut(BaseModel):
    """One run that has added to a log."""

    number: int = Field(description="its place among the runs, from 1")
    at: str = Field(description="when it ended")
    sources: int = Field(description="files that it read")
    bytes: int = Field(description="the size of these files")
    counts: dict[str, int] = Field(
        description="what it read, such as dialogues, turns and rows, and what was left out, by reason"
    )


class IngestsOut(ResponseModel):
    """A page of the runs that have added to a log."""

    name: str = Field(description="name of the log")
    ingests: list[IngestOut] = Field(description="oldest first")
    next: str | None = Field(description="the `after` of the next page; null on the last one")


class BadDialogueOut(BaseModel):
    """A dialogue that was left out."""

    place: int = Field(description="its place in the list, from 0")
    id: str | None = Field(description="its id, where it has one")
    field: str = Field(description="the field that is wrong, such as `turns[1].text`")
    message: str = Field(description="what was found")


class PostedOut(ResponseModel):
    """Dialogues that are kept safely, and will be in the log with its next ingest."""

    log: str = Field(description="name of the log")
    accepted: int = Field(description="dialogues that were taken")
    duplicate: bool = Field(description="whether exactly these were posted before: then none is kept a second time")
    ids: list[str] = Field(description="the ids of those that were taken, in the order sent")
    waiting: WaitingOut = Field(description="what was posted and is not in the log yet, with these")
    problems: list[BadDialogueOut] = Field(description='what was left out, with "on_error": "report"')
