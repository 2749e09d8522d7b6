"""The scorer in runs of the real harness: scores, records in logs, and two logs compared."""

from __future__ import annotations

import json
import zipfile
from importlib import metadata
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import refaug
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai import score as score_log
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from refaug.core.home import Settings
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.score_files.harness_logs import read_log
from refaug.scoring.score_files.score_document import SEAL, seal_of
from refaug.scoring.verification.artefact_parts import PartState, Verification
from refaug.scoring.verification.harness_verification import verify_log
from refaug.scoring.verification.verification import Workplace, files_in
from scipy import stats

from refaug_inspect import compare, refaug_score

REFERENCES = [
    [
        {"text": f"It is at the market {number}."},
        {"text": f"Behind the station number {number}.", "weight": 0.6},
        {"text": "I do not like you.", "weight": -0.5},
    ]
    for number in range(12)
]
OLD = [f"I do not know {number}." for number in range(12)]
NEW = [*(f"It is behind the station {number}." for number in range(9)), *OLD[9:]]
ITEMS = [
    {"id": f"i{number}", "utterance": f"Where is shop {number}?", "references": references}
    for number, references in enumerate(REFERENCES)
]


@solver
def saying(replies: list[list[str]]) -> Solver:
    """Say the reply of this epoch that is written down for the sample."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        number = int(str(state.sample_id).removeprefix("i"))
        state.output = ModelOutput.from_content("scripted", replies[state.epoch - 1][number])
        return state

    return solve


def samples() -> list[Sample]:
    return [
        Sample(
            id=item["id"],
            input=item["utterance"],
            target=["market", "station"],
            metadata={"references": item["references"], "town": f"t{number % 4}"},
        )
        for number, item in enumerate(ITEMS)
    ]


def run(folder: Path, *replies: list[str], scorer: Any = None, dataset: list[Sample] | None = None) -> EvalLog:
    """The log of a run, an epoch for each list of replies."""
    (log,) = run_eval(
        Task(
            dataset=MemoryDataset(dataset or samples()),
            solver=saying(list(replies)),
            scorer=scorer or [refaug_score("upsilon-bleu"), includes()],
        ),
        model="mockllm/model",
        log_dir=str(folder),
        epochs=len(replies),
        display="none",
    )
    assert log.status == "success", log.error
    return log


def parts_of(path: Path) -> Verification:
    """What a verification says."""
    log = read_log(path, path.name)
    assert log is not None
    return verify_log(log, Workplace(models=ModelRegistry(Settings(home=path.parent), find_file=files_in(path.parent))))


def figures_of(log: EvalLog, scorer: str) -> dict[str, float]:
    assert log.results is not None
    (found,) = [scored for scored in log.results.scores if scored.name == scorer]
    return {name.rpartition("/")[2]: figure.value for name, figure in found.metrics.items()}


def test_scores_are_those_of_the_library_and_verified_from_the_log(tmp_path: Path) -> None:
    log = run(tmp_path, NEW)
    known = refaug.score(ITEMS, predictions=NEW, metric="upsilon-bleu")
    figures = figures_of(log, "refaug_score")
    assert figures["corpus"] == known.corpus
    assert figures["mean"] == pytest.approx(known.mean())
    logged = {sample.id: sample.scores["refaug_score"].value for sample in log.samples or ()}
    assert [logged[item["id"]] for item in ITEMS] == known.replies
    found = parts_of(Path(log.location))
    assert found.verdict is PartState.HOLDS
    assert [(part.part, part.message) for part in found.parts][:3] == [
        ("log", "12 scores of refaug in a log of inspect"),
        ("records", "12 are what was written: their seals fit"),
        ("samples", "replies, references and scores are those of the records"),
    ]
    assert found.parts[-1].part == "corpus scores"


def test_targets_are_references_where_the_metadata_has_none(tmp_path: Path) -> None:
    dataset = [Sample(id="i0", input="Where?", target=["At the market.", "In town."])]
    log = run(tmp_path, ["In the market."], scorer=refaug_score("chrf"), dataset=dataset)
    known = refaug.score(predictions=["In the market."], references=[["At the market.", "In town."]], metric="chrf")
    assert figures_of(log, "refaug_score")["corpus"] == known.corpus
    assert parts_of(Path(log.location)).verdict is PartState.HOLDS


def test_a_reply_without_a_score_is_unscored_with_the_reason(tmp_path: Path) -> None:
    dataset = [Sample(id=f"i{number}", input="Where?", target=target) for number, target in enumerate(("There.", []))]
    log = run(tmp_path, ["There.", "Here."], scorer=refaug_score("chrf"), dataset=dataset)
    (unscored,) = [sample.scores["refaug_score"] for sample in log.samples or [] if sample.id == "i1"]
    assert isnan(unscored.as_float())
    assert unscored.reason == "no_gold"
    assert figures_of(log, "refaug_score")["corpus"] == 1.0
    assert parts_of(Path(log.location)).verdict is PartState.HOLDS


def test_a_log_is_scored_later_by_the_name_of_the_scorer(tmp_path: Path) -> None:
    log = run(tmp_path, NEW, scorer=includes())
    (entry,) = metadata.entry_points(group="inspect_ai", name="refaug")
    assert entry.load().refaug_score is refaug_score
    scored = score_log(read_eval_log(log.location), refaug_score("upsilon-bleu"), action="append", display="none")
    later = tmp_path / "later.json"
    write_eval_log(scored, str(later))
    known = refaug.score(ITEMS, predictions=NEW, metric="upsilon-bleu").corpus
    assert figures_of(scored, "refaug_score")["corpus"] == known
    assert parts_of(later).verdict is PartState.HOLDS


def test_two_logs_are_compared_robustly_to_clusters(tmp_path: Path) -> None:
    old, new = run(tmp_path / "old", OLD), run(tmp_path / "new", NEW)
    plain, clustered = compare(old.location, new.location), compare(old.location, new.location, cluster="town")
    assert [found.metric for found in plain] == ["refaug_score", "includes"]
    first, second = (refaug.score(ITEMS, predictions=replies, metric="upsilon-bleu") for replies in (OLD, NEW))
    assert (plain[0].first, plain[0].second) == pytest.approx((first.corpus, second.corpus), abs=1e-12)
    # includes: nine of twelve replies have the word station in the second run; by hand
    differences = np.array([1.0] * 9 + [0.0] * 3)
    assert plain[1].difference == clustered[1].difference == pytest.approx(0.75)
    error = differences.std(ddof=1) / sqrt(12)
    assert plain[1].p == pytest.approx(2 * stats.t.sf(0.75 / error, 11))
    towns = np.array([differences[town::4].mean() for town in range(4)])
    half = stats.t.ppf(0.975, 3) * towns.std(ddof=1) / sqrt(4)
    assert clustered[1].interval == pytest.approx((0.75 - half, 0.75 + half))
    assert [found.clusters for found in clustered] == [4, 4]
    smaller, larger = sorted(found.p for found in plain)
    assert sorted(found.holm_p for found in plain) == pytest.approx([min(2 * smaller, 1), max(larger, 2 * smaller)])


def test_epochs_of_a_sample_are_one_cluster(tmp_path: Path) -> None:
    old, new = run(tmp_path / "old", OLD, OLD), run(tmp_path / "new", NEW, OLD)
    assert isnan(figures_of(new, "refaug_score")["corpus"])
    assert parts_of(Path(new.location)).verdict is PartState.HOLDS
    includes_found = compare(old.location, new.location, metrics=["includes"])[0]
    means = np.array([0.5] * 9 + [0.0] * 3)  # of both epochs
    assert (includes_found.samples, includes_found.clusters) == (24, 12)
    assert includes_found.p == pytest.approx(2 * stats.t.sf(means.mean() / (means.std(ddof=1) / sqrt(12)), 11))


def test_samples_stand_in_the_order_of_the_data_set_whichever_ended_first(tmp_path: Path) -> None:
    source, target = Path(run(tmp_path, NEW, OLD).location), tmp_path / "shuffled.eval"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        members = old.infolist()
        np.random.default_rng(3).shuffle(members)  # type: ignore[arg-type]  # a list of any
        for info in members:
            new.writestr(info.filename, old.read(info))
    log = read_log(target, target.name)
    assert log is not None
    wanted = [f"i{number}/{epoch}" for number in range(12) for epoch in (1, 2)]
    assert [sample.id for sample in log.by_metric()["includes"]] == wanted


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    old = run(tmp_path / "old", OLD, scorer=refaug_score("upsilon-bleu"))
    new = run(tmp_path / "new", NEW, scorer=refaug_score("upsilon-bleu:n=3"))
    with pytest.raises(refaug.BadInput, match=r"the scores of the sample i0 cannot be compared: n: 2 and 3"):
        compare(old.location, new.location)
    with pytest.raises(refaug.Usage, match="no-such"):
        compare(old.location, old.location, metrics=["no-such"])
    with pytest.raises(refaug.BadInput, match="has no field 'street'"):
        compare(old.location, old.location, cluster="street")


# ── Logs in which one thing was changed ───────────────────────────────────────────────────────────────────────────────


def change_completion(sample: Any, score: Any, record: Any) -> None:
    sample["output"]["completion"] += "!"


def change_message(sample: Any, score: Any, record: Any) -> None:
    sample["output"]["choices"][0]["message"]["content"] += "!"


def change_answer(sample: Any, score: Any, record: Any) -> None:
    score["answer"] += "!"


def change_recorded_reply(sample: Any, score: Any, record: Any) -> None:
    record["item"]["replies"]["model"] += "!"


def change_reference(sample: Any, score: Any, record: Any) -> None:
    sample["metadata"]["references"][1]["text"] += "!"


def change_weight(sample: Any, score: Any, record: Any) -> None:
    record["item"]["references"][2]["weight"] = -0.25


def change_input(sample: Any, score: Any, record: Any) -> None:
    sample["input"] += "!"


def change_value(sample: Any, score: Any, record: Any) -> None:
    score["value"] += 1e-6


def change_all_scores(sample: Any, score: Any, record: Any) -> None:
    score["value"] += 1e-6
    record["system"]["scores"][0] = score["value"]
    record[SEAL] = seal_of(record)


def change_signature(sample: Any, score: Any, record: Any) -> None:
    record["signature_full"] = record["signature_full"].replace("n:2", "n:3")


def change_signature_and_seal(sample: Any, score: Any, record: Any) -> None:
    change_signature(sample, score, record)
    record[SEAL] = seal_of(record)


def remove_record(sample: Any, score: Any, record: Any) -> None:
    score["metadata"] = None


CHANGES = [
    change_completion, change_message, change_answer, change_recorded_reply, change_reference, change_weight,
    change_input, change_value, change_all_scores, change_signature, change_signature_and_seal, remove_record,
]  # fmt: skip


def rewritten(source: Path, target: Path, change: Any) -> None:
    """Copy a log with one member changed; `change` returns new content, or None for the same."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, change(info.filename, content) or content)


def test_one_change_in_a_log_is_found_and_named_in_250_of_250(tmp_path: Path) -> None:
    source = Path(run(tmp_path, NEW).location)
    random = np.random.default_rng(5)
    target, missed = tmp_path / "changed.eval", []
    for number in range(250):
        name, change = f"i{int(random.integers(12))}", CHANGES[number % len(CHANGES)]

        def changed(member: str, content: bytes, name: str = name, change: Any = change) -> bytes | None:
            if member != f"samples/{name}_epoch_1.json":
                return None
            sample = json.loads(content)
            score = sample["scores"]["refaug_score"]
            change(sample, score, score["metadata"]["refaug"])
            return json.dumps(sample).encode()

        rewritten(source, target, changed)
        messages = [part.message for part in parts_of(target).parts if part.state is PartState.DIFFERS]
        names = (f"samples/{name}_epoch_1.json", f"sample {name} ", f"model.replies[{name}]")
        if not any(word in text for text in messages for word in names):
            missed.append((number, change.__name__, messages))
    assert missed == []


def test_changes_of_the_results_and_of_summaries_are_found(tmp_path: Path) -> None:
    source = Path(run(tmp_path, NEW).location)
    target = tmp_path / "changed.eval"

    def change_results(member: str, content: bytes) -> bytes | None:
        header = json.loads(content)
        if member != "header.json":
            return None
        for figure in header["results"]["scores"][0]["metrics"].values():
            figure["value"] += 0.01
        return json.dumps(header).encode()

    def change_summary(member: str, content: bytes) -> bytes | None:
        if member != "summaries.json":
            return None
        summaries = json.loads(content)
        (summary,) = [summary for summary in summaries if summary["id"] == "i4"]
        summary["scores"]["refaug_score"]["value"] = 0.9
        return json.dumps(summaries).encode()

    rewritten(source, target, change_results)
    assert [part.part for part in parts_of(target).parts if part.state is PartState.DIFFERS] == ["corpus scores"]
    rewritten(source, target, change_summary)
    (found,) = [part for part in parts_of(target).parts if part.state is PartState.DIFFERS]
    assert found.part == "samples"
    assert found.message.startswith("sample i4/1: its summary has the score 0.9, ")


def test_a_log_of_another_version_is_named_and_verified_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    source = Path(run(tmp_path, NEW).location)
    target = tmp_path / "other.eval"

    def other_version(member: str, content: bytes) -> bytes | None:
        if member == "header.json":
            return json.dumps({**json.loads(content), "version": 3}).encode()
        if member == "samples/i2_epoch_1.json":
            sample = json.loads(content)
            sample["results"] = sample.pop("scores")
            return json.dumps(sample).encode()
        return None

    rewritten(source, target, other_version)
    found = parts_of(target)
    log = found.parts[0]
    assert log.part == "log"
    assert log.state is PartState.DIFFERS
    assert (
        "samples/i2_epoch_1.json: scores is None, a dict was expected: this is a log of another version" in log.message
    )
    assert "other.eval: version is 3, 2 was expected" in log.message
    assert [part.state for part in found.parts if part.part == "reply scores"] == [PartState.HOLDS]
