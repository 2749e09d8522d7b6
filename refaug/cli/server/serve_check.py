"""`refaug serve --check`: the settings of a server and their sources, checked without starting it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from refaug.cli.shared.output import count_of, print_json, print_line, print_table
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.clusters import require_reachable
from refaug.core.errors import Locked, NoAccess, NoSource, RefaugError, Unavailable, Usage
from refaug.core.home import CLUSTER_VARIABLES, STORE_VARIABLES, VARIABLES, Settings
from refaug.core.processes.live_file import LiveFile
from refaug.core.text.messages import HIDDEN, without_secrets
from refaug.service.database.database import Database
from refaug.service.process.listening_socket import bound_socket
from refaug.service.process.server import has_keys, raise_file_limit, require_keys_if_public
from refaug.service.server_settings import ServeSettings, is_local, variable_of
from refaug.service.serving.versions.version_opener import require_shards

_PREFIX: Final = "REFAUG_"
_OF_CLIENTS: Final = ("REFAUG_URL", "REFAUG_KEY")  # of this server, for clients on the same machine
_ALIKE: Final = 0.75  # of two names, in one of which two letters have changed places


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """The outcome of one check: what was found, or what is wrong, or what is to be noted and stops no start."""

    what: str
    found: str
    error: RefaugError | None = None
    is_note: bool = False

    @property
    def mark(self) -> str:
        """How the line of the check begins."""
        return "BAD " if self.error else "note" if self.is_note else "ok  "


def check_serve(
    home: Settings, settings: ServeSettings, *, by_option: Collection[str], any_port: bool, as_json: bool
) -> None:
    """Print all settings and checks; raise the first error, so that the exit code tells its kind."""
    chosen = [
        (field.name, _shown(field.name, getattr(settings, field.name)), _source(field.name, by_option))
        for field in fields(settings)
    ]
    outcomes = list(_run_checks(home, settings, any_port=any_port))
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if as_json:
        outcomes_json = [
            {"what": outcome.what, "found": outcome.found, "error": outcome.error.code if outcome.error else None}
            for outcome in outcomes
        ]
        print_json(
            {
                "home": str(home.home.resolve()),
                "starts": not errors,
                "settings": {name: {"value": setting, "from": source} for name, setting, source in chosen},
                "looks": outcomes_json,
            }
        )
    else:
        print_table("settings", ("setting", "value", "from"), chosen)
        print_line()
        for outcome in outcomes:
            print_line(f"{outcome.mark} {outcome.what:<10} {outcome.found}")
            if outcome.error is not None and outcome.error.remedy:
                print_line(f"     {'':<10} → {outcome.error.remedy}")
    if errors:
        raise errors[0]


def _shown(name: str, setting: object) -> str:
    """Return a setting as text; of a webhook only where it leads, since who has its path may write there."""
    if name == "webhook" and setting:
        parts = urlsplit(str(setting))
        return f"{parts.scheme}://{parts.netloc}/{HIDDEN}"
    return without_secrets(_as_text(setting))


def _as_text(setting: object) -> str:
    return ("yes" if setting else "no") if isinstance(setting, bool) else str(setting)


def _source(name: str, by_option: Collection[str]) -> str:
    if name in by_option:
        return f"--{name.replace('_', '-')}"
    return variable_of(name) if os.environ.get(variable_of(name)) else "default"


def _run_checks(home: Settings, settings: ServeSettings, *, any_port: bool) -> Iterator[CheckOutcome]:
    yield _run_check("home", lambda: _home(home))
    yield _run_check("address", lambda: _address(settings, any_port=any_port))
    yield _run_check("files", lambda: f"{raise_file_limit(settings):,} may be open in each process")
    yield _run_check("database", lambda: _database(home, settings))
    yield _run_check("keys", lambda: _keys(home, settings))
    for kind, default in (("index", settings.default_index), ("rater", settings.default_rater)):
        yield _run_check(kind, lambda kind=kind, default=default: _published(home, kind, default))  # type: ignore[misc]
    if settings.shards:
        yield _run_check("shards", lambda: _shards(settings))
    yield _run_check("sources", lambda: _sources(settings))
    if settings.webhook:
        yield _run_check("webhook", lambda: _webhook(settings))
    yield _variables()


def _run_check(what: str, check: Callable[[], str]) -> CheckOutcome:
    try:
        return CheckOutcome(what=what, found=check())
    except RefaugError as error:
        return CheckOutcome(what=what, found=without_secrets(error.message), error=error)


def _home(home: Settings) -> str:
    home_folder = home.home.resolve()
    existing = next(folder for folder in (home_folder, *home_folder.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        what = "cannot be written to" if existing.is_dir() else "is not a folder"
        raise NoAccess(f"{existing} {what}", remedy="give this user the right to it, or --home with another folder")
    if existing != home_folder:
        return f"{home_folder}: not there yet, and made at the start"
    lock = home.home / "serving" / ".lock"
    if LiveFile.is_live(lock):
        raise Locked(f"{home_folder} is served already", remedy="stop that server, or --home with another folder")
    return str(home_folder)


def _address(settings: ServeSettings, *, any_port: bool) -> str:
    with bound_socket(settings, any_port=any_port) as listener:
        address = listener.getsockname()
    if settings.uds:
        return f"{settings.uds}: free"
    if not settings.port:
        return f"{address[0]}, any port that is free"
    is_in_use = address[1] != settings.port
    return f"{address[0]}, " + (
        f"another port than {settings.port}, which is in use" if is_in_use else f"port {address[1]}: free"
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
    keys_exist = _has_keys(home, settings)
    keys_asked_for = require_keys_if_public(settings, lambda: keys_exist is not False).keys
    reached = "only this machine reaches the address" if is_local(settings) else "others reach the address"
    stored = {True: "the database has some", False: "the database has none", None: "the database cannot be reached"}[
        keys_exist
    ]
    return f"{reached}; requests {'need a key' if keys_asked_for else 'need no key'}; {stored}"


def _has_keys(home: Settings, settings: ServeSettings) -> bool | None:
    """Say whether there are keys; None where that is not known."""
    if not settings.database and not (home.home / "refaug.db").exists():
        return False
    try:
        return has_keys(home, settings)
    except Unavailable:
        return None


def _published(home: Settings, kind: str, default: str) -> str:
    versions = artefact_stores(home)[kind]
    published = {name: version for name in versions.names() if (version := versions.current(name)) is not None}
    if default:
        name, version = versions.resolve(default)
        return f"{name}@{version} for requests that name none; {count_of(len(published), 'published name')} in all"
    listed = ", ".join(f"{name}@{version}" for name, version in sorted(published.items()))
    if not published:
        made_by = {"index": "refaug index build", "rater": "refaug train rater"}[kind]
        return f"none is published: requests that need one are refused ({made_by} makes one)"
    if len(published) > 1:
        return f"{listed}; requests must name one, or --default-{kind}"
    return listed


def _shards(settings: ServeSettings) -> str:
    require_shards()
    require_reachable(settings.shards)
    return f"{settings.shards}, {count_of(settings.replicas, 'replica')} of each shard"


def _sources(settings: ServeSettings) -> str:
    roots = [root for root in settings.sources.split(":") if root]
    if lacking := [root for root in roots if not Path(root).is_dir()]:
        raise NoSource(f"no folder: {', '.join(lacking)}", remedy="--sources with folders that are there, or none")
    return "inbox/ in the home" + "".join(f", {root}" for root in roots)


def _webhook(settings: ServeSettings) -> str:
    from refaug.service.history.notice_sender import describe_webhook  # noqa: PLC0415  httpx

    return describe_webhook(settings)


def _variables() -> CheckOutcome:
    """Refuse variables with a misspelt name, which would have no effect, and note others that are no settings."""
    unknown_names = _unknown_variables()
    for name in unknown_names:
        if (meant := _misspelt(name)) is not None:
            error = Usage(f"{name} is not a setting", remedy=f"{meant}, which is one, or no variable of this name")
            return CheckOutcome(what="variables", found=error.message, error=error)
    listed = ", ".join(unknown_names)
    finding = f"no settings of a server: {listed}" if unknown_names else "all that begin with REFAUG_ are known"
    return CheckOutcome(what="variables", found=finding, is_note=bool(unknown_names))


def _known_variables() -> list[str]:
    of_server = (variable_of(field.name) for field in fields(ServeSettings))
    return [*VARIABLES, *STORE_VARIABLES, *CLUSTER_VARIABLES, *_OF_CLIENTS, *of_server]


def _unknown_variables() -> list[str]:
    known_names = set(_known_variables())
    return sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in known_names)


def _misspelt(name: str) -> str | None:
    """Return the setting that a variable was probably meant to be."""
    settings = [each.removeprefix(_PREFIX) for each in _known_variables()]
    nearest = get_close_matches(name.removeprefix(_PREFIX), settings, n=1, cutoff=_ALIKE)
    return _PREFIX + nearest[0] if nearest else None
