"""`refaug artefacts push|fetch`, and what `--store` does: versions in a folder or a bucket that machines share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.artefacts.transfer import SET, set_in_words, warn_of_licence
from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import (
    JsonFlag,
    count_of,
    format_amount,
    print_json,
    print_line,
    print_published,
    print_table,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.kinds import ArtefactKind
from refaug.core.errors import Corrupt, Usage
from refaug.core.files import require_name
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts

if TYPE_CHECKING:
    from refaug.core.artefacts.store.fetching import FetchedVersion
    from refaug.core.artefacts.store.objects import Store
    from refaug.core.artefacts.store.pushing import PushedVersion

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

    warn_of_licence(settings, name)
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
