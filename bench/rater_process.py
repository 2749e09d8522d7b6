"""One process that opens a rater, rates, and says how long that took and what memory it holds: with torch or without.

    python bench/rater_process.py torch|onnx FOLDER ASKED.json BEGAN THREADS

Started by bench_rater.py for each measurement. FOLDER holds the rater and its graphs, ASKED the triplets; BEGAN is the
reading of the monotonic clock, which all processes share, when this one was started. Imports are part of what is
measured, so each way has its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def with_torch(folder: Path, triplets: list[list[str]], threads: int) -> list[float]:
    """As the service does."""
    from rater.checkpoint import open_rater  # noqa: PLC0415
    from rater.rate import Candidate, ToRate  # noqa: PLC0415

    rater = open_rater(folder, threads=threads)
    asked = [ToRate(utterance=one, golds=(gold,), candidates=(Candidate(text=text),)) for one, gold, text in triplets]
    return [rating for ratings in rater.rate(asked) for rating in ratings]


def with_onnx(folder: Path, triplets: list[list[str]], threads: int) -> list[float]:
    """The least that it takes: numpy, ONNX Runtime and SentencePiece."""
    from rater_onnx import OnnxRater, Sessions  # noqa: PLC0415
    from sentencepiece import SentencePieceProcessor  # noqa: PLC0415

    pieces = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    most = int(json.loads((folder / "manifest.json").read_bytes())["config"]["max_tokens"])
    rater = OnnxRater(
        Sessions.open(folder, threads=threads),
        lambda texts: [[int(piece) for piece in ids] for ids in pieces.encode(texts, out_type=int, num_threads=1)],
        unknown=int(pieces.unk_id()),
        max_tokens=most,
    )
    return [float(one) for one in rater.rate([(one, gold, text) for one, gold, text in triplets])]


def held() -> dict[str, float]:
    """Resident memory of this process in MiB: now, and at most."""
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    found = {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
    return {"resident_mib": round(found["VmRSS"], 1), "peak_mib": round(found["VmHWM"], 1)}


def main() -> None:
    way, folder, asked, began, threads = sys.argv[1:]
    triplets = json.loads(Path(asked).read_bytes())
    rate = {"torch": with_torch, "onnx": with_onnx}[way]
    ratings = rate(Path(folder), triplets, int(threads))
    seconds = time.monotonic() - float(began)
    found = {"seconds": round(seconds, 3), **held(), "torch": "torch" in sys.modules, "ratings": ratings}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
