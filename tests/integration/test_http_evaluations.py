"""Evaluations over HTTP: uploads, previews, the jobs that score them, and the routes to their results."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.errors import Interrupted, StorageFull
from refaug.core.files import read_json, with_checksum, write_json
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.scoring.score_files.score_file import ScoreFile
from refaug.service.database.database import Database
from refaug.service.evaluations.evaluation_store import remove_expired
from refaug.service.evaluations.uploads import UploadFormat, UploadStore, new_upload_id
from refaug.service.jobs import kinds
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

BYTES = {"Content-Type": "application/octet-stream"}
TABLE = "id,prompt,gold,old,new\n" + "".join(
    f"{place},how are you {place},i am fine {place},i am {place},i am fine {place} thanks\n" for place in range(8)
)
COMPARED = ("--baseline", "old", "--draws", "200")
ITEMS = b"".join(
    b'{"id": "%d", "utterance": "hi %d", "references": ["hey"], "replies": {"a": "hello %d"}}\n' % (n, n, n)
    for n in range(2_000)
)
MAPPING = ["utterance=prompt", "reference=gold", "reply:old=old", "reply:new=new"]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return migrated(Settings(home=tmp_path / "home"))


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False) as opened:
        yield opened


def upload(client: TestClient, content: bytes, name: str = "table.csv", **query: str) -> Mapping[str, Any]:
    answer = client.post("/v1/uploads", params={"name": name, **query}, content=content, headers=BYTES)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/uploads/{answer.json()['id']}"
    body: Mapping[str, Any] = answer.json()
    return body


def source(client: TestClient, content: str, name: str = "table.csv", **query: str) -> str:
    return f"upload:{upload(client, content.encode(), name, **query)['id']}"


def evaluated(client: TestClient, home: Settings, **order: Any) -> Mapping[str, Any]:
    answer = client.post("/v1/evaluations", json={"kind": "score", **order})
    assert answer.status_code == 202, answer.text
    assert run_worker(home, ServeSettings(), once=True) == 0
    body: Mapping[str, Any] = client.get(answer.headers["location"]).json()
    return body


# ── uploads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_upload_is_kept_under_its_id_and_removed(home: Settings, client: TestClient) -> None:
    content = TABLE.encode()
    sent = upload(client, content, "../../etc/passwd.csv")
    assert (sent["name"], sent["format"], sent["bytes"]) == ("../../etc/passwd.csv", "csv", len(content))
    assert sent["sha256"] == hashlib.sha256(content).hexdigest()
    files = sorted(str(path.relative_to(home.home / "uploads")) for path in (home.home / "uploads").rglob("*.*"))
    assert files == [f"{sent['id']}/content.csv", f"{sent['id']}/upload.json"]

    listed = client.get("/v1/uploads").json()
    assert [one["id"] for one in listed["uploads"]] == [sent["id"]]
    assert listed["bytes"] >= len(content)
    assert client.get(f"/v1/uploads/{sent['id']}").json()["sha256"] == sent["sha256"]

    assert client.delete(f"/v1/uploads/{sent['id']}").json()["id"] == sent["id"]
    assert client.get(f"/v1/uploads/{sent['id']}").status_code == 404
    assert list((home.home / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    ("query", "content", "headers", "status", "words"),
    [
        ({"name": "a.csv"}, b"", BYTES, 422, "0 bytes"),
        ({"name": "a.csv"}, b"x", {"Content-Type": "text/plain"}, 415, "application/octet-stream"),
        ({"name": "a.csv"}, b"x", {**BYTES, "Content-Encoding": "gzip"}, 415, "Content-Encoding"),
        ({"name": " "}, b"x", BYTES, 400, "not a name"),
        ({}, b"x", BYTES, 422, "name"),
        ({"name": "a.csv", "format": "xls"}, b"x", BYTES, 422, "jsonl"),
    ],
)
def test_a_bad_upload_leaves_nothing(
    home: Settings,
    client: TestClient,
    query: Mapping[str, str],
    content: bytes,
    headers: Mapping[str, str],
    status: int,
    words: str,
) -> None:
    answer = client.post("/v1/uploads", params=query, content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert not (home.home / "uploads").exists() or list((home.home / "uploads").iterdir()) == []


def test_a_large_upload_is_413_and_a_full_server_507(home: Settings) -> None:
    with client_of(home, ready=False, upload_mib=1, uploads_mib=2) as client:
        piece = b"a" * (1 << 20)

        def pieces() -> Iterator[bytes]:
            yield piece
            yield b"b"

        for content in (piece + b"b", pieces()):  # with a length, and without one
            answer = client.post("/v1/uploads", params={"name": "big"}, content=content, headers=BYTES)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
            assert "1 MiB" in answer.json()["detail"]
        upload(client, piece, "one")
        upload(client, piece[:-2000], "two")
        answer = client.post("/v1/uploads", params={"name": "three"}, content=piece, headers=BYTES)
        assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
        assert len(list((home.home / "uploads").iterdir())) == 2


def test_uploads_that_still_come_are_counted_together(home: Settings) -> None:
    store, mib = UploadStore(home, ServeSettings(uploads_mib=8)), b"a" * (1 << 20)
    with (
        store.incoming(new_upload_id(), "one", UploadFormat.AUTO) as one,
        store.incoming(new_upload_id(), "two", UploadFormat.AUTO) as two,
    ):
        for _ in range(4):
            one.write(mib)
            two.write(mib)
        with pytest.raises(StorageFull):
            one.write(mib)


# ── a look at files ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_preview_shows_items_columns_and_bad_rows(client: TestClient) -> None:
    text = "id,prompt,gold,new,notes\n1,hi,hello,hey,x\n2,bye,see you\n3,so,yes,no,y\n3,again,yes,no,z\n"
    body = {
        "items": source(client, text),
        "map": ["utterance=prompt", "reference=gold", "reply:new=new"],
    }
    shown = client.post("/v1/uploads/preview", json=body)
    assert shown.status_code == 200, shown.text
    preview = shown.json()
    assert [(item["id"], item["replies"]) for item in preview["items"]] == [("1", {"new": "hey"}), ("3", {"new": "no"})]
    assert preview["counts"] == {"items": 2, "replies": 2, "ratings": 0, "bad": 2, "is_partial": False}
    assert preview["table"]["unused"] == ["notes"]
    assert {(one["field"], one["system"], one["column"]) for one in preview["table"]["used"]} >= {
        ("utterance", "", "prompt"),
        ("reply", "new", "new"),
    }
    bad = preview["bad_rows"]
    assert [(row["file"], row["line"]) for row in bad] == [("table.csv", 3), ("table.csv", 5)]
    assert "3 cells where the header names 5 columns" in bad[0]["message"]


def test_other_encodings_and_packed_files_are_read(client: TestClient) -> None:
    text = "id,utterance,reference,reply:new\n1,où,café,thé\n"
    latin = upload(client, text.encode("latin-1"), "latin.csv")
    packed = upload(client, gzip.compress(text.encode("utf-16")), "packed.csv.gz")
    for sent, encoding in ((latin, "latin-1"), (packed, None)):
        body = {"items": f"upload:{sent['id']}", "encoding": encoding}
        preview = client.post("/v1/uploads/preview", json=body).json()
        assert preview["items"][0]["utterance"] == "où", preview
        assert preview["items"][0]["replies"] == {"new": "thé"}


def test_line_aligned_uploads_are_one_test_set_and_uneven_ones_are_named(client: TestClient) -> None:
    replies, golds = source(client, "a b\nc d\n", "r.txt", format="lines"), source(client, "a b\nc e\n", "g.txt")
    body = {"replies": {"mine": replies}, "references": [golds]}
    preview = client.post("/v1/uploads/preview", json=body).json()
    assert (preview["counts"]["items"], preview["systems"], preview["table"]) == (2, ["mine"], None)
    short = source(client, "a b\n", "short.txt")
    uneven = client.post("/v1/uploads/preview", json={"replies": {"mine": short}, "references": [golds]})
    assert uneven.status_code == 422
    assert "short.txt" in uneven.json()["detail"]
    assert "g.txt" in uneven.json()["detail"]


# ── evaluations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scores_of_an_upload_are_those_of_the_command(
    home: Settings, client: TestClient, tmp_path: Path, home_at: Any
) -> None:
    done = evaluated(
        client,
        home,
        items=source(client, TABLE),
        map=MAPPING,
        metrics=["multi-bleu", "chrf"],
        baseline="old",
        draws=200,
        name="my table",
    )
    assert (done["state"], done["name"], done["files"]) == ("done", "my table", ["table.csv"])
    assert done["counts"] == {"items": 8, "replies": 16, "bad": 0}
    document = client.get(f"/v1/evaluations/{done['id']}/download").json()
    file = ScoreFile.of(document, "download")
    assert file.is_sealed

    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    options = [part for text in MAPPING for part in ("--map", text)]
    metrics = ("-m", "multi-bleu", "-m", "chrf")
    printed = home_at(tmp_path / "own")("score", path, *options, *metrics, *COMPARED, "--json", "--details")
    command = printed.json
    different = {"inputs", "checksum"}
    assert {key: part for key, part in document.items() if key not in different} == {
        key: part for key, part in command.items() if key not in different
    }
    summary = done["summary"]
    assert summary["systems"] == ["old", "new"]
    assert [one["metric"] for one in summary["metrics"]] == ["multi-bleu", "chrf"]
    for metric, scores in zip(summary["metrics"], command["scores"], strict=True):
        for row in metric["systems"]:
            assert row["corpus"] == scores["systems"][row["system"]]["corpus"]
            assert row["interval"] == scores["systems"][row["system"]]["interval"]
        (compared,) = metric["comparisons"]
        assert (compared["system"], compared["baseline"]) == ("new", "old")
        assert compared["difference"] == scores["comparisons"]["new"]["difference"]
        assert compared["is_shown"] == (compared["p_randomisation"] < 0.05)
        for counts in metric["histogram"]["systems"]:
            assert sum(counts["counts"]) == 8


def test_replies_are_sorted_filtered_searched_and_paged(home: Settings, client: TestClient) -> None:
    done = evaluated(client, home, items=source(client, TABLE), map=MAPPING, metrics=["multi-bleu", "chrf"], draws=0)
    at = f"/v1/evaluations/{done['id']}/replies"
    document = client.get(f"/v1/evaluations/{done['id']}/download").json()
    rows = [
        (system, reply["id"], reply["score"], chrf["score"])
        for system in ("old", "new")
        for reply, chrf in zip(
            document["scores"][0]["systems"][system]["replies"],
            document["scores"][1]["systems"][system]["replies"],
            strict=True,
        )
    ]
    everything = client.get(at, params={"limit": 200}).json()
    assert [(row["system"], row["item"], *row["scores"]) for row in everything["replies"]] == rows
    assert everything["total"] == 16

    lowest = client.get(at, params={"sort": "score", "limit": 3}).json()["replies"]
    expected = sorted(range(16), key=lambda place: rows[place][2])[:3]
    assert [row["place"] for row in lowest] == expected
    highest = client.get(at, params={"sort": "score", "order": "descending", "offset": 1, "limit": 3}).json()
    assert [row["place"] for row in highest["replies"]] == sorted(range(16), key=lambda place: -rows[place][2])[1:4]

    found = client.get(at, params={"search": "FINE 5 THANKS", "system": "new"}).json()
    assert [(row["system"], row["item"]) for row in found["replies"]] == [("new", "5")]
    bounded = client.get(at, params={"low": 0.5, "metric": 1, "limit": 200}).json()
    assert [row["place"] for row in bounded["replies"]] == [place for place in range(16) if rows[place][3] >= 0.5]

    for refused in ({"sort": "disagreement"}, {"metric": 7}, {"system": "none"}):
        assert client.get(at, params=refused).status_code == 400, refused


def test_one_reply_in_full_points_and_notes(home: Settings, client: TestClient) -> None:
    done = evaluated(client, home, items=source(client, TABLE), map=MAPPING, metrics=["multi-bleu", "chrf"], draws=0)
    at = f"/v1/evaluations/{done['id']}"
    full = client.get(f"{at}/replies/9").json()
    assert (full["system"], full["item"], full["reply"]) == ("new", "1", "i am fine 1 thanks")
    assert [reference["text"] for reference in full["references"]] == ["i am fine 1"]
    assert [(one["system"], one["reply"]) for one in full["others"]] == [("old", "i am 1")]
    assert full["scores"][0]["credited_references"][0]["text"] == "i am fine 1"
    assert full["note"] is None
    assert client.get(f"{at}/replies/16").status_code == 404

    points = client.get(f"{at}/points").json()
    assert [point[1] for point in points["points"]] == [
        row["scores"][0] for row in client.get(f"{at}/replies", params={"limit": 200}).json()["replies"]
    ]
    sample = client.get(f"{at}/points", params={"limit": 5}).json()
    assert (len(sample["points"]), sample["total"], sample["is_sampled"]) == (5, 16, True)

    text = "<script>alert(1)</script> \u202e"
    put = client.put(f"{at}/notes/9", json={"text": "first"})
    assert (put.status_code, put.json()["item"], put.json()["author"]) == (200, "1", "anonymous")
    client.put(f"{at}/notes/9", json={"text": text})
    client.put(f"{at}/notes/3", json={"text": "other"})
    assert [(note["place"], note["text"]) for note in client.get(f"{at}/notes").json()["notes"]] == [
        (3, "other"),
        (9, text),
    ]
    assert client.get(f"{at}/replies/9").json()["note"]["text"] == text
    noted = client.get(f"{at}/replies", params={"has_note": True}).json()["replies"]
    assert [row["place"] for row in noted] == [3, 9]
    client.put(f"{at}/notes/9", json={"text": ""})
    assert [note["place"] for note in client.get(f"{at}/notes").json()["notes"]] == [3]
    assert client.put(f"{at}/notes/99", json={"text": "x"}).status_code == 404
    assert client.put(f"{at}/notes/1", json={"text": "\0"}).status_code == 422


def test_bad_rows_are_kept_with_their_places_and_the_rest_is_scored(home: Settings, client: TestClient) -> None:
    text = "id,prompt,gold,new\n1,hi,hello,hello\n2,bye\n"
    done = evaluated(
        client,
        home,
        items=source(client, text, "rows.csv"),
        map=["utterance=prompt", "reference=gold", "reply:new=new"],
        metrics=["chrf"],
    )
    assert done["counts"] == {"items": 1, "replies": 1, "bad": 1}
    (bad,) = done["summary"]["bad_rows"]
    assert (bad["file"], bad["line"]) == ("rows.csv", 3)


def test_downloads_are_whole_files(home: Settings, client: TestClient) -> None:
    done = evaluated(client, home, items=source(client, TABLE), map=MAPPING, metrics=["chrf"], baseline="old")
    for form, start in (
        ("csv", b"kind,metric,system,id,score"),
        ("latex", b"% needs \\usepackage{booktabs}"),
        ("html", b"<!doctype html>"),
    ):
        answer = client.get(f"/v1/evaluations/{done['id']}/download", params={"format": form})
        assert answer.status_code == 200, answer.text
        assert answer.content.lower().startswith(start.lower()), answer.content[:80]
        assert answer.headers["content-disposition"].startswith("attachment; ")
    assert b"<script" not in client.get(f"/v1/evaluations/{done['id']}/download?format=html").content


def test_two_evaluations_are_compared(home: Settings, client: TestClient) -> None:
    order = {"items": source(client, TABLE), "map": MAPPING, "metrics": ["chrf"], "draws": 100}
    first, second = (evaluated(client, home, name=name, **order)["id"] for name in ("one", "two"))
    same = client.get(f"/v1/evaluations/{first}/comparison", params={"with": second})
    assert same.status_code == 200, same.text
    assert {test["difference"] for pair in same.json()["comparisons"] for test in pair["tests"]} == {0.0}
    query = {"with": first, "first_system": "old", "second_system": "new"}
    within = client.get(f"/v1/evaluations/{first}/comparison", params=query)
    assert within.status_code == 200, within.text
    late = client.get(f"/v1/evaluations/{first}/comparison", params=query, headers={"X-Timeout-S": "1e-9"})
    assert (late.status_code, late.json()["code"]) == (503, "expired")
    changes = {change["id"] for pair in within.json()["comparisons"] for change in pair["changes"]}
    assert "5" in changes
    for search, found in (("FINE 5 thanks", {"5"}), ("fine . thanks", set()), ("(", set()), ("(a+)+$", set())):
        searched = client.get(f"/v1/evaluations/{first}/comparison", params={**query, "search": search})
        assert searched.status_code == 200, searched.text
        listed = {change["id"] for pair in searched.json()["comparisons"] for change in pair["changes"]}
        assert listed == found, search
    other = evaluated(client, home, items=source(client, TABLE.replace("fine", "good")), map=MAPPING, metrics=["chrf"])
    refused = client.get(f"/v1/evaluations/{first}/comparison", params={"with": other["id"]})
    assert 400 <= refused.status_code < 500
    assert refused.json()["remedy"]


def test_agreement_with_ratings_is_kept_with_its_tables(home: Settings, client: TestClient) -> None:
    rows = "".join(f"{n},q {n},a b {n},a {'b ' * (n % 4)}{n},{1 + n % 4},{1 + (n + 1) % 4}\n" for n in range(24))
    table = source(client, f"id,utterance,reference,reply,one,two\n{rows}", "rated.csv")
    mapping = ["rating=one", "rating=two"]
    order = {"kind": "meta", "data": [table], "map": mapping, "metrics": ["chrf", "bleu"], "draws": 50}
    done = evaluated(client, home, **order)
    assert done["state"] == "done", done["error"]
    assert done["agreement"]["sets"][0]["name"] == "rated"
    assert done["counts"]["items"] == 24
    at = f"/v1/evaluations/{done['id']}"
    assert client.get(f"{at}/download").json() == done["agreement"]
    assert b"spearman" in client.get(f"{at}/download?format=csv").content
    assert b"tabular" in client.get(f"{at}/download?format=latex").content
    assert b"data:image/" in client.get(f"{at}/download?format=html").content
    assert client.get(f"{at}/replies").status_code == 409


# ── jobs, keys and ends ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_has_waiting_done_and_failed_ones_newest_first(home: Settings, client: TestClient) -> None:
    table = source(client, TABLE)
    done = evaluated(client, home, items=table, map=MAPPING, metrics=["chrf"])
    failed = evaluated(client, home, items=table, map=MAPPING, metrics=["chrf"], index="absent", rater="absent")
    assert (failed["state"], failed["error"]["code"], failed["counts"]) == ("failed", "usage", None)
    assert "summary" not in failed
    waiting = client.post("/v1/evaluations", json={"kind": "score", "items": table, "map": MAPPING}).json()
    again = client.post("/v1/evaluations", json={"kind": "score", "items": table, "map": MAPPING})
    assert (again.status_code, waiting["id"] in again.json()["detail"]) == (409, True)
    listed = client.get("/v1/evaluations").json()["evaluations"]
    assert [(row["id"], row["state"]) for row in listed] == [
        (waiting["id"], "queued"),
        (failed["id"], "failed"),
        (done["id"], "done"),
    ]
    first = client.get("/v1/evaluations", params={"limit": 2}).json()
    rest = client.get("/v1/evaluations", params={"limit": 2, "after": first["next"]}).json()
    assert [row["id"] for row in first["evaluations"] + rest["evaluations"]] == [row["id"] for row in listed]
    assert client.get("/v1/evaluations", params={"kind": "meta"}).json()["evaluations"] == []
    assert client.get(f"/v1/evaluations/{waiting['id']}/replies").status_code == 409

    cancelled = client.delete(f"/v1/evaluations/{waiting['id']}")
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
    assert client.post(f"/v1/evaluations/{done['id']}/retry").status_code == 409
    assert client.post(f"/v1/evaluations/{waiting['id']}/retry").json()["state"] == "queued"
    assert run_worker(home, ServeSettings(), once=True) == 0
    assert client.get(f"/v1/evaluations/{waiting['id']}").json()["state"] == "done"

    client.put(f"/v1/evaluations/{done['id']}/notes/0", json={"text": "x"})
    assert client.delete(f"/v1/evaluations/{done['id']}").status_code == 200
    assert client.get(f"/v1/evaluations/{done['id']}").status_code == 404
    assert not (home.home / "evaluations" / done["id"]).exists()


def test_a_key_asks_in_its_own_name_for_few_evaluations_and_no_file_of_the_inbox(home: Settings) -> None:
    database = Database.open(home)
    scopes = {"ann": Scope.SCORE, "reader": Scope.READ, "boss": Scope.ADMIN}
    tokens = {name: KeyStore(database).create(name, [scope])[0] for name, scope in scopes.items()}
    database.close()
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    (home.home / "inbox").mkdir()
    (home.home / "inbox" / "items.jsonl").write_bytes(ITEMS[:900].rsplit(b"\n", 1)[0] + b"\n")
    with client_of(home, ready=False, keys=True, key_evaluations=1) as client:
        sent = client.post("/v1/uploads?name=t.csv", content=TABLE.encode(), headers={**BYTES, **headers["ann"]}).json()
        order = {"kind": "score", "items": f"upload:{sent['id']}", "map": MAPPING, "metrics": ["chrf"]}
        assert client.get("/v1/uploads", headers=headers["reader"]).status_code == 403
        for path, body in (("/v1/uploads/preview", {}), ("/v1/evaluations", {"kind": "score", "metrics": ["chrf"]})):
            inbox = {**body, "items": "items.jsonl", "map": []}
            refused = client.post(path, json=inbox, headers=headers["ann"])
            assert (refused.status_code, refused.json()["scope"]) == (403, "admin")
            assert client.post(path, json=inbox, headers=headers["boss"]).status_code in (200, 202)
        asked = client.post("/v1/evaluations", json={**order, "owner": "ben"}, headers=headers["ann"])
        assert (asked.status_code, asked.json()["owner"]) == (202, "ann")
        more = client.post("/v1/evaluations", json={**order, "seed": 2}, headers=headers["ann"])
        assert (more.status_code, "ann" in more.json()["detail"]) == (409, True)

        first = f"/v1/evaluations/{asked.json()['id']}"
        assert client.post(f"{first}/cancel", headers=headers["ann"]).status_code == 202
        assert client.post("/v1/evaluations", json={**order, "seed": 2}, headers=headers["ann"]).status_code == 202
        again = client.post(f"{first}/retry", headers=headers["ann"])
        assert (again.status_code, "ann" in again.json()["detail"]) == (409, True)
        assert client.post(f"{first}/retry", headers=headers["boss"]).status_code == 202


def test_an_evaluation_on_a_cluster_is_for_admin_and_for_clusters_of_the_settings(home: Settings) -> None:
    database = Database.open(home)
    tokens = {name: KeyStore(database).create(name, [Scope(name)])[0] for name in ("score", "admin")}
    database.close()
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    with client_of(home, ready=False, keys=True, clusters="head:6379") as client:
        sent = client.post("/v1/uploads?name=t.csv", content=TABLE.encode(), headers={**BYTES, **headers["score"]})
        order = {"kind": "score", "items": f"upload:{sent.json()['id']}", "map": MAPPING, "index": "chat"}
        for name, address, status, lacking in (
            ("score", "head:6379", 403, "admin"),
            ("admin", "other:6379", 403, None),  # another key helps nobody
            ("admin", "head:6379", 202, None),
        ):
            answer = client.post("/v1/evaluations", json={**order, "on": address}, headers=headers[name])
            assert (answer.status_code, answer.json().get("scope")) == (status, lacking), answer.text
            assert answer.json().get("code") == ("not_allowed" if status == 403 else None)
        assert answer.json()["order"]["on"] == "head:6379"
        assert len(client.get("/v1/evaluations", headers=headers["admin"]).json()["evaluations"]) == 1


def test_a_stopped_job_leaves_nothing_and_is_done_whole_afterwards(home: Settings, client: TestClient) -> None:
    order = {"kind": "score", "items": source(client, TABLE), "map": MAPPING, "metrics": ["chrf"]}
    asked = client.post("/v1/evaluations", json=order).json()

    class Stopping(Silent):
        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            if name == "store":
                raise Interrupted

    with pytest.raises(Interrupted):
        kinds.run(asked["order"], home, ServeSettings(), Stopping(), job=asked["id"])
    assert not (home.home / "evaluations" / asked["id"]).exists()
    assert client.get(f"/v1/evaluations/{asked['id']}/download").status_code == 409

    # A worker that was killed after the result was stored, and before its job has ended, finds it.
    first = kinds.run(asked["order"], home, ServeSettings(), Silent(), job=asked["id"])
    assert client.get(f"/v1/evaluations/{asked['id']}/download").status_code == 409
    assert run_worker(home, ServeSettings(), once=True) == 0
    done = client.get(f"/v1/evaluations/{asked['id']}").json()
    assert done["state"] == "done"
    assert first["evaluation"] == asked["id"]
    assert [path.name for path in (home.home / "evaluations").iterdir()] == [asked["id"]]


def test_expired_uploads_and_evaluations_are_removed(home: Settings, client: TestClient) -> None:
    done = evaluated(client, home, items=source(client, TABLE), map=MAPPING, metrics=["chrf"])
    manifests = [*(home.home / "uploads").rglob("upload.json"), *(home.home / "evaluations").rglob("evaluation.json")]
    assert len(manifests) == 2
    for manifest in manifests:
        fields = {**read_json(manifest), "expires": "2020-01-01T00:00:00.000000Z"}
        write_json(manifest, with_checksum(fields) if manifest.name == "evaluation.json" else fields)
    assert client.get("/v1/uploads").json()["uploads"] == []
    assert client.get(f"/v1/evaluations/{done['id']}").status_code == 404
    remove_expired(home, ServeSettings())
    assert list((home.home / "uploads").iterdir()) == []
    assert list((home.home / "evaluations").iterdir()) == []
