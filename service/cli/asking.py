"""Models that metrics ask, as options: what `score`, `meta` and `meta probe` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Usage
from core.progress import Progress
from service.settings import Settings

if TYPE_CHECKING:
    from metrics.base import Metric
    from service.augment import AugmentSettings

RuberOption = Annotated[
    str | None, typer.Option("--ruber", help="Ruber that the metric ruber asks: name or name@version.", metavar="NAME")
]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample",
        help="Index whose log says what counts as 0 and 1 of the parts of the metric ruber: name or name@version.",
        metavar="NAME",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Whom metrics ask beside a rater; a group of options."""

    ruber: RuberOption = None
    sample: SampleOption = None

    def require_named(self, specifications: Sequence[str], rater: str | None, *, index: str | None = None) -> bool:
        """Whether the metrics have a use for a rater; Usage where somebody is missing or idle, before any work.

        Where an index is named that references are found in, it is the one that is sampled too, unless another is.
        """
        from service.asked_metrics import Wants  # noqa: PLC0415  compiles

        wants = [Wants.of(text) for text in specifications]
        for one in wants:
            if one.rater and rater is None:
                raise Usage(f"{one.name} needs a rater, and none is named", remedy="--rater NAME: refaug rater list")
            if one.ruber and self.ruber is None:
                raise Usage(f"{one.name} needs a ruber, and none is named", remedy="--ruber NAME: refaug ruber list")
            if one.sample and self.sample is None and index is None:
                raise Usage(
                    f"{one.name} needs an index, to see what its parts give to replies of a log, and none is named",
                    remedy="--sample NAME: refaug index list; or norm=none",
                )
        if self.ruber is not None and not any(one.ruber for one in wants):
            raise Usage("--ruber without a metric that asks it", remedy="-m ruber, or leave --ruber out")
        if self.sample is not None and not any(one.sample for one in wants):
            raise Usage("--sample without a metric that looks at it", remedy="-m ruber, or leave --sample out")
        return any(one.rater or one.weigher for one in wants)

    def bound(
        self,
        settings: Settings,
        metrics: Sequence[Metric],
        *,
        rater: str | None,
        index: str | None = None,
        augmenting: AugmentSettings | None = None,
        threads: int | None,
        progress: Progress,
    ) -> list[Metric]:
        """The same metrics, bound to those whom they ask: `rater` and `index` by a name, or as signatures name them."""
        if not any(one.info.needs_rater or one.info.needs_ruber for one in metrics):
            return list(metrics)
        from service.ruber_scores import Named, with_parts  # noqa: PLC0415  torch

        named = Named(rater=_plain(rater), ruber=self.ruber, sample=_plain(self.sample or index), threads=threads)
        return with_parts(metrics, settings, named, augmenting, progress)


def _plain(spec: str | None) -> str | None:
    """`name@version` of `name@version#content`."""
    return None if spec is None else spec.partition("#")[0]
