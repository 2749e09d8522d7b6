"""Self-play as it is written: batch after batch into a file aside, which becomes a version when it is whole.

What was stopped goes on behind its last whole line, with the same bytes as if it had not been stopped. The file aside
belongs to one plan: other bots, settings or starts begin anew. A conversation that an endpoint's fault has ended is not
final: it goes on from the turn that it had reached when the order is resumed, or played with `retries_faults`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson

from refaug.bots.endpoint.chat import FaultKind
from refaug.bots.replier import LatencyTally, Replier
from refaug.core.artefacts.manifests import write_manifest
from refaug.core.errors import BadInput, Corrupt, NotFound, Usage
from refaug.core.files import (
    cut_half_line,
    make_folder,
    read_json,
    remove_tree,
    storage_errors,
    write_aside,
    write_json,
)
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.extras.conversations.operations import PlayConversations
from refaug.extras.conversations.selfplay.check import SelfPlayCheck, check_self_play
from refaug.extras.conversations.selfplay.playing import BOT, SelfPlayed, play, play_on
from refaug.extras.conversations.selfplay.rules import SelfPlayRules
from refaug.extras.conversations.selfplay.starts import SelfPlayStarts, read_starts
from refaug.extras.conversations.selfplay.stored import (
    CONVERSATIONS,
    FORMAT_VERSION,
    KIND,
    MILLISECONDS,
    open_self_play,
    self_play_versions,
)
from refaug.logs.store import StoredLog
from refaug.scoring.item_files import InputFile
from refaug.service.bots.opening import OpenBot

# ── What is to be played: which bots, with whom, from which starts, and by which rules ────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class PlayingBot:
    """An opened bot with the name that the conversations have for it."""

    name: str
    replier: Replier

    def as_json(self) -> dict[str, object]:
        """Return the bot as manifests describe it."""
        return {"name": self.name, "provenance": dict(self.replier.provenance)}


@dataclass(frozen=True, kw_only=True)
class SelfPlayOrder:
    """What is to be played: each bot has one conversation for each start; without a partner it talks to itself."""

    bots: Sequence[PlayingBot]
    partner: PlayingBot | None
    start: str  # as it was written
    starts: SelfPlayStarts
    rules: SelfPlayRules

    def __post_init__(self) -> None:
        """Require bots, each once."""
        names = [bot.name for bot in self.bots]
        if not names:
            raise Usage("no bot is to play", remedy="name one or several")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Usage(f"{twice} comes twice", remedy="name each bot once")

    def plan(self) -> dict[str, object]:
        """Return everything that the bytes of the conversations depend on."""
        rules = self.rules
        return {
            "bots": [bot.as_json() for bot in self.bots],
            "partner": self.partner.as_json() if self.partner else None,
            "start": self.start,
            "starts_sha256": self.starts.sha256,
            "conversations_per_bot": len(self.starts),
            "turns": rules.turns,
            "context": rules.context,
            "rules": rules.rules,
            "seed": rules.seed,
        }

    def bot_at(self, place: int) -> tuple[PlayingBot, PlayingBot]:
        """Return the bot of a conversation and its partner, by the place among the conversations of all bots."""
        bot = self.bots[place // len(self.starts)]
        return bot, self.partner or bot


# ── The two files of self-play that is being played: a conversation a line, and beside it the times of its turns ──────


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


# ── Conversations that an endpoint's fault has ended: they go on from the turn that they had reached ──────────────────

# After other faults, the same question would get the same answer.
PASSING_FAULTS: Final = frozenset(
    fault.value for fault in FaultKind if fault not in (FaultKind.TOO_LARGE, FaultKind.REDIRECT, FaultKind.REJECTED)
)
_BLOCK: Final = 4_096  # conversations that are held in memory at a time


def early_end_warnings(problems: Mapping[str, Mapping[str, int]], silent: Mapping[str, str]) -> Iterator[str]:
    """Yield what to know of conversations that ended early; `silent` has what to say of bots that began none."""
    for name, reasons in problems.items():
        if name in silent:
            yield silent[name]
        elif reasons:
            listed = ", ".join(f"{reason} ({number:,})" for reason, number in reasons.items())
            yield f"{name}: conversations that ended early: {listed}"
    if any(reason in PASSING_FAULTS for reasons in problems.values() for reason in reasons):
        yield "what an endpoint's fault ended is not final: the same order with --retry plays it on"


def play_faults_again(file: ConversationFile, order: SelfPlayOrder, count: int, batch: int, progress: Progress) -> int:
    """Play on what faults have ended among the first `count` conversations; return how many these were."""
    ended = sum(
        read_line(line)["problem"] in PASSING_FAULTS for place, (line, _) in enumerate(file.lines()) if place < count
    )
    if ended:
        progress.stage("again", ended, "conversations")
        file.replace(_blocks(file, order, count, batch, progress))
    return ended


def _blocks(
    file: ConversationFile, order: SelfPlayOrder, count: int, batch: int, progress: Progress
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the lines of all conversations, block after block, with those that were ended as they are now."""
    block, first = list[tuple[bytes, bytes]](), 0
    for lines in file.lines():
        block.append(lines)
        if len(block) == _BLOCK:
            yield _played_on(block, first, order, count, batch, progress)
            block, first = [], first + _BLOCK
    yield _played_on(block, first, order, count, batch, progress)


def _played_on(
    block: list[tuple[bytes, bytes]], first: int, order: SelfPlayOrder, count: int, batch: int, progress: Progress
) -> list[tuple[bytes, bytes]]:
    fields = [(place, read_line(line)) for place, (line, _) in enumerate(block)]
    ended = [
        (place, content) for place, content in fields if first + place < count and content["problem"] in PASSING_FAULTS
    ]
    for _, of_bot in groupby(ended, key=lambda pair: (first + pair[0]) // len(order.starts)):
        conversations = list(of_bot)
        for begin in range(0, len(conversations), batch):
            _play_batch(block, first, order, conversations[begin : begin + batch], partial(progress.advance, 0))
            progress.advance(len(conversations[begin : begin + batch]))
    return block


def _play_batch(
    block: list[tuple[bytes, bytes]],
    first: int,
    order: SelfPlayOrder,
    conversations: Sequence[tuple[int, Mapping[str, Any]]],
    check: Callable[[], None],
) -> None:
    """Play conversations of one bot on, and put their new lines into the block."""
    bot, partner = order.bot_at(first + conversations[0][0])
    going = [_conversation(order, first + place, content, block[place][1]) for place, content in conversations]
    play_on(bot.replier, partner.replier, going, order.rules, check)
    for (place, _), conversation in zip(conversations, going, strict=True):
        block[place] = conversation_lines(bot.name, partner.name, conversation)


def _conversation(order: SelfPlayOrder, place: int, content: Mapping[str, Any], times: bytes) -> SelfPlayed:
    """Return a conversation as it was before the fault."""
    number = place % len(order.starts)
    (start,) = order.starts.between(number, number + 1)
    turns = [(turn["role"], turn["text"]) for turn in content["turns"]]
    milliseconds = list(orjson.loads(times))
    return SelfPlayed(start=start, turns=turns, milliseconds=milliseconds + [0.0] * (len(turns) - len(milliseconds)))


# ── Self-play as it is written: batch after batch into a file aside, which becomes a version when it is whole ─────────

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
    sha256 = hashlib.sha256(orjson.dumps(_compared(plan), option=orjson.OPT_SORT_KEYS)).hexdigest()
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


def _compared(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan without how its starts were written: their hash says what they are."""
    return {key: content for key, content in plan.items() if key != "start"}


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
                if all(stored.manifest.get(key) == content for key, content in _compared(plan).items()):
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
            played = play(bot.replier, partner.replier, starts, order.rules, partial(progress.advance, 0))
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


def play_conversations(
    home: Settings,
    order: PlayConversations,
    opened: Sequence[OpenBot],
    progress: Progress,
    *,
    start_file: InputFile | None = None,
) -> dict[str, Any]:
    """Play what is ordered with its bots, the partner behind them, and return the version with its figures."""
    for bot in opened:
        for warning in bot.replier.warnings:
            progress.warn(f"{bot.name}: {warning}")
    playing = [PlayingBot(name=bot.name, replier=bot.replier) for bot in opened]
    with closing(read_starts(home, order.start, order.conversations, order.seed, file=start_file)) as starts:
        recorded = record_self_play(
            home,
            order.name,
            SelfPlayOrder(
                bots=playing[: len(order.bots)],
                partner=playing[-1] if order.partner is not None else None,
                start=order.start,
                starts=starts,
                rules=order,
            ),
            batch=order.batch,
            retries_faults=order.retry,
            progress=progress,
        )
    for warning in early_end_warnings(recorded.problems, recorded.silent):
        progress.warn(warning)
    return {
        "self_play": order.name,
        "version": recorded.version,
        "bots": [bot.name for bot in playing[: len(order.bots)]],
        "conversations": len(order.bots) * order.conversations,
        "resumed_at": recorded.resumed_at,
        "played_again": recorded.played_again,
        "problems": {name: dict(reasons) for name, reasons in recorded.problems.items()},
        "silent": list(recorded.silent),
        "latency": {name: dict(figures) if figures else None for name, figures in recorded.latency.items()},
    }


def compared_log(home: Settings, order: PlayConversations) -> StoredLog | None:
    """Return the log that the conversations are compared with; NotFound before anything is played."""
    return None if order.check_log is None else StoredLog.open(home.logs, order.check_log)


def checks_of(home: Settings, spec: str, log: StoredLog | None, progress: Progress) -> list[SelfPlayCheck]:
    """Return what the conversations of a version share with the log and with each other; nothing without a log."""
    if log is None:
        return []
    with open_self_play(home, spec) as played:
        return check_self_play(played, log, scratch=home.cache, progress=progress)
