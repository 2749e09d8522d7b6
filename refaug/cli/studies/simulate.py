"""`refaug studies simulate`: a study rehearsed with simulated people before real ones come.

With `--study`, they take part in its pilot at a running server (`server_rehearsals`); without, no server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from refaug.cli.shared.output import JsonFlag, print_facts, print_json
from refaug.cli.shared.progress import display_progress
from refaug.cli.studies.server_rehearsals import DEFAULT_SERVER, ServerOptions, print_caught, rehearse_on_server
from refaug.cli.studies.study_source import ProtocolOption, read_protocol
from refaug.core.errors import BadInput, Usage
from refaug.core.files import write_aside

_QUALITIES = "4.6,4.2,3.8,3.4"
_SERVER_OPTIONS = ("server", "together", "pace")
_CHAT_OPTIONS = ("protocol", "tasks", "studies", "protocol_output")


def simulate_command(
    context: typer.Context,
    *,
    qualities: Annotated[
        str | None,
        typer.Option(
            help=f"The true quality of each bot, in points of the scale: {_QUALITIES} without --study. With it, in the "
            "order of its bots; left out, they differ by 0.4.",
            metavar="NUMBERS",
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option("--study", help="A study whose pilot is running: people come to its server.", metavar="STUDY"),
    ] = None,
    server: Annotated[
        str, typer.Option("--server", help="The address of the server, with --study.", metavar="URL")
    ] = DEFAULT_SERVER,
    together: Annotated[int, typer.Option(help="People at once, with --study.", min=1, max=200)] = 8,
    pace: Annotated[
        float,
        typer.Option(
            help="Seconds that an honest person takes for a message or a turn, with --study; at 0, the rules "
            "about seconds are not tried.",
            min=0.0,
            max=60.0,
        ),
    ] = 0.0,
    protocol: ProtocolOption = None,
    participants: Annotated[int, typer.Option(help="Participants of a study.", min=2, max=100_000)] = 60,
    tasks: Annotated[int, typer.Option(help="Tasks of each, without checks.", min=1, max=1_000)] = 4,
    careless: Annotated[
        float, typer.Option(help="Share of careless participants, of four kinds.", min=0.0, max=1.0)
    ] = 0.2,
    sd: Annotated[float, typer.Option(help="Standard deviation of a rating.", metavar="NUMBER")] = 1.3,
    rho: Annotated[
        float, typer.Option(help="Share of its variance that is the participant's level.", min=0.0, max=1.0)
    ] = 0.3,
    studies: Annotated[int, typer.Option(help="Studies to simulate.", min=1, max=10_000)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.", min=0)] = 1,
    output: Annotated[
        Path | None, typer.Option(help="File for the tasks, of the first study, for refaug studies report.")
    ] = None,
    protocol_output: Annotated[Path | None, typer.Option(help="File for its protocol.", metavar="FILE")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Rehearse a study with people whose truth is known: whom the rules catch, and which bots are seen.

    Careless people answer at random, always the same, without regard to the bot, or hurry and copy. Without --study,
    chats are simulated and no bot is asked; with --protocol, its questions on a scale and its rules of exclusion are
    used. With --study, people take part in its pilot at the server, from consent to the code, and what it stored is
    compared with what was planned. Ctrl-C ends it, and compares what there is.
    """
    _require_fitting(context, has_study=study is not None)
    if study is not None:
        rehearse_on_server(
            context.obj,
            ServerOptions(
                study=study,
                server=server,
                qualities=qualities,
                participants=participants,
                careless=careless,
                sd=sd,
                rho=rho,
                pace_s=pace,
                together=together,
                seed=seed,
                output=output,
                as_json=as_json,
            ),
        )
        return
    from refaug.evaluation.studies.simulation.people import SimulatedPeople  # noqa: PLC0415  scipy
    from refaug.evaluation.studies.simulation.rehearsal import rehearse  # noqa: PLC0415  scipy

    people = SimulatedPeople(
        qualities=_parsed_qualities(qualities or _QUALITIES),
        participants=participants,
        per_participant=tasks,
        careless=careless,
        sd=sd,
        rho=rho,
        **({} if protocol is None else _of_protocol(protocol)),
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        if output is not None or protocol_output is not None:
            _write_first(people, seed, output, protocol_output)
        rehearsal = rehearse(people, studies=studies, seed=seed, progress=progress)
    if as_json:
        print_json(rehearsal)
        return
    print_caught(rehearsal)
    facts: dict[str, object] = {
        f"true order found, {name}": f"{row['found']:.3f} (mean rank correlation {row['spearman']:.3f})"
        for name, row in rehearsal["order"].items()
    }
    print_facts(
        f"{studies} studies of {participants}", {**facts, "tasks of two bots differ by at most": rehearsal["balance"]}
    )


def _require_fitting(context: typer.Context, *, has_study: bool) -> None:
    """Refuse options that have no effect: those of a server without --study, those of simulated chats with it."""
    for name in _CHAT_OPTIONS if has_study else _SERVER_OPTIONS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            remedy = "leave it out" if has_study else "--study STUDY, whose pilot is running"
            raise Usage(f"{option} has no effect {'with' if has_study else 'without'} --study", remedy=remedy)


def _parsed_qualities(text: str) -> dict[str, float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError as error:
        raise Usage(f"--qualities {text}: {error}", remedy=_QUALITIES) from error
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
