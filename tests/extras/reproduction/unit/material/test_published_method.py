"""The published method beside what one works out by hand from the same references and ratings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plain_bleu import PlainBleu, PlainReference
from proofs import TinyChain, tiny_chain, tiny_set

from refaug.core.records import Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.material.chain import IndexRecipe
from refaug.extras.reproduction.material.metric_lines import (
    PUBLISHED_METRIC,
    PUBLISHED_SETTINGS,
    published_line,
    published_name,
    published_recipe,
)
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.rater.rating import RatingRequest
from refaug.scoring.settings import AugmentSettings


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    return tiny_chain(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def rated_set() -> ProofSet:
    return tiny_set("first", 15).with_first_gold()


def test_a_score_is_that_of_the_released_arithmetic(chain: TinyChain, rated_set: ProofSet) -> None:
    recipe = IndexRecipe(name="proof-tsuta20", selections=chain.everyday, weighting="mean", oov="unk")
    assert published_recipe(chain) == recipe
    items = chain.augmented_items(rated_set, chain.index(recipe), chain.rater(), PUBLISHED_SETTINGS)
    tokenizer, bleu = get_tokenizer("word"), PlainBleu(variant="tsuta20", smooth="none", eff="no")
    expected = []
    for reply, number in zip(rated_set.replies, rated_set.item.tolist(), strict=True):
        references = [
            PlainReference(tokens=tokenizer.tokenize(reference.text), weight=reference.weight or 0.0)
            for reference in items[number].references
            if reference.is_own or normalise(reference.text) != normalise(reply)
        ]
        refused = bleu.problem(references) is not None
        expected.append(np.nan if refused else bleu.score(bleu.sums(tokenizer.tokenize(reply), references), "reply"))

    scores = published_line(chain, [rated_set]).scores["first"]

    np.testing.assert_allclose(scores[0], expected, atol=1e-9)
    assert np.isfinite(scores).sum() > 12
    assert np.ptp(scores[np.isfinite(scores)]) > 0


def test_gold_and_utterance_are_rated_beside_thirteen_that_are_retrieved(chain: TinyChain, rated_set: ProofSet) -> None:
    recipe = IndexRecipe(name="proof-tsuta20", selections=chain.everyday, weighting="mean", oov="unk")
    rater = chain.rater()
    for test_item in chain.augmented_items(rated_set, chain.index(recipe), rater, PUBLISHED_SETTINGS):
        by_origin = {
            origin: [reference for reference in test_item.references if reference.source is origin]
            for origin in (Origin.GOLD, Origin.PARROT, Origin.RETRIEVED)
        }
        assert [len(references) for references in by_origin.values()] == [1, 1, 13]
        utterance, [gold] = test_item.utterance, by_origin[Origin.GOLD]
        assert utterance is not None
        candidates = (Reference(text=gold.text), Reference(text=utterance))
        [ratings] = rater.rate([RatingRequest(utterance=utterance, golds=(gold.text,), candidates=candidates)])
        assert [gold.weight, by_origin[Origin.PARROT][0].weight] == pytest.approx(list(ratings), abs=1e-6)


def test_every_setting_is_the_presets() -> None:
    by_hand = AugmentSettings(
        k=13, mode="embedding-utterance", combine="first", gold="rated", parrot="rated", preset="tsuta20"
    )
    assert by_hand == PUBLISHED_SETTINGS
    released = build("upsilon-bleu:n=2,variant=tsuta20,smooth=none,bp=closest,eff=no")
    assert Signature.of(build(PUBLISHED_METRIC)).full == Signature.of(released).full


def test_the_name_says_the_size_of_the_rater(tmp_path: Path) -> None:
    assert published_name(tiny_chain(tmp_path / "base", preset="base")) == "υBLEU as published, rater base"
    chain = tiny_chain(tmp_path / "paper")
    assert chain.paper_rater() is None
    assert published_name(chain) == "υBLEU as published, rater small"
    chain._raters["proof-paper"] = large = chain.rater(name="other")
    assert chain.paper_rater() is large
    assert published_name(chain) == "υBLEU as published, rater paper"


def test_a_set_keeps_its_rows_and_replies(chain: TinyChain, rated_set: ProofSet) -> None:
    fewer = rated_set.restricted_to(rated_set.rows_where(lambda row: row % 2 == 0))
    whole, half = (published_line(chain, [one]).scores["first"][0] for one in (rated_set, replace(fewer)))
    np.testing.assert_array_equal(half, whole[::2])
