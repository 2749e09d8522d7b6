"""What reads sentiment and meaning: lexicons, a DeepMoji in ONNX's format beside numpy, and the label of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from encoders import TinyEncoder, write_bag_of_words
from numpy.typing import NDArray
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.core.options.decoding import as_values, decode
from refaug.core.text.sentiment import LexiconSentiment
from refaug.core.vectors.word_vectors import WordVectors
from refaug.extras.conversations.hybrid_metric.encoders import (
    DeepMojiSentiment,
    OnnxMeaning,
    VectorReader,
)
from refaug.extras.conversations.hybrid_report import require_paper
from refaug.extras.conversations.metrics.components import component_values
from refaug.extras.conversations.metrics.exchanges import Side, human_exchanges
from refaug.extras.conversations.metrics.sentiment import EMOJIS, Variants, emoji_weights
from refaug.extras.conversations.options import ConversationSource, HybridSettings, TurnReferences

PAPER = {"sent": "deepmoji[d#1]", "sem": "infersent1[i#2]", "coh": "word2vec-news[v#3]"}


def probabilities(rows: np.ndarray, text: str) -> np.ndarray:
    mean = rows[TinyEncoder.ids(text)].astype(np.float64).mean(axis=0)
    return np.exp(mean - mean.max()) / np.exp(mean - mean.max()).sum()


def test_deepmoji_goes_the_published_way(tmp_path: Path) -> None:
    rows = write_bag_of_words(tmp_path / "moji", len(EMOJIS), softmax=True)
    reader = DeepMojiSentiment.open(tmp_path / "moji")
    assert reader.name.startswith("deepmoji[moji#")
    turns = [(Side.PERSON, "i like tea ."), (Side.BOT, "you like the cat"), (Side.PERSON, "not really !")]
    emojis = [probabilities(rows, text) for _, text in turns]
    for (_, text), expected in zip(turns, emojis, strict=True):
        sentiment = reader.read(text)
        assert sentiment is not None
        assert sentiment.vector == pytest.approx(expected.tolist(), rel=1e-3)
        assert sentiment.score == pytest.approx(float(expected @ emoji_weights()), abs=1e-3)
    assert reader.read("") is None
    vectors = WordVectors(["tea"], np.ones((1, 2), np.float32))
    values = component_values(human_exchanges(turns), VectorReader(vectors, reader), Variants())
    user, bot, answer = emojis
    cosine = float(user @ bot / np.linalg.norm(user) / np.linalg.norm(bot))
    assert values["sentiment-coherence"] == pytest.approx(cosine, abs=1e-3)
    assert values["sentiment-transition"] == pytest.approx(float((answer - user) @ emoji_weights()), abs=1e-3)


class CountedVectors(WordVectors):
    """Vectors that count how often the words of a text are looked up."""

    looks = 0

    def rows_of(self, words: Sequence[str]) -> NDArray[np.int64]:
        self.looks += 1
        return super().rows_of(words)


def test_the_words_of_each_turn_are_read_once_in_a_long_conversation() -> None:
    vectors = CountedVectors(["tea"], np.ones((1, 2), np.float32))
    turns = [((Side.PERSON, Side.BOT)[place % 2], f"tea {place}") for place in range(100)]
    component_values(human_exchanges(turns), VectorReader(vectors, None), Variants())
    assert vectors.looks == 100


def test_a_model_that_is_no_deepmoji_is_refused(tmp_path: Path) -> None:
    write_bag_of_words(tmp_path / "narrow", 8, softmax=True)
    with refusing(BadInput):
        DeepMojiSentiment.open(tmp_path / "narrow")
    write_bag_of_words(tmp_path / "logits", 64, softmax=False)
    with refusing(BadInput):
        DeepMojiSentiment.open(tmp_path / "logits").read("i like tea")


def test_meaning_comes_from_a_model_of_the_named_size(tmp_path: Path) -> None:
    rows = write_bag_of_words(tmp_path / "tiny", 12, softmax=False)
    meaning = OnnxMeaning("onnx", tmp_path / "tiny")
    assert meaning.name.startswith("onnx[tiny#")
    mean = rows[TinyEncoder.ids("the big dog")].astype(np.float64).mean(axis=0)
    assert meaning.encode("the big dog") == pytest.approx(mean / np.linalg.norm(mean), rel=1e-3)
    assert meaning.encode("") is None
    with refusing(BadInput, "4096"):
        OnnxMeaning("infersent1", tmp_path / "tiny")


def test_a_lexicon_scores_by_the_sum_of_its_words(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("# words\ngut\t2\nSchlecht\t-1.5\nna ja\t0\n", "utf-8")
    reader = LexiconSentiment(path)
    assert reader.name.startswith("lexicon[mine#")
    sentiment = reader.read("Gut, gut, aber schlecht!")
    assert sentiment is not None
    assert sentiment.score == pytest.approx(2.5 / math.sqrt(2.5**2 + 15))
    assert sentiment.vector == pytest.approx((1 / 4, 1 / 4, 2 / 4))
    assert reader.read("?!") is None
    with refusing(BadInput):
        reader.require_language(["hello there"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gut 2\n", "gut 2"),
        ("gut\tviel\n", "viel"),
        ("gut\t1_0\n", "is not a word and number"),
        ("gut\t1\ngut\t2\n", "gut"),
        ("gut\tnan\n", "is not a word and number"),
        ("# nothing\n", "has 0 words"),
    ],
)
def test_a_bad_lexicon_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text(text)
    with refusing(BadInput, message):
        LexiconSentiment(tmp_path / "bad.tsv")


PRESET = "ghandeharioun19"


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"sent": "vader[3.3.2]"}, "vader[3.3.2]"),
        ({"sem": "mean[v#3]"}, "needs sem:infersent1"),
        ({"coh": "[v#3]"}, "needs coh:word2vec-news"),
    ],
)
def test_the_label_of_the_paper_is_refused_without_its_encoders(details: dict[str, str], message: str) -> None:
    settings = HybridSettings(preset=PRESET)
    require_paper(PAPER, settings)
    require_paper({**PAPER, **details}, HybridSettings())
    with refusing(Usage, message):
        require_paper({**PAPER, **details}, settings)


def test_the_label_of_the_paper_brings_its_forms_and_refuses_others() -> None:
    settings = decode(HybridSettings, {"preset": PRESET, "laughter": "substring"})
    assert (settings.intercept, settings.laughter, settings.greedy) == ("fold", "substring", "both")
    assert decode(HybridSettings, as_values(settings)) == settings
    assert HybridSettings.of_manifest(settings.as_manifest()) == settings
    for field, setting in (
        ("intercept", "common"),
        ("laughter", "token"),
        ("greedy", "user"),
        ("ridge", 0.1),
        ("person_z", 3),
    ):
        with pytest.raises(Usage) as refused:
            decode(HybridSettings, {"preset": PRESET, field: setting})
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"map": ["words=said"]}, "map"),
        ({"map": ["rating=grade"]}, "map"),
        ({"map": ["text=said", "text=who"]}, "map"),
        ({"scale": "7-1"}, "scale"),
        ({"encoding": "latin-99"}, "encoding"),
        ({"conversations": "selfplay:both", "scale": "1-7"}, "scale"),
        ({"conversations": "selfplay:both", "bot": "b"}, "bot"),
    ],
)
def test_what_is_said_of_a_file_is_checked_before_it_is_read(more: dict[str, object], field: str) -> None:
    with pytest.raises(Usage) as refused:
        decode(ConversationSource, {"conversations": "talks.csv", **more})
    assert refused.value.field == field


def test_references_of_turns_have_no_gold_and_no_preset_that_weighs_one() -> None:
    assert decode(TurnReferences, {"k": 3}).k == 3
    for field, setting in (("gold", "one"), ("preset", "tsuta20"), ("mode", "bm25-dialog")):
        with pytest.raises(Usage):
            decode(TurnReferences, {field: setting})
