"""A service with bots and studies, and participants who are scripted: what tests of studies share."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

CONSENT = "We store what you write and choose. You may stop at any time."
FORM = {
    "name": "one",
    "questions": [{"id": "quality", "text": "How good?", "type": "likert", "least": 1, "most": 7, "required": True}],
}
_COUNTER = itertools.count()


class Caller(Protocol):
    """What asks a server: a test client, or one over a socket."""

    cookies: Any

    def request(self, method: str, url: str, **given: Any) -> Any: ...


def action_id() -> str:
    """An id that no other action of the test run has."""
    return f"test-action-{next(_COUNTER):012d}"


def add_bots(client: Caller, *names: str, replies: int = 30) -> None:
    """Stored bots that replay texts of their own."""
    for name in names:
        texts = [f"{word_of(name)} says number {number}." for number in range(replies)]
        body = {"specification": {"kind": "replay", "replies": texts, "cycle": True}}
        answer = client.request("PUT", f"/v1/bots/{name}", json=body)
        assert answer.status_code in (200, 201), answer.text


def database_bytes(home: Path) -> bytes:
    """The bytes of the database, read by another process: closing its file here would give up SQLite's locks."""
    files = sorted(map(str, home.glob("refaug.db*")))
    return subprocess.run(["cat", *files], check=True, capture_output=True).stdout


def word_of(name: str) -> str:
    """A word for the replies of a bot that is not its name."""
    return "voice " + "".join(chr(ord("a") + (ord(character) * 7) % 26) for character in name)


def chat_protocol(*bots: str, **changes: Any) -> dict[str, Any]:
    """A protocol of chats with these bots."""
    return {"kind": "chat", "bots": list(bots), "min_turns": 3, "form": FORM, "consent": CONSENT, **changes}


def new_study(
    client: Caller, name: str, protocol: Mapping[str, Any], items: list[Any] | None = None, *, act: str = "open"
) -> str:
    """The token of an invitation to a new study, which is open."""
    body = {"name": name, "protocol": dict(protocol), **({"items": items} if items else {})}
    made = client.request("POST", "/v1/studies", json=body)
    assert made.status_code == 201, made.text
    opened = client.request("POST", f"/v1/studies/{name}/{act}")
    assert opened.status_code == 200, opened.text
    return invitation(client, name)


def invitation(client: Caller, study: str, **given: Any) -> str:
    """The token of a new invitation."""
    answer = client.request("POST", f"/v1/studies/{study}/invites", json=given)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["invites"][0]["token"])


@dataclass
class Person:
    """A participant at a browser of their own."""

    client: Caller
    state: dict[str, Any] = field(default_factory=dict)
    cookie: str = ""
    resume: str = ""  # of the link that was shown at the start
    raw: list[bytes] = field(default_factory=list)  # every body that the server has sent

    def post(self, path: str, body: Any = None, *, action: str | None = None) -> Any:
        """An answer; the state is the one that it has."""
        headers = {"X-Action": action or action_id(), "Cookie": f"refaug_take={self.cookie}"}
        answer = self.client.request("POST", f"/v1/take/{path}", json={} if body is None else body, headers=headers)
        self.raw.append(answer.content)
        if answer.status_code == 200:
            self.state = answer.json().get("state", answer.json())
        return answer

    def done(self, path: str, body: Any = None) -> dict[str, Any]:
        """The state after an action that has to work."""
        answer = self.post(path, body)
        assert answer.status_code == 200, answer.text
        return self.state

    def look(self, wait: float = 0) -> dict[str, Any]:
        """The state as it is now."""
        answer = self.client.request(
            "GET", f"/v1/take/state?wait={wait:g}", headers={"Cookie": f"refaug_take={self.cookie}"}
        )
        assert answer.status_code == 200, answer.text
        self.raw.append(answer.content)
        self.state = answer.json()
        return self.state

    def open(self, token: str, *, action: str | None = None, **given: Any) -> Any:
        """The answer to who opens a link in this browser."""
        headers = {
            "X-Action": action or action_id(),
            **({"Cookie": f"refaug_take={self.cookie}"} if self.cookie else {}),
        }
        answer = self.client.request("POST", "/v1/take/session", json={"token": token, **given}, headers=headers)
        self.client.cookies.clear()  # each person has a browser of their own
        return answer

    def enter(self, token: str, *, action: str | None = None, **given: Any) -> dict[str, Any]:
        """The state after the link was opened."""
        answer = self.open(token, action=action, **given)
        assert answer.status_code == 200, answer.text
        self.raw.append(answer.content)
        self.cookie = answer.headers["set-cookie"].partition("refaug_take=")[2].partition(";")[0]
        self.state = answer.json()
        self.resume = self.state.pop("resume") or self.resume
        return self.state

    def agree(self, **screening: Any) -> dict[str, Any]:
        """The state after consent."""
        body = {"sha256": self.state["consent"]["sha256"], "agree": True, "screening": screening}
        return self.done("consent", body)

    def say(self, text: str) -> dict[str, Any]:
        """The state when the reply to a message is there."""
        task = self.state["task"]
        last = task["sides"][0]["messages"][-1:]
        n = last[0]["n"] + 1 if last else 1
        self.done(f"tasks/{task['id']}/messages", {"n": n, "text": text})
        while any(message["state"] == "asked" for side in self.sides for message in side["messages"]):
            self.look(20)
        return self.state

    @property
    def sides(self) -> list[dict[str, Any]]:
        """The sides of the current task."""
        return list(self.state["task"]["sides"])

    def chat(self, turns: int = 3, **answers: Any) -> dict[str, Any]:
        """The state after a whole task."""
        if self.state["step"] == "ready":
            self.done("tasks/next")
        if self.state["step"] != "task":
            return self.state
        task = self.state["task"]["id"]
        for turn in range(turns):
            self.say(f"hello {turn}")
        self.done(f"tasks/{task}/answers", {"answers": answers or {"quality": 5}})
        return self.done(f"tasks/{task}/finish")
