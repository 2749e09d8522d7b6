"""Making a ruber, the network of RUBER's unreferenced part: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.language_coverage import Coverage
from refaug.rater.ruber.examples import PairExamples
from refaug.rater.ruber.model import RuberConfig, RuberNetwork
from refaug.rater.ruber.network import KIND, save_ruber
from refaug.rater.ruber.train import report_of, statistics_of, train_network
from refaug.rater.training.initial_embeddings import LearnVectors, new_network
from refaug.rater.training.loop import OnEpoch, OnNow, TrainingCourse
from refaug.rater.training.order import (
    NetworkPreset,
    PreparedVersion,
    TrainedVersion,
    TrainingLogs,
    TrainingOrder,
    TrainingPlaces,
    details_of,
    inputs_of,
    interrupted_order,
    learn_embeddings,
    learn_tokenizer,
    open_training_logs,
    train_version,
    version_folder,
)
from refaug.rater.training.pair_corpus import PairSettings, Side, code_pairs, open_pairs, require_pairs


@dataclass(frozen=True, kw_only=True)
class RuberOrder(TrainingOrder):
    """The order of a ruber by name: its logs, sizes and training."""

    kind: ClassVar[str] = KIND

    model: RuberConfig = field(default_factory=RuberConfig)
    pairs: PairSettings = field(default_factory=PairSettings)
    margin: float = 0.5  # Δ: by how much the true reply must score above a negative one

    @classmethod
    def read_settings(cls, written: Mapping[str, Any]) -> dict[str, object]:
        """Return the sizes of the network and the choice of pairs."""
        return {"model": RuberConfig(**written["model"]), "pairs": PairSettings(**written["pairs"])}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.margin <= 1:
            raise Usage(f"a margin of {self.margin}", remedy="above 0, and at most 1: scores go from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class RuberPreset(NetworkPreset):
    """Sizes of a ruber that were tested together."""

    layers: int = 1


PRESETS: Final[Mapping[str, RuberPreset]] = {
    "base": RuberPreset(embedding=128, hidden=128, width=256, batch=256, dropout=0.3),
    "small": RuberPreset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


def train_ruber(
    places: TrainingPlaces,
    order: RuberOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
    again: bool = False,
) -> TrainedVersion:
    """Train a tokenizer, read the pairs, train the network, measure and publish; resume an interrupted run.

    `learn_vectors` trains initial embeddings if the order requests them. If the published ruber was trained on
    exactly these inputs, it is returned as it is, unless `again` is set.
    """
    sources = open_training_logs(places.logs, order)
    require_pairs(sources)

    def train_stages(stages: Stages, input_hash: str) -> PreparedVersion:
        tokenizer = learn_tokenizer(sources, order, order.pairs.seed, stages, progress)
        sides = _code_sides(tokenizer, sources, order, stages, progress)
        embeddings = learn_embeddings(sources, tokenizer, order, order.model.embedding, learn_vectors, stages, progress)
        config = replace(order.model, vocabulary=tokenizer.vocab_size)
        model = new_network(lambda: RuberNetwork(config), order.training.seed, embeddings)
        course = train_network(
            model,
            sides["train"],
            sides["validation"],
            order.margin,
            order.training,
            stages.folder / "training",
            progress,
            on_now,
            on_epoch,
        )
        progress.stage("measuring")
        report = _report(model, course, sides, order, stages)
        version = version_folder(stages)
        name = save_ruber(
            version,
            model,
            tokenizer,
            languages=sources.languages,
            coverage=Coverage.read(stages.facts("pairs")["coverage"]),
            report=report,
            details=details_of(order, sources, stages, input_hash, pairs=asdict(order.pairs), margin=order.margin),
        )
        return PreparedVersion(version, name, report)

    return train_version(places, order, _inputs(order, sources), train_stages, again=again)


def resume_ruber(
    places: TrainingPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
) -> TrainedVersion:
    """Continue an interrupted training as it was ordered; the newest, if there are several."""
    order = interrupted_order(
        places.cache, RuberOrder, name, lambda order: _inputs(order, open_training_logs(places.logs, order))
    )
    return train_ruber(places, order, progress, on_now, on_epoch, learn_vectors=learn_vectors, again=True)


def _inputs(order: RuberOrder, sources: TrainingLogs) -> dict[str, object]:
    """Return the inputs that determine the ruber."""
    return inputs_of(order, sources, model=asdict(order.model), pairs=asdict(order.pairs), margin=order.margin)


def _code_sides(
    tokenizer: SentencePieceTokenizer, sources: TrainingLogs, order: RuberOrder, stages: Stages, progress: Progress
) -> Mapping[Side, PairExamples]:
    """Code the pairs of the logs as pieces, as a stage, and return those to train on and those to validate on."""
    max_tokens = order.model.max_tokens
    coded = stages.run("pairs", lambda: code_pairs(tokenizer, sources, stages.folder, max_tokens, progress))
    corpus = open_pairs(stages.folder)
    sides: dict[Side, PairExamples] = {
        side: PairExamples(corpus, side, order.pairs, max_tokens) for side in ("train", "validation")
    }
    _require_both(sides, int(coded["dialogues"]))
    return sides


def _report(
    model: RuberNetwork,
    course: TrainingCourse,
    sides: Mapping[Side, PairExamples],
    order: RuberOrder,
    stages: Stages,
) -> dict[str, object]:
    """Return the report: what the ruber was trained on, and its quality."""
    corpus = open_pairs(stages.folder)
    return {
        "examples": {name: statistics_of(corpus, examples) for name, examples in sides.items()},
        "tokenizer": stages.facts("tokenizer"),
        "texts": stages.facts("pairs"),
        "embeddings": stages.facts("embeddings"),
        "margin": order.margin,
        **report_of(model, course, sides["validation"], order.margin),
    }


def _require_both(sides: Mapping[Side, PairExamples], dialogues: int) -> None:
    """Raise BadInput unless both sides have a pair with a negative reply."""
    for name, examples in sides.items():
        if not len(examples.rows):
            raise BadInput(
                f"no pair is left for {name}: of {examples.unmatched_count:,} pairs there, in logs of {dialogues:,} "
                "dialogues, "
                "none has a reply from another dialogue that its own utterance never got",
                remedy="give more logs, or another --validation-share",
            )
