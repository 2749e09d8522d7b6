"""Measure the calibration of refaug-1 on a log: what its encoder gives to true replies, and to replies that were drawn.

python bench/chitchat_dialogues.py LOG.jsonl
python bench/calibrate_recommended.py LOG.jsonl --home HOME --index NAME --out refaug/metrics/embeddings/refaug_1.json

The index is one of that log with the metric's encoder (refaug index build LOG --encoder NAME). Each pair is a turn
of another dialogue, whose own dialogue is no source of references. Equal files and seeds give equal numbers.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.evaluation.metric_setup.model_registry import ModelRegistry
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.augmentation import augment
from refaug.evaluation.scoring.cases import references_for
from refaug.metrics.base import References
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.recommended import PARTS, MetricCalibration, Recommended

_LEAST_WORDS = 2  # of a reply
_LIKE = 0.9
_CASES = ((True, True), (True, False), (False, True))


def pairs_of(path: Path, log: str, count: int, seed: int) -> Iterator[tuple[Item, str]]:
    """Yield dialogues up to some turn, with the reply that stands there, from so many dialogues in a drawn order."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()
    dialogues = [json.loads(line) for line in lines]
    generator = np.random.default_rng(seed)
    for place in generator.permutation(len(dialogues)).tolist():
        turns = [turn if isinstance(turn, str) else turn["text"] for turn in dialogues[place]["turns"]]
        places = [at for at in range(1, len(turns)) if len(turns[at].split()) >= _LEAST_WORDS]
        if not places:
            continue
        at = places[int(generator.integers(len(places)))]
        name = f"{log}/{dialogues[place]['id']}"
        yield Item(id=name, turns=tuple(turns[:at]), dialogue=name), turns[at]
        count -= 1
        if not count:
            return


def parts_of(metric: Recommended, items: list[Item], replies: list[str]) -> np.ndarray:
    """Return the parts (items, parts) of one reply to each item, NaN where there is none."""
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    usable = [place for place, one in enumerate(chosen) if isinstance(one, References)]
    prepared = metric.prepare([one for one in chosen if isinstance(one, References)])
    places = np.arange(len(usable))
    rows = metric.statistics([replies[place] for place in usable], prepared, places, places)
    parts = np.full((len(items), len(PARTS)), np.nan)
    parts[usable] = rows[:, 2 : 2 + len(PARTS)]
    return parts


def case_of(*, gold: bool, retrieved: bool) -> str:
    return "+".join(name for name, there in (("gold", gold), ("retrieved", retrieved)) if there)


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--encoder", default=None, help="another encoder of the home than that of refaug-1")
    parser.add_argument("--about", default="", help="what the log is, and under which licence")
    parser.add_argument("--pairs", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    models = ModelRegistry(Settings(home=options.home))
    index = models.index(options.index)
    pairs = list(pairs_of(options.log, index.logs[0], options.pairs, options.seed))
    replies = [reply for _, reply in pairs]
    drawn = [replies[place] for place in np.random.default_rng(options.seed).permutation(len(replies))]
    augmented = augment([item for item, _ in pairs], index, None, AugmentSettings(preset="refaug-1"))
    found = [one for one in augmented if isinstance(one, Item)]
    with_golds = [
        replace(item, references=(Reference(text=reply, source=Origin.GOLD), *item.references))
        for item, reply in zip(found, replies, strict=True)
    ]
    encoder = models.encoder(options.encoder or find("refaug-1").parameters[0].default)
    content = encoder.spec.partition("#")[2]
    name = encoder.spec.partition("@")[0].partition("#")[0]
    open_calibration = MetricCalibration(
        encoder=f"{name}#{content}",
        most_like={"turn": 2.0, "turns": 2.0},
        drawn={case_of(gold=gold, retrieved=retrieved): (0.0, 1.0) for gold, retrieved in _CASES},
        link=(0.0, 1.0),
        sha256="",
    )
    metric = Recommended(find("refaug-1"), {"encoder": encoder.spec}, models, open_calibration)
    true, false = parts_of(metric, found, replies), parts_of(metric, with_golds, drawn)
    numbers: dict[str, Any] = {
        "encoder": f"{name}#{content}",
        "most_like": {
            part: round(float(np.nanquantile(true[:, PARTS.index(part)], _LIKE)), 4) for part in ("turn", "turns")
        },
    }
    calibrated = replace(open_calibration, most_like=numbers["most_like"])
    metric = Recommended(find("refaug-1"), {"encoder": encoder.spec}, models, calibrated)
    numbers["drawn"] = {}
    for gold, retrieved in _CASES:
        sums = metric.sums(false, np.full(len(false), gold), np.full(len(false), retrieved))
        numbers["drawn"][case_of(gold=gold, retrieved=retrieved)] = [
            round(float(f(sums)), 4) for f in (np.nanmean, np.nanstd)
        ]
    without, there = np.zeros(len(true), np.bool_), np.ones(len(true), np.bool_)
    mean, deviation = numbers["drawn"]["retrieved"]
    z = [(metric.sums(parts, without, there) - mean) / deviation for parts in (true, false)]
    z = [of[np.isfinite(of)] for of in z]
    values, is_true = np.concatenate(z), np.concatenate([np.ones(len(z[0])), np.zeros(len(z[1]))])
    fitted = minimize(lambda ab: np.logaddexp(0, -(2 * is_true - 1) * (ab[0] + ab[1] * values)).mean(), [0.0, 1.0])
    numbers["link"] = [round(float(number), 4) for number in fitted.x]
    numbers["made_of"] = {
        "log": options.about or options.log.name,
        "sha256": hashlib.sha256(options.log.read_bytes()).hexdigest(),
        "index": index.spec,
        "pairs": len(pairs),
        "seed": options.seed,
        "auc": round(float((z[0][:, None] > z[1][None, :]).mean()), 4),
    }
    options.out.write_text(json.dumps(numbers, indent=2) + "\n", "utf-8")
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
