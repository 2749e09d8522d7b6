"""The bot that writes replies with a VHCR: how it holds the variable of a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing
from vhreds import SENTENCES, tiny_vhred

from refaug.bots.generation import GeneratingBot
from refaug.bots.kinds import parse_bot
from refaug.bots.replier import ReplyRequest
from refaug.bots.stored.specification_fields import neural_specification
from refaug.core.errors import Usage
from refaug.core.records import Item


def bot(folder: Path, settings: str = "", **sizes: object) -> GeneratingBot:
    return GeneratingBot.of(parse_bot(f"vhred:tiny{settings}"), tiny_vhred(folder, **sizes))


def request(*turns: str, seed: int = 1, begun: tuple[tuple[str, ...], int] | None = None) -> ReplyRequest:
    return ReplyRequest(item=Item(id="1", turns=turns), seed=seed, begun=begun)


def test_what_holds_the_variable_is_the_first_turn_unless_the_request_says_more(tmp_path: Path) -> None:
    replier = bot(tmp_path, ",method=sample,max-tokens=8", conversation=4)
    long, opening = tuple(SENTENCES[:5]), tuple(SENTENCES[:1])
    told, cut = request(*long, seed=5, begun=(opening, 5)), request(*long[-3:], seed=5, begun=(opening, 5))
    of_long, of_told, of_cut = replier.replies([request(*long, seed=5), told, cut])
    assert of_long == of_told
    assert of_long != of_cut  # its other draws are those of the turns it is given
    began = tuple(SENTENCES[:4])  # of which the first is the bot's own
    of_began, with_nothing = replier.replies([request(*began, seed=5), request(*began, seed=5, begun=((), 5))])
    assert of_began == with_nothing
    others = [replier.replies([request(*long, seed=5, begun=(opening, seed))])[0].text for seed in range(9)]
    assert len(set(others)) > 1
    openings = replier.openings([request("", seed=seed, begun=((), 3)) for seed in (1, 1, 2)])
    assert openings[0] == openings[1]


@pytest.mark.parametrize("way", ["held", "each-reply"])
def test_the_provenance_says_how_the_variable_is_chosen(tmp_path: Path, way: str) -> None:
    assert bot(tmp_path, f",conversation={way}", conversation=4).provenance["conversation"] == way
    assert bot(tmp_path, conversation=4).provenance["conversation"] == "held"
    assert "conversation" not in bot(tmp_path).provenance


def test_a_variable_that_a_network_does_not_have_is_refused(tmp_path: Path) -> None:
    with refusing(Usage, "conversation"):
        bot(tmp_path, ",conversation=held")
    with refusing(Usage, "conversation=new"):
        parse_bot("vhred:tiny,conversation=new")


def test_a_stored_bot_says_how_its_variable_is_chosen() -> None:
    fields = {"vhred": "tiny", "method": "sample", "conversation": "each-reply"}
    assert str(neural_specification(fields, "here")) == "vhred:tiny,method=sample,conversation=each-reply"
