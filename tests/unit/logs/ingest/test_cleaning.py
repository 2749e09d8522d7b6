"""Every cleaning rule alone and all together, and the law that the quick way and the slow way are one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safeguards import mostly_slow

from refaug.core.errors import Usage
from refaug.core.text.normalisation import normalise
from refaug.logs.ingest.cleaning import (
    FILTERS,
    MARKUPS,
    REPAIRS,
    SCRIPTS,
    Cleaner,
    CleaningSettings,
    CleanTexts,
    has_long_run,
    is_bot,
    is_text,
    script_of,
    skeleton,
)

ALL = (*REPAIRS, *FILTERS)


def cleaned(text: str, *rules: str, **how: Any) -> str | None:
    """One text after these rules only (or all); None where it is dropped."""
    return Cleaner(CleaningSettings(rules=rules or ALL, **how)).clean([text]).texts[0]


def reason(text: str, *rules: str, **how: Any) -> str | None:
    return Cleaner(CleaningSettings(rules=rules or ALL, **how)).clean([text]).reasons.get(0)


# ── repairs ───────────────────────────────────────────────────────────────────────────────────────────────────────

REPAIRED: list[tuple[str, str, str]] = [
    ("nfc", "cafe\u0301", "café"),
    ("nfc", "\u1112\u1161\u11ab", "한"),
    ("nfc", "ﬁ ① ＡＢ", "ﬁ ① ＡＢ"),
    ("entities", "you &amp; me &lt;3 &#39;til &quot;late&quot;", 'you & me <3 \'til "late"'),
    ("entities", "it&amp;#39;s", "it's"),
    ("entities", "&amp;amp;amp;", "&amp;"),
    ("entities", "AT&T, R&D & so on", "AT&T, R&D & so on"),
    ("entities", "&#x1F602; &#128514; &nbsp;!", "😂 😂 \xa0!"),
    ("entities", "&#" + "9" * 5000 + ";", "&#" + "9" * 5000 + ";"),
    ("entities", "&#xD800;", "\ufffd"),
    ("control", "nu\0ll be\x07ll es\x1bc", "null bell esc"),
    ("control", "\u200b\ufeffze\u00adro\u2060\u200e\u061c", "zero"),
    ("control", "a\tb\nc\rd\x85e\u2028f", "a\tb\nc\rd\x85e\u2028f"),
    ("control", "می\u200cخواهم 👨\u200d👩\u200d👧", "می\u200cخواهم 👨\u200d👩\u200d👧"),
    ("urls", "see https://a.example/x?y=1&z=2#w, please", "see <url>, please"),
    ("urls", "(at www.a.example/b).", "(at <url>)."),
    ("urls", "Www.a.example WWW.A.EXAMPLE Http://b.example FTP://c.example/d", "<url> <url> <url> <url>"),
    ("urls", 'he said "http://a.example" and <http://b.example>', 'he said "<url>" and <<url>>'),
    ("urls", "ここhttps://a.example/bです。", "ここ<url>。"),
    ("urls", "awww.how cute, www. or http:// alone", "awww.how cute, www. or http:// alone"),
    ("emails", "write to ann.lee+x@mail.a-b.example!", "write to <email>!"),
    ("emails", "連絡はann@b.exampleまで", "連絡は<email>まで"),
    ("emails", "müller@straße.example, a@b, a @ b, @a.example", "<email>, a@b, a @ b, @a.example"),
    ("users", "@ann thanks, @bo_b.c and @d!", "<user> thanks, <user> and <user>!"),
    ("users", ".@ann said", ".<user> said"),
    ("users", "ねえ@annさん", "ねえ<user>さん"),
    ("users", "me@home, a/@b, @@ann, 5 @ 3", "me@home, a/@b, @@ann, 5 @ 3"),
    ("spaces", " a  b\t\nc\u3000d\xa0 ", "a b c d"),
]


@pytest.mark.parametrize(("rule", "text", "expected"), REPAIRED)
def test_a_repair_alone_changes_what_it_is_for(rule: str, text: str, expected: str) -> None:
    done = Cleaner(CleaningSettings(rules=(rule,), max_chars=10_000)).clean([text])
    assert done.texts == [expected]
    assert done.changed == ({rule: 1} if expected != text else {})


@pytest.mark.parametrize(("rule", "text", "expected"), REPAIRED)
def test_a_repair_that_is_switched_off_changes_nothing(rule: str, text: str, expected: str) -> None:
    rules = tuple(name for name in REPAIRS if name != rule)
    done = Cleaner(CleaningSettings(rules=rules)).clean([text])
    assert done.texts != [expected] or expected == text
    assert done.changed[rule] == 0


def test_repairs_run_in_their_order_and_each_counts_the_texts_it_changed() -> None:
    done = Cleaner(CleaningSettings(markup="html")).clean(
        [
            "&lt;b&gt;e&#769;\0&lt;/b&gt;  www.a.example a@b.example @c",
            "www.a.example/@b and a@b.example",
            "plain",
        ]
    )
    assert done.texts == ["é <url> <email> <user>", "<url> and <email>", "plain"]
    assert done.changed == Counter(
        {"entities": 1, "control": 1, "nfc": 1, "markup": 1, "urls": 2, "emails": 2, "users": 1, "spaces": 1}
    )


def test_composing_comes_after_what_can_bring_letter_and_mark_together() -> None:
    assert cleaned("cafe&#769; cafe\u200b\u0301") == "café café"


def test_every_rule_has_its_line_of_help() -> None:
    assert list(REPAIRS) == ["entities", "control", "nfc", "markup", "urls", "emails", "users", "spaces"]
    assert list(FILTERS) == ["deleted", "bots", "too-long", "too-short", "not-text", "script", "flood"]


# ── mark-up ───────────────────────────────────────────────────────────────────────────────────────────────────────

MARKED_UP: list[tuple[str, str, str]] = [
    ("reddit", "> what you said\n\nNo, I did not.", "\n\nNo, I did not."),
    ("reddit", "a\n  &gt; quoted\nb", "a\n\nb"),
    ("reddit", "5 > 3", "5 > 3"),
    ("reddit", ">!the butler!< did it", "the butler did it"),
    ("reddit", "see [the *docs*](https://a.example/b_(c)) now", "see the docs now"),
    ("reddit", "see [1] and (2) and [3](not a link", "see [1] and (2) and [3](not a link"),
    (
        "reddit",
        "ask /u/ann_lee or u/bo-b, not and/u/eve or menu/abc",
        "ask <user> or <user>, not and/u/eve or menu/abc",
    ),
    ("reddit", "*so* **very** ***much***, ~~no~~ `code`", "so very much, no code"),
    ("reddit", "_so_ __very__ _snake_case_ a_b_c", "so very snake_case a_b_c"),
    ("reddit", "2 * 3 * 4, * alone, a_ _b, **", "2 * 3 * 4, * alone, a_ _b, **"),
    ("reddit", "# Title\n* one\n- two\n12. three\n1984. No", "Title\none\ntwo\nthree\n1984. No"),
    ("reddit", "#1 fan -really", "#1 fan -really"),
    ("slack", "<@U024BE7LH> and <@W1|ann>: <!here> <!subteam^S1|@team>", "<user> and <user>: <user> <user>"),
    ("slack", "in <#C024BE7LR|general> or <#C024BE7LR>", "in general or "),
    ("slack", "<https://a.example|our page> <mailto:a@b.example|a@b.example>", "<url> <email>"),
    ("slack", "1 <2> <@nobody> <x|y>", "1 <2> <@nobody> <x|y>"),
    ("html", 'a<br/>b <a href="x">c</a> </P>', "a b  c   "),
    ("html", "1 < 2, <3, <url> <email> <user>, < b >", "1 < 2, <3, <url> <email> <user>, < b >"),
    ("subtitles", "- Who's there?\n-Me.", "Who's there?\nMe."),
    ("subtitles", "{\\an8}<i>Run!</i> {Y:i}now", "Run! now"),
    ("subtitles", "well - no {brace}", "well - no {brace}"),
    ("twitter", "RT @ann: look at this", "look at this"),
    ("twitter", "he said RT @ann: no", "he said RT @ann: no"),
]


@pytest.mark.parametrize(("markup", "text", "expected"), MARKED_UP)
def test_mark_up_is_taken_off_and_words_stay(markup: str, text: str, expected: str) -> None:
    assert MARKUPS[markup](text) == expected
    assert cleaned(text, "markup", markup=markup) == expected


@pytest.mark.parametrize("markup", [*MARKUPS])
def test_mark_up_stays_where_the_rule_or_the_preset_is_off(markup: str) -> None:
    for text in (text for name, text, _ in MARKED_UP if name == markup):
        assert cleaned(text, "deleted", markup=markup) == text
        assert cleaned(text, "markup", markup="none") == text


UNFINISHED = [
    "<", "<a ", "<@U", "<@U1|", "<#C1|", "<!a", "<http://", "<mailto:", "{\\", "- ", "\n", "\n-", "[a](", "[a](x(", "[",
    "*", " *a", "_", " _a", "a_", "~~a", " `a", "`", ">!", "> ", "&", "&#", "a@", "a.", "@", "www.", "http://,", "A",
    "é", "a ", "é_", "\u0301", "I'm a ",
]  # fmt: skip


@pytest.mark.parametrize("markup", mostly_slow(["none", *MARKUPS], quick=[0, 1]))
def test_marks_without_an_end_are_not_searched_for_over_and_over(markup: str) -> None:
    """A hundred kilobytes of each: a rule that takes the square of that does not come back for minutes."""
    texts = [mark * (100_000 // len(mark)) for mark in UNFINISHED]
    texts += [opening + mark * 90_000 for opening in ("<#C", "<@U1|", "[a](", "[a](b(", " _", "*") for mark in "Aé,"]
    kept = Cleaner(CleaningSettings(markup=markup, language="en")).clean(texts).texts
    assert [text for text in kept if text is not None and len(text) > 2000] == []


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────

DROPPED: list[tuple[str, str]] = [
    ("deleted", "[deleted]"),
    ("deleted", "[Removed]"),
    ("deleted", "( deleted )"),
    ("deleted", "[removed"),
    ("deleted", "[deleted by user]"),
    ("deleted", "[ unavailable ]"),
    *(
        ("bots", text)
        for text in (
            "I am a bot, and this action was performed automatically.",
            "Beep boop! I count words.",
            "Hi, I'm a robot.",
            "hi, i’m a bot",
            "^(performed automatically)",
        )
    ),
    ("not-text", "x" * 101),
    ("not-text", "look " + "aGVsbG8=" * 20),
    ("not-text", "-=-=-=-=-=-=-=-=-=-=-=-"),
    ("not-text", "| | | | ---- | | | ++ |"),
    ("not-text", "caf\ufffd"),
    ("not-text", "▓▓▓░░░▓▓▓░░░▓▓▓░░░"),
    ("not-text", "⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿"),
]
KEPT: list[tuple[str, str]] = [
    ("deleted", "deleted"),
    ("deleted", "it was [deleted]"),
    ("deleted", "[deleted] why?"),
    ("deleted", "(removed the cat)"),
    ("bots", "bots are everywhere"),
    ("bots", "the door opens automatically"),
    ("bots", "I'm a bottle collector"),
    ("bots", "beep"),
    ("not-text", ":-)"),
    ("not-text", "?!?!?!?!"),
    ("not-text", "x" * 100),
    ("not-text", "x" * 100 + " " + "y" * 100),
    ("not-text", "日本" * 80),
    ("not-text", "😂" * 40),
    ("not-text", 'I said ("no", twice) ... and, well, left!?!'),
    ("not-text", "how a caf\ufffd is spelled I do not know"),
]


@pytest.mark.parametrize(("rule", "text"), DROPPED)
def test_a_filter_drops_what_it_is_for_and_only_when_it_is_on(rule: str, text: str) -> None:
    done = Cleaner(CleaningSettings(rules=(rule,))).clean([text])
    assert (done.texts, done.normalised, done.reasons) == ([None], [b""], {0: rule})
    assert reason(text) == rule
    others = tuple(name for name in FILTERS if name != rule)
    assert cleaned(text, *others) == text


@pytest.mark.parametrize(("rule", "text"), KEPT)
def test_a_filter_keeps_what_only_looks_like_it(rule: str, text: str) -> None:
    assert cleaned(text, rule) == text
    assert cleaned(text) == text


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\u200d", "\0", "<b></b>", "&nbsp;", "> quoted"])
def test_a_text_of_which_nothing_is_left_is_empty(text: str) -> None:
    assert reason(text, markup="reddit" if ">" in text and "<" not in text else "html") == "empty"


def test_no_text_is_nothing_even_without_rules() -> None:
    assert reason("  ", "flood") == "empty"
    assert reason("\u200d", "flood") == "empty"
    assert cleaned(" a ", "flood") == " a "


@pytest.mark.parametrize(
    ("text", "bounds", "expected"),
    [
        ("abc", {"min_chars": 3, "max_chars": 3}, None),
        ("abc", {"min_chars": 4}, "too-short"),
        ("abc", {"max_chars": 2}, "too-long"),
        ("日本語", {"min_chars": 3, "max_chars": 3}, None),
        ("日本語", {"min_chars": 4}, "too-short"),
        ("日本語", {"max_chars": 2}, "too-long"),
        (" a  b ", {"min_chars": 3, "max_chars": 3}, None),
        ("a &amp; b", {"max_chars": 5}, None),
        ("", {"min_chars": 0}, "empty"),
        ("a", {"min_chars": 0}, None),
    ],
)
def test_lengths_are_counted_in_characters_after_repair(
    text: str, bounds: dict[str, int], expected: str | None
) -> None:
    assert reason(text, **bounds) == expected
    if expected not in (None, "empty"):
        assert reason(text, *(rule for rule in ALL if rule != expected), **bounds) is None


def test_of_several_reasons_the_first_in_order_is_given() -> None:
    both = "[deleted]"
    assert reason(both, max_chars=3) == "deleted"
    assert reason(both, "too-long", "too-short", max_chars=3) == "too-long"
    assert reason("I'm a bot " + "x" * 101, language="ru") == "bots"
    assert reason("x" * 101, language="ru", max_chars=50) == "too-long"
    assert reason("x" * 101, language="ru") == "not-text"
    assert reason("x" * 50, language="ru") == "script"


SAID: dict[str, str] = {
    "ar": "كيف حالك اليوم",
    "bg": "Как си днес",
    "el": "Τι κάνεις σήμερα",
    "fa": "امروز چطوری",
    "he": "מה שלומך היום",
    "hi": "आप कैसे हैं दोस्त",
    "ja": "今日はラーメンをたべた",
    "ko": "오늘은 어떻게 지내요",
    "ru": "Как дела сегодня",
    "th": "วันนี้เป็นอย่างไรบ้าง",
    "uk": "Як справи сьогодні",
    "zh": "你今天过得怎么样",
    "latin": "How are you today",
}
SAME_LETTERS = [{"ar", "fa"}, {"bg", "ru", "uk"}]


@pytest.mark.parametrize("language", [*SCRIPTS])
def test_a_language_keeps_its_own_script_and_drops_the_others(language: str) -> None:
    asked = "en" if language == "latin" else language
    assert reason(SAID[language], language=asked) is None
    alike = next((group for group in SAME_LETTERS if language in group), {language})
    alike = alike | ({"zh"} if language in {"ja", "ko"} else set())  # Chinese characters are theirs, too
    for other in SAID.keys() - alike:
        assert reason(SAID[other], language=asked) == "script", other
        assert reason(SAID[other], *(rule for rule in ALL if rule != "script"), language=asked) is None


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "größer als früher", None),
        ("ru", "OK", None),
        ("ru", "LOLOL", None),
        ("ru", "LOLOLO", "script"),
        ("ru", "да да да yes yes", None),
        ("ru", "да да yes yes no", "script"),
        ("ru", "www.a.example @ann a@b.example", None),
        ("ru", "да, смотри: www.a.example www.b.example", None),
        ("en", "@ann @bo @cy @di @ed Привет как дела", "script"),
        ("ja", "カラオケー 2024 !!! 😂", None),
        ("hi", "कि the नी", None),
        ("hi", "कि there नीली", "script"),
        ("en", "12345678 ?!?!", None),
    ],
)
def test_the_script_is_that_of_the_letters_that_were_said(language: str, text: str, expected: str | None) -> None:
    assert reason(text, language=language) == expected


def test_without_a_language_every_script_is_kept() -> None:
    assert [reason(text) for text in SAID.values()] == [None] * len(SAID)


def test_scripts_of_languages() -> None:
    assert script_of("en") == script_of("vi") == r"\p{Latin}"
    assert script_of("uk") == r"\p{Cyrillic}"
    assert script_of("klingon") is None


def test_the_platforms_bots_are_known_by_name() -> None:
    assert [is_bot(name) for name in ("AutoModerator", "slackbot", "USLACKBOT", "automod", "", None)] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("x" * 100, False),
        ("x" * 101, True),
        ("a " * 500, False),
        ("a " * 500 + "x" * 101, True),
        ("x" * 50 + " " + "x" * 100 + " y", False),
        ("é" * 500, False),
        ("é" * 150 + "x" * 101, True),
        ("x" * 100 + "\n" + "x" * 100, False),
        ("x" * 60 + "é" + "x" * 60, False),
    ],
)
def test_a_long_run_is_over_a_hundred_ascii_characters_without_a_space(text: str, expected: bool) -> None:
    assert has_long_run(text) is expected


@given(st.lists(st.tuples(st.sampled_from("x y\né"), st.integers(1, 130)), max_size=6))
def test_long_runs_are_found_wherever_they_are(pieces: list[tuple[str, int]]) -> None:
    text = "".join(character * count for character, count in pieces)
    longest = run = 0
    for character in text:
        run = run + 1 if "!" <= character <= "~" else 0
        longest = max(longest, run)
    assert has_long_run(text) is (longest > 100)


def test_what_is_text_can_be_asked_alone() -> None:
    assert [is_text(text) for text in ("hello", "x" * 101, "\ufffd" * 30)] == [True, False, False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("you won 100 dollars click here now to get them", "you won 2500 dollars click here now to get them"),
        ("hello ann your order at <url> has been shipped to you and will be there soon we hope",
         "hello bo your order at <email> has been shipped to you and will be there soon we hope"),
    ],
)  # fmt: skip
def test_the_skeleton_of_near_identical_messages_is_one(one: str, other: str) -> None:
    assert skeleton(one.encode()) == skeleton(other.encode())
    assert len(skeleton(one.encode())) <= 60


def test_the_skeleton_is_the_last_sixty_bytes_without_digits_and_symbols() -> None:
    assert skeleton(b"a1b2 <url> c") == b"ab  c"
    assert skeleton(b"x" * 50 + b"y" * 40) == b"x" * 20 + b"y" * 40
    assert skeleton(b"<3 <b>") == b"< <b>"


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"markup": "latex"}, "no mark-up 'latex'"),
        ({"language": "tlh"}, "the script of language 'tlh' is not known"),
    ],
)
def test_settings_that_make_no_sense_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(Usage) as refused:
        CleaningSettings(**how)
    assert refused.value.message == message


def test_settings_that_are_refused_name_what_there_is() -> None:
    with pytest.raises(Usage) as refused:
        CleaningSettings(markup="latex")
    assert refused.value.remedy == "there are: none, reddit, slack, html, subtitles, twitter"
    with pytest.raises(Usage) as refused:
        CleaningSettings(language="tlh")
    assert refused.value.remedy.startswith("known are: ar, bg, cs, ")
    assert "latin" not in refused.value.remedy


# ── the quick way is the slow way ─────────────────────────────────────────────────────────────────────────────────


def one_by_one(cleaner: Cleaner, texts: list[str]) -> CleanTexts:
    """What cleaning means: the repairs in order, then the first filter that a text falls to."""
    done = CleanTexts(texts=[None] * len(texts), normalised=[b""] * len(texts))
    for index, text in enumerate(texts):
        repaired = cleaner.repair(text, done.changed)
        normalised = normalise(repaired)
        why = cleaner.reason_to_drop(repaired, normalised)
        if why is None:
            done.texts[index], done.normalised[index] = repaired, normalised.encode()
        else:
            done.reasons[index] = why
    return done


TRIGGERS = [
    *"aIbZ059 .,!?'\"-:;%#*/\\^_`{}()[]&<>@$+=|~\t\n\r\0\x1c\x7f", " ", " ", "  ", "word", "Hello there", "OK", "lol",
    "bot", "robot", "I'm a bot", "I am a robot", "beep boop", "beep", "automatically", "performed automatically",
    "www.", "Www.x", "WWW.a.b", "wWw.", "ww.", "://", "http://", "https://a.b/c", "a@b.co", "@you", "&amp;", "&#39;",
    "&lt;i&gt;", "<i>", "</i>", "<url>", "<user>", "<3", "**b**", "_i_", "~~s~~", "`c`", "[x](http://y.z)", "[deleted]",
    "(removed)", "deleted", "- ", "1. ", "# ", "> q", "u/name", "/u/name", "{\\an8}", "{y:i}", "RT @x: ", "<@U1>",
    "<#C1|g>", "<!here>", "100%", "...", "x" * 60, "x" * 99, "x" * 100, "x" * 101, "!" * 40, ".-" * 30, "\u0301", "é",
    "e\u0301", "日本", "ー", "Ж", "привет", "한글", "ไทย", "हिन्दी", "\u200b", "\u200d", "\ufeff", "\ufffd", "😂",
    "█", "\xa0",
]  # fmt: skip
PLAIN_LOOKING = "abcxyzABCXYZ012 .,!?'\"-:;%#*/\\^_`{}()[]"
ANY_TEXTS = st.one_of(
    st.lists(st.sampled_from(TRIGGERS), max_size=8).map("".join),
    st.lists(st.sampled_from(TRIGGERS), max_size=6).map(" ".join),
    st.text(st.sampled_from(PLAIN_LOOKING), max_size=40),
    st.text(st.sampled_from(PLAIN_LOOKING), max_size=40).map(lambda text: f"So{text}."),
    st.text(st.characters(max_codepoint=127), max_size=30),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.tuples(st.sampled_from(["x", "x ", ".", "ab. "]), st.integers(90, 130)).map(lambda run: run[0] * run[1]),
)
ANY_RULES = st.one_of(
    st.just(ALL),
    st.sets(st.sampled_from(ALL)).map(lambda off: tuple(rule for rule in ALL if rule not in off)),
    st.sampled_from(ALL).map(lambda off: tuple(rule for rule in ALL if rule != off)),
)


@st.composite
def any_settings(draw: st.DrawFn) -> CleaningSettings:
    shortest = draw(st.sampled_from([0, 1, 1, 2, 5, 17]))
    return CleaningSettings(
        rules=draw(ANY_RULES),
        markup=draw(st.sampled_from(["none", "none", *MARKUPS])),
        language=draw(st.sampled_from([None, None, "en", "de", "ja", "ru", "hi"])),
        min_chars=shortest,
        max_chars=max(shortest, draw(st.sampled_from([2000, 2000, 6, 30, 100, 110]))),
    )


@given(texts=st.lists(ANY_TEXTS, max_size=12), how=any_settings())
@example(texts=["I'm a bot", "beep, boop", "well  then", "end ", "(a)", "", "?", "Www.x"], how=CleaningSettings())
@example(texts=["-a", "1. a", "a_b_", "Fine"], how=CleaningSettings(markup="reddit"))
@settings(max_examples=50, deadline=None)
def test_cleaning_many_texts_is_cleaning_each(texts: list[str], how: CleaningSettings) -> None:
    cleaner = Cleaner(how)
    quick, slow = cleaner.clean(texts), one_by_one(cleaner, texts)
    assert quick.texts == slow.texts
    assert quick.reasons == slow.reasons
    assert quick.changed == slow.changed
    assert quick.normalised == slow.normalised
    for text, normalised in zip(quick.texts, quick.normalised, strict=True):
        assert normalised == (b"" if text is None else normalise(text).encode())


@given(texts=st.lists(ANY_TEXTS, min_size=1, max_size=8), how=any_settings(), cut=st.integers(0, 8))
@settings(max_examples=50, deadline=None)
def test_what_becomes_of_a_text_does_not_depend_on_its_neighbours(
    texts: list[str], how: CleaningSettings, cut: int
) -> None:
    cleaner = Cleaner(how)
    whole, head, tail = (cleaner.clean(part) for part in (texts, texts[:cut], texts[cut:]))
    assert whole.texts == head.texts + tail.texts
    assert whole.normalised == head.normalised + tail.normalised
    assert whole.changed == head.changed + tail.changed


@given(text=ANY_TEXTS, how=any_settings())
@settings(max_examples=50, deadline=None)
def test_what_is_kept_is_visible_and_within_its_bounds(text: str, how: CleaningSettings) -> None:
    kept = Cleaner(replace(how, rules=ALL)).clean([text]).texts[0]
    if kept is not None:
        assert normalise(kept)
        assert max(1, how.min_chars) <= len(kept) <= how.max_chars
        assert kept == " ".join(kept.split())


def test_dropping_leaves_nothing_of_a_text() -> None:
    done = CleanTexts(texts=["a", "b"], normalised=[b"a", b"b"])
    done.drop(1, "erased")
    assert (done.texts, done.normalised, done.reasons) == (["a", None], [b"a", b""], {1: "erased"})
