"""Making raters over an encoder's vectors: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.rater.frozen.array_network import LinearConfig, TowerConfig
from refaug.rater.frozen.artefact import ENCODER, KIND, LINEAR, LINEAR_FILES, TOWER_FILES
from refaug.rater.frozen.encoded_pairs import (
    EncodedPairs,
    encode_pairs,
    open_encoded_pairs,
    open_shuffled_replies,
    shuffle_some,
)
from refaug.rater.frozen.linear import LinearNetwork, fit_linear
from refaug.rater.frozen.towers import EncodedExamples, Head, TowerNetwork, TowerTask, auc_by_wrong_kind
from refaug.rater.network_folder import NetworkFiles, TrainingPlaces
from refaug.rater.training import loop
from refaug.rater.training.accuracy import seed_spread
from refaug.rater.training.calibration import calibrate
from refaug.rater.training.loop import TrainingCourse
from refaug.rater.training.order import (
    NamedNetworkOrder,
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    Training,
    TrainingKeywords,
    TrainingLogs,
    train_network,
)
from refaug.rater.training.pair_corpus import LogPairs, PairSettings, Rows, Side, require_pairs

_SHUFFLED_TEXTS: Final = 4_096
_MOST_VALIDATED: Final = 8_192  # pairs


@dataclass(frozen=True, kw_only=True)
class FrozenOrder(NamedNetworkOrder):
    """The order of a rater over an encoder's vectors by name: its logs and its encoder."""

    kind: ClassVar[str] = KIND

    encoder: str  # NAME or NAME@VERSION; with its hash where it was found
    examples: PairSettings = field(default_factory=PairSettings)

    def own_inputs(self, sources: TrainingLogs) -> dict[str, object]:
        """Return its encoder, by hash, and its settings."""
        return {**super().own_inputs(sources), "encoder": self.encoder.partition("#")[2]}


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
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Encode the pairs of the logs, fit the maps in one pass, measure and publish.

    There are no epochs and no embeddings, and one process does it in seconds, without a cluster.
    If the published rater was made of exactly these inputs, it is returned as it is, unless `again` is set.
    """

    def fit(
        _training: Training[LinearOrder], encoded: EncodedPairs, sides: Mapping[Side, Rows], encoder: Encoder
    ) -> tuple[LinearNetwork, Report]:
        progress.stage("fitting")
        return fit_linear(encoded, sides["train"], LinearConfig(**facts_of(encoder))), {}

    return _train(places, order, fit, progress, **told)


def train_towers(
    places: TrainingPlaces,
    order: TowerOrder,
    progress: Progress,
    **told: Unpack[TrainingKeywords],
) -> TrainedVersion:
    """Encode the pairs of the logs, train a head for each seed, measure each and their mean, and publish.

    There are no embeddings, and one process trains them in minutes, without a cluster.
    A stopped training goes on where it was. If the published rater was made of exactly these inputs, it is returned as
    it is, unless `again` is set.
    """

    def fit(
        training: Training[TowerOrder], encoded: EncodedPairs, sides: Mapping[Side, Rows], encoder: Encoder
    ) -> tuple[TowerNetwork, Report]:
        passing, seed, stages = open_encoder(places, order.encoder, keep=False), order.examples.seed, training.stages
        stages.run(  # shuffled texts are of no log, so that their vectors are not kept
            "shuffled", lambda: shuffle_some(passing, training.sources, stages.folder, _SHUFFLED_TEXTS, seed, progress)
        )
        config = TowerConfig(**facts_of(encoder), hidden=order.hidden, heads=order.heads)
        heads, report = _train_heads(config, training, encoded, sides)
        return TowerNetwork(config, heads).eval(), {"shuffled": stages.facts("shuffled"), **report}

    return _train(places, order, fit, progress, **told)


def _train_heads(
    config: TowerConfig, under_way: Training[TowerOrder], encoded: EncodedPairs, sides: Mapping[Side, Rows]
) -> tuple[list[Head], Report]:
    """Train one head after another, each by its seed; return them with what a report says of them."""
    order, progress = under_way.order, under_way.progress
    shuffled = open_shuffled_replies(under_way.folder, config.dimensions)
    validation = EncodedExamples(encoded, sides["validation"], replace(order.examples, limit=_MOST_VALIDATED), shuffled)
    heads, courses = dict[int, Head](), list[TrainingCourse]()
    for number in range(order.heads):
        training = replace(order.training, seed=order.training.seed + number)
        drawn = replace(order.examples, seed=order.examples.seed + number)
        torch.manual_seed(training.seed)
        head = heads[training.seed] = Head(config)
        head.set_dropout(training.dropout)
        task = TowerTask(head, EncodedExamples(encoded, sides["train"], drawn, shuffled), validation, training.device)
        folder = under_way.folder / f"training-{number + 1}"
        courses.append(loop.run(task, training, folder, progress, under_way.on_now, under_way.on_epoch))
    progress.stage("measuring the heads")
    return list(heads.values()), {
        "epochs": [asdict(figures) for figures in courses[0].epochs],  # of the first seed
        "best_epoch": courses[0].best_epoch,
        "auc_by_wrong_kind": auc_by_wrong_kind(list(heads.values()), validation),
        "seeds": seed_spread({seed: auc_by_wrong_kind([head], validation) for seed, head in heads.items()}),
    }


# ── From an order to a version ────────────────────────────────────────────────────────────────────────────────────────

Report = dict[str, Any]
Fit = Callable[[Training[Any], EncodedPairs, Mapping[Side, Rows], Encoder], tuple[LinearNetwork | TowerNetwork, Report]]


def facts_of(encoder: Encoder) -> dict[str, Any]:
    """Return the hash of an encoder and the size of its vectors."""
    return {"encoder": encoder.name.partition("#")[2], "dimensions": encoder.sentence_vectors([]).shape[1]}


def _train(
    places: TrainingPlaces, order: FrozenOrder, fit: Fit, progress: Progress, **told: Unpack[TrainingKeywords]
) -> TrainedVersion:
    """Encode the pairs, fit, weigh the similarities of what was fitted, and publish."""
    encoder = open_encoder(places, order.encoder)
    order = replace(order, encoder=encoder.name)
    torch.set_num_threads(order.training.threads)

    def train(training: Training[FrozenOrder]) -> PreparedVersion:
        stages, sources = training.stages, training.sources
        stages.run("pairs", lambda: encode_pairs(encoder, sources, stages.folder, progress))
        encoded = open_encoded_pairs(stages.folder, facts_of(encoder)["dimensions"])
        sides = encoded.pairs.of_sides(order.examples)
        model, own_report = fit(training, encoded, sides, encoder)
        progress.stage("measuring")

        def similarities(*texts: NDArray[Any]) -> NDArray[np.float64]:
            with torch.inference_mode():
                vectors = (torch.from_numpy(encoded.of(some)) for some in texts)
                return np.asarray(model.similarities(*vectors).double().numpy())

        report: dict[str, Any] = {
            "network": order.network,
            "encoder": encoder.name,
            "examples": {side: encoded.pairs.facts_of(rows) for side, rows in sides.items()},
            **training.facts(texts="pairs"),
            "parameters": model.parameter_count,
            "positives": _positives(encoded.pairs, sides["train"]),
            **own_report,
            **calibrate(model, encoded.pairs, sides["validation"], similarities, order.examples.seed),
        }
        files: NetworkFiles[Any, Any] = LINEAR_FILES if isinstance(model, LinearNetwork) else TOWER_FILES
        name = encoder.name.partition("#")[0]
        return training.rater_version(files, model, None, report, order.examples, encoder=name)

    return train_network(places, order, progress, train, require=require_pairs, **told)


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
