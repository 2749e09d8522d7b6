"""`refaug artefacts export|import`: taking an artefact to another machine as one file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import JsonFlag, count_of, format_amount, print_json, print_line, print_warning
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts import transfer
from refaug.core.artefacts.kinds import ArtefactKind, artefact_stores, find_kind
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts

if TYPE_CHECKING:
    from refaug.scoring.reference_sets.set_transfer import TransferredSet

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

    warn_of_licence(settings, set_id)
    with display_progress(quiet=settings.quiet) as progress:
        moved = export_set(ReferenceSets(settings.reference_sets), set_id, file, progress)
    size = file.stat().st_size
    if as_json:
        print_json({**asdict(moved), "file": str(file), "file_bytes": size})
        return
    print_line(set_in_words(moved))
    print_line(f"  written to {file}, {format_amount(size, 'B')}")


def warn_of_licence(settings: Settings, set_id: str) -> None:
    """Say, before a set leaves this home, that the licence of a published set in it does not let it be passed on."""
    from refaug.scoring.reference_sets.set_store import ReferenceSets  # noqa: PLC0415
    from refaug.tables.published_sets import set_of_ids  # noqa: PLC0415

    items = ReferenceSets(settings.reference_sets).open(set_id, even_withdrawn=True).items()
    published = set_of_ids(test_item.id for test_item in items)
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
