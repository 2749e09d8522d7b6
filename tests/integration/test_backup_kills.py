"""A kill at any moment of a backup or a restore leaves what was there, and the same command ends well.

What is killed, and how, is in tests/faults.py.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from backups import add_shards, backed_up, content, full_home, problems, rows
from integration.conftest import Driver
from plain_search import MODES

from refaug.core.home import RESTORING, Settings
from refaug.core.records import Item, Reference
from refaug.indexer.index_folders import Places
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.service.backup.backup_files import MANIFEST

pytestmark = pytest.mark.slow

FIRST, BETWEEN, LAST = 2, 4, 14  # kills of each command: each is a test, so that its limit of time is one kill's
MOMENTS = FIRST + BETWEEN + LAST


def places(*usual: int):
    """All moments; those that are not usual with make faults."""
    return [place if place in usual else pytest.param(place, marks=pytest.mark.faults) for place in range(MOMENTS)]


@pytest.fixture(scope="module")
def home():
    with full_home() as settings:
        add_shards(settings)
        yield settings


def events_of(driver: Driver, *command: object) -> int:
    """How many events a command has that comes to its end."""
    code, seen = driver(*command)
    assert code == 0
    return sum(seen.values())


def moment(events: int, place: int) -> int:
    """The event of a place: the first ones, some between, and the last ones, where most differs."""
    assert events > MOMENTS
    if place < FIRST:
        return 1 + place
    if place < FIRST + BETWEEN:
        return FIRST + (place - FIRST + 1) * (events - FIRST - LAST) // (BETWEEN + 1)
    return events - MOMENTS + 1 + place


def shard_answers(home: Settings) -> list[object]:
    """What the index in shards answers in all modes."""
    pairs = [Item(id="tea", turns=("Where do you buy your tea?",), references=(Reference(text="At the market."),))]
    with ReferenceIndex.open(Places.under(home.home), "shards", hashed=True) as index:
        return [index.search(pairs, SearchSettings(mode=mode)) for mode in MODES]


@pytest.fixture(scope="module")
def backup_events(home: Settings, driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> int:
    target = tmp_path_factory.mktemp("backup") / "whole"
    return events_of(driver, "--home", home.home, "--quiet", "admin", "backup", target)


@pytest.fixture(scope="module")
def whole(home: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup that nothing killed."""
    target = tmp_path_factory.mktemp("whole") / "whole"
    backed_up(home, target)
    return target


@pytest.fixture(scope="module")
def restore_events(whole: Path, driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> int:
    other = tmp_path_factory.mktemp("restore") / "home"
    return events_of(driver, "--home", other, "--quiet", "admin", "restore", whole)


@pytest.mark.parametrize("place", places(19))
def test_a_killed_backup_is_no_backup_and_is_written_anew(
    home: Settings, driver: Driver, backup_events: int, tmp_path: Path, place: int
) -> None:
    target = tmp_path / "backup"
    command = ("--home", home.home, "--quiet", "admin", "backup", target)
    assert driver(*command, kind="any", number=moment(backup_events, place))[0] == -signal.SIGKILL
    assert not target.exists() or (target / MANIFEST).exists()
    if not target.exists():
        assert driver(*command)[0] == 0
    assert content(target / "home") == content(home.home)


@pytest.mark.parametrize("place", places(5))
def test_a_killed_restore_is_ended_by_the_same_command(
    home: Settings, driver: Driver, whole: Path, restore_events: int, tmp_path: Path, place: int
) -> None:
    other = tmp_path / "home"
    command = ("--home", other, "--quiet", "admin", "restore", whole)
    assert driver(*command, kind="any", number=moment(restore_events, place))[0] == -signal.SIGKILL
    if not other.is_dir() or (other / RESTORING).exists() or not any(other.iterdir()):
        assert driver(*command)[0] == 0
    assert content(other) == content(home.home)
    assert rows(Settings(home=other)) == rows(home)
    assert problems(Settings(home=other)) == []
    assert shard_answers(Settings(home=other)) == shard_answers(home)
