"""The versions of the software that can change an index or an answer."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Final

from refaug.core.version import VERSION

PACKAGES: Final = ("faiss-cpu", "bm25s", "numpy", "numba", "pyarrow", "duckdb")


def software() -> Mapping[str, str]:
    """Return the versions of the software that can change an index or an answer."""
    return {
        "refaug": VERSION,
        "python": platform.python_version(),
        **{package: version_of(package) for package in PACKAGES},
    }
