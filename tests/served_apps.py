"""Apps for the tests of the supervisor: plain ASGI, so that a web process is there at once."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.service.process.server import serve
from refaug.service.server_settings import ServeSettings

if TYPE_CHECKING:
    from fastapi import FastAPI


class App:
    """Says who it is and what it was told; /slow takes `SLOW_S`, and /silent keeps every other thread from running."""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
            return
        path = scope["path"]
        if path == "/slow":
            Path(os.environ["BEGUN"]).touch()
            await asyncio.sleep(float(os.environ["SLOW_S"]))
        elif path == "/silent":
            hold_the_interpreter(3_600)
        told = {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "environment": dict(os.environ),
            "scheme": scope["scheme"],
            "root_path": scope["root_path"],
            "path": scope["path"],
        }
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(told).encode()})

    async def live(self, receive, send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        Path(os.environ["REFAUG_HOME"], f"ended-{os.getpid()}").touch()
        await send({"type": "lifespan.shutdown.complete"})


def hold_the_interpreter(seconds: int) -> None:
    """As a library does that computes without letting go: no other thread of this process runs meanwhile."""
    ctypes.PyDLL(None).sleep(seconds)


def quick() -> App:
    return App()


def silent() -> App:
    """One that opens something large: it writes down that it was begun, and says nothing for SILENT_S."""
    with Path(os.environ["REFAUG_HOME"], "begun").open("a") as file:
        file.write(f"{os.getpid()}\n")
    hold_the_interpreter(int(os.environ["SILENT_S"]))
    return App()


def opens_slowly() -> FastAPI:
    """The service itself, on a machine where opening an index takes SILENT_S and leaves no time for anything else."""
    from refaug.service.serving.versions import version_opener  # noqa: PLC0415  heavy, and nothing for the other apps
    from refaug.service.web.app import from_env  # noqa: PLC0415

    open_index = version_opener.open_index

    def slowly(*asked: Any, **how: Any) -> Any:
        hold_the_interpreter(int(os.environ["SILENT_S"]))
        return open_index(*asked, **how)

    version_opener.open_index = slowly
    return from_env()


def one_opens_slowly() -> FastAPI:
    """The service itself, of which the first process takes SILENT_S for opening an index, and the others none."""
    from refaug.service.serving.versions import version_opener  # noqa: PLC0415
    from refaug.service.web.app import from_env  # noqa: PLC0415

    try:
        Path(os.environ["REFAUG_HOME"], "first").touch(exist_ok=False)
    except FileExistsError:
        return from_env()
    open_index = version_opener.open_index

    def slowly(*asked: Any, **how: Any) -> Any:
        time.sleep(float(os.environ["SILENT_S"]))
        return open_index(*asked, **how)

    version_opener.open_index = slowly
    return from_env()


def broken() -> App:
    raise ValueError(f"secret of {os.environ['REFAUG_HOME']}")


def main(app: str, *given: str) -> int:
    """What a test runs in a process of its own: a server of one of these apps, `NAME=VALUE` being its settings."""
    settings = {"port": "0", "job_worker": "no", "shutdown_s": "5", **dict(one.split("=", 1) for one in given)}
    environment = {f"REFAUG_{name.upper()}": value for name, value in settings.items()}
    try:
        serve(Settings.from_env(), ServeSettings.from_env(environment), tell=_say, app=f"served_apps:{app}")
    except RefaugError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return error.exit_code
    return 0


def _say(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
