"""What the routes of studies share while the application runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from refaug.extras.studies.participation.invites import InviteStore, Newcomers
from refaug.extras.studies.participation.participant_desk import ParticipantDesk
from refaug.extras.studies.participation.signed_links import SignedLinks
from refaug.extras.studies.participation.study_store import StudyStore
from refaug.service.keys import RateLimits
from refaug.service.web.state import ServiceState

NAME: Final = "studies"  # among the parts of the service


class ChatReplies(Protocol):
    """What makes the replies of chats beside the requests."""

    def start(self, task: str) -> None:
        """Make the replies of a task that are asked for."""

    async def wait(self, task: str, seconds: float, *, look_s: float) -> None:
        """Return when the replies of a task are made, or the time is over."""

    async def close(self) -> None:
        """End what is being made."""


@dataclass(kw_only=True)
class StudyParts:
    """The parts of a running service that only studies have."""

    studies: StudyStore
    invites: InviteStore
    newcomers: Newcomers
    signed_links: SignedLinks | None  # None: ids have no signatures
    desk: ParticipantDesk
    replies: ChatReplies
    participant_limits: RateLimits


def parts_of(state: ServiceState) -> StudyParts:
    """Return the parts of a service."""
    parts = state.parts[NAME]
    assert isinstance(parts, StudyParts)
    return parts
