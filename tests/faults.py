"""Run refaug commands and kill each at the n-th event of a kind: how the tests find out what a kill can break.

    python faults.py

It reads orders from stdin, one JSON object a line: the command's `arguments`, and the `kind` and `number` of the event
before which it is to be killed (replace, fsync, unlink, close of a Parquet file; of an index also link and rows of an
array; any of them; no kind, no kill). Every command runs in a process of its own, forked before anything has happened;
the answer is its exit code (negative: the signal), what it wrote to stdout, and, where it came to its end, how many
events of each kind there were. Parts are made small, so that a small log has many.

FAISS must not be used before a fork by more than one thread, nor DuckDB be open: so commands for indexes and vectors
are to be given `--threads 1` here.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from refaug.cli.main import main
from refaug.logs import part_files
from refaug.logs.ingest import order as staging
from refaug.logs.ingest import pairing

INDEXING = {"index", "vectors"}
ANY = "any"


def small() -> None:
    """Sizes at which a log of a few kilobytes has many blocks, row groups and parts."""
    part_files.ROWS_A_GROUP = 8
    staging.PART_BYTES = 3_000
    pairing.FloodCounter.__init__.__kwdefaults__["bits"] = 12  # type: ignore[index]
    staging.IngestOrder.block_bytes = property(lambda _order: 700)  # type: ignore[assignment]


class Killer:
    """Counts events, and ends the process at one of them as a power cut would: no handler, no clean-up."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number, self.seen = kind, number, Counter[str]()

    def watch(self, owner: object, name: str, kind: str) -> None:
        real = getattr(owner, name)

        def watched(*given: object, **named: object) -> object:
            self.seen[kind] += 1
            if self.kind in (kind, ANY) and self.number == (self.seen.total() if self.kind == ANY else self.seen[kind]):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        setattr(owner, name, watched)


def run(kind: str, number: int, arguments: list[str], answer: int) -> int:
    """One command in this process."""
    killer = Killer(kind, number)
    for name, event in (("replace", "replace"), ("rename", "replace"), ("fsync", "fsync"), ("unlink", "unlink")):
        killer.watch(os, name, event)
    killer.watch(os, "rmdir", "unlink")
    killer.watch(pq.ParquetWriter, "close", "close")
    if INDEXING.intersection(arguments):
        from refaug.indexer.columns import NpyWriter, TextWriter  # noqa: PLC0415  heavy

        killer.watch(os, "link", "link")
        killer.watch(NpyWriter, "append", "rows")
        killer.watch(TextWriter, "append", "rows")
    code = main(arguments)
    os.write(answer, orjson.dumps(killer.seen))
    return code


def warm() -> None:
    """Load what the libraries load only when they are used, or every command would do so again."""
    pa.array([1])
    with redirect_stdout(io.StringIO()):
        main(["--home", "no-such-folder", "log", "list"])
        main(["--home", "no-such-folder", "admin", "backup", "no-such-backup"])


def warm_indexing() -> None:
    """The same for indexes: every loop that the commands need is compiled once, not in every process."""
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of OpenMP would not be there after the fork, but waited for
    said = [["again", "and", "again"], ["words", "that", "are", "said"], ["by", "one", "or", "the", "other"]]
    turns = [" ".join(said[n % 3][n % 2 :] + said[n % 4 % 3]) for n in range(15)]
    lines = [{"id": str(n), "turns": turns[n : n + 4]} for n in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "log.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
        search = ("index", "search", "warm", "words that are said", "--gold", "again and again", "--json")
        for command in (
            ("log", "ingest", f"{folder}/log.jsonl", "--log", "warm"),
            ("train", "vectors", "warm", "--min-count", "1", "--dimensions", "8", "--epochs", "1"),
            ("index", "build", "warm", "--check-queries", "2"),
            ("index", "delete", "warm", "--dialogue", "3"),
            ("log", "delete", "warm", "--dialogue", "4"),
            ("index", "update", "warm"),
            *(
                (*search, "--mode", f"{how}-{what}")
                for how in ("embedding", "bm25")
                for what in ("utterance", "dialog")
            ),
        ):
            one_thread = ("--threads", "1") if INDEXING.intersection(command[:2]) else ()
            with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.TextIOWrapper(io.BytesIO())):
                code = main(["--quiet", "--home", folder, *command, *one_thread])
            assert code == 0, command


def serve() -> None:
    """Answer orders until there are none."""
    small()
    warm()
    warm_for_indexing = False
    for line in sys.stdin.buffer:
        order = orjson.loads(line)
        if not warm_for_indexing and INDEXING.intersection(order["arguments"]):
            warm_indexing()
            warm_for_indexing = True
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as out:
            child = os.fork()
            if child == 0:
                os.dup2(out.fileno(), 1)
                code = run(order["kind"], order["number"], order["arguments"], writing)
                sys.stdout.flush()
                os._exit(code)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                seen = orjson.loads(pipe.read() or b"{}")
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            answer = {"code": code, "seen": seen, "out": out.read().decode()}
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
