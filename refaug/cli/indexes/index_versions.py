"""`refaug index update|delete|compact`: keeping an index current."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.cli.shared import index_options, output
from refaug.cli.shared.database import record_act, telling_refusals
from refaug.cli.shared.field_options import with_options
from refaug.cli.shared.progress import ProgressDisplay, display_progress
from refaug.core.errors import Usage
from refaug.operations.indexes import CompactIndex, UpdateIndex

if TYPE_CHECKING:
    from refaug.core.home import Settings
    from refaug.indexer.building.build import IndexBuild
    from refaug.indexer.building.update import IndexUpdate
    from refaug.indexer.index_folders import Places


@with_options
def update_command(context: typer.Context, *, order: UpdateIndex, as_json: output.JsonFlag = False) -> None:
    """Bring an index up to its logs as they are now: what is new is added, what was deleted is masked."""
    from refaug.indexer.building.update import update_index  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    places, threads = places_of(context.obj), order.threads or cores()
    with telling_refusals(context.obj), display_progress(quiet=context.obj.quiet) as progress:
        base = places.indexes.resolve(order.index)[1]
        updated = update_index(
            places,
            order.index,
            progress,
            threads=threads,
            memory=order.memory,
            publish=order.publish and order.least_recall is None,
        )
        if updated.built is not None and order.least_recall is not None:
            updated = replace(updated, built=_checked(places, order, base, updated.built, threads, progress))
    _print_update(context.obj, order.index, updated, is_deletion=False, as_json=as_json)


def _checked(
    places: Places, order: UpdateIndex, base: str, built: IndexBuild, threads: int, progress: ProgressDisplay
) -> IndexBuild:
    """Publish a new version, if the order says so, after its recall was measured; CheckFailed where that is less."""
    from refaug.indexer.building.update import publish_new, require_recall  # noqa: PLC0415  compiles
    from refaug.indexer.manifest import IndexManifest  # noqa: PLC0415
    from refaug.indexer.search.exact_check import check_index  # noqa: PLC0415
    from refaug.indexer.search.index import ReferenceIndex  # noqa: PLC0415
    from refaug.indexer.search.search_settings import SearchSettings  # noqa: PLC0415

    must_go = built.manifest.erasures > IndexManifest.read(places.indexes.folder(order.index, base)).erasures
    with ReferenceIndex.open(places, f"{built.name}@{built.version}", threads=threads) as index:
        settings = SearchSettings(mode=order.mode)
        measured = check_index(index, settings, queries=order.check_queries, seed=order.seed, progress=progress)
    progress.say(f"recall of {order.mode}: {measured.recall:.4f}")
    least = order.least_recall or 0.0
    require_recall(places, built.name, built.version, measured.recall, least, progress, must_go=must_go)
    if order.publish:
        publish_new(places, built.name, built.version, before=base, must_go=must_go)
    return replace(built, published=order.publish)


def delete_command(
    context: typer.Context,
    name: index_options.NameArgument,
    pair: Annotated[list[str] | None, typer.Option(help="A pair: log/dialogue#position.", metavar="ID")] = None,
    dialogue: Annotated[list[str] | None, typer.Option(help="A dialogue; may be repeated.", metavar="ID")] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="A speaker; may be repeated.", metavar="NAME")] = None,
    dialogues_from: Annotated[
        Path | None, typer.Option(help="A file with dialogues, one a line.", metavar="FILE")
    ] = None,
    speakers_from: Annotated[
        Path | None, typer.Option(help="A file with speakers, one a line.", metavar="FILE")
    ] = None,
    threads: index_options.ThreadsOption = None,
    memory: output.MemoryOption = "2GiB",
    as_json: output.JsonFlag = False,
) -> None:
    """Take pairs, dialogues or speakers out of an index for good; they stay out when it is updated or built again."""
    targets = {
        "pairs": pair or [],
        "dialogues": [*(dialogue or []), *output.names_in(dialogues_from)],
        "speakers": [*(speaker or []), *output.names_in(speakers_from)],
    }
    if not any(targets.values()):
        raise Usage("nothing is named that should go", remedy="--pair, --dialogue or --speaker")
    from refaug.indexer.building.update import erased_keys, update_index  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    with telling_refusals(context.obj), display_progress(quiet=context.obj.quiet) as progress:
        updated = update_index(
            places_of(context.obj),
            name,
            progress,
            erase=erased_keys(**targets),
            threads=threads or cores(),
            memory=output.parse_size(memory),
        )
    _print_update(context.obj, name, updated, is_deletion=True, as_json=as_json)


def _print_update(home: Settings, name: str, updated: IndexUpdate, *, is_deletion: bool, as_json: bool) -> None:
    if updated.built is None:
        if as_json:
            output.print_json({"index": name, "changed": 0, "gone": 0, "published": False})
        else:
            output.print_line(
                f"nothing of what was named is in index {name}"
                if is_deletion
                else f"index {name} is as its logs are: nothing to do"
            )
        return
    if is_deletion and not updated.changed and not updated.gone and not as_json:
        output.print_line(f"nothing of what was named is in index {name}; it will stay out from now on")
        return
    _record_built(home, updated.built)
    index_options.print_built(updated.built, as_json=as_json, changed=updated.changed, gone=updated.gone)
    if updated.worth_compacting and not as_json:
        output.print_line(f"much of it lies in later segments: refaug index compact {name} makes searching quicker")


@with_options
def compact_command(context: typer.Context, *, order: CompactIndex, as_json: output.JsonFlag = False) -> None:
    """Build an index again with its settings, without what was deleted; of shards, only those that have changed."""
    from refaug.indexer.building.compaction import compact_index  # noqa: PLC0415  compiles
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    with telling_refusals(context.obj), display_progress(quiet=context.obj.quiet) as progress:
        built = compact_index(
            places_of(context.obj),
            order.index,
            progress,
            whole=order.whole,
            threads=order.threads or cores(),
            memory=order.memory,
            publish=order.publish,
        )
    _record_built(context.obj, built)
    index_options.print_built(built, as_json=as_json)


def _record_built(home: Settings, built: IndexBuild) -> None:
    if built.published:
        record_act(home, "publish", f"index {built.name}@{built.version}")
