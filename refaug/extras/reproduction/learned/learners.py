"""What is learnt from ratings: ADEM in its forms, and the controls that it has to beat.

Every learner has settings that its own folds choose, over contexts inside the rows that it is fitted to: by the mean
over folds of Spearman with length held fixed, which is what is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from refaug.core.options.decoding import made_of
from refaug.core.records import Reference
from refaug.extras.judges.bindings import with_likelihoods
from refaug.extras.reproduction.figures.correlations import Line
from refaug.extras.reproduction.learned.rated_rows import LearnedRows, LearnedSet, learned_sets
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.metric_lines import build_soft_match
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import ONE, Pool, line_of
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.specification import Specification, build
from refaug.metrics.statistics.correlation import partial_spearman
from refaug.rater.adem.pretraining.build import VhredOrder, pretrain_vhred
from refaug.rater.adem.pretraining.dialogues import WindowSettings
from refaug.rater.adem.scorer.fitting import DialogueEncoder, VectorCache, fit_scorer
from refaug.rater.adem.scorer.rated_triples import Form, Indexes
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.rater.adem.vhred.sizes import PRESETS, VhredConfig
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.training.loop import TrainConfig
from refaug.scoring.home.torch_networks import open_vhred, vhred_places

COMPONENTS: Final = (10, 20, 50)
PENALTIES: Final = (0.02, 0.075, 0.3)
RIDGES: Final = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
_FOLDS: Final = 3

Predict = Callable[[LearnedRows], Floats]
Chosen = Mapping[str, Any]


class Learner(Protocol):
    """Something that is fitted to rated rows."""

    def choices(self) -> Sequence[Chosen]:
        """Return the settings that folds choose from."""

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Return a function that scores rows."""


def choose(learner: Learner, rows: LearnedRows, seed: int) -> Chosen:
    """Return the settings of the best mean partial Spearman over folds of contexts; the first of equal ones."""
    choices = list(learner.choices())
    if len(choices) == 1:
        return choices[0]
    folds = context_folds(rows.rated.contexts, _FOLDS, seed)
    means = [np.mean([_held_out(learner, rows, chosen, fold, seed) for fold in folds]) for chosen in choices]
    return choices[int(np.argmax(means))]


def _held_out(learner: Learner, rows: LearnedRows, chosen: Chosen, fold: Indexes, seed: int) -> float:
    is_held_out = np.zeros(len(rows), dtype=np.bool_)
    is_held_out[fold] = True
    predict = learner.fit(rows.select(np.flatnonzero(~is_held_out)), chosen, seed)
    held_out = rows.select(fold)
    figure = partial_spearman(predict(held_out), held_out.rated.ratings, held_out.lengths)
    return 0.0 if figure.value is None else figure.value


def context_folds(contexts: Indexes, count: int, seed: int) -> list[Indexes]:
    """Return the rows of each of so many folds; no context is in two of them."""
    order = np.random.default_rng([seed, 3]).permutation(np.unique(contexts))
    return [np.flatnonzero(np.isin(contexts, part)) for part in np.array_split(order, count)]


@dataclass(frozen=True, kw_only=True)
class AdemLearner:
    """ADEM on the vectors of an encoder; untrained, the constants and components are fitted but not the matrices."""

    cache: VectorCache
    settings: ScorerSettings
    is_trained: bool = True
    is_published: bool = False  # nothing is chosen: 50 components, a penalty of .075
    has_shuffled_labels: bool = False

    def choices(self) -> Sequence[Chosen]:
        """Return numbers of components with penalties; before training the penalty plays no part."""
        if self.is_published:
            return [{"components": self.settings.components, "penalty": self.settings.penalty}]
        if not self.is_trained:
            return [{"components": self.settings.components}]
        return [
            {"components": components, "penalty": penalty} for components, penalty in product(COMPONENTS, PENALTIES)
        ]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Fit projection, constants and matrices."""
        form = self.settings.form
        rated = rows.rated
        if self.has_shuffled_labels:
            rated = replace(rated, ratings=np.random.default_rng([seed, 4]).permutation(rated.ratings))
        vectors = self.cache.triple_vectors(rated.triples, form)
        smallest = min(vectors.vectors.shape)
        settings = replace(
            self.settings,
            **{**chosen, "components": min(int(chosen["components"]), smallest)},
            seed=seed,
            epochs=self.settings.epochs if self.is_trained else 1,
        )
        fitted = fit_scorer(rated, vectors, settings)
        scorer = fitted.scorer if self.is_trained else fitted.untrained
        return lambda other: scorer.score(self.cache.triple_vectors(other.rated.triples, form))


@dataclass(frozen=True, kw_only=True)
class RidgeLearner:
    """Ridge regression of ratings on features of rows, each scaled to mean 0 and deviation 1."""

    features: Callable[[LearnedRows], Floats]

    def choices(self) -> Sequence[Chosen]:
        """Return weights of the penalty."""
        return [{"ridge": ridge} for ridge in RIDGES]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Solve the normal equations; the intercept is not penalised."""
        del seed
        features = self.features(rows)
        mean, deviation = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-9)
        scaled = (features - mean) / deviation
        ratings = rows.rated.ratings
        matrix = scaled.T @ scaled + float(chosen["ridge"]) * np.eye(scaled.shape[1])
        weights = np.linalg.solve(matrix, scaled.T @ (ratings - ratings.mean()))
        return lambda other: np.asarray((self.features(other) - mean) / deviation @ weights + ratings.mean())


@dataclass(frozen=True, kw_only=True)
class LengthLearner:
    """A parabola in the logarithm of the length of the reply, and nothing else."""

    def choices(self) -> Sequence[Chosen]:
        """Return nothing to choose."""
        return [{}]

    def fit(self, rows: LearnedRows, chosen: Chosen, seed: int) -> Predict:
        """Fit the parabola by least squares."""
        del chosen, seed
        coefficients = np.polyfit(np.log1p(rows.lengths), rows.rated.ratings, 2)
        return lambda other: np.asarray(np.polyval(coefficients, np.log1p(other.lengths)))


# ── The encoders that ADEM is tried with: a pre-trained encoder, if the home has it, and drawn ones as a control ──────

TRAINED, RANDOM = "pre-trained", "random"
_DRAWN: Final = 5  # encoders with other weights


@dataclass(frozen=True, kw_only=True)
class NamedEncoders:
    """Encoders of one kind, one for each seed."""

    name: str
    encoders: tuple[DialogueEncoder, ...]


def encoders_of(chain: Chain) -> list[NamedEncoders]:
    """Return the pre-trained encoder that the run names, if any, and drawn ones of the preset of the run."""
    kinds = list[NamedEncoders]()
    if chain.settings.vhred is not None:
        encoder = open_vhred(chain.home, chain.settings.vhred, threads=chain.settings.threads)
        chain.note("vhred", encoder.spec)
        kinds.append(NamedEncoders(name=TRAINED, encoders=(encoder,)))
    drawn = tuple(_drawn_encoder(chain, seed) for seed in range(1, min(_DRAWN, chain.settings.seeds) + 1))
    return [*kinds, NamedEncoders(name=RANDOM, encoders=drawn)]


def _drawn_encoder(chain: Chain, seed: int) -> DialogueEncoder:
    """Return an encoder with drawn weights; its pieces are learnt from the everyday logs."""
    sizes, windows = PRESETS[chain.settings.preset], WindowSettings()  # of no batches, since nothing is trained
    order = VhredOrder(
        name=chain.artefact_name(f"proof-random-{chain.settings.preset}-{seed}"),
        logs=chain.logs(chain.everyday),
        model=made_of(VhredConfig, sizes, cell="random"),
        training=TrainConfig(epochs=windows.rounds, seed=seed, threads=chain.settings.threads),
        windows=windows,
        pieces=sizes.pieces,
    )
    version = pretrain_vhred(vhred_places(chain.home), order, chain.progress)
    encoder = open_vhred(chain.home, f"{version.name}@{version.version}", threads=chain.settings.threads)
    chain.note(f"vhred random {seed}", encoder.spec)
    return encoder


# ── Judges that have seen no ratings, as lines beside those that are fitted to them ───────────────────────────────────

RATER, GREEDY = "rater as it is", "greedy match with the gold"
RATER_ALONE, UPSILON_ALONE = "rater as it is, without a gold", "υ-greedy, without a gold"
LIKELIHOOD: Final = "likelihood: mutual information a piece"
_ABOUT_RATER: Final = "the rating of the reply by a rater of the everyday logs, which has seen no rating of people"
_ABOUT_RATER_ALONE: Final = "the same, without the gold: it reads an empty text in its place"
_REFERENCES: Final = 15
_ABOUT_GREEDY: Final = "greedy matching of word vectors with the first gold, published 25-d vectors"


def rater_line(rater: Rater, sets: Sequence[ProofSet]) -> Line:
    """Return the ratings that a rater gives to replies, by the utterance and the gold."""
    scores = {learned.name: learned.spread(_ratings(rater, learned)[None]) for learned in learned_sets(sets, Form.FULL)}
    return Line(name=RATER, scores=scores, about=_ABOUT_RATER)


def _ratings(rater: Rater, learned: LearnedSet) -> Floats:
    requests = [
        RatingRequest(
            utterance=triple.context[-1], golds=(triple.reference,), candidates=(Reference(text=triple.reply),)
        )
        for triple in learned.fair_rows.rated.triples
    ]
    return np.array([ratings[0] for ratings in rater.rate(requests)], dtype=np.float64)


def goldless_lines(chain: Chain, rater: Rater | None, sets: Sequence[ProofSet]) -> Iterator[Line]:
    """Yield the judges that need no gold: the rater's rating, and soft matches with what people said in such places."""
    if rater is None:
        return
    dropped = [rated_set.without_golds() for rated_set in sets]
    yield line_of(RATER_ALONE, dropped, chain.bind_rater(build("rater:refs=none"), rater), about=_ABOUT_RATER_ALONE)
    chain.progress.stage("references by the utterance", len(dropped), "sets")
    pools = dict[str, Pool]()
    for rated_set in dropped:
        pools[rated_set.name] = chain.pool(
            rated_set, chain.main_index(), rater, mode="bm25-utterance", deep=_REFERENCES, gold="none"
        )
        chain.progress.advance(1)
    yield line_of(
        UPSILON_ALONE,
        dropped,
        build_soft_match(chain, agg="best"),
        lambda rated_set, seed: pools[rated_set.name].extras(ONE, k=_REFERENCES, parrot=False, seed=seed),
        about=f"soft matches with the nearest of {_REFERENCES} replies found by the utterance, each of weight one",
    )


def likelihood_line(chain: Chain, sets: Sequence[ProofSet]) -> Line:
    """Return how likely each reply is by the VHRED that the run names."""
    specification = f"likelihood:model={chain.settings.vhred},kind=pmi-token"
    metric = build(specification)
    (bound,) = with_likelihoods([metric], chain.models)
    return line_of(LIKELIHOOD, sets, bound, about=specification)


def greedy_line(vectors: Path, sets: Sequence[ProofSet]) -> Line:
    """Return how closely the words of replies match those of the gold."""
    metric = build(Specification("greedy", (("vectors", str(vectors)), ("refs", "gold"))))
    scores = dict[str, Floats]()
    for learned in learned_sets(sets, Form.REFERENCE):
        triples = learned.fair_rows.rated.triples
        prepared = metric.prepare([References.unweighted((triple.reference,)) for triple in triples])
        places = np.arange(len(triples), dtype=np.int64)
        rows = metric.statistics([triple.reply for triple in triples], prepared, places, places)
        values = np.nan_to_num(metric.values(rows, Level.REPLY), nan=metric.info.low)
        scores[learned.name] = learned.spread(values[None])
    return Line(name=GREEDY, scores=scores, about=_ABOUT_GREEDY)
