"""Draw pairs from the log that an index was built from; scores of other replies are compared with the scores of these.

Two kinds are drawn, always the same ones for the same seed: pairs of unrelated responses, and items with a gold and two
replies, of which one answers the same utterance elsewhere in the log and the other answers another utterance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.artefacts.manifests import MANIFEST, require_files
from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import Corrupt, StorageFull
from refaug.core.files import lock_file, make_folder, read_json, remove_asides, with_checksum, write_json
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress
from refaug.core.records import Item, Reference
from refaug.indexer.columns import TextColumn
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.queries import blocked_logs, time_bounds
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import NO_TIME, Rows
from refaug.indexer.search.segments import Segment, common_order, open_segment

TRUE: Final = "true"  # the systems whose replies a drawn item has
RANDOM: Final = "random"
_ROUNDS: Final = 20  # rounds of drawing in vain, where only pairs of one dialogue or repeated pairs come up


# ── Occurrences in an index ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """The occurrences of a segment that are not masked, counted from 0 utterance by utterance."""

    segment: Segment
    begins: Rows  # (utterances + 1,): the first occurrence of each
    ends: Rows  # (utterances,): the number of live occurrences up to and with each
    excluding: SearchSettings  # logs and times
    is_blocked: NDArray[np.bool_]  # of each log

    @classmethod
    def of(cls, segment: Segment, excluding: SearchSettings, logs: Sequence[str]) -> Self:
        """Count the live occurrences of a segment; logs and times are excluded of those that are drawn."""
        tables = segment.tables
        begins = tables.occurrence_start[tables.pair_start]
        counts = np.diff(begins)
        if len(tables.superseded):
            counts[tables.superseded] = 0
        return cls(segment, begins, np.cumsum(counts), excluding, blocked_logs(excluding, logs))

    @property
    def total(self) -> int:
        """The number of live occurrences."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def occurrences(self, numbers: Rows) -> Rows:
        """Return the rows of the live occurrences with these numbers."""
        utterances = np.searchsorted(self.ends, numbers, side="right")
        return np.asarray(self.begins[utterances + 1] - (self.ends[utterances] - numbers))

    def allowed(self, occurrences: Rows) -> NDArray[np.bool_]:
        """Return which occurrences are not excluded, as in a search."""
        tables, (timed, after, before) = self.segment.tables, time_bounds(self.excluding)
        allowed = ~self.is_blocked[tables.occurrence_log[occurrences]]
        if timed:
            time = tables.occurrence_time[occurrences]
            allowed &= (time != NO_TIME) & (time >= after) & (time < before)
        return np.asarray(allowed)

    def allowed_of(self, utterance: int) -> Rows:
        """Return the allowed occurrences of an utterance."""
        rows = np.arange(self.begins[utterance], self.begins[utterance + 1])
        return rows[self.allowed(rows)]

    def pairs(self, occurrences: Rows) -> Rows:
        """Return the pair of each occurrence."""
        return np.searchsorted(self.segment.tables.occurrence_start, occurrences, side="right") - 1

    def utterances_with_responses(self) -> Rows:
        """Return the utterances with more than one response."""
        counts = np.diff(self.segment.tables.pair_start)
        return np.flatnonzero((counts > 1) & (np.diff(self.ends, prepend=0) > 0))

    def is_in_several_dialogues(self, utterance: int) -> bool:
        """Whether an utterance occurs in more than one dialogue."""
        rows, tables = self.allowed_of(utterance), self.segment.tables
        log, dialogue = tables.occurrence_log[rows], tables.occurrence_dialogue[rows]
        return len(rows) > 0 and bool(((log != log[0]) | (dialogue != dialogue[0])).any())


class LiveSegments(Sequence[LiveSegment]):
    """The segments of an index, with an order of their utterances in which occurrences are numbered and drawn.

    The order is that of one segment, so that the same pairs are drawn whatever shards and updates an index has.
    """

    def __init__(self, segments: Sequence[LiveSegment]) -> None:
        self._segments = segments

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, place: int) -> LiveSegment: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[LiveSegment]: ...

    def __getitem__(self, place: int | slice) -> LiveSegment | Sequence[LiveSegment]:
        return self._segments[place]

    @property
    def total(self) -> int:
        """The number of live occurrences."""
        return sum(segment.total for segment in self._segments)

    def occurrences(self, numbers: Rows) -> _Occurrences:
        """Return the occurrences with these numbers, which count through all segments."""
        if len(self) == 1:  # its order is the common one
            return _by_row(self, np.zeros_like(numbers), self[0].occurrences(numbers))
        places, rows, ends = self._numbered
        positions = np.searchsorted(ends, numbers, side="right")
        places, rows, lefts = places[positions], rows[positions], ends[positions] - numbers
        occurrence = np.empty_like(numbers)
        for place, segment in enumerate(self._segments):
            here = places == place
            occurrence[here] = segment.begins[rows[here] + 1] - lefts[here]
        return _by_row(self, places, occurrence)

    def utterances_with_responses(self) -> list[tuple[int, int]]:
        """Return place and row of the utterances with more than one response."""
        rows = [segment.utterances_with_responses() for segment in self._segments]
        if len(self) == 1:
            return [(0, row) for row in rows[0].tolist()]
        places, in_order = common_order([segment.segment for segment in self._segments], rows)
        return list(zip(places.tolist(), in_order.tolist(), strict=True))

    @cached_property
    def _numbered(self) -> tuple[Rows, Rows, Rows]:
        """Place and row of every utterance, and the number of live occurrences up to and with each."""
        places, rows = common_order([segment.segment for segment in self._segments])
        counts = np.empty(len(rows), np.int64)
        for place, segment in enumerate(self._segments):
            counts[places == place] = np.diff(segment.ends, prepend=0)[rows[places == place]]
        return places, rows, np.cumsum(counts)


def live_segments(held: HeldVersion, manifest: IndexManifest, excluding: SearchSettings | None = None) -> LiveSegments:
    """Open the segments of an index after checking that its files exist; logs and times may be excluded."""
    require_files(held.folder, read_json(held.folder / MANIFEST))
    excluding, logs = excluding or SearchSettings(), [log.name for log in manifest.logs]
    segments = [open_segment(held.folder, number, info) for number, info in enumerate(manifest.segments)]
    return LiveSegments([LiveSegment.of(segment, excluding, logs) for segment in segments])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Occurrences:
    """Drawn occurrences as columns: where each text lies, and its log and dialogue."""

    segment: Rows
    occurrence: Rows
    pair: Rows
    log: Rows
    dialogue: NDArray[np.uint64]

    def unrelated(self, other: _Occurrences) -> NDArray[np.bool_]:
        """Return which are of another pair and of another dialogue than those of the other side."""
        same_pair = (self.segment == other.segment) & (self.pair == other.pair)
        return np.asarray(~(same_pair | self.same_dialogue(other)))

    def same_dialogue(self, other: _Occurrences) -> NDArray[np.bool_]:
        """Return which are of the same dialogue as those of the other side."""
        return np.asarray((self.log == other.log) & (self.dialogue == other.dialogue))


def _by_row(segments: Sequence[LiveSegment], places: Rows, occurrence: Rows) -> _Occurrences:
    """Return the occurrences in these rows of the segments in these places."""
    pair, log = np.empty_like(occurrence), np.empty_like(occurrence)
    dialogue = np.empty(len(occurrence), np.uint64)
    for place, segment in enumerate(segments):
        here = places == place
        rows, tables = occurrence[here], segment.segment.tables
        pair[here], log[here], dialogue[here] = (
            segment.pairs(rows),
            tables.occurrence_log[rows],
            tables.occurrence_dialogue[rows],
        )
    return _Occurrences(segment=places, occurrence=occurrence, pair=pair, log=log, dialogue=dialogue)


def _texts(columns: Sequence[TextColumn], places: Rows, rows: Rows) -> list[str]:
    """Return the texts in these rows of the segments in these places, in their order."""
    texts = [""] * len(rows)
    for place, column in enumerate(columns):
        here = np.flatnonzero(places == place)
        for number, text in zip(here.tolist(), column.take(rows[here]), strict=True):
            texts[number] = text or ""
    return texts


def _responses(segments: Sequence[LiveSegment], side: _Occurrences, mask: NDArray[np.bool_] | None = None) -> list[str]:
    """Return the responses of the occurrences that the mask selects."""
    chosen = slice(None) if mask is None else mask
    return _texts([live.segment.responses for live in segments], side.segment[chosen], side.pair[chosen])


# ── Unrelated responses ───────────────────────────────────────────────────────────────────────────────────────────


def unrelated_responses(segments: LiveSegments, pairs: int, seed: int) -> list[tuple[str, str]]:
    """Draw pairs of responses from different dialogues and different pairs, as a repeated response is related.

    A response comes up as often as the logs have it. Both sides are drawn independently, so even a small index gives as
    many pairs as requested.
    """
    total = segments.total
    if not total:
        return []
    generator = np.random.Generator(np.random.PCG64(seed))
    responses = list[tuple[str, str]]()
    for _ in range(_ROUNDS):
        first, second = (segments.occurrences(generator.integers(0, total, pairs)) for _ in range(2))
        unrelated = first.unrelated(second)
        responses += zip(_responses(segments, first, unrelated), _responses(segments, second, unrelated), strict=True)
        if len(responses) >= pairs:
            return responses[:pairs]
    return responses


# ── Items with a true reply and a random one ──────────────────────────────────────────────────────────────────────


def sample_items(segments: LiveSegments, item_count: int, seed: int) -> list[Item]:
    """Draw items by the seed, as many as requested or as there can be.

    The gold is one response to an utterance; the reply `true` is another response to it, of another dialogue; the reply
    `random` is a response to another utterance, of another dialogue. The dialogues of both replies are excluded from
    what may be retrieved for the item. Every utterance comes up once before any comes up again with other responses.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = _gold_and_true(segments, item_count, generator)
    if not drawn:
        return []
    places = np.array([pair.segment for pair in drawn], np.int64)
    gold = _by_row(segments, places, np.array([pair.gold for pair in drawn], np.int64))
    true = _by_row(segments, places, np.array([pair.true for pair in drawn], np.int64))
    utterance = np.array([pair.utterance for pair in drawn], np.int64)
    other, has_other = _draw_other_responses(segments, gold, utterance, generator)
    return _items(segments, utterance, (gold, true, other), has_other)


class _ResponsePair(NamedTuple):
    """The occurrences of two responses to one utterance."""

    segment: int
    utterance: int
    gold: int
    true: int


def _gold_and_true(segments: LiveSegments, pair_count: int, generator: np.random.Generator) -> list[_ResponsePair]:
    """Draw so many different pairs, or fewer where many rounds through all utterances bring no new pair."""
    candidates = segments.utterances_with_responses()
    pairs = dict[tuple[int, int, int], _ResponsePair]()
    in_vain = 0
    while candidates and in_vain < _ROUNDS:
        before, useless = len(pairs), set[tuple[int, int]]()
        for number in generator.permutation(len(candidates)).tolist():
            place, utterance = candidates[number]
            pair = _two_responses(segments[place], place, utterance, generator)
            if pair is not None:
                gold, true = segments[place].pairs(np.array([pair.gold, pair.true])).tolist()
                pairs.setdefault((place, gold, true), pair)
            elif not segments[place].is_in_several_dialogues(utterance):
                useless.add(candidates[number])
            if len(pairs) == pair_count:
                return list(pairs.values())
        candidates = [candidate for candidate in candidates if candidate not in useless]
        in_vain = in_vain + 1 if len(pairs) == before else 0
    return list(pairs.values())


def _two_responses(
    segment: LiveSegment, place: int, utterance: int, generator: np.random.Generator
) -> _ResponsePair | None:
    """Draw two responses to an utterance from two dialogues, each as often as the logs have it.

    None where all other responses are of the same dialogue as the first one.
    """
    tables = segment.segment.tables
    rows = segment.allowed_of(utterance)
    if not len(rows):
        return None
    pairs, log, dialogue = segment.pairs(rows), tables.occurrence_log[rows], tables.occurrence_dialogue[rows]
    gold = int(generator.integers(len(rows)))
    elsewhere = (log != log[gold]) | (dialogue != dialogue[gold])
    different = np.flatnonzero((pairs != pairs[gold]) & elsewhere)
    if not len(different):
        return None
    true = int(different[generator.integers(len(different))])
    return _ResponsePair(place, utterance, int(rows[gold]), int(rows[true]))


def _draw_other_responses(
    segments: LiveSegments, gold: _Occurrences, utterance: Rows, generator: np.random.Generator
) -> tuple[_Occurrences, NDArray[np.bool_]]:
    """Draw a response of another utterance and dialogue for each gold, and tell for which golds one came up."""
    total = segments.total
    places, occurrence = np.zeros_like(utterance), np.zeros_like(utterance)
    missing = np.ones(len(utterance), np.bool_)
    for _ in range(_ROUNDS):
        other = segments.occurrences(generator.integers(0, total, len(utterance)))
        same = (other.segment == gold.segment) & (_utterances(segments, other) == utterance)
        fits = missing & ~(same | other.same_dialogue(gold)) & _allowed(segments, other)
        places[fits], occurrence[fits] = other.segment[fits], other.occurrence[fits]
        missing &= ~fits
        if not missing.any():
            break
    return _by_row(segments, places, occurrence), ~missing


def _allowed(segments: Sequence[LiveSegment], side: _Occurrences) -> NDArray[np.bool_]:
    """Return which occurrences the rules allow."""
    allowed = np.empty(len(side.pair), np.bool_)
    for place, segment in enumerate(segments):
        here = side.segment == place
        allowed[here] = segment.allowed(side.occurrence[here])
    return allowed


def _utterances(segments: Sequence[LiveSegment], side: _Occurrences) -> Rows:
    """Return the utterance of each occurrence, as a row of its segment."""
    utterances = np.empty_like(side.pair)
    for place, segment in enumerate(segments):
        here = side.segment == place
        utterances[here] = np.searchsorted(segment.segment.tables.pair_start, side.pair[here], side="right") - 1
    return utterances


def _items(
    segments: Sequence[LiveSegment],
    utterance: Rows,
    sides: tuple[_Occurrences, _Occurrences, _Occurrences],
    has_random: NDArray[np.bool_],
) -> list[Item]:
    """Return the drawn occurrences as test items, without those that have no random reply."""
    gold = sides[0]
    utterances = _texts([live.segment.utterances for live in segments], gold.segment, utterance)
    responses = [_responses(segments, side) for side in sides]
    dialogues = [_texts([live.segment.dialogues for live in segments], side.segment, side.occurrence) for side in sides]
    return [
        Item(
            id=str(number),
            turns=(utterances[number],),
            references=(Reference(text=responses[0][number]),),
            dialogue=dialogues[0][number],
            exclude=(dialogues[1][number], dialogues[2][number]),
            replies={TRUE: responses[1][number], RANDOM: responses[2][number]},
        )
        for number in np.flatnonzero(has_random).tolist()
    ]


# ── ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# Cache measurements of an index in files beside its versions, by a key of everything that the measurement depends on.
#
# The files lie in a separate folder among the index's versions, which never change: the result is the same whichever
# process measures it, it stays when versions are removed, and it goes when the index does.


@dataclass(frozen=True, kw_only=True)
class MeasurementKey:
    """Everything that a cached measurement of an index depends on."""

    kind: str
    format_version: int
    index: str  # the id of the index's content, whatever the index is called
    parameters: Mapping[str, object]  # all else that can change the measurement, as JSON values

    @property
    def file(self) -> str:
        """The name of the cache file, from the index's content and a digest of the parameters."""
        parameters = {"index": self.index, **self.parameters}
        digest = hashlib.sha256(orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return f"{self.index[:12]}-{digest[:12]}.json"

    def document(self, measurement: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the file, without time or machine, so that every process writes the same bytes."""
        header = {"kind": self.kind, "format_version": self.format_version, "index": self.index}
        return {**header, **self.parameters, **measurement}


def read_measurement(path: Path, key: MeasurementKey, names: Sequence[str]) -> dict[str, object] | None:
    """Return the cached values of these names; None without a file, or where it was altered or has another key.

    Only the caller knows whether the values of a file without a checksum are plausible.
    """
    try:
        document = read_json(path)
    except (OSError, Corrupt):
        return None
    measurement = {name: document.get(name) for name in names}
    return measurement if document == key.document(measurement) else None


def write_measurement(
    path: Path, key: MeasurementKey, measurement: Mapping[str, object], what: str, progress: Progress
) -> None:
    """Write a measurement to the cache; where writing fails, warn and go on."""
    try:
        make_folder(path.parent)
        with lock_file(path.parent / ".lock"):  # only while writing: files left aside are those of a killed process
            remove_asides(path.parent)
            write_json(path, with_checksum(key.document(measurement)))
    except (OSError, StorageFull) as error:
        progress.warn(f"{what} could not be kept, and will be measured again: {error}")
