"""What all tests share: no environment of the user's, and skips that CI forbids."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure is a change's; HYPOTHESIS_PROFILE=new looks at others.
settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def require(name: str, *, found: bool, why: str) -> None:
    """Skip a test that needs something of the machine; under REFAUG_REQUIRE=name,… the skip is a failure."""
    if found:
        return
    if name in os.environ.get("REFAUG_REQUIRE", "").split(","):
        pytest.fail(f"{name} is required here: {why}")
    pytest.skip(f"{name}: {why}")


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see the defaults, whatever the shell that runs them has set."""
    for name in [name for name in os.environ if name.startswith("REFAUG_") and name != "REFAUG_REQUIRE"]:
        monkeypatch.delenv(name)
