"""What answers become: typed, whole, in order; and refused where they are something else."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from refusals import refusing

from refaug_client import NoScore, Usage
from refaug_client._api.models.base import Rows
from refaug_client._api.models.jobs import Job
from refaug_client._api.models.references import Ratings, Reference, ReferencedItem, References
from refaug_client._api.models.scores import ReplyScore, Scores, SystemScores
from refaug_client._api.models.server import Health, Versions
from refaug_client._api.models.sets import Bin, ReferenceSet, Withdrawal
from refaug_client._core.frames import make_frame

REPLIES = [{"id": "d1", "score": 0.25}, {"id": "d2", "score": None, "problem": "no_reply", "message": "there is none"}]
SYSTEM = {"corpus": 0.5, "interval": [0.25, 0.75], "mean": 0.25, "mean_interval": None, "scored": 1, "unscored": 1}
METRIC = {
    "metric": "bleu",
    "signature": "bleu|n:4",
    "signature_full": "bleu|n:4|case:mixed",
    "corpus_from": "sums",
    "higher_is_better": True,
    "scale": 1.0,
    "references": "0123",
    "systems": {"a": {**SYSTEM, "unscored_by_reason": {"no_reply": 1}, "replies": REPLIES}},
}
WIRE: dict[str, Any] = {
    "scores": [METRIC],
    "data": "4567",
    "items": 2,
    "resampling": {"method": "none", "draws": 0, "confidence": 0.95, "seed": 1},
    "problems": [],
    "warnings": ["thin"],
    "versions": {"index": "chat@1#ab", "future": "x@2"},
    "request_id": "r1",
}


def scores(**changed: Any) -> Scores:
    return Scores.of({**copy.deepcopy(WIRE), **changed})


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_comes_out_as_it_went_in_with_what_nobody_knows_yet() -> None:
    wire = {**WIRE, "future": {"deep": [1, {"x": None}]}}
    found = Scores.of(copy.deepcopy(wire))
    assert found.to_dict() == wire
    assert found.more == {"future": {"deep": [1, {"x": None}]}}
    assert found.versions is not None
    assert found.versions.more == {"future": "x@2"}
    assert found.request_id == "r1"


def test_to_dict_is_a_copy() -> None:
    found = scores()
    found.to_dict()["scores"].clear()
    assert found.to_dict()["scores"] == [METRIC]


def test_a_model_made_or_changed_here_says_its_fields() -> None:
    made = Reference(text="tea", source="gold", weight=1.0)
    assert made.to_dict() == {
        "text": "tea",
        "source": "gold",
        "weight": 1.0,
        "similarity": None,
        "rating": None,
        "rank": None,
        "utterance": None,
        "speaker": None,
        "time": None,
        "unused": None,
    }
    changed = dataclasses.replace(Bin.of({"from": -1, "to": 0, "references": 3}), references=4)
    assert changed.to_dict() == {"from": -1.0, "to": 0.0, "references": 4}
    assert made.more == {}
    assert made.request_id is None


def test_models_are_frozen_equal_by_value_and_can_be_pickled() -> None:
    found = scores()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.items = 3  # type: ignore[misc]
    assert found == scores()
    assert found != scores(items=3)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.to_dict() == WIRE
    assert copy.deepcopy(found) == found
    rows = Rows([Health("ok", "1")], "next")
    assert pickle.loads(pickle.dumps(rows)) == rows
    assert pickle.loads(pickle.dumps(rows)).next == "next"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scores": {}}, "Scores.scores"),
        ({"scores": [7]}, "Scores.scores"),
        ({"items": "2"}, "Scores.items"),
        ({"items": True}, "Scores.items"),
        ({"warnings": [None]}, "Scores.warnings"),
        ({"resampling": {"draws": 1, "confidence": "high"}}, "confidence"),
        (
            {"scores": [{**METRIC, "systems": {"a": {"corpus": "0.5"}}}]},
            "MetricScores.systems",
        ),
        ({"scores": [{**METRIC, "higher_is_better": 1}]}, "higher_is_better"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(changed: dict[str, Any], said: str) -> None:
    with refusing(TypeError, "Scores", said):
        scores(**changed)


def test_what_is_missing_is_named_and_what_may_be_missing_is_none() -> None:
    with refusing(KeyError, "Health", "'version'"):
        Health.of({"status": "ok"})
    with refusing(TypeError, "list"):
        Health.of([])
    assert Reference.of({"text": "a", "source": "gold"}).rank is None


def test_whole_numbers_of_json_are_numbers() -> None:
    found = SystemScores.of({"corpus": 1, "values": [0, 1, None, 0.5]})
    assert found.corpus == 1.0
    assert type(found.corpus) is float
    assert found.replies == [0.0, 1.0, None, 0.5]


def test_defaults_are_not_shared() -> None:
    one, other = Scores.of({}), Scores.of({})
    one.warnings.append("mine")
    assert other.warnings == []


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_metric_and_one_system_need_no_names() -> None:
    found = scores()
    assert (found.corpus, found.interval, found.signature) == (0.5, [0.25, 0.75], "bleu|n:4")
    assert found.replies == found["bleu"].replies == found["bleu"]["a"].replies == [0.25, None]
    assert [one.problem for one in found["bleu"]["a"].details or []] == [None, "no_reply"]


def test_single_replies_are_a_sequence_like_any_other() -> None:
    details = scores()["bleu"]["a"].details
    assert details is not None
    assert len(details) == 2
    assert details[-1].problem == details[1:][0].problem == "no_reply"
    assert list(details) == [ReplyScore.of(one) for one in REPLIES]
    assert details == list(details)
    assert details != []
    assert repr(details).startswith("[ReplyScore(id='d1', score=0.25), ")
    assert pickle.loads(pickle.dumps(details)) == details


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (7, "number"),
        ([7], "ReplyScore"),
        ([{"id": "d1", "score": "0.5"}], "details"),
        ([{"id": "d1", "score": True}], "details"),
        ([{"id": None, "score": 0.5}], "ReplyScore.id"),
    ],
)
def test_single_replies_are_checked_when_they_come(wrong: Any, said: str) -> None:
    with refusing(TypeError, said):
        SystemScores.of({**SYSTEM, "replies": wrong})
    with refusing(KeyError, "'score'"):
        SystemScores.of({**SYSTEM, "replies": [{"id": "d1"}]})


def test_a_model_is_made_by_place_or_name_with_everything_that_it_needs() -> None:
    assert Health("ok", version="1") == Health(status="ok", version="1")
    for given, named, said in [
        (("ok",), {}, "'version'"),
        (("ok", "1", "2"), {}, "2 fields"),
        (("ok",), {"status": "ok"}, "'status'"),
        (("ok", "1"), {"mood": "good"}, "'mood'"),
    ]:
        with refusing(TypeError, said):
            Health(*given, **named)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Health("ok", "1").status


def test_a_score_that_is_missing_is_never_a_number_by_itself() -> None:
    with refusing(NoScore):
        scores().floats()
    assert scores().floats(missing=0.0) == [0.25, 0.0]
    assert Scores.of({"scores": [{**METRIC, "systems": {"a": {**SYSTEM, "values": [1, 2]}}}]}).floats() == [1, 2]


def test_several_metrics_or_systems_have_to_be_named() -> None:
    found = scores(scores=[METRIC, {**METRIC, "metric": "chrf"}])
    with refusing(Usage, "bleu, chrf"):
        _ = found.replies
    two = scores(scores=[{**METRIC, "systems": {"a": SYSTEM, "b": SYSTEM}}])
    with refusing(Usage, "a, b"):
        _ = two.corpus
    assert [one.metric for one in found] == ["bleu", "chrf"]
    assert len(found) == 2


def test_names_that_are_not_there_are_told_with_those_that_are() -> None:
    with refusing(KeyError, "chrf", "bleu"):
        scores()["chrf"]
    with refusing(KeyError, "'b'", "a"):
        scores()["bleu"]["b"]


def test_a_metric_asked_for_twice_is_told_apart_by_what_was_asked() -> None:
    found = scores(scores=[{**METRIC, "signature": "n:2"}, {**METRIC, "signature": "n:4"}])
    found.__dict__["_asked"] = ("bleu:n=2", "bleu:n=4")
    assert [found["bleu:n=2"].signature, found["bleu:n=4"].signature] == ["n:2", "n:4"]
    with refusing(KeyError, "bleu:n=2, bleu:n=4"):
        found["bleu"]


def test_sums_are_no_scores() -> None:
    found = Scores.of({"stats": [{"metric": "b", "signature_full": "b", "columns": [], "systems": {}}]})
    with refusing(Usage, "sums"):
        _ = found.corpus
    with refusing(Usage):
        _ = SystemScores(corpus=0.5).replies


# ── showing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reprs_say_what_one_wants_to_know_and_stay_short() -> None:
    assert repr(scores()) == "Scores(2 items)\n  bleu             a: 0.5000 [0.2500, 0.7500] (1 scored, 1 unscored)"
    assert repr(scores()["bleu"]["a"]) == "SystemScores(corpus=0.5000 [0.2500, 0.7500], 1 scored, 1 unscored)"
    assert repr(Reference("tea", "gold", weight=1.0)) == "Reference(text='tea', source='gold', weight=1)"
    many = References([ReferencedItem("d", []) for _ in range(1000)], Versions())
    assert "1,000 in all" in repr(many)
    long = Reference(text="x" * 10_000, source="gold")
    assert len(repr(long)) < 120
    job = Job(id="j1", kind="gc", state="failed", error={"message": "no room"})
    assert repr(job) == "Job(j1, gc, failed, error='no room')"
    a_set = ReferenceSet("abc", "test", 1200, 5000, withdrawn=Withdrawal("wrong"))
    assert repr(a_set) == "ReferenceSet(abc, test, 1,200 items, 5,000 references, withdrawn: 'wrong')"


# ── rows and frames ───────────────────────────────────────────────────────────────────────────────────────────────


def test_references_are_found_by_place_and_by_id() -> None:
    items = [{"id": name, "references": [{"text": name, "source": "gold"}], "evidence": {}} for name in ("d1", "d2")]
    found = References.of({"items": items, "versions": {}, "problems": [], "warnings": [], "provenance": {}})
    assert [one.id for one in found] == ["d1", "d2"]
    assert found[1] is found["d2"] is found.items[-1]
    with pytest.raises(KeyError):
        found["d3"]


def test_frames_of_pandas_have_a_row_for_each_reply() -> None:
    pandas = pytest.importorskip("pandas")
    found = scores().to_frame()
    assert isinstance(found, pandas.DataFrame)
    assert list(found["item"]) == ["d1", "d2"]
    assert found["score"].fillna(-1).tolist() == [0.25, -1]
    assert list(found["problem"])[1] == "no_reply"
    corpus = scores().to_frame(corpus=True)
    assert corpus[["metric", "system", "corpus", "low", "high"]].values.tolist() == [["bleu", "a", 0.5, 0.25, 0.75]]
    values = Scores.of({"scores": [{**METRIC, "systems": {"a": {**SYSTEM, "values": [0.5, None]}}}]})
    assert list(values.to_frame()["place"]) == [0, 1]
    assert list(Ratings([[0.5], [0.25, -1.0]], Versions()).to_frame()["pair"]) == [0, 1, 1]
    assert list(Rows([Health("ok", "1")]).to_frame()["version"]) == ["1"]


def test_frames_of_polars_have_the_same_rows() -> None:
    pl = pytest.importorskip("polars")
    found = scores().to_frame("polars")
    assert isinstance(found, pl.DataFrame)
    assert found["score"].to_list() == [0.25, None]
    assert found.columns == ["metric", "system", "place", "score", "item", "problem"]
    mixed = make_frame([{"a": 1}, {"a": 0.5}, {"a": None, "b": "x"}], "polars")
    assert mixed["a"].to_list() == [1.0, 0.5, None]


def test_a_frame_of_nothing_has_its_columns() -> None:
    pytest.importorskip("pandas")
    found = Ratings([], Versions()).to_frame()
    assert list(found.columns) == ["pair", "candidate", "rating"]
    assert len(found) == 0


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with refusing(Usage, "polars"):
        scores().to_frame("polars")
    with refusing(Usage, "excel"):
        scores().to_frame("excel")
