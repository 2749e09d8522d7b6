"""Every operation of the OpenAPI document under requests that nobody would think of: right ones, and wrong in all ways.

Whatever comes, the answer is one that the document promises: its status, its type, its schema; and never our own fault.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from serving import listening, wait_until_ready
from studying import Person, add_bots, chat_protocol, new_study

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

pytestmark = pytest.mark.slow


def never_our_fault(_context: object, response: schemathesis.Response, _case: schemathesis.Case) -> None:
    """No answer says that something broke; only that a time which the request itself had set has run out."""
    if response.status_code >= 500:
        assert (response.status_code, response.json()["code"]) == (503, "expired"), response.text
        assert int(response.headers["retry-after"][0]) >= 1


def no_other_method(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """A method that an operation lacks is 405, but where its address is one of another operation with that method."""
    if case.path not in OTHERS_ADDRESSES:
        unsupported_method(context, response, case)


CHECKS = [
    never_our_fault,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    no_other_method,
]
EXAMPLES = 3  # of each operation; the same in every run, so that more of them find little more
BOTS = ("quokka", "wombat")


@pytest.fixture(scope="module")
def address(with_all: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real app behind a real server, over a home with a log, an index and a rater."""
    folder = tmp_path_factory.mktemp("fuzzed") / "home"
    shutil.copytree(with_all, folder)
    home = Settings(home=folder)
    database = Database.open(home)
    database.migrate()
    database.close()
    app = create_app(home, ServeSettings(publish_wait_s=0.5, timeout_s=20, shutdown_s=2, streams=4))
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2)
    with listening(uvicorn.Server(config)) as port:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
            wait_until_ready(client)
            add_bots(client, *BOTS)
        yield f"http://127.0.0.1:{port}"


@dataclass(frozen=True)
class Known:
    """A study that is there, with a participant in the middle of a chat: what generated requests can be about."""

    parts: dict[str, str]  # of addresses
    cookie: str

    def meet(self, case: schemathesis.Case) -> None:
        """Let a request be about them."""
        if case.path.startswith("/v1/take/"):
            case.headers = {**(case.headers or {}), "Cookie": f"refaug_take={self.cookie}"}
        case.path_parameters = {name: self.parts[name] for name in case.path_parameters or {}}


NUMBERS = itertools.count(1)


@pytest.fixture
def known(address: str) -> Iterator[Known]:
    """A study for one operation, which may end it."""
    name = f"fuzzed-{next(NUMBERS)}"
    with httpx2.Client(base_url=address, timeout=60) as client:
        token = new_study(client, name, chat_protocol(*BOTS))
        person = Person(client)
        person.enter(token)
        person.agree()
        person.done("tasks/next")
        person.say("hello")
        (invite,) = client.get(f"/v1/studies/{name}/invites").json()["invites"]
        task, code = person.state["task"]["id"], person.state["code"]
        yield Known(parts={"id": name, "invite": invite["id"], "code": code, "task": task}, cookie=person.cookie)


# The orders of jobs make thousands of cases, whose fields other routes have: each fourth; `make faults` sends all.
JOBS, OF_JOBS, EACH = "/v1/jobs", itertools.count(), int(os.environ.get("REFAUG_EACH_CASE", "4"))
document = create_app(Settings(), ServeSettings()).openapi()
# a schedule has the order of a job, which is looked at there
document["components"]["schemas"]["ScheduleIn"]["properties"]["order"] = {"$ref": "#/components/schemas/RemoveVersions"}
schema = schemathesis.openapi.from_dict(document)
OTHERS_ADDRESSES = {
    address
    for address in document["paths"]
    for other in document["paths"]
    if address != other and "{" not in address and re.fullmatch(re.sub(r"[{]\w+[}]", "[^/]+", other), address)
}


generated = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schema.parametrize()
@generated
def test_whatever_comes_the_answer_is_as_the_document_says(case: schemathesis.Case, address: str) -> None:
    if case.path != JOBS or next(OF_JOBS) % EACH == 0:
        case.call_and_validate(base_url=address, checks=CHECKS, timeout=60)


@schema.include(path_regex="^/v1/(take|studies/[{]id[}])").exclude(path_regex="/events$").parametrize()
@generated
def test_of_a_study_that_is_there_every_answer_is_as_the_document_says(
    case: schemathesis.Case, address: str, known: Known
) -> None:
    known.meet(case)
    case.call_and_validate(base_url=address, checks=CHECKS, timeout=60)
