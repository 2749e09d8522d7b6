"""`reproduce metrics`: which lines its main table has, and which of them a home lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder
from proofs import tiny_chain, tiny_set

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.vectors.encoders import open_encoder
from refaug.extras.reproduction.figures.main_lines import BLEU, main_lines_of, ruber_metrics
from refaug.extras.reproduction.material.metric_lines import MetricLines
from refaug.extras.reproduction.material.reference_kinds import RATED
from refaug.metrics.embeddings import recommended
from refaug.metrics.embeddings.recommended import MetricCalibration
from refaug.scoring.home.encoders import import_encoder


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


def test_with_the_encoder_there_are_lines_of_the_gold_alone_and_of_refaug_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tiny_chain(tmp_path, ruber=False, encoder="tiny")
    folder = write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded())
    calibration = MetricCalibration(
        encoder=open_encoder(folder).name,
        most_like={"turn": 0.9, "turns": 0.9},
        drawn={"gold+retrieved": (2.4, 0.2), "gold": (1.5, 0.2), "retrieved": (2.6, 0.2)},
        link=(-1.0, 1.0),
        sha256="0" * 64,
    )
    monkeypatch.setattr(recommended, "own_calibration", lambda: calibration)
    import_encoder(artefact_stores(chain.home)["encoder"], chain.home.cache, "tiny", folder)
    one = tiny_set("first", 15).with_first_gold()

    found = main_lines_of(MetricLines(chain, [one]), [one])

    assert found.gaps == ("RUBER is missing: this run leaves it out",)
    gold, refaug = found.lines[-2:]
    assert (gold.name, refaug.name) == ("encoder and gold", "refaug-1")
    assert gold.scores["first"][0][~one.fair] == pytest.approx(1.0)  # these replies are their golds
    assert ((refaug.scores["first"] > 0) & (refaug.scores["first"] < 1)).all()
    assert len(np.unique(refaug.scores["first"])) > 20


def test_blends_with_further_references_are_known_by_their_names() -> None:
    further = [one.name for one in ruber_metrics() if one.kind == RATED]
    assert further == [f"RUBER + υBLEU, {blend}" for blend in ("min", "max", "arithmetic", "geometric")]
