"""Freezing the items of a file, with the references that they came with or those of an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.scoring.items import BadItem, read_items
from refaug.scoring.metric_setup.scoring_steps import open_references
from refaug.scoring.reference_sets.reference_set import Purpose, SetDescription
from refaug.scoring.reference_sets.set_store import FreezeResult, ReferenceSets
from refaug.scoring.settings import AugmentSettings
from refaug.tables.table_request import TableRequest


class FreezeOrder(Protocol):
    """How items are frozen, as the operation has it."""

    @property
    def purpose(self) -> str: ...  # noqa: D102
    @property
    def index(self) -> str | None: ...  # noqa: D102
    @property
    def rater(self) -> str | None: ...  # noqa: D102
    @property
    def settings(self) -> AugmentSettings: ...  # noqa: D102
    @property
    def threads(self) -> int | None: ...  # noqa: D102
    @property
    def on(self) -> str | None: ...  # noqa: D102
    @property
    def table(self) -> TableRequest: ...  # noqa: D102


def freeze_file(
    home: Settings,
    order: FreezeOrder,
    path: Path,
    shown_name: str,
    check: Callable[[Sequence[BadItem]], None],
    progress: Progress,
) -> FreezeResult:
    """Freeze the items of a file; the same items make the same set, by a command or a job.

    `check` gets the items that cannot be frozen, and raises where nothing is to be frozen then.
    """
    sets, purpose = ReferenceSets(home.reference_sets), Purpose(order.purpose)
    listed = read_items(path, shown_name=shown_name, on_unknown_field=progress.warn, table=order.table)
    if order.index is None:
        progress.stage("freeze")
        supplied = SetDescription(purpose=purpose, how={"freeze": {"references": "given"}})
        return sets.freeze(listed, supplied, called=shown_name, check=check)
    notes = Counter[str]()
    with open_references(
        home, order.index, order.rater, order.settings, order.threads, progress, order.on
    ) as references:

        def with_references() -> Iterator[Item | BadItem]:
            for augmented in references.augment(listed, progress):
                if isinstance(augmented, Item) and "note" in augmented.search_notes:
                    notes[augmented.search_notes["note"]] += 1
                yield augmented

        retrieved = SetDescription(
            purpose=purpose,
            provenance=references.provenance.settings,
            details=references.provenance.details,
            how={"freeze": {"references": "found"}},
        )
        frozen = sets.freeze(with_references(), retrieved, called=shown_name, check=check)
    for note, count in notes.most_common():
        progress.warn(f"{count:,} {'item' if count == 1 else 'items'}: {note}")
    return frozen
