"""Fitted judges of a home: the facts of a version, and what people see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.options.declaring import Doc
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts
from refaug.tables.reports.table import Description, FactList, Table


@dataclass(frozen=True, kw_only=True)
class JudgeFacts(VersionFacts):
    """The facts of a version of a fitted judge."""

    metrics: Annotated[list[str] | None, Doc("the metrics that it adds, with their settings")] = None


class StoredJudges(StoredArtefacts):
    """Judges that were fitted to people's ratings."""

    columns = ("metrics",)
    fact_type = JudgeFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the metrics of a judge."""
        return {"metrics": [str(metric) for metric in manifest["metrics"]]}

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return what a judge is made of, what it was fitted to, and its agreement with ratings it never saw."""
        from refaug.extras.judges.combined import open_judge  # noqa: PLC0415  scipy

        stored = open_judge(self.settings, f"{held.name}@{held.version}")
        more = {"fit": stored.judge.as_json(), "report": dict(stored.report)}
        return self.described(held, manifest, more, lambda: judge_sections(title, stored.report))


def judge_sections(title: str, report: Any) -> list[Description]:
    """Return the weights of a judge and its figures."""
    fitted = sum(counts["fitted"] for counts in report["sets"].values())
    facts = {
        "sets": ", ".join(report["sets"]),
        "fitted_to": f"{fitted:,} replies",
        "groups": report["groups"],
        "penalty": f"{report['penalty']:g}",
        "length_effect": f"{report['length_effect']:+.3f}",
    }
    weights = [(name, f"{weight:+.4f}") for name, weight in report["coefficients"].items()]
    agreement = [
        (name, _digits(figures["spearman"]), _digits(figures["partial_spearman"]))
        for name, figures in report["agreement"].items()
    ]
    return [
        FactList(title, facts),
        Table("weights", ("metric", "weight"), weights),
        Table("agreement with people, mean over sets", ("scores", "Spearman", "given length"), agreement),
        *report.get("notes", ()),
    ]


def _digits(figure: float | None) -> str:
    return "–" if figure is None else f"{figure:.3f}"
