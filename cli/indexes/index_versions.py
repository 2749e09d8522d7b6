"""`refaug index update|delete|compact|publish|rollback|gc|remove`: keeping an index current, and its versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from refaug.cli.shared.index_options import (
    NameArgument,
    SpecArgument,
    ThreadsOption,
    print_built,
)
from refaug.cli.shared.output import (
    JsonFlag,
    MemoryOption,
    count_of,
    names_in,
    parse_size,
    print_json,
    print_line,
    print_published,
)
from refaug.cli.shared.progress import display_progress
from refaug.core.errors import Usage


def update_command(
    context: typer.Context,
    name: NameArgument,
    publish: Annotated[bool, typer.Option(help="Let the new version serve.")] = True,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Bring an index up to its logs as they are now: what is new is added, what was deleted is masked."""
    _update(context, name, {}, publish=publish, threads=threads, memory=memory, as_json=as_json)


def delete_command(
    context: typer.Context,
    name: NameArgument,
    pair: Annotated[list[str] | None, typer.Option(help="A pair: log/dialogue#position.", metavar="ID")] = None,
    dialogue: Annotated[list[str] | None, typer.Option(help="A dialogue; may be repeated.", metavar="ID")] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="A speaker; may be repeated.", metavar="NAME")] = None,
    dialogues_from: Annotated[
        Path | None, typer.Option(help="A file with dialogues, one a line.", metavar="FILE")
    ] = None,
    speakers_from: Annotated[
        Path | None, typer.Option(help="A file with speakers, one a line.", metavar="FILE")
    ] = None,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Take pairs, dialogues or speakers out of an index for good; they stay out when it is updated or built anew."""
    targets = {
        "pairs": pair or [],
        "dialogues": [*(dialogue or []), *names_in(dialogues_from)],
        "speakers": [*(speaker or []), *names_in(speakers_from)],
    }
    if not any(targets.values()):
        raise Usage("nothing is named that should go", remedy="--pair, --dialogue or --speaker")
    _update(context, name, targets, publish=True, threads=threads, memory=memory, as_json=as_json)


def _update(
    context: typer.Context,
    name: str,
    erase: Mapping[str, list[str]],
    *,
    publish: bool,
    threads: int | None,
    memory: str,
    as_json: bool,
) -> None:
    from refaug.evaluation.home.indexes import cores, places_of  # noqa: PLC0415
    from refaug.indexer.building.update import erased_keys, update_index  # noqa: PLC0415  compiles

    with display_progress(quiet=context.obj.quiet) as progress:
        updated = update_index(
            places_of(context.obj),
            name,
            progress,
            erase=erased_keys(**erase) if erase else None,
            threads=threads or cores(),
            memory=parse_size(memory),
            publish=publish,
        )
    if updated.built is None:
        if as_json:
            print_json({"index": name, "changed": 0, "gone": 0, "published": False})
        else:
            print_line(
                f"nothing of what was named is in index {name}"
                if erase
                else f"index {name} is as its logs are: nothing to do"
            )
        return
    if erase and not updated.changed and not updated.gone and not as_json:
        print_line(f"nothing of what was named is in index {name}; it will stay out from now on")
        return
    print_built(updated.built, as_json=as_json, changed=updated.changed, gone=updated.gone)
    if updated.worth_compacting and not as_json:
        print_line(f"much of it lies in later segments: refaug index compact {name} makes searching quicker")


def compact_command(
    context: typer.Context,
    name: NameArgument,
    publish: Annotated[bool, typer.Option(help="Let the new version serve.")] = True,
    threads: ThreadsOption = None,
    memory: MemoryOption = "2GiB",
    as_json: JsonFlag = False,
) -> None:
    """Build an index anew with its own settings: one segment, with nothing in it of what was deleted."""
    from refaug.evaluation.home.indexes import cores, places_of  # noqa: PLC0415
    from refaug.indexer.building.update import compact_index  # noqa: PLC0415  compiles

    with display_progress(quiet=context.obj.quiet) as progress:
        built = compact_index(
            places_of(context.obj),
            name,
            progress,
            threads=threads or cores(),
            memory=parse_size(memory),
            publish=publish,
        )
    print_built(built, as_json=as_json)


def publish_command(context: typer.Context, index: SpecArgument, as_json: JsonFlag = False) -> None:
    """Let a version serve: one that was built without publishing, or an older one."""
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
    from refaug.indexer.building.update import publish_version  # noqa: PLC0415  compiles

    name, at, version = index.partition("@")
    if not at:
        raise Usage(f"{index!r} names no version", remedy="give NAME@VERSION: refaug index list")
    publish_version(places_of(context.obj), name, version)
    print_published("index", name, version, as_json=as_json)


def rollback_command(
    context: typer.Context,
    name: NameArgument,
    to: Annotated[str | None, typer.Option(help="The version to go back to.", metavar="VERSION")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the version before the published one serve again."""
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415
    from refaug.indexer.building.update import rollback  # noqa: PLC0415  compiles

    version = rollback(places_of(context.obj), name, to)
    print_published("index", name, version, as_json=as_json)


def gc_command(
    context: typer.Context,
    name: NameArgument,
    keep: Annotated[int, typer.Option(help="So many of the newest versions stay.", min=0)] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Remove old versions; the published one stays, and any that is being read."""
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415  compiles

    removed = places_of(context.obj).indexes.gc(name, keep)
    if as_json:
        print_json({"index": name, "removed": removed})
    else:
        print_line(
            f"index {name}: {count_of(len(removed), 'version')} removed{': ' if removed else ''}{', '.join(removed)}"
        )


def remove_command(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, the whole index.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove an index with all its versions, whether its logs are still there or not; refused while it is read."""
    from refaug.evaluation.home.indexes import places_of  # noqa: PLC0415  compiles

    if not yes:
        raise Usage(f"this removes index {name} with all its versions", remedy="say --yes")
    removed = places_of(context.obj).indexes.delete(name)
    if as_json:
        print_json({"index": name, "removed": removed})
    else:
        print_line(f"index {name} removed: {count_of(len(removed), 'version')}")
