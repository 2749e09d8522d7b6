"""Score a test file over HTTP, with nothing but the standard library, and print the table of `refaug score`.

python examples/score_over_http.py http://127.0.0.1:8000 items.jsonl --metric upsilon-bleu --metric bleu --percent
"""  # noqa: INP001  a script

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from service.cli.common import counted, print_line, print_table
from service.cli.scoring import number


def post(server: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request, packed; an error of the service ends the script with its code and what would help."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    if os.environ.get("REFAUG_TOKEN"):
        headers["Authorization"] = f"Bearer {os.environ['REFAUG_TOKEN']}"
    packed = gzip.compress(json.dumps(body).encode(), 1)
    request = urllib.request.Request(f"{server.rstrip('/')}{path}", packed, headers)  # noqa: S310  what was typed
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        sys.exit(f"{problem['code']}: {problem['detail']} {problem.get('remedy') or ''}")


def scores(server: str, items: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """All items in one request; a file larger than the service takes at once goes by `"return": "stats"`."""
    lines = items.read_text("utf-8").splitlines()
    return post(server, "/v1/scores", {"items": [json.loads(line) for line in lines if line.strip()], **settings})


def show(found: dict[str, Any], baseline: str | None) -> None:
    """What `refaug score` prints of the same answer."""
    for one in found["scores"]:
        scale = one["scale"]
        columns = ("system", f"{scale:g}×corpus" if scale > 1 else "corpus", "interval", "mean", "scored", "unscored")
        rows = [
            (
                name,
                number(of["corpus"], scale),
                span(of["interval"], scale),
                number(of["mean"], scale),
                of["scored"],
                ", ".join(f"{count:,} {code}" for code, count in of["unscored_by_reason"].items()) or 0,
            )
            for name, of in one["systems"].items()
        ]
        print_table(one["signature"], columns, rows)
        if one.get("comparisons"):
            print_table(f"against {baseline}", *comparisons(one["comparisons"], scale))
    drawn = found["resampling"]
    how = f"; intervals: {drawn['confidence']:.4g} of {drawn['draws']:,} draws, seed {drawn['seed']}"
    print_line(f"data {found['data']}: {counted(found['items'], 'item')}{how if drawn['draws'] else ''}")


def comparisons(found: dict[str, Any], scale: float) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """A system a row: how far it is from the baseline, and how sure that is."""
    columns = ("system", "difference", "interval", "p bootstrap", "p randomisation", "replies")
    rows = [
        (
            name,
            number(of["difference"], scale),
            span(of["interval"], scale),
            number(of["p_bootstrap"]),
            number(of["p_randomisation"]),
            of["replies"],
        )
        for name, of in found.items()
    ]
    return columns, rows


def span(bounds: list[float] | None, scale: float) -> str:
    """An interval."""
    return "-" if bounds is None else f"[{number(bounds[0], scale)}, {number(bounds[1], scale)}]"


def options() -> argparse.ArgumentParser:
    """What can be asked for; the same words as those of `refaug score`."""
    parser = argparse.ArgumentParser(description="Score a test file over HTTP.")
    parser.add_argument("server")
    parser.add_argument("items", type=Path)
    parser.add_argument("--metric", action="append", dest="metrics", help="repeat it for several")
    parser.add_argument("--index")
    parser.add_argument("--rater")
    parser.add_argument("--baseline")
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--percent", action="store_true")
    return parser


def main(arguments: list[str]) -> None:
    """Ask once, print once."""
    given = vars(options().parse_args(arguments))
    server, items = given.pop("server"), given.pop("items")
    show(scores(server, items, {name: value for name, value in given.items() if value is not None}), given["baseline"])


if __name__ == "__main__":
    main(sys.argv[1:])
