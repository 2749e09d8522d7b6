"""What studies add to the application: routes, and parts that live as long as it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from refaug.extras.studies.participation.invites import InviteStore, Newcomers
from refaug.extras.studies.participation.participant_desk import ParticipantDesk
from refaug.extras.studies.participation.signed_links import signed_links
from refaug.extras.studies.participation.study_figures import prometheus_gauges
from refaug.extras.studies.participation.study_store import StudyStore
from refaug.extras.studies.routes.participants import participant_tasks, sessions
from refaug.extras.studies.routes.participants.participant_tasks import ReplyMaker
from refaug.extras.studies.routes.parts import StudyParts
from refaug.extras.studies.routes.studies import (
    participants,
    study_figures,
    study_judging,
    study_protocols,
    study_responses,
)
from refaug.service.database.row_ids import RowHolders
from refaug.service.keys import RateLimits
from refaug.service.web.state import AddedRoutes, ServiceState


@asynccontextmanager
async def running_parts(state: ServiceState) -> AsyncIterator[StudyParts]:
    """Yield the parts of studies; replies that are being made when it ends are asked for again after the next start."""
    serve = state.serve
    with RowHolders(state.home).hold() as holder:
        parts = StudyParts(
            studies=StudyStore(state.database, state.bots),
            invites=InviteStore(state.database),
            newcomers=Newcomers(serve.newcomers, workers=serve.workers),
            signed_links=signed_links(serve.recruiter_keys, serve.recruiter_audience),
            desk=ParticipantDesk(state.database, holder),
            replies=ReplyMaker(state, holder),
            participant_limits=RateLimits(workers=serve.workers),
        )
        try:
            yield parts
        finally:
            await parts.replies.close()


ADDED: Final = AddedRoutes(
    routers=[
        module.router
        for module in (
            study_judging,
            study_protocols,
            participants,
            study_figures,
            study_responses,
            sessions,
            participant_tasks,
        )
    ],
    tags=[
        {"name": "studies", "description": "Studies with people: protocols, invitations, participants, figures."},
        {"name": "take", "description": "What the pages of participants request; a session stands in for a key."},
    ],
    running=running_parts,
    figures=lambda state: prometheus_gauges(state.database),
)
