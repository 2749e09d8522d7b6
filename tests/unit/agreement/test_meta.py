"""Agreement with people: the right rows, the right figures, and a reason wherever there is no figure."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import Counter
from dataclasses import replace
from typing import Any

import fugashi
import ipadic
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from refusals import refusing
from scipy import stats
from statsmodels.stats.multitest import multipletests

from refaug.agreement.meta import agreement, default_metrics
from refaug.agreement.records import AgreementRow, ComparedMetric, MetaResult, RatedItems, RowKind, SetResult
from refaug.agreement.row_scores import length_tokenizer
from refaug.core.errors import BadInput, Usage
from refaug.core.records import Item, json_form
from refaug.metrics import base
from refaug.metrics.base import References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.metrics.statistics.resampling import Estimate
from refaug.operations.agreement import AgreementOptions
from refaug.scoring.items import BadItem, item_of
from refaug.scoring.settings import MetaSettings, RowsChoice

WORDS = sorted({"the", "a", "cat", "dog", "sat", "ran", "home", "fast", "today", "never", "maybe", "we", "you", "go"})
FEW = 200


def item(name: str, references: list[Any], replies: dict[str, str], ratings: dict[str, Any]) -> Item:
    listed = {system: list(given) for system, given in ratings.items()}
    values = {"id": name, "references": references, "replies": replies, "ratings": listed}
    return item_of(values, fallback_id=name)


def rated_items(contexts: int = 20, systems: int = 4, annotators: int = 3, seed: int = 0) -> list[Item]:
    """Replies that share more or fewer words with two golds, and noisy ratings of how many."""
    random = np.random.default_rng(seed)
    items = []
    for number in range(contexts):
        golds = [" ".join(random.choice(WORDS, size=random.integers(4, 9))) for _ in range(2)]
        replies, ratings = {}, {}
        for system in range(systems):
            kept = [word for word in golds[0].split() if random.random() < 0.2 + 0.2 * system]
            added = list(random.choice(WORDS, size=random.integers(1, 5)))
            replies[f"s{system}"] = " ".join([*kept, *added, "oh"])  # no gold has "oh": none is a reply
            quality = len(kept) / 2 + random.normal(size=annotators)
            ratings[f"s{system}"] = [int(one) for one in np.clip(np.round(quality + 2), 1, 5)]
        items.append(item(f"c{number}", golds, replies, ratings))
    return items


def compared(*specifications: str) -> list[ComparedMetric]:
    return [ComparedMetric(name=text, metric=build(text)) for text in specifications]


def meta(
    *sets: list[Item], metrics: tuple[str, ...] = ("bleu", "rouge-1"), baseline: str | None = None, **settings: Any
) -> MetaResult:
    named = [RatedItems(name=f"set{number}", items=items) for number, items in enumerate(sets, start=1)]
    return agreement(named, compared(*metrics), MetaSettings(**{"draws": FEW, **settings}), baseline=baseline)


def only(result: MetaResult) -> SetResult:
    (found,) = result.sets
    return found


def row(found: SetResult, name: str) -> AgreementRow:
    return next(one for one in found.rows if one.name == name)


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_correlations_are_those_of_scipy_in_the_order_of_the_file() -> None:
    items = rated_items()
    found = only(meta(items))
    expected = [(one.id, system) for one in items for system in one.replies]
    assert list(zip(found.points.items, found.points.systems, strict=True)) == expected
    ratings = np.array([np.mean(one.ratings[system]) for one in items for system in one.replies])
    np.testing.assert_allclose(found.points.ratings, ratings)
    for name, exact in [*found.points.values.items(), ("length", found.points.lengths)]:
        one, values = row(found, name), np.round(exact, 9)  # what rounding alone keeps apart is a tie
        assert one.spearman.value == pytest.approx(stats.spearmanr(values, ratings).statistic, abs=1e-9)
        assert one.pearson.value == pytest.approx(stats.pearsonr(values, ratings).statistic, abs=1e-9)
        assert one.kendall.value == pytest.approx(stats.kendalltau(values, ratings).statistic, abs=1e-9)
        assert one.n == len(expected) == 80


def test_scores_are_those_of_the_metric_and_lengths_count_words() -> None:
    items = rated_items()
    found = only(meta(items, metrics=("rouge-1:measure=precision,refs=gold",)))
    shares, lengths = [], []
    for one in items:
        gold = Counter(one.references[0].text.split())
        for reply in one.replies.values():
            words = Counter(reply.split())
            shares.append((words & gold).total() / words.total())
            lengths.append(words.total())
    np.testing.assert_allclose(found.points.values["rouge-1:measure=precision,refs=gold"], shares)
    assert found.points.lengths.tolist() == lengths


# ── what lengths are counted in ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["駅前の市場で買えますよ！", "了解"], "mecab"),
        (["ﾃﾞﾊﾟｰﾄ", "OK"], "mecab"),  # half-width
        (["ＣＤ買うわw Amazonで"], "word"),  # Latin letters, full-width ones too, are more than half
        (["well ¯\\_(ツ)_/¯", "who knows"], "word"),
        (["我们明天去看电影吧", "好的の"], "word"),  # Chinese, with one kana
        (["ありがとう。", "thanks", "よかったです"], "mecab"),  # all together decide
        (["ー〜ーー"], "mecab"),
        (["😊！？", "..."], "word"),
        ([], "word"),
    ],
)
def test_length_of_mostly_japanese_texts_is_counted_in_mecab_words(texts: list[str], name: str) -> None:
    assert length_tokenizer(texts) == name


@given(st.lists(st.text(st.sampled_from("あンｱー漢々东aＡé1 。！・ｰゞ😊"), max_size=12), max_size=4))
def test_what_is_japanese_is_told_by_the_names_of_characters(texts: list[str]) -> None:
    letters = [one for text in texts for one in text if one.isalpha()]
    kinds = Counter(
        "kana"
        if "KANA" in name or "HIRAGANA" in name
        else "han"
        if name.startswith(("CJK", "IDEOGRAPHIC"))
        else "other"
        for name in map(unicodedata.name, letters)
    )
    both = kinds["kana"] + kinds["han"]
    expected = "mecab" if kinds["kana"] and both > kinds["other"] and kinds["kana"] >= 0.1 * both else "word"
    assert length_tokenizer(texts) == expected


def test_each_set_counts_reply_lengths_in_the_words_of_its_language() -> None:
    mecab = fugashi.GenericTagger(f"{ipadic.MECAB_ARGS} -Owakati")
    said = ["はい。", "駅前の市場で買えますよ！", "ﾃﾞﾊﾟｰﾄの近くだと思います。", "いいえ、ありませんでした（笑）"]
    japanese = [item(f"j{n}", ["さあ。"], {"s": text}, {"s": [n + 1]}) for n, text in enumerate(said)]
    found = meta(japanese, rated_items(), metrics=("chrf",)).sets
    lengths = [len(mecab.parse(text).split()) for text in said]
    assert found[0].points.lengths.tolist() == lengths
    assert len(set(lengths)) == 3
    assert found[1].points.lengths.tolist() == [
        len(text.split()) for one in rated_items() for text in one.replies.values()
    ]


def test_partial_ranks_are_freed_of_a_parabola_in_the_rank_of_length() -> None:
    found = only(meta(rated_items()))
    points = found.points
    x, y, length = (
        stats.rankdata(np.round(values, 9)) for values in (points.values["rouge-1"], points.ratings, points.lengths)
    )
    rest = [values - np.polyval(np.polyfit(length, values, 2), length) for values in (x, y)]
    expected = np.corrcoef(*rest)[0, 1]
    assert row(found, "rouge-1").partial_spearman.value == pytest.approx(expected, abs=1e-9)
    assert (row(found, "length").partial_spearman.value, row(found, "length").partial_spearman.why) == (
        None,
        "it is the length itself",
    )


def test_rows_are_the_metrics_in_order_then_length_then_people() -> None:
    found = only(meta(rated_items(), metrics=("chrf", "bleu"), baseline="bleu"))
    assert [(one.name, one.kind, one.is_baseline) for one in found.rows] == [
        ("chrf", RowKind.METRIC, False),
        ("bleu", RowKind.METRIC, True),
        ("length", RowKind.LENGTH, False),
        ("human", RowKind.HUMAN, False),
    ]
    assert row(found, "bleu").differences == {}
    difference = row(found, "chrf").differences["spearman"].value
    assert difference == pytest.approx(row(found, "chrf").spearman.value - row(found, "bleu").spearman.value)


def test_a_metric_of_which_less_is_better_is_turned_and_says_so() -> None:
    result = meta(rated_items(), metrics=("bleu", "ter"))
    found, ter = only(result), row(only(result), "ter")
    points = found.points
    expected = -stats.spearmanr(points.values["ter"], points.ratings).statistic
    assert (ter.turned, row(found, "bleu").turned) == (True, False)
    assert (ter.spearman.value, ter.spearman.value > 0) == (pytest.approx(expected), True)
    assert ter.kendall.value == pytest.approx(-stats.kendalltau(points.values["ter"], points.ratings).statistic)
    assert ter.by_annotator is not None
    assert ter.by_annotator.each[0].value == pytest.approx(
        -stats.spearmanr(points.values["ter"], points.by_annotator[:, 0]).statistic
    )
    assert json_form(ter)["turned"] is True
    assert [one["turned"] for one in result.as_json()["metrics"]] == [False, True]


def test_intervals_and_p_come_from_drawing_whole_contexts() -> None:
    found = only(meta(rated_items(), draws=4_000))
    points, random = found.points, np.random.default_rng(7)
    names = list(dict.fromkeys(points.items))
    rows_of = [np.flatnonzero(np.array(points.items) == name) for name in names]
    drawn = []
    for _ in range(4_000):
        rows = np.concatenate([rows_of[place] for place in random.integers(0, len(names), len(names))])
        one, other = (np.corrcoef(points.values[name][rows], points.ratings[rows])[0, 1] for name in points.values)
        drawn.append((other, other - one))
    bounds = np.quantile(np.array(drawn), [0.025, 0.975], axis=0)
    rouge = row(found, "rouge-1")
    assert [rouge.pearson.low, rouge.pearson.high] == pytest.approx(bounds[:, 0].tolist(), abs=0.02)
    difference = rouge.differences["pearson"]
    assert [difference.low, difference.high] == pytest.approx(bounds[:, 1].tolist(), abs=0.02)
    deltas = np.array(drawn)[:, 1]
    assert difference.p == pytest.approx(min(1, 2 * min((deltas <= 0).mean(), (deltas >= 0).mean())), abs=0.03)


def test_holm_is_over_the_metrics_without_the_length() -> None:
    found = only(meta(rated_items(), metrics=("bleu", "rouge-1", "chrf", "rouge-l")))
    family = [row(found, name) for name in ("rouge-1", "chrf", "rouge-l")]
    for kind in ("spearman", "pearson"):
        raw = [one.differences[kind].p for one in family]
        assert [one.holm[kind] for one in family] == pytest.approx(multipletests(raw, method="holm")[1].tolist())
    assert (row(found, "length").holm, row(found, "bleu").holm) == ({}, {})
    assert row(found, "length").differences["spearman"].p is not None


def test_williams_says_that_it_takes_rows_for_independent() -> None:
    found = only(meta(rated_items()))
    points, n = found.points, 80
    one, other = points.values["rouge-1"], points.values["bleu"]
    r12, r13, r23 = (
        stats.pearsonr(*pair)[0] for pair in ((one, points.ratings), (other, points.ratings), (one, other))
    )
    k = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    t = (r12 - r13) * math.sqrt(
        (n - 1) * (1 + r23) / (2 * k * (n - 1) / (n - 3) + (r12 + r13) ** 2 / 4 * (1 - r23) ** 3)
    )
    test = row(found, "rouge-1").williams["pearson"]
    assert (test.t, test.note) == (pytest.approx(t), "assumes independent rows")
    assert row(found, "bleu").williams == {}


def test_systems_are_compared_with_contexts_taken_out_and_no_p_below_eight() -> None:
    found = only(meta(rated_items(systems=4)))
    points = found.points
    means = []
    for values in (points.values["rouge-1"], points.ratings):
        table = values.reshape(20, 4)  # every system replied to every context
        means.append((table - table.mean(axis=1, keepdims=True)).mean(axis=0))
    level = row(found, "rouge-1").system_level
    assert level is not None
    assert level.systems == ("s0", "s1", "s2", "s3")
    np.testing.assert_allclose(level.scores, means[0], atol=1e-12)
    assert level.by_kind["pearson"].value == pytest.approx(stats.pearsonr(*means).statistic)
    assert (level.by_kind["pearson"].p, level.by_kind["pearson"].why) == (None, "fewer than 8 systems")
    eight = row(only(meta(rated_items(systems=8))), "rouge-1").system_level
    assert eight is not None
    assert eight.by_kind["spearman"].p is not None


def test_the_system_whose_absence_changes_most_is_named() -> None:
    found = only(meta(rated_items()))
    points, systems = found.points, np.array(found.points.systems)
    values = points.values["bleu"].round(12)
    whole = stats.spearmanr(values, points.ratings).statistic
    without = {
        name: stats.spearmanr(values[systems != name], points.ratings[systems != name]).statistic
        for name in ("s0", "s1", "s2", "s3")
    }
    most = max(without, key=lambda name: abs(without[name] - whole))
    found_without = row(found, "bleu").without_system
    assert found_without is not None
    assert (found_without.most, found_without.change) == (most, pytest.approx(without[most] - whole))
    assert found_without.spread.lowest == pytest.approx(min(without.values()))
    assert found_without.spread.highest == pytest.approx(max(without.values()))


def test_groups_of_one_are_the_rows_and_too_few_groups_have_a_reason() -> None:
    groups = row(only(meta(rated_items())), "bleu").groups
    assert [group.size for group in groups] == [1, 5, 20, 100]
    assert groups[0].by_kind["spearman"].value == pytest.approx(row(only(meta(rated_items())), "bleu").spearman.value)
    assert [group.groups for group in groups] == [80, 16, 4, 0]
    assert groups[3].by_kind["spearman"].value is None
    assert groups[3].by_kind["spearman"].why == "fewer than 3 groups of 100"


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_copies() -> list[Item]:
    """Ten contexts, in the first two of which a system says what a gold says, in other letters."""
    items = rated_items(contexts=10)
    changed = []
    for number, one in enumerate(items):
        replies = dict(one.replies)
        if number < 2:
            replies["s3"] = one.references[number].text.upper() + " !"
        changed.append(item(one.id, [r.text for r in one.references], replies, dict(one.ratings)))
    return changed


def test_a_reply_that_is_one_of_its_own_golds_is_no_fair_row() -> None:
    fair, everything = only(meta(with_copies())), only(meta(with_copies(), rows=RowsChoice.ALL))
    for found in (fair, everything):
        assert (found.counts.rated, found.counts.references_themselves, found.counts.fair) == (40, 2, 38)
    assert (fair.counts.used, everything.counts.used) == (38, 40)
    assert ("c0", "s3") not in list(zip(fair.points.items, fair.points.systems, strict=True))
    assert everything.points.values["rouge-1"][3] == pytest.approx(1.0)


def test_using_all_rows_comes_with_a_warning() -> None:
    assert meta(with_copies()).warnings == ()
    (warning,) = meta(with_copies(), rows=RowsChoice.ALL).warnings
    assert "2 of 40 replies are one of their own golds" in warning


def test_references_equal_to_a_reply_are_removed_for_that_reply_alone() -> None:
    items = rated_items(contexts=10)
    supplied = {"text": items[0].replies["s1"].upper(), "weight": 0.5}
    golds = [one.text for one in items[0].references]
    items[0] = item("c0", [*golds, supplied], dict(items[0].replies), dict(items[0].ratings))
    plain = only(meta(rated_items(contexts=10), metrics=("rouge-1",)))
    fair = only(meta(items, metrics=("rouge-1",)))
    everything = only(meta(items, metrics=("rouge-1",), rows=RowsChoice.ALL))
    assert (fair.counts.references_removed, fair.counts.references_themselves, fair.counts.used) == (1, 0, 40)
    assert fair.points.values["rouge-1"][1] == plain.points.values["rouge-1"][1]
    assert fair.points.values["rouge-1"][0] >= plain.points.values["rouge-1"][0]  # others still have it
    assert everything.points.values["rouge-1"][1] == pytest.approx(1.0)
    assert everything.counts.references_removed == 0


def test_row_that_one_metric_cannot_score_is_left_out_for_all_and_counted() -> None:
    items = rated_items(contexts=10)
    only_supplied = {"text": items[0].replies["s1"], "weight": 1.0}
    items[0] = item("c0", [only_supplied], dict(items[0].replies), dict(items[0].ratings))
    result = meta(items, metrics=("bleu", "multi-bleu"))
    counts = only(result).counts
    # No gold for bleu at all; for multi-bleu the reply that was the only reference has none left.
    assert counts.unscored == {"bleu": {"no_gold": 4}, "multi-bleu": {"no_reference": 1}}
    assert (counts.left_out, counts.used, counts.contexts) == (4, 36, 9)
    assert {one.n for one in only(result).rows} == {36}
    assert [warning.split(": ")[1] for warning in result.warnings] == [
        "bleu has no score for 4 replies (no_gold)",
        "multi-bleu has no score for 1 replies (no_reference)",
    ]


def test_replies_without_a_rating_are_not_used_and_counted_by_system() -> None:
    items = rated_items(contexts=10)
    for number, taken in ((0, []), (1, [None, None, None]), (2, [None, 4])):
        ratings = {**items[number].ratings, "s2": taken}
        golds = [one.text for one in items[number].references]
        items[number] = item(f"c{number}", golds, dict(items[number].replies), ratings)
    result = meta(items)
    found = only(result)
    assert (found.counts.replies, found.counts.rated, dict(found.counts.unrated)) == (40, 38, {"s2": 2})
    place = list(zip(found.points.items, found.points.systems, strict=True)).index(("c2", "s2"))
    assert found.points.ratings[place] == 4.0
    assert np.isnan(found.points.by_annotator[place]).tolist() == [True, False, True]
    assert result.warnings[0] == "set1: 2 replies of s2 have no rating and are not used"


def test_rows_that_rate_the_gold_itself_are_shown_beside_the_fair_ones() -> None:
    items = with_copies()
    of_copies = [np.mean(items[number].ratings["s3"]) for number in (0, 1)]
    fair, everything = only(meta(items)), only(meta(items, rows=RowsChoice.ALL))
    for found in (fair, everything):
        golds, points = found.golds, found.points
        assert golds is not None
        assert (golds.rows, golds.fair_rows) == (2, 38)
        assert golds.rating == pytest.approx(np.mean(of_copies))
        rows = zip(points.items, points.systems, strict=True)
        rest = [one not in {("c0", "s3"), ("c1", "s3")} for one in rows]
        assert golds.fair_rating == pytest.approx(points.ratings[rest].mean())
        assert (golds.scores["rouge-1"].golds, golds.scores["rouge-1"].scored) == (1.0, 2)
        assert golds.scores["rouge-1"].fair == pytest.approx(points.values["rouge-1"][rest].mean())
        assert list(found.as_json()["gold_rows"]["scores"]) == ["bleu", "rouge-1"]
    # bleu looks at the first gold alone, and one of the two copies is of the second
    assert fair.golds is not None
    assert 0.45 <= fair.golds.scores["bleu"].golds < 1
    assert only(meta(rated_items())).golds is None
    assert only(meta(rated_items())).as_json()["gold_rows"] is None


def test_data_names_everything_that_the_used_rows_were_made_of() -> None:
    def named(**changed: Any) -> str:
        values: dict[str, Any] = {
            "id": "a",
            "references": ["x y", {"text": "y z", "weight": 0.5}],
            "replies": {"s": "x", "t": "z"},
            "ratings": {"s": [1, 2], "t": [3, None]},
        }
        return only(meta([item_of({**values, **changed}, fallback_id="1")], metrics=("rouge-1",))).data

    plain = named()
    assert (len(plain), named()) == (12, plain)
    others = [
        named(id="b"),
        named(references=["x y", {"text": "y z", "weight": 0.25}]),
        named(references=["x y", {"text": "y w", "weight": 0.5}]),
        named(replies={"s": "x w", "t": "z"}),
        named(replies={"s": "x", "u": "z"}, ratings={"s": [1, 2], "u": [3, None]}),
        named(ratings={"s": [1, 2], "t": [None, 3]}),
        named(ratings={"s": [1, 2]}),
    ]
    assert len({plain, *others}) == 1 + len(others)
    assert named(utterance="not scored") == plain


def test_data_hash_covers_the_used_rows_and_their_references() -> None:
    items = with_copies()
    fair, everything = only(meta(items)), only(meta(items, rows=RowsChoice.ALL))
    expected = hashlib.sha256()
    for number, one in enumerate(items):
        for system, reply in one.replies.items():
            if (number, system) not in {(0, "s3"), (1, "s3")}:
                references = [[reference.text, None] for reference in one.references]
                line = [one.id, system, list(map(float, one.ratings[system])), references, reply]
                expected.update(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    assert fair.data == expected.hexdigest()[:12] != everything.data
    assert fair.as_json()["data"] == fair.data
    assert only(meta(items, metrics=("chrf",))).data == fair.data


def test_ratings_of_several_lengths_warn_about_annotator_figures() -> None:
    items = rated_items(contexts=10)
    ratings = {**items[0].ratings, "s2": [4]}
    items[0] = item("c0", [one.text for one in items[0].references], dict(items[0].replies), ratings)
    (warning,) = meta(items).warnings
    assert warning.startswith("set1: replies have from 1 to 3 ratings: κ, ICC(2), ICC(3), --min-kappa and")
    assert only(meta(items)).annotators.as_json()["ratings_a_reply"] == [1, 3]
    ratings["s2"] = [4, None, None]
    items[0] = item("c0", [one.text for one in items[0].references], dict(items[0].replies), ratings)
    assert meta(items).warnings == ()


def test_bad_items_are_kept_with_the_set_they_were_in() -> None:
    bad = BadItem(file="x.jsonl", line=3, item=None, field="id", message="it is empty")
    result = agreement([RatedItems(name="one", items=[bad, *rated_items()])], compared("bleu"), MetaSettings(draws=10))
    assert (result.bad_items, result.sets[0].counts.bad_items, result.sets[0].counts.items) == ((bad,), 1, 20)


# ── metrics that take something from the set ──────────────────────────────────────────────────────────────────────


def test_metric_is_bound_to_all_references_of_a_set_whatever_rows_count() -> None:
    items = with_copies()
    supplied = {"text": items[2].replies["s1"], "weight": 0.5}
    golds = [one.text for one in items[2].references]
    items[2] = item("c2", [*golds, supplied], dict(items[2].replies), dict(items[2].ratings))
    found = only(meta(items, metrics=("cider", "bleu")))
    whole = [References.unweighted([one.text for one in each.references if one.is_own]) for each in items]
    bound = build("cider").for_set(whole)
    assert found.signatures == {"cider": Signature.of(bound), "bleu": Signature.of(build("bleu"))}
    assert "idf" in found.signatures["cider"].details
    for row, (name, system) in enumerate(zip(found.points.items, found.points.systems, strict=True)):
        number = int(name[1:])
        kept = whole[number]
        if (number, system) == (2, "s1"):  # the reference that is the reply itself
            kept = References(kept.texts[:2], kept.weights[:2])
        prepared, place = bound.prepare([kept]), np.zeros(1, np.int64)
        values = bound.values(
            bound.statistics([items[number].replies[system]], prepared, place, place), base.Level.REPLY
        )
        assert found.points.values["cider"][row] == pytest.approx(values[0], abs=1e-12)


def test_signatures_that_differ_by_set_are_given_for_each_set_only() -> None:
    result = meta(rated_items(seed=1), rated_items(seed=2), metrics=("cider", "bleu"))
    first, second = (found.signatures["cider"] for found in result.sets)
    assert first != second
    assert result.signature("cider") is None
    assert result.signature("bleu") == result.sets[0].signatures["bleu"]
    document = result.as_json()
    assert [one["signature"] for one in document["metrics"]] == [None, result.sets[0].signatures["bleu"].short]
    assert document["sets"][1]["signatures"]["cider"] == {
        "signature": second.short,
        "signature_full": second.full,
    }
    alone = meta(rated_items(seed=1), metrics=("cider", "bleu"))
    assert alone.signature("cider") == first
    assert alone.as_json()["metrics"][0]["signature_full"] == first.full


# ── annotators ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_annotator_is_correlated_alone_with_extremes() -> None:
    found = only(meta(rated_items()))
    points = found.points
    each = [stats.spearmanr(points.values["bleu"].round(12), column).statistic for column in points.by_annotator.T]
    spread = row(found, "bleu").by_annotator
    assert spread is not None
    assert [spread.each[place].value for place in range(3)] == pytest.approx(each)
    assert (spread.lowest, spread.highest) == (pytest.approx(min(each)), pytest.approx(max(each)))


def test_people_stand_as_a_row_stepped_up_from_halves() -> None:
    found = only(meta(rated_items(annotators=2)))
    random = np.random.default_rng(3)
    dealt = [random.permuted(found.points.by_annotator, axis=1) for _ in range(1_000)]  # who is in which half of a row
    r = np.mean([np.corrcoef(halves.T)[0, 1] for halves in dealt])
    assert found.annotators.split_half.pearson.half == pytest.approx(r, abs=0.01)
    assert row(found, "human").pearson.value == pytest.approx(2 * r / (1 + r), abs=0.01)


def test_of_one_annotator_there_is_no_figure_but_a_reason() -> None:
    found = only(meta(rated_items(annotators=1)))
    assert [one.name for one in found.rows] == ["bleu", "rouge-1", "length"]
    assert row(found, "bleu").by_annotator is None
    assert (found.annotators.kappa.mean, found.annotators.kappa.why) == (None, "only one annotator")
    assert row(found, "bleu").spearman.value is not None


def careless(contexts: int = 20) -> list[Item]:
    """As `rated_items`, with an annotator in second place who clicked at random."""
    random = np.random.default_rng(5)
    return [
        item(
            one.id,
            [r.text for r in one.references],
            dict(one.replies),
            {s: [rated[0], int(random.integers(1, 6)), *rated[1:]] for s, rated in one.ratings.items()},
        )
        for one in rated_items(contexts)
    ]


def test_annotators_whose_kappa_is_too_low_are_left_out() -> None:
    result = meta(careless(), min_kappa=0.2)
    found, expected = only(result), only(meta(rated_items()))
    assert found.annotators.kept == (0, 2, 3)
    assert [one.annotator for one in found.annotators.dropped] == [1]
    np.testing.assert_allclose(found.points.ratings, expected.points.ratings)
    spread = row(found, "bleu").by_annotator
    assert spread is not None
    assert list(spread.each) == [0, 2, 3]
    assert "annotator 2 dropped: mean κ" in result.warnings[0]
    assert [one["annotator"] for one in found.annotators.as_json()["kappa_of_each"]] == [0, 2, 3]
    assert only(meta(careless())).annotators.kept == (0, 1, 2, 3)


def test_every_threshold_of_kappa_gives_what_min_kappa_would() -> None:
    found = only(meta(careless()))
    levels = {level.share.threshold: level for level in found.annotators.kappa_shares}
    assert list(levels) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    values = [pair.value for pair in found.annotators.kappa.pairs if pair.value is not None]
    assert len(values) == 6
    for threshold, level in levels.items():
        assert level.share.above == len([value for value in values if value > threshold])
        assert level.share.share == level.share.above / 6
        if not level.share.annotators:
            assert level.correlations["bleu"]["spearman"].why == "fewer than 3 rows"
            continue
        kept = only(meta(careless(), min_kappa=threshold))
        assert (level.share.annotators, level.n) == (kept.annotators.kept, kept.counts.used)
        for one in kept.rows[:-1]:
            by_kind = level.correlations[one.name]
            assert (by_kind["spearman"].value, by_kind["pearson"].value) == pytest.approx(
                (one.spearman.value, one.pearson.value)
            )
    assert [level.share.annotators for level in levels.values()][0:3:2] == [(0, 1, 2, 3), (0, 2, 3)]
    assert {level.share.above for level in levels.values()} > {0, 3}


def test_of_one_annotator_there_is_no_threshold_of_kappa() -> None:
    found = only(meta(rated_items(annotators=1)))
    assert found.annotators.kappa_shares == ()
    assert found.annotators.pairs["pearson"].why == "there is nothing to correlate"
    assert found.as_json()["annotators"]["kappa_shares"] == []


def test_when_no_annotator_is_left_the_highest_kappa_is_named() -> None:
    with refusing(BadInput) as caught:
        meta(rated_items(), min_kappa=0.99)
    assert "the highest is 0." in caught.value.remedy


def test_one_annotator_alone_is_kept_whatever_kappa_is_asked_for() -> None:
    result = meta(rated_items(annotators=1), min_kappa=0.9)
    assert only(result).annotators.kept == (0,)
    assert result.warnings == ("set1: one annotator only, so that there is no κ to be left out by",)


# ── where there is no figure ──────────────────────────────────────────────────────────────────────────────────────


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [one for inner in value.values() for one in numbers_in(inner)]
    if isinstance(value, list | tuple):
        return [one for inner in value for one in numbers_in(inner)]
    return [value] if isinstance(value, float) else []


def rated_alike() -> list[Item]:
    return [
        item(one.id, [r.text for r in one.references], dict(one.replies), {s: [3, 3] for s in one.replies})
        for one in rated_items()
    ]


def far_from_the_golds() -> list[Item]:
    return [item(one.id, ["zebra"], dict(one.replies), dict(one.ratings)) for one in rated_items()]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        (rated_alike(), "all ratings are equal"),
        (far_from_the_golds(), "all scores are equal"),
        (rated_items(contexts=1, systems=2), "fewer than 3 rows"),
    ],
    ids=["equal ratings", "constant metric", "two rows"],
)
def test_an_undefined_figure_is_none_with_a_reason_and_never_nan(items: list[Item], why: str) -> None:
    result = meta(items)
    bleu = row(only(result), "bleu")
    for figure in (bleu.spearman, bleu.pearson, bleu.kendall, bleu.partial_spearman):
        assert (figure.value, figure.why) == (None, why)
    assert row(only(result), "rouge-1").differences["spearman"].value is None
    assert row(only(result), "rouge-1").differences["spearman"].why is not None
    assert row(only(result), "rouge-1").williams["spearman"].p is None
    assert all(math.isfinite(one) for one in numbers_in(result.as_json(points=True)))


def test_a_set_without_a_row_to_compare_is_refused() -> None:
    golds = [item("c", ["a b"], {"s": "a b", "t": "a b"}, {"s": [1, 2], "t": [2, 2]})]
    with refusing(BadInput) as error:
        meta(golds)
    assert "--rows" in error.value.remedy


def without_golds(seed: int = 0) -> list[Item]:
    """Every reference is one that people have weighted: bleu has none to look at."""
    return [
        item(
            one.id,
            [{"text": r.text, "weight": 1.0} for r in one.references],
            dict(one.replies),
            dict(one.ratings),
        )
        for one in rated_items(seed=seed)
    ]


def test_metric_without_any_score_says_why_and_others_are_compared() -> None:
    both, alone = (
        meta(without_golds(), metrics=named, baseline="rouge-1")
        for named in (("bleu", "rouge-1", "chrf"), ("rouge-1", "chrf"))
    )
    why = "no reply has a score: it has no gold reference, which this metric needs"
    bleu = row(only(both), "bleu")
    figures = (bleu.spearman, bleu.pearson, bleu.kendall, bleu.partial_spearman, *bleu.differences.values())
    assert {(one.value, one.why) for one in figures} == {(None, why)}
    assert {(one.t, one.p, one.why) for one in bleu.williams.values()} == {(None, None, why)}
    assert (bleu.n, bleu.holm) == (0, {"spearman": None, "pearson": None})
    assert only(both).rows[1:] == only(alone).rows
    assert (only(both).counts.unscored["bleu"], only(both).counts.left_out) == ({"no_gold": 80}, 0)
    assert list(only(both).points.values) == ["rouge-1", "chrf"]
    assert both.warnings == (f"set1: bleu is not compared: {why}",)
    assert all(math.isfinite(one) for one in numbers_in(both.as_json(points=True)))


def test_baseline_without_a_score_leaves_correlations_but_no_differences() -> None:
    found = only(meta(without_golds(), metrics=("bleu", "rouge-1")))
    rouge, alone = row(found, "rouge-1"), row(only(meta(without_golds(), metrics=("rouge-1",))), "rouge-1")
    assert (rouge.spearman, rouge.kendall) == (alone.spearman, alone.kendall)
    why = "no reply has a score: it has no gold reference, which this metric needs"
    for name in ("rouge-1", "length"):
        assert row(found, name).differences["spearman"] == Estimate(why=f"the baseline: {why}")
        assert row(found, name).williams["spearman"].why == why
    assert row(found, "bleu").differences == row(found, "bleu").williams == {}


def test_metric_unscored_in_one_set_has_no_mean_and_the_others_have() -> None:
    result = meta(rated_items(seed=1), without_golds(seed=2), metrics=("rouge-1", "bleu"))
    expected = meta(rated_items(seed=1), without_golds(seed=2), metrics=("rouge-1",)).mean
    assert result.mean is not None
    assert expected is not None
    why = "in set 2 of 2: no reply has a score: it has no gold reference, which this metric needs"
    assert result.mean.rows[0] == expected.rows[0]
    assert (result.mean.rows[1].spearman.why, result.mean.rows[1].differences["pearson"].why) == (why, why)
    assert row(result.sets[0], "bleu").spearman.value is not None


def test_when_no_metric_has_any_score_it_is_an_error_that_says_why() -> None:
    with refusing(BadInput):
        meta(without_golds(), metrics=("bleu", "bleu:n=4"))


def test_one_context_has_figures_and_no_interval() -> None:
    bleu = row(only(meta(rated_items(contexts=1, systems=6))), "bleu")
    assert bleu.spearman.value is not None
    assert (bleu.spearman.low, bleu.spearman.why) == (None, "fewer than 2 contexts")


def test_a_set_without_any_rating_is_refused_with_the_name_of_the_field() -> None:
    items = [item("a", ["x y"], {"s": "x"}, {}), item("b", ["x y"], {"s": "x"}, {"s": [None]})]
    with refusing(BadInput):
        meta(items)


def test_ratings_of_two_scales_in_a_set_are_refused_with_both_items() -> None:
    first, second, third = rated_items(contexts=3)
    items = [first, replace(second, scale=(1, 5)), replace(third, scale=(0, 100))]
    with refusing(BadInput, "100") as refused:
        meta(items)
    assert refused.value.remedy == "bring the ratings to one scale, or make a file of each"
    one_scale = meta([first, replace(second, scale=(1, 5)), replace(third, scale=(1, 5))])
    assert row(only(one_scale), "bleu").spearman.value == row(only(meta([first, second, third])), "bleu").spearman.value
    unrated = replace(third, scale=(0, 100), ratings={})
    assert only(meta([first, replace(second, scale=(1, 5)), unrated])).name == "set1"


def test_a_set_without_replies_is_refused() -> None:
    with refusing(BadInput):
        meta([item("a", ["x"], {}, {})])


# ── several sets ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mean_counts_every_set_the_same() -> None:
    result = meta(rated_items(contexts=8, seed=1), rated_items(contexts=24, seed=2), metrics=("bleu", "ter"))
    assert result.mean is not None
    assert result.mean.sets == ("set1", "set2")
    for place, mean in enumerate(result.mean.rows):
        of_sets = [found.rows[place] for found in result.sets]
        assert {one.name for one in of_sets} == {mean.name}
        assert mean.n == 32 + 96
        for kind in ("spearman", "pearson", "kendall", "partial_spearman"):
            values = [getattr(one, kind).value for one in of_sets]
            expected = None if None in values else pytest.approx(sum(values) / 2)
            assert getattr(mean, kind).value == expected
    ter = result.mean.rows[1]
    assert (ter.turned, ter.differences["spearman"].low is not None) == (True, True)
    assert ter.holm["spearman"] == ter.differences["spearman"].p  # a family of one
    assert [one.name for one in result.mean.rows] == ["bleu", "ter", "length", "human"]


def test_the_mean_has_a_narrower_interval_than_each_of_two_equal_sets() -> None:
    result = meta(rated_items(seed=1), rated_items(seed=1), draws=2_000)
    assert result.mean is not None
    widths = [one.rows[0].spearman.high - one.rows[0].spearman.low for one in (*result.sets, result.mean)]
    assert widths[2] == pytest.approx(widths[0] / math.sqrt(2), rel=0.1)


def test_mean_needs_a_figure_in_every_set_and_the_human_mean_people_in_all() -> None:
    mean = meta(rated_items(), rated_alike()).mean
    assert mean is not None
    assert mean.rows[0].spearman.value is None
    assert mean.rows[0].spearman.why == "in set 2 of 2: all ratings are equal"
    assert mean.rows[0].kendall.why == "all ratings are equal"
    one_sided = meta(rated_items(), rated_items(annotators=1)).mean
    assert one_sided is not None
    assert [one.name for one in one_sided.rows] == ["bleu", "rouge-1", "length"]


def test_one_set_has_no_mean() -> None:
    assert meta(rated_items()).mean is None


# ── settings and records ──────────────────────────────────────────────────────────────────────────────────────────


def test_same_seed_gives_the_same_document_and_another_other_intervals() -> None:
    first, again, other = (meta(rated_items(), seed=seed).as_json() for seed in (1, 1, 2))
    assert first == again
    assert first["sets"][0]["rows"][0]["spearman"]["value"] == other["sets"][0]["rows"][0]["spearman"]["value"]
    assert first["sets"][0]["rows"][0]["spearman"]["interval"] != other["sets"][0]["rows"][0]["spearman"]["interval"]


def test_intervals_hold_the_share_of_draws_that_is_asked_for() -> None:
    wide, narrow = (row(only(meta(rated_items(), confidence=share)), "bleu").spearman for share in (0.99, 0.8))
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert meta(rated_items(), confidence=0.8).as_json()["settings"]["confidence"] == 0.8


def test_json_has_the_points_only_when_asked() -> None:
    result = meta(rated_items(contexts=5))
    assert "points" not in result.as_json()["sets"][0]
    points = result.as_json(points=True)["sets"][0]["points"]
    assert {len(column) for name, column in points.items() if name != "scores"} == {20}
    assert list(points["scores"]) == ["bleu", "rouge-1"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"draws": 0}, "draws: 0 is out of range"),
        ({"draws": 1_000_001}, "draws"),
        ({"confidence": 1.0}, "confidence: 1 is out of range"),
        ({"min_kappa": 1.5}, "1.5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with refusing(Usage, message):
        MetaSettings(**wrong)


def test_metrics_must_be_there_and_different_and_the_baseline_among_them() -> None:
    with refusing(Usage):
        meta(rated_items(), metrics=())
    with refusing(Usage):
        meta(rated_items(), metrics=("bleu", "bleu"))
    with refusing(Usage):
        meta(rated_items(), baseline="chrf")
    with refusing(Usage):
        meta()


def test_the_plain_metrics_that_apply_depend_on_the_references() -> None:
    one = item("a", ["x"], {"s": "y"}, {"s": [1]})
    two = item("b", ["x", "z"], {"s": "y"}, {"s": [1]})
    supplied = item("c", [{"text": "x", "weight": 0.5}], {"s": "y"}, {"s": [1]})
    retrieved = item("d", [{"text": "x", "weight": 0.5, "source": "retrieved"}], {"s": "y"}, {"s": [1]})
    assert default_metrics([one]) == ["bleu", "rouge-l", "chrf"]
    assert default_metrics([one, two]) == ["bleu", "multi-bleu", "rouge-l", "chrf"]
    assert default_metrics([supplied]) == ["multi-bleu", "rouge-l", "chrf"]
    with refusing(BadInput):
        default_metrics([retrieved])
    with_index = AgreementOptions(index="talk")
    assert with_index.settings.weights == "one"  # as refaug-1 finds references
    assert with_index.metrics_for([one]) == ["refaug-1", "bleu", "rouge-l", "chrf"]
    assert with_index.metrics_for([retrieved]) == with_index.metrics_named() == ["refaug-1"]
    assert AgreementOptions(index="talk", metrics=("bleu",)).metrics_for([two]) == ["bleu"]
    bad = BadItem(file="x.jsonl", line=3, item=None, field="id", message="it is empty")
    with refusing(BadInput, "x.jsonl"):
        default_metrics([bad])


@hypothesis_settings(max_examples=8, deadline=None)
@given(st.permutations(range(8)), st.sampled_from([0.5, 1, 3]), st.integers(-5, 5))
def test_order_of_items_and_unit_of_ratings_do_not_change_correlations(
    order: list[int], factor: float, shift: int
) -> None:
    items = rated_items(contexts=8)
    plain = only(meta(items, draws=1))
    moved = [
        item(
            items[place].id,
            [r.text for r in items[place].references],
            dict(items[place].replies),
            {s: [factor * one + shift for one in rated] for s, rated in items[place].ratings.items()},
        )
        for place in order
    ]
    changed = only(meta(moved, draws=1))
    for name in ("bleu", "rouge-1", "length"):
        for kind in ("spearman", "pearson", "kendall"):
            expected = getattr(row(plain, name), kind).value
            assert getattr(row(changed, name), kind).value == pytest.approx(expected, abs=1e-9)
