"""Which key opens which route: without one nothing, with one of another scope nothing either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

JOB = "0" * 26
SET = "0" * 16
ROUTES: list[tuple[Scope, str, str, Any]] = [
    (Scope.READ, "GET", "/v1/reference-sets", None),
    (Scope.READ, "GET", f"/v1/reference-sets/{SET}", None),
    (Scope.READ, "GET", f"/v1/reference-sets/{SET}/download", None),
    (Scope.SCORE, "POST", f"/v1/reference-sets/{SET}/scores", {"replies": {"a": ["x"]}}),
    (Scope.WRITE, "POST", "/v1/reference-sets", {"items": [{}], "purpose": "test", "references": "given"}),
    (Scope.WRITE, "POST", f"/v1/reference-sets/{SET}/derive", {"k": 1}),
    (Scope.ADMIN, "DELETE", f"/v1/reference-sets/{SET}?reason=x", None),
    (Scope.READ, "GET", "/v1/logs", None),
    (Scope.READ, "GET", "/v1/logs/chat", None),
    (Scope.READ, "GET", "/v1/logs/chat/ingests", None),
    (Scope.WRITE, "POST", "/v1/logs/chat/dialogues", {"dialogues": [{"turns": ["hello you", "hello me"]}]}),
    (Scope.ADMIN, "DELETE", "/v1/logs/chat/dialogues/d1", None),
    (Scope.READ, "GET", "/v1/jobs", None),
    (Scope.READ, "GET", f"/v1/jobs/{JOB}", None),
    (Scope.READ, "GET", f"/v1/jobs/{JOB}/events", None),
    (Scope.ADMIN, "POST", "/v1/jobs", {"kind": "gc", "artefact": "index", "name": "chat"}),
    (Scope.ADMIN, "DELETE", f"/v1/jobs/{JOB}", None),
    (Scope.ADMIN, "POST", f"/v1/jobs/{JOB}/retry", None),
    (Scope.SCORE, "POST", "/v1/uploads?name=a", {}),
    (Scope.SCORE, "GET", "/v1/uploads", None),
    (Scope.SCORE, "GET", f"/v1/uploads/{JOB}", None),
    (Scope.SCORE, "GET", f"/v1/uploads/{JOB}/content", None),
    (Scope.SCORE, "DELETE", f"/v1/uploads/{JOB}", None),
    (Scope.SCORE, "POST", "/v1/uploads/preview", {"items": f"upload:{JOB}"}),
    (Scope.SCORE, "POST", "/v1/evaluations", {"kind": "score", "items": f"upload:{JOB}"}),
    (Scope.SCORE, "GET", "/v1/evaluations", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}", None),
    (Scope.SCORE, "DELETE", f"/v1/evaluations/{JOB}", None),
    (Scope.SCORE, "POST", f"/v1/evaluations/{JOB}/cancel", None),
    (Scope.SCORE, "POST", f"/v1/evaluations/{JOB}/retry", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/replies", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/replies/0", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/points", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/download", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/comparison?with={JOB}", None),
    (Scope.SCORE, "GET", f"/v1/evaluations/{JOB}/notes", None),
    (Scope.SCORE, "PUT", f"/v1/evaluations/{JOB}/notes/0", {"text": "x"}),
    (Scope.READ, "GET", "/v1/schedules", None),
    (Scope.READ, "GET", "/v1/schedules/night", None),
    (Scope.ADMIN, "PUT", "/v1/schedules/night", {"cron": "0 0 * * *", "order": {"kind": "index-update", "index": "a"}}),
    (Scope.ADMIN, "DELETE", "/v1/schedules/night", None),
    (Scope.READ, "GET", "/v1/artefacts/index", None),
    (Scope.READ, "GET", "/v1/artefacts/index/chat", None),
    (Scope.READ, "GET", "/v1/artefacts/index/chat/versions", None),
    (Scope.ADMIN, "PUT", "/v1/artefacts/index/chat/current", {"rollback": True}),
    (Scope.SCORE, "POST", "/v1/references", {"items": [{}]}),
    (Scope.SCORE, "POST", "/v1/replies", {"items": [{}], "bots": {"a": "retrieval:chat"}}),
    (Scope.SCORE, "POST", "/v1/scores", {"items": [{}]}),
    (Scope.SCORE, "POST", "/v1/scores/combine", {"batches": [{}]}),
    (Scope.SCORE, "POST", "/v1/verifications", {"scores": {}, "items": [{}]}),
    (Scope.SCORE, "POST", "/v1/ratings", {"pairs": [{}]}),
    (Scope.READ, "GET", "/v1/bots", None),
    (Scope.READ, "GET", "/v1/bot-use", None),
    (Scope.READ, "GET", "/v1/bots/mine", None),
    (Scope.ADMIN, "PUT", "/v1/bots/mine", {"specification": {"kind": "replay", "replies": ["a"]}}),
    (Scope.SCORE, "POST", "/v1/bots/mine/replies", {"dialogues": [{"turns": ["a"]}]}),
    (Scope.ADMIN, "DELETE", "/v1/bots/mine", None),
    (Scope.SCORE, "POST", "/v1/hybrids/talks/scores", {"self_play": "both"}),
    (Scope.STUDY, "GET", "/v1/studies", None),
    (Scope.STUDY, "POST", "/v1/studies", {"name": "s", "protocol": {}}),
    (Scope.STUDY, "GET", "/v1/studies/s", None),
    (Scope.STUDY, "PUT", "/v1/studies/s/protocol", {"protocol": {}}),
    (Scope.STUDY, "DELETE", "/v1/studies/s", None),
    (Scope.STUDY, "POST", "/v1/studies/s/dialogues", {"items": [{}]}),
    (Scope.STUDY, "POST", "/v1/studies/s/pilot", None),
    (Scope.STUDY, "POST", "/v1/studies/s/open", None),
    (Scope.STUDY, "POST", "/v1/studies/s/pause", None),
    (Scope.STUDY, "POST", "/v1/studies/s/close", None),
    (Scope.STUDY, "GET", "/v1/studies/s/preview", None),
    (Scope.STUDY, "POST", "/v1/studies/s/invites", {}),
    (Scope.STUDY, "GET", "/v1/studies/s/invites", None),
    (Scope.STUDY, "DELETE", f"/v1/studies/s/invites/{JOB}", None),
    (Scope.STUDY, "GET", "/v1/studies/s/participants", None),
    (Scope.STUDY, "GET", "/v1/studies/s/participants/P-000000", None),
    (Scope.STUDY, "PUT", "/v1/studies/s/participants/P-000000/exclusion", {"reason": None}),
    (Scope.STUDY, "POST", "/v1/studies/s/participants/P-000000/resume-link", None),
    (Scope.STUDY, "DELETE", "/v1/studies/s/participants/P-000000", None),
    (Scope.STUDY, "GET", "/v1/studies/s/responses", None),
    (Scope.STUDY, "POST", "/v1/studies/s/recruits", {"ids": ["a"]}),
    (Scope.STUDY, "GET", "/v1/studies/s/progress", None),
    (Scope.STUDY, "GET", "/v1/studies/s/events", None),
    (Scope.STUDY, "GET", "/v1/studies/s/export", None),
    (Scope.STUDY, "POST", "/v1/studies/power", {"difference": 1}),
    (Scope.STUDY, "GET", "/v1/studies/s/report", None),
    (Scope.STUDY, "GET", "/v1/studies/s/agreement", None),
    (Scope.STUDY, "GET", "/v1/studies/s/disagreements", None),
    (Scope.STUDY, "PUT", "/v1/studies/s/adjudications", {"item": "a", "question": "b", "value": 1}),
    (Scope.ADMIN, "GET", "/v1/keys", None),
    (Scope.ADMIN, "POST", "/v1/keys", {"name": "admin", "scopes": ["read"]}),
    (Scope.ADMIN, "DELETE", "/v1/keys/aaaaaaaaaaaa", None),
    (Scope.ADMIN, "GET", "/v1/audit", None),
    (Scope.READ, "GET", "/v1/metrics", None),
    (Scope.READ, "GET", "/v1/figures", None),
    (Scope.READ, "GET", "/metrics", None),
]
READING = {
    (method, path): Scope.STUDY_READ for scope, method, path, _ in ROUTES if scope is Scope.STUDY and method == "GET"
}
READING |= {("POST", "/v1/studies/power"): Scope.STUDY_READ}
OTHER_SCOPES = {("GET", f"/v1/{path}"): Scope.STUDY for path in ("bots", "bot-use", "bots/mine")} | READING  # beside
ANY_KEY = {"/v1/key"}
PAGES = {"/", "/evaluate", "/bots", "/studies", "/service", "/keys", "/docs", "/take", "/pages/{digest}/{name}"}
# A session that an invitation opens stands for a key; test_take_part.py asks these without one.
TAKE = {f"/v1/take/{name}" for name in ("session", "state", "consent", "training", "undo", "withdraw", "export")} | {
    f"/v1/take/tasks/{name}"
    for name in ("next", *(f"{{task}}/{act}" for act in ("messages", "retry", "votes", "answers", "finish", "skip")))
}
OPEN = {"/openapi.json", "/problems/{code}", "/healthz", "/readyz"}


@pytest.fixture(scope="module")
def tokens_and_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[Scope, str], TestClient]]:
    home = migrated(Settings(home=_made(tmp_path_factory.mktemp("scopes") / "home")))
    database = Database.open(home)
    tokens = {scope: str(KeyStore(database).create(scope.value, [scope])[0]) for scope in Scope}
    database.close()
    with client_of(home, ready=False, keys=True) as client:
        yield tokens, client


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("scope", "method", "path", "body"), ROUTES, ids=lambda value: str(value)[:40])
def test_a_route_is_open_to_keys_of_its_scope_alone(
    tokens_and_client: tuple[dict[Scope, str], TestClient], scope: Scope, method: str, path: str, body: Any
) -> None:
    tokens, client = tokens_and_client
    without = client.request(method, path, json=body)
    assert (without.status_code, without.json()["code"]) == (401, "no_key")
    for held, token in tokens.items():
        answer = client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
        is_open = held in (scope, Scope.ADMIN, OTHER_SCOPES.get((method, path)))
        assert (answer.status_code not in (401, 403)) == is_open, (held, answer.text)
        if not is_open:
            assert (answer.json()["code"], answer.json()["scope"]) == ("not_allowed", scope)


def test_every_route_is_in_the_table_or_open_to_all_on_purpose() -> None:
    routes = [
        (method, route.path_regex, route.path_format)
        for context in iter_route_contexts(create_app(Settings(), ServeSettings()).routes)
        if isinstance(route := context.original_route, APIRoute)
        for method in route.methods
    ]
    asked = [(method, path.partition("?")[0]) for _, method, path, _ in ROUTES]
    lacking = {
        path
        for method, pattern, path in routes
        if not any(method == one and pattern.match(address) for one, address in asked)
    }
    assert lacking == OPEN | PAGES | ANY_KEY | TAKE


def test_any_key_learns_what_it_allows(tokens_and_client: tuple[dict[Scope, str], TestClient]) -> None:
    tokens, client = tokens_and_client
    assert client.get("/v1/key").json()["code"] == "no_key"
    for scope, token in tokens.items():
        own = client.get("/v1/key", headers={"X-API-Key": token}).json()
        assert (own["required"], own["name"], own["scopes"]) == (True, scope.value, [scope.value])


def test_jobs_say_who_asked_for_them_and_keys_of_callers_do_not_meet(
    tokens_and_client: tuple[dict[Scope, str], TestClient],
) -> None:
    tokens, client = tokens_and_client
    order = {"kind": "gc", "artefact": "rater", "name": "any"}
    headers = {"X-API-Key": tokens[Scope.ADMIN], "Idempotency-Key": "same"}
    job = client.post("/v1/jobs", json=order, headers=headers).json()
    assert job["requested_by"] == "admin"
    given = {
        "items": [{"id": "i", "references": ["a b c"]}],
        "purpose": "test",
        "references": "given",
    }
    made = [
        client.post("/v1/reference-sets", json=given, headers={"X-API-Key": tokens[scope], "Idempotency-Key": "same"})
        for scope in (Scope.WRITE, Scope.ADMIN, Scope.WRITE)
    ]
    assert [one.status_code for one in made] == [201, 200, 201]
    assert [one.headers.get("idempotent-replayed") for one in made] == [None, None, "true"]
