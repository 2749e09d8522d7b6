"""Stages of a build in a folder aside, with a mark for each finished stage, so that a killed build can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import orjson

from refaug.core.errors import Corrupt
from refaug.core.files import make_folder, read_json, remove_asides, remove_tree, write_json

MARK: Final = "stages.json"


def hash_of_inputs(inputs: Mapping[str, Any]) -> str:
    """Return a hash that identifies a set of inputs and settings."""
    return hashlib.sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Stages:
    """The stages of one build; each runs once, and its facts are stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = folder / MARK
        self._facts: dict[str, dict[str, Any]] = {}
        make_folder(folder)
        for inner in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            remove_asides(inner)
        try:
            if self._mark.exists():
                self._facts = dict(read_json(self._mark))  # type: ignore[arg-type]
        except Corrupt:
            remove_tree(folder)
            make_folder(folder)

    @classmethod
    def of(cls, cache: Path, name: str, inputs: Mapping[str, Any]) -> Stages:
        """Open the folder for exactly these inputs; delete folders of this name with other inputs."""
        folder = cache / f"{name}-{hash_of_inputs(inputs)[:12]}"
        for other in cache.glob(f"{name}-*"):
            if other != folder and len(other.name) == len(folder.name):
                _remove(other)
        for half_removed in cache.glob(f".removed-{name}-*"):
            remove_tree(half_removed)
        return cls(folder)

    @staticmethod
    def discard(cache: Path, name: str) -> None:
        """Delete the interrupted work under this name; only the holder of the lock of its artefact may call this."""
        for folder in cache.glob(f"{name}-*"):
            if len(folder.name) == len(name) + 13:
                _remove(folder)

    def run(self, stage: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the facts of a stage, and run it first if it is not finished."""
        if stage not in self._facts:
            began = perf_counter()
            facts = work()
            self.record(stage, facts, perf_counter() - began)
        return self._facts[stage]

    def lacks(self, stage: str) -> bool:
        """Whether a stage is not finished."""
        return stage not in self._facts

    def forget(self, stage: str) -> None:
        """Let a stage be run again, because what it made is no longer there."""
        self._facts.pop(stage, None)

    def record(self, stage: str, facts: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Store the facts of a stage that was run elsewhere, and took so long there."""
        self._facts[stage] = {**facts, "seconds": round(seconds, 3)}
        write_json(self._mark, self._facts)
        return self._facts[stage]

    def is_finished(self, stage: str) -> bool:
        """Return whether a stage is finished, in whichever run."""
        return stage in self._facts

    def facts(self, stage: str) -> dict[str, Any]:
        """Return the facts of a finished stage."""
        return self._facts[stage]

    @property
    def seconds(self) -> dict[str, float]:
        """The duration of each finished stage, in whichever run."""
        return {stage: float(facts["seconds"]) for stage, facts in self._facts.items()}

    def finish(self) -> None:
        """Delete the marks, which are not part of the result."""
        self._mark.unlink(missing_ok=True)

    def drop(self) -> None:
        """Delete the build."""
        _remove(self.folder)


def _remove(folder: Path) -> None:
    """Rename a folder before deleting it: half a folder must not be taken for a build to resume."""
    renamed = folder.with_name(f".removed-{folder.name}")
    remove_tree(renamed)
    with suppress(FileNotFoundError):
        folder.rename(renamed)
    remove_tree(renamed)
