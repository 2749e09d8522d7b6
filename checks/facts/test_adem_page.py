"""The tables of the page about ADEM are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from acceptance.examples import ROOT

from refaug.extras.judges.metrics.likelihood import LEAST, MOST_INFORMATION
from refaug.metrics.catalogue import METRICS
from refaug.metrics.parameters import Choice
from refaug.rater.adem.pretraining.dialogues import LEAST_DIALOGUES
from refaug.rater.adem.vhred.sizes import PRESETS

PAGE = ROOT / "docs" / "adem.md"
SIZES = ROOT / "docs" / "internals" / "networks.md"


def table(title: str, page: Path = PAGE) -> list[list[str]]:
    match = re.search(rf"^\| {title} [^\n]*\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)*)", page.read_text("utf-8"), re.MULTILINE)
    assert match is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines()]


def test_the_presets_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): tuple(row[1:8]) for row in table("preset", SIZES)} == {
        name: (
            *(str(sizes.embedding), f"2 × {sizes.utterance:,}", f"{sizes.context:,}", str(sizes.latent)),
            *(f"{sizes.decoder:,}", f"{sizes.pieces:,}", str(sizes.batch)),
        )
        for name, sizes in PRESETS.items()
    }


def test_the_kinds_of_likelihood_are_those_of_the_code() -> None:
    parameter = METRICS["likelihood"].parameter("kind")
    assert isinstance(parameter, Choice)
    rows = {row[0].strip("`"): (float(row[2].replace("−", "-")), float(row[3])) for row in table("kind")}
    assert tuple(rows) == parameter.choices
    assert {kind: least for kind, (least, _) in rows.items()} == dict(LEAST)
    assert rows["pmi"][1] == MOST_INFORMATION


def test_the_least_log_is_that_of_the_code() -> None:
    assert f"a log without {LEAST_DIALOGUES} dialogues" in PAGE.read_text("utf-8")
