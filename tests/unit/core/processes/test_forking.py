"""A child gets the locks of its parent free and what they guard whole, also when other threads hold them at the fork.

Each test forks a process of its own: threads and locks of other tests are not in question. Without the hooks each
child waits for ever; it ends itself with an error, then.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BEGIN = """
import faulthandler, functools, os, sys, threading
from refaug.core.processes import forking
from refaug.core.processes.forking import held_over_fork

begun, forking_begins, whole = threading.Event(), threading.Event(), []


def begin(work):
    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(30)
    os.register_at_fork(before=forking_begins.set)  # hooks run last first: this one before those of refaug
    sys.setswitchinterval(10)  # the other thread goes on only while a hook waits for it


def fork(in_child):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(10, exit=True)
        in_child()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def run(program: str, *folders: Path) -> None:
    command = [sys.executable, "-c", BEGIN + program, *map(str, folders)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "whole\n"), ended.stderr


def test_a_fork_waits_for_a_module_that_another_thread_imports(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("import __main__ as m\nm.begun.set()\nm.forking_begins.wait()\nrest = 'whole'\n")
    run(
        """
sys.path.append(sys.argv[1])
begin(lambda: __import__("half"))


def in_child():
    import half
    os.write(1, half.rest.encode() + b"\\n")


fork(in_child)
""",
        tmp_path,
    )


def test_a_fork_waits_for_a_lock_and_what_it_guards() -> None:
    run("""
lock = held_over_fork(threading.RLock())


def work():
    with lock:
        begun.set()
        forking_begins.wait()
        whole.append("whole")


def in_child():
    with lock:
        os.write(1, b"".join(word.encode() + b"\\n" for word in whole))


begin(work)
fork(in_child)
with lock:
    assert whole == ["whole"]
""")


def test_a_thread_that_holds_the_lock_forks() -> None:
    run("""
lock = held_over_fork(threading.RLock())
with lock:
    fork(lambda: lock.acquire() and os.write(1, b"whole\\n"))
threads = [threading.Thread(target=fork, args=(lambda: None,)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")


def test_a_lock_that_stays_held_is_renewed_in_the_child_alone() -> None:
    run("""
forking._LONGEST_WAIT_S = 0.01
lock, ends = held_over_fork(threading.RLock()), threading.Event()


def work():
    with lock:
        begun.set()
        ends.wait()
        whole.append("whole")


begin(work)
fork(lambda: lock.acquire() and lock.release())
assert not lock.acquire(blocking=False)
ends.set()
with lock:
    print(*whole)
""")


def test_locks_that_are_gone_are_forgotten() -> None:
    run("""
before = len(forking._forks._locks())
locks = [held_over_fork(threading.RLock()) for _ in range(3)]
assert len(forking._forks._locks()) == before + 3
del locks
assert len(forking._forks._references) == before
fork(lambda: os.write(1, b"whole\\n"))
""")


def test_cached_properties_can_be_computed_in_a_child() -> None:
    """Up to Python 3.11 all objects of a class share one lock."""
    run("""
from refaug.core.vectors.word_vectors import WordVectors
import numpy as np


class Words(list):
    def __iter__(self):
        begun.set()
        threading.Event().wait()


def in_child():
    assert WordVectors(["a", "b"], np.zeros((2, 1), np.float32)).index == {"a": 0, "b": 1}
    os.write(1, b"whole\\n")


begin(lambda: WordVectors(Words(), np.zeros((0, 1), np.float32)).index)
fork(in_child)
""")
