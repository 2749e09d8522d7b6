"""Results about indexes and raters."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

from .base import Model, record


@record
class ArtefactVersion(Model):
    """One version of an index or a rater; what its kind lacks is None, and all where `problem` says what is wrong."""

    version: str
    published: bool
    was_published: Optional[bool] = None  # at some time: rolling back returns to the newest older one of these
    refused: Optional[str] = None  # why a check refused it
    problem: Optional[str] = None
    id: Optional[str] = None  # what signatures call its content
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    created: Optional[str] = None
    vectors: Optional[str] = None  # by which utterances are compared
    metric: Optional[str] = None  # the recommended one over it; None with word vectors
    tokenizer: Optional[str] = None
    kind: Optional[str] = None  # of its main part, by FAISS's name
    utterances: Optional[int] = None  # distinct ones that can be found
    pairs: Optional[int] = None  # distinct ones that can be found
    segments: Optional[int] = None  # its main part and what updates have added
    superseded: Optional[int] = None  # utterances that a later part, or a deletion, has replaced
    recall_at_15: Optional[float] = None  # the share of exact search's 15 best that it finds
    recall_interval: Optional[list[float]] = None
    recall_target: Optional[float] = None  # what was asked for
    languages: Optional[list[str]] = None  # of the texts that a rater was trained on
    network: Optional[str] = None  # nn or cross
    temperature: Optional[float] = None  # of its calibrated ratings
    embedding: Optional[int] = None
    hidden: Optional[int] = None
    auc_good_vs_wrong: Optional[float] = None  # how often it puts a response above a wrong one


@record
class Artefact(Model):
    """An index or a rater: its complete versions, oldest first, and the details of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[ArtefactVersion] = None
    published_at: Optional[str] = None  # when the name began to stand for it


@record
class Published(Model):
    """The result of publishing: `lacking` are processes of the server that still answer with another version."""

    kind: str
    name: str
    version: str
    serving: list[int] = field(default_factory=list)  # processes that answer with it
    lacking: list[int] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # what could not be opened


# ── Results about logs ────────────────────────────────────────────────────────────────────────────────────────────────


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
