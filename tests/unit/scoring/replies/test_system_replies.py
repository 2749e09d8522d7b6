"""Bots as systems of items: what is added, kept, replaced and missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from refusals import refusing

from refaug.bots.replier import BotReply, ReplyRequest
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, Reference
from refaug.scoring.items import BadItem, item_json, item_of
from refaug.scoring.replies import AnsweredItem, BotSystem, ReplyRemarks, add_replies


@dataclass
class Echo:
    """Replies with the utterance and the seed; has nothing to say where there is none."""

    is_random: bool = True
    batches: list[int] = field(default_factory=list)
    provenance: Mapping[str, str] = field(default_factory=lambda: {"kind": "echo", "index": "a|b@1"})
    warnings: Sequence[str] = ()

    def replies(self, requests: Sequence[ReplyRequest]) -> list[BotReply]:
        self.batches.append(len(requests))
        return [
            BotReply(text=f"{request.item.utterance} {request.seed}")
            if request.item.utterance
            else BotReply(text=None, problem="no_utterance")
            for request in requests
        ]


def item(name: str, *turns: str, **more) -> Item:
    return Item(id=name, turns=turns, references=(Reference(text="gold"),), **more)


def test_every_bot_becomes_a_system_and_the_others_stay() -> None:
    systems = [BotSystem(name="e1", replier=Echo(), seed=1), BotSystem(name="e2", replier=Echo(False), seed=2)]
    given = item("a", "hi", replies={"human": "hello"}, ratings={"human": (4.0, None)}, provenance="k:3")
    bad = BadItem(file="f", line=2, item=None, field="", message="no")
    first, second, third = add_replies([given, bad, item("b", "so", "oh")], systems)
    assert second is bad
    assert isinstance(first, AnsweredItem)
    assert isinstance(third, AnsweredItem)
    assert first.item.replies == {"human": "hello", "e1": "hi 1", "e2": "hi 2"}
    assert first.item.reply_provenance == {
        "e1": "kind:echo|index:a%7Cb@1|seed:1",
        "e2": "kind:echo|index:a%7Cb@1",
    }
    assert (first.item.ratings, first.item.provenance) == (given.ratings, "k:3")
    own = replace(first.item, replies=given.replies, reply_provenance=given.reply_provenance)
    assert (own, first.missing, first.dropped_ratings) == (given, {}, ())
    assert third.item.replies == {"e1": "oh 1", "e2": "oh 2"}
    again = item_of(item_json(first.item), fallback_id="")
    assert (again.replies, again.reply_provenance) == (first.item.replies, first.item.reply_provenance)


def test_bots_reply_in_batches_and_items_come_one_by_one() -> None:
    echo = Echo()
    answered = add_replies(
        (item(str(number), "hi") for number in range(450)), [BotSystem(name="e", replier=echo, seed=1)]
    )
    next(answered)
    assert echo.batches == [200]
    assert len(list(answered)) == 449
    assert echo.batches == [200, 200, 50]


def test_a_reply_that_is_missing_is_never_an_empty_one() -> None:
    systems = [BotSystem(name="e", replier=Echo(), seed=1)]
    old = item("a", replies={"e": "old", "f": "other"}, reply_provenance={"e": "kind:echo", "f": "kind:x"})
    (answered,) = add_replies([old], systems, replace_systems=True)
    assert answered.item.replies == {"f": "other"}
    assert answered.item.reply_provenance == {"f": "kind:x"}
    assert answered.missing == {"e": "no_utterance"}


def test_a_clash_of_names_is_refused_unless_the_system_is_replaced() -> None:
    systems = [BotSystem(name="e", replier=Echo(), seed=1)]
    old = item("a", "hi", replies={"e": "old", "f": "other"}, ratings={"e": (1.0,), "f": (2.0,)})
    with refusing(BadInput, "replies.e"):
        list(add_replies([old], systems))
    (answered,) = add_replies([old], systems, replace_systems=True)
    assert answered.item.replies == {"f": "other", "e": "hi 1"}
    assert answered.item.ratings == {"f": (2.0,)}
    assert answered.dropped_ratings == ("e",)
    with refusing(Usage):
        list(add_replies([], systems * 2, replace_systems=True))


def test_many_missing_replies_are_counted_by_reason() -> None:
    remarks = ReplyRemarks()
    for number in range(9):
        item = Item(id=f"i{number}", turns=("a",))
        remarks.add(
            AnsweredItem(
                item=item,
                missing={"mine": "timeout" if number % 3 else "refusal"},
                dropped_ratings=(),
                replies={},
            )
        )
    assert list(remarks.warnings)[1:] == ["mine without a reply, by reason: timeout 6, refusal 3"]
