"""Who a participant is to the server: the cookie of a session, and the id of an action.

The cookie is sent only by pages of this server (`SameSite=Strict`) and only to these routes; a form of another site
can send neither the header of an action nor JSON. Requests of a participant have a limit as those of a key.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import Header, Request

from refaug.core.errors import NotAllowed
from refaug.service.keys import Key
from refaug.service.studies.action_log import ACTION_ID, ParticipantAction
from refaug.service.studies.admission.invites import SESSION_DAYS
from refaug.service.web.handling import database_threads
from refaug.service.web.state import ServiceState, state_of

COOKIE: Final = "refaug_take"
PATH: Final = "/v1/take"
_REQUESTS_A_SECOND: Final = 100.0
INVITATIONS_A_SECOND: Final = 200.0  # of all who come

ActionId = Annotated[
    str,
    Header(
        alias="X-Action",
        description="An id that the page draws for this action. Sent again with the same body, it gets the same "
        "answer; with another body it is 409 `conflict`.",
        pattern=f"^{ACTION_ID.pattern}$",
    ),
]


async def participant_of(request: Request) -> str:
    """Return the participant of a request; NoKey where its browser has no session, TooMany where it asks too often.

    The row of the session is looked at each time: what any process has ended is over with the next request to all.
    """
    state, cookie = state_of(request), request.cookies.get(COOKIE)
    participant = await database_threads.run_query(lambda: state.invites.participant_of(cookie))
    limit_requests(state, f"participant {participant}")
    return participant


def limit_requests(state: ServiceState, sender: str, rate_per_s: float = _REQUESTS_A_SECOND) -> None:
    """Count a request of a participant, or of all who open invitations; TooMany for too many in a second."""
    rate = rate_per_s * state.serve.workers
    state.participant_limits.take(Key(id=sender, name=sender.partition(" ")[0], scopes=frozenset(), rate_per_s=rate))


def action_of(request: Request, action: str, kind: str, body: bytes, task: str | None = None) -> ParticipantAction:
    """Return the action of a request; NotAllowed where a page of another site has sent it."""
    require_same_site(request)
    return ParticipantAction(id=action, kind=kind, task=task, body=body)


def require_same_site(request: Request) -> None:
    """Raise NotAllowed for a request that a page of another site makes an old browser send; the gate sees new ones."""
    origin = request.headers.get("origin")
    if origin is None or "sec-fetch-site" in request.headers:
        return
    if urlsplit(origin).netloc != request.headers.get("host", ""):
        raise NotAllowed("a page of another site has sent this", remedy="open the link of the invitation")


def session_cookie(request: Request, secret: str) -> dict[str, Any]:
    """Return the arguments of `Response.set_cookie` for a session."""
    return {
        "key": COOKIE,
        "value": secret,
        "max_age": SESSION_DAYS * 86_400,
        "path": f"{request.scope.get('root_path', '')}{PATH}",
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }
