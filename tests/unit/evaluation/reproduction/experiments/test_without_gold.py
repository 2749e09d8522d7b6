"""Scores without golds: each figure out of one search, one rating and one score at a time."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pytest
from proofs import TinyChain, tiny_chain, tiny_set
from scipy import stats

from refaug.core.records import Item, Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reproduction.experiments.without_gold import GOLDLESS, K, without_gold
from refaug.evaluation.reproduction.material.rated_sets import ProofSet, read_sets
from refaug.evaluation.reproduction.report.report import Report
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build
from refaug.rater.rating import RatingRequest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    made = tiny_chain(tmp_path_factory.mktemp("without-gold"))
    with_golds = tiny_set("live", 9, items=12)
    folder = made.settings.data / "human"
    folder.mkdir()
    with gzip.open(folder / f"{GOLDLESS[0]}.jsonl.gz", "wb") as file:
        for place, number in enumerate(with_golds.item.tolist()):
            row: Mapping[str, Any] = {
                "context_id": str(number),
                "context": list(with_golds.items[number].turns),
                "references": [],
                "system": with_golds.systems[place],
                "response": with_golds.replies[place],
                "scores": [float(with_golds.ratings[place])],
            }
            file.write(orjson.dumps(row) + b"\n")
    return made


@pytest.fixture(scope="module")
def sets(chain: TinyChain) -> list[ProofSet]:
    return [
        tiny_set("first", 1),
        *read_sets(chain.settings.data, [GOLDLESS[0]], needs_references=False),
    ]


@pytest.fixture(scope="module")
def report(chain: TinyChain, sets: list[ProofSet]) -> Report:
    return without_gold(chain, sets[:1])


def spearman_of(report: Report, section: str, line: str, name: str) -> float:
    return float(report.data[section]["figures"][line]["spearman"][name]["value"])


def test_the_rater_reads_nothing_where_the_gold_would_be(
    chain: TinyChain, sets: list[ProofSet], report: Report
) -> None:
    for rated_set in sets:
        ratings = [
            chain.rater().rate(
                [
                    RatingRequest(
                        utterance=rated_set.items[number].utterance or "",
                        golds=("",),
                        candidates=(Reference(text=reply),),
                    )
                ]
            )[0][0]
            for reply, number in zip(rated_set.replies, rated_set.item.tolist(), strict=True)
        ]
        expected = stats.spearmanr(np.array(ratings)[rated_set.fair], rated_set.ratings[rated_set.fair]).statistic
        assert spearman_of(report, "main", "rater on the reply", rated_set.name) == pytest.approx(expected, abs=1e-4)


def test_references_are_those_of_the_utterance_alone(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    metric, at = build("upsilon-bleu"), np.zeros(1, np.int64)
    with open_index(chain.home, chain.main_index(), threads=1) as index:
        for rated_set in sets:
            scores = list[float]()
            for reply, number in zip(rated_set.replies, rated_set.item.tolist(), strict=True):
                item = rated_set.items[number]
                bare = Item(id=item.id, turns=item.turns, dialogue=item.dialogue)
                found = index.search([bare], SearchSettings(k=K, mode="bm25-utterance"))[0].references
                texts = tuple(reference.text for reference in found if reference.text != reply)
                references = References(texts, (1.0,) * len(texts), -1)
                sums = metric.statistics([reply], metric.prepare([references]), at, at)
                scores.append(float(metric.values(sums, Level.REPLY)[0]))
            fair = rated_set.fair
            expected = stats.spearmanr(np.array(scores).round(12)[fair], rated_set.ratings[fair]).statistic
            figure = spearman_of(report, "main", "υBLEU, words, one", rated_set.name)
            assert figure == pytest.approx(expected, abs=1e-3)


def test_golds_that_a_set_has_are_never_read(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    [rated_set, _] = sets
    assert rated_set.fair.sum() < len(rated_set.replies)  # rows that rate a gold stay out
    assert report.data["main"]["rows"][rated_set.name] == rated_set.fair.sum()
    assert report.data["goldless"] == {GOLDLESS[0]: {"data": sets[1].data, "replies": len(sets[1].replies)}}
    assert list(report.notes) == [
        f"{GOLDLESS[1]} is left out: human/{GOLDLESS[1]}.jsonl.gz is not there",
        f"{GOLDLESS[0]}: one number a reply: no human row, no spread over annotators",
        f"{GOLDLESS[0]}: {len(sets[1].items):,} items have no reference of their own",
    ]
    lines = set(report.data["main"]["figures"])
    assert {"length", "υBLEU, words, matched", "υBLEU, random", "rater on the reply, three turns"} <= lines
    assert all(line.startswith(("Retrieved", "Rated", "The rater")) for line in report.summary)
