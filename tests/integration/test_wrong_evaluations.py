"""Orders of evaluations that make no sense are refused before any work, with the field that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from evaluated import BYTES, TABLE
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

UPLOAD = "upload:0gk2xv7q3m9t00d4z8r1c5w6ab"
SCORE: Mapping[str, Any] = {"kind": "score", "items": UPLOAD}
META: Mapping[str, Any] = {"kind": "meta", "data": [UPLOAD]}
LINES: Mapping[str, Any] = {"kind": "score", "replies": {"a": UPLOAD}, "references": [UPLOAD]}
LONG = "x" * 1_001
# What the order is, the status, and the field or the words that the answer names.
WRONG: Mapping[str, tuple[Any, int, str]] = {
    "no object": ([], 422, "object"),
    "no kind": ({"items": UPLOAD}, 422, "kind"),
    "another kind": ({**SCORE, "kind": "ingest"}, 422, "kind"),
    "a kind that is a number": ({**SCORE, "kind": 1}, 422, "kind"),
    "score: no files": ({"kind": "score"}, 422, "items"),
    "score: items that are a list": ({**SCORE, "items": [UPLOAD]}, 422, "items"),
    "score: items that are empty": ({**SCORE, "items": ""}, 422, "items"),
    "score: items and lines": ({**SCORE, "replies": {"a": UPLOAD}, "references": [UPLOAD]}, 422, "items"),
    "score: lines without references": ({"kind": "score", "replies": {"a": UPLOAD}}, 422, "references"),
    "score: lines without replies": ({"kind": "score", "references": [UPLOAD]}, 422, "replies"),
    "score: replies that are a list": ({**LINES, "replies": [UPLOAD]}, 422, "replies"),
    "score: a system without a name": ({**LINES, "replies": {"": UPLOAD}}, 422, "replies"),
    "score: a system with a long name": ({**LINES, "replies": {"s" * 201: UPLOAD}}, 422, "replies"),
    "score: references that are a text": ({**LINES, "references": UPLOAD}, 422, "references"),
    "score: a mapping of lines": ({**LINES, "map": ["utterance=prompt"]}, 422, "map"),
    "score: a cut file of lines": ({**LINES, "allow_truncated": True}, 422, "allow_truncated"),
    "score: a mapping without a column": ({**SCORE, "map": ["utterance"]}, 422, "utterance"),
    "score: a mapping of no field": ({**SCORE, "map": ["colour=prompt"]}, 422, "colour"),
    "score: a mapping that is a text": ({**SCORE, "map": "utterance=prompt"}, 422, "map"),
    "score: another shape": ({**SCORE, "shape": "column"}, 422, "shape"),
    "score: no encoding": ({**SCORE, "encoding": "utf-99"}, 422, "score.encoding"),
    "score: a metric that is a number": ({**SCORE, "metrics": [1]}, 422, "metrics[0]"),
    "score: metrics that are a text": ({**SCORE, "metrics": "bleu"}, 422, "metrics"),
    "score: a thousand and one metrics": ({**SCORE, "metrics": ["bleu"] * 1_001}, 422, "metrics"),
    "score: draws below nothing": ({**SCORE, "draws": -1}, 422, "draws"),
    "score: draws without an end": ({**SCORE, "draws": 10**9}, 422, "draws"),
    "score: draws that are a text": ({**SCORE, "draws": "many"}, 422, "draws"),
    "score: a comparison without draws": ({**SCORE, "baseline": "a", "draws": 0}, 422, "draws"),
    "score: certainty": ({**SCORE, "confidence": 1.0}, 422, "confidence"),
    "score: confidence that is not a number": ({**SCORE, "confidence": "NaN"}, 422, "confidence"),
    "score: a seed below nothing": ({**SCORE, "seed": -1}, 422, "seed"),
    "score: settings without an index": ({**SCORE, "settings": {"k": 5}}, 422, "settings"),
    "score: a search for nothing": ({**SCORE, "index": "chat", "settings": {"k": 0}}, 422, "settings.k"),
    "score: no preset": ({**SCORE, "settings": {"preset": "tsuta21"}}, 422, "settings.preset"),
    "score: a name with a path": ({**SCORE, "index": "../chat"}, 422, "index"),
    "score: a rater by a long name": ({**SCORE, "rater": LONG}, 422, "rater"),
    "score: no threads": ({**SCORE, "threads": 0}, 422, "threads"),
    "score: a long title": ({**SCORE, "name": "n" * 201}, 422, "name"),
    "score: a field of no order": ({**SCORE, "color": "red"}, 422, "color"),
    "score: a field of the other kind": ({**SCORE, "data": [UPLOAD]}, 422, "data"),
    "score: an upload that is not there": (SCORE, 404, "0gk2xv7q3m9t00d4z8r1c5w6ab"),
    "score: no id of an upload": ({**SCORE, "items": "upload:../x"}, 404, "../x"),
    "meta: no data": ({"kind": "meta"}, 422, "data"),
    "meta: nothing in data": ({**META, "data": []}, 422, "data"),
    "meta: data that is a text": ({**META, "data": UPLOAD}, 422, "data"),
    "meta: a hundred and one sets": ({**META, "data": [UPLOAD] * 101}, 422, "data"),
    "meta: other rows": ({**META, "rows": "some"}, 422, "rows"),
    "meta: no draws": ({**META, "draws": 0}, 422, "draws"),
    "meta: an agreement above one": ({**META, "min_kappa": 1.5}, 422, "min_kappa"),
    "meta: a field of the other kind": ({**META, "items": UPLOAD}, 422, "items"),
    "meta: an upload that is not there": (META, 404, "0gk2xv7q3m9t00d4z8r1c5w6ab"),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(migrated(Settings(home=tmp_path_factory.mktemp("wrong") / "home")), ready=False) as opened:
        yield opened


@pytest.mark.parametrize(("order", "status", "named"), WRONG.values(), ids=WRONG)
def test_a_wrong_order_is_refused_with_its_field(client: TestClient, order: Any, status: int, named: str) -> None:
    answer = client.post("/v1/evaluations", json=order)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status), answer.text
    listed = [f"{entry['field']} {entry['message']}" for entry in problem.get("errors", [])]
    assert named in " ".join([*listed, problem["detail"]]), answer.text
    assert problem.get("remedy") or listed, answer.text
    assert client.get("/v1/evaluations").json()["evaluations"] == []


def test_an_agreement_of_more_work_than_the_limit_ends_before_anything_is_scored(tmp_path: Path) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with client_of(home, ready=False) as client:
        upload = client.post("/v1/uploads?name=a.csv", content=TABLE, headers=BYTES).json()["id"]
        order = {"kind": "meta", "metrics": ["chrf"], "data": [f"upload:{upload}"], "draws": 1_000_000}
        asked = client.post("/v1/evaluations", json=order)
        assert asked.status_code == 202, asked.text
        assert run_worker(home, ServeSettings(evaluation_s=1), once=True) == 0
        failed = client.get(asked.headers["location"]).json()
        assert (failed["state"], failed["error"]["code"]) == ("failed", "too_large")
        assert all(
            fact in failed["error"]["message"] for fact in ("16 replies", "1,000,000 draws", "evaluation_s", "1 s")
        )
        events = client.get(f"/v1/jobs/{failed['id']}/events").text
        assert ('"stage":"read"' in events, '"stage":"score' in events) == (True, False)


@pytest.mark.parametrize("kind", ["score", "meta"])
def test_an_evaluation_of_more_replies_than_the_limit_ends_as_it_reads_them(tmp_path: Path, kind: str) -> None:
    home = migrated(Settings(home=tmp_path / "home"))
    with client_of(home, ready=False) as client:
        uploads = [
            client.post(f"/v1/uploads?name={name}.csv", content=TABLE, headers=BYTES).json()["id"] for name in "ab"
        ]
        files = [f"upload:{upload}" for upload in uploads]  # 16 replies each
        order = {"items": files[0]} if kind == "score" else {"data": files}
        asked = client.post("/v1/evaluations", json={"kind": kind, "metrics": ["chrf"], **order})
        assert asked.status_code == 202, asked.text
        limit = 15 if kind == "score" else 31  # of all sets together
        assert run_worker(home, ServeSettings(evaluation_replies=limit), once=True) == 0
        failed = client.get(asked.headers["location"]).json()
        assert (failed["state"], failed["error"]["code"]) == ("failed", "too_large")
        assert all(str(fact) in failed["error"]["message"] for fact in ("a" if kind == "score" else "b", limit))
        assert "evaluation_replies" in failed["error"]["remedy"]
        assert [upload["id"] for upload in client.get("/v1/uploads").json()["uploads"]] == uploads[::-1]
        if kind == "score":
            client.post(f"{asked.headers['location']}/retry")
            assert run_worker(home, ServeSettings(evaluation_replies=16), once=True) == 0
            assert client.get(asked.headers["location"]).json()["counts"]["replies"] == 16
