"""Texts as hashed tokens: the compiled cutting held to WordTokenizer, the table to a dict, counts to a Counter."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import BadInput, Usage
from refaug.core.text.tokenizers import get_tokenizer
from refaug.indexer.tokens import Splitter, Tokens, WordCounts, WordTable, hash_words, survey

WORD = get_tokenizer("word")
CHARACTERS = "".join(map(chr, range(128)))
PIECES = [
    *CHARACTERS,
    *("<url>", "<a-b_1>", "<1a>", "<>", "<<", "<a", "a>", f"<{'n' * 32}>", f"<{'n' * 33}>", f"<{'n' * 32}"),
    *("don't", "'tis", "dogs'", "a''b", "3.5", "1,000.5", "1..2", "a.5", "5.a", ".5", "5.", "1.2.3", "1'2.5"),
    *("...", "?!", "WHAT", "snake_case", "-- -", "\x1c", "\x7f", "\r\n", "\t"),
]
ascii_texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(CHARACTERS)
any_texts = (
    ascii_texts | st.text(max_size=12) | st.sampled_from(["Ça va, naïve Größe", "don’t", "日本語です。", "😂😂 ok"])
)
words = st.sampled_from(["a", "b", "犬", "don't", "the", "x" * 40]) | st.text("ab", min_size=1, max_size=6)


def strings_of(tokens: Tokens) -> list[list[str]]:
    content = tokens.content.tobytes()
    bounds = zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    pieces = [content[start:end].decode() for start, end in bounds]
    return [pieces[start:end] for start, end in itertools.pairwise(tokens.offsets.tolist())]


def split(texts: object, tokenizer: str = "word") -> list[list[str]]:
    return strings_of(Splitter(get_tokenizer(tokenizer)).split(texts))


def hash_by_definition(token: str) -> int:
    found = 0xCBF29CE484222325
    for byte in token.encode():
        found = (found ^ byte) * 0x100000001B3 % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        found = (found ^ found >> 33) * factor % 2**64
    return found ^ found >> 33


# The tokens


@given(st.lists(ascii_texts, max_size=5))
@settings(deadline=None, max_examples=50)
def test_ascii_texts_have_exactly_the_tokens_of_the_word_tokenizer(texts):
    assert split(texts) == [WORD.tokenize(text) for text in texts]


def test_all_short_texts_of_what_the_rules_speak_of_are_cut_alike():
    texts = ["".join(some) for size in range(6) for some in itertools.product("<>aB1.'- ", repeat=size)]
    assert split(texts) == [WORD.tokenize(text) for text in texts]


def test_every_ascii_character_between_any_others_is_cut_alike():
    texts = [before + some + after for some in CHARACTERS for before in CHARACTERS for after in "a1<.\x00 "]
    assert split(texts) == [WORD.tokenize(text) for text in texts]


def test_the_room_foreseen_for_tokens_is_never_too_little():
    for some in itertools.product("<>a1.", repeat=5):
        text = "".join(some).encode()
        raw, bounds, plain = np.frombuffer(text, np.uint8), np.array([0, len(text)]), np.zeros(1, np.bool_)
        room = survey(raw, bounds, np.empty(len(text), np.uint8), plain)
        assert len(WORD.tokenize(text.decode())) <= room <= len(text)


@given(st.lists(any_texts, max_size=6))
@settings(deadline=None)
def test_texts_in_any_script_keep_their_order_among_ascii_ones(texts):
    tokens = Splitter(WORD).split(texts)
    expected = [WORD.tokenize(text) for text in texts]
    assert strings_of(tokens) == expected
    assert tokens.hashes.tolist() == [hash_by_definition(token) for text in expected for token in text]


@pytest.mark.parametrize("name", ["char", "13a", "intl", "mecab", "mecab:unidic-lite"])
def test_other_tokenizers_give_their_own_tokens(name):
    texts = ["Don't, Mr. Smith <url>!", "", "猫が好きです。", "naïve"]
    assert split(texts, name) == get_tokenizer(name).tokenize_batch(texts)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_arrow_arrays_may_be_slices(kind):
    texts = ["left out", "One two.", "", "voilà, été", "three", "left out too"]
    column = pa.array(texts, kind)
    assert split(column[1:5]) == [["one", "two", "."], [], ["voilà", ",", "été"], ["three"]]
    assert split(column[2:2]) == split(pa.array([], kind)) == split([]) == []
    assert split(column[2:3]) == [[]]


def test_splitting_leaves_the_texts_as_they_were():
    column = pa.array(["SHOUT", "ÉTÉ"])
    split(column)
    assert column.to_pylist() == ["SHOUT", "ÉTÉ"]


def test_texts_without_tokens_have_none():
    tokens = Splitter(WORD).split(["", " \t", "\x00", "a", ""])
    assert tokens.offsets.tolist() == [0, 0, 0, 0, 1, 1]
    assert len(tokens) == 5


@pytest.mark.parametrize("texts", [["a", None], pa.array(["a", None]), pa.array(["x", "a", None])[1:]])
def test_a_null_is_refused_with_its_place(texts):
    with refusing(BadInput):
        split(texts)


def test_an_array_of_something_else_is_refused():
    with refusing(BadInput, "int64"):
        split(pa.array([1, 2]))


def test_a_lone_surrogate_counts_as_the_replacement_character():
    assert split(["a \ud800 b", "c"]) == [["a", "\ufffd", "b"], ["c"]]


# The hashes


def test_hashes_are_the_same_for_ever():
    expected = {
        "the": 0xCB3FF435B889FB31,
        "don't": 0x539E86B4E9A5137F,
        "犬": 0x13F426A2D2820EB8,
        ".": 0x122C667B626740CD,
    }
    assert hash_words(list(expected)).tolist() == list(expected.values())


def test_hashes_begin_as_the_published_fnv_1a():
    published = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    for text, found in published.items():
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            found = (found ^ found >> 33) * factor % 2**64  # noqa: PLW2901
        assert hash_words([text]).tolist() == [found ^ found >> 33]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=9))
@settings(deadline=None)
def test_words_are_hashed_as_their_definition_says(words):
    assert hash_words(words).tolist() == [hash_by_definition(word) for word in words]


def test_both_ways_to_a_token_give_one_hash():
    tokens = Splitter(WORD).split(["don't stop", "don’t stop"])
    assert tokens.hashes[:2].tolist() == tokens.hashes[2:].tolist()


# The table


@given(st.lists(words, max_size=30), st.lists(words, max_size=30), st.lists(words, max_size=30))
@settings(deadline=None)
def test_a_table_numbers_as_a_dictionary_does(first, second, third):
    table = WordTable.of(first)
    codes: dict[str, int] = {}
    for code, word in enumerate(first):
        codes.setdefault(word, code)
    assert table.codes(hash_words(second)).tolist() == [codes.get(word, -1) for word in second]
    assert len(table) == len(first)
    following = len(first)
    for word in third:
        if word not in codes:
            codes[word] = following
            following += 1
    found = table.codes(hash_words(third), grow=True)
    assert found.dtype == np.int32
    assert found.tolist() == [codes[word] for word in third]
    assert len(table) == following
    again = WordTable.of_hashes(table.hashes_in_order())
    everything = hash_words([*first, *second, *third])
    assert again.codes(everything).tolist() == table.codes(everything).tolist()


def test_a_table_grows_past_its_first_size_in_any_batches():
    hashes = np.random.default_rng(0).integers(0, 2**64, 20_000, np.uint64)
    hashes = np.concatenate([hashes, hashes[::-3]])
    at_once, in_parts = WordTable(), WordTable()
    expected = np.concatenate([np.arange(20_000), np.arange(20_000)[::-3]])
    np.testing.assert_array_equal(at_once.codes(hashes, grow=True), expected)
    parts = [in_parts.codes(part, grow=True) for part in np.array_split(hashes, 37)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    np.testing.assert_array_equal(in_parts.hashes_in_order(), hashes[:20_000])
    np.testing.assert_array_equal(at_once.codes(hashes), expected)


def test_hashes_that_want_the_same_slot_are_told_apart():
    hashes = (np.arange(600, dtype=np.uint64) << np.uint64(40)) | np.uint64(1023)  # the last slot, then round to 0
    table = WordTable()
    np.testing.assert_array_equal(table.codes(hashes, grow=True), np.arange(600))
    np.testing.assert_array_equal(table.codes(hashes[::-1]), np.arange(600)[::-1])
    assert table.codes(np.array([2047, 0, 2**64 - 1], np.uint64)).tolist() == [-1, -1, -1]


def test_a_word_that_comes_again_leaves_its_second_code_unused():
    table = WordTable.of(["a", "b", "a", "c"])
    assert table.codes(hash_words(["a", "b", "c", "d"])).tolist() == [0, 1, 3, -1]
    assert table.codes(hash_words(["d"]), grow=True).tolist() == [4]
    assert table.hashes_in_order().tolist() == hash_words(["a", "b", "a", "c", "d"]).tolist()


def test_an_empty_table_knows_nothing():
    for table in (WordTable(), WordTable.of([])):
        assert len(table) == 0
        assert table.codes(hash_words(["a"])).tolist() == [-1]
        assert table.codes(hash_words([])).tolist() == []


# Counting


@given(st.lists(st.lists(any_texts, max_size=4), max_size=4), st.integers(1, 3), st.integers(1, 5) | st.none())
@settings(deadline=None)
def test_words_are_counted_as_a_counter_does(batches, min_count, max_words):
    counts, expected = WordCounts(), Counter[str]()
    for texts in batches:
        counts.add(Splitter(WORD).split(texts))
        for text in texts:
            expected.update(WORD.tokenize(text))
    assert len(counts) == len(expected)
    assert counts.total == expected.total()
    ordered = sorted((-count, word) for word, count in expected.items() if count >= min_count)[:max_words]
    words, numbers = counts.most_common(min_count=min_count, max_words=max_words)
    assert words == [word for _, word in ordered]
    assert numbers.tolist() == [-count for count, _ in ordered]


def test_equally_frequent_words_are_ordered_and_cut_by_code_points():
    counts = WordCounts()
    counts.add(Splitter(get_tokenizer("char")).split(["b犬a𠮷é", "zz", "éa"]))
    assert counts.most_common()[0] == ["a", "z", "é", "b", "犬", "𠮷"]
    assert counts.most_common(max_words=4)[0] == ["a", "z", "é", "b"]
    assert counts.most_common(max_words=2)[0] == ["a", "z"]
    assert counts.most_common(min_count=3)[0] == []


def test_many_words_are_counted_in_batches():
    texts = [" ".join(f"w{number % 3_000}" for number in range(start, start + 700)) for start in range(0, 9_000, 300)]
    counts = WordCounts()
    for text in texts:
        counts.add(Splitter(WORD).split([text]))
    expected = Counter(word for text in texts for word in text.split())
    words, numbers = counts.most_common()
    assert dict(zip(words, numbers.tolist(), strict=True)) == expected


@given(st.lists(st.lists(any_texts, max_size=4), max_size=4))
@settings(deadline=None)
def test_counts_of_parts_add_up_to_those_of_the_whole(batches):
    whole, added = WordCounts(), WordCounts()
    for texts in batches:
        part = WordCounts()
        for counts in (whole, part):
            counts.add(Splitter(WORD).split(texts))
        added.add_counts(*part.spelled())
    assert (len(added), added.total) == (len(whole), whole.total)
    words, numbers = added.most_common()
    assert (words, numbers.tolist()) == (whole.most_common()[0], whole.most_common()[1].tolist())


def test_nothing_counted_is_no_words():
    words, numbers = WordCounts().most_common()
    assert (words, numbers.tolist()) == ([], [])


def test_a_vocabulary_of_no_words_is_refused():
    with refusing(Usage):
        WordCounts().most_common(max_words=0)
