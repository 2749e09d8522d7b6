"""A process that opens a rater, rates, and reports its time and memory: with torch or without.

    python bench/rater_process.py torch|onnx FOLDER TRIPLETS.json BEGAN THREADS

bench_rater.py starts one for each measurement. FOLDER holds the rater and its graphs; BEGAN is the reading of the
monotonic clock, which all processes share, when this one was started. Imports are part of what is measured, so each
way has separate ones.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def with_torch(folder: Path, triplets: list[list[str]], threads: int) -> list[float]:
    """Rate as the service does."""
    from refaug.core.records import Reference  # noqa: PLC0415
    from refaug.rater.nn.checkpoint import open_rater  # noqa: PLC0415
    from refaug.rater.rating import RatingRequest  # noqa: PLC0415

    rater = open_rater(folder, threads=threads)
    test_pairs = [
        RatingRequest(utterance=utterance, golds=(gold,), candidates=(Reference(text=text),))
        for utterance, gold, text in triplets
    ]
    return [rating for ratings in rater.rate(test_pairs) for rating in ratings]


def with_onnx(folder: Path, triplets: list[list[str]], threads: int) -> list[float]:
    """Rate with the least that it takes: numpy, ONNX Runtime and SentencePiece."""
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


def memory_in_use() -> dict[str, float]:
    """Return the resident memory of this process in MiB: now, and at most."""
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    sizes = {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
    return {"resident_mib": round(sizes["VmRSS"], 1), "peak_mib": round(sizes["VmHWM"], 1)}


def main() -> None:
    way, folder, triplets_path, began, threads = sys.argv[1:]
    triplets = json.loads(Path(triplets_path).read_bytes())
    rate = {"torch": with_torch, "onnx": with_onnx}[way]
    ratings = rate(Path(folder), triplets, int(threads))
    seconds = time.monotonic() - float(began)
    figures = {"seconds": round(seconds, 3), **memory_in_use(), "torch": "torch" in sys.modules, "ratings": ratings}
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
