"""Metrics in runs of the real harness: corpus scores, samples with records, and two runs compared."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from math import sqrt
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import pytest
import refaug
from lm_eval.api.model import LM
from lm_eval.api.registry import get_aggregation, get_metric_aggregation, is_higher_better
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager
from refaug.core.home import Settings
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.score_files.harness_logs import read_log
from refaug.scoring.score_files.score_document import SEAL, seal_of
from refaug.scoring.verification.artefact_parts import PartState, Verification
from refaug.scoring.verification.harness_verification import verify_log
from refaug.scoring.verification.verification import Workplace, files_in
from scipy import stats

import refaug_lm_eval

ITEMS = [
    {
        "id": f"i{number}",
        "utterance": f"Where is shop {number}?",
        "references": [
            {"text": f"It is at the market {number}."},
            {"text": f"Behind the station number {number}.", "weight": 0.6},
            {"text": "I do not like you.", "weight": -0.5},
        ],
        "town": f"t{number % 4}",
    }
    for number in range(12)
]
OLD = [f"I do not know {number}." for number in range(12)]
NEW = [*(f"It is behind the station {number}." for number in range(9)), *OLD[9:]]
TASK = """
task: small_talk
dataset_path: json
dataset_kwargs: {{data_files: {{test: {items}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{utterance}}}}"
doc_to_target: "{{{{references[0].text}}}}"
generation_kwargs: {{until: ["\\n"]}}
{scoring}
"""
BY_DOCUMENT = """
process_results: !function refaug_lm_eval.upsilon_bleu
metric_list:
  - {metric: upsilon-bleu, aggregation: refaug, higher_is_better: true}
"""
BY_TARGET = """
metric_list:
  - {metric: !function refaug_lm_eval.chrf, aggregation: !function refaug_lm_eval.corpus, higher_is_better: true}
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""


class Scripted(LM):
    """Says the reply that stands beside the utterance."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__()
        self.replies = {row["utterance"]: reply for row, reply in zip(ITEMS, replies, strict=True)}

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        return [self.replies[request.args[0].splitlines()[-1]] for request in requests]

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[Any]:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("REFAUG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def run(folder: Path, replies: list[str], scoring: str, name: str = "run") -> tuple[dict[str, Any], Path]:
    """The results of a run, and the file of its samples as the harness writes it."""
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ITEMS), "utf-8")
    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    (tasks / "small_talk.yaml").write_text(TASK.format(items=folder / "items.jsonl", scoring=scoring), "utf-8")
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = lm_eval.simple_evaluate(
        Scripted(replies), tasks=["small_talk"], task_manager=manager, bootstrap_iters=0, log_samples=True
    )
    tracker = EvaluationTracker(output_path=str(folder / name))
    tracker.general_config_tracker.model_name_sanitized = "scripted"
    tracker.date_id = "2026"
    tracker.save_results_samples("small_talk", found["samples"]["small_talk"])
    return found["results"]["small_talk"], next((folder / name).rglob("samples_small_talk_*.jsonl"))


def verified(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "refaug", "score", "verify", str(path)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def parts_of(path: Path) -> Verification:
    """What a verification in this process says."""
    log = read_log(path, path.name)
    assert log is not None
    return verify_log(log, Workplace(models=ModelRegistry(Settings(home=path.parent), find_file=files_in(path.parent))))


def test_documents_have_the_corpus_score_of_the_library_and_records(tmp_path: Path) -> None:
    results, samples = run(tmp_path, NEW, BY_DOCUMENT)
    known = refaug.score(ITEMS, predictions=NEW, metric="upsilon-bleu")
    assert results["upsilon-bleu,none"] == known.corpus
    rows = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    assert [row["upsilon-bleu"]["system"]["scores"][0] for row in rows] == known.replies
    assert {row["upsilon-bleu"]["signature_full"] for row in rows} == {known.metric.signature_full}
    done = verified(samples)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "upsilon-bleu  reply scores       holds" in done.stdout


def test_a_task_with_one_target_scores_beside_metrics_of_the_harness(tmp_path: Path) -> None:
    results, samples = run(tmp_path, NEW, BY_TARGET)
    golds = [[row["references"][0]["text"]] for row in ITEMS]
    assert results["chrf,none"] == refaug.score(predictions=NEW, references=golds, metric="chrf").corpus
    assert results["exact_match,none"] == 0
    assert parts_of(samples).verdict is PartState.HOLDS


def test_metrics_are_registered_by_name() -> None:
    for name in ("refaug-1", "upsilon-bleu"):
        assert get_metric_aggregation(name) is get_aggregation("refaug") is refaug_lm_eval.corpus
        assert is_higher_better(name)
    with pytest.raises(AttributeError, match="no metric no-such-metric"):
        _ = refaug_lm_eval.no_such_metric
    with pytest.raises(refaug.Usage, match="without references"):
        refaug_lm_eval.upsilon_bleu({"question": "?"}, ["a"])
    with pytest.raises(refaug.Usage, match="several replies"):
        refaug_lm_eval.upsilon_bleu({"references": ["a"]}, [["a", "b"]])


def test_two_runs_are_compared_under_all_metrics(tmp_path: Path) -> None:
    _, old = run(tmp_path, OLD, BY_TARGET, "old")
    _, new = run(tmp_path, [ITEMS[0]["references"][0]["text"], *NEW[1:]], BY_TARGET, "new")
    found = {one.metric: one for one in refaug_lm_eval.compare(old, new)}
    assert list(found) == ["chrf", "exact_match"]
    exact = found["exact_match"]
    # by hand: one of twelve samples is right in the second run, and none in the first
    differences = np.array([1.0, *[0.0] * 11])
    error = differences.std(ddof=1) / sqrt(12)
    assert (exact.first, exact.second, exact.difference) == pytest.approx((0.0, 1 / 12, 1 / 12))
    assert exact.p == pytest.approx(2 * stats.t.sf(differences.mean() / error, 11))
    golds = [[row["references"][0]["text"]] for row in ITEMS]
    corpora = [refaug.score(predictions=replies, references=golds, metric="chrf").corpus for replies in (OLD, NEW)]
    chrf = found["chrf"]
    assert chrf.first == pytest.approx(corpora[0], abs=1e-12)
    assert chrf.second > corpora[1]  # one more reply is right than in NEW
    assert chrf.p < 0.05 < exact.p
    assert chrf.holm_p == pytest.approx(2 * chrf.p)
    assert exact.holm_p == exact.p


def test_clusters_widen_the_interval_to_that_of_their_means(tmp_path: Path) -> None:
    _, old = run(tmp_path, OLD, BY_TARGET, "old")
    _, new = run(tmp_path, [row["references"][0]["text"] for row in ITEMS[:3]] + OLD[3:], BY_TARGET, "new")
    (found,) = refaug_lm_eval.compare(old, new, metrics=["exact_match"], cluster="town")
    means = np.array([1 / 3, 1 / 3, 1 / 3, 0.0])  # of three samples in each of four towns
    half = stats.t.ppf(0.975, 3) * means.std(ddof=1) / sqrt(4)
    assert found.clusters == 4
    assert found.interval == pytest.approx((0.25 - half, 0.25 + half))


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, old = run(tmp_path, OLD, BY_TARGET, "old")
    _, new = run(tmp_path, NEW, BY_TARGET, "new")
    (command,) = metadata.entry_points(group="console_scripts", name="refaug-lm-eval")
    assert command.load()([str(old), str(new)]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()[-3:]
    assert heading.split()[:5] == ["metric", "first", "second", "difference", "interval"]
    assert [row.split()[0] for row in rows] == ["chrf", "exact_match"]
    assert command.load()([str(old), str(tmp_path / "items.jsonl")]) == 3
    assert "items.jsonl: this is not a log of lm-eval or inspect" in capsys.readouterr().err


def test_runs_of_other_settings_are_not_compared(tmp_path: Path) -> None:
    _, new = run(tmp_path, NEW, BY_TARGET, "new")
    other = tmp_path / "other.jsonl"
    other.write_text(new.read_text("utf-8").replace("char-order:6", "char-order:5"), "utf-8")
    with pytest.raises(refaug.BadInput, match=r"the scores of the sample 0 cannot be compared: .*char-order"):
        refaug_lm_eval.compare(new, other)


def test_a_file_that_two_runs_wrote_into_is_refused(tmp_path: Path) -> None:
    _, new = run(tmp_path, NEW, BY_TARGET, "new")
    twice = tmp_path / "twice.jsonl"
    twice.write_text(new.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(refaug.BadInput, match="chrf: the log has the sample 0 twice"):
        refaug_lm_eval.compare(new, twice)


# ── Logs in which one thing was changed ───────────────────────────────────────────────────────────────────────────────


def change_reply(row: Any, record: Any) -> None:
    row["filtered_resps"][0] += "!"


def change_recorded_reply(row: Any, record: Any) -> None:
    record["item"]["replies"]["model"] += "!"


def change_reference(row: Any, record: Any) -> None:
    row["doc"]["references"][1]["text"] += "!"


def change_weight(row: Any, record: Any) -> None:
    row["doc"]["references"][2]["weight"] = -0.25


def change_recorded_reference(row: Any, record: Any) -> None:
    record["item"]["references"][0]["text"] += "!"


def change_utterance(row: Any, record: Any) -> None:
    row["doc"]["utterance"] += "!"


def change_score(row: Any, record: Any) -> None:
    record["system"]["scores"][0] += 1e-6


def change_score_and_seal(row: Any, record: Any) -> None:
    change_score(row, record)
    record[SEAL] = seal_of(record)


def change_signature(row: Any, record: Any) -> None:
    record["signature_full"] = record["signature_full"].replace("n:2", "n:3")


def change_signature_and_seal(row: Any, record: Any) -> None:
    change_signature(row, record)
    record[SEAL] = seal_of(record)


def remove_record(row: Any, record: Any) -> None:
    row["upsilon-bleu"] = 0.5


CHANGES = [
    change_reply, change_recorded_reply, change_reference, change_weight, change_recorded_reference, change_utterance,
    change_score, change_score_and_seal, change_signature, change_signature_and_seal, remove_record,
]  # fmt: skip


def test_one_change_in_a_log_is_found_and_named_in_250_of_250(tmp_path: Path) -> None:
    _, samples = run(tmp_path, NEW, BY_DOCUMENT)
    lines = samples.read_text("utf-8").splitlines()
    assert parts_of(samples).verdict is PartState.HOLDS
    random = np.random.default_rng(5)
    changed, missed = tmp_path / "changed.jsonl", []
    for number in range(250):
        place, change = int(random.integers(len(lines))), CHANGES[number % len(CHANGES)]
        row = json.loads(lines[place])
        change(row, row["upsilon-bleu"])
        changed.write_text("\n".join([*lines[:place], json.dumps(row), *lines[place + 1 :]]), "utf-8")
        found = parts_of(changed)
        messages = [part.message for part in found.parts if part.state is PartState.DIFFERS]
        names = (f"line {place + 1}:", f"sample {place} ", f"model.replies[{place}]")
        if not any(name in text for text in messages for name in names):
            missed.append((number, change.__name__, messages))
    assert missed == []


def test_what_is_not_readable_is_named_and_the_rest_is_verified(tmp_path: Path) -> None:
    _, samples = run(tmp_path, NEW, BY_DOCUMENT)
    lines = samples.read_text("utf-8").splitlines()
    row = json.loads(lines[3])
    row["responses"] = row.pop("filtered_resps")
    old = json.loads(lines[7])
    old["upsilon-bleu"]["signature_full"] = old["upsilon-bleu"]["signature_full"].replace("0.1.0", "0.0.9")
    old["upsilon-bleu"][SEAL] = seal_of(old["upsilon-bleu"])
    samples.write_text("\n".join([*lines[:3], json.dumps(row), *lines[4:7], json.dumps(old), *lines[8:]]), "utf-8")
    states = [(part.part, part.state, part.message) for part in parts_of(samples).parts]
    assert states[0] == (
        "log",
        PartState.DIFFERS,
        f"{samples.name}, line 4: filtered_resps is None, a list was expected: this is a log of another version",
    )
    assert ("software", PartState.DIFFERS, "the scores were made by refaug 0.0.9; this is 0.1.0") in states
    assert [state for part, state, _ in states if part == "reply scores"] == [PartState.HOLDS, PartState.HOLDS]
