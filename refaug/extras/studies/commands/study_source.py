"""What commands about a study read: its tasks and its frozen protocol, from files or from the database of the home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from refaug.cli.shared.database import has_database, open_database
from refaug.cli.shared.output import file_or_stdin
from refaug.core.errors import BadInput, NoSource, NotFound

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.extras.studies.records import StudyTask

StudySourceArgument = Annotated[
    Path,
    typer.Argument(
        help="A study of the home, by name or id; or a file of tasks, as refaug studies tasks, export or import writes "
        "them, compressed or not; - for stdin. Where there are both, the file is read.",
        metavar="STUDY",
    ),
]
ProtocolOption = Annotated[
    Path | None,
    typer.Option(
        help="The frozen protocol of the study, a JSON file: its questions, rules of exclusion and analysis.",
        metavar="FILE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class StudySource:
    """A study as commands need it."""

    tasks: tuple[StudyTask, ...]
    protocol: Mapping[str, Any] | None


def read_study(home: Settings, source: Path, protocol: Path | None) -> StudySource:
    """Read the tasks of a file, and the protocol if one is named; or both of a study of the home."""
    from refaug.extras.studies.records import read_tasks  # noqa: PLC0415  pydantic

    frozen = None if protocol is None else read_protocol(protocol)
    if _is_name(source):
        return _stored_study(home, str(source), frozen)
    name = "stdin" if str(source) == "-" else str(source)
    with file_or_stdin(source) as path:
        tasks = tuple(read_tasks(path, shown_name=name))
    return StudySource(tasks=tasks, protocol=frozen)


def _is_name(source: Path) -> bool:
    """Return whether an argument can be a study's name: it is one part of a path, and no file has it."""
    return str(source) not in ("-", ".", "..") and len(source.parts) == 1 and not source.exists()


def _stored_study(home: Settings, name: str, protocol: Mapping[str, Any] | None) -> StudySource:
    """Read a study from the database of the home; a home without one gets none by a misspelt file."""
    if not has_database(home):
        raise _not_there(name)
    from refaug.extras.studies.participation.study_records import study_records  # noqa: PLC0415
    from refaug.extras.studies.participation.study_store import StudyStore  # noqa: PLC0415
    from refaug.service.bots.bot_store import BotStore  # noqa: PLC0415  sqlalchemy

    with open_database(home) as database:
        try:
            study = StudyStore(database, BotStore(database, home)).get(name)
        except NotFound as error:
            raise _not_there(name) from error
        tasks = tuple(study_records(database, study))
    return StudySource(tasks=tasks, protocol=dict(study.protocol.fields) if protocol is None else protocol)


def _not_there(name: str) -> NoSource:
    return NoSource(
        f"{name}: No such file, and the home has no study of this name",
        remedy="a file of tasks, or a name that refaug studies list shows",
    )


def read_protocol(path: Path) -> Mapping[str, Any]:
    """Return the JSON object of a protocol's file."""
    remedy = "the protocol of a study, as refaug studies show NAME --protocol or refaug studies import writes it"
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise NoSource(f"{path}: {error.strerror}", remedy=remedy) from error
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{path} is not JSON: {error}", remedy=remedy) from error
    if not isinstance(document, dict):
        raise BadInput(f"{path}: an object was expected, a {type(document).__name__} was found", remedy=remedy)
    return document
