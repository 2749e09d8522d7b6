"""Pairs of whole dialogues in the form that ACUTE-Eval reads: what was shown side by side, or chats to be paired.

A study of pairs has its own pairs. Chats of a study with single bots are paired by two bots, the first of one with the
first of the other, each dialogue in at most one pair of these two bots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypedDict

import orjson

from refaug.core.errors import BadInput
from refaug.evaluation.studies.questions import main_tasks
from refaug.evaluation.studies.records import StudyTask, TaskSideName, TurnRole

PERSON: Final = "participant"


class _Dialogue(TypedDict):
    """A dialogue as ACUTE-Eval has it."""

    id: str
    speakers: list[str]
    evals: Mapping[str, object]
    dialogue: list[dict[str, str]]


def dialogue_pairs(tasks: Sequence[StudyTask]) -> Iterator[bytes]:
    """Yield the pairs, a line each."""
    pairs = [*_shown_pairs(tasks), *_chat_pairs(tasks)]
    if not pairs:
        raise BadInput("the study has no two dialogues of different bots", remedy="--format dpo for single replies")
    for first, second in pairs:
        line = {
            "is_onboarding": False,
            "speakers_to_eval": [first["speakers"][1], second["speakers"][1]],
            "dialogue_dicts": [first, second],
            "dialogue_ids": [first["id"], second["id"]],
        }
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _shown_pairs(tasks: Sequence[StudyTask]) -> Iterator[tuple[_Dialogue, _Dialogue]]:
    for task in main_tasks(tasks):
        shown = [_dialogue(task, side) for side in (TaskSideName.LEFT, TaskSideName.RIGHT)]
        if shown[0] is not None and shown[1] is not None:
            yield shown[0], shown[1]


def _chat_pairs(tasks: Sequence[StudyTask]) -> Iterator[tuple[_Dialogue, _Dialogue]]:
    by_bot: dict[str, list[_Dialogue]] = {}
    for task in main_tasks(tasks):
        dialogue = _dialogue(task, TaskSideName.ONE)
        if dialogue is not None:
            by_bot.setdefault(dialogue["speakers"][1], []).append(dialogue)
    for first, second in combinations(sorted(by_bot), 2):
        yield from zip(by_bot[first], by_bot[second], strict=False)


def _dialogue(task: StudyTask, side: TaskSideName) -> _Dialogue | None:
    bot, dialogue = task.bot_of(side), task.side_of(side)
    if bot is None or dialogue is None or not any(turn.role is TurnRole.BOT for turn in dialogue.turns):
        return None
    return {
        "id": task.task if side is TaskSideName.ONE else f"{task.task}/{side.value}",
        "speakers": [PERSON, bot.bot],
        "evals": {},
        "dialogue": [
            {"id": bot.bot if turn.role is TurnRole.BOT else PERSON, "text": turn.text} for turn in dialogue.turns
        ],
    }
