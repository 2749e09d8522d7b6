"""A time of day that tests set for whole servers, while their monotonic clocks go on.

libfaketime is no help: with monotonic clocks left alone, it wakes those who wait for the interpreter at wrong times.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from safeguards import require
from servers import Served, served

SOURCE = Path(__file__).with_name("time_of_day.c")


@dataclass
class Clock:
    """The clock of the processes that are started with `environment`."""

    folder: Path
    offset: timedelta = timedelta()

    @property
    def environment(self) -> Mapping[str, str]:
        """What makes a process, and those that it starts, read this clock."""
        return {"LD_PRELOAD": str(self.folder / "time_of_day.so"), "TIME_OF_DAY": str(self.folder / "offset")}

    def now(self) -> datetime:
        """The time that this clock shows."""
        return datetime.now(UTC) + self.offset

    def set(self, moment: datetime) -> None:
        """Put the clock forward or back."""
        self.offset = moment - datetime.now(UTC)
        with (self.folder / "offset").open("r+b" if (self.folder / "offset").exists() else "wb") as file:
            file.write(struct.pack("=q", self.offset // timedelta(microseconds=1)))


@contextmanager
def served_with_clock(home: Path, *options: str) -> Iterator[tuple[Served, Clock]]:
    """A service whose clock shows ten minutes past an hour, so that no hour ends by itself in the course of a test."""
    clock = Clock(home.parent / "clock")
    clock.folder.mkdir()
    clock.set(datetime.fromtimestamp(time.time() // 3_600 * 3_600 + 4_200, UTC))
    require("cc", found=shutil.which("cc") is not None, why="no compiler of C")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-o", str(clock.folder / "time_of_day.so"), str(SOURCE)], check=True
    )
    with served(home, *options, **clock.environment) as service:
        yield service, clock


def jump(service: Served, clock: Clock, moment: datetime) -> None:
    """Set the clock, and wait until the server's answers have its time."""
    clock.set(moment)

    def is_shown() -> bool:
        told = parsedate_to_datetime(service.client.get("/healthz").headers["Date"])
        return abs(told - clock.now()) < timedelta(seconds=60)

    service.until(is_shown, f"the time {moment} in answers")
