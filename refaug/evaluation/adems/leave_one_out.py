"""Agreement with people on files that a scorer was not fitted to, one group of files after the other.

Files that share a context are one group, which is left out together: a scorer that has seen the context of a row, with
another reply, is not asked about that row. Beside the scorer stand the controls that it must beat: the same scorer
before training, and the length of the reply, fitted to the same ratings by a parabola.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.evaluation.adems.rated_files import RatedFile
from refaug.evaluation.adems.training import reply_lengths
from refaug.metrics.base import Floats
from refaug.metrics.statistics.agreement import RatedSet, drawn_correlations
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.metrics.statistics.resampling import percentile_interval
from refaug.rater.adem.scorer.encoding import DialogueEncoder, VectorCache
from refaug.rater.adem.scorer.fitting import fit_scorer
from refaug.rater.adem.scorer.rated_triples import RatedTriples
from refaug.rater.adem.scorer.settings import ScorerSettings

TRAINED, UNTRAINED, LENGTH = "adem", "before training", "length alone"
KINDS: Final = ("spearman", PARTIAL, "pearson")
_LEVEL: Final = 0.95


@dataclass(frozen=True, kw_only=True)
class LineFigure:
    """A correlation with its interval over draws of contexts; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """Return the numbers."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class LeftOutFile:
    """A file, what its scorer was fitted to, and the figures of each line."""

    name: str
    group: tuple[str, ...]  # the files left out together
    trained_on: tuple[str, ...]
    rows: int
    contexts: int
    figures: dict[str, dict[str, LineFigure]]  # line → kind of correlation

    def as_json(self) -> dict[str, object]:
        """Return the figures as JSON."""
        figures = {
            line: {kind: figure.as_json() for kind, figure in kinds.items()} for line, kinds in self.figures.items()
        }
        return {
            "name": self.name,
            "left_out": list(self.group),
            "trained_on": list(self.trained_on),
            "rows": self.rows,
            "contexts": self.contexts,
            "figures": figures,
        }


def leave_one_out(
    files: Sequence[RatedFile],
    encoder: DialogueEncoder,
    settings: ScorerSettings,
    *,
    draws: int,
    seed: int,
    progress: Progress,
) -> Iterator[LeftOutFile]:
    """Yield the figures of each file by a scorer that was fitted to all files of other groups."""
    groups = file_groups(files)
    if len(groups) < 2:
        raise BadInput(
            f"{', '.join(file.name for file in files)}: one group, for all of them share contexts",
            remedy="give files of other dialogues as well: nothing is left to train on without them",
        )
    cache = VectorCache(encoder, settings.state)
    for group in groups:
        rest = [file for file in files if file not in group]
        rated = RatedTriples.joined([file.rated for file in rest])
        fitted = fit_scorer(rated, cache.triple_vectors(rated.triples, settings.form, progress), settings)
        length = length_model(rated)
        for file in group:
            vectors = cache.triple_vectors(file.rated.triples, settings.form, progress)
            scores = {
                TRAINED: fitted.scorer.score(vectors),
                UNTRAINED: fitted.untrained.score(vectors),
                LENGTH: length(reply_lengths(file.rated)),
            }
            yield LeftOutFile(
                name=file.name,
                group=tuple(left_out.name for left_out in group),
                trained_on=tuple(other.name for other in rest),
                rows=len(file.rated),
                contexts=len(np.unique(file.rated.contexts)),
                figures=_figures(scores, file.rated, draws=draws, seed=seed),
            )


def file_groups(files: Sequence[RatedFile]) -> list[list[RatedFile]]:
    """Return the files in groups; two that share a context, directly or through others, are in one."""
    groups = list[list[RatedFile]]()
    for file in files:
        joined = [group for group in groups if any(file.keys & other.keys for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), file])
    return groups


class LengthModel:
    """Predicts a rating from the length of a reply by a parabola in its logarithm."""

    def __init__(self, coefficients: Floats) -> None:
        self._coefficients = coefficients

    def __call__(self, lengths: Floats) -> Floats:
        """Return the predicted ratings."""
        return np.asarray(np.polyval(self._coefficients, np.log1p(lengths)))


def length_model(rated: RatedTriples) -> LengthModel:
    """Fit ratings by the length of replies."""
    lengths = np.log1p(reply_lengths(rated))
    degree = min(2, len(np.unique(lengths)) - 1)
    return LengthModel(np.polyfit(lengths, rated.ratings, degree))


def _figures(
    scores: dict[str, Floats], rated: RatedTriples, *, draws: int, seed: int
) -> dict[str, dict[str, LineFigure]]:
    rated_set = RatedSet(np.stack(list(scores.values())), rated.ratings, rated.contexts, reply_lengths(rated))
    figures: dict[str, dict[str, LineFigure]] = {line: {} for line in scores}
    for kind in KINDS:
        drawn = drawn_correlations(rated_set, kind, draws=draws, seed=[seed])
        for place, line in enumerate(scores):
            figures[line][kind] = _figure(float(drawn.points[place]), drawn.draws[place])
    return figures


def _figure(point: float, drawn: Floats) -> LineFigure:
    if not np.isfinite(point):
        return LineFigure(value=None)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < len(drawn) / 2:
        return LineFigure(value=point)
    low, high = percentile_interval(defined, _LEVEL)
    return LineFigure(value=point, low=low, high=high)
