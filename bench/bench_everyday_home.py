"""What the home of `refaug start` is worth: refaug-1 over its index, beside that over the logs of docs/proof.md.

refaug start --home STARTED
refaug agreement reproduce recommended --data DATA --home HOME
python bench/bench_everyday_home.py --data DATA --home HOME --started STARTED
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench_larger_encoder import scorer
from common import write_result

from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.recommended import GROUPS, FairRows, GroupedSets, parts_of, read_set
from refaug.scoring.augmentation import augment
from refaug.scoring.home.indexes import open_index
from refaug.scoring.metric_setup.calibration import SEED
from refaug.scoring.settings import AugmentSettings

PROOF, STARTED = "logs of the proof", "home of refaug start"
_INDEX: Final = "everyday-en"


def main() -> None:
    """Score the four groups over both indexes, and write bench/results/everyday_home.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--started", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=1_000)
    options = parser.parse_args()
    chain = Chain(Settings(home=options.home), ProofSettings(data=options.data, seed=SEED), Silent())
    metric, index, settings = chain.recommended_metric(), chain.encoder_index(), AugmentSettings(preset="refaug-1")
    sets = dict[str, FairRows]()
    with open_index(Settings(home=options.started), _INDEX, threads=2) as started:
        for name in (name for names in GROUPS.values() for name in names):
            rated = read_set(options.data, name)
            found = [one for one in augment(rated.items, started, None, settings, Silent()) if isinstance(one, Item)]
            of_proof, numbers = chain.augmented_items(rated, index, None, settings), rated.item.tolist()
            parts = {
                form: parts_of(metric, items, rated.replies, numbers)[None]
                for form, items in ((PROOF, of_proof), (STARTED, found))
            }
            sets[name] = replace(rated, items=tuple(of_proof), parts=parts)
            print(name, flush=True)
        spec = started.spec
    agreement = GroupedSets(sets=sets, groups=GROUPS, draws=options.draws, seed=SEED)
    ways = {
        PROOF: scorer(metric, PROOF),
        STARTED: scorer(metric, STARTED),
        "without an index": scorer(metric, PROOF, retrieved=False),
    }
    document = {
        "indexes": {PROOF: index, STARTED: spec},
        "agreement": {way: agreement.of(of_way).as_json() for way, of_way in ways.items()},
        f"lead of {STARTED}": {
            way: agreement.lead(ways[STARTED], ways[way]).as_json() for way in ways if way != STARTED
        },
    }
    print(write_result("everyday_home", document, ("numpy", "onnxruntime")))


if __name__ == "__main__":
    main()
