"""BERTScore and sentence cosine as metrics: texts in, agreement with the tiny encoder computed in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest
from encoders import WORDS, TinyEncoder, write_encoder

from refaug.core.errors import NotFound, Usage
from refaug.core.vectors.encoders import open_encoder
from refaug.metrics.base import NO_GOLD, NO_REFERENCE, Floats, Level, References
from refaug.metrics.embeddings.encoder_metrics import NO_REFERENCE_WEIGHT, NO_TOKENS, NO_WEIGHT, BertScore
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import item_of
from refaug.scoring.spooled_items import item_collection
from refaug.scoring.spooled_items.item_collection import ItemCollection

TINY = TinyEncoder.seeded()
REPLIES = ["i like tea", "you really like the big dog", "the cat", "a dog !"]
ITEMS = [["you drink tea .", "i like the cat"], ["the dog likes you"], ["a big big cat ?", "", "tea"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny", weights=TINY)


def all_scores(specification: str, replies: Sequence[str] = REPLIES, items: Sequence[Sequence[str]] = ITEMS) -> Floats:
    """Every reply against every item, (replies, items)."""
    metric = build(specification)
    prepared = metric.prepare([References.unweighted(one) for one in items])
    reply, item = (np.ravel(one) for one in np.indices((len(replies), len(items))))
    rows = metric.statistics(replies, prepared, reply, item)
    return metric.values(rows, Level.REPLY).reshape(len(replies), len(items))


# Agreement


def tiny_bertscore(measure: str, reply: str, reference: str, weight: dict[int, float] | None = None) -> float:
    h, r = (TINY.vectors(text)[1:-1] for text in (reply, reference))
    cosines = (h @ r.T) / np.linalg.norm(h, axis=1)[:, None] / np.linalg.norm(r, axis=1)
    mine, theirs = (
        [1.0 if weight is None else weight[one] for one in TINY.ids(text)[1:-1]] for text in (reply, reference)
    )
    precision = np.average(cosines.max(axis=1), weights=mine)
    recall = np.average(cosines.max(axis=0), weights=theirs)
    f = 2 * precision * recall / (precision + recall) if min(precision, recall) > 0 else 0
    return float({"precision": precision, "recall": recall, "f": f}[measure])


def expected_bertscores(measure: str, multi: str, weight: dict[int, float] | None = None) -> Floats:
    combine = max if multi == "best" else lambda values: sum(values) / len(values)
    return np.array(
        [
            [combine([tiny_bertscore(measure, reply, one, weight) for one in item if one]) for item in ITEMS]
            for reply in REPLIES
        ]
    )


@pytest.mark.parametrize("measure", ["f", "precision", "recall"])
@pytest.mark.parametrize("multi", ["best", "mean"])
def test_bertscore_is_what_numpy_gives(folder: Path, measure: str, multi: str) -> None:
    found = all_scores(f"bertscore:vectors={folder},measure={measure},multi={multi}")
    np.testing.assert_allclose(found, expected_bertscores(measure, multi), atol=1e-5)


def test_idf_is_taken_from_the_distinct_references_of_the_set(folder: Path) -> None:
    distinct = [set(TINY.ids(one)[1:-1]) for item in ITEMS for one in item if one]
    assert len(distinct) == 5  # the empty one does not count
    weight = {token: log((5 + 1) / (sum(token in one for one in distinct) + 1)) for token in range(4 + len(WORDS))}
    found = all_scores(f"bertscore:vectors={folder},idf=yes")
    np.testing.assert_allclose(found, expected_bertscores("f", "best", weight), atol=1e-5)
    twice = all_scores(f"bertscore:vectors={folder},idf=yes", items=[*ITEMS, ITEMS[0]])
    np.testing.assert_allclose(twice[:, :3], found, atol=1e-12)
    assert np.abs(found - expected_bertscores("f", "best")).max() > 1e-3


def test_sentence_cosine_is_the_cosine_of_mean_vectors(folder: Path) -> None:
    def unit(text: str) -> Floats:
        mean = TINY.vectors(text).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    expected = np.array([[max(unit(reply) @ unit(one) for one in item if one) for item in ITEMS] for reply in REPLIES])
    np.testing.assert_allclose(all_scores(f"sentence-cosine:vectors={folder}"), expected, atol=5e-4)


def test_the_text_itself_has_1(folder: Path) -> None:
    for name in ("bertscore", "sentence-cosine", "upsilon-bertscore", "upsilon-sentence-cosine"):
        found = all_scores(f"{name}:vectors={folder}", REPLIES, [[reply] for reply in REPLIES])
        np.testing.assert_allclose(np.diag(found), 1, atol=1e-5)


@pytest.mark.parametrize(("own", "looks_at_set"), [("bertscore:idf=yes,", True), ("bertscore:", False)])
def test_without_idf_items_are_read_in_blocks_and_have_the_same_scores(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, looks_at_set: bool
) -> None:
    metric = build(f"{own}vectors={folder}")
    assert metric.looks_at_set is looks_at_set
    rows = [
        item_of({"id": f"{number}", "references": one, "replies": {"model": reply}}, fallback_id="")
        for number, (one, reply) in enumerate(product(ITEMS, REPLIES))
    ]
    whole = evaluate(rows, [metric]).scores[0].systems["model"].values
    monkeypatch.setattr(item_collection, "BLOCK", 5)
    in_blocks = evaluate(ItemCollection(iter(rows), tmp_path, most_in_memory=1), [metric])
    np.testing.assert_allclose(in_blocks.scores[0].systems["model"].values, whole, rtol=0, atol=1e-6)


# What has no score


@pytest.mark.parametrize("name", ["bertscore", "sentence-cosine"])
def test_texts_without_tokens_have_no_score_and_it_is_said_why(folder: Path, name: str) -> None:
    metric = build(f"{name}:vectors={folder},refs=gold")
    items = [References(("tea",), (1.0,)), References((" ", "tea"), (1.0, 1.0)), References(("tea",), (1.0,), -1)]
    prepared = metric.prepare(items)
    assert prepared.problems == {1: NO_REFERENCE, 2: NO_GOLD}
    rows = metric.statistics(["a cat", ""], prepared, np.array([0, 1, 0, 0]), np.array([0, 0, 1, 2]))
    assert np.isnan(metric.values(rows, Level.REPLY)).tolist() == [False, True, True, True]
    assert metric.undefined() == NO_TOKENS
    assert np.isnan(all_scores(f"{name}:vectors={folder}", [""], [["tea"]])).all()
    assert all_scores(f"upsilon-{name}:vectors={folder}", [""], [["tea"]]) == 0


def test_idf_of_a_single_reference_weighs_nothing_and_it_is_said_so(folder: Path) -> None:
    metric = build(f"bertscore:vectors={folder},idf=yes")
    assert metric.prepare([References.unweighted(["a cat"])]).problems == {0: NO_REFERENCE_WEIGHT}
    assert metric.undefined() == NO_WEIGHT
    items = [["tea cat"], ["tea dog"]]
    assert np.isnan(all_scores(f"bertscore:vectors={folder},idf=yes", ["tea", "cat"], items)[0]).all()
    assert not np.isnan(all_scores(f"bertscore:vectors={folder},idf=yes", ["tea", "cat"], items)[1]).any()


# Settings


@pytest.mark.parametrize("name", ["bertscore", "sentence-cosine", "upsilon-bertscore"])
def test_without_an_encoder_it_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(Usage) as refused:
        build(name)
    assert refused.value.message == f"metric `{name}` needs an ONNX encoder: pass {name}:vectors=NAME"
    assert refused.value.remedy == "refaug artefacts list encoder"


@pytest.mark.parametrize("path", ["nothing", "nul\0here", "nothing/model.onnx"])
def test_an_encoder_that_is_not_there_is_not_found(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFound):
        build(f"bertscore:vectors={tmp_path / path}")


def test_the_signature_names_the_encoder_by_its_content(folder: Path) -> None:
    encoder = open_encoder(folder)
    metric = build(f"bertscore:vectors={folder},idf=yes")
    assert metric.settings == {
        "vectors": encoder.name, "measure": "f", "idf": "yes", "refs": "own", "multi": "best",
    }  # fmt: skip
    assert metric.versions() == {"encoder": encoder.version}
    assert Signature.parse(Signature.of(metric).full).details == {"encoder": encoder.version}


def test_metrics_share_an_encoder_until_its_files_change(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "e", weights=TINY)
    first, second = build(f"bertscore:vectors={folder}"), build(f"bertscore:vectors={folder},idf=yes")
    assert isinstance(first, BertScore)
    assert isinstance(second, BertScore)
    assert first._encoder is second._encoder
    write_encoder(folder, weights=TinyEncoder.seeded(8))
    assert build(f"bertscore:vectors={folder}").settings["vectors"] != first.settings["vectors"]


# Batches


def test_a_row_is_the_same_in_any_batch(folder: Path) -> None:
    for name in ("bertscore", "sentence-cosine"):
        metric = build(f"{name}:vectors={folder}")
        prepared = metric.prepare([References.unweighted(one) for one in ITEMS])
        reply, item = np.array([3, 0, 1, 2, 0]), np.array([0, 1, 2, 0, 0])
        together = metric.statistics(REPLIES, prepared, reply, item)
        for row in range(len(reply)):
            alone = metric.statistics([REPLIES[reply[row]]], prepared, np.array([0]), item[row : row + 1])
            np.testing.assert_allclose(alone[0], together[row], atol=1e-6)
