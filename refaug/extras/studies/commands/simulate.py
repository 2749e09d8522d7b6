"""`refaug studies simulate`: a study rehearsed with simulated people before real ones come.

With `--study`, they take part in its pilot at a running server; without, no server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import open_database
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput, Conflict, Interrupted, MissingPart, Usage
from refaug.core.files import write_aside
from refaug.core.options.declaring import Doc, Ge, Le, Metavar
from refaug.core.options.decoding import Options
from refaug.core.options.describing import options_of
from refaug.extras.studies.commands.study_source import read_protocol
from refaug.extras.studies.simulation.people_options import PeopleOptions

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.extras.studies.participation.study_store import StoredStudy
    from refaug.extras.studies.records import StudyTask
    from refaug.extras.studies.simulation.people import RehearsedPeople
    from refaug.extras.studies.simulation.server_rehearsal import ServerRehearsal
    from refaug.service.database.database import Database


QUALITIES = "4.6,4.2,3.8,3.4"
_LABEL = "simulated people"
_HOURS = 24
_STEP = 0.4  # between the qualities of two bots
_SCALE = (1, 7)  # where a form has no scale


@dataclass(frozen=True, kw_only=True)
class ServerOptions(Options):
    """A rehearsal at a server: a study whose pilot is running, and how people come to it."""

    study: Annotated[
        str | None, Metavar("STUDY"), Doc("A study whose pilot is running: people come to its server.")
    ] = None
    server: Annotated[
        str | None,
        Metavar("URL"),
        Doc("The address of the server, with --study; left out, that of the one that runs over this home."),
    ] = None
    together: Annotated[int, Ge(1), Le(200), Doc("People at once, with --study.")] = 8
    pace: Annotated[
        float,
        Ge(0),
        Le(60),
        Doc(
            "Seconds that an honest person takes for a message or a turn, with --study; at 0, the rules about seconds "
            "are not tried."
        ),
    ] = 0.0

    def check(self) -> None:
        """Refuse what is of a server where no study is named."""
        if self.study is None and self.stated:
            raise Usage("it has no effect without --study", remedy="--study STUDY", field=min(self.stated))


@dataclass(frozen=True, kw_only=True)
class DrawnOptions(PeopleOptions):
    """The people who come, what is drawn of them, and where their tasks go."""

    qualities: Annotated[
        str | None,
        Metavar("NUMBERS"),
        Doc(
            f"The true quality of each bot, in points of the scale: {QUALITIES} without --study. With it, in the order "
            "of its bots; left out, they differ by 0.4."
        ),
    ] = None
    seed: Annotated[int, Ge(0), Doc("Seed of everything that is drawn.")] = 1
    output: Annotated[
        Path | None, Metavar("FILE"), Doc("File for the tasks, of the first study, for refaug studies report.")
    ] = None

    def people(self) -> dict[str, Any]:
        """Return what the people are like."""
        return {option.name: getattr(self, option.name) for option in options_of(PeopleOptions)}


def rehearse_on_server(home: Settings, options: ServerOptions, drawn: DrawnOptions, *, as_json: bool) -> None:
    """Let simulated people take part in the pilot of a study; print what was planned beside what is stored."""
    from refaug.extras.studies.participation.study_store import StudyStore  # noqa: PLC0415
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy
    from refaug.service.process.server_address import server_url  # noqa: PLC0415

    try:
        from refaug.extras.studies.simulation.server_rehearsal import (  # noqa: PLC0415  httpx2
            ServerRehearsal,
            require_server,
        )
    except ModuleNotFoundError as error:
        raise MissingPart(f"{error.name} is not installed", remedy="pip install 'refaug[judges]'") from error
    address = server_url(home) if options.server is None else options.server
    require_server(address)
    with open_database(home) as database:
        study = StudyStore(database, BotStore(database, home)).get(options.study or "")
        if study.state != "pilot":
            raise Conflict(
                f"study {study.name} is {study.state}: simulated people come to a pilot alone, never among real ones",
                remedy=f"refaug studies pilot {study.name}, or the same protocol as a study of another name",
            )
        rehearsal = ServerRehearsal(
            people=_people(database, study, options, drawn), protocol=dict(study.protocol.fields)
        )
        _run(database, study, rehearsal, options, drawn, address=address, is_quiet=home.quiet)
        tasks = _stored_tasks(database, study, rehearsal)
    if drawn.output is not None:
        from refaug.extras.studies.records import write_tasks  # noqa: PLC0415

        with write_aside(drawn.output) as file:
            write_tasks(tasks, file)
    comparison = {"study": study.name, "kind": study.protocol.kind.value, **rehearsal.comparison(tasks)}
    if as_json:
        print_json(comparison)
    else:
        _print_comparison(comparison)
    if rehearsal.is_interrupted:
        came = len(rehearsal.codes)
        raise Interrupted(
            f"interrupted: {came} of {drawn.participants} people came", remedy="the same command brings new ones"
        )


def _run(
    database: Database,
    study: StoredStudy,
    rehearsal: ServerRehearsal,
    options: ServerOptions,
    drawn: DrawnOptions,
    *,
    address: str,
    is_quiet: bool,
) -> None:
    """Let the people in by a separate invitation, which is revoked afterwards, whatever happens."""
    from refaug.extras.studies.participation.invites import InviteStore  # noqa: PLC0415
    from refaug.extras.studies.participation.study_records import bots_of_task  # noqa: PLC0415
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    invites, actor = InviteStore(database), user_of_machine()
    ((token, invite),) = invites.create(
        study,
        label=_LABEL,
        uses_max=drawn.participants,
        expires=datetime.now(UTC) + timedelta(hours=_HOURS),
        actor=actor,
    )
    try:
        with display_progress(quiet=is_quiet) as progress:
            rehearsal.run(
                address,
                token,
                partial(bots_of_task, database, study),
                together=options.together,
                progress=progress,
            )
    finally:
        invites.revoke(study, invite.id, actor=actor)


def _people(database: Database, study: StoredStudy, options: ServerOptions, drawn: DrawnOptions) -> RehearsedPeople:
    from refaug.extras.studies.participation.study_figures import study_slots  # noqa: PLC0415  sqlalchemy
    from refaug.extras.studies.questions import AnswerType, protocol_questions  # noqa: PLC0415
    from refaug.extras.studies.simulation.people import RehearsedPeople  # noqa: PLC0415

    slots = study_slots(database, study)
    bots = [slot.bot for slot in slots if not slot.degraded]
    questions = protocol_questions(study.protocol.fields, ())
    scales = [(entry.least or 0, entry.most or 0) for entry in questions if entry.type is AnswerType.NUMBER]
    least, most = scales[0] if scales else _SCALE
    return RehearsedPeople(
        qualities=_qualities(drawn.qualities, bots, least, most),
        degraded=tuple(slot.bot for slot in slots if slot.degraded),
        degraded_below=2.2 * (most - least) / 6,
        least=least,
        most=most,
        pace_s=options.pace,
        seed=drawn.seed,
        **drawn.people(),
    )


def _qualities(text: str | None, bots: Sequence[str], least: float, most: float) -> dict[str, float]:
    """Return the quality of each bot: those of the command line, or such as differ by a step around the middle."""
    if text is None:
        step = _STEP * (most - least) / 6
        return {bot: (least + most) / 2 + step * ((len(bots) - 1) / 2 - place) for place, bot in enumerate(bots)}
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError as error:
        raise Usage(f"--qualities {text}: {error}", remedy="numbers with commas between them") from error
    if len(numbers) != len(bots):
        raise Usage(f"--qualities {text}: {len(numbers)} numbers for {len(bots)} bots", remedy=", ".join(bots))
    return dict(zip(bots, numbers, strict=True))


def _stored_tasks(database: Database, study: StoredStudy, rehearsal: ServerRehearsal) -> list[StudyTask]:
    """Return the stored tasks of the people who came."""
    from refaug.extras.studies.participation.study_records import study_records  # noqa: PLC0415  sqlalchemy

    return [task for task in study_records(database, study) if task.participant in rehearsal.codes]


# ── What is printed ───────────────────────────────────────────────────────────────────────────────────────────────────


def print_caught(rehearsal: Mapping[str, Any]) -> None:
    """Print whom the rules leave out, by kind of people and by rule."""
    print_table(
        "whom the rules leave out",
        ("participants", "number", "left out", "share"),
        [
            (str(kind), row["participants"], row["left_out"], f"{row['share']:.3f}")
            for kind, row in rehearsal["caught"].items()
        ],
    )
    print_table("participants by rule", ("rule", "left out"), list(rehearsal["by_rule"].items()))


def _print_comparison(comparison: Mapping[str, Any]) -> None:
    stored, balance = comparison["stored"], comparison["balance"]
    print_facts(
        f"pilot of {comparison['study']}",
        {
            **{f"people, {end}": number for end, number in comparison["ends"].items()},
            "tasks acknowledged": stored["acknowledged"],
            "tasks lost": stored["lost"],
            "answers that differ": f"{stored['answers_that_differ']} of {stored['answers']}",
            "messages that differ": f"{stored['messages_that_differ']} of {stored['messages']}",
            "tasks without a reply of the bot": comparison["bot_failures"],
        },
    )
    planned = balance["planned"] or {}
    rows = [(bot, planned.get(bot, ""), number) for bot, number in balance["stored"].items()]
    print_table("tasks of each bot", ("bot", "planned", "stored"), rows)
    print_caught(comparison)
    if comparison["rules_not_tried"]:
        print_facts("not tried without --pace", dict.fromkeys(comparison["rules_not_tried"], "people take no time"))
    means = [
        (subject[:60], f"{row['truth']:.3g}", *(_shown(row[name]) for name in ("all", "kept")))
        for subject, row in comparison["means"].items()
    ]
    print_table("truth in points, and means from 0 to 1", ("bot", "truth", "all", "kept"), means)
    order = {f"rank correlation with the truth, {name}": _shown(row["spearman"])
             for name, row in comparison["order"].items()}  # fmt: skip
    print_facts("recovery", order)


def _shown(number: float | None) -> str:
    return "none" if number is None else f"{number:.3f}"


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
    from refaug.extras.studies.simulation.people import SimulatedPeople  # noqa: PLC0415  scipy
    from refaug.extras.studies.simulation.rehearsal import rehearse  # noqa: PLC0415  scipy

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
    from refaug.extras.studies.questions import AnswerType, protocol_questions  # noqa: PLC0415

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

    from refaug.extras.studies.records import task_order, write_tasks  # noqa: PLC0415
    from refaug.extras.studies.simulation.people import simulated_study  # noqa: PLC0415

    study = simulated_study(people, seed)
    if output is not None:
        with write_aside(output) as file:
            write_tasks(sorted(study.tasks, key=task_order), file)
    if protocol_output is not None:
        with write_aside(protocol_output) as file:
            file.write(orjson.dumps(study.protocol, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
