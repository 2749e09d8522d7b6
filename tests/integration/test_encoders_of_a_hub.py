"""Encoders of the Hugging Face Hub, from a hub on loopback: fetched, pinned, compared, and found again offline."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from encoders import write_encoder
from integration.conftest import Home, Result

REPOSITORY = "someone/tiny"
Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Commits of one repository."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.commits: dict[str, Files] = {}
        self.branches: dict[str, str] = {}

    def commit(self, files: Files, branch: str = "main") -> str:
        name = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[name] = files
        self.branches[branch] = name
        return name


class Requests(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        listed = re.fullmatch(rf"/api/models/{REPOSITORY}/(revision|tree)/([^/]+)", path)
        resolved = re.fullmatch(rf"/{REPOSITORY}/resolve/([^/]+)/(.+)", path)
        revision = listed[2] if listed else resolved[1] if resolved else ""
        commit = self.server.branches.get(revision, revision)
        files = self.server.commits.get(commit)
        if files is None:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound" if revision else "RepoNotFound"})
        elif listed and listed[1] == "revision":
            content = {"id": REPOSITORY, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            self.answer(200, json.dumps(content).encode())
        elif listed:
            content = [
                {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                for name, body in files.items()
            ]
            self.answer(200, json.dumps(content).encode())
        elif resolved and resolved[2] in files:
            self.send_file(files[resolved[2]], commit)
        else:
            self.answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})

    def send_file(self, body: bytes, commit: str) -> None:
        headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": commit}
        self.answer(200, body, headers)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def use(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Let the library, which reads the environment when it is imported, take another hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use(monkeypatch, server.server_address[1])
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield server
        server.shutdown()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    folder = write_encoder(tmp_path / "exported")
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {**found, "README.md": b"---\nlicense: mit\n---\n", "pytorch_model.bin": b"of no use here"}


@pytest.fixture
def add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    refaug = Home(tmp_path / "home", capsys)
    return lambda *words: refaug("index", "encoder", "add", *words, "--json")


def test_an_encoder_is_pinned_to_the_commit_that_was_fetched_first(
    hub: Hub, files: Files, add: Callable[..., Result], tmp_path: Path
) -> None:
    first = hub.commit(files)
    added = add("tiny", f"hf://{REPOSITORY}")
    assert (added.code, added.json["licence"]) == (0, "mit"), added.err
    version = added.json["spec"].partition("#")[0].replace("@", "/")
    manifest = json.loads((tmp_path / "home" / "encoders" / version / "manifest.json").read_text())
    assert manifest["source"]["commit"] == first
    assert manifest["source"]["files"] == {
        name: hashlib.sha256(body).hexdigest() for name, body in files.items() if name != "pytorch_model.bin"
    }
    second = hub.commit({**files, "README.md": b"---\nlicense: apache-2.0\n---\n"})
    assert add("tiny", f"hf://{REPOSITORY}").json == added.json
    assert add("tiny", f"hf://{REPOSITORY}@{second}").json["licence"] == "apache-2.0"
    again = add("tiny", f"hf://{REPOSITORY}@{first}", "--offline")
    assert (again.code, again.json["licence"]) == (0, "mit"), again.err


def test_other_bytes_under_the_same_commit_are_refused(
    hub: Hub, files: Files, add: Callable[..., Result], tmp_path: Path
) -> None:
    commit = hub.commit(files)
    assert add("tiny", f"hf://{REPOSITORY}").code == 0
    hub.commits[commit] = {**files, "tokenizer.json": files["tokenizer.json"] + b" "}
    (tmp_path / "home" / "cache" / "hub").rename(tmp_path / "moved")
    refused = add("other", f"hf://{REPOSITORY}")
    assert (refused.error["code"], "tokenizer.json" in refused.error["message"]) == ("corrupt", True)


def test_what_cannot_be_had_is_named(hub: Hub, files: Files, add: Callable[..., Result]) -> None:
    hub.commit(files)
    for words, code in (
        ((f"hf://{REPOSITORY}@no-such",), "not_found"),
        (("hf://someone/else",), "not_found"),
        (("hf://no/such/name",), "not_found"),
        ((f"hf://{REPOSITORY}", "--offline"), "unavailable"),
    ):
        refused = add("tiny", *words)
        assert refused.error["code"] == code, words
        assert words[0] in refused.error["message"]
    hub.commit({"README.md": b"", "tokenizer.json": files["tokenizer.json"]})
    assert add("tiny", f"hf://{REPOSITORY}").error["code"] == "not_found"


def test_no_network_is_said(monkeypatch: pytest.MonkeyPatch, add: Callable[..., Result]) -> None:
    use(monkeypatch, 9)
    assert add("tiny", f"hf://{REPOSITORY}").error["code"] == "unavailable"
