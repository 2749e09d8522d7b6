"""`reproduce retrieval-modes`: which way of retrieval serves metrics best, each beside its own controls.

The ways are the four modes that the υBLEU paper compares, and for vectors how words become a sentence. All ways have
equally many references. The random replies of a way are as long as the replies that it retrieves, so that a way that
prefers short replies has short controls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from time import perf_counter
from typing import Final

import numpy as np

from refaug.core.records import Item, Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reports.html_page import Table
from refaug.evaluation.reports.plotting import Plot
from refaug.evaluation.reproduction.experiments import conditions
from refaug.evaluation.reproduction.experiments.conditions import K, item_means, mean_over_items, shares_above_zero
from refaug.evaluation.reproduction.figures.correlations import Correlations, IntervalEstimate, Line, correlate
from refaug.evaluation.reproduction.material.chain import Chain, IndexRecipe
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_coverage import sets_with_references
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, ONE, RATED, SHUFFLED, Pool, line_of
from refaug.evaluation.reproduction.report import report
from refaug.evaluation.reproduction.report.plots import bars
from refaug.evaluation.reproduction.report.report import Section, cell, short, verdict
from refaug.evaluation.scoring.cases import ENOUGH
from refaug.indexer.search.search_settings import Mode, SearchSettings
from refaug.metrics.statistics.correlation import PARTIAL
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


_CLAIMS: Final = {  # name of the difference → minuend and subtrahend
    "rated less gold alone": (RATED, conditions.GOLD_ALONE),
    "one less gold alone": (ONE, conditions.GOLD_ALONE),
    "rated less matched random": (RATED, MATCHED),
    "one less matched random": (ONE, MATCHED),
    "rated less shuffled": (RATED, SHUFFLED),
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """A mode of retrieval, and for vectors how word vectors become the vector of a sentence."""

    name: str
    mode: Mode
    weighting: str = "sif"
    norm_words: bool = True

    @property
    def about(self) -> str:
        """Describe the way in words."""
        if self.mode.startswith("bm25"):
            return f"{conditions.K} references by {self.mode}"
        scaled = "scaled to one length" if self.norm_words else "as long as they are"
        return f"{conditions.K} references by {self.mode}; a sentence is the {self.weighting} of word vectors {scaled}"

    def index(self, chain: Chain) -> str:
        """Build the index of the everyday logs that the way needs."""
        if self.weighting == "sif" and self.norm_words:
            return chain.main_index()
        name = f"proof-{self.weighting}{'' if self.norm_words else '-raw'}"
        recipe = IndexRecipe(name=name, selections=chain.everyday, weighting=self.weighting, norm_words=self.norm_words)
        return chain.index(recipe)


MODES: Final = (
    Way(name="embedding-utterance", mode="embedding-utterance"),
    Way(name="embedding-dialog", mode="embedding-dialog"),
    Way(name="bm25-utterance", mode="bm25-utterance"),
    Way(name="bm25-dialog", mode="bm25-dialog"),
)
DEFAULT: Final = MODES[0]
WAYS: Final = (
    *MODES,
    Way(name="embedding-utterance, plain mean", mode="embedding-utterance", weighting="mean"),
    Way(name="embedding-dialog, plain mean", mode="embedding-dialog", weighting="mean"),
    Way(name="embedding-utterance, sif, words not scaled", mode="embedding-utterance", norm_words=False),
    Way(
        name="embedding-utterance, plain mean, words not scaled",
        mode="embedding-utterance",
        weighting="mean",
        norm_words=False,
    ),
)


def retrieval_modes(chain: Chain, sets: Sequence[ProofSet], ways: Sequence[Way] = WAYS) -> report.Report:
    """Report on all ways, the default among them, with all metrics: what each finds, and what it costs."""
    usable_sets, gaps = sets_with_references(chain, sets)
    single, settings, rater = [rated_set.with_first_gold() for rated_set in usable_sets], chain.settings, chain.rater()
    indexes = {way.name: way.index(chain) for way in ways}
    pools = {way.name: conditions.pools_of(chain, single, indexes[way.name], rater, way.mode) for way in ways}
    by_metric, lines = dict[str, Correlations](), list[Line]()
    for name, metric in conditions.build_metrics(chain).items():
        chain.progress.stage(f"scoring with {name}", None, "scorings")
        lines = [line_of(conditions.GOLD_ALONE, single, metric, about="the first gold of each item, and nothing else")]
        for way in ways:
            lines += conditions.lines_on(chain, way.name, single, pools[way.name], metric, about=way.about)
        by_metric[name] = correlate(single, lines, kinds=conditions.KINDS, draws=settings.draws, seed=settings.seed)
    profiles = {
        rated_set.name: {
            way.name: profile_retrieval(
                chain,
                rated_set,
                pools[way.name][rated_set.name],
                pools[DEFAULT.name][rated_set.name],
                rater,
                time_searches(chain, indexes[way.name], way.mode, rated_set.items),
            )
            for way in ways
        }
        for rated_set in single
    }
    return report.Report(
        name="retrieval-modes",
        title="Ways to look for references",
        summary=[
            best_mode_overall(by_metric),
            best_mode_overall(by_metric, ONE),
            *_claims_over_all(by_metric, ways),
            *_vectors_in_words(by_metric, ways),
        ],
        sections=[
            *(_section(name, correlations, ways) for name, correlations in by_metric.items()),
            profiles_section(profiles),
            report.Section(
                title="What was scored",
                text=["The dialog modes look at the gold as well: they find replies like it to utterances like that."],
                tables=[report.about_table(lines)],
            ),
        ],
        notes=[
            *gaps,
            *(f"{rated_set.name}: {note}" for rated_set in usable_sets for note in rated_set.notes),
            *lacking_references(profiles),
        ],
        data={
            "k": conditions.K,
            "ways": [asdict(way) for way in ways],
            "agreement": {name: correlations.as_json(conditions.KINDS) for name, correlations in by_metric.items()},
            "differences": {
                name: conditions.differences_json(_differences(correlations, ways))
                for name, correlations in by_metric.items()
            },
            "best": {
                weights: {
                    name: {kind: best_mode(correlations, kind, weights).as_json() for kind in conditions.KINDS}
                    for name, correlations in by_metric.items()
                }
                for weights in (RATED, ONE)
            },
            "found": {
                name: {way: profile.as_json() for way, profile in by_way.items()} for name, by_way in profiles.items()
            },
        },
    )


# ── which is best ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class BestMode:
    """The mode with the highest correlation, the next one, their difference, and how often each mode leads."""

    mode: str
    following: str
    figure: IntervalEstimate
    ahead: IntervalEstimate
    over_default: IntervalEstimate
    leads: Mapping[str, float]

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON."""
        return {
            "mode": self.mode,
            "next": self.following,
            "figure": self.figure.as_json(),
            "ahead_of_next": self.ahead.as_json(),
            "ahead_of_default": self.over_default.as_json(),
            "leads_in_draws": {name: round(share, 4) for name, share in self.leads.items()},
        }


def best_mode(correlations: Correlations, kind: str, weights: str = RATED) -> BestMode:
    """Return the best of the four modes, with references that are rated or that have weight 1."""
    names, scope = (
        [way.name for way in MODES if conditions.line_name(way.name, weights) in correlations.names],
        conditions.main_scope(correlations),
    )
    estimates = {name: correlations.estimate(conditions.line_name(name, weights), kind, scope) for name in names}
    ranked = sorted(names, key=lambda name: -_or_lowest(estimates[name].value))
    best, following = ranked[0], ranked[min(1, len(ranked) - 1)]
    places = [correlations.names.index(conditions.line_name(name, weights)) for name in names]
    drawn = np.nan_to_num(correlations.drawn[kind, scope][places], nan=-1.0)
    leads = np.bincount(drawn.argmax(axis=0), minlength=len(names)) / drawn.shape[1]
    return BestMode(
        mode=best,
        following=following,
        figure=estimates[best],
        ahead=correlations.difference(
            conditions.line_name(best, weights), conditions.line_name(following, weights), kind, scope
        ),
        over_default=correlations.difference(
            conditions.line_name(best, weights), conditions.line_name(DEFAULT.name, weights), kind, scope
        ),
        leads=dict(zip(names, leads.tolist(), strict=True)),
    )


def _or_lowest(correlation: float | None) -> float:
    return -1.0 if correlation is None else correlation


def best_mode_overall(by_metric: Mapping[str, Correlations], weights: str = RATED) -> str:
    """Say which mode wins most often over metrics and correlations, and how often surely."""
    bests = [best_mode(correlations, kind, weights) for correlations in by_metric.values() for kind in conditions.KINDS]
    wins = Counter(best.mode for best in bests)
    [(mode, count)] = wins.most_common(1)
    won = [best for best in bests if best.mode == mode]
    ahead = sum(1 for best in won if conditions.is_sure(best.ahead))
    text = (
        f"Of the modes, references {conditions.KIND_LABELS[weights]}, {mode} has the most in {count} of "
        f"{len(bests)} comparisons "
        f"(metrics and correlations), and is surely ahead of the next one in {ahead} of them"
    )
    if mode != DEFAULT.name:
        text += f", surely better than the default in {sum(1 for best in won if conditions.is_sure(best.over_default))}"
    return f"{text}. The best of several looks better on the sets that it was chosen on than it is."


def _best_in_words(name: str, correlations: Correlations) -> Iterator[str]:
    for kind in conditions.KINDS:
        best = best_mode(correlations, kind)
        surely = "surely" if conditions.is_sure(best.ahead) else "not surely"
        yield (
            f"{name}, {report.IN_WORDS[kind]}, {conditions.main_scope_in_words(correlations)}: with rated "
            f"references {best.mode} has "
            f"the most of the modes, {report.cell(best.figure)}, {surely} ahead of {best.following} "
            f"({report.cell(best.ahead)}); "
            f"it leads in {100 * best.leads[best.mode]:.0f} % of the draws. {_beside_default(best)}"
        )


def _beside_default(best: BestMode) -> str:
    if best.mode == DEFAULT.name:
        return "It is the default."
    shown = "is better than" if conditions.is_sure(best.over_default) else "is not shown to be better than"
    return f"It {shown} the default, {DEFAULT.name} ({report.cell(best.over_default)})."


def _vectors_in_words(by_metric: Mapping[str, Correlations], ways: Sequence[Way]) -> Iterator[str]:
    """Compare how words become a sentence, where everything else is equal."""
    ways_by_mode = {way.mode: way for way in ways if way in MODES}
    for other in ways:
        if other in MODES or other.mode not in ways_by_mode:
            continue
        same = ways_by_mode[other.mode]
        estimates = {
            name: correlations.difference(
                conditions.line_name(other.name, RATED),
                conditions.line_name(same.name, RATED),
                PARTIAL,
                conditions.main_scope(correlations),
            )
            for name, correlations in by_metric.items()
        }
        texts = [
            f"{name} {report.cell(estimate)}, {'sure' if conditions.is_sure(estimate) else 'not sure'}"
            for name, estimate in estimates.items()
        ]
        yield f"{other.name} less {same.name}, partial Spearman with rated references: {'; '.join(texts)}."


# ── tables and plots ──────────────────────────────────────────────────────────────────────────────────────────────────


def _section(name: str, correlations: Correlations, ways: Sequence[Way]) -> report.Section:
    differences = _differences(correlations, ways)
    return report.Section(
        title=name,
        text=[*_best_in_words(name, correlations), *_claims_in_words(correlations, differences)],
        tables=[
            report.agreement_table(correlations, f"{name}: agreement with people", baseline=conditions.GOLD_ALONE),
            conditions.differences_table(
                f"{name}: what each way has over its controls and over the default", correlations, differences
            ),
        ],
        plots=[_plot(name, correlations, ways, kind) for kind in conditions.KINDS],
    )


def _differences(correlations: Correlations, ways: Sequence[Way]) -> conditions.Differences:
    """Return the difference of each way to its controls, to the gold alone, and to the default way."""
    return {
        way.name: {
            **{
                label: conditions.differences_between(
                    correlations,
                    conditions.line_name(way.name, kind),
                    other if other == conditions.GOLD_ALONE else conditions.line_name(way.name, other),
                )
                for label, (kind, other) in _CLAIMS.items()
            },
            **{
                f"{kind} less the default way": conditions.differences_between(
                    correlations, conditions.line_name(way.name, kind), conditions.line_name(DEFAULT.name, kind)
                )
                for kind in (RATED, ONE)
            },
        }
        for way in ways
    }


def _claims_in_words(correlations: Correlations, differences: conditions.Differences) -> Iterator[str]:
    """Yield for how many ways each claim holds."""
    for label in _CLAIMS:
        for kind in conditions.KINDS:
            verdicts = {
                way: report.verdict([own[label][kind][conditions.main_scope(correlations)]])
                for way, own in differences.items()
            }
            shown = [way for way, outcome in verdicts.items() if outcome == "shown"]
            refuted = [way for way, outcome in verdicts.items() if outcome == "refuted"]
            text = f"{label}, {report.IN_WORDS[kind]}: shown for {len(shown)} of {len(differences)} ways"
            text += f" ({'; '.join(shown)})" if shown and len(shown) < len(differences) else ""
            yield text + (f"; refuted for {'; '.join(refuted)}." if refuted else ".")


def _claims_over_all(by_metric: Mapping[str, Correlations], ways: Sequence[Way]) -> Iterator[str]:
    """Yield in how many of all comparisons each claim holds."""
    tables = {name: _differences(correlations, ways) for name, correlations in by_metric.items()}
    for label in _CLAIMS:
        for kind in conditions.KINDS:
            verdicts = [
                report.verdict([own[label][kind][conditions.main_scope(by_metric[name])]])
                for name, by in tables.items()
                for own in by.values()
            ]
            yield (
                f"{label}, {report.IN_WORDS[kind]}, {len(ways)} ways with {len(by_metric)} metrics: shown in "
                f"{verdicts.count('shown')} of {len(verdicts)}, refuted in {verdicts.count('refuted')}."
            )


def _plot(name: str, correlations: Correlations, ways: Sequence[Way], kind: str) -> Plot:
    shown, scope = (
        [(way.name, reference_kind) for way in ways for reference_kind in conditions.ALL],
        conditions.main_scope(correlations),
    )
    return bars(
        f"modes-{conditions.NUMBERS[name]}-{kind}.png",
        f"{name}: {report.IN_WORDS[kind]} with the mean rating {conditions.main_scope_in_words(correlations)}, "
        "95 % intervals; "
        "the broken line: gold alone",
        [way for way, _ in shown],
        [
            correlations.estimate(conditions.line_name(way, reference_kind), kind, scope)
            for way, reference_kind in shown
        ],
        groups=[conditions.KIND_LABELS[reference_kind] for _, reference_kind in shown],
        title=f"{name}, {conditions.main_scope_in_words(correlations)}",
        x_label=report.IN_WORDS[kind],
        baseline=correlations.estimate(conditions.GOLD_ALONE, kind, scope),
        baseline_name=conditions.GOLD_ALONE,
    )
