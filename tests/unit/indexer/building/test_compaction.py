"""Compacting some of an index's shards: the others keep their files, and the answers are those of a whole build."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from indexes import add_to_log, build, home_of
from plain_search import MODES, RawPair
from refusals import refusing
from told import Interrupting, Told

from refaug.core.errors import Conflict, NotFound
from refaug.core.files import exclusive
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.building import compaction
from refaug.indexer.building.compaction import compact_index
from refaug.indexer.building.plan import Limits
from refaug.indexer.building.update import erased_keys, rollback, update_index
from refaug.indexer.index_folders import finished_references
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.logs.deletion import delete_log
from refaug.logs.pairs import text_key

WORDS = tuple(f"w{number}" for number in range(60))
UNKNOWN = tuple(f"x{number}" for number in range(30))  # without a vector
SHARDS = 6
COARSE = "PCAR8,IVF8,PQ4x4fs"
SECRET = "zzsecretword"


def vectors():
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 16)).astype(np.float32)
    return dict(zip(WORDS, rows, strict=True))


def shard_of(text):
    return text_key(normalise(text)) * SHARDS >> 64


def texts_of_chance(random, count, shards=range(SHARDS), words=WORDS + UNKNOWN):
    texts = list[str]()
    while len(texts) < count:
        text = " ".join(random.choices(words, k=random.choice((1, 2, 3, 4, 6))))
        if shard_of(text) in shards:
            texts.append(text)
    return texts


def pairs_of_chance(random, count, first=0, shards=range(SHARDS), words=WORDS + UNKNOWN):
    """Pairs with utterances of these shards; several occur again."""
    utterances, responses = texts_of_chance(random, count, shards, words), texts_of_chance(random, count, words=words)
    return [
        RawPair("chat", f"d{number % 97}", str(number), random.choice(utterances), random.choice(responses), None, "s")
        for number in range(first, first + count)
    ]


def order_with(factory, shards=SHARDS):
    return {"shards": shards, "check_queries": 50, "limits": Limits(factory=factory, recall=0.5)}


def manifest_of(places, name):
    return IndexManifest.read(folder_of(places, name))


def folder_of(places, name):
    return places.indexes.folder(name, places.indexes.resolve(name)[1])


def chance_tests(random, pairs, count=40):
    return [
        Item(
            id=str(number),
            turns=(random.choice(pairs).utterance if number % 2 else " ".join(random.choices(WORDS + UNKNOWN, k=3)),),
            references=(Reference(text=random.choice(pairs).response),),
            exclude=tuple(random.sample(("d3", "d4", "d5"), number % 3)),
        )
        for number in range(count)
    ]


def answers(places, name, tests):
    """All that is answered in all modes but the name of the index."""
    found = []
    with ReferenceIndex.open(places, name, hashed=True) as index:
        for how in (how for mode in MODES for how in (SearchSettings(mode=mode), SearchSettings(mode=mode, k=3))):
            found += [
                ([replace(one, more={**one.more, "index": ""}) for one in result.references], result.search_notes)
                for result in index.search(tests, how)
            ]
    return found


def files_outside(manifest, shards):
    """The hashes of the files of all other shards, without BM25's."""
    return {
        name: facts["sha256"]
        for name, facts in manifest.files.items()
        if name.startswith("shards/") and int(name.split("/")[1]) not in shards and "/bm25/" not in name
    }


def inodes(folder, names):
    return {name: (folder / name).stat().st_ino for name in names}


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        pytest.param(seed, 1 if seed == 1 else 2, marks=pytest.mark.slow if seed == 1 else pytest.mark.faults)
        for seed in range(1, 9)
    ],
)
def test_answers_are_those_of_a_whole_build_and_other_shards_keep_their_files(tmp_path, seed, steps):
    random = Random(seed)
    pairs = pairs_of_chance(random, 400)
    places = home_of(tmp_path, pairs, vectors())
    build(places, "chat", **order_with("Flat"))
    first, folder = manifest_of(places, "chat"), folder_of(places, "chat")
    concerned = set(random.sample(range(SHARDS), random.choice((1, 2, 4))))
    for step in range(steps):
        words = (*WORDS, *UNKNOWN, *(f"new{step}-{number}" for number in range(9)))
        more = pairs_of_chance(random, 40, 5_000 + 100 * step, concerned, words)
        add_to_log(places, "chat", more)
        gone = [f"chat/{pair.dialogue}#{pair.position}" for pair in more[:20]]  # some were just added
        gone += [f"chat/{pair.dialogue}#{pair.position}" for pair in pairs if shard_of(pair.utterance) in concerned][:9]
        update_index(places, "chat", Silent())
        update_index(places, "chat", Silent(), erase=erased_keys(pairs=gone))
        built = compact_index(places, "chat", Silent())
        pairs += more
        assert built.published
        assert built.is_new
        kept = files_outside(first, concerned)
        assert files_outside(built.manifest, concerned) == kept
        assert inodes(folder_of(places, "chat"), kept) == inodes(folder, kept)
        assert [info.superseded for info in built.manifest.segments] == [0] * SHARDS
        build(places, "whole", **order_with("Flat"))  # knows nothing of what was erased from the other index alone
        update_index(places, "whole", Silent(), erase=built.manifest.erased)
        compact_index(places, "whole", Silent(), whole=True)
        whole = manifest_of(places, "whole")
        assert len(whole.segments) == SHARDS
        assert (built.manifest.utterances, built.manifest.pairs) == (whole.utterances, whole.pairs)
        assert built.manifest.check.recall == 1.0
        tests = chance_tests(random, pairs)
        assert answers(places, "chat", tests) == answers(places, "whole", tests)


@pytest.mark.slow
def test_compacting_again_and_again_ends_where_compacting_once_does(tmp_path):
    """By way of texts that come and go, in a kind that was trained: all that the two have in common is the training."""
    random = Random(3)
    pairs = pairs_of_chance(random, 1_000)
    homes = [home_of(tmp_path / name, pairs, vectors()) for name in ("once", "often")]
    lasting = pairs_of_chance(random, 30, 5_000, (1,), (*WORDS, "lasting"))
    passing = pairs_of_chance(random, 30, 6_000, (1, 4), (*WORDS, "passing", "passed"))
    for places in homes:
        build(places, "chat", **order_with(COARSE))
    trained = files_outside(manifest_of(homes[0], "chat"), ())
    add_to_log(homes[1], "chat", passing)
    for _ in range(2):
        update_index(homes[1], "chat", Silent())
        compact_index(homes[1], "chat", Silent())
        gone = erased_keys(pairs=[f"chat/{pair.dialogue}#{pair.position}" for pair in passing])
        update_index(homes[1], "chat", Silent(), erase=gone)
    for places in homes:
        add_to_log(places, "chat", lasting)
        update_index(places, "chat", Silent())
        compact_index(places, "chat", Silent())
    once, often = (manifest_of(places, "chat") for places in homes)
    vector_files = {name for name in trained if name.endswith(("vectors.faiss", "quick.npy", "check_rows.npy"))}
    of_once, of_often = files_outside(once, ()), files_outside(often, ())
    assert {name for name in vector_files if of_once[name] != trained[name]} == {
        f"shards/1/{name}" for name in ("vectors.faiss", "quick.npy", "check_rows.npy")
    }
    assert {of_often[name] == of_once[name] for name in vector_files} == {True}
    assert often.check == replace(once.check, seconds=often.check.seconds)
    tests = chance_tests(random, pairs + lasting + passing)
    assert answers(homes[1], "chat", tests) == answers(homes[0], "chat", tests)


def test_no_file_of_the_new_version_has_erased_text(tmp_path):
    random = Random(4)
    pairs = pairs_of_chance(random, 300)
    [utterance] = texts_of_chance(random, 1, (2,), (SECRET, "x1"))
    secret = [RawPair("chat", "gone", "1", f"{SECRET} {utterance}", f"reply with {SECRET}")]
    places = home_of(tmp_path, [*pairs, *secret], vectors())
    build(places, "chat", **order_with("Flat"))
    hashes = extra_words(places)
    update_index(places, "chat", Silent(), erase=erased_keys(dialogues=["gone"]))
    assert holders(folder_of(places, "chat"))  # masked, and still in the files
    left = places.cache / "update-chat-0123456789ab"
    left.mkdir()
    (left / "utterances.arrow").write_text(SECRET)  # of an update that was killed
    built = compact_index(places, "chat", Silent())
    assert built.manifest.inputs == ""
    assert holders(folder_of(places, "chat")) == []
    assert holders(places.cache) == []
    gone = hashes - extra_words(places)
    assert len(gone) == 3  # of the words that no other text has, no hash is left either: the word, `reply` and `with`
    compacted = compact_index(places, "chat", Silent())
    assert (compacted.version, compacted.is_new) == (built.version, False)


@pytest.mark.slow
def test_the_hash_of_an_erased_word_leaves_shards_that_are_taken_over(tmp_path):
    """The word is of a shard that brought it; another shard loses it last, and the first one is not concerned then."""
    random = Random(8)
    places = home_of(tmp_path, pairs_of_chance(random, 300, words=WORDS), vectors())
    order = order_with("Flat")
    [first], [last] = texts_of_chance(random, 1, (2,), WORDS), texts_of_chance(random, 1, (4,), WORDS)
    held = [RawPair("chat", f"held{at}", "1", text, SECRET) for at, text in enumerate((first, last))]
    add_to_log(places, "chat", held)
    build(places, "chat", **order)
    hashes = extra_words(places)
    for dialogue in ("held0", "held1"):
        update_index(places, "chat", Silent(), erase=erased_keys(dialogues=[dialogue]))
        compact_index(places, "chat", Silent())
    assert len(hashes - extra_words(places)) == 1
    assert len(hashes) == 1


@pytest.mark.slow
def test_a_shard_that_gains_an_utterance_and_loses_it_is_left_out(tmp_path):
    random = Random(9)
    pairs = pairs_of_chance(random, 200, shards=(0, 1, 2, 4, 5))
    places = home_of(tmp_path, pairs, vectors())
    build(places, "chat", **order_with("Flat"))
    passing = pairs_of_chance(random, 3, 5_000, (3,))
    add_to_log(places, "chat", passing)
    update_index(places, "chat", Silent())
    gone = erased_keys(pairs=[f"chat/{pair.dialogue}#{pair.position}" for pair in passing])
    update_index(places, "chat", Silent(), erase=gone)
    compacted = compact_index(places, "chat", Silent()).manifest
    assert [info.folder for info in compacted.segments] == [f"shards/{number}" for number in (0, 1, 2, 4, 5)]
    assert sum(info.superseded for info in compacted.segments) == 0


@pytest.mark.slow
def test_many_numbers_of_words_that_are_gone_lead_to_a_whole_build(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "_MANY_DEAD_WORDS", 20)
    random = Random(10)
    places = home_of(tmp_path, pairs_of_chance(random, 300, words=WORDS), vectors())
    build(places, "chat", **order_with("Flat"))
    whole, dead = list[bool](), list[int]()
    for round_of in range(3):
        passing = pairs_of_chance(
            random, 30, 5_000 + 100 * round_of, (1,), [f"n{round_of}-{number}" for number in range(12)]
        )
        add_to_log(places, "chat", passing)
        whole.append(compact_index(places, "chat", Silent()).manifest.inputs != "")
        keys = erased_keys(pairs=[f"chat/{pair.dialogue}#{pair.position}" for pair in passing])
        update_index(places, "chat", Silent(), erase=keys)
        compact_index(places, "chat", Silent())
        dead.append(sum(1 for word in extra_words(places) if word < 1 << 32))
    assert whole == [False, False, True]
    assert dead == [14, 28, 14]  # twelve numbers, their prefix and the hyphen


def holders(folder):
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def extra_words(places):
    folder = folder_of(places, "chat")
    return set(np.concatenate([np.load(path) for path in folder.rglob("extra_words.npy")]).tolist())


@pytest.mark.slow
def test_an_interrupted_compaction_goes_on_and_ends_the_same(tmp_path):
    random = Random(5)
    pairs, more = pairs_of_chance(random, 1_000), pairs_of_chance(random, 40, 5_000, (0, 3), (*WORDS, "new1", "new2"))
    ids, stops = [], set[str]()
    for name in ("straight", "stopped"):
        places = home_of(tmp_path / name, pairs, vectors())
        build(places, "chat", **order_with(COARSE))
        add_to_log(places, "chat", more)
        version = update_index(places, "chat", Silent()).built.version
        for attempt in range(80):
            try:
                built = compact_index(places, "chat", Silent() if name == "straight" else Interrupting(1 + attempt % 9))
                break
            except KeyboardInterrupt as stop:
                stops.add(str(stop))
                assert places.indexes.resolve("chat")[1] == version
        ids.append((built.manifest.id, built.manifest.files))
    assert len(stops) >= 6, stops
    assert ids[0] == ids[1]


@pytest.mark.slow
def test_all_shards_are_built_where_each_is_concerned_or_training_is_out_of_date(tmp_path):
    random = Random(6)
    places = home_of(tmp_path, pairs_of_chance(random, 1_000), vectors())
    build(places, "chat", **order_with(COARSE))
    add_to_log(places, "chat", pairs_of_chance(random, 60, 5_000))
    compact_index(places, "chat", Silent())
    assert_whole(places)  # every shard is concerned
    add_to_log(places, "chat", pairs_of_chance(random, 4_000, 10_000, (1, 2)))
    compact_index(places, "chat", Silent())
    assert_whole(places)  # more than twice as many as at the training
    before = manifest_of(places, "chat")
    assert before.trained_utterances == 0
    add_to_log(places, "chat", pairs_of_chance(random, 30, 20_000, (1,)))
    compacted = compact_index(places, "chat", Silent()).manifest
    assert compacted.trained_utterances == before.utterances
    assert compacted.logs[0].pairs == 1_000 + 60 + 4_000 + 30  # of the logs as they are, without an update before
    assert compact_index(places, "chat", Silent(), whole=True).manifest.trained_utterances == 0
    assert_whole(places)


def assert_whole(places):
    """The files are those of a build in one go."""
    build(places, "expected", **order_with(COARSE))
    assert manifest_of(places, "chat").files == manifest_of(places, "expected").files
    assert manifest_of(places, "chat").inputs


def test_work_that_a_cluster_left_and_references_that_were_found_go_with_the_deleted_texts(tmp_path):
    random = Random(5)
    places = home_of(tmp_path, pairs_of_chance(random, 60), vectors())
    build(places, **order_with("Flat"))
    hidden = [SECRET + " " + text for text in texts_of_chance(random, 2)]
    of_index = places.cache / "cluster-index-chat-0123456789ab" / "grouped" / "log" / "x-0" / "2.parquet"
    references = finished_references(places.cache, "chat", "f" * 64) / "blocks" / "block.jsonl"
    at_work = finished_references(places.cache, "chat", "e" * 64) / "block.jsonl"
    of_others = [
        places.cache / "cluster-index-chat-two-0123456789ab" / "2.parquet",
        finished_references(places.cache, "chat-two", "f" * 64) / "block.jsonl",
    ]
    for path, text in zip((of_index, references, at_work, *of_others), hidden * 3, strict=False):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    with exclusive(at_work.parent, "finding references"):
        compact_index(places, "chat", Silent())
    assert [path.exists() for path in (of_index, references, at_work, *of_others)] == [False, False, True, True, True]
    compact_index(places, "chat", Silent())
    assert not at_work.exists()
    assert not list(places.cache.glob("cluster-index-chat-0*"))


@pytest.mark.parametrize("how", [update_index, compact_index, build])
def test_a_log_that_was_deleted_whole_leaves_the_index_for_good(tmp_path, how):
    pairs = [RawPair(log, "d", "1", "w1 w2", f"w3 of {log}", None, "s") for log in ("chat", "other")]
    places, told = home_of(tmp_path, pairs, vectors()), Told()
    first = build(places, "both")
    delete_log(places.logs, "other")
    if how is build:
        build(places, "both", logs=("chat",))
    else:
        how(places, "both", told)
        assert told.warnings == ["log other was deleted: its 1 pairs leave index both"]
    with ReferenceIndex.open(places, "both") as index:
        (found,) = index.search([Item(id="", turns=("w1 w2",), references=())], SearchSettings())
    assert [one.text for one in found.references] == ["w3 of chat"]
    with refusing(Conflict, f"both@{first}"):
        rollback(places, "both", first)
    delete_log(places.logs, "chat")
    with refusing(NotFound, "index both", "log chat"):
        update_index(places, "both", Silent())


def test_a_log_that_was_deleted_whole_and_made_again_with_less_has_lost_pairs(tmp_path):
    pairs = [RawPair("chat", f"d{number}", "1", "w1 w2", f"w{number}", None, "s") for number in range(3)]
    places = home_of(tmp_path, pairs, vectors())
    build(places, "chat")
    delete_log(places.logs, "chat")
    add_to_log(places, "chat", pairs[1:])
    assert update_index(places, "chat", Silent()).built.manifest.erasures == 1
