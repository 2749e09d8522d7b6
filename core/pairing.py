"""From a block of a source to rows of a log: what a worker does.

A response and the turn before it are a pair when both survive cleaning; a dropped turn breaks the dialogue there, so
that no response is paired with something it did not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from core.cleaning import MOST_FLOOD_CAP, Cleaner, CleaningSettings, CleanTexts, is_bot, skeleton
from core.files import write_aside
from core.logs.formats import Container, Format, rows_of
from core.logs.rows import ArrowBlock, Block
from core.logs.shapes import SINGLE, MessageColumns, Shape, TurnColumns, dialogue_columns, message_columns, pair_columns
from core.logs.sources import BadRow
from core.pairs import PAIR_SCHEMA, TIME, erasure_key

MESSAGE_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("parent", pa.string()),
        ("root", pa.string()),
        ("text", pa.string()),  # null: dropped by cleaning, but still a node of its tree
        ("speaker", pa.string()),
        ("time", TIME),
        ("tags", pa.list_(pa.string())),
        ("key", pa.uint64()),
        ("line", pa.int64()),
        ("chain", pa.bool_()),  # it answers the turn before it in its conversation; else the message it names
    ]
)
_FLOOD_MIN_CHARS: Final = 24  # "good morning everyone" may be said ten thousand times


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the blocks of one source are read: all that a worker needs to know."""

    source: str
    fingerprint: str
    format: Format
    cleaning: CleaningSettings
    blocked_speakers: frozenset[str] = frozenset()
    erased_speakers: frozenset[str] = frozenset()  # as `erasure_key`s: a name that is erased is not kept
    erased_dialogues: frozenset[str] = frozenset()
    erasure_salt: str = ""
    use_ids: bool = True
    rejects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One thing that was left out, for --rejects."""

    line: int
    reason: str
    dialogue: str | None = None
    position: str | None = None
    text: str | None = None
    message: str | None = None  # of a row that could not be read


@dataclass(slots=True, kw_only=True)
class BlockResult:
    """What came out of a block: rows for a part, and the account of everything that did not."""

    rows: pa.RecordBatch
    turns: NDArray[np.int64]  # pairs: the response's turn in this block, the utterance's is one less; messages: itself
    flood_keys: NDArray[np.uint64]  # one a turn; 0 where the message is too short to be part of a flood
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[BadRow] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def __getstate__(self) -> tuple[Any, ...]:
        """Arrow's own bytes cross the pipe far quicker than its pickles."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_batch(self.rows)
        return (sink.getvalue().to_pybytes(), self.turns, self.flood_keys, self.counts, self.bad, self.rejects)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        data, self.turns, self.flood_keys, self.counts, self.bad, self.rejects = state
        with pa.ipc.open_stream(data) as reader:
            self.rows = next(iter(reader))


def block_worker(reading: Reading) -> Callable[[Block], BlockResult]:
    """A function from blocks to results; it keeps the compiled rules between blocks."""
    return _BlockWorker(reading).run


class _BlockWorker:
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.cleaner = Cleaner(reading.cleaning)
        # ParlAI's ids are the reader's own, made of lines: without them, further labels would be one dialogue.
        self.use_ids = reading.use_ids or reading.format.container is Container.PARLAI
        self.drop_bots = "bots" in reading.cleaning.rules
        self.find_floods = "flood" in reading.cleaning.rules
        self.looks_at_speakers = bool(self.drop_bots or reading.blocked_speakers or reading.erased_speakers)

    def run(self, block: Block) -> BlockResult:
        format_ = self.reading.format
        place = "row" if isinstance(block, ArrowBlock) else "line"
        rows = rows_of(block, format_)
        if format_.shape in SINGLE:
            return self._messages(message_columns(rows, format_.fields, format_.name, place, format_.shape))
        shape = dialogue_columns if format_.shape is Shape.DIALOGUES else pair_columns
        return self._pairs(shape(rows, format_.fields, place))

    def _pairs(self, columns: TurnColumns) -> BlockResult:
        """Consecutive surviving turns of one dialogue, as rows of PAIR_SCHEMA."""
        clean = self.cleaner.clean(columns.texts)
        ids = self._dialogue_ids(columns)
        total = len(columns.texts)
        first = np.array(columns.first, dtype=np.int64)
        lengths = np.diff(first, append=total)
        owner = np.repeat(np.arange(len(ids)), lengths)
        within = np.arange(total) - np.repeat(first, lengths)
        self._drop_speakers(clean, columns.speakers)
        if self.reading.erased_dialogues:
            erased = [self._erasure_key(identity) in self.reading.erased_dialogues for identity in ids]
            for turn in np.flatnonzero(np.array(erased, dtype=bool)[owner]):
                clean.drop(int(turn), "erased")
        kept = np.array([text is not None for text in clean.texts], dtype=bool)
        responses = np.flatnonzero((within > 0) & kept & np.roll(kept, 1))
        keys = _keys(clean.normalised)
        texts, speakers = pa.array(clean.texts, pa.string()), pa.array(columns.speakers, pa.string())
        before = responses - 1
        rows = pa.record_batch(
            [
                pa.array(ids, pa.string()).take(pa.array(owner[responses])),
                pa.array(within[responses]).cast(pa.string()),
                texts.take(pa.array(before)),
                texts.take(pa.array(responses)),
                speakers.take(pa.array(before)),
                speakers.take(pa.array(responses)),
                pa.array(columns.times, pa.int64()).take(pa.array(responses)).cast(TIME),
                pa.array(columns.tags, pa.list_(pa.string())).take(pa.array(owner[responses])),
                pa.array(keys[before]),
                pa.array(keys[responses]),
            ],
            schema=PAIR_SCHEMA,
        )
        result = BlockResult(rows=rows, turns=responses, flood_keys=self._flood_keys(clean))
        result.counts["dialogues"] = len(ids)
        result.counts["one-turn dialogues"] = int((lengths < 2).sum())
        self._account(result, columns, clean)
        if self.reading.rejects:
            result.rejects += [
                Reject(
                    line=columns.lines[d],
                    reason=reason,
                    dialogue=ids[d],
                    position=str(within[turn]),
                    text=columns.texts[turn],
                )
                for turn, reason in sorted(clean.reasons.items())
                for d in (int(owner[turn]),)
            ]
        return result

    def _dialogue_ids(self, columns: TurnColumns) -> list[str]:
        return self._own_ids(columns.ids if self.use_ids else [None] * len(columns.ids), columns.lines)

    def _own_ids(self, ids: Sequence[str | None], lines: Sequence[int]) -> list[str]:
        """The source's ids; what has none is known by the file's fingerprint and its line."""
        fingerprint = self.reading.fingerprint
        return [identity or f"{fingerprint}:{line}" for identity, line in zip(ids, lines, strict=True)]

    def _messages(self, columns: MessageColumns) -> BlockResult:
        """Messages of trees as rows of MESSAGE_SCHEMA; whom they answer is found when all sources are read."""
        clean = self.cleaner.clean(columns.texts)
        self._drop_speakers(clean, columns.speakers)
        ids = self._own_ids(columns.ids, columns.lines)
        rows = pa.record_batch(
            [
                pa.array(ids, pa.string()),
                pa.array(columns.parents, pa.string()),
                pa.array(columns.roots, pa.string()),
                pa.array(clean.texts, pa.string()),
                pa.array(columns.speakers, pa.string()),
                pa.array(columns.times, pa.int64()).cast(TIME),
                pa.array(columns.tags, pa.list_(pa.string())),
                pa.array(_keys(clean.normalised)),
                pa.array(columns.lines, pa.int64()),
                pa.array([self.reading.format.shape is Shape.TURNS] * len(ids), pa.bool_()),
            ],
            schema=MESSAGE_SCHEMA,
        )
        result = BlockResult(rows=rows, turns=np.arange(len(columns.texts)), flood_keys=self._flood_keys(clean))
        result.counts["messages"] = len(columns.ids)
        self._account(result, columns, clean)
        if self.reading.rejects:
            result.rejects += [
                Reject(
                    line=columns.lines[i],
                    reason=reason,
                    dialogue=columns.roots[i],
                    position=ids[i],
                    text=columns.texts[i],
                )
                for i, reason in sorted(clean.reasons.items())
            ]
        return result

    def _account(self, result: BlockResult, columns: TurnColumns | MessageColumns, clean: CleanTexts) -> None:
        """Every row and turn is counted once under what became of it."""
        result.bad = columns.bad
        result.counts["rows"] = len(columns.lines) + len(columns.bad)
        result.counts["turns"] = len(columns.texts)
        result.counts["unreadable times"] = columns.unreadable_times
        result.counts.update(f"bad:{bad.reason}" for bad in columns.bad)
        result.counts.update(f"dropped:{reason}" for reason in clean.reasons.values())
        result.counts.update({f"changed:{rule}": count for rule, count in clean.changed.items()})
        if self.reading.rejects:
            result.rejects += [
                Reject(line=bad.line, reason=f"bad:{bad.reason}", text=bad.excerpt or None, message=bad.message)
                for bad in columns.bad
            ]

    def _drop_speakers(self, clean: CleanTexts, speakers: list[str | None]) -> None:
        """Drop what bots, blocked and erased speakers said."""
        if not self.looks_at_speakers:
            return
        reasons = {speaker: self._speaker_reason(speaker) for speaker in set(speakers) if speaker is not None}
        unwanted = {speaker for speaker, reason in reasons.items() if reason is not None}
        if unwanted:
            for turn, speaker in enumerate(speakers):
                if speaker in unwanted and speaker is not None:
                    clean.drop(turn, reasons[speaker] or "")

    def _speaker_reason(self, speaker: str) -> str | None:
        reading = self.reading
        if speaker in reading.blocked_speakers:
            return "blocked-speaker"
        if reading.erased_speakers and self._erasure_key(speaker) in reading.erased_speakers:
            return "erased"
        return "bots" if self.drop_bots and is_bot(speaker) else None

    def _erasure_key(self, name: str) -> str:
        return erasure_key(name, self.reading.erasure_salt)

    def _flood_keys(self, clean: CleanTexts) -> NDArray[np.uint64]:
        if not self.find_floods:
            return np.zeros(len(clean.texts), dtype=np.uint64)
        return np.fromiter(
            (xxh3_64_intdigest(skeleton(text)) if _may_flood(text) else 0 for text in clean.normalised),
            dtype=np.uint64,
            count=len(clean.normalised),
        )


def _may_flood(normalised: bytes) -> bool:
    """Long enough to be a template; in characters, of which Japanese has one where UTF-8 has three bytes."""
    return len(normalised) >= _FLOOD_MIN_CHARS and (
        normalised.isascii() or len(normalised.decode()) >= _FLOOD_MIN_CHARS
    )


def _keys(normalised: list[bytes]) -> NDArray[np.uint64]:
    return np.fromiter(map(xxh3_64_intdigest, normalised), dtype=np.uint64, count=len(normalised))


class FloodCounter:
    """Counts near-identical messages in fixed memory, and says which ones are over the cap.

    A count-min sketch with conservative update: it may count a message too often once tens of millions of others share
    its cells, never too rarely. Where none share cells it is exact, however the log is cut into blocks.
    """

    DEPTH: Final = 4
    _MULTIPLIERS: Final = np.array(
        [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64
    )

    def __init__(self, cap: int, *, bits: int = 22) -> None:
        self.cap = cap
        self.bits = bits
        self.cells = np.zeros((self.DEPTH, 1 << bits), dtype=np.uint16)

    def over_cap(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Count these messages (0: none) and tell which of them come after the first `cap`."""
        distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        places = [
            ((distinct * multiplier) >> np.uint64(64 - self.bits)).astype(np.int64) for multiplier in self._MULTIPLIERS
        ]
        before = np.min([row[at] for row, at in zip(self.cells, places, strict=True)], axis=0).astype(np.int64)
        after = np.where(distinct == 0, 0, np.minimum(before + counts, MOST_FLOOD_CAP)).astype(np.uint16)
        for row, at in zip(self.cells, places, strict=True):
            np.maximum.at(row, at, after)
        over = np.zeros(len(keys), dtype=bool)
        for suspect in np.flatnonzero((before + counts > self.cap) & (distinct != 0)):
            occurrences = np.flatnonzero(inverse == suspect)
            over[occurrences[max(0, self.cap - int(before[suspect])) :]] = True
        return over

    def save(self, path: Path) -> None:
        """Keep the state beside the parts it belongs to, so that a resumed ingest counts on."""
        with write_aside(path) as file:
            file.write(zstandard.ZstdCompressor(level=1).compress(self.cells.tobytes()))

    def load(self, path: Path) -> None:
        """Take up the state that `save` kept."""
        data = zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=self.cells.nbytes)
        self.cells = np.frombuffer(data, dtype=np.uint16).reshape(self.cells.shape).copy()
