"""`refaug diagnose`: what the replies of each system are like, without a score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Usage
from core.text import default_tokenizer, get_tokenizer
from service.cli.common import JsonFlag, counted, print_cells, print_json, print_line, print_table
from service.cli.progress import shown_progress
from service.cli.score import ItemsArgument, ReferencesOption, RepliesOption, items_from
from service.cli.scoring import StrictFlag, number, report_problems, require_all

if TYPE_CHECKING:
    from metrics.diagnostics import Diagnosis

_ENGLISH = "en"


def diagnose_command(
    context: typer.Context,
    items: ItemsArgument = None,
    replies: RepliesOption = None,
    references: ReferencesOption = None,
    tok: Annotated[
        str | None,
        typer.Option(help="How texts become tokens: word, char, 13a, intl, mecab, …; by default word, mecab for ja."),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="Language of the texts (en, ja, …); the list of generic replies is English.", metavar="TAG"),
    ] = None,
    sample: Annotated[
        int, typer.Option(help="Of how many n-grams distinct_n_sample is.", min=1, max=1_000_000_000)
    ] = 1_000,
    strict: StrictFlag = False,
    as_tsv: Annotated[bool, typer.Option("--tsv", help="Print rows separated by tabs.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say how varied, long, generic, repetitive and copied the replies of each system are.

    ITEMS is JSONL as for refaug score; or give line-aligned files with --replies and --references.
    """
    if as_json and as_tsv:
        raise Usage("--json and --tsv at once", remedy="one of the two")
    from metrics.diagnostics import GENERIC_PHRASES, DiagnosisSettings, diagnose_items  # noqa: PLC0415  numpy
    from service.cases import data_hash, split, systems_of  # noqa: PLC0415  compiles

    tokenizer = get_tokenizer(tok or default_tokenizer(language or _ENGLISH))
    settings = DiagnosisSettings(sample=sample, listed=GENERIC_PHRASES if _is_english(language) else None)
    with shown_progress(quiet=context.obj.quiet) as progress:
        good, bad = split(items_from(items, replies or [], references or [], [], progress))
        systems = systems_of(good)
        progress.stage("diagnose")
        found = diagnose_items(good, systems, tokenizer, settings)
        report_problems(bad, [], progress)
    if as_json:
        print_json(
            {
                "tokenizer": tokenizer.name,
                "sample": sample,
                "items": len(good),
                "data": data_hash(good),
                "systems": {name: one.as_json() for name, one in found.items()},
                "problems": [
                    {"file": one.file, "line": one.line, "id": one.item, "field": one.field, "message": one.message}
                    for one in bad
                ],
            }
        )
    elif as_tsv:
        _print_tsv(found)
    else:
        _print_tables(found, f"tok {tokenizer.name}, samples of {sample:,} n-grams: {counted(len(good), 'item')}")
    require_all(bad, strict=strict)


def _is_english(language: str | None) -> bool:
    """No language said: the list is tried, since most that stands in it is found in English only."""
    return language is None or language.replace("_", "-").split("-")[0].lower() == _ENGLISH


def _print_tables(found: Mapping[str, Diagnosis], how: str) -> None:
    """A table for each group of figures, a row for each system; then why there is a dash."""
    from metrics.diagnostics import groups  # noqa: PLC0415  numpy

    print_table(
        "replies",
        ("system", "replies", "missing", "tokens"),
        [(name, one.replies, one.missing, one.tokens) for name, one in found.items()],
    )
    for group, names in groups():
        rows = [(system, *(number(one.figures[name].value) for name in names)) for system, one in found.items()]
        print_table(group, ("system", *names), rows)
    for line in _reasons(found):
        print_line(line)
    print_line(how)


def _reasons(found: Mapping[str, Diagnosis]) -> Iterator[str]:
    for system, one in found.items():
        for name, figure in one.figures.items():
            if figure.why is not None:
                yield f"no {name} of {system}: {figure.why}"


def _print_tsv(found: Mapping[str, Diagnosis]) -> None:
    """A row for each figure, at full precision."""
    print_cells("system", "figure", "value", "reason")
    for system, one in found.items():
        for name, figure in one.figures.items():
            print_cells(system, name, figure.value, figure.why)
