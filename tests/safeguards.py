"""What holds for every test, whoever started the run: signals as at a terminal, an end to every wait, marked needs;
one thread of OpenBLAS.

Both `conftest.py` take the hooks and the fixture from here.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import pytest

SETUP_S = 300  # fixtures of a session start servers and compile kernels
CALL_S = 150  # far more than any test takes on a busy machine
SLOW_CALL_S = 300.0
FAULTS_CALL_S = 1_800

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.machine)  # of fixtures that run on both databases

# Threads of OpenBLAS wait awake for each other: where other workers have the cores, that is nine tenths of the time.
# It reads this when numpy is imported, which no conftest does before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_running: list[pytest.Item] = []


def has_extra(name: str) -> bool:
    """Whether an extra has not been removed."""
    return find_spec(f"refaug.extras.{name}") is not None


def needs_extra(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test of the core that shows how an extra works with it: without the extra it is skipped."""
    return pytest.mark.skipif(not has_extra(name), reason=f"refaug.extras.{name} was removed")


def restore_signals() -> None:
    """Give Ctrl-C back to this process and, by inheritance, to all that tests start.

    Under `nohup make test &` and on some runners the shell ignores SIGINT and SIGQUIT for its background commands.
    Python then installs no handler for KeyboardInterrupt, and an ignored signal stays ignored across exec.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Fail a block that takes longer; the traceback shows where it waits."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"{what} has taken more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    outer_s, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, outer_s)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for cycles among the growing tests, a third of the time, and never look among them later.

    The hook is in both `conftest.py`, so it may be inside itself.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter take everything down at its end; libraries say so of what they find left.

    Not before: pytest itself collects several times when it ends, which takes seconds over all that tests have made.
    """
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)


_MARK = re.compile(r'pytest\.mark\.(slow|machine|faults)\b|mostly_slow|POSTGRESQL|"databases"')  # what gives a mark
_MARKS_OF_ALL = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file alone of which this run has no test: what it imports takes longer than to look for its mark."""
    named = {Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args}
    if not collection_path.name.startswith("test_") or collection_path in named:
        return None
    text, expression = collection_path.read_text("utf-8"), config.option.markexpr
    is_for_marked = bool(expression) and not expression.startswith("not ") and " or not " not in expression
    if is_for_marked and "cluster" not in expression and not _MARK.search(text):  # all tests of clusters get their mark
        return True
    marks = _MARKS_OF_ALL.search(text)
    left_out = [term.removeprefix("not ") for term in expression.split(" and ") if term.startswith("not ")]
    return True if marks and any(f"pytest.mark.{name}" in marks[1] for name in left_out) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Limit the fixtures of a test."""
    _running[:] = [item]
    with time_limit(SETUP_S, f"the setup of {item.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Limit the test itself."""
    limit_s = SLOW_CALL_S if item.get_closest_marker("slow") else CALL_S
    if item.get_closest_marker("faults"):
        limit_s = FAULTS_CALL_S + float(os.environ.get("MIXED_LOAD_S", "0"))
    with time_limit(limit_s, item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Limit what ends after a test."""
    with time_limit(SETUP_S, f"the end of {item.nodeid}"):
        return (yield)


def require(name: str, *, found: bool, why: str) -> None:
    """Skip a test that needs something of the machine; under REFAUG_REQUIRE=name,… the skip is a failure.

    Such a test has the mark `machine`, by which `make test-all` finds it on a machine that has what it needs.
    """
    assert _running[0].get_closest_marker("machine"), f"{_running[0].nodeid} needs {name}: mark it with `machine`"
    if found:
        return
    if name in os.environ.get("REFAUG_REQUIRE", "").split(","):
        pytest.fail(f"{name} is required here: {why}")
    pytest.skip(f"{name}: {why}")


def mostly_slow(cases: Iterable[object], quick: Sequence[int]) -> list[object]:
    """Cases of a test, of which those at some places run in `make test` and the others in `make test-all`.

    A tuple is one case of several parameters.
    """
    return [
        case
        if place in quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]
