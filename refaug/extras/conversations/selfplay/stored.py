"""A stored version of self-play: its manifest, and its conversations one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings

KIND: Final = "self-play"
FORMAT_VERSION: Final = 1
CONVERSATIONS: Final = "conversations.jsonl"
MILLISECONDS: Final = "milliseconds.jsonl"  # the times of the turns, a line a conversation


@dataclass(frozen=True, kw_only=True)
class StoredConversation:
    """One conversation of a bot; `replies` are without the start."""

    id: str
    bot: str
    replies: tuple[str, ...]
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
                    yield StoredConversation(
                        id=fields["id"],
                        bot=fields["bot"],
                        replies=tuple(turn["text"] for turn in fields["turns"]),
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
