"""Results about logs."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

from .base import Model, record


@record
class Waiting(Model):
    """Dialogues that were posted to a log and are not in it yet."""

    requests: int
    dialogues: int
    bytes: int


@record
class Log(Model):
    """A log; `waiting`, `created`, `ingests` and `erased` only where one log was asked for."""

    name: str
    problem: Optional[str] = None
    pairs: Optional[int] = None  # of an utterance and its response
    dialogues: Optional[int] = None  # that have a pair
    distinct_utterances: Optional[int] = None  # however they are written
    bytes: Optional[int] = None
    updated: Optional[str] = None  # None before the first ingest
    created: Optional[str] = None
    ingests: Optional[int] = None  # how many runs have added to it
    erased: dict[str, int] = field(default_factory=dict)  # dialogues and speakers that were deleted, and stay out
    waiting: Optional[Waiting] = None  # what was posted and is not in it yet


@record
class Ingest(Model):
    """One run that has added to a log."""

    number: int  # its place among the runs, from 1
    at: str  # when it ended
    sources: int  # files that it read
    bytes: int  # the size of these files
    counts: dict[str, int] = field(default_factory=dict)  # dialogues, turns, rows, and what was left out


@record
class BadDialogue(Model):
    """A dialogue that was left out."""

    place: int  # in the list, from 0
    message: str
    id: Optional[str] = None
    field: str = ""  # such as `turns[1].text`


@record
class Posted(Model):
    """Dialogues that are stored safely, and will be in the log after its next ingest."""

    log: str
    accepted: int
    duplicate: bool  # exactly these were posted before, and are kept once
    ids: list[str]  # of those that were taken, in the order sent
    waiting: Waiting
    problems: list[BadDialogue] = field(default_factory=list)  # what was left out, with on_error="report"
