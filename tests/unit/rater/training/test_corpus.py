"""From logs to a corpus, against counting in plain Python what the logs hold."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, Corrupt
from refaug.core.progress import Silent
from refaug.core.query_engine import QueryEngine
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.pairs import SharedSettings, text_key
from refaug.logs.store import StoredLog
from refaug.rater.training.corpus import LEAST_UTTERANCES, code_texts, mine, open_corpus, shared_rows, turns_of
from refaug.rater.training.examples import ExampleCorpus

PLACES = ["barn", "field", "garden", "kitchen", "market", "mill", "river", "school", "shed", "station", "tower", "yard"]
THINGS = ["bell", "boat", "book", "cart", "clock", "coat", "fish", "goat", "hat", "key", "lamp", "map", "pot", "rope"]
QUESTIONS = ["where is the {} of the {}", "who took the {} from the {}", "did you see a {} near the {}"]
ANSWERS = ["ask in the {}", "no idea about any {}", "it was in the {} yesterday", "the {} , i think", "not in the {}"]
MOST = 12  # pieces of a text
SETTINGS = SharedSettings()
Pair = tuple[str, str]


def drawn_pairs(seed: int, count: int) -> list[Pair]:
    """Questions and answers in several spellings; some questions are too short, others are asked once."""
    rng = random.Random(seed)

    def spelt(text: str) -> str:
        return rng.choice([text, text, text.capitalize(), f"{text} !", f"{text}.", text.replace(" ", "  ")])

    pairs = []
    for _ in range(count):
        question = rng.choice(QUESTIONS).format(rng.choice(THINGS), rng.choice(PLACES))
        asked = rng.choice([question] * 8 + ["who is there", f"{question} number {rng.randrange(10**6)}"])
        pairs.append((spelt(asked), spelt(rng.choice(ANSWERS).format(rng.choice(PLACES)))))
    return pairs


def log_of(home: Path, name: str, pairs: Sequence[Pair]) -> StoredLog:
    source = home / f"{name}.jsonl"
    source.write_bytes(b"".join(orjson.dumps({"utterance": u, "response": r}) + b"\n" for u, r in pairs))
    ingest(IngestOrder(sources=(str(source),), log=name, workers=0), home / "logs", Silent())
    return StoredLog.open(home / "logs", name)


def by_hand(logs: Iterable[StoredLog], settings: SharedSettings) -> dict[str, tuple[set[str], dict[str, set[str]]]]:
    """What may be shared: by normalised utterance its spellings, and the spellings of each normalised response."""
    spellings = defaultdict[str, set[str]](set)
    answers = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
    for pair in (pair for log in logs for pair in log.pairs()):
        if sum(any(c.isalnum() for c in word) for word in pair.utterance.split()) < settings.min_words:
            continue
        spellings[normalise(pair.utterance)].add(pair.utterance)
        answers[normalise(pair.utterance)][normalise(pair.response)].add(pair.response)
    return {one: (spellings[one], own) for one, own in answers.items() if len(own) >= settings.min_responses}


def mined(folder: Path, logs: Sequence[StoredLog], settings: SharedSettings = SETTINGS) -> Mapping[str, Any]:
    folder.mkdir(exist_ok=True)
    with QueryEngine(folder / "engine", memory=512 << 20, threads=1) as engine:
        return mine(engine, logs, settings, folder, Silent())


def require_shared(rows: Sequence[dict[str, Any]], logs: Sequence[StoredLog], settings: SharedSettings) -> None:
    """The rows are exactly the shared utterances that counting finds, with as many of their responses as are taken."""
    expected = by_hand(logs, settings)
    assert sorted(normalise(row["utterance"]) for row in rows) == sorted(expected)
    for row in rows:
        spellings, answers = expected[normalise(row["utterance"])]
        assert row["utterance"] in spellings
        taken = [normalise(response) for response in row["responses"]]
        assert len(set(taken)) == len(taken) == min(settings.max_responses, len(answers))
        assert all(response in answers[key] for key, response in zip(taken, row["responses"], strict=True))


def pairs_in(rows: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(row["responses"]) * (len(row["responses"]) - 1) // 2 for row in rows)


def texts_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [text for row in rows for text in (row["utterance"], *row["responses"])]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def logs(home: Path) -> list[StoredLog]:
    first = [
        *drawn_pairs(1, 2_500),
        ("did you see the 猫 near the 駅 ?", "猫 ?"),
        ("did you see the 猫 near the 駅", "駅 !"),
    ]
    return [log_of(home, "first", first), log_of(home, "second", drawn_pairs(2, 1_200))]


@pytest.fixture(scope="module")
def tokenizer(home: Path, logs: list[StoredLog]) -> SentencePieceTokenizer:
    texts = [text for text in turns_of(logs, Silent()) if text.isascii()]
    trained = train_sentencepiece(texts, home / "tiny.model", TokenizerTraining(vocab_size=100))
    return open_sentencepiece(trained.path)


@pytest.fixture(scope="module")
def folder(home: Path, logs: list[StoredLog]) -> Path:
    """A folder in which the first log was mined."""
    mined(home / "mined", logs[:1])
    return home / "mined"


@pytest.fixture(scope="module")
def facts(folder: Path, tokenizer: SentencePieceTokenizer) -> Mapping[str, Any]:
    return code_texts(tokenizer, folder, MOST, Silent())


@pytest.fixture(scope="module")
def corpus(folder: Path, facts: Mapping[str, Any]) -> ExampleCorpus:
    assert facts
    return open_corpus(folder)


# Mining


@pytest.mark.parametrize(
    "settings",
    [SETTINGS, SharedSettings(max_responses=3, seed=2), SharedSettings(min_words=7), SharedSettings(min_responses=4)],
)
def test_what_is_mined_is_what_counting_finds(tmp_path: Path, logs: list[StoredLog], settings: SharedSettings) -> None:
    found = mined(tmp_path, logs[:1], settings)
    rows = list(shared_rows(tmp_path))
    require_shared(rows, logs[:1], settings)
    assert found == {"utterances": len(rows), "positive_pairs": pairs_in(rows)}
    counts = {len(row["responses"]) for row in rows}
    assert counts == set(range(settings.min_responses, settings.max_responses + 1))


def test_several_logs_are_mined_as_if_they_were_one(tmp_path: Path, logs: list[StoredLog]) -> None:
    found = mined(tmp_path, logs)
    rows = list(shared_rows(tmp_path))
    require_shared(rows, logs, SETTINGS)
    assert found == {"utterances": len(rows), "positive_pairs": pairs_in(rows)}
    apart = [set(by_hand([log], SETTINGS)) for log in logs]
    assert {normalise(row["utterance"]) for row in rows} > apart[0] | apart[1]  # some are shared only by both logs
    turned = tmp_path / "turned"
    assert mined(turned, logs[::-1]) == found
    assert list(shared_rows(turned)) == rows


def test_too_few_shared_utterances_are_refused_with_both_numbers(tmp_path: Path) -> None:
    questions = [f"what is in box number {number}" for number in range(LEAST_UTTERANCES)]
    pairs = [(question, answer) for question in questions for answer in ("a key", "a map")]
    few, other = log_of(tmp_path, "few", pairs[:-4]), log_of(tmp_path, "other", [("who is there", "me")])
    with pytest.raises(BadInput) as caught:
        mined(tmp_path / "refused", [few, other])
    assert all(fact in caught.value.message for fact in ("198", "200"))
    assert "--min-words" in caught.value.remedy
    rest = log_of(tmp_path, "rest", pairs[-4:])
    assert mined(tmp_path / "enough", [few, rest]) == {"utterances": 200, "positive_pairs": 200}


def test_a_log_without_any_shared_utterance_is_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path, "lonely", [("what is that over there", "a cow"), ("What is that over there?", "A cow!")])
    with refusing(BadInput, "200"):
        mined(tmp_path / "refused", [log])


def test_the_tokenizer_is_given_the_turns_of_every_log_once(logs: list[StoredLog]) -> None:
    expected = list[str]()
    for log in logs:
        before = set[str]()  # the texts of the pair before: a dialogue goes on with one of them
        for pair in log.pairs():
            expected += [pair.response] if pair.utterance in before else [pair.utterance, pair.response]
            before = {pair.utterance, pair.response}
    assert list(turns_of(logs, Silent())) == expected


# Coding


def test_texts_are_their_piece_ids_cut_where_they_are_too_long(
    folder: Path, tokenizer: SentencePieceTokenizer, corpus: ExampleCorpus
) -> None:
    texts = texts_of(shared_rows(folder))
    found = [corpus.pieces[begin:end].tolist() for begin, end in zip(corpus.start, corpus.start[1:], strict=False)]
    assert found == [tokenizer.encode_ids_batch([text])[0][:MOST] for text in texts]
    assert any(len(tokenizer.encode_ids_batch([text])[0]) > MOST for text in texts)
    assert any(len(tokenizer.encode_ids_batch([text])[0]) < MOST for text in texts)
    assert [array.dtype.name for array in (corpus.pieces, corpus.start, corpus.first)] == ["uint16", "int64", "int64"]


def test_utterances_precede_their_responses_under_their_normalised_key(folder: Path, corpus: ExampleCorpus) -> None:
    rows = list(shared_rows(folder))
    assert corpus.utterances == len(rows)
    assert corpus.first[0] == 0
    assert np.diff(corpus.first).tolist() == [1 + len(row["responses"]) for row in rows]
    assert corpus.names.tolist() == [text_key(normalise(row["utterance"])) for row in rows]
    assert len(corpus.positives(np.arange(len(rows)))) == pairs_in(rows)


def test_the_facts_count_texts_pieces_cut_texts_and_unknown_pieces(
    folder: Path, tokenizer: SentencePieceTokenizer, corpus: ExampleCorpus, facts: Mapping[str, Any]
) -> None:
    coded = [tokenizer.encode_ids_batch([text])[0] for text in texts_of(shared_rows(folder))]
    assert facts == {
        "texts": len(coded),
        "pieces": sum(min(MOST, len(ids)) for ids in coded),
        "cut": sum(len(ids) > MOST for ids in coded),
        "coverage": {
            "characters": sum(map(len, texts_of(shared_rows(folder)))),
            "pieces": sum(map(len, coded)),
            "unknown": facts["coverage"]["unknown"],
        },
    }
    assert facts["coverage"]["unknown"] >= int((corpus.pieces == tokenizer.unk_id).sum()) > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("names", None), ("first", b"no array"), ("pieces", b"\x93NUMPY"), ("start", b"")],
)
def test_a_corpus_with_a_missing_or_damaged_file_is_corrupt(
    folder: Path, corpus: ExampleCorpus, tmp_path: Path, name: str, content: bytes | None
) -> None:
    for path in folder.glob("*.npy"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert np.array_equal(open_corpus(tmp_path).first, corpus.first)
    if content is None:
        (tmp_path / f"{name}.npy").unlink()
    else:
        (tmp_path / f"{name}.npy").write_bytes(content)
    with pytest.raises(Corrupt) as caught:
        open_corpus(tmp_path)
    assert str(tmp_path) in caught.value.message
    assert caught.value.remedy == "remove the folder and train again"
