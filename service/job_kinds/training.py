"""Jobs that train: word vectors and raters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core.files import read_json
from core.pairs import SharedSettings
from indexer.cooccurrence import CooccurrenceSettings
from indexer.glove import GloveSettings
from indexer.train_vectors import VectorsOrder, train_vectors
from rater.examples import ExampleSettings
from rater.loop import EpochFigures, TrainConfig
from rater.making import PRESETS, Preset, RaterOrder, train_rater
from rater.model import RaterConfig
from service.job_kinds.indexing import made_since_begun
from service.job_kinds.orders import RaterTrainJob, VectorsJob
from service.job_kinds.sources import tokenizer_within
from service.job_kinds.work import Work
from service.piece_vectors import learn_piece_vectors
from service.rater_plots import illustrations
from service.rating import rater_places
from service.retrieval import cores, places_of

_OF_REPORT: Final = ("best_epoch", "validation_loss", "validation_accuracy", "auc_good_vs_wrong", "temperature")


def vectors_job(order: VectorsJob, work: Work) -> Mapping[str, Any]:
    """Count words and their neighbours, train, and publish."""
    places, name = places_of(work.home), order.name or order.logs[0]
    made = made_since_begun(places.vectors, name, work)
    if made is None:
        asked = VectorsOrder(
            name=name,
            logs=tuple(order.logs),
            tokenizer=tokenizer_within(order.tokenizer, work.home, work.serve),
            min_count=order.min_count,
            max_words=order.max_words,
            cooccurrence=CooccurrenceSettings(window=order.window, memory_bytes=order.memory_mib << 20),
            glove=GloveSettings(
                dimensions=order.dimensions,
                epochs=order.epochs,
                x_max=order.x_max,
                alpha=order.alpha,
                learning_rate=order.learning_rate,
                seed=order.seed,
                threads=order.threads,
            ),
            publish=order.publish,
        )
        made = train_vectors(
            places,
            asked,
            work.progress,
            on_epoch=lambda epoch, loss: work.progress.stage(f"epoch {epoch} done: loss {loss:.6f}"),
        ).version
    elif order.publish:
        places.vectors.publish(name, made)
    manifest: dict[str, Any] = read_json(places.vectors.folder(name, made) / "manifest.json")
    return {
        "vectors": name,
        "version": made,
        "published": places.vectors.current(name) == made,
        **{fact: manifest.get(fact) for fact in ("words", "dimensions", "sha256")},
    }


def rater_job(order: RaterTrainJob, work: Work) -> Mapping[str, Any]:
    """Mine, learn a vocabulary, train, measure, publish."""
    places, name, sizes = rater_places(work.home), order.rater or order.logs[0], PRESETS[order.preset]
    made = made_since_begun(places.raters, name, work)
    if made is None:
        made = train_rater(
            places,
            _rater_order(order, name, sizes),
            work.progress,
            on_epoch=lambda figures: work.progress.stage(_told(figures)),
            learn_vectors=learn_piece_vectors,
            illustrate=illustrations,
        ).version
    elif order.publish:
        places.raters.publish(name, made)
    folder = places.raters.folder(name, made)
    manifest: dict[str, Any] = read_json(folder / "manifest.json")
    return {
        "rater": name,
        "version": made,
        "id": str(manifest.get("id"))[:12],
        "published": places.raters.current(name) == made,
        **_figures(folder),
    }


def _rater_order(order: RaterTrainJob, name: str, sizes: Preset) -> RaterOrder:
    """What was asked, and where nothing was, what the preset says."""
    is_said = order.min_words is not None or order.min_chars is not None
    return RaterOrder(
        name=name,
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
            negatives=order.negatives,
        ),
        training=TrainConfig(
            epochs=sizes.epochs if order.epochs is None else order.epochs,
            patience=order.patience,
            learning_rate=order.learning_rate,
            decay=sizes.decay if order.decay is None else order.decay,
            dropout=sizes.dropout if order.dropout is None else order.dropout,
            accumulate=order.accumulate,
            seed=order.seed,
            device=order.device,
            threads=order.threads or cores(),
        ),
        shared=SharedSettings(min_words=order.min_words or 1, min_chars=order.min_chars or 1, seed=order.seed)
        if is_said
        else None,
        pieces=sizes.pieces,
        start=sizes.start if order.embeddings is None else order.embeddings,
        memory=order.memory,
        publish=order.publish,
    )


def _told(figures: EpochFigures) -> str:
    return (
        f"epoch {figures.epoch} done: loss {figures.train_loss:.4f}, on validation {figures.validation_loss:.4f}, "
        f"accuracy {figures.validation_accuracy:.3f}"
    )


def _figures(folder: Path) -> dict[str, Any]:
    """What is worth telling of the training report."""
    report: dict[str, Any] = read_json(folder / "report.json")
    return {name: report.get(name) for name in _OF_REPORT}


WORK: Final = {"vectors": vectors_job, "rater-train": rater_job}
