"""What conversations of self-play begin with: nothing, lines of a file, or utterances of a log."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Final

import orjson

from refaug.bots.selfplay import SelfPlayStart
from refaug.core.errors import BadInput, NoSource, Usage
from refaug.core.files import unique_suffix
from refaug.core.home import Settings
from refaug.core.query_engine import QueryEngine
from refaug.logs.store import StoredLog

EMPTY: Final = "empty"
MAX_PLAYED: Final = 1_000_000
_MAX_LINE: Final = 20_000  # characters
_MAX_FILE: Final = 256 << 20
_ENGINE_MEMORY: Final = 512 << 20


def read_starts(settings: Settings, start: str, count: int, seed: int) -> list[SelfPlayStart]:
    """Return so many starts; `start` is empty, file:FILE or log:NAME.

    Lines of a file are drawn without replacement, and again from the first when there are fewer. A log must have
    enough pairs.
    """
    if not 1 <= count <= MAX_PLAYED:
        raise Usage(f"{count:,} conversations", remedy=f"1 to {MAX_PLAYED:,}")
    kind, _, source = start.partition(":")
    if start == EMPTY:
        return [SelfPlayStart(number=number) for number in range(count)]
    if kind == "file" and source:
        return _of_lines(_read_lines(Path(source)), count, seed)
    if kind == "log" and source:
        return _of_log(settings, source, count, seed)
    raise Usage(f"--start {start}", remedy="empty, file:FILE with an utterance a line, or log:NAME")


def starts_sha256(starts: list[SelfPlayStart]) -> str:
    """Return a hash of the starts, which manifests have."""
    return hashlib.sha256(orjson.dumps([[start.turns, start.dialogue] for start in starts])).hexdigest()


def _read_lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MAX_FILE:
            raise BadInput(f"{path} has more than {_MAX_FILE >> 20} MiB", remedy="give a shorter list of starts")
        lines = path.read_bytes().decode().splitlines()
    except FileNotFoundError as error:
        raise NoSource(f"{path} is not there", remedy="a text file with an utterance a line") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 at byte {error.start:,}", remedy="a text file in UTF-8") from error
    for number, line in enumerate(lines, 1):
        if len(line) > _MAX_LINE:
            raise BadInput(
                f"{path}, line {number:,} has {len(line):,} characters", remedy=f"at most {_MAX_LINE:,} a line"
            )
    utterances = [line.strip() for line in lines if line.strip()]
    if not utterances:
        raise BadInput(f"{path} has no line with text", remedy="one utterance a line")
    return utterances


def _of_lines(lines: list[str], count: int, seed: int) -> list[SelfPlayStart]:
    order = list(range(len(lines)))
    random.Random(seed).shuffle(order)  # noqa: S311
    return [SelfPlayStart(number=number, turns=(lines[order[number % len(order)]],)) for number in range(count)]


def _of_log(settings: Settings, name: str, count: int, seed: int) -> list[SelfPlayStart]:
    log = StoredLog.open(settings.logs, name)
    with QueryEngine(settings.cache / f"self-play-starts-{unique_suffix()}", memory=_ENGINE_MEMORY) as engine:
        pairs = log.sample(count, seed, engine)
    if len(pairs) < count:
        raise BadInput(f"log {name} has {len(pairs):,} pairs for {count:,} starts", remedy=f"-n {len(pairs)} or fewer")
    return [
        SelfPlayStart(number=number, turns=(pair.utterance,), dialogue=f"{name}/{pair.dialogue}")
        for number, pair in enumerate(pairs)
    ]
