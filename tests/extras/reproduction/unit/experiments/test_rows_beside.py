"""The rows beside the main table of `reproduce metrics`, by networks that a tiny home trains for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from proofs import TEXTS, TinyChain, tiny_chain, tiny_set, write_log
from scipy.stats import spearmanr

from refaug.core.records import Reference
from refaug.extras.judges.metrics.followups import find_follow_ups
from refaug.extras.reproduction.figures.rows_beside import RowsBeside, rows_beside
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.networks.variants import TrainingPlan
from refaug.metrics.base import Floats
from refaug.rater.cross.checkpoint import CrossRater
from refaug.rater.rating import WITHOUT_GOLD, Rater, RatingRequest
from refaug.scoring.home.networks import open_rater

PLAN = TrainingPlan(batch=4, round_steps=2)
MASKED, RETRIEVAL = "masked[rater=proof-cross-random,turns=3]", "retrieval[rater=proof-cross-random,turns=3]"
NEXT, FOLLOWUP = "next-utterance[rater=proof-cross-noise,turns=3]", "followup[lm=proof-small-vhred-1]"


def chain_in(folder: Path, **settings: object) -> TinyChain:
    chain = tiny_chain(folder, epochs=1, **settings)
    write_log(folder / "data" / "logs" / "dailydialog_en.jsonl.gz", "dailydialog_en", 1, 230)
    return chain


def set_of_turns(name: str, seed: int) -> ProofSet:
    """Items of up to five turns."""
    rated = tiny_set(name, seed)
    items = [
        replace(item, turns=(*TEXTS[number : number + number % 5], *item.turns))
        for number, item in enumerate(rated.items)
    ]
    return replace(rated, items=tuple(items))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    return chain_in(tmp_path_factory.mktemp("beside"))


@pytest.fixture(scope="module")
def rated() -> ProofSet:
    return set_of_turns("first", 15)


@pytest.fixture(scope="module")
def beside(chain: TinyChain, rated: ProofSet) -> RowsBeside:
    return rows_beside(chain, [rated], PLAN)


def turns_and_replies(rated: ProofSet) -> list[tuple[Sequence[str], str]]:
    return [(rated.items[item].turns, reply) for item, reply in zip(rated.item.tolist(), rated.replies, strict=True)]


def probabilities(rater: Rater, rated: ProofSet) -> Floats:
    """What a rater gives to each reply by the last three turns."""
    requests = [
        RatingRequest(utterance="\n".join(turns[-3:]), golds=WITHOUT_GOLD, candidates=(Reference(text=reply),))
        for turns, reply in turns_and_replies(rated)
    ]
    return np.array([(rating + 1) / 2 for (rating,) in rater.rate(requests)])


def hidden(rater: Rater, rated: ProofSet) -> Floats:
    assert isinstance(rater, CrossRater)
    pairs = [("\n".join(turns[-3:]), reply) for turns, reply in turns_and_replies(rated)]
    return np.array([np.mean(np.maximum(logs, -20)) for logs in rater.hidden_log_likelihoods(pairs)])


def followed(chain: TinyChain, rated: ProofSet) -> Floats:
    vhred, said = chain.models.vhred("proof-small-vhred-1"), find_follow_ups("default")

    def mean(turns: Sequence[str], reply: str, texts: Sequence[str]) -> float:
        logs = vhred.log_likelihoods([(*turns, reply)] * len(texts), list(texts))
        return float(np.mean([np.maximum(of_text, -20).mean() for of_text in logs]))

    return np.array(
        [
            mean(turns, reply, said.texts_for) - mean(turns, reply, said.texts_against)
            for turns, reply in turns_and_replies(rated)
        ]
    )


@pytest.mark.slow
def test_rows_are_named_by_what_ran_and_agree_as_their_scores_do(
    chain: TinyChain, rated: ProofSet, beside: RowsBeside
) -> None:
    random, noise = (open_rater(chain.home, f"proof-cross-{kind}") for kind in ("random", "noise"))
    assert (random.negatives, noise.negatives) == ("random", "noise")
    scores = {
        MASKED: hidden(random, rated),
        RETRIEVAL: probabilities(random, rated),
        NEXT: probabilities(noise, rated),
        FOLLOWUP: followed(chain, rated),
    }
    assert list(beside.data["figures"]) == list(scores)
    for label, of_rows in scores.items():
        expected = spearmanr(np.round(of_rows, 6)[rated.fair], rated.ratings[rated.fair]).statistic
        figure = beside.data["figures"][label]["spearman"]["first"]
        assert figure["value"] == pytest.approx(expected, abs=2e-3), label
        assert figure["low"] <= figure["value"] <= figure["high"]
    assert beside.gaps == ()


@pytest.mark.slow
def test_the_section_names_papers_and_networks(chain: TinyChain, beside: RowsBeside) -> None:
    agreement, about = beside.section.tables
    assert [row[0] for row in agreement.rows] == [row[0] for row in about.rows] == [MASKED, RETRIEVAL, NEXT, FOLLOWUP]
    for row, (paper, network) in zip(
        about.rows,
        (
            ("USR", "proof-cross-random@"),
            ("USR", "proof-cross-random@"),
            ("MAUDE", "proof-cross-noise@"),
            ("", "vhred"),
        ),
        strict=True,
    ):
        assert paper in row[1]
        assert network in row[1]
    assert any(key.startswith("rater proof-cross-noise") for key in chain.artefacts)


@pytest.mark.slow
def test_what_is_trained_is_read_again_and_after_the_minutes_nothing_is_trained(
    chain: TinyChain, rated: ProofSet, beside: RowsBeside
) -> None:
    stopped = TinyChain(chain.home, replace(chain.settings, minutes=0), chain.progress)
    again = rows_beside(stopped, [rated], PLAN)
    assert again.data == beside.data
    later = rows_beside(stopped, [rated], TrainingPlan(batch=4, round_steps=3))  # a VHRED of other settings
    assert list(later.data["figures"]) == [MASKED, RETRIEVAL, NEXT]
    (gap,) = later.gaps
    assert "followup" in gap


def test_logs_that_are_too_small_for_a_network_leave_its_rows_out(tmp_path: Path, rated: ProofSet) -> None:
    chain = chain_in(tmp_path)
    for name in ("dailydialog_en", "small_en"):
        write_log(tmp_path / "data" / "logs" / f"{name}.jsonl.gz", name, 1, 10)
    none = rows_beside(chain, [rated], PLAN)
    assert (none.data, none.section.tables) == ({}, ())
    assert [gap.partition(" ")[0] for gap in none.gaps] == ["masked", "retrieval", "next-utterance", "followup"]
    assert all(gap in none.section.text for gap in none.gaps)
    assert not any("minutes" in gap or str(tmp_path) in gap for gap in none.gaps)
