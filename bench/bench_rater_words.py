"""What it costs that the Bi-GRU of docs/proof.md has its pieces and first embeddings from everyday logs alone.

    refaug train rater EVERYDAY… --name everyday
    refaug train rater EVERYDAY… --name larger --more-texts LARGER
    python bench/bench_rater_words.py --data DATA --home HOME --rater everyday --larger larger

Both learn from the same utterances with several responses; only the words that they know differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import write_result

from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.extras.reproduction.recommended import GROUPS, FairRows, GroupedSets, read_set
from refaug.rater.rating import Rater, RatingRequest
from refaug.scoring.home.networks import open_rater

EVERYDAY, LARGER = "words of everyday logs", "words of the larger log too"


def main() -> None:
    """Rate the replies of the four groups by both raters, and write bench/results/rater_words.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--rater", required=True)
    parser.add_argument("--larger", required=True)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=35)
    options = parser.parse_args()
    home = Settings(home=options.home)
    raters = {EVERYDAY: open_rater(home, options.rater, threads=1), LARGER: open_rater(home, options.larger, threads=1)}
    sets = {name: read_set(options.data, name) for names in GROUPS.values() for name in names}
    agreement = GroupedSets(sets=sets, groups=GROUPS, draws=options.draws, seed=options.seed)
    ratings = {
        (way, turns): {name: ratings_of(rater, rated, turns) for name, rated in sets.items()}
        for way, rater in raters.items()
        for turns in (1, 3)
    }
    figures = {
        f"last turn{'' if turns == 1 else 's'}": {
            way: agreement.of(lambda rated, way=way, turns=turns: ratings[way, turns][rated.name]).as_json()
            for way in raters
        }
        | {
            f"lead of {LARGER}": agreement.lead(
                lambda rated, turns=turns: ratings[LARGER, turns][rated.name],
                lambda rated, turns=turns: ratings[EVERYDAY, turns][rated.name],
            ).as_json()
        }
        for turns in (1, 3)
    }
    document = {"raters": {way: rater.spec for way, rater in raters.items()}, "agreement": figures}
    print(write_result("rater_words", document, ("numpy", "torch")))


def ratings_of(rater: Rater, rated: FairRows, turns: int) -> np.ndarray:
    """Return the rating of each reply beside the golds of its item."""
    requests = [
        RatingRequest(
            utterance=rater.turn_separator.join(rated.items[item].turns[-turns:]),
            golds=tuple(gold.text for gold in rated.items[item].references if gold.source.value == "gold")[:1],
            candidates=(Reference(text=reply),),
        )
        for item, reply in zip(rated.item.tolist(), rated.replies, strict=True)
    ]
    return np.array([[rating for (rating,) in rater.rate(requests)]])


if __name__ == "__main__":
    main()
