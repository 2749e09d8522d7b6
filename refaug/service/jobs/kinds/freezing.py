"""Jobs that freeze sets too large to freeze during a request; posted items wait in a file until then."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from refaug.core.errors import BadInput, NoSource, Usage
from refaug.core.files import write_aside
from refaug.core.home import Settings
from refaug.operations.references import FreezeSet
from refaug.scoring.items import BadItem
from refaug.scoring.reference_sets.set_store import FreezeResult
from refaug.scoring.score_files.freezing import freeze_file
from refaug.service.jobs.clusters import allowed_cluster
from refaug.service.jobs.kinds.job_context import JobContext, as_json, jobs_folder
from refaug.service.jobs.kinds.sources import named_file

_NAME: Final = re.compile(r"items-[0-9a-f]{32}")
_MAX_SHOWN: Final = 100  # bad items to list; the others are counted


def put_items(home: Settings, lines: Iterable[bytes]) -> str:
    """Store items, one line of JSON each, for a job that freezes them, and return the name for its order."""
    name = f"items-{secrets.token_hex(16)}"
    with write_aside(_path(home, name)) as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")
    return name


def _path(home: Settings, name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise Usage(f"{name[:80]!r} is not a name of stored items")
    return jobs_folder(home) / f"{name}.jsonl"


def freeze_job(order: FreezeSet, context: JobContext) -> Mapping[str, Any]:
    """Freeze items with references from an index, or as they are."""
    # The result is stored before the items are removed: after a kill between the two, the job needs only the result.
    outcome = context.stages.run("frozen", lambda: as_json(_frozen_facts(_freeze(order, context))))
    if order.are_posted:
        _path(context.home, order.items).unlink(missing_ok=True)
    return {name: value for name, value in outcome.items() if name != "seconds"}


def _source(order: FreezeSet, context: JobContext) -> Path:
    if not order.are_posted:
        return named_file(order.items, context.home, context.serve).path
    path = _path(context.home, order.items)
    if not path.exists():
        raise NoSource(f"{order.items}: these items are not here any more", remedy="send them again")
    return path


def _freeze(order: FreezeSet, context: JobContext) -> FreezeResult:
    def check(bad: Sequence[BadItem]) -> None:
        if order.strict and bad:
            raise BadInput(
                f"{len(bad):,} items could not be used: {bad[0]}",
                remedy='correct them or leave them out; with "strict": false the others are frozen',
            )

    path, shown_name = _source(order, context), "items" if order.are_posted else order.items
    on = allowed_cluster(order.on, context.serve)
    order = replace(order, threads=context.reference_threads(order), on=on)
    return freeze_file(context.home, order, path, shown_name, check, context.progress)


def _frozen_facts(frozen: FreezeResult) -> dict[str, Any]:
    manifest = frozen.set.manifest
    return {
        "set": manifest.id,
        "new": frozen.is_new,
        "purpose": manifest.purpose.value,
        "items": manifest.items,
        "references": manifest.references,
        "provenance": dict(manifest.provenance),
        "problems": [asdict(bad) for bad in frozen.bad_items[:_MAX_SHOWN]],
        "more_problems": max(0, len(frozen.bad_items) - _MAX_SHOWN),
    }
