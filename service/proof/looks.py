"""What a way to look for references finds: how much, how good by the rater, how unlike the default, at what cost.

Counts and shares alone, never a text: the logs and sets are other people's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, Final

import numpy as np

from core.records import Item
from indexer.queries import Mode, SearchSettings
from rater.rate import Candidate, Rater, ToRate
from service.cases import ENOUGH
from service.pages import Table
from service.proof.chain import Chain
from service.proof.conditions import K, mean_over_items, means, shares_above
from service.proof.figures import Figure
from service.proof.references import MATCHED, Pool
from service.proof.report import Section, cell, short, verdict
from service.proof.sets import ProofSet
from service.retrieval import open_index

_TIMED: Final = 3  # searches of the same items, after a first one that reads what the index has on disk


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a way finds for a set."""

    items: int
    lacking: int  # items with fewer than k references
    thin: int  # items with fewer than three that the rater puts above 0
    references: Figure  # an item
    above: Figure  # the share of references that the rater puts above 0
    above_matched: Figure  # the same of random replies as long as those
    above_less_matched: Figure
    rating: Figure
    shared: Figure  # the share of texts that the default way has as well
    seconds: Figure  # for 100 items, without rating

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: one.as_json() if isinstance(one, Figure) else one for name, one in values.items()}


def look(chain: Chain, one: ProofSet, pool: Pool, usual: Pool, rater: Rater, seconds: Figure) -> Look:
    """Count what is in a pool, beside that of the default way."""
    tops = [some[:K] for some in pool.retrieved]
    counts = np.array([len(top) for top in tops], dtype=np.float64)
    ratings = [[reference.rating or 0.0 for reference in top] for top in tops]
    above, matched = shares_above(ratings), shares_above(ratings_of_matched(one, pool, rater))
    others = [{reference.text for reference in some[:K]} for some in usual.retrieved]
    shared = means(
        [[float(reference.text in texts) for reference in top] for top, texts in zip(tops, others, strict=True)]
    )
    draws, seed = chain.settings.draws, chain.settings.seed
    return Look(
        items=len(tops),
        lacking=int((counts < K).sum()),
        thin=sum(1 for own in ratings if sum(rating > 0 for rating in own) < ENOUGH),
        references=mean_over_items(counts, draws, seed),
        above=mean_over_items(above, draws, seed),
        above_matched=mean_over_items(matched, draws, seed),
        above_less_matched=mean_over_items(above - matched, draws, seed),
        rating=mean_over_items(means(ratings), draws, seed),
        shared=mean_over_items(shared, draws, seed),
        seconds=seconds,
    )


def ratings_of_matched(one: ProofSet, pool: Pool, rater: Rater) -> list[list[float]]:
    """What the rater says of random replies, as many and as long as those that were retrieved."""
    drawn = pool.extras(MATCHED, k=K, parrot=False)
    asked, places = list[ToRate](), list[int]()
    for place, (item, some) in enumerate(zip(one.items, drawn, strict=True)):
        gold, utterance = item.pair.gold, item.pair.utterance
        if some and gold is not None and gold.text.strip() and utterance is not None and utterance.strip():
            candidates = tuple(Candidate(text=reference.text) for reference in some)
            asked.append(ToRate(utterance=utterance, golds=(gold.text,), candidates=candidates))
            places.append(place)
    found = [list[float]() for _ in one.items]
    for place, ratings in zip(places, rater.rate(asked), strict=True):
        found[place] = ratings
    return found


def seconds_of(chain: Chain, index: str, mode: Mode, items: Sequence[Item]) -> Figure:
    """What looking for 100 items takes: the middle one of several times, with the least and the most."""
    pairs, asked, moments = [item.pair for item in items], SearchSettings(k=K, mode=mode), list[float]()
    with open_index(chain.home, index, threads=chain.settings.threads) as opened:
        opened.search(pairs, asked)
        for _ in range(_TIMED):
            moments.append(perf_counter())
            opened.search(pairs, asked)
        moments.append(perf_counter())
    taken = sorted(100 * (after - before) / len(pairs) for before, after in pairwise(moments))
    return Figure(value=taken[len(taken) // 2], low=taken[0], high=taken[-1])


# ── in words ──────────────────────────────────────────────────────────────────────────────────────────────────────

Looks = Mapping[str, Mapping[str, Look]]  # set → way → what it finds


def looks_section(looks: Looks) -> Section:
    """A table for each set."""
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
        f"seconds without rating: the middle one of {_TIMED} times, with the least and the most",
    )
    tables = [
        Table(
            title=f"{name}: what each way finds",
            columns=columns,
            rows=[_row(way, one) for way, one in by.items()],
            notes=notes,
        )
        for name, by in looks.items()
    ]
    return Section(title="What is found", text=list(_in_words(looks)), tables=tables)


def _row(way: str, one: Look) -> list[str]:
    figures = (one.above, one.above_matched, one.above_less_matched, one.rating)
    return [
        way,
        cell(one.references),
        f"{one.lacking:,} of {one.items:,}",
        *map(cell, figures),
        f"{one.thin:,} of {one.items:,}",
        cell(one.shared),
        cell(one.seconds),
    ]


def _in_words(looks: Looks) -> Iterator[str]:
    for name, by in looks.items():
        values = {way: one.above.value for way, one in by.items() if one.above.value is not None}
        if not values:
            yield f"{name}: no reference was rated."
            continue
        most, least = max(values, key=lambda way: values[way]), min(values, key=lambda way: values[way])
        shown = sum(1 for one in by.values() if verdict([one.above_less_matched]) == "shown")
        yield (
            f"{name}: the rater puts a share of {short(values[least])} ({least}) to {short(values[most])} ({most}) of "
            f"what is found above 0; more than of random replies as long: shown for {shown} of {len(by)} ways."
        )


def lacking(looks: Looks) -> Iterator[str]:
    """Ways that leave many items without the references that they should have."""
    for name, by in looks.items():
        for way, one in by.items():
            if one.lacking > one.items / 2:
                yield f"{name}, {way}: {one.lacking:,} of {one.items:,} items have fewer than {K} references"
