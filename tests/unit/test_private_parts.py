"""Libraries whose private parts are used are pinned to one version, and still have those parts."""

from __future__ import annotations

import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
from numba.core.caching import FunctionCache

from refaug.service.web.connection.protocol import Protocol

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
REACHED_INTO = ("numba", "torch", "uvicorn")


def add(left: int, right: int) -> int:
    return left + right


@pytest.mark.parametrize("library", REACHED_INTO)
def test_a_library_that_is_reached_into_is_pinned_exactly(library: str) -> None:
    assert f"{library}=={metadata.version(library).split('+')[0]}" in REQUIREMENTS


def test_uvicorn_has_the_private_parts_that_the_protocol_uses() -> None:
    (base,) = Protocol.__bases__
    assert base.__module__ == "uvicorn.protocols.http.httptools_impl"
    assert callable(base._unset_keepalive_if_required)
    assert import_module("uvicorn._types").ASGI3Application is not None


def test_numba_has_the_private_parts_that_the_cache_of_kernels_uses() -> None:
    cache = FunctionCache(add)
    assert cache._cache_file._source_stamp is not None
    assert cache._impl_class._locator_classes
