"""What is alive between two pieces of work is not looked at by later collections."""

from __future__ import annotations

import gc
import weakref

from refaug.core.memory import freeze_living


class Node:
    """A cycle of one."""

    def __init__(self) -> None:
        self.itself = self


def test_the_living_are_frozen_and_earlier_garbage_is_gone() -> None:
    before = gc.get_threshold()
    living, garbage = Node(), Node()
    gone = weakref.ref(garbage)
    del garbage
    try:
        freeze_living()
        assert gone() is None
        assert not any(one is living for one in gc.get_objects())
        assert gc.get_threshold() == (50_000, 20, 20)
        later = Node()
        assert any(one is later for one in gc.get_objects())
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
