"""Attempts at tasks of a build: what they write moves into the build, and one after its end leaves nothing."""

from __future__ import annotations

from pathlib import Path

from refusals import refusing

from refaug.core.errors import Conflict
from refaug.extras.cluster.building.tasks import attempt, make_inside


def test_what_an_attempt_writes_moves_into_the_build(tmp_path: Path) -> None:
    build, scratch = tmp_path / "build", tmp_path / "scratch"
    (build / "shards").mkdir(parents=True)
    (build / "words").write_text("of the build")
    scratch.mkdir()
    with attempt(build, scratch, ["shards/0"]) as own:
        assert (own / "words").read_text() == "of the build"
        (own / "shards/0/table").write_text("rows")
    assert (build / "shards/0/table").read_text() == "rows"
    assert not (build / "words").is_symlink()
    assert list(scratch.iterdir()) == []


def test_an_attempt_after_the_end_of_its_build_makes_nothing(tmp_path: Path) -> None:
    build, scratch = tmp_path / "build", tmp_path / "cache/scratch"
    build.mkdir()
    with refusing(Conflict), attempt(build, scratch, []):
        pass
    with refusing(Conflict):
        make_inside(scratch, scratch / "grouped/log")
    assert list(tmp_path.iterdir()) == [build]


def test_folders_inside_the_scratch_folder_are_made_with_those_around_them(tmp_path: Path) -> None:
    for _ in range(2):
        make_inside(tmp_path, tmp_path / "grouped/log")
    assert (tmp_path / "grouped/log").is_dir()
