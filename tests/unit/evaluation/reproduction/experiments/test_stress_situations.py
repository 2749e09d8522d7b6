"""The situations of the stress test on a small proof: which references and which rater each of them scores with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from proofs import TinyChain, scored_by_hand, tiny_chain, tiny_set, write_log
from scipy import stats

from refaug.core.errors import BadInput
from refaug.core.records import Reference
from refaug.evaluation.home.indexes import open_index
from refaug.evaluation.reproduction.experiments.stress import CANDIDATES, stress
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.material.chain import IndexRecipe
from refaug.evaluation.reproduction.material.metric_candidates import EMBEDDING, REPLY, MetricCandidate, Trial
from refaug.evaluation.reproduction.material.proof_logs import ELSEWHERE
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import MATCHED, ONE
from refaug.evaluation.reproduction.report.report import Report
from refaug.rater.rating import RatingRequest

pytestmark = pytest.mark.slow

BLEU = CANDIDATES[0]
BY_WORDS = MetricCandidate(
    name="υBLEU, words",
    why="",
    family="bleu",
    metric="upsilon-bleu:bp=closest",
    kind="one",
    mode="bm25-utterance",
)
LOST = replace(BLEU, name="lost", metric="upsilon-bleu:n=1,bp=closest")  # its scores are an error below


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    """A chain whose third log has dialogues of another domain."""
    folder = tmp_path_factory.mktemp("stress")
    chain = tiny_chain(folder)
    write_log(folder / "data" / "logs" / "medium_en.jsonl.gz", ELSEWHERE[0], 3, 150)
    return chain


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    return [tiny_set("first", 5), tiny_set("second", 6)]


@pytest.fixture(scope="module")
def report(chain: TinyChain, sets: list[ProofSet]) -> Report:
    line_of_candidate = Trial.line

    def line(trial: Trial, candidate: MetricCandidate, *others: Any, **options: Any) -> Line:
        if candidate.name == LOST.name:
            raise BadInput("it has no range")
        return line_of_candidate(trial, candidate, *others, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "line", line)
        return stress(chain, sets, (BLEU, BY_WORDS, REPLY, LOST))


def test_situations_come_in_order_and_a_log_too_small_is_a_gap(report: Report) -> None:
    situations = report.data["situations"]
    assert list(situations) == [
        "as it is",
        "log of other domains",
        "log and rater of other domains",
        *(name for name in situations if name.startswith("length")),
        "1 % of the log",
    ]
    assert len(situations) == 6
    gaps = {name: situation["gap"] for name, situation in situations.items() if "gap" in situation}
    assert gaps.pop("1 % of the log").endswith(": empty")
    assert gaps == {}
    for name in ("length and rating at 0", "length and rating at +.25"):  # a candidate without scores leaves the others
        assert set(situations[name]["missing"].values()) == {"it has no range"}
        assert set(situations[name]["missing"]).isdisjoint(situations[name]["less_gold_alone"])
        assert situations[name]["less_gold_alone"]


def spearman(report: Report, situation: str, line: str, rated: ProofSet) -> float:
    return float(report.data["situations"][situation]["figures"][line]["spearman"][rated.name]["value"])


@pytest.mark.parametrize(
    ("situation", "is_elsewhere", "rater"),
    [
        ("as it is", False, "proof"),
        ("log of other domains", True, "proof"),
        ("log and rater of other domains", True, "proof-elsewhere"),
    ],
)
def test_a_situation_scores_with_its_own_log_and_rater(
    chain: TinyChain, sets: list[ProofSet], report: Report, situation: str, is_elsewhere: bool, rater: str
) -> None:
    elsewhere = IndexRecipe(name="proof-elsewhere", selections=(chain.select("medium", sources=ELSEWHERE),))
    with open_index(chain.home, chain.index(elsewhere) if is_elsewhere else chain.main_index()) as index:
        for rated in sets:
            scores = scored_by_hand(index, chain.rater(name=rater), rated, EMBEDDING, weights="rated")
            expected = stats.spearmanr(scores[rated.fair], rated.ratings[rated.fair]).statistic
            assert spearman(report, situation, BLEU.name, rated) == pytest.approx(expected, abs=1e-3)


def test_replies_are_rated_by_the_rater_of_the_situation(
    chain: TinyChain, sets: list[ProofSet], report: Report
) -> None:
    figures = []
    for situation, name in (("log of other domains", "proof"), ("log and rater of other domains", "proof-elsewhere")):
        for rated in sets:
            requests = [
                RatingRequest(
                    utterance=rated.items[rated.item[row]].utterance or "",
                    golds=(rated.items[rated.item[row]].references[0].text,),
                    candidates=(Reference(text=reply),),
                )
                for row, reply in enumerate(rated.replies)
            ]
            ratings = np.array([rating for (rating,) in chain.rater(name=name).rate(requests)])
            expected = stats.spearmanr(ratings[rated.fair], rated.ratings[rated.fair]).statistic
            assert spearman(report, situation, REPLY.name, rated) == pytest.approx(expected, abs=1e-3)
            figures.append(round(float(expected), 2))
    assert figures[:2] != figures[2:]


def test_only_what_asks_a_rater_is_tried_with_the_rater_of_other_domains(report: Report) -> None:
    figures = report.data["situations"]["log and rater of other domains"]["figures"]
    assert {BLEU.name, REPLY.name} <= set(figures)
    assert BY_WORDS.name not in figures


def test_each_mode_of_a_set_has_references_of_its_own(chain: TinyChain, sets: list[ProofSet], report: Report) -> None:
    elsewhere = IndexRecipe(name="proof-elsewhere", selections=(chain.select("medium", sources=ELSEWHERE),))
    with open_index(chain.home, chain.index(elsewhere)) as index:
        for rated in sets:
            scores = scored_by_hand(index, chain.rater(), rated, "bm25-utterance", weights="one")
            expected = stats.spearmanr(scores[rated.fair], rated.ratings[rated.fair]).statistic
            assert spearman(report, "log of other domains", BY_WORDS.name, rated) == pytest.approx(expected, abs=1e-3)


def test_a_candidate_without_scores_is_named_and_the_others_are_judged(report: Report) -> None:
    for name in ("as it is", "log of other domains", "log and rater of other domains"):
        situation = report.data["situations"][name]
        assert situation["missing"] == {"lost": "it has no range"}
        judged = [BLEU.name, REPLY.name] if "rater" in name else [BLEU.name, BY_WORDS.name, REPLY.name]
        assert list(situation["less_gold_alone"]) == judged
    assert [note for note in report.notes if note.startswith("as it is, ")] == ["as it is, lost: it has no range"]


# ── lines of a trial ──────────────────────────────────────────────────────────────────────────────────────────────


def test_only_lines_by_chance_are_computed_once_for_every_seed(chain: TinyChain, sets: list[ProofSet]) -> None:
    trial = Trial(chain, [rated.with_first_gold() for rated in sets])
    rows = {rated.name: len(rated.replies) for rated in sets}

    def shapes(line: Line) -> dict[str, tuple[int, ...]]:
        return {name: np.atleast_2d(scores).shape for name, scores in line.scores.items()}

    assert shapes(trial.line(replace(BLEU, kind=ONE), {})) == {name: (1, count) for name, count in rows.items()}
    by_chance = trial.line(replace(BLEU, kind=MATCHED), {})
    assert shapes(by_chance) == {name: (chain.settings.seeds, count) for name, count in rows.items()}
    assert not np.array_equal(by_chance.scores["first"][0], by_chance.scores["first"][1])
