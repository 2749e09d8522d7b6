"""A reward of refaug for tasks of verifiers: the last reply of a rollout beside a frozen set of references."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import verifiers.v1 as vf
from refaug_client import Reward, Usage

RewardMethod = Callable[[Any, Any, Any], Coroutine[Any, Any, float]]


def frozen_reward(reward: Reward, *, item: str = "id", weight: float = 1.0) -> RewardMethod:
    """Return a reward method for the body of a task.

        class SmallTalk(vf.Task[vf.TaskData]):
            refaug = frozen_reward(client.reward(reference_set=ID, metric="upsilon-bleu"))

    `item` is the field of the task's data that has the id of the item in the set. A reply without a reward is an error
    of its rollout, never a zero; so a reward that masks replies is refused. With `stop_at_copies`, every rollout is an
    error once copies have become frequent.
    """
    if not isinstance(reward, Reward):
        raise Usage(f"a {type(reward).__name__} is not a reward", remedy="client.reward(…) or refaug.reward(…)")
    if reward.on_unavailable != "raise":
        raise Usage(
            "a rollout whose reward is masked would count as 0 in the sum of its rewards",
            remedy="on_unavailable='raise': verifiers leaves a rollout with an error out",
        )

    async def refaug(self: Any, task: Any, trace: Any) -> float:  # noqa: ARG001  a method of the task
        name = getattr(task, item, None)
        if name is None:
            raise Usage(f"the data of the task have no {item}", remedy="the id of an item of the set, or item='FIELD'")
        (score,) = await asyncio.to_thread(reward, [trace.last_reply], items=[str(name)])
        return score

    decorated: RewardMethod = vf.reward(refaug, weight=weight)
    return decorated
