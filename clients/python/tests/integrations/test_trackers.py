"""Scores in the real W&B (offline), MLflow (files) and TensorBoard: numbers, configuration, tables, and refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from beside import Served
from refusals import refusing
from scripted import problem, scripted
from test_rewards import answering

from refaug_client import Client, Scores, Usage
from refaug_client.integrations.distributed import ScoreOfAll

os.environ.update({"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true"})

import mlflow
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from refaug_client.integrations import mlflow as mlflow_module
from refaug_client.integrations import tensorboard as tensorboard_module
from refaug_client.integrations import wandb as wandb_module
from refaug_client.integrations.tracked_scores import TrackedScores


@pytest.fixture(scope="module")
def replies(served: Served) -> list[str]:
    return [item["replies"][sorted(item["replies"])[0]] for item in served.items]


def one_system(served: Served, replies: list[str]) -> list[dict[str, Any]]:
    return [{**item, "replies": {"model": reply}} for item, reply in zip(served.items, replies, strict=True)]


@pytest.fixture
def scores(served: Served, client: Client, replies: list[str]) -> Scores:
    """Of one system by two metrics."""
    return client.score(one_system(served, replies), metrics=["bleu", "chrf"])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    with wandb.init(project="replies", dir=tmp_path, settings=wandb.Settings(silent=True)) as opened:
        yield opened


@pytest.fixture
def tracking(tmp_path: Path) -> Iterator[mlflow.MlflowClient]:
    mlflow.set_tracking_uri(f"file:{tmp_path}/mlruns")
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(None)


def numbers_of(scores: Scores, name: str = "refaug") -> dict[str, float]:
    return {
        f"{name}/{metric}{ending}": number
        for metric in ("bleu", "chrf")
        for ending, number in (
            ("", scores[metric].corpus),
            ("_mean", scores[metric].system.mean),
            ("_unscored", float(scores[metric].system.unscored)),
        )
    }


# ── what is logged ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_has_the_lowest_and_the_highest_replies(scores: Scores, replies: list[str]) -> None:
    everything = TrackedScores.of(scores, name="refaug", replies=replies, examples=100)
    assert everything.columns == ["item", "reply", "bleu", "chrf", "problem"]
    rows = [
        [detail.id, reply, detail.score, chrf.score, None]
        for detail, chrf, reply in zip(
            scores["bleu"].system.details, scores["chrf"].system.details, replies, strict=True
        )
    ]
    assert everything.rows == sorted(rows, key=lambda row: row[2])
    some = TrackedScores.of(scores, name="refaug", replies=replies, examples=5)
    assert some.rows == everything.rows[:3] + everything.rows[-2:]
    assert TrackedScores.of(scores, name="refaug", examples=0).rows == []
    assert everything.numbers == numbers_of(scores)


def test_several_systems_have_names_of_their_own(served: Served, client: Client) -> None:
    scores = client.score(served.items, metric="bleu")
    first, second = scores.metric.systems
    tracked = TrackedScores.of(scores, name="test", examples=100)
    assert tracked.numbers[f"test/{first}/bleu"] == scores["bleu"][first].corpus
    assert tracked.columns == ["system", "item", "bleu", "problem"]
    assert {row[0] for row in tracked.rows} == {first, second}
    with refusing(Usage, "2 systems"):
        TrackedScores.of(scores, name="test", replies=["a"])


def test_a_scorer_scores_what_is_logged(served: Served, client: Client, replies: list[str]) -> None:
    ids, set_id = [item["id"] for item in served.items], served.sets["validation"]
    with client.scorer(reference_set=set_id, metric="upsilon-bleu") as scorer:
        tracked = TrackedScores.of(scorer, name="refaug", replies=replies, items=ids)
        assert tracked.numbers["refaug/upsilon-bleu"] == scorer.corpus(replies, items=ids)
        assert tracked.settings == {
            "refaug/upsilon-bleu/signature": scorer.signature,
            "refaug/upsilon-bleu/references": set_id,
        }
        with refusing(Usage, "replies"):
            TrackedScores.of(scorer, name="refaug")


def test_a_silent_server_is_not_asked_again_for_the_signature() -> None:
    with scripted(lambda _: problem(503, retry_after=0)) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set="s1", metric="bleu", on_unavailable="skip")
        tracked = TrackedScores.of(scorer, name="test", replies=["we"], items=["a"])
        assert tracked == TrackedScores({"test/bleu_unscored": 1.0}, {"test/bleu/references": "s1"}, ANY, [])
        assert len(server.requests) == 1


def test_values_repeated_for_a_silent_server_are_counted_as_unscored() -> None:
    goes = answering("validation", fails=lambda number: None if number < 3 else problem(503, retry_after=0))
    with scripted(goes) as server, Client(server.url, retry=0) as client:
        scorer = client.scorer(reference_set="s1", metric="bleu", on_unavailable="last", cache=None)
        counts = [
            TrackedScores.of(scorer, name="test", replies=[reply], items=["a"]).numbers["test/bleu_unscored"]
            for reply in ("we", "you")
        ]
        assert counts == [0.0, 1.0]


def test_a_callbacks_last_score_has_numbers_and_no_table() -> None:
    last = ScoreOfAll("upsilon-bleu", None, None, 0, 1, 2, 0, "upsilon-bleu|n:2")
    tracked = TrackedScores.of(last, name="refaug")
    assert tracked.numbers == {"refaug/upsilon-bleu_unscored": 3.0}
    assert tracked.settings == {"refaug/upsilon-bleu/signature": "upsilon-bleu|n:2"}


def test_results_of_the_python_library_are_read_by_their_attributes() -> None:
    """`refaug.score` gives records with the same names; refaug is not installed here."""
    detail = SimpleNamespace(id="a", score=0.5, problem=None)
    system = SimpleNamespace(corpus=0.4, mean=0.5, unscored=0, details=(detail,))
    metric = SimpleNamespace(metric="bleu", signature="bleu|n:4", references=None, systems={"model": system})
    tracked = TrackedScores.of([metric], name="refaug", replies=["yes"])
    assert tracked.numbers == {"refaug/bleu": 0.4, "refaug/bleu_mean": 0.5, "refaug/bleu_unscored": 0.0}
    assert tracked.rows == [["a", "yes", 0.5, None]]


@pytest.mark.parametrize(
    ("thing", "more", "named"),
    [
        (0.5, {}, "float"),
        ([], {}, "scores"),
        (ScoreOfAll("bleu", 0.5, 0.5, 1, 0, 0, 0, "bleu"), {"items": ["a"]}, "items="),
        (ScoreOfAll("bleu", 0.5, 0.5, 1, 0, 0, 0, "bleu"), {"examples": -1}, "examples=-1"),
    ],
)
def test_what_cannot_be_logged_is_refused(thing: Any, more: dict[str, Any], named: str) -> None:
    with refusing(Usage, named):
        TrackedScores.of(thing, name="refaug", **more)


def test_replies_of_another_number_are_refused(scores: Scores) -> None:
    with refusing(Usage, "12 replies of model", 1):
        TrackedScores.of(scores, name="refaug", replies=["yes"])


# ── W&B ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wandb_has_numbers_configuration_and_a_table(run: Any, scores: Scores, replies: list[str]) -> None:
    for step in (3, 4):
        tracked = wandb_module.log_scores(run, scores, replies=replies, step=step)
    run.log({}, step=5)  # the summary has the steps before the last one
    assert {name: run.summary[name] for name in numbers_of(scores)} == numbers_of(scores)
    assert run.config["refaug/bleu/signature"] == scores["bleu"].signature
    tables = [json.loads(path.read_text("utf-8")) for path in Path(run.dir).glob("media/table/refaug/*.table.json")]
    assert [(table["columns"], table["data"]) for table in tables] == [(tracked.columns, tracked.rows)] * 2


def test_wandb_has_one_signature_a_run(
    run: Any, scores: Scores, served: Served, client: Client, replies: list[str]
) -> None:
    wandb_module.log_scores(run, scores)
    wandb_module.log_scores(run, scores)
    others = client.score(one_system(served, replies), metric="bleu:n=4")
    with refusing(Usage, "refaug/bleu/signature"):
        wandb_module.log_scores(run, others)
    wandb_module.log_scores(run, others, name="bigrams")
    assert run.config["bigrams/bleu/signature"] == others.signature


# ── MLflow ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_mlflow_has_numbers_parameters_and_a_table(
    tracking: mlflow.MlflowClient, scores: Scores, replies: list[str]
) -> None:
    with mlflow.start_run() as run:
        for step in (1, 2):
            tracked = mlflow_module.log_scores(scores, replies=replies, step=step)
    logged = tracking.get_run(run.info.run_id).data
    assert logged.metrics == pytest.approx(numbers_of(scores))
    assert logged.params == tracked.settings
    assert [point.step for point in tracking.get_metric_history(run.info.run_id, "refaug/bleu")] == [1, 2]
    table = mlflow.load_table("refaug/examples.json", run_ids=[run.info.run_id])
    assert list(table["step"]) == [1] * len(tracked.rows) + [2] * len(tracked.rows)
    assert list(table["reply"]) == [row[1] for row in tracked.rows] * 2


def test_mlflow_has_one_signature_a_run(
    tracking: mlflow.MlflowClient, scores: Scores, served: Served, client: Client, replies: list[str]
) -> None:
    with refusing(Usage, "MLflow"):
        mlflow_module.log_scores(scores)
    with mlflow.start_run() as run:
        mlflow_module.log_scores(scores)
    with refusing(Usage, "refaug/bleu/signature"):
        mlflow_module.log_scores(client.score(one_system(served, replies), metric="bleu:n=4"), run_id=run.info.run_id)


def test_mlflow_has_metrics_whose_names_it_does_not_take(
    tracking: mlflow.MlflowClient, served: Served, client: Client, replies: list[str]
) -> None:
    scores = client.score(one_system(served, replies)[:2], metric="chrf++")
    with mlflow.start_run() as run:
        mlflow_module.log_scores(scores)
        with client.scorer(reference_set=served.sets["validation"], metric="bleu:n=2") as scorer:
            mlflow_module.log_scores(scorer, replies=replies[:1], items=[served.items[0]["id"]])
    logged = tracking.get_run(run.info.run_id).data
    assert logged.metrics["refaug/chrfpp"] == pytest.approx(scores.corpus)
    assert "refaug/bleu:n-2_mean" in logged.metrics
    assert logged.params["refaug/chrfpp/signature"] == scores.signature
    with refusing(Usage, "refaug/chrfpp/signature"):
        mlflow_module.log_scores(
            client.score(one_system(served, replies), metric="chrf++:beta=1"), run_id=run.info.run_id
        )


# ── TensorBoard ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_tensorboard_has_scalars_texts_and_a_table(tmp_path: Path, scores: Scores, replies: list[str]) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2):
            tensorboard_module.log_scores(writer, scores, replies=["<b>a|b</b>", *replies[1:]], step=step)
    events = EventAccumulator(str(tmp_path)).Reload()
    for name, number in numbers_of(scores).items():
        assert [(event.step, event.value) for event in events.Scalars(name)] == [
            (1, pytest.approx(number)),
            (2, pytest.approx(number)),
        ]
    (text,) = events.Tensors("refaug/bleu/signature/text_summary")
    assert text.tensor_proto.string_val[0].decode() == f"`{scores['bleu'].signature}`"
    tables = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("refaug/examples/text_summary")]
    assert len(tables) == 2
    assert tables[0].splitlines()[:2] == ["| item | reply | bleu | chrf | problem |", "| --- | --- | --- | --- | --- |"]
    assert "&lt;b>a\\|b&lt;/b>" in tables[0]


def test_tensorboard_has_one_signature_a_writer(
    tmp_path: Path, scores: Scores, served: Served, client: Client, replies: list[str]
) -> None:
    others = client.score(one_system(served, replies), metric="bleu:n=4")
    with SummaryWriter(str(tmp_path / "a")) as writer:
        tensorboard_module.log_scores(writer, scores)
        with refusing(Usage, "refaug/bleu/signature"):
            tensorboard_module.log_scores(writer, others)
    with SummaryWriter(str(tmp_path / "b")) as writer:
        tensorboard_module.log_scores(writer, others)
