"""refaug-1 beside its definition, computed one reply at a time in numpy with the tiny encoder and sacrebleu's chrF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder, write_tokenizer
from refusals import refusing
from sacrebleu.metrics.chrf import CHRF

from refaug.core.errors import MissingPart, Usage
from refaug.core.text.normalisation import normalise
from refaug.metrics.base import NO_POSITIVE_WEIGHT, NO_REFERENCE, Level, Metric, References
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.recommended import TURN_END, MetricCalibration, Recommended, own_calibration
from refaug.metrics.embeddings.reply_guards import ReplyGuard, WordOrder
from refaug.metrics.models.model_kinds import PathVectors
from refaug.metrics.specification import build
from refaug.scoring.cases import leave_one_out

TINY = TinyEncoder.seeded()
MOST = {"turn": 0.3, "turns": 0.2}
DRAWN = {"gold+retrieved": (0.9, 0.4), "gold": (0.6, 0.3), "retrieved": (1.1, 0.5)}
A, B = -0.4, 0.8
COPIED, ORDER = ReplyGuard(limit=0.4, slope=5.0), ReplyGuard(limit=-0.05, slope=30.0)
WORD_ORDER = WordOrder.of([text.split() for text in 4 * ["do you like tea", "i like the cat", "you like the big dog"]])
FOUND = ("you drink tea", "the big cat", "a dog likes you", "i like the cat", "tea !")


def sentence(text: str) -> np.ndarray:
    mean = TINY.vectors(text).mean(axis=0)
    return (mean / np.linalg.norm(mean)).astype(np.float16).astype(np.float64)


def cosine(one: str, other: str) -> float:
    first, second = sentence(one), sentence(other)
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def folded(similarity: float, most: float) -> float:
    return min(similarity, most) - 3 * max(similarity - most, 0)


def penalty(reply: str, turns: Sequence[str]) -> float:
    """Words in runs of three that a turn has, marked one by one; pairs of words, looked up one by one."""
    words = normalise(reply).split()
    copied = 0.0
    for turn in turns[-3:]:
        padded = f" {normalise(turn)} "
        marked = [False] * len(words)
        for at in range(len(words) - 2):
            if f" {' '.join(words[at : at + 3])} " in padded:
                marked[at : at + 3] = [True] * 3
        copied = max(copied, sum(marked) / len(words))
    numbers = [WORD_ORDER.words.index(word) + 1 if word in WORD_ORDER.words else 0 for word in words]
    logs = [WORD_ORDER.logs[pair] for pair in pairwise(numbers)]
    order = sum(logs) / (len(logs) + 16)
    return 5 * max(copied - 0.4, 0) + 30 * max(-0.05 - order, 0)


def expected(reply: str, turns: Sequence[str], golds: Sequence[str], found: Sequence[str]) -> float:
    others = [text for text in found if text.casefold() != reply.casefold()]
    best = sorted((cosine(reply, text) for text in others), reverse=True)[:3]
    retrieved = sum(best) / len(best) if best else 0.0
    total = 0.5 * folded(cosine(reply, turns[-1]), MOST["turn"])
    total += 0.5 * folded(cosine(reply, " ".join(turns[-3:])), MOST["turns"])
    total += retrieved if golds else 2 * retrieved
    if golds:
        chrf = CHRF()
        total += max(cosine(reply, gold) for gold in golds)
        total += 0.3 * max(chrf.sentence_score(reply.lower(), [gold.lower()]).score for gold in golds) / 100
    mean, deviation = DRAWN["+".join((["gold"] if golds else []) + (["retrieved"] if best else []))]
    return float(1 / (1 + np.exp(-(A + B * (total - mean) / deviation - penalty(reply, turns)))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny", weights=TINY)


@pytest.fixture(scope="module")
def metric(folder: Path) -> Recommended:
    spec = PathVectors().encoder(str(folder)).spec
    calibration = MetricCalibration(
        encoder=spec,
        most_like=MOST,
        drawn=DRAWN,
        link=(A, B),
        copied=COPIED,
        order=ORDER,
        word_order=WORD_ORDER,
        sha256="0" * 64,
    )
    return Recommended(find("refaug-1"), {"encoder": str(folder)}, None, calibration)


def item(turns: Sequence[str], golds: Sequence[str], found: Sequence[str], weights: float = 1.0) -> References:
    beside = References(tuple(golds), (1.0,) * len(golds), 0 if golds else -1, TURN_END.join(turns[-3:]))
    texts = (*golds, *found)
    return References(texts, (1.0,) * len(golds) + (weights,) * len(found), 0 if golds else -1, beside=beside)


def scores(metric: Recommended, replies: Sequence[str], references: References) -> list[float]:
    places = np.arange(len(replies))
    rows = metric.statistics(replies, metric.prepare([references]), places, np.zeros(len(replies), np.int64))
    return metric.values(rows, Level.REPLY).tolist()


def scored_rows(metric: Recommended, replies: Sequence[str], references: References) -> tuple[list[float], np.ndarray]:
    """The scores of replies, and the statistics that they are made of."""
    prepared = metric.prepare([references])
    rows = metric.statistics(replies, prepared, np.arange(len(replies)), np.zeros(len(replies), np.int64))
    return metric.values(rows, Level.REPLY).tolist(), rows


REPLIES = (
    "i like tea",
    "You drink tea",
    "the dog likes the cat",
    "do you like the dog ?",
    "well the cat drinks tea",
    "the the like do the you",
    "i like a big dog and a big cat",
)
TURNS = ("you like the dog", "the cat drinks tea", "i like a big cat", "do you like the dog ?")


@pytest.mark.parametrize(
    ("golds", "found"),
    [
        ((), FOUND[:2]),
        ((), FOUND),
        (("you like the cat",), ()),
        (("you like the cat",), FOUND[:2]),
        (("a dog", "i like the big dog"), FOUND),
    ],
)
def test_scores_are_those_of_the_definition(
    metric: Recommended, golds: tuple[str, ...], found: tuple[str, ...]
) -> None:
    given = scores(metric, REPLIES, item(TURNS, golds, found))
    assert given == pytest.approx([expected(reply, TURNS, golds, found) for reply in REPLIES], abs=1e-6)
    assert [penalty(reply, TURNS) > 0 for reply in REPLIES] == [False, False, False, True, True, True, True]


def test_a_reply_counts_no_reference_with_its_own_text(metric: Recommended) -> None:
    """A reply that was copied out of the index gains nothing from the copy."""
    found = ["the big cat", *FOUND]
    without = [text for text in FOUND if text != "the big cat"]
    assert scores(metric, ["The big cat!"], item(TURNS, ("tea",), found)) == scores(
        metric, ["The big cat!"], item(TURNS, ("tea",), without)
    )


def test_a_row_is_the_same_whatever_is_beside_it(metric: Recommended) -> None:
    references = item(TURNS, ("you like the cat",), FOUND)
    alone = [scores(metric, [reply], references)[0] for reply in REPLIES]
    assert scores(metric, REPLIES, references) == alone
    assert scores(metric, list(reversed(REPLIES)), references) == list(reversed(alone))


def test_an_echo_loses_by_what_it_repeats(metric: Recommended) -> None:
    references = item(TURNS, ("you like the cat",), FOUND)
    echo = scores(metric, [TURNS[-1]], references)[0]
    assert echo < min(scores(metric, ["i like tea", "the dog likes the cat"], references))


def test_empty_replies_score_zero_and_references_of_no_weight_are_none(metric: Recommended) -> None:
    assert scores(metric, ["", "  "], item(TURNS, ("tea",), FOUND)) == [0.0, 0.0]
    bare = item(TURNS, (), FOUND, weights=-0.5)
    prepared = metric.prepare([bare])
    assert prepared.problems == {0: NO_POSITIVE_WEIGHT}
    row = metric.statistics(["tea"], prepared, np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert np.isnan(row).all()


def test_no_reply_has_a_score_where_no_reference_has_tokens(metric: Recommended) -> None:
    references = item(TURNS, ("\xa0",), ())
    assert metric.prepare([references]).problems == {0: NO_REFERENCE}
    assert np.isnan(scores(metric, ["", "i like tea"], references)).all()


def test_parts_are_means_over_the_replies_that_have_them(metric: Recommended) -> None:
    places = np.arange(2)
    prepared = metric.prepare([item(TURNS, ("tea",), FOUND), item(TURNS, (), FOUND)])
    rows = metric.statistics(REPLIES[:2], prepared, places, places)
    parts = metric.parts(rows.sum(axis=0), Level.CORPUS)
    assert parts["replies"] == 2
    assert parts["gold"] == pytest.approx(cosine(REPLIES[0], "tea"), abs=1e-6)
    assert parts["copied"] == pytest.approx(0)
    assert parts["turn"] == pytest.approx(np.mean([cosine(reply, TURNS[-1]) for reply in REPLIES[:2]]), abs=1e-6)


GIVEN = [
    ((), FOUND[:2], TURNS),
    ((), FOUND, ()),
    (("you like the cat",), (), TURNS),
    (("you like the cat",), (), ()),
    (("a dog", "i like the big dog"), FOUND, TURNS),
    (("a dog", "i like the big dog"), FOUND, TURNS[:1]),
]
FOREIGN = ("du magst Tee", "猫が好きです")


@pytest.mark.parametrize(("golds", "found", "turns"), GIVEN)
def test_the_parts_explained_make_exactly_the_score(
    metric: Recommended, golds: tuple[str, ...], found: tuple[str, ...], turns: tuple[str, ...]
) -> None:
    references, replies = item(turns, golds, found), (*REPLIES, *FOREIGN)
    for reply, score, row in zip(replies, *scored_rows(metric, replies, references), strict=True):
        told = metric.combination(reply, references, row)
        assert told is not None
        total = reduce(add, [part["share"] * part["counted"] for part in told["parts"]])
        assert total == told["sum"] == reduce(add, [part["adds"] for part in told["parts"]])
        case = "+".join((["gold"] if golds else []) + (["retrieved"] if found else []))
        assert (told["drawn"]["mean"], told["drawn"]["deviation"]) == DRAWN[case]
        odds = A + B * (total - told["drawn"]["mean"]) / told["drawn"]["deviation"]
        assert (1 + np.tanh(odds / 2)) / 2 == told["unguarded"]
        odds -= reduce(add, [guard["takes"] for guard in told["guards"]])
        assert odds == told["log_odds"]
        assert (1 + np.tanh(odds / 2)) / 2 == score
        assert [part["part"] for part in told["parts"]] == [
            *(["gold", "words"] if golds else []),
            *(["turn", "turns"] if turns else []),
            *(["retrieved"] if found else []),
        ]


def test_what_parts_say_alone_makes_the_score_by_their_shares(metric: Recommended) -> None:
    references = item(TURNS, ("you like the cat",), FOUND)
    for reply, score, row in zip(REPLIES, *scored_rows(metric, REPLIES, references), strict=True):
        told = metric.combination(reply, references, row)
        assert told is not None
        alone = np.array([part["alone"] for part in told["parts"]])
        shares = np.array([part["share"] for part in told["parts"]])
        odds = float(np.log(alone / (1 - alone)) @ shares / shares.sum())
        odds -= sum(guard["takes"] for guard in told["guards"])
        assert score == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-9)
        assert sum(guard["takes"] for guard in told["guards"]) == pytest.approx(penalty(reply, TURNS))


@pytest.mark.parametrize(("golds", "found", "turns"), GIVEN)
def test_the_likenesses_that_count_are_exactly_those_of_the_parts(
    metric: Recommended, golds: tuple[str, ...], found: tuple[str, ...], turns: tuple[str, ...]
) -> None:
    references = item(turns, golds, found)
    for reply, row in zip(REPLIES, scored_rows(metric, REPLIES, references)[1], strict=True):
        told = metric.likenesses(reply, references)
        parts = {part["part"]: part["value"] for part in metric.combination(reply, references, row)["parts"]}
        assert sorted(like["text"] for like in told) == sorted((*golds, *found))
        assert [like["similarity"] for like in told] == sorted((like["similarity"] for like in told), reverse=True)
        counted = [like for like in told if like["counts"]]
        nearest = [like["similarity"] for like in counted if like["kind"] == "retrieved"]
        best = [like["similarity"] for like in counted if like["kind"] == "gold"]
        assert parts.get("gold") == (best[0] if golds else None)
        assert parts.get("retrieved") == (np.sort(nearest).mean() if found else None)
        assert len(nearest) == min(3, len([text for text in found if normalise(text) != normalise(reply)]))


@pytest.mark.parametrize(("golds", "found", "turns"), GIVEN)
def test_a_score_without_a_reference_is_the_same_whether_it_is_known_to_count(
    metric: Recommended, golds: tuple[str, ...], found: tuple[str, ...], turns: tuple[str, ...]
) -> None:
    """Only references that count are left out one by one: that is quick, and gives the same as leaving out each."""
    references = item(turns, golds, (*found, *found[:1]))
    quick = leave_one_out(metric, REPLIES, [references] * len(REPLIES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recommended, "counted_references", Metric.counted_references)
        assert leave_one_out(metric, REPLIES, [references] * len(REPLIES)) == quick
    assert len(quick) == len(REPLIES)


def test_an_empty_reply_has_no_parts(metric: Recommended) -> None:
    references = item(TURNS, ("tea",), FOUND)
    ((score,), rows) = scored_rows(metric, ["  "], references)
    assert score == 0
    assert metric.combination("  ", references, rows[0]) is None
    assert metric.likenesses("", references) == []


def test_long_replies_and_unknown_pieces_are_counted_and_told(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "short", weights=TINY)
    write_tokenizer(folder / "tokenizer.json", truncate_at=6)
    opened = PathVectors().encoder(str(folder))
    calibration = MetricCalibration(encoder=opened.spec, most_like=MOST, drawn=DRAWN, link=(A, B), sha256="0" * 64)
    short = Recommended(find("refaug-1"), {"encoder": str(folder)}, None, calibration)
    replies, places = ("i like tea", "du magst Tee", "i like the big big cat"), np.arange(3)
    prepared = short.prepare([item(TURNS, ("tea",), FOUND)])
    sums = short.statistics(replies, prepared, places, np.zeros(3, np.int64)).sum(axis=0)
    parts = short.parts(sums, Level.CORPUS)
    assert (parts["cut"], parts["unknown"]) == (1, pytest.approx(3 / 10))
    assert short.remarks_on(sums) == (
        "refaug-1:encoder=short: 1 of 3 replies are longer than the encoder short reads, 6 tokens; their ends count in "
        "chrF alone",
        "refaug-1:encoder=short: the encoder short does not know 3 of the 10 pieces of the replies (30 %): their "
        "language may be another",
    )
    known = short.statistics(replies[:1], prepared, places[:1], np.zeros(1, np.int64)).sum(axis=0)
    assert short.remarks_on(known) == ()


def test_long_texts_cost_what_their_ngrams_cost(metric: Recommended) -> None:
    reply, references = metric.lengths([["a " * 50]]), metric.lengths([["b " * 100, "c " * 50]])
    assert metric.reading_cost(references).tolist() == [300 + 5 * 300]
    assert metric.cost(reply, references).tolist() == [
        pytest.approx((1_000 + 2 * 1_000 + 100) + (50 + 2 * 5 + 5 * 100 + 0.2 * (2 * 100 + 300)))
    ]


def test_without_its_encoder_the_error_says_how_to_get_it() -> None:
    with refusing(MissingPart) as caught:
        build("refaug-1")
    assert caught.value.remedy == "refaug index encoder add all-minilm-l6-v2"


def test_another_encoder_is_refused_since_there_are_no_numbers_for_it(folder: Path) -> None:
    with refusing(Usage):
        build(f"refaug-1:encoder={folder}")


def test_the_calibration_of_the_version_never_changes() -> None:
    """refaug-1 means the same for ever: other numbers are another version."""
    assert own_calibration().sha256 == CALIBRATION_SHA256


CALIBRATION_SHA256 = "e88b9f862e1d6928b686d9f88d5d2379db6efc85815347694300bff630809be2"
