"""The segments of an index in processes of a cluster, as one search asks them.

Each question goes to all shards at once, and every answer is put together here: the merging of candidates is that of a
search in one process, so its result is the same. For a few queries a shard answers at once what the search will most
probably ask next of its best candidates (`shard_server.Foresight`); where the search asks something else, it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from refaug.core.kernels.kernel import compiled
from refaug.extras.cluster.actors import Actors
from refaug.extras.cluster.replicas import ActorCall, NoReplica, Replicas
from refaug.extras.cluster.search import shard_server
from refaug.indexer.search import searched_segments
from refaug.indexer.search.candidate_pool import Similarities, likely_part
from refaug.indexer.search.ranking import Events, chosen_events
from refaug.indexer.search.search import first_depth
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.search.search_tables import Keys, QueryTables, Rows
from refaug.indexer.search.segments import SegmentFacts
from refaug.indexer.search.similarity import COARSE, Levels, Likeness, WordVectorLikeness

_GROWTH: Final = 4  # of a search's depth with each round
_ROUNDS: Final = 3  # in which shards look ahead
FEW: Final = 4  # queries for which shards look ahead: more would compare much that is not asked for
_DEEPEST_AHEAD: Final = 512  # candidates at first; deeper searches are rare, and look at much that is not asked for
_SPARE_TEXTS: Final = 8  # more than are shown, since other candidates of the shard may drop out
_SHARED_FROM: Final = 64  # queries whose terms are stored once for all shards of a machine


@dataclass(frozen=True, kw_only=True)
class RemoteShard:
    """One shard of a version: the processes that have it open, and which segments of the version it has."""

    name: str
    replicas: Replicas
    numbers: tuple[int, ...]
    facts: tuple[SegmentFacts, ...]


@dataclass(eq=False)
class _Memory:
    """What shards have said of their segments beyond what they were asked, by the number of a segment."""

    query_numbers: Rows
    foresights: dict[int, shard_server.Foresight] = field(default_factory=dict)
    tables: dict[int, Rows] = field(default_factory=dict)


class RemoteSegments:
    """Some segments of a version on a cluster, for one search."""

    def __init__(
        self,
        actors: Actors,
        shards: Sequence[RemoteShard],
        likeness: Likeness,
        settings: SearchSettings,
        numbers: Sequence[int],
        packed: Any,
    ) -> None:
        self._actors, self._shards, self._packed = actors, shards, packed
        self._likeness, self._settings = likeness, settings
        self._numbers = tuple(numbers)  # of the segments in the version
        facts = {number: one for shard in shards for number, one in zip(shard.numbers, shard.facts, strict=True)}
        self._place_in_shard = {number: place for shard in shards for place, number in enumerate(shard.numbers)}
        self._shard_of = {number: at for at, shard in enumerate(shards) for number in shard.numbers}
        self.facts = [facts[number] for number in numbers]
        self._memory: _Memory | None = None
        self._rounds = 0  # how often all segments were asked

    @classmethod
    def of(
        cls,
        actors: Actors,
        shards: Sequence[RemoteShard],
        likeness: Likeness,
        tables: QueryTables,
        settings: SearchSettings,
        share: Callable[[Any], Any],
    ) -> RemoteSegments:
        """Prepare a search in some shards; `share` puts a value where all machines can read it."""
        numbers = sorted(number for shard in shards for number in shard.numbers)
        sent = likeness
        if isinstance(likeness, WordVectorLikeness):
            sent = replace(likeness, weights=shard_server.NO_WEIGHTS)
        plain = SearchSettings(**{one.name: getattr(settings, one.name) for one in fields(SearchSettings)})
        packed: Any = shard_server.MESSAGES.pack((sent, tables, plain))
        if len(likeness.able) >= _SHARED_FROM:
            packed = share(packed)
        return cls(actors, shards, likeness, settings, numbers, packed)

    def subset(self, numbers: Sequence[int]) -> RemoteSegments:
        """Return some of the segments, for the same search."""
        chosen = [self._numbers[number] for number in numbers]
        return RemoteSegments(self._actors, self._shards, self._likeness, self._settings, chosen, self._packed)

    # Candidates

    def code_depth(self, count: int) -> int:
        """Return how many candidates by codes include the best `count`."""
        return self._likeness.code_depth(max((facts.info.depth for facts in self.facts), default=1), count)

    def ask(
        self, numbers: Sequence[int], query_numbers: Sequence[Rows], widths: Sequence[int], efforts: Sequence[int]
    ) -> list[tuple[Rows, Similarities]]:
        """Ask some segments for their best utterances, each shard once for all of its segments."""
        asked_for = query_numbers[0] if numbers else np.zeros(0, np.int64)
        is_first = len(numbers) == len(self._numbers)
        foresees = is_first and self._looks_ahead(asked_for)
        shares = self._likely_shares() if foresees else [shard_server.NOTHING_AHEAD] * len(numbers)
        self._rounds += is_first
        answers = self._ask_shards(
            "ask",
            numbers,
            lambda places: tuple(
                [column[place] for place in places] for column in (query_numbers, widths, efforts, shares)
            ),
            work=len(asked_for),
            has_terms=True,
        )
        if foresees:
            self._memory = _Memory(asked_for)
        asked = list[tuple[Rows, Similarities]]()
        for number, answer in zip(numbers, answers, strict=True):
            named: shard_server.AskedShard = answer
            rows = named.rows.astype(np.int64)
            if foresees and named.more is not None and self._memory is not None:
                self._memory.foresights[number], self._memory.tables[number] = named.more, rows
            asked.append((rows, named.similarities.astype(np.float64)))
        return asked

    def _looks_ahead(self, query_numbers: Rows) -> bool:
        is_shallow = self._rounds < _ROUNDS and first_depth(self._settings) <= _DEEPEST_AHEAD
        return len(query_numbers) <= FEW and is_shallow and not self._settings.is_dialog

    def _likely_shares(self) -> list[shard_server.LookAhead]:
        """Return how many of the candidates and of the pairs shown are likely to be of each segment."""
        depth = first_depth(self._settings) * _GROWTH**self._rounds
        width = self.code_depth(depth)
        depth = width if width <= COARSE else depth  # a finer comparison leaves so many of those by coarse codes
        shown = self._settings.k + _SPARE_TEXTS
        total = max(1, sum(facts.utterance_count for facts in self.facts))
        shares = [facts.utterance_count / total for facts in self.facts]
        return [shard_server.LookAhead(likely_part(depth, share), likely_part(shown, share)) for share in shares]

    def hashes(self, rows: Sequence[Rows]) -> list[tuple[Keys, Keys]]:
        """Return the hashes and the keys of these utterances of each segment."""
        remembered = [self._remembered_hashes(number, of_segment) for number, of_segment in enumerate(rows)]
        lacking = [number for number, one in enumerate(remembered) if one is None]
        answers = self._ask_shards("hashes", lacking, lambda places: ([rows[lacking[place]] for place in places],))
        asked = dict(zip(lacking, answers, strict=True))
        return [asked[number] if one is None else one for number, one in enumerate(remembered)]

    def _remembered_hashes(self, number: int, rows: Rows) -> tuple[Keys, Keys] | None:
        """Return hashes that came along with candidates; None where some did not."""
        if not len(rows):
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        memory = self._memory
        if memory is None or number not in memory.foresights:
            return None
        named = memory.tables[number].ravel()
        order = np.argsort(named, kind="stable")
        places = np.minimum(np.searchsorted(named[order], rows), len(named) - 1)
        if not (named[order[places]] == rows).all():
            return None
        foresight = memory.foresights[number]
        return foresight.sha.ravel()[order[places]], foresight.key.ravel()[order[places]]

    def finer(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[Similarities | None]:
        """Return finer similarities of each segment's candidates; None where those by codes are fine enough."""
        remembered = [self._remembered_finer(number, query_numbers, rows) for number, rows in enumerate(tables)]
        lacking = [number for number, (is_known, _) in enumerate(remembered) if not is_known]
        answers = self._ask_shards(
            "finer",
            lacking,
            lambda places: (query_numbers, [tables[lacking[place]] for place in places]),
            work=len(query_numbers),
            has_terms=True,
        )
        asked = dict(zip(lacking, answers, strict=True))
        return [asked[number] if not is_known else finer for number, (is_known, finer) in enumerate(remembered)]

    def _remembered_finer(self, number: int, query_numbers: Rows, rows: Rows) -> tuple[bool, Similarities | None]:
        """Return whether finer similarities came along with candidates, and these."""
        if not rows.shape[1] or self._settings.is_bm25:
            return True, None
        memory = self._memory
        if memory is None or number not in memory.foresights or not np.array_equal(memory.query_numbers, query_numbers):
            return False, None
        finer = memory.foresights[number].finer
        if finer is None:
            return True, None
        named, similarities = memory.tables[number], np.full(rows.shape, -np.inf)
        for query in range(len(rows)):
            order = np.argsort(named[query], kind="stable")
            places = order[np.minimum(np.searchsorted(named[query][order], rows[query]), named.shape[1] - 1)]
            if not (named[query][places] == rows[query])[rows[query] >= 0].all():
                return False, None
            similarities[query] = np.where(rows[query] >= 0, finer[query][places], -np.inf)
        return True, similarities

    # Ranking

    def rank(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[tuple[Events, Rows]]:
        """Compare the candidates of each segment exactly, and return their pairs up to the k-th reference."""
        remembered = [self._remembered_ranks(number, query_numbers, rows) for number, rows in enumerate(tables)]
        lacking = [number for number, one in enumerate(remembered) if one is None]
        answers = self._ask_shards(
            "rank",
            lacking,
            lambda places: (query_numbers, [tables[lacking[place]] for place in places]),
            work=len(query_numbers),
            has_terms=True,
        )
        asked = dict(zip(lacking, answers, strict=True))
        return [asked[number] if one is None else one for number, one in enumerate(remembered)]

    def _remembered_ranks(self, number: int, query_numbers: Rows, rows: Rows) -> tuple[Events, Rows] | None:
        """Return the pairs of candidates that came along with them; None where those of some did not."""
        memory = self._memory
        if memory is None or number not in memory.foresights or not np.array_equal(memory.query_numbers, query_numbers):
            return None
        foresight = memory.foresights[number]
        events = foresight.events
        is_known, counts, chosen, least = _events_among(
            rows, foresight.rows, foresight.levels, events.start, events.utterance, _HIGHEST
        )
        if not is_known:
            return None
        query = np.repeat(np.arange(len(rows)), counts)
        order = np.lexsort((events.utterance_sha[chosen], events.response_sha[chosen], -events.level[chosen], query))
        start = np.concatenate([_ZERO, np.cumsum(counts)])
        return chosen_events(events, start, chosen[order]), least

    def levels(self, query_numbers: Rows, tables: Sequence[Rows]) -> list[Levels]:
        """Return the exact similarities of candidates."""
        return self._ask_shards(
            "levels",
            range(len(tables)),
            lambda places: (query_numbers, [tables[place] for place in places]),
            work=len(query_numbers),
            has_terms=True,
        )

    def pair_events(self, query_numbers: Rows, tables: Sequence[Rows], levels: Sequence[Levels]) -> list[Events]:
        """Compare the responses of candidates with the gold, and return pairs up to the k-th reference."""
        return self._ask_shards(
            "pair_events",
            range(len(tables)),
            lambda places: (query_numbers, [tables[place] for place in places], [levels[place] for place in places]),
            work=len(query_numbers),
            has_terms=True,
        )

    def texts(self, rows: Sequence[Rows]) -> list[searched_segments.Columns]:
        """Return what is shown of some pairs of each segment."""
        remembered = [self._remembered_texts(number, of_segment) for number, of_segment in enumerate(rows)]
        lacking = [number for number, one in enumerate(remembered) if one is None]
        answers = self._ask_shards(
            "texts", lacking, lambda places: ([rows[lacking[place]] for place in places],), work=1
        )
        asked = dict(zip(lacking, answers, strict=True))
        return [asked[number] if one is None else one for number, one in enumerate(remembered)]

    def _remembered_texts(self, number: int, rows: Rows) -> searched_segments.Columns | None:
        """Return texts that came along with candidates; None where some did not."""
        if not rows.size:
            return []
        memory = self._memory
        if memory is None or number not in memory.foresights:
            return None
        foresight = memory.foresights[number]
        known = {key: place for place, key in enumerate(zip(*foresight.text_rows.tolist(), strict=True))}
        wanted = [*zip(*rows.tolist(), strict=True)]
        if not known.keys() >= set(wanted):
            return None
        return [[column[known[key]] for key in wanted] for column in foresight.texts]

    # Asking

    def _ask_shards(
        self,
        method: str,
        numbers: Sequence[int],
        arguments: Callable[[list[int]], tuple[Any, ...]],
        *,
        work: int = 1,
        has_terms: bool = False,
    ) -> list[Any]:
        """Ask the shards of some segments at once, and return an answer for each segment in this order.

        `arguments` gets the places in the list of those that a shard has. ShardsMissing names the shards without a
        process that answers.
        """
        of_shard, terms = self._by_shard(numbers), (self._packed,) if has_terms else ()
        calls = [
            ActorCall(
                replicas=self._shards[shard].replicas,
                method="answer",
                arguments=(self._question(method, numbers, places, arguments(places)), *terms),
                work=max(1, work),
                kind=f"{method} {self._settings.mode}" if work <= FEW else "",
            )
            for shard, places in of_shard.items()
        ]
        answers = self._actors.call(calls) if calls else []
        self._require_all(list(of_shard), answers)
        placed: list[Any] = [None] * len(numbers)
        for places, of_shards in zip(of_shard.values(), answers, strict=True):
            for place, answer in zip(places, shard_server.MESSAGES.unpack(of_shards), strict=True):
                placed[place] = answer
        return placed

    def _question(
        self, method: str, numbers: Sequence[int], places: Sequence[int], arguments: tuple[Any, ...]
    ) -> bytes:
        """Return a question to one shard about some of its segments."""
        of_shard = [self._place_in_shard[self._numbers[numbers[place]]] for place in places]
        return shard_server.MESSAGES.pack((method, of_shard, *arguments))

    def _by_shard(self, numbers: Sequence[int]) -> Mapping[int, list[int]]:
        """Return for each shard which of these segments it has, as places in the list."""
        grouped = dict[int, list[int]]()
        for place, number in enumerate(numbers):
            grouped.setdefault(self._shard_of[self._numbers[number]], []).append(place)
        return grouped

    def _require_all(self, asked: Sequence[int], answers: Sequence[Any]) -> None:
        missing = [shard for shard, answer in zip(asked, answers, strict=True) if isinstance(answer, NoReplica)]
        if not missing:
            return
        why = next(answer.message for answer in answers if isinstance(answer, NoReplica))
        named = ", ".join(self._shards[shard].name for shard in missing)
        raise searched_segments.ShardsMissing(
            f"{len(missing)} of {len(self._shards)} shards do not answer: {named} ({why})",
            remedy='ask again in some seconds, since Ray starts them again; or with "partial": "allow", for what the '
            "other shards have",
            shards=[self._shards[shard].name for shard in missing],
        )


@compiled
def _events_among(
    rows: Rows, known_rows: Rows, known_levels: Levels, start: Rows, utterance: Rows, highest: int
) -> tuple[bool, Rows, Rows, Rows]:
    """Return the places of the events of candidates (queries, …), how many of each query, and their lowest levels.

    The first value says whether all candidates are among those whose events these are.
    """
    counts, least = np.zeros(len(rows), np.int64), np.full(len(rows), highest)
    chosen, used = np.empty(len(utterance), np.int64), 0
    for query in range(len(rows)):
        for candidate in rows[query]:
            if candidate < 0:
                continue
            is_known = False
            for place in range(known_rows.shape[1]):
                if known_rows[query, place] == candidate:
                    least[query], is_known = min(least[query], known_levels[query, place]), True
                    break
            if not is_known:
                return False, counts, chosen[:0], least
        for event in range(start[query], start[query + 1]):
            for candidate in rows[query]:
                if candidate == utterance[event]:
                    chosen[used] = event
                    used += 1
                    counts[query] += 1
                    break
    return True, counts, chosen[:used], least


_ZERO: Final = np.zeros(1, np.int64)
_HIGHEST: Final = int(searched_segments.least_of(np.zeros((1, 0), np.int64))[0])  # of no candidate
