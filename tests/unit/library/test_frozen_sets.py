"""Frozen sets in a program: the numbers of the command, to the last bit, by `open_set`, the scorer and the reward."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from refaug_client import BadInput as ClientBadInput
from refaug_client import Usage as ClientUsage
from refaug_client import WrongPurpose
from set_items import MAKING, frozen, item_of, replies_of

import refaug
from refaug.core.records import Item
from refaug.library import engine as engine_module
from refaug.scoring.metric_setup.metric_requests import metrics_of
from refaug.scoring.reference_sets.reference_set import Purpose
from refaug.scoring.reference_sets.set_scores import join, score
from refaug.scoring.settings import ScoreSettings

COUNT = 30
ITEMS = [item_of(number) for number in range(COUNT)]
IDS = [item.id for item in ITEMS]
REPLIES = replies_of(COUNT, "a")


@pytest.fixture(autouse=True)
def closed_engines() -> Iterator[None]:
    """Close what a test has opened."""
    yield
    engine_module._process.engines.clear()


def by_command(home: Path, metric: str) -> tuple[list[float | None], float | None, str]:
    """What `refaug sets score` makes of the replies."""
    items = [Item(id=name, replies={"a": text}) for name, text in zip(IDS, REPLIES, strict=True) if text is not None]
    stored = frozen(home, ITEMS)
    (scores,) = score(stored, join(stored, items), metrics_of([metric], None), ScoreSettings(draws=0)).scores
    system = scores.systems["a"]
    return [reply["score"] for reply in system.as_json()["replies"]], system.corpus, scores.signature.full


@pytest.mark.parametrize("metric", ["upsilon-bleu", "chrf"])
def test_scores_are_those_of_the_command_to_the_last_bit(metric: str, tmp_path: Path) -> None:
    of_replies, corpus, signature = by_command(tmp_path, metric)
    opened = refaug.open_set(frozen(tmp_path, ITEMS).id[:8], home=tmp_path)
    assert list(opened.items) == IDS
    scores = opened.score({"a": REPLIES}, metric=metric)
    assert (scores.replies, scores.corpus, scores.metric.signature_full) == (of_replies, corpus, signature)
    with refaug.scorer(reference_set=opened.id, metric=metric, home=tmp_path) as scorer:
        assert scorer(REPLIES, items=IDS) == of_replies
        assert scorer(REPLIES[4:9][::-1], items=IDS[4:9][::-1]) == of_replies[4:9][::-1]
        assert scorer.signature == scores.signature
        with pytest.raises(ClientBadInput):
            scorer(["a"], items=["unknown"])
        with pytest.raises(ClientUsage, match="a scorer of refaug itself"):
            pickle.dumps(scorer)


def test_a_reward_is_the_score_and_refuses_a_set_for_testing(tmp_path: Path) -> None:
    of_replies, _, _ = by_command(tmp_path, "upsilon-bleu")
    test = frozen(tmp_path, ITEMS, replace(MAKING, purpose=Purpose.TEST))
    with pytest.raises(WrongPurpose):
        refaug.reward(reference_set=test.id, home=tmp_path)
    unwarned = replace(MAKING, provenance={**MAKING.provenance, "parrot": "off"})  # one with parrots has a warning
    training = frozen(tmp_path, ITEMS, unwarned)
    reward = refaug.reward(reference_set=training.id, on_unavailable="mask", on_copy="score", home=tmp_path)
    try:
        rewards = reward(REPLIES, items=IDS)
    finally:
        reward.close()
    assert [None if math.isnan(one) else one for one in rewards] == of_replies


def test_an_unknown_set_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "reference-sets").mkdir()
    with pytest.raises(refaug.NotFound):
        refaug.open_set("0123456789abcdef", home=tmp_path)
