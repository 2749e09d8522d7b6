"""Making a ruber, the network of RUBER's unreferenced part: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from core.errors import BadInput, Usage
from core.log_store import now
from core.progress import Progress
from core.stages import Stages
from core.text import open_sentencepiece
from core.versions import Versions
from rater.coverage import Coverage
from rater.embeddings import LearnVectors, Start
from rater.folder import TOKENIZER
from rater.loop import Decay, OnEpoch, OnNow, TrainConfig
from rater.orders import (
    Made,
    Sources,
    TrainingOrder,
    Written,
    deciding,
    learn_embeddings,
    learn_tokenizer,
    make,
    sources_of,
    stopped_order,
    version_folder,
)
from rater.ruber import KIND, save_ruber
from rater.ruber_examples import PairExamples, PairSettings, Side
from rater.ruber_mining import code_pairs, open_pairs, require_pairs
from rater.ruber_model import RuberConfig
from rater.ruber_train import first_network, report_of, statistics_of, train_network


@dataclass(frozen=True, kw_only=True)
class RuberPlaces:
    """The folders that training a ruber needs."""

    logs: Path
    rubers: Versions
    cache: Path


@dataclass(frozen=True, kw_only=True)
class RuberOrder(TrainingOrder):
    """A ruber by name: of which logs, how large, trained how."""

    kind: ClassVar[str] = KIND

    model: RuberConfig = field(default_factory=RuberConfig)
    pairs: PairSettings = field(default_factory=PairSettings)
    margin: float = 0.5  # Δ: so far above a reply from elsewhere the true one is to be scored

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.margin <= 1:
            raise Usage(f"a margin of {self.margin}", remedy="above 0, and at most 1: scores go from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class RuberPreset:
    """Sizes that were tried together."""

    embedding: int
    hidden: int
    width: int
    batch: int
    layers: int = 1
    pieces: int = 16_000
    start: Start = "vectors"
    decay: Decay = "linear"
    dropout: float = 0.0
    epochs: int = 5


PRESETS: Final[Mapping[str, RuberPreset]] = {
    "base": RuberPreset(embedding=128, hidden=128, width=256, batch=256, dropout=0.3),
    "small": RuberPreset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


def train_ruber(
    places: RuberPlaces,
    order: RuberOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
    again: bool = False,
) -> Made:
    """Learn a vocabulary, read the pairs, train, measure, publish; an interrupted run goes on where it stopped.

    `learn_vectors` is what embeddings start from where the order asks for that. Nothing is done where the published
    ruber was made of exactly this, unless it is to be done `again`.
    """
    sources = sources_of(places.logs, order)
    require_pairs(sources)

    def work(stages: Stages, made_of: str) -> Written:
        folder, seed = stages.folder, order.pairs.seed
        stages.run("tokenizer", lambda: learn_tokenizer(sources, order, seed, folder, progress))
        tokenizer = open_sentencepiece(folder / TOKENIZER)
        coded = stages.run("pairs", lambda: code_pairs(tokenizer, sources, folder, order.model.max_tokens, progress))
        config = replace(order.model, vocabulary=tokenizer.vocab_size)
        corpus = open_pairs(folder)
        sides: dict[Side, PairExamples] = {
            side: PairExamples(corpus, side, order.pairs, config.max_tokens) for side in ("train", "validation")
        }
        _require_both(sides, int(coded["dialogues"]))
        embeddings = learn_embeddings(sources, tokenizer, order, config.embedding, learn_vectors, stages, progress)
        model = first_network(config, order.training.seed, embeddings)
        course = train_network(
            model,
            sides["train"],
            sides["validation"],
            order.margin,
            order.training,
            folder / "training",
            progress,
            on_now,
            on_epoch,
        )
        progress.stage("measuring")
        report = {
            "examples": {name: statistics_of(corpus, one) for name, one in sides.items()},
            "tokenizer": stages.facts("tokenizer"),
            "texts": coded,
            "embeddings": stages.facts("embeddings"),
            "margin": order.margin,
            **report_of(model, course, sides["validation"], order.margin),
        }
        version = version_folder(stages)
        name = save_ruber(
            version,
            model,
            tokenizer,
            languages=sources.languages,
            coverage=Coverage.read(coded["coverage"]),
            report=report,
            details={
                "at": now(),
                "inputs": made_of,
                **sources.parts,
                "pairs": asdict(order.pairs),
                "margin": order.margin,
                "training": asdict(order.training),
                "seconds": stages.seconds,
            },
        )
        return Written(version, name, report)

    return make(places.rubers, places.cache, order, _inputs(order, sources), work, again=again)


def resume_ruber(
    places: RuberPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    learn_vectors: LearnVectors | None = None,
) -> Made:
    """Go on with a training that was stopped, as it was ordered; the newest, if there are several."""
    order = stopped_order(
        places.cache, KIND, name, _order_of, lambda order: _inputs(order, sources_of(places.logs, order))
    )
    return train_ruber(places, order, progress, on_now, on_epoch, learn_vectors=learn_vectors, again=True)


def _order_of(written: Mapping[str, Any]) -> RuberOrder:
    """What was ordered."""
    return RuberOrder(
        **{
            **written,
            "logs": tuple(written["logs"]),
            "more_texts": tuple(written["more_texts"]),
            "model": RuberConfig(**written["model"]),
            "pairs": PairSettings(**written["pairs"]),
            "training": TrainConfig(**written["training"]),
        }
    )


def _inputs(order: RuberOrder, sources: Sources) -> dict[str, Any]:
    """What decides over the ruber."""
    return {
        **sources.parts,
        "languages": sources.languages,
        "model": asdict(order.model),
        "pairs": asdict(order.pairs),
        "margin": order.margin,
        "training": deciding(order.training),
        "pieces": order.pieces,
        "start": order.start,
    }


def _require_both(sides: Mapping[Side, PairExamples], dialogues: int) -> None:
    """Both sides have a pair with a reply from elsewhere at least; BadInput says what is missing."""
    for name, examples in sides.items():
        if not len(examples.rows):
            raise BadInput(
                f"no pair is left for {name}: of {examples.without:,} pairs there, in logs of {dialogues:,} dialogues, "
                "none has a reply from another dialogue that its own utterance never got",
                remedy="give more logs, or another --validation-share",
            )
