"""Mixed load, compressed: publishes, retention, backups, kills, full disks, and a database that restarts.

MIXED_LOAD_S says for how many seconds, MIXED_LOAD_TO where the figures go:
`make faults MIXED_LOAD_S=3600 MIXED_LOAD_TO=figures.json`. All troubles are collected, and told together at the end.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from backups import problems, restored
from disks import small_disk
from mixed_load import CLIENTS, MixedLoad, MixedTally, good_backups
from servers import Served, served
from serving import small_home

from refaug.core.files import unique_suffix
from refaug.core.home import Settings

if TYPE_CHECKING:
    from databases import Cluster

pytest_plugins = ("databases",)

SECONDS = float(os.environ.get("MIXED_LOAD_S", "60"))
FIGURES = os.environ.get("MIXED_LOAD_TO", "")
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
    with small_disk(f"size={size}") as home:
        shutil.copytree(made, home, dirs_exist_ok=True)
        url = cluster.url(name)
        monkeypatch.setenv("REFAUG_DATABASE", url)  # of commands
        options = ("--workers", "2", "--job-tries", "100", "--database", url)
        with served(home, *options, "--default-index", "chat", "--default-rater", "base") as service:
            tally = MixedLoad(service, cluster, aside, seconds=SECONDS, seed=19).run()
            ready_after_s = _seconds_until_ready(service)
            service.until(lambda: service.client.get("/v1/jobs").status_code == 200, "the database to answer")
        figures = _figures(tally, ready_after_s)
        if FIGURES:
            Path(FIGURES).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
        tell(json.dumps(figures, indent=2))
        troubles = [*tally.failed, *_acts_left_out(tally), *_growths(figures["growth"])]
        troubles += problems(Settings(home=home))
    monkeypatch.delenv("REFAUG_DATABASE")
    backups = list(good_backups(aside))
    troubles += problems(restored(backups[-1], tmp_path / "restored")) if backups else ["no backup was written"]
    assert troubles == []


def tell(line: str) -> None:
    """Write a figure down; `pytest -rA` shows them."""
    sys.stdout.write(f"{line}\n")


def _seconds_until_ready(service: Served) -> float:
    began = time.monotonic()
    service.until(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready again")
    return round(time.monotonic() - began, 1)


def _figures(tally: MixedTally, ready_after_s: float) -> dict[str, Any]:
    """What came of it, as the page of benchmarks has it."""
    outages = sorted(tally.outages_s)
    early_files, late_files = tally.growth(lambda look: look.version_files)
    growth = {
        quantity: {"early": round(early), "late": round(late), "allowed": round(1.2 * early + allowed)}
        for quantity, allowed in (
            ("memory_mib", 64.0),
            # both processes have two handles of each file of a segment, one of the mapping and one of the check
            ("handles", 40.0 + 4.0 * max(0.0, late_files - early_files)),
            ("files", 2_000.0),
        )
        for early, late in [tally.growth(lambda look, quantity=quantity: getattr(look, quantity))]
    }
    return {
        "seconds": SECONDS,
        "load": [round(tally.looks[0].load, 1), round(max(look.load for look in tally.looks), 1)],
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "refusals": dict(sorted(tally.refusals.items())),
        "outages": len(outages),
        "longest_outage_s": round(outages[-1], 1) if outages else 0.0,
        "ready_share": round(fmean(look.is_ready for look in tally.looks), 3),
        "acts": dict(sorted(tally.acts.items())),
        "broken_by_kills": tally.broken_by_kills,
        "clients": CLIENTS,
        "study": tally.study,
        "failed": len(tally.failed),
        "why": [why[:500] for why in tally.failed[:50]],
        "ready_after_s": ready_after_s,
        "growth": growth,
    }


def _acts_left_out(tally: MixedTally) -> list[str]:
    """The acts that were not done; every one of these has its turn within a minute."""
    least = {"publish": 1, "retention": 1, "backup": 1, "kill web": 1, "kill jobs": 1, "full disk": 1}
    least["restart of the database"] = 2
    return [f"{act}: {tally.acts[act]} times" for act, count in least.items() if tally.acts[act] < count]


def _growths(growth: dict[str, dict[str, int]]) -> list[str]:
    """The quantities that grew: the median of the last quarter beside that of the second one."""
    return [f"{name} grew: {values}" for name, values in growth.items() if values["late"] > values["allowed"]]
