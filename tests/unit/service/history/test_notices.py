"""Notices reach a webhook at least once and in their order, whatever fails, hangs or is killed meanwhile."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from serving import migrated

from refaug.cli.shared.database import telling_refusals
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import REFUSE, Change, Versions
from refaug.core.errors import MissingPart, NotAllowed, Usage
from refaug.core.home import Settings
from refaug.core.installation import extras_named
from refaug.service.audit import AuditLog
from refaug.service.database.database import Database
from refaug.service.history.notice_sender import NoticeSender, describe_webhook, signature, wait_s, webhook_policy
from refaug.service.history.notices import MOST, NoticeBox, NoticeKind, add_notice
from refaug.service.jobs.audited_jobs import JobActs
from refaug.service.jobs.schedules import ScheduleStore
from refaug.service.jobs.store import JobState, JobStore
from refaug.service.process.json_logging import configure_logging
from refaug.service.server_settings import WEBHOOK_SECRET, ServeSettings

pytest_plugins = ("databases",)


class Hook:
    """The other side: a server on loopback that answers as it is told, and keeps what it took."""

    def __init__(self, port: int = 0) -> None:
        self.statuses, self.hangs = list[int](), threading.Event()
        self.taken, self.calls = list[dict[str, Any]](), list[dict[str, Any]]()
        self.goes_on = threading.Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                call = {"headers": dict(self.headers), "body": body, "path": self.path}
                hook.calls.append(call)
                if hook.hangs.is_set():
                    hook.goes_on.wait(30)
                status = hook.statuses.pop(0) if hook.statuses else 204
                if status == 204:
                    hook.taken.append(call)  # before the other side knows of it
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()

    def said(self) -> list[str]:
        return [json.loads(call["body"])["text"] for call in self.taken]


@contextmanager
def hooked(port: int = 0) -> Iterator[Hook]:
    hook = Hook(port)
    try:
        yield hook
    finally:
        hook.close()


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC) + timedelta(seconds=1)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def box(database: Database) -> NoticeBox:
    return NoticeBox(database)


def tell(database: Database, *texts: str) -> None:
    for text in texts:
        with database.writing() as connection:
            add_notice(connection, NoticeKind.SCHEDULE_FAILED, text, schedule="night")


def sender(box: NoticeBox, hook: Hook, clock: Clock, timeout_s: float = 10.0) -> NoticeSender:
    serve = ServeSettings(webhook=f"http://127.0.0.1:{hook.port}/hook")
    return NoticeSender(box, serve, timeout_s=timeout_s, clock=clock)


def test_notices_come_in_their_order_each_with_its_kind_and_facts(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        tell(database, "one", "two", "three")
        sending = sender(box, hook, Clock())
        assert [sending.deliver_next() for _ in range(4)] == [True, True, True, False]
        assert hook.said() == ["one", "two", "three"]
        body = json.loads(hook.taken[0]["body"])
        assert (body["type"], body["data"]) == ("schedule.failed", {"schedule": "night"})
        assert len({call["headers"]["webhook-id"] for call in hook.taken}) == 3
        assert "webhook-signature" not in hook.taken[0]["headers"]
        assert box.waiting() == (0, None)


def test_what_fails_is_tried_again_later_and_later_and_nothing_overtakes_it(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        hook.statuses = [503, 500, 429]
        tell(database, "one", "two")
        clock = Clock()
        sending = sender(box, hook, clock)
        for wait in (1, 2, 4):
            assert not sending.deliver_next()
            assert box.waiting()[1] in ("status 503", "status 500", "status 429")
            clock.wait(wait - 0.1)
            assert not sending.deliver_next()  # it is not due yet
            clock.wait(0.1)
        assert sending.deliver_next()
        assert sending.deliver_next()
        assert hook.said() == ["one", "two"]
        assert len({call["headers"]["webhook-id"] for call in hook.calls}) == 2
        assert len({call["body"] for call in hook.calls}) == 2  # the same in each try


def test_waiting_grows_to_an_hour() -> None:
    assert [wait_s(tries) for tries in (1, 2, 3, 12, 13, 100)] == [1, 2, 4, 2048, 3600, 3600]


def test_a_signature_is_the_one_made_by_hand(
    database: Database, box: NoticeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = b"a key of 24 bytes, or so"
    monkeypatch.setenv(WEBHOOK_SECRET, f"whsec_{base64.b64encode(key).decode()}")
    with hooked() as hook:
        tell(database, "one")
        assert sender(box, hook, Clock()).deliver_next()
        call = hook.taken[0]
    signed = f"{call['headers']['webhook-id']}.{call['headers']['webhook-timestamp']}.".encode() + call["body"]
    by_hand = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert call["headers"]["webhook-signature"] == f"v1,{by_hand}"
    plain = base64.b64encode(hmac.new(b"plain", b"n.7.{}", hashlib.sha256).digest()).decode()
    assert signature("plain", "n", 7, b"{}") == f"v1,{plain}"


def test_a_server_that_hangs_is_left_and_asked_again(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        hook.hangs.set()
        tell(database, "one")
        clock = Clock()
        sending = sender(box, hook, clock, timeout_s=0.3)
        assert not sending.deliver_next()
        assert box.waiting() == (1, "no answer within 0.3 s")
        hook.hangs.clear()
        clock.wait(1)
        assert sending.deliver_next()
        assert json.loads(hook.calls[-1]["body"])["text"] == "one"


def test_a_server_that_was_killed_gets_it_when_it_is_back(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        port = hook.port
        sending = sender(box, hook, clock := Clock())
    tell(database, "one")
    assert not sending.deliver_next()
    assert "no connection" in str(box.waiting()[1])
    clock.wait(1)
    with hooked(port) as again:
        assert sending.deliver_next()
        assert again.said() == ["one"]


def test_a_notice_whose_sender_was_killed_is_sent_by_another_after_a_while(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        tell(database, "one")
        clock = Clock()
        taken = box.take(clock(), 30.0)
        assert taken is not None
        assert json.loads(taken.body)["text"] == "one"
        sending = sender(box, hook, clock)
        assert not sending.deliver_next()  # the first one may still be sending it
        clock.wait(31)
        assert sending.deliver_next()
        assert (hook.said(), hook.taken[0]["headers"]["webhook-id"]) == (["one"], taken.id)


def test_what_is_refused_is_tried_for_three_days_before_others_follow(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        hook.statuses = [410, 302, 404, 400, 422] * 20
        tell(database, "late", "next")
        clock = Clock()
        begin, tries, sending = clock(), 0, sender(box, hook, clock)
        while not sending.deliver_next():
            tries += 1
            clock.wait(wait_s(tries))
        assert timedelta(days=3) < clock() - begin < timedelta(days=3, hours=1, seconds=1)
        hook.statuses.clear()
        assert sending.deliver_next()
        assert hook.said() == ["next"]
        assert {call["path"] for call in hook.calls} == {"/hook"}  # no redirect is followed


def test_a_receiver_that_is_set_up_a_day_later_gets_what_it_refused_before(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        hook.statuses = [404] * 30
        tell(database, "one")
        clock = Clock()
        sending, tries = sender(box, hook, clock), 0
        while not sending.deliver_next():
            tries += 1
            clock.wait(wait_s(tries))
        assert (tries, hook.said()) == (30, ["one"])
        hook.statuses = [503]
        tell(database, "old")
        clock.wait(4 * 86_400)
        assert sending.deliver_next()
        assert box.waiting() == (0, None)


def test_a_clock_that_was_wrong_keeps_no_notice_waiting(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        clock = Clock()
        tell(database, "written ahead", "refused ahead", "now")
        with database.writing() as connection:
            connection.exec_driver_sql("UPDATE notices SET due = '2036-01-01T00:00:00.000000Z'")
        sending = sender(box, hook, clock)
        assert sending.deliver_next()
        clock.wait(10 * 365 * 86_400)
        hook.statuses = [503]
        taken = box.take(clock(), 1.0)
        assert taken is not None
        box.put_off(taken.id, clock() + timedelta(hours=1), "status 503")
        clock.wait(-10 * 365 * 86_400)
        hook.statuses.clear()
        assert [sending.deliver_next() for _ in range(3)] == [True, True, False]
        assert hook.said() == ["written ahead", "refused ahead", "now"]


def test_a_notice_of_the_future_is_given_up_after_as_many_tries(database: Database, box: NoticeBox) -> None:
    with hooked() as hook:
        clock = Clock()
        tell(database, "bad", "good")
        clock.wait(-365 * 86_400)
        hook.statuses = [503] * 84
        sending, tries = sender(box, hook, clock), 1
        while not sending.deliver_next():
            clock.wait(wait_s(tries))
            tries += 1
        assert tries == 84
        assert sending.deliver_next()
        assert hook.said() == ["good"]


def test_a_worker_without_a_webhook_removes_only_what_nobody_tries(database: Database, box: NoticeBox) -> None:
    tell(database, "one", "two")
    now = datetime.now(UTC)
    box.remove_expired(now + timedelta(days=2))
    assert box.waiting()[0] == 2
    later = now + timedelta(days=3, minutes=1)
    taken = box.take(later, 30.0)
    assert taken is not None
    box.put_off(taken.id, later + timedelta(hours=1), "status 503")
    box.remove_expired(later)
    assert box.waiting() == (1, "status 503")


def test_whatever_a_try_raises_is_a_failed_try(
    database: Database, box: NoticeBox, caplog: pytest.LogCaptureFixture
) -> None:
    tell(database, "one")
    clock = Clock()
    sending = NoticeSender(box, ServeSettings(webhook="http://127.0.0.1:9/sec\x7fret"), clock=clock)
    assert not sending.deliver_next()
    assert box.waiting() == (1, "it cannot be sent: InvalidURL")
    assert "ret" not in "".join(record.getMessage() for record in caplog.records)
    clock.wait(4 * 86_400)
    assert sending.deliver_next()
    assert box.waiting() == (0, None)


def test_the_address_is_in_no_line_of_the_log(database: Database, box: NoticeBox, tmp_path: Path) -> None:
    root = logging.getLogger()
    before, level, written = root.handlers[:], root.level, io.StringIO()
    handler = configure_logging(tmp_path, stream=written)
    try:
        with hooked() as hook:
            hook.statuses = [404]
            tell(database, "one")
            serve, clock = ServeSettings(webhook=f"http://127.0.0.1:{hook.port}/services/hushhush"), Clock()
            sending = NoticeSender(box, serve, clock=clock)
            assert not sending.deliver_next()
            clock.wait(1)
            assert sending.deliver_next()
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = before
        root.setLevel(level)
        handler.close()
    assert "a notice was not taken" in written.getvalue()
    assert "hushhush" not in written.getvalue()


def test_at_most_so_many_wait(database: Database, box: NoticeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refaug.service.history.notices.MOST", 3)
    tell(database, *(str(number) for number in range(5)))
    assert (box.waiting()[0], MOST) == (3, 1_000)
    oldest = box.take(datetime.now(UTC), 1.0)
    assert oldest is not None
    assert json.loads(oldest.body)["text"] == "2"


def test_inside_addresses_are_refused_unless_they_are_named(database: Database, box: NoticeBox) -> None:
    policy = webhook_policy(ServeSettings(webhook="https://hooks.example.com/x"))
    with pytest.raises(Exception, match="inside address"):
        policy.require_address("hooks.example.com", "10.0.0.7", 443, is_plain_secret=False)
    listed = webhook_policy(ServeSettings(webhook="https://hooks.example.com/x", bot_hosts="10.0.0.0/8"))
    assert str(listed.require_address("hooks.example.com", "10.0.0.7", 443, is_plain_secret=False)) == "10.0.0.7"
    with pytest.raises(Exception, match="no endpoint can be"):
        listed.require_address("hooks.example.com", "169.254.169.254", 443, is_plain_secret=False)


def test_a_check_says_where_notices_go_and_refuses_inside_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WEBHOOK_SECRET, raising=False)
    there = ServeSettings(webhook="http://127.0.0.1:9/x")
    assert describe_webhook(there) == "127.0.0.1, not signed, since WEBHOOK_SECRET is not set"
    monkeypatch.setenv(WEBHOOK_SECRET, "secret")
    assert describe_webhook(there) == "127.0.0.1, signed"
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("10.0.0.7", 443))])
    with pytest.raises(NotAllowed) as raised:
        describe_webhook(ServeSettings(webhook="https://hooks.example.com/x"))
    assert "inside address 10.0.0.7" in raised.value.message
    assert "--bot-hosts" in raised.value.remedy


@pytest.mark.parametrize(
    "webhook",
    [
        "hooks.example.com/hush",
        "ftp://a.example/hush",
        "https://u:hush@a.example/",
        "http://localhost:8000/hush",
        "https://hooks..example.com/hush",
        f"https://{'a' * 64}.example/hush",
        "https://a.example:port/hush",
        "https://a.example/hush#x",
        "https:///hush",
        "https://hooks example.com/hush",
    ],
)
def test_what_is_no_webhook_is_refused_at_the_start_without_showing_its_secrets(webhook: str) -> None:
    with pytest.raises(Usage, match="REFAUG_WEBHOOK") as raised:
        ServeSettings(webhook=webhook)
    assert "hush" not in str(raised.value)


def test_a_webhook_without_the_package_that_sends_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "refaug.bots.endpoint.addresses")
    with pytest.raises(MissingPart) as refused, extras_named():
        ServeSettings(webhook="https://hooks.example.com/x")
    assert "refaug[judges]" in refused.value.remedy


@pytest.mark.parametrize("secret", ["whsec_abc", "whsec_", "whsec_YWJj!", "whsec_ü"])
def test_a_secret_that_is_no_base64_is_refused_at_the_start(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK_SECRET, secret)
    with pytest.raises(Usage, match="WEBHOOK_SECRET"):
        ServeSettings(webhook="https://hooks.example.com/x")


# ── what is told ──────────────────────────────────────────────────────────────────────────────────────────────────────


def told(box: NoticeBox) -> list[tuple[str, str]]:
    found, now = [], datetime.now(UTC) + timedelta(seconds=1)
    while (notice := box.take(now, 1.0)) is not None:
        body = json.loads(notice.body)
        found.append((body["type"], body["text"]))
        box.remove(notice.id)
    return found


@pytest.mark.parametrize("schedule", [None, "night"])
def test_a_version_that_a_job_refuses_is_told_once_and_the_schedule_that_failed_so(
    database: Database, box: NoticeBox, tmp_path: Path, schedule: str | None
) -> None:
    acts = JobActs(Settings(home=tmp_path))
    jobs = JobStore(database, acts=acts)
    job = jobs.enqueue("index-build", {"kind": "index-build"}, ["index/chat"], schedule=schedule)
    jobs.claim("w")
    why = "recall is 0.800, at least 0.900 is required"
    subject = "index chat@2026-11-20.7"
    for _ in range(2):  # a worker that was killed in between has done it before
        acts.observer(job.id)(Change(action=REFUSE, subject=subject, details={"reason": why}))
    error = {"code": "check_failed", "message": f"{subject} was built but not published: {why}"}
    for _ in range(2):
        jobs.finish(job.id, "w", JobState.FAILED, error=error)
    failure = ("schedule.failed", f"schedule night failed: {error['message']}")
    assert told(box) == [("version.refused", f"{subject} is not published: {why}"), *([failure] if schedule else [])]


def test_a_version_that_a_command_refuses_is_told_where_the_home_has_a_database(tmp_path: Path) -> None:
    for is_served in (False, True):
        home = migrated(Settings(home=tmp_path / str(is_served))) if is_served else Settings(home=tmp_path / "bare")
        versions = Versions(home.home / "indexes", "index", today=lambda: date(2026, 11, 20))
        staged = tmp_path / f"staged-{is_served}"
        staged.mkdir()
        (staged / MANIFEST).write_text('{"files": {}}')
        with telling_refusals(home), versions.writing("chat", "a test") as writer:
            writer.refuse(writer.add(staged), "recall is 0.800, at least 0.900 is required")
        assert (home.home / "refaug.db").exists() == is_served
    database = Database.open(home)
    waiting = NoticeBox(database)
    notice = waiting.take(datetime.now(UTC) + timedelta(seconds=1), 1.0)
    assert notice is not None
    said = json.loads(notice.body)
    why = "recall is 0.800, at least 0.900 is required"
    assert (said["type"], said["text"]) == ("version.refused", f"index chat@2026-11-20.1 is not published: {why}")
    assert said["data"] == {"code": "check_failed", "error": why, "version": "2026-11-20.1"}
    [row] = AuditLog(database).entries()
    database.close()
    assert (row.action, row.subject, row.details) == ("refuse", "index chat@2026-11-20.1", {"reason": why})


def test_a_job_that_ends_well_or_was_asked_for_by_hand_tells_nothing(database: Database, box: NoticeBox) -> None:
    jobs = JobStore(database)
    for state, schedule in ((JobState.DONE, "night"), (JobState.FAILED, None), (JobState.CANCELLED, "night")):
        job = jobs.enqueue("gc", {"kind": "gc"}, [], schedule=schedule)
        jobs.claim("w")
        jobs.finish(job.id, "w", state, outcome={}, error={"message": "no"} if state is JobState.FAILED else None)
    assert told(box) == []


def test_a_schedule_whose_order_cannot_be_read_is_told(database: Database, box: NoticeBox) -> None:
    schedules, jobs = ScheduleStore(database), JobStore(database)
    then = datetime(2026, 11, 20, tzinfo=UTC)
    order = {"kind": "index-update", "index": "chat"}
    schedules.put("night", cron="30 2 * * *", timezone="UTC", order=order, now=then)
    with database.writing() as connection:
        connection.exec_driver_sql("""UPDATE schedules SET "order" = '{"kind": "no such kind"}'""")
    schedules.tick(jobs, then + timedelta(hours=3))
    assert [kind for kind, _ in told(box)] == ["schedule.failed"]


def test_a_schedule_whose_job_cannot_begin_is_told_once_until_it_begins_or_is_put_again(
    database: Database, box: NoticeBox
) -> None:
    schedules, jobs = ScheduleStore(database), JobStore(database, waiting_jobs=1)
    then, order = datetime(2026, 11, 20, tzinfo=UTC), {"kind": "gc", "artefact": "index", "name": "chat"}

    def tick(hours: float, minutes: float = 0) -> list[str]:
        schedules.tick(jobs, then + timedelta(hours=hours, minutes=minutes))
        return [text for _, text in told(box)]

    other = jobs.enqueue("gc", {**order, "name": "other"}, ["index/other"])
    schedules.put("night", cron="30 2 * * *", timezone="UTC", order=order, now=then)
    full = "schedule night failed: not begun: 1 jobs wait, and no more are taken"
    assert tick(2, 39) == [], "the queue may have room in a moment"
    assert tick(2, 40) == [full]
    assert tick(2, 41) == []
    assert [one.note for one in schedules.firings("night")] == [full.removeprefix("schedule night failed: ")]
    jobs.cancel(other.id)
    assert tick(3) == []
    assert [(one.note, one.job is None) for one in schedules.firings("night")] == [(None, False)]
    [fired] = schedules.firings("night")
    assert jobs.get(fired.job or "").state is JobState.QUEUED
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE schedules SET timezone = 'Mars/Olympus'")
    why = "schedule night failed: not begun: there is no time zone 'Mars/Olympus'"
    assert tick(27) == [why]
    assert tick(28) == []
    schedules.put("night", cron="30 2 * * *", timezone="UTC", order=order, now=then + timedelta(hours=28))
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE schedules SET timezone = 'Mars/Olympus'")
    assert tick(29) == [why]
