"""How large an installation is, and whether the smallest one scores a frozen set.

    python bench/bench_install.py                      the wheel alone, in a fresh environment
    python bench/bench_install.py --extras index,meta  and with these extras

Packages come from the index that pip is set up with, at the versions of the lock. Results go to
bench/results/install.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, write_result

ITEM = {"id": "a", "utterance": "Where is it?", "references": ["On the table."], "replies": {"m": "It is on a table."}}
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "pkg_resources")  # every environment has them


def wheel(folder: Path) -> Path:
    """Build the wheel from the files that git tracks."""
    source = folder / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(source)], check=True)
    return next(folder.glob("refaug-*.whl"))


def megabytes(environment: Path) -> float:
    """Return the size of the installed packages, without those that every environment has."""
    (packages,) = (environment / "lib").glob("python*/site-packages")
    files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.relative_to(packages).parts[0] not in NOT_OURS) / 1e6


def measure(archive: Path, extras: str, folder: Path) -> dict[str, Any]:
    """Install the wheel, and score a frozen set with it."""
    environment, home = folder / "environment", folder / "home"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    requirement = f"{archive}[{extras}]" if extras else str(archive)
    pip = [str(environment / "bin/pip"), "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "requirements.lock"), requirement], check=True, cwd=folder)
    items = folder / "items.jsonl"
    items.write_text(json.dumps(ITEM) + "\n", "utf-8")
    refaug = [str(environment / "bin/refaug"), "--quiet", "--home", str(home)]
    # before anything is compiled: numba's files lie beside the packages
    installed_mb = megabytes(environment)
    freeze = [*refaug, "sets", "freeze", str(items), "--purpose", "test", "--json"]
    frozen = json.loads(subprocess.run(freeze, check=True, capture_output=True, text=True, cwd=folder).stdout)
    score = [*refaug, "sets", "score", frozen["id"], str(items), "--metric", "bleu", "--draws", "0", "--json"]
    seconds = list[float]()
    for _ in range(4):
        began = time.perf_counter()
        done = subprocess.run(score, check=True, capture_output=True, text=True, cwd=folder)
        seconds.append(round(time.perf_counter() - began, 2))
    (scores,) = json.loads(done.stdout)["scores"]
    return {
        "extras": extras,
        "installed_mb": round(installed_mb, 1),
        "first_score_s": seconds[0],  # compiles
        "score_s": sorted(seconds[1:])[1],
        "corpus": scores["systems"]["m"]["corpus"],
    }


def main() -> int:
    """Measure one installation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="separated by commas")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(wheel(Path(folder)), settings.extras, Path(folder))
    write_result(
        "install" + "".join(f"_{extra}" for extra in filter(None, settings.extras.split(","))), result, ("numba",)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
