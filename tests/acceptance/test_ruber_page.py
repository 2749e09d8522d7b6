"""The page about RUBER does what it shows, and its table is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from acceptance.examples import ROOT, run, whole

from refaug.rater.ruber.build import PRESETS, RuberOrder
from refaug.rater.ruber.network import RuberConfig
from refaug.rater.training.pair_corpus import LEAST_PAIRS

PAGE = ROOT / "docs" / "ruber.md"
SIZES = (ROOT / "docs" / "internals" / "networks.md").read_text("utf-8").split("Of a ruber:")[1]


@pytest.mark.slow
def test_every_example_of_the_page_gives_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(PAGE), tmp_path, monkeypatch, capfd)


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
