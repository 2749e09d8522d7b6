"""The two files of self-play that is being played: a conversation a line, and beside it the times of its turns."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from refaug.bots.latency import LatencyTally
from refaug.bots.selfplay import BOT, SelfPlayed
from refaug.core.errors import Corrupt
from refaug.core.files import cut_half_line, write_aside
from refaug.core.full_disk import storage_errors
from refaug.evaluation.selfplay.stored import CONVERSATIONS, MILLISECONDS


class ConversationFile:
    """The files in a folder aside; each batch is on disk before the next is played."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths = (folder / CONVERSATIONS, folder / MILLISECONDS)

    def cut_half_lines(self) -> int:
        """Cut what a kill left behind the last conversation that is whole in both files; return how many there are."""
        count = min(cut_half_line(path) for path in self._paths)
        for path in self._paths:
            if path.exists():
                _keep_lines(path, count)
        return count

    def copy_from(self, folder: Path) -> None:
        """Take the conversations of a stored version."""
        for path in self._paths:
            shutil.copyfile(folder / path.name, path)

    def append(self, bot: str, partner: str, played: Sequence[SelfPlayed]) -> None:
        """Write a batch of conversations of a bot."""
        lines = [conversation_lines(bot, partner, conversation) for conversation in played]
        for path, content in zip(self._paths, zip(*lines, strict=True), strict=True):
            with storage_errors(path), path.open("ab") as file:
                file.write(b"".join(content))
                file.flush()
                os.fsync(file.fileno())

    def replace(self, blocks: Iterator[Sequence[tuple[bytes, bytes]]]) -> None:
        """Write both files anew from blocks of lines, whole or not at all."""
        with write_aside(self._paths[1]) as times, write_aside(self._paths[0]) as conversations:
            for block in blocks:
                conversations.write(b"".join(line for line, _ in block))
                times.write(b"".join(line for _, line in block))

    def lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each conversation with its times, as they are written."""
        with self._paths[0].open("rb") as conversations, self._paths[1].open("rb") as times:
            yield from zip(conversations, times, strict=True)

    def early_ends(self, bots: Sequence[str]) -> tuple[Counter[str], dict[str, Counter[str]]]:
        """Return how many conversations of each bot have a reply, and how many ended early, by the reason."""
        begun, problems = Counter[str](), {bot: Counter[str]() for bot in bots}
        for line, _ in self.lines():
            fields = read_line(line)
            begun[fields["bot"]] += bool(fields["turns"])
            if fields["problem"]:
                problems[fields["bot"]][fields["problem"]] += 1
        return begun, problems

    def latency(self, bots: Sequence[str]) -> dict[str, dict[str, object] | None]:
        """Return how long the replies of each bot took; those of a partner do not count."""
        tallies = {bot: LatencyTally() for bot in bots}
        for line, milliseconds in self.lines():
            fields = read_line(line)
            turns = zip(fields["turns"], orjson.loads(milliseconds), strict=False)
            tallies[fields["bot"]].add(
                ms for turn, ms in turns if turn["role"] == BOT or fields["partner"] == fields["bot"]
            )
        latencies = {bot: tally.latency() for bot, tally in tallies.items()}
        return {bot: None if latency is None else latency.as_json() for bot, latency in latencies.items()}


def conversation_lines(bot: str, partner: str, played: SelfPlayed) -> tuple[bytes, bytes]:
    """Return the line of a conversation, and that of its times."""
    fields = {
        "id": f"{bot}/{played.start.number}",
        "bot": bot,
        "partner": partner,
        "start": list(played.start.turns),
        "turns": [{"role": side, "text": text} for side, text in played.turns],
        "problem": played.problem,
    }
    milliseconds = [round(ms, 2) for ms in played.milliseconds]
    return orjson.dumps(fields) + b"\n", orjson.dumps(milliseconds) + b"\n"


def read_line(line: bytes) -> Mapping[str, Any]:
    """Return the fields of a conversation; Corrupt for a line that is none."""
    try:
        fields: Mapping[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"a conversation of self-play is damaged: {error}", remedy="play it again") from error
    return fields


def _keep_lines(path: Path, count: int) -> None:
    """Keep the first lines of a file."""
    with path.open("r+b") as file:
        for _ in range(count):
            file.readline()
        file.truncate(file.tell())
