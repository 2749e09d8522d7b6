"""The last part of `make demo`: start the service, score over HTTP what the command has scored, and stay there.

    python examples/demo_service.py TABLE [--once] [--default-metric NAME] -- ITEMS [options of score_over_http.py]

TABLE is what `refaug score` has printed; the table over HTTP, through the client library, has to be the same. Ctrl-C
stops the service.
"""  # noqa: INP001  a script

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from refaug_client import Client
from score_over_http import options, show

READY_S = 600.0  # to open the index and the rater, and to compile


@contextmanager
def running(log: Path, metric: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server on port 8000, or on a free one, and yield it with its address; it is stopped at the end."""
    command = [sys.executable, "-m", "refaug", "serve", "--any-port", "--default-metric", metric]
    with log.open("w") as file:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)  # noqa: S603  ours
    with server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line.startswith("listening on "):
                sys.exit(f"the service did not start; {log} says why")
            yield server, line.removeprefix("listening on ").strip()
        finally:
            if server.poll() is None:
                server.terminate()


def wait_until_ready(server: subprocess.Popen[str], refaug: Client, log: Path) -> None:
    """Wait until everything that requests need is open."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.poll() is None:
        if refaug.ready():
            return
        time.sleep(0.1)
    sys.exit(f"the service did not become ready; {log} says why")


def table_of(refaug: Client, arguments: list[str]) -> str:
    """Return the table of `refaug score`, from scores that came over HTTP."""
    settings = vars(options().parse_args([refaug.url, *arguments]))
    _, items = settings.pop("server"), settings.pop("items")
    lines = items.read_text("utf-8").splitlines()
    scores = refaug.score([json.loads(line) for line in lines if line.strip()], batch=len(lines), **settings)
    with redirect_stdout(io.StringIO()) as printed:
        show(scores.to_dict(), settings["baseline"])
    return printed.getvalue()


def parser() -> argparse.ArgumentParser:
    """Return the options before `--`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--default-metric", default="", help="of requests that name none; else that of the index")
    return parser


def main(arguments: list[str]) -> int:
    """Return 0 when the tables are the same, and the service has ended well."""
    place = arguments.index("--")
    own, score_arguments = parser().parse_args(arguments[:place]), arguments[place + 1 :]
    log = own.table.with_name("serve.log")
    with running(log, own.default_metric) as (server, address):
        with Client(address, timeout_s=600.0) as refaug:
            wait_until_ready(server, refaug, log)
            print(f"the service answers on {address}; the same test file, through refaug_client:", flush=True)  # noqa: T201
            shown = table_of(refaug, score_arguments)
        print(shown, end="", flush=True)  # noqa: T201
        if shown != own.table.read_text("utf-8"):
            sys.exit(f"that is not the table that the command has printed: {own.table}")
        print("that is the table of the command")  # noqa: T201
        if not own.once:
            print(f"{address}/docs shows what can be asked; logs are in {log}; Ctrl-C stops it", flush=True)  # noqa: T201
            try:
                return server.wait()
            except KeyboardInterrupt:  # the service has received it as well, and finishes its requests
                return server.wait()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
