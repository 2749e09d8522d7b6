"""What a passport holds for, and the passports of a home."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from refaug.bots.endpoint.specification import Endpoint
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.extras.judges.language_models.rubric import VERSION, Rubric

KIND: Final = "passport"
FORMAT_VERSION: Final = 1
PASSPORT: Final = "passport.json"
_SETTINGS: Final = ("refs", "turns", "score", "samples", "temperature")  # of the metric; they change what is asked


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Everything that decides what a judge is asked; the address is no part of it, a fingerprint tells who answers."""

    model: str
    parameters: str  # a hash of what each request has beside its messages
    rubric: str  # name#hash
    questions: str  # the version of our words around it
    settings: Mapping[str, str]  # of the metric

    @classmethod
    def of(cls, endpoint: Endpoint, rubric: Rubric, settings: Mapping[str, str]) -> Self:
        """Return the binding of a judge with the settings of the metric `judge`."""
        beside = [endpoint.max_tokens_field, sorted(endpoint.omit), endpoint.parameters]
        return cls(
            model=endpoint.model,
            parameters=hashlib.sha256(orjson.dumps(beside, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12],
            rubric=rubric.spec,
            questions=VERSION,
            settings={name: settings[name] for name in _SETTINGS},
        )

    def as_json(self) -> dict[str, object]:
        """Return it as passports have it."""
        return {
            "model": self.model,
            "parameters": self.parameters,
            "rubric": self.rubric,
            "questions": self.questions,
            "settings": dict(self.settings),
        }

    def differences(self, saved: Mapping[str, Any]) -> list[str]:
        """Return what a passport has otherwise, each as `name it-has, not ours`."""
        ours = {**self.as_json(), **self.settings}
        theirs = {**saved, **saved["settings"]}
        return [
            f"{name} {theirs.get(name)}, not {ours[name]}"
            for name in ours
            if name != "settings" and str(theirs.get(name)) != str(ours[name])
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredPassport:
    """A passport of a home."""

    spec: str  # name@version
    figures: Mapping[str, Any]

    @property
    def why_not(self) -> list[str]:
        """Why the judge is not worth what a passport asks for; [] where it is."""
        unmeasured = [] if self.figures["spread"]["differences"] is not None else ["its noise was not measured"]
        return [*self.figures["why_not"], *unmeasured]


def passport_versions(home: Settings) -> Versions:
    """Return the versions of this home's passports."""
    return artefact_stores(home)[KIND]


def open_passport(home: Settings, spec: str) -> StoredPassport:
    """Open a passport by name or name@version; files that were altered are refused."""
    with passport_versions(home).open(spec) as held:
        path = held.folder / MANIFEST
        manifest: Mapping[str, Any] = read_json(path)
        require_format(path, manifest, KIND, FORMAT_VERSION)
        verify_files(held.folder, manifest)
        figures = read_json(held.folder / PASSPORT)
        if not isinstance(figures, dict) or not {"binding", "certified", "canary", "spread"} <= figures.keys():
            raise Corrupt(f"{held.folder / PASSPORT} is not a passport", remedy="certify the judge again")
        return StoredPassport(spec=f"{held.name}@{held.version}", figures=figures)


def passports(home: Settings) -> list[StoredPassport]:
    """Return the published passports of a home, the one that was published last first."""
    versions = passport_versions(home)
    times = {name: time for name in versions.names() if (time := versions.published_at(name)) is not None}
    return [open_passport(home, name) for name in sorted(times, key=times.__getitem__, reverse=True)]
