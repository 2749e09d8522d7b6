"""Scores at the end of validations and tests of the real Lightning Trainer."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import pytest
import torch
from beside import HERE, Served
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from refusals import refusing
from scripted import problem, scripted
from test_rewards import answering
from torch.utils.data import DataLoader

from refaug_client import Client, Unavailable, Usage
from refaug_client.integrations.lightning import ScoreReplies


class Talker(lightning.LightningModule):
    """Says the same sentence with the number of the epoch's last words; learns one weight."""

    def __init__(self, says: Any = None, key: str = "replies") -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.says = says or (lambda item, epoch: f"we like red boats {item}")
        self.key = key

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        return ((self.weight - 1) ** 2).sum()

    def validation_step(self, batch: Any, number: int, dataloader_idx: int = 0) -> Any:
        return {self.key: [self.says(item, self.current_epoch) for item in batch["item"]]}

    test_step = validation_step

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def rows_of(items: list[str]) -> list[dict[str, str]]:
    return [{"item": item} for item in items]


def trainer_of(folder: Path, *callbacks: Any, **more: Any) -> lightning.Trainer:
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        **more,
    }
    return lightning.Trainer(callbacks=list(callbacks), **settings)


def loader(items: list[str]) -> Any:
    return DataLoader(rows_of(items), batch_size=5)  # type: ignore[arg-type]


def corpus(client: Client, served: Served, items: list[str]) -> float:
    replies = [f"we like red boats {item}" for item in sorted(items)]
    found = client.sets.score(
        served.sets["validation"], replies={"m": replies}, items=sorted(items), metrics=["upsilon-bleu"]
    )
    assert found.corpus is not None
    return found.corpus


def test_validations_and_tests_are_scored_and_the_check_before_them_is_not(
    served: Served, client: Client, tmp_path: Path
) -> None:
    items = list(served.prompts)
    with client.scorer(reference_set=served.sets["validation"], metric="upsilon-bleu") as scorer:
        callback = ScoreReplies(scorer)
        trainer = trainer_of(tmp_path, callback, max_epochs=2, num_sanity_val_steps=1)
        trainer.fit(Talker(), loader(items), loader(items))
        assert scorer.counts.submitted == 24
        found = corpus(client, served, items)
        assert trainer.callback_metrics["val_upsilon-bleu"].item() == pytest.approx(found, rel=1e-6)
        assert trainer.callback_metrics["val_upsilon-bleu_unscored"].item() == 0.0
        assert callback.last is not None
        assert callback.last.corpus == found
        assert callback.last.signature.startswith("upsilon-bleu|n:2|variant:galley15|")
        tested = trainer.test(Talker(), loader(items[:6]), verbose=False)
        assert tested[0]["test_upsilon-bleu"] == pytest.approx(corpus(client, served, items[:6]), rel=1e-6)


def test_checkpoints_and_early_stopping_go_by_the_score(served: Served, client: Client, tmp_path: Path) -> None:
    def says(item: str, epoch: int) -> str:
        return "we like red boats" if epoch == 1 else "qqq"

    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        best = ModelCheckpoint(tmp_path, "{epoch}", monitor="ours", mode="max")
        stop = EarlyStopping("ours", mode="max", patience=2)
        trainer = trainer_of(
            tmp_path, ScoreReplies(scorer, name="ours"), best, stop, max_epochs=9, enable_checkpointing=True
        )
        trainer.fit(Talker(says), loader(list(served.prompts)), loader(list(served.prompts)))
    assert Path(best.best_model_path).name == "epoch=1.ckpt"
    assert trainer.current_epoch == 4


def test_loaders_are_scored_apart(served: Served, client: Client, tmp_path: Path) -> None:
    items = list(served.prompts)
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        trainer = trainer_of(tmp_path, ScoreReplies(scorer))
        trainer.validate(Talker(), [loader(items[:5]), loader(items[5:])], verbose=False)
        for number, some in enumerate((items[:5], items[5:])):
            found = trainer.callback_metrics[f"val_upsilon-bleu/{number}"].item()
            assert found == pytest.approx(corpus(client, served, some), rel=1e-6)


def test_a_step_that_returns_no_replies_is_an_error(served: Served, client: Client, tmp_path: Path) -> None:
    with client.scorer(reference_set=served.sets["validation"]) as scorer:
        trainer = trainer_of(tmp_path, ScoreReplies(scorer))
        with refusing(Usage, "'replies'"):
            trainer.validate(Talker(key="texts"), loader(list(served.prompts)), verbose=False)
        trainer = trainer_of(tmp_path, ScoreReplies(scorer, item="line"))
        with refusing(Usage, "'line'"):
            trainer.validate(Talker(), loader(list(served.prompts)), verbose=False)
        with refusing(Usage, "repeated='some'"):
            ScoreReplies(scorer, repeated="some")


def test_silent_server_ends_validation_or_is_skipped_as_nan(tmp_path: Path) -> None:
    away = answering(fails=lambda number: problem(503, retry_after=0))
    with scripted(away) as server, Client(server.url, retry=0) as client:
        with client.scorer(reference_set="s1") as scorer, pytest.raises(Unavailable):
            trainer_of(tmp_path, ScoreReplies(scorer)).validate(Talker(), loader(["a", "b"]), verbose=False)
        with client.scorer(reference_set="s1", on_unavailable="skip") as scorer:
            trainer = trainer_of(tmp_path, ScoreReplies(scorer))
            trainer.validate(Talker(), loader(["a", "b"]), verbose=False)
            assert math.isnan(trainer.callback_metrics["val_upsilon-bleu"].item())
            assert trainer.callback_metrics["val_upsilon-bleu_unscored"].item() == 2.0


TWO_RANKS = """
import json, sys
from pathlib import Path
import test_lightning as here
from refaug_client import Client
from refaug_client.integrations.lightning import ScoreReplies

if __name__ == "__main__":
    url, name, folder, *items = sys.argv[1:]
    with Client(url) as client, client.scorer(reference_set=name, metric="upsilon-bleu") as scorer:
        callback = ScoreReplies(scorer)
        trainer = here.trainer_of(Path(folder), callback, devices=2, strategy="ddp", max_epochs=1)
        trainer.fit(here.Talker(), here.loader(items), here.loader(items))
        found = [trainer.callback_metrics["val_upsilon-bleu"].item(), callback.last.to_dict(), scorer.counts.submitted]
    Path(folder, f"{trainer.global_rank}.json").write_text(json.dumps(found), "utf-8")
"""


def test_two_ranks_log_the_score_that_one_would(served: Served, client: Client, tmp_path: Path) -> None:
    items = list(served.prompts)[:11]
    script = tmp_path / "two.py"
    script.write_text(TWO_RANKS, "utf-8")
    paths = os.pathsep.join(map(str, (HERE, HERE.parent, HERE.parents[3] / "tests")))
    subprocess.run(
        [sys.executable, str(script), served.url, served.sets["validation"], str(tmp_path), *items],
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": paths, "MASTER_ADDR": "127.0.0.1"},
    )
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text("utf-8")) for rank in range(2))
    assert first[:2] == second[:2]
    assert first[1]["corpus"] == corpus(client, served, items)
    assert first[0] == pytest.approx(first[1]["corpus"], rel=1e-6)
    assert (first[1]["scored"], first[1]["repeated"]) == (11, 1)
    assert (first[2], second[2]) == (11, 0)
