"""Keys: what is kept of them, who is let in while they live, and how much a key is allowed."""

from __future__ import annotations

import hashlib
import math
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing
from sqlalchemy import select

from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, RefaugError, TooMany, Unavailable, Usage
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.database.tables import KEYS
from refaug.service.keys import _REFRESH_S, ANONYMOUS, Key, KeyRing, KeyStore, RateLimits, Token
from refaug.service.scopes import Scope

pytest_plugins = ("databases",)

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
SHAPE = re.compile(r"refaug_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")


@pytest.fixture
def keys(database: Database) -> KeyStore:
    return KeyStore(database)


# ── kept ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_a_token_only_the_hash_of_its_secret_is_kept(database: Database, keys: KeyStore) -> None:
    token, key = keys.create("alice", [Scope.SCORE, Scope.READ], rate_per_s=2.5, quota_per_day=100, now=NOW)
    match = SHAPE.fullmatch(token)
    assert match is not None
    with database.reading() as connection:
        [row] = connection.execute(select(KEYS)).mappings()
    assert {name: row[name] for name in ("id", "name", "hash", "scopes", "rate_per_s", "quota_per_day")} == {
        "id": match[1],
        "name": "alice",
        "hash": hashlib.sha256(match[2].encode()).hexdigest(),
        "scopes": "read score",
        "rate_per_s": 2.5,
        "quota_per_day": 100,
    }
    assert match[2] not in repr((dict(row), key, Token.parse(token)))
    assert keys.list() == [key]
    assert key == Key(
        id=match[1],
        name="alice",
        scopes=frozenset({Scope.READ, Scope.SCORE}),
        rate_per_s=2.5,
        quota_per_day=100,
        created=NOW,
    )


def test_no_two_tokens_share_a_half() -> None:
    tokens = [Token.new() for _ in range(1_000)]
    assert len({token.id for token in tokens}) == len({token.secret for token in tokens}) == 1_000
    assert all(SHAPE.fullmatch(str(token)) and Token.parse(str(token)) == token for token in tokens)


def test_a_key_is_revoked_by_name_or_id_and_its_name_is_not_used_again(keys: KeyStore) -> None:
    keys.create("first", [Scope.READ], now=NOW)
    _, second = keys.create("second", [Scope.READ], now=NOW)
    later = NOW + timedelta(hours=1)
    assert keys.revoke("first", now=later).revoked == later
    assert keys.revoke(second.id, now=later).name == "second"
    assert keys.revoke("first", now=later + timedelta(days=1)).revoked == later
    assert [(key.name, key.revoked) for key in keys.list()] == [("first", later), ("second", later)]
    with refusing(Conflict, "first"):
        keys.create("first", [Scope.READ])
    for unknown in ("third", "", "a\0b", "\udcff"):
        with refusing(NotFound):
            keys.revoke(unknown)


def test_a_key_whose_name_is_the_id_of_another_is_not_revoked_in_its_place(keys: KeyStore) -> None:
    _, meant = keys.create("meant", [Scope.READ])
    keys.create(meant.id, [Scope.READ])
    assert keys.revoke(meant.id).name == "meant"
    assert [(key.name, key.revoked is None) for key in sorted(keys.list(), key=lambda one: one.name == "meant")] == [
        (meant.id, True),
        ("meant", False),
    ]


def test_keys_that_make_no_sense_are_not_made(keys: KeyStore) -> None:
    def refused(kind: type[RefaugError], fact: object = "", name: str = "a", **given: object) -> None:
        with refusing(kind, fact):
            keys.create(name, **{"scopes": [Scope.READ], "now": NOW, **given})  # type: ignore[arg-type]

    refused(Usage, "A b", name="A b")
    refused(BadInput, ", ".join(Scope), scopes=[])
    refused(BadInput, 0, rate_per_s=0.0)
    refused(BadInput, math.nan, rate_per_s=math.nan)
    refused(BadInput, math.inf, rate_per_s=math.inf)
    refused(BadInput, 0, quota_per_day=0)
    refused(BadInput, "2024-05-01", expires=NOW)
    refused(BadInput, "9999-12-31", expires=datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))))
    assert keys.list() == []


def test_admin_allows_everything_and_no_other_scope_includes_another() -> None:
    def of(*scopes: Scope) -> list[Scope]:
        key = Key(id="i", name="n", scopes=frozenset(scopes))
        return [scope for scope in Scope if key.allows(scope)]

    assert of(Scope.ADMIN) == list(Scope)
    assert [of(scope) for scope in (Scope.READ, Scope.SCORE, Scope.WRITE)] == [
        [Scope.READ],
        [Scope.SCORE],
        [Scope.WRITE],
    ]
    with refusing(NotAllowed, "read, score", "write"):
        Key(id="i", name="n", scopes=frozenset({Scope.READ, Scope.SCORE})).require(Scope.WRITE)


# ── let in ────────────────────────────────────────────────────────────────────────────────────────────────────────


def soon(condition: object, within_s: float = 20.0) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.01)


@pytest.fixture
def ring(database: Database) -> Iterator[KeyRing]:
    with closing(KeyRing(database, required=True, look_s=0.02)) as found:
        yield found


def is_refused(ring: KeyRing, token: str | None) -> bool:
    try:
        ring.check(token)
    except NoKey:
        return True
    return False


def test_a_key_opens_from_the_next_look_on_and_no_more_once_revoked(keys: KeyStore, ring: KeyRing) -> None:
    token, key = keys.create("alice", [Scope.READ])
    soon(lambda: not is_refused(ring, token))
    assert ring.check(token) == key
    keys.revoke("alice")
    soon(lambda: is_refused(ring, token))
    with refusing(NoKey, "alice"):
        ring.check(token)


def test_whoever_holds_keys_hears_of_a_revoked_one_by_itself(database: Database, keys: KeyStore) -> None:
    token, _ = keys.create("alice", [Scope.READ])
    with closing(KeyRing(database, required=True)) as one, closing(KeyRing(database, required=True)) as other:
        assert not is_refused(one, token)
        assert not is_refused(other, token)
        keys.revoke("alice")
        soon(lambda: is_refused(one, token) and is_refused(other, token))
    assert _REFRESH_S <= 1.0  # two seconds are promised


def test_processes_that_would_look_in_an_hour_hear_of_keys_by_the_epoch(database: Database, keys: KeyStore) -> None:
    with (
        closing(KeyRing(database, required=True, look_s=3_600)) as one,
        closing(KeyRing(database, required=True, look_s=3_600)) as other,
    ):
        token, _ = keys.create("alice", [Scope.READ])
        soon(lambda: not is_refused(one, token) and not is_refused(other, token))
        keys.revoke("alice")
        soon(lambda: is_refused(one, token) and is_refused(other, token))


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "Bearer",
        "refaug_short_secret",
        f"refaug_{'a' * 12}_{'b' * 43}\n",
        f"refaug_{'a' * 12}_{'é' * 43}",
        f"refaug_{'a' * 12}_{'b' * 43}",
    ],
)
def test_what_is_no_key_is_refused_without_being_repeated(ring: KeyRing, token: str | None) -> None:
    with pytest.raises(NoKey) as refused:
        ring.check(token)
    assert not token or token not in str(refused.value)


def test_a_known_id_with_another_secret_is_as_unknown_as_any(keys: KeyStore, ring: KeyRing) -> None:
    token, _ = keys.create("alice", [Scope.READ])
    keys.revoke("alice")
    ring.refresh()
    forged = token[:-43] + Token.new().secret
    with pytest.raises(NoKey) as known_id:
        ring.check(forged)
    with pytest.raises(NoKey) as unknown_id:
        ring.check(str(Token.new()))
    assert str(known_id.value) == str(unknown_id.value)
    assert "alice" not in str(known_id.value)


def test_a_key_expires_by_itself(keys: KeyStore, ring: KeyRing) -> None:
    now = datetime.now(UTC)
    gone, _ = keys.create("gone", [Scope.READ], expires=now - timedelta(days=1), now=now - timedelta(days=2))
    good, _ = keys.create("good", [Scope.READ], expires=now + timedelta(days=1))
    ring.refresh()
    assert ring.check(good).name == "good"
    with refusing(NoKey, "gone", f"{now - timedelta(days=1):%Y-%m-%d}"):
        ring.check(gone)


def test_where_no_keys_are_asked_for_everybody_may_do_everything(empty_database: Database) -> None:
    with closing(KeyRing(empty_database, required=False)) as ring:
        assert ring.check(None) == ring.check("anything") == ANONYMOUS
    assert [scope for scope in Scope if ANONYMOUS.allows(scope)] == list(Scope)


def test_without_its_database_the_last_keys_are_trusted_for_a_minute(tmp_path: Path) -> None:
    home, clock = Settings(home=tmp_path / "home"), [1_000.0]
    with closing(Database.open(home)) as database:
        database.migrate()
        token, key = KeyStore(database).create("alice", [Scope.READ])
        ring = KeyRing(database, required=True, look_s=3_600, clock=lambda: clock[0])
        file = database.file
        assert file is not None
        file.rename(file.with_name("away"))
        clock[0] += 60
        ring.refresh()
        assert ring.check(token) == key
        clock[0] += 0.01
        with pytest.raises(Unavailable) as refused:
            ring.check(token)
        assert refused.value.retry_after_s == 3_600
        with refusing(NoKey):
            ring.check("nonsense")
        file.with_name("away").rename(file)
        ring.refresh()
        assert ring.check(token) == key
        ring.close()


def test_a_database_that_comes_late_keeps_nothing_from_starting(empty_database: Database) -> None:
    with closing(KeyRing(empty_database, required=True, look_s=0.02)) as ring:
        with refusing(Unavailable):
            ring.check(str(Token.new()))
        empty_database.migrate()
        token, key = KeyStore(empty_database).create("alice", [Scope.READ])

        def is_known() -> bool:
            try:
                return ring.check(token) == key
            except (NoKey, Unavailable):
                return False

        soon(is_known)


def test_a_ring_that_is_closed_leaves_no_thread(database: Database) -> None:
    before = threading.active_count()
    ring = KeyRing(database, required=True, look_s=0.02)
    assert threading.active_count() == before + 1
    ring.close()
    ring.close()
    assert threading.active_count() == before


# ── how much ──────────────────────────────────────────────────────────────────────────────────────────────────────


def key_with(rate: float | None = None, quota: int | None = None, name: str = "k") -> Key:
    return Key(id=name, name=name, scopes=frozenset(Scope), rate_per_s=rate, quota_per_day=quota)


def passes(rates: RateLimits, key: Key, now: float) -> bool:
    try:
        rates.take(key, now)
    except TooMany:
        return False
    return True


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([0.5, 1.0, 3.0, 40.0]), st.integers(1, 4), st.integers(0, 1_000))
def test_a_rate_is_exact_to_a_second_over_any_window(rate: float, workers: int, seed: int) -> None:
    rng, share = random.Random(seed), rate / workers
    moment, passed, rates, key = 50.0, list[float](), RateLimits(workers=workers), key_with(rate)
    while moment < 80:
        if passes(rates, key, moment):
            passed.append(moment)
        moment += rng.expovariate(8 * share)  # much more than is allowed, in clumps
    burst = max(1.0, share)
    for begin in range(len(passed)):
        for end in range(begin, len(passed)):
            allowed = (passed[end] - passed[begin]) * share + burst
            assert end - begin + 1 <= allowed + 1e-6
    # nor is less let through: whoever asks all the time gets what is allowed, less what the pauses took
    assert len(passed) >= 0.8 * (30 * share) - 1


def test_a_steady_caller_gets_exactly_the_rate() -> None:
    rates, key = RateLimits(), key_with(rate=10.0)
    passed = [tick / 100 for tick in range(1_000) if passes(rates, key, 7.0 + tick / 100)]
    assert passed[:10] == [tick / 100 for tick in range(10)]  # a second's worth at once
    assert len(passed) == 10 + 99  # then ten a second: one at 0.1, 0.2, …, 9.9
    assert passed[10:13] == [0.1, 0.2, 0.3]


def test_too_many_says_when_to_come_again_and_that_is_enough() -> None:
    rates, key = RateLimits(), key_with(rate=0.25, name="slow")
    rates.take(key, 100.0)
    with pytest.raises(TooMany, match=r"slow.*0\.25") as refused:
        rates.take(key, 101.0)
    assert refused.value.retry_after_s == pytest.approx(3.0)
    rates.take(key, 101.0 + refused.value.retry_after_s)


def test_keys_do_not_count_against_each_other() -> None:
    rates = RateLimits()
    one, other = key_with(rate=1.0, name="one"), key_with(rate=1.0, name="other")
    assert [passes(rates, key, 1.0) for key in (one, other, one, other)] == [True, True, False, False]
    assert all(passes(rates, key_with(), 1.0) for _ in range(1_000))


def test_a_quota_counts_from_midnight_utc() -> None:
    wall = [datetime(2024, 5, 1, 23, 59, 50, tzinfo=UTC).timestamp()]
    rates, key = RateLimits(clock=lambda: wall[0]), key_with(quota=3, name="small")
    assert [passes(rates, key, 1.0) for _ in range(4)] == [True, True, True, False]
    with pytest.raises(TooMany, match=r"small.*3") as refused:
        rates.take(key, 1.0)
    assert refused.value.retry_after_s == 10.0
    wall[0] += 10
    assert [passes(rates, key, 1.0) for _ in range(4)] == [True, True, True, False]
    wall[0] -= 3_600  # a clock that is set back gives nothing twice
    assert not passes(rates, key, 1.0)


def test_what_a_rate_refuses_does_not_count_for_the_quota() -> None:
    rates, key = RateLimits(clock=lambda: 0.0), key_with(rate=1.0, quota=2)
    assert [passes(rates, key, moment) for moment in (1.0, 1.1, 1.2, 2.0, 3.0)] == [True, False, False, True, False]


def test_each_process_has_its_share_and_at_least_one() -> None:
    def allowed(quota: int, workers: int) -> int:
        rates = RateLimits(workers=workers, clock=lambda: 0.0)
        return sum(passes(rates, key_with(quota=quota), 1.0) for _ in range(100))

    assert [allowed(12, 4), allowed(10, 4), allowed(2, 4)] == [3, 2, 1]


def test_a_limit_that_was_changed_holds_at_once() -> None:
    rates = RateLimits()
    assert [passes(rates, key_with(rate=1.0), 1.0) for _ in range(2)] == [True, False]
    assert [passes(rates, key_with(rate=3.0), 1.0) for _ in range(4)] == [True, True, True, False]


def test_many_threads_take_no_more_than_is_allowed() -> None:
    rates, key = RateLimits(), key_with(rate=50.0)
    passed, lock, start = list[bool](), threading.Lock(), threading.Barrier(8)

    def ask() -> None:
        start.wait()
        mine = [passes(rates, key, 5.0) for _ in range(50)]
        with lock:
            passed.extend(mine)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert passed.count(True) == 50
