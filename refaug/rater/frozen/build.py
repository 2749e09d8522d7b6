"""Making raters over an encoder's vectors: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.logs.pairs import SharedSettings
from refaug.rater.frozen.artefact import ENCODER, KIND, LINEAR, FrozenNetwork, save_frozen_rater
from refaug.rater.frozen.encoded_pairs import (
    EncodedPairs,
    encode_pairs,
    open_encoded_pairs,
    open_shuffled_replies,
    shuffle_some,
)
from refaug.rater.frozen.examples import EncodedExamples, TowerTask, auc_by_wrong_kind
from refaug.rater.frozen.linear import LinearConfig, LinearNetwork, fit_linear
from refaug.rater.frozen.towers import Head, TowerConfig, TowerNetwork
from refaug.rater.language_coverage import Coverage
from refaug.rater.training import loop
from refaug.rater.training.accuracy import seed_spread
from refaug.rater.training.calibration import calibrate
from refaug.rater.training.initial_embeddings import LearnVectors
from refaug.rater.training.loop import OnEpoch, OnNow, TrainingCourse
from refaug.rater.training.order import (
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    TrainingLogs,
    TrainingOrder,
    TrainingPlaces,
    details_of,
    open_training_logs,
    train_version,
    version_folder,
    write_pictures,
)
from refaug.rater.training.pair_corpus import LogPairs, PairSettings, Rows, Side, require_pairs

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]
_SHUFFLED_TEXTS: Final = 4_096
_MOST_VALIDATED: Final = 8_192  # pairs


@dataclass(frozen=True, kw_only=True)
class FrozenOrder(TrainingOrder):
    """The order of a rater over an encoder's vectors by name: its logs and its encoder."""

    kind: ClassVar[str] = KIND
    made: ClassVar[str]

    encoder: str  # NAME or NAME@VERSION; with its hash where it was found
    network: str  # so that a stopped training tells which kind of rater it makes
    examples: PairSettings = field(default_factory=PairSettings)

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return the choice of pairs."""
        return {"examples": PairSettings(**written["examples"])}

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:  # noqa: ARG002
        """Return its encoder, by hash, and its settings."""
        encoder = self.encoder.partition("#")[2]
        return {"network": self.network, "encoder": encoder, "examples": asdict(self.examples)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network != self.made:
            raise Usage(f"a network {self.network!r}", remedy=f"the order of a rater of kind {self.made}")


@dataclass(frozen=True, kw_only=True)
class LinearOrder(FrozenOrder):
    """The order of a linear rater."""

    made: ClassVar[str] = LINEAR

    network: str = LINEAR


@dataclass(frozen=True, kw_only=True)
class TowerOrder(FrozenOrder):
    """The order of a rater with towers over an encoder: so many networks, each with another seed."""

    made: ClassVar[str] = ENCODER

    network: str = ENCODER
    hidden: int = 256
    heads: int = 5

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:
        """Return its encoder, and its sizes."""
        return {**super().own_inputs(sources), "hidden": self.hidden, "heads": self.heads}


@dataclass(frozen=True, kw_only=True)
class TowerPreset(NetworkPreset):
    """Sizes of a rater with towers over an encoder that were tested together; `embedding` and `width` say nothing."""

    embedding: int = 0
    width: int = 0


PRESETS: Final[Mapping[str, TowerPreset]] = {
    # A second epoch raised the AUC from .896 to .902, and agreement with people not at all.
    "base": TowerPreset(hidden=256, batch=512, dropout=0.1, epochs=1),
    "small": TowerPreset(hidden=64, batch=128, dropout=0.1, epochs=3),
}


def train_linear(
    places: TrainingPlaces,
    order: LinearOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,  # noqa: ARG001  there are no epochs
    on_epoch: OnEpoch = lambda _figures: None,  # noqa: ARG001
    *,
    learn_vectors: LearnVectors | None = None,  # noqa: ARG001  it has no embeddings
    illustrate: Illustrate = lambda _report: {},
    again: bool = False,
    cluster: None = None,  # noqa: ARG001  seconds of one process
) -> TrainedVersion:
    """Encode the pairs of the logs, fit the maps in one pass, measure and publish.

    If the published rater was made of exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def fit(encoded: EncodedPairs, sides: Mapping[Side, Rows], encoder: Encoder) -> tuple[LinearNetwork, Report]:
        progress.stage("fitting")
        return fit_linear(encoded, sides["train"], LinearConfig(**facts_of(encoder))), {}

    return _train(places, order, lambda _stages, _sources: fit, progress, illustrate, again=again)


def train_towers(
    places: TrainingPlaces,
    order: TowerOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,  # noqa: ARG001  it has no embeddings
    illustrate: Illustrate = lambda _report: {},
    again: bool = False,
    cluster: None = None,  # noqa: ARG001  minutes of one process
) -> TrainedVersion:
    """Encode the pairs of the logs, train a head for each seed, measure each and their mean, and publish.

    A stopped training goes on where it was. If the published rater was made of exactly these inputs, it is returned as
    it is, unless `again` is set.
    """

    def prepare(stages: Stages, sources: TrainingLogs) -> Fit:
        def fit(encoded: EncodedPairs, sides: Mapping[Side, Rows], encoder: Encoder) -> tuple[TowerNetwork, Report]:
            passing, seed = open_encoder(places, order.encoder, keep=False), order.examples.seed
            stages.run(  # shuffled texts are of no log, so that their vectors are not kept
                "shuffled", lambda: shuffle_some(passing, sources, stages.folder, _SHUFFLED_TEXTS, seed, progress)
            )
            config = TowerConfig(**facts_of(encoder), hidden=order.hidden, heads=order.heads)
            heads, report = _train_heads(config, order, encoded, sides, stages.folder, progress, on_now, on_epoch)
            return TowerNetwork(config, heads).eval(), {"shuffled": stages.facts("shuffled"), **report}

        return fit

    return _train(places, order, prepare, progress, illustrate, again=again)


def _train_heads(
    config: TowerConfig,
    order: TowerOrder,
    encoded: EncodedPairs,
    sides: Mapping[Side, Rows],
    folder: Path,
    progress: Progress,
    on_now: OnNow,
    on_epoch: OnEpoch,
) -> tuple[list[Head], Report]:
    """Train one head after another, each by its seed; return them with what a report says of them."""
    shuffled = open_shuffled_replies(folder, config.dimensions)
    validation = EncodedExamples(encoded, sides["validation"], replace(order.examples, limit=_MOST_VALIDATED), shuffled)
    heads, courses = dict[int, Head](), list[TrainingCourse]()
    for number in range(order.heads):
        training = replace(order.training, seed=order.training.seed + number)
        drawn = replace(order.examples, seed=order.examples.seed + number)
        torch.manual_seed(training.seed)
        head = heads[training.seed] = Head(config)
        head.set_dropout(training.dropout)
        task = TowerTask(head, EncodedExamples(encoded, sides["train"], drawn, shuffled), validation, training.device)
        courses.append(loop.run(task, training, folder / f"training-{number + 1}", progress, on_now, on_epoch))
    progress.stage("measuring the heads")
    return list(heads.values()), {
        "epochs": [asdict(figures) for figures in courses[0].epochs],  # of the first seed
        "best_epoch": courses[0].best_epoch,
        "auc_by_wrong_kind": auc_by_wrong_kind(list(heads.values()), validation),
        "seeds": seed_spread({seed: auc_by_wrong_kind([head], validation) for seed, head in heads.items()}),
    }


# ── From an order to a version ────────────────────────────────────────────────────────────────────────────────────────

Report = dict[str, Any]
Fit = Callable[[EncodedPairs, Mapping[Side, Rows], Encoder], tuple[FrozenNetwork, Report]]


def facts_of(encoder: Encoder) -> dict[str, Any]:
    """Return the hash of an encoder and the size of its vectors."""
    return {"encoder": encoder.name.partition("#")[2], "dimensions": encoder.sentence_vectors([]).shape[1]}


def _train(
    places: TrainingPlaces,
    order: FrozenOrder,
    prepare: Callable[[Stages, TrainingLogs], Fit],
    progress: Progress,
    illustrate: Illustrate,
    *,
    again: bool,
) -> TrainedVersion:
    """Encode the pairs, fit what `prepare` returns, weigh its similarities, and publish."""
    sources = open_training_logs(places.logs, order)
    require_pairs(sources)
    encoder = open_encoder(places, order.encoder)
    order = replace(order, encoder=encoder.name)
    torch.set_num_threads(order.training.threads)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        stages.run("pairs", lambda: encode_pairs(encoder, sources, stages.folder, progress))
        encoded = open_encoded_pairs(stages.folder, facts_of(encoder)["dimensions"])
        sides = encoded.pairs.of_sides(order.examples)
        model, own_report = prepare(stages, sources)(encoded, sides, encoder)
        progress.stage("measuring")

        def similarities(*texts: NDArray[Any]) -> NDArray[np.float64]:
            with torch.inference_mode():
                vectors = (torch.from_numpy(encoded.of(some)) for some in texts)
                return np.asarray(model.similarities(*vectors).double().numpy())

        report = {
            "network": order.network,
            "encoder": encoder.name,
            "examples": {side: encoded.pairs.facts_of(rows) for side, rows in sides.items()},
            "texts": stages.facts("pairs"),
            "parameters": model.parameter_count,
            "positives": _positives(encoded.pairs, sides["train"]),
            **own_report,
            **calibrate(model, encoded.pairs, sides["validation"], similarities, order.examples.seed),
        }
        version = version_folder(stages)
        pictures = write_pictures(version, illustrate(report))
        shared = SharedSettings.for_language(sources.languages[0], seed=order.examples.seed)  # for pairs of a report
        details = details_of(
            order,
            sources,
            stages,
            input_hash,
            encoder=encoder.name.partition("#")[0],
            shared=asdict(shared),
            examples=asdict(order.examples),
        )
        facts: Any = {
            "temperature": report["temperature"],
            "languages": sources.languages,
            "coverage": Coverage.read(stages.facts("pairs")["coverage"]),
            "report": report,
            "details": details,
            "beside": pictures,
        }
        return PreparedVersion(version, save_frozen_rater(version, model, **facts), report)

    return train_version(places, order, sources, train_stages, again=again)


def _positives(pairs: LogPairs, rows: Rows) -> dict[str, int]:
    """Return how many pairs are consecutive turns, and how many of their utterances got several replies."""
    asked, of_reply = np.unique(np.stack([pairs.asked[rows], pairs.said[rows]]), axis=1)[0], pairs.asked[rows]
    utterances, replies = np.unique(asked, return_counts=True)
    shared = np.isin(of_reply, utterances[replies > 1])
    return {"consecutive_turns": len(rows), "of_shared_utterances": int(shared.sum())}


def open_encoder(places: TrainingPlaces, spec: str, *, keep: bool = True) -> Encoder:
    """Open the encoder of an order."""
    if places.open_encoder is None:
        raise Usage("there is no home to open an encoder of", field="encoder")
    return places.open_encoder(spec, keep=keep)
