"""What teachers are asked about, what of their answers is refused, and what settings determine a network with heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusing
from vhreds import SENTENCES, tiny_vhred

from refaug.core.errors import BadInput, Usage
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.rater.adem.pretraining.dialogues import CodedDialogues, DialogueWindows, WindowSettings
from refaug.rater.adem.pretraining.targets import (
    NO_TEACHERS,
    HeadOrder,
    TeacherChoice,
    TeacherOpeners,
    TurnTargets,
    chosen_inputs,
    constant_losses,
    open_targets,
    write_targets,
)
from refaug.rater.adem.vhred.sizes import VhredConfig

ORDER = HeadOrder(emotion=TeacherChoice(spec="e", id="e1"), meaning=TeacherChoice(spec="m", id="m1"))


class LengthTeacher:
    """Says of a text how long it is, in the form that a test wants; it notes what it was asked and fitted to."""

    name, size = "length", 2

    def __init__(self, values: Any = None) -> None:
        self.asked, self.fitted, self._values = list[str](), list[str](), values

    def targets(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        if self._values is not None:
            return np.asarray(self._values, np.float32)
        shares = np.array([[1 / len(text), 1 - 1 / len(text)] for text in texts], np.float32)
        return shares.reshape(-1, 2)

    def save(self, folder: Path) -> None:
        (folder / "fitted.txt").write_text(str(len(self.fitted)), "utf-8")

    def open(self, _spec: str, texts: Sequence[str]) -> LengthTeacher:
        self.fitted += texts
        return self


@pytest.fixture
def tokenizer(tmp_path: Path) -> SentencePieceTokenizer:
    return tiny_vhred(tmp_path).tokenizer


def corpus(tokenizer: SentencePieceTokenizer, dialogues: list[list[str]]) -> CodedDialogues:
    turns = tokenizer.encode_ids_batch([turn for dialogue in dialogues for turn in dialogue])
    return CodedDialogues(
        pieces=np.array([piece for turn in turns for piece in turn], np.uint16),
        start=np.cumsum([0, *map(len, turns)], dtype=np.int64),
        first=np.cumsum([0, *map(len, dialogues)], dtype=np.int64),
        keys=np.arange(len(dialogues), dtype=np.uint64),
    )


def test_teachers_are_asked_once_about_a_text_and_fitted_to_what_is_trained_on(
    tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    dialogues = [[SENTENCES[0], SENTENCES[1]], [SENTENCES[1], SENTENCES[4], SENTENCES[0]], [SENTENCES[3], SENTENCES[2]]]
    coded, teacher = corpus(tokenizer, dialogues), LengthTeacher()
    is_training = np.array([True, False, True])
    openers = TeacherOpeners(teacher.open, LengthTeacher().open)
    facts = write_targets(coded, is_training, tokenizer, ORDER, openers, tmp_path, 1)
    assert teacher.asked == [SENTENCES[at] for at in (0, 1, 4, 3, 2)]
    assert teacher.fitted == [SENTENCES[at] for at in (0, 1, 3, 2)]
    assert (facts["texts"], facts["emotion"]) == (5, {"teacher": "length", "size": 2})
    assert (tmp_path / "fitted.txt").exists()
    config = ORDER.of(VhredConfig(), {"emotion": 2, "meaning": 2})
    targets = open_targets(tmp_path, config, ORDER)
    assert targets.rows.tolist() == [0, 1, 1, 2, 0, 3, 4]
    of_turns = targets.of(np.array([4, 5]))
    assert of_turns.emotion is not None
    assert of_turns.emotion[:, 0] == pytest.approx([1 / len(SENTENCES[0]), 1 / len(SENTENCES[3])])
    with refusing(BadInput, "3"):
        open_targets(tmp_path, ORDER.of(VhredConfig(), {"emotion": 3, "meaning": 2}), ORDER)


def test_shuffled_targets_are_those_of_other_texts(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    coded = corpus(tokenizer, [SENTENCES[at : at + 3] for at in range(0, 90, 3)])
    order = HeadOrder(emotion=TeacherChoice(spec="e", id="e1"), is_shuffled=True)
    openers = TeacherOpeners(LengthTeacher().open, NO_TEACHERS.meaning)
    write_targets(coded, np.ones(30, np.bool_), tokenizer, order, openers, tmp_path, 1)
    rows = np.load(tmp_path / "target_rows.npy")
    assert sorted(rows.tolist()) == list(range(90))
    assert (rows == np.arange(90)).mean() < 0.1


@pytest.mark.parametrize(
    ("head", "values"),
    [
        ("emotion", [[0.5, 0.6], [0.5, 0.5]]),
        ("emotion", [[1.5, -0.5], [0.5, 0.5]]),
        ("meaning", [[np.nan, 1.0], [0.5, 0.5]]),
        ("meaning", [[1.0, 1.0]]),
    ],
)
def test_answers_that_teach_nothing_are_refused(
    tokenizer: SentencePieceTokenizer, tmp_path: Path, head: str, values: list[list[float]]
) -> None:
    order = HeadOrder(**{head: TeacherChoice(spec="t", id="t1")})
    openers = TeacherOpeners(LengthTeacher(values).open, LengthTeacher(values).open)
    with refusing(BadInput, head):
        write_targets(corpus(tokenizer, [SENTENCES[:2]]), np.ones(1, np.bool_), tokenizer, order, openers, tmp_path, 1)


def test_a_constant_head_says_the_mean_of_the_turns_that_were_learned_from() -> None:
    dialogues = CodedDialogues(
        pieces=np.full(400, 2, np.uint16),
        start=np.arange(401, dtype=np.int64),
        first=np.arange(0, 401, 4, dtype=np.int64),
        keys=np.arange(100, dtype=np.uint64),
    )
    rng = np.random.default_rng(1)
    targets = TurnTargets(
        rows=np.arange(400),
        emotion=rng.dirichlet(np.ones(3), 400).astype(np.float32),
        meaning=rng.normal(size=(400, 2)).astype(np.float32),
    )
    settings = WindowSettings(validation_share=0.3)
    train, validation = (DialogueWindows(dialogues, settings, is_validation=side, end=9) for side in (False, True))
    inputs = np.arange(400) % 4 != 3
    held_out = np.repeat(dialogues.held_out(0.3, settings.seed), 4)
    assert targets.emotion is not None
    assert targets.meaning is not None
    mean = targets.emotion[inputs & ~held_out].mean(axis=0)
    errors = targets.meaning[inputs & held_out] - targets.meaning[inputs & ~held_out].mean(axis=0)
    emotion, meaning = constant_losses(targets, train, validation)
    assert emotion == pytest.approx(-(targets.emotion[inputs & held_out] @ np.log(mean)).mean(), rel=1e-5)
    assert meaning == pytest.approx(np.square(errors).mean(), rel=1e-5)


def test_settings_of_a_network_without_parts_are_those_of_before_there_were_any() -> None:
    settings = {"model": asdict(VhredConfig()), "windows": asdict(WindowSettings()), "kl_steps": 3, "heads": {}}
    plain = chosen_inputs(settings, HeadOrder())
    assert set(plain) == {"model", "windows", "kl_steps"}
    assert not {"conversation", "emotion", "meaning", "is_emotion_positive"} & set(plain["model"])
    assert not {"sentence_drop", "drop_by", "least_turns"} & set(plain["windows"])
    taught = chosen_inputs(settings, ORDER)
    assert (taught["heads"]["emotion"], taught["heads"]["meaning"]) == ("e1", "m1")
    moved = HeadOrder(emotion=TeacherChoice(spec="elsewhere", id="e1"), meaning=ORDER.meaning)
    assert chosen_inputs(settings, moved) == taught
    assert HeadOrder(**asdict(ORDER)) == ORDER
    assert "are_input" not in taught["heads"]
    as_input = replace(ORDER, are_input=True)
    assert chosen_inputs(settings, as_input)["heads"] == {**taught["heads"], "are_input": True}
    assert as_input.of(VhredConfig(), {"emotion": 2, "meaning": 3}).predicted == 5


def test_heads_that_nothing_can_teach_are_refused() -> None:
    with pytest.raises(Usage):
        NO_TEACHERS.emotion("vader", [])
    with pytest.raises(Usage):
        HeadOrder(emotion_weight=-1.0)
