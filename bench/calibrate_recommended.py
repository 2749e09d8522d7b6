"""Measure the calibration of refaug-1 on a log: what its encoder gives to true replies, and to replies that were drawn.

python bench/chitchat_dialogues.py LOG.jsonl
python bench/calibrate_recommended.py LOG.jsonl --home HOME --index NAME --out refaug/metrics/embeddings/refaug_1.json

The index is one of that log, or of a part of it, with the metric's encoder (refaug index build LOG --encoder NAME).
Each pair is a turn of another dialogue of the log, whose own dialogue is no source of references; words are counted in
all of it. Equal files and seeds give equal numbers. Other encoders are calibrated on logs of a home: refaug index
encoder calibrate.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.metrics.catalogue import find
from refaug.scoring.metric_setup.calibration import PAIRS, SEED, measure
from refaug.scoring.metric_setup.model_registry import ModelRegistry

_LEAST_WORDS = 2  # of a reply


def dialogues_of(path: Path) -> dict[str, list[str]]:
    """Return the turns of each dialogue by its id."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    return {
        str(dialogue["id"]): [turn if isinstance(turn, str) else turn["text"] for turn in dialogue["turns"]]
        for dialogue in map(json.loads, lines)
    }


def pairs_of(dialogues: Mapping[str, Sequence[str]], count: int, seed: int) -> Iterator[tuple[Item, str]]:
    """Yield dialogues up to some turn, with the reply that stands there, from so many dialogues in a drawn order."""
    generator, names = np.random.default_rng(seed), list(dialogues)
    for place in generator.permutation(len(names)).tolist():
        name = names[place]
        turns = dialogues[name]
        places = [at for at in range(1, len(turns)) if len(turns[at].split()) >= _LEAST_WORDS]
        if not places:
            continue
        at = places[int(generator.integers(len(places)))]
        yield Item(id=name, turns=tuple(turns[:at]), dialogue=name), turns[at]
        count -= 1
        if not count:
            return


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--about", default="", help="what the log is, and under which licence")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    models = ModelRegistry(Settings(home=options.home))
    index, encoder = models.index(options.index), models.encoder(find("refaug-1").parameters[0].default)
    dialogues = dialogues_of(options.log)
    pairs = list(pairs_of(dialogues, options.pairs, options.seed))
    replies = (turn for turns in dialogues.values() for turn in turns[1:])
    made_of = {
        "log": options.about or options.log.name,
        "sha256": hashlib.sha256(options.log.read_bytes()).hexdigest(),
    }
    content = measure(models, encoder, index, pairs, replies, options.seed, made_of, Silent())
    options.out.write_bytes(content)
    print(content.decode(), end="")


if __name__ == "__main__":
    main()
