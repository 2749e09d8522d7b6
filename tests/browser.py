"""A real browser for tests of pages: commands of the DevTools protocol over a pipe, one object for each tab."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# the shell is the same engine without the windows, menus and services of a browser, which take most of its start
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next((path for name in _NAMES if (path := shutil.which(name))), None)
_DEADLINE_S = 60.0
_FIRST_DESCRIPTOR = 64  # far above 3 and 4, where the browser looks for its pipe
_WORDS_OF_A_LEFT_PAGE = ("navigated or closed", "context was destroyed", "Cannot find context", "Cannot find default")
_NOTHING_TO_CLICK = re.compile(r"^TypeError: Cannot read properties of (undefined|null) \(reading '(click|focus)'\)")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *(
        "--no-first-run",
        "--disable-sync",
        "--hide-scrollbars",
        "--remote-debugging-pipe",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    ),
)


class PageWasLeft(AssertionError):
    """The page that was to answer made room for another one."""


@dataclass
class Pipe:
    """The pipe to a browser, which all of its tabs share."""

    to: int
    answers: int
    tabs: dict[str, Page] = field(default_factory=dict)
    _last: int = 0
    _rest: bytes = b""

    def send(self, session: str, method: str, parameters: dict[str, Any]) -> Any:
        """Return the browser's answer to a command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            received = self._next()
            if received.get("id") == self._last:
                if "error" in received:
                    left = any(words in received["error"].get("message", "") for words in _WORDS_OF_A_LEFT_PAGE)
                    raise (PageWasLeft if left else AssertionError)(method, received["error"])
                return received["result"]

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self.answers, 1 << 16) if ready else b""
            assert piece, "the browser says nothing any more"
            self._rest += piece
        whole, _, self._rest = self._rest.partition(b"\0")
        received: dict[str, Any] = json.loads(whole)
        tab = self.tabs.get(received.get("sessionId", ""))
        if tab is not None:
            tab.note(received.get("method", ""), received.get("params", {}))
        return received


@dataclass
class Page:
    """A tab with a page."""

    pipe: Pipe
    session: str = ""
    asked: list[str] = field(default_factory=list)  # addresses that the page has asked for
    said: list[str] = field(default_factory=list)  # errors and warnings of its console, refusals of its policy too
    sizes: dict[str, int] = field(default_factory=dict)  # bytes received, by address
    traced: list[dict[str, Any]] = field(default_factory=list)  # events of the last recording
    _is_recorded: bool = False
    _addresses: dict[str, str] = field(default_factory=dict)

    def tell(self, method: str, **parameters: Any) -> Any:
        """Return the browser's answer to a command."""
        return self.pipe.send(self.session, method, parameters)

    def note(self, event: str, about: dict[str, Any]) -> None:
        """Keep what a test may ask for of an event."""
        if event == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])
            self._addresses[about["requestId"]] = about["request"]["url"]
        elif event == "Network.loadingFinished" and about["requestId"] in self._addresses:
            self.sizes[self._addresses[about["requestId"]]] = int(about["encodedDataLength"])
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.said.append(f"{about['entry']['text']} {about['entry'].get('url', '')}".rstrip())
        elif event == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Tracing.dataCollected":
            self.traced.extend(about["value"])
        elif event == "Tracing.tracingComplete":
            self._is_recorded = True
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.said.append(json.dumps(about["args"]))

    def go(self, address: str) -> None:
        """Load another page."""
        self.tell("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of a script in the page; promises, and what it clicks, are waited for."""
        until = time.monotonic() + _DEADLINE_S
        while True:
            answer = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
            problem = answer.get("exceptionDetails")
            if problem is None:
                return answer["result"].get("value")
            is_coming = _NOTHING_TO_CLICK.search(problem.get("exception", {}).get("description", ""))
            assert is_coming, problem
            assert time.monotonic() < until, problem
            time.sleep(0.05)

    def until(self, script: str) -> Any:
        """Return the value of a script as soon as it is true, be it in the page that the tab is going to."""
        until = time.monotonic() + _DEADLINE_S
        while (value := self._run_in_either(script)) in (None, False, 0, ""):  # a node of the page comes as {}
            assert time.monotonic() < until, f"it never came: {script}; {self.said}"
            time.sleep(0.05)
        return value

    def _run_in_either(self, script: str) -> Any:
        """Return the value of a script, None where the tab went to another page in the middle of it."""
        try:
            return self.run(script)
        except PageWasLeft:
            return None

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Click an element as a mouse does, in its middle."""
        box = self.run(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            " node.scrollIntoView({block: 'center'}); const box = node.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.move(*box)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, selector: str, text: str) -> None:
        """Put the cursor into a field and type a text."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.run("document.activeElement.select()")
        self.tell("Input.insertText", text=text)

    def press(self, key: str, code: int = 0) -> None:
        """Press a key, such as Tab."""
        for kind in ("rawKeyDown", "keyUp"):
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def look(self, width: int, height: int = 900, *, scheme: str = "light") -> None:
        """Set the size of the window and the scheme of the system."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.tell("Emulation.setEmulatedMedia", features=features)

    def picture(self, *, whole: bool = True) -> bytes:
        """Return a picture of the page as PNG."""
        if not whole:
            return base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"])
        size = self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 4_000), "scale": 1}
        answer = self.tell("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    @contextmanager
    def recording(self, *categories: str) -> Iterator[list[dict[str, Any]]]:
        """Record events of these categories; the list is filled when the recording ends."""
        self.traced.clear()
        self._is_recorded = False
        self.tell("Tracing.start", transferMode="ReportEvents", traceConfig={"includedCategories": list(categories)})
        try:
            yield self.traced
        finally:
            self.tell("Tracing.end")
            while not self._is_recorded:
                self.run("1")  # the answers before this one are the events

    def other_tab(self, address: str) -> Page:
        """Open a second tab of the same browser, with an empty session storage."""
        return _new_tab(self.pipe, address)

    def other_device(self, address: str) -> Page:
        """Open a tab that shares nothing with the others: neither cookies nor storage."""
        context = Page(pipe=self.pipe).tell("Target.createBrowserContext")["browserContextId"]
        return _new_tab(self.pipe, address, browserContextId=context)

    def bodies(self, part: str) -> list[str]:
        """Return the bodies of all answers from addresses with this part, since the page was loaded."""
        ids = [request for request, address in self._addresses.items() if part in address]
        return [self.tell("Network.getResponseBody", requestId=request)["body"] for request in ids]


def _new_tab(pipe: Pipe, address: str, **where: str) -> Page:
    page = Page(pipe=pipe)
    target = page.tell("Target.createTarget", url="about:blank", **where)["targetId"]
    page.session = page.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    pipe.tabs[page.session] = page
    for domain in ("Network", "Log", "Runtime", "Page"):
        page.tell(f"{domain}.enable")
    page.tell("Page.navigate", url=address)
    if address != "about:blank":
        page.until("location.href !== 'about:blank' && document.readyState === 'complete'")
    return page


@contextmanager
def opened(address: str, folder: Path) -> Iterator[Page]:
    """A page in a browser that reaches nothing but addresses in numbers."""
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    browser_reads, browser_writes = _moved(in_read), _moved(out_write)
    assert CHROMIUM is not None
    script = f'exec "$@" 3<&{browser_reads} 4>&{browser_writes} {browser_reads}<&- {browser_writes}>&-'
    command = ["bash", "-c", script, "browser", CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}"]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(browser_reads, browser_writes), stdout=log, stderr=log)
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield _new_tab(Pipe(to=in_write, answers=out_read), address)
    finally:
        os.close(in_write)  # the browser ends when its pipe does
        os.close(out_read)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _moved(descriptor: int) -> int:
    """Return the descriptor under a number far above 4: closing 3 or 4 for the browser must not close the pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FIRST_DESCRIPTOR)
    os.close(descriptor)
    return moved
