"""The nightly story: dialogues are posted all day, a schedule brings the index up to them, and a limit can say no."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from raters import tiny_rater
from trainings import talk

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.versions import Versions
from refaug.core.files import write_json
from refaug.core.home import Settings
from refaug.core.records import Item, Origin, Reference
from refaug.indexer.search.search_settings import SearchSettings
from refaug.logs.store import StoredLog
from refaug.metrics.specification import build
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.evaluate import evaluate
from refaug.scoring.home.indexes import open_index
from refaug.scoring.home.networks import open_rater
from refaug.scoring.home.stored_artefacts import stored_artefacts
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.settings import ScoreSettings
from refaug.service.database.database import Database
from refaug.service.jobs.inbox import Inbox
from refaug.service.jobs.job_order import parse_order, resources_of
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import Job, JobState, JobStore
from refaug.service.jobs.worker import run_worker
from refaug.service.server_settings import ServeSettings

pytestmark = pytest.mark.slow

# Far ahead, so that the worker, whose clock is the real one, finds nothing due.
EVENING = datetime(2096, 11, 20, 17, 0, tzinfo=UTC)
AT_TWO = datetime(2096, 11, 21, 1, 0, tzinfo=UTC)  # 02:00 in Berlin
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
K = 4
ASKED = "where do you buy tea today"


@dataclass
class House:
    """A home with its database, and the clock that schedules see."""

    home: Settings
    serve: ServeSettings
    database: Database
    frozen: str

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.database)

    @property
    def schedules(self) -> ScheduleStore:
        return ScheduleStore(self.database)

    @property
    def indexes(self) -> Versions:
        return artefact_stores(self.home)["index"]

    def post(self, *dialogues: tuple[str, str, str]) -> None:
        said = [{"id": name, "turns": [asked, answered]} for name, asked, answered in dialogues]
        assert Inbox(self.home, self.serve).add("chat", said)["accepted"] == len(said)

    def order(self, **limits: float) -> dict[str, Any]:
        settings = {"check_queries": 20, "workers": 0, "threads": 1}
        return {"kind": "nightly", "log": "chat", "index": "chat", "set": self.frozen, "limits": limits, **settings}

    def schedule(self, now: datetime, **limits: float) -> None:
        """Every night at two, with these limits; as a schedule that was there before, and is switched on now."""
        given = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "order": self.order(**limits)}
        self.schedules.put("night", enabled=False, now=LONG_AGO, **given)
        self.schedules.put("night", now=now, **given)

    def night(self, now: datetime) -> Job:
        """What is due fires, once however often it is looked at, and the worker does it."""
        fired = [one.job for one in self.schedules.tick(self.jobs, now) if one.job]
        assert len(fired) == 1
        assert self.schedules.tick(self.jobs, now) == []
        assert run_worker(self.home, self.serve, once=True) == 0
        return self.jobs.get(str(fired[0]))

    def answer(self) -> list[tuple[str, str]]:
        """What the published index has for a question: dialogue and text."""
        pair = Item(id="q", turns=(ASKED,), references=(Reference(text="nowhere"),))
        with open_index(self.home, "chat", threads=1) as index:
            found = index.search([pair], SearchSettings(k=K))[0].references
        return [(str(one.more["dialogue"]), one.text) for one in found]


def do(home: Settings, database: Database, **order: Any) -> Any:
    """Queue a job, and have the worker do it."""
    asked = parse_order(order)
    job = JobStore(database).enqueue(asked.kind, asked.as_order(), resources_of(asked))
    assert run_worker(home, ServeSettings(), once=True) == 0
    made = JobStore(database).get(job.id)
    assert made.state is JobState.DONE, made.error
    return made.result


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A home with a log, an index and a rater, and a set that was frozen with them: all of it by jobs but the rater."""
    home, serve = Settings(home=tmp_path / "home"), ServeSettings()
    database = Database.open(home)
    database.migrate()
    (home.home / "inbox").mkdir()
    talk(home.home / "inbox/log.jsonl", 80)
    do(home, database, kind="ingest", log="chat", sources=["log.jsonl"], workers=0)
    do(home, database, kind="vectors", logs=["chat"], dimensions=8, epochs=2, min_count=1, threads=1)
    do(home, database, kind="index-build", logs=["chat"], check_queries=0, threads=1)
    texts = sorted(
        {text for pair in StoredLog.open(home.logs, "chat").pairs() for text in (pair.utterance, pair.response)}
    )
    rater = tiny_rater(texts, tmp_path)
    save_rater(
        tmp_path / "tiny", rater.model, rater.tokenizer, temperature=1.0, languages=["en"], report={}, details={}
    )
    artefact_stores(home)["rater"].publish("tiny", artefact_stores(home)["rater"].add("tiny", tmp_path / "tiny"))
    items = [
        {"id": f"i{n}", "utterance": f"where do you buy {what} today", "references": [gold]}
        for n, (what, gold) in enumerate(
            [("tea", "at the market"), ("soup", "near the mill i think"), ("bread", "at the bridge"), ("milk", "no")]
        )
    ]
    (home.home / "inbox/test.jsonl").write_bytes(b"\n".join(map(orjson.dumps, items)))
    tools = {"index": "chat", "rater": "tiny", "settings": {"k": K}, "threads": 1}
    frozen = do(home, database, kind="freeze", items="test.jsonl", purpose="test", **tools)["set"]
    yield House(home, serve, database, str(frozen))
    database.close()


def scored_with(house: House, version: str) -> tuple[float, list[float], list[set[str]]]:
    """Corpus, replies and found texts of the set's golds with a version: one search and one rating after the other."""
    rater = open_rater(house.home, "tiny", threads=1)
    items, found = [], []
    with open_index(house.home, f"chat@{version}", threads=1) as index:
        for item in ReferenceSets(house.home.reference_sets).open(house.frozen).items():
            gold, utterance = item.references[0], item.turns[0]
            assert gold.source is Origin.GOLD
            pair = Item(id=item.id, turns=item.turns, references=(gold,))
            retrieved = index.search([pair], SearchSettings(k=K))[0].references
            parrot = Reference(text=utterance, source=Origin.PARROT)
            weighed = []
            for one in (parrot, *retrieved):
                candidate = Reference(text=one.text, utterance=one.utterance)
                asked = RatingRequest(utterance=utterance, golds=(gold.text,), candidates=(candidate,))
                ((weight,),) = rater.rate([asked], RatingSettings())
                weighed.append(Reference(text=one.text, source=one.source, weight=weight))
            items.append(Item(id=item.id, references=tuple(weighed), replies={"gold": gold.text}))
            found.append({one.text for one in retrieved})
    scores = evaluate(items, [build("upsilon-bleu")], ScoreSettings(draws=0)).scores[0].systems["gold"]
    return float(scores.corpus or 0), [score or 0.0 for score in scores.each_score()], found


def test_two_nights(house: House) -> None:
    old = str(house.indexes.current("chat"))
    before = house.answer()
    house.schedule(EVENING, recall=0.9)
    for hour in range(6):  # all day
        house.post((f"day-{hour}", ASKED, f"from the moon, number {hour}"))
    assert house.schedules.tick(house.jobs, AT_TWO - timedelta(seconds=1)) == []

    first = house.night(AT_TWO)
    assert first.state is JobState.DONE, first.error
    assert (first.schedule, first.kind, first.result is not None) == ("night", "nightly", True)
    result: Any = first.result
    new = str(house.indexes.current("chat"))
    assert (result["version"], result["published"], result["update"]["before"]) == (new, True, old)
    assert house.indexes.versions("chat") == [old, new], "the one before is kept"
    assert result["ingest"]["posted"] == {"requests": 6, "dialogues": 6}
    assert result["recall"]["recall"] == 1.0
    after = house.answer()
    assert after != before
    assert {name for name, _ in after} & {f"day-{hour}" for hour in range(6)}, "answers are of the new version"
    assert house.schedules.failing(now=AT_TWO) == {}

    (corpus_old, replies_old, found_old), (corpus_new, replies_new, found_new) = (
        scored_with(house, version) for version in (old, new)
    )
    (drift,) = result["drift"]["scores"]
    moved = [abs(one - other) for one, other in zip(replies_old, replies_new, strict=True)]
    assert drift["corpus_old"] == pytest.approx(corpus_old, abs=1e-5)
    assert drift["corpus_new"] == pytest.approx(corpus_new, abs=1e-5)
    assert drift["difference"] == pytest.approx(corpus_new - corpus_old, abs=1e-5)
    assert drift["mean_absolute"] == pytest.approx(sum(moved) / len(moved), abs=1e-5)
    changed = sum(one != other for one, other in zip(found_old, found_new, strict=True))
    assert result["drift"]["items_changed"] == changed > 0
    assert result["drift"]["references_changed"] == changed / 4
    stages = [event.data["stage"] for event in house.jobs.events(first.id) if event.type == "stage"]
    named = ["fingerprints", "comparing with the logs", "searching through everything", "publishing the index"]
    assert sorted(named, key=stages.index) == named

    # The second night may change nothing, and the new dialogues do.
    house.schedule(AT_TWO + timedelta(hours=1), references_changed=0.0)
    house.post(
        *[(f"next-{n}", f"where do you buy {what} today", f"from mars, {n}") for n, what in enumerate(("tea", "milk"))]
    )
    second = house.night(AT_TWO + timedelta(days=1))
    assert second.state is JobState.FAILED
    error: Any = second.error
    assert (error["code"], error["exit_code"]) == ("check_failed", 6)
    assert "references changed is" in error["message"]
    assert "at most 0 is allowed" in error["message"]
    told: Any = second.result
    assert (told["published"], told["update"]["before"]) == (False, new)
    assert told["drift"]["references_changed"] > 0
    assert house.indexes.current("chat") == new, "the old one goes on serving"
    assert house.answer() == after
    failing = house.schedules.failing(now=AT_TWO + timedelta(days=1))
    assert list(failing) == ["night"]
    assert "check_failed" in failing["night"]

    # Somebody looks at it, and lets it pass: nothing is built again, and the alert goes.
    house.schedule(AT_TWO + timedelta(days=1, hours=1))
    third = house.night(AT_TWO + timedelta(days=2))
    assert third.state is JobState.DONE, third.error
    assert third.result is not None
    assert third.result["version"] == told["version"] == house.indexes.current("chat")
    assert house.indexes.versions("chat") == [old, new, told["version"]], "the frozen set pins the oldest"
    assert house.schedules.failing(now=AT_TWO + timedelta(days=2)) == {}

    # A judge was fitted with the second version: it stays when a fourth comes, beside the first, which the set names.
    judge = {"metrics": [f"ruber:model=any@1,sample=chat@{new}#{'1' * 12}"], "signatures": []}
    (house.home.home / "judge").mkdir()
    write_json(house.home.home / "judge/manifest.json", {**judge, "files": {}})
    judges = artefact_stores(house.home)["judge-fit"]
    judges.publish("even", judges.add("even", house.home.home / "judge"))
    house.post(*[(f"last-{n}", ASKED, f"from venus, {n}") for n in range(6)])
    fourth = house.night(AT_TWO + timedelta(days=3))
    assert fourth.state is JobState.DONE, fourth.error
    newest = str(house.indexes.current("chat"))
    assert house.indexes.versions("chat") == [old, new, told["version"], newest]
    assert newest not in {old, new, told["version"]}

    # Without the judge the second goes the night after, as the third does.
    stored_artefacts(house.home, "judge-fit").remove("even")
    house.post(*[(f"end-{n}", ASKED, f"from pluto, {n}") for n in range(6)])
    fifth = house.night(AT_TWO + timedelta(days=4))
    assert fifth.state is JobState.DONE, fifth.error
    assert house.indexes.versions("chat") == [old, newest, house.indexes.current("chat")]
