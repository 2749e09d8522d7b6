"""Agreement of metrics with people, as `refaug agreement` computes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from refaug.core.errors import Usage
from refaug.core.installation import extras_named
from refaug.core.options.decoding import decode
from refaug.core.records import Item
from refaug.library.engine import engine_of
from refaug.library.inputs import parse_rows, to_rows
from refaug.library.results.agreement_table import AgreementTable
from refaug.library.retrieval import OnError, RetrievedReferences, augment_settings, retrieve_references
from refaug.library.scoring import specifications_of
from refaug.operations.agreement import AgreementOptions
from refaug.scoring.items import BadItem
from refaug.scoring.settings import find_preset

ParsedSets = Mapping[str, list[Item | BadItem]]


@extras_named()
def meta(
    items: Any,
    *,
    metrics: str | Sequence[str] | None = None,
    baseline: str | None = None,
    index: str | None = None,
    rater: str | None = None,
    settings: Mapping[str, Any] | None = None,
    rows: Literal["fair", "all"] = "fair",
    draws: int = 10_000,
    confidence: float = 0.95,
    seed: int = 1,
    min_kappa: float | None = None,
    language: str | None = None,
    on_error: OnError = "fail",
    home: str | os.PathLike[str] | None = None,
) -> AgreementTable:
    """Return how far metrics agree with the ratings of people.

        table = refaug.meta(items, metrics=["bleu", "chrf"])
        table["chrf"].spearman, table.to_pandas()

    `items` are rated items (docs/items.md), or several test sets by name: `{"a": […], "b": […]}`. Every metric is
    compared with the baseline, by default the first, by a paired bootstrap over contexts.
    """
    from refaug.agreement.meta import agreement  # noqa: PLC0415  compiles
    from refaug.agreement.records import RatedItems  # noqa: PLC0415

    keywords = {
        "metrics": specifications_of(None, metrics),
        "baseline": baseline,
        "index": index,
        "rater": rater,
        "settings": augment_settings(settings),
        "rows": rows,
        "draws": draws,
        "confidence": confidence,
        "seed": seed,
        "min_kappa": min_kappa,
        "language": language,
    }
    options = decode(AgreementOptions, keywords)
    parsed_sets, warnings = _parse_sets(items, on_error)
    comparison = _Comparison(options, home)
    sets, retrieved = comparison.with_references(parsed_sets)
    chosen, first = comparison.metrics(sets)
    rated = [RatedItems(name=name, items=parsed) for name, parsed in sets.items()]
    computed = agreement(rated, chosen, options.meta_settings, baseline=first)
    versions = retrieved.provenance.settings if retrieved is not None else {}
    more = retrieved.warnings if retrieved is not None else ()
    return AgreementTable.of(computed, versions, (*warnings, *more))


def _parse_sets(items: Any, on_error: OnError) -> tuple[dict[str, list[Item | BadItem]], tuple[str, ...]]:
    by_name = items if isinstance(items, Mapping) and not _is_item(items) else {"items": items}
    sets, warnings = dict[str, list[Item | BadItem]](), list[str]()
    for name, listed in by_name.items():
        sets[str(name)], more = parse_rows(to_rows(listed), on_error=on_error)
        warnings += more
    if not sets:
        raise Usage("items={} has no test set", remedy='items=[…], or {"name": […]}')
    return sets, tuple(dict.fromkeys(warnings))


def _is_item(mapping: Mapping[Any, Any]) -> bool:
    return "replies" in mapping or "references" in mapping


class _Comparison:
    """The metrics of one call, and the references that they look at."""

    def __init__(self, options: AgreementOptions, home: str | os.PathLike[str] | None) -> None:
        self._options, self._engine = options, engine_of(home)
        requests = options.require_models(self._engine.home, options.metrics_named())
        self._asks_rater = any(request.rates_by_default for request in requests)
        self._retrieved: RetrievedReferences | None = None

    def with_references(self, sets: ParsedSets) -> tuple[ParsedSets, RetrievedReferences | None]:
        """Return the sets with further references where an index is named."""
        from refaug.scoring.provenance import with_provenance  # noqa: PLC0415  numpy

        order = self._options
        if order.index is None:
            return sets, None
        augmented, retrieved = dict[str, list[Item | BadItem]](), None
        for name, parsed in sets.items():
            retrieved = retrieve_references(self._engine, parsed, order.index, order.rater, order.settings)
            line = retrieved.provenance.line
            augmented[name] = [
                with_provenance(entry, line) if isinstance(entry, Item) else entry
                for entry in retrieved.as_items(parsed)
            ]
        self._retrieved = retrieved
        return augmented, retrieved

    def metrics(self, sets: ParsedSets) -> tuple[list[Any], str]:
        """Return the metrics, bound to their models, and the name of the baseline."""
        from refaug.agreement.records import choose_metrics  # noqa: PLC0415  compiles
        from refaug.metrics.base import Metric as MetricOfTexts  # noqa: PLC0415
        from refaug.scoring.metric_setup.metric_requests import metrics_of  # noqa: PLC0415
        from refaug.scoring.metric_setup.scoring_steps import bound_metrics  # noqa: PLC0415

        order, preset = self._options, find_preset(self._options.settings.preset)
        provenance = self._retrieved.provenance if self._retrieved is not None else None
        named = order.metrics_for(one for parsed in sets.values() for one in parsed)
        rating = order.settings
        by_default = {"combine": rating.combine, "cal": rating.calibration}
        set_baseline = self._engine.baselines.of(provenance.settings["index"]) if provenance is not None else None

        def build(text: str) -> MetricOfTexts:
            specification = preset.specification(text) if preset is not None else text
            return metrics_of([specification], order.language, by_default, set_baseline, source=self._engine)[0]

        chosen, first = choose_metrics(named, order.baseline, build)
        augmenting = order.settings if self._asks_rater or provenance is not None else None
        models = replace(self._engine, default_rater=order.rater)
        bound = bound_metrics([compared.metric for compared in chosen], models, provenance, augmenting=augmenting)
        return [replace(compared, metric=metric) for compared, metric in zip(chosen, bound, strict=True)], first
