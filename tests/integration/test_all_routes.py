"""What is another's, erased or withdrawn stands in no answer of any route, over one process and over three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from servers import served
from serving import client_of, migrated
from starlette.testclient import TestClient
from studying import Person, action_id, add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

TABLE = b"id,prompt,gold,new\n1,how are you,fine plumthanks,i am fine\n2,and you,so so,not bad\n"
MAPPING = ["utterance=prompt", "reference=gold", "reply:new=new"]
KEYS = {
    "ann": [Scope.READ, Scope.SCORE],
    "eve": [scope for scope in Scope if scope is not Scope.ADMIN],
    "root": [Scope.ADMIN],
}
OTHERS, GONE = "plum", "quince"  # in what is another key's, and in what was erased or withdrawn
STREAMS = "/v1/studies/{id}/events"  # it does not end
Ask = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """A home with things of a key, and others that are gone."""

    home: Settings
    tokens: Mapping[str, str]
    ids: Mapping[str, list[str]] = field(default_factory=dict)  # by the beginning of a path
    cookies: list[str] = field(default_factory=list)  # of participants who are erased or have withdrawn
    task: str = ""  # of a participant who goes on
    cookie: str = ""  # of a participant of another study


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    home = migrated(Settings(home=tmp_path_factory.mktemp("routes") / "home"))
    with closing(Database.open(home)) as database:
        tokens = {name: KeyStore(database).create(name, scopes)[0] for name, scopes in KEYS.items()}
    with client_of(home, ready=False, keys=True) as client:
        found = Secrets(home=home, tokens=tokens)
        client.headers["X-API-Key"] = tokens["root"]
        goes_on, elsewhere = _with_participants(client, found)
        found.ids["/v1/reference-sets/{id}"] = [_withdrawn_set(client)]
        _with_evaluations(client, found)
    return Secrets(**{**vars(found), "task": goes_on, "cookie": elsewhere})


def _with_participants(client: TestClient, found: Secrets) -> tuple[str, str]:
    """Of four people, of whom two are gone: the task of one who goes on, the cookie of one in another study."""
    add_bots(client, "quokka")
    token = new_study(client, "fruit", chat_protocol("quokka"))
    people = [Person(client) for _ in range(3)]
    for person, text in zip(people, (f"{GONE} one", f"{GONE} two", f"{OTHERS} three"), strict=True):
        person.enter(token)
        person.agree()
        person.done("tasks/next")
        person.say(text)
    erased, withdrawing, staying = people
    code = erased.state["code"]
    assert client.delete(f"/v1/studies/fruit/participants/{code}").status_code == 200
    withdrawing.done("withdraw")
    found.cookies.extend([erased.cookie, withdrawing.cookie])
    found.ids["/v1/studies/{id}/participants/{code}"] = [code, withdrawing.state["code"]]
    elsewhere = Person(client)
    elsewhere.enter(new_study(client, "other", chat_protocol("quokka")))
    elsewhere.agree()
    return str(staying.state["task"]["id"]), elsewhere.cookie


def _withdrawn_set(client: TestClient) -> str:
    items = [{"id": "1", "utterance": "how are you", "references": [f"fine {GONE}"]}]
    made = client.post("/v1/reference-sets", json={"items": items, "purpose": "test", "references": "given"})
    assert made.status_code in (200, 201), made.text
    assert client.delete(f"/v1/reference-sets/{made.json()['id']}?reason=test").status_code == 200
    return str(made.json()["id"])


def _with_evaluations(client: TestClient, found: Secrets) -> None:
    """A file, a finished evaluation with a note, and a waiting one, of the key `ann`."""
    headers = {"X-API-Key": found.tokens["ann"]}
    binary = {**headers, "Content-Type": "application/octet-stream"}
    upload = client.post(f"/v1/uploads?name={OTHERS}.csv", headers=binary, content=TABLE).json()["id"]
    order = {"kind": "score", "items": f"upload:{upload}", "map": MAPPING, "metrics": ["chrf"], "name": OTHERS}
    done = client.post("/v1/evaluations", headers=headers, json=order).json()["id"]
    assert run_worker(found.home, ServeSettings(), once=True) == 0
    note = client.put(f"/v1/evaluations/{done}/notes/0", headers=headers, json={"text": OTHERS})
    assert note.status_code == 200, note.text
    waiting = client.post("/v1/evaluations", headers=headers, json=order).json()["id"]
    found.ids["/v1/uploads/{id}"] = [upload]
    found.ids["/v1/evaluations/{id}"] = found.ids["/v1/jobs/{id}"] = [done, waiting]


@pytest.fixture
def client(secrets: Secrets) -> Iterator[TestClient]:
    with client_of(secrets.home, ready=False, keys=True, wrong_keys=100_000) as opened:
        yield opened


def routes(document: Mapping[str, Any], *methods: str) -> list[tuple[str, str, Any]]:
    """Method, path and an example of the body of each route."""
    found = list[tuple[str, str, Any]]()
    for path, by_method in document["paths"].items():
        for method in methods:
            if method.lower() not in by_method or path == STREAMS:
                continue
            content = by_method[method.lower()].get("requestBody", {}).get("content", {}).get("application/json", {})
            examples = [one["value"] for one in content.get("examples", {}).values()] or [content.get("example")]
            found.append((method, path, examples[0]))
    return found


def addresses(secrets: Secrets, path: str) -> Iterator[str]:
    """A path with each thing that it may be about."""
    begun = next((begin for begin in sorted(secrets.ids, key=len, reverse=True) if path.startswith(begin)), None)
    for thing in secrets.ids[begun] if begun else [""]:
        filled = path.replace("{task}", secrets.task).replace("{place}", "0").replace("{kind}", "index")
        if begun and "{code}" in begun:
            filled = filled.replace("{code}", thing).replace("{id}", "fruit")
        filled = filled.replace("{id}", thing or "fruit").replace("{code}", "P-000000").replace("{name}", "quokka")
        yield f"{filled}?with={thing}" if path.endswith("/comparison") else filled


def body_for(secrets: Secrets, example: Any) -> Any:
    """The example of a body, with the file of the other key where it names one."""
    if isinstance(example, dict) and str(example.get("items", "")).startswith("upload:"):
        return {**example, "items": f"upload:{secrets.ids['/v1/uploads/{id}'][0]}"}
    return example


def walk(secrets: Secrets, ask: Ask, *, document: Mapping[str, Any], rounds: int = 1) -> None:
    """Ask all routes as those who may not see, and look at what they answer."""
    reading = [(path, at) for _, path, _ in routes(document, "GET") for at in addresses(secrets, path)]
    assert {path for path, _ in reading} >= {*secrets.ids} - {"/v1/studies/{id}/participants/{code}"}
    for _ in range(rounds):
        for path, at in reading:
            for name in ("eve",) if path.endswith("/events") else ("eve", "root"):  # to `root` they do not end
                _require_hidden(secrets, name, f"GET {path}", ask("GET", at, key=secrets.tokens[name]))
            wrong = ask("GET", at, key=secrets.tokens["ann"][:-4] + "AAAA")
            is_open = path.startswith(("/v1/take", "/docs", "/pages", "/problems")) or not path.startswith("/v1")
            assert wrong.status_code in ((200, 304, 404, 401) if is_open else (401,)), (path, wrong.text)
            assert not any(secret in wrong.text for secret in (OTHERS, GONE)), path
        for cookie in (*secrets.cookies, secrets.cookie):
            for method, path, example in routes(document, "GET", "POST"):
                if path.startswith("/v1/take/"):
                    answer = ask(method, next(addresses(secrets, path)), cookie=cookie, json=example)
                    assert not any(secret in answer.text for secret in (OTHERS, GONE)), (method, path)
                    if cookie == secrets.cookies[0] and path != "/v1/take/session":  # the one who is erased
                        assert answer.status_code in (401, 422), (method, path, answer.text)
                    elif cookie == secrets.cookie and "{task}" in path:
                        assert answer.status_code in (404, 422), (method, path, answer.text)


def walk_changes(secrets: Secrets, ask: Ask, document: Mapping[str, Any]) -> None:
    """Ask all routes that change something, and look that what is another's is still there."""
    for method, path, example in routes(document, "POST", "PUT", "DELETE"):
        if not path.startswith("/v1/take/"):
            for at in addresses(secrets, path):
                answer = ask(method, at, key=secrets.tokens["eve"], json=body_for(secrets, example))
                _require_hidden(secrets, "eve", f"{method} {path}", answer)
                if path.startswith(("/v1/uploads/{", "/v1/evaluations/{", "/v1/jobs/{")):
                    assert answer.status_code in (403, 404), (method, path, answer.text)
    for begin in ("/v1/uploads/{id}", "/v1/evaluations/{id}"):
        for thing in secrets.ids[begin]:
            assert OTHERS in ask("GET", begin.format(id=thing), key=secrets.tokens["ann"]).text


def _require_hidden(secrets: Secrets, name: str, what: str, answer: Any) -> None:
    assert answer.status_code < 500, (what, answer.text)
    assert GONE not in answer.text, what
    shows_studies = what.partition(" ")[2].startswith("/v1/studies/{id}")  # who may read one reads its texts
    assert name == "root" or shows_studies or OTHERS not in answer.text, what


def asking(client: Any) -> Ask:
    def ask(method: str, path: str, *, key: str | None = None, cookie: str | None = None, json: Any = None) -> Any:
        headers = {"X-Action": action_id()}
        headers |= {"X-API-Key": key} if key else {}
        headers |= {"Cookie": f"refaug_take={cookie}"} if cookie else {}
        more = {"json": json} if json is not None else {}
        return client.request(method, path, headers=headers, **more)

    return ask


def test_no_route_shows_what_is_of_another_key_or_study_erased_or_withdrawn(
    secrets: Secrets, client: TestClient
) -> None:
    walk(secrets, asking(client), document=client.get("/openapi.json").json())


@pytest.mark.slow
def test_over_three_processes_no_route_shows_it_either(secrets: Secrets) -> None:
    with served(secrets.home.home, "--workers", "3", "--keys", "--no-job-worker", "--wrong-keys", "100000") as service:
        document = service.ask("GET", "/openapi.json").json()
        walk(secrets, asking(service.client), document=document, rounds=3)


def test_no_request_changes_what_is_of_another_key(secrets: Secrets, client: TestClient) -> None:
    walk_changes(secrets, asking(client), client.get("/openapi.json").json())
