"""Conversations that an endpoint's fault has ended: they go on from the turn that they had reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from refaug.bots.endpoint.faults import FaultKind
from refaug.bots.selfplay import SelfPlayed, play_on
from refaug.core.progress import Progress
from refaug.evaluation.selfplay.conversation_file import ConversationFile, conversation_lines, read_line
from refaug.evaluation.selfplay.order import SelfPlayOrder

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
            _play_batch(block, first, order, conversations[begin : begin + batch])
            progress.advance(len(conversations[begin : begin + batch]))
    return block


def _play_batch(
    block: list[tuple[bytes, bytes]],
    first: int,
    order: SelfPlayOrder,
    conversations: Sequence[tuple[int, Mapping[str, Any]]],
) -> None:
    """Play conversations of one bot on, and put their new lines into the block."""
    bot, partner = order.bot_at(first + conversations[0][0])
    going = [_conversation(order, first + place, content, block[place][1]) for place, content in conversations]
    play_on(bot.replier, partner.replier, going, order.rules)
    for (place, _), conversation in zip(conversations, going, strict=True):
        block[place] = conversation_lines(bot.name, partner.name, conversation)


def _conversation(order: SelfPlayOrder, place: int, content: Mapping[str, Any], times: bytes) -> SelfPlayed:
    """Return a conversation as it was before the fault."""
    number = place % len(order.starts)
    (start,) = order.starts.between(number, number + 1)
    turns = [(turn["role"], turn["text"]) for turn in content["turns"]]
    milliseconds = list(orjson.loads(times))
    return SelfPlayed(start=start, turns=turns, milliseconds=milliseconds + [0.0] * (len(turns) - len(milliseconds)))
