"""The default metric of a server, and the hint of answers where it has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, migrated, small_home, small_items
from starlette.testclient import TestClient

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings

ITEMS = small_items(3)
HINT = (
    "no metric is named, so these are scores by multi-bleu; this server has an index and a rater: "
    '"metrics": ["upsilon-bleu"] finds references and weighs them'
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home) as opened:
        yield opened


def answered(client: TestClient, body: dict[str, Any], path: str = "/v1/scores") -> dict[str, Any]:
    response = client.post(path, json={"items": ITEMS, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


# ── the default metric ────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_default_metric_the_answer_hints_at_index_and_rater(client: TestClient) -> None:
    answer = answered(client, {})
    assert [scores["metric"] for scores in answer["scores"]] == ["multi-bleu"]
    assert HINT in answer["warnings"]
    for body in ({"metrics": ["multi-bleu"]}, {"references": "given"}, {"index": "chat", "metrics": ["upsilon-bleu"]}):
        assert HINT not in answered(client, body)["warnings"]


def test_the_default_without_a_setting_is_the_same_whatever_is_published(client: TestClient, tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path)), ready=False) as bare:
        alone = answered(bare, {})
    assert alone["scores"] == answered(client, {})["scores"]
    assert HINT not in alone["warnings"]


def test_a_default_metric_is_that_of_requests_that_name_none(home: Settings) -> None:
    with client_of(home, default_metric="upsilon-bleu") as client:
        answer = answered(client, {})
        named = answered(client, {"metrics": ["upsilon-bleu"]})
        assert (answer["scores"], answer["versions"]) == (named["scores"], named["versions"])
        assert HINT not in answer["warnings"]
        given = answered(client, {"references": "given"})
        assert [scores["metric"] for scores in given["scores"]] == ["multi-bleu"]
        assert [scores["metric"] for scores in answered(client, {"metrics": ["chrf"]})["scores"]] == ["chrf"]
    with client_of(home, default_metric="chrf") as client:
        assert [scores["metric"] for scores in answered(client, {})["scores"]] == ["chrf"]
        found = client.post("/v1/scores", json={"items": ITEMS, "index": "chat"})  # which chrf does not look at
        assert "refaug-1, the metric where none is named" in found.json()["detail"]


def test_a_default_metric_does_not_fall_back_where_nothing_is_published(tmp_path: Path) -> None:
    with client_of(migrated(Settings(home=tmp_path)), default_metric="upsilon-bleu", ready=False) as client:
        assert client.post("/v1/scores", json={"items": ITEMS}).json()["code"] in {"no_index", "unavailable"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("blue", "blue"), ("bleu:n=9", "n cannot be '9'"), ("ruber", "needs a ruber")],
)
def test_a_default_metric_that_is_none_is_refused_at_the_start(text: str, message: str) -> None:
    with pytest.raises(Usage) as error:
        ServeSettings.from_env({"REFAUG_DEFAULT_METRIC": text})
    assert error.value.message.startswith(f"REFAUG_DEFAULT_METRIC is {text!r}")
    assert message in error.value.message
