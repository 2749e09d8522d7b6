"""Normalisation and the tokenizers: exact examples, laws, and agreement with the libraries they follow."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import re
import string
import subprocess
import sys
import unicodedata
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import ipadic
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from refusals import refusing
from sacrebleu.metrics import BLEU
from safeguards import mostly_slow

import refaug.core.text.normalisation
import refaug.core.text.tokenizers
from refaug.core.errors import Corrupt, MissingPart, NotFound, Usage
from refaug.core.text.normalisation import normalise, normalised_words
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_base import Tokenizer, WordTokenizer
from refaug.core.text.tokenizers import TOKENIZERS, default_tokenizer, get_tokenizer

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates too
FIXED_NAMES = ["word", "char", "13a", "intl", "mecab", "mecab:unidic-lite"]
# Dense in what the rules are about: digits beside punctuation, entities, hyphens at line ends, odd white space.
MTEVAL_TEXT = st.lists(
    st.sampled_from(
        [*"ab01٣½.,-'!?:;()<>&$|~_ ", "\n", "-\n", "\r", "\x1c", "\x85", "\u2028", "&quot;", "&amp;", "&lt;", "&gt;",
         "<skipped>", "…", "“", "—", "€", "。", "犬", "é", "e\u0301", "😂", "\ud800", "\0", "3.50", "1,000", " . "]
    ),
    max_size=30,
).map("".join)  # fmt: skip
PUNCTUATION_TEXT = st.text(
    st.sampled_from([c for c in map(chr, range(0x3100)) if unicodedata.category(c)[0] == "P" or c in "^`\t\0 "]),
    min_size=1,
    max_size=6,
)


# Normalisation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Hello,   World!!", "hello world"),
        ("  tabs\tand\nlines ", "tabs and lines"),
        ("don't", "don t"),
        ("$3.50 + tax", "$3 50 + tax"),
        ("see <URL>, <user_1>", "see <url> <user 1>"),
        ("<3 ~ a|b = c", "<3 ~ a|b = c"),
        ("a^b`c", "a b c"),
        ("zero\u200bwidth\x00nul", "zero width nul"),
        ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"),
        ("Straße ﬁne Σίσυφος", "strasse fine σίσυφοσ"),
        ("今日は、良い天気。", "今日は 良い天気"),
        ("good 👍🏽😂!", "good 👍 😂"),
        ("it´s ¨ \u0301 nai\u0308ve‗", "it s naïve"),
        ("´!", "\u0301!"),
        ("?", "?"),
        ("?!", "?!"),
        ("...", "..."),
        ("…", "..."),
        ("! \n ?", "! ?"),
        ("？", "?"),
        (" \t ", ""),
        ("\u200b", ""),
        ("\u200b?", "?"),
        ("\ud800A", "\ud800a"),
    ],
)
def test_a_text_is_normalised_to_exactly_this(text: str, expected: str) -> None:
    assert normalise(text) == expected


@settings(max_examples=50, deadline=None)
@given(ANY_TEXT)
@example("\u0345\u0301")
@example("α\u0345\u0308Ά")
@example("´")
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_normalising_twice_changes_nothing_for_any_character_between_marks() -> None:
    texts = [f"a{chr(code_point)}\u0345\u0301b" for code_point in range(0, 0x32000, 3)]
    once = [normalise(text) for text in texts]
    assert [normalise(text) for text in once] == once


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_the_quick_path_for_ascii_gives_what_the_general_one_gives(text: str) -> None:
    assert normalise(text) == refaug.core.text.normalisation._normalise_any(text)


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab I.'-^\t\x00\u2019\u2018\u201c\u201d\u2026\u2013\u2014\u00a0é\u0301´。"), max_size=12)
)
def test_the_quick_path_for_marks_of_typography_gives_what_the_general_one_gives(text: str) -> None:
    expected = refaug.core.text.normalisation._normalise_any(text)
    assert normalise(text) == expected
    assert normalised_words(text) == expected.split()


@settings(deadline=None)
@given(st.text(st.sampled_from("abcxyz ßéöœñçабвжщ.,!?<>$7αβγςσάϊ日本"), max_size=40))
def test_case_makes_no_difference(text: str) -> None:
    assert normalise(text.upper()) == normalise(text) == normalise(text.title())


@settings(deadline=None)
@given(st.lists(st.sampled_from(["hello", "Größe", "<url>", "7", "日本", "+"]), min_size=1), PUNCTUATION_TEXT)
def test_punctuation_and_white_space_make_no_difference_between_words(words: list[str], between: str) -> None:
    assert normalise(between.join(["", *words, ""])) == normalise(" ".join(words))


@settings(deadline=None)
@given(ANY_TEXT)
def test_only_an_invisible_text_is_normalised_to_nothing(text: str) -> None:
    visible = [c for c in text if not c.isspace() and unicodedata.category(c) not in {"Cc", "Cf"}]
    assert bool(normalise(text)) == bool(visible)


# Every tokenizer


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece model, trained directly with the library."""
    model = io.BytesIO()
    sentences = [f"the {noun} {verb} on the {place}" for noun in NOUNS for verb in VERBS for place in PLACES]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, model_type="unigram", vocab_size=30,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, user_defined_symbols=["<url>"], minloglevel=2,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("models") / "chat en.model"
    path.write_bytes(model.getvalue())
    return path


NOUNS = ["cat", "dog", "bird", "horse", "mouse"]
VERBS = ["sat", "slept", "sang", "jumped"]
PLACES = ["mat", "roof", "table", "hill"]


@pytest.fixture(scope="session")
def all_tokenizers(model_file: Path) -> list[Tokenizer]:
    return [*map(get_tokenizer, FIXED_NAMES), open_sentencepiece(model_file)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(ANY_TEXT, MTEVAL_TEXT), max_size=8))
def test_a_batch_gives_the_same_tokens_as_one_by_one(all_tokenizers: list[Tokenizer], texts: list[str]) -> None:
    for tokenizer in all_tokenizers:
        assert tokenizer.tokenize_batch(texts) == [tokenizer.tokenize(text) for text in texts]


@settings(max_examples=40, deadline=None)
@given(ANY_TEXT)
def test_no_token_is_empty_or_holds_white_space(all_tokenizers: list[Tokenizer], text: str) -> None:
    for tokenizer in all_tokenizers:
        assert [token for token in tokenizer.tokenize(text) if token.split() != [token]] == []


def test_a_text_without_content_has_no_tokens(all_tokenizers: list[Tokenizer]) -> None:
    for tokenizer in all_tokenizers:
        assert tokenizer.tokenize_batch(["", " ", "\n\t \u3000", "\r\n"]) == [[], [], [], []]
        assert tokenizer.tokenize_batch([]) == []


def test_more_texts_than_are_joined_at_once_come_back_in_order(all_tokenizers: list[Tokenizer]) -> None:
    texts = [f"text {number}, with 3.{number}" for number in range(1200)]
    for tokenizer in all_tokenizers:
        assert tokenizer.tokenize_batch(texts) == [tokenizer.tokenize(text) for text in texts]


@pytest.mark.parametrize(
    "unit",
    mostly_slow(
        ["a", "1", "1.", "a'", "!", "<a", "ハ", "犬", "\u0301", "e\u0301", "😂", " ", "\u3000"], quick=[0, 3, 6, 9]
    ),
)
def test_one_hundred_thousand_characters_without_a_break_lose_nothing(
    all_tokenizers: list[Tokenizer], unit: str
) -> None:
    text = "x " + unit * (100_000 // len(unit)) + " x"
    for tokenizer in all_tokenizers:
        if tokenizer.name.startswith(("char", "13a", "intl", "mecab")):
            assert "".join(tokenizer.tokenize(text)) == "".join(text.split())
        else:
            tokens = tokenizer.tokenize(text)
            assert [tokens[0].strip("▁") or tokens[1], tokens[-1].strip("▁")] == ["x", "x"]


def test_one_hundred_thousand_words_are_all_found() -> None:
    for name in FIXED_NAMES:
        expected = list("dog") * 100_000 if name == "char" else ["dog"] * 100_000
        assert get_tokenizer(name).tokenize("dog " * 100_000) == expected


def test_lone_surrogates_and_nul_have_a_defined_result() -> None:
    text = "a\ud800b \0 \udfff"
    assert {name: get_tokenizer(name).tokenize(text) for name in FIXED_NAMES} == {
        "word": ["a", "\ud800", "b", "\udfff"],
        "char": ["a", "\ud800", "b", "\0", "\udfff"],
        "13a": ["a\ud800b", "\0", "\udfff"],
        "intl": ["a\ud800b", "\0", "\udfff"],
        "mecab": ["a", "\ufffd", "b", "\ufffd"],
        "mecab:unidic-lite": ["a", "\ufffd", "b", "\ufffd"],
    }


def test_the_list_for_help_names_every_tokenizer_and_each_can_be_had() -> None:
    assert [kind.spelling for kind in TOKENIZERS] == [*FIXED_NAMES, "sentencepiece:<model>"]
    assert [get_tokenizer(name).name for name in FIXED_NAMES] == FIXED_NAMES


def test_asking_again_gives_the_same_tokenizer(model_file: Path) -> None:
    for name in [*FIXED_NAMES, f"sentencepiece:{model_file}"]:
        assert get_tokenizer(name) is get_tokenizer(name)
    assert get_tokenizer("mecab:ipadic") is get_tokenizer("mecab")


@pytest.mark.parametrize("name", ["", "Word", "mecab:neologd", "sentencepiece", "sentencepiece:", "word:x"])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(Usage) as refused:
        get_tokenizer(name)
    assert repr(name) in refused.value.message
    assert refused.value.remedy == ("one of: word, char, 13a, intl, mecab, mecab:unidic-lite, sentencepiece:<model>")


@pytest.mark.parametrize(
    ("language", "name"),
    [
        *(("ja", "mecab"), ("ja-JP", "mecab"), ("JA_jp", "mecab"), ("zh-Hant", "char"), ("th", "char")),
        *(("en", "word"), ("de-AT", "word"), ("jam", "word")),
    ],
)
def test_languages_without_spaces_are_not_tokenized_by_words(language: str, name: str) -> None:
    assert default_tokenizer(language) == name


def test_versions_name_the_libraries_and_dictionaries_behind_the_tokens(
    all_tokenizers: list[Tokenizer],
) -> None:
    number = r"\d[\w.]*"
    expected = [
        rf"unicode {number}",
        rf"unicode {number}",
        r"mteval-v13a as in sacrebleu 2\.6\.0",
        rf"mteval-v14 as in sacrebleu 2\.6\.0, regex {number}",
        rf"fugashi {number}, ipadic {number}",
        rf"fugashi {number}, unidic-lite {number}",
        rf"sentencepiece {number}",
    ]
    for tokenizer, pattern in zip(all_tokenizers, expected, strict=True):
        assert re.fullmatch(pattern, tokenizer.version)


def test_a_tokenizer_survives_pickling_as_itself(all_tokenizers: list[Tokenizer]) -> None:
    for tokenizer in all_tokenizers:
        assert pickle.loads(pickle.dumps(tokenizer)) is tokenizer


def test_a_spawned_process_tokenizes_alike(all_tokenizers: list[Tokenizer]) -> None:
    text = "今日は dogs, 3.50 <url>"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        elsewhere = list(pool.map(_tokenize_with, all_tokenizers, [text] * len(all_tokenizers)))
    assert elsewhere == [tokenizer.tokenize(text) for tokenizer in all_tokenizers]


def _tokenize_with(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.tokenize(text)


def test_threads_can_share_a_tokenizer(all_tokenizers: list[Tokenizer]) -> None:
    texts = [f"今日は{number}匹の犬、 dogs and {number} cats." for number in range(200)]
    for tokenizer in all_tokenizers:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(tokenizer.tokenize, texts)) == tokenizer.tokenize_batch(texts)


def test_importing_the_module_imports_no_heavy_library() -> None:
    heavy = ["sacrebleu", "fugashi", "sentencepiece", "regex"]
    script = f"import sys, refaug.core.text.tokenizers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


ROOT = Path(refaug.core.text.tokenizers.__file__).parents[1]


# Words and characters


def examples_in_docstring() -> list[tuple[str, list[str]]]:
    examples = []
    for line in (WordTokenizer.__doc__ or "").splitlines():
        if line.strip().startswith("| `"):
            text, tokens, _ = line.strip()[2:].split(" | ", 2)
            examples.append((text.strip()[1:-1], re.findall("`([^`]+)`", tokens)))
    return examples


@pytest.mark.parametrize(("text", "tokens"), examples_in_docstring())
def test_words_are_as_the_documentation_shows(text: str, tokens: list[str]) -> None:
    assert get_tokenizer("word").tokenize(text) == tokens


def test_the_documentation_shows_seven_examples() -> None:
    assert len(examples_in_docstring()) == 7


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("rock'n'roll", ["rock'n'roll"]),
        ("a''b", ["a", "''", "b"]),
        ("v2.0 192.168.0.1 1.,2", ["v2.0", "192.168.0.1", "1", ".", ",", "2"]),
        ("5.ok ok.5", ["5", ".", "ok", "ok", ".", "5"]),
        ("<user_1> <a b> <1>", ["<user_1>", "<", "a", "b", ">", "<", "1", ">"]),
        ("</b> <<url>> <<a é<<<url>", ["<", "/", "b", ">", "<", "<url>", ">", "<<", "a", "é", "<<", "<url>"]),
        ("</b> <<url>> <<a <<<url>", ["<", "/", "b", ">", "<", "<url>", ">", "<<", "a", "<<", "<url>"]),
        ("--- ?!?! ==", ["---", "?", "!", "?", "!", "=="]),
        ("“quoted” – …… 。。", ["“", "quoted", "”", "–", "……", "。。"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("नमस्ते می\u200cخواهم", ["नमस्ते", "می\u200cخواهم"]),
        ("❤️ 👩\u200d👧 👍🏽", ["❤", "👩", "👧", "👍", "🏽"]),
        ("€€ ××", ["€", "€", "×", "×"]),
        ("٣.٥ ½", ["٣.٥", "½"]),
        ("\u202eשלום\u202c!", ["שלום", "!"]),
        ("a\x07b\u200bc", ["a", "b", "c"]),
        ("ΟΔΟΣ İ", ["οδος", "i̇"]),
    ],
)  # fmt: skip
def test_words_in_awkward_places(text: str, tokens: list[str]) -> None:
    assert get_tokenizer("word").tokenize(text) == tokens


@settings(max_examples=50, deadline=None)
@given(st.one_of(ANY_TEXT, MTEVAL_TEXT))
def test_words_joined_by_spaces_give_the_same_words(text: str) -> None:
    tokens = get_tokenizer("word").tokenize(text)
    assert get_tokenizer("word").tokenize(" ".join(tokens)) == tokens


@settings(deadline=None)
@given(st.text(st.sampled_from(string.printable), max_size=40))
def test_words_of_ascii_do_not_depend_on_what_else_is_in_the_text(text: str) -> None:
    assert get_tokenizer("word").tokenize(f"{text} é") == [*get_tokenizer("word").tokenize(text), "é"]


@settings(deadline=None)
@given(ANY_TEXT)
def test_characters_are_all_code_points_but_white_space(text: str) -> None:
    assert get_tokenizer("char").tokenize(text) == [c for c in text if not c.isspace()]


# Agreement with sacrebleu


@settings(max_examples=50, deadline=None)
@given(st.one_of(MTEVAL_TEXT, ANY_TEXT))
@example("-<skipped>\n")
@example("<skip<skipped>ped>\nx")
@example("&amp;quot; a..5 1...5 1-2 5-a")
@example(".5 .. 1999. ")
def test_the_tokens_of_13a_and_intl_are_those_of_sacrebleu(text: str) -> None:
    for name, bleu in SACREBLEU.items():
        assert get_tokenizer(name).tokenize(text) == bleu._preprocess_segment(text).split()


SACREBLEU = {"13a": BLEU(tokenize="13a"), "intl": BLEU(tokenize="intl")}


def test_every_symbol_character_is_tokenized_as_in_sacrebleu() -> None:
    texts = [f"a{c}b {c}1 1{c} {c}{c} 1{c}2" for c in map(chr, range(0, 0x20000, 7)) if not c.isspace()]
    bleu = SACREBLEU["intl"]
    tokenize = bleu.tokenizer.__call__.__wrapped__  # without its cache of texts
    assert get_tokenizer("intl").tokenize_batch(texts) == [tokenize(bleu.tokenizer, text).split() for text in texts]


# Japanese


def test_mecab_splits_japanese_into_words_of_its_dictionary() -> None:
    text = "私は今日は東京へ行きました。すもももももももものうち"
    assert get_tokenizer("mecab").tokenize(text) == [
        "私", "は", "今日", "は", "東京", "へ", "行き", "まし", "た", "。",
        "すもも", "も", "もも", "も", "もも", "の", "うち",
    ]  # fmt: skip
    assert get_tokenizer("mecab:unidic-lite").tokenize("国家公務員です。") == ["国家", "公務", "員", "です", "。"]


def test_mecab_cuts_a_long_text_only_after_a_sentence() -> None:
    sentence = "私は今日は東京へ行きました。"
    words = get_tokenizer("mecab").tokenize(sentence)
    assert get_tokenizer("mecab").tokenize(sentence * 2000) == words * 2000


def made_anew(name: str) -> Tokenizer:
    """Past the cache of tokenizers already made."""
    kind, *arguments = refaug.core.text.tokenizers._MAKERS[name]
    return kind(*arguments)


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [
        ("fugashi", "mecab", "fugashi"),
        ("ipadic", "mecab", "ipadic"),
        ("unidic_lite", "mecab:unidic-lite", "unidic-lite"),
        ("regex", "intl", "regex"),
    ],
)
def test_a_missing_library_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPart) as refused:
        made_anew(name)
    assert refused.value.remedy == f"pip install {package}"
    assert all(str(fact) in refused.value.message for fact in (name, package))


def test_a_broken_dictionary_is_a_missing_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ipadic, "DICDIR", str(tmp_path))
    with refusing(MissingPart, "ipadic"):
        made_anew("mecab")


# SentencePiece


def test_a_sentencepiece_model_is_named_by_its_content(model_file: Path, tmp_path: Path) -> None:
    tokenizer = get_tokenizer(f"sentencepiece:{model_file}")
    assert re.fullmatch(r"sentencepiece:chat-en#[0-9a-f]{12}", tokenizer.name)
    elsewhere = tmp_path / model_file.name
    elsewhere.write_bytes(model_file.read_bytes())
    assert get_tokenizer(f"sentencepiece:{elsewhere}").name == tokenizer.name


def test_sentencepiece_gives_pieces_and_their_ids(model_file: Path) -> None:
    tokenizer = open_sentencepiece(model_file)
    assert (tokenizer.vocab_size, tokenizer.pad_id, tokenizer.unk_id) == (30, 0, 1)
    assert tokenizer.pieces[:3] == ["<pad>", "<unk>", "<url>"]
    texts = ["the cat sat on <url>", "", "the ж", "\ud800\0"]
    assert tokenizer.tokenize_batch(texts) == [
        ["▁t", "h", "e", "▁", "c", "at", "▁sa", "t", "▁", "o", "n", "▁", "<url>"],
        [],
        ["▁t", "h", "e", "▁", "ж"],
        [],
    ]
    piece_ids = {piece: index for index, piece in enumerate(tokenizer.pieces)}
    expected = [[piece_ids.get(piece, tokenizer.unk_id) for piece in tokenizer.tokenize(text)] for text in texts]
    assert tokenizer.encode_ids_batch(texts) == [tokenizer.encode_ids_batch([text])[0] for text in texts] == expected


def test_a_model_file_that_was_replaced_is_opened_anew(model_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "changing.model"
    path.write_bytes(model_file.read_bytes())
    before = open_sentencepiece(path)
    pickled = pickle.dumps(before)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abc abd"] * 9), model_writer=model, vocab_size=8, minloglevel=2, bos_id=-1, eos_id=-1
    )
    path.write_bytes(model.getvalue())
    after = open_sentencepiece(path)
    assert after.name != before.name
    assert after.pad_id is None
    with refusing(Corrupt):
        pickle.loads(pickled)


@pytest.mark.parametrize("name", ["missing.model", "folder", "nul\0.model", "chat-en#0123456789ab"])
def test_a_model_that_cannot_be_read_is_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFound) as refused:
        get_tokenizer(f"sentencepiece:{tmp_path / name}")
    assert "path/to/name.model" in refused.value.remedy


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"not a model at all\n" * 30, None])
def test_a_file_that_is_no_model_is_corrupt(
    tmp_path: Path, model_file: Path, content: bytes | None, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.model"
    path.write_bytes(model_file.read_bytes()[:400] if content is None else content)
    with refusing(Corrupt):
        open_sentencepiece(path)
    assert capfd.readouterr().err == ""


def test_sentencepiece_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, model_file: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingPart) as refused:
        SentencePieceTokenizer(model_file, model_file.read_bytes())
    assert refused.value.remedy == "pip install sentencepiece"
