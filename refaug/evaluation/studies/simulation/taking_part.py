"""A simulated person at a server: from the invitation to the code by the requests that the participants' page sends.

A request without an answer is sent again with its id, as the page does: the server does it once. What the server has
acknowledged is written down, to be compared with what it stores.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from refaug.bots.endpoint.rate_limit import retry_after_s
from refaug.core.backoff import Backoff
from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, RefaugError, Unavailable
from refaug.evaluation.studies.simulation.answering import AnsweringPerson, Place
from refaug.evaluation.studies.simulation.people import Carelessness

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
        raise BadInput(f"{response.url.host} answers no JSON", remedy="the address of a refaug server")
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
        answers = self.person.answers(task, await self.bots_of(task["id"]))
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
            if len(acknowledged.messages) >= max(1, self.protocol["min_turns"]):
                return True
            replies = [message["text"] for message in messages if message["role"] == "bot"]
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
