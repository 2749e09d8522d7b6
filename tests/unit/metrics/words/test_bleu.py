"""Weighted BLEU: sacrebleu where every weight is 1, plain Python where not, worked examples, laws and bad input."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_bleu import PENALTIES, SMOOTHINGS, VARIANTS, PlainBleu, PlainReference, PlainSums, add
from refusals import refusing
from sacrebleu.metrics.bleu import BLEU
from safeguards import mostly_slow

from refaug.core.errors import Usage
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.specification import build
from refaug.metrics.words.bleu import Bleu

LEVELS = (Level.REPLY, Level.CORPUS)
SMALL_WORDS = list("abcde")


def bleu(**chosen: Any) -> Bleu:
    """A delta-bleu with these parameters."""
    given_ = ",".join(f"{key}={value}" for key, value in chosen.items())
    made = build(f"delta-bleu:{given_}" if given_ else "delta-bleu")
    assert isinstance(made, Bleu)
    return made


def rows_of(metric: Bleu, replies: Sequence[str], references: Sequence[References]) -> Floats:
    """Statistics of one reply an item."""
    every = np.arange(len(replies))
    return metric.statistics(replies, metric.prepare(references), every, every)


def row_of(metric: Bleu, reply: str, *references: tuple[str, float], gold: int = 0) -> Floats:
    """Statistics of one reply."""
    texts, weights = zip(*references, strict=True)
    row: Floats = rows_of(metric, [reply], [References(texts, weights, gold)])[0]
    return row


def score_of(metric: Bleu, reply: str, *references: tuple[str, float], gold: int = 0) -> float:
    """The score of one reply."""
    return float(metric.values(row_of(metric, reply, *references, gold=gold), Level.REPLY))


# ── with every weight at 1 it is sacrebleu's ──────────────────────────────────────────────────────────────────────

ENGLISH = (
    "I", "i", "don't", "Don't", "like", "like,", "the", "The", "cat", "cats", ".", "!", "?", "3.50", "$5", "1,000",
    "(no)", '"yes"', "well-known", "U.S.", "x&amp;y", "café",
)  # fmt: skip
JAPANESE = ("私は", "今日", "東京へ", "行きました", "。", "猫が", "好きです", "明日", "雨", "、", "コーヒー", "ok")
PLAIN_WORDS = ("i", "you", "like", "the", "cat", "dog", "and", "so", "what", "now")
SMOOTHED = {  # ours → sacrebleu's
    "none": ("none", None),
    "floor": ("floor", None),
    "floor[0.4]": ("floor", 0.4),
    "add-k": ("add-k", None),
    "add-k[0.5]": ("add-k", 0.5),
    "add-k[3]": ("add-k", 3),
    "exp": ("exp", None),
}


@dataclass(frozen=True, eq=False)
class SharedTokenizer:
    """A tokenizer that sacrebleu has as well, the words of texts for it, and what stands between them."""

    ours: str
    case: str
    theirs: str
    words: Sequence[str]
    between: str = " "


TOKENIZERS = (
    SharedTokenizer("13a", "mixed", "13a", ENGLISH),
    SharedTokenizer("13a", "lc", "13a", ENGLISH),
    SharedTokenizer("intl", "mixed", "intl", ENGLISH),
    SharedTokenizer("char", "lc", "char", PLAIN_WORDS[:4]),
    SharedTokenizer("word", "lc", "none", PLAIN_WORDS),
    SharedTokenizer("intl", "lc", "intl", ENGLISH),
    # sacrebleu's ja-mecab wants a binding that is not installed here; its dictionary is, so it is handed the tokens.
    SharedTokenizer("mecab", "mixed", "none", JAPANESE, ""),
    SharedTokenizer("char", "mixed", "char", JAPANESE[:6], ""),
)


def random_text(rng: random.Random, words: Sequence[str], between: str, least: int = 0) -> str:
    """Mostly short, so that every order is sometimes without n-grams, sometimes without a match, sometimes matched."""
    return between.join(rng.choices(words, k=rng.choice([least, 1, 2, 3, 5, 9, 14])))


def random_references(rng: random.Random, shared: SharedTokenizer) -> list[str]:
    """One to twenty, the first with tokens, some of the others empty."""
    count = rng.choice([1, 1, 2, 3, 4, 4, 7, 20])
    texts = [random_text(rng, shared.words, shared.between, least=1)]
    return texts + [random_text(rng, shared.words, shared.between) for _ in range(count - 1)]


def as_theirs(shared: SharedTokenizer, texts: Sequence[str]) -> list[str]:
    """Texts as sacrebleu takes them with its tokenizer of the same name, or with none."""
    if shared.ours != "mecab":
        return list(texts)
    return [" ".join(tokens) for tokens in get_tokenizer("mecab").tokenize_batch(texts)]


def configurations() -> list[tuple[str, int, str, SharedTokenizer]]:
    """Each smoothing with each order, effective or not, and the tokenizers in turn."""
    every = itertools.product(SMOOTHED, (1, 2, 3, 4), ("yes", "no"))
    return [(*one, TOKENIZERS[(number * 3 + number // 8) % 8]) for number, one in enumerate(every)]


@pytest.mark.parametrize("smooth", SMOOTHED)
def test_with_every_weight_at_one_it_is_sacrebleu(smooth: str) -> None:
    rng = random.Random(f"sacrebleu {smooth}")
    for _, n, effective, shared in [one for one in configurations() if one[0] == smooth]:
        method, value = SMOOTHED[smooth]
        theirs = BLEU(
            lowercase=shared.case == "lc",
            tokenize=shared.theirs,
            smooth_method=method,
            smooth_value=value,
            max_ngram_order=n,
            effective_order=effective == "yes",
            force=True,
        )
        ours = bleu(n=n, smooth=smooth, eff=effective, tok=shared.ours, case=shared.case)
        replies = [random_text(rng, shared.words, shared.between) for _ in range(80)]
        references = [random_references(rng, shared) for _ in replies]
        shown = as_theirs(shared, replies)
        offered = [as_theirs(shared, texts) for texts in references]
        rows = rows_of(ours, replies, [References.unweighted(texts) for texts in references])

        alone = [theirs.sentence_score(*pair).score for pair in zip(shown, offered, strict=True)]
        streams = list(itertools.zip_longest(*offered))  # None: there is no such reference
        together = theirs.corpus_score(shown, streams).score

        assert ours.values(rows, Level.REPLY) == pytest.approx(np.array(alone) / 100, abs=1e-9)
        assert ours.values(rows.sum(axis=0), Level.CORPUS) == pytest.approx(together / 100, abs=1e-9)


def test_the_comparison_with_sacrebleu_meets_every_pair_of_settings() -> None:
    met = configurations()
    assert {(one[0], one[3]) for one in met} == set(itertools.product(SMOOTHED, TOKENIZERS))
    assert {(one[1], one[2]) for one in met} == set(itertools.product((1, 2, 3, 4), ("yes", "no")))
    assert {(one[1], one[3].ours) for one in met} >= {(n, one.ours) for n in (1, 2, 3, 4) for one in TOKENIZERS}


def test_an_empty_reference_is_one_of_no_length_as_sacrebleu_has_it() -> None:
    # A reply of one token is closer to no token at all than to five, so that nothing penalises it.
    theirs = BLEU(tokenize="none", effective_order=True, max_ngram_order=1, smooth_method="none")
    ours = bleu(n=1, smooth="none")
    gold = "a b c d e"
    assert theirs.sentence_score("a", [gold, ""]).score / 100 == pytest.approx(1)
    assert score_of(ours, "a", (gold, 1), ("", 1)) == pytest.approx(1, abs=1e-12)
    assert theirs.sentence_score("a", [gold]).score / 100 == pytest.approx(math.exp(-4))
    assert score_of(ours, "a", (gold, 1)) == pytest.approx(math.exp(-4), abs=1e-12)


def test_automatic_effective_order_is_on_for_replies_and_off_for_a_corpus() -> None:
    rng = random.Random("effective")
    replies = [" ".join(rng.choices(SMALL_WORDS, k=rng.randint(1, 3))) for _ in range(40)]
    references = [References.unweighted([" ".join(rng.choices(SMALL_WORDS, k=3))]) for _ in replies]
    auto, yes, no = (bleu(n=4, smooth="floor", eff=eff) for eff in ("auto", "yes", "no"))
    rows = rows_of(auto, replies, references)
    assert auto.values(rows, Level.REPLY).tolist() == yes.values(rows, Level.REPLY).tolist()
    assert auto.values(rows, Level.REPLY).tolist() != no.values(rows, Level.REPLY).tolist()
    total = rows.sum(axis=0)
    assert auto.values(total, Level.CORPUS) == no.values(total, Level.CORPUS) == 0  # no reply has four words
    assert yes.values(total, Level.CORPUS) > 0


@pytest.mark.parametrize("name", ["bleu", "multi-bleu", "upsilon-bleu"])
def test_the_other_members_of_the_family_compute_the_same(name: str) -> None:
    rng = random.Random(name)
    replies = [random_text(rng, PLAIN_WORDS, " ") for _ in range(30)]
    references = [References.unweighted([random_text(rng, PLAIN_WORDS, " ", least=1)]) for _ in replies]
    same, delta = build(f"{name}:n=3,smooth=exp"), bleu(n=3, smooth="exp")
    assert isinstance(same, Bleu)
    assert rows_of(same, replies, references).tolist() == rows_of(delta, replies, references).tolist()
    rows = rows_of(delta, replies, references)
    for level in LEVELS:
        assert same.values(rows, level).tolist() == delta.values(rows, level).tolist()


# ── with other weights it is what plain Python gives ──────────────────────────────────────────────────────────────

VALUES = {"none": (0.0,), "exp": (0.0,), "floor": (0.1, 0.7), "epsilon": (1e-15, 1e-9), "add-k": (1.0, 0.3)}


@dataclass(frozen=True)
class RandomItem:
    """A reply with weighted references, as tokens; the first reference is the gold."""

    reply: list[str]
    references: list[PlainReference]


def random_item(rng: random.Random) -> RandomItem:
    """Weights in [−1, 1], half of the time on a grid on which sums are exact and often cancel; one is positive."""

    def weight() -> float:
        return rng.randint(-8, 8) / 8 if on_grid else rng.uniform(-1, 1)

    on_grid = rng.random() < 0.5
    texts = [rng.choices(SMALL_WORDS, k=rng.choice([0, 1, 2, 4, 7])) for _ in range(rng.choice([1, 2, 3, 5, 8]))]
    texts[0] = texts[0] or ["a"]
    worth = [weight() for _ in texts]
    if max(worth) <= 0:
        worth[0] = rng.choice([0.05, 0.5, 1.0])
    references = [
        PlainReference(tokens=text, weight=one, is_gold=place == 0)
        for place, (text, one) in enumerate(zip(texts, worth, strict=True))
    ]
    return RandomItem(rng.choices([*SMALL_WORDS, "z"], k=rng.choice([0, 1, 2, 4, 6, 9])), references)


def rows_of_items(metric: Bleu, items: Sequence[RandomItem]) -> Floats:
    """Statistics of each item's reply."""
    references = [one for item in items for one in item.references]
    prepared = metric.prepare_tokens(
        [one.tokens for one in references],
        [len(item.references) for item in items],
        np.arange(len(references)),
        np.array([one.weight for one in references]),
        np.zeros(len(items), np.int64),
    )
    every = np.arange(len(items))
    return metric.statistics_of_tokens([item.reply for item in items], prepared, every, every)


def as_row(sums: PlainSums) -> list[float]:
    """The oracle's sums in the order of the columns."""
    return [*sums.credit, *sums.possible, *sums.totals, sums.length, sums.reference_length]


@pytest.mark.parametrize("variant", mostly_slow(VARIANTS, quick=[0, 2]))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_with_any_weights_it_is_what_plain_python_gives(variant: str, penalty: str) -> None:
    rng = random.Random(f"{variant} {penalty}")
    smoothings = [("none", 0.0)] if variant == "tsuta20" else [(m, v) for m in SMOOTHINGS for v in VALUES[m]]
    effective = ("no",) if variant == "tsuta20" else ("auto", "yes", "no")
    scored = []
    for (smooth, value), eff, n in itertools.product(smoothings, effective, (1, 2, 3, 4)):
        named = f"{smooth}[{value}]" if value else smooth
        ours = bleu(n=n, variant=variant, smooth=named, bp=penalty, eff=eff)
        plain = PlainBleu(n=n, variant=variant, smooth=smooth, value=value, penalty=penalty, eff=eff)
        items = [random_item(rng) for _ in range(30 if variant == "tsuta20" else 6)]
        rows = rows_of_items(ours, items)
        sums = [plain.sums(item.reply, item.references) for item in items]

        assert rows == pytest.approx(np.array([as_row(one) for one in sums]), rel=1e-12, abs=1e-14)
        expected = [plain.score(one, "reply") for one in sums]
        assert ours.values(rows, Level.REPLY) == pytest.approx(np.array(expected), rel=1e-12, abs=0)
        corpus = plain.score(add(sums), "corpus")
        assert ours.values(rows.sum(axis=0), Level.CORPUS) == pytest.approx(corpus, rel=1e-12, abs=0)
        for row, one in zip(rows, sums, strict=True):
            assert_same_parts(ours.parts(row, Level.REPLY), plain, one)
        scored += [*expected, corpus]
    assert sum(score > 0 for score in scored) > len(scored) / 10  # neither all zeros …
    assert sum(score == 0 for score in scored) > len(scored) / 50  # … nor none


def assert_same_parts(parts: Mapping[str, Any], plain: PlainBleu, sums: PlainSums) -> None:
    """Precisions and penalty are the oracle's; a score of 0 for want of any credit shows precisions of 0."""
    assert parts["penalty"] == pytest.approx(plain.brevity(sums), rel=1e-12)
    credited = any(one > 0 for one in sums.credit)
    expected = [one or 0.0 for one in plain.precisions(sums)] if credited else [0.0] * plain.n
    assert parts["precisions"] == pytest.approx(expected, rel=1e-12, abs=0)
    assert parts["ngrams"] == list(sums.totals)
    assert (parts["reply_length"], parts["reference_length"]) == (sums.length, pytest.approx(sums.reference_length))


def test_the_system_level_scores_replies_as_the_reply_level_does() -> None:
    rng = random.Random("system")
    metric = bleu(n=4, smooth="floor")
    rows = rows_of_items(metric, [random_item(rng) for _ in range(50)])
    assert metric.values(rows, Level.SYSTEM).tolist() == metric.values(rows, Level.REPLY).tolist()
    assert metric.values(rows, Level.SYSTEM).tolist() != metric.values(rows, Level.CORPUS).tolist()


# ── where variants, penalties and smoothings differ ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other", "reply", "references", "expected"),
    [
        # "a a": half of its two a's are matched at weight 1, or both at weight ½: credit max(½·2, 1·1) = 1 of 2. Apart,
        # the best count, 2, meets the best weight, 1: credit 2 of 2.
        ("galley15", "galley-fork", "a a", [("a a", 0.5), ("a", 1.0)], (0.5, 1.0)),
        ("galley15", "sacrebleu-raw", "a a", [("a a", 0.5), ("a", 1.0)], (0.5, 1.0)),
        ("tsuta20", "galley-fork", "a a", [("a a", 0.5), ("a", 1.0)], (0.5, 1.0)),
        ("tsuta20", "sacrebleu-raw", "a a", [("a a", 0.5), ("a", 1.0)], (0.5, 1.0)),
        # "a" is worth 1 and "b", found only where it is bad, −½: ½ of 2. With b's credit floored at 0, 1 of 2.
        ("galley15", "tsuta20", "a b", [("a", 1.0), ("b", -0.5)], (0.25, 0.5)),
        ("galley-fork", "tsuta20", "a b", [("a", 1.0), ("b", -0.5)], (0.25, 0.5)),
    ],
)
def test_variants_differ_where_their_formulas_do(
    one: str, other: str, reply: str, references: list[tuple[str, float]], expected: tuple[float, float]
) -> None:
    found = [score_of(bleu(n=1, variant=name, smooth="none", bp="none"), reply, *references) for name in (one, other)]
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_forks_smoothing_differs_by_the_unit_it_counts_in() -> None:
    # The one reference is worth ½. p₁ = ½·1 / (½·2) = ½ in both. "a b" is not in it. Counted in matches, add-1 gives
    # p₂ = (0 + 1) / (1 + 1) = ½; counted in weights, (0 + 1) / (½·1 + 1) = ⅔.
    scores = {
        variant: score_of(bleu(variant=variant, smooth="add-k", bp="none"), "a b", ("a c", 0.5))
        for variant in VARIANTS[:2]
    }
    assert scores == {"galley15": pytest.approx(0.5, rel=1e-12), "galley-fork": pytest.approx(0.5, rel=1e-12)}
    raw = score_of(bleu(variant="sacrebleu-raw", smooth="add-k", bp="none"), "a b", ("a c", 0.5))
    assert raw == pytest.approx(math.sqrt(1 / 2 * 2 / 3), rel=1e-12)


@pytest.mark.parametrize("pair", list(itertools.combinations(VARIANTS, 2)))
def test_each_two_variants_differ_somewhere(pair: tuple[str, str]) -> None:
    cases = [
        ("none", "a a", [("a a", 0.5), ("a", 1.0)]),
        ("none", "a b", [("a", 1.0), ("b", -0.5)]),
        ("add-k", "a b", [("a c", 0.5)]),
    ]
    differing = 0
    for smooth, reply, references in cases:
        one, other = (
            bleu(variant=variant, smooth="none" if variant == "tsuta20" else smooth, bp="none") for variant in pair
        )
        differing += score_of(one, reply, *references) != score_of(other, reply, *references)
    assert differing


PENALTY_LENGTHS = {
    # The reply has 4 tokens; its references 8 (the gold, worth 1), 5 (worth −½) and 6 (worth ½).
    "closest": 5,
    "closest-positive": 6,
    "average": (8 + 5 + 6) / 3,
    "gold": 8,
    "none": 4,  # as if the reference were as long as the reply
}


@pytest.mark.parametrize("pair", list(itertools.combinations(PENALTIES, 2)))
def test_each_two_penalties_differ_by_the_length_they_hold_a_reply_to(pair: tuple[str, str]) -> None:
    references = [("a b c d e f g h", 1.0), ("a x x x x", -0.5), ("a x x x x x", 0.5)]
    scores = [score_of(bleu(n=1, smooth="none", bp=bp), "a b c d", *references) for bp in pair]
    assert scores == pytest.approx([math.exp(1 - PENALTY_LENGTHS[bp] / 4) for bp in pair], rel=1e-12)
    assert scores[0] != scores[1]


SMOOTHED_BY_HAND = {
    # "a b c" against "c b a": p₁ = 3/3, and none of two bigrams matches, so the score is √p₂.
    "none": 0.0,
    "floor": 0.1 / 2,
    "add-k": (0 + 1) / (2 + 1),
    "exp": 1 / (2 * 2),
    "epsilon": 1e-15 / 2,
}


@pytest.mark.parametrize("pair", list(itertools.combinations(SMOOTHED_BY_HAND, 2)))
def test_each_two_smoothings_differ_by_what_no_match_counts(pair: tuple[str, str]) -> None:
    scores = [score_of(bleu(smooth=smooth), "a b c", ("c b a", 1.0)) for smooth in pair]
    assert scores == pytest.approx([math.sqrt(SMOOTHED_BY_HAND[smooth]) for smooth in pair], rel=1e-12)
    assert scores[0] != scores[1]


def test_a_match_of_little_weight_is_never_worth_less_than_no_match() -> None:
    # The gold is worth 1, what matches 0.05. In units of the item's weight the bigram is 0.05 of a match: less than
    # the floor's 0.1 of one, and less than the ½ that exp gives to none. Only the fork lets it fall below.
    references = [("x y", 1.0), ("b c", 0.05), ("a", 1.0), ("c", 1.0)]  # "a b c": p₁ = (1 + 0.05 + 1) / 3
    first = 2.05 / 3
    for smooth, least in (("floor", 0.1), ("exp", 0.5), ("epsilon", 0.05)):
        expected = math.sqrt(first * max(0.05, least) / 2)
        assert score_of(bleu(smooth=smooth, bp="none"), "a b c", *references) == pytest.approx(expected, rel=1e-12)
        raw = score_of(bleu(smooth=smooth, bp="none", variant="sacrebleu-raw"), "a b c", *references)
        assert raw == pytest.approx(math.sqrt(first * 0.05 / 2), rel=1e-12)


def test_exp_halves_again_for_every_order_without_a_match() -> None:
    # "a b c" against "a", "b" and "c", 1 each: p₁ = 1, then 1/(2·2) and 1/(4·1).
    scored = bleu(n=3, smooth="exp").parts(row_of(bleu(n=3), "a b c", ("c b a", 1.0)), Level.REPLY)
    assert scored["precisions"] == [1.0, 1 / 4, 1 / 4]


def test_add_k_counts_an_order_without_ngrams_as_sacrebleu_does() -> None:
    # One word has no bigram: (0 + 1) / (0 + 1) = 1, whatever the effective order.
    for eff in ("yes", "no"):
        assert score_of(bleu(smooth="add-k", eff=eff), "a", ("a", 1.0)) == 1
    assert score_of(bleu(smooth="none", eff="no"), "a", ("a", 1.0)) == 0
    assert score_of(bleu(smooth="none", eff="yes"), "a", ("a", 1.0)) == 1


def test_negative_credit_is_carried_into_the_corpus_and_floored_there_once() -> None:
    # Reply 1 has credit 2 of 2, reply 2 −1 of 1: together 1 of 3. Floored one by one it would be 2 of 3.
    metric = bleu(n=1, smooth="none", bp="none")
    items = [References(("a b",), (1.0,)), References(("y", "z"), (1.0, -1.0))]
    rows = rows_of(metric, ["a b", "z"], items)
    assert rows[:, 0].tolist() == [2, -1]
    assert metric.values(rows, Level.REPLY).tolist() == [1, 0]
    assert metric.values(rows.sum(axis=0), Level.CORPUS) == pytest.approx(1 / 3, rel=1e-12)


@pytest.mark.parametrize(("reply", "closest"), [("a b c d", 3), ("a b c d e", 5), ("a", 3), ("a b c d e f g", 5)])
def test_of_two_references_equally_close_the_shorter_one_counts(reply: str, closest: int) -> None:
    row = row_of(bleu(), reply, ("a b c d e", 1.0), ("a b c", 1.0))
    assert row[-1] == closest


def test_the_average_length_is_taken_over_all_references() -> None:
    row = row_of(bleu(bp="average"), "a", ("a b", 1.0), ("a b c d e", 0.5), ("a b c", -1.0), ("", 0.0))
    assert row[-1] == 2.5


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────────

TOKENS = st.lists(st.sampled_from("abc"), max_size=6)
SPOKEN = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)
WEIGHTS = st.one_of(st.floats(-1, 1), st.integers(-8, 8).map(lambda eighths: eighths / 8))
POSITIVE = st.floats(0.001, 1)


@st.composite
def items(draw: st.DrawFn) -> RandomItem:
    """An item with at least one reference of positive weight, and that one is the gold."""
    gold = PlainReference(tokens=draw(SPOKEN), weight=draw(POSITIVE), is_gold=True)
    others = draw(st.lists(st.builds(PlainReference, tokens=TOKENS, weight=WEIGHTS), max_size=4))
    return RandomItem(draw(TOKENS), [gold, *others])


ORDERS = st.integers(1, 4)
SMOOTH = st.sampled_from(["none", "floor", "floor[1]", "add-k", "add-k[0.2]", "exp", "epsilon"])
PENALTY = st.sampled_from(PENALTIES)
EFFECTIVE = st.sampled_from(["auto", "yes", "no"])


@st.composite
def metrics(draw: st.DrawFn, *, variants: Sequence[str] = VARIANTS[:3], penalties: Sequence[str] = PENALTIES) -> Bleu:
    """Any settings; sacrebleu-raw, which keeps no law, only where it is asked for."""
    variant = draw(st.sampled_from(variants))
    chosen: dict[str, Any] = {"n": draw(ORDERS), "variant": variant, "bp": draw(st.sampled_from(penalties))}
    return bleu(**chosen) if variant == "tsuta20" else bleu(**chosen, smooth=draw(SMOOTH), eff=draw(EFFECTIVE))


def scores_and_precisions(metric: Bleu, items: Sequence[RandomItem]) -> list[tuple[float, list[float]]]:
    """Of every reply, and of all of them together."""
    rows = rows_of_items(metric, items)
    each = [(row, Level.REPLY) for row in rows]
    return [
        (float(metric.values(row, level)), metric.parts(row, level)["precisions"])
        for row, level in [*each, (rows.sum(axis=0), Level.CORPUS)]
    ]


def assert_none_fell(before: Sequence[float], after: Sequence[float]) -> None:
    """Up to the last digits: sums are taken in floating point."""
    for lower, higher in zip(before, after, strict=True):
        assert higher >= lower * (1 - 1e-12)


@given(metrics(), st.lists(items(), min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_scores_and_precisions_are_shares(metric: Bleu, several: list[RandomItem]) -> None:
    for score, precisions in scores_and_precisions(metric, several):
        assert 0 <= score <= 1
        assert all(0 <= one <= 1 for one in precisions)


def test_a_perfect_reply_scores_one_whatever_the_weight() -> None:
    # Sums of 0.91 over and over are not products of 0.91: the quotient may come out a last digit above 1.
    for hundredths, length in itertools.product(range(1, 101, 3), (1, 3, 10, 24)):
        tokens = [f"t{number}" for number in range(length)]
        reference = PlainReference(tokens=tokens, weight=hundredths / 100, is_gold=True)
        for score, precisions in scores_and_precisions(bleu(smooth="add-k"), [RandomItem(tokens, [reference])]):
            assert score == pytest.approx(1, rel=1e-12)
            assert score <= 1
            assert max(precisions) <= 1


@given(
    metrics(penalties=[one for one in PENALTIES if one != "closest-positive"]),
    st.lists(items(), min_size=1, max_size=3),
    st.data(),
)
@settings(max_examples=50, deadline=None)
def test_raising_a_weight_below_the_largest_never_lowers_a_score(
    metric: Bleu, several: list[RandomItem], data: st.DataObject
) -> None:
    references = several[0].references
    highest = max(one.weight for one in references)
    place = data.draw(st.integers(0, len(references) - 1))
    raised = references[place]
    assume(raised.weight < highest)
    higher = data.draw(st.floats(raised.weight, highest))
    changed = [*references[:place], PlainReference(tokens=raised.tokens, weight=higher), *references[place + 1 :]]
    before = scores_and_precisions(metric, several)
    after = scores_and_precisions(metric, [RandomItem(several[0].reply, changed), *several[1:]])
    for (low, low_precisions), (high, high_precisions) in zip(before, after, strict=True):
        assert_none_fell([low], [high])
        if low > 0:  # a score of 0 for want of credit shows no smoothed precisions
            assert_none_fell(low_precisions, high_precisions)


@given(metrics(), st.lists(items(), min_size=1, max_size=3), st.data())
@settings(max_examples=50, deadline=None)
def test_a_further_reference_of_positive_weight_never_lowers_a_precision(
    metric: Bleu, several: list[RandomItem], data: st.DataObject
) -> None:
    references = several[0].references
    highest = max(one.weight for one in references)
    weight = data.draw(st.floats(0, highest, exclude_min=True))
    further = [*references, PlainReference(tokens=data.draw(SPOKEN), weight=weight)]
    before = scores_and_precisions(metric, several)
    after = scores_and_precisions(metric, [RandomItem(several[0].reply, further), *several[1:]])
    for (low, low_precisions), (high, high_precisions) in zip(before, after, strict=True):
        if low > 0:
            assert_none_fell(low_precisions, high_precisions)
        if metric.penalty == "none":
            assert_none_fell([low], [high])


@given(metrics(variants=VARIANTS), st.lists(items(), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_without_credit_the_score_is_zero_whatever_the_smoothing(metric: Bleu, several: list[RandomItem]) -> None:
    rows = rows_of_items(metric, several)
    rows[:, : metric.order] = np.minimum(rows[:, : metric.order], 0)
    assert not metric.values(rows, Level.REPLY).any()
    assert metric.values(rows.sum(axis=0), Level.CORPUS) == 0


@given(metrics(variants=VARIANTS), items(), st.data())
@settings(max_examples=50, deadline=None)
def test_the_order_of_references_never_matters(metric: Bleu, item: RandomItem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(item.references))))
    texts = [" ".join(one.tokens) for one in item.references]
    weights = [one.weight for one in item.references]
    given_ = References(tuple(texts), tuple(weights), 0)
    turned = References(tuple(texts[i] for i in order), tuple(weights[i] for i in order), order.index(0))
    reply = " ".join(item.reply)
    one, other = rows_of(metric, [reply], [given_]), rows_of(metric, [reply], [turned])
    assert one.tobytes() == other.tobytes()


@given(metrics(variants=VARIANTS), st.lists(items(), min_size=1, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_rows_are_the_same_alone_in_any_batch_and_in_any_order(
    metric: Bleu, several: list[RandomItem], data: st.DataObject
) -> None:
    replies = [" ".join(item.reply) for item in several]
    references = [
        References(tuple(" ".join(one.tokens) for one in item.references), tuple(one.weight for one in item.references))
        for item in several
    ]
    prepared = metric.prepare(references)
    pairs = st.tuples(*[st.integers(0, len(several) - 1)] * 2)
    wanted = data.draw(st.lists(pairs, min_size=1, max_size=12))
    reply, item = np.array(wanted).T
    batch = metric.statistics(replies, prepared, reply, item)
    scores = metric.values(batch, Level.REPLY)
    for row, score, (which, of) in zip(batch, scores, wanted, strict=True):
        alone = rows_of(metric, [replies[which]], [references[of]])
        assert alone[0].tobytes() == row.tobytes()
        assert metric.values(alone[0], Level.REPLY).tobytes() == score.tobytes()


@given(metrics(variants=VARIANTS), st.lists(items(), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_a_corpus_is_the_sum_of_its_rows(metric: Bleu, several: list[RandomItem]) -> None:
    method, _, value = metric.settings["smooth"].rstrip("]").partition("[")
    plain = PlainBleu(
        n=metric.order,
        variant=metric.variant,
        smooth=method,
        value=float(value or 0),
        penalty=metric.penalty,
        eff=metric.effective,
    )
    rows = rows_of_items(metric, several)
    sums = add([plain.sums(item.reply, item.references) for item in several])
    assert rows.sum(axis=0) == pytest.approx(np.array(as_row(sums)), rel=1e-12, abs=1e-14)
    assert (
        metric.value_of_sums(np.stack([rows.sum(axis=0)] * 2)).tolist()
        == [float(metric.values(rows.sum(axis=0), Level.CORPUS))] * 2
    )


# ── bad and unusual input ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("reply", ["", "  \n\t", "\u200b"])
def test_an_empty_reply_scores_zero(variant: str, reply: str) -> None:
    metric = bleu(variant=variant)
    row = row_of(metric, reply, ("hello there", 1.0), ("yes", 0.5))
    assert row.tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert metric.values(row, Level.REPLY) == metric.values(row, Level.CORPUS) == 0


@pytest.mark.parametrize("tokenizer", ["word", "13a", "intl", "char", "mecab"])
@pytest.mark.parametrize(
    "text",
    [
        "?!...",
        "שלום, מה שלומך?",
        "مرحبا كيف الحال",
        "e\u0301te\u0301 nai\u0308ve",
        "👩‍👩‍👧 ❤️",
        "が\u3099ギ",
        "\x00\x07 a",
        "\u202eabc\u202c",
    ],
)
def test_any_script_matches_itself_and_nothing_else(tokenizer: str, text: str) -> None:
    metric = bleu(tok=tokenizer)
    assert score_of(metric, text, (text, 1.0)) == pytest.approx(1, rel=1e-12)
    assert score_of(metric, text, ("ξ", 1.0)) == 0


def test_reply_of_100000_tokens_is_scored_against_seventeen_references() -> None:
    rng = random.Random("long")
    vocabulary = [f"w{number}" for number in range(5_000)]
    reply = rng.choices(vocabulary, k=100_000)
    references = [
        PlainReference(tokens=rng.choices(vocabulary, k=rng.choice([8, 15, 4_000])), weight=weight, is_gold=weight == 1)
        for weight in [1.0, *(rng.uniform(-1, 1) for _ in range(16))]
    ]
    for variant in ("galley15", "galley-fork"):
        metric, plain = bleu(variant=variant, bp="average"), PlainBleu(variant=variant, penalty="average")
        rows = rows_of_items(metric, [RandomItem(reply, references)])
        sums = plain.sums(reply, references)
        assert rows[0] == pytest.approx(np.array(as_row(sums)), rel=1e-12)
        assert metric.values(rows, Level.REPLY)[0] == pytest.approx(plain.score(sums, "reply"), rel=1e-12)


def test_a_hundred_thousand_identical_tokens_are_clipped() -> None:
    row = row_of(bleu(n=4), "a " * 100_000, ("a " * 50_000, 1.0), ("a", 0.5))
    assert row[:4].tolist() == [50_000, 49_999, 49_998, 49_997]
    assert row[8:].tolist() == [100_000, 99_999, 99_998, 99_997, 100_000, 50_000]


@pytest.mark.parametrize(
    ("code", "penalty", "references"),
    [
        ("no_reference", "closest", References((), (), -1)),
        ("no_reference", "closest", References(("", " \n"), (1.0, 1.0))),
        ("no_reference", "gold", References(("",), (1.0,))),
        ("no_positive_weight", "closest", References(("a", "b"), (0.0, -1.0))),
        ("no_positive_weight", "gold", References(("a", "b"), (-0.5, 0.0), -1)),
        ("no_gold", "gold", References(("a", "b"), (1.0, 0.5), -1)),
    ],
)
def test_unscorable_item_is_a_problem_and_the_others_are_scored(
    code: str, penalty: str, references: References
) -> None:
    metric = bleu(bp=penalty)
    fine = References(("a b c",), (1.0,))
    prepared = metric.prepare([fine, references, fine])
    assert {item: problem.code for item, problem in prepared.problems.items()} == {1: code}
    every = np.arange(3)
    rows = metric.statistics(["a b c", "a b", "a"], prepared, every, every)
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False]
    assert rows[[0, 2]].tolist() == rows_of(metric, ["a b c", "a"], [fine, fine]).tolist()
    scores = metric.values(rows, Level.REPLY)
    assert np.isnan(scores).tolist() == [False, True, False]
    assert scores[0] == 1
    assert all(math.isnan(one) for one in metric.parts(rows[1], Level.REPLY)["precisions"])


@given(
    st.lists(st.lists(st.builds(PlainReference, tokens=TOKENS, weight=WEIGHTS, is_gold=st.booleans())), min_size=1),
    st.sampled_from(["closest", "gold"]),
)
@settings(max_examples=50, deadline=None)
def test_the_problems_of_items_are_those_of_plain_python(several: list[list[PlainReference]], penalty: str) -> None:
    prepared = bleu(bp=penalty).prepare(
        [
            References(
                tuple(" ".join(one.tokens) for one in references),
                tuple(one.weight for one in references),
                next((place for place, one in enumerate(references) if one.is_gold), -1),
            )
            for references in several
        ]
    )
    plain = PlainBleu(penalty=penalty)
    expected = {item: plain.problem(references) for item, references in enumerate(several)}
    assert {item: one.code for item, one in prepared.problems.items()} == {k: v for k, v in expected.items() if v}


def test_nothing_to_score_gives_no_rows() -> None:
    metric = bleu()
    none = np.array([], dtype=np.int64)
    assert metric.statistics([], metric.prepare([]), none, none).shape == (0, len(metric.columns))
    assert metric.values(np.empty((0, len(metric.columns))), Level.REPLY).shape == (0,)
    assert metric.values(np.zeros(len(metric.columns)), Level.CORPUS) == 0


def test_replies_leave_the_prepared_references_as_they_are() -> None:
    metric = bleu()
    prepared = metric.prepare([References(("a b", "c"), (1.0, 0.5))])
    known = dict(prepared.vocabulary)
    every = np.array([0, 1, 2, 0])
    rows = metric.statistics(["new words only", "a x b", "y " * 1_000], prepared, every, np.zeros(4, dtype=np.int64))
    assert dict(prepared.vocabulary) == known
    assert rows[:3, :2].tolist() == [[0, 0], [2, 0], [0, 0]]  # a token between a and b, known or not, parts them
    assert rows[3].tobytes() == rows[0].tobytes()


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4), st.text(max_size=20), st.sampled_from(VARIANTS))
@settings(max_examples=40, deadline=None)
def test_no_text_gives_anything_but_a_number(references: list[str], reply: str, variant: str) -> None:
    metric = bleu(variant=variant, tok="13a")
    weights = (1.0, *(-0.5 for _ in references))
    row = rows_of(metric, [reply], [References(("hello", *references), weights)])
    assert not np.isnan(row).any()
    assert 0 <= metric.values(row, Level.REPLY)[0] <= 1


@pytest.mark.parametrize("given_", ["smooth=floor", "smooth=exp", "smooth=add-k[0.5]", "eff=yes"])
def test_tsuta20_has_neither_smoothing_nor_effective_order(given_: str) -> None:
    with refusing(Usage, "tsuta20"):
        build(f"delta-bleu:variant=tsuta20,{given_}")
    metric = build("delta-bleu:variant=tsuta20")
    assert (metric.settings["smooth"], metric.settings["eff"]) == ("none", "no")


def test_the_tokenizer_word_is_lower_case_by_itself() -> None:
    with refusing(Usage, "delta-bleu"):
        build("delta-bleu:tok=word,case=mixed")
    assert bleu(tok="word").settings["case"] == "lc"
    assert bleu(tok="13a").settings["case"] == "mixed"
    assert score_of(bleu(tok="13a"), "Yes", ("yes", 1.0)) == 0
    assert score_of(bleu(tok="13a", case="lc"), "Yes", ("yes", 1.0)) == 1


# ── why ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(metrics(variants=VARIANTS), items())
@settings(max_examples=40, deadline=None)
def test_what_was_credited_adds_up_to_the_credits(metric: Bleu, item: RandomItem) -> None:
    texts = tuple(" ".join(one.tokens) for one in item.references)
    references = References(texts, tuple(one.weight for one in item.references))
    reply = " ".join(item.reply)
    found = metric.credits(reply, references)
    row = rows_of(metric, [reply], [references])[0]
    for n in range(1, metric.order + 1):
        assert math.fsum(one["credit"] for one in found if one["order"] == n) == pytest.approx(row[n - 1], abs=1e-12)
    for one in found:
        theirs = texts[one["reference"]].split()
        gram = one["ngram"].split()
        assert one["weight"] == references.weights[one["reference"]]
        assert any(theirs[at : at + len(gram)] == gram for at in range(len(theirs)))
    assert len({one["ngram"] for one in found}) == len(found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_was_credited_names_the_reference_of_largest_weight(variant: str) -> None:
    references = References(("good day", "good", "day x", "day x"), (0.25, 0.75, -0.5, 0.5))
    found = bleu(variant=variant).credits("Good day", references)
    assert [(one["ngram"], one["order"], one["reference"], one["weight"], one["credit"]) for one in found] == [
        ("good", 1, 1, 0.75, 0.75),
        ("day", 1, 3, 0.5, 0.5),
        ("good day", 2, 0, 0.25, 0.25),
    ]
    assert [(one["in_reply"], one["matched"]) for one in found] == [(1, 1)] * 3


def test_what_was_credited_says_where_count_and_weight_come_from() -> None:
    references = References(("a a", "a"), (0.4, 0.5))
    together = bleu(n=1).credits("a a a", references)[0]
    assert (together["reference"], together["matched"], together["credit"]) == (0, 2, 0.8)
    apart = bleu(n=1, variant="galley-fork").credits("a a a", references)[0]
    assert (apart["reference"], apart["matched"], apart["weight"], apart["credit"]) == (1, 2, 0.5, 1.0)
    assert together["in_reply"] == apart["in_reply"] == 3


def test_what_was_credited_tells_of_matches_that_subtract() -> None:
    references = References(("a", "b"), (1.0, -0.5))
    assert [one["credit"] for one in bleu(n=1).credits("b a", references)] == [1.0, -0.5]
    assert [one["credit"] for one in bleu(n=1, variant="tsuta20").credits("b a", references)] == [1.0, 0.0]


def test_an_item_without_references_may_be_the_only_one_and_the_last_one() -> None:
    nothing = References((), (), -1)
    for penalty in PENALTIES:
        metric = bleu(bp=penalty)
        for references in ([nothing], [nothing, nothing], [References(("a",), (1.0,)), nothing]):
            prepared = metric.prepare(references)
            assert prepared.problems[len(references) - 1].code == "no_reference"
            last = np.array([len(references) - 1])
            assert np.isnan(metric.statistics(["a"], prepared, np.array([0]), last)).all()
