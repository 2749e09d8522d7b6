"""Signatures read back as requests for the same score, and how two of them differ."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.metric_setup.signature_requests import (
    SignatureRequest,
    signature_differences,
    specification_texts,
)
from refaug.scoring.settings import AugmentSettings

MADE = {
    "k": "7", "mode": "embedding-dialog", "gold": "rated", "parrot": "0.25", "weights": "rated", "combine": "mean",
    "cal": "cal", "index": "chat@2026-11-20.1#9f2c41d07e12", "rater": "base@2026-11-20.3#41d07e9f2c55",
}  # fmt: skip
DETAILS = {
    "oov": "skip", "depth": "900", "near": "0.8", "near-tokens": "6", "alpha": "0.3", "epsilon": "0.2",
    "after": "2026-01-01T00:00:00+00:00", "exclude-logs": "a,b",
}  # fmt: skip
METRIC = build("upsilon-bleu:n=3,smooth=floor[0.2]")
MADE_SCORE = Signature.of(METRIC, MADE, DETAILS)


def test_a_signature_asks_for_the_metric_the_versions_and_all_settings() -> None:
    request = SignatureRequest.parse(MADE_SCORE.full)
    assert dict(build(request.metric).settings) == dict(METRIC.settings)
    assert (request.index, request.rater) == ("chat@2026-11-20.1", "base@2026-11-20.3")
    assert request.augmenting == AugmentSettings(
        k=7, mode="embedding-dialog", alpha=0.3, epsilon=0.2, depth=900, near=0.8, near_tokens=6,
            after=datetime(2026, 1, 1, tzinfo=UTC), exclude_logs=("a", "b"),
        combine="mean", calibrated=True,
        gold="rated",
        parrot=0.25,
    )  # fmt: skip


def test_a_short_signature_has_the_defaults_for_what_it_does_not_say() -> None:
    request = SignatureRequest.parse(Signature.of(METRIC, {**MADE, "mode": "bm25-utterance"}, DETAILS).short)
    assert (request.augmenting.k, request.augmenting.mode) == (7, "bm25-utterance")
    assert (request.augmenting.near, request.augmenting.depth) == (SearchSettings.near, None)


def test_a_signature_without_an_index_asks_for_the_metric_alone() -> None:
    request = SignatureRequest.parse(Signature.of(build("chrf:beta=3")).short)
    assert (request.index, request.rater, request.augmenting) == (None, None, AugmentSettings())
    assert build(request.metric).settings["beta"] == "3"


def test_metrics_may_be_named_by_signatures() -> None:
    assert specification_texts(["bleu:n=4"]) == ["bleu:n=4"]
    for form in (MADE_SCORE.short, MADE_SCORE.full):
        assert dict(build(specification_texts([form])[0]).settings) == dict(METRIC.settings)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({**MADE, "k": "many"}, "says nothing usable of how references were found"),
        ({**MADE, "mode": "by-hand"}, "by-hand"),
        ({key: text for key, text in MADE.items() if key != "k"}, "how references were found: 'k'"),
        ({"references": "mixed#0123"}, "made in several ways"),
    ],
)
def test_a_signature_that_cannot_be_followed_is_refused(made: dict[str, str], message: str) -> None:
    with refusing(BadInput, message):
        SignatureRequest.parse(Signature.of(METRIC, made).full)


def test_differences_name_each_key_with_both_values() -> None:
    other = Signature.of(build("upsilon-bleu:n=2,smooth=floor[0.2]"), {**MADE, "k": "8"}, {**DETAILS, "oov": "unk"})
    listed = [(one.key, one.first, one.second) for one in signature_differences(MADE_SCORE, other)]
    assert listed == [("n", "3", "2"), ("k", "7", "8"), ("oov", "skip", "unk")]
    short = [one.key for one in signature_differences(Signature.parse(MADE_SCORE.short), other)]
    assert short == ["n", "k"]
    assert signature_differences(MADE_SCORE, Signature.parse(MADE_SCORE.full)) == []
