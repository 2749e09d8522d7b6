"""Profiles of the ways to retrieve references: how many they find, how good, how unlike the default, at what cost.

Profiles hold counts and shares, never a text: the logs and sets belong to other people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Final

import numpy as np

from refaug.core.records import Item, Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reproduction.experiments.conditions import K, item_means, mean_over_items, shares_above_zero
from refaug.evaluation.reproduction.figures.correlations import IntervalEstimate
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, Pool
from refaug.evaluation.reproduction.report.report import Section, cell, short, verdict
from refaug.evaluation.scoring.cases import ENOUGH
from refaug.indexer.search.search_settings import Mode, SearchSettings
from refaug.rater.rating import Rater, RatingRequest

_TIMED_SEARCHES: Final = 3  # searches of the same items, after a first one that reads the index from disk


@dataclass(frozen=True, kw_only=True)
class RetrievalProfile:
    """What one way of retrieval finds for a set."""

    items: int
    lacking: int  # items with fewer than k references
    thin: int  # items with fewer than three that the rater puts above 0
    references: IntervalEstimate  # an item
    above: IntervalEstimate  # the share of references that the rater puts above 0
    above_matched: IntervalEstimate  # the same share of random replies of equal length
    above_less_matched: IntervalEstimate
    rating: IntervalEstimate
    shared: IntervalEstimate  # the share of texts that the default way has as well
    seconds: IntervalEstimate  # for 100 items, without rating

    def as_json(self) -> dict[str, object]:
        """Return the profile as JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: measurement.as_json() if isinstance(measurement, IntervalEstimate) else measurement
            for name, measurement in values.items()
        }


def profile_retrieval(
    chain: Chain, rated_set: ProofSet, pool: Pool, usual: Pool, rater: Rater, seconds: IntervalEstimate
) -> RetrievalProfile:
    """Profile a pool beside the pool of the default way."""
    tops = [references[:K] for references in pool.retrieved]
    counts = np.array([len(top) for top in tops], dtype=np.float64)
    ratings = [[reference.rating or 0.0 for reference in top] for top in tops]
    above, matched = shares_above_zero(ratings), shares_above_zero(ratings_of_matched(rated_set, pool, rater))
    usual_texts = [{reference.text for reference in references[:K]} for references in usual.retrieved]
    shared = item_means(
        [[float(reference.text in texts) for reference in top] for top, texts in zip(tops, usual_texts, strict=True)]
    )
    draws, seed = chain.settings.draws, chain.settings.seed
    return RetrievalProfile(
        items=len(tops),
        lacking=int((counts < K).sum()),
        thin=sum(1 for item_ratings in ratings if sum(rating > 0 for rating in item_ratings) < ENOUGH),
        references=mean_over_items(counts, draws, seed),
        above=mean_over_items(above, draws, seed),
        above_matched=mean_over_items(matched, draws, seed),
        above_less_matched=mean_over_items(above - matched, draws, seed),
        rating=mean_over_items(item_means(ratings), draws, seed),
        shared=mean_over_items(shared, draws, seed),
        seconds=seconds,
    )


def ratings_of_matched(rated_set: ProofSet, pool: Pool, rater: Rater) -> list[list[float]]:
    """Return the rater's ratings of random replies, as many and as long as the retrieved ones."""
    drawn = pool.extras(MATCHED, k=K, parrot=False)
    requests, places = list[RatingRequest](), list[int]()
    for place, (test_item, references) in enumerate(zip(rated_set.items, drawn, strict=True)):
        gold, utterance = test_item.gold, test_item.utterance
        if references and gold is not None and gold.text.strip() and utterance is not None and utterance.strip():
            candidates = tuple(Reference(text=reference.text) for reference in references)
            requests.append(RatingRequest(utterance=utterance, golds=(gold.text,), candidates=candidates))
            places.append(place)
    ratings_by_item = [list[float]() for _ in rated_set.items]
    for place, ratings in zip(places, rater.rate(requests), strict=True):
        ratings_by_item[place] = ratings
    return ratings_by_item


def time_searches(chain: Chain, index: str, mode: Mode, items: Sequence[Item]) -> IntervalEstimate:
    """Return the seconds that a search for 100 items takes: the median of several runs, with the least and the most."""
    settings, moments = SearchSettings(k=K, mode=mode), list[float]()
    with open_index(chain.home, index, threads=chain.settings.threads) as opened:
        opened.search(items, settings)
        for _ in range(_TIMED_SEARCHES):
            moments.append(perf_counter())
            opened.search(items, settings)
        moments.append(perf_counter())
    seconds = sorted(100 * (after - before) / len(items) for before, after in pairwise(moments))
    return IntervalEstimate(value=seconds[len(seconds) // 2], low=seconds[0], high=seconds[-1])


# ── in words ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Profiles = Mapping[str, Mapping[str, RetrievalProfile]]  # set → way → profile


def profiles_section(profiles: Profiles) -> Section:
    """Return the section with a table for each set."""
    columns = (
        "",
        "references an item",
        f"items with fewer than {K}",
        "above 0 by the rater",
        "random of that length above 0",
        "difference",
        "mean rating",
        f"items with fewer than {ENOUGH} above 0",
        "shared with the default way",
        "seconds for 100 items",
    )
    notes = (
        "shares and means over items with 95 % intervals over draws of items",
        f"seconds without rating: the middle one of {_TIMED_SEARCHES} times, with the least and the most",
    )
    tables = [
        Table(
            title=f"{name}: what each way finds",
            columns=columns,
            rows=[_row(way, profile) for way, profile in by_way.items()],
            notes=notes,
        )
        for name, by_way in profiles.items()
    ]
    return Section(title="What is found", text=list(_in_words(profiles)), tables=tables)


def _row(way: str, profile: RetrievalProfile) -> list[str]:
    estimates = (profile.above, profile.above_matched, profile.above_less_matched, profile.rating)
    return [
        way,
        cell(profile.references),
        f"{profile.lacking:,} of {profile.items:,}",
        *map(cell, estimates),
        f"{profile.thin:,} of {profile.items:,}",
        cell(profile.shared),
        cell(profile.seconds),
    ]


def _in_words(profiles: Profiles) -> Iterator[str]:
    for name, by_way in profiles.items():
        values = {way: profile.above.value for way, profile in by_way.items() if profile.above.value is not None}
        if not values:
            yield f"{name}: no reference was rated."
            continue
        most, least = max(values, key=lambda way: values[way]), min(values, key=lambda way: values[way])
        shown = sum(1 for profile in by_way.values() if verdict([profile.above_less_matched]) == "shown")
        yield (
            f"{name}: the rater puts a share of {short(values[least])} ({least}) to {short(values[most])} ({most}) of "
            f"what is found above 0; more than of random replies as long: shown for {shown} of {len(by_way)} ways."
        )


def lacking_references(profiles: Profiles) -> Iterator[str]:
    """Yield the ways that leave many items without enough references."""
    for name, by_way in profiles.items():
        for way, profile in by_way.items():
            if profile.lacking > profile.items / 2:
                yield f"{name}, {way}: {profile.lacking:,} of {profile.items:,} items have fewer than {K} references"
