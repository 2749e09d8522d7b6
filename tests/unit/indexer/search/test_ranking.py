"""Which pairs become references, and in which order: cases that can be worked out by eye.

Each word has an axis of its own, so that cosines are counts: of four teas and three coffees to a tea, 4/5. The hashes
that decide among equals stand beside the texts.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from indexes import built, home_of, pairs_of
from plain_search import RawPair

from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.ranking import ExclusionReason
from refaug.indexer.search.search_settings import SearchSettings

AXES = ("tea", "coffee", "yes", "no", "so")
WORDS = {word: [float(axis == place) for axis in range(len(AXES))] for place, word in enumerate(AXES)}
WORDS |= {"nay": [-x for x in WORDS["tea"]], "nope": [-x for x in WORDS["yes"]]}

FOUR_TEAS = "tea tea tea tea coffee coffee coffee"  # 4/5 to tea, 3/5 to coffee
FOUR_YESES = "yes yes yes yes no no no"
FOUR_NOES = "no no no no yes yes yes"


@pytest.fixture(scope="module")
def index_of(tmp_path_factory):
    """Makes indexes out of pairs; all are closed in the end."""
    with ExitStack() as opened:
        yield lambda pairs: opened.enter_context(built(home_of(tmp_path_factory.mktemp("home"), pairs, WORDS)))


def asked(utterance, *references, **more):
    own = tuple(one if isinstance(one, Reference) else Reference(text=one) for one in references)
    return Item(id="t", turns=(utterance,), references=own, **more)


def found_by(index, test, **how):
    (found,) = index.search([test], SearchSettings(**how))
    return found


def counts_of(found):
    return found.search_notes.get("excluded", {})


def ranked(found):
    return [(one.similarity, one.text) for one in found.references]


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def cafe(index_of):
    return index_of(
        pairs_of(
            ("tea", "yes"),  # 8a79…
            ("tea", "no"),  # 9390…
            ("Tea tea", "two"),  # 3fc4…
            (FOUR_TEAS, "perhaps"),
            ("tea coffee", "never"),
            ("coffee", "later"),  # 1d92…
            ("so", "one"),  # 7692…
            ("nay", "with milk"),
            ("zork", "no vector"),
        )
    )


def test_most_similar_come_first_and_ties_go_to_the_smallest_hash(cafe):
    assert ranked(found_by(cafe, asked("tea"))) == [
        (1.0, "two"),
        (1.0, "yes"),
        (1.0, "no"),
        (0.8, "perhaps"),
        (0.707107, "never"),
        (0.0, "later"),
        (0.0, "one"),
        (-1.0, "with milk"),
    ]
    assert ranked(found_by(cafe, asked("coffee"), k=4)) == [
        (1.0, "later"),
        (0.707107, "never"),
        (0.6, "perhaps"),
        (0.0, "two"),
    ]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8, 9])
def test_the_first_k_are_the_beginning_of_all(cafe, k):
    everything = found_by(cafe, asked("tea")).references
    assert found_by(cafe, asked("tea"), k=k).references == everything[:k]
    assert [one.more["rank"] for one in everything] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_equal_texts_count_once_with_the_utterance_that_is_most_similar(index_of):
    index = index_of(
        pairs_of(
            ("tea", "sure."),  # 41bc…
            ("tea coffee", "Sure!"),  # 1976…
            ("coffee", "Sure"),  # c54c…
            ("coffee", "of course"),  # 19e2…
            ("so", "maybe"),  # dcff…
        )
    )
    found = found_by(index, asked("tea"))
    assert ranked(found) == [(1.0, "sure."), (0.0, "of course"), (0.0, "maybe")]
    assert counts_of(found) == {"duplicate": 2}
    assert counts_of(found_by(index, asked("tea"), k=2)) == {"duplicate": 1}  # not what comes after the last
    assert counts_of(found_by(index, asked("tea"), k=1)) == {}
    from_coffee = found_by(index, asked("coffee"))
    assert ranked(from_coffee) == [(1.0, "of course"), (1.0, "Sure"), (0.0, "maybe")]
    assert [one.utterance for one in from_coffee.references] == ["coffee", "coffee", "so"]


def test_equal_texts_at_a_tie_show_the_utterance_of_the_smallest_hash(index_of):
    index = index_of(
        pairs_of(
            ("tea coffee", "milk"),  # de54…
            ("coffee tea tea coffee", "milk"),  # 5892…
            ("coffee tea", "milk"),  # b89f…
            ("tea tea coffee coffee", "milk"),  # 5076…
        )
    )
    found = found_by(index, asked("tea"))
    assert [(one.similarity, one.utterance) for one in found.references] == [(0.707107, "tea tea coffee coffee")]
    assert counts_of(found) == {"duplicate": 3}


def test_merged_pair_shows_the_form_of_the_smallest_hash_and_its_count(index_of):
    index = index_of(
        pairs_of(
            ("tea", "Yes!"),
            ("TEA", "YES"),  # f917…
            ("Tea?", "yes"),  # 039a… is the smallest of the utterances
            ("tea", "Yes."),  # 5f9a… of the responses
            ("tea", "no"),
        )
    )
    yes, no = found_by(index, asked("tea")).references
    assert (yes.text, yes.utterance, yes.more["count"], yes.more["pair"]) == ("Yes.", "Tea?", 4, "chat/d1#1")
    assert (no.text, no.utterance, no.more["count"], no.more["pair"]) == ("no", "Tea?", 1, "chat/d5#1")


# ── what says the same ───────────────────────────────────────────────────────────────────────────────────────────

ASKED = "Tea or coffee, my friend"  # six words with the comma
GOLD = "coffee, if you have some"


@pytest.fixture(scope="module")
def replies(index_of):
    return index_of(
        pairs_of(
            (ASKED, "Coffee if you have some!"),
            ("coffee", "coffee, if you have some"),
            ("coffee", "tea or coffee my friend..."),
            ("tea", "have you some, if coffee"),
            ("tea", "friend, my coffee or tea"),
            ("tea", "some coffee"),
            ("so", "some tea"),
        )
    )


@pytest.mark.parametrize(
    ("test", "excluded"),
    [
        (asked("tea"), {"duplicate": 1}),
        (asked(ASKED), {"parrot": 1, "near_parrot": 1, "duplicate": 1}),
        (asked(ASKED, GOLD), {"test_pair": 1, "gold": 1, "near_gold": 1, "parrot": 1, "near_parrot": 1}),
        (asked("tea", GOLD), {"gold": 2, "near_gold": 1}),
        (asked("tea", "so", GOLD, "SOME coffee"), {"gold": 2, "near_gold": 1, "test_pair": 1}),
        (asked("tea", Reference(text=GOLD, source=Origin.SUPPLIED, weight=1.0)), {"duplicate": 1}),
        (asked("tea", " ", ""), {"duplicate": 1}),
        (asked(GOLD, ASKED), {"gold": 1, "near_gold": 1, "parrot": 2, "near_parrot": 1}),
        (asked(GOLD, GOLD), {"gold": 2, "near_gold": 1}),
        (asked("some tea", "some tea"), {"gold": 1, "duplicate": 1}),
    ],
)
def test_what_says_the_same_as_the_test_pair_is_no_reference(replies, test, excluded):
    found = found_by(replies, test)
    assert counts_of(found) == excluded
    assert len(found.references) + sum(excluded.values()) == 7
    assert "note" not in found.search_notes


@pytest.mark.parametrize(
    ("how", "is_near"), [({}, False), ({"near": 0.34}, False), ({"near": 0.33}, True), ({"near_tokens": 3}, False)]
)
def test_how_near_counts_as_equal_can_be_said(replies, how, is_near):
    """Of "some coffee" and "some tea", one word of three is in both."""
    found = found_by(replies, asked("so", "some coffee"), **{"near_tokens": 2, **how})
    assert ("some tea" not in [one.text for one in found.references]) == is_near


# ── where it comes from ──────────────────────────────────────────────────────────────────────────────────────────

IN_2020, IN_2021, IN_2022 = (datetime(year, 6, 1, tzinfo=UTC) for year in (2020, 2021, 2022))


@pytest.fixture(scope="module")
def often(index_of):
    """One pair, four times; by log, dialogue and position, "10" before "2"."""
    yes = RawPair("a", "d1", "10", "tea", "yes")
    return index_of(
        [
            replace(yes, log="b", time=IN_2020),
            replace(yes, position="2", time=IN_2022),
            replace(yes, dialogue="d2", time=IN_2021),
            yes,
        ]
    )


@pytest.mark.parametrize(
    ("test", "how", "shown"),
    [
        ({}, {}, "a/d1#10"),
        ({"dialogue": "d1"}, {}, "a/d2#10"),
        ({"dialogue": "d2"}, {}, "a/d1#10"),
        ({"exclude": ("d1",)}, {}, "a/d2#10"),
        ({}, {"after": IN_2020}, "a/d1#2"),
        ({}, {"after": IN_2021}, "a/d1#2"),
        ({}, {"before": IN_2022}, "a/d2#10"),
        ({}, {"before": IN_2021}, "b/d1#10"),
        ({}, {"after": IN_2021, "before": IN_2022}, "a/d2#10"),
        ({}, {"exclude_logs": ("a",)}, "b/d1#10"),
        ({}, {"exclude_logs": ("b",)}, "a/d1#10"),
        ({"dialogue": "d1"}, {"exclude_logs": ("b",)}, "a/d2#10"),
        ({"dialogue": "d2", "exclude": ("d3",)}, {"after": IN_2022}, "a/d1#2"),
    ],
)
def test_a_merged_pair_comes_from_the_first_place_that_is_allowed(often, test, how, shown):
    found = found_by(often, asked("tea", **test), **how)
    assert [(one.more["pair"], one.more["count"]) for one in found.references] == [(shown, 4)]
    assert counts_of(found) == {}
    log, _, place = shown.partition("/")
    (one,) = found.references
    assert (one.more["log"], one.more["dialogue"]) == (log, place.partition("#")[0])
    times = {"a/d1#2": "2022-06-01T00:00:00+00:00", "a/d2#10": "2021-06-01T00:00:00+00:00"}
    assert one.more.get("time") == {**times, "b/d1#10": "2020-06-01T00:00:00+00:00"}.get(shown)


@pytest.mark.parametrize(
    ("test", "how", "reason"),
    [
        ({"dialogue": "d1", "exclude": ("d2",)}, {}, "own_dialogue"),
        ({"dialogue": "d2", "exclude": ("d1",)}, {}, "dialogue"),
        ({"exclude": ("d1", "d2")}, {}, "dialogue"),
        ({}, {"before": IN_2020}, "time"),
        ({}, {"exclude_logs": ("a", "b")}, "log"),
        ({"dialogue": "d2"}, {"exclude_logs": ("a", "b")}, "log"),
        ({"exclude": ("d1",)}, {"before": IN_2021, "exclude_logs": ("b",)}, "dialogue"),
        # where there are several reasons, the first of the list counts
        ({"dialogue": "d1", "exclude": ("d1", "d2")}, {}, "own_dialogue"),
        ({"dialogue": "d1", "exclude": ("d2",)}, {"before": IN_2020}, "own_dialogue"),
        ({"exclude": ("d1", "d2")}, {"before": IN_2020}, "dialogue"),
        ({"exclude": ("d1", "d2")}, {"exclude_logs": ("a", "b")}, "dialogue"),
        ({}, {"before": IN_2020, "exclude_logs": ("a", "b")}, "time"),
    ],
)
def test_fully_excluded_merged_pair_counts_for_the_first_reason(often, test, how, reason):
    found = found_by(often, asked("tea", **test), **how)
    assert (found.references, counts_of(found)) == ((), {reason: 1})


def test_the_reasons_have_the_names_that_answers_show():
    assert [reason.name.lower() for reason in ExclusionReason][1:] == [
        "test_pair",
        "gold",
        "near_gold",
        "parrot",
        "near_parrot",
        "own_dialogue",
        "dialogue",
        "time",
        "log",
        "duplicate",
    ]


# ── utterance and response ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def answers(index_of):
    return index_of(
        pairs_of(
            ("tea", FOUR_YESES),  # caa1…
            ("tea", "no"),  # 9390…
            ("tea", "nope"),  # ca37…
            ("tea", "of course"),  # 19e2…, no vector
            (FOUR_TEAS, "yes please"),
            (FOUR_TEAS, FOUR_NOES),
            ("coffee", "yes yes"),
            ("nay", "yes yes yes"),
        )
    )


def test_in_dialog_mode_both_similarities_count(answers):
    found = found_by(answers, asked("tea", "yes"), mode="embedding-dialog")
    assert ranked(found) == [
        (0.45, FOUR_YESES),  # 1 · (½ · .8 + ½ · .1)
        (0.44, "yes please"),  # .8 · (½ · 1 + ½ · .1)
        (0.28, FOUR_NOES),  # .8 · (½ · .6 + ½ · .1)
        (0.05, "of course"),  # 1 · (½ · 0 + ½ · .1)
        (0.05, "no"),
        (0.05, "nope"),  # its cosine of −1 is clipped
    ]  # the utterances with a similarity of 0 and −1 are not among the candidates
    assert counts_of(found) == {}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"alpha": 1}, [(0.8, "yes please"), (0.8, FOUR_YESES), (0.48, FOUR_NOES), (0.0, "of course")]),
        ({"alpha": 0, "epsilon": 1}, [(1.0, "of course"), (1.0, "no"), (1.0, "nope"), (1.0, FOUR_YESES)]),
        ({"alpha": 0.25, "epsilon": 0.2}, [(0.35, FOUR_YESES), (0.32, "yes please"), (0.24, FOUR_NOES)]),
        ({"depth": 4}, [(0.45, FOUR_YESES), (0.44, "yes please"), (0.28, FOUR_NOES), (0.05, "of course")]),
    ],
)
def test_how_much_the_response_counts_can_be_said(answers, how, expected):
    found = found_by(answers, asked("tea", "yes"), mode="embedding-dialog", k=len(expected), **how)
    assert ranked(found) == expected


def test_only_the_first_gold_is_compared_but_all_are_excluded(answers):
    found = found_by(answers, asked("tea", "yes", "no", FOUR_YESES), mode="embedding-dialog", k=2)
    assert ranked(found) == [(0.44, "yes please"), (0.05, "of course")]
    # Seven words, all in both; the "no" would come later.
    assert counts_of(found) == {"test_pair": 1, "near_gold": 1}
    other_first = found_by(answers, asked("tea", "no", "yes"), mode="embedding-dialog", k=2)
    assert ranked(other_first) == [(0.36, FOUR_NOES), (0.35, FOUR_YESES)]  # .8 · (.4 + .05), 1 · (.3 + .05)


@pytest.mark.parametrize(
    ("mode", "test", "note"),
    [
        ("embedding-utterance", Item(id="t", references=(Reference(text="yes"),)), "no_utterance"),
        ("embedding-utterance", asked("  "), "no_utterance"),
        ("embedding-utterance", asked("never seen", "yes"), "no_known_word"),
        ("embedding-dialog", Item(id="t"), "no_utterance"),
        ("embedding-dialog", asked("never seen"), "no_gold"),
        ("embedding-dialog", asked("tea", Reference(text="yes", source=Origin.SUPPLIED, weight=1.0)), "no_gold"),
        ("embedding-dialog", asked("tea", "of course"), "no_known_word"),
        ("bm25-utterance", asked("never seen"), "no_known_word"),
        ("bm25-dialog", asked("tea", "never seen", "yes"), "no_known_word"),
        ("bm25-dialog", asked("tea"), "no_gold"),
    ],
)
def test_a_test_pair_that_cannot_be_looked_for_says_why(answers, mode, test, note):
    other = asked("tea", "yes")
    alone, with_others = (
        answers.search([test], SearchSettings(mode=mode)),
        answers.search([other, test, other], SearchSettings(mode=mode)),
    )
    assert (alone[0].references, alone[0].search_notes) == ((), {"note": note})
    assert with_others[1] == alone[0]
    assert with_others[0] == with_others[2]
    assert with_others[0].references
    assert "note" not in with_others[0].search_notes


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def menu(index_of):
    """Of four utterances with five words, tea and coffee are in two each; of the responses, yes in three of four."""
    return index_of(pairs_of(("tea", "yes"), ("coffee tea", "yes no"), ("coffee", "yes so"), ("so", "no")))


def test_bm25_is_that_of_lucene_with_the_idf_of_the_log(menu):
    """ln(1 + 2.5 / 2.5) · 1 / (1 + 1.2 · (¼ + ¾ · length / 1.25)): ln 2 / 2.02 and ln 2 / 2.74."""
    assert ranked(found_by(menu, asked("tea"), mode="bm25-utterance")) == [(0.343142, "yes"), (0.252973, "yes no")]
    twice = found_by(menu, asked("tea, tea"), mode="bm25-utterance")
    assert ranked(twice) == [(0.686284, "yes"), (0.505947, "yes no")]  # the comma is in no text
    both = found_by(menu, asked("coffee tea"), mode="bm25-utterance")
    assert [text for _, text in ranked(both)] == ["yes no", "yes so", "yes"]
    assert [similarity for similarity, _ in ranked(both)] == [0.505947, 0.343142, 0.343142]


def test_in_dialog_mode_bm25_is_a_share_of_what_a_text_gives_itself(menu):
    """Of an utterance by the words of utterances: .252973 / .343142; of a response by those of responses.

    There are four of these with six words, two with a no (idf ln 2) and three with a yes (ln(1 + 1.5 / 3.5)). In a text
    of one word, a word has 1 / 1.9 of its idf, in one of two words 1 / 2.5: "yes" is worth .356675 / 1.9 = .187724 to
    "yes no", which is worth (.356675 + .693147) / 2.5 = .419929 to itself.
    """
    of_utterances = found_by(menu, asked("tea", "so"), mode="bm25-dialog", alpha=0, epsilon=1)
    assert ranked(of_utterances) == [(1.0, "yes"), (0.737225, "yes no")]
    of_responses = found_by(menu, asked("tea", "yes no"), mode="bm25-dialog", alpha=1)
    assert (ranked(of_responses), counts_of(of_responses)) == ([(0.447037, "yes")], {"gold": 1})
