"""What `refaug rater …` and `refaug ruber …` share: the options of a training, what is told of it, and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from core.artefacts import verify_files
from core.errors import Corrupt, Usage
from core.files import read_json
from service.cli.common import (
    MemoryOption,
    counted,
    print_facts,
    print_json,
    print_line,
    print_published,
    print_table,
)
from service.cli.progress import ShownProgress, shown_progress
from service.settings import Settings

if TYPE_CHECKING:
    from core.versions import Versions
    from rater.loop import EpochFigures, Now, TrainConfig
    from rater.orders import Made

ThreadsOption = Annotated[
    int | None, typer.Option(help="Threads; by default one for each core.", metavar="N", min=1, max=1024)
]
_SAY_EVERY_S: Final = 15.0
_SHOWN: Final = 200  # characters of a text in a table

FactsOfReport = Callable[[Any], dict[str, Any]]


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Sizes(Protocol):
    """Of a preset, what is used where nothing else is said."""

    @property
    def epochs(self) -> int:
        """At most so many."""

    @property
    def decay(self) -> Any:
        """How the learning rate falls."""

    @property
    def dropout(self) -> float:
        """Share of an embedding's numbers left out."""

    @property
    def start(self) -> Any:
        """Of the embeddings."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a network is to be trained, as it was typed; a group of options."""

    more_texts: Annotated[
        list[str] | None,
        typer.Option(
            "--more-texts",
            help="A further log: its turns teach which pieces there are and which are alike, and no examples are made "
            "of it; may be repeated.",
            metavar="LOG",
        ),
    ] = None
    epochs: Annotated[int | None, typer.Option(help="At most so many; by default the preset's.", min=1)] = None
    patience: Annotated[int, typer.Option(help="Epochs without a lower validation loss that end it.", min=1)] = 3
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3
    decay: Annotated[
        str | None,
        typer.Option(
            help="none, or linear: after a fifth of all epochs the learning rate falls to a fiftieth at their end; by "
            "default the preset's."
        ),
    ] = None
    dropout: Annotated[
        float | None, typer.Option(help="Share of an embedding's numbers left out in a batch; by default the preset's.")
    ] = None
    batch: Annotated[int | None, typer.Option(help="Examples a batch; by default the preset's.", min=1)] = None
    accumulate: Annotated[int, typer.Option(help="Batches a step.", min=1)] = 1
    max_tokens: Annotated[int, typer.Option(help="Pieces of a text that are read.", min=1)] = 128
    validation_share: Annotated[float, typer.Option(help="Of the utterances, never trained on.")] = 0.05
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="What they start from: vectors of the pieces, learnt from the logs first, or random numbers; by "
            "default the preset's."
        ),
    ] = None
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu"
    seed: Annotated[int, typer.Option(help="Another seed, another network.", min=0, max=2**32 - 1)] = 1
    threads: ThreadsOption = None
    memory: MemoryOption = "2GiB"
    publish: Annotated[bool, typer.Option(help="Let it be what its name stands for from now on.")] = True
    again: Annotated[
        bool, typer.Option("--again", help="Train even if the published version was made of exactly this.")
    ] = False

    def config(self, sizes: Sizes) -> TrainConfig:
        """What was typed, and where nothing was, what the preset says."""
        from rater.loop import TrainConfig  # noqa: PLC0415  torch
        from service.retrieval import cores  # noqa: PLC0415  compiles

        return TrainConfig(
            epochs=sizes.epochs if self.epochs is None else self.epochs,
            patience=self.patience,
            learning_rate=self.learning_rate,
            decay=sizes.decay if self.decay is None else self.decay,  # type: ignore[arg-type]
            dropout=sizes.dropout if self.dropout is None else self.dropout,
            accumulate=self.accumulate,
            seed=self.seed,
            device=self.device,
            threads=self.threads or cores(),
        )

    def start(self, sizes: Sizes) -> Any:
        """What the embeddings start from."""
        return sizes.start if self.embeddings is None else self.embeddings


class Told:
    """Says now and then where the training is."""

    def __init__(self, progress: ShownProgress) -> None:
        self._progress, self._said = progress, monotonic()

    def __call__(self, now: Now) -> None:
        """Nothing, if it has just spoken."""
        if monotonic() - self._said < _SAY_EVERY_S:
            return
        self._said = monotonic()
        self._progress.say(
            f"epoch {now.epoch}, batch {now.step:,} of {now.steps:,}: loss {now.loss:.4f}, "
            f"accuracy {now.accuracy:.3f}, {now.examples_a_second:,.0f} examples/s, "
            f"at most {now.seconds_left / 60:,.0f} min left"
        )


def told_of_epochs(progress: ShownProgress) -> Callable[[EpochFigures], None]:
    """Says what each epoch came to."""

    def say(figures: EpochFigures) -> None:
        progress.say(
            f"epoch {figures.epoch}: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
            f"accuracy {figures.validation_accuracy:.3f}, AUC {figures.auc:.3f}, {figures.seconds:.0f} s"
        )

    return say


def print_made(kind: str, made: Made, facts: FactsOfReport, *, as_json: bool) -> None:
    """What came of a training."""
    if as_json:
        print_json(
            {
                "name": made.name,
                "version": made.version,
                "id": made.id,
                "published": made.published,
                "new": made.is_new,
                "report": dict(made.report),
            }
        )
        return
    note = {} if made.is_new else {"note": "made of exactly this before: nothing to do; --again trains it anew"}
    print_facts(
        f"{kind} {made.name}@{made.version}",
        {"id": made.id[:12], "published": made.published, **note, **facts(made.report)},
    )


# ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────


def print_list(settings: Settings, kind: str, *, as_json: bool) -> None:
    """All of a kind with their versions; the published one is marked."""
    networks = _stored(settings, kind)
    rows = [
        _listed(networks.folder(name, version), name, version, current=version == networks.current(name))
        for name in networks.names()
        for version in networks.versions(name)
    ]
    if as_json:
        print_json({f"{kind}s": rows})
    elif rows:
        print_table(f"{kind}s in {networks.root}", list(rows[0]), [list(row.values()) for row in rows])
    else:
        print_line(f"no {kind}s in {networks.root} yet: refaug {kind} train LOG")


def _stored(settings: Settings, kind: str) -> Versions:
    from service.artefacts import stored  # noqa: PLC0415

    return stored(settings)[kind]


def _listed(folder: Path, name: str, version: str, *, current: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "version": version, "published": current}
    try:
        manifest, report = _manifest_and_report(folder)
    except Corrupt as error:
        return {**row, "hidden": None, "auc_good_vs_wrong": None, "id": error.message}
    auc = report.get("auc_good_vs_wrong")
    return {
        **row,
        "hidden": manifest["config"].get("hidden"),
        "auc_good_vs_wrong": None if auc is None else round(float(auc), 4),
        "id": str(manifest.get("id"))[:12],
    }


def _manifest_and_report(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both as they were written, or Corrupt; neither weights nor torch are touched."""
    manifest: dict[str, Any] = read_json(folder / "manifest.json")
    for name in ("config", "details", "files"):
        if not isinstance(manifest.get(name), dict):
            raise Corrupt(f"{folder / 'manifest.json'} has no {name}", remedy="restore it from a backup")
    files = {name: facts for name, facts in manifest["files"].items() if name == "report.json"}
    verify_files(folder, {"files": files})
    return manifest, read_json(folder / "report.json") if files else {}


def print_shown(settings: Settings, kind: str, spec: str, facts: FactsOfReport, *, as_json: bool) -> None:
    """How a network was made, and how good it is."""
    with _stored(settings, kind).open(spec) as held:
        manifest, report = _manifest_and_report(held.folder)
    if as_json:
        print_json({**manifest, "name": held.name, "version": held.version, "report": report})
        return
    columns = ("epoch", "train_loss", "validation_loss", "validation_accuracy", "auc", "seconds")
    try:
        made_of = {"id": str(manifest["id"])[:12], "logs": ", ".join(manifest["details"]["logs"])}
        known = {**made_of, **manifest["config"], **facts(report)}
        epochs = report["epochs"]
        rows = [[one["epoch"], *(f"{one[name]:.4f}" for name in columns[1:5]), one["seconds"]] for one in epochs]
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"the manifest or the report of {kind} {held.name}@{held.version} lacks what is to be shown: {error}",
            remedy="restore it from a backup; --json shows what is there",
        ) from error
    print_facts(f"{kind} {held.name}@{held.version}", known)
    print_table("epochs", columns, rows)


def print_texts(title: str, column: str, rows: Iterable[tuple[str, str]]) -> None:
    """A number and the text it is of, line by line; of a long text so much that a row can be told from others.

    The JSON of such a command has no texts, but all numbers in their order.
    """
    print_table(title, (column, "text"), [(number, _beginning(text)) for number, text in rows])


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def warn_of(told: str | None, settings: Settings) -> None:
    """Why what is said means little, if something speaks against it."""
    if told is not None:
        with shown_progress(quiet=settings.quiet) as progress:
            progress.warn(told)


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def publish(settings: Settings, kind: str, spec: str, *, as_json: bool) -> None:
    """Let a name stand for a version."""
    name, at, version = spec.partition("@")
    if not at:
        raise Usage(f"{spec!r} names no version", remedy=f"give NAME@VERSION: refaug {kind} list")
    _stored(settings, kind).publish(name, version)
    print_published(kind, name, version, as_json=as_json)


def rollback(settings: Settings, kind: str, name: str, to: str | None, *, as_json: bool) -> None:
    """Let the name stand for the version before again."""
    version = _stored(settings, kind).rollback(name, to)
    print_published(kind, name, version, as_json=as_json)


def gc(settings: Settings, kind: str, name: str, keep: int, *, as_json: bool) -> None:
    """Remove old versions; those stay that are published or being read."""
    removed = _stored(settings, kind).gc(name, keep)
    if as_json:
        print_json({kind: name, "removed": removed})
    else:
        listed = f": {', '.join(removed)}" if removed else ""
        print_line(f"{kind} {name}: {counted(len(removed), 'version')} removed{listed}")
