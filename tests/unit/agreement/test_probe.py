"""The artificial replies, and their scores, held to the scores that the same replies get as those of a system."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.agreement.probe import (
    NO_OTHER_GOLD,
    NO_UTTERANCE,
    Padding,
    Probe,
    ProbeScore,
    ProbeSettings,
    make_probes,
    other_golds,
    probe,
    shuffle_words,
)
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import NO_GOLD, Problem, References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.cases import NO_REPLY
from refaug.scoring.evaluate import evaluate
from refaug.scoring.settings import ScoreSettings

MODEST = settings(max_examples=50, deadline=None)


def item(name: str, utterance: str | None, *golds: str | Reference, **replies: str) -> Item:
    references = tuple(one if isinstance(one, Reference) else Reference(text=one) for one in golds)
    turns = () if utterance is None else (utterance,)
    return Item(id=name, turns=turns, references=references, replies=replies)


ITEMS = [
    item("1", "Is the shop open?", "The shop is open until six.", "It is open.", a="It is open until six.", b="No."),
    item("2", None, "I need bread for the party.", "Bread, please.", a="Bread and cake for all."),
    item(
        "3", "Where is the cat?", "The cat sleeps on the roof.", "On the roof.", a="The cat is on the roof.", b="Yes."
    ),
    item("4", "Who won?", "We won, and it was close.", "We did.", a="They won the cup.", b="We won the cup."),
]


def rows(report, number: int = 0) -> dict[tuple[str, str], ProbeScore]:
    return {(row.kind.value, row.name): row for row in report.metrics[number].rows}


# ── the replies ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_probe_says_what_it_is_said_to_say() -> None:
    made = make_probes(ITEMS, ProbeSettings())
    assert list(made) == list(Probe)
    assert {kind: replies[0] for kind, replies in made.items() if kind not in (Probe.SHUFFLED, Probe.RANDOM)} == {
        Probe.GOLD: "The shop is open until six.",
        Probe.PARROT: "Is the shop open?",
        Probe.GENERIC: "I don't know.",
        # but for "the", which the gold has, every word stands in one other item: so by the alphabet
        Probe.PADDED: "The shop is open until six. and bread cat close did",
        Probe.REPEATED: "The shop is open until six. The shop is open until six.",
        Probe.SHORT: "The shop",
        Probe.EMPTY: "",
    }
    assert made[Probe.PARROT][1] is NO_UTTERANCE
    assert made[Probe.RANDOM][0] in [one.gold.text for one in ITEMS[1:] if one.gold]


def test_base_system_gives_the_replies_to_alter_and_its_gaps_stay_gaps() -> None:
    made = make_probes(ITEMS, ProbeSettings(base="b"))
    assert made[Probe.REPEATED] == ["No. No.", NO_REPLY, "Yes. Yes.", "We won the cup. We won the cup."]
    assert made[Probe.SHORT] == ["No.", NO_REPLY, "Yes.", "We won"]
    assert made[Probe.GOLD][0] == "The shop is open until six."


@MODEST
@given(st.lists(st.sampled_from(["a", "b", "c", "B."]), max_size=7), st.integers())
def test_shuffling_keeps_the_words_and_changes_their_order_where_it_can(words: list[str], seed: int) -> None:
    found = shuffle_words(words, random.Random(seed)).split()
    assert Counter(found) == Counter(words)
    if len(set(words)) > 1 and len(words) > 2:
        assert found != words


def test_same_seed_gives_the_same_replies_for_any_order_of_items() -> None:
    made, turned = make_probes(ITEMS, ProbeSettings()), make_probes(ITEMS[::-1], ProbeSettings())
    assert make_probes(ITEMS, ProbeSettings()) == made
    assert {kind: turned[kind][::-1] == made[kind] for kind in made if kind is not Probe.RANDOM} == {
        kind: True for kind in made if kind is not Probe.RANDOM
    }
    assert make_probes(ITEMS, ProbeSettings(seed=2))[Probe.SHUFFLED] != made[Probe.SHUFFLED]


def test_the_generic_reply_follows_the_language_unless_one_is_given() -> None:
    assert ProbeSettings(language="ja-JP").generic_reply == "わかりません。"
    assert ProbeSettings(language="fr").generic_reply == "I don't know."
    assert ProbeSettings(language="ja", generic="うん").generic_reply == "うん"


def test_japanese_words_are_those_of_the_tokenizer() -> None:
    items = [item("1", "今日は？", "今日は雨です。"), item("2", "明日は？", "明日は晴れです。")]
    made = make_probes(items, ProbeSettings(language="ja"))
    words = get_tokenizer("mecab").tokenize
    assert made[Probe.SHORT][0] == " ".join(words("今日は雨です。")[:2])
    shuffled_words = str(made[Probe.SHUFFLED][0]).split()
    assert (Counter(shuffled_words), shuffled_words != words("今日は雨です。")) == (
        Counter(words("今日は雨です。")),
        True,
    )


TEXTS = st.lists(st.sampled_from(["the", "A", "roof", "cat!", "is"]), max_size=5).map(" ".join)


@MODEST
@given(st.lists(st.lists(TEXTS, min_size=1, max_size=2), min_size=1, max_size=6), TEXTS, st.integers(1, 4))
def test_padding_equals_counting_the_other_items_alone(golds: list[list[str]], text: str, number: int) -> None:
    word = get_tokenizer("word")
    items = [item(str(place), None, *texts) for place, texts in enumerate(golds)]
    padding = Padding.of(items, word)
    for place in range(len(items)):
        others = [{one for gold in texts for one in word.tokenize(gold)} for n, texts in enumerate(golds) if n != place]
        counts = Counter(one for words in others for one in words if one != "!")
        allowed = [one for one in counts if one not in word.tokenize(text)]
        assert padding.words(place, text, number) == sorted(allowed, key=lambda one: (-counts[one], one))[:number]


def test_the_parrot_among_the_references_is_no_source_of_padding() -> None:
    parrot = Reference(text="zebra", source=Origin.PARROT, weight=0.5)
    items = [item("1", "x", "one"), item("2", "zebra", "two", parrot), item("3", "zebra", "three", parrot)]
    assert Padding.of(items, get_tokenizer("word")).words(0, "", 9) == ["three", "two"]


@MODEST
@given(st.lists(st.sampled_from(["a", "A!", "b", "c", "d", NO_GOLD]), max_size=9), st.integers(0, 99))
def test_other_gold_is_a_different_text_and_each_is_used_once_if_possible(
    golds: list[str | Problem], seed: int
) -> None:
    found = other_golds(golds, random.Random(seed))
    texts = [gold for gold in golds if isinstance(gold, str)]
    for gold, given_gold in zip(golds, found, strict=True):
        others = [text for text in texts if isinstance(gold, Problem) or normalise(text) != normalise(gold)]
        assert given_gold in others if others else given_gold is NO_OTHER_GOLD
    if len({normalise(text) for text in texts}) == len(golds) > 1:
        assert sorted(map(str, found)) == sorted(texts)


# ── the scores ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["bleu", "multi-bleu:n=4,smooth=exp", "rouge-l", "chrf", "ter"])
@pytest.mark.parametrize("base", [None, "a"])
def test_a_probe_scores_what_a_system_with_these_replies_scores(name: str, base: str | None) -> None:
    metric = build(name)
    chosen = ProbeSettings(base=base)
    found = rows(probe(ITEMS, [metric], chosen))
    made = make_probes(ITEMS, chosen)
    as_systems = [
        replace(
            one, replies={kind.value: text for kind, replies in made.items() if isinstance(text := replies[at], str)}
        )
        for at, one in enumerate(ITEMS)
    ]
    expected = evaluate(as_systems, [metric], ScoreSettings(draws=0)).scores[0].systems
    for kind in Probe:
        row, system = found["probe", kind.value], expected[kind.value]
        assert (row.corpus, row.mean) == (system.corpus, pytest.approx(system.mean, abs=1e-12))
        assert (row.scored, sum(row.unscored.values())) == system.counts()
    of_file = evaluate(ITEMS, [metric], ScoreSettings(draws=0)).scores[0].systems
    assert {name: found["system", name].corpus for name in of_file} == {k: v.corpus for k, v in of_file.items()}


def test_differences_are_over_the_items_where_both_have_a_score() -> None:
    metric = build("bleu")
    found = rows(probe(ITEMS, [metric], ProbeSettings(base="a")))
    parrot = found["probe", "parrot"]
    assert dict(parrot.unscored) == {"no_utterance": 1}
    with_utterance = [
        replace(one, replies={"a": one.replies["a"], "parrot": one.utterance})
        for one in ITEMS
        if one.utterance is not None
    ]
    systems = evaluate(with_utterance, [metric], ScoreSettings(draws=0)).scores[0].systems
    assert parrot.corpus_difference == pytest.approx(systems["parrot"].corpus - systems["a"].corpus, abs=1e-15)
    assert parrot.mean_difference == pytest.approx(systems["parrot"].mean - systems["a"].mean, abs=1e-15)
    assert (found["system", "a"].corpus_difference, found["system", "a"].is_base) == (0.0, True)
    assert parrot.mean_share == pytest.approx(systems["parrot"].mean / systems["a"].mean, abs=1e-12)
    scores = zip(systems["parrot"].values, systems["a"].values, strict=True)
    wins = [1.0 if one > other else 0.5 if one == other else 0.0 for one, other in scores]
    assert parrot.beats == pytest.approx(sum(wins) / len(wins), abs=1e-12)
    assert (found["system", "a"].mean_share, found["system", "a"].beats) == (1.0, 0.5)


def test_a_system_beats_the_base_where_its_score_is_better_which_may_be_lower() -> None:
    found = rows(probe(ITEMS, [build("ter")], ProbeSettings(base="a")))
    assert found["probe", "gold"].beats == 1.0
    assert found["probe", "repeated"].beats < 0.5


@pytest.mark.parametrize(("name", "best_to_worst"), [("bleu:n=1", -1), ("ter", 1)])
def test_ranks_go_from_best_to_worst_and_equal_rows_share_one(name: str, best_to_worst: int) -> None:
    found = probe(ITEMS, [build(name)], ProbeSettings()).metrics[0].rows
    differences = [row.corpus_difference for row in found]
    assert None not in differences
    order = sorted(best_to_worst * round(one, 12) for one in differences)
    assert [row.rank for row in found] == [1 + order.index(best_to_worst * round(one, 12)) for one in differences]


def test_shuffling_leaves_unigram_bleu_where_it_was_and_not_bigram_bleu() -> None:
    one, two = (rows(probe(ITEMS, [build(name)])) for name in ("multi-bleu:n=1", "multi-bleu:n=2"))
    assert one["probe", "shuffled"].corpus == one["probe", "gold"].corpus == 1.0
    assert (one["probe", "shuffled"].rank, one["probe", "gold"].rank) == (1, 1)
    assert two["probe", "shuffled"].corpus < 1.0


def test_replies_equal_to_a_reference_are_counted_as_each_metric_sees_them() -> None:
    weighted = Reference(text="Who won", source=Origin.PARROT, weight=-0.5)
    items = [
        item("1", "It is open", "Open.", Reference(text="It is open!", source=Origin.PARROT, weight=0.4), a="Open"),
        item("2", "Who won?", "We did.", weighted, a="who won"),
    ]
    metrics = [build(name) for name in ("bleu", "multi-bleu", "upsilon-bleu")]
    report = probe(items, metrics)
    assert [rows(report, n)["probe", "parrot"].in_references for n in range(3)] == [0, 0, 1]
    assert [rows(report, n)["probe", "gold"].in_references for n in range(3)] == [2, 2, 2]
    assert rows(report)["system", "a"].in_references == 1
    second = [item("1", "Fine.", "Good.", "Fine."), item("2", "x", "y")]
    both = probe(second, [build("rouge-l"), build("rouge-l:refs=gold")])
    assert [rows(both, n)["probe", "parrot"].in_references for n in range(2)] == [1, 0]


def test_metric_is_bound_to_the_items_own_references_for_every_probe() -> None:
    chosen = [ProbeSettings(), ProbeSettings(base="a", seed=5, padding=9, generic="The shop is on the roof.")]
    reports = [probe(items, [build("cider")], one) for one in chosen for items in (ITEMS, ITEMS[::-1])]
    own = [References.unweighted([one.text for one in each.references]) for each in ITEMS]
    expected = Signature.of(build("cider").for_set(own))
    assert "idf" in expected.details
    assert {report.metrics[0].signature.full for report in reports} == {expected.full}
    assert len({round(rows(report)["system", "a"].corpus, 9) for report in reports}) == 1


# ── without the gold ──────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_gold_all_is_scored_against_the_other_references() -> None:
    found = rows(probe(ITEMS, [build("multi-bleu")], ProbeSettings(without_gold=True)))
    others = [replace(one, references=one.references[1:]) for one in ITEMS]
    as_systems = [
        replace(one, replies={"gold": whole.gold.text, "a": one.replies["a"]})
        for one, whole in zip(others, ITEMS, strict=True)
        if whole.gold
    ]
    expected = evaluate(as_systems, [build("multi-bleu")], ScoreSettings(draws=0)).scores[0].systems
    assert found["probe", "gold"].corpus == expected["gold"].corpus < 1.0
    assert found["system", "a"].corpus == expected["a"].corpus
    assert found["probe", "gold"].in_references == 0


def test_without_gold_drops_equal_spellings_and_may_leave_items_unscored() -> None:
    twice = [item("1", "x", "It is open.", "it is open!", "Yes."), item("2", "y", "Good.", "good")]
    found = rows(probe(twice, [build("multi-bleu")], ProbeSettings(without_gold=True)))["probe", "gold"]
    assert (found.scored, dict(found.unscored), found.in_references) == (1, {"no_reference": 1}, 0)
    # against "Yes.": one full stop of four tokens, and half a pair of three
    assert found.corpus == pytest.approx((1 / 4 * 0.5 / 3) ** 0.5)


def test_scores_without_the_gold_have_a_signature_of_their_own() -> None:
    usual, without = (
        probe(ITEMS, [build("multi-bleu")], ProbeSettings(without_gold=flag)).metrics[0].signature
        for flag in (False, True)
    )
    assert without.details == {**usual.details, "left-out": "gold"}
    assert without.settings == usual.settings
    assert without.short != usual.short


def test_without_the_gold_bleu_takes_the_next_one() -> None:
    found = rows(probe(ITEMS, [build("bleu")], ProbeSettings(without_gold=True)))
    next_gold = [replace(one, references=one.references[1:2]) for one in ITEMS]
    expected = evaluate(next_gold, [build("bleu")], ScoreSettings(draws=0)).scores[0].systems["a"]
    assert found["system", "a"].corpus == expected.corpus


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_base_is_refused_with_the_names_there_are() -> None:
    with refusing(Usage) as refused:
        probe(ITEMS, [build("bleu")], ProbeSettings(base="c"))
    assert refused.value.remedy == "one of: a, b"


def test_without_any_gold_a_system_must_be_named() -> None:
    rated = Reference(text="Yes.", source=Origin.SUPPLIED, weight=0.5)
    items = [item("1", "Is it open?", rated, a="Yes."), item("2", "Is it?", rated, a="Yes.")]
    with refusing(BadInput):
        probe(items, [build("delta-bleu")])
    found = rows(probe(items, [build("delta-bleu")], ProbeSettings(base="a")))
    assert found["probe", "repeated"].scored == 2
    assert dict(found["probe", "gold"].unscored) == {"no_gold": 2}
    assert found["probe", "gold"].as_json()["corpus"] is None
    assert found["probe", "gold"].rank is None


def test_leaving_out_the_only_reference_is_refused() -> None:
    with refusing(BadInput):
        probe([item("1", "x", "Yes.")], [build("bleu")], ProbeSettings(without_gold=True))


@pytest.mark.parametrize("padding", [0, 1_001])
def test_a_padding_that_is_none_or_endless_is_refused(padding: int) -> None:
    with refusing(Usage):
        ProbeSettings(padding=padding)


def test_items_without_replies_can_be_probed_too() -> None:
    items = [replace(one, replies={}) for one in ITEMS]
    report = probe(items, [build("bleu")])
    assert [name for kind, name in rows(report) if kind == "system"] == []
    assert report.as_json()["base"] == {"kind": "probe", "name": "gold"}
