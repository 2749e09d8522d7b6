"""How much a rater's quality depends on its seed: figures of the versions that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import Versions
from refaug.core.files import read_json
from refaug.rater.network_folder import REPORT
from refaug.rater.training.accuracy import seed_spread

_FIGURES: Final = ("auc_good_vs_wrong", "validation_accuracy", "validation_loss")
_DECISIVE: Final = ("logs", "more_texts", "shared", "training", "examples", "encoder")  # of the details in a manifest


def with_other_seeds(report: Mapping[str, Any], raters: Versions, name: str, version: str) -> Mapping[str, Any]:
    """Return the report of a version with the spread over versions of its name that have other seeds.

    The report of a rater that is several networks has a spread already, and stays as it is.
    """
    if "seeds" in report:
        return report
    own = _recipe(raters, name, version)
    by_seed = dict[int, dict[str, float]]()
    for other in [version, *raters.versions(name)]:
        recipe = _recipe(raters, name, other)
        if recipe["others"] == own["others"] and recipe["seed"] not in by_seed:
            of_version: Any = read_json(raters.folder(name, other) / REPORT)
            by_seed[recipe["seed"]] = {figure: of_version[figure] for figure in _FIGURES}
    return {**report, "seeds": seed_spread(by_seed)} if len(by_seed) > 1 else report


def _recipe(raters: Versions, name: str, version: str) -> Mapping[str, Any]:
    """Return the seed of a version, and what else decides how it is."""
    manifest: Any = read_json(raters.folder(name, version) / MANIFEST)
    details = manifest["details"]
    others = {setting: _without_seed(details.get(setting)) for setting in _DECISIVE}
    seed = details["training"]["seed"]
    return {"seed": seed, "others": {**others, "network": manifest.get("network"), "config": manifest["config"]}}


def _without_seed(settings: Any) -> Any:
    """Return settings without what may differ between the versions; threads decide the last bits alone."""
    if not isinstance(settings, Mapping):
        return settings
    return {name: setting for name, setting in settings.items() if name not in ("seed", "threads")}
