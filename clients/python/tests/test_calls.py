"""The client beside the server's own OpenAPI document: no route, parameter, field or answer that it does not know."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
from refusals import refusing

from refaug_client import Client, Usage
from refaug_client._api import items, retrieval
from refaug_client._api.methods import Resource
from refaug_client._api.models.artefacts import Artefact, ArtefactVersion, Ingest, Log, Posted, Published
from refaug_client._api.models.base import Model, Rows
from refaug_client._api.models.evaluations import (
    Evaluation,
    EvaluationComparison,
    FilePreview,
    FullReply,
    ReplyNote,
    ScoredReplies,
    ScorePoints,
    Upload,
    UploadList,
)
from refaug_client._api.models.jobs import Job, Schedule
from refaug_client._api.models.references import Ratings, ReferencedItem, References
from refaug_client._api.models.replies import BotReplies, BotUses, DialogueReplies, HybridScores, PutBot, StoredBot
from refaug_client._api.models.scores import MetricInfo, Scores, Verification
from refaug_client._api.models.server import AuditEntry, Health, Key, NewKey, OwnKey, ProblemCode, Ready, ServerFigures
from refaug_client._api.models.sets import FrozenSet, ListedSet, ReferenceSet, Withdrawal
from refaug_client._api.models.studies import (
    AddedItems,
    Adjudication,
    Disagreement,
    ListedStudy,
    NewStudyInvite,
    ParticipantExclusion,
    ParticipantTasks,
    QuestionAgreement,
    ResumeLink,
    Study,
    StudyInvite,
    StudyParticipant,
    StudyPower,
    StudyPreview,
    StudyProgress,
    StudyRecruit,
    StudyReport,
    StudyResponses,
)
from refaug_client._api.resources.access import Audit, Keys
from refaug_client._api.resources.artefacts import Artefacts, Logs
from refaug_client._api.resources.bots import Bots
from refaug_client._api.resources.evaluations import Evaluations, Uploads
from refaug_client._api.resources.jobs import Jobs, Schedules
from refaug_client._api.resources.sets import Sets
from refaug_client._api.resources.studies import Studies
from refaug_client._http.call import Answer, Call
from refaug_client._http.settings import ConnectionSettings
from refaug_client._jobs.following import follow_job
from refaug_client._threads import finish

ITEM = {"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}
PAGED = {"after": "x", "limit": 3}
DRAWN = {"draws": 10, "confidence": 0.9, "seed": 2, "baseline": "a"}


class Sent(Exception):
    """What a method sends first."""


class Unconnected:
    """The wire of a client that sends nothing."""

    blocks, settings = True, ConnectionSettings()
    finish = staticmethod(finish)

    async def send(self, call: Call[Any]) -> None:
        raise Sent(call)

    def stream(self, call: Call[Any]) -> None:
        raise Sent(call)


def first_call(method: Callable[..., Any], *given: Any, **named: Any) -> Call[Any]:
    """The call that a method sends first, where it sends several or writes the answer to a file."""
    with pytest.raises(Sent) as sent:
        method(Resource(Unconnected()), *given, **named)
    call: Call[Any] = sent.value.args[0]
    return call


# Every route with everything that can be said to it, and what its answer is read as.
PEOPLE = [{"item": "d1", "reference": "At the market.", "weight": 0.5}]
ROUTES: dict[str, tuple[Call[Any], Any]] = {
    "POST /v1/references": (
        Client.references.call(
            [ITEM], index="chat", rater="base", settings={"k": 2, "show_excluded": 9}, on_error="report"
        ),
        References,
    ),
    "POST /v1/replies": (
        Client.replies.call([ITEM], {"c": "retrieval:chat"}, replace=True, without_reply="skip", on_error="report"),
        BotReplies,
    ),
    "POST /v1/scores": (
        Client.score.call(
            [ITEM],
            metrics=["bleu"],
            references="find",
            index="chat",
            rater="base",
            settings={"k": 2},
            explain=True,
            percent=True,
            require_passport=True,
            language="en",
            on_error="report",
            return_="stats",
            **DRAWN,
        ),
        Scores,
    ),
    "POST /v1/verifications": (Client.verify.call({"scores": []}, [ITEM]), Verification),
    "POST /v1/scores/combine": (Client.combine.call([{}], **DRAWN, on_error="report"), Scores),
    "POST /v1/ratings": (
        Client.rate.call(
            [{"utterance": "a", "golds": ["b"], "candidates": ["c"]}], rater="base", combine="mean", calibrated=True
        ),
        Ratings,
    ),
    "GET /v1/metrics": (Client.metrics.call(), {"metrics": MetricInfo}),
    "POST /v1/reference-sets": (
        first_call(
            Sets.freeze,
            [ITEM],
            purpose="test",
            references="find",
            index="chat",
            rater="base",
            settings={},
            on_error="fail",
        ),
        FrozenSet,
    ),
    "GET /v1/reference-sets": (Sets.list.call(purpose="test", **PAGED), {"sets": ListedSet}),
    "POST /v1/reference-sets/{id}/derive": (
        Sets.derive.call("abcdef", weights="one", parrot=0.5, gold="rated", k=3, people=PEOPLE),
        FrozenSet,
    ),
    "GET /v1/reference-sets/{id}": (Sets.get.call("abcdef"), ReferenceSet),
    "DELETE /v1/reference-sets/{id}": (
        Sets.withdraw.call("abcdef", reason="wrong", instead="fedcba"),
        Withdrawal,
    ),
    "GET /v1/reference-sets/{id}/download": (first_call(Sets.download, "abcdef", to="x", format="jsonl"), None),
    "POST /v1/reference-sets/{id}/scores": (
        Sets.score.call(
            "abcdef",
            ["x"],
            items=["d1"],
            metric="bleu",
            explain=True,
            percent=True,
            require_passport=True,
            language="en",
            on_error="report",
            return_="values",
            **DRAWN,
        ),
        Scores,
    ),
    "GET /v1/logs": (Logs.list.call(**PAGED), {"logs": Log}),
    "GET /v1/logs/{name}": (Logs.get.call("chat"), Log),
    "GET /v1/logs/{name}/ingests": (Logs.ingests.call("chat", **PAGED), {"ingests": Ingest}),
    "POST /v1/logs/{name}/dialogues": (
        Logs.post.call("chat", [{"turns": ["a", "b"]}], on_error="report"),
        Posted,
    ),
    "DELETE /v1/logs/{name}/dialogues/{dialogue}": (Logs.erase.call("chat", "d-1"), Job),
    "GET /v1/artefacts/{kind}": (Artefacts.list.call("index", **PAGED), {"artefacts": Artefact}),
    "GET /v1/artefacts/{kind}/{name}": (Artefacts.get.call("index", "chat"), Artefact),
    "GET /v1/artefacts/{kind}/{name}/versions": (
        Artefacts.versions.call("index", "chat", **PAGED),
        {"versions": ArtefactVersion},
    ),
    "PUT /v1/artefacts/{kind}/{name}/current": (
        replace(
            Artefacts.rollback.call("index", "chat"),
            body={
                **Artefacts.publish.call("index", "chat", "1", even_refused=True).body,
                **Artefacts.rollback.call("index", "chat").body,
            },
        ),
        Published,
    ),
    "POST /v1/jobs": (Jobs.start.call("gc", name="chat"), Job),
    "GET /v1/jobs": (Jobs.list.call(state="done", kind="gc", **PAGED), {"jobs": Job}),
    "GET /v1/jobs/{id}": (Jobs.get.call("0"), Job),
    "DELETE /v1/jobs/{id}": (Jobs.cancel.call("0"), Job),
    "POST /v1/jobs/{id}/retry": (Jobs.retry.call("0"), Job),
    "GET /v1/jobs/{id}/events": (follow_job("0", after=3), None),
    "POST /v1/uploads": (Uploads.send.call(b"x", name="a.csv", format="csv"), Upload),
    "GET /v1/uploads": (Uploads.list.call(), UploadList),
    "GET /v1/uploads/{id}": (Uploads.get.call("0"), Upload),
    "GET /v1/uploads/{id}/content": (Uploads.download.call("0"), None),
    "DELETE /v1/uploads/{id}": (Uploads.remove.call("0"), Upload),
    "POST /v1/uploads/preview": (
        Uploads.preview.call(
            items="a",
            replies={"a": "b"},
            references=["c"],
            weights=["d"],
            utterances="e",
            map=["id=n"],
            shape="item",
            encoding="latin-1",
            allow_truncated=True,
            systems=["s"],
        ),
        FilePreview,
    ),
    "POST /v1/evaluations": (Evaluations.start.call("score", items="a"), Evaluation),
    "GET /v1/evaluations": (Evaluations.list.call(kind="meta", **PAGED), {"evaluations": Evaluation}),
    "GET /v1/evaluations/{id}": (Evaluations.get.call("0"), Evaluation),
    "DELETE /v1/evaluations/{id}": (Evaluations.remove.call("0"), Evaluation),
    "POST /v1/evaluations/{id}/cancel": (Evaluations.cancel.call("0"), Evaluation),
    "POST /v1/evaluations/{id}/retry": (Evaluations.retry.call("0"), Evaluation),
    "GET /v1/evaluations/{id}/replies": (Evaluations.replies.call("0", other=1), ScoredReplies),
    "GET /v1/evaluations/{id}/replies/{place}": (Evaluations.reply.call("0", 3), FullReply),
    "GET /v1/evaluations/{id}/points": (Evaluations.points.call("0"), ScorePoints),
    "GET /v1/evaluations/{id}/download": (Evaluations.download.call("0", format="csv"), None),
    "GET /v1/evaluations/{id}/comparison": (Evaluations.compare.call("0", "1"), EvaluationComparison),
    "GET /v1/evaluations/{id}/notes": (Evaluations.notes.call("0"), {"notes": ReplyNote}),
    "PUT /v1/evaluations/{id}/notes/{place}": (Evaluations.put_note.call("0", 3, "x"), ReplyNote),
    "GET /v1/schedules": (Schedules.list.call(**PAGED), {"schedules": Schedule}),
    "GET /v1/schedules/{name}": (Schedules.get.call("night"), Schedule),
    "PUT /v1/schedules/{name}": (
        Schedules.put.call("night", cron="0 2 * * *", order={}, timezone="UTC", enabled=False),
        Schedule,
    ),
    "DELETE /v1/schedules/{name}": (Schedules.delete.call("night"), {}),
    "GET /v1/bots": (Bots.list.call(**PAGED), {"bots": StoredBot}),
    "GET /v1/bot-use": (Bots.use.call(), BotUses),
    "GET /v1/bots/{name}": (Bots.get.call("mine"), StoredBot),
    "PUT /v1/bots/{name}": (Bots.put.call("mine", {"kind": "replay"}, expected_sha256="0" * 64), PutBot),
    "DELETE /v1/bots/{name}": (Bots.delete.call("mine"), {}),
    "POST /v1/bots/{name}/replies": (
        Bots.reply.call("mine", [["a"]], seed=7, sha256="0" * 64, retrieved=True),
        DialogueReplies,
    ),
    "POST /v1/hybrids/{name}/scores": (
        Client.score_conversations.call("talks", [{"bot": "a", "turns": []}], self_play="both", on_error="report"),
        HybridScores,
    ),
    "GET /v1/studies": (Studies.list.call(**PAGED), {"studies": ListedStudy}),
    "POST /v1/studies": (Studies.create.call("autumn", {"kind": "chat"}, items=[{"id": "d"}]), Study),
    "POST /v1/studies/power": (
        Studies.power.call(
            difference=0.5, win_rate=0.6, sd=1.3, power=0.8, alpha=0.05, ratings_per_participant=4, rho=0.3
        ),
        StudyPower,
    ),
    "GET /v1/studies/{id}": (Studies.get.call("autumn"), Study),
    "DELETE /v1/studies/{id}": (Studies.delete.call("autumn"), None),
    "PUT /v1/studies/{id}/protocol": (Studies.amend.call("autumn", {"kind": "chat"}, reason="late"), Study),
    "POST /v1/studies/{id}/dialogues": (Studies.add_items.call("autumn", [{"id": "d"}]), AddedItems),
    "POST /v1/studies/{id}/pilot": (Studies.pilot.call("autumn"), Study),
    "POST /v1/studies/{id}/open": (Studies.open.call("autumn"), Study),
    "POST /v1/studies/{id}/pause": (Studies.pause.call("autumn"), Study),
    "POST /v1/studies/{id}/close": (Studies.close.call("autumn"), Study),
    "GET /v1/studies/{id}/preview": (Studies.preview.call("autumn", language="de"), StudyPreview),
    "POST /v1/studies/{id}/invites": (
        Studies.invite.call("autumn", count=2, label="x", uses_max=1, expires="2027-01-01T00:00:00Z"),
        {"invites": NewStudyInvite},
    ),
    "GET /v1/studies/{id}/invites": (Studies.invites.call("autumn", **PAGED), {"invites": StudyInvite}),
    "DELETE /v1/studies/{id}/invites/{invite}": (Studies.revoke.call("autumn", "0"), StudyInvite),
    "GET /v1/studies/{id}/participants": (
        Studies.participants.call("autumn", active=True, **PAGED),
        {"participants": StudyParticipant},
    ),
    "GET /v1/studies/{id}/responses": (
        Studies.responses.call(
            "autumn",
            bot="a",
            participant="P-000000",
            item="d",
            flag="any",
            question="overall",
            low=1,
            high=3,
            sort="score",
            order="ascending",
        ),
        StudyResponses,
    ),
    "POST /v1/studies/{id}/recruits": (
        Studies.recruits.call("autumn", ["a"], parameter="PROLIFIC_PID"),
        {"recruits": StudyRecruit},
    ),
    "GET /v1/studies/{id}/participants/{code}": (Studies.participant.call("autumn", "P-1"), ParticipantTasks),
    "DELETE /v1/studies/{id}/participants/{code}": (Studies.erase.call("autumn", "P-1"), None),
    "POST /v1/studies/{id}/participants/{code}/resume-link": (
        Studies.resume_link.call("autumn", "P-1"),
        ResumeLink,
    ),
    "PUT /v1/studies/{id}/participants/{code}/exclusion": (
        Studies.exclude.call("autumn", "P-1", reason="hasty"),
        ParticipantExclusion,
    ),
    "GET /v1/studies/{id}/progress": (Studies.progress.call("autumn"), StudyProgress),
    "GET /v1/studies/{id}/report": (Studies.report.call("autumn", draws=100, page=True), StudyReport),
    "GET /v1/studies/{id}/agreement": (
        Studies.agreement.call("autumn"),
        {"questions": QuestionAgreement},
    ),
    "GET /v1/studies/{id}/disagreements": (
        Studies.disagreements.call("autumn", limit=3),
        {"items": Disagreement},
    ),
    "PUT /v1/studies/{id}/adjudications": (
        Studies.adjudicate.call("autumn", "d", "overall", 3, note="x"),
        Adjudication,
    ),
    "GET /v1/studies/{id}/export": (
        first_call(Studies.export, "autumn", to="x", format="dpo", question="overall"),
        None,
    ),
    "GET /v1/key": (Keys.own.call(), OwnKey),
    "GET /v1/keys": (Keys.list.call(**PAGED), {"keys": Key}),
    "POST /v1/keys": (
        Keys.create.call("ann", scopes=["read"], rate_per_s=1.5, quota_per_day=9, expires="2027-01-01T00:00:00Z"),
        NewKey,
    ),
    "DELETE /v1/keys/{id}": (Keys.revoke.call("a"), Key),
    "GET /v1/audit": (Audit.list.call(since="2026-11-20", newest=True, **PAGED), {"entries": AuditEntry}),
    "GET /healthz": (Client.health.call(), Health),
    "GET /readyz": (Client.ready.call(), Ready),
    "GET /v1/figures": (Client.server_figures.call(hours=3), ServerFigures),
    "GET /metrics": (Client.server_metrics.call(), None),
    "GET /problems/{code}": (Client.explain.call("usage"), ProblemCode),
}
FREE_FORM = {"POST /v1/jobs", "POST /v1/evaluations", "POST /v1/uploads"}  # an order is whatever the kind of job knows
ELSEWHERE = {"Last-Event-ID", "If-None-Match"}  # said by what follows a job; and by nobody, as nothing is kept here


@pytest.fixture(scope="module")
def document(url: str) -> dict[str, Any]:
    """What the server says of itself."""
    found: dict[str, Any] = httpx.get(f"{url}/openapi.json", timeout=60).json()
    return found


# Pages ask these: that of participants with a session in place of a key, and that of a study for its progress.
OF_PAGES = ("/v1/take/", "/v1/studies/{id}/events")


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        if path.startswith(OF_PAGES):
            continue
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to in its place; of two, the one that is an object."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for one in schema.get("anyOf", []):
        found = resolved(document, one)
        if found.get("type") in ("object", "array"):
            return found
    return schema


def body_of(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    return resolved(document, content.get("application/json", {}).get("schema", {}))


def answers_of(document: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [
        answer.get("content", {}).get("application/json", {}).get("schema")
        for status, answer in operation["responses"].items()
        if status.startswith("2")
    ]
    return [resolved(document, one) for one in contents if one]


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_route_of_the_server_is_known_and_no_other(document: dict[str, Any]) -> None:
    assert {name for name, _ in operations(document)} == set(ROUTES)


@pytest.mark.parametrize("name", ROUTES)
def test_a_call_goes_where_the_route_is(name: str) -> None:
    method, _, path = name.partition(" ")
    call = ROUTES[name][0]
    assert call.method == method
    assert re.fullmatch(re.sub(r"\{\w+\}", r"[^/]+", path), call.path)


def test_every_query_parameter_can_be_said(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        wanted = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        assert set(ROUTES[name][0].query) == wanted, name


def test_every_field_of_every_body_can_be_said(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        said = ROUTES[name][0].body
        if "requestBody" not in operation:
            assert said is None, name
        elif name not in FREE_FORM:
            assert set(said) == set(body_of(document, operation)["properties"]), name


def test_headers_are_sent_where_the_server_reads_them(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        call = ROUTES[name][0]
        headers = {one["name"].lower() for one in operation.get("parameters", []) if one["in"] == "header"}
        assert headers - {one.lower() for one in ELSEWHERE} <= {"idempotency-key", "x-timeout-s"}, name
        assert call.keyed == ("idempotency-key" in headers), name
        assert call.timed == ("x-timeout-s" in headers), name


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (retrieval.Retrieval, "AugmentSettings"),
        (items.Item, "Item"),
        (items.ReferenceText, "Reference"),
        (items.Candidate, "CandidateIn"),
        (items.Pair, "PairIn"),
        (items.Dialogue, "Dialogue"),
        (items.Turn, "Turn"),
    ],
)
def test_the_types_of_requests_have_the_fields_that_the_server_reads(
    document: dict[str, Any], kind: Any, schema: str
) -> None:
    found = document["components"]["schemas"].get(schema) or next(within(document, schema))
    assert set(typing.get_type_hints(kind)) == set(found["properties"])


def within(value: Any, title: str) -> Iterator[dict[str, Any]]:
    """Schemas of this title, wherever they are."""
    if isinstance(value, dict):
        if value.get("title") == title and "properties" in value:
            yield value
        for one in value.values():
            yield from within(one, title)
    elif isinstance(value, list):
        for one in value:
            yield from within(one, title)


def test_closed_sets_of_words_are_those_of_the_server(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert list(typing.get_args(items.Purpose)) == schemas["Purpose"]["enum"]
    assert list(typing.get_args(items.OnError)) == schemas["ScoresIn"]["properties"]["on_error"]["enum"]
    assert list(typing.get_args(items.From)) == schemas["SetIn"]["properties"]["references"]["enum"]
    for name, kind in typing.get_type_hints(retrieval.Retrieval).items():
        if typing.get_origin(kind) is typing.Literal:
            schema = schemas["AugmentSettings"]["properties"][name]
            schema = schema["anyOf"][0] if "anyOf" in schema else schema
            words = schema["enum"] if "enum" in schema else [schema["const"]]
            assert list(typing.get_args(kind)) == words, name


def test_no_field_of_an_order_is_taken_for_an_option_of_the_client(document: dict[str, Any]) -> None:
    named = set(inspect.signature(Client("http://127.0.0.1:1").jobs.start).parameters) - {"order"}
    schemas = document["components"]["schemas"].values()
    orders = [schema for schema in schemas if "const" in schema.get("properties", {}).get("kind", {})]
    assert {"IngestLog", "TrainRater", "UpdateIndex"} <= {schema["title"] for schema in orders}
    for schema in orders:
        assert set(schema["properties"]) & named == {"kind"}, schema["title"]


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def keys_of(model: type[Model]) -> dict[str, Any]:
    hints = typing.get_type_hints(model)
    return {one.metadata.get("key", one.name): hints[one.name] for one in fields(model)}  # type: ignore[arg-type]


def needed(model: type[Model]) -> set[str]:
    return {
        one.metadata.get("key", one.name)
        for one in fields(model)  # type: ignore[arg-type]
        if one.default is MISSING and one.default_factory is MISSING
    }


def model_in(hint: Any) -> Any:
    """The model in an annotation, where there is one."""
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint
    return next((found for one in typing.get_args(hint) if (found := model_in(one))), None)


def require_known(document: dict[str, Any], schema: dict[str, Any], model: type[Model], where: str) -> None:
    """Every property has a field, of the kind it is; and what a model cannot do without is always there."""
    known, properties = keys_of(model), schema["properties"]
    assert set(properties) - set(known) <= {"request_id"}, where
    assert needed(model) <= set(schema.get("required", [])) | {"id"}, where
    for name, one in properties.items():
        if name == "request_id":
            continue
        inner = resolved(document, one)
        inner = resolved(document, inner.get("items", inner))
        if isinstance(inner.get("additionalProperties"), dict):
            inner = resolved(document, inner["additionalProperties"])
        further = model_in(known[name])
        if further is not None and inner.get("additionalProperties") is not True:
            assert "properties" in inner, f"{where}.{name}"
            require_known(document, inner, further, f"{where}.{name}")


@pytest.mark.parametrize("name", [name for name, (_, model) in ROUTES.items() if model is not None])
def test_every_field_of_every_answer_has_a_place(document: dict[str, Any], name: str) -> None:
    operation = dict(operations(document))[name]
    model = ROUTES[name][1]
    found = answers_of(document, operation)
    assert found, name
    for schema in found:
        if isinstance(model, dict):
            assert set(schema["properties"]) - set(model) <= {"next", "request_id", "name", "current"}, name
            for key, row in model.items():
                inner = resolved(document, schema["properties"][key]["items"])
                require_known(document, inner, row, f"{name}.{key}")
        else:
            kind = Job if "resources" in schema["properties"] else model
            require_known(document, schema, kind, name)


def test_real_answers_in_the_document_are_read_and_given_back_whole(document: dict[str, Any]) -> None:
    read = 0
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json", {})
            examples = [content["example"]] if "example" in content else []
            examples += [one["value"] for one in content.get("examples", {}).values()]
            for value in examples if status.startswith("2") else []:
                call, model = ROUTES[name]
                found = call.read(answered(int(status), value))
                if isinstance(found, Rows):
                    (key,) = model
                    assert found.to_dicts() == value[key], name
                elif found is not None:
                    assert found.to_dict() == value, name
                    assert found.request_id == value["request_id"], name
                read += 1
    assert read >= 20


def answered(status: int, value: Any) -> Answer:
    return Answer(status, {"content-type": "application/json"}, json.dumps(value).encode())


# ── what goes in ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_said_is_not_sent() -> None:
    assert Client.score.call([ITEM]).body == {"items": [ITEM]}
    assert Client.references.call([ITEM]).body == {"items": [ITEM]}
    assert Sets.score.call("abcdef", ["x"]).body == {"replies": {"model": ["x"]}}
    assert Artefacts.publish.call("index", "chat", "1").body == {"version": "1"}


def test_generators_tuples_and_columns_become_lists() -> None:
    assert Client.references.call(one for one in (ITEM,)).body == {"items": [ITEM]}
    assert Sets.score.call("abcdef", (one for one in "xy"), items=iter(("a", "b"))).body == {
        "items": ["a", "b"],
        "replies": {"model": ["x", "y"]},
    }


@pytest.mark.parametrize("wrong", ["d1", b"d1", {"id": "d1"}, 3, None])
def test_single_value_in_place_of_a_list_is_refused_before_sending(wrong: Any) -> None:
    for ask in (Client.references.call, Client.score.call, Client.rate.call, Client.combine.call):
        with refusing(Usage):
            ask(wrong)
    with refusing(Usage, "dialogues"):
        Logs.post.call("chat", wrong)


@pytest.mark.parametrize("wrong", ["a reply", {"a": "a reply"}, 3])
def test_a_text_is_not_taken_for_a_list_of_its_letters(wrong: Any) -> None:
    with refusing(Usage, "list"):
        Sets.score.call("abcdef", wrong)
    with refusing(Usage, "list"):
        Client.score.call([ITEM], replies=wrong)


def test_replies_replace_those_of_the_items_in_order() -> None:
    pairs = [{"id": "d1", "replies": {"old": "x"}}, {"id": "d2"}]
    body = Client.score.call(pairs, replies={"new": ["a", None], "newer": ["b", "c"]}).body
    assert body["items"] == [
        {"id": "d1", "replies": {"new": "a", "newer": "b"}},
        {"id": "d2", "replies": {"newer": "c"}},
    ]
    assert pairs[0] == {"id": "d1", "replies": {"old": "x"}}
    with refusing(Usage, "model"):
        Client.score.call(pairs, replies=["a"])
    with refusing(Usage, "items[0]", "d1"):
        Client.score.call(["d1"], replies=["a"])  # type: ignore[list-item]


def test_one_metric_or_several_but_not_both() -> None:
    assert Client.score.call([ITEM], metric="bleu").body["metrics"] == ["bleu"]
    assert Client.score.call([ITEM], metrics="bleu").body["metrics"] == ["bleu"]
    assert Client.score.call([ITEM], metrics=("bleu", "chrf")).body["metrics"] == ["bleu", "chrf"]
    with refusing(Usage, "bleu"):
        Client.score.call([ITEM], metric="bleu", metrics=["chrf"])


def test_moments_are_sent_as_iso_8601() -> None:
    when = datetime(2026, 11, 20, 8, 30, tzinfo=timezone.utc)
    assert Client.references.call([ITEM], settings={"after": when, "k": 3}).body["settings"] == {
        "after": "2026-11-20T08:30:00+00:00",
        "k": 3,
    }
    with refusing(Usage, "settings"):
        Client.references.call([ITEM], settings=5)  # type: ignore[arg-type]


def test_what_the_server_gave_goes_back_as_it_came() -> None:
    item = ReferencedItem.of({"id": "d1", "references": [], "evidence": {}, "future": [1]})
    assert Client.score.call([item]).body["items"] == [{"id": "d1", "references": [], "evidence": {}, "future": [1]}]
    sums = Scores.of({"stats": [], "scores": [], "data": "x"})
    assert Client.combine.call([sums, {"stats": []}]).body["batches"] == [sums.to_dict(), {"stats": []}]


def test_candidates_become_objects_and_malformed_pairs_go_to_the_server() -> None:
    pair = {"utterance": "a", "golds": ["b"], "candidates": ["c", {"text": "d", "utterance": "e"}]}
    assert Client.rate.call([pair]).body["pairs"][0]["candidates"] == [{"text": "c"}, {"text": "d", "utterance": "e"}]
    assert Client.rate.call(["no pair"]).body["pairs"] == ["no pair"]  # type: ignore[list-item]
    assert Logs.post.call("chat", [["a", "b"]]).body["dialogues"] == [{"turns": ["a", "b"]}]


@pytest.mark.parametrize("name", ["", ".", "..", None, 3])
def test_what_is_no_name_is_refused(name: Any) -> None:
    for ask in (
        Sets.get.call,
        Logs.get.call,
        Jobs.get.call,
        lambda name: Artefacts.get.call("index", name),
        Schedules.get.call,
        Client.explain.call,
    ):
        with refusing(Usage):
            ask(name)


def test_a_name_cannot_become_a_path() -> None:
    assert Logs.get.call("a/../b?c#d é").path == "/v1/logs/a%2F..%2Fb%3Fc%23d%20%C3%A9"
    assert Logs.erase.call("chat", "a/b").path == "/v1/logs/chat/dialogues/a%2Fb"


def test_only_what_does_harm_twice_is_not_repeated() -> None:
    unsafe = {name for name, (call, _) in ROUTES.items() if not call.may_be_repeated}
    assert unsafe == {
        "PUT /v1/artefacts/{kind}/{name}/current",  # as rollback
        *("POST /v1/uploads", "DELETE /v1/evaluations/{id}", "POST /v1/evaluations/{id}/retry"),
        *("POST /v1/evaluations/{id}/cancel", "POST /v1/jobs/{id}/retry", "POST /v1/keys"),
        *("POST /v1/studies", "DELETE /v1/studies/{id}", "POST /v1/studies/{id}/dialogues"),
        *("POST /v1/studies/{id}/invites", "POST /v1/studies/{id}/pilot", "POST /v1/studies/{id}/open"),
        *("POST /v1/studies/{id}/pause", "POST /v1/studies/{id}/close"),
    }
    assert Artefacts.publish.call("index", "chat", "1").may_be_repeated
    keyed = {name for name, (call, _) in ROUTES.items() if call.keyed}
    assert keyed == {
        *("POST /v1/jobs", "POST /v1/evaluations", "POST /v1/reference-sets"),
        "DELETE /v1/logs/{name}/dialogues/{dialogue}",
    }
