"""A pilot rehearsed with simulated people at a running server, and what it stored compared with what was planned."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import numpy as np
from scipy import stats

from refaug.bots.endpoint.client import retry_after_s
from refaug.core.backoff import Backoff
from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, RefaugError, Unavailable, Usage
from refaug.core.progress import Progress
from refaug.extras.studies.assignment import bot_pairs, planned_order, williams_rows
from refaug.extras.studies.exclusions import Exclusions, exclusions
from refaug.extras.studies.questions import (
    ACTIVE,
    ATTENTION,
    AskedQuestion,
    choice_rows,
    main_tasks,
    protocol_questions,
    rating_rows,
)
from refaug.extras.studies.records import StudyKind, StudyTask, TurnRole
from refaug.extras.studies.simulation.people import (
    REFERENCES,
    AnsweringPerson,
    Carelessness,
    Place,
    RehearsedPeople,
    careless_places,
)
from refaug.extras.studies.simulation.rehearsal import caught_shares

BotsOf = Callable[[str], Awaitable[Mapping[str, str]]]  # the bot on each side of a task of this id

_PATIENCE_S: Final = 120.0  # that a request is sent again
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0
_WAIT_FOR_REPLY_S: Final = 20
_REPLY_WITHIN_S: Final = 600.0
_MOST_FAILURES: Final = 5  # of bots, after which a person goes away
_MOST_ACTS: Final = 10_000  # of one person, who would otherwise never come to an end
_ERRORS: Final[Mapping[int, type[RefaugError]]] = {
    401: NoKey, 403: NotAllowed, 404: NotFound, 409: Conflict, 422: BadInput,
}  # fmt: skip
_AGAIN: Final = frozenset({429, 502, 503, 504})


@dataclass(kw_only=True)
class AcknowledgedTask:
    """What the server has said that it stored of a task."""

    answers: dict[Place, dict[str, object]] = field(default_factory=dict)
    messages: list[tuple[int, str]] = field(default_factory=list)  # number and text
    is_finished: bool = False


@dataclass(kw_only=True)
class Attended:
    """What became of a simulated person."""

    kind: Carelessness | None
    code: str = ""
    step: str = ""  # of the server, at the end
    reason: str | None = None  # why the person was screened out
    tasks: dict[str, AcknowledgedTask] = field(default_factory=dict)
    bot_failures: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether the person came to an end of the study."""
        return self.step not in ("", "consent", "training", "ready", "task")


class ParticipantBrowser:
    """The requests of one participant, whose cookie the client keeps."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self.state: Mapping[str, Any] = {}

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Do something, and return what it has done; the state is the one afterwards."""
        headers = {"X-Action": f"simulated-{secrets.token_hex(12)}"}
        content = await self._ask("POST", path, json=dict(body or {}), headers=headers)
        self.state = content.get("state", content) if "done" in content else content
        return content.get("done", {}) if "done" in content else {}

    async def settle(self) -> None:
        """Wait until no reply of the current task is being made."""
        until = time.monotonic() + _REPLY_WITHIN_S
        while any(message["state"] == "asked" for message in self._messages()):
            if time.monotonic() > until:
                raise Unavailable(f"no reply of a bot in {_REPLY_WITHIN_S:g} seconds", remedy="look at the bots")
            self.state = await self._ask("GET", f"state?wait={_WAIT_FOR_REPLY_S}")

    @property
    def has_failed_reply(self) -> bool:
        """Whether some reply of the current task has failed."""
        return any(message["state"] == "failed" for message in self._messages())

    @property
    def turns_done(self) -> int:
        """How many messages of the current task some bot has replied to."""
        replies = (message for message in self._messages() if message["role"] == "bot" and message["n"] > 1)
        return len({message["n"] for message in replies if message["state"] == "answered"})

    def _messages(self) -> list[Mapping[str, Any]]:
        task = self.state.get("task")
        return [message for side in task["sides"] for message in side["messages"]] if task else []

    async def _ask(self, method: str, path: str, **content: Any) -> Mapping[str, Any]:
        until, backoff = time.monotonic() + _PATIENCE_S, Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
        while True:
            wait_s = backoff.next_s()
            try:
                response = await self._http.request(method, f"v1/take/{path}", **content)
            except httpx2.TransportError as error:
                problem = f"{self._http.base_url} does not answer: {type(error).__name__}"
            else:
                if response.status_code == 200:
                    return _object(response)
                if response.status_code not in _AGAIN:
                    raise _refusal(response)
                problem = f"{self._http.base_url} answers {response.status_code}"
                wait_s = max(wait_s, min(retry_after_s(response.headers.get("retry-after")) or 0, _LONGEST_WAIT_S))
            if time.monotonic() + wait_s > until:
                raise Unavailable(problem, remedy="start the server with refaug serve, and name it with --server")
            await asyncio.sleep(wait_s)


def _object(response: httpx2.Response) -> Mapping[str, Any]:
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise BadInput(f"{response.url.host} does not answer with JSON", remedy="the address of a refaug server")
    return content


def _refusal(response: httpx2.Response) -> RefaugError:
    """Return the error that an answer stands for, in the server's words."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    detail, remedy = "", "the address of a refaug server"
    if isinstance(problem, dict):
        detail, remedy = str(problem.get("detail") or ""), str(problem.get("remedy") or "")
    named = _ERRORS.get(response.status_code, Unavailable)
    return named(
        f"{response.request.url.path}: {detail or f'status {response.status_code}'}", remedy=remedy or "see its log"
    )


@dataclass(kw_only=True)
class SimulatedParticipant:
    """A person with a browser, and what is true of the tasks."""

    person: AnsweringPerson
    browser: ParticipantBrowser
    protocol: Mapping[str, Any]
    bots_of: BotsOf
    attended: Attended

    async def take_part(self, token: str) -> None:
        """Open the invitation, and do what the study asks for until its end."""
        browser, attended = self.browser, self.attended
        await browser.post("session", {"token": token})
        attended.code = browser.state["code"]
        if browser.state["study"]["state"] != "pilot":
            await browser.post("withdraw")
            raise Conflict(
                f"the study is {browser.state['study']['state']} and takes no simulated people; who came has withdrawn",
                remedy="a study whose pilot is running: refaug studies pilot STUDY",
            )
        for _ in range(_MOST_ACTS):
            self._note_step()
            if attended.bot_failures >= _MOST_FAILURES:
                return
            match browser.state["step"]:
                case "consent":
                    await self._agree()
                case "training":
                    await self._train()
                case "ready":
                    await browser.post("tasks/next")
                case "task":
                    await self._do_task()
                case _:
                    return
        raise Conflict(f"{attended.code} comes to no end", remedy="look at the participant in the pages of the study")

    def _note_step(self) -> None:
        state = self.browser.state
        self.attended.step = state["step"]
        self.attended.reason = (state["completion"] or {}).get("reason")

    async def _agree(self) -> None:
        body = {
            "sha256": self.browser.state["consent"]["sha256"],
            "agree": True,
            "screening": self.person.screening(self.protocol["screening"]),
        }
        await self.browser.post("consent", body)

    async def _train(self) -> None:
        training = self.browser.state["training"]
        item = training["item"]["id"]
        right = next(entry["answers"] for entry in self.protocol["training"]["items"] if entry["id"] == item)
        answers = self.person.training(training["form"], right, training["attempt"])
        await self.browser.post("training", {"item": item, "answers": answers})

    async def _do_task(self) -> None:
        browser, task = self.browser, self.browser.state["task"]
        acknowledged = self.attended.tasks.setdefault(task["id"], AcknowledgedTask())
        if "min_turns" in self.protocol:
            if not await self._chat(task["id"], acknowledged):
                await browser.post(f"tasks/{task['id']}/skip", {"reason": "bot_failed"})
                self.attended.bot_failures += 1
                return
        else:
            await self._pause(_turns_to_read(task))
        task = browser.state["task"]
        first_turn = 2 if browser.state["study"].get("opening") == "fixed" else 1
        answers = self.person.answers(task, await self.bots_of(task["id"]), first_turn)
        for (side, turn), filled in answers.items():
            body = {"answers": filled, **({"side": side} if side else {}), **({"n": turn} if turn else {})}
            await browser.post(f"tasks/{task['id']}/answers", body)
            acknowledged.answers[side, turn] = filled
        await browser.post(f"tasks/{task['id']}/finish")
        acknowledged.is_finished = True

    async def _chat(self, task: str, acknowledged: AcknowledgedTask) -> bool:
        """Write as many messages as the study wants, and return whether the bots replied."""
        browser = self.browser
        await browser.settle()
        while True:
            if browser.has_failed_reply:
                await browser.post(f"tasks/{task}/retry")
                await browser.settle()
                if browser.has_failed_reply:
                    return False
            messages = browser.state["task"]["sides"][0]["messages"]
            if browser.turns_done >= max(1, self.protocol["min_turns"]):
                return True
            replies = [message["text"] or "" for message in messages if message["role"] == "bot"]
            text = self.person.message(replies[-1] if replies else "")[: self.protocol["max_message_chars"]]
            await self._pause(1)
            n = messages[-1]["n"] + 1 if messages else 1
            await browser.post(f"tasks/{task}/messages", {"n": n, "text": text})
            acknowledged.messages.append((n, text))
            await browser.settle()

    async def _pause(self, turns: int) -> None:
        await asyncio.sleep(sum(self.person.pause_s() for _ in range(turns)))


def _turns_to_read(task: Mapping[str, Any]) -> int:
    turns = sum(len(side["messages"]) for side in task["sides"]) + len(task["payload"].get("turns", ()))
    return max(1, turns)


MOST_TOGETHER: Final = 200
_TIMEOUT_S: Final = 60.0
_TIME_RULES: Final = ("seconds_per_turn_below", "seconds_per_task_below")


@dataclass(kw_only=True)
class ServerRehearsal:
    """The people who came, in the order of their places; interrupted or not, it can be compared."""

    people: RehearsedPeople
    protocol: Mapping[str, Any]
    attended: list[Attended] = field(default_factory=list)
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
                attended = Attended(kind=careless.get(place))
                self.attended.append(attended)
                async with httpx2.AsyncClient(
                    base_url=f"{server.rstrip('/')}/", timeout=_TIMEOUT_S, verify=context, trust_env=False
                ) as http:
                    participant = SimulatedParticipant(
                        person=AnsweringPerson(self.people, place, attended.kind),
                        browser=ParticipantBrowser(http),
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
        if self.protocol.get("routing") == ACTIVE:  # votes choose the pairs
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
        raise Usage(
            f"--server {url.host or server[:80]!r} is not an address of a server", remedy="http://127.0.0.1:8000"
        )


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _end_of(attended: Attended) -> str:
    if not attended.has_ended:
        return "not at the end"
    return f"{attended.step}: {attended.reason}" if attended.reason else attended.step


def _differing_answers(task: AcknowledgedTask, record: StudyTask) -> int:
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


def _differing_messages(task: AcknowledgedTask, record: StudyTask) -> int:
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
