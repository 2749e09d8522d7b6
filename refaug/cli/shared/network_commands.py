"""What `refaug rater …` and `refaug ruber …` share: options of training, its progress, lists and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from refaug.cli.shared import output
from refaug.cli.shared.database import record_act
from refaug.cli.shared.progress import ProgressDisplay, display_progress
from refaug.cli.shared.version_commands import FactsOfVersion, VersionCommands
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import verify_files
from refaug.core.errors import Corrupt
from refaug.core.files import read_json
from refaug.core.home import Settings

if TYPE_CHECKING:
    from refaug.rater.training.loop import EpochFigures, OnEpoch, OnNow, TrainingStatus
    from refaug.rater.training.order import TrainedVersion

ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
_REPORT_EVERY_S: Final = 15.0
_LONGEST_SHOWN: Final = 200  # characters of a text in a table

FactsOfReport = Callable[[Any], dict[str, Any]]


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class BatchReporter:
    """Reports the state of a training every few seconds."""

    def __init__(self, progress: ProgressDisplay) -> None:
        self._progress, self._said = progress, monotonic()

    def __call__(self, state: TrainingStatus) -> None:
        """Report the state, unless the last report is recent."""
        if monotonic() - self._said < _REPORT_EVERY_S:
            return
        self._said = monotonic()
        self._progress.say(
            f"epoch {state.epoch}, batch {state.step:,} of {state.steps:,}: loss {state.loss:.4f}, "
            f"accuracy {state.accuracy:.3f}, {state.examples_a_second:,.0f} examples/s, "
            f"at most {state.seconds_left / 60:,.0f} min left"
        )


def epoch_reporter(progress: ProgressDisplay) -> Callable[[EpochFigures], None]:
    """Return a function that reports the figures of each epoch."""

    def say(figures: EpochFigures) -> None:
        progress.say(
            f"epoch {figures.epoch}: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
            f"accuracy {figures.validation_accuracy:.3f}, AUC {figures.auc:.3f}, {figures.seconds:.0f} s"
        )

    return say


def run_training(
    settings: Settings,
    kind: str,
    train: Callable[[ProgressDisplay, OnNow, OnEpoch], TrainedVersion],
    facts: FactsOfReport,
    *,
    as_json: bool,
) -> None:
    """Train, show the progress, and print the version that this made."""
    with display_progress(quiet=settings.quiet) as progress:
        trained = train(progress, BatchReporter(progress), epoch_reporter(progress))
    if trained.published and trained.is_new:
        record_act(settings, "publish", f"{kind} {trained.name}@{trained.version}")
    print_training_result(kind, trained, facts, as_json=as_json)


def print_training_result(kind: str, network_version: TrainedVersion, facts: FactsOfReport, *, as_json: bool) -> None:
    """Print the new version, or the existing one if the training was not necessary."""
    if as_json:
        output.print_json(
            {
                "name": network_version.name,
                "version": network_version.version,
                "id": network_version.id,
                "published": network_version.published,
                "new": network_version.is_new,
                "report": dict(network_version.report),
            }
        )
        return
    note = (
        {} if network_version.is_new else {"note": "made of exactly this before: nothing to do; --again trains it anew"}
    )
    output.print_facts(
        f"{kind} {network_version.name}@{network_version.version}",
        {
            "id": network_version.id[:12],
            "published": network_version.published,
            **note,
            **facts(network_version.report),
        },
    )


# ── listing and showing ───────────────────────────────────────────────────────────────────────────────────────────────


def _facts_in_list(kind: str, folder: Path) -> dict[str, Any]:
    try:
        manifest, report = manifest_and_report(folder)
    except Corrupt as error:
        network = {"network": None} if kind == "rater" else {}
        return {**network, "hidden": None, "auc_good_vs_wrong": None, "id": error.message}
    auc = report.get("auc_good_vs_wrong")
    return {
        **({"network": manifest.get("network", "nn")} if kind == "rater" else {}),
        "hidden": manifest["config"].get("hidden"),
        "auc_good_vs_wrong": None if auc is None else round(float(auc), 4),
        "id": str(manifest.get("id"))[:12],
    }


def manifest_and_report(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read manifest and report, or raise Corrupt; neither weights nor torch are loaded."""
    manifest: dict[str, Any] = read_json(folder / "manifest.json")
    for name in ("config", "details", "files"):
        if not isinstance(manifest.get(name), dict):
            raise Corrupt(f"{folder / 'manifest.json'} has no {name}", remedy="restore it from a backup")
    files = {name: facts for name, facts in manifest["files"].items() if name == "report.json"}
    verify_files(folder, {"files": files})
    return manifest, read_json(folder / "report.json") if files else {}


def print_network(settings: Settings, kind: str, spec: str, facts: FactsOfReport, *, as_json: bool) -> None:
    """Print how a network was made, and how good it is."""
    with artefact_stores(settings)[kind].open(spec) as open_version:
        manifest, report = manifest_and_report(open_version.folder)
    if as_json:
        output.print_json({**manifest, "name": open_version.name, "version": open_version.version, "report": report})
        return
    columns = ("epoch", "train_loss", "validation_loss", "validation_accuracy", "auc", "seconds")
    try:
        made_of = {"id": str(manifest["id"])[:12], "logs": ", ".join(manifest["details"]["logs"])}
        network = {"network": manifest["network"]} if "network" in manifest else {}
        network_facts = {**made_of, **network, **manifest["config"], **facts(report)}
        epochs = report["epochs"]
        rows = [
            [epoch["epoch"], *(f"{epoch[name]:.4f}" for name in columns[1:5]), epoch["seconds"]] for epoch in epochs
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"the manifest or the report of {kind} {open_version.name}@{open_version.version} "
            f"lacks what is to be shown: {error}",
            remedy="restore it from a backup; --json shows what is there",
        ) from error
    output.print_facts(f"{kind} {open_version.name}@{open_version.version}", network_facts)
    output.print_table("epochs", columns, rows)


def print_texts(title: str, column: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a number and its text line by line; long texts are cut.

    The JSON of such a command has no texts, but all numbers in their order.
    """
    output.print_table(title, (column, "text"), [(number, _shorten(text)) for number, text in rows])


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def warn_about(warning: str | None, settings: Settings) -> None:
    """Print a warning, if there is one."""
    if warning is not None:
        with display_progress(quiet=settings.quiet) as progress:
            progress.warn(warning)


# ── versions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def network_version_commands(
    kind: str, name: Any, spec: Any, *, group: str = "", begin: str = "train", facts: FactsOfVersion | None = None
) -> VersionCommands:
    """Return the commands about versions of a kind of network; `name` and `spec` are the types of their arguments.

    `group` is the command group, if it does not have the name of the kind; `begin` makes a first version.
    """
    return VersionCommands(
        kind=kind,
        plural=f"{kind}s",
        name=name,
        spec=spec,
        helps={
            "list": f"All {kind}s with their versions; the published one is marked.",
            "publish": "Let a name stand for this version.",
            "rollback": "Let the name stand for the version that was published before again.",
            "gc": "Remove old versions; those stay that are published or being read.",
        },
        begin=begin,
        facts=facts or partial(_facts_in_list, kind),
        group=group or kind,
    )
