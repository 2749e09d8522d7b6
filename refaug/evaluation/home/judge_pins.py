"""Which fitted judges need which versions of other artefacts: those that they were fitted with, by name and version.

A judge scores with nothing else: without its rater, index, encoder or word vectors it cannot score again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import RefaugError
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.metrics.specification import Specification, named_models

JUDGE_KIND: Final = "judge-fit"


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
