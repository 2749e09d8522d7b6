"""Self-play as an artefact: the same bytes at any batch, after a stop, and errors where a bot cannot begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest
from refusals import refusing
from told import Told

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.core.errors import BadInput, Corrupt, NoSource, Usage
from refaug.core.home import Settings
from refaug.extras.conversations.selfplay.check import check_self_play, is_looping
from refaug.extras.conversations.selfplay.recording import PlayingBot, RecordedSelfPlay, SelfPlayOrder, record_self_play
from refaug.extras.conversations.selfplay.rules import SelfPlayRules
from refaug.extras.conversations.selfplay.starts import read_starts
from refaug.extras.conversations.selfplay.stored import CONVERSATIONS, open_self_play, self_play_versions


class Stopped(Exception):
    """What stops a test's bot."""


@dataclass
class EchoBot:
    """A bot that replies with its name and the last word, and stops after so many requests."""

    name: str
    stops_after: int | None = None
    answered: int = 0
    silent: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)
    is_random: bool = True
    warnings: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        self.answered += len(requests)
        if self.stops_after is not None and self.answered > self.stops_after:
            raise Stopped
        if self.silent:
            return [BotReply(text=None, problem="timeout") for _ in requests]
        return [
            BotReply(text=f"{self.name} {request.seed % 7} you said {request.item.utterance}") for request in requests
        ]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def order_of(settings: Settings, *bots: EchoBot, count: int = 9, **rules: int) -> SelfPlayOrder:
    playing = [PlayingBot(name=bot.name, replier=bot) for bot in bots]
    return SelfPlayOrder(
        bots=playing,
        partner=None,
        start="empty",
        starts=read_starts(settings, "empty", count, 1),
        rules=SelfPlayRules(**{"turns": 4, **rules}),
    )


def bytes_of(settings: Settings, recorded: RecordedSelfPlay, name: str = "pair") -> bytes:
    return (self_play_versions(settings).folder(name, recorded.version) / CONVERSATIONS).read_bytes()


def test_the_same_bytes_and_id_at_any_batch(settings: Settings) -> None:
    orders = [order_of(settings, EchoBot("a"), EchoBot("b")) for _ in range(3)]
    recorded = [
        record_self_play(settings, "pair", order, batch=size) for order, size in zip(orders, (1, 4, 99), strict=True)
    ]
    assert len({bytes_of(settings, each) for each in recorded}) == 1
    with open_self_play(settings, "pair") as played:
        assert played.bots == ["a", "b"]
        assert [conversation.id for conversation in played.conversations()] == [
            f"{bot}/{n}" for bot in "ab" for n in range(9)
        ]
        assert all(len(conversation.replies) == 4 for conversation in played.conversations())
        spec = played.spec
    with open_self_play(settings, f"pair@{recorded[0].version}") as played:
        assert played.spec.partition("#")[2] == spec.partition("#")[2]


@pytest.mark.parametrize("stops_after", [0, 5, 8, 20, 35])
def test_what_was_stopped_goes_on_to_the_same_bytes(settings: Settings, stops_after: int) -> None:
    whole = bytes_of(
        settings, record_self_play(settings, "pair", order_of(settings, EchoBot("a"), EchoBot("b")), batch=2)
    )
    with pytest.raises(Stopped):
        record_self_play(settings, "again", order_of(settings, EchoBot("a", stops_after), EchoBot("b", 0)), batch=2)
    with (settings.cache / "self-play-again" / CONVERSATIONS).open("ab") as file:
        file.write(b'{"id": "a/')  # a line that a crash cut off
    resumed = record_self_play(settings, "again", order_of(settings, EchoBot("a"), EchoBot("b")), batch=3)
    assert resumed.resumed_at == min(stops_after // 8 * 2, 9)
    assert bytes_of(settings, resumed, "again") == whole
    assert not (settings.cache / "self-play-again").exists()


def test_a_cancelled_self_play_ends_between_two_turns_and_keeps_whole_conversations(settings: Settings) -> None:
    class Cancelled(Told):
        def advance(self, amount: int) -> None:
            super().advance(amount)
            if self.done and not amount:
                raise KeyboardInterrupt  # in the first turn of the second batch

    bot = EchoBot("a")
    with pytest.raises(KeyboardInterrupt):
        record_self_play(settings, "again", order_of(settings, bot), batch=4, progress=Cancelled())
    assert bot.answered == 4 * 4
    resumed = record_self_play(settings, "again", order_of(settings, EchoBot("a")), batch=4)
    assert resumed.resumed_at == 4


def test_another_plan_begins_anew_and_says_so(settings: Settings) -> None:
    with pytest.raises(Stopped):
        record_self_play(settings, "pair", order_of(settings, EchoBot("a", 8)), batch=2)
    changed = EchoBot("a", provenance={"bot": "a#2"})
    progress = Told()
    recorded = record_self_play(settings, "pair", order_of(settings, changed), progress=progress)
    assert recorded.resumed_at == 0
    assert len(progress.warnings) == 1
    assert bytes_of(settings, recorded).count(b"\n") == 9


def test_a_partner_has_every_second_turn(settings: Settings) -> None:
    order = replace(order_of(settings, EchoBot("a")), partner=PlayingBot(name="p", replier=EchoBot("p")))
    lines = bytes_of(settings, record_self_play(settings, "pair", order)).splitlines()
    turns = orjson.loads(lines[0])["turns"]
    assert [turn["role"] for turn in turns] == ["bot", "partner", "bot", "partner"]
    assert [turn["text"][0] for turn in turns] == ["a", "p", "a", "p"]


def test_bots_none_of_which_answers_are_refused_with_their_reasons(settings: Settings) -> None:
    silent = (EchoBot("a", silent=True), EchoBot("b", silent=True))
    with refusing(BadInput) as refused:
        record_self_play(settings, "pair", order_of(settings, *silent))
    assert refused.value.remedy.startswith("what refaug bots try a")  # another start would not help
    assert self_play_versions(settings).names() == []
    recorded = record_self_play(settings, "pair", order_of(settings, EchoBot("a"), EchoBot("b")))
    assert (recorded.resumed_at, recorded.problems) == (0, {"a": {}, "b": {}})  # bots that were down are asked again


def test_a_bot_that_never_answers_is_named_and_asked_again_while_others_have_played(settings: Settings) -> None:
    whole = bytes_of(
        settings, record_self_play(settings, "whole", order_of(settings, EchoBot("a"), EchoBot("b"))), "whole"
    )
    first = record_self_play(settings, "pair", order_of(settings, EchoBot("a"), EchoBot("b", silent=True)))
    assert first.problems == {"a": {}, "b": {"timeout": 9}}
    assert list(first.silent) == ["b"]
    assert first.silent["b"].startswith("b has no reply to any start: timeout (9); the other bots have played. what ")
    assert first.silent["b"].endswith("then the same order with --retry plays its part")
    assert bytes_of(settings, first).splitlines()[:9] == whole.splitlines()[:9]
    with open_self_play(settings, "pair") as played:
        checks = check_self_play(played, None, scratch=settings.cache)
    assert [(check.bot, check.conversations, check.ended_early) for check in checks] == [("a", 9, 0), ("b", 9, 9)]
    assert checks[1].words_by_turn == []
    played_already = EchoBot("a")
    order = replace(order_of(settings, played_already, EchoBot("b")), start="the same, written otherwise")
    again = record_self_play(settings, "pair", order, retries_faults=True)
    assert (played_already.answered, again.played_again, again.silent) == (0, 9, {})
    assert bytes_of(settings, again) == whole


def test_altered_conversations_are_refused(settings: Settings) -> None:
    recorded = record_self_play(settings, "pair", order_of(settings, EchoBot("a")))
    path = self_play_versions(settings).folder("pair", recorded.version) / CONVERSATIONS
    path.write_bytes(path.read_bytes().replace(b"you said", b"I  heard", 1))
    with pytest.raises(Corrupt), open_self_play(settings, "pair"):
        pass


def test_bots_come_once(settings: Settings) -> None:
    with refusing(Usage):
        order_of(settings, EchoBot("a"), EchoBot("a"))
    with refusing(Usage):
        order_of(settings)


def test_starts_of_a_file_are_drawn_without_replacement(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "starts.txt"
    path.write_bytes("\ufeffone\n\n two \r\nthr\u2028e\x0be\n".encode())
    starts = list(read_starts(settings, f"file:{path}", 6, 1))
    texts = [start.turns[0] for start in starts]
    assert sorted(texts[:3]) == ["one", "thr\u2028e\x0be", "two"]
    assert texts[3:] == texts[:3]
    assert list(read_starts(settings, f"file:{path}", 6, 1)) == starts
    assert [start.number for start in starts] == list(range(6))


def test_starts_that_cannot_be_read(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n \n", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "long.txt").write_text(f"ok\n{'x' * 20_001}\n", encoding="utf-8")
    for name, kind in (("blank", BadInput), ("latin", BadInput), ("long", BadInput), ("none", NoSource)):
        with refusing(kind, name):
            read_starts(settings, f"file:{tmp_path / name}.txt", 1, 1)
    for start in ("file:", "log:", "nothing", ""):
        with pytest.raises(Usage):
            read_starts(settings, start, 1, 1)


@dataclass
class ListBot(EchoBot):
    """A bot that always replies with the next text of its list; it counts the turns that it sees."""

    texts: Sequence[str] = ()

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        return [BotReply(text=self.texts[len(request.item.turns) - 1]) for request in requests]


def test_figures_of_a_bot_that_loops(settings: Settings) -> None:
    loop = ListBot("loop", texts=("a b", "c", "a b", "c"))
    record_self_play(settings, "pair", order_of(settings, loop, EchoBot("b"), count=4))
    with open_self_play(settings, "pair") as played:
        looping, echo = check_self_play(played, None, scratch=settings.cache)
    assert looping.looping == 1
    assert looping.repeated == 0.5
    assert (looping.distinct_1, looping.distinct_2) == (3 / 24, 1 / 8)
    assert looping.words_by_turn == [2, 1, 2, 1]
    assert [(overlap.window, overlap.overlapping, overlap.possible) for overlap in looping.among] == [
        (2, 6, 6),
        (3, 6, 6),
        (5, 0, 6),
    ]
    assert (echo.bot, echo.looping, echo.with_log) == ("b", 0, [])


def test_figures_of_a_bot_leave_its_partner_out(settings: Settings) -> None:
    partner = PlayingBot(name="p", replier=ListBot("p", texts=("", "Yes.", "", "Yes.")))
    record_self_play(settings, "pair", replace(order_of(settings, EchoBot("a"), count=4), partner=partner))
    with open_self_play(settings, "pair") as played:
        (check,) = check_self_play(played, None, scratch=settings.cache)
        assert [talk.replies[1::2] for talk in played.conversations()] == [("Yes.", "Yes.")] * 4
    assert (check.repeated, check.words_by_turn) == (0, [4, 6])


def test_looping_is_one_text_or_two_in_turn() -> None:
    assert [is_looping(replies) for replies in ("abab", "xaaaa", "abba", "aaa", "", "abcabc")] == [
        True,
        True,
        *[False] * 4,
    ]


@dataclass
class FaultyBot(EchoBot):
    """A bot whose requests end with a fault at some turns, as long as `is_down`."""

    is_down: bool = True
    fault: str = "timeout"

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        replies = super().replies(requests)
        return [
            BotReply(text=None, problem=self.fault) if self.is_down and request.seed % 5 == 0 else reply
            for request, reply in zip(requests, replies, strict=True)
        ]


def test_what_a_fault_ended_is_played_on_to_the_bytes_without_it(settings: Settings) -> None:
    whole = bytes_of(
        settings, record_self_play(settings, "whole", order_of(settings, EchoBot("a"), EchoBot("b"))), "whole"
    )
    bots = FaultyBot("a"), FaultyBot("b")
    first = record_self_play(settings, "pair", order_of(settings, *bots), batch=4)
    ended = sum(sum(reasons.values()) for reasons in first.problems.values())
    assert 0 < ended < 18
    for bot in bots:
        bot.is_down, bot.answered = False, 0
    again = record_self_play(settings, "pair", order_of(settings, *bots), batch=4, retries_faults=True)
    assert (again.resumed_at, again.played_again) == (18, ended)
    assert again.problems == {"a": {}, "b": {}}
    assert bytes_of(settings, again) == whole
    assert sum(bot.answered for bot in bots) < 4 * ended + 1  # only the turns that were missing
    assert [figures["replies"] for figures in again.latency.values() if figures] == [36, 36]


def test_a_run_that_was_stopped_plays_faults_on_by_itself_and_lasting_ones_stay(settings: Settings) -> None:
    bot = FaultyBot("a", stops_after=20)
    with pytest.raises(Stopped):
        record_self_play(settings, "pair", order_of(settings, bot), batch=2)
    resumed = record_self_play(settings, "pair", order_of(settings, EchoBot("a")))
    assert resumed.played_again > 0
    assert resumed.problems == {"a": {}}
    lasting = FaultyBot("a", fault="rejected")
    first = record_self_play(settings, "other", order_of(settings, lasting))
    again = record_self_play(settings, "other", order_of(settings, EchoBot("a")), retries_faults=True)
    assert (again.played_again, again.problems) == (0, first.problems)


def test_another_order_has_nothing_to_play_on(settings: Settings) -> None:
    record_self_play(settings, "pair", order_of(settings, FaultyBot("a")))
    progress = Told()
    order = order_of(settings, EchoBot("a"), turns=3)
    recorded = record_self_play(settings, "pair", order, retries_faults=True, progress=progress)
    assert (recorded.resumed_at, recorded.problems) == (0, {"a": {}})
    assert "no version of the same bots" in progress.warnings[0]
