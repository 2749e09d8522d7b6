"""refaug-1 with another encoder than its own: a metric of its own name, with numbers that are measured on logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder
from integration.conftest import Home
from refusals import refusing
from serving import client_of, migrated

import refaug
from refaug.cli.main import main
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.vectors.encoder_model import EncodedText, Floats
from refaug.core.vectors.encoders import OnnxEncoder, _open_once, open_encoder
from refaug.logs.store import StoredLog
from refaug.metrics.embeddings.recommended import Recommended
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.augmentation import augment
from refaug.scoring.metric_setup.calibration import logged_replies, parts_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import AugmentSettings
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

pytestmark = pytest.mark.slow

METRIC = "refaug-1:encoder=tiny"
TALK = [
    (f"{who} {does} {what} ?", f"{answer} {does} {what} {end}")
    for who, does, what, answer, end in product(
        ("i", "you", "the cat"), ("like", "drink"), ("tea", "a dog", "big tea"), ("really", "not you", "i"), (".", "!")
    )
]
ITEMS = [
    {
        "id": f"i{number}",
        "turns": [TALK[number][0]],
        "references": [TALK[number][1]],
        "replies": {"a": TALK[number + 1][1], "b": TALK[50 - number][1]},
    }
    for number in range(0, 40, 7)
]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items and a home that has two encoders, and an index of one log by each."""
    folder = tmp_path_factory.mktemp("calibrated")
    home = folder / "home"
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ITEMS))
    rng = np.random.default_rng(3)
    with (folder / "log.jsonl").open("w") as file:
        for number in range(260):
            first, second = rng.integers(len(TALK), size=2)
            file.write(json.dumps({"id": str(number), "turns": [*TALK[first], *TALK[second]]}) + "\n")
    commands: list[tuple[object, ...]] = [("log", "ingest", folder / "log.jsonl", "--log", "chat")]
    for seed, name in enumerate(("tiny", "other"), start=7):
        encoder = write_encoder(folder / name, weights=TinyEncoder.seeded(seed))
        commands += [
            ("index", "encoder", "add", name, encoder),
            ("index", "build", "chat", "--name", f"by-{name}", "--encoder", name, "--check-queries", "0"),
        ]
    for command in commands:
        assert main(["--home", str(home), "--quiet", *map(str, command)]) == 0, command
    migrated(Settings(home=home))
    return folder


@pytest.fixture
def command(ready: Path, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(ready / "home", capsys)


@pytest.fixture(scope="module")
def calibrated(ready: Path) -> str:
    """The encoder's name with version and content, once its numbers are there."""
    assert (
        main(["--home", str(ready / "home"), "--quiet", "index", "encoder", "calibrate", "tiny", "--index", "by-tiny"])
        == 0
    )
    return ModelRegistry(Settings(home=ready / "home")).encoder("tiny").spec


def scored(command: Home, items: Path, *options: object) -> dict[str, Any]:
    result = command("score", items, *options, "--threads", "1", "--draws", "0", "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = result.json
    return document


def replies_of(scores: dict[str, Any]) -> list[float]:
    return [reply["score"] for system in ("a", "b") for reply in scores["systems"][system]["replies"]]


def test_without_numbers_it_is_refused_with_the_command_that_measures_them(command: Home, ready: Path) -> None:
    refused = command("score", ready / "items.jsonl", "-m", "refaug-1:encoder=other", "--json").error
    assert refused["code"] == "usage"
    assert refused["message"].startswith("refaug-1 has no numbers for the encoder other@")
    assert refused["remedy"].startswith("refaug index encoder calibrate other --index INDEX")


def test_an_index_of_another_encoder_has_no_pairs_for_it(command: Home) -> None:
    refused = command("index", "encoder", "calibrate", "other", "--index", "by-tiny", "--json").error
    assert refused["message"].startswith("the index by-tiny has vectors of tiny@")
    assert refused["remedy"] == "refaug index build chat --name NAME --encoder other"


def test_the_numbers_put_drawn_replies_at_0_and_are_the_likeliest_ones(ready: Path, calibrated: str) -> None:
    """Drawn replies have mean 0 and deviation 1 where the true one is no reference; the gradients of the fit vanish."""
    models = ModelRegistry(Settings(home=ready / "home"))
    metric = build(METRIC, source=models)
    assert isinstance(metric, Recommended)
    assert metric.settings["encoder"] == calibrated
    log = StoredLog.open(models.home.logs, "chat")
    pairs = logged_replies([log], 3_000, 35)
    assert len(pairs) == 260
    settings, replies = AugmentSettings(preset="refaug-1"), [reply for _, reply in pairs]
    augmented = augment([item for item, _ in pairs], models.index("by-tiny"), None, settings)
    items = [one for one in augmented if isinstance(one, Item)]
    assert not any(item.dialogue in {found.more.get("dialogue") for found in item.references} for item in items)
    golds = [Reference(text=reply, source=Origin.GOLD) for reply in replies]
    with_golds = [replace(item, references=(gold, *item.references)) for item, gold in zip(items, golds, strict=True)]
    numbers = json.loads(models.encoder("tiny").calibration or b"")
    responses = [pair.response for pair in log.pairs()]
    said, edited = Counter(map(normalise, responses)), numbers["made_of"]["edited constants"]
    first = {normalise(response): response for response in reversed(responses)}
    frequent = [first[text] for text in sorted(said, key=lambda text: (-said[text], text))[:40]]
    constants = [[texts[at % len(texts)] for at in range(len(items))] for texts in (frequent, edited)]
    turns = [item.turns[-1].split() for item in items]
    copies = [
        " ".join((turn, turn[: (len(turn) + 1) // 2], [*turn[:4], *turn[5:9]])[at % 3]) for at, turn in enumerate(turns)
    ]
    drawn = [replies[place] for place in np.random.default_rng(35).permutation(len(replies))]
    true = parts_of(metric, items, replies)
    kinds = [true, *(parts_of(metric, with_golds, texts) for texts in (drawn, *constants, copies))]
    yes, no = np.ones(len(pairs), np.bool_), np.zeros(len(pairs), np.bool_)
    mean, deviation = metric.calibration.drawn["retrieved"]
    z = [(metric.sums(parts, no, yes) - mean) / deviation for parts in kinds]
    assert (z[1].mean(), z[1].std()) == pytest.approx((0, 1), abs=2e-3)
    copied, order = metric.calibration.copied, metric.calibration.order
    assert copied.limit == pytest.approx(np.quantile(true[:, 5], 0.99), abs=1e-4)
    assert order.limit == pytest.approx(np.quantile(true[:, 6], 0.01), abs=1e-4)
    (a, b), gradients = metric.calibration.link, np.zeros(4)
    for kind, (parts, of_kind) in enumerate(zip(kinds, z, strict=True)):
        beyond = np.maximum(parts[:, 5] - copied.limit, 0), np.maximum(order.limit - parts[:, 6], 0)
        odds = a + b * of_kind - copied.slope * beyond[0] - order.slope * beyond[1]
        residuals = (kind == 0) - 1 / (1 + np.exp(-odds))
        gradients += [(residuals * of).mean() for of in (np.ones(len(odds)), of_kind, -beyond[0], -beyond[1])]
    assert gradients[:2] == pytest.approx([0, 0], abs=1e-3)
    for guard, gradient in ((copied, gradients[2]), (order, gradients[3])):
        assert gradient <= 1e-3 or guard.slope == 100
        assert gradient >= -1e-3 or guard.slope == 0
    assert b > 0.1


def test_replies_have_the_turns_before_them_and_no_others(ready: Path) -> None:
    lines = [json.loads(line) for line in (ready / "log.jsonl").read_text().splitlines()]
    turns_of = {f"chat/{line['id']}": line["turns"] for line in lines}
    drawn = logged_replies([StoredLog.open(ready / "home" / "logs", "chat")], 100, 1)
    assert len({item.id for item, _ in drawn}) == 100
    for item, reply in drawn:
        turns, count = turns_of[item.id], len(item.turns)
        assert any((*turns[max(0, at - 3) : at], turns[at]) == (*item.turns, reply) for at in range(1, 4)), count


def test_it_has_a_name_of_its_own_on_every_face(command: Home, ready: Path, calibrated: str, tmp_path: Path) -> None:
    document = scored(command, ready / "items.jsonl", "-m", METRIC, "--index", "by-tiny")
    scores = document["scores"][0]
    assert scores["metric"] == METRIC
    settings = Signature.parse(scores["signature"]).settings
    assert settings["encoder"] == calibrated
    assert calibrated.partition("#")[2] == open_encoder(ready / "tiny").name.partition("#")[2]
    (tmp_path / "scores.json").write_text(json.dumps(document))
    verified = command("score", "verify", tmp_path / "scores.json", ready / "items.jsonl", "--threads", "2", "--json")
    assert verified.code == 0, verified.out
    by_library = refaug.score(ITEMS, metric=METRIC, index="by-tiny", home=command.path)
    assert by_library.signature == scores["signature"]
    with client_of(Settings(home=command.path)) as web:
        asked = {"items": ITEMS, "metrics": [METRIC], "index": "by-tiny"}
        answer = web.post("/v1/scores", json=asked).json()["scores"][0]
        sums = web.post("/v1/scores", json={**asked, "return": "stats"}).json()
        combined = web.post("/v1/scores/combine", json={"batches": [sums]})
        assert combined.status_code == 200, combined.text
    assert (answer["metric"], answer["signature_full"]) == (METRIC, scores["signature_full"])
    assert replies_of(answer) == pytest.approx(replies_of(scores), abs=1e-6)
    added = combined.json()["scores"][0]
    assert added["metric"] == METRIC
    for system in ("a", "b"):
        assert added["systems"][system]["corpus"] == pytest.approx(scores["systems"][system]["corpus"], abs=1e-9)
        assert added["systems"][system]["parts"] == pytest.approx(scores["systems"][system]["parts"], abs=1e-9)


def test_nothing_is_encoded_twice_whatever_face_asks(
    command: Home, calibrated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sentences nor tokens, from the building of the index on; each face opens the encoder anew."""
    del calibrated
    run, rows_of = list[tuple[str, tuple[str, ...]]](), OnnxEncoder._rows

    def counted(encoder: OnnxEncoder, batch: Sequence[EncodedText], output: str) -> Sequence[Floats]:
        run.extend((output, text.tokens) for text in batch)
        return rows_of(encoder, batch, output)

    monkeypatch.setattr(OnnxEncoder, "_rows", counted)
    metrics = [METRIC, "sentence-cosine:vectors=tiny", "bertscore:vectors=tiny"]
    replies = [{name: f"{text} really" for name, text in item["replies"].items()} for item in ITEMS]  # type: ignore[attr-defined]
    items = [{**item, "replies": new} for item, new in zip(ITEMS, replies, strict=True)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in items))
    _open_once.cache_clear()
    options = [part for metric in metrics for part in ("-m", metric)]
    by_command = scored(command, tmp_path / "new.jsonl", *options, "--index", "by-tiny")
    assert {tokens[-2] for _, tokens in run} >= {"really"}
    run.clear()
    inbox = command.path / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "items.jsonl").write_bytes((tmp_path / "new.jsonl").read_bytes())
    _open_once.cache_clear()
    with client_of(Settings(home=command.path)) as web:
        answer = web.post("/v1/scores", json={"items": items, "metrics": metrics, "index": "by-tiny"}).json()
        order = {"kind": "score", "items": "items.jsonl", "metrics": metrics, "index": "by-tiny", "draws": 0}
        job = web.post("/v1/jobs", json=order).json()["id"]
        _open_once.cache_clear()
        run_worker(Settings(home=command.path), ServeSettings(), once=True)
        assert web.get(f"/v1/jobs/{job}").json()["state"] == "done"
    _open_once.cache_clear()
    by_library = refaug.score(items, metrics=metrics, index="by-tiny", home=command.path)
    assert run == []
    for metric, one, other in zip(metrics, by_command["scores"], answer["scores"], strict=True):
        of_library = [score for system in ("a", "b") for score in by_library[metric][system].replies]
        assert replies_of(one) == replies_of(other) == of_library


def test_it_is_the_metric_of_a_server_that_says_so(command: Home, ready: Path, calibrated: str) -> None:
    """One without numbers is no mistake of the server: requests are told what to do."""
    del calibrated
    by_command = scored(command, ready / "items.jsonl", "-m", METRIC, "--index", "by-tiny")["scores"][0]
    for metric in ("refaug-1", METRIC, "sentence-cosine:vectors=tiny"):
        ServeSettings.from_env({"REFAUG_DEFAULT_METRIC": metric})
    with client_of(Settings(home=command.path), default_metric=METRIC, default_index="by-tiny") as web:
        answer = web.post("/v1/scores", json={"items": ITEMS}).json()["scores"][0]
        given = web.post("/v1/scores", json={"items": ITEMS, "references": "given"}).json()["scores"][0]
    assert (answer["metric"], answer["signature_full"]) == (METRIC, by_command["signature_full"])
    assert given["metric"] == "multi-bleu"
    with refusing(Usage, "sentence-cosine"):
        ServeSettings.from_env({"REFAUG_DEFAULT_METRIC": "sentence-cosine"})
    with client_of(Settings(home=command.path), default_metric="refaug-1", default_index="by-tiny") as web:
        lacking = web.post("/v1/scores", json={"items": ITEMS}).json()
    assert lacking["remedy"].startswith("refaug index encoder add all-minilm-l6-v2")


def test_one_number_in_any_process_batch_and_thread_count(
    command: Home, ready: Path, calibrated: str, tmp_path: Path
) -> None:
    """The encodings are forgotten, so that each of them encodes anew."""
    del calibrated
    document = scored(command, ready / "items.jsonl", "-m", METRIC, "--index", "by-tiny")
    (tmp_path / "scores.json").write_text(json.dumps(document))
    known = replies_of(document["scores"][0])
    assert command("index", "encoder", "forget").code == 0
    verify = ["score", "verify", tmp_path / "scores.json", ready / "items.jsonl", "--threads", "2", "--json"]
    arguments = [sys.executable, "-m", "refaug", "--home", command.path, *verify]
    verified = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    parts = {part["part"]: part["state"] for part in json.loads(verified.stdout)["parts"]}
    assert parts["reply scores"] == "holds", parts
    assert command("index", "encoder", "forget").code == 0
    _open_once.cache_clear()
    with client_of(Settings(home=command.path)) as web:
        body = {"items": ITEMS, "purpose": "test", "index": "by-tiny", "settings": {"preset": "refaug-1"}}
        frozen = web.post("/v1/reference-sets", json=body).json()["id"]
        for row, item in enumerate(ITEMS):
            asked = {"items": [item], "metrics": [METRIC], "index": "by-tiny"}
            alone = replies_of(web.post("/v1/scores", json=asked).json()["scores"][0])
            replies = {system: [item["replies"][system]] for system in ("a", "b")}  # type: ignore[index]
            asked = {"items": [item["id"]], "replies": replies, "metrics": [METRIC]}
            of_set = replies_of(web.post(f"/v1/reference-sets/{frozen}/scores", json=asked).json()["scores"][0])
            for found in (alone, of_set):
                assert found == pytest.approx([known[row], known[row + len(ITEMS)]], abs=1e-6)


def test_an_unknown_language_is_told_on_every_face(command: Home, ready: Path, calibrated: str, tmp_path: Path) -> None:
    del calibrated
    items = [{**item, "replies": {"a": "du magst Tee nicht", "b": ""}} for item in ITEMS]
    (tmp_path / "german.jsonl").write_text("".join(json.dumps(line) + "\n" for line in items))
    warning = f"{METRIC}: the encoder tiny does not know 24 of the 24 pieces of the replies (100 %)"
    document = scored(command, tmp_path / "german.jsonl", "-m", METRIC, "--index", "by-tiny")
    with client_of(Settings(home=command.path)) as web:
        answer = web.post("/v1/scores", json={"items": items, "metrics": [METRIC], "index": "by-tiny"}).json()
        body = {"items": items, "purpose": "test", "index": "by-tiny", "settings": {"preset": "refaug-1"}}
        frozen = web.post("/v1/reference-sets", json=body).json()["id"]
        replies = {system: [item["replies"][system] for item in items] for system in ("a", "b")}  # type: ignore[index]
        of_set = web.post(f"/v1/reference-sets/{frozen}/scores", json={"replies": replies, "metrics": [METRIC]}).json()
    for scores in (document, answer, of_set):
        assert any(text.startswith(warning) for text in scores["warnings"]), scores["warnings"]
        assert any(text.startswith("empty replies, which score 0") for text in scores["warnings"])
        assert {reply["score"] for reply in scores["scores"][0]["systems"]["b"]["replies"]} == {0.0}
        assert scores["scores"][0]["systems"]["a"]["parts"]["unknown"] == 1.0


def test_an_index_of_words_is_refused_with_what_to_build(command: Home, ready: Path) -> None:
    vectors = ready / "words.txt"
    vectors.write_text("".join(f"{word} {place} 1\n" for place, word in enumerate(("i", "you", "like", "tea"))))
    assert command("index", "vectors", "import", "glove", vectors).code == 0
    assert command("index", "build", "chat", "--name", "words", "--vectors", "glove", "--check-queries", "0").code == 0
    for options in ((), ("-m", METRIC)):
        refused = command("score", ready / "items.jsonl", "--index", "words", *options, "--json").error
        assert "finds references by the encoder" in refused["message"]
        assert "refaug index build chat --name NAME --encoder" in refused["remedy"]


def test_references_that_another_encoder_found_are_refused(
    command: Home, ready: Path, calibrated: str, tmp_path: Path
) -> None:
    """Of an index, of a file of references, and of a frozen set."""
    del calibrated
    message = f"{METRIC} compares by the encoder tiny@"
    refused_by_index = command("score", ready / "items.jsonl", "-m", METRIC, "--index", "by-other", "--json")
    assert "references" not in refused_by_index.err.partition("{")[0], "nothing is searched before it is refused"
    by_index = refused_by_index.error
    found = command("sets", "references", ready / "items.jsonl", "--index", "by-other", "--preset", "refaug-1")
    (tmp_path / "found.jsonl").write_text(found.out)
    by_file = command("score", tmp_path / "found.jsonl", "-m", METRIC, "--json").error
    for refused in (by_index, by_file):
        assert (refused["code"], refused["message"][: len(message)]) == ("usage", message), refused
        assert "-m refaug-1:encoder=other" in refused["remedy"]
    with client_of(Settings(home=command.path)) as web:
        body = {"items": ITEMS, "purpose": "test", "index": "by-other", "settings": {"preset": "refaug-1"}}
        frozen = web.post("/v1/reference-sets", json=body).json()["id"]
        replies = {"a": [item["replies"]["a"] for item in ITEMS]}  # type: ignore[index]
        answer = web.post(f"/v1/reference-sets/{frozen}/scores", json={"replies": replies, "metrics": [METRIC]})
        assert (answer.status_code, answer.json()["detail"][: len(message)]) == (400, message), answer.text
