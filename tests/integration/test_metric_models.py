"""Models that metrics name: the same scores and signatures on every face, read back and verified from any folder."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from encoders import TinyEncoder, write_encoder
from extras.judges.integration.test_adem_commands import TINY
from fastapi.testclient import TestClient
from integration.conftest import Home
from ruber_homes import FILE, TEXTS, home_with_models
from serving import client_of, migrated
from vhreds import SENTENCES

import refaug
from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.vectors import encoders
from refaug.core.vectors.encoders import OnnxEncoder
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.metrics.signature import Signature
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

pytestmark = pytest.mark.slow

GREEDY = "upsilon-greedy;agg=best;weighting=sif;measure=f;vectors=few"
BLEND = f"ruber:referenced={GREEDY},unreferenced=rater;turns=3;model=some,sample=chat"
METRICS = {
    "rater": "rater:model=some,turns=3",
    "ruber": "ruber:model=some,referenced=pooled,vectors=few,sample=chat",
    "vectors": "greedy:vectors=few,weighting=sif",
    "vhred": "likelihood:model=talk",
    "adem": "adem:model=scorer",
    "judge-fit": "judge-fit:even",
}
INDEX = ("--index", "chat", "--reference-weights", "one", "--parrot", "off", "-k", "5")
ITEMS = [
    {
        "id": f"i{number}",
        "turns": [TEXTS[number], TEXTS[number + 20]],
        "references": [TEXTS[number + 50]],
        "replies": {"a": TEXTS[number + 90], "b": TEXTS[number + 130]},
    }
    for number in range(6)
]


def rated_lines() -> Iterator[dict[str, Any]]:
    """Items whose ratings are the number of words that a reply shares with the gold."""
    drawn = random.Random(5)
    for number in range(60):
        gold = drawn.choice(TEXTS)
        replies = {system: " ".join([*gold.split()[: drawn.randint(0, 6)], drawn.choice(TEXTS)]) for system in "ab"}
        shared = {system: len(set(reply.split()) & set(gold.split())) for system, reply in replies.items()}
        yield {
            "id": f"r{number}",
            "turns": [drawn.choice(TEXTS), drawn.choice(TEXTS)],
            "references": [gold],
            "replies": replies,
            "ratings": {system: [min(5, 1 + count)] for system, count in shared.items()},
        }


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home that has a model of each kind, and items."""
    folder = tmp_path_factory.mktemp("models")
    home = home_with_models(folder)
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ITEMS))
    rated = folder / "rated.jsonl"
    rated.write_text("".join(json.dumps(line) + "\n" for line in rated_lines()))
    talk = [
        {"id": str(number), "turns": [*SENTENCES[number % 40 :][:2], TEXTS[number % len(TEXTS)]]}
        for number in range(260)
    ]
    (folder / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in talk))
    ingest(IngestOrder(sources=(str(folder / "talk.jsonl"),), log="talk"), home / "logs", Silent())
    fit = ("-m", "chrf", "-m", "greedy:vectors=few", "-m", "rater:turns=3", "--rater", "some")
    for command in (
        ("index", "vectors", "import", "few", str(home / FILE)),
        ("train", "vhred", "talk", *TINY, "--max-tokens", "12"),
        ("train", "adem", str(rated), "--encoder", "talk", "--name", "scorer", "--components", "10", "--threads", "1"),
        ("train", "judge-fit", str(rated), "--name", "even", "--method", "equal", "--length", "held", *fit),
    ):
        assert main(["--home", str(home), "--quiet", *command]) == 0, command
    migrated(Settings(home=home))
    return folder


@pytest.fixture
def command(ready: Path, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(ready / "home", capsys)


@pytest.fixture(scope="module")
def web(ready: Path) -> Iterator[TestClient]:
    with client_of(Settings(home=ready / "home")) as client:
        yield client


def scored(command: Home, ready: Path, *options: str) -> dict[str, Any]:
    result = command("score", ready / "items.jsonl", *options, "--threads", "1", "--draws", "0", "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = result.json
    return document


def replies_of(scores: dict[str, Any], system: str = "a") -> list[float]:
    return [reply["score"] for reply in scores["systems"][system]["replies"]]


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_face_gives_the_same_scores_and_signature(
    command: Home, ready: Path, web: TestClient, metric: str
) -> None:
    expected = scored(command, ready, "-m", metric)["scores"][0]
    assert replies_of(expected) != replies_of(expected, "b")
    by_request = web.post("/v1/scores", json={"items": ITEMS, "metrics": [metric]})
    assert by_request.status_code == 200, by_request.text
    inbox = command.path / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "items.jsonl").write_bytes((ready / "items.jsonl").read_bytes())
    order = {"kind": "score", "items": "items.jsonl", "metrics": [metric], "draws": 0, "threads": 1}
    job = web.post("/v1/jobs", json=order).json()["id"]
    run_worker(Settings(home=command.path), ServeSettings(), once=True)
    done = web.get(f"/v1/jobs/{job}").json()
    assert done["state"] == "done", done
    by_job = web.get(f"/v1/evaluations/{done['result']['evaluation']}/download").json()
    by_library = refaug.score(ITEMS, metric=metric, home=command.path)
    for scores in (by_request.json()["scores"][0], by_job["scores"][0]):
        assert scores["signature_full"] == expected["signature_full"]
        for system in ("a", "b"):
            assert replies_of(scores, system) == pytest.approx(replies_of(expected, system), abs=1e-5)
    assert by_library.signature == expected["signature"]
    assert list(by_library[metric]["a"].replies) == pytest.approx(replies_of(expected), abs=1e-5)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_server_scores_a_frozen_set_as_the_command_does(
    command: Home, ready: Path, web: TestClient, metric: str
) -> None:
    frozen = web.post("/v1/reference-sets", json={"items": ITEMS, "purpose": "test", "references": "given"}).json()
    options = ("-m", metric, "--draws", "0", "--json")
    [expected] = command("sets", "score", frozen["id"], ready / "items.jsonl", *options).json["scores"]
    for rows in ([4], [5, 0, 3, 0]):
        replies = {system: [ITEMS[row]["replies"][system] for row in rows] for system in "ab"}
        body = {"items": [f"i{row}" for row in rows], "replies": replies, "metrics": [metric]}
        response = web.post(f"/v1/reference-sets/{frozen['id']}/scores", json=body)
        assert response.status_code == 200, response.text
        [scores] = response.json()["scores"]
        assert {name: scores[name] for name in ("signature_full", "references")} == {
            name: expected[name] for name in ("signature_full", "references")
        }
        for system in "ab":
            known = replies_of(expected, system)
            assert replies_of(scores, system) == pytest.approx([known[row] for row in rows], abs=1e-5)


def test_a_set_is_scored_by_the_version_that_is_published_when_it_is_asked(
    command: Home, ready: Path, web: TestClient
) -> None:
    frozen = web.post("/v1/reference-sets", json={"items": ITEMS, "purpose": "test", "references": "given"}).json()
    stores = artefact_stores(Settings(home=command.path))
    body = {
        "items": ["i1"],
        "replies": {"a": [ITEMS[1]["replies"]["a"]]},
        "metrics": ["greedy:vectors=few"],
        "return": "scores",
    }

    def named() -> str:
        response = web.post(f"/v1/reference-sets/{frozen['id']}/scores", json=body)
        assert response.status_code == 200, response.text
        [scores] = response.json()["scores"]
        return Signature.parse(scores["signature"]).models[0][1].partition("#")[0]

    before = "@".join(stores["vectors"].resolve("few"))
    assert named() == before
    assert command("index", "vectors", "import", "few", command.path / FILE).code == 0
    after = "@".join(stores["vectors"].resolve("few"))
    assert (named(), after != before) == (after, True)


@pytest.mark.parametrize(
    "options", [("-m", metric) for metric in METRICS.values()] + [(*INDEX, "-m", BLEND)], ids=[*METRICS, "blend"]
)
def test_a_score_file_holds_and_its_signature_scores_again_from_another_folder(
    command: Home, ready: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with chdir(ready):
        document = scored(command, ready, *options)
    expected = document["scores"][0]
    stores = artefact_stores(Settings(home=command.path))
    for kind, spec in Signature.parse(expected["signature"]).models:
        name, _, content = spec.partition("#")
        assert (name, len(content)) == ("@".join(stores[kind].resolve(name)), 12)
    (tmp_path / "scores.json").write_text(json.dumps(document))
    with chdir(tmp_path):
        verified = command("score", "verify", "scores.json", ready / "items.jsonl", "--threads", "1", "--json")
        assert verified.code == 0, verified.out
        again = scored(command, ready, "--signature", expected["signature_full"])["scores"][0]
    assert Signature.parse(again["signature"]).settings == Signature.parse(expected["signature"]).settings
    assert replies_of(again) == pytest.approx(replies_of(expected), abs=1e-5)


def test_what_a_fitted_judge_needs_and_is_not_there_is_named(command: Home, ready: Path, tmp_path: Path) -> None:
    document = scored(command, ready, "-m", "judge-fit:even")
    (tmp_path / "scores.json").write_text(json.dumps(document))
    raters = command.path / "raters"
    raters.rename(tmp_path / "raters")
    try:
        refused = command("score", ready / "items.jsonl", "-m", "judge-fit:even", "--json").error
        verified = command("score", "verify", tmp_path / "scores.json", ready / "items.jsonl", "--json")
    finally:
        (tmp_path / "raters").rename(raters)
    assert (refused["code"], "there is no rater 'some' in this home" in refused["message"]) == ("not_found", True)
    assert verified.code == 3
    assert {part["part"]: part["state"] for part in verified.json["parts"]}["rater"] == "missing"


@pytest.mark.parametrize(
    ("metric", "code", "message"),
    [
        ("greedy:vectors=fow", "not_found", "there is no vectors 'fow' in this home; did you mean 'few'?"),
        ("greedy:vectors=some", "not_found", "there is no vectors 'some' in this home: 'some' is a rater"),
        ("adem:model=talk", "not_found", "there is no adem 'talk' in this home: 'talk' is a vhred"),
        ("bertscore:vectors=few", "not_found", "there is no encoder 'few' in this home: 'few' is word vectors"),
        ("greedy:vectors=few@2000-01-01.1", "not_found", "no vectors 'few@2000-01-01.1'"),
        ("rater:model=some#000000000000", "conflict", "the scores were made by rater some#000000000000"),
    ],
)
def test_a_name_that_the_home_does_not_have_is_one_error_on_every_face(
    command: Home, ready: Path, web: TestClient, metric: str, code: str, message: str
) -> None:
    refused = command("score", ready / "items.jsonl", "-m", metric, "--json").error
    assert (refused["code"], message in refused["message"]) == (code, True), refused
    answer = web.post("/v1/scores", json={"items": ITEMS, "metrics": [metric]}).json()
    assert (answer["code"], message in answer["detail"]) == (code, True), answer
    with pytest.raises(refaug.RefaugError) as raised:
        refaug.score(ITEMS, metric=metric, home=command.path)
    assert (raised.value.code, message in raised.value.message) == (code, True)


def test_a_name_is_never_a_file_and_a_path_is_one(command: Home, ready: Path, web: TestClient, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes((command.path / FILE).read_bytes())
    (tmp_path / "few").write_bytes((command.path / FILE).read_bytes())
    with chdir(tmp_path):
        unknown = command("score", ready / "items.jsonl", "-m", "greedy:vectors=own.txt", "--json").error
        both = command("score", ready / "items.jsonl", "-m", "greedy:vectors=few", "--json").error
        by_path = scored(command, ready, "-m", "greedy:vectors=./own.txt")["scores"][0]
        by_name = scored(command, ready, "-m", f"greedy:vectors={latest(command, 'few')}")["scores"][0]
    assert unknown["code"] == "not_found"
    assert unknown["remedy"].endswith("; ./own.txt for the file")
    assert (both["code"], both["message"]) == ("usage", "few is both vectors of this home and a file of this folder")
    assert both["remedy"] == f"{latest(command, 'few')} for the one, ./few for the other"
    assert replies_of(by_path) == replies_of(by_name)
    for path in ("./own.txt", str(tmp_path / "own.txt")):
        body = {"items": ITEMS, "metrics": [f"greedy:vectors={path}"]}
        answer = web.post("/v1/scores", json=body).json()
        assert (answer["code"], "only the command and import refaug read files" in answer["detail"]) == ("usage", True)


def test_an_encoder_of_the_home_is_that_of_its_folder(
    command: Home, ready: Path, web: TestClient, tmp_path: Path
) -> None:
    folder = write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded(3))
    imported = command("index", "encoder", "add", "small", folder, "--json")
    assert imported.code == 0, imported.err
    by_path = scored(command, ready, "-m", f"bertscore:vectors={folder}")["scores"][0]
    shutil.rmtree(folder)
    by_name = scored(command, ready, "-m", "bertscore:vectors=small")["scores"][0]
    assert replies_of(by_name) == replies_of(by_path)
    spec = imported.json["spec"]
    assert Signature.parse(by_name["signature"]).settings["vectors"] == spec
    assert Signature.parse(by_path["signature"]).settings["vectors"] == f"tiny#{spec.partition('#')[2]}"
    again = scored(command, ready, "--signature", by_path["signature_full"])["scores"][0]
    assert (again["signature_full"], replies_of(again)) == (by_path["signature_full"], replies_of(by_path))
    answer = web.post("/v1/scores", json={"items": ITEMS, "metrics": ["bertscore:vectors=small"]}).json()
    assert answer["scores"][0]["signature_full"] == by_name["signature_full"]
    assert command("artefacts", "list", "encoder", "--json").json["versions"][0]["id"] == spec.partition("#")[2]
    assert command("index", "encoder", "forget", "small").code == 0
    assert command("artefacts", "remove", "encoder", "small", "--yes").code == 0


def test_an_encoder_of_the_home_encodes_a_text_once_for_commands_and_requests(
    command: Home, ready: Path, web: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded(4))
    assert command("index", "encoder", "add", "once", folder).code == 0
    first = scored(command, ready, "-m", "sentence-cosine:vectors=once")["scores"][0]
    (found,) = [line for line in command("admin", "doctor").out.splitlines() if " encodings " in line]
    assert re.search(r"encodings \w{12} +\d+ texts, 0\.\d MiB; 4\.0 GiB are allowed for all encoders", found)

    def refuse(*_: object) -> None:
        raise AssertionError("a text is encoded again")

    encoders._open_once.cache_clear()  # so that nothing is in memory
    monkeypatch.setattr(OnnxEncoder, "_rows", refuse)
    assert replies_of(scored(command, ready, "-m", "sentence-cosine:vectors=once")["scores"][0]) == replies_of(first)
    answer = web.post("/v1/scores", json={"items": ITEMS, "metrics": ["sentence-cosine:vectors=once"]}).json()
    assert answer["scores"][0]["signature_full"] == first["signature_full"]
    monkeypatch.undo()
    manifest = command("artefacts", "show", "encoder", "once", "--json").json
    facts = ("dimensions", "pooling", "max_length", "licence", "dynamic_quantisation")
    assert [manifest[name] for name in facts] == [12, "mean", 512, "unknown", False]
    assert manifest["operations"]["Tanh"] == 1
    assert command("index", "encoder", "forget", "once@1", "--json").code == 3
    assert command("index", "encoder", "forget", "once", "--json").json["freed"] > 0
    assert command("index", "encoder", "forget").out == "0.0 MB freed\n"
    assert not [line for line in command("admin", "doctor").out.splitlines() if " encodings " in line]
    assert command("artefacts", "remove", "encoder", "once", "--yes").code == 0


def latest(command: Home, name: str) -> str:
    return "@".join(artefact_stores(Settings(home=command.path))["vectors"].resolve(name))


def test_a_judge_is_fitted_with_vectors_of_the_home_alone(command: Home, ready: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_bytes((command.path / FILE).read_bytes() + b"another 1 0 0 0 0 0\n")
    fit = ("train", "judge-fit", ready / "rated.jsonl", "--name", "other", "--method", "equal", "-m", "chrf")
    refused = command(*fit, "-m", f"greedy:vectors={other}", "--json").error
    assert (refused["code"], refused["remedy"]) == ("usage", "refaug index vectors import NAME FILE")
    by_path = command(*fit, "-m", f"greedy:vectors={command.path / FILE}", "--json")  # the bytes of few
    by_name = command(*fit, "-m", "greedy:vectors=few", "--json")
    assert list(by_path.json["report"]["sets"].values()) == list(by_name.json["report"]["sets"].values())
