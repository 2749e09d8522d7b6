"""Workers: results in order, errors that reach the parent, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import RefaugError
from refaug.core.processes.worker_processes import Workers, default_count

ROOT = Path(__file__).parents[3]


def doubler(factor):
    return lambda item: (item * factor, os.getpid())


def fragile(_setup):
    def run(item):
        if item == 7:
            raise ValueError("seven is not for us")
        if item == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 11:
            os._exit(3)
        return item

    return run


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, attempts: int = 500) -> bool:
    """Whether a process ends soon; it is not our child, so that it cannot be waited for."""
    return any(not is_running(pid) or time.sleep(0.02) for _ in range(attempts))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_results_come_in_the_order_of_the_items_for_successive_setups(count):
    with Workers(doubler, count) as workers:
        for factor in (2, 3):
            found = list(workers.map(factor, range(50)))
            assert [value for value, _ in found] == [number * factor for number in range(50)]
            pids = {pid for _, pid in found}
            assert pids == {os.getpid()} if count == 0 else len(pids) == count and os.getpid() not in pids
    assert not any(is_running(pid) for pid in pids - {os.getpid()})


def test_only_a_few_items_are_taken_ahead():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    with Workers(doubler, 2) as workers:
        results = workers.map(1, items())
        next(results)
        assert len(taken) == 5
        list(results)


def test_large_items_and_results_do_not_stop_each_other():
    with Workers(doubler, 2) as workers:
        found = [len(value) for value, _ in workers.map(2, (b"x" * (3 << 20) for _ in range(12)))]
    assert found == [6 << 20] * 12


def test_what_a_worker_raises_reaches_the_parent_with_its_traceback():
    with refusing(RefaugError) as caught, Workers(fragile, 2) as workers:
        list(workers.map(None, range(20)))
    assert "Traceback" in str(caught.value)


@pytest.mark.parametrize(("item", "how"), [(9, "by signal 9"), (11, "with code 3")])
def test_a_worker_that_ends_is_reported_with_how_it_ended(item, how):
    with refusing(RefaugError, how), Workers(fragile, 2) as workers:
        list(workers.map(None, [item] * 40))


def test_a_worker_killed_while_it_waits_is_no_closed_stdout():
    with Workers(doubler, 1) as workers:
        (_, pid) = next(iter(workers.map(1, [0])))
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with refusing(RefaugError):
            list(workers.map(1, [b"x" * (1 << 20)] * 5))


def test_killing_the_parent_leaves_no_worker():
    program = (
        "import sys, time; sys.path.insert(0, 'tests/unit/core'); import test_worker_processes as t\n"
        "if __name__ == '__main__':\n"
        "    with t.Workers(t.doubler, 2) as w:\n"
        "        for number, (_, pid) in enumerate(w.map(1, iter(int, 1))):\n"
        "            print(pid, flush=True) if number < 2 else None\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT, env=environment) as parent:
        pids = {int(parent.stdout.readline()) for _ in range(2)}
        assert len(pids) == 2
        parent.kill()
    assert all(ends(pid) for pid in pids)


def test_as_many_workers_as_cores_but_at_most_eight():
    assert default_count() == min(8, len(os.sched_getaffinity(0)))
