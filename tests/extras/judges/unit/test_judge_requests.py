"""What requests need of a judge, and that a server refuses to ask one."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.metrics.models.model_kinds import ModelKind
from refaug.scoring.metric_setup import metric_requests
from refaug.scoring.metric_setup.metric_requests import MetricRequest, refuse_judge
from refaug.service.server_settings import ServeSettings


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
