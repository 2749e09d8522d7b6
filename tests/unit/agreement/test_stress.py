"""Stress rows: the altered replies, and what a metric worked out by eye makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from refaug.agreement.probe import ProbeSettings
from refaug.agreement.stress import StressRow, altered, last_of_speaker, negate, stress
from refaug.core.progress import Silent
from refaug.metrics.base import Floats, Indexes, MeanMetric, Prepared, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.specification import build
from refaug.scoring.items import item_of

ITEMS = [
    item_of({"id": str(number), "turns": ["Hello.", "Good day.", "What now?"], "references": [text]}, fallback_id="")
    for number, text in enumerate(
        ["The red boat is in the harbour.", "We can not sail to the old island.", "My dog sleeps well."]
    )
]


@pytest.fixture(scope="module")
def rows() -> dict[str, StressRow]:
    [of_metric] = stress(ITEMS, [build("bleu")], ProbeSettings(), Silent())
    return {row.name: row for row in of_metric.rows}


def test_texts_are_altered_as_named() -> None:
    changes = altered(1, None)
    text = "The red boat is in the harbour."
    made = {name: change("a", text) for name, change in changes.items() if name != "unknown"}
    assert made == {
        "reversed": "harbour. the in is boat red The",
        "no-stopwords": "red boat harbour.",
        "content-only": "red boat harbour",
        "no-punctuation": "The red boat is in the harbour",
        "negated": "The red boat is not in the harbour.",
    }


def test_unknown_words_keep_lengths_and_function_words() -> None:
    words = altered(1, None)["unknown"]("a", "The red boat is in the harbour.").split()
    assert [len(word) for word in words] == [3, 3, 4, 2, 2, 3, 8]
    assert (words[0], words[3:6]) == ("The", ["is", "in", "the"])
    assert words[1] != "red"


@pytest.mark.parametrize(
    ("text", "negated"),
    [("We can not sail.", "We can sail."), ("I don't know.", "I do know."), ("Fine.", "not Fine."), ("", "")],
)
def test_a_negation_is_taken_out_or_put_in(text: str, negated: str) -> None:
    assert negate(text) == negated


def test_the_last_speaker_said_the_last_turn_but_one() -> None:
    assert last_of_speaker(["a", "b", "c"]) == "b"
    assert last_of_speaker(["a"]) is None


def test_copies_of_the_gold_fall_when_words_are_reversed(rows: dict[str, StressRow]) -> None:
    row = rows["reversed"]
    assert row.change is not None
    assert row.change < 0
    assert row.right == 1
    assert row.replies == 3


def test_without_punctuation_the_score_should_hold(rows: dict[str, StressRow]) -> None:
    assert rows["no-punctuation"].expected == "holds"
    assert rows["reversed"].expected == "falls"


def test_synonyms_are_skipped_clearly_without_wordnet(tmp_path: Path) -> None:
    [of_metric] = stress(ITEMS, [build("bleu")], ProbeSettings(), Silent(), wordnet=tmp_path)
    [row] = [row for row in of_metric.rows if row.name == "synonyms"]
    assert (row.change, row.why) == (None, "WordNet is not installed")


def test_the_seven_groups_are_there_and_the_gold_is_the_best(rows: dict[str, StressRow]) -> None:
    del rows
    [of_metric] = stress(ITEMS, [build("bleu")], ProbeSettings(), Silent())
    means = {group.name: group.mean for group in of_metric.groups if group.mean is not None}
    assert len(of_metric.groups) == 7
    assert means["gold"] == max(means.values())


class WordCount(MeanMetric):
    """The number of words of a reply, and a floor for an empty one."""

    info, settings = METRICS["bleu"], {"n": "2"}

    def __init__(self, floor: float) -> None:
        self.floor = floor

    def prepare(self, references: Sequence[References]) -> Prepared:
        return Prepared(items=len(references))

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        counts = [len(replies[place].split()) for place in reply_places.tolist()]
        return self.rows(np.array([float(count) if count else self.floor for count in counts]))


def test_the_least_of_a_scale_does_not_set_the_unit() -> None:
    near, far = (stress(ITEMS, [WordCount(floor)], ProbeSettings(), Silent())[0] for floor in (-1.0, -1_000.0))
    changes = [{row.name: row.change for row in each.rows if row.change is not None} for each in (near, far)]
    assert changes[1].pop("empty") < changes[0].pop("empty") < 0
    assert changes[0] == changes[1]
    assert changes[0]["no-stopwords"] < -0.5
