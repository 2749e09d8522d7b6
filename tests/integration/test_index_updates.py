"""Updates, deletions, compaction: at every step an index answers as one built anew, and shows nothing deleted."""

from __future__ import annotations

import copy
import itertools
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
import pytest
from encoders import keep_texts, kept_texts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from integration import reference
from integration.conftest import ROOT, in_group
from refusals import refusing

from refaug.core.errors import CheckFailed
from refaug.core.progress import Silent
from refaug.core.records import Item, Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.building.update import require_recall
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.training import VectorsOrder, train_vectors
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest.order import IngestOrder

WORDS = [*reference.WORDS, "milk", "road"]
SPEAKERS = ["ann", "bob", "cem", "dora", "eve", "fay"]
EMBEDDING, BM25 = ("embedding-utterance", "embedding-dialog"), ("bm25-utterance", "bm25-dialog")
FEW = ("--check-queries", "8")


@dataclass(frozen=True)
class Said:
    """A pair of a log, as one who knows the rules writes it down."""

    dialogue: str
    position: int
    utterance: str
    response: str
    speakers: frozenset[str]

    @property
    def id(self) -> str:
        return f"chat/{self.dialogue}#{self.position}"

    @property
    def key(self) -> tuple[str, str]:
        return normalise(self.utterance), normalise(self.response)


@dataclass
class World:
    """What is in a log and what may be found in its index, in plain Python; and how it goes on, by chance."""

    rng: random.Random
    alive: list[Said] = field(default_factory=list)
    gone: list[Said] = field(default_factory=list)
    dialogues: int = 0
    sentences: list[str] = field(default_factory=list)
    silenced: set[str] = field(default_factory=set)  # speakers that were deleted

    def __post_init__(self) -> None:
        self.sentences = [" ".join(self.rng.choices(WORDS, k=self.rng.randint(1, 5))) for _ in range(30)]

    def text(self) -> str:
        """Something that was said before, perhaps written in another way; or something that nobody will say again."""
        kind = self.rng.random()
        if kind < 0.2:
            return f"{self.rng.choice(self.sentences)} only{self.rng.getrandbits(40):x}"
        said = self.rng.choice(self.sentences)
        return said if kind < 0.7 else self.rng.choice([said.upper(), f"{said}!", f"«{said}»", said.capitalize()])

    def talk(self, count: int) -> list[dict[str, object]]:
        """Some further dialogues; what can be found of them is noted."""
        rows = []
        for _ in range(count):
            name = f"{self.rng.choice(['d', 'é/#', 'a b'])}{self.dialogues}"
            self.dialogues += 1
            turns = [(self.text(), self.rng.choice(SPEAKERS)) for _ in range(self.rng.randint(2, 6))]
            begun = 1_600_000_000 + self.rng.randrange(10**6)
            rows.append(
                {
                    "id": name,
                    "turns": [
                        {"text": text, "speaker": speaker, "time": begun + place}
                        for place, (text, speaker) in enumerate(turns)
                    ],
                }
            )
            for place, (one, other) in enumerate(itertools.pairwise(turns), start=1):
                said = Said(name, place, one[0], other[0], frozenset((one[1], other[1])))
                (self.gone if said.speakers & self.silenced else self.alive).append(said)
        return rows

    def delete(self, condition) -> None:
        self.gone += [said for said in self.alive if condition(said)]
        self.alive = [said for said in self.alive if not condition(said)]

    def counts(self) -> Counter[tuple[str, str]]:
        return Counter(said.key for said in self.alive)

    def test_pairs(self) -> list[Item]:
        """All words at once, so that everything is found; pairs of the log, one with all that a test pair may have."""
        some = self.rng.sample(self.alive, 5)
        texts = [(" ".join(WORDS), " ".join(WORDS[::2])), *((said.utterance, said.response) for said in some[:2])]
        pairs = [Item(id="", turns=(one,), references=(Reference(text=other),)) for one, other in texts]
        response = Reference(text=self.rng.choice(self.sentences))
        further = {"dialogue": some[2].dialogue, "exclude": tuple(said.dialogue for said in some[3:])}
        return [*pairs, Item(id="", turns=(some[2].utterance,), references=(response,), **further)]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A home with vectors of most words, and no log."""
    home = tmp_path_factory.mktemp("vectors") / "home"
    home.mkdir()
    rng = random.Random(1)
    rows = [{"id": str(n), "turns": [" ".join(rng.choices(WORDS[:-2], k=6)) for _ in range(4)]} for n in range(60)]
    (home / "log.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    places = Places.under(home)
    ingesting.ingest(IngestOrder(sources=(str(home / "log.jsonl"),), log="words"), places.logs, Silent())
    order = VectorsOrder(
        name="chat",
        logs=("words",),
        min_count=1,
        cooccurrence=CooccurrenceSettings(memory_bytes=1 << 20),
        glove=GloveSettings(dimensions=12, epochs=2, threads=1),
    )
    train_vectors(places, order, Silent())
    shutil.rmtree(places.logs)
    return home


class Answer(NamedTuple):
    """What a search has found; the index's own name and version are left out."""

    references: list[tuple[str, dict[str, object]]]
    excluded: dict[str, int]
    note: str


def answers(index: ReferenceIndex, pairs: list[Item], mode: str, k: int) -> list[Answer]:
    found = index.search(pairs, SearchSettings(mode=mode, k=k))
    return [
        Answer(
            [(one.text, {**one.origin, "similarity": one.similarity, "index": ""}) for one in answer.references],
            answer.search_notes.get("excluded", {}),
            answer.search_notes.get("note", ""),
        )
        for answer in found
    ]


class Indexed:
    """A log and its index `chat`, the world that they should show, and what is asked of them."""

    def __init__(self, home, world: World) -> None:
        self.home, self.world = home, world

    def run(self, *command):
        result = self.home(*command, "--json")
        assert result.code == 0, result.err
        return result.json

    def ingest(self, count: int) -> None:
        (self.home.path / "more.jsonl").write_bytes(b"\n".join(map(orjson.dumps, self.world.talk(count))))
        self.run("log", "ingest", self.home.path / "more.jsonl", "--log", "chat")
        (self.home.path / "more.jsonl").unlink()

    def build(self, name: str = "chat", *more) -> dict:
        return self.run("index", "build", "chat", "--name", name, "--vectors", "chat", *FEW, *more)

    @property
    def places(self) -> Places:
        return Places.under(self.home.path)

    def folder(self, index: str = "chat"):
        return self.places.indexes.folder(index, self.places.indexes.current(index))

    def require_world(self) -> None:
        """What can be found is what is alive, as often as it is, and everything that is alive is counted."""
        counts = self.world.counts()
        shown = self.run("artefacts", "show", "index", "chat")
        utterances = sum(one["utterances"] - one["superseded"] for one in shown["segments"])
        assert utterances == len({utterance for utterance, _ in counts})
        ids = {said.id for said in self.world.alive}
        with ReferenceIndex.open(self.places, "chat") as opened:
            for mode in (*EMBEDDING, *BM25):
                for answer in answers(opened, self.world.test_pairs(), mode, 1000):
                    for text, one in answer.references:
                        assert one["count"] == counts[normalise(one["utterance"]), normalise(text)]
                        assert one["pair"] in ids

    def require_as_anew(self, *modes: str) -> None:
        """The same answers as those of an index that is built from the log as it is now."""
        self.build("anew")
        pairs = self.world.test_pairs()
        with ReferenceIndex.open(self.places, "chat") as one, ReferenceIndex.open(self.places, "anew") as other:
            for mode, k in itertools.product(modes, (1000, 3)):
                assert answers(one, pairs, mode, k) == answers(other, pairs, mode, k), (mode, k)

    def require_nothing_gone(self) -> None:
        """No byte of the compacted version is of a text or a dialogue that only the deleted had."""
        data = b"".join(path.read_bytes() for path in self.folder().rglob("*") if path.is_file())
        alive = {text for said in self.world.alive for text in (said.utterance, said.response)}
        everything = "\n".join(alive)
        texts = {text for said in self.world.gone for text in (said.utterance, said.response) if "only" in text}
        for text in texts:
            assert (text.encode() in data) is (text in everything), text
        dialogues = {said.dialogue for said in self.world.gone} - {said.dialogue for said in self.world.alive}
        data_of_ids = (self.folder() / "segments/0/occurrences.arrow").read_bytes()
        alive_ids = "\n".join(said.dialogue for said in self.world.alive)
        for dialogue in dialogues:
            assert (dialogue.encode() in data_of_ids) is (dialogue in alive_ids), dialogue


def begin(home, vectors, seed: int, *, dialogues: int = 30) -> Indexed:
    shutil.rmtree(home.path, ignore_errors=True)
    shutil.copytree(vectors, home.path)
    indexed = Indexed(home, World(random.Random(seed)))
    indexed.ingest(dialogues)
    indexed.build("chat")
    return indexed


# ── a long life ───────────────────────────────────────────────────────────────────────────────────────────────────────


def append(indexed: Indexed) -> None:
    indexed.ingest(indexed.world.rng.randint(1, 6))


def delete_from_log(indexed: Indexed) -> None:
    world = indexed.world
    some = {said.dialogue for said in world.rng.sample(world.alive, 2)}
    indexed.run("log", "delete", "chat", *(part for name in sorted(some) for part in ("--dialogue", name)))
    world.delete(lambda said: said.dialogue in some)


def silence_in_log(indexed: Indexed) -> None:
    speaker = indexed.world.rng.choice(SPEAKERS)
    indexed.run("log", "delete", "chat", "--speaker", speaker)
    indexed.world.silenced.add(speaker)
    indexed.world.delete(lambda said: speaker in said.speakers)


def delete_from_index(indexed: Indexed, *options: str) -> None:
    for name in ("chat", "anew"):
        indexed.run("index", "delete", name, *options)


def delete_pair(indexed: Indexed) -> None:
    chosen = indexed.world.rng.choice(indexed.world.alive)
    delete_from_index(indexed, "--pair", chosen.id)
    indexed.world.delete(lambda said: said == chosen)


def delete_dialogue(indexed: Indexed) -> None:
    chosen = indexed.world.rng.choice(indexed.world.alive).dialogue
    delete_from_index(indexed, "--dialogue", chosen)
    indexed.world.delete(lambda said: said.dialogue == chosen)


def delete_speaker(indexed: Indexed) -> None:
    chosen = indexed.world.rng.choice(SPEAKERS)
    delete_from_index(indexed, "--speaker", chosen)
    indexed.world.silenced.add(chosen)
    indexed.world.delete(lambda said: chosen in said.speakers)


OFTEN = [append, append, append, delete_from_log, delete_from_log, delete_pair, delete_dialogue]
SELDOM = [silence_in_log, delete_speaker]


def live(indexed: Indexed, steps: int) -> None:
    """Some events, an update, and all that must hold then; again and again, and compacted now and then."""
    rng = indexed.world.rng
    indexed.build("anew")
    for step in range(steps):
        for event in rng.sample(OFTEN, 2) + (rng.sample(SELDOM, 1) if step % 4 == 1 else []):
            event(indexed)
        indexed.run("index", "update", "chat")
        indexed.require_world()
        indexed.require_as_anew(*EMBEDDING)
        assert indexed.run("index", "update", "chat")["published"] is False  # there is nothing to do
        if step == steps - 1 or rng.random() < 0.25:
            compacted = indexed.run("index", "compact", "chat")
            assert (compacted["segments"], compacted["superseded"]) == (1, 0)
            indexed.require_as_anew(*EMBEDDING, *BM25)
            assert indexed.run("artefacts", "show", "index", "anew")["id"][:12] == compacted["id"]
            indexed.require_nothing_gone()


LONG = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate],
)


@pytest.mark.slow
@settings(LONG, max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_to_a_log_its_index_answers_as_one_built_anew(home, vectors, seed):
    live(begin(home, vectors, seed), steps=2)


@pytest.mark.faults
@settings(LONG, max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_in_a_longer_life_it_does_so_too(home, vectors, seed):
    live(begin(home, vectors, seed, dialogues=60), steps=12)


# ── deletions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the home of the seventh world is kept, so that it is made once."""
    return tmp_path_factory.mktemp("kept"), []


@pytest.fixture
def indexed(home, vectors, kept):
    folder, worlds = kept
    if not worlds:
        worlds.append(begin(home, vectors, 7).world)
        shutil.copytree(home.path, folder / "home")
    shutil.copytree(folder / "home", home.path, dirs_exist_ok=True)
    return Indexed(home, copy.deepcopy(worlds[0]))


def found(indexed: Indexed, index: str = "chat") -> list[str]:
    """The ids of the pairs that an index shows, as far as texts differ."""
    result = indexed.home("index", "search", index, " ".join(WORDS), "-k", "1000", "--json")
    assert result.code == 0, result.err
    return [one["pair"] for one in orjson.loads(result.out)["references"]]


def versions(indexed: Indexed) -> list[tuple[str, bool]]:
    rows = indexed.run("artefacts", "list", "index")["versions"]
    return [(row["version"], row["published"]) for row in rows if row["name"] == "chat"]


def test_what_is_deleted_is_masked_at_once_and_the_rest_is_the_same_file(indexed):
    base, chosen = indexed.folder(), indexed.world.alive[0]
    before = found(indexed)
    assert chosen.id in before
    told = indexed.run("index", "delete", "chat", "--pair", chosen.id)
    assert (told["published"], told["gone"] + told["changed"]) == (True, 1)
    assert [pair for pair in before if pair not in found(indexed)] == [chosen.id]
    shared = [path for path in base.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert all(path.samefile(indexed.folder() / path.relative_to(base)) for path in shared)
    assert indexed.run("artefacts", "gc", "index", "chat", "--keep", "0")["removed"] == [base.name]
    assert chosen.id not in found(indexed)
    again = indexed.run("index", "delete", "chat", "--pair", chosen.id)
    assert (again["changed"], again["gone"], again["published"]) == (0, 0, False)
    said = indexed.home("index", "delete", "chat", "--dialogue", "nobody's").out
    assert said == "nothing of what was named is in index chat; it will stay out from now on\n"


def test_an_index_whose_log_is_gone_can_be_removed(indexed):
    assert indexed.home("log", "delete", "chat", "--whole", "--yes").code == 0
    refused = indexed.home("artefacts", "remove", "index", "chat", "--json")
    assert (refused.code, refused.error["message"]) == (2, "this removes index chat with all its versions")
    versions = indexed.places.indexes.versions("chat")
    assert indexed.run("artefacts", "remove", "index", "chat", "--yes") == {
        "kind": "index",
        "name": "chat",
        "removed": versions,
    }
    assert not (indexed.home.path / "indexes/chat").exists()
    again = indexed.home("artefacts", "remove", "index", "chat", "--yes", "--json")
    assert (again.code, again.error["code"]) == (3, "not_found")


def test_an_exported_version_does_not_bring_back_what_was_deleted_since(indexed):
    file, chosen = indexed.home.path / "chat.tar.zst", indexed.world.alive[0]
    indexed.run("artefacts", "export", "index", "chat", file)
    indexed.run("index", "delete", "chat", "--pair", chosen.id)
    indexed.run("artefacts", "gc", "index", "chat", "--keep", "0")
    result = indexed.home("artefacts", "import", file, "--publish", "--json")
    assert (result.code, result.error["code"]) == (4, "conflict")
    assert chosen.id not in found(indexed)


@pytest.mark.parametrize("where", ["log", "index"])
def test_a_version_that_shows_what_was_deleted_since_never_comes_back(indexed, where):
    indexed.ingest(2)
    indexed.run("index", "update", "chat")
    chosen = indexed.world.alive[0].dialogue
    if where == "log":
        indexed.run("log", "delete", "chat", "--dialogue", chosen)
        indexed.run("index", "update", "chat")
    else:
        indexed.run("index", "delete", "chat", "--dialogue", chosen)
    (first, _), (second, _), (third, _) = versions(indexed)
    for command in (
        ("artefacts", "rollback", "index", "chat"),
        ("artefacts", "rollback", "index", "chat", "--to", first),
        ("artefacts", "publish", "index", f"chat@{second}"),
    ):
        result = indexed.home(*in_group("index", command))
        assert (result.code, result.err.startswith("error [conflict]")) == (4, True)
        assert "holds pairs that have been deleted since" in result.err
        assert "refaug index compact chat" in result.err
    assert versions(indexed)[-1] == (third, True)
    indexed.ingest(1)
    fourth = indexed.run("index", "update", "chat")["index"].partition("@")[2]
    assert indexed.home("artefacts", "rollback", "index", "chat").code == 0  # the third has lost nothing
    assert versions(indexed)[-2:] == [(third, True), (fourth, False)]


def test_version_does_not_come_back_after_its_log_was_deleted_and_remade(indexed):
    lost = found(indexed)
    assert indexed.home("log", "delete", "chat", "--whole", "--yes").code == 0
    indexed.ingest(3)
    indexed.run("index", "update", "chat")
    assert not set(lost) <= set(found(indexed))
    result = indexed.home("artefacts", "rollback", "index", "chat")
    assert (result.code, "holds pairs that have been deleted since" in result.err) == (4, True), result.err


def test_version_from_before_a_deletion_cannot_be_published_or_restored(indexed):
    (first, _) = versions(indexed)[0]
    indexed.run("log", "delete", "chat", "--dialogue", indexed.world.alive[0].dialogue)
    indexed.build("chat", "--no-publish")
    assert indexed.home("artefacts", "publish", "index", f"chat@{first}").code == 4
    second = versions(indexed)[-1][0]
    assert indexed.home("artefacts", "publish", "index", f"chat@{second}").code == 0
    assert indexed.home("artefacts", "rollback", "index", "chat").code == 4


def test_pairs_deleted_from_the_index_alone_stay_out_of_later_versions(indexed):
    chosen = indexed.world.alive[0]
    erased = [said for said in indexed.world.alive if said.dialogue == chosen.dialogue or "ann" in said.speakers]
    texts = {text for said in erased for text in (said.utterance, said.response)}
    surfaces = Counter(
        map(normalise, {text for said in indexed.world.alive for text in (said.utterance, said.response)})
    )
    shown = {text for text in texts if surfaces[normalise(text)] == 1}  # of several, an index has one
    keep_texts(indexed.home.path / "cache", [*shown, "tea for nobody"])
    indexed.run("index", "delete", "chat", "--dialogue", chosen.dialogue, "--speaker", "ann")
    assert kept_texts(indexed.home.path / "cache", [*shown, "tea for nobody"]) == {"tea for nobody"}
    (indexed.home.path / "names").write_text(f"{indexed.world.alive[-1].dialogue}\n")
    indexed.run("index", "delete", "chat", "--dialogues-from", indexed.home.path / "names")
    out = {chosen.dialogue, indexed.world.alive[-1].dialogue}
    indexed.ingest(5)
    wanted = {said.id for said in indexed.world.alive if said.dialogue not in out and "ann" not in said.speakers}
    for command in (("update", "chat"), ("compact", "chat")):
        indexed.run(*in_group("index", command))
        assert set(found(indexed)) <= wanted
    indexed.build()
    assert set(found(indexed)) <= wanted
    names = ("ann", chosen.dialogue)
    data = b"".join(path.read_bytes() for path in indexed.folder().rglob("*.json"))
    assert not any(f'"{name}"'.encode() in data for name in names)  # only their hashes are kept


def test_a_name_that_is_not_in_the_index_yet_is_kept_out_from_now_on(indexed):
    row = {"id": "new", "turns": [{"text": "tea and rain", "speaker": "gus"}, {"text": "milk", "speaker": "hal"}]}
    (indexed.home.path / "new.jsonl").write_bytes(orjson.dumps(row))
    indexed.run("log", "ingest", indexed.home.path / "new.jsonl", "--log", "chat")
    indexed.run("index", "delete", "chat", "--speaker", "gus")
    indexed.run("index", "update", "chat")
    assert "chat/new#1" not in found(indexed)


def test_deletion_is_published_even_if_the_recall_is_missed(indexed):
    build = ("build", "chat", "--name", "chat", "--vectors", "chat", "--factory", "HNSW2", "--recall", "1.0")
    failed = indexed.home("index", *build)
    assert failed.code == 6
    assert indexed.home("artefacts", "publish", "index", f"chat@{versions(indexed)[-1][0]}", "--even-refused").code == 0
    chosen = next(said for said in indexed.world.alive if said.id in found(indexed))
    result = indexed.home("index", "delete", "chat", "--pair", chosen.id)
    assert chosen.id not in found(indexed), result.err


def test_a_log_that_has_lost_everything_takes_everything_out_of_its_index(indexed):
    names = sorted({said.dialogue for said in indexed.world.alive})
    (indexed.home.path / "names").write_text("\n".join(names))
    indexed.run("log", "delete", "chat", "--dialogues", indexed.home.path / "names")
    indexed.run("index", "update", "chat")
    assert found(indexed) == []


def test_everything_can_be_deleted_from_an_index_and_something_said_later(indexed):
    (indexed.home.path / "names").write_text("\n".join(SPEAKERS))
    told = indexed.run("index", "delete", "chat", "--speakers-from", indexed.home.path / "names")
    assert (told["utterances"], told["changed"]) == (0, 0)
    assert found(indexed) == []
    row = {"id": "later", "turns": [{"text": "tea or milk", "speaker": "gus"}, {"text": "rain", "speaker": "hal"}]}
    (indexed.home.path / "later.jsonl").write_bytes(orjson.dumps(row))
    indexed.run("log", "ingest", indexed.home.path / "later.jsonl", "--log", "chat")
    indexed.run("index", "update", "chat")
    assert found(indexed) == ["chat/later#1"]
    assert indexed.run("index", "compact", "chat")["utterances"] == 1
    assert found(indexed) == ["chat/later#1"]


# ── updates ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_index_that_is_as_its_logs_are_is_left_alone(indexed):
    before = versions(indexed)
    told = indexed.run("index", "update", "chat")
    assert told == {"index": "chat", "changed": 0, "gone": 0, "published": False}
    assert indexed.home("index", "update", "chat").out == "index chat is as its logs are: nothing to do\n"
    assert versions(indexed) == before


def test_an_update_tells_what_it_did_and_when_compacting_pays(indexed):
    before = {normalise(said.utterance) for said in indexed.world.alive}
    keys = indexed.world.counts()
    indexed.ingest(40)
    after = indexed.world.counts() - keys
    changed = {utterance for utterance, _ in after}
    people = indexed.home("index", "update", "chat").out
    assert ["changed", str(len(changed))] in [line.split() for line in people.splitlines()]
    assert "much of it lies in later segments: refaug index compact chat makes searching quicker" in people
    shown = indexed.run("artefacts", "show", "index", "chat")
    assert [one["utterances"] for one in shown["segments"]] == [len(before), len(changed)]
    assert [one["superseded"] for one in shown["segments"]] == [len(changed & before), 0]
    assert [one["folder"] for one in shown["segments"]] == ["segments/0", "segments/1"]


def test_an_update_that_is_not_published_waits_until_it_is(indexed):
    before = found(indexed)
    indexed.ingest(3)
    told = indexed.run("index", "update", "chat", "--no-publish")
    assert told["published"] is False
    assert found(indexed) == before
    assert indexed.home("artefacts", "publish", "index", told["index"]).code == 0
    assert found(indexed) != before
    indexed.require_as_anew(*EMBEDDING)


def test_a_version_with_less_recall_is_refused_unless_it_masks_what_was_deleted(indexed):
    indexed.ingest(3)
    version = indexed.run("index", "update", "chat", "--no-publish")["index"].partition("@")[2]
    require_recall(indexed.places, "chat", version, 0.9, 0.9, Silent(), must_go=False)
    require_recall(indexed.places, "chat", version, 0.5, 0.9, Silent(), must_go=True)
    with refusing(CheckFailed, "recall@15", "0.500", "0.900"):
        require_recall(indexed.places, "chat", version, 0.5, 0.9, Silent(), must_go=False)
    assert indexed.home("artefacts", "publish", "index", f"chat@{version}").code != 0
    assert indexed.home("artefacts", "publish", "index", f"chat@{version}", "--even-refused").code == 0


def test_new_texts_without_any_known_word_are_found_by_their_words_alone(indexed):
    rows = [{"id": "new", "turns": ["xyzzy plugh", "qux quux"]}]
    (indexed.home.path / "new.jsonl").write_bytes(orjson.dumps(rows[0]))
    indexed.run("log", "ingest", indexed.home.path / "new.jsonl", "--log", "chat")
    told = indexed.run("index", "update", "chat")
    assert (told["changed"], told["without_vector"] > 0, told["segments"]) == (1, True, 2)
    assert "chat/new#1" not in found(indexed)
    indexed.run("index", "compact", "chat")
    result = indexed.home("index", "search", "chat", "plugh", "--mode", "bm25-utterance", "--json")
    assert [one["pair"] for one in orjson.loads(result.out)["references"]] == ["chat/new#1"]


def test_an_index_keeps_the_vectors_that_it_was_built_with(indexed):
    before = indexed.run("artefacts", "show", "index", "chat")["vectors"]
    train = ("train", "vectors", "chat", "--min-count", "1", "--dimensions", "5", "--epochs", "1")
    assert indexed.run(*train)["published"] is True
    indexed.ingest(3)
    indexed.run("index", "update", "chat")
    indexed.run("index", "compact", "chat")
    assert indexed.run("artefacts", "show", "index", "chat")["vectors"] == before
    assert indexed.build()["dimensions"] == 5


def test_recall_is_measured_again_when_there_is_enough_to_measure_it_on(indexed):
    _, *others = sorted({said.dialogue for said in indexed.world.alive})
    (indexed.home.path / "names").write_text("\n".join(others))
    indexed.run("index", "delete", "chat", "--dialogues-from", indexed.home.path / "names")
    indexed.run("index", "compact", "chat")  # a few utterances, none of which has fifteen others
    indexed.ingest(30)
    for command in ("update", "compact"):
        told = indexed.run("index", command, "chat")
    assert (told["recall_queries"], told["recall_at_15"]) == (int(FEW[1]), 1.0)


def test_an_update_does_not_make_a_damaged_version_look_whole(indexed):
    (indexed.folder() / "segments/0/vectors.faiss").unlink()
    indexed.ingest(1)
    result = indexed.home("index", "update", "chat")
    assert (result.code, "vectors.faiss" in result.err) == (3, True), result.out
    assert indexed.home("index", "compact", "chat").code == 0
    indexed.require_as_anew(*EMBEDDING)


# ── readers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# A process that opens an index, and answers whenever it is asked to.
READER = """if True:
    import sys
    from pathlib import Path
    from refaug.core.records import Item
    from refaug.indexer.search.index import ReferenceIndex
    from refaug.indexer.index_folders import Places
    from refaug.indexer.search.search_settings import SearchSettings

    with ReferenceIndex.open(Places.under(Path(sys.argv[1])), "chat") as index:
        pair = Item(id="", turns=(sys.argv[2],))
        print("open", flush=True)
        for _ in sys.stdin:
            references = index.search([pair], SearchSettings(k=1000))[0].references
            print(index.version, *(one.more["pair"].replace(" ", "_") for one in references), flush=True)
"""


@pytest.fixture
def reader(indexed):
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(indexed.home.path), " ".join(WORDS)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"open\n"
        yield process
        process.kill()


def ask(reader) -> list[str]:
    reader.stdin.write(b"\n")
    reader.stdin.flush()
    return reader.stdout.readline().decode().split()


def test_a_reader_keeps_its_version_and_nobody_removes_it(indexed, reader):
    (first, _) = versions(indexed)[0]
    before = ask(reader)
    assert before == [first, *(pair.replace(" ", "_") for pair in found(indexed))]
    indexed.run("index", "delete", "chat", "--dialogue", indexed.world.alive[0].dialogue)
    indexed.run("index", "compact", "chat")
    (_, (second, _), _) = versions(indexed)
    assert indexed.run("artefacts", "gc", "index", "chat", "--keep", "0")["removed"] == [second]
    assert ask(reader) == before
    assert first in [version for version, _ in versions(indexed)]
    reader.communicate()
    assert indexed.run("artefacts", "gc", "index", "chat", "--keep", "0")["removed"] == [first]
    assert len(versions(indexed)) == 1
