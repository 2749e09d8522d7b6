"""Tokenizers, and `refaug log demo`, as their users call them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from refaug.cli import main as cli
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a small demo log in it."""
    folder = tmp_path_factory.mktemp("demo")
    written = ["--output", str(folder / "log.jsonl"), "--items-output", str(folder / "items.jsonl")]
    assert cli.main(["log", "demo", "--dialogues", "400", "--items", "12", *written]) == 0
    assert cli.main(["--home", str(folder / "home"), "log", "ingest", str(folder / "log.jsonl"), "--log", "demo"]) == 0
    return folder


def test_the_demo_log_and_its_items_are_written_whole(home: Path) -> None:
    dialogues = [json.loads(line) for line in (home / "log.jsonl").read_text("utf-8").splitlines()]
    items = [json.loads(line) for line in (home / "items.jsonl").read_text("utf-8").splitlines()]
    assert [dialogue["id"] for dialogue in dialogues] == [f"demo/{number:06}" for number in range(1, 401)]
    assert [set(item["replies"]) for item in items] == [{"human-like", "decent", "generic", "random"}] * 12
    assert [path.name for path in home.glob(".*")] == []


def test_tokens_are_shown_for_texts_and_as_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["log", "tokenize", "word", "Don't WORRY, it's 3.50!"]) == 0
    assert capfdbinary.readouterr().out.decode() == "don't worry , it's 3.50 !\n"
    assert cli.main(["log", "tokenize", "char", "ab c", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["tokens"] == [["a", "b", "c"]]


def test_vocabulary_trained_on_a_log_is_reproducible_and_usable(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hashes = []
    for number in (1, 2):
        model = home / f"vocabulary-{number}.model"
        command = ["--home", str(home / "home"), "train", "tokenizer", "demo", "--output", str(model), "--size", "400"]
        capfdbinary.readouterr()
        assert cli.main([*command, "--json"]) == 0
        report = json.loads(capfdbinary.readouterr().out)
        hashes.append(hashlib.sha256(model.read_bytes()).hexdigest())
        assert (report["sha256"], report["vocab_size"]) == (hashes[-1], 402)
    assert hashes[0] == hashes[1]
    tokenizer = open_sentencepiece(home / "vocabulary-1.model")
    assert "".join(tokenizer.tokenize("the weather")).replace("\u2581", " ").strip() == "the weather"


def test_vocabulary_too_large_for_the_texts_is_refused_with_the_limit(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["--home", str(home / "home"), "train", "tokenizer", "demo", "--output", str(home / "large.model")]
    assert cli.main([*command, "--json"]) == 3
    error = json.loads(capfd.readouterr().err.splitlines()[-1])["error"]
    assert error["code"] == "bad_input"
    assert not (home / "large.model").exists()


def test_every_tokenizer_is_listed_with_what_it_needs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["log", "tokenizers", "--json"]) == 0
    listed = {kind["name"].split(":")[0] for kind in json.loads(capfdbinary.readouterr().out)["tokenizers"]}
    assert {"13a", "intl", "word", "char", "mecab", "sentencepiece"} <= listed
