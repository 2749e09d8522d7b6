"""Which fitted judges need which versions of other artefacts: those that they were fitted with, by name and version.

A judge scores with nothing else: without its rater, index, encoder or word vectors it cannot score again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import BadInput, RefaugError
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification

JUDGE_KIND: Final = "judge-fit"
_MODELS: Final = {"rater": "rater", "ruber": "ruber", "adem": "adem", "index": "sample"}  # kind → its key in manifests


def versions_for_judges(settings: Settings, kind: str, name: str) -> dict[str, list[str]]:
    """Return the versions of an artefact that fitted judges need, each with these judges as `name@version`.

    Every version of a judge counts, published or not. Damaged judges need nothing; `refaug doctor` lists them.
    """
    judges, versions = artefact_stores(settings)[JUDGE_KIND], artefact_stores(settings)[kind]
    needed = dict[str, list[str]]()
    contents: dict[str, str] | None = None
    for judge in judges.names():
        for judge_version in judges.versions(judge):
            with suppress(RefaugError, OSError, AttributeError, KeyError, TypeError):
                manifest: Any = read_json(judges.folder(judge, judge_version) / MANIFEST)
                if kind == "vectors":
                    if contents is None:
                        contents = {version: _sha256(settings, name, version) for version in versions.versions(name)}
                    named = _vectors_of(manifest, contents)
                else:
                    named = _models_of(manifest, kind, name)
                for version in dict.fromkeys(named):
                    needed.setdefault(version, []).append(f"{judge}@{judge_version}")
    return dict(sorted(needed.items()))


def _models_of(manifest: Mapping[str, Any], kind: str, name: str) -> Iterator[str]:
    """Yield the versions of this name that a judge asks: its models, and those named in its metrics."""
    specs = [manifest["models"].get(_MODELS[kind])] if kind in _MODELS else []
    if kind == "vhred":
        specs += [
            spec
            for text in manifest["metrics"]
            for key, spec in Specification.parse(text).parameters
            if key == "model" and Specification.parse(text).name == "likelihood"
        ]
    for spec in specs:
        artefact, _, version = str(spec or "").partition("#")[0].partition("@")
        if artefact == name and version:
            yield version


def _vectors_of(manifest: Mapping[str, Any], contents: Mapping[str, str]) -> Iterator[str]:
    """Yield the versions whose content stands in the signature of one of a judge's metrics."""
    for text in manifest.get("signatures", ()):
        with suppress(BadInput):
            signature = Signature.parse(text)
            content = {**signature.settings, **signature.details}.get("vectors", "").partition("#")[2]
            yield from (version for version, sha256 in contents.items() if content and sha256.startswith(content))


def _sha256(settings: Settings, name: str, version: str) -> str:
    with suppress(RefaugError):
        manifest: Any = read_json(artefact_stores(settings)["vectors"].folder(name, version) / MANIFEST)
        return str(manifest.get("sha256", ""))
    return ""
