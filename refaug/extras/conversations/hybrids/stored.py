"""A hybrid metric on disk: coefficients, the figures that they came with, and the conversations it was fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import BadInput, Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.extras.conversations.hybrid_metric.fit import HybridWeights
from refaug.extras.conversations.options.hybrid_settings import HybridSettings
from refaug.extras.conversations.records import Conversation
from refaug.rater.adem.scorer.adem import SEEN, SeenTexts

KIND: Final = "hybrid"
FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.json"
REPORT: Final = "report.json"
_REMEDY: Final = "restore it from a backup, or fit it again"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredHybrid:
    """An opened version."""

    spec: str  # name@version#content
    manifest: Mapping[str, Any]
    weights: HybridWeights
    settings: HybridSettings
    report: Mapping[str, Any]
    seen: SeenTexts

    @property
    def name(self) -> str:
        """The name with the version, without the content."""
        return self.spec.partition("#")[0]

    @property
    def details(self) -> dict[str, str]:
        """The encoders and metrics of turns, as signatures name them."""
        return {str(slot): str(name) for slot, name in self.manifest["details"].items()}

    def was_fitted_to(self, conversation: Conversation) -> bool:
        """Whether a score of this conversation would come from a fit that has seen its rating.

        A conversation of the same bot is scored by the fit without that bot, which has not seen it.
        """
        if conversation.digest() not in self.seen.hashes:
            return False
        is_left_out = conversation.bot in self.weights.without
        return not (is_left_out and conversation.digest(with_bot=True) in self.seen.hashes)


def hybrid_versions(settings: Settings) -> Versions:
    """Return the versions of this home's hybrids."""
    return artefact_stores(settings)[KIND]


def read_hybrid_manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of a version; Corrupt where it is another kind's."""
    manifest: Mapping[str, Any] = read_json(folder / MANIFEST)
    require_format(folder / MANIFEST, manifest, KIND, FORMAT_VERSION)
    return manifest


def open_hybrid(settings: Settings, spec: str) -> StoredHybrid:
    """Open a version by name or name@version; files that were altered are refused."""
    with hybrid_versions(settings).open(spec.partition("#")[0]) as held:
        manifest = read_hybrid_manifest(held.folder)
        verify_files(held.folder, manifest)
        try:
            return StoredHybrid(
                spec=f"{held.name}@{held.version}#{str(manifest['id'])[:12]}",
                manifest=manifest,
                weights=HybridWeights.read(read_json(held.folder / WEIGHTS)),
                settings=HybridSettings.of_manifest(manifest["fit"]),
                report=read_json(held.folder / REPORT),
                seen=SeenTexts.read(held.folder / SEEN),
            )
        except (KeyError, TypeError, ValueError, BadInput) as error:
            raise Corrupt(f"{held.folder / WEIGHTS}: {error}", remedy=_REMEDY) from error
