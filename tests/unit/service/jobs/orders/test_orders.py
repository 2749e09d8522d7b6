"""Orders of jobs: the commands' defaults, nothing unknown, nothing out of range, and what each of them writes."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import import_module
from typing import get_args

import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.core.options.describing import options_of
from refaug.indexer.building.order import IndexOrder
from refaug.indexer.vectors.training import VectorsOrder
from refaug.logs.ingest.cleaning import FILTERS, MARKUPS, REPAIRS
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.reading.formats import FORMATS
from refaug.logs.reading.shapes import KNOWN_NAMES
from refaug.operations.agreement import MeasureAgreement
from refaug.operations.catalogue import OPERATIONS, find_operation, operation_names
from refaug.operations.indexes import BuildIndex
from refaug.operations.logs import RULES, CleaningOptions, IngestLog, LogFormat, SourceField
from refaug.operations.train_vectors import TrainVectors
from refaug.operations.training import TrainRater
from refaug.rater.training.loop import TrainConfig
from refaug.scoring.settings import AugmentSettings, MetaSettings
from refaug.service.jobs.job_order import KINDS, parse_order, resources_of

ONE_OF_EACH = {
    "ingest": {"log": "chat", "posted": True},
    "vectors": {"logs": ["chat"]},
    "index-build": {"logs": ["chat", "forum"]},
    "index-update": {"index": "chat"},
    "index-compact": {"index": "chat"},
    "index-encode": {"index": "chat", "encoder": "small"},
    "rater-train": {"logs": ["chat"]},
    "freeze": {"items": "test.jsonl", "purpose": "test"},
    "score": {"items": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab"},
    "meta": {"data": ["rated.jsonl"]},
    "replies": {"items": "upload:0gk2xv7q3m9t00d4z8r1c5w6ab", "bots": {"c-bm25": "retrieval:chat,mode=bm25-utterance"}},
    "erase": {"log": "chat", "dialogues": ["d1"]},
    "nightly": {"log": "chat", "index": "forum"},
    "gc": {"artefact": "rater", "name": "base"},
}


def order(kind, **more):
    return parse_order({"kind": kind, **ONE_OF_EACH[kind], **more})


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_an_order_reads_back_from_its_json_and_somebody_does_it(kind):
    asked = order(kind)
    assert parse_order(asked.as_order()) == asked
    module, _, function = asked.runs.partition(":")
    assert callable(getattr(import_module(module), function))
    assert [option.spelling for option in options_of(type(asked)) if not option.doc] == []


def test_all_kinds_are_there():
    assert set(KINDS) == {name for name in operation_names() if find_operation(name).runs}
    assert set(ONE_OF_EACH) == set(KINDS) & OPERATIONS.keys()


@pytest.mark.parametrize(
    ("kind", "resources"),
    [
        ("ingest", ("log/chat",)),
        ("vectors", ("vectors/chat",)),
        ("index-build", ("index/chat",)),
        ("index-update", ("index/chat",)),
        ("index-compact", ("index/chat",)),
        ("rater-train", ("rater/chat",)),
        ("freeze", ("items/test.jsonl",)),
        ("erase", ("log/chat",)),
        ("nightly", ("log/chat", "index/forum")),
        ("gc", ("rater/base",)),
    ],
)
def test_resources_are_what_a_job_writes(kind, resources):
    assert resources_of(order(kind)) == resources


def test_evaluations_share_a_resource_only_with_the_very_same_order():
    for kind, other in (
        ("score", {"seed": 2}),
        ("meta", {"seed": 2}),
        ("replies", {"replace": True}),
    ):
        (resource,) = resources_of(order(kind))
        assert resource.startswith(f"{kind}/")
        assert resources_of(order(kind)) == (resource,)
        assert resources_of(order(kind, **other)) != (resource,)
        assert resources_of(order(kind, owner="ann")) != (resource,)


def test_names_that_are_given_decide_over_the_resource():
    assert resources_of(order("index-build", name="mine")) == ("index/mine",)
    assert resources_of(order("vectors", name="mine")) == ("vectors/mine",)
    assert resources_of(order("rater-train", name="mine")) == ("rater/mine",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "nigtly"}, "kind: there is no kind of job 'nigtly'; did you mean 'nightly'?"),
        ({"kind": ["gc"]}, "kind: there is no kind of job"),
        ({}, "the order of a job: it has no kind"),
        ({"kind": "gc", "artefact": "index", "name": "a", "sure": True}, "sure: there is no such option"),
        ({"kind": "gc", "artefact": "index", "name": "a", "keep": -1}, "keep: -1 is out of range: from 0"),
        ({"kind": "gc", "name": "a"}, "artefact: it is missing"),
        ({"kind": "ingest", "log": "chat"}, 'either sources, or "posted": true'),
        ({"kind": "ingest", "log": "chat", "sources": ["a"], "posted": True}, 'either sources, or "posted": true'),
        ({"kind": "ingest", "log": "chat", "sources": []}, 'sources: either sources, or "posted": true'),
        ({"kind": "ingest", "log": "chat", "posted": True, "format": "csv"}, "format is for files"),
        ({"kind": "ingest", "log": "chat", "posted": True, "context": ["a"]}, "context is for files"),
        (
            {"kind": "ingest", "log": "chat", "posted": True, "no_rules": ["urls"], "only_rules": []},
            "no_rules and only_rules contradict each other",
        ),
        (
            {"kind": "ingest", "log": "chat", "posted": True, "min_chars": 5, "max_chars": 4},
            "min_chars: 5 and max_chars 4",
        ),
        ({"kind": "ingest", "log": "chat", "posted": True, "memory": "255MiB"}, "memory: '255MiB' is too little"),
        ({"kind": "erase", "log": "chat"}, "nothing is named that should go"),
        ({"kind": "index-build", "logs": ["a"], "vectors": "v", "encoder": "e"}, "at once"),
        ({"kind": "freeze", "purpose": "test"}, "items: it is missing"),
        ({"kind": "score"}, "items: none were given"),
        ({"kind": "score", "items": "a", "replies": {"x": "b"}, "references": ["c"]}, "items: a file of items and"),
        ({"kind": "score", "replies": {"x": "b"}}, "references: none were given"),
        ({"kind": "score", "replies": {"x": "b"}, "references": ["c"], "map": ["id=n"]}, "map: it is about a file"),
        ({"kind": "score", "items": "a", "map": ["reply"]}, "is not FIELD=COLUMN"),
        ({"kind": "score", "items": "a", "baseline": "x", "draws": 0}, "baseline: it has no effect without draws"),
        ({"kind": "score", "items": "a", "settings": {"k": 3}}, "settings.k: it has no effect without an index"),
        ({"kind": "freeze", "purpose": "test", "items": "a", "rater": "r"}, "rater: it has no effect without an index"),
        ({"kind": "freeze", "purpose": "fun", "items": "a"}, "purpose: "),
        ({"kind": "freeze", "purpose": "test", "items": "a", "on": "h:1"}, "on: a cluster finds"),
        ({"kind": "score", "items": "a", "on": "h:1"}, "on: a cluster finds references in an index"),
        ({"kind": "meta", "data": ["a"], "on": "h:1"}, "on: a cluster finds references in an index"),
        ({"kind": "rater-train", "logs": ["a"], "on": "h:1"}, "both or neither: on names the cluster"),
        ({"kind": "rater-train", "logs": ["a"], "workers": 2}, "both or neither: on names the cluster"),
        (
            {"kind": "rater-train", "logs": ["a"], "on": "h:1", "workers": 2, "accumulate": 3},
            "2 workers cannot share steps of 3 batches evenly",
        ),
        (
            {"kind": "freeze", "purpose": "test", "items": "a", "index": "i", "settings": {"after": "noon"}},
            "settings.after: 'noon' is not a time",
        ),
        (
            {"kind": "nightly", "log": "a", "index": "i", "limits": {"spearman": 0.9}},
            "spearman is about scores on a frozen set, and none is named",
        ),
        (
            {"kind": "nightly", "log": "a", "index": "i", "replies": "r.jsonl"},
            "replies is about scores on a frozen set, and none is named",
        ),
        (
            {"kind": "nightly", "log": "a", "index": "i", "limits": {"recal": 0.9}},
            "limits.recal: there is no such option; did you mean",
        ),
        ({"kind": "replies", "items": "a"}, "bots: it is missing"),
        (
            {"kind": "replies", "items": "a", "bots": {"x": "bot:y"}, "without_reply": "drop"},
            "without_reply: 'drop' is not one of",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_field(values, message):
    with pytest.raises(BadInput) as caught:
        parse_order(values)
    assert message in caught.value.message.replace(f"{values.get('kind')}.", "")
    kind = values.get("kind")
    shown = f"{kind} has the fields " if isinstance(kind, str) and kind in KINDS else "kinds are: ingest, "
    assert str(caught.value.remedy).startswith(shown)


def test_the_remedy_names_the_fields_of_the_kind_of_job():
    with pytest.raises(BadInput) as caught:
        parse_order({"kind": "gc", "sure": True})
    assert str(caught.value.remedy).startswith("gc has the fields artefact, name, keep")


def test_several_mistakes_are_told_at_once_and_the_rest_is_counted():
    with refusing(BadInput, 2):
        parse_order({"kind": "gc", "artefact": "index", "name": "a", **{f"x{n}": 1 for n in range(7)}})


# ── the defaults are the commands' ────────────────────────────────────────────────────────────────────────────────────


def defaults(model):
    return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}


def test_defaults_are_those_of_the_settings_that_are_made_of_them():
    assert MeasureAgreement(data=("a",)).meta_settings == MetaSettings()
    assert IngestLog(log="a", sources=("b",)).order() == IngestOrder(log="a", sources=("b",))
    assert TrainVectors(logs=("a",)).order(threads=None, tokenizer=None) == VectorsOrder(name="a", logs=("a",))
    build = IndexOrder(name="a", logs=("a",), vectors="a")
    assert BuildIndex(logs=("a",)).order(threads=1) == build
    assert TrainRater(logs=("a",)).order(threads=1).training.patience == TrainConfig().patience


def test_settings_of_references_arrive_as_they_were_asked_for():
    settings = {"k": 3, "mode": "bm25-dialog", "parrot": -0.5, "calibrated": True, "after": "2026-11-20", "alpha": 0.25}
    order = parse_order(
        {"kind": "freeze", "items": "a", "purpose": "test", "index": "chat", "rater": "base", "settings": settings}
    )
    after = datetime(2026, 11, 20, tzinfo=UTC)
    assert order.settings == AugmentSettings(
        k=3, mode="bm25-dialog", alpha=0.25, after=after, parrot=-0.5, calibrated=True
    )
    assert parse_order(order.as_order()) == order


def test_unknown_cleaning_rules_are_named():
    with refusing(BadInput, "no_rules[0]", "'url'", "'urls'"):
        order("ingest", no_rules=["url"])
    assert rules_of() == RULES == (*REPAIRS, *FILTERS)
    assert rules_of(only_rules=()) == ()
    assert rules_of(only_rules=("nfc",)) == ("nfc",)
    assert rules_of(no_rules=("urls",)) == tuple(rule for rule in RULES if rule != "urls")


def rules_of(**rules):
    return CleaningOptions(**rules).ingest_order("a", ["b"], memory=1, workers=0).cleaning.rules


def test_formats_markups_and_fields_are_those_that_are_read():
    assert get_args(LogFormat) == ("auto", *FORMATS)
    assert get_args(SourceField) == tuple(KNOWN_NAMES)
    [markup] = [option for option in options_of(IngestLog) if option.name == "markup"]
    assert markup.kind.choices == ("auto", "none", *MARKUPS)
