"""Training a vocabulary: what the model holds, that it is repeatable, what is counted, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import os
import pickle
import random
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, MissingPart, StorageFull, Usage
from refaug.core.text import tokenizer_training
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import MAX_SENTENCE_BYTES, TokenizerTraining, train_sentencepiece


def chat(count: int, *, seed: int = 0) -> list[str]:
    """Sentences of made-up words, the first ones much more frequent than the last."""
    drawn = random.Random(seed)
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    words = ["".join(drawn.choices(syllables, k=drawn.randint(1, 3))) for _ in range(500)]
    weights = [1 / rank for rank in range(1, 501)]
    return [" ".join(drawn.choices(words, weights, k=drawn.randint(3, 12))) for _ in range(count)]


SMALL = TokenizerTraining(vocab_size=120)


def test_the_vocabulary_is_pad_unk_user_symbols_and_then_what_was_learned(tmp_path: Path) -> None:
    trained = train_sentencepiece(chat(2000), tmp_path / "chat.model", SMALL)
    tokenizer = open_sentencepiece(trained.path)
    assert tokenizer.pieces[:5] == ["<pad>", "<unk>", "<url>", "<email>", "<user>"]
    assert (tokenizer.pad_id, tokenizer.unk_id) == (0, 1)
    assert tokenizer.vocab_size == trained.vocab_size == len(set(tokenizer.pieces)) == 122
    assert {"<s>", "</s>"}.isdisjoint(tokenizer.pieces)
    assert tokenizer.encode_ids_batch(["<url> <email><user>, ж"])[0][-1] == tokenizer.unk_id
    assert [piece for piece in tokenizer.tokenize("x<url> <email><user>") if piece[0] == "<"] == [
        "<url>",
        "<email>",
        "<user>",
    ]


def test_same_texts_and_settings_give_the_same_bytes_at_any_path(tmp_path: Path) -> None:
    texts = chat(2000)
    models = [
        train_sentencepiece(iter(texts), path, SMALL).path.read_bytes()
        for path in (tmp_path / "a.model", tmp_path / "elsewhere" / "b.model", tmp_path / "a.model")
    ]
    assert models[0] == models[1] == models[2]


def test_another_seed_takes_another_sample(tmp_path: Path) -> None:
    texts = chat(3000)
    hashes = {
        train_sentencepiece(
            texts, tmp_path / "x.model", TokenizerTraining(vocab_size=120, sample=500, seed=seed)
        ).sha256
        for seed in (1, 2, 1)
    }
    assert len(hashes) == 2


def test_byte_pairs_give_other_pieces_than_the_unigram_method(tmp_path: Path) -> None:
    models = [
        train_sentencepiece(chat(1000), tmp_path / f"{method}.model", TokenizerTraining(vocab_size=100, method=method))
        for method in ("unigram", "bpe")
    ]
    unigram, byte_pairs = (open_sentencepiece(model.path) for model in models)
    assert (unigram.vocab_size, byte_pairs.vocab_size) == (102, 102)
    assert unigram.pieces[:2] == byte_pairs.pieces[:2] == ["<pad>", "<unk>"]
    assert set(unigram.pieces) != set(byte_pairs.pieces)
    text = next(iter(chat(1)))
    assert byte_pairs.decode_ids(byte_pairs.encode_ids_batch([text])[0]) == " ".join(text.split())


def test_the_manifest_says_how_the_model_was_made(tmp_path: Path) -> None:
    texts = [*chat(1000), "", " \t", "\0", "word " * MAX_SENTENCE_BYTES]
    settings = TokenizerTraining(vocab_size=100, sample=800, seed=7, language="ja", user_symbols=("<url>",))
    trained = train_sentencepiece(texts, tmp_path / "chat.model", settings)
    assert json.loads((tmp_path / "chat.model.json").read_text(encoding="utf-8")) == {
        "format_version": 1,
        "file": "chat.model",
        "size": trained.path.stat().st_size,
        "sha256": hashlib.sha256(trained.path.read_bytes()).hexdigest(),
        "vocab_size": 102,
        "seed": 7,
        "settings": {
            "vocab_size": 100,
            "method": "unigram",
            "at_most": False,
            "sample": 800,
            "seed": 7,
            "character_coverage": 0.9995,
            "language": "ja",
            "user_symbols": ["<url>"],
        },
        "sentences_seen": 1004,
        "sentences_used": 800,
        "sentences_empty": 3,
        "sentences_too_long": 1,
        "max_sentence_bytes": 16384,
        "sentencepiece": importlib.metadata.version("sentencepiece"),
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.model", "chat.model.json"]
    assert (trained.sentences_seen, trained.sentences_used) == (1004, 800)
    assert (trained.sentences_empty, trained.sentences_too_long) == (3, 1)
    assert trained.settings == settings


def test_text_of_the_maximum_length_is_used_and_one_byte_more_is_not(tmp_path: Path) -> None:
    fits = ("é" * 7 + " ") * (MAX_SENTENCE_BYTES // 15)
    fits = fits[: len(fits) // 2] + " " + fits[len(fits) // 2 :]
    fits = " ".join(fits.split())
    fits += "e" * (MAX_SENTENCE_BYTES - len(fits.encode()))
    trained = train_sentencepiece([*chat(500), fits, fits + "e"], tmp_path / "x.model", SMALL)
    assert (trained.sentences_used, trained.sentences_too_long) == (501, 1)
    assert open_sentencepiece(trained.path).encode_ids_batch(["é"])[0][-1] != 1


def test_sentences_with_reserved_characters_are_still_used_for_training(tmp_path: Path) -> None:
    texts = [*chat(500), "жук\u2585жук\0жук\nжук\ud800"]
    trained = train_sentencepiece(texts, tmp_path / "x.model", SMALL)
    assert trained.sentences_used == 501
    assert 1 not in open_sentencepiece(trained.path).encode_ids_batch(["жук"])[0]


def test_training_and_its_refusals_write_nothing_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train_sentencepiece([*chat(500), "x" * 20_000], tmp_path / "x.model", SMALL)
    with pytest.raises(BadInput):
        train_sentencepiece(["a"], tmp_path / "y.model", SMALL)
    assert capfd.readouterr() == ("", "")


def test_too_large_a_vocabulary_is_refused_with_the_largest_possible_one(tmp_path: Path) -> None:
    texts = chat(300)
    with pytest.raises(BadInput) as refused:
        train_sentencepiece(texts, tmp_path / "x.model", TokenizerTraining(vocab_size=50_000))
    found = re.fullmatch(r"the texts give at most (\d+) pieces, not 50000", refused.value.message)
    assert found
    possible = int(found[1])
    assert refused.value.remedy == f"give more texts, or ask for {possible} pieces or fewer (--size)"
    assert list(tmp_path.iterdir()) == []
    trained = train_sentencepiece(texts, tmp_path / "x.model", TokenizerTraining(vocab_size=possible))
    assert trained.vocab_size == possible + 2
    at_most = train_sentencepiece(texts, tmp_path / "y.model", TokenizerTraining(vocab_size=50_000, at_most=True))
    assert 100 < at_most.vocab_size <= possible + 2


def test_too_small_a_vocabulary_is_refused_with_what_the_characters_need(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        train_sentencepiece(["abc"] * 50, tmp_path / "x.model", TokenizerTraining(vocab_size=2, user_symbols=()))
    assert "vocab_size" in refused.value.message


@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n", "\0"]])
def test_texts_without_content_are_refused(tmp_path: Path, texts: list[str]) -> None:
    with refusing(BadInput, len(texts), len(texts)):
        train_sentencepiece(texts, tmp_path / "x.model", SMALL)
    assert list(tmp_path.iterdir()) == []


def test_texts_of_invisible_characters_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        train_sentencepiece(["\u200b"] * 5, tmp_path / "x.model", SMALL)


def test_an_error_in_the_texts_comes_through_as_it_is(tmp_path: Path) -> None:
    def texts() -> object:
        yield "a"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        train_sentencepiece(texts(), tmp_path / "x.model", SMALL)


def test_a_model_must_be_called_one(tmp_path: Path) -> None:
    with refusing(Usage, "x.bin"):
        train_sentencepiece(["a"], tmp_path / "x.bin", SMALL)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"sample": 0}, "sample is 0"),
        ({"character_coverage": 0.5}, "character_coverage is 0.5"),
        ({"character_coverage": float("nan")}, "character_coverage is nan"),
        ({"language": " "}, "language is empty"),
        ({"user_symbols": ("a b",)}, "'a b' cannot be a user symbol"),
        ({"user_symbols": ("",)}, "'' cannot be a user symbol"),
        ({"user_symbols": ("<pad>",)}, "'<pad>' cannot be a user symbol"),
        ({"user_symbols": ("<a>", "<a>")}, "user_symbols has one twice: <a>, <a>"),
    ],
)
def test_settings_check_themselves(fields: dict, message: str) -> None:
    with pytest.raises(Usage) as refused:
        TokenizerTraining(**fields)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("language", "coverage", "effective"),
    [("en", None, 1.0), ("ja", None, 0.9995), ("zh-Hant", None, 0.9995), ("ja_JP", None, 0.9995), ("ja", 0.99, 0.99)],
)
def test_character_coverage_follows_the_language(language: str, coverage: float | None, effective: float) -> None:
    assert TokenizerTraining(language=language, character_coverage=coverage).effective_coverage == effective


def test_the_defaults_are_those_of_the_design() -> None:
    settings = TokenizerTraining()
    assert (settings.vocab_size, settings.sample, settings.seed) == (16_000, 2_000_000, 1)
    assert settings.user_symbols == ("<url>", "<email>", "<user>")
    assert pickle.loads(pickle.dumps(settings)) == settings


# The sample


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 3))
def test_a_sample_has_every_text_at_most_once_and_is_full_when_it_can_be(size: int, count: int, seed: int) -> None:
    sample = tokenizer_training._Sample(size, seed)
    texts = [str(number) for number in range(count)]
    for text in texts:
        sample.offer(text)
    kept = list(sample.drain())
    assert len(kept) == len(set(kept)) == min(size, count)
    assert set(kept) <= set(texts)
    assert sample.seen == count
    assert sample.sentences == []


def test_every_text_has_the_same_chance_to_be_in_the_sample() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(4000):
        sample = tokenizer_training._Sample(3, seed)
        for number in range(12):
            sample.offer(str(number))
        drawn.update(sample.sentences)
    # 1000 expected each, standard deviation 27
    assert [count for count in drawn.values() if not 880 < count < 1120] == []
    assert len(drawn) == 12


# Writing


def test_a_model_that_is_there_is_replaced_with_its_manifest(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    first = train_sentencepiece(chat(500), path, SMALL)
    second = train_sentencepiece(chat(500, seed=5), path, SMALL)
    assert first.sha256 != second.sha256 == open_sentencepiece(path).sha256
    assert json.loads((tmp_path / "x.model.json").read_text(encoding="utf-8"))["sha256"] == second.sha256
    assert path.stat().st_mode & 0o777 == 0o644


def test_stopped_between_model_and_manifest_there_is_no_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.model"
    train_sentencepiece(chat(500), path, SMALL)
    renamed = Path.replace

    def stop_at_manifest(self: Path, target: Path) -> Path:
        if target.suffix == ".json":
            raise KeyboardInterrupt
        return renamed(self, target)

    monkeypatch.setattr(Path, "replace", stop_at_manifest)
    with pytest.raises(KeyboardInterrupt):
        train_sentencepiece(chat(500, seed=5), path, SMALL)
    assert [found.name for found in tmp_path.iterdir()] == ["x.model"]


def test_a_full_disk_is_named_and_leaves_the_old_model_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.model"
    before = train_sentencepiece(chat(500), path, SMALL)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        train_sentencepiece(chat(500, seed=5), path, SMALL)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["x.model", "x.model.json"]
    assert open_sentencepiece(path).sha256 == before.sha256


def test_sentencepiece_missing_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingPart) as refused:
        train_sentencepiece(["a"], tmp_path / "x.model", SMALL)
    assert refused.value.remedy == "pip install sentencepiece"
