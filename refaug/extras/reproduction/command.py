"""`refaug agreement reproduce`: whether the method's claims hold on logs and ratings, beside possible refutations."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.output import JsonFlag, MemoryOption, parse_size, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import NotFound, Usage
from refaug.core.home import Settings
from refaug.core.options.decoding import made_of
from refaug.core.progress import Progress

if TYPE_CHECKING:
    from refaug.extras.reproduction.material.proof_logs import ProofSettings
    from refaug.extras.reproduction.report.report import ExperimentReport


if TYPE_CHECKING:
    from refaug.extras.reproduction.material.chain import Chain
    from refaug.extras.reproduction.material.rated_sets import ProofSet
    from refaug.extras.reproduction.report.report import ExperimentReport

    Run = Callable[[Chain, Sequence[ProofSet]], ExperimentReport]

ALL: Final = "all"
USUAL_SETS: Final = (  # rated sets with references, by their names in human/
    "dailydialog_gupta",
    "dailydialog_zhao",
    "grade_dailydialog",
    "grade_empatheticdialogues",
    "holistic_dailydialog",
    "predictive_engagement_dd",
)

RECOMMENDED_SETS: Final = (*USUAL_SETS, "conture", "fed_turn", "personachat_zhao", "usr_topicalchat")


class PartFunction(NamedTuple):
    """Where the function of a part lies; its module is imported late, for it needs torch, FAISS and matplotlib."""

    module: str
    function: str
    searches: bool = True  # whether it needs sets for which the index has references
    reads_sets: bool = True  # whether it is about the sets that were asked for; some have data of their own
    files: tuple[str, ...] = ()  # of the data, beside logs and rated sets, without which there is no report

    def load(self) -> Run:
        """Import the function."""
        run: Run = getattr(import_module(self.module), self.function)
        return run

    def missing(self, data: Path) -> str | None:
        """Return which file the data lacks for this part, or None."""
        return next((name for name in self.files if not (data / name).is_file()), None)


PARTS: Final[Mapping[str, PartFunction]] = {
    "recommended": PartFunction(
        "refaug.extras.reproduction.experiments.recommended",
        "recommended",
        searches=False,
        reads_sets=False,
        files=tuple(f"human/{name}.jsonl.gz" for name in RECOMMENDED_SETS),
    ),
    "raters": PartFunction(
        "refaug.extras.reproduction.experiments.raters",
        "raters",
        searches=False,
        reads_sets=False,
        files=tuple(f"human/{name}.jsonl.gz" for name in RECOMMENDED_SETS),
    ),
    "metrics": PartFunction("refaug.extras.reproduction.experiments.metrics", "metrics"),
    "multi-reference": PartFunction("refaug.extras.reproduction.experiments.multi_reference", "multi_reference"),
    "weights": PartFunction("refaug.extras.reproduction.experiments.weights", "weights"),
    "adem": PartFunction("refaug.extras.reproduction.experiments.adem", "adem", searches=False),
    "hybrid": PartFunction(
        "refaug.extras.reproduction.experiments.hybrid",
        "hybrid",
        searches=False,
        reads_sets=False,
        files=("dialogues/ji2022_run1.jsonl.gz",),
    ),
    "networks": PartFunction(
        "refaug.extras.reproduction.experiments.networks", "networks", searches=False, reads_sets=False
    ),
}


def parts_named(name: str) -> tuple[str, ...]:
    """Return the parts that a name stands for."""
    if name == ALL:
        return tuple(PARTS)
    if name not in PARTS:
        raise Usage(f"there is no {name!r} to be reproduced", remedy=f"one of: {', '.join((*PARTS, ALL))}")
    return (name,)


def parts_at_hand(names: Sequence[str], data: Path) -> tuple[list[str], dict[str, str]]:
    """Return the parts that the data has the files of, and of the others why not.

    NotFound where no part is left: nothing could be measured.
    """
    gaps = {name: f"the data has no {path}" for name in names if (path := PARTS[name].missing(data)) is not None}
    if len(gaps) == len(names):
        raise NotFound(next(iter(gaps.values())), remedy="reproduce another part, or add it")
    return [name for name in names if name not in gaps], gaps


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """What is measured, and how thoroughly; a group of options."""

    data: Annotated[
        Path,
        typer.Option(help="Folder of the data: logs/ with the logs, human/ with the rated sets.", metavar="FOLDER"),
    ]
    output: Annotated[Path, typer.Option(help="Folder for the results.", metavar="FOLDER")] = Path("docs/results")
    fraction: Annotated[float, typer.Option(help="Share of the dialogues of each log that is taken.", max=1)] = 1.0
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap over contexts.", min=1, max=100_000)] = 2_000
    seeds: Annotated[int, typer.Option(help="Seeds of every control in which there is chance.", min=1)] = 20
    seed: Annotated[int, typer.Option(help="Of everything else that is drawn.", min=0)] = 1
    edits: Annotated[
        int, typer.Option(help="Of each constant that is searched against refaug-1.", min=10, max=1_000_000)
    ] = 2_000
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Rated set, by its name in human/; repeatable; by default those that are there of "
            f"{', '.join(USUAL_SETS)}.",
            metavar="NAME",
        ),
    ] = None
    preset: Annotated[str, typer.Option(help="Sizes of raters and networks: base, or small for a quick run.")] = "base"
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of raters, and rounds of 250 batches of networks; by default those of the preset, and 8.",
            min=1,
        ),
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes after which networks, and metrics for rows beside, begin no further training; what is there "
            "is reported.",
            min=0,
        ),
    ] = None
    ruber: Annotated[
        bool,
        typer.Option("--ruber/--no-ruber", help="Whether RUBER is trained, which takes longer than all the rest."),
    ] = True
    encoder: Annotated[
        str, typer.Option(help="Encoder of the home, by its name there: of refaug-1, and of meanings.", metavar="NAME")
    ] = "all-minilm-l6-v2"
    vhred: Annotated[
        str | None,
        typer.Option(
            help="VHRED of the home whose encoder ADEM uses, beside encoders with drawn weights: name or name@version.",
            metavar="NAME",
        ),
    ] = None
    threads: ThreadsOption = None
    memory: MemoryOption = "2GiB"

    def __post_init__(self) -> None:
        names = self.set_names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Usage(f"the set {twice} is named twice", remedy="name each once")
        if wrong := next((name for name in names if Path(name).name != name), None):
            raise Usage(f"{wrong!r} is not a name of a set", remedy="--set NAME, for human/NAME.jsonl.gz in the data")

    @property
    def set_names(self) -> tuple[str, ...]:
        """Return the sets that were named, or the usual ones that the data has."""
        if self.sets:
            return tuple(self.sets)
        return tuple(name for name in USUAL_SETS if self._path_of(name).is_file()) or USUAL_SETS

    @property
    def gaps(self) -> list[str]:
        """Return which of the usual sets the data lacks, where no sets were named."""
        return [] if self.sets else [f"{name} is not there" for name in USUAL_SETS if name not in self.set_names]

    def _path_of(self, name: str) -> Path:
        return self.data / "human" / f"{name}.jsonl.gz"

    def settings(self) -> ProofSettings:
        """Return the settings of the chain."""
        from refaug.extras.reproduction.material.proof_logs import ProofSettings  # noqa: PLC0415  torch
        from refaug.scoring.home.indexes import cores  # noqa: PLC0415  FAISS

        return made_of(ProofSettings, self, threads=self.threads or cores(), memory=parse_size(self.memory))


@with_options
def reproduce_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"What to measure: {', '.join(PARTS)}; or {ALL}.", metavar="NAME")],
    *,
    options: ReproduceOptions,
    as_json: JsonFlag = False,
) -> None:
    """Measure what the method is worth: from logs and rated replies to tables, JSON, and a page with plots.

    Logs, word vectors, indexes, raters and references are kept under REFAUG_HOME: stopped, the same command goes on
    where it was. With `all`, parts that the data lacks the files of are left out, and the exit code is 3.
    """
    parts, gaps = parts_at_hand(parts_named(name), options.data)
    with display_progress(quiet=context.obj.quiet) as progress:
        for part, gap in gaps.items():
            progress.warn(f"{part} is left out: {gap}")
        reports = list(_reproduce(context.obj, parts, options, command_of(context), progress))
    if as_json:
        print_json({"reports": [_as_json(report, files) for report, files in reports], "left_out": gaps})
    else:
        for report, files in reports:
            _print(report, files)
        for part, gap in gaps.items():
            print_line(f"left out: {part}: {gap}")
    if gaps:
        raise typer.Exit(NotFound.exit_code)


def _reproduce(
    home: Settings, part_names: Sequence[str], options: ReproduceOptions, command: str, progress: Progress
) -> Iterator[tuple[ExperimentReport, list[Path]]]:
    """Yield the report of each part, and the files that it was written to."""
    from refaug.extras.reproduction.material.chain import Chain  # noqa: PLC0415  torch, FAISS
    from refaug.extras.reproduction.material.rated_sets import ProofSet, read_sets  # noqa: PLC0415
    from refaug.extras.reproduction.material.reference_coverage import sets_with_references, unknown_language  # noqa: PLC0415
    from refaug.extras.reproduction.report.report import write_report  # noqa: PLC0415  matplotlib

    chain = Chain(home, options.settings(), progress)
    sets, gaps = list[ProofSet](), list[str]()
    if any(PARTS[part_name].reads_sets for part_name in part_names):
        sets = read_sets(options.data, options.set_names)
        gaps = options.gaps
    if any(PARTS[part_name].searches for part_name in part_names):
        sets, without_references = sets_with_references(chain, sets)
        gaps = [*gaps, *without_references]
    gaps += [reason for rated_set in sets if (reason := unknown_language(chain, rated_set)) is not None]
    for reason in gaps:
        progress.warn(reason)
    for part_name in part_names:
        part = PARTS[part_name]
        own_sets, own_gaps = (sets, gaps) if part.reads_sets else ([], [])
        report = part.load()(chain, own_sets)
        report = replace(report, notes=(*own_gaps, *report.notes))
        yield report, write_report(report, chain, own_sets, command, options.output)


def command_of(context: typer.Context) -> str:
    """Return the command as typed, with paths cut to their last part, so that no folder is published."""
    words = ["refaug", "agreement", "reproduce"]
    for parameter in context.command.params:
        argument = context.params.get(str(parameter.name))
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.param_type_name == "argument":
            words.append(str(argument))
        elif isinstance(argument, bool):
            words.append((parameter.opts if argument else parameter.secondary_opts)[0])
        else:
            for element in argument if isinstance(argument, list | tuple) else [argument]:
                words += [parameter.opts[0], _last_part(element)]
    return shlex.join(words)


def _last_part(argument: Any) -> str:
    return str(argument.resolve().name or argument) if isinstance(argument, Path) else str(argument)


def _as_json(report: ExperimentReport, files: Sequence[Path]) -> Mapping[str, Any]:
    return {
        "name": report.name,
        "summary": list(report.summary),
        "notes": list(report.notes),
        "files": list(map(str, files)),
        **report.data,
    }


def _print(report: ExperimentReport, files: Sequence[Path]) -> None:
    """Print the summary, all tables, the gaps, and the paths of the files."""
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
