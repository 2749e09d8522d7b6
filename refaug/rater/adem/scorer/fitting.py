"""Fit the matrices of a scorer to ratings: projection, constants, then Adam on batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from refaug.core.errors import BadInput
from refaug.core.progress import Progress
from refaug.rater.adem.scorer.bilinear import Bilinear, ProjectedRows, matrix_facts, root_mean_squared_error
from refaug.rater.adem.scorer.rated_triples import Floats, Form, Indexes, RatedTriples, Triple, rating_levels
from refaug.rater.adem.scorer.settings import FEWEST_ROWS, BalancedRows, ScorerSettings, State, balance_rows

# ── A scorer's encoder, and the vectors of triples: every distinct text is read once ──────────────────────────────────

Vectors = NDArray[np.float32]
_ENCODED_AT_ONCE: Final = 512  # dialogues between two reports of progress


class DialogueEncoder(Interface):
    """A frozen network that turns dialogues into vectors; a text alone is a dialogue of one turn."""

    @property
    def spec(self) -> str:
        """The name, version and content of the network, for signatures."""

    def encode(self, dialogues: Sequence[Sequence[str]], *, state: State) -> Vectors:
        """Return a vector for each dialogue, in order: (dialogues, dimensions)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TripleVectors:
    """The vectors of distinct dialogues, and the place of each part of each triple among them."""

    vectors: Vectors  # (dialogues, dimensions)
    compared: Indexes  # (terms, rows): contexts, references, or both in this order
    replies: Indexes  # (rows,)

    def select(self, rows: Indexes) -> TripleVectors:
        """Return these rows; the vectors stay."""
        return TripleVectors(vectors=self.vectors, compared=self.compared[:, rows], replies=self.replies[rows])

    def counts(self, row_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how often each vector stands in rows that count so often, over all parts of the rows."""
        totals = np.bincount(self.replies, weights=row_counts, minlength=len(self.vectors)).astype(np.float64)
        for places in self.compared:
            totals += np.bincount(places, weights=row_counts, minlength=len(self.vectors))
        return totals


class VectorCache:
    """Vectors of dialogues by their turns, so that forms and folds that share texts encode them once."""

    def __init__(self, encoder: DialogueEncoder, state: State) -> None:
        self._encoder, self._state = encoder, state
        self._vectors = dict[tuple[str, ...], Vectors]()

    def triple_vectors(self, triples: Sequence[Triple], form: Form, progress: Progress | None = None) -> TripleVectors:
        """Return the vectors of triples for a form."""
        parts = list[list[tuple[str, ...]]]()
        if form.has_context:
            parts.append([triple.context for triple in triples])
        if form.has_reference:
            parts.append([(triple.reference,) for triple in triples])
        parts.append([(triple.reply,) for triple in triples])
        dialogues = dict.fromkeys(dialogue for part in parts for dialogue in part)
        self._encode_new(dialogues, progress)
        number_of = {dialogue: number for number, dialogue in enumerate(dialogues)}
        places = np.array([[number_of[dialogue] for dialogue in part] for part in parts], dtype=np.int64)
        vectors = np.stack([self._vectors[dialogue] for dialogue in dialogues])
        return TripleVectors(vectors=vectors, compared=places[:-1], replies=places[-1])

    def _encode_new(self, dialogues: Iterable[tuple[str, ...]], progress: Progress | None) -> None:
        new = [dialogue for dialogue in dialogues if dialogue not in self._vectors]
        if progress is not None and new:
            progress.stage("encoding texts", len(new), "texts")
        new.sort(key=lambda turns: sum(map(len, turns)))  # batches of like lengths
        for first in range(0, len(new), _ENCODED_AT_ONCE):
            chunk = new[first : first + _ENCODED_AT_ONCE]
            self._vectors |= zip(chunk, self._encoder.encode(chunk, state=self._state), strict=True)
            if progress is not None:
                progress.advance(len(chunk))


# ── Principal components: the directions in which the vectors of an encoder differ most ───────────────────────────────


@dataclass(frozen=True, kw_only=True, eq=False)
class PrincipalComponents:
    """Centred, unwhitened principal components of vectors; the share of the variance of each is in `shares`."""

    mean: Floats  # (dimensions,)
    components: Floats  # (components, dimensions), of length 1, those of most variance first
    shares: Floats  # (components,)

    @classmethod
    def fit(cls, vectors: Floats, counts: Floats, components: int) -> PrincipalComponents:
        """Return the components of vectors, each of which counts as often as `counts` says.

        The eigenvectors come from a symmetric solver in float64. Their sign is not determined by the variance, so the
        entry of the largest size is made positive; the first one where several are equally large.
        """
        rows, dimensions = vectors.shape
        if not 1 <= components <= min(rows, dimensions):
            raise BadInput(
                f"{components} components of {rows:,} vectors of {dimensions:,} numbers",
                remedy=f"at most {min(rows, dimensions):,}, or an encoder with longer vectors",
            )
        total = counts.sum()
        mean = counts @ vectors / total
        centred = vectors - mean
        covariance = (centred * counts[:, None]).T @ centred / total
        variances, directions = np.linalg.eigh(covariance)
        order = np.argsort(variances, kind="stable")[::-1][:components]
        chosen = directions[:, order].T
        largest = np.abs(chosen).argmax(axis=1)
        signs = np.where(chosen[np.arange(components), largest] < 0, -1.0, 1.0)
        everything = max(float(np.maximum(variances, 0).sum()), np.finfo(np.float64).tiny)
        return cls(mean=mean, components=chosen * signs[:, None], shares=np.maximum(variances[order], 0) / everything)

    def apply(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors: (rows, dimensions) → (rows, components)."""
        return np.asarray((vectors - self.mean) @ self.components.T)


# ── Fit the matrices of a scorer to ratings: projection, constants, then Adam on batches ──────────────────────────────

_DECAYS: Final = (0.9, 0.999)
_EPSILON: Final = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """A fitted scorer: vectors of an encoder in, scores out."""

    projection: PrincipalComponents
    bilinear: Bilinear

    def score(self, vectors: TripleVectors) -> Floats:
        """Return the score of each row."""
        return self.bilinear.score(project(self.projection, vectors))


@dataclass(frozen=True, kw_only=True)
class FitEpoch:
    """The errors after one epoch."""

    epoch: int
    train_error: float  # root mean squared, over the balanced rows
    validation_error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedScorer:
    """A scorer with how it was fitted."""

    scorer: Scorer
    untrained: Scorer  # the same projection and constants, the matrices still identities
    epochs: tuple[FitEpoch, ...]
    best_epoch: int
    balanced: BalancedRows
    train_rows: Indexes
    validation_rows: Indexes

    def report(self) -> dict[str, object]:
        """Return how the scorer was fitted, for its report."""
        bilinear, best = self.scorer.bilinear, self.epochs[self.best_epoch - 1]
        return {
            "train_rows": len(self.train_rows),
            "validation_rows": len(self.validation_rows),
            "balance": self.balanced.report(),
            "components_share": float(self.scorer.projection.shares.sum()),
            "constants": {"m": bilinear.centre, "R": bilinear.span, "alpha": bilinear.alpha, "beta": bilinear.beta},
            "matrices": matrix_facts(bilinear.matrices),
            "epochs": len(self.epochs),
            "best_epoch": self.best_epoch,
            "train_error": best.train_error,
            "validation_error": best.validation_error,
        }


def project(projection: PrincipalComponents, vectors: TripleVectors) -> ProjectedRows:
    """Return the projected vectors of rows."""
    projected = projection.apply(vectors.vectors.astype(np.float64))
    return ProjectedRows(compared=projected[vectors.compared], replies=projected[vectors.replies])


def split_contexts(contexts: Indexes, settings: ScorerSettings) -> tuple[Indexes, Indexes]:
    """Return the rows to train on and those to validate on; no context is on both sides.

    `released` takes the last contexts of the file, `paper` draws them.
    """
    order = np.unique(contexts)
    if not settings.is_released:
        order = np.random.default_rng(settings.seed).permutation(order)
    train_count = int(len(order) * (1 - settings.validation_share))
    is_train = np.isin(contexts, order[:train_count])
    if is_train.all() or not is_train.any():
        raise BadInput(
            f"{len(order):,} contexts are too few to train on some and to validate on others",
            remedy="give rated replies of more contexts, or another validation share",
        )
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


def require_enough(rated: RatedTriples) -> None:
    """Raise BadInput where the ratings say too little to learn from."""
    if len(rated) < FEWEST_ROWS:
        raise BadInput(
            f"{len(rated):,} rated replies can be used", remedy=f"at least {FEWEST_ROWS}: give more rated items"
        )
    if len(np.unique(rating_levels(rated.ratings))) < 2:
        raise BadInput(
            f"all {len(rated):,} replies are rated alike, {rated.ratings[0]:g} on the scale from 1 to 5",
            remedy="give ratings that differ",
        )


def fit_scorer(rated: RatedTriples, vectors: TripleVectors, settings: ScorerSettings) -> FittedScorer:
    """Fit a scorer to rated triples with these vectors."""
    require_enough(rated)
    train, validation = split_contexts(rated.contexts, settings)
    replies = tuple(rated.triples[row].reply for row in train.tolist())
    balanced = balance_rows(replies, rated.ratings[train], settings.balance)
    own = vectors.select(train)
    projection = PrincipalComponents.fit(
        vectors.vectors.astype(np.float64), own.counts(balanced.counts), settings.components
    )
    train_rows = project(projection, own)
    untrained = Bilinear.initial(settings.form, train_rows, balanced.counts)
    course = _Course(
        train=train_rows.select(balanced.rows),
        ratings=rated.ratings[train][balanced.rows],
        validation=project(projection, vectors.select(validation)),
        validation_ratings=rated.ratings[validation],
        settings=settings,
    )
    trained, epochs, best_epoch = course.run(untrained)
    return FittedScorer(
        scorer=Scorer(projection=projection, bilinear=trained),
        untrained=Scorer(projection=projection, bilinear=untrained),
        epochs=tuple(epochs),
        best_epoch=best_epoch,
        balanced=balanced,
        train_rows=train,
        validation_rows=validation,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Course:
    """The rows of one fit, and its steps."""

    train: ProjectedRows
    ratings: Floats
    validation: ProjectedRows
    validation_ratings: Floats
    settings: ScorerSettings

    def run(self, scorer: Bilinear) -> tuple[Bilinear, list[FitEpoch], int]:
        """Train; return the scorer of the epoch with the least error on validation, all epochs, and that epoch."""
        generator = np.random.default_rng([self.settings.seed, 1])
        adam, best, epochs, best_epoch = _Adam(scorer.matrices.shape), scorer, list[FitEpoch](), 0
        for epoch in range(1, self.settings.epochs + 1):
            for batch in self._batches(generator):
                slope = scorer.gradient(
                    self.train.select(batch), self.ratings[batch], self.settings.penalty, self.settings.norm
                )
                scorer = scorer.with_matrices(scorer.matrices - adam.step(slope, self.settings.learning_rate))
            figures = FitEpoch(
                epoch=epoch,
                train_error=root_mean_squared_error(scorer.score(self.train), self.ratings),
                validation_error=root_mean_squared_error(scorer.score(self.validation), self.validation_ratings),
            )
            epochs.append(figures)
            if best_epoch == 0 or figures.validation_error < epochs[best_epoch - 1].validation_error:
                best, best_epoch = scorer, epoch
            if self.settings.patience is not None and epoch - best_epoch >= self.settings.patience:
                break
        return best, epochs, best_epoch

    def _batches(self, generator: np.random.Generator) -> Iterator[Indexes]:
        """Yield the rows of each batch of an epoch."""
        count, size = len(self.ratings), self.settings.batch
        if not self.settings.is_released:
            order = generator.permutation(count)
            for first in range(0, count, size):
                yield order[first : first + size]
            return
        if count < size:
            raise BadInput(
                f"{count:,} rows fill no batch of {size}, and the released protocol takes full ones alone",
                remedy="give more rated rows, or --protocol paper",
            )
        for place in generator.permutation(count // size).tolist():
            yield np.arange(place * size, (place + 1) * size, dtype=np.int64)


class _Adam:
    """Adam in the form of the library that the released code uses: ε beside the uncorrected root."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._first, self._second, self._steps = np.zeros(shape), np.zeros(shape), 0

    def step(self, slope: Floats, rate: float) -> Floats:
        """Return what is to be subtracted from the parameters."""
        self._steps += 1
        first_decay, second_decay = _DECAYS
        self._first += (1 - first_decay) * (slope - self._first)
        self._second += (1 - second_decay) * (slope**2 - self._second)
        corrected = rate * np.sqrt(1 - second_decay**self._steps) / (1 - first_decay**self._steps)
        return np.asarray(corrected * self._first / (np.sqrt(self._second) + _EPSILON))
