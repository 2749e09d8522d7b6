"""Logs of other harnesses with records of ours, made by hand in their forms: verified, and compared."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
import zlib
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import zstandard
from encoders import TinyEncoder, write_encoder
from engines import TEXTS, home_with_versions

from refaug.cli import main as cli
from refaug.core.errors import BadInput
from refaug.core.vectors.encoders import open_encoder
from refaug.library.harnesses import SampleScorer, compare, corpus_score
from refaug.library.scoring import score
from refaug.metrics.embeddings import recommended
from refaug.metrics.embeddings.recommended import MetricCalibration

GOLDS = [TEXTS[number % len(TEXTS)] for number in range(6)]
DOCS = [
    {"id": f"d{number}", "utterance": TEXTS[(number + 1) % len(TEXTS)], "references": [gold]}
    for number, gold in enumerate(GOLDS)
]
OLD = [TEXTS[(number + 2) % len(TEXTS)] for number in range(6)]
NEW = [*GOLDS[:4], *OLD[4:]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("logs")
    home_with_versions(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "desk"))


def lm_eval_log(path: Path, scorer: SampleScorer, replies: list[str]) -> Path:
    """Write a log as `lm_eval --log_samples` does."""
    rows = [
        {
            "doc_id": number,
            "doc": doc,
            "target": "",
            "filtered_resps": [reply],
            "filter": "none",
            "metrics": ["ours", "acc"],
            "ours": scorer.record(doc, reply, golds="doc"),
            "acc": float(reply in doc["references"]),
        }
        for number, (doc, reply) in enumerate(zip(DOCS, replies, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def eval_log(path: Path, scorer: SampleScorer, replies: list[str], *, is_packed: bool) -> Path:
    """Write a log as inspect does, with members that are compressed by Zstandard or as zip usually is."""
    records = [scorer.record(doc, reply) for doc, reply in zip(DOCS, replies, strict=True)]
    values = [record["system"]["scores"][0] for record in records]
    members: dict[str, Any] = {
        f"samples/{doc['id']}_epoch_1.json": {
            "id": doc["id"],
            "epoch": 1,
            "input": doc["utterance"],
            "target": doc["references"],
            "output": {"completion": reply, "choices": [{"message": {"content": reply}}]},
            "scores": {"ours": {"value": value, "answer": "attachment://a", "metadata": {"refaug": record}}},
            "metadata": {},
            "attachments": {"a": reply},
        }
        for doc, reply, record, value in zip(DOCS, replies, records, values, strict=True)
    }  # fmt: skip
    corpus = {"refaug/corpus": {"value": corpus_score(records)}}
    members["header.json"] = {"version": 2, "results": {"scores": [{"name": "ours", "metrics": corpus}]}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, json.dumps(member))
    if is_packed:
        pack(path)
    return path


def pack(path: Path) -> None:
    """Write an archive anew with Zstandard, a method that zipfile does not know: as stored, with other headers."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    packed = {name: zstandard.ZstdCompressor().compress(content) for name, content in contents.items()}
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as archive:
        for name, content in packed.items():
            archive.writestr(name, content)
    archive_bytes = bytearray(stored.getvalue())
    for name, content in contents.items():
        for signature, method_at, crc_at, size_at, name_at in (
            (b"PK\x03\x04", 8, 14, 22, 30),
            (b"PK\x01\x02", 10, 16, 24, 46),
        ):
            at = -1
            while (at := archive_bytes.find(signature, at + 1)) >= 0:
                if archive_bytes[at + name_at : at + name_at + len(name)] == name.encode():
                    archive_bytes[at + method_at : at + method_at + 2] = (93).to_bytes(2, "little")
                    archive_bytes[at + crc_at : at + crc_at + 4] = zlib.crc32(content).to_bytes(4, "little")
                    archive_bytes[at + size_at : at + size_at + 4] = len(content).to_bytes(4, "little")
                    break
    path.write_bytes(archive_bytes)


def verified(folder: Path, log: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of the command, and its parts."""
    capfdbinary.readouterr()
    with chdir(folder):
        code = cli.main(["--quiet", "--home", "home", "score", "verify", str(log), "--threads", "1", "--json"])
    out, err = capfdbinary.readouterr()
    assert out, err
    return code, json.loads(out)["parts"]


def test_a_log_of_lm_eval_holds_with_references_that_were_retrieved_while_it_ran(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    home = folder / "home"
    scorer = SampleScorer("upsilon-bleu", index="chat", rater="base", home=home)
    log = lm_eval_log(folder / "samples.jsonl", scorer, NEW)
    code, parts = verified(folder, log, capfdbinary)
    states = {part["part"]: part["state"] for part in parts}
    assert (code, set(states.values())) == (0, {"holds"})
    assert {"log", "records", "samples", "software", "index", "rater", "reply scores"} <= set(states)
    records = [json.loads(line)["ours"] for line in log.read_text("utf-8").splitlines()]
    known = score(DOCS, predictions=NEW, metric="upsilon-bleu", index="chat", rater="base", home=home)
    assert {record["signature_full"] for record in records} == {known.metric.signature_full}
    assert [record["system"]["scores"][0] for record in records] == pytest.approx(known.replies, abs=1e-6)
    assert corpus_score(records) == pytest.approx(known.corpus, abs=1e-6)
    # records hold what was retrieved, so the versions need not be there
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    code, parts = verified(elsewhere, log, capfdbinary)
    assert (code, {part["part"] for part in parts if part["state"] == "unchecked"}) == (
        0,
        {"index", "rater", "vectors"},
    )


def test_the_recommended_metric_scores_sample_by_sample_as_it_does_all_at_once(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, encoder = tmp_path / "home", write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded())
    assert cli.main(["--quiet", "--home", str(home), "index", "encoder", "add", "tiny", str(encoder)]) == 0
    calibration = MetricCalibration(
        encoder=open_encoder(encoder).name,
        most_like={"turn": 0.9, "turns": 0.9},
        drawn={"gold+retrieved": (2.4, 0.2), "gold": (1.5, 0.2), "retrieved": (2.6, 0.2)},
        link=(-1.0, 1.0),
        sha256="0" * 64,
    )
    monkeypatch.setattr(recommended, "own_calibration", lambda: calibration)
    metric = "refaug-1:encoder=tiny"
    scorer = SampleScorer(metric, home=home)
    records = [scorer.record(doc, reply) for doc, reply in zip(DOCS, NEW, strict=True)]
    known = score(DOCS, predictions=NEW, metric=metric, home=home)
    assert [record["system"]["scores"][0] for record in records] == pytest.approx(known.replies, abs=1e-6)
    assert {record["signature_full"] for record in records} == {known.metric.signature_full}
    assert corpus_score(records) == pytest.approx(known.corpus, abs=1e-6)
    code, parts = verified(tmp_path, lm_eval_log(tmp_path / "samples.jsonl", scorer, NEW), capfdbinary)
    assert (code, {part["state"] for part in parts}) == (0, {"holds"})


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_log_of_inspect_holds_and_its_damage_is_named(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], is_packed: bool
) -> None:
    log = eval_log(folder / "run.eval", SampleScorer("chrf"), NEW, is_packed=is_packed)
    code, parts = verified(folder, log, capfdbinary)
    assert code == 0, parts
    assert [part["part"] for part in parts if part["state"] != "holds"] == []
    assert parts[-1]["part"] == "corpus scores"
    content = bytearray(log.read_bytes())
    at = content.index(b"samples/d2_epoch_1.json") + len(b"samples/d2_epoch_1.json") + 40
    content[at] ^= 0xFF
    log.write_bytes(content)
    code, parts = verified(folder, log, capfdbinary)
    assert code == 6
    assert parts[0]["part"] == "log"
    assert "run.eval, samples/d2_epoch_1.json: it is damaged: " in parts[0]["message"]
    assert {part["state"] for part in parts if part["part"] == "reply scores"} == {"holds"}


def test_a_log_without_records_and_items_beside_a_log_are_refused(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = lm_eval_log(folder / "samples.jsonl", SampleScorer("chrf"), NEW)
    plain = folder / "plain.jsonl"
    plain.write_text(log.read_text("utf-8").replace('["ours", "acc"]', '["acc"]'), "utf-8")
    for arguments, code, words in (
        ([str(plain)], 3, "none of its scores has a signature of refaug"),
        ([str(log), "items.jsonl"], 2, "items beside a log of lm-eval"),
    ):
        with chdir(folder):
            assert cli.main(["--quiet", "--home", "home", "score", "verify", *arguments]) == code
        assert words in capfdbinary.readouterr()[1].decode()


def test_logs_of_two_harnesses_are_compared_by_the_ids_of_samples(folder: Path) -> None:
    scorer = SampleScorer("chrf")
    old = eval_log(folder / "old.eval", scorer, OLD, is_packed=False)
    new = eval_log(folder / "new.eval", scorer, NEW, is_packed=True)
    (found,) = compare(old, new)
    before, now = (score(DOCS, predictions=replies, metric="chrf").corpus for replies in (OLD, NEW))
    assert (found.first, found.second) == pytest.approx((before, now), abs=1e-12)
    assert found.difference == pytest.approx(now - before, abs=1e-12)
    assert found.interval is not None
    assert found.interval[0] < found.difference < found.interval[1]
    with pytest.raises(BadInput, match="the logs have no sample in common"):
        compare(old, lm_eval_log(folder / "samples.jsonl", scorer, NEW))
