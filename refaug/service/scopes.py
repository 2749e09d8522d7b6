"""The scopes of keys, for the command, the page and the routes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """What a key allows; no scope includes another, except admin, which includes all."""

    READ = "read"
    SCORE = "score"
    WRITE = "write"
    STUDY = "study"
    STUDY_READ = "study-read"
    ADMIN = "admin"


ALLOWED: Final[Mapping[Scope, str]] = {
    Scope.READ: "look at everything, texts of sets among it, but no dialogues of logs",
    Scope.SCORE: "find references, score, evaluate files",
    Scope.WRITE: "post dialogues, freeze sets",
    Scope.STUDY: "studies with people: protocols, invitations, participants and reports",
    Scope.STUDY_READ: "look at studies, what participants wrote among it, and change nothing",
    Scope.ADMIN: "all of these, jobs, versions and keys",
}
