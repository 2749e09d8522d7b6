"""Teachers of emotion beside counts by hand: lexicons of classes and of numbers, classifiers, and VADER's shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoders import SPECIAL, WORDS, TinyEncoder, write_bag_of_words
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.rater.adem.teachers import emotion
from refaug.rater.adem.teachers.emotion import open_emotion

CLASSES = "# words\nHappy\tjoy\ngrim\tfear\t0.5\ngrim\tsadness\t1\ncalm\tfear\t0\n"


def write(folder: Path, text: str) -> str:
    path = folder / "lexicon.tsv"
    path.write_text(text, "utf-8")
    return f"lexicon:{path}"


def test_classes_of_words_are_counted_and_smoothed(tmp_path: Path) -> None:
    teacher = open_emotion(write(tmp_path, CLASSES))
    assert teacher.size == 3  # fear, joy, sadness
    targets = teacher.targets(["happy, GRIM and happy!", "nothing", "", "calm"])
    assert targets.dtype == np.float32
    expected = np.array([0.5 + 0.1, 2 + 0.1, 1 + 0.1]) / (3.5 + 0.3)
    assert targets[0] == pytest.approx(expected, abs=1e-6)
    assert targets[1:] == pytest.approx(np.full((3, 3), 1 / 3), abs=1e-6)
    assert teacher.targets([]).shape == (0, 3)


def test_the_name_follows_what_the_file_holds(tmp_path: Path) -> None:
    first = open_emotion(write(tmp_path, CLASSES)).name
    again = open_emotion(write(tmp_path, CLASSES)).name
    assert first == again != open_emotion(write(tmp_path, f"{CLASSES}glad\tjoy\n")).name


def test_numbers_are_read_as_sentiment(tmp_path: Path) -> None:
    teacher = open_emotion(write(tmp_path, "gut\t2\nschlecht\t-1\n"))
    assert teacher.name.startswith("lexicon[lexicon#")
    targets = teacher.targets(["gut gut schlecht nun", "?!"])
    assert targets == pytest.approx(np.array([[1 / 4, 1 / 4, 2 / 4], [1 / 3, 1 / 3, 1 / 3]]), abs=1e-6)


def test_shares_of_vader_add_up_to_one() -> None:
    teacher = open_emotion("vader")
    glad, sad, silent = teacher.targets(["I love this wonderful day!", "I hate this awful day.", " "])
    assert glad.sum() == pytest.approx(1)
    assert glad[2] > glad[0] == 0
    assert sad[0] > sad[2] == 0
    assert silent == pytest.approx([1 / 3] * 3)


def test_a_classifier_gives_its_softmax(tmp_path: Path) -> None:
    rows = write_bag_of_words(tmp_path / "model", 5, softmax=True)
    teacher = open_emotion(f"onnx:{tmp_path / 'model'}")
    assert teacher.size == 5
    assert rows.shape == (len(SPECIAL) + len(WORDS), 5)
    mean = rows[TinyEncoder.ids("you like tea")].astype(np.float64).mean(axis=0)
    expected = np.exp(mean) / np.exp(mean).sum()
    targets = teacher.targets(["you like tea", ""])
    assert targets[0] == pytest.approx(expected, rel=2e-3)
    assert targets[1] == pytest.approx([1 / 5] * 5)
    write_bag_of_words(tmp_path / "logits", 5, softmax=False)
    with refusing(BadInput, "logits"):
        open_emotion(f"onnx:{tmp_path / 'logits'}").targets(["you like tea"])


@pytest.mark.parametrize("spec", ["", "vader:x", "lexicon:", "moods"])
def test_other_teachers_are_refused(spec: str) -> None:
    with refusing(Usage, "lexicon:FILE"):
        open_emotion(spec)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("glad joy\n", "line 1"),
        ("glad\tjoy\nsad\t\n", "line 2"),
        ("glad\tjoy\tmuch\n", "line 1"),
        ("glad\tjoy\t-1\n", "line 1"),
        ("glad\tjoy\nsad\t3\n", "line 2"),
        ("glad\tjoy\nglad\tjoy\n", "'joy'"),
        ("glad\tjoy\n", "1 classes"),
        ("# nothing\n", "0 classes"),
    ],
)
def test_a_bad_lexicon_of_classes_names_what_is_wrong(tmp_path: Path, text: str, named: str) -> None:
    with refusing(BadInput, named):
        open_emotion(write(tmp_path, text))


def test_a_lexicon_that_is_gone_or_no_text_is_refused(tmp_path: Path) -> None:
    with refusing(BadInput, "gone.tsv"):
        open_emotion(f"lexicon:{tmp_path / 'gone.tsv'}")
    (tmp_path / "latin.tsv").write_bytes(b"gl\xfcck\tjoy\n")
    with refusing(BadInput, "latin.tsv"):
        open_emotion(f"lexicon:{tmp_path / 'latin.tsv'}")


@pytest.mark.parametrize("lines", [CLASSES, "gut\t2\nschlecht\t-1\n"])
def test_a_lexicon_that_cannot_be_opened_is_refused(
    tmp_path: Path, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write(tmp_path, lines)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with refusing(BadInput, "lexicon.tsv", "Permission denied"):
        open_emotion(spec)
    with refusing(BadInput, "File name too long"):
        open_emotion(f"lexicon:{'x' * 300}")


@pytest.mark.parametrize(("limit", "most"), [("MOST_WORDS", 2), ("_MOST_WEIGHTS", 8)])
def test_a_lexicon_of_too_many_words_is_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(emotion, limit, most, raising=False)
    with refusing(BadInput, "line 6", "3 words", "3 classes"):  # and not the mistake in line 7
        open_emotion(write(tmp_path, f"{CLASSES}glad\tjoy\nno class\n"))


def test_a_lexicon_too_large_for_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write(tmp_path, CLASSES)
    monkeypatch.setattr(emotion, "_MOST_WEIGHTS", 5)
    with refusing(BadInput, "2 words", "3 classes"):
        open_emotion(spec)
    with (tmp_path / "lexicon.tsv").open("ab") as file:
        file.truncate((64 << 20) + 1)
    with refusing(BadInput, "64 MiB"):
        open_emotion(spec)
    with refusing(BadInput, "zero"):  # no file, and without an end
        open_emotion("lexicon:/dev/zero")


@pytest.mark.parametrize("lines", [CLASSES, "gut\t2\nschlecht\t-1\n"])
def test_a_lexicon_of_another_language_is_refused(tmp_path: Path, lines: str) -> None:
    spec = write(tmp_path, lines)
    open_emotion(spec, ["nothing", "happy or gut"])
    with refusing(BadInput, open_emotion(spec).name):
        open_emotion(spec, ["nothing", "of this"])
