"""`refaug score diagnose`: properties of the replies of each system, without a score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import JsonFlag, count_of, print_json, print_line, print_table, print_text
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import StrictFlag, number, report_problems, require_all
from refaug.core.errors import Usage
from refaug.core.text.tokenizers import default_tokenizer, get_tokenizer
from refaug.operations.item_sources import ItemSources
from refaug.tables.reports.table import Table

if TYPE_CHECKING:
    from refaug.metrics.diagnostics import Diagnosis

_ENGLISH = "en"


@with_options
def diagnose_command(
    context: typer.Context,
    *,
    sources: ItemSources,
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
    from refaug.metrics.diagnostics import GENERIC_PHRASES, DiagnosisSettings, diagnose_items  # noqa: PLC0415  numpy
    from refaug.scoring.cases import split, systems_of  # noqa: PLC0415  compiles
    from refaug.scoring.spooled_items.item_collection import data_hash  # noqa: PLC0415  compiles

    tokenizer = get_tokenizer(tok or default_tokenizer(language or _ENGLISH))
    settings = DiagnosisSettings(sample=sample, listed=GENERIC_PHRASES if _is_english(language) else None)
    with display_progress(quiet=context.obj.quiet) as progress:
        good, bad = split(ItemInputs.of(sources).read(progress))
        systems = systems_of(good)
        progress.stage("diagnose")
        diagnoses = diagnose_items(good, systems, tokenizer, settings)
        report_problems(bad, [], progress)
    if as_json:
        print_json(
            {
                "tokenizer": tokenizer.name,
                "sample": sample,
                "items": len(good),
                "data": data_hash(good),
                "systems": {name: diagnosis.as_json() for name, diagnosis in diagnoses.items()},
                "problems": [
                    {
                        "file": bad_item.file,
                        "line": bad_item.line,
                        "id": bad_item.item,
                        "field": bad_item.field,
                        "message": bad_item.message,
                    }
                    for bad_item in bad
                ],
            }
        )
    elif as_tsv:
        _print_tsv(diagnoses)
    else:
        _print_tables(diagnoses, f"tok {tokenizer.name}, samples of {sample:,} n-grams: {count_of(len(good), 'item')}")
    require_all(bad, strict=strict)


def _is_english(language: str | None) -> bool:
    """Say whether the texts may be English; without a language the English list of phrases is tried."""
    return language is None or language.replace("_", "-").split("-")[0].lower() == _ENGLISH


def _print_tables(diagnoses: Mapping[str, Diagnosis], how: str) -> None:
    """Print a table for each group of figures, with a row for each system; then the reasons for dashes."""
    from refaug.metrics.diagnostics import groups  # noqa: PLC0415  numpy

    print_table(
        "replies",
        ("system", "replies", "missing", "tokens"),
        [(name, diagnosis.replies, diagnosis.missing, diagnosis.tokens) for name, diagnosis in diagnoses.items()],
    )
    for group, names in groups():
        rows = [
            (system, *(number(diagnosis.figures[name].value) for name in names))
            for system, diagnosis in diagnoses.items()
        ]
        print_table(group, ("system", *names), rows)
    for line in _reasons(diagnoses):
        print_line(line)
    print_line(how)


def _reasons(diagnoses: Mapping[str, Diagnosis]) -> Iterator[str]:
    for system, diagnosis in diagnoses.items():
        for name, figure in diagnosis.figures.items():
            if figure.why is not None:
                yield f"no {name} of {system}: {figure.why}"


def _print_tsv(diagnoses: Mapping[str, Diagnosis]) -> None:
    """Print a row for each figure, at full precision."""
    rows = [
        (system, name, figure.value, figure.why)
        for system, diagnosis in diagnoses.items()
        for name, figure in diagnosis.figures.items()
    ]
    print_text(Table("figures", ("system", "figure", "value", "reason"), rows).as_tsv())
