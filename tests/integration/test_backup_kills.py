"""A kill at any moment of a backup or a restore leaves what was there, and the same command ends well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from backups import backed_up, content, full_home, problems, rows

from refaug.core.home import RESTORING, Settings
from refaug.service.backup.backup_files import MANIFEST

pytestmark = pytest.mark.slow

_KILLED = """
import os, signal, sys
from refaug.cli.main import main
count, events = int(sys.argv[1]), 0
def watch(name):
    real = getattr(os, name)
    def watched(*values, **options):
        global events
        events += 1
        if events == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*values, **options)
    setattr(os, name, watched)
for name in ("fsync", "replace", "rename", "unlink", "rmdir"):
    watch(name)
code = main(sys.argv[2:])
print(events)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def home():
    with full_home() as settings:
        yield settings


def run_killed(count: int, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", _KILLED, str(count), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, "REFAUG_DATABASE": ""})


def moments(events: int) -> list[int]:
    """Some near the beginning, some near the end, where most differs, and some between."""
    return sorted({*range(1, 3), *range(4, events, max(1, events // 4)), *range(events - 14, events + 1)})


def test_a_killed_backup_is_no_backup_and_is_written_anew(home: Settings, tmp_path: Path) -> None:
    done = run_killed(0, "--home", home.home, "--quiet", "backup", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    for count in moments(int(done.stdout.split()[-1])):
        target = tmp_path / f"b{count}"
        command = ("--home", home.home, "--quiet", "backup", target)
        assert run_killed(count, *command).returncode == -signal.SIGKILL
        assert not target.exists() or (target / MANIFEST).exists()
        if not target.exists():
            again = run_killed(0, *command)
            assert again.returncode == 0, again.stderr
        assert content(target / "home") == content(home.home)


def test_a_killed_restore_is_ended_by_the_same_command(home: Settings, tmp_path: Path) -> None:
    backed_up(home, tmp_path / "whole")
    done = run_killed(0, "--home", tmp_path / "whole-home", "--quiet", "restore", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    for count in moments(int(done.stdout.split()[-1])):
        other = tmp_path / f"r{count}"
        command = ("--home", other, "--quiet", "restore", tmp_path / "whole")
        assert run_killed(count, *command).returncode == -signal.SIGKILL
        if not other.is_dir() or (other / RESTORING).exists() or not any(other.iterdir()):
            again = run_killed(0, *command)
            assert again.returncode == 0, again.stderr
        assert content(other) == content(home.home)
        assert rows(Settings(home=other)) == rows(home)
        assert problems(Settings(home=other)) == []
