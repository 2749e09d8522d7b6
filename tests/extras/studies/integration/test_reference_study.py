"""ΔBLEU by people is one study: ratings of references become the weights of a derived set, by command and over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, migrated
from starlette.testclient import TestClient
from studying import Person, new_study

from refaug.cli.main import main as refaug
from refaug.core.home import Settings

ITEMS: list[dict[str, Any]] = [
    {
        "id": "tea",
        "utterance": "Where can I buy tea?",
        "references": [{"text": "at the market", "weight": 0.1}, "at the shop near the bridge", "the bus is blue"],
        "replies": {"mine": "at the bridge"},
    },
    {"id": "rain", "turns": ["Hello.", "Will it rain?"], "references": ["yes it will rain", "no"]},
]
RATINGS = {  # of three participants, from 1 to 5
    ("tea", "at the market"): (4, 5, 4),
    ("tea", "at the shop near the bridge"): (3, 4, 3),
    ("tea", "the bus is blue"): (1, 1, 2),
    ("rain", "yes it will rain"): (5, 5, 5),
    ("rain", "no"): (2, 3, 3),
}
WEIGHTS = {key: float((Fraction(sum(own), len(own)) - 3) / 2) for key, own in RATINGS.items()}  # from -1 to 1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("references") / "home"
    folder.mkdir()
    return migrated(Settings(home=folder))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    """A server with a study of references that three people have rated."""
    with client_of(home, ready=False) as opened:
        protocol = {"kind": "rate-reference", "consent": "c", "per_participant": 5, "ratings_per_item": 3}
        token = new_study(opened, "weights", protocol, ITEMS)
        for place in range(3):
            rate_all(opened, token, place)
        yield opened


def rate_all(client: TestClient, token: str, place: int) -> None:
    person = Person(client)
    state = person.enter(token)
    person.done("consent", {"sha256": state["consent"]["sha256"], "agree": True, "screening": {}})
    texts = {text: item for item, text in RATINGS}
    for _ in RATINGS:
        task = person.done("tasks/next")["task"]
        assert set(task["payload"]) == {"turns", "reference"}, "nobody sees a weight"
        reference = task["payload"]["reference"]
        answer = RATINGS[texts[reference], reference][place]
        person.done(f"tasks/{task['id']}/answers", {"answers": {"appropriateness": answer}})
        person.done(f"tasks/{task['id']}/finish")


@pytest.fixture(scope="module")
def parent(client: TestClient) -> str:
    """The set with the references that were rated."""
    items = [{name: part for name, part in item.items() if name != "replies"} for item in ITEMS]
    made = client.post("/v1/reference-sets", json={"items": items, "purpose": "test", "references": "given"})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def exported(client: TestClient) -> list[dict[str, Any]]:
    answer = client.get("/v1/studies/weights/export", params={"format": "weights"})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def weights_of(client: TestClient, name: str) -> dict[tuple[str, str], float]:
    """The weights of a set, as its file has them."""
    _, *lines = client.get(f"/v1/reference-sets/{name}/download", params={"format": "jsonl"}).text.splitlines()
    return {
        (item["id"], reference["text"]): reference["weight"]
        for item in map(json.loads, lines)
        for reference in item["references"]
    }


def derived(client: TestClient, parent: str) -> str:
    made = client.post(f"/v1/reference-sets/{parent}/derive", json={"people": exported(client)})
    assert made.status_code in (200, 201), made.text
    return str(made.json()["id"])


def test_the_weights_are_the_mean_ratings_from_minus_one_to_one(client: TestClient) -> None:
    weights = {(line["item"], line["reference"]): line["weight"] for line in exported(client)}
    assert weights == {key: pytest.approx(weight, abs=1e-12) for key, weight in WEIGHTS.items()}
    assert {line["ratings"] for line in exported(client)} == {3}


def test_a_set_is_derived_over_http_and_by_command_as_the_same(
    client: TestClient, parent: str, home: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = derived(client, parent)
    assert weights_of(client, name) == {key: pytest.approx(weight, abs=1e-12) for key, weight in WEIGHTS.items()}
    shown = client.get(f"/v1/reference-sets/{name}").json()
    content = sorted([item, text, weight] for (item, text), weight in weights_of(client, name).items())
    fingerprint = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:12]
    assert (shown["parent"], shown["how"]) == (parent, {"derive": {"people": fingerprint}})
    tasks, protocol, weights = (str(tmp_path / part) for part in ("tasks.jsonl", "protocol.json", "weights.jsonl"))

    def run(*words: str) -> str:
        capfd.readouterr()
        assert refaug(["--quiet", "--home", str(home.home), *words]) == 0
        return capfd.readouterr().out

    Path(tasks).write_text(run("studies", "tasks", "weights"))
    Path(protocol).write_text(run("studies", "show", "weights", "--protocol"))
    run("studies", "export", tasks, "--protocol", protocol, "--format", "weights", "--output", weights)
    made = json.loads(run("sets", "derive", parent, "--people", weights, "--json"))
    assert (made["id"], made["new"]) == (name, False)


def test_delta_bleu_against_it_is_computed_by_hand(client: TestClient, parent: str) -> None:
    """Words "at the": .75 by the market beside .5 at most; "bridge": by the shop alone; "the bridge" likewise."""
    order = {
        "items": ["tea"],
        "replies": {"mine": ["at the bridge"]},
        "metrics": ["delta-bleu:n=2,smooth=none"],
    }
    best, other = WEIGHTS["tea", "at the market"], WEIGHTS["tea", "at the shop near the bridge"]
    words = (best + best + other) / (3 * best)  # at, the, bridge
    pairs = (best + other) / (2 * best)  # at the, the bridge
    scored = client.post(f"/v1/reference-sets/{derived(client, parent)}/scores", json=order)
    assert scored.status_code == 200, scored.text
    (metric,) = scored.json()["scores"]
    assert metric["systems"]["mine"]["replies"] == [{"id": "tea", "score": pytest.approx(sqrt(words * pairs))}]
    assert metric["systems"]["mine"]["parts"]["possible"] == [pytest.approx(3 * best), pytest.approx(2 * best)]


@pytest.mark.parametrize(
    ("people", "words"),
    [
        ([], "people"),
        ([{"item": "tea", "reference": "at the market", "weight": 1.5}], "people[0].weight"),
        ([{"item": "tea", "reference": "at the market"}], "people[0].weight"),
        ([{"item": "tea", "reference": "at the market", "weight": 1, "n": 3}], "people[0].n"),
        ([{"item": "tea", "reference": "at the moon", "weight": 1}], "'at the moon' of item tea"),
        (
            [{"item": "tea", "reference": "at the market", "weight": weight} for weight in (1, 0)],
            "people[1]: reference",
        ),
    ],
)
def test_wrong_weights_are_refused_with_their_place(
    client: TestClient, parent: str, people: list[dict[str, Any]], words: str
) -> None:
    answer = client.post(f"/v1/reference-sets/{parent}/derive", json={"people": people})
    assert (answer.status_code, words in answer.text) == (422, True), answer.text
