"""A kill at any moment: the log is whole before and after, and the same command finishes what it began.

What is killed, and how, is in tests/faults.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from integration.conftest import Home, content
from integration.reference import dialogue_log, message, stored

from refaug.logs.manifest import MANIFEST

FEW, MANY = 20, 200
BEFORE, AFTER = "before", "after"


@dataclass
class Scene:
    """A log as it is before a command, the command, and the log as it should be afterwards."""

    folder: Path
    command: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...]  # commands that make the log there is before; none: there is no log

    def at(self, home: Path) -> list[str]:
        return ["--home", str(home), *(part.format(out=rejects_of(home)) for part in self.command)]


def rejects_of(home: Path) -> Path:
    """Where the rejects go: beside the home, which need not be there yet."""
    return home.with_name(f"{home.name}-rejects")


def make_scene(folder: Path, name: str) -> Scene:
    rng = random.Random(name)
    (folder / "old.jsonl").write_bytes(dialogue_log(1, 20, prefix="old")[0])
    data = dialogue_log(2, 60)[0] + b"{broken\n" * 3 + dialogue_log(3, 5, prefix="old")[0]
    (folder / "new.jsonl").write_bytes(data)
    messages = [message(f"m{n}", f"m{rng.randrange(n)}" if n % 7 else None, kept=n % 11 > 0) for n in range(90)]
    rng.shuffle(messages)
    (folder / "m.jsonl").write_bytes(b"\n".join(one.line for one in messages))
    old, new, trees = (str(folder / f"{name}.jsonl") for name in ("old", "new", "m"))
    make = ("log", "ingest", old, "--log", "chat")
    rejects = ("--rejects", "{out}")
    return {
        "first": Scene(folder, ("log", "ingest", new, "--log", "chat", *rejects), ()),
        "linear": Scene(folder, ("log", "ingest", new, "--log", "chat", *rejects), (make,)),
        "trees": Scene(folder, ("log", "ingest", trees, "--log", "chat", *rejects), (make,)),
        "both": Scene(folder, ("log", "ingest", new, trees, old, "--log", "chat", *rejects, "--flood-cap", "2"), ()),
        "delete": Scene(folder, ("log", "delete", "chat", "--speaker", "ann", "--dialogue", "old3"), (make,)),
    }[name]


SCENES = ("first", "linear", "trees", "both", "delete")


@dataclass
class Played:
    """A scene that was played to its end once."""

    scene: Scene
    before: dict[str, object] | None
    after: dict[str, object]
    rejects: bytes | None
    events: list[tuple[str, int]]


@pytest.fixture(scope="module")
def played(tmp_path_factory, driver):
    done = {}

    def play(name: str) -> Played:
        if name not in done:
            folder = tmp_path_factory.mktemp(name)
            scene = make_scene(folder, name)
            home = Home(folder / "home", None)
            for command in scene.prepare:
                assert driver("--home", home.path, *command)[0] == 0
            before = content(home) if scene.prepare else None
            code, seen = driver(*scene.at(home.path))
            assert code == 0
            rejects = rejects_of(home.path).read_bytes() if "--rejects" in scene.command else None
            events = [(kind, number) for kind in sorted(seen) for number in range(1, seen[kind] + 1)]
            done[name] = Played(scene, before, content(home), rejects, events)
        return done[name]

    return play


def state_of(home: Home, play: Played) -> str:
    """Which of its two states the log is in; opened and verified as a reader would."""
    if not (home.logs / "chat" / MANIFEST).exists():
        assert play.before is None
        return BEFORE
    log = home.open()
    assert [trouble for _, trouble in log.verify() if trouble is not None] == []
    named = {MANIFEST, *(part.file for part in log.manifest.parts)}
    found = {name: value for name, value in content(home).items() if name in named}
    assert found in (play.before, play.after)
    return BEFORE if found == play.before else AFTER


def check_kill(play: Played, home: Home, driver, kind: str, number: int) -> None:
    for command in play.scene.prepare:
        driver("--home", home.path, *command)
    code, _ = driver(*play.scene.at(home.path), kind=kind, number=number)
    assert code == -9
    was = state_of(home, play)
    again, _ = driver(*play.scene.at(home.path))
    assert again == 0
    assert state_of(home, play) == AFTER
    assert set(home.files()) == set(play.after)  # nothing is left lying about
    if play.rejects is not None and was == BEFORE:
        assert rejects_of(home.path).read_bytes() == play.rejects


def points(seed: int, count: int) -> list[tuple[str, float, int]]:
    """Scene, place within its events and a tie-break, spread evenly over scenes."""
    rng = random.Random(seed)
    return [(SCENES[n % len(SCENES)], rng.random(), n) for n in range(count)]


def with_one_of_each(few: list[tuple[str, float, int]]) -> list[object]:
    """A point of each scene for every run; the others are slow."""
    return [*few[: len(SCENES)], *(pytest.param(*point, marks=pytest.mark.slow) for point in few[len(SCENES) :])]


def event_at(play: Played, place: float, number: int) -> tuple[str, int]:
    """Kinds in turn, since some have many more events than others."""
    kinds = sorted({kind for kind, _ in play.events})
    kind = kinds[number // len(SCENES) % len(kinds)]
    of_kind = [event for event in play.events if event[0] == kind]
    return of_kind[int(place * len(of_kind))]


@pytest.mark.slow
@pytest.mark.parametrize(("scene", "place", "number"), with_one_of_each(points(1, FEW)))
def test_a_kill_leaves_the_old_log_or_the_new_one_and_can_be_made_good(tmp_path, played, driver, scene, place, number):
    play = played(scene)
    check_kill(play, Home(tmp_path, None), driver, *event_at(play, place, number))


@pytest.mark.faults
@pytest.mark.parametrize(("scene", "place", "number"), points(2, MANY))
def test_many_kills_leave_the_old_log_or_the_new_one(tmp_path, played, driver, scene, place, number):
    play = played(scene)
    check_kill(play, Home(tmp_path, None), driver, *event_at(play, place, number))


@pytest.mark.faults
@pytest.mark.parametrize("scene", SCENES)
def test_two_kills_in_a_row_do_no_more_harm_than_one(tmp_path, played, driver, scene):
    rng, play = random.Random(scene), played(scene)
    for number in range(10):
        home = Home(tmp_path / str(number), None)
        for command in play.scene.prepare:
            driver("--home", home.path, *command)
        for _ in range(3):
            kind, at = rng.choice(play.events)
            driver(*play.scene.at(home.path), kind=kind, number=at)
            state_of(home, play)
        assert driver(*play.scene.at(home.path))[0] == 0
        assert state_of(home, play) == AFTER


def test_a_run_that_had_finished_a_part_is_resumed_and_says_so(tmp_path, played, driver):
    play = played("linear")
    home = Home(tmp_path / "home", None)
    for command in play.scene.prepare:
        driver("--home", home.path, *command)
    driver(*play.scene.at(home.path), kind="close", number=3)
    staged = next((home.logs / "chat").glob(".staging-*"))
    first = (staged / "pairs-00000.parquet").stat().st_ino
    assert orjson.loads((staged / "state.json").read_bytes())["parts"]
    code, _, out = driver.answer(*play.scene.at(home.path), "--json")
    assert (code, orjson.loads(out)["resumed"]) == (0, True)
    number = len(play.before[MANIFEST]["parts"]) + 1
    assert (home.logs / "chat" / f"part-{number:05}.parquet").stat().st_ino == first  # not written again
    assert state_of(home, play) == AFTER


@pytest.mark.slow
def test_data_left_by_a_killed_deletion_is_gone_after_the_next_run(tmp_path, played, driver):
    play = played("delete")
    for number in range(1, 1 + sum(kind == "unlink" for kind, _ in play.events)):
        home = Home(tmp_path / str(number), None)
        for command in play.scene.prepare:
            driver("--home", home.path, *command)
        driver(*play.scene.at(home.path), kind="unlink", number=number)
        (home.path / "more.jsonl").write_bytes(dialogue_log(8, 3, prefix="more")[0].replace(b"ann", b"eve"))
        finished = state_of(home, play) == AFTER
        assert driver("--home", home.path, "log", "ingest", home.path / "more.jsonl", "--log", "chat")[0] == 0
        if finished:
            assert not any(
                {pair["utterance_speaker"], pair["response_speaker"]} & {"ann"} for pair in stored(home.open())
            )
            named = {MANIFEST, *(part.file for part in home.open().manifest.parts)}
            assert set(home.files()) == named
