"""An extra is taken away by deleting its folder: the command, the service and everything else go on without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from refaug.core import installation

ROOT = Path(__file__).resolve().parents[4]
EXTRAS = sorted(path.parent.name for path in (ROOT / "refaug" / "extras").glob("*/__init__.py"))
PROGRAM = """
import sys
from pathlib import Path
from refaug.core.home import Settings
from refaug.core.installation import COMMANDS, registered
from refaug.operations.catalogue import find_operation, operation_names
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

document = create_app(Settings(home=Path(sys.argv[1])), ServeSettings()).openapi()
assert all(find_operation(name) for name in operation_names())
print(*registered(COMMANDS), *document["paths"], sep="\\n")
"""


def away_with(extra: str) -> set[str]:
    """The extras that cannot be used without one of them."""
    needing = {name for name, others in installation.NEEDS.items() if extra in others}
    return {extra}.union(*map(away_with, needing))


def commands_of(extras: set[str]) -> set[str]:
    table = installation.BUILT_IN[installation.COMMANDS]
    return {name for name, target in table.items() if target.split(".")[2] in extras}


@pytest.mark.slow
@pytest.mark.parametrize("removed", [*([extra] for extra in EXTRAS), EXTRAS], ids="-".join)
def test_everything_else_works_without(removed: list[str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "refaug", tmp_path / "refaug", ignore=shutil.ignore_patterns("__pycache__"))
    for extra in removed:
        shutil.rmtree(tmp_path / "refaug" / "extras" / extra)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    done = run("-c", PROGRAM, str(tmp_path / "home"))
    assert (done.returncode, done.stderr) == (0, "")
    gone = commands_of(set().union(*map(away_with, removed)))
    lines = set(done.stdout.splitlines())
    assert lines & set(installation.BUILT_IN[installation.COMMANDS]) == (
        set(installation.BUILT_IN[installation.COMMANDS]) - gone
    )
    assert ("/v1/studies" in lines) == ("studies" not in set().union(*map(away_with, removed)))
    start = "import sys; from refaug.cli import start; sys.exit(start())"
    for name in [*sorted(gone)[::8], *({"studies"} if "studies list" in gone else ())]:
        refused = run("-c", start, *name.split(), "--help")
        assert "needs the extra" in refused.stderr
        assert any(str(extra) in refused.stderr for extra in removed)
