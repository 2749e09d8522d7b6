"""Jobs do what commands do, go on where they were stopped, and make nothing twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from encoders import keep_texts, kept_texts, write_encoder
from refusals import refusing
from trainings import talk

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Versions
from refaug.core.errors import (
    BadInput,
    CheckFailed,
    Conflict,
    Locked,
    NoSource,
    NotAllowed,
    NotFound,
    RefaugError,
    Usage,
    Withdrawn,
)
from refaug.core.home import Settings
from refaug.core.options.describing import options_of
from refaug.core.progress import Silent
from refaug.indexer.manifest import IndexManifest
from refaug.logs.deletion import delete
from refaug.logs.manifest import LogManifest
from refaug.logs.store import StoredLog
from refaug.operations.logs import NightLimits, RunNight
from refaug.scoring.home.encoders import import_encoder
from refaug.scoring.home.stored_artefacts import stored_artefacts
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.service.database.row_ids import new_row_id
from refaug.service.evaluations.evaluation_store import EvaluationStore
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.inbox import Inbox
from refaug.service.jobs.job_order import parse_order
from refaug.service.jobs.kinds import erasing, run
from refaug.service.jobs.kinds.freezing import _path, put_items
from refaug.service.jobs.kinds.job_context import NotPublished, TimedProgress, job_folder, remove_old_jobs
from refaug.service.jobs.kinds.nightly import broken_limits
from refaug.service.server_settings import ServeSettings

ONE = {"threads": 1}


class Told(Silent):
    """Remembers what it was told; and presses Ctrl-C, so to speak, at the n-th stage."""

    def __init__(self, stop_at: int = 0) -> None:
        self.stages, self.warnings, self._stop_at = list[str](), list[str](), stop_at

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        self.stages.append(name)
        if len(self.stages) == self._stop_at:
            raise KeyboardInterrupt

    def warn(self, message: str) -> None:
        self.warnings.append(message)


class Jobs:
    """Runs jobs in a home."""

    def __init__(self, path: Path) -> None:
        self.home, self.serve, self._number = Settings(home=path), ServeSettings(), 0

    def __call__(self, kind: str, *, job: str = "", told: Told | None = None, **order: Any) -> Mapping[str, Any]:
        self._number += 1
        job = job or f"job-{self._number}"
        return run({"kind": kind, **order}, self.home, self.serve, told or Told(), job=job)

    @property
    def indexes(self) -> Versions:
        return artefact_stores(self.home)["index"]

    @property
    def sets(self) -> ReferenceSets:
        return ReferenceSets(self.home.reference_sets)

    def post(self, *dialogues: Mapping[str, Any], log: str = "chat") -> None:
        Inbox(self.home, self.serve).add(log, dialogues)

    def inbox(self, name: str, *lines: Mapping[str, Any]) -> Path:
        path = self.home.home / "inbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
        return path


@pytest.fixture
def jobs(ready) -> Jobs:
    return Jobs(ready.path)


@pytest.fixture
def empty(tmp_path) -> Jobs:
    return Jobs(tmp_path / "home")


def dialogue(number: int, *texts: str) -> dict[str, Any]:
    return {"id": f"new-{number}", "turns": list(texts)}


def items() -> list[dict[str, Any]]:
    return [
        {"id": f"i{n}", "utterance": f"where do you buy {what} {when}", "references": [f"near the {where}"]}
        for n, (what, when, where) in enumerate(
            (what, when, where)
            for what in ("tea", "soup", "bread", "milk")
            for when, where in (("today", "market"), ("at night", "mill"), ("in winter", "bridge"))
        )
    ]


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_ingested_as_the_command_does_it(empty, home_at, tmp_path):
    lines = [{"id": f"d{n}", "turns": [f"question {n} www.a.example/x", f"answer {n}", "bye"]} for n in range(20)]
    source = empty.inbox("deep/log.jsonl", *lines)
    found = empty("ingest", log="chat", sources=["deep/log.jsonl"], workers=0, no_rules=["urls"], flood_cap=5)
    other = home_at(tmp_path / "other")
    result = other.ingest(source, "--no-rule", "urls", "--workers", "0", "--flood-cap", "5")
    assert {name: value for name, value in result.json.items() if name != "sources"} == {
        name: found[name] for name in result.json if name != "sources"
    }
    ours, theirs = (LogManifest.read(path / "logs/chat") for path in (empty.home.home, other.path))
    assert [part.sha256 for part in ours.parts] == [part.sha256 for part in theirs.parts]
    assert ours.ingests[0].settings == theirs.ingests[0].settings
    assert found["sources"][0]["name"] == "log.jsonl", "not where it lies"
    assert list(found["seconds_by_stage"]), "every stage has its seconds"
    again = empty("ingest", log="chat", sources=["deep"], workers=0, no_rules=["urls"], flood_cap=5)
    assert (again["pairs_added"], again["already_there"]) == (0, ["log.jsonl"])


def test_sources_elsewhere_are_refused(empty, tmp_path):
    (tmp_path / "private.jsonl").write_text("{}", "utf-8")
    for source in ("../../private.jsonl", str(tmp_path / "private.jsonl")):
        with pytest.raises(NotAllowed):
            empty("ingest", log="chat", sources=[source])
        with pytest.raises(NotAllowed):
            empty("meta", data=[source])
        with pytest.raises(NotAllowed):
            empty("freeze", items=source, purpose="test")
        with pytest.raises(NotAllowed):
            empty("index-build", logs=["chat"], encoder=source)
    with refusing(BadInput, "map.talk"):
        empty("ingest", log="chat", sources=["a"], map={"talk": "x"})


def test_an_index_is_built_and_encoded_by_an_encoder_of_the_home(jobs, tmp_path):
    import_encoder(artefact_stores(jobs.home)["encoder"], jobs.home.cache, "small", write_encoder(tmp_path / "small"))
    built = jobs("index-build", logs=["chat"], name="coded", encoder="small", check_queries=0, **ONE)
    first = jobs("index-encode", index="coded", **ONE)
    assert (first["index"], first["encoder"].partition("@")[0]) == (f"coded@{built['version']}", "small")
    assert 0 < first["encoded"] < first["texts"] == built["pairs"] + built["utterances"]
    assert jobs("index-encode", index="coded", encoder="small", **ONE)["encoded"] == 0
    with refusing(Usage):
        jobs("index-encode", index="chat", **ONE)


@pytest.mark.parametrize("stop_at", [1, 3])
def test_an_ingest_of_posted_dialogues_that_was_stopped_goes_on(empty, stop_at):
    empty.post(*[dialogue(n, f"question {n}", f"answer {n}") for n in range(5)])
    with pytest.raises(KeyboardInterrupt):
        empty("ingest", log="chat", posted=True, workers=0, job="a", told=Told(stop_at))
    empty.post(dialogue(9, "question 9", "answer 9"))
    assert empty("ingest", log="chat", posted=True, workers=0, job="a")["posted"]["dialogues"] == 5
    assert empty("ingest", log="chat", posted=True, workers=0, job="b")["posted"]["dialogues"] == 1
    pairs = [(one.dialogue, one.response) for one in StoredLog.open(empty.home.logs, "chat").pairs()]
    assert sorted(pairs) == [(f"new-{n}", f"answer {n}") for n in (0, 1, 2, 3, 4, 9)]


# ── the whole way ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_vectors_index_and_rater_are_what_the_commands_make(empty, home_at, tmp_path):
    log = talk(empty.inbox("chat.jsonl"), 240)
    empty("ingest", log="chat", sources=["chat.jsonl"], workers=0)
    vectors = empty("vectors", logs=["chat"], dimensions=8, epochs=2, min_count=1, **ONE)
    index = empty("index-build", logs=["chat"], check_queries=0, **ONE)
    small = {"preset": "small", "epochs": 1, "max_tokens": 12, "positives": 250, "decay": "none"}
    told = Told()
    rater = empty("rater-train", logs=["chat"], **small, validation_share=0.3, told=told, **ONE)
    other = home_at(tmp_path / "other")
    other.ingest(log, "--workers", "0")
    shared = ("--threads", "1", "--json")
    asked = other("train", "vectors", "chat", "--dimensions", "8", "--epochs", "2", "--min-count", "1", *shared).json
    assert (vectors["sha256"], vectors["words"], vectors["published"]) == (asked["sha256"], asked["words"], True)
    asked = other("index", "build", "chat", "--check-queries", "0", *shared).json
    assert (index["id"], index["version"], index["published"]) == (asked["id"], asked["index"].split("@")[1], True)
    options = [text for name, value in small.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    asked = other("train", "rater", "chat", *options, "--validation-share", "0.3", *shared).json
    assert (rater["id"], rater["published"]) == (asked["id"][:12], True)
    assert rater["validation_loss"] == asked["report"]["validation_loss"]
    assert any(stage.startswith("epoch 1 done: loss") for stage in told.stages)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("index-compact", {"index": "chat", **ONE}),
        ("vectors", {"logs": ["chat"], "dimensions": 8, "epochs": 1, "min_count": 1, **ONE}),
    ],
)
def test_version_left_by_a_killed_job_is_published_and_not_built_again(jobs, kind, order):
    """As a kill between adding a version and publishing it leaves it: the first run has not published."""
    versions = artefact_stores(jobs.home)["vectors" if kind == "vectors" else "index"]
    before = versions.versions("chat")
    jobs.post(dialogue(1, "where do you buy tea", "on the moon"))
    jobs("ingest", log="chat", posted=True, workers=0)
    made = jobs(kind, job="a", publish=False, **order)
    assert (made["published"], versions.versions("chat")) == (False, [*before, made["version"]])
    assert versions.current("chat") == before[-1]
    (job_folder(jobs.home, "a") / "stages.json").write_bytes(
        orjson.dumps({"begun": {"versions": before, "seconds": 0}})
    )
    again = jobs(kind, job="a", publish=True, **order)
    assert (again["version"], again["published"]) == (made["version"], True)
    assert versions.versions("chat") == [*before, made["version"]]
    assert versions.current("chat") == made["version"]


def test_a_job_that_was_done_says_so_again_without_doing_anything(jobs):
    jobs.post(dialogue(1, "where do you buy tea", "on the moon"))
    first = jobs("ingest", log="chat", posted=True, workers=0, job="same")
    told = Told()
    assert jobs("ingest", log="chat", posted=True, workers=0, job="same", told=told) == first
    assert told.stages == []


def test_marks_of_old_jobs_and_items_that_nobody_froze_go(jobs):
    name = put_items(jobs.home, [b"{}"])
    jobs("gc", artefact="index", name="chat", job="old")
    for path in (jobs.home.home / "jobs").iterdir():
        os.utime(path, (0, 0))
    jobs("gc", artefact="index", name="chat", job="new")
    assert [path.name for path in (jobs.home.home / "jobs").iterdir()] == ["new"]
    assert name.startswith("items-")
    with refusing(Usage):
        jobs("gc", artefact="index", name="chat", job="../../x")
    remove_old_jobs(jobs.home, 90)
    assert (jobs.home.home / "jobs/new").is_dir()


# ── updates ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_update_is_looked_at_before_it_is_published(jobs):
    old = jobs.indexes.current("chat")
    assert jobs("index-update", index="chat", **ONE)["version"] is None, "there is nothing to do"
    jobs.post(dialogue(1, "where do you buy tea", "on the moon"), dialogue(2, "who sells you soup", "the baker"))
    jobs("ingest", log="chat", posted=True, workers=0)
    found = jobs("index-update", index="chat", least_recall=0.99, check_queries=20, **ONE)
    assert (found["before"], found["changed"], found["gone"]) == (old, 2, 0)
    assert (found["recall"]["recall"], found["recall"]["queries"], found["published"]) == (1.0, 20, True)
    assert jobs.indexes.current("chat") == found["version"] != old


def test_an_update_is_made_once_and_published_when_it_may_be(jobs):
    old = jobs.indexes.current("chat")
    jobs.post(dialogue(1, "where do you buy tea", "on the moon"))
    jobs("ingest", log="chat", posted=True, workers=0)
    first = jobs("index-update", index="chat", publish=False, **ONE)
    assert (first["published"], jobs.indexes.current("chat")) == (False, old)
    second = jobs("index-update", index="chat", **ONE)
    assert (second["version"], second["published"], second["changed"]) == (first["version"], True, None)
    assert jobs.indexes.versions("chat") == [old, first["version"]]
    jobs.post(dialogue(2, "where do you buy tea", "on the sun"))
    jobs("ingest", log="chat", posted=True, workers=0)
    third = jobs("index-update", index="chat", publish=False, **ONE)
    assert third["version"] not in (old, first["version"]), "the log has grown"


# ── freezing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_items_that_were_sent_make_the_set_that_the_command_makes(jobs, ready):
    lines = items()
    path = jobs.inbox("test.jsonl", *lines)
    tools = ("--index", "chat", "--rater", "tiny", "-k", "4", "--threads", "1")
    asked = ready("sets", "freeze", path, "--purpose", "test", *tools, "--json").json
    name = put_items(jobs.home, map(orjson.dumps, lines))
    order = {"items": name, "purpose": "test", "index": "chat", "rater": "tiny", "settings": {"k": 4}, **ONE}
    found = jobs("freeze", job="a", **order)
    assert (found["set"], found["new"], found["items"]) == (asked["id"], False, 12)
    assert found["provenance"] == asked["provenance"]
    assert not list((jobs.home.home / "jobs").glob("items-*"))
    assert jobs("freeze", job="a", **order) == found, "the items are gone, and it is known what became of them"
    with refusing(NoSource, name):
        jobs("freeze", job="b", **order)
    from_file = jobs("freeze", items="test.jsonl", purpose="train", index="chat", rater="tiny", **ONE)
    assert (from_file["new"], from_file["purpose"]) == (True, "train")
    assert path.exists(), "a file of the user's stays"


def test_bad_items_are_told_and_with_strict_nothing_is_frozen(jobs):
    jobs.inbox("test.jsonl", *items()[:2], {"id": "i0", "references": ["x"]}, {"id": "none"})
    found = jobs("freeze", items="test.jsonl", purpose="test")
    assert (found["items"], [one["item"] for one in found["problems"]]) == (2, ["i0", "none"])
    before = jobs.sets.ids()
    with refusing(BadInput, "test.jsonl"):
        jobs("freeze", items="test.jsonl", purpose="train", strict=True)
    assert jobs.sets.ids() == before


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("score", {"items": "test.jsonl", "index": "chat", "rater": "tiny", "metrics": ["upsilon-bleu"]}),
        ("rater-train", {"logs": ["chat"], "workers": 2}),
    ],
)
def test_a_cluster_that_the_settings_name_no_longer_is_not_connected_to(jobs, kind, order):
    jobs.inbox("test.jsonl", *items()[:2])
    told = Told()
    with refusing(NotAllowed, "head:6379"):
        jobs(kind, told=told, on="head:6379", **order)
    assert told.stages == []


def test_what_does_not_go_together_is_refused_before_any_work(jobs):
    jobs.inbox("test.jsonl", *items()[:2])
    with refusing(BadInput):
        jobs("freeze", items="test.jsonl", purpose="test", index="chat")
    alone = {"weights": "one", "parrot": "off"}
    with refusing(BadInput):
        jobs("freeze", items="test.jsonl", purpose="test", index="chat", rater="tiny", settings=alone)
    with refusing(Usage):
        _path(jobs.home, "../../etc/passwd")


# ── agreement ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def rated(count: int = 24) -> list[dict[str, Any]]:
    said = ("near the mill", "at the market", "no", "i think so", "near the market", "why not at the mill")
    return [
        {
            **one,
            "id": f"r{n}",
            "replies": {"a": said[n % 6], "b": said[(n * 5 + 1) % 6]},
            "ratings": {"a": [1 + n % 5, 1 + (n + 1) % 5], "b": [1 + (n * 3) % 5, 2]},
        }
        for n, one in enumerate([*items(), *items()][:count])
    ]


def test_agreement_is_that_of_the_command(jobs, ready):
    path = jobs.inbox("rated.jsonl", *rated())
    specs = ["bleu", "chrf", "rater"]
    options = [text for spec in specs for text in ("-m", spec)]
    asked = ready(
        "agreement",
        path,
        *options,
        "--baseline",
        "rouge-l",
        "--rater",
        "tiny",
        "--draws",
        "50",
        "--threads",
        "1",
        "--json",
    ).json
    found = jobs("meta", data=["rated.jsonl"], metrics=specs, baseline="rouge-l", rater="tiny", draws=50, **ONE)
    assert {name: found[name] for name in asked} == asked
    assert [row["name"] for row in asked["sets"][0]["rows"]][:2] == ["rouge-l", "bleu"]


@pytest.mark.slow
def test_agreement_finds_references_as_refs_does_before_it(jobs, ready, tmp_path):
    path, few = jobs.inbox("rated.jsonl", *rated()), ("--draws", "50", "--threads", "1", "--json")
    found_in = ("--index", "chat", "--rater", "tiny", "-k", "4", "--gold", "rated")
    (tmp_path / "rated.jsonl").write_text(ready("sets", "references", path, *found_in, "--threads", "1").out)
    specs = ["upsilon-bleu", "bleu", "upsilon-chrf:b=0.1"]
    options = [text for spec in specs for text in ("-m", spec)]
    direct = ready("agreement", path, *found_in, *options, *few).json
    assert direct["sets"] == ready("agreement", tmp_path / "rated.jsonl", *options, *few).json["sets"]
    order = {"index": "chat", "rater": "tiny", "settings": {"k": 4, "gold": "rated"}, "draws": 50, **ONE}
    of_job = jobs("meta", data=["rated.jsonl"], metrics=specs, **order)
    assert {name: of_job[name] for name in direct} == direct
    unnamed = ready("agreement", path, "--index", "chat", *few)
    assert (unnamed.error["code"], "refaug-1" in unnamed.error["message"]) == ("usage", True)
    measured = ready("agreement", path, *found_in, "-m", "upsilon-chrf", *few).out
    assert ("|b:" in measured, "|b:0|" in measured) == (True, False)


def test_an_index_is_for_metrics_that_look_at_what_is_found_in_it(jobs, ready):
    path = jobs.inbox("rated.jsonl", *rated())
    for options, message in (
        (("--index", "chat", "--rater", "tiny", "-m", "bleu"), "no metric looks at weighted references"),
        (("--index", "chat", "-m", "upsilon-bleu"), "no rater is named"),
        (("-k", "3", "-m", "bleu"), "-k: it has no effect without an index"),
        (("--rater", "tiny", "-m", "bleu"), "--rater: it has no effect without an index"),
    ):
        refused = ready("agreement", path, *options)
        assert (refused.code, message in refused.err) == (2, True), refused.err
    for order, field in (
        ({"index": "chat", "rater": "tiny", "metrics": ["bleu"]}, "index"),
        ({"index": "chat", "metrics": ["upsilon-bleu"]}, "rater"),
    ):
        with refusing(Usage, field):
            jobs("meta", data=["rated.jsonl"], **order)
    with refusing(BadInput, "settings.k"):
        jobs("meta", data=["rated.jsonl"], settings={"k": 3})


def test_job_metrics_and_tokenizers_read_only_files_requests_may_name(jobs, tmp_path):
    jobs.inbox("rated.jsonl", *rated())
    elsewhere = tmp_path / "secret.model"
    elsewhere.write_bytes(b"not yours")
    inside = jobs.inbox("tok.model")
    inside.write_bytes(b"no model")
    told = Told()
    for name in (str(elsewhere), "../../secret.model", "../logs/chat/manifest.json"):
        spec = f"bleu:tok=sentencepiece:{name}"
        for order in ({"metrics": [spec]}, {"metrics": ["bleu"], "baseline": spec}):
            with refusing(NotAllowed):
                jobs("meta", data=["rated.jsonl"], told=told, **order)
        for kind, order in (("vectors", {"name": "v"}), ("index-build", {"name": "i"})):
            with refusing(NotAllowed):
                jobs(kind, logs=["chat"], tokenizer=f"sentencepiece:{name}", told=told, **order)
    assert told.stages == [], "nothing was begun"
    with pytest.raises(RefaugError) as caught:  # the file is looked for where it lies
        jobs("meta", data=["rated.jsonl"], metrics=["bleu:tok=sentencepiece:tok.model"])
    assert str(inside) in caught.value.message


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def frozen(jobs) -> str:
    """A set whose references are of the index; the id."""
    jobs.inbox("test.jsonl", *items())
    order = {"index": "chat", "rater": "tiny", "settings": {"k": 4}}
    return str(jobs("freeze", items="test.jsonl", purpose="validation", **order, **ONE)["set"])


def references(jobs, name) -> list[dict[str, Any]]:
    stored_set = jobs.sets.open(name, even_withdrawn=True)
    return [dict(one.more) for item in stored_set.items() for one in item.references if "pair" in one.more]


def test_an_erased_dialogue_is_gone_everywhere(jobs, frozen):
    gone = references(jobs, frozen)[0]["dialogue"]
    count = sum(one["dialogue"] == gone for one in references(jobs, frozen))
    old = jobs.indexes.current("chat")
    jobs.post({"id": gone, "turns": ["it was said", "once more"]})
    log = [*StoredLog.open(jobs.home.logs, "chat").pairs()]
    texts = {text for one in log for text in (one.utterance, one.response)}
    keep_texts(jobs.home.cache, texts)
    found = jobs("erase", log="chat", dialogues=[gone], **ONE)
    assert found["posted"] == 1
    erased = {text for one in log if one.dialogue == gone for text in (one.utterance, one.response)}
    assert kept_texts(jobs.home.cache, erased) == set()
    assert kept_texts(jobs.home.cache, texts) != set()
    assert (found["removed"]["pairs"], found["removed"]["dialogues"]) == (1, [1])
    assert not any(one.dialogue == gone for one in StoredLog.open(jobs.home.logs, "chat").pairs())
    ((index,), (one,)) = found["indexes"], found["sets"]
    assert (index["index"], index["removed"], index["held"]) == ("chat", [old], [])
    assert jobs.indexes.current("chat") == index["version"] != old
    assert jobs.indexes.versions("chat") == [index["version"]], "no version is left that has it"
    assert (one["set"], one["references"]) == (frozen, count)
    with refusing(Withdrawn) as caught:
        jobs.sets.open(frozen)
    assert one["instead"] in caught.value.remedy
    left = jobs.sets.open(one["instead"])
    assert (left.manifest.parent, left.manifest.purpose) == (frozen, "validation")
    withdrawn = jobs.sets.open(frozen, even_withdrawn=True).manifest
    assert left.manifest.provenance == {**withdrawn.provenance, "erased": str(count)}, "scores by it say so"
    assert references(jobs, one["instead"]) == [one for one in references(jobs, frozen) if one["dialogue"] != gone]
    assert not (job_folder(jobs.home, "job-2") / "pairs.txt").exists()


def test_an_erasure_says_how_many_of_its_names_were_found_nowhere(empty):
    turns = [{"text": "where do you buy tea", "speaker": "ann"}, {"text": "at the mill", "speaker": "bob"}]
    empty.post({"id": "d1", "turns": turns}, log="chat")
    empty("ingest", log="chat", posted=True, workers=0)
    empty.post({"id": "d2", "turns": ["it waits", "it does"]}, log="chat")
    told = Told()
    found = empty("erase", log="chat", dialogues=["d1", "d2", "d9"], speakers=["nobody"], told=told, **ONE)
    assert found["not_found"] == {"dialogues": 1, "speakers": 1}
    counted = [(warning.partition(" to be erased")[0], warning.rpartition(": ")[2]) for warning in told.warnings]
    assert counted == [("dialogues", "1 of 3"), ("speakers", "1 of 1")]
    assert not any("d9" in warning or "nobody" in warning for warning in told.warnings)


def test_an_erasure_that_was_stopped_says_nothing_of_what_it_may_have_found_before(empty):
    turns = [{"text": "where do you buy tea", "speaker": "ann"}, {"text": "at the mill", "speaker": "bob"}]
    empty.post({"id": "d1", "turns": turns}, log="chat")
    empty("ingest", log="chat", posted=True, workers=0)
    with pytest.raises(KeyboardInterrupt):
        empty("erase", log="chat", dialogues=["d1", "d9"], job="a", told=Told(2), **ONE)
    told = Told()
    found = empty("erase", log="chat", dialogues=["d1", "d9"], job="a", told=told, **ONE)
    assert (found["not_found"], told.warnings) == ({}, [])


@pytest.fixture
def spoken(empty) -> str:
    """A set with one reply of bob's and one of eve's, both to ann; the id."""
    turns = [{"text": "where do you buy tea", "speaker": "ann"}, {"text": "at the mill", "speaker": "bob"}]
    more = [{"text": "where do you buy tea", "speaker": "ann"}, {"text": "at the market", "speaker": "eve"}]
    empty.post({"id": "d1", "turns": turns}, {"id": "d2", "turns": more}, log="chat")
    empty("ingest", log="chat", posted=True, workers=0)
    empty("vectors", logs=["chat"], dimensions=4, epochs=1, min_count=1, **ONE)
    empty("index-build", logs=["chat"], check_queries=0, least_coverage=0.0, **ONE)
    empty.inbox("test.jsonl", {"id": "i", "utterance": "where do you buy tea", "references": ["in town"]})
    settings = {"weights": "one", "parrot": "off"}
    return str(empty("freeze", items="test.jsonl", purpose="test", index="chat", settings=settings, **ONE)["set"])


def test_erasing_a_speaker_withdraws_sets_with_what_they_said(empty, spoken):
    assert sorted(one["dialogue"] for one in references(empty, spoken)) == ["d1", "d2"]
    found = empty("erase", log="chat", speakers=["bob"], compact=True, **ONE)
    assert found["removed"]["speakers"] == [1]
    (one,) = found["sets"]
    assert [kept["dialogue"] for kept in references(empty, one["instead"])] == ["d2"]
    folder = empty.indexes.folder("chat", str(empty.indexes.current("chat")))
    assert len(empty.indexes.versions("chat")) == 1
    manifest = IndexManifest.read(folder)
    assert (manifest.pairs, len(manifest.segments)) == (1, 1)
    assert not any(b"at the mill" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_log_that_loses_all_does_not_keep_its_texts_in_a_compacted_index(empty):
    for log, speaker, reply in (("chat", "bob", "at the mill"), ("other", "eve", "at the market")):
        turns = [{"text": "where do you buy tea", "speaker": "ann"}, {"text": reply, "speaker": speaker}]
        empty.post({"id": "d1", "turns": turns}, log=log)
        empty("ingest", log=log, posted=True, workers=0)
    empty("vectors", logs=["chat", "other"], name="both", dimensions=4, epochs=1, min_count=1, **ONE)
    built = {"name": "both", "vectors": "both", "check_queries": 0, "least_coverage": 0.0}
    empty("index-build", logs=["chat", "other"], **built, **ONE)
    (index,) = empty("erase", log="other", speakers=["eve"], compact=True, **ONE)["indexes"]
    assert (index["compacted"], empty.indexes.versions("both")) == (True, [index["version"]])
    folder = empty.indexes.folder("both", index["version"])
    assert not any(b"at the market" in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    told = Told()
    (index,) = empty("erase", log="chat", speakers=["bob"], compact=True, told=told, **ONE)["indexes"]
    assert (index["compacted"], empty.indexes.versions("both")) == (False, [index["version"]])
    assert told.warnings == [
        "log chat, other has no pairs; what was erased is masked in index both, and still in its files"
    ]


def test_a_set_that_is_frozen_while_an_index_is_updated_is_withdrawn_too(jobs, frozen):
    later = list[str]()

    class Freezes(Told):
        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            if name == "comparing with the logs":
                order = {"index": "chat", "rater": "tiny", "settings": {"k": 4}}
                later.append(jobs("freeze", items="test.jsonl", purpose="test", **order, **ONE)["set"])

    gone = references(jobs, frozen)[0]["dialogue"]
    found = jobs("erase", log="chat", dialogues=[gone], told=Freezes(), **ONE)
    assert {one["set"] for one in found["sets"]} == {frozen, *later}
    with refusing(Withdrawn):
        jobs.sets.open(later[0])


def test_a_damaged_set_stops_no_erasure_and_is_found_by_the_next(empty, spoken):
    path, told = empty.sets.path_of(spoken), Told()
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    old = empty.indexes.current("chat")
    found = empty("erase", log="chat", speakers=["bob"], told=told, **ONE)
    assert empty.indexes.versions("chat") == [found["indexes"][0]["version"]] != [old]
    assert (found["sets"], found["unreadable_sets"]) == ([], [spoken])
    assert all(f"once set {spoken} can be read again, erase again" in warning for warning in told.warnings)
    path.write_bytes(whole)
    (one,) = empty("erase", log="chat", speakers=["bob"], **ONE)["sets"]
    assert (one["set"], one["references"]) == (spoken, 1)
    assert [kept["dialogue"] for kept in references(empty, one["instead"])] == ["d2"]


def test_an_evaluation_with_erased_references_goes_and_others_stay(empty, spoken):
    scored = {"items": "test.jsonl", "index": "chat", "settings": {"weights": "one", "parrot": "off"}, **ONE}
    empty.inbox(
        "test.jsonl",
        {"id": "i", "utterance": "where do you buy tea", "references": ["in town"], "replies": {"a": "at the mill"}},
    )
    names = [new_row_id(), new_row_id()]
    empty("score", job=names[0], metrics=["upsilon-bleu"], **scored)
    empty("score", job=names[1], metrics=["bleu"], items="test.jsonl")
    store = EvaluationStore(empty.home, empty.serve)
    found = empty("erase", log="chat", speakers=["bob"], **ONE)
    assert found["evaluations"] == [{"evaluation": names[0], "references": 1}]
    assert store.ids() == names[1:]


def acts(jobs: Jobs, job: str) -> list[tuple[str, str]]:
    return [(act.action, act.subject) for act in JobActs(jobs.home).of_job(job)]


def test_an_erasure_that_fails_at_an_index_has_noted_what_it_did(jobs, frozen, monkeypatch):
    gone = references(jobs, frozen)[0]["dialogue"]
    with jobs.indexes.writing("chat", "a test"):
        monkeypatch.setattr(erasing, "_WAIT_S", -1.0)
        with pytest.raises(Locked):
            jobs("erase", log="chat", dialogues=[gone], job="a", **ONE)
    assert acts(jobs, "a") == [("erase", "log chat"), ("withdraw", f"set {frozen}")]
    old = jobs.indexes.current("chat")
    jobs("erase", log="chat", dialogues=[gone], job="a", **ONE)
    after = [("publish", f"index chat@{jobs.indexes.current('chat')}"), ("remove", "index chat")]
    assert acts(jobs, "a")[2:] == after
    (*_, removal) = JobActs(jobs.home).of_job("a")
    assert removal.details == {"versions": [old]}
    assert JobActs(jobs.home).of_job("a")[0].details == {"dialogues": 1, "speakers": 0}


@pytest.mark.parametrize("stop_at", [3, 7])
def test_an_erasure_that_was_stopped_is_finished(jobs, frozen, stop_at):
    gone = references(jobs, frozen)[0]["dialogue"]
    with pytest.raises(KeyboardInterrupt):
        jobs("erase", log="chat", dialogues=[gone], job="a", told=Told(stop_at), **ONE)
    found = jobs("erase", log="chat", dialogues=[gone], job="a", **ONE)
    assert found["removed"]["dialogues"] == [1]
    assert [one["set"] for one in found["sets"]] == [frozen]
    assert len(jobs.indexes.versions("chat")) == 1
    assert not any(one["dialogue"] == gone for one in references(jobs, found["sets"][0]["instead"]))


def test_an_erasure_is_not_done_while_a_version_that_has_it_is_read(jobs, frozen, monkeypatch):
    gone = references(jobs, frozen)[0]["dialogue"]
    old = str(jobs.indexes.current("chat"))
    with jobs.indexes.open("chat"), monkeypatch.context() as patched:
        patched.setattr(erasing, "_READERS_S", -1.0)
        with refusing(Conflict, "chat", old):
            jobs("erase", log="chat", dialogues=[gone], job="a", **ONE)
    (index,) = jobs("erase", log="chat", dialogues=[gone], job="a", **ONE)["indexes"]
    assert (index["removed"], jobs.indexes.versions("chat")) == ([old], [index["version"]])


def test_an_erasure_waits_for_what_reads_a_version_and_then_searches_the_sets(jobs, frozen):
    gone, readers = references(jobs, frozen)[0]["dialogue"], [jobs.indexes.open("chat")]

    class Ends(Told):
        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            super().stage(name)
            if "older versions" in name:
                readers.pop().close()

    told = Ends()
    (index,) = jobs("erase", log="chat", dialogues=[gone], told=told, **ONE)["indexes"]
    assert jobs.indexes.versions("chat") == [index["version"]]
    *_, waiting, sets, _ = told.stages
    assert (waiting, sets) == ("waiting for what reads older versions of index chat", "frozen sets")


def test_an_erasure_waits_for_whoever_works_on_the_same_thing(monkeypatch):
    monkeypatch.setattr(erasing, "_RETRY_S", 0.0)
    answers = iter([Locked("in use"), Locked("in use"), "done"])

    def do() -> str:
        answer = next(answers)
        if isinstance(answer, Locked):
            raise answer
        return answer

    assert erasing._retry_while_locked(do) == "done"
    monkeypatch.setattr(erasing, "_WAIT_S", -1.0)
    answers = iter([Locked("in use")])
    with pytest.raises(Locked):
        erasing._retry_while_locked(do)


def test_erasing_from_a_log_that_is_not_there_says_so(empty):
    with refusing(NotFound, "chat"):
        empty("erase", log="chat", dialogues=["d1"])


# ── the night ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def night(jobs: Jobs, frozen: str | None, **more: Any) -> Mapping[str, Any]:
    order = {"log": "chat", "index": "chat", "set": frozen, "check_queries": 20, "workers": 0, **ONE}
    return jobs("nightly", **{**order, **more})


def news(jobs: Jobs, first: int = 0) -> None:
    jobs.post(
        *[
            dialogue(first + n, f"where do you buy {what} today", "on the moon")
            for n, what in enumerate(("tea", "soup"))
        ]
    )


def test_a_night_ends_with_a_new_version_and_the_old_one_beside_it(jobs, frozen):
    old = jobs.indexes.current("chat")
    news(jobs)
    told = Told()
    found = night(jobs, frozen, told=told, limits={"recall": 0.9, "references_changed": 1.0, "spearman": -1.0})
    assert found["ingest"]["posted"] == {"requests": 1, "dialogues": 2}
    assert (found["update"]["before"], found["update"]["changed"]) == (old, 2)
    assert found["recall"]["recall"] == 1.0
    assert (found["drift"]["set"], found["drift"]["items"], found["failed"]) == (frozen, 12, [])
    assert found["drift"]["items_changed"] > 0
    assert (found["published"], found["removed"]) == (True, [])
    assert jobs.indexes.versions("chat") == [old, jobs.indexes.current("chat")]
    assert jobs.indexes.current("chat") == found["version"]
    assert "publishing the index" in told.stages
    assert night(jobs, frozen)["version"] is None, "nothing new, nothing made"


def test_a_night_takes_sources_and_what_was_posted_whatever_their_cleaning(jobs, frozen):
    news(jobs)
    jobs.inbox("more.jsonl", dialogue(50, "where is the old mill", "behind the bridge"))
    jobs("ingest", log="chat", sources=["more.jsonl"], workers=0, min_chars=2)
    jobs.inbox("new.jsonl", dialogue(51, "where is the new mill", "before the bridge"))
    told = Told()
    report = night(jobs, frozen, sources=["more.jsonl", "new.jsonl"], max_chars=500, told=told)["ingest"]
    assert (report["pairs_added"], report["posted"]) == (3, {"requests": 1, "dialogues": 2})
    assert (report["already_there"], len(report["sources"])) == (["more.jsonl"], 2)
    assert report["totals"]["pairs"] == LogManifest.read(jobs.home.logs / "chat").totals["pairs"]
    assert [line for line in told.warnings if "max_chars 500 is not used" in line]
    alone = night(jobs, frozen, sources=["new.jsonl"])["ingest"]
    assert (alone["pairs_added"], alone["posted"]) == (0, {"requests": 0, "dialogues": 0})


def test_a_night_that_is_stopped_after_publishing_has_noted_it(jobs, frozen):
    news(jobs)

    class StopAtOldVersions(Told):
        def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
            if name == "removing old versions":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        night(jobs, frozen, job="a", told=StopAtOldVersions())
    published = ("publish", f"index chat@{jobs.indexes.current('chat')}")
    assert acts(jobs, "a") == [published]
    night(jobs, frozen, job="a")
    assert acts(jobs, "a")[0] == published
    assert [action for action, _ in acts(jobs, "a")].count("publish") == 1


def test_missed_limit_leaves_the_old_version_and_is_not_rebuilt_next_night(jobs, frozen):
    old = jobs.indexes.current("chat")
    news(jobs)
    with refusing(NotPublished) as caught:
        night(jobs, frozen, limits={"references_changed": 0.0})
    assert (caught.value.code, caught.value.exit_code) == ("check_failed", 6)
    assert isinstance(caught.value, CheckFailed)
    result = caught.value.result
    assert (result["published"], result["drift"]["set"]) == (False, frozen)
    assert str(old) in caught.value.remedy
    assert jobs.indexes.current("chat") == old
    there = jobs.indexes.versions("chat")
    with pytest.raises(NotPublished):
        night(jobs, frozen, limits={"references_changed": 0.0})
    assert jobs.indexes.versions("chat") == there
    found = night(jobs, frozen)
    assert (found["version"], jobs.indexes.current("chat")) == (result["version"], result["version"])


def test_the_version_that_served_stays_however_many_failed_since(jobs, frozen):
    old, failed = jobs.indexes.current("chat"), list[str]()
    for first in (0, 10):
        news(jobs, first)
        with pytest.raises(NotPublished) as caught:
            night(jobs, frozen, limits={"references_changed": 0.0}, keep=1)
        failed.append(caught.value.result["version"])
    assert jobs.indexes.versions("chat") == [old, failed[1]]
    news(jobs, 20)
    found = night(jobs, frozen, keep=1)
    assert (found["removed"], jobs.indexes.versions("chat")) == ([failed[1]], [old, found["version"]])


def test_rollback_returns_to_the_version_before_a_refused_one(jobs, frozen):
    first = jobs.indexes.current("chat")
    news(jobs)
    with pytest.raises(NotPublished) as caught:
        night(jobs, frozen, limits={"references_changed": 0.0})
    refused, indexes = caught.value.result["version"], stored_artefacts(jobs.home, "index")
    with refusing(Conflict, refused):
        indexes.publish("chat", refused)
    jobs.post(dialogue(30, "where do you buy tea today", "in the garden"))
    assert night(jobs, frozen)["update"]["before"] == first
    assert indexes.rollback("chat") == first
    indexes.publish("chat", refused, even_refused=True)
    assert jobs.indexes.current("chat") == refused


def test_what_was_deleted_goes_whatever_the_checks_say(jobs, frozen):
    gone, told = references(jobs, frozen)[0]["dialogue"], Told()
    delete(jobs.home.logs, "chat", dialogues=[gone])
    found = night(jobs, frozen, limits={"references_changed": 0.0}, told=told)
    assert found["published"]
    assert len(found["failed"]) == 1
    assert any("published all the same, since something was deleted" in one for one in told.warnings)
    assert jobs.indexes.current("chat") == found["version"]


class Interrupted(Told):
    """Lets something else happen just before a night publishes its version."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        if name == "publishing the index":
            self._meanwhile()


def test_a_night_takes_back_no_version_that_was_published_while_it_ran(jobs):
    news(jobs)

    def update() -> None:
        jobs.post(dialogue(50, "where is the old mill", "behind the bridge"))
        jobs("ingest", log="chat", posted=True, workers=0)
        jobs("index-update", index="chat", **ONE)

    with refusing(NotPublished, "was published since") as caught:
        night(jobs, None, told=Interrupted(update))
    assert caught.value.result["published"] is False
    assert jobs.indexes.versions("chat")[-2:] == [caught.value.result["version"], jobs.indexes.current("chat")]


def test_a_night_takes_back_what_shows_deleted_texts_whenever_it_was_published(jobs):
    news(jobs)
    jobs("ingest", log="chat", posted=True, workers=0)
    with_all = jobs("index-update", index="chat", publish=False, **ONE)["version"]
    delete(jobs.home.logs, "chat", dialogues=["new-0"])
    found = night(jobs, None, told=Interrupted(lambda: jobs.indexes.publish("chat", with_all)))
    assert jobs.indexes.current("chat") == found["version"] != with_all


def stages_of_a_night(jobs: Jobs, frozen: str, copy: Path) -> int:
    shutil.copytree(jobs.home.home, copy)
    told = Told()
    night(Jobs(copy), frozen, told=told, job="whole")
    return len(told.stages)


@pytest.mark.slow
def test_a_night_that_was_stopped_anywhere_goes_on_and_makes_one_version(jobs, frozen, tmp_path):
    news(jobs)
    old = jobs.indexes.current("chat")
    count = stages_of_a_night(jobs, frozen, tmp_path / "whole")
    assert count > 10
    whole = IndexManifest.read(
        Jobs(tmp_path / "whole").indexes.folder("chat", Jobs(tmp_path / "whole").indexes.versions("chat")[-1])
    )
    for stop_at in range(1, count + 1, 3):
        copy = Jobs(tmp_path / f"stopped-{stop_at}")
        shutil.copytree(jobs.home.home, copy.home.home)
        with pytest.raises(KeyboardInterrupt):
            night(copy, frozen, job="n", told=Told(stop_at))
        assert copy.indexes.current("chat") in copy.indexes.versions("chat")
        found = night(copy, frozen, job="n")
        assert found["published"]
        assert copy.indexes.versions("chat") == [old, found["version"]], f"stopped at stage {stop_at}"
        assert copy.indexes.current("chat") == found["version"]
        assert IndexManifest.read(copy.indexes.folder("chat", found["version"])).pairs == whole.pairs
        assert LogManifest.read(copy.home.logs / "chat").totals["pairs"] == 722
        assert Inbox(copy.home, copy.serve).waiting("chat")["requests"] == 0
        shutil.rmtree(copy.home.home)


def test_a_night_without_a_set_or_with_files_and_replies(jobs, frozen):
    jobs.inbox("new.jsonl", dialogue(1, "where do you buy tea today", "on the moon"))
    jobs.inbox("replies.jsonl", *[{"id": f"i{n}", "replies": {"a": "near the moon", "b": "no"}} for n in range(12)])
    found = night(
        jobs, frozen, sources=["new.jsonl"], replies="replies.jsonl", metrics=["upsilon-bleu", "upsilon-chrf"]
    )
    assert [(one["metric"], one["system"]) for one in found["drift"]["scores"]] == [
        (metric, system) for metric in ("upsilon-bleu", "upsilon-chrf") for system in ("a", "b")
    ]
    assert found["ingest"]["pairs_added"] == 1
    news(jobs)
    plain = night(jobs, frozen, set=None)
    assert "drift" not in plain
    assert plain["published"]


def test_a_night_compares_on_what_stands_in_for_a_withdrawn_set(jobs, frozen):
    erased = jobs("erase", log="chat", dialogues=[references(jobs, frozen)[0]["dialogue"]], **ONE)
    (instead,) = (one["instead"] for one in erased["sets"])
    news(jobs)
    told = Told()
    assert night(jobs, frozen, told=told)["drift"]["set"] == instead
    assert any(f"set {instead} is used instead" in warning for warning in told.warnings)
    jobs.sets.withdraw(instead, "it is outdated")
    news(jobs, 2)
    with pytest.raises(NotPublished) as caught:
        night(jobs, frozen, limits={"corpus_difference": 0.5})
    assert caught.value.result["failed"] == ["corpus difference could not be computed"]


def test_what_would_stop_a_night_is_found_before_its_work(jobs, frozen):
    news(jobs)
    given = jobs("freeze", items="test.jsonl", purpose="test")["set"]
    for more, error, fact in (
        ({"set": given}, Usage, given),
        ({"set": "0123456789abcdef"}, NotFound, "0123456789abcdef"),
        ({"metrics": ["blue"]}, Usage, "blue"),
        ({"metrics": ["bleu:tok=sentencepiece:/etc/hostname"]}, NotAllowed, "/etc/hostname"),
        ({"replies": "../x"}, NotAllowed, "../x"),
        ({"rater": "nobody"}, NotFound, "nobody"),
    ):
        with refusing(error, fact):
            night(jobs, frozen, **more)
    assert Inbox(jobs.home, jobs.serve).waiting("chat")["requests"] == 1, "nothing was begun"


def test_limits_are_from_below_or_from_above_and_the_unknown_keeps_to_none():
    worst = {"corpus_difference": 0.03, "mean_absolute": None, "references_changed": 0.5, "spearman": 0.8}
    result = {"recall": {"recall": 0.9}, "drift": {"worst": worst}}

    def told(**limits: float) -> list[str]:
        order = parse_order({"kind": "nightly", "log": "a", "index": "a", "set": "0" * 16, "limits": limits})
        assert isinstance(order, RunNight)
        return broken_limits(order, result)

    assert told() == []
    assert told(recall=0.9, corpus_difference=0.03, references_changed=0.5, spearman=0.8) == []
    assert told(recall=0.91) == ["recall is 0.9, at least 0.91 is required"]
    assert told(corpus_difference=0.02) == ["corpus difference is 0.03, at most 0.02 is allowed"]
    assert told(references_changed=0.4) == ["references changed is 0.5, at most 0.4 is allowed"]
    assert told(spearman=0.9) == ["spearman is 0.8, at least 0.9 is required"]
    assert told(mean_absolute=1.0) == ["mean absolute could not be computed"]
    assert {option.spelling for option in options_of(NightLimits)} == {"recall", *worst}


def test_the_clock_counts_every_stage():
    times = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
    clock = TimedProgress(Silent(), clock=lambda: next(times))
    for stage in ("a", "b", "a"):
        clock.stage(stage)
    assert clock.seconds == {"a": 2.0 + 4.0, "b": 3.0}
