"""`refaug studies simulate`: a study rehearsed with simulated people before real ones come.

With `--study`, they take part in its pilot at a running server (`server_rehearsals`); without, no server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_facts, print_json
from refaug.cli.shared.progress import display_progress
from refaug.cli.studies.server_rehearsals import (
    QUALITIES,
    DrawnOptions,
    ServerOptions,
    print_caught,
    rehearse_on_server,
)
from refaug.cli.studies.study_source import read_protocol
from refaug.core.errors import BadInput, Usage
from refaug.core.files import write_aside
from refaug.core.options.declaring import Doc, Ge, Le, Metavar
from refaug.core.options.decoding import Options


@dataclass(frozen=True, kw_only=True)
class ChatOptions(Options):
    """Studies of chats that are simulated without a server."""

    protocol: Annotated[
        Path | None,
        Metavar("FILE"),
        Doc("The frozen protocol of the study, a JSON file: its questions, rules of exclusion and analysis."),
    ] = None
    tasks: Annotated[int, Ge(1), Le(1_000), Doc("Tasks of each, without checks.")] = 4
    studies: Annotated[int, Ge(1), Le(10_000), Doc("Studies to simulate.")] = 20
    protocol_output: Annotated[Path | None, Metavar("FILE"), Doc("File for its protocol.")] = None


@with_options
def simulate_command(
    context: typer.Context,
    *,
    at_server: ServerOptions,
    chats: ChatOptions,
    drawn: DrawnOptions,
    as_json: JsonFlag = False,
) -> None:
    """Rehearse a study with people whose truth is known: whom the rules catch, and which bots are seen.

    Careless people answer at random, always the same, without regard to the bot, or hurry and copy. Without --study,
    chats are simulated and no bot is asked; with --protocol, its questions on a scale and its rules of exclusion are
    used. With --study, people take part in its pilot at the server, from consent to the code, and what it stored is
    compared with what was planned. Ctrl-C ends it, and compares what there is.
    """
    if at_server.study is not None:
        if chats.stated:
            raise Usage("it has no effect with --study", remedy="leave it out", field=min(chats.stated))
        rehearse_on_server(context.obj, at_server, drawn, as_json=as_json)
        return
    from refaug.evaluation.studies.simulation.people import SimulatedPeople  # noqa: PLC0415  scipy
    from refaug.evaluation.studies.simulation.rehearsal import rehearse  # noqa: PLC0415  scipy

    people = SimulatedPeople(
        qualities=_parsed_qualities(drawn.qualities or QUALITIES),
        tasks=chats.tasks,
        **drawn.people(),
        **({} if chats.protocol is None else _of_protocol(chats.protocol)),
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        if drawn.output is not None or chats.protocol_output is not None:
            _write_first(people, drawn.seed, drawn.output, chats.protocol_output)
        rehearsal = rehearse(people, studies=chats.studies, seed=drawn.seed, progress=progress)
    if as_json:
        print_json(rehearsal)
        return
    print_caught(rehearsal)
    facts: dict[str, object] = {
        f"true order found, {name}": f"{row['found']:.3f} (mean rank correlation {row['spearman']:.3f})"
        for name, row in rehearsal["order"].items()
    }
    print_facts(
        f"{chats.studies} studies of {drawn.participants}",
        {**facts, "tasks of two bots differ by at most": rehearsal["balance"]},
    )


def _parsed_qualities(text: str) -> dict[str, float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError as error:
        raise Usage(f"--qualities {text}: {error}", remedy=QUALITIES) from error
    return {f"bot-{place}": number for place, number in enumerate(numbers, 1)}


def _of_protocol(path: Path) -> Mapping[str, Any]:
    """Return the questions on one scale and the rules of a protocol."""
    from refaug.evaluation.studies.questions import AnswerType, protocol_questions  # noqa: PLC0415

    document = read_protocol(path)
    scales = [entry for entry in protocol_questions(document, ()) if entry.type is AnswerType.NUMBER]
    ends = {(entry.least, entry.most) for entry in scales}
    if len(ends) != 1:
        raise BadInput(f"{path}: its questions have {len(ends)} scales", remedy="questions that share one scale")
    ((least, most),) = ends
    return {
        "questions": tuple(entry.id for entry in scales),
        "least": int(least or 0),
        "most": int(most or 0),
        "exclude": dict(document.get("exclude") or {}),
    }


def _write_first(people: Any, seed: int, output: Path | None, protocol_output: Path | None) -> None:
    import orjson  # noqa: PLC0415

    from refaug.evaluation.studies.records import task_order, write_tasks  # noqa: PLC0415
    from refaug.evaluation.studies.simulation.people import simulated_study  # noqa: PLC0415

    study = simulated_study(people, seed)
    if output is not None:
        with write_aside(output) as file:
            write_tasks(sorted(study.tasks, key=task_order), file)
    if protocol_output is not None:
        with write_aside(protocol_output) as file:
            file.write(orjson.dumps(study.protocol, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
