"""The metric `likelihood`: its kinds against sums done by hand, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.extras.judges.metrics.likelihood import LEAST, Context, LikelyReplies, PieceLikelihoods, score_of
from refaug.metrics.base import Level, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build


def likelihoods(*logs: float) -> PieceLikelihoods:
    return PieceLikelihoods.of(np.array(logs))


GIVEN, ALONE = likelihoods(-1.0, -4.0, -0.5), likelihoods(-2.0, -5.0, -1.5)
SEPARATOR = LikelyReplies.turn_separator


class WordModel:
    """Every word has log p of minus its length; a word of the last turn, half of that; the end is certain."""

    spec = "words@1#abc"

    def __init__(self) -> None:
        self.shown = list[tuple[Context, str]]()

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        self.shown += replies
        return [
            likelihoods(
                *(-len(word) / (2 if context and word in context[-1].split() else 1) for word in reply.split()), 0.0
            )
            for context, reply in replies
        ]

    def remarks(self) -> tuple[str, ...]:
        return ("words only",)


def metric(kind: str = "pmi-token") -> tuple[LikelyReplies, WordModel]:
    model = WordModel()
    unbound = build(Specification.parse(f"likelihood:model=words,kind={kind}"))
    assert isinstance(unbound, LikelyReplies)
    return unbound.with_model(model), model


def scores(kind: str, replies: Sequence[str], utterances: Sequence[str | None]) -> list[float]:
    bound, _ = metric(kind)
    prepared = bound.prepare([References((), (), -1, utterance) for utterance in utterances])
    places = np.arange(len(replies))
    return bound.values(bound.statistics(replies, prepared, places, places), Level.REPLY).tolist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("conditional", -5.5 / 3),
        ("unconditional", -8.5 / 3),
        ("pmi", 3.0),
        ("pmi-token", 1.0),
        ("worst", -4.0),
    ],
)
def test_a_score_is_what_its_kind_says(kind: str, expected: float) -> None:
    alone = kind == "unconditional"
    assert score_of(kind, ALONE if alone else GIVEN, ALONE) == pytest.approx(expected)


def test_no_piece_counts_less_than_the_least_and_pmi_is_bounded() -> None:
    assert score_of("worst", likelihoods(-900.0, -1.0), GIVEN) == -20
    assert score_of("conditional", likelihoods(-900.0, 0.0), GIVEN) == -10
    assert score_of("pmi", likelihoods(*[0.0] * 30), likelihoods(*[-15.0] * 30)) == 100


def test_contexts_raise_what_they_share_words_with() -> None:
    utterances = ["a red boat", f"a red boat{SEPARATOR}nice weather"]
    assert scores("conditional", ["boat", "boat"], utterances) == [-1.0, -2.0]
    assert scores("pmi", ["boat", "boat"], utterances) == [2.0, 0.0]
    assert scores("pmi-token", ["red boat", "x"], utterances) == pytest.approx([3.5 / 3, 0.0])


def test_an_item_without_utterance_has_a_score_only_without_context() -> None:
    assert scores("unconditional", ["boat"], [None]) == [-2.0]
    assert np.isnan(scores("pmi", ["boat"], [None])[0])
    bound, _ = metric()
    prepared = bound.prepare([References((), (), -1, None)])
    assert prepared.problems[0].code == "no_utterance"


@pytest.mark.parametrize("kind", list(LEAST))
def test_an_empty_reply_gets_the_least_score_unasked(kind: str) -> None:
    assert scores(kind, [" "], ["a red boat"]) == [LEAST[kind]]
    bound, model = metric(kind)
    prepared = bound.prepare([References((), (), -1, "a")])
    bound.statistics([""], prepared, np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert model.shown == []


def test_the_signature_names_the_kind_and_the_model_with_its_content() -> None:
    bound, _ = metric("pmi")
    assert "model:words@1#abc" in Signature.of(bound).full
    assert "kind:pmi" in Signature.of(bound).full
    assert bound.remarks() == ("words only",)


def test_a_metric_without_a_model_says_what_to_name() -> None:
    unnamed = build(Specification.parse("likelihood"))
    with refusing(Usage, "likelihood"):
        unnamed.prepare([References((), (), -1, "a")])
    with refusing(Usage, "perplexity"):
        build(Specification.parse("likelihood:kind=perplexity"))


def test_the_declared_range_holds_every_score() -> None:
    info = METRICS["likelihood"]
    assert (info.low, info.high, info.direction) == (-100, 100, "higher is better")
    assert all(info.low <= least <= info.high for least in LEAST.values())
