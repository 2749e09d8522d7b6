"""Stored bots that reply on this machine: seeds, batches, repetition, fixed replies, spoilt replies."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexes import built, home_of, pairs_of
from safeguards import needs_extra

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.bots.stored.opening import StoredBotSources, draw_by_similarity, open_stored
from refaug.bots.stored.specification import StoredBot
from refaug.core.records import Item
from refaug.indexer.search.search_settings import SearchSettings

RESPONSES = ("at the market", "by the old mill", "from my aunt", "in the north", "near the station", "over the bridge")
WORDS = {"tea": (1.0, 0.0), "bread": (0.6, 0.8), "where": (0.8, 0.6)}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    pairs = pairs_of(*(("where tea", response) for response in RESPONSES))
    with built(home_of(tmp_path_factory.mktemp("home"), pairs, WORDS)) as opened:
        yield opened


def request(*turns: str, seed: int = 1) -> ReplyRequest:
    return ReplyRequest(item=Item(id="t", turns=turns), seed=seed)


def opened(fields: dict[str, Any], index: Any = None):
    return open_stored(StoredBot.of("mine", fields), StoredBotSources(open_index=lambda _: index))


def texts_of(bot: Any, *requests: ReplyRequest) -> list[str | None]:
    return [reply.text for reply in bot.replies(requests)]


def test_retrieval_gives_none_of_its_last_three_replies_again(index) -> None:
    bot = opened({"kind": "retrieval", "index": "chat", "mode": "embedding-utterance"}, index)
    turns = ["where tea"]
    for _ in range(8):
        (reply,) = texts_of(bot, request(*turns))
        own = turns[1::2][-3:]
        ranked = [
            reference.text for reference in index.search([request(*turns).item], SearchSettings(k=6))[0].references
        ]
        assert reply == next(text for text in ranked if text not in own)
        turns += [str(reply), "where tea"]
    assert not bot.is_random
    assert (
        bot.provenance["bot"]
        == StoredBot.of("mine", {"kind": "retrieval", "index": "chat", "mode": "embedding-utterance"}).spec
    )


@needs_extra("conversations")
@pytest.mark.parametrize("rules", ["plain", "published"])
def test_own_replies_count_also_where_self_play_cuts_what_bots_see(index, rules: Any) -> None:
    from refaug.extras.conversations.selfplay.playing import SelfPlayStart, play  # noqa: PLC0415
    from refaug.extras.conversations.selfplay.rules import SelfPlayRules  # noqa: PLC0415

    played_by = SelfPlayRules(turns=12, context=1, rules=rules)
    start = SelfPlayStart(number=0, turns=("where tea",))
    retrieving = opened({"kind": "retrieval", "index": "chat", "mode": "embedding-utterance"}, index)
    listed = opened({"kind": "replay", "replies": ["where tea", "tea", "where tea", "tea", "where", "tea where"]})
    (talk,) = play(retrieving, listed, [start], played_by)
    own = talk.replies[::2]
    assert len(own) == 6
    assert all(reply not in own[max(0, place - 3) : place] for place, reply in enumerate(own))
    assert talk.replies[1::2] == ["where tea", "tea", "where tea", "tea", "where", "tea where"]


def test_a_sampled_reply_depends_on_seed_and_turns_whatever_the_batch(index) -> None:
    bot = opened({"kind": "retrieval", "index": "chat", "pick": "sample(0.5,6)"}, index)
    requests = [request("where tea", seed=seed) for seed in range(60)]
    together = texts_of(bot, *requests)
    assert together == [texts_of(bot, single)[0] for single in requests]
    assert together[::-1] == texts_of(bot, *requests[::-1])
    assert set(together) == set(RESPONSES)
    assert bot.is_random


def test_draws_follow_the_softmax_of_the_similarities() -> None:
    similarities, temperature, draws = [0.9, 0.5, 0.1], 0.4, 20_000
    counts = Counter(draw_by_similarity(similarities, temperature, number) for number in range(draws))
    weights = [math.exp(similarity / temperature) for similarity in similarities]
    for place, weight in enumerate(weights):
        p = weight / sum(weights)
        assert abs(counts[place] - draws * p) < 4 * math.sqrt(draws * p * (1 - p))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(1e-3, 1e3), st.integers())
def test_draws_stay_within_the_candidates(similarities, temperature, seed) -> None:
    assert 0 <= draw_by_similarity(similarities, temperature, seed) < len(similarities)


def test_replay_gives_its_replies_in_order_and_says_when_there_are_no_more() -> None:
    bot = opened({"kind": "replay", "replies": ["first", "second"]})
    replies = bot.replies(
        [request("a"), request("a", "first", "b"), request("a", "first", "b", "second", "c"), request()]
    )
    assert replies == [
        BotReply(text="first"),
        BotReply(text="second"),
        BotReply(text=None, problem="no_more_replies"),
        BotReply(text=None, problem="no_utterance"),
    ]
    cycling = opened({"kind": "replay", "replies": ["first", "second"], "cycle": True})
    assert texts_of(cycling, request("a", "first", "b", "second", "c")) == ["first"]


def test_replay_draws_with_the_seed() -> None:
    bot = opened({"kind": "replay", "replies": ["x", "y", "z"], "pick": "sample"})
    drawn = texts_of(bot, *(request("a", seed=seed) for seed in range(40)))
    assert set(drawn) == {"x", "y", "z"}
    assert drawn == texts_of(bot, *(request("a", seed=seed) for seed in range(40)))


def test_a_degraded_bot_replaces_one_run_of_words_by_words_of_other_replies() -> None:
    text, pool = "one two three four five six", ["red green blue", "up down"]
    inner = {"kind": "replay", "replies": [text]}
    bot = opened({"kind": "degraded", "bot": inner, "share": 0.5, "pool": pool})
    own, strange = text.split(), {word for other in pool for word in other.split()}
    seen = set[str]()
    for seed in range(50):
        (reply,) = texts_of(bot, request("hello", seed=seed))
        words = str(reply).split()
        changed = [place for place, word in enumerate(words) if word != own[place]]
        assert len(words) == 6
        assert changed == list(range(changed[0], changed[0] + 3))
        assert {words[place] for place in changed} <= strange
        seen.add(str(reply))
    assert len(seen) > 5
    assert bot.is_random


def test_a_degraded_bot_leaves_missing_replies_missing() -> None:
    bot = opened({"kind": "degraded", "bot": {"kind": "replay", "replies": ["a b"]}, "pool": ["c d", "e f"]})
    assert bot.replies([request("x", "a b", "y")]) == [BotReply(text=None, problem="no_more_replies")]


def test_a_network_replies_under_the_name_of_its_bot() -> None:
    written = list[Any]()

    def generate(turns, settings, seeds, _held):
        written.append((turns, settings.method, settings.beams, seeds))
        return ["yes"] * len(turns)

    network = SimpleNamespace(
        config=SimpleNamespace(is_trained=True, conversation=0), spec="small@1#ab", generate=generate
    )
    stored = StoredBot.of("net", {"kind": "neural", "vhred": "small", "method": "beam", "beams": 7})
    bot = open_stored(stored, StoredBotSources(open_vhred=lambda _: network))  # type: ignore[arg-type,return-value]
    assert texts_of(bot, request("hello")) == ["yes"]
    assert written[0][:3] == ([("hello",)], "beam", 7)
    assert bot.provenance == {
        "kind": "vhred", "vhred": "small@1#ab", "method": "beam", "beams": "7", "max-tokens": "40", "bot": stored.spec
    }  # fmt: skip
