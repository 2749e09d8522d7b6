"""A pilot rehearsed with simulated people at a running server, and what it stored compared with what was planned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import numpy as np
from scipy import stats

from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.evaluation.studies.assignment.next_task import bot_pairs
from refaug.evaluation.studies.assignment.williams import planned_order, williams_rows
from refaug.evaluation.studies.exclusions import Exclusions, exclusions
from refaug.evaluation.studies.questions import (
    ATTENTION,
    AskedQuestion,
    choice_rows,
    main_tasks,
    protocol_questions,
    rating_rows,
)
from refaug.evaluation.studies.records import StudyKind, StudyTask, TurnRole
from refaug.evaluation.studies.simulation import taking_part
from refaug.evaluation.studies.simulation.answering import REFERENCES, AnsweringPerson, RehearsedPeople
from refaug.evaluation.studies.simulation.people import careless_places
from refaug.evaluation.studies.simulation.rehearsal import caught_shares

MOST_TOGETHER: Final = 200
_TIMEOUT_S: Final = 60.0
_TIME_RULES: Final = ("seconds_per_turn_below", "seconds_per_task_below")


@dataclass(kw_only=True)
class ServerRehearsal:
    """The people who came, in the order of their places; interrupted or not, it can be compared."""

    people: RehearsedPeople
    protocol: Mapping[str, Any]
    attended: list[taking_part.Attended] = field(default_factory=list)
    is_interrupted: bool = False

    @property
    def codes(self) -> frozenset[str]:
        """The codes of all who came."""
        return frozenset(each.code for each in self.attended if each.code)

    def run(
        self,
        server: str,
        token: str,
        bots_of: Callable[[str], Mapping[str, str]],
        *,
        together: int,
        progress: Progress,
    ) -> None:
        """Let the people take part, so many at once; an interruption ends it, and what was acknowledged counts."""
        require_server(server)
        if not 1 <= together <= MOST_TOGETHER:
            raise Usage(f"{together} people at once", remedy=f"1 to {MOST_TOGETHER}")
        progress.stage("simulated people", self.people.participants, "people")
        try:
            asyncio.run(self._all(server, token, bots_of, together, progress))
        except KeyboardInterrupt:
            self.is_interrupted = True
        except BaseExceptionGroup as group:
            raise _first_error(group) from group

    async def _all(
        self,
        server: str,
        token: str,
        bots_of: Callable[[str], Mapping[str, str]],
        together: int,
        progress: Progress,
    ) -> None:
        careless = careless_places(self.people.participants, self.people.careless, self.people.seed)
        places = iter(range(self.people.participants))
        context = httpx2.create_ssl_context(trust_env=False)

        async def of_task(task: str) -> Mapping[str, str]:
            return await asyncio.to_thread(bots_of, task)

        async def work(shared: Iterator[int]) -> None:
            for place in shared:
                attended = taking_part.Attended(kind=careless.get(place))
                self.attended.append(attended)
                async with httpx2.AsyncClient(
                    base_url=f"{server.rstrip('/')}/", timeout=_TIMEOUT_S, verify=context, trust_env=False
                ) as http:
                    participant = taking_part.SimulatedParticipant(
                        person=AnsweringPerson(self.people, place, attended.kind),
                        browser=taking_part.ParticipantBrowser(http),
                        protocol=self.protocol,
                        bots_of=of_task,
                        attended=attended,
                    )
                    await participant.take_part(token)
                progress.advance(1)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(together, self.people.participants)):
                group.create_task(work(places))

    # ── planned and stored ────────────────────────────────────────────────────────────────────────────────────────────

    def comparison(self, stored: Sequence[StudyTask]) -> dict[str, object]:
        """Return what was planned and acknowledged beside what the server stored of these people."""
        tasks = [task for task in stored if task.participant in self.codes]
        questions = protocol_questions(self.protocol, tasks)
        rules = dict(self.protocol["exclude"])
        idle = [rule for rule in _TIME_RULES if rule in rules and not self.people.pace_s]
        for rule in idle:
            del rules[rule]
        out = exclusions(tasks, rules, questions)
        careless = {each.code: each.kind for each in self.attended if each.kind is not None}
        return {
            "participants": self.people.participants,
            "interrupted": self.is_interrupted,
            "ends": dict(sorted(Counter(_end_of(each) for each in self.attended if each.code).items())),
            "bot_failures": sum(each.bot_failures for each in self.attended),
            "stored": self._stored(tasks),
            "balance": self._balance(tasks),
            "caught": caught_shares({task.participant for task in tasks}, careless, out.reasons),
            "by_rule": out.by_rule(),
            "rules_not_tried": idle,
            **self._recovery(tasks, out, questions),
        }

    def _stored(self, tasks: Sequence[StudyTask]) -> dict[str, int]:
        """Count what was acknowledged and is not stored so: none, on a server that keeps its word."""
        by_id = {task.task: task for task in tasks if task.is_done}
        acknowledged = {name: task for each in self.attended for name, task in each.tasks.items() if task.is_finished}
        pairs = [(task, by_id[name]) for name, task in acknowledged.items() if name in by_id]
        return {
            "acknowledged": len(acknowledged),
            "stored": len(by_id),
            "lost": len(acknowledged) - len(pairs),
            "answers": sum(len(filled) for task in acknowledged.values() for filled in task.answers.values()),
            "answers_that_differ": sum(_differing_answers(task, record) for task, record in pairs),
            "messages": sum(len(task.messages) for task in acknowledged.values()),
            "messages_that_differ": sum(_differing_messages(task, record) for task, record in pairs),
        }

    def _balance(self, tasks: Sequence[StudyTask]) -> dict[str, object]:
        """Return the tasks of each bot, beside those of the plan where all came to their end."""
        plain = main_tasks(tasks)
        of_bots = Counter(bot.bot for task in plain for bot in task.bots)
        lefts = Counter((bot.bot, bot.side.value) for task in plain for bot in task.bots)
        bots = [bot for bot in self.people.qualities if bot not in self.people.degraded]
        planned = self._planned(bots, len({task.participant for task in plain}))
        return {
            "stored": {bot: of_bots.get(bot, 0) for bot in bots},
            "planned": planned,
            "largest_difference": _spread([of_bots.get(bot, 0) for bot in bots]),
            "planned_difference": None if planned is None else _spread(list(planned.values())),
            "left": {bot: lefts[bot, "left"] for bot in bots} if StudyKind(self.protocol["kind"]).is_pair else None,
        }

    def _planned(self, bots: Sequence[str], people: int) -> dict[str, int] | None:
        """Return the tasks of each bot in the Williams order of so many people; None where there is no such order."""
        kind = StudyKind(self.protocol["kind"])
        if kind not in {StudyKind.CHAT, StudyKind.CHAT_PAIR} or self.protocol["order"] != "williams":
            return None
        is_pair = kind is StudyKind.CHAT_PAIR
        slots: list[tuple[int, ...]] = list(bot_pairs(len(bots))) if is_pair else [(n,) for n in range(len(bots))]
        rows, planned = williams_rows(len(slots)), Counter[str]()
        for place in range(people):
            for slot in planned_order(rows, place % len(rows), self.protocol["per_participant"]):
                planned.update(bots[number] for number in slots[slot])
        return {bot: planned[bot] for bot in bots}

    def _recovery(
        self, tasks: Sequence[StudyTask], out: Exclusions, questions: Sequence[AskedQuestion]
    ) -> dict[str, object]:
        """Return the mean of each bot, or reference, beside its truth, and how far the order is the true one."""
        groups = {"all": list(tasks), "kept": out.kept(tasks)}
        means = {name: self._means(main_tasks(group), questions) for name, group in groups.items()}
        truth = self._truth(tasks)
        subjects = [subject for subject in truth if all(subject in own for own in means.values())]
        order = {name: _order([own[subject] for subject in subjects], [truth[s] for s in subjects])
                 for name, own in means.items()}  # fmt: skip
        return {
            "order": order,
            "means": {
                subject: {"truth": truth[subject], **{name: own.get(subject) for name, own in means.items()}}
                for subject in truth
            },
        }

    def _truth(self, tasks: Sequence[StudyTask]) -> dict[str, float]:
        bots = {bot: self.people.qualities[bot] for bot in self.people.qualities if bot not in self.people.degraded}
        if StudyKind(self.protocol["kind"]) is not StudyKind.RATE_REFERENCE:
            return bots
        texts = {str(task.item["reference"]) for task in tasks if task.item and "reference" in task.item}
        return {text: self.people.reference_quality(text) for text in sorted(texts)}

    def _means(self, tasks: Sequence[StudyTask], questions: Sequence[AskedQuestion]) -> dict[str, float]:
        """Return means of ratings, each at its place from 0 to 1 of its scale; without scales, shares of choices."""
        scales = {question.id: question for question in questions}
        numbers = dict[str, list[float]]()
        for row in rating_rows(tasks, questions):
            least, most = scales[row.question].least or 0.0, scales[row.question].most or 1.0
            subject = str((row.task.item or {}).get("reference")) if row.bot == REFERENCES else row.bot
            numbers.setdefault(subject, []).append((row.number - least) / (most - least))
        if not numbers:
            for choice in choice_rows(tasks, questions):
                numbers.setdefault(choice.left, []).append((1 + choice.outcome) / 2)
                numbers.setdefault(choice.right, []).append((1 - choice.outcome) / 2)
        return {subject: float(np.mean(own)) for subject, own in numbers.items()}


def require_server(server: str) -> None:
    """Refuse what is no address of a server."""
    try:
        url = httpx2.URL(server)
    except httpx2.InvalidURL as error:
        raise Usage(f"--server {server[:80]!r}: {error}", remedy="http://127.0.0.1:8000") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        raise Usage(f"--server {url.host or server[:80]!r} is no address of a server", remedy="http://127.0.0.1:8000")


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _end_of(attended: taking_part.Attended) -> str:
    if not attended.has_ended:
        return "not at the end"
    return f"{attended.step}: {attended.reason}" if attended.reason else attended.step


def _differing_answers(task: taking_part.AcknowledgedTask, record: StudyTask) -> int:
    differing = 0
    turns = {(side.side.value, turn.n): turn.labels or {} for side in record.sides for turn in side.turns}
    for (side, turn), filled in task.answers.items():
        for question, answer in filled.items():
            if turn:
                labels = turns.get((side, turn), {})
                differing += not isinstance(labels, dict) or labels.get(question) != answer
            elif question == ATTENTION:
                differing += not isinstance(record.answers.get(ATTENTION), bool)
            else:
                differing += record.answers.get(f"{side}/{question}" if side else question) != answer
    return differing


def _differing_messages(task: taking_part.AcknowledgedTask, record: StudyTask) -> int:
    if not task.messages:
        return 0
    differing = 0
    for side in record.sides:
        own = [(turn.n, turn.text) for turn in side.turns if turn.role is TurnRole.PARTICIPANT]
        differing += sum(message not in own for message in task.messages) + abs(len(own) - len(task.messages))
    return differing


def _spread(counts: Sequence[int]) -> int:
    return max(counts) - min(counts) if counts else 0


def _order(means: Sequence[float], truth: Sequence[float]) -> dict[str, object]:
    """Return the rank correlation with the truth; None where nothing has an order."""
    if len(means) < 2 or len(set(means)) < 2 or len(set(truth)) < 2:
        return {"found": None, "spearman": None}
    correlation = float(stats.spearmanr(means, truth).statistic)
    return {"found": correlation > 1 - 1e-9, "spearman": correlation}
