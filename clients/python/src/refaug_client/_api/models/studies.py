"""Studies with people: their protocols, invitations, participants and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Optional

from .base import Model, record


@record
class ListedStudy(Model):
    """A study in a list."""

    id: str
    name: str
    title: str  # what participants see
    kind: str  # chat, chat-pair, rate-dialogue, pair-dialogue, pair-reply, rate-reply, rate-reference, label-turns
    state: str  # draft, pilot, open, paused or closed
    protocol_sha256: str
    created: str
    opened: Optional[str] = None
    closed: Optional[str] = None


@record
class StudySlot(Model):
    """A bot of a study, or a system of its items, with what is done of it."""

    slot: int
    bot: str
    done: int
    reserved: int
    sha256: Optional[str] = None  # of the bot's specification; None for a system of items
    degraded: bool = False  # worse on purpose, as a check
    target: Optional[int] = None  # tasks that are wanted; None: as many as there are items
    failures: int = 0  # replies that failed
    failing: bool = False  # whether the last one did


@record
class StudyAmendment(Model):
    """A protocol that a study has had since it opened."""

    sha256: str
    at: str
    actor: str
    reason: str


@record
class Study(ListedStudy):
    """A study with its protocol, its counts and its bots."""

    protocol: Mapping[str, Any] = field(default_factory=dict)  # with every default written out
    consent_sha256: str = ""  # of the text that participants agree to
    amendments: list[StudyAmendment] = field(default_factory=list)  # every protocol since it opened, oldest first
    counts: dict[str, int] = field(default_factory=dict)  # participants, finished, tasks_done, skipped, …
    bots: list[StudySlot] = field(default_factory=list)


@record
class AddedItems(Model):
    """Items that were added to a draft."""

    tasks: int  # how many tasks they are


@record
class StudyPreview(Model):
    """What a participant would see."""

    consent: Mapping[str, Any]
    guidelines: str
    form: Mapping[str, Any]
    languages: list[str] = field(default_factory=list)
    sequence: list[Mapping[str, Any]] = field(default_factory=list)  # an example of a participant's tasks, with checks


@record
class StudyProgress(Model):
    """How far a study is, and how its bots are balanced."""

    state: str
    counts: dict[str, int]
    bots: list[StudySlot]
    pairs: list[Mapping[str, Any]] = field(default_factory=list)  # done tasks of each pair, by who was on the left


@record
class StudyInvite(Model):
    """An invitation, without its token."""

    id: str
    created: str
    label: str = ""
    uses: int = 0  # participants whom it has let in and who have answered
    uses_max: Optional[int] = None  # None: any number
    expires: Optional[str] = None
    revoked: Optional[str] = None


@record
class ResumeLink(Model):
    """A new link by which a participant goes on: no later answer has it."""

    code: str  # of the participant
    token: str
    link: str  # path and fragment behind the server's address: /take#…


@record
class NewStudyInvite(StudyInvite):
    """An invitation that was made, with its token: no later answer has it."""

    token: str = ""
    link: str = ""  # path and fragment behind the server's address: /take#…


@record
class StudyParticipant(Model):
    """A participant, without anything that says who they are."""

    code: str
    state: str  # consent, screened_out, training, active, full, done or withdrawn
    created: str
    seen: str  # when they last did something
    reason: Optional[str] = None  # why they were screened out
    pilot: bool = False
    language: str = ""
    consented: Optional[str] = None
    ended: Optional[str] = None
    done: int = 0  # tasks
    skipped: int = 0
    expired: int = 0
    minutes: float = 0.0  # time spent
    pay: Optional[Mapping[str, Any]] = None  # what is due
    completion_code: Optional[str] = None
    excluded: Optional[str] = None  # why the report leaves them out


@record
class ResponseFlag(Model):
    """Something conspicuous about a response."""

    rule: str
    detail: str


@record
class StudyResponse(Model):
    """What one participant answered in one task."""

    task: str
    participant: str
    position: int  # among the tasks of the participant
    state: str  # done, skipped or expired
    bots: list[str]
    item: Optional[str] = None  # the unit that was judged
    check: Optional[str] = None
    seconds: Optional[float] = None
    ended: Optional[str] = None
    scores: Mapping[str, float] = field(default_factory=dict)  # by question; higher is better
    chosen: Mapping[str, str] = field(default_factory=dict)  # by question, the bot that was preferred, or tie
    comment: str = ""
    flags: list[ResponseFlag] = field(default_factory=list)


@record
class StudyResponses(Model):
    """A page of responses."""

    responses: list[StudyResponse]
    total: int  # that pass the filters
    offset: int


@record
class StudyRecruit(Model):
    """What became of a person whom a recruiting service names."""

    id: str
    decision: str  # approve, look, at_it, return, screened_out or unknown
    code: Optional[str] = None
    state: Optional[str] = None
    minutes: Optional[float] = None
    reasons: list[str] = field(default_factory=list)


@record
class ParticipantTasks(Model):
    """Everything that one participant did, as the export has it."""

    code: str
    tasks: list[Mapping[str, Any]]


@record
class ParticipantExclusion(Model):
    """Whether the report leaves a participant out."""

    code: str
    excluded: Optional[str] = None


@record
class StudyReport(Model):
    """Every figure of a study: `report["analyses"]` has them with and without exclusions."""

    report: Mapping[str, Any]
    page: Optional[str] = None  # as HTML, where it is asked for


@record
class QuestionAgreement(Model):
    """How far participants agree on one question; None where it cannot be computed."""

    question: str
    rows_are: str  # what several people judged
    rows: int  # how many of them have two ratings or more
    participants: int
    alpha_ordinal: Optional[float] = None
    alpha_interval: Optional[float] = None
    kappa_median: Optional[float] = None
    ambiguous: Optional[float] = None  # the share of items on which choices are even


@record
class ParticipantAnswer(Model):
    """The answer of one participant."""

    participant: str
    value: Any  # a number or a text; of a choice, the system that was preferred, or tie


@record
class Adjudication(Model):
    """What counts about a disagreement, as it was decided."""

    value: Any
    by: str  # the name of the key that decided it
    at: str
    note: str = ""


@record
class Disagreement(Model):
    """One thing about which participants disagree."""

    item: str
    question: str
    ratings: list[ParticipantAnswer]
    spread: float  # their range as a share of the scale
    bot: Optional[str] = None  # the one of two that the question is about
    adjudicated: Optional[Adjudication] = None


@record
class StudyPower(Model):
    """How much a study needs to show a difference."""

    n: int  # ratings of each bot, or votes on the pair
    participants: int
    design_effect: float  # by how much several ratings of one person enlarge the number
