"""The teacher of meaning beside numpy's singular values: how many directions, their signs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoders import WORDS, write_bag_of_words
from refusals import refusing

from refaug.core.errors import BadInput, Corrupt
from refaug.core.vectors.encoders import OnnxEncoder, open_encoder
from refaug.rater.adem.teachers.meaning import FILE, DrawnMeaning, MeaningTeacher

TEXTS = [f"{first} {second}" for first in WORDS[:8] for second in WORDS[:6]]


@pytest.fixture
def encoder(tmp_path: Path) -> OnnxEncoder:
    write_bag_of_words(tmp_path / "bag", 8, softmax=False)
    return open_encoder(tmp_path / "bag")


def test_directions_hold_the_named_share_of_the_variance(encoder: OnnxEncoder) -> None:
    teacher = MeaningTeacher.fit(encoder, TEXTS)
    vectors = encoder.sentence_vectors(TEXTS).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    shares = np.cumsum(singular**2) / (singular**2).sum()
    assert teacher.size == int((shares < 0.95).sum()) + 1 < 8
    places = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(8), places])
    expected = centred @ (directions * signs[:, None])[: teacher.size].T
    assert teacher.targets(TEXTS) == pytest.approx(expected, abs=1e-6)
    assert MeaningTeacher.fit(encoder, TEXTS, share=0.5).size < teacher.size


def test_equal_texts_give_equal_names_and_other_texts_others(encoder: OnnxEncoder) -> None:
    name = MeaningTeacher.fit(encoder, TEXTS).name
    assert name == MeaningTeacher.fit(encoder, TEXTS).name != MeaningTeacher.fit(encoder, TEXTS[:-1]).name
    assert encoder.name in name


def test_a_text_without_a_token_lies_at_the_mean(encoder: OnnxEncoder) -> None:
    teacher = MeaningTeacher.fit(encoder, ["", *TEXTS])
    assert teacher.name == MeaningTeacher.fit(encoder, TEXTS).name
    assert not teacher.targets([""]).any()


def test_a_stored_teacher_is_the_same(encoder: OnnxEncoder, tmp_path: Path) -> None:
    teacher = MeaningTeacher.fit(encoder, TEXTS)
    teacher.save(tmp_path)
    opened = MeaningTeacher.open(tmp_path, encoder)
    assert opened.name == teacher.name
    assert np.array_equal(opened.targets(TEXTS), teacher.targets(TEXTS))


def test_another_encoder_and_a_damaged_file_are_refused(encoder: OnnxEncoder, tmp_path: Path) -> None:
    MeaningTeacher.fit(encoder, TEXTS).save(tmp_path)
    write_bag_of_words(tmp_path / "wide", 9, softmax=False)
    with refusing(BadInput, "wide", 9):
        MeaningTeacher.open(tmp_path, open_encoder(tmp_path / "wide"))
    (tmp_path / FILE).write_bytes(b"nothing")
    with refusing(Corrupt, FILE):
        MeaningTeacher.open(tmp_path, encoder)


def test_texts_that_are_all_alike_are_refused(encoder: OnnxEncoder) -> None:
    with refusing(BadInput, encoder.name):
        MeaningTeacher.fit(encoder, ["i like tea"] * 5)
    with refusing(BadInput, encoder.name):
        MeaningTeacher.fit(encoder, [])


def test_drawn_meanings_have_the_spread_of_the_true_ones_and_nothing_else(encoder: OnnxEncoder) -> None:
    teacher = MeaningTeacher.fit(encoder, TEXTS)
    drawn = DrawnMeaning(teacher, TEXTS)
    many = [f"{number}" for number in range(2_000)]
    targets = drawn.targets(many)
    assert targets.std(axis=0) == pytest.approx(teacher.targets(TEXTS).std(axis=0), rel=0.1)
    assert np.array_equal(drawn.targets(many[5:7]), targets[5:7])
    assert drawn.name != teacher.name
