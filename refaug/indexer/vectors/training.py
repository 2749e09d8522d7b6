"""Word vectors as artefacts: trained on logs or imported from a published file, and their coverage of a log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages, hash_of_inputs
from refaug.core.artefacts.versions import Writer
from refaug.core.clusters import ConnectedCluster
from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder, read_json, remove_tree, require_name, write_aside
from refaug.core.installation import EXECUTORS, find
from refaug.core.progress import Progress
from refaug.core.text.tokenizer_base import Tokenizer
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import MANIFEST, WordVectors, open_word_vectors
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.index_folders import Places
from refaug.indexer.tokens import Splitter, WordCounts, WordTable, default_tokenizer_for, save_tokenizer
from refaug.indexer.vectors.cooccurrence import Cooccurrences, CooccurrenceSettings, count_cooccurrences
from refaug.indexer.vectors.glove import GloveSettings, OnEpoch, train_glove
from refaug.logs.manifest import now
from refaug.logs.store import StoredLog

# ── How much of the texts of logs word vectors know ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class VectorCoverage:
    """How many tokens and texts the vectors cover."""

    tokens: int
    known_tokens: int
    texts: int
    without_vector: int  # texts with no known word, which cannot be found by their vector

    @property
    def share(self) -> float:
        """The covered share of the tokens."""
        return self.known_tokens / self.tokens if self.tokens else 0.0


class CoverageCounter:
    """Turns words into codes and counts how many of them are known."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.coverage = VectorCoverage(tokens=0, known_tokens=0, texts=0, without_vector=0)

    def codes(
        self, table: WordTable, hashes: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the codes of a batch, −1 for an unknown word."""
        codes = table.codes(hashes)
        known_before = np.concatenate([[0], np.cumsum(codes >= 0)])
        before = self.coverage
        self.coverage = VectorCoverage(
            tokens=before.tokens + len(codes),
            known_tokens=before.known_tokens + int(known_before[-1]),
            texts=before.texts + len(offsets) - 1,
            without_vector=before.without_vector + int(np.count_nonzero(np.diff(known_before[offsets]) == 0)),
        )
        return codes, offsets

    def as_facts(self) -> dict[str, int]:
        """Return the counts as plain numbers."""
        return asdict(self.coverage)

    def add_facts(self, facts: Mapping[str, int]) -> None:
        """Add the counts of other texts."""
        self.coverage = VectorCoverage(**{name: count + facts[name] for name, count in self.as_facts().items()})


_WORDS: Final = "words.txt"
_COUNTS: Final = "counts.npy"


@dataclass(frozen=True, kw_only=True)
class VectorsOrder:
    """An order for word vectors by name: the logs, and how frequent a word must be."""

    name: str
    logs: tuple[str, ...]
    tokenizer: str | None = None  # None: the default of the logs' language
    min_count: int = 5  # as in the script that comes with the original
    max_words: int = 400_000
    cooccurrence: CooccurrenceSettings = field(default_factory=CooccurrenceSettings)
    glove: GloveSettings = field(default_factory=GloveSettings)
    publish: bool = True

    def __post_init__(self) -> None:
        require_name("vectors", self.name)
        if not self.logs or len(set(self.logs)) < len(self.logs):
            raise Usage("word vectors are trained on one log or more, each named once", remedy="refaug log list")
        if self.min_count < 1 or self.max_words < 2:
            raise Usage(f"words that occur {self.min_count} times, at most {self.max_words} of them, are no vocabulary")


@dataclass(frozen=True, kw_only=True)
class StoredVectors:
    """A finished version of word vectors."""

    name: str
    version: str
    words: int
    dimensions: int
    sha256: str
    published: bool
    details: Mapping[str, Any]
    is_new: bool = True


# ── Training ──────────────────────────────────────────────────────────────────────────────────────────────────────


def train_vectors(
    places: Places,
    order: VectorsOrder,
    progress: Progress,
    on_epoch: OnEpoch = lambda _epoch, _loss: None,
    *,
    again: bool = False,
    cluster: ConnectedCluster | None = None,
) -> StoredVectors:
    """Count words and their neighbours, train, and publish; an interrupted training continues after its last epoch.

    On a cluster words and neighbours are counted by tasks; the vectors are the same, and trained here.

    If the published vectors were trained on exactly these inputs, they are returned as they are, unless `again` is
    set.
    """
    logs = [StoredLog.open(places.logs, name) for name in sorted(order.logs)]
    tokenizer = get_tokenizer(order.tokenizer or default_tokenizer_for(logs))
    with places.vectors.writing(order.name, f"training vectors {order.name}") as writer:
        inputs = _inputs(order, logs, tokenizer)
        input_hash = hash_of_inputs({**inputs, "glove": {**asdict(order.glove), "threads": None}})
        if not again and (published := _published_vectors(places, order.name, input_hash)) is not None:
            Stages.of(places.cache, f"vectors-{order.name}", inputs).drop()  # remains of an interrupted clean-up
            return published
        stages = Stages.of(places.cache, f"vectors-{order.name}", inputs)
        learned = learn_vectors(stages, logs, tokenizer, order, progress, on_epoch, cluster=cluster)
        details = {**learned.details, "at": now(), "inputs": input_hash}
        folder = stages.folder / "version"
        remove_tree(folder)
        stored = _store(writer, learned.vectors, folder, details, tokenizer, publish=order.publish)
        stages.drop()
    return stored


class LearnedVectors(NamedTuple):
    """Trained vectors and the details of their training."""

    vectors: WordVectors  # in files of the stages' folder
    details: Mapping[str, Any]


def learn_vectors(
    stages: Stages,
    logs: Sequence[StoredLog],
    tokenizer: Tokenizer,
    order: VectorsOrder,
    progress: Progress,
    on_epoch: OnEpoch = lambda _epoch, _loss: None,
    *,
    cluster: ConnectedCluster | None = None,
) -> LearnedVectors:
    """Count words and their neighbours, and train, in the folder of the stages; finished stages are not repeated."""
    texts = _TurnReader(logs, tokenizer)
    machines = None if cluster is None else _counting(cluster, stages, logs, tokenizer, order, progress)
    counted = stages.run("words", lambda: _count_words(stages.folder, texts, order, progress, machines))
    words = (stages.folder / _WORDS).read_bytes().decode().split("\n")[:-1]
    seen = stages.run(
        "co-occurrences", lambda: _count_neighbours(stages.folder, texts, words, order, progress, machines)
    )
    if machines is not None:
        machines.clear()
    trained = train_glove(
        Cooccurrences.open(stages.folder), order.glove, stages.folder / "training", progress, on_epoch
    )
    vectors = WordVectors(
        words=words,
        matrix=trained.matrix,
        counts=map_array(stages.folder / _COUNTS, np.int64),
        stem=order.name,
    )
    details = {
        "made": "trained",
        "tokenizer": tokenizer.name,
        "tokenizer_version": tokenizer.version,
        "logs": {log.manifest.name: [part.sha256 for part in log.manifest.parts] for log in logs},
        "min_count": order.min_count,
        "max_words": order.max_words,
        "cooccurrence": {**asdict(order.cooccurrence), "entries": seen["entries"]},
        "glove": asdict(order.glove),
        "losses": trained.losses,
        "distinct_words": counted["distinct"],
        "coverage": seen["coverage"],
        "seconds": stages.seconds,
    }
    return LearnedVectors(vectors, details)


class Counting(Protocol):
    """Both counts of some logs, on a cluster."""

    def count_words(self, counts: WordCounts) -> None:
        """Count the words of all logs, and add them up."""

    def count_neighbours(self, words: Sequence[str], coverage: CoverageCounter, folder: Path) -> Cooccurrences:
        """Count the co-occurrences of all logs, add them up, and write them as one machine does."""

    def clear(self) -> None:
        """Remove what the tasks have written."""


def _counting(
    cluster: ConnectedCluster,
    stages: Stages,
    logs: Sequence[StoredLog],
    tokenizer: Tokenizer,
    order: VectorsOrder,
    progress: Progress,
) -> Counting:
    counting: Counting = find(EXECUTORS, "vectors").begin(
        cluster, stages, logs, tokenizer, order.cooccurrence, progress
    )
    return counting


def _inputs(order: VectorsOrder, logs: Sequence[StoredLog], tokenizer: Tokenizer) -> Mapping[str, Any]:
    """Return what determines words and co-occurrences; the training checks its settings itself."""
    return {
        "logs": [[log.manifest.name, [part.sha256 for part in log.manifest.parts]] for log in logs],
        "tokenizer": [tokenizer.name, tokenizer.version],
        "min_count": order.min_count,
        "max_words": order.max_words,
        "window": order.cooccurrence.window,
    }


def _published_vectors(places: Places, name: str, input_hash: str) -> StoredVectors | None:
    """Return the published version if it was trained on exactly these inputs."""
    if places.vectors.current(name) is None:
        return None
    with places.vectors.open(name) as held:
        manifest: Mapping[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != input_hash:
            return None
        return StoredVectors(
            name=name,
            version=held.version,
            words=manifest["words"],
            dimensions=manifest["dimensions"],
            sha256=manifest["sha256"],
            published=True,
            details=manifest["details"],
            is_new=False,
        )


class _TurnReader:
    """Every turn of the logs once, split into words; may be read several times."""

    def __init__(self, logs: Sequence[StoredLog], tokenizer: Tokenizer) -> None:
        self._logs, self._splitter = logs, Splitter(tokenizer)
        self.pairs = sum(part.pairs for log in logs for part in log.manifest.parts)

    def hashes(
        self, progress: Progress, words: WordCounts | None = None
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """Yield the words of each batch of turns; with `words`, count them as well."""
        for log in self._logs:
            for turns in log.turns(progress):
                tokens = self._splitter.split(turns)
                if words is not None:
                    words.add(tokens)
                yield tokens.hashes, tokens.offsets


def _count_words(
    folder: Path, texts: _TurnReader, order: VectorsOrder, progress: Progress, machines: Counting | None
) -> Mapping[str, Any]:
    counts = WordCounts()
    if machines is None:
        progress.stage("counting words", texts.pairs, "pairs")
        for _ in texts.hashes(progress, counts):
            pass
    else:
        machines.count_words(counts)
    words, numbers = counts.most_common(min_count=order.min_count, max_words=order.max_words)
    frequent = [(word, number) for word, number in zip(words, numbers.tolist(), strict=True) if "\n" not in word]
    if len(frequent) < 2:
        raise BadInput(
            f"{len(frequent)} of {len(counts):,} words in {', '.join(order.logs)} occur {order.min_count} times",
            remedy="give more logs, or lower --min-count",
        )
    with write_aside(folder / _WORDS) as file:
        file.writelines(f"{word}\n".encode() for word, _ in frequent)
    with NpyWriter(folder / _COUNTS, np.int64) as writer:
        writer.append(np.array([number for _, number in frequent], np.int64))
    return {"words": len(frequent), "distinct": len(counts), "tokens": counts.total}


def _count_neighbours(
    folder: Path,
    texts: _TurnReader,
    words: Sequence[str],
    order: VectorsOrder,
    progress: Progress,
    machines: Counting | None,
) -> Mapping[str, Any]:
    """Count co-occurrences, and measure the vocabulary's coverage of the logs."""
    counter = CoverageCounter(len(words))
    if machines is None:
        table = WordTable.of(words)
        batches = (counter.codes(table, *batch) for batch in texts.hashes(progress))
        cooccurrences = count_cooccurrences(batches, len(words), order.cooccurrence, folder, progress)
    else:
        cooccurrences = machines.count_neighbours(words, counter, folder)
    return {"entries": len(cooccurrences), "coverage": counter.as_facts()}


# ── Taking over, measuring, storing ───────────────────────────────────────────────────────────────────────────────


def import_vectors(
    places: Places, name: str, path: Path, *, tokenizer: str | None = None, publish: bool = True
) -> StoredVectors:
    """Import a published file: read it once, and store it in the format that is memory-mapped."""
    require_name("vectors", name)
    vectors = open_word_vectors(path)
    named_tokenizer = get_tokenizer(tokenizer) if tokenizer else None
    details: dict[str, object] = {"made": "imported", "at": now(), "file": path.name, "duplicates": vectors.duplicates}
    if named_tokenizer is not None:
        details |= {"tokenizer": named_tokenizer.name, "tokenizer_version": named_tokenizer.version}
    with places.vectors.writing(name, f"importing vectors {name}") as writer:
        stages = Stages.of(places.cache, f"vectors-{name}", {"import": vectors.sha256, **details, "at": ""})
        folder = stages.folder / "version"
        remove_tree(folder)
        stored = _store(writer, vectors, folder, details, named_tokenizer, publish=publish)
        stages.drop()
    return stored


def _store(
    writer: Writer,
    vectors: WordVectors,
    folder: Path,
    details: Mapping[str, Any],
    tokenizer: Tokenizer | None,
    *,
    publish: bool,
) -> StoredVectors:
    make_folder(folder)
    beside = save_tokenizer(tokenizer, folder) if tokenizer is not None else []
    vectors.save(folder, details, beside=beside)
    version = writer.add(folder)
    if publish:
        writer.publish(version)
    return StoredVectors(
        name=writer.name,
        version=version,
        words=len(vectors.words),
        dimensions=vectors.dimensions,
        sha256=vectors.sha256,
        published=publish,
        details=details,
    )


def coverage_of(
    vectors: WordVectors, logs: Sequence[StoredLog], tokenizer: Tokenizer, progress: Progress
) -> VectorCoverage:
    """Measure how much of the logs' turns the vectors cover."""
    texts, table, counter = (
        _TurnReader(logs, tokenizer),
        WordTable.of(vectors.words),
        CoverageCounter(len(vectors.words)),
    )
    progress.stage("reading the logs", texts.pairs, "pairs")
    for hashes, offsets in texts.hashes(progress):
        counter.codes(table, hashes, offsets)
    return counter.coverage


def nearest_words(vectors: WordVectors, word: str, count: int) -> list[tuple[str, float]]:
    """Return the words with the most similar vectors, most similar first, without the word itself."""
    row = vectors.index.get(word)
    if row is None:
        raise BadInput(f"the vectors have no word {word!r}", remedy="most vocabularies are in lower case")
    lengths = np.linalg.norm(vectors.matrix, axis=1)
    cosines = (vectors.matrix @ vectors.matrix[row]) / np.maximum(lengths * lengths[row], np.finfo(np.float32).tiny)
    cosines[row] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: max(0, min(count, len(vectors.words) - 1))]
    return [(vectors.words[place], round(float(cosines[place]), 6)) for place in best]


def write_text(vectors: WordVectors, path: Path, *, header: bool) -> str:
    """Write the standard text format, a word and its numbers a line; return the file's SHA-256.

    word2vec's variant has a first line of counts. Nine digits are enough to restore every float32 exactly.
    """
    digest = hashlib.sha256()
    spaced = next((word for word in vectors.words if " " in word or not word), None)
    if spaced is not None:
        raise BadInput(f"the word {spaced!r} cannot stand in this format, which splits at spaces")
    with write_aside(path) as file:
        for line in _lines(vectors, header=header):
            file.write(line)
            digest.update(line)
    return digest.hexdigest()


def _lines(vectors: WordVectors, *, header: bool) -> Iterator[bytes]:
    if header:
        yield f"{len(vectors.words)} {vectors.dimensions}\n".encode()
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        yield f"{word} {' '.join(f'{number:.9g}' for number in row.tolist())}\n".encode()
