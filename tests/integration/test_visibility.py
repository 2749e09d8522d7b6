"""What a key sees of uploads, jobs and evaluations: its own; of another key's, no route shows that there are any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

TABLE = b"id,prompt,gold,new\n1,how are you,fine thanks,i am fine\n2,and you,so so,not bad\n"
MAPPING = ["utterance=prompt", "reference=gold", "reply:new=new"]
KEYS = {
    "ann": [Scope.READ, Scope.SCORE],
    "eve": [scope for scope in Scope if scope is not Scope.ADMIN],
    "root": [Scope.ADMIN],
}
OWNED = ("/v1/uploads/{id}", "/v1/jobs/{id}", "/v1/evaluations/{id}")
BODIES = {"PUT": {"text": "a note"}}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A service with an upload, a finished evaluation, a waiting one, and a job of the server itself."""

    client: TestClient
    tokens: Mapping[str, str]
    upload: str
    done: str
    waiting: str
    of_server: str

    def ask(self, name: str, path: str, method: str = "GET", **more: Any) -> Any:
        """The answer to the key of this name."""
        return self.client.request(method, path, headers={"X-API-Key": self.tokens[name]}, **more)

    def ids(self, name: str, listed: str, **query: str) -> list[str]:
        """The ids in a list, over all of its pages of one."""
        ids, after = list[str](), None
        while True:
            page = self.ask(name, f"/v1/{listed}", params={**query, **({"after": after} if after else {})}).json()
            ids += [row["id"] for row in page[listed]]
            if (after := page.get("next")) is None:
                return ids


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = migrated(Settings(home=tmp_path_factory.mktemp("visibility") / "home"))
    with closing(Database.open(home)) as database:
        tokens = {name: KeyStore(database).create(name, scopes)[0] for name, scopes in KEYS.items()}
    with client_of(home, ready=False, keys=True) as client:

        def sent(name: str, path: str, **body: Any) -> str:
            answer = client.post(path, headers={"X-API-Key": tokens[name]}, **body)
            assert answer.status_code in (201, 202), answer.text
            return str(answer.json()["id"])

        headers = {"Content-Type": "application/octet-stream", "X-API-Key": tokens["ann"]}
        upload = client.post("/v1/uploads?name=secret.csv", headers=headers, content=TABLE).json()["id"]
        order = {"kind": "score", "items": f"upload:{upload}", "map": MAPPING, "metrics": ["chrf"], "name": "secret"}
        done = sent("ann", "/v1/evaluations", json=order)
        assert run_worker(home, ServeSettings(), once=True) == 0
        waiting = sent("ann", "/v1/evaluations", json=order)
        of_server = sent("root", "/v1/jobs", json={"kind": "gc", "artefact": "index", "name": "chat"})
        yield Served(client=client, tokens=tokens, upload=upload, done=done, waiting=waiting, of_server=of_server)


def owned_routes(client: TestClient) -> list[tuple[str, str]]:
    """The method and path of every route below an upload, a job or an evaluation."""
    routes = [context.original_route for context in iter_route_contexts(client.app.routes)]
    return sorted(
        (method, route.path_format)
        for route in routes
        if isinstance(route, APIRoute) and route.path_format.startswith(OWNED)
        for method in route.methods
    )


def test_no_route_opens_what_is_of_another_key(served: Served) -> None:
    routes = owned_routes(served.client)
    assert {path for _, path in routes} >= {*OWNED, "/v1/jobs/{id}/events", "/v1/evaluations/{id}/download"}
    answers = dict[tuple[str, str, str], int]()
    for method, path in routes:
        for number in (served.upload, served.done, served.waiting, "0" * 26):
            address = path.format(id=number, place=0)
            query = {"with": served.done} if path.endswith("/comparison") else {}
            answer = served.ask("eve", address, method, params=query, json=BODIES.get(method))
            answers[method, path, number] = answer.status_code
            assert "secret" not in answer.text
    needs_admin = {("DELETE", "/v1/jobs/{id}"), ("POST", "/v1/jobs/{id}/retry")}
    expected = {key: 403 if key[:2] in needs_admin else 404 for key in answers}
    assert answers == expected


@pytest.mark.parametrize("query", [{}, {"state": "queued"}, {"limit": "1"}])
def test_lists_of_jobs_have_those_of_the_key_and_of_the_server(served: Served, query: Mapping[str, str]) -> None:
    ended = [served.done] if "state" not in query else []
    assert served.ids("eve", "jobs", **query) == [served.of_server]
    for name in ("ann", "root"):
        assert served.ids(name, "jobs", **query) == [served.of_server, served.waiting, *ended]


def test_lists_of_evaluations_and_uploads_have_those_of_the_key(served: Served) -> None:
    assert (served.ids("eve", "evaluations"), served.ids("eve", "uploads")) == ([], [])
    for name in ("ann", "root"):
        assert served.ids(name, "evaluations") == [served.waiting, served.done]
        assert served.ids(name, "uploads") == [served.upload]


def test_the_owner_and_an_admin_follow_and_read_what_another_key_does_not_see(served: Served) -> None:
    for name in ("ann", "root"):
        events = served.ask(name, f"/v1/jobs/{served.done}/events")
        assert (events.status_code, events.text.count("event: state")) == (200, 3)
        assert served.ask(name, f"/v1/jobs/{served.waiting}").json()["order"]["name"] == "secret"
        assert served.ask(name, f"/v1/evaluations/{served.done}/download").status_code == 200
    assert served.ask("eve", f"/v1/jobs/{served.of_server}").json()["kind"] == "gc"


def test_another_key_cannot_score_an_upload(served: Served) -> None:
    order = {"kind": "score", "items": f"upload:{served.upload}", "map": MAPPING}
    for path in ("/v1/evaluations", "/v1/uploads/preview"):
        body = {name: order[name] for name in ("items", "map")} if path.endswith("preview") else order
        answer = served.ask("eve", path, "POST", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
