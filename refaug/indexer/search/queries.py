"""Test pairs prepared for a search: texts as codes, with what is excluded for each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.kernels.kernel import compiled
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import normalise
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import NO_TIME, Keys, QueryTables, Rows
from refaug.indexer.tokens import CodedTexts, Vocabulary
from refaug.logs.pairs import text_key

# ── Numbers of dialogues: an index stores these in place of ids ───────────────────────────────────────────────────────


def dialogue_key(dialogue: str) -> int:
    """Return an index's number for a dialogue: half of its id's MD5, which the log engine computes as well."""
    return int.from_bytes(hashlib.md5(dialogue.encode(), usedforsecurity=False).digest()[:8], "little")


# ── Test pairs prepared for a search: texts as codes, with what is excluded for each ──────────────────────────────────

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = np.iinfo(np.int64).max


def blocked_logs(settings: SearchSettings, logs: Sequence[str]) -> NDArray[np.bool_]:
    """Return which logs of an index are excluded; Usage for one that it has not."""
    unknown = sorted(set(settings.exclude_logs) - set(logs))
    if unknown:
        raise Usage(f"the index has no log {unknown[0]!r}", remedy=f"it has: {', '.join(logs)}")
    return np.array([log in settings.exclude_logs for log in logs], np.bool_)


def time_bounds(settings: SearchSettings) -> tuple[bool, int, int]:
    """Return whether times count, the first microsecond since 1970 that is in, and the next that is not."""
    after, before = settings.after, settings.before
    timed = after is not None or before is not None
    return timed, NO_TIME if after is None else _micros(after), _LATEST if before is None else _micros(before)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def golds_of(pair: Item) -> list[str]:
    """Return the golds of a test pair that say something."""
    return [
        reference.text for reference in pair.references if reference.source is Origin.GOLD and reference.text.strip()
    ]


def code_texts(
    utterances: Sequence[str], golds: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> tuple[CodedTexts, CodedTexts]:
    """Return the utterances and all golds of test pairs as codes."""
    count, coded = len(utterances), vocabulary.code([*utterances, *chain.from_iterable(golds)])
    return _slice_texts(coded, 0, count), _slice_texts(coded, count, len(coded.offsets) - 1)


def tables_of(
    pairs: Sequence[Item],
    golds: Sequence[Sequence[str]],
    own: CodedTexts,
    further: CodedTexts,
    settings: SearchSettings,
    logs: Sequence[str],
) -> QueryTables:
    """Return what is excluded for each test pair; its utterance and its golds are coded in `own` and `further`.

    `logs` are those of the index.
    """
    gold_start = _starts([len(texts) for texts in golds])
    set_start = gold_start + np.arange(len(pairs) + 1)  # each test pair's golds, then its utterance
    order = _interleave(gold_start)
    codes, offsets, sizes, tokens = _token_sets(
        own.codes, own.offsets, own.hashes, further.codes, further.offsets, further.hashes, order
    )
    timed, after, before = time_bounds(settings)
    blocked = [sorted({dialogue_key(name) for name in pair.exclude}) for pair in pairs]
    return QueryTables(
        utterance_key=np.array([text_key(normalise(pair.utterance or "")) for pair in pairs], np.uint64),
        gold_start=gold_start,
        gold_key=np.array([text_key(normalise(text)) for text in chain.from_iterable(golds)], np.uint64),
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
        timed=timed,
        after=after,
        before=before,
        blocked_log=blocked_logs(settings, logs),
        near=settings.near,
        near_tokens=settings.near_tokens,
    )


def _dialogue_keys(names: Sequence[str | None]) -> Keys:
    return np.array([0 if name is None else dialogue_key(name) for name in names], np.uint64)


def _starts(lengths: Sequence[int]) -> Rows:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _slice_texts(coded: CodedTexts, first: int, last: int) -> CodedTexts:
    """Return the texts from `first` to `last`."""
    begin, end = coded.offsets[first], coded.offsets[last]
    return CodedTexts(coded.codes[begin:end], coded.offsets[first : last + 1] - begin, coded.hashes[begin:end])


def first_golds(golds: CodedTexts, gold_start: Rows) -> CodedTexts:
    """Return one text a test pair: its first gold; an empty text where there is none."""
    if len(golds.offsets) == len(gold_start) and (np.diff(gold_start) == 1).all():
        return golds
    begin = golds.offsets[gold_start[:-1]]
    next_text = np.minimum(gold_start[:-1] + 1, len(golds.offsets) - 1)
    end = np.where(np.diff(gold_start) > 0, golds.offsets[next_text], begin)
    pieces = [np.arange(first, last) for first, last in zip(begin, end, strict=True)]
    places = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    places = places.astype(np.int64)
    return CodedTexts(golds.codes[places], _starts((end - begin).tolist()), golds.hashes[places])


def _interleave(gold_start: Rows) -> Rows:
    """Return the text of each set: the number of a gold, or −1 minus the number of an utterance."""
    order = list[int]()
    for query in range(len(gold_start) - 1):
        order += range(gold_start[query], gold_start[query + 1])
        order.append(-1 - query)
    return np.array(order, np.int64)


@compiled
def _token_sets(
    own_codes: NDArray[np.int32],
    own_offsets: Rows,
    own_hashes: Keys,
    gold_codes: NDArray[np.int32],
    gold_offsets: Rows,
    gold_hashes: Keys,
    order: Rows,
) -> tuple[NDArray[np.int32], Rows, Rows, Rows]:
    """Return the distinct codes of each text, where they begin, and the number of distinct tokens and of all tokens."""
    codes = np.empty(len(own_codes) + len(gold_codes), np.int32)
    offsets, sizes = np.zeros(len(order) + 1, np.int64), np.zeros(len(order), np.int64)
    tokens, used = np.zeros(len(order), np.int64), 0
    for at in range(len(order)):
        text = order[at]
        if text < 0:
            begin, end = own_offsets[-1 - text], own_offsets[-text]
            text_codes, hashes = own_codes[begin:end], own_hashes[begin:end]
        else:
            begin, end = gold_offsets[text], gold_offsets[text + 1]
            text_codes, hashes = gold_codes[begin:end], gold_hashes[begin:end]
        distinct = np.unique(text_codes[text_codes >= 0])
        codes[used : used + len(distinct)] = distinct
        used += len(distinct)
        offsets[at + 1] = used
        sizes[at] = len(distinct) + len(np.unique(hashes[text_codes < 0]))
        tokens[at] = end - begin
    return codes[:used].copy(), offsets, sizes, tokens
