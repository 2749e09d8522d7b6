"""The chain from the files of logs to what the reports need: logs, vectors, indexes, raters, and retrieved references.

Each is an artefact of the home under a name that begins with `proof`. An artefact that was made of exactly the same
inputs is reused, and an interrupted one is resumed, so that the same command continues an interrupted run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Final, Literal, Protocol

import orjson

from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Corrupt, RefaugError, Usage
from refaug.core.files import make_folder, write_aside
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.core.records import Item
from refaug.core.text.messages import HiddenFolders
from refaug.core.text.normalisation import normalise
from refaug.extras.reproduction.material.proof_logs import (
    ENCODER,
    EVERYDAY,
    LogSelection,
    ProofLogs,
    ProofSettings,
    StepTimes,
)
from refaug.extras.reproduction.material.rated_sets import NEAR, Mask, ProofSet, token_jaccard, word_sets
from refaug.extras.reproduction.material.reference_kinds import Pool, ReplySample
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.search_settings import Mode
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.sentence_vectors import SentenceSettings
from refaug.indexer.vectors.training import VectorsOrder, train_vectors
from refaug.logs.store import StoredLog
from refaug.metrics.base import Metric
from refaug.metrics.embeddings.recommended import Recommended
from refaug.metrics.models.model_scores import RelevantReplies
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.specification import build
from refaug.operations.training import CROSS, LINEAR, OVER_ENCODERS, TrainRater
from refaug.operations.training import ENCODER as ENCODER_NETWORK
from refaug.rater.nn.build import PRESETS, RaterOrder, train_rater
from refaug.rater.nn.sizes import RaterConfig
from refaug.rater.rating import Rater
from refaug.rater.ruber.build import PRESETS as RUBER_PRESETS
from refaug.rater.ruber.build import RuberOrder, train_ruber
from refaug.rater.ruber.network import RuberConfig
from refaug.rater.training.examples import ExampleSettings
from refaug.rater.training.loop import TrainConfig
from refaug.rater.training.order import NetworkPreset, TrainingOrder, is_published
from refaug.rater.training.pair_corpus import PairSettings
from refaug.rater.trainings import train_any_rater
from refaug.scoring.augmentation import augment
from refaug.scoring.home.indexes import open_index, places_of
from refaug.scoring.home.networks import open_rater, rater_places, with_rater
from refaug.scoring.home.torch_networks import learn_piece_vectors, open_ruber, ruber_places
from refaug.scoring.items import item_json, read_items
from refaug.scoring.metric_setup.model_metrics import ReplyRelevance, with_parts
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import AugmentSettings

DEEP: Final = 100  # references that are retrieved; conditions take the first of them
_DRAWN: Final = 50_000  # replies that controls are drawn from
_ENCODED: Final = "proof-encoded"
_WIDTH: Final = 200  # of the word vectors
_EPOCHS: Final = 15  # of the word vectors
_PAIRS: Final = 80_000  # of an epoch of a ruber, drawn anew for each
_POSITIVES: Final = {  # of an epoch
    ENCODER_NETWORK: 60_000,  # of each of its networks: more did not agree better with people
    CROSS: 40_000,
}
_CROSS_PRESET: Final = "small"  # a larger one takes a day of a core


@dataclass(frozen=True, kw_only=True)
class IndexRecipe:
    """What an index is made of: the logs, their vectors, and how words are weighted."""

    name: str
    selections: tuple[LogSelection, ...]
    weighting: str = "sif"
    norm_words: bool = True  # each word's vector scaled to unit length first
    oov: str = "skip"  # unk: words without a vector count with that of <unk>


class SetOfItems(Protocol):
    """A rated set, as far as references are found for it."""

    @property
    def name(self) -> str:
        """Return its name in human/."""

    @property
    def data(self) -> str:
        """Return the hash of what it holds."""

    @property
    def items(self) -> Sequence[Item]:
        """Return its items."""


class Chain:
    """The logs, artefacts and references that the reports are made with, each built at its first use."""

    logs_class: ClassVar[type[ProofLogs]] = ProofLogs

    def __init__(self, home: Settings, settings: ProofSettings, progress: Progress) -> None:
        self.home, self.settings, self.progress = home, settings, progress
        self._times = StepTimes(home.cache / "reproduce" / "seconds.json")
        self._logs = self.logs_class(home, settings, progress, self._times)
        self._raters = dict[str, Rater]()
        self._sample: ReplySample | None = None
        self.models = ModelRegistry(home, settings.threads)

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds of every step: of artefacts when they were made, of other steps in this run."""
        return self._times.seconds

    @property
    def artefacts(self) -> Mapping[str, str]:
        """The artefacts in use, as signatures name them."""
        return self._times.artefacts

    # ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def select(self, log: str, share: float = 1.0) -> LogSelection:
        """Select a share of a log, within the fraction that the whole run uses."""
        return LogSelection(log=log, share=share * self.settings.fraction)

    @property
    def everyday(self) -> tuple[LogSelection, ...]:
        """Return the logs of the domain of the rated sets."""
        return tuple(map(self.select, EVERYDAY))

    def log(self, selection: LogSelection) -> str:
        """Ingest a selection unless it is ingested already, and return the name of the log."""
        return self._logs.ingest(selection)

    def logs(self, selections: Sequence[LogSelection]) -> tuple[str, ...]:
        """Return the names of several logs."""
        return tuple(map(self.log, selections))

    # ── artefacts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, name: str, spec: str) -> None:
        """Note an artefact that the run uses, as signatures name it."""
        self._times.artefacts[name] = spec

    def artefact_name(self, name: str) -> str:
        """Return the name of an artefact: a quick run must not replace artefacts of whole logs, which took long."""
        fraction = self.settings.fraction
        return name if fraction == 1 else f"{name}-{fraction:g}"

    def vectors(self, selections: Sequence[LogSelection] = (), *, name: str = "proof") -> str:
        """Train word vectors on some logs, by default the everyday ones; return name@version."""
        logs = self.logs(selections or self.everyday)
        order = VectorsOrder(
            name=self.artefact_name(name),
            logs=logs,
            glove=GloveSettings(
                dimensions=_WIDTH, epochs=_EPOCHS, seed=self.settings.seed, threads=self.settings.threads
            ),
        )
        began = perf_counter()
        trained_version = train_vectors(places_of(self.home), order, self.progress)
        self._times.note_artefact(
            f"vectors {name}",
            f"{trained_version.name}@{trained_version.version}#{trained_version.sha256[:12]}",
            began,
            is_new=trained_version.is_new,
        )
        return f"{trained_version.name}@{trained_version.version}"

    def vectors_folder(self, spec: str) -> Path:
        """Return the folder of word vectors, for metrics that need a path."""
        name, _, version = spec.partition("@")
        return artefact_stores(self.home)["vectors"].folder(name, version)

    def index(self, recipe: IndexRecipe, vectors: str | None = None) -> str:
        """Build an index of some logs; return name@version."""
        order = IndexOrder(
            name=self.artefact_name(recipe.name),
            logs=self.logs(recipe.selections),
            vectors=vectors or self.vectors(),
            sentence=SentenceSettings(
                weighting=recipe.weighting,  # type: ignore[arg-type]
                norm_words=recipe.norm_words,
                oov=recipe.oov,  # type: ignore[arg-type]
            ),
            threads=self.settings.threads,
            memory=self.settings.memory,
            seed=self.settings.seed,
        )
        return self._build_index(recipe.name, order)

    def encoder_index(self) -> str:
        """Build the index of the everyday logs that the encoder has read; return name@version."""
        order = IndexOrder(
            name=self.artefact_name(_ENCODED),
            logs=self.logs(self.everyday),
            encoder=self.settings.encoder,
            threads=self.settings.threads,
            memory=self.settings.memory,
            seed=self.settings.seed,
        )
        return self._build_index(_ENCODED, order)

    def _build_index(self, name: str, order: IndexOrder) -> str:
        began = perf_counter()
        index_version = build_index(places_of(self.home), order, self.progress)
        folder = artefact_stores(self.home)["index"].folder(index_version.name, index_version.version)
        spec = f"{index_version.name}@{index_version.version}#{IndexManifest.read(folder).id[:12]}"
        self._times.note_artefact(f"index {name}", spec, began, is_new=index_version.is_new)
        return f"{index_version.name}@{index_version.version}"

    def recommended_metric(self) -> Recommended:
        """Return refaug-1; MissingPart, with the command that adds it, where the home lacks the encoder."""
        encoder = "" if self.settings.encoder == ENCODER else f":encoder={self.settings.encoder}"
        metric = build(f"refaug-1{encoder}", source=self.models)
        assert isinstance(metric, Recommended), metric
        return metric

    def main_index(self) -> str:
        """Build the index of the everyday logs; return name@version."""
        return self.index(IndexRecipe(name="proof", selections=self.everyday))

    def rater(
        self,
        selections: Sequence[LogSelection] = (),
        *,
        name: str = "proof",
        preset: str | None = None,
    ) -> Rater:
        """Train and open a rater of some logs, by default the everyday ones."""
        if name in self._raters:
            return self._raters[name]
        preset_name = preset or self.settings.preset
        sizes, seed = PRESETS[preset_name], self.settings.seed
        order = RaterOrder(
            name=self.artefact_name(name if preset is not None or preset_name == "base" else f"{name}-{preset_name}"),
            logs=self.logs(selections or self.everyday),
            model=RaterConfig(
                embedding=sizes.embedding, hidden=sizes.hidden, width=sizes.width, features=sizes.features
            ),
            examples=ExampleSettings(batch=sizes.batch, seed=seed),
            training=self._training(sizes, seed),
            pieces=sizes.pieces,
            start=sizes.start,
            memory=self.settings.memory,
        )
        began = perf_counter()
        trained_version = train_rater(rater_places(self.home), order, self.progress, learn_vectors=learn_piece_vectors)
        rater = open_rater(
            self.home, f"{trained_version.name}@{trained_version.version}", threads=self.settings.threads
        )
        self._times.note_artefact(f"rater {name}", rater.spec, began, is_new=trained_version.is_new)
        self._raters[name] = rater
        return rater

    def paper_rater(self) -> Rater | None:
        """Open the rater of the published size that the home holds; it is never trained here, for that takes a GPU."""
        name = self.artefact_name("proof-paper")
        if name not in self._raters:
            if artefact_stores(self.home)["rater"].current(name) is None:
                return None
            self._raters[name] = open_rater(self.home, name, threads=self.settings.threads)
        return self._raters[name]

    def carried_rater(self, network: str, seed: int, negatives: str | None = None) -> Rater:
        """Make and open a rater of the everyday logs whose network learns from consecutive turns.

        Of a cross rater the negatives are named, too.
        """
        order, began = _carried_order(self, network, seed, negatives), perf_counter()
        places = rater_places(self.home)
        trained = train_any_rater(places, order, self.progress, learn_vectors=learn_piece_vectors)
        rater = open_rater(self.home, f"{trained.name}@{trained.version}", threads=self.settings.threads)
        self._times.note_artefact(f"rater {trained.name}", rater.spec, began, is_new=trained.is_new)
        return rater

    def has_carried_rater(self, network: str, seed: int, negatives: str | None = None) -> bool:
        """Say whether `carried_rater` would only open what the home has."""
        return is_published(rater_places(self.home), _carried_order(self, network, seed, negatives))

    def _training(self, sizes: NetworkPreset, seed: int) -> TrainConfig:
        return TrainConfig(
            epochs=self.settings.epochs or sizes.epochs,
            decay=sizes.decay,
            dropout=sizes.dropout,
            seed=seed,
            threads=self.settings.threads,
        )

    def ruber(self) -> str:
        """Train a ruber on the everyday logs."""
        if not self.settings.ruber:
            raise Usage("this run leaves it out", remedy="reproduce without --no-ruber")
        preset, seed = self.settings.preset, self.settings.seed
        sizes = RUBER_PRESETS[preset]
        order = RuberOrder(
            name=self.artefact_name("proof" if preset == "base" else f"proof-{preset}"),
            logs=self.logs(self.everyday),
            model=RuberConfig(embedding=sizes.embedding, hidden=sizes.hidden, width=sizes.width, layers=sizes.layers),
            pairs=PairSettings(batch=sizes.batch, seed=seed, limit=_PAIRS),
            training=self._training(sizes, seed),
            pieces=sizes.pieces,
            start=sizes.start,
            memory=self.settings.memory,
        )
        began = perf_counter()
        trained_version = train_ruber(ruber_places(self.home), order, self.progress, learn_vectors=learn_piece_vectors)
        self._times.note_artefact(
            "ruber proof",
            f"{trained_version.name}@{trained_version.version}#{trained_version.id[:12]}",
            began,
            is_new=trained_version.is_new,
        )
        return f"{trained_version.name}@{trained_version.version}"

    def bind_blend(self, metric: Metric, index: str, rater: Rater, augmenting: AugmentSettings | None = None) -> Metric:
        """Bind the metric `ruber` to its models.

        Its ranges come from the log of an index, with references retrieved in the same way.
        """
        models = replace(self.models.with_leased(rater=rater), sample=index)
        if isinstance(metric, Ruber) and isinstance(metric.unreferenced, RelevantReplies):
            metric = metric.with_ruber(self.ruber())
        with self._times.measure("ranges of blends"):
            return with_parts([metric], models, augmenting, self.progress)[0]

    def relevance(self) -> Metric:
        """Return RUBER's unreferenced part as a metric."""
        return RelevantReplies().with_judge(ReplyRelevance(open_ruber(self.home, self.ruber())))

    def bind_rater(self, metric: Metric, rater: Rater | None = None) -> Metric:
        """Return the metric, bound to the rater where it needs one."""
        return with_rater([metric], rater or self.rater())[0]

    # ── references ────────────────────────────────────────────────────────────────────────────────────────────────────

    def pool(
        self,
        rated_set: ProofSet,
        index: str,
        rater: Rater,
        *,
        mode: Mode = "embedding-utterance",
        deep: int = DEEP,
        gold: Literal["one", "none"] = "one",
    ) -> Pool:
        """Return the rated references that an index has for a set."""
        settings = AugmentSettings(
            k=deep,
            mode=mode,
            gold=gold,
            parrot="rated",  # conditions leave it out where they are without
        )
        return Pool.of(self.augmented_items(rated_set, index, rater, settings), self.reply_sample())

    def augmented_items(
        self, rated_set: SetOfItems, index: str, rater: Rater | None, settings: AugmentSettings
    ) -> list[Item]:
        """Return the items of a set with further references; they are cached, so that each search runs once."""
        golds = [[reference.text for reference in test_item.references] for test_item in rated_set.items]
        with open_index(self.home, index, threads=self.settings.threads) as opened:
            inputs = {
                "set": rated_set.data,
                "turns": [list(test_item.turns) for test_item in rated_set.items],  # not part of the hash of the set
                "golds": golds,
                "index": opened.spec,
                "rater": None if rater is None else rater.spec,
                "settings": asdict(settings),
            }
            digest = hash_of_inputs(inputs)[:16]
            path = self.home.cache / "reproduce" / "pools" / f"{digest}.jsonl"
            if not path.exists():
                make_folder(path.parent)
                with self._times.measure(f"references for {rated_set.name}"), write_aside(path) as file:
                    for test_item in augment(rated_set.items, opened, rater, settings, self.progress):
                        if isinstance(test_item, Item):
                            file.write(orjson.dumps(item_json(test_item), option=orjson.OPT_APPEND_NEWLINE))
        augmented_items = [test_item for test_item in read_items(path) if isinstance(test_item, Item)]
        if [test_item.id for test_item in augmented_items] != [test_item.id for test_item in rated_set.items]:
            raise Corrupt(
                f"{path} does not hold the items of {rated_set.name}", remedy="remove this file: it is made again"
            )
        return augmented_items

    def reply_sample(self) -> ReplySample:
        """Return the replies that controls are drawn from: of the everyday logs."""
        if self._sample is None:
            with QueryEngine(scratch_in(self.home.cache), memory=self.settings.memory, threads=1) as engine:
                texts = [
                    pair.response
                    for name in self.logs(self.everyday)
                    for pair in StoredLog.open(self.home.logs, name).sample(_DRAWN, self.settings.seed, engine)
                ]
            self._sample = ReplySample.of(texts)
        return self._sample

    # ── texts that the logs hold ──────────────────────────────────────────────────────────────────────────────────────

    def rows_in_logs(self, rated_set: ProofSet) -> Mask:
        """Mark the rows whose replies, normalised, are turns of the logs."""
        replies = {normalise(reply) for reply in rated_set.replies}
        replies_in_logs = set[str]()
        for name in self.logs(self.everyday):
            for turns in StoredLog.open(self.home.logs, name).turns():
                replies_in_logs |= replies & {normalise(turn or "") for turn in turns.to_pylist()}
        return rated_set.rows_where(lambda row: normalise(rated_set.replies[row]) in replies_in_logs)

    def near_contexts(self, rated_set: ProofSet, pools: Sequence[Pool]) -> Mask:
        """Mark the rows whose contexts share four fifths of all words with an utterance of the logs.

        Only the utterances that were retrieved, by words and by vectors, are compared.
        """
        is_near = dict[int, bool]()
        for number, test_item in enumerate(rated_set.items):
            [words] = word_sets([test_item.utterance or ""], rated_set.tokenizer)
            utterances = {reference.utterance or "" for pool in pools for reference in pool.retrieved[number]}
            is_near[number] = any(
                token_jaccard(words, other) >= NEAR for other in word_sets(sorted(utterances), rated_set.tokenizer)
            )
        return rated_set.rows_where(lambda row: is_near[int(rated_set.item[row])])

    def public_message(self, error: RefaugError) -> str:
        """Return the message of an error without the folders of this machine, which must not appear in results."""
        return HiddenFolders.left_out(self.home.home, self.settings.data).hide(error.message)


def _carried_order(chain: Chain, network: str, seed: int, negatives: str | None) -> TrainingOrder:
    parts = ["proof", network, negatives, None if seed == chain.settings.seed else str(seed)]
    by_epochs: dict[str, Any] = {"preset": chain.settings.preset, "epochs": chain.settings.epochs}
    return TrainRater(
        name=chain.artefact_name("-".join(filter(None, parts))),
        logs=chain.logs(chain.everyday),
        network=network,  # type: ignore[arg-type]
        encoder=chain.settings.encoder if network in OVER_ENCODERS else None,
        positives=_POSITIVES.get(network),
        negatives=negatives,  # type: ignore[arg-type]
        seed=seed,
        **({} if network == LINEAR else by_epochs | ({"preset": _CROSS_PRESET} if network == CROSS else {})),
    ).order(threads=chain.settings.threads)
