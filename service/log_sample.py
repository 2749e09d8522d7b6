"""Pairs drawn from the log that an index was built from: what metrics give to them is what their scores are held to.

Two kinds are drawn, always the same ones by the same seed: responses that have nothing to do with each other, and items
with a gold and two replies, one that answers the same utterance elsewhere in the log and one that answers another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.artefacts import MANIFEST, require_files
from core.files import read_json
from core.holding import Held
from core.records import Item, Reference, TestPair
from indexer.arrays import TextColumn
from indexer.manifest import IndexManifest
from indexer.ranking import NO_TIME, Rows, Rules
from indexer.segments import Segment, open_segment

TRUE: Final = "true"  # the replies of a drawn item
RANDOM: Final = "random"
_ROUNDS: Final = 20  # of drawing in vain, where pairs of one dialogue, or ones that were drawn, come up


# ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Live:
    """The occurrences of a segment that are not masked, counted from 0 utterance by utterance."""

    segment: Segment
    begins: Rows  # (utterances + 1,): the first occurrence of each
    ends: Rows  # (utterances,): how many live ones there are up to and with each
    rules: Rules | None = None  # logs and times that nothing is taken from

    @classmethod
    def of(cls, segment: Segment, rules: Rules | None = None) -> Self:
        """Count them."""
        tables = segment.tables
        begins = tables.occurrence_start[tables.pair_start]
        counts = np.diff(begins)
        if len(tables.superseded):
            counts[tables.superseded] = 0
        return cls(segment, begins, np.cumsum(counts), rules)

    @property
    def total(self) -> int:
        """How many."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def occurrences(self, numbers: Rows) -> Rows:
        """The rows of those with these numbers."""
        utterances = np.searchsorted(self.ends, numbers, side="right")
        return np.asarray(self.begins[utterances + 1] - (self.ends[utterances] - numbers))

    def allowed(self, occurrences: Rows) -> NDArray[np.bool_]:
        """Which of them may be taken, as in a search by the same rules."""
        if self.rules is None:
            return np.ones(len(occurrences), np.bool_)
        tables = self.segment.tables
        found = ~self.rules.blocked_log[tables.occurrence_log[occurrences]]
        if self.rules.timed:
            time = tables.occurrence_time[occurrences]
            found &= (time != NO_TIME) & (time >= self.rules.after) & (time < self.rules.before)
        return np.asarray(found)

    def allowed_of(self, utterance: int) -> Rows:
        """The occurrences of an utterance that may be taken."""
        rows = np.arange(self.begins[utterance], self.begins[utterance + 1])
        return rows[self.allowed(rows)]

    def pairs(self, occurrences: Rows) -> Rows:
        """The pair of each occurrence."""
        return np.searchsorted(self.segment.tables.occurrence_start, occurrences, side="right") - 1

    def several_responses(self) -> Rows:
        """The utterances with more than one response."""
        counts = np.diff(self.segment.tables.pair_start)
        return np.flatnonzero((counts > 1) & (np.diff(self.ends, prepend=0) > 0))

    def of_several_dialogues(self, utterance: int) -> bool:
        """Whether an utterance comes up in more than one dialogue."""
        rows, tables = self.allowed_of(utterance), self.segment.tables
        log, dialogue = tables.occurrence_log[rows], tables.occurrence_dialogue[rows]
        return len(rows) > 0 and bool(((log != log[0]) | (dialogue != dialogue[0])).any())


def live_segments(held: Held, manifest: IndexManifest, rules: Rules | None = None) -> list[Live]:
    """What is in use of an index, after a look at whether its files are there; items are drawn by the rules."""
    require_files(held.folder, read_json(held.folder / MANIFEST))
    return [Live.of(open_segment(held.folder, number, info), rules) for number, info in enumerate(manifest.segments)]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Side:
    """One side of pairs that were drawn: where each text is, and what tells it from others."""

    segment: Rows
    occurrence: Rows
    pair: Rows
    log: Rows
    dialogue: NDArray[np.uint64]

    def unrelated(self, other: _Side) -> NDArray[np.bool_]:
        """Which are of another pair and of another dialogue than those of the other side."""
        same_pair = (self.segment == other.segment) & (self.pair == other.pair)
        return np.asarray(~(same_pair | self.same_dialogue(other)))

    def same_dialogue(self, other: _Side) -> NDArray[np.bool_]:
        """Which are of the same dialogue as those of the other side."""
        return np.asarray((self.log == other.log) & (self.dialogue == other.dialogue))


def _by_number(live: Sequence[Live], numbers: Rows) -> _Side:
    """Where occurrences lie that are counted through all segments."""
    ends = np.cumsum([one.total for one in live])
    segment = np.searchsorted(ends, numbers, side="right")
    occurrence = np.empty_like(numbers)
    for at, one in enumerate(live):
        here = segment == at
        occurrence[here] = one.occurrences(numbers[here] - (ends[at] - one.total))
    return _by_row(live, segment, occurrence)


def _by_row(live: Sequence[Live], segment: Rows, occurrence: Rows) -> _Side:
    """What there is to say of occurrences, by segment and row."""
    pair, log = np.empty_like(occurrence), np.empty_like(occurrence)
    dialogue = np.empty(len(occurrence), np.uint64)
    for at, one in enumerate(live):
        here = segment == at
        rows, tables = occurrence[here], one.segment.tables
        pair[here], log[here], dialogue[here] = (
            one.pairs(rows),
            tables.occurrence_log[rows],
            tables.occurrence_dialogue[rows],
        )
    return _Side(segment=segment, occurrence=occurrence, pair=pair, log=log, dialogue=dialogue)


def _texts(columns: Sequence[TextColumn], segment: Rows, rows: Rows) -> list[str]:
    """The texts of these rows of these segments, in their order."""
    texts = [""] * len(rows)
    for at, column in enumerate(columns):
        here = np.flatnonzero(segment == at)
        for place, text in zip(here.tolist(), column.take(rows[here]), strict=True):
            texts[place] = text or ""
    return texts


def _responses(live: Sequence[Live], side: _Side, kept: NDArray[np.bool_] | None = None) -> list[str]:
    """The responses, of those that are kept."""
    chosen = slice(None) if kept is None else kept
    return _texts([one.segment.responses for one in live], side.segment[chosen], side.pair[chosen])


# ── responses that have nothing to do with each other ─────────────────────────────────────────────────────────────


def unrelated_responses(live: Sequence[Live], pairs: int, seed: int) -> list[tuple[str, str]]:
    """A response and another one, drawn by the seed: of another dialogue, and of another pair, for a repeat is kin.

    A pair comes up as often as the logs have it. Both sides are drawn anew each time, so there are as many pairs as
    are asked for in a small index, too.
    """
    total = sum(one.total for one in live)
    if not total:
        return []
    generator = np.random.Generator(np.random.PCG64(seed))
    found = list[tuple[str, str]]()
    for _ in range(_ROUNDS):
        left, right = (_by_number(live, generator.integers(0, total, pairs)) for _ in range(2))
        kept = left.unrelated(right)
        found += zip(_responses(live, left, kept), _responses(live, right, kept), strict=True)
        if len(found) >= pairs:
            return found[:pairs]
    return found


# ── items with a true reply and a random one ──────────────────────────────────────────────────────────────────────


def sample_items(live: Sequence[Live], wanted: int, seed: int) -> list[Item]:
    """Items drawn by the seed, as many as are wanted or as there can be.

    The gold is one response to an utterance; the reply `true` is another response to it, of another dialogue; the reply
    `random` is a response to another utterance, of another dialogue. The dialogues of both replies are excluded from
    what may be found for the item. Utterances come up once before any comes up again with other responses.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = _gold_and_true(live, wanted, generator)
    if not drawn:
        return []
    segment = np.array([one.segment for one in drawn], np.int64)
    gold = _by_row(live, segment, np.array([one.gold for one in drawn], np.int64))
    true = _by_row(live, segment, np.array([one.true for one in drawn], np.int64))
    utterance = np.array([one.utterance for one in drawn], np.int64)
    other, has_other = _of_other_utterances(live, gold, utterance, generator)
    return _items(live, utterance, (gold, true, other), has_other)


class _Drawn(NamedTuple):
    """Occurrences of two responses to one utterance."""

    segment: int
    utterance: int
    gold: int
    true: int


def _gold_and_true(live: Sequence[Live], wanted: int, generator: np.random.Generator) -> list[_Drawn]:
    """As many different ones as are wanted, or as come up until many rounds through all utterances give nothing new."""
    candidates = [(at, row) for at, one in enumerate(live) for row in one.several_responses().tolist()]
    found = dict[tuple[int, int, int], _Drawn]()
    in_vain = 0
    while candidates and in_vain < _ROUNDS:
        before, useless = len(found), set[tuple[int, int]]()
        for number in generator.permutation(len(candidates)).tolist():
            at, utterance = candidates[number]
            one = _two_responses(live[at], at, utterance, generator)
            if one is not None:
                gold, true = live[at].pairs(np.array([one.gold, one.true])).tolist()
                found.setdefault((at, gold, true), one)
            elif not live[at].of_several_dialogues(utterance):
                useless.add(candidates[number])
            if len(found) == wanted:
                return list(found.values())
        candidates = [one for one in candidates if one not in useless]
        in_vain = in_vain + 1 if len(found) == before else 0
    return list(found.values())


def _two_responses(live: Live, at: int, utterance: int, generator: np.random.Generator) -> _Drawn | None:
    """Two responses to an utterance of two dialogues, each as often as the logs have it; None where the first is alone.

    A response that is alone: all others are of its own dialogue.
    """
    tables = live.segment.tables
    rows = live.allowed_of(utterance)
    if not len(rows):
        return None
    pairs, log, dialogue = live.pairs(rows), tables.occurrence_log[rows], tables.occurrence_dialogue[rows]
    gold = int(generator.integers(len(rows)))
    elsewhere = (log != log[gold]) | (dialogue != dialogue[gold])
    others = np.flatnonzero((pairs != pairs[gold]) & elsewhere)
    if not len(others):
        return None
    true = int(others[generator.integers(len(others))])
    return _Drawn(at, utterance, int(rows[gold]), int(rows[true]))


def _of_other_utterances(
    live: Sequence[Live], gold: _Side, utterance: Rows, generator: np.random.Generator
) -> tuple[_Side, NDArray[np.bool_]]:
    """A response of another utterance and dialogue for each gold, and whether one came up."""
    total = sum(one.total for one in live)
    segment, occurrence = np.zeros_like(utterance), np.zeros_like(utterance)
    open_ = np.ones(len(utterance), np.bool_)
    for _ in range(_ROUNDS):
        other = _by_number(live, generator.integers(0, total, len(utterance)))
        same = (other.segment == gold.segment) & (_utterances(live, other) == utterance)
        fits = open_ & ~(same | other.same_dialogue(gold)) & _allowed(live, other)
        segment[fits], occurrence[fits] = other.segment[fits], other.occurrence[fits]
        open_ &= ~fits
        if not open_.any():
            break
    return _by_row(live, segment, occurrence), ~open_


def _allowed(live: Sequence[Live], side: _Side) -> NDArray[np.bool_]:
    """Which occurrences may be taken."""
    found = np.empty(len(side.pair), np.bool_)
    for at, one in enumerate(live):
        here = side.segment == at
        found[here] = one.allowed(side.occurrence[here])
    return found


def _utterances(live: Sequence[Live], side: _Side) -> Rows:
    """The utterance of each occurrence, a row of its segment."""
    found = np.empty_like(side.pair)
    for at, one in enumerate(live):
        here = side.segment == at
        found[here] = np.searchsorted(one.segment.tables.pair_start, side.pair[here], side="right") - 1
    return found


def _items(
    live: Sequence[Live], utterance: Rows, sides: tuple[_Side, _Side, _Side], kept: NDArray[np.bool_]
) -> list[Item]:
    """The drawn as test items; one without a random reply is none."""
    gold = sides[0]
    utterances = _texts([one.segment.utterances for one in live], gold.segment, utterance)
    responses = [_responses(live, side) for side in sides]
    dialogues = [_texts([one.segment.dialogues for one in live], side.segment, side.occurrence) for side in sides]
    return [
        Item(
            pair=TestPair(
                id=str(number),
                turns=(utterances[number],),
                references=(Reference(text=responses[0][number]),),
                dialogue=dialogues[0][number],
                exclude=(dialogues[1][number], dialogues[2][number]),
            ),
            replies={TRUE: responses[1][number], RANDOM: responses[2][number]},
        )
        for number in np.flatnonzero(kept).tolist()
    ]
