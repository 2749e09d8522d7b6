"""The open versions of indexes and raters, the set of versions that serves now, and the leases of requests.

The file CURRENT of each artefact says which version is published. `OpenVersions.refresh` reads these files, opens new
versions beside the old ones, and replaces one attribute. A request takes a lease, which fixes the versions that its
names stand for; no version closes before the last lease on it ends.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.artefacts.versions import CURRENT, Versions
from refaug.core.errors import Overloaded, RefaugError, Unavailable
from refaug.core.files import NAME
from refaug.core.home import Settings
from refaug.core.memory import BoundedCache
from refaug.indexer.search.index import ReferenceIndex
from refaug.rater.rating import Rater
from refaug.service.server_settings import ServeSettings
from refaug.service.serving.versions.leases import (
    KINDS,
    Kind,
    Lease,
    OpenVersion,
    ServedVersions,
    VersionKey,
    close_versions,
)
from refaug.service.serving.versions.version_names import VersionNames
from refaug.service.serving.versions.version_opener import ShardCluster, VersionOpener, explain_failure


@dataclass(kw_only=True)
class VersionSwitch:
    """The versions and problems that a refresh has opened so far."""

    before: ServedVersions
    opened: dict[tuple[Kind, str], OpenVersion] = field(default_factory=dict)
    published: dict[Kind, tuple[str, ...]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    new: list[OpenVersion] = field(default_factory=list)  # released if the refresh fails

    def staying(self) -> dict[tuple[Kind, str], OpenVersion]:
        """Return the versions that go on serving under the same names."""
        return {at: one for at, one in self.before.opened.items() if self.opened.get(at) is one}

    def gone(self) -> list[VersionKey]:
        """Return the versions that would no longer serve under their names."""
        staying = self.staying()
        return [one.key for at, one in self.before.opened.items() if at not in staying and "@" not in at[1]]

    def has_changed(self) -> bool:
        """Return whether another version serves under any name."""
        return self.opened != self.before.opened

    def served(self) -> ServedVersions:
        """Return the versions that serve after this refresh."""
        return ServedVersions(
            generation=self.before.generation + self.has_changed(),
            opened=self.opened,
            published=self.published,
            troubles=self.troubles,
            is_loaded=True,
        )

    def replaced(self) -> list[OpenVersion]:
        """Return the versions that another one replaces, or none."""
        return [version for at, version in self.before.opened.items() if self.opened.get(at) is not version]


class PublishedVersions:
    """Reads the published versions of all indexes and raters."""

    def __init__(self, stored: Mapping[Kind, Versions], defaults: Mapping[Kind, str], home: Path) -> None:
        self._stored, self._defaults, self._home = stored, defaults, home

    def read(self, switch: VersionSwitch, kind: Kind) -> dict[str, str | None]:
        """Return every name that is published now, with its version; None with a trouble in the switch."""
        artefacts = self._stored[kind]
        try:
            with os.scandir(artefacts.root) as entries:
                names = sorted(one.name for one in entries if NAME.fullmatch(one.name) and one.is_dir())
        except OSError as error:
            before = switch.before.published.get(kind, ())
            if isinstance(error, FileNotFoundError) and not before:
                return {}  # no artefact of this kind exists yet
            why = f"the folder of this kind cannot be read: {error.strerror}"
            switch.troubles |= {f"{kind} {name}": why for name in before} or {kind: why}
            return dict.fromkeys(before)
        published = dict[str, str | None]()
        for name in names:
            version, why = self._published_version(kind, name)
            if version is None and not why and name in switch.before.published.get(kind, ()):
                why = f"its file {CURRENT} is gone: publish one of its versions"  # no command leaves it so
            served = switch.before.opened.get((kind, name))
            is_served = version is not None and served is not None and served.key.version == version
            if is_served and not (artefacts.folder(name, version or "") / MANIFEST).exists():
                version, why = None, f"its published version {version} was deleted: publish another"
            if why:
                switch.troubles[f"{kind} {name}"] = why
            if version is not None or why:
                published[name] = version
        return published

    def read_default(self, switch: VersionSwitch, kind: Kind) -> dict[str, str | None]:
        """Return the default artefact of the settings if it is pinned, or if no version of it is published."""
        default = self._defaults[kind]
        if "@" in default:
            return {default: VersionKey.of(kind, default).version}
        if default and default not in switch.published[kind]:
            switch.troubles[f"{kind} {default}"] = "it is the default of this server, and it is not published"
            return {default: None}
        return {}

    def is_published_again(self, previous: VersionKey) -> bool:
        """Return whether a version that serves is published again."""
        return self._published_version(previous.kind, previous.name)[0] == previous.version

    def _published_version(self, kind: Kind, name: str) -> tuple[str | None, str]:
        """Return the version that is published under a name; None, perhaps with the reason why it cannot be read."""
        try:
            return self._stored[kind].current(name), ""
        except RefaugError as error:
            return None, explain_failure(error, self._home)
        except OSError as error:
            return None, f"what is published cannot be read: {error.strerror}"


_LEAST_OLD: Final = 2  # older versions that may always be open: an index and a rater of one request


def _ignore(_served: ServedVersions) -> None:
    pass


class OpenVersions:
    """The versions that serve now, those that requests have pinned, and the number of holders of each; thread-safe.

    Files are opened outside the lock, so a request for an open version never waits for another version to open.
    """

    def __init__(
        self, home: Settings, serve: ServeSettings, *, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.shards = ShardCluster(serve) if serve.shards else None
        self.served = ServedVersions()
        self._home, self._serve = home, serve
        self._defaults: dict[Kind, str] = {"index": serve.default_index, "rater": serve.default_rater}
        stored = {kind: artefact_stores(home)[kind] for kind in KINDS}
        self._names = VersionNames(stored, self._defaults)
        self._published = PublishedVersions(stored, self._defaults, home.home)
        self._opener = VersionOpener(home, stored, threads=threads, clock=clock, shards=self.shards)
        self._lock = threading.Lock()  # guards all attributes below, held only for moments
        self._open = dict[VersionKey, OpenVersion]()
        self._opening = dict[VersionKey, Future[None]]()
        self._pinned = BoundedCache[VersionKey, OpenVersion](serve.old_versions)
        self._requested = set[VersionKey]()  # versions that are open, or being opened, because a request named them
        self._notes = dict[str, str]()
        self._changed_files: Mapping[VersionKey, str] = {}
        self._is_closed = False
        self._refreshing = threading.Lock()  # one refresh at a time

    # ── leases and problems ───────────────────────────────────────────────────────────────────────────────────────────

    def lease(
        self, *, index: str | None, rater: str | None, needs_index: bool, needs_rater: bool, sample: str | None = None
    ) -> Lease:
        """Return a lease on the artefacts of a request, each by name, by name@version or None for the default.

        `sample` is a second index, whose log is sampled; None for no such index. Versions that are not open yet are
        opened, which may take seconds.
        """
        requests: list[tuple[Kind, str | None]] = []
        if needs_index:
            requests.append(("index", index))
        if needs_rater:
            requests.append(("rater", rater))
        if sample is not None:
            requests.append(("index", sample))
        opened = self._acquire_all(requests)
        tools = [one.tool for one in opened]
        indexes = [tool for tool in tools if isinstance(tool, ReferenceIndex)]
        return Lease(
            index=indexes[0] if needs_index else None,
            rater=next((one for one in tools if isinstance(one, Rater)), None),
            sample=indexes[-1] if sample is not None else None,
            opened=dict.fromkeys(opened),  # both indexes may be the same
            holders=self,
        )

    def is_open(self, index: str | None, rater: str | None, sample: str | None = None) -> bool:
        """Return whether `lease` would find these versions open."""
        requests: list[tuple[Kind, str | None]] = [
            ("index", index or self._defaults["index"]),
            ("rater", rater or self._defaults["rater"]),
            ("index", sample),
        ]
        pins = [VersionKey.of(kind, spec) for kind, spec in requests if spec and "@" in spec]
        with self._lock:
            return all(pin in self._open for pin in pins)  # a name stands for what is open already

    def has_default(self, kind: Kind) -> bool:
        """Return whether requests that name no version of this kind get one now."""
        default = self._defaults[kind]
        names = [name for of, name in self.served.opened if of == kind]
        return default in names if default else len(self.served.published.get(kind, ())) == 1 == len(names)

    def problems(self) -> Mapping[str, str]:
        """Return what is missing or could not be opened, and why, without paths."""
        served = self.served
        opening = {} if served.is_loaded else {"engine": "indexes and raters are being opened"}
        with self._lock:
            changed = {f"files of {key}": why for key, why in self._changed_files.items()}
            return {**opening, **served.troubles, **changed, **self._notes}

    def check_files(self) -> None:
        """Record under each open version which of its files was cut or written to; open it anew from right files."""
        with self._lock:
            versions = list(self._open.values())
        reasons = dict[VersionKey, str]()
        for version in versions:
            try:
                version.require_unchanged_files()
            except Unavailable as error:
                if not self._open_anew(version):
                    reasons[version.key] = error.message
        with self._lock:
            self._changed_files = reasons

    def changed_names(self) -> list[str]:
        """Return which serving artefacts are refused, since a file of them was cut or written to."""
        with self._lock:
            served, changed = self.served, self._changed_files
        return [f"{kind} {name}" for (kind, name), version in served.opened.items() if version.key in changed]

    def note(self, what: str, why: str) -> None:
        """Record a problem under a key; an empty reason removes it."""
        with self._lock:
            if why:
                self._notes[what] = why
            else:
                self._notes.pop(what, None)

    def explain(self, error: Exception) -> str:
        """Return why something failed, without paths."""
        return explain_failure(error, self._home.home)

    def close(self) -> None:
        """Refuse new leases and close every version that no lease holds; the others close with their leases."""
        with self._lock:
            self._is_closed = True  # a running refresh checks this at its end
            served, self.served = self.served, ServedVersions(generation=self.served.generation + 1, is_loaded=True)
            unused = self._drop_holders([*served.opened.values(), *(version for _, version in self._pinned.items())])
            self._pinned.clear()
        close_versions(unused)

    # ── holders ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _acquire_all(self, requests: Sequence[tuple[Kind, str | None]]) -> list[OpenVersion]:
        """Return the versions with one more holder each; published ones come from a single `ServedVersions`."""
        while True:
            self._require_running()
            served = self.served
            keys = [self._names.resolve(served, kind, spec, opened=self._open) for kind, spec in requests]
            with self._lock:
                if self.served is not served:
                    continue
                opened = {key: self._open[key] for key in keys if key in self._open}
                for version in opened.values():
                    version.holder_count += 1
            try:
                for key in keys:
                    if key not in opened:
                        opened[key] = self._acquire(key, is_pinned=True)
                    served.require_not_outdated(opened[key])
            except BaseException:
                self._release(opened.values())
                raise
            self._pin_versions(
                [opened[key] for key, (_, spec) in zip(keys, requests, strict=True) if spec and "@" in spec]
            )
            return [opened[key] for key in keys]

    def _require_running(self) -> None:
        if self._is_closed:
            raise Unavailable("the service is stopping", remedy="try again in a moment")

    def share(self, lease: Lease) -> Lease:
        """Return a second lease on the same versions, which has one more holder of each."""
        with self._lock:
            assert not lease.is_released, "what was let go may be closed already"
            for version in lease.opened:
                version.holder_count += 1
        return Lease(index=lease.index, rater=lease.rater, sample=lease.sample, opened=lease.opened, holders=self)

    def release(self, lease: Lease) -> None:
        """Drop one holder of each version, the first time it is called."""
        with self._lock:
            if lease.is_released:
                return
            lease.is_released = True
            unused = self._drop_holders(lease.opened)
        close_versions(unused)

    def _release(self, opened: Iterable[OpenVersion]) -> None:
        with self._lock:
            unused = self._drop_holders(opened)
        close_versions(unused)

    def _drop_holders(self, opened: Iterable[OpenVersion]) -> list[OpenVersion]:
        """Drop one holder of each version and return those without holders; called with the lock held."""
        unused = list[OpenVersion]()
        for version in opened:
            version.holder_count -= 1
            assert version.holder_count >= 0, version.key
            if version.holder_count == 0:
                if self._open.get(version.key) is version:  # else it was opened anew
                    del self._open[version.key]
                    self._requested.discard(version.key)
                unused.append(version)
        return unused

    def _pin_versions(self, opened: Sequence[OpenVersion]) -> None:
        """Keep pinned versions open, and release the least recently requested beyond `old_versions`."""
        with self._lock:
            dropped = list[OpenVersion]()
            for version in opened if self._pinned.most and not self._is_closed else ():
                if not self.served.needs_no_pin(version) and self._pinned.get(version.key) is None:
                    version.holder_count += 1
                    dropped += [old for _, old in self._pinned.put(version.key, version)]
            unused = self._drop_holders(dropped)
        close_versions(unused)

    # ── opening ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _acquire(self, key: VersionKey, *, is_pinned: bool = False) -> OpenVersion:
        """Return the version with one more holder; open it, or wait for another thread that opens it.

        `is_pinned`: a request named the version. The number of such versions is limited.
        """
        while True:
            with self._lock:
                self._require_running()
                version = self._open.get(key)
                if version is not None:
                    version.holder_count += 1
                    return version
                opening = self._opening.get(key)
                if opening is None:
                    unused = self._make_room(key) if is_pinned else []
                    own_opening = self._opening[key] = Future[None]()
            if opening is None:
                close_versions(unused)
                return self._open_and_share(key, own_opening)
            opening.result()

    def _make_room(self, key: VersionKey) -> list[OpenVersion]:
        """Make room for a pinned version and return the ones to close for it; called with the lock held.

        The request is refused with Overloaded where requests hold all pinned versions: each takes as much memory as a
        served one.
        """
        self._opener.require_not_failed(key)  # do not close a good version for a damaged one
        serving, most = {one.key for one in self.served.opened.values()}, max(_LEAST_OLD, self._serve.old_versions)
        unused = list[OpenVersion]()
        if len(old := self._requested - serving) >= most:
            idle = next((version for _, version in self._pinned.items() if version.holder_count == 1), None)
            if idle is None:
                raise Overloaded(
                    f"{len(old)} older versions are open, and requests need all of them",
                    remedy="try again in a moment, or for fewer versions at once; --old-versions says how many",
                )
            self._pinned.pop(idle.key)
            unused = self._drop_holders([idle])
        self._requested.add(key)
        return unused

    def _open_and_share(self, key: VersionKey, opening: Future[None]) -> OpenVersion:
        """Open a version; threads that wait for the same version get the result or the error."""
        try:
            opened = self._opener.open(key)
        except BaseException as error:
            with self._lock:
                del self._opening[key]
                self._requested.discard(key)
            opening.set_exception(error)
            raise
        with self._lock:
            del self._opening[key]
            self._open[key] = opened
        opening.set_result(None)
        return opened

    def _open_anew(self, version: OpenVersion) -> bool:
        """Replace a version with changed files, if the right ones lie under their names; leases keep the old one."""
        if not version.has_replaced_files():
            return False
        with self._refreshing:
            try:
                new = self._opener.open(version.key)
            except RefaugError:
                return False  # the opener has logged why, and waits before the next attempt
            with self._lock:
                unused = self._replace_open(version, new)
        close_versions(unused)
        return True

    def _replace_open(self, old: OpenVersion, new: OpenVersion) -> list[OpenVersion]:
        """Let a version take the places of the old one; return those without holders; called with the lock held."""
        served = self.served
        places = {at: new for at, version in served.opened.items() if version is old}
        is_pinned = old.key in self._pinned and self._pinned.get(old.key) is old
        new.holder_count = len(places) + is_pinned
        if self._is_closed or not new.holder_count:  # leases alone hold the old one, and soon none
            return [new]
        self._open[old.key] = new
        self.served = replace(served, generation=served.generation + 1, opened={**served.opened, **places})
        if is_pinned:
            self._pinned.put(old.key, new)
        return self._drop_holders([old] * new.holder_count)

    # ── refreshing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self, *, before_removal: Callable[[ServedVersions], None] = _ignore) -> bool:
        """Read every CURRENT and serve the versions that it names; return whether the served versions changed.

        A name whose version cannot be read or opened goes on serving its previous version. `before_removal` gets the
        versions that stay before any other is removed: so a client that publishes the old version again, while a new
        one is being opened, does not see the old one reported as served just before the new one replaces it.
        """
        with self._refreshing:
            switch = VersionSwitch(before=self.served)
            try:
                for kind in KINDS:
                    published = self._published.read(switch, kind)
                    switch.published[kind] = tuple(published)
                    for name, version in {**published, **self._published.read_default(switch, kind)}.items():
                        self._serve_published(switch, kind, name, version)
                if removed := switch.gone():
                    before_removal(replace(switch.before, opened=switch.staying()))
                is_still_so = not any(self._published.is_published_again(one) for one in removed)
            except BaseException:
                self._release(switch.new)
                raise
            if is_still_so:
                return self._replace_served(switch)
            self._release(switch.new)  # the next refresh sees what else has changed
            return False

    def _serve_published(self, switch: VersionSwitch, kind: Kind, name: str, version: str | None) -> None:
        """Add a published name to the switch: with its open version, a newly opened one, or the previous one."""
        before = switch.before.opened.get((kind, name))
        if version is not None and (before is None or before.key.version != version):
            try:
                new = self._acquire(VersionKey.of(kind, name)._replace(version=version))
            except RefaugError as error:
                switch.troubles[f"{kind} {name}"] = error.message
            else:
                switch.new.append(new)
                switch.opened[kind, name] = new
                return
        if before is not None and (version is not None or name in switch.published[kind]):
            switch.opened[kind, name] = before

    def _replace_served(self, switch: VersionSwitch) -> bool:
        """Let the versions of a switch serve from now on, and close the replaced ones that no lease holds."""
        served = switch.served()
        with self._lock:
            if self._is_closed:
                unused = self._drop_holders(switch.new)
            else:
                self.served = served
                unused = self._drop_holders([*served.unpin(self._pinned), *switch.replaced()])
        close_versions(unused)
        return switch.has_changed() and not self._is_closed


# ── The thread that takes up published versions, and reports which versions serve ─────────────────────────────────────

log = logging.getLogger(__name__)

_STOP_S: Final = 5.0  # to wait for the thread, which may be opening a large index


class VersionWatcher:
    """A thread that refreshes the served versions at intervals and reports them to a callback."""

    def __init__(
        self, open_versions: OpenVersions, *, every_s: float, report: Callable[[ServedVersions], None] = _ignore
    ) -> None:
        self._open_versions, self._every_s, self._report = open_versions, every_s, report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Report the served versions, so that publishers wait for this process, and start the thread."""
        self._send_report(self._open_versions.served)
        self._thread.start()

    def stop(self) -> None:
        """Stop refreshing; a version that is being opened is not waited for."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _watch(self) -> None:
        while not self._is_over.is_set():
            self._attempt(
                "looking at what is published", lambda: self._open_versions.refresh(before_removal=self._send_report)
            )
            self._attempt("looking at files that are served", self._open_versions.check_files)
            self._send_report(self._open_versions.served)
            self._is_over.wait(self._every_s)

    def _send_report(self, served: ServedVersions) -> None:
        self._attempt("reporting what is served", lambda: self._report(served))

    def _attempt(self, what: str, do: Callable[[], object]) -> None:
        """Run a function; its failure is noted as a problem until it succeeds."""
        try:
            do()
        except Exception as error:
            if what not in self._open_versions.problems():
                log.exception("watching failed", extra={"what": what})
            self._open_versions.note(what, self._open_versions.explain(error))
        else:
            self._open_versions.note(what, "")
