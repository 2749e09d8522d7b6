"""Fitting: the course of both protocols, and that signal is learnt and noise is not."""

from __future__ import annotations

import numpy as np
import pytest
from adems import WordEncoder, rated_triples
from refusals import refusing
from scipy import stats

from refaug.core.errors import BadInput
from refaug.rater.adem.scorer.bilinear import Bilinear
from refaug.rater.adem.scorer.fitting import FittedScorer, VectorCache, fit_scorer, project, split_contexts
from refaug.rater.adem.scorer.rated_triples import Form, RatedTriples
from refaug.rater.adem.scorer.settings import ScorerSettings

SETTINGS = ScorerSettings(components=8, epochs=30)


def _fit(rated: RatedTriples, settings: ScorerSettings = SETTINGS) -> FittedScorer:
    vectors = VectorCache(WordEncoder(), settings.state).triple_vectors(rated.triples, settings.form)
    return fit_scorer(rated, vectors, settings)


@pytest.mark.parametrize("form", list(Form))
def test_every_form_learns_what_can_be_learnt(form: Form) -> None:
    settings = ScorerSettings(form=form, components=8, epochs=40)
    scorer = _fit(rated_triples(seed=1), settings).scorer
    unseen = rated_triples(seed=2)
    vectors = VectorCache(WordEncoder(), "context").triple_vectors(unseen.triples, form)
    assert stats.spearmanr(scorer.score(vectors), unseen.ratings).statistic > 0.35


def test_untrained_scorer_has_mean_3_and_span_4_on_balanced_rows() -> None:
    rated = rated_triples()
    fitted = _fit(rated)
    vectors = VectorCache(WordEncoder(), "context").triple_vectors(rated.triples, Form.FULL)
    scores = fitted.untrained.score(vectors.select(fitted.train_rows))[fitted.balanced.rows]
    assert scores.mean() == pytest.approx(3, abs=1e-6)
    assert np.ptp(scores) == pytest.approx(4, abs=1e-6)


def test_one_batch_of_all_rows_equals_adam_written_out() -> None:
    rated = rated_triples(20)
    settings = ScorerSettings(components=4, epochs=3, batch=10_000, balanced=False)
    fitted = _fit(rated, settings)
    vectors = VectorCache(WordEncoder(), "context").triple_vectors(rated.triples, Form.FULL)
    rows = project(fitted.scorer.projection, vectors.select(fitted.train_rows))
    ratings = rated.ratings[fitted.train_rows]
    start = Bilinear.initial(Form.FULL, rows, np.ones(len(ratings)))
    matrices, first, second, errors = start.matrices, 0.0, 0.0, []
    for step in range(1, 4):
        slope = start.with_matrices(matrices).gradient(rows, ratings, 0.075, settings.norm)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        matrices = matrices - rate * first / (np.sqrt(second) + 1e-8)
        errors.append(np.sqrt(np.mean((start.with_matrices(matrices).score(rows) - ratings) ** 2)))
    assert [epoch.train_error for epoch in fitted.epochs] == pytest.approx(errors, abs=1e-9)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    rated = rated_triples()
    first, again, other = (
        _fit(rated, ScorerSettings(components=8, epochs=5, seed=seed)).scorer.bilinear.matrices for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_epoch_with_the_least_validation_error_is_taken() -> None:
    fitted = _fit(rated_triples(signal=0.2))
    errors = [epoch.validation_error for epoch in fitted.epochs]
    assert fitted.best_epoch == int(np.argmin(errors)) + 1


def test_paper_ends_after_20_epochs_without_a_lower_error() -> None:
    fitted = _fit(rated_triples(signal=0.0), ScorerSettings(components=8))
    assert len(fitted.epochs) == min(200, fitted.best_epoch + 20)


def test_released_runs_all_epochs_on_full_batches_of_fixed_rows() -> None:
    rated = rated_triples()
    settings = ScorerSettings(components=8, protocol="released", epochs=25, balanced=False)
    fitted = _fit(rated, settings)
    assert len(fitted.epochs) == 25
    assert settings.learning_rate == 0.001
    few = ScorerSettings(components=8, protocol="released", batch=1_000, balanced=False)
    with refusing(BadInput, "1000"):
        _fit(rated, few)


def test_no_context_is_on_both_sides_and_released_validates_on_the_last() -> None:
    contexts = np.repeat(np.arange(20), 4)
    train, validation = split_contexts(contexts, ScorerSettings())
    assert not set(contexts[train]) & set(contexts[validation])
    assert len(set(contexts[train])) == 17
    _, last = split_contexts(contexts, ScorerSettings(protocol="released"))
    assert set(contexts[last]) == {17, 18, 19}


def test_too_few_rows_and_one_rating_level_are_refused() -> None:
    rated = rated_triples(40)
    with refusing(BadInput):
        _fit(rated.select(np.arange(48)))
    flat = RatedTriples(
        triples=rated.triples, ratings=np.full(len(rated), 3.1), contexts=rated.contexts, systems=rated.systems
    )
    with refusing(BadInput):
        _fit(flat)


def test_joined_sets_keep_their_contexts_apart() -> None:
    joined = RatedTriples.joined([rated_triples(3), rated_triples(2)])
    assert joined.contexts.tolist() == [number for number in range(5) for _ in range(4)]


def test_every_distinct_text_is_encoded_once_over_several_forms() -> None:
    rated = rated_triples(10)
    encoder = WordEncoder()
    cache = VectorCache(encoder, "context")
    for form in Form:
        cache.triple_vectors(rated.triples, form)
    triples = rated.triples
    texts = {t.context for t in triples} | {(t.reference,) for t in triples} | {(t.reply,) for t in triples}
    assert sum(encoder.calls) == len(texts)
