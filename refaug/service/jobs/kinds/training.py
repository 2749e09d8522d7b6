"""Jobs that train word vectors and raters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refaug.core.files import read_json
from refaug.indexer.vectors.training import train_vectors
from refaug.operations.train_vectors import TrainVectors
from refaug.operations.training import TrainRater
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import rater_places
from refaug.service.jobs.clusters import connected
from refaug.service.jobs.kinds.indexing import find_earlier_version
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import resolve_tokenizer

if TYPE_CHECKING:
    from refaug.rater.training.loop import EpochFigures
    from refaug.rater.training.order import TrainingOrder

_REPORT_FIELDS: Final = ("best_epoch", "validation_loss", "validation_accuracy", "auc_good_vs_wrong", "temperature")


def vectors_job(order: TrainVectors, context: JobContext) -> Mapping[str, Any]:
    """Count words and their neighbours, train vectors, and publish them."""
    places, name = places_of(context.home), order.vectors_name
    version = find_earlier_version(places.vectors, name, context)
    if version is None:
        vectors_order = order.order(
            threads=context.threads(order.threads),
            tokenizer=resolve_tokenizer(order.tokenizer, context.home, context.serve),
        )
        with connected(order.on, context.serve) as cluster:
            version = train_vectors(
                places,
                vectors_order,
                context.progress,
                on_epoch=lambda epoch, loss: context.progress.stage(f"epoch {epoch} done: loss {loss:.6f}"),
                again=order.again,
                cluster=cluster,
            ).version
    elif order.publish:
        places.vectors.publish(name, version)
    manifest: dict[str, object] = read_json(places.vectors.folder(name, version) / "manifest.json")
    return {
        "vectors": name,
        "version": version,
        "published": places.vectors.current(name) == version,
        **{fact: manifest.get(fact) for fact in ("words", "dimensions", "sha256")},
    }


def rater_job(order: TrainRater, context: JobContext) -> Mapping[str, Any]:
    """Mine examples, learn a vocabulary, train, measure and publish a rater."""
    from refaug.agreement.rater_report.page import training_images  # noqa: PLC0415  matplotlib
    from refaug.rater.trainings import train_any_rater  # noqa: PLC0415  torch
    from refaug.scoring.home.torch_networks import learn_piece_vectors  # noqa: PLC0415

    places, name = rater_places(context.home), order.rater_name
    version = find_earlier_version(places.versions, name, context)
    if version is None:
        with connected(order.on, context.serve) as cluster:
            version = train_any_rater(
                places,
                rater_order(order, context),
                context.progress,
                on_epoch=lambda figures: context.progress.stage(_epoch_line(figures)),
                learn_vectors=learn_piece_vectors,
                illustrate=training_images,
                again=order.again,
                cluster=cluster,
            ).version
    elif order.publish:
        places.versions.publish(name, version)
    folder = places.versions.folder(name, version)
    manifest: dict[str, object] = read_json(folder / "manifest.json")
    return {
        "rater": name,
        "version": version,
        "id": str(manifest.get("id"))[:12],
        "published": places.versions.current(name) == version,
        **_figures(folder),
    }


def rater_order(order: TrainRater, context: JobContext) -> TrainingOrder:
    """Return the order of training, with the threads that the job began with; workers of a cluster have one each."""
    return order.order(threads=1 if order.workers is not None else context.reproducible_threads(order.threads))


def _epoch_line(figures: EpochFigures) -> str:
    return (
        f"epoch {figures.epoch} done: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
        f"accuracy {figures.validation_accuracy:.3f}"
    )


def _figures(folder: Path) -> dict[str, object]:
    """Return the figures of the training report for a result."""
    report: dict[str, object] = read_json(folder / "report.json")
    return {name: report.get(name) for name in _REPORT_FIELDS}
