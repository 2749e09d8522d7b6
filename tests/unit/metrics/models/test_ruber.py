"""RUBER: every score put together in plain Python from what either part gives, and what cannot be asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, NotFound, Usage
from refaug.metrics.base import NO_GOLD, NO_UTTERANCE, Floats, Level, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.embeddings.word_vector_metrics import NO_KNOWN_REFERENCE, NO_KNOWN_WORD
from refaug.metrics.metric_info import CorpusScore, Uses
from refaug.metrics.models.model_scores import ReplyToRate
from refaug.metrics.models.ruber import Ranges, Ruber, part_values
from refaug.metrics.parameters import Range
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.upsilon import Upsilon

WORDS = ["the", "cat", "dog", "sat", "ran", "fast"]
VECTORS = np.random.default_rng(5).normal(size=(len(WORDS), 4)).astype(np.float32)
TEXT = st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=5).map(" ".join)
REPLY = st.one_of(TEXT, st.sampled_from(["", "  "]))
ITEM = st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3))
BLENDS = {
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
    "min": min,
    "max": max,
}
RANGES = Ranges(referenced=Range(0.1, 0.9), unreferenced=Range(0.2, 0.7))


class Overlap:
    """Says how many of a reply's letters the utterance has; as a rating, utterance and golds, from -1 to 1."""

    spec = "overlap@1#0123456789ab"
    turn_separator = " "
    runtime = "torch"

    def __init__(self) -> None:
        self.asked = list[Any]()

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        self.asked += pairs
        return np.array([relevance(utterance, reply) for utterance, reply in pairs])

    def judge(self, asked: Sequence[ReplyToRate], *, combine: str, cal: str) -> Floats:
        self.asked += [(one, combine, cal) for one in asked]
        return np.array([rating(one.utterance, one.golds, one.reply) for one in asked])

    def remarks(self) -> tuple[str, ...]:
        return ("the overlap knows nothing",)


def relevance(utterance: str, reply: str) -> float:
    return sum(letter in utterance for letter in reply) / len(reply)


def rating(utterance: str, golds: Sequence[str], reply: str) -> float:
    return 2 * sum(relevance(utterance + gold, reply) for gold in golds) / len(golds) - 1


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "tiny.txt"
    rows = [" ".join(map(repr, row.tolist())) for row in VECTORS]
    path.write_text("".join(f"{word} {row}\n" for word, row in zip(WORDS, rows, strict=True)))
    return path


def ruber(specification: str, judge: Overlap | None = None) -> Ruber:
    metric = build(specification)
    assert isinstance(metric, Ruber)
    return metric.with_judge(judge or Overlap())


def item(utterance: str | None, *texts: str, weights: Sequence[float] | None = None) -> References:
    """References with the utterance for the network, and with all of them as golds for a rater."""
    beside = References(texts, (1.0,) * len(texts), 0, utterance)
    return References(texts, tuple(weights or [1.0] * len(texts)), 0, None, beside)


def statistics(metric: Ruber, items: Sequence[References], rows: Sequence[tuple[str, int]]) -> Floats:
    at = np.array([item for _, item in rows], np.int64)
    return metric.statistics([reply for reply, _ in rows], metric.prepare(items), np.arange(len(rows)), at)


def scores(metric: Ruber, items: Sequence[References], rows: Sequence[tuple[str, int]]) -> Floats:
    return metric.values(statistics(metric, items, rows), Level.REPLY)


def pooled(reply: str, texts: Sequence[str]) -> float:
    """The best cosine of the largest and smallest values of the word vectors; NaN where nothing is known."""
    pools = []
    for text in (reply, *texts):
        known = VECTORS[[WORDS.index(word) for word in text.split() if word in WORDS]].astype(float)
        pools.append(np.concatenate([known.max(axis=0), known.min(axis=0)]) if len(known) else None)
    mine, *theirs = pools
    if mine is None:
        return math.nan
    found = [mine @ one / np.linalg.norm(mine) / np.linalg.norm(one) for one in theirs if one is not None]
    return max(found, default=math.nan)


def mapped(value: float, low: float, high: float) -> float:
    return value if math.isnan(value) else min(1.0, max(0.0, (value - low) / (high - low)))


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(
    items=st.lists(ITEM, min_size=1, max_size=3),
    rows=st.lists(st.tuples(REPLY, st.integers(0, 2)), max_size=6),
    blend=st.sampled_from(list(BLENDS)),
    unreferenced=st.sampled_from(["ruber", "rater", "rater;refs=gold"]),
    norm=st.sampled_from(["log", "none"]),
)
def test_every_row_is_the_blend_of_both_parts(
    vectors: Path,
    items: list[tuple[str, list[str]]],
    rows: list[tuple[str, int]],
    blend: str,
    unreferenced: str,
    norm: str,
) -> None:
    rows = [(reply, place % len(items)) for reply, place in rows]
    given_ = ",range-ref=0.1..0.9,range-unref=0.2..0.7" if norm == "log" else ""
    metric = ruber(f"ruber:blend={blend},unreferenced={unreferenced},norm={norm},vectors={vectors}{given_}")
    low, high = (0.2, 0.7) if norm == "log" else (-1 if unreferenced != "ruber" else 0, 1)
    expected = []
    for reply, place in rows:
        utterance, texts = items[place]
        a = pooled(reply, texts)
        if not any(not math.isnan(pooled(one, [one])) for one in texts):
            expected.append([math.nan] * 6)
            continue
        if not reply.strip():
            expected.append([0, 1, 0, -1 if unreferenced != "ruber" else 0, 0, 0])
            continue
        golds = texts[:1] if unreferenced.endswith("gold") else texts
        b = relevance(utterance, reply) if unreferenced == "ruber" else rating(utterance, golds, reply)
        one, other = mapped(a, *((0.1, 0.9) if norm == "log" else (0, 1))), mapped(b, low, high)
        row = [BLENDS[blend](one, other), 1, a, b, one, other]
        expected.append([math.nan] * 6 if math.isnan(a) else row)
    found = statistics(metric, [item(utterance, *texts) for utterance, texts in items], rows)
    np.testing.assert_allclose(found, np.array(expected).reshape(-1, 6), atol=1e-6)


@pytest.mark.parametrize(("blend", "expected"), [("arithmetic", 0.34), ("geometric", 0.3), ("min", 0.18), ("max", 0.5)])
def test_the_four_blends_by_hand(vectors: Path, blend: str, expected: float) -> None:
    class Half(Overlap):
        def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
            return np.full(len(pairs), 0.5)

    # rouge-1 of one word in common of ten and one: P = 0.1, R = 1, F = 2 · 0.1 / 1.1; 0.18 after the range
    low = 2 * 0.1 / 1.1 - 0.18
    wanted = f"ruber:blend={blend},referenced=rouge-1,range-ref={low:.9f}..{low + 1:.9f},range-unref=0..1"
    reply = "cat " + " ".join(f"w{number}" for number in range(9))
    found = scores(ruber(wanted, Half()), [item("dog", "cat")], [(reply, 0)])
    assert found[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "part", ["upsilon-greedy;agg=mean-best-3", "upsilon-bleu", "ter", "rouge-l;refs=gold", "cider"]
)
def test_any_metric_of_references_can_be_the_referenced_part(vectors: Path, part: str) -> None:
    more = f",vectors={vectors}" if "greedy" in part else ""
    metric = ruber(f"ruber:referenced={part},range-ref=-0.5..1.5,range-unref=0..1{more}")
    name, _, rest = part.partition(";")
    alone = build(f"{name}:{rest}{more}" if rest else f"{name}:{more[1:]}" if more else name)
    items = [item("the cat", "the cat sat", "a dog ran fast", weights=(1, 0.5)), item("a dog", "the dog sat")]
    rows = [("the cat ran", 0), ("dog", 1), ("the dog ran fast", 0), ("the dog sat", 1)]
    metric, alone = metric.for_set(items), alone.for_set(items)
    at = np.array([place for _, place in rows])
    raw = alone.values(
        alone.statistics([reply for reply, _ in rows], alone.prepare(items), np.arange(4), at), Level.REPLY
    )
    values = np.maximum(0, 1 - raw) if part == "ter" else raw
    utterances = ["the cat", "a dog"]
    expected = [
        (mapped(float(value), -0.5, 1.5) + relevance(utterances[place], reply)) / 2
        for value, (reply, place) in zip(values, rows, strict=True)
    ]
    assert scores(metric, items, rows) == pytest.approx(expected)
    assert metric.info.uses is METRICS[name].uses


def test_the_published_ranges_are_those_of_the_replies_at_hand(vectors: Path) -> None:
    metric = ruber(f"ruber:norm=test,vectors={vectors}")
    items = [item("the cat", "the cat sat"), item("a dog", "dog")]
    rows = [("cat", 0), ("", 0), ("the dog ran", 1), ("unknown", 1), ("fast", 0), ("sat fast", 1)]
    utterances, texts = ["the cat", "a dog"], ["the cat sat", "dog"]
    a = [pooled(reply, [texts[place]]) for reply, place in rows]
    b = [relevance(utterances[place], reply) if reply else math.nan for reply, place in rows]
    at = np.array([place for _, place in rows])
    bound = metric.for_replies([reply for reply, _ in rows], items, at)
    low, high = round(np.nanmin(a), 7), round(np.nanmax(a), 7)
    expected = [
        0.0 if not reply else (mapped(x, low, high) + mapped(y, min(b[0], *b[2:]), max(b[0], *b[2:]))) / 2
        for (reply, _), x, y in zip(rows, a, b, strict=True)
    ]
    np.testing.assert_allclose(scores(bound, items, rows), expected, atol=1e-6)
    assert bound.versions()["range-ref"] == f"{low}..{high}"
    assert "range-ref" not in bound.settings
    assert bound.settings["norm"] == "test"
    told = "ruber with norm=test: a score depends on which replies are scored together with it"
    assert told in bound.remarks()
    fewer = metric.for_replies(["cat", "fast"], items, np.array([0, 0]))
    assert Signature.of(fewer).full != Signature.of(bound).full


def test_by_test_nothing_is_scored_that_was_not_seen_at_once(vectors: Path) -> None:
    metric = ruber(f"ruber:norm=test,vectors={vectors}")
    with refusing(Usage) as refused:
        metric.prepare([item("the cat", "cat")])
    assert refused.value.remedy == "norm=log or norm=none, where replies are scored one by one"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("cat", 0), ("cat", 0)], "norm=test: by pooled, all 2 replies get 1, so that no score"),
        ([("unknown", 0), ("", 0)], "norm=test: no reply has a score by pooled"),
    ],
)
def test_by_test_replies_that_do_not_differ_are_refused(
    vectors: Path, rows: list[tuple[str, int]], message: str
) -> None:
    metric = ruber(f"ruber:norm=test,vectors={vectors}")
    with refusing(BadInput, message):
        metric.for_replies([reply for reply, _ in rows], [item("the cat", "cat")], np.zeros(2, np.int64))


def test_other_norms_do_not_look_at_the_replies_at_hand(vectors: Path) -> None:
    for norm in ("log", "none"):
        metric = ruber(f"ruber:norm={norm},vectors={vectors}")
        assert metric.for_replies(["cat"], [item("the cat", "cat")], np.array([0])) is metric


def test_an_empty_reply_scores_0_and_nobody_is_asked(vectors: Path) -> None:
    for part, least in (("ruber", 0.0), ("rater", -1.0)):
        judge = Overlap()
        metric = ruber(f"ruber:unreferenced={part},norm=none,vectors={vectors}", judge)
        found = statistics(metric, [item("the cat", "cat")], [("", 0), (" \t", 0)])
        assert found.tolist() == [[0, 1, 0, least, 0, 0]] * 2
        assert judge.asked == []


@settings(max_examples=30, deadline=None)
@given(
    items=st.lists(ITEM, min_size=1, max_size=3),
    rows=st.lists(st.tuples(REPLY, st.integers(0, 2)), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_a_row_is_the_same_in_any_batch_and_order_to_the_last_bit(
    vectors: Path, items: list[tuple[str, list[str]]], rows: list[tuple[str, int]], order: Any
) -> None:
    rows = [(reply, place % len(items)) for reply, place in rows]
    made = [item(utterance, *texts) for utterance, texts in items]
    metric = ruber(f"ruber:blend=geometric,vectors={vectors}").with_ranges(RANGES, {})
    together = statistics(metric, made, rows)
    places = list(range(len(rows)))
    order.shuffle(places)
    turned = statistics(metric, made, [rows[place] for place in places])
    np.testing.assert_array_equal(turned, together[places])
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(statistics(metric, made, [row])[0], together[place])
    backwards = [item(utterance, *reversed(texts)) for utterance, texts in items]
    np.testing.assert_array_equal(scores(metric, backwards, rows), together[:, 0])


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(list(BLENDS)))
@settings(max_examples=40, deadline=None)
def test_a_better_part_never_makes_a_lower_score_and_all_are_shares(a: float, b: float, blend: str) -> None:
    class Says(Overlap):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def relevance(self, pairs: Sequence[tuple[str, str]]) -> Floats:
            return np.full(len(pairs), self.value)

    low, high = sorted((a, b))
    asked = f"ruber:referenced=rouge-1,blend={blend},range-ref=0.1..0.9,range-unref=0.25..0.5"
    found = [scores(ruber(asked, Says(value)), [item("x", "the cat")], [("the dog", 0)])[0] for value in (low, high)]
    assert 0 <= found[0] <= found[1] <= 1


# ── what makes a score, and what keeps one from being there ───────────────────────────────────────────────────────


def test_an_item_that_a_part_cannot_score_says_why(vectors: Path) -> None:
    metric = ruber(f"ruber:norm=none,vectors={vectors}")
    rated = ruber(f"ruber:norm=none,unreferenced=rater,vectors={vectors}")
    items = [
        item("the cat", "cat"),
        item("the cat", "unknown"),
        item(None, "cat"),
        item(" ", "cat"),
        References(("cat",), (1.0,)),
    ]
    assert metric.prepare(items).problems == {1: NO_KNOWN_REFERENCE, 2: NO_UTTERANCE, 3: NO_UTTERANCE, 4: NO_UTTERANCE}
    assert rated.prepare(items).problems == {1: NO_KNOWN_REFERENCE, 2: NO_UTTERANCE, 3: NO_UTTERANCE, 4: NO_GOLD}
    found = scores(metric, items, [("cat", 0), ("cat", 1), ("cat", 2), ("cat", 4), ("", 2)])
    assert np.isnan(found).tolist() == [False, True, True, True, True]
    assert metric.undefined() == NO_KNOWN_WORD


def test_references_left_out_are_left_out_for_both_parts() -> None:
    three = item("hello", "a", "b", "a", weights=(1, 0.5, 0.25))
    left = three.select([2, 1])
    assert (left.texts, left.weights, left.gold) == (("a", "b"), (0.25, 0.5), -1)
    assert left.beside == References(("a", "b", "a"), (1.0, 1.0, 1.0), 0, "hello")  # the text is still there
    assert three.select([1]).beside == References(("b",), (1.0,), -1, "hello")


def test_parts_show_what_both_gave_before_and_after(vectors: Path) -> None:
    metric = ruber(f"ruber:vectors={vectors}").with_ranges(RANGES, {})
    rows = [("the cat", 0), ("dog ran", 0)]
    found = statistics(metric, [item("the cat", "cat sat")], rows)
    a, b = pooled("the cat", ["cat sat"]), relevance("the cat", "the cat")
    assert metric.parts(found[0], Level.REPLY) == {
        "replies": 1.0,
        "referenced": pytest.approx(a, abs=1e-6),
        "unreferenced": pytest.approx(b),
        "referenced_mapped": pytest.approx(mapped(a, 0.1, 0.9), abs=1e-6),
        "unreferenced_mapped": pytest.approx(mapped(b, 0.2, 0.7)),
    }
    whole = metric.parts(found.sum(axis=0), Level.CORPUS)
    assert whole["referenced"] == pytest.approx((a + pooled("dog ran", ["cat sat"])) / 2, abs=1e-6)
    assert float(metric.value_of_sums(found.sum(axis=0))) == pytest.approx(found[:, 0].mean())
    assert METRICS["ruber"].corpus is CorpusScore.MEAN


def test_many_zeros_are_told_of_beside_what_the_judge_says() -> None:
    metric = ruber("ruber:referenced=rouge-1,blend=min,norm=none")
    items = [item("the cat", "cat")]
    assert metric.remarks() == ("the overlap knows nothing",)
    copy = metric.for_set(items)
    assert scores(copy, items, [("cat", 0)] * 9 + [("", 0), ("dog", 0)]).tolist() == [1.0] * 9 + [0, 0]
    assert metric.remarks() == ("the overlap knows nothing",)  # one of ten that are not empty
    scores(copy, items, [("ran", 0)])
    assert metric.remarks() == (
        "the overlap knows nothing",
        "ruber: 18 % of 11 scores are 0, which does not tell those replies apart: they are at the lower end of the "
        "range of one part or of both, or below it",
    )


def test_values_of_a_part_are_its_own_and_better_the_higher() -> None:
    items = [item("x", "the cat sat"), References((), ())]
    found = part_values(build("ter"), ["the cat sat", "dog", "cat"], items, np.array([0, 0, 1]))
    np.testing.assert_allclose(found, [1, 0, np.nan])


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_signature_has_both_parts_their_settings_ranges_and_judge(vectors: Path) -> None:
    asked = (
        f"ruber:referenced=upsilon-greedy;weighting=sif;keep-gold=yes,unreferenced=rater;refs=gold,vectors={vectors}"
    )
    metric = ruber(asked).with_ranges(RANGES, {"sample-index": "abc", "sample-pairs": "5000"})
    vectors_name = metric.referenced.settings["vectors"]
    assert metric.settings == {
        "blend": "arithmetic",
        "referenced": "upsilon-greedy;agg=weighted-best;keep-gold=yes;lambda=0;b=0;"
        f"vectors={vectors_name};weighting=sif;measure=mean;case=lc;tok=word",
        "unreferenced": "rater;model=overlap@1#0123456789ab;target=reply;combine=first;cal=raw;turns=1;refs=gold",
        "norm": "log",
        "range-ref": "0.1..0.9",
        "range-unref": "0.2..0.7",
    }
    signature = Signature.of(metric)
    assert signature.details["sample-index"] == "abc"
    assert signature.details["frequencies"] == "zipf"
    assert "sample-index" not in signature.short
    assert Signature.parse(signature.full) == signature


@pytest.mark.parametrize(
    "asked",
    [
        "ruber:referenced=rouge-l,range-ref=0.125..0.5,range-unref=0..1",
        "ruber:referenced=upsilon-chrf;beta=1;b=0.25,unreferenced=rater;combine=mean,norm=none,blend=min",
        "ruber:referenced=bleu;smooth=floor[0.2],norm=test",
        "ruber:referenced=multi-bleu;tok=mecab:unidic-lite",
    ],
)
def test_signature_parses_back_as_the_same_metric(asked: str) -> None:
    made = Signature.of(ruber(asked))
    for text in (made.full, made.short):
        again = Signature.parse(text).specification()
        assert Signature.of(ruber(str(again))) == made


def test_shared_settings_reach_the_part_that_takes_them_unless_it_has_some() -> None:
    japanese = ruber("ruber:referenced=rouge-l,tok=char,unreferenced=rater,combine=max,cal=cal")
    assert japanese.referenced.settings["tok"] == "char"
    assert japanese.unreferenced.settings["combine"] == "max"
    assert japanese.unreferenced.settings["cal"] == "cal"
    own = ruber("ruber:referenced=rouge-l;tok=intl,tok=char,unreferenced=rater;combine=mean,combine=max")
    assert own.referenced.settings["tok"] == "intl"
    assert own.unreferenced.settings["combine"] == "mean"
    assert "tok" not in own.settings
    assert ruber("ruber:referenced=chrf,tok=char").referenced.settings == build("chrf").settings


def test_what_it_looks_at_and_needs_is_what_its_parts_do(vectors: Path) -> None:
    register = METRICS["ruber"]
    assert (register.uses, register.beside) == (Uses.OWN, Uses.UTTERANCE)
    assert register.needs == ("a ruber", "the utterance", "word vectors", "an index")
    assert ruber(f"ruber:vectors={vectors}").info == register
    rated = build("ruber:referenced=upsilon-chrf,unreferenced=rater,norm=none").info
    assert (rated.uses, rated.beside) == (Uses.WEIGHTED, Uses.GOLDS)
    assert build("ruber:referenced=bleu").info.uses is Uses.GOLD
    assert register.looks_at_utterance
    assert METRICS["rater"].looks_at_utterance
    assert not METRICS["upsilon-chrf"].looks_at_utterance


def test_a_weighted_part_without_b_remembers_that_none_was_given() -> None:
    for text, is_open in (("upsilon-chrf", True), ("upsilon-chrf;b=0", False)):
        part = ruber(f"ruber:referenced={text},norm=none").referenced
        assert isinstance(part, Upsilon)
        assert part.b_is_open is is_open
    based = ruber("ruber:referenced=upsilon-chrf")
    assert isinstance(based.referenced, Upsilon)
    with_b = based.with_referenced(based.referenced.with_b("0.25"))
    assert "b=0.25" in with_b.settings["referenced"]
    assert "b=0;" in based.settings["referenced"]


def test_without_a_judge_or_ranges_scoring_is_refused_with_a_remedy() -> None:
    unjudged = build("ruber:referenced=chrf,norm=none")
    with refusing(Usage, "ruber") as refused:
        unjudged.prepare([item("a", "b")])
    assert refused.value.remedy == "refaug artefacts list ruber"
    with refusing(Usage, "rater"):
        build("ruber:referenced=chrf,norm=none,unreferenced=rater").prepare([item("a", "b")])
    with refusing(Usage, "ruber") as refused:
        ruber("ruber:referenced=chrf").prepare([item("a", "b")])
    assert refused.value.remedy == "refaug artefacts list index; or norm=none"


@pytest.mark.parametrize(
    ("wrong", "message", "remedy"),
    [
        ("", "ruber", "refaug artefacts list vectors"),
        ("referenced=chrf,unreferenced=rater,model=u", "names a ruber, and a rater is asked", "rater;model=NAME"),
        ("referenced=chrf,norm=none,sample=chat", "sample=chat, and no log is sampled", "leave sample out"),
        ("referenced=nope", "nope", "refaug score metrics list"),
        ("referenced=rater", "rater uses a model of its own", "referenced=pooled"),
        ("referenced=ruber", "ruber uses a model of its own", "referenced=pooled"),
        ("referenced=rouge-l:refs=gold", "a colon behind the name of a part", "rouge-l;refs=gold"),
        ("referenced=rouge-l;", "nothing stands between two semicolons", "pooled;refs=gold"),
        ("referenced=rouge-l;;refs=gold", "nothing stands between two semicolons", "pooled;refs=gold"),
        ("referenced=;refs=gold", "a part begins with the name of a metric", "pooled;refs=gold"),
        ("referenced=refs=gold", "a part begins with the name of a metric", "pooled;refs=gold"),
        ("referenced=rouge-l;refs", "refs", "pooled;refs=gold"),
        ("referenced=rouge-l;refs=gold;refs=own", "gives refs twice", "once"),
        ("referenced=rouge-l;b=0", "rouge-l has no parameter 'b'", "measure"),
        ("referenced=rouge-l;refs=all", "all", "own | gold"),
        ("referenced=rouge-l,vectors=x.txt", "rouge-l takes no word vectors", "leave vectors out"),
        ("referenced=upsilon-chrf,beta=1", "beta", "referenced"),
        ("blend=min;norm=none", "min;norm=none", "arithmetic"),
        ("blend=mean", "mean", "arithmetic | geometric | min | max"),
        ("referenced=chrf,unreferenced=adem", "unreferenced=adem: there is no such part", "ruber, or rater"),
        ("referenced=chrf,unreferenced=ruber;seed=1", "seed", "unreferenced=ruber"),
        ("referenced=chrf,unreferenced=rater;combine=median", "median", "first"),
        ("referenced=cider,norm=none", "scores from 0 to 10 are no shares", "norm=log or norm=test"),
        ("referenced=chrf,norm=test,range-ref=0..1", "norm=test takes no ranges", "leave range-ref"),
        ("referenced=chrf,range-unref=0..1", "one of range-ref and range-unref is missing", "give both"),
        ("referenced=chrf,range-ref=1..0", "1..0", "the lower first"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_what_can(wrong: str, message: str, remedy: str) -> None:
    with pytest.raises(Usage) as refused:
        build(f"ruber:{wrong}" if wrong else "ruber")
    assert message in refused.value.message
    assert remedy in refused.value.remedy


def test_other_errors_of_a_part_stay_what_they_are(tmp_path: Path) -> None:
    with refusing(NotFound):
        build(f"ruber:referenced=greedy,vectors={tmp_path / 'nothing.txt'}")
