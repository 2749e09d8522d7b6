"""Logs, and versions of artefacts."""

from __future__ import annotations

from typing import Any, Optional

from refaug_client._api.bodies import request_body, to_list
from refaug_client._api.items import ArtefactKind, Dialogues, OnError
from refaug_client._api.methods import K, Resource, route
from refaug_client._api.models.artefacts import Artefact, ArtefactVersion, Ingest, Log, Posted, Published
from refaug_client._api.models.base import Rows
from refaug_client._api.models.jobs import Job
from refaug_client._api.readers import listing, read_model
from refaug_client._http.call import Call, path


class Logs(Resource[K]):
    """Logs of dialogues."""

    @route
    def list(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[Log]]:
        """Return logs by name, with their sizes."""
        return listing("/v1/logs", Log, "logs", after=after, limit=limit)

    @route
    def get(self, name: str) -> Call[Log]:
        """Return the size of a log, and what was posted to it and waits for its next ingest."""
        return Call("GET", path("v1", "logs", name), read_model(Log))

    @route
    def ingests(self, name: str, *, after: Optional[str] = None, limit: Optional[int] = None) -> Call[Rows[Ingest]]:
        """Return how a log grew: the runs that have added to it, oldest first."""
        return listing(path("v1", "logs", name, "ingests"), Ingest, "ingests", after=after, limit=limit)

    @route
    def post(self, name: str, dialogues: Dialogues, *, on_error: Optional[OnError] = None) -> Call[Posted]:
        """Store dialogues for a log; they are in it after its next ingest, once even if they are posted twice.

        client.logs.post("chat", [{"id": "d-1", "turns": ["Where do you buy tea?", "At the market."]}])
        """
        dialogue_list = [_with_turns(dialogue) for dialogue in to_list(dialogues, "dialogues")]
        document = request_body(dialogues=dialogue_list, on_error=on_error)
        return Call("POST", path("v1", "logs", name, "dialogues"), read_model(Posted), body=document)

    @route
    def erase(self, name: str, dialogue: str) -> Call[Job]:
        """Erase a dialogue for good, from the log and everything that was made of it; return the job that does it."""
        return Call("DELETE", path("v1", "logs", name, "dialogues", dialogue), read_model(Job), keyed=True)


class Artefacts(Resource[K]):
    """Versions of every kind: indexes, in which references are found, raters, by which they are weighed, and more."""

    @route
    def list(
        self, kind: ArtefactKind, *, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[Rows[Artefact]]:
        """Return the artefacts of a kind by name."""
        return listing(path("v1", "artefacts", kind), Artefact, "artefacts", after=after, limit=limit)

    @route
    def get(self, kind: ArtefactKind, name: str) -> Call[Artefact]:
        """Return an artefact, with the details of its published version."""
        return Call("GET", path("v1", "artefacts", kind, name), read_model(Artefact))

    @route
    def versions(
        self, kind: ArtefactKind, name: str, *, after: Optional[str] = None, limit: Optional[int] = None
    ) -> Call[Rows[ArtefactVersion]]:
        """Return its versions, oldest first."""
        place = path("v1", "artefacts", kind, name, "versions")
        return listing(place, ArtefactVersion, "versions", after=after, limit=limit)

    @route
    def publish(self, kind: ArtefactKind, name: str, version: str, *, even_refused: bool = False) -> Call[Published]:
        """Publish another version under the name; one that a check refused only with `even_refused`."""
        return publish_version(kind, name, version=version, even_refused=even_refused)

    @route
    def rollback(self, kind: ArtefactKind, name: str) -> Call[Published]:
        """Publish the version that was published before again; never retried, since twice is two back."""
        return publish_version(kind, name, rollback=True)


def publish_version(
    kind: ArtefactKind,
    name: str,
    *,
    version: Optional[str] = None,
    rollback: bool = False,
    even_refused: bool = False,
) -> Call[Published]:
    """PUT …/current; not repeatable with `rollback`, which goes one version back each time."""
    document = request_body(version=version, rollback=rollback or None, even_refused=even_refused or None)
    place = path("v1", "artefacts", kind, name, "current")
    return Call("PUT", place, read_model(Published), body=document, repeatable=not rollback)


def _with_turns(dialogue: Any) -> Any:
    return {"turns": list(dialogue)} if isinstance(dialogue, (list, tuple)) else dialogue
