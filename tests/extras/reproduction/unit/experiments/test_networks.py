"""The comparison of networks in small: variants and their orders, intervals over seeds, self-play, the whole report."""

from __future__ import annotations

import gzip
import math
import random
from pathlib import Path

import numpy as np
import orjson
import pytest
from encoders import write_bag_of_words
from proofs import TEXTS, TinyChain, tiny_chain, write_log
from scipy import stats

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound
from refaug.extras.conversations.hybrid_metric.encoders import open_encoders
from refaug.extras.conversations.hybrid_metric.fit import ColumnWeights
from refaug.extras.conversations.options import EncoderRequest
from refaug.extras.reproduction.experiments.hybrid import STUDY
from refaug.extras.reproduction.experiments.networks import compare_networks, over_seeds
from refaug.extras.reproduction.networks.talk import PeopleFit, SelfTalk
from refaug.extras.reproduction.networks.variants import (
    CONTROLS,
    SIX,
    VARIANTS,
    TrainingPlan,
    is_trained,
    train_variant,
)
from refaug.scoring.home.encoders import import_encoder

PLAN = TrainingPlan(batch=4, round_steps=2, conversations=3)


def test_the_six_networks_come_before_ablations_and_controls() -> None:
    assert [variant.name for variant in VARIANTS] == [
        "HRED",
        "HRED EI",
        "VHRED",
        "VHRED EI",
        "VHCR",
        "VHCR EI",
        "VHRED emotion",
        "VHRED meaning",
        "VHRED input only",
        "VHRED shuffled emotion",
        "VHRED drawn meaning",
    ]
    assert VARIANTS[:6] == SIX


def test_intervals_over_seeds_are_those_of_student() -> None:
    estimate = over_seeds([3.0, 5.0, 7.0])
    low, high = stats.t.interval(0.95, 2, loc=5.0, scale=2.0 / math.sqrt(3))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((5.0, low, high))
    single = over_seeds([2.0, math.nan])
    assert (single.value, single.low) == (2.0, None)
    assert over_seeds([math.nan]).value is None
    assert over_seeds([]).why == "not run"


def test_self_play_is_scored_by_the_weights_of_people_about_its_own_centre() -> None:
    weights = ColumnWeights(np.array([2.0, -1.0]), np.zeros(2), np.array([1.0, 2.0]), level=50.0)
    fit = PeopleFit(columns=("a", "b"), weights=weights, conversations=9, bots=3)
    talks = [
        SelfTalk(bot="x", figures={}, columns={"a": [1.0, 3.0], "b": [0.0, 4.0]}, ended_early=0),
        SelfTalk(bot="y", figures={}, columns={"a": [5.0], "b": [math.nan]}, ended_early=0),
    ]
    # centre: a 3, b 2; x has a in −2 and 0, b in −1 and 1 deviations; y has a in 2, and no b
    assert fit.scores(talks) == pytest.approx([(2 * -2 + 1 + 0 - 1) / 2, 4.0])


def write_study(chain: TinyChain) -> None:
    """Write conversations with two bots, of which one is rated higher."""
    rng = random.Random(2)
    talks = [
        {
            "id": f"c{number}",
            "bot": "ab"[number % 2],
            "participant": f"p{number // 4}",
            "turns": [{"role": ("participant", "bot")[place % 2], "text": rng.choice(TEXTS)} for place in range(4)],
            "ratings": {"quality": 40 * (number % 2) + rng.randint(0, 50)},
            "scale": [0, 100],
        }
        for number in range(60)
    ]
    path = chain.settings.data / "dialogues" / f"{STUDY}.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, talks))))


def test_what_was_fitted_to_people_is_read_again(tmp_path: Path) -> None:
    chain = tiny_chain(tmp_path)
    request = EncoderRequest(vectors=chain.vectors())
    encoders = open_encoders(chain.home, request)
    assert PeopleFit.of(chain, request, encoders) is None
    write_study(chain)
    fit = PeopleFit.of(chain, request, encoders)
    again = PeopleFit.of(chain, request, encoders)
    assert fit is not None
    assert again is not None
    assert (fit.conversations, fit.bots) == (60, 2)
    talk = SelfTalk(bot="x", figures={}, columns={name: [0.5, 1.0] for name in fit.columns}, ended_early=0)
    other = SelfTalk(bot="y", figures={}, columns={name: [0.0] for name in fit.columns}, ended_early=0)
    assert fit.scores([talk, other]) == pytest.approx(again.scores([talk, other]))


def chain_with_encoder(folder: Path, **settings: object) -> TinyChain:
    chain = tiny_chain(folder, seeds=1, epochs=1, encoder="bag", **settings)
    write_log(folder / "data" / "logs" / "dailydialog_en.jsonl.gz", "dailydialog_en", 1, 230)
    write_bag_of_words(folder / "bag", 12, softmax=False)
    import_encoder(artefact_stores(chain.home)["encoder"], chain.home.cache, "bag", folder / "bag", licence="mit")
    return chain


@pytest.mark.slow
def test_a_report_has_every_network_and_is_read_again_where_it_was_made(tmp_path: Path) -> None:
    chain = chain_with_encoder(tmp_path)
    report = compare_networks(chain, PLAN)
    assert list(report.data["variants"]) == [variant.name for variant in VARIANTS]
    for name, figures in report.data["variants"].items():
        assert figures["figures"]["perplexity"]["value"] > 1
        if name.endswith(("EI", "input only")):
            assert set(figures["teachers"]) >= {"emotion", "meaning"}, name
    difference = report.data["differences"]["VHRED EI less VHRED"]["distinct_1"]["value"]
    of = {name: report.data["variants"][name]["figures"]["distinct_1"]["value"] for name in ("VHRED EI", "VHRED")}
    assert difference == pytest.approx(of["VHRED EI"] - of["VHRED"], abs=2e-4)
    assert report.data["variants"]["VHCR"]["latent_conversation"] != ["none"]
    assert "hybrid" not in report.data["variants"]["HRED"]["figures"]  # the data has no rated conversations
    network = train_variant(chain, CONTROLS[0], 1, PLAN)
    assert network.report["teachers"]["is_shuffled"]
    assert train_variant(chain, CONTROLS[0], 1, PLAN).id == network.id
    assert compare_networks(chain, PLAN).data == report.data


def test_after_its_minutes_it_reports_what_is_there(tmp_path: Path) -> None:
    chain = chain_with_encoder(tmp_path, minutes=0)
    train_variant(chain, SIX[0], 1, PLAN)
    figures = compare_networks(chain, PLAN).data["variants"]
    assert figures["HRED"]["figures"]["perplexity"]["value"] > 1
    assert figures["VHCR EI"]["figures"]["perplexity"] == {"why": "not run"}
    assert [name for name, of_variant in figures.items() if of_variant["seeds"]] == ["HRED"]
    assert is_trained(chain, SIX[0], 1, PLAN)
    longer = TrainingPlan(batch=4, round_steps=3, conversations=3)
    assert not is_trained(chain, SIX[0], 1, longer)  # a network of other settings has its name
    with pytest.raises(NotFound):
        compare_networks(chain, longer)


def test_nothing_is_trained_where_the_encoder_of_meanings_is_missing(tmp_path: Path) -> None:
    chain = tiny_chain(tmp_path, seeds=1, epochs=1, encoder="bag")
    with pytest.raises(NotFound):
        compare_networks(chain, PLAN)
    assert not (chain.home.home / "vhreds").exists()
