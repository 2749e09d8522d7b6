"""`refaug score verify`: scores of a file, reproduced from their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.index_options import ThreadsOption
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_json, print_line, print_table
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import BadInput, Usage
from refaug.core.options.decoding import from_texts
from refaug.operations.item_sources import ItemSources

if TYPE_CHECKING:
    from refaug.scoring.score_files.harness_logs import HarnessLog
    from refaug.scoring.score_files.score_file import ScoreFile

_File = Annotated[
    Path,
    typer.Argument(
        help="Output of refaug score --json, an answer of POST /v1/scores, or a log of lm-eval or inspect.",
        metavar="FILE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ScoredItems(ItemSources):
    """The items that were scored; without any, those that the file of scores names."""

    needs_items: ClassVar[bool] = False


@with_options
def verify_command(
    context: typer.Context,
    file: _File,
    *,
    sources: ScoredItems,
    files: Annotated[
        Path, typer.Option("--files", help="Where the files lie that metrics name, such as vectors.", metavar="FOLDER")
    ] = Path(),
    threads: ThreadsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Reproduce the scores of a file from their signatures, and say for each part whether it holds.

    The parts are the file itself, the software, index, rater, vectors and frozen set that the signatures name, the
    items, and for each metric its parameters, references, scores and intervals. The exit code is 0 if everything
    holds, 6 if something differs, and 3 if something is missing, so that nothing can be said.
    """
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.score_files.harness_logs import HarnessLog  # noqa: PLC0415  numpy
    from refaug.scoring.verification.harness_verification import verify_log  # noqa: PLC0415
    from refaug.scoring.verification.verification import Workplace, files_in, verify  # noqa: PLC0415

    scores = _read(file)
    workplace = Workplace(models=ModelRegistry(context.obj, threads, find_file=files_in(files)))
    with display_progress(quiet=context.obj.quiet) as progress:
        if isinstance(scores, HarnessLog):
            if sources.files:
                raise Usage(f"items beside a log of {scores.harness}", remedy="the log alone: it has its items")
            verification = verify_log(scores, workplace, progress)
        else:
            test_items = list(ItemInputs.of(sources if sources.files else _named_items(scores, file)).read(progress))
            verification = verify(scores, test_items, workplace, progress)
    if as_json:
        print_json({"file": str(file), **verification.as_json()})
    else:
        rows = [(part.metric or "", part.part, part.state.value, part.message) for part in verification.parts]
        print_table(str(file), ("metric", "part", "state", "what"), rows)
        print_line(verification.in_words())
    if verification.exit_code:
        raise typer.Exit(verification.exit_code)


def _read(file: Path) -> ScoreFile | HarnessLog:
    from refaug.scoring.score_files.harness_logs import read_log  # noqa: PLC0415  numpy
    from refaug.scoring.score_files.score_file import ScoreFile  # noqa: PLC0415  numpy

    shown_name = "stdin" if str(file) == "-" else str(file)
    with file_or_stdin(file) as path:
        log = read_log(path, shown_name) if path.is_file() else None
        return ScoreFile.read(path, shown_name) if log is None else log


def _named_items(scores: ScoreFile, file: Path) -> ScoredItems:
    """Return the items that the file names, from here or from the folder of the file."""
    inputs = scores.inputs
    if not inputs:
        raise BadInput(
            f"{file} does not name the items that were scored", remedy=f"name them: refaug score verify {file} ITEMS"
        )
    items, utterances = _paths(inputs, "items", file), _paths(inputs, "utterances", file)
    texts = {
        "items": items[0] if items else None,
        "replies": [_reply_file(text, file) for text in _texts(inputs, "replies")],
        "references": _paths(inputs, "references", file),
        "weights": _paths(inputs, "weights", file),
        "utterances": utterances[0] if utterances else None,
        "map": _texts(inputs, "map"),
        "shape": inputs.get("shape"),
        "encoding": inputs.get("encoding"),
        "allow_truncated": inputs.get("allow_truncated") is True,
        "systems": _texts(inputs, "systems"),
    }
    try:
        return from_texts(ScoredItems, {name: text for name, text in texts.items() if text not in (None, [])})
    except Usage as error:
        raise BadInput(f"inputs.{error.message}", remedy="name the items beside the file") from None


def _texts(inputs: Mapping[str, Any], name: str) -> list[str]:
    listed = inputs.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(text, str) and text not in ("", "-") for text in listed):
        raise BadInput(f"inputs.{name}: a list of file names was expected", remedy="name the items beside the file")
    return listed


def _paths(inputs: Mapping[str, Any], name: str, file: Path) -> list[str]:
    return [_place(text, file) for text in _texts(inputs, name)]


def _reply_file(text: str, file: Path) -> str:
    """Return `NAME=FILE` with the place of the file; a bare file names its system itself."""
    name, equals, path = text.partition("=")
    return f"{name}={_place(path, file)}" if equals and not Path(text).exists() else _place(text, file)


def _place(text: str, file: Path) -> str:
    """Return the path as it stands, else beside the score file, where it was moved together with it."""
    return text if Path(text).exists() or Path(text).is_absolute() else str(_beside(text, file))


def _beside(text: str, file: Path) -> Path:
    beside = file.parent / Path(text).name
    return beside if beside.exists() else Path(text)
