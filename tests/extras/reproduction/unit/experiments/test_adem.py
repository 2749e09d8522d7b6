"""`reproduce adem` in small: all protocols and controls, length by hand, verdicts, and the same report once more."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from proofs import TEXTS, TinyChain, tiny_chain, tiny_set, write_log
from refusals import refusing
from scipy import stats

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput
from refaug.core.records import Reference
from refaug.extras.reproduction.experiments.adem import WITHOUT_CONTEXT, WITHOUT_REFERENCES, adem
from refaug.extras.reproduction.learned import learners, lines
from refaug.extras.reproduction.learned.learners import RATER_ALONE, UPSILON_ALONE
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.report.report import ExperimentReport, write_report
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.rater.rating import RatingRequest

pytestmark = pytest.mark.slow


def write_rated(path: Path, seed: int, contexts: int, **fields: Any) -> None:
    """Write rated replies as they are released; `fields` replace those of every row."""
    rng = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        for number in range(contexts):
            own = {
                "context_id": f"{path.stem}-{number}",
                "context": rng.sample(TEXTS, 2),
                "references": rng.sample(TEXTS, 1),
            }
            for system in "ab":
                row = {**own, "system": system, "response": rng.choice(TEXTS), "scores": [rng.randint(1, 5)]}
                file.write(orjson.dumps(row | fields) + b"\n")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    """A chain with enough dialogues to learn pieces from, two live chats and a forum."""
    chain = tiny_chain(tmp_path_factory.mktemp("adem"), seeds=1)
    data = chain.settings.data
    for number, name in enumerate(("dailydialog_en", "small_en"), start=1):
        write_log(data / "logs" / f"{name}.jsonl.gz", name, number, 260)
    for seed, name in enumerate(WITHOUT_REFERENCES):
        write_rated(data / "human" / f"{name}.jsonl.gz", seed, 40, references=[])
    write_rated(data / "human" / f"{WITHOUT_CONTEXT}.jsonl.gz", 7, 60, context=[])
    return chain


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    names = ("dailydialog_gupta", "dailydialog_zhao", "third")
    return [tiny_set(name, seed, items=60) for seed, name in enumerate(names, start=1)]


@pytest.fixture(scope="module", autouse=True)
def few_fits() -> Iterator[None]:
    """A few epochs of a fit, and a choice between two settings, tell as much about the tables as all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_EPOCHS", 2)
        patch.setattr(learners, "COMPONENTS", (10,))
        patch.setattr(learners, "PENALTIES", (0.02, 0.3))
        yield


@pytest.fixture(scope="module")
def report(chain: TinyChain, sets: list[ProofSet], few_fits: None) -> ExperimentReport:
    return adem(chain, sets)


def test_each_protocol_has_each_form_and_its_controls(report: ExperimentReport) -> None:
    figures = report.data["with_references"]["figures"]
    for form in ("ADEM", "C-ADEM", "R-ADEM"):
        assert {f"{form}, random", f"{form}, shuffled labels", f"{form}, before training"} <= figures.keys()
    assert {"ridge on vectors", "rater, linear head", "length alone", "rater as it is"} <= figures.keys()
    assert report.data["with_references"]["groups"] == {
        "DailyDialog": ["dailydialog_gupta", "dailydialog_zhao"],
        "third": ["third"],
    }
    without = report.data["without_references"]
    assert set(WITHOUT_REFERENCES) <= without["rows"].keys()
    assert not {name for name in without["figures"] if name.startswith(("ADEM", "R-ADEM"))}
    assert {RATER_ALONE, UPSILON_ALONE} <= without["figures"].keys()
    assert {claim for claim in report.data["claims_without_references"] if "without a gold" in claim} == {
        f"C-ADEM, random above {RATER_ALONE}",
        f"C-ADEM, random above {UPSILON_ALONE}",
    }
    assert report.data["one_domain"]["rows"].keys() == {"dailydialog_gupta", "dailydialog_zhao"}
    assert {name for name in report.data["forum"]["figures"] if "ADEM" in name} == {
        "R-ADEM, random",
        "R-ADEM, shuffled labels",
        "R-ADEM, before training",
    }
    assert {"no pre-trained encoder is named (--vhred): the controls use the first drawn one"} <= set(report.notes)


def test_the_rater_without_a_gold_reads_the_utterance_alone(
    report: ExperimentReport, sets: list[ProofSet], chain: TinyChain
) -> None:
    [tested], rater = [rated_set for rated_set in sets if rated_set.name == "third"], chain.rater()
    requests = [
        RatingRequest(utterance=tested.items[number].turns[-1], golds=("",), candidates=(Reference(text=reply),))
        for number, reply in zip(tested.item.tolist(), tested.replies, strict=True)
    ]
    scores = np.array([ratings[0] for ratings in rater.rate(requests)])
    expected = stats.spearmanr(scores[tested.fair], tested.ratings[tested.fair]).statistic
    figure = report.data["without_references"]["figures"][RATER_ALONE]["spearman"]["third"]["value"]
    assert figure == pytest.approx(expected, abs=1e-3)


def test_length_is_fitted_to_the_other_groups(report: ExperimentReport, sets: list[ProofSet]) -> None:
    train, tested = sets[:2], sets[2]
    lengths, ratings = (
        np.concatenate([getattr(rated_set, part)[rated_set.fair] for rated_set in train])
        for part in ("lengths", "ratings")
    )
    scores = np.polyval(np.polyfit(np.log1p(lengths), ratings, 2), np.log1p(tested.lengths))
    expected = stats.spearmanr(scores[tested.fair], tested.ratings[tested.fair]).statistic
    figure = report.data["with_references"]["figures"]["length alone"]["spearman"]["third"]["value"]
    assert figure == pytest.approx(expected, abs=1e-3)


def test_what_is_not_sure_is_not_shown_and_the_level_is_named(report: ExperimentReport) -> None:
    claims = report.data["claims"]
    assert "ADEM, random above ADEM, shuffled labels" in claims
    for claim in claims.values():
        low, high = claim.get("low"), claim.get("high")
        expected = "not shown" if low is None or low <= 0 <= high else ("shown" if low > 0 else "refuted")
        assert claim["verdict"] == expected
    figures = report.data["with_references"]["figures"]
    for form, sentence in zip(("ADEM", "C-ADEM", "R-ADEM"), report.summary, strict=True):
        value = figures[f"{form}, random"][PARTIAL]["mean"]["value"]
        level = "worth recommending" if value >= 0.29 else "works" if value >= 0.10 else "does not work"
        assert level in sentence
        assert f"over shuffled labels: {claims[f'{form}, random above {form}, shuffled labels']['verdict']}" in sentence


def test_asked_again_it_finds_its_encoders_and_the_same_figures(
    chain: TinyChain, sets: list[ProofSet], report: ExperimentReport, tmp_path: Path
) -> None:
    encoders = artefact_stores(chain.home)["vhred"]
    versions = {name: encoders.versions(name) for name in encoders.names()}
    assert len(versions) == chain.settings.seeds
    again = adem(chain, sets)
    assert {name: encoders.versions(name) for name in encoders.names()} == versions
    assert orjson.dumps(again.data) == orjson.dumps(report.data)
    page, text, data = write_report(again, chain, sets, "refaug agreement reproduce adem", tmp_path / "results")
    assert "Protocol C: fitted to a forum alone" in text.read_text("utf-8")
    assert "Protocol B: folds of one set" in page.read_text("utf-8")
    assert data.is_file()


def test_one_group_leaves_nothing_to_fit_to(chain: TinyChain, sets: list[ProofSet]) -> None:
    with refusing(BadInput):
        adem(chain, sets[:2])
