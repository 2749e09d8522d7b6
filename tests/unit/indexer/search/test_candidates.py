"""Candidates of several segments: those of one list of all, however it is cut, with ties and outdated utterances."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.indexer.search.candidate_pool import asked_width, choose_best, collect, least_of_best, likely_part, pack
from refaug.indexer.search.searched_segments import LocalCandidates
from refaug.indexer.search.segments import SegmentFacts

QUERIES = 3


class Scores:
    """A source with a table of similarities (queries, utterances of all segments), of which a segment has some."""

    def __init__(self, similarities, finer=None, depth=0):
        self.similarities, self.finer_similarities, self.depth = similarities, finer, depth
        self.widest = 0

    def code_depth(self, _most_depth, count):
        return max(count, self.depth)

    def code_candidates(self, segment, query_numbers, width, _effort):
        self.widest = max(self.widest, width)
        rows = np.full((len(query_numbers), width), -1, np.int64)
        levels = np.full((len(query_numbers), width), -np.inf)
        for at, query in enumerate(query_numbers):
            own = self.similarities[query, segment.owned]
            order = segment.shuffled[np.argsort(-own[segment.shuffled], kind="stable")][:width]  # ties by chance
            order = order[np.isfinite(own[order])]
            rows[at, : len(order)], levels[at, : len(order)] = order, own[order]
        return rows, levels

    def finer(self, segment, query_numbers, rows):
        if self.finer_similarities is None:
            return None
        levels = self.finer_similarities[query_numbers[:, None], segment.owned[np.maximum(rows, 0)]]
        return np.where(rows >= 0, levels, -np.inf)


def facts(utterances, *, has_superseded):
    return SegmentFacts(
        info=SimpleNamespace(depth=1, effort=1),
        utterance_count=utterances,
        is_exact=True,
        most_effort=1,
        has_superseded=has_superseded and utterances > 0,
    )


def cut(rng, count, segments, *, with_outdated):
    """Utterances 0, 1, … in segments by chance; an utterance's number is its hash, and half of them share one."""
    owner = rng.integers(0, segments, count)
    parts = []
    for number in range(segments):
        owned = np.flatnonzero(owner == number)
        outdated = rng.random(len(owned)) < 0.4 if with_outdated else np.zeros(0, np.bool_)
        tables = SimpleNamespace(
            utterance_sha=(owned // 2).astype(np.uint64), utterance_key=owned.astype(np.uint64), superseded=outdated
        )
        parts.append(
            SimpleNamespace(
                owned=owned,
                tables=tables,
                utterance_count=len(owned),
                shuffled=rng.permutation(len(owned)),
                facts=facts(len(owned), has_superseded=with_outdated),
            )
        )
    return parts


def outdated_of(parts, count):
    outdated = np.zeros(count, np.bool_)
    for part in parts:
        if len(part.tables.superseded):
            outdated[part.owned] = part.tables.superseded
    return outdated


def best_of_all(similarities, outdated, count):
    """By similarity, then by number."""
    live = np.where(outdated, -np.inf, similarities)
    order = np.argsort(-live, kind="stable")[:count]
    return sorted(order[np.isfinite(live[order])].tolist())


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    utterances=st.integers(1, 120),
    segments=st.integers(1, 8),
    count=st.integers(1, 40),
    levels=st.sampled_from((2, 5, 1_000_000)),
    with_outdated=st.booleans(),
)
def test_candidates_are_those_of_one_list(seed, utterances, segments, count, levels, with_outdated):
    rng = np.random.default_rng(seed)
    similarities = rng.integers(0, levels, (QUERIES, utterances)).astype(np.float64)
    similarities[rng.random(similarities.shape) < 0.2] = -np.inf  # without a vector, or in a list not searched
    finer = rng.integers(0, levels, similarities.shape).astype(np.float64)
    parts = cut(rng, utterances, segments, with_outdated=with_outdated)
    parts = [part for part in parts if part.utterance_count]
    outdated, numbers = outdated_of(parts, utterances), np.arange(QUERIES)
    for source in (Scores(similarities), Scores(similarities, finer, 2 * count)):
        tables, is_short = collect(LocalCandidates(parts, source), numbers, count, [1] * len(parts))
        width = min(source.code_depth(1, count), max(count, utterances))
        for query in range(QUERIES):
            found = sorted(
                int(part.owned[row])
                for part, rows in zip(parts, tables, strict=True)
                for row in rows[query].tolist()
                if row >= 0
            )
            expected, size = best_of_all(similarities[query], outdated, width), width
            if source.finer_similarities is not None:
                chosen = np.full(utterances, -np.inf)
                chosen[expected] = finer[query, expected]
                expected, size = best_of_all(chosen, outdated, count), count
            assert found == expected
            assert is_short[query] == (len(expected) < size)


def test_without_resolving_ties_a_segment_is_asked_once_for_no_more_than_needed():
    rng = np.random.default_rng(3)
    source = Scores(rng.integers(0, 3, (QUERIES, 400)).astype(np.float64))
    parts = cut(rng, 400, 3, with_outdated=False)
    tables, _ = collect(LocalCandidates(parts, source), np.arange(QUERIES), 40, [1, 1, 1], resolves_ties=False)
    assert source.widest == 40
    for query in range(QUERIES):
        levels = [
            source.similarities[query, part.owned[row]]
            for part, rows in zip(parts, tables, strict=True)
            for row in rows[query].tolist()
            if row >= 0
        ]
        assert sorted(levels) == sorted(source.similarities[query])[-40:]


def test_no_segments_have_no_candidates():
    tables, is_short = collect(LocalCandidates([], Scores(np.zeros((QUERIES, 0)))), np.arange(QUERIES), 5, [])
    assert (tables, is_short.tolist()) == ([], [True] * QUERIES)


def test_chosen_candidates_move_together_in_their_order():
    rows = np.array([[4, 2, -1, 7], [1, 3, 5, 9]])
    levels = np.array([[0.5, 0.4, -np.inf, 0.1], [0.9, 0.8, 0.7, 0.6]])
    marks = np.array([[True, False, False, True], [False, True, True, True]])
    packed, their_levels = pack(rows, levels, marks)
    assert packed.tolist() == [[4, 7, -1], [3, 5, 9]]
    assert their_levels.tolist() == [[0.5, 0.1, -np.inf], [0.8, 0.7, 0.6]]
    assert least_of_best(levels, 3).tolist() == [0.1, 0.7]
    assert least_of_best(levels, 5).tolist() == [-np.inf, -np.inf]
    part = SimpleNamespace(
        tables=SimpleNamespace(utterance_sha=np.zeros(10, np.uint64), utterance_key=np.arange(10), superseded=()),
        facts=facts(10, has_superseded=False),
        utterance_count=10,
    )
    segments = LocalCandidates([part], Scores(levels))
    assert [marks.tolist() for marks in choose_best(segments, [rows], [levels], 2)] == [
        [[True, True, False, False], [True, True, False, False]]
    ]


def test_a_segment_is_asked_for_its_share_first_and_for_all_where_it_has_more_of_the_best():
    rng = np.random.default_rng(5)
    similarities = rng.permuted(np.arange(4_000.0)[None].repeat(QUERIES, axis=0), axis=1)
    parts = cut(rng, 4_000, 8, with_outdated=False)
    even = Scores(similarities)
    collect(LocalCandidates(parts, even), np.arange(QUERIES), 400, [1] * 8)
    mean = 400 / 8
    assert even.widest <= 1.125 * (mean + 5 * mean**0.5) + 17 < asked_width(400)
    uneven = similarities.copy()
    uneven[0, parts[2].owned] += 10_000  # one query's best utterances are all of one segment
    source = Scores(uneven)
    tables, _ = collect(LocalCandidates(parts, source), np.arange(QUERIES), 400, [1] * 8)
    assert source.widest == asked_width(400)
    assert [int((rows[0] >= 0).sum()) for rows in tables] == [0, 0, 400, 0, 0, 0, 0, 0]


def test_a_likely_part_is_seldom_exceeded():
    rng = np.random.default_rng(7)
    assert (likely_part(512, 1.0), likely_part(512, 0.0), likely_part(1, 0.5)) == (512, 0, 1)
    for share in (0.5, 0.25, 1 / 16):
        draws = rng.binomial(512, share, 20_000)
        assert (draws > likely_part(512, share)).mean() < 0.001
        assert likely_part(512, share) < 512 * share + 50
