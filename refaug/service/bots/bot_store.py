"""The specifications of bots in the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import Connection, Row, select

from refaug.bots.stored.specification import StoredBot, pinned
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Conflict, Corrupt, NotFound
from refaug.core.files import NAME
from refaug.core.home import Settings
from refaug.service.audit import add_row, user_of_machine
from refaug.service.database.database import Database
from refaug.service.database.tables import BOTS

MOST_BOTS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class PutBot:
    """A bot as it was stored, and what was there before."""

    bot: StoredBot
    is_new: bool
    old_sha256: str | None  # of another specification under this name


class BotStore:
    """The bots in the database."""

    def __init__(self, database: Database, home: Settings) -> None:
        self._database, self._home = database, home

    def list(self) -> list[StoredBot]:
        """Return all bots by name; Corrupt names a bot whose row is damaged."""
        with self._database.reading() as connection:
            return sorted((_bot(row) for row in connection.execute(select(BOTS))), key=lambda bot: bot.name)

    def get(self, spec: str) -> StoredBot:
        """Return the bot of a name, or of name#hash; NotFound lists the names, Conflict a bot with another hash."""
        name, _, digits = spec.partition("#")
        with self._database.reading() as connection:
            row = _find(connection, name)
            if row is None:
                names = ", ".join(sorted(connection.execute(select(BOTS.c.name)).scalars())[:20]) or "none so far"
                raise NotFound(f"there is no bot {name[:64]!r}", remedy=f"refaug bots add; there are: {names}")
            bot = _bot(row)
        if not bot.sha256.startswith(digits):
            raise Conflict(
                f"bot {name} was changed: it is {bot.sha256[:12]} now, and {digits[:12]} was expected",
                remedy="name it without the hash, or put the old specification back",
            )
        return bot

    def put(
        self,
        name: str,
        fields: Mapping[str, Any],
        *,
        check: Callable[[StoredBot], object] = lambda _: None,
        expected_sha256: str | None = None,
        actor: str | None = None,
        request: str | None = None,
    ) -> PutBot:
        """Store a bot under a name; another bot of that name is replaced.

        Artefacts that it names get their published version, and a wrapped bot is written out, so that the hash stands
        for the replies. `check` may refuse it. Conflict if the bot that is there has another hash than expected.
        """
        bot = StoredBot.of(name, pinned(fields, self._resolve, self.get))
        check(bot)
        row = {"name": name, "kind": bot.kind, "spec": bot.content.decode(), "spec_sha256": bot.sha256}
        with self._database.writing() as connection:
            old = _find(connection, name)
            if expected_sha256 is not None and (old is None or old.spec_sha256 != expected_sha256):
                raise Conflict(f"bot {name} was changed meanwhile", remedy=f"read it again: refaug bots show {name}")
            if old is None:
                if len(connection.execute(select(BOTS.c.name)).all()) >= MOST_BOTS:
                    raise Conflict(f"there are {MOST_BOTS:,} bots already", remedy="remove some: refaug bots remove")
                connection.execute(BOTS.insert().values(row))
            elif old.spec_sha256 != bot.sha256:
                connection.execute(BOTS.update().where(BOTS.c.name == name).values(row))
            before = None if old is None or old.spec_sha256 == bot.sha256 else str(old.spec_sha256)
            if old is None or before is not None:
                changed = {} if before is None else {"before": before}
                by, facts = actor or user_of_machine(), {"kind": bot.kind, "sha256": bot.sha256, **changed}
                add_row(connection, by, "put", f"bot {name}", request=request, **facts)
        return PutBot(bot=bot, is_new=old is None, old_sha256=before)

    def remove(self, name: str, *, actor: str | None = None, request: str | None = None) -> None:
        """Remove a bot; NotFound if there is none of this name."""
        self.get(name)
        with self._database.writing() as connection:
            if connection.execute(BOTS.delete().where(BOTS.c.name == name)).rowcount:
                add_row(connection, actor or user_of_machine(), "delete", f"bot {name}", request=request)

    def _resolve(self, artefact: str, spec: str) -> str:
        return "@".join(artefact_stores(self._home)[artefact].resolve(spec))


def _find(connection: Connection, name: str) -> Row[Any] | None:
    if NAME.fullmatch(name) is None:
        return None
    return connection.execute(select(BOTS).where(BOTS.c.name == name)).first()


def _bot(row: Row[Any]) -> StoredBot:
    """Return the bot of a row; Corrupt where the specification and its hash differ."""
    try:
        bot = StoredBot(name=row.name, fields=orjson.loads(row.spec))
        is_intact = bot.sha256 == row.spec_sha256
    except (orjson.JSONDecodeError, TypeError, ValueError):
        is_intact = False
    if not is_intact:
        raise Corrupt(f"bot {row.name}: its specification is not the one that was stored", remedy="put it again")
    return bot
