"""The ladder of references, the curves over their number, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusing
from scipy import stats

from refaug.core.errors import BadInput
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.tokenizers import get_tokenizer
from refaug.core.vectors.word_vectors import WordVectors
from refaug.extras.reproduction.experiments.multi_reference import (
    CLAIMS,
    PUBLISHED,
    multi_report,
    sets_with_several_references,
)
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import (
    MATCHED,
    ONE,
    RATED,
    SHUFFLED,
    Pool,
    ReplySample,
    scores_of,
)
from refaug.extras.reproduction.material.reference_ladder import (
    HUMAN,
    KINDS,
    SINGLE,
    Ladder,
    RungCorrelations,
    correlate_rungs,
    curve_by_subsets,
    drawn_name,
    rung_name,
    with_drawn_references,
)
from refaug.metrics.base import Floats
from refaug.metrics.specification import build
from refaug.scoring.items import item_of

pytestmark = pytest.mark.slow

WORDS = ["apples", "are", "blue", "boats", "can", "do", "fly", "green", "how", "i", "like", "no", "not", "red", "the"]
CONTEXTS, REFERENCES, SYSTEMS = 32, 3, ("a", "b", "c")


def text_of(random: np.random.Generator, longest: int = 7) -> str:
    return " ".join(random.choice(WORDS, random.integers(2, longest)))


def invented(name: str = "set", references: int | Sequence[int] = REFERENCES, contexts: int = CONTEXTS) -> ProofSet:
    """A set in which item i has so many references; replies share words with them."""
    random = np.random.default_rng(5)
    counts = [references] * contexts if isinstance(references, int) else list(references)
    items = [
        item_of(
            {
                "id": f"c{number}",
                "utterance": text_of(random),
                "references": [f"{text_of(random)} {place}" for place in range(count)],
                "replies": {system: text_of(random) for system in SYSTEMS},
                "ratings": {system: [int(random.integers(1, 6))] for system in SYSTEMS},
            },
            fallback_id="",
        )
        for number, count in enumerate(counts)
    ]
    return ProofSet.of(name, items)


def drawn_texts() -> ReplySample:
    random = np.random.default_rng(9)
    return ReplySample.of([text_of(random, 9) for _ in range(300)])


def pool_of(one: ProofSet, found: int = 15) -> Pool:
    """Retrieved references that were made up, with weights."""
    random = np.random.default_rng(11)
    items = [
        replace(
            item,
            references=tuple(
                Reference(text=f"{text_of(random)} r{place}", source=Origin.RETRIEVED, weight=weight, rating=weight)
                for place, weight in enumerate(random.uniform(-1, 1, found).tolist())
            ),
        )
        for item in one.items
    ]
    return Pool.of(items, drawn_texts())


def ladder_of(one: ProofSet) -> Ladder:
    single = one.with_first_gold()
    return Ladder(rated_set=one, single=single, beside_one=pool_of(single), beside_all=pool_of(one))


@pytest.fixture(scope="module")
def ladder() -> Ladder:
    return ladder_of(invented())


def settings_of(folder: Path, **given: Any) -> ProofSettings:
    return ProofSettings(data=folder, **{"draws": 30, "seeds": 2, **given})


def spearman_of(one: ProofSet, scores: Floats) -> float:
    """Rounded, so that rounding does not break ties."""
    return float(stats.spearmanr(scores[one.fair].round(12), one.ratings[one.fair]).statistic)


# ── the ladder ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_references_by_people_alone_give_plain_and_multi_reference_bleu(ladder: Ladder) -> None:
    metric = build("upsilon-bleu:smooth=floor,bp=none")
    for name, plain in ((SINGLE, "bleu:smooth=floor,bp=none"), (HUMAN, "multi-bleu:smooth=floor,bp=none")):
        assert ladder.scores(name, metric, 2)[0] == pytest.approx(scores_of(ladder.rated_set, build(plain)))


@pytest.mark.parametrize("own", [SINGLE, HUMAN])
def test_retrieved_ones_stand_beside_one_or_all_by_people(ladder: Ladder, own: str) -> None:
    one = ladder.single if own == SINGLE else ladder.rated_set
    pool = ladder.beside_one if own == SINGLE else ladder.beside_all
    items = list[Item]()
    for item, found in zip(one.items, pool.retrieved, strict=True):
        texts = [Reference(text=each.text, source=Origin.GOLD) for each in found]
        items.append(replace(item, references=(*item.references, *texts)))
    by_hand = scores_of(replace(one, items=tuple(items)), build("multi-bleu"))
    assert ladder.scores(rung_name(own, ONE), build("upsilon-bleu"), 2)[0] == pytest.approx(by_hand)


def test_rungs_with_chance_have_a_row_for_every_seed(ladder: Ladder) -> None:
    metric = build("upsilon-bleu")
    assert ladder.rungs() == (
        SINGLE,
        HUMAN,
        *(rung_name(own, kind) for own in (SINGLE, HUMAN) for kind in (MATCHED, ONE, SHUFFLED, RATED)),
    )
    shapes = {name: len(ladder.scores(name, metric, 3)) for name in ladder.rungs()}
    assert shapes == {name: 3 if "drawn" in name or "shuffled" in name else 1 for name in ladder.rungs()}


def test_rungs_are_correlated_on_fair_rows_and_controls_are_seed_means(ladder: Ladder, tmp_path: Path) -> None:
    found = correlate_rungs(ladder, "upsilon-bleu", settings_of(tmp_path)).correlations
    one = ladder.rated_set
    assert found.estimate(HUMAN, "spearman").value == pytest.approx(
        spearman_of(one, scores_of(one, build("multi-bleu")))
    )
    drawn = ladder.scores(rung_name(SINGLE, MATCHED), build("upsilon-bleu"), 2)
    assert found.estimate(rung_name(SINGLE, MATCHED), "spearman").value == pytest.approx(
        np.mean([spearman_of(one, each) for each in drawn])
    )


def test_all_rows_take_in_those_that_rate_a_reference(tmp_path: Path) -> None:
    one = invented()
    replies = (one.items[0].references[1].text, *one.replies[1:])
    with_gold = replace(one, replies=replies, is_gold=np.array([True] + [False] * (len(replies) - 1)))
    ladder = ladder_of(with_gold)
    everything = np.ones(len(replies), dtype=np.bool_)
    fair = correlate_rungs(ladder, "upsilon-bleu", settings_of(tmp_path)).correlations
    whole = correlate_rungs(ladder, "upsilon-bleu", settings_of(tmp_path), rows=everything).correlations
    assert (fair.rows["set"], whole.rows["set"]) == (len(replies) - 1, len(replies))


# ── curves ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_number_of_references_is_the_mean_over_all_subsets(tmp_path: Path) -> None:
    one = invented()
    curve = curve_by_subsets(one, "BLEU", build("multi-bleu"), settings_of(tmp_path), drawn_texts())
    assert curve.numbers == ("1", "2", "3")
    for number in (1, 2, 3):
        values = []
        for places in combinations(range(REFERENCES), number):
            items = tuple(replace(item, references=tuple(item.references[at] for at in places)) for item in one.items)
            values.append(spearman_of(one, scores_of(replace(one, items=items), build("multi-bleu"))))
        assert curve.own(str(number)).value == pytest.approx(np.mean(values))
    assert curve.drawn("1") == curve.own("1")
    assert drawn_name("2") in curve.correlations.names
    assert curve.drawn("3").value != curve.own("3").value


@pytest.mark.parametrize("first", range(REFERENCES))
@pytest.mark.parametrize("count", [1, 2, REFERENCES])
def test_controls_of_a_curve_are_as_many_and_as_long(first: int, count: int) -> None:
    one = invented()
    control = with_drawn_references(one, count, 4, drawn_texts(), first=first)
    lengths_met = 0
    for mine, theirs in zip(one.items, control.items, strict=True):
        texts = [each.text for each in theirs.references]
        own = [each.text for each in mine.references]
        assert len(texts) == count
        assert texts[0] == own[first]
        assert not set(own) & set(texts[1:])
        others = [_length(text) for at, text in enumerate(own) if at != first]
        lengths_met += set(map(_length, texts[1:])) <= set(others)
        if count == REFERENCES:
            assert sorted(map(_length, texts[1:])) == sorted(others)
    assert lengths_met == CONTEXTS


def _length(text: str) -> int:
    return len(get_tokenizer("word").tokenize(text))


# ── which sets ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_set_with_several_references_for_few_items_is_a_named_gap() -> None:
    few = invented("few", [5] * 7 + [1] * 33, 40)
    kept, gaps = sets_with_several_references([few, invented()])
    assert [one.name for one in kept] == ["set"]
    assert gaps == [
        "few: 7 of 40 items have several references, too few to say anything about their number (at least 30)"
    ]


def test_single_reference_items_are_dropped_and_others_cut_to_equal_number() -> None:
    one = invented("mixed", [4, 1, 3] * 15, 45)
    [kept], gaps = sets_with_several_references([one])
    assert gaps == []
    assert [len(item.references) for item in kept.items] == [3] * 30
    assert len(kept.replies) == 30 * len(SYSTEMS)
    for row, reply in enumerate(kept.replies):
        assert reply == kept.items[kept.item[row]].replies[kept.systems[row]]
    assert [item.id for item in kept.items] == [item.id for place, item in enumerate(one.items) if place % 3 != 1]


# ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "glove"
    matrix = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    WordVectors(words=list(WORDS), matrix=matrix, stem="glove").save(folder, {"counts": [1] * len(WORDS)})
    return folder


def test_report_has_the_ladder_the_published_one_bounds_and_curves(vectors: Path, tmp_path: Path) -> None:
    name = "dailydialog_gupta"
    ladder = ladder_of(invented(name, 2))
    report = multi_report([ladder], ["a gap"], vectors, settings_of(tmp_path), Silent())
    found = report.data["ladders"][name]
    assert list(found["at_scarce"]) == ["BLEU-2, epsilon[1e-15]", "BLEU-4, epsilon[1e-15]", "υ-greedy, the best of all"]
    for each in found["at_scarce"].values():
        assert set(each["figures"]) == set(ladder.rungs())
        assert set(each["claims"]) == set(CLAIMS)
    assert found["published"]["both"] == [0.327, 0.357]
    assert set(found["curves"]) == {"BLEU-2", "BLEU-2, no penalty", "greedy"}

    published = next(
        table for section in report.sections for table in section.tables if table.title == "Spearman on all rows"
    )
    assert published.rows[0][:3] == [SINGLE, SINGLE, ".040"]
    assert published.rows[1][:3] == [HUMAN, HUMAN, ".203"]
    assert [row[1] for row in published.rows[2:]] == ["automatic"] * 3 + ["both"] * 3
    assert list(report.notes) == ["a gap"]
    assert all(name in sentence for sentence in report.summary)


def test_figures_of_the_report_are_differences_of_its_own_lines(ladder: Ladder, vectors: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    report = multi_report([ladder], [], vectors, settings, Silent())
    found = correlate_rungs(ladder, "upsilon-bleu:n=2,smooth=epsilon[1e-15]", settings)
    claims = report.data["ladders"]["set"]["at_scarce"]["BLEU-2, epsilon[1e-15]"]["claims"]
    for claim, (above, below) in CLAIMS.items():
        for kind in KINDS:
            assert claims[claim][kind] == found.correlations.difference(above, below, kind).as_json()
    assert report.data["ladders"]["set"]["published"] == {}
    assert not any("published ladder" in section.title and "beside" in section.title for section in report.sections)


def test_with_nothing_to_measure_there_is_an_error_with_the_gaps(vectors: Path, tmp_path: Path) -> None:
    with refusing(BadInput) as raised:
        multi_report([], ["few: too few to say anything"], vectors, settings_of(tmp_path), Silent())
    assert raised.value.remedy == "name a set with several references for each item"


def test_the_published_ladder_is_that_of_the_paper() -> None:
    assert PUBLISHED["dailydialog_gupta"] == {
        SINGLE: (0.040, 0.093),
        HUMAN: (0.203, 0.281),
        "automatic": (0.275, 0.302),
        "both": (0.327, 0.357),
    }


def test_a_climb_names_its_metric(ladder: Ladder, tmp_path: Path) -> None:
    found: RungCorrelations = correlate_rungs(ladder, "upsilon-bleu:n=4", settings_of(tmp_path))
    assert found.metric == "upsilon-bleu:n=4"
