"""What the commands on networks share: options of training, its progress, the version that it made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

from refaug.cli.shared import output
from refaug.cli.shared.database import record_act
from refaug.cli.shared.progress import ProgressDisplay, display_progress
from refaug.core.home import Settings
from refaug.scoring.home.stored_artefacts import stored_artefacts

if TYPE_CHECKING:
    from refaug.rater.training.loop import EpochFigures, TrainingStatus
    from refaug.rater.training.order import TrainedVersion

ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
_REPORT_EVERY_S: Final = 15.0
_LONGEST_SHOWN: Final = 200  # characters of a text in a table


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    train: Callable[..., TrainedVersion],  # with the progress, `on_now` and `on_epoch`
    *,
    as_json: bool,
) -> None:
    """Train, show the progress, and print the version that this made."""
    with display_progress(quiet=settings.quiet) as progress:
        trained = train(progress, on_now=BatchReporter(progress), on_epoch=epoch_reporter(progress))
    if trained.published and trained.is_new:
        record_act(settings, "publish", f"{kind} {trained.name}@{trained.version}")
    print_training_result(settings, kind, trained, as_json=as_json)


def print_training_result(settings: Settings, kind: str, network_version: TrainedVersion, *, as_json: bool) -> None:
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
            **stored_artefacts(settings, kind).report_facts(network_version.report),
        },
    )


# ── Scoring by hand ───────────────────────────────────────────────────────────────────────────────────────────────────


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
