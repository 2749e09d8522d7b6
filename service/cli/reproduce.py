"""`refaug reproduce`: whether the claims of the method hold on logs and ratings, each beside what could refute it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from core.errors import Usage
from core.progress import Progress
from service.cli.common import JsonFlag, MemoryOption, parse_size, print_json, print_line, print_table
from service.cli.index_common import ThreadsOption
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.proof.parts import ALL, PARTS, named
from service.settings import Settings

if TYPE_CHECKING:
    from service.proof.chain import ProofSettings
    from service.proof.report import Report

_SETS: Final = ("dailydialog_gupta", "dailydialog_zhao")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured, and how thoroughly; a group of options."""

    data: Annotated[
        Path,
        typer.Option(help="Folder of the data: logs/ with the logs, human/ with the rated sets.", metavar="FOLDER"),
    ]
    output: Annotated[Path, typer.Option(help="Folder for the results.", metavar="FOLDER")] = Path("docs/results")
    fraction: Annotated[float, typer.Option(help="Share of the dialogues of each log that is taken.", max=1)] = 1.0
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=100_000)] = 2_000
    seeds: Annotated[int, typer.Option(help="Seeds of every control in which there is chance.", min=1)] = 20
    seed: Annotated[int, typer.Option(help="Of everything else that is drawn.", min=0)] = 1
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help=f"Rated set, by its name in human/; repeatable; by default {' and '.join(_SETS)}.",
            metavar="NAME",
        ),
    ] = None
    preset: Annotated[str, typer.Option(help="Sizes of raters: base, or small for a quick run.")] = "base"
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of raters; by default as many as the preset has.", min=1)
    ] = None
    threads: ThreadsOption = None
    memory: MemoryOption = "2GiB"

    def __post_init__(self) -> None:
        names = self.set_names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Usage(f"the set {twice} is named twice", remedy="name each once")
        if wrong := next((name for name in names if Path(name).name != name), None):
            raise Usage(f"{wrong!r} is no name of a set", remedy="--set NAME, for human/NAME.jsonl.gz in the data")

    @property
    def set_names(self) -> tuple[str, ...]:
        """Those asked for, or the usual ones."""
        return tuple(self.sets or _SETS)

    def settings(self) -> ProofSettings:
        """For the chain."""
        from service.proof.chain import ProofSettings  # noqa: PLC0415  torch
        from service.retrieval import cores  # noqa: PLC0415  FAISS

        return ProofSettings(
            data=self.data,
            fraction=self.fraction,
            draws=self.draws,
            seeds=self.seeds,
            seed=self.seed,
            threads=self.threads or cores(),
            memory=parse_size(self.memory),
            preset=self.preset,
            epochs=self.epochs,
        )


@with_options
def reproduce_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"What to measure: {', '.join(PARTS)}; or {ALL}.", metavar="NAME")],
    *,
    asked: Asked,
    as_json: JsonFlag = False,
) -> None:
    """Measure what the method is worth: from logs and rated replies to tables, JSON, and a page with plots.

    Logs, word vectors, indexes, raters and references are kept under REFAUG_HOME: stopped, the same command goes on
    where it was.
    """
    wanted = named(name)
    with shown_progress(quiet=context.obj.quiet) as progress:
        done = list(_reproduced(context.obj, wanted, asked, command_of(context), progress))
    if as_json:
        print_json({"reports": [_as_json(report, files) for report, files in done]})
        return
    for report, files in done:
        _print(report, files)


def _reproduced(
    home: Settings, wanted: Sequence[str], asked: Asked, command: str, progress: Progress
) -> Iterator[tuple[Report, list[Path]]]:
    """Every part's report, and the files that it was written to."""
    from service.proof.chain import Chain  # noqa: PLC0415  torch, FAISS
    from service.proof.found import unfamiliar, usable  # noqa: PLC0415
    from service.proof.report import write_report  # noqa: PLC0415  matplotlib
    from service.proof.sets import read_sets  # noqa: PLC0415

    chain = Chain(home, asked.settings(), progress)
    sets, gaps = usable(chain, read_sets(asked.data, asked.set_names))
    gaps += [told for one in sets if (told := unfamiliar(chain, one)) is not None]
    for told in gaps:
        progress.warn(told)
    for part in wanted:
        report = PARTS[part].load()(chain, sets)
        report = replace(report, notes=(*gaps, *report.notes))
        yield report, write_report(report, chain, sets, command, asked.output)


def command_of(context: typer.Context) -> str:
    """The command as it was typed, but for the folders before the last part of a path, which are nobody's business."""
    words = ["refaug", "reproduce"]
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            words.append(parameter.opts[0])
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [parameter.opts[0], _last(one)]
    return shlex.join(words)


def _last(value: Any) -> str:
    return str(value.resolve().name or value) if isinstance(value, Path) else str(value)


def _as_json(report: Report, files: Sequence[Path]) -> Mapping[str, Any]:
    return {
        "name": report.name,
        "summary": list(report.summary),
        "notes": list(report.notes),
        "files": list(map(str, files)),
        **report.data,
    }


def _print(report: Report, files: Sequence[Path]) -> None:
    """What is said, all tables, what is missing, and where it stands."""
    print_line(report.title)
    for line in report.summary:
        print_line(f"  {line}")
    for section in report.sections:
        for table in section.tables:
            print_line()
            print_table(table.title, table.columns, table.rows)
    if report.notes:
        print_line()
    for note in report.notes:
        print_line(f"note: {note}")
    print_line(f"written: {', '.join(map(str, files))}")
