"""What conversations of self-play begin with: nothing, lines of a file, or utterances of a log."""

from __future__ import annotations

import hashlib
import random
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import orjson

from refaug.core.errors import BadInput, NoSource
from refaug.core.files import make_folder, storage_errors, unique_suffix
from refaug.core.home import Settings
from refaug.core.query_engine import QueryEngine
from refaug.extras.conversations.selfplay.playing import SelfPlayStart
from refaug.extras.conversations.selfplay.rules import EMPTY, FILE, parse_start
from refaug.logs.store import StoredLog
from refaug.scoring.item_files import InputFile

_LINE_END: Final = re.compile(r"\r?\n|\r")  # no separator that may stand inside of an utterance
_MAX_LINE: Final = 20_000  # characters
_MAX_FILE: Final = 256 << 20
_ENGINE_MEMORY: Final = 512 << 20


class _Source(Protocol):
    """Where starts come from, by their number."""

    def start(self, number: int) -> SelfPlayStart:
        """Return a start."""

    def close(self) -> None:
        """Remove what was written aside."""


class SelfPlayStarts:
    """So many starts, of which only those at hand are in memory."""

    def __init__(self, source: _Source, count: int) -> None:
        self._source, self._count = source, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SelfPlayStart]:
        return map(self._source.start, range(self._count))

    def between(self, first: int, last: int) -> list[SelfPlayStart]:
        """Return the starts from `first` to before `last`, as far as there are so many."""
        return [self._source.start(number) for number in range(first, min(last, self._count))]

    @property
    def sha256(self) -> str:
        """A hash of all starts, which manifests have."""
        digest, separator = hashlib.sha256(b"["), b""
        for start in self:
            digest.update(separator + orjson.dumps([start.turns, start.dialogue]))
            separator = b","
        digest.update(b"]")
        return digest.hexdigest()

    def close(self) -> None:
        """Remove what was written aside."""
        self._source.close()


def read_starts(
    settings: Settings, start: str, count: int, seed: int, *, file: InputFile | None = None
) -> SelfPlayStarts:
    """Return so many starts; `start` is empty, file:FILE or log:NAME.

    Lines of a file are drawn without replacement, and again from the first when there are fewer; `file` is read where
    the name is not that of a path. A log must have enough pairs.
    """
    kind, source = parse_start(start)
    if kind == EMPTY:
        return SelfPlayStarts(_Nothing(), count)
    if kind == FILE:
        file = file or InputFile(path=Path(source), name=source)
        return SelfPlayStarts(_Lines(_read_lines(file.path, file.name), seed), count)
    utterances = _LogUtterances(settings, source)
    try:
        utterances.draw(count, seed)
    except BaseException:
        utterances.close()
        raise
    return SelfPlayStarts(utterances, count)


class _Nothing:
    def start(self, number: int) -> SelfPlayStart:
        return SelfPlayStart(number=number)

    def close(self) -> None:
        return


class _Lines:
    """Lines of a file in an order that is drawn."""

    def __init__(self, lines: list[str], seed: int) -> None:
        order = list(range(len(lines)))
        random.Random(seed).shuffle(order)  # noqa: S311
        self._lines, self._order = lines, array("L", order)

    def start(self, number: int) -> SelfPlayStart:
        return SelfPlayStart(number=number, turns=(self._lines[self._order[number % len(self._order)]],))

    def close(self) -> None:
        return


class _LogUtterances:
    """Utterances that are drawn from a log, and lie in a file aside."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._name, self._cache = name, settings.cache
        self._log = StoredLog.open(settings.logs, name)
        self._places = array("Q")
        make_folder(settings.cache)
        self._path = settings.cache / f"self-play-starts-{unique_suffix()}.jsonl"
        self._file = self._path.open("w+b")

    def draw(self, count: int, seed: int) -> None:
        """Draw so many pairs; BadInput where the log has fewer."""
        place = 0
        with (
            storage_errors(self._path),
            QueryEngine(self._cache / f"self-play-starts-{unique_suffix()}", memory=_ENGINE_MEMORY) as engine,
        ):
            for dialogue, utterance in self._log.sample_utterances(count, seed, engine):
                line = orjson.dumps([utterance, f"{self._name}/{dialogue}"]) + b"\n"
                self._places.append(place)
                self._file.write(line)
                place += len(line)
            self._file.flush()
        if len(self._places) < count:
            raise BadInput(
                f"log {self._name} has {len(self._places):,} pairs for {count:,} starts",
                remedy=f"at most {len(self._places):,} conversations",
            )

    def start(self, number: int) -> SelfPlayStart:
        self._file.seek(self._places[number])
        utterance, dialogue = orjson.loads(self._file.readline())
        return SelfPlayStart(number=number, turns=(utterance,), dialogue=dialogue)

    def close(self) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            self._path.unlink()


def _read_lines(path: Path, name: str) -> list[str]:
    try:
        if path.stat().st_size > _MAX_FILE:
            raise BadInput(f"{name} has more than {_MAX_FILE >> 20} MiB", remedy="give a shorter list of starts")
        lines = _LINE_END.split(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise NoSource(f"{name} is not there", remedy="a text file with an utterance a line") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8 at byte {error.start:,}", remedy="a text file in UTF-8") from error
    for number, line in enumerate(lines, 1):
        if len(line) > _MAX_LINE:
            raise BadInput(
                f"{name}, line {number:,} has {len(line):,} characters", remedy=f"at most {_MAX_LINE:,} a line"
            )
    utterances = [line.strip() for line in lines if line.strip()]
    if not utterances:
        raise BadInput(f"{name} has no line with text", remedy="one utterance a line")
    return utterances
