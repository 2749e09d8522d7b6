"""The metric `panel`: how verdicts become one, α from sums, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import RefaugError, Usage
from refaug.extras.judges.metrics.panels import JudgePanel, alpha_of
from refaug.metrics.base import Level, References
from refaug.metrics.catalogue import find
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build
from refaug.metrics.statistics.annotator_agreement import krippendorff_alpha
from refaug.scoring.metric_setup.metric_requests import MetricRequest

NAN = float("nan")
GOLDS = ["It is on the chair.", "Tea, please.", "See you tomorrow!", "No."]
REPLIES = ["On the chair, I think.", "Tea would be lovely.", "See you tomorrow!", "Yes, of course."]


def panel(text: str) -> JudgePanel:
    built = build(text)
    assert isinstance(built, JudgePanel)
    return built


def scored(text: str, replies: list[str] | None = None) -> tuple[JudgePanel, np.ndarray]:
    """The panel for these replies, and its statistics of them."""
    made = panel(text)
    own = [References.unweighted([gold]) for gold in GOLDS]
    references = [References((), (), components=(one,) * len(made.components)) for one in own]
    places = np.arange(len(GOLDS))
    bound = made.for_set(references).for_replies(replies or REPLIES, references, places)
    return bound, bound.statistics(replies or REPLIES, bound.prepare(references), places, places)


VERDICTS = np.array([[0.2, 0.4, 0.9], [0.1, 0.5, 0.5], [0.8, NAN, 0.9], [NAN, NAN, 0.3], [0.6, 0.6, 0.6]])


@pytest.mark.parametrize(
    ("blend", "expected"),
    [
        ("blend=median", [0.4, 0.5, 0.85, 0.3, 0.6]),
        ("blend=mean", [0.5, 1.1 / 3, 0.85, 0.3, 0.6]),
        ("blend=trimmed", [0.4, 0.5, 0.85, 0.3, 0.6]),  # nothing is left out of two
        ("blend=majority", [0, 1, 1, 0, 1]),
        ("blend=weighted,weights=2+1+1", [0.425, 0.3, 2.5 / 3, 0.3, 0.6]),
    ],
)
def test_verdicts_become_one_by_the_rule_and_missing_ones_do_not_count(blend: str, expected: list[float]) -> None:
    made = panel(f"panel:of=bleu+chrf+rouge-l,{blend}")
    assert made._combined(VERDICTS) == pytest.approx(expected)


def test_a_tie_of_votes_is_neither() -> None:
    made = panel("panel:of=bleu+chrf,blend=majority")
    assert made._combined(np.array([[0.5, 0.49], [0.5, 0.9]])).tolist() == [0.5, 1.0]


def test_trimmed_leaves_out_one_at_either_end() -> None:
    made = panel("panel:of=bleu+chrf+rouge-l+meteor,blend=trimmed")
    rows = np.array([[0.1, 0.2, 0.3, 1.0], [0.5, 0.5, 0.5, 0.5], [0.9, 0.1, 0.1, 0.2]])
    assert made._combined(rows) == pytest.approx([0.25, 0.5, 0.15])


def test_a_panel_has_the_mean_of_its_members_and_keeps_every_verdict() -> None:
    bound, statistics = scored("panel:of=chrf+rouge-l;measure=recall,blend=mean")
    members = []
    for name in ("chrf", "rouge-l:measure=recall"):
        metric = build(name)
        prepared = metric.prepare([References.unweighted([gold]) for gold in GOLDS])
        members.append(metric.values(metric.statistics(REPLIES, prepared, *[np.arange(4)] * 2), Level.REPLY))
    assert bound.values(statistics, Level.REPLY) == pytest.approx(np.mean(members, axis=0))
    assert bound.verdicts_of(statistics) == pytest.approx(np.array(members).T)
    parts = bound.parts(statistics.sum(axis=0), Level.CORPUS)
    assert parts["verdicts"] == pytest.approx({"1 chrf": members[0].mean(), "2 rouge-l": members[1].mean()})
    assert parts["alpha"] == pytest.approx(krippendorff_alpha(np.array(members).T).value)
    assert parts["missing"] == {}


def test_alpha_of_sums_is_that_of_the_verdicts_without_rows_of_one() -> None:
    from refaug.extras.judges.metrics.panels import _alpha_sums  # noqa: PLC0415

    random = np.random.default_rng(1)
    verdicts = np.clip(random.random((60, 1)) + 0.2 * random.normal(size=(60, 4)), 0, 1)
    verdicts[random.random((60, 4)) < 0.3] = NAN
    has = np.isfinite(verdicts)
    sums = np.stack(_alpha_sums(np.where(has, verdicts, 0), has), axis=-1).sum(axis=0)
    assert alpha_of(np.array([0, 0, 0, *sums])) == pytest.approx(krippendorff_alpha(verdicts).value)
    assert np.isnan(alpha_of(np.array([0, 0, 0, 4, 2, 1, 0])))  # all verdicts are .5


def test_members_where_less_is_better_are_turned_and_ends_are_those_of_the_replies() -> None:
    bound, statistics = scored("panel:of=ter+chrf,norm=test,blend=mean")
    verdicts = bound.verdicts_of(statistics)
    assert verdicts.min(axis=0).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert verdicts.max(axis=0).tolist() == pytest.approx([1, 1], abs=1e-6)
    assert verdicts[2] == pytest.approx([1, 1], abs=1e-6)  # the reply that is the gold
    unbound = panel("panel:of=ter+chrf,norm=test")
    references = [References((), (), components=(References.unweighted(["a"]),) * 2)]
    with refusing(Usage, "only defined for all replies"):
        unbound.statistics(["a"], unbound.prepare(references), np.zeros(1, int), np.zeros(1, int))


def test_a_signature_reads_back_as_the_same_panel() -> None:
    made = panel("panel:of=chrf;case=lc+judge;model=large;rubric=relevance,blend=weighted,weights=2+1")
    signature = Signature.of(made)
    again = build(Signature.parse(signature.full).specification())
    assert Signature.of(again).full == signature.full
    assert [(kind.value, name) for kind, name in signature.models] == [("judge", "large")]


def test_what_members_need_is_known_before_anything_is_opened() -> None:
    request = MetricRequest.of("panel:of=chrf+judge;model=large;refs=weighted+judge")
    assert [(model.key, model.spec) for model in request.models] == [
        ("of=judge;model", "large"),
        ("of=judge;model", ""),
    ]
    assert request.weighted
    assert not MetricRequest.of("panel:of=chrf+bleu").models


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("panel", "lists none"),
        ("panel:of=chrf", "lists 1"),
        ("panel:of=chrf+nonsense", "member nonsense"),
        ("panel:of=chrf+bleu;n=9", "member bleu;n=9"),
        ("panel:of=chrf+panel;of=bleu", "not a member of another"),
        ("panel:of=chrf+ter", "no upper end"),
        ("panel:of=chrf+bleu,blend=weighted", "weights=equal"),
        ("panel:of=chrf+bleu,weights=1+2", "blend=median"),
        ("panel:of=chrf+bleu,blend=weighted,weights=1+2+3", "there are 2 members"),
        ("panel:of=chrf+bleu,blend=weighted,weights=1+0", "weights=1+0"),
        ("panel:of=chrf+bleu,blend=best", "blend cannot be 'best'"),
    ],
)
def test_what_is_no_panel_is_refused(text: str, said: str) -> None:
    with refusing(RefaugError, said):
        build(text)


def test_a_specification_with_members_is_written_as_it_was_read() -> None:
    text = "panel:of=judge;model=a+chrf;case=lc,blend=mean"
    assert str(Specification.parse(text)) == text
    assert find("panel").has_members
