"""Fields of the specifications of stored bots, checked kind by kind; an error names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from refaug.bots import generation, retrieval
from refaug.bots.endpoint.specification import FieldReader, endpoint_of, turns_endpoint_of
from refaug.bots.kinds import check_bot, kind_of
from refaug.bots.specification import BotSpecification
from refaug.core.errors import BadInput, Usage
from refaug.core.installation import BOTS, of_package, of_packages

MOST_LISTED: Final = 10_000  # texts of a list
MOST_TEXT: Final = 20_000  # characters of a text
MOST_TURNS: Final = 200  # that an endpoint is sent
SAMPLE: Final = re.compile(r"sample\(\s*(\d{1,4}(?:\.\d{1,6})?)\s*,\s*([1-9]\d{0,3})\s*\)")
CHAT_FIELDS: Final = ("system", "temperature", "max_tokens", "turns")
_SOURCE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?")
_RETRIEVAL_FIELDS: Final = ("index", "mode", "pick", "exclude_logs", "after", "before")
_NEURAL_FIELDS: Final = ("vhred", "method", "choice", "beams", "temperature", "top_k", "max_tokens", "conversation")
_DEGRADED_FIELDS: Final = ("bot", "share", "pool")
_REPLAY_FIELDS: Final = ("replies", "pick", "cycle")

Fields = Mapping[str, Any]
_Checked = TypeVar("_Checked")


def retrieval_specification(fields: Fields, where: str) -> BotSpecification:
    """Return how a stored bot searches, as a bot of a command is written; `k` is the number of candidates."""
    reader = _reader(fields, where, _RETRIEVAL_FIELDS)
    candidates, _ = pick_of(fields, where)
    settings = [(key, text) for key in ("mode", "after", "before") if (text := reader.text(key)) is not None]
    settings += [("exclude-log", log) for log in _texts(reader, fields, "exclude_logs", least=0)]
    settings += [("k", str(candidates))] if candidates > 1 else []
    specification = BotSpecification(kind="retrieval", source=_source(reader, "index"), settings=tuple(settings))
    search = _named(where, lambda: retrieval.search_settings(specification))
    if search.is_dialog:
        raise reader.bad("mode", f"{search.mode} compares with a gold, which no conversation has", "bm25-utterance")
    return specification


def pick_of(fields: Fields, where: str) -> tuple[int, float | None]:
    """Return the number of candidates and the temperature of the draw; None: the best one is taken."""
    reader = FieldReader(fields, where)
    text = reader.text("pick") or "top"
    if text == "top":
        return 1, None
    match = SAMPLE.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 1_000 or not 2 <= int(match[2]) <= 1_000:
        raise reader.bad("pick", f"{text!r} is neither top nor sample(T,k)", "top, or sample(0.5,10): T > 0, k from 2")
    return int(match[2]), float(match[1])


def neural_specification(fields: Fields, where: str) -> BotSpecification:
    """Return how a network writes, as a bot of a command is written."""
    reader = _reader(fields, where, _NEURAL_FIELDS)
    settings = [(name, text) for name in ("method", "choice", "conversation") if (text := reader.text(name))]
    for name in ("beams", "temperature", "top_k", "max_tokens"):
        if name in fields:
            number = reader.number(name, 0, 0, 1e9, whole=name != "temperature")
            settings.append((name.replace("_", "-"), f"{number:g}" if name == "temperature" else str(int(number))))
    specification = BotSpecification(kind="vhred", source=_source(reader, "vhred"), settings=tuple(settings))
    _named(where, lambda: generation.generation_settings(specification))
    return specification


def package_specification(kind: str, fields: Fields, where: str) -> BotSpecification:
    """Return how a bot of a package's kind replies, as a bot of a command is written: `source` and its keys."""
    reader = FieldReader(fields, where)
    source = (found.artefact if (found := kind_of(kind)) is not None else None) or "source"
    settings = tuple(
        (key, str(one))
        for key, content in fields.items()
        if key != source
        for one in (content if isinstance(content, list) else [content])
    )
    specification = BotSpecification(kind=kind, source=reader.text(source, required=True) or "", settings=settings)
    return _named(where, lambda: check_bot(specification))


def replay_replies(fields: Fields, where: str) -> tuple[str, ...]:
    """Return the fixed replies of a bot; none of them is empty."""
    return _texts(_reader(fields, where, _REPLAY_FIELDS), fields, "replies", least=1)


def degraded_pool(fields: Fields, where: str) -> tuple[str, ...]:
    """Return the texts that words are replaced from; those of a replayed bot where none are listed."""
    reader = _reader(fields, where, _DEGRADED_FIELDS)
    if "pool" in fields:
        return _texts(reader, fields, "pool", least=2)
    wrapped = fields.get("bot")
    if isinstance(wrapped, dict) and wrapped.get("kind") == "replay" and len(wrapped.get("replies", ())) > 1:
        return replay_replies(without_kind(wrapped), f"{where}, bot")
    raise reader.bad("pool", "there are no texts to take words from", 'a list of two or more replies, "pool": ["…"]')


def without_kind(fields: Fields) -> dict[str, Any]:
    """Return the fields beside the kind and, in a wrapped bot, its name."""
    return {key: field for key, field in fields.items() if key not in ("kind", "name")}


def endpoint_fields(fields: Fields) -> dict[str, object]:
    """Return the fields of a chat bot that describe its endpoint; `base_url` is another word for `url`."""
    chosen = {key: field for key, field in fields.items() if key not in CHAT_FIELDS}
    return {"url": chosen.pop("base_url"), **chosen} if "base_url" in chosen and "url" not in chosen else chosen


# ── Checks, one a kind ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_retrieval(fields: Fields, where: str) -> None:
    retrieval_specification(fields, where)


def _check_neural(fields: Fields, where: str) -> None:
    neural_specification(fields, where)


def _check_openai(fields: Fields, where: str) -> None:
    reader = FieldReader(fields, where)
    _require_text(reader, fields, "system")
    reader.number("temperature", 0.0, 0, 10)
    reader.number("max_tokens", 1, 1, 100_000, whole=True)
    reader.number("turns", 1, 1, MOST_TURNS, whole=True)
    endpoint_of(endpoint_fields(fields), where=where, name=where)


def _check_http(fields: Fields, where: str) -> None:
    chosen = {key: field for key, field in fields.items() if key != "turns"}
    FieldReader(fields, where).number("turns", 1, 1, MOST_TURNS, whole=True)
    turns_endpoint_of(chosen, where=where, name=where)


def _check_replay(fields: Fields, where: str) -> None:
    replay_replies(fields, where)
    reader = FieldReader(fields, where)
    pick = reader.choice("pick", ("turn", "sample"))
    if not isinstance(fields.get("cycle", False), bool):
        raise reader.bad("cycle", "true or false was expected", '"cycle": true')
    if pick == "sample" and "cycle" in fields:
        raise reader.bad("cycle", "it has no effect where replies are drawn", "leave it out")


def _check_degraded(fields: Fields, where: str) -> None:
    reader = _reader(fields, where, _DEGRADED_FIELDS)
    if not reader.number("share", 0.5, 0, 1) > 0:
        raise reader.bad("share", "nothing would be replaced", "above 0, at most 1")
    wrapped = fields.get("bot")
    if not isinstance(wrapped, dict) or wrapped.get("kind") == "degraded":
        raise reader.bad("bot", "a bot of another kind was expected", "a stored bot's name, or its specification")
    check_fields(wrapped, f"{where}, bot")
    degraded_pool(fields, where)


CHECKS: Final[Mapping[str, Callable[[Fields, str], None]]] = {
    "retrieval": _check_retrieval,
    "openai": _check_openai,
    "http": _check_http,
    "replay": _check_replay,
    "degraded": _check_degraded,
    "neural": _check_neural,
}


def check_fields(fields: Fields, where: str) -> None:
    """Check a specification; BadInput names the field that is wrong."""
    kind, others = fields.get("kind"), without_kind(fields)
    if not isinstance(kind, str) or (kind not in CHECKS and not of_package(BOTS, kind, "kind of bot")):
        kinds = ", ".join([*CHECKS, *sorted(of_packages(BOTS))])
        raise BadInput(f"{where}, kind: {kind!r} is not a kind of bot", remedy=f"one of: {kinds}")
    if kind in CHECKS:
        CHECKS[kind](others, where)
    else:
        package_specification(kind, others, where)


# ── Fields ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reader(fields: Fields, where: str, names: tuple[str, ...]) -> FieldReader:
    reader = FieldReader(fields, where)
    reader.require_only(names)
    return reader


def _source(reader: FieldReader, name: str) -> str:
    text = reader.text(name, required=True) or ""
    if not _SOURCE.fullmatch(text):
        raise reader.bad(name, f"{text[:80]!r} is not a name, with or without a version", "chat, or chat@2026-11-20.1")
    return text


def _texts(reader: FieldReader, fields: Fields, name: str, *, least: int) -> tuple[str, ...]:
    listed = fields.get(name, [])
    if not isinstance(listed, list) or not least <= len(listed) <= MOST_LISTED:
        raise reader.bad(name, "a list of texts was expected", f"{least} to {MOST_LISTED:,} texts")
    for place, text in enumerate(listed):
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_TEXT:
            raise reader.bad(f"{name}[{place}]", "a text was expected", f"1 to {MOST_TEXT:,} characters, not blank")
    return tuple(listed)


def _require_text(reader: FieldReader, fields: Fields, name: str) -> None:
    text = fields.get(name, "")
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise reader.bad(name, "a text was expected", f"at most {MOST_TEXT:,} characters")


def _named(where: str, check: Callable[[], _Checked]) -> _Checked:
    """Return what a check of another module returns; its error says where the specification stands."""
    try:
        return check()
    except Usage as error:
        raise BadInput(f"{where}: {error.message}", remedy=error.remedy) from error
