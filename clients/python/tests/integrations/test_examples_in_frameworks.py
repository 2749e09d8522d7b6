"""Every example that needs a framework runs as its first lines say, against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from beside import ROOT, Served

EXAMPLES = ROOT / "clients" / "python" / "examples"


def ran(served: Served, folder: Path, *command: str) -> str:
    """What an example printed."""
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "REFAUG_URL": served.url, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in folder.iterdir()] == []
    return done.stdout


def test_reward_in_trl(served: Served, tmp_path: Path) -> None:
    said = ran(served, tmp_path, str(EXAMPLES / "reward_in_trl.py"))
    assert re.findall(r"^step (\d): mean reward 0\.\d+, 0 masked$", said, re.MULTILINE) == ["1", "2", "3", "4"]
    assert "RewardCounts(asked=32, scored=32, copied=0, unscored=0, masked=0, failed=0)" in said
    assert re.search(r"^delta-bleu\|n:2\|", said, re.MULTILINE)


def test_score_in_trainer(served: Served, tmp_path: Path) -> None:
    said = ran(served, tmp_path, str(EXAMPLES / "score_in_trainer.py"))
    found = [float(score) for score in re.findall(r"^step (?:10|20|30|40): ([\d.]+)$", said, re.MULTILINE)]
    assert len(found) == 4
    assert found[-1] == 1.0  # it has learned both replies by heart
    assert "best: 1.0000" in said


def test_score_in_lightning(served: Served, tmp_path: Path) -> None:
    said = ran(served, tmp_path, str(EXAMPLES / "score_in_lightning.py"))
    assert re.search(r"^\d epochs, best 1\.0000, last [\d.]+$", said, re.MULTILINE)
    assert re.search(r"^delta-bleu\|n:2\|", said, re.MULTILINE)


def test_score_over_ranks(served: Served, tmp_path: Path) -> None:
    script = str(EXAMPLES / "score_over_ranks.py")
    alone = ran(served, tmp_path, script)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    both = ran(served, tmp_path, *torchrun, script)
    (score,) = re.findall(r"^rank 0 of 1: (0\.\d+), 0 repeated$", alone, re.MULTILINE)
    assert sorted(re.findall(r"rank (\d) of 2: (\S+), 1 repeated$", both, re.MULTILINE)) == [("0", score), ("1", score)]


def test_reward_in_pytorch(served: Served, tmp_path: Path) -> None:
    said = ran(served, tmp_path, str(EXAMPLES / "reward_in_pytorch.py"))
    assert re.findall(r"^step (\d+): mean ([\d.]+) of 3$", said, re.MULTILINE)[-1] == ("60", "1.0000")
    assert "RewardCounts(asked=2880, scored=2880, copied=0, unscored=0, masked=0, failed=0)" in said


@pytest.mark.parametrize("tracker", ["wandb", "mlflow", "tensorboard"])
def test_track_scores(
    tracker: str,
    served: Served,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    logs = tmp_path_factory.mktemp(tracker)
    said = ran(served, tmp_path, str(EXAMPLES / "track_scores.py"), tracker, str(logs))
    assert re.search(r"^multi-bleu\|n:2\|", said, re.MULTILINE)
    assert any(logs.iterdir())


@pytest.mark.parametrize(
    "name", ["reward_in_trl", "score_in_trainer", "score_in_lightning", "score_over_ranks", "reward_in_pytorch"]
)
def test_an_example_says_how_it_is_called(name: str) -> None:
    path = EXAMPLES / f"{name}.py"
    assert re.search(rf"^REFAUG_URL=\S+ (python|torchrun .*) {path.name}$", path.read_text("utf-8"), re.MULTILINE)
