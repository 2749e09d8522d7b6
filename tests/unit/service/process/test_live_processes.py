"""Which processes serve what: told by themselves, and believed for as long as they live."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest
from engines import home_with_versions

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.service.process.live_processes import FOLDER, LiveProcesses
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.leases import ServedVersions
from refaug.service.serving.versions.open_versions import OpenVersions

ROOT: Final = Path(__file__).parents[4]
# Another process, which says what is in its engine and then waits for a line.
OTHER: Final = """
import sys
from pathlib import Path
from refaug.service.serving.versions.leases import ServedVersions
from refaug.service.process.live_processes import LiveProcesses
from refaug.core.home import Settings
presence = LiveProcesses(Settings(home=Path(sys.argv[1])))
presence.report(ServedVersions(generation=7))
print("there", flush=True)
sys.stdin.readline()
presence.close()
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return home_with_versions(tmp_path_factory.mktemp("presence"), indexes=1, raters=2)


@pytest.fixture
def home(template: Settings, tmp_path: Path) -> Settings:
    return Settings(home=shutil.copytree(template.home, tmp_path / "home"))


@pytest.fixture
def engines(home: Settings) -> Iterator[OpenVersions]:
    made = OpenVersions(home, ServeSettings(), threads=1)
    made.refresh()
    yield made
    made.close()


@pytest.fixture
def presence(home: Settings) -> Iterator[LiveProcesses]:
    made = LiveProcesses(home)
    yield made
    made.close()


@pytest.fixture
def other(home: Settings) -> Iterator[subprocess.Popen[str]]:
    """A living process that serves nothing yet."""
    command = [sys.executable, "-c", OTHER, str(home.home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield process
        process.kill()


def lacking(presence: LiveProcesses, *version: str) -> list[int]:
    return presence.pids_with_and_without(*version)[1]


def files(home: Settings) -> list[str]:
    return sorted(path.name for path in (home.home / FOLDER).iterdir())


def test_a_process_tells_what_it_serves_and_takes_it_back_at_its_end(
    home: Settings, presence: LiveProcesses, engines: OpenVersions
) -> None:
    assert presence.reports() == []
    presence.report(engines.served)
    index, rater = artefact_stores(home)["index"].current("chat"), artefact_stores(home)["rater"].current("base")
    (told,) = presence.reports()
    assert (told.pid, told.generation) == (os.getpid(), 1)
    assert told.versions == {"index": {"chat": index}, "rater": {"base": rater}}
    (path,) = (home.home / FOLDER).iterdir()
    assert orjson.loads(path.read_bytes())["versions"] == told.versions
    presence.close()
    presence.close()
    assert (presence.reports(), files(home)) == ([], [])


def test_who_publishes_waits_for_those_that_do_not_serve_it_yet(
    home: Settings, presence: LiveProcesses, engines: OpenVersions
) -> None:
    first, second = artefact_stores(home)["rater"].versions("base")
    presence.report(ServedVersions())
    begun = presence.reports()[0].begun
    assert lacking(presence, "rater", "base", first) == [os.getpid()]  # it may still open what was published before
    presence.report(engines.served)
    assert lacking(presence, "rater", "base", first) == []
    assert lacking(presence, "rater", "base", second) == [os.getpid()]
    artefact_stores(home)["rater"].publish("base", second)
    engines.refresh()
    assert lacking(presence, "rater", "base", second) == [os.getpid()]
    presence.report(engines.served)
    assert lacking(presence, "rater", "base", second) == []
    assert lacking(presence, "rater", "nobody", second) == [os.getpid()]
    assert [one.begun for one in presence.reports()] == [begun]
    assert len(files(home)) == 1


def test_who_takes_requests_and_is_not_ready_is_told_of(
    home: Settings, presence: LiveProcesses, engines: OpenVersions, other: subprocess.Popen[str]
) -> None:
    warming = ["metrics"]
    ours = LiveProcesses(home, warming=warming)
    assert presence.unready_pids() == []  # the other one is not ready, and takes no requests
    ours.report(ServedVersions())
    assert ours.unready_pids() == []
    ours.accepts = True
    ours.report(ServedVersions())
    assert presence.unready_pids() == ours.unready_pids() == [os.getpid()]
    ours.report(engines.served)
    assert presence.unready_pids() == [os.getpid()]  # what is open is not warm
    warming.clear()
    ours.report(engines.served)
    assert presence.unready_pids() == []
    assert [one.is_ready for one in presence.reports()] == [one.pid == os.getpid() for one in presence.reports()]
    assert other.poll() is None
    ours.close()


def test_what_is_known_is_not_written_again_unless_it_is_gone(
    home: Settings, presence: LiveProcesses, engines: OpenVersions
) -> None:
    presence.report(engines.served)
    (path,) = (home.home / FOLDER).iterdir()
    before = path.stat()
    presence.report(engines.served)
    assert os.path.samestat(path.stat(), before)
    shutil.rmtree(home.home / FOLDER)
    assert presence.reports() == []
    presence.report(engines.served)
    assert [one.generation for one in presence.reports()] == [1]
    assert files(home) == [path.name]


def test_of_several_processes_the_living_are_listed_and_the_dead_removed(
    home: Settings, presence: LiveProcesses, engines: OpenVersions, other: subprocess.Popen[str]
) -> None:
    presence.report(engines.served)
    rater = artefact_stores(home)["rater"].current("base") or ""
    assert sorted((one.pid, one.generation) for one in presence.reports()) == sorted([(os.getpid(), 1), (other.pid, 7)])
    assert [one.pid for one in presence.reports()] == sorted([os.getpid(), other.pid])
    assert lacking(presence, "rater", "base", rater) == [other.pid]
    assert len(files(home)) == 2
    other.kill()
    other.wait(20)
    assert lacking(presence, "rater", "base", rater) == []
    assert [one.pid for one in presence.reports()] == [os.getpid()]
    assert len(files(home)) == 1


def test_a_process_that_ends_leaves_nothing(
    home: Settings, presence: LiveProcesses, other: subprocess.Popen[str]
) -> None:
    assert [one.pid for one in presence.reports()] == [other.pid]
    other.communicate("end\n", timeout=20)
    assert files(home) == []
    assert presence.reports() == []


def test_another_process_that_looks_does_not_make_a_dead_one_live(home: Settings, presence: LiveProcesses) -> None:
    folder = home.home / FOLDER
    folder.mkdir()
    told = {"pid": 1, "versions": {}, "generation": 3, "begun": "2026-11-22T00:00:00+00:00"}
    (folder / "1-00000000.json").write_bytes(orjson.dumps(told))
    with (folder / "1-00000000.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as it is locked while somebody looks
        assert presence.reports() == []
    assert files(home) == []


def test_a_living_process_is_never_missed_while_it_reports_and_many_look(
    home: Settings, presence: LiveProcesses
) -> None:
    presence.report(ServedVersions())
    over, seen = threading.Event(), list[list[int]]()

    def look() -> None:
        while not over.is_set():
            seen.append([one.pid for one in presence.reports()])

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for one in lookers:
        one.start()
    for generation in range(1, 300):
        presence.report(ServedVersions(generation=generation))
    over.set()
    for one in lookers:
        one.join(20)
    assert seen
    assert all(pids == [os.getpid()] for pids in seen)
    assert [one.generation for one in presence.reports()] == [299]
    assert len(files(home)) == 1
