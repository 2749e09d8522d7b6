"""Bodies and answers of the routes of studies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, Field

from refaug.extras.studies.participation.signed_links import MOST_CHARACTERS
from refaug.service.web.schemas.common import OpenModel, Page, ResponseModel, StrictModel

StudyState = Literal["draft", "pilot", "open", "paused", "closed"]
_Items = Annotated[
    list[dict[str, object]],
    Field(max_length=100_000, description="dialogues, replies or references to be judged (docs/studies.md)"),
]


class StudyIn(StrictModel):
    """A study that is to be made, as a draft."""

    name: str = Field(description="of the study", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    protocol: dict[str, object] = Field(description="what participants do and are asked; checked as a whole")
    items: _Items = Field(default=[])


class AmendmentIn(StrictModel):
    """Another protocol: of a draft, or as an amendment of an open study."""

    protocol: dict[str, object] = Field(description="the whole protocol")
    reason: str = Field(default="", description="why; needed once the study has opened", max_length=2_000)


class StudyItemsIn(StrictModel):
    """Items for a draft."""

    items: Annotated[
        list[dict[str, object]], Field(min_length=1, max_length=100_000, description="as POST /v1/studies takes them")
    ]


class StudySlotOut(BaseModel):
    """A bot of a study, or a system of its items."""

    slot: int = Field(description="its number in the study")
    bot: str = Field(description="its name")
    sha256: str | None = Field(description="of its specification; null for a system of items")
    degraded: bool = Field(description="whether it is worse on purpose, as a check")
    target: int | None = Field(description="how many tasks are wanted; null: as many as there are items")
    done: int = Field(description="finished tasks; a pair counts for both")
    reserved: int = Field(description="tasks that participants are in")
    failures: int = Field(description="replies that failed")
    failing: bool = Field(description="whether its last reply failed")


class AmendmentOut(BaseModel):
    """A protocol that the study has had since it opened."""

    sha256: str = Field(description="of the protocol")
    at: str = Field(description="since when")
    actor: str = Field(description="who did it")
    reason: str = Field(description="why")


class StudyRow(BaseModel):
    """A study in a list."""

    id: str = Field(description="names it for ever")
    name: str = Field(description="names it for people")
    title: str = Field(description="what participants see")
    kind: str = Field(description="what they do")
    state: StudyState = Field(description="draft, pilot, open, paused or closed")
    protocol_sha256: str = Field(description="of the protocol as it is now")
    created: str = Field(description="when the draft was made")
    opened: str | None = Field(description="when it first took participants")
    closed: str | None = Field(description="when it was closed")


class StudyOut(StudyRow, ResponseModel):
    """A study with its protocol, its counts and its bots."""

    protocol: dict[str, object] = Field(description="with every default written out")
    consent_sha256: str = Field(description="of the text that participants agree to")
    amendments: list[AmendmentOut] = Field(description="every protocol since it opened, oldest first")
    counts: dict[str, int] = Field(description="participants, finished, tasks_done, tasks_reserved, skipped, …")
    bots: list[StudySlotOut] = Field(description="with what is done and reserved of each")


class StudiesOut(Page, ResponseModel):
    """A page of studies."""

    studies: list[StudyRow] = Field(description="newest first")


class DeletedStudyOut(ResponseModel):
    """The study that is gone."""

    id: str = Field(description="of the study")
    name: str = Field(description="of the study")


class AddedItemsOut(ResponseModel):
    """The items that were added."""

    tasks: int = Field(description="how many tasks they are")


class StudyProgressOut(ResponseModel):
    """How far a study is."""

    state: StudyState = Field(description="of the study")
    counts: dict[str, int] = Field(description="participants and tasks by what became of them")
    bots: list[StudySlotOut] = Field(description="the balance over bots")
    pairs: list[dict[str, object]] = Field(description="finished tasks of each pair: how often each was left")


class StudyPreviewOut(ResponseModel):
    """What a participant would see."""

    consent: dict[str, object] = Field(description="text, sha256, screening")
    guidelines: str = Field(description="in this language")
    form: dict[str, object] = Field(description="in this language")
    languages: list[str] = Field(description="that there are")
    sequence: list[dict[str, object]] = Field(description="an example of the tasks of a participant, with their checks")


class InvitesIn(StrictModel):
    """Invitations that are to be made."""

    count: int = Field(default=1, description="how many", ge=1, le=10_000)
    uses_max: int | None = Field(
        default=None, description="participants that each lets in; 1: a personal one, by which they come back", ge=1,
        le=1_000_000,
    )  # fmt: skip
    expires: AwareDatetime | None = Field(default=None, description="when it ends; null: never")
    label: str = Field(default="", description="what it is for", max_length=200)


class InviteOut(BaseModel):
    """An invitation, without its token."""

    id: str = Field(description="names it")
    label: str = Field(description="what it is for")
    uses_max: int | None = Field(description="participants that it lets in; null: any number")
    uses: int = Field(description="participants that it has let in")
    created: str = Field(description="when it was made")
    expires: str | None = Field(description="when it ends; null: never")
    revoked: str | None = Field(description="when it was taken back")


class NewInviteOut(InviteOut):
    """An invitation with its token, which is in this answer alone."""

    token: str = Field(description="what stands behind the #")
    link: str = Field(description="path and fragment of the link: /take#…")


class NewInvitesOut(ResponseModel):
    """Invitations with their tokens."""

    invites: list[NewInviteOut] = Field(description="in the order in which they were made")


class InvitesOut(Page, ResponseModel):
    """A page of invitations."""

    invites: list[InviteOut] = Field(description="oldest first")


class OneInviteOut(InviteOut, ResponseModel):
    """An invitation."""


class StudyParticipantOut(BaseModel):
    """A participant, without anything that says who they are."""

    code: str = Field(description="names them in this study")
    state: str = Field(description="consent, screened_out, training, active, full, done or withdrawn")
    reason: str | None = Field(description="of a participant who was screened out: screening, quota, training")
    pilot: bool = Field(description="whether they took part in the pilot")
    language: str = Field(description="that they read")
    created: str = Field(description="when they came")
    consented: str | None = Field(description="when they agreed")
    seen: str = Field(description="when they last did something")
    ended: str | None = Field(description="when they were done")
    done: int = Field(description="tasks that they finished")
    skipped: int = Field(description="tasks that they left out")
    expired: int = Field(description="tasks that they left without a word")
    minutes: float = Field(description="time spent; a silence counts as a minute at most")
    pay: dict[str, object] | None = Field(description="what they are paid, and what is due")
    completion_code: str | None = Field(description="that they were shown")
    excluded: str | None = Field(description="why they are left out of the report")


class StudyParticipantsOut(Page, ResponseModel):
    """A page of participants."""

    participants: list[StudyParticipantOut] = Field(description="by code")


class ParticipantTasksOut(ResponseModel):
    """The tasks of one participant."""

    code: str = Field(description="of the participant")
    tasks: list[dict[str, object]] = Field(description="as the export has them")


class ExclusionIn(StrictModel):
    """Leaving a participant out of the report, or taking them in again."""

    reason: str | None = Field(description="why; null takes them in again", max_length=500)


class OneParticipantOut(ResponseModel):
    """What became of a participant."""

    code: str = Field(description="of the participant")
    excluded: str | None = Field(description="why they are left out of the report")


class ResumeLinkOut(ResponseModel):
    """A new link by which a participant goes on; its token is in this answer alone."""

    code: str = Field(description="of the participant")
    token: str = Field(description="what stands behind the #")
    link: str = Field(description="path and fragment of the link: /take#…")


class ErasedParticipantOut(ResponseModel):
    """The participant whose texts and answers are gone."""

    code: str = Field(description="of the participant; the fact that there was one stays")


_Id = Annotated[str, Field(max_length=200)]
_Parameter = Annotated[str, Field(max_length=MOST_CHARACTERS)]
_Side = Annotated[Literal["one", "left", "right"] | None, Field(description="of a task with two sides")]
_Answers = Annotated[
    dict[str, object], Field(max_length=200, description="by question; null takes an answer back; checked by the form")
]


class SessionIn(StrictModel):
    """The link of an invitation, and what a recruiting service has added to it."""

    token: str = Field(description="what stands behind the # of the link", min_length=1, max_length=300)
    external: dict[_Id, _Parameter] = Field(
        default={},
        max_length=20,
        description="parameters of the address, such as PROLIFIC_PID, or a signed token; stored as a hash alone",
    )
    language: str | None = Field(default=None, max_length=20, description="one of the study's languages")


class ConsentIn(StrictModel):
    """Agreement to the text of consent, with answers to the questions of screening."""

    sha256: str = Field(description="of the text that was shown", pattern=r"^[0-9a-f]{64}$")
    agree: bool = Field(description="true")
    screening: _Answers = Field(default={})


class TrainingIn(StrictModel):
    """Answers to an item of the training."""

    item: _Id = Field(description="its id")
    answers: _Answers


class MessageIn(StrictModel):
    """A message to the bot, or to both bots of a pair."""

    n: int = Field(description="the number that it gets: one more than the last message has", ge=1, le=10_000)
    text: str = Field(description="what is said", min_length=1, max_length=200_000)


class VoteIn(StrictModel):
    """A vote on a reply."""

    n: int = Field(description="the number of the reply", ge=1, le=10_000)
    value: Literal[-1, 0, 1] = Field(description="down, none, or up")
    side: _Side = None


class AnswersIn(StrictModel):
    """Answers to questions about the task, one of its sides, or a turn."""

    answers: _Answers
    side: _Side = None
    n: int | None = Field(default=None, description="the turn that they are about", ge=1, le=10_000)


class SkipIn(StrictModel):
    """Leaving a task out."""

    reason: str = Field(description="why; `bot_failed` where there was no reply", min_length=1, max_length=500)


class EmptyIn(StrictModel):
    """Nothing: an empty object."""


class TakeStateOut(OpenModel, ResponseModel):
    """The whole state of a participant, from which a page is built; nothing in it names a bot, a hash or a host."""

    study: dict[str, object] = Field(description="title, kind, state, language, limits, guidelines, texts")
    step: str = Field(
        description="`consent`, `screened_out`, `training`, `ready`, `task`, `done`, `closed`, `withdrawn` or `full`"
    )
    consent: dict[str, object] = Field(description="text, sha256, screening, given")
    training: dict[str, object] | None = Field(description="the item that comes next, with feedback on the one before")
    task: dict[str, object] | None = Field(description="the current task: sides with messages, payload, form, answers")
    progress: dict[str, int] = Field(description="tasks done, and of how many")
    completion: dict[str, object] | None = Field(description="code and return address at the end")
    can_undo: bool = Field(description="whether the last action can be taken back")
    code: str = Field(description="of the participant, to be named to the operator")


class SessionOut(TakeStateOut):
    """The state, and once, at the start, what opens it elsewhere."""

    resume: str | None = Field(
        description="what stands behind the # of the link by which the participant goes on in another browser; shown "
        "to whom begins, this once, and null afterwards"
    )


class ActionOut(ResponseModel):
    """What an action has done, always the same for its id, and the state as it is now."""

    done: dict[str, object] = Field(description="what it has done")
    state: dict[str, object] = Field(description="as GET /v1/take/state has it")


class OwnDataOut(OpenModel, ResponseModel):
    """Everything that is stored of a participant, without what names a bot."""

    code: str = Field(description="of the participant")
    tasks: list[dict[str, object]] = Field(description="every task with messages and answers")
