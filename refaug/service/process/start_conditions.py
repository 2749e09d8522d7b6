"""What must hold before a server starts: one server a home, keys on a public address, files enough, a schema."""

from __future__ import annotations

import contextlib
import logging
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from refaug.core.errors import Locked, Unavailable, Usage
from refaug.core.files import exclusive, make_folder
from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.keys import KeyStore
from refaug.service.server_settings import ServeSettings, is_local

_OTHER_FILES: Final = 256  # open files of a process beside its connections: a small version, databases, logs
_VERSION_FILES: Final = 16_384  # of large versions: about thirty a segment, each held open, of several versions at once
_MIGRATION_RETRY_S: Final = 5.0

log = logging.getLogger(__name__)


@contextmanager
def lock_home(home: Settings, settings: ServeSettings) -> Iterator[None]:
    """Hold the lock on the home against a second server; it is released with this process."""
    home.require_whole()
    where = settings.uds or f"{settings.host}, port {settings.port}"
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(home.home / "serving", f"a server on {where}"))
        except Locked as error:
            holder = error.message.partition(" is in use: ")[2]
            raise Locked(
                f"{home.home} is served already: {holder}",
                remedy="stop that server, or give this one a home of its own: refaug --home FOLDER serve",
            ) from error
        home.require_whole()  # again, since a restore looks for the lock after it has begun
        yield


def require_keys_if_public(settings: ServeSettings, has_keys: Callable[[], bool]) -> ServeSettings:
    """Return the settings with keys required on a public address; Usage if there are no keys.

    If the database does not answer, keys may exist: they are required, and every request is refused until it answers.
    """
    if settings.open and settings.keys:
        raise Usage("open to anybody, and asking for keys, at once", remedy="--open or --keys")
    if is_local(settings) or settings.open:
        return settings
    if not settings.keys and not has_keys():
        raise Usage(
            f"{settings.host} can be reached from elsewhere, and there are no keys",
            remedy="refaug keys create NAME --scope score, or --host 127.0.0.1, or --open for anybody who reaches it",
        )
    return replace(settings, keys=True)


def raise_file_limit(settings: ServeSettings) -> int:
    """Raise the limit of open files and return it; Usage if the system allows less than the connections need.

    Without this, a connection would be refused without an answer when files run out. Versions get room for what their
    segments need, as far as the system allows that.
    """
    needed = settings.connections + _OTHER_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return allowed
    if most != resource.RLIM_INFINITY and most < needed:
        raise Usage(
            f"{settings.connections:,} connections need {needed:,} open files, and the system allows {most:,}",
            remedy=f"--connections {max(1, most - _OTHER_FILES)}, or a higher limit (LimitNOFILE= of systemd, ulimit)",
        )
    ample = needed + _VERSION_FILES
    raised = ample if most == resource.RLIM_INFINITY else min(ample, most)
    if allowed >= raised:
        return allowed
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
    return raised


def has_keys(home: Settings, settings: ServeSettings) -> bool:
    """Return whether any valid key exists."""
    with contextlib.closing(Database.open(home, settings.database)) as database:
        now = datetime.now(UTC)
        return any(
            key.revoked is None and (key.expires is None or now < key.expires) for key in KeyStore(database).list()
        )


def migrate(home: Settings, settings: ServeSettings) -> bool:
    """Upgrade the database's schema; False if it does not answer now, since scoring works without it."""
    make_folder(home.home)
    with contextlib.closing(Database.open(home, settings.database)) as database:
        try:
            database.migrate()
        except Unavailable as error:
            log.warning("the database does not answer: no jobs, schedules or new keys until it does: %s", error.message)
            return False
    return True


def retry_migration(home: Settings, settings: ServeSettings) -> None:
    """Upgrade the schema as soon as the database answers; the processes check it whenever they need it."""
    while not migrate(home, settings):
        time.sleep(_MIGRATION_RETRY_S)
