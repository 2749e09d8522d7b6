"""The table of the page about RUBER is that of the code."""

from __future__ import annotations

import re

from acceptance.examples import ROOT

from refaug.rater.ruber.build import PRESETS, RuberOrder
from refaug.rater.ruber.network import RuberConfig
from refaug.rater.training.pair_corpus import LEAST_PAIRS

PAGE = ROOT / "docs" / "ruber.md"
SIZES = (ROOT / "docs" / "internals" / "networks.md").read_text("utf-8").split("Of a ruber:")[1]


def test_the_presets_are_those_of_the_code() -> None:
    found = re.search(r"^\| preset [^\n]*\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)*)", SIZES, re.MULTILINE)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
    assert {row[0].strip("`"): tuple(row[1:7]) for row in rows} == {
        name: (
            str(one.embedding),
            f"{one.hidden} each way",
            f"{one.layers} × {one.width}",
            f"{one.pieces:,}",
            f"{one.batch:,}",
            one.start,
        )
        for name, one in PRESETS.items()
    }


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    assert f"logs of less than {LEAST_PAIRS} pairs" in text
    assert f"Δ is {RuberOrder(name='some', logs=('some',)).margin}," in SIZES
    assert RuberConfig().readers == 1
    assert f"{PRESETS['base'].dropout} of an embedding's numbers are left out in every batch of `base`" in SIZES
