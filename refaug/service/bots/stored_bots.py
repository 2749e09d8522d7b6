"""Stored bots of a home, and how commands and servers ask those behind an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from refaug.bots.endpoint.addresses import THIS_MACHINE, AddressPolicy
from refaug.bots.endpoint.client import ClientSettings
from refaug.bots.endpoint.judge_files import answers_path, spending_path
from refaug.bots.endpoint.spending import DailyTokens, Spending
from refaug.bots.replier import Replier, WrappedBot
from refaug.bots.stored import endpoint_bot
from refaug.bots.stored.specification import StoredBot
from refaug.core.home import Settings
from refaug.service.bots.bot_store import BotStore
from refaug.service.database.database import Database
from refaug.service.server_settings import ServeSettings

_RESTING: Final = endpoint_bot.RestingEndpoints()  # of all requests to this process


def find_bots(home: Settings, names: Sequence[str], url: str | None = None) -> dict[str, StoredBot]:
    """Return the stored bots of these names, or of name#hash; NotFound names the first that is missing."""
    database = Database.open(home, ServeSettings.from_env().database if url is None else url)
    try:
        database.migrate()
        store = BotStore(database, home)
        return {name: store.get(name) for name in names}
    finally:
        database.close()


def changed_bots(home: Settings, specs: Sequence[str]) -> list[str]:
    """Return what has become of stored bots, given as name#hash, that are not what they were."""
    if not specs:
        return []
    database = Database.open(home, ServeSettings.from_env().database)
    try:
        database.migrate()
        bots = {bot.name: bot for bot in BotStore(database, home).list()}
    finally:
        database.close()
    changes = list[str]()
    for spec in dict.fromkeys(specs):
        name, _, digits = spec.partition("#")
        if name not in bots:
            changes.append(f"bot {spec} was removed since")
        elif not bots[name].sha256.startswith(digits):
            changes.append(f"bot {spec} was changed since: it is {bots[name].spec} now")
    return changes


def bot_policy(hosts: str, *, is_server: bool) -> AddressPolicy:
    """Return the hosts that bots may ask: those listed; without a list any for a command, and none for a server."""
    if hosts or is_server:
        return AddressPolicy.of_list(
            hosts.split(",") if hosts else [],
            endpoint_bot.SERVER_ADVICE if is_server else endpoint_bot.COMMAND_ADVICE,
        )
    return THIS_MACHINE


def command_access(
    home: Settings, *, stores_answers: bool = True, hosts: str | None = None
) -> endpoint_bot.EndpointAccess:
    """Return how a command asks bots behind an address; `hosts` replaces the list of the environment."""
    listed = ServeSettings.from_env().bot_hosts if hosts is None else hosts
    return endpoint_bot.EndpointAccess(
        client=ClientSettings(policy=bot_policy(listed, is_server=False)),
        answers=answers_path(home) if stores_answers else None,
    )


def server_access(
    home: Settings, serve: ServeSettings, *, on_tick: Callable[[], object] = lambda: None, stores_answers: bool = True
) -> endpoint_bot.EndpointAccess:
    """Return how a server asks bots behind an address: listed hosts only, below the tokens of a day."""
    return endpoint_bot.EndpointAccess(
        client=ClientSettings(policy=bot_policy(serve.bot_hosts, is_server=True)),
        answers=answers_path(home) if stores_answers else None,
        resting=_RESTING,
        days=bot_days(home, serve),
        on_tick=on_tick,
    )


def bot_days(home: Settings, serve: ServeSettings) -> DailyTokens:
    """Return what counts the tokens that bots behind an address cost a server each day."""
    return DailyTokens(spending_path(home).with_name("bot-spending.db"), serve.bot_tokens)


def spending_of(replier: Replier) -> Spending | None:
    """Return what counts the tokens of an opened bot; None for one that has no endpoint."""
    while isinstance(replier, WrappedBot):
        replier = replier.inner
    return replier.spending if isinstance(replier, endpoint_bot.EndpointBot) else None
