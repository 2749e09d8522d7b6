"""`refaug admin doctor`: check whether everything is present that refaug needs, with a remedy where it is not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line
from refaug.core.errors import Corrupt, MissingPart
from refaug.service.doctor import Finding, FindingState, examine

_SIGNS = {FindingState.GOOD: "ok  ", FindingState.NOTE: "note", FindingState.WRONG: "BAD "}


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
    wrong = [finding for finding in findings if finding.state is FindingState.WRONG]
    if wrong:
        stored = ("log ", "index ", "rater ", "ruber ", "vhred ", "adem ", "vectors ", "set ")
        kind = Corrupt if all(finding.what.startswith(stored) for finding in wrong) else MissingPart
        raise kind(f"{count_of(len(wrong), 'thing')} to fix: {', '.join(finding.what for finding in wrong)}")


def _print(finding: Finding) -> None:
    print_line(f"{_SIGNS[finding.state]} {finding.what:<22} {finding.found}")
    if finding.remedy:
        print_line(f"     {'':<22} → {finding.remedy}")
