"""What is written of a part: how it was made stands beside the figures, and none of them in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
from proofs import tiny_chain, tiny_set
from refusals import refusing

from refaug.core.errors import Usage
from refaug.extras.reproduction.report.report import ExperimentReport, write_report

_REPORT = ExperimentReport(name="some", title="Some", summary=(), sections=(), data={"figures": {"x": 1}})


def test_how_it_was_made_stands_beside_the_figures(tmp_path: Path) -> None:
    one = tiny_set("first", 15)
    write_report(_REPORT, tiny_chain(tmp_path), [one], "refaug agreement reproduce some", tmp_path / "out")

    found = orjson.loads((tmp_path / "out" / "some.json").read_bytes())
    assert found["figures"] == {"x": 1}
    assert found["sets"]["first"]["data"] == one.data


def test_figures_do_not_take_the_place_of_how_they_were_made(tmp_path: Path) -> None:
    wrong = replace(_REPORT, data={"sets": {}})
    with refusing(Usage):
        write_report(wrong, tiny_chain(tmp_path), [], "refaug agreement reproduce some", tmp_path / "out")
