"""Batches put together give what everything at once gives, bit for bit; and nothing else is taken for a batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from refusals import refusing
from set_items import MAKING, frozen, item_of, replies_of

from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.core.records import Item, Origin
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.combine import combine, metric_of, statistics_of
from refaug.scoring.evaluate import evaluate
from refaug.scoring.held_sets.held_set import HeldSet, HeldSets
from refaug.scoring.held_sets.set_scoring import SetRequest, score_set
from refaug.scoring.held_sets.set_scoring import statistics_of as statistics_of_set
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.provenance import Provenance
from refaug.scoring.scores import ReplyForm
from refaug.scoring.settings import ScoreSettings

COUNT = 24
METRICS = [
    "upsilon-bleu",
    "upsilon-bleu:variant=tsuta20,n=3",
    "delta-bleu:smooth=floor,smooth-value=0.2,eff=yes",
    "multi-bleu:tok=13a,case=lc",
    "multi-bleu:tok=mecab",
    "bleu:bp=none",
    "rouge-l:stem=yes",
    "chrf++",
    "ter:punct=no",
    "upsilon-rouge-1:agg=mean-best-3,b=0.05",
]
DRAWN = ScoreSettings(draws=50, baseline="b", seed=4)
PLAIN = ScoreSettings(draws=0)
ORIGIN = Provenance(settings={"index": "chat@1#9f2c", "rater": "base@3#41d0"}, details={"oov": "skip"})


def items_of(replies: dict[str, list[str | None]]) -> list[Item]:
    items = [item_of(number) for number in range(COUNT)]
    return [
        replace(item, replies={name: text for name, listed in replies.items() if (text := listed[place]) is not None})
        for place, item in enumerate(items)
    ]


ITEMS = items_of({"a": replies_of(COUNT, "a"), "b": replies_of(COUNT, "b")})


def stats(items: Sequence[Item], metrics: Sequence[str] = METRICS) -> dict[str, Any]:
    """A batch as it comes over the wire."""
    found = evaluate(items, [build(one) for one in metrics], PLAIN, provenance=ORIGIN)
    return orjson.loads(orjson.dumps({"request_id": "r1", **statistics_of(found)}))  # type: ignore[no-any-return]


def whole(items: Sequence[Item], metrics: Sequence[str], settings: ScoreSettings) -> list[dict[str, Any]]:
    """Everything scored at once, without single replies and names of references."""
    found = evaluate(items, [build(one) for one in metrics], settings, provenance=ORIGIN)
    return [without(one, "references") for one in found.as_json(ReplyForm.NONE)["scores"]]


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def cut(seed: int, count: int = COUNT) -> list[slice]:
    """Where a list is cut into batches of one or more."""
    rng = random.Random(seed)
    edges = [0, *sorted(rng.sample(range(1, count), rng.randint(1, 5))), count]
    return [slice(*edge) for edge in pairwise(edges)]


# ── the same as everything at once ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_batches_give_what_all_items_give_at_once(seed: int) -> None:
    parts = [ITEMS[batch] for batch in cut(seed)]
    found = combine([stats(part) for part in parts], DRAWN)
    assert [without(one, "references") for one in found["scores"]] == whole(ITEMS, METRICS, DRAWN)
    alone = [stats(part) for part in parts]
    assert [one["references"] for one in found["scores"]] == [
        [batch["stats"][number]["references"] for batch in alone] for number in range(len(METRICS))
    ]
    assert found["data"] == [batch["data"] for batch in alone]
    assert (found["items"], found["batches"], found["warnings"], found["problems"]) == (COUNT, len(parts), [], [])
    assert found["resampling"] == {
        "method": "percentile bootstrap over items",
        "draws": 50,
        "confidence": 0.95,
        "seed": 4,
        "baseline": "b",
    }
    assert orjson.dumps(found)


def test_a_system_that_is_not_in_a_batch_has_no_replies_there() -> None:
    late = items_of(
        {
            "a": [text if place < 16 else None for place, text in enumerate(replies_of(COUNT, "a"))],
            "b": replies_of(COUNT, "b"),
            "c": [None if place < 8 else text for place, text in enumerate(replies_of(COUNT, "c"))],
        }
    )
    found = combine([stats(late[:8]), stats(late[8:16]), stats(late[16:])], DRAWN)
    assert [list(one["systems"]) for one in found["scores"]] == [["a", "b", "c"]] * len(METRICS)
    assert [without(one, "references") for one in found["scores"]] == whole(late, METRICS, DRAWN)
    assert found["scores"][5]["systems"]["c"]["unscored_by_reason"]["no_reply"] >= 8


def test_one_batch_is_what_it_was() -> None:
    found = combine([stats(ITEMS)], DRAWN)
    assert [without(one, "references") for one in found["scores"]] == whole(ITEMS, METRICS, DRAWN)
    assert combine([stats(ITEMS)])["resampling"]["draws"] == 1000


def test_metrics_may_come_in_another_order_in_another_batch() -> None:
    found = combine([stats(ITEMS[:9], METRICS[:3]), stats(ITEMS[9:], METRICS[2::-1])], DRAWN)
    assert [without(one, "references") for one in found["scores"]] == whole(ITEMS, METRICS[:3], DRAWN)


# ── sets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def held(tmp_path: Path) -> HeldSet:
    stored = frozen(tmp_path, ITEMS)
    return HeldSets(ModelRegistry(Settings(home=tmp_path)), most=64, most_bytes=1 << 30).get(stored.id)


def request_of(rows: Sequence[int], ids: Sequence[str], replies: dict[str, list[str | None]]) -> SetRequest:
    return SetRequest(
        items=[ids[row] for row in rows], replies={k: [v[row] for row in rows] for k, v in replies.items()}
    )


@pytest.mark.parametrize("seed", range(3))
def test_batches_of_a_set_give_what_all_replies_give_at_once(held: HeldSet, seed: int) -> None:
    """In any order and with several replies an item, some items unknown: cider too, as its idf is the set's."""
    rng = random.Random(seed)
    ids = [f"item-{rng.randrange(COUNT + 1)}" for _ in range(60)]
    replies = {"a": replies_of(60, f"a{seed}"), "b": replies_of(60, f"b{seed}")}
    metrics = [*METRICS, "cider"]
    expected = score_set(held, SetRequest(items=ids, replies=replies), metrics, DRAWN, on_error="report")
    order = rng.sample(range(60), 60)
    batches = []
    for part in cut(seed, 60):
        asked = request_of(order[part], ids, replies)
        batch = statistics_of_set(held, asked, metrics, language=None, on_error="report")
        batches.append(orjson.loads(orjson.dumps(batch)))
    found = combine(batches, DRAWN)
    for one, other in zip(found["scores"], expected["scores"], strict=True):
        assert set(one["references"]) == {other["references"]}
        for system in ("a", "b"):
            mine, theirs = one["systems"][system], without(other["systems"][system], "replies")
            assert mine == theirs
        assert one["comparisons"] == other["comparisons"]
        assert one["signature_full"] == other["signature_full"]
    assert (found["items"], found["set"]) == (expected["items"], {"id": held.manifest.id})


def test_batches_of_a_set_and_others_are_not_combined(held: HeldSet, tmp_path: Path) -> None:
    asked = SetRequest(items=["item-1"], replies={"a": ["tea"]})
    of_set = statistics_of_set(held, asked, ["multi-bleu"])
    with refusing(BadInput, "batches[0]", held.manifest.id, "batches[1]"):
        combine([of_set, stats(ITEMS[:5], ["multi-bleu"])])
    other = frozen(tmp_path, ITEMS[:9], MAKING)
    of_other = statistics_of_set(
        HeldSets(ModelRegistry(Settings(home=tmp_path)), most=64, most_bytes=1 << 30).get(other.id),
        asked,
        ["multi-bleu"],
    )
    with refusing(BadInput, "batches[0]", held.manifest.id, "batches[1]", other.id):
        combine([of_set, of_other])


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([1], "batches[0].set.places"),
        ([1, 2, -1], "batches[0].set.places[2]"),
        ([1, 2, True], "batches[0].set.places[2]"),
        ([1, 2, 2], "item-1"),
        ([1, 1, 1], "item-2"),
    ],
)
def test_places_that_cannot_be_are_refused(held: HeldSet, places: list[Any], message: str) -> None:
    asked = SetRequest(items=["item-1", "item-2", "item-1"], replies={"a": ["tea"] * 3})
    batch = statistics_of_set(held, asked, ["multi-bleu"])
    batch["set"]["places"] = places
    with refusing(BadInput, message):
        combine([batch])


# ── what does not belong together ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("left", "right"),
    [(["bleu"], ["bleu:n=3"]), (["bleu"], ["bleu", "chrf"]), (["bleu", "chrf"], ["bleu"]), (["cider"], ["cider"])],
)
def test_other_signatures_are_refused(left: list[str], right: list[str]) -> None:
    """Also where the same words were asked for: cider's idf is that of its batch."""
    with refusing(BadInput):
        combine([stats(ITEMS[:12], left), stats(ITEMS[12:], right)])


def test_an_item_comes_once() -> None:
    with refusing(BadInput, "item-4", "batches[1]", "batches[0]"):
        combine([stats(ITEMS[:5], ["bleu"]), stats(ITEMS[4:], ["bleu"])])


def test_a_batch_may_have_no_score_at_all_where_others_have() -> None:
    """The last batch is often a small one; everything at once would say no more of it than that it is unscored."""
    blank = [replace(item, references=()) for item in ITEMS[4:6]]
    whole = evaluate([*ITEMS[:4], *blank], [build("bleu")], PLAIN).as_json()["scores"][0]
    last = orjson.loads(orjson.dumps(statistics_of(evaluate(blank, [build("bleu")], PLAIN, is_part=True))))
    assert [one["scores"] for one in sheet(last)["systems"].values()] == [[None, None], [None, None]]
    found = combine([stats(ITEMS[:4], ["bleu"]), last], PLAIN)["scores"][0]["systems"]
    for name, system in whole["systems"].items():
        assert found[name] == {key: value for key, value in system.items() if key != "replies"}
        assert found[name]["unscored_by_reason"]["no_gold"] == 2
    with refusing(BadInput):
        evaluate(blank, [build("bleu")], PLAIN)


def test_nothing_scored_in_any_batch_is_an_error_as_it_is_at_once() -> None:
    batch = stats(ITEMS[:2], ["bleu"])
    for one in sheet(batch)["systems"].values():
        one["rows"] = [None, None]
        one["problems"] = [{"row": row, "problem": "no_gold", "message": "it has none"} for row in range(2)]
    with refusing(BadInput):
        combine([batch])


def weighted_by_nobody(items: Sequence[Item]) -> list[Item]:
    """The items with their golds alone."""
    golds = [[one for one in item.references if one.source is Origin.GOLD] for item in items]
    return [replace(item, references=tuple(listed)) for item, listed in zip(items, golds, strict=True)]


def parts(*batches: Sequence[Item]) -> list[dict[str, Any]]:
    """Sums of batches that need not suit the metrics."""
    metrics = [build(one) for one in ("delta-bleu", "upsilon-bleu", "bleu")]
    statistics = [statistics_of(evaluate(batch, metrics, PLAIN, is_part=True)) for batch in batches]
    return [orjson.loads(orjson.dumps(one)) for one in statistics]


def test_a_metric_that_suits_one_batch_is_scored_over_all() -> None:
    items = [*ITEMS[:6], *weighted_by_nobody(ITEMS[6:12])]
    batches = parts(items[6:], items[:6])
    assert [one["unsuitable"]["code"] for one in batches[0]["stats"] if "unsuitable" in one] == ["bad_input"] * 2
    assert not any("unsuitable" in one for one in batches[1]["stats"])
    at_once = evaluate([*items[6:], *items[:6]], [build("delta-bleu"), build("upsilon-bleu"), build("bleu")], PLAIN)
    combined = combine(batches, PLAIN)
    assert combined["problems"] == []
    assert [without(one, "references") for one in combined["scores"]] == [
        without(one, "references") for one in at_once.as_json(ReplyForm.NONE)["scores"]
    ]


def test_metrics_that_suit_no_batch_are_reported_or_refused() -> None:
    golds = weighted_by_nobody(ITEMS[:6])
    blank = [replace(item, references=()) for item in ITEMS[6:8]]
    batches = parts(golds, blank)
    assert [one.get("unsuitable", {}).get("code") for one in batches[1]["stats"]] == ["no_gold", "no_gold", None]
    with refusing(BadInput) as caught:
        combine(batches, PLAIN)
    assert caught.value.remedy
    combined = combine(batches, PLAIN, "report")
    assert [one["metric"] for one in combined["scores"]] == ["bleu"]
    assert [(one["field"], one["metric"], one["code"]) for one in combined["problems"]] == [
        ("metrics[0]", "delta-bleu", "bad_input"),
        ("metrics[1]", "upsilon-bleu", "bad_input"),
    ]
    with refusing(BadInput):
        combine(parts(blank), PLAIN, "report")


@pytest.mark.parametrize(
    ("unsuitable", "message"),
    [
        ({"code": "bad_input", "message": "no"}, "multi-bleu suits any references"),
        ({"code": "no_reply"}, "unsuitable.code"),
        ("no", "no"),
        ({}, "unsuitable.code"),
    ],
)
def test_a_batch_that_says_it_is_unsuitable_is_checked(unsuitable: object, message: str) -> None:
    with refusing(BadInput, message):
        combine([changed(lambda batch: sheet(batch).update(unsuitable=unsuitable))])


# ── what is no batch ──────────────────────────────────────────────────────────────────────────────────────────────


def sheet(batch: dict[str, Any]) -> dict[str, Any]:
    return batch["stats"][0]  # type: ignore[no-any-return]


def system(batch: dict[str, Any]) -> dict[str, Any]:
    return sheet(batch)["systems"]["a"]  # type: ignore[no-any-return]


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    batch = stats(ITEMS[:6], ["multi-bleu"])
    change(batch)
    return batch


AT = r"batches\[0\].stats\[0\]"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.pop("stats"), r"batches\[0\].stats is not a list, but nothing"),
        (lambda b: b.update(stats=[]), r"batches\[0\].stats is empty"),
        (lambda b: b.update(data=7), r"batches\[0\].data is not a text, but 7"),
        (lambda b: b["stats"].append(sheet(b)), r"batches\[0\].stats\[1\]: multi-bleu.* comes twice"),
        (lambda b: b.update(set=[1]), r"batches\[0\].set is not an object, but \[1\]"),
        (lambda b: sheet(b).pop("references"), rf"{AT}.references is not a text, but nothing"),
        (lambda b: sheet(b).update(systems={}), rf"{AT}.systems is empty: no item of the batch has a reply"),
        (lambda b: sheet(b)["columns"].reverse(), rf"{AT}.columns: reference_length, .*; multi-bleu has credit_1"),
        (lambda b: sheet(b)["columns"].pop(), rf"{AT}.systems.a.rows\[0\] has 8 sums, and there are 7 columns"),
        (lambda b: system(b).update(items="item-1"), rf"{AT}.systems.a.items is not a list, but 'item-1'"),
        (lambda b: system(b)["items"].pop(), rf"{AT}.systems.b.items are not those of the batch's first system"),
        (lambda b: system(b)["rows"].pop(), rf"{AT}.systems.a.rows has 5 rows for 6 items"),
        (lambda b: system(b)["rows"][1].pop(), rf"{AT}.systems.a.rows\[1\] has 7 sums, and there are 8 columns"),
        (lambda b: system(b)["rows"].__setitem__(1, 3), rf"{AT}.systems.a.rows\[1\] is not a list, but 3"),
        (lambda b: system(b)["rows"].__setitem__(1, None), rf"{AT}.systems.a.rows\[1\] has no sums and no problem"),
        (lambda b: system(b)["problems"].pop(), rf"{AT}.systems.a.rows\[3\] has no sums and no problem"),
        (lambda b: system(b)["problems"][0].update(row=2), rf"{AT}.systems.a.rows\[2\] has sums and a problem"),
        (lambda b: system(b)["problems"].append({**system(b)["problems"][0], "row": 9}), "names the row 9 of 6"),
        (lambda b: system(b)["problems"][0].update(row="3"), r"problems\[0\].row: '3' is not the number of a row"),
        (lambda b: system(b)["problems"][0].update(problem="No!"), "'No!' is not a code of a problem"),
        *[
            (
                lambda b, value=value: system(b)["rows"][2].__setitem__(4, value),
                rf"{AT}.systems.a.rows\[2\]: {shown} is not a sum of a metric: a finite number",
            )
            for value, shown in [
                (float("nan"), "nan"),
                (float("-inf"), "-inf"),
                (10**400, "10{79}…"),
                (-1e300, r"-1e\+300"),
                ("1", "'1'"),
                (True, "True"),
                (None, "nothing"),
            ]
        ],
    ],
)
def test_what_is_no_batch_is_refused_with_its_place(change: Callable[[dict[str, Any]], object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        combine([changed(change)])


@pytest.mark.parametrize("batch", [None, [], "text", 3])
def test_a_batch_is_an_object(batch: Any) -> None:
    with refusing(BadInput, "batches[1]"):
        combine([stats(ITEMS[:5], ["bleu"]), batch])


def test_settings_that_mean_nothing_here_are_refused() -> None:
    with refusing(BadInput):
        combine([])
    with refusing(Usage):
        combine([stats(ITEMS[:5], ["bleu"])], ScoreSettings(draws=10, baseline="z"))


# ── signatures ────────────────────────────────────────────────────────────────────────────────────────────────────


def signed(batch: dict[str, Any], text: str) -> dict[str, Any]:
    sheet(batch)["signature_full"] = text
    return batch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("refaug:0", "refaug:99.0"), "99.0"),
        (lambda text: text.replace("multi-bleu", "blue"), "blue"),
        (lambda text: text.replace("smooth:exp", "smooth:floor[0.10]"), "is not what we sign with, but"),
        (lambda text: text.replace("smooth:exp", "smooth:sometimes"), "no metric has the signature"),
        (lambda text: text.replace("tokenizer.:unicode", "tokenizer.:another"), "is not what we sign with, but"),
        (lambda text: text.replace("|case:lc", ""), "is not what we sign with, but"),
        (lambda text: "nonsense", "nonsense"),
        (lambda text: "x" * 30_000, "30,000"),
        (lambda text: Signature.parse(text).short, "is not a full signature"),
        (lambda text: text.replace("n:2", "n:3"), "; multi-bleu has credit_1, credit_2, credit_3"),
    ],
)
def test_a_signature_that_we_would_not_give_is_refused(change: Callable[[str], str], message: str) -> None:
    batch = stats(ITEMS[:6], ["multi-bleu"])
    with refusing(BadInput, message):
        combine([signed(batch, change(sheet(batch)["signature_full"]))])


def test_a_tokenizer_of_a_file_is_not_looked_for(tmp_path: Path) -> None:
    """What sums are worth does not depend on it, and a request must not make us open files."""
    batch = stats(ITEMS[:6], ["multi-bleu:tok=char"])
    expected = combine([batch], DRAWN)["scores"][0]["systems"]
    model = tmp_path / "chat.model"
    model.write_bytes(b"no model at all")
    text = sheet(batch)["signature_full"].replace("tok:char", f"tok:sentencepiece:{model}")
    found = combine([signed(batch, text)], DRAWN)["scores"][0]
    assert (found["systems"], found["signature_full"]) == (expected, text)


def test_a_mean_of_replies_needs_none_of_what_scored_them(tmp_path: Path) -> None:
    """Its signature names vectors that are nowhere; the mean is the mean."""
    batch = stats(ITEMS[:6], ["rouge-l"])
    expected = combine([batch], DRAWN)["scores"][0]["systems"]
    text = sheet(batch)["signature_full"].replace("rouge-l|", "greedy|vectors:wiki#12ab|", 1)
    found = combine([signed(batch, text)], DRAWN)["scores"][0]
    assert (found["metric"], found["systems"]) == ("greedy", expected)


def test_what_is_only_defined_for_all_replies_at_once_is_not_added() -> None:
    text = "ruber|blend:min|referenced:rouge-l|unreferenced:ruber|norm:test|range-ref.:0..1"
    with refusing(BadInput):
        metric_of(f"{text}|{Signature(metric='x', settings={}).full.partition('|')[2]}")


def test_provenance_stays_in_the_signature() -> None:
    found = combine([stats(ITEMS[:12], METRICS[:1]), stats(ITEMS[12:], METRICS[:1])], PLAIN)["scores"][0]
    assert "|index:chat@1#9f2c|rater:base@3#41d0|" in found["signature_full"]
    assert "|oov.:skip|" in found["signature_full"]
    assert found["signature"] == Signature.parse(found["signature_full"]).short
