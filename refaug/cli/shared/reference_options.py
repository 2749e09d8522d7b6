"""Options for retrieving and weighting references, shared by `refs`, `score --index` and `sets freeze`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem

if TYPE_CHECKING:
    from refaug.evaluation.scoring.held.item_collection import ItemCollection
    from refaug.evaluation.scoring.provenance import Provenance
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.rating import Rater

IndexOption = Annotated[
    str | None,
    typer.Option("--index", help="Index that references are found in: name or name@version.", metavar="NAME"),
]
RaterOption = Annotated[
    str | None, typer.Option("--rater", help="Rater that weighs them: name or name@version.", metavar="NAME")
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Find and rate references on a cluster of Ray: HOST:PORT, auto on one of its machines, or local.",
        metavar="ADDRESS",
    ),
]


def require_used(
    settings: AugmentSettings, index: str | None, rater: str | None, *, rates: bool, scores: bool = False
) -> None:
    """Raise Usage where a setting of references has no effect.

    With `rates` the rater rates replies in any case, with `scores` a preset is for the metric in any case.
    """
    if index is None:
        settings.require_no_effect(
            "without an index", remedy="--index NAME: refaug index list", rates=rates, scores=scores
        )
        return
    settings.require_effect(rates=rates, shows_references=not scores)
    if rater is not None and not rates and not settings.needs_rater:
        raise Usage("a rater, and nothing is to be rated", remedy="leave it out, or use rated weights", field="rater")


def require_searched(on: str | None, index: str | None) -> None:
    """Raise Usage where a cluster is named and nothing is searched, which is what its machines would do."""
    if on is not None and index is None:
        raise Usage("--on without --index", remedy="--index NAME, whose references the cluster finds and rates")


@contextmanager
def open_index_and_rater(
    settings: Settings, index: str, rater: str | None, augment_settings: AugmentSettings, threads: int | None
) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
    """Open index and rater as scoring does, imported at their use."""
    from refaug.evaluation.metric_setup import scoring_steps  # noqa: PLC0415  torch

    with scoring_steps.open_index_and_rater(settings, index, rater, augment_settings, threads) as opened:
        yield opened


@contextmanager
def augmented_sets(
    settings: Settings,
    sets: Mapping[str, ItemCollection],
    index: str,
    rater: str | None,
    augment_settings: AugmentSettings,
    threads: int | None,
    progress: Progress,
    *,
    on: str | None = None,
) -> Iterator[tuple[dict[str, ItemCollection], Provenance]]:
    """Give test sets with weighted references from an index, which their items say, and the provenance of these.

    References do not say which pair of the log they are. The index is closed, and a cluster left to others, once all
    references are found; what a cluster has finished is removed when the block ends without an error.
    """
    from refaug.evaluation.metric_setup.scoring_steps import open_references, without_origins  # noqa: PLC0415  torch
    from refaug.evaluation.scoring.held.item_collection import ItemCollection  # noqa: PLC0415  compiles
    from refaug.evaluation.scoring.provenance import with_provenance  # noqa: PLC0415

    with open_references(settings, index, rater, augment_settings, threads, progress, on) as source:
        provenance = source.provenance
        line, indexed = provenance.line, {"index": provenance.settings["index"].partition("#")[0]}

        def with_references(items: Iterable[Item | BadItem]) -> Iterator[Item | BadItem]:
            for augmented_item in source.augment(items, progress):
                if isinstance(augmented_item, BadItem):
                    yield augmented_item
                else:
                    yield with_provenance(without_origins(augmented_item.item, indexed), line)

        augmented = {name: ItemCollection.read(with_references(items), settings.cache) for name, items in sets.items()}
        source.release()
        yield augmented, provenance
