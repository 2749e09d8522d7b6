"""Rewards in TRL's own trainers: what they are given, what they make of it, and what a missing reward does there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from beside import Served
from datasets import Dataset
from scripted import problem
from test_rewards import answer, answering, rewarding
from tiny import causal, tokenizer_of
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from refaug_client import Client, Unavailable
from refaug_client._scorer.rewards import RewardCounts
from refaug_client.integrations.trl import RewardFunction

TRAINERS = pytest.mark.parametrize("kind", ["grpo", "rloo"])


class Seen(RewardFunction):
    """Keeps what it was asked and what it answered."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.calls: list[tuple[list[Any], list[Any], list[Any]]] = []

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> Any:
        found = super().__call__(prompts, completions, **columns)
        self.calls.append((list(completions), list(columns[self.item]), found))
        return found


def trainer_of(
    kind: str, folder: Path, function: Any, rows: list[dict[str, Any]], words: list[str], **more: Any
) -> Any:
    tokenizer = tokenizer_of(words)
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 2,
        "logging_steps": 1,
        "learning_rate": 0.01,
        "weight_decay": 0.0,
        "beta": 0.0,
        "seed": 7,
        "save_strategy": "no",
        "disable_tqdm": True,
        **more,
    }
    make, config = {"grpo": (GRPOTrainer, GRPOConfig), "rloo": (RLOOTrainer, RLOOConfig)}[kind]
    return make(
        model=causal(tokenizer),
        reward_funcs=function,
        args=config(**settings),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )


def weights(trainer: Any) -> torch.Tensor:
    return torch.cat([one.detach().flatten().clone() for one in trainer.model.parameters()])


@TRAINERS
@pytest.mark.parametrize("conversational", [False, True])
def test_the_trainer_gets_the_servers_scores(
    kind: str, conversational: bool, served: Served, client: Client, tmp_path: Path
) -> None:
    rows = [
        {"prompt": [{"role": "user", "content": text}] if conversational else text, "item": item}
        for item, text in served.prompts.items()
    ]
    with client.reward(reference_set=served.sets["train"], metric="upsilon-bleu") as reward:
        seen = Seen(reward)
        trainer = trainer_of(kind, tmp_path, seen, rows, served.texts)
        before = weights(trainer)
        trainer.train()
        assert len(seen.calls) == 2
        for completions, items, found in seen.calls:
            replies = [one[0]["content"] if conversational else one for one in completions]
            direct = client.sets.score(
                served.sets["train"], replies={"m": replies}, items=items, metrics=["upsilon-bleu"]
            )
            assert found == direct.replies
            assert len(found) == 8
        assert any(value > 0 for _, _, found in seen.calls for value in found)
        logged = [one["rewards/upsilon-bleu/mean"] for one in trainer.state.log_history if "reward" in one]
        means = [math.fsum(found) / 8 for _, _, found in seen.calls]
        assert logged == pytest.approx(means, rel=1e-5)
        assert reward.counts == RewardCounts(asked=16, scored=16)
        assert not torch.equal(before, weights(trainer))


@TRAINERS
def test_where_nothing_has_a_reward_nothing_is_learned(kind: str, tmp_path: Path) -> None:
    rows = [{"prompt": text, "item": text} for text in ("tea", "milk", "bread", "salt")]
    with rewarding(answering(score=None), on_unavailable="mask") as reward:
        trainer = trainer_of(kind, tmp_path, RewardFunction(reward), rows, ["tea milk bread salt water"])
        before = weights(trainer)
        trainer.train()
        assert torch.equal(before, weights(trainer))
        assert reward.counts == RewardCounts(asked=16, unscored=16)
        logged = [one["refaug/unscored"] for one in trainer.state.log_history if "refaug/unscored" in one]
        assert logged == [8.0, 8.0]


@TRAINERS
def test_masked_reward_changes_nothing_for_the_rest_of_its_group(kind: str, tmp_path: Path) -> None:
    rows = [{"prompt": "tea", "item": "tea"}, {"prompt": "milk", "item": "milk"}]
    values = [0.1, None, 0.4, 0.7, 0.2, 0.2, 0.9, None]

    def answers(asked: Any) -> Any:
        replies = asked.json["replies"]["model"]
        return answer(asked, [None] if replies == [None] else values[: len(replies)])

    with rewarding(answers, on_unavailable="mask", cache=None) as reward:
        seen = Seen(reward, reply=numbered())
        more = {"scale_rewards": "none"} if kind == "grpo" else {"normalize_advantages": False}
        trainer = trainer_of(kind, tmp_path, seen, rows, ["tea milk bread"], max_steps=1, **more)
        trainer.train()
        assert [found for _, _, found in seen.calls] == [values]
        advantages = list(trainer._logs["advantages"])
        assert advantages[1] == advantages[7] == 0.0
        mean_beside = {"grpo": [0.4, 0.0, 0.4, 0.4], "rloo": [0.55, 0.0, 0.4, 0.25]}[kind]  # RLOO: of the others alone
        expected = [0.1 - mean_beside[0], 0.0, 0.4 - mean_beside[2], 0.7 - mean_beside[3]]
        assert advantages[:4] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("way", "moved"), [("sum_then_normalize", -0.3), ("normalize_then_sum", 0.0)])
def test_masked_reward_is_left_out_of_a_sum_only_if_each_is_normalised(way: str, moved: float, tmp_path: Path) -> None:
    rows = [{"prompt": "tea", "item": "tea"}, {"prompt": "milk", "item": "milk"}]
    values = [0.1, None, 0.4, 0.7, 0.2, 0.2, 0.9, 0.4]

    def answers(asked: Any) -> Any:
        replies = asked.json["replies"]["model"]
        return answer(asked, [None] if replies == [None] else values[: len(replies)])

    def same(completions: list[str], **_: Any) -> list[float]:
        return [1.0] * len(completions)

    with rewarding(answers, on_unavailable="mask", cache=None) as reward:
        functions = [RewardFunction(reward, reply=numbered()), same]
        more = {"scale_rewards": "none", "multi_objective_aggregation": way}
        trainer = trainer_of("grpo", tmp_path, functions, rows, ["tea milk bread"], max_steps=1, **more)
        trainer.train()
        assert list(trainer._logs["advantages"])[1] == pytest.approx(moved, abs=1e-3)


def numbered() -> Any:
    """Makes every reply another one, so that each is sent."""
    number = iter(range(1_000))
    return lambda completion: f"{completion} {next(number)}"


def test_by_default_a_server_that_does_not_answer_ends_the_training(tmp_path: Path) -> None:
    rows = [{"prompt": "tea", "item": "tea"}, {"prompt": "milk", "item": "milk"}]
    with rewarding(answering(fails=lambda number: problem(503, retry_after=0))) as reward:
        trainer = trainer_of("grpo", tmp_path, RewardFunction(reward), rows, ["tea milk"])
        with pytest.raises(Unavailable):
            trainer.train()
        assert reward.counts == RewardCounts(asked=8, failed=8)


def test_rows_of_another_task_are_left_to_its_own_reward(served: Served, client: Client, tmp_path: Path) -> None:
    ours = [{"prompt": text, "item": item} for item, text in list(served.prompts.items())[:2]]
    rows = [*ours, {"prompt": "we like", "item": None}, {"prompt": "red", "item": None}]

    def length(completions: list[str], item: list[Any], **_: Any) -> list[Any]:
        return [None if one is not None else float(len(text)) for text, one in zip(completions, item)]

    with client.reward(reference_set=served.sets["train"]) as reward:
        seen = Seen(reward)
        trainer = trainer_of(
            "grpo", tmp_path, [seen, length], rows, served.texts, per_device_train_batch_size=16, max_steps=1
        )
        trainer.train()
        ((_, items, found),) = seen.calls
        assert sorted(map(str, items)) == sorted(["None"] * 8 + [one["item"] for one in ours] * 4)
        assert [value is None for value in found] == [item is None for item in items]
        assert reward.counts == RewardCounts(asked=8, scored=8)
