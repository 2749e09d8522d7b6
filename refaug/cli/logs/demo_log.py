"""`refaug log demo`: an invented log, to try the tool before real data is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.output import JsonFlag, print_json, print_line
from refaug.core.files import write_aside
from refaug.logs.demo.demo_items import DemoItemSettings, demo_item_lines
from refaug.logs.demo.generator import DemoSettings, demo_log_lines


def demo_log_command(
    dialogues: Annotated[int, typer.Option(help="How many dialogues.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed, another log; the same seed gives the same bytes.")] = 1,
    noise: Annotated[float, typer.Option(help="Share of the replies that belong to another topic.")] = 0.08,
    output: Annotated[Path, typer.Option(help="Where the dialogues go, JSONL.", metavar="FILE")] = Path(
        "demo-log.jsonl"
    ),
    items: Annotated[int, typer.Option(help="How many test items.")] = 200,
    items_output: Annotated[
        Path,
        typer.Option(
            help="Where the test items go: replies of four imaginary systems, with simulated ratings.", metavar="FILE"
        ),
    ] = Path("demo-items.jsonl"),
    as_json: JsonFlag = False,
) -> None:
    """Write a demo log and a matching test file; everything in them is invented here."""
    log = demo_log_lines(DemoSettings(dialogues=dialogues, seed=seed, noise=noise))
    tests = demo_item_lines(DemoItemSettings(items=items, seed=seed))
    for path, lines in ((output, log), (items_output, tests)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_aside(path) as file:
            for line in lines:
                file.write(line)
    if as_json:
        print_json(
            {"log": str(output), "dialogues": dialogues, "items_file": str(items_output), "items": items, "seed": seed}
        )
    else:
        print_line(f"{output}: {dialogues:,} dialogues; {items_output}: {items:,} test items (seed {seed})")
        print_line(f"next: refaug log ingest {output} --log demo")
