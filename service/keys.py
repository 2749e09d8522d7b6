"""Keys: who may do what, and how much of it; made by a command, kept as hashes, looked up in memory.

A token is `refaug_<id>_<secret>`. The id finds the row; of the secret, 256 random bits, only the SHA-256 is kept: slow
hashes guard passwords that can be guessed, and there is nothing to guess here. A web process holds all keys in memory
and looks at them again every second, so that a request never waits for the database, and a key that was revoked is
refused everywhere within two seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self

from sqlalchemy import Row, or_, select
from sqlalchemy.exc import IntegrityError

from core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, RefaugError, TooMany, Unavailable
from core.files import NAME, require_name
from service.database import Database, time_of, time_text
from service.migrations.tables import KEYS

log = logging.getLogger(__name__)

_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ID_CHARS: Final = 12
_SECRET_BYTES: Final = 32  # 43 characters of base64
_TOKEN: Final = re.compile(r"refaug_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_NO_HASH: Final = hashlib.sha256(b"").hexdigest()  # what the secret of an unknown id is compared with
_LOOK_S: Final = 1.0  # half of the two seconds in which revoking has to take effect
_TRUSTED_S: Final = 60.0  # a database that restarts is back by then; keys must not outlive it for long
_DAY_S: Final = 86_400
_FASTEST: Final = 1_000_000
_MOST_A_DAY: Final = 1_000_000_000


class Scope(StrEnum):
    """What a key allows; none includes another, but for admin, which is all of them."""

    READ = "read"
    SCORE = "score"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class Key:
    """What a request may do."""

    id: str
    name: str
    scopes: frozenset[Scope]
    rate_per_s: float | None = None
    quota_per_day: int | None = None
    created: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None

    def allows(self, scope: Scope) -> bool:
        """Whether this may be done with the key."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """NotAllowed where the key's scopes do not reach."""
        if not self.allows(scope):
            held = ", ".join(sorted(self.scopes))
            raise NotAllowed(f"key {self.name} allows {held}, and this needs {scope}", remedy="ask for another key")

    def require_valid(self, now: datetime) -> None:
        """NoKey where it was revoked, or its time is over; only who has the secret is told so."""
        if self.revoked is not None:
            raise NoKey(f"key {self.name} was revoked on {self.revoked:%Y-%m-%d}", remedy="ask for a new key")
        if self.expires is not None and now >= self.expires:
            raise NoKey(f"key {self.name} has expired on {self.expires:%Y-%m-%d}", remedy="ask for a new key")


# Who asks where no keys are asked for.
ANONYMOUS: Final = Key(id="", name="anonymous", scopes=frozenset(Scope))


@dataclass(frozen=True, kw_only=True)
class Token:
    """The two halves of what a caller sends."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """A token that nobody has."""
        return cls(
            id="".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARS)),
            secret=secrets.token_urlsafe(_SECRET_BYTES),
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """The halves of a token; NoKey tells the shape, and never what was sent."""
        if not text:
            raise NoKey("this needs a key", remedy="send it as Authorization: Bearer refaug_…")
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise NoKey("what was sent is no key", remedy="a key looks like refaug_, 12 characters, _, 43 characters")
        return cls(id=match[1], secret=match[2])

    @property
    def sha256(self) -> str:
        """What is kept of the secret."""
        return hashlib.sha256(self.secret.encode("ascii")).hexdigest()

    def __str__(self) -> str:
        return f"refaug_{self.id}_{self.secret}"


# ── limits of a key ───────────────────────────────────────────────────────────────────────────────────────────────


class Rates:
    """How many requests each key has made, counted in this process alone; each of `workers` has an equal share.

    A rate is a bucket that holds one second's worth: whatever the window, at most a second's requests more than
    rate × time go through. A quota counts from midnight UTC, and begins anew when the process does.
    """

    def __init__(self, *, workers: int = 1, clock: Callable[[], float] = time.time) -> None:
        self._workers, self._clock = workers, clock
        self._lock = threading.Lock()
        self._buckets = dict[str, _Bucket]()
        self._day, self._taken = 0, dict[str, int]()

    def take(self, key: Key, now: float | None = None) -> None:
        """Count one request; TooMany where it is one too many. `now` is on the clock of time.monotonic()."""
        if key.rate_per_s is None and key.quota_per_day is None:
            return
        moment = time.monotonic() if now is None else now
        with self._lock:
            self._require_quota(key)
            if key.rate_per_s is not None:
                self._bucket(key, key.rate_per_s / self._workers, moment).take(key, moment)
            self._taken[key.id] = self._taken.get(key.id, 0) + 1

    def _require_quota(self, key: Key) -> None:
        moment = self._clock()
        day = int(moment // _DAY_S)
        if day > self._day:  # a clock that is set back does not give the quota twice
            self._day, self._taken = day, {}
        if key.quota_per_day is None:
            return
        share = max(1, key.quota_per_day // self._workers)
        if self._taken.get(key.id, 0) >= share:
            raise TooMany(
                f"key {key.name} has made its {key.quota_per_day:,} requests of today",
                remedy="the count begins anew at midnight UTC",
                retry_after_s=max(1.0, (self._day + 1) * _DAY_S - moment),
            )

    def _bucket(self, key: Key, rate: float, moment: float) -> _Bucket:
        found = self._buckets.get(key.id)
        if found is None or found.rate != rate:  # its limit was changed
            found = self._buckets[key.id] = _Bucket(rate=rate, filled=max(1.0, rate), at=moment)
        return found


@dataclass(kw_only=True)
class _Bucket:
    """Requests that may be made at once; it fills as time goes by."""

    rate: float
    filled: float
    at: float

    def take(self, key: Key, moment: float) -> None:
        self.filled = min(max(1.0, self.rate), self.filled + max(0.0, moment - self.at) * self.rate)
        self.at = moment
        if self.filled < 1.0 - 1e-9:  # sums of fractions end a hair below
            raise TooMany(
                f"key {key.name} allows {key.rate_per_s:g} requests a second",
                remedy="send fewer, larger requests",
                retry_after_s=(1.0 - self.filled) / self.rate,
            )
        self.filled -= 1.0


# ── kept ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class KeyStore:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        rate_per_s: float | None = None,
        quota_per_day: int | None = None,
        expires: datetime | None = None,
        now: datetime | None = None,
    ) -> tuple[str, Key]:
        """A new key and its token, which nobody can read again."""
        moment = (now or datetime.now(UTC)).replace(microsecond=0)
        token = Token.new()
        key = Key(
            id=token.id,
            name=require_name("key", name),
            scopes=frozenset(scopes),
            rate_per_s=rate_per_s,
            quota_per_day=quota_per_day,
            created=moment,
            expires=None if expires is None else expires.replace(microsecond=0),
        )
        _require_sense(key, moment)
        try:
            with self._database.writing() as connection:
                connection.execute(KEYS.insert().values(_row(key, token)))
        except IntegrityError:
            raise Conflict(
                f"there is a key {name} already", remedy="not even a revoked key's name is used again"
            ) from None
        return str(token), key

    def list(self) -> list[Key]:
        """All of them, revoked ones too, by name."""
        return sorted((key for key, _ in self.hashed().values()), key=lambda key: key.name)

    def hashed(self) -> dict[str, tuple[Key, str]]:
        """Each key by its id, with the hash of its secret."""
        with self._database.reading() as connection:
            return {row.id: (_key(row), row.hash) for row in connection.execute(select(KEYS))}

    def revoke(self, id_or_name: str, *, now: datetime | None = None) -> Key:
        """Let a key open nothing any more; once more changes nothing."""
        moment = (now or datetime.now(UTC)).replace(microsecond=0)
        named = or_(KEYS.c.id == id_or_name, KEYS.c.name == id_or_name)
        with self._database.writing() as connection:
            found = connection.execute(select(KEYS).where(named)).all() if NAME.fullmatch(id_or_name) else []
            # A name may look like the id of another key; the id is meant then, since it cannot be chosen.
            row = next((row for row in found if row.id == id_or_name), found[0] if found else None)
            if row is None:
                raise NotFound(f"there is no key {id_or_name[:64]!r}", remedy="refaug keys list")
            if row.revoked is None:
                connection.execute(KEYS.update().where(KEYS.c.id == row.id).values(revoked=time_text(moment)))
            return replace(_key(row), revoked=_key(row).revoked or moment)


def _row(key: Key, token: Token) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "hash": token.sha256,
        "scopes": " ".join(sorted(key.scopes)),
        "rate_per_s": key.rate_per_s,
        "quota_per_day": key.quota_per_day,
        "created": time_text(key.created),
        "expires": None if key.expires is None else time_text(key.expires),
    }


def _key(row: Row[Any]) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        scopes=frozenset(Scope(one) for one in row.scopes.split()),
        rate_per_s=row.rate_per_s,
        quota_per_day=row.quota_per_day,
        created=time_of(row.created),
        expires=None if row.expires is None else time_of(row.expires),
        revoked=None if row.revoked is None else time_of(row.revoked),
    )


def _require_sense(key: Key, now: datetime) -> None:
    if not key.scopes:
        raise BadInput(f"key {key.name} allows nothing", remedy=f"scopes are {', '.join(Scope)}")
    if key.rate_per_s is not None and not 0 < key.rate_per_s <= _FASTEST:
        raise BadInput(f"{key.rate_per_s:g} requests a second", remedy=f"more than 0, at most {_FASTEST:,}")
    if key.quota_per_day is not None and not 0 < key.quota_per_day <= _MOST_A_DAY:
        raise BadInput(f"{key.quota_per_day:,} requests a day", remedy=f"at least 1, at most {_MOST_A_DAY:,}")
    if key.expires is not None and key.expires <= now:
        raise BadInput(f"a key that has expired on {key.expires:%Y-%m-%d}", remedy="a time that is still to come")


# ── in memory ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Seen:
    """All keys as they were at a moment of the monotonic clock."""

    keys: Mapping[str, tuple[Key, str]]
    at: float


class KeyRing:
    """The keys as a web process holds them; a thread looks at them again every second.

    While the database is away the last ones are trusted for a minute. Where no keys are asked for, everybody may do
    everything, and no database is looked at.
    """

    def __init__(
        self,
        database: Database,
        *,
        required: bool,
        look_s: float = _LOOK_S,
        trusted_s: float = _TRUSTED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._required = KeyStore(database), required
        self._look_s, self._trusted_s, self._clock = look_s, trusted_s, clock
        self._seen: _Seen | None = None
        self._is_away = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keys", daemon=True)
        if required:
            self.look()
            self._thread.start()

    def check(self, token: str | None) -> Key:
        """Whose token it is; NoKey where it is nobody's, Unavailable where that cannot be known."""
        if not self._required:
            return ANONYMOUS
        given = Token.parse(token)
        seen = self._seen
        if seen is None or self._clock() - seen.at > self._trusted_s:
            raise Unavailable(
                "keys cannot be looked up now", remedy="send it again in a moment", retry_after_s=self._look_s
            )
        key, known = seen.keys.get(given.id, (None, _NO_HASH))
        if not hmac.compare_digest(given.sha256, known) or key is None:
            raise NoKey("this key is not known", remedy="keys are made by refaug keys create")
        key.require_valid(datetime.now(UTC))
        return key

    def look(self) -> None:
        """Take over what the database says; where it is away, what it said last stays."""
        began = self._clock()
        try:
            found = self._store.hashed()
        except RefaugError as error:
            if not self._is_away:  # once, not every second
                log.warning("keys not read", extra={"code": error.code, "why": error.message})
            self._is_away = True
            return
        self._is_away = False
        self._seen = _Seen(found, began)

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)  # it may be waiting for a database that does not answer

    def _watch(self) -> None:
        while not self._closing.wait(self._look_s):
            self.look()
