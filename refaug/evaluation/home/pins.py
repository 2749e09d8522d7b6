"""Which fitted judges and hybrids need which versions of other artefacts: those that they were fitted with.

They score with nothing else: without its rater, index, encoder or word vectors a judge cannot score again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import RefaugError
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.metrics.specification import Specification, named_models

JUDGE_KIND: Final = "judge-fit"
HYBRID_KIND: Final = "hybrid"


def versions_for_judges(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that fitted judges need, each with these judges as `name@version`.

    Every version of a judge counts, published or not. Damaged judges need nothing; `refaug doctor` lists them.
    """
    judges, needed = artefact_stores(settings)[JUDGE_KIND], dict[str, list[str]]()
    for judge in judges.names():
        for judge_version in judges.versions(judge):
            with suppress(RefaugError, OSError, AttributeError, KeyError, TypeError):
                manifest: Any = read_json(judges.folder(judge, judge_version) / MANIFEST)
                for version in dict.fromkeys(versions_named(manifest["metrics"], kind, name)):
                    needed.setdefault(version, []).append(f"{judge}@{judge_version}")
    return dict(sorted(needed.items()))


def versions_named(metrics: Iterable[str], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of an artefact that specifications of metrics name."""
    for text in metrics:
        for of_kind, spec in named_models(Specification.parse(str(text))):
            artefact, _, version = spec.partition("#")[0].partition("@")
            if of_kind == kind and artefact == name and version:
                yield version


# ── hybrids: the word vectors and the models of turns that they pin ───────────────────────────────────────────────────


def versions_for_hybrids(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that hybrids need, each with these hybrids as `hybrid name@version`.

    Damaged hybrids need nothing; `refaug doctor` lists them.
    """
    hybrids = artefact_stores(settings)[HYBRID_KIND]
    needed = dict[str, list[str]]()
    for hybrid in hybrids.names():
        for hybrid_version in hybrids.versions(hybrid):
            with suppress(RefaugError, OSError, AttributeError, KeyError, TypeError):
                manifest: Any = read_json(hybrids.folder(hybrid, hybrid_version) / MANIFEST)
                for version in dict.fromkeys(_versions_in(manifest, kind, name)):
                    needed.setdefault(version, []).append(f"{HYBRID_KIND} {hybrid}@{hybrid_version}")
    return dict(sorted(needed.items()))


def _versions_in(manifest: Mapping[str, Any], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of this name that a manifest pins."""
    turns = manifest["turns"] or {"rater": None, "metrics": [], "index": None}
    pinned = {"vectors": manifest["encoders"]["vectors"], "rater": turns["rater"], "index": turns["index"]}
    artefact, _, version = str(pinned.get(kind) or "").partition("#")[0].partition("@")
    if artefact == name and version:
        yield version
    yield from versions_named(turns["metrics"], kind, name)
