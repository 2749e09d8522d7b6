"""Uploads and evaluations of a real server, by both kinds of client: progress, limits, conflicts."""

from __future__ import annotations

import gzip
import hashlib
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

import pytest
from kinds import KINDS, Opened
from refaug.core.home import Settings
from refusals import refusing
from servers import Served, served
from serving import migrated

from refaug_client import Conflict, ConnectionLost, JobFailed, NotFound, Problem

TABLE = "id,utterance,reference,reply:old,reply:new\n" + "".join(
    f"{n},how are you {n},i am fine {n},i am {n},i am fine {n} thanks\n" for n in range(8)
)
WAIT_S = 120.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that takes uploads of at most one MiB."""
    home = migrated(Settings(home=tmp_path_factory.mktemp("small") / "home"))
    with served(home.home, "--upload-mib", "1") as running:
        yield running


@pytest.fixture
def address(small: Served) -> str:
    return str(small.client.base_url).rstrip("/")


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    clients = Opened(request.param)
    yield clients
    clients.close()


def test_a_file_is_sent_scored_with_progress_and_removed(opened: Opened, address: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.csv"
    path.write_text(TABLE, "utf-8")
    steps = list[tuple[int, Optional[int]]]()
    with_server = opened(address)
    upload = with_server.uploads.send(path)
    assert (upload.name, upload.bytes) == ("replies.csv", path.stat().st_size)
    assert upload.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert with_server.uploads.get(upload.id) == upload
    assert with_server.uploads.download(upload.id) == path.read_bytes()
    preview = with_server.uploads.preview(items=upload.source)
    assert [preview.counts[name] for name in ("items", "replies", "bad")] == [8, 16, 0]
    order = {"items": upload.source, "metrics": ["chrf"], "baseline": "old", "draws": 100}
    started = with_server.evaluations.start("score", **order)
    done = with_server.evaluations.wait(
        started.id, progress=lambda done, total: steps.append((done, total)), timeout_s=WAIT_S
    )
    assert (done.id, done.state, done.counts["replies"]) == (started.id, "done", 16)
    assert steps
    assert with_server.evaluations.replies(started.id, limit=3).total == 16
    with_server.uploads.remove(upload.id)
    with pytest.raises(NotFound):
        with_server.uploads.get(upload.id)
    assert with_server.evaluations.get(started.id).state == "done"
    with pytest.raises(Conflict) as conflict:
        with_server.evaluations.cancel(started.id)
    assert (conflict.value.status, "is done" in str(conflict.value)) == (409, True)
    with_server.evaluations.remove(started.id)


def test_a_job_that_fails_names_why_and_its_upload_stays(opened: Opened, address: str) -> None:
    with_server = opened(address)
    upload = with_server.uploads.send(b"\0\1\2" * 500, name="no.csv")
    started = with_server.evaluations.start("score", items=upload.source, metrics=["chrf"])
    with refusing(JobFailed, "binary"):
        with_server.evaluations.wait(started.id, timeout_s=WAIT_S)
    with refusing(Conflict, "failed"):
        with_server.evaluations.replies(started.id)
    assert with_server.uploads.get(upload.id) == upload
    with_server.evaluations.remove(started.id)
    with_server.uploads.remove(upload.id)


def test_a_file_that_is_too_large_is_413_with_what_to_do(opened: Opened, address: str) -> None:
    with_server, size = opened(address), (1 << 20) + 1
    with pytest.raises(Problem) as refused:
        with_server.uploads.send(b"x" * size, name="large.csv")
    assert (refused.value.status, refused.value.code) == (413, "too_large")
    assert "gzip" in str(refused.value)
    assert with_server.uploads.list().uploads == []
    packed = with_server.uploads.send(gzip.compress(b"x" * size), name="large.csv.gz")
    with_server.uploads.remove(packed.id)


@contextmanager
def closing_in_the_middle(taken: int, answer: bytes = b"") -> Iterator[tuple[str, list[int]]]:
    """A server on loopback that takes so many bytes of each request, and then ends the connection; what it took."""
    sizes = list[int]()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            got = 0
            while got < taken and (piece := self.request.recv(min(1 << 16, taken - got))):
                got += len(piece)
            sizes.append(got)
            if answer:
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", sizes
        finally:
            server.shutdown()
            thread.join()


def test_a_connection_that_is_cut_in_the_middle_of_a_file_is_lost_and_the_file_not_sent_again(
    opened: Opened, tmp_path: Path
) -> None:
    path = tmp_path / "large.csv"
    path.write_bytes(TABLE.encode() * (32 << 10))  # 10 MB, far more than the buffers of a connection hold
    with closing_in_the_middle(1 << 20) as (address, sizes):
        client = opened(address)
        with pytest.raises(ConnectionLost) as lost:
            client.uploads.send(path)
        assert sizes == [1 << 20]
        assert str(lost.value).startswith(f"the connection to {address} ended before the answer: ")
        with pytest.raises(ConnectionLost):
            client.uploads.send(path.read_bytes(), name="large.csv")
        assert sizes == [1 << 20, 1 << 20]
