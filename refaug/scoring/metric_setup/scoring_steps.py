"""The steps from a test file to scores, the same for commands, requests and the verification of score files.

find_references    items with weighted references, where an index is searched for them
referenced_items   the same for any number of items, which are not all in memory
chosen_metrics     the metrics, named or the default
bound_metrics      the same with the models that they ask
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import MissingPart
from refaug.core.home import Settings
from refaug.core.installation import BINDINGS, EXECUTORS, find
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import Metric
from refaug.metrics.models.model_kinds import ModelKind
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.metric_requests import SetBaseline, baseline_setter, default_metric, metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.provenance import Provenance
from refaug.scoring.settings import REFAUG_1, AugmentSettings, find_preset, preset_for
from refaug.scoring.spooled_items.item_collection import ItemCollection

if TYPE_CHECKING:
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.rating import Rater

# Indexes, raters and what needs them are imported where they are used: plain metrics need none of them.


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_BOUND_BY_EXTRAS: Final = (ModelKind.JUDGE, ModelKind.ADEM, ModelKind.FITTED_JUDGE, ModelKind.VHRED)
Bind = Callable[[Sequence[Metric]], list[Metric]]  # binds metrics to the models that they name

IndexOpener = Callable[
    [str, "str | None", AugmentSettings], "AbstractContextManager[tuple[ReferenceIndex, Rater | None]]"
]


@contextmanager
def open_index_and_rater(
    home: Settings, index: str, rater: str | None, settings: AugmentSettings, threads: int | None
) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
    """Open index and rater; a missing rater is an error before anything is read."""
    from refaug.scoring.home.indexes import open_index  # noqa: PLC0415

    settings.require_rater(rater)
    weigher = None
    if rater is not None:
        from refaug.scoring.home.networks import open_rater  # noqa: PLC0415  torch

        weigher = open_rater(home, rater, threads=threads)
    with open_index(home, index, threads=threads) as reference_index:
        yield reference_index, weigher


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
        from refaug.scoring.provenance import references_provenance  # noqa: PLC0415

        return references_provenance(self.index, self.rater, self.settings)

    def augment(self, items: Iterable[Item | BadItem], progress: Progress) -> Iterator[Item | BadItem]:
        """Yield every item with further references, in the order given."""
        from refaug.scoring.augmentation import augment  # noqa: PLC0415  torch

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
    settings.require_rater(rater)
    cluster = find(EXECUTORS, "cluster")(on)
    with find(EXECUTORS, "references")(cluster, home, index, rater, settings, threads, progress) as references:
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
        collection = ItemCollection(augmented, home.cache)
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


def chosen_metrics(
    texts: Sequence[str],
    items: Iterable[Item | BadItem],
    models: ModelRegistry,
    provenance: Provenance | None = None,
    *,
    references: AugmentSettings | None = None,
    language: str | None = None,
    set_baseline: SetBaseline | None = None,
    progress: Progress | None = None,
) -> list[Metric]:
    """Return the metrics that texts name, else the default for the items, not yet bound to models.

    With a preset in the settings of references, its metrics have its parameters, and one of them is the default; the
    recommended metric has its own. Replies are rated as these settings say. Weighted forms without b have that of the
    searched index.
    """
    references = references or AugmentSettings()
    preset = find_preset(references.preset or preset_for(texts))
    if preset is not None and provenance is None:
        preset.require_items(items)
        if texts:
            preset.require_effect(texts)
    if set_baseline is None and provenance is not None:
        indexes = artefact_stores(models.home)["index"]
        set_baseline = baseline_setter(indexes, provenance.settings["index"], progress or Silent())
    if not texts:
        is_recommended = preset is REFAUG_1
        texts = REFAUG_1.metrics if is_recommended else [default_metric(items, weighted=preset is not None)]
    if preset is not None:
        texts = preset.specifications(texts)
    by_default = {"combine": references.combine, "cal": references.calibration}
    try:
        return metrics_of(texts, language, by_default, set_baseline, source=models)
    except MissingPart as error:
        if preset is not REFAUG_1:
            raise
        from refaug.metrics.embeddings.recommended import OTHER_METRIC  # noqa: PLC0415  numpy

        raise MissingPart(error.message, remedy=f"{error.remedy}; {OTHER_METRIC}") from error


def bound_metrics(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    provenance: Provenance | None = None,
    *,
    augmenting: AugmentSettings | None = None,
    progress: Progress | None = None,
) -> list[Metric]:
    """Return the metrics, those that need models bound to the ones that they name.

    Where a metric names none, the rater that weighed the references rates replies, and the log of their index is
    sampled. `augmenting` is how references are made, those of a sample of the log too.
    """
    if provenance is not None:
        named = provenance.settings
        models = replace(
            models,
            default_rater=named.get("rater", models.default_rater),
            sample=models.sample or named.get("index"),
        )
    if models.spending is None:
        models = replace(models, spending={})  # metrics that ask one endpoint share its budget
    bind = partial(bound_metrics, models=models, augmenting=augmenting, progress=progress)
    metrics = [metric.with_bound(bind) for metric in metrics]
    for kind in _BOUND_BY_EXTRAS:
        if _any_asks(metrics, kind):
            metrics = find(BINDINGS, kind.value)(metrics, models, progress, bind)
    if _any_asks(metrics, ModelKind.RATER, ModelKind.RUBER):
        from refaug.scoring.metric_setup.model_metrics import with_parts  # noqa: PLC0415  torch

        metrics = with_parts(metrics, models, augmenting, progress)
    return list(metrics)


def _any_asks(metrics: Sequence[Metric], *kinds: ModelKind) -> bool:
    return any(metric.info.asks(*kinds) for metric in metrics)


def without_content(spec: str | None) -> str | None:
    """Return `name@version` of `name@version#content`."""
    return None if spec is None else spec.partition("#")[0]
