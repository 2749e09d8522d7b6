"""Stored bots to bots that reply; a new kind is one more entry here, and one in `specification_fields`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from refaug.bots.endpoint.specification import Endpoint, endpoint_of, turns_endpoint_of
from refaug.bots.generation import GeneratingBot
from refaug.bots.replier import Replier
from refaug.bots.retrieval import RetrievalBot
from refaug.bots.stored import specification_fields
from refaug.bots.stored.degraded_bot import DegradedBot
from refaug.bots.stored.endpoint_access import EndpointAccess, require_hosts
from refaug.bots.stored.endpoint_bot import EndpointBot
from refaug.bots.stored.local_bots import ConversingRetrievalBot, NamedBot
from refaug.bots.stored.replay_bot import ReplayBot
from refaug.bots.stored.specification import StoredBot
from refaug.indexer.search.index import ReferenceIndex

if TYPE_CHECKING:
    from refaug.rater.adem.vhred.artefact import Vhred

_MAX_TOKENS: Final = 200
_TURNS: Final = 50


def _no_index(spec: str) -> ReferenceIndex:
    raise LookupError(f"no index {spec} is opened here")


def _no_vhred(spec: str) -> Vhred:
    raise LookupError(f"no vhred {spec} is opened here")


@dataclass(frozen=True, kw_only=True)
class StoredBotSources:
    """How stored bots open what they reply from; the caller closes it."""

    open_index: Callable[[str], ReferenceIndex] = _no_index  # by name or name@version
    open_vhred: Callable[[str], Vhred] = _no_vhred  # the same
    access: EndpointAccess = field(default_factory=EndpointAccess)


def open_stored(stored: StoredBot, sources: StoredBotSources) -> Replier:
    """Open a stored bot; NotAllowed where its host may not be asked, BadInput where its key is not set."""
    return _OPENERS[stored.kind](stored, sources)


def _open_retrieval(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields, where = specification_fields.without_kind(stored.fields), f"bot {stored.name}"
    specification, (_, temperature) = (
        specification_fields.retrieval_specification(fields, where),
        specification_fields.pick_of(fields, where),
    )
    inner = RetrievalBot.of(specification, sources.open_index(specification.source))
    return ConversingRetrievalBot(spec=stored.spec, inner=inner, temperature=temperature)


def _open_neural(stored: StoredBot, sources: StoredBotSources) -> Replier:
    specification = specification_fields.neural_specification(
        specification_fields.without_kind(stored.fields), f"bot {stored.name}"
    )
    inner = GeneratingBot.of(specification, sources.open_vhred(specification.source))
    return NamedBot(spec=stored.spec, inner=inner)


def _open_replay(stored: StoredBot, sources: StoredBotSources) -> Replier:
    del sources
    fields = specification_fields.without_kind(stored.fields)
    return ReplayBot(
        spec=stored.spec,
        texts=specification_fields.replay_replies(fields, f"bot {stored.name}"),
        draws=fields.get("pick") == "sample",
        cycles=bool(fields.get("cycle", False)),
    )


def _open_degraded(stored: StoredBot, sources: StoredBotSources) -> Replier:
    wrapped, fields = stored.wrapped, specification_fields.without_kind(stored.fields)
    if wrapped is None:
        raise LookupError(f"bot {stored.name} wraps no bot")
    return DegradedBot(
        spec=stored.spec,
        inner=open_stored(wrapped, sources),
        share=float(fields.get("share", 0.5)),
        pool=specification_fields.degraded_pool(fields, f"bot {stored.name}"),
    )


def _open_openai(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields = specification_fields.without_kind(stored.fields)
    endpoint = endpoint_of(specification_fields.endpoint_fields(fields), where=f"bot {stored.name}", name=stored.name)
    _require_usable(stored, endpoint, sources.access)
    return EndpointBot(
        kind=stored.kind,
        spec=stored.spec,
        endpoint=endpoint,
        access=sources.access,
        most_turns=int(fields.get("turns", _TURNS)),
        system=str(fields.get("system", "")),
        max_tokens=int(fields.get("max_tokens", _MAX_TOKENS)),
        temperature=float(fields.get("temperature", 0.0)),
        spending=sources.access.spending_of(endpoint),
    )


def _open_http(stored: StoredBot, sources: StoredBotSources) -> Replier:
    fields = specification_fields.without_kind(stored.fields)
    most_turns = int(fields.pop("turns", _TURNS))
    endpoint = turns_endpoint_of(fields, where=f"bot {stored.name}", name=stored.name)
    _require_usable(stored, endpoint, sources.access)
    return EndpointBot(
        kind=stored.kind,
        spec=stored.spec,
        endpoint=endpoint,
        access=sources.access,
        most_turns=most_turns,
        spending=sources.access.spending_of(endpoint),
    )


def _require_usable(stored: StoredBot, endpoint: Endpoint, access: EndpointAccess) -> None:
    require_hosts(stored.name, stored.addresses, access.client.policy)
    endpoint.secret(access.client.environment)


_OPENERS: Final[Mapping[str, Callable[[StoredBot, StoredBotSources], Replier]]] = {
    "retrieval": _open_retrieval,
    "openai": _open_openai,
    "http": _open_http,
    "replay": _open_replay,
    "degraded": _open_degraded,
    "neural": _open_neural,
}
