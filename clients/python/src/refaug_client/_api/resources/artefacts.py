"""Logs, and versions of artefacts."""

from __future__ import annotations

from typing import Optional

from refaug_client._api.bodies import Body
from refaug_client._api.items import ArtefactKind, Dialogues, OnError
from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.artefacts import Artefact, ArtefactVersion, Ingest, Log, Posted, Published
from refaug_client._api.models.base import Rows
from refaug_client._api.models.jobs import Job


def _with_turns(body: Body) -> Body:
    dialogues = [{"turns": list(one)} if isinstance(one, (list, tuple)) else one for one in body["dialogues"]]
    return {**body, "dialogues": dialogues}


class Logs(Resource[K]):
    """Logs of dialogues."""

    @route("GET", "/v1/logs", key="logs")
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[Log]:
        """Return logs by name, with their sizes."""

    @route("GET", "/v1/logs/{name}")
    def get(self, name: str) -> Log:
        """Return the size of a log, and what was posted to it and waits for its next ingest."""

    @route("GET", "/v1/logs/{name}/ingests", key="ingests")
    def ingests(self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[Ingest]:
        """Return how a log grew: the runs that have added to it, oldest first."""

    @route("POST", "/v1/logs/{name}/dialogues", prepare=_with_turns)
    def post(self, name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None) -> Posted:
        """Store dialogues for a log; they are in it after its next ingest, once even if they are posted twice.

        client.logs.post("chat", [{"id": "d-1", "turns": ["Where do you buy tea?", "At the market."]}])
        """

    @route("DELETE", "/v1/logs/{name}/dialogues/{dialogue}", keyed=True)
    def erase(self, name: str, dialogue: str) -> Job:
        """Erase a dialogue for good, from the log and everything that was made of it; return the job that does it."""


class Artefacts(Resource[K]):
    """Versions of every kind: indexes, in which references are found, raters, by which they are weighed, and more."""

    @route("GET", "/v1/artefacts/{kind}", key="artefacts")
    def list(self, kind: ArtefactKind, *, after: Optional[str] = None, limit: Optional[int] = None) -> Rows[Artefact]:
        """Return the artefacts of a kind by name."""

    @route("GET", "/v1/artefacts/{kind}/{name}")
    def get(self, kind: ArtefactKind, name: str) -> Artefact:
        """Return an artefact, with the details of its published version."""

    @route("GET", "/v1/artefacts/{kind}/{name}/versions", key="versions")
    def versions(
        self, kind: ArtefactKind, name: str, *, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Rows[ArtefactVersion]:
        """Return its versions, oldest first."""

    @route("PUT", "/v1/artefacts/{kind}/{name}/current")
    def publish(self, kind: ArtefactKind, name: str, version: str, *, even_refused: bool = False) -> Published:
        """Publish another version under the name; one that a check refused only with `even_refused`."""

    @route("PUT", "/v1/artefacts/{kind}/{name}/current", prepare=lambda _: {"rollback": True}, repeatable=False)
    def rollback(self, kind: ArtefactKind, name: str) -> Published:
        """Publish the version that was published before again; never retried, since twice is two back."""
