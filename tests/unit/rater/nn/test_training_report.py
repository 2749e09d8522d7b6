"""The report: statistics against counting in plain Python, ratings as a histogram, short utterances asked apart."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raters import TrainedRater, corpus_of, tiny_corpus, tiny_examples, tiny_model, tiny_training

from refaug.core.errors import Corrupt
from refaug.rater.nn.build import TripletPredictions, predict, report_of, short_report, statistics_of
from refaug.rater.training.corpus import LEAST_UTTERANCES
from refaug.rater.training.examples import ExampleCorpus, Examples, ExampleSettings, Split

TEXT = st.lists(st.integers(2, 20), max_size=7)
UTTERANCE = st.lists(TEXT, min_size=3, max_size=6)  # and two to five responses
SPLITS: tuple[Split, ...] = ("train", "validation", "all")


# Statistics


def plain_statistics(texts: list[list[list[int]]], an_epoch: int) -> dict[str, Any]:
    """The definition, of the utterances of a split: each with its responses behind it."""
    lengths = {
        "utterances": [len(own[0]) for own in texts],
        "responses": [len(response) for own in texts for response in own[1:]],
    }
    responses = Counter(len(own) - 1 for own in texts)
    return {
        "utterances": len(texts),
        "positive": sum((len(own) - 1) * (len(own) - 2) // 2 for own in texts),
        "an_epoch": an_epoch,
        "responses": {str(count): responses[count] for count in sorted(responses)},
        "pieces": {
            name: {"mean": pytest.approx(mean(some), abs=0.00501), "median": median(some), "most": max(some)}
            for name, some in lengths.items()
        },
    }


@settings(deadline=None, max_examples=40)
@given(st.lists(UTTERANCE, min_size=1, max_size=12), st.sampled_from(SPLITS), st.integers(1, 50))
def test_a_split_is_described_as_counting_its_texts_describes_it(
    texts: list[list[list[int]]], split: Split, seed: int
) -> None:
    corpus = corpus_of(texts)
    examples = Examples(corpus, split, ExampleSettings(validation_share=0.5, seed=seed), 16)
    mine = [texts[at] for at in examples.utterances.tolist()]
    assume(mine)
    positive = sum((len(own) - 1) * (len(own) - 2) // 2 for own in mine)
    found = statistics_of(corpus, examples)
    assert found == plain_statistics(mine, 2 * positive)
    assert list(found["responses"]) == sorted(found["responses"])
    if split == "all":
        assert mine == texts


def test_statistics_of_a_tiny_corpus_equal_counts_by_hand() -> None:
    corpus = corpus_of(
        [
            [[2, 3, 4, 5], [6], [7, 8]],
            [[2], [3], [], [4, 4, 4, 4, 4, 4]],
            [[9, 9], [3, 3, 3], [5, 5, 5]],
        ]
    )
    examples = Examples(corpus, "all", ExampleSettings(), 16)
    assert statistics_of(corpus, examples) == {
        "utterances": 3,
        "positive": 5,
        "an_epoch": 10,
        "responses": {"2": 2, "3": 1},
        "pieces": {
            "utterances": {"mean": 2.33, "median": 2.0, "most": 4},
            "responses": {"mean": 2.29, "median": 2.0, "most": 6},
        },
    }


def test_a_limit_shows_in_what_an_epoch_has_and_in_nothing_else() -> None:
    corpus = tiny_corpus(utterances=40)
    whole, drawn = (statistics_of(corpus, tiny_examples(corpus, limit=limit)[0]) for limit in (None, 20))
    assert (whole["an_epoch"], drawn["an_epoch"]) == (2 * whole["positive"], 40)
    assert {**drawn, "an_epoch": None} == {**whole, "an_epoch": None}


# Of a trained network


def plain_auc(found: TripletPredictions) -> float:
    """How often a good response is rated above a wrong one, a tie counting half; pair by pair."""
    good, wrong = found.first[found.positive].tolist(), found.first[~found.positive].tolist()
    above = sum(float(one > other) + 0.5 * float(one == other) for one in good for other in wrong)
    return above / (len(good) * len(wrong))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRater:
    return tiny_training(tmp_path_factory.mktemp("training"))


def test_report_holds_the_best_networks_predictions_on_validation(trained: TrainedRater) -> None:
    _, validation = tiny_examples()
    report, found = report_of(trained.model, trained, validation), predict(trained.model, validation)
    losses = [one.validation_loss for one in trained.epochs]
    assert (report["validation_loss"], report["best_epoch"]) == (min(losses), 1 + losses.index(min(losses)))
    assert report["epochs"] == [asdict(one) for one in trained.epochs]
    assert report["parameters"] == trained.model.parameter_count
    assert report["auc_good_vs_wrong"] == pytest.approx(plain_auc(found), abs=1e-12)
    assert report["auc_good_vs_wrong"] == trained.epochs[trained.best_epoch - 1].auc
    for how in ("raw", "cal"):
        assert sum(one["count"] for one in report["calibration"][how]["bins"]) == validation.epoch_size


def test_the_histogram_of_ratings_counts_every_example_once_in_its_bin(trained: TrainedRater) -> None:
    _, validation = tiny_examples()
    ratings, found = report_of(trained.model, trained, validation)["ratings"], predict(trained.model, validation)
    edges = ratings["edges"]
    assert edges == [round(-1 + 0.05 * number, 6) for number in range(41)]
    assert sum(ratings["good"]) == sum(ratings["wrong"]) == validation.positive_count
    for name, which in (("good", found.positive), ("wrong", ~found.positive)):
        expected = [0] * 40
        for likely in found.first[which].tolist():
            expected[min(39, bisect_right(edges, 2 * likely - 1) - 1)] += 1
        assert ratings[name] == expected
        assert sum(count > 0 for count in expected) > 3


# Short utterances


def kept(folder: Path, corpus: ExampleCorpus) -> Path:
    """A corpus as a folder."""
    folder.mkdir()
    for name in ("pieces", "start", "first", "names"):
        np.save(folder / f"{name}.npy", getattr(corpus, name), allow_pickle=False)
    return folder


def found_in(corpus: ExampleCorpus) -> dict[str, Any]:
    """What mining tells of it, with the seconds that every stage has."""
    pairs = len(corpus.positives(np.arange(corpus.utterances)))
    return {"utterances": corpus.utterances, "positive_pairs": pairs, "seconds": 0.25}


@pytest.mark.parametrize("utterances", [LEAST_UTTERANCES, LEAST_UTTERANCES + 37])
def test_short_utterances_are_all_rated_with_the_auc_of_plain_counting(
    trained: TrainedRater, tmp_path: Path, utterances: int
) -> None:
    corpus = tiny_corpus(seed=7, utterances=utterances, responses=2)
    asked = ExampleSettings(batch=64, seed=3)
    everything = Examples(corpus, "all", asked, trained.model.config.max_tokens)
    assert everything.positive_count == utterances
    expected = plain_auc(predict(trained.model, everything))
    assert abs(expected - 0.5) > 0.02  # not what any network would come to
    folder = kept(tmp_path / "short", corpus)
    for limit in (None, 20):  # of an epoch of training
        settings = ExampleSettings(batch=64, seed=3, limit=limit, validation_share=0.1)
        assert short_report(trained.model, settings, folder, found_in(corpus)) == {
            "utterances": utterances,
            "positive_pairs": utterances,
            "auc_good_vs_wrong": pytest.approx(expected, abs=1e-12),
        }


@pytest.mark.parametrize("utterances", [0, 1, LEAST_UTTERANCES - 1])
def test_too_few_short_utterances_are_counted_and_nothing_is_said_of_them(tmp_path: Path, utterances: int) -> None:
    found = {"utterances": utterances, "positive_pairs": 3 * utterances, "seconds": 0.25}
    nowhere = tmp_path / "never-read"
    assert short_report(tiny_model(), ExampleSettings(), nowhere, found) == {
        "utterances": utterances,
        "positive_pairs": 3 * utterances,
        "auc_good_vs_wrong": None,
    }


def test_short_utterances_that_are_not_there_any_more_are_missed_by_name(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="gone"):
        short_report(
            tiny_model(), ExampleSettings(), tmp_path / "gone", found_in(tiny_corpus(utterances=LEAST_UTTERANCES))
        )
