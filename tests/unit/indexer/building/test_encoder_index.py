"""An index whose vectors come from a user's encoder: the same answers as comparing all its vectors."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest
from encoders import TinyEncoder, write_encoder
from indexes import add_to_log, build, pairs_of

from refaug.core.errors import BadInput, Conflict, MissingPart, NotFound, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.indexer.building.build import build_index
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.building.plan import Limits
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

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
        with pytest.raises(Usage, match="keeps no vectors of responses"):
            index.search([pair], SearchSettings(mode="embedding-dialog"))


def test_replaced_encoder_is_refused_when_the_index_is_opened(home, tmp_path):
    places, encoder, _ = home
    kept = tmp_path / "kept"
    shutil.copytree(encoder, kept)
    try:
        shutil.rmtree(encoder)
        write_encoder(encoder, weights=TinyEncoder.seeded(seed=8))
        with pytest.raises(Conflict, match="was built with the encoder"):
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
        with pytest.raises(Usage, match="word vectors or from an encoder"):
            IndexOrder(name="chat", logs=("chat",), **wrong)


def test_an_index_of_an_encoder_is_cut_into_shards_without_the_encoder(home):
    from refaug.indexer.building.rebuilding.resharding import reshard_index  # noqa: PLC0415  compiles

    places, encoder, _ = home
    tests = [Item(id=str(number), turns=(text,)) for number, (text, _) in enumerate(TEXTS)]

    def answers():
        with ReferenceIndex.open(places, "whole") as index:
            return [[(one.text, one.similarity) for one in answer.references] for answer in index.search(tests)]

    build(places, "whole", vectors=None, encoder=encoder, check_queries=5)
    expected = answers()
    aside = encoder.rename(encoder.with_name("aside"))
    try:
        built = reshard_index(places, "whole", 3, Silent())
    finally:
        aside.rename(encoder)
    assert len(built.manifest.segments) == 3
    assert answers() == expected  # to the last bit: the vectors are taken over


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
