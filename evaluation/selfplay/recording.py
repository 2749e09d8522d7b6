"""Self-play as it is written: batch after batch into a file aside, which becomes a version when it is whole.

What was stopped goes on behind its last whole line, with the same bytes as if it had not been stopped. The file aside
belongs to one plan: other bots, settings or starts begin anew.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from refaug.bots.replier import Replier
from refaug.bots.selfplay import SelfPlayed, SelfPlayRules, SelfPlayStart, play_batches
from refaug.core.artefacts.manifests import MANIFEST, content_id, describe_files
from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder, read_json, remove_tree, with_checksum, write_json
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.core.version import VERSION
from refaug.evaluation.selfplay.starts import starts_sha256
from refaug.evaluation.selfplay.stored import CONVERSATIONS, FORMAT_VERSION, KIND, self_play_versions

_PLAN: Final = "plan.json"


@dataclass(frozen=True, kw_only=True)
class PlayingBot:
    """An opened bot with the name that the conversations have for it."""

    name: str
    replier: Replier

    def as_json(self) -> dict[str, Any]:
        """Return the bot as manifests describe it."""
        return {"name": self.name, "provenance": dict(self.replier.provenance)}


@dataclass(frozen=True, kw_only=True)
class SelfPlayOrder:
    """What is to be played: each bot has one conversation for each start; without a partner it talks to itself."""

    bots: Sequence[PlayingBot]
    partner: PlayingBot | None
    start: str  # as it was written
    starts: Sequence[SelfPlayStart]
    rules: SelfPlayRules

    def __post_init__(self) -> None:
        """Require bots, each once."""
        names = [bot.name for bot in self.bots]
        if not names:
            raise Usage("no bot is to play", remedy="name one or several")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Usage(f"{twice} comes twice", remedy="name each bot once")

    def plan(self) -> dict[str, Any]:
        """Return everything that the bytes of the conversations depend on."""
        rules = self.rules
        return {
            "bots": [bot.as_json() for bot in self.bots],
            "partner": self.partner.as_json() if self.partner else None,
            "start": self.start,
            "starts_sha256": starts_sha256(list(self.starts)),
            "conversations_per_bot": len(self.starts),
            "turns": rules.turns,
            "context": rules.context,
            "rules": "published" if rules.published else "plain",
            "seed": rules.seed,
        }


@dataclass(frozen=True, kw_only=True)
class RecordedSelfPlay:
    """The version that was written, and how many conversations of each bot ended early, by the reason."""

    version: str
    resumed_at: int  # conversations that were there before
    problems: Mapping[str, Mapping[str, int]]


def record_self_play(
    settings: Settings, name: str, order: SelfPlayOrder, *, batch: int = 256, progress: Progress | None = None
) -> RecordedSelfPlay:
    """Play, and publish a new version; BadInput where a bot could not begin a single conversation."""
    progress = progress or Silent()
    versions = self_play_versions(settings)
    staged = settings.cache / f"{KIND}-{name}"
    with versions.writing(name, f"self-play {name}") as writer:
        resumed_at = _prepare(staged, order.plan(), progress)
        progress.stage("conversations", len(order.bots) * len(order.starts), "conversations")
        progress.advance(resumed_at)
        with (staged / CONVERSATIONS).open("ab") as file:
            _play_rest(file, order, resumed_at, batch, progress)
        try:
            problems = _require_begun(staged / CONVERSATIONS, order)
        except BadInput:
            remove_tree(staged)  # so that a bot that was down is asked again
            raise
        (staged / _PLAN).unlink()
        files = describe_files(staged, [CONVERSATIONS])
        plan = order.plan()
        manifest = {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "id": content_id({"files": files}, plan),
            **plan,
            "problems": problems,
            "files": files,
            "refaug": VERSION,
        }
        write_json(staged / MANIFEST, with_checksum(manifest))
        version = writer.add(staged)
        writer.publish(version)
    return RecordedSelfPlay(version=version, resumed_at=resumed_at, problems=problems)


def _prepare(staged: Path, plan: Mapping[str, Any], progress: Progress) -> int:
    """Return how many conversations of this very plan are there already; what belongs to another is removed."""
    sha256 = hashlib.sha256(orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)).hexdigest()
    if (staged / _PLAN).exists():
        if read_json(staged / _PLAN).get("sha256") == sha256:
            return _whole_lines(staged / CONVERSATIONS)
        progress.warn("bots, settings or starts differ from those that were stopped: the conversations begin anew")
    remove_tree(staged)
    make_folder(staged)
    write_json(staged / _PLAN, {"sha256": sha256})
    return 0


def _whole_lines(path: Path) -> int:
    """Count the whole lines of a file, and cut off what is behind them."""
    if not path.exists():
        return 0
    count = end = 0
    with path.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
        file.truncate(end)
    return count


def _play_rest(file: BinaryIO, order: SelfPlayOrder, done: int, batch: int, progress: Progress) -> None:
    for place, bot in enumerate(order.bots):
        before = min(max(done - place * len(order.starts), 0), len(order.starts))
        partner = order.partner or bot
        for played in play_batches(bot.replier, partner.replier, order.starts[before:], order.rules, batch=batch):
            file.write(b"".join(_line(bot.name, partner.name, conversation) for conversation in played))
            file.flush()
            os.fsync(file.fileno())
            progress.advance(len(played))


def _line(bot: str, partner: str, played: SelfPlayed) -> bytes:
    fields = {
        "id": f"{bot}/{played.start.number}",
        "bot": bot,
        "partner": partner,
        "start": list(played.start.turns),
        "turns": [{"role": side, "text": text} for side, text in played.turns],
        "problem": played.problem,
    }
    return orjson.dumps(fields) + b"\n"


def _require_begun(path: Path, order: SelfPlayOrder) -> dict[str, dict[str, int]]:
    """Return the conversations that ended early, by bot and reason; BadInput where a bot began none."""
    problems = {bot.name: Counter[str]() for bot in order.bots}
    begun = Counter[str]()
    with path.open("rb") as file:
        for fields in map(orjson.loads, file):
            begun[fields["bot"]] += bool(fields["turns"])
            if fields["problem"]:
                problems[fields["bot"]][fields["problem"]] += 1
    for name, reasons in problems.items():
        if not begun[name]:
            why = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(reasons.items()))
            remedy = "give it utterances to begin with: --start log:NAME or --start file:FILE"
            raise BadInput(f"{name} has no reply to any start: {why}", remedy=remedy)
    return {name: dict(sorted(reasons.items())) for name, reasons in problems.items()}
