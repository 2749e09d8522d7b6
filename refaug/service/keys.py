"""API keys: what each allows and how many requests; made by a command, stored as hashes, checked in memory.

A token is `refaug_<id>_<secret>`. The id finds the row. Only the SHA-256 of the secret is stored: slow hashes protect
passwords that can be guessed, and a secret of 256 random bits cannot. A web process holds all keys in memory and
reloads them every second, so that a request never waits for the database, and a revoked key is refused everywhere
within two seconds.

The epoch of rights is a file of the home that changes with every key made or revoked: a process that finds another
epoch reads all keys at once. Where the servers of one database have several homes, the second alone bounds what they
know.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from sqlalchemy import Row, or_, select
from sqlalchemy.exc import IntegrityError

from refaug.core.errors import BadInput, Conflict, NoKey, NotAllowed, NotFound, RefaugError, TooMany, Unavailable
from refaug.core.files import NAME, make_folder, require_name, unique_suffix, write_aside
from refaug.core.home import Settings
from refaug.core.memory import BoundedCache
from refaug.core.options.decoding import made_of
from refaug.service.audit import ANONYMOUS_NAME, add_row, user_of_machine
from refaug.service.database.database import Database, time_of, time_text
from refaug.service.database.tables import KEYS
from refaug.service.scopes import Scope

_FILE: Final = ".rights"


class RightsEpoch:
    """The epoch of one home."""

    def __init__(self, home: Settings) -> None:
        self._path = home.home / _FILE

    def advance(self) -> None:
        """Let all processes read keys anew; a home that takes no file leaves them to do so by themselves."""
        with suppress(OSError, RefaugError):
            make_folder(self._path.parent)
            with write_aside(self._path) as file:
                file.write(f"{unique_suffix()}\n".encode())

    def stamp(self) -> tuple[int, ...]:
        """Return what differs between two epochs."""
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_mtime_ns


log = logging.getLogger(__name__)

_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ID_CHARS: Final = 12
_SECRET_BYTES: Final = 32  # 43 characters of base64
_TOKEN: Final = re.compile(r"refaug_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_NO_HASH: Final = hashlib.sha256(b"").hexdigest()  # compared with the secret of an unknown id
_REFRESH_S: Final = 1.0  # half of the two seconds within which revoking takes effect
_EPOCH_S: Final = 0.05  # between two looks whether a key was made or revoked
_MAX_AGE_S: Final = 60.0  # long enough for a database to restart; older keys are not trusted
_DAY_S: Final = 86_400
_MAX_RATE: Final = 1_000_000
_MAX_QUOTA: Final = 1_000_000_000
_LAST: Final = datetime.max.replace(tzinfo=UTC, microsecond=0)


@dataclass(frozen=True, kw_only=True)
class Key:
    """The permissions and limits of a caller."""

    id: str
    name: str
    scopes: frozenset[Scope]
    rate_per_s: float | None = None
    quota_per_day: int | None = None
    created: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None

    def as_json(self) -> dict[str, object]:
        """Return the key as commands and the service show it."""
        moments = {name: getattr(self, name) for name in ("created", "expires", "revoked")}
        return {
            "id": self.id,
            "name": self.name,
            "scopes": sorted(scope.value for scope in self.scopes),
            "rate_per_s": self.rate_per_s,
            "quota_per_day": self.quota_per_day,
            **{name: None if moment is None else moment.isoformat() for name, moment in moments.items()},
        }

    def allows(self, scope: Scope) -> bool:
        """Return whether the key allows this."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise NotAllowed if the key does not allow this."""
        if not self.allows(scope):
            held = ", ".join(sorted(self.scopes))
            message = f"key {self.name} allows {held}, and this needs {scope}"
            raise NotAllowed(message, remedy="ask for another key", scope=scope)

    def require_valid(self, now: datetime) -> None:
        """Raise NoKey if the key was revoked or has expired; only the holder of the secret learns which."""
        if self.revoked is not None:
            raise NoKey(f"key {self.name} was revoked on {self.revoked:%Y-%m-%d}", remedy="ask for a new key")
        if self.expires is not None and now >= self.expires:
            raise NoKey(f"key {self.name} has expired on {self.expires:%Y-%m-%d}", remedy="ask for a new key")


# The key of every request where no keys are required.
ANONYMOUS: Final = Key(id="", name=ANONYMOUS_NAME, scopes=frozenset(Scope))


class WrongKey(NoKey):
    """The key is not known, or its secret is another."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """The two parts of a token."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """Return a new random token."""
        return cls(
            id="".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_CHARS)),
            secret=secrets.token_urlsafe(_SECRET_BYTES),
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the parts of a token; NoKey names the expected form, never the text that was sent."""
        if not text:
            raise NoKey("this needs a key", remedy="send it as Authorization: Bearer refaug_…")
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise WrongKey(
                "what was sent is not a key", remedy="a key looks like refaug_, 12 characters, _, 43 characters"
            )
        return cls(id=match[1], secret=match[2])

    @property
    def sha256(self) -> str:
        """The hash of the secret, which is stored."""
        return hashlib.sha256(self.secret.encode("ascii")).hexdigest()

    def __str__(self) -> str:
        return f"refaug_{self.id}_{self.secret}"


def id_in(text: str | None) -> str:
    """Return the id of the key that a text claims to be; empty where it is no token."""
    match = _TOKEN.fullmatch(text or "")
    return "" if match is None else match[1]


# ── Limits of a key ───────────────────────────────────────────────────────────────────────────────────────────────────


class RateLimits:
    """The requests of each key, counted in this process; each of `workers` processes has an equal share.

    A rate is a token bucket with the requests of one second: in any window at most one second's requests more than rate
    × time get through. A quota counts from midnight UTC, and starts again when the process does.
    """

    def __init__(self, *, workers: int = 1, clock: Callable[[], float] = time.time) -> None:
        self._workers, self._clock = workers, clock
        self._lock = threading.Lock()
        self._buckets = dict[str, _Bucket]()
        self._day, self._taken = 0, dict[str, int]()

    def take(self, key: Key, now: float | None = None) -> None:
        """Count one request; TooMany if it exceeds a limit. `now` is on the clock of time.monotonic()."""
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
        if day > self._day:  # a clock that is set back does not renew the quota
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
        bucket = self._buckets.get(key.id)
        if bucket is None or bucket.rate != rate:  # the limit has changed
            bucket = self._buckets[key.id] = _Bucket(rate=rate, filled=max(1.0, rate), at=moment)
        return bucket


@dataclass(kw_only=True)
class _Bucket:
    """The number of requests that may be made at once, which grows with time."""

    rate: float
    filled: float
    at: float

    def take(self, key: Key, moment: float) -> None:
        self.filled = min(max(1.0, self.rate), self.filled + max(0.0, moment - self.at) * self.rate)
        self.at = moment
        if self.filled < 1.0 - 1e-9:  # sums of fractions may end slightly below 1
            raise TooMany(
                f"key {key.name} allows {key.rate_per_s:g} requests a second",
                remedy="send fewer, larger requests",
                retry_after_s=(1.0 - self.filled) / self.rate,
            )
        self.filled -= 1.0


class KeyPlaces:
    """The requests of each key that are being answered in this process, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._places = dict[str, int]()

    def take(self, key: Key) -> None:
        """Take a place for a request; TooMany where the key has all of its places in use."""
        with self._lock:
            place_count = self._places.get(key.id, 0)
            if place_count >= self._most:
                raise TooMany(
                    f"key {key.name} has {self._most:,} requests being answered already",
                    remedy="wait for some of them, or send larger ones",
                )
            self._places[key.id] = place_count + 1

    def give_back(self, key: Key) -> None:
        """Give a place back; a key without requests takes no memory."""
        with self._lock:
            remaining = self._places[key.id] - 1
            if remaining:
                self._places[key.id] = remaining
            else:
                del self._places[key.id]


# ── Stored keys ───────────────────────────────────────────────────────────────────────────────────────────────────────


class KeyStore:
    """The keys in the database."""

    def __init__(self, database: Database) -> None:
        self._database, self._epoch = database, RightsEpoch(database.home)

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        rate_per_s: float | None = None,
        quota_per_day: int | None = None,
        expires: datetime | None = None,
        now: datetime | None = None,
        actor: str | None = None,
        request: str | None = None,
    ) -> tuple[str, Key]:
        """Store a new key and return its token, which cannot be read again, with the key.

        Without an actor, the audit log names the user of the command.
        """
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
        _require_sensible(key, moment)
        try:
            with self._database.writing() as connection:
                connection.execute(KEYS.insert().values(_row(key, token)))
                facts = {"id": key.id, "scopes": sorted(key.scopes)}
                by = actor or user_of_machine()
                add_row(connection, by, "create", f"key {key.name}", request=request, **facts)
            self._epoch.advance()
        except IntegrityError:
            raise Conflict(
                f"there is a key {name} already", remedy="not even a revoked key's name is used again"
            ) from None
        return str(token), key

    def list(self) -> list[Key]:
        """Return all keys by name, including revoked ones."""
        return sorted((key for key, _ in self.hashed().values()), key=lambda key: key.name)

    def hashed(self) -> dict[str, tuple[Key, str]]:
        """Return each key with the hash of its secret, by id."""
        with self._database.reading() as connection:
            return {row.id: (_key(row), row.hash) for row in connection.execute(select(KEYS))}

    def revoke(
        self, id_or_name: str, *, now: datetime | None = None, actor: str | None = None, request: str | None = None
    ) -> Key:
        """Revoke a key; a second call changes nothing. Without an actor it is the user of the command."""
        moment = (now or datetime.now(UTC)).replace(microsecond=0)
        named = or_(KEYS.c.id == id_or_name, KEYS.c.name == id_or_name)
        with self._database.writing() as connection:
            rows = connection.execute(select(KEYS).where(named)).all() if NAME.fullmatch(id_or_name) else []
            # A name may equal the id of another key; then the id is meant, since it cannot be chosen.
            row = next((row for row in rows if row.id == id_or_name), rows[0] if rows else None)
            if row is None:
                raise NotFound(f"there is no key {id_or_name[:64]!r}", remedy="refaug admin keys list")
            if row.revoked is None:
                connection.execute(KEYS.update().where(KEYS.c.id == row.id).values(revoked=time_text(moment)))
                by = actor or user_of_machine()
                add_row(connection, by, "revoke", f"key {row.name}", request=request, id=row.id)
        self._epoch.advance()
        return replace(_key(row), revoked=_key(row).revoked or moment)


def _row(key: Key, token: Token) -> dict[str, object]:
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
    texts = {name: getattr(row, name) for name in ("created", "expires", "revoked")}
    moments = {name: None if text is None else time_of(text) for name, text in texts.items()}
    return made_of(Key, row, scopes=frozenset(map(Scope, row.scopes.split())), **moments)


def _require_sensible(key: Key, now: datetime) -> None:
    if key.name == ANONYMOUS_NAME:
        raise BadInput(
            f"no key is called {ANONYMOUS_NAME}", remedy="the audit log calls requests so where no keys are required"
        )
    if not key.scopes:
        raise BadInput(f"key {key.name} allows nothing", remedy=f"scopes are {', '.join(Scope)}")
    if key.rate_per_s is not None and not 0 < key.rate_per_s <= _MAX_RATE:
        raise BadInput(f"{key.rate_per_s:g} requests a second", remedy=f"more than 0, at most {_MAX_RATE:,}")
    if key.quota_per_day is not None and not 0 < key.quota_per_day <= _MAX_QUOTA:
        raise BadInput(f"{key.quota_per_day:,} requests a day", remedy=f"at least 1, at most {_MAX_QUOTA:,}")
    if key.expires is not None and key.expires <= now:
        raise BadInput(f"a key that has expired on {key.expires:%Y-%m-%d}", remedy="a time that is still to come")
    if key.expires is not None and key.expires > _LAST:
        raise BadInput(f"a key that expires at {key.expires}", remedy=f"a time up to {_LAST}, or none")


# ── In memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _KeySnapshot:
    """All keys at one time of the monotonic clock."""

    keys: Mapping[str, tuple[Key, str]]
    at: float


class KeyRing:
    """The keys in the memory of a web process, reloaded every second by a thread, and when a key was made or revoked.

    While the database does not answer, the last keys are valid for a minute. Where no keys are required, every request
    is allowed and the database is not used.
    """

    def __init__(
        self,
        database: Database,
        *,
        required: bool,
        look_s: float = _REFRESH_S,
        trusted_s: float = _MAX_AGE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._required = KeyStore(database), required
        self._look_s, self._trusted_s, self._clock = look_s, trusted_s, clock
        self._snapshot: _KeySnapshot | None = None
        self._epoch, self._epoch_read = RightsEpoch(database.home), tuple[int, ...]()
        self._is_away = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._refresh_regularly, name="keys", daemon=True)
        if required:
            self.refresh()
            self._thread.start()

    def check(self, token: str | None) -> Key:
        """Return the key of a token; NoKey if there is none, Unavailable if that cannot be checked now."""
        if not self._required:
            return ANONYMOUS
        parsed_token = Token.parse(token)
        seen = self._snapshot
        if seen is None or self._clock() - seen.at > self._trusted_s:
            raise Unavailable(
                "keys cannot be looked up now", remedy="send it again in a moment", retry_after_s=self._look_s
            )
        key, digest = seen.keys.get(parsed_token.id, (None, _NO_HASH))
        if not hmac.compare_digest(parsed_token.sha256, digest) or key is None:
            raise WrongKey("this key is not known", remedy="keys are made by refaug admin keys create")
        key.require_valid(datetime.now(UTC))
        return key

    def refresh(self) -> None:
        """Load the keys from the database; while it does not answer, keep the last ones."""
        began, self._epoch_read = self._clock(), self._epoch.stamp()
        try:
            keys = self._store.hashed()
        except RefaugError as error:
            if not self._is_away:  # once, not every second
                log.warning("keys not read", extra={"code": error.code, "why": error.message})
            self._is_away = True
            return
        self._is_away = False
        self._snapshot = _KeySnapshot(keys, began)

    def close(self) -> None:
        """Stop the thread."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)  # it may wait for a database that does not answer

    def _refresh_regularly(self) -> None:
        read = time.monotonic()
        while not self._closing.wait(min(self._look_s, _EPOCH_S)):
            if time.monotonic() - read >= self._look_s or self._epoch.stamp() != self._epoch_read:
                read = time.monotonic()
                self.refresh()


# ── Wrong keys are slowed, by the key that they claim to be and by the address that they come from ────────────────────
#
# Two token buckets count wrong keys: one for each pair of a key's id and an address, one for each address. Both are
# asked after a secret was compared, and only where it was wrong, so that the right key always passes, also beside
# guesses at it from behind the same proxy. A refusal does not say more than that too many were wrong: it is no help
# to a guesser, whose secrets of 256 bits are too many at any pace. No other address and no other key waits. Both
# lists are bounded: the least recently used entries go first, and an address that is refused adds none.

_MOST_ENTRIES: Final = 10_000
_TIMES_AN_ADDRESS: Final = 10  # as many for all keys of an address as for one of them
_MINUTE_S: Final = 60.0
_NETWORK_BITS: Final = 64  # of IPv6: a subscriber has at least that many addresses


@dataclass
class MinuteBucket:
    """What is still allowed, which grows with time up to that of a minute."""

    allowed: float
    at: float

    def wait_s(self, a_minute: float, now: float) -> float:
        """Return the seconds until one more is allowed: 0 where it is now."""
        self.allowed = min(a_minute, self.allowed + max(0.0, now - self.at) * a_minute / _MINUTE_S)
        self.at = now
        if self.allowed >= 1.0 - 1e-9:  # sums of fractions may end slightly below 1
            return 0.0
        return (1.0 - self.allowed) * _MINUTE_S / a_minute


class WrongKeys:
    """The wrong keys of the last minutes, counted in this process; each of `workers` processes allows its share."""

    def __init__(
        self, a_minute: int, *, workers: int = 1, clock: Callable[[], float] = time.monotonic, most: int = _MOST_ENTRIES
    ) -> None:
        self._a_minute, self._clock = max(1.0, a_minute / workers), clock
        self._lock = threading.Lock()
        self._pairs = BoundedCache[tuple[str, str], MinuteBucket](most)
        self._addresses = BoundedCache[str, MinuteBucket](most)

    def count(self, key_id: str, address: str) -> None:
        """Count a wrong key; TooMany in place of its error where its address has sent too many of it, or of any."""
        network, now = network_of(address), self._clock()
        with self._lock:
            sender = self._addresses.get(network) or MinuteBucket(_TIMES_AN_ADDRESS * self._a_minute, now)
            self._addresses.put(network, sender)
            self._require(sender, _TIMES_AN_ADDRESS * self._a_minute)
            pair = self._pairs.get((key_id, network)) or MinuteBucket(self._a_minute, now)
            self._pairs.put((key_id, network), pair)
            self._require(pair, self._a_minute)
            pair.allowed -= 1.0
            sender.allowed -= 1.0

    def _require(self, bucket: MinuteBucket, a_minute: float) -> None:
        wait_s = bucket.wait_s(a_minute, self._clock())
        if wait_s:
            raise TooMany(
                "too many wrong keys came from this address",
                remedy="look at the key: refaug_, 12 characters, _, 43 characters",
                retry_after_s=wait_s,
            )


def network_of(address: str) -> str:
    """Return what counts as one sender: an address, of IPv6 its network; the text itself where it is no address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False))
