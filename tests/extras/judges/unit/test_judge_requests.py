"""What requests need of a judge, and that a server refuses to ask one."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import TooLarge, Usage
from refaug.core.home import Settings
from refaug.metrics.models.model_kinds import ModelKind
from refaug.scoring.metric_setup import metric_requests
from refaug.scoring.metric_setup.metric_requests import MetricRequest, refuse_judge
from refaug.service.server_settings import ServeSettings
from refaug.service.web.scoring_limits import questions_a_reply, require_few_judged

FOLLOWED = "followup-endpoint:lm=local"
PANEL = "panel:of=followup-endpoint;lm=local+chrf"


def test_a_judge_needs_weights_only_where_it_sees_them() -> None:
    needs = {text: MetricRequest.of(text) for text in ("judge", "judge:refs=gold", "judge:refs=weighted", "bleu")}
    assert [need.asks(ModelKind.JUDGE) for need in needs.values()] == [True, True, True, False]
    assert [need.weighted for need in needs.values()] == [False, False, True, False]


def test_a_server_refuses_a_judge_and_names_the_command() -> None:
    refuse_judge([MetricRequest.of("bleu")])
    with refusing(Usage) as refused:
        refuse_judge([MetricRequest.of("bleu"), MetricRequest.of("judge:refs=gold")])
    assert "judge:model=NAME" in refused.value.remedy


def test_a_judge_is_no_default_metric_of_a_server() -> None:
    with refusing(Usage):
        ServeSettings(default_metric="judge")


def test_a_judge_behind_an_endpoint_needs_leave_inside_a_fitted_judge_too(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["chrf", "rater:model=base@2026-11-28.1", "judge:model=local#0123456789ab"]
    monkeypatch.setattr(metric_requests, "_fitted_parts", lambda _spec, _home: parts)
    request = MetricRequest.of("judge-fit:mine", Settings(home=Path("absent")))
    assert [model.parameter.kind for model in request.models] == [ModelKind.FITTED_JUDGE, ModelKind.JUDGE]
    with refusing(Usage):
        refuse_judge([request])


@pytest.mark.parametrize(
    ("metrics", "questions"),
    [
        (["chrf"], 0),
        (["judge:model=local", "chrf"], 1),
        (["judge:model=local", "judge:model=local,refs=none"], 1),  # the same questions
        (["judge:model=local", "judge:model=other"], 2),
        ([FOLLOWED], 8),
        ([FOLLOWED, "followup-endpoint:lm=second", "followup-endpoint:lm=third"], 24),
        ([FOLLOWED, PANEL], 8),
        ([PANEL, "judge:model=local"], 9),
        (["panel:of=followup-endpoint;lm=local+followup-endpoint;lm=second"], 16),
        (["judge-fit:mine"], 8),
        (["judge-fit:two"], 9),
        (["panel:of=judge-fit;model=mine+judge-fit;model=two"], 9),
    ],
)
def test_each_question_of_each_metric_and_part_is_counted(
    metrics: list[str], questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = {"mine": ["chrf", FOLLOWED], "two": [PANEL, "judge:model=local"]}
    monkeypatch.setattr(metric_requests, "_fitted_parts", lambda spec, _home: fitted[spec])
    requests = [MetricRequest.of(text, Settings(home=Path("absent"))) for text in metrics]
    assert questions_a_reply(requests) == questions


def test_a_panel_beside_a_fitted_judge_still_looks_at_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_requests, "_fitted_parts", lambda _spec, _home: ["chrf"])
    assert MetricRequest.of("panel:of=judge-fit;model=mine+upsilon-bleu", Settings(home=Path("absent"))).weighted


@pytest.mark.parametrize(
    ("metric", "replies", "told"),
    [
        ("judge:model=local", 201, "201 questions to judges are more than the 200 of one request"),
        (FOLLOWED, 26, "208 questions to judges, 8 about each reply, are more than the 200 of one request"),
        (PANEL, 26, "208 questions to judges, 8 about each reply, are more than the 200 of one request"),
    ],
)
def test_too_many_questions_are_told_with_what_asks_them(metric: str, replies: int, told: str) -> None:
    requests, serve = [MetricRequest.of("chrf"), MetricRequest.of(metric)], ServeSettings()
    questions = questions_a_reply(requests)
    with refusing(TooLarge) as refused:
        require_few_judged(requests, questions, replies, serve)
    assert refused.value.message == told
    assert refused.value.remedy.endswith(f"refaug score ITEMS -m {requests[1].name}")
    require_few_judged(requests, questions, 200 // questions, serve)
