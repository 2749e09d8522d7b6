"""The tables of the page about bots are those of the code."""

from __future__ import annotations

import re

from acceptance.examples import ROOT

from refaug.bots.generation import NOTHING_GENERATED
from refaug.bots.kinds import KINDS
from refaug.bots.retrieval import NOTHING_RETRIEVED, search_settings
from refaug.bots.specification import DEFAULT_SEED, SEED, STORED, BotSpecification

PAGE = ROOT / "docs" / "bots.md"


def first_cells(heading: str) -> list[str]:
    """The inline code in the first cells of the tables below a heading, up to the next one."""
    text = PAGE.read_text("utf-8").split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_the_page_has_the_kinds_the_keys_and_their_defaults() -> None:
    assert sorted(first_cells("What a bot is")) == sorted(
        key for name, kind in KINDS.items() if name != STORED for key in (*kind.keys, SEED)
    )
    text = PAGE.read_text("utf-8")
    assert "There are three kinds. `retrieval`" in text
    assert list(KINDS) == ["retrieval", "vhred", STORED]
    settings = search_settings(BotSpecification(kind="retrieval", source="chat"))
    assert f"(indexes.md#modes) | `{settings.mode}` |" in text
    assert f"with the same probability | {settings.k}: the best one |" in text
    assert f"| the seed of the draw | {DEFAULT_SEED} |" in text


def test_the_page_has_the_reasons_for_no_reply() -> None:
    assert first_cells("Items without a reply") == [
        "no_utterance",
        "no_gold",
        "no_known_word",
        NOTHING_RETRIEVED,
        NOTHING_GENERATED,
    ]
