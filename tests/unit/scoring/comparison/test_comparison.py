"""Two score files side by side: tests as `score --baseline` has them, what is refused, and which replies changed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from refusals import refusing
from set_items import item_of, words

from refaug.core.errors import BadInput, Interrupted, Usage
from refaug.core.records import Item
from refaug.metrics.metric_info import CorpusScore
from refaug.metrics.specification import build
from refaug.scoring.comparison.comparison import ComparisonRequest, PairComparison, RunComparison, compare
from refaug.scoring.comparison.page import page
from refaug.scoring.comparison.reply_changes import ChangeFilter, Direction
from refaug.scoring.comparison.wording import as_csv, as_latex
from refaug.scoring.evaluate import evaluate
from refaug.scoring.provenance import with_provenance
from refaug.scoring.score_files.score_document import details_of
from refaug.scoring.score_files.score_file import ScoreFile, sealed
from refaug.scoring.scores import Evaluation, percent
from refaug.scoring.settings import ScoreSettings

METRICS = ("upsilon-bleu", "multi-bleu", "rouge-l", "ter", "upsilon-rouge-l:b=0.1")
SETTINGS = ScoreSettings(draws=200, seed=3)
PROVENANCE = "k:4|mode:embedding-utterance|gold:one|parrot:rated|weights:rated|index:chat@1#aaaa|rater:base@1#bbbb"
REQUEST = ComparisonRequest(settings=SETTINGS, systems=("old", "new"))


@cache
def items(count: int = 24) -> tuple[Item, ...]:
    import random  # noqa: PLC0415

    rng = random.Random("replies")
    made = []
    for number in range(1, count + 1):
        replies = {"old": words(rng), "new": words(rng)}
        if number == 5:
            del replies["new"]
        made.append(with_provenance(replace(item_of(number), replies=replies), PROVENANCE))
    return tuple(made)


def only(system: str, test_items: Sequence[Item], name: str = "model") -> list[Item]:
    return [
        replace(each, replies={name: each.replies[system]} if system in each.replies else {}) for each in test_items
    ]


def scored(test_items: Sequence[Item], metrics: Sequence[str] = METRICS, **settings: Any) -> Evaluation:
    return evaluate(test_items, [build(name) for name in metrics], replace(SETTINGS, **settings))


def file_of(
    evaluation: Evaluation, test_items: Sequence[Item] | None = None, name: str = "a.json", **more: Any
) -> ScoreFile:
    details = {} if test_items is None else {"details": details_of(evaluation, test_items)}
    document = sealed({**evaluation.as_json(), **details, **more})
    return ScoreFile.of(json.loads(json.dumps(document)), name)


@cache
def both() -> tuple[Evaluation, ScoreFile]:
    evaluation = scored(items(), baseline="old")
    return evaluation, file_of(evaluation, items())


@cache
def two_files() -> tuple[ScoreFile, ScoreFile]:
    old, new = only("old", items()), only("new", items())
    return file_of(scored(old), old, "old.json"), file_of(scored(new), new, "new.json")


@cache
def compared() -> RunComparison:
    _, file = both()
    return compare(file, file, REQUEST)


def pair_of(comparison: RunComparison, metric: str) -> PairComparison:
    return next(pair for pair in comparison.pairs if pair.metric == metric)


# ── tests ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tests_are_those_of_score_with_a_baseline() -> None:
    evaluation, _ = both()
    for scores, pair in zip(evaluation.scores, compared().pairs, strict=True):
        expected = scores.comparisons["new"].as_json()
        test = pair.main
        assert test.level == ("mean" if scores.metric.info.corpus is CorpusScore.MEAN else "corpus")
        assert test.difference == pytest.approx(expected["difference"], abs=1e-12)
        assert list(test.interval or ()) == pytest.approx(expected["interval"], abs=1e-12)
        assert test.p_bootstrap == expected["p_bootstrap"]
        assert test.p_randomisation == expected["p_randomisation"]
        assert (test.replies, test.left_out) == (expected["replies"], expected["left_out"])


def test_two_files_give_what_two_systems_of_one_file_give() -> None:
    of_files = compare(*two_files(), ComparisonRequest(settings=SETTINGS))
    assert of_files.is_comparable
    for pair, expected in zip(of_files.pairs, compared().pairs, strict=True):
        assert pair.tests == expected.tests
        assert pair.counts == expected.counts
        assert [change.id for change in pair.changes] == [change.id for change in expected.changes]


def test_a_check_may_end_the_work_between_two_blocks_of_draws() -> None:
    calls = 0

    def give_up() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:  # within the tests of the first pair
            raise Interrupted

    _, file = both()
    with pytest.raises(Interrupted):
        compare(file, file, replace(REQUEST, check=give_up))
    assert calls == 4


def test_holm_is_over_all_metrics_and_of_the_main_test_alone() -> None:
    p_values = [pair.main.p_randomisation for pair in compared().pairs]
    order, running, expected = np.argsort(p_values, kind="stable"), 0.0, [0.0] * len(p_values)
    for place, metric in enumerate(order):
        running = max(running, min(1.0, (p_values[metric] or 0.0) * (len(p_values) - place)))
        expected[metric] = running
    assert [pair.main.holm_p for pair in compared().pairs] == pytest.approx(expected)
    assert all(test.holm_p is None for pair in compared().pairs for test in pair.tests if test is not pair.main)


def test_a_file_without_details_has_a_test_of_the_mean_alone_and_says_so() -> None:
    evaluation, _ = both()
    file = file_of(evaluation)
    assert file.document["format_version"] == 1
    comparison = compare(file, file, REQUEST)
    pair, expected = pair_of(comparison, "multi-bleu"), pair_of(compared(), "multi-bleu")
    assert pair.tests[0].p_randomisation is None
    assert pair.tests[0].difference == pytest.approx(
        evaluation.scores[1].systems["new"].corpus - evaluation.scores[1].systems["old"].corpus  # type: ignore[operator]
    )
    assert replace(pair.tests[1], holm_p=None) == expected.tests[1]
    assert pair.main is pair.tests[1]
    assert any("there are no sums in a.json" in warning for warning in comparison.warnings)
    assert not comparison.has_texts


def test_scores_in_per_cent_and_not_are_put_on_one_scale() -> None:
    old, new = only("old", items()), only("new", items())
    metrics = METRICS[1:3]
    first = file_of(percent(scored(old, metrics)), old)
    second = file_of(scored(new, metrics), new)
    mixed = compare(first, second, ComparisonRequest(settings=SETTINGS))
    for pair in mixed.pairs:
        expected = pair_of(compared(), pair.metric)
        assert pair.main.difference == pytest.approx(expected.main.difference)
        assert pair.counts == expected.counts
    both_in_percent = compare(first, file_of(percent(scored(new, metrics)), new), ComparisonRequest(settings=SETTINGS))
    for pair in both_in_percent.pairs:
        assert pair.scale == 100
        assert pair.main.difference == pytest.approx(100 * (pair_of(compared(), pair.metric).main.difference or 0))


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("metric", [name.partition(":")[0] for name in METRICS])
def test_improved_means_better_whatever_the_direction_of_the_metric(metric: str) -> None:
    evaluation, _ = both()
    scores = next(each for each in evaluation.scores if each.metric.name == metric)
    expected = dict.fromkeys(Direction, 0)
    for old, new in zip(scores.systems["old"].each_score(), scores.systems["new"].each_score(), strict=True):
        if old is None or new is None:
            expected[
                Direction.UNSCORED
                if old is None and new is None
                else Direction.SCORED_NOW
                if old is None
                else Direction.UNSCORED_NOW
            ] += 1
            continue
        gain = (new - old) * (-1 if metric == "ter" else 1)
        expected[
            Direction.IMPROVED if gain > 1e-9 else Direction.REGRESSED if gain < -1e-9 else Direction.UNCHANGED
        ] += 1
    pair = pair_of(compared(), metric)
    assert pair.counts == expected
    improved = [change for change in pair.changes if change.direction is Direction.IMPROVED]
    sizes = [abs(change.change or 0) for change in improved]
    assert sizes == sorted(sizes, reverse=True)
    assert len(improved) == min(20, expected[Direction.IMPROVED])


def test_credits_are_those_that_explain_writes() -> None:
    evaluation = scored(items(), METRICS[:1], explain=True)
    expected = {reply["id"]: reply for reply in evaluation.scores[0].systems["new"].each_reply()}
    change = pair_of(compared(), "upsilon-bleu").changes[0]
    explanation = expected[change.id]
    sums = dict.fromkeys(range(len(explanation["without_reference"])), 0.0)
    for record in explanation["credited"]:
        sums[record["reference"]] += record["credit"]
    by_text: dict[str, list[tuple[float, float]]] = {}
    for place, without in enumerate(explanation["without_reference"]):
        by_text.setdefault(without["text"], []).append((without["weight"], sums[place]))
    computed: dict[str, list[tuple[float, float]]] = {}
    for reference in change.references:
        assert reference.second_weight is not None
        assert reference.second_credit is not None
        computed.setdefault(reference.text, []).append((reference.second_weight, reference.second_credit))
    assert {text: sorted(pairs) for text, pairs in computed.items()} == {
        text: sorted(pairs) for text, pairs in by_text.items()
    }
    test_item = next(each for each in items() if each.id == change.id)
    assert (change.utterance, change.first.text, change.second.text) == (
        test_item.utterance, test_item.replies["old"], test_item.replies["new"],
    )  # fmt: skip
    assert change.first.references == len(test_item.references)


def test_a_file_with_explanations_has_credits_without_details() -> None:
    file = file_of(scored(items(), METRICS[:1], explain=True))
    comparison = compare(file, file, REQUEST)
    assert [each.references[0].second_credit for each in comparison.pairs[0].changes[:5]] == [
        each.references[0].second_credit for each in pair_of(compared(), "upsilon-bleu").changes[:5]
    ]


def test_evidence_and_explanations_of_another_form_are_left_out() -> None:
    file = file_of(scored(items(), METRICS[:1], explain=True))
    document = json.loads(json.dumps(file.document)) | {"evidence": "none"}
    row = document["scores"][0]["systems"]["new"]["replies"][0]
    row["credited"], row["without_reference"][0]["weight"] = [0.5, {"reference": 0, "credit": "much"}], "high"
    document["scores"][0]["systems"]["old"]["replies"][0]["without_reference"] = [None]
    changed_file = ScoreFile.of(sealed(document), "a.json")
    request = replace(REQUEST, changes=ChangeFilter(limit=None))
    [pair] = compare(changed_file, changed_file, request).pairs
    shown = next(change for change in pair.changes if change.id == row["id"])
    assert {(each.second_credit, each.first_weight) for each in shown.references} == {(0.0, None)}
    assert shown.references[0].second_weight == 1.0


def changes(chosen: ChangeFilter) -> list[Any]:
    _, file = both()
    request = replace(REQUEST, metrics=("rouge-l",), changes=chosen)
    return list(compare(file, file, request).pairs[0].changes)


def test_filters_list_what_they_say() -> None:
    everything = changes(ChangeFilter(limit=None))
    assert changes(ChangeFilter(only=Direction.REGRESSED, limit=None)) == [
        change for change in everything if change.direction is Direction.REGRESSED
    ]
    assert changes(ChangeFilter(min_change=0.3, limit=None)) == [
        change for change in everything if abs(change.change) >= 0.3
    ]
    assert changes(ChangeFilter(grep="TEA|never", limit=None)) == [
        change
        for change in everything
        if any(
            word in text
            for word in ("tea", "never")
            for text in (change.utterance, change.first.text, change.second.text)
        )
    ]
    assert len(changes(ChangeFilter(limit=2))) == 4
    with refusing(Usage):
        ChangeFilter(grep="(")


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────────


def changed(file: ScoreFile, change: Callable[[dict[str, Any]], None]) -> ScoreFile:
    document = json.loads(json.dumps(file.document))
    del document["checksum"]
    change(document)
    return ScoreFile.of(sealed(document), "new.json")


def with_signature(place: int, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        scores = document["scores"][place]
        assert old in scores["signature_full"]
        scores["signature_full"] = scores["signature_full"].replace(old, new)

    return change


def other_references(document: dict[str, Any]) -> None:
    document["scores"][0]["references"] = "0123456789ab"


@pytest.mark.parametrize(
    ("change", "facts", "remedy"),
    [
        (lambda document: document.update(data="0123456789ab"), ["0123456789ab"], "items"),
        (with_signature(0, "parrot:rated", "parrot:off"), ["upsilon-bleu", "parrot", "rated", "off"], "--parrot"),
        (with_signature(1, "n:2", "n:4"), ["multi-bleu", "n: 2", "4"], "--signature"),
        (with_signature(4, "b:0.1", "b:0.2"), ["upsilon-rouge-l", "0.1", "0.2"], "b"),
        (other_references, ["upsilon-bleu", "0123456789ab"], "set"),
        (lambda document: document.update(format_version=1, items=25) or document.pop("items"), None, ""),
    ],
)
def test_what_is_not_comparable_is_refused_with_what_would_be_right(
    change: Callable[[dict[str, Any]], None], facts: list[str] | None, remedy: str
) -> None:
    first, second = two_files()
    second = changed(second, change)
    request = ComparisonRequest(settings=SETTINGS)
    if facts is None:
        assert compare(first, second, request).is_comparable
        return
    with refusing(BadInput, *facts, remedy):
        compare(first, second, request)
    forced = compare(first, second, replace(request, is_forced=True))
    assert not forced.is_comparable
    assert forced.as_json()["comparable"] is False
    assert forced.warnings[0].startswith("these scores are not comparable, and were compared all the same: ")
    assert "not comparable" in page(forced)
    assert "not comparable" in as_latex(forced)
    assert "not comparable" in as_csv(forced)


def test_a_file_that_was_changed_is_refused() -> None:
    first, second = two_files()
    document = json.loads(json.dumps(second.document))
    document["scores"][0]["systems"]["model"]["replies"][0]["score"] = 1.0
    with refusing(BadInput, "new.json"):
        compare(first, ScoreFile.of(document, "new.json"), ComparisonRequest(settings=SETTINGS))


def test_what_cannot_change_a_score_is_noted() -> None:
    first, second = two_files()
    second = changed(second, with_signature(0, "chat@1#aaaa", "chat@2#cccc"))
    second = changed(second, with_signature(1, "tokenizer.:unicode 14.0.0", "tokenizer.:unicode 99.0.0"))
    comparison = compare(first, second, ComparisonRequest(settings=SETTINGS))
    assert comparison.is_comparable
    assert [line for line in comparison.warnings if "should not change a score" in line] == [
        "upsilon-bleu: index: chat@1#aaaa and chat@2#cccc, which should not change a score",
        "multi-bleu: tokenizer: unicode 14.0.0 and unicode 99.0.0, which should not change a score",
    ]


def test_names_that_no_file_has_are_refused() -> None:
    _, file = both()
    first, second = two_files()
    for request, *facts in (
        (ComparisonRequest(systems=("old", "newer")), "a.json", "'newer'"),
        (ComparisonRequest(systems=("old", "old")), "old"),
        (ComparisonRequest(), 2),
        (replace(REQUEST, metrics=("bleu",)), "a.json", "bleu"),
        (replace(REQUEST, settings=ScoreSettings(draws=0)), "draws"),
    ):
        with refusing(Usage, *facts):
            compare(file, file, request)
    with refusing(Usage, "old"):
        compare(first, second, ComparisonRequest(system="old"))
    with refusing(Usage):
        compare(first, file_of(scored(items(), METRICS[:1])), ComparisonRequest(is_forced=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda details: details.pop("sums"), "details.sums"),
        (lambda details: details["sums"].clear(), "details.sums"),
        (lambda details: details["sums"][0].update(systems=-1), "a row for each of 24 replies"),
        (lambda details: details["sums"][0]["systems"]["model"].pop(), "a row for each of 24 replies"),
        (lambda details: details["sums"][0]["systems"]["model"][0].append(1), "a row is not"),
        (lambda details: details["items"][0].update(references="tea"), "details.items"),
    ],
)
def test_damaged_details_are_refused_at_their_place(change: Callable[[dict[str, Any]], None], message: str) -> None:
    first, second = two_files()
    damaged = changed(second, lambda document: change(document["details"]))
    request = ComparisonRequest(settings=SETTINGS, changes=ChangeFilter(limit=None))
    with refusing(BadInput, message):
        compare(first, damaged, request)


# ── for people ────────────────────────────────────────────────────────────────────────────────────────────────────────

NAME = '=</title><script>alert("x")</script>'
HOSTILE = '<script>alert("x")</script>\u202e =1+1 \x00'


@cache
def hostile() -> RunComparison:
    made = [
        replace(
            each,
            replies={NAME: f"{HOSTILE} {each.replies['old']}", "@&{}$": "=" + each.replies["old"] * 900},
        )
        for each in items(8)
    ]
    file = file_of(scored(made, METRICS[:1]), made, HOSTILE)
    return compare(file, file, replace(REQUEST, systems=(NAME, "@&{}$")))


def test_texts_of_users_are_shown_as_texts() -> None:
    text = page(hostile())
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "http:" not in text
    assert "https:" not in text
    assert len(text) < 200_000
    rows = list(csv.DictReader(io.StringIO(as_csv(hostile()))))
    assert {row["first_system"] for row in rows if row["kind"] == "test"} == {f"'{NAME}"}
    assert all(row["second_reply"].startswith("'=") for row in rows if row["kind"] == "reply")


def test_the_csv_has_every_test_and_every_listed_reply_at_full_precision() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(compared()))))
    tests = [row for row in rows if row["kind"] == "test"]
    assert [float(row["difference"]) for row in tests] == [
        test.difference for pair in compared().pairs for test in pair.tests
    ]
    replies = [row for row in rows if row["kind"] == "reply"]
    assert [row["id"] for row in replies] == [change.id for pair in compared().pairs for change in pair.changes]


def test_the_latex_table_has_a_row_for_each_metric_and_balanced_braces() -> None:
    for comparison in (compared(), hostile()):
        text = as_latex(comparison)
        body = [line for line in text.splitlines() if not line.startswith("%")]
        plain = "\n".join(body).replace("\\{", "").replace("\\}", "").replace("\\textbackslash{}", "")
        assert plain.count("{") == plain.count("}")
        assert sum(line.endswith(r"\tabularnewline") for line in body) == 1 + len(comparison.pairs)
