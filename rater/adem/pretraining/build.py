"""Pre-training a VHRED: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from refaug.core.artefacts.build_stages import Stages
from refaug.core.progress import Progress
from refaug.rater.adem.vhred.artefact import KIND, save_vhred
from refaug.rater.adem.vhred.network import VhredNetwork, new_vhred
from refaug.rater.adem.vhred.sizes import VhredConfig
from refaug.rater.training.order import (
    PreparedVersion,
    TrainedVersion,
    TrainingLogs,
    TrainingOrder,
    TrainingPlaces,
    details_of,
    inputs_of,
    learn_tokenizer,
    open_training_logs,
    train_version,
    version_folder,
)

_DRAWN_SCALE = 0.01  # of the weights of a random encoder, as the released code draws them


@dataclass(frozen=True, kw_only=True)
class VhredOrder(TrainingOrder):
    """The order of a vhred by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND

    model: VhredConfig = field(default_factory=VhredConfig)
    seed: int = 1  # of the tokenizer's sample

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sizes of the network."""
        return {"model": VhredConfig(**written["model"])}


def pretrain_vhred(
    places: TrainingPlaces, order: VhredOrder, progress: Progress, *, again: bool = False
) -> TrainedVersion:
    """Learn the pieces, draw the weights, and publish.

    If the published vhred was made of exactly these inputs, it is returned as it is, unless `again` is set.
    """
    sources = open_training_logs(places.logs, order)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        tokenizer = learn_tokenizer(sources, order, order.seed, stages, progress, method="bpe")
        config = replace(order.model, vocabulary=tokenizer.vocab_size + 1)
        network = new_vhred(config, order.training.seed, _DRAWN_SCALE)
        report = _report(network, stages)
        version = version_folder(stages)
        name = save_vhred(
            version,
            network,
            tokenizer,
            languages=sources.languages,
            report=report,
            details=details_of(order, sources, stages, input_hash),
        )
        return PreparedVersion(version, name, report)

    return train_version(places, order, _inputs(order, sources), train_stages, again=again)


def _inputs(order: VhredOrder, sources: TrainingLogs) -> dict[str, Any]:
    """Return the inputs that determine the vhred."""
    return inputs_of(order, sources, model=asdict(order.model), seed=order.seed)


def _report(network: VhredNetwork, stages: Stages) -> dict[str, Any]:
    """Return the report."""
    return {"parameters": network.parameter_count, "tokenizer": stages.facts("tokenizer")}
