"""Metrics on kinds of references, each computed to a line of a table with one index and one rater."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from refaug.core.records import Item
from refaug.extras.reproduction.figures.correlations import Line
from refaug.extras.reproduction.material import reference_kinds
from refaug.extras.reproduction.material.chain import Chain, IndexRecipe
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import Extras, line_of
from refaug.indexer.search.search_settings import Mode
from refaug.metrics.base import Metric
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.specification import Specification, build
from refaug.scoring.settings import TSUTA20, AugmentSettings

VECTORS: Final = "{vectors}"  # stands for the folder of the proof's word vectors
GREEDY: Final = f"weighting=sif,vectors={VECTORS},measure=f"
EMBEDDING: Final[Mode] = "embedding-utterance"
WORDS: Final[Mode] = "bm25-utterance"


@dataclass(frozen=True, kw_only=True)
class MetricOnReferences:
    """A metric, and the references that it is tried on."""

    name: str
    metric: str  # a specification
    kind: str = reference_kinds.GOLD  # of further references: one of `reference_kinds.KINDS`
    mode: Mode = EMBEDDING
    k: int = 15


class MetricLines:
    """The lines of some sets; what is retrieved for a set is found at its first use."""

    def __init__(self, chain: Chain, sets: Sequence[ProofSet]) -> None:
        self.chain, self.sets = chain, tuple(sets)
        self.index, self.rater = chain.main_index(), chain.rater()
        self._vectors = str(chain.vectors_folder(chain.vectors()))
        self._pools = dict[tuple[str, Mode], reference_kinds.Pool]()

    def pool(self, rated_set: ProofSet, mode: Mode = EMBEDDING) -> reference_kinds.Pool:
        """Return the references for a set, retrieved in this mode."""
        key = (rated_set.name, mode)
        if key not in self._pools:
            self._pools[key] = self.chain.pool(rated_set, self.index, self.rater, mode=mode)
        return self._pools[key]

    def line(self, tried: MetricOnReferences) -> Line:
        """Return the scores of a metric on its references."""
        return reference_kinds.line_of(
            tried.name,
            self.sets,
            self._bind(tried, build(tried.metric.replace(VECTORS, self._vectors))),
            lambda rated_set, seed: self._extras(tried, rated_set, seed),
            seeds=self.chain.settings.seeds if tried.kind in reference_kinds.BY_CHANCE else 1,
            about=f"{tried.metric.replace(VECTORS, 'proof')} on {tried.kind}",
        )

    def _bind(self, tried: MetricOnReferences, metric: Metric) -> Metric:
        if not isinstance(metric, Ruber):
            return self.chain.bind_rater(metric, self.rater)
        augmenting = AugmentSettings(k=tried.k, mode=tried.mode, weights="rated", parrot="off")
        return self.chain.bind_blend(metric, self.index, self.rater, augmenting)

    def _extras(self, tried: MetricOnReferences, rated_set: ProofSet, seed: int) -> reference_kinds.Extras | None:
        if tried.kind == reference_kinds.GOLD:
            return None
        return self.pool(rated_set, tried.mode).extras(tried.kind, k=tried.k, parrot=False, seed=seed)


def build_soft_match(chain: Chain, **options: str) -> Metric:
    """Build υ-greedy with the word vectors of the run; common words count less."""
    folder = str(chain.vectors_folder(chain.vectors()))
    options = {"measure": "f", "weighting": "sif", "vectors": folder, **options}
    return build(Specification("upsilon-greedy", tuple(options.items())))


# ── The published method as its authors released it: the preset `tsuta20`, on an index and a rater of the run ─────────
#
# Everything is as in the released code: plain means of word vectors, `<unk>` for words without a vector, 13 retrieved
# references beside the gold and the utterance, all of them rated, credits floored at 0, and no smoothing. The rater
# has the published size where the home holds such a rater, which takes a GPU to train; otherwise it is that of the
# run, and the name of the line says so.

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
