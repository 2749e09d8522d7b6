"""Both clients against a running server: every noun, in the order sent, with the numbers that the server has."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from kinds import Opened
from known_items import ITEMS
from refusals import refusing
from scripted import Asked, Said, ok, problem, scripted

from refaug_client import (
    BadAnswer,
    BadInput,
    Client,
    ConnectionLost,
    NoKey,
    NotFound,
    Retry,
    Unavailable,
    Usage,
    Withdrawn,
)

ONE = [{**item, "replies": {"a": item["replies"]["a"]}} for item in ITEMS]


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
    with refusing(KeyError, "bleu:n=2, bleu:n=4, chrf"):
        found["bleu"]


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


# ── health ────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_a_key_is_in_no_repr_and_no_error(opened: Opened) -> None:
    with scripted([problem(401)]) as server:
        client = opened(server.url, key="refaug_secret")
        with pytest.raises(NoKey) as caught:
            client.health()
        assert "refaug_secret" not in f"{client!r}{client.sets!r}{caught.value}{caught.value!r}"


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


def test_a_pickled_client_is_one_of_its_own(url: str) -> None:
    with Client(url, key="refaug_k", timeout_s=7.0, headers={"X-Team": "a"}) as client:
        again = pickle.loads(pickle.dumps(client))
    assert again.health().status == "ok"  # though the first one is closed
    assert again._connection.settings == client._connection.settings
    again.close()
