"""Pairs as a log stores them, and the utterances with several different responses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from refaug.core.errors import Usage
from refaug.core.query_engine import QueryEngine, parquet
from refaug.core.text.tokenizers import default_tokenizer

TIME: Final = pa.timestamp("us", tz="UTC")
PAIR_SCHEMA: Final = pa.schema(
    [
        ("dialogue", pa.string()),
        ("position", pa.string()),
        ("utterance", pa.string()),
        ("response", pa.string()),
        ("utterance_speaker", pa.string()),
        ("response_speaker", pa.string()),
        ("time", TIME),
        ("tags", pa.list_(pa.string())),
        ("utterance_key", pa.uint64()),  # `text_key` of the normalised text: equal texts, equal keys
        ("response_key", pa.uint64()),
    ]
)


def erasure_key(name: str, salt: str) -> str:
    """Return what is stored of an erased speaker or dialogue: enough to recognise the name, not to read it."""
    return hashlib.blake2b(name.encode("utf-8", "replace"), key=salt.encode()[:64], digest_size=16).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Which utterances count, and how many responses of each are used.

    Formulas ("ok", "はい") have thousands of unspecific responses: hence the shortest length, in words, or in
    characters for languages without spaces between words.
    """

    min_words: int = 4
    min_chars: int = 1
    min_responses: int = 2
    max_responses: int = 5
    seed: int = 1
    too_short: bool = False  # use the utterances that are too short instead of the others

    def __post_init__(self) -> None:
        """Require two different responses, which make an utterance shared."""
        if not 2 <= self.min_responses <= self.max_responses:
            raise Usage(
                f"at least {self.min_responses} and at most {self.max_responses} responses: needs 2 ≤ least ≤ most"
            )

    @classmethod
    def for_language(cls, language: str, *, max_responses: int = 5, seed: int = 1) -> SharedSettings:
        """Return ten characters for languages without spaces between words, four words for others."""
        if default_tokenizer(language) != "word":
            return cls(min_words=1, min_chars=10, max_responses=max_responses, seed=seed)
        return cls(max_responses=max_responses, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedUtterance:
    """An utterance and different (after normalisation) responses to it."""

    utterance: str
    responses: tuple[str, ...]


def shared_utterances(
    engine: QueryEngine, parts: Sequence[Path], settings: SharedSettings
) -> Iterator[SharedUtterance]:
    """Yield utterances with several different responses, in a seeded order that does not depend on the log's storage.

    Grouping joins keys and row numbers only; texts are fetched for the chosen rows. Of texts that are equal after
    normalisation, the one is shown whose MD5 has the smallest first half, read as a little-endian number.
    """
    if not parts:
        return
    rows = _numbered_rows(parts)
    _choose(engine, rows, settings)
    sql = f"""
        SELECT c.place, c.utterance_key, u.utterance, r.response
        FROM chosen c JOIN ({rows}) u ON u.row = c.utterance_row JOIN ({rows}) r ON r.row = c.response_row
        ORDER BY c.place, c.utterance_key, c.nth"""
    key, utterance, responses = None, "", list[str]()
    for batch in engine.batches(sql):
        for row_key, text, response in zip(*(batch[name].to_pylist() for name in batch.schema.names[1:]), strict=True):
            if row_key != key:
                if responses:
                    yield SharedUtterance(utterance=utterance, responses=tuple(responses))
                key, utterance, responses = row_key, text, []
            responses.append(response)
    if responses:
        yield SharedUtterance(utterance=utterance, responses=tuple(responses))


def _numbered_rows(parts: Sequence[Path]) -> str:
    """Return the SQL of all pairs with a unique number each."""
    return (
        "SELECT (file_index::BIGINT << 40) + file_row_number AS row, utterance, response, utterance_key, response_key "
        f"FROM {parquet(parts)}"
    )


def _choose(engine: QueryEngine, rows: str, settings: SharedSettings) -> None:
    """Fill the table `chosen`: one row for each response used, with the rows that hold the texts to show."""
    word = r"[^\s]*[\p{L}\p{N}][^\s]*"
    is_long = (
        f"len(replace(utterance, ' ', '')) >= {int(settings.min_chars)} "
        f"AND len(regexp_extract_all(utterance, '{word}')) >= {int(settings.min_words)}"
    )
    eligible = f"SELECT * FROM ({rows}) WHERE {is_long}"
    if settings.too_short:  # in every spelling: "so-what" is one word, "so what" two, and both are one utterance
        eligible = f"SELECT * FROM ({rows}) ANTI JOIN ({eligible}) USING (utterance_key)"
    seed = int(settings.seed)
    for step in (
        f"CREATE OR REPLACE TABLE answer AS SELECT utterance_key, response_key, "
        f"arg_min(row, md5_number_upper(response)) AS response_row FROM ({eligible}) GROUP BY ALL",
        "CREATE OR REPLACE TABLE shared AS SELECT utterance_key FROM answer GROUP BY utterance_key "
        f"HAVING count(*) >= {int(settings.min_responses)}",
        "CREATE OR REPLACE TABLE shown AS SELECT utterance_key, "
        "arg_min(row, md5_number_upper(utterance)) AS utterance_row "
        f"FROM ({eligible}) SEMI JOIN shared USING (utterance_key) GROUP BY utterance_key",
        "CREATE OR REPLACE TABLE chosen AS SELECT * FROM (SELECT utterance_key, utterance_row, response_row, "
        f"md5_number_upper(concat(utterance_key, ' ', {seed})) AS place, row_number() OVER (PARTITION BY utterance_key "
        f"ORDER BY md5_number_upper(concat(response_key, ' ', utterance_key, ' ', {seed})), response_key) AS nth "
        "FROM answer SEMI JOIN shared USING (utterance_key) JOIN shown USING (utterance_key)) "
        f"WHERE nth <= {int(settings.max_responses)}",
        "DROP TABLE answer",
        "DROP TABLE shared",
        "DROP TABLE shown",
    ):
        engine.run(step)


# ── Keys of texts: logs store them beside utterances and responses ────────────────────────────────────────────────────


def text_key(normalised: str) -> int:
    """Return the key under which a log stores a normalised text."""
    return xxh3_64_intdigest(normalised.encode())
