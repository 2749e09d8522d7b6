"""What holds for every test holds: signals as at a terminal, waits that end, needs that are marked."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from safeguards import CALL_S, pytest_ignore_collect, require, time_limit

HERE = Path(__file__).resolve().parents[1]
# A shell has the commands that it leaves in the background ignore these two, and so have `nohup make test &` its tests.
IN_THE_BACKGROUND = """
import signal, subprocess, sys
from safeguards import restore_signals

restore_signals()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def test_ctrl_c_reaches_tests_and_children_though_a_parent_ignores_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND],
        env={"PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=ignore_signals,
        timeout=60,
    )
    assert done.stdout.split() == ["True", "True"]


def test_a_wait_that_does_not_end_is_a_failure_that_says_which() -> None:
    said = r"the wait for nobody has taken more than 0\.05 seconds"
    with pytest.raises(pytest.fail.Exception, match=said), time_limit(0.05, "the wait for nobody"):
        threading.Event().wait()


def test_a_limit_inside_another_gives_that_one_back() -> None:
    with time_limit(1_000, "nothing"):
        pass
    assert 1 < signal.getitimer(signal.ITIMER_REAL)[0] <= CALL_S, "the limit of this test itself"


def test_what_needs_something_of_the_machine_has_to_be_marked() -> None:
    with pytest.raises(AssertionError, match="mark it with `machine`"):
        require("postgresql", found=False, why="there is none")


def test_cycles_are_looked_for_among_what_tests_make_alone() -> None:
    assert gc.get_freeze_count() > 0
    assert gc.isenabled()


OF_TEST_ALL = "(slow or machine) and not faults"


@pytest.mark.parametrize(
    ("expression", "text", "is_left_alone"),
    [
        (OF_TEST_ALL, "def test_it(): ...", True),
        ("faults", "def test_it(): ...", True),
        (OF_TEST_ALL, "@pytest.mark.slow", None),
        (OF_TEST_ALL, "mostly_slow(CASES, quick=[0])", None),
        (OF_TEST_ALL, "params=['sqlite', POSTGRESQL]", None),
        (OF_TEST_ALL, 'pytest_plugins = ("databases",)', None),
        (OF_TEST_ALL, "pytestmark = [pytest.mark.slow, pytest.mark.faults]", True),
        ("cluster and not faults", "def test_it(): ...", None),
        ("slow or not slow", "def test_it(): ...", None),
        ("not slow and not machine", "def test_it(): ...", None),
        ("not slow and not machine", "pytestmark = pytest.mark.slow", True),
        ("", "def test_it(): ...", None),
    ],
)
def test_files_of_which_a_run_has_no_test_are_left_alone(
    expression: str, text: str, is_left_alone: bool | None, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text, "utf-8")
    options = SimpleNamespace(markexpr=expression)
    config = SimpleNamespace(args=[], option=options, invocation_params=pytestconfig.invocation_params)
    assert pytest_ignore_collect(path, cast("pytest.Config", config)) is is_left_alone
