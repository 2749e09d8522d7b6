"""The logs that the reproduction is made with, under names that begin with `proof`; and what its steps took."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import orjson

from refaug.core.errors import Conflict, NotFound, Usage
from refaug.core.files import make_folder, read_json, sha256_of, write_aside, write_json
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.manifest import MANIFEST, LogManifest
from refaug.rater.nn.build import PRESETS

EVERYDAY: Final = ("daily", "small")  # the domain of the rated sets
FILES: Final = {"daily": "dailydialog_en", "small": "small_en", "japanese": "ja_million"}
ENCODER: Final = "all-minilm-l6-v2"  # by its usual name in the home


@dataclass(frozen=True, kw_only=True)
class ProofSettings:
    """Where the data lies, and how much of it is used."""

    data: Path
    fraction: float = 1.0  # of the dialogues of each log
    draws: int = 2_000
    seeds: int = 20  # of every control in which there is chance
    edits: int = 2_000  # of each constant that is searched
    seed: int = 1
    threads: int = 1
    memory: int = 2 << 30
    preset: str = "base"  # of raters, where a part of the proof does not say which
    epochs: int | None = None  # of raters; None: the preset's
    encoder: str = ENCODER  # of the home, that refaug-1 is calibrated for
    vhred: str | None = None  # of the home, that ADEM stands on, beside drawn ones
    minutes: float | None = None  # after which no further network is trained; None: as long as it takes
    ruber: bool = True  # whether RUBER is trained, which takes as long as everything else together

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise Usage(f"a fraction of {self.fraction}", remedy="above 0, at most 1")
        if min(self.draws, self.seeds, self.threads) < 1:
            raise Usage("draws, seeds and threads are 1 or more")
        if self.preset not in PRESETS:
            raise Usage(f"there is no preset {self.preset!r}", remedy=f"one of: {', '.join(PRESETS)}")
        if self.epochs is not None and self.epochs < 1:
            raise Usage(f"{self.epochs} epochs", remedy="1 or more")
        if not self.data.is_dir():
            raise NotFound(f"{self.data} is not there", remedy="--data FOLDER, with logs/ and human/ in it")


@dataclass(frozen=True, kw_only=True)
class LogSelection:
    """A share of the dialogues of the file of a log."""

    log: str
    share: float = 1.0

    @property
    def name(self) -> str:
        """Return the name of the ingested log."""
        return f"proof-{self.log}" if self.share == 1 else f"proof-{self.log}-{self.share:g}"

    def contains(self, dialogue: str) -> bool:
        """Say whether a dialogue is selected; the answer does not depend on the order of the file."""
        drawn = hashlib.blake2b(dialogue.encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "little") < self.share * 2**64

    @property
    def is_whole(self) -> bool:
        """Say whether the whole file is selected, so that it can be ingested as it is."""
        return self.share == 1


class ProofLogs:
    """Logs of a home, ingested from the files of a data folder at their first use."""

    def __init__(self, home: Settings, settings: ProofSettings, progress: Progress, times: StepTimes) -> None:
        self.home, self.settings, self.progress = home, settings, progress
        self._times = times
        self._ingested = set[str]()

    def ingest(self, selection: LogSelection) -> str:
        """Ingest a selection unless it is ingested already, and return the name of the log."""
        if selection.name in self._ingested:
            return selection.name
        path = self._file(selection.log)
        with self._times.measure(f"ingesting {selection.name}"):
            source = path if selection.is_whole else self._write_selection(path, selection)
            self._require_same(selection, source)
            ingest(self.order(selection.name, source), self.home.logs, self.progress)
        self._ingested.add(selection.name)
        return selection.name

    def order(self, name: str, source: Path) -> IngestOrder:
        """Return the order that makes the log of a file; a benchmark has another one for its language."""
        return IngestOrder(sources=(str(source),), log=name, memory=self.settings.memory)

    def _require_same(self, selection: LogSelection, source: Path) -> None:
        """Refuse a log that was made of another file of this name: the new file would be added to the old one."""
        folder = self.home.logs / selection.name
        if not (folder / MANIFEST).exists():
            return
        fingerprints = LogManifest.read(folder).source_fingerprints()
        if fingerprints and (sha256_of(source),) not in fingerprints:
            raise Conflict(
                f"the log {selection.name} was made of another {FILES[selection.log]}.jsonl.gz",
                remedy="give this data a home of its own: refaug --home FOLDER agreement reproduce",
            )

    def _file(self, log: str) -> Path:
        path = self.settings.data / "logs" / f"{FILES[log]}.jsonl.gz"
        if not path.is_file():
            raise NotFound(f"{path} is not there", remedy="--data FOLDER, with the logs in logs/")
        return path

    def _write_selection(self, path: Path, selection: LogSelection) -> Path:
        """Write the selected dialogues to a separate file, in the order of the whole file."""
        folder = self.home.cache / "reproduce" / "logs"
        target = folder / f"{selection.name}-{sha256_of(path)[:16]}.jsonl.gz"
        if target.exists():
            return target
        make_folder(folder)
        with (
            gzip.open(path, "rb") as lines,
            write_aside(target) as file,
            gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as written,
        ):
            for line in lines:
                if selection.contains(str(orjson.loads(line)["id"])):
                    written.write(line)
        return target


# ── The seconds of the steps ──────────────────────────────────────────────────────────────────────────────────────────


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
