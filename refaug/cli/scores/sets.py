"""`refaug sets …`: finding and freezing references, scoring against sets, showing, deriving and withdrawing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.item_inputs import ItemInputs
from refaug.cli.shared.output import (
    JsonFlag,
    count_of,
    file_or_stdin,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from refaug.cli.shared.progress import display_progress
from refaug.cli.shared.score_options import ScoreOutput, StrictFlag, report_problems, require_all, require_models
from refaug.core.errors import BadInput, RefaugError
from refaug.core.home import Settings
from refaug.core.records import Item
from refaug.operations.item_sources import TableOptions
from refaug.operations.references import FindReferences, FreezeSet
from refaug.operations.scoring_options import ScoringOptions
from refaug.scoring.items import BadItem, item_rows, read_items
from refaug.tables.table_request import TableRequest

if TYPE_CHECKING:
    from refaug.scoring.reference_sets.set_store import FreezeResult, ReferenceSets


IdArgument = Annotated[
    str, typer.Argument(help="Id of the set, or at least the first 6 characters of it.", metavar="ID")
]


def _sets(settings: Settings) -> ReferenceSets:
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415  compiles

    return ReferenceSets(settings.reference_sets)


# ── Freezing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@with_options
def freeze_command(context: typer.Context, *, order: FreezeSet, as_json: JsonFlag = False) -> None:
    """Freeze a test file with its weighted references.

    With --index, references are found and weighed first, as sets references does; without it they are taken as they
    are. Replies and their ratings are left out.
    """
    from refaug.scoring.score_files.freezing import freeze_file  # noqa: PLC0415  torch

    called = "stdin" if order.items == "-" else order.items
    with display_progress(quiet=context.obj.quiet) as progress, file_or_stdin(Path(order.items)) as path:

        def check(bad: Sequence[BadItem]) -> None:
            bad_items = _with_line_numbers(bad, path, called, order.table)
            report_problems(bad_items, (), progress)
            require_all(bad_items, strict=order.strict)

        frozen = freeze_file(context.obj, order, path, called, check, progress)
    _print_frozen(frozen, as_json=as_json)


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
    k: Annotated[int | None, typer.Option("-k", help="Keep this many of the retrieved references.", min=1)] = None,
    people: Annotated[
        Path | None,
        typer.Option(
            help="Weights by people, a file that refaug studies export --format weights writes; other references keep "
            "theirs.",
            metavar="FILE",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a set of other weights out of what another one has stored, or people have said, without index or rater."""
    from refaug.scoring.reference_sets.derivation import Derivation, PeopleWeights  # noqa: PLC0415

    change = Derivation(
        weights=weights,  # type: ignore[arg-type]
        parrot=None if parrot is None else _parrot(parrot),  # type: ignore[arg-type]
        gold=gold,  # type: ignore[arg-type]
        k=k,
        people=None if people is None else PeopleWeights.read(people),
    )
    with display_progress(quiet=context.obj.quiet) as progress:
        frozen = _sets(context.obj).derive(name, change, progress)
    _print_frozen(frozen, as_json=as_json)


def _parrot(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _print_frozen(frozen: FreezeResult, *, as_json: bool) -> None:
    manifest = frozen.set.manifest
    if as_json:
        problems = [asdict(bad) for bad in frozen.bad_items]
        print_json({**manifest.as_json(), "new": frozen.is_new, "problems": problems})
        return
    note = {} if frozen.is_new else {"note": "it was there already: nothing to do"}
    parent = {"parent": manifest.parent} if manifest.parent else {}
    sizes = {"items": manifest.items, "references": manifest.references}
    print_facts(f"set {manifest.id}", {"purpose": manifest.purpose.value, **sizes, **parent, **note})


def _with_line_numbers(bad: Sequence[BadItem], path: Path, called: str, table: TableRequest) -> list[BadItem]:
    """Return the bad items with the lines of those that are known by their ids alone."""
    from refaug.scoring.reference_sets.reference_set import NO_LINE  # noqa: PLC0415

    unplaced_ids = {bad_item.item for bad_item in bad if bad_item.line == NO_LINE}
    lines = _lines_of(path, unplaced_ids, table) if unplaced_ids else {}
    return [
        replace(bad_item, file=called, line=lines.get(bad_item.item or "", NO_LINE))
        if bad_item.line == NO_LINE
        else bad_item
        for bad_item in bad
    ]


def _lines_of(path: Path, ids: set[str | None], table: TableRequest) -> dict[str, int]:
    lines = dict[str, int]()
    for row in item_rows(path, str(path), table):
        if isinstance(row, tuple):
            name = str(row[1].get("id", f"line-{row[0]}"))
            if name in ids:
                lines.setdefault(name, row[0])
    return lines


# ── Scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@with_options
def score_command(
    context: typer.Context,
    name: IdArgument,
    replies: Annotated[
        Path,
        typer.Argument(help="Items with ids of the set and replies, the rest is ignored; - for stdin.", metavar="FILE"),
    ],
    *,
    table: TableOptions,
    scoring: ScoringOptions,
    output: ScoreOutput,
    record: Annotated[
        str | None,
        typer.Option(help="Record the scores in the history of the set, under this name of the run.", metavar="NAME"),
    ] = None,
) -> None:
    """Score replies against a frozen set; neither index nor rater is needed.

    Replies belong to the items of the set by id, whatever their order. What cannot be scored is listed and counted.
    Nothing is recorded without --record.
    """
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415
    from refaug.scoring.metric_setup.scoring_steps import bound_metrics, chosen_metrics  # noqa: PLC0415  compiles
    from refaug.scoring.reference_sets.set_history import SetHistory, require_run_name  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_scores import join, score  # noqa: PLC0415  compiles

    output.require_shown(scoring)
    require_models(context.obj, scoring.specifications, rater=None)
    if record is not None:
        require_run_name(record)
    called = "stdin" if str(replies) == "-" else str(replies)
    with display_progress(quiet=context.obj.quiet) as progress, file_or_stdin(replies) as path:
        reference_set = _sets(context.obj).open(name)
        progress.stage("read")
        joined = join(reference_set, read_items(path, shown_name=called, table=table.table), called)
        bad = _with_line_numbers(
            [joined_item for joined_item in joined if isinstance(joined_item, BadItem)], path, called, table.table
        )
        joined = [*bad, *(joined_item for joined_item in joined if isinstance(joined_item, Item))]
        models = ModelRegistry(context.obj)
        metrics = chosen_metrics(scoring.specifications, joined, models, language=scoring.language)
        bound = bound_metrics(metrics, models, progress=progress)
        evaluation = score(reference_set, joined, bound, scoring, progress)
        report_problems(evaluation.bad_items, evaluation.warnings, progress)
    require_all(evaluation.bad_items, strict=output.strict and record is not None)
    if record is not None:
        SetHistory(reference_set).record(record, evaluation)
    output.show(scoring, evaluation, joined, ItemInputs(items=replies, table=table).names, set=reference_set.id)


# ── Showing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All sets, withdrawn ones too."""
    sets = _sets(context.obj)
    rows = [_set_row(sets, name) for name in sets.ids()]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "purpose", "items", "references", "created", "parent", "note")
    print_table("sets", columns, [[row[column] for column in columns] for row in rows])


def _set_row(sets: ReferenceSets, name: str) -> dict[str, Any]:
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


def show_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """How a set was made, and on what scores against it stand; withdrawn ones too."""
    from refaug.scoring.reference_sets.set_scores import BIN_EDGES, evidence  # noqa: PLC0415  compiles

    sets = _sets(context.obj)
    reference_set = sets.open(name, even_withdrawn=True)
    manifest, withdrawn, set_evidence = (
        reference_set.manifest,
        sets.withdrawal(reference_set.id),
        evidence(reference_set),
    )
    edges = [-1.0, *BIN_EDGES, 1.0]
    bins = list(zip(edges[:-1], edges[1:], set_evidence.weights, strict=True))
    if as_json:
        print_json(
            {
                **manifest.as_json(),
                "withdrawn": asdict(withdrawn) if withdrawn else None,
                "evidence": {
                    "sources": dict(set_evidence.sources),
                    "thin": set_evidence.thin,
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
        "sources": set_evidence.sources,
        "thin": f"{set_evidence.thin:,} of {manifest.items:,} items",
        "content": manifest.content[:12],
        **manifest.provenance,
        **manifest.details,
    }
    print_facts(f"set {reference_set.id}", facts)
    rows = [[f"{low:+.1f}", f"{high:+.1f}", count] for low, high, count in bins]
    print_table("weights of references beside the gold", ("from", "to", "references"), rows)


def verify_command(context: typer.Context, name: IdArgument, as_json: JsonFlag = False) -> None:
    """Read all of a set again, and say what is wrong with it, if anything."""
    reference_set = _sets(context.obj).open(name)
    reference_set.verify()
    manifest = reference_set.manifest
    if as_json:
        sizes = {"items": manifest.items, "references": manifest.references}
        print_json({"id": reference_set.id, **sizes, "content": manifest.content})
    else:
        sizes_in_words = f"{count_of(manifest.items, 'item')}, {count_of(manifest.references, 'reference')}"
        print_line(f"set {reference_set.id}: {sizes_in_words}, as the manifest says")


def withdraw_command(
    context: typer.Context,
    name: IdArgument,
    reason: Annotated[str, typer.Option(help="Why; shown to everyone who uses the set.", metavar="TEXT")],
    instead: Annotated[str | None, typer.Option(help="The set to use instead.", metavar="ID")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Withdraw a set: it can no longer be scored, but stays listed."""
    sets = _sets(context.obj)
    withdrawn = sets.withdraw(name, reason, instead)
    set_id = sets.resolve(name)
    record_act(context.obj, "withdraw", f"set {set_id}")
    if as_json:
        print_json({"id": set_id, **asdict(withdrawn)})
        return
    print_line(f"set {set_id} is withdrawn" + (f"; instead: {withdrawn.instead}" if withdrawn.instead else ""))


# ── Published sets ────────────────────────────────────────────────────────────────────────────────────────────────────


def standard_command(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Say all about this set.", metavar="[NAME]")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the published sets that sets add reads: papers, parts, fair rows, known faults and licences."""
    from refaug.tables.published_sets import SETS, find_set  # noqa: PLC0415

    chosen = list(SETS.values()) if name is None else [find_set(name)[0]]
    if as_json:
        print_json([{**each.as_json(), "added": _added(context.obj, each.name)} for each in chosen])
        return
    if name is not None:
        facts = {fact: given for fact, given in chosen[0].as_json().items() if given is not None and fact != "name"}
        print_facts(chosen[0].name, {**facts, "added": _added(context.obj, name)})
        return
    print_table(
        "published sets",
        ("name", "parts", "holds", "paper", "licence", "added"),
        [
            (
                each.name,
                ", ".join(each.parts) or each.open_parts,
                each.kind.value,
                each.paper[: each.paper.index(" 20") + 5],
                each.licence,
                ", ".join(_added(context.obj, each.name)) or ("" if each.read is not None else "no reader"),
            )
            for each in chosen
        ],
    )


def _added(settings: Settings, name: str) -> list[str]:
    """Return the files of a home that hold a set, or parts of it."""
    from refaug.tables.published_sets import file_name  # noqa: PLC0415

    called = file_name(name)
    return [
        path.stem
        for path in sorted(settings.datasets.glob("*.jsonl"))
        if path.stem == called or path.stem.startswith(f"{called}-")
    ]


def add_command(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the set, or NAME:PART; sets standard lists them.")],
    source: Annotated[
        Path, typer.Option("--from", help="The folder, archive or file of its authors.", metavar="FOLDER_OR_ARCHIVE")
    ],
    quality: Annotated[
        str | None, typer.Option(help="The quality whose ratings count; without it, the one that stands for all.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read a published set: rated replies become items that agreement takes by name, dialogues a file to ingest.

    Nothing is downloaded. A file of another layout or year is refused, with the line and what is expected.
    """
    from refaug.core.files import make_folder, write_aside  # noqa: PLC0415
    from refaug.tables.published_files import SetKind  # noqa: PLC0415
    from refaug.tables.published_sets import file_name, find_set, read_set  # noqa: PLC0415

    published, _ = find_set(name)
    target, counts = context.obj.datasets / f"{file_name(name)}.jsonl", {"items": 0, "replies": 0}
    make_folder(target.parent)
    with display_progress(quiet=context.obj.quiet) as progress, write_aside(target) as file:
        progress.stage(f"read {name}")
        for where, document in read_set(name, source, quality):
            if published.kind is SetKind.RATED:
                _require_item(where, document)
            counts["items"] += 1
            counts["replies"] += len(document.get("replies", document["turns"]))
            file.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
        if not counts["items"]:
            raise BadInput(f"{source}: nothing of {name} in it", remedy=f"expected: {published.layout}")
    is_rated = published.kind is SetKind.RATED
    then = f"refaug agreement {target.stem}" if is_rated else f"refaug log ingest {target} --log {target.stem}"
    facts = {
        "file": str(target),
        **({"items": counts["items"], "rated replies": counts["replies"]} if is_rated else {}),
        **({} if is_rated else {"dialogues": counts["items"], "turns": counts["replies"]}),
        "paper": published.paper,
        "licence": published.licence,
        "may be passed on": published.may_share,
        **({"fair rows": published.fair} if published.fair else {}),
        "known faults": list(published.faults),
        "then": then,
    }
    print_json(facts) if as_json else print_facts(name, facts)


def _require_item(where: str, document: dict[str, Any]) -> None:
    from refaug.scoring.items import parse_item  # noqa: PLC0415

    parsed = parse_item(document, where=where, line=0, fallback_id=document["id"])
    if isinstance(parsed, BadItem):
        raise BadInput(f"{where}: {parsed.field}: {parsed.message}", remedy="the set has other values than published")


# ── References ────────────────────────────────────────────────────────────────────────────────────────────────────────


@with_options
def refs_command(context: typer.Context, *, order: FindReferences, strict: StrictFlag = False) -> None:
    """Weighted references for every item of a test file, as a test file again, with where each comes from."""
    from refaug.scoring.augmentation import found_json  # noqa: PLC0415  torch
    from refaug.scoring.metric_setup.scoring_steps import open_references  # noqa: PLC0415  torch

    assert order.index is not None, "it is checked"
    bad, inputs = list[BadItem](), ItemInputs(items=Path(order.items), table=order)
    with (
        display_progress(quiet=context.obj.quiet) as progress,
        open_references(
            context.obj, order.index, order.rater, order.settings, order.threads, progress, order.on
        ) as source,
    ):
        provenance = source.provenance.line
        for augmented in source.augment(inputs.within_stage(progress), progress):
            if isinstance(augmented, BadItem):
                bad.append(augmented)
                continue
            print_json_line(found_json(augmented, provenance))
        report_problems(bad, (), progress, rest="")
    require_all(bad, strict=strict)
