"""`refaug admin keys` as a command: what it prints once, what it never prints, and what it ends with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from refusals import refusing

from refaug.core.errors import NoKey
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyRing
from refaug.service.scopes import Scope

pytest_plugins = ("databases",)

_DAY = timedelta(days=1)


@contextmanager
def ring_of(home, url: str = "") -> Iterator[KeyRing]:
    with (
        closing(Database.open(Settings(home=home.path), url)) as database,
        closing(KeyRing(database, required=True)) as ring,
    ):
        yield ring


def test_commands_use_the_database_that_the_environment_names(home, monkeypatch, database_url) -> None:
    monkeypatch.setenv("REFAUG_DATABASE", database_url)
    token = home("admin", "keys", "create", "alice", "--scope", "read", "--json").json["token"]
    monkeypatch.delenv("REFAUG_DATABASE")
    with ring_of(home, database_url) as ring:
        assert ring.check(token).name == "alice"
    in_the_home = [key["name"] for key in home("admin", "keys", "list", "--json").json]
    assert in_the_home == ([] if database_url else ["alice"])


def test_a_key_that_was_made_opens_and_is_shown_once(home) -> None:
    made = home(
        "admin",
        "keys",
        "create",
        "alice",
        "--scope",
        "score",
        "--scope",
        "read",
        "--rate",
        "2.5",
        "--quota",
        "1000",
    )
    assert made.code == 0
    token = re.search(r"refaug_[a-z2-7]{12}_[\w-]{43}", made.out)[0]
    assert "the token is not shown again" in made.out
    with ring_of(home) as ring:
        key = ring.check(token)
    assert (key.name, key.scopes, key.rate_per_s, key.quota_per_day) == ("alice", {Scope.READ, Scope.SCORE}, 2.5, 1000)
    secret = token.rpartition(key.id)[2]
    for listed in (home("admin", "keys", "list"), home("admin", "keys", "list", "--json")):
        assert "alice" in listed.out
        assert secret not in listed.out + listed.err
    assert secret.encode() not in b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())


@pytest.mark.parametrize("scope", Scope)
def test_a_key_of_any_scope_alone_can_be_made(home, scope: Scope) -> None:
    made = home("admin", "keys", "create", scope.value, "--scope", scope.value, "--json")
    assert (made.code, made.json["scopes"]) == (0, [scope.value])


def test_the_list_as_a_table(home) -> None:
    home("admin", "keys", "create", "alice", "--scope", "read", "--rate", "0.5", "--expires", "10")
    home("admin", "keys", "create", "bob", "--scope", "admin", "--quota", "2000")
    ids = {row["name"]: row["id"] for row in home("admin", "keys", "list", "--json").json}
    assert home("admin", "keys", "revoke", ids["bob"]).out == f"key bob ({ids['bob']}) is revoked\n"
    today = datetime.now(UTC).date()
    lines = [" ".join(line.split()) for line in home("admin", "keys", "list").out.splitlines()]
    assert lines == [
        "keys",
        "name id scopes rate quota created expires note",
        f"alice {ids['alice']} read 0.5/s - {today} {today + 10 * _DAY}",
        f"bob {ids['bob']} admin - 2,000/day {today} - revoked {today}",
    ]


def test_as_json_times_are_whole_and_the_token_is_there_once(home) -> None:
    made = home("admin", "keys", "create", "carol", "--scope", "write", "--expires", "30", "--json").json
    token = made.pop("token")
    assert token.startswith(f"refaug_{made['id']}_")
    created, expires = (datetime.fromisoformat(made[name]) for name in ("created", "expires"))
    assert 30 * _DAY <= expires - created <= 30 * _DAY + timedelta(seconds=5)
    assert home("admin", "keys", "list", "--json").json == [made]
    revoked = home("admin", "keys", "revoke", "carol", "--json").json
    assert {**made, "revoked": revoked["revoked"]} == revoked
    with ring_of(home) as ring, refusing(NoKey):
        ring.check(token)


def test_what_makes_no_sense_is_refused_by_name(home) -> None:
    home("admin", "keys", "create", "alice", "--scope", "read")
    again = home("admin", "keys", "create", "alice", "--scope", "read", "--json")
    assert (again.code, again.error["code"], again.error["message"]) == (4, "conflict", "there is a key alice already")
    unknown = home("admin", "keys", "revoke", "bob", "--json")
    assert (unknown.code, unknown.error["message"]) == (3, "there is no key 'bob'")
    without = home("admin", "keys", "create", "bob", "--json")
    assert (without.code, without.error["code"]) == (2, "usage")
    assert "--scope" in without.error["message"]
    fast = home("admin", "keys", "create", "bob", "--scope", "read", "--rate", "0", "--json")
    assert (fast.code, fast.error["message"]) == (3, "0 requests a second")
    assert [row["name"] for row in home("admin", "keys", "list", "--json").json] == ["alice"]
