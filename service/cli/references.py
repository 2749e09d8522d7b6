"""How references are found and weighed, as options: what `refs`, `score --index` and `sets freeze` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from core.errors import Usage
from core.items import BadItem
from core.progress import Progress
from core.records import Item
from service.cli.index_common import ModeOption, moment
from service.settings import Settings

if TYPE_CHECKING:
    from indexer.index import ReferenceIndex
    from rater.rate import Rater
    from service.augment import AugmentSettings

IndexOption = Annotated[
    str | None,
    typer.Option("--index", help="Index that references are found in: name or name@version.", metavar="NAME"),
]
RaterOption = Annotated[
    str | None, typer.Option("--rater", help="Rater that weighs them: name or name@version.", metavar="NAME")
]
CountOption = Annotated[int, typer.Option("-k", help="How many references to find.", min=1, max=1_000)]
GoldOption = Annotated[str, typer.Option("--gold", help="What a gold weighs: one, or rated.")]
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
ExcludeLogOption = Annotated[
    list[str] | None, typer.Option("--exclude-log", help="A log to take nothing from; may be repeated.", metavar="LOG")
]
AfterOption = Annotated[str | None, typer.Option("--after", help="Only pairs at or after this time.", metavar="TIME")]
BeforeOption = Annotated[str | None, typer.Option("--before", help="Only pairs before this time.", metavar="TIME")]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says of retrieval and rating, as it was typed; a group of options."""

    k: CountOption = 15
    mode: ModeOption = "embedding-utterance"
    gold: GoldOption = "one"
    parrot: ParrotOption = "rated"
    reference_weights: WeightsOption = "rated"
    combine: CombineOption = "first"
    calibrated: CalibratedFlag = False
    exclude_log: ExcludeLogOption = None
    after: AfterOption = None
    before: BeforeOption = None

    def require_used(self, index: str | None, rater: str | None, *, rates: bool) -> None:
        """Usage where something was said that nothing looks at; `rates`: the rater is asked about replies anyway."""
        if index is None:
            self._require_none(rates=rates)
        elif rater is not None and not rates and not self.settings().needs_rater:
            raise Usage("--rater, and nothing is to be rated", remedy="leave --rater out, or ask for rated weights")

    def _require_none(self, *, rates: bool) -> None:
        looked_at = ("combine", "calibrated") if rates else ()
        said = {
            "-k" if one.name == "k" else f"--{one.name.replace('_', '-')}": getattr(self, one.name) != one.default
            for one in fields(self)
            if one.name not in looked_at
        }
        if ignored := [name for name, is_said in said.items() if is_said]:
            raise Usage(f"{', '.join(ignored)} without --index", remedy="--index NAME: refaug index list")

    def settings(self) -> AugmentSettings:
        """The same, checked."""
        from indexer.queries import SearchSettings  # noqa: PLC0415  compiles
        from rater.rate import RatingSettings  # noqa: PLC0415  torch
        from service.augment import AugmentSettings  # noqa: PLC0415

        return AugmentSettings(
            search=SearchSettings(
                k=self.k,
                mode=self.mode,  # type: ignore[arg-type]
                after=moment("--after", self.after),
                before=moment("--before", self.before),
                exclude_logs=tuple(self.exclude_log or ()),
            ),
            rating=RatingSettings(
                combine=self.combine,  # type: ignore[arg-type]
                calibration="cal" if self.calibrated else "raw",
            ),
            gold=self.gold,  # type: ignore[arg-type]
            parrot=_parrot(self.parrot),  # type: ignore[arg-type]
            weights=self.reference_weights,  # type: ignore[arg-type]
        )


def _parrot(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def opened(
    settings: Settings, index: str, rater: str | None, asked: AugmentSettings, threads: int | None
) -> Iterator[tuple[ReferenceIndex, Rater | None]]:
    """Index and rater; where a rater is needed and none is named, an error says so before anything is read."""
    from service.rating import open_rater  # noqa: PLC0415  torch
    from service.retrieval import open_index  # noqa: PLC0415

    if asked.needs_rater and rater is None:
        raise Usage(
            "something is to be rated, and no rater is named",
            remedy="--rater NAME, or --reference-weights one --parrot off",
        )
    weigher = open_rater(settings, rater, threads=threads) if rater is not None else None
    with open_index(settings, index, threads=threads) as found:
        yield found, weigher


class Made(NamedTuple):
    """What signatures say of the references."""

    by: Mapping[str, str]
    details: Mapping[str, str]


def augmented(
    settings: Settings,
    items: Sequence[Item | BadItem],
    index: str,
    rater: str | None,
    asked: AugmentSettings,
    threads: int | None,
    progress: Progress,
) -> tuple[list[Item | BadItem], Made]:
    """Items with the references that an index has for them, weighted; and what made those."""
    from service.augment import augment, provenance, provenance_details  # noqa: PLC0415

    with opened(settings, index, rater, asked, threads) as (found, weigher):
        further = [
            one if isinstance(one, BadItem) else one.item for one in augment(items, found, weigher, asked, progress)
        ]
        return further, Made(provenance(found, weigher, asked), provenance_details(found, asked))
