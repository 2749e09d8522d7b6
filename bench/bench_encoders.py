"""Encoders beside plain ONNX Runtime, static vectors beside an encoder, and refaug-1 beside υBLEU with rating.

python bench/bench_encoders.py LOG.jsonl --home HOME --encoder all-minilm-l6-v2 --static wordllama
    --items ITEMS.jsonl --index BY_ENCODER --words BY_WORDS --rater NAME

Plain is what a short script does: texts sorted by length, batches of 64, ONNX Runtime with as many threads, the mean
over the mask, unit length. Ways take turns, each in the rounds' order; a figure is the median of its rounds, and a bar
is a ratio of two figures. The items' scores are made by two commands, once to keep the encodings and then to measure.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import orjson
import tokenizers
from common import median, run_and_watch, write_result

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.vectors.encoder_files import EncoderFiles
from refaug.core.vectors.encoders import EncoderConfig, open_encoder

BATCH = 64
BARS = {"encoding_over_plain": 1.0, "static_over_encoder": 20.0, "refaug_1_over_upsilon_bleu": 1.5}


def texts_of(path: Path, count: int) -> list[str]:
    """Return the first different turns of a log of dialogues."""
    found = dict[str, None]()
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            found |= dict.fromkeys(
                turn if isinstance(turn, str) else turn["text"] for turn in orjson.loads(line)["turns"]
            )
            if len(found) >= count:
                break
    return list(found)[:count]


class PlainEncoder:
    """What a short script does with the same files."""

    def __init__(self, folder: Path, threads: int) -> None:
        files, options = EncoderFiles.find(folder), onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
        self.inputs = {node.name for node in self.session.get_inputs()}
        self.tokenizer = tokenizers.Tokenizer.from_file(str(files.tokenizer))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(256)

    def sentence_vectors(self, texts: list[str]) -> np.ndarray:
        """Return a vector of unit length for each text."""
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        vectors: np.ndarray | None = None
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            encoded = self.tokenizer.encode_batch([texts[place] for place in places])
            mask = np.array([one.attention_mask for one in encoded], np.int64)
            fed = {
                "input_ids": np.array([one.ids for one in encoded], np.int64),
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(mask),
            }
            hidden = self.session.run(None, {name: fed[name] for name in self.inputs})[0]
            sums = (hidden * mask[:, :, None]).sum(axis=1)
            if vectors is None:
                vectors = np.empty((len(texts), sums.shape[1]), np.float32)
            vectors[places] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        assert vectors is not None
        return vectors


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_of_turns(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each way; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            taken[name].append(seconds_of(work))
            print(name, round(taken[name][-1], 3), "s", flush=True)
    return {name: median(seconds) for name, seconds in taken.items()}


def score(options: argparse.Namespace, *arguments: str) -> None:
    command = [sys.executable, "-m", "refaug", "--home", str(options.home), "--quiet", "score", str(options.items)]
    run_and_watch([*command, "--draws", "0", "--threads", str(options.threads), "--json", *arguments])


def main() -> int:
    """Measure, and write the figures beside their bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--encoder", default="all-minilm-l6-v2")
    parser.add_argument("--static", default="wordllama")
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--index", required=True, help="built with the encoder")
    parser.add_argument("--words", required=True, help="an index of the same log, built with word vectors")
    parser.add_argument("--rater", required=True)
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    encoders, texts = artefact_stores(Settings(home=options.home))["encoder"], texts_of(options.log, options.texts)
    folders = {name: encoders.folder(*encoders.resolve(name)) for name in (options.encoder, options.static)}
    config = EncoderConfig(threads=options.threads, cache_bytes=0)
    own, static = (open_encoder(folder, config) for folder in folders.values())
    plain = PlainEncoder(folders[options.encoder], options.threads)
    cosines = (own.sentence_vectors(texts[:100]) * plain.sentence_vectors(texts[:100])).sum(axis=1)
    many = texts_of(options.log, 10 * options.texts)
    encoding = median_of_turns(
        {
            "plain": lambda: plain.sentence_vectors(texts),
            "own": lambda: own.sentence_vectors(texts),
            "static": lambda: static.sentence_vectors(many),
        },
        options.rounds,
    )
    upsilon = ("-m", "upsilon-bleu", "--index", options.words, "--rater", options.rater, "-k", "50")
    ways = {
        "refaug-1": lambda: score(options, "-m", "refaug-1", "--index", options.index),
        "upsilon-bleu": lambda: score(options, *upsilon),
    }
    for work in ways.values():
        work()  # encodings are kept, loops are compiled
    scoring = median_of_turns(ways, options.rounds)
    ratios = {
        "encoding_over_plain": encoding["plain"] / encoding["own"],
        "static_over_encoder": (len(many) / encoding["static"]) / (len(texts) / encoding["own"]),
        "refaug_1_over_upsilon_bleu": scoring["refaug-1"] / scoring["upsilon-bleu"],
    }
    figures = {
        "texts": len(texts),
        "static_texts": len(many),
        "threads": options.threads,
        "rounds": options.rounds,
        "least_cosine_of_own_and_plain": round(float(cosines.min()), 5),
        "encoding_s": {name: round(seconds, 3) for name, seconds in encoding.items()},
        "items": sum(1 for _ in options.items.open()),
        "scoring_s": {name: round(seconds, 3) for name, seconds in scoring.items()},
        "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "bars": BARS,
    }
    print(orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode())
    print(write_result("encoders", figures, ["refaug", "onnxruntime", "tokenizers"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
