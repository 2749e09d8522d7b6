"""Fit ADEM to rated items: from test files and an encoder to a published scorer and its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from refaug.agreement.records import RatedItems
from refaug.agreement.row_scores import length_tokenizer
from refaug.agreement.rows import RatedRows, Row
from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import BadInput, Usage
from refaug.core.files import make_folder, remove_tree, require_name, sha256_of
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.judges.shared_contexts import context_keys, joined_numbers
from refaug.metrics.base import Floats
from refaug.metrics.statistics.agreement import RatedSet, drawn_correlations
from refaug.metrics.statistics.correlation import PARTIAL, Correlation, partial_spearman, pearson, spearman
from refaug.metrics.statistics.resampling import percentile_interval
from refaug.rater.adem.pretraining.build import ExcludedFile
from refaug.rater.adem.pretraining.dialogues import ExcludedTexts
from refaug.rater.adem.scorer.adem import KIND, save_adem
from refaug.rater.adem.scorer.fitting import (
    DialogueEncoder,
    FittedScorer,
    Scorer,
    TripleVectors,
    VectorCache,
    fit_scorer,
)
from refaug.rater.adem.scorer.rated_triples import LEAST, MOST, Form, RatedTriples, Triple, to_five
from refaug.rater.adem.scorer.seen_texts import SeenTexts
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.rater.training.order import TrainedVersion
from refaug.scoring.items import BadItem, read_items
from refaug.scoring.settings import MetaSettings

# ── The rated replies of test files, as ADEM's scorer learns from them ────────────────────────────────────────────────
#
# Only fair rows count: no replies that are one of their golds, and no references identical to the reply. A rating is
# the mean of the annotators, mapped linearly from the scale of its file to 1 … 5.

Scale = tuple[float, float]
_LIKERT: Final = (LEAST, MOST)


@dataclass(frozen=True, kw_only=True, eq=False)
class RatedFile:
    """The rows of one file that a scorer can learn from; `counts` say what was left out, and why."""

    name: str
    sha256: str
    scale: Scale
    rated: RatedTriples
    counts: Mapping[str, int]
    keys: frozenset[tuple[str, ...]]  # of its contexts, to see which files share some

    def facts(self) -> dict[str, object]:
        """Return what a report says of the file."""
        return {"name": self.name, "sha256": self.sha256, "scale": list(self.scale), **self.counts}

    def without_systems(self, systems: Sequence[str]) -> RatedFile:
        """Return the file without the replies of some systems."""
        rows = np.array([system not in systems for system in self.rated.systems], dtype=np.bool_)
        if not rows.any():
            raise BadInput(
                f"{self.name}: no reply is left without {', '.join(systems)}", remedy="leave fewer systems out"
            )
        return replace(self, rated=self.rated.select(np.flatnonzero(rows)))

    def fraction(self, share: float, seed: int) -> RatedFile:
        """Return a share of the contexts of the file, drawn by the seed; at least one."""
        contexts = np.unique(self.rated.contexts)
        order = np.random.default_rng([seed, 2]).permutation(contexts)
        chosen = order[: max(1, round(share * len(contexts)))]
        return replace(self, rated=self.rated.select(np.flatnonzero(np.isin(self.rated.contexts, chosen))))


def rated_file(
    name: str, items: Sequence[Item | BadItem], form: Form, *, sha256: str = "", scale: Scale | None = None
) -> RatedFile:
    """Return the rows of a file that a form can use; BadInput where a part that the form needs is missing throughout.

    `scale` is that of the ratings where the items name none.
    """
    rows = RatedRows.of(RatedItems(name=name, items=items), MetaSettings())
    ratings = np.array([float(np.nanmean(row)) for row in rows.ratings], dtype=np.float64)
    own_scale = _scale_of(name, rows.items, ratings, scale)
    triples, places, counts = list[Triple](), list[int](), {"without_context": 0, "without_gold": 0}
    for place, row in enumerate(rows.rows):
        triple = _triple(rows.items[row.item], row)
        if not rows.is_candidate[place]:
            continue
        if form.has_context and not any(turn.strip() for turn in triple.context):
            counts["without_context"] += 1
        elif form.has_reference and not triple.reference.strip():
            counts["without_gold"] += 1
        else:
            triples.append(triple)
            places.append(place)
    golds = int(rows.is_gold.sum())
    _require_parts(name, form, len(triples), counts)
    return RatedFile(
        name=name,
        sha256=sha256,
        scale=own_scale,
        rated=_with_shared_contexts(
            RatedTriples(
                triples=tuple(triples),
                ratings=to_five(ratings[places], own_scale),
                contexts=np.array([rows.rows[place].item for place in places], dtype=np.int64),
                systems=tuple(rows.rows[place].system for place in places),
            )
        ),
        counts={"rated": len(rows.rows), "golds_themselves": golds, **counts, "used": len(triples)},
        keys=frozenset(key for triple in triples for key in context_keys(triple.context, triple.reference)),
    )


def _triple(test_item: Item, row: Row) -> Triple:
    golds = (reference.text for reference in row.references if reference.source is Origin.GOLD)
    gold = next((text for text in golds if text.strip()), "")
    return Triple(context=test_item.turns, reference=gold, reply=row.reply)


def _require_parts(name: str, form: Form, used: int, counts: Mapping[str, int]) -> None:
    if used:
        return
    if counts["without_context"]:
        raise BadInput(
            f"{name}: no rated reply has a context, and the form {form.value} compares replies with it",
            remedy="--form reference needs none; or leave the file out",
        )
    if counts["without_gold"]:
        raise BadInput(
            f"{name}: no rated reply has a gold, and the form {form.value} compares replies with it",
            remedy="--form context needs none; or leave the file out",
        )
    raise BadInput(f"{name}: every rated reply is one of its golds", remedy="give ratings of systems' replies")


def _with_shared_contexts(rated: RatedTriples) -> RatedTriples:
    """Return the rows; contexts with the same texts are one, whatever numbers they have."""
    keys = (
        [*context_keys(triple.context, triple.reference), (str(number),)]
        for triple, number in zip(rated.triples, rated.contexts.tolist(), strict=True)
    )
    return replace(rated, contexts=joined_numbers(keys))


def _joined(files: Sequence[RatedFile]) -> RatedTriples:
    """Return the rows of files, whose contexts are numbered together."""
    return _with_shared_contexts(RatedTriples.joined([file.rated for file in files]))


# ── Scales ────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_scale(text: str) -> Scale:
    """Read LOW..HIGH, as the option of commands has it."""
    low, dots, high = text.partition("..")
    try:
        scale = float(low), float(high)
    except ValueError:
        scale = (np.nan, np.nan)
    if not (dots and np.isfinite(scale).all() and scale[0] < scale[1]):
        raise Usage(f"{text!r} is not a scale", remedy="the least and the most rating: --scale 0..4")
    return scale


def _scale_of(name: str, items: Sequence[Item], ratings: Floats, by_option: Scale | None) -> Scale:
    """Return the scale of a file: what its items name, else the option, else 1 to 5 where all ratings are in it."""
    named = {test_item.scale for test_item in items if test_item.ratings}
    if len(named) > 1:
        listed = ", ".join(sorted("none" if scale is None else f"{scale[0]:g} to {scale[1]:g}" for scale in named))
        raise BadInput(
            f"{name}: the items name different scales: {listed}", remedy="give items of one scale in one file"
        )
    scale = next(iter(named), None) or by_option or _LIKERT
    outside = ratings[(ratings < scale[0]) | (ratings > scale[1])]
    if len(outside):
        raise BadInput(
            f"{name}: a mean rating of {outside[0]:g} is outside the scale from {scale[0]:g} to {scale[1]:g}",
            remedy='give items their "scale", such as [0, 4], or --scale 0..4',
        )
    return scale


# ── How far the scores of a scorer spread, and how narrow the cone of its vectors is ──────────────────────────────────

_NEAR = 0.5  # on the scale from 1 to 5


def spread_of(scorer: Scorer, rated: RatedTriples, vectors: TripleVectors) -> Mapping[str, Any]:
    """Return the spread of scores on rated rows, and the conicity of each part before and after projection."""
    scores = scorer.score(vectors)
    spread = float(rated.ratings.std())
    form = scorer.bilinear.form
    kinds = [*(["context"] if form.has_context else []), *(["reference"] if form.has_reference else []), "reply"]
    raw = vectors.vectors.astype(np.float64)
    projected = scorer.projection.apply(raw)
    return {
        "rows": len(rated),
        "mean_score": float(scores.mean()),
        "mean_rating": float(rated.ratings.mean()),
        "sd_score_over_sd_rating": float(scores.std() / spread) if spread else None,
        "share_near_mean": float(np.mean(np.abs(scores - scores.mean()) <= _NEAR)),
        "conicity": {
            kind: {"encoder": conicity(raw[np.unique(places)]), "projected": conicity(projected[np.unique(places)])}
            for kind, places in zip(kinds, [*vectors.compared, vectors.replies], strict=True)
        },
    }


def conicity(vectors: Floats) -> float | None:
    """Return the mean cosine of vectors with their mean; None where the mean has no direction."""
    mean = vectors.mean(axis=0)
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(mean)
    has_direction = norms > np.finfo(np.float64).tiny
    return float(np.mean(vectors[has_direction] @ mean / norms[has_direction])) if has_direction.any() else None


# ── Train an adem ─────────────────────────────────────────────────────────────────────────────────────────────────────

_LISTED_SYSTEMS: Final = 20


@dataclass(frozen=True, kw_only=True)
class AdemOrder:
    """The order of an adem by name."""

    name: str
    settings: ScorerSettings = field(default_factory=ScorerSettings)
    without_systems: tuple[str, ...] = ()
    fraction: float = 1.0  # of the contexts of each file
    publish: bool = True

    def __post_init__(self) -> None:
        require_name(KIND, self.name)
        if not 0 < self.fraction <= 1:
            raise Usage(f"a fraction of {self.fraction:g}", remedy="above 0, at most 1")


@dataclass(frozen=True, kw_only=True)
class NamedEncoder:
    """An encoder with the id of its content, which the adem is bound to."""

    encoder: DialogueEncoder
    id: str


def train_adem(
    home: Settings,
    versions: Versions,
    order: AdemOrder,
    files: Sequence[RatedFile],
    named: NamedEncoder,
    progress: Progress,
) -> TrainedVersion:
    """Fit a scorer to rated files, and add it as a version; it takes seconds, so an interrupted run begins anew."""
    _require_systems(files, order.without_systems)
    files = [_selected(file, order) for file in files]
    rated = _joined(files)
    settings = order.settings
    vectors = VectorCache(named.encoder, settings.state).triple_vectors(rated.triples, settings.form, progress)
    progress.stage("fitting")
    fitted = fit_scorer(rated, vectors, settings)
    report = _report(order, files, rated, vectors, fitted)
    with versions.writing(order.name, f"training adem {order.name}") as writer:
        folder = home.cache / f"{KIND}-{order.name}-{_inputs_hash(order, files, named)[:12]}"
        remove_tree(folder)
        make_folder(folder)
        name = save_adem(
            folder,
            fitted.scorer,
            state=settings.state,
            encoder=named.encoder.spec,
            encoder_id=named.id,
            seen=SeenTexts.of(rated.triples),
            report=report,
            details={
                "inputs": _inputs_hash(order, files, named),
                "files": [file.facts() for file in files],
                "settings": settings.as_json(),
                "without_systems": list(order.without_systems),
                "fraction": order.fraction,
            },
        )
        version = writer.add(folder)
        if order.publish:
            writer.publish(version)
    return TrainedVersion(name=order.name, version=version, id=name, published=order.publish, report=report)


def _require_systems(files: Sequence[RatedFile], systems: Sequence[str]) -> None:
    """Raise Usage for a system that no rated reply is of: leaving it out would change nothing."""
    at_hand = sorted({system for file in files for system in file.rated.systems})
    if unknown := next((system for system in systems if system not in at_hand), None):
        listed = ", ".join(at_hand[:_LISTED_SYSTEMS]) + (", …" if len(at_hand) > _LISTED_SYSTEMS else "")
        raise Usage(f"no rated reply is of the system {unknown!r}", remedy=f"the systems are: {listed}")


def _selected(file: RatedFile, order: AdemOrder) -> RatedFile:
    if order.without_systems:
        file = file.without_systems(order.without_systems)
    return file if order.fraction == 1 else file.fraction(order.fraction, order.settings.seed)


def _inputs_hash(order: AdemOrder, files: Sequence[RatedFile], named: NamedEncoder) -> str:
    return hash_of_inputs(
        {
            "files": [file.sha256 for file in files],
            "encoder": named.id,
            "settings": order.settings.as_json(),
            "without_systems": list(order.without_systems),
            "fraction": order.fraction,
        }
    )


def _report(
    order: AdemOrder, files: Sequence[RatedFile], rated: RatedTriples, vectors: TripleVectors, fitted: FittedScorer
) -> dict[str, object]:
    """Return how the scorer was fitted, and how it does on the validation rows, which chose the epoch."""
    rows = fitted.validation_rows
    own, own_vectors = rated.select(rows), vectors.select(rows)
    return {
        **order.settings.as_json(),
        "files": [{"name": file.name, **file.counts} for file in files],
        "contexts": len(np.unique(rated.contexts)),
        **fitted.report(),
        "validation": {
            "trained": agreement_of(fitted.scorer.score(own_vectors), own),
            "untrained": agreement_of(fitted.untrained.score(own_vectors), own),
        },
        "spread": spread_of(fitted.scorer, own, own_vectors),
    }


def agreement_of(scores: Floats, rated: RatedTriples) -> Mapping[str, float | None]:
    """Return the correlations of scores with ratings; None where one is not defined."""
    figures: list[Correlation] = [
        spearman(scores, rated.ratings),
        pearson(scores, rated.ratings),
        partial_spearman(scores, rated.ratings, reply_lengths(rated)),
    ]
    names = ("spearman", "pearson", "partial_spearman")
    return {name: figure.value for name, figure in zip(names, figures, strict=True)}


def reply_lengths(rated: RatedTriples) -> Floats:
    """Return the words of each reply, counted as in tables of agreement."""
    replies = [triple.reply for triple in rated.triples]
    tokens = get_tokenizer(length_tokenizer(replies)).tokenize_batch(replies)
    return np.array([len(of_reply) for of_reply in tokens], dtype=np.float64)


# ── Agreement with people on files that a scorer was not fitted to, one group of files after the other ────────────────
#
# Files that share a context are one group, which is left out together: a scorer that has seen the context of a row,
# with another reply, is not asked about that row. Beside the scorer stand the controls that it must beat: the same
# scorer before training, and the length of the reply, fitted to the same ratings by a parabola.

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
        rated = _joined(rest)
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


# ── The texts of test files that a training must not see ──────────────────────────────────────────────────────────────


def excluded_file(path: Path) -> ExcludedFile:
    """Return a test file with its hash; its first item is read, so a file of another kind is refused at once."""
    if next(_items(path), None) is None:
        raise BadInput(f"{path} has no item", remedy="give a test file")
    return ExcludedFile(path=str(path.absolute()), sha256=sha256_of(path))


def read_excluded(files: Sequence[ExcludedFile]) -> ExcludedTexts:
    """Return the texts of test files; BadInput where one has changed since it was named, or has a bad item."""
    for file in files:
        if sha256_of(Path(file.path)) != file.sha256:
            raise BadInput(f"{file.path} has changed since the training was ordered", remedy="train anew")
    return ExcludedTexts.of(test_item for file in files for test_item in _items(Path(file.path)))


def _items(path: Path) -> Iterator[Item]:
    for test_item in read_items(path):
        if isinstance(test_item, BadItem):
            raise BadInput(str(test_item), remedy="correct or remove it: its texts could not be excluded")
        yield test_item
