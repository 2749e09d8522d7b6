"""Measure what counts as 0 and 1 of the parts of `ruber` with `norm=log`: two percentiles of their scores on a log.

The pairs are drawn from the log that an index was built from (`refaug.scoring.metric_setup.log_sample`). A part is
measured once and its
percentiles are cached in `indexes/<name>/ranges/` (`refaug.scoring.metric_setup.log_sample`). For a part
that looks at weighted references, those
of the sample are retrieved and weighted as for test items, without references that equal the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from refaug.core.artefacts.version_locks import HeldVersion
from refaug.core.errors import BadInput, Usage
from refaug.core.installation import extras_named
from refaug.core.processes.kept import cached_property
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import normalise
from refaug.indexer.manifest import IndexManifest
from refaug.metrics.base import Floats, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.models.model_kinds import ModelKind
from refaug.metrics.models.model_scores import RatedReplies, RelevantReplies
from refaug.metrics.models.ruber import Ranges, Ruber, part_values
from refaug.metrics.models.unreferenced import MaskedModel, MaskedReplies, TruePairs
from refaug.metrics.parameters import Range
from refaug.rater.language_coverage import Coverage
from refaug.rater.rating import Rater
from refaug.scoring.augmentation import augment
from refaug.scoring.cases import references_of
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import ReplyJudge
from refaug.scoring.metric_setup.baseline import metric_identity, sampling_of, with_index_baseline
from refaug.scoring.metric_setup.log_sample import (
    MeasurementKey,
    live_segments,
    read_measurement,
    sample_items,
    write_measurement,
)
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.provenance import references_provenance
from refaug.scoring.settings import AugmentSettings

if TYPE_CHECKING:
    from refaug.rater.ruber.network import Relevance

PAIRS: Final = 5_000
LEAST: Final = 200  # pairs; of fewer, the percentiles would be the values of one or two pairs
SEED: Final = 1
FOLDER: Final = "ranges"  # among the versions of an index; no version can have this name
_KIND: Final = "range"
_FORMAT_VERSION: Final = 1
_PERCENTILES: Final = (0.01, 0.99)  # nearly the least and the most, without the few outliers


@dataclass(frozen=True, kw_only=True)
class _Percentiles:
    """Two percentiles, with the number of pairs that have a score, and of all pairs."""

    low: float
    high: float
    scored: int
    drawn: int

    @classmethod
    def read(cls, path: Path, key: MeasurementKey) -> Self | None:
        """Read the cached percentiles; None where there are none or they are not plausible, and are measured again."""
        cached = read_measurement(path, key, ("low", "high", "scored", "drawn"))
        if cached is None:
            return None
        low, high, scored, drawn = cached.values()
        if type(low) is not float or type(high) is not float or type(scored) is not int or type(drawn) is not int:
            return None
        is_sound = isfinite(low) and isfinite(high) and low <= high and LEAST <= scored <= drawn <= PAIRS
        return cls(low=low, high=high, scored=scored, drawn=drawn) if is_sound else None


class LogSample:
    """Pairs of the log that an index was built from, drawn and given references when a part is measured on them.

    For parts that look at weighted references, these are retrieved from the same index by the settings `augmenting`,
    and weighted by the rater that `weigher` opens, which is only called then.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        index: str,
        augmenting: AugmentSettings,
        weigher: Callable[[], Rater],
        *,
        progress: Progress | None = None,
    ) -> None:
        self._registry, self.index, self._augmenting, self._open_weigher = registry, index, augmenting, weigher
        self._progress = progress or Silent()
        self._drawn: list[Item] | None = None
        self._has_warned = False

    def measure(self, metric: Ruber) -> tuple[Ranges, dict[str, str]]:
        """Return the ranges of both parts, and what signatures say of their source."""
        indexes = places_of(self._registry.home).indexes
        with indexes.open(self.index) as held:
            manifest = IndexManifest.read(held.folder)
            folder = indexes.folder(held.name, FOLDER)
            referenced, unreferenced = (
                self._percentiles_of(part, held, manifest, folder) for part in (metric.referenced, metric.unreferenced)
            )
            where = f"index {held.name}@{held.version}"
            self._warn_of_few(referenced.drawn, where)
        ranges = Ranges(
            referenced=_range(referenced, metric.referenced, where),
            unreferenced=_range(unreferenced, metric.unreferenced, where),
        )
        source = {"index": manifest.id[:12], "pairs": str(referenced.drawn), "seed": str(SEED), **self._filters}
        source |= {key: str(rule) for key, rule in sampling_of(manifest).items()}
        if metric.info.uses is Uses.WEIGHTED:
            source |= {key: text for key, text in self._provenance.items() if key != "index"}
        return ranges, {f"sample-{key}": text for key, text in source.items()}

    def _percentiles_of(self, part: Metric, held: HeldVersion, manifest: IndexManifest, folder: Path) -> _Percentiles:
        references: object = dict(self._provenance) if part.info.uses is Uses.WEIGHTED else "gold"
        parameters = {
            "metric": metric_identity(part),
            "references": references,
            "pairs": PAIRS,
            "seed": SEED,
            **sampling_of(manifest),
            **self._filters,
        }
        key = MeasurementKey(kind=_KIND, format_version=_FORMAT_VERSION, index=manifest.id, parameters=parameters)
        path = folder / key.file
        percentiles = _Percentiles.read(path, key)
        if percentiles is None:
            items = self._items(held, manifest)
            if part.info.uses is Uses.WEIGHTED:
                items = self._augmented_items
            self._progress.stage(f"range of {part.name}", len(items), "items")
            percentiles = _measure(part, items)
            write_measurement(path, key, asdict(percentiles), "the range of a part of ruber", self._progress)
        return percentiles

    def _items(self, held: HeldVersion, manifest: IndexManifest) -> list[Item]:
        """Return the drawn items, each with two replies."""
        if self._drawn is None:
            self._progress.stage("sample of the log")
            excluding = self._augmenting if self._filters else None
            self._drawn = sample_items(live_segments(held, manifest, excluding), PAIRS // 2, SEED)
            _require_enough(self._drawn, f"index {held.name}@{held.version}")
        return self._drawn

    @cached_property
    def _filters(self) -> dict[str, str]:
        """The times and logs that nothing is drawn from, as no reference is taken from them either."""
        search = self._augmenting
        filters = {
            "after": search.after.isoformat() if search.after else "",
            "before": search.before.isoformat() if search.before else "",
            "exclude-logs": ",".join(search.exclude_logs),
        }
        return {key: text for key, text in filters.items() if text}

    @cached_property
    def _provenance(self) -> dict[str, str]:
        """Everything that can change the weighted references of the sample."""
        index = self._registry.index(self.index)
        made_by = references_provenance(index, self._weigher, self._augmenting)
        return {**made_by.settings, **made_by.details, "index": index.manifest.id[:12]}

    @cached_property
    def _weigher(self) -> Rater | None:
        return self._open_weigher() if self._augmenting.needs_rater else None

    @cached_property
    def _augmented_items(self) -> list[Item]:
        """The items with the weighted references that the index has for them."""
        assert self._drawn is not None, "they are drawn first"
        index = self._registry.index(self.index)
        augmented = augment(self._drawn, index, self._weigher, self._augmenting, self._progress)
        return [test_item for test_item in augmented if isinstance(test_item, Item)]

    def _warn_of_few(self, drawn: int, where: str) -> None:
        if drawn < PAIRS and not self._has_warned:
            self._has_warned = True
            self._progress.warn(
                f"what counts as 0 and 1 of the parts of ruber is measured on {drawn:,} pairs, not {PAIRS:,}: {where} "
                "has no more utterances with responses of several dialogues"
            )


def _require_enough(items: Sequence[Item], where: str) -> None:
    if 2 * len(items) < LEAST:
        raise BadInput(
            f"{where} gives {2 * len(items):,} pairs of an utterance and a reply, and {LEAST} is the least that says "
            "what counts as 0 and 1 of the parts of ruber: they need utterances with responses of several dialogues",
            remedy="an index of a larger log, norm=none, or range-ref and range-unref as another index gave them",
        )


def _measure(part: Metric, items: Sequence[Item]) -> _Percentiles:
    """Return the percentiles of the part's scores of both replies to every item."""
    replies, references = list[str](), list[References]()
    for test_item in items:
        for reply in test_item.replies.values():
            chosen = references_of(_without(test_item, reply).references, part.info.uses, test_item.utterance)
            if not isinstance(chosen, Problem):
                replies.append(reply)
                references.append(chosen)
    values = part_values(part.for_set(references), replies, references, np.arange(len(replies), dtype=np.int64))
    scores = values[np.isfinite(values)]
    drawn = sum(len(item.replies) for item in items)
    if len(scores) < LEAST:
        raise BadInput(
            f"{part.name} has a score for {len(scores):,} of {drawn:,} pairs of the log, and {LEAST} is the least that "
            "says what counts as 0 and 1 of it",
            remedy="check that word vectors and models are in the language of the log",
        )
    low, high = np.quantile(scores, _PERCENTILES).tolist()
    return _Percentiles(low=low, high=high, scored=len(scores), drawn=drawn)


def _without(test_item: Item, reply: str) -> Item:
    """Return the item without further references that equal the reply, which would only measure that."""
    same = normalise(reply)
    different = tuple(
        reference
        for reference in test_item.references
        if reference.source is Origin.GOLD or normalise(reference.text) != same
    )
    return replace(test_item, references=different)


def _range(percentiles: _Percentiles, part: Metric, where: str) -> Range:
    return Range.of_ends(percentiles.low, percentiles.high, what=f"by {part.name}, nearly all pairs of {where}")


_AT_ONCE: Final = 32  # pairs that a ruber judges between two checks that the request is still wanted


class ReplyRelevance:
    """A ruber that judges replies for the metric, for one evaluation.

    Results are cached, so that equal replies to an utterance tie to the last bit, whatever batch each is in:
    `refaug.scoring.home.networks.ReplyJudge` says why.
    """

    def __init__(self, ruber: Relevance, check: Callable[[], None] | None = None) -> None:
        self._ruber, self._check = ruber, check
        self._relevances = dict[tuple[str, str], float]()
        self._coverage = Coverage()

    @property
    def spec(self) -> str:
        """The name, version and content of the ruber."""
        return self._ruber.spec

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return a number from 0 to 1 for each utterance and reply."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._relevances]
        if new:
            utterances = dict.fromkeys(utterance for utterance, _ in new)
            self._coverage += self._ruber.coverage([*utterances, *(reply for _, reply in new)])
            at_once = len(new) if self._check is None else _AT_ONCE
            for at in range(0, len(new), at_once):
                if self._check is not None:
                    self._check()
                piece = new[at : at + at_once]
                self._relevances |= zip(piece, self._ruber.score(piece).tolist(), strict=True)
        return np.array([self._relevances[pair] for pair in pairs], dtype=np.float64)

    def remarks(self) -> tuple[str, ...]:
        """Return a warning if the texts so far are in a language that the ruber does not know."""
        warning = self._ruber.unfamiliar(self._coverage)
        return () if warning is None else (warning,)


def with_parts(
    metrics: Sequence[Metric],
    models: ModelRegistry,
    augmenting: AugmentSettings | None = None,
    progress: Progress | None = None,
) -> list[Metric]:
    """Return the metrics, those that ask networks bound to the ones that they name, and `ruber` with its ranges.

    `augmenting` tells how the scored references were retrieved and weighted; those of the sample are made alike.
    """
    networks = _Networks(models, getattr(progress, "check", None))
    bound = list[Metric]()
    for metric in metrics:
        if isinstance(metric, RatedReplies):
            bound.append(metric.with_judge(networks.judge_of(metric)))
        elif isinstance(metric, MaskedReplies):
            bound.append(metric.with_model(networks.hidden_pieces_of(metric)))
        elif isinstance(metric, Ruber):
            bound.append(_with_parts(metric, networks, augmenting or AugmentSettings(), progress or Silent()))
        else:
            bound.append(metric)
    return bound


def _with_parts(metric: Ruber, networks: _Networks, augmenting: AugmentSettings, progress: Progress) -> Ruber:
    part, models = metric.unreferenced, networks.models
    if isinstance(part, RatedReplies) and not (part.settings["model"] or models.default_rater):
        raise part.info.models[0].missing(metric.name, "unreferenced=rater;model")
    metric = metric.with_judge(
        networks.judge_of(part) if isinstance(part, RatedReplies) else networks.relevance_of(part)
    )
    named = metric.sample or models.sample
    if named is None:
        return metric  # a metric that needs a sample refuses to score
    index = models.resolve(ModelKind.INDEX, named)  # later publications must not change it
    metric = metric.with_referenced(
        with_index_baseline(metric.referenced, places_of(models.home).indexes, index, progress)
    )
    if not metric.ranges_are_open:
        return metric
    sample = networks.samples.get(index)
    if sample is None:
        sample = networks.samples[index] = LogSample(models, index, augmenting, networks.weigher, progress=progress)
    # Another judge, since the language of the sample's texts says nothing about the texts that are scored.
    sampled = metric.with_judge(
        ReplyJudge(networks.rater_of(part))
        if isinstance(part, RatedReplies)
        else ReplyRelevance(networks.ruber_of(part))
    )
    return metric.with_ranges(*sample.measure(sampled))


class _Networks:
    """The networks that the metrics of one evaluation ask."""

    def __init__(self, models: ModelRegistry, check: Callable[[], None] | None) -> None:
        self.models, self._check = models, check
        self.samples = dict[str, LogSample]()  # of logs, by the version of the index
        self._judges = dict[str, ReplyJudge]()
        self._relevances = dict[str, ReplyRelevance]()

    def judge_of(self, metric: RatedReplies) -> ReplyJudge:
        """Return the rater of a metric as metrics use it, one for all metrics that ask the same one."""
        rater = self.rater_of(metric)
        if isinstance(metric, TruePairs):
            metric.require_negatives(rater.negatives, rater.spec)
        return self._judges.setdefault(rater.spec, ReplyJudge(rater, self._check))

    def hidden_pieces_of(self, metric: MaskedReplies) -> MaskedModel:
        """Return the cross rater of a metric as what tells how likely hidden pieces are."""
        with extras_named():
            from refaug.rater.cross.hidden_pieces import HiddenPieces  # noqa: PLC0415  torch

        return HiddenPieces(self.rater_of(metric), least=metric.least)

    def rater_of(self, metric: RatedReplies | MaskedReplies) -> Rater:
        """Return the rater that a metric names, or the default."""
        spec = metric.settings["model"] or self.models.default_rater
        if spec is None:
            raise metric.info.models[0].missing(metric.name)
        return self.models.rater(spec)

    def relevance_of(self, part: RelevantReplies) -> ReplyRelevance:
        """Return the ruber of a metric as metrics use it, one for all metrics that ask the same one."""
        ruber = self.ruber_of(part)
        return self._relevances.setdefault(ruber.spec, ReplyRelevance(ruber, self._check))

    def ruber_of(self, part: RelevantReplies) -> Relevance:
        """Return the ruber that a metric names."""
        if not part.settings["model"]:
            raise part.info.models[0].missing(part.name)
        return self.models.ruber(part.settings["model"])

    def weigher(self) -> Rater:
        """Return the rater that weighs references of the sample."""
        if self.models.default_rater is None:
            raise Usage(
                "references of the sample are rated, and no rater is named",
                remedy="--rater NAME: refaug artefacts list rater",
            )
        return self.models.rater(self.models.default_rater)
