"""Teachers opened in a home: named by what decides their targets, fitted to texts, and refused where they are gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from encoders import write_bag_of_words
from refusals import refusing

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, NotFound, Usage
from refaug.core.home import Settings
from refaug.scoring.home.encoders import import_encoder
from refaug.scoring.home.teachers import emotion_choice, meaning_choice, teacher_openers

TEXTS = ["i like tea", "you like the cat", "not really !", "the big dog", "a dog likes you"]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path / "home")
    write_bag_of_words(tmp_path / "bag", 6, softmax=False)
    import_encoder(artefact_stores(settings)["encoder"], settings.cache, "bag", tmp_path / "bag", licence="mit")
    return settings


def test_a_teacher_of_meaning_is_named_by_its_encoder_and_fitted_to_texts(home: Settings) -> None:
    choice = meaning_choice(home, "bag", threads=1)
    assert choice.id == f"pca[{choice.spec},0.95]"
    assert "#" in choice.spec
    teacher = teacher_openers(home, threads=1).meaning(choice.spec, TEXTS)
    targets = teacher.targets(TEXTS)
    assert targets.shape == (len(TEXTS), teacher.size)
    assert targets.mean(axis=0) == pytest.approx(np.zeros(teacher.size), abs=1e-3)


def test_an_encoder_that_is_gone_is_refused(home: Settings) -> None:
    spec = meaning_choice(home, "bag", threads=1).spec
    with refusing(NotFound, "other"):
        meaning_choice(home, "other")
    artefact_stores(home)["encoder"].delete("bag")
    with refusing(NotFound, "bag"):
        teacher_openers(home).meaning(spec, TEXTS)


def test_a_teacher_of_emotion_is_named_by_what_its_file_holds(home: Settings, tmp_path: Path) -> None:
    lexicon = tmp_path / "words.tsv"
    lexicon.write_text("tea\tjoy\ndog\tfear\n", "utf-8")
    choice = emotion_choice(f"lexicon:{lexicon}")
    assert choice.id.startswith("emotions[")
    lexicon.write_text("tea\tjoy\ncat\tfear\n", "utf-8")
    assert emotion_choice(choice.spec).id != choice.id
    with refusing(Usage):
        emotion_choice("moji")
    with refusing(BadInput):
        teacher_openers(home).emotion(choice.spec, ["nothing of this"])
