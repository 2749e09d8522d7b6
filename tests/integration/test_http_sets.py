"""Frozen sets over HTTP: the same sets, facts and scores as by the command, and what only a server has to keep to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from engines import TEXTS
from integration.conftest import Home
from serving import client_of, small_home, small_items
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

UPSILON = "upsilon-bleu"
TOOLS = ("--index", "chat", "--rater", "base", "--threads", "1")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("sets"))


@pytest.fixture
def settings(template: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(template.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with client_of(settings) as found:
        yield found


@pytest.fixture
def command(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(settings.home, capsys)


def written(path: Path, items: Sequence[Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(item) + b"\n" for item in items))
    return path


def frozen(client: TestClient, items: Sequence[Any], **asked: Any) -> dict[str, Any]:
    answer = client.post("/v1/reference-sets", json={"items": items, "purpose": "test", **asked})
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def plain(document: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("request_id", *without)}


GIVEN = [
    {"id": "g1", "utterance": "how are you", "references": ["i am fine", {"text": "we are fine", "weight": 0.5}]},
    {"id": "g2", "turns": ["hello", "do you fly"], "references": ["no", {"text": "yes we do", "weight": -0.25}]},
    {"id": "g3", "references": ["the boats are blue", {"text": "the boats are green", "weight": 0.75}]},
]


# ── making ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_items_are_the_same_set_as_by_the_command(
    client: TestClient, command: Home, settings: Settings, tmp_path: Path
) -> None:
    items = small_items(5)
    # What the server's rater has read by then changes the last digits of what it says, and must not change the set.
    assert client.post("/v1/references", json={"items": small_items(7, seed=2)}).status_code == 200
    made = client.post("/v1/reference-sets", json={"items": items, "purpose": "test"})
    assert made.status_code == 201, made.text
    told = made.json()
    assert made.headers["location"] == f"/v1/reference-sets/{told['id']}"
    assert (told["new"], told["problems"], told["items"]) == (True, [], 5)

    path = written(tmp_path / "items.jsonl", items)
    by_command = command("sets", "freeze", path, "--purpose", "test", *TOOLS, "--json").json
    assert (by_command["id"], by_command["new"]) == (told["id"], False)
    shared = plain(told, "new", "problems", "warnings", "created")
    assert shared == {name: by_command[name] for name in shared}
    assert told["provenance"]["index"].startswith("chat@")
    assert told["provenance"]["rater"].startswith("base@")
    assert told["how"] == {"freeze": {"references": "found"}}
    assert ReferenceSets(settings.reference_sets).ids() == [told["id"]]

    again = client.post("/v1/reference-sets", json={"items": items, "purpose": "test"})
    assert (again.status_code, again.json()["new"], again.json()["id"]) == (200, False, told["id"])
    other = frozen(client, items, purpose="train")
    assert other["id"] != told["id"]


def test_settings_of_retrieval_and_pinned_versions_go_into_the_set(
    client: TestClient, command: Home, tmp_path: Path
) -> None:
    items = small_items(4)
    version = client.get("/v1/artefacts/index/chat").json()["current"]
    asked = {"k": 3, "weights": "one", "parrot": "off", "near": 0.9}
    told = frozen(client, items, index=f"chat@{version}", settings=asked)
    flags = ("-k", "3", "--reference-weights", "one", "--parrot", "off")
    path = written(tmp_path / "items.jsonl", items)
    by_command = command(
        "sets", "freeze", path, "--purpose", "test", "--index", "chat", *flags, "--threads", "1", "--json"
    ).json
    assert by_command["id"] == told["id"]
    assert "rater" not in told["provenance"]


def test_references_that_are_given_are_frozen_as_they_are(client: TestClient, command: Home, tmp_path: Path) -> None:
    told = frozen(client, GIVEN, references="given")
    by_command = command("sets", "freeze", written(tmp_path / "given.jsonl", GIVEN), "--purpose", "test", "--json").json
    assert (told["id"], told["provenance"], told["references"]) == (by_command["id"], {}, 6)
    for vain in ({"index": "chat"}, {"rater": "base"}, {"settings": {"k": 3}}):
        body = {"items": GIVEN, "purpose": "test", "references": "given", **vain}
        refused = client.post("/v1/reference-sets", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "usage")
        assert next(iter(vain)) in refused.json()["detail"]
    unrated = {"weights": "one", "parrot": "off"}
    body = {"items": GIVEN, "purpose": "test", "rater": "base", "settings": unrated}
    assert client.post("/v1/reference-sets", json=body).json()["code"] == "usage"


BAD = [
    GIVEN[0],
    {"id": "nothing", "utterance": "how are you", "references": []},
    {"id": "wrong", "references": [5]},
    GIVEN[0],
    {"id": "unweighted", "references": ["a", {"text": "b", "source": "retrieved"}]},
    GIVEN[1],
]


def test_one_bad_item_refuses_all_and_leaves_nothing_or_is_left_out(client: TestClient, settings: Settings) -> None:
    body = {"items": BAD, "purpose": "test", "references": "given"}
    refused = client.post("/v1/reference-sets", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_input")
    assert [one["field"] for one in refused.json()["errors"]] == ["items[2].references[0]", "items[3].id"]
    late = client.post("/v1/reference-sets", json={**body, "items": [BAD[0], BAD[1], BAD[4], BAD[5]]})
    assert late.status_code == 422
    assert [(one["item"], one["field"]) for one in late.json()["errors"]] == [
        ("nothing", "items[1].references"),
        ("unweighted", "items[2].references[1]"),
    ]
    assert ReferenceSets(settings.reference_sets).ids() == []

    reported = frozen(client, BAD, references="given", on_error="report")
    assert (reported["items"], reported["new"]) == (2, True)
    assert [(one["item"], one["place"], one["field"]) for one in reported["problems"]] == [
        ("nothing", 1, "items[1].references"),
        ("wrong", 2, "items[2].references[0]"),
        ("g1", 3, "items[3].id"),
        ("unweighted", 4, "items[4].references[1]"),
    ]
    assert reported["id"] == frozen(client, GIVEN[:2], references="given")["id"]
    none_left = client.post("/v1/reference-sets", json={**body, "items": [BAD[1]], "on_error": "report"})
    assert (none_left.status_code, none_left.json()["code"]) == (422, "bad_input")


def test_many_items_are_frozen_by_a_job_into_the_same_set(settings: Settings) -> None:
    items = small_items(5)
    with client_of(settings, freeze_at_once=4) as client:
        answer = client.post("/v1/reference-sets", json={"items": items, "purpose": "test"})
        assert answer.status_code == 202, answer.text
        job = answer.json()
        assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
        assert (job["kind"], job["state"], job["order"]["purpose"]) == ("freeze", "queued", "test")
        current = client.get("/v1/artefacts/index/chat").json()["current"]
        assert job["order"]["index"] == f"chat@{current}"
        assert run_worker(settings, ServeSettings(), once=True) == 0
        done = client.get(answer.headers["location"]).json()
        assert done["state"] == "done", done
    with client_of(settings, freeze_at_once=5) as client:
        assert frozen(client, items)["id"] == done["result"]["set"]


def test_a_job_that_freezes_given_items_is_told_the_bad_ones_at_once(settings: Settings) -> None:
    with client_of(settings, freeze_at_once=1, ready=False) as client:
        body = {"items": BAD, "purpose": "test", "references": "given"}
        assert client.post("/v1/reference-sets", json=body).status_code == 422
        answer = client.post("/v1/reference-sets", json={**body, "on_error": "report"})
        assert answer.status_code == 202
        assert [one["field"] for one in answer.json()["problems"]] == ["items[2].references[0]", "items[3].id"]
        run_worker(settings, ServeSettings(), once=True)
        job = client.get(answer.headers["location"]).json()
        assert (job["state"], job["result"]["items"]) == ("done", 2)
        assert [one["item"] for one in job["result"]["problems"]] == ["nothing", "unweighted"]


def test_items_of_a_job_that_cannot_wait_are_not_kept(settings: Settings) -> None:
    with client_of(settings, freeze_at_once=1, waiting_jobs=1, ready=False) as client:
        body = {"items": GIVEN, "purpose": "test", "references": "given"}
        assert client.post("/v1/reference-sets", json=body).status_code == 202
        assert client.post("/v1/reference-sets", json=body).json()["code"] == "overloaded"
    assert len(list((settings.home / "jobs").glob("items-*"))) == 1


def test_freezing_ends_at_its_timeout_and_is_limited_in_items(
    settings: Settings,
) -> None:
    with client_of(settings, items=4) as client:
        body = {"items": small_items(4), "purpose": "test"}
        late = client.post("/v1/reference-sets", json=body, headers={"X-Timeout-S": "0.000001"})
        assert (late.status_code, late.json()["code"]) == (503, "expired")
        assert ReferenceSets(settings.reference_sets).ids() == []
        many = client.post("/v1/reference-sets", json={**body, "items": small_items(5)})
        assert (many.status_code, many.json()["code"]) == (413, "too_large")
        assert client.post("/v1/reference-sets", json=body).status_code == 201


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_of_sets_hold_each_once_and_only_those_for_the_purpose(client: TestClient) -> None:
    purposes = ["test", "train", "test", "validation", "train", "test"]
    made = {
        frozen(client, [{**GIVEN[0], "id": f"i{number}"}], references="given", purpose=purpose)["id"]: purpose
        for number, purpose in enumerate(purposes)
    }
    for purpose in (None, "test", "train"):
        wanted = [name for name in sorted(made) if purpose in (None, made[name])]
        for limit in (1, 2, 3, 6, 7):
            walked, query = list[Any](), {"limit": limit, **({"purpose": purpose} if purpose else {})}
            while True:
                page = client.get("/v1/reference-sets", params=query).json()
                assert len(page["sets"]) <= limit
                walked += page["sets"]
                if page["next"] is None:
                    break
                query["after"] = page["next"]
            assert [(one["id"], one["purpose"]) for one in walked] == [(name, made[name]) for name in wanted]
    assert client.get("/v1/reference-sets", params={"purpose": "fun"}).status_code == 422


def test_a_set_is_shown_as_the_command_shows_it(client: TestClient, command: Home) -> None:
    told = frozen(client, small_items(5))
    shown = client.get(f"/v1/reference-sets/{told['id'][:8]}").json()
    assert plain(shown) == command("sets", "show", told["id"], "--json").json
    assert sum(one["references"] for one in shown["evidence"]["weights"]) > 0


@pytest.mark.parametrize(("name", "status"), [("0" * 16, 404), ("XYZ", 400)])
def test_what_is_no_set_is_told(client: TestClient, name: str, status: int) -> None:
    for path in ("", "/download"):
        assert client.get(f"/v1/reference-sets/{name}{path}").status_code == status, path
    body = {"replies": {"a": ["x"]}}
    assert client.post(f"/v1/reference-sets/{name}/scores", json=body).status_code == status


def test_a_damaged_set_is_listed_with_what_is_wrong(client: TestClient, settings: Settings) -> None:
    good = frozen(client, GIVEN, references="given")["id"]
    (settings.reference_sets / f"{'f' * 16}.jsonl.zst").write_bytes(zstandard.compress(b"{}\n"))
    first, second = client.get("/v1/reference-sets").json()["sets"]
    assert (first["id"], first["problem"]) == (good, None)
    assert (second["id"], second["purpose"]) == ("f" * 16, None)
    assert "not a manifest" in second["problem"]
    assert str(settings.home) not in second["problem"]


# ── downloading ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_download_is_the_file_and_its_tag_names_its_bytes(client: TestClient, settings: Settings) -> None:
    name = frozen(client, small_items(5))["id"]
    path = settings.reference_sets / f"{name}.jsonl.zst"
    got = client.get(f"/v1/reference-sets/{name}/download")
    assert (got.status_code, got.content) == (200, path.read_bytes())
    assert (got.headers["content-type"], got.headers["content-length"]) == ("application/zstd", str(len(got.content)))
    assert f'filename="{name}.jsonl.zst"' in got.headers["content-disposition"]
    tag = got.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = client.get(f"/v1/reference-sets/{name}/download", headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    other = client.get(f"/v1/reference-sets/{name}/download", headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, got.content)
    assert client.get(f"/v1/reference-sets/{name}/download").headers["etag"] == tag
    different = frozen(client, GIVEN, references="given")["id"]
    assert client.get(f"/v1/reference-sets/{different}/download").headers["etag"] != tag


@pytest.mark.parametrize("form", ["zst", "jsonl"])
def test_an_altered_file_is_not_downloaded(client: TestClient, settings: Settings, form: str) -> None:
    name = frozen(client, small_items(5))["id"]
    path = settings.reference_sets / f"{name}.jsonl.zst"
    assert client.get(f"/v1/reference-sets/{name}/download", params={"format": form}).status_code == 200
    whole = path.read_bytes()
    path.write_bytes(whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:])
    answer = client.get(f"/v1/reference-sets/{name}/download", params={"format": form})
    path.write_bytes(whole)
    assert (answer.status_code, answer.json()["code"]) == (500, "corrupt")
    assert "the seal does not fit" in answer.json()["detail"]


def test_parts_of_a_download_are_parts_of_the_file(client: TestClient) -> None:
    name = frozen(client, small_items(5))["id"]
    whole = client.get(f"/v1/reference-sets/{name}/download").content
    size = len(whole)

    def part(asked: str, **headers: str) -> Any:
        return client.get(f"/v1/reference-sets/{name}/download", headers={"Range": asked, **headers})

    for asked, expected in (("bytes=0-9", whole[:10]), (f"bytes={size - 5}-", whole[-5:]), ("bytes=-7", whole[-7:])):
        got = part(asked)
        assert (got.status_code, got.content) == (206, expected), asked
        begin = whole.index(expected)
        assert got.headers["content-range"] == f"bytes {begin}-{begin + len(expected) - 1}/{size}"
    tag = part("bytes=0-0").headers["etag"]
    nines = "9" * 5_000
    assert part(f"bytes={nines}-").status_code == 416
    assert part(f"bytes=0-{nines}").content == whole
    assert part(f"bytes=-{nines}").content == whole
    assert part("bytes=0-9", **{"If-Range": tag}).status_code == 206
    assert part("bytes=0-9", **{"If-Range": '"other"'}).content == whole
    for unreadable in ("bytes=9-2", "lines=1-2", "bytes=", "bytes=a-b", "bytes=-", "bytes=1-2,x"):
        got = part(unreadable)
        assert (got.status_code, got.content) == (200, whole), unreadable
    for beyond in (f"bytes={size}-", "bytes=-0", f"bytes=0-1,{size + 5}-"):
        got = part(beyond)
        assert (got.status_code, got.headers["content-range"]) == (416, f"bytes */{size}"), beyond
        assert got.headers["content-type"] == "application/problem+json"


def test_the_lines_of_a_set_are_those_of_its_file(client: TestClient, settings: Settings) -> None:
    items = [{**GIVEN[0], "id": f"i{number}"} for number in range(250)]
    with client_of(settings, freeze_at_once=1_000) as large:
        name = frozen(large, items, references="given")["id"]
    got = client.get(f"/v1/reference-sets/{name}/download", params={"format": "jsonl"})
    assert (got.status_code, got.headers["content-type"]) == (200, "application/x-ndjson")
    with (settings.reference_sets / f"{name}.jsonl.zst").open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        assert got.content == reader.read()
    first, *rest = got.content.splitlines()
    assert orjson.loads(first)["id"] == name
    assert [orjson.loads(line)["id"] for line in rest] == [item["id"] for item in items]
    tag = got.headers["etag"]
    assert tag != client.get(f"/v1/reference-sets/{name}/download").headers["etag"]
    same = client.get(f"/v1/reference-sets/{name}/download", params={"format": "jsonl"}, headers={"If-None-Match": tag})
    assert same.status_code == 304
    assert client.get(f"/v1/reference-sets/{name}/download", params={"format": "csv"}).status_code == 422


# ── deriving and withdrawing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_set_of_other_weights_is_derived_as_by_the_command(client: TestClient, command: Home) -> None:
    parent = frozen(client, small_items(5))["id"]
    made = client.post(f"/v1/reference-sets/{parent}/derive", json={"parrot": 0.25, "k": 5, "weights": "one"})
    assert made.status_code == 201, made.text
    told = made.json()
    assert made.headers["location"] == f"/v1/reference-sets/{told['id']}"
    assert (told["parent"], told["new"]) == (parent, True)
    assert (told["provenance"]["parrot"], told["provenance"]["k"], told["provenance"]["weights"]) == (
        "0.25",
        "5",
        "one",
    )
    flags = ("--parrot", "0.25", "-k", "5", "--reference-weights", "one", "--json")
    by_command = command("sets", "derive", parent, *flags).json
    assert (by_command["id"], by_command["new"]) == (told["id"], False)
    again = client.post(f"/v1/reference-sets/{parent}/derive", json={"parrot": 0.25, "k": 5, "weights": "one"})
    assert (again.status_code, again.json()["new"]) == (200, False)
    late = client.post(f"/v1/reference-sets/{parent}/derive", json={"parrot": 0.5}, headers={"X-Timeout-S": "1e-9"})
    assert (late.status_code, late.json()["code"]) == (503, "expired")
    nothing = client.post(f"/v1/reference-sets/{parent}/derive", json={})
    assert (nothing.status_code, nothing.json()["code"]) == (400, "usage")
    for wrong in ({"k": 0}, {"parrot": 2}, {"gold": "two"}, {"colour": 1}):
        assert client.post(f"/v1/reference-sets/{parent}/derive", json=wrong).status_code == 422, wrong


def test_withdrawn_set_is_gone_for_scores_and_downloads_and_names_another(client: TestClient) -> None:
    name = frozen(client, GIVEN, references="given")["id"]
    better = frozen(client, GIVEN[:2], references="given")["id"]
    score = {"items": ["g1"], "replies": {"a": ["i am fine"]}}
    assert client.post(f"/v1/reference-sets/{name}/scores", json=score).status_code == 200  # it is held from now on

    why = {"reason": "it held a name", "instead": better[:8]}
    gone = client.delete(f"/v1/reference-sets/{name}", params=why)
    assert gone.status_code == 200, gone.text
    assert (gone.json()["id"], gone.json()["reason"], gone.json()["instead"]) == (name, "it held a name", better)

    answers = [
        client.post(f"/v1/reference-sets/{name}/scores", json=score),
        client.get(f"/v1/reference-sets/{name[:6]}/download"),
        client.post(f"/v1/reference-sets/{name}/derive", json={"gold": "one"}),
    ]
    for answer in answers:
        told = answer.json()
        assert (answer.status_code, told["status"], told["code"], told["instead"]) == (410, 410, "withdrawn", better)
        assert answer.headers["content-type"] == "application/problem+json"
        assert better in told["remedy"]
    again = client.post("/v1/reference-sets", json={"items": GIVEN, "purpose": "test", "references": "given"})
    assert (again.status_code, again.json()["code"]) == (410, "withdrawn")

    shown = client.get(f"/v1/reference-sets/{name}").json()
    assert shown["withdrawn"] == {"reason": "it held a name", "instead": better, "at": gone.json()["at"]}
    listed = {one["id"]: one["withdrawn"] for one in client.get("/v1/reference-sets").json()["sets"]}
    assert listed == {name: shown["withdrawn"], better: None}

    assert plain(client.delete(f"/v1/reference-sets/{name}", params=why).json()) == plain(gone.json())
    other = client.delete(f"/v1/reference-sets/{name}", params={"reason": "another"})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert client.delete(f"/v1/reference-sets/{better}").status_code == 422
    itself = client.delete(f"/v1/reference-sets/{better}", params={"reason": "x", "instead": better})
    assert (itself.status_code, itself.json()["code"]) == (400, "usage")


# ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def scored_set(client: TestClient) -> str:
    return str(frozen(client, small_items(6))["id"])


def ids_and_replies(count: int = 6) -> tuple[list[str], dict[str, list[str]]]:
    ids = [f"d{number}" for number in range(count)]
    return ids, {
        "a": [TEXTS[7 * number % len(TEXTS)] for number in range(count)],
        "b": [TEXTS[(11 * number + 3) % len(TEXTS)] for number in range(count)],
    }


def test_without_items_systems_answer_all_and_metrics_have_a_default(client: TestClient, scored_set: str) -> None:
    ids, replies = ids_and_replies()
    path = f"/v1/reference-sets/{scored_set}/scores"
    named = client.post(path, json={"items": ids, "replies": replies, "metrics": ["multi-bleu"]})
    unnamed = client.post(path, json={"replies": replies, "metrics": ["multi-bleu"]})
    assert plain(unnamed.json()) == plain(named.json())
    short = client.post(path, json={"replies": {"a": ["x", "y"]}, "metrics": ["multi-bleu"]})
    assert (short.status_code, short.json()["code"]) == (422, "bad_input")
    assert "2 entries, the set has 6" in short.json()["detail"]
    given = frozen(client, GIVEN, references="given")["id"]
    answer = client.post(f"/v1/reference-sets/{given}/scores", json={"replies": {"a": ["x", "y", "the boats"]}})
    assert [one["metric"] for one in answer.json()["scores"]] == ["delta-bleu"]
    refused = client.post(path, json={"replies": replies, "metrics": ["rater"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "usage")


@pytest.mark.parametrize(
    ("settings_of_server", "body", "status", "code"),
    [
        ({"replies": 3}, {"replies": {"a": ["x", "y"], "b": ["x", "y"]}}, 413, "too_large"),
        ({"text_chars": 100}, {"replies": {"a": ["x", "y" * 101]}}, 422, "bad_input"),
        ({"metrics": 1}, {"metrics": [UPSILON, "bleu"]}, 413, "too_large"),
        ({"draws": 10}, {"draws": 11}, 413, "too_large"),
        ({}, {"draws": 5, "return": "stats"}, 400, "usage"),
        ({}, {"percent": True, "return": "stats"}, 400, "usage"),
        ({}, {"explain": True, "return": "values"}, 400, "usage"),
        ({}, {"baseline": "a"}, 400, "usage"),
        ({}, {"return": "all"}, 422, "bad_input"),
        ({}, {"replies": {}}, 422, "bad_input"),
        ({}, {"replies": {"a": "x"}}, 422, "bad_input"),
        ({}, {"items": [1, 2]}, 422, "bad_input"),
        ({}, {"metrics": ["bleu:n=4:x"]}, 400, "usage"),
    ],
)
def test_what_is_too_much_or_makes_no_sense_is_refused_by_name(
    settings: Settings, settings_of_server: dict[str, Any], body: dict[str, Any], status: int, code: str
) -> None:
    with client_of(settings, ready=False, **settings_of_server) as client:
        name = frozen(client, GIVEN, references="given")["id"]
        asked = {"items": ["g1", "g2"], "replies": {"a": ["i am fine", "no"]}, "metrics": ["delta-bleu"], **body}
        answer = client.post(f"/v1/reference-sets/{name}/scores", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        if "text_chars" in settings_of_server:
            assert [one["field"] for one in answer.json()["errors"]] == ["replies.a[1]"]


def test_replies_without_a_score_are_counted_by_reason(client: TestClient) -> None:
    set_id = frozen(client, small_items(3))["id"]

    def counted() -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith('refaug_unscored_total{reason="no_reply"')
        )

    before = counted()
    body = {"replies": {"a": ["we like red boats", None, None]}, "metrics": ["multi-bleu"], "on_error": "report"}
    for gives in ("scores", "values"):
        answer = client.post(f"/v1/reference-sets/{set_id}/scores", json={**body, "return": gives})
        assert answer.status_code == 200, answer.text
    assert counted() - before == 4
