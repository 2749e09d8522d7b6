"""What commands about a study read: its tasks and its frozen protocol, from files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from refaug.cli.shared.output import file_or_stdin
from refaug.core.errors import BadInput, NoSource

if TYPE_CHECKING:
    from refaug.evaluation.studies.records import StudyTask

TasksArgument = Annotated[
    Path,
    typer.Argument(
        help="Tasks of a study, as refaug studies tasks, export or import writes them, compressed or not; - for stdin.",
        metavar="TASKS",
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


def read_study(source: Path, protocol: Path | None) -> StudySource:
    """Read the tasks of a file, and the protocol if one is named."""
    from refaug.evaluation.studies.records import read_tasks  # noqa: PLC0415  pydantic

    frozen = None if protocol is None else read_protocol(protocol)
    name = "stdin" if str(source) == "-" else str(source)
    with file_or_stdin(source) as path:
        tasks = tuple(read_tasks(path, shown_name=name))
    return StudySource(tasks=tasks, protocol=frozen)


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
