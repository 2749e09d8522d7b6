"""The server's answers are the command's JSON, field by field; and nothing that a request says is passed over."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from integration.conftest import Home
from safeguards import require
from serving import client_of, small_home, small_items
from starlette.testclient import TestClient
from wordnet import DEBIAN_WORDNET

from refaug.core.home import Settings

PLAIN = small_items(12, systems=("a", "b", "c"), seed=3)
ODD: Final[list[dict[str, Any]]] = [
    {
        "id": "several golds",
        "utterance": "do we like red boats",
        "references": ["yes we do", "no", "the boats are blue"],
        "replies": {"a": "yes we like red boats", "b": "no"},
    },
    {
        "id": "weighed by people",
        "utterance": "how are the apples",
        "references": [
            "green",
            {"text": "the apples are red", "weight": 0.5},
            {"text": "apples fly", "weight": -0.75},
            {"text": "we like apples", "ratings": [4, 5, 5]},
            {"text": "blue apples", "ratings": [0, 2], "scale": [0, 4]},
        ],
        "replies": {"a": "the apples are red", "b": "apples fly"},
    },
    {
        "id": "turns",
        "turns": ["how are the boats", "blue", "do apples fly"],
        "references": ["no", {"text": "apples do", "weight": 0.25}],
        "replies": {"b": "apples fly", "a": "no the boats do"},
        "dialogue": "chat/d0-3",
        "exclude": ["chat/d0-4", "d0-5"],
        "time": "2027-06-02T21:29:00+00:00",
        "ratings": {"a": [3, None, 4]},
    },
    {"id": "missing", "utterance": "i like apples", "references": ["we do", "no"], "replies": {"a": "we like apples"}},
    {"id": "empty", "utterance": "red boats fly", "references": ["yes"], "replies": {"a": "", "b": " "}},
    {"id": "empty gold", "utterance": "we fly", "references": ["", "how"], "replies": {"a": "how do we", "b": "no"}},
    {"id": "no gold", "utterance": "are the boats green", "references": [], "replies": {"a": "yes", "b": "blue"}},
    {
        "id": "絵文字",
        "utterance": "りんごは好きですか 🍎",
        "references": ["はい、とても好きです。", {"text": "いいえ 🙅‍♀️", "weight": 0.5}],
        "replies": {"a": "はい、りんごが好きです 🍎🍎", "b": "いいえ 🙅‍♀️"},
    },
    {
        "id": "composed",
        "utterance": "Ou est le café ?",
        "references": ["Le café est la."],
        "replies": {"a": "Le cafe\u0301 est la.", "b": "LE CAFÉ"},
    },
]
OPTIONS: Final = {
    "exclude_logs": "--exclude-log",
    "weights": "--reference-weights",
    "metrics": "--metric",
    "k": "-k",
}
FOUND: Final = {"index": "chat", "rater": "base"}
ONE: Final = {"weights": "one", "parrot": "off"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("agrees"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home) as client:
        yield client


@pytest.fixture
def command(home: Settings, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(home.home, capsys)


def options_of(body: Mapping[str, Any]) -> list[str]:
    """The options of the command that say what a request says."""
    said = list[str]()
    for name, value in body.items():
        option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
        if name == "settings":
            said += options_of(value)
        elif value is True:
            said.append(option)
        elif isinstance(value, list):
            said += [word for one in value for word in (option, str(one))]
        else:
            said += [option, str(value)]
    return said


def written(path: Path, items: Sequence[Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(item) + b"\n" for item in items))
    return path


def answered(client: TestClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def assert_same(found: Any, wanted: Any, where: str = "", *, within: float = 0.0) -> None:
    """Equal in all names, their order and all values; numbers within what a rater may differ by."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for name, value in wanted.items():
            assert_same(found[name], value, f"{where}.{name}", within=within)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_same(one, other, f"{where}[{place}]", within=within)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=within, rel=0), where
    else:
        assert found == wanted, where


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("items", [PLAIN, ODD], ids=["plain", "odd"])
@pytest.mark.parametrize(
    "body",
    [
        {"metrics": ["multi-bleu", "bleu:n=4,smooth=exp", "chrf", "rouge-l", "ter"]},
        {"metrics": ["multi-bleu", "chrf"], "draws": 100, "seed": 7, "confidence": 0.9, "baseline": "b"},
        {"metrics": ["multi-bleu", "meteor:wordnet=none", "rouge-1"], "explain": True, "percent": True},
        pytest.param({"metrics": ["meteor"]}, marks=pytest.mark.machine),
        {"metrics": ["bleu"], "language": "ja", "draws": 20, "percent": True},
        {"metrics": ["rater"], "rater": "base", "settings": {"combine": "mean", "calibrated": True}},
        {},
        {**FOUND, "metrics": ["upsilon-bleu"]},
        {**FOUND, "metrics": ["upsilon-bleu", "bleu", "upsilon-chrf"], "draws": 50, "baseline": "a"},
        {**FOUND, "metrics": ["upsilon-bleu"], "settings": {"k": 3, "gold": "rated", "parrot": 0.25}, "explain": True},
        {
            **FOUND,
            "metrics": ["upsilon-bleu"],
            "settings": {"mode": "bm25-utterance", "combine": "max", "calibrated": True},
        },
        {
            **FOUND,
            "metrics": ["upsilon-bleu"],
            "settings": {"mode": "embedding-dialog", "after": "2020-01-01T00:00:00Z"},
            "percent": True,
        },
        {"index": "chat", "settings": ONE, "metrics": ["upsilon-bleu:variant=tsuta20"], "draws": 30},
    ],
    ids=lambda body: " ".join(options_of(body)) or "nothing",
)
def test_scores_are_the_json_of_the_command(
    client: TestClient, command: Home, tmp_path: Path, items: list[dict[str, Any]], body: dict[str, Any]
) -> None:
    if "meteor" in body.get("metrics", ()):
        require("wordnet", found=(DEBIAN_WORDNET / "data.noun").is_file(), why="Debian's package wordnet-base")
    path = written(tmp_path / "items.jsonl", items)
    draws = [] if body.get("draws") else ["--draws", "0"]
    result = command("score", path, *options_of(body), *draws, "--threads", "1", "--json")
    printed = result.json
    found = answered(client, "/v1/scores", {"items": items, **body})
    # the hint at index and rater is the server's alone: a command has none that it could mean
    found["warnings"] = [one for one in found["warnings"] if not one.startswith("no metric is named")]
    assert all(one in result.err for one in found["warnings"])  # of a rater it warns on stderr alone
    assert found.pop("warnings")[-len(printed["warnings"]) or sys.maxsize :] == printed.pop("warnings")
    assert printed.pop("inputs") == {"items": [str(path)]}
    assert len(found.pop("checksum")) == len(printed.pop("checksum")) == 64  # the versions are in one of them
    versions = {name for name in ("index", "rater") if name in body}
    assert set(found.pop("versions")) == versions
    assert found.pop("request_id")
    if not versions:  # the same numbers to the last bit: no rater was asked
        assert_same(found, printed)
        return
    for one, other in zip(found["scores"], printed["scores"], strict=True):
        assert (len(one.pop("references")), len(other.pop("references"))) == (12, 12)  # of weights to their last digit
    assert_same(found, printed, within=1e-3 if body.get("percent") else 1e-5)
    for one in found["scores"]:
        assert one["signature"].startswith(f"{one['metric']}|")
        weighted = one["metric"].startswith("upsilon-")
        assert ("index:chat@" in one["signature"]) == weighted == ("near-tokens." in one["signature_full"])


# ── sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_set_moved_to_another_home_scores_the_same_there(
    client: TestClient, command: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [one for one in ODD if one["references"]]
    frozen = answered(client, "/v1/reference-sets", {"items": items, "purpose": "validation", **FOUND})
    path = written(tmp_path / "items.jsonl", items)
    again = command("sets", "freeze", path, "--purpose", "validation", *options_of(FOUND), "--threads", "1", "--json")
    assert (again.json["id"], again.json["new"], again.json["content"]) == (frozen["id"], False, frozen["content"])
    derived = answered(client, f"/v1/reference-sets/{frozen['id']}/derive", {"parrot": "off", "k": 3})
    there = Home(tmp_path / "there", capsys)
    for one in (frozen, derived):
        file = tmp_path / "there" / "reference-sets" / f"{one['id']}.jsonl.zst"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(client.get(f"/v1/reference-sets/{one['id']}/download").content)
        verified = there("sets", "verify", one["id"], "--json").json
        assert verified == {name: one[name] for name in ("id", "items", "references", "content")}
        replies = {system: [item["replies"].get(system) for item in items] for system in ("a", "b")}
        body = {"metrics": ["upsilon-bleu", "multi-bleu", "upsilon-chrf:b=0.1"], "draws": 60, "baseline": "a"}
        printed = there("sets", "score", one["id"], path, *options_of(body), "--explain", "--json").json
        asked = {**body, "explain": True, "replies": replies}
        found = answered(client, f"/v1/reference-sets/{one['id']}/scores", asked)
        assert found.pop("set")["id"] == printed.pop("set") == one["id"]
        for name in ("inputs", "utterances", "replies", "format_version", "checksum"):  # of files alone
            del printed[name]
        assert_same({name: found[name] for name in printed}, printed)
        parts = [
            {"items": [item["id"] for item in items[at]], "replies": {name: of[at] for name, of in replies.items()}}
            for at in (slice(0, 2), slice(2, 5), slice(5, None))
        ]
        sums = {"metrics": body["metrics"], "return": "stats"}
        batches = [answered(client, f"/v1/reference-sets/{one['id']}/scores", {**part, **sums}) for part in parts]
        together = answered(client, "/v1/scores/combine", {"batches": batches, "draws": 60, "baseline": "a"})
        for got, wanted in zip(together["scores"], printed["scores"], strict=True):
            for system in wanted["systems"].values():
                del system["replies"]
            assert_same({**got, "references": ""}, {**wanted, "references": ""})
            assert got["references"] == [wanted["references"]] * 3
    gone = client.delete(f"/v1/reference-sets/{frozen['id']}", params={"reason": "a leak", "instead": derived["id"]})
    assert gone.status_code == 200
    refused = client.post(f"/v1/reference-sets/{frozen['id']}/scores", json={"replies": {"a": ["x"]}})
    assert (refused.status_code, refused.json()["instead"]) == (410, derived["id"])


# ── what is said is looked at ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"return": "stats", "draws": 10}, '"draws" with "return": "stats"'),
        ({"return": "stats", "explain": True}, '"explain" with "return": "stats"'),
        ({"return": "stats", "percent": True}, '"percent" with "return": "stats"'),
        ({"confidence": 0.9}, "confidence: it has no effect without draws"),
        ({"seed": 2}, "seed: it has no effect without draws"),
        (
            {"index": "chat", "metrics": ["bleu"]},
            "an index is searched, and no metric looks at weighted references",
        ),
        ({"references": "find", "metrics": ["chrf"]}, "an index is searched, and no metric looks at weighted"),
        ({"metrics": ["upsilon-bleu"], "settings": {"alpha": 0.1}}, "alpha: it has no effect with these settings"),
        ({"metrics": ["upsilon-bleu"], "settings": {"epsilon": 0.2}}, "epsilon: it has no effect with these settings"),
        (
            {"metrics": ["upsilon-bleu"], "settings": {**ONE, "combine": "max"}},
            "combine: it has no effect with these settings",
        ),
        (
            {"metrics": ["upsilon-bleu"], "settings": {**ONE, "calibrated": True}},
            "calibrated: it has no effect with these settings",
        ),
    ],
)
def test_what_would_change_nothing_is_refused(client: TestClient, body: dict[str, Any], detail: str) -> None:
    answer = client.post("/v1/scores", json={"items": PLAIN[:2], **body})
    told = answer.json()
    assert (answer.status_code, told["code"]) == (400, "usage"), answer.text
    assert told["detail"].startswith(detail)
    assert told["remedy"]
    assert "--" not in told["detail"] + told["remedy"]


def test_settings_of_a_rater_are_looked_at_where_only_a_metric_asks_it(client: TestClient) -> None:
    body = {"items": PLAIN, "metrics": ["rater", "upsilon-bleu"]}
    found = [
        answered(client, "/v1/scores", {**body, "settings": {**ONE, "combine": combine}})["scores"]
        for combine in ("first", "max")
    ]
    assert "combine:max" in found[1][0]["signature"]
    assert found[0][0]["systems"] != found[1][0]["systems"]
    assert found[0][1]["systems"] == found[1][1]["systems"]


def test_a_rater_that_is_named_in_vain_is_refused(client: TestClient) -> None:
    for path, more in (("/v1/references", {}), ("/v1/reference-sets", {"purpose": "test"})):
        answer = client.post(path, json={"items": PLAIN[:1], "rater": "base", "settings": ONE, **more})
        assert (answer.status_code, answer.json()["detail"]) == (400, "rater: nothing is to be rated")


def test_a_field_that_no_item_has_is_told(client: TestClient) -> None:
    items = [{**PLAIN[0], "refrences": ["a slip"]}, {**PLAIN[1], "refrences": [], "x" * 100: 1}]
    wanted = ["field 'refrences' is not used; did you mean 'references'?", f"field {'x' * 60!r} is not used"]
    for path, more in (
        ("/v1/references", {}),
        ("/v1/scores", {"metrics": ["bleu"]}),
        ("/v1/reference-sets", {"purpose": "test", "references": "given"}),
    ):
        assert answered(client, path, {"items": items, **more})["warnings"] == wanted
    many = [{**PLAIN[0], **{f"f{place:02}": 0 for place in range(13)}}]
    told = answered(client, "/v1/scores", {"items": many, "metrics": ["bleu"]})["warnings"]
    assert told == [*(f"field 'f{place:02}' is not used" for place in range(10)), "and 3 more fields are not used"]
    again = answered(client, "/v1/references", {"items": PLAIN})["items"]
    assert (
        answered(client, "/v1/scores", {"items": again})["warnings"]
        == answered(client, "/v1/scores", {"items": PLAIN, "index": "chat", "metrics": ["upsilon-bleu"]})["warnings"]
    )
