"""What all tests share: no environment of the user's, the safeguards, the examples of property tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings
from safeguards import (  # noqa: F401  hooks
    pytest_collection,
    pytest_ignore_collect,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_unconfigure,
    restore_signals,
)

restore_signals()

# The same examples in every run, so that a failure is a change's; HYPOTHESIS_PROFILE=new looks at others.
# No deadline: on a busy machine any example can take long.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("new", deadline=None, max_examples=50)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
BEGINS_AT_THE_END = WORKER.endswith(tuple("13579"))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Have every second worker collect from the end, so that two of them compile half of the files each.

    What a worker compiles, the assertions of tests rewritten, is read by the others.
    """
    report = yield
    if BEGINS_AT_THE_END and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have all workers number the tests alike, in whatever order they have collected them; rooms of units come last.

    Each test needs an id of its own: of those that share one, workers run the first alone.
    """
    for item in items:
        if item.parent and hasattr(item, "operation_label"):  # schemathesis has it in the name, pytest leaves it out
            item._id = item.parent.id.child(item.name)
    assert len({item.nodeid for item in items}) == len(items), "two tests have one id"
    if WORKER:
        items.sort(key=lambda item: ("/unit/" in str(item.path.parent), str(item.path)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give all tests of the client to one worker: they share a server, and starting one costs as much as 500 tests.

    Files come in their order, not by how many tests they have: few tests that start servers and train take long, and
    both workers end with the quick ones of units.
    """
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  only who hands out tests needs it

    class FilesAndTheClient(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "clients" if nodeid.startswith("clients/") else super()._split_scope(nodeid)

    config.option.loadscopereorder = False
    return FilesAndTheClient(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> None:
    """Keep typer from making all commands anew for every one that a test runs: that takes longer than most of them."""
    import typer.main  # noqa: PLC0415  the process that hands out tests needs none of it

    typer.main.get_command = cache(typer.main.get_command)


@pytest.fixture(scope="session", autouse=True)
def routes_made_once() -> None:
    """Keep FastAPI from making all routes anew for every app: that takes longer than most requests of tests."""
    if find_spec("fastapi") is None:  # where only the core is tested
        return
    from fastapi.routing import _EffectiveRouteContext  # noqa: PLC0415  as above

    make, made = _EffectiveRouteContext.from_api_route, dict[int, tuple[object, object]]()

    def once(*, original_route: Any, include_context: Any) -> object:
        if id(original_route) not in made:
            context = make(original_route=original_route, include_context=include_context)
            made[id(original_route)] = (original_route, context)
        return made[id(original_route)][1]

    _EffectiveRouteContext.from_api_route = once  # type: ignore[method-assign,assignment]


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see the defaults, whatever the shell that runs them has set."""
    for name in [name for name in os.environ if name.startswith("REFAUG_") and name != "REFAUG_REQUIRE"]:
        monkeypatch.delenv(name)
