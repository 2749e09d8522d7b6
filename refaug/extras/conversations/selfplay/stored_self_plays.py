"""Self-plays of a home: the facts of a version, and which of its bots have changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from refaug.core.artefacts.manifests import verify_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.home import Settings
from refaug.core.options.declaring import Doc
from refaug.scoring.home.descriptions import FactList, Section, TitledTable
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts


@dataclass(frozen=True, kw_only=True)
class SelfPlayFacts(VersionFacts):
    """The facts of a version of self-play."""

    bots: Annotated[list[str] | None, Doc("the bots that played")] = None
    conversations: Annotated[int | None, Doc("the conversations of all bots")] = None
    turns: Annotated[int | None, Doc("the turns of a conversation")] = None
    start: Annotated[str | None, Doc("where its first turns came from")] = None


class StoredSelfPlays(StoredArtefacts):
    """Conversations of bots with themselves or with a partner."""

    columns = ("bots", "conversations", "turns", "start")
    fact_type = SelfPlayFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return who played, how much, and from which starts."""
        return {
            "bots": [bot["name"] for bot in manifest["bots"]],
            "conversations": len(manifest["bots"]) * manifest["conversations_per_bot"],
            "turns": manifest["turns"],
            "start": manifest["start"],
        }

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return what a version was played with: bots with their versions, starts, rules, and early ends."""
        verify_files(held.folder, manifest)

        def sections() -> list[Section]:
            names = ("start", "conversations_per_bot", "turns", "context", "rules", "seed")
            partner = manifest["partner"]["name"] if manifest["partner"] else "itself"
            rows = [
                (
                    bot["name"],
                    partner,
                    ", ".join(f"{key} {text}" for key, text in bot["provenance"].items()),
                    sum(manifest["problems"][bot["name"]].values()),
                )
                for bot in manifest["bots"]
            ]
            facts = {name: manifest[name] for name in names}
            return [FactList(title, facts), TitledTable("bots", ("bot", "partner", "made of", "ended early"), rows)]

        return self.described(held, manifest, {}, sections, warnings=changed_players(self.settings, manifest))


def changed_players(home: Settings, manifest: Mapping[str, Any]) -> list[str]:
    """Return in words which stored bots are no longer what they were when they played."""
    from refaug.service.bots.stored_bots import changed_bots  # noqa: PLC0415  sqlalchemy

    players = [*manifest["bots"], *([manifest["partner"]] if manifest["partner"] else [])]
    specs = [player["provenance"]["bot"] for player in players if "bot" in player["provenance"]]
    return changed_bots(home, specs)
