"""How a rater does among references: the figures are those of the references one by one, and the page shows them."""

from __future__ import annotations

import base64
import random
import statistics
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raters import tiny_model
from refusals import refusing
from scipy import stats
from unit.agreement.rater_report.test_plots import report_of
from unit.conftest import HOSTILE, TEXTS, Tools, texts_of_pairs

from refaug.agreement.rater_report.page import page, write_report
from refaug.agreement.rater_report.report import (
    RaterDescription,
    RaterReport,
    RetrievedFigures,
    _RetrievedTally,
    report_on_rater,
)
from refaug.core.errors import BadInput
from refaug.core.records import Item, Origin, Reference
from refaug.core.text.normalisation import make_printable
from refaug.rater.nn.checkpoint import NNRater
from refaug.scoring.augmentation import augment
from refaug.scoring.items import BadItem
from refaug.scoring.settings import AugmentSettings
from refaug.tables.reports.plotting import Plot, with_palette

K = 4
ASKED = AugmentSettings(k=K, parrot="rated")
BAD = BadItem(file="some<b>.jsonl", line=3, item=None, field="id", message="it is empty")
ABOUT = RaterDescription(
    spec="tiny@1#0123456789ab",
    id="0123456789abcdef",
    logs=("chat",),
    network={"hidden": 8},
    training={
        **report_of(),
        "mined": {"utterances": 2_373},
        "examples": {"train": {"positive": 7_079}, "validation": {"utterances": 126}},
        "validation_accuracy": 0.67,
        "validation_loss": 0.62,
        "parameters": 293_634,
    },
)
PLOTS = [
    Plot(file=f"{name}.png", png=with_palette(np.zeros((1, 1, 3), np.uint8)), caption=f"of {name}", width=1, height=1)
    for name in ("curves", "reliability", "ratings", "retrieved")
]


def item(name: str, utterance: str | None, *golds: str) -> Item:
    turns = () if utterance is None else (utterance,)
    return Item(id=name, turns=turns, references=tuple(Reference(text=gold) for gold in golds))


def items(count: int = 60) -> list[Item]:
    rng = random.Random(7)
    return [item(f"i{number}", rng.choice(TEXTS), rng.choice(TEXTS)) for number in range(count)]


def reported(tools: Tools, pairs: list[Item | BadItem], **given: Any) -> RaterReport:
    return report_on_rater(ABOUT, tools.rater, tools.index, pairs, ASKED, pairs_from="some.jsonl", **given)


def figures(tools: Tools, pairs: list[Item | BadItem]) -> RetrievedFigures:
    found = reported(tools, pairs).retrieved
    assert found is not None
    return found.figures


def test_pairs_of_the_index_do_not_find_answers_to_their_own_utterance(tools: Tools) -> None:
    seen = [utterance for utterance, _ in texts_of_pairs()[:40]]
    pairs: list[Item | BadItem] = [item(f"i{number}", text, TEXTS[number]) for number, text in enumerate(seen)]
    own, apart = (reported(tools, pairs, of_the_index=which).retrieved for which in (False, True))
    assert own is not None
    assert apart is not None
    assert not [one for example in apart.examples for one in example.references if one.utterance == example.utterance]
    same = sum(one.utterance == example.utterance for example in own.examples for one in example.references)
    assert same > 0
    assert apart.figures.references == own.figures.references - same


def by_hand(lists: list[list[tuple[float, float]]]) -> dict[str, Any]:
    """The figures of (rating, similarity) lists, one a test pair, by the standard library and scipy."""
    flat = [pair for one in lists for pair in one]
    ratings, similarities = [rating for rating, _ in flat], [similarity for _, similarity in flat]
    spreads = [max(r for r, _ in one) - min(r for r, _ in one) for one in lists if len(one) > 1]
    constant = len(flat) < 3 or len(set(ratings)) < 2 or len(set(similarities)) < 2
    return {
        "references": len(flat),
        "mean": statistics.fmean(ratings),
        "quartiles": tuple(statistics.quantiles(ratings, n=4, method="inclusive") if len(flat) > 1 else ratings * 3),
        "above_0": sum(rating > 0 for rating in ratings) / len(ratings),
        "alike": sum(spread <= 0.1 for spread in spreads) / len(spreads) if spreads else None,
        "median_spread": statistics.median(spreads) if spreads else None,
        "spearman": None if constant else stats.spearmanr(similarities, ratings).statistic,
        "pearson": None if constant else stats.pearsonr(similarities, ratings).statistic,
    }


def require_figures(found: RetrievedFigures, lists: list[list[tuple[float, float]]]) -> None:
    for name, value in by_hand(lists).items():
        assert getattr(found, name) == (None if value is None else pytest.approx(value, abs=1e-9)), name
    flat = [pair for one in lists for pair in one]
    counts = [0] * 40
    for rating, _ in flat:
        counts[min(39, sum(rating >= edge for edge in found.histogram.edges[1:]))] += 1
    assert list(found.histogram.counts) == counts
    assert sum(one.count for one in found.by_similarity) == len(flat)
    total = sum(one.count * one.mean for one in found.by_similarity)
    assert total == pytest.approx(sum(rating for rating, _ in flat), abs=1e-6)
    assert [one.similarity for one in found.by_similarity] == sorted(one.similarity for one in found.by_similarity)


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_are_those_of_the_references_one_by_one(tools: Tools) -> None:
    pairs = items()
    lists = []
    for one in augment(pairs, tools.index, tools.rater, ASKED):
        assert isinstance(one, Item)
        retrieved = [each for each in one.references if each.source is Origin.RETRIEVED]
        lists.append([(each.rating or 0.0, each.similarity or 0.0) for each in retrieved])
    assert all(len(one) == K for one in lists)
    found = figures(tools, list(pairs))
    assert (found.pairs, found.rated_pairs, found.without) == (60, 60, {})
    require_figures(found, lists)


hundredths = st.integers(-100, 100).map(lambda number: number / 100)


@settings(max_examples=40, deadline=None)
@given(lists=st.lists(st.lists(st.tuples(hundredths, hundredths), min_size=1, max_size=5), min_size=1, max_size=8))
def test_figures_of_any_ratings_are_those_by_hand(lists: list[list[tuple[float, float]]]) -> None:
    tally = _RetrievedTally()
    for one in lists:
        references = tuple(
            Reference(text="x", source=Origin.RETRIEVED, rating=rating, weight=rating, similarity=similarity)
            for rating, similarity in one
        )
        parrot = Reference(text="u", source=Origin.PARROT, rating=1.0, weight=1.0)
        pair = Item(id="i", turns=("u",), references=(Reference(text="gold"), parrot, *references))
        assert tally.add(pair)
    require_figures(tally.figures(), lists)


def test_a_rater_that_rates_all_references_about_the_same_is_told_of(tools: Tools) -> None:
    model = tiny_model(tools.rater.model.config.vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.01)
    indifferent = NNRater(model, tools.rater.tokenizer, spec="flat@1#000000000000")
    flat = report_on_rater(ABOUT, indifferent, tools.index, items(9), ASKED, pairs_from="some.jsonl")
    assert flat.retrieved is not None
    assert flat.retrieved.figures.alike == 1.0
    told = "In 100.0 % of the test pairs all references are rated about the same"
    assert told in page(flat, PLOTS)
    other = reported(tools, list(items(9)))
    assert other.retrieved is not None
    assert (other.retrieved.figures.alike or 0.0) < 0.5
    assert "about the same (within" not in page(other, PLOTS)


def test_test_pairs_without_rated_references_are_counted_by_why(tools: Tools) -> None:
    pairs: list[Item | BadItem] = [
        item("none", None, "the red boats"),
        item("no gold", "how do boats fly"),
        item("unknown", "xyzzy", "no"),
        BAD,
        *items(3),
    ]
    found = reported(tools, pairs).retrieved
    assert found is not None
    assert (found.figures.pairs, found.figures.rated_pairs) == (6, 3)
    assert sum(found.figures.without.values()) == 3
    assert found.figures.without["no_gold"] == 1
    assert found.bad_items == (BAD,)
    assert [one.id for one in found.examples] == ["i0", "i1", "i2"]


def test_without_references_figures_are_missing_and_the_page_is_written(tools: Tools, tmp_path: Path) -> None:
    report = reported(tools, [item("unknown", "xyzzy", "no")])
    assert report.retrieved is not None
    found = report.retrieved.figures
    assert (found.mean, found.quartiles, found.above_0, found.alike, found.spearman) == (None,) * 5
    assert sum(found.histogram.counts) == 0
    written = write_report(report, tmp_path / "report")
    assert "retrieved.png" not in [path.name for path in written]


def test_without_test_pairs_there_is_nothing_to_report(tools: Tools) -> None:
    with refusing(BadInput, "some.jsonl"):
        reported(tools, [BAD])


# ── examples ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_examples_are_the_first_with_references_sorted_by_weight(tools: Tools) -> None:
    found = reported(tools, [item("unknown", "xyzzy", "no"), *items(60)]).retrieved
    assert found is not None
    assert [one.id for one in found.examples] == [f"i{number}" for number in range(50)]
    given_items = {one.id: one for one in items(60)}
    for one in found.examples:
        own = given_items[one.id]
        assert (one.utterance, one.golds) == (own.utterance, tuple(each.text for each in own.references))
        weights = [each.weight for each in one.references]
        assert None not in weights
        assert weights == sorted(weights, key=lambda weight: -(weight or 0.0))
        assert len(weights) == K + 1  # the parrot too
        assert [each.text for each in one.references if each.source is Origin.PARROT] == [own.utterance]


def test_equal_reports_are_equal_files(tools: Tools, tmp_path: Path) -> None:
    first, second = (write_report(reported(tools, list(items(5))), tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [one.read_bytes() for one in first] == [other.read_bytes() for other in second]


# ── page ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Parsed(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = list[str](), list[tuple[str, str | None]](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_of_others_are_text_on_the_page(tools: Tools) -> None:
    pairs: list[Item | BadItem] = [BAD, item(HOSTILE, f"the red boats {HOSTILE}", HOSTILE, "a second gold")]
    report = reported(tools, pairs)
    assert report.retrieved is not None
    (example,) = report.retrieved.examples
    content = page(report, PLOTS)
    parsed = Parsed(content)
    assert "script" not in parsed.tags
    assert not {"\u202e", "\x07"} & set(content)
    for text in (HOSTILE, "a second gold", example.utterance, *(each.text for each in example.references)):
        assert make_printable(text) in parsed.text
    assert str(BAD) in parsed.text


def test_page_is_self_contained_and_its_pictures_lie_beside_it(tools: Tools, tmp_path: Path) -> None:
    html, figures_file, *pictures = write_report(reported(tools, list(items(3))), tmp_path / "new" / "report")
    assert [html.name, figures_file.name] == ["index.html", "report.json"]
    assert [one.name for one in pictures] == ["curves.png", "reliability.png", "ratings.png", "retrieved.png"]
    parsed = Parsed(html.read_text("utf-8"))
    embedded = {str(value).partition(",")[2] for name, value in parsed.attributes if name == "src"}
    plots = [Plot(file=one.name, png=one.read_bytes(), caption="", width=1, height=1) for one in pictures]
    assert embedded == {base64.b64encode(plot.webp).decode() for plot in plots}
    anchors = {value for name, value in parsed.attributes if name == "id"}
    links = [str(value) for name, value in parsed.attributes if name == "href"]
    assert links == ["#training", "#retrieved", "#examples", "#how"]
    assert all(link[1:] in anchors for link in links)
    assert "//" not in "".join(links)
    assert sorted(path.name for path in html.parent.iterdir()) == sorted(
        [html.name, figures_file.name, *(one.name for one in pictures)]
    )


def test_the_file_of_figures_is_the_report(tools: Tools, tmp_path: Path) -> None:
    report = reported(tools, list(items(3)))
    _, file, *_ = write_report(report, tmp_path)
    written = orjson.loads(file.read_bytes())
    assert written == orjson.loads(orjson.dumps(report.as_json()))
    assert report.retrieved is not None
    assert written["retrieved"]["mean"] == report.retrieved.figures.mean
    assert written["retrieved"]["made_by"]["k"] == str(K)
    first = written["retrieved"]["examples"][0]["references"]
    assert [one["weight"] for one in first] == [one.weight for one in report.retrieved.examples[0].references]
    assert {one["source"] for one in first} == {"parrot", "retrieved"}
    assert [one["utterance"] is None for one in first] == [one["source"] == "parrot" for one in first]


def test_a_report_of_training_alone_copes_with_what_an_old_one_lacks() -> None:
    training = dict(ABOUT.training)
    old = RaterReport(about=replace(ABOUT, training={k: v for k, v in training.items() if k != "ratings"}))
    short = {"utterances": 1_120, "auc_good_vs_wrong": None}
    new = RaterReport(about=replace(ABOUT, training={**training, "short": short}))
    parsed = [Parsed(page(old, PLOTS[:2])), Parsed(page(new, PLOTS[:3]))]
    captions = [[value for name, value in one.attributes if name == "alt"] for one in parsed]
    assert captions == [["of curves", "of reliability"], ["of curves", "of reliability", "of ratings"]]
    texts = [one.text for one in parsed]
    assert ["too short" in text for text in texts] == [False, True]
    assert "AUC on 1,120 utterances too short to be learnt from–" in texts[1]
    assert all("3 (kept)" in text and "0.7600" in text and "76.0 % of cases" in text for text in texts)
