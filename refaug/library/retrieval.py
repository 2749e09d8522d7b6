"""Weighted references of items, from an index and a rater that stay open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from refaug.core.errors import Usage
from refaug.core.installation import extras_named
from refaug.core.options.decoding import decode
from refaug.core.records import Item
from refaug.library.engine import Engine, engine_of
from refaug.library.inputs import parse_rows, to_rows
from refaug.library.results.parts import ArtefactVersions, ItemProblem
from refaug.library.results.referenced_items import ReferencedItem, ReferencedItems
from refaug.scoring.items import BadItem
from refaug.scoring.settings import AugmentSettings

if TYPE_CHECKING:
    from refaug.rater.language_coverage import Coverage
    from refaug.scoring.provenance import Provenance

# ── The settings of finding and weighing references, as the keys of a dict ────────────────────────────────────────────


def augment_settings(settings: Mapping[str, Any] | None) -> AugmentSettings:
    """Return checked settings; None stands for the default of one."""
    if settings is None:
        return AugmentSettings()
    if not isinstance(settings, Mapping):
        raise Usage(f"settings={settings!r} is not a dict", remedy='settings={"k": 5}')
    return decode(AugmentSettings, {name: setting for name, setting in settings.items() if setting is not None})


# ── Weighted references of items, from an index and a rater that stay open ────────────────────────────────────────────

OnError = Literal["fail", "report"]


@extras_named()
def references(
    items: Any,
    *,
    index: str,
    rater: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on_error: OnError = "fail",
    home: str | os.PathLike[str] | None = None,
) -> ReferencedItems:
    """Return weighted references for items, as `refaug sets references` writes them.

        found = refaug.references([{"utterance": "Where do you buy tea?"}], index="demo", rater="demo")
        found[0].references[0].text

    `settings` says how references are retrieved and weighed: `{"k": 5, "parrot": "rated"}` (docs/python.md).
    """
    from refaug.operations.references import RetrievalOptions  # noqa: PLC0415  `score` needs none of it

    options = RetrievalOptions(index=index, rater=rater, settings=augment_settings(settings))
    options.settings.require_rater(rater)
    parsed, warnings = parse_rows(to_rows(items), on_error=on_error)
    retrieved = retrieve_references(engine_of(home), parsed, index, rater, options.settings)
    return retrieved.as_result(parsed, warnings)


@dataclass(frozen=True, kw_only=True)
class RetrievedReferences:
    """Items with their references, and what these depend on."""

    augmented: Sequence[Item]
    provenance: Provenance
    warnings: tuple[str, ...]

    def as_items(self, parsed: Sequence[Item | BadItem]) -> list[Item | BadItem]:
        """Return the parsed items with their references, bad ones in their places."""
        augmented = iter(self.augmented)
        return [next(augmented) if isinstance(entry, Item) else entry for entry in parsed]

    def as_result(self, parsed: Sequence[Item | BadItem], warnings: tuple[str, ...]) -> ReferencedItems:
        """Return the result of `references`."""
        from refaug.scoring.augmentation import found_json  # noqa: PLC0415  torch
        from refaug.scoring.cases import evidence_of  # noqa: PLC0415  numpy

        line, provenance = self.provenance.line, self.provenance
        return ReferencedItems(
            items=tuple(ReferencedItem.of(found_json(one, line), evidence_of(one)) for one in self.augmented),
            versions=ArtefactVersions.of(provenance.settings),
            provenance={**provenance.settings, **provenance.details},
            problems=tuple(ItemProblem.of(entry) for entry in parsed if isinstance(entry, BadItem)),
            warnings=(*warnings, *self.warnings),
        )


def retrieve_references(
    engine: Engine, parsed: Sequence[Item | BadItem], index: str, rater: str | None, settings: AugmentSettings
) -> RetrievedReferences:
    """Find references of all items, as the command does, except of those that are known already."""
    from refaug.scoring import augmentation  # noqa: PLC0415  torch
    from refaug.scoring.provenance import references_provenance  # noqa: PLC0415

    weigher = engine.rater(rater) if rater is not None and settings.needs_rater else None
    reference_index = engine.index(index)
    settings.require_rater(weigher)
    augmentation.require_preset_index(reference_index, settings)
    items = [entry for entry in parsed if isinstance(entry, Item)]
    lookup = augmentation.ReferenceLookup(engine.known_references, reference_index, weigher, items, settings)
    found: list[Item] = []
    coverages: list[Coverage] = []
    for batch, of_batch in augmentation.augmented_batches(lookup.missing_items(), reference_index, weigher, settings):
        found += (one for one in batch if isinstance(one, Item))
        coverages += of_batch
    lookup.add(found, coverages)
    augmented, warnings = lookup.augmented()
    return RetrievedReferences(
        augmented=augmented,
        provenance=references_provenance(reference_index, weigher, settings),
        warnings=warnings,
    )
