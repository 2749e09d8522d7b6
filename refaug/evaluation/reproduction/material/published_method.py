"""The published method as its authors released it: the preset `tsuta20`, on an index and a rater of the run.

Everything is as in the released code: plain means of word vectors, `<unk>` for words without a vector, 13 retrieved
references beside the gold and the utterance, all of them rated, credits floored at 0, and no smoothing. The rater has
the published size where the home holds such a rater, which takes a GPU to train; otherwise it is that of the run, and
the name of the line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refaug.core.records import Item
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.material.chain import Chain, IndexRecipe
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import Extras, line_of
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import TSUTA20
from refaug.metrics.specification import build

PUBLISHED_K: Final[int] = TSUTA20.references["k"]
PUBLISHED_METRIC: Final = TSUTA20.specification("upsilon-bleu")
PUBLISHED_SETTINGS: Final = AugmentSettings(preset=TSUTA20.name)


def published_recipe(chain: Chain) -> IndexRecipe:
    """Return what the index of the published method is made of."""
    return IndexRecipe(name=f"proof-{TSUTA20.name}", selections=chain.everyday, **TSUTA20.sentence)


def published_name(chain: Chain) -> str:
    """Return the name of the line, with the size of its rater."""
    preset = "paper" if chain.paper_rater() is not None else chain.settings.preset
    return f"υBLEU as published, rater {preset}"


def published_line(chain: Chain, sets: Sequence[ProofSet]) -> Line:
    """Score all sets as published; a reply is never scored against a reference that equals it."""
    index, rater = chain.index(published_recipe(chain)), chain.paper_rater() or chain.rater()
    items = {rated_set.name: chain.augmented_items(rated_set, index, rater, PUBLISHED_SETTINGS) for rated_set in sets}
    return line_of(
        published_name(chain),
        [_with_golds_of(rated_set, items[rated_set.name]) for rated_set in sets],
        build(PUBLISHED_METRIC),
        lambda rated_set, _seed: further_references(items[rated_set.name]),
        about=f"upsilon-bleu, preset {TSUTA20.name}: gold and utterance rated, {PUBLISHED_K} retrieved by plain means",
    )


def _with_golds_of(rated_set: ProofSet, items: Sequence[Item]) -> ProofSet:
    """Return the set with the weighted golds of augmented items."""
    golds = tuple(tuple(reference for reference in item.references if reference.is_own) for item in items)
    weighted = tuple(replace(test_item, references=own) for test_item, own in zip(rated_set.items, golds, strict=True))
    return replace(rated_set, items=weighted)


def further_references(items: Sequence[Item]) -> Extras:
    """Return the references of augmented items that are not their own."""
    return tuple(tuple(reference for reference in item.references if not reference.is_own) for item in items)
