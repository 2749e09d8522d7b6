"""Writing a fitted judge as a version of its name."""

from __future__ import annotations

from collections.abc import Sequence

from refaug.core.artefacts.manifests import write_manifest
from refaug.core.files import make_folder, remove_tree, write_json
from refaug.core.home import Settings
from refaug.evaluation.fitted_judge.training import TrainedJudge
from refaug.evaluation.metric_setup.combined.stored_judge import FORMAT_VERSION, JUDGE, KIND, REPORT, judge_versions
from refaug.rater.adem.scorer.seen_texts import SEEN


def save_judge(
    settings: Settings,
    name: str,
    trained: TrainedJudge,
    metrics: Sequence[str],
    signatures: Sequence[str],
) -> str:
    """Write a new version of a judge and publish it; return the version."""
    versions = judge_versions(settings)
    staged = settings.cache / f"{KIND}-{name}"
    with versions.writing(name, f"fitting judge {name}") as writer:
        remove_tree(staged)
        make_folder(staged)
        write_json(staged / JUDGE, trained.judge.as_json())
        write_json(staged / REPORT, dict(trained.report))
        trained.seen.write(staged / SEEN)
        parts = {"metrics": list(metrics), "signatures": list(signatures)}
        write_manifest(staged, KIND, FORMAT_VERSION, [JUDGE, REPORT, SEEN], parts)
        version = writer.add(staged)
        writer.publish(version)
    return version
