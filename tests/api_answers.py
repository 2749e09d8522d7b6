"""What every route answers, over a home of a few dialogues: `python tests/api_answers.py` writes it down for the pages.

A test asks all of it again and holds what was written down to it; figures may differ, what is told may not.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from engines import add_rater, publish_first
from indexes import build, home_of, pairs_of
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.conversations.hybrids import HybridOrder, fit_hybrid
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.options import EncoderRequest, HybridSettings
from refaug.extras.conversations.reading import Conversation
from refaug.logs.store import StoredLog
from refaug.service.database.tables import BACKED_UP
from refaug.service.history.hourly_figures import REQUESTS, hour_of, latency_name
from refaug.service.jobs.store import JobState
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings
from refaug.service.web import openapi
from refaug.service.web.handling.service_sizes import measure_sizes
from refaug.service.web.state import ServiceState

SAID = (
    ("Where do you buy tea?", "In the shop at the corner."),
    ("Where do you get your tea?", "At the market, on Saturdays."),
    ("Where can one buy good tea?", "The market has the best."),
    ("Who sells bread at noon?", "The mill does."),
    ("Who has bread on Sundays?", "Nobody, I am afraid."),
    ("Do you like tea?", "Yes, with milk."),
)
_ITEM = {"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}
_TABLE = b"""id,prompt,gold,before,after
d1,Where do you buy tea?,At the market.,At the shop.,At the old market.
d2,Do you like tea?,"Yes, with milk.",No.,"Yes, with milk and sugar."
d3,Who sells bread?,The mill does.
"""
_REQUEST_ID = "3f9a1c7e5b2d8046"
Asked = dict[str, Any]


@contextmanager
def answering(folder: Path) -> Iterator[TestClient]:
    """A client of the service over a log, an index `chat` and a rater `base`."""
    pairs = pairs_of(*SAID)
    words = sorted({word for pair in SAID for text in pair for word in get_tokenizer("word").tokenize(text)})
    rows = np.random.default_rng(1).standard_normal((len(words), 6)).astype(np.float32)
    home = Settings(home=folder / "home")
    places = home_of(home.home, pairs, dict(zip(words, rows.tolist(), strict=True)))
    said = replace(
        StoredLog.open(places.logs, "chat").manifest,
        created="2026-11-20T07:00:00+00:00",
        updated="2026-11-20T07:00:00+00:00",
        totals={"pairs": len(SAID), "dialogues": len(SAID), "distinct_utterances": len(SAID)},
    )
    said.write(places.logs / "chat")
    for number in range(2):
        build(places)
        add_rater(home, folder / f"tools-{number}", temperature=1.0)
    for kind, name in (("index", "chat"), ("rater", "base")):
        publish_first(artefact_stores(home)[kind], name)
    with client_of(migrated(home), headers={"X-Request-Id": _REQUEST_ID}) as client:
        yield client


@dataclass
class Recorder:
    """Asks, and keeps what was asked and answered."""

    client: TestClient
    kept: dict[str, Asked] = field(default_factory=dict)
    keeps_all: bool = False  # not only what the pages show of an answer

    def ask(self, name: str, method: str, path: str, body: Any = None, *, content: bytes | None = None) -> Any:
        """The answer, kept under the operation's name; `content` is sent as the bytes of a file."""
        sent: Any = {} if body is None else {"json": body}
        if content is not None:
            sent = {"content": content, "headers": {"Content-Type": "application/octet-stream"}}
        answer = self.client.request(method, path, **sent)
        assert answer.status_code < 300, (name, answer.text)
        kept: Asked = {"method": method, "path": path, "status": answer.status_code}
        if body is not None:
            kept["body"] = body
        kind = answer.headers["content-type"].partition(";")[0]
        found: Any = answer.json() if kind == "application/json" else answer.text
        if kind == "application/json":
            kept["answer"] = deepcopy(found) if self.keeps_all else shortened(found)
        elif kind == "application/x-ndjson":
            kept["answer"] = f"{orjson.dumps(masked(orjson.loads(found.splitlines()[0]))).decode()}\n"
        elif kind != "application/zstd":
            lines = found.splitlines()
            ours = [line for line in lines if "refaug" in line][:12] if name == "get_figures" else lines
            kept["answer"] = "".join(f"{line}\n" for line in ours)
        self.kept[name] = kept
        return found


def masked(record: dict[str, Any]) -> dict[str, Any]:
    """A record of a study with dots for what is drawn, and one turn."""
    sides = [
        {**side, "turns": [{**turn, "at": "…", "ms": None} for turn in side["turns"][:1]]} for side in record["sides"]
    ]
    drawn = ("task", "participant", "started", "ended", "protocol_sha256")
    return {**record, **dict.fromkeys(drawn, "…"), "seconds": 1.0, "sides": sides}


def shortened(value: Any) -> Any:
    """Of every list of objects the first three."""
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shortened(one) for one in (value[:3] if value and isinstance(value[0], dict) else value)]
    return value


def first_example(client: TestClient, name: str) -> Any:
    """The first example of a body in the document."""
    found = client.get("/openapi.json").json()["paths"]
    bodies = {
        operation["operationId"]: operation["requestBody"]["content"].get("application/json", {}).get("examples", {})
        for operations in found.values()
        for operation in operations.values()
        if "requestBody" in operation
    }
    return next(iter(bodies[name].values()))["value"]


def answers(client: TestClient, *, keeps_all: bool = False) -> Mapping[str, Asked]:
    """One request to every route, in an order in which each finds what it asks for."""
    recorder = Recorder(client, keeps_all=keeps_all)
    ask = recorder.ask

    def of(name: str) -> Any:
        return first_example(client, name)

    ask("get_health", "GET", "/healthz")
    ask("get_readiness", "GET", "/readyz")
    ask("get_figures", "GET", "/metrics")
    ask("get_problem", "GET", "/problems/no_rater")
    ask("list_metrics", "GET", "/v1/metrics")
    for name, path in (
        ("find_references", "/v1/references"),
        ("reply", "/v1/replies"),
        ("score", "/v1/scores"),
        ("rate", "/v1/ratings"),
    ):
        ask(name, "POST", path, of(name))
    replies = {"a": "In the shop next door.", "b": "I don't know."}
    batch = {"items": [{**_ITEM, "replies": replies}], "metrics": ["bleu"], "return": "stats"}
    sums = client.post("/v1/scores", json=batch).json()
    batch.pop("return")
    ask(
        "verify_scores",
        "POST",
        "/v1/verifications",
        {"scores": client.post("/v1/scores", json=batch).json(), "items": batch["items"]},
    )
    ask("combine_scores", "POST", "/v1/scores/combine", {"batches": [sums]})

    _ask_of_sets(recorder, of)

    ask("list_all_logs", "GET", "/v1/logs")
    ask("post_dialogues", "POST", "/v1/logs/chat/dialogues", of("post_dialogues"))
    ask("get_log", "GET", "/v1/logs/chat")
    ask("list_ingests", "GET", "/v1/logs/chat/ingests")
    ask("erase_dialogue", "DELETE", "/v1/logs/chat/dialogues/d1")
    ask("list_artefacts", "GET", "/v1/artefacts/index")
    ask("get_artefact", "GET", "/v1/artefacts/index/chat")
    versions = ask("list_artefact_versions", "GET", "/v1/artefacts/index/chat/versions")["versions"]
    ask("publish_artefact", "PUT", "/v1/artefacts/index/chat/current", {"version": versions[1]["version"]})

    job = ask("start_job", "POST", "/v1/jobs", of("start_job"))["id"]
    ask("list_jobs", "GET", "/v1/jobs")
    ask("get_job", "GET", f"/v1/jobs/{job}")
    ask("cancel_job", "DELETE", f"/v1/jobs/{job}")
    ask("follow_job", "GET", f"/v1/jobs/{job}/events")  # it has ended, and so does the stream
    ask("retry_job", "POST", f"/v1/jobs/{job}/retry")

    _ask_of_evaluations(recorder)

    ask("put_schedule", "PUT", "/v1/schedules/nightly", of("put_schedule"))
    ask("list_schedules", "GET", "/v1/schedules")
    ask("get_schedule", "GET", "/v1/schedules/nightly")
    ask("delete_schedule", "DELETE", "/v1/schedules/nightly")
    ask("put_bot", "PUT", "/v1/bots/fixed", of("put_bot"))
    ask("list_bots", "GET", "/v1/bots")
    ask("list_bot_use", "GET", "/v1/bot-use")
    ask("get_bot", "GET", "/v1/bots/fixed")
    ask("reply_to_dialogues", "POST", "/v1/bots/fixed/replies", of("reply_to_dialogues"))
    _ask_of_studies(recorder)
    ask("delete_bot", "DELETE", "/v1/bots/fixed")
    ask("list_audit_log", "GET", "/v1/audit")
    _measure(recorder.client.app.state.refaug)
    ask("list_figures", "GET", "/v1/figures?hours=1")
    _fit_hybrid(recorder.client.app.state.refaug.home)
    ask("score_by_hybrid", "POST", "/v1/hybrids/talks/scores", of("score_by_hybrid"))
    _ask_of_keys(recorder, of)
    return recorder.kept


def _measure(state: ServiceState) -> None:
    """Store figures of the running hour, and a backup."""
    hour = hour_of(datetime.now(UTC))
    state.hourly_figures.add("example", 1, {hour: {REQUESTS: 40, latency_name(0.025): 38, latency_name(0.1): 2}})
    state.hourly_figures.set_sizes(hour, measure_sizes(state))
    state.audit.add("user refaug", BACKED_UP, "backup 2026-11-20", bytes=81_920, files=31, rows=12, damaged=0)


def _fit_hybrid(home: Settings) -> None:
    """Fit a hybrid to conversations of the same texts, better rated the longer they are."""
    talks = [
        Conversation(
            id=f"c{number}",
            bot=f"b{number % 6}",
            turns=tuple(
                (Side.BOT if place % 2 else Side.PERSON, SAID[(number * place + place // 2) % len(SAID)][place % 2])
                for place in range(2 + 2 * (number % 4))
            ),
            ratings={"quality": 1 + number % 4 + number % 3},
        )
        for number in range(60)
    ]
    order = HybridOrder(
        encoders=EncoderRequest(vectors=artefact_stores(home)["vectors"].names()[0]),
        settings=HybridSettings(draws=100),
        judges=None,
        columns="hybrid",
    )
    fit_hybrid(home, "talks", talks, order, Silent())


def _ask_of_studies(recorder: Recorder) -> None:
    """Make a study, and take part in it; tokens are written down as dots."""
    ask, client, studies = recorder.ask, recorder.client, "/v1/studies"
    protocol = {
        "kind": "chat",
        "title": "Talk with a bot",
        "bots": ["fixed"],
        "min_turns": 1,
        "form": {"name": "short", "questions": [{"id": "quality", "type": "likert", "text": "How good was it?"}]},
        "training": {"items": [{"id": "t1", "turns": ["Hi!", "Hm."], "answers": {"quality": [1, 2, 3]}}]},
        "consent": "We store what you write. You may stop at any time.",
    }
    items = [{"id": "d1", "turns": ["Hi!"], "replies": {"a": "Hello.", "b": "Go away."}}]
    ask("create_study", "POST", studies, {"name": "first", "protocol": protocol})
    judged = {"name": "second", "protocol": {"kind": "rate-reply", "consent": "We store your answers."}}
    client.post(studies, json=judged)
    ask("add_study_items", "POST", f"{studies}/second/dialogues", {"items": items})
    ask("list_studies", "GET", studies)
    ask("preview_study", "GET", f"{studies}/first/preview")
    ask("pilot_study", "POST", f"{studies}/first/pilot")
    ask("open_study", "POST", f"{studies}/first/open")
    ask("amend_study", "PUT", f"{studies}/first/protocol", {"protocol": {**protocol, "skips": 1}, "reason": "a slip"})
    invites = ask("create_invites", "POST", f"{studies}/first/invites", {"count": 2, "label": "pilot"})["invites"]
    for invite in recorder.kept["create_invites"]["answer"]["invites"]:
        invite |= {"token": "…", "link": "/take#…"}
    ask("list_invites", "GET", f"{studies}/first/invites")
    ask("revoke_invite", "DELETE", f"{studies}/first/invites/{invites[1]['id']}")
    _take_part(recorder, invites[0]["token"])
    ask("get_study", "GET", f"{studies}/first")
    ask("get_study_progress", "GET", f"{studies}/first/progress")
    ask("plan_study", "POST", f"{studies}/power", {"difference": 0.75, "ratings_per_participant": 2})
    ask("get_study_report", "GET", f"{studies}/first/report?draws=100")
    ask("get_study_agreement", "GET", f"{studies}/first/agreement")
    ask("list_disagreements", "GET", f"{studies}/first/disagreements")
    decided = {"item": "d1/a", "question": "overall", "value": 4, "note": "an outlier"}
    ask("adjudicate_item", "PUT", f"{studies}/second/adjudications", decided)
    ask("list_responses", "GET", f"{studies}/first/responses")
    ask("find_recruits", "POST", f"{studies}/first/recruits", {"ids": ["5f3c0a1b2d"]})
    people = ask("list_participants", "GET", f"{studies}/first/participants")["participants"]
    at = f"{studies}/first/participants/{people[0]['code']}"
    ask("get_participant", "GET", at)
    ask("exclude_from_report", "PUT", f"{at}/exclusion", {"reason": "a test of ours"})
    ask("export_study", "GET", f"{studies}/first/export")
    renewed = ask("renew_resume_link", "POST", f"{at}/resume-link")
    client.headers["X-Action"] = "example-withdraw-000000"
    client.post("/v1/take/session", json={"token": renewed["token"]})
    ask("withdraw", "POST", "/v1/take/withdraw", {})
    del client.headers["X-Action"]
    ask("erase_study_participant", "DELETE", at)
    _hide_resume(recorder.kept)
    ask("pause_study", "POST", f"{studies}/first/pause")
    ask("close_study", "POST", f"{studies}/first/close")
    ask("follow_study", "GET", f"{studies}/first/events")  # it is closed, and so the stream ends
    ask("delete_study", "DELETE", f"{studies}/second")


def _hide_resume(kept: Mapping[str, Asked]) -> None:
    """Write the links of other devices down as dots."""
    kept["open_session"]["answer"]["resume"] = "r.…"
    kept["renew_resume_link"]["answer"] |= {"token": "r.…", "link": "/take#r.…"}


def _take_part(recorder: Recorder, token: str) -> None:
    """Walk through a study as the page of a participant does."""
    client = recorder.client

    def ask(name: str, path: str, body: Any) -> dict[str, Any]:
        client.headers["X-Action"] = f"example-{name}-000000000"[:40]
        answer: dict[str, Any] = recorder.ask(name, "POST", f"/v1/take/{path}", body)
        return answer

    state = ask("open_session", "session", {"token": token})
    recorder.kept["open_session"]["body"] = {"token": "…"}
    ask("give_consent", "consent", {"sha256": state["consent"]["sha256"], "agree": True})
    ask("answer_training", "training", {"item": "t1", "answers": {"quality": 2}})
    task = ask("take_next_task", "tasks/next", {})["state"]["task"]["id"]
    ask("send_message", f"tasks/{task}/messages", {"n": 1, "text": "Hi!"})
    while client.get("/v1/take/state?wait=20").json()["task"]["sides"][0]["messages"][-1]["state"] == "asked":
        pass
    recorder.ask("get_state", "GET", "/v1/take/state")
    ask("ask_again", f"tasks/{task}/retry", {})
    ask("vote_on_reply", f"tasks/{task}/votes", {"n": 2, "value": 1})
    ask("store_answers", f"tasks/{task}/answers", {"answers": {"quality": 6}})
    ask("finish_task", f"tasks/{task}/finish", {})
    ask("undo_action", "undo", {})
    ask("skip_task", f"tasks/{task}/skip", {"reason": "it is about something that I do not talk about"})
    recorder.ask("export_own_data", "GET", "/v1/take/export")
    del client.headers["X-Action"]


def _ask_of_keys(recorder: Recorder, of: Any) -> None:
    """Ask a server that asks for keys, over the same home; its tokens are written down as dots."""
    state = recorder.client.app.state.refaug
    token, _ = KeyStore(state.database).create("operator", [Scope.ADMIN])
    headers = {"Authorization": f"Bearer {token}", "X-Request-Id": _REQUEST_ID}
    with client_of(state.home, ready=False, keys=True, headers=headers) as client:
        keyed = Recorder(client, recorder.kept, recorder.keeps_all)
        keyed.ask("get_own_key", "GET", "/v1/key")
        made = keyed.ask("create_key", "POST", "/v1/keys", of("create_key"))
        keyed.kept["create_key"]["answer"]["token"] = f"refaug_{made['id']}_…"
        keyed.ask("list_keys", "GET", "/v1/keys")
        keyed.ask("revoke_key", "DELETE", f"/v1/keys/{made['id']}")


def _ask_of_evaluations(recorder: Recorder) -> None:
    """Ask for scores of an uploaded table, done by a worker in between."""
    ask, state = recorder.ask, recorder.client.app.state.refaug
    file = ask("upload_file", "POST", "/v1/uploads?name=table.csv", content=_TABLE)["id"]
    ask("list_uploads", "GET", "/v1/uploads")
    ask("get_upload", "GET", f"/v1/uploads/{file}")
    ask("download_upload", "GET", f"/v1/uploads/{file}/content")
    files = {"items": f"upload:{file}", "map": ["utterance=prompt", "reply:old=before", "reply:new=after"]}
    ask("preview_files", "POST", "/v1/uploads/preview", files)
    order = {"kind": "score", **files, "metrics": ["multi-bleu", "chrf"], "baseline": "old", "draws": 100}
    made = ask("start_evaluation", "POST", "/v1/evaluations", order)["id"]
    ask("cancel_evaluation", "POST", f"/v1/evaluations/{made}/cancel")
    ask("retry_evaluation", "POST", f"/v1/evaluations/{made}/retry")
    for job in state.jobs.list(state=JobState.QUEUED)[0]:
        if job.id != made:
            state.jobs.cancel(job.id)
    run_worker(state.home, ServeSettings(), once=True)
    at = f"/v1/evaluations/{made}"
    ask("list_evaluations", "GET", "/v1/evaluations")
    ask("get_evaluation", "GET", at)
    ask("list_scored_replies", "GET", f"{at}/replies?sort=disagreement&other=1&order=descending&limit=2")
    ask("get_scored_reply", "GET", f"{at}/replies/0")
    ask("get_points", "GET", f"{at}/points")
    ask("put_note", "PUT", f"{at}/notes/0", {"text": "right, but of another dialogue"})
    ask("list_notes", "GET", f"{at}/notes")
    ask("download_evaluation", "GET", f"{at}/download?format=latex")
    ask("compare_two_evaluations", "GET", f"{at}/comparison?with={made}&first_system=old&second_system=new&limit=1")
    ask("remove_evaluation", "DELETE", at)
    ask("remove_upload", "DELETE", f"/v1/uploads/{file}")


def _ask_of_sets(recorder: Recorder, of: Any) -> None:
    ask, sets = recorder.ask, "/v1/reference-sets"
    made = ask("freeze_set", "POST", sets, of("freeze_set"))["id"]
    ask("list_sets", "GET", sets)
    ask("get_set", "GET", f"{sets}/{made}")
    ask("derive_set", "POST", f"{sets}/{made}/derive", of("derive_set"))
    asked = of("score_against_set")
    ask("score_against_set", "POST", f"{sets}/{made}/scores", asked)
    ask("download_set", "GET", f"{sets}/{made}/download")
    ask("withdraw_set", "DELETE", f"{sets}/{made}?reason=a%20dialogue%20was%20erased")


def main() -> None:
    """Write them down."""
    with tempfile.TemporaryDirectory() as folder, answering(Path(folder)) as client:
        kept = orjson.dumps(answers(client), option=orjson.OPT_INDENT_2)
    openapi.EXAMPLES_FILE.write_bytes(kept + b"\n")


if __name__ == "__main__":
    sys.exit(main())
