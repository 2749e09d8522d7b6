"""Mixed load, compressed: publishes, retention, backups, kills, full disks, and a database that restarts.

MIXED_LOAD_S says for how many seconds: `make faults MIXED_LOAD_S=3600`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backups import problems, restored
from disks import small_disk
from mixed_load import MixedLoad, Tally, good_backups
from servers import served
from serving import small_home

from refaug.core.files import unique_suffix
from refaug.core.home import Settings

if TYPE_CHECKING:
    from databases import Cluster

pytest_plugins = ("databases",)

SECONDS = float(os.environ.get("MIXED_LOAD_S", "60"))
SPARE = 96 << 20  # bytes of the disk beside the home


@pytest.mark.machine
@pytest.mark.faults
def test_hours_of_everything_fail_nothing_that_was_not_told(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"mixed{re.sub(r'[^0-9a-z]', '', unique_suffix())}"
    cluster.ask(f"CREATE DATABASE {name} TEMPLATE template0")
    made = small_home(tmp_path / "made", indexes=2, raters=1).home
    (made / "refaug.db").unlink()
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file()) + SPARE
    aside = tmp_path / "backups"
    aside.mkdir()
    with small_disk(tmp_path / "home", f"size={size}") as home:
        shutil.copytree(made, home, dirs_exist_ok=True)
        url = cluster.url(name)
        monkeypatch.setenv("REFAUG_DATABASE", url)  # of commands
        options = ("--workers", "2", "--job-tries", "100", "--database", url)
        with served(home, *options, "--default-index", "chat", "--default-rater", "base") as service:
            tally = MixedLoad(service, cluster, aside, seconds=SECONDS, seed=19).run()
            service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
            service.until(lambda: service.client.get("/v1/jobs").status_code == 200, "the database to answer")
        tell(f"statuses {dict(tally.statuses)}, acts {dict(tally.acts)}, broken by kills {tally.broken_by_kills}")
        assert tally.failed == []
        assert tally.statuses[200] > 5 * sum(count for status, count in tally.statuses.items() if status != 200)
        assert tally.acts["restart of the database"] == 2
        assert {"publish", "retention", "backup", "kill web", "kill jobs", "full disk"} <= set(tally.acts)
        _require_flat(tally)
        assert problems(Settings(home=home)) == []
    backups = list(good_backups(aside))
    assert backups
    monkeypatch.delenv("REFAUG_DATABASE")
    assert problems(restored(backups[-1], tmp_path / "restored")) == []


def tell(line: str) -> None:
    """Write a figure down; `pytest -rA` shows them."""
    sys.stdout.write(f"{line}\n")


def _require_flat(tally: Tally) -> None:
    """Memory and open files of all processes do not grow, but for files of segments; of these both processes have two
    handles each, one of the mapping and one of the check.
    """
    early_files, late_files = tally.growth(lambda look: look.version_files)
    of_segments = 4.0 * max(0.0, late_files - early_files)
    for quantity, allowed in (("memory_mib", 64.0), ("handles", 40.0 + of_segments), ("files", 2_000.0)):
        early, late = tally.growth(lambda look, quantity=quantity: getattr(look, quantity))
        tell(f"{quantity} {early:.0f} to {late:.0f}")
        assert late <= 1.2 * early + allowed, (quantity, early, late, of_segments)
