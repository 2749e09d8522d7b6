"""From a block of a source to rows of a log: the work of a worker process.

A response and the turn before it are a pair if both survive cleaning; a dropped turn breaks the dialogue there, so that
no response is paired with something it did not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import zstandard
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from refaug.core.files import storage_errors, sync_file, write_aside
from refaug.logs.ingest.cleaning import MOST_FLOOD_CAP, Cleaner, CleaningSettings, CleanTexts, is_bot, skeleton
from refaug.logs.ingest.reply_trees import UnplacedMessage
from refaug.logs.pairs import PAIR_SCHEMA, TIME, erasure_key
from refaug.logs.reading import shapes
from refaug.logs.reading.containers import ArrowBlock, Block
from refaug.logs.reading.formats import Container, Format, rows_of
from refaug.logs.reading.sources import BadRow

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
_FLOOD_MIN_CHARS: Final = 24  # ten thousand people may say "good morning everyone"


@dataclass(frozen=True, kw_only=True)
class ReadSettings:
    """The settings for reading the blocks of one source: everything that a worker needs."""

    source: str
    fingerprint: str
    format: Format
    cleaning: CleaningSettings
    blocked_speakers: frozenset[str] = frozenset()
    erased_speakers: frozenset[str] = frozenset()  # as `erasure_key`s: an erased name is not stored
    erased_dialogues: frozenset[str] = frozenset()
    erasure_salt: str = ""
    use_ids: bool = True
    rejects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A message or row that was left out, for --rejects."""

    line: int
    reason: str
    dialogue: str | None = None
    position: str | None = None
    text: str | None = None
    message: str | None = None  # of a row that could not be read


@dataclass(slots=True, kw_only=True)
class BlockResult:
    """The result of a block: rows for a part, and the counts of everything left out."""

    rows: pa.RecordBatch
    turns: NDArray[np.int64]  # pairs: the response's turn in this block, the utterance's is one less; messages: theirs
    flood_keys: NDArray[np.uint64]  # one a turn; 0 if the message is too short to be part of a flood
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[BadRow] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def __getstate__(self) -> tuple[Any, ...]:
        """Pickle Arrow's IPC bytes, which cross the pipe far faster than its pickles."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as writer:
            writer.write_batch(self.rows)
        return (sink.getvalue().to_pybytes(), self.turns, self.flood_keys, self.counts, self.bad, self.rejects)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        arrow_bytes, self.turns, self.flood_keys, self.counts, self.bad, self.rejects = state
        with pa.ipc.open_stream(arrow_bytes) as reader:
            self.rows = next(iter(reader))


def block_worker(settings: ReadSettings) -> Callable[[Block], BlockResult]:
    """Return a function from blocks to results; it reuses the compiled rules."""
    return _BlockWorker(settings).run


class _BlockWorker:
    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self.cleaner = Cleaner(settings.cleaning)
        # The reader makes ParlAI's ids from lines: without them, further labels would be one dialogue.
        self.use_ids = settings.use_ids or settings.format.container is Container.PARLAI
        self.drop_bots = "bots" in settings.cleaning.rules
        self.find_floods = "flood" in settings.cleaning.rules
        self.checks_speakers = bool(self.drop_bots or settings.blocked_speakers or settings.erased_speakers)

    def run(self, block: Block) -> BlockResult:
        format_ = self.settings.format
        place = "row" if isinstance(block, ArrowBlock) else "line"
        rows = rows_of(block, format_)
        if format_.shape in shapes.SINGLE:
            return self._messages(shapes.message_columns(rows, format_.fields, format_.name, place, format_.shape))
        shape = shapes.dialogue_columns if format_.shape is shapes.Shape.DIALOGUES else shapes.pair_columns
        return self._pairs(shape(rows, format_.fields, place))

    def _pairs(self, columns: shapes.TurnColumns) -> BlockResult:
        """Return consecutive surviving turns of one dialogue, as rows of PAIR_SCHEMA."""
        clean = self.cleaner.clean(columns.texts)
        ids = self._dialogue_ids(columns)
        total = len(columns.texts)
        first = np.array(columns.first, dtype=np.int64)
        lengths = np.diff(first, append=total)
        owner = np.repeat(np.arange(len(ids)), lengths)
        within = np.arange(total) - np.repeat(first, lengths)
        self._drop_speakers(clean, columns.speakers)
        if self.settings.erased_dialogues:
            is_erased = [self._erasure_key(identity) in self.settings.erased_dialogues for identity in ids]
            for turn in np.flatnonzero(np.array(is_erased, dtype=bool)[owner]):
                clean.drop(int(turn), "erased")
        survives = np.array([text is not None for text in clean.texts], dtype=bool)
        responses = np.flatnonzero((within > 0) & survives & np.roll(survives, 1))
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
        block_result = BlockResult(rows=rows, turns=responses, flood_keys=self._flood_keys(clean))
        block_result.counts["dialogues"] = len(ids)
        block_result.counts["one-turn dialogues"] = int((lengths < 2).sum())
        self._account(block_result, columns, clean)
        if self.settings.rejects:
            block_result.rejects += [
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
        return block_result

    def _dialogue_ids(self, columns: shapes.TurnColumns) -> list[str]:
        return self._complete_ids(columns.ids if self.use_ids else [None] * len(columns.ids), columns.lines)

    def _complete_ids(self, ids: Sequence[str | None], lines: Sequence[int]) -> list[str]:
        """Return the source's ids; a dialogue without one gets the file's fingerprint and its line."""
        fingerprint = self.settings.fingerprint
        return [identity or f"{fingerprint}:{line}" for identity, line in zip(ids, lines, strict=True)]

    def _messages(self, columns: shapes.MessageColumns) -> BlockResult:
        """Return messages of trees as rows of MESSAGE_SCHEMA; their parents are found after all sources are read."""
        clean = self.cleaner.clean(columns.texts)
        self._drop_speakers(clean, columns.speakers)
        ids = self._complete_ids(columns.ids, columns.lines)
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
                pa.array([self.settings.format.shape is shapes.Shape.TURNS] * len(ids), pa.bool_()),
            ],
            schema=MESSAGE_SCHEMA,
        )
        block_result = BlockResult(rows=rows, turns=np.arange(len(columns.texts)), flood_keys=self._flood_keys(clean))
        block_result.counts["messages"] = len(columns.ids)
        self._account(block_result, columns, clean)
        if self.settings.rejects:
            block_result.rejects += [
                Reject(
                    line=columns.lines[i],
                    reason=reason,
                    dialogue=columns.roots[i],
                    position=ids[i],
                    text=columns.texts[i],
                )
                for i, reason in sorted(clean.reasons.items())
            ]
        return block_result

    def _account(
        self, block_result: BlockResult, columns: shapes.TurnColumns | shapes.MessageColumns, clean: CleanTexts
    ) -> None:
        """Count every row and turn once, by what became of it."""
        block_result.bad = columns.bad
        block_result.counts["rows"] = len(columns.lines) + len(columns.bad)
        block_result.counts["turns"] = len(columns.texts)
        block_result.counts["unreadable times"] = columns.unreadable_times
        if isinstance(columns, shapes.TurnColumns):
            block_result.counts.update(columns.left_out)
        block_result.counts.update(f"bad:{bad.reason}" for bad in columns.bad)
        block_result.counts.update(f"dropped:{reason}" for reason in clean.reasons.values())
        block_result.counts.update({f"changed:{rule}": count for rule, count in clean.changed.items()})
        if self.settings.rejects:
            block_result.rejects += [
                Reject(line=bad.line, reason=f"bad:{bad.reason}", text=bad.excerpt or None, message=bad.message)
                for bad in columns.bad
            ]

    def _drop_speakers(self, clean: CleanTexts, speakers: list[str | None]) -> None:
        """Drop the turns of bots, blocked and erased speakers."""
        if not self.checks_speakers:
            return
        reasons = {speaker: self._speaker_reason(speaker) for speaker in set(speakers) if speaker is not None}
        unwanted = {speaker for speaker, reason in reasons.items() if reason is not None}
        if unwanted:
            for turn, speaker in enumerate(speakers):
                if speaker in unwanted and speaker is not None:
                    clean.drop(turn, reasons[speaker] or "")

    def _speaker_reason(self, speaker: str) -> str | None:
        settings = self.settings
        if speaker in settings.blocked_speakers:
            return "blocked-speaker"
        if settings.erased_speakers and self._erasure_key(speaker) in settings.erased_speakers:
            return "erased"
        return "bots" if self.drop_bots and is_bot(speaker) else None

    def _erasure_key(self, name: str) -> str:
        return erasure_key(name, self.settings.erasure_salt)

    def _flood_keys(self, clean: CleanTexts) -> NDArray[np.uint64]:
        if not self.find_floods:
            return np.zeros(len(clean.texts), dtype=np.uint64)
        return np.fromiter(
            (xxh3_64_intdigest(skeleton(text)) if _may_flood(text) else 0 for text in clean.normalised),
            dtype=np.uint64,
            count=len(clean.normalised),
        )


def _may_flood(normalised: bytes) -> bool:
    """Return whether a message is long enough for a template, in characters: Japanese needs three bytes for one."""
    return len(normalised) >= _FLOOD_MIN_CHARS and (
        normalised.isascii() or len(normalised.decode()) >= _FLOOD_MIN_CHARS
    )


def _keys(normalised: list[bytes]) -> NDArray[np.uint64]:
    return np.fromiter(map(xxh3_64_intdigest, normalised), dtype=np.uint64, count=len(normalised))


class FloodCounter:
    """Counts near-identical messages in fixed memory, and marks those over the cap.

    This is a count-min sketch with conservative update: it may count a message too often once tens of millions of
    others share its cells, never too rarely. Without shared cells it is exact, however the log is cut into blocks.
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
        """Count these messages (0: none) and return which of them come after the first `cap`."""
        distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        places = [
            ((distinct * multiplier) >> np.uint64(64 - self.bits)).astype(np.int64) for multiplier in self._MULTIPLIERS
        ]
        before = np.min([row[at] for row, at in zip(self.cells, places, strict=True)], axis=0).astype(np.int64)
        after = np.where(distinct == 0, 0, np.minimum(before + counts, MOST_FLOOD_CAP)).astype(np.uint16)
        for row, at in zip(self.cells, places, strict=True):
            np.maximum.at(row, at, after)
        is_over = np.zeros(len(keys), dtype=bool)
        for suspect in np.flatnonzero((before + counts > self.cap) & (distinct != 0)):
            occurrences = np.flatnonzero(inverse == suspect)
            is_over[occurrences[max(0, self.cap - int(before[suspect])) :]] = True
        return is_over

    def save(self, path: Path) -> None:
        """Save the counts beside the parts they belong to, so that a resumed ingest continues to count."""
        with write_aside(path) as file:
            file.write(zstandard.ZstdCompressor(level=1).compress(self.cells.tobytes()))

    def load(self, path: Path) -> None:
        """Load the counts that `save` wrote."""
        counts = zstandard.ZstdDecompressor().decompress(path.read_bytes(), max_output_size=self.cells.nbytes)
        self.cells = np.frombuffer(counts, dtype=np.uint16).reshape(self.cells.shape).copy()


# ── The lines of `--rejects`: what was left out of a log and why ──────────────────────────────────────────────────────


class RejectsFile:
    """One file of rejects; publishing the ingest joins all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            self._file = path.open("wb")

    def add(self, source: str, rejects: Iterable[Reject]) -> None:
        """Write one JSON object a line."""
        with storage_errors(self.path):
            self._file.writelines(_as_line(source, reject) for reject in rejects)

    def close(self) -> None:
        """Finish the file and make it survive a power cut."""
        with storage_errors(self.path):
            self._file.close()
            sync_file(self.path)

    def abandon(self) -> None:
        """Close a file that will not be used."""
        with suppress(OSError):
            self._file.close()


def _as_line(source: str, reject: Reject) -> bytes:
    fields = {name: content for name, content in asdict(reject).items() if content is not None}
    if "text" in fields:
        fields["text"] = fields["text"][:500].encode("utf-8", "replace").decode()
    if not reject.line:
        del fields["line"]
    return orjson.dumps({"source": source, **fields} if source else fields) + b"\n"


def flooded_messages(block_result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Return messages of trees that came after the first ones of their flood."""
    rows = block_result.rows.select(["line", "root", "id", "text"]).filter(pa.array(over)).to_pylist()
    return [
        Reject(line=row["line"], reason="flood", dialogue=row["root"], position=row["id"], text=row["text"])
        for row in rows
    ]


def flooded_turns(block_result: BlockResult, over: NDArray[np.bool_]) -> list[Reject]:
    """Return flooded turns in pairs; a pair does not know its line, only its dialogue and position."""
    by_turn: dict[int, Reject] = {}
    hits = np.flatnonzero(over[block_result.turns] | over[block_result.turns - 1])
    for turn, row in zip(block_result.turns[hits], block_result.rows.take(pa.array(hits)).to_pylist(), strict=True):
        for at, back, side in ((int(turn) - 1, 1, "utterance"), (int(turn), 0, "response")):
            if over[at]:
                position = str(int(row["position"]) - back)
                by_turn[at] = Reject(
                    line=0, reason="flood", dialogue=row["dialogue"], position=position, text=row[side]
                )
    return [by_turn[turn] for turn in sorted(by_turn)]


def reject_pair(row: Mapping[str, Any], reason: str, line: int = 0) -> Reject:
    """Return a pair that was left out as a reject."""
    return Reject(line=line, reason=reason, dialogue=row["dialogue"], position=row["position"], text=row["response"])


def reject_unplaced(message: UnplacedMessage) -> Reject:
    """Return a message without a place in a tree as a reject."""
    return Reject(line=message.line, reason=message.reason, position=message.id)
