"""A fitted judge on disk: weights and scales, the metrics by their specifications, and the texts it was fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refaug.core.artefacts.manifests import MANIFEST, content_id, describe_files, require_format, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import BadInput, Corrupt
from refaug.core.files import make_folder, read_json, remove_tree, with_checksum, write_json
from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.evaluation.agreement.rows import RatedRows
from refaug.evaluation.fitted_judge.fit import CombinedJudge
from refaug.evaluation.fitted_judge.training import TrainedJudge
from refaug.rater.adem.scorer.seen_texts import SEEN, SeenTexts

KIND: Final = "judge-fit"
FORMAT_VERSION: Final = 1
JUDGE: Final = "judge.json"
REPORT: Final = "report.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredJudge:
    """An opened judge with what its manifest says."""

    spec: str  # name@version#content
    judge: CombinedJudge
    metrics: tuple[str, ...]
    models: Mapping[str, str | None]  # the rater and others that the metrics ask
    seen: SeenTexts
    report: Mapping[str, Any]

    def unseen_rows(self, rated_rows: RatedRows) -> list[int]:
        """Return the rows whose texts the judge was not fitted to; raise BadInput where it has seen all of them."""
        unseen = [
            place
            for place, row in enumerate(rated_rows.rows)
            if not self.seen.contains(
                rated_rows.items[row.item].pair.turns,
                [reference.text for reference in rated_rows.items[row.item].pair.references],
                row.reply,
            )
        ]
        if rated_rows.rows and not unseen:
            raise BadInput(
                f"{self.spec.partition('#')[0]} was fitted to all {len(rated_rows.rows):,} replies of "
                f"{rated_rows.name}: its scores of them say nothing",
                remedy="score other items, or fit a judge to other ratings",
            )
        return unseen


def judge_versions(settings: Settings) -> Versions:
    """Return the versions of this home's fitted judges."""
    return Versions(settings.fitted_judges, KIND)


def save_judge(
    settings: Settings, name: str, trained: TrainedJudge, metrics: Sequence[str], models: Mapping[str, str | None]
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
        files = describe_files(staged, [JUDGE, REPORT, SEEN])
        parts = {"metrics": list(metrics), "models": dict(models)}
        manifest = {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "id": content_id({"files": files}, parts),
            **parts,
            "files": files,
            "refaug": VERSION,
        }
        write_json(staged / MANIFEST, with_checksum(manifest))
        version = writer.add(staged)
        writer.publish(version)
    return version


def open_judge(settings: Settings, spec: str) -> StoredJudge:
    """Open a judge by name or name@version; files that were altered are refused."""
    with judge_versions(settings).open(spec) as held:
        path = held.folder / MANIFEST
        manifest: dict[str, Any] = read_json(path)
        require_format(path, manifest, KIND, FORMAT_VERSION)
        verify_files(held.folder, manifest)
        judge = CombinedJudge.read(read_json(held.folder / JUDGE), str(held.folder / JUDGE))
        try:
            return StoredJudge(
                spec=f"{held.name}@{held.version}#{str(manifest['id'])[:12]}",
                judge=judge,
                metrics=tuple(map(str, manifest["metrics"])),
                models=dict(manifest["models"]),
                seen=SeenTexts.read(held.folder / SEEN),
                report=read_json(held.folder / REPORT),
            )
        except (KeyError, TypeError) as error:
            raise Corrupt(f"{path} lacks {error}", remedy="restore it, or fit the judge again") from error
