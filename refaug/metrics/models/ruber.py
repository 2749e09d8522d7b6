"""RUBER: the similarity of a reply to the references, blended with how well it goes with the utterance.

The referenced part is any metric of references, `pooled` as published (Tao, Mou, Zhao, Yan: RUBER, AAAI 2018); the
unreferenced part is a ruber's relevance, or a rater's rating of the reply. Both are mapped to one scale before they are
blended: with x a part's score, m(x) = (x − low) / (high − low), at least 0 and at most 1, where low and high are, by
`norm`,

    log     the 1st and 99th percentile over a stored sample of pairs of a log, which `with_ranges` sets
    test    the least and the largest over the replies that are scored, as published
    none    0 and 1; −1 and 1 of a rating

With `norm=test` the score of a reply depends on the other replies, so it is not defined until `for_replies` has seen
them all. A referenced part for which lower is better (TER) counts as max(0, 1 − x). An empty reply scores 0, whatever
the parts give; a reply for which one part has no score has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from refaug.core.errors import BadInput, Usage
from refaug.metrics.base import Floats, Indexes, Level, MeanMetric, Metric, Prepared, Problem, References
from refaug.metrics.catalogue import find
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import ModelKind, VectorOpener
from refaug.metrics.models.model_scores import Judge, RatedReplies, RelevanceJudge, RelevantReplies
from refaug.metrics.parameters import AUTO, Range
from refaug.metrics.shared_parameters import SAMPLE, VECTORS
from refaug.metrics.specification import as_part, built_part, part_of
from refaug.metrics.specification import build as metric_of
from refaug.metrics.upsilon import open_without_b, similarities

_BLENDS: Final[Mapping[str, Callable[[Floats, Floats], Floats]]] = {
    "arithmetic": lambda referenced, unreferenced: (referenced + unreferenced) / 2,
    "geometric": lambda referenced, unreferenced: np.sqrt(referenced * unreferenced),
    "min": np.minimum,
    "max": np.maximum,
}
_OWN: Final = ("model", "blend", "referenced", "unreferenced", "norm")  # other settings are ranges, or go to the parts
_MANY: Final = 0.1  # share of zeros among the scores from which a warning is due
_NO_REFERENCES: Final = References((), (), -1)


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The values that count as 0 and as 1 of either part."""

    referenced: Range
    unreferenced: Range


@dataclass(frozen=True, kw_only=True)
class PreparedRuber(Prepared):
    """The same items, prepared by either part."""

    referenced: Prepared
    unreferenced: Prepared


class _ZeroCounter:
    """Counts scores, and zeros among them; all copies of a metric share one counter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.scores, self.zeros = 0, 0

    def add(self, scores: Floats) -> None:
        """Count the scores that are defined."""
        with self._lock:
            self.scores += int(np.isfinite(scores).sum())
            self.zeros += int((scores == 0).sum())


class Ruber(MeanMetric):
    """Two metrics, the ranges that map them to one scale, and a way to blend them.

    The parts determine what it looks at: `info` is the catalogue's entry with the needs of the parts.
    """

    columns = ("total", "replies", "referenced", "unreferenced", "referenced_mapped", "unreferenced_mapped")

    def __init__(self, info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None = None) -> None:
        self.referenced = _referenced(info, settings, source)
        self.unreferenced = _unreferenced(info, settings)
        self.turns = self.unreferenced.turns
        self.norm = settings["norm"]
        self._blend = _BLENDS[settings["blend"]]
        self._ranges, range_settings = _initial_ranges(info, settings, self.unreferenced)
        self._own = {**{key: settings[key] for key in _OWN}, **range_settings}
        self._range_from: Mapping[str, str] = {}
        self._zero_counter = _ZeroCounter()
        if not self.ranges_are_open and settings["sample"]:
            raise Usage(f"{info.name}: sample={settings['sample']}, and no log is sampled", remedy="leave sample out")
        self.sample = settings["sample"]
        self.info = replace(info, uses=self.referenced.info.uses, beside=self.unreferenced.info.uses)
        self._update_settings()

    def _update_settings(self) -> None:
        """Update the settings after a part has changed: all settings of each part, and the name of the ruber."""
        parts = {"referenced": as_part(self.referenced), "unreferenced": as_part(self.unreferenced)}
        if isinstance(self.unreferenced, RelevantReplies):
            parts |= {"model": self.unreferenced.settings["model"], "unreferenced": "ruber"}
        settings = {key: parts.get(key, setting) for key, setting in self._own.items()}
        self.settings = {key: setting for key, setting in settings.items() if setting or key != "model"}

    # ── judges and ranges ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def ranges_are_open(self) -> bool:
        """Whether the ranges are to be measured on a log and are not set yet."""
        return self.norm == "log" and self._ranges is None

    def with_judge(self, judge: Judge | RelevanceJudge) -> Ruber:
        """Return the metric with this judge, a rater's or a ruber's, for the unreferenced part."""
        copied = copy(self)
        copied.unreferenced = self.unreferenced.with_judge(judge)  # type: ignore[arg-type]
        copied.turn_separator = copied.unreferenced.turn_separator
        copied._update_settings()  # noqa: SLF001
        return copied

    def with_ruber(self, model: str) -> Ruber:
        """Return the metric with the name of its ruber, which is not opened."""
        assert isinstance(self.unreferenced, RelevantReplies), "a rater judges the unreferenced part"
        copied = copy(self)
        copied.unreferenced = self.unreferenced.named(model)
        copied._update_settings()  # noqa: SLF001
        return copied

    def with_referenced(self, part: Metric) -> Ruber:
        """Return the metric with this form of the referenced part."""
        copied = copy(self)
        copied.referenced = part
        copied._update_settings()  # noqa: SLF001
        return copied

    def with_ranges(self, ranges: Ranges, measured: Mapping[str, str]) -> Ruber:
        """Return the metric with these ranges; full signatures tell how they were measured."""
        copied = copy(self)
        copied._ranges, copied._range_from = ranges, dict(measured)  # noqa: SLF001
        copied._own = {**self._own, **_range_settings(ranges)}  # noqa: SLF001
        copied._update_settings()  # noqa: SLF001
        return copied

    @property
    def looks_at_set(self) -> bool:
        """With ranges over the replies that are scored, or where a part does."""
        return self.norm == "test" or self.referenced.looks_at_set

    def for_set(self, references: Sequence[References]) -> Ruber:
        """Return the metric with its parts for this set."""
        copied = copy(self)
        copied.referenced = self.referenced.for_set(references)
        return copied

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Ruber:
        """Return, with `norm=test`, the metric with the ranges over these replies, without the empty ones."""
        if self.norm != "test":
            return self
        has_text = np.array([bool(text.strip()) for text in replies], dtype=np.bool_)
        texts = [text for text, is_used in zip(replies, has_text.tolist(), strict=True) if is_used]
        beside = [_beside(of_item) for of_item in references]
        copied = copy(self)
        copied._ranges = Ranges(  # noqa: SLF001
            referenced=_span(self.referenced, texts, references, item_places[has_text]),
            unreferenced=_span(self.unreferenced, texts, beside, item_places[has_text]),
        )
        copied._range_from = _range_settings(copied._ranges)  # noqa: SLF001
        return copied

    def versions(self) -> Mapping[str, str]:
        """Return those of the parts, and the source of measured ranges."""
        return {**self.unreferenced.versions(), **self.referenced.versions(), **self._range_from}

    def remarks(self) -> tuple[str, ...]:
        """Return those of the parts, and a warning if many of the scores so far are 0."""
        remarks = [*self.referenced.remarks(), *self.unreferenced.remarks()]
        if self.norm == "test":
            remarks.append(f"{self.name} with norm=test: a score depends on which replies are scored together with it")
        score_count, zeros = self._zero_counter.scores, self._zero_counter.zeros
        if zeros > _MANY * score_count:
            remarks.append(
                f"{self.name}: {100 * zeros / score_count:.0f} % of {score_count:,} scores are 0, which does not tell "
                "those replies apart: they are at the lower end of the range of one part or of both, or below it"
            )
        return tuple(remarks)

    # ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, references: Sequence[References]) -> PreparedRuber:
        """Let either part prepare its references."""
        self._require_ranges()
        referenced = self.referenced.prepare(references)
        unreferenced = self.unreferenced.prepare([_beside(of_item) for of_item in references])
        return PreparedRuber(
            items=len(references),
            problems={**unreferenced.problems, **referenced.problems},
            referenced=referenced,
            unreferenced=unreferenced,
        )

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score, a count, and the scores of both parts, before and after they were mapped."""
        assert isinstance(prepared, PreparedRuber)
        ranges = self._require_ranges()
        referenced = similarities(self.referenced, replies, prepared.referenced, reply_places, item_places)
        unreferenced = similarities(self.unreferenced, replies, prepared.unreferenced, reply_places, item_places)
        scaled = ranges.referenced.scale(referenced), ranges.unreferenced.scale(unreferenced)
        scores = self._blend(*scaled)
        rows = np.stack([scores, np.ones(len(item_places)), referenced, unreferenced, *scaled], axis=-1)
        empty = np.array([not text.strip() for text in replies], dtype=np.bool_)[reply_places]
        rows[empty] = [0, 1, 0, self.unreferenced.info.low, 0, 0]
        rows[np.isin(item_places, list(prepared.problems)) | np.isnan(rows).any(axis=-1)] = np.nan
        self._zero_counter.add(rows[~empty, 0])
        return rows

    def parts(self, sums: Floats, level: Level) -> dict[str, object]:
        """Return the means of the scores of the parts, before and after they were mapped."""
        del level
        replies = float(sums[1])
        totals = zip(self.columns[2:], sums[2:].tolist(), strict=True)
        means = {name: float(total) / replies for name, total in totals}
        return {"replies": replies, **means}

    def undefined(self) -> Problem:
        """The referenced part is undefined for this reply; the unreferenced part never is."""
        return self.referenced.undefined()

    def _require_ranges(self) -> Ranges:
        if self._ranges is not None:
            return self._ranges
        if self.norm == "test":
            raise Usage(
                f"{self.name} with norm=test is only defined for all replies of a test set at once",
                remedy="norm=log or norm=none, where replies are scored one by one",
            )
        raise SAMPLE.missing(self.name)


def part_values(part: Metric, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Floats:
    """Return a part's scores of replies, the i-th to the item `item_places[i]`; higher is better, NaN is none."""
    prepared = part.prepare(references)
    values = similarities(part, replies, prepared, np.arange(len(replies), dtype=np.int64), item_places)
    return np.asarray(np.where(np.isin(item_places, list(prepared.problems)), np.nan, values))


def _span(part: Metric, replies: Sequence[str], references: Sequence[References], item_places: Indexes) -> Range:
    values = part_values(part, replies, references, item_places)
    finite = values[np.isfinite(values)]
    if not len(finite):
        raise BadInput(f"norm=test: no reply has a score by {part.name}", remedy="norm=log, or another part")
    return Range.of_ends(
        float(finite.min()), float(finite.max()), what=f"norm=test: by {part.name}, all {len(finite):,} replies"
    )


def _beside(references: References) -> References:
    """Return the references of the unreferenced part."""
    return references.beside or _NO_REFERENCES


# ── Building ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _referenced(info: MetricInfo, settings: Mapping[str, str], source: VectorOpener | None) -> Metric:
    """Build the metric that the specification names as the referenced part."""
    text = settings["referenced"]
    where = f"{info.name}: referenced={text}"
    specification = part_of(text, where)
    part_info = built_part(where, lambda: find(specification.name))
    if part_info.asks(ModelKind.RATER, ModelKind.RUBER):
        raise Usage(
            f"{where}: {part_info.name} uses a model of its own; "
            "only a metric that compares with references can be this part",
            remedy="for example referenced=pooled or referenced=upsilon-greedy",
        )
    if settings["norm"] == "none" and part_info.high is not None and part_info.high > 1:
        raise Usage(
            f"{where}: scores from {part_info.range} are no shares, and norm=none takes them for such",
            remedy="norm=log or norm=test",
        )
    has_vectors = part_info.asks(ModelKind.VECTORS, ModelKind.ENCODER)
    if settings["vectors"] and not has_vectors:
        raise Usage(f"{where}: {part_info.name} takes no word vectors", remedy="leave vectors out")
    if has_vectors and not (settings["vectors"] or "vectors" in dict(specification.parameters)):
        raise VECTORS.missing(info.name)
    passed_on = {"vectors": settings["vectors"]} | ({} if settings["tok"] == AUTO else {"tok": settings["tok"]})
    return built_part(where, lambda: open_without_b(metric_of(specification, passed_on, source), specification))


def _unreferenced(info: MetricInfo, settings: Mapping[str, str]) -> RatedReplies | RelevantReplies:
    """Build the part that judges replies by the utterance; it has no judge yet."""
    text = settings["unreferenced"]
    where = f"{info.name}: unreferenced={text}"
    specification = part_of(text, where)
    if specification.name == "ruber":
        if specification.parameters:
            unknown = specification.parameters[0][0]
            raise Usage(f"{where}: ruber has no parameter {unknown!r} here", remedy="unreferenced=ruber")
        return RelevantReplies().named(settings["model"])
    if specification.name != "rater":
        raise Usage(f"{where}: there is no such part", remedy="ruber, or rater with its parameters: rater;combine=max")
    if settings["model"]:
        raise Usage(
            f"{where}: model={settings['model']} names a ruber, and a rater is asked",
            remedy=f"unreferenced=rater;model=NAME, or leave model out: {settings['model']}",
        )
    passed_on = {key: settings[key] for key in ("combine", "cal")}
    part = built_part(where, lambda: metric_of(specification, passed_on))
    assert isinstance(part, RatedReplies)
    return part


def _initial_ranges(
    info: MetricInfo, settings: Mapping[str, str], unreferenced: Metric
) -> tuple[Ranges | None, Mapping[str, str]]:
    """Return the ranges that the settings set, and the settings themselves."""
    texts = {key: settings[key] for key in ("range-ref", "range-unref")}
    is_given = [text != AUTO for text in texts.values()]
    norm = settings["norm"]
    if norm != "log" and any(is_given):
        raise Usage(f"{info.name}: norm={norm} takes no ranges", remedy="leave range-ref and range-unref out")
    if norm == "none":
        least = min(0.0, unreferenced.info.low)
        return Ranges(referenced=Range(0.0, 1.0), unreferenced=Range(least, 1.0)), {}
    if norm == "test":
        return None, {}
    if any(is_given) and not all(is_given):
        raise Usage(f"{info.name}: one of range-ref and range-unref is missing", remedy="give both, or neither")
    parsed = [Range.parse(text) for text in texts.values()]
    if parsed[0] is None or parsed[1] is None:
        return None, texts
    return Ranges(referenced=parsed[0], unreferenced=parsed[1]), texts


def _range_settings(ranges: Ranges) -> dict[str, str]:
    return {"range-ref": str(ranges.referenced), "range-unref": str(ranges.unreferenced)}
