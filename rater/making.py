"""Making a rater: from logs to a published version, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from core.artefacts import MANIFEST
from core.engine import Engine, scratch_in
from core.errors import BadInput, NotFound, Usage
from core.files import read_json, remove_tree, require_name, write_json
from core.log_store import StoredLog, now
from core.pairs import SharedSettings
from core.progress import Progress
from core.stages import Stages, hash_of_inputs
from core.text import open_sentencepiece
from core.tokenizer_training import TokenizerTraining, train_sentencepiece
from core.versions import Versions
from rater.checkpoint import TOKENIZER, save_rater
from rater.examples import Examples, ExampleSettings
from rater.figures import calibration_error, fitted_temperature, reliability, with_temperature
from rater.mining import code, mine, open_corpus, turns_of
from rater.model import BiGRURater, RaterConfig
from rater.train import OnEpoch, OnNow, TrainConfig, Trained, answers, auc, train

_ORDER: Final = "order.json"
_SENTENCES: Final = 200_000  # turns that the tokenizer is trained on: 550 MiB while it is


@dataclass(frozen=True, kw_only=True)
class RaterPlaces:
    """The folders that training a rater needs."""

    logs: Path
    raters: Versions
    cache: Path


@dataclass(frozen=True, kw_only=True)
class RaterOrder:
    """A rater by name: of which logs, how large, trained how."""

    name: str
    logs: tuple[str, ...]
    model: RaterConfig = field(default_factory=RaterConfig)
    examples: ExampleSettings = field(default_factory=ExampleSettings)
    training: TrainConfig = field(default_factory=TrainConfig)
    shared: SharedSettings | None = None  # None: what suits the logs' language
    pieces: int = 16_000  # of the tokenizer; pad and unk come on top
    memory: int = 2 << 30
    publish: bool = True

    def __post_init__(self) -> None:
        require_name("rater", self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage("a rater is trained on one log or more, each named once", remedy="refaug log list")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Sizes that were tried together."""

    embedding: int
    hidden: int
    width: int
    batch: int
    pieces: int = 16_000


PRESETS: Final[Mapping[str, Preset]] = {
    "paper": Preset(embedding=512, hidden=512, width=1024, batch=1_000),
    "base": Preset(embedding=128, hidden=128, width=256, batch=256),
    "small": Preset(embedding=64, hidden=64, width=128, batch=128, pieces=2_000),
}


@dataclass(frozen=True, kw_only=True)
class MadeRater:
    """A finished version."""

    name: str
    version: str
    id: str
    published: bool
    report: Mapping[str, Any]
    is_new: bool = True


def train_rater(
    places: RaterPlaces,
    order: RaterOrder,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
    *,
    again: bool = False,
) -> MadeRater:
    """Mine, learn a vocabulary, train, measure, publish; an interrupted run goes on where it stopped.

    Nothing is done where the published rater was made of exactly this, unless it is to be done `again`.
    """
    logs = [StoredLog.open(places.logs, name) for name in sorted(order.logs)]
    languages = sorted({str(one.settings.get("language") or "en") for log in logs for one in log.manifest.ingests})
    shared = order.shared or SharedSettings.for_language(languages[0], seed=order.examples.seed)
    inputs = _inputs(order, logs, languages, shared)
    with places.raters.writing(order.name, f"training rater {order.name}") as writer:
        made_of = hash_of_inputs(inputs)
        if not again and (there := _published(places.raters, order.name, made_of)) is not None:
            return there
        stages = Stages.of(places.cache, f"rater-{order.name}", inputs)
        folder = stages.folder
        write_json(folder / _ORDER, asdict(order))
        with Engine(scratch_in(places.cache), memory=order.memory, threads=order.training.threads) as engine:
            mined = stages.run("shared", lambda: mine(engine, logs, shared, folder, progress))
        vocabulary = stages.run("tokenizer", lambda: _tokenizer(logs, languages, order, folder, progress))
        tokenizer = open_sentencepiece(folder / TOKENIZER)
        config = replace(order.model, vocabulary=tokenizer.vocab_size)
        coded = stages.run("pieces", lambda: code(tokenizer, folder, config.max_tokens, progress))
        corpus = open_corpus(folder)
        splits = {name: Examples(corpus, name, order.examples, config.max_tokens) for name in ("train", "validation")}
        _require_both(splits)
        torch.manual_seed(order.training.seed)
        trained = train(
            BiGRURater(config),
            splits["train"],
            splits["validation"],
            order.training,
            folder / "training",
            progress,
            on_now,
            on_epoch,
        )
        progress.stage("measuring")
        report = _report(trained, splits, mined, vocabulary, coded)
        details = {
            "at": now(),
            "inputs": made_of,
            "logs": {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in logs},
            "shared": asdict(shared),
            "examples": asdict(order.examples),
            "training": asdict(order.training),
            "seconds": stages.seconds,
        }
        version_folder = folder / "version"
        remove_tree(version_folder)
        name = save_rater(
            version_folder,
            trained.model,
            tokenizer,
            temperature=report["temperature"],
            languages=languages,
            report=report,
            details=details,
        )
        version = writer.add(version_folder)
        if order.publish:
            writer.publish(version)
        stages.drop()
    return MadeRater(name=order.name, version=version, id=name, published=order.publish, report=report)


def resume_rater(
    places: RaterPlaces,
    name: str,
    progress: Progress,
    on_now: OnNow = lambda _now: None,
    on_epoch: OnEpoch = lambda _figures: None,
) -> MadeRater:
    """Go on with a training that was stopped, as it was ordered; the newest, if there are several."""
    require_name("rater", name)
    orders = sorted(places.cache.glob(f"rater-{name}-????????????/{_ORDER}"), key=lambda path: path.stat().st_mtime)
    if not orders:
        raise NotFound(f"no training of rater {name!r} was stopped", remedy=f"refaug rater train LOG --name {name}")
    order = _order_of(read_json(orders[-1]))
    return train_rater(places, order, progress, on_now, on_epoch, again=True)


def _order_of(written: Mapping[str, Any]) -> RaterOrder:
    shared = written["shared"]
    return RaterOrder(
        **{
            **written,
            "logs": tuple(written["logs"]),
            "model": RaterConfig(**written["model"]),
            "examples": ExampleSettings(**written["examples"]),
            "training": TrainConfig(**written["training"]),
            "shared": None if shared is None else SharedSettings(**shared),
        }
    )


def _inputs(
    order: RaterOrder, logs: Sequence[StoredLog], languages: Sequence[str], shared: SharedSettings
) -> dict[str, Any]:
    """What decides over the rater; not where it is trained, nor by how many threads."""
    training = {name: value for name, value in asdict(order.training).items() if name not in ("threads", "device")}
    return {
        "logs": [[log.manifest.name, [part.sha256 for part in log.manifest.parts]] for log in logs],
        "languages": list(languages),
        "shared": asdict(shared),
        "model": asdict(order.model),
        "examples": asdict(order.examples),
        "training": training,
        "pieces": order.pieces,
    }


def _published(raters: Versions, name: str, made_of: str) -> MadeRater | None:
    """The published version, if it was made of exactly this."""
    if raters.current(name) is None:
        return None
    with raters.open(name) as held:
        manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != made_of:
            return None
        report: dict[str, Any] = read_json(held.folder / "report.json")
        return MadeRater(
            name=name, version=held.version, id=manifest["id"], published=True, report=report, is_new=False
        )


def _tokenizer(
    logs: Sequence[StoredLog], languages: Sequence[str], order: RaterOrder, folder: Path, progress: Progress
) -> Mapping[str, Any]:
    settings = TokenizerTraining(
        vocab_size=order.pieces, at_most=True, sample=_SENTENCES, seed=order.examples.seed, language=languages[0]
    )
    made = train_sentencepiece(turns_of(logs, progress), folder / TOKENIZER, settings)
    return {"pieces": made.vocab_size, "sha256": made.sha256, "sentences": made.sentences_used}


def _require_both(splits: Mapping[str, Examples]) -> None:
    for name, examples in splits.items():
        if examples.positive_count < 2:
            raise BadInput(
                f"{examples.positive_count} positive examples are left for {name}",
                remedy="give more logs, or another --validation-share",
            )


def _report(
    trained: Trained,
    splits: Mapping[str, Examples],
    mined: Mapping[str, Any],
    vocabulary: Mapping[str, Any],
    coded: Mapping[str, Any],
) -> dict[str, Any]:
    """What is known of the rater, all on utterances that it was not trained on."""
    found = answers(trained.model, splits["validation"])
    temperature = fitted_temperature(
        np.concatenate([found.first, found.second]), np.concatenate([found.positive, found.positive])
    )
    cooler = with_temperature(found.first, temperature)
    best = trained.epochs[trained.best_epoch - 1]
    return {
        "examples": {
            name: {"utterances": len(one.utterances), "positive": one.positive_count, "an_epoch": one.of_an_epoch}
            for name, one in splits.items()
        },
        "mined": dict(mined),
        "tokenizer": dict(vocabulary),
        "texts": dict(coded),
        "parameters": trained.model.parameter_count,
        "best_epoch": trained.best_epoch,
        "epochs": [asdict(one) for one in trained.epochs],
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "auc_good_vs_wrong": auc(found.first, found.positive),
        "temperature": temperature,
        "calibration": {
            "raw": {
                "error": calibration_error(found.first, found.positive),
                "bins": [asdict(one) for one in reliability(found.first, found.positive)],
            },
            "cal": {
                "error": calibration_error(cooler, found.positive),
                "bins": [asdict(one) for one in reliability(cooler, found.positive)],
            },
        },
    }
