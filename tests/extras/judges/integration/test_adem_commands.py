"""`refaug train adem …` and what stands on a VHRED, as users type it: versions, likelihoods, replies; and over HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from integration.conftest import Home
from serving import client_of
from trainings import interrupting
from vhreds import SENTENCES

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.extras.judges.metrics.likelihood import PieceLikelihoods, score_of
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.scoring.home.torch_networks import open_vhred

TINY = ("--preset", "small", "--steps", "4", "--round-steps", "2", "--batch", "8", "--threads", "1")
PRETRAIN = ("train", "vhred", "chat", *TINY, "--max-tokens", "12")
ITEMS = [
    {
        "id": f"i{number}",
        "turns": SENTENCES[number : number + 1 + number % 2],
        "references": [SENTENCES[number + 7]],
        "replies": {"a": SENTENCES[number + 3], "b": ""},
    }
    for number in range(4)
]


@pytest.fixture(scope="module")
def with_vhreds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log, a trained VHRED and a drawn one, and items."""
    folder = tmp_path_factory.mktemp("with-vhreds")
    rng = np.random.default_rng(1)
    lines = [
        orjson.dumps({"id": str(number), "turns": rng.choice(SENTENCES, 2 + number % 3, replace=False).tolist()})
        for number in range(260)
    ]
    (folder / "chat.jsonl").write_bytes(b"\n".join(lines))
    home = folder / "home"
    ingest(IngestOrder(sources=(str(folder / "chat.jsonl"),), log="chat"), home / "logs", Silent())
    assert main(["--home", str(home), "--quiet", *PRETRAIN]) == 0
    drawn = ("train", "vhred", "chat", "--preset", "small", "--cell", "random", "--name", "drawn")
    assert main(["--home", str(home), "--quiet", *drawn]) == 0
    (home / "items.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in ITEMS))
    return home


@pytest.fixture
def ready(home: Home, with_vhreds: Path) -> Home:
    shutil.copytree(with_vhreds, home.path)
    return home


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    with interrupting(monkeypatch) as at:
        yield at


def weights(home: Home, number: int) -> bytes:
    (folder,) = (home.path / "vhreds/chat").glob(f"*.{number}")
    return (folder / "weights.safetensors").read_bytes()


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_report_says_how_well_held_out_dialogues_are_predicted(ready: Home) -> None:
    shown = ready("artefacts", "show", "vhred", "chat", "--json").json
    report = shown["report"]
    assert (shown["kind"], shown["config"]["cell"], shown["config"]["turns"]) == ("vhred", "ln-gru", 3)
    assert report["dialogues"]["train"] + report["dialogues"]["validation"] == 260
    assert report["validation_loss"] >= report["nll"] > 0
    assert report["latent"] == ("collapsed" if report["kl"] < 0.1 else "used")
    assert 0 <= report["discrimination"] <= 1
    assert len(report["epochs"]) == 2
    assert "nll" not in ready("artefacts", "show", "vhred", "drawn", "--json").json["report"]


def test_a_stopped_training_resumes_to_the_same_bits(ready: Home, stopping: Callable[[int], None]) -> None:
    stopping(3)
    assert ready(*PRETRAIN, "--again").code == 5
    resumed = ready("train", "resume", "vhred", "chat", "--json")
    assert resumed.code == 0, resumed.err
    assert weights(ready, 1) == weights(ready, 2)


def test_a_finished_training_is_not_repeated(ready: Home) -> None:
    again = ready(*PRETRAIN, "--json").json
    assert (again["new"], again["version"].partition(".")[2]) == (False, "1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "huge"), "--preset"),
        (("--cell", "lstm"), "--cell"),
        (("--latent", "many"), "--latent"),
        (("--word-drop", "1"), "--word-drop"),
        (("--exclude", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_impossible_orders_are_refused_before_any_work(ready: Home, options: tuple[str, ...], message: str) -> None:
    refused = ready(*PRETRAIN, *options, "--name", "other")
    assert refused.code in (2, 3, 4)
    assert message in refused.err
    assert not (ready.path / "vhreds/other").exists()


def test_a_scorer_says_how_many_replies_it_could_not_learn_from(ready: Home, tmp_path: Path) -> None:
    lines = [
        {
            "id": f"i{number}",
            "turns": [SENTENCES[number]] if number % 3 else None,
            "references": [SENTENCES[number + 9]],
            "replies": {"a": SENTENCES[number + 3], "b": SENTENCES[number + 40]},
            "ratings": {"a": [1 + number % 5], "b": [5 - number % 4]},
        }
        for number in range(60)
    ]
    (tmp_path / "rated.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    train = ("train", "adem", tmp_path / "rated.jsonl", "--encoder", "drawn", "--components", 5)
    full = ready(*train, "--name", "full")
    assert full.code == 0, full.err
    assert "left_out                     40 without a context\n" in full.out
    assert "left_out                     40 without a context\n" in ready("artefacts", "show", "adem", "full").out
    assert "left_out" not in ready(*train, "--name", "reference", "--form", "reference").out


def test_excluded_items_leave_their_dialogues_out(ready: Home) -> None:
    excluded = [{"id": str(at), "turns": [text], "references": ["x"]} for at, text in enumerate(SENTENCES)]
    (ready.path / "out.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in excluded))
    refused = ready(*PRETRAIN, "--exclude", ready.path / "out.jsonl", "--name", "other")
    assert refused.code == 3
    assert "are excluded" in refused.err


# ── likelihoods ───────────────────────────────────────────────────────────────────────────────────────────────────────


def expected(home: Path, kind: str) -> list[float]:
    vhred = open_vhred(Settings(home=home), "chat", threads=1)
    scores = []
    for line in ITEMS:
        given = vhred.log_likelihoods([() if kind == "unconditional" else line["turns"]], [line["replies"]["a"]])[0]
        alone = vhred.log_likelihoods([()], [line["replies"]["a"]])[0]
        scores.append(score_of(kind, *map(PieceLikelihoods.of, (given, alone))))
    return scores


@pytest.mark.parametrize("kind", ["conditional", "unconditional", "pmi", "pmi-token", "worst"])
def test_scores_are_the_likelihoods_of_each_reply(ready: Home, kind: str) -> None:
    asked = ("score", ready.path / "items.jsonl", "-m", f"likelihood:model=chat,kind={kind}", "--draws", "0", "--json")
    result = ready(*asked)
    assert result.code == 0, result.err
    (scored,) = result.json["scores"]
    replies = [each["score"] for each in scored["systems"]["a"]["replies"]]
    assert replies == pytest.approx(expected(ready.path, kind), abs=1e-5)
    assert {each["score"] for each in scored["systems"]["b"]["replies"]} == {-100.0 if kind == "pmi" else -20.0}
    assert "model:chat@" in scored["signature"]


def test_a_signature_scores_with_the_same_version_again(ready: Home) -> None:
    asked = ("score", ready.path / "items.jsonl", "--draws", "0", "--json")
    first = ready(*asked, "-m", "likelihood:model=chat").json["scores"][0]
    assert ready(*PRETRAIN, "--again", "--seed", "2").code == 0
    again = ready(*asked, "--signature", first["signature"]).json["scores"][0]
    assert again["systems"]["a"] == first["systems"]["a"]
    assert ready(*asked, "-m", "likelihood:model=chat").json["scores"][0]["systems"]["a"] != first["systems"]["a"]


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("likelihood", "likelihood"),
        ("likelihood:model=nope", "nope"),
        ("likelihood:model=drawn", "was never trained"),
        ("likelihood:model=../chat", "is not a name"),
    ],
)
def test_models_that_cannot_be_used_are_refused(ready: Home, metric: str, message: str) -> None:
    refused = ready("score", ready.path / "items.jsonl", "-m", metric)
    assert refused.code != 0
    assert message in refused.err


def test_scores_are_verified_and_cited_with_their_network(ready: Home, tmp_path: Path) -> None:
    scored = ready("score", ready.path / "items.jsonl", "-m", "likelihood:model=chat", "--draws", "10", "--json")
    file = tmp_path / "scores.json"
    file.write_text(scored.out)
    verified = ready("score", "verify", file, "--json")
    assert verified.code == 0, verified.err
    (part,) = [part for part in verified.json["parts"] if part["part"] == "vhred"]
    assert part["state"] == "holds"
    cited = ready("score", "cite", file)
    assert "chat@" in cited.out
    assert "serban-2017-vhred" in cited.out


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_scores_and_replies_as_the_commands_do(ready: Home) -> None:
    asked = ("score", ready.path / "items.jsonl", "-m", "likelihood:model=chat", "--draws", "0", "--json")
    scores = ready(*asked).json["scores"][0]
    bots = {"g": "vhred:chat,max-tokens=6", "s": "vhred:chat,method=sample,seed=4,max-tokens=6"}
    pairs = [part for name, text in bots.items() for part in ("--bot", f"{name}={text}")]
    written = [
        orjson.loads(line) for line in ready("bots", "reply", ready.path / "items.jsonl", *pairs).out.splitlines()
    ]
    with client_of(Settings(home=ready.path)) as client:
        answer = client.post("/v1/scores", json={"items": ITEMS, "metrics": ["likelihood:model=chat"]})
        assert answer.status_code == 200, answer.text
        served = answer.json()["scores"][0]
        assert [each["score"] for each in served["systems"]["a"]["replies"]] == pytest.approx(
            [each["score"] for each in scores["systems"]["a"]["replies"]], abs=1e-5
        )
        assert served["signature"] == scores["signature"]
        replies = client.post("/v1/replies", json={"items": ITEMS, "bots": bots})
        assert replies.status_code == 200, replies.text
        assert replies.json()["items"] == written
        assert replies.json()["bots"]["g"].startswith("vhred:chat@")
        for metric, status in (("likelihood", 400), ("likelihood:model=nope", 404)):
            refused = client.post("/v1/scores", json={"items": ITEMS, "metrics": [metric]})
            assert refused.status_code == status, refused.text
        names: Any = [each["name"] for each in client.get("/v1/metrics").json()["metrics"]]
        assert "likelihood" in names
