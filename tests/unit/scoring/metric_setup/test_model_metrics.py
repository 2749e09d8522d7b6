"""The metric `ruber` with real models: its ranges, once more in plain Python, kept beside the index, on every path."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson
import pytest
from indexes import build as build_index
from indexes import home_of
from refusals import refusing
from ruber_homes import ROWS, TEXTS, VECTORS, WORDS, a_log, home_with_models
from told import Told

from refaug.agreement.meta import agreement
from refaug.agreement.probe import probe
from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.core.errors import BadInput, NotFound, Usage
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import normalise
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.search_settings import SearchSettings
from refaug.metrics.base import Metric, References
from refaug.metrics.models.model_scores import RatedReplies
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.ruber.network import Relevance
from refaug.scoring.augmentation import augment
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.indexes import open_index, places_of
from refaug.scoring.home.networks import open_rater
from refaug.scoring.home.torch_networks import open_ruber
from refaug.scoring.metric_setup.log_sample import live_segments, sample_items
from refaug.scoring.metric_setup.model_metrics import LEAST, PAIRS, SEED, ReplyRelevance, with_parts
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.settings import AugmentSettings, MetaSettings, ScoreSettings

QUICK = ScoreSettings(draws=0)
FEW = AugmentSettings(k=4)
CLOSE = 1e-5


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with_models(tmp_path_factory.mktemp("made"))


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Settings:
    shutil.copytree(made, tmp_path / "home")
    return Settings(home=tmp_path / "home")


def pooled(home: Settings, more: str = "") -> str:
    return f"ruber:vectors={home.home / 'words.txt'}{more}"


def models_of(home: Settings, *, rater: str | None = "some", sample: str | None = "chat") -> ModelRegistry:
    return ModelRegistry(home, 1, default_rater=rater, sample=sample)


def bound(
    home: Settings,
    specification: str,
    augmenting: AugmentSettings = FEW,
    *,
    rater: str | None = "some",
    sample: str | None = "chat",
) -> Ruber:
    """Bind the metric `ruber`, which asks the ruber `some` unless it asks a rater."""
    model = "" if "unreferenced=rater" in specification else ",model=some"
    models = models_of(home, rater=rater, sample=sample)
    (metric,) = with_parts([build(f"{specification}{model}")], models, augmenting)
    assert isinstance(metric, Ruber)
    return metric


def kept(home: Settings) -> list[Path]:
    return sorted((home.home / "indexes" / "chat" / "ranges").glob("[!.]*"))


def drawn(home: Settings, items: int = 2_500) -> list[Item]:
    with places_of(home).indexes.open("chat") as held:
        return sample_items(live_segments(held, IndexManifest.read(held.folder)), items, 1)


def pooled_plainly(reply: str, reference: str) -> float:
    pools = []
    for text in (reply, reference):
        rows = ROWS[[WORDS.index(word) for word in text.split()]].astype(float)
        pools.append(np.concatenate([rows.max(axis=0), rows.min(axis=0)]))
    return float(pools[0] @ pools[1] / np.linalg.norm(pools[0]) / np.linalg.norm(pools[1]))


def ends(values: Sequence[float]) -> list[float]:
    """What counts as 0 and as 1."""
    return np.quantile(values, [0.01, 0.99]).tolist()


def range_of(metric: Ruber, key: str) -> list[float]:
    return [float(one) for one in metric.settings[key].split("..")]


def rated_plainly(rater: Rater, utterance: str, golds: Sequence[str], text: str, own: str | None = None) -> float:
    candidates = (Reference(text=text, utterance=own),)
    return rater.rate([RatingRequest(utterance=utterance, golds=tuple(golds), candidates=candidates)])[0][0]


# ── ranges ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ranges_are_two_percentiles_of_what_both_parts_give_to_the_sample(home: Settings) -> None:
    items = drawn(home)
    assert len(items) > 300
    pairs = [(item, reply) for item in items for reply in item.replies.values()]
    ruber, rater = open_ruber(home, "some", threads=1), open_rater(home, "some", threads=1)
    metric = bound(home, pooled(home))
    cosines = [pooled_plainly(reply, item.references[0].text) for item, reply in pairs]
    assert range_of(metric, "range-ref") == pytest.approx(ends(cosines), abs=1e-6)
    said = [float(ruber.score([(item.utterance or "", reply)])[0]) for item, reply in pairs]
    assert range_of(metric, "range-unref") == pytest.approx(ends(said), abs=CLOSE)
    rated = bound(home, pooled(home, ",unreferenced=rater"))
    ratings = [rated_plainly(rater, item.utterance or "", [item.references[0].text], reply) for item, reply in pairs]
    assert range_of(rated, "range-unref") == pytest.approx(ends(ratings), abs=CLOSE)
    assert rated.settings["range-ref"] == metric.settings["range-ref"]
    assert len(kept(home)) == 3  # the referenced part is shared
    said_of_it = {key: value for key, value in metric.versions().items() if key.startswith("sample-")}
    with open_index(home, "chat", threads=1) as index:
        content = index.manifest.id[:12]
    assert said_of_it == {"sample-index": content, "sample-pairs": str(len(pairs)), "sample-seed": "1"}
    assert metric.settings["model"] == ruber.spec
    assert f"rater;model={rater.spec};" in rated.settings["unreferenced"]


@pytest.mark.slow
def test_weighted_part_gets_references_without_the_reply_itself(home: Settings) -> None:
    items = drawn(home)
    with open_index(home, "chat", threads=1) as index:
        found = [
            one for one in augment(items, index, open_rater(home, "some", threads=1), FEW) if isinstance(one, Item)
        ]
    alone = build("upsilon-rouge-1:keep-gold=yes,b=0.1")
    values, without_replies = list[float](), 0
    for item in found:
        assert {one.more["dialogue"] for one in item.references if one.source is Origin.RETRIEVED}.isdisjoint(
            (item.dialogue, *item.exclude)
        )
        for reply in item.replies.values():
            left = [
                one for one in item.references if one.source is Origin.GOLD or normalise(one.text) != normalise(reply)
            ]
            without_replies += len(left) < len(item.references)
            weights = [1.0 if one.weight is None else one.weight for one in left]
            prepared = alone.prepare([References(tuple(one.text for one in left), tuple(weights), 0)])
            values.append(float(alone.statistics([reply], prepared, np.array([0]), np.array([0]))[0, 0]))
    assert without_replies > 0
    metric = bound(home, "ruber:referenced=upsilon-rouge-1;keep-gold=yes;b=0.1")
    low, high = ends(values)
    assert range_of(metric, "range-ref") == pytest.approx([low, high], abs=1e-4)
    details = metric.versions()
    assert (details["sample-k"], details["sample-mode"]) == ("4", "embedding-utterance")
    assert details["sample-rater"] == open_rater(home, "some", threads=1).spec
    before = len(kept(home))
    bound(home, "ruber:referenced=upsilon-rouge-1;keep-gold=yes;b=0.1", augmenting=replace(FEW, parrot="rated"))
    assert len(kept(home)) == before + 1  # found in another way, it is another question


def test_without_b_a_weighted_part_has_that_of_the_index(home: Settings) -> None:
    unweighted = AugmentSettings(k=4, weights="one", parrot="off")
    metric = bound(home, "ruber:referenced=upsilon-rouge-1", unweighted, rater=None)
    assert float(metric.referenced.settings["b"]) > 0
    assert "b-index" not in metric.versions()  # the number says all
    assert "sample-rater" not in metric.versions()
    assert bound(home, "ruber:referenced=upsilon-rouge-1;b=0,norm=none").referenced.settings["b"] == "0"


@pytest.mark.slow
def test_ranges_are_measured_once_then_read_and_repaired_if_damaged(home: Settings) -> None:
    wanted = bound(home, pooled(home)).settings
    files = {path: path.read_bytes() for path in kept(home)}
    assert len(files) == 2
    for path, before in files.items():
        for damage in (
            b"",
            b"{",
            b"[]",
            {"low": None},
            {"low": 9.0},
            {"drawn": 7},
            {"scored": 1.5},
            {"high": "1"},
            {"seed": 2},
            {"kind": "x"},
            {"more": 1},
        ):
            path.write_bytes(damage if isinstance(damage, bytes) else orjson.dumps(orjson.loads(before) | damage))
            assert bound(home, pooled(home)).settings == wanted
            assert path.read_bytes() == before
    path = kept(home)[0]
    older = {key: part for key, part in orjson.loads(files[path]).items() if key != "checksum"}
    path.write_bytes(orjson.dumps(older | {"low": -0.5, "high": 0.5}))
    found = bound(home, pooled(home)).settings
    assert "-0.5..0.5" in (found["range-ref"], found["range-unref"])


@pytest.mark.parametrize(
    "left_out", [SearchSettings(exclude_logs=("test",)), SearchSettings(before=datetime(2026, 1, 2, tzinfo=UTC))]
)
def test_nothing_is_drawn_from_what_references_are_not_taken_from(
    tmp_path: Path, made: Path, left_out: SearchSettings
) -> None:
    home = Settings(home=tmp_path / "home")
    some = [replace(one, time=datetime(2026, 1, 1, tzinfo=UTC)) for one in a_log()]
    later = datetime(2026, 1, 3, tzinfo=UTC)
    held_out = [replace(one, log="test", dialogue=f"t{one.dialogue}", time=later) for one in a_log(seed=2)]
    build_index(home_of(home.home, [*some, *held_out], VECTORS))
    for kind in ("raters", "rubers"):
        shutil.copytree(made / kind, home.home / kind)
    shutil.copy(made / "words.txt", home.home / "words.txt")
    with places_of(home).indexes.open("chat") as held:
        manifest = IndexManifest.read(held.folder)
        items = sample_items(live_segments(held, manifest, left_out), 2_500, 1)
    assert len(items) > 300
    assert not [item for item in items if (item.dialogue or "").startswith("t")]
    assert not [item for item in items if any(one.startswith("t") for one in item.exclude)]
    metric = bound(
        home, pooled(home), augmenting=AugmentSettings(exclude_logs=left_out.exclude_logs, before=left_out.before)
    )
    pairs = [(item, reply) for item in items for reply in item.replies.values()]
    cosines = [pooled_plainly(reply, item.references[0].text) for item, reply in pairs]
    assert range_of(metric, "range-ref") == pytest.approx(ends(cosines), abs=1e-6)
    told = {key: value for key, value in metric.versions().items() if key.startswith("sample-")}
    assert told.get("sample-exclude-logs", told.get("sample-before")) in ("test", "2026-01-02T00:00:00+00:00")
    assert bound(home, pooled(home)).versions().keys() < metric.versions().keys()
    assert len(kept(home)) == 4


def test_where_nothing_can_be_written_they_are_measured_each_time_and_said(home: Settings) -> None:
    wanted = bound(home, pooled(home)).settings
    folder = home.home / "indexes" / "chat" / "ranges"
    shutil.rmtree(folder)
    folder.write_text("in the way")
    told = Told()
    (metric,) = with_parts([build(pooled(home, ",model=some"))], models_of(home), FEW, told)
    assert metric.settings == wanted
    assert sum(one.startswith("the range of a part of ruber could not be kept") for one in told.warnings) == 2


def test_fewer_pairs_than_wanted_are_said_and_too_few_are_an_error(tmp_path: Path, made: Path) -> None:
    home = Settings(home=tmp_path / "home")
    places = home_of(home.home, a_log(pairs=200), VECTORS)
    build_index(places)
    for kind in ("raters", "rubers"):
        shutil.copytree(made / kind, home.home / kind)
    told = Told()
    metrics = [build(f"ruber:referenced=rouge-1,{part}") for part in ("model=some", "unreferenced=rater")]
    found = with_parts(metrics, models_of(home), FEW, told)
    pairs = found[0].versions()["sample-pairs"]
    assert 200 < int(pairs) < 5_000
    assert told.warnings == [
        f"what counts as 0 and 1 of the parts of ruber is measured on {int(pairs):,} pairs, not 5,000: index "
        f"chat@{places.indexes.versions('chat')[0]} has no more utterances with responses of several dialogues"
    ]
    few = Settings(home=tmp_path / "few")
    build_index(home_of(few.home, a_log(pairs=60), VECTORS))
    shutil.copytree(made / "rubers", few.home / "rubers")
    with refusing(BadInput, "200") as refused:
        bound(few, "ruber:referenced=rouge-1")
    assert "norm=none" in refused.value.remedy
    assert kept(few) == []


def test_a_part_that_hardly_any_pair_has_a_score_by_is_refused(home: Settings, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("切符 1 0\nください 0 1\n", "utf-8")
    with refusing(BadInput):
        bound(home, f"ruber:vectors={tmp_path / 'other.txt'}")


def test_a_part_by_which_all_are_alike_is_refused(home: Settings, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("".join(f"{word} 1 0\n" for word in WORDS), "utf-8")
    with refusing(BadInput):
        bound(home, f"ruber:vectors={tmp_path / 'one.txt'}")


def test_the_sample_is_of_as_many_pairs_as_said() -> None:
    assert (PAIRS, LEAST, SEED) == (5_000, 200, 1)


# ── binding ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_what_asks_somebody_is_bound_and_to_whom_it_asks(home: Settings) -> None:
    metrics = [build("bleu"), build("rater"), build("ruber:model=some,referenced=chrf,norm=none")]
    bleu, rater, ruber = with_parts(metrics, models_of(home, sample=None))
    assert bleu is metrics[0]
    assert isinstance(rater, RatedReplies)
    assert rater.settings["model"] == open_rater(home, "some", threads=1).spec
    assert ruber.settings["model"] == open_ruber(home, "some", threads=1).spec
    assert kept(home) == []


def test_ranges_that_are_given_need_no_index_and_are_taken(home: Settings) -> None:
    asked = "ruber:referenced=chrf,range-ref=0.25..0.75,range-unref=0..1"
    for sample in (None, "chat"):
        metric = bound(home, asked, sample=sample)
        assert (metric.settings["range-ref"], metric.settings["range-unref"]) == ("0.25..0.75", "0..1")
        assert not any(key.startswith("sample-") for key in metric.versions())
    assert kept(home) == []


def test_whoever_is_not_named_or_not_there_is_told_of(home: Settings) -> None:
    with refusing(Usage, "ruber"):
        with_parts([build("ruber:referenced=chrf")], models_of(home))
    with refusing(Usage):
        bound(home, "ruber:referenced=upsilon-chrf;b=0", rater=None)
    with refusing(NotFound, "nobody"):
        with_parts([build("ruber:referenced=chrf,model=nobody")], models_of(home))
    with refusing(NotFound, "nothing"):
        bound(home, "ruber:referenced=chrf,sample=nothing")
    unsampled = bound(home, "ruber:referenced=chrf", sample=None)
    with refusing(Usage, "ruber"):
        unsampled.prepare([])


def test_each_metric_asks_the_rater_that_it_names(home: Settings) -> None:
    shutil.copytree(home.home / "raters" / "some", home.home / "raters" / "other")
    metrics = [
        build("rater"),
        build("rater:model=other"),
        build("ruber:referenced=chrf,norm=none,unreferenced=rater;model=other"),
    ]
    by_default, other, blend = with_parts(metrics, models_of(home, sample=None))
    version = by_default.settings["model"].partition("@")[2]
    assert (by_default.settings["model"], other.settings["model"]) == (f"some@{version}", f"other@{version}")
    assert f"model=other@{version}" in blend.settings["unreferenced"]


class Trembling(Relevance):
    """Says a trifle more every time it is asked, as other batches make other last digits."""

    times = 0

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        self.times += 1
        return super().score(pairs) + 1e-7 * self.times


def test_what_was_said_once_is_said_again_to_the_last_bit(home: Settings) -> None:
    opened = open_ruber(home, "some", threads=1)
    judge = ReplyRelevance(Trembling(opened.model, opened.tokenizer))
    pairs = [(TEXTS[number % 5], TEXTS[number % 7]) for number in range(50)]
    first = judge.relevance(pairs)
    again = judge.relevance([*reversed(pairs), (TEXTS[9], TEXTS[9])])
    assert again[:-1].tolist() == first[::-1].tolist()
    assert first == pytest.approx(opened.score(pairs), abs=CLOSE)
    assert judge.remarks() == ()
    judge.relevance([("切符はどこで買えますか。", "駅の窓口でお買い求めください。" * number) for number in (1, 2, 3)])
    (told,) = judge.remarks()
    assert "does not know" in told


# ── on every path ─────────────────────────────────────────────────────────────────────────────────────────────────


def item(number: int) -> Item:
    rng = random.Random(number)
    references = (Reference(text=rng.choice(TEXTS)), Reference(text="a bad one", source=Origin.SUPPLIED, weight=-1.0))
    replies = {"a": rng.choice(TEXTS), "b": f"{rng.choice(TEXTS)} indeed"}
    return Item(
        id=f"i{number}",
        turns=(rng.choice(TEXTS),),
        references=references,
        replies=replies,
        ratings={name: (float(rng.randint(1, 5)), float(rng.randint(1, 5))) for name in replies},
    )


ITEMS = [item(number) for number in range(20)]


def expected(home: Settings, one: Item, reply: str, metric: Metric) -> float:
    """Gold alone, with the ranges that the metric says."""
    assert isinstance(metric, Ruber)
    rouge = build("rouge-1")
    prepared = rouge.prepare([References((one.references[0].text,), (1.0,))])
    a = float(rouge.statistics([reply], prepared, np.array([0]), np.array([0]))[0, 0])
    b = float(open_ruber(home, "some", threads=1).score([(one.utterance or "", reply)])[0])
    parts = [
        min(1.0, max(0.0, (x - low) / (high - low)))
        for x, (low, high) in ((a, range_of(metric, "range-ref")), (b, range_of(metric, "range-unref")))
    ]
    return sum(parts) / 2


ROUGE = "ruber:referenced=rouge-1;refs=gold"


def test_scores_and_their_parts_are_those_of_the_replies_alone(home: Settings) -> None:
    metric = bound(home, ROUGE)
    empty = replace(ITEMS[0], id="e", replies={"a": "", "b": " "})
    silent = replace(ITEMS[1], id="s", turns=())
    found = evaluate([*ITEMS, empty, silent], [metric], QUICK)
    (scores,) = found.scores
    for name in ("a", "b"):
        replies = list(scores.systems[name].each_reply())
        wanted = [expected(home, one, one.replies[name], metric) for one in ITEMS]
        assert [one["score"] for one in replies[:-2]] == pytest.approx(wanted, abs=1e-4)
        assert replies[-2]["score"] == 0.0
        assert replies[-1]["problem"] == "no_utterance"
        parts = scores.systems[name].as_json()["replies"][0]["parts"]
        assert parts["referenced_mapped"] / 2 + parts["unreferenced_mapped"] / 2 == pytest.approx(replies[0]["score"])
        assert scores.systems[name].corpus == pytest.approx(np.mean([*wanted, 0.0]), abs=1e-4)
    assert "empty replies, which score 0 or nothing at all: a (1), b (1)" in found.warnings
    assert found.scores[0].signature.settings["range-ref"] == metric.settings["range-ref"]


def test_an_utterance_counts_in_the_name_of_the_references_and_of_the_rows(home: Settings) -> None:
    others = [replace(one, turns=("another one",)) for one in ITEMS]
    metric = bound(home, f"{ROUGE},norm=none")
    assert len({evaluate(some, [metric], QUICK).scores[0].references for some in (ITEMS, others)}) == 2
    compared = [ComparedMetric(name="ruber", metric=metric)]
    names = {
        agreement([RatedItems(name="set", items=some)], compared, MetaSettings(draws=5)).sets[0].data
        for some in (ITEMS, others)
    }
    assert len(names) == 2


def test_agreement_is_that_of_the_same_scores(home: Settings) -> None:
    metric = bound(home, ROUGE)
    compared = [ComparedMetric(name="ruber", metric=metric)]
    (found,) = agreement([RatedItems(name="set", items=ITEMS)], compared, MetaSettings(draws=20)).sets
    wanted = [expected(home, one, reply, metric) for one in ITEMS for reply in one.replies.values()]
    assert found.points.values["ruber"] == pytest.approx(wanted, abs=1e-4)
    assert found.signatures["ruber"].settings["model"] == metric.settings["model"]


def test_by_test_all_systems_share_the_ranges_and_all_rows_do(home: Settings) -> None:
    metric = bound(home, f"{ROUGE},norm=test")
    found = evaluate(ITEMS, [metric], QUICK)
    scores = [score for system in found.scores[0].systems.values() for score in system.each_score()]
    a = [expected_part(one, reply) for name in ("a", "b") for one in ITEMS for reply in [one.replies[name]]]
    pairs = [(one.utterance or "", one.replies[name]) for name in ("a", "b") for one in ITEMS]
    b = open_ruber(home, "some", threads=1).score(pairs)
    wanted = ((np.array(a) - min(a)) / (max(a) - min(a)) + (b - b.min()) / (b.max() - b.min())) / 2
    assert scores == pytest.approx(wanted.tolist(), abs=1e-3)
    details = found.scores[0].signature.details
    assert [float(one) for one in details["range-ref"].split("..")] == pytest.approx([min(a), max(a)])
    assert any("norm=test" in one for one in found.warnings)
    compared = [ComparedMetric(name="ruber", metric=metric)]
    (agreed,) = agreement([RatedItems(name="set", items=ITEMS)], compared, MetaSettings(draws=5)).sets
    assert sorted(agreed.points.values["ruber"]) == pytest.approx(sorted(wanted.tolist()), abs=1e-3)
    report = probe(ITEMS, [metric])
    by_name = {row.name: row for row in report.metrics[0].rows}
    assert by_name["empty"].corpus == 0.0
    assert "range-ref" in report.metrics[0].signature.details


def expected_part(one: Item, reply: str) -> float:
    left, right = set(reply.split()), one.references[0].text.split()
    common = sum(min(reply.split().count(word), right.count(word)) for word in left)
    return 2 * common / (len(reply.split()) + len(right))


def test_an_explanation_leaves_a_gold_out_for_both_parts(home: Settings) -> None:
    golds = (Reference(text="red boats"), Reference(text="the green apples"))
    one = replace(ITEMS[0], references=golds, replies={"a": "we like red apples"})
    metric = bound(home, "ruber:referenced=rouge-1,unreferenced=rater,norm=none")
    found = evaluate([one], [metric], replace(QUICK, explain=True)).scores[0].systems["a"].explanations[0]
    alone = [
        evaluate([replace(one, references=(gold,))], [metric], QUICK).scores[0].systems["a"].corpus
        for gold in reversed(golds)
    ]
    told = [each["score"] for each in found["without_reference"]]
    assert told == pytest.approx(alone, abs=CLOSE)


def test_a_score_does_not_depend_on_which_replies_are_scored_beside_it(home: Settings) -> None:
    metric = bound(home, pooled(home, ",blend=geometric"))
    together = list(evaluate(ITEMS, [metric], QUICK).scores[0].systems["a"].each_score())
    for number in (0, 7, 19):
        again = bound(home, pooled(home, ",blend=geometric"))
        assert Signature.of(again).full == Signature.of(metric).full
        (alone,) = evaluate([ITEMS[number]], [again], QUICK).scores[0].systems["a"].each_score()
        assert alone == pytest.approx(together[number], abs=1e-4)


class Even(Rater):
    """A rater that says nothing, as trained with some kind of wrong replies."""

    def _batch_probabilities(self, triplets: Sequence[object], temperature: float) -> np.ndarray:
        return np.full(len(triplets), 0.5)


@pytest.mark.parametrize("negatives", ["noise", "random", ""])
def test_next_utterances_are_judged_by_a_rater_that_learned_noise(
    negatives: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater, models = Even(spec="even@1#abc", negatives=negatives), ModelRegistry(Settings(home=tmp_path))
    monkeypatch.setattr(ModelRegistry, "rater", lambda _models, _spec: rater)
    with_parts([build("retrieval:model=even")], models)
    if negatives == "noise":
        with_parts([build("next-utterance:model=even")], models)
    else:
        with refusing(BadInput, "even@1#abc", negatives or "unknown", "--negatives noise"):
            with_parts([build("next-utterance:model=even")], models)
