"""The steps from a test file to scores, the same for commands, requests and the verification of score files.

find_references    items with weighted references, where an index is searched for them
referenced_items   the same for any number of items, which are not all in memory
ScoringSteps       choose the metrics, bind them to their models, score
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference
from refaug.evaluation.metric_setup.metric_requests import SetBaseline, baseline_setter, default_metric, metrics_of
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.evaluate import evaluate
from refaug.evaluation.scoring.held.item_collection import ItemCollection
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.presets import Preset
from refaug.evaluation.scoring.provenance import Provenance
from refaug.evaluation.scoring.score_settings import ScoreSettings
from refaug.evaluation.scoring.scores import Evaluation, require_share
from refaug.metrics.base import Metric
from refaug.metrics.models.model_kinds import ModelKind
from refaug.rater.rating_settings import RatingSettings

if TYPE_CHECKING:
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.rating import Rater

# Indexes, raters and what needs them are imported where they are used: plain metrics need none of them.


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

IndexOpener = Callable[
    [str, "str | None", AugmentSettings], "AbstractContextManager[tuple[ReferenceIndex, Rater | None]]"
]


@contextmanager
def open_index_and_rater(
    home: Settings, index: str, rater: str | None, settings: AugmentSettings, threads: int | None
) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
    """Open index and rater; a missing rater is an error before anything is read."""
    from refaug.evaluation.home.indexes import open_index  # noqa: PLC0415
    from refaug.evaluation.home.raters import open_rater  # noqa: PLC0415  torch

    require_named_rater(rater, settings)
    weigher = open_rater(home, rater, threads=threads) if rater is not None else None
    with open_index(home, index, threads=threads) as reference_index:
        yield reference_index, weigher


def require_named_rater(rater: str | None, settings: AugmentSettings) -> None:
    """Raise Usage where something is to be rated and no rater is named."""
    if settings.needs_rater and rater is None:
        raise Usage(
            "something is to be rated, and no rater is named",
            remedy="--rater NAME, or --reference-weights one --parrot off",
        )


class ReferenceSource(Protocol):
    """An index and a rater that are open: weighted references for items."""

    @property
    def provenance(self) -> Provenance:
        """What signatures say of the references."""

    def augment(self, items: Iterable[Item | BadItem], progress: Progress) -> Iterator[Item | BadItem]:
        """Yield every item with further references, in the order given."""

    def release(self) -> None:
        """Close what was opened to find references: no more are needed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalReferences:
    """Index and rater in this process."""

    index: ReferenceIndex
    rater: Rater | None
    settings: AugmentSettings
    opened: ExitStack = field(default_factory=ExitStack)  # index and rater, unless they are open for others too

    @property
    def provenance(self) -> Provenance:
        """What signatures say of the references."""
        from refaug.evaluation.scoring.provenance import references_provenance  # noqa: PLC0415

        return references_provenance(self.index, self.rater, self.settings)

    def augment(self, items: Iterable[Item | BadItem], progress: Progress) -> Iterator[Item | BadItem]:
        """Yield every item with further references, in the order given."""
        from refaug.evaluation.scoring.augmentation import augment  # noqa: PLC0415  torch

        return augment(items, self.index, self.rater, self.settings, progress)

    def release(self) -> None:
        """Close index and rater, unless they are open for others too."""
        self.opened.close()


@contextmanager
def open_references(
    home: Settings,
    index: str,
    rater: str | None,
    settings: AugmentSettings,
    threads: int | None,
    progress: Progress,
    on: str | None = None,
) -> Iterator[ReferenceSource]:
    """Open index and rater, in this process or, with the address of a cluster, there."""
    if on is None:
        with ExitStack() as stack:
            opened, weigher = stack.enter_context(open_index_and_rater(home, index, rater, settings, threads))
            yield LocalReferences(index=opened, rater=weigher, settings=settings, opened=stack)
        return
    require_named_rater(rater, settings)
    from refaug.core.cluster.connection import connect  # noqa: PLC0415  Ray
    from refaug.evaluation.metric_setup.on_cluster.references import cluster_references  # noqa: PLC0415  torch

    with cluster_references(connect(on), home, index, rater, settings, threads, progress) as references:
        yield references


def find_references(
    home: Settings,
    items: Iterable[Item | BadItem],
    index: str,
    rater: str | None,
    settings: AugmentSettings,
    threads: int | None,
    progress: Progress,
    opener: IndexOpener | None = None,
    *,
    on: str | None = None,
    with_origins: bool = True,
) -> tuple[list[Item | BadItem], Provenance]:
    """Return items with weighted references from an index, and the provenance of the references.

    Without origins, references do not say which pair of the log they are, which takes most of the memory of an item.
    `opener` opens index and rater, such as those that a server has open; else they are opened for this call, on a
    cluster if `on` is the address of one.
    """
    with ExitStack() as stack:
        source: ReferenceSource
        if opener is None:
            source = stack.enter_context(open_references(home, index, rater, settings, threads, progress, on))
        else:
            opened, weigher = stack.enter_context(opener(index, rater, settings))
            source = LocalReferences(index=opened, rater=weigher, settings=settings)
        return list(_items_with_references(source, items, progress, with_origins=with_origins)), source.provenance


@contextmanager
def referenced_items(
    home: Settings,
    items: Iterable[Item | BadItem],
    index: str,
    rater: str | None,
    settings: AugmentSettings,
    threads: int | None,
    progress: Progress,
    *,
    on: str | None = None,
    with_origins: bool = True,
) -> Iterator[tuple[ItemCollection, Provenance]]:
    """Give what `find_references` returns as a collection, of which no more than a few items are in memory.

    The index is closed, and a cluster left to others, once all references are found. What a cluster has finished is
    removed when the block ends without an error: a command that is stopped while it scores goes on from there.
    """
    with open_references(home, index, rater, settings, threads, progress, on) as source:
        provenance = source.provenance
        augmented = _items_with_references(source, items, progress, with_origins=with_origins)
        collection = ItemCollection.read(augmented, home.cache)
        source.release()
        yield collection, provenance


def _items_with_references(
    source: ReferenceSource, items: Iterable[Item | BadItem], progress: Progress, *, with_origins: bool
) -> Iterator[Item | BadItem]:
    """Yield the items with references, in the order given."""
    indexed = {"index": source.provenance.settings["index"].partition("#")[0]}
    for augmented_item in source.augment(items, progress):
        if isinstance(augmented_item, BadItem):
            yield augmented_item
        else:
            yield augmented_item if with_origins else without_origins(augmented_item, indexed)


def without_origins(test_item: Item, indexed: Mapping[str, str]) -> Item:
    """Return the item with references of which no more is known than scores need: texts, weights, and the index."""
    references = tuple(
        Reference(
            text=reference.text,
            source=reference.source,
            weight=reference.weight,
            similarity=reference.similarity,
            rating=reference.rating,
            is_unused=reference.is_unused,
            more=indexed if reference.source is Origin.RETRIEVED else _NOTHING,
        )
        for reference in test_item.references
    )
    return replace(test_item, references=references)


@dataclass(frozen=True, kw_only=True)
class ScoringSteps:
    """What items are scored by, as options, fields of a request or a signature say."""

    models: ModelRegistry
    specifications: Sequence[str] = ()  # empty: the default for the items
    settings: ScoreSettings = field(default_factory=ScoreSettings)
    rating: RatingSettings = field(default_factory=RatingSettings)  # of replies, by the metric rater
    augmenting: AugmentSettings | None = None  # how references are made, those of a sample of the log too
    preset: Preset | None = None
    language: str | None = None
    is_part: bool = False  # of a test file: it is no error if no reply has a score
    reports_metrics: bool = False  # a metric that does not suit the items is reported, and the others are used

    def chosen(
        self,
        items: Iterable[Item | BadItem],
        provenance: Provenance | None = None,
        *,
        set_baseline: SetBaseline | None = None,
        progress: Progress | None = None,
    ) -> list[Metric]:
        """Return the metrics, not yet bound to models; weighted forms without b have that of the searched index."""
        if self.preset is not None and provenance is None:
            self.preset.require_items(items)
            if self.specifications:
                self.preset.require_effect(self.specifications)
        if set_baseline is None and provenance is not None:
            indexes = artefact_stores(self.models.home)["index"]
            set_baseline = baseline_setter(indexes, provenance.settings["index"], progress or Silent())
        texts = list(self.specifications) or [
            default_metric(items, searched=provenance is not None, weighted=self.preset is not None)
        ]
        if self.preset is not None:
            texts = self.preset.specifications(texts)
        by_default = {"combine": self.rating.combine, "cal": self.rating.calibration}
        metrics = metrics_of(texts, self.language, by_default, set_baseline, source=self.models)
        for metric in metrics if self.settings.percent else ():
            require_share(metric)
        return metrics

    def score_by(
        self,
        metrics: Sequence[Metric],
        items: Iterable[Item | BadItem],
        provenance: Provenance | None = None,
        *,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Score items by metrics that `chosen` returned."""
        bound = self.bound(metrics, provenance, progress=progress)
        return evaluate(
            items,
            bound,
            self.settings,
            provenance=provenance,
            progress=progress,
            is_part=self.is_part,
            reports_metrics=self.reports_metrics,
        )

    def bound(
        self,
        metrics: Sequence[Metric],
        provenance: Provenance | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[Metric]:
        """Return the metrics, those that need models bound to the ones that they name.

        Where a metric names none, the rater that weighed the references rates replies, and the log of their index is
        sampled.
        """
        models = self.models
        if provenance is not None:
            named = provenance.settings
            models = replace(
                models,
                default_rater=named.get("rater", models.default_rater),
                sample=models.sample or named.get("index"),
            )
        if _any_asks(metrics, ModelKind.JUDGE):
            from refaug.evaluation.metric_setup.judge_metrics import with_judge  # noqa: PLC0415  httpx

            metrics = with_judge(metrics, models, progress)
        if _any_asks(metrics, ModelKind.ADEM):
            from refaug.evaluation.metric_setup.adem_metrics import with_adem  # noqa: PLC0415  torch

            metrics = with_adem(metrics, models)
        if _any_asks(metrics, ModelKind.FITTED_JUDGE):
            from refaug.evaluation.metric_setup.combined.opening import with_fitted_judges  # noqa: PLC0415  torch

            own = replace(self, models=models)
            metrics = list(with_fitted_judges(metrics, models, lambda parts: own.bound(parts, progress=progress)))
        if _any_asks(metrics, ModelKind.RATER, ModelKind.RUBER, ModelKind.VHRED):
            from refaug.evaluation.metric_setup.model_metrics import with_parts  # noqa: PLC0415  torch

            metrics = with_parts(metrics, models, self.augmenting, progress)
        return list(metrics)


def _any_asks(metrics: Sequence[Metric], *kinds: ModelKind) -> bool:
    return any(metric.info.asks(*kinds) for metric in metrics)


def without_content(spec: str | None) -> str | None:
    """Return `name@version` of `name@version#content`."""
    return None if spec is None else spec.partition("#")[0]
