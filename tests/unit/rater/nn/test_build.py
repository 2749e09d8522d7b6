"""What a rater is made from: its logs' language decides which utterances count."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from refaug.core.progress import Silent
from refaug.indexer.tokens import default_tokenizer_for
from refaug.logs.ingest.cleaning import CleaningSettings
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.pairs import SharedSettings
from refaug.rater.nn.build import RaterOrder
from refaug.rater.training.examples import ExampleSettings
from refaug.rater.training.order import open_training_logs


def log_in(folder: Path, name: str, language: str | None) -> None:
    """A log of one pair, ingested in a language."""
    source = folder / f"{name}.jsonl"
    source.write_bytes(orjson.dumps({"id": "1", "turns": ["今日は何を食べますか where", "カレーです there"]}))
    cleaning = CleaningSettings(language=language, rules=())
    ingest(IngestOrder(sources=(str(source),), log=name, cleaning=cleaning), folder / "logs", Silent())


@pytest.mark.parametrize(
    ("language", "named", "shared", "tokenizer"),
    [
        ("ja", "ja", SharedSettings(min_words=1, min_chars=10, seed=3), "mecab"),
        ("de", "de", SharedSettings(min_words=4, min_chars=1, seed=3), "word"),
        (None, "en", SharedSettings(min_words=4, min_chars=1, seed=3), "word"),
    ],
)
def test_the_language_that_a_log_was_ingested_in_decides(
    tmp_path: Path, language: str | None, named: str, shared: SharedSettings, tokenizer: str
) -> None:
    log_in(tmp_path, "chat", language)
    order = RaterOrder(name="chat", logs=("chat",), examples=ExampleSettings(seed=3))
    sources = open_training_logs(tmp_path / "logs", order)
    assert (sources.languages, order.shared_utterances(sources)) == ((named,), shared)
    assert default_tokenizer_for(sources.logs) == tokenizer
