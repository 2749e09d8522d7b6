"""Self-play as it is written: batch after batch into a file aside, which becomes a version when it is whole.

What was stopped goes on behind its last whole line, with the same bytes as if it had not been stopped. The file aside
belongs to one plan: other bots, settings or starts begin anew. A conversation that an endpoint's fault has ended is not
final: it goes on from the turn that it had reached when the order is resumed, or played with `retries_faults`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from refaug.bots.endpoint.faults import FaultKind
from refaug.bots.selfplay import play
from refaug.core.artefacts.manifests import write_manifest
from refaug.core.errors import BadInput, Corrupt, NotFound
from refaug.core.files import make_folder, read_json, remove_tree, write_json
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.evaluation.selfplay.conversation_file import ConversationFile
from refaug.evaluation.selfplay.faults import PASSING_FAULTS, play_faults_again
from refaug.evaluation.selfplay.order import SelfPlayOrder
from refaug.evaluation.selfplay.stored import (
    CONVERSATIONS,
    FORMAT_VERSION,
    KIND,
    MILLISECONDS,
    open_self_play,
    self_play_versions,
)

_PLAN: Final = "plan.json"


@dataclass(frozen=True, kw_only=True)
class RecordedSelfPlay:
    """The version that was written, and how many conversations of each bot ended early, by the reason."""

    version: str
    resumed_at: int  # conversations that were there before
    played_again: int  # conversations among them that a fault had ended
    problems: Mapping[str, Mapping[str, int]]
    silent: Mapping[str, str]  # bots that had no reply to any start, with what is wrong and what to do
    latency: Mapping[str, Mapping[str, Any] | None]


def record_self_play(
    settings: Settings,
    name: str,
    order: SelfPlayOrder,
    *,
    batch: int = 256,
    retries_faults: bool = False,
    progress: Progress | None = None,
) -> RecordedSelfPlay:
    """Play, and publish a new version; BadInput where no bot could begin a single conversation.

    A bot that could not begin any is named beside the others, which have played. With `retries_faults`, the newest
    version of the same order is taken, and only what a fault had ended is played.
    """
    progress = progress or Silent()
    plan = order.plan()
    staged = settings.cache / f"{KIND}-{name}"
    with self_play_versions(settings).writing(name, f"self-play {name}") as writer:
        file = ConversationFile(staged)
        resumed_at = _prepare(settings, name, file, plan, progress, retries_faults=retries_faults)
        _play_rest(file, order, resumed_at, batch, progress)
        played_again = play_faults_again(file, order, resumed_at, batch, progress) if resumed_at else 0
        try:
            problems, silent = _require_begun(file, order)
        except BadInput:
            remove_tree(staged)  # so that a bot that was down is asked again
            raise
        latency = file.latency([bot.name for bot in order.bots])
        (staged / _PLAN).unlink()
        counts = {"problems": problems, "latency": latency}  # times differ from run to run, and are no part of the id
        files = (CONVERSATIONS, MILLISECONDS)
        write_manifest(staged, KIND, FORMAT_VERSION, files, plan, content=(CONVERSATIONS,), before=counts)
        version = writer.add(staged)
        writer.publish(version)
    return RecordedSelfPlay(
        version=version,
        resumed_at=resumed_at,
        played_again=played_again,
        problems=problems,
        silent=silent,
        latency=latency,
    )


def _prepare(
    settings: Settings,
    name: str,
    file: ConversationFile,
    plan: Mapping[str, Any],
    progress: Progress,
    *,
    retries_faults: bool,
) -> int:
    """Return how many conversations of this very plan are there already; what belongs to another is removed."""
    staged = file.folder
    sha256 = hashlib.sha256(orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)).hexdigest()
    if (staged / _PLAN).exists():
        if read_json(staged / _PLAN).get("sha256") == sha256:
            return file.cut_half_lines()
        progress.warn("bots, settings or starts differ from those that were stopped: the conversations begin anew")
    remove_tree(staged)
    make_folder(staged)
    if retries_faults:
        _copy_newest(settings, name, file, plan, progress)
    write_json(staged / _PLAN, {"sha256": sha256})
    return file.cut_half_lines()


def _copy_newest(
    settings: Settings, name: str, file: ConversationFile, plan: Mapping[str, Any], progress: Progress
) -> None:
    """Copy the conversations of the newest version with this plan."""
    try:
        versions = self_play_versions(settings).versions(name)
    except NotFound:
        versions = []
    for version in reversed(versions):
        try:
            with open_self_play(settings, f"{name}@{version}") as stored:
                if all(stored.manifest.get(key) == content for key, content in plan.items()):
                    file.copy_from(stored.folder)
                    return
        except (Corrupt, NotFound):
            continue
    progress.warn(f"self-play {name} has no version of the same bots, starts and rules: all is played")


def _play_rest(file: ConversationFile, order: SelfPlayOrder, done: int, batch: int, progress: Progress) -> None:
    progress.stage("conversations", len(order.bots) * len(order.starts), "conversations")
    progress.advance(done)
    for place, bot in enumerate(order.bots):
        before = min(max(done - place * len(order.starts), 0), len(order.starts))
        partner = order.partner or bot
        for first in range(before, len(order.starts), batch):
            starts = order.starts.between(first, first + batch)
            played = play(bot.replier, partner.replier, starts, order.rules)
            file.append(bot.name, partner.name, played)
            progress.advance(len(played))


def _require_begun(file: ConversationFile, order: SelfPlayOrder) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Return the conversations that ended early, by bot and reason, and the bots that began none; BadInput if all."""
    begun, problems = file.early_ends([bot.name for bot in order.bots])
    problems_of = {name: dict(sorted(reasons.items())) for name, reasons in problems.items()}
    messages = {
        name: f"{name} has no reply to any start: "
        + ", ".join(f"{reason} ({count:,})" for reason, count in reasons.items())
        for name, reasons in problems_of.items()
        if not begun[name]
    }
    remedies = {name: _remedy(name, problems_of[name], order) for name in messages}
    if len(messages) == len(order.bots):
        raise BadInput("; ".join(messages.values()), remedy=next(iter(remedies.values())))
    silent = {
        name: f"{message}; the other bots have played. {remedies[name]}"
        + ("; then the same order with --retry plays its part" if problems_of[name].keys() <= PASSING_FAULTS else "")
        for name, message in messages.items()
    }
    return problems_of, silent


def _remedy(name: str, reasons: Mapping[str, int], order: SelfPlayOrder) -> str:
    """Return what helps a bot that could not begin: an endpoint's fault has other remedies than a start."""
    if reasons.keys() <= {fault.value for fault in FaultKind}:
        return f'what refaug bots try {name} "Hello" says is wrong; docs/bots.md has the reasons'
    if order.start == "empty":
        return "give it utterances to begin with: --start log:NAME or --start file:FILE"
    return "other starts; docs/bots.md has the reasons"
