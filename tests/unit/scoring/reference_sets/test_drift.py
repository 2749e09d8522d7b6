"""Shadow scoring: its figures are those of one search, one rating and one slow BLEU after the other."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from indexes import add_to_log, build, home_of, pairs_of
from plain_bleu import PlainBleu, PlainReference, add
from plain_search import RawPair
from raters import tiny_rater
from refusals import refusing
from scipy import stats
from unit.conftest import TEXTS, WORDS

from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.progress import Silent
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.index import ReferenceIndex
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.specification import build as metric
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.augmentation import augment
from refaug.scoring.provenance import references_provenance
from refaug.scoring.reference_sets.drift import Drift, MetricDrift, rater_of, settings_of, shadow_score
from refaug.scoring.reference_sets.reference_set import Purpose, ReferenceSet, SetDescription
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.settings import AugmentSettings

K = 3
BLEU = PlainBleu()
FOUND = AugmentSettings(k=K, parrot="rated")


@dataclass
class Night:
    """Two versions of an index, a rater, and a set that was frozen with the old one."""

    old: ReferenceIndex
    new: ReferenceIndex
    rater: Rater
    stored: ReferenceSet


def drawn(rng: random.Random) -> str:
    return rng.choice(TEXTS)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory):
    folder, rng = tmp_path_factory.mktemp("night"), random.Random(5)
    rows = np.random.default_rng(1).standard_normal((len(WORDS), 8)).astype(np.float32)
    vectors = {word: row.tolist() for word, row in zip(WORDS, rows, strict=True)}
    before = pairs_of(*[(drawn(rng), drawn(rng)) for _ in range(200)])
    places = home_of(folder / "home", before, vectors)
    old = build(places)
    add_to_log(places, "chat", [RawPair("chat", f"n{n}", "1", drawn(rng), drawn(rng)) for n in range(40)])
    new = build(places)
    rater = tiny_rater(TEXTS, folder)
    sets = ReferenceSets(folder / "home/reference-sets")
    items = [Item(id=f"i{n}", turns=(drawn(rng),), references=(Reference(text=drawn(rng)),)) for n in range(25)]
    with (
        ReferenceIndex.open(places, f"chat@{old}") as first,
        ReferenceIndex.open(places, f"chat@{new}") as second,
    ):
        frozen = sets.freeze(
            augment(items, first, rater, FOUND),
            SetDescription(
                purpose=Purpose.VALIDATION,
                provenance=references_provenance(first, rater, FOUND).settings,
                details=references_provenance(first, None, FOUND).details,
            ),
        )
        yield Night(old=first, new=second, rater=rater, stored=frozen.set)


def found_anew(night: Night, index: ReferenceIndex, pair: Item) -> tuple[list[PlainReference], set[str]]:
    """The gold, the utterance and what one search finds, each rated by itself."""
    own = replace(pair, references=tuple(one for one in pair.references if one.source is Origin.GOLD))
    gold, utterance = own.references[0].text, own.turns[-1]
    retrieved = index.search([own], SearchSettings(k=K))[0].references
    asked = [Reference(text=utterance)]
    asked += [Reference(text=one.text, utterance=str(one.utterance)) for one in retrieved]
    references = [PlainReference(tokens=gold.lower().split(), is_gold=True)]
    for one in asked:
        rating = night.rater.rate(
            [RatingRequest(utterance=utterance, golds=(gold,), candidates=(one,))], RatingSettings()
        )
        references.append(PlainReference(tokens=one.text.lower().split(), weight=rating[0][0]))
    return references, {one.text for one in retrieved}


def expected(night: Night, replies: dict[str, str] | None) -> dict[str, Any]:
    """All figures in plain Python; without replies the gold is scored against the other references."""
    sums, texts = {}, {}
    for index in (night.old, night.new):
        rows = []
        for item in night.stored.items():
            references, found = found_anew(night, index, item)
            texts.setdefault(item.id, []).append(found)
            reply = next(one for one in references if one.is_gold).tokens if replies is None else None
            if replies is None:
                references = [one for one in references if not one.is_gold]
            elif item.id in replies:
                reply = replies[item.id].lower().split()
            is_scored = reply is not None and BLEU.problem(references) is None
            rows.append(BLEU.sums(reply, references) if is_scored else None)
        sums[index] = rows
    both = [pair for pair in zip(sums[night.old], sums[night.new], strict=True) if None not in pair]
    values = [[BLEU.score(one, "reply") for one in pair] for pair in both]
    moved = [abs(after - before) for before, after in values]
    corpus = [
        BLEU.score(add([one for one in sums[index] if one is not None]), "corpus") for index in (night.old, night.new)
    ]
    return {
        "corpus": corpus,
        "unscored": [sum(one is None for one in sums[index]) for index in (night.old, night.new)],
        "replies": len(both),
        "mean_absolute": sum(moved) / len(moved),
        "largest": max(moved),
        "spearman": stats.spearmanr(*zip(*values, strict=True)).statistic,
        "changed": sum(before != after for before, after in texts.values()),
    }


def require(found: Drift, one: MetricDrift, wanted: dict[str, Any]) -> None:
    close = {"rel": 0, "abs": 1e-5}
    assert [one.corpus_old, one.corpus_new] == pytest.approx(wanted["corpus"], **close)
    assert one.difference == pytest.approx(wanted["corpus"][1] - wanted["corpus"][0], **close)
    assert [one.unscored_old, one.unscored_new] == wanted["unscored"]
    assert one.replies == wanted["replies"]
    assert one.mean_absolute == pytest.approx(wanted["mean_absolute"], **close)
    assert one.largest == pytest.approx(wanted["largest"], **close)
    assert one.spearman == pytest.approx(wanted["spearman"], abs=0.01)
    assert found.items_changed == wanted["changed"]
    assert found.references_changed == wanted["changed"] / 25


def run(night: Night, replies=None, old=None, new=None, metrics=("upsilon-bleu",)) -> Drift:
    return shadow_score(
        night.stored,
        old or night.old,
        new or night.new,
        night.rater,
        [metric(name) for name in metrics],
        replies,
        Silent(),
    )


def test_golds_are_scored_against_the_references_without_golds(night):
    found = run(night)
    (one,) = found.scores
    assert (one.metric, one.system) == ("upsilon-bleu", "gold")
    require(found, one, expected(night, None))
    assert 0 < found.items_changed < 25, "the log has grown, and not everything is another way"
    assert (found.set, found.items, found.rater) == (night.stored.id, 25, night.rater.spec)
    assert (found.old, found.new) == (night.old.spec, night.new.spec)


def test_a_set_without_golds_asks_for_golds_or_replies(night, tmp_path):
    settings = AugmentSettings(k=K, weights="one", parrot="off")
    found = references_provenance(night.old, None, settings)
    items = augment([Item(id="i", turns=(TEXTS[0],))], night.old, None, settings)
    about = SetDescription(purpose=Purpose.TEST, provenance=found.settings, details=found.details)
    frozen = ReferenceSets(tmp_path).freeze(items, about).set
    with pytest.raises(BadInput, match=f"no item of the set {frozen.id} has a gold to score"):
        run(replace(night, stored=frozen))


def test_replies_of_each_system_are_scored_against_golds_separately(night):
    rng = random.Random(9)
    replies = {
        "parrot": {f"i{n}": drawn(rng) for n in range(25)},
        "other": {f"i{n}": drawn(rng) for n in range(0, 25, 2)},
    }
    by_item = {f"i{n}": {name: one[f"i{n}"] for name, one in replies.items() if f"i{n}" in one} for n in range(25)}
    found = run(night, {**by_item, "not in the set": {"parrot": "x"}})
    assert [one.system for one in found.scores] == ["parrot", "other"]
    for one in found.scores:
        require(found, one, expected(night, replies[one.system]))


def test_the_same_version_twice_drifts_by_nothing(night):
    found = run(night, new=night.old, metrics=("upsilon-bleu", "upsilon-rouge-l:b=0"))
    assert found.items_changed == 0
    assert [(one.difference, one.mean_absolute, one.largest) for one in found.scores] == [(0.0, 0.0, 0.0)] * 2
    assert found.worst() == {
        "corpus_difference": 0.0,
        "mean_absolute": 0.0,
        "references_changed": 0.0,
        "spearman": pytest.approx(1.0),
    }


def test_the_other_way_round_the_difference_has_the_other_sign(night):
    (there,), (back,) = run(night).scores, run(night, old=night.new, new=night.old).scores
    assert there.difference == -(back.difference or 0)
    assert there.difference != 0
    assert there.mean_absolute == back.mean_absolute


def drift_of(**figures: Any) -> MetricDrift:
    given = {"corpus_old": 0.5, "corpus_new": 0.4, "difference": -0.1, "mean_absolute": 0.2, "largest": 0.3}
    known = {"metric": "m", "system": "s", "replies": 3, "unscored_old": 0, "unscored_new": 0, "spearman": 0.8}
    return MetricDrift(**{**known, **given, **figures})


def test_the_worst_of_each_figure_is_what_a_limit_is_held_to():
    def worst(*scores: MetricDrift) -> dict[str, float | None]:
        return Drift(set="s", old="o", new="n", rater=None, items=8, items_changed=2, scores=scores).worst()

    better = drift_of(difference=0.05, mean_absolute=0.1, spearman=0.95)
    assert worst(drift_of(), better) == {
        "corpus_difference": 0.1,
        "mean_absolute": 0.2,
        "references_changed": 0.25,
        "spearman": 0.8,
    }
    unknown = worst(better, drift_of(corpus_new=None, difference=None, spearman=None))
    assert (unknown["corpus_difference"], unknown["spearman"]) == (None, None), "what is not known speaks against it"
    assert worst(better, drift_of(spearman=None, largest=0.0))["spearman"] == 0.95, "nothing moved"


def test_replies_to_other_items_are_refused(night):
    with refusing(BadInput, night.stored.id):
        run(night, {"elsewhere": {"a": "b"}})


# ── what a set says of itself ─────────────────────────────────────────────────────────────────────────────────────

SETTINGS = [
    FOUND,
    AugmentSettings(),
    AugmentSettings(
        k=7,
        mode="embedding-dialog",
        alpha=0.25,
        epsilon=0.3,
        depth=50,
        near=0.5,
        near_tokens=3,
        combine="max",
        calibrated=True,
        gold="rated",
        parrot=-0.125,
    ),
    AugmentSettings(mode="bm25-utterance", parrot="off", weights="one"),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_manifest_gives_back_the_settings_that_made_it(night, settings):
    manifest = replace(
        night.stored.manifest,
        provenance=references_provenance(night.old, night.rater, settings).settings,
        details=references_provenance(night.old, None, settings).details,
    )
    assert settings_of(manifest) == settings
    assert rater_of(manifest) == ("tiny@1" if settings.needs_rater else None)


def test_times_and_logs_that_were_left_out_come_back(night):
    settings = AugmentSettings(
        after=datetime(2026, 1, 2, tzinfo=UTC),
        before=datetime(2026, 3, 4, 5, tzinfo=UTC),
        exclude_logs=("chat", "forum"),
    )
    manifest = replace(night.stored.manifest, details=references_provenance(night.old, None, settings).details)
    found = settings_of(manifest)
    assert (found.after, found.before, found.exclude_logs) == (settings.after, settings.before, settings.exclude_logs)
    assert found.k == K


def test_a_set_that_says_nothing_of_retrieval_cannot_be_compared(night):
    with refusing(Usage) as caught:
        settings_of(replace(night.stored.manifest, provenance={}, details={}))
    assert caught.value.remedy == "name a set that was frozen with an index"
    with refusing(Corrupt):
        settings_of(replace(night.stored.manifest, provenance={"k": "many", "mode": "bm25-utterance"}))
