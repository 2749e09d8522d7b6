"""RUBER: how like the references a reply is, and how well it goes with the utterance, blended.

The referenced part is any metric of references, `pooled` as published (Tao, Mou, Zhao, Yan: RUBER, AAAI 2018); the
unreferenced part is a ruber's relevance, or a rater's rating of the reply. Both come onto one scale before they are
blended: with x a part's score, m(x) = (x − low) / (high − low), at least 0 and at most 1, where low and high are, by
`norm`,

    log     the 1st and 99th percentile over a stored sample of pairs of a log, which `with_ranges` says
    test    the least and the largest over the replies that are scored, as published
    none    0 and 1; −1 and 1 of a rating

With `norm=test` the score of a reply depends on which others there are, so it is not defined until `for_replies` has
seen them all. A referenced part that is better the lower it is (TER) counts as max(0, 1 − x). An empty reply scores 0,
whatever the parts make of it; a reply that one of them has no score for has none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from core.errors import BadInput, RefaugError, Usage
from metrics.base import Floats, Indexes, Level, MeanMetric, Metric, Prepared, Problem, References
from metrics.catalogue import A_RATER, A_RUBER, MetricInfo, find
from metrics.model_scores import Judge, RatedReplies, RelevanceJudge, RelevantReplies
from metrics.ranges import AUTO, Range
from metrics.specification import Specification
from metrics.specification import build as metric_of
from metrics.upsilon import open_without_b, similarities

_BLENDS: Final[Mapping[str, Callable[[Floats, Floats], Floats]]] = {
    "arithmetic": lambda one, other: (one + other) / 2,
    "geometric": lambda one, other: np.sqrt(one * other),
    "min": np.minimum,
    "max": np.maximum,
}
_OWN: Final = ("blend", "referenced", "unreferenced", "norm")  # the others are its ranges, and what parts are handed
_MODELS: Final = ("rater", "ruber")  # and these stand beside the parts, for all to see
_MANY: Final = 0.1  # of the scores: more zeros than this, and the scores say little about those replies
_NOTHING: Final = References((), (), -1)
_Built = TypeVar("_Built")


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """What counts as 0 and as 1 of either part."""

    referenced: Range
    unreferenced: Range


@dataclass(frozen=True, kw_only=True)
class PreparedRuber(Prepared):
    """The same items for either part."""

    referenced: Prepared
    unreferenced: Prepared


class _Tally:
    """How many scores were given, and how many of them were 0; all copies of a metric share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.given, self.zeros = 0, 0

    def add(self, scores: Floats) -> None:
        """Count the scores that there are."""
        with self._lock:
            self.given += int(np.isfinite(scores).sum())
            self.zeros += int((scores == 0).sum())


class Ruber(MeanMetric):
    """Two metrics, the ranges that bring them onto one scale, and a way to blend them.

    What it looks at is decided by its parts: `info` is that of the register with their needs.
    """

    columns = ("total", "replies", "referenced", "unreferenced", "referenced_mapped", "unreferenced_mapped")

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        self.referenced = _referenced(info, settings)
        self.unreferenced = _unreferenced(info, settings)
        self.turns = self.unreferenced.turns
        self.norm = settings["norm"]
        self._blend = _BLENDS[settings["blend"]]
        self._ranges, given = _ranges(info, settings, self.unreferenced)
        self._own = {**{key: settings[key] for key in _OWN}, **given}
        self._range_from: Mapping[str, str] = {}
        self._tally = _Tally()
        needs = dict.fromkeys((*self.unreferenced.info.needs, *self.referenced.info.needs))
        self.info = replace(
            info,
            uses=self.referenced.info.uses,
            beside=self.unreferenced.info.uses,
            needs=(*needs, *(["an index"] if self.ranges_are_open else [])),
        )
        self._settle()

    def _settle(self) -> None:
        """Write the settings anew after a part has changed: each part with all of its own, and the model's name."""
        parts = {"referenced": _written(self.referenced), "unreferenced": _written(self.unreferenced)}
        models = {key: self.unreferenced.settings[key] for key in _MODELS if key in self.unreferenced.settings}
        self.settings = {**{key: parts.get(key, value) for key, value in self._own.items()}, **models}

    # ── what others have to say ───────────────────────────────────────────────────────────────────────────────────

    @property
    def ranges_are_open(self) -> bool:
        """Whether nobody has said yet what counts as 0 and 1, though a log could."""
        return self.norm == "log" and self._ranges is None

    def judged(self, judge: Judge | RelevanceJudge) -> Ruber:
        """The same, the unreferenced part asking this judge: a rater's or a ruber's, as it needs."""
        by = copy(self)
        by.unreferenced = self.unreferenced.bound(judge)  # type: ignore[arg-type]
        by._settle()  # noqa: SLF001
        return by

    def with_referenced(self, part: Metric) -> Ruber:
        """The same with this form of the referenced part."""
        by = copy(self)
        by.referenced = part
        by._settle()  # noqa: SLF001
        return by

    def with_ranges(self, ranges: Ranges, measured: Mapping[str, str]) -> Ruber:
        """The same with these ranges; full signatures have how they were measured."""
        by = copy(self)
        by._ranges, by._range_from = ranges, dict(measured)  # noqa: SLF001
        by._own = {**self._own, **_range_settings(ranges)}  # noqa: SLF001
        by._settle()  # noqa: SLF001
        return by

    def for_set(self, references: Sequence[References]) -> Ruber:
        """The same with its parts for this set."""
        by = copy(self)
        by.referenced = self.referenced.for_set(references)
        return by

    def for_replies(self, replies: Sequence[str], references: Sequence[References], item: Indexes) -> Ruber:
        """With `norm=test` the ranges over these replies, empty ones left out; the full signature has them."""
        if self.norm != "test":
            return self
        told = np.array([bool(text.strip()) for text in replies], dtype=np.bool_)
        texts = [text for text, has_any in zip(replies, told.tolist(), strict=True) if has_any]
        beside = [_beside(one) for one in references]
        by = copy(self)
        by._ranges = Ranges(  # noqa: SLF001
            referenced=_span(self.referenced, texts, references, item[told]),
            unreferenced=_span(self.unreferenced, texts, beside, item[told]),
        )
        by._range_from = _range_settings(by._ranges)  # noqa: SLF001
        return by

    def versions(self) -> Mapping[str, str]:
        """Those of the parts, and where the ranges come from, if they were not given."""
        return {**self.unreferenced.versions(), **self.referenced.versions(), **self._range_from}

    def remarks(self) -> tuple[str, ...]:
        """Those of the parts, and whether many of the scores so far are 0."""
        found = [*self.referenced.remarks(), *self.unreferenced.remarks()]
        if self.norm == "test":
            found.append(f"{self.name} with norm=test: a score depends on which replies are scored together with it")
        given, zeros = self._tally.given, self._tally.zeros
        if zeros > _MANY * given:
            found.append(
                f"{self.name}: {100 * zeros / given:.0f} % of {given:,} scores are 0, which does not tell those "
                "replies apart: they are at the lower end of the range of one part or of both, or below it"
            )
        return tuple(found)

    # ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, references: Sequence[References]) -> PreparedRuber:
        """Let either part prepare what it looks at."""
        self._require_ranges()
        referenced = self.referenced.prepare(references)
        unreferenced = self.unreferenced.prepare([_beside(one) for one in references])
        return PreparedRuber(
            items=len(references),
            problems={**unreferenced.problems, **referenced.problems},
            referenced=referenced,
            unreferenced=unreferenced,
        )

    def statistics(self, replies: Sequence[str], prepared: Prepared, reply: Indexes, item: Indexes) -> Floats:
        """A score, a count, and what both parts gave, before and after they were mapped."""
        assert isinstance(prepared, PreparedRuber)
        ranges = self._require_ranges()
        referenced = similarities(self.referenced, replies, prepared.referenced, reply, item)
        unreferenced = similarities(self.unreferenced, replies, prepared.unreferenced, reply, item)
        mapped = ranges.referenced.mapped(referenced), ranges.unreferenced.mapped(unreferenced)
        scores = self._blend(*mapped)
        rows = np.stack([scores, np.ones(len(item)), referenced, unreferenced, *mapped], axis=-1)
        empty = np.array([not text.strip() for text in replies], dtype=np.bool_)[reply]
        rows[empty] = [0, 1, 0, self.unreferenced.info.low, 0, 0]
        rows[np.isin(item, list(prepared.problems)) | np.isnan(rows).any(axis=-1)] = np.nan
        self._tally.add(rows[~empty, 0])
        return rows

    def parts(self, sums: Floats, level: Level) -> dict[str, Any]:
        """The means of what the parts gave, before and after they were mapped."""
        del level
        replies = float(sums[1])
        means = {name: float(value) / replies for name, value in zip(self.columns[2:], sums[2:].tolist(), strict=True)}
        return {"replies": replies, **means}

    def undefined(self) -> Problem:
        """The referenced part is undefined for this reply; the other one never is."""
        return self.referenced.undefined()

    def _require_ranges(self) -> Ranges:
        if self._ranges is not None:
            return self._ranges
        if self.norm == "test":
            raise Usage(
                f"{self.name} with norm=test is only defined for all replies of a test set at once",
                remedy="norm=log or norm=none, where replies are scored one by one",
            )
        raise Usage(
            f"{self.name} needs an index, to see what its parts give to replies of a log, and none is named",
            remedy="--sample NAME (refaug score takes that of --index), or norm=none",
        )


def part_values(part: Metric, replies: Sequence[str], references: Sequence[References], item: Indexes) -> Floats:
    """What a part gives to replies, the i-th to the item `item[i]`, better the higher; NaN where it has no score."""
    prepared = part.prepare(references)
    values = similarities(part, replies, prepared, np.arange(len(replies), dtype=np.int64), item)
    return np.asarray(np.where(np.isin(item, list(prepared.problems)), np.nan, values))


def _span(part: Metric, replies: Sequence[str], references: Sequence[References], item: Indexes) -> Range:
    values = part_values(part, replies, references, item)
    known = values[np.isfinite(values)]
    if not len(known):
        raise BadInput(f"norm=test: no reply has a score by {part.name}", remedy="norm=log, or another part")
    return Range.of_ends(
        float(known.min()), float(known.max()), what=f"norm=test: by {part.name}, all {len(known):,} replies"
    )


def _beside(references: References) -> References:
    """What the unreferenced part looks at."""
    return references.beside or _NOTHING


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _referenced(info: MetricInfo, settings: Mapping[str, str]) -> Metric:
    """The metric that the specification names as the referenced part."""
    text = settings["referenced"]
    where = f"{info.name}: referenced={text}"
    asked = _part(text, where)
    found = _told(where, lambda: find(asked.name))
    if A_RATER in found.needs or A_RUBER in found.needs:
        raise Usage(
            f"{where}: {found.name} asks a model itself, and only what compares with references can be this part",
            remedy="for example referenced=pooled or referenced=upsilon-greedy",
        )
    if settings["norm"] == "none" and found.high is not None and found.high > 1:
        raise Usage(
            f"{where}: scores from {found.range} are no shares, and norm=none takes them for such",
            remedy="norm=log or norm=test",
        )
    has_vectors = found.parameter("vectors") is not None
    if settings["vectors"] and not has_vectors:
        raise Usage(f"{where}: {found.name} takes no word vectors", remedy="leave vectors out")
    if has_vectors and not (settings["vectors"] or "vectors" in dict(asked.given)):
        raise Usage(f"{where}: {found.name} needs word vectors", remedy=f"{info.name}:vectors=FILE")
    handed_on = {"vectors": settings["vectors"]} | ({} if settings["tok"] == AUTO else {"tok": settings["tok"]})
    return _told(where, lambda: open_without_b(metric_of(asked, handed_on), asked))


def _unreferenced(info: MetricInfo, settings: Mapping[str, str]) -> RatedReplies | RelevantReplies:
    """Whoever judges replies by the utterance; it has no judge yet."""
    text = settings["unreferenced"]
    where = f"{info.name}: unreferenced={text}"
    asked = _part(text, where)
    if asked.name == "ruber":
        if asked.given:
            raise Usage(f"{where}: ruber has no parameter {asked.given[0][0]!r} here", remedy="unreferenced=ruber")
        return RelevantReplies()
    if asked.name != "rater":
        raise Usage(f"{where}: there is no such part", remedy="ruber, or rater with its parameters: rater;combine=max")
    handed_on = {key: settings[key] for key in ("combine", "cal")}
    part = _told(where, lambda: metric_of(asked, handed_on))
    assert isinstance(part, RatedReplies)
    return part


def _part(text: str, where: str) -> Specification:
    """Read `name;key=value;key=value`: commas would end the parameter of ruber that this is the value of."""
    name, *given = (one.strip() for one in text.split(";"))
    if ":" in name.partition("=")[0]:
        raise Usage(f"{where}: a colon behind the name of a part", remedy=f"{name.replace(':', ';', 1)}")
    if not name or "=" in name:
        raise Usage(f"{where}: a part begins with the name of a metric", remedy="for example pooled;refs=gold")
    if not all(given):
        raise Usage(f"{where}: nothing stands between two semicolons, or behind the last", remedy="pooled;refs=gold")
    if wrong := next((one for one in given if "=" not in one), None):
        raise Usage(f"{where}: {wrong!r} is not key=value", remedy="for example pooled;refs=gold")
    return _told(where, lambda: Specification.parse(f"{name}:{','.join(given)}" if given else name))


def _told(where: str, build_part: Callable[[], _Built]) -> _Built:
    """What a part says is wrong with it, and in which part."""
    try:
        return build_part()
    except RefaugError as error:
        raise type(error)(f"{where}: {error.message}", remedy=error.remedy) from error


def _written(part: Metric) -> str:
    """A part as specifications have it, all of its settings spelled out; models stand elsewhere."""
    given = [f"{key}={value}" for key, value in part.settings.items() if value and key not in _MODELS]
    return ";".join([part.name, *given])


def _ranges(
    info: MetricInfo, settings: Mapping[str, str], unreferenced: Metric
) -> tuple[Ranges | None, Mapping[str, str]]:
    """The ranges that are known when it is built, and what the settings say of them."""
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
    found = [Range.parse(text) for text in texts.values()]
    if found[0] is None or found[1] is None:
        return None, texts
    return Ranges(referenced=found[0], unreferenced=found[1]), texts


def _range_settings(ranges: Ranges) -> dict[str, str]:
    return {"range-ref": str(ranges.referenced), "range-unref": str(ranges.unreferenced)}


def build(info: MetricInfo, settings: Mapping[str, str]) -> Ruber:
    """Make one from checked settings; it has no model, and with norm=log no ranges unless they were given."""
    return Ruber(info, settings)
