"""What happens when the disk is full: every write ends in StorageFull, which names the file and says what to do.

Nothing is lost by it: files are written aside and renamed when they are whole, so the version before stays the
published one, and the same command goes on where it stopped.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refaug.core.errors import StorageFull

# EFBIG reports a file-size limit of the process; for the user it is the same problem
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file may not grow"}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn 'no space left' in the block into StorageFull naming the path; other errors pass."""
    try:
        yield
    except OSError as error:
        if (full := storage_full(error, str(path))) is not None:
            raise full from error
        raise


def storage_full(error: OSError, where: str) -> StorageFull | None:
    """Return the error that says what is full where; None where something else is wrong."""
    if error.errno not in _FULL:
        return None
    return StorageFull(f"{where}: {_FULL[error.errno]}", remedy="free some room and run the same command again")
