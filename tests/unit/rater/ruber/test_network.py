"""Scores against the network in plain numpy and against themselves asked in other ways; and a ruber on disk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusing
from rubers import score_plainly, tiny_network

from refaug.core.artefacts.manifests import MANIFEST, describe_files
from refaug.core.errors import Corrupt
from refaug.core.files import read_json, write_json
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.language_coverage import Coverage
from refaug.rater.network_folder import REPORT, TOKENIZER, WEIGHTS
from refaug.rater.ruber.network import Relevance, RuberNetwork, open_relevance, read_ruber_manifest, save_ruber
from refaug.rater.text_encoding import bytes_of

MOST = 16  # pieces of a text that are read
CLOSE = 1e-5
WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
WORDS += ["they", "to", "trees", "we", "what", "why", "yes", "you"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 8)) for number in range(700)})
Pairs = Sequence[tuple[str, str]]


def trained(path: Path, texts: list[str]) -> SentencePieceTokenizer:
    train_sentencepiece(texts, path, TokenizerTraining(vocab_size=100, at_most=True))
    return open_sentencepiece(path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    return trained(tmp_path_factory.mktemp("tokenizer") / "tiny.model", TEXTS)


def network_of(tokenizer: SentencePieceTokenizer, **sizes: Any) -> RuberNetwork:
    """Drawn weights, scaled up until their answers lie far apart."""
    model = tiny_network(tokenizer.vocab_size, **{"max_tokens": MOST, **sizes})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


def relevance_of(tokenizer: SentencePieceTokenizer, *, readers: int = 1, **more: Any) -> Relevance:
    return Relevance(network_of(tokenizer, readers=readers), tokenizer, **more)


@pytest.fixture(params=[1, 2])
def relevance(tokenizer: SentencePieceTokenizer, request: pytest.FixtureRequest) -> Relevance:
    return relevance_of(tokenizer, readers=request.param)


def plainly(relevance: Relevance, utterance: str, reply: str) -> float:
    ids = [
        relevance.tokenizer.encode_ids_batch([text])[0][:MOST] or [relevance.tokenizer.unk_id]
        for text in (utterance, reply)
    ]
    return score_plainly(relevance.model, *ids)


def some_pairs(seed: int, count: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(rng.choice(TEXTS), rng.choice(TEXTS)) for _ in range(count)]


# Scores


def test_scores_are_those_of_the_network_written_out(relevance: Relevance) -> None:
    pairs = some_pairs(1, 60)
    expected = [plainly(relevance, *pair) for pair in pairs]
    assert relevance.score(pairs).tolist() == pytest.approx(expected, abs=CLOSE)
    assert max(expected) - min(expected) > 0.4  # it has opinions


def test_a_score_is_the_same_alone_in_any_company_and_in_any_order(tokenizer: SentencePieceTokenizer) -> None:
    pairs = some_pairs(2, 400)
    alone = [float(relevance_of(tokenizer).score([pair])[0]) for pair in pairs[:60]]
    assert relevance_of(tokenizer).score(pairs)[:60].tolist() == pytest.approx(alone, abs=CLOSE)
    assert relevance_of(tokenizer).score(pairs[::-1])[::-1][:60].tolist() == pytest.approx(alone, abs=CLOSE)
    fresh = relevance_of(tokenizer)
    cuts = [fresh.score(pairs[at : at + 7]) for at in range(0, 60, 7)]
    assert [one for cut in cuts for one in cut.tolist()][:60] == pytest.approx(alone, abs=CLOSE)


def test_more_pairs_than_are_taken_at_once_are_scored_as_few_are(tokenizer: SentencePieceTokenizer) -> None:
    pairs = [(one, other) for one in TEXTS[:190] for other in TEXTS[-190:]]
    assert len(pairs) > 32_768
    found = relevance_of(tokenizer, cache_bytes=1).score(pairs)
    some = [0, 4_095, 4_096, 32_767, 32_768, len(pairs) - 1]
    expected = [plainly(relevance_of(tokenizer), *pairs[at]) for at in some]
    assert found[some].tolist() == pytest.approx(expected, abs=CLOSE)


def test_nothing_asked_is_nothing_answered(relevance: Relevance) -> None:
    found = relevance.score([])
    assert (found.shape, found.dtype.name) == ((0,), "float64")


@contextmanager
def counted_reading(relevance: Relevance) -> Iterator[list[int]]:
    """How many texts the network reads, each time that it does."""
    read = list[int]()

    def note(_module: object, _given: object, given_back: Any) -> None:
        read.append(int(given_back[1].shape[1]))

    handles = [reader.register_forward_hook(note) for reader in relevance.model.readers]
    yield read
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("reply", ["", " ", "\n\t", "\u3000", "\u200b", "\0"])
def test_an_empty_reply_is_0_without_asking(relevance: Relevance, reply: str) -> None:
    with counted_reading(relevance) as read:
        assert relevance.score([(TEXTS[0], reply), ("", reply)]).tolist() == [0, 0]
        assert read == []
    between = relevance.score([(TEXTS[0], TEXTS[1]), (TEXTS[0], reply), (TEXTS[2], TEXTS[3])]).tolist()
    assert between[1] == 0
    assert [between[0], between[2]] == pytest.approx(
        [plainly(relevance, TEXTS[0], TEXTS[1]), plainly(relevance, TEXTS[2], TEXTS[3])], abs=CLOSE
    )


LONG = " ".join(random.Random(9).choices(WORDS, k=10_000))
STRANGE = ["", " ", "猫が好きです。", "😂😂", "\ud800", "\0", "\u0301", "-", "<pad>", "<unk>", "a" * 5_000, LONG]


@pytest.mark.parametrize("text", STRANGE, ids=[repr(text[:12]) for text in STRANGE])
def test_any_text_gets_a_score_of_its_pieces(relevance: Relevance, text: str) -> None:
    pairs = [(text, TEXTS[5]), (TEXTS[5], text), (text, text)]
    expected = [plainly(relevance, *pair) if normalise(pair[1]) else 0.0 for pair in pairs]
    assert relevance.score(pairs).tolist() == pytest.approx(expected, abs=CLOSE)


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=()), max_size=30)] * 2), max_size=6))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_pair_gets_a_number_from_0_to_1(relevance: Relevance, pairs: Pairs) -> None:
    found = relevance.score(pairs).tolist()
    assert len(found) == len(pairs)
    assert all(0 <= one <= 1 for one in found)


# The cache


@pytest.mark.parametrize("readers", [1, 2])
def test_each_reader_reads_a_text_once_and_cached_scores_are_bit_equal(
    tokenizer: SentencePieceTokenizer, readers: int
) -> None:
    relevance = relevance_of(tokenizer, readers=readers)
    pairs = some_pairs(3, 50)
    said = [{utterance for utterance, _ in pairs}, {reply for _, reply in pairs}]
    with counted_reading(relevance) as read:
        first = relevance.score(pairs)
        assert sum(read) == (len(said[0] | said[1]) if readers == 1 else len(said[0]) + len(said[1]))
        before = list(read)
        assert relevance.score(pairs).tolist() == first.tolist()
        assert read == before


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("room", [0, 3])
def test_a_cache_with_room_for_a_few_texts_stays_as_small_and_scores_right(
    tokenizer: SentencePieceTokenizer, readers: int, room: int
) -> None:
    pairs = some_pairs(4, 80)
    expected = relevance_of(tokenizer, readers=readers).score(pairs).tolist()
    most = room * readers * max(bytes_of(text, torch.empty(2 * 8)) for text in TEXTS)
    tight = relevance_of(tokenizer, readers=readers, cache_bytes=most)
    for _ in range(2):
        assert tight.score(pairs).tolist() == pytest.approx(expected, abs=CLOSE)
        readers_of = {id(reader): reader for reader in (tight._utterances, tight._replies)}.values()
        assert len(readers_of) == readers
        held = sum(one._cache.size for one in readers_of)
        assert held <= most


def test_several_threads_at_once_get_the_scores_that_one_gets(tokenizer: SentencePieceTokenizer) -> None:
    work = [some_pairs(seed, 20) for seed in range(40)]
    expected = [relevance_of(tokenizer).score(pairs).tolist() for pairs in work]
    shared = relevance_of(tokenizer, cache_bytes=20_000)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(shared.score, work))
    for one, other in zip(found, expected, strict=True):
        assert one.tolist() == pytest.approx(other, abs=CLOSE)


# Languages


def test_texts_that_it_does_not_know_are_told_as_a_raters_are(tokenizer: SentencePieceTokenizer) -> None:
    relevance = relevance_of(tokenizer, languages=["en"], usual=Coverage.of(tokenizer, TEXTS))
    assert relevance.unfamiliar(relevance.coverage(TEXTS[:50])) is None
    told = relevance.unfamiliar(relevance.coverage(["猫が好きです", "雨が降っています"]))
    assert told == (
        "the ruber does not know 14 of 14 characters (100 %) of these texts: the ruber was trained on texts in en, "
        "and its scores of others mean little"
    )


# On disk


def save(folder: Path, model: RuberNetwork, tokenizer: SentencePieceTokenizer, **more: Any) -> str:
    told: dict[str, Any] = {"languages": ["en"], "report": {"auc": 0.75}, "details": {"seconds": 3}}
    return save_ruber(folder, model, tokenizer, **{**told, **more})


@pytest.fixture
def folder(tmp_path: Path, tokenizer: SentencePieceTokenizer) -> Path:
    save(tmp_path / "ruber", network_of(tokenizer, readers=2), tokenizer, coverage=Coverage.of(tokenizer, TEXTS))
    return tmp_path / "ruber"


def test_a_saved_ruber_gives_the_same_scores_bit_for_bit(folder: Path, tokenizer: SentencePieceTokenizer) -> None:
    pairs = some_pairs(6, 40)
    before, after = relevance_of(tokenizer, readers=2), open_relevance(folder, spec="tiny@1")
    assert after.score(pairs).tolist() == before.score(pairs).tolist()
    assert (after.spec, after.languages) == ("tiny@1", ("en",))
    assert after.model.config == before.model.config
    assert after.unfamiliar(after.coverage(["猫が好きです"])) is not None
    again = save(folder.with_name("again"), after.model, after.tokenizer)
    assert again == read_ruber_manifest(folder).id


def test_the_manifest_says_what_was_saved(folder: Path, tokenizer: SentencePieceTokenizer) -> None:
    stored = read_ruber_manifest(folder)
    assert stored.config == network_of(tokenizer, readers=2).config
    assert (stored.tokenizer, stored.languages, stored.details) == (tokenizer.sha256, ("en",), {"seconds": 3})
    assert stored.coverage == Coverage.of(tokenizer, TEXTS)
    manifest = read_json(folder / MANIFEST)
    assert (manifest["kind"], manifest["format_version"], manifest["id"]) == ("ruber", 1, stored.id)
    assert manifest["files"] == describe_files(folder, [WEIGHTS, TOKENIZER, REPORT])
    assert "temperature" not in manifest


def test_the_id_is_another_for_other_weights_sizes_and_pieces(
    tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    model = network_of(tokenizer)
    other_pieces = trained(tmp_path / "other.model", TEXTS[:300])
    assert other_pieces.sha256 != tokenizer.sha256
    names = [
        save(tmp_path / "1", model, tokenizer),
        save(tmp_path / "2", network_of(tokenizer, seed=2), tokenizer),
        save(tmp_path / "3", network_of(tokenizer, max_tokens=17), tokenizer),
        save(tmp_path / "4", model, other_pieces),
    ]
    assert len(set(names)) == 4
    assert save(tmp_path / "5", model, tokenizer, languages=["de"], report={}) == names[0]


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER])
@pytest.mark.parametrize(
    ("damage", "said"),
    [(flipped, "has SHA-256"), (shortened, "bytes; the manifest says"), (Path.unlink, "is missing")],
)
def test_an_altered_file_is_refused_by_name(folder: Path, file: str, damage: Callable[[Path], None], said: str) -> None:
    damage(folder / file)
    with pytest.raises(Corrupt) as caught:
        open_relevance(folder)
    assert caught.value.message.startswith(f"{folder / file} ")
    assert said in caught.value.message
    assert caught.value.remedy


def test_another_tokenizer_in_its_place_is_refused(folder: Path, tmp_path: Path) -> None:
    other = trained(tmp_path / "other.model", TEXTS[:300])
    (folder / TOKENIZER).write_bytes(other.path.read_bytes())
    manifest = read_json(folder / MANIFEST)
    write_json(folder / MANIFEST, {**manifest, "files": describe_files(folder, [WEIGHTS, TOKENIZER, REPORT])})
    with refusing(Corrupt, "ruber"):
        open_relevance(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "rater"}, "ruber"),
        ({"format_version": 2}, "has format 2; this refaug reads up to 1"),
        ({"config": {"heads": 8}}, "lacks what a ruber needs"),
        ({"config": {"hidden": 2**62}}, "a ruber's hidden is"),
        ({"config": {"readers": 3}}, "a ruber's readers are 3"),
        ({"id": "0" * 64}, "000000000000"),
        ({"languages": None}, "lacks what a ruber needs"),
    ],
)
def test_a_manifest_that_is_not_this_rubers_is_refused(folder: Path, change: dict[str, Any], said: str) -> None:
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    if "config" in change:
        change = {"config": {**manifest["config"], **change["config"]}}
    write_json(folder / MANIFEST, {**manifest, **change})
    with pytest.raises(Corrupt) as caught:
        open_relevance(folder)
    assert said in caught.value.message
    assert caught.value.message.startswith(f"{folder / MANIFEST} ")


@pytest.mark.parametrize("config", [{"readers": 1}, {"layers": 2}, {"hidden": 9}, {"vocabulary": 50}])
def test_weights_of_another_network_are_refused(folder: Path, config: dict[str, int]) -> None:
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    write_json(folder / MANIFEST, {**manifest, "config": {**manifest["config"], **config}})
    with refusing(Corrupt, "ruber"):
        open_relevance(folder)


def test_the_settings_of_the_same_weights_cannot_change_under_the_same_id(folder: Path) -> None:
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    write_json(folder / MANIFEST, {**manifest, "config": {**manifest["config"], "max_tokens": 4}})
    with refusing(Corrupt):
        open_relevance(folder)
