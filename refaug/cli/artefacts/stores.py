"""`refaug artefacts push|fetch|export|import`: versions in a store that machines share, or as one file for another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import (
    JsonFlag,
    count_of,
    format_amount,
    print_json,
    print_line,
    print_published,
    print_table,
    print_warning,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts import transfer
from refaug.core.artefacts.kinds import ArtefactKind, artefact_stores, find_kind
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import read_json, require_name
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts

if TYPE_CHECKING:
    from refaug.core.artefacts.store.fetching import FetchedVersion
    from refaug.core.artefacts.store.objects import Store
    from refaug.core.artefacts.store.pushing import PushedVersion
    from refaug.scoring.reference_sets.set_transfer import TransferredSet

KINDS: Final = f"One of: {', '.join(ArtefactKind)}."
KindArgument = Annotated[str, typer.Argument(help=KINDS, metavar="KIND")]
SpecArgument = Annotated[
    str, typer.Argument(help="Its name, or name@version for one that is not published.", metavar="NAME[@VERSION]")
]
_SharedKind = Annotated[str, typer.Argument(help=f"{KINDS[:-1]}, set.", metavar="KIND")]
_SharedSpec = Annotated[
    str,
    typer.Argument(
        help="Its name, or name@version for one that is not published; of a set its id.", metavar="NAME[@VERSION]|ID"
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        help="A folder, s3://BUCKET/PREFIX or hf://[datasets/]OWNER/NAME; by default REFAUG_STORE.", metavar="LOCATION"
    ),
]

_FROM_ENVIRONMENT: Final = "env"
_GRACE: Final = re.compile(r"(\d{1,6})(s|min|h|d)")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}


@contextmanager
def _opened(location: str | None) -> Iterator[Store]:
    from refaug.core.artefacts.store.locations import StoreSettings, open_store  # noqa: PLC0415  pyarrow
    from refaug.core.artefacts.store.objects import Store  # noqa: PLC0415

    with open_store(StoreSettings.from_env(None if location == _FROM_ENVIRONMENT else location)) as files:
        yield Store(files)


def push_command(
    context: typer.Context,
    kind: _SharedKind,
    artefact: _SharedSpec,
    store: StoreOption = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Then let this version serve here, if it does not yet.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read what the store has already, and send damaged files again.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Put a version or a frozen set into a store, with what it needs; what is there already is not sent again."""
    warn_of_licence(context.obj, kind, artefact)
    if kind == SET:
        _push_set(context.obj, store, artefact, as_json=as_json)
        return
    from refaug.scoring.home.shared_store import outdated_in, push_from  # noqa: PLC0415

    with _opened(store) as opened:
        with display_progress(quiet=context.obj.quiet) as progress:
            pushed = push_from(context.obj, opened, kind, artefact, progress, verify=verify)
        outdated = [record.spec for record in outdated_in(opened, pushed[-1].record)]
        record_act(context.obj, "push", f"{kind} {pushed[-1].record.spec}", store=opened.name)
    record = pushed[-1].record
    if publish:
        stored_artefacts(context.obj, kind).publish(record.name, record.version)
        record_act(context.obj, "publish", f"{kind} {record.spec}")
    if as_json:
        versions = [_pushed_facts(version) for version in pushed]
        print_json({"versions": versions, "published": publish, "holding_erased_text": outdated})
        return
    for version in pushed:
        sent = f"{count_of(version.uploaded_files, 'file')} sent, {format_amount(version.uploaded_bytes, 'B')}"
        print_line(f"{version.record.kind} {version.record.spec}: {sent}, of {_size(version.record.size)}")
    if publish:
        print_published(kind, record.name, record.version, as_json=False)
    if outdated:
        print_line(
            f"the store still holds text that was deleted, in {', '.join(outdated)}: "
            f"refaug artefacts gc --store {opened.name} --erased"
        )


def _pushed_facts(pushed: PushedVersion) -> dict[str, object]:
    record = pushed.record
    return {
        "kind": record.kind,
        "name": record.name,
        "version": record.version,
        "bytes": record.size,
        "parts": len(record.parts),
        "uploaded_files": pushed.uploaded_files,
        "uploaded_bytes": pushed.uploaded_bytes,
        "was_there": pushed.was_there,
    }


def _set_path(set_id: str) -> str:
    return f"sets/{set_id}.tar.zst"


def _push_set(settings: Settings, store: str | None, name: str, *, as_json: bool) -> None:
    from refaug.core.artefacts.store.store_files import UPLOADS  # noqa: PLC0415
    from refaug.core.files import unique_suffix  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415  compiles
    from refaug.scoring.reference_sets.set_transfer import export_set  # noqa: PLC0415

    with _opened(store) as opened, TemporaryDirectory(prefix="refaug-set-") as folder:
        file, aside = Path(folder) / "set.tar.zst", f"{UPLOADS}/{unique_suffix()}"
        with display_progress(quiet=settings.quiet) as progress:
            pushed = export_set(ReferenceSets(settings.reference_sets), name, file, progress)
        with file.open("rb") as packed:
            opened.files.write(aside, iter(lambda: packed.read(1 << 20), b""))
        opened.files.rename(aside, _set_path(pushed.id))
        record_act(settings, "push", f"set {pushed.id}", store=opened.name)
    print_json(asdict(pushed)) if as_json else print_line(set_in_words(pushed))


def _fetch_set(settings: Settings, store: str | None, set_id: str, *, as_json: bool) -> None:
    from refaug.core.artefacts.transfer import open_export  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415  compiles
    from refaug.scoring.reference_sets.set_transfer import import_set  # noqa: PLC0415

    require_name("set", set_id)
    with _opened(store) as opened, TemporaryDirectory(prefix="refaug-set-") as folder:
        file = Path(folder) / f"{set_id}.tar.zst"
        with file.open("wb") as packed:
            packed.writelines(opened.files.pieces(_set_path(set_id)))
        with display_progress(quiet=settings.quiet) as progress, open_export(file) as export:
            fetched = import_set(export, ReferenceSets(settings.reference_sets), progress)
    record_act(settings, "fetch", f"set {fetched.id}", new=not fetched.was_there, withdrawn=fetched.withdrawn)
    print_json(asdict(fetched)) if as_json else print_line(set_in_words(fetched))


def fetch_command(
    context: typer.Context,
    kind: _SharedKind,
    artefact: _SharedSpec,
    store: StoreOption = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Let it serve even if another version is published now.")
    ] = False,
    erased: Annotated[
        bool, typer.Option("--erased", help="Remove the versions here that hold what was deleted since.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Bring a version or a frozen set here, by default the newest; it goes on where it was, and checks every hash."""
    if kind == SET:
        _fetch_set(context.obj, store, artefact, as_json=as_json)
        return
    from refaug.scoring.home.shared_store import fetch_into  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_store import pinned_versions  # noqa: PLC0415

    def pins(name: str) -> Mapping[str, list[str]]:
        return pinned_versions(context.obj, kind, name)

    with _opened(store) as opened, display_progress(quiet=context.obj.quiet) as progress:
        fetched = fetch_into(
            context.obj, opened, kind, artefact, progress, publish=publish, erasing=pins if erased else None
        )
    record = fetched.versions[-1].record
    record_act(context.obj, "fetch", f"{kind} {record.spec}", published=fetched.versions[-1].published)
    if as_json:
        print_json(
            {
                "versions": [_fetched_facts(version) for version in fetched.versions],
                "erased": list(fetched.erased),
                "erased_later": list(fetched.erased_later),
            }
        )
        return
    for version in fetched.versions:
        print_line(_fetched_line(version))
    if fetched.erased:
        print_line(f"text that was deleted is gone from here now, with {', '.join(fetched.erased)}")
    for version_name in fetched.erased_later:
        print_line(
            f"{record.name}@{version_name} still holds text that was deleted: it is read, or a frozen set or a judge "
            "needs it; run this again when that has ended"
        )


def _fetched_facts(fetched: FetchedVersion) -> dict[str, object]:
    record = fetched.record
    return {
        "kind": record.kind,
        "name": record.name,
        "version": record.version,
        "bytes": record.size,
        "fetched_files": fetched.fetched_files,
        "fetched_bytes": fetched.fetched_bytes,
        "linked_files": fetched.linked_files,
        "was_there": fetched.was_there,
        "published": fetched.published,
    }


def _fetched_line(fetched: FetchedVersion) -> str:
    spec = f"{fetched.record.kind} {fetched.record.spec}"
    outcome = "published" if fetched.published else "not published"
    if fetched.was_there:
        return f"{spec}: was here already, {outcome}"
    came = f"{count_of(fetched.fetched_files, 'file')} fetched, {format_amount(fetched.fetched_bytes, 'B')}"
    return f"{spec}: {came}, {fetched.linked_files} linked from other versions; {outcome}"


def list_store(store: str, kind: str | None, *, as_json: bool) -> None:
    """Print the versions in a store, with their parts and sizes."""
    with _opened(store) as opened:
        records = [record for record in opened.records() if kind in (None, record.kind)]
        name = opened.name
        if not records:  # of a store that does not exist there are none, either
            opened.files.require_root()
    rows = [
        {
            "kind": record.kind,
            "name": record.name,
            "version": record.version,
            "parts": len(record.parts),
            "files": len(record.files),
            "bytes": record.size,
            "erasures": record.erasures,
        }
        for record in records
    ]
    if as_json:
        parts = [
            [{"folder": part.folder, "bytes": part.bytes, "sha256": part.sha256} for part in record.parts]
            for record in records
        ]
        print_json({"store": name, "versions": [{**row, "parts": of} for row, of in zip(rows, parts, strict=True)]})
    elif rows:
        print_table(f"versions in {name}", list(rows[0]), [list(row.values()) for row in rows])
    else:
        print_line(f"no versions in {name} yet: refaug artefacts push KIND NAME")


def verify_store(home: Settings, store: str, kind: str, artefact: str, *, as_json: bool) -> None:
    """Read every file of a version in a store, and compare its hash."""
    from refaug.core.artefacts.store.collecting import damaged_objects  # noqa: PLC0415
    from refaug.core.artefacts.store.fetching import resolve  # noqa: PLC0415

    with _opened(store) as opened, display_progress(quiet=home.quiet) as progress:
        record = resolve(opened, kind, artefact)
        problems = damaged_objects(opened, record, progress)
        name = opened.name
    if as_json:
        print_json({"kind": kind, "name": record.name, "version": record.version, "problems": problems})
    else:
        print_line(f"{kind} {record.spec} in {name}: {count_of(len(record.files) + 1, 'file')}")
    if problems:
        raise Corrupt(
            f"{kind} {record.spec} in {name}: {'; '.join(problems[:5])}",
            remedy=f"push it again from a machine that has it: refaug artefacts push {kind} {record.spec} --verify",
        )


def remove_from_store(home: Settings, store: str, kind: str, artefact: str, *, yes: bool, as_json: bool) -> None:
    """Remove a version from a store, or all versions of a name."""
    from refaug.core.artefacts.store.collecting import remove_versions  # noqa: PLC0415

    name, _, version = artefact.partition("@")
    if not yes:
        what = f"{kind} {artefact}" if version else f"all versions of {kind} {name}"
        raise Usage(f"this removes {what} from the store", remedy="say --yes")
    with _opened(store) as opened:
        removed = [record.spec for record in remove_versions(opened, kind, name, version or None)]
        record_act(home, "remove", f"{kind} {artefact}", store=opened.name, versions=removed)
    if as_json:
        print_json({"kind": kind, "removed": removed})
    else:
        print_line(
            f"{kind} {', '.join(removed)}: no longer in the store; refaug artefacts gc --store deletes the files"
        )


def collect_store(home: Settings, store: str, grace: str, *, erased: bool, as_json: bool) -> None:
    """Delete the files that no version in a store names, and say when the remaining ones may go."""
    from refaug.core.artefacts.store.collecting import collect_unused  # noqa: PLC0415

    with _opened(store) as opened, display_progress(quiet=home.quiet) as progress:
        opened.files.require_root()
        collected = collect_unused(opened, _grace(grace), progress, erased=erased)
        if collected.removed_versions:
            record_act(home, "remove", f"store {opened.name}", versions=list(collected.removed_versions))
    if as_json:
        print_json(
            {
                "removed": list(collected.removed_versions),
                "deleted_files": collected.deleted_files,
                "deleted_bytes": collected.deleted_bytes,
                "waiting_files": collected.waiting_files,
                "waiting_until": _iso(collected.waiting_until),
                "erased_until": _iso(collected.erased_until),
            }
        )
        return
    print_line(f"{count_of(collected.deleted_files, 'file')} deleted, {_size(collected.deleted_bytes)}")
    if collected.waiting_files:
        until = _iso(collected.waiting_until)
        print_line(f"{count_of(collected.waiting_files, 'unused file')} may go from {until} on")
    for version in collected.removed_versions:
        when = "now" if collected.erased_until is None else f"not before {_iso(collected.erased_until)}"
        print_line(f"{version} held text that was deleted: it leaves the store {when}")


def _grace(text: str) -> timedelta:
    match = _GRACE.fullmatch(text)
    if match is None:
        raise Usage(f"--grace {text!r} is not a time", remedy="a number with s, min, h or d: 90min")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


def _size(amount: int) -> str:
    return format_amount(amount, "B")


# ── Taking an artefact to another machine as one file ─────────────────────────────────────────────────────────────────


_FREE_LICENCES: Final = frozenset({"apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc-by-4.0", "cc0-1.0", "isc", "mit"})
SET: Final = "set"  # as `refaug.scoring.reference_sets.set_transfer` has it, whose import compiles loops


def export_command(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(help=f"One of: {', '.join(ArtefactKind)}, set.", metavar="KIND"),
    ],
    artefact: Annotated[
        str,
        typer.Argument(
            help="Which one; without a version the published one; of a set its id.", metavar="NAME[@VERSION]|ID"
        ),
    ],
    file: Annotated[Path, typer.Argument(help="File to write; an existing one is replaced.", metavar="FILE.tar.zst")],
    as_json: JsonFlag = False,
) -> None:
    """Write one version of an artefact, or a frozen set, into one file; the same version gives the same file."""
    warn_of_licence(context.obj, kind, artefact)
    if kind == SET:
        _export_set(context.obj, artefact, file, as_json=as_json)
        return
    with display_progress(quiet=context.obj.quiet) as progress:
        moved = transfer.export_artefact(artefact_stores(context.obj)[find_kind(kind)], artefact, file, progress)
    size = file.stat().st_size
    if as_json:
        print_json({**asdict(moved), "file": str(file), "file_bytes": size})
        return
    print_line(
        f"{kind} {moved.name}@{moved.version}: {count_of(moved.files, 'file')}, {format_amount(moved.bytes, 'B')}"
    )
    print_line(f"  written to {file}, {format_amount(size, 'B')}")


def import_command(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A file that refaug artefacts export has written.", metavar="FILE.tar.zst")
    ],
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish it even if another version is published now.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Read an exported version under its own name; it is published if no version of that name is.

    A frozen set is taken over under its id; a withdrawn one stays withdrawn.
    """
    with transfer.open_export(file) as export:
        if export.kind == SET:
            if publish:
                raise Usage("--publish with a frozen set", remedy="leave it out: sets have no versions")
            _import_set(context.obj, export, file, as_json=as_json)
            return
        with display_progress(quiet=context.obj.quiet) as progress:
            imported = transfer.import_artefact(
                export,
                artefact_stores(context.obj),
                progress,
                publish=publish,
                before_adding=lambda label, folder: _require_sound(context.obj, label, folder),
                before_publishing=lambda label: _require_publishable(context.obj, label),
            )
    record_act(
        context.obj, "import", f"{imported.kind} {imported.name}@{imported.version}", published=imported.published
    )
    if as_json:
        print_json({**asdict(imported), "file": str(file)})
        return
    spec = f"{imported.kind} {imported.name}@{imported.version}"
    print_line(f"{spec}: {count_of(imported.files, 'file')}, {format_amount(imported.bytes, 'B')}")
    print_line(f"  {_outcome(imported)}")


def _export_set(settings: Settings, set_id: str, file: Path, *, as_json: bool) -> None:
    """Write a frozen set into a file."""
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_transfer import export_set  # noqa: PLC0415

    with display_progress(quiet=settings.quiet) as progress:
        moved = export_set(ReferenceSets(settings.reference_sets), set_id, file, progress)
    size = file.stat().st_size
    if as_json:
        print_json({**asdict(moved), "file": str(file), "file_bytes": size})
        return
    print_line(set_in_words(moved))
    print_line(f"  written to {file}, {format_amount(size, 'B')}")


def warn_of_licence(settings: Settings, kind: str, spec: str) -> None:
    """Say, before something leaves this home, what in it has a licence that does not let it be passed on."""
    from refaug.tables.published_sets import set_of_ids  # noqa: PLC0415

    if kind == SET:
        from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415

        items = ReferenceSets(settings.reference_sets).open(spec, even_withdrawn=True).items()
        origins = [set_of_ids(test_item.id for test_item in items)]
    else:
        versions = artefact_stores(settings)[find_kind(kind)]
        manifest: Any = read_json(versions.folder(*versions.resolve(spec)) / MANIFEST)
        logs = manifest.get("logs", ()) if kind == ArtefactKind.INDEX else ()
        origins = [set_of_ids([f"{log['name']}/"]) for log in logs]
        if kind == ArtefactKind.ENCODER and manifest["licence"] not in _FREE_LICENCES:
            print_warning(f"its licence ({manifest['licence']}) is not known to let it be passed on")
    for published in origins:
        if published is not None and not published.may_share:
            print_warning(f"it holds texts of {published.name} (licence: {published.licence}): do not pass them on")


def _import_set(settings: Settings, export: transfer.OpenedExport, file: Path, *, as_json: bool) -> None:
    """Take over a frozen set from a file."""
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415
    from refaug.scoring.reference_sets.set_transfer import import_set  # noqa: PLC0415

    with display_progress(quiet=settings.quiet) as progress:
        imported = import_set(export, ReferenceSets(settings.reference_sets), progress)
    record_act(settings, "import", f"set {imported.id}", new=not imported.was_there, withdrawn=imported.withdrawn)
    if imported.newly_withdrawn:
        record_act(settings, "withdraw", f"set {imported.id}")
    if as_json:
        print_json({**asdict(imported), "file": str(file)})
        return
    print_line(set_in_words(imported))
    print_line("  was there already" if imported.was_there else "  every hash as the manifest says")
    if imported.newly_withdrawn:
        print_line("  was in use here, and is withdrawn now")


def set_in_words(moved: TransferredSet) -> str:
    """Say what was moved."""
    withdrawn = ", withdrawn" if moved.withdrawn else ""
    counts = f"{count_of(moved.items, 'item')}, {count_of(moved.references, 'reference')}"
    return f"set {moved.id} ({moved.purpose}{withdrawn}): {counts}, {format_amount(moved.bytes, 'B')}"


def _require_publishable(settings: Settings, label: transfer.Label) -> None:
    """Refuse an index that was exported before a deletion: it must not bring the deleted texts back."""
    stored_artefacts(settings, label.kind).require_publishable(label.name, label.version)


def _require_sound(settings: Settings, label: transfer.Label, folder: Path) -> None:
    """Refuse an index whose hashes fit, and whose numbers do not fit together: an archive names its own hashes."""
    stored_artefacts(settings, label.kind).require_sound(label.name, label.version, folder)


def _outcome(imported: transfer.ImportedVersion) -> str:
    origin = "was there already" if imported.was_there else "every hash as the manifest says"
    return f"{origin}; {'published' if imported.published else 'another version is published; --publish changes that'}"
