"""A build aside: a folder of its own, where finished stages are marked, so that a killed build goes on from there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import orjson

from core.errors import Corrupt
from core.files import make_folder, read_json, remove_asides, remove_tree, write_json

MARK: Final = "stages.json"


def hash_of_inputs(inputs: Mapping[str, Any]) -> str:
    """What tells one set of inputs and settings from another."""
    return hashlib.sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Stages:
    """The stages of one build; each is done once, and its facts are kept."""

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
        """The folder for exactly these inputs; those of this name with others are of no use any more."""
        folder = cache / f"{name}-{hash_of_inputs(inputs)[:12]}"
        for other in cache.glob(f"{name}-*"):
            if other != folder and len(other.name) == len(folder.name):
                _remove(other)
        for half_removed in cache.glob(f".removed-{name}-*"):
            remove_tree(half_removed)
        return cls(folder)

    def run(self, stage: str, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The facts of a stage: from before, or by doing it now."""
        if stage not in self._facts:
            began = perf_counter()
            facts = dict(work())
            self._facts[stage] = {**facts, "seconds": round(perf_counter() - began, 3)}
            write_json(self._mark, self._facts)
        return self._facts[stage]

    def facts(self, stage: str) -> dict[str, Any]:
        """What a finished stage found."""
        return self._facts[stage]

    @property
    def seconds(self) -> dict[str, float]:
        """How long each finished stage took, whichever run did it."""
        return {stage: float(facts["seconds"]) for stage, facts in self._facts.items()}

    def finish(self) -> None:
        """The marks are no part of what was built."""
        self._mark.unlink(missing_ok=True)

    def drop(self) -> None:
        """What was built is of no use."""
        _remove(self.folder)


def _remove(folder: Path) -> None:
    """Under another name first: half of it must not be taken for a build that can go on."""
    gone = folder.with_name(f".removed-{folder.name}")
    remove_tree(gone)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    remove_tree(gone)
