"""A real browser for tests of pages: told what to do, and asked what it did, over a pipe in the DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
_DEADLINE_S = 60.0
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *(
        "--no-first-run",
        "--disable-sync",
        "--remote-debugging-pipe",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ),
)


@dataclass
class Page:
    """A page that is open."""

    to: int
    answers: int
    session: str = ""
    asked: list[str] = field(default_factory=list)  # addresses that the page has asked for
    said: list[str] = field(default_factory=list)  # errors and warnings of its console, refusals of its policy too
    _last: int = 0
    _rest: bytes = b""

    def tell(self, method: str, **parameters: Any) -> Any:
        """What the browser answers to a command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._last:
                assert "error" not in told, told
                return told["result"]

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self.answers, 1 << 16) if ready else b""
            assert piece, "the browser says nothing any more"
            self._rest += piece
        whole, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(whole)
        self._note(told.get("method", ""), told.get("params", {}))
        return told

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.said.append(about["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.said.append(about["exceptionDetails"]["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.said.append(json.dumps(about["args"]))

    def run(self, script: str) -> Any:
        """What a script in the page gives."""
        found = self.tell("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> Any:
        """What a script gives as soon as it gives something."""
        until = time.monotonic() + _DEADLINE_S
        while not (found := self.run(script)):
            assert time.monotonic() < until, f"it never came: {script}; {self.said}"
            time.sleep(0.05)
        return found


@contextmanager
def opened(address: str, folder: Path) -> Iterator[Page]:
    """A page in a browser that reaches nothing but addresses in numbers."""
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    assert CHROMIUM is not None
    # the pipe is where the browser looks for it: 3 to read from, 4 to write to
    script = f'exec "$@" 3<&{in_read} 4>&{out_write} {in_read}<&- {out_write}>&-'
    command = ["bash", "-c", script, "browser", CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}"]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(in_read, out_write), stdout=log, stderr=log)
    os.close(in_read)
    os.close(out_write)
    try:
        page = Page(to=in_write, answers=out_read)
        target = page.tell("Target.createTarget", url="about:blank")["targetId"]
        page.session = page.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Network", "Log", "Runtime", "Page"):
            page.tell(f"{domain}.enable")
        page.tell("Page.navigate", url=address)
        yield page
    finally:
        os.close(in_write)  # it ends when nobody tells it anything any more
        os.close(out_read)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
