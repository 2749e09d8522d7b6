"""Every example runs as its first lines say, and does what it is there for."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from known_items import ITEMS
from pages import ROOT
from servers import Served

from refaug_client import Client

EXAMPLES = ROOT / "clients" / "python" / "examples"
HERE = Path(__file__)


def ran(name: str, *arguments: str, url: str = "", exits: int = 0, cwd: Path) -> tuple[str, str]:
    """What an example has said on stdout and stderr."""
    environment = {**os.environ, **({"REFAUG_URL": url} if url else {}), "PYTHONWARNINGS": "error"}
    environment.setdefault("NUMBA_CACHE_DIR", "")  # what was compiled beside the code, not anew for a home
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=environment,
    )
    assert done.returncode == exits, done.stdout + done.stderr
    return done.stdout, done.stderr


def lines(path: Path, rows: list[dict[str, Any]]) -> str:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def test_every_example_is_run_by_a_test() -> None:
    tests = HERE.read_text("utf-8")
    tests += "".join(path.read_text("utf-8") for path in sorted((HERE.parent / "integrations").rglob("*.py")))
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert len(names) >= 9
    assert [name for name in names if f'"{name}' not in tests] == []


def test_every_example_says_how_it_is_called() -> None:
    for path in sorted(EXAMPLES.glob("*.py")):
        doc = path.read_text("utf-8").split('"""')[1]
        assert re.search(rf"^ *(?:\w+=\S+ )*(?:python|torchrun|accelerate launch).* {path.name}", doc, re.MULTILINE), (
            path
        )


def test_first_score(url: str, tmp_path: Path) -> None:
    score, signature = ran("first_score", url=url, cwd=tmp_path)[0].split(" ", 1)
    assert -1.0 <= float(score) <= 1.0
    assert signature.startswith("upsilon-bleu|n:2|")
    assert "index:chat@" in signature


def test_score_file(url: str, tmp_path: Path) -> None:
    out, _ = ran("score_file", lines(tmp_path / "items.jsonl", ITEMS), "multi-bleu", "chrf", url=url, cwd=tmp_path)
    assert [line.split("|")[0] for line in out.splitlines() if "|" in line] == ["multi-bleu", "chrf"]
    with Client(url) as refaug:
        scores = refaug.score(ITEMS, metrics=["multi-bleu", "chrf"])
    corpora = re.findall(r"^  ([ab]) +(\S+) \[", out, re.MULTILINE)
    assert corpora == [(name, f"{of.corpus:.4f}") for one in scores for name, of in one.systems.items()]
    assert len(re.findall(r"^  b .*, p = \d\.\d{3}$", out, re.MULTILINE)) == 2


def test_weigh_references(url: str, tmp_path: Path) -> None:
    items = [{**item, "id": f"{item['id']}-{copy}"} for copy in range(30) for item in ITEMS]  # several batches
    out, _ = ran("weigh_references", lines(tmp_path / "items.jsonl", items), url=url, cwd=tmp_path)
    found = [json.loads(line) for line in out.splitlines()]
    assert [item["id"] for item in found] == [item["id"] for item in items]
    assert [item["replies"] for item in found] == [item["replies"] for item in items]
    assert any(reference["source"] == "retrieved" for item in found for reference in item["references"])
    with Client(url) as refaug:
        weighed = refaug.references(items[:3])
    assert [item["references"] for item in found[:3]] == [
        [reference.to_dict() for reference in item.references] for item in weighed
    ]


def test_validation_curve(url: str, sets: dict[str, str], tmp_path: Path) -> None:
    out, err = ran("validation_curve", sets["validation"], "curve.csv", url=url, cwd=tmp_path)
    with (tmp_path / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["scored"]) for row in rows] == [("5", "3"), ("10", "3"), ("15", "3"), ("20", "3")]
    replies = ["we like red boats", "how do apples fly", "the green boats are blue"]
    with Client(url) as refaug:
        scores = refaug.sets.score(sets["validation"], replies, items=["d0", "d1", "d2"], metric="delta-bleu").floats()
    assert float(rows[-1]["mean"]) == sum(scores) / 3
    assert out.startswith("delta-bleu|")
    assert err == ""


def test_best_checkpoint(url: str, sets: dict[str, str], tmp_path: Path) -> None:
    said = {"early": "no no", "late": "we like red boats"}
    paths = [
        lines(tmp_path / f"{name}.jsonl", [{"id": item["id"], "reply": text} for item in ITEMS])
        for name, text in said.items()
    ]
    out, _ = ran("best_checkpoint", sets["validation"], *paths, url=url, cwd=tmp_path)
    early, late, best = out.splitlines()
    assert early.split()[0] == "early"
    assert late.split()[0] == "late"
    assert float(early.split()[1]) < float(late.split()[1])
    assert best == "best: late"


def test_worker_processes(url: str, sets: dict[str, str], tmp_path: Path) -> None:
    out, _ = ran("worker_processes", sets["validation"], url=url, cwd=tmp_path)
    rows = [line.split(" ", 1) for line in out.splitlines()]
    replies = [reply for _, reply in rows]
    assert replies == ["we like red boats", "apples are blue", "we like green apples", "no"]
    with Client(url) as refaug:
        scores = refaug.sets.score(sets["validation"], replies, items=["d0"] * 4, metric="delta-bleu").floats()
    assert [score for score, _ in rows] == [f"{score:.4f}" for score in scores]


def test_fail_when_it_drops(url: str, sets: dict[str, str], tmp_path: Path) -> None:
    good = lines(tmp_path / "good.jsonl", [{"id": item["id"], "reply": "we like red boats"} for item in ITEMS])
    bad = lines(tmp_path / "bad.jsonl", [{"id": item["id"], "reply": "no no"} for item in ITEMS])
    some = lines(tmp_path / "some.jsonl", [{"id": item["id"], "reply": "we like red boats"} for item in ITEMS[1:]])
    ran("fail_when_it_drops", sets["test"], good, good, url=url, cwd=tmp_path)
    ran("fail_when_it_drops", sets["test"], bad, good, url=url, cwd=tmp_path)
    out, _ = ran("fail_when_it_drops", sets["test"], good, bad, url=url, exits=1, cwd=tmp_path)
    assert out.startswith("-0.")
    assert out.endswith("the new replies are worse\n")
    out, _ = ran("fail_when_it_drops", sets["test"], good, some, url=url, exits=1, cwd=tmp_path)
    assert out.startswith("not every item")


@pytest.mark.slow
def test_grow_the_log(url: str, tmp_path: Path) -> None:
    dialogues = [{"id": f"new-{n}", "turns": ["how do red boats fly", f"apples fly like {n} boats"]} for n in range(3)]
    path = lines(tmp_path / "dialogues.jsonl", dialogues)
    with Client(url) as refaug:
        before = refaug.logs.get("chat").pairs
        out, err = ran("grow_the_log", "chat", path, url=url, cwd=tmp_path)
        assert refaug.logs.get("chat").pairs == before + 3
        current = refaug.artefacts.get("index", "chat").current
        assert out.splitlines() == ["3 dialogues are kept for chat", f"{before + 3} pairs; published: {current}"]
        assert err  # how far the jobs were
        refaug.artefacts.rollback("index", "chat")


def home_beside(server: Served, folder: Path) -> Path:
    """A home that no server has yet, with what the server of the tests has published."""
    for name in ("indexes", "raters", "vectors", "logs"):
        if (server.home / name).exists():
            shutil.copytree(server.home / name, folder / name)
    return folder


@pytest.mark.slow
def test_the_demo_shows_the_table_of_the_command(server: Served, tmp_path: Path) -> None:
    home = home_beside(server, tmp_path / "home")
    asked = [lines(tmp_path / "items.jsonl", ITEMS), "--metric", "upsilon-bleu", "--metric", "bleu", "--percent"]
    asked += ["--index", "chat", "--rater", "base", "--baseline", "b", "--draws", "200"]
    environment = {**os.environ, "REFAUG_HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment.setdefault("NUMBA_CACHE_DIR", "")

    def said(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], check=False, capture_output=True, text=True, timeout=300, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    table = tmp_path / "scores.txt"
    table.write_text(said("-m", "refaug", "--quiet", "score", *asked), "utf-8")
    shown = said(str(ROOT / "examples" / "demo_service.py"), str(table), "--once", "--", *asked)
    assert table.read_text("utf-8").count("against b") == 2
    assert table.read_text("utf-8") in shown
    assert shown.endswith("that is the table of the command\n")


@pytest.mark.slow
def test_own_server(server: Served, tmp_path: Path) -> None:
    home_beside(server, tmp_path / "home")
    out, _ = ran("own_server", "home", cwd=tmp_path)
    version, score = out.splitlines()
    assert version.endswith("['chat']")
    assert float(score) == pytest.approx(0.5, abs=0.5)
