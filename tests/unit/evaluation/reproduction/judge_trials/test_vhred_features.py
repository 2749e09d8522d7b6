"""Features of replies by a VHRED: mutual information and cosines, against the network asked reply by reply."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proofs import TinyChain, tiny_chain, tiny_set
from vhreds import tiny_vhred

from refaug.core.artefacts.kinds import artefact_stores
from refaug.evaluation.home.vhreds import open_vhred
from refaug.evaluation.reproduction.judge_trials.vhred_features import (
    GOLD_COSINE,
    LIKELY,
    MUTUAL,
    TURNS_COSINE,
    VHRED_FEATURES,
    vhred_computations,
)
from refaug.rater.adem.vhred.artefact import save_vhred


@pytest.fixture
def chain(tmp_path: Path) -> TinyChain:
    chain, vhred = tiny_chain(tmp_path, encoder="tiny"), tiny_vhred(tmp_path)
    save_vhred(tmp_path / "saved", vhred.network, vhred.tokenizer, languages=["en"], report={}, details={})
    stored = artefact_stores(chain.home)["vhred"]
    stored.publish("tiny", stored.add("tiny", tmp_path / "saved"))
    return chain


def test_features_are_those_of_the_network(chain: TinyChain) -> None:
    rated_set = tiny_set("first", 1, items=4).with_first_gold()
    computed = vhred_computations(chain, [rated_set])
    assert tuple(computed) == VHRED_FEATURES
    lines = {name: compute().scores["first"][0] for name, compute in computed.items()}
    vhred = open_vhred(chain.home, "tiny", threads=1)
    for row, (number, reply) in enumerate(zip(rated_set.item.tolist(), rated_set.replies, strict=True)):
        item = rated_set.items[number]
        after, alone = vhred.log_likelihoods([item.turns, ()], [reply, reply])
        after, alone = np.maximum(after, -20), np.maximum(alone, -20)
        assert lines[LIKELY][row] == pytest.approx(after.mean(), rel=1e-5, abs=1e-5)
        assert lines[MUTUAL][row] == pytest.approx(after.mean() - alone.mean(), abs=5e-5)
        turns, gold, own = (
            vhred.encode([dialogue], state="context")[0]
            for dialogue in (item.turns, (item.references[0].text,), (reply,))
        )
        for name, other in ((TURNS_COSINE, turns), (GOLD_COSINE, gold)):
            expected = own @ other / (np.linalg.norm(own) * np.linalg.norm(other))
            assert lines[name][row] == pytest.approx(expected, abs=1e-5)
    assert f"{vhred.spec}" == chain.artefacts["vhred"]


def test_what_a_cosine_needs_may_be_missing(chain: TinyChain) -> None:
    rated_set = tiny_set("first", 1, items=4).without_golds()
    computed = vhred_computations(chain, [rated_set])
    assert np.isnan(computed[GOLD_COSINE]().scores["first"]).all()
    assert np.isfinite(computed[TURNS_COSINE]().scores["first"]).all()


def test_a_run_that_names_no_vhred_has_none_of_them(tmp_path: Path) -> None:
    assert vhred_computations(tiny_chain(tmp_path), []) == {}
