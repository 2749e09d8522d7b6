"""The client beside the server's own OpenAPI document: no route, parameter, field or answer that it does not know."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest

from refaug_client import AsyncClient, Client, Usage
from refaug_client._api import calls, items, models, retrieval
from refaug_client._http.call import Answer, Call

ITEM = {"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}
PAGED = {"after": "x", "limit": 3}
DRAWN = {"draws": 10, "confidence": 0.9, "seed": 2, "baseline": "a"}

# Every route with everything that can be said to it, and what its answer is read as.
PEOPLE = [{"item": "d1", "reference": "At the market.", "weight": 0.5}]
ROUTES: dict[str, tuple[Call[Any], Any]] = {
    "POST /v1/references": (
        calls.references([ITEM], index="chat", rater="base", settings={"k": 2, "show_excluded": 9}, on_error="report"),
        models.References,
    ),
    "POST /v1/replies": (
        calls.replies([ITEM], {"c": "retrieval:chat"}, replace=True, without_reply="skip", on_error="report"),
        models.BotReplies,
    ),
    "POST /v1/scores": (
        calls.score(
            [ITEM],
            metrics=["bleu"],
            references="find",
            index="chat",
            rater="base",
            settings={"k": 2},
            explain=True,
            percent=True,
            language="en",
            on_error="report",
            return_="stats",
            **DRAWN,
        ),
        models.Scores,
    ),
    "POST /v1/verifications": (calls.verify({"scores": []}, [ITEM]), models.Verification),
    "POST /v1/scores/combine": (calls.combine([{}], **DRAWN, on_error="report"), models.Scores),
    "POST /v1/ratings": (
        calls.rate(
            [{"utterance": "a", "golds": ["b"], "candidates": ["c"]}], rater="base", combine="mean", calibrated=True
        ),
        models.Ratings,
    ),
    "GET /v1/metrics": (calls.metrics(), {"metrics": models.MetricInfo}),
    "POST /v1/reference-sets": (
        calls.freeze_set(
            [ITEM], purpose="test", references="find", index="chat", rater="base", settings={}, on_error="fail"
        ),
        models.FrozenSet,
    ),
    "GET /v1/reference-sets": (calls.list_sets(purpose="test", **PAGED), {"sets": models.ListedSet}),
    "POST /v1/reference-sets/{id}/derive": (
        calls.derive_set("abcdef", weights="one", parrot=0.5, gold="rated", k=3, people=PEOPLE),
        models.FrozenSet,
    ),
    "GET /v1/reference-sets/{id}": (calls.get_set("abcdef"), models.ReferenceSet),
    "DELETE /v1/reference-sets/{id}": (
        calls.withdraw_set("abcdef", reason="wrong", instead="fedcba"),
        models.Withdrawal,
    ),
    "GET /v1/reference-sets/{id}/download": (calls.download_set("abcdef", format="jsonl"), None),
    "POST /v1/reference-sets/{id}/scores": (
        calls.score_set(
            "abcdef",
            ["x"],
            items=["d1"],
            metric="bleu",
            explain=True,
            percent=True,
            language="en",
            on_error="report",
            return_="values",
            **DRAWN,
        ),
        models.Scores,
    ),
    "GET /v1/logs": (calls.list_logs(**PAGED), {"logs": models.Log}),
    "GET /v1/logs/{name}": (calls.get_log("chat"), models.Log),
    "GET /v1/logs/{name}/ingests": (calls.list_ingests("chat", **PAGED), {"ingests": models.Ingest}),
    "POST /v1/logs/{name}/dialogues": (
        calls.post_dialogues("chat", [{"turns": ["a", "b"]}], on_error="report"),
        models.Posted,
    ),
    "DELETE /v1/logs/{name}/dialogues/{dialogue}": (calls.erase_dialogue("chat", "d-1"), models.Job),
    "GET /v1/indexes": (calls.list_indexes(**PAGED), {"indexes": models.Index}),
    "GET /v1/indexes/{name}": (calls.get_index("chat"), models.Index),
    "GET /v1/indexes/{name}/versions": (calls.list_index_versions("chat", **PAGED), {"versions": models.IndexVersion}),
    "PUT /v1/indexes/{name}/current": (
        calls.publish_index("chat", version="1", rollback=True, even_refused=True),
        models.Published,
    ),
    "GET /v1/raters": (calls.list_raters(**PAGED), {"raters": models.Rater}),
    "GET /v1/raters/{name}": (calls.get_rater("base"), models.Rater),
    "GET /v1/raters/{name}/versions": (calls.list_rater_versions("base", **PAGED), {"versions": models.RaterVersion}),
    "PUT /v1/raters/{name}/current": (
        calls.publish_rater("base", version="1", rollback=True, even_refused=True),
        models.Published,
    ),
    "POST /v1/jobs": (calls.start_job("gc", name="chat"), models.Job),
    "GET /v1/jobs": (calls.list_jobs(state="done", kind="gc", **PAGED), {"jobs": models.Job}),
    "GET /v1/jobs/{id}": (calls.get_job("0"), models.Job),
    "DELETE /v1/jobs/{id}": (calls.cancel_job("0"), models.Job),
    "POST /v1/jobs/{id}/retry": (calls.retry_job("0"), models.Job),
    "GET /v1/jobs/{id}/events": (calls.follow_job("0", after=3), None),
    "POST /v1/uploads": (calls.upload_file(b"x", name="a.csv", format="csv"), models.Upload),
    "GET /v1/uploads": (calls.list_uploads(), models.UploadList),
    "GET /v1/uploads/{id}": (calls.get_upload("0"), models.Upload),
    "GET /v1/uploads/{id}/content": (calls.download_upload("0"), None),
    "DELETE /v1/uploads/{id}": (calls.remove_upload("0"), models.Upload),
    "POST /v1/uploads/preview": (
        calls.preview_files(
            items="a",
            replies={"a": "b"},
            references=["c"],
            weights=["d"],
            utterances="e",
            map=["id=n"],
            shape="item",
            encoding="latin-1",
            allow_truncated=True,
        ),
        models.FilePreview,
    ),
    "POST /v1/evaluations": (calls.start_evaluation("score", items="a"), models.Evaluation),
    "GET /v1/evaluations": (calls.list_evaluations(kind="meta", **PAGED), {"evaluations": models.Evaluation}),
    "GET /v1/evaluations/{id}": (calls.get_evaluation("0"), models.Evaluation),
    "DELETE /v1/evaluations/{id}": (calls.remove_evaluation("0"), models.Evaluation),
    "POST /v1/evaluations/{id}/cancel": (calls.cancel_evaluation("0"), models.Evaluation),
    "POST /v1/evaluations/{id}/retry": (calls.retry_evaluation("0"), models.Evaluation),
    "GET /v1/evaluations/{id}/replies": (calls.list_scored_replies("0", other=1), models.ScoredReplies),
    "GET /v1/evaluations/{id}/replies/{place}": (calls.get_scored_reply("0", 3), models.FullReply),
    "GET /v1/evaluations/{id}/points": (calls.get_points("0"), models.ScorePoints),
    "GET /v1/evaluations/{id}/download": (calls.download_evaluation("0", format="csv"), None),
    "GET /v1/evaluations/{id}/comparison": (calls.compare_evaluations("0", "1"), models.EvaluationComparison),
    "GET /v1/evaluations/{id}/notes": (calls.list_notes("0"), {"notes": models.ReplyNote}),
    "PUT /v1/evaluations/{id}/notes/{place}": (calls.put_note("0", 3, "x"), models.ReplyNote),
    "GET /v1/schedules": (calls.list_schedules(**PAGED), {"schedules": models.Schedule}),
    "GET /v1/schedules/{name}": (calls.get_schedule("night"), models.Schedule),
    "PUT /v1/schedules/{name}": (
        calls.put_schedule("night", cron="0 2 * * *", order={}, timezone="UTC", enabled=False),
        models.Schedule,
    ),
    "DELETE /v1/schedules/{name}": (calls.delete_schedule("night"), {}),
    "GET /v1/bots": (calls.list_bots(**PAGED), {"bots": models.StoredBot}),
    "GET /v1/bots/{name}": (calls.get_bot("mine"), models.StoredBot),
    "PUT /v1/bots/{name}": (calls.put_bot("mine", {"kind": "replay"}, expected_sha256="0" * 64), models.PutBot),
    "DELETE /v1/bots/{name}": (calls.delete_bot("mine"), {}),
    "POST /v1/bots/{name}/replies": (
        calls.reply_to_dialogues("mine", [["a"]], seed=7, sha256="0" * 64),
        models.DialogueReplies,
    ),
    "POST /v1/hybrids/{name}/scores": (
        calls.score_conversations("talks", [{"bot": "a", "turns": []}], self_play="both", on_error="report"),
        models.HybridScores,
    ),
    "GET /v1/studies": (calls.list_studies(**PAGED), {"studies": models.ListedStudy}),
    "POST /v1/studies": (calls.create_study("autumn", {"kind": "chat"}, items=[{"id": "d"}]), models.Study),
    "POST /v1/studies/power": (
        calls.plan_study(
            difference=0.5, win_rate=0.6, sd=1.3, power=0.8, alpha=0.05, ratings_per_participant=4, rho=0.3
        ),
        models.StudyPower,
    ),
    "GET /v1/studies/{id}": (calls.get_study("autumn"), models.Study),
    "DELETE /v1/studies/{id}": (calls.delete_study("autumn"), None),
    "PUT /v1/studies/{id}/protocol": (calls.amend_study("autumn", {"kind": "chat"}, reason="late"), models.Study),
    "POST /v1/studies/{id}/dialogues": (calls.add_study_items("autumn", [{"id": "d"}]), models.AddedItems),
    "POST /v1/studies/{id}/pilot": (calls.pilot_study("autumn"), models.Study),
    "POST /v1/studies/{id}/open": (calls.open_study("autumn"), models.Study),
    "POST /v1/studies/{id}/pause": (calls.pause_study("autumn"), models.Study),
    "POST /v1/studies/{id}/close": (calls.close_study("autumn"), models.Study),
    "GET /v1/studies/{id}/preview": (calls.preview_study("autumn", language="de"), models.StudyPreview),
    "POST /v1/studies/{id}/invites": (
        calls.create_invites("autumn", count=2, label="x", uses_max=1, expires="2027-01-01T00:00:00Z"),
        {"invites": models.NewStudyInvite},
    ),
    "GET /v1/studies/{id}/invites": (calls.list_invites("autumn", **PAGED), {"invites": models.StudyInvite}),
    "DELETE /v1/studies/{id}/invites/{invite}": (calls.revoke_invite("autumn", "0"), models.StudyInvite),
    "GET /v1/studies/{id}/participants": (
        calls.list_participants("autumn", **PAGED),
        {"participants": models.StudyParticipant},
    ),
    "GET /v1/studies/{id}/participants/{code}": (calls.get_participant("autumn", "P-1"), models.ParticipantTasks),
    "DELETE /v1/studies/{id}/participants/{code}": (calls.erase_participant("autumn", "P-1"), None),
    "POST /v1/studies/{id}/participants/{code}/resume-link": (
        calls.renew_resume_link("autumn", "P-1"),
        models.ResumeLink,
    ),
    "PUT /v1/studies/{id}/participants/{code}/exclusion": (
        calls.exclude_participant("autumn", "P-1", reason="hasty"),
        models.ParticipantExclusion,
    ),
    "GET /v1/studies/{id}/progress": (calls.get_study_progress("autumn"), models.StudyProgress),
    "GET /v1/studies/{id}/report": (calls.get_study_report("autumn", draws=100), models.StudyReport),
    "GET /v1/studies/{id}/agreement": (
        calls.get_study_agreement("autumn"),
        {"questions": models.QuestionAgreement},
    ),
    "GET /v1/studies/{id}/disagreements": (
        calls.list_disagreements("autumn", limit=3),
        {"items": models.Disagreement},
    ),
    "PUT /v1/studies/{id}/adjudications": (
        calls.adjudicate_item("autumn", "d", "overall", 3, note="x"),
        models.Adjudication,
    ),
    "GET /v1/studies/{id}/export": (calls.export_study("autumn", format="dpo", question="overall"), None),
    "GET /v1/key": (calls.get_own_key(), models.OwnKey),
    "GET /v1/keys": (calls.list_keys(**PAGED), {"keys": models.Key}),
    "POST /v1/keys": (
        calls.create_key("ann", scopes=["read"], rate_per_s=1.5, quota_per_day=9, expires="2027-01-01T00:00:00Z"),
        models.NewKey,
    ),
    "DELETE /v1/keys/{id}": (calls.revoke_key("a"), models.Key),
    "GET /v1/audit": (calls.list_audit(since="2026-11-20", **PAGED), {"entries": models.AuditEntry}),
    "GET /healthz": (calls.health(), models.Health),
    "GET /readyz": (calls.ready(), models.Ready),
    "GET /metrics": (calls.server_metrics(), None),
    "GET /problems/{code}": (calls.explain("usage"), models.ProblemCode),
}
FREE_FORM = {"POST /v1/jobs", "POST /v1/evaluations", "POST /v1/uploads"}  # an order is whatever the kind of job knows
ELSEWHERE = {"Last-Event-ID", "If-None-Match"}  # said by what follows a job; and by nobody, as nothing is kept here

# Which method of the clients asks for which call.
METHODS: dict[str, Callable[..., Any]] = {
    "references": calls.references,
    "replies": calls.replies,
    "score": calls.score,
    "score_conversations": calls.score_conversations,
    "verify": calls.verify,
    "combine": calls.combine,
    "rate": calls.rate,
    "metrics": calls.metrics,
    "health": calls.health,
    "ready": calls.ready,
    "server_metrics": calls.server_metrics,
    "explain": calls.explain,
    "sets.freeze": calls.freeze_set,
    "sets.derive": calls.derive_set,
    "sets.get": calls.get_set,
    "sets.list": calls.list_sets,
    "sets.score": calls.score_set,
    "sets.download": calls.download_set,
    "sets.withdraw": calls.withdraw_set,
    "logs.list": calls.list_logs,
    "logs.get": calls.get_log,
    "logs.ingests": calls.list_ingests,
    "logs.post": calls.post_dialogues,
    "logs.erase": calls.erase_dialogue,
    "indexes.list": calls.list_indexes,
    "indexes.get": calls.get_index,
    "indexes.versions": calls.list_index_versions,
    "raters.list": calls.list_raters,
    "raters.get": calls.get_rater,
    "raters.versions": calls.list_rater_versions,
    "jobs.start": calls.start_job,
    "jobs.list": calls.list_jobs,
    "jobs.get": calls.get_job,
    "jobs.cancel": calls.cancel_job,
    "jobs.retry": calls.retry_job,
    "jobs.events": calls.follow_job,
    "uploads.send": calls.upload_file,
    "uploads.list": calls.list_uploads,
    "uploads.get": calls.get_upload,
    "uploads.download": calls.download_upload,
    "uploads.remove": calls.remove_upload,
    "uploads.preview": calls.preview_files,
    "evaluations.start": calls.start_evaluation,
    "evaluations.list": calls.list_evaluations,
    "evaluations.get": calls.get_evaluation,
    "evaluations.remove": calls.remove_evaluation,
    "evaluations.cancel": calls.cancel_evaluation,
    "evaluations.retry": calls.retry_evaluation,
    "evaluations.replies": calls.list_scored_replies,
    "evaluations.reply": calls.get_scored_reply,
    "evaluations.points": calls.get_points,
    "evaluations.download": calls.download_evaluation,
    "evaluations.compare": calls.compare_evaluations,
    "evaluations.notes": calls.list_notes,
    "evaluations.put_note": calls.put_note,
    "schedules.list": calls.list_schedules,
    "schedules.get": calls.get_schedule,
    "schedules.put": calls.put_schedule,
    "schedules.delete": calls.delete_schedule,
    "bots.list": calls.list_bots,
    "bots.get": calls.get_bot,
    "bots.put": calls.put_bot,
    "bots.delete": calls.delete_bot,
    "bots.reply": calls.reply_to_dialogues,
    "studies.list": calls.list_studies,
    "studies.create": calls.create_study,
    "studies.get": calls.get_study,
    "studies.amend": calls.amend_study,
    "studies.add_items": calls.add_study_items,
    "studies.delete": calls.delete_study,
    "studies.pilot": calls.pilot_study,
    "studies.open": calls.open_study,
    "studies.pause": calls.pause_study,
    "studies.close": calls.close_study,
    "studies.preview": calls.preview_study,
    "studies.invite": calls.create_invites,
    "studies.invites": calls.list_invites,
    "studies.revoke": calls.revoke_invite,
    "studies.progress": calls.get_study_progress,
    "studies.participants": calls.list_participants,
    "studies.participant": calls.get_participant,
    "studies.exclude": calls.exclude_participant,
    "studies.resume_link": calls.renew_resume_link,
    "studies.erase": calls.erase_participant,
    "studies.report": calls.get_study_report,
    "studies.agreement": calls.get_study_agreement,
    "studies.disagreements": calls.list_disagreements,
    "studies.adjudicate": calls.adjudicate_item,
    "studies.power": calls.plan_study,
    "studies.export": calls.export_study,
    "keys.own": calls.get_own_key,
    "keys.list": calls.list_keys,
    "keys.create": calls.create_key,
    "keys.revoke": calls.revoke_key,
    "audit.list": calls.list_audit,
}
IN_PAGES = (".list", ".versions", ".ingests", ".invites", ".participants")
IN_TWO = {calls.publish_index, calls.publish_rater}  # publish() and rollback()


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


def keys_of(model: type[models.Model]) -> dict[str, Any]:
    hints = typing.get_type_hints(model)
    return {one.metadata.get("key", one.name): hints[one.name] for one in fields(model)}  # type: ignore[arg-type]


def needed(model: type[models.Model]) -> set[str]:
    return {
        one.metadata.get("key", one.name)
        for one in fields(model)  # type: ignore[arg-type]
        if one.default is MISSING and one.default_factory is MISSING
    }


def model_in(hint: Any) -> Any:
    """The model in an annotation, where there is one."""
    if isinstance(hint, type) and issubclass(hint, models.Model):
        return hint
    return next((found for one in typing.get_args(hint) if (found := model_in(one))), None)


def require_known(document: dict[str, Any], schema: dict[str, Any], model: type[models.Model], where: str) -> None:
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
            kind = models.Job if "resources" in schema["properties"] else model
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
                if isinstance(found, models.Rows):
                    (key,) = model
                    assert found.to_dicts() == value[key], name
                elif found is not None:
                    assert found.to_dict() == value, name
                    assert found.request_id == value["request_id"], name
                read += 1
    assert read >= 20


def answered(status: int, value: Any) -> Answer:
    return Answer(status, {"content-type": "application/json"}, json.dumps(value).encode())


# ── methods ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_everything_that_its_call_does(kind: type[Any], name: str) -> None:
    client = kind("http://127.0.0.1:1")
    part, _, method = name.rpartition(".")
    asks = getattr(getattr(client, part) if part else client, method)
    wanted, taken = inspect.signature(METHODS[name]).parameters, inspect.signature(asks).parameters
    for parameter in wanted.values():
        if name.endswith(".start") and parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
            continue
        assert parameter.name in taken, parameter.name
        if not (name.endswith(IN_PAGES) and parameter.name == "limit"):
            assert taken[parameter.name].default == parameter.default, parameter.name
    assert "timeout_s" in taken or name == "jobs.events"


def test_every_call_has_a_method() -> None:
    made = {
        found
        for name, found in vars(calls).items()
        if inspect.isfunction(found) and str(inspect.signature(found).return_annotation).startswith("Call[")
    }
    assert made == set(METHODS.values()) | IN_TWO


# ── what goes in ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_said_is_not_sent() -> None:
    assert calls.score([ITEM]).body == {"items": [ITEM]}
    assert calls.references([ITEM]).body == {"items": [ITEM]}
    assert calls.score_set("abcdef", ["x"]).body == {"replies": {"model": ["x"]}}
    assert calls.publish_index("chat", version="1").body == {"version": "1"}


def test_generators_tuples_and_columns_become_lists() -> None:
    assert calls.references(one for one in (ITEM,)).body == {"items": [ITEM]}
    assert calls.score_set("abcdef", (one for one in "xy"), items=iter(("a", "b"))).body == {
        "items": ["a", "b"],
        "replies": {"model": ["x", "y"]},
    }


@pytest.mark.parametrize("wrong", ["d1", b"d1", {"id": "d1"}, 3, None])
def test_single_value_in_place_of_a_list_is_refused_before_sending(wrong: Any) -> None:
    for ask in (calls.references, calls.score, calls.rate, calls.combine):
        with pytest.raises(Usage, match="is not a list"):
            ask(wrong)
    with pytest.raises(Usage, match="is not a list"):
        calls.post_dialogues("chat", wrong)


@pytest.mark.parametrize("wrong", ["a reply", {"a": "a reply"}, 3])
def test_a_text_is_not_taken_for_a_list_of_its_letters(wrong: Any) -> None:
    with pytest.raises(Usage, match="list"):
        calls.score_set("abcdef", wrong)
    with pytest.raises(Usage, match="list"):
        calls.score([ITEM], replies=wrong)


def test_replies_replace_those_of_the_items_in_order() -> None:
    pairs = [{"id": "d1", "replies": {"old": "x"}}, {"id": "d2"}]
    body = calls.score(pairs, replies={"new": ["a", None], "newer": ["b", "c"]}).body
    assert body["items"] == [
        {"id": "d1", "replies": {"new": "a", "newer": "b"}},
        {"id": "d2", "replies": {"newer": "c"}},
    ]
    assert pairs[0] == {"id": "d1", "replies": {"old": "x"}}
    with pytest.raises(Usage, match="1 replies of 'model' to 2 items"):
        calls.score(pairs, replies=["a"])
    with pytest.raises(Usage, match=r"items\[0\]: 'd1' is no item"):
        calls.score(["d1"], replies=["a"])  # type: ignore[list-item]


def test_one_metric_or_several_but_not_both() -> None:
    assert calls.score([ITEM], metric="bleu").body["metrics"] == ["bleu"]
    assert calls.score([ITEM], metrics="bleu").body["metrics"] == ["bleu"]
    assert calls.score([ITEM], metrics=("bleu", "chrf")).body["metrics"] == ["bleu", "chrf"]
    with pytest.raises(Usage, match="one of the two"):
        calls.score([ITEM], metric="bleu", metrics=["chrf"])


def test_moments_are_sent_as_iso_8601() -> None:
    when = datetime(2026, 11, 20, 8, 30, tzinfo=timezone.utc)
    assert calls.references([ITEM], settings={"after": when, "k": 3}).body["settings"] == {
        "after": "2026-11-20T08:30:00+00:00",
        "k": 3,
    }
    with pytest.raises(Usage, match="no dict"):
        calls.references([ITEM], settings=5)  # type: ignore[arg-type]


def test_what_the_server_gave_goes_back_as_it_came() -> None:
    item = models.ReferencedItem.of({"id": "d1", "references": [], "evidence": {}, "future": [1]})
    assert calls.score([item]).body["items"] == [{"id": "d1", "references": [], "evidence": {}, "future": [1]}]
    sums = models.Scores.of({"stats": [], "scores": [], "data": "x"})
    assert calls.combine([sums, {"stats": []}]).body["batches"] == [sums.to_dict(), {"stats": []}]


def test_candidates_become_objects_and_malformed_pairs_go_to_the_server() -> None:
    pair = {"utterance": "a", "golds": ["b"], "candidates": ["c", {"text": "d", "utterance": "e"}]}
    assert calls.rate([pair]).body["pairs"][0]["candidates"] == [{"text": "c"}, {"text": "d", "utterance": "e"}]
    assert calls.rate(["no pair"]).body["pairs"] == ["no pair"]  # type: ignore[list-item]
    assert calls.post_dialogues("chat", [["a", "b"]]).body["dialogues"] == [{"turns": ["a", "b"]}]


@pytest.mark.parametrize("name", ["", ".", "..", None, 3])
def test_what_is_no_name_is_refused(name: Any) -> None:
    for ask in (calls.get_set, calls.get_log, calls.get_job, calls.get_index, calls.get_schedule, calls.explain):
        with pytest.raises(Usage, match="no name"):
            ask(name)


def test_a_name_cannot_become_a_path() -> None:
    assert calls.get_log("a/../b?c#d é").path == "/v1/logs/a%2F..%2Fb%3Fc%23d%20%C3%A9"
    assert calls.erase_dialogue("chat", "a/b").path == "/v1/logs/chat/dialogues/a%2Fb"


def test_only_what_does_harm_twice_is_not_repeated() -> None:
    unsafe = {name for name, (call, _) in ROUTES.items() if not call.may_be_repeated}
    assert unsafe == {
        *("PUT /v1/indexes/{name}/current", "PUT /v1/raters/{name}/current"),  # both as rollback
        *("POST /v1/uploads", "DELETE /v1/evaluations/{id}", "POST /v1/evaluations/{id}/retry"),
        "POST /v1/evaluations/{id}/cancel",
        *("POST /v1/studies", "DELETE /v1/studies/{id}", "POST /v1/studies/{id}/dialogues"),
        *("POST /v1/studies/{id}/invites", "POST /v1/studies/{id}/pilot", "POST /v1/studies/{id}/open"),
        *("POST /v1/studies/{id}/pause", "POST /v1/studies/{id}/close"),
    }
    assert calls.publish_index("chat", version="1").may_be_repeated
    keyed = {name for name, (call, _) in ROUTES.items() if call.keyed}
    assert keyed == {
        *("POST /v1/jobs", "POST /v1/evaluations", "POST /v1/reference-sets"),
        "DELETE /v1/logs/{name}/dialogues/{dialogue}",
    }
