"""Results about indexes and raters."""

from __future__ import annotations

from dataclasses import field
from typing import Optional

from .base import Model, record


@record
class IndexVersion(Model):
    """One version of an index; where `problem` says what is wrong with its files, all else is None."""

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
    tokenizer: Optional[str] = None
    kind: Optional[str] = None  # of its main part, by FAISS's name
    utterances: Optional[int] = None  # distinct ones that can be found
    pairs: Optional[int] = None  # distinct ones that can be found
    segments: Optional[int] = None  # its main part and what updates have added
    superseded: Optional[int] = None  # utterances that a later part, or a deletion, has replaced
    recall_at_15: Optional[float] = None  # the share of exact search's 15 best that it finds
    recall_interval: Optional[list[float]] = None
    recall_target: Optional[float] = None  # what was asked for


@record
class RaterVersion(Model):
    """One version of a rater; where `problem` says what is wrong with its files, all else is None."""

    version: str
    published: bool
    was_published: Optional[bool] = None  # at some time: rolling back returns to the newest older one of these
    refused: Optional[str] = None  # why a check refused it
    problem: Optional[str] = None
    id: Optional[str] = None  # what signatures call its content
    logs: Optional[list[str]] = None
    bytes: Optional[int] = None
    created: Optional[str] = None
    tokenizer: Optional[str] = None
    languages: Optional[list[str]] = None
    temperature: Optional[float] = None  # of its calibrated ratings
    embedding: Optional[int] = None
    hidden: Optional[int] = None
    network: Optional[str] = None


@record
class Index(Model):
    """An index: its complete versions, oldest first, and the details of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[IndexVersion] = None
    published_at: Optional[str] = None  # when the name began to stand for it


@record
class Rater(Model):
    """A rater: its complete versions, oldest first, and the details of the published one."""

    name: str
    current: Optional[str]
    versions: list[str]
    published: Optional[RaterVersion] = None
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
