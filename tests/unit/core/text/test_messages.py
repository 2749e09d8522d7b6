"""Messages show neither the folders of this machine nor keys, and leave everything else as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from refaug.core.text.messages import HiddenFolders, escape_undecodable, shorten_paths


def test_paths_in_hidden_folders_become_relative_and_others_lose_folders(tmp_path: Path) -> None:
    text = f"{tmp_path}/home/indexes/chat: and/or 1/2, /opt/models/my.encoder holds it; see https://example.org/a/b"
    assert shorten_paths(HiddenFolders.left_out(tmp_path / "home").hide(text)) == (
        "indexes/chat: and/or 1/2, my.encoder holds it; see https://example.org/a/b"
    )


def test_the_home_and_the_folder_of_the_user_are_named(tmp_path: Path) -> None:
    hidden = HiddenFolders.named(tmp_path / "home")
    assert hidden.hide(f"{tmp_path}/home/indexes/a, {Path.home()}/x") == "HOME/indexes/a, ~/x"


def test_a_home_below_the_folder_of_the_user_is_named_home() -> None:
    assert HiddenFolders.named(Path.home() / "refaug").hide(f"{Path.home()}/refaug/cache") == "HOME/cache"


def test_both_spellings_of_a_linked_home_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    hidden = HiddenFolders.named(tmp_path / "link")
    assert hidden.hide(f"{tmp_path}/disk/a {tmp_path}/link/b") == "HOME/a HOME/b"


def test_a_relative_home_is_hidden_only_as_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hidden = HiddenFolders.named(Path("data"))
    assert hidden.hide(f"data/logs of data, {tmp_path}/data/logs") == "HOME/logs of data, HOME/logs"


@pytest.mark.parametrize("folder", [Path("/"), Path()])
def test_the_root_and_the_working_folder_hide_nothing_else(folder: Path) -> None:
    assert HiddenFolders.left_out(folder).hide("a/b of /opt/x, https://a.b/") == "a/b of /opt/x, https://a.b/"


def test_names_that_are_not_utf8_are_escaped() -> None:
    assert escape_undecodable("caf\udce9") == "caf\\udce9"
