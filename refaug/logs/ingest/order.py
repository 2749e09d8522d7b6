"""The order and the report of an ingest, and the units it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from refaug.core.errors import SourceChanged, Usage
from refaug.core.files import require_name
from refaug.core.processes.worker_processes import default_count
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.manifest import LogSource
from refaug.logs.reading.containers import Block, aligned_blocks, require_even
from refaug.logs.reading.formats import Container, Format, blocks_of, detect
from refaug.logs.reading.shapes import SINGLE, Fields, Shape
from refaug.logs.reading.sources import BLOCK_BYTES, LineReader, Source


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
