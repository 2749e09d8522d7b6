"""`reproduce metrics`: which lines its main table has, and which of them a home lacks."""

from __future__ import annotations

from pathlib import Path

from proofs import tiny_chain, tiny_set

from refaug.evaluation.reproduction.figures.main_lines import BLEU, main_lines_of, ruber_metrics
from refaug.evaluation.reproduction.material.metric_lines import MetricLines
from refaug.evaluation.reproduction.material.reference_kinds import RATED


def test_what_the_home_lacks_is_a_gap_with_what_helps(tmp_path: Path) -> None:
    chain = tiny_chain(tmp_path, ruber=False)
    one = tiny_set("first", 15)
    found = main_lines_of(MetricLines(chain, [one.with_first_gold()]), [one])
    assert found.gaps == (
        "RUBER is missing: this run leaves it out",
        "refaug-1 is missing: metric `refaug-1` needs the encoder all-minilm-l6-v2, and this home does not have it",
    )
    names = [line.name for line in found.lines]
    assert len(set(names)) == len(names)
    assert {"length", BLEU, "chrF, gold", "υBLEU, default", found.published, "υ-chrF", "greedy, gold"} < set(names)
    assert not [name for name in names if name.startswith("RUBER")]


def test_blends_with_further_references_are_known_by_their_names() -> None:
    further = [one.name for one in ruber_metrics() if one.kind == RATED]
    assert further == [f"RUBER + υBLEU, {blend}" for blend in ("min", "max", "arithmetic", "geometric")]
