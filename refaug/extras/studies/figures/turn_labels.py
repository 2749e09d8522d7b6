"""Labels of turns and of parts of turns: the share of each bot's turns that have a label, by drawing participants.

A turn has a label where a participant chose it, or gave it to some part; who finished a task without a label for a
turn gave it none. Turns that were not asked about are not counted: fixed openings, and those without what a condition
of the question wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refaug.extras.studies.figures.means import BotMeans, bot_means
from refaug.extras.studies.protocol.study_form import ABOUT_TURNS, given_labels
from refaug.extras.studies.records import StudyTask, TurnRole

_OF_TURN: Final = 20.0  # units (refaug.metrics.costs) of a turn, for each label
_OF_DRAW: Final = 0.25  # … and of each draw of a participant


@dataclass(frozen=True, kw_only=True)
class LabelQuestion:
    """A question whose answers are labels of turns: any of them, one of them, or labels of parts."""

    id: str
    type: str
    labels: Mapping[str, str]  # their texts by their values
    show_if: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def is_asked(self, answers: Mapping[str, Any]) -> bool:
        """Return whether the question is asked beside these answers about a turn."""
        return all(
            any(label in map(str, shown_by) for label in given_labels(answers.get(name)))
            for name, shown_by in self.show_if.items()
        )


@dataclass(frozen=True, kw_only=True)
class LabelledTurn:
    """What a participant said of one turn of a bot; `thing` is alike in all tasks that show this turn."""

    bot: str
    participant: str
    thing: str | None
    is_answered: bool
    labels: tuple[str, ...]
    spans: int


def label_questions(protocol: Mapping[str, Any] | None) -> list[LabelQuestion]:
    """Return the questions of a protocol whose answers are labels of turns."""
    entries = ((protocol or {}).get("form") or {}).get("questions", [])
    return [
        LabelQuestion(
            id=str(entry["id"]),
            type=str(entry["type"]),
            labels={str(option["value"]): str(option["text"]) for option in entry.get("options", [])},
            show_if=entry.get("show_if") or {},
        )
        for entry in entries
        if entry.get("type") in ABOUT_TURNS or (entry.get("type") == "choice" and entry.get("scope") == "turn")
    ]


def labelled_turns(
    tasks: Iterable[StudyTask], question: LabelQuestion, protocol: Mapping[str, Any] | None
) -> Iterator[LabelledTurn]:
    """Yield every turn of a bot that finished tasks asked about."""
    first = 2 if (protocol or {}).get("opening") == "fixed" else 1
    for task in tasks:
        shown = task.item or {}
        unit = shown.get("unit", shown.get("id"))
        for side in task.sides if task.is_done else ():
            bot = task.bot_of(side.side)
            for turn in side.turns if bot is not None else ():
                if turn.role is not TurnRole.BOT or turn.n < first or bot is None:
                    continue
                answers = turn.labels if isinstance(turn.labels, dict) else {}
                if not question.is_asked(answers):
                    continue
                answer = answers.get(question.id)
                yield LabelledTurn(
                    bot=bot.bot,
                    participant=task.participant,
                    thing=None if unit is None else f"{unit}\x1f{bot.bot}\x1f{turn.n}",
                    is_answered=answer is not None,
                    labels=tuple(given_labels(answer)),
                    spans=sum(isinstance(entry, dict) for entry in answer) if isinstance(answer, list) else 0,
                )


def label_shares(
    turns: Sequence[LabelledTurn], label: str, *, draws: int, seed: int, level: float, clustered: bool
) -> BotMeans:
    """Return the share of turns with a label by bot, and the differences between bots."""
    return bot_means(
        [float(label in turn.labels) for turn in turns],
        [turn.bot for turn in turns],
        [turn.participant for turn in turns],
        draws=draws,
        seed=seed,
        level=level,
        clustered=clustered,
    )


def labels_cost(tasks: Sequence[StudyTask], protocol: Mapping[str, Any] | None, draws: int) -> float:
    """Return an upper bound of the units of the shares of all labels."""
    labels = sum(len(question.labels) for question in label_questions(protocol))
    if not labels:
        return 0.0
    turns = sum(turn.role is TurnRole.BOT for task in tasks for side in task.sides for turn in side.turns)
    clustered = ((protocol or {}).get("analysis") or {}).get("cluster") != "none"
    drawn = len({task.participant for task in tasks}) if clustered else turns
    return labels * (_OF_TURN * turns + _OF_DRAW * draws * drawn)
