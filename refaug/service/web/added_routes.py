"""What an extra adds to the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from fastapi import APIRouter

from refaug.service.web.state import ServiceState


@dataclass(frozen=True, kw_only=True)
class AddedRoutes:
    """Routes, their tags, and what they need while the application runs."""

    routers: Sequence[APIRouter]
    tags: Sequence[Mapping[str, str]] = ()
    running: Callable[[ServiceState], AbstractAsyncContextManager[object]] | None = None  # what `parts` holds meanwhile
