"""Self-play: conversations a minute, memory at any number of conversations, and the overlap with a large log.

    python bench/bench_selfplay.py --home FOLDER [--sizes 1000 10000 100000] [--pairs 1000000]

The log is the demo log, made with a seed: no other texts are needed. Every play and check is a process of its own, on
one thread. The overlap is counted for 100,000 windows against the demo log, read over and over to a million pairs.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from bench_shards import prepare
from common import run_and_watch, write_result

from refaug.extras.conversations.selfplay.log_windows import count_in_log
from refaug.logs.store import StoredLog

BOT = "retrieval:demo,mode=bm25-utterance"
TURNS = 10
WINDOWS_OF_CONVERSATION = TURNS - 1  # of two replies
REFAUG = (str(Path(sys.executable).with_name("refaug")), "-q")
PLANTED = 3  # conversations that repeat a dialogue of the log


class LongLog(StoredLog):
    """A log that is read over and over until it has so many pairs."""

    pairs_wanted = 0

    def batches(self, columns: Any = None, *, size: int = 20_000) -> Iterator[pa.RecordBatch]:
        """Yield the pairs, again and again."""
        missing = self.pairs_wanted
        while missing > 0:
            for batch in super().batches(columns, size=size):
                yield batch.slice(0, missing)
                missing -= batch.num_rows
                if missing <= 0:
                    return


def measured(*arguments: object) -> dict[str, float]:
    """Run a command of refaug; return its seconds, processor seconds and largest memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = run_and_watch([*REFAUG, *map(str, arguments)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(run.seconds, 2),
        "processor_seconds": round(processor_s, 2),
        "peak_mb": round(run.peak_bytes / 1e6, 1),
        "anonymous_mb": round(run.anonymous_bytes / 1e6, 1),
        "resident_mb": round(run.resident_bytes / 1e6, 1),
    }


def play(home: Path, bot: str, start: str, size: int) -> dict[str, Any]:
    """Let a bot have so many conversations, and check them against the log."""
    name, load = f"bench-{size}", round(os.getloadavg()[0], 1)
    played = measured(
        "--home", home, "bots", "play", bot, "--conversations", size, "--turns", TURNS, "--start", start,
        "--name", name,
        "--threads", 1,
    )  # fmt: skip
    checked = measured("--home", home, "bots", "check", name, "--log", "demo", "--json")
    run_and_watch(
        [
            str(Path(sys.executable).with_name("refaug")),
            "-q",
            "--home",
            str(home),
            "artefacts",
            "remove",
            "self-play",
            name,
            "--yes",
        ]
    )
    minute = round(60 * size / played["seconds"])
    of_processor = round(60 * size / played["processor_seconds"])
    facts = {
        "bot": bot.partition(",")[0],
        "conversations": size,
        "load": load,
        "a_minute": minute,
        "a_minute_of_processor_time": of_processor,
        "play": played,
        "check": checked,
    }
    print(facts)
    return facts


def overlap(home: Path, pairs: int) -> dict[str, Any]:
    """Count the overlap of 100,000 windows with a log of so many pairs, in which a leak is planted."""
    log = LongLog.open(home / "logs", "demo")
    log.pairs_wanted = pairs
    texts = [pair.response for _, pair in zip(range(20_000), log.pairs(), strict=False)]
    count = 100_000 // WINDOWS_OF_CONVERSATION + 1
    conversations = [
        [f"{texts[(7 * number + 131 * turn) % len(texts)]} {number}" for turn in range(TURNS)]
        for number in range(count)
    ]
    by_dialogue = dict[str, list[str]]()
    for _, pair in zip(range(1_000), log.pairs(), strict=False):
        by_dialogue.setdefault(pair.dialogue, [pair.utterance]).append(pair.response)
    leaks = [turns for turns in by_dialogue.values() if len(turns) >= 5][:PLANTED]
    for place, leak in enumerate(leaks):
        conversations[100 * place][2 : 2 + 5] = leak[:5]
    began, processor = time.perf_counter(), time.process_time()
    named = ((str(number), turns) for number, turns in enumerate(conversations))
    overlaps = count_in_log(log, named, (2, 3, 5), home / "cache")
    present = {
        window: [int(number) for number, overlap in overlaps.items() if overlap.overlapping[window]]
        for window in (2, 3, 5)
    }
    facts = {
        "load": round(os.getloadavg()[0], 1),
        "windows": count * WINDOWS_OF_CONVERSATION,
        "pairs": pairs,
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "planted": [100 * place for place in range(PLANTED)],
        "found": {str(window): sorted(numbers) for window, numbers in present.items()},
    }
    print(facts)
    return facts


def main() -> None:
    """Prepare the log and the index, play and check, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="where the log and the index lie, or are made")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--fast-sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--out", default="selfplay", help="name of the file of results")
    options = parser.parse_args()
    prepare(options.home, 60_000)
    refaug = [*REFAUG, "--home", str(options.home)]
    if not (options.home / "indexes" / "demo").exists():
        run_and_watch([*refaug, "index", "build", "demo", "--check-queries", "0"])
    bot = options.home / "bench-bot.json"
    replies = [f"This is reply number {number}." for number in range(500)]
    bot.write_bytes(orjson.dumps({"kind": "replay", "replies": replies, "pick": "sample"}))
    starts = options.home / "bench-starts.txt"
    starts.write_text("".join(f"This is the beginning of number {number}.\n" for number in range(1_000)))
    run_and_watch([*refaug, "bots", "add", "bench", str(bot), "--replace"])
    figures: dict[str, Any] = {
        "pairs_of_index": sum(part.pairs for part in StoredLog.open(options.home / "logs", "demo").manifest.parts),
        "overlap": overlap(options.home, options.pairs),
        "retrieval": [],
        "fixed_replies": [],
    }
    path = write_result(options.out, figures, ("numpy", "pyarrow", "bm25s"))
    kinds = (
        ("fixed_replies", "bench", f"file:{starts}", options.fast_sizes),
        ("retrieval", BOT, "log:demo", options.sizes),
    )
    for kind, bot_name, start, sizes in kinds:
        for size in sizes:
            figures[kind].append(play(options.home, bot_name, start, size))
            path = write_result(options.out, figures, ("numpy", "pyarrow", "bm25s"))  # a long run may be stopped
    print(path)


if __name__ == "__main__":
    main()
