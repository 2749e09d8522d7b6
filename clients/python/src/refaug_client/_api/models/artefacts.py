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
