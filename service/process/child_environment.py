"""The environment of the processes of a server: its settings, threads, caches, and the folder of its figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from refaug.core import kernel_cache
from refaug.core.files import make_folder, remove_tree, unique_suffix
from refaug.core.home import Settings
from refaug.service import prometheus_figures
from refaug.service.server_settings import ServeSettings


@contextmanager
def child_environment(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Set the environment of the children, with a new folder for their figures; restore it afterwards."""
    serving = home.home / "serving"
    for old_figures in serving.glob("metrics-*"):  # of killed servers
        remove_tree(old_figures)
    figures = serving / f"metrics-{unique_suffix()}"
    make_folder(figures)
    before = dict(os.environ)
    os.environ.update(environment_of(home, settings, figures, os.environ))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        remove_tree(figures)


def environment_of(
    home: Settings, settings: ServeSettings, figures: Path, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for the children; thread counts and caches that are set already are kept.

    Compiled kernels are cached where the commands have them, beside the code; in the home only where that folder is not
    writable. An empty value counts as set.

    Threads are divided among the web processes: more threads than cores make every barrier of OpenMP wait, and waiting
    threads must not spin while another process has work.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // settings.workers))
    unless_set = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    if not kernel_cache.is_writable():
        unless_set["NUMBA_CACHE_DIR"] = str((home.cache / "numba").resolve())
    return {
        **{name: value for name, value in unless_set.items() if name not in inherited},
        "REFAUG_HOME": str(home.home.resolve()),
        prometheus_figures.FOLDER_VARIABLE: str(figures.resolve()),
        **settings.as_env(),
    }
