"""Test pairs as a search needs them: coded, with what is excluded for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from core.kernels import compiled
from core.pairs import text_key
from core.records import Origin, TestPair
from core.text import normalise
from indexer.ranking import NO_TIME, Keys, QueryTables, Rows, Rules
from indexer.table import dialogue_key
from indexer.vocabulary import CodedTexts, Vocabulary

Mode = Literal["embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
MOST: Final = 1_000  # references a test pair; whoever wants more wants the neighbours
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How references are looked for; all of it can change them, and goes into signatures.

    `depth` is how many candidate utterances are taken and ranked again, at first: it grows where the k-th reference is
    not safe. In the `dialog` modes it is how many utterances have all their responses looked at, and stays.
    """

    k: int = 15
    mode: Mode = "embedding-utterance"
    alpha: float = 0.5  # of the responses' similarity in the dialog modes
    epsilon: float = 0.1  # what stands in for it otherwise
    depth: int | None = None
    after: datetime | None = None  # a pair at this time is in
    before: datetime | None = None  # and one at this is not
    exclude_logs: tuple[str, ...] = field(default=())
    near: float = 0.9
    near_tokens: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.mode not in MODES:
            raise Usage(f"no mode is called {self.mode!r}", remedy=f"one of: {', '.join(MODES)}")
        if not 1 <= self.k <= MOST:
            raise Usage(f"k={self.k} references cannot be given", remedy=f"1 to {MOST}")
        if self.depth is not None and not self.k <= self.depth <= 1_000_000:
            raise Usage(f"a depth of {self.depth} does not go with k={self.k}", remedy="from k to 1,000,000")
        for name in ("alpha", "epsilon", "near"):
            if not 0 <= getattr(self, name) <= 1:
                raise Usage(f"{name}={getattr(self, name)} is not between 0 and 1")
        for name in ("after", "before"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise Usage(
                    f"{name}={moment.isoformat()} has no time zone", remedy=f"for example {moment.isoformat()}Z"
                )

    @property
    def is_dialog(self) -> bool:
        """Whether the test pair's own response is compared as well."""
        return self.mode.endswith("dialog")

    @property
    def is_bm25(self) -> bool:
        """Whether words are compared, not vectors."""
        return self.mode.startswith("bm25")

    def rules(self, logs: Sequence[str]) -> Rules:
        """The exclusions that hold for all test pairs, for the logs of an index."""
        unknown = sorted(set(self.exclude_logs) - set(logs))
        if unknown:
            raise Usage(f"the index has no log {unknown[0]!r}", remedy=f"it has: {', '.join(logs)}")
        return Rules(
            timed=self.after is not None or self.before is not None,
            after=NO_TIME if self.after is None else _micros(self.after),
            before=_LATEST if self.before is None else _micros(self.before),
            blocked_log=np.array([log in self.exclude_logs for log in logs], np.bool_),
            near=self.near,
            near_tokens=self.near_tokens,
        )


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Queries:
    """The test pairs of one search."""

    utterances: CodedTexts
    golds: CodedTexts  # the first gold of each test pair; an empty text where there is none
    tables: QueryTables
    has_utterance: NDArray[np.bool_]
    has_gold: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.has_utterance)


def prepare(pairs: Sequence[TestPair], vocabulary: Vocabulary) -> Queries:
    """Code the texts of test pairs, and list what may not be found for each."""
    utterances = [pair.utterance or "" for pair in pairs]
    golds = [[one.text for one in pair.references if one.source is Origin.GOLD and one.text.strip()] for pair in pairs]
    flat = list(chain.from_iterable(golds))
    coded = vocabulary.code(utterances + flat)
    own, further = _cut(coded, 0, len(utterances)), _cut(coded, len(utterances), len(coded.offsets) - 1)
    gold_start = _starts([len(texts) for texts in golds])
    return Queries(
        utterances=own,
        golds=_first_of_each(further, gold_start),
        tables=_tables(pairs, utterances, flat, gold_start, own, further),
        has_utterance=np.array([bool(text.strip()) for text in utterances], np.bool_),
        has_gold=np.diff(gold_start) > 0,
    )


def _tables(
    pairs: Sequence[TestPair],
    utterances: Sequence[str],
    golds: Sequence[str],
    gold_start: Rows,
    own: CodedTexts,
    further: CodedTexts,
) -> QueryTables:
    set_start = gold_start + np.arange(len(pairs) + 1)  # each test pair's golds, then its utterance
    order = _interleaved(gold_start)
    codes, offsets, sizes, tokens = _sets(
        own.codes, own.offsets, own.hashes, further.codes, further.offsets, further.hashes, order
    )
    blocked = [sorted({dialogue_key(name) for name in pair.exclude}) for pair in pairs]
    return QueryTables(
        utterance_key=np.array([text_key(normalise(text)) for text in utterances], np.uint64),
        gold_start=gold_start,
        gold_key=np.array([text_key(normalise(text)) for text in golds], np.uint64),
        set_start=set_start,
        set_code_start=offsets,
        set_code=codes,
        set_size=sizes,
        set_tokens=tokens,
        set_is_parrot=order < 0,
        own_dialogue=_dialogue_keys([pair.dialogue for pair in pairs]),
        has_dialogue=np.array([pair.dialogue is not None for pair in pairs], np.bool_),
        blocked_start=_starts([len(keys) for keys in blocked]),
        blocked=np.array(list(chain.from_iterable(blocked)), np.uint64),
    )


def _dialogue_keys(names: Sequence[str | None]) -> Keys:
    return np.array([0 if name is None else dialogue_key(name) for name in names], np.uint64)


def _starts(lengths: Sequence[int]) -> Rows:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _cut(coded: CodedTexts, first: int, last: int) -> CodedTexts:
    """Some of the texts."""
    begin, end = coded.offsets[first], coded.offsets[last]
    return CodedTexts(coded.codes[begin:end], coded.offsets[first : last + 1] - begin, coded.hashes[begin:end])


def _first_of_each(golds: CodedTexts, gold_start: Rows) -> CodedTexts:
    """One text a test pair: its first gold."""
    if len(golds.offsets) == len(gold_start) and (np.diff(gold_start) == 1).all():
        return golds
    begin = golds.offsets[gold_start[:-1]]
    next_text = np.minimum(gold_start[:-1] + 1, len(golds.offsets) - 1)
    end = np.where(np.diff(gold_start) > 0, golds.offsets[next_text], begin)
    pieces = [np.arange(first, last) for first, last in zip(begin, end, strict=True)]
    places = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    places = places.astype(np.int64)
    return CodedTexts(golds.codes[places], _starts((end - begin).tolist()), golds.hashes[places])


def _interleaved(gold_start: Rows) -> Rows:
    """For each set its text: the number of a gold, or −1 less the number of an utterance."""
    order = list[int]()
    for query in range(len(gold_start) - 1):
        order += range(gold_start[query], gold_start[query + 1])
        order.append(-1 - query)
    return np.array(order, np.int64)


@compiled
def _sets(
    own_codes: NDArray[np.int32],
    own_offsets: Rows,
    own_hashes: Keys,
    gold_codes: NDArray[np.int32],
    gold_offsets: Rows,
    gold_hashes: Keys,
    order: Rows,
) -> tuple[NDArray[np.int32], Rows, Rows, Rows]:
    """The distinct codes of each text, where they begin, how many distinct tokens it has, and how many in all."""
    codes = np.empty(len(own_codes) + len(gold_codes), np.int32)
    offsets, sizes = np.zeros(len(order) + 1, np.int64), np.zeros(len(order), np.int64)
    tokens, used = np.zeros(len(order), np.int64), 0
    for at in range(len(order)):
        text = order[at]
        if text < 0:
            begin, end = own_offsets[-1 - text], own_offsets[-text]
            some, hashes = own_codes[begin:end], own_hashes[begin:end]
        else:
            begin, end = gold_offsets[text], gold_offsets[text + 1]
            some, hashes = gold_codes[begin:end], gold_hashes[begin:end]
        known = np.unique(some[some >= 0])
        codes[used : used + len(known)] = known
        used += len(known)
        offsets[at + 1] = used
        sizes[at] = len(known) + len(np.unique(hashes[some < 0]))
        tokens[at] = end - begin
    return codes[:used].copy(), offsets, sizes, tokens
