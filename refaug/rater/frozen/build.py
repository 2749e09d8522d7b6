"""Making raters over an encoder's vectors: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.vectors.encoders import Encoder
from refaug.logs.pairs import SharedSettings
from refaug.rater.frozen.artefact import KIND, LINEAR, save_frozen_rater
from refaug.rater.frozen.encoded_pairs import encode_pairs, open_encoded_pairs
from refaug.rater.frozen.linear import LinearConfig, fit_linear
from refaug.rater.training.calibration import calibrate
from refaug.rater.training.initial_embeddings import LearnVectors
from refaug.rater.training.loop import OnEpoch, OnNow
from refaug.rater.training.order import (
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
from refaug.rater.training.pair_corpus import PairSettings, require_pairs

Illustrate = Callable[[Mapping[str, Any]], Mapping[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class LinearOrder(TrainingOrder):
    """The order of a linear rater by name: its logs and its encoder."""

    kind: ClassVar[str] = KIND

    encoder: str  # NAME or NAME@VERSION; with its hash where it was found
    network: str = LINEAR  # so that a stopped training tells which kind of rater it makes
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
        if self.network != LINEAR:
            raise Usage(f"a network {self.network!r}", remedy=f"the order of a rater of kind {LINEAR}")


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
    sources = open_training_logs(places.logs, order)
    require_pairs(sources)
    encoder = open_encoder(places, order.encoder)
    order = replace(order, encoder=encoder.name)
    torch.set_num_threads(order.training.threads)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        stages.run("pairs", lambda: encode_pairs(encoder, sources, stages.folder, progress))
        config = LinearConfig(encoder=encoder.name.partition("#")[2], dimensions=encoder.sentence_vectors([]).shape[1])
        encoded = open_encoded_pairs(stages.folder, config.dimensions)
        sides = encoded.pairs.of_sides(order.examples)
        progress.stage("fitting")
        model = fit_linear(encoded, sides["train"], config)
        progress.stage("measuring")

        def similarities(*texts: NDArray[Any]) -> NDArray[np.float64]:
            vectors = (torch.from_numpy(encoded.of(some)) for some in texts)
            return np.asarray(model.similarities(*vectors).double().numpy())

        report = {
            "network": LINEAR,
            "encoder": encoder.name,
            "examples": {side: encoded.pairs.facts_of(rows) for side, rows in sides.items()},
            "texts": stages.facts("pairs"),
            "parameters": model.parameter_count,
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
            "report": report,
            "details": details,
            "beside": pictures,
        }
        return PreparedVersion(version, save_frozen_rater(version, model, **facts), report)

    return train_version(places, order, sources, train_stages, again=again)


def open_encoder(places: TrainingPlaces, spec: str) -> Encoder:
    """Open the encoder of an order."""
    if places.open_encoder is None:
        raise Usage("there is no home to open an encoder of", field="encoder")
    return places.open_encoder(spec)
