"""A stored version of self-play: its manifest, and its conversations one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import orjson

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.options.declaring import Doc
from refaug.extras.conversations.selfplay.playing import BOT
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts
from refaug.tables.reports.table import Description, FactList, Table

KIND: Final = "self-play"
FORMAT_VERSION: Final = 1
CONVERSATIONS: Final = "conversations.jsonl"
MILLISECONDS: Final = "milliseconds.jsonl"  # the times of the turns, a line a conversation


@dataclass(frozen=True, kw_only=True)
class StoredConversation:
    """One conversation of a bot; `replies` are without the start, and `own` without those of a partner."""

    id: str
    bot: str
    replies: tuple[str, ...]
    own: tuple[str, ...]
    problem: str
    start: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StoredSelfPlay:
    """A version that is held open."""

    spec: str  # name@version#content
    folder: Path
    manifest: Mapping[str, Any]

    @property
    def bots(self) -> list[str]:
        """The bots, in the order in which they were named."""
        return [str(bot["name"]) for bot in self.manifest["bots"]]

    def conversations(self) -> Iterator[StoredConversation]:
        """Yield all conversations, bot after bot."""
        path = self.folder / CONVERSATIONS
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    fields = orjson.loads(line)
                    is_alone, turns = fields["partner"] == fields["bot"], fields["turns"]
                    yield StoredConversation(
                        id=fields["id"],
                        bot=fields["bot"],
                        replies=tuple(turn["text"] for turn in turns),
                        own=tuple(turn["text"] for turn in turns if is_alone or turn["role"] == BOT),
                        problem=fields["problem"],
                        start=tuple(fields["start"]),
                    )
                except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                    raise Corrupt(f"{path}, line {number:,}: {error}", remedy="play it again") from error


def self_play_versions(settings: Settings) -> Versions:
    """Return the versions of this home's self-plays."""
    return artefact_stores(settings)[KIND]


def read_self_play_manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of a version; Corrupt where it is another kind's."""
    manifest: Mapping[str, Any] = read_json(folder / MANIFEST)
    require_format(folder / MANIFEST, manifest, KIND, FORMAT_VERSION)
    return manifest


@contextmanager
def open_self_play(settings: Settings, spec: str) -> Iterator[StoredSelfPlay]:
    """Hold a version open by name or name@version; files that were altered are refused."""
    with self_play_versions(settings).open(spec) as held:
        manifest = read_self_play_manifest(held.folder)
        verify_files(held.folder, manifest)
        name = f"{held.name}@{held.version}#{str(manifest['id'])[:12]}"
        yield StoredSelfPlay(spec=name, folder=held.folder, manifest=manifest)


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

        def sections() -> list[Description]:
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
            return [FactList(title, facts), Table("bots", ("bot", "partner", "made of", "ended early"), rows)]

        return self.described(held, manifest, {}, sections, warnings=changed_players(self.settings, manifest))


def changed_players(home: Settings, manifest: Mapping[str, Any]) -> list[str]:
    """Return in words which stored bots are no longer what they were when they played."""
    from refaug.service.bots.stored_bots import changed_bots  # noqa: PLC0415  sqlalchemy

    players = [*manifest["bots"], *([manifest["partner"]] if manifest["partner"] else [])]
    specs = [player["provenance"]["bot"] for player in players if "bot" in player["provenance"]]
    return changed_bots(home, specs)
