"""`refaug doctor`: is everything here that refaug needs, and what to do where it is not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from core.errors import Corrupt, MissingPart
from service.cli.common import JsonFlag, counted, print_json, print_line
from service.doctor import Finding, State, examine

_SIGNS = {State.GOOD: "ok  ", State.NOTE: "note", State.WRONG: "BAD "}


def doctor_command(
    context: typer.Context,
    verify: Annotated[bool, typer.Option("--verify", help="Read every artefact and compare its hashes.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check versions, threads, memory, disk, optional parts and stored artefacts; each trouble with its remedy."""
    findings = examine(context.obj, verify=verify)
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    wrong = [finding for finding in findings if finding.state is State.WRONG]
    if wrong:
        stored = ("log ", "index ", "rater ", "ruber ", "vectors ", "set ")
        kind = Corrupt if all(finding.what.startswith(stored) for finding in wrong) else MissingPart
        raise kind(f"{counted(len(wrong), 'thing')} to mend: {', '.join(finding.what for finding in wrong)}")


def _print(finding: Finding) -> None:
    print_line(f"{_SIGNS[finding.state]} {finding.what:<22} {finding.found}")
    if finding.remedy:
        print_line(f"     {'':<22} → {finding.remedy}")
