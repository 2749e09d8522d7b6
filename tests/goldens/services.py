"""The calls of routes, jobs and the client, over a service in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldens.golden_home import unpacked
from goldens.normal import Normaliser
from goldens.tables import filled_in, parsed, table, with_files

if TYPE_CHECKING:
    import httpx
    from starlette.testclient import TestClient


@contextmanager
def served(home: Path, *, keys: bool = False) -> Iterator[TestClient]:
    """Serve a home, in this process, to a client that may do everything, with a key where keys are required."""
    from serving import client_of, migrated  # noqa: PLC0415

    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.service.database.database import Database  # noqa: PLC0415
    from refaug.service.keys import KeyStore  # noqa: PLC0415
    from refaug.service.scopes import Scope  # noqa: PLC0415

    settings, headers = migrated(Settings(home=home)), {"X-Request-Id": "golden"}
    if keys:
        with closing(Database.open(settings)) as database:
            token, _ = KeyStore(database).create("operator", [Scope.ADMIN])
        headers["Authorization"] = f"Bearer {token}"
    with client_of(settings, ready=not keys, keys=keys, headers=headers) as client:
        yield client


def _work(home: Path) -> None:
    """Do the jobs that wait."""
    from serving import migrated  # noqa: PLC0415

    from refaug.core.home import Settings  # noqa: PLC0415
    from refaug.service.jobs.worker import run_worker  # noqa: PLC0415
    from refaug.service.server_settings import ServeSettings  # noqa: PLC0415

    run_worker(migrated(Settings(home=home)), ServeSettings(), once=True)


# ── routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def http_answers(name: str) -> dict[str, Any]:
    """Make the requests of a table: `ID  METHOD PATH [BODY]`, where `$FILE` in a body is what a file holds."""
    printed: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    with unpacked() as folder:
        normal = Normaliser(folder)
        assert normal.known
        with served(folder / "home") as client:
            for call, spelling in table("http", name):
                method, _, rest = filled_in(spelling, printed).partition(" ")
                path, _, body = rest.partition(" ")
                response = client.request(method, path, json=json.loads(with_files(body)) if body else None)
                printed[call] = parsed(response.text)
                answers[call] = normal({"status": response.status_code, "answer": _without_wording(printed[call])})
    return answers


def _without_wording(answer: Any) -> Any:
    """Return an answer; of a problem, its code and the places of its errors."""
    if isinstance(answer, dict) and {"code", "detail", "status"} <= answer.keys():
        places = [error.get("place", error.get("field")) for error in answer.get("errors", ())]
        return {"code": answer["code"], "errors": places}
    return answer


def walk_answers() -> dict[str, Any]:
    """Make the requests of tests/api_answers.py, one to every route, over the home that they are made for."""
    import tempfile  # noqa: PLC0415

    from api_answers import answering, answers  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as path, answering(Path(path)) as client:
        normal = Normaliser(Path(path) / "inputs")  # there is none: all ids and times belong to this run
        asked = answers(client, keeps_all=True)
        asked["get_figures"]["answer"] = "figures"  # they count what the process has done so far
        asked["list_figures"]["answer"] = sorted(asked["list_figures"]["answer"])  # so do these, and measure a disk
        return {name: normal({"status": call["status"], "answer": call.get("answer")}) for name, call in asked.items()}


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def job_answers(name: str) -> dict[str, Any]:
    """Run the jobs of a table: `ID  ORDER`; files are named from home/inbox, where all files of calls lie."""
    answers: dict[str, Any] = {}
    with unpacked() as folder:
        normal = Normaliser(folder)
        assert normal.known
        _fill_inbox(folder)
        with served(folder / "home") as client:
            for call, spelling in table("jobs", name):
                started = client.post("/v1/jobs", json=json.loads(spelling))
                answer: dict[str, Any] = {"status": started.status_code}
                if started.status_code < 300:
                    _work(folder / "home")
                    answer |= _job_outcome(client, started.json()["id"])
                else:
                    answer["answer"] = _without_wording(started.json())
                answers[call] = normal(answer)
    return answers


def _fill_inbox(folder: Path) -> None:
    inbox = folder / "home" / "inbox"
    inbox.mkdir(exist_ok=True)
    for path in (*folder.glob("*.jsonl"), *folder.glob("*.csv")):
        shutil.copy(path, inbox)


def _job_outcome(client: TestClient, job: str) -> dict[str, Any]:
    """Return how a job ended, and the evaluation that it stored."""
    ended = client.get(f"/v1/jobs/{job}").json()
    outcome = {name: ended.get(name) for name in ("kind", "state", "resources", "result")}
    error = ended.get("error") or {}
    outcome["code"] = error.get("code")
    evaluation = client.get(f"/v1/evaluations/{job}")
    if evaluation.status_code == 200:
        outcome["evaluation"] = evaluation.json()
    return outcome


# ── the client ────────────────────────────────────────────────────────────────────────────────────────────────────────


def client_answers(name: str) -> dict[str, Any]:
    """Evaluate the expressions of a table with `client`, and `work()` for the worker that a server has beside it."""
    from refaug_client import Client, RefaugError  # noqa: PLC0415

    answers: dict[str, Any] = {}
    with unpacked() as folder:
        normal = Normaliser(folder)
        assert normal.known
        serving = served(folder / "home", keys=name == "keys")
        with serving as server, closing(Client("http://testserver", http=_http(server))) as client:
            names = _Names(client=client, folder=folder)
            for call, spelling in table("client", name):
                try:
                    outcome = names.evaluate(call, spelling)
                except RefaugError as error:
                    outcome = {"error": type(error).__name__, "code": getattr(error, "code", None)}
                answers[call] = normal(plain(outcome))
    return answers


@dataclass
class _Names:
    """What expressions may name: the client, earlier answers by their ids, and files as their items."""

    client: Any
    folder: Path
    earlier: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, call: str, expression: str) -> Any:
        names = {"client": self.client, "earlier": self.earlier, "items": items_of, "work": self.work, "Path": Path}
        outcome = eval(expression, names)
        if hasattr(outcome, "__next__"):
            outcome = list(outcome)
        self.earlier[call] = outcome
        return outcome

    def work(self) -> None:
        """Do the jobs that wait."""
        _work(self.folder / "home")


def items_of(file: str) -> list[dict[str, Any]]:
    """Return the items of a file."""
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def _http(server: TestClient) -> httpx.Client:
    """Return an httpx client whose requests the service in this process answers."""
    import httpx  # noqa: PLC0415

    def send(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        headers = {name: text for name, text in request.headers.items() if name != "host"}
        answer = server.request(request.method, path, content=request.read(), headers=headers)
        kept = [
            (name, text) for name, text in answer.headers.items() if name not in ("content-encoding", "content-length")
        ]
        return httpx.Response(answer.status_code, headers=kept, content=answer.content, request=request)

    return httpx.Client(transport=httpx.MockTransport(send), base_url="http://testserver")


def plain(outcome: Any) -> Any:
    """Return a result of a library as JSON has it."""
    if isinstance(outcome, Path):
        return parsed(outcome.read_text("utf-8", "replace")) if outcome.suffix != ".zst" else outcome.name
    if isinstance(outcome, Mapping):
        return {str(name): plain(inner) for name, inner in outcome.items()}
    for method in ("to_dict", "to_dicts"):
        if hasattr(outcome, method):
            return plain(getattr(outcome, method)())
    if is_dataclass(outcome):
        return {one.name: plain(getattr(outcome, one.name)) for one in fields(outcome)}
    if isinstance(outcome, list | tuple | set | frozenset):
        return [plain(inner) for inner in outcome]
    if isinstance(outcome, bytes):
        return parsed(outcome.decode("utf-8", "replace"))
    if hasattr(outcome, "tolist"):
        return outcome.tolist()
    return outcome if isinstance(outcome, str | int | float | bool | None) else str(outcome)
