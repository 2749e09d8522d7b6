"""A local server: `refaug serve` as a child process on a Unix socket, for as long as a block lasts.

Between this process and the server stands a small process, the keeper. It holds one end of a pipe whose other end only
this process has: however this process ends, killed included, the pipe closes, and the keeper stops the server and
removes its folder. The server has a separate session, so that Ctrl-C reaches this process only, which then stops it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from ._core import errors
from ._http.call import Answer, Call
from ._http.connection import Connection
from ._http.settings import KEY_VARIABLE, NO_RETRY, URL_VARIABLE, ConnectionSettings

C = TypeVar("C")
AnyPath = Union[str, "os.PathLike[str]"]

URL = "http://localhost"  # the Host header; the connection is made to the socket
_LONGEST_PATH = 100  # bytes: the address of a Unix socket has 104 or 108, depending on the system
_LOOK_S = 0.05
_ASK_S = 5.0
_LOG_CHARACTERS = 4_000  # characters of the log in an error
_SHUTDOWN_S = 10.0  # for requests of other clients; this client's have ended before
_FORCE_S = 15.0  # what the server takes beyond that to put things in order

# What the keeper runs: the standard library only, so that it starts fast.
_KEEPER = r"""
import os, select, shutil, signal, subprocess, sys

folder, force_s, *command = sys.argv[1:]
keeper = os.getpid()
try:
    import ctypes
    prctl = ctypes.CDLL(None).prctl
except Exception:
    prctl = None


def dies_with_keeper():
    # if the keeper is killed, the system stops the server; on Linux only
    if prctl:
        prctl(1, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)


with open(os.path.join(folder, "log"), "wb") as log:
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=dies_with_keeper
        )
    except OSError as error:
        log.write(("%s: %s" % (command[0], error.strerror or error)).encode("utf-8", "replace"))
        log.flush()
        server = None

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: server and server.poll() is None and server.terminate())


def is_wanted():
    return not select.select([0], [], [], 0.1)[0]  # nothing is ever written: it can be read once the other end closes


while server is not None and server.poll() is None and is_wanted():
    pass
if server is not None and server.poll() is None:
    server.terminate()
    try:
        server.wait(float(force_s))
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
try:
    os.write(1, b"%d\n" % (127 if server is None else server.returncode))
except OSError:
    pass
while is_wanted():  # the parent may still want to read the log
    pass
shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True)
class ServerStart:
    """Which server to start, and how long it may take."""

    home: Optional[str] = None
    server: Optional[tuple[str, ...]] = None
    options: tuple[str, ...] = ()
    ready_s: float = 300.0

    def __post_init__(self) -> None:
        if not self.ready_s > 0:
            raise errors.Usage(
                f"ready_s={self.ready_s} is not a time in which a server can start", remedy="more than 0"
            )

    @classmethod
    def of(
        cls,
        home: Optional[AnyPath] = None,
        *,
        server: Union[str, Sequence[str], None] = None,
        options: Sequence[str] = (),
        ready_s: float = 300.0,
    ) -> ServerStart:
        """Return the start from the user's arguments; a single text is a command, not its letters."""
        if isinstance(options, str):
            raise errors.Usage(f"options={options!r} is one text", remedy=f"a list: options={options.split()!r}")
        command = (server,) if isinstance(server, str) else None if server is None else tuple(server)
        if command is not None and (not command or not all(isinstance(part, str) and part for part in command)):
            raise errors.Usage(
                f"server={server!r} is not a command", remedy="server=['/path/to/refaug'], or leave it out"
            )
        if home is not None and not os.fspath(home):
            raise errors.Usage("home is empty", remedy="a folder, or leave it out for REFAUG_HOME")
        return cls(
            home=None if home is None else str(Path(os.fspath(home)).expanduser().absolute()),
            server=command,
            options=tuple(options),
            ready_s=ready_s,
        )

    def command(self, uds: str) -> list[str]:
        """Return the whole command; the user's options come first, so that none of them moves the socket."""
        home = [] if self.home is None else ["--home", self.home]
        program = list(self.server) if self.server is not None else [find_command()]
        return [*program, *home, "--quiet", "serve", "--shutdown-s", f"{_SHUTDOWN_S:g}", *self.options, "--uds", uds]


def find_command() -> str:
    """Return the `refaug` command beside this Python, else one on the PATH; Usage where there is none."""
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent) if sys.executable else ""]
    with suppress(KeyError):
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    for folder in folders:
        if folder and (command := shutil.which("refaug", path=folder)):
            return command
    if command := shutil.which("refaug"):
        return command
    raise errors.Usage(
        f"there is no refaug command, neither beside {sys.executable or 'this Python'} nor on the PATH",
        remedy="install refaug in this environment, or server=['/path/to/refaug'] with the one to start",
    )


class Server:
    """A server that this process started, and stops."""

    def __init__(self, starting: ServerStart) -> None:
        self.starting = starting
        self.folder = _private_folder()
        self.uds = str(self.folder / "s")
        self._pid = os.getpid()
        self._exit_code: Optional[int] = None
        self._stopping = threading.Event()
        try:
            self._keeper = subprocess.Popen(  # noqa: S603  this interpreter, and a command of this module
                [
                    *(sys.executable or "python3", "-I", "-S", "-c", _KEEPER),
                    *(str(self.folder), f"{_SHUTDOWN_S + _FORCE_S:g}", *starting.command(self.uds)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=_environment(),
                start_new_session=True,
            )
            assert self._keeper.stdout is not None
            os.set_blocking(self._keeper.stdout.fileno(), False)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        _STARTED.add(self)

    def wait_until_ready(self) -> None:
        """Wait until the server answers that it is ready; NotStarted says why it does not."""
        deadline = time.monotonic() + self.starting.ready_s
        connection = Connection(ConnectionSettings(url=URL, uds=self.uds, retry=NO_RETRY, connections=1))
        missing = ["an answer"]
        try:
            while time.monotonic() < deadline and not self._stopping.is_set():
                self._require_running()
                if _is_listening(self.uds):  # httpcore leaves a socket that could not connect to the garbage collector
                    with suppress(errors.NoAnswer, errors.BadAnswer, errors.Later):
                        if not (missing := connection.send(_READY, timeout_s=_ASK_S)):
                            return
                self._stopping.wait(_LOOK_S)
        finally:
            connection.close()
        raise errors.NotStarted(
            f"the server was not ready within {self.starting.ready_s:g} s: {', '.join(missing)}",
            remedy="ready_s=… for more time",
            log=self.log(),
        )

    def _require_running(self) -> None:
        if self.exit_code is None:
            return
        log = self.log()
        code, message, remedy = _parse_error(log)
        raise errors.NotStarted(
            message
            or f"the server ended with exit code {self.exit_code} before it was ready: {log.strip() or 'no word'}",
            remedy=remedy,
            code=code,
            exit_code=self.exit_code,
            log=log,
        )

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code of the server; None while it runs."""
        if self._exit_code is None and self._keeper.stdout is not None and not self._keeper.stdout.closed:
            with suppress(BlockingIOError):  # the keeper has not written yet
                exit_line = os.read(self._keeper.stdout.fileno(), 100)
                self._exit_code = (
                    int(exit_line) if exit_line else -9
                )  # the keeper was killed, and the server goes with it
        return self._exit_code

    def log(self) -> str:
        """Return the end of the server's output."""
        try:
            return (self.folder / "log").read_text("utf-8", "replace")[-_LOG_CHARACTERS:]
        except OSError:
            return ""

    def stop(self) -> None:
        """Stop the server and wait until it is gone; do nothing in a forked process: the server is the parent's."""
        if self._pid != os.getpid() or self._keeper.stdin is None:
            return
        self._stopping.set()
        self._keeper.stdin.close()
        try:
            self._keeper.wait(_SHUTDOWN_S + 2 * _FORCE_S)
        except BaseException:  # Ctrl-C a second time: now it has to end at once
            self._keeper.terminate()
            self._keeper.wait(_FORCE_S)
            raise
        finally:
            if self._keeper.stdout is not None:
                self._keeper.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def forked(self) -> None:
        """In a forked process: close the pipe, or the server would live as long as this process does."""
        for stream in (self._keeper.stdin, self._keeper.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._keeper.returncode = 0  # not this process's child, and nothing to wait for


def _is_listening(uds: str) -> bool:
    """Whether a connection can be made."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ASK_S)
        return probe.connect_ex(uds) == 0


def _read_missing(answer: Answer) -> list[str]:
    """Return what a server is not ready for; nothing where it is ready."""
    if answer.status == 200:
        return []
    document = answer.json()
    missing = document.get("missing")
    return (
        [str(one) for one in missing] if missing else [str(document.get("detail", "it does not say what is missing"))]
    )


_READY: Call[list[str]] = Call("GET", "/readyz", _read_missing, expected=(503,))


def _parse_error(log: str) -> tuple[str, str, str]:
    """Return the error that a refaug command ends with, from its log: code, message, remedy."""
    lines = log.splitlines()
    for place in range(len(lines) - 1, -1, -1):
        begin, bracket, rest = lines[place].partition("]: ")
        if begin.startswith("error [") and bracket:
            return begin[len("error [") :], rest, " ".join(line.strip() for line in lines[place + 1 :])
    return "", "", ""


def _private_folder() -> Path:
    """Make a folder that only this user can read, with a path short enough for a socket."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "fork"):
        raise errors.Usage(
            "this system has no Unix sockets", remedy="start refaug serve elsewhere, and Client(url) for it"
        )
    for parent in dict.fromkeys((tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp")):  # noqa: S108
        if not parent or len(os.fsencode(parent)) + len("/refaug-12345678/s") > _LONGEST_PATH:
            continue
        try:
            return Path(tempfile.mkdtemp(prefix="refaug-", dir=parent))
        except OSError:
            continue
    raise errors.Usage(
        "there is no folder for temporary files that a socket fits into",
        remedy=f"a TMPDIR that can be written to, with a path shorter than {_LONGEST_PATH - 20} bytes",
    )


def _environment() -> dict[str, str]:
    """Return the environment of the server: without the client's key, and without the user's folders of modules.

    A `torch.py` beside a notebook is no library of the server. Folders in which packages are installed stay, and so
    does a checkout of refaug.
    """
    environment = {name: setting for name, setting in os.environ.items() if name not in (URL_VARIABLE, KEY_VARIABLE)}
    folders = [folder for folder in environment.pop("PYTHONPATH", "").split(os.pathsep) if folder]
    if installed := list(filter(_has_packages, folders)):
        environment["PYTHONPATH"] = os.pathsep.join(installed)
    environment["PYTHONSAFEPATH"] = "1"
    return environment


def _has_packages(folder: str) -> bool:
    checkout = Path(folder) / "refaug" / "core" / "version.py"
    return checkout.exists() or next(Path(folder).glob("*.dist-info"), None) is not None


class Local(Generic[C]):
    """A server and a client of it, for as long as a block lasts: the result of `Client.local`."""

    def __init__(self, starting: ServerStart, client: Callable[[str], C]) -> None:
        self._starting, self._client_of = starting, client
        self._server: Optional[Server] = None
        self._client: Any = None

    def __enter__(self) -> C:
        self._server = _start_server(self._server, self._starting)
        try:
            self._server.wait_until_ready()
            client = self._client = self._client_of(self._server.uds)
        except BaseException:
            self._server.stop()
            raise
        return client

    def __exit__(self, *_error: object) -> None:
        assert self._server is not None  # the block was entered
        try:
            self._client.close()
        finally:
            self._server.stop()


class AsyncLocal(Generic[C]):
    """A server and a client of it for `async with`; a thread waits, and the loop goes on."""

    def __init__(self, starting: ServerStart, client: Callable[[str], C]) -> None:
        self._starting, self._client_of = starting, client
        self._server: Optional[Server] = None
        self._client: Any = None

    async def __aenter__(self) -> C:
        self._server = _start_server(self._server, self._starting)
        try:
            await asyncio.to_thread(self._server.wait_until_ready)
            client = self._client = self._client_of(self._server.uds)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._server.stop))
            raise
        return client

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None  # the block was entered
        try:
            await self._client.close()
        finally:
            await asyncio.shield(asyncio.to_thread(self._server.stop))


def _start_server(before: Optional[Server], starting: ServerStart) -> Server:
    if before is not None:
        raise errors.Usage("this server was started before", remedy="Client.local(…) again for another one")
    return Server(starting)


_STARTED: weakref.WeakSet[Server] = weakref.WeakSet()


def _after_fork() -> None:
    for server in list(_STARTED):
        server.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
