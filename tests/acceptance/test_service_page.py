"""The page of the service: its requests are answered as it says, and it names every route and figure that there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import client_of, small_home
from starlette.testclient import TestClient

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text("utf-8")
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REQUESTS = [
    command for block in _BLOCK.findall(PAGE) for command in re.findall(r"^curl .*?'$", block, re.MULTILINE | re.DOTALL)
]

_FIRST_STEPS = [
    command.replace('"index": "demo", "rater": "demo"', '"index": "chat", "rater": "base"')
    for command in re.findall(r"^curl .*'$", (ROOT / "docs" / "first-steps.md").read_text("utf-8"), re.MULTILINE)
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(small_home(tmp_path_factory.mktemp("service"))) as opened:
        yield opened


def sent(client: TestClient, command: str, name: str = "") -> dict[str, Any]:
    """What a `curl URL -H TYPE -d BODY` of the page is answered; `name` stands for its ID."""
    _, url, header, content_type, option, body = shlex.split(command)
    url = url.replace("/ID/", f"/{name}/")
    assert (header, option) == ("-H", "-d")
    headers = dict([content_type.split(": ")])
    answer = client.post(url.removeprefix("http://127.0.0.1:8000"), content=body, headers=headers)
    assert answer.is_success, answer.text
    found: dict[str, Any] = orjson.loads(answer.content)
    return found


def test_every_request_of_the_page_is_answered(client: TestClient) -> None:
    references, scores, ratings, frozen = (sent(client, command) for command in _REQUESTS[:4])
    against = sent(client, _REQUESTS[4], frozen["id"])
    assert _REQUESTS[5:] == []
    assert [item["id"] for item in references["items"]] == ["d1"]
    assert [one["metric"] for one in scores["scores"]] == ["upsilon-bleu", "bleu"]
    assert list(scores["scores"][0]["systems"]) == ["a", "b"]
    assert list(scores["scores"][0]["comparisons"]) == ["a"]
    assert scores["resampling"]["draws"] == 1_000
    assert [[isinstance(rating, float) for rating in pair] for pair in ratings["ratings"]] == [[True]]
    assert frozen["purpose"] == "test"
    assert against["set"]["id"] == frozen["id"]
    assert [reply["id"] for reply in against["scores"][0]["systems"]["a"]["replies"]] == ["d1", "d1"]
    assert against["scores"][0]["systems"]["a"]["replies"][0]["score"] == 1.0


def test_the_scores_of_every_page_that_asks_for_some_are_verified(client: TestClient) -> None:
    commands = [command for command in [*_REQUESTS, *_FIRST_STEPS] if "/v1/scores" in command]
    for command in commands:
        items = orjson.loads(shlex.split(command)[-1])["items"]
        answer = client.post("/v1/verifications", json={"scores": sent(client, command), "items": items})
        assert answer.json()["verdict"] == "holds", answer.text
    assert len(commands) == 2
    frozen = sent(client, _REQUESTS[3])
    request = _REQUESTS[4].replace('"d1", "d1"', '"d1"').replace(', "In the shop."', "")
    against = sent(client, request, frozen["id"])
    items = [{"id": "d1", "replies": {"a": "At the market."}}]
    found = client.post("/v1/verifications", json={"scores": against, "items": items}).json()
    assert (found["verdict"], [part["part"] for part in found["parts"]][2]) == ("holds", "frozen set")
    twice = client.post("/v1/verifications", json={"scores": sent(client, _REQUESTS[4], frozen["id"]), "items": items})
    [missing] = [part["message"] for part in twice.json()["parts"] if part["state"] == "missing"]
    assert "only scores of one reply to each item" in missing


def test_every_route_stands_on_the_page(client: TestClient) -> None:
    paths = orjson.loads(client.get("/openapi.json").content)["paths"]
    named = re.findall(r"/(?:v1/[a-z/{}-]+|healthz|readyz|metrics|problems)", PAGE.replace("/ID/", "/{id}/"))
    missing = [path for path in paths if not any(path == name or path.startswith(f"{name}/") for name in named)]
    assert missing == []
    unknown = [name for name in named if not any(path == name or path.startswith(f"{name}/") for path in paths)]
    assert unknown == []


def test_every_figure_says_what_it_counts_and_those_of_the_page_exist(client: TestClient) -> None:
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    ours = {name: family for name, family in families.items() if name.startswith("refaug_")}
    assert [name for name, family in ours.items() if not family.documentation] == []
    named = set(re.findall(r"`(refaug_[a-z_]+)`", PAGE))
    assert "refaug_artefact_trouble" in named <= {*ours}


def test_sets_that_are_kept_ready_are_counted(client: TestClient) -> None:
    frozen = sent(client, _REQUESTS[3].replace('"test"', '"train"'))  # one that nobody has scored by
    body = {"replies": {"a": ["At the market."]}, "metrics": ["delta-bleu"]}

    def counted() -> dict[str, float]:
        families = text_string_to_metric_families(client.get("/metrics").text)
        samples = [one for family in families for one in family.samples if one.labels.get("cache") == "sets"]
        return {one.name: one.value for one in samples}

    before = counted()
    for _ in range(3):
        assert client.post(f"/v1/reference-sets/{frozen['id']}/scores", json=body).is_success
    grown = {name: value - before.get(name, 0) for name, value in counted().items()}
    assert grown == {"refaug_cache_hits_total": 2, "refaug_cache_misses_total": 1}
