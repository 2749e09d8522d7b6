"""METEOR: agreement with nltk and its reader for WordNet, and examples worked out by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import meteor_score, single_meteor_score
from refusals import refusing
from safeguards import require
from wordnet import DEBIAN_WORDNET, EXCEPTIONS, MEANINGS, Meaning, NltkReader, write_wordnet

from refaug.core.errors import Corrupt, MissingPart, NotFound, Usage
from refaug.core.text.tokenizers import get_tokenizer
from refaug.metrics.base import NO_REFERENCE, Level, References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.words.meteor import FILES, Meteor, NoWordNet, WordNet

WORDS = sorted(
    {word.partition("(")[0] for meaning in MEANINGS for word in meaning.words}
    | {form for forms in EXCEPTIONS.values() for form in forms}
    | {"kids", "buying", "purchased", "starts", "begins", "cars", "Cars", "largest", "gladder", "the", "a", ".", "mens"}
)
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wordnet(tmp_path_factory.mktemp("share") / "small wordnet")


@pytest.fixture(scope="module")
def nltk_reader(folder: Path) -> Iterator[NltkReader]:
    reader = NltkReader(folder)
    yield reader
    reader.close()


def score(specification: str, reply: str, references: Sequence[str]) -> float:
    metric = build(specification)
    prepared = metric.prepare([References.unweighted(references)])
    return float(metric.values(metric.statistics([reply], prepared, np.array([0]), np.array([0])), Level.REPLY)[0])


def synonyms(wordnet: WordNet, word: str) -> set[str]:
    return {lemma.name() for synset in wordnet.synsets(word) for lemma in synset.lemmas()}


# WordNet


def test_a_word_has_the_words_of_all_its_meanings_and_of_its_base_forms(folder: Path) -> None:
    wordnet = WordNet.open(folder)
    expected = {
        "kid": {"child", "kid", "youngster", "tease"},
        "kids": {"child", "kid", "youngster", "tease"},
        "children": {"child", "kid", "youngster"},
        "bought": {"buy", "purchase"},
        "purchased": {"buy", "purchase"},
        "start": {"start", "beginning", "begin", "commence"},
        "Cars": {"car", "auto", "automobile"},
        "paris": {"Paris", "City_of_Light"},
        "biggest": set(),  # its base form would be "bigg" or "bigge"
        "bigger": {"large", "big"},
        "felicitous": {"glad", "felicitous"},
        "mens": set(),
        "best": set(),  # its exception is a word that is not there
        "": set(),
    }
    assert {word: synonyms(wordnet, word) for word in expected} == expected


def test_synonyms_are_those_of_nltks_reader(folder: Path, nltk_reader: NltkReader) -> None:
    wordnet = WordNet.open(folder)
    forms = [word + ending for word in WORDS for ending in ("", "s", "es", "ed", "ing", "er", "est", "men", "ies")]
    assert {word: synonyms(wordnet, word) for word in forms} == {word: nltk_reader.synonyms_of(word) for word in forms}


@pytest.mark.machine
def test_synonyms_in_debians_wordnet_are_those_of_nltks_reader() -> None:
    require("wordnet", found=(DEBIAN_WORDNET / "data.noun").is_file(), why="Debian's package wordnet-base")
    wordnet, reader = WordNet.open(DEBIAN_WORDNET), NltkReader(DEBIAN_WORDNET)
    lemmas = [
        line.split()[0] for part in ("noun", "verb", "adj", "adv") for line in lines(DEBIAN_WORDNET / f"index.{part}")
    ]
    irregular = [line.split()[0] for part in ("noun", "verb", "adj") for line in lines(DEBIAN_WORDNET / f"{part}.exc")]
    forms = [
        *lemmas[::97],
        *irregular[::11],
        *(word + "s" for word in lemmas[::499]),
        *(w + "ing" for w in lemmas[::499]),
    ]
    assert {word: synonyms(wordnet, word) for word in forms} == {word: reader.synonyms_of(word) for word in forms}
    assert {"buy", "purchase"} <= synonyms(wordnet, "bought")
    reader.close()


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith(" ")]


def test_it_is_named_by_its_content_and_read_once(folder: Path, tmp_path: Path) -> None:
    wordnet = WordNet.open(folder)
    assert wordnet is WordNet.open(folder)
    name, _, digest = wordnet.name.partition("#")
    assert (name, len(digest)) == ("small-wordnet", 12)
    elsewhere = write_wordnet(tmp_path / "other")
    assert WordNet.open(elsewhere).name == f"other#{digest}"
    write_wordnet(elsewhere, [*MEANINGS, Meaning("noun", ("tea",))])
    assert WordNet.open(elsewhere).name != f"other#{digest}"


@pytest.mark.parametrize("missing", ["data.noun", "index.adv", "verb.exc"])
def test_a_missing_file_is_named_with_the_remedies(tmp_path: Path, missing: str) -> None:
    (write_wordnet(tmp_path / "w") / missing).unlink()
    with pytest.raises(NotFound) as refused:
        build(f"meteor:wordnet={tmp_path / 'w'}")
    assert missing in refused.value.message
    assert refused.value.remedy == "apt-get install wordnet-base, or wordnet=FOLDER, or wordnet=none"


@pytest.mark.parametrize("path", ["nowhere", "nul\0here"])
def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path, path: str) -> None:
    with refusing(NotFound):
        WordNet.open(tmp_path / path)


def test_files_that_do_not_belong_together_are_corrupt(tmp_path: Path) -> None:
    write_wordnet(tmp_path / "w")
    data = (tmp_path / "w" / "data.noun").read_text()
    (tmp_path / "w" / "data.noun").write_text("x" + data)
    with refusing(Corrupt, "data.noun"):
        WordNet.open(tmp_path / "w").synsets("dog")
    (tmp_path / "w" / "data.noun").write_text(data[:100])
    with refusing(Corrupt, "data.noun"):
        WordNet.open(tmp_path / "w").synsets("mouse")
    (tmp_path / "w" / "index.verb").write_text("buy v one 0 1 0 00000077\nbegin v\n")
    for word in ("buy", "begin"):
        with refusing(Corrupt, "index.verb"):
            WordNet.open(tmp_path / "w").synsets(word)


def test_threads_can_share_it(folder: Path) -> None:
    wordnet = WordNet("w", {name: (folder / name).read_bytes() for name in FILES})
    forms = WORDS * 20
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda word: synonyms(wordnet, word), forms)) == [
            synonyms(wordnet, word) for word in forms
        ]


# METEOR


@settings(max_examples=40, deadline=None)
@given(TEXT, st.lists(TEXT.filter(str.strip), min_size=1, max_size=3))
def test_it_is_what_nltk_gives_with_its_own_reader(
    folder: Path, nltk_reader: NltkReader, reply: str, references: list[str]
) -> None:
    tokenize = get_tokenizer("word").tokenize
    expected = meteor_score([tokenize(one) for one in references], tokenize(reply), wordnet=nltk_reader)
    assert score(f"meteor:wordnet={folder}", reply, references) == pytest.approx(expected, abs=1e-12)
    mean = np.mean([single_meteor_score(tokenize(one), tokenize(reply), wordnet=nltk_reader) for one in references])
    assert score(f"meteor:wordnet={folder},multi=mean", reply, references) == pytest.approx(mean, abs=1e-12)


def test_synonyms_make_one_chunk_of_what_are_three_without_them(folder: Path) -> None:
    reply, reference = "the kid will start a car", "the child will begin a auto"
    assert score(f"meteor:wordnet={folder}", reply, [reference]) == pytest.approx(1 - 0.5 * (1 / 6) ** 3)
    # Three of six words match, each a chunk of its own: 1/2 · (1 − 0.5 · 1³).
    assert score("meteor:wordnet=none", reply, [reference]) == pytest.approx(1 / 4)


def test_as_in_nltk_synonyms_are_looked_up_by_their_stems(folder: Path) -> None:
    assert score(f"meteor:wordnet={folder}", "buy", ["purchase"]) == 0  # the stem is "purchas"
    assert score(f"meteor:wordnet={folder}", "autos", ["cars"]) == pytest.approx(0.5)


def test_stems_match_with_and_without_wordnet(folder: Path) -> None:
    for wordnet in (folder, "none"):
        # One chunk of two words; P = R = 1.
        assert score(f"meteor:wordnet={wordnet}", "walked homes", ["walking home"]) == pytest.approx(1 - 0.5 / 8)


def test_alpha_beta_and_gamma_act_as_published() -> None:
    # "a b" in "a b c": P = 1, R = 2/3, one chunk of two matches.
    for alpha, beta, gamma in ((0.9, 3, 0.5), (0.2, 1, 1), (0.5, 0, 0.3), (0, 3, 0.5), (1, 2, 0)):
        expected = (2 / 3) / (alpha + (1 - alpha) * 2 / 3) * (1 - gamma * 0.5**beta)
        specification = f"meteor:wordnet=none,alpha={alpha},beta={beta},gamma={gamma}"
        assert score(specification, "a b", ["a b c"]) == pytest.approx(expected)


def test_case_can_be_kept_where_the_tokenizer_keeps_it() -> None:
    assert score("meteor:wordnet=none,tok=13a", "Red tea", ["red tea"]) < 0.5
    assert score("meteor:wordnet=none,tok=13a,case=lc", "Red tea", ["red tea"]) == pytest.approx(1 - 0.5 / 8)
    with refusing(Usage):
        build("meteor:wordnet=none,case=mixed")


def test_an_empty_reply_scores_0_and_an_empty_reference_is_left_out() -> None:
    assert score("meteor:wordnet=none", "", ["a cat"]) == 0
    assert score("meteor:wordnet=none,multi=mean", "a cat", ["a cat", " "]) == pytest.approx(1 - 0.5 / 8)
    assert build("meteor:wordnet=none").prepare([References.unweighted([""])]).problems == {0: NO_REFERENCE}


def test_the_signature_names_wordnet_by_its_content(folder: Path) -> None:
    metric = build(f"meteor:wordnet={folder}")
    assert metric.settings == {
        "impl": "nltk", "wordnet": WordNet.open(folder).name, "alpha": "0.9", "beta": "3", "gamma": "0.5",
        "refs": "own", "multi": "best", "case": "lc", "tok": "word",
    }  # fmt: skip
    assert metric.versions() == {"nltk": "3.10.4", "tokenizer": get_tokenizer("word").version}
    without = build("meteor:wordnet=none")
    assert without.settings["wordnet"] == "none"
    assert build(Signature.parse(Signature.of(without).full).specification()).settings == without.settings
    assert NoWordNet().synsets("kid") == ()


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(MissingPart) as refused:
        build("meteor:wordnet=none")
    assert refused.value.remedy == "pip install nltk"


def test_a_row_is_the_same_in_any_batch_to_the_last_bit(folder: Path) -> None:
    metric = build(f"meteor:wordnet={folder}")
    assert isinstance(metric, Meteor)
    replies = ["the kid began", "a car . a car", "", "buy big cars"]
    items = [References.unweighted(one) for one in (["the child started", "cars"], ["a large auto", "the kid began"])]
    prepared = metric.prepare(items)
    reply, item = np.array([3, 0, 1, 2, 0, 1, 3]), np.array([0, 1, 1, 0, 0, 0, 1])
    together = metric.statistics(replies, prepared, reply, item)
    for row in range(len(reply)):
        alone = metric.statistics([replies[reply[row]]], prepared, np.array([0]), item[row : row + 1])
        np.testing.assert_array_equal(alone[0], together[row])
