"""What jobs do: each calls what the command of the same work calls, and says as JSON what came of it.

A job that was killed is begun again by the same order and id. What it had finished is marked in a folder of its own,
`jobs/<id>` in the home, down to the whole result; and what it calls goes on by itself where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from core.progress import Progress
from service.job_kinds.orders import parse_order
from service.job_kinds.work import Work, plain, remove_old
from service.serve_settings import ServeSettings
from service.settings import Settings

__all__ = ["run"]

# Each is loaded when it is needed: most of them bring torch or FAISS along.
_MODULES: Final[Mapping[str, str]] = {
    "ingest": "ingesting",
    "vectors": "training",
    "rater-train": "training",
    "index-build": "indexing",
    "index-update": "indexing",
    "index-compact": "indexing",
    "gc": "indexing",
    "freeze": "freezing",
    "meta": "meta",
    "erase": "erasing",
    "nightly": "nightly",
}


def run(
    order: Mapping[str, Any], home: Settings, serve: ServeSettings, progress: Progress, *, job: str
) -> Mapping[str, Any]:
    """Do what was ordered, and say what came of it; RefaugError where it failed.

    CheckFailed: built, and not published.
    """
    asked = parse_order(order)
    remove_old(home, serve.keep_jobs_days)
    work = Work.of(home, serve, progress, job)
    do: Callable[[Any, Work], Mapping[str, Any]] = import_module(f"{__name__}.{_MODULES[asked.kind]}").WORK[asked.kind]

    def done() -> Mapping[str, Any]:
        result = plain(do(asked, work))
        return {**result, "seconds_by_stage": work.progress.seconds}

    return work.stages.run("result", done)
