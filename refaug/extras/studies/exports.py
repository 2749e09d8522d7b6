"""The formats in which a study is exported, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from math import fsum
from typing import Any, Final, TypedDict

import orjson

from refaug.core.errors import BadInput, Usage
from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.questions import (
    AnswerType,
    AskedQuestion,
    choice_rows,
    main_tasks,
    protocol_questions,
    rating_rows,
)
from refaug.extras.studies.records import (
    StudyKind,
    StudyTask,
    TaskCheck,
    TaskSide,
    TaskSideName,
    TaskTurn,
    TurnRole,
    task_line,
    task_order,
)
from refaug.extras.studies.report.beside import context_of
from refaug.tables.reports.table import csv_text

# ── Chats as CSV with the columns of neural_chat_web, an exchange a row, so that its tools read them ──────────────────
#
# What the form asked beyond its five questions, the state of its task, and what was decided stand in further columns
# behind. Texts that a spreadsheet would compute begin with a '. There is no user, only the code of a participant; a
# comment is the answer to a question called comments or comment.

COLUMNS: Final = (
    "ID", "Chat ID", "Datetime", "Chatbot ID", "Message", "Response", "Bot Input", "Study Key", "User Session Key",
    "Response Rating", "Chat Rating Quality", "Chat Rating Fluency", "Chat Rating Coherency", "Chat Rating Diversity",
    "Chat Rating Contingency", "Chat Rating Empathy", "Chat Rating Comments",
)  # fmt: skip
FURTHER: Final = ("Check", "State", "Excluded", "Seconds")
_QUESTIONS: Final = ("quality", "fluency", "coherency", "diversity", "contingency", "empathy", "comments")
_OTHER_NAMES: Final = {"contingency": "relatedness", "comments": "comment"}


def chat_records(tasks: Sequence[StudyTask], left_out: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield the CSV, header first; `left_out` are participants whom the rules leave out."""
    if not any(task.kind.has_dialogues for task in tasks):
        raise BadInput(
            "the study has no dialogue, and this CSV has an exchange a row", remedy="--format jsonl or items"
        )
    further, of_turns = _further_questions(tasks), _turn_questions(tasks)
    excluded = frozenset(left_out)
    decided = sorted({name for task in tasks for name in task.decisions or {}})
    columns = [f"Decision {name}{part}" for name in decided for part in ("", " by", " at")]
    answers = [*(f"Answer {name}" for name in further), *(f"Turn {name}" for name in of_turns)]
    yield csv_text([*COLUMNS, *FURTHER, *answers, *columns], []).encode()
    number = 0
    for task in tasks:
        rows = [
            [*row, *_decisions(task, decided)]
            for row in _rows(task, further, of_turns, number, is_excluded=task.participant in excluded)
        ]
        number += len(rows)
        if rows:
            yield csv_text(None, rows).encode()


def _decisions(task: StudyTask, names: Sequence[str]) -> Iterator[Any]:
    """Yield what was decided about the task's item, by whom, and when."""
    for name in names:
        decision = (task.decisions or {}).get(name)
        yield from ("", "", "") if decision is None else (_cell(decision.value), decision.by, decision.at)


def _further_questions(tasks: Sequence[StudyTask]) -> list[str]:
    used = {*_QUESTIONS, *_OTHER_NAMES.values()}
    names = {name for task in tasks for side in task.sides for name in task.answers_of(side.side)}
    whole = {name for task in tasks for name in task.answers if "/" not in name}
    return sorted((names | whole) - used)


def _turn_questions(tasks: Sequence[StudyTask]) -> list[str]:
    """Return the questions that were asked about single turns."""
    turns = (turn for task in tasks for side in task.sides for turn in side.turns)
    return sorted({name for turn in turns if isinstance(turn.labels, dict) for name in turn.labels})


def _rows(
    task: StudyTask, further: Sequence[str], of_turns: Sequence[str], number: int, *, is_excluded: bool
) -> Iterator[list[Any]]:
    for side in task.sides:
        bot = task.bot_of(side.side)
        answers = {**{name: answer for name, answer in task.answers.items() if "/" not in name}}
        answers |= task.answers_of(side.side)
        rated = [answers.get(name, answers.get(_OTHER_NAMES.get(name, name), "")) for name in _QUESTIONS]
        for message, reply, before in exchanges(side):
            number += 1
            yield [
                number,
                task.task if len(task.sides) == 1 else f"{task.task}/{side.side.value}",
                reply.at or (message.at if message is not None else None) or task.started or "",
                "" if bot is None else bot.bot,
                "" if message is None else message.text,
                reply.text,
                orjson.dumps(before).decode(),
                task.study,
                task.participant,
                reply.vote or 0,
                *map(_cell, rated),
                "" if task.check is None else task.check.value,
                task.state.value,
                task.excluded or ("rules" if is_excluded else ""),
                "" if task.seconds is None else task.seconds,
                *(_cell(answers.get(name, "")) for name in further),
                *(_cell(reply.labels.get(name, "") if isinstance(reply.labels, dict) else "") for name in of_turns),
            ]


def exchanges(side: TaskSide) -> Iterator[tuple[TaskTurn | None, TaskTurn, list[str]]]:
    """Yield every reply with the message before it, and all texts up to that message.

    Messages in a row are one; a reply that begins a dialogue, or follows another one, has none.
    """
    before, message = list[str](), None
    for turn in side.turns:
        if turn.role is TurnRole.PARTICIPANT:
            message = turn
            before.append(turn.text)
        else:
            yield message, turn, list(before)
            before.append(turn.text)
            message = None


def _cell(answer: Any) -> Any:
    if answer is None:
        return ""
    return orjson.dumps(answer).decode() if isinstance(answer, list | dict | bool) else answer


# ── The formats in which a study is exported, and the choice among them ───────────────────────────────────────────────

_VOTES: Final = (-1, 1)


def rated_items(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield items with ratings, a line each, in the order in which tasks name them."""
    counted = main_tasks(tasks)
    replies = [task for task in counted if task.kind is StudyKind.RATE_REPLY]
    if replies:
        yield from _reply_items(replies, questions, question)
        return
    if question is not None:
        raise BadInput("only single replies are rated by questions; replies in chats by votes", remedy="no question")
    lines = [line for task in counted for line in _voted_items(task)]
    if not lines:
        raise BadInput("no reply was rated or voted on", remedy="a study of kind rate-reply, or votes in chats")
    yield from lines


def chosen_question(questions: Sequence[AskedQuestion], answered: set[str], question: str | None) -> AskedQuestion:
    """Return the question by its id; without one, the only answered one."""
    usable = [entry for entry in questions if entry.id in answered]
    names = ", ".join(entry.id for entry in usable) or "none"
    if question is None and len(usable) == 1:
        return usable[0]
    match = next((entry for entry in usable if entry.id == question), None)
    if match is None:
        what = "several questions were answered" if question is None else f"no answer to a question {question!r}"
        raise BadInput(what, remedy=f"question, one of: {names}")
    return match


class _RatedItem(TypedDict):
    """A line of a file of items."""

    id: str
    turns: list[str]
    replies: dict[str, str]
    ratings: dict[str, list[float | None]]


def _reply_items(
    replies: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    rows = list(rating_rows(replies, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    people = sorted({row.participant for row in rows})
    items = dict[str, _RatedItem]()
    numbers: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        shown = row.task.item or {}
        reply = shown.get("reply")
        if row.question != asked_about.id or not isinstance(reply, str):
            continue
        name = str(shown.get("id", row.task.task))
        entry = items.setdefault(name, {"id": name, "turns": list(context_of(shown)), "replies": {}, "ratings": {}})
        entry["replies"][row.bot] = reply
        numbers.setdefault((name, row.bot), {}).setdefault(row.participant, []).append(row.number)
    for (name, bot), own in numbers.items():
        # the same place in every list is the same participant; null where they did not rate this reply
        items[name]["ratings"][bot] = [_mean(own[person]) if person in own else None for person in people]
    scale = {} if asked_about.least is None else {"scale": [asked_about.least, asked_about.most]}
    for entry in items.values():
        yield orjson.dumps({**entry, **scale}, option=orjson.OPT_APPEND_NEWLINE)


def _mean(numbers: Sequence[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return int(mean) if mean.is_integer() else mean


def _voted_items(task: StudyTask) -> Iterator[bytes]:
    for side in task.sides:
        bot = task.bot_of(side.side)
        before = list[str]()
        for turn in side.turns:
            if turn.role is TurnRole.BOT and turn.vote and before and bot is not None:
                yield orjson.dumps(
                    {
                        "id": f"{task.task}/{side.side.value}/{turn.n}",
                        "turns": list(before),
                        "replies": {bot.bot: turn.text},
                        "ratings": {bot.bot: [turn.vote]},
                        "scale": list(_VOTES),
                    },
                    option=orjson.OPT_APPEND_NEWLINE,
                )
            before.append(turn.text)


def rated_conversations(tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> Iterator[bytes]:
    """Yield rated dialogues, a line each, which `refaug agreement hybrid` and `refaug studies import` read."""
    counted = [task for task in tasks if task.is_done and task.check in {None, TaskCheck.DEGRADED}]
    scales = {(entry.least, entry.most) for entry in questions if entry.least is not None}
    if len(scales) > 1:
        raise BadInput("the questions have several scales, and conversations have one", remedy="--format jsonl")
    turned = [entry.id for entry in questions if entry.is_reversed]
    is_empty = True
    for task in counted:
        for side in task.sides:
            line = _conversation(task, side.side, questions, turned, scales)
            if line is not None:
                is_empty = False
                yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
    if is_empty:
        raise BadInput("the study has no rated dialogue", remedy="--format items for single replies, acute for pairs")


def _conversation(
    task: StudyTask, side: TaskSideName, questions: Sequence[AskedQuestion], turned: Sequence[str], scales: set[Any]
) -> Mapping[str, Any] | None:
    bot, dialogue = task.bot_of(side), task.side_of(side)
    scales_asked = {entry.id for entry in questions if entry.type is AnswerType.NUMBER}
    ratings = {
        name: answer for name, answer in task.answers_of(side).items() if name in scales_asked and answer is not None
    }
    if bot is None or dialogue is None or not ratings or TurnRole.BOT not in {turn.role for turn in dialogue.turns}:
        return None
    (scale,) = scales or {(None, None)}
    return {
        "id": task.task if len(task.sides) == 1 else f"{task.task}/{side.value}",
        "participant": task.participant,
        "bot": bot.bot,
        "is_degraded": task.check is TaskCheck.DEGRADED,
        "turns": [
            {"role": turn.role.value, "text": turn.text, **({} if turn.vote is None else {"vote": turn.vote})}
            for turn in dialogue.turns
        ],
        "ratings": ratings,
        **({} if scale[0] is None else {"scale": list(scale)}),
        "reversed": [name for name in turned if name in ratings],
    }


# ── Reference weights ─────────────────────────────────────────────────────────────────────────────────────────────────


def reference_weights(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield the weight of every rated reference, a line each, with the number of its ratings."""
    counted = [task for task in main_tasks(tasks) if task.kind is StudyKind.RATE_REFERENCE]
    if not counted:
        raise BadInput("the study rates no references", remedy="a study of kind rate-reference")
    rows = list(rating_rows(counted, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    if asked_about.least is None or asked_about.most is None:
        raise BadInput(f"the scale of {asked_about.id} is not known", remedy="--protocol FILE")
    numbers: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        shown = row.task.item or {}
        reference = shown.get("reference")
        if row.question == asked_about.id and isinstance(reference, str):
            numbers.setdefault((str(shown.get("id", row.task.task)), reference), []).append(row.number)
    middle, half = (asked_about.most + asked_about.least) / 2, (asked_about.most - asked_about.least) / 2
    for (item_id, reference), own in numbers.items():
        weight = (fsum(own) / len(own) - middle) / half
        line = {"item": item_id, "reference": reference, "weight": round(weight, 12), "ratings": len(own)}
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


# ── Pairs of a better and a worse reply to the same context, as trainers of preferences (DPO) read them ───────────────


def preference_pairs(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[bytes]:
    """Yield prompt, chosen and rejected, a line each, with the number of participants behind it."""
    counted = main_tasks(tasks)
    chosen = [task for task in counted if task.kind is StudyKind.PAIR_REPLY]
    rated = [task for task in counted if task.kind is StudyKind.RATE_REPLY]
    if not chosen and not rated:
        raise BadInput(
            "preferences need replies to one context, and the study has none",
            remedy="a study of kind pair-reply or rate-reply",
        )
    lines = [*_of_choices(chosen, questions, question)] if chosen else [*_of_ratings(rated, questions, question)]
    for line in lines:
        yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _of_choices(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[dict[str, object]]:
    rows = list(choice_rows(tasks, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    votes: dict[tuple[str, str, str], list[int]] = {}
    shown_of: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        shown = row.task.item or {}
        if row.question != asked_about.id or not isinstance(shown.get("replies"), Mapping):
            continue
        name = str(shown.get("id", row.task.task))
        shown_of[name] = {**shown, "replies": {**shown_of.get(name, {}).get("replies", {}), **shown["replies"]}}
        first, second, outcome = (
            (row.left, row.right, row.outcome) if row.left < row.right else (row.right, row.left, -row.outcome)
        )
        votes.setdefault((name, first, second), []).append(outcome)
    for (name, first, second), outcomes in votes.items():
        total = sum(outcomes)
        if total:
            better, worse = (first, second) if total > 0 else (second, first)
            yield _pair(name, shown_of[name], shown_of[name]["replies"], better, worse, len(outcomes), abs(total))


def _of_ratings(
    tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion], question: str | None
) -> Iterator[dict[str, object]]:
    rows = list(rating_rows(tasks, questions))
    asked_about = chosen_question(questions, {row.question for row in rows}, question)
    numbers: dict[str, dict[str, list[float]]] = {}
    replies: dict[str, dict[str, str]] = {}
    shown_of: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        shown = row.task.item or {}
        if row.question != asked_about.id or not isinstance(shown.get("reply"), str):
            continue
        name = str(shown.get("id", row.task.task))
        shown_of.setdefault(name, shown)
        replies.setdefault(name, {})[row.bot] = shown["reply"]
        numbers.setdefault(name, {}).setdefault(row.bot, []).append(row.number)
    for name, of_bots in numbers.items():
        for first, second in combinations(sorted(of_bots), 2):
            gap = sum(of_bots[first]) / len(of_bots[first]) - sum(of_bots[second]) / len(of_bots[second])
            if gap and replies[name][first] != replies[name][second]:
                better, worse = (first, second) if gap > 0 else (second, first)
                people = min(len(of_bots[first]), len(of_bots[second]))
                yield _pair(name, shown_of[name], replies[name], better, worse, people, abs(gap))


def _pair(
    name: str, shown: Mapping[str, Any], replies: Mapping[str, str], better: str, worse: str, people: int, margin: float
) -> dict[str, object]:
    context = context_of(shown)
    roles = ["user" if (len(context) - place) % 2 else "assistant" for place in range(len(context))]
    return {
        "prompt": [{"role": role, "content": text} for role, text in zip(roles, context, strict=True)],
        "chosen": [{"role": "assistant", "content": replies[better]}],
        "rejected": [{"role": "assistant", "content": replies[worse]}],
        "item": name,
        "chosen_bot": better,
        "rejected_bot": worse,
        "participants": people,
        "margin": margin,
    }


# ── Pairs of whole dialogues in the form that ACUTE-Eval reads: what was shown side by side, or chats to be paired ────

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


# ── The formats in which a study is exported, and the choice among them ───────────────────────────────────────────────


class ExportFormat(StrEnum):
    """What an export is for."""

    JSONL = "jsonl"  # everything; refaug studies import reads it
    CSV = "csv"  # exchanges, with the columns of neural_chat_web
    ITEMS = "items"  # for refaug agreement
    CONVERSATIONS = "conversations"  # for refaug agreement hybrid
    ACUTE = "acute"  # pairs of dialogues
    DPO = "dpo"  # pairs of replies
    WEIGHTS = "weights"  # of references, for refaug sets derive


def export_study(
    tasks: Iterable[StudyTask],
    protocol: Mapping[str, Any] | None,
    form: ExportFormat,
    *,
    question: str | None = None,
    kept_only: bool = False,
    with_pilot: bool = False,
) -> Iterator[bytes]:
    """Yield the bytes of an export; the order of the tasks changes nothing.

    Participants whom the rules of the protocol leave out are in it unless `kept_only`. Tasks of the pilot are in jsonl
    alone, unless `with_pilot`.
    """
    listed = sorted(tasks, key=task_order)
    questions = protocol_questions(protocol, listed)
    if question is not None and form not in {ExportFormat.ITEMS, ExportFormat.DPO, ExportFormat.WEIGHTS}:
        raise Usage(f"question with format {form.value}, which has all questions", remedy="leave it out")
    if form is not ExportFormat.JSONL and not with_pilot:
        listed = [task for task in listed if not task.pilot]
    left_out = exclusions(listed, (protocol or {}).get("exclude") or {}, questions)
    used = left_out.kept(listed) if kept_only else listed
    match form:
        case ExportFormat.JSONL:
            yield from map(task_line, used)
        case ExportFormat.CSV:
            yield from chat_records(used, left_out.reasons)
        case ExportFormat.ITEMS:
            yield from rated_items(used, questions, question)
        case ExportFormat.CONVERSATIONS:
            yield from rated_conversations(used, questions)
        case ExportFormat.ACUTE:
            yield from dialogue_pairs(used)
        case ExportFormat.DPO:
            yield from preference_pairs(used, questions, question)
        case ExportFormat.WEIGHTS:
            yield from reference_weights(used, questions, question)
