"""The collector of cyclic garbage in processes that live long and hold many objects."""

from __future__ import annotations

import atexit
import gc
from typing import Final

# New objects, collections of the youngest, and of the middle generation, before a collection of the next. A request
# makes one or two thousand objects, which are all freed with it; a job that scores makes some million, which it keeps.
_THRESHOLDS: Final = (50_000, 20, 20)

# Libraries in C++ look at exit for objects that Python has not freed, and report frozen ones on stderr as leaks.
atexit.register(gc.unfreeze)


def freeze_living() -> None:
    """Collect, keep what is alive out of later collections, and let these be rare.

    Imported modules and opened models stay for good, and looking through them stops all threads for half a second.
    Objects without cycles are freed at once whatever the thresholds are; a cycle among those that are alive now, such
    as that of an error, lives as long as the process, so call this between two pieces of work.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
