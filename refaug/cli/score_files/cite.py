"""`refaug score cite`: what to write beside scores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.shared.output import JsonFlag, file_or_stdin, print_json, print_line
from refaug.core.errors import Usage
from refaug.core.home import Settings

if TYPE_CHECKING:
    from refaug.scoring.citation.citation import Citation

_SET: Final = re.compile(r"[0-9a-f]{6,16}")


def cite_command(
    context: typer.Context,
    cited: Annotated[
        list[str],
        typer.Argument(
            help="JSON that refaug score or the service has written (- for stdin), a signature, or the id of a frozen "
            "set.",
            metavar="FILE|SIGNATURE|SET",
        ),
    ],
    as_bibtex: Annotated[bool, typer.Option("--bibtex", help="Print the BibTeX alone.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print what to write beside scores: a sentence, the signature, and BibTeX of the papers to cite.

    Versions of index and rater that are gone are cited as well, with the time of their removal.
    """
    from refaug.scoring.citation.citation import bibliography  # noqa: PLC0415  numpy

    if as_bibtex and as_json:
        raise Usage("--bibtex and --json at once", remedy="one of the two: the JSON has the BibTeX")
    citations = [citation for text in cited for citation in _citations(context.obj, text)]
    if as_json:
        print_json({"citations": [citation.as_json() for citation in citations], "bibtex": bibliography(citations)})
        return
    for citation in () if as_bibtex else citations:
        _print_citation(citation)
    for line in bibliography(citations).splitlines():
        print_line(line)


def _citations(settings: Settings, text: str) -> Sequence[Citation]:
    """Return the citations of a file, a signature or a set; a file goes before a set of its name."""
    from refaug.scoring.citation.citation import (  # noqa: PLC0415  numpy
        cite_set,
        cite_signature,
        signatures_in,
    )
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415

    is_file = _is_file(text)
    if "|" in text and not is_file:
        return [cite_signature(text, settings)]
    if _SET.fullmatch(text) and not is_file:
        sets = ReferenceSets(settings.reference_sets)
        reference_set = sets.open(text, even_withdrawn=True)
        return [cite_set(reference_set.manifest, sets.withdrawal(reference_set.id), settings)]
    with file_or_stdin(Path(text)) as path:
        scores = signatures_in(path, "stdin" if text == "-" else text)
    citations = [cite_signature(line, settings, scores.set_id) for line in scores.signatures]
    return [
        replace(citation, notes=(scores.note, *citation.notes)) if scores.note else citation for citation in citations
    ]


def _is_file(text: str) -> bool:
    """Whether a file has this name; signatures are longer than names of files may be."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _print_citation(citation: Citation) -> None:
    print_line(citation.sentence)
    if citation.signature:
        print_line(f"  signature: {citation.signature}")
    for note in citation.notes:
        print_line(f"  note: {note}")
    print_line()
