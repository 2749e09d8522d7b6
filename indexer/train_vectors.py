"""Word vectors as artefacts: trained on logs, or taken over from a published file; and what of a log they know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import BadInput, Usage
from core.files import make_folder, read_json, remove_tree, require_name, write_aside
from core.log_store import StoredLog, now
from core.progress import Progress
from core.stages import Stages, hash_of_inputs
from core.text import Tokenizer, get_tokenizer
from core.versions import Writer
from core.word_vectors import MANIFEST, WordVectors, open_word_vectors
from indexer.arrays import NpyWriter, map_array
from indexer.cooccurrence import Cooccurrences, CooccurrenceSettings, count_cooccurrences
from indexer.glove import GloveSettings, OnEpoch, train_glove
from indexer.places import Places
from indexer.tokenizers import keep_tokenizer, suiting
from indexer.tokens import Splitter, WordCounts, WordTable

_WORDS: Final = "words.txt"
_COUNTS: Final = "counts.npy"


@dataclass(frozen=True, kw_only=True)
class VectorsOrder:
    """Word vectors by name: of which logs, of how frequent words."""

    name: str
    logs: tuple[str, ...]
    tokenizer: str | None = None  # None: what suits the logs' language
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
class Coverage:
    """How much of some texts the vectors know."""

    tokens: int
    known_tokens: int
    texts: int
    without_vector: int  # texts with no known word: they can never be found by their vector

    @property
    def share(self) -> float:
        """Of the tokens."""
        return self.known_tokens / self.tokens if self.tokens else 0.0


@dataclass(frozen=True, kw_only=True)
class StoredVectors:
    """A finished version."""

    name: str
    version: str
    words: int
    dimensions: int
    sha256: str
    published: bool
    details: Mapping[str, Any]
    is_new: bool = True


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────────────


def train_vectors(
    places: Places,
    order: VectorsOrder,
    progress: Progress,
    on_epoch: OnEpoch = lambda _epoch, _loss: None,
    *,
    again: bool = False,
) -> StoredVectors:
    """Count words and their neighbours, train, and publish; an interrupted training goes on after its last epoch.

    Nothing is done where the published vectors were made of exactly this, unless it is to be done `again`.
    """
    logs = [StoredLog.open(places.logs, name) for name in sorted(order.logs)]
    tokenizer = get_tokenizer(order.tokenizer or suiting(logs))
    with places.vectors.writing(order.name, f"training vectors {order.name}") as writer:
        inputs = _inputs(order, logs, tokenizer)
        made_of = hash_of_inputs({**inputs, "glove": {**asdict(order.glove), "threads": None}})
        if not again and (there := _published(places, order.name, made_of)) is not None:
            Stages.of(places.cache, f"vectors-{order.name}", inputs).drop()  # what a kill has left of clearing up
            return there
        stages = Stages.of(places.cache, f"vectors-{order.name}", inputs)
        learnt = learn_vectors(stages, logs, tokenizer, order, progress, on_epoch)
        details = {**learnt.details, "at": now(), "inputs": made_of}
        folder = stages.folder / "version"
        remove_tree(folder)
        stored = _store(writer, learnt.vectors, folder, details, tokenizer, publish=order.publish)
        stages.drop()
    return stored


class Learnt(NamedTuple):
    """Vectors as they were trained, and how that came about."""

    vectors: WordVectors  # in files of the stages' folder
    details: Mapping[str, Any]


def learn_vectors(
    stages: Stages,
    logs: Sequence[StoredLog],
    tokenizer: Tokenizer,
    order: VectorsOrder,
    progress: Progress,
    on_epoch: OnEpoch = lambda _epoch, _loss: None,
) -> Learnt:
    """Count words and their neighbours, and train, in a folder of its own; what is finished there is not done again."""
    texts = _Texts(logs, tokenizer)
    counted = stages.run("words", lambda: _count_words(stages.folder, texts, order, progress))
    words = (stages.folder / _WORDS).read_bytes().decode().split("\n")[:-1]
    table = WordTable.of(words)
    seen = stages.run(
        "co-occurrences", lambda: _count_neighbours(stages.folder, texts, table, len(words), order, progress)
    )
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
    return Learnt(vectors, details)


def _inputs(order: VectorsOrder, logs: Sequence[StoredLog], tokenizer: Tokenizer) -> Mapping[str, Any]:
    """What decides over words and co-occurrences; what decides over the training, the training itself looks at."""
    return {
        "logs": [[log.manifest.name, [part.sha256 for part in log.manifest.parts]] for log in logs],
        "tokenizer": [tokenizer.name, tokenizer.version],
        "min_count": order.min_count,
        "max_words": order.max_words,
        "window": order.cooccurrence.window,
    }


def _published(places: Places, name: str, made_of: str) -> StoredVectors | None:
    """The published version, if it was made of exactly this."""
    if places.vectors.current(name) is None:
        return None
    with places.vectors.open(name) as held:
        manifest: dict[str, Any] = read_json(held.folder / MANIFEST)
        if manifest.get("details", {}).get("inputs") != made_of:
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


class _Texts:
    """Every turn of the logs once, cut into words; may be read again and again."""

    def __init__(self, logs: Sequence[StoredLog], tokenizer: Tokenizer) -> None:
        self._logs, self._splitter = logs, Splitter(tokenizer)
        self.pairs = sum(part.pairs for log in logs for part in log.manifest.parts)

    def hashes(
        self, progress: Progress, words: WordCounts | None = None
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """The words of each batch of turns, counted by the way if that is wanted."""
        for log in self._logs:
            for turns in log.turns(progress):
                tokens = self._splitter.split(turns)
                if words is not None:
                    words.add(tokens)
                yield tokens.hashes, tokens.offsets


def _count_words(folder: Path, texts: _Texts, order: VectorsOrder, progress: Progress) -> Mapping[str, Any]:
    counts = WordCounts()
    progress.stage("counting words", texts.pairs, "pairs")
    for _ in texts.hashes(progress, counts):
        pass
    words, numbers = counts.most_common(min_count=order.min_count, max_words=order.max_words)
    kept = [(word, number) for word, number in zip(words, numbers.tolist(), strict=True) if "\n" not in word]
    if len(kept) < 2:
        raise BadInput(
            f"{len(kept)} of {len(counts):,} words in {', '.join(order.logs)} occur {order.min_count} times",
            remedy="give more logs, or lower --min-count",
        )
    with write_aside(folder / _WORDS) as file:
        file.writelines(f"{word}\n".encode() for word, _ in kept)
    with NpyWriter(folder / _COUNTS, np.int64) as writer:
        writer.append(np.array([number for _, number in kept], np.int64))
    return {"words": len(kept), "distinct": len(counts), "tokens": counts.total}


def _count_neighbours(
    folder: Path, texts: _Texts, table: WordTable, words: int, order: VectorsOrder, progress: Progress
) -> Mapping[str, Any]:
    """Co-occurrences, and what of the logs the vocabulary covers."""
    covered = _Counter(words)
    batches = (covered.codes(table, *batch) for batch in texts.hashes(progress))
    found = count_cooccurrences(batches, words, order.cooccurrence, folder, progress)
    return {"entries": len(found), "coverage": asdict(covered.coverage)}


class _Counter:
    """Codes of texts, and how many of them are those of a known word."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.coverage = Coverage(tokens=0, known_tokens=0, texts=0, without_vector=0)

    def codes(
        self, table: WordTable, hashes: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The codes of a batch, −1 for an unknown word."""
        codes = table.codes(hashes)
        known = np.concatenate([[0], np.cumsum(codes >= 0)])
        before = self.coverage
        self.coverage = Coverage(
            tokens=before.tokens + len(codes),
            known_tokens=before.known_tokens + int(known[-1]),
            texts=before.texts + len(offsets) - 1,
            without_vector=before.without_vector + int(np.count_nonzero(np.diff(known[offsets]) == 0)),
        )
        return codes, offsets


# ── taking over, measuring, storing ───────────────────────────────────────────────────────────────────────────────


def import_vectors(
    places: Places, name: str, path: Path, *, tokenizer: str | None = None, publish: bool = True
) -> StoredVectors:
    """Read a published file once, and keep it as it is mapped from then on."""
    require_name("vectors", name)
    vectors = open_word_vectors(path)
    chosen = get_tokenizer(tokenizer) if tokenizer else None
    details: dict[str, Any] = {"made": "imported", "at": now(), "file": path.name, "duplicates": vectors.duplicates}
    if chosen is not None:
        details |= {"tokenizer": chosen.name, "tokenizer_version": chosen.version}
    with places.vectors.writing(name, f"importing vectors {name}") as writer:
        stages = Stages.of(places.cache, f"vectors-{name}", {"import": vectors.sha256, **details, "at": ""})
        folder = stages.folder / "version"
        remove_tree(folder)
        stored = _store(writer, vectors, folder, details, chosen, publish=publish)
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
    beside = keep_tokenizer(tokenizer, folder) if tokenizer is not None else []
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


def coverage_of(vectors: WordVectors, logs: Sequence[StoredLog], tokenizer: Tokenizer, progress: Progress) -> Coverage:
    """What of the logs' turns the vectors know."""
    texts, table, covered = _Texts(logs, tokenizer), WordTable.of(vectors.words), _Counter(len(vectors.words))
    progress.stage("reading the logs", texts.pairs, "pairs")
    for hashes, offsets in texts.hashes(progress):
        covered.codes(table, hashes, offsets)
    return covered.coverage


def nearest_words(vectors: WordVectors, word: str, count: int) -> list[tuple[str, float]]:
    """The words whose vectors point the same way, most alike first; the word itself is not among them."""
    row = vectors.index.get(word)
    if row is None:
        raise BadInput(f"the vectors have no word {word!r}", remedy="most vocabularies are in lower case")
    lengths = np.linalg.norm(vectors.matrix, axis=1)
    cosines = (vectors.matrix @ vectors.matrix[row]) / np.maximum(lengths * lengths[row], np.finfo(np.float32).tiny)
    cosines[row] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: max(0, min(count, len(vectors.words) - 1))]
    return [(vectors.words[place], round(float(cosines[place]), 6)) for place in best]


def write_text(vectors: WordVectors, path: Path, *, header: bool) -> str:
    """The standard text format: a word and its numbers a line, for word2vec with a first line of counts; its SHA-256.

    Nine digits are enough for every float32 to come back as it was.
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
