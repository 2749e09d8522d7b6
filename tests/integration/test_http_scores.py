"""References, scores and ratings over HTTP: the answers of the functions that the command asks, and every refusal."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from indexes import build
from serving import READY_WITHIN_S, client_of, played, small_home, small_items, wait_until, wait_until_ready
from starlette.testclient import TestClient

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.records import Item, Reference
from refaug.indexer.vectors.training import import_vectors
from refaug.metrics.signature import Signature
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.augmentation import augment, found_json
from refaug.scoring.cases import evidence_of
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.indexes import open_index, places_of
from refaug.scoring.home.networks import open_rater
from refaug.scoring.items import parse_item
from refaug.scoring.metric_setup import baseline
from refaug.scoring.metric_setup.metric_requests import metrics_of
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings, ScoreSettings
from refaug.service.serving.batches.queued_requests import QueuedCall
from refaug.service.serving.versions import version_opener
from refaug.service.serving.versions.open_versions import OpenVersions
from refaug.service.web.routes.references import RatingsOut, ReferencesOut
from refaug.service.web.state import ServiceState

ITEMS = small_items(8)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home) as client:
        yield client


def items_of(values: list[dict[str, Any]]) -> list[Item]:
    read = [parse_item(value, where="", line=1, fallback_id="") for value in deepcopy(values)]
    return [one for one in read if isinstance(one, Item)]


@contextmanager
def tools(home: Settings) -> Iterator[tuple[Any, Any]]:
    rater = open_rater(home, "base", threads=1)
    with open_index(home, "chat", threads=1) as index:
        yield index, rater


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert (told["status"], told["code"], told["type"]) == (status, code, f"/problems/{code}")
    assert told["request_id"] == answer.headers["x-request-id"]
    assert told["title"]
    assert told["detail"]
    return told


# ── references ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sent", "settings"),
    [
        ({}, AugmentSettings()),
        (
            {"k": 3, "gold": "rated", "parrot": 0.25},
            AugmentSettings(k=3, gold="rated", parrot=0.25),
        ),
        ({"weights": "one", "parrot": "off"}, AugmentSettings(weights="one", parrot="off")),
        (
            {"k": 4, "mode": "bm25-utterance", "combine": "mean", "calibrated": True},
            AugmentSettings(
                k=4,
                mode="bm25-utterance",
                combine="mean",
                calibrated=True,
            ),
        ),
        (
            {"mode": "embedding-dialog", "alpha": 0.9, "epsilon": 0, "depth": 30, "near": 0.5, "near_tokens": 2},
            AugmentSettings(mode="embedding-dialog", alpha=0.9, epsilon=0, depth=30, near=0.5, near_tokens=2),
        ),
        (
            {"before": "2030-01-01T00:00:00Z", "after": "2020-01-01T00:00:00+01:00"},
            AugmentSettings(
                before=datetime(2030, 1, 1, tzinfo=UTC),
                after=datetime.fromisoformat("2020-01-01T00:00:00+01:00"),
            ),
        ),
    ],
)
def test_references_are_those_of_augment_in_the_order_sent(
    client: TestClient, home: Settings, sent: dict[str, Any], settings: AugmentSettings
) -> None:
    answer = client.post("/v1/references", json={"items": ITEMS, "settings": sent})
    assert answer.status_code == 200, answer.text
    found = ReferencesOut.model_validate_json(answer.content).model_dump(exclude_unset=True)
    with tools(home) as (index, rater):
        expected = [one for one in augment(items_of(ITEMS), index, rater, settings) if isinstance(one, Item)]
        of_all = references_provenance(index, rater, settings)
        made_by = {**of_all.settings, **of_all.details}
        versions = {"index": index.spec, **({"rater": rater.spec} if settings.needs_rater else {})}
    assert [one["id"] for one in found["items"]] == [one["id"] for one in ITEMS]
    for one, wanted in zip(found["items"], expected, strict=True):
        shown = found_json(wanted, "")
        assert [ref["text"] for ref in one["references"]] == [ref["text"] for ref in shown["references"]]
        for ref, other in zip(one["references"], shown["references"], strict=True):
            assert ref == pytest.approx(other, abs=1e-5)
        assert one.get("excluded", {}) == wanted.search_notes.get("excluded", {})
        assert one.get("note", "") == wanted.search_notes.get("note", "")
        assert one["evidence"]["weights"] == pytest.approx(evidence_of(wanted)["weights"], abs=1e-5)
        assert one["evidence"]["thin"] == evidence_of(wanted)["thin"]
    assert found["provenance"] == made_by
    assert found["versions"] == versions
    assert found["problems"] == []
    assert sum(len(one["references"]) for one in found["items"]) > len(ITEMS) or "after" in sent


def test_a_bad_item_refuses_the_request_or_is_reported(client: TestClient) -> None:
    bad = {"id": "x", "utterance": "how", "references": [{"text": "no", "weight": 3}]}
    items = [ITEMS[0], bad, 7, ITEMS[1], {**ITEMS[2], "id": "d0"}]
    told = problem(client.post("/v1/references", json={"items": items}), 422, "bad_input")
    wanted = [
        {
            "item": "x",
            "place": 1,
            "field": "items[1].references[0].weight",
            "message": "3 is out of range: it must be from -1 to 1",
        },
        {
            "item": None,
            "place": 2,
            "field": "items[2]",
            "message": "an item is an object, with a test pair in it; int was found",
        },
        {
            "item": "d0",
            "place": 4,
            "field": "items[4].id",
            "message": "'d0' is the id of items[0]: every item has an id of its own",
        },
    ]
    assert told["errors"] == wanted
    assert told["detail"].startswith("3 of 5 items cannot be used: items[1].references[0].weight: 3 is out of range")
    assert all(fact in told["remedy"] for fact in ("on_error", "report"))
    found = client.post("/v1/references", json={"items": items, "on_error": "report"}).json()
    assert [one["id"] for one in found["items"]] == ["d0", "d1"]
    assert found["problems"] == wanted
    alone = client.post("/v1/references", json={"items": [ITEMS[0], ITEMS[1]]}).json()
    assert found["items"] == alone["items"]


def test_numbers_that_are_none_are_refused_where_they_stand(client: TestClient) -> None:
    for number in ("NaN", "Infinity", "1e999"):
        body = f'{{"items": [{{"utterance": "how", "references": [{{"text": "no", "weight": {number}}}]}}]}}'
        told = problem(client.post("/v1/references", content=body, headers=JSON), 422, "bad_input")
        assert told["errors"][0]["field"] == "items[0].references[0].weight"
    told = problem(
        client.post(
            "/v1/references",
            content=b'{"items": [{"utterance": "how"}], "settings": {"near": NaN}}',
            headers=JSON,
        ),
        422,
        "bad_input",
    )
    assert told["errors"][0]["field"] == "settings.near"


def test_fields_that_nobody_reads_and_wrong_types_are_named(client: TestClient) -> None:
    body = {"items": ITEMS, "setings": {}, "settings": {"k": "3", "mode": "nearest", "parrot": 2}, "on_error": "ignore"}
    told = problem(client.post("/v1/references", json=body), 422, "bad_input")
    fields = {one["field"] for one in told["errors"]}
    assert {"settings.k", "settings.mode", "on_error", "setings"} <= fields
    assert any(field.startswith("settings.parrot") for field in fields)
    problem(client.post("/v1/references", json={"items": []}), 422, "bad_input")
    problem(client.post("/v1/references", json=[ITEMS]), 422, "bad_input")
    told = problem(
        client.post("/v1/references", json={"items": ITEMS, "settings": {"after": "first"}}), 422, "bad_input"
    )
    assert told["errors"][0]["field"] == "settings.after"
    settings = {"k": 9, "depth": 3}
    told = problem(client.post("/v1/references", json={"items": ITEMS, "settings": settings}), 422, "bad_input")
    assert told["errors"][0]["field"] == "settings.depth"


def test_what_is_not_there_is_named(client: TestClient) -> None:
    told = problem(client.post("/v1/references", json={"items": ITEMS, "index": "nope"}), 404, "not_found")
    assert "'nope'" in told["detail"]
    assert "chat" in told["remedy"]
    told = problem(client.post("/v1/references", json={"items": ITEMS, "rater": "base@2001-01-01.1"}), 404, "not_found")
    assert "base@2001-01-01.1" in told["detail"]
    told = problem(
        client.post("/v1/references", json={"items": ITEMS, "settings": {"exclude_logs": ["other"]}}), 400, "usage"
    )
    assert (told["detail"], told["remedy"]) == ("the index has no log 'other'", "it has: chat")


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_metric_that_is_meant_follows_from_the_items(client: TestClient) -> None:
    rated = [{**one, "references": [*one["references"], {"text": "yes we do", "weight": 0.5}]} for one in ITEMS]
    found = client.post("/v1/references", json={"items": ITEMS}).json()["items"]
    assert scored_with(client, {"items": ITEMS}) == "multi-bleu"
    assert scored_with(client, {"items": rated}) == "delta-bleu"
    assert scored_with(client, {"items": found}) == "upsilon-bleu"


@pytest.mark.parametrize("finds", [{"index": "chat"}, {"references": "find"}])
def test_an_index_of_words_is_not_scored_by_another_metric_than_the_default(
    finds: dict[str, str], client: TestClient
) -> None:
    told = problem(client.post("/v1/scores", json={"items": ITEMS, **finds}), 400, "usage")
    assert all(fact in told["remedy"] for fact in ("--name", "--encoder"))
    told = problem(client.post("/v1/scores", json={"items": ITEMS, **finds, "rater": "base"}), 400, "usage")
    assert told["detail"].startswith("rater: no metric is named, so replies are scored by refaug-1: nothing is to be")
    assert scored_with(client, {**finds, "rater": "base", "metrics": ["upsilon-bleu"]}) == "upsilon-bleu"


def scored_with(client: TestClient, options: dict[str, Any]) -> str:
    answer = client.post("/v1/scores", json={"items": ITEMS, **options})
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["scores"][0]["metric"]
    return name


def test_references_that_came_as_found_are_scored_as_they_are_with_advice(client: TestClient) -> None:
    items = client.post("/v1/references", json={"items": ITEMS}).json()["items"]
    body = {"items": items, "metrics": ["upsilon-chrf"], "references": "given"}
    given = client.post("/v1/scores", json=body).json()
    signature = Signature.parse(given["scores"][0]["signature_full"])
    assert (signature.settings["b"], given["versions"]) == ("0", {})
    versions = client.post("/v1/references", json={"items": ITEMS}).json()["versions"]
    assert {name: signature.settings[name] for name in ("index", "rater")} == versions
    assert any("upsilon-chrf without b counts from 0" in one for one in given["warnings"])
    found = client.post("/v1/scores", json={**body, "references": "find"}).json()
    assert Signature.parse(found["scores"][0]["signature_full"]).settings["b"] != "0"


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ({"metrics": ["no-such"]}, 400, "no-such"),
        ({"metrics": ["bleu:n=9"]}, 400, "bleu: n cannot be '9'"),
        ({"metrics": ["bleu"], "index": "chat", "references": "given"}, 400, "references"),
        ({"metrics": ["bleu"], "rater": "base"}, 400, "rater: nothing is to be rated"),
        ({"metrics": ["bleu"], "settings": {"k": 3}}, 400, "k: it has no effect where the references are those given"),
        ({"metrics": ["ruber"]}, 400, "ruber"),
        ({"metrics": ["ruber:model=x"]}, 400, "ruber"),
        ({"metrics": ["ruber:referenced=bleu,norm=none,model=none"]}, 404, "none"),
        ({"metrics": ["rater:model=chat"]}, 404, "chat"),
        ({"metrics": ["greedy:vectors=./words.txt"]}, 400, "only the command and import refaug read files"),
        ({"metrics": ["ter"], "percent": True}, 400, "ter is from 0 to ∞, which cannot be given in per cent"),
        ({"baseline": "a"}, 400, "baseline: it has no effect without draws"),
        ({"baseline": "c", "draws": 10}, 400, "no system is called 'c'"),
        ({"draws": 10_001}, 413, "10,001"),
        ({"metrics": [f"bleu:n={1 + n % 4}" for n in range(21)]}, 413, "21 metrics are more than the 20"),
        ({"metrics": ["delta-bleu"]}, 422, "no item has a reference weighted by people"),
        ({"metrics": ["upsilon-bleu"], "references": "given"}, 422, "no item has other references than golds"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words_of_the_request(
    client: TestClient, more: dict[str, Any], status: int, said: str
) -> None:
    code = {400: "usage", 404: "not_found", 413: "too_large", 422: "bad_input"}[status]
    told = problem(client.post("/v1/scores", json={"items": ITEMS, **more}), status, code)
    assert said in told["detail"]
    assert "--" not in told["detail"] + told.get("remedy", "")


MISNAMED: dict[str, Any] = {
    "id": "d1",
    "utterance": "where do you buy tea",
    "reference": ["at the market"],
    "replies": {"a": "at the market"},
}
HINT = {"field": "items[1].reference", "message": "no item has this field; did you mean 'references'?"}


@pytest.mark.parametrize(
    ("path", "more", "code", "fields"),
    [
        ("/v1/scores", {"metrics": ["multi-bleu"], "items": [MISNAMED, MISNAMED]}, "bad_input", ["items[1].id"]),
        ("/v1/scores", {"metrics": ["multi-bleu"]}, "no_gold", ["items[0].references", "items[1].references"]),
        ("/v1/scores", {"metrics": ["upsilon-bleu"]}, "no_gold", ["items[0].references", "items[1].references"]),
        ("/v1/scores", {"metric": "bleu"}, "bad_input", ["metric"]),
        ("/v1/references", {"settings": {"k": 0}}, "bad_input", ["settings.k"]),
        ("/v1/references", {"items": [1, MISNAMED]}, "bad_input", ["items[0]"]),
        (
            "/v1/replies",
            {"bots": {"c": "retrieval:chat"}, "items": [1, MISNAMED]},
            "bad_input",
            ["items[0]"],
        ),
        ("/v1/reference-sets", {"purpose": "test"}, "bad_input", ["items[0].references", "items[1].references"]),
        ("/v1/reference-sets", {"purpose": "tests"}, "bad_input", ["purpose"]),
    ],
)
def test_every_422_names_the_field_that_no_item_has(
    client: TestClient, path: str, more: dict[str, Any], code: str, fields: list[str]
) -> None:
    items = [{"id": "d0", "utterance": "is it late", "replies": {"a": "no"}}, MISNAMED]
    told = problem(client.post(path, json={"items": items, **more}), 422, code)
    assert [one["field"] for one in told["errors"]] == fields
    first_place = next(place for place, one in enumerate(more.get("items", items)) if "reference" in str(one))
    assert told["unknown_fields"] == [{**HINT, "field": f"items[{first_place}].reference"}]
    assert told["detail"].endswith(f"; items[{first_place}].reference: {HINT['message']}")


def test_a_field_that_no_reference_has_is_named_with_its_place(client: TestClient) -> None:
    rows = [
        {"id": "d0", "references": ["yes", {"text": "no", "wieght": 0.5}], "replies": {"a": "no"}},
        {"id": "d1", "references": [{"txt": "no"}], "replies": {"a": "no"}},
    ]
    refused = problem(client.post("/v1/scores", json={"items": rows, "metrics": ["bleu"]}), 422, "bad_input")
    unused = {"message": "no reference has this field; did you mean 'weight'?"}
    assert refused["unknown_fields"] == [
        {"field": "items[0].references[1].wieght", **unused},
        {"field": "items[1].references[0].txt", "message": "no reference has this field; did you mean 'text'?"},
    ]
    assert refused["detail"].endswith(f"; items[0].references[1].wieght: {unused['message']}")
    scored = client.post("/v1/scores", json={"items": rows[:1], "metrics": ["bleu"]}).json()
    assert scored["warnings"][0] == "field 'wieght' of references is not used; did you mean 'weight'?"


def test_items_without_a_gold_are_named_by_place_and_only_where_none_is_scored(client: TestClient) -> None:
    body = {"items": [{"id": 3.5}, {**MISNAMED, "reference": 1}], "metrics": ["bleu", "multi-bleu"]}
    told = problem(client.post("/v1/scores", json={**body, "on_error": "report"}), 422, "no_gold")
    assert told["title"] == "Items without a gold, where scores or ratings need one"
    missing = "it has no gold, and no other reference that could be scored against"
    assert told["errors"] == [{"item": "d1", "place": 1, "field": "items[1].references", "message": missing}]
    mixed = client.post("/v1/scores", json={"items": [ITEMS[0], MISNAMED], "metrics": ["multi-bleu"]}).json()
    replies = mixed["scores"][0]["systems"]["a"]["replies"]
    assert [one.get("problem") for one in replies] == [None, "no_gold"]
    assert mixed["warnings"][0] == "field 'reference' is not used; did you mean 'references'?"


def test_a_metric_that_the_references_do_not_suit_is_reported_for_itself(client: TestClient) -> None:
    body = {"items": ITEMS, "metrics": ["delta-bleu", "multi-bleu", "upsilon-bleu"], "references": "given"}
    problem(client.post("/v1/scores", json=body), 422, "bad_input")
    found = client.post("/v1/scores", json={**body, "on_error": "report"}).json()
    alone = client.post("/v1/scores", json={**body, "metrics": ["multi-bleu"]}).json()
    assert found["scores"] == alone["scores"]
    assert [(one["field"], one["metric"], one["code"]) for one in found["problems"]] == [
        ("metrics[0]", "delta-bleu", "bad_input"),
        ("metrics[2]", "upsilon-bleu", "bad_input"),
    ]
    assert "no item has a reference weighted by people" in found["problems"][0]["message"]
    assert "nothing to weigh" in found["problems"][1]["message"]
    sums = client.post("/v1/scores", json={**body, "on_error": "report", "return": "stats"}).json()
    assert sums["problems"] == found["problems"]
    combined = client.post("/v1/scores/combine", json={"batches": [sums], "on_error": "report"}).json()
    assert combined["problems"] == found["problems"]
    assert [one["metric"] for one in combined["scores"]] == ["multi-bleu"]
    assert combined["scores"][0]["systems"]["a"]["corpus"] == alone["scores"][0]["systems"]["a"]["corpus"]
    problem(client.post("/v1/scores/combine", json={"batches": [sums]}), 422, "bad_input")
    none = {**body, "metrics": ["delta-bleu", "upsilon-bleu"], "on_error": "report"}
    problem(client.post("/v1/scores", json=none), 422, "bad_input")


@pytest.mark.parametrize(
    "spec",
    [
        "meteor:wordnet=/etc",
        "bleu:tok=sentencepiece:/etc/passwd",
        "ruber:model=some,referenced=bleu;tok=sentencepiece:/etc/passwd,norm=none",
        "ruber:model=some,referenced=bleu; tok = sentencepiece:/etc/passwd,norm=none",
    ],
)
def test_a_metric_reads_no_file_that_requests_may_not_name(client: TestClient, spec: str) -> None:
    problem(client.post("/v1/scores", json={"items": ITEMS, "metrics": [spec]}), 403, "not_allowed")


@pytest.mark.parametrize(
    "spec",
    [
        "embedding-average:vectors=/etc/passwd",
        "upsilon-greedy:vectors=../../secret.txt",
        "bertscore:vectors=/etc/x",
        "ruber:unreferenced=rater,referenced=pooled;vectors=/etc/passwd,norm=none",
        "ruber:unreferenced=rater,referenced=pooled; vectors = /etc/passwd ,norm=none",
    ],
)
def test_a_path_is_no_name_of_a_model(client: TestClient, spec: str) -> None:
    problem(client.post("/v1/scores", json={"items": ITEMS, "metrics": [spec]}), 400, "usage")


def test_a_metric_reads_vectors_of_the_home_by_their_name(client: TestClient, home: Settings, tmp_path: Path) -> None:
    words = sorted(
        {word for one in ITEMS for text in (*one["references"], *one["replies"].values()) for word in text.split()}
    )
    lines = [f"{word} {number + 1} {len(word)} {(number * 7) % 5}" for number, word in enumerate(words)]
    (tmp_path / "words.txt").write_text("\n".join(lines))
    import_vectors(places_of(home), "few", tmp_path / "words.txt")
    found = client.post("/v1/scores", json={"items": ITEMS, "metrics": ["embedding-average:vectors=few"]})
    assert found.status_code == 200, found.text
    scored = found.json()["scores"]
    by_file = metrics_of([f"embedding-average:vectors={tmp_path / 'words.txt'}"], None)
    wanted = orjson.loads(orjson.dumps(evaluate(items_of(ITEMS), by_file, ScoreSettings(draws=0)).as_json()))["scores"]
    assert scored[0]["systems"] == wanted[0]["systems"]
    settings = Signature.parse(scored[0]["signature_full"]).settings
    assert settings["vectors"].startswith("few@")
    assert settings["vectors"].partition("#")[2] == by_file[0].settings["vectors"].partition("#")[2]
    assert found.json()["versions"]["metrics"] == [f"embedding-average:vectors={settings['vectors']}"]


# ── sums ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sums_by_different_metrics_are_not_put_together(client: TestClient) -> None:
    batches = [
        client.post("/v1/scores", json={"items": items, "metrics": [spec], "return": "stats"}).json()
        for items, spec in ((ITEMS[:2], "bleu"), (ITEMS[2:], "bleu:n=4"))
    ]
    answer = client.post("/v1/scores/combine", json={"batches": batches})
    assert answer.status_code in (409, 422), answer.text
    assert "batches[1]" in answer.json()["detail"]
    problem(client.post("/v1/scores/combine", json={"batches": [{"stats": 3}]}), 422, "bad_input")
    problem(client.post("/v1/scores/combine", json={"batches": batches, "draws": 10_001}), 413, "too_large")


# ── ratings ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ratings_are_those_of_the_rater_in_the_order_sent(client: TestClient, home: Settings) -> None:
    pairs = [
        {
            "utterance": "how are the boats",
            "golds": ["blue", "the boats are green"],
            "candidates": [{"text": "red"}, {"text": "no", "utterance": "do we fly"}, {"text": ""}],
        },
        {"utterance": "do apples fly", "golds": ["yes"], "candidates": []},
        {"utterance": "do apples fly", "golds": ["yes"], "candidates": [{"text": "yes we like apples"}]},
    ]
    rater = open_rater(home, "base", threads=1)
    asked = [
        RatingRequest(
            utterance=str(one["utterance"]),
            golds=tuple(one["golds"]),
            candidates=tuple(Reference(**candidate) for candidate in one["candidates"]),  # type: ignore[arg-type]
        )
        for one in pairs
    ]
    for combine, calibrated in (("first", False), ("max", True)):
        body = {"pairs": pairs, "combine": combine, "calibrated": calibrated}
        answer = client.post("/v1/ratings", json=body)
        found = RatingsOut.model_validate_json(answer.content)
        wanted = rater.rate(asked, RatingSettings(combine=combine, calibrated=calibrated))  # type: ignore[arg-type]
        assert [len(one) for one in found.ratings] == [3, 0, 1]
        for one, other in zip(found.ratings, wanted, strict=True):
            assert one == pytest.approx(other, abs=1e-5)
        assert found.versions.rater == rater.spec


def test_pairs_that_cannot_be_rated_are_named(client: TestClient) -> None:
    pair = {"utterance": "how", "golds": ["yes"], "candidates": [{"text": "x" * 20_001}]}
    told = problem(client.post("/v1/ratings", json={"pairs": [{**pair, "golds": ["yes", " "]}]}), 422, "bad_input")
    assert [(one["field"], one["message"]) for one in told["errors"]] == [
        ("pairs[0].golds[1]", "it is empty"),
        ("pairs[0].candidates[0].text", "20,001 characters are more than the 20,000 that one text may have"),
    ]
    problem(client.post("/v1/ratings", json={"pairs": [{**pair, "golds": []}]}), 422, "bad_input")
    problem(client.post("/v1/ratings", json={"pairs": [{**pair, "candidates": []}], "rater": "nope"}), 404, "not_found")


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_limits_are_settings_and_name_what_is_too_much(home: Settings) -> None:
    with client_of(home, items=3, replies=5, references=2, text_chars=100, metrics=2, draws=10) as client:
        told = problem(client.post("/v1/references", json={"items": ITEMS[:4]}), 413, "too_large")
        assert told["detail"] == "4 items are more than the 3 that one request may have"
        told = problem(client.post("/v1/scores", json={"items": ITEMS[:3]}), 413, "too_large")
        assert told["detail"] == "6 replies are more than the 5 that one request may have"
        many = {**ITEMS[0], "references": ["yes", "no", "the boats"]}
        told = problem(client.post("/v1/references", json={"items": [many]}), 422, "bad_input")
        assert told["errors"][0]["field"] == "items[0].references"
        assert told["errors"][0]["message"] == "3 are more than the 2 that one item may have"
        for field, item in (
            ("utterance", {"utterance": "x" * 101}),
            ("turns[0]", {"turns": ["x" * 101, "y"]}),
            ("references[0].text", {"utterance": "y", "references": ["x" * 101]}),
            ("replies.a", {"utterance": "y", "replies": {"a": "x" * 101}}),
            ("dialogue", {"utterance": "y", "dialogue": "x" * 101}),
            ("exclude[1]", {"utterance": "y", "exclude": ["d", "x" * 101]}),
            ("id", {"utterance": "y", "id": "x" * 101}),
        ):
            told = problem(client.post("/v1/references", json={"items": [item]}), 422, "bad_input")
            assert told["errors"][0]["field"] == f"items[0].{field}"
        problem(
            client.post("/v1/scores", json={"items": ITEMS[:1], "metrics": ["bleu", "chrf", "ter"]}), 413, "too_large"
        )
        problem(client.post("/v1/scores", json={"items": ITEMS[:1], "draws": 11}), 413, "too_large")


def test_bodies_go_packed_both_ways(client: TestClient) -> None:
    body = gzip.compress(orjson.dumps({"items": ITEMS, "metrics": ["upsilon-bleu"]}))
    gzipped = {**JSON, "Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    packed = client.post("/v1/scores", content=body, headers=gzipped)
    plain = client.post(
        "/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"]}, headers={"Accept-Encoding": "identity"}
    )
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert "content-encoding" not in plain.headers
    assert {**packed.json(), "request_id": 0} == {**plain.json(), "request_id": 0}
    small = client.get("/healthz", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


# ── time, and who waits ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def executor_taken(client: TestClient) -> Iterator[threading.Event]:
    """The executor does nothing until the event is set, or the block ends."""
    state: ServiceState = client.app.state.refaug  # type: ignore[attr-defined]
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(60)

    async def take() -> None:
        call = QueuedCall(hold, None, 1, float("inf"))
        state.batcher._batches.admit(call)
        await asyncio.gather(call.future, state.batcher.run(hold, items=1, deadline=float("inf")))

    assert client.portal is not None
    holding = client.portal.start_task_soon(take)
    assert begun.wait(60)
    wait_until(lambda: not state.batcher.waiting())
    try:
        yield go_on
    finally:
        go_on.set()
        holding.result(60)


def test_the_time_that_a_request_gives_is_kept_and_limited(client: TestClient) -> None:
    with executor_taken(client):
        answer = client.post("/v1/scores", json={"items": ITEMS}, headers={"X-Timeout-S": "0.05"})
        told = problem(answer, 503, "expired")
        assert int(answer.headers["retry-after"]) >= 1
        assert "time" in told["detail"]
    for given in ("61", "inf", "nan", "0", "-1", "soon"):
        told = problem(
            client.post("/v1/scores", json={"items": ITEMS}, headers={"X-Timeout-S": given}), 422, "bad_input"
        )
        assert told["errors"][0]["field"] == "header.x-timeout-s"
    assert client.post("/v1/scores", json={"items": ITEMS}, headers={"X-Timeout-S": "60"}).status_code == 200


def test_work_that_nobody_waits_for_any_more_is_dropped(client: TestClient) -> None:
    state: ServiceState = client.app.state.refaug  # type: ignore[attr-defined]
    unseen = small_items(8, seed=661)  # what was found before is kept, and waits for nobody
    sent = [{"type": "http.request", "body": orjson.dumps({"items": unseen}), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        async with asyncio.timeout(READY_WITHIN_S):
            while not state.batcher.waiting():
                await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    with executor_taken(client):
        assert client.portal is not None
        answered = client.portal.call(played, client.app, "/v1/references", receive)
        assert answered.status == 499
        assert state.batcher.waiting() == 0


# ── what serves ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_rater_weighted_scores_are_409_and_plain_ones_are_not(tmp_path: Path) -> None:
    home = small_home(tmp_path, raters=0)
    with client_of(home) as client:
        told = problem(client.post("/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"]}), 409, "no_rater")
        assert all(fact in told["remedy"] for fact in ('"weights": "one"', '"preset": "refaug-1"'))
        problem(
            client.post("/v1/ratings", json={"pairs": [{"utterance": "a", "golds": ["b"], "candidates": []}]}),
            409,
            "no_rater",
        )
        settings = {"weights": "one", "parrot": "off"}
        found = client.post(
            "/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"], "settings": settings}
        ).json()
        signature = Signature.parse(found["scores"][0]["signature_full"])
        assert (signature.settings["weights"], signature.settings["parrot"]) == ("one", "off")
        assert list(found["versions"]) == ["index"]
        assert client.post("/v1/scores", json={"items": ITEMS}).json()["scores"][0]["metric"] == "multi-bleu"


def test_an_old_version_can_be_pinned_and_the_default_is_a_setting(tmp_path: Path) -> None:
    home = small_home(tmp_path, indexes=2)
    versions = places_of(home).indexes.versions("chat")
    build(places_of(home), "other")
    with client_of(home) as client:
        body = {"items": ITEMS[:2], "settings": {"weights": "one", "parrot": "off"}}
        told = problem(client.post("/v1/references", json=body), 409, "no_default_index")
        assert told["remedy"] == "name one of: chat, other"
        old, new = (
            client.post("/v1/references", json={**body, "index": f"chat@{version}"}).json() for version in versions
        )
        assert [one["versions"]["index"].partition("#")[0] for one in (old, new)] == [f"chat@{one}" for one in versions]
        assert old["items"] != new["items"]
        assert client.post("/v1/references", json={**body, "index": "chat"}).json()["items"] == old["items"]
    with client_of(home, default_index=f"chat@{versions[1]}") as client:
        found = client.post("/v1/references", json=body).json()
        assert found["items"] == new["items"]


def test_readiness_names_what_is_missing_and_health_does_not_care(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = small_home(tmp_path)
    looking, go_on = threading.Event(), threading.Event()
    refresh = OpenVersions.refresh

    def slowly(engines: OpenVersions, **how: Any) -> bool:
        looking.set()
        go_on.wait(60)
        return refresh(engines, **how)

    monkeypatch.setattr(OpenVersions, "refresh", slowly)
    with client_of(home, ready=False) as client:
        assert looking.wait(60)
        assert client.get("/healthz").json()["status"] == "ok"
        told = problem(client.get("/readyz"), 503, "not_ready")
        assert "indexes and raters" in told["missing"]
        problem(client.post("/v1/references", json={"items": ITEMS}), 503, "unavailable")
        assert client.get("/v1/metrics").status_code == 200
        go_on.set()
        wait_until_ready(client)
        found = client.get("/readyz").json()
        assert sorted(found["versions"]["index"]) == ["chat"]
        assert found["versions"]["rater"] == {"base": found["versions"]["rater"]["base"]}


def test_request_expires_while_a_version_opens_and_the_next_one_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, may_open, opened = small_home(tmp_path, raters=2), threading.Event(), list[str]()
    pinned = f"base@{artefact_stores(home)['rater'].versions('base')[1]}"

    def slowly(settings: Settings, spec: str, **how: Any) -> Any:
        opened.append(spec)
        if spec == pinned:
            assert may_open.wait(60)
        return open_rater(settings, spec, **how)

    monkeypatch.setattr(version_opener, "open_rater", slowly)
    with client_of(home, old_versions=0) as client:
        asked = {"items": ITEMS, "rater": pinned, "metrics": ["upsilon-bleu"]}
        pairs = {"pairs": [{"utterance": "how", "golds": ["so"], "candidates": [{"text": "no"}]}], "rater": pinned}
        frozen = {"items": ITEMS, "rater": pinned, "purpose": "test", "references": "find"}
        found = {"items": ITEMS, "rater": pinned}
        routes = {"scores": asked, "references": found, "ratings": pairs, "reference-sets": frozen}
        for route, body in routes.items():
            problem(client.post(f"/v1/{route}", json=body, headers={"X-Timeout-S": "0.2"}), 503, "expired")
            assert client.post("/v1/scores", json={"items": ITEMS}).status_code == 200, "others are answered"
        engines = client.app.state.refaug.open_versions
        may_open.set()
        wait_until(lambda: not engines._opening)
        answer = client.post("/v1/scores", json=asked)
        assert answer.json()["versions"]["rater"].startswith(pinned)
        wait_until(lambda: [key.spec for key in engines._open if key.kind == "rater"] == [opened[0]])  # none is kept
        assert opened[1] == pinned


def test_what_is_measured_first_holds_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, measuring, may_end = small_home(tmp_path), threading.Event(), threading.Event()
    index_baseline = baseline.index_baseline

    def slowly(*asked: Any) -> Any:
        measuring.set()
        assert may_end.wait(60)
        return index_baseline(*asked)

    monkeypatch.setattr(baseline, "index_baseline", slowly)
    body, answers = {"items": ITEMS, "metrics": ["upsilon-chrf"]}, list[Any]()
    with client_of(home) as client:
        first = threading.Thread(target=lambda: answers.append(client.post("/v1/scores", json=body)))
        first.start()
        try:
            assert measuring.wait(60)
            for metric in ("multi-bleu", "upsilon-chrf:b=0.1"):
                assert client.post("/v1/scores", json={**body, "metrics": [metric]}).status_code == 200
            assert client.post("/v1/references", json={"items": ITEMS}).status_code == 200
            assert answers == []
        finally:
            may_end.set()
            first.join(60)
        again = client.post("/v1/scores", json=body)
        assert [one.status_code for one in (*answers, again)] == [200, 200]
        assert answers[0].json()["scores"] == again.json()["scores"]
        assert client.app.state.refaug.bases.has_measured(again.json()["versions"]["index"], ["upsilon-chrf"], None)


def test_an_index_that_cannot_be_opened_is_missing_by_name(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    version = places_of(home).indexes.versions("chat")[0]
    (places_of(home).indexes.folder("chat", version) / "manifest.json").write_text("{}")
    with client_of(home, ready=False) as client:
        wait_until(lambda: "index chat" in problem(client.get("/readyz"), 503, "not_ready")["missing"])
        told = client.post("/v1/references", json={"items": ITEMS})
        assert told.status_code == 503
        assert str(home.home) not in told.text
        assert client.post("/v1/scores", json={"items": ITEMS}).status_code == 200


def test_a_database_that_is_gone_keeps_nobody_from_scoring(tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with client_of(home, database="postgresql+psycopg://nobody:secret@127.0.0.1:9/none") as client:
        assert client.post("/v1/scores", json={"items": ITEMS, "metrics": ["upsilon-bleu"]}).status_code == 200
        figures = client.get("/metrics").text
        assert "refaug_database_up 0.0" in figures
        assert 'refaug_version_info{kind="index",name="chat"' in figures
