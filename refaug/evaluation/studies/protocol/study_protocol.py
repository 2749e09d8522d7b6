"""The protocol of a study: one JSON file, checked and hashed; a study keeps it as it was when it opened.

    {"kind": "chat", "bots": ["c-bm25", "vhred"], "per_participant": 4, "min_turns": 3, "form": "chat-quality-5"}

What is left out gets its default, so that equal studies have equal hashes. Texts stand in the protocol itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import orjson

from refaug.core.errors import BadInput
from refaug.core.files import NAME
from refaug.evaluation.studies.protocol import protocol_parts as parts
from refaug.evaluation.studies.protocol.study_fields import StudyFields
from refaug.evaluation.studies.protocol.study_form import StudyForm, find_form
from refaug.evaluation.studies.records import StudyKind

MOST_BYTES: Final = 4_000_000  # of a protocol
MOST_BOTS: Final = 50
MOST_TASKS: Final = 200  # of a participant
_MOST_CONSENT: Final = 100_000  # characters
_FIELDS: Final = (
    "kind", "title", "language", "bots", "per_participant", "ratings_per_item", "target", "min_turns", "max_turns",
    "max_message_chars", "order", "opening", "openings", "delay", "votes", "consent", "guidelines", "form", "training",
    "checks", "exclude", "analysis", "retention_days", "screening", "quotas", "participants", "completion", "pay",
    "stop", "reservation_minutes", "skips", "undo", "page_texts", "translations", "seed", "adult_content", "items",
)  # fmt: skip
_CHAT_FIELDS: Final = (
    "bots",
    "min_turns",
    "max_turns",
    "max_message_chars",
    "opening",
    "openings",
    "delay",
    "votes",
    "target",
)
_ITEM_FIELDS: Final = ("ratings_per_item", "items")
_FROZEN: Final = ("bot_hashes", "items_sha256")  # added when the study opens


CHATS: Final = frozenset({StudyKind.CHAT, StudyKind.CHAT_PAIR})
ATTENTION: Final = "attention"  # the question that says which answer to give

_DEFAULT_FORMS: Final[Mapping[StudyKind, str]] = {
    StudyKind.CHAT: "chat-quality-5",
    StudyKind.CHAT_PAIR: "prefer-dialogue-4",
    StudyKind.RATE_DIALOGUE: "chat-quality-5",
    StudyKind.PAIR_DIALOGUE: "prefer-dialogue-4",
    StudyKind.PAIR_REPLY: "prefer-reply-4",
    StudyKind.RATE_REPLY: "reply-overall",
    StudyKind.RATE_REFERENCE: "reply-appropriateness",
}


@dataclass(frozen=True, kw_only=True)
class StudyProtocol:
    """A checked protocol, with every default written out."""

    fields: Mapping[str, Any]

    @classmethod
    def of(cls, table: Mapping[str, Any], *, where: str = "protocol") -> Self:
        """Check a protocol; BadInput names the field, what was found, and what would be right."""
        if not isinstance(table, Mapping):
            raise BadInput(f"{where}: a protocol is a JSON object", remedy='{"kind": "chat", "bots": ["…", "…"]}')
        if len(orjson.dumps(dict(table))) > MOST_BYTES:
            raise BadInput(f"{where}: more than {MOST_BYTES:,} bytes", remedy="put long items into a file of items")
        return cls(fields=_checked(table, where))

    @classmethod
    def stored(cls, content: str | bytes) -> Self:
        """Return a protocol that was checked before it was stored."""
        return cls(fields=orjson.loads(content))

    @property
    def content(self) -> bytes:
        """The protocol as JSON with sorted keys, which is hashed."""
        return orjson.dumps(dict(self.fields), option=orjson.OPT_SORT_KEYS)

    @property
    def sha256(self) -> str:
        """The hash of everything in it."""
        return hashlib.sha256(self.content).hexdigest()

    def frozen(self, bot_hashes: Mapping[str, str], items_sha256: str | None) -> StudyProtocol:
        """Return the protocol with the hashes of what it names, as a study opens with it."""
        fields = {name: content for name, content in self.fields.items() if name not in _FROZEN}
        fields["bot_hashes"] = dict(bot_hashes)
        if items_sha256 is not None:
            fields["items_sha256"] = items_sha256
        return StudyProtocol(fields=fields)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @cached_property
    def kind(self) -> StudyKind:
        """What participants do."""
        return StudyKind(self.fields["kind"])

    @cached_property
    def form(self) -> StudyForm:
        """What participants are asked about each task."""
        return find_form(self.fields["form"], where="protocol")

    @property
    def bots(self) -> tuple[str, ...]:
        """The names of the bots that participants talk with."""
        return tuple(self.fields["bots"])

    @property
    def consent_sha256(self) -> str:
        """The hash of the text that participants agree to, in all its languages."""
        texts = [
            self.fields["consent"],
            {key: words.get("consent") for key, words in self.fields["translations"].items()},
        ]
        return hashlib.sha256(orjson.dumps(texts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that participants may choose, its first one first."""
        return tuple(dict.fromkeys((self.fields["language"], *self.fields["translations"], *self.form.texts)))

    def text(self, name: str, language: str) -> str:
        """Return title, consent or guidelines in a language, or as they are where they are not translated."""
        return str(self.fields["translations"].get(language, {}).get(name) or self.fields[name])


def is_chat(kind: StudyKind) -> bool:
    """Return whether participants talk with bots."""
    return kind in CHATS


def side_names(kind: StudyKind) -> tuple[str, ...]:
    """Return the names of the sides of a task."""
    return ("left", "right") if kind.is_pair else ("one",)


def _checked(table: Mapping[str, Any], where: str) -> dict[str, object]:
    fields = StudyFields(table, where)
    fields.require_known((*_FIELDS, *_FROZEN))
    if table.get("kind") is None:
        raise fields.bad("kind", "it is missing", f"one of: {', '.join(StudyKind)}")
    kind = StudyKind(fields.choice("kind", tuple(StudyKind)))
    _require_fitting(fields, table, kind)
    bots = _bots(fields, kind)
    form = find_form(table.get("form", _DEFAULT_FORMS.get(kind)), where=where)
    _require_fitting_form(form, kind, where)
    screening = parts.screening_part(fields, where)
    checked: dict[str, object] = {
        "kind": kind.value,
        "title": fields.long_text("title", 200) or "Study",
        "language": fields.language("language", "en"),
        "bots": list(bots),
        "per_participant": fields.whole("per_participant", _tasks(kind, bots), 1, MOST_TASKS),
        "order": fields.choice("order", ("williams", "random")),
        "form": form.as_json(),
        "consent": fields.long_text("consent", _MOST_CONSENT),
        "guidelines": fields.long_text("guidelines", _MOST_CONSENT),
        "training": parts.training_part(fields, form, where),
        "checks": parts.checks_part(fields, where, asks_bots=is_chat(kind)),
        "exclude": parts.exclusion_part(fields, where),
        "analysis": parts.analysis_part(fields, where, bots),
        "retention_days": fields.whole("retention_days", 365, 1, 36_500),
        "screening": screening,
        "quotas": parts.quota_part(fields, screening, where),
        "participants": fields.whole("participants", 100_000, 1, 1_000_000),
        "completion": parts.completion_part(fields, where),
        "pay": parts.pay_part(fields, where),
        "stop": parts.stop_part(fields, where),
        "reservation_minutes": fields.number("reservation_minutes", 45, 1, 10_080),
        "skips": fields.whole("skips", 3, 0, MOST_TASKS),
        "undo": fields.flag("undo", default=True),
        "page_texts": _page_texts(fields, where),
        "translations": parts.translation_part(fields, where, ("title", "consent", "guidelines"), _MOST_CONSENT),
        "seed": fields.whole("seed", 1, 0, 2**32 - 1),
        "adult_content": fields.flag("adult_content"),
    }
    checked |= _chat_settings(fields) if is_chat(kind) else _item_settings(fields)
    _require_consistent(fields, checked, kind)
    return checked | {name: table[name] for name in _FROZEN if name in table}


def _require_fitting(fields: StudyFields, table: Mapping[str, Any], kind: StudyKind) -> None:
    """Refuse settings that have no effect for this kind."""
    idle = _ITEM_FIELDS if is_chat(kind) else _CHAT_FIELDS
    for name in idle:
        if name in table:
            raise fields.bad(name, f"it has no effect in a study of kind {kind}", "leave it out")


def _require_fitting_form(form: StudyForm, kind: StudyKind, where: str) -> None:
    for question in form.questions:
        at = f"{where}, form {form.name}, {question.id}"
        if question.id == ATTENTION:
            raise BadInput(f"{at}: this id belongs to the check of attention", remedy="another id")
        if question.type == "pair" and not kind.is_pair:
            raise BadInput(f"{at}: a study of kind {kind} has no two sides", remedy="a question of another type")
        if question.scope == "turn" and kind not in (StudyKind.LABEL_TURNS, StudyKind.RATE_DIALOGUE):
            raise BadInput(f"{at}: turns are labelled in label-turns and rate-dialogue", remedy='"scope": "task"')
        if question.type == "spans" and question.scope != "turn":
            raise BadInput(f"{at}: spans are marked in a turn", remedy='"scope": "turn"')
    if kind is StudyKind.LABEL_TURNS and not any(question.scope == "turn" for question in form.questions):
        raise BadInput(
            f"{where}, form {form.name}: no question is about turns", remedy='"scope": "turn" in one of them'
        )


def _bots(fields: StudyFields, kind: StudyKind) -> tuple[str, ...]:
    bots = fields.texts("bots", MOST_BOTS, longest=64)
    if not is_chat(kind):
        return bots
    least = 2 if kind is StudyKind.CHAT_PAIR else 1
    if len(bots) < least:
        raise fields.bad("bots", f"{len(bots)} bots in a study of kind {kind}", f"{least} or more; refaug bots list")
    for bot in bots:
        if NAME.fullmatch(bot) is None:
            raise fields.bad("bots", f"{bot!r} is no name of a stored bot", "a name; refaug bots list has them")
    if len(set(bots)) < len(bots):
        raise fields.bad("bots", "one of them is listed twice", "each bot once")
    return bots


def _tasks(kind: StudyKind, bots: tuple[str, ...]) -> int:
    if kind is StudyKind.CHAT:
        return len(bots)
    if kind is StudyKind.CHAT_PAIR:
        return min(MOST_TASKS, len(bots) * (len(bots) - 1) // 2)
    return 10


def _page_texts(fields: StudyFields, where: str) -> dict[str, str]:
    inner = StudyFields(fields.table("page_texts"), f"{where}, page_texts")
    names = ("welcome", "thanks", "screened_out", "full", "closed", "trouble")
    inner.require_known(names)
    return {name: text for name in names if (text := inner.long_text(name, 4_000))}


def _chat_settings(fields: StudyFields) -> dict[str, object]:
    least = fields.whole("min_turns", 3, 0, 200)
    most = fields.whole("max_turns", max(30, least), 1, 200)
    if most < least:
        raise fields.bad("max_turns", f"{most} is below min_turns, {least}", f"{least} or more")
    openings = fields.texts("openings", 100, longest=2_000)
    opening = fields.choice("opening", ("participant", "bot", "fixed"))
    if (opening == "fixed") != bool(openings):
        raise fields.bad(
            "openings", "texts to begin with go with opening fixed", '"opening": "fixed", "openings": ["Hi!"]'
        )
    return {
        "min_turns": least,
        "max_turns": most,
        "max_message_chars": fields.whole("max_message_chars", 2_000, 1, 200_000),
        "opening": opening,
        "openings": list(openings),
        "delay": fields.choice("delay", ("typing", "none")),
        "votes": fields.flag("votes", default=True),
        "target": fields.whole("target", 50, 1, 1_000_000),
    }


def _item_settings(fields: StudyFields) -> dict[str, object]:
    return {"ratings_per_item": fields.whole("ratings_per_item", 1, 1, 1_000)}


def _require_consistent(fields: StudyFields, checked: Mapping[str, Any], kind: StudyKind) -> None:
    """Refuse parts that cannot go together."""
    rules, checks = checked["exclude"], checked["checks"]
    for rule, check in (
        ("failed_attention", "attention"),
        ("degraded_not_lower", "degraded"),
        ("repeat_differs_by", "repeat"),
    ):
        if rules.get(rule) and not checks[check]:
            raise fields.bad(
                "exclude", f"{rule} needs a check that the study does not have", f'"checks": {{"{check}": 1}}'
            )
    if rules.get("failed_attention", 0) > checks["attention"]:
        raise fields.bad(
            "exclude", "failed_attention is more than there are attention checks", f"1 to {checks['attention']}"
        )
    if checks["attention"] > checked["per_participant"]:
        raise fields.bad(
            "checks", "there are more attention checks than tasks", f"at most {checked['per_participant']}"
        )
    if checks["repeat"] and checked["per_participant"] <= checks["repeat"]:
        raise fields.bad("checks", "a repeated task needs earlier ones", f"at most {checked['per_participant'] - 1}")
    if is_chat(kind) and rules.get("seconds_per_task_below") and rules.get("seconds_per_turn_below"):
        raise fields.bad("exclude", "seconds_per_turn_below and seconds_per_task_below", "one of them")
