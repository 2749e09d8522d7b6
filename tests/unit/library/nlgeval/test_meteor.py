"""METEOR 1.5: hand computations, alignments by brute force, and how near it comes to the authors' program."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safeguards import require
from wordnet import DEBIAN_WORDNET, write_wordnet

from refaug.library.nlgeval.meteor import MeteorScorer, is_function_word, normalize

NUMBERS = json.loads(Path(__file__).with_name("nlg_eval_numbers.json").read_text("utf-8"))


def test_a_score_is_that_of_its_formula() -> None:
    """A word of content in four, two chunks of four matches: P = 1.5/2.25, R = 1, F = .930, × (1 − .6 × .5^.2)."""
    sums = MeteorScorer(None).sums("this is a good test", "this is a test")
    assert (sums.matches, sums.chunks) == (4, 2)
    precision = (0.75 + 3 * 0.25) / (2 * 0.75 + 3 * 0.25)
    mean = precision / (0.85 * precision + 0.15)
    assert sums.score == pytest.approx(mean * (1 - 0.6 * 0.5**0.2), abs=1e-12)
    assert sums.score == pytest.approx(0.44434387, abs=1e-7)  # what nlg-eval's own test has


def test_equal_texts_score_1_and_texts_without_common_words_0() -> None:
    scorer = MeteorScorer(None)
    assert scorer.score([("a test", ["a test"])]) == 1.0
    assert scorer.score([("テスト", ["テスト"])]) == 1.0
    assert scorer.score([("red", ["green"]), ("", ["green"]), ("red", [""])]) == 0.0


def test_kinds_of_matches_have_their_weights(tmp_path: Path) -> None:
    scorer = MeteorScorer(write_wordnet(tmp_path / "wordnet"))
    weights = [scorer.sums(word, "buy").reply_match_mass / 0.75 for word in ("buy", "buying", "purchase", "tease")]
    assert weights == pytest.approx([1.0, 0.6, 0.8, 0.0])
    assert MeteorScorer(None).sums("purchase", "buy").matches == 0


def test_a_full_stop_stays_with_its_word_inside_a_sentence_and_alone_between_spaces() -> None:
    assert normalize("tea. it is") == ["tea.", "it", "is"]
    assert normalize("tea. It is") == ["tea", ".", "it", "is"]
    assert normalize("tea . it is") == ["tea", ".", "it", "is"]


def test_the_best_reference_counts_and_sums_are_added() -> None:
    scorer = MeteorScorer(None)
    first, second = scorer.sums("we buy red boats", "we buy boats"), scorer.sums("no", "yes no")
    assert scorer.score([("we buy red boats", ["green", "we buy boats"]), ("no", ["yes no", "red"])]) == pytest.approx(
        (first + second).score
    )


@given(st.lists(st.sampled_from("abcd"), max_size=5), st.lists(st.sampled_from("abcd"), max_size=5))
def test_an_alignment_has_most_matches_then_fewest_chunks(reply: list[str], reference: list[str]) -> None:
    """Compared with all alignments there are."""

    def chunks(pairs: list[tuple[int, int]]) -> int:
        return sum(1 for at, (i, j) in enumerate(pairs) if at == 0 or pairs[at - 1] != (i - 1, j - 1))

    best = (0, 0)
    for places in itertools.product([None, *range(len(reference))], repeat=len(reply)):
        pairs = [(i, j) for i, j in enumerate(places) if j is not None]
        if len({j for _, j in pairs}) == len(pairs) and all(reply[i] == reference[j] for i, j in pairs):
            best = min(best, (-len(pairs), chunks(pairs)))
    sums = MeteorScorer(None).sums(" ".join(reply), " ".join(reference))
    assert (-sums.matches, sums.chunks) == best


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't like the U.S. idea...", "i don 't like the us idea ..."),
        ("state-of-the-art, 3.5% or $1,000!", "state of the art , 3.5 % or $ 1,000 !"),
        ("Mr. Smith said: “Hello!”", 'mr. smith said : " hello ! "'),
        ("It's 'fine'. We'll go", "it 's ' fine ' . we 'll go"),
        ("a sentence. Another one etc. and so on.", "a sentence . another one etc. and so on ."),
        ("テスト a_b", "テ ス ト a _ b"),
        ("", ""),
    ],
)
def test_texts_are_normalised_as_by_the_authors_program(text: str, tokens: str) -> None:
    """These tokens are what its Normalizer prints, in lower case."""
    assert normalize(text) == tokens.split()


def test_little_words_are_function_words() -> None:
    assert [is_function_word(token) for token in ("the", "n't", "boat", ",")] == [True, False, False, True]


@pytest.mark.machine
def test_scores_come_near_those_of_the_authors_program() -> None:
    require("wordnet", found=(DEBIAN_WORDNET / "data.noun").is_file(), why="Debian's package wordnet-base")
    scorer = MeteorScorer(DEBIAN_WORDNET)
    differences = [
        abs(scorer.score([(item["reply"], item["references"])]) - expected["METEOR"])
        for item, expected in zip(NUMBERS["items"], NUMBERS["each"], strict=True)
    ]
    assert sum(differences) / len(differences) < 0.015
    assert max(differences) < 0.15
    corpus = scorer.score([(item["reply"], item["references"]) for item in NUMBERS["items"]])
    assert corpus == pytest.approx(NUMBERS["all"]["METEOR"], abs=0.01)
