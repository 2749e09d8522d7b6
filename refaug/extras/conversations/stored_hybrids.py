"""Hybrids of a home: the facts of a version, and its figures for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.options.declaring import Doc
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts
from refaug.tables.reports.table import Description, FactList, Table

_OTHER: Final = {"common": "published form", "fold": "icpt:common"}  # the column of the other intercept
_FORM_BESIDE: Final = {"common": "fold", "fold": "common"}


@dataclass(frozen=True, kw_only=True)
class HybridFacts(VersionFacts):
    """The facts of a version of a hybrid."""

    columns: Annotated[str | None, Doc("the set of columns that it adds")] = None
    conversations: Annotated[int | None, Doc("the conversations that it was fitted to")] = None
    bots: Annotated[list[str] | None, Doc("the bots of these conversations")] = None
    target: Annotated[str | None, Doc("the rating that it was fitted to; mean: that of all")] = None


class StoredHybrids(StoredArtefacts):
    """Hybrid metrics of conversations that were fitted to ratings."""

    columns = ("columns", "conversations", "bots", "target")
    fact_type = HybridFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what a hybrid was fitted to."""
        fitted_to = {name: manifest["fitted_to"][name] for name in ("conversations", "bots")}
        return {"columns": manifest["columns"], **fitted_to, "target": manifest["fit"]["target"] or "mean"}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return what a hybrid was fitted to and made of, its coefficients, and its figures on bots left out."""
        from refaug.extras.conversations.hybrids import StoredHybrid, open_hybrid  # noqa: PLC0415  scipy

        stored: StoredHybrid = open_hybrid(self.settings, f"{held.name}@{held.version}")
        more = {"weights": stored.weights.as_json(), "report": dict(stored.report)}

        def sections() -> list[Description]:
            fitted_to, weights = manifest["fitted_to"], stored.weights
            facts = {
                "columns": manifest["columns"],
                "conversations": fitted_to["conversations"],
                "bots": ", ".join(fitted_to["bots"]),
                "data": fitted_to["data"][:12],
                "seed": stored.settings.seed,
            }
            folds = list(weights.without.values())
            rows = [
                (name, *(f"{number:+.4f}" for number in (weights.all_bots.coefficients[place], min(own), max(own))))
                for place, name in enumerate(weights.columns)
                for own in [[fold.coefficients[place] for fold in folds]]
            ]
            coefficients = Table(
                "coefficients, a standard deviation of the column",
                ("column", "all bots", "least without one", "most without one"),
                rows,
            )
            return [FactList(title, facts), coefficients, *hybrid_sections(dict(stored.report))]

        return self.described(held, manifest, more, sections)


def hybrid_sections(report: dict[str, Any]) -> list[Description]:
    """Return the figures of a hybrid on bots that were left out, with all their controls."""
    intercept = report["intercept"]
    facts = {"conversations": report["conversations"], "unrated": report["unrated"], "bots": len(report["bots"])}
    if report["few_ratings"]:
        facts["of people with few ratings"] = report["few_ratings"]
    if missing := {name: count for name, count in report["missing"].items() if count}:
        facts["without"] = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    alone_figure = _digits(report["intercept_only"]["pearson"])
    facts["intercept alone"] = f"{alone_figure}: what the published form gives for nothing"
    sets = Table(
        f"agreement over bots (Pearson, icpt:{intercept})",
        ("columns", "r", "95 %", "shuffled ratings", "in folds", "p", "shown", _OTHER[intercept], "within bots"),
        [_set_row(name, figures, intercept) for name, figures in report["sets"].items()],
    )
    alone = Table(
        "each column alone: correlation of the bots' means, without a fit",
        ("column", "Pearson", "Spearman", "within bots"),
        [
            (name, _digits(figures["pearson"]), _digits(figures["spearman"]), _digits(report["within_alone"][name]))
            for name, figures in report["alone"].items()
        ],
    )
    reason = next(iter(report["sets"].values()))["agreement"]["common"]["reason"]
    comparisons = [
        _comparison(name, comparison)
        for name, comparison in report["against_counts"].items()
        if comparison["interval"] is not None
    ]
    title = f"{report['name']}, one bot left out at a time"
    return [report["signature"], FactList(title, facts), sets, *([reason] if reason else []), alone, *comparisons]


def _comparison(name: str, comparison: Mapping[str, Any]) -> str:
    """Return in words whether a set of columns is better than a plain count."""
    shown = "better, shown" if comparison["is_shown"] else "not shown to be better"
    bounds = _range(comparison["interval"])
    return f"{name} - {comparison['count']}: {comparison['difference']:+.3f} {bounds}: {shown}"


def _set_row(name: str, figures: dict[str, Any], intercept: str) -> tuple[str, ...]:
    """Return the figures of one set; where there is no correlation, its interval and its controls say nothing."""
    pearson = figures["agreement"][intercept]["pearson"]
    return (
        name,
        _digits(pearson),
        *(_range(figures[key]) if pearson is not None else _digits(None) for key in ("interval", "shuffled_ratings")),
        _mean(figures["shuffled_in_folds"] if pearson is not None else None),
        _digits(figures["permuted_bots"]["p"] if pearson is not None else None),
        "yes" if figures["is_shown"] else "no",
        _digits(figures["agreement"][_FORM_BESIDE[intercept]]["pearson"]),
        _digits(figures["within_bots"]),
    )


def _range(interval: dict[str, Any]) -> str:
    return f"[{interval['low']:.2f}, {interval['high']:.2f}]"


def _mean(control: dict[str, Any] | None) -> str:
    """Return a mean with its standard error."""
    if control is None or control["mean"] is None:
        return "–"
    return f"{control['mean']:.2f} ± {control['error']:.2f}"


def _digits(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"
