"""The last part of `make demo`: start the service, score over HTTP what the command has scored, and stay there.

    python examples/demo_service.py TABLE [--once] -- ITEMS [options of score_over_http.py]

TABLE is what `refaug score` has printed; the table over HTTP has to be the same. Ctrl-C stops the service.
"""  # noqa: INP001  a script

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_S = 180.0  # to open the index and the rater, and to compile
HERE = Path(__file__).parent


@contextmanager
def running(log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on port 8000, or on any that is free, and its address; it is stopped at the end."""
    command = [sys.executable, "-m", "service.cli.main", "serve", "--any-port"]
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


def wait_until_ready(server: subprocess.Popen[str], address: str, log: Path) -> None:
    """Until everything that requests need is open."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=READY_S):  # noqa: S310  the address of our server
                return
        except urllib.error.HTTPError as error:  # 503, with what is missing
            error.close()
        time.sleep(0.1)
    sys.exit(f"the service did not become ready; {log} says why")


def main(arguments: list[str]) -> int:
    """0 when the tables are the same, and the service has ended well."""
    table, *more = arguments
    once, asked = more[:1] == ["--once"], more[more.index("--") + 1 :]
    log = Path(table).with_name("serve.log")
    with running(log) as (server, address):
        wait_until_ready(server, address, log)
        print(f"the service answers on {address}; the same test file, scored over HTTP:", flush=True)  # noqa: T201
        command = [sys.executable, str(HERE / "score_over_http.py"), address, *asked]
        shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603
        print(shown, end="", flush=True)  # noqa: T201
        if shown != Path(table).read_text("utf-8"):
            sys.exit(f"that is not the table that the command has printed: {table}")
        print("that is the table of the command")  # noqa: T201
        if not once:
            print(f"{address}/docs shows what can be asked; logs are in {log}; Ctrl-C stops it", flush=True)  # noqa: T201
            try:
                return server.wait()
            except KeyboardInterrupt:  # the service has got it as well, and lets its requests end
                return server.wait()
    return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
