"""Both clients against a running server: every noun, in the order sent, with the numbers that the server has."""

from __future__ import annotations

import json
import os
import pickle
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from kinds import KINDS, Opened
from known_items import ITEMS
from refusals import refusing
from scripted import DROP, Asked, Said, ok, problem, scripted

import refaug_client
from refaug_client import (
    BadAnswer,
    BadInput,
    CannotConnect,
    Client,
    Conflict,
    ConnectionLost,
    NoKey,
    NotFound,
    Retry,
    Unavailable,
    Usage,
    Withdrawn,
)

ONE = [{**item, "replies": {"a": item["replies"]["a"]}} for item in ITEMS]


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Makes clients of a kind."""
    found = Opened(request.param)
    yield found
    found.close()


@pytest.fixture
def client(opened: Opened, url: str) -> Any:
    """A client of the running server."""
    return opened(url)


def posted(url: str, path: str, **body: Any) -> dict[str, Any]:
    """The same request without this library."""
    answer = httpx.post(url + path, json=body, timeout=60)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


# ── scoring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scores_of_one_system_by_one_metric(url: str) -> None:
    with Client(url, timeout_s=30.0) as refaug:
        scores = refaug.score(items=ONE, metric="upsilon-bleu")
    wire = posted(url, "/v1/scores", items=ONE, metrics=["upsilon-bleu"])["scores"][0]
    assert scores.replies == [one["score"] for one in wire["systems"]["a"]["replies"]]
    assert scores.corpus == wire["systems"]["a"]["corpus"]
    assert scores.signature == wire["signature"]
    assert scores.signature.startswith("upsilon-bleu|")


def test_replies_apart_from_their_items_score_as_inside_them(client: Any) -> None:
    bare = [{key: value for key, value in item.items() if key != "replies"} for item in ITEMS]
    apart = client.score(bare, replies=[item["replies"]["a"] for item in ITEMS], metric="bleu")
    assert apart.replies == client.score(ONE, metric="bleu").replies
    by_name = {name: (item["replies"][name] for item in ITEMS) for name in ("a", "b")}
    both = client.score(iter(bare), replies=by_name, metrics=["bleu"])
    assert list(both["bleu"].systems) == ["a", "b"]
    assert both["bleu"]["b"].replies == client.score(ITEMS, metrics=["bleu"])["bleu"]["b"].replies


def test_replies_stay_in_the_order_sent(client: Any) -> None:
    shuffled = random.Random(3).sample(ONE, len(ONE))
    straight = dict(zip((one["id"] for one in ONE), client.score(ONE, metric="multi-bleu").replies))
    found = client.score(shuffled, metric="multi-bleu")
    assert [one.id for one in found.metric.system.details] == [one["id"] for one in shuffled]
    assert found.replies == [straight[one["id"]] for one in shuffled]


def test_metrics_are_found_by_name_and_by_what_was_asked(client: Any) -> None:
    found = client.score(ITEMS, metrics=["bleu:n=2", "bleu:n=4", "chrf"], draws=50, baseline="b", seed=3)
    assert [one.metric for one in found] == ["bleu", "bleu", "chrf"]
    assert "n:2" in found["bleu:n=2"].signature
    assert found["bleu:n=4"]["a"].replies != found["bleu:n=2"]["a"].replies
    assert list(found["chrf"].comparisons) == ["a"]
    assert found["chrf"].comparisons["a"].replies == len(ITEMS)
    low, high = found["chrf"]["a"].interval
    assert low <= found["chrf"]["a"].corpus <= high
    assert (found.resampling.draws, found.resampling.seed) == (50, 3)
    with pytest.raises(KeyError, match="bleu:n=2, bleu:n=4, chrf"):
        found["bleu"]


def test_batches_put_together_are_all_at_once(client: Any) -> None:
    whole = client.score(ITEMS, metrics=["bleu", "chrf"], draws=100)
    halves = [client.score(half, metrics=["bleu", "chrf"], return_="stats") for half in (ITEMS[:5], ITEMS[5:])]
    both = client.combine(halves, draws=100)
    for name in ("bleu", "chrf"):
        for system in ("a", "b"):
            assert both[name][system].corpus == whole[name][system].corpus
            assert both[name][system].interval == whole[name][system].interval
    assert (both.batches, both.items) == (2, len(ITEMS))
    with refusing(Usage, "sums"):
        _ = halves[0].corpus


def test_scores_are_verified_with_their_items_as_a_result_or_as_json(client: Any) -> None:
    scores = client.score(ITEMS, metrics=["upsilon-bleu", "bleu"], draws=20)
    for written in (scores, scores.to_dict(), json.loads(json.dumps(scores.to_dict()))):
        verification = client.verify(written, ITEMS)
        assert (verification.verdict, verification.holds) == ("holds", True)
        assert {one.state for one in verification.parts} == {"holds"}
    replies = [item["replies"]["a"] for item in ITEMS]
    bare = [{name: content for name, content in item.items() if name != "replies"} for item in ITEMS]
    scores = client.score(bare, replies=replies, metric="bleu", references="given")
    assert client.verify(scores, bare, replies=replies).holds
    other = client.verify(scores, bare, replies=["no", *replies[1:]])
    assert not other.holds
    assert [one.part for one in other.in_state("differs")] == ["replies", "reply scores", "corpus scores"]
    assert "these replies are not those of the file" in repr(other)
    with refusing(BadInput):
        client.verify(client.score(ITEMS, metric="bleu", return_="stats"), ITEMS)


def test_explanations_shares_and_languages_arrive(client: Any) -> None:
    found = client.score(ONE[:2], metric="upsilon-bleu", explain=True, percent=True, language="en")
    assert found.metric.scale == 100
    assert found.metric.system.details[0].parts
    assert found.corpus == pytest.approx(100 * client.score(ONE[:2], metric="upsilon-bleu", language="en").corpus)


def test_bad_items_are_reported_by_place_and_others_scored_on_request(client: Any) -> None:
    items = [ONE[0], {**ONE[1], "references": [{"text": "x", "weight": 7}]}, ONE[2]]
    with refusing(BadInput, "weight") as caught:
        client.score(items, metric="bleu")
    assert caught.value.code == "bad_input"
    assert caught.value.errors[0]["place"] == 1
    assert caught.value.request_id
    found = client.score(items, metric="bleu", on_error="report")
    assert [(one.place, one.item) for one in found.problems] == [(1, "d1")]
    assert [one.id for one in found.metric.system.details] == ["d0", "d2"]


def test_ids_that_come_twice_are_refused(client: Any) -> None:
    with refusing(BadInput, "d0"):
        client.score([ONE[0], ONE[0]], metric="bleu")


@pytest.mark.parametrize(
    "text", ["", " ", "日本語の返事です", "a\u0000b", "🙂" * 200, "e\u0301", "\u202e<b>&amp;", '"\\\n']
)
def test_any_text_goes_there_and_back(client: Any, url: str, text: str) -> None:
    item = {**ONE[0], "references": [text or "x"], "replies": {"a": text}}
    wire = httpx.post(f"{url}/v1/scores", json={"items": [item], "metrics": ["chrf"]}, timeout=60)
    if wire.status_code == 200:
        assert client.score([item], metric="chrf").to_dict()["scores"] == wire.json()["scores"]
    else:
        with pytest.raises(BadInput) as caught:
            client.score([item], metric="chrf")
        assert caught.value.message == wire.json()["detail"]


def test_what_no_json_can_say_is_refused_here(client: Any) -> None:
    for wrong in (float("nan"), float("inf"), b"bytes", object(), "\ud800"):
        with pytest.raises(Usage):
            client.score([{**ONE[0], "replies": {"a": wrong}}], metric="bleu")


def test_nothing_to_score_is_refused(client: Any) -> None:
    for ask in (client.score, client.references):
        with pytest.raises((BadInput, Usage)):
            ask([])


# ── references and ratings ────────────────────────────────────────────────────────────────────────────────────────


def test_references_come_in_order_and_are_items_again(client: Any) -> None:
    bare = [{"id": one["id"], "utterance": one["utterance"], "references": one["references"]} for one in ITEMS]
    found = client.references((one for one in bare), settings={"k": 3}, index="chat", rater="base")
    assert [one.id for one in found] == [one["id"] for one in ITEMS]
    assert found[0].references[0].source == "gold"
    assert found["d3"].references[0].text == ITEMS[3]["references"][0]
    assert any(one.source == "retrieved" and -1 <= one.weight <= 1 for item in found for one in item.references)
    assert found.versions.index.startswith("chat@")
    assert found.versions.rater.startswith("base@")
    texts = [one["replies"]["a"] for one in ITEMS]
    given = client.score(found, replies=texts, references="given", metric="upsilon-bleu")
    asked = client.score(ONE, metric="upsilon-bleu", settings={"k": 3})
    assert given.replies == asked.replies


def test_ratings_are_those_of_bare_candidates_and_of_objects(client: Any) -> None:
    texts = [item["references"][0] for item in ITEMS[:4]]
    pairs = [{"utterance": one["utterance"], "golds": one["references"], "candidates": texts} for one in ITEMS[:3]]
    found = client.rate(pairs, rater="base", calibrated=True, combine="mean")
    objects = [{**pair, "candidates": [{"text": text} for text in texts]} for pair in pairs]
    assert list(found) == client.rate(iter(objects), rater="base", calibrated=True, combine="mean").ratings
    assert [len(one) for one in found] == [4, 4, 4]
    assert all(-1 <= rating <= 1 for one in found for rating in one)
    assert found.ratings != client.rate(pairs).ratings


def test_metrics_say_what_they_are(client: Any) -> None:
    found = client.metrics()
    named = {one.name: one for one in found}
    assert {"bleu", "chrf", "upsilon-bleu", "delta-bleu"} <= set(named)
    assert named["bleu"].range == [0.0, 1.0]
    assert [one.name for one in named["bleu"].parameters]


# ── reference sets ────────────────────────────────────────────────────────────────────────────────────────────────


def given(*, first: str, weight: float = 0.5) -> list[dict[str, Any]]:
    """Items of a set that no other test has."""
    more = {"text": "we like red boats", "weight": weight}
    return [{"id": f"{first}{at}", "references": [f"{first} {at} boats", more]} for at in range(5)]


def test_a_set_is_frozen_once_and_found_again(client: Any) -> None:
    items = given(first="once")
    frozen = client.sets.freeze(items, purpose="validation", references="given")
    again = client.sets.freeze(iter(items), purpose="validation", references="given")
    assert again.id == frozen.id
    assert not again.new
    assert (frozen.purpose, frozen.items, frozen.references) == ("validation", 5, 10)
    looked = client.sets.get(frozen.id[:8])
    assert looked.id == frozen.id
    assert looked.evidence.sources == {"gold": 5, "supplied": 5}
    assert sum(one.references for one in looked.evidence.weights) == 5
    assert looked.withdrawn is None
    assert frozen.id in [one.id for one in client.sets.list(purpose="validation")]
    assert frozen.id not in [one.id for one in client.sets.list(purpose="train")]


def test_references_of_a_set_can_be_found(client: Any) -> None:
    items = [{key: one[key] for key in ("id", "utterance", "references")} for one in ITEMS[:3]]
    frozen = client.sets.freeze(items, purpose="test", references="find", index="chat", rater="base", settings={"k": 2})
    assert frozen.provenance
    assert client.sets.score(frozen.id, ["we like red boats"] * 3).signature.startswith("upsilon-bleu|")
    halved = client.sets.derive(frozen.id, weights="one", k=1, parrot="off")
    assert halved.parent == frozen.id
    assert halved.references < frozen.references


def test_scores_against_a_set_have_the_order_sent_and_none_for_no_reply(client: Any, url: str, sets: Any) -> None:
    items = ["d3", "d0", "d3", "d7"]
    replies = ["we like red boats", None, "red boats", "boats"]
    found = client.sets.score(sets["validation"], replies, items=items, metric="delta-bleu")
    wire = posted(
        url,
        f"/v1/reference-sets/{sets['validation']}/scores",
        items=items,
        replies={"model": replies},
        metrics=["delta-bleu"],
    )
    assert found.replies == [one["score"] for one in wire["scores"][0]["systems"]["model"]["replies"]]
    assert found.replies[1] is None
    assert found.metric.system.details[1].problem == "no_reply"
    assert (found.set.id, found.set.purpose) == (sets["validation"], "validation")
    values = client.sets.score(sets["validation"], iter(replies), items=iter(items), return_="values", system="x")
    assert values["delta-bleu"]["x"].replies == found.replies
    assert values.signature == found.signature


def test_a_reply_to_every_item_needs_no_ids(client: Any, sets: Any) -> None:
    texts = [item["replies"]["a"] for item in ITEMS]
    whole = client.sets.score(sets["train"], {"a": texts, "b": texts[::-1]}, metrics=["delta-bleu", "chrf"])
    named = client.sets.score(sets["train"], {"a": texts}, items=[item["id"] for item in ITEMS], metric="delta-bleu")
    assert whole["delta-bleu"]["a"].replies == named.replies
    with refusing(BadInput):
        client.sets.score(sets["train"], texts[:-1])


def test_ids_that_a_set_lacks_are_told_or_passed_over(client: Any, sets: Any) -> None:
    with refusing(BadInput, "nobody"):
        client.sets.score(sets["test"], ["a", "b"], items=["d1", "nobody"])
    found = client.sets.score(sets["test"], ["a", "b"], items=["d1", "nobody"], on_error="report")
    assert found.replies[1] is None
    assert [(one.place, one.item) for one in found.problems] == [(1, "nobody")]


def test_batches_against_a_set_are_put_together(client: Any, sets: Any) -> None:
    ids, texts = [item["id"] for item in ITEMS], [item["replies"]["b"] for item in ITEMS]
    whole = client.sets.score(sets["test"], texts, items=ids, metric="delta-bleu")
    parts = [
        client.sets.score(sets["test"], texts[some], items=ids[some], metric="delta-bleu", return_="stats")
        for some in (slice(0, 4), slice(4, None))
    ]
    assert client.combine(parts).corpus == whole.corpus


def test_a_set_becomes_a_file_whole_or_not_at_all(client: Any, url: str, sets: Any, tmp_path: Path) -> None:
    raw = httpx.get(f"{url}/v1/reference-sets/{sets['test']}/download").content
    file = client.sets.download(sets["test"], to=tmp_path / "set.zst")
    assert file == tmp_path / "set.zst"
    assert file.read_bytes() == raw
    folder = client.sets.download(sets["test"], to=str(tmp_path))
    assert folder == tmp_path / f"{sets['test']}.jsonl.zst"
    lines = client.sets.download(sets["test"], to=tmp_path, format="jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0])["id"] == sets["test"]
    assert len(lines) == 1 + len(ITEMS)
    with pytest.raises(NotFound):
        client.sets.download("ffffff", to=tmp_path / "nothing")
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([file.name, folder.name, f"{sets['test']}.jsonl"])


def test_a_download_that_breaks_off_leaves_what_was_there(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "set").write_bytes(b"the old one")
    half = Said(200, b"x" * 1000, {"content-type": "application/zstd"}, cut=500)
    with scripted([half]) as server, pytest.raises(ConnectionLost):
        opened(server.url, retry=0).sets.download("abcdef", to=tmp_path / "set")
    assert [one.name for one in tmp_path.iterdir()] == ["set"]
    assert (tmp_path / "set").read_bytes() == b"the old one"


def test_a_download_that_breaks_off_is_begun_anew(opened: Opened, tmp_path: Path) -> None:
    head = {"content-type": "application/zstd", "content-disposition": 'attachment; filename="../evil"'}
    half, whole = Said(200, b"x" * 1000, head, cut=500), Said(200, b"y" * 1000, head)
    with scripted([half, half, whole]) as server:
        found = opened(server.url, retry=Retry(first_s=0.0)).sets.download("abcdef", to=tmp_path)
    assert found == tmp_path / "abcdef.jsonl.zst"  # a name that leads elsewhere is not taken
    assert found.read_bytes() == b"y" * 1000
    assert len(server.requests) == 3


def test_a_set_that_is_withdrawn_says_what_to_use_instead(client: Any, sets: Any, opened: Opened) -> None:
    frozen = client.sets.freeze(given(first=f"gone-{opened.kind}-"), purpose="test", references="given")
    done = client.sets.withdraw(frozen.id, reason="one text was wrong", instead=sets["test"])
    assert (done.id, done.reason, done.instead) == (frozen.id, "one text was wrong", sets["test"])
    for ask in (lambda: client.sets.score(frozen.id, ["a"] * 5), lambda: client.sets.derive(frozen.id, k=1)):
        with pytest.raises(Withdrawn) as caught:
            ask()
        assert caught.value.instead == sets["test"]
    assert client.sets.get(frozen.id).withdrawn.reason == "one text was wrong"


def test_many_items_are_frozen_by_a_job_that_is_waited_for(client: Any, opened: Opened) -> None:
    items = [{"id": f"{opened.kind}-{at}", "references": [f"red boats {at}"]} for at in range(230)]
    frozen = client.sets.freeze(items, purpose="train", references="given")
    assert (frozen.items, frozen.purpose, frozen.new) == (230, "train", True)
    assert client.sets.freeze(items, purpose="train", references="given").new is False
    assert client.sets.get(frozen.id).items == 230


# ── logs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dialogues_are_kept_once_and_can_be_erased(client: Any, opened: Opened) -> None:
    log = f"posted-{opened.kind}"
    dialogues = [{"id": "p-1", "turns": ["where do you buy tea", "at the market"]}, ["hello", "hello you"]]
    first = client.logs.post(log, dialogues)
    assert (first.accepted, first.duplicate, first.ids[0]) == (2, False, "p-1")
    assert client.logs.post(log, iter(dialogues)).duplicate
    found = client.logs.get(log)
    assert (found.waiting.dialogues, found.pairs) == (2, 0)
    with pytest.raises(BadInput):
        client.logs.post(log, [{"id": "p-2", "turns": []}, ["a", "b"]])
    told = client.logs.post(log, [{"id": "p-2", "turns": []}, ["a", "b"]], on_error="report")
    assert [(one.place, one.id) for one in told.problems] == [(0, "p-2")]
    job = client.logs.erase(log, "p-1")
    assert (job.kind, job.order["dialogues"]) == ("erase", ["p-1"])
    assert "chat" in [one.name for one in client.logs.list()]
    with pytest.raises(NotFound):
        client.logs.get("nowhere")


# ── indexes and raters ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "name"), [("index", "chat"), ("rater", "base")])
def test_versions_are_listed_and_published(client: Any, kind: str, name: str) -> None:
    part = client.artefacts
    assert [one.name for one in part.list(kind)] == [name]
    one = part.get(kind, name)
    assert one.current == one.published.version == one.versions[0]
    assert [version.version for version in part.versions(kind, name)] == one.versions
    done = part.publish(kind, name, one.current)
    assert (done.name, done.version, done.lacking) == (name, one.current, [])
    assert done.serving
    with pytest.raises((Conflict, BadInput, NotFound)):
        part.rollback(kind, name)  # there is none before it
    with pytest.raises(NotFound):
        part.get(kind, "nobody")
    with refusing(BadInput, "raters"):
        part.get("raters", name)


# ── jobs and schedules ────────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_are_started_found_and_stopped(client: Any) -> None:
    job = client.jobs.start("gc", artefact="index", name="chat", keep=5)
    assert (job.kind, job.order["keep"]) == ("gc", 5)
    assert client.jobs.get(job.id).id == job.id
    assert job.id in [one.id for one in client.jobs.list(kind="gc", limit=10)]
    ended = client.jobs.cancel(job.id)
    assert ended.id == job.id
    assert ended.cancel_requested or ended.is_ended
    with pytest.raises(NotFound):
        client.jobs.get("0" * 26)
    with pytest.raises(BadInput):
        client.jobs.start("no-such-kind")


def test_bots_are_put_changed_asked_and_deleted(client: Any, opened: Opened) -> None:
    name, replay = f"fixed-{opened.kind}", {"kind": "replay", "replies": ["Hello.", "Tell me more."]}
    made = client.bots.put(name, replay)
    assert (made.kind, made.before, made.specification) == ("replay", None, replay)
    answer = client.bots.reply(
        name, [["Hi!"], {"turns": ["a", "b", "c", "d", "e"], "seed": 3}], seed=7, sha256=made.sha256
    )
    assert [reply.reply for reply in answer] == ["Hello.", None]
    assert (answer[1].problem, answer.problems) == ("no_more_replies", {"no_more_replies": 1})
    changed = client.bots.put(name, {**replay, "cycle": True}, expected_sha256=made.sha256)
    assert (changed.before, client.bots.get(name).sha256) == (made.sha256, changed.sha256)
    with pytest.raises(Conflict):
        client.bots.reply(name, [["Hi!"]], sha256=made.sha256)
    assert name in [bot.name for bot in client.bots.list()]
    assert client.bots.delete(name) is None
    with pytest.raises(NotFound):
        client.bots.get(name)


def test_schedules_are_put_changed_and_deleted(client: Any, opened: Opened) -> None:
    name, order = f"night-{opened.kind}", {"kind": "gc", "artefact": "index", "name": "chat"}
    made = client.schedules.put(name, cron="30 2 * * *", order=order, timezone="Europe/Berlin", enabled=False)
    assert (made.name, made.enabled, made.next, made.firings) == (name, False, [], [])
    changed = client.schedules.put(name, cron="0 3 * * *", order=order)
    assert (changed.cron, changed.timezone, changed.enabled) == ("0 3 * * *", "UTC", True)
    assert changed.next == client.schedules.get(name).next
    assert name in [one.name for one in client.schedules.list()]
    assert client.schedules.delete(name) is None
    with pytest.raises(NotFound):
        client.schedules.get(name)
    with refusing(BadInput, "cron"):
        client.schedules.put(name, cron="every day", order=order)


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_server_says_how_it_is(client: Any) -> None:
    assert client.health().status == "ok"
    ready = client.ready()
    assert ready
    assert set(ready.versions["index"]) == {"chat"}
    assert "refaug_requests_total" in client.server_metrics()
    assert client.explain("withdrawn").status == 410
    with pytest.raises(NotFound):
        client.explain("no_such_code")


def test_not_ready_yet_is_an_answer_and_busy_is_none(opened: Opened) -> None:
    starting = problem(503, "not_ready", missing=["index chat"])
    with scripted([starting, problem(503, "overloaded")]) as server:
        client = opened(server.url, retry=0)
        found = client.ready()
        assert (bool(found), found.missing) == (False, ["index chat"])
        with pytest.raises(Unavailable):
            client.ready()


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def paged(count: int) -> Callable[[Asked], Said]:
    """A server with so many sets."""

    def answer(asked: Asked) -> Said:
        query = httpx.URL(asked.path).params
        first = int(query.get("after", "-1")) + 1
        ids = [str(at) for at in range(first, min(first + int(query["limit"]), count))]
        following = ids[-1] if ids and int(ids[-1]) + 1 < count else None
        return ok({"sets": [{"id": one} for one in ids], "next": following, "request_id": "r"})

    return answer


def test_a_list_is_read_page_by_page_until_there_is_enough(opened: Opened) -> None:
    with scripted(paged(450)) as server:
        client = opened(server.url)
        assert [one.id for one in client.sets.list()] == [str(at) for at in range(450)]
        assert len(server.requests) == 3
        some = client.sets.list(limit=250)
        assert ([one.id for one in some], some.next) == ([str(at) for at in range(250)], "249")
        assert len(server.requests) == 5
        assert [one.id for one in client.sets.list(after=some.next, limit=2)] == ["250", "251"]
        assert client.sets.list(limit=0) == []
        assert len(server.requests) == 6


# ── the client itself ─────────────────────────────────────────────────────────────────────────────────────────────


def test_address_and_key_are_read_from_the_environment(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([ok({"status": "ok", "version": "1"})]) as server:
        monkeypatch.setenv("REFAUG_URL", server.url)
        monkeypatch.setenv("REFAUG_KEY", "refaug_secret")
        opened().health()
        opened(server.url, key="refaug_other", headers={"X-Team": "dialogue"}).health()
        assert [one.headers["authorization"] for one in server.requests] == [
            "Bearer refaug_secret",
            "Bearer refaug_other",
        ]
        assert server.requests[1].headers["x-team"] == "dialogue"


def test_a_key_is_in_no_repr_and_no_error(opened: Opened) -> None:
    with scripted([problem(401)]) as server:
        client = opened(server.url, key="refaug_secret")
        with pytest.raises(NoKey) as caught:
            client.health()
        assert "refaug_secret" not in f"{client!r}{client.sets!r}{caught.value}{caught.value!r}"


def test_what_makes_something_is_sent_again_under_the_same_key(opened: Opened) -> None:
    job = ok({"id": "j1", "kind": "gc", "state": "queued", "request_id": "r"}, status=202)
    with scripted([DROP, job]) as server:
        client = opened(server.url, retry=Retry(first_s=0.0))
        assert client.jobs.start("gc", name="chat").id == "j1"
        keys = [one.headers["idempotency-key"] for one in server.requests]
        assert len(keys) == 2
        assert keys[0] == keys[1]
        client.jobs.start("gc", name="chat")
        assert server.requests[2].headers["idempotency-key"] != keys[0]


def test_a_rollback_is_sent_once(opened: Opened) -> None:
    with scripted([DROP]) as server:
        client = opened(server.url, retry=Retry(first_s=0.0))
        with pytest.raises(ConnectionLost):
            client.artefacts.rollback("index", "chat")
        assert len(server.requests) == 1
        with pytest.raises(ConnectionLost):
            client.artefacts.publish("index", "chat", "1")
        assert len(server.requests) == 7


def test_an_answer_that_lacks_a_field_is_named(opened: Opened) -> None:
    answers = {"/v1/references": {"items": [], "problems": []}, "/v1/scores": {"request_id": "x"}}
    with scripted(lambda asked: ok(answers.get(asked.path, {"status": "ok"}))) as server:
        client = opened(server.url, retry=0)
        with refusing(BadAnswer, "version"):
            client.health()
        with refusing(BadAnswer, "versions"):
            client.references([ONE[0]])
        with refusing(BadAnswer, "200"):
            client.score([ONE[0]])


def test_what_a_newer_server_adds_is_kept(opened: Opened) -> None:
    with scripted([ok({"status": "ok", "version": "9", "mood": {"good": True}, "request_id": "r"})]) as server:
        found = opened(server.url).health()
    assert found.more == {"mood": {"good": True}}
    assert found.to_dict() == {"status": "ok", "version": "9", "mood": {"good": True}, "request_id": "r"}


def test_a_closed_client_says_so(opened: Opened, url: str) -> None:
    client = opened(url)
    assert client.health().status == "ok"
    client.close()
    client.close()
    for ask in (client.health, client.sets.list, lambda: client.score(ONE)):
        with refusing(Usage, "closed"):
            ask()


def test_nobody_there_is_told_with_the_address(opened: Opened) -> None:
    with refusing(CannotConnect, "127.0.0.1:1"):
        opened("http://127.0.0.1:1", retry=0).health()


@pytest.mark.parametrize("wrong", ["127.0.0.1:8000", "ftp://x", "http://", "http://a:b@c", "http://x?y=1"])
def test_what_is_no_address_is_refused_at_once(opened: Opened, wrong: str) -> None:
    with pytest.raises(Usage):
        opened(wrong)


def test_threads_share_a_client(url: str, sets: Any) -> None:
    texts = [item["replies"]["a"] for item in ITEMS]
    with Client(url) as client, ThreadPoolExecutor(8) as threads:
        one = client.sets.score(sets["train"], texts).replies
        found = list(threads.map(lambda _: client.sets.score(sets["train"], texts).replies, range(24)))
    assert found == [one] * 24


def test_a_pickled_client_is_one_of_its_own(url: str) -> None:
    with Client(url, key="refaug_k", timeout_s=7.0, headers={"X-Team": "a"}) as client:
        again = pickle.loads(pickle.dumps(client))
    assert again.health().status == "ok"  # though the first one is closed
    assert again._connection.settings == client._connection.settings
    again.close()


def test_an_httpx_client_that_is_handed_in_is_used_and_stays_open(url: str) -> None:
    asked: list[str] = []
    with httpx.Client(event_hooks={"request": [lambda request: asked.append(request.url.path)]}) as http:
        with Client(url, http=http) as client:
            assert client.health().status == "ok"
        assert asked == ["/healthz"]
        assert not http.is_closed


def test_a_server_below_a_path_is_reached(opened: Opened) -> None:
    with scripted([ok({"status": "ok", "version": "1"})]) as server:
        opened(f"{server.url}/refaug/").health()
        assert server.requests[0].path == "/refaug/healthz"


def test_every_public_name_is_there_and_said() -> None:
    for name in refaug_client.__all__:
        assert getattr(refaug_client, name) is not None
    assert set(refaug_client.__all__) <= set(dir(refaug_client))
    assert refaug_client.__all__ == sorted(refaug_client.__all__)
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = refaug_client.NoSuchName


def test_an_import_brings_nothing_that_a_script_may_not_need() -> None:
    said = "import sys, refaug_client; print(*sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"asyncio", "sqlite3", "subprocess", "multiprocessing", "concurrent.futures", "numpy", "pandas", "torch"}
    with_httpx = subprocess.run(
        [sys.executable, "-c", said.replace("refaug_client", "httpx")], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "refaug_client" in found
    assert heavy & (set(found) - set(with_httpx)) == set()


def test_a_unix_socket_is_spoken_to(opened: Opened, tmp_path: Path) -> None:
    place = os.path.relpath(tmp_path / "s")  # the name of a socket has hardly more than a hundred bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                body = b'{"status": "ok", "version": "1"}'
                head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

        thread = threading.Thread(target=answer)
        thread.start()
        assert opened("http://local", uds=place).health().status == "ok"
        thread.join()


@pytest.mark.parametrize("made", [refaug_client.Client, refaug_client.AsyncClient])
@pytest.mark.parametrize("wrong", [["a"], "a: b", {"a b": "c"}, {"a": "b\r\nc: d"}, {"a": 5}])
def test_headers_that_are_none_are_refused(made: Any, wrong: Any) -> None:
    with refusing(Usage, "header"):
        made("http://x", headers=wrong)
