"""A hub on loopback, as far as the library of the Hugging Face Hub needs it: repositories, commits, lists and files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_DATE = "2026-01-02T03:04:05.000Z"


class LoopbackHub(ThreadingHTTPServer):
    """Repositories by type and name: their files, and how many commits made them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.files: dict[str, dict[str, bytes]] = {}
        self.commits: dict[str, list[str]] = {}
        self.refusal = 0  # the status that every request gets
        self.is_private: dict[str, bool] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def loopback_hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Answers(BaseHTTPRequestHandler):
    server: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.server.refusal:
            return self._answer(self.server.refusal, {"error": "refused"})
        if info := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)", path):
            repository = f"{info[1]}/{info[2]}"
            if repository not in self.server.files:
                return self._missing("RepoNotFound")
            return self._answer(200, {"id": info[2], "sha": "0" * 40, "siblings": [], "private": True})
        if tree := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/main(?:/(.*))?", path):
            files = self.server.files.get(f"{tree[1]}/{tree[2]}")
            if files is None:
                return self._missing("RepoNotFound")
            inside = {name: body for name, body in files.items() if name.startswith(f"{tree[3]}/")}
            return self._answer(200, _infos(inside)) if inside else self._missing("EntryNotFound")
        if wanted := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/main/(.+)", path):
            files = self.server.files.get(f"{'datasets' if wanted[1] else 'models'}/{wanted[2]}")
            if files is None:
                return self._missing("RepoNotFound")
            body = files.get(wanted[3])
            if body is None:
                return self._missing("EntryNotFound")
            return self._answer(200, body, {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": "0" * 40})
        return self._missing("EntryNotFound")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refusal:
            return self._answer(self.server.refusal, {"error": "refused"})
        path = unquote(urlsplit(self.path).path)
        if path == "/api/repos/create":
            order = json.loads(body)
            kind = f"{order.get('type') or 'model'}s"
            name = f"{order['organization']}/{order['name']}" if order.get("organization") else order["name"]
            if f"{kind}/{name}" in self.server.files:
                return self._answer(409, {"error": "there already", "url": f"{self.server.url}/{name}"})
            self.server.files[f"{kind}/{name}"], self.server.commits[f"{kind}/{name}"] = {}, []
            self.server.is_private[f"{kind}/{name}"] = bool(
                order.get("private") or order.get("visibility") == "private"
            )
            return self._answer(200, {"url": f"{self.server.url}/{name}"})
        parts = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(preupload|commit|paths-info)/main", path)
        files = self.server.files.get(f"{parts[1]}/{parts[2]}") if parts else None
        if parts is None or files is None:
            return self._missing("RepoNotFound")
        if parts[3] == "preupload":
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self._answer(200, {"files": modes})
        if parts[3] == "paths-info":
            asked = parse_qs(body.decode())["paths"]
            return self._answer(200, _infos({name: files[name] for name in asked if name in files}))
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "header":
                self.server.commits[f"{parts[1]}/{parts[2]}"].append(line["value"]["summary"])
            elif line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        url = f"{self.server.url}/{parts[2]}/commit/{'0' * 40}"
        return self._answer(200, {"commitUrl": url, "commitOid": "0" * 40, "success": True})

    def _missing(self, code: str) -> None:
        self._answer(404, {"error": code}, {"X-Error-Code": code})

    def _answer(self, status: int, content: object, headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def _infos(files: Mapping[str, bytes]) -> list[dict[str, object]]:
    return [
        {
            "type": "file",
            "path": name,
            "size": len(body),
            "oid": hashlib.sha1(body).hexdigest(),
            "lastCommit": {"id": "0" * 40, "title": "x", "date": _DATE},
        }
        for name, body in sorted(files.items())
    ]
