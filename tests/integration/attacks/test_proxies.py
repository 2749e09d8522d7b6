"""The attack suite through the proxies of deploy/: what the server refuses alone reaches no handler through them."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attack_cases import BODIES, REQUESTS, joined, request_of
from safeguards import require
from serving import wait_until

if TYPE_CHECKING:
    from conftest import Attacked

pytestmark = [pytest.mark.machine, pytest.mark.slow]
DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ANSWERED_WITHIN_S, SENT_WITHIN_S = 60.0, 5.0
QUIET_S = 0.5  # after which a connection has no more answers


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def nginx_command(folder: Path, port: int, server: int) -> list[str]:
    """nginx over the file of deploy/, without TLS and at these ports."""
    text = (DEPLOY / "nginx/refaug.conf").read_text("utf-8")
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace("127.0.0.1:8000", f"127.0.0.1:{server}")
    lines = [line for line in text.splitlines() if "ssl_certificate" not in line]
    (folder / "refaug.conf").write_text("\n".join(lines), "utf-8")
    places = " ".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off; user root; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
    (folder / "nginx.conf").write_text(
        f"{whole} http {{ access_log off; {places} include {folder}/refaug.conf; }}", "utf-8"
    )
    return ["nginx", "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]


def caddy_command(folder: Path, port: int, server: int) -> list[str]:
    """Caddy over the file of deploy/, without TLS and at these ports."""
    text = (DEPLOY / "caddy/Caddyfile").read_text("utf-8")
    text = text.replace("\nrefaug.example.org {", f"\nhttp://127.0.0.1:{port}, http://:{port} {{")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server}").replace("{\n", "{\n\tadmin off\n", 1)
    (folder / "Caddyfile").write_text(text, "utf-8")
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


COMMANDS: dict[str, Callable[[Path, int, int], list[str]]] = {"nginx": nginx_command, "caddy": caddy_command}


@contextmanager
def running(command: list[str], port: int, folder: Path) -> Iterator[int]:
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin", "XDG_DATA_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        wait_until(lambda: process.poll() is not None or accepts(port), (folder / "log").read_text)
        assert process.poll() is None, (folder / "log").read_text()
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Proxy:
    """A proxy before the server."""

    name: str
    port: int


@pytest.fixture(scope="module", params=COMMANDS)
def proxy(
    request: pytest.FixtureRequest, attacked: Attacked, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    name, folder = request.param, tmp_path_factory.mktemp("proxy")
    require(name, found=shutil.which(name) is not None, why=f"apt-get install {name}")
    folder.chmod(0o777)
    port = free_port()
    with running(COMMANDS[name](folder, port, attacked.port), port, folder) as listening:
        yield Proxy(name, listening)


def handled(attacked: Attacked) -> int:
    """How many requests handlers have answered so far: a refusal of what was read of a body is of no handler."""
    with urllib.request.urlopen(f"http://127.0.0.1:{attacked.port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    counted = [line for line in lines if line.startswith("refaug_requests_total{") and "/metrics" not in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in counted if 'status="2' in line)


def sent(port: int, content: bytes, wait_s: float) -> bytes:
    """Send bytes, and return all that comes back until nothing has come for so long; nginx takes no half of an end."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SENT_WITHIN_S) as connection:
        with suppress(OSError):
            connection.sendall(content)
        connection.settimeout(wait_s)
        with suppress(ConnectionResetError, TimeoutError):
            while piece := connection.recv(1 << 16):
                received += piece
    return received


def reached(attacked: Attacked, port: int, content: bytes) -> int:
    """How many requests of these bytes a handler sees."""
    before = handled(attacked)
    sent(port, content, QUIET_S)
    return handled(attacked) - before


# What a proxy reads in its own way and writes anew in the strict form: the server sees one good request for each.
REWRITTEN = {
    "nginx": {"header bare line feed"},
    "caddy": {"header bare line feed", "header empty name", "header folded", "version 'HTTP/1.2'"},
}
# Good requests after one that the server answers and then ends: a proxy goes on, with a connection of its own.
GOES_ON = {"http/1.0 that would stay", "upgrade to h2c"}


@pytest.fixture(scope="module")
def alone(attacked: Attacked) -> dict[str, int]:
    """How many requests of each case a handler sees without a proxy."""
    return {name: reached(attacked, attacked.port, joined(case["send"])) for name, case in REQUESTS.items()}


def test_nothing_that_the_server_refuses_alone_reaches_a_handler(
    attacked: Attacked, proxy: Proxy, alone: dict[str, int]
) -> None:
    assert reached(attacked, proxy.port, joined(REQUESTS["two good requests"]["send"])) == 2
    through = dict[str, tuple[int, int]]()
    for name, case in REQUESTS.items():
        proxied = reached(attacked, proxy.port, joined(case["send"]))
        if proxied > alone[name] and name not in GOES_ON:
            through[name] = (alone[name], proxied)
    assert through == dict.fromkeys(REWRITTEN[proxy.name], (0, 1))


def test_hostile_bodies_get_the_statuses_that_they_get_alone(attacked: Attacked, proxy: Proxy) -> None:
    wrong = dict[str, Any]()
    for name, case in BODIES.items():
        answer = sent(proxy.port, request_of(case, "Connection: close"), ANSWERED_WITHIN_S)
        status = int(answer.split()[1]) if answer else 0
        if status not in (*case["statuses"], 413):
            wrong[name] = (status, case["statuses"])
    assert wrong == {}


def test_honest_requests_get_equal_answers(attacked: Attacked, proxy: Proxy) -> None:
    items = [{"id": "1", "references": ["we open at nine"], "replies": {"a": "at nine", "b": "we open"}}]
    body = json.dumps({"items": items, "metrics": ["bleu", "chrf"]}).encode()
    head = (b"POST /v1/scores HTTP/1.1", b"Host: x", b"Content-Type: application/json", b"Connection: close")
    content = b"\r\n".join((*head, b"Content-Length: %d" % len(body), b"", body))
    answers = []
    for port in (attacked.port, proxy.port):
        answer = json.loads(_unchunked(sent(port, content, ANSWERED_WITHIN_S)))
        answer.pop("request_id", None)
        answers.append(answer)
    assert answers[0] == answers[1]


def _unchunked(answer: bytes) -> bytes:
    head, _, body = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
    assert head.split()[1] == b"200", answer[:500]
    if b"chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole
