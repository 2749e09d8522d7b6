"""From logs to pairs as piece ids: each row as a plain loop over the log reads it."""

from __future__ import annotations

import random
import resource
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, Corrupt, StorageFull
from refaug.core.progress import Silent
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.pairs import text_key
from refaug.rater.language_coverage import Coverage
from refaug.rater.ruber.build import RuberOrder
from refaug.rater.training.order import TrainingLogs, open_training_logs
from refaug.rater.training.pair_corpus import LEAST_PAIRS, _without_empty, code_pairs, open_pairs, require_pairs

WORDS = ["bread", "butter", "cheese", "dinner", "for", "have", "is", "lunch", "nothing", "some", "there", "we", "what"]


def log_in(folder: Path, name: str, dialogues: int, seed: int) -> None:
    """A log of dialogues of two to five turns."""
    rng = random.Random(seed)
    rows = [
        {"id": str(at), "turns": [" ".join(rng.choices(WORDS, k=rng.randint(2, 6))) for _ in range(rng.randint(2, 5))]}
        for at in range(dialogues)
    ]
    source = folder / f"{name}.jsonl"
    source.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    ingest(IngestOrder(sources=(str(source),), log=name), folder / "logs", Silent())


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> TrainingLogs:
    folder = tmp_path_factory.mktemp("logs")
    log_in(folder, "one", 150, 1)
    log_in(folder, "two", 80, 2)
    return open_training_logs(folder / "logs", RuberOrder(name="some", logs=("two", "one")))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "some.model"
    texts = [" ".join(random.Random(number).choices(WORDS, k=2 + number % 7)) for number in range(300)]
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=40, at_most=True))
    return open_sentencepiece(path)


def test_every_pair_of_the_logs_is_coded_in_order_with_its_keys(
    sources: TrainingLogs, tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    facts = code_pairs(tokenizer, sources, tmp_path, 8, Silent())
    corpus = open_pairs(tmp_path)
    pairs = [pair for log in sources.logs for pair in log.pairs()]
    assert [log.manifest.name for log in sources.logs] == ["one", "two"]
    assert len(corpus) == len(pairs) == facts["pairs"]
    coded = {text: tokenizer.encode_ids_batch([text])[0] for pair in pairs for text in (pair.utterance, pair.response)}

    def text_at(number: int) -> list[int]:
        return corpus.pieces[corpus.start[number] : corpus.start[number + 1]].tolist()

    for row, pair in enumerate(pairs):
        assert text_at(corpus.utterance[row]) == coded[pair.utterance][:8]
        assert text_at(corpus.reply[row]) == coded[pair.response][:8]
    assert corpus.asked.tolist() == [text_key(normalise(pair.utterance)) for pair in pairs]
    assert corpus.said.tolist() == [text_key(normalise(pair.response)) for pair in pairs]
    names = [(pair.log, pair.dialogue) for pair in pairs]
    assert len(set(zip(names, corpus.dialogue.tolist(), strict=True))) == len(set(names)) == facts["dialogues"]
    assert len(set(corpus.dialogue.tolist())) == len(set(names))
    assert corpus.first.tolist() == [0, sum(pair.log == "one" for pair in pairs), len(pairs)]
    assert corpus.pieces.dtype == np.uint16

    # equal texts that are read together are kept once, and counted so
    each = [
        {text for pair in pairs if pair.log == log for text in (pair.utterance, pair.response)}
        for log in ("one", "two")
    ]
    read = [text for texts in each for text in texts]
    assert (facts["texts"], facts["empty"]) == (len(read), 0)
    assert facts["pieces"] == len(corpus.pieces) == sum(len(coded[text][:8]) for text in read)
    assert facts["cut"] == sum(len(coded[text]) > 8 for text in read)
    assert Coverage.read(facts["coverage"]) == Coverage.of(tokenizer, read)


def test_the_order_in_which_logs_are_named_changes_nothing(sources: TrainingLogs) -> None:
    folder = sources.logs[0].folder.parent
    again = open_training_logs(folder, RuberOrder(name="some", logs=("one", "two")))
    assert (again.parts, again.languages) == (sources.parts, sources.languages) == (sources.parts, ("en",))


def test_rows_with_an_empty_text_are_left_out() -> None:
    rows = [("a", "tea?", "yes"), ("a", "yes", ""), ("b", "\u200b", "what?"), ("b", "what?", "tea?"), ("b", "?", "!")]
    batch = pa.RecordBatch.from_pydict(
        {
            "dialogue": [one for one, _, _ in rows],
            "utterance": [one for _, one, _ in rows],
            "response": [one for _, _, one in rows],
            "utterance_key": pa.array([text_key(normalise(one)) for _, one, _ in rows], pa.uint64()),
            "response_key": pa.array([text_key(normalise(one)) for _, _, one in rows], pa.uint64()),
        }
    )
    found = _without_empty(0, "log", batch)
    texts = found.texts
    assert texts == ["tea?", "what?", "?", "yes", "!"]
    assert [(texts[u], texts[r]) for u, r in zip(found.utterance, found.reply, strict=True)] == [
        ("tea?", "yes"),
        ("what?", "tea?"),
        ("?", "!"),
    ]
    assert found.asked.tolist() == [text_key(normalise(one)) for one in ("tea?", "what?", "?")]
    first, second, third = found.dialogue.tolist()
    assert first != second == third
    other, _ = _without_empty(0, "other log", batch).dialogue.tolist()[:2]
    assert other != first


def test_a_log_of_a_few_pairs_is_refused_with_their_number(tmp_path: Path) -> None:
    log_in(tmp_path, "few", 30, 3)
    sources = open_training_logs(tmp_path / "logs", RuberOrder(name="some", logs=("few",)))
    found = sum(1 for _ in sources.logs[0].pairs())
    assert found < LEAST_PAIRS
    with pytest.raises(BadInput) as caught:
        require_pairs(sources)
    assert caught.value.message == f"few: {found} pairs; at least 200 are needed"
    assert caught.value.remedy == "give more logs"


def test_arrays_that_are_damaged_or_missing_are_refused(
    sources: TrainingLogs, tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    code_pairs(tokenizer, sources, tmp_path, 8, Silent())
    (tmp_path / "reply.npy").write_bytes(b"\x80\x04pickle")
    with refusing(Corrupt):
        open_pairs(tmp_path)
    (tmp_path / "reply.npy").unlink()
    with refusing(Corrupt, "reply.npy"):
        open_pairs(tmp_path)


def test_a_full_disk_is_named_and_nothing_half_written_is_left(
    sources: TrainingLogs, tokenizer: SentencePieceTokenizer, tmp_path: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with refusing(StorageFull, "pieces.npy"):
            code_pairs(tokenizer, sources, tmp_path, 8, Silent())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
