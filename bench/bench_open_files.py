"""How fast files are hashed and their numbers compared with bounds before a version serves.

    python bench/bench_open_files.py [--mib 512]

Files in the page cache, one thread: a disk that is slower decides instead. Six gigabytes are extrapolated.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import write_result

from refaug.core.files import sha256_of
from refaug.indexer.search import segments


def gb_per_s(size: int, work: Callable[[], object]) -> float:
    """The best of five."""
    best = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return round(size / best / 1e9, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    size = parser.parse_args().mib << 20
    codes, starts = np.ones(size // 4, np.int32), np.arange(size // 8, dtype=np.int64)
    outside, fall = segments._outside, segments._fall  # noqa: SLF001
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(starts.tobytes())
        rates = {
            "sha256": gb_per_s(size, lambda: sha256_of(path)),
            "bounds_int32": gb_per_s(size, lambda: outside(codes, 2)),
            "rising_int64": gb_per_s(size, lambda: fall(starts)),
        }
    figures = {name: {"gb_per_s": rate, "seconds_for_6_gb": round(6 / rate, 1)} for name, rate in rates.items()}
    print(figures)
    print(
        write_result("open_files", {"bytes": size, "load": round(os.getloadavg()[0], 1), "checks": figures}, ["numpy"])
    )


if __name__ == "__main__":
    main()
