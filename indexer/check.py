"""What an index finds in any mode, beside a search through all of it: for its makers, and for those who doubt it.

The exhaustive search multiplies matrices block by block, keeps the best few hundred pairs of each query, and ranks
those again exactly, under the same exclusions. BM25's goes through all texts one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import Usage
from core.progress import Progress
from core.records import Reference, TestPair
from indexer.arrays import ROWS_A_BATCH
from indexer.bm25 import brute_force
from indexer.index import ReferenceIndex
from indexer.likeness import Likeness, WordVectorLikeness
from indexer.likeness_bm25 import Bm25Likeness
from indexer.queries import SearchSettings, prepare
from indexer.ranking import MILLION, Rows, events_of_pairs
from indexer.search import Found, merged, pair_levels
from indexer.segments import Segment
from indexer.sentence_vectors import embed

_KEPT: Final = 512  # pairs of each query that are ranked exactly; exclusions and repeated texts use some up

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """How much of the exhaustive search's answer was found."""

    queries: int
    k: int
    recall: float
    low: float  # of the 95 % interval
    high: float
    lost_similarity: float  # the share of the exhaustive answer's similarity
    all_found: int  # queries with nothing missing


def check_index(
    index: ReferenceIndex, settings: SearchSettings, *, queries: int, seed: int, progress: Progress
) -> Compared:
    """Ask with pairs drawn from the index, each one's own dialogue excluded as ever, and compare."""
    pairs = _drawn(index, queries, seed)
    progress.stage("searching", len(pairs), "pairs")
    found = [[one.similarity or 0.0 for one in each.references] for each in index.search(pairs, settings)]
    progress.stage("searching through everything", index.manifest.utterances, "utterances")
    exact = _exhaustive(index, pairs, settings, progress)
    return _compared(found, exact, settings.k)


def _drawn(index: ReferenceIndex, count: int, seed: int) -> list[TestPair]:
    """Pairs of the main segment as test pairs."""
    segment = index.segments[0]
    rows = len(segment.tables.response_key)
    pairs = np.sort(np.random.default_rng(seed).permutation(rows)[:count]).astype(np.int64)
    utterances = np.searchsorted(segment.tables.pair_start, pairs, side="right") - 1
    texts = zip(segment.utterances.take(utterances), segment.responses.take(pairs), strict=True)
    return [
        TestPair(id=str(place), turns=(utterance or "",), references=(Reference(text=response or ""),))
        for place, (utterance, response) in enumerate(texts)
    ]


def _exhaustive(
    index: ReferenceIndex, pairs: Sequence[TestPair], settings: SearchSettings, progress: Progress
) -> list[list[float]]:
    """The similarities of the best references of each test pair, all pairs looked at."""
    queries = prepare(pairs, index.vocabulary)
    likeness = index.likeness(pairs, queries, settings)
    which = np.flatnonzero(likeness.able)
    rules = settings.rules(index.logs)
    parts = []
    for segment in index.segments:
        best = _best_pairs(index, segment, likeness, settings, which, progress)
        start, utterances, found = _flat(segment, best)
        levels = likeness.listed(segment, which, start, utterances, golds=False)
        if settings.is_dialog:
            levels = pair_levels(levels, likeness.listed(segment, which, start, found, golds=True), settings)
        events = events_of_pairs(
            segment.tables, queries.tables, rules, which, start, utterances, found, levels, settings.k
        )
        parts.append([(which, events)])
    answer: Found = merged(parts, len(queries), settings.k)
    return [(answer.events.level[row[row >= 0]] / MILLION).tolist() for row in answer.chosen]


def _flat(segment: Segment, best: Rows) -> tuple[Rows, Rows, Rows]:
    """Pairs (queries, kept) as a list, −1 left out, with their utterances."""
    start = np.concatenate([[0], np.cumsum((best >= 0).sum(axis=1))]).astype(np.int64)
    found = best[best >= 0]
    utterances = (np.searchsorted(segment.tables.pair_start, found, side="right") - 1).astype(np.int64)
    return start, utterances, found


def _best_pairs(
    index: ReferenceIndex,
    segment: Segment,
    likeness: Likeness,
    settings: SearchSettings,
    which: Rows,
    progress: Progress,
) -> Rows:
    """The pairs (queries, kept) most similar by quick arithmetic, −1 where there are fewer."""
    kept: Rows = np.full((len(which), _KEPT), -1, np.int64)
    values = np.full((len(which), _KEPT), -np.inf)
    alpha, rest = settings.alpha, (1 - settings.alpha) * settings.epsilon
    for first, of_utterance in _utterance_blocks(index, segment, likeness, which):
        last = first + of_utterance.shape[1]
        begin, end = segment.tables.pair_start[first], segment.tables.pair_start[last]
        owner = np.repeat(np.arange(last - first), np.diff(segment.tables.pair_start[first : last + 1]))
        block = of_utterance[:, owner]
        if settings.is_dialog:
            of_response = _response_block(index, segment, likeness, which, int(begin), int(end))
            block = np.maximum(block, 0) * (alpha * np.maximum(of_response, 0) + rest)
        if len(segment.tables.superseded):
            block[:, segment.tables.superseded[first:last][owner]] = -np.inf
        both = np.concatenate([values, block], axis=1)
        rows = np.concatenate([kept, np.broadcast_to(np.arange(begin, end), block.shape)], axis=1)
        top = np.argpartition(-both, min(_KEPT, both.shape[1]) - 1, axis=1)[:, :_KEPT]
        kept, values = np.take_along_axis(rows, top, axis=1), np.take_along_axis(both, top, axis=1)
        progress.advance(last - first)
    kept[~(values > (0 if settings.is_bm25 or settings.is_dialog else -np.inf))] = -1
    return kept


def _utterance_blocks(
    index: ReferenceIndex, segment: Segment, likeness: Likeness, which: Rows
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The similarity of each query to every utterance, a block of utterances at a time."""
    starts = segment.utterance_token_start
    for first in range(0, len(starts) - 1, ROWS_A_BATCH):
        some = starts[first : first + ROWS_A_BATCH + 1]
        codes = segment.utterance_tokens[some[0] : some[-1]]
        yield first, _block(index, segment, likeness, which, codes, some - some[0], first, golds=False)


def _response_block(
    index: ReferenceIndex, segment: Segment, likeness: Likeness, which: Rows, begin: int, end: int
) -> NDArray[np.float64]:
    """The similarity of each query's gold to some responses."""
    some = segment.tables.response_token_start[begin : end + 1]
    codes = segment.tables.response_tokens[some[0] : some[-1]]
    return _block(index, segment, likeness, which, codes, some - some[0], begin, golds=True)


def _block(
    index: ReferenceIndex,
    segment: Segment,
    likeness: Likeness,
    which: Rows,
    codes: NDArray[np.int32],
    offsets: Rows,
    first: int,
    *,
    golds: bool,
) -> NDArray[np.float64]:
    if isinstance(likeness, Bm25Likeness):
        words = likeness.gold_words if golds else likeness.words
        scale = likeness.gold_scale if golds else likeness.scale
        return np.stack([brute_force(words, int(query), codes, offsets) / scale[query] for query in which])
    if isinstance(likeness, WordVectorLikeness):
        vectors, known = embed(likeness.weights, codes, offsets, index.threads)
        asked = (likeness.gold_vectors if golds else likeness.vectors)[which].astype(np.float32)
        found: NDArray[np.float64] = (asked @ vectors.T).astype(np.float64)
        found[:, ~known] = 0.0 if golds else -np.inf
        return found
    if golds or segment.exact is None:
        raise Usage("an index with an encoder keeps no vectors of responses", remedy="check another mode")
    rows = segment.exact[first : first + len(offsets) - 1]
    found = (likeness.vectors[which].astype(np.float32) @ rows.T).astype(np.float64)  # type: ignore[attr-defined]
    found[:, ~rows.any(axis=1)] = -np.inf
    return found


def _compared(found: Sequence[Sequence[float]], exact: Sequence[Sequence[float]], k: int) -> Compared:
    """A reference is right when it is as similar as the last exact one, or less so by a millionth at most."""
    shares, lost, wanted = list[float](), 0.0, 0.0
    for ours, best in zip(found, exact, strict=True):
        if best:
            shares.append(sum(one >= best[-1] - 1.5 / MILLION for one in ours) / len(best))
            wanted += sum(best)
            lost += max(0.0, sum(best) - sum(ours))
    right = np.array(shares)
    spread = float(1.96 * right.std(ddof=1) / np.sqrt(len(right))) if len(right) > 1 else 0.0
    recall = float(right.mean()) if len(right) else 1.0
    return Compared(
        queries=len(right),
        k=k,
        recall=round(recall, 6),
        low=round(max(0.0, recall - spread), 6),
        high=round(min(1.0, recall + spread), 6),
        lost_similarity=round(lost / wanted, 6) if wanted else 0.0,
        all_found=int((right >= 1).sum()),
    )
