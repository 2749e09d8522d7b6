"""Compacting an index: no masked rows and no segments of updates any more; of shards, only the concerned ones anew.

A shard is concerned where an update or a deletion has masked rows of it, or has added utterances of its range, or the
logs have changed in it since. Every other shard's tables, words and vectors are hard links to the files of the version
before. So its codes stay valid: all shards keep the quantizer and projection that they have, and the numbers of their
words. Further words are numbered after those of all shards, in a file beside them, and a word that no text has any more
leaves a number behind. Weights of BM25 depend on the counts of all texts, so the postings of all shards are computed
again from the stored words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.build_stages import Stages
from refaug.core.artefacts.manifests import require_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.artefacts.versions import Writer
from refaug.core.errors import Conflict
from refaug.core.files import make_folder
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.core.query_engine import QueryEngine, scratch_in
from refaug.indexer.bm25.scores import Bm25Settings, Bm25Statistics
from refaug.indexer.building import segment_files, segment_stages
from refaug.indexer.building.build import (
    IndexBuild,
    build_index,
    erasures_after,
    finish_build,
    key_sets_of,
    newest_manifest,
    require_unchanged,
)
from refaug.indexer.building.material import Material, reopen_material, warn_of_gone_logs
from refaug.indexer.building.order import remove_scratch
from refaug.indexer.building.plan import EXACT_BELOW, Limits
from refaug.indexer.building.recall import ExactSearch
from refaug.indexer.building.segment_stages import CHECK_QUERIES
from refaug.indexer.building.sharding import seconds_by_stage
from refaug.indexer.building.update import link_file, live_keys, order_of
from refaug.indexer.columns import NpyWriter, map_array
from refaug.indexer.index_folders import Places, remove_finished_references
from refaug.indexer.manifest import COMMON_ORDER, SHARDS, ErasedKeys, IndexManifest, SegmentInfo, software
from refaug.indexer.nearest.index_builder import AnnBuilder
from refaug.indexer.pair_table import ChangedKeys, KeyRange, Keys, changed_keys
from refaug.indexer.search.search_tables import Rows
from refaug.indexer.search.segments import BM25, EXTRA_WORDS, QUICK, QUICK_STEPS, VECTORS, word_hashes
from refaug.indexer.search.similarity import COARSE
from refaug.logs.manifest import now

# ── Which shards of an index compacting concerns, and whether taking over the others would do ─────────────────────────

_MOST_GROWTH: Final = 2.0  # since training: then lists are too long or too short, and all shards are built anew
_MANY_DEAD_WORDS: Final = 1 << 16  # more than these, and than words that are left, are too many
_DEAD_BELOW: Final = np.uint64(1 << 32)  # a number in place of the hash of a word
_LEAST_QUERIES: Final = 0.5  # of the check's utterances must still be there


@dataclass(frozen=True)
class CompactionChoice:
    """Which shards are concerned, and whether taking over the others would do."""

    before: IndexManifest
    folder: Path
    changes: ChangedKeys

    @cached_property
    def concerned(self) -> tuple[int, ...]:
        """The numbers of the shards to build anew."""
        mains = self.before.main_segments
        numbers = {shard_number(info) for info in mains if info.superseded}
        later = [map_array(self.folder / info.folder / "utterance_key.npy", np.uint64) for info in self._later]
        for keys in (*later, self.changes.changed, self.changes.gone):
            numbers |= set(self._shards_of(keys).tolist())
        return tuple(sorted(numbers))

    @cached_property
    def needs_all(self) -> bool:
        """Whether every shard has to be built: each is concerned, one loses all it has, or training is out of date."""
        filled = {shard_number(info) for info in self.before.main_segments}
        return (
            filled <= set(self.concerned)
            or bool((filled | set(self.concerned)) - set(np.flatnonzero(self._rows_after).tolist()))
            or not self._has_trained
            or self._outgrown
            or self._lacks_queries
            or self._has_many_dead_words
        )

    @property
    def rows(self) -> int:
        """How many utterances there will be."""
        return int(self._rows_after.sum())

    @property
    def trained_on(self) -> int:
        """How many utterances there were at the training."""
        return self.before.trained_utterances or sum(info.utterances for info in self.before.main_segments)

    @property
    def _later(self) -> Sequence[SegmentInfo]:
        return self.before.segments[len(self.before.main_segments) :]

    def _shards_of(self, keys: Keys) -> NDArray[np.int64]:
        """Return the shard of each key."""
        lowest = [KeyRange.of_shard(number, self.before.shards).lowest for number in range(self.before.shards)]
        return np.searchsorted(np.array(lowest, np.uint64), keys, side="right") - 1

    @cached_property
    def _rows_after(self) -> NDArray[np.int64]:
        """The utterances that each shard will have."""
        touched = np.concatenate([self.changes.changed, self.changes.gone])
        stay = [keys[~np.isin(keys, touched)] for keys, _ in live_keys(self.before, self.folder)]
        shards = self._shards_of(np.concatenate([*stay, self.changes.changed]))
        return np.bincount(shards, minlength=self.before.shards)

    @property
    def _has_trained(self) -> bool:
        return any((self.folder / info.folder / VECTORS).exists() for info in self.before.main_segments)

    @property
    def _outgrown(self) -> bool:
        exact = self.before.main_segments[0].factory == "Flat"
        if exact:
            return self.before.limits["factory"] is None and self.rows >= EXACT_BELOW
        return not 1 / _MOST_GROWTH <= self.rows / self.trained_on <= _MOST_GROWTH

    @property
    def _has_many_dead_words(self) -> bool:
        """Whether more numbers are of words that no text has any more than of others beside those with vectors."""
        parts = list(word_hashes(self.folder, self.before, later=False))
        dead = sum(int(np.count_nonzero(words < _DEAD_BELOW)) for words in parts)
        return dead > max(_MANY_DEAD_WORDS, sum(map(len, parts)) - dead)

    @property
    def _lacks_queries(self) -> bool:
        """Whether too few of the utterances are left that recall is measured on."""
        if not (self.folder / CHECK_QUERIES).exists():
            return False
        _, keys = query_hashes(self.folder, self.before)
        live = np.concatenate([keys for keys, _ in live_keys(self.before, self.folder)])
        touched = np.concatenate([self.changes.changed, self.changes.gone])
        remaining = np.isin(keys, live) & ~np.isin(keys, touched)
        return int(np.count_nonzero(remaining)) < _LEAST_QUERIES * len(keys)


def shard_number(info: SegmentInfo) -> int:
    """Return the number of the shard that a main segment is."""
    return int(info.folder.removeprefix(f"{SHARDS}/"))


def query_hashes(folder: Path, manifest: IndexManifest) -> tuple[NDArray[np.uint64], Keys]:
    """Return hash and key of each utterance that recall is measured on; zeros where it is gone."""
    positions = map_array(folder / CHECK_QUERIES, np.int64)
    hashes = []
    for name in ("utterance_sha", "utterance_key"):
        parts = [map_array(folder / info.folder / f"{name}.npy", np.uint64) for info in manifest.main_segments]
        hashes.append(np.where(positions >= 0, np.concatenate(parts)[positions], 0).astype(np.uint64))
    return hashes[0], hashes[1]


# ── Compacting an index: no masked rows and no segments of updates any more; of shards, only the concerned ones anew ──

_STAGES: Final = ("index", "update", "compact")  # whose interrupted work may hold what was deleted


def compact_index(
    places: Places,
    name: str,
    progress: Progress,
    *,
    whole: bool = False,
    threads: int = 1,
    memory: int = 2 << 30,
    publish: bool = True,
) -> IndexBuild:
    """Publish a version without masked rows and segments of updates, from the logs as they are, by the same settings.

    Of shards, those that nothing has changed in are taken over, unless `whole` asks to build all anew. All are built
    anew, too, where each is concerned, or where the training no longer fits what the index holds.
    """
    with places.indexes.open(name) as held:
        manifest = IndexManifest.read(held.folder)
        warn_of_gone_logs(places, manifest, progress)
        order = order_of(manifest, held.folder, threads=threads, memory=memory, publish=publish)
        built = None
        if manifest.shards > 1 and not whole:
            built = _compact_shards(places, name, progress, threads=threads, memory=memory, publish=publish)
        if built is None:
            built = build_index(places, order, progress, of_existing=True)
    with suppress(Conflict), places.indexes.writing(name, f"removing interrupted work on index {name}"):
        for stage in _STAGES:
            Stages.discard(places.cache, f"{stage}-{name}")
        remove_scratch(places.cache, name)
        remove_finished_references(places.cache, name)
    return built


def _compact_shards(
    places: Places, name: str, progress: Progress, *, threads: int, memory: int, publish: bool
) -> IndexBuild | None:
    """Build the concerned shards anew and take over the others; None where all have to be built."""
    with (
        places.indexes.writing(name, f"compacting index {name}") as writer,
        places.indexes.open(name) as base,
    ):
        before = IndexManifest.read(base.folder)
        require_files(base.folder, {"files": before.files})
        newest = newest_manifest(places, name, progress) or before
        with reopen_material(places, before, base.folder, threads) as material:
            with QueryEngine(scratch_in(places.cache), memory=memory, threads=threads) as engine:
                progress.stage("comparing with the logs")
                live = live_keys(before, base.folder)
                changes = changed_keys(engine, material.logs, key_sets_of(newest.erased), live)
            choice = CompactionChoice(before, base.folder, changes)
            if choice.needs_all:
                return None
            if not choice.concerned:
                return IndexBuild(name=name, version=base.version, manifest=before, published=True, is_new=False)
            compaction = _Compaction(places, base, before, newest.erased, material, choice, memory, progress)
            return compaction.build(writer, newest, publish=publish)


@dataclass(frozen=True)
class _Compaction:
    """The build of the concerned shards, beside links to the files of the others."""

    places: Places
    base: HeldVersion
    before: IndexManifest
    erased: ErasedKeys
    material: Material
    choice: CompactionChoice
    memory: int
    progress: Progress

    def build(self, writer: Writer, newest: IndexManifest, *, publish: bool) -> IndexBuild | None:
        """Build and publish the version; None where its recall is too low, so that all shards should be built."""
        linked = self._link_files()
        tables = self._tables()
        linked = {**linked, **self._write_words()}
        added = self._write_vectors()
        self._write_bm25()
        infos = [self._info(number, tables, added) for number in self._numbers]
        efforts, check = segment_stages.measure_recall(self._stages, infos, len(infos), self._work)
        if check is not None and not check.passed:
            self.progress.warn(
                f"recall@15 is {check.recall:.3f} with the training that there is: all shards are built anew"
            )
            self._stages.drop()
            return None
        manifest = replace(
            self.before,
            created=now(),
            logs=self.material.states(),
            segments=tuple(replace(info, effort=effort) for info, effort in zip(infos, efforts, strict=True)),
            check=check,
            seconds=seconds_by_stage(self._stages.seconds),
            software=software(),
            erased=self.erased,
            inputs="",  # it was not built in one go
            erasures=erasures_after(self.places, newest, self.material.states()),
            trained_utterances=self.choice.trained_on,
            sampling=COMMON_ORDER,
        )
        require_unchanged(self.places, self.material, self._stages)
        return finish_build(writer, self._stages, manifest, self.material, publish=publish, described=linked)

    @cached_property
    def _stages(self) -> Stages:
        inputs = {
            **self.material.fingerprint(),
            **asdict(self.erased),
            "base": [self.base.version, self.before.id],
            "shards": list(self.choice.concerned),
            "software": software(),
        }
        return Stages.of(self.places.cache, f"compact-{self.before.name}", inputs)

    @cached_property
    def _work(self) -> segment_stages.SegmentWork:
        vocabulary = self.material.vocabulary()
        for hashes in word_hashes(self.base.folder, self.before, later=False):
            vocabulary.extend(hashes)
        return segment_stages.SegmentWork(
            stages=self._stages,
            folder=SHARDS,
            material=self.material,
            vocabulary=vocabulary,
            limits=Limits(**self.before.limits),
            erased=key_sets_of(self.erased),
            bm25=None if self.before.bm25 is None else Bm25Settings(**self.before.bm25),
            least_coverage=0.0,  # it was good enough before
            check_queries=self.before.check_queries,
            seed=self.before.seed,
            progress=self.progress,
        )

    @cached_property
    def _shards(self) -> Mapping[int, segment_stages.SegmentWork]:
        """The work on each concerned shard, by its number."""
        return {
            number: replace(
                self._work,
                folder=f"{SHARDS}/{number}",
                key_range=KeyRange.of_shard(number, self.before.shards),
            )
            for number in self.choice.concerned
        }

    @property
    def _infos_before(self) -> Mapping[int, SegmentInfo]:
        return {shard_number(info): info for info in self.before.main_segments}

    @property
    def _numbers(self) -> Sequence[int]:
        """The shards of the new version; no shard that had utterances has none now."""
        return sorted({*self._infos_before, *self.choice.concerned})

    @property
    def _paths(self) -> Sequence[Path]:
        return [self._stages.folder / SHARDS / str(number) for number in self._numbers]

    def _link_files(self) -> Mapping[str, Mapping[str, Any]]:
        """Link what stays as it is, and return the entries of these files in the manifest."""
        linked = {name: facts for name, facts in self.before.files.items() if self._stays(name)}
        for name in linked:
            target = self._stages.folder / name
            if not target.exists():
                make_folder(target.parent)
                link_file(self.base.folder / name, target)
        return linked

    def _stays(self, name: str) -> bool:
        folder, *inner = Path(name).parts
        if folder == SHARDS:
            return int(inner[0]) not in self.choice.concerned and inner[1] not in (BM25, EXTRA_WORDS)
        return folder == "tokenizer"

    def _tables(self) -> Mapping[int, Mapping[str, Any]]:
        """Write the tables of the concerned shards from the logs, and their texts as codes."""
        tables = dict[int, Mapping[str, Any]]()
        for number, shard in self._shards.items():
            make_folder(shard.path)
            tables[number] = self._stages.run(f"table-{number}", partial(self._write_table, shard))
            texts = tables[number]["utterances"] + tables[number]["pairs"]
            self._stages.run(f"words-{number}", partial(segment_stages.code_words, shard, texts))
            if not self._stages.is_finished("vocabulary"):
                shard.vocabulary.extend(map_array(shard.path / EXTRA_WORDS, np.uint64))  # of an earlier run's stage
            if self.material.encoder is not None:
                encoder = self.material.encoder
                self._stages.run(f"encode-{number}", partial(segment_files.encode, shard.path, encoder, self.progress))
        return tables

    def _write_table(self, shard: segment_stages.SegmentWork) -> Mapping[str, Any]:
        threads = self.material.threads
        with QueryEngine(scratch_in(self.places.cache), memory=self.memory, threads=threads) as engine:
            return segment_stages.write_table(engine, shard)

    # Words

    def _write_words(self) -> Mapping[str, Mapping[str, Any]]:
        """Write the further words beside the shards, give each shard the words that it had, and return what is linked.

        What no text has any more becomes its own number, which is the hash of no word; where that is so of no word of
        a shard that stays, its file is linked, too.
        """
        self._stages.run("vocabulary", self._write_further_words)
        code = len(self.material.words)
        linked = dict[str, Mapping[str, Any]]()
        for number, path in zip(self._numbers, self._paths, strict=True):
            before, target = self._words_before(number), path / EXTRA_WORDS
            remaining = self._blanked(before, code)
            if number not in self._shards and np.array_equal(remaining, before):
                name = f"{SHARDS}/{number}/{EXTRA_WORDS}"
                if not target.exists():
                    link_file(self.base.folder / name, target)
                linked[name] = self.before.files[name]
            else:
                with NpyWriter(target, np.uint64) as words:
                    words.append(remaining)
            code += len(before)
        return linked

    def _write_further_words(self) -> Mapping[str, int]:
        earlier = self.base.folder / EXTRA_WORDS
        parts = [map_array(earlier, np.uint64)] if earlier.exists() else []
        parts += [map_array(shard.path / EXTRA_WORDS, np.uint64) for shard in self._shards.values()]
        further = np.concatenate(parts)
        first = len(self.material.words) + sum(len(self._words_before(number)) for number in self._numbers)
        if len(further):
            with NpyWriter(self._stages.folder / EXTRA_WORDS, np.uint64) as words:
                words.append(self._blanked(further, first))
        return {"words": first + len(further)}

    def _words_before(self, number: int) -> NDArray[np.uint64]:
        if number not in self._infos_before:
            return np.empty(0, np.uint64)
        return map_array(self.base.folder / self._infos_before[number].folder / EXTRA_WORDS, np.uint64)

    def _blanked(self, words: NDArray[np.uint64], first: int) -> NDArray[np.uint64]:
        """Return the words with these codes; codes themselves in place of those that no text has."""
        codes = np.arange(first, first + len(words))
        frequencies = sum(statistics.df[codes] for statistics in self._statistics)
        return np.where(frequencies > 0, words, codes.astype(np.uint64))

    @cached_property
    def _statistics(self) -> tuple[Bm25Statistics, Bm25Statistics]:
        """The counts of words in the utterances and in the responses of all shards."""
        stages = self._stages
        words = stages.facts("vocabulary")["words"] if stages.is_finished("vocabulary") else len(self._work.vocabulary)
        of_both = [
            Bm25Statistics.summed((segment_files.map_words(path, responses=responses) for path in self._paths), words)
            for responses in (False, True)
        ]
        return of_both[0], of_both[1]

    def _write_bm25(self) -> None:
        """Write the postings of all shards, whose weights depend on the counts of all texts."""
        settings = self._work.bm25
        if settings is None:
            return
        for number, path in zip(self._numbers, self._paths, strict=True):
            words = len(self._statistics[0].df)
            self._stages.run(
                f"bm25-{number}",
                partial(segment_files.add_bm25, path, words, settings, self.progress, self._statistics),
            )

    # Vectors

    def _write_vectors(self) -> Mapping[int, int]:
        """Add the vectors of the concerned shards to what was trained; return how many utterances have one."""
        vectors = next(
            path for path in (self._base_path(number) / VECTORS for number in self._infos_before) if path.exists()
        )
        trained = self._stages.folder / segment_files.TRAINED
        queries, exact = self._check_queries(), None
        weights, depth = self.material.weights, self.before.main_segments[0].depth
        added = dict[int, int]()
        for number, shard in self._shards.items():
            if not trained.exists():
                AnnBuilder.open_emptied(vectors).write_trained(trained)
            if (vectors.parent / QUICK_STEPS).exists():
                with NpyWriter(shard.path / QUICK_STEPS, np.float32) as steps:
                    steps.append(map_array(vectors.parent / QUICK_STEPS, np.float32))
            exact = None if queries is None else ExactSearch(queries)
            rows = self._stages.facts(f"table-{number}")["utterances"]
            add = partial(segment_stages.add_vectors, shard, trained, self.material.blocks(shard.path), rows, exact)
            added[number] = self._stages.run(f"vectors-{number}", add)["with_vector"]
            if weights is not None and depth > COARSE and not (shard.path / QUICK).exists():
                self._stages.run(f"lengths-{number}", partial(segment_files.measure_lengths, shard.path, weights))
        trained.unlink(missing_ok=True)
        return added

    def _base_path(self, number: int) -> Path:
        return self.base.folder / self._infos_before[number].folder

    def _check_queries(self) -> NDArray[np.float32] | None:
        """Write the new places of the utterances that recall is measured on, and return their vectors."""
        if not (self.base.folder / segment_stages.CHECK_QUERIES).exists():
            return None
        sizes, places = list[int](), list[Rows]()
        shas, keys = query_hashes(self.base.folder, self.before)
        for path in self._paths:
            own_shas, own_keys = (
                map_array(path / f"{name}.npy", np.uint64) for name in ("utterance_sha", "utterance_key")
            )
            rows = np.minimum(np.searchsorted(own_shas, shas), len(own_shas) - 1)
            is_here = (own_shas[rows] == shas) & (own_keys[rows] == keys)
            places.append(np.where(is_here, rows + sum(sizes), -1))
            sizes.append(len(own_shas))
        positions = np.max(places, axis=0)
        with NpyWriter(self._stages.folder / segment_stages.CHECK_QUERIES, np.int64) as writer:
            writer.append(positions)
        return segment_files.JoinedBlocks([self.material.blocks(path) for path in self._paths], sizes).rows(positions)[
            0
        ]

    def _info(self, number: int, tables: Mapping[int, Mapping[str, Any]], added: Mapping[int, int]) -> SegmentInfo:
        like = self.before.main_segments[0]
        effort = int(self.before.plan.get("effort", like.effort))
        if number not in tables:
            return replace(self._infos_before[number], effort=effort)
        plan = {"factory": like.factory, "effort": effort, "depth": like.depth}
        words = len(self._words_before(number))
        return segment_stages.segment_info(
            f"{SHARDS}/{number}", plan, tables[number], with_vector=added[number], extra_words=words
        )
