"""Scores against sets that are kept ready are those of the command, whatever the batch; and what is kept is bounded."""

from __future__ import annotations

import gc
import random
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import orjson
import pytest
from drawn_rows import resample_counts
from refusals import refusing
from safeguards import mostly_slow
from set_items import MAKING, frozen, item_of, replies_of, words

from refaug.core.errors import BadInput, Corrupt, NotFound, TooLarge, Usage, Withdrawn
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.metrics.base import Floats, Level
from refaug.metrics.specification import build
from refaug.scoring.cases import references_for
from refaug.scoring.combine import combine
from refaug.scoring.held_sets import held_set
from refaug.scoring.held_sets.held_set import HeldSet, HeldSets
from refaug.scoring.held_sets.set_scoring import SetRequest, UnknownItems, score_set, statistics_of
from refaug.scoring.metric_setup.metric_requests import default_metric, default_metric_of, metrics_of
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.reference_sets.reference_set import ReferenceSet
from refaug.scoring.reference_sets.set_scores import join, score
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.scores import ReplyForm
from refaug.scoring.settings import ScoreSettings

COUNT = 30
ITEMS = [item_of(number) for number in range(COUNT)]
IDS = [item.id for item in ITEMS]
PLAIN = ScoreSettings(draws=0)
DRAWN = ScoreSettings(draws=40, baseline="b")
METRICS = [
    "upsilon-bleu",
    "upsilon-bleu:n=3,variant=tsuta20,bp=gold",
    "delta-bleu:smooth=exp",
    "multi-bleu:tok=13a",
    "bleu",
    "rouge-l",
    "chrf",
    "ter",
    "cider",
    "upsilon-chrf:b=0.1,lambda=0.5,keep-gold=yes",
    "upsilon-rouge-1:agg=mean-best-3",
]
WHOLE = {"a": replies_of(COUNT, "a"), "b": replies_of(COUNT, "b")}


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """So that a set of 30 items has several blocks, and a last one that is not full."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(held_set, "_PIECE", 4)
        patched.setattr(held_set, "BLOCK", 8)
        patched.setattr(held_set, "BLOCK", 8)
        yield


def held_sets(home: Path, most: int = 64, most_bytes: int = 1 << 30) -> HeldSets:
    return HeldSets(ModelRegistry(Settings(home=home)), most=most, most_bytes=most_bytes)


@pytest.fixture
def held(tmp_path: Path) -> HeldSet:
    return held_sets(tmp_path).get(frozen(tmp_path, ITEMS).id)


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> HeldSet:
    home = tmp_path_factory.mktemp("shaped")
    return held_sets(home).get(frozen(home, ITEMS).id)


def by_command(
    home: Path, replies: dict[str, list[str | None]], metrics: Sequence[str], settings: ScoreSettings
) -> Any:
    """What `refaug sets score` makes of a file of these replies."""
    stored = frozen(home, ITEMS)
    items = [
        Item(id=name, replies={k: text for k, v in replies.items() if (text := v[place]) is not None})
        for place, name in enumerate(IDS)
    ]
    return score(stored, join(stored, items), metrics_of(metrics, None), settings).as_json()


def scores_of(answer: dict[str, Any], system: str, metric: int = 0) -> list[float | None]:
    return [reply["score"] for reply in answer["scores"][metric]["systems"][system]["replies"]]


# ── the same scores as the command's ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names_items", [True, False])
def test_a_whole_set_has_the_scores_of_the_command_in_every_figure(
    tmp_path: Path, held: HeldSet, *, names_items: bool
) -> None:
    request = SetRequest(items=IDS if names_items else None, replies=WHOLE)
    found = score_set(held, request, METRICS, DRAWN)
    expected = by_command(tmp_path, WHOLE, METRICS, DRAWN)
    assert found["scores"] == expected["scores"]
    assert {key: found[key] for key in ("data", "items", "resampling", "problems", "warnings")} == {
        key: expected[key] for key in ("data", "items", "resampling", "problems", "warnings")
    }
    assert found["set"] == {"id": held.manifest.id, "purpose": "train", "items": COUNT}
    assert set(found) == (set(expected) | {"set"}) - {"evidence", "utterances", "replies"}
    assert any("thin evidence" in one for one in found["warnings"])
    assert found["scores"][0]["systems"]["a"]["unscored_by_reason"] == {"no_reply": 3, "no_positive_weight": 4}


def test_explanations_and_evidence_are_those_of_the_command(tmp_path: Path, held: HeldSet) -> None:
    settings = ScoreSettings(draws=0, explain=True)
    found = score_set(held, SetRequest(replies=WHOLE), METRICS[:4], settings)
    expected = by_command(tmp_path, WHOLE, METRICS[:4], settings)
    assert found["scores"] == expected["scores"]
    assert found["evidence"] == expected["evidence"]
    assert found["scores"][0]["systems"]["a"]["replies"][1]["credited"][0]["credit"] != 0


def test_explanations_are_of_the_rows_that_were_asked_for(held: HeldSet) -> None:
    whole = score_set(held, SetRequest(replies=WHOLE), METRICS[:1], ScoreSettings(draws=0, explain=True))
    places = [11, 2, 2, 29, 3]
    request = SetRequest(items=[IDS[place] for place in places], replies={"a": [WHOLE["a"][place] for place in places]})
    found = score_set(held, request, METRICS[:1], ScoreSettings(draws=0, explain=True))
    replies = whole["scores"][0]["systems"]["a"]["replies"]
    assert found["scores"][0]["systems"]["a"]["replies"] == [replies[place] for place in places]
    assert list(found["evidence"]) == [IDS[place] for place in (2, 3, 11, 29)]


@pytest.mark.parametrize("metric", METRICS)
def test_a_reply_has_the_same_score_in_any_batch_order_and_number(held: HeldSet, metric: str) -> None:
    whole = score_set(held, SetRequest(replies=WHOLE), [metric], PLAIN)
    expected = scores_of(whole, "a")
    rng = random.Random(metric)
    for size in (1, 2, 7, 64):
        places = [rng.randrange(COUNT) for _ in range(size)]
        request = SetRequest(
            items=[IDS[place] for place in places], replies={"x": [WHOLE["a"][place] for place in places]}
        )
        found = score_set(held, request, [metric], PLAIN, on_error="report")
        assert scores_of(found, "x") == [expected[place] for place in places]
        assert [reply["id"] for reply in found["scores"][0]["systems"]["x"]["replies"]] == request.items
        for key in ("signature_full", "references"):
            assert found["scores"][0][key] == whole["scores"][0][key]
        assert found["data"] == whole["data"]
        assert found["items"] == len(set(places))


def test_large_blocks_score_as_small_ones_do(tmp_path: Path, held: HeldSet, monkeypatch: pytest.MonkeyPatch) -> None:
    small = score_set(held, SetRequest(replies=WHOLE), METRICS, DRAWN)
    monkeypatch.undo()
    whole = held_sets(tmp_path).get(held.manifest.id)
    assert score_set(whole, SetRequest(replies=WHOLE), METRICS, DRAWN) == small
    assert [whole.item(place) for place in (0, 29)] == [ITEMS[0], ITEMS[29]]


# ── several replies to an item ────────────────────────────────────────────────────────────────────────────────────


def rows_by_hand(metric_name: str, ids: Sequence[str], replies: Sequence[str | None]) -> Floats:
    """Statistics of each reply, scored alone against its own references; NaN where there is no score."""
    metric = build(metric_name)
    rows = []
    for name, reply in zip(ids, replies, strict=True):
        item = ITEMS[IDS.index(name)]
        references = references_for(metric, item.references, item.turns)
        one = np.zeros(1, dtype=np.int64)
        if reply is None:
            rows.append(np.full(len(metric.columns), np.nan))
        else:
            rows.append(metric.statistics([reply], metric.prepare([references]), one, one)[0])  # type: ignore[list-item]
    return np.array(rows)


def several(rows: int, seed: str) -> tuple[list[str], dict[str, list[str | None]]]:
    rng = random.Random(seed)
    ids = [IDS[rng.randrange(8)] for _ in range(rows)]
    return ids, {"a": replies_of(rows, f"{seed} a"), "b": replies_of(rows, f"{seed} b")}


@pytest.mark.parametrize("metric", ["upsilon-bleu", "rouge-l", "ter"])
def test_corpus_and_mean_are_over_rows_and_intervals_over_items(held: HeldSet, metric: str) -> None:
    ids, replies = several(40, "rows")
    settings = ScoreSettings(draws=60, seed=3, confidence=0.9)
    found = score_set(held, SetRequest(items=ids, replies=replies), [metric], settings)["scores"][0]["systems"]["a"]
    rows, made = rows_by_hand(metric, ids, replies["a"]), build(metric)
    has_score = ~np.isnan(rows).any(axis=1)
    assert found["corpus"] == pytest.approx(float(made.values(rows[has_score].sum(axis=0), Level.CORPUS)), rel=1e-12)
    values = made.values(rows[has_score], Level.REPLY)
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    units = sorted(set(ids), key=IDS.index)
    drawn_corpus, drawn_mean = [], []
    for counts in resample_counts(len(units), 60, 3):
        times = np.array([counts[units.index(name)] for name in ids])[has_score]
        drawn_corpus.append(float(made.values((rows[has_score] * times[:, None]).sum(axis=0), Level.CORPUS)))
        drawn_mean.append(float((values * times).sum() / times.sum()))
    assert found["interval"] == pytest.approx(np.quantile(drawn_corpus, [0.05, 0.95]).tolist(), rel=1e-9)
    assert found["mean_interval"] == pytest.approx(np.quantile(drawn_mean, [0.05, 0.95]).tolist(), rel=1e-9)


@pytest.mark.parametrize("metric", ["upsilon-bleu", "chrf", "upsilon-rouge-1"])
def test_the_order_of_rows_changes_no_bit_of_what_stands_over_them(held: HeldSet, metric: str) -> None:
    ids, replies = several(50, "order")
    settings = ScoreSettings(draws=50, baseline="a")
    first = score_set(held, SetRequest(items=ids, replies=replies), [metric], settings)["scores"][0]
    for seed in range(5):
        order = random.Random(seed).sample(range(50), 50)
        request = SetRequest(
            items=[ids[row] for row in order], replies={k: [v[row] for row in order] for k, v in replies.items()}
        )
        again = score_set(held, request, [metric], settings)["scores"][0]
        assert again["comparisons"] == first["comparisons"]
        for system in ("a", "b"):
            one, other = first["systems"][system], again["systems"][system]
            assert [other["replies"][order.index(row)] for row in range(50)] == one["replies"]
            for key in ("corpus", "interval", "mean", "mean_interval", "parts", "unscored_by_reason"):
                assert other[key] == one[key]


def test_comparisons_draw_items_too(held: HeldSet) -> None:
    """Copies of the same replies say nothing new: two systems differ as surely as with one copy each."""
    ids, replies = (
        IDS[1:7],
        {"a": [words(random.Random(n)) for n in range(6)], "b": [words(random.Random(-n)) for n in range(6)]},
    )
    settings = ScoreSettings(draws=200, baseline="a")
    once = score_set(held, SetRequest(items=ids, replies=replies), ["rouge-l"], settings)["scores"][0]
    tenfold = SetRequest(items=ids * 10, replies={name: listed * 10 for name, listed in replies.items()})
    many = score_set(held, tenfold, ["rouge-l"], settings)["scores"][0]
    for key in ("difference", "p_bootstrap", "p_randomisation"):
        assert many["comparisons"]["b"][key] == pytest.approx(once["comparisons"]["b"][key], rel=1e-9)
    assert many["systems"]["a"]["interval"] == pytest.approx(once["systems"]["a"]["interval"], rel=1e-9)
    assert (once["comparisons"]["b"]["replies"], many["comparisons"]["b"]["replies"]) == (6, 60)


# ── what a request may say ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SetRequest(replies={}), "no system has replies"),
        (SetRequest(items=[], replies={"a": []}), "there are no items in it"),
        (SetRequest(items=IDS[:3], replies={"a": ["x"] * 3, "b": ["x"] * 2}), "replies.b"),
        (SetRequest(replies={"a": ["x"] * 29}), "replies.a"),
        (SetRequest(items=["item-1", "item-2"], replies={"a": [None, None]}), "no reply has a score by multi-bleu"),
    ],
)
def test_lists_that_do_not_fit_are_refused(held: HeldSet, request_: SetRequest, message: str) -> None:
    with refusing(BadInput, message):
        score_set(held, request_, ["multi-bleu"], PLAIN)


def test_an_unknown_item_is_an_error_that_names_its_place(held: HeldSet) -> None:
    request = SetRequest(items=["item-1", "x", "item-2", "y"], replies={"a": ["tea"] * 4})
    with refusing(BadInput, "items[1]", held.manifest.id):
        score_set(held, request, ["bleu"], PLAIN)


def test_reported_unknown_items_keep_their_places_and_others_are_scored(held: HeldSet) -> None:
    known = SetRequest(items=["item-1", "item-2"], replies={"a": ["tea", "go home"], "b": ["milk", None]})
    settings = ScoreSettings(draws=30, baseline="a")
    expected = score_set(held, known, ["bleu"], settings)
    request = SetRequest(
        items=["x", "item-1", "item-2", "y"],
        replies={"a": ["tea", "tea", "go home", None], "b": ["milk", "milk", None, "never"]},
    )
    found = score_set(held, request, ["bleu"], settings, on_error="report")
    assert found["problems"] == [
        {
            "file": "request",
            "line": 0,
            "id": name,
            "field": f"items[{row}]",
            "message": f"the set {held.manifest.id} has no item {name!r}",
        }
        for row, name in ((0, "x"), (3, "y"))
    ]
    assert found["items"] == 2
    a, same = found["scores"][0]["systems"]["a"], expected["scores"][0]["systems"]["a"]
    assert a["replies"][1:3] == same["replies"]
    assert a["replies"][0] == {
        "id": "x",
        "score": None,
        "problem": "unknown_item",
        "message": "the set has no item of this id",
    }
    assert a["unscored_by_reason"] == {"unknown_item": 2}
    assert {key: a[key] for key in ("corpus", "mean", "interval", "mean_interval")} == {
        key: same[key] for key in ("corpus", "mean", "interval", "mean_interval")
    }
    assert found["scores"][0]["comparisons"]["b"]["replies"] == 1


def test_only_unknown_items_are_an_answer_with_on_error_report(held: HeldSet) -> None:
    request = SetRequest(items=["x"], replies={"a": ["tea"]})
    found = score_set(held, request, ["bleu"], ScoreSettings(draws=10), on_error="report", form=ReplyForm.VALUES)
    system = found["scores"][0]["systems"]["a"]
    assert (system["values"], system["corpus"], system["interval"], system["scored"]) == ([None], None, None, 0)
    assert found["items"] == 0
    assert found["warnings"][0] == "no reply has a score by bleu: 1 times the set has no item of this id"
    assert orjson.dumps(found)


def test_a_null_is_no_reply_and_is_warned_of(held: HeldSet) -> None:
    request = SetRequest(items=["item-1", "item-2", "item-3"], replies={"a": ["tea", None, ""]})
    found = score_set(held, request, ["bleu"], PLAIN)
    assert [one.get("problem") for one in found["scores"][0]["systems"]["a"]["replies"]] == [None, "no_reply", None]
    assert found["warnings"] == [
        "replies are missing (of 3): a (1); the scores are over those there are",
        "empty replies, which score 0 or nothing at all: a (1)",
    ]


def test_values_are_the_scores_in_the_order_sent(held: HeldSet) -> None:
    ids, replies = several(20, "values")
    request = SetRequest(items=ids, replies=replies)
    full = score_set(held, request, ["upsilon-bleu", "rouge-l"], PLAIN)
    compact = score_set(held, request, ["upsilon-bleu", "rouge-l"], PLAIN, form=ReplyForm.VALUES)
    for metric in range(2):
        for system in ("a", "b"):
            one = compact["scores"][metric]["systems"][system]
            assert one["values"] == scores_of(full, system, metric)
            assert None in one["values"]
            assert "replies" not in one


def test_per_cent_is_a_hundred_times_as_much(held: HeldSet) -> None:
    request = SetRequest(replies=WHOLE)
    plain = score_set(held, request, ["upsilon-bleu"], DRAWN)["scores"][0]
    scaled = score_set(held, request, ["upsilon-bleu"], replace(DRAWN, percent=True))["scores"][0]
    assert scaled["scale"] == 100
    for key in ("corpus", "mean"):
        assert scaled["systems"]["a"][key] == plain["systems"]["a"][key] * 100
    with refusing(Usage):
        score_set(held, request, ["ter"], replace(DRAWN, percent=True))
    scales = [one["scale"] for one in score_set(held, request, ["bleu", "ter"], replace(DRAWN, percent=True))["scores"]]
    assert scales == [100, 1]


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "origins", [(), (Origin.SUPPLIED,), (Origin.RETRIEVED,), (Origin.PARROT,), (Origin.SUPPLIED, Origin.RETRIEVED)]
)
def test_the_metric_by_default_is_that_of_the_command(origins: tuple[Origin, ...]) -> None:
    references = tuple(Reference(text="x", source=one) for one in (Origin.GOLD, *origins))
    item = Item(id="d", references=references)
    assert default_metric_of({Origin.GOLD, *origins}) == default_metric([item])


def test_without_metrics_it_is_the_one_that_the_references_are_for(held: HeldSet) -> None:
    found = score_set(held, SetRequest(replies=WHOLE), [], PLAIN)
    assert [one["metric"] for one in found["scores"]] == ["upsilon-bleu"]
    assert found == score_set(held, SetRequest(replies=WHOLE), ["upsilon-bleu"], PLAIN)


def test_a_metric_asked_for_in_two_spellings_is_there_once(held: HeldSet) -> None:
    found = score_set(held, SetRequest(replies=WHOLE), ["bleu:n=2", "chrf", "bleu", "bleu:n=3"], PLAIN)
    assert [one["signature"].partition("|smooth")[0] for one in found["scores"][::2]] == ["bleu|n:2", "bleu|n:3"]
    assert [one["metric"] for one in found["scores"]] == ["bleu", "chrf", "bleu"]


def test_the_language_decides_the_tokenizer(held: HeldSet) -> None:
    request = SetRequest(replies=WHOLE)
    signatures = [
        score_set(held, request, ["multi-bleu"], PLAIN, language=language)["scores"][0]["signature"]
        for language in (None, "ja", "en")
    ]
    assert [one.partition("|tok:")[2].partition("|")[0] for one in signatures] == ["word", "mecab", "word"]


@pytest.mark.parametrize(
    ("metric", "error", "named"),
    [
        ("rater", Usage, "rater:model="),
        ("ruber:referenced=rouge-l,norm=none", Usage, "ruber:model="),
        ("upsilon-rouge-l", Usage, "upsilon-rouge-l"),
        ("blue", Usage, "'blue'"),
        ("delta-bleu", BadInput, "delta-bleu"),
    ],
)
def test_what_a_set_cannot_be_scored_by_is_refused_every_time(
    tmp_path: Path, metric: str, error: type[Exception], named: str
) -> None:
    items = [
        replace(
            one,
            references=tuple(r for r in one.references if r.source is not Origin.SUPPLIED),
        )
        for one in ITEMS
    ]
    making = replace(MAKING, provenance={**MAKING.provenance, "index": "chat@1#abc"})
    held = held_sets(tmp_path).get(frozen(tmp_path, items, making).id)
    for _ in range(2):
        with refusing(error, named):
            score_set(held, SetRequest(replies={"a": WHOLE["a"]}), [metric], PLAIN)


def test_a_baseline_must_be_one_of_the_systems(held: HeldSet) -> None:
    with refusing(Usage):
        score_set(held, SetRequest(replies=WHOLE), ["bleu"], replace(DRAWN, baseline="c"))


# ── requests of any shape ─────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def requests(draw: st.DrawFn) -> SetRequest:
    """Some of the set's ids, some several times, some of no item; replies of any text, or none."""
    ids = draw(st.lists(st.sampled_from([*IDS[:12], "x", "", "item-é"]), min_size=1, max_size=8))
    reply = st.none() | st.sampled_from(["", " ", "tea", "we drink tea", "they go home today"]) | st.text(max_size=12)
    systems = draw(st.lists(st.sampled_from(["a", "b", "絵", " "]), min_size=1, max_size=3, unique=True))
    rows = st.lists(reply, min_size=len(ids), max_size=len(ids))
    return SetRequest(items=ids, replies={system: draw(rows) for system in systems})


SHAPED = ["upsilon-bleu", "multi-bleu", "upsilon-chrf:b=0.1"]


@hypothesis.settings(max_examples=40)
@hypothesis.given(asked=requests(), cut=st.integers(1, 7))
def test_whatever_is_asked_for_every_row_has_its_own_score_and_sums_add_up(
    shaped: HeldSet, asked: SetRequest, cut: int
) -> None:
    assert asked.items is not None
    whole = score_set(shaped, asked, SHAPED, PLAIN, on_error="report")
    unknown = [row for row, name in enumerate(asked.items) if name not in IDS]
    assert [one["field"] for one in whole["problems"]] == [f"items[{row}]" for row in unknown]
    assert whole["items"] == len(set(asked.items) & set(IDS))
    for metric, name in enumerate(SHAPED):
        for system, replies in asked.replies.items():
            alone = [
                score_set(shaped, SetRequest(items=[item], replies={"s": [reply]}), [name], PLAIN, on_error="report")
                for item, reply in zip(asked.items, replies, strict=True)
            ]
            rows = [one["scores"][0]["systems"]["s"]["replies"][0] for one in alone]
            found = whole["scores"][metric]["systems"][system]
            assert found["replies"] == rows
            codes = [
                "unknown_item" if row in unknown else "no_reply" if reply is None else rows[row].get("problem")
                for row, reply in enumerate(replies)
            ]
            assert [one.get("problem") for one in found["replies"]] == codes
            assert (found["scored"], found["unscored"]) == (codes.count(None), len(codes) - codes.count(None))
    parts = [
        statistics_of(
            shaped,
            SetRequest(
                items=asked.items[at : at + cut], replies={k: v[at : at + cut] for k, v in asked.replies.items()}
            ),
            SHAPED,
            on_error="report",
        )
        for at in range(0, len(asked.items), cut)
    ]
    if all(
        reply["score"] is None for one in whole["scores"] for s in one["systems"].values() for reply in s["replies"]
    ):
        with refusing(BadInput):
            combine(parts, PLAIN)
        return
    for one, other in zip(combine(parts, PLAIN)["scores"], whole["scores"], strict=True):
        assert one["systems"] == {
            system: {name: value for name, value in scores.items() if name != "replies"}
            for system, scores in other["systems"].items()
        }


@hypothesis.settings(max_examples=25)
@hypothesis.given(asked=requests())
def test_ids_of_no_item_refuse_the_request_and_all_are_named(shaped: HeldSet, asked: SetRequest) -> None:
    assert asked.items is not None
    unknown = [(f"items[{row}]", name) for row, name in enumerate(asked.items) if name not in IDS]
    hypothesis.assume(unknown)
    with pytest.raises(UnknownItems) as told:
        score_set(shaped, asked, SHAPED, PLAIN)
    assert [(one.field, one.item) for one in told.value.bad] == unknown


# ── sums ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_statistics_are_the_sums_of_every_reply_with_places(held: HeldSet) -> None:
    ids, replies = ["item-9", "item-2", "x", "item-2"], {"a": ["tea", "go home", "tea", None]}
    found = statistics_of(held, SetRequest(items=ids, replies=replies), ["multi-bleu"], on_error="report")
    assert found["set"] == {"id": held.manifest.id, "purpose": "train", "items": COUNT, "places": [9, 2, None, 2]}
    (one,) = found["stats"]
    expected = rows_by_hand("multi-bleu", ids[:2], replies["a"][:2])
    scored = score_set(held, SetRequest(items=ids, replies=replies), ["multi-bleu"], PLAIN, on_error="report")
    scores = [reply["score"] for reply in scored["scores"][0]["systems"]["a"]["replies"]]
    assert [score is None for score in scores] == [False, False, True, True]
    assert one["systems"]["a"] == {
        "items": ids,
        "rows": [*expected.tolist(), None, None],
        "scores": scores,
        "problems": [
            {"row": 2, "problem": "unknown_item", "message": "the set has no item of this id"},
            {"row": 3, "problem": "no_reply", "message": "the system has no reply to this item"},
        ],
    }
    assert one["columns"] == list(build("multi-bleu").columns)
    for key in ("metric", "signature", "signature_full", "references", "corpus_from", "higher_is_better"):
        assert one[key] == scored["scores"][0][key]


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────


def other_items(name: str, count: int = 10) -> list[Item]:
    return [replace(one, id=f"{name}-{one.id}") for one in ITEMS[:count]]


@pytest.fixture
def three(tmp_path: Path) -> list[ReferenceSet]:
    return [frozen(tmp_path, other_items(name)) for name in ("x", "y", "z")]


def test_a_set_is_found_by_its_id_or_the_beginning_of_it_and_read_once(tmp_path: Path, held: HeldSet) -> None:
    sets = held_sets(tmp_path)
    name = held.manifest.id
    first = sets.get(name[:6])
    assert (first.manifest, list(first.ids)) == (held.manifest, IDS)
    assert sets.get(name) is first
    assert list(first.items()) == ITEMS
    assert [first.position(one) for one in ("item-0", "item-29")] == [0, 29]
    with refusing(NotFound, name):
        first.position("x")
    with refusing(Usage, "zz"):
        sets.get("zz")
    with refusing(NotFound):
        sets.get("ffffffff")


def test_a_set_is_withdrawn_at_once_although_it_is_kept(tmp_path: Path, three: list[ReferenceSet]) -> None:
    sets = held_sets(tmp_path)
    score_set(sets.get(three[0].id), SetRequest(replies={"a": ["tea"] * 10}), ["bleu"], PLAIN)
    assert sets.bytes > 0
    ReferenceSets(Settings(home=tmp_path).reference_sets).withdraw(three[0].id, "it holds erased text", three[1].id)
    for asked in (three[0].id, three[0].id[:7]):
        with refusing(Withdrawn, three[1].id):
            sets.get(asked)
    assert sets.bytes == 0


def test_a_set_whose_file_is_gone_is_not_found(tmp_path: Path, three: list[ReferenceSet]) -> None:
    sets = held_sets(tmp_path)
    sets.get(three[0].id)
    three[0].path.unlink()
    with refusing(NotFound, three[0].id):
        sets.get(three[0].id)
    assert sets.bytes == 0


def test_a_damaged_set_is_not_kept(tmp_path: Path, three: list[ReferenceSet]) -> None:
    data = bytearray(three[0].path.read_bytes())
    data[-60] ^= 0xFF
    three[0].path.write_bytes(data)
    sets = held_sets(tmp_path)
    for _ in range(2):
        with pytest.raises(Corrupt):
            sets.get(three[0].id)


def test_of_more_sets_than_may_be_kept_the_one_used_longest_ago_goes(tmp_path: Path, three: list[ReferenceSet]) -> None:
    sets = held_sets(tmp_path, most=2)
    x, y = (sets.get(one.id) for one in three[:2])
    assert sets.get(three[0].id) is x
    z = sets.get(three[2].id)  # y goes
    assert sets.get(three[0].id) is x
    assert sets.get(three[2].id) is z
    assert sets.get(three[1].id) is not y
    assert score_set(y, SetRequest(replies={"a": ["tea"] * 10}), ["bleu"], PLAIN)["set"]["id"] == three[1].id


def with_room(home: Path, bytes_: int) -> HeldSets:
    return held_sets(home, most_bytes=bytes_)


def ready(held: HeldSet, metric: str) -> bool:
    return any(one.metric.name == metric for one, _ in held._ready.values())


def test_metrics_used_longest_ago_go_before_the_set_they_are_of(tmp_path: Path, three: list[ReferenceSet]) -> None:
    request = SetRequest(replies={"a": ["tea"] * 10})
    sizes, sets = {}, held_sets(tmp_path)
    for metric in ("bleu", "rouge-l", "multi-bleu"):
        before = sets.bytes
        score_set(sets.get(three[0].id), request, [metric], PLAIN)
        sizes[metric] = sets.bytes - before - (sets.get(three[0].id).bytes if metric == "bleu" else 0)
    whole = sets.bytes
    sets = with_room(tmp_path, whole - 1)
    held = sets.get(three[0].id)
    for metric in ("bleu", "rouge-l", "bleu", "multi-bleu"):
        score_set(held, request, [metric], PLAIN)
    assert [ready(held, metric) for metric in ("bleu", "rouge-l", "multi-bleu")] == [True, False, True]
    assert sets.bytes == whole - sizes["rouge-l"]
    assert sets.get(three[0].id) is held
    expected = score_set(held_sets(tmp_path).get(three[0].id), request, ["rouge-l"], PLAIN)
    assert score_set(held, request, ["rouge-l"], PLAIN) == expected
    assert [ready(held, metric) for metric in ("bleu", "rouge-l", "multi-bleu")] == [False, True, True]


def test_whole_sets_go_where_there_is_no_room_and_the_sum_never_exceeds_it(
    tmp_path: Path, three: list[ReferenceSet]
) -> None:
    request = SetRequest(replies={"a": ["tea"] * 10})
    sets = held_sets(tmp_path)
    held = sets.get(three[0].id)
    score_set(held, request, ["upsilon-bleu"], PLAIN)
    room = sets.bytes + held.bytes // 2  # a set with its metric, and not even the items of another one
    sets = with_room(tmp_path, room)
    for number in (0, 1, 2, 2, 0):
        score_set(sets.get(three[number].id), request, ["upsilon-bleu"], PLAIN)
        assert list(sets._held) == [three[number].id]
        assert 0.9 * room - held.bytes // 2 < sets.bytes <= room


def test_set_too_large_is_refused_with_the_setting_and_stays_refused(tmp_path: Path, three: list[ReferenceSet]) -> None:
    held = held_sets(tmp_path).get(three[0].id)
    sets = with_room(tmp_path, held.bytes - 1)
    for _ in range(2):
        with refusing(TooLarge, three[0].id, "REFAUG_HELD_SETS_MIB"):
            sets.get(three[0].id)
    assert sets.bytes == 0


def test_a_metric_that_does_not_fit_is_refused_and_others_go_on(tmp_path: Path, three: list[ReferenceSet]) -> None:
    request = SetRequest(replies={"a": ["tea"] * 10})
    sets = held_sets(tmp_path)
    score_set(sets.get(three[0].id), request, ["bleu"], PLAIN)
    sets = with_room(tmp_path, sets.bytes)
    for _ in range(2):
        with refusing(TooLarge, three[0].id):
            score_set(sets.get(three[0].id), request, ["chrf"], PLAIN)
    assert score_set(sets.get(three[0].id), request, ["bleu"], PLAIN)["items"] == 10


@pytest.mark.parametrize("metric", mostly_slow(["upsilon-bleu", "chrf", "cider", "rouge-l"], quick=[0]))
def test_the_bytes_that_are_counted_are_about_those_that_are_taken(
    tmp_path: Path, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # blocks as they are
    rng = random.Random(metric)
    vocabulary = [f"{rng.choice(WORDS_LONG)}{n}" for n in range(1_000)]

    def text() -> str:
        return " ".join(rng.choices(vocabulary, k=12))

    items = [
        Item(
            id=f"d{n}",
            references=tuple(
                Reference(text=text(), source=Origin.RETRIEVED, weight=rng.uniform(0, 1)) for _ in range(8)
            ),
        )
        for n in range(100)
    ]
    golds = [replace(one, references=(Reference(text=text()), *one.references)) for one in items]
    name = frozen(tmp_path, golds).id
    request = SetRequest(items=["d1"], replies={"a": ["tea"]})
    score_set(held_sets(tmp_path).get(name), request, [metric], PLAIN)  # what is loaded once and stays
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        sets = held_sets(tmp_path)
        score_set(sets.get(name), request, [metric], PLAIN)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.75 * taken < sets.bytes < 1.35 * taken


WORDS_LONG = ["window", "kitchen", "yesterday", "mountain", "river"]


def test_many_threads_share_one_reading_and_one_preparation(tmp_path: Path, three: list[ReferenceSet]) -> None:
    sets = held_sets(tmp_path)
    expected = score_set(
        held_sets(tmp_path).get(three[0].id), SetRequest(replies={"a": ["tea"] * 10}), METRICS[4:7], PLAIN
    )
    begin, found = threading.Barrier(8), list[tuple[HeldSet, Any, list[int]]]()

    def work() -> None:
        begin.wait(timeout=30)
        held = sets.get(three[0].id)
        answer = score_set(held, SetRequest(replies={"a": ["tea"] * 10}), METRICS[4:7], PLAIN)
        found.append((held, answer, [id(one) for one in held.metrics(METRICS[4:7])]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=60)
    assert len(found) == 8
    assert {id(held) for held, _, _ in found} == {id(sets.get(three[0].id))}
    assert [answer for _, answer, _ in found] == [expected] * 8
    assert len({tuple(ids) for _, _, ids in found}) == 1
