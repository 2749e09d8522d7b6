"""`refaug studies export` and `refaug studies import`: the files of a study."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_facts, print_json
from refaug.core.errors import BadInput, NoSource, Usage
from refaug.core.files import write_aside
from refaug.extras.studies.commands.study_source import ProtocolOption, StudySourceArgument, read_study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from refaug.extras.studies.imports import ImportedStudy


class ExportChoice(StrEnum):
    """The formats of an export."""

    JSONL = "jsonl"
    CSV = "csv"
    ITEMS = "items"
    CONVERSATIONS = "conversations"
    ACUTE = "acute"
    DPO = "dpo"
    WEIGHTS = "weights"


def export_command(
    context: typer.Context,
    study: StudySourceArgument,
    *,
    form: Annotated[
        ExportChoice,
        typer.Option(
            "--format",
            help="jsonl: everything; csv: exchanges with the columns of neural_chat_web; items: for refaug agreement; "
            "conversations: for refaug agreement hybrid; acute: pairs of dialogues; dpo: pairs of replies; weights: of "
            "references, for refaug sets derive.",
        ),
    ] = ExportChoice.JSONL,
    protocol: ProtocolOption = None,
    question: Annotated[
        str | None, typer.Option(help="The question whose answers count in items, dpo and weights.", metavar="ID")
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Without the participants whom the rules of the protocol leave out.")
    ] = False,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Count the tasks of the pilot, too, which jsonl always has.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="File to write; without it, stdout.", metavar="FILE")] = None,
) -> None:
    """Write a study in the format of another command or program; a study of the home comes with its protocol."""
    from refaug.extras.studies.exports import ExportFormat, export_study  # noqa: PLC0415  scipy

    source = read_study(context.obj, study, protocol)
    if kept and source.protocol is None:
        raise Usage("--kept without the rules", remedy="--protocol FILE")
    pieces = export_study(
        source.tasks, source.protocol, ExportFormat(form.value), question=question, kept_only=kept, with_pilot=pilot
    )
    _write(pieces, output)


def _write(pieces: Iterator[bytes], output: Path | None) -> None:
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    with write_aside(output) as file:
        for piece in pieces:
            file.write(piece)


def import_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="Tasks as refaug studies export writes them, rated conversations, or CSV with the columns of "
            "neural_chat_web; - for stdin.",
            metavar="FILE",
        ),
    ],
    output: Annotated[Path, typer.Option(help="File of tasks to write.", metavar="FILE")],
    *,
    protocol_output: Annotated[
        Path | None,
        typer.Option(help="File for the protocol that conversations get, for refaug studies report.", metavar="FILE"),
    ] = None,
    study: Annotated[
        str, typer.Option(help="The name of the study of rated conversations.", metavar="NAME")
    ] = "imported",
    as_json: JsonFlag = False,
) -> None:
    """Read a study that was run elsewhere, or exported: every line is checked, and the tasks are written in order.

    Conversations have one scale for all of their ratings; `is_degraded` marks a bot that was made worse on purpose.
    """
    name = "stdin" if str(source) == "-" else str(source)
    with file_or_stdin(source) as path:
        imported = _imported(path, study, name)
    if protocol_output is not None:
        if imported.protocol is None:
            raise Usage("--protocol-output: tasks have no protocol with them", remedy="leave it out")
        with write_aside(protocol_output) as file:
            file.write(orjson.dumps(imported.protocol, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    from refaug.extras.studies.records import write_tasks  # noqa: PLC0415  pydantic

    with write_aside(output) as file:
        count = write_tasks(imported.tasks, file)
    facts = {
        "tasks": count,
        "participants": len({task.participant for task in imported.tasks}),
        "bots": len({bot.bot for task in imported.tasks for bot in task.bots}),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(f"imported from {name}", facts)


def _imported(path: Path, study: str, name: str) -> ImportedStudy:
    from refaug.extras.studies.imports import (  # noqa: PLC0415  # noqa: PLC0415  pydantic
        ImportedStudy,
        imported_chat_rows,
        imported_conversations,
        is_chat_rows,
    )
    from refaug.extras.studies.records import read_tasks, task_order  # noqa: PLC0415

    if is_chat_rows(path):
        return imported_chat_rows(path, study=study, shown_name=name)
    if _is_tasks(path, name):
        return ImportedStudy(protocol=None, tasks=tuple(sorted(read_tasks(path, shown_name=name), key=task_order)))
    return imported_conversations(path, study=study, shown_name=name)


def _is_tasks(path: Path, name: str) -> bool:
    """Say whether the first line is that of a task."""
    from refaug.logs.reading.containers import json_rows  # noqa: PLC0415
    from refaug.logs.reading.sources import BadRow, LineReader, Source, require_readable  # noqa: PLC0415

    require_readable(path)
    for block in LineReader(Source.of(path)):
        for row in json_rows(block) if block.bad is None else (block.bad,):
            if isinstance(row, BadRow):
                raise BadInput(f"{name}, line {row.line}: {row.message}", remedy="JSON, a line each")
            return "task" in row[1] and "sides" in row[1]
    raise NoSource(f"{name} is empty", remedy="tasks or rated conversations, a line each")
