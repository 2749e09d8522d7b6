"""`judge-fit` as a metric: scores, signature, rows that it was fitted to, verification, citation, HTTP and Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from extras.judges.integration.test_judge_fit_command import METRICS, rated_items
from integration.conftest import Home
from serving import client_of

import refaug
from refaug.core.home import Settings
from refaug.extras.judges.combined import open_judge

pytestmark = pytest.mark.slow


@pytest.fixture
def fitted(home: Home, tmp_path: Path) -> tuple[Home, Path]:
    """A home with a judge, and the items that it was fitted to."""
    items = rated_items(tmp_path / "set1.jsonl", 1)
    assert home("train", "judge-fit", items, "--name", "mine", *METRICS, "--length", "held", "--json").code == 0
    return home, items


def _replies(scored: Any, system: str = "a") -> list[float | None]:
    return [row["score"] for row in scored["scores"][-1]["systems"][system]["replies"]]


def test_scores_are_those_of_the_command_and_of_the_parts(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    items = rated_items(tmp_path / "new.jsonl", 3)
    scored = home("score", items, *METRICS, "--metric", "judge-fit:mine", "--json").json
    by_command = home("judge", "score", "judge-fit", "mine", items, "--json").json["replies"]
    np.testing.assert_allclose(_replies(scored), [row["score"] for row in by_command if row["system"] == "a"])
    values = np.array([[row["score"] for row in part["systems"]["a"]["replies"]] for part in scored["scores"][:2]]).T
    replies = [orjson.loads(line)["replies"]["a"] for line in items.read_bytes().splitlines()]
    judge = open_judge(Settings(home=home.path), "mine").judge
    lengths = np.array([len(reply.split()) for reply in replies], dtype=np.float64)
    np.testing.assert_allclose(_replies(scored), judge.score(values, lengths), atol=1e-9)
    low, high = judge.limits
    assert all(low <= score <= high for score in _replies(scored) if score is not None)


def test_the_signature_names_version_and_content_and_reads_back(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    items = rated_items(tmp_path / "new.jsonl", 3)
    scored = home("score", items, "--metric", "judge-fit:model=mine", "--json").json
    signature = scored["scores"][0]["signature"]
    spec = open_judge(Settings(home=home.path), "mine").spec
    assert signature.startswith(f"judge-fit|model:{spec}|seen:drop|of:bleu+chrf|")
    again = home("score", items, "--metric", f"judge-fit:{spec}", "--json").json
    assert _replies(again) == _replies(scored)
    other = spec[:-1] + ("0" if spec[-1] != "0" else "1")
    assert home("score", items, "--metric", f"judge-fit:{other}", "--json").error["code"] == "conflict"


def test_rows_that_it_was_fitted_to_have_no_score_and_are_counted(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, items = fitted
    new = rated_items(tmp_path / "n.jsonl", 4, 3)
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_bytes(b"\n".join([*items.read_bytes().splitlines()[:5], *new.read_bytes().splitlines()]))
    scored = home("score", mixed, "--metric", "judge-fit:mine", "--json").json
    assert scored["scores"][0]["systems"]["a"]["unscored"] == 5
    assert [score is None for score in _replies(scored)] == [True] * 5 + [False] * 3
    refused = home("score", items, "--metric", "judge-fit:mine", "--json")
    assert refused.error["code"] == "trained_on"
    kept = home("score", items, "--metric", "judge-fit:mine,seen=keep", "--json").json
    assert "|seen:keep|" in kept["scores"][0]["signature"]
    assert None not in _replies(kept)
    assert any("seen=keep" in warning for warning in kept["warnings"])
    assert home("agreement", items, "--metric", "judge-fit:mine", "--json").error["code"] == "trained_on"


def test_meta_measures_it_on_other_items(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    items = rated_items(tmp_path / "new.jsonl", 3)
    measured = home("agreement", items, *METRICS, "--metric", "judge-fit:mine", "--draws", "50", "--json").json
    text = orjson.dumps(measured).decode()
    assert "judge-fit|model:mine@" in text


def test_items_that_lack_what_a_part_needs_have_its_problem(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    lines = [orjson.loads(line) for line in rated_items(tmp_path / "new.jsonl", 3, 4).read_bytes().splitlines()]
    lines[1]["references"] = []
    (tmp_path / "lacking.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    scored = home("score", tmp_path / "lacking.jsonl", "--metric", "judge-fit:mine", "--json").json
    assert scored["scores"][0]["systems"]["a"]["unscored"] == 1


def test_a_score_file_is_verified_and_cited(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    items = rated_items(tmp_path / "new.jsonl", 3)
    scored = home("score", items, "--metric", "judge-fit:mine", "--json")
    (tmp_path / "scores.json").write_text(scored.out)
    verified = home("score", "verify", tmp_path / "scores.json", items, "--json")
    parts = {part["part"]: part["state"] for part in verified.json["parts"]}
    assert parts["judge-fit"] == "holds"
    assert verified.code == 0
    assert set(parts.values()) <= {"holds", "unchecked"}
    cited = home("score", "cite", tmp_path / "scores.json", "--json").json
    assert "judge-fit" in orjson.dumps(cited).decode()
    judge = next((home.path / "fitted-judges" / "mine").glob("*/judge.json"))
    judge.write_bytes(judge.read_bytes().replace(b"0", b"1", 1))
    damaged = home("score", "verify", tmp_path / "scores.json", items, "--json").json
    assert {part["part"]: part["state"] for part in damaged["parts"]}["judge-fit"] == "differs"


def test_judges_that_cannot_score_are_refused(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, items = fitted
    assert home("score", items, "--metric", "judge-fit", "--json").error["code"] == "usage"
    assert home("score", items, "--metric", "judge-fit:absent", "--json").error["code"] == "not_found"
    nested = home("train", "judge-fit", items, "--name", "outer", "--metric", "judge-fit:mine", "--json")
    assert nested.error["code"] == "usage"


def test_python_scores_with_it(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = fitted
    items = [orjson.loads(line) for line in rated_items(tmp_path / "new.jsonl", 3).read_bytes().splitlines()]
    scores = refaug.score(items=items, metric="judge-fit:mine", home=home.path)
    by_command = home("score", tmp_path / "new.jsonl", "--metric", "judge-fit:mine", "--json").json
    assert scores["judge-fit:mine"]["a"].replies == _replies(by_command)


def test_http_scores_with_it_and_verifies(fitted: tuple[Home, Path], tmp_path: Path) -> None:
    home, trained_on = fitted
    items = [orjson.loads(line) for line in rated_items(tmp_path / "new.jsonl", 3, 6).read_bytes().splitlines()]
    expected = home("score", tmp_path / "new.jsonl", *METRICS, "--metric", "judge-fit:mine", "--json").json
    for test_item in items:
        del test_item["ratings"]
    with client_of(Settings(home=home.path)) as web:
        answer = web.post("/v1/scores", json={"items": items, "metrics": ["judge-fit:mine"]})
        assert answer.status_code == 200, answer.text
        assert _replies(answer.json()) == _replies(expected)
        verified = web.post("/v1/verifications", json={"items": items, "scores": answer.json()})
        assert verified.status_code == 200, verified.text
        assert {part["part"]: part["state"] for part in verified.json()["parts"]}["judge-fit"] == "holds"
        seen = [orjson.loads(line) for line in trained_on.read_bytes().splitlines()][:2]
        for test_item in seen:
            del test_item["ratings"]
        mixed = web.post("/v1/scores", json={"items": [*seen, *items], "metrics": ["judge-fit:mine"]}).json()
        assert mixed["scores"][0]["systems"]["a"]["unscored_by_reason"] == {"trained_on": 2}
        absent = web.post("/v1/scores", json={"items": items, "metrics": ["judge-fit:absent"]})
        assert (absent.status_code, absent.json()["code"]) == (404, "not_found")
