"""A small home whose references are found on clusters in tests: an index in shards, a rater, a file of items."""

from __future__ import annotations

from random import Random

import orjson
from cluster_builds import WORDS, small_home
from indexes import build
from raters import tiny_rater

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.indexer.building.plan import Limits
from refaug.logs.store import StoredLog
from refaug.rater.nn.checkpoint import save_rater
from refaug.scoring.augmentation import BLOCK_SIZE

ITEMS = BLOCK_SIZE + 250


def line_of(random, number):
    texts = [" ".join(random.choices(WORDS, k=random.choice((1, 3, 5)))) for _ in range(4)]
    row = {
        "id": f"i{number}",
        "utterance": texts[0],
        "references": [texts[1]],
        "replies": {"a": texts[2], "b": texts[3]},
    }
    if number % 5 == 0:
        row["references"].append({"text": "w1 w2", "weight": -0.25})
    if number % 7 == 0:
        row |= {"turns": [texts[3], texts[0]], "dialogue": "d1", "exclude": ["d2"], "time": "2027-06-01T09:00:00+00:00"}
    row["ratings"] = {"a": [random.choice((1, 2, 4, 5)), None], "b": [random.choice((1, 3)), 2]}
    return orjson.dumps(row)


def home_with_items(folder, items):
    """A home with an index of three shards and a rater; and the items, some of them bad, in a file."""
    places = small_home(folder / "home")
    build(places, shards=3, check_queries=50, limits=Limits(factory="PCAR8,IVF8,PQ4x4fs", recall=0.5))
    home = Settings(home=folder / "home", quiet=True)
    rater = tiny_rater(sorted({pair.utterance for pair in StoredLog.open(home.logs, "chat").pairs()}), folder)
    save_rater(folder / "tiny", rater.model, rater.tokenizer, temperature=2.5, languages=["en"], report={}, details={})
    raters = artefact_stores(home)["rater"]
    raters.publish("tiny", raters.add("tiny", folder / "tiny"))
    lines = [line_of(Random(number), number) for number in range(ITEMS)]
    lines[3], lines[BLOCK_SIZE + 5] = b"{", b'{"id": "i9", "utterance": "w1"}'
    lines[40], lines[41] = b'{"id": "none", "references": ["w1"]}', b'{"references": "w1"}'
    items.parent.mkdir(parents=True, exist_ok=True)
    items.write_bytes(b"\n".join(lines) + b"\n")
    return home
