"""The reward in tasks of the real package, against a set that was frozen in a home of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import refaug
import verifiers.v1 as vf
from refaug.cli import main as cli
from refaug_client import Reward, Usage
from verifiers.v1.graph import MessageNode

from refaug_verifiers import frozen_reward

ITEMS = [
    {
        "id": "tea",
        "utterance": "Would you like some tea?",
        "references": ["Yes, please.", {"text": "No thanks, I have coffee.", "weight": 0.6}],
    },
    {
        "id": "bus",
        "utterance": "When does the bus leave?",
        "references": ["In ten minutes.", {"text": "I like it.", "weight": -0.7}],
    },
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def frozen(home: Path) -> str:
    items = home / "items.jsonl"
    items.write_text("".join(json.dumps(row) + "\n" for row in ITEMS), "utf-8")
    said = TextIOWrapper(BytesIO())
    with redirect_stdout(said):
        arguments = ["--quiet", "--home", str(home), "sets", "freeze", str(items), "--purpose", "train", "--json"]
        assert cli.main(arguments) == 0
    return str(json.loads(said.buffer.getvalue())["id"])


@pytest.fixture
def reward(home: Path, frozen: str) -> Iterator[Reward]:
    with refaug.reward(
        reference_set=frozen, home=home, metric="delta-bleu", on_copy="zero", stop_at_copies=0.1
    ) as made:
        yield made


def rollout(reward: Reward, item: str | None, *replies: str, **options: Any) -> vf.Trace:
    """The trace of a rollout, scored by its task."""

    class SmallTalk(vf.Task[vf.TaskData]):
        refaug = frozen_reward(reward, **options)

    data = vf.TaskData(id=item, prompt="?")
    nodes = [MessageNode(message=vf.UserMessage(content="?"))]
    for reply in replies:
        nodes.append(MessageNode(parent=len(nodes) - 1, message=vf.AssistantMessage(content=reply), sampled=True))
    task = vf.TraceTask(type="SmallTalk", data=data)
    trace = vf.Trace.model_construct(task=task, nodes=nodes, rewards={}, metrics={}, root_reply=None, errors=[])
    asyncio.run(SmallTalk(data).score(trace))
    return trace


def test_the_last_reply_gets_the_score_of_the_library(home: Path, frozen: str, reward: Reward) -> None:
    known = refaug.open_set(frozen, home=home).score(
        ["No thanks, I like tea.", "In two minutes."], items=["tea", "bus"], metric="delta-bleu"
    )
    first = rollout(reward, "tea", "I like it.", "No thanks, I like tea.")
    second = rollout(reward, "bus", "In two minutes.", weight=0.5)
    assert first.rewards == {"refaug": vf.Reward(score=known.replies[0], weight=1.0)}
    assert second.rewards == {"refaug": vf.Reward(score=known.replies[1], weight=0.5)}
    assert second.reward == pytest.approx(known.replies[1] / 2)
    assert 0 < known.replies[1] < 1


def test_what_has_no_reward_is_an_error_of_the_rollout(reward: Reward) -> None:
    with pytest.raises(vf.TaskError, match="the data of the task have no id"):
        rollout(reward, None, "Yes.")
    with pytest.raises(vf.TaskError, match="moon"):
        rollout(reward, "moon", "Yes.")
    assert rollout(reward, "tea").reward == 0.0  # a rollout without a reply has said nothing, which is worth nothing


def test_frequent_copies_end_all_rollouts(reward: Reward) -> None:
    reward(["Yes, please."] * 230, items=["tea"] * 230)
    for _ in range(25):
        assert rollout(reward, "tea", "would you like some tea").reward == 0.0
    with pytest.raises(vf.TaskError, match="TooManyCopies: 26 of the last 256"):
        rollout(reward, "tea", "Would you like some tea?")
    with pytest.raises(vf.TaskError, match="TooManyCopies"):
        rollout(reward, "tea", "Yes, please.")


def test_rewards_that_would_count_as_zero_are_refused(home: Path, frozen: str, reward: Reward) -> None:
    with (
        refaug.reward(reference_set=frozen, home=home, metric="delta-bleu", on_unavailable="mask") as masked,
        pytest.raises(Usage, match="would count as 0"),
    ):
        frozen_reward(masked)
    with pytest.raises(Usage, match="a float is not a reward"):
        frozen_reward(0.5)
