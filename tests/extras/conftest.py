"""What the tests of commands share, for those of extras: a home, and the command that works on it."""

from __future__ import annotations

from integration.conftest import driver, home, home_at, ready, with_all

__all__ = ["driver", "home", "home_at", "ready", "with_all"]
