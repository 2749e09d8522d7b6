"""What is measured once an hour: the published indexes with their recall and drift, the database, the disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from refaug.core.artefacts.kinds import ArtefactKind
from refaug.core.errors import RefaugError
from refaug.scoring.home.stored_artefacts import stored_artefacts
from refaug.service.jobs.store import JobState
from refaug.service.web.state import ServiceState

_MOST_INDEXES: Final = 20  # a row of every hour names them
_JOBS: Final = 100  # the newest ones of an index, among which the maker of its version is looked for


def measure_sizes(state: ServiceState) -> Mapping[str, Any]:
    """Return the sizes of this moment, as hourly figures keep them."""
    disk = shutil.disk_usage(state.home.home)
    return {
        "database": state.database.size(),
        "disk_free": disk.free,
        "disk": disk.total,
        "indexes": _indexes(state),
    }


def _indexes(state: ServiceState) -> dict[str, dict[str, object]]:
    stored = stored_artefacts(state.home, ArtefactKind.INDEX)
    indexes = dict[str, dict[str, object]]()
    for name in stored.versions.names()[:_MOST_INDEXES]:
        with suppress(RefaugError):  # removed meanwhile, or none is published
            version = stored.versions.current(name)
            if version is not None:
                indexes[name] = {"version": version, **_index_figures(state, name, stored.row(name, version))}
    return indexes


def _index_figures(state: ServiceState, name: str, row: Mapping[str, Any]) -> dict[str, object]:
    """Return the facts of a version, with what the job behind it has measured."""
    jobs, _ = state.jobs.list(state=JobState.DONE, resource=f"index/{name}", limit=_JOBS)
    results = (job.result or {} for job in jobs)
    job_result: Mapping[str, Any] = next((one for one in results if one.get("version") == row["version"]), {})
    recall = row.get("recall_at_15")
    return {
        "bytes": row.get("bytes"),
        "pairs": row.get("pairs"),
        "recall": (job_result.get("recall") or {}).get("recall") if recall is None else recall,
        "drift": ((job_result.get("drift") or {}).get("worst") or {}).get("mean_absolute"),
    }
