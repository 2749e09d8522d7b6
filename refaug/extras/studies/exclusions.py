"""The rules of a protocol that leave participants out, applied to what they did, with the reason of each.

A rule says something only of participants whom it can judge: without a task of the degraded bot, it
says nothing of how that bot is rated. Participants are named by their codes alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

import scipy

from refaug.core.errors import BadInput
from refaug.extras.studies.questions import (
    ATTENTION,
    AnswerType,
    AskedQuestion,
    choice_rows,
    degraded_tasks,
    is_number,
    rating_rows,
)
from refaug.extras.studies.records import StudyKind, StudyTask, TaskCheck, TurnRole

ALPHA: Final = 0.05  # of the test that the degraded bot is rated lower
FEWEST_ANSWERS: Final = 5  # fewer equal answers on a scale are no sign of carelessness
FEWEST_SIDES: Final = 6  # as often the same side by chance in 3 of 100 honest participants
_SHORTEST_COPY: Final = 3  # words; shorter messages are alike by chance
_WORDS: Final = re.compile(r"\w+")
BY_HAND: Final = "by_hand"


@dataclass(frozen=True, kw_only=True)
class BrokenRule:
    """The rule that leaves a participant out, and what was seen."""

    rule: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Exclusions:
    """Who is left out and why, and how many each rule could judge."""

    reasons: Mapping[str, tuple[BrokenRule, ...]]  # participant → reasons, only where there are some
    judged: Mapping[str, int]  # rule → participants that it says something of
    participants: int

    def kept(self, tasks: Iterable[StudyTask]) -> list[StudyTask]:
        """Return the tasks of participants who are not left out."""
        return [task for task in tasks if task.participant not in self.reasons]

    def by_rule(self) -> dict[str, int]:
        """Return how many participants each rule leaves out; several rules may leave out the same one."""
        return {
            rule: sum(any(reason.rule == rule for reason in reasons) for reasons in self.reasons.values())
            for rule in self.judged
        }


Rule = Callable[[Sequence[StudyTask]], "str | None"]  # what was seen, empty where nothing is wrong; None: cannot judge


def exclusions(tasks: Iterable[StudyTask], rules: Mapping[str, Any], questions: Sequence[AskedQuestion]) -> Exclusions:
    """Apply the rules of a protocol to all tasks of each participant; a task that names a reason counts as well."""
    by_participant = defaultdict[str, list[StudyTask]](list)
    for task in tasks:
        by_participant[task.participant].append(task)
    # One participant's plain tasks need not have the bot that stands beside the degraded one: everybody's have it.
    plain = {bot.bot for own in by_participant.values() for task in own if task.check is None for bot in task.bots}
    active = {name: setting for name, setting in rules.items() if setting not in (False, None)}
    applied = {name: _rule(name, setting, questions, plain) for name, setting in active.items()}
    judged = dict.fromkeys([*applied, BY_HAND], 0)
    reasons = dict[str, tuple[BrokenRule, ...]]()
    for participant in sorted(by_participant):
        own = by_participant[participant]
        broken = list[BrokenRule]()
        for name, rule in {**applied, BY_HAND: _by_hand}.items():
            seen = rule(own)
            judged[name] += seen is not None
            if seen:
                broken.append(BrokenRule(rule=name, detail=seen))
        if broken:
            reasons[participant] = tuple(broken)
    return Exclusions(reasons=reasons, judged=judged, participants=len(by_participant))


def _rule(name: str, setting: Any, questions: Sequence[AskedQuestion], plain: Collection[str]) -> Rule:
    rules: dict[str, Rule] = {
        "failed_attention": lambda tasks: _failed_attention(tasks, int(setting)),
        "degraded_not_lower": lambda tasks: _degraded_not_lower(tasks, questions, plain),
        "same_answer_everywhere": lambda tasks: _same_answer(tasks, questions),
        "seconds_per_turn_below": lambda tasks: _too_fast(tasks, float(setting), per_turn=True),
        "seconds_per_task_below": lambda tasks: _too_fast(tasks, float(setting), per_turn=False),
        "repeat_differs_by": lambda tasks: _repeat_differs(tasks, float(setting), questions),
        "copied_messages": lambda tasks: _copied(tasks, float(setting)),
    }
    if name not in rules:
        raise BadInput(f"exclude.{name}: there is no such rule", remedy=f"one of: {', '.join(rules)}")
    if isinstance(setting, bool) is not (name in {"degraded_not_lower", "same_answer_everywhere"}):
        raise BadInput(f"exclude.{name}: {setting!r} is not a setting of it", remedy="as the protocol's page says")
    return rules[name]


def _by_hand(tasks: Sequence[StudyTask]) -> str | None:
    """Return the first reason that a record itself names."""
    return next((task.excluded for task in tasks if task.excluded), "")


def _failed_attention(tasks: Sequence[StudyTask], most: int) -> str | None:
    passed = [bool(task.answers[ATTENTION]) for task in tasks if task.is_done and ATTENTION in task.answers]
    if not passed:
        return None
    failed = passed.count(False)
    return f"{failed} of {len(passed)} attention checks failed" if failed >= most else ""


def _degraded_not_lower(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], plain: Collection[str]
) -> str | None:
    """Test all answers about the degraded bot against those about plain ones, one-sided."""
    degraded = degraded_tasks(tasks)
    worse = [number for bot, number in _scaled(degraded, questions) if bot not in plain]
    better = [number for _, number in _scaled([task for task in tasks if task.check is None], questions)]
    if worse and better:
        p = float(scipy.stats.mannwhitneyu(worse, better, alternative="less").pvalue)
        means = f"mean {fmean(worse):.3g} against {fmean(better):.3g}, p = {p:.2g}"
        return f"the degraded bot is not rated lower: {means}" if not p < ALPHA else ""
    against_plain = [row for row in choice_rows(degraded, questions) if (row.left in plain) is not (row.right in plain)]
    choices = [row.outcome if row.left in plain else -row.outcome for row in against_plain]
    if not choices:
        return None
    return f"the degraded bot is not chosen less often, in {len(choices)} choices" if sum(choices) <= 0 else ""


def _scaled(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> list[tuple[str, float]]:
    """Return the answers on scales with their bots; scales of several widths are brought to that from 0 to 1."""
    by_id = {question.id: question for question in questions}
    ends = {(question.least, question.most) for question in questions if question.type is AnswerType.NUMBER}
    rows = rating_rows(tasks, questions)
    if len(ends) <= 1:
        return [(row.bot, row.number) for row in rows]
    return [(row.bot, _unit(by_id[row.question], row.number)) for row in rows]


def _unit(question: AskedQuestion, number: float) -> float:
    if question.least is None or question.most is None:
        return number
    return (number - question.least) / (question.most - question.least)


def _same_answer(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> str | None:
    """Look for a participant who gives one number to every question, or always chooses one side."""
    numbers, tasks_seen = list[float](), set[str]()
    scales = {question.id for question in questions if question.type is AnswerType.NUMBER}
    for task in tasks:
        for name, answer in task.answers.items() if task.is_done else ():
            if name.rpartition("/")[2] in scales and is_number(answer):
                numbers.append(float(answer))
                tasks_seen.add(task.task)
    choices = [row for row in choice_rows(tasks, [_unturned(question) for question in questions]) if row.outcome]
    pairs = len({row.task.task for row in choices})  # several questions about one pair are no choices of their own
    can_judge = False
    if len(numbers) >= FEWEST_ANSWERS and len(tasks_seen) > 1:
        can_judge = True
        if len(set(numbers)) == 1:
            return f"{numbers[0]:g} in all {len(numbers)} answers"
    if pairs >= FEWEST_SIDES:
        can_judge = True
        if len({row.outcome for row in choices}) == 1:
            return f"the same side in all {pairs} pairs"
    return "" if can_judge else None


def _unturned(question: AskedQuestion) -> AskedQuestion:
    return AskedQuestion(id=question.id, type=question.type, least=question.least, most=question.most)


def _too_fast(tasks: Sequence[StudyTask], least: float, *, per_turn: bool) -> str | None:
    """Compare the median over tasks; a chat counts the participant's messages, other tasks the turns that they show."""
    paces = [
        task.seconds / (turns_of(task) if per_turn else 1)
        for task in tasks
        if task.is_done and task.seconds is not None
    ]
    if not paces:
        return None
    pace = median(paces)
    return f"{pace:.3g} seconds a {'turn' if per_turn else 'task'}, in the median" if pace < least else ""


def turns_of(task: StudyTask) -> int:
    """Return what the seconds of a task are divided by: the participant's messages, or the turns that were read."""
    turns = [turn for side in task.sides for turn in side.turns]
    if task.kind in {StudyKind.CHAT, StudyKind.CHAT_PAIR}:
        own = {turn.n for turn in turns if turn.role is TurnRole.PARTICIPANT}  # a pair has them on both sides
        return max(1, len(own))
    shown = task.item or {}
    listed = shown.get("turns")
    return max(1, len(turns) + (len(listed) if isinstance(listed, list) else 0))


def _repeat_differs(tasks: Sequence[StudyTask], most: float, questions: Sequence[AskedQuestion]) -> str | None:
    differences = repeat_differences(tasks, questions)
    if not differences:
        return None
    mean = fmean(differences)
    return f"answers to a repeated task differ by {mean:.3g} on average" if mean > most else ""


def repeat_differences(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> list[float]:
    """Return how far the numbers of repeated tasks are from those of the same thing before, by one participant."""
    differences = list[float]()
    for repeated in tasks:
        if not repeated.is_done or repeated.check is not TaskCheck.REPEAT:
            continue
        plain = (task for task in tasks if task.check is None and task.is_done)
        earlier = next((task for task in plain if _is_same(task, repeated)), None)
        if earlier is None:
            continue
        first = {(row.question, row.bot): row.number for row in rating_rows([earlier], questions)}
        differences += [
            abs(row.number - first[row.question, row.bot])
            for row in rating_rows([repeated], questions)
            if (row.question, row.bot) in first
        ]
    return differences


def _is_same(task: StudyTask, repeated: StudyTask) -> bool:
    if task.item is not None and repeated.item is not None:
        keys = ("id", "unit")
        return [task.item.get(key) for key in keys] == [repeated.item.get(key) for key in keys]
    return {bot.bot for bot in task.bots} == {bot.bot for bot in repeated.bots}


def _copied(tasks: Sequence[StudyTask], most: float) -> str | None:
    """Count messages that repeat the bot's last reply, or an earlier message of the same participant."""
    seen, copies, messages = set[str](), 0, 0
    for task in sorted(tasks, key=lambda each: each.position):
        if task.kind not in {StudyKind.CHAT, StudyKind.CHAT_PAIR} or not task.is_done:
            continue
        for text, last in _messages(task):
            messages += 1
            copies += text in seen or text == last
            seen.add(text)
    if not messages:
        return None
    share = copies / messages
    return f"{share:.0%} of {messages} messages are copies" if share > most else ""


def _messages(task: StudyTask) -> list[tuple[str, str]]:
    """Return the participant's messages of some words, each with the reply before it, as words alone."""
    pairs, last = list[tuple[str, str]](), ""
    for turn in task.sides[0].turns if task.sides else ():
        words = _WORDS.findall(turn.text.casefold())
        text = " ".join(words)
        if turn.role is TurnRole.PARTICIPANT and len(words) >= _SHORTEST_COPY:
            pairs.append((text, last))
        last = text
    return pairs
