"""Train an adem: from rated files and an encoder to a published version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from refaug.core.artefacts.build_stages import hash_of_inputs
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Usage
from refaug.core.files import make_folder, remove_tree, require_name
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.evaluation.adems.rated_files import RatedFile
from refaug.metrics.base import Floats
from refaug.metrics.statistics.correlation import Correlation, partial_spearman, pearson, spearman
from refaug.rater.adem.scorer.adem import KIND, save_adem
from refaug.rater.adem.scorer.encoding import DialogueEncoder, TripleVectors, VectorCache
from refaug.rater.adem.scorer.fitting import FittedScorer, Scorer, fit_scorer
from refaug.rater.adem.scorer.rated_triples import RatedTriples
from refaug.rater.adem.scorer.seen_texts import SeenTexts
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.rater.training.order import TrainedVersion

# ── how far the scores of a scorer spread, and how narrow the cone of its vectors is ──────────────────────────────────

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


# ── train an adem ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
    rated = RatedTriples.joined([file.rated for file in files])
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
    """Return the words of each reply."""
    return np.array([len(triple.reply.split()) for triple in rated.triples], dtype=np.float64)
