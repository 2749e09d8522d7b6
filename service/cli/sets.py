"""`refaug sets …`: freezing weighted references, scoring against them, looking at them, deriving, withdrawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import RefaugError, Usage
from core.item_tables import TABLE_SUFFIX, table_rows
from core.items import BadItem, read_items
from core.logs.rows import json_rows
from core.logs.sources import LineReader, Source
from core.progress import Progress
from core.records import Item
from service.cli.common import JsonFlag, counted, file_or_stdin, print_facts, print_json, print_line, print_table
from service.cli.index_common import ThreadsOption
from service.cli.options import with_options
from service.cli.progress import shown_progress
from service.cli.references import Asked, IndexOption, RaterOption, opened
from service.cli.scoring import Scoring, StrictFlag, report_problems, require_all
from service.settings import Settings

if TYPE_CHECKING:
    from service.augment import AugmentSettings
    from service.reference_sets import Frozen, Purpose, ReferenceSets

app = typer.Typer(help="Freeze weighted references, and score against them.", no_args_is_help=True)

IdArgument = Annotated[
    str, typer.Argument(help="Id of the set, or at least the first 6 characters of it.", metavar="ID")
]


class PurposeChoice(StrEnum):
    """What a set is for."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


def _sets(settings: Settings) -> ReferenceSets:
    from service.reference_sets import ReferenceSets  # noqa: PLC0415  compiles

    return ReferenceSets(settings.reference_sets)


# ── making ────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("freeze")
@with_options
def freeze_command(
    context: typer.Context,
    items: Annotated[Path, typer.Argument(help="A test file; - for JSONL from stdin.", metavar="ITEMS")],
    purpose: Annotated[PurposeChoice, typer.Option(help="What the set is for.")],
    *,
    index: IndexOption = None,
    rater: RaterOption = None,
    asked: Asked,
    threads: ThreadsOption = None,
    strict: StrictFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Freeze a test file with its weighted references.

    With --index, references are found and weighed first, as refs does; without it they are taken as they are. Replies
    and their ratings are left out.
    """
    from service.reference_sets import Purpose  # noqa: PLC0415  compiles

    if index is None and rater is not None:
        raise Usage("--rater without --index", remedy="--index NAME: a rater weighs the references that are found")
    asked.require_used(index, rater, rates=False)
    settings = asked.settings() if index is not None else None
    called = "stdin" if str(items) == "-" else str(items)
    with shown_progress(quiet=context.obj.quiet) as progress, file_or_stdin(items) as path:

        def check(bad: Sequence[BadItem]) -> None:
            placed = _placed(bad, path, called)
            report_problems(placed, (), progress)
            require_all(placed, strict=strict)

        def unknown(name: str) -> None:
            progress.warn(f"field {name!r} is not used")

        found = _freeze(
            context.obj,
            read_items(path, called=called, unknown=unknown),
            Purpose(purpose.value),
            _Tools(index, rater, settings, threads) if index is not None and settings is not None else None,
            called,
            check,
            progress,
        )
    _print_frozen(found, as_json=as_json)


@dataclass(frozen=True)
class _Tools:
    """What references are found and weighed with."""

    index: str
    rater: str | None
    settings: AugmentSettings
    threads: int | None


def _freeze(
    home: Settings,
    listed: Iterator[Item | BadItem],
    purpose: Purpose,
    tools: _Tools | None,
    called: str,
    check: Any,
    progress: Progress,
) -> Frozen:
    """Freeze what is given, or what an index has for it."""
    from service.reference_sets import Making  # noqa: PLC0415

    if tools is None:
        progress.stage("freeze")
        given = Making(purpose=purpose, how={"freeze": {"references": "given"}})
        return _sets(home).freeze(listed, given, called=called, check=check)
    from service.augment import augment, provenance, provenance_details  # noqa: PLC0415  torch

    notes = Counter[str]()

    def with_references() -> Iterator[Item | BadItem]:
        for one in augment(listed, found, weigher, tools.settings, progress):
            if not isinstance(one, BadItem) and one.note:
                notes[one.note] += 1
            yield one if isinstance(one, BadItem) else one.item

    with opened(home, tools.index, tools.rater, tools.settings, tools.threads) as (found, weigher):
        making = Making(
            purpose=purpose,
            provenance=provenance(found, weigher, tools.settings),
            details=provenance_details(found, tools.settings),
            how={"freeze": {"references": "found"}},
        )
        frozen = _sets(home).freeze(with_references(), making, called=called, check=check)
    for note, count in notes.most_common():
        progress.warn(f"{counted(count, 'item')}: {note}")
    return frozen


@app.command("derive")
def derive_command(
    context: typer.Context,
    name: IdArgument,
    weights: Annotated[
        str | None, typer.Option("--reference-weights", help="What references that were found weigh: rated, or one.")
    ] = None,
    parrot: Annotated[
        str | None, typer.Option(help="The utterance itself as a reference: rated, off, or its weight.")
    ] = None,
    gold: Annotated[str | None, typer.Option(help="What a gold weighs: one, or rated.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Keep the first so many that were found.", min=1)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a set of other weights out of what another one has stored, without index or rater."""
    from service.reference_sets import Derivation  # noqa: PLC0415

    change = Derivation(
        weights=weights,  # type: ignore[arg-type]
        parrot=None if parrot is None else _parrot(parrot),  # type: ignore[arg-type]
        gold=gold,  # type: ignore[arg-type]
        k=k,
    )
    with shown_progress(quiet=context.obj.quiet) as progress:
        found = _sets(context.obj).derive(name, change, progress)
    _print_frozen(found, as_json=as_json)


def _parrot(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _print_frozen(found: Frozen, *, as_json: bool) -> None:
    manifest = found.set.manifest
    if as_json:
        problems = [asdict(bad) for bad in found.bad_items]
        print_json({**manifest.as_json(), "new": found.is_new, "problems": problems})
        return
    note = {} if found.is_new else {"note": "it was there already: nothing to do"}
    parent = {"parent": manifest.parent} if manifest.parent else {}
    sizes = {"items": manifest.items, "references": manifest.references}
    print_facts(f"set {manifest.id}", {"purpose": manifest.purpose.value, **sizes, **parent, **note})


def _placed(bad: Sequence[BadItem], path: Path, called: str) -> list[BadItem]:
    """The same with the lines of those that are told by their ids alone."""
    from service.reference_sets import UNPLACED  # noqa: PLC0415

    wanted = {one.item for one in bad if one.line == UNPLACED}
    lines = _lines_of(path, wanted) if wanted else {}
    return [
        replace(one, file=called, line=lines.get(one.item or "", UNPLACED)) if one.line == UNPLACED else one
        for one in bad
    ]


def _lines_of(path: Path, ids: set[str | None]) -> dict[str, int]:
    reader = LineReader(Source.of(path))
    is_table = TABLE_SUFFIX in path.suffixes
    rows = table_rows(reader) if is_table else (row for block in reader if not block.bad for row in json_rows(block))
    found = dict[str, int]()
    for row in rows:
        if isinstance(row, tuple):
            name = str(row[1].get("id", f"line-{row[0]}"))
            if name in ids:
                found.setdefault(name, row[0])
    return found


# ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("score")
@with_options
def score_command(
    context: typer.Context,
    name: IdArgument,
    replies: Annotated[
        Path,
        typer.Argument(help="Items with ids of the set and replies, the rest is ignored; - for stdin.", metavar="FILE"),
    ],
    scoring: Scoring,
) -> None:
    """Score replies against a frozen set; neither index nor rater is needed.

    Replies belong to the items of the set by id, whatever their order. What cannot be scored is listed and counted.
    """
    from service import reference_sets  # noqa: PLC0415  compiles

    settings = scoring.settings()
    called = "stdin" if str(replies) == "-" else str(replies)
    with shown_progress(quiet=context.obj.quiet) as progress, file_or_stdin(replies) as path:
        stored = _sets(context.obj).open(name)
        progress.stage("read")
        joined = reference_sets.join(stored, read_items(path, called=called), called)
        bad = _placed([one for one in joined if isinstance(one, BadItem)], path, called)
        joined = [*bad, *(one for one in joined if isinstance(one, Item))]
        found = reference_sets.score(stored, joined, scoring.metrics(joined), settings, progress)
        report_problems(found.bad_items, found.warnings, progress)
    scoring.show(found, set=stored.id)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All sets, withdrawn ones too."""
    sets = _sets(context.obj)
    rows = [_listed(sets, name) for name in sets.ids()]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "purpose", "items", "references", "created", "parent", "note")
    print_table("sets", columns, [[row[column] for column in columns] for row in rows])


def _listed(sets: ReferenceSets, name: str) -> dict[str, Any]:
    try:
        withdrawn = sets.withdrawal(name)
        manifest = sets.open(name, even_withdrawn=True).manifest
    except RefaugError as error:
        empty = dict.fromkeys(("purpose", "items", "references", "created", "parent"))
        return {"id": name, **empty, "withdrawn": None, "note": f"{error.code}: {error.message}"}
    return {
        "id": name,
        "purpose": manifest.purpose.value,
        "items": manifest.items,
        "references": manifest.references,
        "created": manifest.created,
        "parent": manifest.parent,
        "withdrawn": asdict(withdrawn) if withdrawn else None,
        "note": f"withdrawn: {withdrawn.reason}" if withdrawn else "",
    }


@app.command("show")
def show_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """How a set was made, and on what scores against it stand; withdrawn ones too."""
    from service.reference_sets import BIN_EDGES, evidence  # noqa: PLC0415  compiles

    sets = _sets(context.obj)
    stored = sets.open(name, even_withdrawn=True)
    manifest, withdrawn, found = stored.manifest, sets.withdrawal(stored.id), evidence(stored)
    edges = [-1.0, *BIN_EDGES, 1.0]
    bins = list(zip(edges[:-1], edges[1:], found.weights, strict=True))
    if as_json:
        print_json(
            {
                **manifest.as_json(),
                "withdrawn": asdict(withdrawn) if withdrawn else None,
                "evidence": {
                    "sources": dict(found.sources),
                    "thin": found.thin,
                    "weights": [{"from": low, "to": high, "references": count} for low, high, count in bins],
                },
            }
        )
        return
    facts = {
        "purpose": manifest.purpose.value,
        **({"withdrawn": withdrawn.reason, "instead": withdrawn.instead} if withdrawn else {}),
        "created": manifest.created,
        "refaug": manifest.refaug,
        "parent": manifest.parent,
        "items": manifest.items,
        "references": manifest.references,
        "sources": found.sources,
        "thin": f"{found.thin:,} of {manifest.items:,} items",
        "content": manifest.content[:12],
        **manifest.provenance,
        **manifest.details,
    }
    print_facts(f"set {stored.id}", facts)
    rows = [[f"{low:+.1f}", f"{high:+.1f}", count] for low, high, count in bins]
    print_table("weights of references beside the gold", ("from", "to", "references"), rows)


@app.command("verify")
def verify_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """Read all of a set again, and say what is wrong with it, if anything."""
    stored = _sets(context.obj).open(name)
    stored.verify()
    manifest = stored.manifest
    if as_json:
        sizes = {"items": manifest.items, "references": manifest.references}
        print_json({"id": stored.id, **sizes, "content": manifest.content})
    else:
        found = f"{counted(manifest.items, 'item')}, {counted(manifest.references, 'reference')}"
        print_line(f"set {stored.id}: {found}, as the manifest says")


@app.command("withdraw")
def withdraw_command(
    context: typer.Context,
    name: IdArgument,
    reason: Annotated[str, typer.Option(help="Why; everyone who asks for the set is told.", metavar="TEXT")],
    instead: Annotated[str | None, typer.Option(help="The set to use instead.", metavar="ID")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let nobody use a set any more; list and show still know it."""
    sets = _sets(context.obj)
    withdrawn = sets.withdraw(name, reason, instead)
    found = sets.resolve(name)
    if as_json:
        print_json({"id": found, **asdict(withdrawn)})
        return
    print_line(f"set {found} is withdrawn" + (f"; instead: {withdrawn.instead}" if withdrawn.instead else ""))
