"""One part changed at a time: what each setting is scored on, its controls, and what is said to matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from proofs import TinyChain, tiny_chain, tiny_set
from safeguards import mostly_slow
from scipy import stats

from refaug.core.records import Origin, Reference
from refaug.evaluation.reproduction.experiments.ablations import (
    Ablation,
    AblationSetting,
    ablation_json,
    ablation_section,
    ablations_of,
    changes_by_both_kinds,
    changes_in_words,
    correlate_ablation,
    without_gold,
)
from refaug.evaluation.reproduction.experiments.conditions import KINDS, pools_of
from refaug.evaluation.reproduction.figures.correlations import Correlations
from refaug.evaluation.reproduction.material.published_method import with_rated_gold
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.reproduction.material.reference_kinds import Pool
from refaug.evaluation.scoring.cases import references_of
from refaug.metrics.base import Floats, Level, Metric, Problem, References
from refaug.metrics.metric_info import Uses
from refaug.metrics.specification import build
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import COMBINES, RatingSettings


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> TinyChain:
    return tiny_chain(tmp_path_factory.mktemp("ablations"))


@pytest.fixture(scope="module")
def sets() -> list[ProofSet]:
    return [tiny_set(name, seed, items=16).with_first_gold() for name, seed in (("first", 25), ("second", 26))]


@pytest.fixture(scope="module")
def pools(chain: TinyChain, sets: list[ProofSet]) -> Mapping[str, Pool]:
    return pools_of(chain, sets, chain.main_index(), chain.rater())


@pytest.fixture(scope="module")
def ablations(chain: TinyChain, sets: list[ProofSet], pools: Mapping[str, Pool]) -> dict[str, Ablation]:
    return {one.name: one for one in ablations_of(chain, sets, pools, chain.main_index(), chain.rater())}


@pytest.fixture(scope="module")
def found(chain: TinyChain, sets: list[ProofSet], ablations: dict[str, Ablation]) -> dict[str, Correlations]:
    return {name: correlate_ablation(chain, one, sets) for name, one in ablations.items()}


def rating_of(chain: TinyChain, one: ProofSet, item: int, text: str, combine: str = "first", own: str = "") -> float:
    test_item = one.items[item]
    candidate = Reference(text=text, utterance=own or None)
    asked = RatingRequest(
        utterance=test_item.utterance or "", golds=(test_item.references[0].text,), candidates=(candidate,)
    )
    return chain.rater().rate([asked], RatingSettings(combine=combine))[0][0]  # type: ignore[arg-type]


def scores_by_hand(one: ProofSet, metric: Metric, references: list[list[Reference]]) -> Floats:
    """A reply at a time, against the references of its item that are not the reply itself."""
    scores = []
    for row, reply in enumerate(one.replies):
        own = [each for each in references[one.item[row]] if each.source is Origin.GOLD or each.text != reply]
        looked_at = references_of(own, Uses.WEIGHTED)
        if isinstance(looked_at, Problem):
            scores.append(np.nan)
            continue
        assert isinstance(looked_at, References)
        at = np.zeros(1, np.int64)
        rows = metric.statistics([reply], metric.prepare([looked_at]), at, at)
        scores.append(float(metric.values(rows, Level.REPLY)[0]))
    return np.array(scores)


def require(found: Correlations, line: str, one: ProofSet, scores: Floats) -> None:
    kept = one.fair & np.isfinite(scores)
    expected = stats.spearmanr(scores[kept], one.ratings[kept]).statistic
    assert found.estimate(line, "spearman", one.name).value == pytest.approx(expected, abs=1e-3)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_question_has_its_settings_the_default_first(ablations: dict[str, Ablation]) -> None:
    names = {name: [one.name for one in ablation.settings] for name, ablation in ablations.items()}
    assert names["references"] == ["default", "with the parrot, rated", "the gold rated as well", "without the gold"]
    assert names["combine"] == ["default", *COMBINES[1:]]
    assert len(names["aggregate"]) == 8
    assert len(names["smoothing-penalty"]) == len(set(names["smoothing-penalty"])) == 25
    assert "exp, closest" not in names["smoothing-penalty"]
    assert names["variants"][-1] == "preset tsuta20"
    assert {name: one.controls for name, one in ablations.items() if len(one.controls) > 1} == {
        "combine": ("matched", "shuffled")
    }


def test_settings_are_what_their_names_say(ablations: dict[str, Ablation]) -> None:
    for one in ablations["smoothing-penalty"].settings[1:]:
        smooth, penalty = one.name.split(", ")
        assert one.metric.settings["smooth"].startswith(smooth)
        assert one.metric.settings["bp"] == penalty
    for one in ablations["aggregate"].settings[1:]:
        aggregate, _, keep = one.name.partition(", ")
        assert one.metric.settings["agg"] == aggregate
        assert one.metric.settings["keep-gold"] == ("yes" if keep else "no")
    tsuta = ablations["variants"].settings[-1]
    assert (tsuta.k, tsuta.parrot) == (13, True)
    assert {key: tsuta.metric.settings[key] for key in ("variant", "smooth", "eff")} == {
        "variant": "tsuta20",
        "smooth": "none",
        "eff": "no",
    }


def test_a_rated_gold_is_worth_what_the_rater_says_of_it(chain: TinyChain, sets: list[ProofSet]) -> None:
    one = with_rated_gold(sets[0], chain.rater())
    for item, (before, after) in enumerate(zip(sets[0].items, one.items, strict=True)):
        gold = after.references[0]
        assert gold.weight == gold.rating == pytest.approx(rating_of(chain, sets[0], item, gold.text), abs=1e-5)
        assert replace(gold, weight=None, rating=None) == before.references[0]
    assert one.replies == sets[0].replies


def test_a_gold_without_an_utterance_keeps_its_worth(chain: TinyChain) -> None:
    silent = tiny_set("silent", 3, utterances=False).with_first_gold()
    assert with_rated_gold(silent, chain.rater()).items == silent.items


def test_without_the_gold_nothing_of_the_items_own_is_left(sets: list[ProofSet]) -> None:
    one = without_gold(sets[0])
    assert [item.references for item in one.items] == [()] * len(sets[0].items)
    assert [item.utterance for item in one.items] == [item.utterance for item in sets[0].items]
    assert one.fair.tolist() == sets[0].fair.tolist()


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def gold_of(one: ProofSet, item: int, weight: float = 1.0) -> Reference:
    return replace(one.items[item].references[0], weight=weight)


@pytest.mark.parametrize("combine", mostly_slow(COMBINES, quick=[0, 1]))
def test_each_way_to_combine_is_that_of_one_rating_at_a_time(
    chain: TinyChain, sets: list[ProofSet], pools: Mapping[str, Pool], found: dict[str, Correlations], combine: str
) -> None:
    for one in sets:
        references = []
        for item, some in enumerate(pools[one.name].retrieved):
            others = [
                replace(each, weight=rating_of(chain, one, item, each.text, combine, str(each.utterance)))
                for each in some[:15]
            ]
            references.append([gold_of(one, item), *others])
        line = "default" if combine == "first" else combine
        require(found["combine"], line, one, scores_by_hand(one, build("upsilon-bleu"), references))


def test_the_preset_has_thirteen_references_and_rates_all(
    chain: TinyChain, sets: list[ProofSet], pools: Mapping[str, Pool], ablations: dict[str, Ablation]
) -> None:
    one, references = sets[0], []
    for item, some in enumerate(pools["first"].retrieved):
        gold, parrot = gold_of(one, item), pools["first"].parrots[item]
        assert parrot is not None
        gold = replace(gold, weight=rating_of(chain, one, item, gold.text))
        references.append([gold, parrot, *some[:13]])
    alone = replace(ablations["variants"], settings=ablations["variants"].settings[-1:])
    scores = scores_by_hand(one, build("upsilon-bleu:variant=tsuta20"), references)
    measured = correlate_ablation(chain, alone, sets)
    require(measured, "preset tsuta20", one, scores)
    assert measured.left_out["first"] == np.isnan(scores[one.fair]).sum()


def test_parts_that_are_left_out_are_not_there(
    sets: list[ProofSet], pools: Mapping[str, Pool], chain: TinyChain, ablations: dict[str, Ablation]
) -> None:
    with_parrot, without = (ablations["references"].settings[place] for place in (1, 3))
    for setting, has_parrot, has_gold in ((with_parrot, True, True), (without, False, False)):
        alone = Ablation(name="x", title="", text="", settings=[setting])
        measured = correlate_ablation(chain, alone, sets)
        for one in sets:
            pool = pools[one.name]
            references = [
                [
                    *([gold_of(one, item)] if has_gold else []),
                    *([parrot] if has_parrot and parrot is not None else []),
                    *some[:15],
                ]
                for item, (parrot, some) in enumerate(zip(pool.parrots, pool.retrieved, strict=True))
            ]
            require(measured, setting.name, one, scores_by_hand(one, setting.metric, references))


def test_controls_have_the_same_settings_and_weights_of_one(
    chain: TinyChain, sets: list[ProofSet], pools: Mapping[str, Pool], found: dict[str, Correlations]
) -> None:
    one, values = sets[0], []
    for seed in range(chain.settings.seeds):
        drawn = pools["first"].extras("matched", k=15, parrot=False, seed=seed)
        references = [[gold_of(one, item), *some] for item, some in enumerate(drawn)]
        assert {each.weight for some in references for each in some} == {1.0}
        scores = scores_by_hand(one, build("upsilon-bleu:smooth=exp,bp=average"), references)
        values.append(stats.spearmanr(scores[one.fair], one.ratings[one.fair]).statistic)
    figure = found["smoothing-penalty"].estimate("exp, average, matched", "spearman", "first")
    assert figure.value == pytest.approx(np.mean(values), abs=1e-3)


def test_every_setting_has_its_controls_and_differences(
    ablations: dict[str, Ablation], found: dict[str, Correlations]
) -> None:
    for name, ablation in ablations.items():
        written = ablation_json(ablation, found[name])
        figures = written["agreement"]["figures"]
        for one in ablation.settings:
            assert {f"{one.name}, {control}" for control in ablation.controls} <= set(figures)
            assert (f"{one.name}, gold alone" in figures) == one.has_gold
            own = written["differences"][one.name]
            assert list(own) == ["less gold alone", *(f"less {each}" for each in ablation.controls), "less the default"]
            less = figures[one.name]["spearman"]["mean"]["value"] - figures["default"]["spearman"]["mean"]["value"]
            assert own["less the default"]["spearman"]["mean"]["value"] == pytest.approx(less, abs=2e-4)
        assert written["differences"]["default"]["less the default"]["spearman"]["mean"] == {
            "value": 0.0,
            "low": 0.0,
            "high": 0.0,
        }


@pytest.mark.slow
def test_a_section_has_a_row_for_each_setting(ablations: dict[str, Ablation], found: dict[str, Correlations]) -> None:
    for name, ablation in ablations.items():
        section = ablation_section(ablation, found[name])
        names = [one.name for one in ablation.settings]
        assert [[row[0] for row in table.rows] for table in section.tables] == [names, names]
        assert [plot.file for plot in section.plots] == [f"ablation-{name}-{kind}.png" for kind in KINDS]


# ── in words ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_settings_that_matter_are_named() -> None:
    names = ("default", "better", "worse", "unsure")
    lines = [f"{name}{tail}" for name in names for tail in ("", ", gold alone", ", matched")]
    drawn = {
        "default": [0.1, 0.2, 0.15],
        "better": [0.3, 0.4, 0.35],
        "worse": [0.0, 0.1, 0.05],
        "unsure": [0.3, 0.1, 0.1],
    }
    draws = np.array([drawn[line.partition(",")[0]] for line in lines])
    measured = Correlations(
        names=tuple(lines),
        sets=("x",),
        rows={"x": 9},
        contexts={"x": 3},
        left_out={"x": 0},
        points={(kind, where): draws.mean(axis=1) for kind in KINDS for where in ("x", "mean")},
        drawn={(kind, where): draws for kind in KINDS for where in ("x", "mean")},
    )
    metric = build("upsilon-bleu")
    ablation = Ablation(
        name="x",
        title="Title",
        text="",
        settings=[AblationSetting(name=name, metric=metric, pools={}) for name in names],
    )
    spearman, partial = changes_in_words(ablation, measured)
    assert spearman == (
        "Title, Spearman, on x, 3 settings: surely better than the default 1 (better .200 [.20, .20]); surely worse 1 "
        "(worse -.100 [-.10, -.10])."
    )
    assert partial.startswith("Title, partial Spearman, on x, 3 settings: surely better than the default 1 (better ")
    assert changes_by_both_kinds(ablation, measured) == (
        "Title, on x, 3 settings: surely better than the default by Spearman and partial Spearman 1 (better); surely "
        "worse 1 (worse)."
    )
    [said, _] = changes_in_words(replace(ablation, settings=ablation.settings[::3]), measured)
    assert said == "Title, Spearman, on x, 1 settings: surely better than the default none; surely worse none."
