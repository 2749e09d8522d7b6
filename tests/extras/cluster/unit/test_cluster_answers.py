"""What a call on a cluster returned, and which error says that it returned nothing: with Ray's errors stood in for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from refusals import refusing

from refaug.core.errors import Conflict, RefaugError
from refaug.extras.cluster.calls import Failure, ProcessLost, answer_or_failure, result_of


class Lost(Exception):
    """As Ray's RayError."""


class Failed(Lost):
    """As Ray's RayTaskError, which is a RayError, too."""

    cause = ValueError("7 is no table")


def ray_with(answer):
    def get(reference):
        assert reference == "a call"
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=Lost, RayTaskError=Failed))


def test_an_answer_is_returned_and_an_own_error_raised_where_a_result_is_wanted():
    assert answer_or_failure(ray_with(7), "a call", "the task") == result_of(ray_with(7), "a call", "the task") == 7
    failure = Failure(kind="Conflict", message="taken", remedy="another one")
    assert answer_or_failure(ray_with(failure), "a call", "the task") is failure
    with pytest.raises(Conflict) as refused:
        result_of(ray_with(failure), "a call", "the task")
    assert (refused.value.message, refused.value.remedy) == ("taken", "another one")


def test_an_error_of_the_program_is_named_and_a_death_is_told_apart():
    with pytest.raises(RefaugError) as failed:
        answer_or_failure(ray_with(Failed("a traceback")), "a call", "the task sort_slice")
    assert all(fact in failed.value.message for fact in ("sort_slice", "7 is no table"))
    assert failed.value.remedy == "the logs of Ray on that machine have more; please report it"
    cause = Lost("its worker is gone\nand more")
    with refusing(ProcessLost) as lost:
        result_of(ray_with(cause), "a call", "the task sort_slice")
    assert lost.value.error is cause
