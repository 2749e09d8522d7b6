"""Scores in a program are those of the command, to the last bit; results say what they are."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refaug_client import Scores as ClientScores
from refusals import refusing

import refaug
from refaug.cli.main import main

ITEMS = [
    {
        "id": f"d{place}",
        "utterance": "which boats",
        "references": ["the red boats", {"text": "the blue boats", "weight": 0.25 * place}],
        "replies": {"a": "the red boats fly" if place % 2 else "boats", "b": "the blue boats"},
    }
    for place in range(4)
]


def by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, ITEMS)))
    assert main(["--quiet", "score", str(path), "--json", *options]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_scores_are_those_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = ["bleu", "delta-bleu:n=3,smooth=exp", "upsilon-chrf", "rouge-l"]
    options = [part for metric in metrics for part in ("-m", metric)]
    printed = by_command(tmp_path, capsys, *options, "--draws", "50", "--baseline", "a")
    scores = refaug.score(ITEMS, metrics=metrics, draws=50, baseline="a")
    assert len(scores) == len(printed["scores"]) == 4
    for metric, of_command in zip(scores, printed["scores"], strict=True):
        assert (metric.metric, metric.signature) == (of_command["metric"], of_command["signature"])
        assert metric.signature_full == of_command["signature_full"]
        for name, system in metric.systems.items():
            figures = of_command["systems"][name]
            assert system.corpus == figures["corpus"]
            assert system.mean == figures["mean"]
            assert list(system.interval or ()) == figures["interval"]
            assert system.replies == [reply["score"] for reply in figures["replies"]]
        comparison, printed_comparison = metric.comparisons["b"], of_command["comparisons"]["b"]
        assert comparison.difference == printed_comparison["difference"]
        assert comparison.p_bootstrap == printed_comparison["p_bootstrap"]
    assert (scores.data, scores.items) == (printed["data"], printed["items"])


def test_line_aligned_files_and_lists_name_the_same_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, lines in {"a": ["yes", "no"], "g": ["yes", "yes"], "h": ["no", ""]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = [f"--replies=a={tmp_path / 'a'}", f"--references={tmp_path / 'g'}", f"--references={tmp_path / 'h'}"]
    assert main(["--quiet", "score", *files, "--json", "-m", "multi-bleu", "--draws", "0"]) == 0
    printed = json.loads(capsys.readouterr().out)
    scores = refaug.score(predictions={"a": ["yes", "no"]}, references=[["yes", "no"], ["yes"]], metric="multi-bleu")
    assert (scores.data, scores.corpus) == (printed["data"], printed["scores"][0]["systems"]["a"]["corpus"])
    assert scores.metric.references == printed["scores"][0]["references"]


def test_results_have_the_names_of_the_client() -> None:
    scores = refaug.score(ITEMS, metrics=["bleu", "delta-bleu"], draws=20, baseline="a")
    of_client = ClientScores.of({**scores.to_dict(), "request_id": "r"})
    assert of_client.more == {}
    for metric, same in zip(scores, of_client, strict=True):
        for name in ("metric", "signature", "signature_full", "corpus_from", "higher_is_better", "scale", "references"):
            assert getattr(metric, name) == getattr(same, name), name
        for system, figures in metric.systems.items():
            of_system = same[system]
            for name in ("corpus", "mean", "scored", "unscored", "unscored_by_reason", "interval_note", "replies"):
                assert getattr(figures, name) == getattr(of_system, name), name
            assert list(figures.interval or ()) == of_system.interval
            assert [reply.id for reply in figures.details] == [reply.id for reply in of_system.details or ()]
        assert metric.comparisons["b"].difference == (same.comparisons or {})["b"].difference
    assert list(scores.warnings) == of_client.warnings
    assert scores["bleu"]["b"].replies == of_client["bleu"]["b"].replies
    assert list(scores.to_frame().columns) == list(of_client.to_frame().columns)
    assert scores.to_frame(corpus=True).equals(of_client.to_frame(corpus=True))


def test_scores_are_columns_of_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = SimpleNamespace(Dataset=SimpleNamespace(from_dict=dict))  # what it is asked for
    monkeypatch.setitem(sys.modules, "datasets", datasets)  # type: ignore[arg-type]
    scores = refaug.score(predictions=["Yes.", None], references=[["Yes."], ["No."]], metric="bleu")
    columns = scores.to_frame("datasets")
    assert (columns["item"], columns["score"]) == (["1", "2"], [1.0, None])


def test_a_score_file_of_the_library_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, ITEMS)))
    (tmp_path / "scores.json").write_text(json.dumps(refaug.score(ITEMS, metric="delta-bleu").to_dict()))
    assert main(["--quiet", "score", "verify", str(tmp_path / "scores.json"), str(tmp_path / "items.jsonl")]) == 0
    assert "holds" in capsys.readouterr().out


def test_the_mean_refuses_to_be_one_of_fewer_replies() -> None:
    scores = refaug.score(predictions=["yes", None, "no", "yes"], references=[["yes"]] * 4, metric="bleu")
    with refusing(refaug.BadInput, "no_reply") as caught:
        scores.mean()
    assert all(fact in caught.value.remedy for fact in ("min_coverage", "0.75"))
    assert scores.mean(min_coverage=0.75) == scores["bleu"]["model"].mean == pytest.approx(2 / 3)
    with refusing(refaug.Usage, "min_coverage"):
        scores.mean(min_coverage=75)
    with refusing(refaug.BadInput):
        scores.floats()
    assert scores.floats(missing=0.0) == [1.0, 0.0, 0.0, 1.0]


def test_results_are_frozen_travel_and_show_themselves() -> None:
    scores = refaug.score(ITEMS, metric="delta-bleu")
    with pytest.raises(FrozenInstanceError):
        scores.items = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(scores)) == scores
    assert repr(scores).splitlines()[0] == "Scores(4 items)"
    assert len(repr(scores)) < 200
    page = refaug.score(predictions={"<b>": ["yes"]}, references=[["yes"]], metric="bleu")._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.startswith("<table><caption>Scores of 1 items</caption>")
    with pytest.raises(KeyError, match="there are: delta-bleu"):
        scores["bleu"]
    with refusing(refaug.Usage):
        _ = scores.corpus


def test_percent_and_explanations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = by_command(tmp_path, capsys, "-m", "delta-bleu", "--percent", "--explain", "--draws", "0")
    scores = refaug.score(ITEMS, metric="delta-bleu", percent=True, explain=True)
    first = printed["scores"][0]["systems"]["b"]["replies"][0]
    reply = scores.metric["b"].details[0]
    assert (reply.score, scores.metric.scale) == (first["score"], 100)
    assert json.loads(json.dumps(reply.credited)) == first["credited"]
    assert json.loads(json.dumps(reply.without_reference)) == first["without_reference"]
    assert (reply.words, reply.matched) == (first["words"], None)


def test_two_settings_of_one_metric_are_found_as_they_were_named() -> None:
    scores = refaug.score(ITEMS, metrics=["bleu:n=1", "bleu:n=2"])
    assert scores["bleu:n=1"]["b"].corpus != scores["bleu:n=2"]["b"].corpus
    with pytest.raises(KeyError, match="there are: bleu:n=1, bleu:n=2"):
        scores["bleu"]


def test_a_metric_is_named_once() -> None:
    metric = refaug.Metric("bleu:n=1", language="en")
    computed = metric.compute(predictions=["yes no"], references=[["yes yes"]])
    assert computed == refaug.score(predictions=["yes no"], references=[["yes yes"]], metric="bleu:n=1", language="en")
    assert metric.compute(ITEMS, draws=5).resampling["draws"] == 5
    assert repr(pickle.loads(pickle.dumps(metric))) == "Metric('bleu:n=1', language='en')"
    with refusing(refaug.Usage, "blue"):
        refaug.Metric("blue")
    with refusing(refaug.Usage):
        refaug.Metric("bleu", metrics=["chrf"])
