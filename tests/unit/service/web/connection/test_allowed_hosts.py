"""Names that requests are addressed to: where nobody is asked for a key, none that somebody else may have given us."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from serving import bare_app
from starlette.responses import Response
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.connection.admission import AllowedHosts

OURS = (
    "localhost",
    "LOCALHOST:8000",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:8000",
    "10.0.0.7:80",
    "[::1]",
    "[::1]:8000",
)
OTHERS = (
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example.",
    "[evil.example]",
    "127.0.0.1@evil.example",
    "localhost evil.example",
    "2130706433",
)


def foreign(serve: ServeSettings, *hosts: str) -> str | None:
    return AllowedHosts(serve).find_foreign(
        [(b"accept", b"*/*"), *((b"host", host.encode("latin-1")) for host in hosts)]
    )


@pytest.mark.parametrize("host", OURS)
def test_addresses_in_digits_and_localhost_are_nobodys_names(host: str) -> None:
    assert foreign(ServeSettings(), host) is None
    assert foreign(ServeSettings(host="::1", allowed_hosts="refaug.example.org"), host) is None


@pytest.mark.parametrize("host", OTHERS)
def test_any_other_name_is_somebody_elses(host: str) -> None:
    assert foreign(ServeSettings(), host) == host
    assert foreign(ServeSettings(host="localhost"), "localhost", host) == host  # each of several counts
    assert foreign(ServeSettings(allowed_hosts="refaug.example.org,scores"), host) == host


def test_who_sends_no_name_is_no_browser() -> None:
    assert foreign(ServeSettings()) is None
    assert foreign(ServeSettings(), "") is None


def test_names_that_are_allowed_are_allowed_with_any_port_and_in_any_case() -> None:
    serve = ServeSettings(host="0.0.0.0", open=True, allowed_hosts="refaug.example.org, Scores")
    for host in ("refaug.example.org", "REFAUG.example.org.:443", "scores:80"):
        assert foreign(serve, host) is None
    for host in ("example.org", "x.refaug.example.org", "scores.example.org"):
        assert foreign(serve, host) == host


@pytest.mark.parametrize(
    "serve",
    [
        ServeSettings(allowed_hosts="*"),
        ServeSettings(keys=True),
        ServeSettings(uds="/run/refaug.sock"),
        ServeSettings(host="0.0.0.0", open=True),
        ServeSettings(host="refaug.example.org", keys=True),
    ],
)
def test_any_host_name_is_allowed_with_keys_when_open_or_on_a_socket(
    serve: ServeSettings,
) -> None:
    assert [foreign(serve, host) for host in (*OURS, *OTHERS)] == [None] * (len(OURS) + len(OTHERS))


def test_container_without_keys_accepts_no_host_name_of_a_web_page() -> None:
    compose = Path(__file__).parents[5] / "compose.yaml"
    (command,) = re.findall(r'command: (\["serve".*\])', compose.read_text("utf-8"))
    _, host, address, is_open, allowed, names = json.loads(command)
    assert (host, is_open, allowed) == ("--host", "--open", "--allowed-hosts")
    serve = ServeSettings(host=address, open=True, allowed_hosts=names)
    assert [foreign(serve, one) for one in (*OURS, "serve:8000")] == [None] * (len(OURS) + 1)
    assert [foreign(serve, one) for one in OTHERS] == list(OTHERS)


def test_what_was_looked_at_before_is_answered_alike_however_much_there_is() -> None:
    hosts = AllowedHosts(ServeSettings())
    for _ in range(2):
        for number in range(200):
            assert hosts.find_foreign([(b"host", f"h{number}.example".encode())]) == f"h{number}.example"
            assert hosts.find_foreign([(b"host", f"127.0.0.{number}".encode())]) is None


def test_a_request_to_another_name_reaches_nothing_and_is_told_why(tmp_path: Path) -> None:
    app, reached = bare_app(Settings(home=tmp_path), allowed_hosts=""), list[str]()

    def note() -> Response:
        reached.append("here")
        return Response("here")

    for path in ("/healthz", "/v1/jobs"):
        app.add_api_route(path, note, methods=["GET", "POST"])
    with TestClient(app, base_url="http://evil.example:8000") as client:
        for answer in (
            client.get("/healthz"),
            client.get("/v1/jobs"),
            client.post("/v1/jobs", json={}),
            client.get("/"),
        ):
            told = answer.json()
            assert (answer.status_code, told["code"]) == (403, "not_allowed")
            assert "evil.example:8000" in told["detail"]
            assert "--allowed-hosts" in told["remedy"]
            assert answer.headers["x-request-id"] == told["request_id"]
    assert reached == []
    with TestClient(app, base_url="http://localhost:8000") as client:
        assert client.get("/healthz").text == "here"
