"""What the rater's benchmarks are made of: graphs put together by hand, rounded weights, words in common, rows."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refaug.agreement.meta import agreement
from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.row_scores import score_set
from refaug.agreement.rows import RatedRows
from refaug.core.progress import Silent
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build
from refaug.rater.nn.checkpoint import NNRater
from refaug.rater.nn.model import BiGRURater, Features, RaterConfig
from refaug.rater.rating import RatingRequest
from refaug.scoring.cases import score_replies
from refaug.scoring.items import item_of
from refaug.scoring.settings import MetaSettings

BENCH = Path(__file__).resolve().parents[2] / "bench"
PIECES = 30
WORDS = ("the", "bus", "stops", "here", "at", "noon", "by", "kiosk", "sells", "tickets", "a", "driver")


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the benchmark, which are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield SimpleNamespace(**{name: import_module(f"rater_{name}") for name in ("onnx", "people", "serving")})


def network(features: Features = "texts", *, layers: int = 2, seed: int = 3) -> BiGRURater:
    """Tiny, with weights large enough that answers differ."""
    torch.manual_seed(seed)
    config = RaterConfig(
        vocabulary=PIECES + 2, embedding=6, hidden=5, width=9, layers=layers, max_tokens=4, features=features
    )
    model = BiGRURater(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight))
    return model.eval()


def opened(bench: SimpleNamespace, model: BiGRURater, folder: Path) -> Any:
    bench.onnx.write_graphs(folder, {name: one.detach().numpy() for name, one in model.state_dict().items()})
    return bench.onnx.Sessions.open(folder, threads=1)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tiny.model"
    texts = [" ".join(np.random.default_rng(seed).choice(WORDS, 6)) for seed in range(300)]
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=PIECES, at_most=True))
    return open_sentencepiece(path)


# ── graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("features", ["texts", "products"])
@pytest.mark.parametrize("layers", [1, 3])
def test_graphs_read_and_judge_as_the_network_does(
    bench: SimpleNamespace, tmp_path: Path, features: Features, layers: int
) -> None:
    model = network(features, layers=layers)
    sessions = opened(bench, model, tmp_path)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.lists(st.integers(1, PIECES - 1), min_size=1, max_size=7), min_size=1, max_size=6))
    def same(texts: list[list[int]]) -> None:
        tokens, lengths = bench.onnx.padded(sorted(texts, key=len, reverse=True))
        with torch.inference_mode():
            vectors = model.read(torch.from_numpy(tokens), torch.from_numpy(lengths))
            logits = model.judge(vectors, vectors.flip(0), vectors.roll(1, 0)).numpy()
        read = sessions.read(tokens, lengths)
        np.testing.assert_allclose(read, vectors.numpy(), atol=1e-5)
        judged = sessions.logits_of(read, read[::-1].copy(), np.roll(read, 1, axis=0))
        np.testing.assert_allclose(judged, logits, atol=1e-4, rtol=1e-5)

    same()


def test_a_rater_without_torch_gives_the_ratings_of_the_one_with_it(
    bench: SimpleNamespace, tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    model = network()
    rng = np.random.default_rng(5)
    texts = ["", *(" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(300))]
    triplets = [tuple(rng.choice(texts, 3).tolist()) for _ in range(200)]
    asked = [
        RatingRequest(utterance=utterance, golds=(gold,), candidates=(Reference(text=text),))
        for utterance, gold, text in triplets
    ]
    expected = [ratings[0] for ratings in NNRater(model, tokenizer).rate(asked)]
    rater = bench.onnx.OnnxRater(
        opened(bench, model, tmp_path), tokenizer.encode_ids_batch, tokenizer.unk_id, model.config.max_tokens
    )
    assert max(expected) - min(expected) > 1
    np.testing.assert_allclose(rater.rate(triplets), expected, atol=1e-5)


# ── other weights ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_int8_weights_are_whole_steps_at_most_half_a_step_away(bench: SimpleNamespace) -> None:
    model = network()
    with torch.no_grad():
        model.embedding.weight[0] = 0
    way = bench.serving.round_to_int8(model)
    rounded = dict(way.network.named_parameters())
    size = 0
    for name, weight in model.named_parameters():
        before, after = weight.detach().double().numpy(), rounded[name].detach().double().numpy()
        if before.ndim == 1:
            np.testing.assert_array_equal(after, before)
            size += 4 * before.size
            continue
        size += before.size + 4 * len(before)
        for row, other in zip(before, after, strict=True):
            step = np.abs(row).max() / 127
            assert np.abs(row - other).max() <= step / 2 * (1 + 1e-5)
            if step:
                np.testing.assert_allclose(other / step, np.round(other / step), atol=1e-4)
    assert way.weight_bytes == size


def test_a_drawn_network_rates_all_over_the_scale(bench: SimpleNamespace, tokenizer: SentencePieceTokenizer) -> None:
    rng = np.random.default_rng(2)
    texts = (" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(10_000))
    asked = bench.serving.make_test_pairs(texts, 10)
    likely, _ = NNRater(bench.serving.seeded_network("small", tokenizer, asked), tokenizer).probabilities(asked)
    odds = np.log(likely / (1 - likely))
    assert len(odds) == 170
    assert odds.mean() == pytest.approx(0, abs=1e-4)
    assert odds.std() == pytest.approx(2, abs=1e-4)


# ── people ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_words_in_common_count_by_their_rarity_in_the_texts_given(bench: SimpleNamespace) -> None:
    texts = [["the bus", "the kiosk"], ["The driver, the driver", "a bus"]]
    metric = bench.people.IdfOverlap(bench.people.Idf.of("texts", texts))
    idf = {"the": math.log(5 / 4), "bus": math.log(5 / 3), "driver": math.log(5 / 2), "tea": math.log(5 / 1)}
    references = References.unweighted(["the driver", "bus"])
    replies = ["the bus", "bus bus", "tea", "", "the driver the"]
    found = metric.values(score_replies(metric, replies, [references] * len(replies))[0], Level.REPLY)
    with_first = idf["the"] / (idf["the"] + idf["bus"] + idf["driver"])
    with_second = idf["bus"] / (idf["the"] + idf["bus"])
    assert found.tolist() == pytest.approx([max(with_first, with_second), 1, 0, 0, 1])


ROWS = [
    {"context_id": "one", "context": ["Hi.", "Is it far?"], "references": ["Two stops.", "No."], "system": "a",
     "response": "Two stops, I think.", "scores": [5, 4], "score": 4.5},
    {"context_id": "two", "context": ["Where?"], "references": ["Here."], "system": "a", "response": "There.",
     "score": 3.5},
    {"context_id": "one", "context": ["Hi.", "Is it far?"], "references": ["Two stops.", "No."], "system": "b",
     "response": "No.", "scores": [1, 2], "score": 1.5},
]  # fmt: skip


def test_rated_sets_become_items_by_context_and_may_keep_one_gold(bench: SimpleNamespace, tmp_path: Path) -> None:
    for name in bench.people.SETS:
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    sets = bench.people.read_sets(tmp_path)
    assert list(sets) == ["dailydialog_gupta", "dailydialog_zhao"]
    one, two = sets["dailydialog_zhao"]
    assert (one.id, two.id) == ("one", "two")
    assert one.turns == ("Hi.", "Is it far?")
    assert [reference.text for reference in one.references] == ["Two stops.", "No."]
    assert one.replies == {"a": "Two stops, I think.", "b": "No."}
    assert one.ratings == {"a": (5, 4), "b": (1, 2)}
    assert two.ratings == {"a": (3.5,)}
    first = bench.people.with_first_gold(one)
    assert [reference.text for reference in first.references] == ["Two stops."]
    assert first.replies == one.replies


def items(bench: SimpleNamespace) -> list[Any]:
    """Twenty contexts with replies of three systems, rated at random."""
    rng = np.random.default_rng(7)

    def text() -> str:
        return " ".join(rng.choice(WORDS, rng.integers(2, 8)))

    return [
        item_of(
            {
                "turns": [text()],
                "references": [text(), text()],
                "replies": {system: text() for system in "abc"},
                "ratings": {system: [int(rng.integers(1, 6))] for system in "abc"},
            },
            fallback_id=f"{number}",
        )
        for number in range(20)
    ]


def test_figures_are_those_of_agreement_and_differences_compare_ratings(bench: SimpleNamespace) -> None:
    rated_items = items(bench)
    idf = bench.people.Idf.of("golds", [[one.text for item in rated_items for one in item.references]])
    stand_ins = {"rating": build("chrf"), "rating_mean": build("rouge-l"), "rating_max": build("bleu")}
    metrics = [ComparedMetric(name=name, metric=metric) for name, metric in stand_ins.items()]
    metrics.append(ComparedMetric(name="idf_overlap", metric=bench.people.IdfOverlap(idf)))
    names = [*(one.name for one in metrics), "length"]
    scored = score_set(RatedRows.of(RatedItems(name="set", items=rated_items), MetaSettings()), metrics, Silent())
    rated = bench.people.rows_without(scored, range(len(names)), None)
    found = bench.people.agreement_of([rated], names, draws=200)
    expected = agreement(
        [RatedItems(name="set", items=rated_items)], metrics, MetaSettings(draws=200), baseline="idf_overlap"
    ).sets[0]
    for row in expected.rows:
        shown = found["spearman"][row.name]
        assert [shown[key] for key in ("value", "low", "high")] == [
            round(one, 4) for one in (row.spearman.value, row.spearman.low, row.spearman.high) if one is not None
        ]
        if row.name in stand_ins:
            difference = row.differences["spearman"]
            assert difference.value is not None
            assert found["differences"][row.name]["idf_overlap"]["value"] == round(difference.value, 4)
            assert found["differences"][row.name]["idf_overlap"]["p"] == round(difference.p or 0, 4)
            assert list(found["differences"][row.name]) == ["length", "idf_overlap"]


def test_rows_of_a_left_out_system_are_not_compared_and_others_stay(bench: SimpleNamespace) -> None:
    metrics = [ComparedMetric(name="chrf", metric=build("chrf"))]
    scored = score_set(RatedRows.of(RatedItems(name="set", items=items(bench)), MetaSettings()), metrics, Silent())
    every, fewer = (bench.people.rows_without(scored, [0], system) for system in (None, "b"))
    kept = [place for place, system in enumerate(scored.points.systems) if system != "b"]
    assert (len(every.ratings), len(fewer.ratings)) == (60, 40)
    np.testing.assert_array_equal(fewer.scores, every.scores[:, kept])
    np.testing.assert_array_equal(fewer.ratings, every.ratings[kept])
    np.testing.assert_array_equal(fewer.clusters, every.clusters[kept])
