"""Whether a dialogue model has become worse: its scores beside those of a baseline, over the same items.

A baseline is a JSON file with the scores, what they depend on, and the replies themselves, so that the server can test
a later run against it on the same items. Scores against a frozen set do not change by themselves; where signatures
differ, nothing is compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from refaug_client._api.models.scores import MetricScores, Scores
from refaug_client._version import VERSION

from .reading import BadFile, SystemReplies, describe_kind, reason_of

FORMAT = "refaug-client baseline"
FORMAT_VERSION = 1


BASELINE, NOW = "baseline", "now"  # the systems' names where the server compares them


_ROUNDING = 1e-12  # sums of floats: 0.3 - 0.29 is no more than 0.01


@dataclass(frozen=True)
class Figures:
    """The scores of a system by one metric."""

    signature: str  # in full: all that the numbers depend on
    corpus: float
    scored: int
    unscored: int
    higher_is_better: bool


@dataclass(frozen=True)
class Baseline:
    """Replies, the items they answer, and their scores by metric, as the metric was named."""

    set: str
    items: list[str]
    replies: list[Optional[str]]
    metrics: dict[str, Figures]

    @classmethod
    def of(
        cls, set_id: str, specifications: Sequence[str], replies_by_system: SystemReplies, scores: Scores
    ) -> Baseline:
        """Return the baseline of the only system."""
        (name, replies), *_ = replies_by_system.systems.items()
        figures = {spec: figures_of(found, name) for spec, found in zip(specifications, scores.scores)}
        return cls(set_id, list(replies_by_system.items), list(replies), figures)

    def as_text(self) -> str:
        """Return the text of the file, readable enough for a review."""
        facts = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "made_by": f"refaug-client {VERSION}",
            "set": self.set,
            "metrics": {spec: vars(figures) for spec, figures in self.metrics.items()},
            "items": self.items,
            "replies": self.replies,
        }
        return json.dumps(facts, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a baseline from its file; BadFile where it is none."""
        try:
            text = Path(path).read_text("utf-8")
        except FileNotFoundError as error:
            raise BadFile(f"{path}: there is no baseline", remedy="--write-baseline makes one") from error
        except (OSError, ValueError) as error:
            raise BadFile(f"{path}: {reason_of(error)}") from error
        try:
            return cls._of(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadFile(
                f"{path}: no baseline that this version can read: {error}", remedy="--write-baseline makes a new one"
            ) from error

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> Baseline:
        if document["format"] != FORMAT or document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"its format is {document['format']!r}, {document['format_version']!r}")
        metrics = {spec: _read_figures(figures) for spec, figures in document["metrics"].items()}
        items, replies = _require_texts(document["items"]), _require_texts(document["replies"], or_none=True)
        if len(items) != len(replies):
            raise ValueError(f"{len(items):,} items and {len(replies):,} replies")
        return cls(str(document["set"]), items, replies, metrics)

    def require_comparable(self, set_id: str, specifications: Sequence[str], items: Sequence[str]) -> None:
        """BadFile where a run cannot be compared with the baseline."""
        if set_id != self.set:
            raise BadFile(f"the baseline is against the set {self.set}, and not {set_id}", remedy=_REMEDY)
        for spec in specifications:
            if spec not in self.metrics:
                raise BadFile(f"the baseline has no {spec}; it has {', '.join(self.metrics)}", remedy=_REMEDY)
        if list(items) != self.items:
            raise BadFile(f"the baseline answers {_describe_difference(self.items, items)}", remedy=_REMEDY)


_REMEDY = "--write-baseline for a new one, with the replies that new runs are to be compared with"


def _describe_difference(before: Sequence[str], now: Sequence[str]) -> str:
    if len(before) != len(now):
        return f"{len(before):,} items, and these replies {len(now):,}"
    if sorted(before) == sorted(now):
        return "the same items in another order"
    place = next(place for place, (old, new) in enumerate(zip(before, now)) if old != new)
    return f"other items: {before[place]!r} where these replies answer {now[place]!r}"


def _require_texts(texts: Any, *, or_none: bool = False) -> list[Any]:
    if not isinstance(texts, list):
        raise TypeError(f"{describe_kind(texts)} where a list should be")
    for text in texts:
        if not (isinstance(text, str) or (or_none and text is None)):
            raise TypeError(f"{describe_kind(text)} where a text should be")
    return texts


def _read_figures(document: Mapping[str, Any]) -> Figures:
    figures = Figures(**{name: document[name] for name in Figures.__dataclass_fields__})
    numbers = (figures.corpus, figures.scored, figures.unscored)
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers):
        raise TypeError("a figure is no number")
    if not isinstance(figures.signature, str) or not isinstance(figures.higher_is_better, bool):
        raise TypeError("a signature or direction is none")
    return figures


def figures_of(scores: MetricScores, system: str) -> Figures:
    """Return the figures of a system by a metric; BadFile where no reply has a score."""
    system_scores = scores[system]
    if system_scores.corpus is None:
        raise BadFile(f"{scores.metric}: none of the {system_scores.unscored:,} replies has a score")
    return Figures(
        scores.signature_full,
        system_scores.corpus,
        system_scores.scored,
        system_scores.unscored,
        scores.higher_is_better,
    )


def _interval_of_drop(of_difference: Optional[Sequence[float]], *, higher_is_better: bool) -> Optional[list[float]]:
    """Return the interval of what the drop is, from that of the difference to the baseline."""
    if of_difference is None:
        return None
    low, high = of_difference
    return [0.0 - high, 0.0 - low] if higher_is_better else [low, high]


@dataclass(frozen=True)
class Verdict:
    """One metric, now and in the baseline."""

    metric: str
    before: Figures
    now: Figures
    max_drop: float
    max_p: Optional[float] = None
    interval: Optional[list[float]] = None  # of the drop
    p: Optional[float] = None

    @classmethod
    def of(
        cls, spec: str, before: Figures, scores: MetricScores, system: str, *, max_drop: float, max_p: Optional[float]
    ) -> Verdict:
        """Return the verdict on new scores, with a comparison where the server made one."""
        now = figures_of(scores, system)
        if now.signature != before.signature:
            raise BadFile(
                f"{spec}: scores that cannot be compared: the baseline's are {before.signature}, and these are "
                f"{now.signature}",
                remedy=_REMEDY,
            )
        compared = (scores.comparisons or {}).get(system)
        return cls(
            spec,
            before,
            now,
            max_drop,
            max_p,
            None if compared is None else _interval_of_drop(compared.interval, higher_is_better=now.higher_is_better),
            None if compared is None else compared.p_randomisation,
        )

    @property
    def drop(self) -> float:
        """By how much the score has become worse; negative where it is better."""
        difference = self.before.corpus - self.now.corpus
        return difference if self.now.higher_is_better else -difference

    @property
    def is_worse(self) -> bool:
        """Whether the score fell further than it may, and, where that is asked for, not by chance."""
        if self.drop <= self.max_drop + _ROUNDING:
            return False
        return self.max_p is None or self.p is None or self.p < self.max_p

    @property
    def has_gaps(self) -> bool:
        """Whether fewer replies have a score, which a mean over those that have one would not show."""
        return self.now.unscored > self.before.unscored

    @property
    def is_passed(self) -> bool:
        """Whether the run passes."""
        return not self.is_worse and not self.has_gaps

    def sentence(self) -> str:
        """Return the verdict in words."""
        verb = "is" if self.drop == 0 else "fell to" if self.now.corpus < self.before.corpus else "rose to"
        sentence = f"{self.metric} {verb} {self.now.corpus:.4f}"
        if self.drop:
            sentence += f" from {self.before.corpus:.4f}, by {abs(self.drop):.4f}"
        if self.p is not None:
            sentence += f" (p = {self.p:.3g})"
        if self.has_gaps:
            more = self.now.unscored - self.before.unscored
            sentence += f"; {more:,} more {'reply has' if more == 1 else 'replies have'} no score"
        if self.is_worse:
            return f"{sentence}: more than the {self.max_drop:g} that it may get worse by"
        if self.drop > self.max_drop + _ROUNDING:
            sentence += f": no more than chance does, at p < {self.max_p:g}"
        return sentence

    def as_dict(self) -> dict[str, object]:
        """Return the verdict for machines."""
        return {
            "metric": self.metric,
            "baseline": self.before.corpus,
            "now": self.now.corpus,
            "drop": self.drop,
            "max_drop": self.max_drop,
            "interval": self.interval,
            "p": self.p,
            "unscored_baseline": self.before.unscored,
            "unscored": self.now.unscored,
            "signature": self.now.signature,
            "passed": self.is_passed,
        }
