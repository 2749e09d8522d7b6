"""The environment of the processes of a server: its settings, threads, caches, and the memory of its figures."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from refaug.core import kernel_cache
from refaug.core.home import Settings
from refaug.core.processes.free_cores import available_cores
from refaug.core.processes.passive_waiting import PASSIVE_WAITING
from refaug.service import prometheus_figures
from refaug.service.figures.figure_memory import FigureMemory
from refaug.service.server_settings import ServeSettings

log = logging.getLogger(__name__)


@contextmanager
def child_environment(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Set the environment of the children, with memory for their figures; restore it afterwards."""
    before = dict(os.environ)
    with ExitStack() as stack:
        os.environ.update(environment_of(home, settings, _figures_of(settings, stack), os.environ))
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


def _figures_of(settings: ServeSettings, stack: ExitStack) -> str:
    """Return the path of memory for the figures of all web processes; empty where the system has none."""
    try:
        # one more than processes, in case a new one starts before the system has ended the locks of a killed one
        return stack.enter_context(FigureMemory.create(settings.workers + 1)).path
    except OSError as error:
        log.warning("no memory for the figures of all processes, each counts for itself: %s", error)
        return ""


def environment_of(
    home: Settings, settings: ServeSettings, figures: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for the children; thread counts and caches that are set already are kept.

    Compiled kernels are cached where the commands have them, beside the code; in the home only where that folder is not
    writable. An empty value counts as set.

    Threads are divided among the web processes: more threads than cores make every barrier of OpenMP wait, and waiting
    threads must not spin while another process has work.
    """
    threads = str(max(1, available_cores() // settings.workers))
    unless_set = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
        **PASSIVE_WAITING,
    }
    if not kernel_cache.is_writable():
        unless_set["NUMBA_CACHE_DIR"] = str((home.cache / "numba").resolve())
    return {
        **{name: value for name, value in unless_set.items() if name not in inherited},
        "REFAUG_HOME": str(home.home.resolve()),
        prometheus_figures.MEMORY_VARIABLE: figures,
        **settings.as_env(),
    }
