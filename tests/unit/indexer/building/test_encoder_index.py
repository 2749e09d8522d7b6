"""An index whose vectors come from a user's encoder: the same answers as comparing all its vectors."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections import Counter, defaultdict

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder
from indexes import add_to_log, build, home_of, pairs_of
from plain_search import RawPair, merged
from refusals import refusing

from refaug.core.errors import BadInput, Conflict, MissingPart, NotFound, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.core.vectors import encoders
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.index_folders import Places
from refaug.indexer.search.exact_check import check_index
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.vectors import encoder_vectors
from refaug.indexer.vectors.encoder_vectors import encode_index
from refaug.scoring.home.encoders import import_encoder

TEXTS = [
    ("i like tea", "me too"),
    ("i like tea !", "so do i"),
    ("you like the cat", "i do"),
    ("the dog likes tea", "no dog likes tea"),
    ("the big cat drink tea", "really ?"),
    ("not really", "why not ?"),
    ("a cat", "a big one"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    places = Places.under(folder)
    add_to_log(places, "chat", pairs_of(*TEXTS))
    weights = TinyEncoder.seeded()
    write_encoder(folder / "encoder", weights=weights)
    build(places, vectors=None, encoder=folder / "encoder", check_queries=5)
    return places, folder / "encoder", weights


def unit(weights, text):
    """A text's vector as it is kept, rounded to half precision, at unit length."""
    mean = weights.vectors(text).mean(axis=0)
    kept = (mean / np.linalg.norm(mean)).astype(np.float16).astype(np.float64)
    return kept / np.linalg.norm(kept)


def test_references_come_in_the_order_of_the_encoders_own_vectors(home):
    places, _, weights = home
    asked = "the cat likes tea"
    best = {}  # normalised utterance → the surface with the smaller hash
    for utterance, response in TEXTS:
        key = utterance.rstrip(" !?.")
        digest = hashlib.sha256(utterance.encode()).digest()
        best.setdefault(key, []).append((digest, utterance, response))
    expected = sorted(
        (
            (
                -round(float(unit(weights, asked) @ unit(weights, min(some)[1])), 6),
                hashlib.sha256(r.encode()).digest(),
                r,
            )
            for some in best.values()
            for _, _, r in some
        )
    )
    with ReferenceIndex.open(places, "chat") as index:
        assert index.manifest.vectors.kind == "encoder"
        found = index.search([Item(id="a", turns=(asked,))], SearchSettings(k=7))[0].references
        assert [one.text for one in found] == [text for _, _, text in expected]
        assert np.allclose([one.similarity for one in found], [-minus for minus, _, _ in expected], atol=2e-6)
        alone = index.search([Item(id="a", turns=(asked,)), Item(id="b", turns=("a cat",))], SearchSettings(k=7))
        assert alone[0].references == found


def test_bm25_works_beside_an_encoder_and_its_dialog_mode_does_not(home):
    places, *_ = home
    pair = Item(id="a", turns=("i like tea",), references=(Reference(text="so do you"),))
    with ReferenceIndex.open(places, "chat") as index:
        assert index.search([pair], SearchSettings(k=2, mode="bm25-utterance"))[0].references[0].utterance in (
            "i like tea",
            "i like tea !",
        )
        with refusing(Usage):
            index.search([pair], SearchSettings(mode="embedding-dialog"))


def test_replaced_encoder_is_refused_when_the_index_is_opened(home, tmp_path):
    places, encoder, _ = home
    kept = tmp_path / "kept"
    shutil.copytree(encoder, kept)
    try:
        shutil.rmtree(encoder)
        write_encoder(encoder, weights=TinyEncoder.seeded(seed=8))
        with refusing(Conflict):
            ReferenceIndex.open(places, "chat")
        shutil.rmtree(encoder)
        with pytest.raises((NotFound, BadInput, MissingPart)):
            ReferenceIndex.open(places, "chat")
    finally:
        shutil.rmtree(encoder, ignore_errors=True)
        shutil.copytree(kept, encoder)


def test_an_index_is_of_words_or_of_an_encoder(home):
    _, encoder, _ = home
    for wrong in ({"vectors": "glove", "encoder": encoder}, {}):
        with refusing(Usage):
            IndexOrder(name="chat", logs=("chat",), **wrong)


def test_updating_an_index_with_an_encoder_encodes_what_is_new(home):
    from refaug.indexer.building.update import update_index  # noqa: PLC0415  compiles

    places, encoder, _ = home
    add_to_log(places, "more", pairs_of(("the dog likes tea", "it does"), log="more"))
    order = IndexOrder(
        name="more",
        logs=("more",),
        encoder=encoder,
        tokenizer="word",
        limits=Limits(factory="Flat"),
        check_queries=0,
    )
    build_index(places, order, Silent())
    add_to_log(places, "more", pairs_of(("a big dog", "where ?"), ("the dog likes tea", "no"), log="more"))
    updated = update_index(places, "more", Silent())
    assert (updated.changed, updated.gone) == (2, 0)
    with ReferenceIndex.open(places, "more") as index:
        found = index.search([Item(id="a", turns=("the dog likes tea",))], SearchSettings(k=3))[0].references
        assert {one.text for one in found[:2]} == {"it does", "no"}
        assert found[0].similarity == pytest.approx(1.0, abs=1e-6)
        assert found[2].text == "where ?"


# An encoder of the home


@pytest.fixture
def own(tmp_path):
    """A home with an encoder, and a log; what its models were run on is counted by the encoder itself."""
    places = Places.under(tmp_path / "home")
    add_to_log(places, "chat", pairs_of(*TEXTS))
    import_encoder(
        places.encoders, places.cache, "small", write_encoder(tmp_path / "small", weights=TinyEncoder.seeded())
    )
    return places


def encoder_of(places, index="chat"):
    with ReferenceIndex.open(places, index) as opened:
        return opened.sources.encoder


def test_an_index_is_built_with_an_encoder_of_the_home_and_needs_it(own):
    encoders._open_once.cache_clear()
    build(own, vectors=None, encoder="small", check_queries=0)
    utterances = {text for text, _ in TEXTS} - {"i like tea !"}  # one surface form of each
    encoder = encoder_of(own)
    assert encoder.encoded == len(utterances)
    with ReferenceIndex.open(own, "chat") as index:
        source = index.manifest.vectors
        assert (source.name, source.path) == (f"small@{own.encoders.current('small')}", "")
        index.search([Item(id="a", turns=("the cat likes tea",))], SearchSettings(k=2))
    assert encoder.encoded == len(utterances) + 1
    encoders._open_once.cache_clear()
    build(own, "again", vectors=None, encoder="small", check_queries=0)
    assert encoder_of(own, "again").encoded == 0
    shutil.rmtree(own.encoders.folder("small", own.encoders.current("small")))
    with refusing(NotFound):
        ReferenceIndex.open(own, "chat")
    with refusing(NotFound, "other"):
        build(own, "other", vectors=None, encoder="other")


def test_an_encoder_under_another_name_serves_as_well(own):
    build(own, vectors=None, encoder="small", check_queries=0)
    with ReferenceIndex.open(own, "chat") as index:
        expected = index.search([Item(id="a", turns=("tea",))])[0].references
    version = own.encoders.current("small")
    folder = own.encoders.folder("small", version)
    import_encoder(own.encoders, own.cache, "renamed", folder)
    shutil.rmtree(folder)
    with ReferenceIndex.open(own, "chat") as index:
        assert index.search([Item(id="a", turns=("tea",))])[0].references == expected


def test_encoding_an_index_keeps_all_its_texts_and_goes_on_where_it_was(own, monkeypatch):
    encoders._open_once.cache_clear()
    build(own, vectors=None, encoder="small", check_queries=0)
    texts = {text for text, _ in TEXTS if text != "i like tea !"} | {response for _, response in TEXTS}
    monkeypatch.setattr(encoder_vectors, "_TEXTS_A_PIECE", 2)
    with pytest.raises(KeyboardInterrupt):
        encode_index(own, "chat", None, Stopping(5))
    first = encode_index(own, "chat", None, Silent())
    assert 0 < first.encoded < len(texts) - 6
    assert (first.texts, first.truncated, first.not_kept) == (13, 0, 0)
    assert len(own.encodings.open(encoder_of(own).name.partition("#")[2], 12).get(sorted(texts))) == len(texts)
    assert encode_index(own, "chat", "small", Silent()).encoded == 0


def test_encoding_needs_an_encoder_of_the_home(own, home):
    _, folder, _ = home
    build(own, "by-path", vectors=None, encoder=folder, check_queries=0)
    with refusing(Usage):
        encode_index(own, "by-path", None, Silent())
    assert encode_index(own, "by-path", "small", Silent()).encoded > 0


class Stopping(Silent):
    """Interrupts after so many reports."""

    def __init__(self, after):
        self.left = after

    def advance(self, _amount):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


# Searching by an encoder: at most five responses of one utterance


WORDS = ("i", "you", "the", "a", "cat", "dog", "tea", "like", "likes", "drink", "big", "not", "really")


def made_log(seed, count):
    """Pairs of few utterances with many responses, which occur differently often, in two logs."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 4))) for _ in range(12)]
    replies = [" ".join(rng.choices(WORDS, k=rng.randint(1, 5))) for _ in range(40)]
    return [
        RawPair("chat", f"d{rng.randrange(30)}", str(number), rng.choice(texts), rng.choice(replies))
        for number in range(count)
    ]


def allowed_pairs(pairs, item):
    """The merged pairs in order, without what is excluded for the item."""
    golds = {normalise(reference.text) for reference in item.references}
    own, excluded = normalise(item.utterance), set(item.exclude)
    for pair in merged(pairs):
        reply = normalise(pair.response)
        if reply in golds or reply == own or all(one.dialogue in excluded for one in pair.occurrences):
            continue
        if any(near(reply, text) for text in (*golds, own)):
            continue
        yield pair


def near(one, other):
    words, others = one.split(), other.split()
    if min(len(words), len(others)) < 5:
        return False
    return len({*words} & {*others}) / len({*words} | {*others}) >= 0.9


def digest(text):
    return hashlib.sha256(text.encode()).digest()


def by_encoder(pairs, item, weights, k):
    """The references by brute force: (level, response), of each utterance the five that occur most often."""
    of_utterance = defaultdict(list)
    for pair in allowed_pairs(pairs, item):
        of_utterance[pair.utterance].append(pair)
    query, ranked = unit(weights, item.utterance), []
    for utterance, some in of_utterance.items():
        level = round(float(query @ unit(weights, utterance)) * 1e6)
        best = sorted(some, key=lambda pair: (-len(pair.occurrences), digest(pair.response)[:8]))[:5]
        ranked += [(level, pair.response, utterance) for pair in best]
    found = list[tuple[int, str]]()
    for level, response, _ in sorted(ranked, key=lambda one: (-one[0], digest(one[1])[:8], digest(one[2])[:8])):
        if normalise(response) not in {normalise(text) for _, text in found}:
            found.append((level, response))
    return found[:k]


def searched_items():
    return [
        Item(id="a", turns=("the cat likes tea",)),
        Item(id="b", turns=("you drink",), references=(Reference(text="a big dog"),), exclude=("d1", "d2")),
        Item(id="c", turns=("really",), exclude=tuple(f"d{number}" for number in range(20))),
    ]


def found_in(places, mode, k, *, name="chat", threads=1):
    with ReferenceIndex.open(places, name, threads=threads) as index:
        results = index.search(searched_items(), SearchSettings(mode=mode, k=k))
        return [[(one.similarity, one.text) for one in result.references] for result in results]


@pytest.mark.parametrize("seed", [1, 2])
def test_an_utterance_gives_its_five_most_frequent_responses_as_brute_force_says(tmp_path, seed):
    from refaug.indexer.building.update import update_index  # noqa: PLC0415  compiles

    pairs, weights = made_log(seed, 900), TinyEncoder.seeded(seed)
    places, folder = Places.under(tmp_path / "home"), write_encoder(tmp_path / "encoder", weights=weights)
    add_to_log(places, "chat", pairs[:600])
    for name, more in {"chat": {}, "shards": {"shards": 3}}.items():
        build(places, name, vectors=None, encoder=folder, check_queries=0, **more)
    add_to_log(places, "chat", pairs[600:])  # so that there are several segments, and masked utterances
    for name in ("chat", "shards"):
        update_index(places, name, Silent())
    build(places, "anew", vectors=None, encoder=folder, check_queries=0)
    for k in (7, 15, 40):
        expected = [by_encoder(pairs, item, weights, k) for item in searched_items()]
        found = found_in(places, "encoder-utterance", k)
        assert [[text for _, text in one] for one in found] == [[text for _, text in one] for one in expected]
        assert [level for one in found for level, _ in one] == pytest.approx(
            [level / 1e6 for one in expected for level, _ in one], abs=1.1e-6
        )
        for name, threads in (("shards", 1), ("anew", 2)):
            assert found_in(places, "encoder-utterance", k, name=name, threads=threads) == found
    with ReferenceIndex.open(places, "chat") as index:
        some = index.search(searched_items(), SearchSettings(mode="encoder-utterance", k=40))
        assert all(max(Counter(one.utterance for one in result.references).values()) <= 5 for result in some)
        plain = index.search(searched_items(), SearchSettings(mode="embedding-utterance", k=40))
        assert max(Counter(one.utterance for one in plain[0].references).values()) > 5


def test_a_check_measures_the_mode_with_its_limit_of_responses(tmp_path, monkeypatch):
    """Of an exact index nothing is missing, in either mode, and the lists of the two are not the same."""
    places = Places.under(tmp_path / "home")
    add_to_log(places, "chat", made_log(1, 900))
    build(places, vectors=None, encoder=write_encoder(tmp_path / "encoder"), check_queries=0, shards=2)
    searched, search = list[float](), ReferenceIndex.search

    def noted(index, pairs, settings):
        found = search(index, pairs, settings)
        searched.append(sum(one.similarity for item in found for one in item.references))
        return found

    monkeypatch.setattr(ReferenceIndex, "search", noted)
    with ReferenceIndex.open(places, "chat") as index:
        for mode in ("encoder-utterance", "embedding-utterance"):
            measured = check_index(index, SearchSettings(mode=mode, k=40), queries=30, seed=1, progress=Silent())
            assert (measured.recall, measured.lost_similarity, measured.all_found) == (1, 0, measured.queries)
    assert searched[0] < searched[1]


def test_without_an_encoder_the_mode_is_refused_with_the_command(tmp_path):
    places = home_of(tmp_path / "home", made_log(3, 20), dict.fromkeys(WORDS, (1.0, 0.5)))
    build(places, check_queries=0)
    expected = "index chat has no encodings: build it with `refaug index build chat --name chat --encoder NAME`"
    with refusing(Usage, expected):
        found_in(places, "encoder-utterance", 3)


# Two modes as one


@pytest.mark.parametrize("has_encoder", [True, False])
def test_fused_references_are_those_with_the_largest_sums_of_reciprocal_ranks(tmp_path, has_encoder):
    pairs = made_log(4, 700)
    vectors = np.random.default_rng(4).normal(size=(len(WORDS), 6))
    places = home_of(tmp_path / "home", pairs, dict(zip(WORDS, vectors.tolist(), strict=True)))
    source = {"vectors": None, "encoder": write_encoder(tmp_path / "encoder")} if has_encoder else {}
    build(places, check_queries=0, shards=2, **source)
    first = found_in(places, "encoder-utterance" if has_encoder else "embedding-utterance", 200)
    second = found_in(places, "bm25-utterance", 200)
    expected = []
    for lists in zip(first, second, strict=True):
        sums = Counter[str]()
        for texts in lists:
            sums.update({text: 1 / (60 + rank) for rank, (_, text) in enumerate(texts, 1)})
        rounded = [(round(total, 6), text) for text, total in sums.items()]
        expected.append(sorted(rounded, key=lambda one: (-one[0], digest(one[1])))[:15])
    assert found_in(places, "fused", 15) == expected
    assert found_in(places, "fused", 4) == [one[:4] for one in expected]
    with ReferenceIndex.open(places, "chat") as index:
        shown = index.search(searched_items()[:1], SearchSettings(mode="fused", k=3))[0].references
        assert [one.more["rank"] for one in shown] == [1, 2, 3]
        assert len(list(index.neighbours("tea", SearchSettings(mode="fused")))) > 16
    with refusing(Usage, "201"):
        SearchSettings(mode="fused", k=201)
