"""Options for retrieving and weighting references, shared by `refs`, `score --index` and `sets freeze`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.field_options import typed_names
from refaug.cli.shared.index_options import ModeOption, parse_time
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.items import BadItem
from refaug.evaluation.scoring.presets import Preset, find_preset
from refaug.indexer.search.search_settings import MAX_REFERENCES, SearchSettings
from refaug.rater.rating_settings import RatingSettings

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
CountOption = Annotated[int, typer.Option("-k", help="How many references to find.", min=1, max=MAX_REFERENCES)]
GoldOption = Annotated[str, typer.Option("--gold", help="What a gold weighs: one, or rated; none: golds play no part.")]
ParrotOption = Annotated[
    str, typer.Option("--parrot", help="The utterance itself as a reference: rated, off, or its weight.")
]
WeightsOption = Annotated[
    str, typer.Option("--reference-weights", help="What references that are found weigh: rated, or one.")
]
CombineOption = Annotated[
    str, typer.Option("--combine", help="first, first-literal, max, confident or mean: see the page on raters.")
]
CalibratedFlag = Annotated[bool, typer.Option("--calibrated", help="Rate with the rater's temperature.")]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="tsuta20: every setting as in the code of Tsuta et al. (2020).", metavar="NAME"),
]
ExcludeLogOption = Annotated[
    list[str] | None, typer.Option("--exclude-log", help="A log to take nothing from; may be repeated.", metavar="LOG")
]
AfterOption = Annotated[str | None, typer.Option("--after", help="Only pairs at or after this time.", metavar="TIME")]
BeforeOption = Annotated[str | None, typer.Option("--before", help="Only pairs before this time.", metavar="TIME")]


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions:
    """The options of retrieval and rating, as typed; a group of options."""

    k: CountOption = SearchSettings.k
    mode: ModeOption = SearchSettings.mode
    gold: GoldOption = AugmentSettings.gold
    parrot: ParrotOption = str(AugmentSettings.parrot)
    reference_weights: WeightsOption = AugmentSettings.weights
    combine: CombineOption = RatingSettings.combine
    calibrated: CalibratedFlag = False
    exclude_log: ExcludeLogOption = None
    after: AfterOption = None
    before: BeforeOption = None
    preset: PresetOption = None

    @property
    def chosen_preset(self) -> Preset | None:
        """The preset of this name; Usage where there is none."""
        return find_preset(self.preset)

    def require_used(
        self, context: typer.Context, index: str | None, rater: str | None, *, rates: bool, scores: bool = False
    ) -> None:
        """Raise Usage where an option has no effect.

        With `rates` the rater rates replies in any case, with `scores` a preset is for the metric in any case.
        """
        if index is None:
            self._require_none(rates=rates, scores=scores)
        elif rater is not None and not rates and not self.settings(context).needs_rater:
            raise Usage("--rater, and nothing is to be rated", remedy="leave --rater out, or ask for rated weights")

    def _require_none(self, *, rates: bool, scores: bool) -> None:
        self.require_unchanged(
            "without --index",
            remedy="--index NAME: refaug index list",
            except_for=(*(("combine", "calibrated") if rates else ()), *(("preset",) if scores else ())),
        )

    def require_unchanged(self, why: str, *, remedy: str, except_for: Sequence[str] = ()) -> None:
        """Raise Usage where an option has another setting than its default."""
        is_changed = {
            "-k" if field.name == "k" else f"--{field.name.replace('_', '-')}": getattr(self, field.name)
            != field.default
            for field in fields(self)
            if field.name not in except_for
        }
        if ignored := [name for name, changed in is_changed.items() if changed]:
            raise Usage(f"{', '.join(ignored)} {why}", remedy=remedy)

    def settings(self, context: typer.Context) -> AugmentSettings:
        """Return the checked settings; Usage where an option that was typed contradicts the preset."""
        options: dict[str, Any] = {
            "k": self.k,
            "mode": self.mode,
            "gold": self.gold,
            "parrot": _parrot(self.parrot),
            "weights": self.reference_weights,
            "combine": self.combine,
            "calibrated": self.calibrated,
        }
        if (preset := self.chosen_preset) is not None:
            typed = {name.removeprefix("reference_") for name in typed_names(context)}
            options = preset.complete(preset.references, {name: options[name] for name in options if name in typed})
        return AugmentSettings.from_options(
            **options,
            exclude_logs=self.exclude_log or (),
            after=parse_time("--after", self.after),
            before=parse_time("--before", self.before),
            preset=preset.name if preset is not None else None,
        )


def _parrot(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


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
