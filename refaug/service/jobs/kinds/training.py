"""Jobs that train word vectors and raters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from refaug.core.files import read_json
from refaug.evaluation.home.indexes import places_of
from refaug.evaluation.home.piece_vectors import learn_piece_vectors
from refaug.evaluation.home.raters import rater_places
from refaug.evaluation.rater_report.plots import training_images
from refaug.indexer.vectors.training import train_vectors
from refaug.logs.pairs import SharedSettings
from refaug.operations.train_vectors import TrainVectors
from refaug.rater.cross.build import PRESETS as CROSS_PRESETS
from refaug.rater.cross.build import CrossOrder, train_cross
from refaug.rater.cross.examples import CrossExampleSettings
from refaug.rater.cross.model import CrossConfig
from refaug.rater.nn.build import PRESETS, RaterOrder, train_rater
from refaug.rater.nn.model import RaterConfig
from refaug.rater.training.examples import ExampleSettings
from refaug.rater.training.loop import EpochFigures, TrainConfig
from refaug.rater.training.order import NetworkPreset
from refaug.service.jobs.clusters import connected
from refaug.service.jobs.kinds.indexing import find_earlier_version
from refaug.service.jobs.kinds.job_context import JobContext
from refaug.service.jobs.kinds.sources import resolve_tokenizer
from refaug.service.jobs.orders.training_orders import RaterTrainJob

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
    manifest: dict[str, Any] = read_json(places.vectors.folder(name, version) / "manifest.json")
    return {
        "vectors": name,
        "version": version,
        "published": places.vectors.current(name) == version,
        **{fact: manifest.get(fact) for fact in ("words", "dimensions", "sha256")},
    }


def rater_job(order: RaterTrainJob, context: JobContext) -> Mapping[str, Any]:
    """Mine examples, learn a vocabulary, train, measure and publish a rater."""
    places, name = rater_places(context.home), order.rater or order.logs[0]
    version = find_earlier_version(places.versions, name, context)
    if version is None:
        train: Any = train_rater if order.network == "nn" else train_cross
        with connected(order.on, context.serve) as cluster:
            version = train(
                places,
                rater_order(order, context) if order.network == "nn" else cross_order(order, context),
                context.progress,
                on_epoch=lambda figures: context.progress.stage(_epoch_line(figures)),
                learn_vectors=learn_piece_vectors,
                illustrate=training_images,
                cluster=cluster,
            ).version
    elif order.publish:
        places.versions.publish(name, version)
    folder = places.versions.folder(name, version)
    manifest: dict[str, Any] = read_json(folder / "manifest.json")
    return {
        "rater": name,
        "version": version,
        "id": str(manifest.get("id"))[:12],
        "published": places.versions.current(name) == version,
        **_figures(folder),
    }


def rater_order(order: RaterTrainJob, context: JobContext) -> RaterOrder:
    """Return the order of training: the options of the job, else those of the preset."""
    sizes = PRESETS[order.preset]
    is_said = order.min_words is not None or order.min_chars is not None
    return RaterOrder(
        name=order.rater or order.logs[0],
        logs=tuple(order.logs),
        more_texts=tuple(order.more_texts),
        model=RaterConfig(
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            width=sizes.width,
            max_tokens=order.max_tokens,
            features=sizes.features,
        ),
        examples=ExampleSettings(
            batch=order.batch or sizes.batch,
            limit=order.positives,
            validation_share=order.validation_share,
            seed=order.seed,
            negatives=order.negatives or "random",
        ),
        training=_config(order, sizes, context),
        shared=SharedSettings(min_words=order.min_words or 1, min_chars=order.min_chars or 1, seed=order.seed)
        if is_said
        else None,
        pieces=sizes.pieces,
        start=sizes.start if order.embeddings is None else order.embeddings,
        memory=order.memory,
        publish=order.publish,
    )


def cross_order(order: RaterTrainJob, context: JobContext) -> CrossOrder:
    """Return the same for a cross rater."""
    sizes = CROSS_PRESETS[order.preset]
    return CrossOrder(
        name=order.rater or order.logs[0],
        logs=tuple(order.logs),
        more_texts=tuple(order.more_texts),
        model=CrossConfig(
            embedding=sizes.embedding,
            hidden=sizes.hidden,
            layers=sizes.layers,
            heads=sizes.heads,
            max_tokens=order.max_tokens,
        ),
        examples=CrossExampleSettings(
            batch=order.batch or sizes.batch,
            wrong=sizes.wrong,
            negatives=order.negatives or "mixed",  # type: ignore[arg-type]
            validation_share=order.validation_share,
            limit=order.positives,
            seed=order.seed,
        ),
        training=_config(order, sizes, context),
        pieces=sizes.pieces,
        start=sizes.start if order.embeddings is None else order.embeddings,
        memory=order.memory,
        publish=order.publish,
    )


def _config(order: RaterTrainJob, sizes: NetworkPreset, context: JobContext) -> TrainConfig:
    """Return how the network is trained: the options of the job, else those of the preset."""
    return TrainConfig(
        epochs=sizes.epochs if order.epochs is None else order.epochs,
        patience=order.patience,
        learning_rate=sizes.learning_rate if order.learning_rate is None else order.learning_rate,
        decay=sizes.decay if order.decay is None else order.decay,
        dropout=sizes.dropout if order.dropout is None else order.dropout,
        accumulate=order.batches_a_step,
        seed=order.seed,
        device=order.device,
        threads=context.steady_threads(order.threads) if order.workers is None else order.threads or 1,
        workers=order.workers or 1,
    )


def _epoch_line(figures: EpochFigures) -> str:
    return (
        f"epoch {figures.epoch} done: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
        f"accuracy {figures.validation_accuracy:.3f}"
    )


def _figures(folder: Path) -> dict[str, Any]:
    """Return the figures of the training report for a result."""
    report: dict[str, Any] = read_json(folder / "report.json")
    return {name: report.get(name) for name in _REPORT_FIELDS}


JOB_FUNCTIONS: Final = {"vectors": vectors_job, "rater-train": rater_job}
