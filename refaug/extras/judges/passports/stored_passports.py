"""Passports of a home: the facts of a version, what people see of it, and how one is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from refaug.core.artefacts.manifests import write_manifest
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.files import make_folder, read_json, remove_tree, write_json
from refaug.core.home import Settings
from refaug.core.options.declaring import Doc
from refaug.extras.judges.passports.binding import FORMAT_VERSION, KIND, PASSPORT, open_passport, passport_versions
from refaug.scoring.home.stored_artefacts import ShownVersion, StoredArtefacts, VersionFacts
from refaug.tables.reports.table import Description, FactList, Table


@dataclass(frozen=True, kw_only=True)
class PassportFacts(VersionFacts):
    """The facts of a version of a passport."""

    judge: Annotated[str | None, Doc("the judge that it is of")] = None
    rubric: Annotated[str | None, Doc("the rubric that it holds for")] = None
    certified: Annotated[bool | None, Doc("whether the judge is worth what was asked")] = None


class StoredPassports(StoredArtefacts):
    """What judges were found to be worth."""

    columns = ("judge", "rubric", "certified")
    fact_type = PassportFacts

    def read_facts(self, folder: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the judge of a passport, its rubric, and the verdict."""
        figures: Any = read_json(folder / PASSPORT)
        return {
            "judge": str(figures["judge"]),
            "rubric": str(figures["binding"]["rubric"]),
            "certified": bool(figures["certified"]),
        }

    def shown(self, held: HeldVersion, manifest: dict[str, Any], title: str) -> ShownVersion:
        """Return the figures of a passport; it holds no texts."""
        figures = open_passport(self.settings, f"{held.name}@{held.version}").figures
        return self.described(held, manifest, {"passport": dict(figures)}, lambda: passport_sections(title, figures))


def save_passport(settings: Settings, name: str, figures: Mapping[str, Any]) -> str:
    """Write a new version of a passport and publish it; return the version."""
    versions, staged = passport_versions(settings), settings.cache / f"{KIND}-{name}"
    with versions.writing(name, f"certifying {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        write_json(staged / PASSPORT, dict(figures))
        write_manifest(staged, KIND, FORMAT_VERSION, [PASSPORT], {"judge": figures["judge"]})
        version = writer.add(staged)
        writer.publish(version)
    return version


def passport_sections(title: str, figures: Mapping[str, Any]) -> list[Description]:
    """Return the figures of a passport for people."""
    facts = {
        "judge": figures["judge"],
        "certified": "yes" if figures["certified"] else "; ".join(figures["why_not"]),
        "model": figures["binding"]["model"],
        "rubric": figures["binding"]["rubric"],
        "answered_by": figures["answered_by"]["name"],
        "labels": f"{figures['labels']:,} in {figures['contexts']:,} contexts",
        "spread": f"{figures['spread']['answers']:.3f} of the scale, over answers to one question",
    }
    return [
        FactList(title, facts),
        Table("agreement with people", ("figure", "value", "interval"), list(_agreement_rows(figures))),
        Table("probes", ("probe", "effect", "p (Holm)", "found"), [_probe_row(one) for one in figures["probes"]]),
        Table(
            "references shown to the judge",
            ("shown", "Spearman", "adds", "interval"),
            [_reference_row(name, one) for name, one in figures["references"].items()],
        ),
        Table(
            "maps to people's scale, on contexts that they did not see",
            ("map", "error", "pays from labels"),
            [(name, _digits(one["error"]), one["pays_from"] or "-") for name, one in figures["calibration"].items()],
        ),
    ]


def _agreement_rows(figures: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    for name, one in figures["agreement"].items():
        yield name, _digits(one["value"]), _interval(one.get("interval"))
    people = figures["ceiling"]
    yield f"people with people, {people['figure']}", _digits(people["value"]), people.get("why", "")
    for name, one in figures["beside"].items():
        yield name, _digits(one.get("value")), one.get("why") or _interval(one.get("interval"))


def _probe_row(probe: Mapping[str, Any]) -> Sequence[object]:
    if probe["p_holm"] is None:
        return probe["probe"], _digits(probe["effect"]), "-", probe.get("why", "not known")
    effect = f"{_digits(probe['effect'])} {_interval(probe['interval'])}"
    return probe["probe"], effect, f"{probe['p_holm']:.4f}", "yes" if probe["found"] else "no"


def _reference_row(name: str, one: Mapping[str, Any]) -> Sequence[object]:
    if "adds" not in one:
        return name, _digits(one["spearman"]), "-", "-"
    adds = _digits(one["adds"]) if one["shown"] else "not shown"
    return name, _digits(one["spearman"]), adds, _interval(one["interval"])


def _digits(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.3f}"


def _interval(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None or bounds[0] is None else f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
