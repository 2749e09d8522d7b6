"""From the files of logs to what the proof asks: logs, vectors, indexes, raters, and references found with them.

Each is an artefact of the home like any other, under a name of its own; one that was made of exactly the same is taken
as it is, and one that was stopped goes on, so that an interrupted proof resumes by being asked for again.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import orjson

from core.engine import Engine, scratch_in
from core.errors import Conflict, Corrupt, NotFound, RefaugError, Usage
from core.files import make_folder, read_json, sha256_of, write_aside, write_json
from core.ingest import ingest
from core.ingest_order import IngestOrder
from core.items import item_json, read_items
from core.log_store import MANIFEST, LogManifest, StoredLog
from core.progress import Progress
from core.records import Item
from core.stages import hash_of_inputs
from core.text import normalise
from indexer.build import build_index
from indexer.glove import GloveSettings
from indexer.manifest import IndexManifest
from indexer.order import IndexOrder
from indexer.queries import Mode, SearchSettings
from indexer.sentence_vectors import SentenceSettings
from indexer.train_vectors import VectorsOrder, train_vectors
from metrics.base import Metric
from metrics.model_scores import RelevantReplies
from rater.examples import ExampleSettings
from rater.making import PRESETS, Preset, RaterOrder, train_rater
from rater.model import RaterConfig
from rater.rate import Rater, RatingSettings
from rater.ruber_examples import PairSettings
from rater.ruber_making import PRESETS as RUBER_PRESETS
from rater.ruber_making import RuberOrder, RuberPreset, train_ruber
from rater.ruber_model import RuberConfig
from rater.train import TrainConfig
from service.artefacts import stored
from service.augment import Augmented, AugmentSettings, augment
from service.piece_vectors import learn_piece_vectors
from service.proof.references import Drawn, Pool
from service.proof.sets import NEAR, Mask, ProofSet, likeness, words_of
from service.rating import open_rater, rater_places, with_rater
from service.retrieval import open_index, places_of
from service.ruber import open_ruber, ruber_places
from service.ruber_scores import Named, ReplyRelevance, with_parts
from service.settings import Settings

EVERYDAY: Final = ("daily", "small")  # the domain of the rated sets
FILES: Final = {"daily": "dailydialog_en", "small": "small_en", "medium": "medium_en", "japanese": "ja_million"}
ELSEWHERE: Final = ("irc", "crd3", "sgd", "taskmaster")  # technical chat, table-top play, task dialogues
DEEP: Final = 100  # references that are retrieved; conditions take the first of them
_DRAWN: Final = 50_000  # replies that controls are drawn from
_WIDTH: Final = 200  # of the word vectors
_EPOCHS: Final = 15  # of theirs
_PAIRS: Final = 80_000  # an epoch, drawn anew for each, of a ruber


@dataclass(frozen=True, kw_only=True)
class ProofSettings:
    """Where the data lies, and how much of it is taken."""

    data: Path
    fraction: float = 1.0  # of the dialogues of each log
    draws: int = 2_000
    seeds: int = 20  # of every control in which there is chance
    seed: int = 1
    threads: int = 1
    memory: int = 2 << 30
    preset: str = "base"  # of raters, where a part of the proof does not say which
    epochs: int | None = None  # of raters; None: the preset's

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise Usage(f"a fraction of {self.fraction}", remedy="above 0, at most 1")
        if min(self.draws, self.seeds, self.threads) < 1:
            raise Usage("draws, seeds and threads are 1 or more")
        if self.preset not in PRESETS:
            raise Usage(f"there is no preset {self.preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
        if self.epochs is not None and self.epochs < 1:
            raise Usage(f"{self.epochs} epochs", remedy="1 or more")
        if not self.data.is_dir():
            raise NotFound(f"{self.data} is not there", remedy="--data FOLDER, with logs/ and human/ in it")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some dialogues of a log's file: a share of them, and those of some sources alone."""

    log: str
    share: float = 1.0
    sources: tuple[str, ...] = ()  # what their ids begin with; none: all

    @property
    def name(self) -> str:
        """Of the ingested log."""
        share = "" if self.share == 1 else f"-{self.share:g}"
        only = f"-{hashlib.sha256(repr(self.sources).encode()).hexdigest()[:6]}" if self.sources else ""
        return f"proof-{self.log}{share}{only}"

    def takes(self, dialogue: str) -> bool:
        """Whether this dialogue is one of them: the same ones whatever the order of the file."""
        if self.sources and not dialogue.startswith(self.sources):
            return False
        drawn = hashlib.blake2b(dialogue.encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "little") < self.share * 2**64

    @property
    def is_whole(self) -> bool:
        """Whether the file can be taken as it is."""
        return self.share == 1 and not self.sources


@dataclass(frozen=True, kw_only=True)
class IndexOf:
    """Which index: of which logs, with vectors of which, words weighted how."""

    name: str
    parts: tuple[Part, ...]
    weighting: str = "sif"
    norm_words: bool = True  # each word's vector scaled to unit length first


def without_folders(text: str, *folders: Path) -> str:
    """A message without the paths that lead to what lies in these folders."""
    for folder in folders:
        text = text.replace(f"{folder}/", "")
    return text


class Chain:
    """Everything that the proof is made with, built when it is first asked for."""

    def __init__(self, home: Settings, settings: ProofSettings, progress: Progress) -> None:
        self.home, self.settings, self.progress = home, settings, progress
        self.seconds = dict[str, float]()  # of artefacts when they were made, of the rest in this run
        self.made = dict[str, str]()  # what was used, as signatures name it
        self._raters = dict[str, Rater]()
        self._samples = dict[Sequence[Part], Drawn]()
        self._ingested = set[str]()

    # ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def part(self, log: str, share: float = 1.0, sources: tuple[str, ...] = ()) -> Part:
        """A part of a log's file, within the fraction that the whole proof takes."""
        return Part(log=log, share=share * self.settings.fraction, sources=sources)

    @property
    def everyday(self) -> tuple[Part, ...]:
        """The logs of the domain of the rated sets."""
        return tuple(map(self.part, EVERYDAY))

    def log(self, part: Part) -> str:
        """The name of its ingested log."""
        if part.name in self._ingested:
            return part.name
        path = self._file(part.log)
        with self._timed(f"ingesting {part.name}"):
            source = path if part.is_whole else self._selected(path, part)
            self._require_same(part, source)
            ingest(
                IngestOrder(sources=(str(source),), log=part.name, memory=self.settings.memory),
                self.home.logs,
                self.progress,
            )
        self._ingested.add(part.name)
        return part.name

    def _require_same(self, part: Part, source: Path) -> None:
        """Refuse a log that was made of another file of this name: the new one would be added to the old one."""
        folder = self.home.logs / part.name
        if not (folder / MANIFEST).exists():
            return
        known = LogManifest.read(folder).source_fingerprints()
        if known and (sha256_of(source),) not in known:
            raise Conflict(
                f"the log {part.name} was made of another {FILES[part.log]}.jsonl.gz",
                remedy="give this data a home of its own: refaug --home FOLDER reproduce",
            )

    def logs(self, parts: Sequence[Part]) -> tuple[str, ...]:
        """The names of several."""
        return tuple(map(self.log, parts))

    def _file(self, log: str) -> Path:
        path = self.settings.data / "logs" / f"{FILES[log]}.jsonl.gz"
        if not path.is_file():
            raise NotFound(f"{path} is not there", remedy="--data FOLDER, with the logs in logs/")
        return path

    def _selected(self, path: Path, part: Part) -> Path:
        """Its dialogues in a file of their own, in the order of the whole one."""
        folder = self.home.cache / "reproduce" / "logs"
        target = folder / f"{part.name}-{sha256_of(path)[:16]}.jsonl.gz"
        if target.exists():
            return target
        make_folder(folder)
        with (
            gzip.open(path, "rb") as lines,
            write_aside(target) as file,
            gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as written,
        ):
            for line in lines:
                if part.takes(str(orjson.loads(line)["id"])):
                    written.write(line)
        return target

    def _called(self, name: str) -> str:
        """The name of an artefact: a quick run leaves those of the whole logs alone, which took long to make."""
        fraction = self.settings.fraction
        return name if fraction == 1 else f"{name}-{fraction:g}"

    # ── artefacts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def vectors(self, parts: Sequence[Part] = (), *, name: str = "proof", width: int = _WIDTH) -> str:
        """Word vectors of some logs, by default of the everyday ones; name@version."""
        logs = self.logs(parts or self.everyday)
        order = VectorsOrder(
            name=self._called(name),
            logs=logs,
            glove=GloveSettings(
                dimensions=width, epochs=_EPOCHS, seed=self.settings.seed, threads=self.settings.threads
            ),
        )
        began = perf_counter()
        made = train_vectors(places_of(self.home), order, self.progress)
        self._note(f"vectors {name}", f"{made.name}@{made.version}#{made.sha256[:12]}", began, is_new=made.is_new)
        return f"{made.name}@{made.version}"

    def vectors_folder(self, spec: str) -> Path:
        """Where word vectors lie, for metrics that want them as a path."""
        name, _, version = spec.partition("@")
        return stored(self.home)["vectors"].folder(name, version)

    def index(self, wanted: IndexOf, vectors: str | None = None) -> str:
        """An index of some logs; name@version."""
        logs = self.logs(wanted.parts)
        order = IndexOrder(
            name=self._called(wanted.name),
            logs=logs,
            vectors=vectors or self.vectors(),
            sentence=SentenceSettings(weighting=wanted.weighting, norm_words=wanted.norm_words),  # type: ignore[arg-type]
            threads=self.settings.threads,
            memory=self.settings.memory,
            seed=self.settings.seed,
        )
        began = perf_counter()
        built = build_index(places_of(self.home), order, self.progress)
        folder = stored(self.home)["index"].folder(built.name, built.version)
        spec = f"{built.name}@{built.version}#{IndexManifest.read(folder).id[:12]}"
        self._note(f"index {wanted.name}", spec, began, is_new=built.is_new)
        return f"{built.name}@{built.version}"

    def main_index(self) -> str:
        """That of the everyday logs."""
        return self.index(IndexOf(name="proof", parts=self.everyday))

    def rater(
        self,
        parts: Sequence[Part] = (),
        *,
        name: str = "proof",
        preset: str | None = None,
        more_texts: Sequence[Part] | None = None,
        negatives: str = "random",
        seed: int | None = None,
        positives: int | None = None,
    ) -> Rater:
        """A rater of some logs, by default of the everyday ones, its vocabulary of the large one as well.

        `positives` is how many positive examples an epoch has, drawn anew for each; None: all.
        """
        if name in self._raters:
            return self._raters[name]
        asked = preset or self.settings.preset
        sizes, seed = PRESETS[asked], self.settings.seed if seed is None else seed
        more = (self.part("medium"),) if more_texts is None else tuple(more_texts)
        order = RaterOrder(
            name=self._called(name if preset is not None or asked == "base" else f"{name}-{asked}"),
            logs=self.logs(parts or self.everyday),
            more_texts=self.logs(more),
            model=RaterConfig(
                embedding=sizes.embedding, hidden=sizes.hidden, width=sizes.width, features=sizes.features
            ),
            examples=ExampleSettings(
                batch=sizes.batch,
                seed=seed,
                limit=positives,
                negatives=negatives,  # type: ignore[arg-type]
            ),
            training=self._training(sizes, seed),
            pieces=sizes.pieces,
            start=sizes.start,
            memory=self.settings.memory,
        )
        began = perf_counter()
        made = train_rater(rater_places(self.home), order, self.progress, learn_vectors=learn_piece_vectors)
        opened = open_rater(self.home, f"{made.name}@{made.version}", threads=self.settings.threads)
        self._note(f"rater {name}", opened.spec, began, is_new=made.is_new)
        self._raters[name] = opened
        return opened

    def _training(self, sizes: Preset | RuberPreset, seed: int) -> TrainConfig:
        return TrainConfig(
            epochs=self.settings.epochs or sizes.epochs,
            decay=sizes.decay,
            dropout=sizes.dropout,
            seed=seed,
            threads=self.settings.threads,
        )

    def ruber(self, parts: Sequence[Part] = (), *, name: str = "proof") -> str:
        """A ruber of some logs, by default of the everyday ones, its vocabulary of the large one as well."""
        asked, seed = self.settings.preset, self.settings.seed
        sizes = RUBER_PRESETS[asked]
        order = RuberOrder(
            name=self._called(name if asked == "base" else f"{name}-{asked}"),
            logs=self.logs(parts or self.everyday),
            more_texts=self.logs((self.part("medium"),)),
            model=RuberConfig(embedding=sizes.embedding, hidden=sizes.hidden, width=sizes.width, layers=sizes.layers),
            pairs=PairSettings(batch=sizes.batch, seed=seed, limit=_PAIRS),
            training=self._training(sizes, seed),
            pieces=sizes.pieces,
            start=sizes.start,
            memory=self.settings.memory,
        )
        began = perf_counter()
        made = train_ruber(ruber_places(self.home), order, self.progress, learn_vectors=learn_piece_vectors)
        self._note(f"ruber {name}", f"{made.name}@{made.version}#{made.id[:12]}", began, is_new=made.is_new)
        return f"{made.name}@{made.version}"

    def blended(self, metric: Metric, index: str, rater: Rater, augmenting: AugmentSettings | None = None) -> Metric:
        """`ruber`, bound to its models, with ranges out of the log of an index, whose references are found alike."""
        asks_ruber = metric.info.needs_ruber
        named = Named(
            rater=rater.spec.partition("#")[0],
            ruber=self.ruber() if asks_ruber else None,
            sample=index,
            threads=self.settings.threads,
        )
        with self._timed("ranges of blends"):
            return with_parts([metric], self.home, named, augmenting, self.progress)[0]

    def relevance(self) -> Metric:
        """RUBER's unreferenced part as a metric of its own."""
        return RelevantReplies().bound(ReplyRelevance(open_ruber(self.home, self.ruber())))

    def asking(self, metric: Metric, rater: Rater | None = None) -> Metric:
        """The metric, bound to the rater where it asks one."""
        return with_rater([metric], rater or self.rater())[0]

    # ── references ────────────────────────────────────────────────────────────────────────────────────────────────

    def pool(
        self,
        one: ProofSet,
        index: str,
        rater: Rater,
        *,
        mode: Mode = "embedding-utterance",
        deep: int = DEEP,
        drawn: Drawn | None = None,
        combine: str = "first",
    ) -> Pool:
        """What an index has for a set, rated; kept, so that it is looked for once."""
        settings = AugmentSettings(
            search=SearchSettings(k=deep, mode=mode),
            rating=RatingSettings(combine=combine),  # type: ignore[arg-type]
        )
        golds = [[reference.text for reference in item.pair.references] for item in one.items]
        with open_index(self.home, index, threads=self.settings.threads) as opened:
            inputs = {
                "set": one.data,
                "turns": [list(item.pair.turns) for item in one.items],  # of which the hash of the set says nothing
                "golds": golds,
                "index": opened.spec,
                "rater": rater.spec,
                "settings": asdict(settings),
            }
            digest = hash_of_inputs(inputs)[:16]
            path = self.home.cache / "reproduce" / "pools" / f"{digest}.jsonl"
            if not path.exists():
                make_folder(path.parent)
                with self._timed(f"references for {one.name}"), write_aside(path) as file:
                    for found in augment(one.items, opened, rater, settings, self.progress):
                        item = found.item if isinstance(found, Augmented) else found
                        if isinstance(item, Item):
                            file.write(orjson.dumps(item_json(item), option=orjson.OPT_APPEND_NEWLINE))
        found_items = list(read_items(path))
        if [item.id if isinstance(item, Item) else None for item in found_items] != [item.id for item in one.items]:
            raise Corrupt(f"{path} does not hold the items of {one.name}", remedy="remove this file: it is made again")
        return Pool.of(found_items, drawn or self.drawn())

    def drawn(self, part: Part | None = None) -> Drawn:
        """Replies of the everyday logs, or of one part, that controls are drawn from."""
        parts = (part,) if part is not None else self.everyday
        return self._drawn(parts)

    def _drawn(self, parts: Sequence[Part]) -> Drawn:
        if parts not in self._samples:
            with Engine(scratch_in(self.home.cache), memory=self.settings.memory, threads=1) as engine:
                texts = [
                    pair.response
                    for name in self.logs(parts)
                    for pair in StoredLog.open(self.home.logs, name).sample(_DRAWN, self.settings.seed, engine)
                ]
            self._samples[parts] = Drawn.of(texts)
        return self._samples[parts]

    # ── what stands in the logs ───────────────────────────────────────────────────────────────────────────────────

    def standing(self, one: ProofSet, parts: Sequence[Part] | None = None) -> Mask:
        """Which rows' replies are, normalised, a turn of the logs."""
        wanted = {normalise(reply) for reply in one.replies}
        found = set[str]()
        for name in self.logs(self.everyday if parts is None else parts):
            for turns in StoredLog.open(self.home.logs, name).turns():
                found |= wanted & {normalise(turn or "") for turn in turns.to_pylist()}
        return one.of_rows(lambda row: normalise(one.replies[row]) in found)

    def near_contexts(self, one: ProofSet, pools: Sequence[Pool]) -> Mask:
        """Which rows' contexts have an utterance in the logs with four fifths of all words in common.

        It is looked for among those that were retrieved, by words and by vectors.
        """
        known = dict[int, bool]()
        for number, item in enumerate(one.items):
            [words] = words_of([item.pair.utterance or ""], one.tokenizer)
            others = {str(found.more.get("utterance", "")) for pool in pools for found in pool.retrieved[number]}
            known[number] = any(likeness(words, other) >= NEAR for other in words_of(sorted(others), one.tokenizer))
        return one.of_rows(lambda row: known[int(one.item[row])])

    def said_of(self, error: RefaugError) -> str:
        """What went wrong, for results: the folders of this machine are nobody's business."""
        return without_folders(error.message, self.home.home, self.settings.data)

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, name: str, spec: str, began: float, *, is_new: bool) -> None:
        """An artefact as signatures name it, and the seconds that it took when it was made."""
        self.made[name] = spec
        path = self.home.cache / "reproduce" / "seconds.json"
        known = dict(read_json(path)) if path.exists() else {}
        if is_new:
            known[spec] = round(perf_counter() - began, 1)
            make_folder(path.parent)
            write_json(path, known)
        if spec in known:
            self.seconds[name] = float(str(known[spec]))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + perf_counter() - began, 1)
