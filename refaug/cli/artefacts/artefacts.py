"""`refaug artefacts …`: versions of every kind, in the home or in a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from refaug.cli.artefacts.stores import (
    KINDS,
    KindArgument,
    SpecArgument,
    collect_store,
    list_store,
    remove_from_store,
    verify_store,
)
from refaug.cli.shared.database import record_act
from refaug.cli.shared.field_options import typed_names
from refaug.cli.shared.output import (
    JsonFlag,
    count_of,
    print_json,
    print_line,
    print_published,
    print_sections,
    print_table,
    print_warning,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.kinds import ArtefactKind, find_kind
from refaug.core.artefacts.versions import check_version
from refaug.core.errors import Corrupt, Usage
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import StoredArtefacts, stored_artefacts

AnyKindArgument = Annotated[str | None, typer.Argument(help=f"{KINDS} By default all of them.", metavar="KIND")]
NameArgument = Annotated[str, typer.Argument(help="Its name.", metavar="NAME")]
OfStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Of a store instead of the home: a folder, s3://BUCKET/PREFIX, or env for REFAUG_STORE.",
        metavar="LOCATION",
    ),
]
EvenRefusedFlag = Annotated[bool, typer.Option("--even-refused", help="Also a version that a check refused.")]


def _only_name(verb: str, name: str, remedy: str) -> str:
    """Return a name without a version; Usage for one with a version."""
    if "@" in name:
        raise Usage(f"{verb} takes a name without a version, not {name!r}", remedy=remedy)
    return name


# ── Looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def list_command(
    context: typer.Context, kind: AnyKindArgument = None, store: OfStoreOption = None, as_json: JsonFlag = False
) -> None:
    """All versions with their main facts, the published one marked; with --store, those of a store."""
    kinds = [find_kind(kind)] if kind is not None else list(ArtefactKind)
    if store is not None:
        list_store(store, None if kind is None else kinds[0], as_json=as_json)
        return
    rows = {each: list(_rows(stored_artefacts(context.obj, each))) for each in kinds}
    if as_json:
        print_json({"versions": [{"kind": each, **row} for each in kinds for row in rows[each]]})
        return
    for each in kinds:
        if rows[each]:
            _print_rows(context.obj, each, rows[each])
    if not any(rows.values()):
        begin = f": {kinds[0].made_by}" if kind is not None else ""
        print_line(f"no {kinds[0].folder if kind is not None else 'artefacts'} in {context.obj.home} yet{begin}")


def _rows(stored: StoredArtefacts) -> Iterator[dict[str, object]]:
    """Yield every version of every artefact of a kind."""
    for name in stored.versions.names():
        for version in stored.versions.versions(name):
            yield {"name": name, **stored.row(name, version)}


def _print_rows(home: Settings, kind: ArtefactKind, rows: list[dict[str, object]]) -> None:
    stored = stored_artefacts(home, kind)
    problem = ["problem"] if any(row["problem"] for row in rows) else []
    columns = ["name", "version", "published", *stored.columns, *problem]
    print_table(
        f"{kind.folder} in {stored.versions.root}", columns, [[row[column] for column in columns] for row in rows]
    )


def show_command(context: typer.Context, kind: KindArgument, artefact: SpecArgument, as_json: JsonFlag = False) -> None:
    """What a version holds, how it was made, and how good it is."""
    shown = stored_artefacts(context.obj, kind).show(artefact)
    for warning in shown.warnings:
        print_warning(warning)
    if as_json:
        print_json(shown.document)
    else:
        print_sections(shown.sections())


def verify_command(
    context: typer.Context,
    kind: AnyKindArgument = None,
    artefact: Annotated[
        str | None, typer.Argument(help="Its name, or name@version; by default all.", metavar="NAME[@VERSION]")
    ] = None,
    store: OfStoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Read every file of the versions, and compare its hash with the manifest."""
    if store is not None:
        if kind is None or artefact is None:
            raise Usage("a version in a store is verified by its kind and its name", remedy="KIND NAME[@VERSION]")
        verify_store(context.obj, store, find_kind(kind), artefact, as_json=as_json)
        return
    stores = [stored_artefacts(context.obj, each) for each in ([kind] if kind is not None else ArtefactKind)]
    rows = list[dict[str, Any]]()
    with display_progress(quiet=context.obj.quiet) as progress:
        for stored in stores:
            for name, version in _versions_of(stored, artefact):
                progress.stage(f"verifying {stored.versions.kind} {name}@{version}")
                files, problems = check_version(stored.versions, name, version, hashes=True)
                row = {"kind": stored.versions.kind, "name": name, "version": version}
                rows.append({**row, "files": files, "problems": problems})
    if as_json:
        print_json({"versions": rows})
    elif rows:
        print_table("versions", list(rows[0]), [[*list(row.values())[:-1], "; ".join(row["problems"])] for row in rows])
    if damaged := [row for row in rows if row["problems"]]:
        raise Corrupt(
            f"{count_of(len(damaged), 'version')} of {len(rows):,} not as the manifest says",
            remedy="restore the files from a backup, or make these versions again",
        )


def _versions_of(stored: StoredArtefacts, artefact: str | None) -> list[tuple[str, str]]:
    """Return the names with the versions that are meant: all, those of a name, or one."""
    versions = stored.versions
    if artefact is None:
        return [(name, version) for name in versions.names() for version in versions.versions(name)]
    if "@" in artefact:
        return [versions.resolve(artefact)]
    return [(artefact, version) for version in versions.require_versions(artefact)]


# ── Publishing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def publish_command(
    context: typer.Context,
    kind: KindArgument,
    artefact: Annotated[str, typer.Argument(help="Its name and the version.", metavar="NAME@VERSION")],
    even_refused: EvenRefusedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a name stand for this version; one that a check refused only with --even-refused."""
    stored = stored_artefacts(context.obj, kind)
    name, at, version = artefact.partition("@")
    if not at:
        raise Usage(f"{artefact!r} names no version", remedy=f"give NAME@VERSION: refaug artefacts list {kind}")
    stored.publish(name, version, even_refused=even_refused)
    record_act(context.obj, "publish", f"{kind} {name}@{version}")
    print_published(kind, name, version, as_json=as_json)


def rollback_command(
    context: typer.Context,
    kind: KindArgument,
    name: NameArgument,
    to: Annotated[str | None, typer.Option(help="The version to go back to.", metavar="VERSION")] = None,
    even_refused: EvenRefusedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Let the name stand for the version that was published before again, or for --to."""
    stored = stored_artefacts(context.obj, kind)
    _only_name("rollback", name, "name the version with --to")
    if even_refused and to is None:
        raise Usage("--even-refused is about the version that --to names", remedy="name it: --to VERSION")
    version = stored.rollback(name, to, even_refused=even_refused)
    record_act(context.obj, "rollback", f"{kind} {name}@{version}")
    print_published(kind, name, version, as_json=as_json)


# ── Removing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def gc_command(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help=KINDS, metavar="KIND")] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.", metavar="NAME")] = None,
    keep: Annotated[int, typer.Option(help="So many of the newest versions stay.", min=0)] = 3,
    even_pinned: Annotated[
        bool, typer.Option("--even-pinned", help="Also remove versions that frozen sets name.")
    ] = False,
    store: OfStoreOption = None,
    grace: Annotated[
        str,
        typer.Option(help="In a store, younger files stay: a number with s, min, h or d.", metavar="TIME"),
    ] = "24h",
    erased: Annotated[
        bool,
        typer.Option("--erased", help="In a store, also remove versions that hold what was deleted since."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove old versions of a name: all but those that are published, read, or needed.

    With --store, delete the files of the store that none of its versions names.
    """
    typed = typed_names(context)
    if store is not None:
        if {"kind", "name", "keep", "even_pinned"} & typed:
            raise Usage("the files of a store are removed together", remedy="--store with --grace and --erased alone")
        collect_store(context.obj, store, grace, erased=erased, as_json=as_json)
        return
    if kind is None or name is None:
        raise Usage("gc needs a kind and a name", remedy="refaug artefacts gc KIND NAME, or --store LOCATION")
    if {"grace", "erased"} & typed:
        raise Usage("--grace and --erased are about a store", remedy="name it with --store, or leave them out")
    from refaug.scoring.reference_sets.set_store import pinned_versions  # noqa: PLC0415

    stored = stored_artefacts(context.obj, kind)
    _only_name("gc", name, "--keep says how many versions stay")
    pins = {} if even_pinned else pinned_versions(context.obj, kind, name)
    old = stored.gc(name, keep, pins)
    if old.removed:
        record_act(context.obj, "remove", f"{kind} {name}", versions=old.removed)
    if as_json:
        print_json({"kind": kind, "name": name, **old.as_json()})
        return
    listed = f": {', '.join(old.removed)}" if old.removed else ""
    print_line(f"{kind} {name}: {count_of(len(old.removed), 'version')} removed{listed}")
    for needed, noun in ((old.pinned, "frozen set"), (old.needed, "fitted judge")):
        for version, names in needed.items():
            print_line(f"  {version} stays for the {noun}{'s' if len(names) > 1 else ''} {', '.join(names)}")


def remove_command(
    context: typer.Context,
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="Its name; in a store also name@version.", metavar="NAME")],
    yes: Annotated[bool, typer.Option("--yes", help="Yes, remove it.")] = False,
    store: OfStoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove an artefact with all its versions; refused while one of them is read or needed.

    With --store, remove a version or all versions of a name from the store; gc --store then deletes their files.
    """
    if store is not None:
        remove_from_store(context.obj, store, find_kind(kind), name, yes=yes, as_json=as_json)
        return
    stored = stored_artefacts(context.obj, kind)
    _only_name("remove", name, "it removes all versions; gc removes old ones")
    if not yes:
        raise Usage(f"this removes {kind} {name} with all its versions", remedy="say --yes")
    left_behind = stored.left_behind(name)
    removed = stored.remove(name)
    record_act(context.obj, "remove", f"{kind} {name}", versions=removed)
    if left_behind is not None:
        print_warning(left_behind)
    if as_json:
        print_json({"kind": kind, "name": name, "removed": removed})
    else:
        print_line(f"{kind} {name} removed: {count_of(len(removed), 'version')}")
