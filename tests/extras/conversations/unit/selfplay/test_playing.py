"""Self-play in step: who replies to what, starts, rules, early ends, and that a batch changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.core.errors import Usage
from refaug.extras.conversations.selfplay.playing import MAX_CHARACTERS, SelfPlayed, SelfPlayStart, play
from refaug.extras.conversations.selfplay.rules import SelfPlayRules


@dataclass
class CountingBot:
    """A bot that says which turns it saw, with a number that its seed draws."""

    name: str
    seen: list[tuple[str, ...]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    ends: Mapping[str, BotReply] = field(default_factory=dict)  # by the utterance
    provenance: Mapping[str, str] = field(default_factory=dict)
    is_random: bool = True
    warnings: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        self.seen += [request.item.turns for request in requests]
        self.seeds += [request.seed for request in requests]
        return [self._reply(request) for request in requests]

    def _reply(self, request: ReplyRequest) -> BotReply:
        utterance = request.item.utterance or ""
        drawn = Random(request.seed).randrange(10**9)
        return self.ends.get(utterance, BotReply(text=f"{self.name} {drawn} to {utterance[:8]}"))


def starts(count: int) -> list[SelfPlayStart]:
    return [SelfPlayStart(number=number, turns=(f"start {number}",)) for number in range(count)]


def test_two_bots_take_turns_and_each_reply_is_the_next_utterance() -> None:
    bot, partner = CountingBot("a"), CountingBot("b")
    (conversation,) = play(bot, partner, starts(1), SelfPlayRules(turns=5, context=3))
    assert [side for side, _ in conversation.turns] == ["bot", "partner", "bot", "partner", "bot"]
    texts = ["start 0", *conversation.replies]
    assert bot.seen == [tuple(texts[:1]), tuple(texts[:3]), tuple(texts[2:5])]
    assert partner.seen == [tuple(texts[:2]), tuple(texts[1:4])]


def test_without_a_start_the_first_utterance_is_empty_and_not_recorded() -> None:
    bot = CountingBot("a")
    (conversation,) = play(bot, bot, [SelfPlayStart(number=0)], SelfPlayRules(turns=2))
    assert bot.seen[0] == ("",)
    assert bot.seen[1] == ("", conversation.replies[0])
    assert len(conversation.replies) == 2


@pytest.mark.parametrize("batch", [1, 2, 7, 100])
def test_the_batch_changes_no_reply(batch: int) -> None:
    rules = SelfPlayRules(turns=4, seed=9)
    whole = play(CountingBot("a"), CountingBot("b"), starts(11), rules)
    played = list[SelfPlayed]()
    for first in range(0, 11, batch):
        played += play(CountingBot("a"), CountingBot("b"), starts(11)[first : first + batch], rules)
    assert played == whole


def test_large_batches_are_asked_in_pieces_and_the_check_ends_them_between_two(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, whole = (
        SelfPlayRules(turns=4, seed=9),
        play(CountingBot("a"), CountingBot("b"), starts(11), SelfPlayRules(turns=4, seed=9)),
    )
    monkeypatch.setattr("refaug.extras.conversations.selfplay.playing._PIECE", 4)
    bot, checks = CountingBot("a"), list[int]()

    def check() -> None:
        checks.append(len(bot.seen))
        if len(checks) == 14:
            raise KeyboardInterrupt

    assert play(bot, CountingBot("b"), starts(11), rules, check) == whole
    assert checks == [0, 4, 8, 11, 11, 11, 11, 15, 19, 22, 22, 22]
    with pytest.raises(KeyboardInterrupt):
        play(bot, CountingBot("b"), starts(11), rules, check)
    assert (len(checks), len(bot.seen)) == (14, 22 + 4)


def test_seeds_numbers_and_turns_draw_differently() -> None:
    same = [SelfPlayStart(number=number, turns=("hello",)) for number in range(20)]
    replies = [
        conversation.replies[0]
        for seed in (1, 2)
        for conversation in play(CountingBot("a"), CountingBot("a"), same, SelfPlayRules(turns=1, seed=seed))
    ]
    assert len(set(replies)) == 40


def test_the_seed_of_a_turn_is_the_same_in_every_release() -> None:
    bot = CountingBot("a")
    play(bot, bot, starts(2), SelfPlayRules(turns=2, seed=9))
    assert bot.seeds == [0x2B5DD794, 0xC2934391, 0x1D8C12BD, 0x8293FB08]  # printf 9/NUMBER/TURN | b2sum -l 32


def test_published_rules_cut_and_punctuate_what_bots_see_and_not_the_record() -> None:
    long = " ".join(map(str, range(40)))
    bot = CountingBot("a", ends={f"{' '.join(map(str, range(30)))}.": BotReply(text="so many?")})
    (conversation,) = play(
        bot, bot, [SelfPlayStart(number=0, turns=(long,))], SelfPlayRules(turns=2, rules="published")
    )
    assert bot.seen[0] == (f"{' '.join(map(str, range(30)))}.",)
    assert conversation.replies[0] == "so many?"
    assert bot.seen[1][-1] == "so many?"


def test_a_conversation_ends_where_a_bot_has_no_reply_or_one_that_is_too_long() -> None:
    ends = {
        "start 1": BotReply(text=None, problem="no_known_word"),
        "start 2": BotReply(text="x" * (MAX_CHARACTERS + 1)),
        "start 3": BotReply(text="x" * MAX_CHARACTERS),
    }
    bot = CountingBot("a", ends=ends)
    played = play(bot, bot, starts(4), SelfPlayRules(turns=3))
    assert [(conversation.problem, len(conversation.turns)) for conversation in played] == [
        ("", 3),
        ("no_known_word", 0),
        ("too_long", 0),
        ("", 3),
    ]
    assert len(bot.seen) == 4 + 2 + 2


def test_conversations_that_cannot_be_had_are_refused() -> None:
    for options in ({"turns": 0}, {"turns": 1_001}, {"context": 0}):
        with pytest.raises(Usage):
            SelfPlayRules(**options)
