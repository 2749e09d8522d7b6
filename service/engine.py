"""The indexes and raters that are open, as one value that is swapped whole; and what a request holds of them.

CURRENT in the home is the truth. `Engines.refresh` looks at it, opens aside what is new, and replaces one attribute. A
request takes a lease: what its names mean is decided then, and nothing of it is closed before the lease ends.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self, get_args

import numpy as np

from core.errors import Conflict, NotFound, Overloaded, RefaugError, Unavailable
from core.files import NAME, require_name
from core.holding import Held
from core.records import Reference, TestPair
from core.versions import Versions
from indexer.index import ReferenceIndex
from indexer.queries import MODES, SearchSettings
from rater.rate import Candidate, Rater, RatingSettings, ToRate
from service.artefacts import stored
from service.rating import open_rater
from service.retrieval import open_index
from service.serve_settings import ServeSettings
from service.settings import Settings

log = logging.getLogger(__name__)

Kind = Literal["index", "rater"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_FIRST_WAIT_S: Final = 1.0  # until what could not be opened is tried again; each time twice as long
_LONGEST_WAIT_S: Final = 60.0
_LEAST_OLD: Final = 2  # versions beside the published that may be open: an index and a rater of one request
_STOP_S: Final = 5.0  # that a thread is waited for, which may be opening a large index
_PATH: Final = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\",;:]+/)*([^\s/'\",;:]+)")


class NoIndex(Conflict):
    """An index is needed, and none is published."""

    code = "no_index"


class NoRater(Conflict):
    """A rater is needed, and none is published."""

    code = "no_rater"


class NoDefaultIndex(Conflict):
    """No index was named, and there is none that every request means."""

    code = "no_default_index"


class NoDefaultRater(Conflict):
    """No rater was named, and there is none that every request means."""

    code = "no_default_rater"


_NONE_PUBLISHED: Final[Mapping[Kind, type[Conflict]]] = {"index": NoIndex, "rater": NoRater}
_NO_DEFAULT: Final[Mapping[Kind, type[Conflict]]] = {"index": NoDefaultIndex, "rater": NoDefaultRater}
_WITHOUT: Final[Mapping[Kind, str]] = {
    "index": "build one and publish it",
    "rater": 'train one and publish it, or ask for "weights": "one" and a parrot that is off or a number',
}


class _Key(NamedTuple):
    """A version, as nobody else is called."""

    kind: Kind
    name: str
    version: str

    @property
    def spec(self) -> str:
        return f"{self.name}@{self.version}"

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"


@dataclass(eq=False, kw_only=True)
class Opened:
    """An index or a rater that is open, and how many hold it; it is closed when nobody does any more."""

    key: _Key
    tool: ReferenceIndex | Rater
    held: Held | None = None  # of a rater; an index holds its version itself
    holders: int = 1  # changed under the lock of the engines alone

    def close(self) -> None:
        """Let the version go, so that it may be removed."""
        if isinstance(self.tool, ReferenceIndex):
            self.tool.close()
        if self.held is not None:
            self.held.close()


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine:
    """What serves requests that pin nothing, and why something does not; never changed, only replaced."""

    generation: int = 0
    # by kind and name; a default that the settings pin is here by name@version
    opened: Mapping[tuple[Kind, str], Opened] = field(default_factory=dict)
    published: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)  # names, those too that cannot be opened
    troubles: Mapping[str, str] = field(default_factory=dict)
    has_looked: bool = False

    def versions(self) -> Mapping[str, Mapping[str, str]]:
        """The version that serves under each published name."""
        return {
            kind: {name: one.key.version for (of, name), one in self.opened.items() if of == kind and "@" not in name}
            for kind in KINDS
        }


class _Holding:
    """What a lease stands for; it ends once."""

    def __init__(self, engines: Engines, opened: Sequence[Opened]) -> None:
        self.engines, self.opened, self.has_ended = engines, tuple(opened), False


@dataclass(frozen=True, eq=False, kw_only=True)
class Lease:
    """What a request holds from its begin to its end: nothing of it is closed before it is released, once."""

    index: ReferenceIndex | None
    rater: Rater | None
    holding: _Holding | None = field(default=None, repr=False)  # None: what somebody else keeps open

    def versions(self) -> dict[str, str]:
        """What made an answer: the version of each, with the beginning of its id."""
        named = {"index": self.index, "rater": self.rater}
        return {kind: tool.spec for kind, tool in named.items() if tool is not None}

    def shared(self) -> Lease:
        """The same once more, to be released on its own: for work that goes on when a request has ended."""
        if self.holding is None:
            return self
        return Lease(index=self.index, rater=self.rater, holding=self.holding.engines.held_again(self.holding))

    def release(self) -> None:
        """Let go; a second time changes nothing."""
        if self.holding is not None:
            self.holding.engines.end(self.holding)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class _Spec(NamedTuple):
    """`name@version` in its parts."""

    name: str
    version: str


class _Seen(NamedTuple):
    """A name that is published, and its version; or why that cannot be told."""

    name: str
    version: str | None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class _Failure:
    """What could not be opened: why, and when it is tried again."""

    why: str
    again_at: float
    wait_s: float


@dataclass(kw_only=True)
class _Look:
    """What a look at all that is published has found so far."""

    before: Engine
    opened: dict[tuple[Kind, str], Opened] = field(default_factory=dict)
    published: dict[Kind, tuple[str, ...]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    new: list[Opened] = field(default_factory=list)  # held by nobody else, should the look fail

    def staying(self) -> dict[tuple[Kind, str], Opened]:
        """What serves as before."""
        return {at: one for at, one in self.before.opened.items() if self.opened.get(at) is one}

    def gone(self) -> list[_Key]:
        """What would serve no longer by its name."""
        staying = self.staying()
        return [one.key for at, one in self.before.opened.items() if at not in staying and "@" not in at[1]]


def _tell_nobody(_engine: Engine) -> None:
    pass


class Engines:
    """The engine that serves now, the versions that requests have pinned, and who holds what; for many threads.

    Files are opened under no lock that a request for what is open waits for.
    """

    def __init__(
        self, home: Settings, serve: ServeSettings, *, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.current = Engine()
        self._home, self._serve, self._threads, self._clock = home, serve, threads, clock
        self._stored = {kind: stored(home)[kind] for kind in KINDS}
        self._defaults: dict[Kind, str] = {"index": serve.default_index, "rater": serve.default_rater}
        self._lock = threading.Lock()  # for all below, for moments only
        self._open = dict[_Key, Opened]()
        self._opening = dict[_Key, Future[None]]()
        self._pinned = OrderedDict[_Key, Opened]()  # the one that was asked for last is last
        self._asked = set[_Key]()  # what is open, or being opened, because a request named its version
        self._failures = dict[_Key, _Failure]()
        self._notes = dict[str, str]()
        self._is_closed = False
        self._refreshing = threading.Lock()  # one look at a time

    # ── what requests ask for ────────────────────────────────────────────────────────────────────────────────────

    def take(self, *, index: str | None, rater: str | None, needs_index: bool, needs_rater: bool) -> Lease:
        """What a request needs, by name, by name@version, or None for the default; it may open files."""
        asked: list[tuple[Kind, str | None]] = []
        if needs_index:
            asked.append(("index", index))
        if needs_rater:
            asked.append(("rater", rater))
        opened = self._hold(asked)
        tools = [one.tool for one in opened]
        return Lease(
            index=next((one for one in tools if isinstance(one, ReferenceIndex)), None),
            rater=next((one for one in tools if isinstance(one, Rater)), None),
            holding=_Holding(self, opened),
        )

    def is_open(self, index: str | None, rater: str | None) -> bool:
        """Whether `take` would have no files to open for these names."""
        pins = [_parted(index or self._defaults["index"]), _parted(rater or self._defaults["rater"])]
        with self._lock:
            return all(
                _Key(kind, one.name, one.version) in self._open
                for kind, one in zip(KINDS, pins, strict=True)
                if one.version  # a name stands for what is open already
            )

    def problems(self) -> Mapping[str, str]:
        """What is missing or could not be opened, and why; no path in it."""
        engine = self.current
        opening = {} if engine.has_looked else {"engine": "indexes and raters are being opened"}
        with self._lock:
            return {**opening, **engine.troubles, **self._notes}

    def note(self, what: str, why: str) -> None:
        """Have `problems` tell of something, until it is told of without a reason."""
        with self._lock:
            if why:
                self._notes[what] = why
            else:
                self._notes.pop(what, None)

    def close(self) -> None:
        """Let everything go that no lease holds; what leases hold goes with them, and there are no new ones."""
        with self._lock:
            self._is_closed = True  # a look that is under way sees this at its end
            engine, self.current = self.current, Engine(generation=self.current.generation + 1, has_looked=True)
            gone = self._dropped([*engine.opened.values(), *self._pinned.values()])
            self._pinned.clear()
        _close(gone)

    # ── holding and letting go ───────────────────────────────────────────────────────────────────────────────────

    def _hold(self, asked: Sequence[tuple[Kind, str | None]]) -> list[Opened]:
        """Each with one holder more; what is open is all of one engine, whatever is published meanwhile."""
        while True:
            self._require_running()
            engine = self.current
            keys = [self._wanted(engine, kind, spec) for kind, spec in asked]
            with self._lock:
                if self.current is not engine:
                    continue
                found = {key: self._open[key] for key in keys if key in self._open}
                for one in found.values():
                    one.holders += 1
            try:
                for key in keys:
                    if key not in found:
                        found[key] = self._acquired(key, asked=True)
            except BaseException:
                self._let_go(found.values())
                raise
            self._keep_pinned([found[key] for key, (_, spec) in zip(keys, asked, strict=True) if spec and "@" in spec])
            return [found[key] for key in keys]

    def _require_running(self) -> None:
        if self._is_closed:
            raise Unavailable("the service is stopping", remedy="ask again in a moment")

    def held_again(self, holding: _Holding) -> _Holding:
        """The same with another holder."""
        with self._lock:
            assert not holding.has_ended, "what was let go may be closed already"
            for one in holding.opened:
                one.holders += 1
        return _Holding(self, holding.opened)

    def end(self, holding: _Holding) -> None:
        """One holder fewer, the first time."""
        with self._lock:
            if holding.has_ended:
                return
            holding.has_ended = True
            gone = self._dropped(holding.opened)
        _close(gone)

    def _let_go(self, opened: Iterable[Opened]) -> None:
        with self._lock:
            gone = self._dropped(opened)
        _close(gone)

    def _dropped(self, opened: Iterable[Opened]) -> list[Opened]:
        """One holder fewer for each; the answer is what nobody holds now. Only under the lock."""
        gone = list[Opened]()
        for one in opened:
            one.holders -= 1
            assert one.holders >= 0, one.key
            if one.holders == 0:
                del self._open[one.key]
                self._asked.discard(one.key)
                gone.append(one)
        return gone

    def _keep_pinned(self, opened: Sequence[Opened]) -> None:
        """Keep what was asked for beside the published, and let go what was not for the longest time."""
        with self._lock:
            serving = set(self.current.opened.values())
            for one in opened:
                if one not in serving and not self._is_closed:
                    if one.key not in self._pinned:
                        one.holders += 1
                        self._pinned[one.key] = one
                    self._pinned.move_to_end(one.key)
            too_many = max(0, len(self._pinned) - self._serve.old_versions)
            gone = self._dropped([self._pinned.popitem(last=False)[1] for _ in range(too_many)])
        _close(gone)

    # ── what a name means ────────────────────────────────────────────────────────────────────────────────────────

    def _wanted(self, engine: Engine, kind: Kind, spec: str | None) -> _Key:
        """The version that a request means; an error says what there is, and where nothing lies on disk."""
        if not spec:
            spec = self._default(engine, kind)
        found = engine.opened.get((kind, spec))
        if found is not None:
            return found.key
        if "@" in spec:
            return self._pin(kind, spec)
        require_name(kind, spec)
        if f"{kind} {spec}" in engine.troubles and spec in engine.published.get(kind, ()):
            why = engine.troubles[f"{kind} {spec}"]
            raise Unavailable(f"{kind} {spec} cannot be used now: {why}", remedy="name another one, or ask again later")
        if not engine.has_looked or self._is_published(kind, spec):
            raise Unavailable(f"{kind} {spec} is being opened", remedy="ask again in a moment")
        raise self._not_published(engine, kind, spec)

    def _default(self, engine: Engine, kind: Kind) -> str:
        """What a request means that names none."""
        if self._defaults[kind]:
            return self._defaults[kind]
        if not engine.has_looked:
            raise Unavailable("indexes and raters are being opened", remedy="ask again in a moment")
        names = engine.published.get(kind, ())
        if not names:
            raise _NONE_PUBLISHED[kind](f"no {kind} is published", remedy=_WITHOUT[kind])
        if len(names) > 1:
            raise _NO_DEFAULT[kind](
                f"no {kind} was named, and several are published", remedy=f"name one of: {', '.join(names)}"
            )
        return names[0]

    def _pin(self, kind: Kind, spec: str) -> _Key:
        """A version by its whole name, which is open or lies on disk."""
        name, version = _parted(spec)
        require_name(kind, name)
        key = _Key(kind, name, version)
        if key in self._open:
            return key
        there = self._stored[kind].versions(name)
        if not there:
            raise self._unknown(kind, name)
        if version not in there:
            listed = ", ".join(f"{name}@{one}" for one in there)
            raise NotFound(f"there is no {kind} {spec!r}", remedy=f"there are: {listed}")
        return key

    def _is_published(self, kind: Kind, name: str) -> bool:
        """Whether it is since the last look."""
        try:
            return self._stored[kind].current(name) is not None
        except (RefaugError, OSError):
            return False

    def _not_published(self, engine: Engine, kind: Kind, name: str) -> RefaugError:
        """Why a name means nothing."""
        if there := self._stored[kind].versions(name):
            listed = ", ".join(f"{name}@{one}" for one in there)
            message = f"{kind} {name} has versions, but none of them is published"
            return Conflict(message, remedy=f"publish one, or name one: {listed}")
        if name == self._defaults[kind]:
            published = ", ".join(engine.published.get(kind, ())) or "none"
            message = f"{kind} {name}, the default of this server, is not published"
            return _NO_DEFAULT[kind](message, remedy=f"publish it, or name another one; published are: {published}")
        if not engine.published.get(kind):
            return _NONE_PUBLISHED[kind](f"no {kind} is published, and {name!r} is not there", remedy=_WITHOUT[kind])
        return self._unknown(kind, name)

    def _unknown(self, kind: Kind, name: str) -> NotFound:
        known = ", ".join(self._stored[kind].names()) or "none yet"
        return NotFound(f"there is no {kind} {name!r}", remedy=f"there are: {known}")

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _acquired(self, key: _Key, *, asked: bool = False) -> Opened:
        """With one holder more; opened now, unless it is open, or somebody else is opening it.

        `asked`: by a request that names the version. Of such only so many are open at once.
        """
        while True:
            with self._lock:
                self._require_running()
                found = self._open.get(key)
                if found is not None:
                    found.holders += 1
                    return found
                others = self._opening.get(key)
                if others is None:
                    gone = self._room_made(key) if asked else []
                    ours = self._opening[key] = Future[None]()
            if others is None:
                _close(gone)
                return self._opened_for(key, ours)
            others.result()

    def _room_made(self, key: _Key) -> list[Opened]:
        """Room for one more that a request names: what had to go for it. Only under the lock.

        Overloaded where requests hold all of them: each is as large as what serves, and memory ends somewhere.
        """
        self._require_not_failed(key)  # for one that is damaged none that is whole has to go
        serving, most = {one.key for one in self.current.opened.values()}, max(_LEAST_OLD, self._serve.old_versions)
        gone = list[Opened]()
        if len(old := self._asked - serving) >= most:
            idle = next((at for at, one in self._pinned.items() if one.holders == 1), None)
            if idle is None:
                raise Overloaded(
                    f"{len(old)} older versions are open, and requests need all of them",
                    remedy="ask again in a moment, or for fewer versions at once; --old-versions says how many",
                )
            gone = self._dropped([self._pinned.pop(idle)])
        self._asked.add(key)
        return gone

    def _opened_for(self, key: _Key, opening: Future[None]) -> Opened:
        """Open it; those who wait for the same hear of the end, whatever it is."""
        try:
            opened = self._opened_or_noted(key)
        except BaseException as error:
            with self._lock:
                del self._opening[key]
                self._asked.discard(key)
            opening.set_exception(error)
            raise
        with self._lock:
            del self._opening[key]
            self._open[key] = opened
            self._failures.pop(key, None)
        opening.set_result(None)
        return opened

    def _opened_or_noted(self, key: _Key) -> Opened:
        """Open it; what fails is not tried again at once, for reading a damaged version costs as much as a good one."""
        self._require_not_failed(key)
        before, begun = self._failures.get(key), time.perf_counter()
        try:
            opened = self._opened_now(key)
        except Exception as error:
            why = self.told(error)
            wait_s = _FIRST_WAIT_S if before is None else min(2 * before.wait_s, _LONGEST_WAIT_S)
            failure = _Failure(why=why, again_at=self._clock() + wait_s, wait_s=wait_s)
            with self._lock:
                self._failures[key] = failure
            log.exception("not opened", extra={"artefact": str(key), "why": why})
            raise _unavailable(str(key), why, wait_s) from error
        log.info("opened", extra={"artefact": str(key), "seconds": round(time.perf_counter() - begun, 3)})
        return opened

    def _require_not_failed(self, key: _Key) -> None:
        """Unavailable where it could not be opened lately."""
        now, before = self._clock(), self._failures.get(key)
        if before is not None and now < before.again_at:
            raise _unavailable(str(key), before.why, before.again_at - now)

    def _opened_now(self, key: _Key) -> Opened:
        """Opened and warm, so that the first request is no slower than the second."""
        if key.kind == "index":
            index = open_index(self._home, key.spec, threads=self._threads)
            try:
                _warm_index(index)
            except BaseException:
                index.close()
                raise
            return Opened(key=key, tool=index)
        held = self._stored["rater"].open(key.spec)  # what answers name stays there as long as it serves
        try:
            rater = open_rater(self._home, key.spec, threads=self._threads)
            _warm_rater(rater)
        except BaseException:
            held.close()
            raise
        return Opened(key=key, tool=rater, held=held)

    def told(self, error: Exception) -> str:
        """Why something failed, as others may read it: without where files lie."""
        if not isinstance(error, RefaugError):
            return f"something went wrong that was not foreseen ({type(error).__name__})"
        text = f"{error.message} ({error.remedy})" if error.remedy else error.message
        return _without_paths(text, self._home.home)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self, *, leaving: Callable[[Engine], None] = _tell_nobody) -> bool:
        """Look at every CURRENT and serve what it names; whether anything else serves now.

        Where a name's version cannot be told or opened, what the name meant before goes on serving. `leaving` is told
        what stays before anything goes, so that whoever publishes an old version again, in the time that a new one took
        to be opened, is not told that it serves just before the new one takes its place.
        """
        with self._refreshing:
            look = _Look(before=self.current)
            try:
                for kind in KINDS:
                    seen = self._seen(look, kind)
                    look.published[kind] = tuple(one.name for one in seen)
                    for one in [*seen, *self._default_seen(kind, look.published[kind])]:
                        self._serve_seen(look, kind, one)
                if gone := look.gone():
                    leaving(replace(look.before, opened=look.staying()))
                is_still_so = not any(self._is_back(one) for one in gone)
            except BaseException:
                self._let_go(look.new)
                raise
            if is_still_so:
                return self._swapped(look)
            self._let_go(look.new)  # the next look finds out what else there is
            return False

    def _is_back(self, before: _Key) -> bool:
        """Whether what served is published again."""
        seen = self._current(self._stored[before.kind], before.name)
        return seen is not None and seen.version == before.version

    def _seen(self, look: _Look, kind: Kind) -> list[_Seen]:
        """Every name that is published now."""
        artefacts = self._stored[kind]
        try:
            with os.scandir(artefacts.root) as entries:
                names = sorted(one.name for one in entries if NAME.fullmatch(one.name) and one.is_dir())
        except OSError as error:
            before = look.before.published.get(kind, ())
            if isinstance(error, FileNotFoundError) and not before:
                return []  # nothing of this kind was ever made
            why = f"the folder of this kind cannot be read: {error.strerror}"
            if not before:
                look.troubles[kind] = why
            return [_Seen(name, None, why) for name in before]
        return [one for name in names if (one := self._current(artefacts, name)) is not None]

    def _current(self, artefacts: Versions, name: str) -> _Seen | None:
        """A name with its published version; None where it has none."""
        try:
            version = artefacts.current(name)
        except RefaugError as error:
            return _Seen(name, None, self.told(error))
        except OSError as error:
            return _Seen(name, None, f"what is published cannot be read: {error.strerror}")
        return None if version is None else _Seen(name, version)

    def _default_seen(self, kind: Kind, published: Sequence[str]) -> list[_Seen]:
        """The default of the settings, if it is a version, or if nothing of that name is published."""
        default = self._defaults[kind]
        if "@" in default:
            return [_Seen(default, _parted(default).version)]
        if default and default not in published:
            return [_Seen(default, None, "it is the default of this server, and it is not published")]
        return []

    def _serve_seen(self, look: _Look, kind: Kind, seen: _Seen) -> None:
        """Put what was seen into the look: as it is open, newly opened, or else what the name meant before."""
        before, why = look.before.opened.get((kind, seen.name)), seen.why
        if seen.version is not None and (before is None or before.key.version != seen.version):
            try:
                new = self._acquired(_Key(kind, _parted(seen.name).name, seen.version))
            except RefaugError as error:
                why = error.message
            else:
                look.new.append(new)
                look.opened[kind, seen.name] = new
                return
        if why:
            look.troubles[f"{kind} {seen.name}"] = why
        if before is not None and (seen.version is not None or seen.name in look.published[kind]):
            look.opened[kind, seen.name] = before

    def _swapped(self, look: _Look) -> bool:
        """Let the new engine serve, and go what neither it nor a lease holds."""
        before = look.before
        has_changed = dict(look.opened) != before.opened
        engine = Engine(
            generation=before.generation + has_changed,
            opened=look.opened,
            published=look.published,
            troubles=look.troubles,
            has_looked=True,
        )
        with self._lock:
            if self._is_closed:
                gone = self._dropped(look.new)
            else:
                self.current = engine
                serving = set(engine.opened.values())
                left = [self._pinned.pop(one.key) for one in serving if one.key in self._pinned]
                left += [one for at, one in before.opened.items() if engine.opened.get(at) is not one]
                gone = self._dropped(left)
        _close(gone)
        return has_changed and not self._is_closed


class Watcher:
    """A thread that has the engines look at what is published, again and again, and tells who wants to know of it."""

    def __init__(self, engines: Engines, *, every_s: float, report: Callable[[Engine], None] = _tell_nobody) -> None:
        self._engines, self._every_s, self._report = engines, every_s, report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Report what serves before the first look: whoever publishes knows by that whom to wait for."""
        self._reported(self._engines.current)
        self._thread.start()

    def stop(self) -> None:
        """No further look; what is being opened now is not waited for long."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            self._told_of("looking at what is published", lambda: self._engines.refresh(leaving=self._reported))
            self._reported(self._engines.current)
            self._is_over.wait(self._every_s)

    def _reported(self, engine: Engine) -> None:
        self._told_of("reporting what is served", lambda: self._report(engine))

    def _told_of(self, what: str, do: Callable[[], object]) -> None:
        """Do it; a failure is a problem of the engines until it goes well again."""
        try:
            do()
        except Exception as error:
            if what not in self._engines.problems():
                log.exception("watching failed", extra={"what": what})
            self._engines.note(what, self._engines.told(error))
        else:
            self._engines.note(what, "")


# ── in words, and warm ────────────────────────────────────────────────────────────────────────────────────────────


def _parted(spec: str) -> _Spec:
    name, _, version = spec.partition("@")
    return _Spec(name, version)


def _unavailable(what: str, why: str, retry_after_s: float = _FIRST_WAIT_S) -> Unavailable:
    message = f"{what} cannot be opened: {why}"
    return Unavailable(message, remedy="name another one, or ask again later", retry_after_s=retry_after_s)


def _without_paths(text: str, home: Path) -> str:
    """Places in the home as seen from there, and of all others the last part."""
    for folder in sorted({str(home.resolve()), str(home.absolute()), str(home)} - {".", "/"}, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return _PATH.sub(r"\1", text)


def _close(gone: Iterable[Opened]) -> None:
    for one in gone:
        one.close()
        log.info("closed", extra={"artefact": str(one.key)})


def _warm_index(index: ReferenceIndex) -> None:
    """Look for its own first texts in every way that it knows: reads what is mapped, compiles what is not yet."""
    main, first = index.segments[0], np.zeros(1, np.int64)
    utterance = main.utterances.take(first)[0] if len(main.utterances) else None
    response = main.responses.take(first)[0] if len(main.responses) else None
    pair = TestPair(id="warm", turns=(utterance or "hello",), references=(Reference(text=response or "hello"),))
    for settings in (SearchSettings(mode=mode) for mode in MODES):
        is_known = index.manifest.bm25 is not None if settings.is_bm25 else _has_vectors(index, settings)
        if is_known:
            index.search([pair], settings)


def _has_vectors(index: ReferenceIndex, settings: SearchSettings) -> bool:
    """Of all that is compared: an encoder's are of utterances alone."""
    return index.sources.encoder is None or not settings.is_dialog


def _warm_rater(rater: Rater) -> None:
    asked = ToRate(utterance="how are you", golds=("fine",), candidates=(Candidate(text="so so", utterance="well"),))
    rater.rate([asked], RatingSettings(combine="mean"))
