"""Whether a dialogue model has become worse: its scores beside those of a baseline, over the same items.

A baseline is a file of JSON with the scores, what they depend on, and the replies themselves, so that a later run can
have the server test the two against each other on the same items. Scores against a frozen set do not change by
themselves; where signatures differ, nothing is compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ._models import MetricScores, Scores
from ._rows import BadFile, Replied, kind, why
from ._version import VERSION

FORMAT = "refaug-client baseline"
FORMAT_VERSION = 1
BASELINE, NOW = "baseline", "now"  # what the two are called where the server compares them
_ROUNDING = 1e-12  # sums of floats: 0.3 - 0.29 is no more than 0.01


@dataclass(frozen=True)
class Figures:
    """What one metric says of a system."""

    signature: str  # in full: all that the numbers depend on
    corpus: float
    scored: int
    unscored: int
    higher_is_better: bool


@dataclass(frozen=True)
class Baseline:
    """Replies, what they are to, and their scores by metric, as it was asked for."""

    set: str
    items: list[str]
    replies: list[Optional[str]]
    metrics: dict[str, Figures]

    @classmethod
    def of(cls, set_id: str, asked: Sequence[str], replied: Replied, scores: Scores) -> Baseline:
        """What to compare later runs with; of the one system that there is."""
        (name, replies), *_ = replied.systems.items()
        figures = {spec: figures_of(found, name) for spec, found in zip(asked, scores.scores)}
        return cls(set_id, list(replied.items), list(replies), figures)

    def as_text(self) -> str:
        """The file, readable enough to be looked at in a change."""
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
        """A baseline out of its file; BadFile where it is none."""
        try:
            text = Path(path).read_text("utf-8")
        except FileNotFoundError as error:
            raise BadFile(f"{path}: there is no baseline", remedy="--write-baseline makes one") from error
        except (OSError, ValueError) as error:
            raise BadFile(f"{path}: {why(error)}") from error
        try:
            return cls._of(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadFile(
                f"{path}: no baseline that this version can read: {error}", remedy="--write-baseline makes a new one"
            ) from error

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Baseline:
        if found["format"] != FORMAT or found["format_version"] != FORMAT_VERSION:
            raise ValueError(f"its format is {found['format']!r}, {found['format_version']!r}")
        metrics = {spec: _figures(figures) for spec, figures in found["metrics"].items()}
        items, replies = _texts(found["items"]), _texts(found["replies"], or_none=True)
        if len(items) != len(replies):
            raise ValueError(f"{len(items):,} items and {len(replies):,} replies")
        return cls(str(found["set"]), items, replies, metrics)

    def require_same(self, set_id: str, asked: Sequence[str], items: Sequence[str]) -> None:
        """BadFile where the two cannot be compared."""
        if set_id != self.set:
            raise BadFile(f"the baseline is against the set {self.set}, and not {set_id}", remedy=_AGAIN)
        for spec in asked:
            if spec not in self.metrics:
                raise BadFile(f"the baseline has no {spec}; it has {', '.join(self.metrics)}", remedy=_AGAIN)
        if list(items) != self.items:
            raise BadFile(f"the baseline answers {_difference(self.items, items)}", remedy=_AGAIN)


_AGAIN = "--write-baseline for a new one, with the replies that new runs are to be compared with"


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    if len(before) != len(now):
        return f"{len(before):,} items, and these replies {len(now):,}"
    if sorted(before) == sorted(now):
        return "the same items in another order"
    place = next(place for place, (old, new) in enumerate(zip(before, now)) if old != new)
    return f"other items: {before[place]!r} where these replies answer {now[place]!r}"


def _texts(value: Any, *, or_none: bool = False) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{kind(value)} where a list should be")
    for one in value:
        if not (isinstance(one, str) or (or_none and one is None)):
            raise TypeError(f"{kind(one)} where a text should be")
    return value


def _figures(value: Mapping[str, Any]) -> Figures:
    found = Figures(**{name: value[name] for name in Figures.__dataclass_fields__})
    numbers = (found.corpus, found.scored, found.unscored)
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers):
        raise TypeError("a figure is no number")
    if not isinstance(found.signature, str) or not isinstance(found.higher_is_better, bool):
        raise TypeError("a signature or direction is none")
    return found


def figures_of(scores: MetricScores, system: str) -> Figures:
    """What a metric says of a system; BadFile where that is nothing."""
    found = scores[system]
    if found.corpus is None:
        raise BadFile(f"{scores.metric}: none of the {found.unscored:,} replies has a score")
    return Figures(scores.signature_full, found.corpus, found.scored, found.unscored, scores.higher_is_better)


@dataclass(frozen=True)
class Verdict:
    """One metric, now and before."""

    metric: str
    before: Figures
    now: Figures
    max_drop: float
    max_p: Optional[float] = None
    interval: Optional[list[float]] = None  # of the difference
    p: Optional[float] = None

    @classmethod
    def of(
        cls, spec: str, before: Figures, scores: MetricScores, system: str, *, max_drop: float, max_p: Optional[float]
    ) -> Verdict:
        """The same out of scores of now, and a comparison where the server made one."""
        now = figures_of(scores, system)
        if now.signature != before.signature:
            raise BadFile(
                f"{spec}: scores that cannot be compared: the baseline's are {before.signature}, and these are "
                f"{now.signature}",
                remedy=_AGAIN,
            )
        compared = (scores.comparisons or {}).get(system)
        return cls(
            spec,
            before,
            now,
            max_drop,
            max_p,
            None if compared is None else compared.interval,
            None if compared is None else compared.p_randomisation,
        )

    @property
    def drop(self) -> float:
        """By how much it has become worse; less than nothing where it is better."""
        lost = self.before.corpus - self.now.corpus
        return lost if self.now.higher_is_better else -lost

    @property
    def is_worse(self) -> bool:
        """Whether it fell further than it may, and not by chance where that was asked."""
        if self.drop <= self.max_drop + _ROUNDING:
            return False
        return self.max_p is None or self.p is None or self.p < self.max_p

    @property
    def has_gaps(self) -> bool:
        """Whether fewer replies have a score, which a mean over those that have one would not show."""
        return self.now.unscored > self.before.unscored

    @property
    def is_passed(self) -> bool:
        """Whether all is well."""
        return not self.is_worse and not self.has_gaps

    def sentence(self) -> str:
        """What is to be said of it."""
        went = "is" if self.drop == 0 else "fell to" if self.now.corpus < self.before.corpus else "rose to"
        said = f"{self.metric} {went} {self.now.corpus:.4f}"
        if self.drop:
            said += f" from {self.before.corpus:.4f}, by {abs(self.drop):.4f}"
        if self.p is not None:
            said += f" (p = {self.p:.3g})"
        if self.has_gaps:
            more = self.now.unscored - self.before.unscored
            said += f"; {more:,} more {'reply has' if more == 1 else 'replies have'} no score"
        if self.is_worse:
            return f"{said}: more than the {self.max_drop:g} that it may get worse by"
        if self.drop > self.max_drop + _ROUNDING:
            said += f": no more than chance does, at p < {self.max_p:g}"
        return said

    def as_dict(self) -> dict[str, Any]:
        """The same for machines."""
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
