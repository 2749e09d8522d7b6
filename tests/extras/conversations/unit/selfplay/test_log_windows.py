"""Windows of replies in a log, compared with a search through all dialogues turn by turn."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from indexes import add_to_log
from plain_search import RawPair

from refaug.extras.conversations.selfplay import log_windows
from refaug.extras.conversations.selfplay.log_windows import count_in_log
from refaug.indexer.index_folders import Places
from refaug.logs.store import StoredLog

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = ("yes", "no", "why", "who", "tea", "Tea", "お茶", "")


def stored(folder: Path, dialogues: list[list[str]]) -> StoredLog:
    """A log of dialogues; the pairs of every second one lie in a second part, in reverse."""
    pairs = [
        [
            RawPair("chat", f"d{number}", str(place), dialogue[place - 1], dialogue[place], START)
            for place in range(1, len(dialogue))
        ]
        for number, dialogue in enumerate(dialogues)
    ]
    home = Places.under(folder)
    add_to_log(home, "chat", [pair for of_dialogue in pairs[::2] for pair in of_dialogue])
    add_to_log(home, "chat", [pair for of_dialogue in pairs[1::2] for pair in reversed(of_dialogue)])
    return StoredLog.open(home.logs, "chat")


def conversations_in_log(
    log: StoredLog, conversations: list[list[str]], windows: tuple[int, ...], scratch: Path
) -> dict[int, set[int]]:
    """The conversations, by number, that have a window of the log: each counts as those of a bot."""
    counted = count_in_log(log, ((str(number), turns) for number, turns in enumerate(conversations)), windows, scratch)
    return {window: {int(bot) for bot, of_bot in counted.items() if of_bot.overlapping[window]} for window in windows}


def windows_of(turns: list[str], window: int) -> set[tuple[str, ...]]:
    return {tuple(turns[first : first + window]) for first in range(len(turns) - window + 1)}


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_a_search_through_all_dialogues(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    dialogues = [rng.choices(TEXTS, k=rng.randint(2, 7)) for _ in range(40)]
    conversations = [rng.choices(TEXTS, k=rng.randint(0, 8)) for _ in range(60)]
    present = conversations_in_log(stored(tmp_path, dialogues), conversations, (2, 3, 5), tmp_path / "scratch")
    for window in (2, 3, 5):
        logged = set().union(*(windows_of(dialogue, window) for dialogue in dialogues))
        expected = {number for number, turns in enumerate(conversations) if windows_of(turns, window) & logged}
        assert present[window] == expected
    assert 0 < len(present[3]) < len(conversations)


def test_a_planted_leak_is_seen_and_a_turn_that_comes_twice_joins_nothing(tmp_path: Path) -> None:
    log = stored(tmp_path, [["a", "b", "c", "b", "d"], ["e", "f", "g"]])
    conversations = [["x", "e", "f", "g"], ["a", "b", "d"], ["x", "y"], []]
    assert conversations_in_log(log, conversations, (2, 3), tmp_path / "scratch") == {2: {0, 1}, 3: {0}}


def test_replies_that_are_too_few_for_any_window(tmp_path: Path) -> None:
    log = stored(tmp_path, [["a", "b"], ["c", "d"]])
    assert conversations_in_log(log, [["a"], []], (2, 3), tmp_path / "scratch") == {2: set(), 3: set()}


def trees(folder: Path, *pairs: tuple[str, str, str, str]) -> StoredLog:
    """A log of message trees: dialogue, name of the reply, texts of both."""
    home = Places.under(folder)
    raw = [RawPair("chat", *pair, START) for pair in pairs]
    add_to_log(home, "chat", raw)
    return StoredLog.open(home.logs, "chat")


def test_windows_of_message_trees_do_not_cross_branches(tmp_path: Path) -> None:
    log = trees(
        tmp_path,
        ("t1", "message-2", "a", "b"),
        ("t1", "message-3", "b", "c"),  # a chain: a, b, c
        ("t2", "message-5", "d", "e"),
        ("t2", "message-6", "x", "e"),  # e stands twice: whose reply f is cannot be said
        ("t2", "message-7", "e", "f"),
        ("t3", "12", "g", "h"),
        ("t3", "15", "h", "i"),  # numbers that do not follow each other
    )
    conversations = [["a", "b", "c"], ["d", "e", "f"], ["x", "e", "f"], ["g", "h", "i"]]
    assert conversations_in_log(log, conversations, (2, 3), tmp_path / "scratch") == {2: {0, 1, 2, 3}, 3: {0}}


@pytest.mark.parametrize("replies", [1, 7, 1000])
def test_blocks_of_any_size_count_the_same(tmp_path: Path, replies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(3)
    dialogues = [rng.choices(TEXTS, k=rng.randint(2, 7)) for _ in range(40)]
    conversations = [(rng.choice("ab"), rng.choices(TEXTS, k=rng.randint(0, 8))) for _ in range(60)]
    log = stored(tmp_path, dialogues)
    whole = conversations_in_log(log, [turns for _, turns in conversations], (2, 3, 5), tmp_path / "scratch")
    monkeypatch.setattr(log_windows, "MOST_REPLIES", replies)
    counted = count_in_log(log, conversations, (2, 3, 5), tmp_path / "scratch")
    for bot, overlap in counted.items():
        of_bot = {number for number, (name, _) in enumerate(conversations) if name == bot}
        assert overlap.conversations == len(of_bot)
        assert {w: overlap.overlapping[w] for w in whole} == {w: len(found & of_bot) for w, found in whole.items()}
