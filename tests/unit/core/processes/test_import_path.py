"""Folders of the user leave the path; installations and refaug stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from refaug.core.processes.import_path import leave_user_folders

ROOT = Path(__file__).resolve().parents[4]


def test_folders_of_the_user_leave_and_installations_go_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user, cluster, working = (tmp_path / name for name in ("user", "cluster", "working"))
    hook = tmp_path / "venv" / "site-packages" / "opentelemetry" / "auto_instrumentation"
    (cluster / "torch-2.13.dist-info").mkdir(parents=True)
    user.mkdir()
    working.mkdir()
    monkeypatch.chdir(working)
    environment = {"PYTHONPATH": os.pathsep.join([str(hook), "../user", str(cluster), "", str(user)]), "PATH": "/bin"}
    path = ["", str(working), str(hook), str(user), str(cluster), "/lib/python", "/site"]
    leave_user_folders(path, environment)
    assert path == ["/lib/python", "/site", str(hook), str(cluster)]
    assert environment == {
        "PATH": "/bin",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join([str(hook), str(cluster)]),
    }


def test_nothing_is_left_of_a_path_of_folders_of_the_user(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(tmp_path)}
    path = [str(tmp_path), "/site"]
    leave_user_folders(path, environment)
    assert (path, environment) == (["/site"], {"PYTHONSAFEPATH": "1"})


def test_the_folder_of_refaug_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    environment = {"PYTHONPATH": str(ROOT)}
    path = ["", str(ROOT), "/site"]
    leave_user_folders(path, environment)
    assert str(ROOT) in path
    assert environment["PYTHONPATH"] == str(ROOT)
