"""Score replies against their references, independently of how commands print scores and the server answers.

Every reply is scored once; systems, levels, intervals and comparisons are all computed from the same statistics.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, TypeVar

import numpy as np

from refaug.core.errors import BadInput, TrainedOn, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, TRAINED_ON, Floats, Indexes, Level, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.models.model_scores import RatedReplies
from refaug.metrics.signature import Signature
from refaug.metrics.statistics.resampling import Estimate, approximate_randomisation, bootstrap, paired_bootstrap
from refaug.scoring.cases import (
    ENOUGH,
    NO_REPLY,
    Reply,
    ScoringSteps,
    bind_metric,
    leave_one_out,
    no_gold_error,
    problem_of,
    references_for,
    require_systems,
    require_texts_and_sources,
    scored_alone,
    trained_on_error,
)
from refaug.scoring.copies import copy_warning, reference_copy_warning
from refaug.scoring.items import BadItem
from refaug.scoring.provenance import Provenance
from refaug.scoring.scores import (
    BadMetric,
    Evaluation,
    MetricScores,
    SystemComparison,
    SystemScore,
    require_share,
)
from refaug.scoring.settings import Resampling, ScoreSettings, preset_of
from refaug.scoring.spooled_items.item_collection import ItemCollection, ReferencesDigest, blocks_of, evidence_by_id

_Noted = TypeVar("_Noted")
_LISTED: Final = 4  # systems that a warning names
_FIRST_ITEMS: Final = 100  # by which the script of all is told
# Letters of Thai, Lao, Burmese and Khmer, kana, and Han
_WITHOUT_SPACES: Final = re.compile("[\u0e01-\u0edf\u1000-\u109f\u1780-\u17b3\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def evaluate(
    items: Iterable[Item | BadItem],
    metrics: Sequence[Metric],
    settings: ScoreSettings | None = None,
    *,
    provenance: Provenance | None = None,
    progress: Progress | None = None,
    is_part: bool = False,
    reports_metrics: bool = False,
) -> Evaluation:
    """Score every system of a test file under every metric.

    `provenance` describes retrieval and rating, for the signatures of metrics that look at weighted references; without
    it, it is that of the items. With `reports_metrics` a metric that these references do not suit is left out and
    reported, unless none suits them. In a part of a test file (`is_part`) it is noted and computed, since references of
    other parts may suit it, and it is no error if no reply has a score, or there is none.
    """
    steps = evaluation_steps(
        items,
        metrics,
        settings or ScoreSettings(),
        provenance=provenance,
        progress=progress or Silent(),
        is_part=is_part,
        reports_metrics=reports_metrics,
    )
    return scored_alone(steps, progress)


def evaluation_steps(
    items: Iterable[Item | BadItem],
    metrics: Sequence[Metric],
    settings: ScoreSettings,
    *,
    provenance: Provenance | None,
    progress: Progress,
    is_part: bool,
    reports_metrics: bool,
) -> ScoringSteps[Evaluation]:
    """Do what `evaluate` does, in steps."""
    if settings.percent:
        require_share(metrics)
    collection = ItemCollection.of(items)
    collection.require_usable()
    usable = collection.items
    systems = list(collection.replies) if is_part else require_systems(collection.replies)
    require_baseline(settings.baseline, systems)
    if settings.require_passport:
        _require_passports(metrics)
    provenance = collection.provenance if provenance is None else provenance
    suitable, unsuitable = _suitable_metrics(metrics, collection, provenance, reports=reports_metrics, is_part=is_part)
    scores, unscored = list[MetricScores](), list[BadInput]()
    for metric in suitable:
        progress.stage(f"score {metric.name}", collection.replies.total(), "replies")
        scores.append((yield from _scores_by(metric, collection, systems, settings, provenance, progress)))
        if (error := unscored_error(scores[-1])) is not None:
            if isinstance(error, TrainedOn) and not is_part:
                raise error
            unscored.append(error)
    if len(unscored) == len(suitable) and not is_part:
        raise unscored[0]
    weighted = any(metric.info.uses is Uses.WEIGHTED for metric in metrics)
    copies, reply_provenance = collection.copies, collection.reply_provenance
    return Evaluation(
        scores=tuple(scores),
        **collection.hashes,
        items=len(usable),
        evidence=evidence_by_id(usable, collection.ids) if weighted else {},
        bad_items=collection.bad,
        bad_metrics=tuple(unsuitable),
        warnings=(
            *(error.message for error in unscored),
            *reply_warnings(len(usable), collection.replies, collection.empty_replies, metrics),
            *blank_warning(collection.blank_references),
            *clause_warning(usable, metrics),
            *copy_warning(copies),
            *reference_copy_warning(usable, reply_provenance),
            *(provenance.warnings if weighted else ()),
            *ignored_warning(collection.other_golds, metrics),
            *(thin_warning(collection.thin, len(usable)) if weighted else ()),
            *score_remarks(scores),
        ),
        settings=settings,
        copies=copies,
        reply_provenance=reply_provenance,
    )


def _suitable_metrics(
    metrics: Sequence[Metric], items: ItemCollection, provenance: Provenance, *, reports: bool, is_part: bool
) -> tuple[list[Metric], list[BadMetric]]:
    """Split metrics into those that the references suit and others; the first error, unless others are reported.

    Where no metric is suitable, that is an error in any case; but all metrics are computed in a part of a test file.
    """
    suitable, unsuitable, errors = list[Metric](), list[BadMetric](), list[BadInput]()
    for metric in metrics:
        try:
            if metric.info.uses is not Uses.WEIGHTED or not _was_searched(provenance):
                require_texts_and_sources(items.ids, items.sources, metric, has_text=items.has_text)
        except BadInput as error:
            errors.append(error)
            unsuitable.append(BadMetric(metric=metric.name, code=error.code, message=error.message))
        else:
            suitable.append(metric)
    if errors and not is_part and not (reports and suitable):
        raise errors[0]
    return list(metrics) if is_part else suitable, unsuitable


def _require_passports(metrics: Sequence[Metric]) -> None:
    """Refuse judges without a passport, and Usage where no metric is a judge."""
    members = [member for metric in metrics for member in metric.components]
    if not any(metric.info.asks(ModelKind.JUDGE) for metric in [*metrics, *members]):
        raise Usage("it has no effect without the metric judge", remedy="leave it out", field="require_passport")
    for metric in metrics:
        metric.require_passport()


def _was_searched(provenance: Provenance) -> bool:
    """Say whether references were searched for: where none are found, the gold alone is thin evidence."""
    return "mode" in provenance.settings


def signature_of(metric: Metric, provenance: Provenance | None = None) -> Signature:
    """Return the signature of a bound metric, with the provenance if it looks at weighted references.

    Usage where these were found by other vectors than the metric needs.
    """
    if provenance is None or metric.info.uses is not Uses.WEIGHTED:
        return Signature.of(metric)
    if (vectors := provenance.said.get("vectors")) is not None:
        metric.require_found_by(vectors)
    preset = preset_of(metric.info.name, metric.settings, provenance.said)
    named = {"preset": preset} if preset is not None else {}
    return Signature.of(metric, {**named, **provenance.settings}, provenance.details)


def require_baseline(baseline: str | None, systems: Sequence[str]) -> None:
    """Refuse a baseline that is none of the systems, or the only one."""
    if baseline is not None and baseline not in systems:
        raise Usage(f"no system is called {baseline!r}", remedy=f"one of: {', '.join(systems)}")
    if baseline is not None and len(systems) == 1:
        raise Usage(f"{baseline} is the only system", remedy="a comparison needs a second one")


def reply_warnings(
    items: int, replies: Mapping[str, int], empty: Mapping[str, int], metrics: Sequence[Metric]
) -> Iterator[str]:
    """Warn of the missing and the empty replies of each system, from how many replies and empty ones it has."""
    missing = {system: items - count for system, count in replies.items()}
    if lacking := [f"{system} ({count:,})" for system, count in missing.items() if count]:
        yield f"replies are missing (of {items:,}): {_list_systems(lacking)}; the scores are over those there are"
    if silent := [f"{system} ({empty[system]:,})" for system in replies if empty.get(system)]:
        least = "0, by a rater -1," if any(isinstance(metric, RatedReplies) for metric in metrics) else "0"
        yield f"empty replies, which score {least} or nothing at all: {_list_systems(silent)}"


def blank_warning(count: int) -> Iterator[str]:
    """Warn of empty references."""
    if count:
        yield f"empty references, which are left out: {count:,}"


def clause_warning(items: Iterable[Item], metrics: Sequence[Metric]) -> Iterator[str]:
    """Warn where words are those between spaces, and most letters of the first replies are of scripts without them."""
    if any(metric.settings.get("tok") == "word" for metric in metrics):
        texts = [text for test_item in islice(items, _FIRST_ITEMS) for text in test_item.replies.values()]
        letters = sum(map(str.isalpha, chain.from_iterable(texts)))
        if letters < 2 * sum(len(_WITHOUT_SPACES.findall(text)) for text in texts):
            yield "tok:word takes whole clauses for words where no spaces separate these: say the language (ja, th, zh)"


def ignored_warning(other: int, metrics: Sequence[Metric]) -> Iterator[str]:
    """Warn that some metrics do not look at the weights of so many golds."""
    rated = [metric.name for metric in metrics if metric.info.uses is Uses.RATED]
    if rated and other:
        yield f"{', '.join(rated)} takes every gold at weight 1; {other:,} have another weight, which upsilon- uses"


def thin_warning(thin: int, items: int) -> Iterator[str]:
    """Warn that so many of the items have few references of positive weight."""
    if thin:
        what = f"fewer than {ENOUGH} references of positive weight beside the gold"
        yield f"weighted scores have thin evidence for {thin:,} of {items:,} items: {what}"


def score_remarks(scores: Iterable[MetricScores]) -> Iterator[str]:
    """Yield what metrics have to say of the scores, each remark once."""
    remarks = dict[str, None]()
    for scored in scores:
        sums = np.zeros(len(scored.metric.columns))
        for system in scored.systems.values():
            sums += system.statistics[~np.isnan(system.statistics).any(axis=1)].sum(axis=0)
        remarks |= dict.fromkeys((*scored.metric.remarks(), *scored.metric.remarks_on(sums)))
    yield from remarks


def _list_systems(names: Sequence[str]) -> str:
    """Name the first systems and count the rest."""
    rest = f" and {len(names) - _LISTED:,} more systems" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + rest


def _scores_by(
    metric: Metric,
    collection: ItemCollection,
    systems: Sequence[str],
    settings: ScoreSettings,
    provenance: Provenance,
    progress: Progress,
) -> ScoringSteps[MetricScores]:
    """Score all replies of all systems by a metric.

    A missing reply is a row without a score. The texts of all items are in memory only where the metric looks at the
    set, or scores are to be explained.
    """
    ids, digest = collection.ids, ReferencesDigest()
    is_whole = settings.explain or metric.looks_at_set
    statistics, problems = np.empty((len(systems), len(ids), len(metric.columns))), dict[int, Problem]()
    for first, block in [(0, collection.items)] if is_whole else blocks_of(collection.items):
        chosen, by_system = list[References | Problem](), {system: list[Reply]() for system in systems}
        for test_item in block:
            chosen.append(references_for(metric, test_item.references, test_item.turns))
            digest.add(test_item.id, chosen[-1])
            for system, replies in by_system.items():
                replies.append(test_item.replies.get(system))
        replies = list(chain.from_iterable(by_system.values()))
        references = [problem_of(one, metric.info.uses) or one for one in chosen] * len(systems)
        if is_whole:
            metric = bind_metric(metric, chosen, replies, references)
        scored, unscored = yield metric, replies, references
        statistics[:, first : first + len(chosen)] = scored.reshape(len(systems), len(chosen), len(metric.columns))
        for row, problem in unscored.items():
            system_number, place = divmod(row, len(chosen))
            problems[system_number * len(ids) + first + place] = problem
    return metric_scores(
        metric,
        signature_of(metric, provenance),
        systems,
        ids,
        statistics,
        problems,
        settings,
        references=digest.name,
        explained=explanations(metric, statistics, replies, references, progress) if settings.explain else None,
    )


def unscored_error(scores: MetricScores) -> BadInput | None:
    """Return an error with the reasons where no reply of any system has a score, else None."""
    systems, metric = scores.systems.values(), scores.metric.name
    if not systems or not all(np.isnan(system.values).all() for system in systems):
        return None
    problems = [problem for system in systems for problem in system.problems.values()]
    codes = Counter(problem.code for problem in problems)
    if set(codes) - {NO_REPLY.code} == {NO_GOLD.code}:
        names = (
            system.ids[row]
            for system in systems
            for row, problem in system.problems.items()
            if problem.code == NO_GOLD.code
        )
        return no_gold_error(list(dict.fromkeys(names)), metric)
    if (error := trained_on_error(metric, codes, codes[TRAINED_ON.code])) is not None:
        return error
    reasons = Counter(problem.message for problem in problems)
    listed = "; ".join(f"{count:,} times {message}" for message, count in reasons.most_common(3))
    remedy = 'give every item its "utterance"' if set(codes) - {NO_REPLY.code} == {NO_UTTERANCE.code} else ""
    return BadInput(f"no reply has a score by {metric}: {listed}", remedy=remedy)


# ── From rows to systems ──────────────────────────────────────────────────────────────────────────────────────────


def metric_scores(
    metric: Metric,
    signature: Signature,
    systems: Sequence[str],
    ids: Sequence[str],
    statistics: Floats,
    problems: Mapping[int, Problem],
    settings: Resampling,
    *,
    references: str = "",
    places: Indexes | None = None,
    explained: Mapping[int, Mapping[str, Any]] | None = None,
) -> MetricScores:
    """Return systems with their replies, intervals and comparisons, of replies that were scored system by system.

    Every system has the same rows, in which NaN is no score: row i is a reply to the item `ids[i]`. An item may have
    several rows: then `places` says where it stands among all items (−1: of no item). Sums are taken in that order,
    whatever the order of the rows. Resampling draws items, not rows, since replies to one item are not independent.
    Problems and explanations are by system · rows + row.
    """
    statistics = statistics.reshape(len(systems), len(ids), len(metric.columns))
    values = metric.values(statistics, Level.REPLY)
    if places is not None and np.all(places[:1] >= 0) and np.all(np.diff(places) > 0):
        places = None
    intervals, comparisons = dict[str, tuple[Estimate, Estimate]](), dict[str, SystemComparison]()
    if settings.draws:
        intervals, comparisons = _resampled(metric, systems, statistics, values, places, settings)
    problems_of, explained_of = _by_system(problems, len(ids)), _by_system(explained or {}, len(ids))
    of_systems = {
        name: _system_score(
            metric,
            ids,
            statistics[number],
            values[number],
            places,
            problems_of[number],
            explained_of[number],
            intervals.get(name, (_NO_INTERVAL, _NO_INTERVAL)),
        )
        for number, name in enumerate(systems)
    }
    return MetricScores(
        metric=metric, signature=signature, references=references, systems=of_systems, comparisons=comparisons
    )


_NO_INTERVAL: Final = Estimate(why="no interval was asked for")


def _by_system(by_row: Mapping[int, _Noted], count: int) -> defaultdict[int, dict[int, _Noted]]:
    """Return what was noted of rows by the number of the system, and its row, in order."""
    by_system = defaultdict[int, dict[int, _Noted]](dict)
    for row, noted in sorted(by_row.items(), key=itemgetter(0)):
        by_system[row // count][row % count] = noted
    return by_system


def _system_score(
    metric: Metric,
    ids: Sequence[str],
    statistics: Floats,
    values: Floats,
    places: Indexes | None,
    problems: Mapping[int, Problem],
    explained: Mapping[int, Mapping[str, Any]],
    intervals: tuple[Estimate, Estimate],
) -> SystemScore:
    order = slice(None) if places is None else _order(statistics, places)
    in_order, scores = statistics[order], values[order]
    has_score = ~np.isnan(in_order).any(axis=1)
    sums, any_score = in_order[has_score].sum(axis=0), bool(has_score.any())
    return SystemScore(
        corpus=float(metric.values(sums, Level.CORPUS)) if any_score else None,
        interval=intervals[0],
        mean=float(np.mean(scores[has_score])) if any_score else None,
        mean_interval=intervals[1],
        unscored=dict(Counter(problem.code for problem in problems.values())),
        parts=metric.parts(sums, Level.CORPUS) if any_score else None,
        ids=ids,
        statistics=statistics,
        values=values,
        problems=problems,
        metric=metric,
        explanations=explained,
    )


def _order(statistics: Floats, places: Indexes) -> Indexes:
    """Return the rows by item, and within an item by content: the last bit of a sum depends on its order."""
    return np.lexsort((*statistics.T[::-1], places))


def _resampled(
    metric: Metric,
    systems: Sequence[str],
    statistics: Floats,
    values: Floats,
    places: Indexes | None,
    settings: Resampling,
) -> tuple[dict[str, tuple[Estimate, Estimate]], dict[str, SystemComparison]]:
    """Return the intervals of corpus score and mean for each system, and its comparison with the baseline, if any.

    Rows of no item are not drawn; those of an item are drawn together.
    """
    clusters = None
    if places is not None:
        order = _order(np.hstack(list(statistics)), places)
        order = order[places[order] >= 0]
        statistics, values, clusters = statistics[:, order], values[:, order], places[order]
    rows, draws, seed = dict(zip(systems, statistics, strict=True)), settings.draws, settings.seed
    level, value_of = settings.confidence, metric.value_of_sums
    intervals, comparisons = dict[str, tuple[Estimate, Estimate]](), dict[str, SystemComparison]()
    if statistics.shape[1]:
        counted = np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=-1)  # so that sums give the mean
        means = dict(zip(systems, counted, strict=True))
        of_corpus = bootstrap(rows, value_of, draws=draws, seed=seed, level=level, clusters=clusters)
        of_mean = bootstrap(means, _mean_of_sums, draws=draws, seed=seed, level=level, clusters=clusters)
        intervals = {name: (of_corpus[name].score, of_mean[name].score) for name in systems}
    if (baseline := settings.baseline) is not None:
        differences = paired_bootstrap(rows, value_of, baseline, draws=draws, seed=seed, level=level, clusters=clusters)
        permuted = approximate_randomisation(rows, value_of, baseline, trials=draws, seed=seed, clusters=clusters)
        comparisons = {
            name: SystemComparison(bootstrap=differences[name], randomisation=permuted[name]) for name in differences
        }
    return intervals, comparisons


def _mean_of_sums(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


# ── Explanations ──────────────────────────────────────────────────────────────────────────────────────────────────


def explanations(
    metric: Metric,
    statistics: Floats,
    replies: Sequence[Reply],
    references: Sequence[References | Problem],
    progress: Progress | None = None,
) -> dict[int, Mapping[str, Any]]:
    """Explain each row: its parts, the worth of each reference to it, and the n-grams or words that match in it."""
    rows = statistics.reshape(-1, len(metric.columns))
    values = metric.values(rows, Level.REPLY).tolist()
    explained = dict[int, Mapping[str, Any]]()
    for row, fewer in leave_one_out(metric, replies, references, progress).items():
        reply, of_reply = replies[row], references[row]
        assert isinstance(reply, str), "the others cannot be scored"
        assert isinstance(of_reply, References), "the others cannot be scored"
        parts = {
            "words": metric.words_of(reply),
            "credited": metric.credits(reply, of_reply),
            "matched": metric.matches(reply, of_reply),
            "combination": None if np.isnan(values[row]) else metric.combination(reply, of_reply, rows[row]),
            "likenesses": metric.likenesses(reply, of_reply),
            "reasons": metric.reasons(reply, of_reply),
        }
        explained[row] = {
            **{name: part for name, part in parts.items() if part is not None},
            "without_reference": _without(of_reply, fewer, values[row]),
        }
    return explained


def _without(references: References, scores: Sequence[float | None], score: float) -> list[dict[str, Any]]:
    rows = zip(references.texts, references.weights, scores, strict=True)
    return [
        {"reference": place, "text": text, "weight": weight, "score": without, "change": _change(without, score)}
        for place, (text, weight, without) in enumerate(rows)
    ]


def _change(without: float | None, score: float) -> float | None:
    return None if without is None or np.isnan(score) else without - score
