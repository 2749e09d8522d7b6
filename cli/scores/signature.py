"""`refaug signature …`: what signatures say."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from refaug.cli.shared.output import JsonFlag, print_json, print_line, print_table

app = typer.Typer(help="Compare the signatures of scores.", no_args_is_help=True)

_Signature = typer.Argument(help="A signature, short or full.", metavar="SIGNATURE")


@app.callback()
def signature_group() -> None:
    """Compare the signatures of scores."""


@app.command("diff")
def diff_command(
    first: Annotated[str, _Signature], second: Annotated[str, _Signature], as_json: JsonFlag = False
) -> None:
    """Say in what two signatures differ; details are compared where both are full."""
    from refaug.evaluation.metric_setup.signature_requests import signature_differences  # noqa: PLC0415  numpy
    from refaug.metrics.signature import Signature  # noqa: PLC0415

    differences = signature_differences(Signature.parse(first), Signature.parse(second))
    if as_json:
        print_json({"same": not differences, "differences": [asdict(difference) for difference in differences]})
    elif differences:
        rows = [(difference.key, difference.first, difference.second) for difference in differences]
        print_table("what differs", ("key", "first", "second"), rows)
    else:
        print_line("the same metric, settings and versions")
