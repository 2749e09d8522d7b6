"""The order and the report of an ingest, and the units it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from refaug.core import files
from refaug.core.errors import Corrupt, SourceChanged, Usage
from refaug.core.files import require_name
from refaug.core.processes.worker_processes import default_count
from refaug.core.progress import Progress
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.pairing import Reject, RejectsFile
from refaug.logs.manifest import LogManifest, LogSource, part_name, software
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.logs.part_files import PartsWriter
from refaug.logs.reading.containers import Block, aligned_blocks, require_even
from refaug.logs.reading.formats import Container, Format, blocks_of, detect
from refaug.logs.reading.shapes import SINGLE, Fields, Shape
from refaug.logs.reading.sources import BLOCK_BYTES, LineReader, Source
from refaug.logs.store import STAGE


@dataclass(frozen=True, kw_only=True)
class IngestOrder:
    """What to ingest, into which log, and how."""

    sources: tuple[str, ...]
    log: str
    format: str = "auto"
    mapping: Mapping[str, str] = field(default_factory=dict)
    use_ids: bool = True
    context: tuple[str, ...] = ()  # sources read only for the messages that others reply to
    encoding: str = "auto"
    markup: str = "auto"
    cleaning: CleaningSettings = field(default_factory=CleaningSettings)
    blocked_speakers: frozenset[str] = frozenset()
    stop_on_error: bool = False
    max_bad_share: float = 0.1
    rejects: Path | None = None
    memory: int = 2 << 30
    workers: int | None = None

    def __post_init__(self) -> None:
        """Refuse a name that would be another folder."""
        require_name("log", self.log)

    @property
    def block_bytes(self) -> int:
        """Bytes of a source in one block: processing a block takes about thirty times its size."""
        return max(1 << 20, min(BLOCK_BYTES, self.memory >> 8))

    @property
    def worker_count(self) -> int:
        """The number of worker processes: the given one, or as many as cores and memory allow."""
        return min(default_count(), (self.memory >> 27) - 2) if self.workers is None else self.workers

    def settings(self) -> dict[str, object]:
        """Return the settings that determine the outcome, for the manifest; blocked speakers appear as a hash."""
        speakers = hashlib.sha256("\n".join(sorted(self.blocked_speakers)).encode()).hexdigest()[:12]
        return {
            "format": self.format,
            "mapping": dict(self.mapping),
            "use_ids": self.use_ids,
            "encoding": self.encoding,
            "markup": self.markup,
            "cleaning": {**asdict(self.cleaning), "rules": list(self.cleaning.rules)},
            "blocked_speakers": {"count": len(self.blocked_speakers), "sha256": speakers},
        }


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """The outcome of an ingest; every row of every source is accounted for."""

    log: str
    pairs_added: int
    totals: Mapping[str, int]
    counts: Mapping[str, int]
    sources: tuple[LogSource, ...]
    already_there: tuple[str, ...]
    problems: tuple[str, ...]
    resumed: bool


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One source, or two line-aligned ones, with its format."""

    sources: tuple[Source, ...]
    format: Format
    context: bool

    @property
    def kind(self) -> str:
        """The kind of its staged rows: messages must first be joined to trees."""
        return "messages" if self.format.shape in SINGLE else "pairs"

    def require_unchanged(self) -> None:
        """Refuse a source that changed while it was read."""
        for source in self.sources:
            try:
                source.require_unchanged()
            except OSError as error:
                raise SourceChanged(f"{source.name}: {error.strerror} (it was there when the work began)") from error

    @property
    def name(self) -> str:
        """The name in messages and manifests."""
        return " + ".join(source.name for source in self.sources)

    def reader(self, encoding: str, block_bytes: int = BLOCK_BYTES) -> tuple[Callable[[], int], Iterator[Block]]:
        """Return a function for the position in the file, and its blocks."""
        readers = [LineReader(source, encoding=encoding, block_bytes=block_bytes) for source in self.sources]
        if self.format.container is Container.ALIGNED:
            return readers[0].position, aligned_blocks(readers[0], readers[1])
        return readers[0].position, blocks_of(readers[0], self.format)


def units_of(order: IngestOrder, sources: Sequence[Source], *, context: bool) -> Iterator[Unit]:
    """Yield sources with their formats, in the order given."""
    if order.format == "aligned":
        if context and sources:
            raise Usage("--context names message files; it does not go with --format aligned")
        yield from _aligned_units(order, sources)
        return
    for source in sources:
        format_ = detect(source, requested=order.format, mapping=order.mapping, encoding=order.encoding)
        if not order.use_ids and format_.shape in SINGLE:
            raise Usage(
                f"--no-ids and {source.name}: {format_.shape.value} find each other by their ids",
                remedy="leave --no-ids out for this source",
            )
        if context and format_.shape is not Shape.MESSAGES:
            raise Usage(f"--context {source.name} holds no messages but {format_.shape.value}")
        yield Unit(sources=(source,), format=format_, context=context)


def _aligned_units(order: IngestOrder, sources: Sequence[Source]) -> Iterator[Unit]:
    fields = Fields(names={"utterance": "utterance", "response": "response"})
    format_ = Format(
        name="aligned",
        container=Container.ALIGNED,
        shape=Shape.PAIRS,
        fields=fields,
        columns=("utterance", "response"),
    )
    for pair in pair_up(sources):
        require_even(*(LineReader(source, encoding=order.encoding) for source in pair))
        yield Unit(sources=pair, format=format_, context=False)


def pair_up(sources: Sequence[Source]) -> list[tuple[Source, Source]]:
    """Return line-aligned files as pairs."""
    if len(sources) % 2:
        raise Usage(
            f"--format aligned takes files two by two, here are {len(sources)}",
            remedy="name the utterances' file first, then the responses'",
        )
    return list(zip(sources[::2], sources[1::2], strict=True))


# ── The folder in which an ingest is prepared, with its state ─────────────────────────────────────────────────────────
#
# The state is written after every part; it and the parts it names are all that resuming needs.


PART_BYTES: Final = 96 << 20  # of text and numbers; a part is also how much work a kill can lose
_STATE: Final = "state.json"


@dataclass(slots=True)
class StageState:
    """The state of a staged ingest: with the files it names, everything needed to resume."""

    unit: int = 0  # index of the current unit
    blocks: int = 0  # blocks of it that are in finished parts, or carried
    steps: int = 0  # how often this was saved while reading; names the flood and carry files that belong to it
    carried: str = ""  # the kind of the carried rows: those of the last block after the last finished part
    messages: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)
    message_parts: list[dict[str, Any]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)  # one a unit
    pairs: list[int] = field(default_factory=list)  # one a unit, without trees
    tree_counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rejects: int = 0  # number of finished rejects files
    phase: str = "read"  # then "messages" or "joined", "distinct"

    @classmethod
    def read(cls, path: Path) -> StageState | None:
        """Read what `save` wrote; None if there is nothing to resume."""
        try:
            return cls(**files.read_json(path))  # type: ignore[arg-type]
        except (FileNotFoundError, Corrupt, TypeError):
            return None

    def unit_of(self, row: int) -> int | None:
        """Return the unit of a staged pair by its number among all pairs; None for one from a tree."""
        ends = np.cumsum(self.pairs)
        return int(np.searchsorted(ends, row, side="right")) if len(ends) and row < ends[-1] else None


class Stage:
    """The folder in which an ingest is prepared; the steps of the ingest work in it, one after the other."""

    def __init__(self, log: Path, order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> None:
        self.log, self.order, self.units, self.manifest = log, order, units, manifest
        self.key = _stage_key(order, units, manifest)
        self.folder = log / f"{STAGE}{self.key}"
        for other in log.glob(f"{STAGE}*"):
            if other != self.folder:
                files.remove_tree(other)  # of a run with other sources or settings
        state = StageState.read(self.folder / _STATE)
        self.state = state or StageState()
        self.resumed = state is not None and self._is_whole()
        if not self.resumed:
            self.state = StageState()
            files.remove_tree(self.folder)
        files.make_folder(self.folder)

    def _is_whole(self) -> bool:
        """Return whether every file that the state names exists; parts may already have their final names."""
        state = self.state
        needed = [self.folder / f"rejects-{number:05}.jsonl" for number in range(state.rejects)]
        if state.phase == "read":
            needed.append(self.folder / f"flood-{state.steps:05}")
        if state.carried:
            needed.append(self.folder / f"carry-{state.steps:05}")
        sized = [(part, [staged, final]) for part, staged, final in self.part_paths()]
        if state.phase in ("read", "messages"):
            sized += [(part, [self.folder / part["file"]]) for part in state.message_parts]
        return all(path.exists() for path in needed) and all(
            any(path.exists() and path.stat().st_size == part["size"] for path in paths) for part, paths in sized
        )

    def part_paths(self) -> list[tuple[dict[str, Any], Path, Path]]:
        """Return every part with rows, with its staged path and its final one."""
        filled = [part for part in self.state.parts if part["pairs"]]
        first = self.manifest.first_free_part()
        return [(p, self.folder / p["file"], self.log / part_name(n)) for n, p in enumerate(filled, first)]

    def save(self) -> None:
        """Write the state: from here on this much is done."""
        files.write_json(self.folder / _STATE, asdict(self.state))

    def warn(self, message: str, progress: Progress) -> None:
        """Show a problem, and note it for the report."""
        self.state.problems.append(message)
        progress.warn(message)

    def parts_writer(self, kind: str, schema: pa.Schema = PAIR_SCHEMA) -> PartsWriter:
        """Return a writer of staged parts of a kind (messages, pairs), which counts on from the parts in the state."""
        parts = self.state.message_parts if kind == "messages" else self.state.parts
        return PartsWriter(self.folder, kind, first=len(parts), part_bytes=PART_BYTES, schema=schema)

    def next_rejects(self) -> RejectsFile:
        """Return a file for rejects, which counts once the state says so."""
        return RejectsFile(self.folder / f"rejects-{self.state.rejects:05}.jsonl")

    def write_rejects(self, rejects: Iterable[tuple[str, Reject]]) -> None:
        """Write rejects, each with the name of its source, into a further file."""
        file = self.next_rejects()
        try:
            for source, reject in rejects:
                file.add(source, (reject,))
            file.close()
        finally:
            file.abandon()
        self.state.rejects += 1


def _stage_key(order: IngestOrder, units: Sequence[Unit], manifest: LogManifest) -> str:
    """Return the name of a staging folder: the same key, the same outcome."""
    inputs = {
        "settings": order.settings(),
        "sources": [[source.sha256 for source in unit.sources] + [unit.context] for unit in units],
        "names": [unit.name for unit in units],
        "rejects": order.rejects is not None,
        "stop_on_error": order.stop_on_error,
        "block_bytes": order.block_bytes,  # the state counts in blocks
        "erased": asdict(manifest.erased),
        "parts": [part.sha256 for part in manifest.parts],
        "software": software(),
    }
    return hashlib.sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
