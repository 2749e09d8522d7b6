"""Embedding average, vector extrema, pooling and greedy matching as metrics: texts in, agreement with plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from refaug.core.errors import NotFound, Usage
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import open_word_vectors
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Floats, Level, References
from refaug.metrics.embeddings.word_vector_metrics import NO_KNOWN_REFERENCE, NO_KNOWN_WORD
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build

NAMES = ["embedding-average", "vector-extrema", "pooled", "greedy"]
WORDS = ["the", "cat", "dog", "sat", "ran", "fast", "."]
VECTORS = np.random.default_rng(5).normal(size=(len(WORDS), 6)).astype(np.float32)
TEXT = st.lists(st.sampled_from([*WORDS, "The", "unknown"]), min_size=1, max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "tiny glove.txt"
    rows = [" ".join(map(repr, row.tolist())) for row in VECTORS]
    path.write_text("".join(f"{word} {row}\n" for word, row in zip(WORDS, rows, strict=True)))
    return path


def scores(specification: str, reply: str, references: Sequence[str]) -> Floats:
    metric = build(specification)
    prepared = metric.prepare([References.unweighted(references)])
    return metric.values(metric.statistics([reply], prepared, np.array([0]), np.array([0])), Level.REPLY)


# Agreement


def expected(name: str, measure: str, weighting: str, reply: str, reference: str) -> float:
    """In plain numpy, from the definitions."""
    mine, theirs = known(reply), known(reference)
    if not mine or not theirs:
        return float("nan")
    h, r = VECTORS[mine].astype(float), VECTORS[theirs].astype(float)
    zipf = 1 / np.arange(1, len(WORDS) + 1) / (1 / np.arange(1, len(WORDS) + 1)).sum()
    weight = 1e-3 / (1e-3 + zipf) if weighting == "sif" else np.ones(len(WORDS))
    if name == "embedding-average":
        return cosine(weight[mine] @ h, weight[theirs] @ r)
    if name == "vector-extrema":
        return cosine(extreme(h), extreme(r))
    if name == "pooled":
        return cosine(*(np.concatenate([rows.max(axis=0), rows.min(axis=0)]) for rows in (h, r)))
    table = np.array([[cosine(x, y) for y in r] for x in h])
    precision = np.average(table.max(axis=1), weights=weight[mine])
    recall = np.average(table.max(axis=0), weights=weight[theirs])
    f = 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0.0
    return float({"precision": precision, "recall": recall, "mean": (precision + recall) / 2, "f": f}[measure])


def known(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.lower().split() if word in WORDS]


def cosine(x: NDArray[Any], y: NDArray[Any]) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def extreme(rows: NDArray[Any]) -> NDArray[Any]:
    high, low = rows.max(axis=0), rows.min(axis=0)
    return np.asarray(np.where(high > np.abs(low), high, low))


@settings(max_examples=40, deadline=None)
@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.sampled_from(["none", "sif"]))
def test_every_metric_is_what_numpy_gives(vectors: Path, reply: str, references: list[str], weighting: str) -> None:
    cases = [("embedding-average", "", f",weighting={weighting}"), ("vector-extrema", "", ""), ("pooled", "", "")]
    cases += [("greedy", one, f",weighting={weighting},measure={one}") for one in ("mean", "f", "precision", "recall")]
    for name, measure, more in cases:
        each = np.array([expected(name, measure, weighting, reply, reference) for reference in references])
        usable = each[[bool(known(reference)) for reference in references]]
        for multi, combine in (("best", np.max), ("mean", np.mean)):
            found = scores(f"{name}:vectors={vectors}{more},multi={multi}", reply, references)[0]
            value = combine(usable) if len(usable) else np.nan
            assert found == pytest.approx(value, abs=1e-5, nan_ok=True)


# What has no score


@pytest.mark.parametrize("name", NAMES)
def test_texts_without_a_known_word_have_no_score_and_it_is_said_why(vectors: Path, name: str) -> None:
    metric = build(f"{name}:vectors={vectors},refs=gold")
    items = [
        References(("cat",), (1.0,)),
        References(("unknown", "cat"), (1.0, 1.0)),
        References(("cat",), (1.0,), -1),
        References((" ", "cat"), (1.0, 1.0)),
    ]
    prepared = metric.prepare(items)
    assert prepared.problems == {1: NO_KNOWN_REFERENCE, 2: NO_GOLD, 3: NO_REFERENCE}
    replies = ["cat", "unknown", ""]
    rows = metric.statistics(replies, prepared, np.array([0, 1, 2, 0, 0, 0]), np.array([0, 0, 0, 1, 2, 3]))
    np.testing.assert_allclose(metric.values(rows, Level.REPLY), [1, *[np.nan] * 5], atol=1e-6)
    assert metric.undefined() == NO_KNOWN_WORD
    assert build(f"{name}:vectors={vectors}").prepare(items).problems == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_without_a_known_word_is_left_out(vectors: Path, name: str) -> None:
    specification = f"{name}:vectors={vectors},multi=mean"
    assert scores(specification, "the cat", ["unknown", "a dog", ""]) == scores(specification, "the cat", ["a dog"])


# Settings


@pytest.mark.parametrize("name", [*NAMES, "upsilon-greedy"])
def test_without_vectors_it_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(Usage) as refused:
        build(name)
    assert refused.value.message == f"metric `{name}` needs word vectors: pass {name}:vectors=NAME"
    assert refused.value.remedy == "refaug artefacts list vectors"


def test_vectors_that_are_not_there_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        build(f"greedy:vectors={tmp_path / 'nothing.txt'}")


def test_the_signature_names_vectors_by_their_content(vectors: Path) -> None:
    name = open_word_vectors(vectors).name
    metric = build(f"greedy:vectors={vectors},weighting=sif")
    assert metric.settings == {
        "vectors": name, "weighting": "sif", "measure": "mean", "refs": "own", "multi": "best", "case": "lc",
        "tok": "word",
    }  # fmt: skip
    assert name.startswith("tiny-glove")
    assert metric.versions() == {"frequencies": "zipf", "tokenizer": get_tokenizer("word").version}
    plain = build(f"upsilon-embedding-average:vectors={vectors}")
    assert "frequencies" not in plain.versions()
    assert Signature.parse(Signature.of(plain).full).settings == plain.settings
    assert "weighting" not in build(f"vector-extrema:vectors={vectors}").settings


def test_case_can_be_kept_where_the_tokenizer_keeps_it(vectors: Path) -> None:
    assert np.isnan(scores(f"greedy:vectors={vectors},tok=13a", "Cat", ["cat"])[0])
    assert scores(f"greedy:vectors={vectors},tok=13a,case=lc", "Cat", ["cat"])[0] == pytest.approx(1)


# Batches


@settings(max_examples=20, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(st.lists(TEXT, max_size=3), min_size=1, max_size=3), st.data())
def test_a_row_is_the_same_in_any_batch_to_the_last_bit(
    vectors: Path, replies: list[str], items: list[list[str]], data: st.DataObject
) -> None:
    pair = st.tuples(st.integers(0, len(replies) - 1), st.integers(0, len(items) - 1))
    pairs = np.array(data.draw(st.lists(pair, min_size=1, max_size=6)))
    for name in NAMES:
        metric = build(f"{name}:vectors={vectors}")
        prepared = metric.prepare([References.unweighted(one) for one in items])
        together = metric.statistics(replies, prepared, pairs[:, 0], pairs[:, 1])
        for row, (reply, item) in enumerate(pairs):
            alone = metric.statistics([replies[reply]], prepared, np.array([0]), np.array([item]))
            np.testing.assert_array_equal(alone[0], together[row])
