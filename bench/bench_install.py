"""How large an installation is, and whether the smallest one scores a frozen set.

    python bench/bench_install.py                      the wheel alone, in a fresh environment
    python bench/bench_install.py --extras index,meta  and with these extras
    python bench/bench_install.py --development        make .venv/.installed in a fresh clone, and with a pip that
                                                       compiles every module

Packages come from the index that pip is set up with, at the versions of the lock. Results go to
bench/results/install.json; those of --development to install_development.json.
"""

from __future__ import annotations

import argparse
import json
import resource
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


def develop(folder: Path, *variables: str) -> dict[str, float]:
    """Make the environment of developers in a fresh clone, loops compiled."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["make", "-s", "-C", str(folder), ".venv/.installed", *variables], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {"seconds": round(time.perf_counter() - began, 1), "cpu_s": round(cpu, 1)}


def development(folder: Path) -> dict[str, Any]:
    """Measure a clone as it is, and a second clone in which pip compiles every module."""
    ours = develop(folder / "ours")
    plain = develop(folder / "plain", "INSTALL=install --quiet --disable-pip-version-check")
    return {"ours": ours, "plain": plain, "ratio": {key: round(plain[key] / ours[key], 3) for key in ours}}


def main() -> int:
    """Measure one installation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="separated by commas")
    parser.add_argument("--development", action="store_true", help="measure make .venv/.installed instead")
    settings = parser.parse_args()
    if settings.development:
        with tempfile.TemporaryDirectory() as folder:
            write_result("install_development", development(Path(folder)), ())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        result = measure(wheel(Path(folder)), settings.extras, Path(folder))
    write_result(
        "install" + "".join(f"_{extra}" for extra in filter(None, settings.extras.split(","))), result, ("numba",)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
