"""The tables of the page about raters are those of the code."""

from __future__ import annotations

import re

from acceptance.examples import ROOT

from refaug.rater.nn.build import PRESETS
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating_settings import COMBINES
from refaug.rater.training.corpus import LEAST_UTTERANCES
from refaug.rater.training.loop import TrainConfig

PAGE = ROOT / "docs" / "raters.md"


def rows(start: str) -> list[list[str]]:
    """The body of the first table after some text of the page."""
    found = re.search(r"^\|[^\n]*\|\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)*)", PAGE.read_text("utf-8").split(start, 1)[1], re.M)
    assert found is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]


def test_the_presets_are_those_of_the_code() -> None:
    layers = RaterConfig().layers
    shown = {row[0].strip("`"): tuple(row[1:8]) for row in rows("## The network")}
    assert shown == {
        name: (
            str(one.embedding),
            f"{one.hidden} each way",
            f"{layers} × {one.width}",
            {"texts": "texts", "products": "texts and products"}[one.features],
            f"{one.pieces:,}",
            f"{one.batch:,}",
            {"random": "random numbers", "vectors": "vectors"}[one.start],
        )
        for name, one in PRESETS.items()
    }


def test_the_ways_to_combine_are_those_of_the_code() -> None:
    assert [row[0].strip("`") for row in rows("<!-- combines -->")] == list(COMBINES)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    defaults = TrainConfig()
    assert f"Below {LEAST_UTTERANCES} such utterances" in text
    paper, base, small = (PRESETS[name] for name in ("paper", "base", "small"))
    assert paper.epochs == defaults.epochs
    assert base.epochs == small.epochs
    assert f"at most {paper.epochs} epochs (`paper`) or {base.epochs}" in text
    assert f"`base` leaves out {base.dropout} of an embedding's numbers" in text
    assert (paper.dropout, small.dropout) == (0, 0)
    assert (paper.decay, base.decay, small.decay) == ("none", "linear", "linear")
    assert f"written every {defaults.save_every} batches" in text
    assert f"{RaterConfig().max_tokens} pieces of a text" in text
