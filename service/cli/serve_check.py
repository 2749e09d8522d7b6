"""`refaug serve --check`: what a server would use and where each setting comes from, without starting one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from core.errors import Locked, NoAccess, NoSource, RefaugError, Unavailable
from core.files import is_held
from service.artefacts import stored
from service.cli.common import counted, print_json, print_line, print_table
from service.database import Database
from service.logs_json import without_secrets
from service.serve_settings import ServeSettings, is_local, variable_of
from service.settings import Settings
from service.supervisor import allow_files, guarded, has_keys, listening


@dataclass(frozen=True, kw_only=True)
class Look:
    """One thing that was looked at: what was found, or what is wrong with it."""

    what: str
    found: str
    error: RefaugError | None = None


def check_serve(
    home: Settings, settings: ServeSettings, *, by_option: Collection[str], any_port: bool, as_json: bool
) -> None:
    """Print everything; the first error is raised, so that the exit code says what kind it is."""
    chosen = [
        (one.name, without_secrets(_written(getattr(settings, one.name))), _source(one.name, by_option))
        for one in fields(settings)
    ]
    looks = list(_looks(home, settings, any_port=any_port))
    errors = [look.error for look in looks if look.error is not None]
    if as_json:
        told = [
            {"what": look.what, "found": look.found, "error": look.error.code if look.error else None} for look in looks
        ]
        print_json(
            {
                "home": str(home.home.resolve()),
                "starts": not errors,
                "settings": {name: {"value": value, "from": source} for name, value, source in chosen},
                "looks": told,
            }
        )
    else:
        print_table("settings", ("setting", "value", "from"), chosen)
        print_line()
        for look in looks:
            print_line(f"{'BAD ' if look.error else 'ok  '} {look.what:<10} {look.found}")
            if look.error is not None and look.error.remedy:
                print_line(f"     {'':<10} → {look.error.remedy}")
    if errors:
        raise errors[0]


def _written(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _source(name: str, by_option: Collection[str]) -> str:
    if name in by_option:
        return f"--{name.replace('_', '-')}"
    return variable_of(name) if os.environ.get(variable_of(name)) else "default"


def _looks(home: Settings, settings: ServeSettings, *, any_port: bool) -> Iterator[Look]:
    yield _look("home", lambda: _home(home))
    yield _look("address", lambda: _address(settings, any_port=any_port))
    yield _look("files", lambda: f"{allow_files(settings):,} may be open in each process")
    yield _look("database", lambda: _database(home, settings))
    yield _look("keys", lambda: _keys(home, settings))
    for kind, default in (("index", settings.default_index), ("rater", settings.default_rater)):
        yield _look(kind, lambda kind=kind, default=default: _published(home, kind, default))  # type: ignore[misc]
    yield _look("sources", lambda: _sources(settings))
    yield _look("variables", _variables)


def _look(what: str, at: Callable[[], str]) -> Look:
    try:
        return Look(what=what, found=at())
    except RefaugError as error:
        return Look(what=what, found=without_secrets(error.message), error=error)


def _home(home: Settings) -> str:
    where = home.home.resolve()
    there = next(folder for folder in (where, *where.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "cannot be written to" if there.is_dir() else "is no folder"
        raise NoAccess(f"{there} {what}", remedy="give this user the right to it, or --home with another folder")
    if there != where:
        return f"{where}: not there yet, and made at the start"
    lock = home.home / "serving" / ".lock"
    if lock.exists() and is_held(lock):
        raise Locked(f"{where} is served already", remedy="stop that server, or --home with another folder")
    return str(where)


def _address(settings: ServeSettings, *, any_port: bool) -> str:
    with listening(settings, any_port=any_port) as listener:
        found = listener.getsockname()
    if settings.uds:
        return f"{settings.uds}: free"
    if not settings.port:
        return f"{found[0]}, any port that is free"
    taken = found[1] != settings.port
    return f"{found[0]}, " + (
        f"another port than {settings.port}, which is in use" if taken else f"port {found[1]}: free"
    )


def _database(home: Settings, settings: ServeSettings) -> str:
    if not settings.database and not (home.home / "refaug.db").exists():
        return "refaug.db in the home: not there yet, and made at the start"
    with contextlib.closing(Database.open(home, settings.database)) as database:
        with database.reading():
            pass
        try:
            database.require_current()
        except Unavailable:
            return "answers; its tables are brought up to date at the start"
    return "answers, and is up to date"


def _keys(home: Settings, settings: ServeSettings) -> str:
    there = _has_keys(home, settings)
    asked = guarded(settings, lambda: there is not False).keys
    reached = "only this machine reaches the address" if is_local(settings) else "others reach the address"
    stored = {True: "some in the database", False: "none in the database", None: "the database cannot be asked"}[there]
    return f"{reached}; {'asked for' if asked else 'not asked for'}; {stored}"


def _has_keys(home: Settings, settings: ServeSettings) -> bool | None:
    """None where that cannot be told now."""
    if not settings.database and not (home.home / "refaug.db").exists():
        return False
    try:
        return has_keys(home, settings)
    except Unavailable:
        return None


def _published(home: Settings, kind: str, default: str) -> str:
    versions = stored(home)[kind]
    published = {name: version for name in versions.names() if (version := versions.current(name)) is not None}
    if default:
        name, version = versions.resolve(default)
        return f"{name}@{version} for requests that name none; {counted(len(published), 'published name')} in all"
    listed = ", ".join(f"{name}@{version}" for name, version in sorted(published.items()))
    if not published:
        return f"none is published: requests that need one are refused until refaug {kind} has made one"
    if len(published) > 1:
        return f"{listed}; requests must name one, or --default-{kind}"
    return listed


def _sources(settings: ServeSettings) -> str:
    roots = [root for root in settings.sources.split(":") if root]
    if lacking := [root for root in roots if not Path(root).is_dir()]:
        raise NoSource(f"no folder: {', '.join(lacking)}", remedy="--sources with folders that are there, or none")
    return "inbox/ in the home" + "".join(f", {root}" for root in roots)


def _variables() -> str:
    """A variable with a slip in its name changes nothing, and nobody would know."""
    known = {"REFAUG_HOME", *(variable_of(one.name) for one in fields(ServeSettings))}
    unknown = sorted(name for name in os.environ if name.startswith("REFAUG_") and name not in known)
    return f"no settings of a server: {', '.join(unknown)}" if unknown else "all that begin with REFAUG_ are known"
