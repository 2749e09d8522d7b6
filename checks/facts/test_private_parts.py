"""Libraries whose private parts are used are pinned to one version, and still have those parts."""

from __future__ import annotations

import asyncio
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from numba.core.caching import FunctionCache
from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REACHED_INTO = ("numba", "torch", "uvicorn")


def add(left: int, right: int) -> int:
    return left + right


@pytest.mark.parametrize("library", REACHED_INTO)
def test_a_library_that_is_reached_into_is_pinned_exactly(library: str) -> None:
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    named = {text for texts in lists for text in texts}
    assert f"{library}=={metadata.version(library).split('+')[0]}" in named


def test_the_guard_reaches_into_nothing_of_uvicorn() -> None:
    """It imports the protocol that uvicorn offers as `httptools`, and calls what asyncio defines."""
    assert HTTP_PROTOCOLS["httptools"] == f"{HttpToolsProtocol.__module__}:{HttpToolsProtocol.__name__}"
    for source in (ROOT / "refaug" / "service" / "web" / "guard").glob("*.py"):
        text = source.read_text("utf-8")
        assert re.findall(r"uvicorn\._|\buvicorn\w*(?:\.\w+)*\._|import _", text) == [], source.name
        calls = set(re.findall(r"_uvicorn\.(\w+)", text))
        assert calls <= {name for name in dir(asyncio.Protocol) if not name.startswith("_")}, source.name


def test_numba_has_the_private_parts_that_the_cache_of_kernels_uses() -> None:
    cache = FunctionCache(add)
    assert cache._cache_file._source_stamp is not None
    assert cache._impl_class._locator_classes
    assert callable(cache._load_overload)
