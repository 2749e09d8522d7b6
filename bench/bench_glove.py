"""How fast co-occurrences and word vectors are beside the original GloVe program, in one run on two cores.

    python bench/bench_glove.py --data FOLDER --glove PROGRAMS    beside the C program
    python bench/bench_glove.py --data FOLDER                     ours and gensim's word2vec alone

PROGRAMS holds the programs `cooccur`, `shuffle` and `glove`, fetched from https://github.com/stanfordnlp/GloVe and
built outside this repository with -O3 -march=native (not -Ofast). Tokens are those of `--dialogues` dialogues of
`logs/medium_en.jsonl.gz` in `--data`, split by the `word` tokenizer, words below five occurrences left out; without
that log there is nothing to measure. Both sides get the same tokens, d = 100, window 15 and two threads for training;
counting has one thread on both sides. Results go to bench/results/glove.json.
"""

from __future__ import annotations

import argparse
import array
import gzip
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import add_data_option, median, require_data, write_result
from gensim.models import Word2Vec
from numpy.typing import NDArray

from refaug.core.progress import Silent
from refaug.core.text.tokenizers import get_tokenizer
from refaug.indexer.vectors.cooccurrence import Batch, Cooccurrences, CooccurrenceSettings, count_cooccurrences
from refaug.indexer.vectors.glove import GloveSettings, train_glove

PACKAGES = ("refaug", "numpy", "numba", "gensim")
DIMENSIONS, WINDOW, THREADS, FEWEST = 100, 15, 2, 5
TEXTS_A_BATCH = 65_536
RARE = "<<rare>>"  # no token of the tokenizer


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Texts as codes, by falling frequency of their words; −1 for a rare word."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    words: list[str]
    counts: NDArray[np.int64]

    def batches(self) -> Iterator[Batch]:
        """Yield batches as an index build does."""
        for first in range(0, len(self.offsets) - 1, TEXTS_A_BATCH):
            offsets = self.offsets[first : first + TEXTS_A_BATCH + 1]
            yield self.codes[offsets[0] : offsets[-1]], offsets - offsets[0]

    def texts(self) -> Iterator[list[str]]:
        """Yield each text's words, the rare ones as a word that is in no vocabulary."""
        words, codes = [*self.words, RARE], self.codes.tolist()
        for start, end in pairwise(self.offsets.tolist()):
            yield [words[code] for code in codes[start:end]]


def stream_of(log: Path, dialogues: int) -> Stream:
    """Read the turns of the first dialogues of a log."""
    tokenize, ids = get_tokenizer("word").tokenize, dict[str, int]()
    codes, offsets = array.array("i"), array.array("q", [0])
    with gzip.open(log, "rt", encoding="utf-8") as lines:
        for line, _ in zip(lines, range(dialogues), strict=False):
            for turn in json.loads(line)["turns"]:
                codes.extend(ids.setdefault(token, len(ids)) for token in tokenize(turn))
                offsets.append(len(codes))
    met = np.frombuffer(codes, np.int32)
    counts = np.bincount(met, minlength=len(ids))
    order = np.argsort(-counts, kind="stable")
    frequent = int((counts >= FEWEST).sum())
    rank = np.empty(len(ids), np.int32)
    rank[order] = np.arange(len(ids))
    rank[rank >= frequent] = -1
    words = list(ids)
    return Stream(
        codes=rank[met],
        offsets=np.frombuffer(offsets, np.int64),
        words=[words[one] for one in order[:frequent]],
        counts=counts[order[:frequent]],
    )


# ── ours ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def warm_up(scratch: Path) -> None:
    """Compile before the clock starts."""
    codes = np.random.default_rng(1).integers(0, 50, 5_000).astype(np.int32)
    offsets = np.arange(0, 5_001, 10)
    counted = count_cooccurrences([(codes, offsets)], 50, CooccurrenceSettings(), scratch / "warm-up", Silent())
    settings = GloveSettings(dimensions=DIMENSIONS, epochs=1, threads=THREADS)
    train_glove(counted, settings, scratch / "warm-up", Silent())


def time_our_counting(stream: Stream, folder: Path) -> tuple[float, Cooccurrences]:
    """Return the seconds from codes to files on disk, and the counts."""
    began = time.perf_counter()
    counted = count_cooccurrences(
        stream.batches(), len(stream.words), CooccurrenceSettings(window=WINDOW), folder, Silent()
    )
    return time.perf_counter() - began, counted


def time_our_training(counted: Cooccurrences, folder: Path, epochs: int) -> dict[str, Any]:
    """Return the seconds between the ends of epochs, saving the state included; dealing into blocks apart."""
    times, losses = list[float](), list[float]()

    class Clock(Silent):
        def stage(self, *_: object) -> None:
            if len(times) < 2:  # dealing begins, the first epoch begins
                times.append(time.perf_counter())

    def on_epoch(_epoch: int, loss: float) -> None:
        times.append(time.perf_counter())
        losses.append(loss)

    train_glove(
        counted, GloveSettings(dimensions=DIMENSIONS, epochs=epochs, threads=THREADS), folder, Clock(), on_epoch
    )
    seconds = np.diff(times).tolist()
    return {"dealing_s": seconds[0], "epochs_s": seconds[1:], "losses": losses}


# ── the original ──────────────────────────────────────────────────────────────────────────────────────────────────


def write_texts(stream: Stream, scratch: Path) -> None:
    """Write vocabulary and texts as the C program reads them."""
    lines = (f"{word} {count}\n" for word, count in zip(stream.words, stream.counts.tolist(), strict=True))
    (scratch / "vocabulary.txt").write_text("".join(lines))
    with (scratch / "texts.txt").open("w") as file:
        file.writelines(f"{' '.join(text)}\n" for text in stream.texts())


def run_filter(command: list[str], source: Path, target: Path) -> float:
    """Return the seconds of a program from standard input to standard output."""
    began = time.perf_counter()
    with source.open("rb") as stdin, target.open("wb") as stdout:
        subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def time_their_counting(glove: Path, scratch: Path, window: int) -> float:
    """Return the seconds of the C program with its default memory; its files lie in the scratch folder."""
    vocabulary, overflow = str(scratch / "vocabulary.txt"), str(scratch / "overflow")
    command = [str(glove / "cooccur"), "-verbose", "0", "-window-size", str(window), "-vocab-file", vocabulary]
    return run_filter([*command, "-overflow-file", overflow], scratch / "texts.txt", scratch / f"counted-{window}.bin")


def time_their_training(glove: Path, scratch: Path, iterations: int) -> dict[str, Any]:
    """Return the seconds between the lines that the program prints, the first when its parameters are ready."""
    shuffle = [str(glove / "shuffle"), "-verbose", "0", "-temp-file", str(scratch / "shuffled")]
    shuffling = run_filter(shuffle, scratch / f"counted-{WINDOW}.bin", scratch / "shuffled.bin")
    options = {
        "-input-file": scratch / "shuffled.bin",
        "-vocab-file": scratch / "vocabulary.txt",
        "-save-file": scratch / "vectors",
        "-threads": THREADS,
        "-iter": iterations,
        "-vector-size": DIMENSIONS,
        "-binary": 1,
        "-verbose": 1,
        "-seed": 1,
    }
    command = [str(glove / "glove"), *(str(part) for option in options.items() for part in option)]
    times, losses, entries = list[float](), list[float](), 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("Read "):
                entries = int(line.split()[1])
            if "cost:" in line:
                losses.append(float(line.rsplit(" ", 1)[1]))
                print(f"  C program: {line.strip()}", flush=True)
            if "cost:" in line or line.startswith("alpha:"):
                times.append(time.perf_counter())
    return {
        "entries": entries,
        "shuffling_s": shuffling,
        "iterations_s": np.diff(times).tolist(),
        "losses": losses,
    }


# ── a further reference ───────────────────────────────────────────────────────────────────────────────────────────


def word2vec_epoch(stream: Stream) -> float:
    """Return the seconds of one epoch of gensim's skip-gram over the same texts."""
    texts = [[word for word in text if word != RARE] for text in stream.texts()]
    model = Word2Vec(vector_size=DIMENSIONS, window=5, sg=1, workers=THREADS, min_count=FEWEST, seed=1)
    model.build_vocab(texts)
    began = time.perf_counter()
    model.train(texts, total_examples=len(texts), epochs=1)
    return time.perf_counter() - began


def measure(stream: Stream, glove: Path | None, scratch: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure counting in turn, then training, theirs between two runs of ours."""
    warm_up(scratch)
    ours, theirs, reading = list[float](), list[float](), list[float]()
    if glove is not None:
        write_texts(stream, scratch)
    for number in range(arguments.runs):
        seconds, counted = time_our_counting(stream, scratch / f"counted-{number}")
        ours.append(seconds)
        if glove is not None:
            theirs.append(time_their_counting(glove, scratch, WINDOW))
            reading.append(time_their_counting(glove, scratch, 1))
        print(f"counting, run {number + 1}: ours {ours[-1]:.2f} s, C program {theirs[-1:]} s", flush=True)
    training = time_our_training(counted, scratch / "trained", arguments.iterations)
    print(f"training: ours {[round(one, 2) for one in training['epochs_s']]} s an epoch", flush=True)
    figures: dict[str, Any] = {
        "log": f"medium_en, the first {arguments.dialogues:,} dialogues",
        "tokens": len(stream.codes),
        "words": len(stream.words),
        "dimensions": DIMENSIONS,
        "window": WINDOW,
        "training_threads": THREADS,
        "counting_s": [round(one, 3) for one in ours],
        "training": training,
        "word2vec_epoch_s": None if arguments.no_word2vec else word2vec_epoch(stream),
    }
    if glove is None:
        print("the C program was not measured: --glove FOLDER was not given")
        return figures
    original = time_their_training(glove, scratch, arguments.iterations)
    training["epochs_s"] += time_our_training(counted, scratch / "trained-again", arguments.iterations)["epochs_s"]
    epoch, iteration = median(training["epochs_s"]), median(original["iterations_s"])
    return {
        **figures,
        "original": {"counting_s": theirs, "counting_window_1_s": reading, **original},
        "entries_per_s": round(original["entries"] / epoch),
        "counting_ratio": round(median(theirs) / median(ours), 2),
        "counting_ratio_without_their_reading": round((median(theirs) - median(reading)) / median(ours), 2),
        "training_ratio": round(iteration / epoch, 1),
        "loss_over_theirs": [
            round(ours / theirs, 4) for ours, theirs in zip(training["losses"], original["losses"], strict=True)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_option(parser)
    parser.add_argument("--glove", type=Path, help="where the C programs cooccur, shuffle and glove are")
    parser.add_argument("--dialogues", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3, help="of counting")
    parser.add_argument("--iterations", type=int, default=5, help="of training")
    parser.add_argument("--no-word2vec", action="store_true")
    arguments = parser.parse_args()
    log = require_data(parser, arguments.data) / "logs" / "medium_en.jsonl.gz"
    if not log.exists():
        print(f"skipped: {log} is not there; give a folder with logs/medium_en.jsonl.gz as --data")
        return
    if arguments.glove is not None and not (arguments.glove / "glove").exists():
        parser.error(f"{arguments.glove} holds no program `glove`: build it first, outside this repository")
    stream = stream_of(log, arguments.dialogues)
    print(f"{len(stream.codes):,} tokens, {len(stream.words):,} words", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(stream, arguments.glove, Path(scratch), arguments)
    print(write_result("glove", figures, PACKAGES))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
