"""A kill at any moment of a build, with shards or without, an update, a deletion, a compaction, a removal of old
versions, a training: what serves is whole, before and after, and the same command finishes it.

What is killed, and how, is in tests/faults.py.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from refaug.core.artefacts.manifests import MANIFEST, verify_files
from refaug.core.artefacts.versions import Versions
from refaug.core.files import read_json
from refaug.core.vectors.word_vectors import open_word_vectors
from refaug.indexer.building.sharding import seconds_by_stage
from refaug.indexer.manifest import IndexManifest

pytestmark = pytest.mark.slow

MANY = 200
ONE = ("--threads", "1")  # see tests/faults.py
BUILD = ("index", "build", "chat", "--check-queries", "10", *ONE)
TRAIN = ("train", "vectors", "chat", "--dimensions", "8", "--epochs", "4", "--min-count", "1", *ONE)
UPDATE, COMPACT = ("index", "update", "chat", *ONE), ("index", "compact", "chat", *ONE)
DELETE = ("index", "delete", "chat", "--dialogue", "demo/000004", "--speaker", "speaker-001", *ONE)
BUILD_SHARDS = (*BUILD, "--shards", "3")
BUILD_MANY_SHARDS = (*BUILD, "--shards", "40")  # so that a deletion concerns a few of them
DELETE_DIALOGUE = ("index", "delete", "chat", "--dialogue", "demo/000004", *ONE)
GC = ("artefacts", "gc", "index", "chat", "--keep", "0")
GROW = (("log", "ingest", "{more}", "--log", "chat"), ("log", "delete", "chat", "--dialogue", "demo/000003"))
ASKED = ("Is it going to rain today?", "Where do you buy your tea?")

# What a home is made of: another one, and commands.
HOMES = {
    "ready": ("", (("log", "ingest", "{old}", "--log", "chat"), TRAIN)),
    "built": ("ready", (BUILD,)),
    "grown": ("built", GROW),
    "changed": ("grown", (UPDATE, DELETE)),
    "shards": ("grown", (BUILD_SHARDS,)),
    "masked shards": ("ready", (BUILD_MANY_SHARDS, DELETE_DIALOGUE)),
    "logged": ("", (("log", "ingest", "{old}", "--log", "chat"),)),
}
# What is there before the command that is killed, and that command.
SCENES = {
    "first build": ("ready", BUILD),
    "build": ("grown", BUILD),
    "update": ("grown", UPDATE),
    "delete": ("built", DELETE),
    "compact": ("changed", COMPACT),
    "train": ("logged", TRAIN),
    "build of shards": ("grown", BUILD_SHARDS),
    "compact of shards": ("masked shards", COMPACT),
    "gc of shards": ("shards", GC),
}


@dataclass(frozen=True)
class State:
    """What a name stands for: the content of its published version, and what that answers."""

    content: str
    answers: str


class Home:
    """A home folder that the driver works on."""

    def __init__(self, path: Path, driver, kind: str) -> None:
        self.path, self._driver, self.kind = path, driver, kind

    def __call__(self, command, **kill):
        return self._driver.answer("--home", self.path, "--quiet", *command, **kill)

    @property
    def versions(self) -> Versions:
        root = self.path / {"index": "indexes", "vectors": "vectors"}[self.kind]
        return Versions(root, self.kind)

    @property
    def published(self) -> Path:
        return self.versions.folder("chat", self.versions.current("chat"))

    @property
    def cache(self) -> list[Path]:
        """Work in progress; a folder that was just made, or is just about to go, is none."""
        return [folder for folder in sorted((self.path / "cache").glob("*")) if any(folder.iterdir())]

    def state(self) -> State | None:
        """What serves, or None; every version there is has every byte that its manifest says."""
        for version in self.versions.versions("chat"):
            folder = self.versions.folder("chat", version)
            verify_files(folder, read_json(folder / MANIFEST))
        if self.versions.current("chat") is None:
            return None
        if self.kind == "vectors":
            vectors = open_word_vectors(self.published)
            vectors.verify()
            return State(vectors.sha256, "")
        return State(IndexManifest.read(self.published).id, self._answers())

    def _answers(self) -> str:
        code, _, out = self(("index", "search", "chat", *ASKED, "-k", "1000", "--json", *ONE))
        assert code == 0
        return out.replace(self.published.name, "VERSION")


@dataclass(frozen=True)
class Played:
    """A scene that was played to its end once."""

    folder: Path  # a home as it is before
    kind: str
    command: tuple[str, ...]
    before: State | None
    after: State
    events: list[tuple[str, int]]

    def count(self, event: str) -> int:
        return sum(kind == event for kind, _ in self.events)

    def begin(self, path: Path, driver) -> Home:
        shutil.copytree(self.folder, path)
        return Home(path, driver, self.kind)


@pytest.fixture(scope="module")
def files(tmp_path_factory, driver):
    """Dialogues for a log, and further ones."""
    folder = tmp_path_factory.mktemp("files")
    for name, seed, count in (("old", 1, 40), ("more", 2, 8)):
        written = ("--output", folder / f"{name}.jsonl", "--items-output", folder / "items.jsonl", "--items", "1")
        assert driver("log", "demo", "--dialogues", count, "--seed", seed, *written)[0] == 0
    (folder / "more.jsonl").write_bytes((folder / "more.jsonl").read_bytes().replace(b'"demo/', b'"more/'))
    return {name: folder / f"{name}.jsonl" for name in ("old", "more")}


@pytest.fixture(scope="module")
def home_of(files, tmp_path_factory, driver):
    """A home by its name in HOMES, made once."""
    folder, done = tmp_path_factory.mktemp("homes"), {}

    def make(name: str) -> Path:
        if name not in done:
            before, commands = HOMES[name]
            if before:
                shutil.copytree(make(before), folder / name)
            for command in commands:
                given = [part.format(**files) for part in command]
                assert driver("--home", folder / name, "--quiet", *given)[0] == 0
            done[name] = folder / name
        return done[name]

    return make


@pytest.fixture(scope="module")
def played(home_of, tmp_path_factory, driver):
    done = {}

    def play(name: str) -> Played:
        if name not in done:
            folder, command = home_of(SCENES[name][0]), SCENES[name][1]
            kind = {"artefacts": command[2], "train": "vectors"}.get(command[0], command[0])
            before = Home(folder, driver, kind)
            after = Home(tmp_path_factory.mktemp("after") / "home", driver, kind)
            shutil.copytree(folder, after.path)
            code, seen, _ = after(command)
            assert code == 0
            events = [(event, number) for event in sorted(seen) for number in range(1, seen[event] + 1)]
            done[name] = Played(folder, kind, command, before.state(), after.state(), events)
        return done[name]

    return play


def marks(home: Home) -> dict[str, float]:
    """The seconds that each finished stage has taken, as a killed run left them."""
    found = [path / "stages.json" for path in home.cache if (path / "stages.json").exists()]
    return {stage: facts["seconds"] for path in found for stage, facts in read_json(path).items()}


def epochs(home: Home) -> int:
    """How many epochs a killed training has finished."""
    found = list((home.path / "cache").glob("vectors-*/training/state.json"))
    return len(read_json(found[0])["losses"]) if found else 0


def seconds(home: Home) -> dict[str, float]:
    manifest = read_json(home.published / MANIFEST)
    return manifest["seconds"] if home.kind == "index" else manifest["details"]["seconds"]


def check_kill(play: Played, home: Home, event: str, number: int) -> None:
    code, _, _ = home(play.command, kind=event, number=number)
    assert code == -9
    was = home.state()
    assert was in (play.before, play.after)
    finished, trained = marks(home), epochs(home)
    code, seen, _ = home(play.command)
    assert code == 0
    assert home.state() == play.after
    assert home.cache == []  # nothing is left lying about
    if was == play.before:
        taken = seconds(home)
        in_shards = "--shards" in play.command or "vocabulary" in taken  # of all shards together
        summed = seconds_by_stage(finished) if in_shards else finished
        for stage, duration in summed.items():
            is_whole = stage in finished or play.before == play.after
            assert taken[stage] == duration if is_whole else taken[stage] >= duration  # not done again
        assert seen.get("replace", 0) <= play.count("replace") - 2 * trained  # an epoch's numbers, and its mark


def points(seed: int, count: int) -> list[tuple[str, float, int]]:
    """Scene, place within its events, and a number; spread evenly over scenes."""
    rng, names = random.Random(seed), list(SCENES)
    return [(names[n % len(names)], rng.random(), n) for n in range(count)]


def rare(*cases: object) -> list[object]:
    """Further cases, which `make faults` runs."""
    return [pytest.param(case, marks=pytest.mark.faults) for case in cases]


def event_at(play: Played, place: float, number: int) -> tuple[str, int]:
    """Kinds in turn, since some have many more events than others."""
    kinds = sorted({kind for kind, _ in play.events})
    of_kind = [event for event in play.events if event[0] == kinds[number // len(SCENES) % len(kinds)]]
    return of_kind[int(place * len(of_kind))]


@pytest.mark.parametrize(("scene", "place", "number"), points(1, len(SCENES)))
def test_a_kill_leaves_the_old_version_or_the_new_one_and_can_be_made_good(
    tmp_path, played, driver, scene, place, number
):
    play = played(scene)
    check_kill(play, play.begin(tmp_path / "home", driver), *event_at(play, place, number))


@pytest.mark.parametrize("scene", ["build", *rare("update", "compact")])
def test_a_kill_while_a_finished_version_is_described_loses_no_stage(tmp_path, played, driver, scene):
    play = played(scene)
    home = play.begin(tmp_path / "home", driver)
    manifest = (
        play.count("replace") - 4
    )  # then come the version's name, its folder, CURRENT and the record of publications
    assert home(play.command, kind="replace", number=manifest)[0] == -9
    assert home.state() == play.before
    finished = marks(home)
    assert {"table", "words", "vectors", "check"} <= finished.keys()
    assert home(play.command)[0] == 0
    assert seconds(home) == finished
    assert home.state() == play.after


@pytest.mark.parametrize("place", [0.5, *rare(0.2, 0.8)])
def test_what_a_kill_leaves_of_a_training_that_was_finished_does_no_harm(tmp_path, played, driver, place):
    play = played("train")
    home = play.begin(tmp_path / "home", driver)
    home(play.command, kind="unlink", number=int(place * play.count("unlink")))  # most belong to the clearing up
    code, _, _ = home((*play.command, "--again"))
    assert (code, home.state(), home.cache) == (0, play.after, [])


@pytest.mark.parametrize("number", [10, *rare(2, 18)])
def test_what_a_kill_leaves_of_a_build_that_was_given_up_does_no_harm(tmp_path, played, driver, number):
    play = played("first build")
    home = play.begin(tmp_path / "home", driver)
    home(play.command, kind="replace", number=play.count("replace") - 4)
    other = (*play.command, "--seed", "2")
    assert home(other, kind="unlink", number=number)[0] == -9  # while the first one's folder is cleared away
    assert home(play.command)[0] == 0
    assert (home.state(), home.cache) == (play.after, [])


@pytest.mark.faults
@pytest.mark.parametrize(("scene", "place", "number"), points(2, MANY))
def test_many_kills_leave_the_old_version_or_the_new_one(tmp_path, played, driver, scene, place, number):
    play = played(scene)
    check_kill(play, play.begin(tmp_path / "home", driver), *event_at(play, place, number))


@pytest.mark.faults
@pytest.mark.parametrize("scene", SCENES)
def test_several_kills_in_a_row_do_no_more_harm_than_one(tmp_path, played, driver, scene):
    rng, play = random.Random(scene), played(scene)
    for attempt in range(6):
        home = play.begin(tmp_path / str(attempt), driver)
        for _ in range(3):
            event, number = rng.choice(play.events)
            home(play.command, kind=event, number=number)
            assert home.state() in (play.before, play.after)
        assert home(play.command)[0] == 0
        assert home.state() == play.after
