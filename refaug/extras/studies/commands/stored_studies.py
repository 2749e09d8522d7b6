"""`refaug studies new`, `list`, `show`, `open` and others: the studies in the database of the server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from refaug.cli.shared.database import open_database
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.core.errors import BadInput, NoSource
from refaug.extras.studies.commands.study_source import read_protocol

if TYPE_CHECKING:
    from refaug.extras.studies.participation.study_store import StoredStudy, StudyStore

StudyArgument = Annotated[str, typer.Argument(help="The study's name or id.", metavar="STUDY")]
CodeArgument = Annotated[str, typer.Argument(help="The participant's code, such as P-3F7K2M.", metavar="CODE")]
ServerAddress = Annotated[
    str | None,
    typer.Option(
        "--url", help="The address that participants open, before the path; by default the server's.", metavar="URL"
    ),
]
_TEXT_FIELDS = ("consent", "guidelines")


@contextmanager
def _stores(context: typer.Context) -> Iterator[StudyStore]:
    """Open the studies of the home."""
    from refaug.extras.studies.participation.study_store import StudyStore  # noqa: PLC0415
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database:
        yield StudyStore(database, BotStore(database, context.obj))


def new_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the study.", metavar="NAME")],
    protocol: Annotated[Path, typer.Argument(help="Its protocol, a JSON file.", metavar="FILE")],
    *,
    items: Annotated[
        Path | None,
        typer.Option("--items", help="Dialogues, replies or references to judge, JSON lines.", metavar="FILE"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a study as a draft; its protocol, bots and items are checked as a whole.

    Where consent, guidelines or items are names of files beside the protocol, the files are read and stored.
    """
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    fields = _with_texts(dict(read_protocol(protocol)), protocol.parent)
    named_items = fields.pop("items", None)
    source = items if items is not None else protocol.parent / str(named_items) if named_items else None
    entries = [] if source is None else list(_lines(source))
    with _stores(context) as studies:
        study = studies.create(name, fields, entries, actor=user_of_machine())
    _print_study(study, as_json=as_json, what="draft")


def _with_texts(fields: dict[str, object], folder: Path) -> dict[str, object]:
    """Return the protocol with the files that it names instead of texts read in."""
    for name in _TEXT_FIELDS:
        text = fields.get(name)
        if isinstance(text, str) and "\n" not in text and text.endswith((".md", ".txt")):
            fields[name] = _text_of(folder / text, name)
    training = fields.get("training")
    if isinstance(training, dict) and isinstance(training.get("items"), str):
        fields["training"] = {**training, "items": list(_lines(folder / training["items"]))}
    return fields


def _text_of(path: Path, name: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise NoSource(f"{path}: {reason}", remedy=f"{name} names a text beside the protocol") from error


def _lines(path: Path) -> Iterator[Any]:
    """Yield the JSON object of each line; BadInput names the line that is none."""
    for number, line in enumerate(_text_of(path, "items").split("\n"), 1):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise BadInput(f"{path}, line {number} is not JSON: {error}", remedy='{"id": "…", …}') from error


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All studies, newest first."""
    with _stores(context) as studies:
        listed = studies.all()
    if as_json:
        print_json({"studies": [study.facts() for study in listed]})
        return
    rows = [(study.name, study.protocol.kind.value, study.state, study.created[:10]) for study in listed]
    print_table("studies", ("name", "kind", "state", "made"), rows)


def show_command(
    context: typer.Context,
    study: StudyArgument,
    *,
    protocol_only: Annotated[
        bool, typer.Option("--protocol", help="Print the protocol alone, with every default, as JSON.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """A study with its protocol, its amendments and its bots."""
    from refaug.extras.studies.participation.study_figures import study_slots  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database, _stores(context) as studies:
        stored = studies.get(study)
        slots = study_slots(database, stored)
        facts = {**stored.facts(), "amendments": studies.amendments(stored), "bots": slots}
    if protocol_only:
        print_json(dict(stored.protocol.fields))
        return
    if as_json:
        print_json({**facts, "protocol": dict(stored.protocol.fields)})
        return
    print_facts(f"study {stored.name}", {key: fact for key, fact in facts.items() if not isinstance(fact, list)})
    bots = [(bot.slot, bot.bot, (bot.sha256 or "")[:12], bot.done) for bot in slots]
    print_table("bots", ("slot", "bot", "hash", "done"), bots)


def tasks_command(
    context: typer.Context,
    study: StudyArgument,
    *,
    participant: Annotated[
        str | None, typer.Option("--participant", help="Of one participant alone.", metavar="CODE")
    ] = None,
) -> None:
    """Print the tasks of a study that are over, a JSON object a line: what report and export read."""
    from refaug.extras.studies.participation.study_records import study_records  # noqa: PLC0415  sqlalchemy
    from refaug.extras.studies.records import task_line  # noqa: PLC0415  pydantic

    with open_database(context.obj) as database, _stores(context) as studies:
        for task in study_records(database, studies.get(study), participant=participant):
            sys.stdout.buffer.write(task_line(task))
        sys.stdout.buffer.flush()


def _act(context: typer.Context, study: str, act: str, *, as_json: bool) -> None:
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    with _stores(context) as studies:
        changed = studies.act(studies.get(study), act, actor=user_of_machine())
    _print_study(changed, as_json=as_json, what=changed.state)


def pilot_command(context: typer.Context, study: StudyArgument, as_json: JsonFlag = False) -> None:
    """Take participants whose answers do not count."""
    _act(context, study, "pilot", as_json=as_json)


def open_command(context: typer.Context, study: StudyArgument, as_json: JsonFlag = False) -> None:
    """Freeze a study's protocol with the hashes of its bots and items, and take participants."""
    _act(context, study, "open", as_json=as_json)


def pause_command(context: typer.Context, study: StudyArgument, as_json: JsonFlag = False) -> None:
    """Give out no more tasks; those that have begun may be finished."""
    _act(context, study, "pause", as_json=as_json)


def close_command(context: typer.Context, study: StudyArgument, as_json: JsonFlag = False) -> None:
    """End a study for good."""
    _act(context, study, "close", as_json=as_json)


def invite_command(
    context: typer.Context,
    study: StudyArgument,
    *,
    count: Annotated[int, typer.Option("--count", "-n", help="How many invitations.", min=1, max=10_000)] = 1,
    uses: Annotated[
        int | None, typer.Option("--uses", help="Participants that each lets in; 1: a personal one.", min=1)
    ] = None,
    days: Annotated[float | None, typer.Option("--days", help="Days until they end.", min=0.01, max=3_650)] = None,
    label: Annotated[str, typer.Option("--label", help="What they are for.")] = "",
    base: ServerAddress = None,
    as_json: JsonFlag = False,
) -> None:
    """Make invitations to a study, and print their links, which are shown this once."""
    from refaug.extras.studies.participation.invites import InviteStore  # noqa: PLC0415
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    address = _address_of_server(context, base)
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    with open_database(context.obj) as database, _stores(context) as studies:
        pairs = InviteStore(database).create(
            studies.get(study), count=count, label=label, uses_max=uses, expires=expires, actor=user_of_machine()
        )
    links = [f"{address}/take#{token}" for token, _ in pairs]
    if as_json:
        invites = [{**invite.as_json(), "link": link} for (_, invite), link in zip(pairs, links, strict=True)]
        print_json({"invites": invites})
        return
    for link in links:
        print_line(link)


def _address_of_server(context: typer.Context, address: str | None) -> str:
    from refaug.service.process.server_address import server_url  # noqa: PLC0415  settings of the server

    return (server_url(context.obj) if address is None else address).rstrip("/")


def progress_command(context: typer.Context, study: StudyArgument, as_json: JsonFlag = False) -> None:
    """How far a study is, and how its bots are balanced."""
    from refaug.extras.studies.participation.study_figures import study_counts, study_pairs, study_slots  # noqa: PLC0415

    with open_database(context.obj) as database, _stores(context) as studies:
        stored = studies.get(study)
        counts = study_counts(database, stored)
        bots, pairs = study_slots(database, stored), study_pairs(database, stored)
    if as_json:
        print_json({"study": stored.name, "state": stored.state, "counts": counts, "bots": bots, "pairs": pairs})
        return
    print_facts(f"study {stored.name}, {stored.state}", counts)
    rows = [(bot.slot, bot.bot, bot.target or "", bot.done, bot.reserved, bot.failures) for bot in bots]
    print_table("bots", ("slot", "bot", "target", "done", "reserved", "failures"), rows)


def resume_command(
    context: typer.Context, study: StudyArgument, code: CodeArgument, *, base: ServerAddress = None
) -> None:
    """Print a new link by which a participant goes on; their former links and all their sessions end."""
    from refaug.extras.studies.participation.invites import InviteStore  # noqa: PLC0415
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    address = _address_of_server(context, base)
    with open_database(context.obj) as database, _stores(context) as studies:
        token = InviteStore(database).renew_resume_link(studies.get(study), code, actor=user_of_machine())
    print_line(f"{address}/take#{token}")


def erase_command(context: typer.Context, study: StudyArgument, code: CodeArgument) -> None:
    """Erase all texts and answers of a participant from the database and its free pages; the fact stays."""
    from refaug.extras.studies.participation.erasure import erase_participant  # noqa: PLC0415
    from refaug.service.audit import user_of_machine  # noqa: PLC0415  sqlalchemy

    with open_database(context.obj) as database, _stores(context) as studies:
        erase_participant(database, studies.get(study), code, actor=user_of_machine())
    print_line(f"participant {code} is erased; compute reports anew")


def _print_study(study: StoredStudy, *, as_json: bool, what: str) -> None:
    if as_json:
        print_json(study.facts())
        return
    print_line(f"study {study.name} ({study.protocol.kind}): {what}, protocol {study.protocol_sha256[:12]}")
