"""The list of all attacks of tests/integration/attacks, with what is answered: docs/reference/attacks.md.

python tests/attacks_reference.py [--check] docs/reference/attacks.md
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from attack_cases import BODIES, FOLDER, REQUESTS, joined, request_of

HEAD = """# Attacks

What the attack suite sends to a server, and what comes back; `tests/attacks_reference.py` writes this page.
Each row is a test: `make test` sends it to a server in the same process,
`make test-all` to `refaug serve` with one web process and with two, with keys and without.
[The threat model](../internals/threat-model.md) has the boundaries, [service.md](../service.md) the limits.
"""


def page() -> str:
    """Return the page."""
    return "\n".join((HEAD, *_requests(), *_bodies(), *_connections()))


def _requests() -> Iterator[str]:
    yield f"## Requests: {len(REQUESTS)}\n"
    yield "Bytes as they go over the socket. Several answers stand in their order; “none” is a connection that ends.\n"
    yield "| attack | bytes | answers |"
    yield "|---|--:|---|"
    for name, case in REQUESTS.items():
        yield f"| {_cell(name)} | {len(joined(case['send'])):,} | {_in_row(case['answers'])} |"
    yield ""


def _bodies() -> Iterator[str]:
    yield f"## Bodies: {len(BODIES)}\n"
    yield "Bodies of requests that are whole; packed ones by gzip.\n"
    yield "| attack | sent to | bytes | unpacked | status |"
    yield "|---|---|--:|--:|---|"
    for name, case in BODIES.items():
        sent = request_of(case).partition(b"\r\n\r\n")[2]
        statuses = " or ".join(map(str, case["statuses"]))
        unpacked = len(joined(case["body"]))
        yield f"| {_cell(name)} | `{case['path']}` | {len(sent):,} | {unpacked:,} | {statuses} |"
    yield ""


def _connections() -> Iterator[str]:
    tests = ast.parse((FOLDER / "test_connections.py").read_text("utf-8")).body
    names = [test.name for test in tests if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")]
    yield f"## Connections: {len(names)}\n"
    yield "Slow, silent and half-closed ones, against limits of time that the tests make short:\n"
    yield from (f"- {name.removeprefix('test_').replace('_', ' ')}" for name in names)
    yield ""


def _in_row(statuses: Sequence[int]) -> str:
    """The statuses in a row; equal neighbours once, with their number."""
    runs = [(status, len(list(run))) for status, run in groupby(statuses)]
    return ", ".join(str(status) if count == 1 else f"{count} × {status}" for status, count in runs) or "none"


def _cell(name: str) -> str:
    return name.replace("|", "\\|").replace("\t", " (tab)")


def main() -> int:
    """Write the page, or compare it with the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing; exit code 1 if they differ")
    options = parser.parse_args()
    if not options.check:
        options.file.write_text(page(), "utf-8")
    elif options.file.read_text("utf-8") != page():
        sys.stderr.write(f"{options.file} is not as the cases are; `make docs` writes it\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
