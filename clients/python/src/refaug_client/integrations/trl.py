"""A reward function for TRL: GRPOTrainer, RLOOTrainer and other trainers that take `reward_funcs`.

TRL calls it with prompts, completions and the columns of the data set; one of them names the item of the reference
set that each completion replies to. A missing reward is None. What TRL 1.x does with None, where no other reward
function has a reward for that completion either: the completion is left out of its group's mean and deviation, and its
advantage is 0, so that it moves nothing. Where another function has one, TRL adds up those that there are, and a
missing one is as good as 0, which is not a mask: beside other functions for the same rows, use
`on_unavailable="raise"`, or `GRPOConfig(multi_objective_aggregation="normalize_then_sum")`, with which it is as good as
the mean of its group. Older releases took every missing reward for 0: with them, use `on_unavailable="raise"`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

from refaug_client._core import errors
from refaug_client._scorer.rewards import Reward


class RewardFunction:
    """A `Reward` as TRL calls it.

        reward = client.reward(reference_set=ID, metric="upsilon-bleu", on_unavailable="mask")
        trainer = GRPOTrainer(model, reward_funcs=RewardFunction(reward), train_dataset=data, …)

    `item` is the column with the items' ids; a row whose id is None gets None, for data of several tasks. `reply`
    turns a completion into the text to be scored, where that is not what `reply_of` finds in it.
    """

    def __init__(self, reward: Reward, *, item: str = "item", reply: Optional[Callable[[Any], str]] = None) -> None:
        if not isinstance(reward, Reward):
            raise errors.Usage(f"a {type(reward).__name__} is not a reward", remedy="client.reward(…)")
        self.reward = reward
        self.item = item
        self.reply = reply_of if reply is None else reply
        self.__name__ = str(reward.metric)  # the name in TRL's logs

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[Optional[float]]:
        """Return a reward for each completion; None where there is none."""
        if self.item not in columns:
            raise errors.Usage(
                f"the data has no column {self.item!r}, only {', '.join(sorted(columns)) or 'none'}",
                remedy="a column with the items' ids, and RewardFunction(…, item='its name')",
            )
        items = list(columns[self.item])
        if len(items) != len(completions):
            raise errors.Usage(f"{len(completions)} completions and {len(items)} items", remedy="one for each")
        scored_places = [place for place, item in enumerate(items) if item is not None]
        before = self.reward.counts
        scores = self.reward(
            [self.reply(completions[at]) for at in scored_places], items=[items[at] for at in scored_places]
        )
        _log_counts(columns.get("log_metric"), self.reward.counts - before)
        rewards: list[Optional[float]] = [None] * len(items)
        for at, score in zip(scored_places, scores):
            rewards[at] = None if math.isnan(score) else score
        return rewards

    def __repr__(self) -> str:
        return f"RewardFunction({self.reward!r}, item={self.item!r})"


def reply_of(completion: Any) -> str:
    """Return the text of a completion: itself, or the assistant's last message, without tool calls and thoughts."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Sequence):
        for message in reversed(completion):
            if isinstance(message, dict) and message.get("role") == "assistant":
                return _text_of(message.get("content"))
        return ""
    raise errors.Usage(
        f"a completion that is a {type(completion).__name__}",
        remedy="a text, or a list of messages with role and content",
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:  # a tool call without text
        return ""
    return "".join(part.get("text", "") for part in content if isinstance(part, dict) and part.get("type") == "text")


def _log_counts(log_metric: Optional[Callable[[str, float], None]], counts: Any) -> None:
    """Log how many completions had no reward, where the trainer takes metrics."""
    if callable(log_metric):
        log_metric("refaug/masked", float(counts.masked))
        log_metric("refaug/unscored", float(counts.unscored))
        log_metric("refaug/copied", float(counts.copied))
