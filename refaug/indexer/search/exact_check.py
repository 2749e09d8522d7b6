"""Compare what an index finds, in any mode, with a search through all of it.

The exhaustive search multiplies matrices block by block, keeps the best few hundred pairs of each query, and ranks
those exactly, under the same exclusions. For BM25 it scores all texts one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.core.records import Item, Reference
from refaug.indexer.bm25.scores import brute_force
from refaug.indexer.columns import ROWS_A_BATCH
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.ranking import MILLION, Events, events_of_pairs, events_of_utterances
from refaug.indexer.search.search import RankedPairs, merge
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import QueryTables, Rows
from refaug.indexer.search.searched_segments import pair_levels
from refaug.indexer.search.segments import Segment, common_order
from refaug.indexer.search.similarity import Bm25Likeness, Likeness, WordVectorLikeness
from refaug.indexer.vectors.sentence_vectors import embed

_MOST_PAIRS: Final = 512  # of each query are ranked exactly; exclusions and repeated texts use some up


@dataclass(frozen=True, kw_only=True)
class ExhaustiveComparison:
    """How much of the exhaustive search's answer the index found."""

    queries: int
    k: int
    recall: float
    low: float  # of the 95 % interval
    high: float
    lost_similarity: float  # the share of the exhaustive answer's similarity
    all_found: int  # queries without anything missing


def check_index(
    index: ReferenceIndex, settings: SearchSettings, *, queries: int, seed: int, progress: Progress
) -> ExhaustiveComparison:
    """Search for pairs drawn from the index, each without its own dialogue, and compare with the exhaustive search."""
    if settings.is_fused:
        raise Usage("the mode fused is two modes", remedy="check the two: by vectors, and bm25-utterance", field="mode")
    pairs = _draw_pairs(index, queries, seed)
    progress.stage("searching", len(pairs), "pairs")
    approximate = [
        [reference.similarity or 0.0 for reference in retrieved.references]
        for retrieved in index.search(pairs, settings)
    ]
    progress.stage("searching through everything", index.manifest.utterances, "utterances")
    exact = _search_exhaustively(index, pairs, settings, progress)
    return _compare(approximate, exact, settings.k)


def _draw_pairs(index: ReferenceIndex, count: int, seed: int) -> list[Item]:
    """Draw pairs of the main segments as test pairs, the same ones for any number of shards."""
    mains = index.segments[: len(index.manifest.main_segments)]
    places, rows = common_order(mains)
    counts = np.zeros(len(rows), np.int64)
    for place, segment in enumerate(mains):
        counts[places == place] = np.diff(segment.tables.pair_start)[rows[places == place]]
    ends = np.cumsum(counts)
    drawn = np.sort(np.random.default_rng(seed).permutation(int(ends[-1]))[:count]).astype(np.int64)
    positions = np.searchsorted(ends, drawn, side="right")
    texts: list[tuple[str | None, str | None]] = [(None, None)] * len(drawn)
    for place, segment in enumerate(mains):
        here = np.flatnonzero(places[positions] == place)
        utterances = rows[positions[here]]
        pairs = segment.tables.pair_start[utterances + 1] - (ends[positions[here]] - drawn[here])
        both = zip(segment.utterances.take(utterances), segment.responses.take(pairs), strict=True)
        for number, pair in zip(here.tolist(), both, strict=True):
            texts[number] = pair
    return [
        Item(id=str(place), turns=(utterance or "",), references=(Reference(text=response or ""),))
        for place, (utterance, response) in enumerate(texts)
    ]


def _search_exhaustively(
    index: ReferenceIndex, pairs: Sequence[Item], settings: SearchSettings, progress: Progress
) -> list[list[float]]:
    """Return the similarities of the best references of each test pair, after looking at all pairs."""
    likeness, tables = index.terms(pairs, settings)
    query_numbers = np.flatnonzero(likeness.able)
    parts = []
    for segment in index.segments:
        if settings.most_of_utterance:
            events = _events_of_best_utterances(index, segment, likeness, tables, settings, query_numbers, progress)
            parts.append([(query_numbers, events)])
            continue
        best = _best_pairs(index, segment, likeness, settings, query_numbers, progress)
        start, utterances, pair_rows = _flatten(segment, best)
        levels = likeness.list_levels(segment, query_numbers, start, utterances, golds=False)
        if settings.is_dialog:
            levels = pair_levels(
                levels, likeness.list_levels(segment, query_numbers, start, pair_rows, golds=True), settings
            )
        events = events_of_pairs(
            segment.tables, tables, query_numbers, start, utterances, pair_rows, levels, settings.k
        )
        parts.append([(query_numbers, events)])
    answer: RankedPairs = merge(parts, len(pairs), settings.k)
    return [(answer.events.level[row[row >= 0]] / MILLION).tolist() for row in answer.chosen]


def _flatten(segment: Segment, best: Rows) -> tuple[Rows, Rows, Rows]:
    """Return pairs (queries, most pairs) as a list without −1, with their utterances."""
    start = np.concatenate([[0], np.cumsum((best >= 0).sum(axis=1))]).astype(np.int64)
    pair_rows = best[best >= 0]
    utterances = (np.searchsorted(segment.tables.pair_start, pair_rows, side="right") - 1).astype(np.int64)
    return start, utterances, pair_rows


def _best_pairs(
    index: ReferenceIndex,
    segment: Segment,
    likeness: Likeness,
    settings: SearchSettings,
    query_numbers: Rows,
    progress: Progress,
) -> Rows:
    """Return the pairs (queries, most pairs) that are most similar in single precision, −1 where there are fewer."""
    best = _Best(len(query_numbers))
    alpha, rest = settings.alpha, (1 - settings.alpha) * settings.epsilon
    for first, of_utterance in _utterance_blocks(index, segment, likeness, query_numbers):
        last = first + of_utterance.shape[1]
        begin, end = segment.tables.pair_start[first], segment.tables.pair_start[last]
        owner = np.repeat(np.arange(last - first), np.diff(segment.tables.pair_start[first : last + 1]))
        levels = of_utterance[:, owner]
        if settings.is_dialog:
            of_response = _response_block(index, segment, likeness, query_numbers, int(begin), int(end))
            levels = np.maximum(levels, 0) * (alpha * np.maximum(of_response, 0) + rest)
        if len(segment.tables.superseded):
            levels[:, segment.tables.superseded[first:last][owner]] = -np.inf
        best.add(int(begin), levels)
        progress.advance(last - first)
    return best.above(0 if settings.is_bm25 or settings.is_dialog else -np.inf)


def _events_of_best_utterances(
    index: ReferenceIndex,
    segment: Segment,
    likeness: Likeness,
    tables: QueryTables,
    settings: SearchSettings,
    query_numbers: Rows,
    progress: Progress,
) -> Events:
    """Return the pairs of the most similar utterances, of each as many as the mode takes."""
    best = _Best(len(query_numbers))
    for first, of_utterance in _utterance_blocks(index, segment, likeness, query_numbers):
        best.add(first, of_utterance)
        progress.advance(of_utterance.shape[1])
    rows = best.above(-np.inf)
    levels = likeness.utterance_levels(segment, query_numbers, rows)
    most = settings.most_of_utterance
    return events_of_utterances(segment.tables, tables, query_numbers, rows, levels, settings.k, most)


class _Best:
    """The rows with the highest levels of each query, block by block."""

    def __init__(self, queries: int) -> None:
        self._rows: Rows = np.full((queries, _MOST_PAIRS), -1, np.int64)
        self._levels = np.full((queries, _MOST_PAIRS), -np.inf)

    def add(self, first: int, levels: NDArray[np.float64]) -> None:
        """Add the levels (queries, rows) of a block that begins at this row."""
        both = np.concatenate([self._levels, levels], axis=1)
        added = np.broadcast_to(np.arange(first, first + levels.shape[1]), levels.shape)
        rows = np.concatenate([self._rows, added], axis=1)
        best = np.argpartition(-both, min(_MOST_PAIRS, both.shape[1]) - 1, axis=1)[:, :_MOST_PAIRS]
        self._rows, self._levels = np.take_along_axis(rows, best, axis=1), np.take_along_axis(both, best, axis=1)

    def above(self, least: float) -> Rows:
        """Return the rows, −1 where there is none above this level."""
        return np.where(self._levels > least, self._rows, -1)


def _utterance_blocks(
    index: ReferenceIndex, segment: Segment, likeness: Likeness, query_numbers: Rows
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the similarity of each query to every utterance, a block of utterances at a time."""
    starts = segment.utterance_token_start
    for first in range(0, len(starts) - 1, ROWS_A_BATCH):
        offsets = starts[first : first + ROWS_A_BATCH + 1]
        codes = segment.utterance_tokens[offsets[0] : offsets[-1]]
        yield (
            first,
            _block_similarities(
                index, segment, likeness, query_numbers, codes, offsets - offsets[0], first, golds=False
            ),
        )


def _response_block(
    index: ReferenceIndex, segment: Segment, likeness: Likeness, query_numbers: Rows, begin: int, end: int
) -> NDArray[np.float64]:
    """Return the similarity of each query's gold to a block of responses."""
    offsets = segment.tables.response_token_start[begin : end + 1]
    codes = segment.tables.response_tokens[offsets[0] : offsets[-1]]
    return _block_similarities(index, segment, likeness, query_numbers, codes, offsets - offsets[0], begin, golds=True)


def _block_similarities(
    index: ReferenceIndex,
    segment: Segment,
    likeness: Likeness,
    query_numbers: Rows,
    codes: NDArray[np.int32],
    offsets: Rows,
    first: int,
    *,
    golds: bool,
) -> NDArray[np.float64]:
    if isinstance(likeness, Bm25Likeness):
        words = likeness.gold_words if golds else likeness.words
        scale = likeness.gold_scale if golds else likeness.scale
        return np.stack([brute_force(words, int(query), codes, offsets) / scale[query] for query in query_numbers])
    if isinstance(likeness, WordVectorLikeness):
        vectors, has_vector = embed(likeness.weights, codes, offsets, index.threads)
        query_vectors = (likeness.gold_vectors if golds else likeness.vectors)[query_numbers].astype(np.float32)
        similarities: NDArray[np.float64] = (query_vectors @ vectors.T).astype(np.float64)
        similarities[:, ~has_vector] = 0.0 if golds else -np.inf
        return similarities
    if golds or segment.exact is None:
        raise Usage("an index with an encoder keeps no vectors of responses", remedy="check another mode")
    rows = segment.exact[first : first + len(offsets) - 1]
    similarities = (likeness.vectors[query_numbers].astype(np.float32) @ rows.T).astype(np.float64)  # type: ignore[attr-defined]
    similarities[:, ~rows.any(axis=1)] = -np.inf
    return similarities


def _compare(approximate: Sequence[Sequence[float]], exact: Sequence[Sequence[float]], k: int) -> ExhaustiveComparison:
    """Compare two searches: a reference is right if its similarity is at most a millionth below the last exact one."""
    shares, missing, total = list[float](), 0.0, 0.0
    for ours, best in zip(approximate, exact, strict=True):
        if best:
            shares.append(sum(similarity >= best[-1] - 1.5 / MILLION for similarity in ours) / len(best))
            total += sum(best)
            missing += max(0.0, sum(best) - sum(ours))
    right = np.array(shares)
    spread = float(1.96 * right.std(ddof=1) / np.sqrt(len(right))) if len(right) > 1 else 0.0
    recall = float(right.mean()) if len(right) else 1.0
    return ExhaustiveComparison(
        queries=len(right),
        k=k,
        recall=round(recall, 6),
        low=round(max(0.0, recall - spread), 6),
        high=round(min(1.0, recall + spread), 6),
        lost_similarity=round(missing / total, 6) if total else 0.0,
        all_found=int((right >= 1).sum()),
    )
