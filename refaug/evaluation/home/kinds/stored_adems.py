"""ADEMs of a home: the facts of a version, and how it was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.options.declaring import Doc
from refaug.evaluation.home.descriptions import FactList, Section, TitledTable
from refaug.evaluation.home.kinds.stored_networks import read_report
from refaug.evaluation.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts

_REASONS: Final = {
    "golds_themselves": "golds themselves",
    "without_context": "without a context",
    "without_gold": "without a gold",
}


@dataclass(frozen=True, kw_only=True)
class AdemFacts(VersionFacts):
    """The facts of a version of an ADEM."""

    form: Annotated[str | None, Doc("what it compares a reply with")] = None
    encoder: Annotated[str | None, Doc("the VHRED that its encoder is taken from")] = None
    validation_partial_spearman: Annotated[
        float | None, Doc("the agreement with ratings at equal length, on contexts that it was not fitted to")
    ] = None


def _left_out(files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return how many rated replies no scorer of the form learns from, and why; nothing where all count."""
    totals = {reason: sum(counts[reason] for counts in files) for reason in _REASONS}
    listed = [f"{total:,} {_REASONS[reason]}" for reason, total in totals.items() if total]
    return {"left_out": ", ".join(listed)} if listed else {}


def adem_figure(figure: float | None) -> str:
    """Return a figure with four digits, or a dash where there is none."""
    return "–" if figure is None else f"{figure:.4f}"


class StoredAdems(StoredArtefacts):
    """ADEMs: scorers that were fitted to people's ratings."""

    columns = ("form", "encoder", "validation_partial_spearman", "id")
    fact_type = AdemFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the form, the encoder, and the agreement on validation."""
        partial = read_report(folder, manifest)["validation"]["trained"]["partial_spearman"]
        return {
            "form": manifest["config"].get("form"),
            "encoder": str(manifest["encoder"]["spec"]),
            "validation_partial_spearman": None if partial is None else round(float(partial), 4),
        }

    def report_facts(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return the main facts of a report."""
        balance, spread, validation = report["balance"], report["spread"], report["validation"]
        return {
            "form": report["form"],
            "state": report["state"],
            "protocol": report["protocol"],
            **_left_out(report["files"]),
            "train_rows": report["train_rows"],
            "balanced_rows": balance["balanced_rows"],
            "dropped_rows": balance["dropped"],
            "length_rating_before": adem_figure(balance["length_rating_before"]),
            "length_rating_after": adem_figure(balance["length_rating_after"]),
            "components_share": adem_figure(report["components_share"]),
            "best_epoch": report["best_epoch"],
            "validation_rows": report["validation_rows"],
            "validation_error": adem_figure(report["validation_error"]),
            "validation_spearman": adem_figure(validation["trained"]["spearman"]),
            "validation_partial_spearman": adem_figure(validation["trained"]["partial_spearman"]),
            "before_training_spearman": adem_figure(validation["untrained"]["spearman"]),
            "sd_score_over_sd_rating": adem_figure(spread["sd_score_over_sd_rating"]),
            "share_near_mean": adem_figure(spread["share_near_mean"]),
        }

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return how a scorer was fitted, and how its scores spread."""
        report = read_report(held.folder, manifest)

        def sections() -> Sequence[Section]:
            matrices = report["matrices"]
            conicity = [
                (vectors, adem_figure(sides["encoder"]), adem_figure(sides["projected"]))
                for vectors, sides in report["spread"]["conicity"].items()
            ]
            return [
                FactList(title, {"id": str(manifest["id"])[:12], **self.report_facts(report)}),
                TitledTable("balancing", ("what", "number"), list(report["balance"].items())),
                TitledTable("matrices", list(matrices[0]), [list(facts.values()) for facts in matrices]),
                TitledTable(
                    "conicity: mean cosine with the mean vector", ("vectors", "of the encoder", "projected"), conicity
                ),
            ]

        return self.described(held, manifest, {"report": report}, sections)
