"""Hostile uploads: lengths that are wrong, bombs, names with paths, a million columns, bytes that are no text."""

from __future__ import annotations

import gzip
import hashlib
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from servers import Served, served
from serving import client_of, migrated, played
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

BYTES = {"Content-Type": "application/octet-stream"}
NAMES = ("../../../etc/passwd", "/etc/passwd.csv", "..", ".upload.json", "﷽" * 200)
WRONG_NAMES = ("a\0.csv", "a\nb.csv", "a\u202eb.csv", "\x1b[2J.csv", "x" * 201, "\t")
FILES: dict[str, tuple[bytes, str]] = {  # a name, its content, and a word of the answer
    "no.csv": (b"\0\x01\x02" * 5_000, "binary"),
    "latin.csv": ("id,utterance,reference,reply:a\n1,où,café,thé\n".encode("latin-1"), "encoding"),
    "half.jsonl.gz": (gzip.compress(b'{"id": "1"}\n' * 5_000)[:-30], "breaks off"),
    "no.parquet": (b"PAR1" + b"\0" * 100 + b"PAR1", ""),
}


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return migrated(Settings(home=tmp_path / "home"))


@pytest.fixture
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, ready=False, upload_mib=16) as opened:
        yield opened


def sent(client: TestClient, name: str, content: bytes) -> str:
    answer = client.post("/v1/uploads", params={"name": name}, content=content, headers=BYTES)
    assert answer.status_code == 201, answer.text
    return f"upload:{answer.json()['id']}"


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_shown_and_never_a_path(home: Settings, client: TestClient, name: str) -> None:
    before = {path for path in home.home.parent.rglob("*") if path.is_file()}
    upload = sent(client, name, b"a,b\n1,2\n").removeprefix("upload:")
    assert client.get(f"/v1/uploads/{upload}").json()["name"] == name
    made = {path for path in home.home.parent.rglob("*") if path.is_file()} - before
    assert {path.parent for path in made if "refaug.db" not in path.name} == {home.home / "uploads" / upload}


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_name_that_cannot_be_shown_is_refused(home: Settings, client: TestClient, name: str) -> None:
    answer = client.post("/v1/uploads", params={"name": name}, content=b"a", headers=BYTES)
    assert answer.status_code in (400, 422), answer.text
    assert not (home.home / "uploads").exists() or list((home.home / "uploads").iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_ends_in_a_named_error_and_spoils_nothing(client: TestClient, home: Settings, name: str) -> None:
    content, word = FILES[name]
    source = sent(client, name, content)
    shown = client.post("/v1/uploads/preview", json={"items": source})
    if shown.status_code == 200:
        assert shown.json()["counts"]["bad"], shown.text[:500]
    else:
        problem = shown.json()
        assert (problem["status"], name in problem["detail"]) in ((413, True), (422, True)), shown.text
        assert problem["remedy"]
        assert word in shown.text or problem["status"] == 413  # too large for a preview, which reads no further
    asked = client.post("/v1/evaluations", json={"kind": "score", "items": source, "metrics": ["chrf"]})
    assert run_worker(home, ServeSettings(), once=True) == 0
    failed = client.get(asked.headers["location"]).json()
    assert failed["state"] == "failed"
    assert name in failed["error"]["message"]
    assert str(home.home) not in failed["error"]["message"]
    assert client.get("/healthz").status_code == 200


def test_a_workbook_is_refused_before_it_is_stored(client: TestClient, home: Settings) -> None:
    answer = client.post("/v1/uploads", params={"name": "Book.XLSX"}, content=b"PK\x03\x04", headers=BYTES)
    assert (answer.status_code, answer.json()["detail"]) == (422, "Book.XLSX: a workbook")
    assert not (home.home / "uploads").exists() or list((home.home / "uploads").iterdir()) == []


@pytest.mark.parametrize("cell", ["['\\ud800']", "[" * 900 + "]" * 900])
def test_a_cell_that_no_item_can_hold_costs_a_job_its_row_alone(client: TestClient, home: Settings, cell: str) -> None:
    rows = [f"{number};hi;hey;hello;3" for number in range(20)]
    table = "\n".join(
        ["id;utterance;reference;reply:a;ratings:a", *rows, f"bad;hi;{cell};hello;3", f"x;hi;hey;you;{cell}"]
    )
    source = sent(client, "rows.csv", table.encode())
    shown = client.post("/v1/uploads/preview", json={"items": source}).json()
    assert (shown["counts"]["items"], [row["line"] for row in shown["bad_rows"]]) == (20, [22, 23])
    asked = client.post("/v1/evaluations", json={"kind": "score", "items": source, "metrics": ["chrf"]})
    assert run_worker(home, ServeSettings(), once=True) == 0
    assert client.get(asked.headers["location"]).json()["counts"] == {"items": 20, "replies": 20, "bad": 2}


def test_a_preview_ends_with_its_client_and_at_its_deadline(client: TestClient) -> None:
    cells = "\n".join(f'{number},hi,hey,"[{"1+1j," * 50_000}1]"' for number in range(5))
    source = sent(client, "cells.csv.gz", gzip.compress(f"id,utterance,reference,reply:a\n{cells}\n".encode()))
    body = [{"type": "http.request", "body": orjson.dumps({"items": source}), "more_body": False}]

    async def receive() -> dict[str, Any]:
        return body.pop() if body else {"type": "http.disconnect"}

    assert client.portal is not None
    assert client.portal.call(played, client.app, "/v1/uploads/preview", receive).status == 499
    late = client.post("/v1/uploads/preview", json={"items": source}, headers={"X-Timeout-S": "1e-9"})
    assert (late.status_code, late.json()["code"]) == (503, "expired")
    assert int(late.headers["retry-after"]) >= 1
    shown = client.post("/v1/uploads/preview", json={"items": source}).json()
    assert (shown["counts"]["items"], shown["counts"]["is_partial"]) == (5, False)


def test_a_preview_reads_no_more_than_the_setting_says(home: Settings) -> None:
    row = b'{"id": "%d", "utterance": "hi", "references": ["hey"], "replies": {"a": "' + b"x" * 1_000 + b'"}}\n'
    with client_of(home, ready=False, preview_mib=2) as client:
        source = sent(client, "many.jsonl.gz", gzip.compress(b"".join(row % number for number in range(4_000))))
        shown = client.post("/v1/uploads/preview", json={"items": source}).json()
    assert (shown["counts"]["is_partial"], shown["counts"]["items"] < 2_000, shown["counts"]["bad"]) == (True, True, 0)


def test_a_packed_bomb_is_read_no_further_than_a_preview_needs(client: TestClient) -> None:
    row = b'{"id": "%d", "utterance": "hi", "references": ["hey"], "replies": {"a": "hello"}}\n'
    rows = b"".join(row % n for n in range(1_000))
    bomb = gzip.compress(rows, 9) + gzip.compress(b" " * (64 << 20), 9) * 8  # half a GiB of spaces
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = client.post("/v1/uploads/preview", json={"items": sent(client, "bomb.jsonl.gz", bomb)})
    assert shown.status_code in (200, 422), shown.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200 << 10


def test_a_body_of_another_length_than_it_says_is_no_upload(home: Settings) -> None:
    with client_of(home, ready=False, upload_mib=1) as client:
        for length in ("2000000", "99999999999999999999"):
            answer = client.post(
                "/v1/uploads?name=a.csv", content=iter([b"a"]), headers={**BYTES, "Content-Length": length}
            )
            assert answer.status_code == 413, answer.text
    assert not (home.home / "uploads").exists() or list((home.home / "uploads").iterdir()) == []


# ── 200 megabytes ─────────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = 200_000_000
GROWTH = 64 << 20  # bytes that a web process may take for a moment more than before; a part of the body's 200 MB
PIECE = b"\0" * (1 << 20)


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had since `forget_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1_024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def send_large(service: Served, *, chunked: bool) -> tuple[int, bytes]:
    """Send 200 MB as far as they are taken: how many bytes went, and the answer."""
    host, _, port = str(service.client.base_url).removeprefix("http://").rstrip("/").partition(":")
    size = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {LARGE}"
    head = f"POST /v1/uploads?name=large.csv HTTP/1.1\r\nHost: {host}:{port}\r\n{size}\r\n"
    gone = 0
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode())
        with suppress(BrokenPipeError, ConnectionResetError):
            while gone < LARGE and not select.select([connection], [], [], 0)[0]:
                piece = PIECE[: LARGE - gone]
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                gone += len(piece)
            if chunked and gone == LARGE:
                connection.sendall(b"0\r\n\r\n")
        return gone, connection.recv(1 << 16)


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True], ids=["by its length", "in chunks"])
def test_200_megabytes_are_refused_before_they_are_sent_and_fill_no_memory(home: Settings, *, chunked: bool) -> None:
    with served(home.home, "--upload-mib", "16") as service:
        (web,) = service.children()["web"]
        forget_peak(web)
        before = peak_bytes(web)
        gone, answer = send_large(service, chunked=chunked)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"code":"too_large"' in answer
        assert gone < LARGE / 2, "most of the body is never read"
        assert peak_bytes(web) < before + GROWTH
        assert service.ask("GET", "/v1/uploads").json()["uploads"] == []
        assert not [path for path in (home.home / "uploads").glob("*") if path.is_dir()]


@pytest.mark.slow
def test_200_megabytes_that_are_allowed_are_kept_with_the_memory_of_a_few(home: Settings) -> None:
    with served(home.home) as service:
        (web,) = service.children()["web"]
        forget_peak(web)
        before = peak_bytes(web)
        gone, answer = send_large(service, chunked=False)
        assert answer.startswith(b"HTTP/1.1 201 ")
        assert gone == LARGE
        assert peak_bytes(web) < before + GROWTH
        (upload,) = service.ask("GET", "/v1/uploads").json()["uploads"]
        digest = hashlib.sha256()
        for begin in range(0, LARGE, len(PIECE)):
            digest.update(PIECE[: LARGE - begin])
        assert (upload["bytes"], upload["sha256"]) == (LARGE, digest.hexdigest())
