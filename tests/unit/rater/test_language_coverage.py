"""Texts in a language that a rater was not trained for are noticed, and those that it was trained for are not."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raters import tiny_model

from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.language_coverage import Coverage, unfamiliar, unfamiliar_to_encoder
from refaug.rater.nn.checkpoint import open_rater, read_manifest, save_rater

WORDS = ["where", "there", "ticket", "station", "people", "because", "something", "never", "morning", "question"]
TEXTS = [" ".join(random.Random(number).choices(WORDS, k=3 + number % 9)) for number in range(400)]
SCRAMBLED = [text[::-1] for text in TEXTS[:40]]  # the same letters, other words
JAPANESE = ["切符はどこで買えますか。", "駅の前の売店です。"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    return open_sentencepiece(train_sentencepiece(TEXTS, path, TokenizerTraining(vocab_size=60, at_most=True)).path)


def test_characters_pieces_and_unknown_characters_are_counted(tokenizer: SentencePieceTokenizer) -> None:
    """SentencePiece makes one unknown piece of several characters on end."""
    texts = [*TEXTS[:20], *JAPANESE, "", "where 駅 there 駅前"]
    known = set("".join(TEXTS)) | {" "}
    coded = [tokenizer.encode_ids_batch([text])[0] for text in texts]
    found = Coverage.of(tokenizer, texts)
    assert found.as_json() == {
        "characters": sum(len(text) for text in texts),
        "pieces": sum(len(ids) for ids in coded),
        "unknown": sum(character not in known for text in texts for character in text),
    }


counts = st.builds(
    Coverage, characters=st.integers(0, 1_000), pieces=st.integers(0, 1_000), unknown=st.integers(0, 1_000)
)


@given(counts, counts)
def test_coverages_add_up_number_by_number(one: Coverage, other: Coverage) -> None:
    both = (one + other).as_json()
    assert both == {name: value + other.as_json()[name] for name, value in one.as_json().items()}
    assert Coverage.read(both) == one + other


def test_texts_like_those_it_was_trained_on_are_familiar(tokenizer: SentencePieceTokenizer) -> None:
    usual = Coverage.of(tokenizer, TEXTS[100:])
    assert unfamiliar(Coverage.of(tokenizer, TEXTS[:100]), usual, ["en"]) is None


def test_other_letters_are_reported_by_share_with_the_raters_language(
    tokenizer: SentencePieceTokenizer,
) -> None:
    found = Coverage.of(tokenizer, JAPANESE)
    told = unfamiliar(found, Coverage.of(tokenizer, TEXTS), ["en", "fr"])
    assert told is not None
    assert found.unknown == 21
    assert "21 of 21 characters (100 %)" in told
    assert "trained on texts in en, fr" in told


def test_other_language_with_equal_letters_is_detected_by_piece_length(
    tokenizer: SentencePieceTokenizer,
) -> None:
    usual, found = Coverage.of(tokenizer, TEXTS), Coverage.of(tokenizer, SCRAMBLED)
    assert found.unknown == 0
    told = unfamiliar(found, usual, ["en"])
    assert told is not None
    assert f"{found.pieces_per_character / usual.pieces_per_character:.1f} times as many pieces" in told


@pytest.mark.parametrize(
    ("found", "is_told"),
    [
        (Coverage(), False),
        (Coverage(characters=200, pieces=80, unknown=0), False),  # 1.6 times 0.25
        (Coverage(characters=200, pieces=81, unknown=0), True),
        (Coverage(characters=99, pieces=99, unknown=0), False),  # too little to tell
        (Coverage(characters=100, pieces=20, unknown=5), False),
        (Coverage(characters=100, pieces=20, unknown=6), True),
        (Coverage(characters=4, pieces=1, unknown=4), False),
        (Coverage(characters=5, pieces=1, unknown=5), True),
    ],
)
def test_the_borders_are_where_they_should_be(found: Coverage, is_told: bool) -> None:
    assert (unfamiliar(found, Coverage(characters=4_000, pieces=1_000), ["en"]) is not None) is is_told


def test_a_rater_keeps_how_the_texts_of_its_training_were_cut(
    tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    usual = Coverage.of(tokenizer, TEXTS)
    save_rater(
        tmp_path,
        tiny_model(tokenizer.vocab_size),
        tokenizer,
        temperature=1.0,
        languages=["en"],
        coverage=usual,
        report={},
        details={},
    )
    assert read_manifest(tmp_path).coverage == usual
    rater = open_rater(tmp_path)
    found = rater.coverage(SCRAMBLED)
    assert rater.unfamiliar(found) == unfamiliar(found, usual, ["en"]) is not None
    assert rater.unfamiliar(rater.coverage(TEXTS[:50])) is None


def test_an_encoders_unknown_pieces_and_cut_texts_are_told_together() -> None:
    usual = Coverage(characters=4_000, pieces=1_000)
    seen = Coverage(characters=400, pieces=90, unknown=9, cut=2)
    warning = unfamiliar_to_encoder(seen, usual, ["en"], most=64)
    assert warning is not None
    assert warning.startswith("2 of these texts are longer than the 64 tokens that the rater's encoder reads")
    assert "does not know 9 of 90 pieces (10 %) of these texts" in warning
    assert unfamiliar_to_encoder(replace(seen, unknown=4, cut=0), usual, ["en"], most=64) is None
    finer = unfamiliar_to_encoder(replace(seen, pieces=190, unknown=0, cut=0), usual, ["en"], most=64)
    assert finer is not None
    assert "1.9 times as many pieces" in finer
    assert Coverage.read(seen.as_json()) == seen
    assert "cut" not in Coverage(characters=1).as_json()
