"""The papers of metrics: those that the catalogue names, as plain facts, and as BibTeX that reads back."""

from __future__ import annotations

import re

import pytest

from refaug.metrics.catalogue import METRICS
from refaug.scoring.citation.citation import Paper, metric_papers, papers, retrieval_papers

_FIELD = re.compile(r"  (\w+) = \{(.*)\},")


def keys(found: list[Paper]) -> list[str]:
    return [paper.key for paper in found]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_the_papers_that_the_catalogue_names(name: str) -> None:
    of_metric = metric_papers(name, {})
    assert of_metric
    stated = set(re.findall(r"(\w+)(?:, \w+| and \w+| et al\.)* (?:and \w+ )?(\d{4})", METRICS[name].paper))
    cited = {(surname, str(paper.year)) for paper in of_metric for surname in [paper.authors[0].partition(",")[0]]}
    years = {year for _, year in cited}
    assert {year for _, year in stated} <= years
    assert any(surname in METRICS[name].paper for surname, _ in cited)
    if name.startswith("upsilon-"):
        assert of_metric[0].key == "tsuta-2020-upsilon-bleu"
        assert (of_metric[1].key == "tsuta-2023-upsilon-bertscore") == (name != "upsilon-bleu")


@pytest.mark.parametrize("paper", papers().values(), ids=lambda paper: paper.key)
def test_an_entry_is_ascii_with_balanced_braces_and_all_authors(paper: Paper) -> None:
    first, *lines, last = paper.bibtex.splitlines()
    assert (first, last) == (f"@{paper.kind}{{{paper.key},", "}")
    fields = dict(match.groups() for line in lines if (match := _FIELD.fullmatch(line)))
    assert len(fields) == len(lines)
    assert paper.bibtex.isascii()
    assert all(content.count("{") == content.count("}") for content in fields.values())
    assert len(fields["author"].split(" and ")) == len(paper.authors)
    assert (fields["year"], paper.key.split("-")[1]) == (str(paper.year), str(paper.year))
    surname = paper.authors[0].partition(",")[0]
    assert paper.key.startswith(surname.lower().replace("ć", "c")[:6])
    assert 1900 < paper.year < 2027
    assert {"booktitle", "journal"} & fields.keys()


def test_authors_in_a_sentence_are_one_two_or_the_first_of_many() -> None:
    in_text = {key: papers()[key].in_text for key in papers()}
    assert in_text["post-2018-sacrebleu"] == "Post, 2018"
    assert in_text["banerjee-2005-meteor"] == "Banerjee and Lavie, 2005"
    assert in_text["galley-2015-delta-bleu"] == "Galley et al., 2015"
    assert in_text["popovic-2015-chrf"] == "Popović, 2015"


def test_settings_bring_the_papers_that_they_stand_on() -> None:
    plain = ["papineni-2002-bleu", "post-2018-sacrebleu"]
    assert keys(metric_papers("multi-bleu", {"smooth": "none"})) == plain
    assert keys(metric_papers("multi-bleu", {"smooth": "add-k[1]"})) == [*plain, "chen-2014-smoothing"]
    assert keys(metric_papers("greedy", {"weighting": "sif"})) == ["rus-2012-greedy", "arora-2017-sif"]
    parts = {"referenced": "upsilon-greedy;weighting=sif", "unreferenced": "rater"}
    assert keys(metric_papers("ruber", parts)) == [
        "tao-2018-ruber",
        "tsuta-2020-upsilon-bleu",
        "tsuta-2023-upsilon-bertscore",
        "rus-2012-greedy",
        "arora-2017-sif",
    ]
    assert metric_papers("of-a-later-release", {}) == []
    assert retrieval_papers({"k": "15"}, {}) == []
    assert "robertson-2009-bm25" in keys(retrieval_papers({"index": "a@1", "mode": "bm25-dialog"}, {}))
    found = keys(retrieval_papers({"index": "a@1", "mode": "embedding-utterance"}, {"weighting": "sif"}))
    assert found == ["tsuta-2020-upsilon-bleu", "johnson-2021-faiss", "arora-2017-sif"]
