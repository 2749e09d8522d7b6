"""Studies under kill -9: whether an acknowledged action is lost or doubled, and how soon the first answer comes.

    python bench/bench_study_kills.py [--seeds 10] [--processes 1] [--lines FILE]

The scenes are those of test_studies_killed.py, which `make faults` runs: eight scripted participants
chat, vote, answer and finish, one of their four bots takes 150 ms for a reply, and five times a scene the web process,
or the whole server, is killed at a random moment, over SQLite and PostgreSQL. A killed web process is begun again by
the server half a second later, a killed server by the scene at once. --lines reads what scenes have written before, and
runs none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from common import ROOT, median, write_result

TEST = (
    "tests/extras/studies/integration/test_studies_killed.py::"
    "test_every_acknowledged_action_survives_a_hundred_kills_of_each_sort_over_both_databases"
)
SORTS, DATABASES = ("web", "whole"), ("sqlite", "postgresql")
COUNTED = ("messages", "replies", "votes", "answers", "finished", "lost", "doubled", "errors")


def main() -> None:
    """Run the scenes, or read their lines, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--lines", type=Path)
    settings = parser.parse_args()
    scenes = read(settings.lines or run(settings.seeds, settings.processes))
    figures = {
        "all": summary(scenes),
        **{
            sort: {
                "both": summary([scene for scene in scenes if scene["sort"] == sort]),
                **{
                    database: summary(
                        [scene for scene in scenes if (scene["sort"], scene["database"]) == (sort, database)]
                    )
                    for database in DATABASES
                },
            }
            for sort in SORTS
        },
        "of_scenes": scenes,
    }
    print(write_result("study_kills", figures, ("sqlalchemy", "psycopg", "uvicorn")))


def run(seeds: int, processes: int) -> Path:
    """Run the scenes, and return the file that each adds its line to; where one fails, it stays for --lines."""
    lines = Path(tempfile.mkdtemp(prefix="study-kills-")) / "kills.jsonl"
    names = [f"{TEST}[{base}-{sort}-{seed}]" for seed in range(seeds) for base in DATABASES for sort in SORTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-m", "faults", *names]
    if processes > 1:
        command += ["-n", str(processes), "--dist", "worksteal"]
    done = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "STUDY_KILLS_TO": str(lines)})
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}; {lines} has the scenes that ended")
    return lines


def read(lines: Path) -> list[dict[str, Any]]:
    """Return the scenes of a file, in the order of their names."""
    scenes = [orjson.loads(line) for line in lines.read_bytes().splitlines()]
    return sorted(scenes, key=lambda scene: (scene["sort"], scene["database"], scene["seed"]))


def summary(scenes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return figures of these scenes: counts, and the seconds from a kill to the first answer of a request after it."""
    kills = [kill for scene in scenes for kill in scene["kills"]]
    again = [kill["again_s"] for kill in kills if kill["again_s"] is not None]
    return {
        "kills": len(kills),
        **{name: sum(scene[name] for scene in scenes) for name in COUNTED},
        "kills_while_replies_were_made": sum(kill["being_made"] > 0 for kill in kills),
        "again_s_median": median(again) if again else None,
        "again_s_most": max(again, default=None),
        "load_median": median([scene["load"] for scene in scenes]) if scenes else None,
    }


if __name__ == "__main__":
    main()
