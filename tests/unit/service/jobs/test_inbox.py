"""Posted dialogues: what is taken, what is known again, and what a kill between any two steps leaves."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import orjson
import pytest
from refusals import refusing
from safeguards import mostly_slow

from refaug.core.artefacts.build_stages import Stages
from refaug.core.errors import BadInput, Corrupt, Locked, Overloaded, StorageFull, TooLarge, Usage
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.logs.manifest import LogManifest
from refaug.logs.store import StoredLog
from refaug.operations.logs import CleaningOptions
from refaug.service.jobs import inbox as module
from refaug.service.jobs.inbox import LIST_FILE, BadDialogues, Inbox
from refaug.service.jobs.kinds.ingesting import ingest_posted
from refaug.service.jobs.kinds.job_context import JobContext, TimedProgress
from refaug.service.server_settings import ServeSettings


class Killed(BaseException):
    """What a kill looks like from inside."""


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def box(home: Settings) -> Inbox:
    return Inbox(home, ServeSettings())


def said(name, *texts, **more):
    return {"id": name, "turns": list(texts), **more}


TEA = said("d1", "where do you buy tea", "at the market")
SOUP = {
    "id": 7,
    "turns": [
        {"text": "who sells soup", "speaker": "ann", "time": "2026-11-20T08:30:00.250001Z"},
        {"text": "the mill", "speaker": "bob"},
        {"text": "thanks", "speaker": "ann"},
    ],
    "tags": ["food"],
}


def ingested(home: Settings, log="chat", job="j1", **cleaning):
    work = JobContext(
        home=home,
        serve=ServeSettings(),
        progress=TimedProgress(Silent()),
        stages=Stages(home.home / "jobs" / job),
    )
    return ingest_posted(log, CleaningOptions(**cleaning), 512 << 20, 0, work)


def pairs(home: Settings, log="chat"):
    found = StoredLog.open(home.logs, log).pairs()
    return sorted((one.dialogue, one.position, one.utterance, one.response) for one in found)


def left(box: Inbox, log="chat"):
    return sorted(path.name for path in box.folder(log).iterdir() if not path.name.startswith("."))


def lines_of(box: Inbox, log="chat"):
    return [
        orjson.loads(line)
        for path in sorted(box.folder(log).glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


# ── posting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_posted_dialogues_are_stored_in_the_format_of_logs(box):
    found = box.add("chat", [TEA, SOUP])
    assert (found["accepted"], found["duplicate"], found["ids"]) == (2, False, ["d1", "7"])
    assert lines_of(box) == [
        {
            "id": "d1",
            "turns": [
                {"text": "where do you buy tea", "speaker": None, "time": None},
                {"text": "at the market", "speaker": None, "time": None},
            ],
            "tags": [],
        },
        {
            "id": "7",
            "turns": [
                {"text": "who sells soup", "speaker": "ann", "time": "2026-11-20T08:30:00.250001+00:00"},
                {"text": "the mill", "speaker": "bob", "time": None},
                {"text": "thanks", "speaker": "ann", "time": None},
            ],
            "tags": ["food"],
        },
    ]
    size = sum(path.stat().st_size for path in box.folder("chat").glob("*.jsonl"))
    assert found["waiting"] == box.waiting("chat") == {"requests": 1, "dialogues": 2, "bytes": size}


def test_equal_dialogues_posted_twice_are_one_file_and_others_another(box):
    first, again = box.add("chat", [TEA]), box.add("chat", [dict(reversed(TEA.items()))])
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert box.waiting("chat")["requests"] == 1
    assert not box.add("chat", [TEA, SOUP])["duplicate"]
    assert not box.add("other", [TEA])["duplicate"], "another log has nothing of it"
    assert [one["id"] for one in lines_of(box)] == ["d1", "d1", "7"], "oldest first"


def test_a_dialogue_without_an_id_gets_one_of_its_content_and_place(box):
    nameless = {"turns": ["hello", "hi"]}
    first = box.add("chat", [nameless, nameless])["ids"]
    assert len(set(first)) == 2
    assert first == box.add("chat", [nameless, nameless])["ids"], "the same request has the same ids"
    assert [one["id"] for one in lines_of(box)] == first
    assert first[0].startswith("posted-")
    assert first[0].endswith("-0")


@pytest.mark.parametrize(
    ("bad", "at", "why"),
    [
        ({"id": "x"}, "turns", "no field 'turns'; the row has id"),
        ({"id": "x", "turns": []}, "turns", "a list with at least one turn is expected"),
        ({"id": "x", "turns": "hello"}, "turns", "a list with at least one turn is expected"),
        ({"id": "x", "turns": ["hello", 3]}, "turns[1]", "a string, or an object with text, is expected"),
        ({"id": "x", "turns": [{"text": None}]}, "turns[0].text", "a string is expected"),
        ({"id": ["x"], "turns": ["a", "b"]}, "id", "a text or a whole number is expected"),
        ({"id": "x" * 201, "turns": ["a", "b"]}, "id", "201 characters, at most 200 are taken"),
        ({"id": "x", "turns": ["a", "b" * 101]}, "turns[1].text", "101 characters, at most 100 are taken"),
        ({"id": "x", "turns": ["b", {"text": "a", "time": "noon"}]}, "turns[1].time", "it cannot be read; for example"),
        ({"id": "x", "turns": [{"text": "a", "timestamp": 1e300}]}, "turns[0].timestamp", "it cannot be read"),
        ({"id": "x", "turns": ["b", {"text": "a", "time": True}]}, "turns[1].time", "it cannot be read"),
        ({"id": "x", "turns": [{"text": "a", "speaker": 1.5}]}, "turns[0].speaker", "a text or a whole number"),
        ({"id": "x", "turns": [{"text": "a", "user": ["ann"]}]}, "turns[0].user", "a text or a whole number"),
        ({"id": "x", "turns": [{"text": "a", "speaker": False}]}, "turns[0].speaker", "a text or a whole number"),
        ({"id": "x", "turns": ["a", "b"], "tags": {"food": 1}}, "tags", "a list of texts is expected"),
        ({"id": "x", "turns": ["a", "b"], "tags": ["food", 3]}, "tags[1]", "a text is expected"),
        ({"id": "d1", "turns": ["a", "b"]}, "id", "'d1' is the id of dialogues[0] as well"),
        ({"id": "x", "turns": ["a", "\ud800"]}, "", "it cannot be written as JSON"),
        (["a", "b"], "", "an object with turns is expected"),
    ],
)
def test_a_bad_dialogue_is_named_by_its_place_and_field(home, bad, at, why):
    box = Inbox(home, ServeSettings(text_chars=100))
    with pytest.raises(BadDialogues) as caught:
        box.add("chat", [TEA, bad])
    assert (caught.value.bad[0].place, caught.value.bad[0].field) == (1, at)
    assert why in caught.value.message
    assert f"dialogues[1]{'.' + at if at else ''}: " in caught.value.message
    assert box.waiting("chat")["requests"] == 0, "one bad dialogue refuses all"
    kept = box.add("chat", [TEA, bad], on_error="report")
    assert (kept["accepted"], kept["ids"]) == (1, ["d1"])
    assert [(one["place"], one["field"]) for one in kept["problems"]] == [(1, at)]


def test_nothing_at_all_and_nothing_good_are_refused(box):
    with refusing(BadInput):
        box.add("chat", [])
    with refusing(BadDialogues, "2 of 2", "dialogues[0].turns"):
        box.add("chat", [{}, {}], on_error="report")


def test_a_log_is_named_as_logs_are(box):
    with refusing(Usage):
        box.add("../chat", [TEA])


def test_more_than_may_wait_is_told_to_come_again(home, monkeypatch):
    box = Inbox(home, ServeSettings(posted_mib=1, text_chars=1_000_000))
    box.add("chat", [said("a", "x" * 700_000)])
    with pytest.raises(Overloaded, match=r"0\.7 MiB") as caught:
        box.add("chat", [said("b", "x" * 700_000)])
    assert caught.value.retry_after_s == 60
    assert '"posted": true' in caught.value.remedy
    assert box.add("chat", [said("a", "x" * 700_000)])["duplicate"], "what waits already needs no room"
    box.add("other", [said("b", "x" * 700_000)])
    with refusing(TooLarge, "1.3 MiB", "1 MiB"):
        box.add("chat", [said(str(n), "x" * 700_000) for n in range(2)])
    monkeypatch.setattr(module, "_MAX_REQUESTS", 1)
    with pytest.raises(Overloaded):
        box.add("chat", [TEA])


# ── what one more request costs ───────────────────────────────────────────────────────────────────────────────────


def calls_of_one_more(box: Inbox, number: int, monkeypatch) -> dict[str, int]:
    """How often a post calls the system, and how much it reads."""
    counts = dict.fromkeys(("listdir", "scandir", "stat", "open", "read"), 0)

    def counted(name, real, amount):
        def call(*given, **named):
            answer = real(*given, **named)
            counts[name] += amount(answer)
            return answer

        return call

    with monkeypatch.context() as patched:
        for name in ("listdir", "scandir", "stat"):
            patched.setattr(os, name, counted(name, getattr(os, name), lambda _answer: 1))
        patched.setattr(Path, "open", counted("open", Path.open, lambda _answer: 1))
        patched.setattr(Path, "read_bytes", counted("read", Path.read_bytes, len))
        box.add("chat", [said(f"d{number}", "hello", f"hi {number}")])
    return counts


def test_one_more_request_costs_the_same_however_many_wait(box, monkeypatch):
    costs = [calls_of_one_more(box, number, monkeypatch) for number in range(60)]
    assert (costs[-1]["listdir"], costs[-1]["scandir"]) == (0, 0)
    for name in costs[1]:  # the median: a thread of another test may stat a file meanwhile
        assert median(cost[name] for cost in costs[1:11]) == median(cost[name] for cost in costs[-10:])
    assert box.waiting("chat")["requests"] == 60


def test_a_refused_request_lists_no_folder(home, box, monkeypatch):
    for number in range(3):
        box.add("chat", [said(f"d{number}", "hello", f"hi {number}")])
    monkeypatch.setattr(module, "_MAX_REQUESTS", 3)
    monkeypatch.setattr(os, "listdir", None)
    with pytest.raises(Overloaded):
        box.add("chat", [TEA])


def test_processes_know_what_others_have_posted_and_what_is_ingested(home, box):
    other = Inbox(home, ServeSettings())
    for number in range(4):
        (box, other)[number % 2].add("chat", [said(f"d{number}", f"question {number}", f"answer {number}")])
        assert other.add("chat", [said("d0", "question 0", "answer 0")])["duplicate"]
    ingested(home)
    for process in (box, other, box):
        answer = process.add("chat", [said("d3", "question 3", "answer 3")])
        assert (answer["duplicate"], answer["waiting"]["requests"]) == (True, 0)
    assert [process.add("chat", [TEA])["duplicate"] for process in (other, box)] == [False, True]
    assert box.add("chat", [TEA])["waiting"] == box.waiting("chat")


@pytest.mark.parametrize("spoil", [b"", b"\xff\x00\n", b"no name of a request\n", b"00000000000000000001-torn"])
def test_a_list_that_is_no_list_is_made_anew(home, box, spoil):
    for number in range(2):
        box.add("chat", [said(f"d{number}", "hello", f"hi {number}")])
    path = box.folder("chat") / LIST_FILE
    path.write_bytes(path.read_bytes() + spoil if spoil else spoil)
    for process in (box, Inbox(home, ServeSettings())):
        answer = process.add("chat", [said("d1", "hello", "hi 1")])
        assert (answer["duplicate"], answer["waiting"]) == (True, box.waiting("chat"))


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_process_killed_while_it_posts_leaves_an_exact_list(home, box, monkeypatch, step):
    box.add("chat", [TEA])
    real = Path.replace

    def killed(path, target):
        if step == "after":
            real(path, target)
        raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(Path, "replace", killed)
        with pytest.raises(Killed):
            box.add("chat", [SOUP])
    for process in (box, Inbox(home, ServeSettings())):
        answer = process.add("chat", [TEA])
        assert answer["waiting"] == box.waiting("chat")
        assert answer["waiting"]["requests"] == (2 if step == "after" else 1)
    assert box.add("chat", [SOUP])["duplicate"] is (step == "after")
    assert box.waiting("chat")["requests"] == 2


# ── ingesting ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_requests_become_one_source_and_go_when_the_log_has_them(home, box):
    for n in range(30):
        box.add("chat", [said(f"d{n}", f"question {n}", f"answer {n}")])
    box.add("chat", [SOUP])
    found = ingested(home)
    assert found["posted"] == {"requests": 31, "dialogues": 31}
    assert found["pairs_added"] == 32
    assert pairs(home) == sorted(
        [(f"d{n}", "1", f"question {n}", f"answer {n}") for n in range(30)]
        + [("7", "1", "who sells soup", "the mill"), ("7", "2", "the mill", "thanks")]
    )
    (soup,) = [one for one in StoredLog.open(home.logs, "chat").pairs() if one.response == "the mill"]
    assert (soup.utterance_speaker, soup.response_speaker, soup.tags) == ("ann", "bob", ("food",))
    manifest = LogManifest.read(home.logs / "chat")
    assert [len(one.sources) for one in manifest.ingests] == [1]
    assert left(box) == ["taken.json"]
    assert box.waiting("chat") == {"requests": 0, "dialogues": 0, "bytes": 0}
    assert "/" not in found["sources"][0]["name"]


def test_what_the_log_has_is_known_again_until_the_log_is_another(home, box):
    box.add("chat", [TEA])
    ingested(home)
    assert box.add("chat", [TEA])["duplicate"]
    assert ingested(home)["posted"] == {"requests": 0, "dialogues": 0}
    assert pairs(home) == [("d1", "1", "where do you buy tea", "at the market")]
    manifest = LogManifest.read(home.logs / "chat")
    (home.logs / "chat" / "manifest.json").unlink()
    assert not box.add("chat", [TEA])["duplicate"], "the log was deleted"
    assert manifest.created  # and one made anew at another time does not know it either


def test_what_is_posted_during_an_ingest_waits_for_the_next(home, box):
    box.add("chat", [TEA])
    with box.take_batch("chat") as batch:
        assert (batch.requests, batch.dialogues, batch.is_empty) == (1, 1, False)
        box.add("chat", [SOUP])
        assert box.add("chat", [TEA])["duplicate"], "it is in the batch"
        assert box.waiting("chat")["dialogues"] == 2
        with refusing(Locked, "chat"), box.take_batch("chat"):
            pass
    assert ingested(home)["posted"]["dialogues"] == 1
    assert ingested(home)["posted"]["dialogues"] == 1
    assert [one[0] for one in pairs(home)] == ["7", "7", "d1"]


def test_nothing_waits_where_nothing_was_posted(home, box):
    with box.take_batch("chat") as batch:
        assert batch is None
    assert ingested(home) == {"log": "chat", "pairs_added": 0, "posted": {"requests": 0, "dialogues": 0}}


@pytest.mark.parametrize("number", mostly_slow(range(1, 11), quick=[0, 3, 6]))
def test_a_kill_before_any_change_of_the_disk_loses_and_doubles_nothing(home, box, monkeypatch, number):
    """The n-th rename or removal never happens; the same job then goes on, and the end is always the same."""
    for n in range(3):
        box.add("chat", [said(f"d{n}", f"question {n}", f"answer {n}")])
    seen = 0

    def watch(owner, name):
        real = getattr(owner, name)

        def watched(*given, **named):
            nonlocal seen
            path = str(given[0])
            if ".posted" in path or "manifest.json" in path:
                seen += 1
                if seen == number:
                    raise Killed
            return real(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    with monkeypatch.context() as killing:
        monkeypatch = killing
        for name in ("replace", "unlink"):
            watch(Path, name)
        try:
            ingested(home)
        except Killed:
            pass
        else:
            assert number == 10, "a plan, a batch, three requests, a manifest, a memory; the batch and the plan again"
    box.add("chat", [said("d9", "question 9", "answer 9")])
    ingested(home)
    ingested(home)
    assert pairs(home) == [(f"d{n}", "1", f"question {n}", f"answer {n}") for n in (0, 1, 2, 9)]
    assert left(box) == ["taken.json"]
    sources = [source for one in LogManifest.read(home.logs / "chat").ingests for source in one.sources]
    assert len({one.sha256 for one in sources}) == len(sources)
    assert all(box.add("chat", [said(f"d{n}", f"question {n}", f"answer {n}")])["duplicate"] for n in (0, 1, 2, 9))


def test_a_batch_that_the_log_has_is_not_ingested_with_other_settings(home, box):
    box.add("chat", [TEA])
    with box.take_batch("chat") as batch:
        data, path = batch.path.read_bytes(), batch.path
    plan = (path.parent / "batch.json").read_bytes()
    ingested(home)
    path.write_bytes(data)  # as a kill between ingesting and letting go would leave it
    (path.parent / "batch.json").write_bytes(plan)
    assert ingested(home, language="ja")["pairs_added"] == 0
    assert left(box) == ["taken.json"]


def test_half_written_files_of_killed_processes_are_removed(home, box):
    box.add("chat", [TEA])
    half = box.folder("chat") / f".{'0' * 20}-{'a' * 32}-1-10.jsonl.1-2.aside"
    half.write_bytes(b'{"id"')
    ingested(home)
    assert not half.exists()


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dialogue_is_taken_out_of_what_waits_and_of_a_batch(home, box):
    box.add("chat", [TEA, SOUP])
    with box.take_batch("chat"):
        pass  # as a kill leaves it: joined, and not ingested
    box.add("chat", [said("d1", "where do you buy tea", "another market"), said("d2", "a", "b")])
    assert box.erase("chat", dialogues=["d1"]).changed == 2
    assert box.erase("chat", dialogues=["d1"]).changed == 0
    assert not any(b"market" in path.read_bytes() for path in box.folder("chat").iterdir())
    ingested(home)
    ingested(home)
    assert [one[0] for one in pairs(home)] == ["7", "7", "d2"]


def test_erased_speakers_turns_become_empty_and_create_no_new_pair(home, box):
    box.add("chat", [SOUP, TEA])
    assert box.erase("chat", speakers=["bob"]).changed == 1
    assert not any(b"bob" in path.read_bytes() or b"mill" in path.read_bytes() for path in box.folder("chat").iterdir())
    ingested(home)
    assert pairs(home) == [("d1", "1", "where do you buy tea", "at the market")]


def test_a_batch_of_which_nothing_is_left_is_let_go(home, box):
    box.add("chat", [TEA])
    assert box.erase("chat", dialogues=["d1"]).changed == 1
    assert ingested(home)["pairs_added"] == 0
    assert left(box) == ["taken.json"]
    assert box.erase("nothing-there", dialogues=["d1"]).changed == 0


def test_a_full_disk_is_named_and_nothing_half_stays(home, box, monkeypatch):
    box.add("chat", [TEA])

    def full(_handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with refusing(StorageFull):
            box.add("chat", [SOUP])
    assert box.waiting("chat")["dialogues"] == 1
    assert not list(box.folder("chat").glob("*.aside"))
    assert not list(box.folder("chat").glob(".*.aside"))


@pytest.mark.parametrize("spoil", ["one bit", "the last line", "nothing left"])
def test_what_was_acknowledged_and_altered_since_is_named_and_not_ingested(home, box, spoil):
    box.add("chat", [TEA, SOUP])
    (path,) = (path for path in box.folder("chat").glob("*.jsonl"))
    content = path.read_bytes()
    at = content.index(b"market")
    path.write_bytes(
        {
            "one bit": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
            "the last line": content[: content.index(b"\n") + 1],
            "nothing left": b"",
        }[spoil]
    )
    with pytest.raises(Corrupt, match=path.name) as damaged:
        ingested(home)
    assert "go on without its 2 dialogues" in (damaged.value.remedy or "")
    path.write_bytes(content)
    ingested(home)
    assert [one[0] for one in pairs(home)] == ["7", "7", "d1"]


def test_what_was_erased_from_a_request_is_no_damage(home, box):
    box.add("chat", [TEA, SOUP])
    box.add("chat", [said(None, "is there tea", "there is")])
    assert box.erase("chat", dialogues=["d1"]).changed == 1
    ingested(home)
    assert [one[2] for one in pairs(home) if one[0] != "7"] == ["is there tea"]
