"""The artefacts of a run and the seconds of its steps; those of an artefact are stored when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from refaug.core.files import make_folder, read_json, write_json


class StepTimes:
    """The artefacts in use, and the seconds that each step took."""

    def __init__(self, path: Path) -> None:
        self._path = path  # of the seconds of artefacts
        self.seconds = dict[str, float]()  # of artefacts: when they were made; of other steps: in this run
        self.artefacts = dict[str, str]()  # as signatures name them

    def note_artefact(self, name: str, spec: str, began: float, *, is_new: bool) -> None:
        """Note an artefact as signatures name it, and the seconds that it took to make."""
        self.artefacts[name] = spec
        seconds = dict(read_json(self._path)) if self._path.exists() else {}
        if is_new:
            seconds[spec] = round(perf_counter() - began, 1)
            make_folder(self._path.parent)
            write_json(self._path, seconds)
        if spec in seconds:
            self.seconds[name] = float(str(seconds[spec]))

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to those of a step."""
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + perf_counter() - began, 1)
