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

from refaug.cli.shared.output import count_of, print_line, print_table
from refaug.cli.shared.score_options import number


def post(server: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send one request, compressed; an error of the service ends the script with its code and remedy."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    if os.environ.get("REFAUG_TOKEN"):
        headers["Authorization"] = f"Bearer {os.environ['REFAUG_TOKEN']}"
    packed = gzip.compress(json.dumps(body).encode(), 1)
    request = urllib.request.Request(f"{server.rstrip('/')}{path}", packed, headers)  # noqa: S310  what was typed
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
            document: dict[str, Any] = json.load(answer)
            return document
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        sys.exit(f"{problem['code']}: {problem['detail']} {problem.get('remedy') or ''}")


def scores(server: str, items: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Score all items in one request; larger files are sent in parts with `"return": "stats"`."""
    lines = items.read_text("utf-8").splitlines()
    return post(server, "/v1/scores", {"items": [json.loads(line) for line in lines if line.strip()], **settings})


def show(document: dict[str, Any], baseline: str | None) -> None:
    """Print the tables that `refaug score` prints of the same answer."""
    if len(document["scores"]) > 1:
        print_table("all metrics: corpus scores", *side_by_side(document["scores"]))
    for metric_scores in document["scores"]:
        scale = metric_scores["scale"]
        columns = ("system", f"{scale_of(metric_scores)}corpus", "interval", "mean", "scored", "unscored")
        rows = [
            (
                name,
                number(of["corpus"], scale),
                span(of["interval"], scale),
                number(of["mean"], scale),
                of["scored"],
                ", ".join(f"{count:,} {code}" for code, count in of["unscored_by_reason"].items()) or 0,
            )
            for name, of in metric_scores["systems"].items()
        ]
        print_table(metric_scores["signature"], columns, rows)
        if metric_scores.get("comparisons"):
            print_table(f"against {baseline}", *comparisons(metric_scores["comparisons"], scale))
    drawn = document["resampling"]
    how = f"; intervals: {drawn['confidence']:.4g} of {drawn['draws']:,} draws, seed {drawn['seed']}"
    print_line(f"data {document['data']}: {count_of(document['items'], 'item')}{how if drawn['draws'] else ''}")


def side_by_side(scores: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return a row for each system, with its corpus score by each metric."""
    columns = ("system", *(f"{scale_of(one)}{one['metric']}" for one in scores))
    rows = [
        (name, *(number(one["systems"][name]["corpus"], one["scale"]) for one in scores))
        for name in scores[0]["systems"]
    ]
    return columns, rows


def scale_of(metric_scores: dict[str, Any]) -> str:
    """Return what a column's numbers are multiplied by, as text."""
    return f"{metric_scores['scale']:g}×" if metric_scores["scale"] > 1 else ""


def comparisons(compared: dict[str, Any], scale: float) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return a row for each system: its difference from the baseline, and how sure that is."""
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
        for name, of in compared.items()
    ]
    return columns, rows


def span(bounds: list[float] | None, scale: float) -> str:
    """Return an interval as text."""
    return "-" if bounds is None else f"[{number(bounds[0], scale)}, {number(bounds[1], scale)}]"


def options() -> argparse.ArgumentParser:
    """Return the parser of the options, which are those of `refaug score`."""
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
    """Score once, print once."""
    settings = vars(options().parse_args(arguments))
    server, items = settings.pop("server"), settings.pop("items")
    show(
        scores(server, items, {name: value for name, value in settings.items() if value is not None}),
        settings["baseline"],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
