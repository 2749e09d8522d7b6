"""Opening an index: it answers with the vectors and the tokenizer it was built with, or says what is wrong."""

from __future__ import annotations

import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from indexes import add_to_log, add_vectors, build, built, home_of, pairs_of
from plain_search import MODES, RawPair
from refusals import refusing

from refaug.core.errors import Conflict, Corrupt, NotFound, Usage
from refaug.core.files import read_json
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.update import erased_keys, update_index
from refaug.indexer.columns import TextWriter
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings

AXES = ("tea", "coffee", "yes", "no", "so")
WORDS = {word: [float(axis == place) for axis in range(len(AXES))] for place, word in enumerate(AXES)}
PAIRS = [
    *pairs_of(("tea", "yes"), ("tea coffee", "no"), ("coffee", "so"), ("zork", "blip")),
    RawPair("other", "d1", "x7", "tea", "Yes!"),
]


def asked(utterance, *references):
    return Item(id="t", turns=(utterance,), references=tuple(Reference(text=text) for text in references))


def texts_of(references):
    return [one.text for one in references]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A home with an index, which tests copy before they damage it."""
    places = home_of(tmp_path_factory.mktemp("home") / "home", PAIRS, WORDS)
    build(places)
    return places


@pytest.fixture
def places(original, tmp_path):
    shutil.copytree(original.logs.parent, tmp_path / "home")
    return Places.under(tmp_path / "home")


def folder_of(places):
    return places.indexes.folder(*places.indexes.resolve("chat"))


def edit_manifest(folder, change):
    path = folder / "manifest.json"
    manifest = read_json(path)  # without its checksum, which would not fit
    change(manifest)
    path.write_text(json.dumps(manifest))


def refused(places, kind, match):
    """Opening fails for this reason, and says what to do."""
    with pytest.raises(kind, match=match) as failed:
        ReferenceIndex.open(places, "chat")
    assert failed.value.remedy
    return failed.value


# ── what is in an answer ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_reference_says_where_it_comes_from(original):
    with ReferenceIndex.open(original, "chat") as index:
        (found,) = index.search([asked("tea", "so")])
    version = original.indexes.current("chat")
    yes, no = found.references
    assert yes == Reference(
        text="yes",  # 8a79…, Yes! d9be…
        source=Origin.RETRIEVED,
        similarity=1.0,
        utterance="tea",
        more={
            "rank": 1,
            "log": "chat",
            "index": f"chat@{version}",
            "pair": "chat/d1#1",
            "dialogue": "d1",
            "count": 2,
        },
    )
    assert (no.text, no.similarity, no.weight, no.rating) == ("no", 0.707107, None, None)
    assert list(no.more) == ["rank", "log", "index", "pair", "dialogue", "count"]
    assert (no.more["rank"], no.utterance, no.more["count"]) == (2, "tea coffee", 1)
    assert found.search_notes.get("excluded", {}) == {"gold": 1}


# ── speakers ─────────────────────────────────────────────────────────────────────────────────────────────────────

SPOKEN = [
    RawPair("chat", "d1", "1", "tea", "yes", speaker="ann"),
    RawPair("chat", "d2", "1", "tea", "no"),
    RawPair("chat", "d3", "1", "tea", "so", speaker="Zoë"),
    RawPair("chat", "d4", "1", "tea", "yes", speaker="bob"),
]


def speakers_in(places, **how):
    with ReferenceIndex.open(places, "chat") as index:
        (found,) = index.search([asked("tea")], SearchSettings(**how))
    return {one.text: one.more.get("speaker") for one in found.references}


def test_a_reference_names_the_speaker_of_the_occurrence_that_is_shown(tmp_path):
    places = home_of(tmp_path / "home", SPOKEN, WORDS)
    build(places)
    assert speakers_in(places) == {"yes": "ann", "no": None, "so": "Zoë"}
    with ReferenceIndex.open(places, "chat") as index:
        (found,) = index.search([replace(asked("tea"), exclude=("d1",))])
        yes = next(one for one in found.references if one.text == "yes")
    assert (yes.more["pair"], yes.more["speaker"]) == ("chat/d4#1", "bob")
    assert list(yes.more)[-3:] == ["dialogue", "speaker", "count"]


def test_an_index_of_before_there_were_speakers_opens_and_has_none_and_updates_add_theirs(tmp_path):
    places = home_of(tmp_path / "home", SPOKEN, WORDS)
    build(places)
    folder = folder_of(places)
    (folder / "segments/0/speakers.arrow").unlink()
    edit_manifest(folder, lambda manifest: manifest["files"].pop("segments/0/speakers.arrow"))
    assert speakers_in(places) == {"yes": None, "no": None, "so": None}
    add_to_log(places, "chat", [RawPair("chat", "d5", "1", "coffee", "so", speaker="eve")])
    update_index(places, "chat", Silent())
    assert speakers_in(places) == {"yes": None, "no": None, "so": None}
    with ReferenceIndex.open(places, "chat") as index:
        (found,) = index.search([asked("coffee")], SearchSettings(k=1))
    assert [one.more["speaker"] for one in found.references] == ["eve"]
    build(places)
    assert speakers_in(places) == {"yes": "ann", "no": None, "so": "Zoë"}


def test_an_update_renames_speakers_as_the_log_does(tmp_path):
    places = home_of(tmp_path / "home", SPOKEN, WORDS)
    build(places)
    shutil.rmtree(places.logs / "chat")
    add_to_log(places, "chat", [replace(pair, speaker=pair.speaker and "anyone") for pair in SPOKEN])
    assert update_index(places, "chat", Silent()).changed == 1
    assert speakers_in(places) == {"yes": "anyone", "no": None, "so": "anyone"}


def test_an_erased_speaker_is_in_no_answer_and_after_compacting_in_no_file(tmp_path):
    places = home_of(tmp_path / "home", SPOKEN, WORDS)
    build(places)
    update_index(places, "chat", Silent(), erase=erased_keys(speakers=["ann", "Zoë"]))
    assert speakers_in(places) == {"yes": "bob", "no": None}
    compact_index(places, "chat", Silent())
    assert speakers_in(places) == {"yes": "bob", "no": None}
    stored = b"".join(path.read_bytes() for path in folder_of(places).rglob("*") if path.is_file())
    assert [name.encode() in stored for name in ("Zoë", "bob")] == [False, True]


def test_a_superseded_utterance_is_not_drawn(places):
    with ReferenceIndex.open(places, "chat") as index:
        before = [index.draw_utterance(number) for number in range(20)]
    update_index(places, "chat", Silent(), erase=erased_keys(pairs=["chat/d3#1"]))
    with ReferenceIndex.open(places, "chat") as index:
        drawn = [index.draw_utterance(number) for number in range(20)]
    assert set(before) - set(drawn) == {"coffee"}
    assert [text for text, now in zip(before, drawn, strict=True) if text != now] == before.count("coffee") * ["coffee"]


def test_speakers_that_do_not_fit_the_occurrences_are_refused(tmp_path):
    places = home_of(tmp_path / "home", SPOKEN, WORDS)
    build(places)
    folder = folder_of(places)
    with TextWriter(folder / "segments/0/speakers.arrow", ("speaker",)) as writer:
        writer.append(pa.array(["ann"]))
    refused(places, Corrupt, "speakers.arrow")
    size = (folder / "segments/0/speakers.arrow").stat().st_size
    edit_manifest(folder, lambda manifest: manifest["files"]["segments/0/speakers.arrow"].update(size=size))
    refused(places, Corrupt, r"speakers\.arrow: the shape \(4,\) was expected, \(1,\) was found")


def test_numbers_in_an_answer_are_pythons_own(original):
    with ReferenceIndex.open(original, "chat") as index:
        for mode in MODES:
            (found,) = index.search([asked("tea", "no")], SearchSettings(mode=mode))
            assert found.references
            for one in found.references:
                json.dumps(dict(one.more))
                assert type(one.similarity) is float
            json.dumps(dict(found.search_notes.get("excluded", {})))


def test_an_index_is_named_with_its_version_and_what_is_in_it(original):
    with ReferenceIndex.open(original, "chat") as index:
        name, _, content = index.spec.partition("#")
        assert (name, len(content), index.manifest.id[:12]) == (f"chat@{index.version}", 12, content)
        assert index.logs == ["chat", "other"]


def test_an_index_built_again_has_the_same_content(places):
    again = build(places, threads=2)
    first, second = (
        ReferenceIndex.open(places, f"chat@{version}") for version in (places.indexes.versions("chat")[0], again)
    )
    with first, second:
        assert first.version != second.version
        assert first.manifest.id == second.manifest.id


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """1,200 responses, of less and less similar utterances."""
    texts = [
        (" ".join(["tea"] * (1_200 - number) + ["coffee"] * number), f"answer {number}") for number in range(1_200)
    ]
    with built(home_of(tmp_path_factory.mktemp("many"), pairs_of(*texts), WORDS), bm25=None) as index:
        yield index


def test_neighbours_come_one_after_the_other_without_a_k(many):
    """The search is widened as more of them are wanted; each comes once, and the most similar first."""
    for count in (0, 1, 15, 16, 17, 64, 65, 300):
        expected = [f"answer {number}" for number in range(count)]
        assert texts_of(islice(many.neighbours("tea"), count)) == expected
    everything = list(many.neighbours("tea"))
    assert texts_of(everything) == [f"answer {number}" for number in range(1_000)]
    assert [one.more["rank"] for one in everything] == list(range(1, 1_001))
    similarities = [one.similarity for one in everything]
    assert similarities == sorted(similarities, reverse=True)


def test_neighbours_end_where_the_index_ends(original):
    with ReferenceIndex.open(original, "chat") as index:
        assert texts_of(index.neighbours("tea")) == ["yes", "no", "so"]
        assert texts_of(index.neighbours("tea", SearchSettings(k=1))) == ["yes", "no", "so"]
        assert texts_of(index.neighbours("so tea", SearchSettings(exclude_logs=("chat",)))) == ["yes"]
        assert list(index.neighbours("never seen")) == []
        assert list(index.neighbours("")) == []


def test_neighbours_can_be_looked_for_at_a_depth(many):
    assert texts_of(islice(many.neighbours("tea", SearchSettings(depth=20)), 100))[::33] == [
        "answer 0",
        "answer 33",
        "answer 66",
        "answer 99",
    ]


# ── settings that cannot be meant ────────────────────────────────────────────────────────────────────────────────


def test_an_index_without_bm25_says_so(many):
    for mode in ("bm25-utterance", "bm25-dialog"):
        with refusing(Usage):
            many.search([asked("tea", "yes")], SearchSettings(mode=mode))


def test_a_log_that_the_index_does_not_have_cannot_be_left_out(original):
    with (
        ReferenceIndex.open(original, "chat") as index,
        refusing(Usage, "chet"),
    ):
        index.search([asked("tea")], SearchSettings(exclude_logs=("chat", "chet")))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"mode": "embedding"}, "embedding"),
        ({"k": 0}, "1,000"),
        ({"k": 1_001}, "1,001"),
        ({"k": 15, "depth": 14}, "depth: a depth of 14 for k=15 references"),
        ({"alpha": 1.1}, "1.1"),
        ({"epsilon": -0.1}, "-0.1"),
        ({"near": float("nan")}, "near: nan is not a finite number"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, match):
    with refusing(Usage, match):
        SearchSettings(**settings)


# ── vectors and tokenizer ────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_vectors_do_under_any_name(places):
    shutil.rmtree(places.vectors.root)
    add_vectors(places, "elsewhere", WORDS)
    with ReferenceIndex.open(places, "chat") as index:
        assert texts_of(index.search([asked("tea")])[0].references) == ["yes", "no", "so"]


def test_newer_vectors_of_the_same_name_do_not_matter(places):
    add_vectors(places, "glove", {word: np.roll(vector, 1) for word, vector in WORDS.items()})
    with ReferenceIndex.open(places, "chat") as index:
        assert index.search([asked("tea")])[0].references[0].similarity == 1.0


def test_other_vectors_are_refused(places):
    shutil.rmtree(places.vectors.root)
    other = {word: [*vector, 1.0] for word, vector in WORDS.items()}
    version = add_vectors(places, "glove", other)
    found = rf"glove@{version} has the hash [0-9a-f]{{12}} and 6 dimensions"
    refused(
        places, Conflict, rf"needs word vectors glove@{version} with the hash [0-9a-f]{{12}} and 5 dimensions; {found}"
    )


def test_missing_vectors_are_named(places):
    shutil.rmtree(places.vectors.root)
    refused(places, NotFound, r"needs word vectors glove@\S+ with the hash [0-9a-f]{12} and 5 dimensions")


def test_another_version_of_the_tokenizer_is_refused(places):
    edit_manifest(folder_of(places), lambda manifest: manifest.update(tokenizer_version="unicode 3.2.0"))
    refused(places, Conflict, r"built with the tokenizer word of unicode 3\.2\.0; here it is that of unicode")


def test_vectors_in_other_dimensions_than_the_manifest_says_are_refused(places):
    edit_manifest(folder_of(places), lambda manifest: manifest["vectors"].update(dimensions=300))
    refused(places, Corrupt, r"segments/0: vectors of \d+ dimensions, the manifest says 300")


def test_vectors_of_any_number_of_dimensions_can_be_searched(tmp_path):
    for dimensions in (1, 9, 100):
        words = {word: [1.0, *[0.0] * (dimensions - 1)] for word in AXES}
        with built(home_of(tmp_path / str(dimensions), PAIRS, words)) as index:
            assert texts_of(index.search([asked("tea")])[0].references)[:1] == ["yes"]


def model_at(path, text):
    """A small SentencePiece model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, model_type="char", vocab_size=18,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture
def pieces(tmp_path):
    """A home with an index whose tokenizer is a model that is nowhere else any more."""
    model = model_at(tmp_path / "small.model", ["tea coffee yes no so"] * 20)
    places = home_of(tmp_path / "home", PAIRS, {"t": [1.0, 0.0], "c": [0.0, 1.0]})
    version = build(places, tokenizer=f"sentencepiece:{model}")
    model.unlink()
    return places, places.indexes.folder("chat", version)


def test_a_sentencepiece_model_is_kept_in_the_index(pieces):
    places, folder = pieces
    with ReferenceIndex.open(places, "chat") as index:
        assert index.manifest.tokenizer.startswith("sentencepiece:small#")
        (found,) = index.search([asked("t")])
        assert [(one.text, one.similarity) for one in found.references] == [("yes", 1.0), ("no", 0.707107), ("so", 0.0)]
    assert (folder / "tokenizer" / "small.model").exists()


def test_another_model_in_its_place_is_refused(pieces, tmp_path):
    places, folder = pieces
    path = folder / "tokenizer" / "small.model"
    path.chmod(0o644)
    model_at(path, ["other words"] * 20)
    edit_manifest(folder, lambda one: one["files"]["tokenizer/small.model"].update(size=path.stat().st_size))
    with refusing(Corrupt, "small.model"):
        ReferenceIndex.open(places, "chat")


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────────


def files_of(places):
    return sorted(json.loads((folder_of(places) / "manifest.json").read_text())["files"])


def test_every_file_of_an_index_is_named_in_its_manifest(places):
    folder = folder_of(places)
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == sorted(["manifest.json", *files_of(places)])
    assert len(found) > 20


def test_a_missing_or_shortened_file_is_named_with_the_size_it_should_have(places):
    for name in files_of(places):
        path = folder_of(places) / name
        content = path.read_bytes()
        path.unlink()
        refused(places, Corrupt, rf"{name} is missing")
        path.write_bytes(content[:-1])
        refused(places, Corrupt, rf"{name} has {len(content) - 1:,} bytes; the manifest says {len(content):,}")
        path.write_bytes(content + b"\0")
        refused(places, Corrupt, rf"{name} has {len(content) + 1:,} bytes; the manifest says {len(content):,}")
        path.write_bytes(content)
    with ReferenceIndex.open(places, "chat"):
        pass


def test_a_file_of_the_right_size_that_is_no_such_file_is_named(places):
    """Damage is where a format says what it is: Arrow at the end; arrays, FAISS and JSON at the beginning."""
    for name in files_of(places):
        path = folder_of(places) / name
        content = path.read_bytes()
        size = min(64, len(content))
        path.write_bytes(content[:-size] + bytes(size) if path.suffix == ".arrow" else bytes(size) + content[size:])
        if path.name != "fingerprint.npy":  # which only updates read
            with refusing(Corrupt, path.parent):
                ReferenceIndex.open(places, "chat")
        path.write_bytes(content)


def test_a_damaged_manifest_is_named(places):
    path = folder_of(places) / "manifest.json"
    content = path.read_bytes()
    for damaged in (b"", b"{", b"[]", content[: len(content) // 2], b'{"kind": "index"}'):
        path.write_bytes(damaged)
        with refusing(Corrupt, "manifest.json"):
            ReferenceIndex.open(places, "chat")


@pytest.mark.parametrize("field", ["vectors", "segments", "files", "tokenizer", "logs", "sentence", "check"])
def test_a_manifest_without_a_field_is_refused(places, field):
    edit_manifest(folder_of(places), lambda manifest: manifest.pop(field))
    refused(places, Corrupt, r"manifest\.json")


def test_a_newer_format_is_refused(places):
    edit_manifest(folder_of(places), lambda manifest: manifest.update(format_version=2))
    assert (
        refused(places, Corrupt, r"manifest\.json has format 2; this refaug reads up to 1").remedy == "upgrade refaug"
    )


def test_what_is_no_index_is_refused(places):
    edit_manifest(folder_of(places), lambda manifest: manifest.update(kind="vectors"))
    refused(places, Corrupt, "not a manifest of the kind 'index'; its kind is 'vectors'")


def test_an_index_that_is_not_there_is_not_found(places):
    for spec in ("none", "chat@2001-01-01.1"):
        with pytest.raises(NotFound):
            ReferenceIndex.open(places, spec)


def test_files_of_two_indexes_do_not_go_together(places):
    """As many bytes, but of other utterances: more vectors than there are rows."""
    folder = folder_of(places)
    rows = folder / "segments/0/vector_rows.npy"
    np.save(rows, np.arange(2, dtype=np.int32))
    edit_manifest(folder, lambda one: one["files"]["segments/0/vector_rows.npy"].update(size=rows.stat().st_size))
    refused(places, Corrupt, r"segments/0: 3 vectors of 2 utterances")


@pytest.mark.parametrize(
    ("name", "row", "number", "match"),
    [
        ("pair_start.npy", 1, 99, "less than the row before"),
        ("occurrence_start.npy", 1, 1 << 40, "less than the row before"),
        ("utterance_token_start.npy", 1, -5, "less than the row before"),
        ("response_token_start.npy", 1, 1 << 40, "less than the row before"),
        ("utterance_tokens.npy", 0, 1 << 30, "row 0 holds 1,073,741,824"),
        ("response_tokens.npy", 0, -1, "row 0 holds -1"),
        ("vector_rows.npy", 0, 77, "row 0 holds 77"),
        ("occurrence_log.npy", 0, 9, "row 0 holds 9"),
        ("bm25/indices.csc.index.npy", 0, 77, "row 0 holds 77"),
        ("bm25/indptr.csc.index.npy", 1, 77, "less than the row before"),
        ("bm25/texts.df.npy", 0, -1, "row 0 holds -1"),
    ],
)
def test_a_number_that_leads_out_of_its_array_is_refused(places, name, row, number, match):
    path = folder_of(places) / "segments/0" / name
    array = np.load(path)
    array[row] = number
    np.save(path, array)
    assert str(path) in refused(places, Corrupt, match).message


def test_an_altered_setting_in_a_manifest_is_refused(places):
    path = folder_of(places) / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"tokenizer": "word"', b'"tokenizer": "char"'))
    assert str(path) in refused(places, Corrupt, "was altered").message


# ── held and shared ──────────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_index_and_its_vectors_are_not_removed(places):
    build(places)
    add_vectors(places, "glove", {**WORDS, "extra": [1.0] * 5})
    old_index, old_vectors = places.indexes.versions("chat")[0], places.vectors.versions("glove")[0]
    with ReferenceIndex.open(places, f"chat@{old_index}") as index:
        assert places.indexes.gc("chat", 0) == []
        assert places.vectors.gc("glove", 0) == []
        assert texts_of(index.search([asked("tea")])[0].references) == ["yes", "no", "so"]
    assert places.indexes.gc("chat", 0) == [old_index]
    assert places.vectors.gc("glove", 0) == [old_vectors]


def test_an_index_that_cannot_be_opened_holds_nothing(places):
    add_vectors(places, "glove", {**WORDS, "extra": [1.0] * 5})
    old = places.vectors.versions("glove")[0]
    edit_manifest(folder_of(places), lambda manifest: manifest["vectors"].update(dimensions=300))
    with refusing(Corrupt, "300") as failed:  # as long as the error is looked at, its frames are there
        ReferenceIndex.open(places, "chat")
    assert places.vectors.gc("glove", 0) == [old]
    assert failed.value.remedy


def test_several_threads_may_ask_at_once(many):
    tests = [asked(" ".join(["tea"] * number + ["coffee"] * (40 - number)), "answer 3") for number in range(41)]
    alone = [many.search([test])[0] for test in tests]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda test: many.search([test])[0], tests)) == alone


def test_an_index_on_a_disk_that_cannot_be_written_is_read(places):
    for path in [*places.indexes.root.rglob("*"), *places.vectors.root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with ReferenceIndex.open(places, "chat") as index:
        assert texts_of(index.search([asked("tea")])[0].references) == ["yes", "no", "so"]
