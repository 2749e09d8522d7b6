"""A fitted judge on disk: weights and scales, the metrics by their specifications, and the texts it was fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.extras.judges.combined.combination import CombinedJudge
from refaug.rater.adem.scorer.adem import SEEN, SeenTexts

KIND: Final = "judge-fit"
FORMAT_VERSION: Final = 1
JUDGE: Final = "judge.json"
REPORT: Final = "report.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredJudge:
    """An opened judge with what its manifest says."""

    spec: str  # name@version#content
    judge: CombinedJudge
    metrics: tuple[str, ...]  # with their models as name@version#content
    seen: SeenTexts
    report: Mapping[str, Any]
    signatures: tuple[str, ...]  # of the metrics as they were bound

    @property
    def name(self) -> str:
        """The name with the version, without the content."""
        return self.spec.partition("#")[0]


def judge_versions(settings: Settings) -> Versions:
    """Return the versions of this home's fitted judges."""
    return artefact_stores(settings)[KIND]


def open_judge(settings: Settings, spec: str) -> StoredJudge:
    """Open a judge by name or name@version; files that were altered are refused."""
    with judge_versions(settings).open(spec) as held:
        path = held.folder / MANIFEST
        manifest: Mapping[str, Any] = read_json(path)
        require_format(path, manifest, KIND, FORMAT_VERSION)
        verify_files(held.folder, manifest)
        if any((manifest.get("models") or {}).values()):
            raise Corrupt(f"{path} names models beside its metrics, which name none", remedy="fit the judge again")
        judge = CombinedJudge.read(read_json(held.folder / JUDGE), str(held.folder / JUDGE))
        try:
            return StoredJudge(
                spec=f"{held.name}@{held.version}#{str(manifest['id'])[:12]}",
                judge=judge,
                metrics=tuple(map(str, manifest["metrics"])),
                seen=SeenTexts.read(held.folder / SEEN),
                report=read_json(held.folder / REPORT),
                signatures=tuple(map(str, manifest["signatures"])),
            )
        except (KeyError, TypeError) as error:
            raise Corrupt(f"{path} lacks {error}", remedy="restore it, or fit the judge again") from error


def open_for_metrics(settings: Settings, spec: str, threads: int | None) -> StoredJudge:  # noqa: ARG001
    """Open a judge as models of metrics are opened; it uses no threads."""
    return open_judge(settings, spec)
