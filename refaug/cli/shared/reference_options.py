"""The index that references are found in, opened for several commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.scoring.items import BadItem
from refaug.scoring.settings import AugmentSettings

if TYPE_CHECKING:
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.rater.rating import Rater
    from refaug.scoring.provenance import Provenance
    from refaug.scoring.spooled_items.item_collection import ItemCollection

IndexOption = Annotated[
    str | None,
    typer.Option("--index", help="Index that references are found in: name or name@version.", metavar="NAME"),
]


@contextmanager
def open_index_and_rater(
    settings: Settings, index: str, rater: str | None, augment_settings: AugmentSettings, threads: int | None
) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
    """Open index and rater as scoring does, imported at their use."""
    from refaug.scoring.metric_setup import scoring_steps  # noqa: PLC0415  torch

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
    from refaug.scoring.metric_setup.scoring_steps import open_references, without_origins  # noqa: PLC0415  torch
    from refaug.scoring.provenance import with_provenance  # noqa: PLC0415
    from refaug.scoring.spooled_items.item_collection import ItemCollection  # noqa: PLC0415  compiles

    with open_references(settings, index, rater, augment_settings, threads, progress, on) as source:
        provenance = source.provenance
        line, indexed = provenance.line, {"index": provenance.settings["index"].partition("#")[0]}

        def with_references(items: Iterable[Item | BadItem]) -> Iterator[Item | BadItem]:
            for augmented_item in source.augment(items, progress):
                if isinstance(augmented_item, BadItem):
                    yield augmented_item
                else:
                    yield with_provenance(without_origins(augmented_item, indexed), line)

        augmented = {name: ItemCollection(with_references(items), settings.cache) for name, items in sets.items()}
        source.release()
        yield augmented, provenance
