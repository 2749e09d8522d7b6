"""Searching an index: the references, their order and the counted exclusions of the plain definition, exactly.

`plain_search` looks at every pair with exact sums; where one of its similarities lies on the edge between two
millionths (within a billionth of one), either is right, and the index's own choice is taken.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations
from random import Random

import numpy as np
import pytest
from encoders import WORDS as ENCODED
from encoders import TinyEncoder, write_encoder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from indexes import add_to_log, built, home_of, pairs_of
from plain_search import MILLION, MODES, Answer, Found, PlainSearch, RawPair, merged, sha
from refusals import refusing
from safeguards import mostly_slow

from refaug.core.errors import Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.encoders import of_unit_length
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import update_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.ranking import ExclusionReason
from refaug.indexer.search.search_settings import SearchSettings

WORD = get_tokenizer("word")
WORDS = ("tea", "coffee", "yes", "yeah", "no", "cold", "um", "so", "<url>", "?")
UNKNOWN = ("zork", "blip")
LOGS = ("chat", "b.1", "b-2")
DIALOGUES = (*(f"d{number}" for number in range(12)), "é/x", "😀")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = (-(10**15), -1_500_000, -1_000_001, -1, 0, 1, 500_000, 1_000_001, 10**15)
MOMENTS = tuple(EPOCH + timedelta(microseconds=number) for number in MICROSECONDS)


def vectors_of(words=WORDS, dimensions=12, seed=1):
    """Some have the same vector, and one has no direction."""
    rows = np.random.default_rng(seed).standard_normal((len(words), dimensions)).astype(np.float32)
    vectors = dict(zip(words, rows, strict=True))
    if "yeah" in vectors:
        vectors |= {"yeah": vectors["yes"], "um": np.zeros(dimensions, np.float32)}
    return vectors


class Talk:
    """Texts out of few words: many are equal or nearly so, in other spelling or order, or with another end."""

    def __init__(self, random, texts=20):
        self._random = random
        self._texts = [self._new() for _ in range(texts)]

    def _new(self):
        words = self._random.choices(WORDS + UNKNOWN, k=self._random.choice((0, 1, 1, 2, 2, 3, 5, 6, 7, 10)))
        return " ".join([*words, self._random.choice(("!", ".", "...", "ok", "tea"))])

    def text(self):
        random, text = self._random, self._random.choice(self._texts)
        words = text.split()
        change = random.choice(("", "", "", "", "upper", "title", "end", "word", "order", "new"))
        if change == "order":
            random.shuffle(words)
        changed = {"upper": text.upper(), "title": text.title(), "end": text + "!", "word": text + " no"}
        return {**changed, "order": " ".join(words), "new": self._new() if change == "new" else ""}.get(change, text)

    def time(self):
        return self._random.choice((None, *MOMENTS))

    def pairs(self, count):
        choice = self._random.choice
        return [
            RawPair(choice(LOGS), choice(DIALOGUES), str(number), self.text(), self.text(), self.time())
            for number in range(count)
        ]

    def test_pair(self, pairs=()):
        """Sometimes one that is in the log."""
        random = self._random
        own = random.choice(pairs) if pairs and random.random() < 0.3 else None
        texts = [self.text() for _ in range(random.choice((0, 1, 1, 1, 2, 3)))] + ([own.response] if own else [])
        references = [Reference(text=text) for text in texts]
        if random.random() < 0.1:
            references.insert(0, Reference(text=self.text(), source=Origin.SUPPLIED, weight=0.5))
        utterance = own.utterance if own else self.text()
        return Item(
            id="",
            turns=random.choice(((utterance,), (utterance,), ("so?", utterance), ("so?", utterance), (), (" ",))),
            references=tuple(references),
            dialogue=random.choice((None, None, "d1", "é/x", "elsewhere")),
            exclude=tuple(random.sample(("d2", "d3", "😀", "d1", "elsewhere"), random.choice((0, 0, 1, 3)))),
        )

    def settings(self, logs=LOGS):
        choice = self._random.choice
        k = choice((1, 2, 3, 5, 15, 15, 40, 1_000))
        return SearchSettings(
            k=k,
            mode=choice(MODES),
            alpha=choice((0.5, 0.5, 0.3, 0, 1)),
            epsilon=choice((0.1, 0.1, 0, 1)),
            depth=choice((None, None, 1_000)),
            after=choice((None, None, self.time())),
            before=choice((None, None, self.time())),
            exclude_logs=tuple(self._random.sample(logs, choice((0, 0, 0, *range(1, len(logs) + 1))))),
            near=choice((0.9, 0.9, 0.5, 0.75, 1)),
            near_tokens=choice((5, 5, 3, 1)),
        )


def counts_of(retrieved):
    return retrieved.search_notes.get("excluded", {})


def left_out_of(retrieved):
    return retrieved.search_notes.get("excluded_references", [])


def answer_of(retrieved):
    references = [
        Found(round(one.similarity * MILLION), one.text, one.utterance, one.more["count"], one.more["pair"])
        for one in retrieved.references
    ]
    left_out = tuple((one["reason"], one["text"], one["utterance"]) for one in left_out_of(retrieved))
    return Answer(tuple(references), counts_of(retrieved), retrieved.search_notes.get("note", ""), left_out)


def assert_as_defined(index, plain, tests, how):
    answers = [answer_of(one) for one in index.search(tests, how, excluded=1_000_000)]
    for test, answer in zip(tests, answers, strict=True):
        seen = {(one.utterance, one.text): one.level for one in answer.references}
        assert answer == plain.search(test, how, seen), (test, how)
    return answers


def asked(utterance, *references, **more):
    return Item(id="t", turns=(utterance,), references=tuple(Reference(text=text) for text in references), **more)


def texts_of(retrieved):
    return [one.text for one in retrieved.references]


# ── any texts ────────────────────────────────────────────────────────────────────────────────────────────────────


class World:
    """A log with many equal and nearly equal texts, its index, and its definition."""

    def __init__(self, folder, pairs, words=None, **order):
        self.pairs, self.words = pairs, vectors_of() if words is None else words
        self.places = home_of(folder, pairs, self.words)
        self.index = built(self.places, **order)
        self.plain = PlainSearch(pairs, self.words, get_tokenizer(str(order.get("tokenizer", "word"))))


@pytest.fixture(scope="module")
def world_of(tmp_path_factory):
    """Makes worlds out of pairs; all are closed in the end."""
    with ExitStack() as opened:

        def make(pairs, words=None, **order):
            world = World(tmp_path_factory.mktemp("world"), pairs, words, **order)
            opened.enter_context(world.index)
            return world

        yield make


@pytest.fixture(scope="module")
def world(world_of):
    """Two hundred utterances and more, so that there can be four lists of them."""
    world = world_of(Talk(Random(5), texts=150).pairs(500))
    assert len(world.plain.utterances) > 200
    assert max(Counter(pair.utterance for pair in world.plain.pairs).values()) > 5
    assert max(len(pair.occurrences) for pair in world.plain.pairs) > 1
    return world


RANDOMS = st.randoms(use_true_random=False)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@settings(RELAXED, max_examples=10)
@given(random=RANDOMS)
def test_any_test_pairs_get_the_references_of_the_definition(world, random):
    talk = Talk(random, texts=6)
    talk._texts += [text for pair in random.sample(world.pairs, 8) for text in (pair.utterance, pair.response)]
    assert_as_defined(world.index, world.plain, [talk.test_pair(world.pairs) for _ in range(5)], talk.settings())


@pytest.mark.slow
@settings(RELAXED, max_examples=4, phases=(Phase.generate,))  # an index each: too slow to look for a smaller one
@given(random=RANDOMS, count=st.integers(1, 30))
def test_any_log_is_searched_as_defined(world_of, random, count):
    talk = Talk(random, texts=8)
    pairs = talk.pairs(count)
    world = world_of(pairs)
    for _ in range(10):
        tests = [talk.test_pair(pairs) for _ in range(5)]
        assert_as_defined(world.index, world.plain, tests, talk.settings(tuple({pair.log for pair in pairs})))


def test_so_many_excluded_pairs_come_along_and_no_more(world):
    talk = Talk(Random(3))
    talk._texts = [text for pair in world.pairs for text in (pair.utterance, pair.response)]
    tests = [talk.test_pair(world.pairs) for _ in range(40)]
    whole = world.index.search(tests, excluded=1_000)
    assert max(len(left_out_of(one)) for one in whole) > 2
    assert all(len(left_out_of(one)) == sum(counts_of(one).values()) for one in whole)
    for most in (0, 1, 2):
        for some, all_of_them in zip(world.index.search(tests, excluded=most), whole, strict=True):
            assert left_out_of(some) == left_out_of(all_of_them)[:most]
            assert (some.references, counts_of(some)) == (all_of_them.references, counts_of(all_of_them))


@pytest.mark.parametrize("mode", mostly_slow(MODES, quick=[0, 3]))
def test_every_reason_and_many_ties_come_up_as_defined(world, mode):
    """All test pairs that cannot be asked come up, too."""
    talk, left_out = Talk(Random(7)), {"after": MOMENTS[2], "exclude_logs": ("b.1",)}
    talk._texts = [text for pair in world.pairs for text in (pair.utterance, pair.response)]
    tests = [*(talk.test_pair(world.pairs) for _ in range(100)), asked("never seen", "yes")]
    answers = assert_as_defined(world.index, world.plain, tests, SearchSettings(mode=mode, k=40, near=0.75, **left_out))
    assert {reason for answer in answers for reason in answer.excluded} == {
        one.name.lower() for one in ExclusionReason if one
    }
    notes = {"", "no_utterance", "no_gold", "no_known_word"}
    assert {answer.note for answer in answers} == notes - ({"no_gold"} if mode.endswith("utterance") else set())
    levels = [one.level for answer in answers for one in answer.references]
    assert any(one == other for one, other in pairwise(levels))
    assert_as_defined(world.index, world.plain, tests[::2], SearchSettings(mode=mode, k=1_000))


# ── nothing but the test pair and the settings decides ──────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tests(world):
    talk = Talk(Random(11))
    talk._texts = [text for pair in world.pairs for text in (pair.utterance, pair.response)]
    return [replace(talk.test_pair(world.pairs), id=str(number)) for number in range(150)]


def settings_to_try():
    return [SearchSettings(mode=mode, k=k, near=0.75) for mode in MODES for k in (1, 15)]


@pytest.fixture(scope="module")
def expected(world, tests):
    return [world.index.search(tests, how) for how in settings_to_try()]


def test_a_test_pair_gets_the_same_alone_and_in_any_company(world, tests, expected):
    for how, together in zip(settings_to_try(), expected, strict=True):
        assert [world.index.search([test], how)[0] for test in tests] == together
        some = [number * 7 % len(tests) for number in range(60)]
        assert world.index.search([tests[number] for number in some], how) == [together[number] for number in some]
    assert world.index.search([]) == []


def test_more_than_a_thousand_test_pairs_get_what_each_gets_alone(world, tests, expected):
    many = [tests[number % len(tests)] for number in range(1_100)]
    found = world.index.search(many, settings_to_try()[1])
    assert found == [expected[1][number % len(tests)] for number in range(1_100)]


def test_two_threads_find_what_one_finds(world, tests, expected):
    with ReferenceIndex.open(world.places, "chat", threads=2) as index:
        for how, alone in zip(settings_to_try(), expected, strict=True):
            assert index.search(tests, how) == alone, "in parts, each by a thread"
            assert index.search(tests[:100], how) == alone[:100], "all at once, by threads of FAISS"


@pytest.mark.parametrize(
    ("factory", "effort"),
    mostly_slow(
        [
            ("IVF4,SQfp16", 4),
            ("IVF4,SQ8", 4),
            ("IVF4,RaBitQfs", 4),
            ("PCAR8,IVF4,PQ4x4fs", 4),
            ("SQ8", 1),
            ("HNSW32", 4_096),
        ],
        quick=[1, 3],
    ),
)
def test_exhaustive_approximate_search_equals_a_flat_index(world, tests, expected, factory, effort):
    """Every list, every code, a graph as wide as the index: what the candidates lose, ranking them again restores."""
    with built(world.places, factory.lower().replace(",", "-"), factory=factory, threads=2) as index:
        assert index.manifest.segments[0].effort == effort
        for how, flat in zip(settings_to_try(), expected, strict=True):
            found = [answer_of(one) for one in index.search(tests, how)]
            assert found == [answer_of(one) for one in flat]


@pytest.mark.parametrize(("factory", "effort"), [("IVF4,SQfp16", 1), ("PCAR8,IVF4,PQ4x4fs", 1), ("HNSW32", 16)])
def test_approximate_search_widens_while_references_are_lacking(world, tests, factory, effort):
    """As long as there are fewer than k of them: in the end, all are found."""
    how = SearchSettings(k=1_000)
    with built(world.places, f"lazy-{factory.lower()[:4]}", limits=Limits(factory=factory, recall=0.01)) as index:
        assert index.manifest.segments[0].effort <= effort
        assert_as_defined(index, world.plain, tests[:40], how)
        rare = [replace(test, exclude=tuple(sorted({*DIALOGUES} - {"d7"}))) for test in tests[:40]]
        found = [len(one.references) for one in index.search(rare)]
        assert found == [len(one.references) for one in world.index.search(rare)]
        assert 15 in found


@pytest.mark.parametrize("depth", [15, 16, 100, 10_000])
def test_how_many_candidates_are_looked_at_first_changes_nothing(world, tests, expected, depth):
    for how, alone in zip(settings_to_try(), expected, strict=True):
        if how.mode.endswith("utterance"):
            assert world.index.search(tests, replace(how, depth=depth)) == alone


def test_dialog_modes_search_responses_of_the_most_similar_utterances_only(world_of):
    """And at those that are as similar as the last of them."""
    words = [f"w{number}" for number in range(40)]
    pairs = pairs_of(*[(f"{one} w0 w1", f"{one} {other}") for one in words for other in ("w2", "w3")])
    world = world_of(pairs, vectors_of(words))
    tests = [Item(id="", turns=(f"{one} w0",), references=(Reference(text=f"{one} w5"),)) for one in words]
    for depth in (1, 2, 7, 39, 40):
        assert_as_defined(
            world.index, world.plain, tests, SearchSettings(mode="embedding-dialog", depth=depth, k=min(depth, 15))
        )


def test_an_updated_index_finds_what_a_new_one_finds(world_of):
    talk = Talk(Random(3), texts=30)
    pairs = talk.pairs(120)
    world = world_of(pairs[:80])
    for log in LOGS:
        add_to_log(world.places, log, [pair for pair in pairs[80:] if pair.log == log])
    update_index(world.places, "chat", Silent())
    plain, tests = PlainSearch(pairs, world.words, WORD), [talk.test_pair(pairs) for _ in range(60)]
    with ReferenceIndex.open(world.places, "chat") as index:
        assert len(index.segments) == 2
        for mode in ("embedding-utterance", "embedding-dialog"):
            for k in (1, 15, 100):
                assert_as_defined(index, plain, tests, SearchSettings(mode=mode, k=k, near=0.75))


def test_the_depth_of_a_dialog_mode_is_that_of_the_whole_index(world_of):
    """Not of each of its segments: the less similar utterance is beyond a depth of 1, wherever it lies."""
    words = {word: np.eye(3)[place] for place, word in enumerate(("tea", "coffee", "yes"))}
    world = world_of(pairs_of(("tea", "no"), ("coffee", "no no")), words)
    add_to_log(world.places, "chat", [RawPair("chat", "e1", "1", "tea coffee", "yes so")])
    update_index(world.places, "chat", Silent())
    how = SearchSettings(mode="embedding-dialog", k=1, depth=1)
    with ReferenceIndex.open(world.places, "chat") as index:
        assert texts_of(index.search([asked("tea", "yes")], how)[0]) == ["no"]
        assert texts_of(index.search([asked("tea", "yes")], replace(how, depth=2))[0]) == ["yes so"]


def test_an_index_of_an_encoder_finds_what_is_most_similar_by_its_vectors(world_of, tmp_path):
    tiny, random = TinyEncoder.seeded(), Random(2)
    drawn = [" ".join(random.choices(ENCODED, k=random.randint(1, 12))) for _ in range(120)]
    texts = list({normalise(text): text for text in drawn}.values())
    encoder = write_encoder(tmp_path / "tiny", weights=tiny)
    world = world_of(
        pairs_of(*[(text, f"answer {number}") for number, text in enumerate(texts)]), vectors=None, encoder=encoder
    )
    vectors = np.array([tiny.vectors(text).mean(axis=0) for text in texts])
    vectors = of_unit_length(of_unit_length(vectors).astype(np.float16))  # as vectors are kept
    tests = [asked(texts[0]), asked("you really like big dog ."), asked("A CAT")]
    together = world.index.search(tests)
    for test, found in zip(tests, together, strict=True):
        own = of_unit_length(tiny.vectors(test.utterance).mean(axis=0, keepdims=True)).astype(np.float16)
        similarities = dict(zip(texts, (vectors @ of_unit_length(own)[0]).tolist(), strict=True))
        assert [one.similarity for one in found.references] == pytest.approx(
            sorted(similarities.values(), reverse=True)[:15], abs=3e-6
        )
        for one in found.references:  # single precision on the way
            assert one.similarity == pytest.approx(similarities[one.utterance], abs=3e-6)
        assert len({*texts_of(found)}) == 15
        assert world.index.search([test]) == [found]
    with refusing(Usage):
        world.index.search([asked("tea", "cat")], SearchSettings(mode="embedding-dialog"))


# ── deep, wide and empty ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def alike(world_of):
    """720 utterances of the same words in every order: their vectors differ in last bits at most."""
    orders = [" ".join(words) for words in permutations(("tea", "coffee", "yes", "no", "cold", "so"))]
    pairs = pairs_of(*[(text, f"answer {number}") for number, text in enumerate(orders)], ("tea tea", "far"))
    return world_of(pairs)


@pytest.mark.parametrize("mode", MODES)
def test_tied_utterances_are_chosen_by_the_smallest_response_hashes(alike, mode):
    test, how = asked("so no tea yes coffee cold", "answer 3"), SearchSettings(mode=mode)
    assert_as_defined(alike.index, alike.plain, [test], how)
    if mode.endswith("utterance"):  # with more equal ones than there are candidates at first
        answers = sorted((f"answer {number}" for number in range(720)), key=sha)
        assert texts_of(alike.index.search([test], how)[0]) == [one for one in answers if one != "answer 3"][:15]


@pytest.mark.parametrize("mode", MODES)
def test_the_search_goes_on_below_hundreds_of_excluded_pairs(alike, mode):
    left = {5, 300, 699}
    test = asked("so no tea yes coffee cold", "so", exclude=tuple(f"d{n + 1}" for n in range(720) if n not in left))
    how = SearchSettings(mode=mode, k=4)
    assert_as_defined(alike.index, alike.plain, [test, asked("tea"), test], how)
    (found,) = alike.index.search([test], how)
    assert texts_of(found) == [*sorted((f"answer {number}" for number in left), key=sha), "far"]
    assert counts_of(found) == {"dialogue": 717}


@pytest.mark.parametrize("mode", MODES)
def test_an_utterance_may_have_hundreds_of_responses(mode, formula):
    answers = sorted({pair.response for pair in formula.plain.pairs if pair.utterance == "tea ?"}, key=sha)
    assert len(answers) == 300
    tests = [asked("tea ?", "no"), asked("tea ?", "no", answers[1], answers[299]), asked("coffee", "no")]
    for k in (1, 15, 299, 300, 301, 1_000):
        assert_as_defined(formula.index, formula.plain, tests, SearchSettings(mode=mode, k=k))
    if mode == "embedding-utterance":
        (found,) = formula.index.search([tests[1]], SearchSettings(k=3))
        assert (texts_of(found), counts_of(found)) == ([answers[0], answers[2], answers[3]], {"test_pair": 1})


@pytest.fixture(scope="module")
def formula(world_of):
    pairs = pairs_of(*[("tea ?", f"coffee no {number}") for number in range(300)], ("yes", "so"), ("no tea", "so cold"))
    return world_of(pairs)


@pytest.mark.parametrize("mode", MODES)
def test_with_a_k_above_all_that_there_is_everything_is_found_once(world, mode):
    test, how = asked("tea coffee <url> no ?", "yes"), SearchSettings(mode=mode, k=1_000)
    assert_as_defined(world.index, world.plain, [test], how)
    (found,) = world.index.search([test], how)
    assert len({normalise(text) for text in texts_of(found)}) == len(found.references)
    if mode == "embedding-utterance":
        known = [pair for pair in world.plain.pairs if world.plain._text(pair.utterance)[1] is not None]
        assert len(found.references) + sum(counts_of(found).values()) == len(known)


def test_utterances_without_a_known_word_are_found_by_their_words_alone(world_of):
    pairs = pairs_of(("zork", "yes"), ("blip zork", "no"), ("tea zork", "so"), ("um", "cold"), ("...", "tea"))
    world = world_of(pairs)
    tests = [asked(text, "coffee") for text in ("tea", "zork", "um", "never seen", "...", "tea never zork")]
    for mode in MODES:
        assert_as_defined(world.index, world.plain, tests, SearchSettings(mode=mode))
    by_vectors, by_words = (world.index.search(tests, SearchSettings(mode=mode)) for mode in (MODES[0], MODES[2]))
    assert [texts_of(one) for one in by_vectors] == [["so"], [], [], [], [], ["so"]]
    assert [one.search_notes.get("note", "") for one in by_vectors] == ["", *["no_known_word"] * 4, ""]
    assert [set(texts_of(one)) for one in by_words] == [
        {"so"},
        {"yes", "no", "so"},
        {"cold"},
        set(),
        {"tea"},
        {"so", "yes", "no"},
    ]
    assert [one.search_notes.get("note", "") for one in by_words] == ["", "", "", "no_known_word", "", ""]


def test_index_without_any_known_word_finds_nothing_by_vectors(world_of):
    world = world_of(pairs_of(("zork", "yes"), ("blip", "no")))
    for mode in MODES:
        assert_as_defined(
            world.index, world.plain, [asked("tea", "yes"), asked("zork", "so")], SearchSettings(mode=mode)
        )


def test_a_single_pair_can_be_an_index(world_of):
    world = world_of(pairs_of(("tea", "yes")))
    for mode in MODES:
        for how in (SearchSettings(mode=mode, k=1), SearchSettings(mode=mode)):
            assert_as_defined(
                world.index, world.plain, [asked("tea", "so"), asked("tea", "yes"), asked("no", "so")], how
            )


def test_japanese_is_searched_by_its_words(world_of):
    mecab = get_tokenizer("mecab")
    texts = [
        ("お茶を飲みますか？", "はい、飲みます。"),
        ("お茶を飲みますか", "いいえ、コーヒーを飲みます。"),
        ("コーヒーを飲みますか？", "はい、飲みます"),
        ("今日は寒いですね。", "本当に寒いですね。"),
        ("今日は寒いですね！", "そうですね"),
        ("明日も寒いですか？", "そうですね。"),
        ("ｵ茶ヲ飲ム", "はい"),
    ]
    words = sorted({word for pair in texts for text in pair for word in mecab.tokenize(text)} - {"明日", "本当に"})
    world = world_of(pairs_of(*texts), vectors_of(words), tokenizer="mecab")
    tests = [
        asked("お茶を飲みますか。", "はい"),
        asked("今日も寒いですね", "そうですね！"),
        asked("明日は？", "いいえ、コーヒーを飲みます"),
        asked("本当に", "はい"),
    ]
    for mode in MODES:
        for k in (1, 2, 15):
            assert_as_defined(world.index, world.plain, tests, SearchSettings(mode=mode, k=k))
    (found, *_) = world.index.search(tests)
    assert texts_of(found)[0] == "いいえ、コーヒーを飲みます。"


def test_a_time_before_1970_is_compared_to_the_microsecond(world_of):
    texts = [("tea", f"answer {number}") for number in range(len(MOMENTS))]
    pairs = [replace(pair, time=time) for pair, time in zip(pairs_of(*texts), MOMENTS, strict=True)]
    world = world_of([*pairs, RawPair("chat", "z", "1", "tea", "answer without a time")])
    for number, moment in enumerate(MOMENTS):
        after, before = (
            set(texts_of(world.index.search([asked("tea")], how)[0]))
            for how in (SearchSettings(after=moment), SearchSettings(before=moment))
        )
        assert after == {text for _, text in texts[number:]}
        assert before == {text for _, text in texts[:number]}


# ── nearly equal ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_nine_tenths_of_the_words_are_near_and_eight_ninths_are_not(world_of):
    base = [f"w{number}" for number in range(9)]
    responses = {"near": " ".join([*base, "x"]), "far": " ".join([*base[:-1], "x"]), "short": "w0 w1 w2 w3"}
    world = world_of(pairs_of(*[("tea", text) for text in responses.values()]))
    gold, short = asked("tea", " ".join(base)), asked("tea", "w3 w2 w1 w0")
    assert_as_defined(world.index, world.plain, [gold, short], SearchSettings())
    found, of_short = world.index.search([gold, short])
    assert (set(texts_of(found)), counts_of(found)) == ({responses["far"], responses["short"]}, {"near_gold": 1})
    assert (len(of_short.references), counts_of(of_short)) == (3, {})
    (found,) = world.index.search([short], SearchSettings(near_tokens=4))
    assert counts_of(found) == {"near_gold": 1}


@pytest.mark.parametrize("size", [5, 10, 20, 30, 50, 100, 190])
def test_near_means_that_many_and_not_one_fewer(size, many_words):
    """Where sizes are multiples of ten the share is .9 to the last bit."""
    words = [f"w{number}" for number in range(size)]
    tests = [asked("tea", " ".join(words[lacking:])) for lacking in range(size // 5)]
    assert_as_defined(many_words.index, many_words.plain, tests, SearchSettings(k=1_000))
    unknown = [asked("tea", " ".join([*words, *(f"new{n}" for n in range(lacking))])) for lacking in range(size // 5)]
    assert_as_defined(many_words.index, many_words.plain, unknown, SearchSettings(k=1_000))


@pytest.fixture(scope="module")
def many_words(world_of):
    texts = [
        " ".join(f"w{number}" for number in range(size)) for size in (4, 5, 9, 10, 18, 20, 27, 30, 45, 50, 100, 190)
    ]
    return world_of(pairs_of(*[("tea", text) for text in texts]))


def test_the_definition_merges_what_the_index_merges(world):
    assert world.index.manifest.utterances == len(world.plain.utterances)
    assert sum(info.pairs for info in world.index.manifest.segments) == len(merged(world.pairs))
    assert sum(info.occurrences for info in world.index.manifest.segments) == len(world.pairs)
