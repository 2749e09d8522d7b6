"""`refaug score report`: the pages of reports, made again from their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from refaug.cli.shared.output import JsonFlag, print_json, print_line
from refaug.core import installation
from refaug.core.errors import BadInput, NoSource, Usage

_KINDS = "the .json of refaug agreement reproduce, train report rater, studies report, score --report or score --json"
_LARGEST = 1 << 28  # bytes of a file
_NO_PAGE = {  # fields by which other documents are recognised, and why there is no page of them
    "baseline": (
        "of refaug agreement, whose page plots single replies, which are not in it",
        "refaug agreement … --report FOLDER",
    ),
    "comparisons": (
        "of refaug compare, whose page is made from score files",
        "refaug compare FIRST SECOND --html FILE",
    ),
}


def render_command(
    files: Annotated[list[Path], typer.Argument(help=f"Reports: {_KINDS}.", metavar="FILE…")],
    to: Annotated[
        Path | None,
        typer.Option(
            help="File of the page; by default the one that its command writes beside the JSON.", metavar="FILE"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the pages of reports again from their JSON: in the style of this version, without the data.

    Beside a result of reproduce its tables as Markdown are written, too, unless --to names a page.
    """
    from refaug.tables.reports.html_page import write_file  # noqa: PLC0415  jinja2

    if to is not None and len(files) > 1:
        raise Usage(f"--to is one page, and {len(files)} files are named", remedy="one file, or leave --to out")
    if to is not None and to.resolve() == files[0].resolve():
        raise Usage(f"--to {to} is the report itself", remedy="another file")
    pages = [(path, _pages(path)) for path in files]  # all are read before the first is written
    written = list[Path]()
    for path, texts in pages:
        for name, content in texts.items():
            if to is None:
                written.append(write_file(path.with_name(name), content.encode()))
            elif name.endswith(".html"):
                written.append(write_file(to, content.encode()))
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        print_line(f"written: {', '.join(map(str, written))}")


def _pages(path: Path) -> dict[str, str]:
    """Return the texts of a report by the names of their files."""
    document = _document(path)
    if {"scores", "checksum"} & document.keys():
        return _score_page(document, path)
    if {"rater", "training", "retrieved"} <= document.keys():
        from refaug.agreement.rater_report.page import PAGE, page_with_plots  # noqa: PLC0415  matplotlib
        from refaug.agreement.rater_report.report import stored_rater_report  # noqa: PLC0415  torch

        return {PAGE: page_with_plots(stored_rater_report(document, str(path)))}
    for field in document.keys() & installation.names(installation.REPORTS):
        rendered: dict[str, str] = installation.find(installation.REPORTS, field)(document, path)
        return rendered
    for name, (what, remedy) in _NO_PAGE.items():
        if name in document:
            raise BadInput(f"{path}: this is the JSON {what}", remedy=remedy)
    raise BadInput(f"{path}: this is not a report that has a page", remedy=_KINDS)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)  # a device or a pipe has no size
        if len(raw) > _LARGEST:
            raise BadInput(f"{path} has more than the {_LARGEST:,} bytes of the largest report", remedy=_KINDS)
        document = orjson.loads(raw)
    except OSError as error:
        raise NoSource(f"{path}: {error.strerror}", remedy=_KINDS) from error
    except orjson.JSONDecodeError as error:
        raise BadInput(f"{path} is not JSON: {error}", remedy=_KINDS) from error
    if not isinstance(document, dict):
        raise BadInput(f"{path}: an object was expected, a {type(document).__name__} was found", remedy=_KINDS)
    return document


def _score_page(document: Mapping[str, Any], path: Path) -> dict[str, str]:
    from refaug.scoring.score_files.score_file import ScoreFile  # noqa: PLC0415  compiles
    from refaug.scoring.score_report.report import (  # noqa: PLC0415
        PAGE,
        SCORES,
        page,
    )

    file = ScoreFile.of(document, path.name)
    name = PAGE if path.name == SCORES else f"{path.stem}.html"
    return {name: page(file, file.settings(file.scores[0]))}
