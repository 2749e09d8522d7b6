"""The tables of the page about frozen sets are those of the code."""

from __future__ import annotations

import re
from dataclasses import fields

from acceptance.examples import ROOT

from refaug.scoring.cases import ENOUGH
from refaug.scoring.reference_sets.derivation import Derivation
from refaug.scoring.reference_sets.reference_set import Purpose
from refaug.scoring.reference_sets.set_store import LEAST_PREFIX

PAGE = ROOT / "docs" / "sets.md"
TEXT = PAGE.read_text("utf-8")


def first_cells(heading: str) -> list[str]:
    """The names in the first column of the table under a heading."""
    found = re.search(rf"^## {heading}$.*?^\|[^\n]*\|\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)*)", TEXT, re.M | re.S)
    assert found is not None
    return [name for line in found[1].splitlines() for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_the_page_has_everything_that_can_be_derived() -> None:
    options = {
        "weights": "--reference-weights",
        "parrot": "--parrot",
        "gold": "--gold",
        "k": "-k",
        "people": "--people",
    }
    assert first_cells("Other weights") == [options[field.name] for field in fields(Derivation)]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert (LEAST_PREFIX, ENOUGH) == (6, 3)
    assert "the first six characters are enough" in TEXT
    assert "fewer than three references beside the gold" in TEXT
    assert all(f"`{one}`" in TEXT for one in Purpose)
