"""What a larger encoder is worth in refaug-1: the same references, which the small encoder found, compared by it.

    refaug agreement reproduce recommended --data DATA    # logs, index and references of the home
    refaug index encoder import NAME FOLDER
    python bench/bench_larger_encoder.py --data DATA --home HOME --encoder NAME --log fifth.jsonl --index chit5

Its calibration is measured like that of refaug-1, on fewer pairs of --log, whose index --index the small encoder has
made. An index by the larger encoder takes it hours on two cores; what it would find is not shown here. What it has
encoded is kept in the home.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from calibrate_recommended import dialogues_of, pairs_of
from common import write_result

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.recommended import (
    GROUPS,
    FairRows,
    GroupedSets,
    Scorer,
    other_contexts,
    parts_of,
    read_set,
)
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.recommended import PARTS, MetricCalibration, Recommended
from refaug.scoring.metric_setup.calibration import SEED, measure
from refaug.scoring.settings import AugmentSettings

SMALL, LARGE, OTHER = "small", "large", "large, of another context"
_PAIRS: Final = 300


def main() -> None:
    """Score the four groups by both encoders, and write bench/results/larger_encoder.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--index", required=True)
    parser.add_argument("--draws", type=int, default=1_000)
    options = parser.parse_args()
    chain = Chain(Settings(home=options.home), ProofSettings(data=options.data, threads=2, seed=SEED), Silent())
    small = chain.recommended_metric()
    larger = chain.models.encoder(options.encoder)
    dialogues = dialogues_of(options.log)
    content = measure(
        chain.models,
        larger,
        chain.models.index(options.index),
        list(pairs_of(dialogues, _PAIRS, SEED)),
        [turn for turns in dialogues.values() for turn in turns[1:]],
        SEED,
        {"log": options.log.name},
        Silent(),
    )
    print("calibrated", flush=True)
    large = Recommended(find("refaug-1"), {"encoder": larger.spec}, chain.models, MetricCalibration.read(content))
    index, sets = chain.encoder_index(), dict[str, FairRows]()
    for name in (name for names in GROUPS.values() for name in names):
        rated = read_set(options.data, name)
        items = chain.augmented_items(rated, index, None, AugmentSettings(preset="refaug-1"))
        others = other_contexts(items, np.random.default_rng(SEED))
        numbers = rated.item.tolist()
        parts = {
            SMALL: parts_of(small, items, rated.replies, numbers)[None],
            LARGE: parts_of(large, items, rated.replies, numbers)[None],
            OTHER: parts_of(large, others, rated.replies, numbers)[None],
        }
        sets[name] = replace(rated, items=tuple(items), parts=parts)
        print(name, flush=True)
    agreement = GroupedSets(sets=sets, groups=GROUPS, draws=options.draws, seed=SEED)
    ways = {
        "small": scorer(small, SMALL),
        "encoder and gold": lambda rated: rated.parts[LARGE][:, :, PARTS.index("gold")],
        "without an index": scorer(large, LARGE, retrieved=False),
        "large": scorer(large, LARGE),
        "large, retrieved of another context": scorer(large, OTHER),
    }
    leads = {way: agreement.lead(ways["large"], ways[way]).as_json() for way in ways if way != "large"}
    document = {
        "encoder": larger.spec,
        "index": index,
        "pairs": _PAIRS,
        "agreement": {way: agreement.of(of_way).as_json() for way, of_way in ways.items()},
        "lead of large": leads,
    }
    print(write_result("larger_encoder", document, ("numpy", "onnxruntime")))


def scorer(metric: Recommended, form: str, *, retrieved: bool = True) -> Scorer:
    """Return the way to score rows by the metric, with what stands in the parts under a name."""
    return lambda rated: np.stack(
        [
            metric.log_odds(parts, np.ones(len(parts), np.bool_), np.full(len(parts), retrieved))
            for parts in rated.parts[form]
        ]
    )


if __name__ == "__main__":
    main()
