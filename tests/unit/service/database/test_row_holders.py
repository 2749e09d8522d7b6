"""Names that live processes hold, for rows that stand for running work."""

from __future__ import annotations

import pytest
from disks import small_disk
from refusals import refusing

from refaug.core.errors import StorageFull
from refaug.core.home import Settings
from refaug.service.database.row_ids import RowHolders


def names(home):
    return sorted(path.name for path in (home.home / "workers").iterdir())


def test_a_name_is_held_as_long_as_its_block_lasts(tmp_path):
    home = Settings(home=tmp_path)
    holders = RowHolders(home)
    assert not holders.is_held("never")
    with holders.hold() as first, RowHolders(home).hold() as second:
        assert first != second
        assert (holders.is_held(first), holders.is_held(second)) == (True, True)
        assert names(home) == sorted([f"{first}.lock", f"{second}.lock"])
    assert (holders.is_held(first), holders.is_held(second)) == (False, False)
    assert names(home) == []


def test_files_of_killed_processes_are_removed_and_no_others(tmp_path):
    home = Settings(home=tmp_path)
    holders = RowHolders(home)
    holders.remove_dead()  # there is no folder yet
    with holders.hold() as name:
        (tmp_path / "workers" / "killed.lock").touch()
        (tmp_path / "workers" / ".killed-meanwhile.lock.aside").touch()
        assert not holders.is_held("killed")
        holders.remove_dead()
        assert names(home) == [f"{name}.lock"]


@pytest.mark.machine
def test_a_disk_without_room_for_a_name_is_reported(tmp_path):
    with small_disk("size=1m,nr_inodes=4") as folder:
        holders = RowHolders(Settings(home=folder))
        with (
            holders.hold() as name,
            holders.hold(),
            refusing(StorageFull),
            holders.hold(),
        ):
            pytest.fail("there is no room for a third")
        assert not holders.is_held(name)
        with holders.hold() as name:
            assert holders.is_held(name)
