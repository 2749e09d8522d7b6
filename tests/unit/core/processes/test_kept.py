"""A property that is computed once holds up no other object."""

from __future__ import annotations

import threading

from refaug.core.processes.kept import cached_property


class _Counted:
    def __init__(self, begun: threading.Event | None = None, may_end: threading.Event | None = None) -> None:
        self.computed = 0
        self._begun, self._may_end = begun, may_end

    @cached_property
    def number(self) -> int:
        self.computed += 1
        if self._begun is not None and self._may_end is not None:
            self._begun.set()
            assert self._may_end.wait(60)
        return self.computed


def test_it_is_computed_once() -> None:
    counted = _Counted()
    assert (counted.number, counted.number, counted.computed) == (1, 1, 1)


def test_another_object_does_not_wait_for_one_that_takes_long() -> None:
    begun, may_end = threading.Event(), threading.Event()
    slow, quick = _Counted(begun, may_end), _Counted()
    thread = threading.Thread(target=lambda: slow.number)
    thread.start()
    assert begun.wait(60)
    other = threading.Thread(target=lambda: quick.number)
    other.start()
    other.join(30)
    computed = quick.computed
    may_end.set()
    thread.join()
    other.join()
    assert computed == 1
